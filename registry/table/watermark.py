"""The watermark of a table's event time, on a stream of decoded rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.types import quoted
from kvformat.registry.spark.decoded_columns import exact_column
from kvformat.registry.sql.table_definition import TableDefinition


def with_watermark(
    table: TableDefinition, decoded: DataFrame, types: Mapping[str, T.DataType], others: Sequence[str]
) -> DataFrame:
    """Return a stream with the table's WATERMARK. Its columns have these types; `others` are columns after them.

    Spark's event time has a time zone. A TIMESTAMP is cast to one in the session's time zone: `CAST(ts AS TIMESTAMP)`.
    """
    watermark = table.watermark
    if watermark is None:
        return decoded
    name = watermark.column
    type_ = types[name]
    if not isinstance(type_, T.TimestampType | T.TimestampNTZType):
        raise ConfigurationError(
            f"column '{name}' of the WATERMARK is {type_.simpleString().upper()}, but must be a timestamp", field=name
        )
    if isinstance(type_, T.TimestampNTZType):
        columns = {column: exact_column(column) for column in (*types, *others)}
        columns[name] = exact_column(name).cast(T.TimestampType()).alias(name)
        decoded = decoded.select(list(columns.values()))
    return decoded.withWatermark(quoted(name), f"{watermark.delay_ms} milliseconds")
