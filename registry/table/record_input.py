"""Kafka's columns in Arrow to the input of a table's decoder: key, value, their headers, and the connector's metadata.

`kafka_columns.py` makes the same columns with Spark's own functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.format_hooks import HeaderNames, Part
from kvformat.registry.table.metadata import RAW, MetadataColumn
from kvformat.registry.table.raw_records import raw_array
from kvformat.registry.table.record_headers import HEADERS_TYPE, part_headers

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_FIELDS = {
    "headers": "headers",
    "header-list": "headers",
    "timestamp-type": "timestampType",
    "leader-epoch": "leaderEpoch",
    **RAW,
}
"""The columns of metadata keys that have another name."""
_TIMESTAMP_TYPES = {0: "CreateTime", 1: "LogAppendTime"}
_NO_TYPE = "NoTimestampType"


@dataclass(frozen=True)
class RecordInput:
    """Makes the input of a `TaskDecoder` from batches of Kafka's columns; pickled to Spark's workers.

    sends_key: whether the input has the key. record_headers: the headers that belong to key and value. metadata: the
    connector's metadata columns. error_columns: Kafka's columns for the position of an error, or for captured records.
    uses_now: whether the input ends with the current time.
    """

    sends_key: bool
    record_headers: Mapping[Part, HeaderNames]
    metadata: tuple[MetadataColumn, ...]
    error_columns: tuple[str, ...]
    uses_now: bool

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the columns that the input is made of: those of Spark's Kafka source, and `leaderEpoch`."""
        needed = {"value", *self.error_columns}
        needed |= {*map(field_of, self.metadata)}
        needed |= {"key"} if self.sends_key else set()
        needed |= {"headers"} if self.record_headers else set()
        return tuple(sorted(needed))

    def of(self, records: pa.RecordBatch, now: int) -> pa.RecordBatch:
        """Return the input for records that have the columns `fields`; `now` is in microseconds since 1970."""
        columns = [records.column("key")] if self.sends_key else []
        columns.append(records.column("value"))
        columns += [part_headers(records.column("headers"), names) for names in self.record_headers.values()]
        columns += [metadata_array(column, records) for column in self.metadata]
        columns += [records.column(name) for name in self.error_columns]
        if self.uses_now:
            columns.append(pa.repeat(pa.scalar(now, pa.int64()), len(records)).cast(_TIMESTAMP))
        return pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))])


def field_of(column: MetadataColumn) -> str:
    """Return the name of the column of records that a connector's metadata key is made of."""
    return _FIELDS.get(column.key, column.key)


def metadata_array(column: MetadataColumn, records: pa.RecordBatch) -> pa.Array:
    """Return the values of a connector's metadata key, of the type `column.key_type`."""
    array = records.column(field_of(column))
    if column.key in RAW:
        return raw_array(array, column.key_type)
    if column.key == "timestamp-type":
        known = pc.index_in(array, pa.array(_TIMESTAMP_TYPES, pa.int32()))
        names = pa.array(_TIMESTAMP_TYPES.values(), pa.string()).take(known)
        return pc.if_else(array.is_valid(), pc.fill_null(names, _NO_TYPE), pa.scalar(None, pa.string()))
    if column.key == "header-list":
        return pc.if_else(array.is_valid(), array, pa.scalar([], HEADERS_TYPE)) if array.null_count else array
    return _last_by_key(array) if column.key == "headers" else array


def _last_by_key(headers: pa.ListArray) -> pa.MapArray:
    """Return headers as a map in the order of its keys; of equal keys the last counts."""
    counts = np.asarray(pc.fill_null(pc.list_value_length(headers), 0))
    record_of = np.repeat(np.arange(len(headers)), counts)
    entries = headers.flatten()
    keys, values = pc.struct_field(entries, "key"), pc.struct_field(entries, "value")
    table = pa.table({"record": record_of, "key": keys, "place": np.arange(len(keys))})
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    records, names = record_of[np.asarray(order)], keys.take(order)
    last = np.ones(len(names), np.bool_)
    if len(names) > 1:
        same = np.asarray(pc.equal(names[:-1], names[1:])) & (records[:-1] == records[1:])
        last[:-1] = ~same
    kept = pa.array(last)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(records[last], minlength=len(headers)))))
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), names.filter(kept), values.take(order).filter(kept))
