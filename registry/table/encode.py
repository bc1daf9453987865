"""Rows of a table to Kafka records, in Spark.

    columns by name, cast where nothing is lost -> key and value by each format's own engine    most tables
                                                -> mapInArrow: RecordCodec.encode               upsert tables with -U

Only an upsert table that may hold `-U` needs to look at neighbouring rows. Its rows go through Python one batch at
a time, with an open last row held back, so that pairs are found across the batches of a task.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.changelog import ChangelogMode, RowKind
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import (
    EncodeError,
    KafkaSinkWarning,
    MissingExtraError,
    SchemaError,
    did_you_mean,
    listed,
)
from kvformat.registry.contract.normalize_input import conform
from kvformat.registry.contract.types import (
    FlinkField,
    FlinkType,
    arrow_schema,
    arrow_type,
    nullable,
    quoted,
    row_of_spark,
    spark_type,
)
from kvformat.registry.spark.settings import check_time
from kvformat.registry.spark.workers import check_workers
from kvformat.registry.streams.changes import check_split
from kvformat.registry.table.decode import ERROR, KINDS_KEY, ROW_KIND
from kvformat.registry.table.records import RecordCodec, held_back

try:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T
except ImportError as cause:
    raise MissingExtraError("DataFrames need PySpark 4.1 or newer: pip install 'kvformat[spark]'") from cause

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kvformat.registry.contract.format import Format
    from kvformat.registry.table.metadata import MetadataColumn
    from kvformat.registry.table.planner import TablePlan

_CAST = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_HEADERS = T.ArrayType(T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())]))


def encode(
    plan: TablePlan, extra: Sequence[MetadataColumn], df: DataFrame, changelog_mode: ChangelogMode | None
) -> DataFrame:
    """`KeyValueFormat.encode`, everything but the DataFrame checked."""
    check_workers()
    codec = plan.codec
    check_time(codec.physical.fields, df.sparkSession)
    if ERROR not in [column.name for column in plan.table.columns]:
        check_split(df)
    columns = _columns(plan, df)
    beside = [_written(plan, column, df) for column in (*plan.metadata, *extra)]
    _warn(plan, [column.key for column in (*plan.metadata, *extra)])
    kinds = _kinds(plan, df, changelog_mode)
    if not codec.upsert or kinds is None or not kinds.contains(RowKind.UPDATE_BEFORE):
        return df.select(*_key(codec, columns), _value(codec, columns, kinds), *beside)
    wired = [_wire(column, field.type).alias(f"c{i}") for i, (column, field) in enumerate(_typed(codec, columns))]
    rows = df.select(*wired, F.col(ROW_KIND).alias(ROW_KIND), *beside)
    result = T.StructType([T.StructField("key", T.BinaryType()), T.StructField("value", T.BinaryType())])
    for field in rows.schema.fields[len(wired) + 1 :]:
        result.add(field.name, field.dataType)
    return rows.mapInArrow(_Work(codec.for_encoding()).mapped(), result)


def _warn(plan: TablePlan, metadata: Sequence[str]) -> None:
    """What Spark's Kafka sink will not do with the records; shown once for each place that calls `encode`."""
    several = plan.topic_pattern is not None or len(plan.topics or ()) > 1
    if several and "topic" not in metadata:
        told = f"topics {', '.join(plan.topics)}" if plan.topics else f"the topics of '{plan.topic_pattern}'"
        warnings.warn(
            f"table '{plan.table.name}' has {told}, but no metadata column says which of them a row is for, where "
            "Flink fails: encode(df, metadata={'<column>': 'topic'}), or write to one by the writer's option 'topic'",
            KafkaSinkWarning,
            stacklevel=4,
        )
    if "timestamp" in metadata:
        warnings.warn(
            f"table '{plan.table.name}' writes the metadata 'timestamp', a column that Spark's Kafka sink does not "
            "look at: the records get the time at which they are written, in Flink this column's",
            KafkaSinkWarning,
            stacklevel=4,
        )


# --- what goes in ------------------------------------------------------------------------------------------


def _columns(plan: TablePlan, df: DataFrame) -> list[Column]:
    """The physical columns, of their declared types as far as Spark's cast loses nothing; raises `SchemaError`."""
    given = df.schema.fields
    needed = plan.codec.physical.fields
    there = [field.name for field in given]
    missing = [field.name for field in needed if field.name not in there]
    if missing:
        raise SchemaError(
            f"the DataFrame lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)} of table "
            f"'{plan.table.name}'.{did_you_mean(missing[0], there)} It has {listed(there)}",
            field=missing[0],
        )
    columns = []
    for field in needed:
        found = [one for one in given if one.name == field.name]
        if len(found) > 1:
            raise SchemaError(f"column '{field.name}' is there more than once", field=field.name)
        event_time = plan.table.watermark is not None and plan.table.watermark.column == field.name
        if event_time and field.type.root == "TIMESTAMP" and isinstance(found[0].dataType, T.TimestampType):
            columns.append(F.col(quoted(field.name)).cast(T.TimestampNTZType()))  # as `decode` of a stream gives it
        else:
            columns.append(_fitted(field, found[0], key=field.name in (plan.table.primary_key or ())))
    return columns


