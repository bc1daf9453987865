"""Ranges of a partition's offsets, and the offsets of whole topics as a stream keeps them in its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Names beside the topics. A topic can't have them, because of their `$`.
TOPIC_IDS = "$topic_ids"
"""The ids of the topics."""
RANGES = "$ranges"
"""A number, for a stream whose rows are ranges: how many offsets it has read so far."""
INITIAL = "$initial"
"""True in the offsets at which a stream without a checkpoint starts."""
STARTED = "$started"
"""In the end of a stream's first micro-batch: the offsets at which the stream started."""


@dataclass(frozen=True, slots=True, order=True)
class PartitionRange:
    """The offsets of a partition from `start` to `end`, without `end`.

    Not every offset of a range has a record: compaction, aborted transactions and control records leave gaps.
    """

    topic: str
    partition: int
    start: int
    end: int

    @property
    def count(self) -> int:
        """The number of offsets, 0 if the end is before the start."""
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}, offsets {self.start} to {self.end}"


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """An offset for each partition, `(topic, number)`, and the id of each topic, as far as brokers have ids.

    A topic that is deleted and created again has another id, so its offsets are not those of the topic before.
    """

    offsets: Mapping[tuple[str, int], int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the offsets in the form of Spark's Kafka source, with the ids beside the topics.

        `{"orders": {"0": 17, "1": 4}, "$topic_ids": {"orders": "8Jq3..."}}`
        """
        return {**by_topic(self.offsets), TOPIC_IDS: dict(sorted(self.topic_ids.items()))}

    @classmethod
    def from_json(cls, members: Mapping[str, Mapping[str, Any]]) -> TopicOffsets:
        """Return the offsets of a JSON object that `as_json`, or Spark's Kafka source, has made."""
        topics = {topic: numbers for topic, numbers in members.items() if not topic.startswith("$")}
        offsets = {(topic, int(n)): int(at) for topic, numbers in topics.items() for n, at in numbers.items()}
        return cls(offsets, dict(members.get(TOPIC_IDS, {})))


def by_topic(offsets: Mapping[tuple[str, int], int]) -> dict[str, dict[str, int]]:
    """Return offsets in the form of Spark's Kafka source: by topic, and by the number of the partition as text."""
    numbers: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        numbers.setdefault(topic, {})[str(number)] = offset
    return numbers
