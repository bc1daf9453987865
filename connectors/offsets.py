"""Start and end offsets: Flink's startup and bounded modes as options of Spark's Kafka source.

    spark_offsets(kv, streaming=, ...)        Spark's options for the start of reading, and for the end of a batch
    has_offsets(spark, checkpoint_location)   whether a query has written offsets, from which Spark then continues

Spark does not read the committed offsets of a consumer group, and its list of offsets must name every partition. If a
mode needs either, the brokers are asked when the DataFrame is made, and Spark gets the offsets.
Rules: Flink's `KafkaDynamicSource`, `SpecifiedOffsetsInitializer`, `TimestampOffsetsInitializer`,
`ReaderHandledOffsetsInitializer`, `KafkaPartitionSplitReader`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from kvformat.connectors import brokers
from kvformat.connectors.topics import missing_topic
from kvformat.registry.contract.errors import ConfigurationError, MissingExtraError, OptionError, listed
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.sql.connector_options import parse_offsets

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from pyspark.sql import SparkSession

GROUP, RESET = "properties.group.id", "properties.auto.offset.reset"
Partition: TypeAlias = tuple[str, int]
# Special offsets: the end, the beginning, the committed offset of the group. Spark knows the first two.
_LATEST, _EARLIEST, _COMMITTED = -1, -2, -3
# Topics that librdkafka lists and Java's client does not.
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_MOST_NAMED = 20  # partitions in an error
_GLOB = re.compile(r"([\\{}\[\]*?])")


@dataclass(frozen=True, slots=True)
class _Bound:
    """Start or end of reading: a `word` ("earliest") or a `timestamp` for all partitions, or `offsets` by partition.

    `notes` are notes by option of the table, on what Spark does in another way.
    """

    word: str = ""
    timestamp: int | None = None
    offsets: Mapping[Partition, int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


def mode(kv: KeyValueFormat, side: str) -> str:
    """Return the mode of a side, 'startup' or 'bounded'; an upsert table is always read from its beginning."""
    found: str = kv.connector_options("decode").get(f"scan.{side}.mode", "earliest-offset")
    return found


def needs_brokers(kv: KeyValueFormat, side: str) -> bool:
    """Return whether the mode of a side needs offsets from the brokers."""
    return mode(kv, side) in ("group-offsets", "specific-offsets")


def spark_offsets(
    kv: KeyValueFormat, *, streaming: bool, start: bool = True, end: bool = True
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of Spark's source for the start and the end, and notes by option of the table.

    Raises `OptionError` for modes that Spark does not support, `BrokerError` if no broker answers.
    """
    asked = _Brokers(kv)
    first = _starting(asked, streaming=streaming) if start else None
    last = _ending(asked) if end else None
    if first is not None and last is not None:
        first, last = _end_after_start(asked, first, last)
    return {**_options("starting", first), **_options("ending", last)}, {
        **(first.notes if first else {}),
        **(last.notes if last else {}),
    }


def newest(kv: KeyValueFormat, count: int) -> dict[str, str] | None:
    """Return Spark's options for a batch of the newest records of each partition; None if there is no partition.

    The brokers are asked. Raises `BrokerError`, `MissingExtraError`.
    """
    asked = _Brokers(kv)
    last, first = asked.last(), asked.first()
    if not last:
        return None
    start = {at: max(first[at], end - count) for at, end in last.items()}
    return {"startingOffsets": _listed(start), "endingOffsets": _listed(last)}


def check_group_is_unused(kv: KeyValueFormat) -> None:
    """Raise `ConfigurationError` if the consumer group of a table has members.

    The brokers are asked. Raises `BrokerError`, `MissingExtraError`.
    """
    asked = _Brokers(kv)
    members = asked.members()
    if members:
        raise ConfigurationError(
            f"the group '{asked.group}' has {len(members)} members, and 'scan.check.duplicated.group.id' is true: "
            f"{listed(members)}. Stop these consumers, set another '{GROUP}', or set the option to false"
        )


def _end_after_start(asked: _Brokers, start: _Bound, end: _Bound) -> tuple[_Bound, _Bound]:
    """Move ends before their start to the start: Flink then reads nothing of the partition, but Spark fails."""
    if start.timestamp is not None and end.timestamp is not None:
        return start, replace(end, timestamp=max(start.timestamp, end.timestamp))
    if start.timestamp is not None and end.offsets:
        start = _Bound(offsets=asked.at(start.timestamp))
    if end.timestamp is not None and start.offsets:
        end = _Bound(offsets=asked.at(end.timestamp))
    if start.offsets and end.offsets:
        ends = {at: n if n == _LATEST else max(n, start.offsets[at]) for at, n in end.offsets.items()}
        end = replace(end, offsets=ends)
    return start, end


