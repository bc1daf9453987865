"""Batches of Kafka records to batches of a table's rows, in a Python worker, for DataFrames and for the data source.

    decode_records -> computed columns -> error policy -> columns of the rows, row kinds, row indexes, errors

`decode_stage.py` makes the decoder of a table, and knows the columns of its input and of its result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.errors import DecodeError
from kvformat.registry.contract.format_hooks import HeaderNames, Part
from kvformat.registry.contract.normalize_input import binary_messages
from kvformat.registry.table.computed_columns import ComputedColumns
from kvformat.registry.table.decode_records import TableRows, decode_records
from kvformat.registry.table.record_headers import plain_headers
from kvformat.registry.table.record_layout import RecordLayout

POSITION = ("topic", "partition", "offset")
"""Kafka's columns that tell where a record is."""
_QUOTED_BYTES = 100  # bytes of a bad record that an error quotes


class _Computation:
    """Computes the computed columns of a batch: called for the failed rows, then for the columns of the rows kept."""

    def __init__(
        self, computed: ComputedColumns, inputs: Sequence[int], kafka_metadata: Sequence[pa.Array], now: int
    ) -> None:
        self.computed, self.inputs, self.kafka_metadata, self.now = computed, inputs, kafka_metadata, now
        self._of: TableRows | None = None
        self._columns: list[pa.Array] = []

    def __call__(self, rows: TableRows) -> Mapping[int, str]:
        """Return the reasons of the rows that fail."""
        metadata = self.kafka_metadata
        if rows.records is not None:
            metadata = [column.take(pa.array(rows.records)) for column in metadata]
        arrays = [*rows.columns, *metadata]
        length = int(rows.counts.sum())
        self._columns, failed = self.computed.evaluate([arrays[i] for i in self.inputs], length, self.now)
        self._of = rows
        return failed

    def columns(self, rows: TableRows) -> list[pa.Array]:
        """Return the columns, NULL in rows of bad records."""
        if self._of is not rows:
            self(rows)
        if rows.reasons is None:
            return self._columns
        bad = np.asarray(rows.reasons.is_valid())
        bad_rows = bad if rows.records is None else bad[rows.records]
        if not bad_rows.any():
            return self._columns
        indexes = pa.array(np.arange(len(bad_rows)), mask=bad_rows)
        return [column.take(indexes) for column in self._columns]