def _fitted(field: FlinkField, found: T.StructField, *, key: bool) -> Column:
    """A column cast to its declared type where that loses nothing, whatever the data; else a `SchemaError`."""
    column = F.col(quoted(field.name))
    wanted = spark_type(nullable(field.type))
    if isinstance(found.dataType, T.NullType):
        if key:
            raise SchemaError(f"column '{field.name}' of the PRIMARY KEY is always NULL", field=field.name)
        return column.cast(wanted)
    row = row_of_spark(T.StructType([T.StructField(field.name, found.dataType)]))
    declared = FlinkType("ROW", nullable=False, fields=(FlinkField(field.name, nullable(field.type)),))
    try:
        conform(pa.array([], arrow_type(row)), arrow_schema(declared))
    except SchemaError:
        raise SchemaError(
            f"column '{field.name}' is {row.fields[0].type}, which does not fit {nullable(field.type)}; cast it first",
            field=field.name,
        ) from None
    return column.cast(wanted) if field.type.root in _CAST and found.dataType != wanted else column


def _kinds(plan: TablePlan, df: DataFrame, asked: ChangelogMode | None) -> ChangelogMode | None:
    """The kinds that the rows can have, None when all are inserts."""
    if ROW_KIND not in df.columns or ROW_KIND in [column.name for column in plan.table.columns]:
        return None
    field = df.schema[ROW_KIND]
    if not isinstance(field.dataType, T.StringType):
        raise SchemaError(f"column '{ROW_KIND}' must be STRING, not {field.dataType.simpleString()}", field=ROW_KIND)
    if not plan.codec.has_kinds:
        return ChangelogMode.INSERT_ONLY
    if asked is not None:
        return asked
    told = (field.metadata or {}).get(KINDS_KEY)
    fits = told is not None and all(ChangelogMode.UPSERT.contains(kind) for kind in told.split(","))
    return ChangelogMode.UPSERT if fits else ChangelogMode.ALL


def _typed(codec: RecordCodec, columns: Sequence[Column]) -> list[tuple[Column, FlinkField]]:
    return list(zip(columns, codec.physical.fields, strict=True))


def _wire(column: Column, t: FlinkType) -> Column:
    """The column as PySpark's Arrow bridge can carry it: intervals of months go as numbers."""
    months = any(inner.root == "INTERVAL YEAR TO MONTH" for _, inner in t.walk())
    return column.cast(spark_type(t, wire=True)) if months else column


# --- by the formats' own engines ---------------------------------------------------------------------------


def _key(codec: RecordCodec, columns: Sequence[Column]) -> list[Column]:
    if codec.key_format is None:
        return []
    key = _encoded(codec.key_format, codec.key_schema, [columns[i] for i in codec.key_places], None, None)
    if codec.upsert:
        for i in codec.key_places:
            text = f"cannot encode a row: column '{codec.physical.fields[i].name}' of the PRIMARY KEY is NULL"
            wrong = F.raise_error(F.lit(ErrorCode.NULL_KEY.marked(text)))
            key = F.when(columns[i].isNull(), wrong).otherwise(key)
    return [key.alias("key")]


def _value(codec: RecordCodec, columns: Sequence[Column], kinds: ChangelogMode | None) -> Column:
    chosen = [columns[i] for i in codec.value_places]
    if kinds is None:
        return _encoded(codec.value_format, codec.value_schema, chosen, None, None).alias("value")
    kind = F.col(ROW_KIND)
    deleted = kind == RowKind.DELETE.value if codec.upsert else None
    of_format = kind if codec.has_kinds and not codec.upsert else None
    value = _encoded(codec.value_format, codec.value_schema, chosen, of_format, deleted)
    allowed = [one.value for one in RowKind if kinds.contains(one)]
    if not codec.has_kinds:
        hint = f"; format '{codec.value_format.identifier}' writes inserts only"
    else:
        hint = "" if kinds is ChangelogMode.ALL else "; for others call encode(df, changelog_mode=ChangelogMode.ALL)"
    before = F.lit(ErrorCode.UNKNOWN_OPERATION.marked(f"column '{ROW_KIND}' is "))
    after = F.lit(f", but may be {', '.join(allowed)}{hint}")
    wrong = F.raise_error(F.concat(before, F.coalesce(kind, F.lit("NULL")), after))
    return F.when(kind.isin(allowed), value).otherwise(wrong).alias("value")


def _encoded(
    format: Format, schema: pa.Schema, columns: Sequence[Column], kinds: Column | None, deleted: Column | None
) -> Column:
    struct = F.struct(*(column.alias(name) for column, name in zip(columns, schema.names, strict=True)))
    if deleted is None:
        encoded: Column = format.encode(struct, schema, row_kind=kinds)
        return encoded
    # A deleted row may lack what the value needs: it is a null row, which is a null message.
    return F.when(~deleted, format.encode(F.when(~deleted, struct), schema))


