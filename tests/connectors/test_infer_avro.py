"""Columns from Avro schemas in registry subjects, in messages with schema ids, and in container files."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import fastavro
import fastavro.utils
import pyarrow as pa
import pytest

from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.types import schema_text
from kvformat.connectors import InferredSchema, ddl_from_subject, infer_schema, schema_from_subject
from kvformat.registry import KeyValueFormat, OptionError, SchemaError, SchemaRegistryError, get_format
from kvformat.registry.contract.ddl import parse_schema as parse_columns
from tests.support import services
from tests.support.registry_server import Registry

Fields = list[dict[str, Any]]


def record(*fields: Any, name: str = "com.shop.Order") -> dict[str, Any]:
    """Return a record schema with fields given as names and types."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def register(registry: Registry, schema: Any, subject: str = "orders-value") -> int:
    schema_id = len(registry.ids) + 1
    registry.ids[schema_id] = json.dumps(schema)
    registry.subjects.setdefault(subject, []).append(schema_id)
    return schema_id


def message(schema_id: int, schema: Any, datum: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), datum)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def read(found: InferredSchema, messages: list[bytes]) -> list[dict[str, Any]]:
    batch = get_format("avro-confluent", found.options).decode_batch(pa.array(messages, pa.binary()), found.ddl)
    assert batch.errors is None, batch.errors
    rows: list[dict[str, Any]] = batch.rows.values.to_pylist(maps_as_pydicts="strict")
    return rows


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}


@pytest.mark.parametrize(
    ("avro", "flink", "itself"),
    [
        ("boolean", "BOOLEAN NOT NULL", False),
        (["null", "int"], "INT", False),
        (["long", "null"], "BIGINT", False),
        (["double"], "DOUBLE NOT NULL", False),
        ("double", "DOUBLE NOT NULL", False),
        ("string", "STRING NOT NULL", False),
        ({"type": "string", "logicalType": "uuid"}, "STRING NOT NULL", False),
        ("bytes", "BYTES NOT NULL", False),
        (PRICE, "DECIMAL(10, 2) NOT NULL", False),
        ({**PRICE, "precision": 38}, "DECIMAL(38, 2) NOT NULL", False),
        ({**PRICE, "precision": 39}, "BYTES NOT NULL", False),
        ({"type": "int", "logicalType": "date"}, "DATE NOT NULL", False),
        ({"type": "int", "logicalType": "time-millis"}, "TIME(3) NOT NULL", False),
        ({"type": "long", "logicalType": "time-micros"}, "BIGINT NOT NULL", False),
        (MILLIS, "TIMESTAMP(3) NOT NULL", False),
        (["null", MICROS], "BIGINT", False),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "BIGINT NOT NULL", False),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "BIGINT NOT NULL", False),
        (STATE, "STRING NOT NULL", True),
        ({"type": "fixed", "name": "Hash", "size": 4}, "VARBINARY(4) NOT NULL", True),
        ({"type": "fixed", "name": "P", "size": 6, "logicalType": "decimal", "precision": 9, "scale": 1},
         "DECIMAL(9, 1) NOT NULL", True),
        ({"type": "array", "items": ["null", "int"]}, "ARRAY<INT> NOT NULL", False),
        ({"type": "map", "values": "int"}, "MAP<STRING NOT NULL, INT NOT NULL> NOT NULL", False),
        (["null", record(("x", ["null", "int"]), name="R")], "ROW<`x` INT>", False),
    ],
)  # fmt: skip
def test_types(registry: Registry, avro: Any, flink: str, itself: bool) -> None:
    schema = record(("c", avro))
    register(registry, schema)
    found = schema_from_subject(registry.url, "orders-value")
    assert found.ddl == f"`c` {flink}"
    assert ("schema" in found.options) == itself
    data = list(fastavro.utils.generate_many(fastavro.parse_schema(schema), 20))
    if "precision" not in str(avro) and "logicalType" not in str(avro):
        rows = read(found, [message(1, schema, datum) for datum in data])
        assert [row["c"] for row in rows] == [datum["c"] for datum in data]


