"""The schema of Kafka Connect that Flink CDC writes beside a Debezium message.

    {"schema": {"type": "struct", "fields": [..., "before"}, ..., "after"}], "optional": false}, "payload": {...}}

It describes only `before` and `after`. The payload does not follow it: a DATE is a number in the schema and
`"2024-02-29"` in the payload. A default value has the type of its column, as in Flink CDC after 3.6.0, where most of
them fail. Rules: Flink CDC's `DebeziumJsonSerializationSchema` and Kafka Connect's `JsonConverter`.
"""

from __future__ import annotations

import base64
from decimal import ROUND_HALF_UP, Decimal, DecimalException
from typing import Any

from kvformat.codecs._decimals import WIDE, to_bytes
from kvformat.codecs.json.write import member_name
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import BINARY_ROOTS
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.java.numbers import double_text, float_text

_PLAIN = {
    "BOOLEAN": "boolean",
    "TINYINT": "int16",
    "SMALLINT": "int16",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float",
    "DOUBLE": "double",
}
_NAMED = {
    "DATE": ("int32", "io.debezium.time.Date"),
    "TIME": ("int64", "io.debezium.time.MicroTime"),
    "TIMESTAMP_LTZ": ("string", "io.debezium.time.ZonedTimestamp"),
}
_DECIMAL, _BITS = "org.apache.kafka.connect.data.Decimal", "io.debezium.data.Bits"
_INTEGER_BYTES = {"TINYINT": 2, "SMALLINT": 2, "INT": 4, "DATE": 4, "BIGINT": 8, "TIME": 8, "TIMESTAMP": 8}
_MILLISECONDS = 3  # digits of a second that a Timestamp holds


def connect_schema(schema: TableSchema) -> str:
    """Return the JSON text of a table's schema."""
    columns = [_column(column) for column in schema.columns]
    images = [{"type": "struct", "fields": columns, "optional": True, "field": name} for name in ("before", "after")]
    return _json({"type": "struct", "fields": images, "optional": False})


def _column(column: SchemaColumn) -> dict[str, Any]:
    field = _type(column.type)
    field["optional"] = column.type.nullable
    parameters = field.pop("parameters", None)
    if column.comment is not None:
        field["doc"] = column.comment
    if parameters is not None:
        field["parameters"] = parameters
    if column.default is not None and (default := _default(column.default, column.type)) is not None:
        field["default"] = default
    return {**field, "field": column.name}


def _type(t: FlinkType) -> dict[str, Any]:
    """Return the schema of a type as an element, which is never optional."""
    if t.root in _PLAIN:
        return {"type": _PLAIN[t.root], "optional": False}
    if t.root in _NAMED:
        return _named(*_NAMED[t.root])
    if t.root == "TIMESTAMP":
        kind = "Timestamp" if (t.precision or 0) <= _MILLISECONDS else "MicroTimestamp"
        return _named("int64", f"io.debezium.time.{kind}")
    if t.root == "DECIMAL":
        parameters = {"scale": str(t.scale), "connect.decimal.precision": str(t.precision)}
        return _named("bytes", _DECIMAL) | {"parameters": parameters}
    if t.root in BINARY_ROOTS:
        return _named("bytes", _BITS) | {"parameters": {"length": str(t.length)}}
    if t.root == "ARRAY":
        return {"type": "array", "items": _type(t.fields[0].type), "optional": False}
    if t.root == "MAP":
        key, value = (_type(field.type) for field in t.fields)
        return {"type": "map", "keys": key, "values": value, "optional": False}
    if t.root == "ROW":
        fields = [{**_type(field.type), "field": field.name} for field in t.fields]
        return {"type": "struct", "fields": fields, "optional": False}
    return {"type": "string", "optional": False}


def _named(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "optional": False, "name": name, "version": 1}


class _Number(str):
    """The text of a number in JSON."""


def _default(text: str, t: FlinkType) -> Any:
    """Return a default value as its column's type, or None for a text that is not one."""
    try:
        if t.root in _INTEGER_BYTES:
            number = int(text)
            number.to_bytes(_INTEGER_BYTES[t.root], signed=True)
            return number
        if t.root in ("FLOAT", "DOUBLE"):
            return _Number((float_text if t.root == "FLOAT" else double_text)(float(text)))
        if t.root == "DECIMAL":
            return _unscaled(Decimal(text), t.scale or 0)
    except (ValueError, OverflowError, DecimalException):
        return None
    if t.root == "BOOLEAN":
        return text.lower() == "true"
    return base64.b64encode(text.encode()).decode() if t.root in BINARY_ROOTS else text


def _unscaled(value: Decimal, scale: int) -> str:
    """Return the digits of a decimal as Kafka Connect writes them: base64 of a two's complement."""
    number = int(value.scaleb(scale, WIDE).quantize(Decimal(1), ROUND_HALF_UP, WIDE))
    return base64.b64encode(to_bytes(number)).decode()


def _json(value: Any) -> str:
    """Return the JSON text of a value, escaped as Jackson does."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{member_name(name)}:{_json(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_json, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | _Number) else member_name(value)
