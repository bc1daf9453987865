"""Streams of the data source: offsets in Spark's checkpoint, micro-batches of ranges, and Spark's limits for them.

An offset has the form of Spark's own Kafka source, with the ids of the topics beside it. PySpark 4.1 has no limits for
micro-batches, and reads all records at once with the trigger `availableNow`.

Spark asks where a stream without a checkpoint starts before each plan of its first micro-batch, also after a restart,
and keeps only the end of the micro-batch. So that end says where the stream started: at `latest-offset`, each answer
would be another one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kvformat.connectors.brokers import patiently
from kvformat.connectors.data_source.batch import RangesOfTask, check_losses, tasks_of
from kvformat.connectors.data_source.options import SourceOptions
from kvformat.connectors.data_source.rows import rows_of
from kvformat.connectors.offset_plan import OffsetPlan
from kvformat.connectors.offsets import mode
from kvformat.connectors.reader.ranges import INITIAL, RANGES, STARTED, TOPIC_IDS, TopicOffsets
from kvformat.connectors.source import planned
from kvformat.registry.contract.errors import ConfigurationError, KafkaSourceWarning
from kvformat.registry.key_value_format import KeyValueFormat

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    HAS_READ_LIMITS = True
except ImportError:  # PySpark 4.1
    HAS_READ_LIMITS = False

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import types as T

_Answer = TypeVar("_Answer")
_NOTHING = TopicOffsets({})


class _Stream(DataSourceStreamReader):
    """Plans micro-batches on the driver, and reads them in tasks."""

    def __init__(self, kv: KeyValueFormat, options: SourceOptions, schema: T.StructType) -> None:
        for note in planned(kv, streaming=True, ask=False).notes.values():  # raises for a mode of batches
            warnings.warn(f"table '{kv.name}': {note}", KafkaSourceWarning, stacklevel=1)
        self._kv, self._values, self._rows = kv, options.values, rows_of(kv, options, schema)
        self._counts = options.ranges
        self._plan: OffsetPlan | None = None
        self._initial: TopicOffsets | None = None
        self._latest: TopicOffsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_rows": self._rows}  # tasks need nothing else

    def _answer(self, question: Callable[[OffsetPlan], _Answer]) -> _Answer:
        """Ask the brokers, and again while none answers. Raises `BrokerError`."""

        def answer() -> _Answer:
            if self._plan is None:
                self._plan = OffsetPlan(self._kv)
            return question(self._plan)

        return patiently(answer)

    def _topic_offsets(self, offsets: dict[str, Any]) -> TopicOffsets:
        """Return offsets of Spark's checkpoint. Raises `ConfigurationError` for those of Spark's Kafka source."""
        if offsets and TOPIC_IDS not in offsets:
            raise ConfigurationError(
                f"table '{self._kv.name}': the checkpoint has offsets of Spark's Kafka source, and a query can't "
                "change its source. Read with KafkaTable.read_stream(spark, source='spark'), or give the query a new "
                "checkpoint"
            )
        return TopicOffsets.from_json(offsets)

    def _json(self, offsets: TopicOffsets, start: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return offsets for Spark's checkpoint. With ranges as rows, they count the offsets since `start`."""
        members = offsets.as_json()
        if self._counts:
            first = TopicOffsets.from_json(start or members)
            read = sum(max(0, end - _begin(first, offsets, at)) for at, end in offsets.offsets.items())
            members[RANGES] = (start or {}).get(RANGES, 0) + read
        return members

    def initialOffset(self) -> dict[str, Any]:
        """Return the offsets at which a query without a checkpoint starts, always the same ones."""
        if self._initial is None:
            if self._plan is None:
                self._plan = OffsetPlan(self._kv)
            self._initial = self._plan.initial()  # at once, so that the start of a query tells a wrong address
        return {**self._json(self._initial), INITIAL: True}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of a micro-batch. Raises `DataLossError` for lost records, `BrokerError`."""
        first, last = self._topic_offsets(self._first_of(start, end)), self._topic_offsets(end)
        batch = self._answer(lambda plan: plan.between(first, last))
        check_losses(self._kv, self._values, batch)
        tasks = self._kv.connector_options("decode")["scan.parallelism"]
        return tasks_of(batch.ranges, self._values, tasks)

    def _first_of(self, start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
        """Return where a micro-batch begins: the first one where its end says, if it does."""
        first: dict[str, Any] = end.get(STARTED, start) if INITIAL in start else start
        return first

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's ranges."""
        assert isinstance(partition, RangesOfTask)
        return self._rows.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark's checkpoint has the offsets, and no group of Kafka."""

    def stop(self) -> None:
        """Do nothing: the client is closed with the process."""


