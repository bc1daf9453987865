"""Ingestion: the look at messages, batches with many known tables, one table against `maintain`, memory, many tables.

    scripts/benchmark ingest
    scripts/benchmark ingest --only look --no-store

The messages are changes of orders of about 660 bytes, like those of `debezium_orders`. Each part has its figures
in `results/ingest.json`:

    look       no Spark: the look at messages that fit their known tables, compared with decoding one column of them
    known      batches that touch ten tables while 10, 100 and 1,000 tables are known
    topic      one known table from a topic: the look reads ranges of offsets, or Spark gives it the records
    maintain   one known table at a path, compared with `maintain` of a table whose columns are declared
    memory     a query over 100 tables in 50 micro-batches: the memory in the first and in the last third of the time
    steady     a query over 50 tables with a trigger of 5 seconds, while 1,000 records a second arrive: an hour with
               `--records 3600000`. The time of its batches, the records that wait, and the memory
    touched    batches that touch 1, 10 and 100 tables with 100 records each, compared with the same merges of decoded
               rows by deltalake alone
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _change_messages import Changes, canal, changes_of, debezium, with_schema
from _kafka import MeasuredBroker, services
from _kernel import batches, decoding
from _measure import (
    PACKAGES,
    Speed,
    Task,
    document,
    environment,
    grid,
    grid_table,
    measure,
    run,
    table,
)
from _memory import MemoryMonitor
from _orders import SCHEMA, SEED, orders
from deltalake import DeltaTable, write_deltalake

from kvformat.connectors import python_source
from kvformat.connectors.batch_progress import lag_of
from kvformat.ingestion import DeltaPathTarget, Pipeline, ingest, read_table
from kvformat.ingestion.planning import BatchNews, NewColumn, Planner
from kvformat.ingestion.query import IngestBatch, QuerySettings
from kvformat.ingestion.rules import plan_rules
from kvformat.ingestion.schemas.known import IngestState
from kvformat.ingestion.schemas.state import Cause
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.schemas.types import merge_types
from kvformat.ingestion.store import SchemaStore
from kvformat.registry import KeyValueFormat, current_table, get_format, recommended_settings
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.look import KnownTable, Looked, LookRequest, TableName
from kvformat.registry.streams.current_table import CurrentTable
from kvformat.registry.streams.maintain import MaintainedBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALTERNATING = 5  # tables whose messages alternate
KNOWN = (10, 100, 1000)
TOUCHED = 10
MANY = (1, 10, 100)
BATCHES = 50  # of the query whose memory is measured
PARTITIONS = 2  # of the topic
STEADY_TABLES = 50
STEADY_SECONDS = 5  # of the trigger
RATE = 1000  # records that arrive in a second
OF_MEMORY = 100  # its tables
IN_A_BATCH = 2  # and those with records in one batch
IN_WARM_UP = 4  # batches before a measurement: the JVM compiles its code
WARM_UP = 5  # batches in which processes start and fill their heaps
EACH = 100  # records of each of them
_ONE_COLUMN = pa.schema([pa.field("order_id", pa.int64())])
_TIME = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
_SOURCE = {
    "type": "kafka",
    "topic": "shop",
    "properties.bootstrap.servers": "127.0.0.1:9",
    "scan.startup.mode": "earliest-offset",
}
_BY_ID = [{"source-table": r"\.*.\.*", "primary-keys": "order_id"}]
_COLUMNS = (
    "order_id BIGINT, customer STRING, product STRING, weight DOUBLE, price DOUBLE, ordered_at TIMESTAMP(3), "
    "paid BOOLEAN, tags STRING, address STRING"
)
"""The columns that ingestion finds in the messages."""
_TYPES = {field.name: field.type for field in parse_schema(_COLUMNS).fields}
_DECLARED = (
    f"CREATE TABLE orders ({_COLUMNS}, PRIMARY KEY (order_id) NOT ENFORCED) WITH ('connector' = 'kafka', "
    "'topic' = 'shop', 'properties.bootstrap.servers' = '127.0.0.1:9', 'scan.startup.mode' = 'earliest-offset', "
    "'format' = 'debezium-json')"
)
_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.numRecentProgressUpdates": "200",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


# --- the look ------------------------------------------------------------------------------------------------


def measure_look(records: int, rounds: int) -> dict[str, Any]:
    """Measure `Looker.look` of messages that fit their tables, compared with decoding one column of them."""
    count = min(records, 100_000)
    plain = get_format("json").encode_batch
    (changes,) = changes_of(count)
    schemas = {"schema-include": "true"}
    inputs: dict[str, tuple[str, dict[str, str], pa.BinaryArray]] = {
        "json": ("json", {}, plain(changes.after, SCHEMA).messages),
        "debezium-json": ("debezium-json", {}, debezium(changes)),
        f"debezium-json, {ALTERNATING} tables in turn": ("debezium-json", {}, _of_tables(debezium(changes))),
        "debezium-json with schema": ("debezium-json", schemas, with_schema(changes)),
        "canal-json": ("canal-json", {}, canal(changes)),
    }
    speeds, facts = {}, {}
    for name, (format, options, messages) in inputs.items():
        parts = batches(messages)
        tasks: dict[str, Task] = {
            "decode one column": decoding(format, parts, _ONE_COLUMN, options=options),
            "look": _looking(format, options, parts),
        }
        speeds[name] = measure(tasks, records=count, rounds=rounds, clock=time.process_time)
        facts[name] = {"bytes": round(messages.nbytes / count), "records": count}
    found = grid(
        "messages",
        speeds,
        lambda row, column: (row, "decode one column", "decode one column") if column == "look" else None,
        facts,
    )
    print(grid_table("look, one thread, messages per CPU-second", found))
    return found


def _of_tables(messages: pa.BinaryArray) -> pa.BinaryArray:
    """Return messages whose table, and the name of one column, changes from each one to the next."""
    texts = messages.cast(pa.string())
    number = pc.cast(pa.array(range(len(texts))), pa.int64())
    number = pc.subtract(number, pc.multiply(pc.divide(number, ALTERNATING), ALTERNATING))
    found = texts
    for turn in range(ALTERNATING):
        named = pc.replace_substring(texts, '"orders"', f'"orders_{turn}"')
        named = pc.replace_substring(named, '"product":', f'"product_{turn}":')
        found = pc.if_else(pc.equal(number, turn), named, found)
    return found.cast(pa.binary())


def _looking(format: str, options: dict[str, str], parts: list[pa.BinaryArray]) -> Task:
    """Return a task that looks at all batches. It fails if a message contributes something to its table."""
    fmt = get_format(format, options)
    known: dict[TableName, KnownTable] = {}
    topics = [pa.array(["orders"]).take(pa.nulls(len(part), pa.int32()).fill_null(0)) for part in parts]
    first = fmt.looker(LookRequest(known)).look(pa.concat_arrays(parts), pa.concat_arrays(topics))
    for column in first.columns:
        table = known.get(column.table, KnownTable({}))
        t = functools.reduce(merge_types, column.types)
        known[column.table] = KnownTable({**table.columns, column.name: t}, table.as_text)
    looker = fmt.looker(LookRequest(known))

    def look() -> None:
        for part, names in zip(parts, topics, strict=True):
            found: Looked = looker.look(part, names)
            if found.columns or found.errors:
                raise AssertionError(f"a message does not fit its table: {found.columns or found.errors}")

    return look


# --- queries -------------------------------------------------------------------------------------------------


@contextmanager
def _session(heap: str = "2g", jars: str = "") -> Iterator[tuple[SparkSession, Path]]:
    """Yield a session with the recommended settings, and a folder. Both end with the block.

    The first session of a process decides the size of the heap.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[*]").appName("ingest")
    for name, value in {**_SETTINGS, "spark.driver.memory": heap, "spark.jars": jars}.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryDirectory() as folder:
        spark = builder.getOrCreate()
        for name, value in recommended_settings().items():
            spark.conf.set(name, value)
        try:
            yield spark, Path(folder)
        finally:
            spark.stop()


