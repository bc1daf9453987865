"""Decoding captured topics in Spark gives the databases' tables (fixtures/recordings/)."""

from __future__ import annotations

from codecs import latest_by_key
from pathlib import Path
from typing import Any

import pytest

from kvformat.codecs import KeyValueFormat
from tests.support import recordings

pytestmark = pytest.mark.spark

TABLES = {
    "orders": "orders",
    "accounts": "accounts",
    "my-json-schemas": "shop.num",
    "maria-unwrap-tombstone-json": "shop.pk",
    "pg-avro-unwrap-connect": "full.pk",
    "pg-json-default": "full.num",
    "pg-unwrap-tombstone-json": "full.wide",
    "pg-unwrap-tombstone-schemas": "full.num",
}
FEWEST_ROWS = 130


@pytest.mark.slow
def test_a_captured_topic_gives_the_table(spark: Any, tmp_path: Path) -> None:
    rows = 0
    for recording, name in TABLES.items():
        table = next(table for table in recordings.tables(recording) if table.name == name)
        kv = KeyValueFormat.from_ddl(table.statement(tmp_path))
        records = [(r.partition, r.offset, r.key, r.value) for r in table.records()]
        df = spark.createDataFrame(records, "partition INT, offset BIGINT, key BINARY, value BINARY").repartition(2)
        changes = kv.decode(df, metadata=["partition", "offset"], row_index=True)
        now = latest_by_key(changes, kv).toArrow()
        found = {column: recordings.plain(now.column(column).combine_chunks()) for column in table.columns}
        got = [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]
        assert recordings.differences(table, got) == [], str(table)
        rows += len(got)
    print(f"{len(TABLES)} tables, {rows} rows")
    assert rows >= FEWEST_ROWS


@pytest.mark.once
def test_all_named_tables_exist() -> None:
    assert set(TABLES) <= set(recordings.names())