def _options(side: str, bound: _Bound | None) -> dict[str, str]:
    if bound is None:
        return {}
    if bound.timestamp is None:
        return {f"{side}Offsets": _listed(bound.offsets) if bound.offsets else bound.word}
    # As in Flink, a partition with only older records is read from its end.
    older = {"startingOffsetsByTimestampStrategy": "latest"} if side == "starting" else {}
    return {f"{side}Timestamp": str(bound.timestamp), **older}


# --- where to begin ------------------------------------------------------------------------------------------


def _starting(asked: _Brokers, *, streaming: bool) -> _Bound:
    name, values = mode(asked.kv, "startup"), asked.kv.connector_options("decode")
    if name == "latest-offset":
        if not streaming:
            raise OptionError(
                "'scan.startup.mode' = 'latest-offset': a batch that starts at the end reads nothing. Read a stream, "
                "or start elsewhere: with_options({'scan.startup.mode': 'earliest-offset'}), or 'timestamp' with "
                "'scan.startup.timestamp-millis'",
                option="scan.startup.mode",
            )
        return _Bound("latest")
    if name == "timestamp":
        return _Bound(timestamp=values["scan.startup.timestamp-millis"])
    if name == "group-offsets":
        return _from_committed(asked, streaming=streaming)
    if name == "specific-offsets":
        return _from_specific(asked, streaming=streaming)
    return _Bound("earliest")


def _from_committed(asked: _Brokers, *, streaming: bool) -> _Bound:
    """Start at the committed offsets; without one, or if its record is deleted, `auto.offset.reset` decides."""
    first, last, committed = asked.first(), asked.last(), asked.committed
    reset = asked.kv.options.get(RESET, "none").lower()
    begin: dict[Partition, int] = {}
    lost: dict[Partition, str] = {}
    for at in asked.partitions:
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
        told = "; ".join(f"{_shown([at])}: {why}" for at, why in list(lost.items())[:_MOST_NAMED])
        more = f"; and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
        raise OptionError(
            f"'scan.startup.mode' = 'group-offsets': Undefined offset with no reset policy for partitions. The group "
            f"'{asked.group}' has committed for {told}{more}. Set '{RESET}' = 'earliest' or "
            "'latest', or another 'scan.startup.mode'. A stream that ran before continues from its checkpoint: "
            "read_stream(spark, checkpoint_location=...)",
            option=RESET,
        )
    return _Bound("earliest", offsets=begin)


def _from_specific(asked: _Brokers, *, streaming: bool) -> _Bound:
    """Start at the given offsets; other partitions start at the committed offset, or at the beginning."""
    key = "scan.startup.specific-offsets"
    given = _given(asked, key)
    first, last = asked.first(), asked.last()
    begin: dict[Partition, int] = {}
    for at in asked.partitions:
        offset = given.get(at)
        if offset is None or offset == _COMMITTED:
            offset = asked.committed.get(at)
        if offset == _LATEST:
            begin[at] = _LATEST if streaming else last[at]
        else:
            begin[at] = offset if offset is not None and first[at] <= offset <= last[at] else _EARLIEST
    return _Bound("earliest", offsets=begin, notes=asked.unknown(key, given))


def _given(asked: _Brokers, key: str) -> dict[Partition, int]:
    """Return the offsets of an option by partition of the table's only topic."""
    values = asked.kv.connector_options("decode")
    given = {(values["topic"][0], n): offset for n, offset in parse_offsets(key, values[key]).items()}
    allowed = (_LATEST, _COMMITTED) if "bounded" in key else (_LATEST, _EARLIEST, _COMMITTED)
    for at, offset in given.items():
        if offset < 0 and offset not in allowed:
            raise OptionError(
                f"option '{key}', partition {at[1]}: {offset} is not an offset. Negative numbers are "
                f"{', '.join(f'{n} ({_MEANING[n]})' for n in allowed)}",
                option=key,
            )
        if offset == _COMMITTED and not asked.group:
            raise OptionError(
                f"Property group.id is required because partition {_shown([at])} is initialized with committed offset "
                f"('{key}'): set '{GROUP}'",
                option=GROUP,
            )
    return given


_MEANING = {_LATEST: "the end", _EARLIEST: "the beginning", _COMMITTED: "what the group has committed"}


# --- where to end --------------------------------------------------------------------------------------------


