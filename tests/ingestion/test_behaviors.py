"""Behaviors for changes of schemas, and the kinds of changes that a sink takes."""

from __future__ import annotations

import pytest

from kvformat.ingestion.behaviors import TAGS, SchemaChangeBehavior, SchemaEvolution, accepted_tags
from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.pipeline.routes import Route, Router
from kvformat.ingestion.schemas.events import (
    AddColumns,
    AddedColumn,
    AlterColumnTypes,
    CreateTable,
    DropColumns,
    DropTable,
    RenameColumns,
    SchemaEvent,
    TruncateTable,
)
from kvformat.ingestion.schemas.state import SchemaState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.registry.contract.errors import OptionError

B = SchemaChangeBehavior
TABLE = TableId(("db", "t"))


def _column(name: str, text: str) -> SchemaColumn:
    return SchemaColumn(name, parse_column_type(text))


def _create(table: TableId, *columns: tuple[str, str], key: tuple[str, ...] = ("id",)) -> CreateTable:
    return CreateTable(table, TableSchema(tuple(_column(*column) for column in columns), key))


def _add(name: str, text: str, table: TableId = TABLE) -> AddColumns:
    return AddColumns(table, (AddedColumn(_column(name, text)),))


def _after(behavior: B, *events: SchemaEvent, routes: tuple[Route, ...] = ()) -> tuple[SchemaState, list[SchemaEvent]]:
    """Return the state after all events, and the changes of the last one."""
    plans = SchemaEvolution(Router(routes), behavior, accepted_tags([], None, behavior))
    state, planned = SchemaState(), tuple[SchemaEvent, ...]()
    for event in events:
        state, planned = plans.plan(state, event)
        for change in planned:
            state = state.change_target(change)
    return state, [*planned]


def test_a_kept_column_is_used_again_when_its_name_comes_back() -> None:
    create = _create(TABLE, ("id", "INT NOT NULL"), ("v", "INT"))
    dropped = (create, DropColumns(TABLE, ("v",)))
    assert _after(B.LENIENT, *dropped)[1] == []
    state, changes = _after(B.LENIENT, *dropped, _add("v", "DOUBLE"))
    assert changes == [AlterColumnTypes(TABLE, (("v", parse_column_type("DOUBLE")),))]
    assert state.targets[TABLE].names == ("id", "v")
    assert _after(B.LENIENT, *dropped, _add("v", "INT"))[1] == []
    digits = parse_column_type("DECIMAL(12, 2)")
    assert _after(B.LENIENT, *dropped, _add("v", "DECIMAL(5, 2)"))[1] == [AlterColumnTypes(TABLE, (("v", digits),))]

    renamed = (create, RenameColumns(TABLE, (("v", "w"),)))
    assert _after(B.LENIENT, *renamed)[1] == [_add("w", "INT")]
    state, changes = _after(B.LENIENT, *renamed, RenameColumns(TABLE, (("w", "v"),)))
    assert changes == []
    assert state.targets[TABLE].names == ("id", "v", "w")


def test_a_dropped_not_null_column_becomes_nullable() -> None:
    create = _create(TABLE, ("id", "INT NOT NULL"), ("v", "INT NOT NULL"))
    nullable = AlterColumnTypes(TABLE, (("v", parse_column_type("INT")),))
    assert _after(B.LENIENT, create, DropColumns(TABLE, ("v",)))[1] == [nullable]
    assert _after(B.LENIENT, create, RenameColumns(TABLE, (("v", "w"),)))[1] == [_add("w", "INT"), nullable]


@pytest.mark.parametrize("behavior", [B.LENIENT, B.EVOLVE, B.TRY_EVOLVE])
def test_lenient_adds_columns_nullable_and_at_the_end(behavior: B) -> None:
    create = _create(TABLE, ("id", "INT NOT NULL"))
    places = (AddedColumn(_column("v", "INT NOT NULL"), "FIRST"), AddedColumn(_column("w", "INT"), "BEFORE", "id"))
    event = AddColumns(TABLE, places)
    at_the_end = AddColumns(TABLE, tuple(AddedColumn(_column(name, "INT")) for name in "vw"))
    assert _after(behavior, create, event)[1] == [at_the_end if behavior is B.LENIENT else event]


