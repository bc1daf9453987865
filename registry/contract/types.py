"""Flink's types and their mapping to Spark and Arrow types.

| Flink | Spark | Arrow |
| --- | --- | --- |
| BOOLEAN | BooleanType | bool |
| TINYINT, SMALLINT, INT, BIGINT | Byte-, Short-, Integer-, LongType | int8, int16, int32, int64 |
| FLOAT, DOUBLE | FloatType, DoubleType | float32, float64 |
| DECIMAL(p, s) | DecimalType(p, s) | decimal128(p, s) |
| CHAR(n), VARCHAR(n), STRING | StringType | string |
| BINARY(n), VARBINARY(n), BYTES | BinaryType | binary |
| DATE | DateType | date32 |
| TIME(p) | TimeType(p), at most 6 | time64[ns] |
| TIMESTAMP(p) | TimestampNTZType | timestamp[us] |
| TIMESTAMP_LTZ(p) | TimestampType | timestamp[us, UTC] |
| INTERVAL YEAR TO MONTH | YearMonthIntervalType | int32 (months) |
| INTERVAL DAY TO SECOND | DayTimeIntervalType | duration[us] |
| VARIANT | VariantType | struct<value: binary, metadata: binary>, as PySpark marks it |
| ARRAY<t> | ArrayType | list |
| MAP<k, v> | MapType | map |
| MULTISET<t> | MapType(t, IntegerType) | map<t, int32> |
| ROW<...> | StructType | struct |

Rules: Flink's "Data Types" page; TIME and TIMESTAMP with 7 to 9 digits are cut to microseconds.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kvformat.registry.contract.errors import SchemaError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

MAX_LENGTH = 2**31 - 1  # characters or bytes: `VarCharType.MAX_LENGTH`, the length of STRING and BYTES
INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}

_VARIANT_MARK = {b"variant": b"true"}
_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata=_VARIANT_MARK),
    ]
)  # as PySpark's `to_arrow_type` makes it

_SIMPLE_ARROW: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("ns"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
    "INTERVAL YEAR TO MONTH": pa.int32(),
    "INTERVAL DAY TO SECOND": pa.duration("us"),
    "VARIANT": _VARIANT,
}
_SIMPLE_SPARK = {
    "BOOLEAN": "BooleanType",
    "TINYINT": "ByteType",
    "SMALLINT": "ShortType",
    "INT": "IntegerType",
    "BIGINT": "LongType",
    "FLOAT": "FloatType",
    "DOUBLE": "DoubleType",
    "CHAR": "StringType",
    "VARCHAR": "StringType",
    "BINARY": "BinaryType",
    "VARBINARY": "BinaryType",
    "DATE": "DateType",
    "TIMESTAMP": "TimestampNTZType",
    "TIMESTAMP_LTZ": "TimestampType",
    "INTERVAL YEAR TO MONTH": "YearMonthIntervalType",
    "INTERVAL DAY TO SECOND": "DayTimeIntervalType",
    "VARIANT": "VariantType",
}
_SECOND_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


@dataclass(frozen=True, slots=True)
class FlinkField:
    """A named field of a ROW; in ARRAY, MAP and MULTISET the names are `element`, `key` and `value`."""

    name: str
    type: FlinkType

    def __post_init__(self) -> None:
        if not self.name.isascii():
            wrong = half_a_character(self.name)
            if wrong:
                raise SchemaError(wrong, field=self.name)


def half_a_character(name: str) -> str:
    """Return an error text for a name that contains a single surrogate, or "" for a valid name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return (
            f"the name {name!a} contains half of a character (a single surrogate), which is not valid in UTF-8: write "
            "the whole character"
        )
    return ""


