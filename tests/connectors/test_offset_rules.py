"""Rules of start and end offsets, with brokers in memory; test_offsets.py asks real ones."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kvformat.connectors import offsets
from kvformat.connectors.offset_plan import OffsetPlan
from kvformat.connectors.offsets import spark_offsets
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.registry.contract.errors import BrokerError, ConfigurationError, OptionError
from tests.support.memory_brokers import BEGINNING, COMMITTED, END, Admin, table


def start_of(kv: Any, *, streaming: bool = False) -> dict[str, int]:
    return dict(json.loads(spark_offsets(kv, streaming=streaming, end=False)[0]["startingOffsets"])["t"])


def end_of(kv: Any) -> dict[str, int]:
    return dict(json.loads(spark_offsets(kv, streaming=False, start=False)[0]["endingOffsets"])["t"])


def one(first: int, last: int, committed: int | None = None) -> Admin:
    return Admin({"t": {0: first}}, {"t": {0: last}}, {} if committed is None else {"t": {0: committed}})


def specific(side: str, offset: int) -> dict[str, str]:
    return {f"scan.{side}.mode": "specific-offsets", f"scan.{side}.specific-offsets": f"partition:0,offset:{offset}"}


# --- the start ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("committed", "reset", "streaming", "wanted"),
    [
        (3, "none", False, 3),  # the oldest record
        (7, "none", False, 7),  # the end: the group has read all
        (0, "none", False, 0),
        (3, "latest", True, 3),
        (7, "earliest", True, 7),
        (2, "earliest", False, BEGINNING),
        (8, "earliest", False, BEGINNING),
        (2, "latest", False, 7),
        (8, "latest", False, 7),
        (8, "LATEST", True, END),
        (None, "earliest", True, BEGINNING),
        (None, "latest", False, 7),
    ],
)
def test_a_committed_offset_counts_from_the_oldest_record_to_the_end(
    committed: int | None, reset: str, streaming: bool, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": reset}
    first = 0 if committed == 0 else 3
    assert start_of(table(one(first, 7, committed), monkeypatch, options), streaming=streaming) == {"0": wanted}


@pytest.mark.parametrize(
    ("committed", "told"),
    [
        (2, "has committed for t-0: 2, which is not in 3 to 7"),
        (8, "has committed for t-0: 8, which is not in 3 to 7"),
        (None, "has committed for t-0: nothing"),
    ],
)
@pytest.mark.parametrize("reset", [None, "none", "None"])
def test_without_a_reset_policy_a_lost_offset_is_an_error(
    committed: int | None, told: str, reset: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": reset}
    with pytest.raises(OptionError, match=told) as raised:
        start_of(table(one(3, 7, committed), monkeypatch, options))
    assert raised.value.option == "properties.auto.offset.reset"


@pytest.mark.parametrize(("count", "more"), [(20, False), (21, True)])
def test_an_error_names_twenty_partitions_and_counts_the_others(
    count: int, more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = {"t": dict.fromkeys(range(count), 0)}
    kv = table(Admin(zeros, zeros), monkeypatch, {"scan.startup.mode": "group-offsets"})
    with pytest.raises(OptionError, match="t-19: nothing") as raised:
        start_of(kv)
    assert ("; and 1 more" in str(raised.value), "t-20" in str(raised.value)) == (more, False)
    kv = table(Admin(zeros, zeros), monkeypatch, {"scan.bounded.mode": "group-offsets"})
    with pytest.raises(OptionError, match="t-18, t-19") as raised:
        end_of(kv)
    assert (" and 1 more" in str(raised.value), "t-20" in str(raised.value)) == (more, False)


@pytest.mark.parametrize(
    ("offset", "committed", "streaming", "wanted"),
    [
        (3, 5, False, 3),
        (7, 5, False, 7),
        (2, 5, False, BEGINNING),  # the record is deleted
        (8, 5, False, BEGINNING),
        (END, 5, False, 7),
        (END, 5, True, END),
        (BEGINNING, 5, False, BEGINNING),
        (COMMITTED, 5, False, 5),
        (COMMITTED, 3, False, 3),
        (COMMITTED, 7, False, 7),
        (COMMITTED, 2, False, BEGINNING),
        (COMMITTED, 8, False, BEGINNING),
        (COMMITTED, None, False, BEGINNING),
    ],
)
def test_a_given_start_offset_counts_from_the_oldest_record_to_the_end(
    offset: int, committed: int | None, streaming: bool, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kv = table(one(3, 7, committed), monkeypatch, specific("startup", offset))
    assert start_of(kv, streaming=streaming) == {"0": wanted}


def test_partitions_without_a_given_start_begin_at_the_committed_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros, nines = dict.fromkeys(range(12), 0), dict.fromkeys(range(12), 9)
    admin = Admin({"t": zeros}, {"t": nines}, {"t": {1: 4, 10: 5}})
    found = start_of(table(admin, monkeypatch, specific("startup", 8)))
    assert list(found) == [str(number) for number in range(12)], "by number, not by text"
    assert (found["0"], found["1"], found["2"], found["10"]) == (8, 4, BEGINNING, 5)


@pytest.mark.parametrize("side", ["startup", "bounded"])
def test_given_partitions_that_do_not_exist_give_a_note(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = f"scan.{side}.specific-offsets"
    options = specific(side, 5) | {key: "partition:0,offset:5;partition:1,offset:1;partition:7,offset:2"}
    found, notes = spark_offsets(table(one(0, 9), monkeypatch, options), streaming=False)
    assert notes == {key: f"'{key}' names partitions that do not exist: t-1, t-7"}
    name = "startingOffsets" if side == "startup" else "endingOffsets"
    assert json.loads(found[name]) == {"t": {"0": 5}}


def test_a_batch_cannot_start_at_the_end_but_a_stream_can(monkeypatch: pytest.MonkeyPatch) -> None:
    kv = table(one(0, 9), monkeypatch, {"scan.startup.mode": "latest-offset"})
    assert spark_offsets(kv, streaming=True, end=False)[0] == {"startingOffsets": "latest"}
    with pytest.raises(OptionError, match="a batch that starts at the end reads nothing"):
        spark_offsets(kv, streaming=False)


def test_the_default_start_is_that_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    assert start_of(table(one(0, 9, 4), monkeypatch, {"scan.startup.mode": None})) == {"0": 4}


# --- the end -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "committed", "wanted", "noted"),
    [
        (6, None, 6, False),
        (7, None, 7, False),
        (8, None, 7, True),  # a batch does not wait for a record
        (END, None, END, False),
        (COMMITTED, 5, 5, False),
        (COMMITTED, 7, 7, False),
        (COMMITTED, 8, 7, True),
    ],
)
def test_a_given_end_is_exclusive_and_at_most_that_of_the_topic(
    offset: int, committed: int | None, wanted: int, noted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kv = table(one(3, 7, committed), monkeypatch, specific("bounded", offset))
    found, notes = spark_offsets(kv, streaming=False)
    assert json.loads(found["endingOffsets"]) == {"t": {"0": wanted}}
    key = "scan.bounded.specific-offsets"
    told = f"'{key}' is after the last record; Flink waits for records, a batch does not: t-0 ends at 7, not at 8"
    assert notes == ({key: told} if noted else {})


def test_both_notes_on_given_ends_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "scan.bounded.specific-offsets"
    options = specific("bounded", 8) | {key: "partition:0,offset:8;partition:3,offset:1"}
    _, notes = spark_offsets(table(one(3, 7), monkeypatch, options), streaming=False)
    missing, late = f"'{key}' names partitions that do not exist: t-3", f"'{key}' is after the last record"
    assert notes[key].startswith(f"{missing}; {late}")


def test_partitions_without_a_given_end_end_at_the_committed_offset_or_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = Admin({"t": {0: 2, 1: 2, 2: 2}}, {"t": {0: 9, 1: 9, 2: 9}}, {"t": {0: 3, 1: 4}})
    assert end_of(table(admin, monkeypatch, specific("bounded", 7))) == {"0": 7, "1": 4, "2": 2}


@pytest.mark.parametrize(("committed", "wanted", "noted"), [(3, 3, False), (7, 7, False), (8, 7, True)])
def test_the_committed_end_is_exclusive_and_at_most_that_of_the_topic(
    committed: int, wanted: int, noted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kv = table(one(3, 7, committed), monkeypatch, {"scan.bounded.mode": "group-offsets"})
    found, notes = spark_offsets(kv, streaming=False)
    assert json.loads(found["endingOffsets"]) == {"t": {"0": wanted}}
    assert list(notes) == ["scan.bounded.mode"] * noted


@pytest.mark.parametrize(
    "options", [{"scan.bounded.mode": "group-offsets"}, specific("bounded", COMMITTED)], ids=["group", "specific"]
)
def test_an_end_that_is_not_committed_is_an_error(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"Partition t-0 should stop at committed offset.*for group g"):
        end_of(table(one(3, 7), monkeypatch, options))


@pytest.mark.parametrize(
    ("side", "offset", "allowed"),
    [
        ("startup", -4, r"-1 \(the end\), -2 \(the beginning\), -3 \(what the group has committed\)$"),
        ("bounded", -4, r"-1 \(the end\), -3 \(what the group has committed\)$"),
        ("bounded", BEGINNING, r"-1 \(the end\), -3 \(what the group has committed\)$"),
    ],
)
def test_negative_offsets_have_a_meaning_of_their_side(
    side: str, offset: int, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kv = table(one(3, 7), monkeypatch, specific(side, offset))
    with pytest.raises(OptionError, match=rf"partition 0: {offset} is not an offset. Negative numbers are {allowed}"):
        spark_offsets(kv, streaming=False)


@pytest.mark.parametrize("side", ["startup", "bounded"])
def test_a_committed_offset_needs_a_group(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kv = table(one(3, 7), monkeypatch, specific(side, COMMITTED) | {"properties.group.id": None})
    with pytest.raises(OptionError, match=r"Property group.id is required because partition t-0") as raised:
        spark_offsets(kv, streaming=False)
    assert raised.value.option == "properties.group.id"


# --- both --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "end", "wanted"), [(5, 4, 5), (5, 5, 5), (5, 6, 6), (5, END, END)])
def test_a_given_end_is_not_before_the_start(
    start: int, end: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kv = table(one(0, 9), monkeypatch, specific("startup", start) | specific("bounded", end))
    found, _ = spark_offsets(kv, streaming=False)
    assert {name: json.loads(text) for name, text in found.items()} == {
        "startingOffsets": {"t": {"0": start}},
        "endingOffsets": {"t": {"0": wanted}},
    }


START = 1_700_000_000_123


@pytest.mark.parametrize(("end", "wanted"), [(START - 1, START), (START, START), (START + 1, START + 1)])
def test_an_end_time_is_not_before_the_start_time(end: int, wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": str(START)}
    options |= {"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": str(end)}
    assert spark_offsets(table(one(0, 9), monkeypatch, options), streaming=False) == (
        {
            "startingTimestamp": str(START),
            "startingOffsetsByTimestampStrategy": "latest",  # a partition with older records only: from its end
            "endingTimestamp": str(wanted),
        },
        {},
    )


def test_a_time_becomes_offsets_if_the_other_side_has_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition is looked up; one without a record of this time is at its end."""
    firsts, lasts = {0: 0, 1: 0, 2: 0}, {0: 9, 1: 9, 2: 8}
    admin = Admin({"t": firsts}, {"t": lasts}, later={START: {"t": {0: 0, 1: 5, 2: -1}}})
    timed = {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": str(START)}
    kv = table(admin, monkeypatch, timed | specific("bounded", 4) | {"properties.group.id": None})
    found, _ = spark_offsets(kv, streaming=False)
    assert {name: json.loads(text)["t"] for name, text in found.items()} == {
        "startingOffsets": {"0": 0, "1": 5, "2": 8},
        "endingOffsets": {"0": 4, "1": 5, "2": 8},
    }
    timed = {"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": str(START)}
    kv = table(admin, monkeypatch, timed | specific("startup", 7) | {"properties.group.id": None})
    found, _ = spark_offsets(kv, streaming=False)
    assert json.loads(found["startingOffsets"])["t"] == {"0": 7, "1": BEGINNING, "2": BEGINNING}
    assert json.loads(found["endingOffsets"])["t"] == {"0": 7, "1": 5, "2": 8}


# --- topics and groups ---------------------------------------------------------------------------------------


def both(topics: Iterable[str], offset: int) -> dict[str, dict[int, int]]:
    return {topic: {0: offset} for topic in topics}


def test_a_pattern_finds_whole_names_and_no_internal_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("b", "a", "ab", "__consumer_offsets", "__transaction_state", "__share_group_state", "__own")
    admin = Admin(both(names, 1), both(names, 5), both(names, 3))
    options = {"topic": None, "topic-pattern": "[ab]|__.*", "scan.startup.mode": "group-offsets"}
    found, _ = spark_offsets(table(admin, monkeypatch, options), streaming=False, end=False)
    assert list(json.loads(found["startingOffsets"])) == ["__own", "a", "b"]


def test_topics_are_asked_for_once_each_and_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(both("ab", 1), both("ab", 5), both("ab", 3))
    options = {"topic": "b;a;b", "scan.startup.mode": "group-offsets"}
    found, _ = spark_offsets(table(admin, monkeypatch, options), streaming=False, end=False)
    assert json.loads(found["startingOffsets"]) == {"a": {"0": 3}, "b": {"0": 3}}
    with pytest.raises(OptionError, match="there is no topic 'c', whose offsets are asked for") as raised:
        spark_offsets(table(admin, monkeypatch, {**options, "topic": "a;c"}), streaming=False, end=False)
    assert raised.value.option == "topic"


def test_an_error_of_a_partition_is_not_a_missing_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin({"t": {0: 0, 1: 0}}, {"t": {0: 9, 1: 9}}, {"t": {0: 3, 1: 3}})
    admin.errors = {1: KafkaError.GROUP_AUTHORIZATION_FAILED}
    options = {"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": "earliest"}
    with pytest.raises(BrokerError, match="what the group 'g' has committed: Broker: Group authorization failed"):
        start_of(table(admin, monkeypatch, options))


@pytest.mark.parametrize(("count", "wanted"), [(1, 8), (6, 3), (7, 2), (8, 2), (100, 2)])
def test_newest_records_are_counted_from_the_end_to_the_oldest(
    count: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = OffsetPlan(table(one(2, 9), monkeypatch, {})).newest(count)
    assert found == (PartitionRange("t", 0, wanted, 9),)


def test_a_topic_pattern_without_topics_has_no_newest_records(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"topic": None, "topic-pattern": "nothing"}
    assert OffsetPlan(table(one(2, 9), monkeypatch, options)).newest(5) == ()


def test_a_group_with_members_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = one(0, 9)
    offsets.check_group_is_unused(table(admin, monkeypatch, {}))
    admin.members = (SimpleNamespace(client_id="c1", host="/1"), SimpleNamespace(client_id="c2", host="/2"))
    with pytest.raises(ConfigurationError, match=r"the group 'g' has 2 members.*: c1 at /1, c2 at /2\. Stop these"):
        offsets.check_group_is_unused(table(admin, monkeypatch, {}))
