"""Flink types for Kafka Connect's schemas of columns, `{"type": "int32", "name": "io.debezium.time.Date"}`.

A schema has two readings. `flink_type` gives the type that Flink's format reads: values of logical types as they are on
the wire. `own_type` gives the type of a column that is read with 'types' = 'debezium':

| Connect, Debezium | column |
| --- | --- |
| `Decimal` | DECIMAL(p, s), up to 38 digits; else STRING |
| `VariableScaleDecimal`, `Interval`, texts | STRING |
| days; times of a day; moments; durations | DATE; TIME; TIMESTAMP; INTERVAL DAY TO SECOND |
| `ZonedTimestamp` | TIMESTAMP_LTZ(6) |
| `EnumSet`, `Bits` | ARRAY<STRING>, BIGINT (BYTES beyond 63 bits) |

Rules: Debezium's "Data type mappings", Connect's `JsonConverter`.
"""

from __future__ import annotations

from kvformat.codecs.debezium.connect_schema import DECIMAL, ConnectSchema
from kvformat.codecs.discovery.column_types import Notes, array_of, is_name, map_of
from kvformat.codecs.discovery.value_summary import MAX_DEPTH, MOST_DIGITS
from kvformat.registry.contract.types import BYTES, STRING, FlinkField, FlinkType

BIGINT = FlinkType("BIGINT")
MOMENT = FlinkType("TIMESTAMP_LTZ", precision=6)
_TIME, _DATA, _CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
ZONED, SET = f"{_TIME}ZonedTimestamp", f"{_DATA}EnumSet"
_NANO_TIME, _BITS = f"{_TIME}NanoTime", f"{_DATA}Bits"
_PRIMITIVES = {
    "boolean": FlinkType("BOOLEAN"),
    "int8": FlinkType("TINYINT"),
    "int16": FlinkType("SMALLINT"),
    "int32": FlinkType("INT"),
    "int64": BIGINT,
    "float32": FlinkType("FLOAT"),
    "float64": FlinkType("DOUBLE"),
    "bytes": BYTES,
    "string": STRING,
}
_LOGICAL = {
    f"{_TIME}Date": FlinkType("DATE"),
    f"{_CONNECT}Date": FlinkType("DATE"),
    f"{_TIME}IsoDate": FlinkType("DATE"),
    f"{_TIME}Time": FlinkType("TIME", precision=3),
    f"{_CONNECT}Time": FlinkType("TIME", precision=3),
    f"{_TIME}MicroTime": FlinkType("TIME", precision=6),
    f"{_TIME}Timestamp": FlinkType("TIMESTAMP", precision=3),
    f"{_CONNECT}Timestamp": FlinkType("TIMESTAMP", precision=3),
    f"{_TIME}MicroTimestamp": FlinkType("TIMESTAMP", precision=6),
    f"{_TIME}MicroDuration": FlinkType("INTERVAL DAY TO SECOND"),
    f"{_DATA}VariableScaleDecimal": STRING,
    SET: array_of(STRING),
}
HIGH_PRECISION = {
    _NANO_TIME: FlinkType("TIME", precision=6),
    f"{_TIME}NanoTimestamp": FlinkType("TIMESTAMP", precision=6),
    f"{_TIME}NanoDuration": FlinkType("INTERVAL DAY TO SECOND"),
    ZONED: MOMENT,
    f"{_TIME}ZonedTime": FlinkType("TIME", precision=6),
    f"{_TIME}IsoTime": FlinkType("TIME", precision=6),
    f"{_TIME}IsoTimestamp": FlinkType("TIMESTAMP", precision=6),
}
"""Types whose values may have digits below a microsecond, or a UTC offset that a column does not keep."""
_MEANS = {  # how the value of a logical type is written
    f"{_TIME}Date": "days since 1970: date_from_unix_date(d) in Spark",
    f"{_TIME}Time": "milliseconds of a day",
    f"{_TIME}MicroTime": "microseconds of a day",
    _NANO_TIME: "nanoseconds of a day",
    f"{_TIME}Timestamp": "milliseconds since 1970: timestamp_millis(t) in Spark",
    f"{_TIME}MicroTimestamp": "microseconds since 1970: timestamp_micros(t) in Spark",
    f"{_TIME}NanoTimestamp": "nanoseconds since 1970",
    f"{_TIME}MicroDuration": "microseconds",
    f"{_DATA}VariableScaleDecimal": "a decimal, the bytes of its unscaled number and its scale",
    _BITS: "bits, the lowest byte first",
    f"{_CONNECT}Date": "days since 1970: date_from_unix_date(d) in Spark",
    f"{_CONNECT}Time": "milliseconds of a day",
    f"{_CONNECT}Timestamp": "milliseconds since 1970: timestamp_millis(t) in Spark",
}
_MOST_BITS = 63  # of a BIGINT, without the sign


