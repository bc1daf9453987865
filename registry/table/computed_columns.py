"""The columns that a table adds to decoded rows: computed columns, and the watermark of its event time."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.types import quoted
from kvformat.registry.spark.decoded_columns import ERROR, exact_column
from kvformat.registry.sql.table_definition import TableDefinition


def with_computed_columns(table: TableDefinition, decoded: DataFrame, *, captured: bool) -> DataFrame:
    """Return the table's columns in their declared order, with the computed ones.

    With `captured` errors, computed columns of bad records are NULL. Raises `ConfigurationError` for an expression that
    Spark cannot evaluate.
    """
    computed = {column.name: column for column in table.columns if column.kind == "computed"}
    if not computed:
        return decoded
    for column in computed.values():
        if column.refused:
            raise ConfigurationError(
                f"computed column '{column.name}' can't be evaluated in Spark. {column.refused}", field=column.name
            )

    def expression(name: str) -> Column:
        value = F.expr(computed[name].expression)
        return (F.when(F.col(ERROR).isNull(), value) if captured else value).alias(name)

    for name in computed:
        try:
            decoded.select("*", expression(name)).schema  # noqa: B018 - makes Spark Connect analyse it now
        except AnalysisException as cause:
            raise ConfigurationError(
                f"computed column '{name}' can't be evaluated in Spark: {computed[name].expression}: {cause}",
                field=name,
            ) from cause
    names = [column.name for column in table.columns]
    names += [name for name in decoded.columns if name not in names]
    return decoded.select([expression(name) if name in computed else exact_column(name) for name in names])


def with_watermark(table: TableDefinition, decoded: DataFrame) -> DataFrame:
    """Return a stream with the table's WATERMARK; a batch is returned unchanged.

    Spark's event time has a time zone. A TIMESTAMP is cast to one in the session's time zone: `CAST(ts AS TIMESTAMP)`.
    """
    watermark = table.watermark
    if watermark is None or not decoded.isStreaming:
        return decoded
    name = watermark.column
    found = decoded.schema[name].dataType
    if not isinstance(found, T.TimestampType | T.TimestampNTZType):
        raise ConfigurationError(
            f"column '{name}' of the WATERMARK is {found.simpleString().upper()}, but must be a timestamp", field=name
        )
    if isinstance(found, T.TimestampNTZType):
        columns = [exact_column(column) for column in decoded.columns]
        columns[decoded.columns.index(name)] = exact_column(name).cast(T.TimestampType()).alias(name)
        decoded = decoded.select(columns)
    return decoded.withWatermark(quoted(name), f"{watermark.delay_ms} milliseconds")
