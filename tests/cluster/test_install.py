"""Three ways to give the library to executors. Each reads a topic and decodes it on both workers."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, Program
from tests.support.environments import Environment, make_zip

RECORDS = 4000
BAD = 7  # records that are no JSON

JOB = """
import json, os, pathlib, sys, time
import pyarrow as pa
from kvformat import KafkaTable
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
options = {{
    "connector": "kafka", "topic": "{topic}", "properties.bootstrap.servers": "{bootstrap}",
    "scan.startup.mode": "earliest-offset", "format": "json",
}}
met = pathlib.Path("{met}") / spark.sparkContext.applicationId
met.mkdir(parents=True)
table = KafkaTable("id INT, name STRING", options)

def with_place(batches):
    # pickled by value: it runs in the Python of an executor, in its folder <worker>/<application>/<executor>
    import kvformat
    from kvformat.codecs import KERNEL

    # Each executor has one core. Its first task waits for one of the other worker, which may start much later.
    here, deadline = pathlib.Path(os.getcwd()).parts[-3], time.monotonic() + 200
    (met / here).touch()
    while len(os.listdir(met)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    place = [here, sys.executable, kvformat.__file__, KERNEL]
    for batch in batches:
        columns = [pa.array([word] * batch.num_rows, pa.string()) for word in place]
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *columns], [*batch.schema.names, "host", "python", "origin", "kernel"]
        )

frame = table.read(spark, errors="capture").selectExpr("id", "name", "error IS NOT NULL AS bad")
schema = "id INT, name STRING, bad BOOLEAN, host STRING, python STRING, origin STRING, kernel STRING"
rows = frame.mapInArrow(with_place, schema).collect()
print("RESULT", json.dumps({{
    "rows": [[row.id, row.name] for row in rows if not row.bad],
    "bad": sum(row.bad for row in rows),
    "places": sorted({{(row.host, row.python, row.origin, row.kernel) for row in rows}}),
}}))
spark.stop()
"""


@pytest.fixture(scope="module")
def jobs(
    cluster: Cluster,
    broker: Any,
    bare: Environment,
    with_wheel: Environment,
    wheel: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Program]:
    """Three jobs that run at the same time, one for each way."""
    folder = tmp_path_factory.mktemp("install")
    topic = broker.create("install", 4)
    # without keys, one partition may get all records
    good = [(b"%d" % number, json.dumps({"id": number, "name": f"n{number}"}).encode()) for number in range(RECORDS)]
    broker.send(topic, [*good, *[(None, b"no json")] * BAD])
    job = folder / "job.py"
    job.write_text(JOB.format(topic=topic, bootstrap=broker.bootstrap, met=folder / "met"), encoding="utf-8")

    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(with_wheel.folder, ".")
    zipped = make_zip(folder / "zip" / "kvformat.zip", wheel)

    def start(name: str, python: str | Path, *options: str | Path) -> Program:
        return cluster.submit(python, *options, job, log=f"{name}.log", cwd=folder, PYSPARK_PYTHON=python)

    # The driver runs the Python of the executors too, to plan what is read.
    (folder / "env").symlink_to(with_wheel.folder)
    return {
        "wheel": start("wheel", with_wheel.executable),
        "zip": start("zip", bare.executable, "--py-files", zipped),
        "archive": start("archive", "./env/bin/python", "--conf", f"spark.archives={archive}#env"),
    }


@pytest.fixture
def result(jobs: dict[str, Program]) -> Callable[[str], list[tuple[str, ...]]]:
    """Compare the rows of a job, and return where they were decoded: worker, Python, file, kernel."""

    def compared(name: str) -> list[tuple[str, ...]]:
        (line,) = (line for line in jobs[name].end().splitlines() if line.startswith("RESULT "))
        answer = json.loads(line.removeprefix("RESULT "))
        assert len(answer["rows"]) == RECORDS
        assert sorted(answer["rows"]) == [[number, f"n{number}"] for number in range(RECORDS)]
        assert answer["bad"] == BAD
        places = [tuple(place) for place in answer["places"]]
        assert {place[0] for place in places} == {"worker-127.0.0.1", "worker-127.0.0.2"}
        assert {place[3] for place in places} == {"compiled"}
        return places

    return compared


def test_a_wheel_in_the_environment_of_the_workers_decodes_on_both(result: Any, with_wheel: Environment) -> None:
    for _, python, origin, _ in result("wheel"):
        assert python == str(with_wheel.executable)
        assert origin.startswith(str(with_wheel.folder))


def test_a_zip_decodes_on_workers_without_the_library(result: Any, bare: Environment) -> None:
    for _, python, origin, _ in result("zip"):
        assert python == str(bare.executable)
        assert "/kvformat.zip/kvformat/" in origin


def test_an_archive_of_an_environment_decodes_on_workers_that_have_nothing(result: Any) -> None:
    for _, python, origin, _ in result("archive"):
        assert python.endswith("/env/bin/python")
        assert "/env/lib/python" in origin
