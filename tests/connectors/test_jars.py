"""A session without Spark's Kafka source and sink."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kvformat.connectors.jars import kafka_source_missing

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from kvformat.connectors import KafkaTable
from kvformat.connectors.jars import kafka_source_missing
from kvformat.registry.errors import MissingExtraError

builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
builder = builder.remote("local[1]") if sys.argv[1] == "connect" else builder.master("local[1]")
spark = builder.getOrCreate()
table = KafkaTable.from_ddl("CREATE TABLE t (id INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', "
    "'properties.bootstrap.servers' = '127.0.0.1:1', 'scan.startup.mode' = 'earliest-offset')")

def write(_):
    with kafka_source_missing(spark):
        spark.range(1).selectExpr("CAST('a' AS BINARY) AS value").write.format("kafka").option("topic", "t").save()

package = f"spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
for use in (table.read, table.read_stream, table.records, table.records_stream, write):
    try:
        use(spark)
    except MissingExtraError as error:
        print("told" if package in str(error) and error.__cause__ is not None else error)
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_session_without_kafka_says_what_to_add(request: pytest.FixtureRequest) -> None:
    """The session of the tests has it, so another process is asked; its errors are Spark's own."""
    environment = {**os.environ, "SPARK_TESTING": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, request.config.getoption("--spark-mode")],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert run.stdout.split() == ["told"] * 5, run.stdout + run.stderr[-3000:]


def test_other_errors_pass() -> None:
    with pytest.raises(ValueError, match="another"), kafka_source_missing(None):  # type: ignore[arg-type]
        raise ValueError("another")
