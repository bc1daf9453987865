"""Topics of real connectors become the databases' tables, without a declared column (fixtures/recordings/)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion import Pipeline, read_table
from kvformat.ingestion.store import SchemaStore
from tests.ingestion.history import SOURCE
from tests.ingestion.replay import FoldedReplay, final_rows, table_of_recording, together
from tests.support import recordings

FEWEST_TABLES = 99
FEWEST_ROWS = 1350
FORMS = {
    "debezium-json": (30, 446),
    "debezium-avro-confluent": (7, 69),
    "debezium-avro-confluent flattened": (8, 115),
    "canal-json": (3, 23),
    "debezium-json schema-include": (23, 236),
    "debezium-json flattened": (15, 279),
    "maxwell-json": (4, 62),
    "debezium-json flattened schema-include": (9, 126),
}
"""The forms of messages that a query can read together, each with the number of its tables and rows."""
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


def test_each_form_of_messages_is_replayed_in_spark(tmp_path: Path) -> None:
    assert [*together(tmp_path)] == [*FORMS]
    assert sum(tables for tables, _ in FORMS.values()) >= FEWEST_TABLES
    assert sum(rows for _, rows in FORMS.values()) >= FEWEST_ROWS


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("form", FORMS)
def test_all_topics_of_a_form_become_tables_in_spark(spark: Any, broker: Any, tmp_path: Path, form: str) -> None:
    """One query reads the topics of all recordings with messages of one form."""
    group = together(tmp_path / "schemas")[form]
    partitions: dict[tuple[str, int], list[tuple[bytes | None, bytes | None]]] = {}
    for record in group.records:
        partitions.setdefault((record.topic, record.partition), []).append((record.key, record.value))
    topics = {topic: number + 1 for topic, number in sorted(partitions)}
    broker.create_all(topics)
    broker.send_all(partitions)
    place = {"topic": ";".join(topics), "properties.bootstrap.servers": broker.bootstrap}
    pipeline = Pipeline({**SOURCE, **group.options, **place}, {"type": "delta", "path": str(tmp_path / "lake")})
    query = pipeline.start(spark, checkpoint_location=tmp_path / "checkpoint", trigger={"availableNow": True})
    assert query.awaitTermination(500), "the query did not end"
    assert query.exception() is None, query.exception()
    names = SchemaStore(spark, str(tmp_path / "checkpoint")).load()[0].schemas.targets
    rows = 0
    for table in group.tables:
        found = read_table(spark, tmp_path / "lake", table_of_recording(table, names)).toArrow()
        assert recordings.differences(table, final_rows(table, found, tmp_path)) == [], str(table)
        rows += len(found)
    print(f"{len(topics)} topics, {len(group.tables)} tables, {rows} rows")
    assert (len(group.tables), rows) == FORMS[form]
