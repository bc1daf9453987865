"""Spark's workers: a job fails before it starts if their Python lacks the library, and they do not collect modules."""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.slow]

SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
from kvformat.registry import ConfigurationError, KeyValueFormat, get_format

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
frame = spark.createDataFrame([(b"1",)], "value BINARY")
values, kv = get_format("json"), KeyValueFormat("id INT", {"format": "json"})
rows = spark.range(1)
jobs = 0
for python in sys.argv[1:]:
    spark.sparkContext.pythonExec = python  # as PYSPARK_PYTHON sets it when the session starts
    outcomes = []
    for call in (
        lambda: frame.select(values.decode("value", "id INT")),
        lambda: frame.select(values.decode_rows("value", "id INT")),
        lambda: rows.select(values.encode("id")),
        lambda: kv.decode(frame),
        lambda: kv.encode(rows.selectExpr("CAST(id AS INT) AS id")),
    ):
        try:
            call()
            outcomes.append("fine")
        except ConfigurationError as error:
            outcomes.append(str(error))
    before, jobs = jobs, len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))
    print("OUTCOME", json.dumps([python, outcomes, jobs - before]))
"""
_FROZEN = "import gc, kvformat.registry, pyspark.sql; gc.collect(); print(gc.get_freeze_count(), len(gc.callbacks))"
Outcomes = dict[str, tuple[list[str], int]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two Pythons: `bare/bin/python` cannot import kvformat, `other` can."""
    folder = tmp_path_factory.mktemp("pythons")
    venv.create(folder / "bare", symlinks=True)
    link = folder / "other"
    link.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    link.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> Outcomes:
    """The results of five calls and the number of jobs, for each Python of the workers."""
    script = folder / "job.py"
    script.write_text(SCRIPT, encoding="utf-8")
    pythons = [str(folder / "bare" / "bin" / "python"), sys.executable, str(folder / "other")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    run = subprocess.run([sys.executable, str(script), *pythons], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    lines = [line.removeprefix("OUTCOME ") for line in run.stdout.splitlines() if line.startswith("OUTCOME")]
    found = {python: (answers, jobs) for python, answers, jobs in map(json.loads, lines)}
    assert list(found) == pythons
    return found


def test_a_python_without_the_library_is_an_error_before_the_job(outcomes: Outcomes, folder: Path) -> None:
    python = str(folder / "bare" / "bin" / "python")
    answers, jobs = outcomes[python]
    assert len(answers) == 5
    for text in answers:
        assert f"run the Python '{python}', which can't import kvformat: No module named '" in text
        assert f"'{sys.executable}': set PYSPARK_PYTHON" in text
    assert jobs == 1  # the check ran once, in a worker


def test_the_drivers_python_is_not_checked(outcomes: Outcomes) -> None:
    assert outcomes[sys.executable] == (["fine"] * 5, 0)


def test_another_python_with_the_library_is_accepted(outcomes: Outcomes, folder: Path) -> None:
    assert outcomes[str(folder / "other")] == (["fine"] * 5, 1)


def test_a_worker_does_not_collect_the_garbage_of_modules(spark: Any) -> None:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        importlib.import_module("kvformat.registry")
        sum(map(len, batches))
        yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})

    counted = spark.range(0, 1, 1, 1).mapInArrow(count, "frozen LONG")
    assert max(row.frozen for _ in range(8) for row in counted.collect()) > 50_000
    found = subprocess.run([sys.executable, "-c", _FROZEN], capture_output=True, text=True, check=True)
    assert found.stdout == "0 0\n"  # the driver
