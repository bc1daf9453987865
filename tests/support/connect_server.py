"""A Spark Connect server in a process of its own, and Python environments for it and for its clients.

The environments have links to the installed packages, so that they are made quickly, and can leave packages out.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sysconfig
import time
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

import _kvformat_alias
import kvformat
from tests.support.environments import link_thin_pyspark
from tests.support.services import free_port
from tests.support.sessions import JAVA, as_options

_LONGEST_START = 240.0


def environment(folder: Path, *, without: Sequence[str] = (), thin: bool = False) -> Path:
    """Return the Python of a new environment. `without`: beginnings of names of packages that it lacks.

    With `thin` it has PySpark as `pyspark-client` installs it: without Java's part and the classic sessions.
    """
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    without = (*without, *(("pyspark", "py4j") if thin else ()), "_kvformat_alias", "__pycache__")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.suffix == ".pth" or entry.name == "kvformat" or entry.name.startswith(without):
            continue
        if not (packages / entry.name).exists():
            (packages / entry.name).symlink_to(entry)
    if thin:
        link_thin_pyspark(_spark_home(), packages / "pyspark")
    (packages / "_kvformat_alias.py").symlink_to(str(_kvformat_alias.__file__))
    (packages / "kvformat.pth").write_text(f"{Path(str(kvformat.__file__)).parents[1]}\n", encoding="utf-8")
    return folder / "bin" / "python"


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


@contextlib.contextmanager
def connect_server(python: Path, folder: Path) -> Iterator[str]:
    """Run a server whose workers and `foreachBatch` have this Python, and return its URL."""
    folder.mkdir()
    port, log = free_port(), folder / "log"
    settings = {"spark.ui.enabled": "false", "spark.connect.grpc.binding.port": str(port)}
    command = [str(_spark_home() / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--driver-java-options", JAVA]
    command += as_options(settings)
    variables = {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(_spark_home())}
    hidden = ("PYTHONPATH", "PYSPARK_DRIVER_PYTHON", "SPARK_TESTING")
    inherited = {name: value for name, value in os.environ.items() if name not in hidden}
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=inherited | variables, stdout=out, stderr=out, start_new_session=True
        )
    try:
        deadline = time.monotonic() + _LONGEST_START
        while b"Spark Connect server started" not in log.read_bytes():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {log.read_text()[-4000:]}")
            time.sleep(0.3)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
