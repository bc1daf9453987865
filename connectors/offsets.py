"""Start and end offsets: Flink's startup and bounded modes, as options of Spark's Kafka source or as numbers.

    spark_offsets(kv, streaming=, ...)        Spark's options for the start of reading, and for the end of a batch
    starting(offsets, ...), ending(offsets)   the start and the end, as far as Spark has to know them
    resolved(offsets, bound)                  the start or the end as numbers, of every partition
    checkpoint_lines(spark, place)            what a query has written, from which Spark then continues

Spark does not read the committed offsets of a consumer group, and its list of offsets must name every partition. If a
mode needs either, the brokers are asked when the DataFrame is made, and Spark gets the offsets. All other offsets are
looked up by Spark itself. `OffsetPlan` (offset_plan.py) looks up all of them.
Rules: Flink's `KafkaDynamicSource`, `SpecifiedOffsetsInitializer`, `TimestampOffsetsInitializer`,
`ReaderHandledOffsetsInitializer`, `KafkaPartitionSplitReader`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kvformat.connectors.broker_offsets import GROUP, MOST_NAMED, BrokerOffsets, Partition, shown
from kvformat.connectors.properties import PREFIX
from kvformat.connectors.reader.ranges import by_topic
from kvformat.registry.contract.errors import ConfigurationError, OptionError, listed
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.sql.connector_options import parse_offsets
from kvformat.registry.streams.small_files import note_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESET = f"{PREFIX}auto.offset.reset"
# Special offsets: the end, the beginning, the committed offset of the group. Spark knows the first two.
_LATEST, _EARLIEST, _COMMITTED = -1, -2, -3


@dataclass(frozen=True, slots=True)
class OffsetBound:
    """Start or end of reading: a `word` ("earliest") or a `timestamp` for all partitions, or `offsets` by partition.

    `notes` are notes by option of the table, on what Spark does in another way.
    """

    word: str = ""
    timestamp: int | None = None
    offsets: Mapping[Partition, int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


def mode(kv: KeyValueFormat, side: str) -> str:
    """Return the mode of a side, 'startup' or 'bounded'; an upsert table is always read from its beginning."""
    value: str = kv.connector_options("decode").get(f"scan.{side}.mode", "earliest-offset")
    return value


def needs_brokers(kv: KeyValueFormat, side: str) -> bool:
    """Return whether the mode of a side needs offsets from the brokers."""
    return mode(kv, side) in ("group-offsets", "specific-offsets")


def spark_offsets(
    kv: KeyValueFormat, *, streaming: bool, start: bool = True, end: bool = True
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of Spark's source for the start and the end, and notes by option of the table.

    Raises `OptionError` for modes that Spark does not support, `BrokerError` if no broker answers.
    """
    broker_offsets = BrokerOffsets(kv)
    first = starting(broker_offsets, streaming=streaming) if start else None
    last = ending(broker_offsets) if end else None
    if first is not None and last is not None:
        first, last = _end_after_start(broker_offsets, first, last)
    return {**_options("starting", first), **_options("ending", last)}, {
        **(first.notes if first else {}),
        **(last.notes if last else {}),
    }


def check_group_is_unused(kv: KeyValueFormat) -> None:
    """Raise `ConfigurationError` if the consumer group of a table has members.

    The brokers are asked. Raises `BrokerError`, `MissingExtraError`.
    """
    broker_offsets = BrokerOffsets(kv)
    members = broker_offsets.members()
    if members:
        raise ConfigurationError(
            f"the group '{broker_offsets.group}' has {len(members)} members, and 'scan.check.duplicated.group.id' is "
            f"true: {listed(members)}. Stop these consumers, set another '{GROUP}', or set the option to false"
        )


def _end_after_start(
    broker_offsets: BrokerOffsets, start: OffsetBound, end: OffsetBound
) -> tuple[OffsetBound, OffsetBound]:
    """Move ends before their start to the start: Flink then reads nothing of the partition, but Spark fails."""
    if start.timestamp is not None and end.timestamp is not None:
        return start, replace(end, timestamp=max(start.timestamp, end.timestamp))
    if start.timestamp is not None and end.offsets:
        start = OffsetBound(offsets=broker_offsets.at(start.timestamp))
    if end.timestamp is not None and start.offsets:
        end = OffsetBound(offsets=broker_offsets.at(end.timestamp))
    if start.offsets and end.offsets:
        ends = {at: n if n == _LATEST else max(n, start.offsets[at]) for at, n in end.offsets.items()}
        end = replace(end, offsets=ends)
    return start, end


