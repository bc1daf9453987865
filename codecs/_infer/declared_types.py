"""Flink types for the column types that messages of change data declare.

    connect_type   Kafka Connect's schema, as Debezium adds it: `{"type": "int32", "name": "io.debezium.time.Date"}`
    mysql_type     Canal's `mysqlType`: "decimal(10,2)", "bigint(20) unsigned"
    jdbc_type      Canal's `sqlType`: a number of `java.sql.Types`

A database's column type does not say how the message contains the value: Debezium writes dates as numbers, and Canal
writes every value as text. So `fits` checks whether a Flink type reads a value without changing it.
Rules: Debezium's "Data type mappings", Connect's `JsonConverter`, MySQL's "Data Types", docs/changes.md.
"""

from __future__ import annotations

import functools
import re
from decimal import Decimal
from typing import Any

from kvformat.codecs._infer.column_types import STRING, Notes, array_of, is_name, map_of
from kvformat.codecs._infer.debezium_columns import PRIMITIVES
from kvformat.codecs._infer.value_summary import MAX_DEPTH, MOST_DIGITS, form_of
from kvformat.codecs._json.scalars import Converter, ScalarRules, scalar_converter
from kvformat.codecs._kernel.tree import Fraction, Node
from kvformat.registry.contract.types import FlinkField, FlinkType

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def fits(t: FlinkType, node: Node, *, iso: bool) -> bool:
    """Return whether a column of the type reads a value without an error, without rounding and with all its members."""
    if node is None:
        return True
    if t.root == "ROW":
        types = {field.name: field.type for field in t.fields}
        return isinstance(node, dict) and all(
            name in types and fits(types[name], value, iso=iso) for name, value in node.items()
        )
    if t.root == "ARRAY":
        return isinstance(node, list) and all(fits(t.fields[0].type, element, iso=iso) for element in node)
    if t.root == "MAP":
        return isinstance(node, dict) and all(fits(t.fields[1].type, value, iso=iso) for value in node.values())
    if t == STRING:
        return True
    if isinstance(node, dict | list) or (t.root == "BOOLEAN") != isinstance(node, bool):
        return False
    if t.root in _INTEGERS and isinstance(node, Fraction):
        return False
    try:
        if t.root.startswith("TIME") and isinstance(node, str) and form_of(node)[1] > (t.precision or 0):
            return False
        value = _converter(t, iso)(node)
        return value is not None and (t.root != "DECIMAL" or value == Decimal(str(node)))
    except (ValueError, ArithmeticError):
        return False


@functools.lru_cache(maxsize=256)
def _converter(t: FlinkType, iso: bool) -> Converter:
    return scalar_converter(t, ScalarRules(streaming=False, iso=iso, decimals=False))


# --- Kafka Connect ---------------------------------------------------------------------------------------

