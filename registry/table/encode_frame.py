"""Rows of a table to Kafka records, in Spark.

    columns by name, cast where nothing is lost -> key and value by each format's own engine    most tables
                                                -> mapInArrow: encode_records                   upsert tables with -U

Only an upsert table that may have `-U` rows needs to compare neighbouring rows. Its rows go through Python batch by
batch. A `-U` at the end of a batch is held back for the next one, so that pairs are found across the batches of a task.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kvformat.registry.contract.changelog import ChangelogMode, RowKind
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import (
    EncodeError,
    KafkaSinkWarning,
    SchemaError,
    add_context,
    did_you_mean,
    listed,
    needs_extra,
)
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.normalize_input import normalize_rows
from kvformat.registry.contract.schemas import arrow_schema, row_of_spark
from kvformat.registry.contract.types import INTEGER_BITS, FlinkField, FlinkType, arrow_type, nullable, spark_type
from kvformat.registry.java.regex import found_as_whole
from kvformat.registry.spark.columns import wire_column
from kvformat.registry.spark.decoded_columns import ERROR, KINDS_KEY, ROW_KIND, check_errors_split, exact_column
from kvformat.registry.spark.settings import check_time
from kvformat.registry.spark.workers import check_workers, for_workers
from kvformat.registry.sql.connector_options import delivery_guarantee
from kvformat.registry.table.change_types import CHANGE_TYPE, kinds_column, kinds_of_changes
from kvformat.registry.table.encode_records import checked_kinds, encode_records, hold_back
from kvformat.registry.table.record_layout import RecordLayout

with needs_extra("DataFrames need PySpark 4.1 or newer", extra="spark"):
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kvformat.registry.format import Format
    from kvformat.registry.table.metadata import MetadataColumn
    from kvformat.registry.table.table_plan import TablePlan

_CASTABLE_ROOTS = (*INTEGER_BITS, "FLOAT", "DOUBLE", "DECIMAL")
_HEADERS = T.ArrayType(T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())]))


def encode_frame(
    plan: TablePlan, extra: Sequence[MetadataColumn], df: DataFrame, changelog_mode: ChangelogMode | None
) -> DataFrame:
    """Encode a DataFrame of rows; `KeyValueFormat.encode` describes it.

    `extra` is the metadata that the caller asks to write. Raises `ConfigurationError` or `SchemaError` if `df` does not
    fit.
    """
    check_workers(df.sparkSession)
    layout = plan.layout
    check_time(layout.physical.fields, df.sparkSession)
    if ERROR not in [column.name for column in plan.table.columns]:
        check_errors_split(df)
    watermark = plan.table.watermark
    df = _with_row_kinds(plan, df)
    columns = declared_columns(
        df,
        layout.physical.fields,
        table=plan.table.name,
        primary_key=plan.table.primary_key or (),
        event_time=None if watermark is None else watermark.column,
    )
    written = (*plan.metadata, *extra)
    metadata = [_metadata_column(plan, column, df) for column in written if column.raw_part is None]
    raw = {column.raw_part: _metadata_column(plan, column, df) for column in written if column.raw_part is not None}
    _warn_about_sink(plan, [column.key for column in written])
    kinds = _possible_kinds(plan, df, changelog_mode)
    try:
        return _records(df, layout, columns, metadata, kinds, raw)
    except SchemaError as error:  # of a format, which does not know the table
        raise add_context(error, f"table '{plan.table.name}': ") from error


def _records(
    df: DataFrame,
    layout: RecordLayout,
    columns: Sequence[Column],
    metadata: Sequence[Column],
    kinds: ChangelogMode | None,
    raw: Mapping[Part, Column],
) -> DataFrame:
    if not layout.upsert or kinds is None or not kinds.contains(RowKind.UPDATE_BEFORE):
        key = [raw["key"]] if "key" in raw else _key_column(layout, columns)
        return df.select(*key, _value_column(layout, columns, kinds, raw.get("value")), *metadata)
    wire = [
        wire_column(column, field.type).alias(f"c{i}")
        for i, (column, field) in enumerate(zip(columns, layout.physical.fields, strict=True))
    ]
    rows = df.select(*wire, F.col(ROW_KIND).alias(ROW_KIND), *metadata)
    result = T.StructType([T.StructField("key", T.BinaryType()), T.StructField("value", T.BinaryType())])
    for field in rows.schema.fields[len(wire) + 1 :]:
        result.add(field.name, field.dataType)
    return rows.mapInArrow(for_workers(_UpsertEncoder(layout.for_encoding()).mapped(), df.sparkSession), result)


def _warn_about_sink(plan: TablePlan, metadata: Sequence[str]) -> None:
    """Warn about metadata that Spark's Kafka sink cannot write; Python shows it once for each caller of `encode`."""
    several = plan.topic_pattern is not None or len(plan.topics or ()) > 1
    if several and "topic" not in metadata:
        topics = f"the topics {', '.join(plan.topics)}" if plan.topics else f"the topics of '{plan.topic_pattern}'"
        warnings.warn(
            f"table '{plan.table.name}' has {topics}, but no metadata column with the topic of each row, so Flink "
            "would fail: call encode(df, metadata={'<column>': 'topic'}), or set the writer's option 'topic'",
            KafkaSinkWarning,
            stacklevel=4,
        )
    if "timestamp" in metadata and delivery_guarantee(plan.values)[1] != "exactly-once":
        warnings.warn(
            f"table '{plan.table.name}' writes the metadata 'timestamp', but Spark's Kafka sink ignores this column: "
            "the records get the time at which they are written. Flink writes the column's time",
            KafkaSinkWarning,
            stacklevel=4,
        )