def _options(side: str, bound: OffsetBound | None) -> dict[str, str]:
    if bound is None:
        return {}
    if bound.timestamp is None:
        return {f"{side}Offsets": json.dumps(by_topic(bound.offsets)) if bound.offsets else bound.word}
    # As in Flink, a partition with only older records is read from its end.
    older = {"startingOffsetsByTimestampStrategy": "latest"} if side == "starting" else {}
    return {f"{side}Timestamp": str(bound.timestamp), **older}


# --- where to begin ------------------------------------------------------------------------------------------


def starting(broker_offsets: BrokerOffsets, *, streaming: bool) -> OffsetBound:
    """Return the start of reading. Raises `OptionError` for a start that a batch does not have, or without one."""
    name, values = mode(broker_offsets.kv, "startup"), broker_offsets.kv.connector_options("decode")
    if name == "latest-offset":
        if not streaming:
            raise OptionError(
                "'scan.startup.mode' = 'latest-offset': a batch that starts at the end reads nothing. Read a stream, "
                "or start elsewhere: with_options({'scan.startup.mode': 'earliest-offset'}), or 'timestamp' with "
                "'scan.startup.timestamp-millis'",
                option="scan.startup.mode",
            )
        return OffsetBound("latest")
    if name == "timestamp":
        return OffsetBound(timestamp=values["scan.startup.timestamp-millis"])
    if name == "group-offsets":
        return _from_committed(broker_offsets, streaming=streaming)
    if name == "specific-offsets":
        return _from_specific(broker_offsets, streaming=streaming)
    return OffsetBound("earliest")


def _from_committed(broker_offsets: BrokerOffsets, *, streaming: bool) -> OffsetBound:
    """Start at the committed offsets; without one, or if its record is deleted, `auto.offset.reset` decides."""
    first, last, committed = broker_offsets.first(), broker_offsets.last(), broker_offsets.committed
    reset = broker_offsets.kv.options.get(RESET, "none").lower()
    begin: dict[Partition, int] = {}
    lost: dict[Partition, str] = {}
    for at in broker_offsets.partitions:
        offset = committed.get(at)
        if offset is not None and first[at] <= offset <= last[at]:
            begin[at] = offset
        elif reset == "none":
            lost[at] = "nothing" if offset is None else f"{offset}, which is not in {first[at]} to {last[at]}"
        elif reset == "earliest":
            begin[at] = _EARLIEST
        else:
            begin[at] = _LATEST if streaming else last[at]
    if lost:
        told = "; ".join(f"{shown([at])}: {why}" for at, why in list(lost.items())[:MOST_NAMED])
        more = f"; and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
        raise OptionError(
            f"'scan.startup.mode' = 'group-offsets': Undefined offset with no reset policy for partitions. The group "
            f"'{broker_offsets.group}' has committed for {told}{more}. Set '{RESET}' = 'earliest' or "
            "'latest', or another 'scan.startup.mode'. A stream that ran before continues from its checkpoint: "
            "read_stream(spark, checkpoint_location=...)",
            option=RESET,
        )
    return OffsetBound("earliest", offsets=begin)


def _from_specific(broker_offsets: BrokerOffsets, *, streaming: bool) -> OffsetBound:
    """Start at the given offsets; other partitions start at the committed offset, or at the beginning."""
    key = "scan.startup.specific-offsets"
    specific = _specific_offsets(broker_offsets, key)
    first, last = broker_offsets.first(), broker_offsets.last()
    begin: dict[Partition, int] = {}
    for at in broker_offsets.partitions:
        offset = specific.get(at)
        if offset is None or offset == _COMMITTED:
            offset = broker_offsets.committed.get(at)
        if offset == _LATEST:
            begin[at] = _LATEST if streaming else last[at]
        else:
            begin[at] = offset if offset is not None and first[at] <= offset <= last[at] else _EARLIEST
    return OffsetBound("earliest", offsets=begin, notes=_unknown(broker_offsets, key, specific))


def _specific_offsets(broker_offsets: BrokerOffsets, key: str) -> dict[Partition, int]:
    """Return the offsets of an option by partition of the table's only topic."""
    values = broker_offsets.kv.connector_options("decode")
    specific = {(values["topic"][0], n): offset for n, offset in parse_offsets(key, values[key]).items()}
    allowed = (_LATEST, _COMMITTED) if "bounded" in key else (_LATEST, _EARLIEST, _COMMITTED)
    for at, offset in specific.items():
        if offset < 0 and offset not in allowed:
            raise OptionError(
                f"option '{key}', partition {at[1]}: {offset} is not an offset. Negative numbers are "
                f"{', '.join(f'{n} ({_MEANING[n]})' for n in allowed)}",
                option=key,
            )
        if offset == _COMMITTED and not broker_offsets.group:
            raise OptionError(
                f"Property group.id is required because partition {shown([at])} is initialized with committed offset "
                f"('{key}'): set '{GROUP}'",
                option=GROUP,
            )
    return specific