@dataclass(frozen=True)
class TaskDecoder:
    """Decodes the batches of one Spark task in a Python worker; pickled to it.

    An input batch has the columns: key (if `has_key`), value, the headers of the parts `record_headers`, the
    connector's metadata (`metadata_count` columns), and the `error_columns`. `policy` is 'raise', 'drop', 'capture', or
    'count', which returns only the errors. `names` are the columns of the result, `metadata` the keys of the value
    format. `position` gives the index of each column, after the headers, that is part of a record's position in Kafka;
    `topic` is the table's only topic.
    """

    layout: RecordLayout
    policy: str
    has_key: bool
    record_headers: tuple[tuple[Part, HeaderNames], ...]
    names: tuple[str, ...]
    metadata: tuple[str, ...] = ()
    metadata_count: int = 0
    error_columns: tuple[str, ...] = ()
    row_index: bool = False
    position: tuple[tuple[str, int], ...] = ()
    topic: str | None = None
    computed: ComputedColumns | None = None
    computed_inputs: tuple[int, ...] = ()
    uses_now: bool = False

    def mapped(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the function for `mapInArrow`, with the name that Spark shows in plans."""

        def key_value_decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            before = 0
            for batch in batches:
                yield self.decoded(batch, before)
                before += len(batch)

        return key_value_decode

    def decoded(self, batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
        """Return the rows of a batch; `before` is the number of records in earlier batches of the task."""
        columns = batch.columns
        key = binary_messages(columns[0]) if self.has_key else None
        value, *others = columns[int(self.has_key) :]
        value = binary_messages(value)
        header_columns = zip(self.record_headers, others, strict=False)
        headers = {part: plain_headers(column, names) for (part, names), column in header_columns}
        others = others[len(headers) :]
        capture = self.policy == "capture"
        now = 0
        if self.uses_now:
            now = others.pop().view(pa.int64())[0].as_py() if len(batch) else 0
        computation = None
        if self.computed is not None:
            kafka_metadata = others[: self.metadata_count]
            computation = _Computation(self.computed, self.computed_inputs, kafka_metadata, now)
        rows = decode_records(
            self.layout, key, value, self.metadata, capture=capture, headers=headers, failed_rows=computation
        )
        if self.policy == "count":
            none = pa.nulls(0, pa.string())
            faults = [none if texts is None else texts.drop_null() for texts in (rows.reasons, rows.codes)]
            return pa.RecordBatch.from_arrays(faults, self.names)
        if self.policy == "raise" and rows.reasons is not None:
            raise self._first_error(rows, key, value, others, before)
        records = None if rows.records is None else pa.array(rows.records)
        metadata = others[: self.metadata_count]
        result = [*rows.columns, *(metadata if records is None else [column.take(records) for column in metadata])]
        if computation is not None:
            result += computation.columns(rows)
        if self.layout.has_kinds:
            result.append(rows.kinds)
        if self.row_index:
            result.append(rows.indexes())
        if self.policy == "capture":
            result.append(self._error_column(rows, key, value, others[self.metadata_count :], records))
        return pa.RecordBatch.from_arrays(result, self.names)

    def _error_column(
        self,
        rows: TableRows,
        key: pa.BinaryArray | None,
        value: pa.BinaryArray,
        error_columns: Sequence[pa.Array],
        records: pa.Int64Array | None,
    ) -> pa.StructArray:
        """Return the column `error`, null for good rows; the bytes of good records are not copied."""
        length = len(value)
        reasons = pa.nulls(length, pa.string()) if rows.reasons is None else rows.reasons
        parts = pa.nulls(length, pa.string()) if rows.parts is None else rows.parts
        codes = pa.nulls(length, pa.string()) if rows.codes is None else rows.codes
        bad = np.asarray(reasons.is_valid())
        record_of = np.arange(length) if records is None else np.asarray(records)
        bad_records = pa.array(record_of, mask=~bad[record_of])
        keys = pa.nulls(length, pa.binary()) if key is None else key
        fields = [parts, reasons, keys, value, *error_columns, codes]
        return pa.StructArray.from_arrays(
            [field.take(bad_records) for field in fields],
            names=["part", "reason", "key", "value", *self.error_columns, "code"],
            mask=pa.array(~bad[record_of]),
        )

    def _first_error(
        self,
        rows: TableRows,
        key: pa.BinaryArray | None,
        value: pa.BinaryArray,
        others: Sequence[pa.Array],
        before: int,
    ) -> DecodeError:
        """Return the error of the first bad record, with the record's position and first bytes."""
        assert rows.reasons is not None
        assert rows.parts is not None
        assert rows.codes is not None
        bad = pc.index(rows.reasons.is_valid(), True).as_py()
        part, reason, code = rows.parts[bad].as_py(), rows.reasons[bad].as_py(), rows.codes[bad].as_py()
        format = {"key": self.layout.key_format, "value": self.layout.value_format}.get(part)
        pyspark = sys.modules.get("pyspark")  # loaded in Spark's workers
        task = None if pyspark is None else pyspark.TaskContext.get()
        where = "" if task is None else f"number {before + bad + 1} of Spark's partition {task.partitionId()}, "
        position = {} if self.topic is None else {"topic": self.topic}
        position |= {name: others[i][bad].as_py() for name, i in self.position}
        where += "".join(f"{name} {position[name]}, " for name in POSITION if name in position)
        quotes = f"key {_quoted_bytes(key[bad].as_py())}, " if key is not None else ""
        message = (key if part == "key" else value)[bad].as_py()  # type: ignore[index]
        return DecodeError(
            f"cannot decode the {part} of a record: {reason}. The record: {where}{quotes}value "
            f"{_quoted_bytes(value[bad].as_py())}. To keep bad records as data, use errors='capture'",
            format=None if format is None else format.identifier,
            reason=reason,
            head=None if message is None else message[:_QUOTED_BYTES],
            code=code,
        )


def _quoted_bytes(data: bytes | None) -> str:
    if data is None:
        return "null"
    more = f" and {len(data) - _QUOTED_BYTES} more bytes" if len(data) > _QUOTED_BYTES else ""
    return f"{data[:_QUOTED_BYTES]!r}{more}"
