"""Fixtures with each kind of installation. `tests/support/environments.py` makes the environments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.environments import (  # noqa: F401 - fixtures
    ROOT,
    Environment,
    bare,
    build_wheel,
    copy_sources,
    dependencies,
    new_environment,
    source,
    wheel,
    with_wheel,
)

PAIRS = sorted(file.stem for file in (ROOT / "codecs" / "_kernel").glob("*.pxd") if file.with_suffix(".py").exists())
"""The modules of the kernel that are compiled."""
SHARED = "_cython_shared"
"""The module with the code of Cython that these modules share. It has no source."""
NO_COMPILER = {"CC": "/nonexistent/cc", "PATH": "/nonexistent"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder as slow, because they build packages and create environments."""
    for item in items:
        if item.path.is_relative_to(ROOT / "tests" / "packaging"):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def pure_wheel(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The wheel that a machine without a compiler builds, and pip's output."""
    source = copy_sources(tmp_path_factory.mktemp("pure_source"))  # noqa: F811
    return build_wheel(source, tmp_path_factory.mktemp("pure_wheel"), **NO_COMPILER)


@pytest.fixture(scope="session")
def with_editable(new_environment, source: Path, wheel: Path) -> Environment:  # noqa: F811 - one build at a time
    environment = new_environment("with_editable")
    environment.install("-e", source)
    return environment


@pytest.fixture(scope="session")
def with_pure_wheel(new_environment, pure_wheel: tuple[Path, str]) -> Environment:  # noqa: F811
    environment = new_environment("with_pure_wheel")
    environment.install(pure_wheel[0])
    return environment


@pytest.fixture(params=["wheel", "editable"])
def installed(request: pytest.FixtureRequest) -> Environment:
    """An environment for each kind of installation."""
    environment: Environment = request.getfixturevalue(f"with_{request.param}")
    return environment
