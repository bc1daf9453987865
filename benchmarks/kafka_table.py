"""`KafkaTable` on a real broker: its speed, compared with a job by hand, and the memory of a long stream.

    scripts/benchmark kafka_table --only batch
    scripts/benchmark kafka_table --only stream
    scripts/benchmark kafka_table --only once
    scripts/benchmark kafka_table --only once_stream --records 100000

The records are orders of about 220 bytes as json, with their id as json key. Five parts, each with its figures in
`results/kafka_table.json`:

    batch     reads a topic and writes it to another one: with `KafkaTable`, with `KeyValueFormat` and Spark's options,
              and with the formats' Columns and Spark's options. The broker's CPU time is a separate figure
    stream    writes ten times as many records from topic to topic in 250 micro-batches, and measures the memory of the
              JVM, of Python's workers and of the driver: in the first and the last third of the time after five batches
    once      reads a topic and writes it to another one, exactly once and with Spark's own sink: rows, decoded and
              encoded again, and the bytes of records
    once_stream  the same as stream, exactly once
    source    reads topics of several formats and shapes: through the data source, through Spark's own Kafka source, and
              with `from_json` on that source

`tests/support/services.py` downloads the broker (Java, on this machine) and Spark's Kafka source.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]  # its types are in a separate package
import pyarrow as pa
from _change_messages import Changes, debezium
from _measure import PACKAGES, Speed, Task, document, environment, measure, run, table, tree_cpu_seconds
from _memory import MemoryMonitor
from _nested import generated_kinds
from _orders import SCHEMA, SEED, chunks, orders

from kvformat.connectors import KafkaTable
from kvformat.registry import get_format

sys.path.append(str(Path(__file__).parent.parent))

from tests.support import services

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY_SCHEMA = "order_id BIGINT"
VALUE_SCHEMA = SCHEMA.removeprefix(f"{KEY_SCHEMA}, ")
FORMATS = {
    "key.format": "json",
    "key.fields": "order_id",
    "value.format": "json",
    "value.fields-include": "EXCEPT_KEY",
}
ONCE = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "benchmark"}
PARTITIONS = 4
# Micro-batches of the stream. A worker's caches keep entries of its last 256 tasks; the last third begins after that.
BATCHES = 250
WARM_UP = 5  # micro-batches in which processes start and fill their heaps
TIMES = 10  # how often the stream's topic has the records
_ORDER_BYTES = 234  # of an order as json
_SENT = 100_000  # messages that are sent to a topic at once
_PERIOD = 0.5  # seconds between two questions to a query
_MB = 2**20
_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",  # small enough that a stream fills this heap during its first third
    "spark.log.level": "ERROR",
    "spark.sql.streaming.numRecentProgressUpdates": str(2 * BATCHES),  # all of them
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Kafka:
    """A broker with topics of orders, and its process."""

    def __init__(self, folder: Path) -> None:
        self.broker = services.KafkaBroker(folder)
        before = set(psutil.Process().children())
        self.broker.start()
        (self.process,) = [found for found in psutil.Process().children() if found not in before]

    def topic(self, name: str, **settings: str) -> KafkaTable:
        """Create a topic and return the table on it."""
        self.broker.create(name, PARTITIONS, **settings)
        options = {
            "connector": "kafka",
            "topic": name,
            "properties.bootstrap.servers": self.broker.bootstrap,
            "scan.startup.mode": "earliest-offset",
        }
        return KafkaTable(SCHEMA, {**options, **FORMATS})

    def target(self, name: str) -> KafkaTable:
        """Create a topic that keeps only the last records, so that the disk does not become full."""
        return self.topic(name, retention_bytes=str(64 * _MB), segment_bytes=str(32 * _MB))

    def fill(self, topic: str, records: int, times: int = 1) -> None:
        """Send the orders to a topic in the form that Flink writes, `times` times."""
        fmt = get_format("json")
        for rows in chunks(records):
            key = pa.StructArray.from_arrays([rows.field("order_id")], ["order_id"])
            fields = list(rows.type)[1:]
            value = pa.StructArray.from_arrays([rows.field(field.name) for field in fields], fields=fields)
            keys, values = fmt.encode_batch(key, KEY_SCHEMA), fmt.encode_batch(value, VALUE_SCHEMA)
            pairs = list(zip(keys.messages.to_pylist(), values.messages.to_pylist(), strict=True))
            for _ in range(times):
                self.broker.send(topic, pairs)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the broker has used so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def _running() -> Iterator[tuple[Kafka, SparkSession]]:
    """Yield a broker and a session that end with the block."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("kafka_table")
    for name, value in {**_SETTINGS, "spark.jars": services.jars("spark-kafka")}.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryDirectory() as folder:
        kafka = Kafka(Path(folder))
        spark = builder.getOrCreate()
        try:
            yield kafka, spark
        finally:
            spark.stop()
            kafka.broker.kill()


