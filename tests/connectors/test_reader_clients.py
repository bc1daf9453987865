"""Consumers of ranges without a broker: what they make of messages, what they forget, and which of them are kept."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kvformat.connectors.reader import clients, librdkafka
from kvformat.connectors.reader.client_settings import ReaderSettings
from kvformat.connectors.reader.clients import consuming
from kvformat.connectors.reader.direct_client import DirectClient
from kvformat.connectors.reader.message_client import MessageClient
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.connectors.reader.records import KAFKA_FIELDS

AT = PartitionRange("t", 3, 10, 20)
SETTINGS = ReaderSettings((("properties.bootstrap.servers", "127.0.0.1:1"),), 300)
EOF = KafkaError(KafkaError._PARTITION_EOF)
NAMES = tuple(KAFKA_FIELDS.names)


@pytest.fixture(params=["compiled", "messages"])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    library: Any = librdkafka.librdkafka()
    made = DirectClient(SETTINGS, library) if request.param == "compiled" else MessageClient(SETTINGS)
    yield made
    made.close()


def test_errors_of_the_range_before_are_forgotten(client: Any) -> None:
    """Otherwise a topic that is not there any more would make the next one missing."""
    client.begin(AT, ("value",))
    client._said.append(("UNKNOWN_TOPIC_OR_PART", "before"))
    assert client.said()[-1] == ("UNKNOWN_TOPIC_OR_PART", "before")
    client.begin(AT, ("value",))
    assert ("UNKNOWN_TOPIC_OR_PART", "before") not in client.said()


# --- messages --------------------------------------------------------------------------------------------------


def message(offset: int | None, *, error: Any = None, epoch: Any = None, **given: Any) -> Any:
    members = {"key": None, "value": b"v", "headers": None, "timestamp": (1, 5), "error": error, "offset": offset}
    members |= {"leader_epoch": epoch, **given}
    return SimpleNamespace(**{name: lambda value=value: value for name, value in members.items()})


def fetched(*messages: Any) -> Any:
    """Return what a client makes of messages when it reads `AT`."""
    client = object.__new__(MessageClient)
    client._at, client._fields = AT, NAMES
    return client._fetched(messages)


def offsets(*messages: Any) -> tuple[list[int], int, str]:
    found = fetched(*messages)
    return found.batch.column("offset").to_pylist() if found.batch else [], found.position, found.error


def test_records_from_the_end_of_the_range_on_are_left_out_and_complete_it() -> None:
    assert offsets(message(18), message(19)) == ([18, 19], 20, "")
    assert offsets(message(19), message(20), message(25)) == ([19], 26, "")
    assert offsets(message(20)) == ([], 21, "")
    assert offsets() == ([], -1, "")


def test_the_end_of_a_partition_is_a_position_and_never_goes_back() -> None:
    assert offsets(message(12, error=EOF)) == ([], 12, "")
    assert offsets(message(11), message(14, error=EOF)) == ([11], 14, "")
    assert offsets(message(11), message(None, error=EOF)) == ([11], 12, "")
    assert offsets(message(11), message(-1001, error=EOF)) == ([11], 12, "")


def test_records_before_an_error_are_given() -> None:
    failed = message(None, error=KafkaError(KafkaError._BAD_MSG, "damaged"))
    found = fetched(message(11), failed)
    assert (found.batch.num_rows, found.position, found.error, found.reason) == (1, 12, "_BAD_MSG", "damaged")


def test_records_without_columns_keep_their_number() -> None:
    """A count reads no column, and Arrow counts the rows of a batch by its columns."""
    client = object.__new__(MessageClient)
    client._at, client._fields = AT, ()
    assert client._fetched([message(10), message(12)]).batch.num_rows == 2  # type: ignore[union-attr]


def test_records_have_the_columns_of_sparks_source() -> None:
    latest = (2**63 - 1) // 1000
    batch = fetched(
        message(10, key=b"k", headers=[("a", b"1"), ("a", None)], timestamp=(2, 1500), epoch=0),
        message(11, value=None, timestamp=(0, -1), epoch=-1),
        message(12, headers=[], timestamp=(1, latest + 1)),
    ).batch
    assert batch.schema == KAFKA_FIELDS
    columns = {name: batch.column(name) for name in NAMES}
    assert columns["timestamp"].cast("int64").to_pylist() == [1_500_000, -1000, latest * 1000]
    assert columns["timestamp"][0].as_py() == dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, dt.UTC)
    expected = {
        **{"key": [b"k", None, None], "value": [b"v", None, b"v"], "topic": ["t"] * 3, "partition": [3] * 3},
        **{"offset": [10, 11, 12], "timestampType": [1, -1, 0], "leaderEpoch": [0, None, None]},
        "headers": [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None, []],
    }
    assert {name: columns[name].to_pylist() for name in expected} == expected


# --- consumers that are kept -----------------------------------------------------------------------------------


class Kept:
    """A consumer that counts its ends of ranges and its closings."""

    def __init__(self, settings: ReaderSettings) -> None:
        self.settings, self.stopped, self.closed = settings, 0, 0

    def stop(self) -> None:
        self.stopped += 1

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Kept]]:
    """Keep the consumers that are made. No other ones are idle."""
    found: list[Kept] = []
    clients.close_all()
    monkeypatch.setattr(clients, "_new", lambda settings: found.append(Kept(settings)) or found[-1])
    yield found
    clients.close_all()


def with_password(text: str) -> ReaderSettings:
    return ReaderSettings((*SETTINGS.options, ("properties.ssl.key.password", text)), 300)


def test_a_consumer_is_kept_for_ranges_of_the_same_settings(made: list[Kept]) -> None:
    for password in ("a", "a", "ab", "a"):
        with consuming(with_password(password)) as client:
            assert client.settings == with_password(password)  # type: ignore[union-attr]
    assert [(one.stopped, one.closed) for one in made] == [(3, 0), (1, 0)]


def test_a_consumer_serves_one_range_at_a_time(made: list[Kept]) -> None:
    with consuming(SETTINGS):
        pass
    with consuming(SETTINGS) as first, consuming(SETTINGS) as second:
        assert first is not second
    with consuming(SETTINGS) as third:
        assert third is first, "the one that was given back last"
    assert [one.stopped for one in made] == [3, 1]


def test_a_range_that_is_not_read_to_its_end_keeps_the_consumer(made: list[Kept]) -> None:
    def rows() -> Iterator[int]:
        with consuming(SETTINGS):
            yield 1

    begun = rows()
    next(begun)
    begun.close()  # type: ignore[attr-defined]
    with consuming(SETTINGS):
        pass
    assert [(one.stopped, one.closed) for one in made] == [(2, 0)]


def test_four_idle_consumers_are_kept_the_latest_ones(made: list[Kept]) -> None:
    for number in range(6):
        with consuming(with_password(str(number))):
            pass
    assert [one.closed for one in made] == [1, 1, 0, 0, 0, 0]
    clients.close_all()
    assert [one.closed for one in made] == [1] * 6


@pytest.mark.parametrize(("seconds", "closed"), [(300, [0]), (301, [1, 0])])
def test_a_consumer_that_was_idle_for_five_minutes_is_closed(
    seconds: int, closed: list[int], made: list[Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may have closed its connections, and nobody needs it."""
    begun = time.monotonic()
    for passed in (0, seconds):
        monkeypatch.setattr(clients, "time", SimpleNamespace(monotonic=lambda passed=passed: begun + passed))
        with consuming(SETTINGS):
            pass
    assert [one.closed for one in made] == closed


def test_a_forked_child_leaves_the_consumers_of_its_parent_alone(
    made: list[Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    with consuming(SETTINGS):
        monkeypatch.setattr(clients.os, "getpid", lambda: -1)
    with contextlib.suppress(KeyError), consuming(SETTINGS):
        monkeypatch.setattr(clients.os, "getpid", lambda: -2)
        raise KeyError
    assert [(one.stopped, one.closed) for one in made] == [(0, 0), (0, 0)]