_CONNECT = {**PRIMITIVES, "float": FlinkType("FLOAT"), "double": FlinkType("DOUBLE"), "string": STRING}
_ZONED = "io.debezium.time.ZonedTimestamp"
_MEANS = {  # how the value of a logical type is written
    "io.debezium.time.Date": "days since 1970: date_from_unix_date(d) in Spark",
    "io.debezium.time.Time": "milliseconds of a day",
    "io.debezium.time.MicroTime": "microseconds of a day",
    "io.debezium.time.NanoTime": "nanoseconds of a day",
    "io.debezium.time.Timestamp": "milliseconds since 1970: timestamp_millis(t) in Spark",
    "io.debezium.time.MicroTimestamp": "microseconds since 1970: timestamp_micros(t) in Spark",
    "io.debezium.time.NanoTimestamp": "nanoseconds since 1970",
    "io.debezium.time.MicroDuration": "microseconds",
    "io.debezium.data.VariableScaleDecimal": "a decimal, the bytes of its unscaled number and its scale",
    "io.debezium.data.Bits": "bits, the lowest byte first",
    "org.apache.kafka.connect.data.Date": "days since 1970: date_from_unix_date(d) in Spark",
    "org.apache.kafka.connect.data.Time": "milliseconds of a day",
    "org.apache.kafka.connect.data.Timestamp": "milliseconds since 1970: timestamp_millis(t) in Spark",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def connect_type(schema: Any, path: str, notes: Notes, depth: int = 0) -> FlinkType | None:
    """Return the type that reads values of a Connect schema; None if `schema` is not a schema of a supported type."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return None
    kind, name = str(schema.get("type")), str(schema.get("name"))
    if name in _MEANS:
        notes.add(f"{name.rpartition('.')[2]} is written as a number or text: {_MEANS[name]}", path)
    if name == _DECIMAL:
        parameters = schema.get("parameters")
        scale = parameters.get("scale") if isinstance(parameters, dict) else None
        notes.add(
            f"Decimal of scale {str(scale)[:10]} is written as the bytes of its unscaled number; with the connector's "
            "decimal.handling.mode = string it can be DECIMAL",
            path,
        )
    if name == _ZONED:
        return FlinkType("TIMESTAMP_LTZ", precision=6)
    if kind == "struct":
        return _connect_row(schema.get("fields"), path, notes, depth)
    if kind == "array":
        element = connect_type(schema.get("items"), f"{path}[]", notes, depth + 1)
        return None if element is None else array_of(element)
    if kind == "map":
        key = connect_type(schema.get("keys"), path, notes, depth + 1)
        value = connect_type(schema.get("values"), f"{path}{{}}", notes, depth + 1)
        return map_of(value) if key == STRING and value is not None else None
    return _CONNECT.get(kind)


def _connect_row(fields: Any, path: str, notes: Notes, depth: int) -> FlinkType | None:
    found = connect_fields(fields, path, notes, depth)
    return FlinkType("ROW", fields=tuple(FlinkField(name, t) for name, t in found.items())) if found else None


def connect_fields(fields: Any, path: str, notes: Notes, depth: int = 0) -> dict[str, FlinkType]:
    """Return the type of each field of a Connect struct by its name, without the fields that have no type."""
    found = {}
    for field in fields if isinstance(fields, list) else []:
        name = field.get("field") if isinstance(field, dict) else None
        if isinstance(name, str) and is_name(name):
            t = connect_type(field, f"{path}.{name}" if path else name, notes, depth + 1)
            if t is not None:
                found[str(name)] = t
    return found


# --- databases -------------------------------------------------------------------------------------------

_MYSQL = re.compile(r"\s*([a-z]+)(?:\s*\(\s*([0-9]{1,3})\s*(?:,\s*([0-9]{1,3})\s*)?\))?(.*)", re.IGNORECASE | re.DOTALL)
_WHOLE = {  # signed, unsigned
    "tinyint": ("TINYINT", "SMALLINT"),
    "smallint": ("SMALLINT", "INT"),
    "mediumint": ("INT", "INT"),
    "int": ("INT", "BIGINT"),
    "integer": ("INT", "BIGINT"),
    "year": ("INT", "INT"),
}
_UNSIGNED_LONG = FlinkType("DECIMAL", precision=20, scale=0)
_MYSQL_TIMES = ("datetime", "timestamp")
_JDBC = {
    -7: FlinkType("TINYINT"),
    -6: FlinkType("TINYINT"),
    5: FlinkType("SMALLINT"),
    4: FlinkType("INT"),
    -5: FlinkType("BIGINT"),
    6: FlinkType("DOUBLE"),
    7: FlinkType("FLOAT"),
    8: FlinkType("DOUBLE"),
    16: FlinkType("BOOLEAN"),
    91: FlinkType("DATE"),
    92: FlinkType("TIME", precision=3),
    93: FlinkType("TIMESTAMP", precision=6),
}
_JDBC_BINARY = ("-2", "-3", "-4", "2004")
_WIDER = {"TINYINT": "SMALLINT", "SMALLINT": "INT", "INT": "BIGINT"}


def mysql_type(text: Any) -> FlinkType:
    """Return the type for a column type of MySQL; STRING for texts and unknown types."""
    found = _MYSQL.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return STRING
    word, length, scale = found[1].lower(), int(found[2] or 0), int(found[3] or 0)
    unsigned = "unsigned" in found[4].lower() or "zerofill" in found[4].lower()
    if word in _WHOLE:
        return FlinkType(_WHOLE[word][unsigned])
    if word == "bigint":
        return _UNSIGNED_LONG if unsigned else FlinkType("BIGINT")
    if word in ("decimal", "numeric", "dec"):
        length = length or 10
        return FlinkType("DECIMAL", precision=length, scale=scale) if scale <= length <= MOST_DIGITS else STRING
    if word in ("float", "double", "real"):
        return FlinkType("FLOAT" if word == "float" else "DOUBLE")
    if word in _MYSQL_TIMES:
        return FlinkType("TIMESTAMP", precision=min(length, 6))
    if word == "time" and length <= 3:
        return FlinkType("TIME", precision=length)
    return FlinkType("DATE") if word == "date" else STRING


def is_binary(text: Any) -> bool:
    """Return whether `mysqlType` or `sqlType` declares a binary column. Canal writes its bytes as ISO-8859-1 text."""
    found = _MYSQL.fullmatch(text) if isinstance(text, str) else None
    return text in _JDBC_BINARY or (found is not None and found[1].lower().endswith(("blob", "binary")))


def jdbc_type(number: Any) -> FlinkType:
    """Return the type for a number of `java.sql.Types`; STRING for texts, unknown types and DECIMAL (no precision)."""
    return _JDBC.get(int(number), STRING) if isinstance(number, str) and _SMALL.fullmatch(number) else STRING


_SMALL = re.compile(r"-?[0-9]{1,5}")


def wider(t: FlinkType) -> FlinkType | None:
    """Return the next larger integer type, because `sqlType` does not say whether a column is unsigned."""
    if t.root == "BIGINT":
        return _UNSIGNED_LONG
    return FlinkType(_WIDER[t.root]) if t.root in _WIDER else None
