"""Ids and GUIDs of schemas in headers of records, and GUIDs before the message, in all formats with a registry."""

from __future__ import annotations

import functools
import json
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.registries import cache
from kvformat.codecs.registries.confluent_frames import FIRST, HEADERS, read_path
from kvformat.connectors import KafkaTable, infer_schema, inspect_topic
from kvformat.registry import KeyValueFormat, SchemaError, get_format
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.table.record_headers import HEADERS_TYPE, last_header
from tests.support import random_rows
from tests.support.confluent import BY_TOPIC, registry_client
from tests.support.decoding import decoded_rows, readable_rows
from tests.support.extent import case_count
from tests.support.protobuf_types import class_of
from tests.support.registry_server import Registry, RegistryServer

KEY, VALUE = HEADERS["key"], HEADERS["value"]
_ROW = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}
_IMAGE = ["null", {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}]}]
_CHANGE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": _IMAGE},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
    ],
}
_PROTO = """syntax = "proto3";
message Other { bool x = 1; message Row { int64 a = 1; string b = 2; } }
message Change { Value before = 1; Value after = 2; string op = 3; message Value { int32 id = 1; } }"""


pytestmark = pytest.mark.schemas(
    {1: json.dumps(_ROW), 2: json.dumps(_CHANGE), 3: _PROTO, 4: '{"type":"object"}'}, types={3: "PROTOBUF", 4: "JSON"}
)


def _guid(registry: Registry, schema_id: int) -> bytes:
    return b"\1" + uuid.UUID(registry.guid(schema_id)).bytes


