"""Tables below a path."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion.errors import SchemaChangeError, UnsupportedChangeError
from kvformat.ingestion.schemas.events import AlterColumnTypes
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.ingestion.targets.delta_path import DeltaPathTarget, read_table
from kvformat.ingestion.targets.target import BatchWrite, MaintainedTable, TableOptions, Target
from kvformat.ingestion.testing import TargetSuite
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry import KeyValueFormat
from kvformat.registry.contract.errors import ConfigurationError

pytestmark = pytest.mark.spark


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_rows_are_merged_appended_and_read_again(spark: Any, tmp_path: Path) -> None:
    target = DeltaPathTarget(tmp_path / "lake").with_session(spark)
    keyed, plain = TableId(("shop", "rows")), TableId(("a.b", "notes", "ü*[x]"))
    schema = table_schema("id INT", "v STRING", key=["id"])
    for table, made in ((keyed, schema), (plain, table_schema("id INT"))):
        target.create(table, made, TableOptions(), "q")
    with pytest.raises(ConfigurationError, match=r"there is no table shop\.other at '.*lake'"):
        read_table(spark, tmp_path / "lake", "shop.other")
    with pytest.raises(SchemaChangeError, match=r"table shop\.other: there is no such table at '.*lake'"):
        target.own(TableId.parse("shop.other"), "q")
    for batch in range(5):
        rows = spark.createDataFrame(
            [(batch, "new", "+U"), (batch - 1, None, "-D")], "id INT, v STRING, row_kind STRING"
        )
        target.write(keyed, schema, rows, BatchWrite("q", batch))
        target.write(plain, table_schema("id INT"), rows.select("id"), BatchWrite("q", batch))
    assert _rows(read_table(spark, tmp_path / "lake", "shop.rows")) == [(4, "new")]
    assert _rows(read_table(spark, tmp_path / "lake", plain)) == sorted((n,) for b in range(5) for n in (b, b - 1))
    assert {path.name for path in (tmp_path / "lake").iterdir()} == {"shop.rows", "a~2Eb.notes.~C3~BC~2A~5Bx~5D"}
    with pytest.raises(
        ConfigurationError, match=r"has batch 4 of this query, but this is batch 3: the query runs twice"
    ):
        target.write(keyed, schema, rows, BatchWrite("q", 3))
    event = AlterColumnTypes(keyed, (("v", parse_column_type("INT")),))
    with pytest.raises(UnsupportedChangeError, match=r"'v' of type STRING can't become INT.*; STRING does"):
        target.change(event, event.apply(schema), BatchWrite("q", 5))


@pytest.mark.slow
def test_a_name_that_is_too_long_for_a_folder_is_cut(spark: Any, tmp_path: Path) -> None:
    """MySQL allows 64 characters, and a character may take 9 bytes in a URL."""
    target = DeltaPathTarget(tmp_path).with_session(spark)
    tables = [TableId(("shop", "\u8ba2" * 63 + end)) for end in "ab"]
    schema = table_schema("id INT", key=["id"])
    for number, table in enumerate(tables):
        target.create(table, schema, TableOptions(), "q")
        target.write(
            table, schema, spark.createDataFrame([(number, "+U")], "id INT, row_kind STRING"), BatchWrite("q", 0)
        )
    assert [_rows(read_table(spark, tmp_path, table)) for table in tables] == [[(0,)], [(1,)]]


@pytest.mark.slow
def test_a_table_of_changes_has_their_kinds_and_places(spark: Any, tmp_path: Path) -> None:
    target = DeltaPathTarget(tmp_path, write_mode="append", types="broaden").with_session(spark)
    table, schema = TableId(("t",)), table_schema("id INT", key=["id"])
    target.create(table, schema, TableOptions(), "q")
    ddl = (
        "id INT, row_kind STRING, _kvformat_topic STRING, _kvformat_partition INT, _kvformat_offset LONG, row_index INT"
    )
    changes = [(1, "+I", "t", 0, 5, 0), (1, "-U", "t", 0, 6, 0), (1, "+U", "t", 0, 6, 1)]
    for _ in range(2):
        target.write(table, schema, spark.createDataFrame(changes, ddl), BatchWrite("q", 0))
    found = target.schema(table)
    assert found is not None
    assert found.columns.simpleString() == "struct<id:bigint>"
    assert _rows(read_table(spark, tmp_path, "t")) == sorted(changes)
    with pytest.raises(SchemaChangeError, match="has no such table, and 'create-tables' is false"):
        DeltaPathTarget(tmp_path, create_tables=False).with_session(spark).create(
            TableId(("u",)), schema, TableOptions(), "q"
        )


def test_maintain_takes_a_target(spark: Any, tmp_path: Path) -> None:
    """A stream of files with the columns of Spark's Kafka source; its batches are run again from the start."""
    ddl = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
    options = {"connector": "upsert-kafka", "topic": "t", "key.format": "json", "value.format": "json"}
    target = DeltaPathTarget(tmp_path / "lake")
    (tmp_path / "records").mkdir()

    def send(columns: str, *records: tuple[int, bytes | None]) -> None:
        rows = [(b'{"id":%d}' % key, value, "t", 0, n, None, 0) for n, (key, value) in enumerate(records)]
        spark.createDataFrame(rows, ddl).coalesce(1).write.mode("append").parquet(str(tmp_path / "records"))
        kv = KeyValueFormat(columns, options, primary_key=["id"])
        stream = spark.readStream.schema(ddl).parquet(str(tmp_path / "records"))
        query = kv.maintain(
            stream, target, checkpoint_location=str(tmp_path / "checkpoint"), trigger={"availableNow": True}
        )
        assert query.awaitTermination(300)

    send("id INT, v STRING", (1, b'{"id":1,"v":"a"}'), (2, b'{"id":2,"v":"b"}'))
    send("id INT, v STRING, w INT", (2, None), (3, b'{"id":3,"v":"c","w":5}'))
    assert _rows(read_table(spark, tmp_path / "lake", "table")) == [(1, "a", None), (3, "c", 5)]
    merging = target.merging(KeyValueFormat("id INT", options, primary_key=["id"]), "shop.orders")
    assert (
        merging == MaintainedTable(target, TableId(("shop", "orders")), ("id",)) == pickle.loads(pickle.dumps(merging))
    )
    with pytest.raises(ConfigurationError, match="maintain writes the last row of each key"):
        DeltaPathTarget(tmp_path, write_mode="append").merging(KeyValueFormat("id INT", options, primary_key=["id"]))


class TestDeltaPathTarget(TargetSuite):
    @pytest.fixture
    def target(self, spark: Any, tmp_path: Path) -> Target:
        return DeltaPathTarget(tmp_path / "lake").with_session(spark)

    def read(self, target: Target, table: TableId) -> Any:
        assert isinstance(target, DeltaPathTarget)
        return read_table(target.spark, target.path, table)

    @pytest.mark.slow
    def test_unusual_names(self, target: Target) -> None:
        super().test_unusual_names(target)

    @pytest.mark.slow
    def test_columns_get_wider_types(self, target: Target) -> None:
        super().test_columns_get_wider_types(target)

    @pytest.mark.slow
    def test_values_of_all_types(self, target: Target) -> None:
        super().test_values_of_all_types(target)

    @pytest.mark.slow
    def test_columns_are_renamed_and_dropped(self, target: Target) -> None:
        super().test_columns_are_renamed_and_dropped(target)
