"""How a value of a Connect type is read for a column of a Flink type: as which wire type, and by which conversion.

| Connect, Debezium | on the wire (JSON; Avro) | columns |
| --- | --- | --- |
| `Decimal` | base64; bytes | DECIMAL, STRING (its digits), BYTES (as it is) |
| `VariableScaleDecimal` | `{"scale": 2, "value": base64}`; a record | DECIMAL, STRING, ROW |
| `time.Date`, Connect's `Date` | days | DATE |
| `time.Time`, `MicroTime`, `NanoTime`, Connect's `Time` | milli-, micro-, nanoseconds | TIME |
| `time.Timestamp`, `MicroTimestamp`, `NanoTimestamp` | milli-, micro-, nanoseconds since 1970, no zone | TIMESTAMP |
| Connect's `Timestamp` | milliseconds since 1970 | TIMESTAMP, TIMESTAMP_LTZ |
| `time.ZonedTimestamp`, `time.ZonedTime` | ISO 8601 with an offset | TIMESTAMP_LTZ, TIME (in UTC) |
| `time.IsoDate`, `IsoTime`, `IsoTimestamp` | ISO 8601 | DATE, TIME, TIMESTAMP |
| `time.StructuredDate`, `StructuredTime`, `StructuredTimestamp` | numbers in a row | DATE, TIME, TIMESTAMP; ROW |
| `time.StructuredZonedTimestamp` | numbers in a row, with an offset | TIMESTAMP_LTZ; ROW |
| `time.StructuredZonedTime` | numbers in a row, with an offset | TIME (in UTC); ROW |
| `time.StructuredDuration` | numbers in a row | INTERVAL DAY TO SECOND, TIME (MySQL's); ROW |
| `time.MicroDuration`, `NanoDuration` | micro-, nanoseconds | INTERVAL DAY TO SECOND |
| `data.Bits` | base64, bytes; the lowest byte first | BIGINT, BYTES |
| `data.EnumSet` | a text with words between commas | ARRAY<STRING>, STRING |
| bytes; text with `binary.handling.mode` | base64, base64-url-safe, hex; bytes | BYTES |

A column of a number type reads the number as it is, and a STRING column the text. A STRING column reads days, times and
timestamps as ISO texts. Any other value is read by the rules of Flink's json or Avro. Sources: "Data type mappings" in
Debezium's documentation of each connector; `io.debezium.time` and `io.debezium.data` in its code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from kvformat.codecs._conversions import Conversion, EachValue, Nested, RefusedValues
from kvformat.codecs._decimals import decimal_parser
from kvformat.codecs.changes.row_plan import RowPlan
from kvformat.codecs.debezium.connect_schema import DECIMAL, ConnectSchema
from kvformat.codecs.debezium.conversions import (
    DecimalToText,
    IntegerToBoolean,
    ScaledCount,
    SplitSet,
    UnscaledDecimal,
    VariableScaleDecimal,
    ZonedText,
)
from kvformat.codecs.debezium.count_texts import COUNT_TEXTS, VALUE_TEXTS
from kvformat.codecs.debezium.json_values import (
    DecimalNumber,
    DecimalText,
    FloatingPoint,
    NumbersOnly,
    SetText,
    TextOnly,
    UnscaledBytes,
    WholeNumber,
)
from kvformat.codecs.debezium.parse_texts import (
    INFINITE_COUNTS,
    INFINITE_MICROS,
    OrPlaceholder,
    bits_reader,
    parse_base64,
    parse_base64_url_safe,
    parse_clock,
    parse_day,
    parse_duration,
    parse_hex,
    parse_hex_or_bits,
    parse_months,
)
from kvformat.codecs.debezium.structured_times import STRUCTURED, STRUCTURED_BY_ROOT, Structured
from kvformat.codecs.json.value_converters import ConvertedType, ValueConverter, flexible_boolean
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import BYTES, INTEGER_BITS, STRING, FlinkField, FlinkType

WireFormat = Literal["json", "avro"]
_INT, _BIGINT = FlinkType("INT"), FlinkType("BIGINT")
_VARIABLE = FlinkType("ROW", fields=(FlinkField("scale", _INT), FlinkField("value", BYTES)))
_TEXTS, _BINARIES = ("CHAR", "VARCHAR"), ("BINARY", "VARBINARY")
_NUMBERS = (*INTEGER_BITS, "FLOAT", "DOUBLE", "DECIMAL")
_CONNECT = "org.apache.kafka.connect.data."

# Integers that count a unit: the Flink types of columns, and the units in a second; for days, in a day.
_COUNTED: dict[str, tuple[tuple[str, ...], int]] = {
    "io.debezium.time.Date": (("DATE",), 1),
    f"{_CONNECT}Date": (("DATE",), 1),
    "io.debezium.time.Time": (("TIME",), 10**3),
    f"{_CONNECT}Time": (("TIME",), 10**3),
    "io.debezium.time.MicroTime": (("TIME",), 10**6),
    "io.debezium.time.NanoTime": (("TIME",), 10**9),
    "io.debezium.time.Timestamp": (("TIMESTAMP",), 10**3),
    f"{_CONNECT}Timestamp": (("TIMESTAMP", "TIMESTAMP_LTZ"), 10**3),
    "io.debezium.time.MicroTimestamp": (("TIMESTAMP",), 10**6),
    "io.debezium.time.NanoTimestamp": (("TIMESTAMP",), 10**9),
    "io.debezium.time.MicroDuration": (("INTERVAL DAY TO SECOND",), 10**6),
    "io.debezium.time.NanoDuration": (("INTERVAL DAY TO SECOND",), 10**9),
}
_PLAIN = {
    "boolean": FlinkType("BOOLEAN"),
    **dict.fromkeys(("int8", "int16", "int32", "int64"), _BIGINT),
    **dict.fromkeys(("float32", "float64"), FlinkType("DOUBLE")),
    "bytes": BYTES,
}
"""The wire type of each primitive type whose values are refused; any other is text."""
_ARROW_UNITS = {"DATE": 1, "TIME": 10**9, "TIMESTAMP": 10**6, "TIMESTAMP_LTZ": 10**6, "INTERVAL DAY TO SECOND": 10**6}
_ZONED, _INTERVAL = "io.debezium.time.ZonedTimestamp", "io.debezium.time.Interval"
_WRITTEN: dict[str, tuple[str, Callable[[str], int] | None]] = {
    _ZONED: ("TIMESTAMP_LTZ", None),
    "io.debezium.time.IsoTimestamp": ("TIMESTAMP", None),
    "io.debezium.time.ZonedTime": ("TIME", parse_clock),
    "io.debezium.time.IsoTime": ("TIME", parse_clock),
    "io.debezium.time.IsoDate": ("DATE", parse_day),
    _INTERVAL: ("INTERVAL DAY TO SECOND", parse_duration),
}
_VARIABLE_DECIMAL, _BITS = "io.debezium.data.VariableScaleDecimal", "io.debezium.data.Bits"
_OWN = frozenset((*_COUNTED, *STRUCTURED, DECIMAL, _VARIABLE_DECIMAL, _BITS))
_INFINITE_DAYS = tuple(INFINITE_COUNTS.items())
_INFINITE: dict[str, tuple[tuple[int, int], ...]] = {
    "io.debezium.time.Date": _INFINITE_DAYS,
    f"{_CONNECT}Date": _INFINITE_DAYS,
    "io.debezium.time.NanoTimestamp": tuple(zip((2**63 - 1, -(2**63)), INFINITE_MICROS.values(), strict=True)),
}
"""The counts that Postgres's connector writes for infinity, by type, with the values in Arrow's unit for them."""
_LARGEST_SCALE = 38
"""The largest scale of a decimal that is also read from a JSON number: that of the widest DECIMAL. Each such scale is a
wire type with a reader of its own, and a batch may have any number of scales."""
_TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
_DIGITS = {3: 10**3, 6: 10**6, 9: 10**9}


@dataclass(frozen=True, slots=True)
class ConnectorModes:
    """The connector's settings `*.handling.mode` and `*.precision.mode`; None if they are not known."""

    decimal: str | None = None
    time: str | None = None
    binary: str | None = None
    placeholder: bytes | None = None
    """The placeholder of unchanged values; None if it is not looked for."""


