"""What the benchmarks share of Spark: a session, cached input, and a sink that costs nothing."""

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
    """The tables as one DataFrame that Spark holds in memory, in a session that ends with the block.

    A job costs 0.1 to 0.3 CPU seconds whatever it reads. For that to be little beside large messages without holding
    gigabytes of them, a job can read what is held several `times`, in no more tasks.

    `settings` are further settings of the session, such as `spark.jars`. They only take effect when a process makes
    its first session, so all parts of a benchmark should ask for the same ones.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers need what this process has
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
    """Messages as what `cached_frame` takes, their column `value`."""
    for start in range(0, len(messages), _CHUNK):
        yield pa.table({"value": pa.array(messages[start : start + _CHUNK], pa.binary())})


def _write_parquet(tables: Iterable[pa.Table], path: str) -> None:
    writer: pq.ParquetWriter | None = None
    for table in tables:
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table)
    if writer is not None:
        writer.close()


def into_nothing(frame: DataFrame, *columns: Column) -> Task:
    """A task that computes the columns for every row and throws them away."""
    return lambda: frame.select(*columns).write.format("noop").mode("overwrite").save()


def written(frame: DataFrame) -> Task:
    """A task that computes the whole frame and throws it away."""
    return lambda: frame.write.format("noop").mode("overwrite").save()


def lengths(frame: DataFrame, column: str) -> tuple[DataFrame, DataFrame]:
    """The length of each message, from Python by a Column and by a table: nearly only the way there."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import IntegerType

    def of_column(values: pa.Array) -> pa.Array:  # both local: workers can't import this
        return pc.binary_length(values).cast(pa.int32())

    def of_table(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pc.binary_length(batch.column(0)).cast(pa.int32())], ["length"])

    by_column = frame.select(F.arrow_udf(of_column, IntegerType())(column))  # type: ignore[attr-defined]  # not in PySpark's stubs
    return by_column, frame.select(column).mapInArrow(of_table, "length INT")


def ready_made(frame: DataFrame, column: str, rows: pa.RecordBatch, of: int, schema: Any) -> DataFrame:
    """Rows that a table in Python has ready for its messages: `KeyValueFormat.decode` with a kernel of no cost.

    `rows` are those of `of` messages; each batch gets as many of them as belong to its messages on average.
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


def ready_made_lists(column: str, lists: pa.ListArray, schema: Any) -> Column:
    """The same as a Column of lists of rows: `decode_rows` with a kernel of no cost."""
    from pyspark.sql import functions as F

    batch = pa.RecordBatch.from_arrays([lists], ["rows"])
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


def counted(frame: DataFrame) -> tuple[DataFrame, DataFrame]:
    """A null per row of many columns, from Python by a Column and by a table: nearly only the way there."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import IntegerType

    def of_column(values: pa.Array) -> pa.Array:  # both local: workers can't import this
        return pa.nulls(len(values), pa.int32())

    def of_table(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pa.nulls(len(batch), pa.int32())], ["n"])

    by_column = frame.select(F.arrow_udf(of_column, IntegerType())(F.struct(*frame.columns)))  # type: ignore[attr-defined]  # not in PySpark's stubs
    return by_column, frame.mapInArrow(of_table, "n INT")


def identity(column: str) -> Column:
    """A binary column that goes to Python and comes back as it is: what any Arrow UDF on it costs at least."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType

    def same(values: pa.Array) -> pa.Array:  # local, so that it is pickled with its code: workers can't import this
        return values

    returned: Column = F.arrow_udf(same, BinaryType())(column)  # type: ignore[attr-defined]  # not in PySpark's stubs
    return returned


def expect_equal(frame: DataFrame, ours: Column, theirs: Column) -> None:
    """Fail where two columns that are about to be compared in speed don't give the same values."""
    from pyspark.sql import functions as F

    few = frame.limit(COMPARED).select(ours.alias("ours"), theirs.alias("theirs"))
    differ = ~F.col("ours").eqNullSafe(F.col("theirs"))
    if "map<" in few.schema["ours"].dataType.simpleString():  # Spark can't compare these
        full = {"ignoreNullFields": "false"}
        differ = ~F.to_json("ours", full).eqNullSafe(F.to_json("theirs", full))
    wrong = few.where(differ)
    count = wrong.count()
    if count:
        first = wrong.first()
        raise AssertionError(f"{count} of {COMPARED} rows differ from the yardstick's; the first: {first}")
