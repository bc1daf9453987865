"""Records of ranges of offsets as a look gets them, with the timestamp and the metadata. No Spark and no broker."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kvformat.ingestion.looking import RECORD_COLUMNS
from kvformat.ingestion.range_reader import RangeReader
from kvformat.registry.table.metadata import readable
from tests.support.sources import source_of

_AT = dt.datetime(2024, 2, 29, 12, 0, 0, 123000, tzinfo=dt.UTC)
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class _Records:
    """Two records instead of those of a broker. `fields` are the columns that were asked for."""

    def read_rows(self, ranges: pa.RecordBatch, fields: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        self.fields = fields
        columns = {
            "key": pa.array([b"k", None], pa.binary()),
            "value": pa.array([b"v", b"w"], pa.binary()),
            "topic": pa.array(["t", "t"]),
            "partition": pa.array([3, 3], pa.int32()),
            "offset": pa.array([7, 8], pa.int64()),
            "timestamp": pa.array([_AT, None], pa.timestamp("us", "UTC")),
            "timestampType": pa.array([0, 1], pa.int32()),
            "headers": pa.array([[{"key": "h", "value": b"x"}], None], _HEADERS),
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in fields], [*fields])


def test_records_have_the_time_in_milliseconds_and_metadata_in_the_zone_of_the_query() -> None:
    columns = "part BIGINT METADATA FROM 'partition', kind STRING METADATA FROM 'timestamp-type', sent TIMESTAMP(3) "
    source = source_of(**{"value.format": "json", "table.columns": f"{columns} METADATA FROM 'timestamp'"})
    assert source.records is not None
    assert source.value_format is not None
    metadata, records = readable("t", [*source.metadata.values()], source.value_format), _Records()
    made = RangeReader.of(source.records.kv, metadata, "Asia/Tokyo")
    reader = replace(made, records=records)  # type: ignore[arg-type]
    (found,) = reader.read(pa.record_batch({"tasks": [2]}))
    assert records.fields == RECORD_COLUMNS, "each column once"
    assert found.schema.names[:9] == [*RECORD_COLUMNS, "_kvformat_timestamp"]
    rows: list[dict[str, Any]] = found.to_pylist()
    assert [row["_kvformat_timestamp"] for row in rows] == [1709208000123, None]
    assert [row["_kvformat_metadata_part"] for row in rows] == [3, 3]
    assert [row["_kvformat_metadata_kind"] for row in rows] == ["CreateTime", "LogAppendTime"]
    tokyo = dt.datetime(2024, 2, 29, 21, 0, 0, 123000)
    assert [row["_kvformat_metadata_sent"] for row in rows] == [tokyo, None]


def test_ranges_say_how_many_tasks_read_them() -> None:
    assert RangeReader.tasks(pa.record_batch({"tasks": pa.array([3, 3], pa.int32())})) == 3
    assert RangeReader.tasks(pa.record_batch({"tasks": pa.array([], pa.int32())})) == 1
