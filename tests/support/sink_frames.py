"""A table and DataFrames for the steps of a writer, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvformat.connectors import KafkaTable

GIVEN = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b:1", "format": "json"}


def table(columns: str = "id INT", **options: Any) -> KafkaTable:
    """Return a table with the options `GIVEN`, except for those that are given here; None leaves one out."""
    return KafkaTable(columns, {key: value for key, value in {**GIVEN, **options}.items() if value is not None})


class Frame:
    """A DataFrame that keeps a list of what is done with it, shared with the frames made from it."""

    def __init__(self, name: str, columns: list[str], done: list[Any]) -> None:
        self.name, self.columns, self.done = name, columns, done

    def __getattr__(self, method: str) -> Callable[..., Frame]:
        def call(*given: Any) -> Frame:
            self.done.append((self.name, method, *given))
            return self

        return call