@dataclass(frozen=True, slots=True)
class FlinkType:
    """One of Flink's logical types.

    `root` is the name without parameters: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, CHAR,
    VARCHAR, BINARY, VARBINARY, DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ, INTERVAL YEAR TO MONTH, INTERVAL DAY TO
    SECOND, VARIANT, ARRAY, MAP, MULTISET or ROW. STRING is VARCHAR and BYTES is VARBINARY of `MAX_LENGTH`.
    `fields` are the fields of a ROW, the element of an ARRAY or MULTISET, the key and value of a MAP.
    `str()` returns Flink's spelling.
    """

    root: str
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    fields: tuple[FlinkField, ...] = ()

    def __str__(self) -> str:
        return self.summary() + ("" if self.nullable else " NOT NULL")

    def summary(self) -> str:
        """The text without a final NOT NULL, as in Flink's messages."""
        if self.root in ("VARCHAR", "VARBINARY") and self.length == MAX_LENGTH:
            return "STRING" if self.root == "VARCHAR" else "BYTES"
        if self.root == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.length is not None:
            return f"{self.root}({self.length})"
        if self.precision is not None:
            return f"{self.root}({self.precision})"
        if self.root == "ROW":
            return f"ROW<{', '.join(f'{quoted(f.name)} {f.type}' for f in self.fields)}>"
        if self.fields:
            return f"{self.root}<{', '.join(str(f.type) for f in self.fields)}>"
        return self.root

    def walk(self, path: str = "") -> Iterator[tuple[str, FlinkType]]:
        """Yield the type and all nested types, each with its path (`rec.items.element`)."""
        yield path, self
        for field in self.fields:
            yield from field.type.walk(f"{path}.{field.name}" if path else field.name)


STRING = FlinkType("VARCHAR", length=MAX_LENGTH)
BYTES = FlinkType("VARBINARY", length=MAX_LENGTH)


@functools.lru_cache(maxsize=4096)
def nullable(t: FlinkType) -> FlinkType:
    """Return the type with every level nullable.

    Decoders return these types, because in Flink NOT NULL columns can be null after decoding.
    """
    return replace(t, nullable=True, fields=tuple(FlinkField(f.name, nullable(f.type)) for f in t.fields))


def with_time_digits(t: FlinkType, digits: int) -> FlinkType:
    """Return the type with at least `digits` fraction digits for TIME, at every level."""
    if t.root == "TIME":
        return replace(t, precision=max(t.precision or 0, digits))
    return replace(t, fields=tuple(FlinkField(f.name, with_time_digits(f.type, digits)) for f in t.fields))


def quoted(name: str) -> str:
    """Return a name in backticks, as Flink prints it."""
    return "`" + name.replace("`", "``") + "`"


@functools.lru_cache(maxsize=4096)
def arrow_type(t: FlinkType) -> pa.DataType:
    """Return the canonical Arrow type; nested fields keep their nullability."""
    if t.root == "DECIMAL":
        return pa.decimal128(t.precision, t.scale)
    if t.root == "ROW":
        return pa.struct([pa.field(f.name, arrow_type(f.type), f.type.nullable) for f in t.fields])
    if t.root == "ARRAY":
        element = t.fields[0].type
        return pa.list_(pa.field("element", arrow_type(element), element.nullable))
    if t.root == "MAP":
        key, value = (f.type for f in t.fields)
        return pa.map_(arrow_type(key), pa.field("value", arrow_type(value), value.nullable))
    if t.root == "MULTISET":
        return pa.map_(arrow_type(t.fields[0].type), pa.int32())
    return _SIMPLE_ARROW[t.root]


def from_arrow(t: pa.DataType, nullable: bool, path: str) -> FlinkType:
    """Return the Flink type that an Arrow type stands for. Raises `SchemaError` naming `path` if there is none."""
    make = functools.partial(FlinkType, nullable=nullable)
    if isinstance(t, pa.ExtensionType):
        t = t.storage_type
    if pa.types.is_dictionary(t):
        return from_arrow(t.value_type, nullable, path)
    if pa.types.is_boolean(t):
        return make("BOOLEAN")
    if pa.types.is_signed_integer(t):
        return make(next(root for root, bits in INTEGER_BITS.items() if bits == t.bit_width))
    if pa.types.is_float32(t) or pa.types.is_float64(t):
        return make("FLOAT" if t.bit_width == 32 else "DOUBLE")
    if pa.types.is_decimal(t) and t.precision <= 38 and 0 <= t.scale <= t.precision:
        return make("DECIMAL", precision=t.precision, scale=t.scale)
    if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return make("VARCHAR", length=MAX_LENGTH)
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
        return make("VARBINARY", length=MAX_LENGTH)
    if pa.types.is_fixed_size_binary(t):
        return make("BINARY", length=t.byte_width)
    if pa.types.is_date32(t):
        return make("DATE")
    if pa.types.is_time(t):
        return make("TIME", precision=_SECOND_DIGITS[t.unit] if t.unit != "ns" else 6)
    if pa.types.is_timestamp(t):
        return make("TIMESTAMP_LTZ" if t.tz else "TIMESTAMP", precision=_SECOND_DIGITS[t.unit])
    if pa.types.is_duration(t):
        return make("INTERVAL DAY TO SECOND")
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        element = from_arrow(t.value_type, t.value_field.nullable, f"{path}.element")
        return make("ARRAY", fields=(FlinkField("element", element),))
    if pa.types.is_map(t):
        key = from_arrow(t.key_type, True, f"{path}.key")
        value = from_arrow(t.item_type, t.item_field.nullable, f"{path}.value")
        return make("MAP", fields=(FlinkField("key", key), FlinkField("value", value)))
    if t == _VARIANT and t.field(1).metadata == _VARIANT_MARK:  # only the mark tells it from a ROW of two columns
        return make("VARIANT")
    if pa.types.is_struct(t):
        members = (FlinkField(f.name, from_arrow(f.type, f.nullable, f"{path}.{f.name}")) for f in t)
        return make("ROW", fields=tuple(members))
    raise SchemaError(
        f"column '{path}': Arrow type {t} has no equivalent Flink type; "
        "use bool, int8..int64, float32, float64, decimal128, string, binary, date32, time, timestamp, duration, "
        "list, map or struct",
        field=path,
    )


