"""Topics with records of several types: tables of one type, columns for types, unions, and subjects by names."""

from __future__ import annotations

import contextlib
import functools
import json
import random
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from kvformat.codecs.registries import cache
from kvformat.codecs.registries.schema_ids import SCHEMA_ID
from kvformat.connectors import cli, ddl_from_subject, infer_schema, inspect_topic
from kvformat.registry import Format, KeyValueFormat, OptionError, SchemaError, get_format, observe_records
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.contract.types import arrow_type, nullable
from tests.support import random_rows
from tests.support.decoding import first_rows
from tests.support.extent import case_count
from tests.support.protobuf_types import class_of
from tests.support.registry_server import Registry

_FORMATS = ("avro-confluent", "avro-registry", "json-registry", "proto-registry")
_STRATEGIES = ("topic-name", "record-name", "topic-record-name")
_NAMES = ("com.shop.Order", "com.shop.Refund", "org.stock.Item")
_class_of_text = functools.cache(class_of)


def _rows(schema: str, *values: dict[str, Any] | None) -> pa.StructArray:
    return pa.array(values, arrow_type(nullable(row_type(resolve_schema(schema)))))


def _encoded(fmt: Format, schema: str, *values: dict[str, Any] | None) -> list[bytes]:
    batch = fmt.encode_batch(_rows(schema, *values), schema)
    assert batch.errors is None
    found: list[bytes] = batch.messages.to_pylist()
    return found


# --- Confluent's serializers ---------------------------------------------------------------------------------


def _serializer(kind: str, own: str, client: Any, strategy: str) -> tuple[Any, Any]:
    """Return Confluent's reader and writer of a schema, with a strategy."""
    from confluent_kafka import schema_registry as registry
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

    subjects = {
        "topic-name": registry.topic_subject_name_strategy,
        "record-name": registry.record_subject_name_strategy,
        "topic-record-name": registry.topic_record_subject_name_strategy,
    }
    conf = {"subject.name.strategy": subjects[strategy], "auto.register.schemas": True}
    if kind.startswith("avro"):
        return AvroDeserializer(client), AvroSerializer(client, own, conf=conf)
    if kind == "json-registry":
        return JSONDeserializer(None, schema_registry_client=client), JSONSerializer(own, client, conf=conf)
    message = _class_of_text(own)
    return ProtobufDeserializer(message), ProtobufSerializer(message, client, conf=conf)


def _random_schema(fmt: Format, rng: random.Random) -> tuple[str, str]:
    """Return a table that the format writes and Confluent's serializers read, and the schema to register."""
    while True:
        text = random_rows.schema(rng, columns=rng.randint(1, 5), depth=2).replace("(38, 18)", "(15, 3)")
        text = text.replace("CHAR(3)", "STRING")
        with contextlib.suppress(SchemaError):
            return text, fmt.own_schema(resolve_schema(text)).text  # type: ignore[attr-defined]


def _compare(kind: str, strategy: str, rng: random.Random, number: int) -> int:
    """Write three types of records by Confluent's serializers, and read them in all ways. Returns the records.

    The values are those of our own messages. The subjects of ours and of Confluent's must be the same.
    """
    from confluent_kafka.serialization import MessageField, SerializationContext

    url, topic = f"mock://record-types-{kind}-{strategy}-{number}", "events"
    context = SerializationContext(topic, MessageField.VALUE)
    options = {"url": url, "subject-name-strategy": strategy}
    options |= {"subject": f"{topic}-value"} if strategy == "topic-name" else {"subject-topic": topic}
    schemas, values, messages, types = {}, dict[str, list[bytes]](), [], []
    for name in _NAMES:
        fmt = get_format(kind, {**options, "record-name": name})
        client: Any = cache._registry(fmt.settings).registry._client  # type: ignore[attr-defined]
        text, own = _random_schema(fmt, rng)
        batch = fmt.encode_batch(random_rows.rows(rng, row_type(resolve_schema(text)), 6), text)
        before = set(client.get_subjects())
        reader, writer = _serializer(kind, own, client, strategy)
        schemas[name] = text
        for message in filter(None, batch.messages.to_pylist()):
            if b'"NaN"' in message or b'Infinity"' in message:
                continue  # texts in JSON, where the schema has a number
            found = writer(reader(message, context), context)
            messages.append(found)
            types.append(name)
        assert set(client.get_subjects()) == before, "ours are registered under other subjects than Confluent's"
    assert len(client.get_subjects()) == (1 if strategy == "topic-name" else 3)
    mixed = list(range(len(messages)))
    rng.shuffle(mixed)
    messages, types = [messages[at] for at in mixed], [types[at] for at in mixed]
    for name, text in schemas.items():
        fmt = get_format(kind, {"url": url})
        wanted = first_rows(fmt, text, *(m for m, t in zip(messages, types, strict=True) if t == name))
        values[name] = wanted
        skipping = get_format(kind, {"url": url, "record-name": name, "other-messages": "skip"})
        rows = iter(wanted)
        expected = [next(rows) if t == name else [] for t in types]
        assert repr(first_rows(skipping, text, *messages)) == repr(expected)
        strict = first_rows(get_format(kind, {"url": url, "record-name": name}), text, *messages)
        for found, value, t in zip(strict, expected, types, strict=True):
            assert f"the message has the type {t}, by schema" in found if t != name else repr(found) == repr(value)
            assert t == name or f"the table has records of '{name}'" in found or f"records of {name}" in found
    columns = {f"c{at}": name for at, name in enumerate(schemas)}
    table = ", ".join(f"{column} ROW<{schemas[name]}>" for column, name in columns.items())
    given = ",".join(f"{column}:{name}" for column, name in columns.items())
    together = first_rows(get_format(kind, {"url": url, "record-columns": given}), table, *messages)
    iterators = {name: iter(found) for name, found in values.items()}
    for row, t in zip(together, types, strict=True):
        assert repr(row) == repr(
            {column: next(iterators[t]) if name == t else None for column, name in columns.items()}
        )
    back = get_format(kind, {**options, "record-columns": given})
    assert repr(first_rows(back, table, *_encoded(back, table, *together))) == repr(together)
    return len(messages)


