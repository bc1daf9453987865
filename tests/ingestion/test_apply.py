"""Which types rows are fitted to, before and after a table's columns change. The tables here only have columns."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from kvformat.ingestion.apply import TargetTables
from kvformat.ingestion.behaviors import SchemaChangeBehavior
from kvformat.ingestion.errors import SchemaChangeError, UnsupportedChangeError
from kvformat.ingestion.schemas.events import AddColumns, AlterColumnTypes, DropTable, SchemaEvent, TruncateTable
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.ingestion.targets.target import BatchWrite, TableOptions, Target, TargetSchema
from kvformat.ingestion.targets.types import stored_columns, stored_type
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.types import FlinkType

B = SchemaChangeBehavior
TABLE = TableId(("db", "t"))
WIDENED = {("INT", "BIGINT"), ("FLOAT", "DOUBLE")}
"""The types that the tables change in place."""


class _Tables(Target):
    """A target with one table, whose other types it changes only by `rewrite`."""

    def __init__(self, now: TableSchema | None, owner: str = "q") -> None:
        self.now, self.owner = now, owner
        self.done: list[str] = []
        self.asked = 0

    def schema(self, table: TableId) -> TargetSchema | None:
        self.asked += 1
        return None if self.now is None else TargetSchema(stored_columns(self.now), self.owner)

    def create(self, table: TableId, schema: TableSchema, options: TableOptions, owner: str) -> None:
        self.now, self.owner = schema, owner
        self.done.append("create")

    def own(self, table: TableId, owner: str) -> None:
        self.owner = owner
        self.done.append("own")

    def write(self, table: TableId, schema: TableSchema, rows: Any, batch: BatchWrite) -> None:
        raise NotImplementedError

    def can_change(self, now: Any, wanted: FlinkType) -> bool:
        return any(
            (now, stored_type(wanted)) == tuple(stored_type(parse_column_type(t)) for t in pair) for pair in WIDENED
        )

    def change(self, event: SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        if isinstance(event, TruncateTable | DropTable):
            self.now = None if isinstance(event, DropTable) else self.now
            return
        assert isinstance(event, AlterColumnTypes | AddColumns)
        assert self.now is not None
        here = stored_columns(self.now)
        for name, wanted in event.types if isinstance(event, AlterColumnTypes) else ():
            if not self.can_change(here[name].dataType, wanted):
                raise UnsupportedChangeError(f"table {event.table}: {name} can't be {wanted}", table=str(event.table))
        if isinstance(event, AddColumns) and any(not added.column.type.nullable for added in event.columns):
            raise UnsupportedChangeError(f"table {event.table}: a new column is NOT NULL", table=str(event.table))
        if isinstance(event, AddColumns) and any(added.column.name == "refused" for added in event.columns):
            raise UnsupportedChangeError(f"table {event.table}: no such column", table=str(event.table))
        self.now = event.apply(self.now)
        self.done.append("change")

    def rewrite(self, table: TableId, schema: TableSchema) -> None:
        self.now = schema
        self.done.append("rewrite")


@pytest.mark.parametrize(
    ("behavior", "rows", "done"),
    [
        (B.TRY_EVOLVE, ["BIGINT", "INT", "FLOAT"], ["change"]),
        (B.LENIENT, ["BIGINT", "STRING", "STRING"], ["rewrite"]),
        (B.EVOLVE, ["BIGINT", "STRING", "STRING"], ["rewrite"]),
        (B.IGNORE, ["INT", "INT", "FLOAT"], []),
    ],
)
def test_rows_are_fitted_to_the_types_that_the_table_gets(
    behavior: SchemaChangeBehavior, rows: list[str], done: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Rows are fitted before the table is changed, so both must agree on the types. The table refuses two of three."""
    target = _Tables(table_schema("a INT", "b INT", "c FLOAT"))
    wanted = table_schema("a BIGINT", "b STRING", "c DECIMAL(10, 2)")  # FLOAT and DECIMAL become STRING
    tables = TargetTables(target, behavior, "q", take_over=False)
    expected = table_schema(*(f"{name} {t}" for name, t in zip("abc", rows, strict=True)))
    assert tables.expected(TABLE, wanted) == expected
    assert tables.ready(TABLE, wanted, TableOptions()) == expected
    assert target.done == done
    assert target.now is not None
    assert stored_columns(target.now) == stored_columns(expected)
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len([text for text in told if "alter.column.type is left out" in text]) == 2 * (behavior is B.TRY_EVOLVE)
    assert tables.expected(TABLE, wanted) == expected  # and in the batches that follow


@pytest.mark.parametrize("behavior", [B.TRY_EVOLVE, B.LENIENT, B.EVOLVE, B.IGNORE])
def test_a_key_column_stays_not_null_also_if_its_type_is_refused(behavior: SchemaChangeBehavior) -> None:
    """Otherwise the batches that follow would write NULL into the key."""
    tables = TargetTables(_Tables(table_schema("a INT", "b INT", key=["a"])), behavior, "q", take_over=False)
    rows = _ready(tables, "a STRING", "b STRING", key=["a"])
    kind = "INT" if behavior in (B.TRY_EVOLVE, B.IGNORE) else "STRING"
    assert rows == [f"a {kind} NOT NULL", f"b {kind}"]


@pytest.mark.parametrize(
    ("wanted", "names"), [(["a INT", "b BIGINT"], "b"), (["a INT", "c INT"], "c"), (["c INT", "b BIGINT"], "c, b")]
)
def test_exception_names_the_columns_that_are_missing_or_have_other_types(wanted: list[str], names: str) -> None:
    target = _Tables(table_schema("a INT", "b INT"))
    tables = TargetTables(target, B.EXCEPTION, "q", take_over=False)
    with pytest.raises(
        SchemaChangeError, match=rf"table db\.t: the target lacks the columns {names}, or has other types"
    ):
        tables.ready(TABLE, table_schema(*wanted), TableOptions())
    assert target.done == []
    assert tables.ready(TABLE, table_schema("b INT"), TableOptions()) == table_schema("b INT")


