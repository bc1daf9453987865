"""JSON Schemas for rows, as Flink on Confluent Cloud registers them.

| Flink | JSON Schema |
| --- | --- |
| BOOLEAN | boolean |
| TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE | number with the `connect.type` int8, ..., int64, float32, float64 |
| CHAR(n), VARCHAR(n), STRING | string, with `minLength` and `maxLength`, with `maxLength`, without |
| BINARY(n), VARBINARY(n), BYTES | string with the `connect.type` bytes, `flink.minLength` and `flink.maxLength` |
| DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ, DECIMAL | number with the name of Kafka Connect's type as its title |
| ARRAY, ROW | array, object |
| MAP, MULTISET with keys that are texts | object with the `connect.type` map |
| nullable | oneOf null and the type; other fields of an object are required |

Rules: "Data Type Mappings" in the documentation of Confluent Cloud for Apache Flink.
"""

from __future__ import annotations

import json
from typing import Any

from kvformat.codecs._arrays import map_value_type
from kvformat.codecs.json.references import required_members
from kvformat.codecs.json.scalars import MILLIS
from kvformat.registry.contract.errors import SchemaError, listed
from kvformat.registry.contract.types import MAX_LENGTH, FlinkType

CONNECT_TYPE, CONNECT_INDEX, CONNECT_PARAMETERS = "connect.type", "connect.index", "connect.parameters"
FLINK_TYPE, FLINK_PRECISION = "flink.type", "flink.precision"
FLINK_MIN, FLINK_MAX = "flink.minLength", "flink.maxLength"
DECIMAL_PRECISION, DECIMAL_SCALE = "connect.decimal.precision", "scale"
CONNECT = "org.apache.kafka.connect.data."
"""The prefix of the names of Kafka Connect's types."""
NUMBERS = {
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
}
_OURS = {"flink.version": "1"}
ROOT = "Record"
"""The title of the schema of a table's rows."""
_MOST_DIGITS = 6
"""Digits of a second's fraction in a number of microseconds."""


def json_schema(row: FlinkType, format: str, title: str = ROOT) -> str:
    """Return the text of the JSON Schema for rows. Raises `SchemaError` for a type that it can't express."""
    try:
        return json.dumps(_row(row, title), sort_keys=True, separators=(",", ":"))
    except _NoSchema as refused:
        path, t = refused.args
        raise SchemaError(
            f"format '{format}' has no JSON Schema for column '{path}': {t} is not supported", format=format, field=path
        ) from None


class _NoSchema(Exception):
    """The path of a column, and its type."""


def _row(t: FlinkType, title: str, path: str = "") -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for index, field in enumerate(t.fields):
        inner = _type(field.type, f"{title}_{field.name}", f"{path}.{field.name}" if path else field.name)
        properties[field.name] = {**inner, CONNECT_INDEX: index}
    required = [field.name for field in t.fields if not field.type.nullable]
    schema = {"type": "object", "title": title, "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _type(t: FlinkType, title: str, path: str) -> dict[str, Any]:
    if t.root == "VARIANT":
        return {}  # any value, also null
    schema = _not_null(t, title, path)
    return {"oneOf": [{"type": "null"}, schema]} if t.nullable else schema


def _not_null(t: FlinkType, title: str, path: str) -> dict[str, Any]:
    if t.root == "ROW":
        return _row(t, title, path)
    if t.root == "ARRAY":
        return {"type": "array", "items": _type(t.fields[0].type, title, f"{path}.element")}
    if t.root in ("MAP", "MULTISET") and t.fields[0].type.root in ("CHAR", "VARCHAR"):
        values = _type(map_value_type(t) if t.root == "MAP" else FlinkType("INT", nullable=False), title, path)
        more = {FLINK_TYPE: "multiset", **_OURS} if t.root == "MULTISET" else {}
        return {"type": "object", CONNECT_TYPE: "map", "additionalProperties": values, **more}
    if t.root == "BOOLEAN":
        return {"type": "boolean"}
    if t.root in NUMBERS:
        return {"type": "number", CONNECT_TYPE: NUMBERS[t.root]}
    if t.root in ("CHAR", "VARCHAR"):
        return {"type": "string", **_lengths(t, "minLength", "maxLength")}
    if t.root in ("BINARY", "VARBINARY"):
        lengths = _lengths(t, FLINK_MIN, FLINK_MAX)
        return {"type": "string", CONNECT_TYPE: "bytes", **lengths, **(_OURS if lengths else {})}
    if t.root == "DECIMAL":
        digits = {DECIMAL_PRECISION: str(t.precision), DECIMAL_SCALE: str(t.scale)}
        return {"type": "number", "title": f"{CONNECT}Decimal", CONNECT_TYPE: "bytes", CONNECT_PARAMETERS: digits}
    if t.root == "DATE":
        return {"type": "number", "title": f"{CONNECT}Date", CONNECT_TYPE: "int32"}
    precision = t.precision or 0
    exact = {} if precision == MILLIS else {FLINK_PRECISION: precision, **_OURS}
    if t.root == "TIME" and precision <= MILLIS:
        return {"type": "number", "title": f"{CONNECT}Time", CONNECT_TYPE: "int32", **exact}
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and precision <= _MOST_DIGITS:
        more = {FLINK_TYPE: "timestamp", **_OURS} if t.root == "TIMESTAMP" else {}
        return {"type": "number", "title": f"{CONNECT}Timestamp", CONNECT_TYPE: "int64", **exact, **more}
    raise _NoSchema(path, t)


def _lengths(t: FlinkType, least: str, most: str) -> dict[str, int]:
    """Return the lengths of a text or of bytes, as far as its type limits them."""
    if t.root in ("CHAR", "BINARY"):
        return {least: t.length or 1, most: t.length or 1}
    return {} if t.length in (None, MAX_LENGTH) else {most: t.length or 1}


def check_columns(text: str, row: FlinkType, format: str) -> None:
    """Raise `SchemaError` if rows with these columns can't have a JSON Schema, judged by the names of its members."""
    try:
        schema = json.loads(text)
    except ValueError as bad:
        raise SchemaError(f"the JSON Schema is not valid JSON: {bad}", format=format) from None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        raise SchemaError(f"the JSON Schema does not describe an object with properties: {text}", format=format)
    names = [field.name for field in row.fields]
    missing = sorted(required_members(schema) - {*names})
    unknown = [name for name in names if name not in properties]
    if missing or (unknown and schema.get("additionalProperties") is False):
        what = f"requires {listed(missing)}" if missing else f"allows no {listed(unknown)}"
        raise SchemaError(
            f"the JSON Schema {what}, the table has the columns {listed(names)}",
            format=format,
            field=(missing or unknown)[0],
        )
