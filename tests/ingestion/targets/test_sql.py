"""Statements for tables of a catalog, and which writes of a repeated batch they leave out. No Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import types as T

from kvformat.codecs.discovery.text_forms import DIGITS
from kvformat.ingestion.errors import SchemaChangeError, UnsupportedChangeError
from kvformat.ingestion.schemas.events import (
    AddColumns,
    AddedColumn,
    AlterColumnTypes,
    DropColumns,
    DropTable,
    RenameColumns,
    SchemaEvent,
    TruncateTable,
)
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.ingestion.targets import sql
from kvformat.ingestion.targets.delta import DeltaTarget
from kvformat.ingestion.targets.iceberg import IcebergTarget
from kvformat.ingestion.targets.sql import SqlTarget, _merge
from kvformat.ingestion.targets.target import BatchWrite, TableOptions
from kvformat.ingestion.targets.types import stored_columns
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry.contract.errors import ConfigurationError

TABLE = TableId(("shop", "t"))
PLAIN, KEYED = table_schema("id INT"), table_schema("id INT", "v STRING", key=["id"])
_PROPERTY = re.compile(r"'([^']+)' = '((?:[^'\\]|\\.)*)'")


class _Catalog(SqlTarget):
    """One table in memory: `statements` are those that were run, `writes` the rows that were written."""

    def __init__(self, columns: str = "id INT", properties: dict[str, str] | None = None, **options: Any) -> None:
        super().__init__("lake", **options)
        found = stored_columns(table_schema(*columns.split(", "))) if columns else None
        owned = {"kvformat.ingest": "q", "kvformat.table": '["shop", "t"]'} if properties is None else properties
        self.statements: list[str]
        self.writes: list[int]
        session = mock.MagicMock(target=self)
        vars(self).update(found=found, known=owned, statements=[], writes=[], positions={}, _session=session)

    def _columns(self, name: str) -> Any:
        return vars(self)["found"]

    def _properties(self, name: str) -> dict[str, str]:
        return dict(vars(self)["known"])

    def _sql(self, statement: str) -> list[Any]:
        vars(self)["statements"].append(statement.replace(" `lake`.`shop`.`t`", ""))
        if " SET TBLPROPERTIES " in statement:
            vars(self)["known"].update(_PROPERTY.findall(statement))
        return []

    def write_row(self, row: int, batch: BatchWrite, schema: TableSchema = PLAIN) -> None:
        """Write one row."""
        rows = mock.MagicMock()
        rows.writeTo().append.side_effect = lambda: vars(self)["writes"].append(row)
        self.write(TABLE, schema, rows, batch)


class _Positions(_Catalog):
    """A catalog whose commits keep their positions."""

    def written(self, name: str, query: str) -> int:
        found: int = vars(self)["positions"].get(query, -1)
        return found

    def position_settings(self, query: str, position: int) -> dict[str, str]:
        return {query: str(position)}


@contextmanager
def _shared(session: Any, query: str, settings: dict[str, str]) -> Iterator[None]:
    """Keep the position of a write."""
    yield
    vars(session.target)["positions"].update({query: int(position) for query, position in settings.items()})


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "converted_rows", lambda rows, *_, **__: rows)
    monkeypatch.setattr(sql, "shared_settings", _shared)
    monkeypatch.setattr(sql, "_merge", lambda name, rows, keys: rows.writeTo(name).append())


# --- writes of a repeated batch ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [_Catalog, _Positions])
def test_each_part_of_a_batch_is_appended_once(kind: type[_Catalog]) -> None:
    target = kind()
    for row, batch, part in [(1, 9, 0), (1, 9, 0), (2, 9, 1), (1, 9, 0), (2, 9, 1), (3, 10, 0), (3, 10, 0)]:
        target.write_row(row, BatchWrite("q", batch, part))
    assert target.writes == [1, 2, 3]
    with pytest.raises(ConfigurationError, match="has batch 10 of this query, but this is batch 9"):
        target.write_row(4, BatchWrite("q", 9, 5))


@pytest.mark.parametrize("kind", [_Catalog, _Positions])
def test_the_batches_of_another_query_are_counted_from_zero(kind: type[_Catalog]) -> None:
    target = kind()
    target.write_row(1, BatchWrite("q", 9))
    target.own(TABLE, "q2")
    for _ in range(2):
        target.write_row(2, BatchWrite("q2", 0))
    assert target.writes == [1, 2]


def test_a_repeated_truncate_keeps_the_rows_that_were_written_after_it() -> None:
    target = _Positions()
    session = vars(target)["_session"]
    session.table().where().writeTo().overwrite.side_effect = lambda _: target.writes.clear()
    steps: list[Any] = [
        lambda: target.write_row(1, BatchWrite("q", 4)),
        lambda: target.change(TruncateTable(TABLE), PLAIN, BatchWrite("q", 4, 1)),
        lambda: target.write_row(2, BatchWrite("q", 4, 1)),
    ]
    found = []
    with mock.patch("pyspark.sql.functions.lit", return_value=None):
        for end in (1, 2, 3, 3):
            for step in steps[:end]:
                step()
            found.append([*target.writes])
    assert found == [[1], [], [2], [2]]


def test_a_merge_is_repeated_unless_its_commits_keep_their_position() -> None:
    schema = KEYED
    plain, kept = _Catalog("id INT, v STRING"), _Positions("id INT, v STRING")
    for target in (plain, kept):
        for batch in (5, 5, 6):
            target.write_row(batch, BatchWrite("q", batch), schema)
    assert (plain.writes, kept.writes) == ([5, 5, 6], [5, 6])
    assert plain.statements == []
    plain.write_row(5, BatchWrite("q", 5), schema)
    with pytest.raises(ConfigurationError, match="has batch 6 of this query, but this is batch 5"):
        kept.write_row(5, BatchWrite("q", 5), schema)
    kept.write_row(7, BatchWrite("q", 0, counted=False), schema)
    assert kept.writes[-1] == 7, "batches that are not counted tell nothing about age"


def test_a_table_is_truncated_at_most_999_times_in_a_batch() -> None:
    target = _Positions()
    target.write_row(1, BatchWrite("q", 1, 999))
    target.write_row(2, BatchWrite("q", 2, 0))
    assert target.writes == [1, 2]
    with pytest.raises(SchemaChangeError, match="is truncated 1000 times in a batch, and 999 is the most"):
        target.write_row(3, BatchWrite("q", 2, 1000))


def test_rows_and_changes_of_a_table_of_another_query_are_errors() -> None:
    target = _Catalog(properties={"kvformat.ingest": "other"})
    for step in (
        lambda: target.write_row(1, BatchWrite("q", 0)),
        lambda: target.change(TruncateTable(TABLE), PLAIN, BatchWrite("q", 0)),
    ):
        with pytest.raises(ConfigurationError, match="take_over"):
            step()
    missing = _Catalog("")
    missing.change(TruncateTable(TABLE), PLAIN, BatchWrite("q", 0))
    with pytest.raises(SchemaChangeError, match="there is no table"):
        missing.write_row(1, BatchWrite("q", 0))


@pytest.mark.parametrize(
    ("texts", "position"),
    [
        (["kvformat q 5", "kvformat q 12", "kvformat q 7"], 12),
        (["kvformat q2 9", "kvformat q 5", None, "VACUUM"], 5),
        (["kvformat q2 9", "q 5", "kvformat q x 3", "akvformat q 8"], -1),
        (["nightly job kvformat q 4", "kvformat q 3"], 4),  # after a text of the user
    ],
)
def test_delta_finds_the_last_write_of_the_query_in_its_history(texts: list[str | None], position: int) -> None:
    with mock.patch.object(DeltaTarget, "_sql", return_value=[{"userMetadata": text} for text in texts]):
        assert DeltaTarget().written("t", "q") == position


# --- statements ----------------------------------------------------------------------------------------------


def test_a_table_is_created_with_its_keys_partitions_and_properties() -> None:
    target = _Catalog("", provider="p")
    vars(target)["properties"] = {"a": "1", "b": "1"}
    schema = table_schema("id INT", "v ROW<`x y` INT>", "d DATE", key=["id"])
    schema = replace(schema, columns=(*schema.columns[:2], replace(schema.columns[2], comment="it's")))
    options = TableOptions(("d", "id"), {"b": "2"})
    target.create(TABLE, schema, options, "q")
    made, table = target.statements
    assert made == "CREATE NAMESPACE IF NOT EXISTS `lake`.`shop`"
    assert table == (
        "CREATE TABLE IF NOT EXISTS (`id` INT NOT NULL, `v` STRUCT<`x y`: INT>, `d` DATE COMMENT 'it\\'s') USING p "
        "PARTITIONED BY (`d`, `id`) TBLPROPERTIES ('a' = '1', 'b' = '2', 'kvformat.ingest' = 'q', "
        """'kvformat.table' = '["shop", "t"]', 'kvformat.partition-keys' = '["d", "id"]')"""
    )
    there = _Catalog()
    there.create(TABLE, schema, options, "other")
    assert there.statements == []
    with pytest.raises(SchemaChangeError, match="'create-tables' is false"):
        _Catalog("", create_tables=False).create(TABLE, schema, options, "q")


def test_a_table_of_changes_has_no_key() -> None:
    target = _Catalog("", write_mode="append")
    target.create(TABLE, KEYED, TableOptions(), "q")
    columns = target.statements[1].partition(" TBLPROPERTIES")[0]
    assert columns == (
        "CREATE TABLE IF NOT EXISTS (`id` INT NOT NULL, `v` STRING, `row_kind` STRING, `_kvformat_topic` STRING, "
        "`_kvformat_partition` INT, `_kvformat_offset` BIGINT, `row_index` INT)"
    )
    made = _Catalog("id INT, row_kind STRING, _kvformat_topic STRING, row_index INT", write_mode="append")
    found = made.schema(TABLE)
    assert found is not None
    assert (found.columns.names, found.owner) == (["id"], "q")


def test_texts_in_statements_are_escaped() -> None:
    assert sql.literal("it's \\n") == r"'it\'s \\n'"


def test_a_table_that_the_catalog_folds_with_another_one_is_an_error() -> None:
    with pytest.raises(SchemaChangeError, match=r"has it already, as .* for the table Shop\.t"):
        _Catalog(properties={"kvformat.table": '["Shop", "t"]'}).schema(TABLE)
    assert _Catalog(properties={}).schema(TABLE) is not None, "a table that somebody else made"


@pytest.mark.parametrize("fails", [False, True])
def test_a_merge_deletes_updates_and_inserts_by_the_whole_key(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """A deletion of a row that is not there does nothing. The view of the rows is gone afterwards."""
    monkeypatch.setattr(sql, "exact_column", mock.Mock())
    changes = mock.Mock(columns=["id", "a b", "v", "row_kind", "unchanged_columns"])
    spark = changes.sparkSession
    spark.sql.side_effect = AnalysisException("no") if fails else None
    with pytest.raises(AnalysisException) if fails else nullcontext():
        _merge("t", changes, ["id", "a b"])
    view = changes.select().createOrReplaceTempView.call_args.args[0]
    spark.catalog.dropTempView.assert_called_once_with(view)
    head, *actions = re.split(" WHEN ", spark.sql.call_args.args[0])
    kept = "coalesce(array_contains(s.unchanged_columns, '{0}'), false) THEN t.`{0}` ELSE s.c{1} END"
    values = [kept.format(name, n) for n, name in enumerate(("id", "a b", "v"))]
    assert head == f"MERGE INTO t AS t USING {view} AS s ON t.`id` = s.c0 AND t.`a b` = s.c1"
    assert actions == [
        "MATCHED AND s.row_kind = '-D' THEN DELETE",
        "MATCHED THEN UPDATE SET t.`id` = CASE",
        f"{values[0]}, t.`a b` = CASE",
        f"{values[1]}, t.`v` = CASE",
        values[2],
        "NOT MATCHED AND s.row_kind <> '-D' THEN INSERT (`id`, `a b`, `v`) VALUES (s.c0, s.c1, s.c2)",
    ]


def _added(name: str, place: Any = "LAST", beside: str | None = None) -> AddedColumn:
    return AddedColumn(
        SchemaColumn(name, parse_column_type("INT"), comment="it's" if name == "c" else None), place, beside
    )


@pytest.mark.parametrize(
    ("event", "statements"),
    [
        (
            AddColumns(TABLE, (_added("a"), _added("x"), _added("c"))),
            ["ADD COLUMNS (`x` INT, `c` INT COMMENT 'it\\'s')"],
        ),
        (AddColumns(TABLE, (_added("a"),)), []),
        (AddColumns(TABLE, (_added("x", "FIRST"),)), ["ADD COLUMNS (`x` INT FIRST)"]),
        (AddColumns(TABLE, (_added("x", "AFTER", "a"),)), ["ADD COLUMNS (`x` INT AFTER `a`)"]),
        (AddColumns(TABLE, (_added("x", "BEFORE", "a"),)), ["ADD COLUMNS (`x` INT FIRST)"]),
        (
            AddColumns(TABLE, (_added("x", "BEFORE", "b"), _added("y", "AFTER", "x"), _added("z", "AFTER", "gone"))),
            ["ADD COLUMNS (`x` INT AFTER `a`)", "ADD COLUMNS (`y` INT AFTER `x`)", "ADD COLUMNS (`z` INT)"],
        ),
        (RenameColumns(TABLE, (("a", "x"), ("gone", "y"), ("a", "b"))), ["RENAME COLUMN `a` TO `x`"]),
        (DropColumns(TABLE, ("gone", "b", "a")), ["DROP COLUMNS (`b`, `a`)"]),
        (DropColumns(TABLE, ("gone",)), []),
        (AlterColumnTypes(TABLE, (("gone", parse_column_type("INT")), ("a", parse_column_type("INT NOT NULL")))), []),
        (AlterColumnTypes(TABLE, (("a", parse_column_type("INT")),)), ["ALTER COLUMN `a` DROP NOT NULL"]),
        (AlterColumnTypes(TABLE, (("b", parse_column_type("BIGINT")),)), ["ALTER COLUMN `b` TYPE BIGINT"]),
        (DropTable(TABLE), ["DROP TABLE IF EXISTS"]),
    ],
)
def test_a_change_that_was_made_is_not_made_again(event: SchemaEvent, statements: list[str]) -> None:
    target = _Catalog()
    vars(target)["found"] = stored_columns(table_schema("a INT", "b INT", key=["a"]))
    with mock.patch.object(_Catalog, "widens", lambda _, one, other: (one, other) == (T.IntegerType(), T.LongType())):
        target.change(event, PLAIN, BatchWrite("q", 0))
    assert [text.removeprefix("ALTER TABLE ") for text in target.statements] == statements


def test_a_type_that_the_table_cannot_get_in_place_is_an_error_with_the_statement() -> None:
    event = AlterColumnTypes(TABLE, (("id", parse_column_type("STRING")),))
    with pytest.raises(UnsupportedChangeError, match=r"'id' from INT to STRING in place \(.*`id` TYPE STRING"):
        _Catalog().change(event, PLAIN, BatchWrite("q", 0))


def test_the_options_without_which_a_table_was_created_are_named() -> None:
    target = _Catalog(properties={"a": "1", "kvformat.partition-keys": '["d", "e"]'})
    assert target.unlike(TABLE, TableOptions(("d", "e"), {"a": "1"})) == []
    assert target.unlike(TABLE, TableOptions(("e", "d"), {"a": "2", "b": "1"})) == ["a", "b", "partition-keys"]


@pytest.mark.parametrize(
    ("size", "reason"), [(100, None), (101, r"It has 101 bytes, .* is 100:"), (None, "has an unknown size")]
)
def test_a_table_is_written_again_up_to_a_size(size: int | None, reason: str | None) -> None:
    target = _Catalog("id INT, v INT", rewrite_max_bytes=100)
    with mock.patch.object(_Catalog, "size", return_value=size):
        if reason is None:
            target.rewrite(TABLE, table_schema("id INT", "v BIGINT"))
            return
        with pytest.raises(UnsupportedChangeError, match=reason):
            target.rewrite(TABLE, table_schema("id INT", "v BIGINT"))
    with pytest.raises(UnsupportedChangeError, match="the ingestion has not created it"):
        _Catalog(properties={"kvformat.ingest": "q"}).rewrite(TABLE, PLAIN)


@pytest.mark.parametrize("keys", [[], ["d", "id"]])
def test_a_table_that_is_written_again_keeps_its_partitions(monkeypatch: pytest.MonkeyPatch, keys: list[str]) -> None:
    monkeypatch.setattr(sql, "exact_column", str)
    monkeypatch.setattr(_Catalog, "size", lambda self, name: 1)
    marks = {"kvformat.table": '["shop", "t"]', "kvformat.ingest": "q", "kvformat.partition-keys": json.dumps(keys)}
    target = _Catalog("id INT, d DATE", marks)
    writer = vars(target)["_session"].table().writeTo()
    writer.tableProperty.return_value = writer
    target.rewrite(TABLE, table_schema("id BIGINT", "d DATE"))
    assert [list(call.args) for call in writer.partitionedBy.mock_calls if call.args] == ([keys] if keys else [])
    (writer.partitionedBy() if keys else writer).createOrReplace.assert_called_once_with()


# --- Delta Lake and Iceberg ----------------------------------------------------------------------------------


def test_a_table_that_is_written_again_keeps_the_properties_that_it_does_not_get_by_itself() -> None:
    properties = {
        "a": "1",
        "kvformat.ingest": "q",
        "delta.enableTypeWidening": "true",
        "delta.feature.timestampNtz": "supported",
        "delta.feature.typeWidening": "supported",
        "delta.minReaderVersion": "3",
        "delta.constraints.kvformat_not_null": "`id` IS NOT NULL",
        "format": "iceberg/parquet",
        "location": "/x",
    }
    names = [*properties]
    assert [*DeltaTarget().kept_properties(properties)] == [*names[:4], *names[7:]]
    assert [*IcebergTarget().kept_properties(properties)] == names[:7]


class _Delta(_Catalog, DeltaTarget):
    pass


@pytest.mark.parametrize(
    ("event", "columns"),
    [
        (AlterColumnTypes(TABLE, (("id", parse_column_type("BIGINT")),)), ["ALTER COLUMN `id` TYPE BIGINT"]),
        (DropColumns(TABLE, ("gone",)), []),
    ],
)
def test_a_constraint_of_delta_is_away_while_the_columns_change(event: SchemaEvent, columns: list[str]) -> None:
    properties = {"delta.constraints.kvformat_not_null": "x", "kvformat.ingest": "q"}
    target = _Delta("id INT, v STRING", properties)
    target.change(event, table_schema("id INT", "gone INT", key=["id", "gone"]), BatchWrite("q", 0))
    begin, end = (
        "DROP CONSTRAINT IF EXISTS kvformat_not_null",
        "ADD CONSTRAINT kvformat_not_null CHECK (`id` IS NOT NULL)",
    )
    assert [text.removeprefix("ALTER TABLE ") for text in target.statements] == [begin, *columns, end]
    added = _Delta("id INT", properties)
    added.change(AddColumns(TABLE, (_added("x"),)), KEYED, BatchWrite("q", 0))
    assert added.statements == ["ALTER TABLE ADD COLUMNS (`x` INT)"]


def test_positions_are_in_the_commits_of_a_table() -> None:
    delta, iceberg = DeltaTarget().position_settings("q", 17), IcebergTarget().position_settings("q", 17)
    assert {key.rpartition(".")[2]: value for key, value in delta.items()} == {
        "txnAppId": "kvformat q",
        "txnVersion": "17",
        "userMetadata": "kvformat q 17",
    }
    assert [*iceberg.values()] == ["q", "17"]
    with mock.patch.object(IcebergTarget, "_sql", side_effect=[[(None,)], [("17",)]]):
        assert [IcebergTarget().written("t", "q") for _ in range(2)] == [-1, 17]


@pytest.mark.parametrize(
    ("key", "required", "constraint"),
    [
        (["id"], [], "`id` IS NOT NULL"),
        (["id", "v"], [], "`id` IS NOT NULL AND `v` IS NOT NULL"),
        (["id", "v"], ["v"], "`id` IS NOT NULL"),  # the catalog keeps NOT NULL of `v`
        (["id"], ["id"], ""),
        ([], [], ""),
    ],
)
def test_the_key_of_a_table_that_is_written_again_stays_not_null(
    monkeypatch: pytest.MonkeyPatch, key: list[str], required: list[str], constraint: str
) -> None:
    monkeypatch.setattr(_Delta, "size", lambda self, name: 1)
    target = _Delta()
    vars(target)["found"] = stored_columns(table_schema("id INT", "v STRING", key=required))
    target.rewrite(TABLE, table_schema("id BIGINT", "v STRING", key=key))
    wanted = [f"ALTER TABLE ADD CONSTRAINT kvformat_not_null CHECK ({constraint})"] if constraint else []
    assert [text for text in target.statements if "TBLPROPERTIES" not in text] == wanted


def test_a_column_that_gets_another_type_keeps_its_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that are written again, Spark keeps the comments of columns that keep their type."""
    now, rewritten = (stored_columns(table_schema(*f"id INT, v {t}, w {t}".split(", "))) for t in ("INT", "STRING"))
    now["id"].metadata = rewritten["id"].metadata = {"comment": "kept"}
    now["v"].metadata = {"comment": "it's lost"}
    monkeypatch.setattr(_Delta, "size", lambda self, name: 1)
    monkeypatch.setattr(_Delta, "_columns", mock.Mock(side_effect=[now, rewritten]))
    target = _Delta()
    target.rewrite(TABLE, table_schema("id INT", "v STRING", "w STRING"))
    assert target.statements == ["ALTER TABLE ALTER COLUMN `v` COMMENT 'it\\'s lost'"]


