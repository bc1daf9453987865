"""A job fails before it starts if the Python of local workers lacks the library."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.once]

SCRIPT = """
from pyspark.sql import SparkSession
from kvformat.registry import ConfigurationError, KeyValueFormat, get_format

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
frame = spark.createDataFrame([(b"1",)], "value BINARY")
json, kv = get_format("json"), KeyValueFormat("id INT", {"format": "json"})
rows = spark.range(1)
for call in (
    lambda: frame.select(json.decode("value", "id INT")),
    lambda: frame.select(json.decode_rows("value", "id INT")),
    lambda: rows.select(json.encode("id")),
    lambda: kv.decode(frame),
    lambda: kv.encode(rows.selectExpr("CAST(id AS INT) AS id")),
):
    try:
        call()
        print("OUTCOME fine")
    except ConfigurationError as error:
        print("OUTCOME", error)
print("OUTCOME jobs", len(spark.sparkContext.statusTracker().getJobIdsForGroup(None)))
"""


def _outcomes(python: str, tmp_path: Path) -> list[str]:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable}
    run = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return [line.removeprefix("OUTCOME ") for line in run.stdout.splitlines() if line.startswith("OUTCOME")]


def test_a_python_without_the_library_is_an_error_before_the_job(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    *said, jobs = _outcomes(python, tmp_path)
    assert len(said) == 5
    for text in said:
        assert f"run the Python '{python}', which can't import kvformat: No module named '" in text
        assert f"'{sys.executable}': set PYSPARK_PYTHON" in text
    assert jobs == "jobs 1"  # the check ran once, in a worker


def test_the_drivers_python_is_not_checked(tmp_path: Path) -> None:
    assert _outcomes(sys.executable, tmp_path) == [*["fine"] * 5, "jobs 0"]


def test_another_python_with_the_library_is_accepted(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    link.chmod(0o755)
    assert _outcomes(str(link), tmp_path) == [*["fine"] * 5, "jobs 1"]
