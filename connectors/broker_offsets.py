"""The partitions of a table's topics, and their offsets, as the brokers know them.

    BrokerOffsets(kv)        partitions, first and last offsets, committed offsets, offsets of a time, ids of topics

An object asks the brokers once for each, when it is first used: its answers belong to one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kvformat.connectors import brokers
from kvformat.connectors.properties import PREFIX
from kvformat.connectors.topics import matching, missing_topic
from kvformat.registry.contract.errors import MissingExtraError
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.key_value_format import KeyValueFormat

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Partition: TypeAlias = tuple[str, int]
"""A topic and the number of one of its partitions."""
GROUP = f"{PREFIX}group.id"
MOST_NAMED = 20
"""Partitions that an error names; it counts the others."""
_ISOLATION = f"{PREFIX}isolation.level"
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # brokers before Kafka 2.8 have no ids of topics


def reads_committed(kv: KeyValueFormat) -> bool:
    """Return whether a table reads only records of committed transactions; the default is that of Java's client."""
    return kv.options.get(_ISOLATION, "read_uncommitted").strip().lower() == "read_committed"


class BrokerOffsets:
    """The partitions of a table's topics, and their offsets. Brokers are asked once for each, when it is needed.

    `client` is used for the requests, instead of a new one. With `ids` the ids of the topics are asked for together
    with their partitions.
    """

    def __init__(self, kv: KeyValueFormat, client: AdminClient | None = None, *, ids: bool = False) -> None:
        self.kv, self.group, self._ids = kv, kv.options.get(GROUP, ""), ids
        self._edges: dict[str, dict[Partition, int]] = {}
        if client is not None:
            self.client = client

    @cached_property
    def client(self) -> AdminClient:
        """The client that asks the brokers."""
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
        """The partitions of the table's topics, in order."""
        return sorted((topic, number) for topic, (numbers, _) in self._topics.items() for number in numbers)

    @cached_property
    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics, which a topic that is deleted and created again does not keep.

        Topics of brokers before Kafka 2.8 have none.
        """
        return {topic: number for topic, (_, number) in self._topics.items() if number != _NO_ID}

    @cached_property
    def _topics(self) -> dict[str, tuple[list[int], str]]:
        """The numbers of the partitions of each of the table's topics, and the topic's id."""
        if self._ids and self.kv.connector_options("decode")["topic"]:
            described = self._described(_topics(self.kv, ()))
            if all(numbers for numbers, _ in described.values()):
                return described
        # List all topics: a broker may create a missing topic if it is asked for it by name.
        known = self._ask("their topics", lambda: self.client.list_topics(timeout=brokers.TIMEOUT).topics)
        topics = _topics(self.kv, known)
        missing = [topic for topic in topics if topic not in known]
        if missing:
            raise missing_topic(self.kv, missing[0], known, "whose offsets are asked for")
        if self._ids:
            return self._described(topics)
        return {topic: (list(known[topic].partitions), _NO_ID) for topic in topics}

    def _described(self, topics: Sequence[str]) -> dict[str, tuple[list[int], str]]:
        """Ask for partitions and ids of topics; this creates none. A topic that does not exist has no partitions."""
        if not topics:
            return {}
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        def described() -> dict[str, tuple[list[int], str]]:
            partitions: dict[str, tuple[list[int], str]] = {}
            futures = self.client.describe_topics(TopicCollection(list(topics)), request_timeout=brokers.TIMEOUT)
            for topic, answer in futures.items():
                try:
                    known = answer.result(brokers.TIMEOUT)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
                    partitions[topic] = ([], _NO_ID)
                else:
                    partitions[topic] = ([part.id for part in known.partitions], str(known.topic_id))
            return partitions

        answer: dict[str, tuple[list[int], str]] = self._ask("their topics", described)
        return answer

    def first(self) -> dict[Partition, int]:
        """Return the offset of the oldest record of each partition."""
        return self._edge("earliest")

    def last(self) -> dict[Partition, int]:
        """Return the offset after the newest record of each partition."""
        return self._edge("latest")

    def end(self) -> dict[Partition, int]:
        """Return the offset up to which each partition can be read.

        With `isolation.level` `read_committed` it is the last stable offset, the first one of an open transaction.
        """
        return self._edge("stable") if reads_committed(self.kv) else self.last()

    def _edge(self, which: str) -> dict[Partition, int]:
        if which not in self._edges:
            stable = which == "stable"
            self._edges[which] = self._offsets("latest" if stable else which, stable=stable)
        return self._edges[which]

    def at(self, timestamp: int) -> dict[Partition, int]:
        """Return the offset of the first record of each partition that is not older, otherwise its end."""
        last = self.last()  # first, so that no record between the two answers is skipped
        offsets = self._offsets("for_timestamp", timestamp)
        return {at: offset if offset >= 0 else last[at] for at, offset in offsets.items()}

    def _offsets(self, spec: str, *more: int, stable: bool = False) -> dict[Partition, int]:
        """Ask for an offset of each partition; `spec` is the name of one of confluent-kafka's `OffsetSpec`."""
        if not self.partitions:
            return {}
        from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicPartition, admin

        specs: Any = admin  # typed in part
        wanted = getattr(specs.OffsetSpec, spec)(*more)
        arguments = {"isolation_level": IsolationLevel.READ_COMMITTED} if stable else {}

        def offsets() -> dict[Partition, int]:
            question = {TopicPartition(*at): wanted for at in self.partitions}
            answers = self.client.list_offsets(question, request_timeout=brokers.TIMEOUT, **arguments)
            found = {(at.topic, at.partition): answer.result(brokers.TIMEOUT).offset for at, answer in answers.items()}
            if OFFSET_INVALID in found.values():  # no offset and no error, as while a broker starts
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            return found

        answer: dict[Partition, int] = self._ask("offsets", offsets)
        return answer

    def _ask(self, what: str, question: Callable[[], Any]) -> Any:
        return brokers.ask(self.client, self.kv.options, what, question)

    def members(self) -> list[str]:
        """Return the members of the group, each as its client id and host."""
        what = f"the members of the group '{self.group}'"
        group = self._ask(
            what,
            lambda: self.client.describe_consumer_groups([self.group], request_timeout=brokers.TIMEOUT)[
                self.group
            ].result(brokers.TIMEOUT),
        )
        return [f"{member.client_id} at {member.host}" for member in group.members]

    @cached_property
    def committed(self) -> dict[Partition, int]:
        """The committed offsets of the group, by partition; empty without a group."""
        if not self.group or not self.partitions:
            return {}
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

        def offsets() -> dict[Partition, int]:
            question = ConsumerGroupTopicPartitions(self.group, [TopicPartition(*at) for at in self.partitions])
            answers = self.client.list_consumer_group_offsets([question], request_timeout=brokers.TIMEOUT)
            partitions = answers[self.group].result(brokers.TIMEOUT).topic_partitions
            for partition in partitions:
                if partition.error is not None:
                    raise KafkaException(partition.error)
            return {
                (partition.topic, partition.partition): partition.offset
                for partition in partitions
                if partition.offset >= 0
            }

        answer: dict[Partition, int] = self._ask(f"what the group '{self.group}' has committed", offsets)
        return answer


def _topics(kv: KeyValueFormat, known: Iterable[str]) -> list[str]:
    """Return the topics of the table, by name or by its pattern, which must match whole names."""
    values = kv.connector_options("decode")
    return list(dict.fromkeys(values["topic"])) if values["topic"] else matching(values["topic-pattern"], known)


def shown(partitions: Sequence[Partition]) -> str:
    """Return partitions as `topic-0, topic-1`, at most `MOST_NAMED`, and the number of the others."""
    more = f" and {len(partitions) - MOST_NAMED} more" if len(partitions) > MOST_NAMED else ""
    return ", ".join(f"{topic}-{number}" for topic, number in partitions[:MOST_NAMED]) + more
