"""The data source `kvformat`: tables of Flink on a real broker, read by Spark's Python workers without a jar."""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.connectors import KafkaTable

pytestmark = [pytest.mark.spark, pytest.mark.services]

ORDERS = """CREATE TABLE orders (id INT, name STRING, ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
    place INT METADATA FROM 'partition' VIRTUAL) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
    'scan.startup.mode' = 'earliest-offset', 'key.format' = 'json', 'key.fields' = 'id', 'value.format' = 'json')"""


def records(count: int, start: int = 0) -> list[tuple[bytes, bytes]]:
    return [(b'{"id":%d}' % n, b'{"id":%d,"name":"n%d"}' % (n, n)) for n in range(start, start + count)]


def load(spark: Any, ddl: str, **options: Any) -> Any:
    return spark.read.format("kvformat").option("ddl", ddl).options(**options).load()


def test_a_table_is_read_as_kafka_table_reads_it(spark: Any, broker: Any) -> None:
    ddl = ORDERS.format(topic=broker.create("source-orders", 3), bootstrap=broker.bootstrap)
    broker.send("source-orders", records(100))
    found = load(spark, ddl, metadata="offset, epoch:leader-epoch", row_index="true")
    expected = KafkaTable.from_ddl(ddl).read(spark, metadata={"offset": "offset"}, row_index=True)
    assert found.drop("epoch").schema == expected.schema
    rows = found.collect()
    assert sorted(map(tuple, found.drop("epoch").collect())) == sorted(map(tuple, expected.collect()))
    assert len(rows) == 100
    assert {row.epoch for row in rows} == {0}, "the epoch of the leader is known"
