"""`avro-registry` and the Debezium formats of Confluent Cloud, compared with the formats whose engines they use."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.avro_confluent import AvroConfluentFormat
from kvformat.codecs.registries.registry import AVRO
from kvformat.connectors import inspect_topic
from kvformat.registry import DirectionError, KeyValueFormat, OptionError, SchemaError, get_format
from kvformat.registry.contract.schema_registries import RegistrySchema
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.contract.types import arrow_type, nullable
from tests.support.decoding import decoded_rows, readable_rows
from tests.support.new_schemas import SCHEMAS, old_and_new
from tests.support.registry_server import Registry

_FRAME = b"\0\0\1\x86\xca"
_ENVELOPE = """syntax = "proto3"; package pg; import "google/protobuf/timestamp.proto";
message Envelope { Value before = 1; Value after = 2; string op = 3; int64 ts_ms = 4;
    message Value { int32 id = 1; optional string name = 2; google.protobuf.Timestamp at = 5; } }"""


def _rows(schema: str, *values: dict[str, Any] | None) -> pa.StructArray:
    return pa.array(values, arrow_type(nullable(row_type(resolve_schema(schema)))))


# --- avro-registry -----------------------------------------------------------------------------------------


def test_avro_registry_has_the_timestamps_of_confluent_cloud() -> None:
    schema = "id INT NOT NULL, a TIMESTAMP(3), b TIMESTAMP(6), c TIMESTAMP_LTZ(3), d TIMESTAMP_LTZ(6)"
    at = dt.datetime(2024, 2, 29, 1, 2, 3, 456000)
    zoned = at.replace(tzinfo=dt.UTC)
    fmt = get_format("avro-registry", {"url": "mock://avro-registry", "subject": "s"})
    rows = _rows(schema, {"id": 1, "a": at, "b": at, "c": zoned, "d": zoned})
    batch = fmt.encode_batch(rows, schema)
    assert fmt.decode_batch(batch.messages, schema).rows.to_pylist() == [rows.to_pylist()]
    own: RegistrySchema = fmt.own_schema(resolve_schema(schema))  # type: ignore[attr-defined]
    fields = {field["name"]: field["type"] for field in json.loads(own.text)["fields"]}
    assert own.kind == AVRO
    assert [fields[name][1]["logicalType"] for name in "abcd"] == [
        *("local-timestamp-millis", "local-timestamp-micros", "timestamp-millis", "timestamp-micros"),
    ]
    latest = get_format("avro-registry", {"url": "mock://avro-registry", "subject": "s", "use-latest-version": "true"})
    assert latest.encode_batch(rows, schema).messages == batch.messages
    with pytest.raises(SchemaError, match=r"precision: 6|legacy mapping"):
        get_format("avro-confluent", {"url": "mock://avro-registry", "subject": "t"}).encode_batch(rows, schema)


def test_avro_registry_reads_enums_and_has_confluent_clouds_options(registry: Registry) -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["X", "Y"]}
    registry.ids[7] = json.dumps({"type": "record", "name": "R", "fields": [{"name": "e", "type": enum}]})
    fmt = get_format("avro-registry", {"url": registry.url, "id-encoding": "payload"})
    assert decoded_rows(fmt, "e STRING", b"\0\0\0\0\7\2") == [[("+I", "Y")]]
    for name in (".dev", ":.dev:"):
        context = get_format("avro-registry", {"url": "http://r, http://s/", "schema-context": name})
        assert context.settings.url == "http://r/contexts/.dev,http://s/contexts/.dev"  # type: ignore[attr-defined]
    assert isinstance(context, AvroConfluentFormat)
    ddl = """CREATE TABLE orders (id INT, name STRING) WITH ('connector' = 'kafka', 'topic' = 'orders',
        'properties.bootstrap.servers' = 'b:9', 'value.format' = 'avro-registry', 'key.format' = 'raw',
        'key.fields' = 'id', 'value.avro-registry.schema-context' = '.dev', 'value.avro-registry.url' = 'mock://x',
        'scan.startup.mode' = 'earliest-offset')"""
    assert KeyValueFormat.from_ddl(ddl).decode_batch(pa.array([bytes(4)]), pa.array([None], pa.binary())).errors is None


@pytest.mark.parametrize("kind", ["avro", "json", "proto"])
@pytest.mark.parametrize("of", ["registry", "debezium-registry"])
def test_ids_in_headers_are_read_and_not_written(kind: str, of: str) -> None:
    fmt = get_format(f"{kind}-{of}", {"url": "mock://headers", "id-encoding": "header", "subject": "s"})
    assert fmt.decode_batch(pa.array([], pa.binary()), "id INT").errors is None
    with pytest.raises((OptionError, DirectionError), match=r"'id-encoding' = 'header'|can only decode"):
        fmt.encode_batch(_rows("id INT", {"id": 1}), "id INT")


# --- Debezium ------------------------------------------------------------------------------------------


def test_json_changes_behind_a_frame_are_those_of_debezium_json() -> None:
    rng, schema, compared = random.Random(3), "id INT, name STRING, x DOUBLE", 0
    ours, plain = get_format("json-debezium-registry"), get_format("debezium-json")
    images = ["null", '{"id":1}', '{"id":2,"name":"a","x":1.5}', '{"id":"y"}', "[]"]
    texts = [
        json.dumps({"before": "B", "after": "A", "op": rng.choice(["c", "u", "d", "r", "t", "z", None])})
        .replace('"B"', rng.choice(images))
        .replace('"A"', rng.choice(images))
        for _ in range(1500)
    ]
    framed = decoded_rows(ours, schema, *(_FRAME + text.encode() for text in texts), None, _FRAME, b"{}")
    for text, one, other in zip(texts, framed, decoded_rows(plain, schema, *(t.encode() for t in texts)), strict=False):
        assert one == other, text
        compared += not isinstance(one, str)
    assert compared > 100
    assert framed[-3:-1] == [None, []]
    assert "7b, not 00" in framed[-1]


def test_json_changes_have_numbers_for_times_and_all_of_debezium() -> None:
    message = _FRAME + b'{"before":null,"after":{"id":1,"at":1709168523123,"d":3},"op":"c","source":{"db":"shop"}}'
    fmt = get_format("json-debezium-registry")
    (row,) = decoded_rows(fmt, "id INT, at TIMESTAMP_LTZ(3), d DATE", message)
    assert row == [("+I", 1, dt.datetime(2024, 2, 29, 1, 2, 3, 123000, tzinfo=dt.UTC), dt.date(1970, 1, 4))]
    batch = fmt.decode_batch(pa.array([message]), "id INT", metadata=("source.database",))
    assert batch.rows.to_pylist() == [[{"id": 1, "source.database": "shop"}]]
    upsert = get_format("json-debezium-registry", {"changelog.mode": "upsert"})
    update = _FRAME + b'{"before":{"id":1},"after":{"id":1,"d":4},"op":"u"}'
    assert decoded_rows(upsert, "id INT, d DATE", update) == [[("+U", 1, dt.date(1970, 1, 5))]]
    typed = get_format("json-debezium-registry", {"types": "debezium", "time.precision.mode": "microseconds"})
    micros = _FRAME + b'{"before":null,"after":{"id":1,"at":1709168523123456},"op":"c"}'
    (row,) = decoded_rows(typed, "id INT, at TIMESTAMP(6)", micros)
    assert row == [("+I", 1, dt.datetime(2024, 2, 29, 1, 2, 3, 123456))]


@pytest.mark.parametrize("frame", [_FRAME, b"\1" + bytes(16)], ids=["id", "GUID"])
def test_a_framed_null_deletes_the_row_of_its_key(frame: bytes) -> None:
    options = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json-debezium-registry"}
    kv = KeyValueFormat("id INT, n INT", options | {"value.json-debezium-registry.flattened": "true"}, primary_key="id")
    values = [frame + b'{"id":1,"n":2}', frame + b"null", None, frame + b' {"id":1,"n":3}']
    batch = kv.decode_batch(pa.array([b'{"id":1}'] * 4), pa.array(values))
    assert batch.errors is None
    assert [row["n"] for rows in batch.rows.to_pylist() for row in rows] == [2, None, None, 3]
    assert batch.row_kinds is not None
    assert batch.row_kinds.to_pylist() == ["+U", "-D", "-D", "+U"]


@pytest.fixture
def changes(registry: Registry) -> Registry:
    registry.ids[1], registry.types[1] = _ENVELOPE, "PROTOBUF"
    return registry


def test_protobuf_changes(changes: Registry) -> None:
    fmt, head = get_format("proto-debezium-registry", {"url": changes.url}), b"\0\0\0\0\1\0"
    found = decoded_rows(
        fmt,
        "id INT, name STRING, at TIMESTAMP_LTZ(3)",
        head + b"\x12\x06\x08\x07\x2a\x02\x08\x01\x1a\x01c",
        head + b"\x0a\x02\x08\x07\x12\x05\x08\x07\x12\x01x\x1a\x01u",
        head + b"\x0a\x02\x08\x07\x1a\x01d",
        None,
        b"",
        head + b"\x1a\x01z",
        head + b"\x1a\x01d",
        head + b"\x12\x02\x08\x07",
        head + b"\x1a\x01t",
        head + b"\x12\x05\x08",
        head + b"\x12\x02\x08\x09\x1a\x01r",
        b"{}",
    )
    second = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    assert found[:5] == [
        [("+I", 7, None, second)],
        [("-U", 7, None, None), ("+U", 7, "x", None)],
        [("-D", 7, None, None)],
        None,
        [],
    ]
    for error, words in zip(
        found[5:10],
        ["'op': unknown value 'z'", "'before': is missing", "'op': is missing", "TRUNCATE", "ends in the middle"],
        strict=True,
    ):
        assert words in error
    assert found[10] == [("+I", 9, None, None)]
    assert "7b, not 00" in found[11]


def test_protobuf_changes_without_rows_before_and_other_messages(changes: Registry) -> None:
    head = b"\0\0\0\0\1\0"
    upsert = get_format("proto-debezium-registry", {"url": changes.url, "changelog.mode": "upsert"})
    update = head + b"\x12\x05\x08\x07\x12\x01x\x1a\x01u"
    assert decoded_rows(upsert, "id INT, name STRING", update) == [[("+U", 7, "x")]]
    named = upsert.for_rows(["id"], in_record=True)
    assert decoded_rows(named, "id INT, name STRING", head + b"\x1a\x01d", update) == [
        [("-D", None, None)],
        [("+U", 7, "x")],
    ]
    (error,) = decoded_rows(upsert.for_rows(["id"], in_record=False), "id INT, name STRING", head + b"\x1a\x01d")
    assert "'before': is missing" in error
    mark, lost = head + b"\x1a\x01m", head + b"\x1a\x01t"
    skip = get_format("proto-debezium-registry", {"url": changes.url, "other-messages": "skip-all"})
    assert decoded_rows(skip, "id INT", mark, lost, head) == [[], [], []]
    some = get_format("proto-debezium-registry", {"url": changes.url, "other-messages": "skip"})
    first, error, last = decoded_rows(some, "id INT", mark, lost, head)
    assert first == last == []
    assert "the table has lost its rows" in error


@pytest.mark.parametrize("options", [{}, {"changelog.mode": "upsert"}, {"other-messages": "skip-all"}])
def test_a_batch_of_protobuf_changes_gives_the_rows_of_each_message_in_order(
    changes: Registry, options: dict[str, str]
) -> None:
    fmt, head = get_format("proto-debezium-registry", {"url": changes.url, **options}), b"\0\0\0\0\1\0"
    fmt = fmt.for_rows(["id"], in_record=True)
    images = [b"\x0a\x02\x08\x07", b"\x12\x02\x08\x08", b"\x0a\x02\x08\x07\x12\x02\x08\x09"]
    good = [head + image + b"\x1a\x01" + op for image in images for op in (b"c", b"u", b"d", b"t")]
    answers = {one: decoded_rows(fmt, "id INT", one)[0] for one in [*good, None, b"", head + b"\x12\x05\x08"]}
    messages = random.Random(3).choices(list(answers), k=500)
    assert decoded_rows(fmt, "id INT", *messages) == [answers[one] for one in messages]
    assert sum(isinstance(answer, list) and len(answer) > 0 for answer in answers.values()) >= 5


@pytest.mark.parametrize("format", ["json-debezium-registry", "proto-debezium-registry", "avro-debezium-registry"])
def test_debezium_formats_of_confluent_cloud_do_not_write(format: str) -> None:
    fmt = get_format(format, {"url": "mock://x", "subject": "s"})
    with pytest.raises(DirectionError, match=f"format '{format}' can only decode"):
        fmt.encode_batch(_rows("id INT", {"id": 1}), "id INT")


def test_avro_changes_with_timestamps_of_connect(registry: Registry) -> None:
    at = {"type": "long", "logicalType": "timestamp-millis", "connect.name": "org.apache.kafka.connect.data.Timestamp"}
    value = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}, {"name": "at", "type": at}]}
    images = [{"name": "before", "type": ["null", value]}, {"name": "after", "type": ["null", "Value"]}]
    fields = [*images, {"name": "op", "type": "string"}]
    registry.ids[4] = json.dumps({"type": "record", "name": "Envelope", "fields": fields})
    fmt = get_format("avro-debezium-registry", {"url": registry.url})
    (found,) = decoded_rows(fmt, "id INT, at TIMESTAMP_LTZ(3)", b"\0\0\0\0\4\0\2\x0e\xd0\x0f\2c")
    assert found == [("+I", 7, dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC))]
    with pytest.raises(SchemaError, match="legacy mapping"):
        get_format("debezium-avro-confluent", {"url": registry.url}).decode_batch(
            pa.array([], pa.binary()), "at TIMESTAMP_LTZ(3)"
        )


def test_changes_are_recognized(changes: Registry) -> None:
    json_changes = [_FRAME + b'{"before":null,"after":{"id":1,"name":"a"},"op":"c"}'] * 3
    found = inspect_topic(json_changes)
    assert found.guesses[0].format == "json-debezium-registry"
    assert found.ddl is not None
    assert "`id` INT" in found.ddl
    proto = [b"\0\0\0\0\1\0\x12\x07\x08\x07\x12\x03abc\x1a\x01c"] * 3
    inspected = inspect_topic(proto, registry=changes.url)
    assert inspected.guesses[0].format == "proto-debezium-registry"
    assert inspected.ddl is not None
    assert "`name` STRING" in inspected.ddl
    batch = KeyValueFormat.from_ddl(inspected.ddl).decode_batch(None, pa.array(proto, pa.binary()))
    assert batch.errors is None


@pytest.mark.parametrize("format", SCHEMAS)
def test_a_slice_of_a_batch_gives_the_answers_of_its_messages(format: str, registry: Registry) -> None:
    """Slices with messages of two schemas, nulls, and messages without a frame or with a part of one."""
    fmt, (old, new) = old_and_new(format, registry, None)
    messages = [old, new, None, b"", old[:3], b"\7" + new[1:], new, old[:5], None, old]
    alone = [decoded_rows(fmt, "id INT", message)[0] for message in messages]
    array, compared = pa.array(messages, pa.binary()), 0
    for start, stop in itertools.combinations_with_replacement(range(len(messages) + 1), 2):
        assert readable_rows(fmt.decode_batch(array[start:stop], "id INT")) == alone[start:stop]
        compared += stop - start
    assert compared == 220
    assert [alone[n] for n in (0, 1, 2, 6, 8, 9)] == [[("+I", 7)], [("+I", 7)], None, [("+I", 7)], None, [("+I", 7)]]
    assert [isinstance(answer, str) for answer in alone[4:6]] == [True] * 2
