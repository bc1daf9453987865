"""Settings of a session for statements that take no options, such as MERGE.

A query writes several tables at the same time in one session. Statements with the same settings run together. One with
other settings, or with none, waits until they have ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvformat.registry.contract.fork_safe import Guarded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WAIT = 0.05  # seconds; few tables have a change or a TRUNCATE in a batch, and a statement takes seconds


_TEXT = "commitInfo.userMetadata"  # the end of the name of a setting whose text follows that of the user


@dataclass
class _Use:
    settings: Mapping[str, str]
    statements: int = 0
    before: dict[str, str | None] = field(default_factory=dict)


_USES: Guarded[dict[str, _Use]] = Guarded(dict)  # by query, since each query has a session of its own


@contextmanager
def shared_settings(spark: SparkSession, query: str, settings: Mapping[str, str]) -> Iterator[None]:
    """Run statements of a query with settings of its session, which are as before after the last of them."""
    while not _begin(spark, query, settings):
        time.sleep(_WAIT)
    try:
        yield
    finally:
        with _USES.use() as uses:
            uses[query].statements -= 1
            if uses[query].statements == 0:
                for name, value in uses.pop(query).before.items():
                    if value is None:
                        spark.conf.unset(name)
                    else:
                        spark.conf.set(name, value)


def _begin(spark: SparkSession, query: str, settings: Mapping[str, str]) -> bool:
    """Count a statement, unless others run with other settings."""
    with _USES.use() as uses:
        use = uses.setdefault(query, _Use(settings))
        if use.statements and use.settings != settings:
            return False
        if use.statements == 0:
            use.settings = settings
            use.before = {name: spark.conf.get(name, None) for name in settings}
            for name, value in settings.items():
                theirs = use.before[name] if name.endswith(_TEXT) else None
                spark.conf.set(name, f"{theirs} {value}" if theirs else value)
        use.statements += 1
        return True
