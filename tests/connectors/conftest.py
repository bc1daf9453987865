"""Selects the tests of Kafka tables that run with every PySpark version and with Spark Connect."""

from __future__ import annotations

from pathlib import Path

import pytest

EVERYWHERE = (
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
