"""What a value of a Connect type is on the wire, for a column of a Flink type.

| ConnectSchema, Debezium | on the wire (JSON; Avro) | columns |
| --- | --- | --- |
| `Decimal` | base64; bytes | DECIMAL, STRING (its digits), BYTES (as it is) |
| `VariableScaleDecimal` | `{"scale": 2, "value": base64}`; a record | DECIMAL, STRING, ROW |
| `time.Date`, Connect's `Date` | days | DATE |
| `time.Time`, `MicroTime`, `NanoTime`, Connect's `Time` | milli-, micro-, nanoseconds | TIME |
| `time.Timestamp`, `MicroTimestamp`, `NanoTimestamp` | the same since 1970, without a zone | TIMESTAMP |
| Connect's `Timestamp` | milliseconds since 1970 | TIMESTAMP, TIMESTAMP_LTZ |
| `time.ZonedTimestamp`, `time.ZonedTime` | ISO 8601 with an offset | TIMESTAMP_LTZ, TIME (in UTC) |
| `time.IsoDate`, `IsoTime`, `IsoTimestamp` | ISO 8601 | DATE, TIME, TIMESTAMP |
| `time.StructuredDate`, `StructuredTime`, `StructuredTimestamp` | numbers in a row | DATE, TIME, TIMESTAMP; ROW |
| `time.StructuredZonedTimestamp`, `StructuredZonedTime` | the same with an offset | TIMESTAMP_LTZ, TIME (in UTC); ROW |
| `time.StructuredDuration` | numbers in a row | INTERVAL DAY TO SECOND, TIME (MySQL's); ROW |
| `time.MicroDuration`, `NanoDuration` | micro-, nanoseconds | INTERVAL DAY TO SECOND |
| `data.Bits` | base64, bytes; the lowest byte first | BIGINT, BYTES |
| `data.EnumSet` | texts with commas between | ARRAY<STRING>, STRING |
| bytes; text with `binary.handling.mode` | base64, base64-url-safe, hex; bytes | BYTES |

Every number may be read as the number that it is, and every text as STRING. Anything else is what Flink's json or Avro
reads. Sources: "Data type mappings" in Debezium's documentation of each connector; `io.debezium.time` and
`io.debezium.data` in its code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from kvformat.codecs._changes.conversions import Conversion, EachValue, Nested, RefusedValues
from kvformat.codecs._changes.row_plan import RowPlan
from kvformat.codecs._debezium.connect_schema import DECIMAL, ConnectSchema
from kvformat.codecs._debezium.conversions import (
    DecimalToText,
    IntegerToBoolean,
    ScaledCount,
    SplitSet,
    UnscaledDecimal,
    VariableScaleDecimal,
    ZonedText,
)
from kvformat.codecs._debezium.decimals import decimal_parser
from kvformat.codecs._debezium.json_values import (
    DecimalNumber,
    DecimalText,
    FloatingPoint,
    NumbersOnly,
    SetText,
    TextOnly,
    UnscaledBytes,
    WholeNumber,
)
from kvformat.codecs._debezium.parse_texts import (
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
from kvformat.codecs._debezium.structured_times import OF_COLUMN, STRUCTURED, Structured
from kvformat.codecs._json.forms import Forms, FormsType, flags_type
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import MAX_LENGTH, FlinkField, FlinkType

WireFormat = Literal["json", "avro"]
_BYTES = FlinkType("VARBINARY", length=MAX_LENGTH)
_TEXT = FlinkType("VARCHAR", length=MAX_LENGTH)
_INT, _BIGINT = FlinkType("INT"), FlinkType("BIGINT")
_VARIABLE = FlinkType("ROW", fields=(FlinkField("scale", _INT), FlinkField("value", _BYTES)))
_TEXTS, _BINARIES = ("CHAR", "VARCHAR"), ("BINARY", "VARBINARY")
_WHOLE = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
"""Whole numbers, and their bits."""
_NUMBERS = (*_WHOLE, "FLOAT", "DOUBLE", "DECIMAL")
_CONNECT = "org.apache.kafka.connect.data."

# What counts a unit: the columns, and how many of it are a second (of days: one a day).
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
    "bytes": _BYTES,
}
"""What each primitive is read as; anything else is text."""
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
"""What Postgres's connector writes for infinity, where it is no moment beyond all others."""
_LARGEST_SCALE = 38
"""Of a decimal that may also come as a JSON number: that of the widest DECIMAL. Each such scale is a wire type, and so
a reader of its own, and a batch may have any number of scales."""
_TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
_DIGITS = {3: 10**3, 6: 10**6, 9: 10**9}


