"""`tail`, `produce` and `doctor` with brokers in memory; test_cli_topics.py has real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, TopicPartition

from kvformat.connectors import brokers
from kvformat.connectors.cli import _topics, doctor, produce, tail
from kvformat.registry.contract.errors import BrokerError, OptionError
from tests.support.cli import lines, run

SERVERS = {"properties.bootstrap.servers": "b:1"}


class Message:
    """A record, or with `code` an event of a partition."""

    def __init__(self, topic: str, partition: int, offset: int, code: int | None = None, **more: Any) -> None:
        self._place, self._code = (topic, partition, offset), code
        self._more = {
            "key": None,
            "value": b"{}",
            "timestamp": (1, 1500),
            "headers": None,
            "leader_epoch": None,
            **more,
        }

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._place[2]

    def error(self) -> KafkaError | None:
        return None if self._code is None else KafkaError(self._code)

    def __getattr__(self, name: str) -> Callable[[], Any]:
        return lambda: self._more[name]


def end(topic: str, partition: int) -> Message:
    return Message(topic, partition, 0, KafkaError._PARTITION_EOF)


class Consumer:
    """Gives these answers one after the other. `wanted` has the numbers of records that were asked for."""

    def __init__(self, answers: Sequence[Sequence[Message]]) -> None:
        self.answers = iter(answers)
        self.wanted: list[int] = []
        self.assigned: list[tuple[str, int, int]] = []
        self.times: list[tuple[str, int, int]] = []
        self.watermarks: Mapping[tuple[str, int], tuple[int, int]] = {}
        self.settings: Mapping[str, Any] = {}
        self.closed = False

    def poll(self, _: float) -> None:
        """There are no callbacks."""

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self.assigned = [(at.topic, at.partition, at.offset) for at in places]

    def offsets_for_times(self, asked: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
        self.times = [(at.topic, at.partition, at.offset) for at in asked]
        return [TopicPartition(at.topic, at.partition, 40 + at.partition) for at in asked]

    def get_watermark_offsets(self, at: TopicPartition, timeout: float) -> tuple[int, int]:
        return self.watermarks[at.topic, at.partition]

    def consume(self, most: int, timeout: float) -> list[Message]:
        self.wanted.append(most)
        return list(next(self.answers))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Consumer, Any]]:
    """Return a function that opens partitions with the given answers."""

    def open_(
        answers: Sequence[Sequence[Message]] = (),
        partitions: Mapping[str, Sequence[int]] | None = None,
        start: str | int = "earliest",
        say: Callable[[str], None] = lambda _: None,
        **properties: str,
    ) -> tuple[Consumer, Any]:
        consumer = Consumer(answers)

        def make(_: Any, settings: Mapping[str, Any], options: Mapping[str, str]) -> Consumer:
            consumer.settings = settings
            return consumer

        monkeypatch.setattr(brokers, "make_client", make)
        options = SERVERS | {f"properties.{name}": text for name, text in properties.items()}
        return consumer, _topics.Topics(options, partitions or {"a": [0, 1], "b": [0]}, start, say)

    return open_


# --- where reading starts ----------------------------------------------------------------------------------------


def _time(text: str) -> Any:
    return tail._start(SimpleNamespace(), SimpleNamespace(), text)  # type: ignore[arg-type]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/New_York"])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("1709208000123", 1_709_208_000_123),
        ("0", 0),
        ("9" * 18, 10**18 - 1),
        ("2024-02-29T12:00:00", 1_709_208_000_000),
        ("2024-02-29 12:00:00.123", 1_709_208_000_123),
        ("2024-02-29T12:00:00.123999Z", 1_709_208_000_123),
        ("2024-02-29T12:00:00+05:45", 1_709_187_300_000),
        ("2024-02-29T12:00:00-03:30", 1_709_220_600_000),
        ("2024-02-29", 1_709_164_800_000),
        ("2004-03-15T07:55:47.472", 1_079_337_347_472),  # as a float of seconds it is some nanoseconds less
        ("1969-12-31T23:59:59.9995Z", -1),
    ],
)
def test_a_time_is_in_utc_or_in_its_own_zone(
    text: str, wanted: Any, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time zone of the process does not count."""
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert _time(text) == wanted
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "Latest", "-1", "1.5", "٣", "tomorrow", "2024-02-30", "9" * 19, "1" * 5000])
def test_other_texts_are_no_time(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not earliest, latest, milliseconds since 1970, or a time"):
        _time(text)


def test_reading_starts_at_an_end_or_at_the_offsets_of_a_time(opened: Any) -> None:
    places = [("a", 0), ("a", 1), ("b", 0)]
    for start, offset in (("earliest", OFFSET_BEGINNING), ("latest", OFFSET_END)):
        assert opened(start=start)[0].assigned == [(*place, offset) for place in places]
    consumer, _ = opened(start=1500)
    assert consumer.times == [(*place, 1500) for place in places]
    assert consumer.assigned == [("a", 0, 40), ("a", 1, 41), ("b", 0, 40)]


def test_a_reader_commits_nothing_and_keeps_the_tables_group_and_isolation(opened: Any) -> None:
    settings = opened()[0].settings
    assert {name: settings[name] for name in ("group.id", "isolation.level", "enable.auto.commit")} == {
        "group.id": "kvformat",
        "isolation.level": "read_uncommitted",
        "enable.auto.commit": "false",
    }
    assert settings["enable.auto.offset.store"] == "false"
    given = {"group.id": "mine", "isolation.level": "read_committed"}
    settings = opened(**given)[0].settings
    assert {name: settings[name] for name in given} == given


# --- batches of records ------------------------------------------------------------------------------------------


def test_reading_ends_after_the_asked_number_of_records(opened: Any) -> None:
    answers = [[Message("a", 0, n) for n in range(500)], [], [Message("a", 1, n) for n in range(3)]]
    consumer, topics = opened(answers)
    batches = list(topics.batches(most=503))
    assert consumer.wanted == [500, 3, 3]
    assert [(batch.first, len(batch.values)) for batch in batches] == [(1, 500), (501, 0), (501, 3)]


def test_reading_until_the_end_needs_the_end_of_each_partition(opened: Any) -> None:
    """A record after the end of its partition takes that end back."""
    answers = [
        [Message("a", 0, 1), end("a", 0), end("a", 1)],
        [Message("a", 0, 2), end("b", 0)],
        [Message("b", 0, 5)],
        [end("a", 0), end("b", 0)],
        [Message("a", 0, 9)],
    ]
    _, topics = opened(answers)
    assert topics.at_end is False
    assert [len(batch.values) for batch in topics.batches(until_end=True)] == [1, 1, 1, 0]
    assert topics.at_end is True


def test_an_error_of_a_partition_is_an_error(opened: Any) -> None:
    _, topics = opened([[Message("a", 0, 1), Message("a", 0, 1, KafkaError.TOPIC_AUTHORIZATION_FAILED)]])
    with pytest.raises(BrokerError, match="could not be asked for records: Broker: Topic authorization failed"):
        list(topics.batches(most=5))


def test_an_error_of_the_connection_is_told_once_until_a_record_arrives(opened: Any) -> None:
    said: list[str] = []
    consumer, topics = opened([[], [Message("a", 0, 1)]], say=said.append)
    down, full = KafkaError(KafkaError._TRANSPORT, "down"), KafkaError(KafkaError._ALL_BROKERS_DOWN, "all down")
    batches = topics.batches(most=1)
    for error in (down, full, down):
        consumer.settings["error_cb"](error)
    next(batches)
    consumer.settings["error_cb"](down)
    assert said == ["down", "all down"]
    next(batches)
    consumer.settings["error_cb"](down)
    assert said == ["down", "all down", "down"]


BEARER = "org.apache.kafka.common.security.oauthbearer"
TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.login.callback.handler.class": f"{BEARER}.OAuthBearerLoginCallbackHandler",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens.example/token",
    "sasl.jaas.config": f'{BEARER}.OAuthBearerLoginModule required clientId="job" clientSecret="hunter";',
}
"""An endpoint for tokens may repeat the credentials in its answer, which librdkafka tells."""
REFUSED = KafkaError(KafkaError._AUTHENTICATION, "401: job:hunter, Basic am9iOmh1bnRlcg==, hunter")


