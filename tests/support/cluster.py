"""A standalone Spark cluster on this machine: a master, workers, jobs, and servers of Spark Connect.

    cluster = Cluster(folder, ["127.0.0.1", "127.0.0.2"], python=environment.executable)
    cluster.start()
    job = cluster.submit(environment.executable, folder / "job.py")

Each has a process of its own, on free ports of the loopback interface. All end with the process that started them, also
if that is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from tests.support import services
from tests.support.sessions import JAVA, LOCAL, QUICK, as_options

SETTINGS = {
    **LOCAL,
    "spark.driver.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA,
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.locality.wait": "0",
}
"""Settings of a small job."""
ON_EACH_WORKER = {"spark.executor.cores": "1", "spark.cores.max": "2", **QUICK}
"""Settings of a small job that has an executor with one core on each of two workers."""
_LONGEST = 300.0  # seconds that a step may take
_MARK = "KVFORMAT_TEST_CLUSTER"
_LIBC = ctypes.CDLL(None)  # loaded here, because a new process must not
_PDEATHSIG = 1  # of prctl(2)


def wait(until: Callable[[], bool], what: str | Callable[[], str]) -> None:
    """Wait for a condition; raises `TimeoutError`."""
    deadline = time.monotonic() + _LONGEST
    while not until():
        if time.monotonic() > deadline:
            raise TimeoutError(what if isinstance(what, str) else what())
        time.sleep(0.05)


def die_with_parent() -> None:
    """End this process when the one that started it ends: a `preexec_fn`."""
    _LIBC.prctl(_PDEATHSIG, signal.SIGKILL)


class Program:
    """A process of the cluster with its output in a file."""

    def __init__(
        self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str], cwd: Path | None = None
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=cwd,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def ended(self) -> bool:
        return self.process.poll() is not None

    def end(self) -> str:
        """Wait until the process has ended well, and return its output. Raises with that."""
        wait(self.ended, lambda: self.output()[-6000:])
        if self.process.returncode:
            raise RuntimeError(f"exit code {self.process.returncode}\n{self.output()[-6000:]}")
        return self.output()

    def kill(self) -> None:
        """Kill the process without a shutdown, as in a crash."""
        self.process.kill()
        self.process.wait()


class Cluster:
    """A Spark master and a worker for each name of a host.

    python: that of the executors. Without it, they run this Python in this environment.
    environment: the variables of all processes; by default those of this process.
    """

    def __init__(
        self,
        folder: Path,
        hosts: Sequence[str],
        *,
        python: str | Path = sys.executable,
        environment: Mapping[str, str] = os.environ,
        cores: int = 2,
        memory: str = "1g",
    ) -> None:
        import pyspark

        self._id, self._folder, self._hosts = uuid.uuid4().hex, folder, hosts
        self._size = ["--cores", str(cores), "--memory", memory]
        self._home = Path(pyspark.__file__).parent
        self._started: list[Program] = []
        self._workers: dict[str, Program] = {}
        self._port, self._ui = services.free_port(), services.free_port()
        self.url = f"spark://127.0.0.1:{self._port}"
        self.environment = {
            **environment,
            _MARK: self._id,
            "SPARK_HOME": str(self._home),
            "SPARK_SCALA_VERSION": "2.13",  # set by the scripts of a whole Spark, which this starts without
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }

    def start(self) -> None:
        """Start the master and the workers, and wait until the master knows them."""
        address = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._ui)]
        self._java("master.Master", address)
        wait(lambda: self.alive() is not None, "the master does not answer")
        for host in self._hosts:
            self._start_worker(host)
        wait(lambda: self.alive() == len(self._hosts), "the workers are missing")

    def start_worker(self, host: str) -> None:
        """Start a worker again that was killed, and wait until the master knows it."""
        self._start_worker(host)
        wait(lambda: self.alive() == len(self._hosts), f"the worker {host} is missing")

    def _start_worker(self, host: str) -> None:
        place = ["--host", host, "--webui-port", "0", "--work-dir", str(self._folder / f"worker-{host}")]
        self._workers[host] = self._java("worker.Worker", [*place, *self._size, self.url])

    def _java(self, name: str, arguments: Sequence[str]) -> Program:
        java = ["java", "-Xmx128m", *JAVA.split(), "-Dspark.master.rest.enabled=false", "-cp", f"{self._home}/jars/*"]
        return self.run([*java, f"org.apache.spark.deploy.{name}", *arguments], f"{name}.log")

    def alive(self) -> int | None:
        """Return the number of workers that the master knows; None if it does not answer."""
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self._ui}/json/") as answer:
            return sum(worker["state"] == "ALIVE" for worker in json.load(answer)["workers"])
        return None

    def run(
        self, command: Sequence[str | Path], log: str | Path, cwd: Path | None = None, **environment: str | Path
    ) -> Program:
        """Start a process with the variables of the cluster. A relative path of its log is in the cluster's folder."""
        more = {name: str(value) for name, value in environment.items()}
        program = Program(command, self._folder / log, self.environment | more, cwd)
        self._started.append(program)
        return program

    def submit(
        self, python: str | Path, *arguments: str | Path, log: str, cwd: Path | None = None, **environment: str | Path
    ) -> Program:
        """Start a job by `spark-submit` with this Python of the driver; the arguments follow the cluster's settings."""
        settings = {**SETTINGS, **ON_EACH_WORKER, "spark.master": self.url, "spark.log.level": "WARN"}
        command = [self._home / "bin" / "spark-submit", *as_options(settings), *arguments]
        return self.run(command, log, cwd, PYSPARK_DRIVER_PYTHON=python, **environment)

    def connect_server(self) -> tuple[str, Program]:
        """Start a server of Spark Connect, whose Python is that of the executors, and return its address, too."""
        port = services.free_port()
        binding = "spark.connect.grpc.binding"
        options = ["--conf", f"{binding}.address=127.0.0.1", "--conf", f"{binding}.port={port}"]
        server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        python = Path(self.environment["PYSPARK_PYTHON"])
        program = self.submit(python, *options, *server, log="connect.log")

        def listens() -> bool:
            if program.ended():
                raise RuntimeError(program.output()[-6000:])
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return True
            return False

        wait(listens, "the Connect server does not listen")
        return f"sc://127.0.0.1:{port}", program

    def kill_worker(self, host: str) -> None:
        """Kill a worker; its executors end by themselves when they notice."""
        self._workers[host].kill()

    def executors(self) -> list[psutil.Process]:
        """Return the executors of all jobs."""
        children = []
        for worker in self._workers.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                children += psutil.Process(worker.process.pid).children()
        return children

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the cluster, of its jobs, and of workers whose executor has ended."""
        marked = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_MARK) == self._id:
                    marked.append(process)
        return marked

    def kill(self) -> None:
        """Kill all processes, also those that are stopped."""
        while processes := self.processes():
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(processes, timeout=5)
        for program in self._started:
            program.process.wait()
