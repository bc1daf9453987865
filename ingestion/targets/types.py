"""Types and values of a target's columns.

| `sink.type-normalize-strategy` | types of the columns |
| --- | --- |
| `standard` | as in the schema |
| `broaden` | the widest of their kind: BIGINT, DOUBLE, STRING, BYTES, DECIMAL(38, s) |
| `only-bigint-or-text` | BIGINT for integers, STRING for all others |

Values become texts as in `ingestion/schemas/coerce.py`, by expressions of Spark.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from kvformat.codecs.discovery.text_forms import AT_LEAST_ONE, DIGITS, SPACE, ZONED, size_of_bits, text_steps
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import BINARY_ROOTS, INTEGER_DIGITS, STRING, TEXT_ROOTS
from kvformat.registry.contract.types import BYTES, FlinkType, quoted, spark_type
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND, exact_column, with_nullable_parts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

Strategy = Literal["standard", "broaden", "only-bigint-or-text"]
Rows = Literal["latest", "changes"]
ONLY_IN_FLINK = ("TIMESTAMP_TZ", "VARIANT")
"""Types whose values are texts in Spark."""
NOT_IN_LAKES = ("TIME", "INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND")
"""Types that Spark and Parquet have, and formats of lakes do not have."""
_BIGINT = FlinkType("BIGINT")
CHANGE_COLUMNS = (
    SchemaColumn(ROW_KIND, STRING),
    SchemaColumn("_kvformat_topic", STRING),
    SchemaColumn("_kvformat_partition", FlinkType("INT")),
    SchemaColumn("_kvformat_offset", _BIGINT),
    SchemaColumn(ROW_INDEX, FlinkType("INT")),
)
"""The columns that a table of changes has after its own: the kind of a change, and its place."""


def with_change_columns(schema: TableSchema, rows: Rows) -> TableSchema:
    """Return the schema of a table of changes; for `latest`, the schema itself."""
    return replace(schema, columns=(*schema.columns, *CHANGE_COLUMNS)) if rows == "changes" else schema


def without_change_columns(columns: StructType, rows: Rows) -> StructType:
    """Return the columns of a stored table without those of changes."""
    extra = {c.name for c in CHANGE_COLUMNS} if rows == "changes" else set()
    return type(columns)([column for column in columns.fields if column.name not in extra])


def normalized_schema(schema: TableSchema, strategy: Strategy, as_text: Collection[str] = ONLY_IN_FLINK) -> TableSchema:
    """Return the schema with the types of a strategy. Types of the kinds `as_text` become STRING."""
    return schema.with_types((c.name, normalized_type(c.type, strategy, as_text)) for c in schema.columns)


def normalized_type(t: FlinkType, strategy: Strategy, as_text: Collection[str] = ONLY_IN_FLINK) -> FlinkType:
    """Return the type of a column; NOT NULL stays."""
    return replace(_normalized(t, strategy, as_text), nullable=t.nullable)


def _normalized(t: FlinkType, strategy: Strategy, as_text: Collection[str]) -> FlinkType:
    if _has_kind(t, as_text) or t.root in TEXT_ROOTS:
        return STRING
    if strategy == "standard":
        return t
    if t.root in INTEGER_DIGITS:
        return _BIGINT
    if strategy == "only-bigint-or-text":
        return STRING
    if t.root == "FLOAT":
        return FlinkType("DOUBLE")
    if t.root in BINARY_ROOTS:
        return BYTES
    return FlinkType("DECIMAL", precision=38, scale=t.scale) if t.root == "DECIMAL" else t


def _has_kind(t: FlinkType, kinds: Collection[str]) -> bool:
    return t.root in kinds or any(_has_kind(field.type, kinds) for field in t.fields)


def stored_type(t: FlinkType) -> DataType:
    """Return Spark's type of a column in a target. Parts of nested values are nullable."""
    return with_nullable_parts(spark_type(t))


