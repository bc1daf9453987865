"""Ingestion: topics without a declared schema become tables, and tables become topics. No other package imports it.

Rules: Ververica's "Data ingestion" pages and Flink CDC 3.6.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvformat.ingestion.pipeline.arguments import ingest
    from kvformat.ingestion.pipeline.pipeline import Pipeline
    from kvformat.ingestion.targets.delta import DeltaTarget
    from kvformat.ingestion.targets.delta_path import DeltaPathTarget, read_table
    from kvformat.ingestion.targets.iceberg import IcebergTarget
    from kvformat.ingestion.targets.sql import SqlTarget
    from kvformat.ingestion.targets.target import BatchWrite, TableOptions, Target, TargetSchema
    from kvformat.ingestion.targets.topics import tables_to_topics

__all__ = [
    "BatchWrite",
    "DeltaPathTarget",
    "DeltaTarget",
    "IcebergTarget",
    "Pipeline",
    "SqlTarget",
    "TableOptions",
    "Target",
    "TargetSchema",
    "ingest",
    "read_table",
    "tables_to_topics",
]
_HOMES = {
    "BatchWrite": "targets.target",
    "DeltaPathTarget": "targets.delta_path",
    "DeltaTarget": "targets.delta",
    "IcebergTarget": "targets.iceberg",
    "Pipeline": "pipeline.pipeline",
    "SqlTarget": "targets.sql",
    "TableOptions": "targets.target",
    "Target": "targets.target",
    "TargetSchema": "targets.target",
    "ingest": "pipeline.arguments",
    "read_table": "targets.delta_path",
    "tables_to_topics": "targets.topics",
}


def __getattr__(name: str) -> object:
    # Lazy imports: Spark's workers import modules of this package, and need no pipeline.
    if name in __all__:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