@pytest.mark.parametrize(
    ("base", "logical", "is_noted"),
    [
        ({"type": "string"}, "uuid", False),
        ({"type": "fixed", "name": "D", "size": 12}, "duration", False),
        ({"type": "long"}, "time-micros", True),
        ({"type": "bytes"}, "big-decimal", True),
    ],
)
def test_a_note_says_that_a_value_is_a_plain_number_or_plain_bytes(
    registry: Registry, base: dict[str, Any], logical: str, is_noted: bool
) -> None:
    register(registry, record(("c", {**base, "logicalType": logical})))
    notes = schema_from_subject(registry.url, "orders-value").notes
    assert any(f"{logical} has no type of its own" in note for note in notes) == is_noted


def test_schemas_registered_by_flink_are_inferred(registry: Registry) -> None:
    columns = (
        "id BIGINT NOT NULL, s STRING, d DECIMAL(10, 2), day DATE, t TIME(3), at TIMESTAMP(3), b BYTES, "
        "r ROW<a INT, n ARRAY<STRING>> NOT NULL, m MAP<STRING NOT NULL, BIGINT>"
    )
    options = {"url": registry.url, "subject": "orders-value"}
    row = {
        "id": 7,
        "s": "x",
        "d": None,
        "day": None,
        "t": None,
        "at": None,
        "b": b"",
        "r": {"a": 1, "n": ["b"]},
        "m": {},
    }
    encoder = get_format("avro-confluent", options)
    from kvformat.registry.contract.types import arrow_type, nullable

    rows = pa.array([row], arrow_type(nullable(parse_columns(columns))))
    encoded = encoder.encode_batch(rows, columns)
    assert encoded.errors is None
    found = schema_from_subject(registry.url, "orders-value")
    assert found.row == parse_columns(columns)
    assert schema_text(found.row, legacy=True) == parse_schema(registry.ids[1]).text
    assert read(found, encoded.messages.to_pylist()) == rows.to_pylist(maps_as_pydicts="strict")


def test_columns_that_need_the_avro_schema_are_read(registry: Registry) -> None:
    schema = record(
        ("state", STATE),
        ("again", ["null", "State"]),
        ("at", MICROS),
        ("hash", {"type": "fixed", "name": "H", "size": 2}),
    )
    register(registry, schema)
    found = schema_from_subject(registry.url, "orders-value")
    datum = {"state": "PAID", "again": "NEW", "at": 1_700_000_000_123_456, "hash": b"ab"}
    (row,) = read(found, [message(1, schema, datum)])
    assert (row["state"], row["again"], row["hash"], row["at"]) == ("PAID", "NEW", b"ab", 1_700_000_000_123_456)
    text = found.create_table("orders", topic="orders", bootstrap="b:9092")
    assert KeyValueFormat.from_ddl(text).decode_batch(None, pa.array([message(1, schema, datum)])).errors is None


def test_fields_without_a_column_type_are_left_out(registry: Registry) -> None:
    node = record(("value", "int"), ("next", ["null", "com.shop.Node"]), name="com.shop.Node")
    schema = record(
        ("id", "long"),
        ("head", node),
        ("choice", ["null", "int", "string"]),
        ("nothing", "null"),
        ("state", STATE),
        ("inner", record(("a", ["int", "string"]), ("b", "int"), name="Inner")),
        ("list", {"type": "array", "items": ["int", "string"]}),
    )
    register(registry, schema)
    found = schema_from_subject(registry.url, "orders-value")
    assert found.ddl.replace("`", "") == (
        "id BIGINT NOT NULL, head ROW<value INT NOT NULL> NOT NULL, state STRING NOT NULL, "
        "inner ROW<b INT NOT NULL> NOT NULL"
    )
    assert found.notes == (
        "head.next: the Avro type com.shop.Node contains itself, which no table type does: left out",
        "choice: a union of null, int, string: left out",
        "nothing: of type null, which no column has: left out",
        "inner.a, list[]: a union of int, string: left out",
    )
    head = {"value": 1, "next": {"value": 2, "next": None}}
    datum = {
        "id": 1,
        "head": head,
        "choice": "x",
        "nothing": None,
        "state": "NEW",
        "inner": {"a": "s", "b": 2},
        "list": [1, "x"],
    }
    assert read(found, [message(1, schema, datum)]) == [
        {"id": 1, "head": {"value": 1}, "state": "NEW", "inner": {"b": 2}}
    ]
    assert ddl_from_subject(registry.url, "orders-value").startswith("-- head.next: the Avro type com.shop.Node")
    KeyValueFormat.from_ddl(ddl_from_subject(registry.url, "orders-value", name="orders"))


