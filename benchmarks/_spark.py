"""Code that the benchmarks share for Spark: a session, cached input, and a sink that discards rows."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _measure import Task

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COMPARED = 20_000
_CHUNK = 20_000


@contextmanager
def cached_frame(
    tables: Iterable[pa.Table], settings: Mapping[str, str] = {}, *, times: int = 1
) -> Iterator[DataFrame]:
    """Yield the tables as one DataFrame that Spark caches in memory. The session ends with the block.

    times: how often a job reads the cached rows. A job always costs 0.1 to 0.3 CPU seconds. With several `times`, this
    is little even for large messages, without gigabytes of memory and without more tasks.
    settings: more settings of the session, such as `spark.jars`. They only take effect for the first session of a
    process, so all parts of a benchmark should use the same settings.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers need the packages of this process
    builder = SparkSession.builder.master("local[*]").appName(Path(sys.argv[0]).stem)
    builder = builder.config("spark.driver.memory", "6g").config("spark.ui.enabled", "false")
    for name, value in {"spark.ui.showConsoleProgress": "false", **settings}.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/input.parquet"
        _write_parquet(tables, path)
        spark = builder.getOrCreate()
        try:
            tasks = 2 * spark.sparkContext.defaultParallelism
            frame = spark.read.parquet(path).repartition(tasks).cache()
            frame.count()
            yield frame if times == 1 else functools.reduce(type(frame).union, [frame] * times).coalesce(tasks)
        finally:
            spark.stop()


def tables(messages: Sequence[bytes]) -> Iterator[pa.Table]:
    """Yield messages as tables with a column `value`, for `cached_frame`."""
    for start in range(0, len(messages), _CHUNK):
        yield pa.table({"value": pa.array(messages[start : start + _CHUNK], pa.binary())})


def _write_parquet(tables: Iterable[pa.Table], path: str) -> None:
    writer: pq.ParquetWriter | None = None
    for table in tables:
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table)
    if writer is not None:
        writer.close()


def discard_columns(frame: DataFrame, *columns: Column) -> Task:
    """Return a task that computes the columns for every row and discards them."""
    return lambda: frame.select(*columns).write.format("noop").mode("overwrite").save()


def discard_rows(frame: DataFrame) -> Task:
    """Return a task that computes all rows of the DataFrame and discards them."""
    return lambda: frame.write.format("noop").mode("overwrite").save()


def lengths(frame: DataFrame, column: str) -> tuple[DataFrame, DataFrame]:
    """Return two DataFrames that compute the length of each message in Python, as a Column and as a table.

    They measure little else than the transport to Python.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import IntegerType

    def of_column(values: pa.Array) -> pa.Array:  # both are local functions: workers can't import this module
        return pc.binary_length(values).cast(pa.int32())

    def of_table(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pc.binary_length(batch.column(0)).cast(pa.int32())], ["length"])

    by_column = frame.select(F.arrow_udf(of_column, IntegerType())(column))  # type: ignore[attr-defined]  # not in PySpark's stubs
    return by_column, frame.select(column).mapInArrow(of_table, "length INT")


def ready_made(frame: DataFrame, column: str, rows: pa.RecordBatch, of: int, schema: Any) -> DataFrame:
    """Return a table whose Python function returns ready-made rows: `KeyValueFormat.decode` if decoding took no time.

    `rows` are the rows of `of` messages. Each batch returns the average number of rows for its messages.
    """
    text = rows.serialize().to_pybytes()
    types = rows.schema.serialize().to_pybytes()
    share = rows.num_rows / of

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        known = pa.ipc.read_schema(pa.py_buffer(types))
        ready = pa.ipc.read_record_batch(pa.py_buffer(text), known)
        for batch in batches:
            yield ready.slice(0, min(round(len(batch) * share), len(ready)))

    return frame.select(column).mapInArrow(made, schema)


def ready_made_column(column: str, values: pa.Array, schema: Any) -> Column:
    """Return a Column of ready-made rows or lists of rows: `decode` or `decode_rows` if decoding took no time.

    `values` must be at least as many as Spark sends to Python at once.
    """
    from pyspark.sql import functions as F

    batch = pa.RecordBatch.from_arrays([values], ["rows"])
    text = batch.serialize().to_pybytes()
    types = batch.schema.serialize().to_pybytes()
    kept: list[pa.Array] = []

    def made(values: pa.Array) -> pa.Array:
        import pyarrow as pa

        if not kept:
            known = pa.ipc.read_schema(pa.py_buffer(types))
            kept.append(pa.ipc.read_record_batch(pa.py_buffer(text), known).column(0))
        return kept[0].slice(0, len(values))

    returned: Column = F.arrow_udf(made, schema)(column)  # type: ignore[attr-defined]  # not in PySpark's stubs
    return returned


def null_per_row(frame: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return two DataFrames that send rows of many columns to Python, as a Column and as a table, and get nulls back.

    They measure little else than the transport to Python.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import IntegerType

    def of_column(values: pa.Array) -> pa.Array:  # both are local functions: workers can't import this module
        return pa.nulls(len(values), pa.int32())

    def of_table(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pa.nulls(len(batch), pa.int32())], ["n"])

    by_column = frame.select(F.arrow_udf(of_column, IntegerType())(F.struct(*frame.columns)))  # type: ignore[attr-defined]  # not in PySpark's stubs
    return by_column, frame.mapInArrow(of_table, "n INT")


def identity(column: str) -> Column:
    """Return a binary column that goes to Python and comes back unchanged. Every Arrow UDF costs at least this."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType

    def same(values: pa.Array) -> pa.Array:  # local, so that it is pickled with its code: workers can't import it
        return values

    returned: Column = F.arrow_udf(same, BinaryType())(column)  # type: ignore[attr-defined]  # not in PySpark's stubs
    return returned


def expect_equal(frame: DataFrame, ours: Column, theirs: Column) -> None:
    """Raise an error if two columns do not give the same values in the first `COMPARED` rows."""
    from pyspark.sql import functions as F

    few = frame.limit(COMPARED).select(ours.alias("ours"), theirs.alias("theirs"))
    differ = ~F.col("ours").eqNullSafe(F.col("theirs"))
    if "map<" in few.schema["ours"].dataType.simpleString():  # Spark can't compare maps
        full = {"ignoreNullFields": "false"}
        differ = ~F.to_json("ours", full).eqNullSafe(F.to_json("theirs", full))
    wrong = few.where(differ)
    count = wrong.count()
    if count:
        first = wrong.first()
        raise AssertionError(f"{count} of {COMPARED} rows differ from the yardstick's; the first: {first}")
