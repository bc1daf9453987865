"""The offsets that a table reads, as numbers: in a batch, or in the next micro-batch of a stream.

    plan = OffsetPlan(kv)
    plan.batch()                            the ranges of a batch
    plan.initial(), plan.latest(start)      where a stream begins, and up to where it can read now
    plan.between(start, end)                the ranges of a micro-batch, and the records that were lost
    plan.unread(start)                      the ranges that a stream has not read yet

offsets.py has the modes of Flink, which Spark's Kafka source follows, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvformat.connectors import brokers
from kvformat.connectors.broker_offsets import BrokerOffsets, Partition, shown
from kvformat.connectors.offsets import ending, resolved, starting
from kvformat.connectors.reader.ranges import PartitionRange, TopicOffsets
from kvformat.registry.key_value_format import KeyValueFormat


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """The ranges of partitions that a batch reads, empty ones left out, and notes by option of the table.

    `losses` are sentences on records that the batch should read, and that are not there any more.
    """

    ranges: tuple[PartitionRange, ...]
    notes: Mapping[str, str] = field(default_factory=dict)
    losses: tuple[str, ...] = ()


class OffsetPlan:
    """The start and end offsets of a table as numbers. Each method asks the brokers anew, with the same client.

    The methods raise `OptionError` for modes that are not supported and for a missing topic, `BrokerError` if no broker
    answers. The constructor raises `MissingExtraError` without confluent-kafka.
    """

    def __init__(self, kv: KeyValueFormat) -> None:
        self._kv, self._client = kv, brokers.admin(kv.options)

    def _ask(self) -> BrokerOffsets:
        return BrokerOffsets(self._kv, self._client, ids=True)

    def batch(self) -> BatchOffsets:
        """Return the ranges of a batch, from `scan.startup.*` to `scan.bounded.*`, at most to the last record.

        With `isolation.level` `read_committed` they end at the last stable offset, before open transactions.
        """
        broker_offsets = self._ask()
        first, last = starting(broker_offsets, streaming=False), ending(broker_offsets)
        start, end, most = resolved(broker_offsets, first), resolved(broker_offsets, last), broker_offsets.end()
        ranges = [PartitionRange(*at, start[at], min(end[at], most[at])) for at in broker_offsets.partitions]
        return BatchOffsets(_with_records(ranges), {**first.notes, **last.notes})

    def at(self, timestamp: int) -> Mapping[Partition, int]:
        """Return the offset of the first record of each partition that is not older, otherwise its end."""
        return self._ask().at(timestamp)

    def newest(self, count: int) -> tuple[PartitionRange, ...]:
        """Return ranges of at most `count` offsets at the end of each partition."""
        broker_offsets = self._ask()
        first, end = broker_offsets.first(), broker_offsets.end()
        return _with_records(
            [PartitionRange(*at, max(first[at], end[at] - count), end[at]) for at in broker_offsets.partitions]
        )

    def initial(self) -> TopicOffsets:
        """Return the offsets at which a stream without a checkpoint starts, by `scan.startup.*`."""
        broker_offsets = self._ask()
        return TopicOffsets(
            resolved(broker_offsets, starting(broker_offsets, streaming=True)), broker_offsets.topic_ids
        )

    def latest(self, start: TopicOffsets) -> TopicOffsets:
        """Return the offsets up to which a stream that has read to `start` can read now.

        They are not before `start`, which may be in an open transaction, unless the partition has lost records.
        """
        return _latest(self._ask(), start)

    def between(self, start: TopicOffsets, end: TopicOffsets) -> BatchOffsets:
        """Return the ranges from `start` to `end`, as far as their records are there, and what was lost.

        `end` is a result of `latest`. A partition that `start` does not have begins at its oldest record. Lost are
        records that the brokers deleted, topics that were deleted or created again, and partitions that are not there.
        """
        return _between(self._ask(), start, end)

    def unread(self, start: TopicOffsets) -> tuple[PartitionRange, ...]:
        """Return the ranges of offsets that a stream that has read to `start` has not read, if their records are there.

        `start` may be that of Spark's Kafka source, which does not note the ids of topics.
        """
        broker_offsets = BrokerOffsets(self._kv, self._client, ids=bool(start.topic_ids))
        return _between(broker_offsets, start, _latest(broker_offsets, start)).ranges

    def topic_ids(self) -> Mapping[str, str]:
        """Return the ids of the topics."""
        return self._ask().topic_ids


def _latest(broker_offsets: BrokerOffsets, start: TopicOffsets) -> TopicOffsets:
    ends, last, ids = broker_offsets.end(), broker_offsets.last(), broker_offsets.topic_ids
    for at, begin in start.offsets.items():
        if at in ends and ends[at] < begin <= last[at] and start.topic_ids.get(at[0]) == ids.get(at[0]):
            ends[at] = begin
    return TopicOffsets(ends, ids)


def _between(broker_offsets: BrokerOffsets, start: TopicOffsets, end: TopicOffsets) -> BatchOffsets:
    first, last = broker_offsets.first(), broker_offsets.last()
    ranges, losses = [], []
    for at in sorted({**start.offsets, **end.offsets}):
        stop = end.offsets.get(at)
        if at not in first or stop is None:
            losses.append(f"{shown([at])} is not there any more, with its records from {start.offsets.get(at, 0)}")
            continue
        if end.topic_ids.get(at[0]) != broker_offsets.topic_ids.get(at[0]):
            losses.append(f"{shown([at])}: {_CREATED_AGAIN}, with the records up to {stop}")
            continue
        begin, told = _begin(at, start, end, oldest=first[at], newest=last[at])
        losses += told
        ranges.append(PartitionRange(*at, begin, min(stop, last[at])))
    return BatchOffsets(_with_records(ranges), losses=tuple(losses))


_CREATED_AGAIN = "the topic was deleted and created again"


def _begin(
    at: Partition, start: TopicOffsets, end: TopicOffsets, *, oldest: int, newest: int
) -> tuple[int, tuple[str, ...]]:
    """Return the first offset of a partition that a micro-batch can read, and what was lost before it."""
    name, begin, stop = shown([at]), start.offsets.get(at), end.offsets[at]
    if begin is None:
        told = f"{name} is new, and its first records, up to offset {oldest}, are deleted"
        return oldest, (told,) * bool(oldest)
    if start.topic_ids.get(at[0]) != end.topic_ids.get(at[0]):
        return oldest, (f"{name}: {_CREATED_AGAIN}, with the records from {begin}; the new ones begin at {oldest}",)
    if max(begin, stop) > newest or begin > stop:
        told = f"{name} ends at offset {newest}, but {max(begin, stop)} was there: its last records are lost"
        if at[0] not in start.topic_ids:  # brokers before Kafka 2.8: most probably another topic of this name
            return oldest, (f"{told}, or {_CREATED_AGAIN}",)
        return min(begin, stop), (told,)
    if begin < min(oldest, stop):
        return oldest, (f"{name}: the records from offset {begin} to {min(oldest, stop)} are deleted",)
    return begin, ()


def _with_records(ranges: list[PartitionRange]) -> tuple[PartitionRange, ...]:
    return tuple(partition for partition in ranges if partition.count)
