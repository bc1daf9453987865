"""Selects the tests of Kafka tables that run with every PySpark version and with Spark Connect."""

from __future__ import annotations

from pathlib import Path

import pytest

EVERYWHERE = ("test_kafka_table.py", "test_maintain.py", "test_replay.py", "test_writing.py")
"""Reading, writing and keeping a table, by each of Spark's interfaces that is used; the others say nothing new."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    for item in items:
        if item.path.parent == folder and item.path.name not in EVERYWHERE:
            item.add_marker(pytest.mark.once)
