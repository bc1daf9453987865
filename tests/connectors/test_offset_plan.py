"""Start and end offsets as numbers: batches, micro-batches of streams, and lost records. Most brokers are in memory."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Producer

from kvformat.connectors import brokers as kafka_brokers
from kvformat.connectors.offset_plan import OffsetPlan
from kvformat.connectors.offsets import spark_offsets
from kvformat.connectors.reader.ranges import PartitionRange, TopicOffsets, by_topic
from kvformat.registry.contract.errors import BrokerError, OptionError
from kvformat.registry.key_value_format import KeyValueFormat
from tests.support.memory_brokers import BEGINNING, COMMITTED, END, Admin, table

TIME, LATER = 1_700_000_000_000, 1_700_000_001_000
FIRST, LAST = {0: 3, 1: 0, 2: 5}, {0: 12, 1: 9, 2: 5}
COMMITTED_OFFSETS = {0: 7, 1: 2, 2: 5}


def brokers(**more: Any) -> Admin:
    found = {TIME: {"t": {0: 5, 1: 4, 2: -1}}, LATER: {"t": {0: 11, 1: -1, 2: -1}}}
    return Admin({"t": FIRST}, {"t": LAST}, {"t": COMMITTED_OFFSETS}, found, **more)


def specific(side: str, *offsets: int) -> dict[str, str]:
    given = ";".join(f"partition:{n},offset:{offset}" for n, offset in enumerate(offsets))
    return {f"scan.{side}.mode": "specific-offsets", f"scan.{side}.specific-offsets": given}


STARTS: list[dict[str, str]] = [
    {"scan.startup.mode": "earliest-offset"},
    {"scan.startup.mode": "group-offsets"},
    {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": str(TIME)},
    specific("startup", 4),
    specific("startup", BEGINNING, COMMITTED, 5),
    specific("startup", 2, END),
]
ENDS: list[dict[str, str]] = [
    {},
    {"scan.bounded.mode": "latest-offset"},
    {"scan.bounded.mode": "group-offsets"},
    {"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": str(LATER)},
    specific("bounded", 11, COMMITTED),
    specific("bounded", END, 100),
    specific("bounded", 4, 0),
]


def as_spark_resolves(admin: Admin, options: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Return the starts and ends that Spark's source would look up for its options."""
    found = {}
    for side, words in (("starting", {"earliest": FIRST}), ("ending", {"latest": LAST})):
        text = options.get(f"{side}Offsets")
        if text is None:
            known = admin.later[int(options[f"{side}Timestamp"])]["t"]
            numbers = {n: LAST[n] if offset < 0 else offset for n, offset in known.items()}
        elif text in words:
            numbers = words[text]
        else:
            numbers = {int(n): offset for n, offset in json.loads(text)["t"].items()}
            numbers = {n: {-1: LAST, -2: FIRST}.get(offset, {n: offset})[n] for n, offset in numbers.items()}
        found[side] = {str(n): offset for n, offset in numbers.items()}
    return found


