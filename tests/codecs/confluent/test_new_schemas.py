"""The option `on-new-schema`: schemas of writers with fields or types that a table does not show."""

from __future__ import annotations

import json
import uuid
import warnings
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs._confluent.new_schemas import NewSchemas
from kvformat.registry import Format, NewSchemaWarning, OptionError, get_format
from kvformat.registry.contract import fork_safe
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.schema_registries import RegistrySettings
from tests.codecs.confluent.test_cloud_formats import _decoded
from tests.codecs.confluent.test_record_types import _decoded as _first_rows
from tests.support.registry_server import Registry


def _record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


def _envelope(image: dict[str, Any]) -> dict[str, Any]:
    return _record("Envelope", ("before", ["null", image]), ("after", ["null", "Value"]), ("op", "string"))


def _json_schema(**properties: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}


_OLD_IMAGE, _NEW_IMAGE = _record("Value", ("id", "int")), _record("Value", ("id", "int"), ("more", "string"))
_CHANGE = """syntax = "proto3"; message Change { Value before = 1; Value after = 2; string op = 3; int64 ts_ms = 4;
    message Value { %s } }"""
_TEXT = "more. Columns that show them, as changes of the table: ADD (`more` STRING)"
_SCHEMAS: dict[str, tuple[str, str, str, list[bytes]]] = {
    # the kind, the old and the new schema, messages of both
    "avro-registry": (
        "AVRO",
        json.dumps(_OLD_IMAGE),
        json.dumps(_NEW_IMAGE),
        [b"\x0e", b"\x0e\x02x"],
    ),
    "debezium-avro-confluent": (
        "AVRO",
        json.dumps(_envelope(_OLD_IMAGE)),
        json.dumps(_envelope(_NEW_IMAGE)),
        [b"\x00\x02\x0e\x02c", b"\x00\x02\x0e\x02x\x02c"],
    ),
    "json-registry": (
        "JSON",
        json.dumps(_json_schema(id="integer")),
        json.dumps(_json_schema(id="integer", more="string")),
        [b'{"id":7}', b'{"id":7,"more":"x"}'],
    ),
    "json-debezium-registry": (
        "JSON",
        json.dumps({"type": "object", "properties": {"after": _json_schema(id="integer"), "op": {"type": "string"}}}),
        json.dumps({"type": "object", "properties": {"after": _json_schema(id="integer", more="string")}}),
        [b'{"after":{"id":7},"op":"c"}', b'{"after":{"id":7,"more":"x"},"op":"c"}'],
    ),
    "proto-registry": (
        "PROTOBUF",
        'syntax = "proto3"; message R { int32 id = 1; }',
        'syntax = "proto3"; message R { int32 id = 1; string more = 2; }',
        [b"\0\x08\x07", b"\0\x08\x07\x12\x01x"],
    ),
    "proto-debezium-registry": (
        "PROTOBUF",
        _CHANGE % "int32 id = 1;",
        _CHANGE % "int32 id = 1; string more = 2;",
        [b"\0\x12\x02\x08\x07\x1a\x01c", b"\0\x12\x05\x08\x07\x12\x01x\x1a\x01c"],
    ),
}
_SCHEMAS["avro-confluent"] = _SCHEMAS["avro-registry"]
_SCHEMAS["avro-debezium-registry"] = _SCHEMAS["debezium-avro-confluent"]


def _given(format: str, registry: Registry, policy: str | None) -> tuple[Format, list[bytes]]:
    """Return the format, a message of the old schema and one of the new schema."""
    kind, old, new, (first, second) = _SCHEMAS[format]
    registry.ids |= {1: old, 2: new}
    registry.types |= {} if kind == "AVRO" else {1: kind, 2: kind}
    options = {} if policy is None else {"on-new-schema": policy}
    messages = [b"\0\0\0\0\1" + first, b"\0\0\0\0\2" + second]
    return get_format(format, {"url": registry.url, **options}), messages


