"""What a query has not read, as the brokers know it: brokers in memory, brokers that do not answer, and a real one."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError

from kvformat.connectors import KafkaTable, lag, log_progress
from kvformat.connectors.lag import NO_TABLE, Lag, LagWatch
from kvformat.connectors.offset_plan import OffsetPlan
from kvformat.connectors.reader.ranges import PartitionRange, TopicOffsets
from kvformat.registry.contract.errors import BrokerError
from kvformat.registry.contract.fork_safe import Guarded
from tests.support.memory_brokers import Admin, table

END = TopicOffsets({("t", 0): 7, ("t", 1): 9}, {"t": "id-t"})


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "_known", Guarded(dict))


@pytest.fixture
def admin() -> Admin:
    return Admin({"t": {0: 3, 1: 0, 2: 5}}, {"t": {0: 12, 1: 9, 2: 8}}, ids={"t": "id-t"})


def _times(monkeypatch: pytest.MonkeyPatch, *times: tuple[str, int]) -> list[Any]:
    asked: list[Any] = []
    monkeypatch.setattr(lag, "_first_times", lambda kv, ranges: asked.append(ranges) or iter(times))
    return asked


@pytest.mark.parametrize("ids", [{"t": "id-t"}, {}], ids=["python", "spark"])
def test_unread_records_are_those_that_are_there_now(admin: Admin, ids: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kv = table(admin, monkeypatch, {})
    plan = OffsetPlan(kv)
    # A new partition is unread from its beginning, and deleted records do not wait.
    expected = (PartitionRange("t", 0, 7, 12), PartitionRange("t", 2, 5, 8))
    assert plan.unread(TopicOffsets({("t", 0): 7, ("t", 1): 9}, ids)) == expected
    assert plan.unread(TopicOffsets({("t", 0): 1, ("t", 1): 9, ("t", 2): 8}, ids)) == (PartitionRange("t", 0, 3, 12),)
    assert plan.unread(TopicOffsets({("t", 0): 12, ("t", 1): 9, ("t", 2): 8}, ids)) == ()


def test_records_of_open_transactions_do_not_wait(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    admin.stable = {"t": {0: 9, 1: 9, 2: 5}}
    committed = table(admin, monkeypatch, {"properties.isolation.level": "read_committed"})
    assert OffsetPlan(committed).unread(END) == (PartitionRange("t", 0, 7, 9),)


def test_the_tables_of_streams_are_remembered(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _times(monkeypatch, ("t", 5000), ("t", 3000), ("t", 4000))
    watch = LagWatch()
    assert watch.after(END) == Lag(unknown=NO_TABLE)
    lag.watched(table(admin, monkeypatch, {"topic": "other"}))
    assert watch.after(END) == Lag(unknown=NO_TABLE)
    lag.watched(table(admin, monkeypatch, {}))
    behind = watch.after(END)
    assert behind == Lag({"t-0": 5, "t-1": 0, "t-2": 3}, {"t": 3000})
    assert behind.topics == {"t": 8}
    assert asked == [(PartitionRange("t", 0, 7, 12), PartitionRange("t", 2, 5, 8))]
    # Nothing waits: no record is read.
    assert watch.after(TopicOffsets({("t", 0): 12, ("t", 1): 9, ("t", 2): 8}, {"t": "id-t"})).oldest == {}
    assert len(asked) == 1


def test_a_table_of_more_topics_is_another_one(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    more = table(admin, monkeypatch, {"topic": "t;u"})
    assert LagWatch([more]).after(END) == Lag(unknown=NO_TABLE)
    assert Lag({"a-b-0": 1, "a-b-1": 2, "a-1": 4}).topics == {"a-b": 3, "a": 4}


def test_the_latest_tables_are_remembered(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "_MOST_TABLES", 2)
    first, second, third = (table(admin, monkeypatch, {"topic": name}) for name in "abc")
    for kv in (first, second, first, third):
        lag.watched(kv)
    with lag._known.use() as known:
        assert list(known) == [first, third]


def test_a_pattern_reads_each_topic_that_it_matches(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    _times(monkeypatch)
    kv = table(admin, monkeypatch, {"topic": None, "topic-pattern": "t+"})
    assert LagWatch([kv]).after(END).topics == {"t": 8}
    both = TopicOffsets({**END.offsets, ("u", 0): 1})  # of a query that reads another topic, too
    assert LagWatch([kv]).after(both) == Lag(unknown=NO_TABLE)


def test_topic_ids_tell_brokers_apart(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    _times(monkeypatch)
    first = table(admin, monkeypatch, {})
    other = Admin(admin.first, {"t": {0: 99, 1: 99, 2: 99}}, ids={"t": "id-other"})
    second = table(other, monkeypatch, {"properties.bootstrap.servers": "elsewhere:1"})
    clients = {"b:1": admin, "elsewhere:1": other}
    monkeypatch.setattr("kvformat.connectors.brokers.admin", lambda of: clients[of["properties.bootstrap.servers"]])
    for kv in (first, second):
        lag.watched(kv)
    assert LagWatch().after(END).topics == {"t": 8}
    without = LagWatch().after(TopicOffsets(END.offsets))  # of Spark's source
    assert without.partitions == {}
    assert "different brokers" in without.unknown
    assert LagWatch([first]).after(TopicOffsets(END.offsets)).topics == {"t": 8}
    monkeypatch.setattr(other, "describe_topics", lambda *_, **__: 1 // 0)
    assert LagWatch([first, second]).after(END).topics == {"t": 8}, "also if the others, asked first, do not answer"


def test_brokers_that_do_not_answer_are_left_alone(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    monkeypatch.setattr(admin, "list_offsets", lambda *_, **__: free.wait(60), raising=False)
    monkeypatch.setattr(lag, "LONGEST", 0.2)
    watch = LagWatch([table(admin, monkeypatch, {})])
    begun = time.monotonic()
    assert watch.after(END).unknown == "the brokers did not answer within 0.2 s"
    assert watch.after(END).unknown == "the brokers did not answer within 0.2 s"  # without another request
    other = TopicOffsets({("u", 0): 1})
    assert watch.after(other).unknown == "the brokers have not answered the last request yet"
    assert time.monotonic() - begun < 5
    free.set()


def test_brokers_are_asked_again_after_a_pause(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(lag, "time", clock)
    watch = LagWatch([table(admin, monkeypatch, {})])
    failures: list[Exception] = [BrokerError("long", reason="short"), RuntimeError("text"), RuntimeError()]

    def plan(_: Any) -> Any:
        raise failures.pop(0)

    monkeypatch.setattr(watch, "_plan", plan)
    for now, unknown in ((0, "short"), (29, "short"), (30, "text"), (61, "RuntimeError")):
        clock.now = float(now)
        assert watch.after(END) == Lag(unknown=unknown)


def test_errors_are_reasons_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "connector": "kafka",
        "topic": "t",
        "format": "raw",
        "properties.bootstrap.servers": "127.0.0.1:1",
        "properties.security.protocol": "SASL_PLAINTEXT",
        "properties.sasl.mechanism": "PLAIN",
        "properties.sasl.jaas.config": 'x.PlainLoginModule required username="u" password="Tr0ub4dor";',
    }
    watch = LagWatch([KafkaTable("v BYTES", options).kv])
    begun = time.monotonic()
    behind = watch.after(END)
    assert behind.unknown
    assert behind.partitions == {}
    assert "Tr0ub4dor" not in behind.unknown
    assert time.monotonic() - begun < lag.LONGEST + 2


def test_answers_do_not_hinder_the_next_question(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query may have several sources: they are asked for one after the other."""
    _times(monkeypatch)
    watch = LagWatch([table(admin, monkeypatch, {})])
    assert [watch.after(END).unknown for _ in range(200)] == [""] * 200


