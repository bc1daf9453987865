"""Fixtures of the command line, and the tests that run with every PySpark version and with Spark Connect."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import source_choice

EVERYWHERE = (
    "test_data_source.py",
    "test_exactly_once.py",
    "test_kafka_table.py",
    "test_maintain.py",
    "test_replay.py",
    "test_views.py",
    "test_writing.py",
)
"""Tests that read, write and maintain a table through each Spark interface. The other tests would add nothing."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    for item in items:
        if item.path.parent == folder and item.path.name not in EVERYWHERE:
            item.add_marker(pytest.mark.once)


def _take_interrupts() -> None:
    """Let an interrupt end the process. A shell in the background makes all its processes ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def process() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[Any] = []

    def start(*command: str, **more: Any) -> subprocess.Popen[bytes]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        started.append(subprocess.Popen(command, **pipes, preexec_fn=_take_interrupts, **more))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        with contextlib.suppress(OSError):  # of a closed pipe
            one.stdin.close()
        one.stdout.close()
        one.stderr.close()
        one.wait()


@pytest.fixture(params=["python", pytest.param("spark", marks=pytest.mark.slow)])
def each_source(request: pytest.FixtureRequest, broker: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Read tables by each source where `auto` may choose: the data source in Python, and Spark's Kafka source.

    Topics of the test are deleted after it, so that it can create them again.
    """
    if request.param == "spark":
        monkeypatch.setattr(source_choice, "_reason", lambda *_, **__: "the test wants it")
    created: list[str] = []
    create_all = broker.create_all

    def create(topics: Mapping[str, int], **config: str) -> None:
        create_all(topics, **config)
        created.extend(topics)

    monkeypatch.setattr(broker, "create_all", create)
    yield str(request.param)
    for topic in created:
        broker.delete(topic)


@pytest.fixture
def inspected(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the arguments of `inspect_topic`, which always returns the same result."""
    asked = []

    def inspect_topic(values: Any, keys: Any = None, **more: Any) -> Any:
        asked.append((values, keys, more))
        guess = types.SimpleNamespace(
            part="value", format="json", confidence=0.98, reason="all are objects", options={"a": "b"}
        )
        guess.readable = True
        return types.SimpleNamespace(
            guesses=(guess,),
            notes=("two were cut",),
            counts={"messages": len(values)},
            ddl="CREATE TABLE x (...)",
            schemas=(),
            tables={},
        )

    module = types.ModuleType("kvformat.connectors.infer")
    vars(module)["inspect_topic"] = inspect_topic
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return asked
