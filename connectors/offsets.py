"""Where reading begins and ends: Flink's startup and bounded modes as options of Spark's Kafka source.

    within(kv, streaming=, ...)        the options that say where to begin, and where a batch ends
    begun(spark, checkpoint_location)  whether a query has been there before: then Spark goes on from its own offsets

Spark never looks at what a consumer group has committed, and wants a list of offsets to name every partition. So where
a mode needs to know either, the brokers are asked when the read is made, and Spark is given the offsets themselves.
Rules: Flink's `KafkaDynamicSource`, `SpecifiedOffsetsInitializer`, `TimestampOffsetsInitializer`,
`ReaderHandledOffsetsInitializer`, `KafkaPartitionSplitReader`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from kvformat.connectors import brokers
from kvformat.connectors.topics import missing_topic
from kvformat.registry.contract.errors import ConfigurationError, MissingExtraError, OptionError
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.sql.connector_options import parse_offsets

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from pyspark.sql import SparkSession

GROUP, RESET = "properties.group.id", "properties.auto.offset.reset"
Partition: TypeAlias = tuple[str, int]
# As numbers they stand for: the end, the beginning, what the group has committed. Spark knows the first two.
_LATEST, _EARLIEST, _COMMITTED = -1, -2, -3
# What Java's client doesn't list among the topics, and the other one does.
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_MOST_NAMED = 20  # so many partitions are named in an error
_GLOB = re.compile(r"([\\{}\[\]*?])")


@dataclass(frozen=True, slots=True)
class _Bound:
    """One end of what is read: everywhere the same, `word` ("earliest") or `timestamp`, or else `offsets`.

    `notes` say by option of the table what Spark does otherwise.
    """

    word: str = ""
    timestamp: int | None = None
    offsets: Mapping[Partition, int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


def mode(kv: KeyValueFormat, side: str) -> str:
    """The mode of one side, 'startup' or 'bounded'; an upsert table is always read from its beginning."""
    found: str = kv.connector_options("decode").get(f"scan.{side}.mode", "earliest-offset")
    return found


def asks(kv: KeyValueFormat, side: str) -> bool:
    """Whether the brokers are asked for this side."""
    return mode(kv, side) in ("group-offsets", "specific-offsets")


def within(
    kv: KeyValueFormat, *, streaming: bool, start: bool = True, end: bool = True
) -> tuple[dict[str, str], dict[str, str]]:
    """The options of Spark's source for the ends that are asked for, and the notes of what Spark does otherwise.

    Raises `OptionError` for what Spark can't do, `BrokerError` where brokers don't answer.
    """
    asked = _Brokers(kv)
    first = _starting(asked, streaming=streaming) if start else None
    last = _ending(asked) if end else None
    if first is not None and last is not None:
        first, last = _fitted(asked, first, last)
    return {**_options("starting", first), **_options("ending", last)}, {
        **(first.notes if first else {}),
        **(last.notes if last else {}),
    }


def _fitted(asked: _Brokers, start: _Bound, end: _Bound) -> tuple[_Bound, _Bound]:
    """The same, where nothing ends before it begins: Flink then reads nothing of a partition, Spark fails."""
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
    # As in Flink, a partition whose records are all older is read from its end.
    older = {"startingOffsetsByTimestampStrategy": "latest"} if side == "starting" else {}
    return {f"{side}Timestamp": str(bound.timestamp), **older}


# --- where to begin ------------------------------------------------------------------------------------------


def _starting(asked: _Brokers, *, streaming: bool) -> _Bound:
    name, values = mode(asked.kv, "startup"), asked.kv.connector_options("decode")
    if name == "latest-offset":
        if not streaming:
            raise OptionError(
                "'scan.startup.mode' = 'latest-offset': a batch that begins at the end reads nothing. Read a stream, "
                "or begin elsewhere: with_options({'scan.startup.mode': 'earliest-offset'}), or 'timestamp' with "
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
    """Where the group would go on: what it has not committed, or what is no longer there, is up to the reset."""
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
            f"'{asked.group}' has committed for {told}{more}. Say where these begin, '{RESET}' = 'earliest' or "
            "'latest', or begin elsewhere by 'scan.startup.mode'. A stream that has run before goes on from its "
            "checkpoint: read_stream(spark, checkpoint_location=...)",
            option=RESET,
        )
    return _Bound("earliest", offsets=begin)


def _from_specific(asked: _Brokers, *, streaming: bool) -> _Bound:
    """The offsets given; a partition that is not named goes on where the group is, or begins at the beginning."""
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
    """The offsets of an option, by partition of the table's one topic."""
    values = asked.kv.connector_options("decode")
    given = {(values["topic"][0], n): offset for n, offset in parse_offsets(key, values[key]).items()}
    allowed = (_LATEST, _COMMITTED) if "bounded" in key else (_LATEST, _EARLIEST, _COMMITTED)
    for at, offset in given.items():
        if offset < 0 and offset not in allowed:
            raise OptionError(
                f"option '{key}', partition {at[1]}: {offset} is no offset. Below 0 are "
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
            f"there is no committed offset of this partition for group {asked.group}. End elsewhere by "
            "'scan.bounded.mode'",
            option="scan.bounded.mode",
        )
    return asked.up_to(committed, "scan.bounded.mode")


def _to_specific(asked: _Brokers) -> _Bound:
    """The offsets given; a partition that is not named ends where the group is, or is not read at all, as in Flink."""
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
    return replace(bound, notes={**asked.unknown(key, given), **bound.notes})