def _ending(asked: _Brokers) -> _Bound:
    name, values = mode(asked.kv, "bounded"), asked.kv.connector_options("decode")
    if name == "timestamp":
        return _Bound(timestamp=values["scan.bounded.timestamp-millis"])
    if name == "group-offsets":
        return _to_committed(asked)
    if name == "specific-offsets":
        return _to_specific(asked)
    return _Bound("latest")


def _to_committed(asked: _Brokers) -> _Bound:
    committed = asked.committed
    missing = [at for at in asked.partitions if at not in committed]
    if missing:
        raise OptionError(
            f"'scan.bounded.mode' = 'group-offsets': Partition {_shown(missing)} should stop at committed offset. But "
            f"there is no committed offset of this partition for group {asked.group}. Choose another "
            "'scan.bounded.mode'",
            option="scan.bounded.mode",
        )
    return asked.up_to(committed, "scan.bounded.mode")


def _to_specific(asked: _Brokers) -> _Bound:
    """End at the given offsets; other partitions end at the committed offset, or are not read, as in Flink."""
    key = "scan.bounded.specific-offsets"
    given = _given(asked, key)
    end: dict[Partition, int] = {}
    for at in asked.partitions:
        offset = given.get(at)
        if offset == _COMMITTED and at not in asked.committed:
            raise OptionError(
                f"option '{key}': Partition {_shown([at])} should stop at committed offset. But there is no committed "
                f"offset of this partition for group {asked.group}",
                option=key,
            )
        if offset is None or offset == _COMMITTED:
            offset = asked.committed.get(at, asked.first()[at])
        end[at] = offset
    bound = asked.up_to(end, key)
    told = [*asked.unknown(key, given).values(), *bound.notes.values()]
    return replace(bound, notes={key: "; ".join(told)} if told else {})


# --- offsets of the brokers ----------------------------------------------------------------------------------


class _Brokers:
    """The partitions of a table's topics, and their offsets. Brokers are asked once for each, when it is needed."""

    def __init__(self, kv: KeyValueFormat) -> None:
        self.kv, self.group = kv, kv.options.get(GROUP, "")
        self._edges: dict[int, dict[Partition, int]] = {}

    @cached_property
    def _client(self) -> AdminClient:
        try:
            return brokers.admin(self.kv.options)
        except MissingExtraError as cause:
            raise MissingExtraError(
                f"{cause}. Brokers are not asked if 'scan.startup.mode' is 'earliest-offset', 'latest-offset' or "
                "'timestamp', 'scan.bounded.mode' is not 'group-offsets' or 'specific-offsets', and "
                "'scan.check.duplicated.group.id' is not true"
            ) from cause

    @cached_property
    def partitions(self) -> list[Partition]:
        # List all topics: a broker may create a missing topic if it is asked for it by name.
        known = self._ask("their topics", lambda: self._client.list_topics(timeout=brokers.TIMEOUT).topics)
        topics = _topics(self.kv, known)
        missing = [topic for topic in topics if topic not in known]
        if missing:
            raise missing_topic(self.kv, missing[0], known, "whose offsets are asked for")
        return sorted((topic, number) for topic in topics for number in known[topic].partitions)

    def first(self) -> dict[Partition, int]:
        """Return the offset of the oldest record of each partition."""
        return self._edge(_EARLIEST)

    def last(self) -> dict[Partition, int]:
        """Return the offset after the newest record of each partition."""
        return self._edge(_LATEST)

    def _edge(self, which: int) -> dict[Partition, int]:
        if which not in self._edges:
            self._edges[which] = self._offsets("earliest" if which == _EARLIEST else "latest")
        return self._edges[which]

    def at(self, timestamp: int) -> dict[Partition, int]:
        """Return the offset of the first record of each partition that is not older, otherwise its end."""
        last = self.last()  # first, so that no record between the two answers is skipped
        found = self._offsets("for_timestamp", timestamp)
        return {at: offset if offset >= 0 else last[at] for at, offset in found.items()}

    def _offsets(self, spec: str, *more: int) -> dict[Partition, int]:
        """Ask for an offset of each partition; `spec` is the name of one of confluent-kafka's `OffsetSpec`."""
        if not self.partitions:
            return {}
        from confluent_kafka import TopicPartition, admin

        specs: Any = admin  # typed in part
        wanted = getattr(specs.OffsetSpec, spec)(*more)

        def offsets() -> dict[Partition, int]:
            question = {TopicPartition(*at): wanted for at in self.partitions}
            answers = self._client.list_offsets(question, request_timeout=brokers.TIMEOUT)
            return {(at.topic, at.partition): answer.result(brokers.TIMEOUT).offset for at, answer in answers.items()}

        answer: dict[Partition, int] = self._ask("offsets", offsets)
        return answer

    def _ask(self, what: str, question: Callable[[], Any]) -> Any:
        return brokers.ask(self._client, self.kv.options, what, question)

    def members(self) -> list[str]:
        """Return the members of the group, each as its client id and host."""
        what = f"the members of the group '{self.group}'"
        found = self._ask(
            what,
            lambda: self._client.describe_consumer_groups([self.group], request_timeout=brokers.TIMEOUT)[
                self.group
            ].result(brokers.TIMEOUT),
        )
        return [f"{member.client_id} at {member.host}" for member in found.members]

    @cached_property
    def committed(self) -> dict[Partition, int]:
        """The committed offsets of the group, by partition; empty without a group."""
        if not self.group or not self.partitions:
            return {}
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

        def offsets() -> dict[Partition, int]:
            question = ConsumerGroupTopicPartitions(self.group, [TopicPartition(*at) for at in self.partitions])
            answers = self._client.list_consumer_group_offsets([question], request_timeout=brokers.TIMEOUT)
            found = answers[self.group].result(brokers.TIMEOUT).topic_partitions
            for one in found:
                if one.error is not None:
                    raise KafkaException(one.error)
            return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

        answer: dict[Partition, int] = self._ask(f"what the group '{self.group}' has committed", offsets)
        return answer

    def up_to(self, end: Mapping[Partition, int], option: str) -> _Bound:
        """End a batch at the given offsets, or at the last record: a batch does not wait for records."""
        last = self.last()
        beyond = [at for at in self.partitions if end[at] > last[at]]
        notes = {}
        if beyond:
            told = "; ".join(f"{_shown([at])} ends at {last[at]}, not at {end[at]}" for at in beyond[:_MOST_NAMED])
            notes[option] = f"'{option}' is after the last record; Flink waits for records, a batch does not: {told}"
        return _Bound("latest", offsets={at: min(end[at], last[at]) for at in self.partitions}, notes=notes)

    def unknown(self, option: str, given: Iterable[Partition]) -> dict[str, str]:
        """Note partitions that an option names and that do not exist; they are ignored, as in Flink."""
        there = set(self.partitions)
        missing = [at for at in given if at not in there]
        return {option: f"'{option}' names partitions that do not exist: {_shown(missing)}"} if missing else {}


