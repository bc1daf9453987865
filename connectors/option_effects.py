"""The effect of each option of a table on reading and writing with Spark, for `explain`, warnings and tests.

Every option of the connector must be listed. A missing one is a bug, not an option without effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["mapped", "decoded", "warned", "none"]


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of an option: `mapped` to Spark's source or sink, `decoded` by the formats, `warned`, or `none`.

    `why` names Spark's option or the reason; for `warned` it is the text of the warning.
    """

    kind: Kind
    why: str


_WATERMARK = Effect("warned", "Spark has one watermark for a whole query, the slowest of its sources")
_OF_FORMATS = Effect("decoded", "defines key and value")
_OF_WRITING = Effect("none", "only for writing")
_OF_READING = Effect("none", "only for reading")
_GENERAL = {
    "connector": Effect("decoded", "decides between inserts and upserts"),
    "properties.bootstrap.servers": Effect("mapped", "kafka.bootstrap.servers"),
    "key.format": _OF_FORMATS,
    "key.fields": _OF_FORMATS,
    "key.fields-prefix": _OF_FORMATS,
    "value.format": _OF_FORMATS,
    "value.fields-prefix": _OF_FORMATS,
    "value.fields-include": _OF_FORMATS,
    "format": _OF_FORMATS,
    "property-version": Effect("none", "there is only one version of the options"),
}
_SCAN = {
    "topic-pattern": Effect("mapped", "subscribePattern, which must match the whole name"),
    "properties.group.id": Effect("mapped", "the group whose committed offsets are used; Spark joins no group"),
    "ingestion.ignore-errors": Effect("decoded", "bad records are dropped"),
    "ingestion.error-tolerance.max-count": Effect("decoded", "this number of bad records is dropped"),
    "scan.startup.mode": Effect("mapped", "startingOffsets, startingTimestamp"),
    "scan.startup.specific-offsets": Effect("mapped", "startingOffsets"),
    "scan.startup.timestamp-millis": Effect("mapped", "startingTimestamp"),
    "scan.bounded.mode": Effect("mapped", "endingOffsets, endingTimestamp"),
    "scan.bounded.specific-offsets": Effect("mapped", "endingOffsets"),
    "scan.bounded.timestamp-millis": Effect("mapped", "endingTimestamp"),
    "scan.topic-partition-discovery.interval": Effect(
        "none", "Spark looks for new partitions before each micro-batch; 0 gives a warning"
    ),
    "scan.parallelism": Effect("mapped", "coalesce before decoding"),
    "scan.header-filter": Effect("mapped", "a filter on headers before decoding"),
    "scan.check.duplicated.group.id": Effect("none", "Spark does not join the group; true gives a warning"),
    "scan.watermark.alignment.group": _WATERMARK,
    "scan.watermark.alignment.max-drift": _WATERMARK,
    "scan.watermark.alignment.update-interval": _WATERMARK,
    "scan.watermark.emit.strategy": Effect("warned", "Spark moves the watermark with each micro-batch"),
    "scan.watermark.emit.on-event.gap": Effect("warned", "Spark moves the watermark with each micro-batch"),
    "scan.watermark.idle-timeout": Effect("warned", "a partition without records does not hold up Spark's watermark"),
}
_GUARANTEE = Effect(
    "mapped", "Spark's sink writes at least once; 'none' gives a warning; 'exactly-once' writes transactions instead"
)
_SINK = {
    "sink.parallelism": Effect("mapped", "repartition by the key after encoding, or coalesce without a key"),
    "sink.buffer-flush.max-rows": Effect("mapped", "of this many records of a task the last of each key is written"),
    "sink.buffer-flush.interval": Effect("mapped", "records wait at most for the end of their micro-batch"),
    "sink.partitioner": Effect("mapped", "'fixed' by Spark's task; otherwise Kafka's client chooses"),
    "sink.delivery-guarantee": _GUARANTEE,
    "sink.semantic": _GUARANTEE,
    "sink.transactional-id-prefix": Effect("mapped", "begins the names of transactions; only for 'exactly-once'"),
    "sink.transaction-naming-strategy": Effect("warned", "a transaction is named after its query and its task"),
}

READING: Mapping[str, Effect] = {
    **_GENERAL,
    "topic": Effect("mapped", "subscribe"),
    **_SCAN,
    **dict.fromkeys(_SINK, _OF_WRITING),
}
WRITING: Mapping[str, Effect] = {
    **_GENERAL,
    "topic": Effect("mapped", "topic"),
    **dict.fromkeys(_SCAN, _OF_READING),
    "topic-pattern": Effect("decoded", "a metadata column names the topic of each row"),
    "properties.group.id": Effect("none", "a producer has no group"),
    **_SINK,
}