@pytest.mark.parametrize("strategy", _STRATEGIES)
@pytest.mark.parametrize("kind", _FORMATS)
def test_types_that_confluents_serializers_write(kind: str, strategy: str) -> None:
    count, rng = case_count(quick=8, night=24), random.Random(f"{kind} {strategy}")
    compared = sum(_compare(kind, strategy, rng, number) for number in range(count))
    print(f"{compared} records of three types")
    assert compared > 15 * count


# --- unions ------------------------------------------------------------------------------------------------

_ORDER = {"type": "record", "name": "Order", "namespace": "com.shop", "fields": [{"name": "id", "type": "long"}]}
_REFUND = {**_ORDER, "name": "Refund", "fields": [{"name": "id", "type": "long"}, {"name": "why", "type": "string"}]}


def _framed(schema_id: int, datum: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + datum


def test_a_union_of_avro_records_with_references(registry: Registry) -> None:
    registry.ids |= {
        1: json.dumps(_ORDER),
        2: json.dumps(_REFUND),
        3: json.dumps(["com.shop.Order", "com.shop.Refund", "null", "string"]),
        4: json.dumps([*({**_ORDER, "name": f"T{number}"} for number in range(200)), _REFUND]),
        5: json.dumps(["null", _ORDER]),
    }
    registry.subjects |= {"order": [1], "refund": [2]}
    registry.references[3] = [
        {"name": f"com.shop.{name.title()}", "subject": name, "version": 1} for name in ("order", "refund")
    ]
    messages = [
        _framed(3, b"\x00\x0e"),  # Order
        _framed(3, b"\x02\x10\x02x"),  # Refund
        _framed(2, b"\x12\x02y"),
        None,
        _framed(4, b"\x90\x03\x14\x02z"),  # branch 200: Refund
        _framed(4, b"\x80\x02\x16"),  # branch 128: T128
        _framed(5, b"\x02\x18"),
        _framed(3, b"\x04"),  # null
        _framed(3, b"\x06\x02s"),  # a string
    ]
    skip = {"url": registry.url, "other-messages": "skip"}
    refunds = first_rows(
        get_format("avro-confluent", {**skip, "record-name": "com.shop.Refund"}), "id BIGINT, why STRING", *messages
    )
    assert refunds == [
        *([], {"id": 8, "why": "x"}, {"id": 9, "why": "y"}, None, {"id": 10, "why": "z"}),
        *([], [], [], []),
    ]
    orders = first_rows(get_format("avro-confluent", {**skip, "record-name": "com.shop.Order"}), "id BIGINT", *messages)
    assert orders == [{"id": 7}, [], [], None, [], [], {"id": 12}, [], []]
    t128 = {"url": registry.url, "record-name": "com.shop.T128"}
    errors = first_rows(get_format("avro-confluent", t128), "id BIGINT", *messages)
    assert errors[5] == {"id": 11}
    assert errors[3] is None
    assert errors[0] == (
        "the message has the type com.shop.Order, by schema 3, and the table has records of com.shop.T128. Set "
        "'other-messages' = 'skip' to skip messages of other types"
    )
    assert [error.split(",")[0] for error in errors[7:]] == [
        "the message has the type null",
        "the message has the type string",
    ]


@pytest.mark.parametrize(
    "datum", [b"", b"\x01", b"\x08", b"\xff", b"\x81\x01", b"\xff\xff\xff\xff\x0f", b"\x90\x90\x00"]
)
def test_a_wrong_branch_of_a_union_is_an_error(registry: Registry, datum: bytes) -> None:
    registry.ids[1] = json.dumps([_ORDER, _REFUND])
    for options in ({"record-name": "com.shop.Order"}, {"record-columns": "a:com.shop.Order,b:com.shop.Refund"}):
        fmt = get_format("avro-confluent", {"url": registry.url, "other-messages": "skip", **options})
        table = "id BIGINT" if "record-name" in options else "a ROW<id BIGINT>, b ROW<id BIGINT>"
        good, found = first_rows(fmt, table, _framed(1, b"\0\x0e"), _framed(1, datum))
        assert good == ({"id": 7} if "record-name" in options else {"a": {"id": 7}, "b": None})
        assert isinstance(found, str), datum


_SHOP = """syntax = "proto3"; package com.shop;
message Order { int64 id = 1; message Line { string sku = 1; } }
message Refund { int64 id = 1; string why = 2; }"""


def test_a_protobuf_file_with_several_messages(registry: Registry) -> None:
    registry.ids[1], registry.types[1] = _SHOP, "PROTOBUF"
    messages = [
        _framed(1, b"\0\x08\x07"),
        _framed(1, b"\x02\x02\x08\x08\x12\x01x"),  # the path 1
        _framed(1, b"\x04\0\0\x0a\x01k"),  # the path 0, 0
        _framed(1, b"\x02\0\x08\x09"),  # the path 0, not in its short form
        None,
        _framed(1, b"\x02\x08\x08"),  # the path 4, which is not there
        _framed(9, b"\0\x08\x07"),
        b"",
    ]
    tables = {
        "com.shop.Order": ("id BIGINT", [{"id": 7}, [], [], {"id": 9}, None]),
        "com.shop.Refund": ("id BIGINT, why STRING", [[], {"id": 8, "why": "x"}, [], [], None]),
        "com.shop.Order.Line": ("sku STRING", [[], [], {"sku": "k"}, [], None]),
    }
    for name, (table, rows) in tables.items():
        fmt = get_format("proto-registry", {"url": registry.url, "record-name": name, "other-messages": "skip"})
        found = first_rows(fmt, table, *messages)
        assert found[:5] == rows
        assert "no message at the index path [4]" in found[5]
        assert "Could not find schema with id 9" in found[6]
        assert "0 bytes" in found[7]


def _one_of(**branches: dict[str, Any]) -> str:
    definitions = {
        name: {"type": "object", "properties": {"id": {"type": "integer"}, **more}, "required": [*more]}
        for name, more in branches.items()
    }
    return json.dumps({"oneOf": [{"$ref": f"#/$defs/{name}"} for name in definitions], "$defs": definitions})


def test_a_json_union_is_decided_by_a_constant(registry: Registry) -> None:
    kinds = {"Order": {"kind": {"const": "order"}}, "Refund": {"kind": {"enum": ["refund", "storno"]}}}
    registry.ids |= {
        1: _one_of(**kinds),
        2: _one_of(Order={}, Refund={}),
        3: json.dumps({"type": "object", "title": "Refund", "properties": {"id": {"type": "integer"}}}),
        4: json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}}),
        5: json.dumps({"oneOf": [{"type": "null"}, {"title": "Refund", "type": "object"}]}),
    }
    registry.types |= dict.fromkeys(registry.ids, "JSON")
    messages = [
        _framed(1, b'{"kind":"order","id":1}'),
        _framed(1, b'{"id":2,"kind":"storno"}'),
        _framed(3, b'{"id":3}'),
        _framed(5, b'{"id":4}'),
        _framed(1, b'{"id":5,"kind":"gift"}'),
        _framed(1, b'{"id":6}'),
        _framed(1, b"{"),
        _framed(2, b'{"id":7}'),
        _framed(4, b'{"id":8}'),
        _framed(9, b'{"id":9}'),
        None,
    ]
    fmt = get_format("json-registry", {"url": registry.url, "record-name": "Refund", "other-messages": "skip"})
    found = first_rows(fmt, "id INT", *messages)
    assert found[:4] == [[], {"id": 2}, {"id": 3}, {"id": 4}]
    assert "does not have the member 'kind' with one of the values order, refund, storno" in found[4]
    assert "does not have the member 'kind'" in found[5]
    assert isinstance(found[6], str)
    assert "the JSON Schema 2 is one of Order, Refund, and nothing in a message tells which" in found[7]
    assert found[8] == []
    assert "Could not find schema with id 9" in found[9]
    assert found[10] is None
    other = get_format("json-registry", {"url": registry.url, "record-name": "Gift", "other-messages": "skip"})
    assert first_rows(other, "id INT", messages[0], messages[7], messages[8]) == [[], [], []]
    strict = first_rows(get_format("json-registry", {"url": registry.url, "record-name": "Gift"}), "id INT", *messages)
    assert "the message has the type (without a name), by schema 4" in strict[8]
    assert all(isinstance(error, str) for error in strict[:-1])
    columns = {"url": registry.url, "record-columns": "r:Refund,o:Order", "other-messages": "skip"}
    rows = first_rows(get_format("json-registry", columns), "o ROW<id INT>, r ROW<kind STRING>", *messages)
    assert rows[:2] == [{"o": {"id": 1}, "r": None}, {"o": None, "r": {"kind": "storno"}}]


