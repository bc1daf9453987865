"""Run exactly-once jobs on a Spark cluster of several executors, where attempts of a task overlap.

    cluster = Cluster(folder, ["localhost", "127.0.0.1"])      tests/support/cluster.py
    Job(cluster, folder, ...).run()                            a driver in its own process

Spark does not speculate with the master `local[N]`. With `local-cluster[...]` all executors have the same host, and
Spark runs no speculative attempt on a host that has run an attempt of the task. So each worker has its own name of the
loopback interface.

The driver replaces `KafkaBrokers`, so that attempts of one task wait for each other (`Slow`). Attempts write what
happened to them to files in `folder`, named after their numbers: `0.open`, `1.committed`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kvformat.connectors import exactly_once
from kvformat.connectors.transaction_client import KafkaBrokers, KafkaTransaction
from kvformat.connectors.transactions import Mark
from tests.connectors.tables import upsert
from tests.support.cluster import SETTINGS, Cluster, Program, wait

RECORDS, KEYS, TASKS = 6000, 50, 4
SLOW_TASK = 1
"""The task whose attempts wait."""
_LONGEST = 180.0  # seconds that an attempt waits


@dataclass(frozen=True)
class Attempt:
    """An attempt of the slow task in Spark's event log. `reason` is None if the job ended before Spark heard of it."""

    speculative: bool
    host: str
    reason: str | None


class Job:
    """A job that writes `RECORDS` records of `KEYS` keys exactly once, in its own process."""

    def __init__(self, cluster: Cluster, folder: Path, bootstrap: str, topic: str, what: str, **conf: object) -> None:
        self._cluster, self.folder, self.topic = cluster, folder, topic
        self._settings = {"what": what, "folder": str(folder), "bootstrap": bootstrap, "topic": topic}
        self._settings |= {"master": cluster.url, "conf": {name: str(value) for name, value in conf.items()}}
        self._program: Program | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.connectors.speculation", json.dumps(self._settings)]
        self._program = self._cluster.run(command, self.folder / "job.log")

    def wait(self, *names: str) -> None:
        """Wait until attempts have written files of these names. Raises with the job's log."""
        for name in names:
            try:
                wait(lambda name=name: self._ended() or (self.folder / name).exists(), name)
            except TimeoutError:
                raise RuntimeError(f"no {name}, {self._said()}") from None
            if not (self.folder / name).exists():
                raise RuntimeError(f"no {name}, {self._said()}")

    def end(self) -> None:
        """Wait until the job has ended well. Raises with its log."""
        assert self._program is not None
        self._program.end()

    def told(self) -> dict[str, str]:
        """Return what the attempts have written to files."""
        return {path.name: path.read_text() for path in sorted(self.folder.glob("[0-9].*"))}

    def attempts(self) -> list[Attempt]:
        """Return the attempts of the slow task in the stage that writes, which is the last one."""
        (log,) = (self.folder / "events").iterdir()
        events = [event for event in map(json.loads, log.read_text().splitlines()) if "Task Info" in event]
        stage = max(event["Stage ID"] for event in events)
        found: dict[int, Attempt] = {}
        for event in events:  # of the start and of the end of each attempt
            info = event["Task Info"]
            if event["Stage ID"] == stage and info["Index"] == SLOW_TASK:
                reason = event.get("Task End Reason", {}).get("Reason")
                found[info["Task ID"]] = Attempt(info["Speculative"], info["Host"], reason)
        return list(found.values())

    def _ended(self) -> bool:
        return self._program is not None and self._program.ended()

    def _said(self) -> str:
        return f"{sorted(self.told().items())}\n" + (self.folder / "job.log").read_text(errors="replace")[-6000:]


# --- the process of a job ----------------------------------------------------------------------------------


