"""The tests for targets of other packages, and the positions of writes that a target remembers. No Spark."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

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
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.ingestion.targets import delta_path
from kvformat.ingestion.targets.delta_path import DeltaPathTarget, folder_name, read_table, table_of_folder
from kvformat.ingestion.targets.target import (
    BatchWrite,
    MaintainedTable,
    TableOptions,
    Target,
    TargetSchema,
    check_order,
    check_owner,
)
from kvformat.ingestion.targets.types import stored_columns, stored_type
from kvformat.ingestion.testing import TargetSuite
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry.contract.errors import ConfigurationError, MissingExtraError
from kvformat.registry.streams.delta.files import read_file
from kvformat.registry.streams.delta.log import DeltaLog
from kvformat.registry.streams.delta.table import DeltaFolder
from kvformat.registry.streams.delta.transfer import Transferred


def test_a_failed_assert_of_the_suite_shows_its_values() -> None:
    class Unpickled:
        spark = None

        def with_session(self, spark: Any) -> Any:
            return self

        def create(self, *arguments: Any) -> None:
            pass

        def own(self, *arguments: Any) -> None:
            pass

        def schema(self, table: TableId) -> str:
            return "a table that is there"

    suite: Any = type("Suite", (TargetSuite,), {"__test__": False})()
    with pytest.raises(AssertionError, match="'a table that is there' is None"):
        suite.test_a_table_is_created_once(Unpickled())


def test_positions_grow_with_batches_parts_and_steps() -> None:
    writes = [
        BatchWrite("q", batch, part).position(step) for batch in (0, 1, 2) for part in (0, 1, 999) for step in (0, 1)
    ]
    assert writes == sorted({*writes})
    with pytest.raises(SchemaChangeError, match="is truncated 1000 times in a batch, and 999 is the most"):
        BatchWrite("q", 0, 1000).position(0)


@pytest.mark.parametrize(("batch", "refused"), [(9, True), (10, False), (11, False)])
def test_a_batch_before_the_written_one_is_refused(batch: int, refused: bool) -> None:
    written = BatchWrite("q", 10, 3).position(0)
    expected = pytest.raises(ConfigurationError, match="t has batch 10 of this query, but this is batch 9")
    with expected if refused else nullcontext():
        check_order("t", written, BatchWrite("q", batch))
    check_order("t", -1, BatchWrite("q", batch))


def test_only_the_owner_writes_a_table() -> None:
    table = TableId(("t",))
    check_owner(table, None, "q")
    check_owner(table, "q", "q")
    for other in ("q2", "Q", ""):
        with pytest.raises(ConfigurationError, match="take_over=True"):
            check_owner(table, other, "q")


def test_a_pickled_target_has_no_session_and_keeps_its_options() -> None:
    target = DeltaPathTarget("/lake", types="broaden", create_tables=False, write_mode="append")
    again = pickle.loads(pickle.dumps(target.with_session(object())))  # type: ignore[arg-type]
    assert again == target
    for without in (again, target):
        with pytest.raises(ConfigurationError, match="has no session"):
            _ = without.spark


class _Rows:
    """Rows of numbers, instead of a frame of Spark. `before` is called when they are read."""

    columns = ("id",)

    def __init__(self, *numbers: int, before: Callable[[], object] = lambda: None) -> None:
        self.numbers, self.before = numbers, before


class _Tables(DeltaPathTarget):
    """Delta tables of numbers, written without Spark."""

    def written(self, table: TableId | None = None) -> list[int]:
        """Return the numbers that are in a table."""
        folder = self.folder(TABLE if table is None else table)
        log = folder.written_log()
        rows = [read_file(folder.storage, file.name, log.schema) for file in log.files()]
        return sorted(number for found in rows for number in found.column(0).to_pylist())


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> _Tables:
    def of_rows(rows: _Rows, schema: pa.Schema, *_: Any) -> Transferred:
        rows.before()
        return Transferred(
            pa.table([pa.array(rows.numbers, schema.field(0).type)], schema=pa.schema([schema.field(0)]))
        )

    monkeypatch.setattr("kvformat.ingestion.targets.delta_path.converted_rows", lambda rows, *_, **__: rows)
    monkeypatch.setattr("kvformat.registry.streams.delta.table.transferred", of_rows)
    target = _Tables(str(tmp_path))
    target.create(TABLE, SCHEMA, TableOptions(), "q")
    return target


TABLE, SCHEMA = TableId(("t",)), table_schema("id INT")


def _write(target: _Tables, row: int, batch: int, part: int = 0, query: str = "q") -> None:
    target.write(TABLE, SCHEMA, _Rows(row), BatchWrite(query, batch, part))


def test_each_part_of_a_batch_is_written_once(tables: _Tables) -> None:
    for row, batch, part in [(1, 9, 0), (1, 9, 0), (2, 9, 1), (1, 9, 0), (2, 9, 1), (3, 10, 0), (3, 10, 0)]:
        _write(tables, row, batch, part)
    assert tables.written() == [1, 2, 3]


def test_a_batch_before_the_last_one_is_an_error_and_the_last_one_is_not(tables: _Tables) -> None:
    _write(tables, 1, 10)
    _write(tables, 1, 10)
    with pytest.raises(ConfigurationError, match="has batch 10 of this query, but this is batch 9"):
        _write(tables, 2, 9, 5)
    assert tables.written() == [1]


def test_another_query_appends_batches_with_equal_numbers_after_it_owns_the_table(tables: _Tables) -> None:
    _write(tables, 1, 7)
    with pytest.raises(ConfigurationError, match="take_over"):
        _write(tables, 2, 8, query="other")
    tables.own(TABLE, "other")
    _write(tables, 2, 0, query="other")
    _write(tables, 2, 0, query="other")
    assert tables.written() == [1, 2]


def test_a_repeated_truncate_keeps_the_rows_that_were_written_after_it(tables: _Tables) -> None:
    _write(tables, 1, 0)
    steps: list[Any] = [
        lambda: _write(tables, 2, 1),
        lambda: tables.change(TruncateTable(TABLE), SCHEMA, BatchWrite("q", 1, 1)),
        lambda: _write(tables, 3, 1, 1),
    ]
    found = []
    for end in (1, 2, 3, 3):
        for step in steps[:end]:
            step()
        found.append(tables.written())
    assert found == [[1, 2], [], [3], [3]]


def test_a_dropped_table_that_a_repeated_batch_creates_again_is_dropped_again(tables: _Tables) -> None:
    for _ in range(2):
        tables.create(TABLE, SCHEMA, TableOptions(), "q")
        tables.change(DropTable(TABLE), SCHEMA, BatchWrite("q", 4))
        assert tables.schema(TABLE) is None
        with pytest.raises(ConfigurationError, match="there is no table t at"):
            tables.read(TABLE)
    tables.create(TABLE, SCHEMA, TableOptions(), "new")
    found = tables.schema(TABLE)
    assert found is not None
    assert found.owner == "new"
    assert tables.written() == []


def test_a_repeated_drop_removes_the_rows_that_another_query_wrote_meanwhile(tables: _Tables) -> None:
    """Otherwise they would come back when the table is created again."""
    tables.change(DropTable(TABLE), SCHEMA, BatchWrite("q", 4))
    tables.create(TABLE, SCHEMA, TableOptions(), "other")
    _write(tables, 1, 0, query="other")
    tables.own(TABLE, "q")
    tables.change(DropTable(TABLE), SCHEMA, BatchWrite("q", 4))
    tables.create(TABLE, SCHEMA, TableOptions(), "q")
    assert tables.written() == []


def test_rows_after_a_drop_are_kept_if_the_whole_batch_is_repeated(tables: _Tables) -> None:
    for _ in range(2):
        _write(tables, 1, 4)
        tables.change(DropTable(TABLE), SCHEMA, BatchWrite("q", 4, 1))
        tables.create(TABLE, SCHEMA, TableOptions(), "q")
        _write(tables, 2, 4, 1)
        assert tables.written() == [2]


def test_columns_are_added_once(tables: _Tables) -> None:
    wider = AddColumns(
        TABLE, tuple(AddedColumn(c) for c in table_schema("id INT", "x TIME(3)", "y TIMESTAMP(3)").columns)
    )
    for row in range(4):
        _write(tables, row, row)
        for _ in range(2):
            tables.change(wider, SCHEMA, BatchWrite("q", row))
    assert tables.written() == [*range(4)]
    log = tables.folder(TABLE).written_log()
    assert [(c.name, c.dataType.typeName(), c.metadata) for c in log.columns] == [
        ("id", "integer", {}),
        ("x", "string", {"kvformat.type": "TIME(3)"}),
        ("y", "timestamp_ntz", {}),
    ]


@pytest.mark.parametrize(
    ("now", "wanted", "taken"),
    [
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("INT", "STRING", True),
        ("STRING", "INT", False),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", True),
        ("BINARY(3)", "BYTES", True),
        ("TIME(3)", "STRING", True),
        ("DECIMAL(5, 2)", "DECIMAL(6, 2)", True),
        ("DECIMAL(5, 2)", "DECIMAL(6, 3)", True),
        ("DECIMAL(5, 2)", "DECIMAL(5, 3)", False),
    ],
)
def test_a_column_gets_a_type_that_holds_its_values(tables: _Tables, now: str, wanted: str, taken: bool) -> None:
    table = TableId(("u",))
    tables.create(table, table_schema(f"v {now}"), TableOptions(), "q")
    event = AlterColumnTypes(table, (("v", parse_column_type(wanted)),))
    with nullcontext() if taken else pytest.raises(UnsupportedChangeError, match="which does not hold all its values"):
        tables.change(event, SCHEMA, BatchWrite("q", 0))
    found = tables.schema(table)
    assert found is not None
    assert found.columns["v"].dataType == stored_type(parse_column_type(wanted if taken else now))


def _types(target: DeltaPathTarget, table: TableId = TABLE) -> dict[str, tuple[str, bool]]:
    """Return type and nullability of the columns of a table."""
    found = target.schema(table)
    assert found is not None
    return {column.name: (column.dataType.typeName(), column.nullable) for column in found.columns.fields}


@pytest.mark.parametrize(
    ("wanted", "types"),
    [
        ("BIGINT NOT NULL", {"a": ("long", True), "b": ("long", False)}),
        ("INT NOT NULL", {"a": ("integer", True), "b": ("integer", False)}),
        ("BIGINT", {"a": ("long", True), "b": ("long", True)}),
        ("INT", {"a": ("integer", True), "b": ("integer", True)}),
    ],
)
def test_a_column_becomes_nullable_and_never_not_null(
    tables: _Tables, wanted: str, types: dict[str, tuple[str, bool]]
) -> None:
    """With another type or only without NOT NULL: a nullable column may have NULL in rows that are there."""
    tables.create(TableId(("u",)), table_schema("a INT", "b INT", key=["b"]), TableOptions(), "q")
    changed = tuple((name, parse_column_type(wanted)) for name in "ab")
    tables.change(AlterColumnTypes(TableId(("u",)), changed), SCHEMA, BatchWrite("q", 0))
    assert _types(tables, TableId(("u",))) == types


def test_a_changed_column_keeps_what_the_change_does_not_name(tables: _Tables) -> None:
    """A comment stays with other types and names, NOT NULL and the type of Flink with other names."""
    table, schema = TableId(("u",)), table_schema("a INT", "b TIME(3)", key=["b"])
    commented = tuple(replace(column, comment=f"of {column.name}") for column in schema.columns)
    tables.create(table, replace(schema, columns=commented), TableOptions(), "q")
    for event in (
        AlterColumnTypes(table, (("a", parse_column_type("BIGINT")),)),
        RenameColumns(table, (("b", "c"),)),
        AlterColumnTypes(table, (("a", parse_column_type("STRING")),)),
    ):
        tables.change(event, SCHEMA, BatchWrite("q", 0))
    assert [(c.name, c.dataType.typeName(), c.nullable, c.metadata) for c in tables._known(table).columns] == [
        ("a", "string", True, {"comment": "of a"}),
        ("c", "string", False, {"comment": "of b", "kvformat.type": "TIME(3)"}),
    ]


def test_a_column_is_not_renamed_to_one_that_is_there(tables: _Tables) -> None:
    table = TableId(("u",))
    tables.create(table, table_schema("a INT", "b STRING"), TableOptions(), "q")
    tables.change(RenameColumns(table, (("a", "b"),)), SCHEMA, BatchWrite("q", 0))
    assert list(_types(tables, table)) == ["a", "b"]
    for _ in range(2):
        tables.change(RenameColumns(table, (("a", "c"),)), SCHEMA, BatchWrite("q", 0))
        assert list(_types(tables, table)) == ["c", "b"]


@pytest.mark.parametrize(("t", "name"), [("BIGINT", "long"), ("TIMESTAMP(3)", "timestamp_ntz")])
def test_a_dropped_table_gets_other_types_when_it_is_created_again(tables: _Tables, t: str, name: str) -> None:
    """A time without a zone is a feature of the table."""
    tables.change(DropTable(TABLE), SCHEMA, BatchWrite("q", 0))
    tables.create(TABLE, table_schema(f"id {t}"), TableOptions(), "q")
    assert _types(tables) == {"id": (name, True)}
    features = DeltaTable(tables.folder(TABLE).storage.uri).protocol().writer_features or []
    assert ("timestampNtz" in features) == (name == "timestamp_ntz")


def test_a_table_with_times_is_written_after_it_was_taken_over_or_dropped(tables: _Tables) -> None:
    """It gets a feature without need when deltalake sets a property."""
    table, schema = TableId(("u",)), table_schema("id TIMESTAMP(3)")
    tables.create(table, schema, TableOptions(), "other")
    tables.own(table, "q")
    tables.write(table, schema, _Rows(1), BatchWrite("q", 0))
    assert len(tables.written(table)) == 1
    tables.change(DropTable(table), schema, BatchWrite("q", 1))
    tables.create(table, schema, TableOptions(), "q")
    tables.write(table, schema, _Rows(2, 3), BatchWrite("q", 2))
    assert len(tables.written(table)) == 2


@pytest.mark.parametrize("key", [[], ["id"]])
def test_rows_have_no_columns_of_others_and_texts_as_the_messages_have_them(
    tables: _Tables, monkeypatch: pytest.MonkeyPatch, key: list[str]
) -> None:
    """Also a column that becomes STRING, in a table that is written again with all columns."""
    given: list[Any] = []
    monkeypatch.setattr(delta_path, "converted_rows", lambda _, to, *__, forms: given.append((to.names, forms)))
    monkeypatch.setattr(delta_path, "exact_column", mock.Mock())
    for name in ("merge", "append", "read"):
        monkeypatch.setattr(DeltaFolder, name, mock.Mock())
    monkeypatch.setattr(DeltaFolder, "rewrite", lambda folder, rows, wanted: rows(folder.log()))
    schema = table_schema("id INT", key=key).with_forms({"id": 5})
    table, target = TableId(("u",)), tables.with_session(mock.Mock())
    target.create(table, table_schema("id INT", "theirs INT"), TableOptions(), "q")
    target.write(table, schema, mock.Mock(columns=["id"]), BatchWrite("q", 0))
    target.change(AlterColumnTypes(table, (("id", parse_column_type("STRING")),)), schema, BatchWrite("q", 0))
    assert given == [(["id"], {"id": 5}), (["id", "theirs"], {"id": 5})]


def test_dropped_columns_are_gone_and_the_others_stay(tables: _Tables) -> None:
    table = TableId(("u",))
    tables.create(table, table_schema("a INT", "b STRING", "c INT"), TableOptions(), "q")
    for _ in range(2):
        tables.change(DropColumns(table, ("b", "gone")), SCHEMA, BatchWrite("q", 0))
        assert list(_types(tables, table)) == ["a", "c"]


def test_tables_that_must_exist_are_not_created(tables: _Tables) -> None:
    target = replace(tables, create_tables=False)
    target.create(TABLE, SCHEMA, TableOptions(), "q")
    with pytest.raises(SchemaChangeError, match=r"table u: .* has no such table, and 'create-tables' is false"):
        target.create(TableId(("u",)), SCHEMA, TableOptions(), "q")
    assert target.schema(TableId(("u",))) is None


def test_an_empty_table_of_somebody_else_gets_other_types(tables: _Tables) -> None:
    table = TableId(("u",))
    DeltaLog.create(tables.folder(table).storage, stored_columns(table_schema("a INT")), {})
    tables.change(AlterColumnTypes(table, (("a", parse_column_type("BIGINT")),)), SCHEMA, BatchWrite("q", 0))
    assert _types(tables, table) == {"a": ("long", True)}


@pytest.mark.parametrize(("write_mode", "shown"), [("merge", ["id", "row_kind"]), ("append", ["id"])])
def test_the_columns_of_changes_are_not_those_of_a_table_of_latest_rows(
    write_mode: Any, shown: list[str], tmp_path: Path
) -> None:
    target = DeltaPathTarget(str(tmp_path), write_mode=write_mode)
    target.create(TABLE, table_schema("id INT", *(["row_kind STRING"] * (write_mode == "merge"))), TableOptions(), "q")
    assert list(_types(target)) == shown


def test_properties_of_a_rule_count_before_those_of_the_target_and_the_names_of_ingestion_before_both(
    tmp_path: Path,
) -> None:
    own = {"kvformat.ingest": "x", "kvformat.table": "x"}
    target = DeltaPathTarget(str(tmp_path), properties={"a": "1", "b": "1", **own})
    target.create(TABLE, SCHEMA, TableOptions(properties={"b": "2", **own}), "q")
    found = target.folder(TABLE).written_log().properties
    wanted = {"a": "1", "b": "2", "kvformat.ingest": "q", "kvformat.table": '["t"]'}
    assert {name: found[name] for name in wanted} == wanted


class _Maintained(Target):
    """A target with a table of `names` that notes what it is told."""

    def __init__(self, *names: str) -> None:
        self.names, self.told = names, list[Any]()

    def schema(self, table: TableId) -> TargetSchema | None:
        return (
            TargetSchema(stored_columns(table_schema(*(f"{n} INT" for n in self.names))), None) if self.names else None
        )

    def create(self, table: TableId, schema: TableSchema, options: TableOptions, owner: str) -> None:
        self.told.append(("create", list(schema.names)))

    def own(self, table: TableId, owner: str) -> None:
        raise AssertionError

    def change(self, event: SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        assert isinstance(event, AddColumns)
        self.told.append(("add", [added.column.name for added in event.columns]))

    def write(self, table: TableId, schema: TableSchema, rows: Any, batch: BatchWrite) -> None:
        required = [column.name for column in schema.columns if not column.type.nullable]
        assert required == list(schema.primary_key) == ["id"]
        self.told.append(("write", list(schema.names), batch))


@pytest.mark.parametrize(
    ("there", "told"),
    [((), ("create", ["id", "new", "v"])), (("id", "v"), ("add", ["new"])), (("v", "new", "id"), None)],
)
def test_a_maintained_table_gets_the_columns_that_it_lacks(there: tuple[str, ...], told: Any) -> None:
    target = _Maintained(*there)
    columns = stored_columns(table_schema("id INT", "new INT", "v INT", "row_kind STRING"))
    changes: Any = SimpleNamespace(sparkSession=None, schema=columns, drop=lambda *_: None)
    kv: Any = SimpleNamespace(name="t", key_columns=("id",))
    target.merging(kv)(changes, 3)
    write = ("write", ["id", "new", "v"], BatchWrite("maintain t", 3, counted=False))
    assert target.told == [*([] if told is None else [told]), write]


def test_a_table_of_changes_is_not_maintained(tmp_path: Path) -> None:
    """And none of a target without tables."""
    kv: Any = SimpleNamespace(name="t", key_columns=("id",))
    without_tables = type("Log", (_Maintained,), {"has_tables": False})()
    for target in (DeltaPathTarget(str(tmp_path), write_mode="append"), without_tables):
        with pytest.raises(ConfigurationError, match="maintain writes the last row of each key"):
            target.merging(kv)
    assert MaintainedTable.of(_Maintained(), kv, None).table == TABLE
    assert MaintainedTable.of(_Maintained(), kv, "a.b").table == TableId(("a", "b"))


def test_a_batch_that_another_driver_writes_meanwhile_is_there_once(tables: _Tables) -> None:
    beside = _Rows(1, before=lambda: _write(tables, 1, 0))
    tables.write(TABLE, SCHEMA, beside, BatchWrite("q", 0))
    assert tables.written() == [1]
    names = {path.name for path in Path(tables.path, "t").glob("*.parquet")}
    assert len(names) == 1, "the file of the refused commit is removed"


def test_a_driver_that_another_one_overtakes_leaves_the_table_as_it_is(tables: _Tables) -> None:
    late = _Rows(1, before=lambda: (_write(tables, 1, 1), _write(tables, 2, 2)))
    with pytest.raises(ConfigurationError, match="table t has batch 2 of this query, but this is batch 1: the query r"):
        tables.write(TABLE, SCHEMA, late, BatchWrite("q", 1))
    assert tables.written() == [1, 2]


def test_a_batch_is_repeated_on_the_version_of_another_writer(tables: _Tables) -> None:
    """Somebody appends a row between the batch's reading of the table and its commit."""
    begun = []

    def append() -> None:
        if not begun:
            begun.append(True)
            write_deltalake(f"{tables.path}/t", pa.table({"id": pa.array([7], pa.int32())}), mode="append")

    tables.write(TABLE, SCHEMA, _Rows(1, before=append), BatchWrite("q", 0))
    assert tables.written() == [1, 7]


