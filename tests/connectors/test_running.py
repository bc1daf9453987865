"""Changes to a topic while a query runs: retention, compaction, added partitions, a recreated topic."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable
from kvformat.connectors.batch_progress import BatchProgress
from kvformat.connectors.lag import LagWatch
from kvformat.connectors.progress import described
from kvformat.registry import latest_by_key
from tests.connectors.tables import SCHEMA, Maintained, change, rows, upsert

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

_LONGEST = 120.0
_SMALL_FETCHES = {"properties.fetch.max.bytes": 1, "properties.max.partition.fetch.bytes": 1}
"""Each fetch has one producer batch, so that Kafka's client does not read further ahead."""


def _delete(broker: Any, topic: str, before: int) -> None:
    """Delete the records of partition 0 below an offset, as retention does."""
    from confluent_kafka import TopicPartition

    admin = broker.admin()  # its futures end with it
    (done,) = admin.delete_records([TopicPartition(topic, 0, before)]).values()
    done.result(30)


_LOST = {
    "spark": r"failOnDataLoss(.|\n)*Could not read records in offset \[[45], 8\)",
    "python": r"the records from offset 4 to 8 are deleted(.|\n)*failOnDataLoss",
}


@pytest.mark.parametrize("source", _LOST)
def test_records_deleted_before_they_are_read_fail_the_query(
    spark: Any, broker: Any, tmp_path: Path, source: str
) -> None:
    topic = broker.create(f"running-retention-{source}")
    table, kept = upsert(broker.bootstrap, topic, **_SMALL_FETCHES), Maintained(spark, tmp_path)
    for n in range(12):
        broker.send(topic, [change(n, n)])  # each is a batch of the producer
    read: list[list[int]] = []

    def merge(changes: Any, batch_id: int) -> None:
        read.append(sorted(row.id for row in changes.collect()))
        if len(read) == 1:
            _delete(broker, topic, 10)

    behind = {"maxOffsetsPerTrigger": 4}
    with pytest.raises(Exception, match=_LOST[source]):
        kept.update(table, merge, source=source, spark_options=behind)
    assert read == [[0, 1, 2, 3]]
    kept.update(table, merge, spark_options=behind | {"failOnDataLoss": "false"})
    assert [ids for ids in read if ids] == [[0, 1, 2, 3], [10, 11]]
    read = [ids for ids in read if ids]

    # The records were deleted after they were read, so none is missing.
    _delete(broker, topic, 12)
    broker.send(topic, [change(12, 12)])
    kept.update(table, merge, spark_options=behind)
    assert read[2:] == [[12]]


def test_recreated_topics_are_detected_by_their_ids(spark: Any, broker: Any, tmp_path: Path) -> None:
    topic = broker.create("running-new-id")
    table, kept = upsert(broker.bootstrap, topic), Maintained(spark, tmp_path)
    broker.send(topic, [change(n, 5) for n in range(5)])
    kept.update(table, source="python")
    for records, lost in ((8, 5), (3, 8)):
        broker.delete(topic)
        broker.create(topic)
        broker.send(topic, [change(n, records) for n in range(records)])
        with pytest.raises(
            Exception, match=f"deleted and created again, with the records from {lost}(.|\n)*failOnDataLoss"
        ):
            kept.update(table)
        kept.update(table, spark_options={"failOnDataLoss": "false"})
    assert rows(spark, kept.path) == [*((n, 3) for n in range(3)), *((n, 8) for n in range(3, 8))]


def test_recreated_topics_are_detected_only_by_offsets_with_sparks_source(
    spark: Any, broker: Any, tmp_path: Path
) -> None:
    topic = broker.create("running-again")
    table, kept = upsert(broker.bootstrap, topic), Maintained(spark, tmp_path)

    def make_again(records: int) -> None:
        broker.delete(topic)
        broker.create(topic)
        broker.send(topic, [change(n, records) for n in range(records)])

    broker.send(topic, [change(n, 5) for n in range(5)])
    kept.update(table, source="spark")
    make_again(8)
    kept.update(table)  # from offset 5 on
    wanted = [*((n, 5) for n in range(5)), *((n, 8) for n in range(5, 8))]
    assert rows(spark, kept.path) == wanted
    make_again(3)
    for _ in range(2):
        with pytest.raises(Exception, match="offset was changed from 8 to 3"):
            kept.update(table)
        broker.send(topic, [change(n, 20) for n in range(20)])  # the failed batch is run again nevertheless
    assert rows(spark, kept.path) == wanted


