"""Topics that the tests create are ready: their partitions have leaders that answer."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

pytestmark = [pytest.mark.services]


def ends(broker: Any, topic: str, partitions: int) -> list[int]:
    """Return the end offset of each partition; each is asked for once."""
    admin = broker.admin()
    asked = admin.list_offsets({TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)})
    return [answer.result(30).offset for answer in asked.values()]


def test_each_partition_of_a_new_topic_has_a_leader(broker: Any) -> None:
    topic = broker.create("ready", 40)
    assert ends(broker, topic, 40) == [0] * 40
    broker.add_partitions(topic, 60)
    assert ends(broker, topic, 60) == [0] * 60


def test_a_topic_that_is_created_again_is_empty(broker: Any) -> None:
    for _ in range(3):
        topic = broker.create("ready-again", 3)
        assert ends(broker, topic, 3) == [0, 0, 0]
        broker.send(topic, [(None, b"v")], partition=2)
        assert ends(broker, topic, 3) == [0, 0, 1]
        broker.delete(topic)
