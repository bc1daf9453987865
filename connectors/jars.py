"""Spark's Kafka source and sink are a package of their own: where it is missing, an error says how to get it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvformat.registry.errors import MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Classic and Connect, 4.1 to 4.3: the error class, or the words of the class without a name that Kafka has of its own.
_MISSING = re.compile(r"DATA_SOURCE_NOT_FOUND|Failed to find (?:the )?data source:\s*\W?kafka", re.IGNORECASE)


@contextlib.contextmanager
def kafka_source_missing(spark: SparkSession) -> Iterator[None]:
    """Look for Spark's Kafka source, or sink, in this context: `MissingExtraError` says what to add to the session.

    Classic Spark looks when a DataFrame is made; Spark Connect when its schema, or the result of a job, is asked for.
    """
    try:
        yield
    except Exception as cause:  # of Py4J, PySpark or Connect, by the kind of session
        if not _MISSING.search(str(cause)):
            raise
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise MissingExtraError(
            "the Spark session has no Kafka source and sink, which are a package of their own: start it with "
            f"spark.jars.packages={package} (SparkSession.builder.config('spark.jars.packages', '{package}'), or "
            f"spark-submit --packages {package}); a session that runs can't take it up"
        ) from cause
