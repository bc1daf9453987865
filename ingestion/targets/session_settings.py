"""Settings of a session for statements that take no options, such as MERGE.

A query writes several tables at the same time in one session. Statements with the same settings run together. One with
other settings waits until they have ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class _Use:
    settings: Mapping[str, str]
    statements: int = 0


_CHANGED = threading.Condition()
_USES: dict[str, _Use] = {}  # by query, since each query has a session of its own


@contextmanager
def shared_settings(spark: SparkSession, query: str, settings: Mapping[str, str]) -> Iterator[None]:
    """Run statements of a query with settings of its session, which are removed after the last of them."""
    with _CHANGED:
        while query in _USES and _USES[query].settings != settings:
            _CHANGED.wait()
        use = _USES.setdefault(query, _Use(settings))
        if use.statements == 0:
            for name, value in settings.items():
                spark.conf.set(name, value)
        use.statements += 1
    try:
        yield
    finally:
        with _CHANGED:
            use.statements -= 1
            if use.statements == 0:
                del _USES[query]
                for name in settings:
                    spark.conf.unset(name)
                _CHANGED.notify_all()
