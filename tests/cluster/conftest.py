"""A cluster of two workers with an environment of their own, for all tests of this folder (`scripts/cluster`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.environments import (  # noqa: F401 - fixtures
    Environment,
    bare,
    dependencies,
    link_all,
    link_thin_pyspark,
    new_environment,
    source,
    variables,
    wheel,
    with_wheel,
)

HOSTS = ("127.0.0.1", "127.0.0.2")
"""The workers. Each has its own name of the loopback interface."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: each needs a broker and several JVMs."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            for mark in ("spark", "services", "slow", "once"):
                item.add_marker(mark)


@pytest.fixture(scope="session")
def cluster(with_wheel: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:  # noqa: F811
    """A cluster whose executors run the environment with the wheel."""
    running = Cluster(
        tmp_path_factory.mktemp("cluster"),
        HOSTS,
        python=with_wheel.executable,
        environment=variables(),
        cores=4,
        memory="4g",
    )
    try:
        running.start()
        yield running
    finally:
        running.kill()


@pytest.fixture(scope="session")
def thin_client(
    new_environment,  # noqa: F811
    dependencies: Path,  # noqa: F811
    wheel: Path,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Environment:
    """An environment with what the package `pyspark-client` has of PySpark: neither jars nor a classic session."""
    packages = tmp_path_factory.mktemp("thin_dependencies")
    link_all(dependencies, packages, ["pyspark", "py4j"])
    link_thin_pyspark(dependencies / "pyspark", packages / "pyspark")
    environment: Environment = new_environment("thin_client", packages)
    environment.install(wheel)
    return environment