@dataclass(frozen=True, slots=True)
class ConnectorModes:
    """The connector's settings, None where they are not known; by Debezium's names."""

    decimal: str | None = None
    time: str | None = None
    binary: str | None = None
    placeholder: bytes | None = None
    """Of values that are not there, where it is looked for."""


@dataclass(frozen=True, slots=True)
class ValueReading:
    """How values become those of a column: read as `wire`, and then changed, unless they are what the column wants."""

    wire: FlinkType
    change: Conversion | None = None


def value_reading(
    t: FlinkType, said: ConnectSchema | None, modes: ConnectorModes, wire_format: WireFormat, path: str = ""
) -> ValueReading:
    """How a column of a type is read. `said` is what the message's schema says of it, None where there is none.

    Raises `SchemaError` where neither the schema nor the modes say how; what the column can't hold is a fault of each
    value instead.
    """
    if said is None and wire_format == "json":
        return _without_schema(t, modes, path)
    return _by_schema(t, said or ConnectSchema("null"), modes, wire_format, path)


def absent(t: FlinkType, wire_format: WireFormat) -> ValueReading:
    """How a column is read that the schema does not have, and that is therefore NULL.

    In Avro by a text, as Avro has no place for some types (TIMESTAMP(6)).
    """
    return ValueReading(t) if wire_format == "json" else ValueReading(_TEXT, RefusedValues(t, ""))


def plan_row(row: FlinkType, image: ConnectSchema | None, modes: ConnectorModes, wire_format: WireFormat) -> RowPlan:
    """The plan for a table. Raises `SchemaError` as `value_reading` does."""
    readings = []
    for column in row.fields:
        if image is not None and column.name not in image.fields:
            readings.append(absent(column.type, wire_format))
            continue
        said = None if image is None else image.fields[column.name]
        readings.append(value_reading(column.type, said, modes, wire_format, column.name))
    fields = (FlinkField(f.name, reading.wire) for f, reading in zip(row.fields, readings, strict=True))
    return RowPlan(row, replace(row, fields=tuple(fields)), [reading.change for reading in readings])


def flink_misreads(t: FlinkType, said: ConnectSchema) -> bool:
    """Whether Flink's Avro reads values of a Connect type for a column, but not what they mean."""
    if said.name in _COUNTED and t.root in _TIMES:
        roots, per_second = _COUNTED[said.name]
        return t.root not in roots or per_second != (1 if t.root == "DATE" else 10**3)
    if t.root == "DECIMAL":
        return said.type == "string" or (said.type == "bytes" and said.name != DECIMAL)
    return t.root in _TEXTS and said.type == "bytes"


def has_debezium_type(said: ConnectSchema) -> bool:
    """Whether values of a Connect type, or what is inside them, are other than Flink's formats take them for."""
    if said.name in _OWN or (said.name in _WRITTEN and said.name not in (_ZONED, _INTERVAL)):
        return True
    return any(map(has_debezium_type, (*said.fields.values(), *(() if said.items is None else (said.items,)))))


# --- with a schema -----------------------------------------------------------------------------------------


def _by_schema(
    t: FlinkType, said: ConnectSchema, modes: ConnectorModes, wire_format: WireFormat, path: str
) -> ValueReading:
    told = f"which is {said} by the message's schema"
    if said.name in _COUNTED:
        return _counted(t, said, told)
    if said.name in STRUCTURED and not t.fields:
        return _structured(t, STRUCTURED[said.name], told)
    if said.name in _WRITTEN:
        root, read = _WRITTEN[said.name]
        if t.root == root:
            return ValueReading(_TEXT, ZonedText(t, told) if read is None else EachValue(t, told, read))
        return ValueReading(t) if t.root in _TEXTS else _refused(t, said, told, f"declare it as {root}, or STRING")
    if said.name == DECIMAL:
        return _decimal(t, said, told, wire_format)
    if said.name == _VARIABLE_DECIMAL:
        variable = VariableScaleDecimal(t, told)
        if t.root == "DECIMAL":
            return ValueReading(_VARIABLE, variable)
        return ValueReading(_VARIABLE, DecimalToText(t, told, variable)) if t.root in _TEXTS else ValueReading(t)
    if said.name == _BITS and t.root in _WHOLE:
        return ValueReading(_BYTES, EachValue(t, told, bits_reader(_WHOLE[t.root])))
    if said.name == "io.debezium.data.EnumSet" and _is_of_texts(t):
        return ValueReading(_TEXT, SplitSet(t, told))
    if t.fields and t.root != "MULTISET":
        return _inside(t, said, modes, wire_format, path)
    return _plain(t, said, told, modes, wire_format)


