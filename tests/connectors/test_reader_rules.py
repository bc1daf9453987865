"""When a range is complete, which errors pass, and what is lost: with a consumer in memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kvformat.connectors.reader import clients, read
from kvformat.connectors.reader.client_settings import ReaderSettings
from kvformat.connectors.reader.fetched import Fetched, LayoutError
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.connectors.reader.read import OnLoss
from kvformat.registry.contract.errors import DataLossError, ReadError

AT = PartitionRange("t", 3, 10, 20)
SETTINGS = ReaderSettings((("properties.bootstrap.servers", "b:1"),), 300)
OUT_OF_RANGE = Fetched(error="_AUTO_OFFSET_RESET", reason="Offset out of range")
MISSING = ("UNKNOWN_TOPIC_OR_PART", "topic does not exist")


def records(*offsets: int) -> Fetched:
    return Fetched(pa.record_batch({"offset": pa.array(offsets, pa.int64())}), offsets[-1] + 1)


class ScriptedClient:
    """A consumer with given answers, then none. `edges` are answers about what is there, `begun` the ranges begun."""

    def __init__(
        self,
        answers: list[Any],
        edges: Sequence[Any] = (),
        said: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.answers, self.edges_, self.said_ = answers, list(edges), list(said)
        self.begun: list[tuple[int, int]] = []
        self.stopped = self.closed = 0

    def begin(self, at: PartitionRange, fields: tuple[str, ...]) -> None:
        self.begun.append((at.start, at.end))

    def fetch(self, seconds: float) -> Fetched:
        if not self.answers:
            time.sleep(0.01)
            return Fetched()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def edges(self, at: PartitionRange, seconds: float) -> Any:
        found = self.edges_.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def said(self) -> list[tuple[str, str]]:
        return self.said_

    def stop(self) -> None:
        self.stopped += 1

    def close(self) -> None:
        self.closed += 1


def read_with(client: ScriptedClient, on_loss: OnLoss | None = None) -> list[int]:
    """Read the range with this client, and return the offsets."""
    clients.close_all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "_new", lambda _: client)
        batches = list(read.read_range(SETTINGS, AT, ["offset"], on_loss=on_loss))
    clients.close_all()
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def scripted(*answers: Fetched, **more: Any) -> tuple[list[int], ScriptedClient]:
    """Read the range from answers; returns the offsets and the client."""
    on_loss = more.pop("on_loss", None)
    client = ScriptedClient(list(answers), **more)
    return read_with(client, on_loss), client


def test_a_record_or_the_end_of_the_partition_completes_a_range() -> None:
    found, client = scripted(records(10, 11), Fetched(), records(14), Fetched(position=20))
    assert found == [10, 11, 14]
    assert (client.begun, client.stopped, client.closed) == ([(10, 20)], 1, 1), "closed after the test"


@pytest.mark.parametrize("last", [records(19), Fetched(position=21), Fetched(position=20)])
def test_the_last_offset_need_not_have_a_record(last: Fetched) -> None:
    assert scripted(records(10), last)[0] == ([10, 19] if last.batch is not None else [10])


@pytest.mark.parametrize(
    "name",
    [
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        "NOT_LEADER_FOR_PARTITION",
        "KAFKA_STORAGE_ERROR",
        "GROUP_AUTHORIZATION_FAILED",
    ],
)
def test_passing_errors_do_not_end_a_range(name: str) -> None:
    found, client = scripted(records(10), Fetched(error=name, reason="passing"), records(19))
    assert (found, len(client.begun)) == ([10, 19], 1)


@pytest.mark.parametrize(
    "name", ["_BAD_MSG", "_BAD_COMPRESSION", "TOPIC_AUTHORIZATION_FAILED", "UNSUPPORTED_COMPRESSION_TYPE"]
)
def test_other_errors_end_it_after_the_records_before(name: str) -> None:
    """A damaged record is not skipped silently."""
    with pytest.raises(
        ReadError, match=r"cannot read t-3, offsets 10 to 20, of which those before 13 were read: wrong$"
    ) as raised:
        scripted(records(10, 12), Fetched(error=name, reason="wrong"), records(19))
    assert not isinstance(raised.value, DataLossError)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 3, 13)
    assert raised.value.reason == "wrong"


def test_a_range_without_records_is_given_up_after_the_wait() -> None:
    begun = time.monotonic()
    with pytest.raises(ReadError, match=r"no record arrived for 0\.3 s, after the end .* at offset 15 \(refused\)"):
        scripted(records(10), Fetched(position=15), said=[("_TRANSPORT", "refused")])
    assert 0.3 <= time.monotonic() - begun < 2


def test_secrets_are_not_in_errors() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="Tr0ub4dor";'
    given = {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    given |= {"sasl.jaas.config": jaas}
    settings = ReaderSettings(tuple((f"properties.{name}", text) for name, text in given.items()), 300)
    reading = read._Reading(settings, AT, ScriptedClient([]), None)  # type: ignore[arg-type]
    with pytest.raises(ReadError, match=r"login of u:.* failed") as raised:
        reading.after(Fetched(error="_AUTHENTICATION", reason="login of u:Tr0ub4dor failed"))
    assert "Tr0ub4dor" not in f"{raised.value} {raised.value.reason}"


def test_messages_of_another_structure_are_read_by_the_other_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_layout_faults", [])
    client = ScriptedClient([LayoutError("another"), records(10), records(19)])
    assert read_with(client) == [10, 19]
    assert clients._layout_faults == ["another"]


def test_nobody_is_asked_for_an_empty_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_new", lambda _: pytest.fail("a consumer was made"))
    assert list(read.read_range(SETTINGS, PartitionRange("t", 0, 5, 5))) == []


def test_an_error_closes_the_client_and_the_end_of_a_range_keeps_it() -> None:
    client = ScriptedClient([records(10), RuntimeError("a bug")])
    with pytest.raises(RuntimeError, match="a bug"):
        read_with(client)
    assert (client.stopped, client.closed) == (0, 1)


# --- lost records ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edges", "begun", "offsets"),
    [
        ((15, 40), (15, 20), [10, 19]),
        ((20, 40), None, [10]),
        ((99, 99), None, [10]),
        ((0, 5), None, [10]),  # a topic that was created again is shorter
    ],
)
def test_lost_records_are_skipped_only_if_the_caller_takes_the_error(
    edges: tuple[int, int], begun: tuple[int, int] | None, offsets: list[int]
) -> None:
    lost: list[DataLossError] = []
    found, client = scripted(records(10), OUT_OF_RANGE, records(19), edges=(edges,), on_loss=lost.append)
    assert found == offsets
    assert client.begun[1:] == ([begun] if begun else [])
    (error,) = lost
    assert f"Offset out of range; the partition has offsets {edges[0]} to {edges[1]}. The records were" in str(error)
    assert error.offset == 11


def test_the_wait_begins_again_after_lost_records(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(read, "time", clock)
    client = ScriptedClient([Fetched(), OUT_OF_RANGE, Fetched(), records(19)], edges=[(15, 40)])
    answer = client.fetch

    def fetch(seconds: float) -> Fetched:
        clock.now += 0.2  # the wait is 0.3 s
        return answer(seconds)

    monkeypatch.setattr(client, "fetch", fetch)
    assert read_with(client, lambda _: None) == [19]


def test_lost_records_are_an_error() -> None:
    with pytest.raises(
        DataLossError, match=r"those before 11 were read: Offset out of range; the partition has offsets 15 to"
    ):
        scripted(records(10), OUT_OF_RANGE, edges=((15, 40),))


@pytest.mark.parametrize("edges", [(0, 40), (11, 40), (0, 11)])
def test_nothing_is_lost_if_the_offset_is_there(edges: tuple[int, int]) -> None:
    """A broker that has just become the leader may not know it yet. The end of the partition is there, too."""
    found, client = scripted(records(10), OUT_OF_RANGE, records(19), edges=(edges,))
    assert (found, client.begun) == ([10, 19], [(10, 20), (11, 20)])


def test_nothing_is_lost_if_the_brokers_do_not_tell() -> None:
    """Otherwise on_loss would skip records that are there."""
    lost: list[DataLossError] = []
    with pytest.raises(ReadError, match="the brokers could not be asked which offsets are there: timed out"):
        scripted(OUT_OF_RANGE, edges=(ConnectionError("timed out"),), on_loss=lost.append)
    assert lost == []


def test_a_topic_is_missing_only_if_it_stays_so() -> None:
    """A broker that starts may not know all topics."""
    found, client = scripted(Fetched(error=MISSING[0], reason=MISSING[1]), records(10), records(19))
    assert (found, client.begun) == ([10, 19], [(10, 20), (10, 20)])


def test_a_topic_is_missing_since_the_last_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_MISSING", 0.05)
    missing = Fetched(error=MISSING[0], reason=MISSING[1])
    client = ScriptedClient([missing, records(10), missing, records(19)])
    answer = client.fetch

    def fetch(seconds: float) -> Fetched:
        time.sleep(0.04)
        return answer(seconds)

    monkeypatch.setattr(client, "fetch", fetch)
    assert read_with(client) == [10, 19]


@pytest.mark.parametrize("edges", [None, (0, 40)])
def test_a_missing_topic_is_looked_up_again(edges: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the connections tells that it is missing."""
    monkeypatch.setattr(read, "_MISSING", 0.05)
    lost: list[DataLossError] = []
    client = ScriptedClient([Fetched(), records(19)], edges=[edges], said=[MISSING])
    answer = client.fetch

    def fetch(seconds: float) -> Fetched:
        time.sleep(0.02)  # begun again, it is missing after another while only
        return answer(seconds) if len(client.begun) > 1 else Fetched()

    monkeypatch.setattr(client, "fetch", fetch)
    found = read_with(client, lost.append)
    assert (found, len(lost), len(client.begun)) == (([], 1, 1) if edges is None else ([19], 0, 2))
    assert edges is not None or "Unknown topic or partition. The records were deleted" in str(lost[0])
