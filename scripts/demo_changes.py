"""The part of the demo about changes: it turns Debezium topics into tables.

It reads two topics of fixtures/recordings/. Debezium's connectors wrote them for a table in MariaDB and a table in
PostgreSQL. They have snapshot reads, creates, updates, deletes and tombstones. The connectors were set to
`decimal.handling.mode=string`. Dates and wall clock times are numbers in the messages, and Spark SQL converts them to
dates and timestamps.
"""

from __future__ import annotations

import json
import lzma
from codecs import explode_changes, get_format, latest_by_key
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

RECORDINGS = Path(__file__).parent.parent / "fixtures" / "recordings"


class Topic(NamedTuple):
    """A topic with its format's options, the columns of its messages, and the expressions of the table's columns."""

    name: str
    recording: str
    connector: str
    options: dict[str, str]
    columns: str
    key: str
    table: tuple[str, ...]


TOPICS = (
    Topic(
        "shop.inventory.orders",
        "orders",
        "MariaDB, messages with their schema",
        {"schema-include": "true", "timestamp-format.standard": "ISO-8601"},
        "order_id INT, customer STRING, amount DECIMAL(10, 2), status STRING, order_date INT, created_at BIGINT, "
        "updated_at TIMESTAMP_LTZ(3)",
        "order_id",
        (
            "order_id",
            "customer",
            "amount",
            "status",
            "date_from_unix_date(order_date) AS order_date",
            "TIMESTAMP_NTZ'1970-01-01' + make_dt_interval(0, 0, 0, created_at / 1000000BD) AS created_at",
            "updated_at",
        ),
    ),
    Topic(
        "bank.public.accounts",
        "accounts",
        "PostgreSQL, messages without a schema",
        {"timestamp-format.standard": "ISO-8601"},
        "account_id BIGINT, owner STRING, balance DECIMAL(14, 2), active BOOLEAN, opened INT, last_seen BIGINT, "
        "updated_at TIMESTAMP_LTZ(6)",
        "account_id",
        (
            "account_id",
            "owner",
            "balance",
            "active",
            "date_from_unix_date(opened) AS opened",
            "TIMESTAMP_NTZ'1970-01-01' + make_dt_interval(0, 0, 0, last_seen / 1000000BD) AS last_seen",
            "updated_at",
        ),
    ),
)


def show_changes(spark: SparkSession) -> None:
    """Show both topics: first some changes, then the table that results from all changes."""
    for topic in TOPICS:
        print(f"\n== {topic.name}: a Debezium topic becomes a table ({topic.connector}) ==\n")
        records = read(spark, topic)
        changes = changes_of(topic, records)
        counts = records.count(), records.where("value IS NULL").count(), changes.count()
        print("{} records, {} of them tombstones, have {} changes. The last changes:\n".format(*counts))
        newest = changes.orderBy(F.desc("offset"), F.desc("row_index")).limit(5).orderBy("offset", "row_index")
        newest.select("offset", "row_index", "row_kind", *changes.columns[2:8]).show(truncate=22)
        rows = table(topic, changes).orderBy(topic.key)
        print(f"The table after all changes, {rows.count()} rows:\n")
        rows.show(truncate=False)


def changes_of(topic: Topic, records: DataFrame) -> DataFrame:
    """Return the changes of a topic, with the columns that give Kafka's order."""
    fmt = get_format("debezium-json", topic.options)
    return explode_changes(records, fmt.decode_rows("value", topic.columns), keep=["partition", "offset"])


def table(topic: Topic, changes: DataFrame) -> DataFrame:
    """Return the current rows of the table, with dates and timestamps."""
    return latest_by_key(changes, topic.key).selectExpr(*topic.table)


def read(spark: SparkSession, topic: Topic) -> DataFrame:
    """Return the records in the form of Spark's Kafka source."""
    with lzma.open(RECORDINGS / topic.recording / "records.jsonl.xz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return spark.createDataFrame(
        [(r["partition"], r["offset"], r["key"].encode(), r["value"] and r["value"].encode()) for r in rows],
        "partition INT, offset BIGINT, key BINARY, value BINARY",
    )
