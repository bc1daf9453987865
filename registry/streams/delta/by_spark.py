"""Merges that are too large for the driver: Spark joins the changes with the files that have their keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND, exact_column
from kvformat.registry.streams.delta.files import DataFile
from kvformat.registry.streams.delta.storage import TableStorage
from kvformat.registry.streams.delta.transfer import Transferred, transferred

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FILE = "_kvformat_file"


def read_files(
    spark: SparkSession, storage: TableStorage, files: Sequence[DataFile], columns: StructType, *more: Column
) -> DataFrame:
    """Return the rows of files, without Delta's package. `more` are columns of Spark's metadata of files."""
    if not files:
        return spark.createDataFrame([], columns)
    reader = spark.read.schema(columns).option("datetimeRebaseMode", "CORRECTED")
    rows = reader.parquet(*(storage.for_spark(file.name) for file in files))
    return rows.select(*(exact_column(name) for name in columns.names), *more)


def merged_by_tasks(
    storage: TableStorage,
    files: Sequence[DataFile],
    columns: StructType,
    schema: pa.Schema,
    changes: DataFrame,
    keys: Sequence[str],
    most_bytes: int,
) -> tuple[list[DataFile], Transferred]:
    """Return the files that have keys of the changes, and the rows that replace them and the changes.

    `most_bytes` is for the rows that tasks return; they write the others to files. `schema` is `columns` in Arrow.
    """
    from pyspark.sql import functions as F

    spark = changes.sparkSession
    missing = [name for name in columns.names if name not in changes.columns]
    if missing:  # columns that the batch does not know keep their values
        names = F.array(*map(F.lit, missing))
        unchanged = (
            F.array_union(F.coalesce(F.col(UNCHANGED), F.array()), names) if UNCHANGED in changes.columns else names
        )
        nulls = {name: F.lit(None).cast(columns[name].dataType) for name in missing}
        changes = changes.withColumns({**nulls, UNCHANGED: unchanged})
    changes = changes.persist()
    try:
        of_files = read_files(spark, storage, files, columns, F.col("_metadata.file_name").alias(_FILE))
        lines = of_files.join(_renamed_keys(changes, keys), _same_key(keys), "left_semi").select(_FILE).distinct()
        with_keys = {row[_FILE] for row in lines.collect()}
        touched = [file for file in files if file.name in with_keys]
        rows = merged_rows(read_files(spark, storage, touched, columns), changes, keys)
        rows = rows.select(*map(exact_column, columns.names))
        return touched, transferred(rows, schema, most_bytes, storage)
    finally:
        changes.unpersist()


def merged_rows(old: DataFrame, changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the rows of a table after changes: one per key, with `row_kind` '+U' (write) or '-D' (delete).

    `old` has the columns of the table. `changes` has these columns too, and may have `row_index` and
    `unchanged_columns`.
    """
    from pyspark.sql import functions as F

    from kvformat.registry.streams.unchanged_columns import with_old_values

    rows = changes.where(F.col(ROW_KIND) == "+U").drop(ROW_KIND, ROW_INDEX)
    table = with_old_values(rows, old, keys) if UNCHANGED in rows.columns else rows
    return old.join(_renamed_keys(changes, keys), _same_key(keys), "left_anti").unionByName(table)


def _renamed_keys(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    return changes.select(*(exact_column(name).alias(f"_kvformat_key{n}") for n, name in enumerate(keys)))


def _same_key(keys: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as F

    return [exact_column(name).eqNullSafe(F.col(f"_kvformat_key{n}")) for n, name in enumerate(keys)]