def _id(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


def _table(format: str, columns: str, url: str) -> KeyValueFormat:
    # another timeout, so that the table has another client than the peers, which knows no GUID yet
    timeout = "" if url.startswith("mock:") else f"'{format}.registry-timeout' = '29 s', "
    return KeyValueFormat.from_ddl(
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'kafka', 'topic' = 'orders', {timeout}"
        f"'properties.bootstrap.servers' = 'b:9', 'scan.startup.mode' = 'earliest-offset', 'format' = '{format}', "
        f"'{format}.url' = '{url}')"
    )


_Header = tuple[str, bytes | None]


def _records(table: KeyValueFormat, *records: tuple[bytes | None, list[_Header] | None]) -> list[Any]:
    """Return for each record the rows with their kinds, None, or the error."""
    headers = pa.array(
        [named and [{"key": name, "value": data} for name, data in named] for _, named in records],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    values = pa.array([value for value, _ in records], pa.binary())
    return readable_rows(table.decode_batch(None, values, headers=headers))


def test_the_last_header_with_a_name_counts() -> None:
    x, other = {"key": "x", "value": b"1"}, {"key": "y", "value": b"2"}
    nameless = {"key": None, "value": b"4"}
    lists = [[x], None, [other, x, {"key": "x", "value": b"3"}], [], [{"key": "x", "value": None}], [x, nameless]]
    headers = pa.array(lists, HEADERS_TYPE)
    wanted = [b"1", None, b"3", None, None, b"1"]
    for start in range(len(lists) + 1):
        assert last_header(headers[start:], "x").to_pylist() == wanted[start:]
    hidden = pa.ListArray.from_arrays(headers.offsets, headers.values, mask=pa.array([True] + [False] * 5))
    assert last_header(hidden, "x").to_pylist() == [None, *wanted[1:]]


# --- GUIDs before the message ------------------------------------------------------------------------------


def test_guids_and_ids_may_be_in_one_batch(registry: Registry) -> None:
    registry.ids[7] = json.dumps({**_ROW, "fields": [{"name": "b", "type": "string"}]})
    fmt = get_format("avro-confluent", {"url": registry.url})
    unknown = uuid.UUID(int=5)
    messages = [
        _guid(registry, 1) + b"\x02\x02x",
        _id(1) + b"\x04\x02y",
        None,
        _guid(registry, 7) + b"\x02z",
        b"\1" + unknown.bytes + b"\x04\x02y",
        _guid(registry, 1)[:-1],
        _guid(registry, 1) + b"\x06\x02w",
        _guid(registry, 1),
        _id(7) + b"\x02v",
        b"",
        b"\2" + bytes(20),
    ]
    found = decoded_rows(fmt, "a BIGINT, b STRING", *messages)
    assert [one for one in found if not isinstance(one, str)] == [
        [("+I", 1, "x")],
        [("+I", 2, "y")],
        None,
        [("+I", None, "z")],
        [("+I", 3, "w")],
        [("+I", None, "v")],
    ]
    errors = {at: one for at, one in enumerate(found) if isinstance(one, str)}
    assert errors.keys() == {4, 5, 7, 9, 10}
    assert errors[4].startswith(f"Could not find schema with id {unknown} in the schema registry at {registry.url}")
    assert "16 bytes, fewer than the 5 of 00 and a schema id, or the 17" in errors[5]
    assert "Magic number does not match: 02" in errors[10]
    asked = sorted(registry.requests)
    assert asked == sorted(
        [f"GET /schemas/guids/{guid}" for guid in (registry.guid(1), registry.guid(7), unknown)]
        + [f"GET /schemas/ids/{schema_id}" for schema_id in (1, 7)]
    )
    # a slice, and messages one by one, give the same; known answers are not requested again
    array = pa.array(messages, pa.binary())
    for start in range(len(messages)):
        assert readable_rows(fmt.decode_batch(array[start:], "a BIGINT, b STRING")) == found[start:]
        assert decoded_rows(fmt, "a BIGINT, b STRING", messages[start]) == [found[start]]
    assert sorted(registry.requests) == asked


def test_a_message_may_have_nothing_after_its_id_or_guid(registry: Registry) -> None:
    """Its type then has no fields."""
    registry.ids[60] = json.dumps({"type": "record", "name": "Empty", "fields": []})
    messages = [b"\0" + (60).to_bytes(4, "big"), b"\1" + uuid.UUID(registry.guid(60)).bytes]
    for given in (messages, messages[:1], messages[1:]):
        batch = get_format("avro-confluent", {"url": registry.url}).decode_batch(pa.array(given), "a INT")
        assert (batch.errors, batch.rows.to_pylist()) == (None, [[{"a": None}]] * len(given))


def test_a_registry_without_guids_refuses_the_messages_and_not_the_batch(registry: Registry) -> None:
    registry.has_guids = False
    fmt = get_format("avro-confluent", {"url": registry.url})
    found = decoded_rows(fmt, "a BIGINT", _id(1) + b"\x04\x02y", _guid(registry, 1) + b"\x04\x02y")
    assert found[0] == [("+I", 2)]
    assert "do not know GUIDs" in found[1]


def test_a_folder_may_have_a_file_for_a_guid(registry: Registry, tmp_path: Path) -> None:
    fmt = get_format("avro-confluent", {"url": f"file:{tmp_path}"})
    (tmp_path / f"{registry.guid(1)}.avsc").write_text(registry.ids[1])
    found = decoded_rows(fmt, "a BIGINT", _guid(registry, 1) + b"\x04\x02y", _guid(registry, 2) + b"\0")
    assert found[0] == [("+I", 2)]
    assert f"there is no file {registry.guid(2)}.avsc" in found[1]
    assert fmt.own_schema(resolve_schema("a BIGINT")).kind == "AVRO"  # type: ignore[attr-defined]
    assert get_format("avro-confluent", {"url": f"file:{tmp_path}", "subject": "s"}).encode_batch(
        pa.array([{"a": 1}], pa.struct([("a", pa.int64())])), "a BIGINT"
    ).messages.to_pylist() == [b"\0\0\0\0\1\2\2"]  # the first free id


def test_guids_of_protobuf_have_a_path(registry: Registry) -> None:
    fmt = get_format("proto-registry", {"url": registry.url})
    row, other = b"\4\0\0\x08\x07", b"\0\x08\x01"  # Other.Row and Other
    guid = _guid(registry, 3)
    for messages in ([guid + row] * 3, [guid + other] * 3, [guid + row, _id(3) + row, guid + other, None]):
        paths = [None if m is None else read_path(m, 17 if m[0] else 5) for m in messages]
        wanted = [None if path is None else [("+I", None if path[0] == FIRST else 7)] for path in paths]
        assert decoded_rows(fmt, "a BIGINT", *messages) == wanted
    assert "path of a type" in decoded_rows(fmt, "a BIGINT", guid)[0]


@pytest.mark.parametrize("size", [0, 1, 2, 7, 40])
def test_random_frames_are_read_alike_in_any_batch(size: int, registry: Registry) -> None:
    """Batches of GUIDs only, of ids only, mixed, with nulls and wrong frames, and slices of them."""
    rng = random.Random(size)
    fmt, schema = get_format("json-debezium-registry"), "id INT"
    text, good = b'{"after":{"id":%d},"op":"c"}', [b"\1" + bytes(16), _id(1)]
    parts: list[bytes | None] = [*good, None, b"", b"\1\0", b"\2" + bytes(20), b"\0", b"\1" + bytes(15)]
    compared = 0
    for _ in range(40):
        kinds = rng.sample(parts, rng.randint(1, 4))
        drawn = [(rng.choice(kinds), number) for number in range(size)]
        messages = [None if part is None else part + (text % number) * (part in good) for part, number in drawn]
        array = pa.array([b"junk", *messages, None], pa.binary())[1 : size + 1]
        found = readable_rows(fmt.decode_batch(array, schema))
        wanted = [[("+I", number)] if part in good else None if part is None else str for part, number in drawn]
        assert [str if isinstance(one, str) else one for one in found] == wanted
        compared += len(found)
    assert compared == 40 * size


@pytest.mark.parametrize("format", ["avro-confluent", "json-registry", "proto-registry", "debezium-avro-confluent"])
def test_columns_of_messages_with_guids(format: str, registry: Registry) -> None:
    columns, schema_id, path, message, _ = _FORMATS[format]
    framed = [
        _guid(registry, schema_id) + path + message,
        _id(schema_id) + path + message,
        b"\1" + bytes(16) + path + message,
    ]
    found = infer_schema(framed, format=format, options={"url": registry.url})
    assert [field.name for field in found.fields] == [column.split()[0] for column in columns.split(", ")]
    if format != "json-registry":  # the schema has no columns, so the values have them
        assert any(str(uuid.UUID(int=0)) in note for note in found.notes)
    if format == "debezium-avro-confluent":
        registry.ids[1] = json.dumps({**_ROW, "fields": [{"name": "id", "type": "int"}]})
        keys = [_guid(registry, 1) + b"\2"] * 3
        inspected = inspect_topic([_id(schema_id) + message] * 3, keys, registry=registry.url)
        assert inspected.ddl is not None
        assert "PRIMARY KEY (`id`)" in inspected.ddl


# --- headers -------------------------------------------------------------------------------------------------

_FORMATS: dict[str, tuple[str, int, bytes, bytes, list[Any]]] = {
    # columns, the schema's id, the header after the id, the message, the rows
    "avro-confluent": ("a BIGINT, b STRING", 1, b"", b"\x02\x02x", [("+I", 1, "x")]),
    "avro-registry": ("a BIGINT, b STRING", 1, b"", b"\x02\x02x", [("+I", 1, "x")]),
    "json-registry": ("a BIGINT, b STRING", 4, b"", b'{"a":1,"b":"x"}', [("+I", 1, "x")]),
    "proto-registry": ("a BIGINT, b STRING", 3, b"\4\0\0", b"\x08\x01\x12\x01x", [("+I", 1, "x")]),
    "debezium-avro-confluent": ("id INT", 2, b"", b"\x00\x02\x0e\x02c", [("+I", 7)]),
    "avro-debezium-registry": ("id INT", 2, b"", b"\x02\x02\x02\x0e\x02u", [("-U", 1), ("+U", 7)]),
    "json-debezium-registry": ("id INT", 4, b"", b'{"before":{"id":7},"op":"d"}', [("-D", 7)]),
    "proto-debezium-registry": ("id INT", 3, b"\2\2", b"\x12\x02\x08\x07\x1a\x01c", [("+I", 7)]),
}


@pytest.mark.parametrize("format", _FORMATS)
def test_ids_in_headers_of_records(format: str, registry: Registry) -> None:
    columns, schema_id, path, message, rows = _FORMATS[format]
    table = _table(format, columns, registry.url)
    assert dict(table.record_headers) == {"value": VALUE}
    assert KafkaTable._of(table).source_options()["includeHeaders"] == "true"
    guid, number = _guid(registry, schema_id) + path, _id(schema_id) + path
    found = _records(
        table,
        (message, [(VALUE, guid)]),
        (number + message, None),
        (guid + message, []),
        (message, [("trace", b"\xff"), (VALUE, number), (KEY, b"no id")]),
        (None, [(VALUE, guid)]),
        (message, [(VALUE, b"\1\2\3"), (VALUE, guid)]),  # the last one counts
        (number + message, [(VALUE, None), (KEY, guid), ("other", guid)]),
        (message, [(VALUE, guid), (VALUE, None)]),
    )
    assert found.pop(4) in (None, [])
    assert found == [rows] * 7


def test_the_header_counts_even_if_the_value_looks_as_if_it_began_with_another_id(registry: Registry) -> None:
    """The datum may begin with 00 or 01. The id of the key's header and of neighbours does not count."""
    registry.ids[7] = json.dumps({**_ROW, "fields": [{"name": name, "type": "long"} for name in "cdefg"]})
    table = _table("avro-confluent", "a BIGINT, c BIGINT, g BIGINT", registry.url)
    datum = b"\0\0\0\0\1"  # five numbers for schema 7, also the frame of schema 1
    found = _records(
        table,
        (datum, [(VALUE, _id(7))]),
        (datum + b"\4\2x", None),
        (datum, [(KEY, _id(1)), (VALUE, _guid(registry, 7))]),
        (datum + b"\4\2x", [(KEY, _id(7))]),
        (b"\1" + datum, [(VALUE, _id(7))]),
    )
    first, other = [("+I", None, 0, -1)], [("+I", 2, None, None)]
    assert found == [first, other, first, other, [("+I", None, -1, 0)]]


@pytest.mark.parametrize("size", [31, 32, 33, 34])
def test_an_error_shows_the_first_32_bytes_of_a_wrong_header(size: int, registry: Registry) -> None:
    table = _table("avro-confluent", "a BIGINT", registry.url)
    (error,) = _records(table, (b"\2\2x", [(VALUE, bytes(range(100, 100 + size)))]))
    shown = bytes(range(100, 100 + min(size, 32))).hex(" ") + (" ..." if size > 32 else "")
    assert f"has the bytes '{shown}': not 00" in error


@pytest.mark.parametrize("format", _FORMATS)
def test_a_wrong_header_is_an_error_of_its_record(format: str, registry: Registry) -> None:
    columns, schema_id, path, message, rows = _FORMATS[format]
    guid, number = _guid(registry, schema_id), _id(schema_id)
    wrong = [b"", b"\0", number[:-1], guid[:-1], b"\2" + guid[1:], b"\2", number + path + b"\0", guid + path + b"\2"]
    wrong += [number, guid] if path else []
    wrong += [number + b"x" * 10_000_000]
    good = (message, [(VALUE, guid + path)])
    records = [record for header in wrong for record in ((message, [(VALUE, header)]), good)]
    table = _table(format, columns, registry.url)
    found = _records(table, *records)
    assert found[1::2] == [rows] * len(wrong)
    for header, error in zip(wrong, found[::2], strict=True):
        assert isinstance(error, str), header[:40]
        assert "the record's header with the schema's id has the bytes" in error
        assert header[:32].hex(" ") in error
        assert len(error) < 500
    headers = pa.array([[{"key": VALUE, "value": b"\2"}]])
    batch = table.decode_batch(None, pa.array([message]), headers=headers)
    assert batch.codes is not None
    assert batch.codes.to_pylist() == ["MALFORMED"]


def test_a_wrong_header_deletes_nothing(registry: Registry) -> None:
    """A record whose value is not null is not a deletion, whatever its headers say."""
    table = KeyValueFormat.from_ddl(
        f"""CREATE TABLE t (a BIGINT, b STRING, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'upsert-kafka',
        'topic' = 'orders', 'properties.bootstrap.servers' = 'b:9', 'value.format' = 'json-registry',
        'key.format' = 'json-registry', 'value.json-registry.url' = '{registry.url}')"""
    )
    assert dict(table.record_headers) == HEADERS
    guid = _guid(registry, 4)
    keys = pa.array([b'{"a":1}', b'{"a":2}', _id(4) + b'{"a":3}', b'{"a":4}', b'{"a":5}'])
    values = pa.array([b'{"a":1,"b":"x"}', None, b"null", b'{"a":4}', b'{"a":5}'])
    named: list[list[_Header]] = [
        [(KEY, guid), (VALUE, guid)],
        [(KEY, guid), (VALUE, guid)],
        [(VALUE, _id(4))],
        [(KEY, guid), (VALUE, b"\1")],
        [(KEY, b"\1"), (VALUE, guid)],
    ]
    headers = pa.array([[{"key": name, "value": data} for name, data in some] for some in named])
    batch = table.decode_batch(keys, values, headers=headers)
    found = readable_rows(batch)
    assert found[:3] == [[("+U", 1, "x")], [("-D", 2, None)], [("-D", 3, None)]]
    assert [isinstance(one, str) for one in found] == [False] * 3 + [True] * 2
    assert batch.parts is not None
    assert batch.parts.to_pylist()[3:] == ["value", "key"]


def test_headers_must_be_those_of_the_values(registry: Registry) -> None:
    table = _table("avro-registry", "a BIGINT", registry.url)
    with pytest.raises(SchemaError, match="headers of 1 records, but 2 values"):
        table.decode_batch(None, pa.array([b"", b""]), headers=pa.array([[{"key": VALUE, "value": b""}]]))
    with pytest.raises(SchemaError, match="headers must be list"):
        table.decode_batch(None, pa.array([b""]), headers=pa.array([1]))


def test_random_headers_change_no_neighbour(registry: Registry) -> None:
    table, rng = _table("avro-registry", "a BIGINT, b STRING", registry.url), random.Random(5)
    data = [_guid(registry, 1), _id(1), _id(2), b"\1" + bytes(16), b"", b"\1\2", b"\3" + bytes(16), None]
    values = [b"\x02\x02x", b"\x04\x00", b"", None, _id(1) + b"\x06\x00", _guid(registry, 1) + b"\x08\x00", b"\xff"]
    records: list[tuple[bytes | None, list[_Header] | None]] = [
        (
            rng.choice(values),
            rng.choice([None, [], *[[(VALUE, one)] for one in data], [(KEY, data[0]), (VALUE, rng.choice(data))]]),
        )
        for _ in range(300)
    ]
    found = _records(table, *records)
    assert found == [_records(table, record)[0] for record in records]
    assert sum(isinstance(one, list) for one in found) > 50
    assert sum(isinstance(one, str) for one in found) > 50


@pytest.mark.spark
def test_ids_in_headers_of_a_dataframe(spark: Any, registry: Registry) -> None:
    guid, number = _guid(registry, 1), _id(1)
    records = [
        (b"{}", b"\x02\x02x", [("trace", b"t"), (VALUE, guid)]),
        (b"{}", number + b"\x04\x02y", None),
        (b"{}", b"\x06\x02z", [(VALUE, b"\1"), (VALUE, number), (VALUE, None)]),
        (b"{}", b"\x06\x02z", [(VALUE, b"\1")]),
    ]
    schema = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    table = _table("avro-confluent", "a BIGINT, b STRING", registry.url)
    df = spark.createDataFrame(records, schema).coalesce(1)
    decoded = table.decode(df, errors="capture").collect()
    assert [(row.a, row.b) for row in decoded] == [(1, "x"), (2, "y"), (3, "z"), (None, None)]
    assert decoded[3].error.value == b"\x06\x02z"  # the bytes of the record
    assert "the bytes '01'" in decoded[3].error.reason
    assert [(h.key, h.value) for h in decoded[3].error.headers] == [(VALUE, b"\1")]
    assert table.decode(df.limit(2)).count() == 2
    without = table.decode(df.drop("headers"), errors="capture").collect()
    assert [row.a for row in without] == [None, 2, None, None]
    other = df.withColumn("headers", df.headers["key"])  # another column with this name is left alone
    assert [row.a for row in table.decode(other, errors="capture").collect()] == [None, 2, None, None]


# --- Confluent's serializers ---------------------------------------------------------------------------------


def _clients(format: str, url: str) -> tuple[Any, Any]:
    """Return the clients of a reader and of a writer. A registry in memory belongs to its client."""
    registry: Any = cache._registry(get_format(format, {"url": url}).settings)  # type: ignore[attr-defined]
    client = registry.registry._client
    # a client that has read a schema by its id registers it without asking for its GUID
    return client, client if url.startswith("mock:") else registry_client(url)


def _avro_peers(own: str, clients: tuple[Any, Any], conf: dict[str, Any]) -> tuple[Any, Any]:
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

    return AvroDeserializer(clients[0], conf=BY_TOPIC), AvroSerializer(clients[1], own, conf=conf)


def _json_peers(own: str, clients: tuple[Any, Any], conf: dict[str, Any]) -> tuple[Any, Any]:
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer

    return JSONDeserializer(None, schema_registry_client=clients[0], conf=BY_TOPIC), JSONSerializer(
        own, clients[1], conf=conf
    )


_class_of_text = functools.cache(class_of)


def _proto_peers(own: str, clients: tuple[Any, Any], conf: dict[str, Any]) -> tuple[Any, Any]:
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

    kind = _class_of_text(own)
    return ProtobufDeserializer(kind), ProtobufSerializer(kind, clients[1], conf=conf)


_PEERS: dict[str, Callable[[str, tuple[Any, Any], dict[str, Any]], tuple[Any, Any]]] = {
    "avro-registry": _avro_peers,
    "json-registry": _json_peers,
    "proto-registry": _proto_peers,
}


def _check_peers(format: str, url: str, count: int) -> int:
    """Compare what Confluent's serializers write with the id in a header and before the message. Returns the rows.

    Both are read as rows, and the values are those of our own message, from which the serializers have them.
    """
    from confluent_kafka.schema_registry import header_schema_id_serializer, prefix_schema_id_serializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    clients, rng, compared = _clients(format, url), random.Random(23), 0
    for number in range(count):
        text = random_rows.schema(rng, columns=rng.randint(1, 6), depth=2).replace("(38, 18)", "(15, 3)")
        text = text.replace("CHAR(3)", "STRING").replace("VARIANT", "INT")
        fmt = get_format(format, {"url": url, "subject": f"orders-{number}-value"})
        try:
            batch = fmt.encode_batch(random_rows.rows(rng, row_type(resolve_schema(text)), 8), text)
        except SchemaError:
            continue
        own = fmt.own_schema(resolve_schema(text)).text  # type: ignore[attr-defined]
        in_header = {**BY_TOPIC, "auto.register.schemas": True, "schema.id.serializer": header_schema_id_serializer}
        reader, writer = _PEERS[format](own, clients, in_header)
        _, other = _PEERS[format](own, clients, {**in_header, "schema.id.serializer": prefix_schema_id_serializer})
        records: list[tuple[bytes | None, list[_Header] | None]] = []
        given: list[bytes] = []
        for message in filter(None, batch.messages.to_pylist()):
            if b'"NaN"' in message or b'Infinity"' in message:
                continue  # texts in JSON, where the schema has a number
            named: list[_Header] = []
            context = SerializationContext(f"orders-{number}", MessageField.VALUE, headers=named)
            value = reader(message, context)
            body = writer(value, context)
            assert [name for name, _ in named] == [VALUE]
            assert named[0][1] is not None
            assert named[0][1][0] == 1
            records += [(body, named), (other(value, context), None), (named[0][1] + body, [])]
            given.append(message)
        rows = _records(_table(format, text, url), *records)
        wanted = readable_rows(fmt.decode_batch(pa.array(given, pa.binary()), text))
        assert not [row for row in (*rows, *wanted) if isinstance(row, str)], text
        for at, row in enumerate(wanted):
            assert rows[3 * at] == rows[3 * at + 1] == rows[3 * at + 2], text
            assert repr(rows[3 * at]) == repr(row), text
        compared += len(given)
    return compared


@pytest.mark.parametrize(("format", "floor"), [("avro-registry", 150), ("json-registry", 150), ("proto-registry", 150)])
def test_confluents_serializers_in_memory(format: str, floor: int) -> None:
    assert _check_peers(format, f"mock://schema-headers-{format}", case_count(quick=25, night=100)) > floor


@pytest.mark.parametrize("format", _PEERS)
def test_confluents_serializers_with_a_registry_of_guids(format: str, server: RegistryServer) -> None:
    with server.serving() as registry:
        assert _check_peers(format, registry.url, 10) > 30
        assert any(request.startswith("GET /schemas/guids/") for request in registry.requests) == (
            format != "json-registry"
        )


# --- inspection ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [name for name in _FORMATS if not name.startswith("avro-")])
def test_inspection_reads_ids_and_guids_in_headers(format: str, registry: Registry) -> None:
    columns, schema_id, path, message, _ = _FORMATS[format]
    message = message.replace(b'"op":"d"', b'"after":null,"op":"d"')
    frames = [_guid(registry, schema_id) + path, _id(schema_id) + path]
    headers = [[{"key": "x", "value": b"1"}, {"key": VALUE, "value": frame}] for frame in frames * 2]
    times = [3000, 1000, 4000, 2000]
    found = inspect_topic([message] * 4, headers=headers, timestamps=times, registry=registry.url)
    assert [guess.format for guess in found.guesses] == [format]
    assert f"the schema's id is in the header '{VALUE}' of 4 records" in found.notes
    assert [(use.schema, use.messages) for use in found.schemas] == [(str(schema_id), 2), (registry.guid(schema_id), 2)]
    seconds = [(use.first.second, use.last.second) for use in found.schemas if use.first and use.last]
    assert seconds == [(1, 2), (3, 4)]
    assert found.ddl is not None
    inferred = infer_schema([message] * 4, format=format, options={"url": registry.url}, headers=headers)
    assert [field.name for field in inferred.fields] == [column.split()[0] for column in columns.split(", ")]
    # a header that is not a frame is left out, and then the messages are something else
    wrong = inspect_topic([message] * 4, headers=[[{"key": VALUE, "value": b"\1\2"}]] * 4, registry=registry.url)
    assert (wrong.schemas, [guess.format for guess in wrong.guesses] == [format]) == ((), False)
    # keys
    registry.ids[1] = json.dumps(_ROW)
    keyed = inspect_topic(
        [b"{}"] * 2, [b"\x02\x02x"] * 2, headers=[[{"key": KEY, "value": _id(1)}]] * 2, registry=registry.url
    )
    assert [(use.part, use.schema, use.messages, use.first) for use in keyed.schemas] == [("key", "1", 2, None)]


@pytest.mark.spark
def test_inspection_of_a_dataframe_reads_headers_and_timestamps(spark: Any) -> None:
    header = [(VALUE, b"\0\0\0\0\4")]
    rows = [(b'{"a":1}', header, "2026-01-02 03:04:05"), (bytes(4) + b'\5{"a":2}', None, "2026-01-01 00:00:00")]
    frame = spark.createDataFrame(rows, "value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, at STRING")
    records = frame.selectExpr("value", "headers", "to_timestamp(concat(at, 'Z')) AS timestamp")
    found = inspect_topic(records)
    assert found.guesses[0].format == "json-registry"
    assert [(use.schema, str(use.first)) for use in found.schemas] == [
        ("5", "2026-01-01 00:00:00+00:00"),
        ("4", "2026-01-02 03:04:05+00:00"),
    ]
    assert infer_schema(records, format="json-registry").ddl == "`a` INT"
