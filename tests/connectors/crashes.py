"""Kill queries and brokers in the middle of their work, and check that no data is lost.

    python -m tests.connectors.crashes --kills 10      all scenarios, with a report (scripts/crash_tests)

Each query runs in its own process; SIGKILL ends it and its JVM. `test_crashes.py` runs each scenario once.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvformat.connectors.reader.ranges import TopicOffsets
from kvformat.connectors.source_choice import Source
from kvformat.registry.streams.delta.log import DeltaLog
from kvformat.registry.streams.delta.storage import TableStorage
from tests.connectors.tables import upsert
from tests.support import services
from tests.support.cluster import ON_EACH_WORKER, SETTINGS, Cluster, die_with_parent
from tests.support.sessions import LOCAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 60
DELETED = 50
"""The last record of this key, and of every greater key, is a tombstone."""
BATCH = 3000
"""Records of a micro-batch, at most."""
_LONGEST = 600.0  # seconds that a query may take for the existing records


@dataclass
class Report:
    """The result of a scenario."""

    what: str
    kills: int = 0
    mid_batch: int = 0
    #: kills after the dead letters of a batch and before its rows
    between: int = 0
    records: int = 0
    repeats: int = 0
    seconds: float = 0.0


class Query:
    """A query in its own process, with a folder for its checkpoint and its output. `module` runs it."""

    module = "tests.connectors.crashes"

    def __init__(self, folder: Path, what: str, **settings: str) -> None:
        self.folder, self.checkpoint = folder, folder / "checkpoint"
        self._settings: dict[str, object] = {**settings, "what": what, "folder": str(folder)}
        self._python: str | Path = sys.executable
        self._process: subprocess.Popen[bytes] | None = None
        self.cluster: Cluster | None = None

    def on_cluster(self, cluster: Cluster, python: Path) -> None:
        """Run the next processes as drivers of a cluster, with this Python."""
        self._python, self.cluster = python, cluster
        self.settings(conf={**SETTINGS, **ON_EACH_WORKER, "spark.master": cluster.url})

    def settings(self, **settings: object) -> None:
        """Change settings of the next process."""
        self._settings |= settings

    def start(self) -> None:
        command = [self._python, "-m", self.module, "--query", json.dumps(self._settings)]
        more: dict[str, Any] = {"start_new_session": True, "preexec_fn": die_with_parent}
        if self.cluster is not None:
            more["env"] = self.cluster.environment | {"PYSPARK_DRIVER_PYTHON": str(self._python)}
        with open(self.folder / "query.log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, **more)

    def kill(self) -> None:
        """Kill the process and its JVM immediately."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def in_flight(self) -> int:
        """Return the batch that has started but not finished, -1 if there is none."""
        begun, done = self._last("offsets"), self._last("commits")
        return begun if begun > done else -1

    def batches(self) -> int:
        """Return the number of finished batches."""
        return self._last("commits") + 1

    def read(self) -> int:
        """Return the number of records in all finished batches."""
        last = self._last("commits")
        if last < 0:
            return 0
        offsets = json.loads((self.checkpoint / "offsets" / str(last)).read_text().splitlines()[-1])
        return sum(TopicOffsets.from_json(offsets).offsets.values())

    def _last(self, name: str) -> int:
        with contextlib.suppress(FileNotFoundError):
            return max((int(one) for one in os.listdir(self.checkpoint / name) if one.isdigit()), default=-1)
        return -1

    @property
    def code(self) -> int | None:
        """The exit code of the process; None while it runs, and before it starts."""
        return None if self._process is None else self._process.poll()

    def wait(self, until: Callable[[], bool]) -> None:
        """Wait for a condition. Raises with the query's log if the query ends or takes too long."""
        deadline = time.monotonic() + _LONGEST
        while True:
            before = self.code  # the condition may be that the query has ended, or start it again
            if until():
                return
            if (before is not None and self.code is not None) or time.monotonic() > deadline:
                said = (self.folder / "query.log").read_text(errors="replace")
                raise RuntimeError(f"{self._settings['what']}: exit code {self.code}\n{said[-6000:]}")
            time.sleep(0.005)


# --- the process of a query --------------------------------------------------------------------------------


def session(**settings: str) -> SparkSession:
    """Return a session with Spark's Kafka source, and with further settings: `spark.jars` are added."""
    from pyspark.sql import SparkSession

    jars = ",".join(filter(None, (services.kafka_jars(), settings.pop("spark.jars", ""))))
    conf = {**LOCAL, "spark.jars": jars, **settings}
    return SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()