def test_queries_continue_after_compaction(spark: Any, broker: Any, tmp_path: Path) -> None:
    topic = broker.create(
        "running-compaction",
        cleanup_policy="compact",
        segment_ms="500",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="500",
        delete_retention_ms="0",  # tombstones are removed immediately
    )
    table, kept = upsert(broker.bootstrap, topic), Maintained(spark, tmp_path)
    broker.send(topic, [change(key, 0) for key in (1, 2, 3)])
    kept.update(table)
    broker.send(topic, [change(1, None), change(3, None), *(change(2, n) for n in range(1, 31)), change(3, 1)])
    deadline = time.monotonic() + _LONGEST
    while len(found := {(m.key(), m.value()) for m in broker.records(topic) if b"-1" not in m.key()}) != 2:
        assert time.monotonic() < deadline, found
        broker.send(topic, [change(-1, 0)])  # the newest segment is never compacted
        time.sleep(0.5)
    assert found == {change(2, 30), change(3, 1)}

    kept.update(table, spark_options={"maxOffsetsPerTrigger": 16})  # one micro-batch consists only of gaps
    assert rows(spark, kept.path) == [(-1, 0), (1, 0), (2, 30), (3, 1)]  # the query never saw the delete of key 1
    anew = Maintained(spark, tmp_path / "anew")
    anew.update(table)
    assert rows(spark, anew.path) == [(-1, 0), (2, 30), (3, 1)]


def test_added_partitions_are_read_from_their_first_record(spark: Any, broker: Any, tmp_path: Path) -> None:
    topic, keys = broker.create("running-partitions", 2), range(20)
    options = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": broker.bootstrap,
        "key.format": "json",
        "key.fields": "id",
        "value.format": "json",
        "value.fields-include": "EXCEPT_KEY",
        "scan.startup.mode": "latest-offset",  # of the partitions that existed when the query started
    }
    table, kept = KafkaTable(SCHEMA, options), Maintained(spark, tmp_path)

    def send(n: int) -> None:
        broker.send(topic, [change(key, n) for key in keys])

    query = table.maintain(spark, kept.path, checkpoint_location=kept.checkpoint)
    try:
        query.processAllAvailable()
        for n in range(2):
            if n == 1:
                broker.add_partitions(topic, 3)
            send(n)
            query.processAllAvailable()
            assert rows(spark, kept.path) == [(key, n) for key in keys]
        told = [
            line
            for progress in query.recentProgress
            if "new partitions" in (line := described(BatchProgress.of(progress, LagWatch())))
        ]
        assert len(told) == 1
        assert f"; new partitions {topic}-2: keys may have moved to others" in told[0]
    finally:
        query.stop()
    broker.add_partitions(topic, 4)
    send(2)
    kept.update(table)
    assert rows(spark, kept.path) == [(key, 2) for key in keys]

    from pyspark.sql import functions as F

    # In one batch, a key has records in several partitions, and Kafka has no order between partitions.
    places = {(m.key(), m.value()): m.partition() for m in broker.records(topic)}
    greatest = [(key, max(range(3), key=lambda n, key=key: (places[change(key, n)], n))) for key in keys]
    assert len({n for _, n in greatest}) > 1
    everything = upsert(broker.bootstrap, topic)
    partitions = everything.records(spark).groupBy("topic", "key").agg(F.countDistinct("partition").alias("partitions"))
    several = {key for key in keys if len({places[change(key, n)] for n in range(3)}) > 1}
    assert {int(row.key[6:-1]) for row in partitions.where("partitions > 1").collect()} == several
    assert sorted(map(tuple, everything.read(spark).collect())) == greatest
    order = ["timestamp", "partition", "offset"]
    changes = everything.read(spark, changelog=True, metadata=order)
    current = latest_by_key(changes, everything.kv, order).select("id", "n")
    assert sorted(map(tuple, current.collect())) == [(key, 2) for key in keys]