def _counted(t: FlinkType, said: ConnectSchema, told: str) -> ValueReading:
    """A count of days, or of units of time."""
    roots, per_second = _COUNTED[said.name]
    if t.root in roots:
        arrow = _ARROW_UNITS[t.root]
        wire = _INT if said.type == "int32" or t.root == "DATE" else _BIGINT  # a DATE has no more days
        times, divisor = max(arrow // per_second, 1), max(per_second // arrow, 1)
        return ValueReading(wire, ScaledCount(t, told, times, divisor, _INFINITE.get(said.name, ())))
    if t.root in _NUMBERS or t.root in _TEXTS:
        return ValueReading(t)
    zone = " (it has no time zone)" if t.root == "TIMESTAMP_LTZ" else ""
    return _refused(t, said, told, f"declare it as {' or '.join(roots)}{zone}, or as BIGINT")


def _structured(t: FlinkType, structured: Structured, told: str) -> ValueReading:
    """The parts of a day, a time of day, a moment or a duration."""
    wire, reads = structured
    if t.root in reads:
        return ValueReading(wire, EachValue(t, told, reads[t.root]))
    hint = f"; declare it as {' or '.join(reads)}, or as ROW of its parts"
    return ValueReading(wire, RefusedValues(t, told, hint))


def _decimal(t: FlinkType, said: ConnectSchema, told: str, wire_format: WireFormat) -> ValueReading:
    if t.root in _BINARIES:
        return ValueReading(t)
    text = said.parameters.get("scale", "0")
    scale = int(text) if text.lstrip("-").isdecimal() and len(text) < 5 else 0
    unscaled = UnscaledDecimal(t, told, scale)
    wire = _BYTES
    if wire_format == "json" and 0 <= scale <= _LARGEST_SCALE:
        wire = FormsType.of(_BYTES, UnscaledBytes(scale, has_schema=True))
    if t.root == "DECIMAL":
        return ValueReading(wire, unscaled)
    if t.root in _TEXTS:
        return ValueReading(wire, DecimalToText(t, told, unscaled))
    return _refused(t, said, told, f"declare it as DECIMAL(p, {scale}), STRING or BYTES")


def _inside(
    t: FlinkType, said: ConnectSchema, modes: ConnectorModes, wire_format: WireFormat, path: str
) -> ValueReading:
    """A ROW, an ARRAY or a MAP, whose parts are read by what is said of them."""
    told = f"which is {said} by the message's schema"
    kinds = {"ROW": "struct", "ARRAY": "array", "MAP": "map"}
    if said.type != kinds[t.root]:
        if said.type in ("null", "union"):
            return ValueReading(t)
        return _refused(t, said, told)
    fields, changes = [], {}
    for field in t.fields:
        part = said.fields.get(field.name) if t.root == "ROW" else None if field.name == "key" else said.items
        if part is None and t.root != "ROW":
            fields.append(field)
            continue
        inner = f"{path}.{field.name}"
        found = (
            absent(field.type, wire_format) if part is None else _by_schema(field.type, part, modes, wire_format, inner)
        )
        fields.append(FlinkField(field.name, found.wire))
        if found.change is not None:
            changes[field.name] = found.change
    wire = replace(t, fields=tuple(fields))
    return ValueReading(wire, Nested(t, told, changes) if changes else None)


def _plain(
    t: FlinkType, said: ConnectSchema, told: str, modes: ConnectorModes, wire_format: WireFormat
) -> ValueReading:
    """A type of Connect without a further meaning, for a column that holds one value."""
    whole = said.type in ("int8", "int16", "int32", "int64")
    if t.root == "BOOLEAN" and whole:
        return ValueReading(_BIGINT, IntegerToBoolean(t, told))
    if said.type == "bytes" and t.root in ("BOOLEAN", *_NUMBERS):
        return _refused(t, said, told, "declare it as BYTES")
    if t.root in _BINARIES and said.type == "string" and not said.name:
        return _binary(t, said, told, modes)
    if t.root in _TIMES and (whole or said.type in ("float32", "float64", "bytes")):
        return _refused(t, said, told, "declare it as BIGINT and convert it, as the schema has no unit")
    if t.root == "INTERVAL DAY TO SECOND":
        return _refused(t, said, told, "declare it as the number or text that it is")
    if wire_format == "json":
        return ValueReading(_strict(t, said))
    if t.root == "DECIMAL" and said.type in ("string", "float64", "float32"):
        wire = _TEXT if said.type == "string" else FlinkType("DOUBLE")
        return ValueReading(wire, EachValue(t, told, decimal_parser(t.precision or 0, t.scale or 0)))
    if t.root == "DECIMAL" and whole:
        return ValueReading(_BIGINT, EachValue(t, told, decimal_parser(t.precision or 0, t.scale or 0)))
    if t.root in ("TINYINT", "SMALLINT") or t.root not in _TIMES:
        return ValueReading(t)
    return _refused(t, said, told, "declare it as STRING")


def _strict(t: FlinkType, said: ConnectSchema) -> FlinkType:
    """The type, read so that a value is never changed to fit it, as Flink changes it."""
    if t.root == "BOOLEAN":
        return flags_type(t)
    if t.root == "DECIMAL":
        return FormsType.of(t, DecimalNumber(t.precision or 0, t.scale or 0))
    if t.root in _WHOLE and said.type in ("float32", "float64"):
        return FormsType.of(t, WholeNumber(_WHOLE[t.root]))
    return t


def _is_of_texts(t: FlinkType) -> bool:
    """Whether a type is an ARRAY of texts."""
    return t.root == "ARRAY" and t.fields[0].type.root in _TEXTS


def _binary(t: FlinkType, said: ConnectSchema, told: str, modes: ConnectorModes) -> ValueReading:
    reads = {"hex": parse_hex, "base64-url-safe": parse_base64_url_safe, "base64": parse_base64}
    if modes.binary in reads:
        read = reads[modes.binary]
        placed = read if modes.placeholder is None else OrPlaceholder(read, modes.placeholder)
        return ValueReading(_TEXT, EachValue(t, f"{told}, {modes.binary}", placed))
    return _refused(t, said, told, "set 'binary.handling.mode' to the connector's: base64, base64-url-safe or hex")


def _refused(t: FlinkType, said: ConnectSchema, told: str, hint: str = "") -> ValueReading:
    """Whatever it is: a NULL is still one."""
    return ValueReading(_PLAIN.get(said.type, _TEXT), RefusedValues(t, told, f"; {hint}" if hint else ""))


# --- without one -------------------------------------------------------------------------------------------


def _without_schema(t: FlinkType, modes: ConnectorModes, path: str, *, inside: bool = False) -> ValueReading:
    """By the connector's settings, the column's type, and the form of each value. `inside` is a column of a ROW."""
    if t.root == "DECIMAL":
        return _decimal_without_schema(t, modes, path)
    if modes.time == "structured" and t.root in OF_COLUMN:
        return _structured(t, OF_COLUMN[t.root], "'time.precision.mode' is structured")
    if t.root == "TIMESTAMP_LTZ":
        return ValueReading(_TEXT, ZonedText(t, "a text with an offset is expected"))
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
        changes = {name: part.change for name, part in parts.items() if part.change is not None}
        wire = replace(t, fields=fields)
        if _is_of_texts(t):
            wire = FormsType.of(wire, SetText())
        return ValueReading(wire, Nested(t, "", changes) if changes else None)
    return ValueReading(_with_forms(t, modes))


def _with_forms(t: FlinkType, modes: ConnectorModes) -> FlinkType:
    """The types of single values that need no change, with the forms that Debezium has for them."""
    if t.root == "BOOLEAN":
        return flags_type(t)
    if t.root in _WHOLE:
        return FormsType.of(t, WholeNumber(_WHOLE[t.root]))
    if t.root in ("FLOAT", "DOUBLE"):
        return FormsType.of(t, FloatingPoint(t.root == "FLOAT", modes.decimal == "string"))
    if t.root in _TEXTS and modes.decimal in (None, "precise"):
        return FormsType.of(t, DecimalText())
    if t.root == "INTERVAL YEAR TO MONTH":
        return FormsType.of(t, TextOnly(parse_months))
    return t


def _forms_of(wire: FlinkType, t: FlinkType, convert: Forms, factor: int = 1) -> FlinkType:
    """A wire type with other forms; its errors name the column's type."""
    return FormsType.of(wire, convert, factor=factor, name=t.summary())


def _decimal_without_schema(t: FlinkType, modes: ConnectorModes, path: str) -> ValueReading:
    precision, scale = t.precision or 0, t.scale or 0
    if modes.decimal is None:
        raise _unset(path, t, "decimal.handling.mode", "precise (Debezium's default), double or string")
    if modes.decimal != "precise":
        return ValueReading(FormsType.of(t, DecimalNumber(precision, scale, unsigned=True)))
    wire = _forms_of(_BYTES, t, UnscaledBytes(scale))
    return ValueReading(wire, UnscaledDecimal(t, "'decimal.handling.mode' is precise", scale))


def _binary_without_schema(t: FlinkType, modes: ConnectorModes, inside: bool) -> ValueReading:
    """The mode counts for columns of bytes and arrays of them. Bits, and what is in a row (`wkb`), are Base64."""
    if inside or (modes.binary in (None, "bytes", "base64") and modes.placeholder is None):
        return ValueReading(t)
    reads = {"hex": parse_hex_or_bits, "base64-url-safe": parse_base64_url_safe}
    read: Callable[[str], bytes] = reads.get(modes.binary or "", parse_base64)
    if modes.placeholder is not None:
        read = OrPlaceholder(read, modes.placeholder)
    if modes.binary == "hex":
        return ValueReading(_TEXT, EachValue(t, "'binary.handling.mode' is hex", read))
    return ValueReading(_forms_of(t, t, TextOnly(read)))


def _time_without_schema(t: FlinkType, mode: str | None, path: str) -> ValueReading:
    names = "adaptive, adaptive_time_microseconds, connect, isostring, microseconds, nanoseconds or structured"
    if mode is None:
        raise _unset(path, t, "time.precision.mode", names)
    told = f"'time.precision.mode' is {mode}"
    if mode == "isostring":
        read = {"DATE": parse_day, "TIME": parse_clock}.get(t.root)
        return ValueReading(_TEXT, ZonedText(t, told) if read is None else EachValue(t, told, read))
    if t.root == "DATE":
        return ValueReading(_forms_of(_INT, t, NumbersOnly()), ScaledCount(t, told, special=_INFINITE_DAYS))
    precision = t.precision or 0
    if t.root == "TIME" and mode == "adaptive" and precision <= 3:
        # Flink plans TIME(6) of a CREATE TABLE as TIME(3), so that the database may have had more digits
        hint = "declare it as BIGINT, or have the schema in the messages ('schema-include')"
        told += f", where a number has no unit: {hint}"
        return ValueReading(_TEXT, EachValue(t, told, parse_clock))  # a text: TIMETZ
    adaptive = next(per_second for digits, per_second in _DIGITS.items() if precision <= digits)
    fixed = {"connect": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
    per_second = 10**6 if t.root == "TIME" and mode == "adaptive_time_microseconds" else fixed.get(mode, adaptive)
    arrow = _ARROW_UNITS[t.root]
    if t.root == "TIME":  # TIMETZ is a text in UTC in every mode
        wire = _forms_of(_BIGINT, t, TextOnly(parse_clock), factor=arrow // per_second)
        return ValueReading(wire, ScaledCount(t, told))
    wire = _forms_of(_BIGINT, t, NumbersOnly())
    return ValueReading(wire, ScaledCount(t, told, max(arrow // per_second, 1), max(per_second // arrow, 1)))


def _unset(path: str, t: FlinkType, option: str, allowed: str) -> SchemaError:
    return SchemaError(
        f"column '{path}' is {t}, which Debezium writes as its settings say: set '{option}' to the connector's, "
        f"{allowed}, or have the schema in the messages ('schema-include')",
        field=path,
    )