def run_query(settings: dict[str, str]) -> None:
    """Run a query until its process is killed."""
    spark = session()
    table, folder = upsert(settings["bootstrap"], settings["source"]), Path(settings["folder"])
    checkpoint = str(folder / "checkpoint")
    reading: Any = {"source": settings["by"], "spark_options": {"maxOffsetsPerTrigger": BATCH}}
    if settings["what"] == "maintain":
        query = table.maintain(
            spark, folder / "table", checkpoint_location=checkpoint, dead_letters=folder / "dead", **reading
        )
    else:
        target = upsert(settings["bootstrap"], settings["target"])
        rows = table.read_stream(spark, checkpoint_location=checkpoint, **reading)
        if settings["by"] == "python":  # no record passes the JVM's client
            writer = rows.writeStream.format("kvformat").option("ddl", target.kv.ddl)
            query = writer.option("checkpointLocation", checkpoint).start()
        else:
            query = target.write_stream(rows, checkpoint_location=checkpoint)
    query.awaitTermination()


# --- from table to table -----------------------------------------------------------------------------------


def changes(count: int) -> list[tuple[bytes, bytes | None]]:
    """Return `count` numbered changes of each key; for keys from `DELETED` on, the last change is a delete."""
    return [
        (b'{"id":%d}' % key, None if key >= DELETED and n == count - 1 else b'{"n":%d}' % n)
        for n in range(count)
        for key in range(KEYS)
    ]


