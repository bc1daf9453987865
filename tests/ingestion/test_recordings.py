"""Topics of real connectors become the databases' tables, without a declared column (fixtures/recordings/)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ingestion.replay import Replay, final_rows
from tests.support import recordings

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES = {
    "maria-avro": 1000,
    "maria-canal": 1000,
    "maria-unwrap-tombstone-json": 100,
    "maxwell": 1000,
    "my-json-schemas": 100,
    "pg-avro": 1000,
    "pg-avro-unwrap-connect": 1000,
    "pg-json-isostring-hex": 100,
    "pg-one-topic": 1000,
    "pg-unwrap-rewrite": 1000,
}
"""Recordings that differ in format, in schemas and in keys, each with the number of records of a batch."""
FEWEST_TABLES = 35
FEWEST_ROWS = 400
TYPES = {
    "my-json-schemas: shop.num": {"n102": "decimal(10,2)", "ti": "smallint", "iu": "bigint", "r": "float"},
    "my-json-schemas: shop.tim": {"d": "date", "t6": "time(6)", "tn": "string", "s3": "timestamp_ntz"},
    "my-json-schemas: shop.alt": {"id": "int", "c": "decimal(8,3)"},
    "maria-avro: shop.tim": {"d": "date", "t6": "time(6)", "tn": "string", "z6": "timestamp"},
    "pg-avro: full.num": {"n102": "decimal(10,2)", "n": "string", "b8": "bigint"},
    "pg-avro-unwrap-connect: full.pk": {"d": "date", "n": "decimal(4,2)", "z": "timestamp"},
}
"""Types that the schemas of messages declare. MySQL's TIME is a STRING where a value is not a time of day."""


def test_topics_become_the_tables_of_the_database(spark: Any, tmp_path: Path) -> None:
    tables = rows = 0
    for recording, size in BATCHES.items():
        replay = Replay(spark, tmp_path / recording, recording)
        replay.run_all(size)
        for table in replay.recorded:
            frame = replay.found(table)
            wanted = TYPES.get(str(table), {})
            assert {name: kind for name, kind in frame.dtypes if name in wanted} == wanted, str(table)
            found = final_rows(table, frame.toArrow(), tmp_path)
            assert recordings.differences(table, found) == [], str(table)
            tables += 1
            rows += len(found)
    print(f"{tables} tables of {len(BATCHES)} recordings, {rows} rows")
    assert tables >= FEWEST_TABLES
    assert rows >= FEWEST_ROWS