def _records(spark: SparkSession, kafka: Kafka, topic: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.broker.bootstrap)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def _written(records: DataFrame, kafka: Kafka, topic: str) -> None:
    writer = records.write.format("kafka").option("kafka.bootstrap.servers", kafka.broker.bootstrap)
    writer.option("topic", topic).save()


def measure_batch(records: int, rounds: int) -> dict[str, Any]:
    """Measure the table's methods, compared with the calls that they replace."""
    from pyspark.sql import functions as F

    with _running() as (kafka, spark):
        source, target = kafka.topic("orders"), kafka.target("written")
        kafka.fill("orders", records)
        fmt, kv = get_format("json"), source.kv

        def by_columns() -> None:
            key, value = fmt.decode("key", KEY_SCHEMA).alias("k"), fmt.decode("value", VALUE_SCHEMA).alias("v")
            rows = _records(spark, kafka, "orders").select(key, value).select("k.order_id", "v.*")
            names = [name for name in rows.columns if name != "order_id"]
            key = fmt.encode(F.struct("order_id"), KEY_SCHEMA).alias("key")
            _written(rows.select(key, fmt.encode(F.struct(*names), VALUE_SCHEMA).alias("value")), kafka, "written")

        tasks: dict[str, Task] = {
            "Columns by hand": by_columns,
            "KeyValueFormat by hand": lambda: _written(
                kv.encode(kv.decode(_records(spark, kafka, "orders"))), kafka, "written"
            ),
            "KafkaTable": lambda: target.write(source.read(spark)),
        }
        brokers: dict[str, list[float]] = {name: [] for name in tasks}

        def counted(name: str) -> Task:
            def task() -> None:
                before = kafka.cpu_seconds()
                tasks[name]()
                brokers[name].append(records / max(kafka.cpu_seconds() - before, 1e-9))

            return task

        speeds = measure(
            {name: counted(name) for name in tasks},
            records=records,
            rounds=rounds,
            clock=lambda: tree_cpu_seconds() - kafka.cpu_seconds(),
        )
    print(table("topic to topic, records per CPU-second", speeds, "Columns by hand"))
    pairs = [("KafkaTable", "Columns by hand"), ("KafkaTable", "KeyValueFormat by hand")]
    without_warm_up = {name: Speed(tuple(found[1:])) for name, found in brokers.items()}
    of_broker = {f"{name}, the broker": speed for name, speed in without_warm_up.items()}
    return document({**speeds, **of_broker}, pairs, records)


