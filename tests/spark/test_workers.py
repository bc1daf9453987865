"""Spark's workers: a job fails before it starts if their Python has not the driver's build; they collect no modules."""

from __future__ import annotations

import gc
import importlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry.build import build_identity, sources_digest

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.slow]

SCRIPT = """
import json, sys, warnings
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
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
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
    told = [str(warning.message) for warning in warned if warning.category.__name__ == "UncompiledKernelWarning"]
    print("OUTCOME", json.dumps([python, outcomes, told, jobs - before]))
"""
_FROZEN = "import gc, kvformat.registry, pyspark.sql; gc.collect(); print(gc.get_freeze_count(), len(gc.callbacks))"
Outcomes = dict[str, tuple[list[str], list[str], int]]
ROOT = Path(__file__).resolve().parents[2]
_BUILD = {"version": "0.0.9", "sources": "0123456789ab", "commit": "fedcba987654", "changed": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pythons for workers: `bare/bin/python` cannot import kvformat, `other` can.

    `newer` has another build, `slow` the same build without the compiled kernel.
    """
    folder = tmp_path_factory.mktemp("pythons")
    venv.create(folder / "bare", symlinks=True)
    _python(folder / "other", "")
    for name, sources in {"newer": _BUILD["sources"], "slow": sources_digest()}.items():
        copy = folder / "copies" / name / "kvformat"
        shutil.copytree(ROOT / "package", copy, ignore=shutil.ignore_patterns("__pycache__"))
        for room in ("registry", "codecs", "connectors", "ingestion"):
            shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__", "*.pxd"))
        (copy / "registry" / "build.json").write_text(json.dumps({**_BUILD, "sources": sources}), encoding="utf-8")
        _python(folder / name, f"PYTHONPATH={copy.parent}:$PYTHONPATH ")
    return folder


def _python(file: Path, settings: str) -> None:
    file.write_text(f'#!/bin/sh\n{settings}exec "{sys.executable}" "$@"\n', encoding="utf-8")
    file.chmod(0o755)


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> Outcomes:
    """The results of five calls, the warnings and the number of jobs, for each Python of the workers."""
    script = folder / "job.py"
    script.write_text(SCRIPT, encoding="utf-8")
    others = [str(folder / name) for name in ("other", "newer", "slow")]
    pythons = [str(folder / "bare" / "bin" / "python"), sys.executable, *others]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    run = subprocess.run([sys.executable, str(script), *pythons], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    lines = [line.removeprefix("OUTCOME ") for line in run.stdout.splitlines() if line.startswith("OUTCOME")]
    found = {python: (answers, told, jobs) for python, answers, told, jobs in map(json.loads, lines)}
    assert list(found) == pythons
    return found


def test_a_python_without_the_library_is_an_error_before_the_job(outcomes: Outcomes, folder: Path) -> None:
    python = str(folder / "bare" / "bin" / "python")
    answers, _, jobs = outcomes[python]
    assert len(answers) == 5
    for text in answers:
        assert f"run the Python '{python}', which can't import kvformat: No module named '" in text
        assert f"'{sys.executable}': set PYSPARK_PYTHON" in text
    assert jobs == 5  # each call asks again: the library may have come


def test_workers_with_another_build_are_an_error_before_the_job(outcomes: Outcomes, folder: Path) -> None:
    answers, _, jobs = outcomes[str(folder / "newer")]
    for text in answers:
        assert "have another kvformat than the driver: 0.0.9 (commit fedcba987654, sources 0123456789ab) (" in text
        assert f"and the driver {build_identity()}. To have the same, install the driver's wheel" in text
        assert "spark-submit --py-files kvformat.zip" in text
    assert (len(answers), jobs) == (5, 5)


def test_workers_whose_kernel_is_not_compiled_are_a_warning(outcomes: Outcomes, folder: Path) -> None:
    answers, told, jobs = outcomes[str(folder / "slow")]
    assert (answers, jobs) == (["fine"] * 5, 1)
    (text,) = told
    assert "is not compiled, and reads many times slower: kvformat was installed without a C compiler." in text


def test_the_drivers_python_is_not_checked(outcomes: Outcomes) -> None:
    assert outcomes[sys.executable] == (["fine"] * 5, [], 0)


def test_another_python_with_the_library_is_accepted(outcomes: Outcomes, folder: Path) -> None:
    assert outcomes[str(folder / "other")] == (["fine"] * 5, [], 1)  # once for all calls


def test_a_worker_does_not_collect_the_garbage_of_modules(spark: Any) -> None:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        importlib.import_module("kvformat.registry")
        sum(map(len, batches))
        yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})

    counted = spark.range(0, 1, 1, 1).mapInArrow(count, "frozen LONG")
    assert max(row.frozen for _ in range(8) for row in counted.collect()) > 50_000
    found = subprocess.run([sys.executable, "-c", _FROZEN], capture_output=True, text=True, check=True)
    assert found.stdout == "0 0\n"  # the driver
