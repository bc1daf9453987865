"""Flink types for Kafka Connect's schemas of columns, `{"type": "int32", "name": "io.debezium.time.Date"}`.

They are the types that Flink's format reads. It reads the values of logical types as they are on the wire.
Rules: Debezium's "Data type mappings", Connect's `JsonConverter`.
"""

from __future__ import annotations

from typing import Any

from kvformat.codecs.debezium.own_types import PRIMITIVES
from kvformat.codecs.discovery.column_types import Notes, array_of, is_name, map_of
from kvformat.codecs.discovery.value_summary import MAX_DEPTH
from kvformat.registry.contract.types import STRING, FlinkField, FlinkType

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
    found = _connect_fields(fields, path, notes, depth)
    return FlinkType("ROW", fields=tuple(FlinkField(name, t) for name, t in found.items())) if found else None


def connect_row(schema: Any, notes: Notes, *, flat: bool) -> dict[str, FlinkType]:
    """Return the types of the columns of a message by its schema.

    They are those of `after`, or else of `before`, which has the same columns; of `flat` messages those of the message.
    """
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not flat:
        structs = {str(f.get("field")): f for f in fields if isinstance(f, dict)} if isinstance(fields, list) else {}
        fields = (structs.get("after") or structs.get("before") or {}).get("fields")
    return _connect_fields(fields, "", notes)


def _connect_fields(fields: Any, path: str, notes: Notes, depth: int = 0) -> dict[str, FlinkType]:
    """Return the type of each field of a Connect struct by its name, without the fields that have no type."""
    found = {}
    for field in fields if isinstance(fields, list) else []:
        name = field.get("field") if isinstance(field, dict) else None
        if isinstance(name, str) and is_name(name):
            t = connect_type(field, f"{path}.{name}" if path else name, notes, depth + 1)
            if t is not None:
                found[str(name)] = t
    return found