def test_schemas_without_a_table_are_refused_by_name(registry: Registry) -> None:
    register(registry, "string", "text")
    registry.ids[9] = "{"
    registry.subjects["broken"] = [9]
    with pytest.raises(SchemaError, match="the Avro schema is string, but only a record stands for the columns"):
        ddl_from_subject(registry.url, "text")
    with pytest.raises(SchemaError, match="subject 'broken', schema 9: not an Avro schema"):
        ddl_from_subject(registry.url, "broken")
    with pytest.raises(SchemaError, match=r"subject 'none' has no readable version 'latest'.*40401"):
        ddl_from_subject(registry.url, "none")
    with pytest.raises(SchemaError, match="a folder has no subjects"):
        ddl_from_subject("file:/", "x", version=1)
    with pytest.raises(SchemaRegistryError):
        ddl_from_subject("http://127.0.0.1:1", "x", options={"registry-retries": 0})


def test_versions_of_a_subject(registry: Registry) -> None:
    register(registry, record(("a", "int")))
    assert ddl_from_subject(registry.url, "orders-value") == "`a` INT NOT NULL"
    register(registry, record(("a", "int"), ("b", ["null", "int"])))
    assert ddl_from_subject(registry.url, "orders-value") == "`a` INT NOT NULL, `b` INT"  # the current version
    assert ddl_from_subject(registry.url, "orders-value", version=1) == "`a` INT NOT NULL"
    with pytest.raises(SchemaError, match=r"no readable version 3.*40402"):
        ddl_from_subject(registry.url, "orders-value", version=3)
    for version in (0, "1", True):
        with pytest.raises(OptionError, match="version must be 'latest' or a number, at least 1"):
            ddl_from_subject(registry.url, "orders-value", version=version)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subject", "topic"), [("orders-value", "orders"), ("orders-key", "orders-key"), ("com.Order", "com.Order")]
)
def test_the_topic_of_a_subject_is_its_name_without_value(subject: str, topic: str, registry: Registry) -> None:
    register(registry, record(("a", "int"), ("gone", ["int", "string"])), subject)
    text = ddl_from_subject(registry.url, subject, name="t")
    assert f"'topic' = '{topic}'" in text
    assert "'topic' = 'other'" in ddl_from_subject(registry.url, subject, name="t", topic="other")
    assert re.match("-- gone: .*\nCREATE TABLE `t`", text), text


def test_a_refused_schema_shows_no_secret(registry: Registry) -> None:
    """The names in a schema may be words of a secret."""
    types = [{"type": "record", "name": name, "fields": []} for name in ("sesame", "other")]
    register(registry, types)
    options = {"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": "alice:sesame"}
    with pytest.raises(SchemaError, match=r"has the types other, \*{6}: set") as refused:
        schema_from_subject(registry.url, "orders-value", options=options)
    assert "sesame" not in str(refused.value)


def test_schemas_of_other_kinds_are_refused(registry: Registry) -> None:
    registry.types[register(registry, {"type": "object"}, "thing")] = "THRIFT"
    with pytest.raises(SchemaError, match="is not AVRO or JSON or PROTOBUF but THRIFT"):
        ddl_from_subject(registry.url, "thing")


def test_secrets_are_not_shown(registry: Registry) -> None:
    register(registry, record(("a", "int")))
    registry.credentials = "alice:sesame"
    options = {"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": "alice:sesame"}
    with pytest.raises(SchemaRegistryError):
        schema_from_subject(registry.url, "orders-value")
    found = schema_from_subject(registry.url, "orders-value", options=options)
    text = found.create_table("t", topic="t", bootstrap="b:9092")
    by_url = registry.url.replace("//", "//alice:sesame@")
    texts = [repr(found), text, ddl_from_subject(by_url, "orders-value", name="t"), str(found.notes)]
    with pytest.raises(SchemaError) as refused:
        schema_from_subject(by_url, "nothing")
    assert "sesame" not in "".join([*texts, str(refused.value)])
    assert "'avro-confluent.basic-auth.user-info' = '******'" in text
    given = {f"avro-confluent.{key}": value for key, value in options.items()}
    kv = KeyValueFormat.from_ddl(text).with_options(given)
    schema = record(("a", "int"))
    assert kv.decode_batch(None, pa.array([message(1, schema, {"a": 5})])).rows.values.to_pylist() == [{"a": 5}]