# --- Spark ---------------------------------------------------------------------------------------------


def spark_type(t: FlinkType, *, wire: bool = False) -> DataType:
    """Return the Spark type of a Flink type.

    With `wire`, return the result type for a Python UDF, which is cast to the plain type afterwards. It is nullable at
    every level, because a null in a field that is not nullable would fail the whole job. TIME is TimeType(6) and
    intervals of months are INT, because PySpark's Arrow conversion supports no other types.
    """
    from pyspark.sql import types as T

    if t.root == "DECIMAL":
        assert t.precision is not None
        assert t.scale is not None
        return T.DecimalType(t.precision, t.scale)
    if t.root == "TIME":
        return T.TimeType(6 if wire else min(t.precision or 0, 6))
    if t.root == "INTERVAL YEAR TO MONTH" and wire:
        return T.IntegerType()
    if t.root == "ROW":
        return T.StructType(
            [T.StructField(f.name, spark_type(f.type, wire=wire), wire or f.type.nullable) for f in t.fields]
        )
    if t.root == "ARRAY":
        element = t.fields[0].type
        return T.ArrayType(spark_type(element, wire=wire), wire or element.nullable)
    if t.root == "MAP":
        key, value = (f.type for f in t.fields)
        return T.MapType(spark_type(key, wire=wire), spark_type(value, wire=wire), wire or value.nullable)
    if t.root == "MULTISET":
        return T.MapType(spark_type(t.fields[0].type, wire=wire), T.IntegerType())
    stored: DataType = getattr(T, _SIMPLE_SPARK[t.root])()
    return stored


def from_spark(t: DataType, nullable: bool, path: str) -> FlinkType:
    """Return the Flink type that a Spark type stands for. Raises `SchemaError` naming `path` if there is none."""
    from pyspark.sql import types as T

    make = functools.partial(FlinkType, nullable=nullable)
    if isinstance(t, T.DecimalType):
        return make("DECIMAL", precision=t.precision, scale=t.scale)
    if isinstance(t, T.CharType | T.VarcharType):
        return make("CHAR" if isinstance(t, T.CharType) else "VARCHAR", length=t.length)
    if isinstance(t, T.StringType):
        return make("VARCHAR", length=MAX_LENGTH)
    if isinstance(t, T.BinaryType):
        return make("VARBINARY", length=MAX_LENGTH)
    if isinstance(t, T.TimeType):
        return make("TIME", precision=t.precision)
    if isinstance(t, T.TimestampType | T.TimestampNTZType):
        return make("TIMESTAMP_LTZ" if isinstance(t, T.TimestampType) else "TIMESTAMP", precision=6)
    if isinstance(t, T.ArrayType):
        return make(
            "ARRAY", fields=(FlinkField("element", from_spark(t.elementType, t.containsNull, f"{path}.element")),)
        )
    if isinstance(t, T.MapType):
        key = FlinkField("key", from_spark(t.keyType, True, f"{path}.key"))
        return make(
            "MAP", fields=(key, FlinkField("value", from_spark(t.valueType, t.valueContainsNull, f"{path}.value")))
        )
    if isinstance(t, T.StructType):
        members = (FlinkField(f.name, from_spark(f.dataType, f.nullable, f"{path}.{f.name}")) for f in t.fields)
        return make("ROW", fields=tuple(members))
    for root, name in _SIMPLE_SPARK.items():
        if type(t).__name__ == name:
            return make(root)
    raise SchemaError(f"column '{path}': Spark's type {t.simpleString()} has no equivalent Flink type", field=path)
