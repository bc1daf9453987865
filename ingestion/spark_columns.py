"""The columns that a projection in Spark SQL adds to rows. A row for which an expression fails gets an error.

Spark stops a job at `CAST('x' AS INT)`, and has no expression that catches the errors of another one, but for the
functions with `try_`. `try_to_binary` catches all errors of its argument, so it tells the rows for which an expression
fails. The expression is evaluated twice, in the same task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvformat.ingestion.decoded_rows import ERROR_FIELDS, ROW_ERROR
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.spark.decoded_columns import exact_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def with_spark_columns(rows: DataFrame, expressions: Mapping[str, str]) -> DataFrame:
    """Return the rows with columns of these names and expressions, in place of columns that have the names."""
    from pyspark.sql import functions as F

    checks = [F.when(_fails(text), F.lit(f"Spark can't evaluate {text} for this row")) for text in expressions.values()]
    reason = F.coalesce(*checks)
    fields = (F.lit("record"), reason, F.lit(ErrorCode.COMPUTED_COLUMN.value))
    error = F.struct(*(value.alias(name) for value, name in zip(fields, ERROR_FIELDS, strict=True)))
    before = exact_column(ROW_ERROR)
    checked = rows.withColumn(ROW_ERROR, F.when(before.isNull() & reason.isNotNull(), error).otherwise(before))
    kept = [exact_column(name) for name in rows.columns if name not in expressions]
    good = exact_column(ROW_ERROR).isNull()
    return checked.select(*kept, *(F.when(good, F.expr(text)).alias(name) for name, text in expressions.items()))


def _fails(expression: str) -> Column:
    """Return whether Spark raises an error for an expression. Its text needs all parts of the value."""
    from pyspark.sql import functions as F

    text = F.coalesce(F.expr(expression).cast("string"), F.lit(""))
    return F.try_to_binary(text, F.lit("utf-8")).isNull()
