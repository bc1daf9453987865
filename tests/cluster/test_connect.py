"""A server of Spark Connect on the cluster, and a thin client in another environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.environments import ROOT, Environment

RECORDS = 3000
KEYS = 40
CHANGES = 12
"""Changes of each key."""
TABLES = ("orders", "items")


def change(table: str, key: int, n: int) -> bytes:
    """Return the n-th change of a row in Debezium's form; the last one of every fifth key deletes it."""
    before, after = ({"id": key, "n": of} for of in (n - 1, n))
    kind = "c" if n == 0 else "d" if n == CHANGES - 1 and key % 5 == 0 else "u"
    parts = {"before": None if kind == "c" else before, "after": None if kind == "d" else after}
    return json.dumps({**parts, "op": kind, "source": {"db": "shop", "table": table}}).encode()


@pytest.fixture(scope="module")
def answer(cluster: Cluster, broker: Any, thin_client: Environment, tmp_path_factory: Any) -> dict[str, Any]:
    """What the client has read, at its end. The server ends then, because its executors take memory."""
    folder: Path = tmp_path_factory.mktemp("connect")
    topics = {"source": broker.create("connect-source", 4), "target": broker.create("connect-target", 3)}
    topics["changes"] = broker.create("connect-changes", 2)
    broker.send(
        topics["source"],
        [(b"%d" % number, json.dumps({"id": number, "name": f"n{number}"}).encode()) for number in range(RECORDS)],
    )
    broker.send(
        topics["changes"],
        [
            (b'{"id":%d}' % key, change(table, key, n))
            for n in range(CHANGES)
            for key in range(KEYS)
            for table in TABLES
        ],
    )
    url, server = cluster.connect_server()
    settings = {**topics, "url": url, "bootstrap": broker.bootstrap, "folder": str(folder)}
    command = [thin_client.executable, "-m", "tests.cluster.client", json.dumps(settings)]
    client = cluster.run(command, "client.log", ROOT, PATH=thin_client.folder / "bin", JAVA_HOME="", SPARK_HOME="")
    output = client.end()
    server.kill()
    (line,) = (line for line in output.splitlines() if line.startswith("RESULT "))
    return {**json.loads(line.removeprefix("RESULT ")), "target": topics["target"]}


def test_a_thin_client_reads_a_topic(answer: dict[str, Any]) -> None:
    assert answer["read"] == [[number, f"n{number}"] for number in range(RECORDS)]


def test_a_thin_client_copies_a_topic_exactly_once(answer: dict[str, Any], broker: Any) -> None:
    ids = [json.loads(message.value())["id"] for message in broker.records(answer["target"])]
    assert len(ids) == RECORDS
    assert sorted(ids) == [*range(RECORDS)]


def test_a_thin_client_ingests_a_topic_to_tables(answer: dict[str, Any]) -> None:
    expected = [[key, CHANGES - 1] for key in range(KEYS) if key % 5]
    assert len(expected) == 32
    assert answer["tables"] == {f"shop.{table}": expected for table in TABLES}
