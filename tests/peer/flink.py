"""Real Flink 2.3 for comparisons: downloads its jars if necessary, and runs SQL in an embedded cluster."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support import services

VERSION = "2.3.0"
#: Ivy cannot download a complete Flink from Maven Central. A wheel on PyPI contains the jars: 329 MB.
WHEEL = f"apache-flink-libraries=={VERSION}"
_HERE = Path(__file__).parent
_LONGEST = 300.0
_OPENED = (
    *("java.lang", "java.lang.reflect", "java.net", "java.io", "java.nio", "java.text", "java.time", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks", "sun.nio.ch"),
)


def libraries() -> Path:
    """Return the folder with Flink's jars. Downloads them if necessary."""
    folder = services.CACHE / f"flink-{VERSION}"
    services.CACHE.mkdir(parents=True, exist_ok=True)
    with open(services.CACHE / f"flink-{VERSION}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=services.CACHE) as scratch:
                command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch, WHEEL]
                subprocess.run(command, check=True)
                (wheel,) = Path(scratch).glob("*.whl")
                with zipfile.ZipFile(wheel) as packed:
                    packed.extractall(scratch, [name for name in packed.namelist() if name.startswith("pyflink/lib/")])
                Path(scratch, "pyflink", "lib").rename(folder)
    return folder


class Failed(Exception):
    """Flink refused a statement or a job failed. The text has all messages of the cause chain."""


class Flink:
    """A running Flink that executes one statement at a time. It is a context manager."""

    def __init__(self, folder: Path) -> None:
        paths = [f"{libraries()}/*", f"{services.fetched('flink')}/*"]
        subprocess.run(
            ["javac", "-nowarn", "-d", str(folder), "-cp", ":".join(paths), str(_HERE / "FlinkSql.java")], check=True
        )
        command = ["java", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        command += [f"-Dlog4j2.configurationFile={_HERE / 'log4j2.properties'}", f"-Djava.io.tmpdir={folder}"]
        command += ["-cp", ":".join([str(folder), *paths]), "FlinkSql", str(services.free_port())]
        # All jars are on the class path; settings of other Flink installations are not used.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FLINK")}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, encoding="utf-8"
        )

    def __enter__(self) -> Flink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def run(self, statement: str) -> list[tuple[str, Any]]:
        """Run a SELECT and return its row kinds and rows, or run an INSERT until it ends.

        A statement that exceeds the time limit stops Flink and raises `Failed`.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watch = threading.Timer(_LONGEST, self._process.kill)
        watch.start()
        try:
            self._process.stdin.write(" ".join(statement.split("\n")) + "\n")
            self._process.stdin.flush()
            found: list[tuple[str, Any]] = []
            for line in self._process.stdout:
                answer = json.loads(line)
                if "error" in answer:
                    raise Failed(f"{answer['error']}\n{statement}")
                if "end" in answer:
                    return found
                found.append((answer["kind"], answer["row"]))
            raise Failed(f"Flink stopped, or the statement took longer than {_LONGEST:.0f} s\n{statement}")
        finally:
            watch.cancel()