def stored_columns(schema: TableSchema) -> StructType:
    """Return the columns of a normalized schema with Spark's types."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(c.name, stored_type(c.type), c.type.nullable) for c in schema.columns])


def type_ddl(t: DataType) -> str:
    """Return a type of Spark as in a statement. `simpleString` does not quote names."""
    from pyspark.sql import types as T

    if isinstance(t, T.ArrayType):
        return f"ARRAY<{type_ddl(t.elementType)}>"
    if isinstance(t, T.MapType):
        return f"MAP<{type_ddl(t.keyType)}, {type_ddl(t.valueType)}>"
    if isinstance(t, T.StructType):
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {type_ddl(f.dataType)}' for f in t.fields)}>"
    return t.simpleString().upper()


# --- values ----------------------------------------------------------------------------------------------------


def converted_rows(
    rows: DataFrame, columns: StructType, kept: Iterable[str] = (), *, forms: Mapping[str, int] | None = None
) -> DataFrame:
    """Return rows with exactly these columns, by name, and those of `kept` that the rows have.

    A column that the rows lack is NULL. `forms` are those of `converted`, by column.
    """
    forms = forms or {}
    from pyspark.sql import functions as F

    types = {field.name: field.dataType for field in rows.schema.fields}
    values = [
        (
            converted(exact_column(field.name), types[field.name], field.dataType, forms.get(field.name))
            if field.name in types
            else F.lit(None).cast(field.dataType)
        ).alias(field.name)
        for field in columns.fields
    ]
    more = [exact_column(name) for name in kept if name in types and name not in columns.names]
    return rows.select(*values, *more)


def converted(value: Column, source: DataType, target: DataType, forms: int | None = None) -> Column:
    """Return the value of one Spark type as another type.

    A text is made by the rules of `schemas/coerce.py`, in the form of the messages if `forms` says it.
    """
    from pyspark.sql.types import StringType

    if source == target:
        return value
    if isinstance(target, StringType) and not isinstance(source, StringType):
        from pyspark.sql import functions as F
        from pyspark.sql.types import BinaryType

        if isinstance(source, BinaryType) and size_of_bits(forms):
            return F.conv(F.hex(value), 16, 10)
        root = _ROOTS.get(type(source).__name__, "")
        return _text_in_form(value, root, forms) if forms and root else _text(value, source)
    return value.cast(target)


_ROOTS = {
    "BooleanType": "BOOLEAN",
    "DateType": "DATE",
    "TimeType": "TIME",
    "TimestampNTZType": "TIMESTAMP",
    "TimestampType": "TIMESTAMP_LTZ",
    "DecimalType": "DECIMAL",
    "FloatType": "FLOAT",
    "DoubleType": "DOUBLE",
}
"""Types whose values have several texts, by the class of Spark's type."""


def _text_in_form(value: Column, root: str, forms: int) -> Column:
    """Return the text of a value as messages write it; see `codecs/discovery/text_forms.py`."""
    from pyspark.sql import functions as F

    if root == "BOOLEAN":
        return F.when(value, F.lit("1")).when(~value, F.lit("0")) if forms & DIGITS else value.cast("string")
    is_utc = root == "TIMESTAMP_LTZ" and bool(forms & ZONED)
    text = (_in_utc(value) if is_utc else value).cast("string")
    if root in ("FLOAT", "DOUBLE") and not forms & AT_LEAST_ONE:  # large whole numbers, too, have no exponent
        whole = (value == F.floor(value)) & (F.abs(value) < F.lit(2.0**53))
        text = F.when(whole, value.cast("bigint").cast("string")).otherwise(text)
    if root in ("TIMESTAMP", "TIMESTAMP_LTZ") and not forms & SPACE:
        text = F.replace(text, F.lit(" "), F.lit("T"))
    for pattern, more in () if root == "DATE" else text_steps(forms, root):
        text = F.regexp_replace(text, pattern, f"$1{more}")
    return F.concat(text, F.lit("Z")) if is_utc else text


def _in_utc(value: Column) -> Column:
    """Return the time in UTC, without a detour over the session's time zone, which has hours twice."""
    from pyspark.sql import functions as F

    since = value - F.lit("1970-01-01T00:00:00Z").cast("timestamp")
    return F.lit("1970-01-01T00:00:00").cast("timestamp_ntz") + since


def _total(interval: Column, **units: int) -> Column:
    """Return an interval as a number, of the numbers that its parts stand for."""
    from pyspark.sql import functions as F

    parts = [F.extract(F.lit(unit), interval).cast("decimal(25,6)") * F.lit(size) for unit, size in units.items()]
    return functools.reduce(operator.add, parts)


def _text(value: Column, t: DataType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(t, T.BinaryType):
        return F.base64(value)
    if isinstance(t, T.ArrayType | T.MapType | T.StructType):
        return F.to_json(value, {"ignoreNullFields": "false"})
    if isinstance(t, T.YearMonthIntervalType):
        return _total(value, YEAR=12, MONTH=1).cast("int").cast("string")
    if isinstance(t, T.DayTimeIntervalType):
        milliseconds = _total(value, DAY=86_400_000, HOUR=3_600_000, MINUTE=60_000, SECOND=1000)
        return F.regexp_replace(milliseconds.cast("decimal(19,3)").cast("string"), r"\.?0+$", "")
    if isinstance(t, T.TimestampType):
        value = _in_utc(value)
    text = value.cast("string")
    if isinstance(t, T.TimestampNTZType | T.TimestampType):
        text = F.replace(text, F.lit(" "), F.lit("T"))
    if isinstance(t, T.TimestampNTZType | T.TimestampType | T.TimeType):
        for digits, zeros in ((r"\d", "00"), (r"\d\d", "0")):
            text = F.regexp_replace(text, rf"(\.(?:\d\d\d)*{digits})$", f"$1{zeros}")
    return F.concat(text, F.lit("Z")) if isinstance(t, T.TimestampType) else text