# --- input ------------------------------------------------------------------------------------------------


def declared_columns(
    df: DataFrame,
    fields: Sequence[FlinkField],
    *,
    table: str,
    primary_key: Sequence[str],
    event_time: str | None = None,
) -> list[Column]:
    """Return the columns of a table, found by name and cast to their declared types.

    `table` is the name for errors, `event_time` the column of the watermark. Raises `SchemaError` for a missing column,
    for one that is there twice, and for a cast that may lose something.
    """
    existing = checked_columns(df.schema, fields, table=table, primary_key=primary_key, event_time=event_time)
    columns = []
    for field, existing_field in zip(fields, existing, strict=True):
        if _is_event_time(field, existing_field, event_time):
            columns.append(
                exact_column(field.name).cast(T.TimestampNTZType())
            )  # `decode` of a stream returns TIMESTAMP
        else:
            columns.append(_cast_column(field, existing_field))
    return columns


def checked_columns(
    schema: T.StructType,
    fields: Sequence[FlinkField],
    *,
    table: str,
    primary_key: Sequence[str],
    event_time: str | None = None,
) -> list[T.StructField]:
    """Return the columns of rows for the columns of a table; raises `SchemaError` as `declared_columns` does."""
    existing = schema.fields
    names = [field.name for field in existing]
    missing = [field.name for field in fields if field.name not in names]
    if missing:
        raise SchemaError(
            f"the DataFrame lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)} of table "
            f"'{table}'.{did_you_mean(missing[0], names)} It has {listed(names)}",
            field=missing[0],
        )
    columns = []
    for field in fields:
        same_name = [column for column in existing if column.name == field.name]
        if len(same_name) > 1:
            raise SchemaError(f"the DataFrame has column '{field.name}' more than once", field=field.name)
        if not _is_event_time(field, same_name[0], event_time):
            _check_cast(field, same_name[0], key=field.name in primary_key)
        columns.append(same_name[0])
    return columns


def _is_event_time(field: FlinkField, existing: T.StructField, event_time: str | None) -> bool:
    """Return whether a column is the local time of the watermark, which Spark's streams have with a time zone."""
    is_local = field.name == event_time and field.type.root == "TIMESTAMP"
    return is_local and isinstance(existing.dataType, T.TimestampType)


def _check_cast(field: FlinkField, existing: T.StructField, *, key: bool) -> None:
    """Raise `SchemaError` if the cast of a column to its declared type could lose something."""
    if isinstance(existing.dataType, T.NullType):
        if key:
            raise SchemaError(f"column '{field.name}' of the PRIMARY KEY is always NULL", field=field.name)
        return
    row = row_of_spark(T.StructType([T.StructField(field.name, existing.dataType)]))
    declared = FlinkType("ROW", nullable=False, fields=(FlinkField(field.name, nullable(field.type)),))
    try:
        normalize_rows(pa.array([], arrow_type(row)), arrow_schema(declared))
    except SchemaError:
        raise SchemaError(
            f"column '{field.name}' is {row.fields[0].type}, which does not fit {nullable(field.type)}; cast it first",
            field=field.name,
        ) from None


def _cast_column(field: FlinkField, existing: T.StructField) -> Column:
    """Return a column cast to its declared type, after `_check_cast`."""
    column = exact_column(field.name)
    wanted = spark_type(nullable(field.type))
    if isinstance(existing.dataType, T.NullType):
        return column.cast(wanted)
    return column.cast(wanted) if field.type.root in _CASTABLE_ROOTS and existing.dataType != wanted else column