@dataclass(frozen=True, slots=True)
class ValueReading:
    """How the values of a column are read: as wire type `wire`, then by a conversion, if one is needed."""

    wire: FlinkType
    conversion: Conversion | None = None


def value_reading(
    t: FlinkType, schema: ConnectSchema | None, modes: ConnectorModes, wire_format: WireFormat, path: str = ""
) -> ValueReading:
    """How a column of a Flink type is read. `schema` is its Connect schema, None if messages have no schema.

    `path` names the column in errors. Raises `SchemaError` if neither the schema nor the modes say how to read it. If
    the column can't hold values of the schema's type, each value is an error, not the schema.
    """
    if schema is None and wire_format == "json":
        return _without_schema(t, modes, path)
    return _by_schema(t, schema or ConnectSchema("null"), modes, wire_format, path)


def absent_reading(t: FlinkType, wire_format: WireFormat) -> ValueReading:
    """How a column is read that the schema does not have, so that it is NULL.

    In Avro it is read as text, because some Flink types have no Avro schema, such as TIMESTAMP(6).
    """
    return ValueReading(t) if wire_format == "json" else ValueReading(STRING, RefusedValues(t, ""))


def plan_row(row: FlinkType, image: ConnectSchema | None, modes: ConnectorModes, wire_format: WireFormat) -> RowPlan:
    """How messages with images of a Connect schema become rows of a table; `image` is None if they have no schema.

    Raises `SchemaError` as `value_reading` does.
    """
    readings = []
    for column in row.fields:
        if image is not None and column.name not in image.fields:
            readings.append(absent_reading(column.type, wire_format))
            continue
        schema = None if image is None else image.fields[column.name]
        readings.append(value_reading(column.type, schema, modes, wire_format, column.name))
    fields = (FlinkField(f.name, reading.wire) for f, reading in zip(row.fields, readings, strict=True))
    return RowPlan(row, replace(row, fields=tuple(fields)), [reading.conversion for reading in readings])