@pytest.mark.parametrize(
    ("step", "columns"),
    [
        ("rewrite", "id:int,theirs:int,v:string"),
        ("merge", "id:int,v:int"),
        ("append", "id:int,theirs:int,v:int"),
    ],
)
def test_columns_that_somebody_else_added_stay(monkeypatch: pytest.MonkeyPatch, step: str, columns: str) -> None:
    """A merge leaves their values as they are. Texts are written as the messages have them."""
    given: list[Any] = []

    def converted(rows: Any, to: T.StructType, *_: Any, forms: dict[str, int]) -> Any:
        given.append((to.simpleString(), forms))
        return rows

    monkeypatch.setattr(sql, "converted_rows", converted)
    monkeypatch.setattr(_Catalog, "size", lambda self, name: 1)
    target = _Catalog("id INT, theirs INT, v INT")
    if step == "rewrite":
        target.rewrite(TABLE, table_schema("id INT", "v STRING").with_forms({"v": 5}))
    else:
        schema = table_schema("id INT", "v INT", key=["id"] if step == "merge" else [])
        target.write_row(1, BatchWrite("q", 0), schema.with_forms({"v": 5}))
    assert given == [(f"struct<{columns}>", {"v": 5})]


@pytest.mark.parametrize("step", ["rewrite", "merge", "append"])
def test_values_that_become_texts_have_the_form_of_the_messages(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Those of a table that is written again, too: new rows have this form."""
    given: list[Any] = []
    monkeypatch.setattr(sql, "converted_rows", lambda rows, *_, forms=None: given.append(forms) or rows)
    monkeypatch.setattr(_Catalog, "size", lambda self, name: 1)
    target, forms = _Catalog("id INT, v BOOLEAN"), {"v": DIGITS}
    schema = table_schema("id INT", "v STRING", key=["id"] if step == "merge" else []).with_forms(forms)
    if step == "rewrite":
        target.rewrite(TABLE, schema)
    else:
        target.write_row(1, BatchWrite("q", 0), schema)
    assert given == [forms]


def test_properties_of_the_user_count_before_those_that_a_catalog_needs() -> None:
    target = _Delta("")
    vars(target)["properties"] = {"delta.enableTypeWidening": "false", "kvformat.ingest": "x"}
    target.create(TABLE, PLAIN, TableOptions(properties={"delta.columnMapping.mode": "id"}), "q")
    found = dict(_PROPERTY.findall(target.statements[1]))
    names = ("delta.enableTypeWidening", "delta.columnMapping.mode", "kvformat.ingest")
    assert [found[name] for name in names] == ["false", "id", "q"]


def test_only_tables_that_a_catalog_has_forgotten_are_named(caplog: pytest.LogCaptureFixture) -> None:
    _Catalog().remember([TABLE])
    assert caplog.records == []
    _Catalog("", provider="delta").remember([TABLE])
    (record,) = caplog.records
    assert "(CREATE TABLE ... USING delta LOCATION '...'): shop.t" in record.getMessage()


def test_a_statement_that_fails_is_an_error_of_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the statement and the first line of Spark's answer."""
    monkeypatch.setattr(_Catalog, "_sql", mock.Mock(side_effect=AnalysisException("[X] no room\nthe plan")))
    event = AddColumns(TABLE, (_added("x"),))
    text = r"table shop\.t: add\.column fails: ALTER TABLE .*ADD COLUMNS \(`x` INT\): \[X\] no room$"
    with pytest.raises(SchemaChangeError, match=text) as caught:
        _Catalog().change(event, PLAIN, BatchWrite("q", 0))
    assert caught.value.table == "shop.t"


def test_only_a_missing_table_is_no_table() -> None:
    """Without the right to read a table, it must not be created again."""
    for missing in ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"):
        spark = mock.Mock(table=mock.Mock(side_effect=AnalysisException("no", errorClass=missing)))
        assert SqlTarget("lake").with_session(spark)._columns("lake.t") is None
    spark = mock.Mock(table=mock.Mock(side_effect=AnalysisException("no", errorClass="INSUFFICIENT_PERMISSIONS")))
    with pytest.raises(AnalysisException, match="PERMISSIONS"):
        SqlTarget("lake").with_session(spark)._columns("lake.t")


def test_a_probe_that_fails_names_versions_and_leaves_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Catalog, "write", mock.Mock(side_effect=ValueError("boom\nthe plan")))
    monkeypatch.setattr(_Catalog, "change", mock.Mock())
    monkeypatch.setattr(sql, "check_keeps_rows", mock.Mock())
    target = _Catalog("")
    with pytest.raises(
        ConfigurationError, match=r"write tables of lake: ValueError: boom\. Versions that go together: D"
    ):
        target.probe()
    assert target.statements[-1].startswith("DROP TABLE IF EXISTS `lake`.`default`.`kvformat_probe_")


