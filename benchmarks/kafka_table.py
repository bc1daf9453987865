"""`KafkaTable` on a real broker: its speed, compared with a job by hand, and the memory of a long stream.

    scripts/benchmark kafka_table --only batch
    scripts/benchmark kafka_table --only stream
    scripts/benchmark kafka_table --only once
    scripts/benchmark kafka_table --only once_stream --records 100000

The records are orders of about 220 bytes as json, with their id as json key. Each part has its figures in
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
    messages  the same of json orders, by Message objects: the compiled loop finds no functions of librdkafka
    small     reads a stream in micro-batches of one record; the first five, with the start, are measured by themselves
    write     writes rows to a topic: through the data source, through Spark's own sink, and with `to_json` on that sink
    memory    reads ten times as many records in one batch. Measures the memory, as `stream` does
    slow      the same with slow work after the reader

`tests/support/services.py` downloads the broker (Java, on this machine) and Spark's Kafka source.
"""

from __future__ import annotations

import functools
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from _change_messages import Changes, debezium
from _kafka import MeasuredBroker, services
from _measure import PACKAGES, Speed, Task, document, environment, measure, run, table
from _memory import MemoryMonitor
from _nested import generated_kinds
from _orders import SCHEMA, SEED, chunks, orders

from kvformat.connectors import KafkaTable
from kvformat.connectors.reader.librdkafka import librdkafka
from kvformat.registry import get_format

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
SMALL_BATCHES = 105
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
    """A broker with topics of orders."""

    def __init__(self, folder: Path) -> None:
        self.broker = MeasuredBroker(folder)

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
            _end(spark)
            kafka.broker.kill()


def _end(spark: SparkSession) -> None:
    """End a session and its JVM, so that the next one starts with the environment of its own part."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


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
                before = kafka.broker.cpu_seconds()
                tasks[name]()
                brokers[name].append(records / max(kafka.broker.cpu_seconds() - before, 1e-9))

            return task

        speeds = measure(
            {name: counted(name) for name in tasks},
            records=records,
            rounds=rounds,
            clock=kafka.broker.others_cpu_seconds,
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
                clock=kafka.broker.others_cpu_seconds,
            )
            speeds |= {f"{name}, {task}": speed for task, speed in found.items()}
            pairs += [(f"{name}, data source", f"{name}, {task}") for task in tasks if task != "data source"]
    print(table("reads of topics, records per CPU-second", speeds, next(iter(speeds))))
    return document(speeds, pairs, records)


_HIDING = """
import ctypes

class CDLL(ctypes.CDLL):
    def __init__(self, name, *arguments, **options):
        if "cimpl" in str(name):
            raise OSError("hidden, to measure Message objects")
        super().__init__(name, *arguments, **options)

ctypes.CDLL = CDLL
"""
"""A module that Python imports at its start. It hides librdkafka's functions from the compiled loop."""


def measure_messages(records: int, rounds: int) -> dict[str, Any]:
    """Measure the data source by Message objects, compared with Spark's own source."""
    before = os.environ.get("PYTHONPATH")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(_HIDING, encoding="utf-8")
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [before])])
        try:
            with _running() as (kafka, spark):
                missing = spark.sparkContext.parallelize([0]).map(lambda _: str(librdkafka())).first()
                assert "hidden" in missing, missing
                source = kafka.topic("orders")
                kafka.fill("orders", records)
                speeds = measure(
                    _readers(spark, kafka, source),
                    records=records,
                    rounds=rounds,
                    clock=kafka.broker.others_cpu_seconds,
                )
        finally:
            os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
    print(table("reads by Message objects, records per CPU-second", speeds, "Spark's source"))
    return document(speeds, [("data source", "Spark's source")], records)


def measure_small(records: int, rounds: int) -> dict[str, Any]:
    """Measure streams in micro-batches of one record, without the start of the queries. `records` is ignored."""
    starts: dict[str, list[float]] = {"spark": [], "python": []}
    with _running() as (kafka, spark):
        kafka.broker.create("small", 1)
        kafka.fill("small", SMALL_BATCHES)
        options = {"connector": "kafka", "topic": "small", "properties.bootstrap.servers": kafka.broker.bootstrap}
        source = KafkaTable(SCHEMA, {**options, **FORMATS, "scan.startup.mode": "earliest-offset"})

        def read(name: str) -> Task:
            def task() -> None:
                limit = {"maxOffsetsPerTrigger": 1}
                rows = source.read_stream(spark, source=name, spark_options=limit)  # type: ignore[arg-type]
                before = kafka.broker.others_cpu_seconds()
                with tempfile.TemporaryDirectory() as checkpoint:
                    writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
                    query = writer.trigger(availableNow=True).start()
                    while (query.lastProgress or {"batchId": -1})["batchId"] + 1 < WARM_UP:
                        time.sleep(0.1)
                    starts[name].append(kafka.broker.others_cpu_seconds() - before)
                    query.awaitTermination()
                    sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
                assert sizes == [1] * SMALL_BATCHES, sizes

            return task

        speeds = measure(
            {"Spark's source": read("spark"), "data source": read("python")},
            records=SMALL_BATCHES - WARM_UP,
            rounds=rounds,
            clock=lambda: kafka.broker.others_cpu_seconds() - sum(itertools.chain(*starts.values())),
        )
    cost = {name: round(1000 / speed.median, 1) for name, speed in speeds.items()}
    print(f"  ms of CPU for a micro-batch: {cost}")
    medians = {name: round(statistics.median(seconds[1:]), 2) for name, seconds in starts.items()}
    print(f"  CPU s until micro-batch {WARM_UP}: {medians}")
    found = document(speeds, [("data source", "Spark's source")], SMALL_BATCHES - WARM_UP)
    return {**found, "cpu_milliseconds": cost, "cpu_seconds_of_a_start": medians}


