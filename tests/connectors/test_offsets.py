"""Start and end offsets, and the number of requests for them, with a real broker and without Spark."""

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
    """Count the calls of each method of admin clients."""
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


def test_number_of_requests_does_not_depend_on_partitions(broker: Any, asked: Counter[str]) -> None:
    """Each request is sent once, although both ends of the batch need its answer."""
    start = {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:1"}
    end = {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:0,offset:2"}
    counts = []
    for partitions in (1, 50):
        topic = broker.create(f"asked-{partitions}", partitions)
        broker.send(topic, [(None, b"a"), (None, b"b"), (None, b"c")], partition=0)
        planned(_kv(broker, topic, start | end), streaming=False)  # waits until the leaders are known
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
def test_no_request_for_what_spark_resolves(broker: Any, asked: Counter[str], options: dict[str, str]) -> None:
    planned(_kv(broker, "nowhere", options), streaming=False)
    assert not asked


def test_an_end_before_the_start_becomes_the_start(broker: Any) -> None:
    """If the start or the end is a timestamp, the brokers look up its offsets."""
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
def test_invalid_offsets_are_refused(broker: Any, options: dict[str, str], told: str) -> None:
    kv = _kv(broker, "asked-1", options)
    with pytest.raises(ValueError, match=told):
        planned(kv, streaming=False)