# --- what the brokers know -----------------------------------------------------------------------------------


class _Brokers:
    """The partitions of a table's topics, and their offsets: each is asked for once, when it is needed."""

    def __init__(self, kv: KeyValueFormat) -> None:
        self.kv, self.group = kv, kv.options.get(GROUP, "")
        self._edges: dict[int, dict[Partition, int]] = {}

    @functools.cached_property
    def _client(self) -> AdminClient:
        try:
            return brokers.admin(self.kv.options)
        except MissingExtraError as cause:
            raise MissingExtraError(
                f"{cause}. Nobody is asked where 'scan.startup.mode' is 'earliest-offset', 'latest-offset' or "
                "'timestamp', and 'scan.bounded.mode' neither 'group-offsets' nor 'specific-offsets'"
            ) from cause

    @functools.cached_property
    def partitions(self) -> list[Partition]:
        # All of them: to be asked for one that is not there, a broker may make it.
        known = self._ask("their topics", lambda: self._client.list_topics(timeout=brokers.TIMEOUT).topics)
        topics = _topics(self.kv, known)
        missing = [topic for topic in topics if topic not in known]
        if missing:
            raise missing_topic(self.kv, missing[0], known, "whose offsets are asked for")
        return sorted((topic, number) for topic in topics for number in known[topic].partitions)

    def first(self) -> dict[Partition, int]:
        """The offset of the oldest record of each partition."""
        return self._edge(_EARLIEST)

    def last(self) -> dict[Partition, int]:
        """The offset behind the newest record of each partition."""
        return self._edge(_LATEST)

    def _edge(self, which: int) -> dict[Partition, int]:
        if which not in self._edges:
            self._edges[which] = self._offsets("earliest" if which == _EARLIEST else "latest")
        return self._edges[which]

    def at(self, timestamp: int) -> dict[Partition, int]:
        """The offset of the first record as new as this of each partition, else its end."""
        last = self.last()  # before, so that no record between the two answers is passed over
        found = self._offsets("for_timestamp", timestamp)
        return {at: offset if offset >= 0 else last[at] for at, offset in found.items()}

    def _offsets(self, spec: str, *more: int) -> dict[Partition, int]:
        """An offset of each partition, by the name of confluent-kafka's `OffsetSpec`."""
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

    @functools.cached_property
    def committed(self) -> dict[Partition, int]:
        """What the group has committed, where it has; nothing without a group."""
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
        """The end of a batch: what is not written yet can't be waited for."""
        last = self.last()
        beyond = [at for at in self.partitions if end[at] > last[at]]
        notes = {}
        if beyond:
            told = "; ".join(f"{_shown([at])} ends at {last[at]}, not at {end[at]}" for at in beyond[:_MOST_NAMED])
            notes[option] = f"'{option}' is beyond what is there, for which Flink waits and a batch does not: {told}"
        return _Bound("latest", offsets={at: min(end[at], last[at]) for at in self.partitions}, notes=notes)

    def unknown(self, option: str, given: Iterable[Partition]) -> dict[str, str]:
        """A note of partitions that an option names and that are not there: they are passed over, as in Flink."""
        there = set(self.partitions)
        missing = [at for at in given if at not in there]
        return {option: f"'{option}' names partitions that are not there: {_shown(missing)}"} if missing else {}


def _topics(kv: KeyValueFormat, known: Iterable[str]) -> list[str]:
    """The topics of the table, those that its pattern matches from end to end included."""
    values = kv.connector_options("decode")
    if values["topic"]:
        return list(dict.fromkeys(values["topic"]))
    from kvformat.codecs._java.regex import SlowMatchError

    pattern = topic_pattern(values["topic-pattern"])
    try:
        return [topic for topic in known if topic not in _INTERNAL and pattern.matches(topic)]
    except SlowMatchError as cause:
        raise OptionError(
            f"'topic-pattern' takes more than {cause.seconds:g} s for the name of a topic: write it with fewer "
            "repetitions within each other",
            option="topic-pattern",
        ) from cause


def topic_pattern(text: str) -> Any:
    """The pattern as Python can match it; raises `OptionError` for what is none."""
    from kvformat.codecs._java.regex import RegexError, compile_java

    try:
        return compile_java(text)
    except RegexError as cause:
        raise OptionError(
            f"'topic-pattern' is no regular expression of Java: {cause}", option="topic-pattern"
        ) from cause


def _listed(offsets: Mapping[Partition, int]) -> str:
    """Spark's JSON for offsets."""
    found: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return json.dumps(found)


def _shown(partitions: list[Partition]) -> str:
    more = f" and {len(partitions) - _MOST_NAMED} more" if len(partitions) > _MOST_NAMED else ""
    return ", ".join(f"{topic}-{number}" for topic, number in partitions[:_MOST_NAMED]) + more


# --- Spark's own offsets -------------------------------------------------------------------------------------


def begun(spark: SparkSession, checkpoint_location: str) -> bool:
    """Whether a query has written offsets to this checkpoint: then they count, and no option for the beginning does."""
    from pyspark.errors import AnalysisException

    if not isinstance(checkpoint_location, str) or not checkpoint_location:
        raise ConfigurationError("checkpoint_location is the folder that the query is started with, a text")
    folder = _GLOB.sub(r"\\\1", checkpoint_location.rstrip("/")) + "/offsets"
    try:
        return not spark.read.text(folder).isEmpty()
    except AnalysisException as cause:
        if "PATH_NOT_FOUND" not in str(cause):
            raise
        return False
