"""Errors that say how to get Spark's Kafka source and sink, which are a separate package."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvformat.registry.contract.errors import ConfigurationError, KafkaSourceWarning, MissingExtraError
from kvformat.registry.spark.workers import spark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The error class in PySpark 4.1 to 4.3, classic and Connect, or the text of the error without a class for Kafka.
_MISSING = re.compile(r"DATA_SOURCE_NOT_FOUND|Failed to find (?:the )?data source:\s*\W?kafka", re.IGNORECASE)


# The Kafka source in the names of jars and packages, and its version.
_JAR = re.compile(r"spark-sql-kafka-0-10_[\d.]+[-:](\d+)\.(\d+)([\w.-]*?)(?=\.jar\b|[,\s]|$)")
_JARS = ("spark.jars", "spark.jars.packages")
# From this version on Spark uses other classes for streams: a source made for the other side fails.
_STREAMS_CHANGED = (4, 2)
# Versions whose progress report fails after a batch that runs again (SPARK-55271), and the setting with which Spark
# uses its older Kafka source, which has no such report.
_FAILS_AFTER_REPEAT = re.compile(r"4\.1\.[0-2](?!\d)")
_OLDER_SOURCE = "spark.sql.streaming.disabledV2MicroBatchReaders"
_KAFKA_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def check_stream_jar(spark: SparkSession) -> None:
    """Raise `ConfigurationError` if the session's Kafka source was made for an incompatible version of Spark.

    A streaming query would fail with a `NoSuchMethodError` of `HDFSMetadataLog`. Warns of a version that ends a query
    after a batch that runs again. Checks jars in the settings of the session, not those among Spark's own jars.
    """
    running = re.match(r"(\d+)\.(\d+)", spark_version(spark))
    jars = ",".join(spark.conf.get(name, "") or "" for name in _JARS)
    for major, minor, rest in _JAR.findall(jars):
        old = (int(major), int(minor)) < _STREAMS_CHANGED
        if running and old != ((int(running[1]), int(running[2])) < _STREAMS_CHANGED):
            raise ConfigurationError(
                f"the session has spark-sql-kafka-0-10 {major}.{minor}{rest}, which does not fit the streams of Spark "
                f"{spark.version}: a query would fail with a NoSuchMethodError of HDFSMetadataLog. Start the "
                f"session with org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}, the version of Spark"
            )
        version = f"{major}.{minor}{rest}"
        if _FAILS_AFTER_REPEAT.match(version) and _KAFKA_PROVIDER not in (spark.conf.get(_OLDER_SOURCE, "") or ""):
            warnings.warn(
                f"the session has spark-sql-kafka-0-10 {version}. A query that runs a batch again, as the first start "
                "after a failure does, ends after it with a NullPointerException in KafkaMicroBatchStream.metrics. The "
                "batch is complete, and the next start continues. To avoid that, start the session with "
                "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3, or set "
                f"'{_OLDER_SOURCE}' to '{_KAFKA_PROVIDER}' before the query starts",
                KafkaSourceWarning,
                stacklevel=4,
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
            f"spark-submit --packages {package}); a running session can't load it. Without a jar, kvformat[kafka] on "
            "the driver and the workers reads, and writes at least once: df.write.format('kvformat'), "
            "df.writeStream.format('kvformat')"
        ) from cause
