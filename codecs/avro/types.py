"""Convert Flink's types to Avro schemas, and Avro schemas to Flink's types.

| Flink | Avro | with `timestamp_mapping.legacy=false` |
| --- | --- | --- |
| BOOLEAN, BIGINT, FLOAT, DOUBLE | boolean, long, float, double | |
| TINYINT, SMALLINT, INT | int | |
| CHAR, VARCHAR / BINARY, VARBINARY | string / bytes | |
| DECIMAL(p, s) | bytes, decimal | |
| DATE / TIME(0..3) | int, date / int, time-millis | |
| TIMESTAMP(0..3) | long, timestamp-millis | long, local-timestamp-millis |
| TIMESTAMP(4..6) | refused | long, local-timestamp-micros |
| TIMESTAMP_LTZ(0..3) | refused | long, timestamp-millis |
| TIMESTAMP_LTZ(4..6) | refused | long, timestamp-micros |
| ARRAY / MAP of text keys, MULTISET of text / ROW | array / map / record | |

A nullable type is `["null", T]`; a nullable column also has the default null. The table's row is the record
`org.apache.flink.avro.generated.record`. The record of a nested ROW is named after the enclosing record, `_` and the
field.
Rules: Flink's "Avro Format" page and its `AvroSchemaConverter`. Unlike Flink, TIMESTAMP_LTZ and TIMESTAMP(4..6) are
allowed inside ARRAY and MAP.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from kvformat.codecs.avro.logical import TIMES, TimeType
from kvformat.codecs.avro.parse import check_name, parse_schema
from kvformat.codecs.avro.schema import Schema
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.types import BYTES, STRING, FlinkField, FlinkType

SchemaJson: TypeAlias = "str | list[Any] | dict[str, Any]"

NAMESPACE = "org.apache.flink.avro.generated"
ROOT = f"{NAMESPACE}.record"
"""The full name of the record of a table's rows."""
_TEXTS = ("CHAR", "VARCHAR")
_MILLIS, _MICROS = 3, 6

_PRIMITIVES: dict[str, str] = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "bytes",
    "VARBINARY": "bytes",
    "VARIANT": "string",
}


# --- Flink's types to Avro -----------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def schema_text(row: FlinkType, *, legacy: bool, optional: bool = False, name: str = ROOT) -> str:
    """Return the schema of a table's rows as JSON, as Flink derives and registers it.

    legacy: Flink's option `timestamp_mapping.legacy`. optional: whether the schema is a union of null and the record.
    name: the full name of the record.
    Raises `SchemaError` with the path of the field for types and names that Avro or Flink's mapping do not support.
    """
    namespace, _, short = name.rpartition(".")
    fields = _record(row, short, "", legacy)["fields"]
    named = {"type": "record", "name": short} | ({"namespace": namespace} if namespace else {})
    record = named | {"fields": fields}
    schema = _with_references(["null", record] if optional else record, {})
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _nullable(t: FlinkType, name: str, path: str, legacy: bool) -> SchemaJson:
    inner = _node(t, name, path, legacy)
    return ["null", inner] if t.nullable else inner


def _node(t: FlinkType, name: str, path: str, legacy: bool) -> SchemaJson:
    if t.root == "ROW":
        return _record(t, name, path, legacy)
    if t.root == "ARRAY":
        return {"type": "array", "items": _nullable(t.fields[0].type, name, f"{path}.element", legacy)}
    if t.root in ("MAP", "MULTISET"):
        key = t.fields[0].type
        if key.root not in _TEXTS:
            raise _refused(path, f"Avro format doesn't support non-string as key type of map. The key type is: {key}")
        value = t.fields[1].type if t.root == "MAP" else FlinkType("INT")
        return {"type": "map", "values": _nullable(value, name, f"{path}.value", legacy)}
    if t.root == "DECIMAL":
        return {"type": "bytes", "logicalType": "decimal", "precision": t.precision, "scale": t.scale}
    if t.root == "DATE":
        return {"type": "int", "logicalType": "date"}
    if t.root == "TIME":
        _check_precision(t, "TIME", _MILLIS, path, "declare it as TIME(3)")
        return {"type": "int", "logicalType": "time-millis"}
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return {"type": "long", "logicalType": _timestamp(t, path, legacy)}
    if t.root not in _PRIMITIVES:
        raise _refused(path, f"Unsupported to derive Schema for type: {t}")
    return _PRIMITIVES[t.root]


