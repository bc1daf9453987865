"""Move a job: Flink reads a part of a topic and commits its group's offsets, and kvformat continues from there."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, Message

from kvformat.connectors import KafkaTable
from tests.peer.compare import Differs, Peers

GROUP = "kvformat-movers"
PARTITIONS = 3
_SOURCE = """CREATE TABLE `moving.source` (id INT, name STRING) WITH (
    'connector' = 'kafka', 'topic' = 'moving.source', 'properties.bootstrap.servers' = '{bootstrap}',
    'properties.group.id' = '{group}', 'scan.startup.mode' = 'group-offsets',
    'properties.auto.offset.reset' = 'earliest', 'format' = 'json')"""
_TARGET = """CREATE TABLE `moving.target` (id INT, name STRING) WITH (
    'connector' = 'kafka', 'topic' = 'moving.target', 'properties.bootstrap.servers' = '{bootstrap}',
    'scan.startup.mode' = 'earliest-offset', 'key.format' = 'json', 'key.fields' = 'id', 'value.format' = 'json')"""


@dataclass(frozen=True)
class Moved:
    """The number of records that Flink committed, and that kvformat read in a first and in a second run."""

    flink: int
    ours: int
    later: int


def move(peers: Peers, count: int, checkpoint: Path) -> Moved:
    """Run the comparison. Raises `Differs` if a record is lost or duplicated."""
    services = {"bootstrap": peers.broker.bootstrap, "group": GROUP}
    topic, target = peers.broker.create("moving.source", PARTITIONS), peers.broker.create("moving.target", PARTITIONS)
    _send(peers, range(count))
    ends = Counter(message.partition() for message in peers.broker.records(topic))
    stops = {partition: end * (partition + 1) // 4 for partition, end in ends.items()}  # at a different offset in each
    bounded = ";".join(f"partition:{partition},offset:{stop}" for partition, stop in sorted(stops.items()))

    # Flink commits after each checkpoint, and does not wait for the last commit when the job ends. The next reader
    # repeats the records after the committed offsets.
    peers.flink.run("SET execution.checkpointing.interval = 200 ms")
    peers.flink.run(_SOURCE.format(**services))
    peers.flink.run(_TARGET.format(**services))
    hints = f"OPTIONS('scan.bounded.mode' = 'specific-offsets', 'scan.bounded.specific-offsets' = '{bounded}')"
    peers.flink.run(f"INSERT INTO `moving.target` SELECT * FROM `moving.source` /*+ {hints} */")
    committed = committed_offsets(peers, topic)
    if set(committed) != set(stops) or any(committed[partition] > stop for partition, stop in stops.items()):
        raise Differs(f"Flink read up to {stops}, but committed {committed}")
    uncommitted = {
        _id(message)
        for message in peers.broker.records(topic)
        if committed[message.partition()] <= message.offset() < stops[message.partition()]
    }
    flinks = Counter(map(_id, peers.broker.records(target)))
    if len(flinks) != sum(stops.values()) or flinks.total() != len(flinks):
        raise Differs(f"Flink wrote {flinks.total()} records of the {sum(stops.values())} that it was to read")

    source, written = KafkaTable.from_ddl(_SOURCE.format(**services)), KafkaTable.from_ddl(_TARGET.format(**services))
    for last in (count, count + 100):
        _send(peers, range(count, last))
        stream = source.read_stream(peers.spark, checkpoint_location=str(checkpoint))
        query = written.write_stream(stream, checkpoint_location=str(checkpoint), trigger={"availableNow": True})
        query.awaitTermination()
        found = Counter(map(_id, peers.broker.records(target)))
        if found != Counter(range(last)) + Counter(uncommitted):
            lost = sorted(set(range(last)) - set(found))
            raise Differs(f"{found.total()} of {last} records and {len(uncommitted)} again, lost: {lost[:20]}")
    if committed_offsets(peers, topic) != committed:
        raise Differs("reading must not commit")
    took = sum(committed.values())
    return Moved(took, count - took, 100)


def _send(peers: Peers, ids: range) -> None:
    peers.broker.send("moving.source", [(b"%d" % n, json.dumps({"id": n, "name": f"n{n}"}).encode()) for n in ids])


def _id(message: Message) -> int:
    number: int = json.loads(message.value())["id"]
    return number


def committed_offsets(peers: Peers, topic: str) -> dict[int, int]:
    """Return the group's committed offsets by partition."""
    admin = peers.broker.admin()
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])[GROUP].result(30)
    return {p.partition: p.offset for p in found.topic_partitions if p.topic == topic}
