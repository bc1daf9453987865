"""Kafka records to rows of a table, in Spark: one Python stage decodes key and value together.

    select the input -> mapInArrow: decode_records, computed columns, error policy -> casts, names, watermark

It is a `mapInArrow` and not a UDF because a record may have no row or several, because Spark keeps no copy of the
input row, and because no filter on the result is pushed below it or copies it. The connector's metadata are cheap
native expressions, which pass through the stage beside their record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvformat.registry.contract.errors import ConfigurationError, needs_extra, too_many_bad
from kvformat.registry.contract.types import FlinkField, quoted
from kvformat.registry.spark.decoded_columns import exact_column
from kvformat.registry.spark.settings import check_time
from kvformat.registry.spark.workers import check_workers, for_workers
from kvformat.registry.table.decode_stage import DecodeStage

with needs_extra("DataFrames need PySpark 4.1 or newer", extra="spark"):
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    from kvformat.registry.table.kafka_columns import (
        binary_column,
        column_types,
        header_column,
        is_streaming,
        metadata_column,
    )

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kvformat.registry.format import Errors
    from kvformat.registry.table.metadata import MetadataColumn
    from kvformat.registry.table.table_plan import TablePlan


_REFUSED = "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"


def decode_frame(
    plan: TablePlan,
    extra: Sequence[MetadataColumn],
    df: DataFrame,
    errors: Errors,
    *,
    row_index: bool,
    input_schema: T.StructType | str | None,
) -> DataFrame:
    """Decode a DataFrame of Kafka records; `KeyValueFormat.decode` describes it.

    `extra` is the metadata that the caller asks for. Raises `ConfigurationError` or `SchemaError` if `df` does not fit.
    """
    check_workers(df.sparkSession)
    check_time((FlinkField(c.name, c.type) for c in plan.table.columns if c.type is not None), df.sparkSession)
    zone = df.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
    types = column_types(df, input_schema)
    stage = DecodeStage(plan, extra, errors=errors, row_index=row_index, input_types=types, zone=zone)
    if errors == "raise" and plan.ignore_errors and plan.most_errors >= 0:
        _check_error_count(stage, df)
    return finished(stage, _decoded(stage, df), streaming=plan.table.watermark is not None and is_streaming(df))


def _decoded(stage: DecodeStage, df: DataFrame) -> DataFrame:
    """Return the decoder's rows."""
    columns = _input(stage, sends_key=stage.sends_key)
    columns |= {f"m{i}": metadata_column(column, stage.input_types) for i, column in enumerate(stage.kafka_metadata)}
    columns |= {f"x{i}": F.col(name) for i, name in enumerate(stage.error_columns)}
    if stage.uses_now:
        columns["now"] = F.current_timestamp()
    records = df.select([column.alias(name) for name, column in columns.items()])
    decode = for_workers(stage.decoder.mapped(), df.sparkSession)
    try:
        return records.mapInArrow(decode, stage.wire)
    except PySparkException as error:
        # A client of Spark Connect asks for the names of the columns, and a declarative pipeline refuses to tell them.
        if _REFUSED not in str(error):
            raise
        known: Any = records
        known._cached_schema = T.StructType([T.StructField(name, T.BinaryType()) for name in columns])
        return records.mapInArrow(decode, stage.wire)


def _input(stage: DecodeStage, *, sends_key: bool) -> dict[str, Column]:
    """Return key and value, and the headers that belong to them, by the names of their columns."""
    columns = {"k": binary_column(stage.input_types, "key")} if sends_key else {}
    columns["v"] = binary_column(stage.input_types, "value")
    return columns | {f"{part}_header": header_column(names) for part, names in stage.record_headers.items()}


def finished(stage: DecodeStage, decoded: DataFrame, *, streaming: bool) -> DataFrame:
    """Return the decoder's rows as the result: final types, and in a stream the table's watermark."""
    rows = _with_final_types(stage, decoded)
    return _with_watermark(stage, rows) if streaming else rows


def _with_final_types(stage: DecodeStage, decoded: DataFrame) -> DataFrame:
    """Return the decoder's rows with the columns of the result in order, and with their final types."""
    columns = []
    for decoded_column in stage.columns:
        column = exact_column(decoded_column.wire_name)
        if isinstance(decoded_column.final, T.YearMonthIntervalType):
            column = F.make_ym_interval(F.lit(0), column)
        elif decoded_column.wire != decoded_column.final:
            column = column.cast(decoded_column.final)
        same = decoded_column.wire == decoded_column.final and decoded_column.wire_name == decoded_column.name
        columns.append(column if same else column.alias(decoded_column.name))
    return decoded.select([*columns, *map(F.col, stage.last)])


def _check_error_count(stage: DecodeStage, df: DataFrame) -> None:
    """Run a job that counts the bad records of a batch; raises `DecodeError` if there are too many."""
    most = stage.plan.most_errors
    if df.isStreaming:
        raise ConfigurationError(
            "'ingestion.error-tolerance.max-count' counts the bad records of a batch, which is not possible in a "
            "stream: call decode in foreachBatch on its DataFrame, or set the option to -1",
            option="ingestion.error-tolerance.max-count",
        )
    decoder = stage.counter()
    columns = _input(stage, sends_key=decoder.has_key)
    records = df.select([column.alias(name) for name, column in columns.items()])
    count = for_workers(decoder.mapped(), df.sparkSession)
    faults = records.mapInArrow(count, "reason STRING, code STRING").limit(most + 1).collect()
    if len(faults) > most:
        raise too_many_bad(most, *faults[0])


def _with_watermark(stage: DecodeStage, decoded: DataFrame) -> DataFrame:
    """Return a stream with the table's WATERMARK.

    Spark's event time has a time zone. A TIMESTAMP is cast to one in the session's time zone: `CAST(ts AS TIMESTAMP)`.
    """
    watermark = stage.plan.table.watermark
    if watermark is None:
        return decoded
    name, types = watermark.column, {column.name: column.final for column in stage.columns}
    type_ = types[name]
    if not isinstance(type_, T.TimestampType | T.TimestampNTZType):
        raise ConfigurationError(
            f"column '{name}' of the WATERMARK is {type_.simpleString().upper()}, but must be a timestamp", field=name
        )
    if isinstance(type_, T.TimestampNTZType):
        columns = {column: exact_column(column) for column in (*types, *stage.last)}
        columns[name] = exact_column(name).cast(T.TimestampType()).alias(name)
        decoded = decoded.select(list(columns.values()))
    return decoded.withWatermark(quoted(name), f"{watermark.delay_ms} milliseconds")