def _records(messages: pa.BinaryArray, first: int = 0) -> pa.Table:
    """Return messages as records of a topic with one partition."""
    count = len(messages)
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.table(
        {
            "key": pa.nulls(count, pa.binary()),
            "value": messages,
            "topic": pa.repeat("shop", count),
            "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
            "offset": pa.array(range(first, first + count)),
            "timestamp": pa.repeat(pa.scalar(_TIME, pa.timestamp("us", "UTC")), count),
            "timestampType": pa.repeat(pa.scalar(0, pa.int32()), count),
            "headers": pa.nulls(count, pa.list_(header)),
        }
    )


def _frame(spark: SparkSession, folder: Path, records: pa.Table) -> DataFrame:
    """Return records that Spark holds in memory, in as many tasks as there are cores."""
    path = str(folder / f"{len(os.listdir(folder))}.parquet")
    pq.write_table(records, path)
    frame = spark.read.parquet(path).repartition(spark.sparkContext.defaultParallelism).persist()
    frame.count()
    return frame


def _of_many_tables(records: int, tables: int) -> pa.BinaryArray:
    """Return messages of some tables, one after the other."""
    each = records // tables
    return pa.concat_arrays(
        [
            debezium(changes, f"orders_{table}")
            for table in range(tables)
            for changes in [Changes(orders(each, SEED), SEED)]
        ]
    )