def flink_misreads(t: FlinkType, schema: ConnectSchema) -> bool:
    """Whether Flink's Avro formats read values of a Connect type for a column, but as other values."""
    if schema.name in _COUNTED and t.root in _TIMES:
        roots, per_second = _COUNTED[schema.name]
        return t.root not in roots or per_second != (1 if t.root == "DATE" else 10**3)
    if t.root == "DECIMAL":
        return schema.type == "string" or (schema.type == "bytes" and schema.name != DECIMAL)
    return t.root in _TEXTS and schema.type == "bytes"


def has_debezium_type(schema: ConnectSchema) -> bool:
    """Whether Flink's formats read values of a Connect type, or values inside them, as other values."""
    if schema.name in _OWN or (schema.name in _WRITTEN and schema.name not in (_ZONED, _INTERVAL)):
        return True
    return any(map(has_debezium_type, (*schema.fields.values(), *(() if schema.items is None else (schema.items,)))))


# --- with a schema -----------------------------------------------------------------------------------------


def _by_schema(
    t: FlinkType, schema: ConnectSchema, modes: ConnectorModes, wire_format: WireFormat, path: str
) -> ValueReading:
    source = f"which is {schema} by the message's schema"
    if schema.name in _COUNTED:
        return _counted(t, schema, source)
    if schema.name in STRUCTURED and not t.fields:
        return _structured(t, STRUCTURED[schema.name], source)
    if schema.name in _WRITTEN:
        root, read = _WRITTEN[schema.name]
        if t.root == root:
            return ValueReading(STRING, ZonedText(t, source) if read is None else EachValue(t, source, read))
        return ValueReading(t) if t.root in _TEXTS else _refused(t, schema, source, f"declare it as {root}, or STRING")
    if schema.name == DECIMAL:
        return _decimal(t, schema, source, wire_format)
    if schema.name == _VARIABLE_DECIMAL:
        if t.root == "DECIMAL":
            return ValueReading(_VARIABLE, VariableScaleDecimal(t, source))
        return ValueReading(_VARIABLE, DecimalToText(t, source)) if t.root in _TEXTS else ValueReading(t)
    if schema.name == _BITS and t.root in INTEGER_BITS:
        return ValueReading(BYTES, EachValue(t, source, bits_reader(INTEGER_BITS[t.root])))
    if schema.name == "io.debezium.data.EnumSet" and _is_of_texts(t):
        return ValueReading(STRING, SplitSet(t, source))
    if t.fields and t.root != "MULTISET":
        return _nested(t, schema, modes, wire_format, path)
    return _primitive(t, schema, source, modes, wire_format)