def test_a_table_that_is_written_all_the_time_is_an_error(tables: _Tables) -> None:
    def append() -> None:
        write_deltalake(f"{tables.path}/t", pa.table({"id": pa.array([7], pa.int32())}), mode="append")

    with pytest.raises(ConfigurationError, match="got another version in each of 5 attempts to write it: stop its o"):
        tables.write(TABLE, SCHEMA, _Rows(1, before=append), BatchWrite("q", 0))
    assert tables.written() == [7] * 5


@pytest.mark.parametrize(
    ("parts", "folder"),
    [
        (("shop", "rows"), "shop.rows"),
        (("_notes", "a.b", "_c_d-1"), "~5Fnotes.a~2Eb.~5Fc_d-1"),
        (("a~b/c", "ü"), "a~7Eb~2Fc.~C3~BC"),
        (("a" * 255,), "a" * 255),
    ],
)
def test_each_table_has_its_folder(parts: tuple[str, ...], folder: str) -> None:
    assert folder_name(TableId(parts)) == folder
    assert table_of_folder(folder) == ".".join(parts)


def test_long_names_that_begin_alike_have_folders_of_their_own(tables: _Tables) -> None:
    long = [TableId(("a" * 255 + end,)) for end in "bc"]
    for row, table in enumerate(long):
        tables.create(table, SCHEMA, TableOptions(), "q")
        tables.write(table, SCHEMA, _Rows(row), BatchWrite("q", 0))
    assert [tables.written(table) for table in long] == [[0], [1]]
    assert all(len(folder_name(table)) <= 255 for table in long)