def measure_write(records: int, rounds: int) -> dict[str, Any]:
    """Measure writes of cached rows to a topic."""
    from pyspark.sql import functions as F

    speeds: dict[str, Speed] = {}
    pairs: list[tuple[str, str]] = []
    with _running() as (kafka, spark):
        frame = functools.reduce(
            lambda one, other: one.union(other),
            [spark.createDataFrame(pa.Table.from_struct_array(rows)) for rows in chunks(records)],
        )
        frame = frame.withColumn("ordered_at", F.col("ordered_at").cast("timestamp_ntz"))
        frame = frame.repartition(PARTITIONS).cache()
        assert frame.count() == records
        for name in ("json", "avro", "debezium-json"):
            topic = f"written-{name}"
            kafka.broker.create(topic, PARTITIONS, retention_bytes=str(64 * _MB), segment_bytes=str(32 * _MB))
            options = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": kafka.broker.bootstrap}
            target = KafkaTable(SCHEMA, {**options, "format": name})
            tasks: dict[str, Task] = {
                "Spark's sink": functools.partial(target.write, frame),
                "data source": functools.partial(_write_by_source, frame, target),
            }
            if name == "json":
                values = frame.select(F.to_json(F.struct("*")).alias("value"))
                tasks = {"to_json": functools.partial(_written, values, kafka, topic), **tasks}
            found = measure(tasks, records=records, rounds=rounds, clock=kafka.broker.others_cpu_seconds)
            speeds |= {f"{name}, {task}": speed for task, speed in found.items()}
            pairs += [(f"{name}, data source", f"{name}, {task}") for task in tasks if task != "data source"]
    print(table("writes to topics, records per CPU-second", speeds, next(iter(speeds))))
    return document(speeds, pairs, records)


def _write_by_source(rows: DataFrame, target: KafkaTable) -> None:
    rows.write.format("kvformat").option("ddl", target.kv.ddl).mode("append").save()


def measure_memory(records: int, rounds: int, *, pause: float = 0) -> dict[str, Any]:
    """Measure the memory of a read of one batch, with a pause after each batch of rows. `rounds` is ignored."""
    count = TIMES * records
    with _running() as (kafka, spark):
        source = kafka.topic("orders")
        kafka.fill("orders", records, TIMES)
        rows = source.read(spark, source="python")
        if pause:
            rows = rows.mapInArrow(functools.partial(_slowly, pause=pause), rows.schema)
        started = time.monotonic()
        with MemoryMonitor(kafka.broker.process) as monitor:
            rows.write.format("noop").mode("overwrite").save()
        seconds = round(time.monotonic() - started)
    memory = monitor.thirds()
    print(f"\n{count:,} records, {seconds} s, MB")
    for part, of in memory.items():
        print(f"  {part:20} " + "   ".join(f"{third} {size:,}" for third, size in of.items()))
    return {"memory": memory, "records": count, "batches": 1, "seconds": seconds, "environment": environment(*PACKAGES)}


def _slowly(batches: Iterator[pa.RecordBatch], *, pause: float) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(pause)
        yield batch


def _topics(records: int) -> Iterator[tuple[str, str, dict[str, str], list[bytes]]]:
    """Yield name, schema, options of the format and messages of each topic."""
    for kind in generated_kinds():
        count = max(1, int(records * _ORDER_BYTES / max(kind.size, _ORDER_BYTES)))
        options = {"format": "json", **{f"json.{name}": value for name, value in kind.options.items()}}
        yield f"json {kind.name}", kind.schema, options, list(itertools.islice(itertools.cycle(kind.pool), count))
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
    tasks: dict[str, Task] = {"from_json": by_hand} if source.kv.options.get("format") == "json" else {}
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
        speeds = measure(tasks, records=records, rounds=rounds, clock=kafka.broker.others_cpu_seconds)
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
        with MemoryMonitor(kafka.broker.process) as monitor:
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
            "messages": measure_messages,
            "small": measure_small,
            "write": measure_write,
            "memory": measure_memory,
            "slow": functools.partial(measure_memory, pause=0.02),
        },
        {"schema": SCHEMA, "options": FORMATS, "seed": SEED},
        records=1_000_000,
    )
