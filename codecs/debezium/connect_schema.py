"""Schemas of Kafka Connect: the type of a value, and what it means.

    {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "version": 1, "field": "at", "optional": true}

Sources: Connect's `JsonConverter` (the block `schema`), Confluent's `AvroData` (`connect.name`, `connect.parameters`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvformat.codecs.avro.schema import Schema

_DATE, _TIME, _TIMESTAMP = (f"org.apache.kafka.connect.data.{name}" for name in ("Date", "Time", "Timestamp"))
DECIMAL = "org.apache.kafka.connect.data.Decimal"
# Avro's logical types, with the Connect name that means the same. It counts if the schema has no Connect name.
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
_OF_JSON = {"float": "float32", "double": "float64"}  # JsonConverter's names of these types
_DEEPEST = 50  # levels of a schema that are read


@dataclass(frozen=True, slots=True)
class ConnectSchema:
    """A schema of Connect: `type` is its primitive type (`int32`, `struct`), `name` its logical type, "" for none.

    `fields` are those of a struct. `items` is the schema of an array's elements, or of a map's values; `keys` that of a
    map's keys.
    """

    type: str
    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, ConnectSchema] = field(default_factory=dict)
    items: ConnectSchema | None = None
    keys: ConnectSchema | None = None

    def __str__(self) -> str:
        return self.name or self.type


def image_schema_from_json(block: Any, *, flat: bool = False) -> ConnectSchema | None:
    """The schema of the row images, from the block `schema` of a JSON message; None if the block has none.

    If messages are `flat`, the block is the schema of the row itself.
    """
    schema = _of_json(block, 0)
    if schema is None:
        return None
    return _struct_or_none(schema) if flat else _image(schema)


def image_schema_from_avro(schema: Schema, *, flat: bool = False) -> ConnectSchema | None:
    """The schema of the row images, from a writer's Avro schema; None if the schema has none.

    If messages are `flat`, the writer's schema is that of the row itself.
    """
    connect = ConnectSchema("union") if schema.is_recursive else _of_avro(schema)
    return _struct_or_none(connect) if flat else _image(connect)


def is_mongodb_schema(schema: Schema) -> bool:
    """Whether a writer's schema belongs to MongoDB's changes, by the name of its field `source`."""
    of_source = [field.schema.optional or field.schema for field in schema.fields if field.name == "source"]
    return any(s.type == "record" and s.full_name == "io.debezium.connector.mongo.Source" for s in of_source)


def _struct_or_none(schema: ConnectSchema) -> ConnectSchema | None:
    return schema if schema.type == "struct" else None


def _image(envelope: ConnectSchema) -> ConnectSchema | None:
    """The schema of `after` or `before`. Both have the same schema, but one may be missing, or not be a struct."""
    images = [envelope.fields[name] for name in ("after", "before") if name in envelope.fields]
    return next((image for image in images if image.type == "struct"), None)


def _of_json(block: Any, depth: int) -> ConnectSchema | None:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str) or depth > _DEEPEST:
        return None
    name, parameters, fields = block.get("name"), block.get("parameters"), block.get("fields")
    primitive: str = block["type"]
    inner = {}
    for member in fields if isinstance(fields, list) else ():
        member_schema = _of_json(member, depth + 1)
        if member_schema is not None and isinstance(member.get("field"), str):
            inner[member["field"]] = member_schema
    return ConnectSchema(
        _OF_JSON.get(primitive, primitive),
        name if isinstance(name, str) else "",
        {str(k): str(v) for k, v in parameters.items()} if isinstance(parameters, dict) else {},
        inner,
        _of_json(block.get("items") if block["type"] == "array" else block.get("values"), depth + 1),
        _of_json(block.get("keys"), depth + 1),
    )


def _of_avro(schema: Schema) -> ConnectSchema:
    if schema.type == "union":
        return ConnectSchema("union") if schema.optional is None else _of_avro(schema.optional)
    name, parameters = schema.properties.get("connect.name", ""), schema.properties.get("connect.parameters", {})
    parameters = {str(k): str(v) for k, v in parameters.items()} if isinstance(parameters, dict) else {}
    logical = schema.logical
    if schema.type == "record":
        # every record has a name, mostly that of its table
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
        None if schema.values is None else ConnectSchema("string"),
    )


def parse_json(text: str | bytes) -> Any:
    """The text as Python objects; None if it is not valid JSON, or too deep for Python's parser."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
