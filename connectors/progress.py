"""A listener that logs what streaming queries do: records, speed, lag behind the topics, and the counts of their rows.

    listener = log_progress(spark)      each micro-batch is a line of the logger `kvformat.progress`
    ...
    spark.streams.removeListener(listener)

The lag is that of the query, from the offsets in its progress. The lag of a consumer group says nothing, as Spark
commits to none.
"""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvformat.registry.contract.errors import MissingExtraError

try:
    from pyspark.sql.streaming.listener import StreamingQueryListener
except ImportError as cause:
    raise MissingExtraError("a listener needs PySpark 4.1 or newer: pip install 'kvformat[spark]'") from cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

LOGGER = logging.getLogger("kvformat.progress")
_MOST_PARTITIONS = 5  # so many are named; of a lag, those that are the farthest behind
_MOST_CHARACTERS = 300  # of what ended a query
_ALWAYS = ("rows", "bad")


def log_progress(spark: SparkSession, *, logger: logging.Logger | None = None) -> ProgressListener:
    """Log the progress of all queries of a session from now on; returns the listener, for `removeListener`.

    `logger` is `logging.getLogger("kvformat.progress")` unless another one is given. Lines are of level INFO, WARNING
    where a micro-batch had bad records or found new partitions of a topic, ERROR where a query failed. Counts are those
    of `observe_records`, wherever the query has them; those that are 0 are left out, but for `rows` and `bad`. Works in
    classic sessions and with Spark Connect, where the listener runs in the client.
    """
    listener = ProgressListener(LOGGER if logger is None else logger)
    spark.streams.addListener(listener)
    return listener


class ProgressListener(StreamingQueryListener):
    """What `log_progress` adds to a session."""

    def __init__(self, logger: logging.Logger = LOGGER) -> None:
        self._logger = logger
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Log that a query has started."""
        name = self._names[str(event.runId)] = event.name or str(event.id)
        self._logger.info("query %s: started", name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Log a micro-batch."""
        counts = observed_counts(event.progress)
        warn = any(one.get("bad") for one in counts.values()) or _grown(event.progress)
        self._logger.log(logging.WARNING if warn else logging.INFO, "%s", described(event.progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Log nothing: there was no micro-batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Log the end of a query, and of a failure the first line."""
        name = self._names.pop(str(event.runId), str(event.id))
        if event.exception is None:
            self._logger.info("query %s: ended", name)
        else:
            first = next(iter(event.exception.strip().splitlines()), "")
            self._logger.error("query %s: failed: %s", name, first[:_MOST_CHARACTERS])


def described(progress: StreamingQueryProgress) -> str:
    """A micro-batch in one line."""
    took = (progress.batchDuration or 0) / 1000
    parts = [f"{progress.numInputRows or 0} records in {took:.1f} s"]
    lags = [lag for source in progress.sources if (lag := lag_of(source.endOffset, source.latestOffset)) is not None]
    if lags:
        parts.append(_lag_described({name: behind for lag in lags for name, behind in lag.items()}))
    if grown := _grown(progress):
        parts.append(f"new partitions {_named(grown)}: keys may have moved to others")
    for name, counts in observed_counts(progress).items():
        shown = [f"{key} {count}" for key, count in counts.items() if count or key in _ALWAYS]
        parts.append(f"{name}: {', '.join(shown)}")
    return f"query {progress.name or progress.id}, batch {progress.batchId}: {'; '.join(parts)}"


def _lag_described(lag: Mapping[str, int]) -> str:
    farthest = sorted(((behind, name) for name, behind in lag.items() if behind), key=lambda one: (-one[0], one[1]))
    named = _named([f"{name} {behind}" for behind, name in farthest])
    return f"lag {sum(lag.values())} records" + (f" ({named})" if farthest else "")


def _named(partitions: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(partitions) - _MOST_PARTITIONS} more" if len(partitions) > _MOST_PARTITIONS else ""
    return ", ".join(partitions[:_MOST_PARTITIONS]) + more


def lag_of(end: str | None, latest: str | None) -> dict[str, int] | None:
    """How many offsets each partition is behind (`orders-0`), None for a source whose offsets are not those of Kafka.

    `end` is where the micro-batch ended, `latest` what there was when it was planned, as JSON of a progress.
    """
    ends, last = _offsets(end), _offsets(latest)
    if ends is None or last is None:
        return None
    return {at: max(0, offset - ends.get(at, 0)) for at, offset in last.items()}


def _grown(progress: StreamingQueryProgress) -> list[str]:
    """The partitions that topics got since the micro-batch before."""
    return [at for source in progress.sources for at in new_partitions(source.startOffset, source.endOffset)]


def new_partitions(start: str | None, end: str | None) -> list[str]:
    """The partitions that a micro-batch found in topics that the one before knew with fewer of them (`orders-3`).

    `start` and `end` are where the micro-batch began and ended, as JSON of a progress. A new topic is not among them.
    """
    before, after = _offsets(start), _offsets(end)
    if before is None or after is None:
        return []
    topics = {at.rpartition("-")[0] for at in before}
    return [at for at in after if at not in before and at.rpartition("-")[0] in topics]


def _offsets(text: str | None) -> dict[str, int] | None:
    """Offsets by partition; a listener of Spark Connect 4.1 is given them as the text of a Python dictionary."""
    try:
        found = ast.literal_eval(text) if text and text.startswith("{'") else json.loads(text or "")
        pairs = [(topic, number, at) for topic, numbers in found.items() for number, at in numbers.items()]
        return {f"{topic}-{int(number)}": int(at) for topic, number, at in pairs}
    except (ValueError, SyntaxError, AttributeError, TypeError):
        return None


def observed_counts(progress: StreamingQueryProgress) -> dict[str, dict[str, Any]]:
    """The numbers of a progress that were observed, by the name of the observation."""
    observed: Iterable[tuple[str, Any]] = (progress.observedMetrics or {}).items()
    return {name: {key: n for key, n in _members(row) if isinstance(n, int)} for name, row in observed}


def _members(row: Any) -> Iterable[tuple[str, Any]]:
    """Names and values of a row; a query of Spark Connect gives both apart, as `values` and `schema`."""
    found: dict[str, Any] = row.asDict()
    if found.keys() == {"values", "schema"}:
        return zip((field["name"] for field in found["schema"]["fields"]), found["values"], strict=True)
    return found.items()
