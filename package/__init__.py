"""Flink's Kafka formats and key/value tables for Apache Spark.

The public names are those of `kvformat.codecs`: `from kvformat import get_format` gives the same object as
`from kvformat.codecs import get_format`. `kvformat.codecs` is imported when the first of them is asked for, so that
`import kvformat` loads nothing else.

This file makes `kvformat` a regular package. Python prefers a regular package to every folder of that name without an
`__init__.py`, wherever the two stand on `sys.path`. So a checkout beside a job never shadows the installed package, and
of two installed versions the first one on `sys.path` is used for all modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvformat.codecs import *  # noqa: F403  # the list of names is kvformat.codecs.__all__


def __getattr__(name: str) -> object:
    # Other names with an underscore, such as __wrapped__, are looked up by tools and are never ours.
    if name == "__all__" or not name.startswith("_"):
        codecs = import_module(f"{__name__}.codecs")
        names: list[str] = codecs.__all__
        if name == "__all__":
            return names
        if name in names:
            return getattr(codecs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module(f"{__name__}.codecs").__all__})
