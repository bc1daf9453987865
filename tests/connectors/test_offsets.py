"""What the brokers are asked, and how often: where reading begins and ends. A real broker, no Spark."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from kvformat.connectors import brokers
from kvformat.connectors.source import planned
from kvformat.registry.key_value_format import KeyValueFormat

pytestmark = [pytest.mark.services]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often clients were asked for what."""
    counted: Counter[str] = Counter()
    real = brokers.admin

    class Counting:
        def __init__(self, client: Any) -> None:
            self._client = client

        def __getattr__(self, name: str) -> Any:
            counted[name] += 1
            return getattr(self._client, name)

    monkeypatch.setattr(brokers, "admin", lambda options: Counting(real(options)))
    return counted


def _kv(broker: Any, topic: str, options: dict[str, str]) -> KeyValueFormat:
    given = {"connector": "kafka", "topic": topic, "format": "raw", "properties.bootstrap.servers": broker.bootstrap}
    return KeyValueFormat("v BYTES", {**given, "properties.group.id": "nobody", **options}).planned()


def test_the_brokers_are_asked_as_often_for_many_partitions_as_for_one(broker: Any, asked: Counter[str]) -> None:
    """Once for each thing to be known, though both ends of the batch need it."""
    start = {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:1"}
    end = {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:0,offset:2"}
    counts = []
    for partitions in (1, 50):
        topic = broker.create(f"asked-{partitions}", partitions)
        broker.send(topic, [(None, b"a"), (None, b"b"), (None, b"c")], partition=0)
        planned(_kv(broker, topic, start | end), streaming=False)  # until leaders are known
        asked.clear()
        found = planned(_kv(broker, topic, start | end), streaming=False).options
        assert json.loads(found["startingOffsets"])[topic]["0"] == 1
        assert json.loads(found["endingOffsets"])[topic]["0"] == 2
        assert len(json.loads(found["endingOffsets"])[topic]) == partitions
        counts.append(dict(asked))
    assert counts[0] | {"list_consumer_group_offsets": 1} == counts[1]
    assert counts[1] == {"list_topics": 1, "list_offsets": 2, "list_consumer_group_offsets": 1}


@pytest.mark.parametrize(
    "options",
    [
        {"scan.startup.mode": "earliest-offset"},
        {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "1"},
        {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "1", "scan.bounded.mode": "timestamp"}
        | {"scan.bounded.timestamp-millis": "5"},
    ],
)
def test_what_spark_knows_itself_is_not_asked(broker: Any, asked: Counter[str], options: dict[str, str]) -> None:
    planned(_kv(broker, "nowhere", options), streaming=False)
    assert not asked


def test_an_end_before_the_beginning_is_moved_to_it(broker: Any) -> None:
    """Where one of them is a time, the brokers are asked which offsets it stands for."""
    topic = broker.create("fitted", 2)
    for n in range(4):
        for partition in (0, 1):
            broker.send(topic, [(None, b"a")], partition=partition, timestamp=1000 * (n + 1))
    given = {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "2500"}
    given |= {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:0,offset:3"}
    found = planned(_kv(broker, topic, given), streaming=False).options
    assert json.loads(found["startingOffsets"]) == {topic: {"0": 2, "1": 2}}
    assert json.loads(found["endingOffsets"]) == {topic: {"0": 3, "1": 2}}
    assert "startingTimestamp" not in found


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:-4"},
         r"partition 0: -4 is not an offset. Negative numbers are -1 \(the end\), -2 \(the beginning\), -3"),
        ({"scan.startup.mode": "earliest-offset", "scan.bounded.mode": "specific-offsets",
          "scan.bounded.specific-offsets": "partition:0,offset:-2"}, "-2 is not an offset. Negative numbers are -1"),
        ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:-3",
          "properties.group.id": ""}, "group.id is required because partition .*-0"),
    ],
)  # fmt: skip
def test_numbers_that_are_no_offsets_are_refused(broker: Any, options: dict[str, str], told: str) -> None:
    kv = _kv(broker, "asked-1", options)
    with pytest.raises(ValueError, match=told):
        planned(kv, streaming=False)
