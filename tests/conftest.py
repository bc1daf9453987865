"""Fixtures shared by all tests: a Spark session, classic or Connect."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.registry_server import Registry, RegistryServer

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # each Python process with NumPy would start more, which then wait busily


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--spark-mode", choices=("classic", "connect"), default="classic", help="the kind of Spark session in tests"
    )
    parser.addoption("--without-java", action="store_true", help="leave out the tests marked spark or services")


_SPARK = Path(__file__).parent / "spark"
_NEEDS_JAVA = pytest.StashKey[list[pytest.Item]]()


def _needs_java(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("spark", "services"))


@pytest.hookimpl(trylast=True)  # after -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a test with a Spark session but without the mark: it would start one in a run without Spark."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("spark") is None:
            raise pytest.UsageError(f"{item.nodeid} uses the fixture 'spark' and needs the mark 'spark'")
    if config.getoption("--without-java"):
        config.stash[_NEEDS_JAVA] = [item for item in items if _needs_java(item)]
        items[:] = [item for item in items if not _needs_java(item)]
        config.hook.pytest_deselected(items=config.stash[_NEEDS_JAVA])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left_out := config.stash.get(_NEEDS_JAVA, []):
        terminalreporter.write_line(f"No Java 17 or 21 was found: {len(left_out)} tests that need it did not run.")


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session for all tests with two threads, without a user interface, on free ports of 127.0.0.1.

    It generates code, as users' sessions do, if a test of `tests/spark` is among the tests.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_TESTING"] = "1"  # makes Spark Connect use a free port
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    from tests.support import probe, services, sessions

    cloudpickle.register_pickle_by_value(probe)  # workers cannot import the tests
    settings = {
        **sessions.LOCAL,
        **sessions.FEW_PROCESSES,
        "spark.python.task.killTimeout": "1min",  # Spark 4.1 also kills workers that a killed task has returned
        "spark.sql.session.timeZone": "UTC",  # not the time zone of the process
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.timeType.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    }
    if any(item.get_closest_marker("services") for item in request.session.items):
        settings["spark.jars"] = f"{services.jars('spark-avro')},{services.kafka_jars()}"
    if not any(item.path.is_relative_to(_SPARK) for item in request.session.items):
        settings |= sessions.QUICK
    builder = SparkSession.builder.appName("kvformat tests").config(map=settings)
    connect = request.config.getoption("--spark-mode") == "connect"
    builder = builder.remote("local[2]") if connect else builder.master("local[2]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Connect warns that it cannot set static settings a second time
        session = builder.getOrCreate()
    if not connect:
        sessions.without_checksums(session)
    yield session
    session.stop()


@pytest.fixture(params=["America/New_York", pytest.param("UTC", marks=pytest.mark.slow)])
def time_zone(request: pytest.FixtureRequest, spark: Any) -> Iterator[str]:
    """Run a test in two session time zones. New York has daylight saving time, and is not the zone of the process."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Kafka broker for all tests. Each test creates its own topics."""
    from tests.support import services

    running = services.KafkaBroker(tmp_path_factory.mktemp("broker"))
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="session")
def server() -> Iterator[RegistryServer]:
    """A server of schema registries. Each test has its own registry."""
    server = RegistryServer()
    yield server
    server.close()


@pytest.fixture
def registry(server: RegistryServer, request: pytest.FixtureRequest) -> Iterator[Registry]:
    """A schema registry with the schemas of the mark `schemas`, or an empty one."""
    registry = Registry()
    for mark in request.node.iter_markers("schemas"):
        registry.ids |= mark.args[0]
        registry.types |= mark.kwargs.get("types", {})
    with server.serving(registry):
        yield registry


@pytest.fixture(scope="session")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real schema registry for all tests, because it takes 10 s to start. Each test has its own subjects."""
    from tests.support import services

    registry = services.SchemaRegistry(tmp_path_factory.mktemp("apicurio"))
    registry.start()
    yield registry
    registry.kill()
