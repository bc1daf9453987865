"""Ranges of partitions as Arrow batches, read from a real broker."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kvformat.connectors.reader.client_settings import ReaderSettings, reader_settings
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.connectors.reader.read import read_range
from kvformat.connectors.reader.records import KAFKA_FIELDS
from kvformat.registry.key_value_format import KeyValueFormat

pytestmark = [pytest.mark.services]


def settings(broker: Any, **properties: str) -> ReaderSettings:
    given = {"connector": "kafka", "topic": "t", "format": "raw", "properties.bootstrap.servers": broker.bootstrap}
    given |= {f"properties.{name.replace('_', '.')}": text for name, text in properties.items()}
    return reader_settings(KeyValueFormat("v BYTES", given | {"scan.startup.mode": "earliest-offset"}).planned())


def read(found: ReaderSettings, at: PartitionRange, fields: Any = tuple(KAFKA_FIELDS.names), **more: Any) -> pa.Table:
    schema = pa.schema([KAFKA_FIELDS.field(name) for name in fields])
    table = pa.Table.from_batches(read_range(found, at, fields, **more), schema)
    table.validate(full=True)
    return table


def test_a_range_is_read_with_all_columns(broker: Any) -> None:
    topic = broker.create("reader-all")
    records = [(b"k", b"v"), (None, b""), (b"", None), (b"\xff", b"x" * 1000)]
    broker.send(topic, records, timestamp=1_700_000_000_123, headers=[("a", b"1"), ("b", None), ("a", b"")])
    found = read(settings(broker), PartitionRange(topic, 0, 0, 4)).to_pydict()
    assert list(zip(found["key"], found["value"], strict=True)) == records
    assert found["offset"] == [0, 1, 2, 3]
    assert found["topic"] == [topic] * 4
    assert found["partition"] == [0] * 4
    assert {time.timestamp() for time in found["timestamp"]} == {1_700_000_000.123}
    assert found["timestampType"] == [0] * 4
    assert found["leaderEpoch"] == [0] * 4
    assert found["headers"][0] == [{"key": "a", "value": b"1"}, {"key": "b", "value": None}, {"key": "a", "value": b""}]


def test_only_offsets_of_the_range_and_columns_that_are_asked_for_are_returned(broker: Any) -> None:
    topic = broker.create("reader-part")
    broker.send(topic, [(None, str(n).encode()) for n in range(5000)])
    found = read(settings(broker), PartitionRange(topic, 0, 1234, 4321), ["offset", "value"])
    assert found.column_names == ["offset", "value"]
    assert found["value"].to_pylist() == [str(n).encode() for n in range(1234, 4321)]
    assert read(settings(broker), PartitionRange(topic, 0, 7, 7)).num_rows == 0