def test_an_error_of_the_connection_shows_no_secret(
    opened: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    consumer, _ = opened(say=said.append, **TOKENS)
    consumer.settings["error_cb"](REFUSED)
    assert said == ["401: ******, Basic ******, ******"]
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(brokers, "make_client", lambda kind, settings, options: made.append(settings))
    with produce._producing(SERVERS | {f"properties.{name}": text for name, text in TOKENS.items()}, 77):
        for _ in range(2):
            made[0]["error_cb"](REFUSED)
    assert capsys.readouterr().err == "kvformat: 401: ******, Basic ******, ******\n", "once"


def test_records_have_the_metadata_that_brokers_tell(opened: Any) -> None:
    answers = [
        [
            Message(
                "a", 0, 7, key=b"k", value=None, timestamp=(2, 5), headers=[("h", b"1"), ("h", None)], leader_epoch=0
            ),
            Message("a", 1, 8, timestamp=(0, -1), leader_epoch=-1),
        ]
    ]
    (batch,) = opened(answers)[1].batches(most=2)
    assert (batch.keys, batch.values) == ([b"k", None], [None, b"{}"])
    assert batch.about == [
        {"topic": "a", "partition": 0, "offset": 7, "timestamp-type": "LogAppendTime", "timestamp": 5}
        | {"leader-epoch": 0, "headers": [("h", b"1"), ("h", None)]},
        {"topic": "a", "partition": 1, "offset": 8, "timestamp-type": "NoTimestampType", "headers": []},
    ]


def _spread(
    opened: Any, marks: Mapping[tuple[str, int], tuple[int, int]], places: int, most: int
) -> list[tuple[Any, ...]]:
    """Return partition, offset and number of the records that are read."""
    partitions: dict[str, list[int]] = {}
    for topic, number in marks:
        partitions.setdefault(topic, []).append(number)
    consumer, topics = opened([], partitions)
    consumer.watermarks = marks
    read: list[tuple[Any, ...]] = []

    def at(topic: str, number: int, start: int, count: int) -> Any:
        read.append((number, start, count))

    topics._at = at
    list(topics.spread(places, most))
    return read


def test_records_from_all_parts_include_both_ends(opened: Any) -> None:
    assert _spread(opened, {("a", 0): (100, 200)}, 4, 10) == [(0, 100, 10), (0, 130, 10), (0, 160, 10), (0, 190, 10)]


def test_a_short_partition_is_read_whole_and_no_record_twice(opened: Any) -> None:
    assert _spread(opened, {("a", 0): (100, 140)}, 4, 10) == [(0, 100, 40)]
    assert _spread(opened, {("a", 0): (100, 141)}, 4, 10) == [(0, 100, 10), (0, 110, 10), (0, 120, 10), (0, 131, 10)]


def test_of_many_partitions_some_are_read_at_two_places_each(opened: Any) -> None:
    marks = {("a", number): (0, 1000) for number in range(5)}
    assert _spread(opened, marks, 4, 10) == [(n, start, 10) for n in (0, 3) for start in (0, 990)]


def test_a_partition_has_at_least_two_places(opened: Any) -> None:
    assert _spread(opened, {("a", 0): (0, 1000)}, 1, 10) == [(0, 0, 10), (0, 990, 10)]


def test_a_part_is_read_from_its_offset_to_its_number_or_its_end(opened: Any) -> None:
    answers = [[Message("a", 0, 5)], [Message("a", 0, 6), Message("a", 0, 7)], [end("a", 0)], [Message("a", 0, 1)]]
    consumer, topics = opened(answers)
    assert len(topics._at("a", 0, 5, 3).values) == 3
    assert (consumer.assigned, consumer.wanted) == ([("a", 0, 5)], [3, 2])
    assert topics._at("a", 0, 8, 3).values == []
    assert len(topics._at("a", 0, 1, 1).values) == 1, "its end was seen before"


# --- topics ------------------------------------------------------------------------------------------------------


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers have some topics."""
    names = {"orders": 2, "orders-dead": 1, "xorders": 1, "__consumer_offsets": 50}
    known = {name: SimpleNamespace(partitions=dict.fromkeys(reversed(range(count)))) for name, count in names.items()}
    client = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=known))
    monkeypatch.setattr(brokers, "admin", lambda _: client)


@pytest.mark.usefixtures("there")
def test_partitions_are_those_of_the_named_or_matching_topics() -> None:
    assert _topics.partitions_of(SERVERS, ["xorders", "orders"], None) == {"xorders": [0], "orders": [0, 1]}
    assert _topics.partitions_of(SERVERS, None, "orders.*") == {"orders": [0, 1], "orders-dead": [0]}
    assert _topics.partitions_of(SERVERS, None, None) == {}


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(
    ("topics", "pattern", "told"),
    [
        (
            ["orders", "ordesr"],
            None,
            r"no topic 'ordesr'\. Did you mean 'orders'\? Topics: orders, orders-dead, xorders$",
        ),
        (None, "order", "no topic matches 'topic-pattern' = 'order'"),
        (None, "(", "'topic-pattern' is not a regular expression"),
    ],
)
def test_topics_that_do_not_exist_are_named(topics: Any, pattern: str | None, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        _topics.partitions_of(SERVERS, topics, pattern)


# --- tail --------------------------------------------------------------------------------------------------------


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Return a function that gives a topic these records; it returns the arguments of later readers."""

    def with_(*messages: Message) -> list[Any]:
        asked: list[Any] = []

        class Reading:
            at_end = True

            def __init__(self, *given: Any, say: Any) -> None:
                asked.append(given)

            def __enter__(self) -> Reading:
                return self

            def __exit__(self, *_: Any) -> None:
                """There is no connection."""

            def batches(self, **given: Any) -> Iterator[Any]:
                asked.append(given)
                yield _topics._batch(1, messages)  # type: ignore[arg-type]

        monkeypatch.setattr(tail, "partitions_of", lambda *given: {"t": [0]})
        monkeypatch.setattr(tail, "reading", Reading)
        return asked

    return with_


TAIL = ("tail", "--topic", "t", "-b", "b:1")


def test_tail_shows_good_rows_and_counts_each_message(topic: Any) -> None:
    values = (b'{"id":1}', b"{", None, b'{"id":2}')
    asked = topic(*(Message("t", 0, 10 + n, value=value) for n, value in enumerate(values)))
    result = run(*TAIL, "-f", "json", "-s", "id INT", "-m", "offset", "--json", "--max", "4", "--until-end")
    assert lines(result.stdout) == [{"id": 1, "offset": 10}, {"id": 2, "offset": 13}]
    fault, counts = lines(result.stderr)
    assert (fault["message"], fault["topic"], fault["offset"], fault["code"]) == (2, "t", 11, "MALFORMED")
    assert counts == {"messages": 4, "rows": 2, "skipped": 1, "bad": 1}
    assert result.exit_code == 1
    assert asked[1] == {"most": 4, "until_end": True}
    assert asked[0][2] == "latest", "the default start"


def test_tail_shows_rows_that_meet_all_conditions(topic: Any) -> None:
    topic(*(Message("t", 0, n, value=json.dumps({"id": n}).encode()) for n in range(6)))
    result = run(*TAIL, "-f", "json", "-s", "id INT", "--json", "--where", "id > 1", "--where", "id != 4")
    assert [row["id"] for row in lines(result.stdout)] == [2, 3, 5]
    assert lines(result.stderr) == [{"messages": 6, "rows": 3, "skipped": 0, "bad": 0}]


def test_tail_without_a_format_shows_records_that_decode_reads(topic: Any) -> None:
    topic(Message("t", 0, 7, key=b"\xff", value=b'{"id":7}', headers=[("h", b"\xff"), ("n", None)]))
    result = run(*TAIL, "--json")
    assert lines(result.stdout) == [
        {"topic": "t", "partition": 0, "offset": 7, "tstype": "create", "ts": 1500}
        | {"headers": ["h", "\udcff", "n", None], "key_base64": "/w==", "value": '{"id":7}'}
    ]
    assert lines(result.stderr) == [{"messages": 1, "rows": 1, "skipped": 0, "bad": 0}]
    columns = ("-s", "id INT", "-m", "offset", "-m", "timestamp", "-m", "headers")
    again = run("decode", "-f", "json", *columns, "--framing", "records", given=result.stdout)
    assert lines(again.stdout) == [
        {"id": 7, "offset": 7, "timestamp": "1970-01-01T00:00:01.5Z", "headers": {"h": "/w==", "n": None}}
    ]


def test_a_table_is_read_from_the_given_start_by_its_pattern(
    topic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, partitions = topic(Message("t", 0, 7, value=b'{"id":0}')), list[Any]()
    monkeypatch.setattr(tail, "partitions_of", lambda *given: partitions.append(given) or {"t": [0]})
    file = tmp_path / "t.sql"
    file.write_text(
        """CREATE TABLE t (id INT, bad AS 10 / id) WITH ('connector' = 'kafka', 'topic-pattern' = 'a.*',
        'properties.bootstrap.servers' = 'b:1', 'properties.group.id' = 'g', 'format' = 'json')"""
    )
    assert "division by zero" in run("tail", file, "--from", "1500").stderr
    result = run("tail", file, "--from", "earliest", "--skip-computed", "bad", "-m", "offset")
    assert lines(result.stdout) == [{"id": 0, "offset": 7}]
    assert [given[1:] for given in partitions] == [(None, "a.*")] * 2
    assert [given[1:] for given in asked[::2]] == [({"t": [0]}, 1500), ({"t": [0]}, "earliest")]


def test_an_interrupt_ends_with_the_counts(topic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(Message("t", 0, 1, value=b'{"id":1}'))

    def interrupted(*_: Any, waits: bool) -> None:
        assert waits
        raise KeyboardInterrupt

    monkeypatch.setattr(tail._Printer, "progress", interrupted)
    result = run(*TAIL, "-f", "json", "-s", "id INT", "--json")
    assert lines(result.stderr) == [{"messages": 1, "rows": 1, "skipped": 0, "bad": 0}]
    assert result.exit_code == 0


def _in_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (tail.sys.stdout, tail.sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)


PLACE = {"topic": "t", "partition": 0, "offset": 7}


def test_a_terminal_shows_the_place_and_the_kind_of_each_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _in_terminal(monkeypatch)
    row = {"row_kind": "-D", "row": {"id": 1}}
    tail._Printer(has_kinds=True, as_json=False).rows([(PLACE, row), (PLACE, {**row, "row_kind": "+I"})])
    shown = capsys.readouterr().out
    assert click.unstyle(shown).splitlines() == ['t[0]@7 -D {"id": 1}', 't[0]@7 +I {"id": 1}']
    assert click.style("-D", fg="red") in shown
    assert click.style("+I", fg="green") in shown
    tail._Printer(has_kinds=False, as_json=False).rows([(PLACE, row)])
    assert click.unstyle(capsys.readouterr().out) == 't[0]@7 {"row_kind": "-D", "row": {"id": 1}}\n', "columns"
    tail._Printer(has_kinds=True, as_json=True).rows([(PLACE, row)])
    assert lines(capsys.readouterr().out) == [row]


def test_a_terminal_shows_bad_records_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _in_terminal(monkeypatch)
    fault = {**PLACE, "message": 1, "part": "value", "code": "MALFORMED", "reason": "no\nJSON", "head": None}
    tail._Printer(has_kinds=True, as_json=False).bad(fault)
    assert click.unstyle(capsys.readouterr().err) == "t[0]@7 MALFORMED (value) no\\u000aJSON: None\n"
    tail._Printer(has_kinds=True, as_json=True).bad(fault)
    assert lines(capsys.readouterr().err) == [fault]


def test_the_line_at_the_bottom_is_shown_again_after_other_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not written again if it is the same, and says that the end is reached."""
    written: list[str] = []
    monkeypatch.setattr(tail, "status", written.append)
    monkeypatch.setattr(tail, "note", written.append)
    _in_terminal(monkeypatch)
    printer, counts = tail._Printer(has_kinds=False, as_json=False), {"messages": 3, "rows": 2, "bad": 1}
    for step in (0, 0, 1, 0, 2, 2):
        if step == 1:
            printer.note("down")
        else:
            printer.progress(counts, waits=step == 2)
    printer.clear()
    printer.clear()
    line = "3 records, 2 rows, 1 bad"
    assert written == [line, "", "down", line, f"{line}, at the end, waiting (Ctrl-C ends)", ""]


def test_conditions_know_metadata_and_computed_columns_of_a_table_with_a_key(topic: Any, tmp_path: Path) -> None:
    before = [{"before": None, "after": {"id": n}, "op": "c", "source": {"ts_ms": n * 1000}} for n in range(4)]
    topic(*(Message("t", 0, n, key=b"k", value=json.dumps(each).encode()) for n, each in enumerate(before)))
    file = tmp_path / "t.sql"
    file.write_text(
        """CREATE TABLE t (k STRING, id INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'value.source.timestamp' VIRTUAL,
        o BIGINT METADATA FROM 'offset' VIRTUAL, later AS o + 10) WITH ('connector' = 'kafka', 'topic' = 't',
        'properties.bootstrap.servers' = 'b:1', 'properties.group.id' = 'g', 'key.format' = 'raw', 'key.fields' = 'k',
        'value.format' = 'debezium-json', 'value.fields-include' = 'EXCEPT_KEY')"""
    )
    conditions = ("ts >= 1970-01-01T00:00:01Z", "later < 13", "k = k", "o > 0")
    shown = run("tail", file, *(part for condition in conditions for part in ("--where", condition))).stdout
    assert [change["row"]["id"] for change in lines(shown)] == [1, 2]


# --- doctor ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("there")
def test_doctor_checks_the_topics_of_each_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_spark", lambda: iter(()))
    file = tmp_path / "t.sql"
    with_ = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'b:1', 'properties.group.id' = 'g'"
    with_ = f"{with_}, 'format' = 'json', 'topic' ="
    file.write_text(
        f"CREATE TABLE good (id INT) WITH ({with_} 'orders'); CREATE TABLE bad (id INT) WITH ({with_} 'ordesr');"
        f"CREATE TABLE wrong (id INT) WITH ({with_} 'orders', 'formt' = 'x')"
    )
    result = run("doctor", file, "--json")
    found = {finding["what"]: finding for finding in lines(result.stdout)}
    assert found["brokers of good"]["text"] == "b:1 answer; topics orders (2 partitions)"
    assert [found[f"brokers of {name}"]["status"] for name in ("good", "bad")] == ["ok", "failed"]
    assert [found[f"table {name}"]["status"] for name in ("good", "bad", "wrong")] == ["ok", "ok", "failed"]
    assert "brokers of wrong" not in found
    assert result.exit_code == 1
    only = {finding["what"] for finding in lines(run("doctor", file, "--table", "good", "--json").stdout)}
    assert {"table good", "brokers of good"} <= only
    assert "table bad" not in only


@pytest.mark.usefixtures("there")
def test_doctor_asks_the_brokers_of_a_table_that_is_only_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_spark", lambda: iter(()))
    file = tmp_path / "t.sql"
    with_ = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'b:1', 'format' = 'json', 'topic' ="
    file.write_text(
        f"CREATE TABLE good (id INT) WITH ({with_} 'orders'); CREATE TABLE bad (id INT) WITH ({with_} 'ordesr');"
    )
    result = run("doctor", file, "--json")
    found = {finding["what"]: finding for finding in lines(result.stdout)}
    told = found["table good"]
    assert told["status"] == "ok"
    assert told["text"].startswith("its DDL is valid to write it, but not to read it: ")
    assert "group.id" in told["text"]
    assert found["brokers of good"]["text"] == "b:1 answer; topics orders (2 partitions)"
    assert (found["brokers of bad"]["status"], result.exit_code) == ("failed", 1)
