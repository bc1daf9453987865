"""Kill exactly-once queries, their workers and brokers, and check that each record is there exactly once.

    python -m tests.connectors.once_crashes --kills 20      all scenarios, with a report (scripts/crash_tests)

The source has changes of keys and bad records. A query copies the changes to another topic, and the bad records to a
topic of dead letters. `test_once_crashes.py` runs each scenario with few kills.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import itertools
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from kvformat.ingestion import Pipeline
from tests.connectors.crashes import KEYS, Query, Report, changes, session
from tests.connectors.tables import upsert
from tests.support import services

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_COPIES = itertools.count()
BATCH = 12_000
"""Records of a micro-batch, at most."""
SCHEMA = "id INT NOT NULL, n BIGINT, pad STRING"
_PAD = "x" * 500  # so that a transaction takes some time
_BAD_AFTER = 100  # changes between two bad records
_TIMEOUT = 120
"""Seconds after which brokers abort a transaction."""
_TRIES = 3


class Hanging(RuntimeError):
    """Brokers have lost the end of a transaction, so no reader of committed records gets further.

    Those of Kafka 4.4 may do so if they are killed in the middle of a commit (KAFKA-20734).
    """


class OnceQuery(Query):
    """A query that copies a table exactly once, in its own process."""

    module = "tests.connectors.once_crashes"

    def alive(self) -> bool:
        """Return whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def worker_groups(self) -> set[int]:
        """Return the process groups of Python workers, which are not in the group of the query or the executor."""
        assert self._process is not None
        parents = self.cluster.executors() if self.cluster else [psutil.Process(self._process.pid)]
        groups, others = set[int](), set[int]()
        for parent in parents:
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                others.add(os.getpgid(parent.pid))
                for process in parent.children(recursive=True):
                    groups.add(os.getpgid(process.pid))
        return groups - others


def run_query(settings: dict[str, Any]) -> None:
    """Run a query until its process is killed. A failed task is tried again, as on a cluster."""
    conf = {"spark.master": "local[2,8]", "spark.sql.execution.arrow.maxRecordsPerBatch": "50"}
    conf |= {"spark.default.parallelism": str(settings["tasks"])} | settings.get("conf", {})
    spark = session(**conf)
    run = {"copy": copy_table, "ingest": ingest}[settings["what"]]
    run(spark, settings, str(Path(settings["folder"], "checkpoint"))).awaitTermination()


def copy_table(spark: SparkSession, settings: dict[str, Any], checkpoint: str) -> StreamingQuery:
    """Start a query that copies an upsert table."""
    options = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "crash"}
    source = upsert(settings["bootstrap"], settings["source"], SCHEMA, **settings.get("source_options", {}))
    target = upsert(
        settings["bootstrap"],
        settings["target"],
        SCHEMA,
        **options,
        **{"sink.parallelism": settings["tasks"], "properties.transaction.timeout.ms": _TIMEOUT * 1000},
    )
    records = spark.readStream.format("kafka").options(**source.source_options(streaming=True))
    most = settings.get("batch", BATCH)
    stream = records.option("maxOffsetsPerTrigger", most).option("includeHeaders", "true").load()
    return target.write_stream(
        source.kv.decode(stream, errors="capture"),
        checkpoint_location=checkpoint,
        dead_letters=settings["dead"],
        extra_columns="ignore",
    )


def ingest(spark: SparkSession, settings: dict[str, Any], checkpoint: str) -> StreamingQuery:
    """Start a query that ingests two tables from Debezium's messages, and writes their changes to one topic."""
    brokers = {"type": "kafka", "properties.bootstrap.servers": settings["bootstrap"]}
    timeout = {"properties.transaction.timeout.ms": str(_TIMEOUT * 1000)}
    source = {"topic": settings["source"], "scan.startup.mode": "earliest-offset", "ingestion.ignore-errors": "true"}
    sink = {"topic": settings["target"], "partition.strategy": "hash-by-key"}
    pipeline = Pipeline(
        brokers | source,
        brokers | sink | {"sink.delivery-guarantee": "exactly-once", **timeout},
        transform=[{"source-table": r"shop.\.*", "primary-keys": "id"}],
    )
    return pipeline.start(
        spark,
        checkpoint_location=checkpoint,
        dead_letters=settings["dead"],
        spark_options={"maxOffsetsPerTrigger": BATCH},
    )