def test_a_repeated_change_is_left_out() -> None:
    create = _create(TABLE, ("id", "INT NOT NULL"))
    state, changes = _after(B.EVOLVE, create, _add("v", "INT"), _add("v", "INT"))
    assert changes == []
    assert state.sources[TABLE].names == state.targets[TABLE].names == ("id", "v")


def test_a_change_of_an_unknown_table_is_an_error() -> None:
    with pytest.raises(SchemaChangeError, match=r"table db\.t: add\.column comes before the table is created"):
        _after(B.EVOLVE, _add("v", "INT"))


def test_exception_stops_at_any_change_but_a_new_table() -> None:
    create = _create(TABLE, ("id", "INT NOT NULL"))
    assert _after(B.EXCEPTION, create)[1] == [create]
    with pytest.raises(SchemaChangeError, match=r"its schema changes \(add\.column, caused by the table db\.t\)"):
        _after(B.EXCEPTION, create, _add("v", "INT"))


def test_sources_of_one_target_have_the_same_key() -> None:
    one, other = TableId(("db", "t1")), TableId(("db", "t2"))
    routes = (Route(r"db.\.*", "ods.all"),)
    columns = (("id", "INT NOT NULL"), ("k", "INT NOT NULL"))
    same = (_create(one, *columns, key=("id", "k")), _create(other, *columns, key=("k", "id")))
    assert _after(B.LENIENT, *same, routes=routes)[1] == []
    with pytest.raises(SchemaChangeError, match=r"the tables db\.t1 \(id\) and db\.t2 \(no key\) lead to it"):
        _after(B.LENIENT, _create(one, *columns), _create(other, *columns, key=()), routes=routes)


def test_a_target_of_several_sources_gets_only_the_difference_to_the_merged_schema() -> None:
    """It keeps the rows of the others when one is truncated, and a column that the sources lack."""
    one, other, target = TableId(("db", "t1")), TableId(("db", "t2")), TableId(("ods", "all"))
    created = [_create(table, ("id", "INT NOT NULL"), ("v", "INT")) for table in (one, other)]
    routes = (Route(r"db.\.*", "ods.all"),)
    dropped = [DropColumns(table, ("v",)) for table in (one, other)]
    for events in ([TruncateTable(one)], [DropTable(one)], dropped[:1], dropped):
        state, changes = _after(B.EVOLVE, *created, *events, routes=routes)
        assert changes == []
        assert state.targets[target].names == ("id", "v")
    assert _after(B.EVOLVE, created[0], TruncateTable(one), routes=routes)[1] == [TruncateTable(target)]


def test_a_renamed_column_that_the_target_lacks_is_an_error() -> None:
    plans = SchemaEvolution(Router([]), B.LENIENT, accepted_tags(["drop"], None, B.LENIENT))
    state, changes = plans.plan(SchemaState(), _create(TABLE, ("id", "INT NOT NULL")))
    state = state.change_target(changes[0])
    state, changes = plans.plan(state, _add("v", "INT"))
    assert changes == ()
    with pytest.raises(SchemaChangeError, match="column 'v' is renamed to 'w', and the target does not have it"):
        plans.plan(state, RenameColumns(TABLE, (("v", "w"),)))


def test_included_and_excluded_kinds() -> None:
    everything = frozenset(TAGS)
    assert len(everything) == 8
    lenient = everything - {"drop.table", "truncate.table"}
    assert accepted_tags([], None, B.LENIENT) == lenient
    assert accepted_tags([], [], B.LENIENT) == accepted_tags([], None, B.EVOLVE) == everything
    assert accepted_tags(["add", "alter"], None, B.EVOLVE) == {"add.column", "alter.column.type", "create.table"}
    columns = {"add.column", "alter.column.type", "drop.column", "rename.column"}
    assert accepted_tags(["column"], ["create"], B.EVOLVE) == columns
    tables = {"create.table", "drop.table", "truncate.table", "alter.table.comment"}
    assert accepted_tags(["table"], [], B.LENIENT) == tables
    assert accepted_tags(["drop"], ["drop.table"], B.EVOLVE) == {"drop.column", "create.table"}
    with pytest.raises(
        OptionError, match=r"'exclude\.schema\.changes' has 'drop\.colum'.* Did you mean 'drop\.column'"
    ):
        accepted_tags([], ["drop.colum"], B.EVOLVE)