@pytest.mark.parametrize("options", [{"record-name": "Refund"}, {"record-columns": "r:Refund,o:Order"}])
def test_a_json_schema_that_is_not_valid_is_an_error_of_its_messages(
    options: dict[str, str], registry: Registry
) -> None:
    kinds = {"Order": {"kind": {"const": "order"}}, "Refund": {"kind": {"const": "refund"}}}
    union = json.loads(_one_of(**kinds))
    no_list, no_members = json.loads(_one_of(**kinds)), json.loads(_one_of(**kinds))
    no_list["$defs"]["Refund"]["required"] = 5
    no_members["$defs"]["Order"]["properties"] = 5
    registry.ids |= {1: json.dumps(union), 2: "{", 3: json.dumps(no_list), 4: json.dumps(no_members)}
    registry.types |= dict.fromkeys(registry.ids, "JSON")
    fmt = get_format("json-registry", {"url": registry.url, "other-messages": "skip", **options})
    table = "id INT" if "record-name" in options else "r ROW<id INT>, o ROW<id INT>"
    messages = [_framed(number, b'{"kind":"refund","id":1}') for number in (1, 2, 3, 4)]
    good, *others = first_rows(fmt, table, *messages)
    assert good == ({"id": 1} if "record-name" in options else {"r": {"id": 1}, "o": None})
    assert "schema with id 2 in the schema registry" in others[0]
    assert "it is not valid JSON" in others[0]
    assert all("is one of Order, Refund, and nothing in a message tells which" in error for error in others[1:])


