"""What the benchmarks share of Spark: a session, cached input, and a sink that costs nothing."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from _measure import Task

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COMPARED = 20_000


@contextmanager
def cached_frame(tables: Iterable[pa.Table], settings: Mapping[str, str] = {}) -> Iterator[DataFrame]:
    """The tables as one DataFrame that Spark holds in memory, in a session that ends with the block.

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
            frame = spark.read.parquet(path).repartition(2 * spark.sparkContext.defaultParallelism).cache()
            frame.count()
            yield frame
        finally:
            spark.stop()


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
    wrong = frame.limit(COMPARED).where(~ours.eqNullSafe(theirs)).count()
    if wrong:
        raise AssertionError(f"{wrong} of {COMPARED} rows differ from the yardstick's")
