"""Small files that Spark reads and writes: notes of a query, which another process may replace at the same time."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, Row, SparkSession

_GLOB = re.compile(r"([\\{}\[\]*?])")
"""Characters that Spark takes for a pattern in a path."""


def literal_path(path: str) -> str:
    """Return a path that Spark does not take for a pattern."""
    return _GLOB.sub(r"\\\1", path.rstrip("/"))


def uncached_reader(spark: SparkSession) -> DataFrameReader:
    """Return a reader that lists the files now. Spark Connect's server caches plans and the files listed for them.

    Spark ignores the option, but plans with different options are not equal.
    """
    return spark.read.option("kvformat.looked-at", uuid.uuid4().hex)


def note_rows(spark: SparkSession, folder: str, format: Literal["json", "text"], schema: str) -> list[Row]:
    """Return the rows of a file, or of all below a folder, without an error for one that is replaced at the same time.

    `folder` may be missing. `schema` is the columns in DDL.
    """
    return rows_below(uncached_reader(spark).schema(schema).format(format), folder)


def rows_below(reader: DataFrameReader, folder: str, *columns: str) -> list[Row]:
    """Return the rows of a file, or of all files below a folder, or only some columns; none if there is none."""
    from pyspark.errors import AnalysisException

    folder = literal_path(folder)
    recursive = reader.options(recursiveFileLookup="true", ignoreMissingFiles="true")
    try:
        # In one path, Spark looks for the log of a streaming sink, and logs a stack trace if there is no folder.
        return recursive.load([folder, folder]).select(*columns or "*").collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return []