_MEANING = {_LATEST: "the end", _EARLIEST: "the beginning", _COMMITTED: "what the group has committed"}


# --- where to end --------------------------------------------------------------------------------------------


def ending(broker_offsets: BrokerOffsets) -> OffsetBound:
    """Return the end of a batch, at most the last record. Raises `OptionError` without one."""
    name, values = mode(broker_offsets.kv, "bounded"), broker_offsets.kv.connector_options("decode")
    if name == "timestamp":
        return OffsetBound(timestamp=values["scan.bounded.timestamp-millis"])
    if name == "group-offsets":
        return _to_committed(broker_offsets)
    if name == "specific-offsets":
        return _to_specific(broker_offsets)
    return OffsetBound("latest")


def _to_committed(broker_offsets: BrokerOffsets) -> OffsetBound:
    committed = broker_offsets.committed
    missing = [at for at in broker_offsets.partitions if at not in committed]
    if missing:
        raise OptionError(
            f"'scan.bounded.mode' = 'group-offsets': Partition {shown(missing)} should stop at committed offset. But "
            f"there is no committed offset of this partition for group {broker_offsets.group}. Choose another "
            "'scan.bounded.mode'",
            option="scan.bounded.mode",
        )
    return _up_to(broker_offsets, committed, "scan.bounded.mode")


def _to_specific(broker_offsets: BrokerOffsets) -> OffsetBound:
    """End at the given offsets; other partitions end at the committed offset, or are not read, as in Flink."""
    key = "scan.bounded.specific-offsets"
    specific = _specific_offsets(broker_offsets, key)
    end: dict[Partition, int] = {}
    for at in broker_offsets.partitions:
        offset = specific.get(at)
        if offset == _COMMITTED and at not in broker_offsets.committed:
            raise OptionError(
                f"option '{key}': Partition {shown([at])} should stop at committed offset. But there is no committed "
                f"offset of this partition for group {broker_offsets.group}",
                option=key,
            )
        if offset is None or offset == _COMMITTED:
            offset = broker_offsets.committed.get(at, broker_offsets.first()[at])
        end[at] = offset
    bound = _up_to(broker_offsets, end, key)
    told = [*_unknown(broker_offsets, key, specific).values(), *bound.notes.values()]
    return replace(bound, notes={key: "; ".join(told)} if told else {})


def _up_to(broker_offsets: BrokerOffsets, end: Mapping[Partition, int], option: str) -> OffsetBound:
    """End a batch at the given offsets, or at the last record: a batch does not wait for records."""
    last = broker_offsets.end()
    beyond = [at for at in broker_offsets.partitions if end[at] > last[at]]
    notes = {}
    if beyond:
        told = "; ".join(f"{shown([at])} ends at {last[at]}, not at {end[at]}" for at in beyond[:MOST_NAMED])
        notes[option] = f"'{option}' is after the last record; Flink waits for records, a batch does not: {told}"
    return OffsetBound("latest", offsets={at: min(end[at], last[at]) for at in broker_offsets.partitions}, notes=notes)


def _unknown(broker_offsets: BrokerOffsets, option: str, partitions: Iterable[Partition]) -> dict[str, str]:
    """Note partitions that an option names and that do not exist; they are ignored, as in Flink."""
    there = set(broker_offsets.partitions)
    missing = [at for at in partitions if at not in there]
    return {option: f"'{option}' names partitions that do not exist: {shown(missing)}"} if missing else {}


# --- offsets as numbers --------------------------------------------------------------------------------------


def resolved(broker_offsets: BrokerOffsets, bound: OffsetBound) -> dict[Partition, int]:
    """Return the offset of each partition at a start or an end."""
    if bound.timestamp is not None:
        return broker_offsets.at(bound.timestamp)
    if not bound.offsets:
        return broker_offsets.first() if bound.word == "earliest" else broker_offsets.end()
    words = {_EARLIEST: broker_offsets.first, _LATEST: broker_offsets.end}
    return {at: words[offset]()[at] if offset in words else offset for at, offset in bound.offsets.items()}


# --- Spark's own offsets -------------------------------------------------------------------------------------


def checkpoint_lines(spark: SparkSession, checkpoint_location: str) -> list[str]:
    """Return lines of the offsets that a query has written to this checkpoint; empty if it has written none.

    With offsets, Spark ignores the options for the start. There are lines of every source of the query.
    """
    if not isinstance(checkpoint_location, str) or not checkpoint_location:
        raise ConfigurationError("checkpoint_location must be a string: the checkpoint folder of the query")
    return [row["value"] for row in note_rows(spark, f"{checkpoint_location}/offsets", "text", "value STRING")]
