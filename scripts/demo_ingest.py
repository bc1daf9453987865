"""The part of the demo about ingestion: a topic without a declared schema becomes two tables.

Debezium's messages of two tables of a shop are on one topic. Between two batches, the source table `orders` is altered:
ALTER TABLE orders ADD COLUMN paid BOOLEAN, and prices get fractions. No column and no type is declared.
"""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from kvformat.ingestion import ingest, read_table

RECORDS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
"""The columns of Spark's Kafka source. With a broker, `ingest` gets the topic's name instead of a stream."""
Row = dict[str, Any]
Change = tuple[str, Row | None, Row | None]
"""The name of a table, and its row before and after the change."""
BEFORE_ALTER: list[Change] = [
    ("customers", None, {"id": 1, "name": "Ada", "since": "2024-02-29"}),
    ("customers", None, {"id": 2, "name": "Bo", "since": "2024-03-01"}),
    ("orders", None, {"id": 7, "customer": 1, "price": 12}),
    ("orders", None, {"id": 8, "customer": 2, "price": 5}),
    ("customers", {"id": 2, "name": "Bo", "since": "2024-03-01"}, {"id": 2, "name": "Bo B.", "since": "2024-03-01"}),
]
AFTER_ALTER: list[Change] = [
    ("orders", None, {"id": 9, "customer": 1, "price": 0.5, "paid": True}),
    ("orders", {"id": 7, "customer": 1, "price": 12}, {"id": 7, "customer": 1, "price": 12, "paid": False}),
    ("orders", {"id": 8, "customer": 2, "price": 5}, None),
]


def show_ingestion(spark: SparkSession) -> None:
    """Ingest the topic in two batches, and show both tables after each."""
    print("\n== shop: a topic of two tables, one of which is altered, becomes two tables (no declared schema) ==")
    with tempfile.TemporaryDirectory() as folder:
        first = 0
        for what, changes in (("before", BEFORE_ALTER), ("after", AFTER_ALTER)):
            records = [record(offset, change) for offset, change in enumerate(changes, first)]
            spark.createDataFrame(records, RECORDS).coalesce(1).write.mode("append").parquet(f"{folder}/topic")
            first += len(records)
            run_once(spark, folder)
            print(f"\n{len(records)} messages {what} ALTER TABLE orders ADD COLUMN paid. The tables now:\n")
            for table in ("shop.customers", "shop.orders"):
                rows = read_table(spark, f"{folder}/lake", table)
                print(f"{table}: {', '.join(f'{name} {kind.upper()}' for name, kind in rows.dtypes)}")
                rows.orderBy("id").show()
        show_without_spark(f"{folder}/lake/shop.orders")


def show_without_spark(folder: str) -> None:
    """Show a table as DuckDB reads it: the tables are Delta tables for every tool."""
    orders = duckdb.from_arrow(pa.table(DeltaTable(folder).scan()))
    print("shop.orders is a Delta table. DuckDB reads it without Spark:\n")
    print(orders.aggregate("customer, count(*) AS orders, sum(price) AS price", "customer").order("customer"))


def run_once(spark: SparkSession, folder: str) -> None:
    """Ingest the records that are new, as a scheduled job does. The checkpoint has the offsets and the schemas."""
    query = ingest(
        spark,
        spark.readStream.schema(RECORDS).parquet(f"{folder}/topic"),
        f"{folder}/lake",
        options={"value.format": "debezium-json"},
        transform=[{"source-table": r"shop.\.*", "primary-keys": "id"}],
        checkpoint_location=f"{folder}/checkpoint",
        trigger={"availableNow": True},
    )
    query.awaitTermination()


def record(offset: int, change: Change) -> tuple[Any, ...]:
    """Return a change as a record of the topic `shop`."""
    table, before, after = change
    operation = "c" if before is None else "d" if after is None else "u"
    message = {"before": before, "after": after, "op": operation, "source": {"db": "shop", "table": table}}
    return None, json.dumps(message).encode(), "shop", 0, offset, datetime.now(UTC)