def _counted(t: FlinkType, schema: ConnectSchema, source: str) -> ValueReading:
    """The reading of a count of days, or of a unit of time."""
    roots, per_second = _COUNTED[schema.name]
    if t.root in roots:
        arrow = _ARROW_UNITS[t.root]
        wire = _INT if schema.type == "int32" or t.root == "DATE" else _BIGINT  # a DATE has no more days
        times, divisor = max(arrow // per_second, 1), max(per_second // arrow, 1)
        return ValueReading(wire, ScaledCount(t, source, times, divisor, _INFINITE.get(schema.name, ())))
    if t.root in _TEXTS and roots[0] in COUNT_TEXTS:
        wire = _INT if schema.type == "int32" else _BIGINT
        return ValueReading(wire, EachValue(t, source, COUNT_TEXTS[roots[0]](per_second)))
    if t.root in _NUMBERS or t.root in _TEXTS:
        return ValueReading(t)
    zone = " (it has no time zone)" if t.root == "TIMESTAMP_LTZ" else ""
    return _refused(t, schema, source, f"declare it as {' or '.join(roots)}{zone}, or as BIGINT")


def _structured(t: FlinkType, structured: Structured, source: str) -> ValueReading:
    """The reading of a structured type, which is a row of parts."""
    wire, reads = structured
    if t.root in reads:
        return ValueReading(wire, EachValue(t, source, reads[t.root]))
    hint = f"; declare it as {' or '.join(reads)}, or as ROW of its parts"
    return ValueReading(wire, RefusedValues(t, source, hint))


def _decimal(t: FlinkType, schema: ConnectSchema, source: str, wire_format: WireFormat) -> ValueReading:
    if t.root in _BINARIES:
        return ValueReading(t)
    text = schema.parameters.get("scale", "0")
    scale = int(text) if text.lstrip("-").isdecimal() and len(text) < 5 else 0
    wire = BYTES
    if wire_format == "json" and 0 <= scale <= _LARGEST_SCALE:
        wire = ConvertedType.of(BYTES, UnscaledBytes(scale, has_schema=True))
    if t.root == "DECIMAL":
        return ValueReading(wire, UnscaledDecimal(t, source, scale))
    if t.root in _TEXTS:
        return ValueReading(wire, DecimalToText(t, source, scale))
    return _refused(t, schema, source, f"declare it as DECIMAL(p, {scale}), STRING or BYTES")


def _nested(
    t: FlinkType, schema: ConnectSchema, modes: ConnectorModes, wire_format: WireFormat, path: str
) -> ValueReading:
    """The reading of a ROW, an ARRAY or a MAP, whose parts are read by their own schemas."""
    source = f"which is {schema} by the message's schema"
    kinds = {"ROW": "struct", "ARRAY": "array", "MAP": "map"}
    if schema.type != kinds[t.root]:
        if schema.type in ("null", "union"):
            return ValueReading(t)
        return _refused(t, schema, source)
    fields, changes = [], {}
    for field in t.fields:
        part = schema.fields.get(field.name) if t.root == "ROW" else None if field.name == "key" else schema.items
        if part is None and t.root != "ROW":
            fields.append(field)
            continue
        inner = f"{path}.{field.name}"
        reading = (
            absent_reading(field.type, wire_format)
            if part is None
            else _by_schema(field.type, part, modes, wire_format, inner)
        )
        fields.append(FlinkField(field.name, reading.wire))
        if reading.conversion is not None:
            changes[field.name] = reading.conversion
    wire = replace(t, fields=tuple(fields))
    return ValueReading(wire, Nested(t, source, changes) if changes else None)


def _primitive(
    t: FlinkType, schema: ConnectSchema, source: str, modes: ConnectorModes, wire_format: WireFormat
) -> ValueReading:
    """The reading of a primitive Connect type without a logical type, for a column that is not nested."""
    whole = schema.type in ("int8", "int16", "int32", "int64")
    if t.root == "BOOLEAN" and whole:
        return ValueReading(_BIGINT, IntegerToBoolean(t, source))
    if schema.type == "bytes" and t.root in ("BOOLEAN", *_NUMBERS):
        return _refused(t, schema, source, "declare it as BYTES")
    if t.root in _BINARIES and schema.type == "string" and not schema.name:
        return _binary(t, schema, source, modes)
    if t.root in _TIMES and (whole or schema.type in ("float32", "float64", "bytes")):
        return _refused(t, schema, source, "declare it as BIGINT and convert it, as the schema has no unit")
    if t.root == "INTERVAL DAY TO SECOND":
        return _refused(t, schema, source, "declare it as the number or text that it is")
    if wire_format == "json":
        return ValueReading(_strict(t, schema))
    if t.root == "DECIMAL" and (whole or schema.type in ("string", "float64", "float32")):
        wire = STRING if schema.type == "string" else _BIGINT if whole else FlinkType("DOUBLE")
        return ValueReading(wire, EachValue(t, source, decimal_parser(t.precision or 0, t.scale or 0)))
    if t.root in _TEXTS and schema.type in VALUE_TEXTS:
        wire, read = VALUE_TEXTS[schema.type]
        return ValueReading(wire, EachValue(t, source, read))
    if t.root in ("TINYINT", "SMALLINT") or t.root not in _TIMES:
        return ValueReading(t)
    return _refused(t, schema, source, "declare it as STRING")


def _strict(t: FlinkType, schema: ConnectSchema) -> FlinkType:
    """The type, read strictly: a value that does not fit is an error, and is not changed to fit as in Flink."""
    if t.root == "BOOLEAN":
        return flexible_boolean(t)
    if t.root == "DECIMAL":
        return ConvertedType.of(t, DecimalNumber(t.precision or 0, t.scale or 0))
    if t.root in INTEGER_BITS and schema.type in ("float32", "float64"):
        return ConvertedType.of(t, WholeNumber(INTEGER_BITS[t.root]))
    return t


def _is_of_texts(t: FlinkType) -> bool:
    """Whether a type is an ARRAY of texts."""
    return t.root == "ARRAY" and t.fields[0].type.root in _TEXTS


def _binary(t: FlinkType, schema: ConnectSchema, source: str, modes: ConnectorModes) -> ValueReading:
    reads = {"hex": parse_hex, "base64-url-safe": parse_base64_url_safe, "base64": parse_base64}
    if modes.binary in reads:
        read = reads[modes.binary]
        placed = read if modes.placeholder is None else OrPlaceholder(read, modes.placeholder)
        return ValueReading(STRING, EachValue(t, f"{source}, {modes.binary}", placed))
    return _refused(t, schema, source, "set 'binary.handling.mode' to the connector's: base64, base64-url-safe or hex")


def _refused(t: FlinkType, schema: ConnectSchema, source: str, hint: str = "") -> ValueReading:
    """The reading that refuses every value except NULL."""
    return ValueReading(_PLAIN.get(schema.type, STRING), RefusedValues(t, source, f"; {hint}" if hint else ""))


# --- without a schema ---------------------------------------------------------------------------------------


def _without_schema(t: FlinkType, modes: ConnectorModes, path: str, *, inside: bool = False) -> ValueReading:
    """How a column is read by the connector's settings, its type, and the form of each value.

    `inside` says that it is a field of a ROW.
    """
    if t.root == "DECIMAL":
        return _decimal_without_schema(t, modes, path)
    if modes.time == "structured" and t.root in STRUCTURED_BY_ROOT:
        return _structured(t, STRUCTURED_BY_ROOT[t.root], "'time.precision.mode' is structured")
    if t.root == "TIMESTAMP_LTZ":
        return ValueReading(STRING, ZonedText(t, "a text with an offset is expected"))
    if t.root in _TIMES:
        return _time_without_schema(t, modes.time, path)
    if t.root == "INTERVAL DAY TO SECOND":
        return ValueReading(_forms_of(_BIGINT, t, TextOnly(parse_duration)), ScaledCount(t, "microseconds"))
    if t.root in _BINARIES:
        return _binary_without_schema(t, modes, inside)
    if t.fields and t.root != "MULTISET":
        row = t.root == "ROW"
        parts = {
            f.name: _without_schema(f.type, modes, f"{path}.{f.name}", inside=row)
            for f in t.fields
            if row or f.name != "key"
        }
        fields = tuple(FlinkField(f.name, parts[f.name].wire if f.name in parts else f.type) for f in t.fields)
        changes = {name: part.conversion for name, part in parts.items() if part.conversion is not None}
        wire = replace(t, fields=fields)
        if _is_of_texts(t):
            wire = ConvertedType.of(wire, SetText())
        return ValueReading(wire, Nested(t, "", changes) if changes else None)
    return ValueReading(_with_forms(t, modes))


def _with_forms(t: FlinkType, modes: ConnectorModes) -> FlinkType:
    """The type, read in the forms that Debezium writes; for types that need no conversion."""
    if t.root == "BOOLEAN":
        return flexible_boolean(t)
    if t.root in INTEGER_BITS:
        return ConvertedType.of(t, WholeNumber(INTEGER_BITS[t.root]))
    if t.root in ("FLOAT", "DOUBLE"):
        return ConvertedType.of(t, FloatingPoint(t.root == "FLOAT", modes.decimal == "string"))
    if t.root in _TEXTS and modes.decimal in (None, "precise"):
        return ConvertedType.of(t, DecimalText())
    if t.root == "INTERVAL YEAR TO MONTH":
        return ConvertedType.of(t, TextOnly(parse_months))
    return t


def _forms_of(wire: FlinkType, t: FlinkType, convert: ValueConverter, factor: int = 1) -> FlinkType:
    """A wire type that is read in other forms; its errors name the column's type `t`."""
    return ConvertedType.of(wire, convert, factor=factor, name=t.summary())


def _decimal_without_schema(t: FlinkType, modes: ConnectorModes, path: str) -> ValueReading:
    precision, scale = t.precision or 0, t.scale or 0
    if modes.decimal is None:
        raise _unset(path, t, "decimal.handling.mode", "precise (Debezium's default), double or string")
    if modes.decimal != "precise":
        return ValueReading(ConvertedType.of(t, DecimalNumber(precision, scale, unsigned=True)))
    wire = _forms_of(BYTES, t, UnscaledBytes(scale))
    return ValueReading(wire, UnscaledDecimal(t, "'decimal.handling.mode' is precise", scale))


def _binary_without_schema(t: FlinkType, modes: ConnectorModes, inside: bool) -> ValueReading:
    """How a BYTES column is read. The mode holds for BYTES and arrays of BYTES.

    Bits, and bytes inside a row (`wkb`), are always Base64.
    """
    if inside or (modes.binary in (None, "bytes", "base64") and modes.placeholder is None):
        return ValueReading(t)
    reads = {"hex": parse_hex_or_bits, "base64-url-safe": parse_base64_url_safe}
    read: Callable[[str], bytes] = reads.get(modes.binary or "", parse_base64)
    if modes.placeholder is not None:
        read = OrPlaceholder(read, modes.placeholder)
    if modes.binary == "hex":
        return ValueReading(STRING, EachValue(t, "'binary.handling.mode' is hex", read))
    return ValueReading(_forms_of(t, t, TextOnly(read)))


def _time_without_schema(t: FlinkType, mode: str | None, path: str) -> ValueReading:
    names = "adaptive, adaptive_time_microseconds, connect, isostring, microseconds, nanoseconds or structured"
    if mode is None:
        raise _unset(path, t, "time.precision.mode", names)
    source = f"'time.precision.mode' is {mode}"
    if mode == "isostring":
        read = {"DATE": parse_day, "TIME": parse_clock}.get(t.root)
        return ValueReading(STRING, ZonedText(t, source) if read is None else EachValue(t, source, read))
    if t.root == "DATE":
        return ValueReading(_forms_of(_INT, t, NumbersOnly()), ScaledCount(t, source, special=_INFINITE_DAYS))
    precision = t.precision or 0
    if t.root == "TIME" and mode == "adaptive" and precision <= 3:
        # Flink plans TIME(6) of a CREATE TABLE as TIME(3), so the database may have more digits
        hint = "declare it as BIGINT, or have the connector put the schema into the messages ('schema-include')"
        source += f", where a number has no unit: {hint}"
        return ValueReading(STRING, EachValue(t, source, parse_clock))  # a text: TIMETZ
    adaptive = next(per_second for digits, per_second in _DIGITS.items() if precision <= digits)
    fixed = {"connect": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
    per_second = 10**6 if t.root == "TIME" and mode == "adaptive_time_microseconds" else fixed.get(mode, adaptive)
    arrow = _ARROW_UNITS[t.root]
    if t.root == "TIME":  # TIMETZ is a text in UTC in every mode
        wire = _forms_of(_BIGINT, t, TextOnly(parse_clock), factor=arrow // per_second)
        return ValueReading(wire, ScaledCount(t, source))
    wire = _forms_of(_BIGINT, t, NumbersOnly())
    return ValueReading(wire, ScaledCount(t, source, max(arrow // per_second, 1), max(per_second // arrow, 1)))


def _unset(path: str, t: FlinkType, option: str, allowed: str) -> SchemaError:
    return SchemaError(
        f"column '{path}' is {t}, which Debezium writes by its settings: set '{option}' to the connector's value, "
        f"{allowed}, or have the connector put the schema into the messages ('schema-include')",
        field=path,
    )