def _topics(kv: KeyValueFormat, known: Iterable[str]) -> list[str]:
    """Return the topics of the table, by name or by its pattern, which must match whole names."""
    values = kv.connector_options("decode")
    if values["topic"]:
        return list(dict.fromkeys(values["topic"]))
    from kvformat.registry.java.regex import SlowMatchError

    pattern = topic_pattern(values["topic-pattern"])
    try:
        return [topic for topic in known if topic not in _INTERNAL and pattern.matches(topic)]
    except SlowMatchError as cause:
        raise OptionError(
            f"'topic-pattern' takes more than {cause.seconds:g} s for the name of a topic: write it with fewer "
            "repetitions within each other",
            option="topic-pattern",
        ) from cause


def topic_pattern(text: str | None) -> Any:
    """Return the pattern as Python can match it; raises `OptionError` if it is not a regular expression of Java."""
    from kvformat.registry.java.regex import RegexError, compile_java

    if text is None:
        raise OptionError("'topic' names no topic, and there is no 'topic-pattern'", option="topic")
    try:
        return compile_java(text)
    except RegexError as cause:
        raise OptionError(
            f"'topic-pattern' is not a regular expression of Java: {cause}", option="topic-pattern"
        ) from cause


def _listed(offsets: Mapping[Partition, int]) -> str:
    """Return the offsets as Spark's JSON."""
    found: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return json.dumps(found)


def _shown(partitions: list[Partition]) -> str:
    more = f" and {len(partitions) - _MOST_NAMED} more" if len(partitions) > _MOST_NAMED else ""
    return ", ".join(f"{topic}-{number}" for topic, number in partitions[:_MOST_NAMED]) + more


# --- Spark's own offsets -------------------------------------------------------------------------------------


def has_offsets(spark: SparkSession, checkpoint_location: str) -> bool:
    """Return whether a query has written offsets to this checkpoint; Spark then ignores the options for the start."""
    from pyspark.errors import AnalysisException

    if not isinstance(checkpoint_location, str) or not checkpoint_location:
        raise ConfigurationError("checkpoint_location must be a string: the checkpoint folder of the query")
    folder = _GLOB.sub(r"\\\1", checkpoint_location.rstrip("/")) + "/offsets"
    try:
        return not spark.read.text(folder).isEmpty()
    except AnalysisException as cause:
        if "PATH_NOT_FOUND" not in str(cause):
            raise
        return False
