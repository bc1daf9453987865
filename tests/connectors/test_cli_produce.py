"""`produce` with a producer in memory: which records are written, and with which settings."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kvformat.connectors import brokers
from kvformat.connectors.cli import _framing, produce
from kvformat.connectors.producer_settings import LARGEST_BATCH
from kvformat.registry.contract.errors import OptionError
from tests.support.cli import lines, run

SERVERS = {"properties.bootstrap.servers": "b:1"}


@pytest.mark.parametrize(
    ("moment", "millis"),
    [
        (dt.datetime(2024, 2, 29, 12, 0, 0, 123_999, tzinfo=dt.UTC), 1_709_208_000_123),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC), -1),
        (-1, -1),
        (1_500_999, 1500),
    ],
)
def test_a_timestamp_is_cut_to_milliseconds_before_1970_too(moment: Any, millis: int) -> None:
    assert produce._millis(moment) == millis


class Producer:
    """Keeps records. `errors` has the error of the answer for a value, `full` how often the queue is full.

    settings: those of the client. asked: the topics of which the partitions were asked for.
    """

    def __init__(self, errors: Mapping[bytes, int] | None = None, full: int = 0) -> None:
        self.errors, self.full = errors or {}, full
        self.records: list[tuple[Any, ...]] = []
        self.settings: Mapping[str, Any] = {}
        self.asked: list[str] = []
        self._open: list[Callable[[], None]] = []

    def produce(self, topic: str, value: bytes | None, key: bytes | None, *, on_delivery: Any, **more: Any) -> None:
        if self.full:
            self.full -= 1
            raise BufferError
        if value == b'{"id":13}':
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        code = self.errors.get(value or b"")
        self.records.append((topic, key, value, more))
        self._open.append(lambda: on_delivery(None if code is None else KafkaError(code), None))

    def poll(self, _: float) -> None:
        self.flush(0)

    def flush(self, _: float) -> None:
        while self._open:
            self._open.pop(0)()

    def __len__(self) -> int:
        return len(self._open)


@pytest.fixture
def produced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[Producer, Any]]:
    """Return a function that produces lines to a table of topic `t` with two partitions."""

    def run_(
        given: Sequence[Any], *arguments: str, columns: str = "", limits: Sequence[int] = (), **more: Any
    ) -> tuple[Producer, Any]:
        producer = Producer(**more)

        def partitions_of(options: Any, topics: Sequence[str], pattern: Any) -> dict[str, list[int]]:
            for name in topics:
                producer.asked.append(name)
                if name not in ("t", "u", "new"):
                    raise OptionError(f"there is no topic {name!r}", option="topic")
            return {name: [0, 1] if name != "new" else [] for name in topics}

        monkeypatch.setattr(produce, "partitions_of", partitions_of)

        def make_client(_: Any, settings: Mapping[str, Any], __: Any) -> Producer:
            producer.settings = settings
            return producer

        monkeypatch.setattr(produce, "largest_messages", lambda *_: limits)
        monkeypatch.setattr(brokers, "make_client", make_client)
        file = tmp_path / "t.sql"
        file.write_text(
            f"CREATE TABLE t (id INT{columns}) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', "
            "'properties.bootstrap.servers' = 'b:1')"
        )
        text = "".join(f"{json.dumps(row)}\n" for row in given)
        return producer, run("produce", file, *arguments, "--json", given=text.encode())

    return run_


def test_each_row_is_delivered_bad_or_failed(produced: Any) -> None:
    given = [{"id": 1}, {"id": "x"}, {"id": 2}, {"id": 13}, {"id": 3}]
    producer, result = produced(given, errors={b'{"id":2}': KafkaError.TOPIC_AUTHORIZATION_FAILED}, full=2)
    assert producer.records == [("t", None, b'{"id":%d}' % n, {}) for n in (1, 2, 3)]
    *faults, counts = lines(result.stderr)
    assert counts == {"rows": 5, "delivered": 2, "bad": 2, "failed": 1}
    assert sorted((fault["message"], fault["code"]) for fault in faults) == [
        (2, "WRONG_TYPE"),
        (3, "TOPIC_AUTHORIZATION_FAILED"),
        (4, "BAD_RECORD"),
    ]
    assert result.exit_code == 1
    assert produced([{"id": 1}])[1].exit_code == 0


def test_metadata_of_a_row_chooses_its_record(produced: Any) -> None:
    given = [
        {"id": 1, "topic": "u", "partition": 1, "timestamp": "2024-02-29T12:00:00.123Z"},
        {"id": 2, "header-list": [{"key": "h", "value": "/w=="}, {"key": "h", "value": None}]},
        {"id": 3, "partition": 2},
        {"id": 4, "topic": "nowhere"},
        {"id": 5, "topic": "nowhere"},
        {"id": 6, "partition": None},
        {"id": 7, "timestamp": "1970-01-01T00:00:00.0009Z"},  # milliseconds: 0 is the time of writing to librdkafka
        {"id": 8, "timestamp": "1969-12-31T23:59:59.999Z"},
        {"id": 9, "timestamp": "1970-01-01T00:00:00.001Z"},
    ]
    asked = [part for key in ("topic", "partition", "timestamp", "header-list") for part in ("-m", key)]
    producer, result = produced(given, *asked)
    assert producer.records == [
        ("u", None, b'{"id":1}', {"partition": 1, "timestamp": 1_709_208_000_123}),
        ("t", None, b'{"id":2}', {"headers": [("h", b"\xff"), ("h", None)]}),
        ("t", None, b'{"id":6}', {}),
        ("t", None, b'{"id":9}', {"timestamp": 1}),
    ]
    *faults, counts = lines(result.stderr)
    assert [fault["reason"].partition(" (")[0] for fault in faults] == [
        "there is no partition 2: topic 't' has 2",
        "there is no topic 'nowhere'",
        "there is no topic 'nowhere'",
        "the timestamp 0",
        "the timestamp -1",
    ]
    assert counts == {"rows": 9, "delivered": 4, "bad": 5, "failed": 0}


def test_declared_metadata_is_written_unless_it_is_virtual(produced: Any) -> None:
    columns = ", ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', p INT METADATA FROM 'partition' VIRTUAL"
    given = [{"id": 1, "ts": "1970-01-01T00:00:00.005Z", "p": 1}]
    producer, _ = produced(given, columns=columns)
    assert producer.records == [("t", None, b'{"id":1}', {"timestamp": 5})]
    producer, _ = produced([{**given[0], "partition": 1}], "-m", "partition", columns=columns)
    assert producer.records == [("t", None, b'{"id":1}', {"timestamp": 5, "partition": 1})]


def test_rows_of_several_topics_need_a_topic(produced: Any) -> None:
    producer, result = produced([{"id": 1}], "-o", "topic=t;u")
    assert (producer.records, result.exit_code) == ([], 2)
    assert "the table has several topics" in result.stderr
    producer, result = produced([{"id": 1, "topic": "u"}, {"id": 2}], "-o", "topic=t;u", "-m", "topic")
    assert [record[0] for record in producer.records] == ["u"]
    assert lines(result.stderr)[0]["reason"] == "the row has no topic"


def test_producing_stops_at_the_first_bad_row_if_asked(produced: Any) -> None:
    producer, result = produced([{"id": 1}, {"id": "x"}, {"id": 3}], "--errors", "stop")
    assert [record[2] for record in producer.records] == [b'{"id":1}']
    assert lines(result.stderr)[-1] == {"rows": 2, "delivered": 1, "bad": 1, "failed": 0}


def test_producing_stops_after_the_batch_with_a_record_that_no_broker_accepted(
    produced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line is a batch of its own. Without a failure nothing stops."""
    monkeypatch.setattr(_framing, "_CHUNK", 1)
    rows, denied = [{"id": n} for n in (1, 2, 3)], {b'{"id":2}': KafkaError.TOPIC_AUTHORIZATION_FAILED}
    producer, result = produced(rows, "--errors", "stop")
    assert lines(result.stderr) == [{"rows": 3, "delivered": 3, "bad": 0, "failed": 0}]
    assert result.exit_code == 0
    producer, result = produced(rows, "--errors", "stop", errors=denied)
    assert [record[2] for record in producer.records] == [b'{"id":1}', b'{"id":2}']
    assert lines(result.stderr)[-1] == {"rows": 2, "delivered": 1, "bad": 0, "failed": 1}
    assert result.exit_code == 1, "a failure alone"
    producer, result = produced(rows, errors=denied)
    assert len(producer.records) == 3