class Consumer:
    """A consumer that gives messages, then none."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.assigned, self.closed = list(answers), list[Any](), 0

    def assign(self, partitions: list[Any]) -> None:
        self.assigned = [(at.topic, at.partition, at.offset) for at in partitions]

    def consume(self, count: int, timeout: float) -> list[Any]:
        return [self.answers.pop(0)] if self.answers else []

    def close(self) -> None:
        self.closed += 1


def _message(partition: int, timestamp: tuple[int, int] = (0, -1), error: KafkaError | None = None) -> Any:
    members = {"topic": "t" if partition < 5 else "u", "partition": partition, "error": error, "timestamp": timestamp}
    return SimpleNamespace(**{name: lambda value=value: value for name, value in members.items()})


def test_the_oldest_record_is_the_first_one_of_any_partition(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that come in time. A passing error is no answer, and a record without a timestamp has no age."""
    consumer = Consumer(
        _message(0, error=KafkaError(KafkaError._TRANSPORT, retriable=True)),
        _message(0, (1, 5000)),
        _message(0, (1, 1000)),  # fetched with the first one
        _message(1, error=KafkaError(KafkaError._PARTITION_EOF)),
        _message(2, (0, -1)),
        _message(3, (2, 4000)),  # the time of the broker
        _message(6, (1, 7000)),
    )
    made: list[Any] = []
    monkeypatch.setattr(lag.brokers, "make_client", lambda kind, settings, _: made.append(settings) or consumer)
    monkeypatch.setattr(lag, "_LONGEST_FETCH", 0.05)
    kv = table(admin, monkeypatch, {"properties.isolation.level": "read_committed"})
    ranges = [PartitionRange("t" if number < 5 else "u", number, number, 9) for number in (0, 1, 2, 3, 5, 6)]
    begun = time.monotonic()
    assert lag.oldest_records(kv, ranges) == {"t": 4000, "u": 7000}
    assert time.monotonic() - begun < 2, "partition 5 does not answer"
    assert consumer.assigned == [(at.topic, at.partition, at.start) for at in ranges]
    assert consumer.closed == 1
    found = [made[0][name] for name in ("auto.offset.reset", "isolation.level", "max.partition.fetch.bytes")]
    assert found == ["earliest", "read_committed", "65536"]


