"""Flink's Kafka formats and key/value tables for Apache Spark.

The public names are those of `kvformat.codecs`, and some of ingestion: `from kvformat import get_format` gives the same
object as `from kvformat.codecs import get_format`. The first access to a name imports its package. So `import kvformat`
alone loads nothing else.

This file makes `kvformat` a regular package. Python prefers a regular package to a folder without `__init__.py`,
whatever their order on `sys.path`. So a checkout beside a job never shadows the installed package. If two versions are
installed, all modules come from the first one on `sys.path`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvformat.codecs import *  # noqa: F403  # the list of names is kvformat.codecs.__all__
    from kvformat.connectors import register as register
    from kvformat.ingestion import Pipeline as Pipeline
    from kvformat.ingestion import ingest as ingest
    from kvformat.ingestion import read_table as read_table

_OWN = {
    "register": "kvformat.connectors",
    **dict.fromkeys(("Pipeline", "ingest", "read_table"), "kvformat.ingestion"),
}
"""Names that `kvformat.codecs` does not have, with their modules: the standard `codecs` has its own `register`."""


def __getattr__(name: str) -> object:
    if name in _OWN:
        return getattr(import_module(_OWN[name]), name)
    # Tools look up other names with an underscore, such as __wrapped__. None of ours begins with one.
    if name == "__all__" or not name.startswith("_"):
        codecs = import_module(f"{__name__}.codecs")
        names: list[str] = codecs.__all__
        if name == "__all__":
            return [*names, *_OWN]
        if name in names:
            return getattr(codecs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_OWN, *import_module(f"{__name__}.codecs").__all__})