@pytest.mark.parametrize("guids", [(), (1,), (2,), (1, 2)])
@pytest.mark.parametrize("more", [{}, {"on-new-schema": "fail"}])
def test_types_of_schemas_with_guids(registry: Registry, guids: tuple[int, ...], more: dict[str, str]) -> None:
    registry.ids |= {1: json.dumps(_ORDER), 2: json.dumps(_REFUND)}
    datums = {1: b"\x0e", 2: b"\x10\x02x"}
    frames = {n: b"\1" + uuid.UUID(registry.guid(n)).bytes if n in guids else _framed(n, b"") for n in datums}
    messages = [frames[n] + datums[n] for n in (1, 2, 2, 1)] + [None, frames[1], _framed(9, b"\0")]
    options = {"url": registry.url, "record-columns": "r:com.shop.Refund,o:com.shop.Order", **more}
    found = first_rows(
        get_format("avro-confluent", options), "o ROW<id BIGINT>, r ROW<id BIGINT, why STRING>", *messages
    )
    order, refund = {"o": {"id": 7}, "r": None}, {"o": None, "r": {"id": 8, "why": "x"}}
    assert found[:5] == [order, refund, refund, order, None]
    assert [isinstance(error, str) for error in found[5:]] == [True, True]
    assert "schema with id 9" in found[6]
    named = {"url": registry.url, "record-name": "com.shop.Order", "other-messages": "skip", **more}
    assert first_rows(get_format("avro-confluent", named), "id BIGINT", *messages)[:5] == [
        {"id": 7},
        [],
        [],
        {"id": 7},
        None,
    ]


@pytest.mark.parametrize("kind", _FORMATS)
def test_a_new_field_of_one_type_is_told_by_its_column(kind: str, registry: Registry) -> None:
    written = {"com.shop.Order": "id BIGINT, name STRING", "com.shop.Refund": "id BIGINT, why STRING"}
    messages: list[bytes] = []
    for name, table in written.items():
        options = {"url": registry.url, "record-name": name, "subject-name-strategy": "record-name"}
        messages += _encoded(get_format(kind, options), table, {"id": 1})
    columns = {"url": registry.url, "record-columns": "o:com.shop.Order,r:com.shop.Refund", "on-new-schema": "fail"}
    found = first_rows(get_format(kind, columns), "o ROW<id BIGINT, name STRING>, r ROW<id BIGINT>", *messages)
    assert found[0] == {"o": {"id": 1, "name": None}, "r": None}
    assert "fields or types that the table does not show: why" in found[1]


def test_the_ids_of_schemas_beside_types(registry: Registry) -> None:
    registry.ids |= {1: json.dumps(_ORDER), 2: json.dumps(_REFUND)}
    messages = pa.array([_framed(2, b"\x10\x02x"), _framed(1, b"\x0e"), None])
    both = {"url": registry.url, "record-columns": "o:com.shop.Order,r:com.shop.Refund"}
    one = {"url": registry.url, "record-name": "com.shop.Order", "other-messages": "skip"}
    for options, table, expected in (
        (both, "o ROW<id BIGINT>", [[{"o": None, SCHEMA_ID: "2"}], [{"o": {"id": 7}, SCHEMA_ID: "1"}], None]),
        (one, "id BIGINT", [[], [{"id": 7, SCHEMA_ID: "1"}], None]),
    ):
        batch = get_format("avro-confluent", options).decode_batch(messages, table, metadata=[SCHEMA_ID])
        assert batch.rows.to_pylist() == expected