def _record(t: FlinkType, name: str, path: str, legacy: bool) -> dict[str, Any]:
    fields = []
    for field in t.fields:
        at = f"{path}.{field.name}" if path else field.name
        check_name(field.name, at)
        member: dict[str, Any] = {"name": field.name, "type": _nullable(field.type, f"{name}_{field.name}", at, legacy)}
        fields.append(member | {"default": None} if field.type.nullable else member)
    return {"type": "record", "name": name, "fields": fields}


def _timestamp(t: FlinkType, path: str, legacy: bool) -> str:
    precision = t.precision or 0
    if legacy:
        how = (
            f"Declare it as {t.root}(3) in a schema given as text (`ts TIMESTAMP(3)`; a Spark TimestampNTZType counts "
            "as TIMESTAMP(6), unless the metadata of its field has {'kvformat.type': 'TIMESTAMP(3)'})"
        )
        if t.root == "TIMESTAMP_LTZ":
            how = "Declare it as TIMESTAMP(3), a wall clock in UTC"
            raise _refused(
                path, f"Unsupported to derive Schema for type: {t} under the legacy mapping of timestamps", how
            )
        _check_precision(t, "TIMESTAMP", _MILLIS, path, how)
        return "timestamp-millis"
    kind = "TIMESTAMP" if t.root == "TIMESTAMP_LTZ" else "LOCAL TIMESTAMP"
    _check_precision(t, kind, _MICROS, path, f"declare it as {t.root}(6)")
    unit = "millis" if precision <= _MILLIS else "micros"
    return f"timestamp-{unit}" if t.root == "TIMESTAMP_LTZ" else f"local-timestamp-{unit}"


def _check_precision(t: FlinkType, kind: str, most: int, path: str, how: str) -> None:
    precision = t.precision or 0
    if precision > most:
        raise _refused(
            path,
            f"Avro does not support {kind} type with precision: {precision}, "
            f"it only supports precision less than {most} or equal to it",
            how,
        )


def _refused(path: str, why: str, how: str = "") -> SchemaError:
    return SchemaError(f"column '{path}': {why}{f'. {how[0].upper()}{how[1:]}' if how else ''}", field=path)


def _with_references(node: Any, known: dict[str, Any]) -> Any:
    """Replace repeated records by their names. Raises `SchemaError` for different records of the same name."""
    if isinstance(node, list):
        return [_with_references(branch, known) for branch in node]
    if not isinstance(node, dict):
        return node
    if node["type"] in ("array", "map"):
        inside = "items" if node["type"] == "array" else "values"
        return node | {inside: _with_references(node[inside], known)}
    if node["type"] != "record":
        return node
    name = node["name"]
    if name in known:
        if known[name] != node:
            raise SchemaError(
                f"Can't redefine: {NAMESPACE}.{name}. Two ROW columns get this name, which joins the names of the "
                "columns around them with _; rename one of them"
            )
        return name
    known[name] = node
    return node | {"fields": [f | {"type": _with_references(f["type"], known)} for f in node["fields"]]}


# --- Avro to Flink's types -----------------------------------------------------------------------------

_FROM_PRIMITIVE: dict[str, FlinkType] = {
    "boolean": FlinkType("BOOLEAN"),
    "int": FlinkType("INT"),
    "long": FlinkType("BIGINT"),
    "float": FlinkType("FLOAT"),
    "double": FlinkType("DOUBLE"),
    "string": STRING,
    "enum": STRING,
    "bytes": BYTES,
    "null": FlinkType("NULL"),
}


def _of_time(time: TimeType, root: str) -> FlinkType:
    """Return Flink's type for a logical type; `root` is that of timestamps."""
    if time.quantity == "date":
        return FlinkType("DATE")
    return FlinkType("TIME" if time.quantity == "time" else root, precision=time.digits)