def test_a_secret_in_the_error_of_a_schema_of_messages_is_not_shown(registry: Registry) -> None:
    good = record(("a", "int"))
    registry.ids = {1: json.dumps(good), 2: json.dumps({"type": "sesame"})}
    registry.credentials = "alice:sesame"
    options = {"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": "alice:sesame"}
    messages = [message(1, good, {"a": 5}), b"\0\0\0\0\2\0"]
    found = infer_schema(messages, format="avro-confluent", options={"url": registry.url, **options})
    (note,) = [note for note in found.notes if note.startswith("schema 2 of 1 messages")]
    assert "sesame" not in note


# --- messages --------------------------------------------------------------------------------------------


def test_messages_of_several_schemas_have_the_columns_of_all(registry: Registry) -> None:
    old = record(("id", "long"), ("gone", "string"), ("state", STATE))
    new = record(("id", "long"), ("state", STATE), ("more", ["null", MICROS]))
    ids = [register(registry, old), register(registry, new)]
    messages = [
        message(ids[0], old, {"id": 1, "gone": "x", "state": "NEW"}),
        message(ids[1], new, {"id": 2, "state": "PAID", "more": None}),
    ]
    found = infer_schema(messages, format="avro-confluent", options={"url": registry.url})
    assert found.ddl.replace("`", "") == "id BIGINT NOT NULL, state STRING NOT NULL, more BIGINT, gone STRING"
    assert found.notes[0] == "gone, more: not in all of the schemas that the messages have: nullable"
    assert found.notes[1].startswith("more: timestamp-micros has no type of its own here")
    assert read(found, messages) == [
        {"id": 1, "state": "NEW", "more": None, "gone": "x"},
        {"id": 2, "state": "PAID", "more": None, "gone": None},
    ]


