"""How far the streams of this process are behind their topics: the records that a query has not read, and their age.

    watched(kv)                   remember a table whose stream begins: the progress of its query names no brokers
    LagWatch(tables).after(end)   ask the brokers after a micro-batch, for a few seconds at most

The lag is what is in the topics when it is asked for, not what was there when the micro-batch was planned. The age is
that of the oldest record that was not read: its timestamp is read from the topic, one record of each partition.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kvformat.connectors import brokers
from kvformat.connectors.offset_plan import OffsetPlan
from kvformat.connectors.properties import PREFIX
from kvformat.connectors.reader.client_settings import reader_settings
from kvformat.connectors.reader.ranges import PartitionRange, TopicOffsets
from kvformat.connectors.topics import topic_pattern
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.key_value_format import KeyValueFormat

LONGEST: Final = 5.0
"""Seconds that a listener waits for the brokers. The next batch's progress must not wait long after it."""
PAUSE: Final = 30.0
"""Seconds after brokers that did not answer, before they are asked again."""
_LONGEST_FETCH: Final = 2.0  # seconds for the oldest records; the offsets need some of the time, too
_MOST_TABLES: Final = 1000  # tables that a process remembers; a process has few streams
# One record of each partition is needed. A broker sends whole batches of a producer, and at least one.
_ONE_RECORD: Final = {
    "auto.offset.reset": "earliest",  # the oldest record that is still there
    "max.partition.fetch.bytes": "65536",
    "queued.min.messages": "1",
}
NO_TABLE: Final = "no table with these topics was read in this process"
"""The reason of a lag that is unknown because nothing says which brokers have the topics."""


@dataclass(frozen=True, slots=True)
class Lag:
    """The records that a query has not read, by partition (`orders-0`), and the time of the oldest of each topic.

    Times are milliseconds since 1970; a topic whose oldest record is unknown, or that is read to its end, has none.
    unknown: why the brokers were not asked, or did not answer; then there are no numbers.
    """

    partitions: Mapping[str, int] = field(default_factory=dict)
    oldest: Mapping[str, int] = field(default_factory=dict)
    unknown: str = ""

    @property
    def topics(self) -> dict[str, int]:
        """The records by topic."""
        records: dict[str, int] = {}
        for name, count in self.partitions.items():
            topic = name.rpartition("-")[0]
            records[topic] = records.get(topic, 0) + count
        return records


class _UnknownLagError(Exception):
    """The lag can't be asked for; the text says why."""


# --- tables ----------------------------------------------------------------------------------------------------

_known: Guarded[dict[KeyValueFormat, None]] = Guarded(dict)


def watched(kv: KeyValueFormat) -> None:
    """Remember a table whose records are read as a stream, so that listeners can ask its brokers."""
    with _known.use() as known:
        known.pop(kv, None)
        known[kv] = None
        while len(known) > _MOST_TABLES:
            del known[next(iter(known))]


def _tables_of(topics: frozenset[str], tables: Iterable[KeyValueFormat]) -> list[KeyValueFormat]:
    """Return the tables that read exactly these topics, one for each list of brokers, the last one first."""
    by_brokers: dict[str, KeyValueFormat] = {}
    for kv in tables:
        values = kv.connector_options("decode")
        names = values["topic"]
        if names:
            reads = topics == {*names}
        else:
            pattern = topic_pattern(values["topic-pattern"])
            reads = all(map(pattern.matches, topics))
        if reads:
            by_brokers[kv.options[f"{PREFIX}bootstrap.servers"]] = kv
    return [*by_brokers.values()][::-1]


# --- asking ----------------------------------------------------------------------------------------------------


