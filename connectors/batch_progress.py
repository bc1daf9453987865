"""A finished micro-batch in numbers, from the progress of its query: records, seconds, lag, and counts of rows.

A progress has the offsets of the sources, and what `observe_records` counts. The brokers are asked for the lag. The
progress only has the latest offsets of the moment when the batch was planned, and none in the first batch after a
restart.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvformat.connectors.batch_tallies import TableTally, told
from kvformat.connectors.lag import Lag, LagWatch
from kvformat.connectors.reader.ranges import RANGES, TopicOffsets
from kvformat.registry.streams.changes import OBSERVED

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

INGESTION = "ingestion"
"""The name of the counts of an ingestion, whose bad records may belong to no table."""


@dataclass(frozen=True)
class BatchProgress:
    """A finished micro-batch.

    query: the name of the query, or its id. lag: that of its topics after the batch; None if no source is Kafka.
    planned: the records of each partition that were left for later batches when this one was planned, as far as Spark
    says it. new_partitions: those that were added to known topics. counts: what was counted, by name of the observation
    or the table. tables: those that an ingestion wrote.
    """

    query: str
    batch: int
    records: int
    seconds: float
    lag: Lag | None = None
    planned: Mapping[str, int] | None = None
    new_partitions: tuple[str, ...] = ()
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    tables: Mapping[str, TableTally] = field(default_factory=dict)

    @classmethod
    def of(cls, progress: StreamingQueryProgress, watch: LagWatch) -> BatchProgress:
        """Return the numbers of a progress; asks the brokers for the lag."""
        sources, tally = progress.sources, told(str(progress.id), progress.batchId)
        planned = [lag for source in sources if (lag := lag_of(source.endOffset, source.latestOffset)) is not None]
        return cls(
            progress.name or str(progress.id),
            progress.batchId,
            _records(progress),
            (progress.batchDuration or 0) / 1000,
            _lag([source.endOffset for source in sources], watch),
            {at: behind for lag in planned for at, behind in lag.items()} if planned else None,
            tuple(at for source in sources for at in new_partitions(source.startOffset, source.endOffset)),
            observed_counts(progress) | ({} if tally is None else {INGESTION: tally.counts}),
            {} if tally is None else tally.tables,
        )


def _lag(ends: Iterable[str | None], watch: LagWatch) -> Lag | None:
    """Return the lag of all sources of a query together."""
    lags = [watch.after(end) for text in ends if (end := _topic_offsets(text)) is not None and end.offsets]
    if not lags:
        return None
    unknown = next((lag.unknown for lag in lags if lag.unknown), "")
    return Lag(
        {at: behind for lag in lags for at, behind in lag.partitions.items()},
        {topic: millis for lag in lags for topic, millis in lag.oldest.items()},
        unknown,
    )


def _records(progress: StreamingQueryProgress) -> int:
    """Return the number of records; of offsets, if the rows of the stream are their ranges (ingestion)."""
    read = [(_ranges(source.startOffset), _ranges(source.endOffset)) for source in progress.sources]
    counted = [end - (start or 0) for start, end in read if end is not None]
    return sum(counted) if counted else progress.numInputRows or 0


def _ranges(text: str | None) -> int | None:
    """Return how many offsets a stream of ranges has read so far; None for another stream."""
    offsets = _parsed(text)
    return offsets.get(RANGES) if isinstance(offsets, dict) else None


def lag_of(end: str | None, latest: str | None) -> dict[str, int] | None:
    """Return the records that a batch left when it was planned, by partition (`orders-0`); None if it is not Kafka.

    `end` has the offsets after the micro-batch, `latest` the latest offsets when it was planned, as JSON of a progress.
    """
    ends, last = _offsets(end), _offsets(latest)
    if ends is None or last is None:
        return None
    return {at: max(0, offset - ends.get(at, 0)) for at, offset in last.items()}


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
    """Return offsets by the name of the partition; None if they are not those of Kafka."""
    ends = _topic_offsets(text)
    return None if ends is None else {f"{topic}-{number}": offset for (topic, number), offset in ends.offsets.items()}


def _topic_offsets(text: str | None) -> TopicOffsets | None:
    """Parse offsets; None if they are not those of Kafka."""
    try:
        return TopicOffsets.from_json(_parsed(text))
    except (ValueError, AttributeError, TypeError):
        return None


def _parsed(text: str | None) -> Any:
    """Parse an offset; a listener of Spark Connect 4.1 gets it as the text of a Python dictionary."""
    try:
        return ast.literal_eval(text) if text and text.startswith("{'") else json.loads(text or "")
    except (ValueError, SyntaxError):
        return None


def observed_counts(progress: StreamingQueryProgress) -> dict[str, dict[str, Any]]:
    """Return the observed numbers of a progress, by the name of the observation, or of the table that was counted.

    The records of a schema have the name `schema <id>`.
    """
    observed: Iterable[tuple[str, Any]] = (progress.observedMetrics or {}).items()
    return {name.removeprefix(OBSERVED): dict(_numbers(row)) for name, row in observed}


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
    values: dict[str, Any] = row if isinstance(row, dict) else row.asDict()
    if values.keys() == {"values", "schema"}:
        return zip((field["name"] for field in values["schema"]["fields"]), values["values"], strict=True)
    return values.items()