if HAS_READ_LIMITS:

    class KafkaStreamReader(_Stream, SupportsTriggerAvailableNow):
        """A stream with Spark's limits for micro-batches, and with the trigger `availableNow` in several batches."""

        _until: TopicOffsets | None = None

        def getDefaultReadLimit(self) -> ReadLimit:
            """Return the limit of `maxOffsetsPerTrigger`."""
            most = self._values["maxOffsetsPerTrigger"]
            return ReadMaxRows(most) if most else ReadAllAvailable()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            """Return the end of the next micro-batch: `start` if there are no newer records."""
            first = self._topic_offsets(start)
            self._latest = latest = self._answer(lambda plan: plan.latest(first))
            if self._until is not None:
                latest = up_to(first, latest, self._until)
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            end = latest if most is None else limited(first, latest, most)
            if INITIAL in start:
                return {**self._json(end, start), STARTED: first.as_json()}
            return start if end == first else self._json(end, start)

        def prepareForTriggerAvailableNow(self) -> None:
            """Note the offsets at which the query ends."""
            self._until = self._answer(lambda plan: plan.latest(_NOTHING))

        def reportLatestOffset(self) -> dict[str, Any] | None:
            """Return the newest offsets, as they are known, for the progress of the query."""
            return None if self._latest is None else self._json(self._latest)

else:

    class KafkaStreamReader(_Stream):  # type: ignore[no-redef]
        """A stream of PySpark 4.1, whose micro-batches read all records.

        It asks for the end of the first micro-batch before its start: a stream at `latest-offset` starts at that end.
        """

        def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
            """Return the end of the next micro-batch."""
            return self._json(self._answer(lambda plan: plan.latest(_NOTHING)))

        def _first_of(self, start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
            return end if INITIAL in start and mode(self._kv, "startup") == "latest-offset" else start


def limited(start: TopicOffsets, latest: TopicOffsets, most: int) -> TopicOffsets:
    """Return an end with about `most` offsets after the start, shared by the partitions by their number of records.

    A partition with records gets one at least, so that none waits for ever. The rule is that of Spark's Kafka source.
    """
    waiting = {at: end - _begin(start, latest, at) for at, end in latest.offsets.items()}
    total = sum(count for count in waiting.values() if count > 0)
    if total <= most:
        return latest
    offsets: dict[tuple[str, int], int] = {}
    for at, end in latest.offsets.items():
        count = waiting[at]
        offsets[at] = end if count <= 0 else end - count + min(count, max(1, most * count // total))
    return TopicOffsets(offsets, latest.topic_ids)


def up_to(start: TopicOffsets, latest: TopicOffsets, until: TopicOffsets) -> TopicOffsets:
    """Return the newest offsets, but none after `until`, except where a stream has read further already."""
    offsets = {
        at: min(end, max(until.offsets.get(at, 0), _begin(start, latest, at)))
        for at, end in latest.offsets.items()
        if at in until.offsets or at in start.offsets
    }
    return TopicOffsets(offsets, latest.topic_ids)


def _begin(start: TopicOffsets, latest: TopicOffsets, at: tuple[str, int]) -> int:
    """Return where the next micro-batch begins: at 0 for new partitions, and for a topic that was created again."""
    same = start.topic_ids.get(at[0]) == latest.topic_ids.get(at[0])
    return start.offsets.get(at, 0) if same else 0
