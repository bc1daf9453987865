"""Exactly once: Flink, reading committed data, has each row once, though tasks died with open transactions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa

from kvformat.connectors import KafkaTable, sink
from kvformat.connectors.transaction_client import KafkaBrokers
from tests.peer.compare import Differs, Peers

_COLUMNS = "id INT NOT NULL, name STRING"
_TABLE = """CREATE TABLE `once.{level}` (id INT NOT NULL, name STRING) WITH (
    'connector' = 'kafka', 'topic' = 'once', 'properties.bootstrap.servers' = '{bootstrap}',
    'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
    'properties.isolation.level' = '{level}', 'key.format' = 'json', 'key.fields' = 'id', 'value.format' = 'json')"""
_TASKS = 4


@dataclass(frozen=True)
class Once:
    """The rows that Flink read, and those that it read besides when it read uncommitted data."""

    rows: int
    aborted: int


def write_and_read_once(peers: Peers, count: int) -> Once:
    """Run the comparison. Raises `Differs` if Flink reads a row twice or not at all."""
    topic = peers.broker.create("once", 3)
    options = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": peers.broker.bootstrap,
        "key.format": "json",
        "key.fields": "id",
        "value.format": "json",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "peer",
        "sink.parallelism": str(_TASKS),
    }
    table = KafkaTable(_COLUMNS, options)
    settings = sink.transactions(table.kv)
    names = settings.names("job-rows")
    dying = pa.RecordBatch.from_pydict({"key": [b'{"id":-1}'], "value": [b'{"id":-1,"name":"dies"}']})
    for task in range(_TASKS):  # each task had an attempt that died before its commit
        transaction = KafkaBrokers(settings).begin(names.task(task))
        transaction.write(dying)
        transaction._producer.flush(30)
        transaction.close()
    rows = peers.spark.range(count).selectExpr("CAST(id AS INT) id", "CONCAT('name ', id) name")
    for _ in range(2):  # the second call finds that all is written
        table.write(rows, job_id="rows")
    read = {}
    for level in ("read_committed", "read_uncommitted"):
        peers.flink.run(_TABLE.format(level=level, bootstrap=peers.broker.bootstrap))
        read[level] = Counter(tuple(row) for _, row in peers.flink.run(f"SELECT id, name FROM `once.{level}`"))
    wanted = Counter((id, f"name {id}") for id in range(count))
    if read["read_committed"] != wanted:
        raise Differs(f"once: Flink read {read['read_committed'].total()} rows, and {count} were written")
    aborted = read["read_uncommitted"] - wanted
    if aborted != Counter({(-1, "dies"): _TASKS}):
        raise Differs(f"once: without read_committed Flink read besides {aborted}")
    return Once(count, aborted.total())