def test_a_producer_has_the_settings_and_defaults_of_java(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(brokers, "make_client", lambda kind, settings, options: made.append(settings))
    same = {"acks": "1", "linger.ms": "7", "delivery.timeout.ms": "9", "compression.type": "lz4", "retries": "3"}
    same |= {"request.timeout.ms": "8"}
    given = {**same, "max.request.size": "5", "fetch.max.bytes": "1"}
    for properties in ({}, given):
        options = SERVERS | {f"properties.{name}": text for name, text in properties.items()}
        with produce._producing(options, 77):
            pass
    for settings in made:
        del settings["error_cb"]
    common = {"bootstrap.servers": "b:1", "partitioner": "murmur2_random", "batch.size": 77, "log_level": 0}
    assert made == [
        common | {"enable.idempotence": "true", "delivery.timeout.ms": "120000"},
        common | {"enable.idempotence": "false", "message.max.bytes": "5"} | same,
    ]


@pytest.mark.parametrize(("limits", "size"), [((), LARGEST_BATCH), ((9, 7, 8), 7), ((10**9,), LARGEST_BATCH)])
def test_a_batch_is_not_larger_than_a_message_of_any_of_its_topics(
    limits: tuple[int, ...], size: int, produced: Any
) -> None:
    producer, _ = produced([], limits=limits)
    assert producer.settings["batch.size"] == size


def test_the_partitions_of_a_topic_are_asked_for_once(produced: Any) -> None:
    given = [{"id": n, "topic": topic} for n, topic in enumerate(("u", "nowhere", "u", "nowhere", "t"))]
    producer, result = produced(given, "-m", "topic")
    assert [record[0] for record in producer.records] == ["u", "u", "t"]
    assert producer.asked == ["t", "u", "nowhere"]
    assert [fault["message"] for fault in lines(result.stderr)[:-1]] == [2, 4]


def test_a_topic_whose_partitions_have_no_leader_yet_is_written(produced: Any) -> None:
    """The client waits for them. Only a given partition must be known."""
    producer, result = produced([{"id": 1}, {"id": 2, "partition": 0}], "-o", "topic=new", "-m", "partition")
    assert producer.records == [("new", None, b'{"id":1}', {})]
    assert lines(result.stderr)[0]["reason"] == "there is no partition 0: topic 'new' has 0"


def test_headers_are_those_that_jobs_write(produced: Any) -> None:
    """Without null values of a map and null names of a list, as docs/key-value.md says."""
    entries = [{"key": "a", "value": None}, None, {"key": None, "value": "eA=="}, {"value": "eA=="}, {"key": "a"}]
    given = [{"id": 1, "headers": {"a": "eA==", "b": None, "c": ""}}, {"id": 2, "header-list": entries}]
    producer, result = produced(given, "-m", "headers", "-m", "header-list")
    assert [record[3]["headers"] for record in producer.records] == [
        [("a", b"x"), ("c", b"")],
        [("a", None), ("a", None)],
    ]
    assert result.exit_code == 0


def test_metadata_that_is_null_is_not_set(produced: Any) -> None:
    names = ("topic", "partition", "headers", "header-list", "timestamp")
    given = [{"id": 1, **dict.fromkeys(names)}, {"id": 2, "headers": {}}, {"id": 3, "header-list": []}]
    producer, result = produced(given, *(part for name in names for part in ("-m", name)))
    assert producer.records[0] == ("t", None, b'{"id":1}', {})
    assert [[*record[3].get("headers", ())] for record in producer.records] == [[], [], []]
    assert result.exit_code == 0


@pytest.mark.parametrize("declared", ["", ", `__raw_key__` STRING METADATA VIRTUAL"])
def test_a_requested_raw_key_is_written_even_if_it_is_virtual(declared: str, produced: Any) -> None:
    given = [{"id": 1, "__raw_key__": "one"}, {"id": 2, "__raw_key__": None}]
    producer, _ = produced(given, "-m", "__raw_key__", columns=declared)
    assert [record[1] for record in producer.records] == [b"one", None]


def test_exactly_once_is_told_not_to_be_kept(produced: Any) -> None:
    told = "records are written at least once, without transactions"
    exactly = ("-o", "sink.delivery-guarantee=exactly-once", "-o", "sink.transactional-id-prefix=x")
    for arguments, is_told in (((), False), (exactly, True)):
        _, result = produced([], *arguments)
        assert (told in result.stderr, result.exit_code) == (is_told, 0)


def test_an_interrupt_sends_what_is_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    producer, sent = Producer(), list[Any]()
    producer.produce("t", b"x", None, on_delivery=lambda *answer: sent.append(answer))
    monkeypatch.setattr(brokers, "make_client", lambda *_: producer)
    with pytest.raises(KeyboardInterrupt), produce._producing(SERVERS, 77):
        raise KeyboardInterrupt
    assert sent == [(None, None)]