_KNOWN_TIMES = {name: time for name, time in TIMES.items() if time.digits <= _MICROS}  # Flink has no nanoseconds
_FROM_LOGICAL = {name: _of_time(time, "TIMESTAMP") for name, time in _KNOWN_TIMES.items() if not time.local}
_FROM_TIMESTAMPS = {
    name: _of_time(time, "TIMESTAMP" if time.local else "TIMESTAMP_LTZ") for name, time in _KNOWN_TIMES.items()
}
"""Flink's types with `timestamp_mapping.legacy=false`."""
_OTHER_UNION = FlinkType("RAW")


def row_of_schema(schema: Schema, *, legacy: bool = True) -> FlinkType:
    """Return Flink's type of a schema. `legacy`: Flink's option `timestamp_mapping.legacy`.

    A union of more than null and one other type is RAW, and `null` is NULL. No column has these types.
    Raises `SchemaError` for a recursive schema.
    """
    if schema.is_recursive:
        raise SchemaError(f"the Avro schema {schema.full_name} is recursive, and a table's type can't be")
    return _type(schema, _FROM_LOGICAL if legacy else _FROM_TIMESTAMPS)


def _type(schema: Schema, logical: Mapping[str, FlinkType]) -> FlinkType:
    if schema.type == "union":
        if len(schema.branches) == 1:
            return _type(schema.branches[0], logical)
        return replace(_type(schema.optional, logical), nullable=True) if schema.optional is not None else _OTHER_UNION
    return replace(_type_not_null(schema, logical), nullable=False)


def _type_not_null(schema: Schema, logical: Mapping[str, FlinkType]) -> FlinkType:
    if schema.type == "record":
        return FlinkType("ROW", fields=tuple(FlinkField(f.name, _type(f.schema, logical)) for f in schema.fields))
    if schema.items is not None:
        return FlinkType("ARRAY", fields=(FlinkField("element", _type(schema.items, logical)),))
    if schema.values is not None:
        key = replace(_FROM_PRIMITIVE["string"], nullable=False)
        return FlinkType("MAP", fields=(FlinkField("key", key), FlinkField("value", _type(schema.values, logical))))
    if schema.logical is not None and schema.logical.name == "decimal":
        return FlinkType("DECIMAL", precision=schema.logical.precision, scale=schema.logical.scale)
    if schema.logical is not None and schema.logical.name in logical:
        return logical[schema.logical.name]
    if schema.type == "fixed":
        return FlinkType("VARBINARY", length=schema.size)
    return _FROM_PRIMITIVE[schema.type]


def provided_schema(text: str) -> Schema:
    """Parse the schema of the option `schema`. Raises `SchemaError`."""
    try:
        return parse_schema(text)
    except SchemaError as cause:
        raise SchemaError(f"Could not parse Avro schema string. {cause}", field=cause.field) from cause


VARIANT_COLUMNS = Option(
    name="variant-columns",
    type="list",
    doc="Ours. The columns in which VARIANT is a string with a JSON text, separated by `;`. In others, VARIANT is "
    "refused, as in Flink.",
)


def check_variants(row: FlinkType, named: Collection[str], format: str) -> None:
    """Raise `SchemaError` for a column with VARIANT that the option `variant-columns` does not name."""
    for column in _with_variant(row):
        if column not in named:
            raise SchemaError(
                f"Unsupported to derive Schema for type: VARIANT. If column '{column}' is a string with a JSON text, "
                f"name it in the option '{VARIANT_COLUMNS.name}', or declare it as STRING",
                format=format,
                field=column,
            )


@cached_by_identity
def _with_variant(row: FlinkType) -> list[str]:
    return [column.name for column in row.fields if any(t.root == "VARIANT" for _, t in column.type.walk())]


def check_provided(schema: Schema, row: FlinkType, format: str, *, legacy: bool = True) -> None:
    """Raise `SchemaError` if the schema of the option `schema` has another type than the table."""
    provided = row_of_schema(schema, legacy=legacy)
    if replace(provided, nullable=False) != replace(row, nullable=False):
        raise SchemaError(
            f"Schema provided for '{format}' format does not match the table schema: {schema.text}. Its type is "
            f"{provided.summary()}, the table's type is {row.summary()}",
            format=format,
        )
