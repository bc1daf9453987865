"""Flink's tables on Kafka, read and written by Spark's own Kafka source and sink; `registry` and `codecs` know none."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvformat.connectors.infer import (
        Guess,
        InferredSchema,
        Inspection,
        ddl_from_subject,
        infer_schema,
        schema_from_subject,
    )
    from kvformat.connectors.infer.sniff import sniff
    from kvformat.connectors.kafka import KafkaTable

__all__ = [
    "Guess",
    "InferredSchema",
    "Inspection",
    "KafkaTable",
    "ddl_from_subject",
    "infer_schema",
    "schema_from_subject",
    "sniff",
]


def __getattr__(name: str) -> object:
    # The command line is in this package, and its help needs neither Arrow nor a table.
    if name in __all__:
        home = "kafka" if name == "KafkaTable" else "infer"
        return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
