"""Schemas of Kafka Connect, as far as they say what a value means.

    {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "version": 1, "field": "at", "optional": true}

Sources: Connect's `JsonConverter` (the block `schema`), Confluent's `AvroData` (`connect.name`, `connect.parameters`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvformat.codecs._avro import Schema

_DATE, _TIME, _TIMESTAMP = (f"org.apache.kafka.connect.data.{name}" for name in ("Date", "Time", "Timestamp"))
DECIMAL = "org.apache.kafka.connect.data.Decimal"
# Avro's own types without a name of Connect's, and the name that means the same.
_OF_LOGICAL = {
    "date": _DATE,
    "time-millis": _TIME,
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": _TIMESTAMP,
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
}
_OF_AVRO = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "enum": "string",
    "bytes": "bytes",
    "fixed": "bytes",
    "record": "struct",
    "array": "array",
    "map": "map",
}
_OF_JSON = {"float": "float32", "double": "float64"}  # what JsonConverter calls otherwise
_DEEPEST = 50  # levels of a schema that are looked at


@dataclass(frozen=True, slots=True)
class ConnectSchema:
    """A type of Connect: `type` is its primitive (`int32`, `struct`), `name` what it means, or "" where nothing more.

    `fields` are those of a struct; `items` are of an array, and the values of a map.
    """

    type: str
    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, ConnectSchema] = field(default_factory=dict)
    items: ConnectSchema | None = None

    def __str__(self) -> str:
        return self.name or self.type


def image_schema_from_json(block: Any, *, flat: bool = False) -> ConnectSchema | None:
    """The rows of an envelope, by the block `schema` of a message; None where it is no schema of one.

    If messages are `flat`, the block is the row's own.
    """
    said = _of_json(block, 0)
    if said is None or flat:
        return said if said is not None and said.type == "struct" else None
    return _image(said)


def image_schema_from_avro(schema: Schema, *, flat: bool = False) -> ConnectSchema | None:
    """The rows of an envelope, by a writer's schema; None where it is no schema of one.

    If messages are `flat`, the schema is the row's own.
    """
    said = ConnectSchema("union") if schema.is_recursive else _of_avro(schema)
    if flat:
        return said if said.type == "struct" else None
    return _image(said)


def is_mongodb_schema(schema: Schema) -> bool:
    """Whether a writer's schema is that of MongoDB's changes, by the name of its `source`."""
    of_source = [field.schema.optional or field.schema for field in schema.fields if field.name == "source"]
    return any(one.type == "record" and one.full_name == "io.debezium.connector.mongo.Source" for one in of_source)


def _image(envelope: ConnectSchema) -> ConnectSchema | None:
    """What the images are: both have one schema, but either may be missing, or of another kind."""
    images = [envelope.fields[name] for name in ("after", "before") if name in envelope.fields]
    return next((image for image in images if image.type == "struct"), None)


def _of_json(block: Any, depth: int) -> ConnectSchema | None:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str) or depth > _DEEPEST:
        return None
    name, parameters, fields = block.get("name"), block.get("parameters"), block.get("fields")
    primitive: str = block["type"]
    inner = {}
    for one in fields if isinstance(fields, list) else ():
        found = _of_json(one, depth + 1)
        if found is not None and isinstance(one.get("field"), str):
            inner[one["field"]] = found
    return ConnectSchema(
        _OF_JSON.get(primitive, primitive),
        name if isinstance(name, str) else "",
        {str(k): str(v) for k, v in parameters.items()} if isinstance(parameters, dict) else {},
        inner,
        _of_json(block.get("items") if block["type"] == "array" else block.get("values"), depth + 1),
    )


def _of_avro(schema: Schema) -> ConnectSchema:
    if schema.type == "union":
        one = schema.optional
        return ConnectSchema("union") if one is None else _of_avro(one)
    name, parameters = schema.properties.get("connect.name", ""), schema.properties.get("connect.parameters", {})
    parameters = {str(k): str(v) for k, v in parameters.items()} if isinstance(parameters, dict) else {}
    logical = schema.logical
    if schema.type == "record":
        # every struct has a name, mostly that of its table
        name = schema.full_name if schema.full_name.startswith(("io.debezium.data.", "io.debezium.time.")) else ""
    elif not name and logical is not None:
        name = DECIMAL if logical.name == "decimal" else _OF_LOGICAL.get(logical.name, "")
    if name == DECIMAL and logical is not None and logical.name == "decimal":
        parameters = {**parameters, "scale": str(logical.scale)}
    inner = schema.items or schema.values
    return ConnectSchema(
        str(schema.properties.get("connect.type", _OF_AVRO.get(schema.type, schema.type))),
        name if isinstance(name, str) else "",
        parameters,
        {f.name: _of_avro(f.schema) for f in schema.fields},
        None if inner is None else _of_avro(inner),
    )


def parse_json(text: str | bytes) -> Any:
    """The text as Python objects; None if it is not valid JSON, or too deep for Python's parser."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
