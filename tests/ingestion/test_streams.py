"""Queries that read a real broker: where they begin, what they look at first, new topics, quarantine, registries."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import log_progress, source_choice
from kvformat.ingestion import DeltaPathTarget, Pipeline, read_table
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.store import FIRST_BATCH, SchemaStore
from kvformat.ingestion.targets.target import BatchWrite
from kvformat.registry import ConfigurationError
from tests.support import services
from tests.support.cli import run
from tests.support.confluent import registry_client
from tests.support.starting import started

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]
_BY_ID = [{"source-table": r"\.*.\.*", "primary-keys": "id"}]
_LONGEST = 200  # seconds of a query


class Stream:
    """A pipeline from topics to a folder, started again and again with one checkpoint."""

    def __init__(self, spark: Any, broker: Any, folder: Path, source: dict[str, str], **blocks: Any) -> None:
        given = {
            "type": "kafka",
            "properties.bootstrap.servers": broker.bootstrap,
            "scan.startup.mode": "earliest-offset",
            "value.format": "json",
            **source,
        }
        self.spark, self.lake, self.checkpoint = spark, folder / "lake", folder / "checkpoint"
        self.pipeline = Pipeline(given, {"type": "delta", "path": str(self.lake)}, **blocks)

    def start(self, **more: Any) -> Any:
        return started(lambda: self.pipeline.start(self.spark, checkpoint_location=self.checkpoint, **more))

    def run(self, **more: Any) -> None:
        """Run until all is read that is there."""
        query = self.start(trigger={"availableNow": True}, **more)
        assert query.awaitTermination(_LONGEST), "the query did not end"
        if query.exception() is not None:
            raise query.exception()

    def rows(self, table: str | tuple[str, ...], *order: str) -> list[tuple[Any, ...]]:
        found = read_table(self.spark, self.lake, TableId(table) if isinstance(table, tuple) else table)
        return [tuple(row) for row in found.orderBy(*(order or ("id",))).collect()]

    def events(self, table: str) -> list[tuple[int, str]]:
        """Return the changes of a source table, each with the number of its batch."""
        history = SchemaStore(self.spark, str(self.checkpoint)).history()
        return [(batch, e.event.tag) for batch, e in history if str(e.event.table) == table]


def _send(broker: Any, topic: str, *values: Any, **more: Any) -> None:
    broker.send(topic, [(None, json.dumps(value).encode()) for value in values], **more)


# --- where a query begins --------------------------------------------------------------------------------------


def _commit(broker: Any, group: str, topic: str, offsets: dict[int, int]) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, *at) for at in offsets.items()], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scan.startup.mode": "earliest-offset"}, {0, 1, 2, 3, 4, 5, 6, 7}),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "3000"}, {3, 4, 5, 6, 7}),
        (
            {
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": "partition:0,offset:3;partition:1,offset:1",
            },
            {6, 3, 5, 7},
        ),
        ({"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": "earliest"}, {4, 6, 1, 3, 5, 7}),
        ({"properties.auto.offset.reset": "latest", "scan.startup.mode": "group-offsets"}, {4, 6}),
    ],
)
def test_a_first_start_begins_where_it_is_told(
    spark: Any, broker: Any, tmp_path: Path, options: dict[str, str], expected: set[int]
) -> None:
    """Even numbers are in partition 0, odd ones in 1; the time of a number is as many seconds."""
    topic = broker.create(f"begin-{tmp_path.name}", 2)
    for n in range(8):
        _send(broker, topic, {"id": n}, partition=n % 2, timestamp=1000 * n + 1)
    group = f"group-{topic}"
    _commit(broker, group, topic, {0: 2})
    stream = Stream(spark, broker, tmp_path, {"topic": topic, "properties.group.id": group, **options})
    stream.run()
    assert {id for (id,) in stream.rows((topic,))} == expected
    _send(broker, topic, {"id": 8}, partition=0)
    stream.run()  # goes on from its checkpoint
    assert {id for (id,) in stream.rows((topic,))} == {*expected, 8}


def test_a_group_with_members_is_refused_if_asked(spark: Any, broker: Any, tmp_path: Path) -> None:
    from confluent_kafka import Consumer

    topic = broker.create(f"group-{tmp_path.name}")
    _send(broker, topic, {"id": 1})
    group = {"properties.group.id": f"of-{topic}", "scan.check.duplicated.group.id": "true"}
    stream = Stream(spark, broker, tmp_path, {"topic": topic, **group})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"of-{topic}", "client.id": "other"})
    consumer.subscribe([topic])
    deadline = time.monotonic() + _LONGEST
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.2)
    try:
        with pytest.raises(ConfigurationError, match=rf"'of-{topic}' has 1 members.*: other at .*127.0.0.1"):
            stream.start()
        Stream(spark, broker, tmp_path, {"topic": topic, "properties.group.id": f"of-{topic}"}).run()
    finally:
        consumer.close()
    _send(broker, topic, {"id": 2})
    stream.run()
    assert stream.rows((topic,)) == [(1,), (2,)]


def test_a_topic_that_appears_later(spark: Any, broker: Any, tmp_path: Path) -> None:
    prefix = f"later-{tmp_path.name}"
    first, second = broker.create(f"{prefix}.one"), f"{prefix}.two"
    broker.create(f"not-{prefix}.one")
    _send(broker, f"not-{prefix}.one", {"id": 0})
    _send(broker, first, {"id": 1})
    stream = Stream(spark, broker, tmp_path, {"topic-pattern": rf"{prefix}\..*"})
    query = stream.start(trigger={"processingTime": "0 seconds"})
    try:
        _wait(query, lambda: stream.events(first) != [])
        broker.create(second, 2)
        _send(broker, second, {"id": 2, "v": "x"}, {"id": 3})
        _send(broker, first, {"id": 4})
        _wait(query, lambda: stream.events(second) != [])
        query.processAllAvailable()
    finally:
        query.stop()
    assert stream.rows((first,)) == [(1,), (4,)]
    assert stream.rows((second,)) == [(2, "x"), (3, None)]


def _wait(query: Any, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LONGEST
    while not done():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.5)


# --- the look before the first batch ---------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 20])
def test_the_newest_records_are_looked_at_first(spark: Any, broker: Any, tmp_path: Path, count: int) -> None:
    """4 partitions of 2000 records; only the newest 10 of each partition have a fraction and another column."""
    topic = broker.create(f"fetch-{tmp_path.name}", 4)
    for partition in range(4):
        values = [{"id": 2000 * partition + n, "v": n} for n in range(1990)]
        late = [{"id": 2000 * partition + n, "v": n + 0.5, f"late{partition}": "x"} for n in range(1990, 2000)]
        _send(broker, topic, *values, *late, partition=partition)
    stream = Stream(spark, broker, tmp_path, {"topic": topic, "scan.max.pre.fetch.records": str(count)})
    stream.run(spark_options={"maxOffsetsPerTrigger": 4000})
    first, _ = SchemaStore(spark, str(stream.checkpoint)).load(FIRST_BATCH + 1)
    late = [f"late{partition}" for partition in range(4)]
    if count:
        columns = first.sources[TableId((topic,))].value.columns
        assert {name: str(t) for name, t in columns.items()} == {"id": "BIGINT", "v": "DOUBLE"} | dict.fromkeys(
            late, "STRING"
        )
        assert stream.events(topic) == [(0, "create.table")]
    else:
        assert first.sources == {}
        assert stream.events(topic) == [(0, "create.table"), (1, "add.column"), (1, "alter.column.type")]
    found = read_table(spark, stream.lake, TableId((topic,)))
    assert found.columns == ["id", "v", *late]
    assert found.count() == 8000
    assert found.where("v <> floor(v)").count() == sum(found.where(f"{name} = 'x'").count() for name in late) == 40


# --- settings of the pipeline ----------------------------------------------------------------------------------


def test_a_function_of_python_and_few_tasks(
    spark: Any, broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvformat.ingestion.batch_decoder._FEW", 0)  # else one task decodes the few records
    topic = broker.create(f"tasks-{tmp_path.name}", 5)
    for n in range(5):
        _send(broker, topic, {"id": n, "name": f"<{n}>"}, partition=n)
    blocks: dict[str, Any] = {
        "transform": [{"source-table": topic, "projection": "id, escape(name) AS name, spark_partition_id() AS task"}],
    }
    functions = [{"name": "escape", "python": "html:escape"}]
    for tasks in ("2", "7"):
        settings = {"parallelism": tasks, "user-defined-function": functions}
        stream = Stream(spark, broker, tmp_path / tasks, {"topic": topic}, pipeline=settings, **blocks)
        stream.run()
        rows = stream.rows((topic,))
        assert [row[:2] for row in rows] == [(n, f"&lt;{n}&gt;") for n in range(5)]
        assert len({task for *_, task in rows}) == (2 if tasks == "2" else 5)


# --- tables that fail ------------------------------------------------------------------------------------------


def _change(table: str, before: Any, after: Any) -> dict[str, Any]:
    operation = "d" if after is None else "c" if before is None else "u"
    return {"before": before, "after": after, "op": operation, "source": {"db": "shop", "table": table}}


@pytest.mark.once  # the command line starts a session of its own kind
def test_a_failed_table_waits_until_it_is_released(spark: Any, broker: Any, tmp_path: Path) -> None:
    """A table without a key can't have updates. With a key for it, and after its release, it goes on."""
    topic, dead = broker.create(f"failed-{tmp_path.name}"), broker.create(f"dead-{tmp_path.name}")
    source = {"topic": topic, "value.format": "debezium-json"}
    one, two = {"id": 1, "v": 1}, {"id": 1, "v": 2}
    _send(broker, topic, _change("good", None, one), _change("bad", None, one), _change("bad", one, two))
    keys = [{"source-table": "shop.good", "primary-keys": "id"}]
    stream = Stream(spark, broker, tmp_path, source, transform=keys)
    more = {"on_table_error": "quarantine", "dead_letters": dead}
    stream.run(**more)
    _send(broker, topic, _change("good", one, two), _change("bad", two, None))
    stream.run(**more)
    assert stream.rows("shop.good") == [(1, 2)]
    letters = broker.records(dead)
    assert [json.loads(m.value())["source"]["table"] for m in letters] == ["bad"] * 3
    assert [json.loads(m.value())["op"] for m in letters] == ["c", "u", "d"]
    shown = run("schemas", stream.checkpoint)
    assert "quarantine" in shown.stdout
    assert run("schemas", stream.checkpoint, "--release", "shop.bad").exit_code == 0
    _send(broker, topic, _change("bad", None, {"id": 2, "v": 5, "w": 1}), _change("bad", {"id": 2, "v": 5}, {"id": 2}))
    released = Stream(spark, broker, tmp_path, source, transform=_BY_ID)
    released.run(**more)
    assert len(broker.records(dead)) == 3
    assert released.rows("shop.bad") == [(2, None, None)]
    assert "quarantine" not in run("schemas", stream.checkpoint).stdout