@pytest.mark.parametrize(("types", "can"), [("standard", False), ("broaden", True)])
def test_a_type_is_changed_in_place_as_the_strategy_stores_it(
    monkeypatch: pytest.MonkeyPatch, types: Any, can: bool
) -> None:
    monkeypatch.setattr(SqlTarget, "widens", lambda _, one, other: (one, other) == (T.IntegerType(), T.LongType()))
    assert SqlTarget("lake", types=types).can_change(T.IntegerType(), parse_column_type("INT")) is can
    assert SqlTarget("lake", types=types).can_change(T.IntegerType(), parse_column_type("BIGINT"))


@pytest.mark.parametrize(
    ("catalog", "namespace", "properties", "place"),
    [
        (None, "/w/shop.db", {"kvformat.table": '["shop", "T"]'}, "/w/shop.db/t"),
        ("spark_catalog", None, {"kvformat.table": '["shop", "T"]'}, "/warehouse/shop.db/t"),
        (None, "/w/shop.db", {"kvformat.table": '["shop", "t"]'}, None),  # the catalog folds case
        (None, "/w/shop.db", {}, None),
        (None, "/w/shop.db", None, None),
        ("lake", "/w/shop.db", {"kvformat.table": '["shop", "T"]'}, None),
    ],
)
def test_a_forgotten_table_of_delta_is_registered_where_its_files_are_if_it_is_that_table(
    monkeypatch: pytest.MonkeyPatch,
    catalog: str | None,
    namespace: str | None,
    properties: dict[str, str] | None,
    place: str | None,
) -> None:
    """None: the catalog has forgotten the namespace, too; there is no table of Delta."""
    made: list[str] = []

    def statement(_: DeltaTarget, text: str) -> list[Any]:
        if not text.startswith("DESCRIBE"):
            made.append(text)
        elif namespace is None:
            raise AnalysisException("no namespace")
        return [("Location", namespace)]

    monkeypatch.setattr(DeltaTarget, "_sql", statement)
    found = (
        mock.Mock(side_effect=AnalysisException("no table"))
        if properties is None
        else mock.Mock(return_value=properties)
    )
    monkeypatch.setattr(DeltaTarget, "_properties", found)
    spark = mock.Mock(conf=mock.Mock(get=lambda *_: "/warehouse/"))
    assert DeltaTarget(catalog).with_session(spark).register(TableId(("shop", "T"))) is (place is not None)
    assert [text.rpartition(" LOCATION ")[2] for text in made[1:]] == ([] if place is None else [f"'{place}'"])
    assert len(made) == (0 if place is None else 2)
