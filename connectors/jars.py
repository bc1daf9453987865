"""Errors that say how to get Spark's Kafka source and sink, which are a separate package."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvformat.registry.contract.errors import ConfigurationError, MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The error class in PySpark 4.1 to 4.3, classic and Connect, or the text of the error without a class for Kafka.
_MISSING = re.compile(r"DATA_SOURCE_NOT_FOUND|Failed to find (?:the )?data source:\s*\W?kafka", re.IGNORECASE)


# The Kafka source in the names of jars and packages, and its version.
_JAR = re.compile(r"spark-sql-kafka-0-10_[\d.]+[-:](\d+)\.(\d+)([\w.-]*?)(?=\.jar\b|[,\s]|$)")
_JARS = ("spark.jars", "spark.jars.packages")
# From this version on Spark uses other classes for streams: a source made for the other side fails.
_STREAMS_CHANGED = (4, 2)


def check_stream_jar(spark: SparkSession) -> None:
    """Raise `ConfigurationError` if the session's Kafka source was made for an incompatible version of Spark.

    A streaming query would fail with a `NoSuchMethodError` of `HDFSMetadataLog`. Checks jars in the settings
    of the session, not those among Spark's own jars.
    """
    running = re.match(r"(\d+)\.(\d+)", spark.version)
    given = ",".join(spark.conf.get(name, "") or "" for name in _JARS)
    for major, minor, rest in _JAR.findall(given):
        old = (int(major), int(minor)) < _STREAMS_CHANGED
        if running and old != ((int(running[1]), int(running[2])) < _STREAMS_CHANGED):
            raise ConfigurationError(
                f"the session has spark-sql-kafka-0-10 {major}.{minor}{rest}, which does not fit the streams of Spark "
                f"{spark.version}: a query would fail with a NoSuchMethodError of HDFSMetadataLog. Start the "
                f"session with org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}, the version of Spark"
            )


@contextlib.contextmanager
def kafka_source_missing(spark: SparkSession) -> Iterator[None]:
    """Use Spark's Kafka source or sink in this context; if it is missing, `MissingExtraError` says what to install.

    Classic Spark looks it up when a DataFrame is made, Spark Connect when its schema or a result is requested.
    """
    try:
        yield
    except Exception as cause:  # of Py4J, PySpark or Connect, by the kind of session
        if not _MISSING.search(str(cause)):
            raise
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise MissingExtraError(
            "the Spark session has no Kafka source and sink, which are a separate package: start the session with "
            f"spark.jars.packages={package} (SparkSession.builder.config('spark.jars.packages', '{package}'), or "
            f"spark-submit --packages {package}); a running session can't load it"
        ) from cause
