"""Executors with another build of the library, or without it: an error on the driver, before the job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, Program
from tests.support.environments import Environment

OTHER = "0123456789ab"

JOB = """
import json, sys
from kvformat import KafkaTable, get_format
from kvformat.registry import ConfigurationError, build_identity
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
messages = spark.createDataFrame([(b'{"id":1}',)], "value BINARY")
options = {
    "connector": "kafka", "topic": sys.argv[1], "properties.bootstrap.servers": sys.argv[2],
    "scan.startup.mode": "earliest-offset", "format": "json",
}
answers = []
for call in (
    lambda: messages.select(get_format("json").decode("value", "id INT")).collect(),
    lambda: KafkaTable("id INT", options).read(spark, source="python").collect(),
):
    try:
        answers.append(str(call()))
    except ConfigurationError as error:
        answers.append(str(error))
print("RESULT", json.dumps([build_identity(), *answers]))
spark.stop()
"""


@pytest.fixture(scope="module")
def other(new_environment, wheel: Path) -> Environment:
    """An environment with another build: the same wheel, which says that it was made of other sources."""
    environment: Environment = new_environment("other")
    environment.install(wheel)
    (build,) = environment.folder.glob("lib/python*/site-packages/kvformat/registry/build.json")
    build.write_text(json.dumps({**json.loads(build.read_text()), "sources": OTHER, "version": "0.1.9"}))
    return environment


@pytest.fixture(scope="module")
def jobs(
    cluster: Cluster, broker: Any, with_wheel: Environment, other: Environment, bare: Environment, tmp_path_factory
) -> dict[str, Program]:
    """Two jobs that run at the same time: executors with another build, and without one."""
    job: Path = tmp_path_factory.mktemp("skew") / "job.py"
    job.write_text(JOB, encoding="utf-8")
    call = (job, broker.create("skew"), broker.bootstrap)
    return {
        name: cluster.submit(with_wheel.executable, *call, log=f"{name}.log", PYSPARK_PYTHON=workers.executable)
        for name, workers in (("other", other), ("bare", bare))
    }


def answers(job: Program) -> list[str]:
    """Return the driver's build, and what two calls said."""
    (line,) = (line for line in job.end().splitlines() if line.startswith("RESULT "))
    told: list[str] = json.loads(line.removeprefix("RESULT "))
    assert len(told) == 3
    return told


def test_executors_with_another_build_are_refused_and_both_builds_named(jobs, other: Environment) -> None:
    driver, *told = answers(jobs["other"])
    for text in told:
        assert text.startswith("Spark's executors have another kvformat than the driver: 0.1.9 (")
        assert f"sources {OTHER}" in text
        assert str(other.executable) in text
        assert f"and the driver {driver}" in text
        assert "install the driver's wheel for the executors, or ship the driver's kvformat.zip" in text


def test_executors_without_the_library_are_refused(jobs, bare: Environment) -> None:
    _, *told = answers(jobs["bare"])
    for text in told:
        assert text.startswith("Spark's executors can't import kvformat: No module named 'kvformat'")
        assert str(bare.executable) in text
        assert "--py-files kvformat.zip" in text
