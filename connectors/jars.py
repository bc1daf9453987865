"""Spark's Kafka source and sink are a package of their own: where it is missing, an error says how to get it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvformat.registry.contract.errors import ConfigurationError, MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Classic and Connect, 4.1 to 4.3: the error class, or the words of the class without a name that Kafka has of its own.
_MISSING = re.compile(r"DATA_SOURCE_NOT_FOUND|Failed to find (?:the )?data source:\s*\W?kafka", re.IGNORECASE)


# The Kafka source in the names of jars and packages, and its version.
_JAR = re.compile(r"spark-sql-kafka-0-10_[\d.]+[-:](\d+)\.(\d+)([\w.-]*?)(?=\.jar\b|[,\s]|$)")
_JARS = ("spark.jars", "spark.jars.packages")
# Spark that streams by another class than the one before: a source of one side of it fails with the other side's.
_STREAMS_CHANGED = (4, 2)


def check_stream_jar(spark: SparkSession) -> None:
    """Raise `ConfigurationError` where the session's Kafka source is made for a Spark whose streams are others.

    The query itself would end in a `NoSuchMethodError` of `HDFSMetadataLog`. Batches work with either. What is not in
    the settings of the session, but among Spark's own jars, is not seen.
    """
    running = re.match(r"(\d+)\.(\d+)", spark.version)
    given = ",".join(spark.conf.get(name, "") or "" for name in _JARS)
    for major, minor, rest in _JAR.findall(given):
        old = (int(major), int(minor)) < _STREAMS_CHANGED
        if running and old != ((int(running[1]), int(running[2])) < _STREAMS_CHANGED):
            raise ConfigurationError(
                f"the session has spark-sql-kafka-0-10 {major}.{minor}{rest} and Spark is {spark.version}, "
                "whose streams are others: a query would fail with a NoSuchMethodError of HDFSMetadataLog. Start the "
                f"session with org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}, the version of Spark"
            )


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