def _with_row_kinds(plan: TablePlan, df: DataFrame) -> DataFrame:
    """Return the rows with `row_kind`, if they have kinds in a column of a change feed."""
    if kinds_column(df.columns, [column.name for column in plan.table.columns]) != CHANGE_TYPE:
        return df
    return df.withColumn(ROW_KIND, kinds_of_changes())


def _possible_kinds(plan: TablePlan, df: DataFrame, changelog_mode: ChangelogMode | None) -> ChangelogMode | None:
    """Return the kinds that the rows can have; None if all rows are inserts."""
    if ROW_KIND not in df.columns or ROW_KIND in [column.name for column in plan.table.columns]:
        return None
    field = df.schema[ROW_KIND]
    if not isinstance(field.dataType, T.StringType):
        raise SchemaError(f"column '{ROW_KIND}' must be STRING, not {field.dataType.simpleString()}", field=ROW_KIND)
    if not plan.layout.has_kinds:
        return ChangelogMode.INSERT_ONLY
    if changelog_mode is not None:
        return changelog_mode
    known = (field.metadata or {}).get(KINDS_KEY)
    upsert = known is not None and all(ChangelogMode.UPSERT.contains(kind) for kind in known.split(","))
    return ChangelogMode.UPSERT if upsert else ChangelogMode.ALL


# --- key and value by the formats' own engines --------------------------------------------------------------


def _key_column(layout: RecordLayout, columns: Sequence[Column]) -> list[Column]:
    if layout.key_format is None:
        return []
    key = _encoded(layout.key_format, layout.key_schema, [columns[i] for i in layout.key_indexes], None, None)
    if layout.upsert:
        for i in layout.key_indexes:
            text = f"cannot encode a row: column '{layout.physical.fields[i].name}' of the PRIMARY KEY is NULL"
            wrong = F.raise_error(F.lit(ErrorCode.NULL_KEY.marked(text)))
            key = F.when(columns[i].isNull(), wrong).otherwise(key)
    return [key.alias("key")]


def _value_column(
    layout: RecordLayout, columns: Sequence[Column], kinds: ChangelogMode | None, raw: Column | None
) -> Column:
    """Return the value of each record: `raw` if it is given, otherwise the row in the value's format."""
    chosen = [columns[i] for i in layout.value_indexes]
    if kinds is None:
        return _encoded(layout.value_format, layout.value_schema, chosen, None, None, raw).alias("value")
    kind = F.col(ROW_KIND)
    deleted = kind == RowKind.DELETE.value if layout.upsert else None
    format_kind = kind if layout.has_kinds and not layout.upsert else None
    value = _encoded(layout.value_format, layout.value_schema, chosen, format_kind, deleted, raw)
    allowed = [kind.value for kind in RowKind if kinds.contains(kind)]
    if not layout.has_kinds:
        hint = f"; format '{layout.value_format.identifier}' writes inserts only"
    else:
        hint = "" if kinds is ChangelogMode.ALL else "; to allow all call encode(df, changelog_mode=ChangelogMode.ALL)"
    before = F.lit(ErrorCode.UNKNOWN_OPERATION.marked(f"column '{ROW_KIND}' is "))
    after = F.lit(f", but must be one of {', '.join(allowed)}{hint}")
    wrong = F.raise_error(F.concat(before, F.coalesce(kind, F.lit("NULL")), after))
    return F.when(kind.isin(allowed), value).otherwise(wrong).alias("value")


def _encoded(
    format: Format,
    schema: pa.Schema,
    columns: Sequence[Column],
    kinds: Column | None,
    deleted: Column | None,
    raw: Column | None = None,
) -> Column:
    if raw is not None:
        return raw
    struct = F.struct(*(column.alias(name) for column, name in zip(columns, schema.names, strict=True)))
    if deleted is None:
        encoded: Column = format.encode(struct, schema, row_kind=kinds)
        return encoded
    # A deleted row may lack columns of the value. It is encoded as a null row, which is a null message.
    return F.when(~deleted, format.encode(F.when(~deleted, struct), schema))


# --- metadata ----------------------------------------------------------------------------------------------