# --- options -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "direction", "what"),
    [
        ({"record-name": "A", "record-columns": "a:A"}, "decode", "Remove one of them"),
        ({"record-columns": "a:A,b:A"}, "decode", "several columns for the type A"),
        ({"record-columns": "a:A,b:B", "schema-id": "1", "subject": "s"}, "encode", "'schema-id'.* is for one type"),
        ({"record-columns": "a:A", "schema": "x"}, "decode", "'schema'.* is for one type"),
        ({"subject-name-strategy": "record-name", "subject": "s"}, "encode", "has the subject 's'"),
        ({"subject-name-strategy": "topic-record-name"}, "encode", "needs the option 'subject-topic'"),
        ({"subject-name-strategy": "none"}, "decode", "RecordNameStrategy"),
        ({"other-messages": "skip-all"}, "decode", r"\[error, skip\]"),
        ({}, "encode", "subject"),
    ],
)
@pytest.mark.parametrize("kind", _FORMATS)
def test_options_that_contradict_each_other(kind: str, options: dict[str, str], direction: Any, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        get_format(kind, {"url": "mock://options", **options}).prepare(direction, "a INT")


def test_json_registry_needs_the_registry_for_types() -> None:
    assert get_format("json-registry").decode_batch(pa.array([], pa.binary()), "a INT").errors is None
    with pytest.raises(OptionError, match="'url' of format 'json-registry' is missing"):
        get_format("json-registry", {"record-name": "A"}).decode_batch(pa.array([], pa.binary()), "a INT")


@pytest.mark.parametrize("kind", _FORMATS)
def test_columns_that_are_not_those_of_types(kind: str) -> None:
    fmt = get_format(kind, {"url": "mock://columns", "record-columns": "a:A,b:B", "subject": "s"})
    for table, what in (("a INT", "'a' is INT"), ("a ROW<x INT>, c ROW<x INT>", "'c' is not one of its columns a, b")):
        with pytest.raises(SchemaError, match=what):
            fmt.decode_batch(pa.array([], pa.binary()), table)
        with pytest.raises(SchemaError, match=what):
            fmt.encode_batch(_rows(table), table)
    table = "a ROW<x INT>, b ROW<x INT>"
    rows = [{"a": {"x": 1}, "b": None}, None, {"a": {"x": 1}, "b": {"x": 2}}, {"a": None, "b": None}, {"b": {"x": 3}}]
    batch = fmt.encode_batch(_rows(table, *rows), table)
    assert [message is None for message in batch.messages.to_pylist()] == [False, True, True, True, False]
    assert batch.errors is not None
    assert [error and error[:52] for error in batch.errors.to_pylist()] == [
        *(None, None, *["the row must have a value in one of the columns a, b"] * 2, None)
    ]
    assert first_rows(fmt, table, *batch.messages.to_pylist()) == [
        *({"a": {"x": 1}, "b": None}, None, None, None, {"a": None, "b": {"x": 3}})
    ]
    none = fmt.decode_batch(pa.array([*batch.messages.to_pylist(), b"?"]), pa.schema([]))
    assert none.rows.to_pylist() == [[{}], None, None, None, [{}], None]
    assert none.errors is not None
    assert none.errors.null_count == 5
    assert first_rows(fmt, "b ROW<x INT>", *batch.messages.to_pylist())[::4] == [{"b": None}, {"b": {"x": 3}}]


@pytest.mark.parametrize(
    ("given", "subject"),
    [
        ({}, "events-value"),
        ({"subject-name-strategy": "io.confluent.kafka.serializers.subject.TopicNameStrategy"}, "events-value"),
        ({"subject-name-strategy": "Record-Name"}, "com.shop.Order"),
        ({"subject-name-strategy": "io.confluent.kafka.serializers.subject.RecordNameStrategy"}, "com.shop.Order"),
        ({"subject-name-strategy": "topic-record-name"}, "events-com.shop.Order"),
        (
            {"subject-name-strategy": "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"},
            "events-com.shop.Order",
        ),
    ],
)
def test_a_table_of_a_topic_knows_its_subjects(registry: Registry, given: dict[str, str], subject: str) -> None:
    options = {"url": registry.url, "record-name": "com.shop.Order", **given}
    named = ", ".join(f"'avro-confluent.{name}' = '{value}'" for name, value in options.items())
    table = KeyValueFormat.from_ddl(
        f"""CREATE TABLE orders (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'events', {named},
        'properties.bootstrap.servers' = 'b:9', 'format' = 'avro-confluent', 'scan.startup.mode' = 'earliest-offset')"""
    )
    assert table.encode_batch(_rows("id BIGINT", {"id": 1})).errors is None
    assert [(one, body["name"]) for one, _, body in registry.registered] == [(subject, "Order")]


def test_writing_refuses_a_schema_of_another_type(registry: Registry) -> None:
    registry.ids[1] = json.dumps(_REFUND)
    registry.subjects["com.shop.Order"] = [1]
    options = {"url": registry.url, "record-name": "com.shop.Order", "subject": "com.shop.Order"}
    table = "id BIGINT NOT NULL, why STRING NOT NULL"
    for more in ({"use-latest-version": "true"}, {"schema": json.dumps(_REFUND)}):
        with pytest.raises(SchemaError, match=r"that of com\.shop\.Refund, and 'record-name' is 'com\.shop\.Order'"):
            get_format("avro-confluent", {**options, **more}).encode_batch(_rows(table, {"id": 1, "why": "x"}), table)


# --- proposals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["avro-confluent", "json-registry", "proto-registry"])
def test_inspection_shows_each_type_and_proposes_its_table(kind: str, registry: Registry, tmp_path: Path) -> None:
    url = registry.url
    schemas = {"com.shop.Order": "id BIGINT, name STRING", "com.shop.Refund": "id BIGINT, why STRING"}
    messages: list[bytes] = []
    for name, table, count in zip(schemas, schemas.values(), (3, 2), strict=True):
        column = table.split(", ")[1].split()[0]
        fmt = get_format(kind, {"url": url, "record-name": name, "subject-name-strategy": "record-name"})
        messages += _encoded(fmt, table, *({"id": number, column: "x"} for number in range(count)))
    messages = [messages[at] for at in (0, 3, 1, 4, 2)]
    found = inspect_topic(messages, [b"k"] * 5, name="events", topic="events", bootstrap="b:9", registry=url)
    values = [guess for guess in found.guesses if guess.part == "value"]
    assert [(guess.format, guess.confidence) for guess in values] == [(kind, 0.6), (kind, 0.4)]
    for guess, count, name in zip(values, (3, 2), schemas, strict=True):
        assert guess.reason.startswith(f"{count} of 5 messages begin with 00 and a schema id")
        assert guess.reason.endswith(f"of the type {name}")
    assert [guess.options["record-name"] for guess in values] == list(schemas)
    assert list(found.tables) == list(schemas)
    assert found.ddl == found.tables["com.shop.Order"]
    assert not [note for note in found.notes if "errors" in note]
    for (name, columns), rows in zip(schemas.items(), (3, 2), strict=True):
        ddl = found.tables[name]
        assert ddl.startswith(f"CREATE TABLE `{name.rpartition('.')[2]}` (")
        assert f"'value.{kind}.record-name' = '{name}'" in ddl
        batch = KeyValueFormat.from_ddl(ddl).decode_batch(pa.array([b"k"] * 5), pa.array(messages))
        assert len(batch.rows.flatten()) == rows
        schema = infer_schema(messages, format=kind, options={"url": url, "record-name": name})
        assert [field.split()[0].strip("`") for field in schema.ddl.split(", ")] == [
            *(part.split()[0] for part in columns.split(", "))
        ]
    (tmp_path / "messages").write_bytes(b"".join(len(m).to_bytes(4, "big") + m for m in messages))
    arguments = ["inspect", str(tmp_path / "messages"), "--framing", "length", "--registry", url, "--sql"]
    shown = CliRunner().invoke(cli._group, arguments)
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("CREATE TABLE") == 2
    several = infer_schema(messages, format=kind, options={"url": url})
    assert any("the messages have 2 types: com.shop.Order (3), com.shop.Refund (2)" in note for note in several.notes)
    columns = infer_schema(
        messages, format=kind, options={"url": url, "record-columns": "o:com.shop.Order,r:com.shop.Refund"}
    )
    assert columns.ddl == "`o` ROW<`id` BIGINT, `name` STRING>, `r` ROW<`id` BIGINT, `why` STRING>"


def _of_type(kind: str, url: str, name: str, column: str, *values: Any) -> list[bytes]:
    """Return messages of a type with one column, `a BIGINT`."""
    fmt = get_format(kind, {"url": url, "record-name": name, "subject-name-strategy": "record-name"})
    return _encoded(fmt, column, *({column.split()[0]: value} for value in values))


def _read(ddl: str, keys: list[bytes], values: list[bytes | None]) -> list[Any]:
    batch = KeyValueFormat.from_ddl(ddl).decode_batch(pa.array(keys), pa.array(values, pa.binary()))
    assert batch.errors is None, (ddl, batch.errors)
    return [row for rows in batch.rows.to_pylist() for row in rows]


def test_columns_of_messages_of_a_union_need_the_type(registry: Registry) -> None:
    records = [{"type": "record", "name": n, "fields": [{"name": "a", "type": "int"}]} for n in ("s.A", "s.B")]
    registry.ids[1] = json.dumps(records)
    messages = [_framed(1, b"\0\2"), _framed(1, b"\2\2")]
    options = {"url": registry.url}
    with pytest.raises(SchemaError, match=r"have the types s\.A, s\.B: set 'record-name' to one"):
        infer_schema(messages, format="avro-confluent", options=options)
    with pytest.raises(SchemaError, match=r"only a record stands for the columns of a table$"):
        infer_schema(messages[:1], format="avro-confluent", options=options)
    found = infer_schema(messages, format="avro-confluent", options={**options, "record-name": "s.B"})
    assert found.ddl == "`a` INT NOT NULL"


def test_columns_of_a_subject_with_several_types(registry: Registry) -> None:
    names = ("a", "b", "ab")  # the first one begins the last one
    kinds = [{"type": "object", "properties": {n: {"type": "integer"}}} for n in names]
    branches = [{"title": f"s.{n.upper()}", **kind} for n, kind in zip(names, kinds, strict=True)]
    records = [{"type": "record", "name": f"s.{n.upper()}", "fields": [{"name": n, "type": "int"}]} for n in names]
    nested = "message A { int32 c = 1; } message AB { int32 d = 1; }"
    proto = f"message A {{ int32 a = 1; }} message B {{ int32 b = 1; {nested} }} message AB {{ int32 ab = 1; }}"
    registry.ids |= {1: json.dumps(records), 2: json.dumps({"oneOf": branches}), 3: f"package s; {proto}"}
    registry.types |= {2: "JSON", 3: "PROTOBUF"}
    registry.subjects |= {"avro": [1], "json": [2], "proto": [3]}

    def columns(subject: str, name: str | None) -> str:
        return ddl_from_subject(registry.url, subject, options={} if name is None else {"record-name": name})

    for subject in ("avro", "json", "proto"):
        for name in names:
            assert columns(subject, f"s.{name.upper()}").startswith(f"`{name}` ")
        with pytest.raises(SchemaError, match=r"it has the types? .*set the option 'record-name' .* it is 's.Other'"):
            columns(subject, "s.Other")
    assert columns("proto", "s.B.A").startswith("`c` ")
    assert columns("proto", "s.B.AB").startswith("`d` ")
    assert columns("proto", None).startswith("`a` ")  # the first message of the file
    for subject in ("avro", "json"):
        with pytest.raises(SchemaError, match=r"it has the types s\.A, s\.AB, s\.B: set the option 'record-name'"):
            columns(subject, None)


@pytest.mark.parametrize("kind", ["avro-confluent", "json-registry", "proto-registry"])
@pytest.mark.parametrize("column", ["number BIGINT", "id STRING"])
def test_tables_of_types_read_the_keys_of_their_type(kind: str, column: str, registry: Registry) -> None:
    """The keys of one type are not valid for the table of the other one."""
    url, name = registry.url, column.split()[0]
    other: list[Any] = ["5", "6"] if name == "id" else [5, 6]
    keys = _of_type(kind, url, "com.shop.OrderKey", "id BIGINT", 1, 2, 3)
    keys += _of_type(kind, url, "com.shop.RefundKey", column, *other)
    values: list[bytes | None] = [*_of_type(kind, url, "com.shop.Order", "note STRING", "x", "y", "z")]
    values += _of_type(kind, url, "com.shop.Refund", "why STRING", "v", "w")
    found = inspect_topic(values, keys, topic="events", bootstrap="b:9", registry=url)
    note = "key: the messages have 2 types: com.shop.OrderKey (3), com.shop.RefundKey (2). The option 'record-name'"
    (text,) = [text for text in found.notes if text.startswith(note)]
    assert text.endswith("The columns of several types are no key together: a row has those of one type")
    together = "in some schemas, which no column reads with the others"  # tables have one type each
    assert not [text for text in found.notes if "errors" in text and together not in text]
    orders, refunds = found.tables.values()
    assert f"'key.{kind}.record-name' = 'com.shop.OrderKey'" in orders
    assert f"'key.{kind}.other-messages' = 'skip'" in orders
    assert _read(orders, keys, values) == [{"id": n, "note": note} for n, note in ((1, "x"), (2, "y"), (3, "z"))]
    assert _read(refunds, keys, values) == [{name: n, "why": why} for n, why in zip(other, "vw", strict=True)]
    # a table of deletes by key needs the key of each record
    values[2] = None
    found = inspect_topic(values, keys, topic="events", bootstrap="b:9", registry=url)
    assert any("a table of upsert-kafka with the key is not proposed: 2 of 5 records" in text for text in found.notes)
    assert _read(found.tables["com.shop.Order"], keys, values) == [{"id": 1, "note": "x"}, {"id": 2, "note": "y"}]
    # keys of one type
    found = inspect_topic(values, [keys[0]] * 5, topic="events", bootstrap="b:9", registry=url)
    assert all("upsert-kafka" in ddl and "'key.fields'" not in ddl for ddl in found.tables.values())
    assert not any(f"key.{kind}.record-name" in ddl for ddl in found.tables.values())


@pytest.mark.parametrize("kind", ["avro-confluent", "json-registry"])
def test_a_table_of_one_type_reads_keys_of_several(kind: str, registry: Registry) -> None:
    url = registry.url
    values: list[bytes | None] = [*_of_type(kind, url, "com.shop.Event", "note STRING", *"abc")]
    keys = _of_type(kind, url, "com.shop.OrderKey", "id BIGINT", 1, 2)
    both = [*keys, *_of_type(kind, url, "com.shop.RefundKey", "number BIGINT", 3)]
    found = inspect_topic(values, both, topic="events", bootstrap="b:9", registry=url)
    assert any(
        "key: the messages have 2 types: com.shop.OrderKey (2), com.shop.RefundKey (1)" in n for n in found.notes
    )
    assert found.ddl is not None
    assert _read(found.ddl, both, values) == [
        {"id": 1, "number": None, "note": "a"},
        {"id": 2, "number": None, "note": "b"},
        {"id": None, "number": 3, "note": "c"},
    ]


def test_keys_whose_columns_differ_in_type_are_left_out(registry: Registry) -> None:
    kind, url = "avro-confluent", registry.url
    values: list[bytes | None] = [*_of_type(kind, url, "com.shop.Event", "note STRING", *"abc")]
    keys = _of_type(kind, url, "com.shop.OrderKey", "id BIGINT", 1, 2)
    keys += _of_type(kind, url, "com.shop.ClashKey", "id ARRAY<BIGINT>", [3])
    found = inspect_topic(values, keys, topic="events", bootstrap="b:9", registry=url)
    why = "topic: a table of kafka with the key is not proposed: 2 of 3 records are errors to it"
    assert any(note.startswith(why) for note in found.notes)
    assert found.ddl is not None
    assert _read(found.ddl, keys, values) == [{"note": note} for note in "abc"]


# --- Spark -----------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["avro-confluent", "json-registry", "proto-registry"])
def test_types_in_spark(kind: str, spark: Any, registry: Registry) -> None:
    """Write two types by their columns, read them as columns and as a table, and count the skipped records."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    table = "o ROW<id BIGINT, name STRING>, r ROW<id BIGINT, why STRING>"
    named = {"url": registry.url, "record-columns": "o:com.shop.Order,r:com.shop.Refund"}
    fmt = get_format(kind, {**named, "subject-name-strategy": "topic-record-name", "subject-topic": "events"})
    rows = [((1, "a"), None), (None, (2, "b")), ((3, None), None)]
    df = spark.createDataFrame(rows, "o STRUCT<id: BIGINT, name: STRING>, r STRUCT<id: BIGINT, why: STRING>")
    written = df.select(fmt.encode(F.struct("o", "r"), table).alias("value"))
    messages = [bytes(row.value) for row in written.collect()]
    assert sorted(registry.subjects or {one for one, _, _ in registry.registered}) == [
        *("events-com.shop.Order", "events-com.shop.Refund")
    ]
    kept = spark.createDataFrame([(message,) for message in messages], "value BINARY")
    read = kept.select(get_format(kind, named).decode("value", table).alias("row")).select("row.*").collect()
    assert [(row.o and tuple(row.o), row.r and tuple(row.r)) for row in read] == rows
    options = {"url": registry.url, "record-name": "com.shop.Order", "other-messages": "skip"}
    orders = KeyValueFormat(
        "id BIGINT, name STRING", {"format": kind, **{f"{kind}.{name}": text for name, text in options.items()}}
    )
    seen = Observation()
    decoded = observe_records(orders.decode(kept, errors="capture"), seen)
    assert [row.id for row in decoded.collect() if row.error is None] == [1, 3]
    assert {name: seen.get[name] for name in ("rows", "bad", "skipped")} == {"rows": 2, "bad": 0, "skipped": 1}


@pytest.mark.parametrize(
    ("format", "more"),
    [
        ("avro-glue", {}),
        ("avro-glue", {"schema.compression": "ZLIB"}),
        ("avro-apicurio", {}),
        ("avro-apicurio", {"id-width": "8"}),
    ],
)
def test_other_registries_have_types_too(format: str, more: dict[str, str], tmp_path: Path) -> None:
    options = {"url": f"file:{tmp_path}", **({"schema.autoRegistration": "true"} if format == "avro-glue" else {})}
    tables = {"com.shop.Order": "id BIGINT, name STRING", "com.shop.Refund": "id BIGINT, amount BIGINT"}
    rows = {
        "com.shop.Order": [{"id": 1, "name": "a"}, {"id": 2, "name": None}],
        "com.shop.Refund": [{"id": 3, "amount": 4}],
    }
    messages = []
    for name, table in tables.items():
        writer = get_format(format, {**options, **more, "record-name": name, "subject-name-strategy": "record-name"})
        messages += writer.encode_batch(pa.array(rows[name]), table).messages.to_pylist()
    mixed = [messages[2], messages[0], None, messages[1], b"x", messages[2]]
    order, refund = rows["com.shop.Order"], rows["com.shop.Refund"][0]
    for name, wanted in (
        ("com.shop.Order", [[], [order[0]], None, [order[1]], None, []]),
        ("com.shop.Refund", [[refund], [], None, [], None, [refund]]),
    ):
        reader = get_format(format, {**options, "record-name": name, "other-messages": "skip"})
        batch = reader.decode_batch(pa.array(mixed), tables[name])
        assert batch.rows.to_pylist() == wanted
        assert batch.errors is not None
        assert batch.errors.is_valid().to_pylist() == [False] * 4 + [True, False]
    columns = get_format(format, {**options, "record-columns": "o:com.shop.Order,r:com.shop.Refund"})
    batch = columns.decode_batch(pa.array(mixed), f"o ROW<{tables['com.shop.Order']}>, r ROW<id BIGINT, amount BIGINT>")
    assert batch.rows.to_pylist()[:4] == [
        [{"o": None, "r": refund}],
        [{"o": order[0], "r": None}],
        None,
        [{"o": order[1], "r": None}],
    ]
    values, headers = messages, None
    if format == "avro-apicurio":  # inspection recognizes ids in headers
        size = 9 if more else 5
        header = "apicurio.value.contentId"
        values = [message[size:] for message in messages]
        headers = [[{"key": header, "value": message[1:size].rjust(8, b"\0")}] for message in messages]
    found = inspect_topic(values, headers=headers, topic="events", bootstrap="b:9", registry=options["url"])
    assert list(found.tables) == list(tables)
    for name, ddl in found.tables.items():
        batch = KeyValueFormat.from_ddl(ddl).decode_batch(
            None, pa.array(values), headers=None if headers is None else pa.array(headers)
        )
        assert batch.errors is None
        assert batch.rows.values.to_pylist() == rows[name]