def _of(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def _of_schemas(registry: Registry, *types: Any) -> InferredSchema:
    """Return what is inferred from messages whose field `v` has several types, the newest last."""
    ids = [register(registry, record(("v", t))) for t in types]
    messages = [b"\0" + schema_id.to_bytes(4, "big") + bytes(9) for schema_id in ids]
    return infer_schema(messages, format="avro-confluent", options={"url": registry.url})


FIXED, OTHER_FIXED = _of("fixed", name="F", size=2), _of("fixed", name="F", size=3)
SMALL, PRECISE = ({**PRICE, "precision": precision, "scale": scale} for precision, scale in ((5, 2), (6, 4)))


@pytest.mark.parametrize(
    ("old", "new", "column"),
    [
        ("long", "int", "BIGINT NOT NULL"),
        ("float", "long", "FLOAT NOT NULL"),
        (["null", "int"], "long", "BIGINT"),
        (_of("int", logicalType="date"), "int", "DATE NOT NULL"),
        (SMALL, PRECISE, "DECIMAL(7, 4) NOT NULL"),
        (STATE, {**STATE, "symbols": ["PAID", "GONE"]}, "STRING NOT NULL"),
        ("string", STATE, "STRING NOT NULL"),
        ("bytes", FIXED, "BYTES NOT NULL"),
        (FIXED, OTHER_FIXED, "BYTES NOT NULL"),
        ("bytes", "string", "BYTES NOT NULL"),
        (_of("array", items="long"), _of("array", items="int"), "ARRAY<BIGINT NOT NULL> NOT NULL"),
        (_of("map", values="long"), _of("map", values=["null", "int"]), "MAP<STRING NOT NULL, BIGINT> NOT NULL"),
        (record(("x", "int"), name="R"), record(("x", "long"), name="S"), "ROW<x BIGINT NOT NULL> NOT NULL"),
        (
            record(("x", "int"), ("y", "int"), name="R"),
            record(("x", "int"), ("z", "string"), name="S"),
            "ROW<x INT NOT NULL, z STRING, y INT> NOT NULL",
        ),
    ],
    ids=str,
)
def test_a_field_of_several_types_has_a_column_that_reads_them(
    registry: Registry, old: Any, new: Any, column: str
) -> None:
    found = _of_schemas(registry, old, new)
    assert found.ddl.replace("`", "") == f"v {column}"
    assert not [note for note in found.notes if "no column reads" in note]


@pytest.mark.parametrize(
    ("old", "new", "column"),
    [
        ("int", "string", "STRING"),
        (_of("fixed", name="G", size=1), "int", "INT"),
        (
            record(("x", "int"), ("next", ["null", "Node"]), name="Node"),
            record(("y", "int"), ("next", ["null", "Node"]), name="Node"),
            "ROW<`y` INT NOT NULL>",
        ),
    ],
    ids=str,
)
def test_types_that_no_column_reads_are_told(registry: Registry, old: Any, new: Any, column: str) -> None:
    found = _of_schemas(registry, old, new)
    assert found.ddl == f"`v` {column} NOT NULL"
    assert "read-enum-and-fixed" not in found.options  # which does not help
    assert any(note.startswith("v: ") and "no column reads" in note for note in found.notes)


def test_messages_without_a_schema_are_skipped(registry: Registry) -> None:
    schema = record(("a", "int"))
    schema_id = register(registry, schema)
    good = message(schema_id, schema, {"a": 1})
    found = infer_schema([good, b"\0\0\0\0\x63x", b"{}", None], format="avro-confluent", options={"url": registry.url})
    assert found.ddl == "`a` INT NOT NULL"
    assert found.notes[0] == "1 messages do not begin with 00 and the id of a schema, and are skipped"
    assert found.notes[1].startswith("schema 99 of 1 messages: ")
    with pytest.raises(SchemaError, match="no columns can be inferred"):
        infer_schema([b"{}"], format="avro-confluent", options={"url": registry.url})


def test_container_files_contain_their_schema() -> None:
    out = io.BytesIO()
    schema = record(("a", "int"), ("b", ["null", "string"]))
    fastavro.writer(out, fastavro.parse_schema(schema), [{"a": 1, "b": "x"}], codec="deflate")
    found = infer_schema([out.getvalue()], format="avro")
    assert found.ddl == "`a` INT NOT NULL, `b` STRING"
    with pytest.raises(SchemaError, match="each message is an Avro container file of its own"):
        found.create_table("t", topic="t", bootstrap="b:9092")
    for cut in range(len(out.getvalue())):
        with contextlib.suppress(SchemaError):
            infer_schema([out.getvalue()[:cut]], format="avro")
    with pytest.raises(SchemaError, match="a message is the datum alone and says nothing of its schema"):
        infer_schema([b"\x02\x04ab"], format="avro")


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("blocks", [1, 2])
def test_the_header_of_a_container_file_may_have_blocks_and_their_sizes(sized: bool, blocks: int) -> None:
    """A negative count of entries is followed by the size of the block in bytes."""

    def long_(number: int) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, "long", number)
        return out.getvalue()

    def block(*entries: tuple[bytes, bytes]) -> bytes:
        data = b"".join(long_(len(part)) + part for entry in entries for part in entry)
        return (long_(-len(entries)) + long_(len(data)) if sized else long_(len(entries))) + data

    schema = (b"avro.schema", json.dumps(record(("a", "int"))).encode())
    codec = (b"avro.codec", b"null")
    header = block(codec, schema) if blocks == 1 else block(codec) + block(schema)
    assert infer_schema([b"Obj\x01" + header + long_(0) + bytes(16)], format="avro").ddl == "`a` INT NOT NULL"


@pytest.mark.services
@pytest.mark.slow
def test_inference_from_a_real_registry(apicurio: services.SchemaRegistry, tmp_path: Path) -> None:
    columns = "id BIGINT NOT NULL, name STRING, at TIMESTAMP(3)"
    options = {"url": apicurio.url, "subject": "people-value"}
    rows = pa.array([{"id": 1, "name": "x", "at": None}])
    encoded = get_format("avro-confluent", options).encode_batch(rows, columns).messages
    assert ddl_from_subject(apicurio.url, "people-value") == "`id` BIGINT NOT NULL, `name` STRING, `at` TIMESTAMP(3)"
    assert ddl_from_subject(apicurio.url, "people-value", version=1).startswith("`id` BIGINT")
    found = infer_schema(encoded, format="avro-confluent", options={"url": apicurio.url})
    assert read(found, encoded.to_pylist()) == rows.to_pylist()
    table = KeyValueFormat.from_ddl(ddl_from_subject(apicurio.url, "people-value", name="people"))
    assert table.decode_batch(None, encoded).rows.values.to_pylist() == rows.to_pylist()
    with pytest.raises(SchemaError, match="subject 'nobody' has no readable version 'latest'"):
        ddl_from_subject(apicurio.url, "nobody")