class LagWatch:
    """Asks the brokers how far queries are behind.

    `tables` are looked at first, then those whose streams began in this process.
    """

    def __init__(self, tables: Sequence[KeyValueFormat] = ()) -> None:
        self._tables = tuple(tables)
        self._plans: dict[KeyValueFormat, OffsetPlan] = {}
        self._asking: threading.Thread | None = None
        self._silent: dict[frozenset[str], tuple[float, str]] = {}  # until when topics are not asked for, and why

    def after(self, end: TopicOffsets) -> Lag:
        """Return the lag of a query that has read up to `end`. Takes at most `LONGEST` seconds, and raises nothing."""
        topics = frozenset(topic for topic, _ in end.offsets)
        until, why = self._silent.get(topics, (0.0, ""))
        if time.monotonic() < until:
            return Lag(unknown=why)
        if self._asking is not None and self._asking.is_alive():
            return Lag(unknown="the brokers have not answered the last request yet")
        answers: queue.SimpleQueue[Lag] = queue.SimpleQueue()
        # A client's requests have longer timeouts. A daemon does not keep the process from ending.
        self._asking = threading.Thread(
            target=lambda: answers.put(self._answer(topics, end)), daemon=True, name="kvformat-lag"
        )
        self._asking.start()
        try:
            lag = answers.get(timeout=LONGEST)
            self._asking = None
        except queue.Empty:
            lag = Lag(unknown=f"the brokers did not answer within {LONGEST:g} s")
        if lag.unknown and lag.unknown != NO_TABLE:
            self._silent[topics] = time.monotonic() + PAUSE, lag.unknown
        return lag

    def _answer(self, topics: frozenset[str], end: TopicOffsets) -> Lag:
        try:
            kv = self._table(topics, end)
            ranges = self._plan(kv).unread(end)
            waiting = {f"{at.topic}-{at.partition}": at.count for at in ranges}
            read = {f"{topic}-{number}": 0 for topic, number in end.offsets}
            return Lag(read | waiting, oldest_records(kv, ranges) if ranges else {})
        except _UnknownLagError as error:
            return Lag(unknown=str(error))
        except Exception as error:  # a listener raises nothing
            return Lag(unknown=getattr(error, "reason", None) or str(error) or type(error).__name__)

    def _plan(self, kv: KeyValueFormat) -> OffsetPlan:
        if kv not in self._plans:
            self._plans[kv] = OffsetPlan(kv)
        return self._plans[kv]

    def _table(self, topics: frozenset[str], end: TopicOffsets) -> KeyValueFormat:
        """Return the table of the topics. The ids of topics tell two with the same names apart."""
        with _known.use() as known:
            streams = [*known]
        candidates = _tables_of(topics, self._tables) or _tables_of(topics, streams)
        if not candidates:
            raise _UnknownLagError(NO_TABLE)
        if len(candidates) == 1:
            return candidates[0]
        if end.topic_ids:
            for kv in candidates:
                with contextlib.suppress(Exception):  # the next brokers may answer
                    if self._plan(kv).topic_ids().items() >= end.topic_ids.items():
                        return kv
        raise _UnknownLagError(
            "tables with these topics have different brokers, and the progress does not say which the query reads"
        )


def oldest_records(kv: KeyValueFormat, ranges: Sequence[PartitionRange]) -> dict[str, int]:
    """Return the time of the oldest record of ranges by topic, as far as the brokers send it in time."""
    oldest: dict[str, int] = {}
    for topic, millis in _first_times(kv, ranges):
        oldest[topic] = min(millis, oldest.get(topic, millis))
    return oldest


def _first_times(kv: KeyValueFormat, ranges: Sequence[PartitionRange]) -> Iterator[tuple[str, int]]:
    """Yield the topic and the time of the first record of each range."""
    from confluent_kafka import Consumer, TopicPartition

    settings: dict[str, Any] = reader_settings(kv).for_client() | _ONE_RECORD | {"error_cb": lambda _: None}
    consumer = brokers.make_client(Consumer, settings, kv.options)
    try:
        consumer.assign([TopicPartition(at.topic, at.partition, at.start) for at in ranges])
        waiting = {(at.topic, at.partition) for at in ranges}
        deadline = time.monotonic() + _LONGEST_FETCH
        while waiting and (left := deadline - time.monotonic()) > 0:
            for message in consumer.consume(len(waiting), timeout=min(left, 0.1)):
                place, error = (message.topic(), message.partition()), message.error()
                if place in waiting and (error is None or not error.retriable()):
                    waiting.discard(place)  # at the end of a partition there is an error: markers of transactions
                    kind, millis = message.timestamp()
                    if error is None and kind:
                        yield str(place[0]), millis
    finally:
        consumer.close()
