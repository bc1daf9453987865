"""A table as Spark's own Parquet files: `KeyValueFormat.maintain` writes it, `current_table` reads it.

A path contains the last versions of the table, and a commit file for each complete version, written after it:

    rows/0 rows/1 rows/2          Parquet; the next version overwrites the oldest
    commits/0 commits/1 ...       the batch that wrote the version in the slot of this number
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Literal, Self

from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND, exact_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, Row, SparkSession

VERSIONS = 3
"""The number of versions kept: a reader has the time of two batches to finish."""
_COMMIT = "batch BIGINT, slot INT"


@dataclass(frozen=True)
class ParquetTable:
    """A table at a path: each batch that changes it writes its next version."""

    path: str
    keys: tuple[str, ...]

    @classmethod
    def at(cls, path: str | PathLike[str], keys: tuple[str, ...]) -> Self:
        """Return the table at a path."""
        return cls(folder_text(path), keys)

    def __call__(self, changes: DataFrame, batch_id: int) -> None:
        """Write the version of this batch from the version before; a repeated batch writes the same version again."""
        from pyspark.sql import functions as F

        spark = changes.sparkSession
        commits = _commits(spark, self.path)
        later = [batch for batch in commits if batch > batch_id]
        if later:
            raise ConfigurationError(
                f"'{self.path}' already has the table of batch {max(later)}, but this is batch {batch_id}: another "
                "query wrote it, or this query with another checkpoint. Give each query a path of its own, and an "
                "empty one to start anew"
            )
        before = max((batch for batch in commits if batch < batch_id), default=None)
        slot = 0 if before is None else (commits[before] + 1) % VERSIONS
        old = None
        if before is not None:
            # Columns added to the table since then are NULL.
            columns = changes.drop(ROW_KIND, ROW_INDEX, UNCHANGED).schema
            old = uncached_reader(spark).schema(columns).parquet(f"{self.path}/rows/{commits[before]}")
        table = merged_rows(old, changes, self.keys)
        table.write.mode("overwrite").parquet(f"{self.path}/rows/{slot}")
        commit = spark.range(1).select(F.lit(batch_id).cast("bigint").alias("batch"), F.lit(slot).alias("slot"))
        commit.coalesce(1).write.mode("overwrite").json(f"{self.path}/commits/{slot}")


def merged_rows(old: DataFrame | None, changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the rows of a table after changes: one per key, with `row_kind` '+U' (write) or '-D' (delete).

    `old` has the columns of the table, None for an empty table. `changes` has these columns too, and may have
    `row_index` and `unchanged_columns`.
    """
    from pyspark.sql import functions as F

    from kvformat.registry.streams.unchanged_columns import with_old_values

    rows = changes.where(F.col(ROW_KIND) == "+U").drop(ROW_KIND, ROW_INDEX)
    if old is None:
        return rows.drop(UNCHANGED)
    changed = changes.select(*(exact_column(name).alias(f"_kvformat_key{n}") for n, name in enumerate(keys)))
    same_key = [exact_column(name).eqNullSafe(F.col(f"_kvformat_key{n}")) for n, name in enumerate(keys)]
    table = with_old_values(rows, old, keys) if UNCHANGED in rows.columns else rows
    return old.join(changed, same_key, "left_anti").unionByName(table)


def current_table(spark: SparkSession, path: str | PathLike[str]) -> DataFrame:
    """Read the last complete version of a table that `KeyValueFormat.maintain` writes to a path.

    The version stays readable while the next two are written; call this again for newer rows. Raises
    `ConfigurationError` if there is no table at the path, or no complete version yet.
    """
    folder = folder_text(path)
    commits = _commits(spark, folder)
    if not commits:
        raise ConfigurationError(f"'{folder}' has no table written by maintain, or its first batch is not complete yet")
    return uncached_reader(spark).parquet(f"{folder}/rows/{commits[max(commits)]}")


def uncached_reader(spark: SparkSession) -> DataFrameReader:
    """Return a reader that lists the files now. Spark Connect's server caches plans and the files listed for them.

    Spark ignores the option, but plans with different options are not equal.
    """
    return spark.read.option("kvformat.looked-at", uuid.uuid4().hex)


def folder_text(path: str | PathLike[str]) -> str:
    """Return a folder's path without a slash at its end."""
    return os.fspath(path).rstrip("/")


def _commits(spark: SparkSession, path: str) -> dict[int, int]:
    """Return the slot of each complete version, by the batch that wrote it."""
    found = note_rows(spark, f"{path}/commits", "json", _COMMIT)
    return {row["batch"]: row["slot"] for row in found if row["batch"] is not None and row["slot"] is not None}


def note_rows(spark: SparkSession, folder: str, format: Literal["json", "text"], schema: str) -> list[Row]:
    """Return the rows of all files below a folder, without an error for a file that is replaced at the same time.

    `folder` may be missing. `schema` is the columns in DDL.
    """
    return rows_below(uncached_reader(spark).schema(schema).format(format), folder)


def rows_below(reader: DataFrameReader, folder: str, *columns: str) -> list[Row]:
    """Return the rows of all files below a folder, or only some columns; none if there is no folder."""
    from pyspark.errors import AnalysisException

    found = reader.options(recursiveFileLookup="true", ignoreMissingFiles="true")
    try:
        # In one path, Spark looks for the log of a streaming sink, and logs a stack trace if there is no folder.
        return found.load([folder, folder]).select(*columns or "*").collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return []
