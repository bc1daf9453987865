"""What Avro messages of a schema registry contribute: the types of their schemas, which a registry of HTTP serves."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kvformat.registry import OptionError, get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.discovery import format_class
from tests.support.looking import columns, look, merged, table, types_of
from tests.support.registry_server import Registry

_ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "hash", "type": ["null", {"type": "fixed", "name": "Hash", "size": 2}], "default": None},
    ],
}
_SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [{"name": "db", "type": "string"}, {"name": "table", "type": "string"}],
}
_ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", _ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": _SOURCE},
        {"name": "op", "type": "string"},
    ],
}
_COLUMNS = {"id": "BIGINT", "state": "STRING", "hash": "VARBINARY(2)"}
_TABLE = "id BIGINT, state STRING, hash BYTES"
_VALUE = {"id": 1, "state": "PAID", "hash": b"\x01\x02"}


def _message(registry: Registry, schema: Any, datum: Any) -> bytes:
    schema_id = len(registry.ids) + 1
    registry.ids[schema_id] = json.dumps(schema)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), datum)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def _change(registry: Registry) -> bytes:
    source = {"db": "shop", "table": "orders"}
    return _message(registry, _ENVELOPE, {"before": None, "after": _VALUE, "source": source, "op": "c"})


def test_rows_with_enum_and_fixed(registry: Registry) -> None:
    message = _message(registry, _ROW, _VALUE)
    given = {"url": registry.url, "read-enum-and-fixed": "true"}
    found = look("avro-confluent", [message, None], given=given, topic="orders")
    assert (found.tables, found.indices.to_pylist(), columns(found)) == ((("orders",),), [0, None], _COLUMNS)
    batch = get_format("avro-confluent", given).decode_batch(pa.array([message]), _TABLE)
    assert (batch.errors, batch.rows.values.to_pylist()) == (None, [_VALUE])
    as_flink = get_format("avro-confluent", {"url": registry.url}).decode_batch(pa.array([message]), _TABLE)
    assert (
        "Found enum State, expecting string: the column is STRING. Set 'read-enum-and-fixed'"
        in as_flink.errors[0].as_py()
    )


@pytest.mark.parametrize("option", ["schema", "schema-registry.schema"])
def test_changes_with_enum_and_fixed_whatever_schema_is_given(registry: Registry, option: str) -> None:
    message = _change(registry)
    given = {"url": registry.url, "read-enum-and-fixed": "true"}
    without_a_table = _message(registry, {"type": "record", "name": "Other", "fields": []}, {})
    other = {"type": "record", "name": "Of_one_table", "fields": [{"name": "op", "type": "string"}]}
    for more in ({}, {option: json.dumps(other)}):
        found = look("debezium-avro-confluent", [message, without_a_table], given={**given, **more})
        assert (found.tables, found.indices.to_pylist(), columns(found)) == ((("shop", "orders"),), [0, None], _COLUMNS)
        assert list(found.errors) == [1]
    for types in ("flink", "debezium"):
        fmt = get_format("debezium-avro-confluent", {**given, "types": types})
        batch = fmt.decode_batch(pa.array([message]), _TABLE)
        assert (batch.errors, batch.rows.values.to_pylist()) == (None, [_VALUE]), types


def test_a_union_has_the_columns_of_all_its_records(registry: Registry) -> None:
    order = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
    fields = [{"name": "why", "type": "string"}, {"name": "id", "type": "long"}, {"name": "order", "type": "Order"}]
    union = ["null", order, {"type": "record", "name": "Refund", "fields": fields}]
    refund = ("Refund", {"why": "late", "id": 8, "order": {"id": 7}})
    messages = [_message(registry, union, value) for value in (("Order", {"id": 7}), refund)]
    given = {"url": registry.url}
    found = look("avro-confluent", messages, given=given, topic="events")
    assert (found.tables, found.indices.to_pylist()) == ((("events",),), [0, 0])
    known = types_of(merged({}, found))[("events",)]
    assert {name: t for name, (t, _) in known.items()} == {
        "id": "BIGINT",
        "why": "STRING",
        "order": "ROW<`id` INT>",
    }
    assert columns(look("avro-confluent", messages, given=given, topic="events", known=merged({}, found))) == {}


def test_a_record_that_contains_itself_has_its_other_columns(registry: Registry) -> None:
    fields = [{"name": "a", "type": "int"}, {"name": "next", "type": ["null", "Node"]}, {"name": "b", "type": "string"}]
    node = {"type": "record", "name": "Node", "fields": fields}
    value = _message(registry, node, {"a": 1, "next": {"a": 2, "next": None, "b": ""}, "b": "x"})
    found = look("avro-confluent", [value], given={"url": registry.url}, known={("topic",): table("a INT")})
    assert columns(found) == {"b": "STRING"}
    fmt = get_format("avro-confluent", {"url": registry.url, "on-new-schema": "fail"})
    (error,) = fmt.decode_batch(pa.array([value]), "a INT").errors.to_pylist()
    assert error.endswith("does not show: b. Columns that show them, as changes of the table: ADD (`b` STRING)")
    assert fmt.decode_batch(pa.array([value]), "a INT, b STRING").rows.to_pylist() == [[{"a": 1, "b": "x"}]]


def test_changes_behind_messages_that_change_no_row_are_found(registry: Registry) -> None:
    def change(op: str) -> bytes:
        source = {"db": "shop", "table": "orders"}
        return _message(registry, _ENVELOPE, {"before": None, "after": _VALUE, "source": source, "op": op})

    messages = [None, b"", change("m"), change("c"), None, change("t"), change("m"), change("u")]
    found = look("debezium-avro-confluent", messages, given={"url": registry.url})
    assert (found.tables, dict(found.errors)) == ((("shop", "orders"),), {})
    assert found.indices.to_pylist() == [None, None, None, 0, None, 0, None, 0]
    assert found.changes == {5: "truncate"}


@pytest.mark.parametrize(("count", "expected"), [(86_399_999_999, "TIME(6)"), (86_400_000_000, "STRING")])
def test_a_count_that_is_no_time_of_a_day_makes_its_column_text(registry: Registry, count: int, expected: str) -> None:
    micros = {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTime"}
    row = {"type": "record", "name": "Value", "fields": [{"name": "t", "type": micros}]}
    envelope = json.loads(json.dumps(_ENVELOPE))
    envelope["fields"][0]["type"][1] = row
    source = {"db": "shop", "table": "orders"}
    message = _message(registry, envelope, {"before": None, "after": {"t": count}, "source": source, "op": "c"})
    given = {"url": registry.url, "types": "debezium"}
    assert columns(look("debezium-avro-confluent", [message], given=given)) == {"t": expected}
    declared = {"t": parse_type("TIME(6)")}
    assert columns(look("debezium-avro-confluent", [message], given=given, fixed=declared)) == {"t": "TIME(6)"}


def test_each_type_of_records_has_its_table(registry: Registry) -> None:
    records = [{"type": "record", "name": name, "fields": [{"name": name[0], "type": "long"}]} for name in ("A", "B")]
    messages = [_message(registry, record, {record["name"][0]: 1}) for record in (*records, records[0])]
    given = {"url": registry.url}
    found = look("avro-confluent", [*messages, None], given=given, **{"tables-by-record-name": True})
    assert [None if i is None else found.tables[i] for i in found.indices.to_pylist()] == [("A",), ("B",), ("A",), None]
    assert dict(found.errors) == {}


_MARKED = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        *({"name": name, "type": ["null", "string"], "default": None} for name in ("__db", "__table", "__deleted")),
    ],
}
_PLAIN = {**_MARKED, "fields": _MARKED["fields"][:-1]}


@pytest.mark.parametrize("topic", ["server.shop.orders", "all"])
@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("types", ["flink", "debezium"])
def test_a_record_without_a_value_deletes_a_row_unless_rows_say_so(
    registry: Registry, topic: str, marked: bool, types: str
) -> None:
    row = {"id": 1, "__db": "shop", "__table": "orders", "__deleted": "false"}
    message = _message(registry, _MARKED if marked else _PLAIN, row)
    other = _message(registry, _MARKED if marked else _PLAIN, {**row, "__table": "items"})
    messages = [message, None, *([other] if topic == "all" else [])]
    given = {"url": registry.url, "flattened": "true", "types": types}
    found = look("debezium-avro-confluent", messages, given=given, topic=topic)
    tables = [None if i is None else found.tables[i][-1] for i in found.indices.to_pylist()]
    assert tables == (["orders", "orders"] if topic != "all" else ["orders", None, "items"])
    assert [*found.errors] == ([] if marked or topic != "all" else [1])
    assert {column.name for column in found.columns} == {"id", "__db", "__table"}


@pytest.mark.parametrize("field", [True, False])
def test_a_change_without_a_source_is_of_the_table_of_its_topic(registry: Registry, field: bool) -> None:
    """As in JSON. Flink writes such messages."""
    envelope = json.loads(json.dumps(_ENVELOPE))
    envelope["fields"][2:3] = [{"name": "source", "type": ["null", _SOURCE]}] if field else []
    change = {"before": None, "after": _VALUE, "source": None}
    messages = [_message(registry, envelope, {**change, "op": op}) for op in "cmt"]
    found = look("debezium-avro-confluent", messages, given={"url": registry.url}, topic="orders")
    assert (found.tables, found.indices.to_pylist()) == ((("orders",),), [0, None, 0])
    assert (dict(found.errors), dict(found.changes)) == ({}, {2: "truncate"})


def test_a_truncate_whose_source_does_not_name_a_table_is_skipped(registry: Registry) -> None:
    change = {"before": None, "after": None, "source": {"db": "shop", "table": " "}}
    messages = [_message(registry, _ENVELOPE, {**change, "op": op}) for op in "tc"]
    found = look("debezium-avro-confluent", messages, given={"url": registry.url})
    assert (found.tables, [*found.errors], dict(found.changes)) == ((), [1], {})


def test_a_time_that_is_no_time_of_a_day_is_found_in_its_own_message(registry: Registry) -> None:
    micros = {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTime"}
    envelope = json.loads(json.dumps(_ENVELOPE))
    envelope["fields"][0]["type"][1] = {"type": "record", "name": "Value", "fields": [{"name": "t", "type": micros}]}
    source = {"db": "shop", "table": "orders"}
    counts = [(1, 2), (3, 4), (5, 86_400_000_000), (6, -1)]
    messages = [
        _message(registry, envelope, {"before": {"t": old}, "after": {"t": new}, "source": source, "op": "u"})
        for old, new in counts
    ]
    messages = [messages[0][:5] + message[5:] for message in messages]  # all of one schema
    known = {("shop", "orders"): table("t TIME(6)")}
    found = look("debezium-avro-confluent", messages, given={"url": registry.url, "types": "debezium"}, known=known)
    assert [(column.name, column.message, [*map(str, column.types)]) for column in found.columns] == [
        ("t", 2, ["STRING"])
    ]


@pytest.mark.parametrize(("more", "is_row"), [("name", True), ("__deleted", True), ("data_collections", False)])
def test_a_row_with_the_fields_of_another_message_and_one_more_is_a_row(
    registry: Registry, more: str, is_row: bool
) -> None:
    fields = [{"name": name, "type": "string"} for name in ("id", "status", "event_count", more)]
    message = _message(registry, {"type": "record", "name": "Value", "fields": fields}, {f["name"]: "" for f in fields})
    given = {"url": registry.url, "flattened": "true"}
    found = look("debezium-avro-confluent", [message], given=given)
    assert (found.indices.to_pylist(), dict(found.errors)) == ([0 if is_row else None], {})


@pytest.mark.parametrize(
    "format", ["avro-confluent", "avro-registry", "avro-glue", "avro-apicurio", "debezium-avro-confluent"]
)
def test_enum_and_fixed_are_looked_at_unless_the_option_says_otherwise(format: str) -> None:
    looks = format_class(format).look_options
    assert looks({})["read-enum-and-fixed"] == "true"
    assert looks({"read-enum-and-fixed": "false"})["read-enum-and-fixed"] == "false"


@pytest.mark.parametrize("name", ["schema", "schema-registry.schema"])
def test_one_schema_for_all_tables_is_refused_by_the_name_that_was_given(name: str) -> None:
    with pytest.raises(OptionError, match=f"the option '{name}' sets one schema") as caught:
        format_class("avro-confluent").look_options({name: json.dumps(_ROW)})
    assert caught.value.option == name


def test_a_schema_that_is_no_record_gives_no_columns_and_does_not_stop_looking(registry: Registry) -> None:
    messages = [_message(registry, "string", "x"), _message(registry, _ROW, _VALUE)]
    found = look("avro-confluent", messages, given={"url": registry.url, "read-enum-and-fixed": "true"})
    assert (columns(found), dict(found.errors)) == (_COLUMNS, {})