@pytest.mark.parametrize("options", [{"partition_keys": ("d",)}, {"properties": {"a": "1"}}, {}])
def test_options_of_a_transform_that_a_table_was_created_without_are_told(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_Tables, "unlike", lambda *_: ["this", "that"])
    tables = TargetTables(_Tables(table_schema("a INT")), B.LENIENT, "q", take_over=False)
    tables.ready(TABLE, table_schema("a INT"), TableOptions(**options))
    assert ["so the changed this, that of its transform" in r.getMessage() for r in caplog.records] == [True] * bool(
        options
    )


def test_an_added_column_may_be_null_and_its_nested_fields_stay_as_they_are() -> None:
    target = _Tables(table_schema("a INT"))
    tables = TargetTables(target, B.EVOLVE, "q", take_over=False)
    tables.ready(TABLE, table_schema("a INT", "b ROW<c INT NOT NULL> NOT NULL"), TableOptions())
    assert target.now == table_schema("a INT", "b ROW<c INT NOT NULL>")


def _ready(tables: TargetTables, *columns: str, key: Sequence[str] = ()) -> list[str]:
    """Return the columns of the rows, which `expected` and `ready` agree on."""
    wanted = table_schema(*columns, key=key)
    expected = tables.expected(TABLE, wanted)
    assert tables.ready(TABLE, wanted, TableOptions()) == expected
    return [f"{column.name} {column.type}" for column in expected.columns]


def test_a_table_is_compared_when_its_planned_columns_change() -> None:
    target = _Tables(None)
    tables = TargetTables(target, B.LENIENT, "q", take_over=False)
    assert _ready(tables, "a INT") == _ready(tables, "a INT") == ["a INT"]
    assert (target.done, target.asked) == (["create"], 1)
    assert _ready(tables, "a BIGINT", "b INT") == _ready(tables, "a BIGINT", "b INT") == ["a BIGINT", "b INT"]
    assert (target.done, target.asked) == (["create", "change", "change"], 2)


def test_what_expected_saw_counts_for_the_next_change_only() -> None:
    target = _Tables(table_schema("a INT"))
    tables = TargetTables(target, B.LENIENT, "q", take_over=False)
    assert _ready(tables, "a INT") == ["a INT"]
    target.now = table_schema("a BIGINT")  # somebody else changes it
    assert tables.ready(TABLE, table_schema("a INT", "b INT"), TableOptions()) == table_schema("a BIGINT", "b INT")


def test_a_dropped_table_is_created_again_and_a_truncated_one_is_there() -> None:
    target = _Tables(None)
    tables = TargetTables(target, B.EVOLVE, "q", take_over=False)
    for event, done in ((TruncateTable(TABLE), ["create"]), (DropTable(TABLE), ["create", "create"])):
        _ready(tables, "a INT")
        tables.expected(TABLE, table_schema("a INT", "b INT"))
        asked = target.asked
        tables.change(event, table_schema("a INT"), BatchWrite("q", 1))
        assert _ready(tables, "a INT") == ["a INT"]
        assert target.done == done
        assert (target.asked > asked) == isinstance(event, DropTable)


def test_a_dropped_table_is_not_the_one_that_expected_saw() -> None:
    target = _Tables(None)
    tables = TargetTables(target, B.EVOLVE, "q", take_over=False)
    _ready(tables, "a INT")
    tables.expected(TABLE, table_schema("a INT", "b INT"))
    tables.change(DropTable(TABLE), table_schema("a INT"), BatchWrite("q", 1))
    tables.ready(TABLE, table_schema("a INT"), TableOptions())
    assert target.done == ["create", "create"]


@pytest.mark.parametrize("take_over", [False, True])
def test_a_table_of_another_query_is_taken_over_only_if_asked(take_over: bool) -> None:
    target = _Tables(table_schema("a INT"), owner="other")
    tables = TargetTables(target, B.LENIENT, "q", take_over=take_over)
    if take_over:
        assert _ready(tables, "a INT") == ["a INT"]
        assert (target.owner, target.done) == ("q", ["own"])
    else:
        with pytest.raises(ConfigurationError, match="written by another query"):
            _ready(tables, "a INT")
        assert (target.owner, target.done) == ("other", [])


@pytest.mark.parametrize(
    ("behavior", "rows", "there"),
    [(B.LENIENT, ["a INT", "b INT NOT NULL"], ["a", "b"]), (B.IGNORE, ["a INT"], ["a"])],
)
def test_a_new_column_is_nullable_in_the_table(behavior: B, rows: list[str], there: list[str]) -> None:
    target = _Tables(table_schema("a INT"))
    tables = TargetTables(target, behavior, "q", take_over=False)
    wanted = table_schema("a INT", "b INT", key=["b"])
    found = tables.ready(TABLE, wanted, TableOptions())
    assert [f"{column.name} {column.type}" for column in found.columns] == rows
    assert target.now is not None
    assert [*target.now.names] == there


def test_try_evolve_leaves_a_refused_column_out_of_the_rows() -> None:
    target = _Tables(table_schema("a INT"))
    tables = TargetTables(target, B.TRY_EVOLVE, "q", take_over=False)
    found = tables.ready(TABLE, table_schema("a INT", "refused INT"), TableOptions())
    assert found.names == ("a",)
    with pytest.raises(UnsupportedChangeError):
        TargetTables(target, B.EVOLVE, "q", take_over=False).ready(
            TABLE, table_schema("a INT", "refused INT"), TableOptions()
        )
