"""The columns that a projection in Flink SQL adds to rows in Spark, evaluated like computed columns of a table.

A row that Flink could not compute gets an error, so that its record is a bad record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from kvformat.ingestion.decoded_rows import ERROR_FIELDS, ROW_ERROR
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.types import FlinkType, arrow_type, from_spark, nullable, spark_type
from kvformat.registry.spark.decoded_columns import exact_column
from kvformat.registry.table.computed_columns import ComputedColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COMPUTED, _FAILED = "_kvformat_computed", "reason"


def with_flink_columns(
    rows: DataFrame, table: str, expressions: Mapping[str, str], types: Mapping[str, FlinkType]
) -> DataFrame:
    """Return the rows with columns of these names and expressions, in place of columns that have the names.

    `types` are Flink's types of the columns that the expressions may use.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # PySpark's stubs leave it out

    stored = {field.name: field.dataType for field in rows.schema.fields}
    used = [name for name in types if name in stored]
    computed = ComputedColumns(
        table,
        tuple(expressions.items()),
        tuple((name, nullable(from_spark(stored[name], True, name))) for name in used),
        tuple((name, nullable(types[name])) for name in used),
        rows.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC",
    )
    wire = T.StructType()
    for place, type_ in enumerate(computed.types):
        wire.add(f"c{place}", spark_type(type_, wire=True))
    wire.add(_FAILED, T.StringType())
    udf = arrow_udf(_evaluating(computed), wire).asNondeterministic()
    inputs = [exact_column(name) for name in used] or [F.lit(0)]
    rows = rows.select("*", udf(F.current_timestamp(), *inputs).alias(_COMPUTED))
    kept = [exact_column(name) for name in stored if name not in expressions and name != ROW_ERROR]
    added = [
        F.col(f"{_COMPUTED}.c{place}").cast(spark_type(type_)).alias(name)
        for place, (name, type_) in enumerate(zip(expressions, computed.types, strict=True))
    ]
    reason = F.col(f"{_COMPUTED}.{_FAILED}")
    fields = (F.lit("record"), reason, F.lit(ErrorCode.COMPUTED_COLUMN.value))
    error = F.struct(*(value.alias(name) for value, name in zip(fields, ERROR_FIELDS, strict=True)))
    failed = F.when(reason.isNotNull(), error).otherwise(exact_column(ROW_ERROR)).alias(ROW_ERROR)
    return rows.select(*kept, *added, failed)


def _evaluating(computed: ComputedColumns) -> Callable[..., pa.Array]:
    fields = [pa.field(f"c{i}", arrow_type(nullable(type_))) for i, type_ in enumerate(computed.types)]
    fields.append(pa.field(_FAILED, pa.string()))

    def flink_columns(now: pa.Array, *inputs: pa.Array) -> pa.Array:
        length = len(now)
        moment = now.view(pa.int64())[0].as_py() if length else 0
        columns, failed = computed.evaluate(inputs[: len(computed.inputs)], length, moment)
        reasons = pa.array([failed.get(i) for i in range(length)], pa.string())
        return pa.StructArray.from_arrays([*columns, reasons], fields=fields)

    return flink_columns
