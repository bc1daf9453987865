"""The first real job: Kafka records that real Flink wrote become a table, and the same bytes again; then Debezium's.

Run it with `scripts/demo`. It reads fixtures/interop/, where each file holds a Flink `CREATE TABLE` and the records
that Flink wrote for it, decodes keys and values in Spark, shows the table, shows what a broken record does,
encodes the rows again and compares the bytes with Flink's. Then demo_changes.py makes tables of two Debezium topics.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from codecs import get_format
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from demo_changes import show_changes
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

RECORDS = Path(__file__).parent.parent / "fixtures" / "interop"
_VALUE = (
    "name STRING, amount DECIMAL(10, 2), dbl DOUBLE, flag BOOLEAN, {}d DATE, t TIME, ts TIMESTAMP(3), "
    "arr ARRAY<INT>, rec ROW<a INT, b STRING>, bin BYTES, m MAP<STRING, BIGINT>"
)


class Topic(NamedTuple):
    """A topic: which formats its keys and values have, and their columns."""

    name: str
    key_format: str
    key: str
    value_format: str
    value: str
    broken: bytes


TOPICS = (
    Topic(
        "kafka_json_json_all",
        "json",
        "code STRING, id INT",
        "json",
        "id INT, code STRING, " + _VALUE.format(""),
        b'{"id": 4, "amount": "a lot"}',
    ),
    Topic(
        "kafka_raw_json_prefix",
        "raw",
        "k_id INT",
        "json",
        "id BIGINT, " + _VALUE.format("k_code STRING, "),
        b'{"id": 50, "ts": "2024-02-',
    ),
    Topic(
        "upsert_raw_json",
        "raw",
        "k1 STRING",
        "json",
        "k1 STRING, cnt BIGINT, total BIGINT, dec DECIMAL(12, 2)",
        b'{"k1": "a", "cnt": [1]}',
    ),
)


def main() -> None:
    """Run the job over all topics and print the sums."""
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("kvformat demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.timeType.enabled", "true")  # Spark keeps its TIME type behind a setting
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    totals = [0, 0, 0, 0]
    for topic in TOPICS:
        totals = [a + b for a, b in zip(totals, show(spark, topic), strict=True)]
    show_changes(spark)
    spark.stop()
    decoded, bad, encoded, equal = totals
    print(
        f"{decoded} records decoded, {bad} bad kept, {encoded} encoded again, {equal} of {encoded} equal Flink's bytes"
    )


def show(spark: SparkSession, topic: Topic) -> tuple[int, int, int, int]:
    """Decode, show and encode one topic; returns records decoded, bad ones kept, encoded again, equal to Flink's."""
    print(f"\n== {topic.name}: key.format={topic.key_format}, value.format={topic.value_format} ==\n")
    key, value = get_format(topic.key_format), get_format(topic.value_format)
    records = read(spark, topic)
    broken = records.limit(1).withColumn("value", F.lit(topic.broken))

    decoded = records.union(broken).select(
        "*",
        key.decode("key", topic.key, errors="capture").alias("k"),
        value.decode("value", topic.value, errors="capture").alias("v"),
    )
    decoded = decoded.select("*", F.coalesce("k.error", "v.error").alias("error")).cache()
    good, bad = decoded.where("error IS NULL"), decoded.where("error IS NOT NULL")

    keys = good.select("k.row.*").columns
    rest = [f"v.row.`{name}`" for name in good.select("v.row.*").columns if name not in keys]
    good.orderBy("partition", "offset").select("k.row.*", *rest).show(truncate=22)
    print("A broken record costs its neighbours nothing, and it is kept:\n")
    bad.select("error.reason", F.col("error.message").cast("string").alias("message")).show(truncate=False)

    again = good.select(
        "key", "value", key.encode("k.row", topic.key).alias("key2"), value.encode("v.row", topic.value).alias("value2")
    )
    same = again.where("key <=> key2 AND value <=> value2").count()
    return good.count(), bad.count(), again.count(), same


def read(spark: SparkSession, topic: Topic) -> DataFrame:
    """The records as Spark's Kafka source gives them."""

    def data(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    lines = (RECORDS / f"{topic.name}.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    rows: list[Any] = [json.loads(line) for line in lines]
    return spark.createDataFrame(
        [(r["partition"], r["offset"], data(r["key"]), data(r["value"])) for r in rows],
        "partition INT, offset BIGINT, key BINARY, value BINARY",
    )


if __name__ == "__main__":
    main()
