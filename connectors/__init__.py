"""Flink tables on Kafka, with Spark's Kafka source and sink. `registry` and `codecs` do not import this package."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvformat.connectors.data_source.source import register
    from kvformat.connectors.infer import (
        FormatGuess,
        InferredSchema,
        Inspection,
        ddl_from_subject,
        infer_schema,
        schema_from_subject,
    )
    from kvformat.connectors.infer.inspection import inspect_topic
    from kvformat.connectors.kafka import KafkaTable
    from kvformat.connectors.metrics import MetricsListener, export_metrics
    from kvformat.connectors.progress import ProgressListener, log_progress
    from kvformat.connectors.replay import Replayed
    from kvformat.connectors.views import register_tables

__all__ = [
    "FormatGuess",
    "InferredSchema",
    "Inspection",
    "KafkaTable",
    "MetricsListener",
    "ProgressListener",
    "Replayed",
    "ddl_from_subject",
    "export_metrics",
    "infer_schema",
    "inspect_topic",
    "log_progress",
    "register",
    "register_tables",
    "schema_from_subject",
]
_HOMES = {
    "KafkaTable": "kafka",
    "MetricsListener": "metrics",
    "ProgressListener": "progress",
    "Replayed": "replay",
    "export_metrics": "metrics",
    "log_progress": "progress",
    "register": "data_source.source",
    "register_tables": "views",
}


def __getattr__(name: str) -> object:
    # Lazy imports: the command line is in this package, and its help needs neither Arrow nor a table.
    if name in __all__:
        home = _HOMES.get(name, "infer")
        return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
