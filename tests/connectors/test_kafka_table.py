"""Tables on a real broker: what is written comes back, in batches and streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable

pytestmark = [pytest.mark.spark, pytest.mark.services]

ORDERS = """CREATE TABLE orders (id INT, name STRING, place INT METADATA FROM 'partition' VIRTUAL) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
    'scan.startup.mode' = 'earliest-offset', 'key.format' = 'json', 'key.fields' = 'id', 'value.format' = 'json')"""


def test_what_is_written_is_read(spark: Any, broker: Any, tmp_path: Path) -> None:
    table = KafkaTable.from_ddl(ORDERS.format(topic=broker.create("written-is-read", 3), bootstrap=broker.bootstrap))
    table.write(spark.createDataFrame([(n, f"n{n}") for n in range(100)], "id INT, name STRING"))
    assert sorted((row.id, row.name) for row in table.read(spark).collect()) == [(n, f"n{n}") for n in range(100)]

    target = table.with_options({"topic": broker.create("written-by-stream", 3)})
    stream = table.read_stream(spark).drop("place")
    query = target.write_stream(stream, checkpoint_location=str(tmp_path), trigger={"availableNow": True})
    assert query.awaitTermination(120)
    assert sorted(row.id for row in target.read(spark).collect()) == list(range(100))
    assert {m.key(): m.partition() for m in broker.records("written-by-stream")} == {
        m.key(): m.partition() for m in broker.records("written-is-read")
    }
