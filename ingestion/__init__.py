"""Ingestion: topics without a declared schema become tables, and tables become topics. No other package imports it.

Rules: Ververica's "Data ingestion" pages and Flink CDC 3.6.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvformat.ingestion.pipeline import Pipeline

__all__ = ["Pipeline"]
_HOMES = {"Pipeline": "pipeline"}


def __getattr__(name: str) -> object:
    # Lazy imports: Spark's workers import modules of this package, and need no pipeline.
    if name in __all__:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
