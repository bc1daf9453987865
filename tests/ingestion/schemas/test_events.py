"""Changes of schemas, their JSON form, and the state of all tables."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kvformat.ingestion.errors import SchemaChangeError
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
    event_from_json,
    event_to_json,
    schema_difference,
)
from kvformat.ingestion.schemas.state import Cause, CausedEvent, SchemaState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema, merge_schemas
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.registry.contract.errors import OptionError

TABLE = TableId(("a.b", "t"))
ID, V = (SchemaColumn(name, parse_column_type(text)) for name, text in (("id", "BIGINT NOT NULL"), ("v", "INT")))
W = SchemaColumn("w", parse_column_type("STRING"), default="", comment="c")
SCHEMA = TableSchema((ID, V), ("id",))
EVENTS: list[SchemaEvent] = [
    CreateTable(TABLE, SCHEMA),
    AddColumns(TABLE, (AddedColumn(W, "AFTER", "id"), AddedColumn(SchemaColumn("x", V.type), "FIRST"))),
    AlterColumnTypes(TABLE, (("v", parse_column_type("DECIMAL(10, 2)")),)),
    RenameColumns(TABLE, (("v", "z"),)),
    DropColumns(TABLE, ("v",)),
    TruncateTable(TABLE),
    DropTable(TABLE),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.tag)
def test_the_json_form_gives_the_event_back(event: SchemaEvent) -> None:
    caused = CausedEvent(event, Cause("shop", 2, 7))
    assert CausedEvent.from_json(json.loads(json.dumps(caused.to_json()))) == caused
    assert CausedEvent.from_json(CausedEvent(event).to_json()).cause is None
    assert event_from_json(event_to_json(event)).table == TABLE  # a name with a dot keeps its two parts


@pytest.mark.parametrize(
    ("event", "half", "done"),
    [
        (
            AddColumns(TABLE, (AddedColumn(W), AddedColumn(SchemaColumn("x", V.type)))),
            (ID, V, W),
            (ID, V, W, SchemaColumn("x", V.type)),
        ),
        (AlterColumnTypes(TABLE, (("id", V.type), ("v", W.type))), (ID, replace(V, type=W.type)), None),
        (RenameColumns(TABLE, (("id", "a"), ("v", "b"))), (replace(ID, name="a"), V), None),
        (RenameColumns(TABLE, (("v", "b"),)), (ID, V, replace(V, name="b")), None),
        (RenameColumns(TABLE, (("v", "b"),)), (ID,), None),
        (DropColumns(TABLE, ("id", "v")), (V, W), (W,)),
    ],
)
def test_an_event_is_done_only_if_all_of_its_columns_are(
    event: SchemaEvent, half: tuple[SchemaColumn, ...], done: tuple[SchemaColumn, ...] | None
) -> None:
    assert not event.is_done(TableSchema(half)), "a change that was made in part is finished"
    assert event.is_done(TableSchema(done) if done is not None else event.apply(SCHEMA))  # type: ignore[arg-type]


def test_a_new_first_column_comes_first_in_the_difference() -> None:
    (event,) = schema_difference(TABLE, SCHEMA, TableSchema((W, ID, V), ("id",)))
    assert event == AddColumns(TABLE, (AddedColumn(W, "FIRST"),))


def test_events_change_a_schema_and_are_seen_in_it() -> None:
    names = {event.tag: event.apply(SCHEMA).names for event in EVENTS}
    assert names["add.column"] == ("x", "id", "w", "v")
    assert names["rename.column"] == ("id", "z")
    assert names["drop.column"] == ("id",)
    assert str(EVENTS[2].apply(SCHEMA).columns[1].type) == "DECIMAL(10, 2)"
    for event in EVENTS[1:5]:
        assert not event.is_done(SCHEMA)
        assert event.is_done(event.apply(SCHEMA))
    assert not EVENTS[5].is_done(SCHEMA)


def test_a_column_beside_a_missing_one_is_an_error() -> None:
    with pytest.raises(SchemaChangeError, match=r"table a\.b\.t: column 'w' can't be added BEFORE 'q'") as caught:
        AddColumns(TABLE, (AddedColumn(W, "BEFORE", "q"),)).apply(SCHEMA)
    assert caught.value.table == "a.b.t"
    with pytest.raises(SchemaChangeError, match="'move_column' is not a change of a schema"):
        event_from_json({"move_column": {"table": ["t"]}})


def test_the_difference_leads_from_one_schema_to_the_other() -> None:
    upcoming = TableSchema((W, SchemaColumn("v", parse_column_type("DOUBLE"))))
    merged = merge_schemas(SCHEMA, upcoming)
    assert merged.names == ("id", "v", "w")
    assert merged.primary_key == ("id",)
    schema = SCHEMA
    for event in schema_difference(TABLE, SCHEMA, merged):
        schema = event.apply(schema)
    assert schema == merged
    assert schema_difference(TABLE, merged, merged) == ()
    assert merge_schemas(merged, upcoming) is merged
    assert schema_difference(TABLE, None, merged) == (CreateTable(TABLE, merged),)
    assert schema_difference(TABLE, merged, TableSchema((W,))) == (DropColumns(TABLE, ("id", "v")),)


def test_a_merged_column_keeps_its_default_and_comment() -> None:
    known, seen = replace(W, type=V.type), SchemaColumn("w", parse_column_type("STRING"), "d", "other")
    (merged,) = merge_schemas(TableSchema((known,)), TableSchema((seen,))).columns
    assert merged == W


def test_the_forms_of_a_column_stay_until_others_are_given() -> None:
    schema = SCHEMA.with_forms({"id": 1, "v": 2})
    assert schema.with_forms({"v": 3, "gone": 4}).forms() == {"id": 1, "v": 3}


def test_the_state_keeps_its_tables_in_json() -> None:
    state = SchemaState().change_source(EVENTS[0]).change_target(EVENTS[0]).change_target(EVENTS[1])
    text = json.dumps(state.to_json(), sort_keys=True)
    assert SchemaState.from_json(json.loads(text)) == state
    assert state.sources[TABLE] == SCHEMA
    assert state.targets[TABLE].names == ("x", "id", "w", "v")
    with pytest.raises(SchemaChangeError, match=r"drop\.column, and there is no such table"):
        SchemaState().change_target(EVENTS[4])
    with pytest.raises(SchemaChangeError, match=r"have the version 2, and this release of kvformat reads version 1"):
        SchemaState.from_json({"version": 2})


def test_names_of_tables_have_one_to_three_parts() -> None:
    assert [TableId.parse(text).parts for text in ("t", "s.t", "n.s.t")] == [("t",), ("s", "t"), ("n", "s", "t")]
    table = TableId.parse("n.s.t")
    assert (table.namespace, table.schema, table.table, str(table)) == ("n", "s", "t", "n.s.t")
    assert (TableId(("a.b",)).schema, TableId(("a.b",)).shown_parts()) == (None, ("a", "b"))
    assert TableId(("a.b.c.d",)).shown_parts() == ("a.b.c.d",)
    for text in ("a.b.c.d", "", "a..b", ".a"):
        with pytest.raises(OptionError, match="a name has one to three parts"):
            TableId.parse(text)