# --- schema registries -----------------------------------------------------------------------------------------


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


class Producer:
    """Writes Avro messages whose schemas it registers under a subject."""

    def __init__(self, registry: services.SchemaRegistry, broker: Any, topic: str) -> None:
        self._client = registry_client(registry.url)
        self._broker, self._topic = broker, topic

    def message(self, part: str, schema: Any, datum: Any) -> bytes:
        import fastavro
        from confluent_kafka.schema_registry import Schema

        number = self._client.register_schema(f"{self._topic}-{part}", Schema(json.dumps(schema), "AVRO"))
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), datum)
        return b"\0" + number.to_bytes(4, "big") + out.getvalue()

    def send(self, schema: Any, datum: Any, key: tuple[Any, Any] | None = None) -> None:
        encoded = None if key is None else self.message("key", *key)
        self._broker.send(self._topic, [(encoded, self.message("value", schema, datum))])


_STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}
_HASH = {"type": "fixed", "name": "Hash", "size": 2}


def test_rows_of_a_registry(spark: Any, broker: Any, apicurio: services.SchemaRegistry, tmp_path: Path) -> None:
    topic = broker.create(f"avro.rows-{tmp_path.name}")
    producer = Producer(apicurio, broker, topic)
    key = _record("Key", id="long")
    producer.send(_record("V", n="int", state=_STATE), {"n": 1, "state": "PAID"}, (key, {"id": 1}))
    source = {
        "topic": topic,
        "key.format": "avro-confluent",
        "key.fields-prefix": "k_",
        "value.format": "avro-confluent",
        "key.avro-confluent.url": apicurio.url,
        "value.avro-confluent.url": apicurio.url,
    }
    stream = Stream(spark, broker, tmp_path, source)
    stream.run()
    assert stream.rows((topic,), "k_id") == [(1, 1, "PAID")]
    producer.send(
        _record("V", n="long", hash=["null", _HASH], state=_STATE),
        {"n": 2**40, "hash": b"ab", "state": "NEW"},
        (key, {"id": 2}),
    )
    stream.run()
    assert stream.rows((topic,), "k_id") == [(1, 1, "PAID", None), (2, 2**40, "NEW", b"ab")]
    assert stream.events(topic) == [(0, "create.table"), (1, "add.column"), (1, "alter.column.type")]


