"""Run exactly-once jobs on a Spark cluster of several executors, where attempts of a task overlap.

    cluster = Cluster(folder, ["localhost", "127.0.0.1"])      a standalone master, and a worker for each host
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
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from kvformat.connectors import exactly_once
from kvformat.connectors.transaction_client import KafkaBrokers, KafkaTransaction
from kvformat.connectors.transactions import Mark
from tests.connectors.tables import upsert
from tests.support import services

RECORDS, KEYS, TASKS = 6000, 50, 4
SLOW_TASK = 1
"""The task whose attempts wait."""
_LONGEST = 180.0  # seconds that a step may take
_MARK = "KVFORMAT_TEST_CLUSTER"
_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")


def wait(until: Callable[[], bool], what: str) -> None:
    """Wait for a condition; raises `TimeoutError`."""
    deadline = time.monotonic() + _LONGEST
    while not until():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


class Cluster:
    """A Spark master and a worker for each name of a host, with processes of their own."""

    def __init__(self, folder: Path, hosts: Sequence[str]) -> None:
        import pyspark

        self._id, self._folder, self._hosts = uuid.uuid4().hex, folder, hosts
        self._home = Path(pyspark.__file__).parent
        self.started: list[subprocess.Popen[bytes]] = []
        self._port, self._ui = services.free_port(), services.free_port()
        self.url = f"spark://127.0.0.1:{self._port}"
        self.environment = {
            **os.environ,
            _MARK: self._id,
            "SPARK_HOME": str(self._home),
            "SPARK_SCALA_VERSION": "2.13",  # set by the scripts of a whole Spark, which this starts without
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }

    def start(self) -> None:
        """Start all processes, and wait until the master knows the workers."""
        address = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._ui)]
        self._java("master.Master", address)
        wait(lambda: self._workers() is not None, "the master does not answer")
        for number, host in enumerate(self._hosts):
            size = ["--host", host, "--webui-port", "0", "--cores", "2", "--memory", "1g"]
            self._java("worker.Worker", [*size, "--work-dir", str(self._folder / f"worker-{number}"), self.url])
        wait(lambda: self._workers() == len(self._hosts), "the workers are missing")

    def _java(self, name: str, arguments: list[str]) -> None:
        java = [
            "java",
            "-Xmx128m",
            *_JAVA,
            "-Dspark.master.rest.enabled=false",
            "-cp",
            f"{self._home}/jars/*",
            f"org.apache.spark.deploy.{name}",
        ]
        with open(self._folder / f"{name}.log", "ab") as log:
            command = [*java, *arguments]
            self.started.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=self.environment))

    def _workers(self) -> int | None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self._ui}/json/") as answer:
            return sum(worker["state"] == "ALIVE" for worker in json.load(answer)["workers"])
        return None

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the cluster, of its jobs, and of workers whose executor has ended."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_MARK) == self._id:
                    found.append(process)
        return found

    def kill(self) -> None:
        """Kill all processes, also those that are stopped."""
        while found := self.processes():
            for process in found:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(found, timeout=5)
        for started in self.started:
            started.wait()


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
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.connectors.speculation", json.dumps(self._settings)]
        environment = self._cluster.environment
        with open(self.folder / "job.log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        self._cluster.started.append(self._process)

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
        wait(self._ended, self._said())
        assert self._process is not None
        if self._process.returncode:
            raise RuntimeError(self._said())

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
        return self._process is not None and self._process.poll() is not None

    def _said(self) -> str:
        return f"{sorted(self.told().items())}\n" + (self.folder / "job.log").read_text(errors="replace")[-6000:]


# --- the process of a job ----------------------------------------------------------------------------------


def run(settings: dict[str, Any]) -> None:
    """Run the job. The classes below are pickled by value, because executors can't import the tests."""
    from pyspark.sql import SparkSession

    folder = Path(settings["folder"])
    (folder / "events").mkdir()
    builder = SparkSession.builder.master(settings["master"]).config("spark.ui.enabled", "false")
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": " ".join(_JAVA),
        "spark.executor.extraJavaOptions": " ".join(_JAVA),
        "spark.executor.memory": "512m",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.locality.wait": "0",
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
