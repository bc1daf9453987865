"""What the Python of a Spark Connect server needs for streams; `tests/cluster/test_connect.py` has the streams."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.connect_server import connect_server, environment

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.slow, pytest.mark.services]

BEGIN = """
import json, sys
from pyspark.sql import SparkSession
from pyspark.util import is_remote_only
from kvformat import KafkaTable
from kvformat.registry import ConfigurationError

assert is_remote_only()
remote, bootstrap, folder = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()

def table(topic, **options):
    options = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": bootstrap, "format": "json",
               "scan.startup.mode": "earliest-offset", **options}
    return KafkaTable("id INT, n BIGINT", options)

def copy(name, **options):
    rows = table("connect-source").read_stream(spark)
    return table(name, **options).write_stream(
        rows, checkpoint_location=f"{folder}/{name}", trigger={"availableNow": True})

ONCE = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "connect"}
"""
REFUSED = f"""{BEGIN}
told = []
try:
    copy("connect-refused", **ONCE)
except ConfigurationError as error:
    told.append(str(error))
told.append(sorted(row.n for row in table("connect-source").read(spark).collect())[-1])
print("TOLD", json.dumps(told))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="module")
def client(folder: Path) -> Path:
    return environment(folder / "client", thin=True)


@pytest.fixture(scope="module")
def source(broker: Any) -> str:
    """The address of a broker with a topic of 300 rows with 50 keys."""
    broker.create("connect-source", 2)
    broker.send("connect-source", [(None, b'{"id":%d,"n":%d}' % (n % 50, n)) for n in range(300)])
    broker.create("connect-refused", 2)
    return str(broker.bootstrap)


@pytest.fixture(scope="module")
def bare_server(folder: Path) -> Iterator[str]:
    """A server whose Python lacks what a client of Spark Connect needs."""
    python = environment(folder / "bare", without=("grpc", "google", "zstandard"))
    with connect_server(python, folder / "bare_server") as url:
        yield url


def ran(client: Path, script: str, *arguments: str | Path) -> str:
    command = [str(client), "-c", script, *map(str, arguments)]
    done = subprocess.run(command, cwd=client.parent, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout


def test_a_server_whose_python_is_no_client_is_an_error_before_the_stream(
    client: Path, bare_server: str, source: str, tmp_path: Path
) -> None:
    (line,) = (line for line in ran(client, REFUSED, bare_server, source, tmp_path).splitlines() if "TOLD" in line)
    text, newest = json.loads(line.removeprefix("TOLD "))
    assert newest == 299  # a batch needs none of that
    lacks = ("googleapis-common-protos", "grpcio", "grpcio-status", "zstandard")
    for name in lacks:
        assert f" '{name}>=" in text, name
    assert text.startswith("a stream with foreachBatch can't run: ")
    assert text.count("bare/bin/python") == 2
    assert "-m pip install '" in text
    assert not (tmp_path / "connect-refused").exists()


def test_doctor_asks_a_server(client: Path, bare_server: str) -> None:
    command = ["-m", "kvformat", "doctor", "--json", "--remote", bare_server]
    done = subprocess.run([str(client), *command], cwd=client.parent, capture_output=True, text=True, check=False)
    found = {line["what"]: line for line in map(json.loads, done.stdout.splitlines())}
    (executor,) = (line for what, line in found.items() if what.startswith("executor on "))
    assert executor["status"] in ("ok", "warning")  # without a compiler
    assert "kvformat of this build" in executor["text"]
    server = found["Python of the server"]
    assert server["status"] == "warning"
    assert "streams with foreachBatch can't run: " in server["text"]
    assert "-m pip install 'googleapis-common-protos>=" in server["advice"]