def flink_type(schema: ConnectSchema | None, path: str, notes: Notes, depth: int = 0) -> FlinkType | None:
    """Return the type that reads values of a schema as Flink does; None if there is none."""
    if schema is None or depth > MAX_DEPTH:
        return None
    _note_logical(schema, path, notes)
    if schema.name == ZONED:
        return MOMENT
    if schema.type == "struct":
        fields = _flink_types(schema, path, notes, depth)
        return FlinkType("ROW", fields=tuple(FlinkField(name, t) for name, t in fields.items())) if fields else None
    if schema.type == "array":
        element = flink_type(schema.items, f"{path}[]", notes, depth + 1)
        return None if element is None else array_of(element)
    if schema.type == "map":
        key = flink_type(schema.keys, path, notes, depth + 1)
        value = flink_type(schema.items, f"{path}{{}}", notes, depth + 1)
        return map_of(value) if key == STRING and value is not None else None
    return _PRIMITIVES.get(schema.type)


def _note_logical(schema: ConnectSchema, path: str, notes: Notes) -> None:
    """Note how the values of a logical type are written."""
    if schema.name in _MEANS:
        notes.add(f"{schema.name.rpartition('.')[2]} is written as a number or text: {_MEANS[schema.name]}", path)
    if schema.name == DECIMAL:
        notes.add(
            f"Decimal of scale {schema.parameters.get('scale', 'None')[:10]} is written as the bytes of its unscaled "
            "number; with the connector's decimal.handling.mode = string it can be DECIMAL",
            path,
        )


def flink_types(image: ConnectSchema | None, notes: Notes) -> dict[str, FlinkType]:
    """Return the types of the columns of a row's schema as Flink reads them; none without a schema."""
    return {} if image is None else _flink_types(image, "", notes, 0)


def _flink_types(struct: ConnectSchema, path: str, notes: Notes, depth: int) -> dict[str, FlinkType]:
    """Return the type of each field of a struct by its name, without the fields that have no type."""
    types = {}
    for name, part in struct.fields.items():
        if is_name(name):
            t = flink_type(part, f"{path}.{name}" if path else name, notes, depth + 1)
            if t is not None:
                types[name] = t
    return types


def own_type(schema: ConnectSchema, inside: bool = False) -> FlinkType:
    """Return the type of a column. With `inside` (a row, array or map), the type keeps all values unchanged."""
    if schema.name == DECIMAL:
        return _decimal(schema)
    if schema.name in HIGH_PRECISION:
        return HIGH_PRECISION[schema.name] if not inside else BIGINT if schema.type == "int64" else STRING
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.name == _BITS:
        length = schema.parameters.get("length", "0")
        return BIGINT if length.isdecimal() and int(length) <= _MOST_BITS else BYTES
    if schema.type == "struct":
        fields = tuple(FlinkField(n, own_type(part, True)) for n, part in schema.fields.items() if is_name(n))
        return FlinkType("ROW", fields=fields) if fields else STRING
    if schema.items is not None:
        items = own_type(schema.items, True)
        return array_of(items) if schema.type == "array" else map_of(items)
    return _PRIMITIVES.get(schema.type, STRING)


def own_types(image: ConnectSchema) -> dict[str, FlinkType]:
    """Return the types of the columns of a row's schema. The precision of TIME says the unit of its values."""
    types = {name: own_type(part) for name, part in image.fields.items()}
    nanos = (name for name, part in image.fields.items() if part.name == _NANO_TIME)
    return types | dict.fromkeys(nanos, FlinkType("TIME", precision=9))


def _decimal(schema: ConnectSchema) -> FlinkType:
    """Return DECIMAL with the precision of the schema, else the maximum; STRING if a DECIMAL is too small."""
    texts = [schema.parameters.get(name, "") for name in ("scale", "connect.decimal.precision")]
    scale, precision = (int(t) if t.lstrip("-").isdecimal() and len(t) < 5 else None for t in texts)
    if scale is None:
        return STRING
    digits = MOST_DIGITS if precision is None else precision - min(scale, 0)
    scale = max(scale, 0)
    return FlinkType("DECIMAL", precision=digits, scale=scale) if scale <= digits <= MOST_DIGITS else STRING