def test_numbers_are_those_that_spark_gets_or_looks_up(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = 0
    for start, end in itertools.product(STARTS, ENDS):
        admin = brokers()
        kv = table(admin, monkeypatch, start | end)
        wanted = as_spark_resolves(admin, spark_offsets(kv, streaming=False)[0])
        found = OffsetPlan(kv).batch()
        by_number = {str(one.partition): (one.start, one.end) for one in found.ranges}
        pairs = {n: (wanted["starting"][n], wanted["ending"][n]) for n in wanted["starting"]}
        assert by_number == {n: pair for n, pair in pairs.items() if pair[0] < pair[1]}, (start, end)
        assert dict(found.notes) == spark_offsets(kv, streaming=False)[1]
        cases += 1
    assert cases == 42


@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        ({"scan.startup.mode": "latest-offset"}, LAST),
        ({"scan.startup.mode": "earliest-offset"}, FIRST),
        ({"scan.startup.mode": "group-offsets"}, COMMITTED_OFFSETS),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": str(TIME)}, {0: 5, 1: 4, 2: 5}),
        (specific("startup", END, BEGINNING, 77), {0: 12, 1: 0, 2: 5}),
    ],
)
def test_the_start_of_a_stream(start: dict[str, str], wanted: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = OffsetPlan(table(brokers(ids={"t": "id1"}), monkeypatch, start))
    assert plan.initial() == TopicOffsets({("t", n): offset for n, offset in wanted.items()}, {"t": "id1"})


def test_a_lost_group_offset_follows_the_reset_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = {}
    for policy in ("earliest", "latest"):
        options = {"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": policy}
        admin = brokers()
        admin.committed = {"t": {0: 7, 1: 77}}
        starts[policy] = OffsetPlan(table(admin, monkeypatch, options)).initial().offsets
    assert starts["earliest"] == {("t", 0): 7, ("t", 1): 0, ("t", 2): 5}
    assert starts["latest"] == {("t", 0): 7, ("t", 1): 9, ("t", 2): 5}
    admin = brokers()
    admin.committed = {}
    with pytest.raises(OptionError, match="Undefined offset with no reset policy"):
        OffsetPlan(table(admin, monkeypatch, {"scan.startup.mode": "group-offsets"})).initial()


# --- open transactions -------------------------------------------------------------------------------------

COMMITTED_ONLY = {"properties.isolation.level": "read_committed"}


def test_committed_records_end_before_open_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    stable = {"t": {0: 8, 1: 9, 2: 5}}
    wanted = [(0, 3, 8), (1, 0, 9)]
    for end in ENDS[:2]:
        plan = OffsetPlan(table(brokers(stable=stable), monkeypatch, COMMITTED_ONLY | end))
        assert [(one.partition, one.start, one.end) for one in plan.batch().ranges] == wanted
    later = {"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": str(LATER)}
    plan = OffsetPlan(table(brokers(stable=stable), monkeypatch, COMMITTED_ONLY | later))
    assert [(one.partition, one.start, one.end) for one in plan.batch().ranges] == wanted
    uncommitted = OffsetPlan(table(brokers(stable=stable), monkeypatch, {}))
    assert [(one.partition, one.start, one.end) for one in uncommitted.batch().ranges] == [(0, 3, 12), (1, 0, 9)]


@pytest.mark.parametrize(("begin", "ranges"), [(10, (PartitionRange("t", 0, 10, 12),)), (12, ())])
def test_a_stream_in_an_open_transaction_waits_and_loses_nothing(
    begin: int, ranges: tuple[PartitionRange, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts at a record of the transaction: no end is before its start until the transaction ends."""
    admin = brokers(stable={"t": {0: 8, 1: 9, 2: 5}})
    plan = OffsetPlan(table(admin, monkeypatch, COMMITTED_ONLY | specific("startup", begin, 9, 5)))
    start = plan.initial()
    assert start.offsets[("t", 0)] == begin
    end = plan.latest(start)
    assert end.offsets == start.offsets
    assert plan.between(start, end).ranges == plan.between(start, end).losses == ()
    admin.stable = {"t": LAST}
    assert plan.between(start, plan.latest(start)).ranges == ranges


def test_the_offsets_of_a_topic_that_was_created_again_do_not_reach_into_an_open_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = OffsetPlan(table(brokers(stable={"t": {0: 8, 1: 9, 2: 5}}, ids={"t": "new"}), monkeypatch, COMMITTED_ONLY))
    start = at("old", p0=10, p1=9, p2=5)
    assert plan.latest(start).offsets == {("t", 0): 8, ("t", 1): 9, ("t", 2): 5}
    assert PartitionRange("t", 0, 3, 8) in plan.between(start, plan.latest(start)).ranges
    assert PartitionRange("t", 0, 3, 8) in plan.unread(start)


# --- what changed since a checkpoint -----------------------------------------------------------------------


def stream(
    monkeypatch: pytest.MonkeyPatch, first: Mapping[int, int], last: Mapping[int, int], topic_id: str = "id1"
) -> OffsetPlan:
    ids = {"t": topic_id} if topic_id else {}
    return OffsetPlan(table(Admin({"t": first}, {"t": last}, ids=ids), monkeypatch, {}))


def at(topic_id: str = "id1", **offsets: int) -> TopicOffsets:
    numbers = {("t", int(name.removeprefix("p"))): offset for name, offset in offsets.items()}
    return TopicOffsets(numbers, {"t": topic_id} if topic_id else {})


def test_a_micro_batch_has_the_ranges_between_two_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = stream(monkeypatch, {0: 0, 1: 0, 2: 0}, {0: 9, 1: 5, 2: 7})
    found = plan.between(at(p0=4, p1=5, p2=0), at(p0=9, p1=5, p2=6))
    assert found.ranges == (PartitionRange("t", 0, 4, 9), PartitionRange("t", 2, 0, 6))
    assert found.losses == ()


def test_new_partitions_begin_at_the_oldest_record(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = stream(monkeypatch, {0: 0, 1: 0, 2: 3}, {0: 9, 1: 5, 2: 7})
    start = at(p0=9)
    end = plan.latest(start)
    found = plan.between(start, end)
    assert found.ranges == (PartitionRange("t", 1, 0, 5), PartitionRange("t", 2, 3, 7))
    assert found.losses == ("t-2 is new, and its first records, up to offset 3, are deleted",)


CREATED_AGAIN = "t-0: the topic was deleted and created again, with the records"


@pytest.mark.parametrize(
    ("first", "last", "start", "end", "ranges", "told"),
    [
        # deleted by retention: some of the records, all of them, and those before the start
        ({0: 6}, {0: 9}, at(p0=2), at(p0=9), [(6, 9)], "t-0: the records from offset 2 to 6 are deleted"),
        ({0: 9}, {0: 9}, at(p0=2), at(p0=8), [], "t-0: the records from offset 2 to 8 are deleted"),
        ({0: 6}, {0: 9}, at(p0=6), at(p0=9), [(6, 9)], ""),
        ({0: 6}, {0: 9}, at(p0=2), at(p0=2), [], ""),
        # created again: shorter, longer, while the micro-batch was planned; the ids tell
        ({0: 0}, {0: 3}, at("old", p0=7), at(p0=3), [(0, 3)], CREATED_AGAIN),
        ({0: 0}, {0: 20}, at("old", p0=7), at(p0=20), [(0, 20)], "again, with the records from 7; the new ones"),
        ({0: 0}, {0: 20}, at("old", p0=7), at("old", p0=9), [], CREATED_AGAIN),
        # without ids, only a shorter topic can be told
        ({0: 0}, {0: 3}, at("", p0=7), at("", p0=3), [(0, 3)], "t-0 ends at offset 3, but 7 was there"),
        ({0: 0}, {0: 3}, at("", p0=2), at("", p0=9), [(0, 3)], "t-0 ends at offset 3, but 9 was there"),
        # the same topic, with an end that went back
        ({0: 0}, {0: 5}, at(p0=7), at(p0=5), [], "t-0 ends at offset 5, but 7 was there: its last"),
        ({0: 0}, {0: 5}, at(p0=2), at(p0=9), [(2, 5)], "t-0 ends at offset 5, but 9 was there: its last"),
        # partitions that are not there
        ({0: 0}, {0: 5}, at(p0=2, p1=4), at(p0=5, p1=9), [(2, 5)], "t-1 is not there any more, with its records"),
    ],
)  # fmt: skip
def test_what_was_lost(
    first: dict[int, int],
    last: dict[int, int],
    start: TopicOffsets,
    end: TopicOffsets,
    ranges: list[tuple[int, int]],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = stream(monkeypatch, first, last, end.topic_ids.get("t", "") and "id1").between(start, end)
    assert [(one.start, one.end) for one in found.ranges] == ranges
    assert bool(found.losses) == bool(told)
    assert all(told in loss for loss in found.losses)


def test_offsets_of_a_checkpoint_have_the_form_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    found = TopicOffsets({("b", 0): 1, ("a", 10): 2, ("a", 2): 3}, {"b": "id2", "a": "id1"})
    text = json.dumps(found.as_json())
    assert text == '{"a": {"2": 3, "10": 2}, "b": {"0": 1}, "$topic_ids": {"a": "id1", "b": "id2"}}'
    assert TopicOffsets.from_json(json.loads(text)) == found
    assert TopicOffsets.from_json({"a": {"0": 5}}) == TopicOffsets({("a", 0): 5}, {})
    assert by_topic({}) == {}


def test_newest_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = OffsetPlan(table(brokers(), monkeypatch, {}))
    assert plan.newest(4) == (PartitionRange("t", 0, 8, 12), PartitionRange("t", 1, 5, 9))
    assert plan.newest(100) == (PartitionRange("t", 0, 3, 12), PartitionRange("t", 1, 0, 9))


def test_topics_by_pattern_and_missing_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros, fives = {name: {0: 0} for name in ("a", "ab", "c")}, {name: {0: 5} for name in ("a", "ab", "c")}
    admin = Admin(zeros, fives, ids={"a": "i1", "ab": "i2"})
    plan = OffsetPlan(table(admin, monkeypatch, {"topic": None, "topic-pattern": "a.*"}))
    assert [one.topic for one in plan.batch().ranges] == ["a", "ab"]
    assert plan.initial().topic_ids == {"a": "i1", "ab": "i2"}
    with pytest.raises(OptionError, match="there is no topic 'aa', whose offsets are asked for"):
        OffsetPlan(table(admin, monkeypatch, {"topic": "aa"})).batch()
    assert OffsetPlan(table(admin, monkeypatch, {"topic": None, "topic-pattern": "x"})).batch().ranges == ()


@pytest.mark.parametrize("start", [STARTS[0], STARTS[2]], ids=["earliest", "timestamp"])
def test_a_broker_that_starts_is_asked_again(monkeypatch: pytest.MonkeyPatch, start: dict[str, str]) -> None:
    """It answers without an error and without an offset, which is neither 0 nor the end."""
    monkeypatch.setattr(kafka_brokers, "_PAUSE", 0)
    wanted = OffsetPlan(table(brokers(), monkeypatch, start)).initial()
    for answers in range(1, 4):
        assert OffsetPlan(table(brokers(starting=answers), monkeypatch, start)).initial() == wanted
    monkeypatch.setattr(kafka_brokers, "_PASSING", {})
    with pytest.raises(BrokerError, match="could not be asked for offsets: "):
        OffsetPlan(table(brokers(starting=1), monkeypatch, start)).initial()


# --- a real broker -----------------------------------------------------------------------------------------


def real_plan(broker: Any, topic: str, **options: str) -> OffsetPlan:
    given = {"connector": "kafka", "topic": topic, "format": "raw", "properties.bootstrap.servers": broker.bootstrap}
    given |= {"scan.startup.mode": "earliest-offset"}
    return OffsetPlan(KeyValueFormat("v BYTES", given | {k.replace("_", "."): v for k, v in options.items()}).planned())


@pytest.mark.services
def test_topics_that_are_created_again_or_grow(broker: Any) -> None:
    topic = broker.create("plan-again", 1)
    broker.send(topic, [(None, b"v")] * 5)
    plan = real_plan(broker, topic)
    start = plan.initial()
    seen = TopicOffsets.from_json(json.loads(json.dumps(plan.latest(start).as_json())))
    assert plan.between(start, seen).ranges == (PartitionRange(topic, 0, 0, 5),)
    broker.add_partitions(topic, 2)
    broker.send(topic, [(None, b"v")] * 3, partition=1)
    assert plan.between(seen, plan.latest(seen)).ranges == (PartitionRange(topic, 1, 0, 3),)
    broker.delete(topic)
    with pytest.raises(OptionError, match="there is no topic 'plan-again'"):
        plan.latest(seen)
    broker.create(topic, 1)
    broker.send(topic, [(None, b"v")] * 9, partition=0)
    found = plan.between(seen, plan.latest(seen))
    assert found.ranges == (PartitionRange(topic, 0, 0, 9),)
    assert found.losses == (
        f"{topic}-0: the topic was deleted and created again, with the records from 5; the new ones begin at 0",
    )


@pytest.mark.services
def test_an_open_transaction_ends_a_batch_of_committed_records(broker: Any) -> None:
    topic = broker.create("plan-open", 1)
    broker.send(topic, [(None, b"v")] * 4)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(30) == 0
    committed = real_plan(broker, topic, properties_isolation_level="read_committed")
    assert committed.batch().ranges == (PartitionRange(topic, 0, 0, 4),)
    assert real_plan(broker, topic).batch().ranges == (PartitionRange(topic, 0, 0, 5),)
    producer.commit_transaction(30)
    deadline = time.monotonic() + 30
    while committed.batch().ranges != (PartitionRange(topic, 0, 0, 6),):  # the marker comes later
        assert time.monotonic() < deadline
        time.sleep(0.1)
