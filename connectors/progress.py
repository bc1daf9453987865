"""A listener that logs the progress of streaming queries: records, duration, lag, and the counts of their rows.

    listener = log_progress(spark)      each micro-batch is a line of the logger `kvformat.progress`
    ...
    spark.streams.removeListener(listener)

The lag is computed from the offsets in the query's progress. The lag of a consumer group is meaningless, because Spark
does not commit offsets to a group.
"""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvformat.connectors.reader.ranges import RANGES, TopicOffsets
from kvformat.registry.contract.errors import MissingExtraError

try:
    from pyspark.sql.streaming.listener import StreamingQueryListener
except ImportError as cause:
    raise MissingExtraError("a listener needs PySpark 4.1 or newer", extra="spark") from cause

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
_MOST_PARTITIONS = 5  # in a line; those with the largest lag
_MOST_CHARACTERS = 300  # of the error that ended a query
_ALWAYS = ("rows", "bad")


def log_progress(spark: SparkSession, *, logger: logging.Logger | None = None) -> ProgressListener:
    """Log the progress of all queries of a session from now on; returns the listener, for `removeListener`.

    `logger` is `logging.getLogger("kvformat.progress")` by default. Lines have the level INFO, or WARNING if a
    micro-batch had bad records or found new partitions of a topic, or ERROR if a query failed. Counts come from
    `observe_records` in the query; zeros are left out, except for `rows` and `bad`. Works in classic sessions and with
    Spark Connect, where the listener runs in the client.
    """
    listener = ProgressListener(LOGGER if logger is None else logger)
    spark.streams.addListener(listener)
    return listener


class ProgressListener(StreamingQueryListener):
    """The listener that `log_progress` adds to a session."""

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
        warn = any(count.get("bad") for count in counts.values()) or _grown(event.progress)
        self._logger.log(logging.WARNING if warn else logging.INFO, "%s", described(event.progress))

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


def described(progress: StreamingQueryProgress) -> str:
    """Describe a micro-batch in one line."""
    took = (progress.batchDuration or 0) / 1000
    parts = [f"{_records(progress)} records in {took:.1f} s"]
    lags = [lag for source in progress.sources if (lag := lag_of(source.endOffset, source.latestOffset)) is not None]
    if lags:
        parts.append(_lag_described({name: behind for lag in lags for name, behind in lag.items()}))
    if grown := _grown(progress):
        parts.append(f"new partitions {_named(grown)}: keys may have moved to others")
    for name, counts in observed_counts(progress).items():
        shown = [f"{key} {count}" for key, count in counts.items() if count or key in _ALWAYS]
        parts.append(f"{name}: {', '.join(shown)}")
    return f"query {progress.name or progress.id}, batch {progress.batchId}: {'; '.join(parts)}"


def _records(progress: StreamingQueryProgress) -> int:
    """Return the number of records; of offsets, if the rows of the stream are their ranges (ingestion)."""
    read = [(_ranges(source.startOffset), _ranges(source.endOffset)) for source in progress.sources]
    counted = [end - (start or 0) for start, end in read if end is not None]
    return sum(counted) if counted else progress.numInputRows or 0


def _ranges(text: str | None) -> int | None:
    """Return how many offsets a stream of ranges has read so far; None for another stream."""
    offsets = _parsed(text)
    return offsets.get(RANGES) if isinstance(offsets, dict) else None


def _lag_described(lag: Mapping[str, int]) -> str:
    farthest = sorted(((behind, name) for name, behind in lag.items() if behind), key=lambda pair: (-pair[0], pair[1]))
    named = _named([f"{name} {behind}" for behind, name in farthest])
    return f"lag {sum(lag.values())} records" + (f" ({named})" if farthest else "")


def _named(partitions: Sequence[str]) -> str:
    """Return the first partitions, and the number of the others."""
    more = f" and {len(partitions) - _MOST_PARTITIONS} more" if len(partitions) > _MOST_PARTITIONS else ""
    return ", ".join(partitions[:_MOST_PARTITIONS]) + more


def lag_of(end: str | None, latest: str | None) -> dict[str, int] | None:
    """Return the lag of each partition (`orders-0`) in offsets; None if the source is not Kafka.

    `end` has the offsets after the micro-batch, `latest` the latest offsets when it was planned, as JSON of a progress.
    """
    ends, last = _offsets(end), _offsets(latest)
    if ends is None or last is None:
        return None
    return {at: max(0, offset - ends.get(at, 0)) for at, offset in last.items()}


def _grown(progress: StreamingQueryProgress) -> list[str]:
    """Return the partitions that were added to topics since the last micro-batch."""
    return [at for source in progress.sources for at in new_partitions(source.startOffset, source.endOffset)]


def new_partitions(start: str | None, end: str | None) -> list[str]:
    """Return the partitions (`orders-3`) that a micro-batch found, of topics that were already known.

    `start` and `end` are the offsets before and after the micro-batch, as JSON of a progress.
    """
    before, after = _offsets(start), _offsets(end)
    if before is None or after is None:
        return []
    topics = {at.rpartition("-")[0] for at in before}
    return [at for at in after if at not in before and at.rpartition("-")[0] in topics]


def _offsets(text: str | None) -> dict[str, int] | None:
    """Parse offsets by partition; None if they are not those of Kafka."""
    try:
        offsets = TopicOffsets.from_json(_parsed(text)).offsets
        return {f"{topic}-{number}": offset for (topic, number), offset in offsets.items()}
    except (ValueError, AttributeError, TypeError):
        return None


def _parsed(text: str | None) -> Any:
    """Parse an offset; a listener of Spark Connect 4.1 gets it as the text of a Python dictionary."""
    try:
        return ast.literal_eval(text) if text and text.startswith("{'") else json.loads(text or "")
    except (ValueError, SyntaxError):
        return None


def observed_counts(progress: StreamingQueryProgress) -> dict[str, dict[str, Any]]:
    """Return the observed numbers of a progress, by the name of the observation.

    The records of a schema have the name `schema <id>`.
    """
    observed: Iterable[tuple[str, Any]] = (progress.observedMetrics or {}).items()
    return {name: dict(_numbers(row)) for name, row in observed}


def _numbers(row: Any) -> Iterator[tuple[str, int]]:
    for key, value in _members(row):
        if isinstance(value, int):
            yield key, value
        elif key == "schemas":
            for schema in value:
                known = dict(_members(schema))
                yield f"schema {known['id']}", known["records"]


def _members(row: Any) -> Iterable[tuple[str, Any]]:
    """Names and values of a row; a query of Spark Connect gives both apart, as `values` and `schema`."""
    members: dict[str, Any] = row if isinstance(row, dict) else row.asDict()
    if members.keys() == {"values", "schema"}:
        return zip((field["name"] for field in members["schema"]["fields"]), members["values"], strict=True)
    return members.items()
