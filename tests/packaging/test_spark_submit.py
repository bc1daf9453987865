"""Spark jobs with the installed wheel, and with a zip in --py-files only."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.support.environments import make_zip, run

JOB = """
import json, os
{door}
import kvformat.codecs
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.getOrCreate()

@udf("string")
def in_worker(value):
    {door}
    from kvformat.codecs import KERNEL
    return KERNEL

messages = spark.createDataFrame([(bytearray(b'{{"a":1,"b":"x"}}'), bytearray(b"k"))], "value BINARY, key BINARY")
row = messages.select(
    get_format("json").decode("value", "a INT, b STRING").alias("value"),
    get_format("raw").decode("key", "k STRING").alias("key"),
    in_worker("value").alias("worker"),
).first()
print("RESULT", json.dumps([row.asDict(recursive=True), kvformat.codecs.__file__]))
spark.stop()
"""


def result(output: str) -> tuple[dict[str, object], str]:
    (line,) = (line for line in output.splitlines() if line.startswith("RESULT "))
    row, origin = json.loads(line.removeprefix("RESULT "))
    return row, origin


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_zip(tmp_path_factory.mktemp("zip") / "first" / "kvformat.zip")


def test_the_zip_has_the_package_and_its_metadata(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
    assert {"kvformat/__init__.py", "kvformat/__main__.py", "_kvformat_alias.py"} <= set(names)
    assert any(name.endswith(".dist-info/entry_points.txt") for name in names)
    assert names == sorted(names)
    assert not [name for name in names if name.endswith((".pth", ".pxd"))]


def test_the_command_line_runs_from_a_zip(bare, archive: Path) -> None:
    assert '"name": "debezium-json"' in bare.python("-m", "kvformat", "formats", "--json", PYTHONPATH=str(archive))
    told = bare.python("-m", "kvformat", "new-format", "zipped", "--json", PYTHONPATH=str(archive))
    assert "kvformat-zipped/pyproject.toml" in told


def test_the_zip_is_reproducible(archive: Path, tmp_path: Path) -> None:
    assert make_zip(tmp_path / "second" / "kvformat.zip").read_bytes() == archive.read_bytes()


@pytest.mark.spark
def test_a_job_with_only_the_zip_works(bare, dependencies: Path, archive: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB.format(door="from kvformat.codecs import get_format"))
    row, origin = result(bare.submit(dependencies, "--py-files", archive, job))
    assert row == {"value": {"a": 1, "b": "x"}, "key": {"k": "k"}, "worker": "compiled"}
    assert "kvformat.zip" in origin


@pytest.mark.spark
def test_a_job_with_the_installed_wheel_works(with_wheel, dependencies: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB.format(door="from codecs import get_format"))
    row, origin = result(with_wheel.submit(dependencies, job))
    assert row == {"value": {"a": 1, "b": "x"}, "key": {"k": "k"}, "worker": "compiled"}
    assert "site-packages" in origin


@pytest.mark.spark
def test_the_command_line_runs_by_spark_submit(with_wheel, dependencies: Path, tmp_path: Path) -> None:
    """`spark-submit $(kvformat launcher) ingest ...`: the session has the options of spark-submit."""
    program = with_wheel.folder / "bin" / "kvformat"
    launcher = run([program, "launcher"], cwd=tmp_path).strip()
    pipeline = tmp_path / "pipeline.yaml"
    source = (
        "{type: kafka, topic: orders, scan.startup.mode: earliest-offset, properties.bootstrap.servers: '127.0.0.1:9'}"
    )
    pipeline.write_text(f"source: {source}\nsink: {{type: delta, path: {tmp_path}/lake}}\n")
    told = with_wheel.submit(dependencies, launcher, "ingest", pipeline, "--explain")
    assert f"path: {tmp_path}/lake" in told


def test_a_zip_has_no_file_for_spark_submit(bare, archive: Path) -> None:
    done = subprocess.run(
        [bare.executable, "-m", "kvformat", "launcher"],
        cwd=bare.folder,
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "write these two lines to a file of your own:\nfrom kvformat.__main__ import main\nmain()" in done.stderr