def run(settings: dict[str, Any]) -> None:
    """Run the job. The classes below are pickled by value, because executors can't import the tests."""
    from pyspark.sql import SparkSession

    folder = Path(settings["folder"])
    (folder / "events").mkdir()
    builder = SparkSession.builder.master(settings["master"])
    conf = {
        **SETTINGS,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
        **settings["conf"],
    }
    spark = builder.config(map=conf).getOrCreate()
    kind: type[Slow] = {"fenced": Fenced, "committed": Committed, "stopped": Stopped, "long": Long}[settings["what"]]

    class SlowBrokers(KafkaBrokers):
        """Brokers whose transactions of one task wait."""

        def begin(self, name: str) -> KafkaTransaction:
            task = name.endswith(f"-{SLOW_TASK}") and TaskContext.get() is not None
            made = kind if task else KafkaTransaction
            return made(self._settings, name, self._topic)

    from pyspark import TaskContext

    Slow.folder = folder
    exactly_once.KafkaBrokers = SlowBrokers  # type: ignore[misc]
    options = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "speculation"}
    table = upsert(settings["bootstrap"], settings["topic"], **options, **{"sink.parallelism": TASKS})
    # A single task reads, so the records of a key arrive in order.
    rows = spark.range(0, RECORDS, 1, 1).selectExpr(f"CAST(id % {KEYS} AS INT) id", "id AS n")
    table.write(rows)
    (folder / "job.done").touch()
    spark.stop()


class Slow(KafkaTransaction):
    """A transaction that tells in files what happened to it, and waits for others."""

    folder: Path
    begins_after = "open"
    """The first attempt's report before another one begins."""

    def __init__(self, *given: Any) -> None:
        from pyspark import TaskContext

        self.attempt, self.writes = TaskContext.get().attemptNumber() - 1, 0
        began = False
        while not began:  # Spark numbers attempts anew when it runs a stage again
            self.attempt += 1
            with contextlib.suppress(FileExistsError):
                (self.folder / f"{self.attempt}.began").touch(exist_ok=False)
                began = True
        if self.attempt:  # Spark may start it before the Python worker of the first attempt is ready
            self.wait(f"0.{self.begins_after}")
        super().__init__(*given)

    def tell(self, what: str, text: str = "") -> None:
        path = self.folder / f"{self.attempt}.{what}"
        path.with_suffix(".partial").write_text(text or str(os.getpid()))
        path.with_suffix(".partial").rename(path)

    def wait(self, name: str) -> None:
        deadline = time.monotonic() + _LONGEST
        while not (self.folder / name).exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    def write(self, rows: pa.RecordBatch) -> None:
        try:
            super().write(rows)
            self.writes += 1
            if self.writes == 1:
                self._producer.flush(30)  # so that brokers have these records
                self.tell("open")
                self.opened()
        except Exception as error:
            self.tell("failed", str(error))
            raise

    def commit(self, mark: Mark) -> None:
        try:
            super().commit(mark)
        except Exception as error:
            self.tell("failed", str(error))
            raise
        self.tell("committed")
        self.committed()

    def close(self) -> None:
        super().close()
        self.tell("closed")

    def opened(self) -> None:
        """Called after the first records."""

    def committed(self) -> None:
        """Called after a commit."""


class Fenced(Slow):
    """The first attempt sleeps in its transaction until the second one writes, which waits until the first fails."""

    def opened(self) -> None:
        if self.attempt < 2:
            self.wait(["1.open", "0.failed"][self.attempt])


class Committed(Slow):
    """The first attempt commits, and ends after the second one has ended."""

    begins_after = "committed"

    def committed(self) -> None:
        if self.attempt == 0:
            self.wait("1.closed")


class Stopped(Slow):
    """The first attempt waits until the job has ended; meanwhile its processes are stopped."""

    def opened(self) -> None:
        if self.attempt == 0:
            self.wait("job.done")


class Long(Slow):
    """Every attempt needs much longer than the other tasks."""

    def write(self, rows: pa.RecordBatch) -> None:
        time.sleep(0.2)
        super().write(rows)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("settings", type=json.loads)
    run(arguments.parse_args().settings)
