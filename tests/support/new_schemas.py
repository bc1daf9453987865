"""Two schemas of a subject, of which the second has one more field, in each format with a registry."""

from __future__ import annotations

import json
from typing import Any

from kvformat.registry import Format, get_format
from tests.support.registry_server import Registry


def avro_record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


def _envelope(image: dict[str, Any]) -> dict[str, Any]:
    return avro_record("Envelope", ("before", ["null", image]), ("after", ["null", "Value"]), ("op", "string"))


def json_object(**properties: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}


OLD_IMAGE, NEW_IMAGE = avro_record("Value", ("id", "int")), avro_record("Value", ("id", "int"), ("more", "string"))
_CHANGE = """syntax = "proto3"; message Change { Value before = 1; Value after = 2; string op = 3; int64 ts_ms = 4;
    message Value { %s } }"""
SCHEMAS: dict[str, tuple[str, str, str, list[bytes]]] = {
    # the kind, the old and the new schema, messages of both
    "avro-registry": (
        "AVRO",
        json.dumps(OLD_IMAGE),
        json.dumps(NEW_IMAGE),
        [b"\x0e", b"\x0e\x02x"],
    ),
    "debezium-avro-confluent": (
        "AVRO",
        json.dumps(_envelope(OLD_IMAGE)),
        json.dumps(_envelope(NEW_IMAGE)),
        [b"\x00\x02\x0e\x02c", b"\x00\x02\x0e\x02x\x02c"],
    ),
    "json-registry": (
        "JSON",
        json.dumps(json_object(id="integer")),
        json.dumps(json_object(id="integer", more="string")),
        [b'{"id":7}', b'{"id":7,"more":"x"}'],
    ),
    "json-debezium-registry": (
        "JSON",
        json.dumps({"type": "object", "properties": {"after": json_object(id="integer"), "op": {"type": "string"}}}),
        json.dumps({"type": "object", "properties": {"after": json_object(id="integer", more="string")}}),
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
SCHEMAS["avro-confluent"] = SCHEMAS["avro-registry"]
SCHEMAS["avro-debezium-registry"] = SCHEMAS["debezium-avro-confluent"]


def old_and_new(format: str, registry: Registry, policy: str | None) -> tuple[Format, list[bytes]]:
    """Return the format, a message of the old schema and one of the new schema."""
    kind, old, new, (first, second) = SCHEMAS[format]
    registry.ids |= {1: old, 2: new}
    registry.types |= {} if kind == "AVRO" else {1: kind, 2: kind}
    options = {} if policy is None else {"on-new-schema": policy}
    messages = [b"\0\0\0\0\1" + first, b"\0\0\0\0\2" + second]
    return get_format(format, {"url": registry.url, **options}), messages
