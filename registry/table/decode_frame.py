"""Kafka records to rows of a table, in Spark: one Python stage decodes key and value together.

    select the input -> mapInArrow: decode_records, computed columns, error policy -> casts, names, watermark

It is a `mapInArrow` and not a UDF because a record may have no row or several, because Spark keeps no copy of the
input row, and because no filter on the result is pushed below it or copies it. The connector's metadata are cheap
native expressions, which pass through the stage beside their record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvformat.registry.contract.errors import ConfigurationError, MissingExtraError, too_many_bad
from kvformat.registry.contract.types import FlinkField
from kvformat.registry.spark.decoded_columns import exact_column
from kvformat.registry.spark.settings import check_time
from kvformat.registry.spark.workers import check_workers
from kvformat.registry.table.decode_stage import DecodeStage

try:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    from kvformat.registry.table.kafka_columns import binary_column, column_types, header_column, metadata_column
    from kvformat.registry.table.watermark import with_watermark
except ImportError as cause:
    raise MissingExtraError("DataFrames need PySpark 4.1 or newer: pip install 'kvformat[spark]'") from cause

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kvformat.registry.format import Errors
    from kvformat.registry.table.metadata import MetadataColumn
    from kvformat.registry.table.table_plan import TablePlan


def decode_frame(
    plan: TablePlan, extra: Sequence[MetadataColumn], df: DataFrame, errors: Errors, row_index: bool
) -> DataFrame:
    """Decode a DataFrame of Kafka records; `KeyValueFormat.decode` describes it.

    `extra` is the metadata that the caller asks for. Raises `ConfigurationError` or `SchemaError` if `df` does not fit.
    """
    check_workers()
    check_time((FlinkField(c.name, c.type) for c in plan.table.columns if c.type is not None), df.sparkSession)
    zone = df.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
    stage = DecodeStage(plan, extra, errors=errors, row_index=row_index, input_types=column_types(df), zone=zone)
    if errors == "raise" and plan.ignore_errors and plan.most_errors >= 0:
        _check_error_count(stage, df)
    return finished(stage, _decoded(stage, df))


def _decoded(stage: DecodeStage, df: DataFrame) -> DataFrame:
    """Return the rows with all columns."""
    columns = _input(stage, sends_key=stage.sends_key)
    metadata = enumerate(stage.kafka_metadata)
    columns += [metadata_column(column, stage.input_types).alias(f"m{i}") for i, column in metadata]
    columns += [F.col(name).alias(f"x{i}") for i, name in enumerate(stage.error_columns)]
    if stage.uses_now:
        columns.append(F.current_timestamp().alias("now"))
    return df.select(columns).mapInArrow(stage.decoder.mapped(), stage.wire)


def _input(stage: DecodeStage, *, sends_key: bool) -> list[Column]:
    """Return key and value, and the headers that belong to them."""
    columns = [binary_column(stage.input_types, "key").alias("k")] if sends_key else []
    columns.append(binary_column(stage.input_types, "value").alias("v"))
    headers = stage.record_headers.items()
    return [*columns, *(header_column(names).alias(f"{part}_header") for part, names in headers)]


def finished(stage: DecodeStage, decoded: DataFrame) -> DataFrame:
    """Return the decoder's rows as the result: final types, and in a stream the table's watermark."""
    return with_watermark(stage.plan.table, _with_final_types(stage, decoded))


def _with_final_types(stage: DecodeStage, decoded: DataFrame) -> DataFrame:
    """Return the decoder's rows with the columns of the result in order, and with their final types."""
    columns = []
    for found in stage.columns:
        column = exact_column(found.wire_name)
        if isinstance(found.final, T.YearMonthIntervalType):
            column = F.make_ym_interval(F.lit(0), column)
        elif found.wire != found.final:
            column = column.cast(found.final)
        same = found.wire == found.final and found.wire_name == found.name
        columns.append(column if same else column.alias(found.name))
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
    records = df.select(_input(stage, sends_key=decoder.has_key))
    faults = records.mapInArrow(decoder.mapped(), "reason STRING, code STRING").limit(most + 1).collect()
    if len(faults) > most:
        raise too_many_bad(most, *faults[0])