@pytest.mark.services
def test_the_brokers_numbers(broker: Any) -> None:
    topic = broker.create("lag-numbers", 3)
    now = int(time.time() * 1000)
    for partition, first, count in ((0, now - 60_000, 40), (1, now - 90_000, 2)):
        for number in range(count):
            broker.send(topic, [(None, b"x" * 100)], partition=partition, timestamp=first + 1000 * number)
    kv = KafkaTable(
        "v BYTES",
        {
            "connector": "kafka",
            "topic": topic,
            "format": "raw",
            "scan.startup.mode": "earliest-offset",
            "properties.bootstrap.servers": broker.bootstrap,
        },
    ).kv
    watch = LagWatch([kv])
    read = OffsetPlan(kv).initial()
    whole = watch.after(read)
    assert whole.partitions == {f"{topic}-0": 40, f"{topic}-1": 2, f"{topic}-2": 0}
    assert whole.oldest == {topic: now - 90_000}
    some = TopicOffsets({(topic, 0): 10, (topic, 1): 2, (topic, 2): 0}, read.topic_ids)
    assert watch.after(some) == Lag({f"{topic}-0": 30, f"{topic}-1": 0, f"{topic}-2": 0}, {topic: now - 50_000})
    broker.send(topic, [(None, b"y")] * 5, partition=2, timestamp=now - 999_000)
    assert watch.after(some).partitions[f"{topic}-2"] == 5
    assert watch.after(some).oldest == {topic: now - 999_000}


@pytest.fixture
def batch_lines(spark: Any) -> Iterator[Callable[[int], list[str]]]:
    """Log the progress of queries; the function waits for the lines of so many batches."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.getLogger("kvformat.tests.lag")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler := Kept())
    listener = log_progress(spark, logger=logger)

    def batches(count: int) -> list[str]:
        deadline = time.monotonic() + 60
        while len(found := [line for line in lines if ", batch " in line]) < count and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    yield batches
    spark.streams.removeListener(listener)
    logger.removeHandler(handler)


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.parametrize("source", ["python", pytest.param("spark", marks=pytest.mark.slow)])
def test_records_that_arrive_during_a_batch_are_lag(
    spark: Any, broker: Any, tmp_path: Path, batch_lines: Callable[[int], list[str]], source: Any
) -> None:
    topic = broker.create(f"lag-{source}", 2)
    stream = KafkaTable(
        "v STRING",
        {
            "connector": "kafka",
            "topic": topic,
            "format": "raw",
            "scan.startup.mode": "earliest-offset",
            "properties.bootstrap.servers": broker.bootstrap,
        },
    ).read_stream(spark, source=source)
    broker.send(topic, [(None, b"1")] * 3, partition=0)
    fails = True

    def write(batch: Any, batch_id: int) -> None:
        assert batch.count() > 0
        if batch_id == 0:
            broker.send(topic, [(None, b"2")] * 12, partition=1)
        if batch_id == 1 and fails:
            broker.send(topic, [(None, b"3")] * 7, partition=0)
            raise RuntimeError("stopped")

    def run(**trigger: Any) -> Any:
        writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(**trigger).start()

    query = run(processingTime="0 seconds")
    with pytest.raises(Exception, match="stopped"):
        query.awaitTermination(120)
    (first,) = batch_lines(1)
    assert re.search(rf"batch 0: 3 records .*; lag (12 records|19 records) \(.*{topic}-1 12.*the oldest waits", first)
    fails = False
    again = run(availableNow=True)
    assert again.awaitTermination(120)
    # Spark plans no offsets for the batch that runs again, and reports none.
    _, repeated, last = batch_lines(3)
    assert re.search(rf"batch 1: 12 records .*; lag 7 records \({topic}-0 7\), the oldest waits", repeated)
    assert "lag 0 records" in last
