"""A stream from topic to topic whose process is killed: the next one goes on from the checkpoint, no record is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable
from tests import services

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.once]

_COUNT = 20_000
_BATCH = 2_000
_LONGEST = 120.0
_PARTITIONS = 2
_ORDERS = """CREATE TABLE orders (id INT, name STRING) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
    'scan.startup.mode' = 'earliest-offset', 'key.format' = 'json', 'key.fields' = 'id', 'value.format' = 'json')"""
_JOB = """
import sys
from pyspark.sql import SparkSession
from kvformat.connectors import KafkaTable
jars, source, target, checkpoint, batch = sys.argv[1:]
settings = {"spark.jars": jars, "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
builder = SparkSession.builder.master("local[1]").config(map=settings)
limit = {"maxOffsetsPerTrigger": batch}
rows = KafkaTable.from_ddl(source).read_stream(builder.getOrCreate(), spark_options=limit)
trigger = {"availableNow": True}
query = KafkaTable.from_ddl(target).write_stream(rows, checkpoint_location=checkpoint, trigger=trigger)
query.awaitTermination()
"""


def test_a_killed_stream_loses_no_record(spark: Any, broker: Any, tmp_path: Path) -> None:
    source, target = (broker.create(name, _PARTITIONS) for name in ("crash-source", "crash-target"))
    broker.send(source, ((b'{"id":%d}' % n, b'{"id":%d,"name":"n%d"}' % (n, n)) for n in range(_COUNT)))
    tables = [_ORDERS.format(topic=topic, bootstrap=broker.bootstrap) for topic in (source, target)]
    checkpoint = str(tmp_path / "checkpoint")
    command = [sys.executable, "-c", _JOB, services.jars("spark-kafka"), *tables, checkpoint, str(_BATCH)]
    job = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + _LONGEST
        while _written(broker, target) < 3 * _BATCH:
            assert job.poll() is None, "the job ended by itself"
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        os.killpg(job.pid, signal.SIGKILL)  # the JVM too
        job.wait()
    assert len(broker.records(target)) < _COUNT

    stream = KafkaTable.from_ddl(tables[0]).read_stream(spark)
    query = KafkaTable.from_ddl(tables[1]).write_stream(
        stream, checkpoint_location=checkpoint, trigger={"availableNow": True}
    )
    query.awaitTermination()
    places = {(m.key(), m.value()): m.partition() for m in broker.records(source)}
    found = broker.records(target)
    assert {(m.key(), m.value()): m.partition() for m in found} == places
    assert len(places) == _COUNT <= len(found) <= _COUNT + _BATCH  # only the batch that was cut off is there twice


def _written(broker: Any, topic: str) -> int:
    """How many records there are."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    admin = broker.admin()  # its futures end with it
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(_PARTITIONS)}
    return sum(future.result(30).offset for future in admin.list_offsets(asked).values())
