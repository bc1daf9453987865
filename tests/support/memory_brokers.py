"""Kafka's brokers in memory: an admin client with topics, offsets, and what a consumer group has committed."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException

from kvformat.connectors import KafkaTable, brokers

Offsets = Mapping[int, int]
END, BEGINNING, COMMITTED, INVALID = -1, -2, -3, -1001  # INVALID: librdkafka's number where it knows no offset


def answered(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


@dataclass
class Admin:
    """Topics by name: the first offset and the end of each partition, and what the group committed.

    `stable` are the last stable offsets, and `later` the offsets by a timestamp. `ids` are those of topics. The first
    `starting` answers know no offset of the last partition, as those of a broker that starts.
    """

    first: Mapping[str, Offsets]
    last: Mapping[str, Offsets]
    committed: Mapping[str, Offsets] = field(default_factory=dict)
    later: Mapping[int, Mapping[str, Offsets]] = field(default_factory=dict)
    errors: Mapping[int, int] = field(default_factory=dict)
    stable: Mapping[str, Offsets] | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    members: tuple[Any, ...] = ()
    starting: int = 0

    def poll(self, _: float) -> None:
        """There are no callbacks."""

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(
            topics={name: SimpleNamespace(partitions=dict(numbers)) for name, numbers in self.last.items()}
        )

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        found: dict[str, Future[Any]] = {}
        for name in topics.topic_names:
            if name in self.last:
                parts = [SimpleNamespace(id=number) for number in self.last[name]]
                topic_id = self.ids.get(name, "AAAAAAAAAAAAAAAAAAAAAA")
                found[name] = answered(SimpleNamespace(partitions=parts, topic_id=topic_id))
            else:
                found[name] = Future()
                found[name].set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return found

    def list_offsets(
        self,
        question: Mapping[Any, Any],
        request_timeout: float,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[Any, Future[Any]]:
        last = self.last if isolation_level is IsolationLevel.READ_UNCOMMITTED or self.stable is None else self.stable
        found = {}
        for at, spec in question.items():
            timestamp = getattr(spec, "timestamp", None)
            known = {"EarliestSpec": self.first, "LatestSpec": last}.get(type(spec).__name__)
            known = self.later[timestamp if timestamp is not None else spec._value] if known is None else known
            found[at] = answered(SimpleNamespace(offset=known[at.topic][at.partition]))
        if self.starting:
            self.starting -= 1
            found[at] = answered(SimpleNamespace(offset=INVALID))
        return found

    def list_consumer_group_offsets(self, questions: list[Any], request_timeout: float) -> dict[str, Future[Any]]:
        (question,) = questions
        known = [
            SimpleNamespace(
                topic=at.topic,
                partition=at.partition,
                offset=self.committed.get(at.topic, {}).get(at.partition, INVALID),
                error=KafkaError(self.errors[at.partition]) if at.partition in self.errors else None,
            )
            for at in question.topic_partitions
        ]
        return {question.group_id: answered(SimpleNamespace(topic_partitions=known))}

    def describe_consumer_groups(self, groups: list[str], request_timeout: float) -> dict[str, Future[Any]]:
        return {group: answered(SimpleNamespace(members=self.members)) for group in groups}


def table(admin: Admin, monkeypatch: pytest.MonkeyPatch, options: Mapping[str, str | None]) -> Any:
    """Return a table of topic `t` whose brokers are in memory."""
    monkeypatch.setattr(brokers, "admin", lambda _: admin)
    given = {"connector": "kafka", "topic": "t", "format": "raw", "properties.bootstrap.servers": "b:1"}
    given |= {"properties.group.id": "g", "scan.startup.mode": "earliest-offset"}
    kept = {key: value for key, value in {**given, **options}.items() if value is not None}
    return KafkaTable("v BYTES", kept).kv
