"""The command line at a real broker: topics are read without Spark, and without a trace in the broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.test_cli import lines, process, run, sniffed

pytestmark = pytest.mark.services
__all__ = ["process", "sniffed"]

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


def test_where_to_begin_and_when_to_end(broker: Any, orders: Callable[..., Path]) -> None:
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
    assert (result.exit_code, "none of earliest, latest" in result.stderr) == (2, True)


def test_the_end_is_found_behind_a_transaction(broker: Any, orders: Callable[..., Path]) -> None:
    from confluent_kafka import Producer

    topic = broker.create("cli-tail-transaction", 1)
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "cli-tail", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(30)
    for number in range(2):  # one that counts, one that is undone
        producer.begin_transaction()
        producer.produce(topic, b'{"id":%d}' % number)
        assert producer.flush(30) == 0
        producer.abort_transaction(30) if number else producer.commit_transaction(30)
    everything = ("tail", orders(topic), "--from", "earliest", "--until-end")
    assert [row["id"] for row in lines(run(*everything).stdout)] == [0, 1]  # as Java's client reads by default
    committed = run(*everything, "-o", "properties.isolation.level=read_committed")
    assert [row["id"] for row in lines(committed.stdout)] == [0]


def test_topics_by_a_pattern_that_matches_the_whole_name(broker: Any, orders: Callable[..., Path]) -> None:
    sent(broker, "cli-pattern-1", 1)
    sent(broker, "cli-pattern-22", 1)
    file = orders("cli-pattern-\\d", option="topic-pattern")
    result = run("tail", file, "--from", "earliest", "--until-end", "-m", "topic")
    assert [row["topic"] for row in lines(result.stdout)] == ["cli-pattern-1"]
    result = run("tail", orders("cli-nothing-\\d", option="topic-pattern"))
    assert (result.exit_code, "no topic matches" in result.stderr) == (2, True)


def test_a_topic_that_is_not_there_is_named(broker: Any, orders: Callable[..., Path]) -> None:
    broker.create("cli-ordres")
    result = run("tail", orders("cli-orders"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no topic 'cli-orders'. Did you mean 'cli-ordres'?" in result.stderr


def test_records_are_shown_as_they_arrive_until_an_interrupt(
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


def test_a_sample_of_a_topic_is_sniffed_at(broker: Any, sniffed: list[Any]) -> None:
    topic = broker.create("cli-inspect")
    broker.send(topic, [(b"k%d" % number, b"v%d" % number) for number in range(9)])
    result = run("inspect", "--topic", topic, "--bootstrap", broker.bootstrap, "--max", "5", "--registry", "http://r")
    assert result.exit_code == 0, result.stderr
    values, keys, more = sniffed[0]
    assert (values, keys) == ([b"v%d" % n for n in range(5)], [b"k%d" % n for n in range(5)])
    assert more == {"name": topic, "topic": topic, "bootstrap": broker.bootstrap, "registry": {"url": "http://r"}}


def test_brokers_and_topics_are_looked_for(broker: Any, orders: Callable[..., Path]) -> None:
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