def test_a_table_that_is_there_keeps_its_owner_when_it_is_created(tables: _Tables) -> None:
    tables.create(TABLE, table_schema("other INT"), TableOptions(), "other")
    found = tables.schema(TABLE)
    assert found is not None
    assert (found.columns.names, found.owner) == (["id"], "q")


def test_a_change_of_a_table_of_another_query_is_an_error(tables: _Tables) -> None:
    _write(tables, 1, 0)
    tables.own(TABLE, "other")
    for event in (TruncateTable(TABLE), DropTable(TABLE)):
        with pytest.raises(ConfigurationError, match="take_over"):
            tables.change(event, SCHEMA, BatchWrite("q", 1))
    assert tables.written() == [1]


def test_the_probe_needs_deltalake_and_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DeltaPathTarget(tmp_path).probe()
    assert [*tmp_path.iterdir()] == []
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    retries = {"AWS_ACCESS_KEY_ID": "a", "max_retries": "0", "retry_timeout": "1s", "timeout": "1s"}
    with pytest.raises(ConfigurationError, match=r"the sink can't read 's3://lake': .*An object store needs") as caught:
        DeltaPathTarget("s3://lake", storage_options=options | retries).probe()
    assert "hunter2" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingExtraError, match=r"needs deltalake: install kvformat\[delta\]"):
        DeltaPathTarget(tmp_path).probe()


