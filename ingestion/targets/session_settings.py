"""Settings of a session for statements that take no options, such as MERGE.

A query writes several tables at the same time in one session. Statements with the same settings run together. One with
other settings, or with none, waits until they have ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvformat.registry.contract.fork_safe import Guarded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WAIT = 0.05  # seconds; few tables have a change or a TRUNCATE in a batch, and a statement takes seconds


@dataclass
class _Use:
    settings: Mapping[str, str]
    statements: int = 0


_USES: Guarded[dict[str, _Use]] = Guarded(dict)  # by query, since each query has a session of its own


@contextmanager
def shared_settings(spark: SparkSession, query: str, settings: Mapping[str, str]) -> Iterator[None]:
    """Run statements of a query with settings of its session, which are removed after the last of them."""
    while not _begin(spark, query, settings):
        time.sleep(_WAIT)
    try:
        yield
    finally:
        with _USES.use() as uses:
            uses[query].statements -= 1
            if uses[query].statements == 0:
                del uses[query]
                for name in settings:
                    spark.conf.unset(name)


def _begin(spark: SparkSession, query: str, settings: Mapping[str, str]) -> bool:
    """Count a statement, unless others run with other settings."""
    with _USES.use() as uses:
        use = uses.setdefault(query, _Use(settings))
        if use.statements and use.settings != settings:
            return False
        if use.statements == 0:
            use.settings = settings
            for name, value in settings.items():
                spark.conf.set(name, value)
        use.statements += 1
        return True