class Copy:
    """A source with changes and bad records, the topics that a query copies them to, and the query."""

    what = "copy"
    letters_once = True

    def __init__(self, broker: services.KafkaBroker, folder: Path, records: int, chance: random.Random) -> None:
        name = f"once-{next(_COPIES)}"  # a new name also for the same seed
        self.broker, self.chance = broker, chance
        self.count = records // KEYS
        self.source, self.target = broker.create(f"{name}-source", 4), broker.create(f"{name}-target", 3)
        self.dead = broker.create(f"{name}-dead", 2)
        self.bad = [(b'{"id":%d}' % (n % KEYS), b"no json %d" % n) for n in range(records // _BAD_AFTER)]
        self.mixed = list[tuple[bytes, bytes | None]]()
        for n, (key, value) in enumerate(changes(self.count)):
            if n % _BAD_AFTER == 0 and n // _BAD_AFTER < len(self.bad):
                self.mixed.append(self.bad[n // _BAD_AFTER])
            self.mixed.append((key, self.sent(key, value)))
        topics = {"source": self.source, "target": self.target, "dead": self.dead}
        watching = {"group.id": "watching", "isolation.level": "read_uncommitted", "log_level": 0}
        self._watching = Consumer({"bootstrap.servers": broker.bootstrap, **watching})
        self._admin = broker.admin()
        self.query = OnceQuery(folder, self.what, bootstrap=broker.bootstrap, **topics)
        self.query.settings(tasks=3)

    def sent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Return the message of a change; `value` has its number."""
        return None if value is None else value[:-1] + b',"pad":"%s"}' % _PAD.encode()

    def number(self, value: bytes | None) -> int:
        """Return the number of a change that was written. Only the last one is a delete."""
        return self.count - 1 if value is None else int(json.loads(value)["n"])

    def all_read(self) -> bool:
        return self.query.read() >= len(self.mixed)

    def wait(self, until: Callable[[], bool]) -> None:
        """Wait for a condition, and start a query again that has ended, as an operator would."""

        def found() -> bool:
            if not self.query.alive():
                self.query.start()
            return until()

        self.query.wait(found)

    def wait_for_transaction(self) -> set[int]:
        """Wait until a batch is being written: its first records are in the log. Returns the groups of workers."""
        done, groups = self.query.batches(), set[int]()

        def decoding() -> bool:
            nonlocal groups
            groups = self.query.worker_groups()
            return bool(groups) or self.all_read()

        self.wait(lambda: self.query.in_flight() >= done or self.all_read())
        self.wait(decoding)
        written = self.written()
        self.wait(lambda: self.written() > written or self.query.batches() > done or self.all_read())
        return groups

    def written(self) -> int:
        """Return the number of records in the target's log, with those of open and aborted transactions."""
        partitions = (TopicPartition(self.target, number) for number in range(3))
        return sum(self._watching.get_watermark_offsets(one, timeout=30)[1] for one in partitions)

    def open(self) -> list[str]:
        """Return the partitions in which a transaction has not ended."""
        counts = {self.target: 3, self.dead: 2, "__consumer_offsets": 1}
        asked = {TopicPartition(topic, n): OffsetSpec.latest() for topic, count in counts.items() for n in range(count)}
        ends = [
            {f"{at.topic}-{at.partition}": found.result().offset for at, found in answers.items()}
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            for answers in [self._admin.list_offsets(asked, isolation_level=level, request_timeout=30)]
        ]
        return [name for name, end in ends[0].items() if end < ends[1][name]]

    def wait_or_hang(self, until: Callable[[], bool]) -> None:
        """Wait for a condition. Raises `Hanging` if brokers have not ended a transaction long after its time."""
        deadline = time.monotonic() + _TIMEOUT + 60

        def found() -> bool:
            if until():
                return True
            if time.monotonic() > deadline and (partitions := self.open()):
                raise Hanging(f"a transaction does not end in {partitions}")
            return False

        self.wait(found)

    def check(self, report: Report) -> None:
        """Check that a reader of committed records sees each exactly once, and those of a key in order."""
        found: dict[int, list[int]] = {key: [] for key in range(KEYS)}
        messages = self.broker.records(self.target)
        for message in messages:
            found[json.loads(message.key())["id"]].append(self.number(message.value()))
        assert len(messages) == KEYS * self.count, f"{len(messages)} of {KEYS * self.count} records"
        for key, numbers in found.items():
            assert numbers == list(range(self.count)), f"key {key}"
        letters = [(message.key(), message.value()) for message in self.broker.records(self.dead)]
        if not self.letters_once:
            letters = [*set(letters)]
        assert sorted(letters) == sorted(self.bad), f"{len(letters)} of {len(self.bad)} dead letters"
        report.records = len(messages) + len(letters)
        # Records of aborted transactions in the log, and the markers of transactions.
        report.repeats = len(self.broker.records(self.target, committed_only=False)) - len(messages)


class Ingested(Copy):
    """Changes of two tables in Debezium's messages, which a pipeline writes to one topic. Letters are at least once."""

    what = "ingest"
    letters_once = False

    def sent(self, key: bytes, value: bytes | None) -> bytes | None:
        id = json.loads(key)["id"]
        n = self.count - 1 if value is None else json.loads(value)["n"]
        before, after = ({"id": id, "n": of, "pad": _PAD} for of in (n - 1, n))
        change = {"before": before if n else None, "after": None if value is None else after}
        kind = "d" if value is None else "u" if n else "c"
        table = {"db": "shop", "table": f"t{id % 2}"}
        return json.dumps({**change, "op": kind, "source": table}).encode()

    def number(self, value: bytes | None) -> int:
        after = json.loads(value or b"")["after"]
        return self.count - 1 if after is None else int(after["n"])


def kill_groups(groups: set[int]) -> None:
    """Kill all processes of groups."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def kill_queries(
    broker: services.KafkaBroker,
    folder: Path,
    kills: int,
    records: int,
    chance: random.Random,
    copies: type[Copy] = Copy,
) -> Report:
    """Kill the query in the middle of batches, with its workers or without; it goes on with another number of tasks."""
    begun, report = time.monotonic(), Report(f"exactly once, {copies.what}, the query killed")
    copy = copies(broker, folder, max(records, BATCH * (kills + 2)), chance)
    broker.send(copy.source, copy.mixed)
    try:
        while report.mid_batch < kills and not copy.all_read():
            copy.query.settings(tasks=chance.randrange(2, 5))
            workers = copy.wait_for_transaction()
            time.sleep(chance.random() * 0.1)
            if report.kills % 3:  # else the workers go on until they need more of the JVM
                kill_groups(workers)
            copy.query.kill()
            report.kills += 1
            report.mid_batch += copy.query.in_flight() >= 0
        copy.wait(copy.all_read)
    finally:
        copy.query.kill()
    copy.check(report)
    report.seconds = time.monotonic() - begun
    return report


def kill_workers(broker: services.KafkaBroker, folder: Path, kills: int, records: int, chance: random.Random) -> Report:
    """Kill the Python workers in the middle of a transaction; Spark tries their tasks again."""
    begun, report = time.monotonic(), Report("exactly once, Python workers killed")
    copy = Copy(broker, folder, max(records, BATCH * (kills + 2)), chance)
    broker.send(copy.source, copy.mixed)
    try:
        while report.kills < kills and not copy.all_read():
            done, workers = copy.query.batches(), copy.wait_for_transaction()
            time.sleep(chance.random() * 0.1)
            kill_groups(workers)
            report.kills += 1
            report.mid_batch += copy.query.in_flight() >= 0
            copy.wait(lambda done=done: copy.query.batches() > done or copy.all_read())
        copy.wait(copy.all_read)
    finally:
        copy.query.kill()
    copy.check(report)
    report.seconds = time.monotonic() - begun
    return report


def kill_brokers(_: services.KafkaBroker, folder: Path, kills: int, records: int, chance: random.Random) -> Report:
    """Kill the broker in the middle of batches, and start it again. Begins again if the broker loses a commit's end."""
    for number in range(1, _TRIES):
        with contextlib.suppress(Hanging):
            return _kill_broker(folder / str(number), kills, records, chance)
    return _kill_broker(folder / str(_TRIES), kills, records, chance)


def _kill_broker(folder: Path, kills: int, records: int, chance: random.Random) -> Report:
    begun, report = time.monotonic(), Report("exactly once, the broker killed")
    folder.mkdir()
    broker = services.KafkaBroker(folder)
    broker.start()
    copy = Copy(broker, folder, max(records, BATCH * (kills + 2)), chance)
    broker.send(copy.source, copy.mixed)
    try:
        while report.kills < kills and not copy.all_read():
            copy.wait_for_transaction()
            report.mid_batch += copy.query.in_flight() >= 0
            broker.kill()
            report.kills += 1
            time.sleep(chance.random() * 3)
            broker.start()
            done = copy.query.batches()
            copy.wait_or_hang(lambda done=done: copy.query.batches() > done or copy.all_read())
        copy.wait_or_hang(copy.all_read)
        copy.wait_or_hang(lambda: not copy.open())
        copy.query.kill()
        copy.check(report)
    finally:
        copy.query.kill()
        broker.kill()
    report.seconds = time.monotonic() - begun
    return report


def start_second_drivers(
    broker: services.KafkaBroker, folder: Path, kills: int, records: int, chance: random.Random
) -> Report:
    """Start a second query on the same checkpoint while records arrive; one of the two ends, or both."""
    begun, report = time.monotonic(), Report("exactly once, a second driver on the same checkpoint")
    copy = Copy(broker, folder, max(records, BATCH * (kills + 2)), chance)
    topics = {"source": copy.source, "target": copy.target, "dead": copy.dead}
    second = OnceQuery(folder, copy.what, bootstrap=broker.bootstrap, **topics)
    second.settings(tasks=4)
    part = len(copy.mixed) // (kills * 120)
    pieces = [copy.mixed[start : start + part] for start in range(0, len(copy.mixed), part)]
    try:
        while report.kills < kills and pieces:
            broker.send(copy.source, pieces.pop(0))
            copy.wait_for_transaction()
            second.start()
            report.kills += 1
            while pieces and second.alive() and copy.query.alive():
                broker.send(copy.source, pieces.pop(0))
                time.sleep(0.5)
            report.mid_batch += not (second.alive() and copy.query.alive())
            second.kill()
        for piece in pieces:
            broker.send(copy.source, piece)
        copy.wait(copy.all_read)
    finally:
        copy.query.kill()
        second.kill()
    copy.check(report)
    report.seconds = time.monotonic() - begun
    return report


SCENARIOS: dict[str, Callable[[services.KafkaBroker, Path, int, int, random.Random], Report]] = {
    "query": kill_queries,
    "workers": kill_workers,
    "broker": kill_brokers,
    "second": start_second_drivers,
    "ingest": functools.partial(kill_queries, copies=Ingested),
}


def main() -> None:
    """Run the scenarios and print a report."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=20)
    arguments.add_argument("--records", type=int, default=200_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", choices=("exactly-once",))
    arguments.add_argument("--scenario", choices=tuple(SCENARIOS))
    arguments.add_argument("--query", help=argparse.SUPPRESS)
    asked = arguments.parse_args()
    if asked.query:
        run_query(json.loads(asked.query))
        return
    print(f"seed {asked.seed}, {asked.kills} kills, {datetime.date.today()}")
    with tempfile.TemporaryDirectory() as scratch:
        broker = services.KafkaBroker(Path(scratch))
        broker.start()
        try:
            for name in [asked.scenario] if asked.scenario else SCENARIOS:
                folder = Path(scratch, name)
                folder.mkdir()
                report = SCENARIOS[name](
                    broker, folder, asked.kills, asked.records, random.Random(f"{asked.seed}-{name}")
                )
                print(json.dumps(asdict(report)), flush=True)
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
