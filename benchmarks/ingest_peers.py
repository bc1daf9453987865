"""Ingestion compared with the job that people write by hand: `from_json`, and a MERGE of Delta for each table.

    scripts/benchmark ingest_peers --records 100000

A topic has changes of 100 tables (Debezium, about 660 bytes). One batch of it is written

    by hand    by the function for `foreachBatch` of tutorials: `from_json` with a declared schema, the last change of
               each key by a window, and a MERGE for each table, 4 tables at a time
    ingest     by the ingestion: no schema is declared, and the tables are Delta tables, too

and then once more, so that both have tables with rows. Delta needs PySpark 4.1. Figures: `results/ingest_peers.json`.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _change_messages import Changes, debezium
from _kafka import MeasuredBroker, services
from _measure import PACKAGES, document, measure, run, table
from _orders import SCHEMA, SEED, orders
from deltalake import DeltaTable as PlainDeltaTable

from kvformat.connectors import python_source
from kvformat.ingestion import DeltaPathTarget, Pipeline
from kvformat.ingestion.query import IngestBatch, QuerySettings
from kvformat.registry import recommended_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES = 100
PARTITIONS = 2
POOL = 4
_ROW = (
    "order_id BIGINT, customer STRING, product STRING, weight DOUBLE, price DOUBLE, ordered_at STRING, paid BOOLEAN, "
    "tags STRING, address STRING"
)
_ENVELOPE = f"before STRUCT<{_ROW}>, after STRUCT<{_ROW}>, source STRUCT<db: STRING, `table`: STRING>, op STRING"
_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.shuffle.partitions": "2",  # the default of 200 would be most of the time
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("ingest_peers")
    jars = f"{services.jars('delta')},{services.kafka_jars()}"
    for name, value in {**_SETTINGS, "spark.jars": jars, **recommended_settings()}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def merged_by_hand(records: DataFrame, folder: Path) -> None:
    """Write a batch of changes to a Delta table for each source table."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    changes = records.select(F.from_json(F.col("value").cast("string"), _ENVELOPE).alias("m"), "partition", "offset")
    changes = changes.select(
        F.col("m.source.table").alias("_table"),
        F.coalesce("m.after.order_id", "m.before.order_id").alias("_key"),
        F.col("m.op").alias("_op"),
        "m.after.*",
        "partition",
        "offset",
    ).persist()
    newest = Window.partitionBy("_table", "_key").orderBy(F.desc("partition"), F.desc("offset"))
    names = [row._table for row in changes.select("_table").distinct().collect()]
    last = changes.withColumn("_n", F.row_number().over(newest)).where("_n = 1").persist()
    with ThreadPoolExecutor(POOL) as pool:
        for done in [pool.submit(_merged, last.where(F.col("_table") == name), folder / name) for name in names]:
            done.result()
    last.unpersist()
    changes.unpersist()


def _merged(rows: DataFrame, folder: Path) -> None:
    spark, path = rows.sparkSession, f"delta.`{folder}`"
    columns = [name for name in rows.columns if name not in ("_table", "_key", "_op", "_n", "partition", "offset")]
    if not folder.exists():
        rows.where("_op <> 'd'").select(*columns).write.format("delta").save(str(folder))
        return
    view = f"changes_{folder.name}"
    rows.createOrReplaceTempView(view)
    updates = ", ".join(f"t.{name} = s.{name}" for name in columns)
    values = ", ".join(f"s.{name}" for name in columns)
    spark.sql(
        f"MERGE INTO {path} t USING {view} s ON t.order_id = s._key WHEN MATCHED AND s._op = 'd' THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {updates} WHEN NOT MATCHED AND s._op <> 'd' THEN INSERT ({', '.join(columns)}) "
        f"VALUES ({values})"
    )


def measure_batch(records: int, rounds: int) -> dict[str, Any]:
    """Measure batches of all tables. The first round creates them, and does not count."""
    with tempfile.TemporaryDirectory() as of_broker, tempfile.TemporaryDirectory() as scratch:
        broker, folder = MeasuredBroker(Path(of_broker)), Path(scratch)
        spark = _session()
        try:
            broker.create("shop", PARTITIONS)
            for number in range(TABLES):
                messages = debezium(Changes(orders(records // TABLES, SEED), SEED), f"orders_{number}")
                broker.send("shop", ((None, value) for value in messages.to_pylist()))
            source = {"type": "kafka", "topic": "shop", "properties.bootstrap.servers": broker.bootstrap}
            pipeline = Pipeline(
                {**source, "scan.startup.mode": "earliest-offset", "value.format": "debezium-json"},
                {"type": "delta", "path": str(folder / "ingest")},
                transform=[{"source-table": r"\.*.\.*", "primary-keys": "order_id"}],
            )
            topic = pipeline.source.records
            assert topic is not None
            batch = IngestBatch(pipeline, DeltaPathTarget(folder / "ingest"), QuerySettings(str(folder / "checkpoint")))
            ranges = python_source.ranges(spark, topic.kv, None, streaming=False)
            by_spark = topic.records(spark, source="spark")
            numbers = iter(range(1000))
            speeds = measure(
                {
                    "by hand": lambda: merged_by_hand(by_spark, folder / "hand"),
                    "ingest": lambda: batch(ranges, next(numbers)),
                },
                records=records,
                rounds=rounds,
                clock=broker.others_cpu_seconds,
            )
            for number in (0, TABLES - 1):
                ours = PlainDeltaTable(folder / "ingest" / f"inventory.orders_{number}").to_pyarrow_table()
                theirs = PlainDeltaTable(folder / "hand" / f"orders_{number}").to_pyarrow_table()
                assert sorted(ours["order_id"].to_pylist()) == sorted(theirs["order_id"].to_pylist())
        finally:
            spark.stop()
            broker.kill()
    print(table(f"a batch of {TABLES} tables, records per CPU-second", speeds, "by hand"))
    return document(speeds, [("ingest", "by hand")], records)


if __name__ == "__main__":
    facts = {"schema": SCHEMA, "seed": SEED, "tables": TABLES, "packages": list(PACKAGES)}
    run("ingest_peers", __doc__ or "", {"batch": measure_batch}, facts, records=100_000)
