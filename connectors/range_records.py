"""The records of a table from ranges of its topics' partitions, after `scan.header-filter`. It does not know Spark.

Ranges may be rows themselves, so that a task of Spark reads their records in a later step: `range_rows`, `read_rows`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from kvformat.connectors import header_filter
from kvformat.connectors.reader.client_settings import ReaderSettings, reader_settings
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.connectors.reader.read import read_range
from kvformat.registry.contract.errors import DataLossError, KafkaSourceWarning
from kvformat.registry.key_value_format import KeyValueFormat

RANGE_COLUMNS: Final = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "start": pa.int64(),
    "end": pa.int64(),
    "skips_lost": pa.bool_(),
    "tasks": pa.int32(),
}
"""Columns of ranges that are rows: whether lost records are skipped, and the number of tasks that read the ranges."""


@dataclass(frozen=True, repr=False)
class RangeRecords:
    """Reads ranges; it can be pickled, with the secrets of the client's settings.

    conditions: the header filter. skips_lost: whether lost records are skipped, with a warning.
    """

    settings: ReaderSettings
    conditions: tuple[header_filter.Condition, ...]
    skips_lost: bool

    @classmethod
    def of(cls, kv: KeyValueFormat, *, skips_lost: bool = False) -> RangeRecords:
        """Return the reader of a table's records. Raises `OptionError` for settings that only Java's client has."""
        text = kv.connector_options("decode").get(header_filter.OPTION)
        conditions = () if text is None else header_filter.parse(text)
        return cls(reader_settings(kv), conditions, skips_lost)

    def read(self, ranges: Sequence[PartitionRange], fields: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the records of ranges, in order, with these columns at least.

        Raises `DataLossError` for lost records, `ReadError`.
        """
        if self.conditions and "headers" not in fields:
            fields = (*fields, "headers")
        for partition in ranges:
            for records in read_range(self.settings, partition, fields, on_loss=_warn if self.skips_lost else None):
                if self.conditions:
                    records = records.filter(header_filter.mask(self.conditions, records.column("headers")))
                if len(records):
                    yield records

    def read_rows(self, rows: pa.RecordBatch, fields: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the records of ranges that are rows, as `read` does."""
        for row in rows.to_pylist():
            at = PartitionRange(row["topic"], row["partition"], row["start"], row["end"])
            yield from replace(self, skips_lost=row["skips_lost"]).read([at], fields)


def range_rows(ranges: Sequence[PartitionRange], *, skips_lost: bool, tasks: int) -> pa.RecordBatch:
    """Return ranges as rows with `RANGE_COLUMNS`."""
    rows = [
        {"topic": partition.topic, "partition": partition.partition, "start": partition.start, "end": partition.end}
        | {"skips_lost": skips_lost, "tasks": tasks}
        for partition in ranges
    ]
    return pa.RecordBatch.from_pylist(rows, pa.schema([*RANGE_COLUMNS.items()]))


def _warn(error: DataLossError) -> None:
    warnings.warn(str(error), KafkaSourceWarning, stacklevel=1)