@pytest.mark.parametrize("format", _SCHEMAS)
def test_new_fields_are_errors_of_their_messages(format: str, registry: Registry) -> None:
    fmt, (old, new) = _given(format, registry, "fail")
    guid = b"\1" + uuid.UUID(registry.guid(2)).bytes + new[5:]
    for messages in ([old, new, None, old, new, b"\0", guid], [new, new], [old, old]):
        batch = fmt.decode_batch(pa.array(messages, pa.binary()), "id INT")
        found = _decoded(fmt, "id INT", *messages)
        for message, one in zip(messages, found, strict=True):
            if message == old:
                assert one == [("+I", 7)]
            elif message in (new, guid):
                schema = "2" if message == new else registry.guid(2)
                assert one == (
                    f"format '{format}': schema {schema} has fields or types that the table does not show: {_TEXT}"
                )
        codes = [None] * len(messages) if batch.codes is None else batch.codes.to_pylist()
        assert codes.count("UNEXPECTED_FIELD") == sum(message in (new, guid) for message in messages)
    assert _decoded(fmt, "id INT, more STRING", old, new) == [[("+I", 7, None)], [("+I", 7, "x")]]


@pytest.mark.parametrize("format", _SCHEMAS)
def test_new_fields_are_named_once_by_a_warning(format: str, registry: Registry) -> None:
    fmt, (old, new) = _given(format, registry, "warn")
    with pytest.warns(NewSchemaWarning) as told:
        rows = _decoded(fmt, "id INT", old, new, new)
    assert rows == [[("+I", 7)]] * 3
    texts = [str(one.message) for one in told if one.category is NewSchemaWarning]
    assert [text.partition("not show: ")[2] for text in texts] == [_TEXT]
    with warnings.catch_warnings():
        warnings.simplefilter("error", NewSchemaWarning)
        assert _decoded(fmt, "id INT", new) == [[("+I", 7)]]
    fork_safe.renew_all()  # as in another process
    with pytest.warns(NewSchemaWarning):
        _decoded(fmt, "id INT", new)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NewSchemaWarning)
        assert _decoded(fmt, "id INT, more STRING", new) == [[("+I", 7, "x")]]


@pytest.mark.parametrize("format", _SCHEMAS)
@pytest.mark.parametrize("policy", [None, "ignore"])
def test_by_default_new_fields_are_ignored(format: str, policy: str | None, registry: Registry) -> None:
    fmt, messages = _given(format, registry, policy)
    assert _decoded(fmt, "id INT", *messages) == [[("+I", 7)]] * 2
    if format.startswith("json"):
        assert registry.requests == []


@pytest.mark.parametrize("format", ["avro-confluent", "debezium-avro-confluent", "proto-registry"])
def test_a_wider_type_is_an_error_that_says_how_to_declare_the_column(format: str, registry: Registry) -> None:
    fmt, (_, new) = _given(format, registry, "fail")
    registry.ids[2] = registry.ids[2].replace('"int"', '"long"').replace("int32", "int64")
    (error,) = _decoded(fmt, "id INT, more STRING", new)
    assert error.endswith(
        "does not show: id as BIGINT. Columns that show them, as changes of the table: MODIFY (`id` BIGINT)"
    )
    assert _decoded(fmt, "id BIGINT, more STRING", new) == [[("+I", 7, "x")]]


def test_json_needs_the_registry_only_for_the_option(registry: Registry) -> None:
    with pytest.raises(OptionError, match="'url' of format 'json-registry' is missing"):
        get_format("json-registry", {"on-new-schema": "warn"}).decode_batch(pa.array([b""]), "id INT")
    fmt, (old, _) = _given("json-registry", registry, "fail")
    assert _decoded(fmt, "id INT", b"\0\0\0\0\x09" + old[5:]) == [[("+I", 7)]]  # its schema is unknown