# --- metadata ----------------------------------------------------------------------------------------------


def _written(plan: TablePlan, column: MetadataColumn, df: DataFrame) -> Column:
    """A metadata column as Spark's Kafka sink takes it: `topic`, `headers` or `timestamp`."""
    if column.name not in df.columns:
        raise SchemaError(
            f"the DataFrame lacks the column {column.name}, which is written as '{column.key}'.", field=column.name
        )
    wanted = spark_type(nullable(column.given))
    _check_metadata(column, df.schema[column.name].dataType, wanted)
    value = F.col(quoted(column.name)).cast(wanted)
    if column.key == "topic":
        return _checked_topic(plan, value).alias("topic")
    if column.key == "timestamp":
        return F.timestamp_millis(F.unix_millis(value)).alias("timestamp")
    if column.key == "headers":
        entries = F.filter(F.map_entries(value), lambda entry: entry["value"].isNotNull())
    else:
        entries = F.filter(value, lambda entry: entry["key"].isNotNull())
    return entries.cast(_HEADERS).alias("headers")


def _check_metadata(column: MetadataColumn, given: T.DataType, wanted: T.DataType) -> None:
    """Raise for a column that Spark can't cast to what its metadata key is."""
    fits = isinstance(given, T.NullType) or given.simpleString() == wanted.simpleString()
    if column.key == "topic":
        fits = fits or isinstance(given, T.AtomicType)
    elif column.key == "timestamp":
        fits = fits or isinstance(given, T.TimestampType | T.TimestampNTZType | T.DateType | T.StringType)
    elif column.key == "headers" and isinstance(given, T.MapType):
        fits = isinstance(given.keyType, T.StringType) and isinstance(
            given.valueType, T.StringType | T.BinaryType | T.NullType
        )
    if fits:
        return
    raise SchemaError(
        f"column '{column.name}' is written as metadata '{column.key}' and must be {wanted.simpleString().upper()}, "
        f"not {given.simpleString().upper()}: cast it first",
        field=column.name,
    )


def _checked_topic(plan: TablePlan, topic: Column) -> Column:
    wrong = "The topic of the sink record is not valid. "
    checked = F.when(topic.isNull(), F.raise_error(F.lit(f"{wrong}Expected a single topic but no topic is set.")))
    if plan.topics is not None:
        there = F.lit(f"{wrong}Expected topic to be in: {{{', '.join(plan.topics)}}} but was: ")
        checked = checked.when(~topic.isin(*plan.topics), F.raise_error(F.concat(there, topic)))
    elif plan.topic_pattern is not None:
        there = F.lit(f"{wrong}Expected topic to match: {plan.topic_pattern} but was: ")
        checked = checked.when(~topic.rlike(f"^(?:{plan.topic_pattern})$"), F.raise_error(F.concat(there, topic)))
    return checked.otherwise(topic)


# --- by the Arrow stage ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Work:
    """What a Python worker does with the rows of an upsert table; pickled to it."""

    codec: RecordCodec

    def mapped(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """The function for `mapInArrow`, under the name that plans show."""

        def key_value_encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in held_back(batches, self._is_open):
                yield self.encoded(batch)

        return key_value_encode

    def _is_open(self, batch: pa.RecordBatch) -> bool:
        """Whether the last row is a -U, of which the next row decides what it writes."""
        last: str | None = batch.column(len(self.codec.physical.fields))[-1].as_py()
        return last == RowKind.UPDATE_BEFORE.value

    def encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        fields = self.codec.physical.fields
        columns = batch.columns
        kinds = columns[len(fields)].cast(pa.string())
        known = pc.is_in(kinds, pa.array([kind.value for kind in RowKind]))
        if not pc.all(known, min_count=0).as_py():
            wrong = kinds[pc.index(known, False).as_py()].as_py()
            raise EncodeError(
                f"column '{ROW_KIND}' may be '+I', '-U', '+U' or '-D', not {wrong!r}", code=ErrorCode.UNKNOWN_OPERATION
            )
        struct = pa.StructArray.from_arrays(columns[: len(fields)], names=[field.name for field in fields])
        row = nullable(self.codec.physical)
        encoded = self.codec.encode(conform(struct, arrow_schema(row)), kinds)
        if encoded.errors is not None:
            assert encoded.codes is not None
            reason, code = encoded.errors.drop_null()[0].as_py(), encoded.codes.drop_null()[0].as_py()
            raise EncodeError(f"cannot encode a row: {reason}", reason=reason, code=code)
        result = [encoded.keys, encoded.values, *columns[len(fields) + 1 :]]
        names = ["key", "value", *batch.schema.names[len(fields) + 1 :]]
        written = pa.RecordBatch.from_arrays(result, names)
        return written if encoded.kept is None else written.filter(encoded.kept)
