"""Flink's tables on Kafka, read and written by Spark's own Kafka source and sink; `registry` and `codecs` know none."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvformat.connectors.kafka import KafkaTable

__all__ = ["KafkaTable"]

_HOMES = {"KafkaTable": "kvformat.connectors.kafka"}


def __getattr__(name: str) -> object:
    # The command line is in this package, and its help needs neither Arrow nor a table.
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
