"""Topics of real connectors become the databases' tables, without a declared column (fixtures/recordings/)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ingestion.replay import FoldedReplay, Replay, final_rows
from tests.support import recordings

FEWEST_TABLES = 99
FEWEST_ROWS = 1350
IN_SPARK = {
    "maria-unwrap-tombstone-json": 100,
    "maxwell": 1000,
    "my-json-schemas": 100,
    "pg-avro-unwrap-connect": 1000,
    "pg-one-topic": 1000,
}
"""Recordings that differ in format, in schemas and in keys, each with the number of records of a batch."""
FEWEST_TABLES_IN_SPARK = 17
FEWEST_ROWS_IN_SPARK = 250
TYPES = {
    "my-json-schemas: shop.num": {"n102": "DECIMAL(10, 2)", "ti": "SMALLINT", "iu": "BIGINT", "r": "FLOAT"},
    "my-json-schemas: shop.tim": {"d": "DATE", "t6": "TIME(6)", "tn": "STRING", "s3": "TIMESTAMP(3)"},
    "my-json-schemas: shop.alt": {"id": "INT NOT NULL", "c": "DECIMAL(8, 3)"},
    "maria-avro: shop.tim": {"d": "DATE", "t6": "TIME(6)", "tn": "STRING", "z6": "TIMESTAMP_LTZ(6)"},
    "pg-avro: full.num": {"n102": "DECIMAL(10, 2)", "n": "STRING", "b8": "BIGINT"},
    "pg-json-default: full.num": {"n102": "STRING", "i": "BIGINT", "d": "STRING"},
    "maxwell: shop.tim": {"d": "DATE", "t6": "STRING", "s6": "TIMESTAMP(6)"},
}
"""Types that the schemas of messages declare, or that their values have. A MySQL TIME may not be a time of day, and
NaN is a text."""


@pytest.mark.parametrize("size", [7, 1000])
def test_the_rows_of_all_recordings(tmp_path: Path, size: int) -> None:
    tables = rows = typed = 0
    for recording in recordings.names():
        replay = FoldedReplay(recording, tmp_path)
        replay.run_all(size)
        for table in replay.recorded:
            if not table.key:
                continue  # an update of its rows is an error, which asks for a key
            found = replay.found(table)
            assert replay.errors == []
            wanted = TYPES.get(str(table), {})
            assert {name: kind for name, kind in replay.types(table).items() if name in wanted} == wanted, str(table)
            assert recordings.differences(table, final_rows(table, found, tmp_path)) == [], str(table)
            tables += 1
            rows += len(found)
            typed += bool(wanted)
    print(f"{tables} tables, {rows} rows")
    assert tables >= FEWEST_TABLES
    assert rows >= FEWEST_ROWS
    assert typed == len(TYPES)


@pytest.mark.spark
@pytest.mark.slow
def test_topics_become_tables_in_spark(spark: Any, tmp_path: Path) -> None:
    tables = rows = 0
    for recording, size in IN_SPARK.items():
        replay = Replay(spark, tmp_path / recording, recording)
        replay.run_all(size)
        for table in replay.recorded:
            found = final_rows(table, replay.found(table).toArrow(), tmp_path)
            assert recordings.differences(table, found) == [], str(table)
            tables += 1
            rows += len(found)
    print(f"{tables} tables of {len(IN_SPARK)} recordings, {rows} rows")
    assert tables >= FEWEST_TABLES_IN_SPARK
    assert rows >= FEWEST_ROWS_IN_SPARK