@pytest.mark.parametrize(
    ("table", "schema", "new"),
    [
        ("a INT, b STRING", "a INT, b STRING", None),
        ("a INT, b STRING, c INT", "a INT", None),
        ("a BIGINT, b DOUBLE, c DECIMAL(12, 3)", "a INT, b FLOAT, c DECIMAL(5, 2)", None),
        ("a STRING, b BYTES, c VARCHAR(3)", "a BIGINT, b STRING, c STRING", None),
        ("a TIMESTAMP(3), b DATE", "a TIMESTAMP_LTZ(6), b TIMESTAMP(3)", None),
        ("a INT", "a STRING", None),
        ("a INT NOT NULL", "a BIGINT", "a as BIGINT; MODIFY (`a` BIGINT NOT NULL)"),
        ("a TIMESTAMP(3)", "a TIMESTAMP(6)", "a as TIMESTAMP(6); MODIFY (`a` TIMESTAMP(6))"),
        ("a DECIMAL(10, 2)", "a DECIMAL(12, 4)", "a as DECIMAL(12, 4); MODIFY (`a` DECIMAL(12, 4))"),
        (
            "r ROW<x INT, s ROW<y INT>>",
            "r ROW<x INT, s ROW<y INT, z STRING NOT NULL>, w INT>, q INT NOT NULL",
            "r.s.z, r.w, q; ADD (`q` INT); MODIFY (`r` ROW<`x` INT, `s` ROW<`y` INT, `z` STRING>, `w` INT>)",
        ),
        (
            "r ARRAY<ROW<x INT>>, m MAP<STRING, INT>",
            "r ARRAY<ROW<x INT, y INT>>, m MAP<STRING, BIGINT>",
            "r.y, m as BIGINT; MODIFY (`r` ARRAY<ROW<`x` INT, `y` INT>>, `m` MAP<STRING, BIGINT>)",
        ),
        ("r ROW<x INT>", "r INT", None),
    ],
)
def test_what_is_new(table: str, schema: str, new: str | None) -> None:
    row = parse_type(f"ROW<{table}>")
    compared = NewSchemas("fail", RegistrySettings(f"mock://{table}{schema}"), "avro-registry", row)
    error = compared.error(7, lambda: parse_type(f"ROW<{schema}>").fields)
    if new is None:
        assert error is None
        return
    names, _, ddl = new.partition("; ")
    assert error == (
        "[UNEXPECTED_FIELD] format 'avro-registry': schema 7 has fields or types that the table does not show: "
        f"{names}. Columns that show them, as changes of the table: {ddl}"
    )


def test_many_new_fields_are_shortened() -> None:
    compared = NewSchemas("fail", RegistrySettings("mock://many"), "avro-registry", parse_type("ROW<a INT>"))
    columns = ", ".join(f"c{number} INT" for number in range(1000))
    error = compared.error(7, lambda: parse_type(f"ROW<{columns}>").fields)
    assert error is not None
    assert "c19 and 980 more. Columns" in error
    assert len(error) < 1000


@pytest.mark.parametrize("format", ["avro-confluent", "json-registry"])
def test_the_branch_of_a_union_is_compared(format: str, registry: Registry) -> None:
    if format == "json-registry":
        order, refund = ({**_json_schema(id="integer"), "title": name} for name in ("Order", "Refund"))
        for kind, branch in enumerate((order, refund)):
            branch |= {"properties": {**branch["properties"], "kind": {"const": str(kind)}}, "required": ["kind"]}
        refund["properties"]["more"] = {"type": "string"}
        union: Any = {"oneOf": [order, refund]}
        messages = [b'{"id":7,"kind":"0"}', b'{"id":7,"kind":"1","more":"x"}']
        registry.types[1] = "JSON"
    else:
        order, refund = (_record("Order", ("id", "int"), ("kind", "string")), _record("Refund", ("id", "int")))
        refund["fields"] += [{"name": "kind", "type": "string"}, {"name": "more", "type": "string"}]
        union, messages = [order, refund], [b"\x00\x0e\x020", b"\x02\x0e\x021\x02x"]
    registry.ids[1] = json.dumps(union)
    framed = [b"\0\0\0\0\1" + message for message in messages]
    common = {"url": registry.url, "on-new-schema": "fail"}
    row = "id INT, kind STRING"

    named = {**common, "other-messages": "skip"}
    assert _first_rows(get_format(format, {**named, "record-name": "Order"}), row, *framed) == [
        {"id": 7, "kind": "0"},
        [],
    ]
    skipped, error = _first_rows(get_format(format, {**named, "record-name": "Refund"}), row, *framed)
    assert skipped == []
    assert error.endswith(_TEXT)
    columns = get_format(format, {**common, "record-columns": "o:Order,r:Refund"})
    found = _first_rows(columns, f"o ROW<{row}>, r ROW<{row}>", *framed)
    assert found[0] == {"o": {"id": 7, "kind": "0"}, "r": None}
    assert found[1].endswith(_TEXT)
    assert all(error.endswith(_TEXT) for error in _first_rows(get_format(format, common), row, *framed))
    every = _first_rows(get_format(format, common), f"{row}, more STRING", *framed)
    assert [found["more"] for found in every] == [None, "x"]