@pytest.mark.parametrize("types", ["flink", "debezium"])
def test_changes_of_a_registry(
    spark: Any, broker: Any, apicurio: services.SchemaRegistry, tmp_path: Path, types: str
) -> None:
    topic = broker.create(f"avro-{types}-{tmp_path.name}")
    producer = Producer(apicurio, broker, topic)
    day = {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    place = _record("Source", db="string", table="string")

    def change(operation: str, fields: dict[str, Any], before: Any, after: Any, table: str = "orders") -> None:
        row = _record("Value", **fields)
        envelope = _record("Envelope", before=["null", row], after=["null", "Value"], source=place, op="string")
        datum = {"before": before, "after": after, "source": {"db": "shop", "table": table}, "op": operation}
        producer.send(envelope, datum)

    from decimal import Decimal

    old = {"id": "long", "day": day, "state": _STATE}
    change("c", old, None, {"id": 1, "day": 19782, "state": "NEW"})
    change("c", old, None, {"id": 2, "day": 19783, "state": "NEW"})
    change("c", old, None, {"id": 9, "day": 0, "state": "PAID"}, "items")
    source = {
        "topic": topic,
        "value.format": "debezium-avro-confluent",
        "debezium-avro-confluent.url": apicurio.url,
        "debezium-avro-confluent.types": types,
    }
    stream = Stream(spark, broker, tmp_path, source, transform=_BY_ID)
    stream.run()
    new = {**old, "amount": ["null", amount], "hash": ["null", _HASH]}
    first = {"id": 1, "day": 19782, "state": "NEW", "amount": None, "hash": None}
    change("u", new, first, {**first, "state": "PAID", "amount": Decimal("12.50"), "hash": b"\x00\xff"})
    change("d", new, {**first, "id": 2, "day": 19783}, None)
    stream.run()
    import datetime as dt

    shown = dt.date(2024, 2, 29) if types == "debezium" else 19782
    assert stream.rows("shop.orders") == [(1, shown, "PAID", Decimal("12.50"), b"\x00\xff")]
    assert stream.rows("shop.items") == [(9, dt.date(1970, 1, 1) if types == "debezium" else 0, "PAID")]


# --- both sources of records -------------------------------------------------------------------------------------


@pytest.mark.once
def test_both_sources_give_the_same_tables(
    spark: Any, broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks read ranges of offsets, or Spark's Kafka source gives the records: rows, metadata, dead letters."""
    topic = broker.create(f"both-{tmp_path.name}", 2)
    headers = [("kind", b"a"), ("kind", None), ("x", b"\xff")]
    for part in range(4):  # half of the records of a partition have headers
        values = [b"no json" if n % 10 == 3 else json.dumps({"id": n, "v": f"{part}"}).encode() for n in range(15)]
        records = [(b"key %d" % n, value) for n, value in enumerate(values)]
        at = {"partition": part % 2, "timestamp": 1_700_000_000_123 + part}
        broker.send(topic, records, headers=headers if part > 1 else None, **at)
    keys = "partition,offset,timestamp,timestamp-type,headers,topic"
    source = {"topic": topic, "metadata.list": keys, "ingestion.error-tolerance.max-count": "-1"}
    source |= {"ingestion.ignore-errors": "true", "scan.header-filter": "!kind:b"}
    found = []
    for name in ("python", "spark"):
        if name == "spark":
            monkeypatch.setattr(source_choice, "_reason", lambda *_, **__: "the test wants it")
        (tmp_path / name).mkdir()
        stream = Stream(spark, broker, tmp_path / name, source)
        stream.run(dead_letters=tmp_path / name / "dead")
        rows = stream.rows((topic,), "partition", "offset")
        letters = spark.read.parquet(str(tmp_path / name / "dead")).drop("batch")
        found.append((rows, sorted(map(repr, letters.drop("time").collect()))))
    assert len(found[0][0]) == 52
    assert len(found[0][1]) == 8
    assert found[0] == found[1]


# --- what is said of its batches -------------------------------------------------------------------------------


def test_progress_has_the_lag_the_tables_and_the_bad_records(spark: Any, broker: Any, tmp_path: Path) -> None:
    """Records arrive while the first batch is written."""
    topic = broker.create(f"told-{tmp_path.name}", 1)
    _send(broker, topic, {"id": 1}, {"id": 2})
    broker.send(topic, [(None, b"{")])
    stream = Stream(
        spark, broker, tmp_path, {"topic": topic, "ingestion.ignore-errors": "true"}, pipeline={"name": "told"}
    )
    lines: list[tuple[int, str]] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append((record.levelno, record.getMessage()))

    class Target(DeltaPathTarget):
        def write_rows(self, table: TableId, schema: Any, rows: Any, batch: BatchWrite) -> None:
            if batch.batch_id == 0:
                _send(broker, topic, *({"id": n} for n in range(10, 17)))
            super().write_rows(table, schema, rows, batch)

    logger = logging.getLogger("kvformat.tests.told")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler := Kept())
    listener = log_progress(spark, logger=logger)
    try:
        query = stream.start(target=Target(str(stream.lake)))
        deadline = time.monotonic() + _LONGEST
        while len([text for _, text in lines if ", batch " in text]) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        query.stop()
    finally:
        spark.streams.removeListener(listener)
        logger.removeHandler(handler)
    first, second = [line for line in lines if ", batch " in line[1]][:2]
    assert first[0] == logging.WARNING
    assert first[1].startswith("query told, batch 0: 3 records in ")
    assert f"lag 7 records ({topic}-0 7), the oldest waits" in first[1]
    assert "; ingestion: bad 1, MALFORMED 1; 1 tables, the slowest " in first[1]
    assert second[0] == logging.INFO
    assert "batch 1: 7 records in " in second[1]
    assert "lag 0 records; ingestion: bad 0; 1 tables" in second[1]