def test_a_table_that_is_not_there_is_truncated_and_dropped_without_an_error(tables: _Tables) -> None:
    missing = TableId(("missing",))
    for event in (TruncateTable(missing), DropTable(missing)):
        tables.change(event, SCHEMA, BatchWrite("q", 0))
    assert tables.schema(missing) is None


@pytest.mark.parametrize("less", [0, 1])
def test_a_table_at_a_path_is_written_again_up_to_a_size(
    tables: _Tables, less: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tables, 1, 0)
    size = sum(file.size for file in tables.folder(TABLE).written_log().files())
    written: list[str] = []
    monkeypatch.setattr(DeltaFolder, "rewrite", lambda _, rows, columns: written.append(columns.simpleString()))
    small = replace(tables, rewrite_max_bytes=size - less)
    wider = AlterColumnTypes(TABLE, (("id", parse_column_type("BIGINT")),))
    text = rf"It has {size:,} bytes, and 'rewrite\.max-bytes' is {size - 1:,}: raise that"
    with pytest.raises(UnsupportedChangeError, match=text) if less else nullcontext():
        small.change(wider, SCHEMA, BatchWrite("q", 1))
    assert written == ([] if less else ["struct<id:bigint>"])


@pytest.mark.parametrize("step", ["change", "merge", "append"])
def test_values_that_become_texts_in_a_table_at_a_path_have_the_form_of_the_messages(
    tables: _Tables, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a table that is written again, too: new rows have this form."""
    given: list[Any] = []
    monkeypatch.setattr(delta_path, "converted_rows", lambda rows, *_, forms=None: given.append(forms) or rows)
    monkeypatch.setattr(delta_path, "exact_column", mock.MagicMock())
    monkeypatch.setattr(DeltaFolder, "read", mock.MagicMock())
    monkeypatch.setattr(DeltaFolder, "rewrite", lambda folder, rows, _: rows(folder.log()))
    for write in ("merge", "append"):
        monkeypatch.setattr(DeltaFolder, write, mock.MagicMock())
    schema = table_schema("id STRING", key=["id"] if step == "merge" else []).with_forms({"id": DIGITS})
    target = tables.with_session(mock.MagicMock())
    if step == "change":
        target.change(AlterColumnTypes(TABLE, (("id", parse_column_type("STRING")),)), schema, BatchWrite("q", 0))
    else:
        target.write(TABLE, schema, mock.MagicMock(columns=["id"]), BatchWrite("q", 0))
    assert given == [{"id": DIGITS}]


def test_rows_of_somebody_else_are_not_written_again(tables: _Tables) -> None:
    theirs = TableId(("theirs",))
    write_deltalake(f"{tables.path}/theirs", pa.table({"id": pa.array([7], pa.int32())}))
    with pytest.raises(UnsupportedChangeError, match="the ingestion has not created it: change it by hand"):
        tables.change(AlterColumnTypes(theirs, (("id", parse_column_type("BIGINT")),)), SCHEMA, BatchWrite("q", 0))


def test_the_properties_without_which_a_table_at_a_path_was_created_are_named(tables: _Tables) -> None:
    table = TableId(("u",))
    tables.create(table, SCHEMA, TableOptions(properties={"a": "1"}), "q")
    assert tables.unlike(table, TableOptions(("id",), {"a": "1"})) == [], "partition keys have no effect"
    assert tables.unlike(table, TableOptions(properties={"a": "2", "b": "1"})) == ["a", "b"]


def test_a_table_is_read_with_the_options_of_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    monkeypatch.setattr(DeltaPathTarget, "read", lambda target, table: read.append((target, table)))
    spark: Any = object()
    for name in ("shop.orders", TableId(("a.b",))):
        read_table(spark, "s3://lake", name, storage_options={"AWS_REGION": "x"})
    target = DeltaPathTarget("s3://lake", storage_options={"AWS_REGION": "x"})
    assert read == [(target, TableId(("shop", "orders"))), (target, TableId(("a.b",)))]
    assert read[0][0].spark is spark
