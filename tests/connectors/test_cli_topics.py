"""The command line with a real broker: reading topics needs no Spark and leaves no trace in the broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import brokers
from tests.support.cli import lines, run

pytestmark = [pytest.mark.services, pytest.mark.slow]

_ORDERS = """CREATE TABLE orders (id INT, name STRING, place INT METADATA FROM 'partition' VIRTUAL,
    `at` BIGINT METADATA FROM 'offset' VIRTUAL, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
    headers MAP<STRING, BYTES> METADATA VIRTUAL) WITH ('connector' = 'kafka', {topic},
    'properties.bootstrap.servers' = '{bootstrap}', 'properties.group.id' = '{group}', 'format' = 'json')"""


@pytest.fixture
def orders(broker: Any, tmp_path: Path) -> Callable[..., Path]:
    def written(topic: str, group: str = "readers", option: str = "topic") -> Path:
        file = tmp_path / "orders.sql"
        text = _ORDERS.format(topic=f"'{option}' = '{topic}'", bootstrap=broker.bootstrap, group=group)
        file.write_text(text, encoding="utf-8")
        return file

    return written


def sent(broker: Any, topic: str, count: int, partitions: int = 1, **more: Any) -> str:
    broker.create(topic, partitions)
    for number in range(count):
        broker.send(topic, [(None, b'{"id":%d}' % number)], partition=number % partitions, **more)
    return topic


def test_a_topic_is_read_to_its_end(broker: Any, orders: Callable[..., Path]) -> None:
    topic = sent(broker, "cli-tail", 10, 3, timestamp=1500, headers=[("h", b"\xff")])
    broker.send(topic, [(None, b"{"), (None, None)], partition=1)
    result = run("tail", orders(topic, "cli-tail-group"), "--from", "earliest", "--until-end", "--json")
    rows = lines(result.stdout)
    assert sorted(row["id"] for row in rows) == list(range(10))
    assert {(row["id"], row["place"], row["at"], row["ts"], row["headers"]["h"]) for row in rows} == {
        (n, n % 3, n // 3, "1970-01-01T00:00:01.5Z", "/w==") for n in range(10)
    }
    bad, counts = lines(result.stderr)
    assert (bad["topic"], bad["partition"], bad["offset"], bad["code"]) == (topic, 1, 3, "MALFORMED")
    assert counts == {"messages": 12, "rows": 10, "skipped": 1, "bad": 1}
    assert result.exit_code == 1

    groups = [group.group_id for group in broker.admin().list_consumer_groups().result(30).valid]
    assert "cli-tail-group" not in groups


def test_start_and_end_options(broker: Any, orders: Callable[..., Path]) -> None:
    topic = broker.create("cli-tail-from", 1)
    for number in range(5):
        broker.send(topic, [(None, b'{"id":%d}' % number)], timestamp=1_700_000_000_000 + 1000 * number)
    file = orders(topic)

    def ids(*arguments: str) -> list[int]:
        result = run("tail", file, *arguments)
        assert result.exit_code == 0, result.stderr
        return [row["id"] for row in lines(result.stdout)]

    assert ids("--from", "earliest", "--max", "2") == [0, 1]
    assert ids("--from", "1700000003000", "--until-end") == [3, 4]
    assert ids("--from", "2023-11-14T22:13:22Z", "--until-end") == [2, 3, 4]
    assert ids("--from", "2023-11-14T22:13:22", "--max", "1") == [2]
    assert ids("--from", "2100-01-01", "--until-end") == []
    assert ids("--until-end") == []
    result = run("tail", file, "--from", "yesterday")
    assert (result.exit_code, "is not earliest, latest" in result.stderr) == (2, True)


def test_reading_ends_after_a_transaction(broker: Any, orders: Callable[..., Path]) -> None:
    from confluent_kafka import Producer

    topic = broker.create("cli-tail-transaction", 1)
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "cli-tail", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(30)
    for number in range(2):  # one transaction is committed, one is aborted
        producer.begin_transaction()
        producer.produce(topic, b'{"id":%d}' % number)
        assert producer.flush(30) == 0
        producer.abort_transaction(30) if number else producer.commit_transaction(30)
    everything = ("tail", orders(topic), "--from", "earliest", "--until-end")
    assert [row["id"] for row in lines(run(*everything).stdout)] == [0, 1]  # as Java's client reads by default
    committed = run(*everything, "-o", "properties.isolation.level=read_committed")
    assert [row["id"] for row in lines(committed.stdout)] == [0]


def test_topic_patterns_match_the_whole_name(broker: Any, orders: Callable[..., Path]) -> None:
    sent(broker, "cli-pattern-1", 1)
    sent(broker, "cli-pattern-22", 1)
    file = orders("cli-pattern-\\d", option="topic-pattern")
    result = run("tail", file, "--from", "earliest", "--until-end", "-m", "topic")
    assert [row["topic"] for row in lines(result.stdout)] == ["cli-pattern-1"]
    result = run("tail", orders("cli-nothing-\\d", option="topic-pattern"))
    assert (result.exit_code, "no topic matches" in result.stderr) == (2, True)


def test_missing_topics_are_named(broker: Any, orders: Callable[..., Path]) -> None:
    broker.create("cli-ordres")
    result = run("tail", orders("cli-orders"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no topic 'cli-orders'. Did you mean 'cli-ordres'?" in result.stderr


def test_tail_shows_records_until_an_interrupt(
    broker: Any, orders: Callable[..., Path], process: Callable[..., subprocess.Popen[bytes]]
) -> None:
    topic = sent(broker, "cli-tail-live", 1)
    one = process(sys.executable, "-m", "kvformat", "tail", str(orders(topic)), "--from", "earliest")
    assert one.stdout is not None
    assert one.stderr is not None
    assert json.loads(one.stdout.readline())["id"] == 0
    for number in range(1, 4):
        broker.send(topic, [(None, b'{"id":%d}' % number)])
        assert json.loads(one.stdout.readline())["id"] == number
    one.send_signal(signal.SIGINT)
    assert (one.wait(60), one.stderr.read()) == (0, b"")


def test_inspect_reads_a_sample_of_a_topic(broker: Any, inspected: list[Any]) -> None:
    topic = broker.create("cli-inspect")
    broker.send(topic, [(b"k%d" % number, b"v%d" % number) for number in range(9)])
    result = run("inspect", "--topic", topic, "--bootstrap", broker.bootstrap, "--max", "5", "--registry", "http://r")
    assert result.exit_code == 0, result.stderr
    values, keys, more = inspected[0]
    timestamps = more.pop("timestamps")
    assert (more.pop("headers"), len(timestamps), min(timestamps) > 0) == ([[]] * 5, 5, True)
    assert (values, keys) == ([b"v%d" % n for n in range(5)], [b"k%d" % n for n in range(5)])
    assert more == {"name": topic, "topic": topic, "bootstrap": broker.bootstrap, "registry": {"url": "http://r"}}


def test_inspect_finds_schemas_in_all_parts_of_a_topic(broker: Any) -> None:
    """The first records of a partition do not have the newer ids."""
    topic = broker.create("cli-schemas", 2)
    for partition, ids in enumerate([(1, 2, 3), (1,)]):
        messages = [bytes(4) + bytes([schema]) + b'{"a":1}' for schema in ids for _ in range(400)]
        broker.send(topic, [(None, message) for message in messages], partition=partition)
    result = run("inspect", "--topic", topic, "--bootstrap", broker.bootstrap, "--max", "5", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["counts"]["messages"] == 5
    counts = {use["schema"]: use["messages"] for use in found["schemas"]}
    assert counts.keys() == {"1", "2", "3"}
    assert (counts["1"] > 400, 100 < counts["2"] < 300, counts["3"] > 100) == (True, True, True)
    others = broker.create("cli-schemas-others")
    for version in (1, 2):
        glue = b"\3\0" + uuid.UUID(int=version, version=4).bytes + b"\2"
        of_header = [("apicurio.key.globalId", bytes(7) + bytes([version]))]
        broker.send(others, [(b"\2", glue)] * 100, headers=of_header)
    result = run("inspect", "--topic", others, "--bootstrap", broker.bootstrap, "--max", "5", "--json")
    assert [(use["part"], use["schema"], use["messages"]) for use in json.loads(result.stdout)["schemas"]] == [
        ("value", "00000000-0000-4000-8000-000000000001", 100),
        ("value", "00000000-0000-4000-8000-000000000002", 100),
        ("key", "globalId 1", 100),
        ("key", "globalId 2", 100),
    ]
    many = broker.create("cli-schemas-many", 50)
    for partition in range(50):
        broker.send(many, [(None, bytes(4) + b'\4{"a":1}')] * 3, partition=partition)
    result = run("inspect", "--topic", many, "--bootstrap", broker.bootstrap, "--max", "5", "--json")
    assert [use["messages"] for use in json.loads(result.stdout)["schemas"]] == [17 * 3]  # every third partition
    empty = broker.create("cli-schemas-none")
    assert run("inspect", "--topic", empty, "--bootstrap", broker.bootstrap).exit_code == 0


def test_doctor_checks_brokers_and_topics(broker: Any, orders: Callable[..., Path]) -> None:
    topic = broker.create("cli-doctor", 2)
    result = run("doctor", orders(topic), "--json")
    found = {finding["what"]: finding for finding in lines(result.stdout)}
    assert found["brokers of orders"]["status"] == "ok"
    assert f"{topic} (2 partitions)" in found["brokers of orders"]["text"]
    result = run("doctor", orders("cli-docter"), "--json")
    found = {finding["what"]: finding for finding in lines(result.stdout)}
    assert (found["brokers of orders"]["status"], result.exit_code) == ("failed", 1)
    assert "Did you mean 'cli-doctor'?" in found["brokers of orders"]["text"]
    result = run("doctor", "--bootstrap", broker.bootstrap, "--json")
    assert f"{broker.bootstrap} answer" in result.stdout


# --- produce -------------------------------------------------------------------------------------------------

_KEYED = """CREATE TABLE shop (id INT, name STRING, `at` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
    tags MAP<STRING, BYTES> METADATA FROM 'headers', place INT METADATA FROM 'partition' VIRTUAL,
    PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = '{topic}',
    'properties.bootstrap.servers' = '{bootstrap}', 'key.format' = 'json', 'value.format' = 'json')"""


@pytest.fixture
def shop(broker: Any, tmp_path: Path) -> Callable[..., Path]:
    def written(topic: str, partitions: int = 1, bootstrap: str = "", **config: str) -> Path:
        broker.create(topic, partitions, **config)
        file = tmp_path / "shop.sql"
        file.write_text(_KEYED.format(topic=topic, bootstrap=bootstrap or broker.bootstrap), encoding="utf-8")
        return file

    return written


def row(number: int, kind: str = "+U", **more: Any) -> dict[str, Any]:
    columns = {"id": number, "name": f"n{number}" if kind == "+U" else None}
    return {"row_kind": kind, "row": {**columns, "at": "2024-02-29T12:00:00.5Z", "tags": {"h": "/w=="}, **more}}


def jsonl(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_rows_are_unchanged_after_produce_and_decode(broker: Any, shop: Callable[..., Path]) -> None:
    file, given = shop("cli-produce", 3), [*map(row, range(20)), row(3, "-D")]
    result = run("produce", file, given=jsonl(*given))
    assert (result.exit_code, result.stderr) == (0, "kvformat: 21 rows, 21 delivered, 0 bad, 0 failed\n")
    read = lines(run("tail", file, "--from", "earliest", "--until-end").stdout)
    places = [change["row"].pop("place") for change in read]
    assert len(set(places)) == 3
    assert sorted(read, key=str) == sorted(given, key=str)
    # keys get the partition that Java's client chooses, also for tombstones
    records = broker.records("cli-produce")
    broker.create("cli-produce-java", 3)
    broker.send("cli-produce-java", [(record.key(), record.value()) for record in records])
    java = {record.key(): record.partition() for record in broker.records("cli-produce-java")}
    assert {record.key(): record.partition() for record in records} == java
    assert [record.value() for record in records if record.key() == b'{"id":3}'][-1] is None
    assert {record.timestamp()[1] for record in records} == {1_709_208_000_500}
    # produce accepts the output of tail: virtual metadata columns are skipped
    again = run("produce", file, "--json", given=jsonl(*(dict(r, row=dict(r["row"], place=1)) for r in read)))
    assert lines(again.stderr) == [{"rows": 21, "delivered": 21, "bad": 0, "failed": 0}]


def test_metadata_chooses_topic_and_partition(broker: Any, shop: Callable[..., Path]) -> None:
    file = shop("cli-produce-places", 3)
    broker.create("cli-produce-other", 1)
    bad = [row(8, partition=3), row(9, topic="cli-produce-nowhere", partition=0), row(10, partition="x")]
    given = [row(1, partition=2), row(2, partition=0, topic="cli-produce-other"), *bad, row(4)]
    result = run("produce", file, "-m", "partition", "-m", "topic", "--json", given=jsonl(*given))
    *faults, counts = lines(result.stderr)
    assert counts == {"rows": 6, "delivered": 3, "bad": 3, "failed": 0}
    assert [fault["message"] for fault in sorted(faults, key=lambda fault: fault["message"])] == [3, 4, 5]
    told = {fault["message"]: fault["reason"] for fault in faults}
    assert told[3] == "there is no partition 3: topic 'cli-produce-places' has 3"
    assert told[4].startswith("there is no topic 'cli-produce-nowhere'. Did you mean")
    assert "field 'partition': INT" in told[5]
    assert result.exit_code == 1
    assert {record.key(): record.partition() for record in broker.records("cli-produce-places")}[b'{"id":1}'] == 2
    assert [record.key() for record in broker.records("cli-produce-other")] == [b'{"id":2}']


@pytest.mark.parametrize("declared", ["", ", `__raw_key__` BYTES METADATA", ", `__raw_key__` STRING METADATA VIRTUAL"])
def test_a_raw_key_is_produced_and_shown(broker: Any, tmp_path: Path, declared: str) -> None:
    topic = broker.create(f"cli-produce-raw-{len(declared)}", 1)
    file = tmp_path / "raw.sql"
    file.write_text(
        f"CREATE TABLE t (id INT{declared}) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json', "
        f"'properties.bootstrap.servers' = '{broker.bootstrap}', 'scan.startup.mode' = 'earliest-offset')"
    )
    keys = ["b25l", None] if "BYTES" in declared else ["one", None]
    given = [{"id": place, "__raw_key__": key} for place, key in enumerate(keys)]
    result = run("produce", file, "-m", "__raw_key__", given=jsonl(*given))
    assert result.stderr == "kvformat: 2 rows, 2 delivered, 0 bad, 0 failed\n"
    records = broker.records(topic)
    assert [(record.key(), record.value()) for record in records] == [(b"one", b'{"id":0}'), (None, b'{"id":1}')]
    shown = ["-m", "__raw_value__"] if declared else ["-m", "__raw_key__", "-m", "__raw_value__"]
    where = ["--where", "__raw_value__ ~ 0"]
    read = lines(run("tail", file, "--from", "earliest", "--until-end", *shown, *where).stdout)
    assert read == [{"id": 0, "__raw_key__": keys[0], "__raw_value__": '{"id":0}'}]


def test_bad_rows_and_rejected_records_are_reported(broker: Any, shop: Callable[..., Path]) -> None:
    file = shop("cli-produce-bad", max_message_bytes="2000")
    large = row(2, name="x" * 5000)
    given = [row(1), large, {"row_kind": "+U", "row": {"id": "x"}}, row(4)]
    result = run("produce", file, "--json", given=jsonl(*given))
    *faults, counts = lines(result.stderr)
    assert counts == {"rows": 4, "delivered": 2, "bad": 1, "failed": 1}
    assert {(fault["message"], fault["code"]) for fault in faults} == {(2, "MSG_SIZE_TOO_LARGE"), (3, "WRONG_TYPE")}
    assert result.exit_code == 1
    assert [record.key() for record in broker.records("cli-produce-bad")] == [b'{"id":1}', b'{"id":4}']
    stopped = run("produce", file, "--errors", "stop", "--json", given=jsonl(*given))
    *_, counts = lines(stopped.stderr)
    assert counts["bad"] + counts["failed"] >= 1
    assert len(broker.records("cli-produce-bad")) < 5


def test_produce_reports_errors_before_writing(
    broker: Any, shop: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = shop("cli-produce-missing")
    missing = run("produce", file, "-o", "topic=cli-produce-missin", given=jsonl(row(1)))
    assert missing.exit_code == 2
    assert "Did you mean 'cli-produce-missing'?" in missing.stderr
    monkeypatch.setattr(brokers, "TIMEOUT", 0.5)
    dead = run("produce", file, "--bootstrap", "127.0.0.1:1", given=jsonl(row(1)))
    assert dead.exit_code == 2
    assert "the brokers at '127.0.0.1:1' could not be asked" in dead.stderr


def test_passwords_are_used_but_never_shown(broker: Any, shop: Callable[..., Path]) -> None:
    file = shop("cli-produce-secured", bootstrap=broker.secured)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"

    def options(password: str) -> list[str]:
        jaas = f'{module} username="{broker.user}" password="{password}";'
        given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
        return [part for name, text in given.items() for part in ("-o", f"properties.{name}={text}")]

    good = run("produce", file, *options(broker.password), given=jsonl(row(1), {"row_kind": "+U", "row": {"id": "x"}}))
    assert (good.exit_code, good.stderr.splitlines()[-1]) == (1, "kvformat: 2 rows, 1 delivered, 1 bad, 0 failed")
    bad = run("produce", file, *options("wr0ng-passw0rd"), given=jsonl(row(1)))
    assert bad.exit_code == 2
    for shown in (good.stdout, good.stderr, bad.stdout, bad.stderr):
        assert broker.password not in shown
        assert "wr0ng-passw0rd" not in shown


# --- tail --topic, tail --where --------------------------------------------------------------------------------


def test_tail_shows_a_topic_without_a_ddl(broker: Any) -> None:
    broker.create("cli-topic", 2)
    broker.send("cli-topic", [(b"k", b'{"id":7}')], partition=1, timestamp=1500, headers=[("h", b"\xff"), ("n", None)])
    broker.send("cli-topic", [(None, b"\x00\xff"), (b"gone", None)], partition=0, timestamp=1501)
    where = ["tail", "--topic", "cli-topic", "--bootstrap", broker.bootstrap, "--from", "earliest", "--until-end"]
    raw = run(*where)
    records = sorted(lines(raw.stdout), key=lambda record: (record["partition"], record["offset"]))
    place = {"topic": "cli-topic", "tstype": "create"}
    assert records == [
        {**place, "partition": 0, "offset": 0, "ts": 1501, "key": None, "value_base64": "AP8="},
        {**place, "partition": 0, "offset": 1, "ts": 1501, "key": "gone", "value": None},
        {**place, "partition": 1, "offset": 0, "ts": 1500, "headers": ["h", "\udcff", "n", None]}
        | {"key": "k", "value": '{"id":7}'},
    ]
    # decode reads the output of tail
    options = ["-s", "v BYTES", "-m", "headers", "-m", "partition"]
    decoded = run("decode", "-f", "raw", *options, "--framing", "records", given=raw.stdout)
    rows = {row["v"]: row for row in lines(decoded.stdout)}
    assert rows["eyJpZCI6N30="]["headers"] == {"h": "/w==", "n": None}
    rows = lines(run(*where, "-f", "json", "-s", "id INT", "-m", "partition").stdout)
    assert rows == [{"id": 7, "partition": 1}]


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        (["id > 17"], [18, 19]),
        (["id >= 17", "id < 19"], [17, 18]),
        (["price = 1.5"], [3]),
        (["price > 9"], [19]),
        (["name = 'n4'"], [4]),
        (["name = n4"], [4]),
        (["name ~ ^n1.$", "id!=11", "id <= 12"], [10, 12]),
        (["place.x = 5"], [5]),
        (["moment >= 2024-02-29T12:00:18Z"], [18, 19]),
        (["note != null"], [0]),
        (["note = null", "id = 1"], [1]),
        (["note = x"], [0]),
        (["tags = [19]"], [19]),
        (["offset = 6"], [6]),
        (["flag = true"], [0]),
    ],
)
def test_where_filters_rows(conditions: list[str], found: list[int], chosen_topic: list[str]) -> None:
    result = run(*chosen_topic, *(part for text in conditions for part in ("--where", text)), "--json")
    assert [row["id"] for row in lines(result.stdout)] == found
    *_, counts = lines(result.stderr)
    assert (counts["messages"], counts["rows"]) == (20, len(found))


@pytest.fixture(scope="module")
def chosen_topic(broker: Any) -> list[str]:
    """Return a command that shows a topic of twenty rows."""
    schema = (
        "id INT, name STRING, price DECIMAL(5, 2), place ROW<x INT>, moment TIMESTAMP_LTZ(3), note STRING, "
        "tags ARRAY<INT>, flag BOOLEAN"
    )
    broker.create("cli-where", 1)
    for n in range(20):
        extra = {"note": "x", "flag": True} if n == 0 else {}
        row = {"id": n, "name": f"n{n}", "price": n / 2, "place": {"x": n}, "tags": [n], **extra}
        moment = f"2024-02-29 12:00:{n:02}Z"
        broker.send("cli-where", [(None, json.dumps({**row, "moment": moment}).encode())])
    where = ["--topic", "cli-where", "--bootstrap", broker.bootstrap, "--from", "earliest", "--until-end"]
    return ["tail", *where, "-f", "json", "-s", schema, "-m", "offset"]


def test_where_filters_row_kinds(shop: Callable[..., Path]) -> None:
    file = shop("cli-where-kinds")
    run("produce", file, given=jsonl(row(1), row(2), row(1, "-D")))
    shown = run("tail", file, "--from", "earliest", "--until-end", "--where", "row_kind = -D").stdout
    assert [change["row"]["id"] for change in lines(shown)] == [1]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("id", "is not a condition: write COLUMN OP VALUE"),
        ("idd = 1", "there is no column 'idd'. Did you mean 'id'?"),
        ("id = x", "field 'id'"),
        ("id = 1.5", "INT is written as a whole number"),
        ("name < null", "< null is never true"),
        ("name ~ (", "is not a regular expression"),
        ("place.y = 1", "there is no column 'place.y'"),
        ("row_kind = +I", "there is no column 'row_kind'"),
    ],
)
def test_invalid_conditions_are_reported_before_reading(condition: str, words: str, chosen_topic: list[str]) -> None:
    result = run(*chosen_topic, "--where", condition)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give a FILE.sql"),
        (["--topic", "t"], "needs its broker"),
        (["--topic", "t", "-b", "b:1", "-s", "id INT"], "need a --format"),
        (["--topic", "t", "-b", "b:1", "--where", "id = 1"], "--where needs the columns"),
        (["--topic", "t", "-b", "b:1", "-f", "json"], "a format needs a schema"),
        (["--topic", "t", "--table", "x"], "not both"),
    ],
)
def test_errors_for_invalid_tail_arguments(arguments: list[str], words: str) -> None:
    result = run("tail", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_doctor_checks_one_table_of_a_file(broker: Any, orders: Callable[..., Path], tmp_path: Path) -> None:
    broker.create("cli-doctor-table")
    text = orders("cli-doctor-table").read_text(encoding="utf-8")
    file = tmp_path / "two.sql"
    other = text.replace("orders", "others").replace("cli-doctor-table", "nowhere")
    file.write_text(f"{text}; {other}", encoding="utf-8")
    found = {finding["what"]: finding["status"] for finding in lines(run("doctor", file, "--json").stdout)}
    assert (found["brokers of orders"], found["brokers of others"]) == ("ok", "failed")
    found = {f["what"]: f["status"] for f in lines(run("doctor", file, "--table", "orders", "--json").stdout)}
    assert found["brokers of orders"] == "ok"
    assert "table others" not in found
    missing = run("doctor", file, "--table", "order")
    assert missing.exit_code == 1
    assert "the text creates no table 'order'. Did you mean 'orders'?" in missing.stdout
    assert run("doctor", "--table", "orders").exit_code == 2
