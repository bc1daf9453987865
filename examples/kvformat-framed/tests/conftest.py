"""The kit's Spark session."""

from __future__ import annotations

from kvformat.registry.testing.fixtures import spark

__all__ = ["spark"]