class _Query:
    """A query of ingestion whose batches are the same records. `known` is the number of known tables."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        frame: DataFrame,
        known: int = 0,
        source: Mapping[str, str] = _SOURCE,
    ) -> None:
        pipeline = Pipeline(source, {"type": "delta", "path": "x"}, transform=_BY_ID)
        if known:
            planner = Planner(plan_rules(pipeline, quarantine=False), lambda *_: TableSchema(()))
            tables = {TableId(("inventory", f"orders_{n}")): Cause("shop", 0, n) for n in range(known)}
            columns = [
                NewColumn(table, "value", name, (t,), cause, place)
                for table, cause in tables.items()
                for place, (name, t) in enumerate(_TYPES.items())
            ]
            plan = planner.plan(IngestState(), BatchNews(tables, tuple(columns)))
            SchemaStore(spark, str(folder / "checkpoint")).write(-1, IngestState(), plan)
        settings = QuerySettings(str(folder / "checkpoint"))
        self._batch = IngestBatch(pipeline, DeltaPathTarget(folder / "out"), settings)
        self._frame, self._number = frame, 0

    def __call__(self) -> None:
        """Run the next batch."""
        self._batch(self._frame, self._number)
        self._number += 1


def measure_known(records: int, rounds: int) -> dict[str, Any]:
    """Measure batches that touch ten tables, with 10, 100 and 1,000 known tables."""
    count = min(records, 10_000)
    with _session() as (spark, folder):
        frame = _frame(spark, folder, _records(_of_many_tables(count, TOUCHED)))
        tasks = {f"{known:,} known": _Query(spark, folder / str(known), frame, known) for known in KNOWN}
        speeds = measure(dict(tasks), records=count, rounds=rounds)
    first, *others = tasks
    print(table(f"batches of {TOUCHED} tables, records per CPU-second", speeds, first))
    return document(speeds, [(name, first) for name in others], count)


def measure_touched(records: int, rounds: int) -> dict[str, Any]:
    """Measure batches that touch 1, 10 and 100 tables with 100 records each, and the same merges with deltalake alone.

    The number of records is fixed: `records` is ignored.
    """
    speeds: dict[str, Speed] = {}
    with _session() as (spark, folder):
        for count in MANY:
            frame = _frame(spark, folder, _records(_of_many_tables(EACH * count, count)))
            query = _Query(spark, folder / str(count), frame, count)
            for _ in range(IN_WARM_UP):
                query()
            rows = read_table(spark, folder / str(count) / "out", "inventory.orders_0").toArrow()
            tasks: dict[str, Task] = {"ingest": query, "deltalake": _merges(folder / f"plain{count}", rows, count)}
            found = measure(tasks, records=EACH * count, rounds=rounds)
            speeds |= {f"{name}, {count} tables": speed for name, speed in found.items()}
    pairs = [(f"ingest, {count} tables", f"deltalake, {count} tables") for count in MANY]
    print(table(f"batches of tables with {EACH} records each, records per CPU-second", speeds, pairs[-1][1]))
    return document(speeds, pairs, EACH * max(MANY))


def _merges(folder: Path, rows: pa.Table, tables: int) -> Task:
    """Return a task that merges the same decoded rows into so many Delta tables, one after the other."""
    for number in range(tables):
        write_deltalake(folder / str(number), rows)

    def merge() -> None:
        for number in range(tables):
            merger = DeltaTable(folder / str(number)).merge(
                rows, "t.order_id = s.order_id", source_alias="s", target_alias="t", streamed_exec=False
            )
            merger.when_matched_update_all().when_not_matched_insert_all().execute()

    return merge


def measure_maintain(records: int, rounds: int) -> dict[str, Any]:
    """Measure batches of one known table, compared with `maintain` of a table whose columns are declared."""
    with _session() as (spark, folder):
        changes = [debezium(some) for some in changes_of(records)]
        frame = _frame(spark, folder, _records(pa.concat_arrays(changes)))
        declared = KeyValueFormat.from_ddl(_DECLARED)
        maintained = MaintainedBatch(declared, CurrentTable.at(folder / "maintained", declared.key_columns), None)
        numbers, query = itertools.count(), _Query(spark, folder / "ingest", frame)
        query()  # the first batch finds the columns; a later one is decoded while it is looked at
        tasks: dict[str, Task] = {
            "maintain": lambda: maintained(maintained.decoded(frame), next(numbers)),
            "ingest": query,
        }
        speeds = measure(tasks, records=records, rounds=rounds)
        ours, theirs = folder / "ingest" / "out", folder / "maintained"
        one = read_table(spark, ours, "inventory.orders").select(*_TYPES)
        if one.exceptAll(current_table(spark, theirs).select(*_TYPES)).count():
            raise AssertionError("ingest and maintain wrote different rows")
    print(table("one table, records per CPU-second", speeds, "maintain"))
    return document(speeds, [("ingest", "maintain")], records)


def measure_topic(records: int, rounds: int) -> dict[str, Any]:
    """Measure batches of one known table from a topic, by each way to its records."""
    with tempfile.TemporaryDirectory() as of_broker, _session(jars=services.kafka_jars()) as (spark, folder):
        broker = MeasuredBroker(Path(of_broker))
        try:
            broker.create("shop", PARTITIONS)
            for changes in changes_of(records):
                broker.send("shop", ((None, value) for value in debezium(changes).to_pylist()))
            source = {**_SOURCE, "properties.bootstrap.servers": broker.bootstrap}
            topic = Pipeline(source, {"type": "delta", "path": "x"}).source.records
            assert topic is not None
            frames = {
                "Spark's source": topic.records(spark, source="spark"),
                "data source": topic.records(spark, source="python"),
                "ranges": python_source.ranges(spark, topic.kv, None, streaming=False),
            }
            tasks: dict[str, Task] = {}
            for name, frame in frames.items():
                tasks[name] = query = _Query(spark, folder / name, frame, source=source)
                query()  # the first batch finds the columns; a later one is decoded while it is looked at
            speeds = measure(tasks, records=records, rounds=rounds, clock=broker.others_cpu_seconds)
            found = [read_table(spark, folder / name / "out", "inventory.orders") for name in frames]
            assert not any(found[0].exceptAll(other).count() for other in found[1:]), "the ways gave different rows"
        finally:
            broker.kill()
    print(table("one table from a topic, records per CPU-second", speeds, "Spark's source"))
    return document(speeds, [("ranges", name) for name in tasks if name != "ranges"], records)


def measure_memory(records: int, rounds: int) -> dict[str, Any]:
    """Measure the memory of one query. It runs once; `rounds` is ignored.

    The heap is so small that a query fills it during its first third.
    """
    each = records // BATCHES
    with _session("1g") as (spark, folder):
        (folder / "records").mkdir()
        for number in range(BATCHES):
            tables = [(IN_A_BATCH * number + n) % OF_MEMORY for n in range(IN_A_BATCH)]
            changes = Changes(orders(each // IN_A_BATCH, SEED + number), SEED)
            messages = pa.concat_arrays([debezium(changes, f"orders_{n}") for n in tables])
            pq.write_table(_records(messages, number * each), folder / "records" / f"{number:03}.parquet")
        schema = spark.read.parquet(str(folder / "records")).schema
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "records"))
        started = time.monotonic()
        query = ingest(
            spark,
            stream,
            str(folder / "out"),
            checkpoint_location=str(folder / "checkpoint"),
            transform=_BY_ID,
            trigger={"availableNow": True},
        )
        while query.isActive and len(query.recentProgress) < WARM_UP:
            time.sleep(1)
        with MemoryMonitor() as monitor:
            query.awaitTermination()
        seconds = time.monotonic() - started
        batches_done = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
        count = sum(batches_done)
        assert len(batches_done) == BATCHES, f"{len(batches_done)} batches"
    memory = monitor.thirds()
    print(f"\n{count:,} records of {OF_MEMORY} tables in {BATCHES} batches, {seconds:.0f} s, MB")
    for name, of in memory.items():
        print(f"  {name:20} " + "   ".join(f"{third} {size:,}" for third, size in of.items()))
    return {
        "memory": memory,
        "records": count,
        "batches": BATCHES,
        "seconds": round(seconds),
        "environment": environment(*PACKAGES),
    }


def measure_steady(records: int, rounds: int) -> dict[str, Any]:
    """Measure whether a query keeps up. It runs once, until as many records have arrived; `rounds` is ignored."""
    with tempfile.TemporaryDirectory() as of_broker, _session("1g") as (spark, folder):
        broker = MeasuredBroker(Path(of_broker))
        try:
            broker.create("shop", PARTITIONS)
            messages = [
                debezium(Changes(orders(EACH, SEED), SEED), f"orders_{n}").to_pylist() for n in range(STEADY_TABLES)
            ]
            arriving = threading.Thread(target=_arrive, args=(broker, messages, records))
            arriving.start()
            query = ingest(
                spark,
                {**_SOURCE, "properties.bootstrap.servers": broker.bootstrap, "value.format": "debezium-json"},
                str(folder / "out"),
                checkpoint_location=str(folder / "checkpoint"),
                transform=_BY_ID,
                trigger={"processingTime": f"{STEADY_SECONDS} seconds"},
            )
            while query.isActive and len(query.recentProgress) < WARM_UP:
                time.sleep(1)
            found: dict[int, tuple[float, int]] = {}
            with MemoryMonitor(broker.process) as monitor:
                while query.isActive and (arriving.is_alive() or _waiting(query.lastProgress)):
                    time.sleep(1)
                    for progress in query.recentProgress[-5:]:
                        found[progress.batchId] = progress.batchDuration / 1000, _waiting(progress)
            assert query.isActive, query.exception()
            query.stop()
            table_rows = [
                read_table(spark, folder / "out", f"inventory.orders_{n}").count() for n in (0, STEADY_TABLES - 1)
            ]
        finally:
            broker.kill()
    seconds, waiting = zip(*list(found.values())[WARM_UP:], strict=True)
    facts = {
        "seconds": {"median": round(statistics.median(seconds), 1), "most": round(max(seconds), 1)},
        "waiting": {"median": statistics.median(waiting), "most": max(waiting)},
        "batches": len(seconds),
    }
    print(
        f"\n{records:,} records of {STEADY_TABLES} tables, {RATE:,} a second: {facts}, rows of two tables {table_rows}"
    )
    return {**facts, "memory": monitor.thirds(), "records": records, "environment": environment(*PACKAGES)}


def _arrive(broker: MeasuredBroker, messages: list[list[bytes]], records: int) -> None:
    """Send records of all tables, `RATE` of them a second."""
    begun, sent, numbers = time.monotonic(), 0, itertools.count()
    while sent < records:
        some = [
            (None, of_table[n % len(of_table)])
            for n in itertools.islice(numbers, RATE // STEADY_TABLES)
            for of_table in messages
        ]
        broker.send("shop", some)
        sent += len(some)
        time.sleep(max(0.0, begun + sent / RATE - time.monotonic()))


def _waiting(progress: Any) -> int:
    """Return how many records wait when a micro-batch is planned, beside its own."""
    if progress is None:
        return 1
    return sum(sum((lag_of(source.endOffset, source.latestOffset) or {}).values()) for source in progress.sources)


PARTS = {
    "look": measure_look,
    "known": measure_known,
    "maintain": measure_maintain,
    "topic": measure_topic,
    "memory": measure_memory,
    "touched": measure_touched,
    "steady": measure_steady,
}

if __name__ == "__main__":
    run("ingest", __doc__ or "", PARTS, {"schema": SCHEMA, "seed": SEED}, records=1_000_000)
