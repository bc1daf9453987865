"""What becomes of each option of a table when Spark reads or writes it: one table, for `explain`, warnings and tests.

An option of the connector that is not here is a bug, not an option without effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["mapped", "decoded", "warned", "none"]


@dataclass(frozen=True, slots=True)
class Effect:
    """What an option does: `mapped` to Spark's source or sink, `decoded` by the formats, `warned` of, or `none`.

    `why` says what it becomes; of a `warned` one it is the warning.
    """

    kind: Kind
    why: str


_WATERMARK = Effect("warned", "Spark has one watermark for a whole query, the slowest of its sources")
_OF_FORMATS = Effect("decoded", "says what key and value mean")
_OF_WRITING = Effect("none", "it is about writing")
_OF_READING = Effect("none", "it is about reading")
_GENERAL = {
    "connector": Effect("decoded", "says whether the key's rows are inserts or upserts"),
    "properties.bootstrap.servers": Effect("mapped", "kafka.bootstrap.servers"),
    "key.format": _OF_FORMATS,
    "key.fields": _OF_FORMATS,
    "key.fields-prefix": _OF_FORMATS,
    "value.format": _OF_FORMATS,
    "value.fields-prefix": _OF_FORMATS,
    "value.fields-include": _OF_FORMATS,
    "format": _OF_FORMATS,
    "property-version": Effect("none", "options have had one meaning so far"),
}
_SCAN = {
    "topic-pattern": Effect("mapped", "subscribePattern, as a match from end to end"),
    "properties.group.id": Effect("mapped", "the group whose committed offsets count; Spark joins none"),
    "ingestion.ignore-errors": Effect("decoded", "bad records are dropped"),
    "ingestion.error-tolerance.max-count": Effect("decoded", "so many bad records are dropped"),
    "scan.startup.mode": Effect("mapped", "startingOffsets, startingTimestamp"),
    "scan.startup.specific-offsets": Effect("mapped", "startingOffsets"),
    "scan.startup.timestamp-millis": Effect("mapped", "startingTimestamp"),
    "scan.bounded.mode": Effect("mapped", "endingOffsets, endingTimestamp"),
    "scan.bounded.specific-offsets": Effect("mapped", "endingOffsets"),
    "scan.bounded.timestamp-millis": Effect("mapped", "endingTimestamp"),
    "scan.topic-partition-discovery.interval": Effect(
        "none", "Spark looks for new partitions before each micro-batch; 0 is warned of"
    ),
    "scan.parallelism": Effect("mapped", "coalesce before decoding"),
    "scan.header-filter": Effect("mapped", "a filter on headers before decoding"),
    "scan.check.duplicated.group.id": Effect("none", "Spark reads beside a group; true is warned of"),
    "scan.watermark.alignment.group": _WATERMARK,
    "scan.watermark.alignment.max-drift": _WATERMARK,
    "scan.watermark.alignment.update-interval": _WATERMARK,
    "scan.watermark.emit.strategy": Effect("warned", "Spark moves the watermark with each micro-batch"),
    "scan.watermark.emit.on-event.gap": Effect("warned", "Spark moves the watermark with each micro-batch"),
    "scan.watermark.idle-timeout": Effect("warned", "a partition without records does not hold up Spark's watermark"),
}
_SINK = (
    "sink.partitioner",
    "sink.semantic",
    "sink.parallelism",
    "sink.delivery-guarantee",
    "sink.transactional-id-prefix",
    "sink.transaction-naming-strategy",
    "sink.buffer-flush.max-rows",
    "sink.buffer-flush.interval",
)

READING: Mapping[str, Effect] = {
    **_GENERAL,
    "topic": Effect("mapped", "subscribe"),
    **_SCAN,
    **dict.fromkeys(_SINK, _OF_WRITING),
}
#: Those of writing alone, `sink.*`, are in sink.py.
WRITING: Mapping[str, Effect] = {
    **_GENERAL,
    "topic": Effect("mapped", "topic"),
    **dict.fromkeys(_SCAN, _OF_READING),
    "topic-pattern": Effect("decoded", "a row names its topic by metadata"),
    "properties.group.id": Effect("none", "who writes has no group"),
}