def _metadata_column(plan: TablePlan, column: MetadataColumn, df: DataFrame) -> Column:
    """Return a metadata column for Spark's Kafka sink: `topic`, `headers`, `timestamp`, or a raw `key` or `value`."""
    if column.name not in df.columns:
        raise SchemaError(
            f"the DataFrame lacks the column {column.name}, which is written as metadata '{column.key}'",
            field=column.name,
        )
    wanted = spark_type(nullable(column.key_type))
    check_metadata(column, df.schema[column.name].dataType, wanted)
    if column.raw_part is not None:
        return exact_column(column.name).cast("binary").alias(column.raw_part)
    value = exact_column(column.name).cast(wanted)
    if column.key == "topic":
        return _checked_topic(plan, value).alias("topic")
    if column.key == "timestamp":
        return F.timestamp_millis(F.unix_millis(value)).alias("timestamp")
    if column.key == "headers":
        entries = F.filter(F.map_entries(value), lambda entry: entry["value"].isNotNull())
    else:
        entries = F.filter(value, lambda entry: entry["key"].isNotNull())
    return entries.cast(_HEADERS).alias("headers")


def check_metadata(column: MetadataColumn, column_type: T.DataType, wanted: T.DataType) -> None:
    """Raise `SchemaError` if Spark cannot cast the column to the type of its metadata key."""
    fits = isinstance(column_type, T.NullType) or column_type.simpleString() == wanted.simpleString()
    if column.raw_part is not None:
        fits = fits or isinstance(column_type, T.StringType | T.BinaryType)
    if column.key == "topic":
        fits = fits or isinstance(column_type, T.AtomicType)
    elif column.key == "timestamp":
        fits = fits or isinstance(column_type, T.TimestampType | T.TimestampNTZType | T.DateType | T.StringType)
    elif column.key == "headers" and isinstance(column_type, T.MapType):
        fits = isinstance(column_type.keyType, T.StringType) and isinstance(
            column_type.valueType, T.StringType | T.BinaryType | T.NullType
        )
    if fits:
        return
    types = "STRING or BINARY" if column.raw_part is not None else wanted.simpleString().upper()
    raise SchemaError(
        f"column '{column.name}' is written as metadata '{column.key}' and must be {types}, "
        f"not {column_type.simpleString().upper()}: cast it first",
        field=column.name,
    )


def _checked_topic(plan: TablePlan, topic: Column) -> Column:
    """Return the topic, with Flink's errors for a topic that the table does not have."""
    wrong = "The topic of the sink record is not valid. "
    checked = F.when(topic.isNull(), F.raise_error(F.lit(f"{wrong}Expected a single topic but no topic is set.")))
    if plan.topics is not None:
        expected = F.lit(f"{wrong}Expected topic to be in: {{{', '.join(plan.topics)}}} but was: ")
        checked = checked.when(~topic.isin(*plan.topics), F.raise_error(F.concat(expected, topic)))
    elif plan.topic_pattern is not None:
        expected = F.lit(f"{wrong}Expected topic to match: {plan.topic_pattern} but was: ")
        other = ~topic.rlike(found_as_whole(plan.topic_pattern))
        checked = checked.when(other, F.raise_error(F.concat(expected, topic)))
    return checked.otherwise(topic)


# --- upsert tables with -U, in Python ------------------------------------------------------------------------


@dataclass(frozen=True)
class _UpsertEncoder:
    """Encodes the rows of an upsert table in a Python worker; pickled to it.

    An input batch has the physical columns, the row kind, and the columns that are passed on.
    """

    layout: RecordLayout

    def mapped(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the function for `mapInArrow`, with the name that Spark shows in plans."""

        def key_value_encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in hold_back(batches, self._is_open):
                yield self.encoded(batch)

        return key_value_encode

    def _is_open(self, batch: pa.RecordBatch) -> bool:
        """Return whether the last row is a -U, whose output depends on the next row."""
        last: str | None = batch.column(len(self.layout.physical.fields))[-1].as_py()
        return last == RowKind.UPDATE_BEFORE.value

    def encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return key and value of each row, then the columns that are passed on; raises `EncodeError`."""
        fields = self.layout.physical.fields
        columns = batch.columns
        kinds = checked_kinds(columns[len(fields)])
        struct = pa.StructArray.from_arrays(columns[: len(fields)], names=[field.name for field in fields])
        row = nullable(self.layout.physical)
        encoded = encode_records(self.layout, normalize_rows(struct, arrow_schema(row)), kinds)
        if encoded.errors is not None:
            assert encoded.codes is not None
            reason, code = encoded.errors.drop_null()[0].as_py(), encoded.codes.drop_null()[0].as_py()
            raise EncodeError(f"cannot encode a row: {reason}", reason=reason, code=code)
        result = [encoded.keys, encoded.values, *columns[len(fields) + 1 :]]
        names = ["key", "value", *batch.schema.names[len(fields) + 1 :]]
        written = pa.RecordBatch.from_arrays(result, names)
        return written if encoded.kept is None else written.filter(encoded.kept)