def ends(broker: services.KafkaBroker, topic: str) -> int:
    """Return the number of records in a topic."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends", "log_level": 0})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=30)[1] for one in partitions)
    finally:
        consumer.close()


def check_copied(broker: services.KafkaBroker, topic: str, count: int) -> int:
    """Check that no change is lost, and that the changes of each key are in order. Return the number of repeats."""
    last: dict[int, int] = {}
    most: dict[int, int] = {}
    messages = broker.records(topic)
    for message in messages:
        key = json.loads(message.key())["id"]
        n = count - 1 if message.value() is None else json.loads(message.value())["n"]
        before = last.get(key, -1)
        # Either the next change, or a repeated one; after a repeated one, all later changes are repeated too.
        assert n == before + 1 or n <= most[key], (
            f"key {key}: {n} follows {before}, the last before was {most.get(key)}"
        )
        last[key], most[key] = n, max(most.get(key, -1), n)
        if n == count - 1:
            assert (message.value() is None) == (key >= DELETED)
    assert last == dict.fromkeys(range(KEYS), count - 1)
    return len(messages) - KEYS * count


def copy_with_kills(
    broker: services.KafkaBroker, folder: Path, kills: int, chance: random.Random, *, by: Source
) -> Report:
    """Copy an upsert table to another, and kill the query in the middle of batches."""
    begun, report = time.monotonic(), Report(f"upsert-kafka to upsert-kafka by {by}, the query killed")
    name = f"crash-{chance.randrange(10**9)}"
    source, target = broker.create(f"{name}-source", 4), broker.create(f"{name}-target", 3)
    count = BATCH * (1 + 2 * kills) // KEYS
    broker.send(source, changes(count))
    query = Query(folder, "copy", bootstrap=broker.bootstrap, source=source, target=target, by=by)
    try:
        while report.mid_batch < kills and query.read() < KEYS * count - 2 * BATCH:
            query.start()
            wanted = query.batches() + chance.randrange(2)
            query.wait(lambda wanted=wanted: query.in_flight() >= wanted)
            written = ends(broker, target)
            if chance.random() < 0.7:  # after the first records of a batch; otherwise at any time
                query.wait(lambda written=written: ends(broker, target) > written)
            else:
                time.sleep(chance.random() * 0.5)
            query.kill()
            report.kills += 1
            report.mid_batch += query.in_flight() >= 0
        query.start()
        query.wait(lambda: query.read() >= KEYS * count)
    finally:
        query.kill()
    report.records, report.repeats = KEYS * count, check_copied(broker, target, count)
    report.seconds = time.monotonic() - begun
    return report


def copy_with_broker_kills(folder: Path, kills: int, chance: random.Random, *, by: Source) -> Report:
    """Copy an upsert table to another, and kill and restart the broker."""
    begun, report = time.monotonic(), Report(f"upsert-kafka to upsert-kafka by {by}, the broker killed")
    broker = services.KafkaBroker(folder)
    broker.start()
    try:
        source, target = broker.create("source", 4), broker.create("target", 3)
        count = BATCH * (2 + 2 * kills) // KEYS
        records = changes(count)
        query = Query(folder, "copy", bootstrap=broker.bootstrap, source=source, target=target, by=by)
        query.start()
        try:
            part = len(records) // (kills + 1)
            for n in range(kills):
                done = query.batches()
                broker.send(source, records[n * part : (n + 1) * part])
                query.wait(lambda done=done: query.in_flight() >= done)
                time.sleep(chance.random() * 0.3)
                report.mid_batch += query.in_flight() >= 0
                broker.kill()
                report.kills += 1
                time.sleep(chance.random() * 3)
                broker.start()
                query.wait(lambda done=done: query.batches() > done)
            broker.send(source, records[kills * part :])
            query.wait(lambda: query.read() >= KEYS * count)
        finally:
            query.kill()
        report.records, report.repeats = KEYS * count, check_copied(broker, target, count)
    finally:
        broker.kill()
    report.seconds = time.monotonic() - begun
    return report


# --- a maintained table ------------------------------------------------------------------------------------


def maintain_with_kills(
    broker: services.KafkaBroker, folder: Path, kills: int, chance: random.Random, *, by: Source
) -> Report:
    """Maintain a table at a path, and kill the query between the dead letters and the rows of a batch."""
    from pyspark.sql import SparkSession

    begun, report = time.monotonic(), Report(f"upsert-kafka to a table at a path by {by}, killed between its writes")
    source = broker.create(f"crash-{chance.randrange(10**9)}-maintained", 2)
    count = BATCH * (1 + kills) // KEYS
    records = changes(count)
    bad = [(b'{"id":%d}' % n, b"no json %d" % n) for n in range(len(records) // 100)]
    mixed = [one for n in range(len(bad)) for one in (*records[n * 100 : (n + 1) * 100], bad[n])]
    broker.send(source, [*mixed, *records[len(bad) * 100 :]])
    query = Query(folder, "maintain", bootstrap=broker.bootstrap, source=source, by=by)
    total = len(records) + len(bad)
    try:
        while report.mid_batch < kills and query.read() < total - BATCH:
            letters = set(folder.glob("dead/batch=*/_SUCCESS"))
            query.start()
            if chance.random() < 0.7:
                query.wait(lambda letters=letters: set(folder.glob("dead/batch=*/_SUCCESS")) - letters)
            else:
                begun_batch = query.batches()
                query.wait(lambda b=begun_batch: query.in_flight() >= b)
                time.sleep(chance.random() * 2)
            query.kill()
            report.kills += 1
            report.mid_batch += query.in_flight() >= 0
            batches = [int(path.parent.name[6:15]) for path in folder.glob("dead/batch=*/_SUCCESS")]
            report.between += max(batches, default=-1) > _last_version(folder)
        query.start()
        query.wait(lambda: query.read() >= total)
    finally:
        query.kill()
    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    from kvformat.registry import current_table

    rows = {row["id"]: row["n"] for row in current_table(spark, folder / "table").collect()}
    assert rows == dict.fromkeys(range(DELETED), count - 1)
    dead = [row["value"] for row in spark.read.parquet(str(folder / "dead")).collect()]
    assert sorted(dead) == sorted(value for _, value in bad)
    report.records, report.seconds = total, time.monotonic() - begun
    return report


def _last_version(folder: Path) -> int:
    """Return the batch of the last complete version of the table."""
    log = DeltaLog.open(TableStorage.of(folder / "table"))
    return -1 if log is None else log.position("kvformat maintain")


def main() -> None:
    """Run all scenarios and print a report."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=10)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", choices=("copy", "restarts", "maintain"))
    arguments.add_argument("--query", help=argparse.SUPPRESS)
    asked = arguments.parse_args()
    if asked.query:
        run_query(json.loads(asked.query))
        return
    chance = random.Random(asked.seed)
    print(f"seed {asked.seed}, {asked.kills} kills, {datetime.date.today()}")
    with tempfile.TemporaryDirectory() as scratch:
        broker = services.KafkaBroker(Path(scratch))
        broker.start()
        parts: dict[str, Callable[[Path, Source], Report]] = {
            "copy": lambda folder, by: copy_with_kills(broker, folder, asked.kills, chance, by=by),
            "restarts": lambda folder, by: copy_with_broker_kills(folder, asked.kills, chance, by=by),
            "maintain": lambda folder, by: maintain_with_kills(broker, folder, asked.kills, chance, by=by),
        }
        sources: tuple[Source, ...] = ("spark", "python")
        try:
            for name, by in itertools.product([asked.only] if asked.only else parts, sources):
                folder = Path(scratch, f"{name}-{by}")
                folder.mkdir()
                print(json.dumps(asdict(parts[name](folder, by))), flush=True)
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
