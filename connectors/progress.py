"""A listener that logs the progress of streaming queries: records, duration, lag, and the counts of their rows.

    listener = log_progress(spark)      each micro-batch is a line of the logger `kvformat.progress`
    ...
    spark.streams.removeListener(listener)

The lag is what the brokers have after the micro-batch, and the query has not read. The lag of a consumer group is
meaningless, because Spark does not commit offsets to a group.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kvformat.connectors.batch_progress import BatchProgress
from kvformat.connectors.lag import NO_TABLE, Lag, LagWatch
from kvformat.registry.contract.errors import needs_extra

with needs_extra("a listener needs PySpark 4.1 or newer", extra="spark"):
    from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from kvformat.connectors.kafka import KafkaTable

LOGGER = logging.getLogger("kvformat.progress")
_MOST_NAMED = 5  # partitions or topics in a line; those with the largest lag
_MOST_CHARACTERS = 300  # of the error that ended a query
_MOMENT = 0.05  # seconds between two looks at the queries that run
_ALWAYS = ("rows", "bad")


def log_progress(
    spark: SparkSession, *, logger: logging.Logger | None = None, tables: Sequence[KafkaTable] = ()
) -> ProgressListener:
    """Log the progress of all queries of a session from now on; returns the listener, for `removeListener`.

    `logger` is `logging.getLogger("kvformat.progress")` by default. Lines have the level INFO, or WARNING if a
    micro-batch had bad records or found new partitions of a topic, or ERROR if a query failed. Counts come from
    `observe_records` in the query; zeros are left out, except for `rows` and `bad`.

    After each micro-batch the brokers are asked, for at most five seconds, how many records the query has not read, and
    how old the oldest of them is. Their addresses are those of the tables that this process reads as streams. `tables`
    are those of other queries, such as `spark.readStream.format("kafka")`. A lag that nobody can tell is called
    unknown. Works in classic sessions and with Spark Connect, where the listener runs in the client.
    """
    listener = ProgressListener(LOGGER if logger is None else logger, tables)
    spark.streams.addListener(listener)
    return listener


class ProgressListener(StreamingQueryListener):
    """The listener that `log_progress` adds to a session."""

    def __init__(
        self,
        logger: logging.Logger = LOGGER,
        tables: Sequence[KafkaTable] = (),
        *,
        told: Callable[[BatchProgress], None] = lambda _: None,
    ) -> None:
        """Make a listener; `told` is called with each micro-batch, after its line."""
        self._logger, self._told, self._watch = logger, told, LagWatch([table.kv for table in tables])
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Log that a query has started."""
        name = self._names[str(event.runId)] = event.name or str(event.id)
        self._logger.info("query %s: started", name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Log a micro-batch."""
        batch = BatchProgress.of(event.progress, self._watch)
        warn = any(count.get("bad") for count in batch.counts.values()) or batch.new_partitions
        self._logger.log(logging.WARNING if warn else logging.INFO, "%s", described(batch))
        self._told(batch)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Log nothing: there was no micro-batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Log the end of a query, with the first line of its error if it failed."""
        name = self._names.pop(str(event.runId), str(event.id))
        if event.exception is None:
            self._logger.info("query %s: ended", name)
        else:
            first = next(iter(event.exception.strip().splitlines()), "")
            self._logger.error("query %s: failed: %s", name, first[:_MOST_CHARACTERS])

    def await_ends(self, seconds: float) -> None:
        """Wait until the ends of all queries that began are logged: Spark reports them some moments later."""
        deadline = time.monotonic() + seconds
        while self._names and time.monotonic() < deadline:
            time.sleep(_MOMENT)


def described(batch: BatchProgress) -> str:
    """Describe a micro-batch in one line."""
    parts = [f"{batch.records} records in {batch.seconds:.1f} s"]
    if batch.lag is not None:
        parts.append(_unknown_lag(batch.lag, batch.planned) if batch.lag.unknown else _lag(batch.lag))
    if batch.new_partitions:
        parts.append(f"new partitions {_named(batch.new_partitions)}: keys may have moved to others")
    for name, counts in batch.counts.items():
        shown = [f"{key} {count}" for key, count in counts.items() if count or key in _ALWAYS]
        parts.append(f"{name}: {', '.join(shown)}")
    if batch.tables:
        slowest = max(batch.tables, key=lambda name: batch.tables[name].seconds)
        parts.append(f"{len(batch.tables)} tables, the slowest {slowest} {batch.tables[slowest].seconds:.1f} s")
    return f"query {batch.query}, batch {batch.batch}: {'; '.join(parts)}"


def _lag(lag: Lag) -> str:
    """Return the lag in words, with the age of the oldest record of each topic."""
    total = sum(lag.partitions.values())
    text = f"lag {total} records{_farthest(lag.partitions)}"
    if not total:
        return text
    ages = {topic: max(0.0, time.time() - millis / 1000) for topic, millis in lag.oldest.items()}
    topics = sorted((topic for topic, count in lag.topics.items() if count), key=lambda at: (-ages.get(at, 0.0), at))
    several = len(lag.topics) > 1
    named = [(f"{at} " if several else "") + (_age(ages[at]) if at in ages else "unknown") for at in topics]
    return f"{text}, the oldest waits {_named(named)}" if ages else f"{text}, the age of the oldest is unknown"


def _unknown_lag(lag: Lag, planned: Mapping[str, int] | None) -> str:
    """Return that the lag is unknown, why, and what was left when the batch was planned."""
    why = f"{NO_TABLE}: log_progress(spark, tables=[...])" if lag.unknown == NO_TABLE else lag.unknown
    least = sum((planned or {}).values())
    if not least:
        return f"lag unknown ({why})"
    return f"lag at least {least} records{_farthest(planned or {})} when it was planned, now unknown ({why})"


def _farthest(partitions: Mapping[str, int]) -> str:
    """Return the partitions with the largest lag."""
    ordered = sorted(((behind, name) for name, behind in partitions.items() if behind), key=lambda p: (-p[0], p[1]))
    return f" ({_named([f'{name} {behind}' for behind, name in ordered])})" if ordered else ""


def _age(seconds: float) -> str:
    """Return a time in seconds, or in hours and minutes if it is long."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _named(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
