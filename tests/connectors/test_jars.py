"""A session without Spark's Kafka source and sink."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kvformat.connectors.jars import check_stream_jar, kafka_source_missing
from kvformat.registry.contract.errors import ConfigurationError, KafkaSourceWarning

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from kvformat.connectors import KafkaTable
from kvformat.connectors.jars import kafka_source_missing
from kvformat.registry.contract.errors import MissingExtraError

builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
builder = builder.remote("local[1]") if sys.argv[1] == "connect" else builder.master("local[1]")
spark = builder.getOrCreate()
table = KafkaTable.from_ddl("CREATE TABLE t (id INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', "
    "'properties.bootstrap.servers' = '127.0.0.1:1', 'scan.startup.mode' = 'earliest-offset')")

def write(_):
    with kafka_source_missing(spark):
        spark.range(1).selectExpr("CAST('a' AS BINARY) AS value").write.format("kafka").option("topic", "t").save()

words = "the Spark session has no Kafka source and sink"
package = f"spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
for use in (table.read, table.read_stream, table.records, table.records_stream, write):
    try:
        use(spark) if use is write else use(spark, source="spark")
    except MissingExtraError as error:
        told = str(error).startswith(words) and package in str(error) and error.__cause__ is not None
        print("told" if told else error)
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
def test_session_without_kafka_source_gets_advice(request: pytest.FixtureRequest) -> None:
    """Runs in another process, because the test session has the source; the errors there come from Spark."""
    environment = {**os.environ, "SPARK_TESTING": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, request.config.getoption("--spark-mode")],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert run.stdout.split() == ["told"] * 5, run.stdout + run.stderr[-3000:]


def test_other_errors_are_not_changed() -> None:
    with pytest.raises(ValueError, match="another"), kafka_source_missing(None):  # type: ignore[arg-type]
        raise ValueError("another")


class _Session:
    """A fake session with only the attributes that the check reads."""

    def __init__(self, version: str, **settings: str) -> None:
        self.version, self.conf = version, {name.replace("_", "."): text for name, text in settings.items()}


PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"
OLDER_SOURCE = {
    "spark_sql_streaming_disabledV2MicroBatchReaders": "x.Y,org.apache.spark.sql.kafka010.KafkaSourceProvider"
}


@pytest.mark.parametrize(
    ("version", "settings"),
    [
        ("4.3.0", {"spark_jars_packages": f"a:b:1.0,{PACKAGE}:4.1.1"}),
        ("4.2.0", {"spark_jars": "file:///jars/spark-sql-kafka-0-10_2.13-4.0.2.jar,/jars/kafka-clients-3.9.2.jar"}),
        ("4.1.1", {"spark_jars": "/a.jar,/jars/spark-sql-kafka-0-10_2.13-4.2.0-preview1.jar"}),
    ],
)
def test_warning_if_the_kafka_source_is_of_another_spark(version: str, settings: dict[str, str]) -> None:
    """With the source of 4.1.1 on Spark 4.3.0, the query fails with NoSuchMethodError when it runs."""
    words = rf"spark-sql-kafka-0-10 4\.\d.* the streams of Spark {version}.*HDFSMetadataLog.*_2\.13:{version}"
    with pytest.raises(ConfigurationError, match=words):
        check_stream_jar(_Session(version, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "settings"),
    [
        ("4.3.0", {"spark_jars": "/jars/spark-sql-kafka-0-10_2.13-4.2.0.jar"}),
        ("4.1.1", {"spark_jars_packages": f"{PACKAGE}:4.1.3"}),
        ("4.1.1", {"spark_jars_packages": f"{PACKAGE}:4.1.1", **OLDER_SOURCE}),
        ("4.1.1", {"spark_jars_packages": "a:b:1.0"}),
        ("4.3.0", {}),
    ],
)
def test_no_warning_for_kafka_sources_known_to_work(version: str, settings: dict[str, str]) -> None:
    check_stream_jar(_Session(version, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [{"spark_jars_packages": f"{PACKAGE}:4.1.0"}, {"spark_jars": "/jars/spark-sql-kafka-0-10_2.13-4.1.2.jar"}],
)
def test_warning_if_the_kafka_source_fails_after_a_repeated_batch(settings: dict[str, str]) -> None:
    with pytest.warns(KafkaSourceWarning, match=r"KafkaMicroBatchStream.*_2\.13:4\.1\.3, or set "):
        check_stream_jar(_Session("4.1.1", **settings))  # type: ignore[arg-type]