def measure_source(records: int, rounds: int) -> dict[str, Any]:
    """Measure reads of whole topics. A topic of larger records has fewer of them, and about as many bytes."""
    speeds: dict[str, Speed] = {}
    pairs: list[tuple[str, str]] = []
    with _running() as (kafka, spark):
        for name, schema, options, messages in _topics(records):
            topic = f"source-{name.replace(' ', '-')}"
            kafka.broker.create(topic, PARTITIONS)
            for start in range(0, len(messages), _SENT):
                kafka.broker.send(topic, [(None, value) for value in messages[start : start + _SENT]])
            options |= {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": kafka.broker.bootstrap}
            tasks = _readers(spark, kafka, KafkaTable(schema, {**options, "scan.startup.mode": "earliest-offset"}))
            found = measure(
                tasks,
                records=len(messages),
                rounds=rounds,
                clock=lambda: tree_cpu_seconds() - kafka.cpu_seconds(),
            )
            speeds |= {f"{name}, {task}": speed for task, speed in found.items()}
            pairs += [(f"{name}, data source", f"{name}, {task}") for task in tasks if task != "data source"]
    print(table("reads of topics, records per CPU-second", speeds, next(iter(speeds))))
    return document(speeds, pairs, records)


def _topics(records: int) -> Iterator[tuple[str, str, dict[str, str], list[bytes]]]:
    """Yield name, schema, options of the format and messages of each topic."""
    for kind in generated_kinds():
        count = max(1, int(records * _ORDER_BYTES / max(kind.size, _ORDER_BYTES)))
        options = {"format": "json", **{f"json.{name}": value for name, value in kind.options.items()}}
        yield f"json {kind.name}", kind.schema, options, list(islice(cycle(kind.pool), count))
    rows = orders(records, SEED)
    yield "avro", SCHEMA, {"format": "avro"}, get_format("avro").encode_batch(rows, SCHEMA).messages.to_pylist()
    yield "debezium-json", SCHEMA, {"format": "debezium-json"}, debezium(Changes(rows, SEED)).to_pylist()


def _readers(spark: SparkSession, kafka: Kafka, source: KafkaTable) -> dict[str, Task]:
    """Return the tasks that read a topic and drop its rows; `from_json` only for json."""
    from pyspark.sql import functions as F

    def drop(rows: DataFrame) -> None:
        rows.write.format("noop").mode("overwrite").save()

    def by_hand() -> None:
        values = _records(spark, kafka, source.kv.options["topic"]).select(
            F.from_json(F.col("value").cast("string"), schema)
        )
        drop(values)

    schema = source.read(spark, source="spark").schema
    tasks: dict[str, Task] = {"from_json": by_hand} if source.kv.options["format"] == "json" else {}
    return {
        **tasks,
        "Spark's source": lambda: drop(source.read(spark, source="spark")),
        "data source": lambda: drop(source.read(spark, source="python")),
    }


def measure_once(records: int, rounds: int) -> dict[str, Any]:
    """Measure exactly-once tables, compared with Spark's own sink."""
    with _running() as (kafka, spark):
        rows, target = kafka.topic("orders"), kafka.target("written")
        kafka.fill("orders", records)
        raw = {"key.format": "raw", "key.fields": "k", "value.format": "raw", "value.fields-include": "EXCEPT_KEY"}
        options = {"connector": "kafka", "properties.bootstrap.servers": kafka.broker.bootstrap}
        source = KafkaTable(
            "k BYTES, v BYTES", {**options, **raw, "topic": "orders", "scan.startup.mode": "earliest-offset"}
        )
        bytes_target = source.with_options({"topic": "written"})
        tasks: dict[str, Task] = {
            "rows, at least once": lambda: target.write(rows.read(spark)),
            "rows, exactly once": lambda: target.with_options(ONCE).write(rows.read(spark)),
            "bytes, at least once": lambda: bytes_target.write(source.read(spark)),
            "bytes, exactly once": lambda: bytes_target.with_options(ONCE).write(source.read(spark)),
        }
        speeds = measure(tasks, records=records, rounds=rounds, clock=lambda: tree_cpu_seconds() - kafka.cpu_seconds())
    print(table("topic to topic, records per CPU-second", speeds, "rows, at least once"))
    pairs = [(f"{what}, exactly once", f"{what}, at least once") for what in ("rows", "bytes")]
    return document(speeds, pairs, records)


def measure_stream(records: int, rounds: int) -> dict[str, Any]:
    """Measure the memory of one query. It runs once; `rounds` is ignored."""
    return _stream(records, {})


def measure_once_stream(records: int, rounds: int) -> dict[str, Any]:
    """Measure the memory of one exactly-once query. It runs once; `rounds` is ignored."""
    return _stream(records, ONCE)


def _stream(records: int, options: dict[str, str]) -> dict[str, Any]:
    count = TIMES * records
    with _running() as (kafka, spark), tempfile.TemporaryDirectory() as checkpoint:
        source, target = kafka.topic("orders"), kafka.target("written").with_options(options)
        kafka.fill("orders", records, TIMES)
        stream = source.read_stream(spark, spark_options={"maxOffsetsPerTrigger": count // BATCHES})
        started = time.monotonic()
        query = target.write_stream(stream, checkpoint_location=checkpoint, trigger={"availableNow": True})
        while query.isActive and len(query.recentProgress) < WARM_UP:
            time.sleep(_PERIOD)
        with MemoryMonitor(kafka.process) as monitor:
            query.awaitTermination()
        seconds = time.monotonic() - started
        sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
        assert sum(sizes) == count, f"{sum(sizes)} of {count} records"
    memory = monitor.thirds()
    print(f"\nstream of {count:,} records in {len(sizes)} batches, {seconds:.0f} s, MB")
    for name, of in memory.items():
        print(f"  {name:20} " + "   ".join(f"{third} {size:,}" for third, size in of.items()))
    return {
        "memory": memory,
        "records": count,
        "batches": len(sizes),
        "seconds": round(seconds),
        "environment": environment(*PACKAGES),
    }


if __name__ == "__main__":
    run(
        "kafka_table",
        __doc__ or "",
        {
            "batch": measure_batch,
            "stream": measure_stream,
            "once": measure_once,
            "once_stream": measure_once_stream,
            "source": measure_source,
        },
        {"schema": SCHEMA, "options": FORMATS, "seed": SEED},
        records=1_000_000,
    )
