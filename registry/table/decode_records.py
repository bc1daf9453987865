"""Kafka records to rows of a table, batch by batch, in Arrow.

    keys, values -> decode_batch of each format -> rows per record (key rows x value rows) -> columns of the table

Most batches have one row per record, and their columns are passed on unchanged. Other batches are assembled by row
indexes. Rules: Flink's `DynamicKafkaDeserializationSchema`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.cells import CELLS_PER_BYTE, MOST_CELLS, MOST_CELLS_OF_A_BATCH
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.types import arrow_type, nullable
from kvformat.registry.format import Format
from kvformat.registry.table.record_arrays import any_valid, struct_array, with_prefix
from kvformat.registry.table.record_headers import Headers, part_headers, with_header
from kvformat.registry.table.record_layout import RecordLayout

_NO_HEADERS: Mapping[Part, pa.BinaryArray] = {}
# Bounds for one record, so that a few bytes cannot fill the memory: rows if key and value have several each, and
# bytes of the key repeated for each row of the value, or the other way round.
_MOST_PAIRS = 1000
_MOST_REPEATED, _PER_BYTE = 1 << 16, 16
_KNOWN_TOMBSTONES = 64  # different messages without a row that are cached for a batch

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DecodedRecords(DecodedBatch):
    """A `DecodedBatch` of whole records; `parts` is the part each error is in: 'key', 'value' or 'record'."""

    parts: pa.StringArray | None = None


@dataclass(frozen=True)
class TableRows:
    """Rows of a table: its physical columns, followed by the metadata of the value format.

    `counts` is the number of rows of each record. `records` is the index of each row's record, None if each record has
    one row. `reasons`, `parts` and `codes` are the errors, one element per record, None if there are no errors.
    """

    columns: list[pa.Array]
    kinds: pa.StringArray | None
    counts: _Ints
    records: _Ints | None
    reasons: pa.StringArray | None
    parts: pa.StringArray | None
    codes: pa.StringArray | None

    def indexes(self) -> pa.Int32Array:
        """Return the index of each row in its record, null for the row of a bad record."""
        starts = np.cumsum(self.counts) - self.counts
        indexes = np.arange(self.counts.sum()) - np.repeat(starts, self.counts)
        bad = None if self.reasons is None else np.repeat(np.asarray(self.reasons.is_valid()), self.counts)
        return pa.array(indexes, pa.int32(), mask=bad)


def decode_records(
    layout: RecordLayout,
    keys: pa.BinaryArray | None,
    values: pa.BinaryArray,
    metadata: tuple[str, ...] = (),
    *,
    capture: bool = False,
    headers: Mapping[Part, Headers] = _NO_HEADERS,
    failed_rows: Callable[[TableRows], Mapping[int, str]] | None = None,
) -> TableRows:
    """Decode a batch of records; never raises for bad data.

    `metadata` are keys of the value format. `headers` has the formats' `record_headers`, null where a record has none.
    With `capture` skipped messages are errors, too, and a bad record has one row of nulls instead of none.
    `failed_rows` returns the reasons of rows that make their record a bad one, by the index of the row.
    """
    values = with_header(layout.value_format, values, headers.get("value"))
    value = _DecodedPart.of(layout.value_format.decode_batch(values, layout.value_schema, metadata=metadata), values)
    key = None
    if layout.key_format is not None:
        assert keys is not None
        keys = with_header(layout.key_format, keys, headers.get("key"))
        key = _DecodedPart.of(layout.key_format.decode_batch(keys, layout.key_schema), keys)
    assembler = _RowAssembler(layout, key, value, capture)
    rows = assembler.rows()
    if layout.by_key and assembler.add_null_key_errors(rows):
        rows = assembler.rows()
    if failed_rows is not None and assembler.add_row_errors(rows, failed_rows(rows)):
        rows = assembler.rows()
    return rows


def decode_record_batch(
    layout: RecordLayout,
    keys: pa.BinaryArray | None,
    values: pa.BinaryArray,
    metadata: Mapping[str, str],
    headers: pa.ListArray | None,
) -> DecodedRecords:
    """Decode a batch of records into one list of rows per record, like a format's `decode_batch`.

    `metadata` maps column names of the result to keys of the value format. `headers` are all headers of the records.
    """
    names = {} if headers is None else layout.record_headers
    headers_of_parts = {part: part_headers(headers, name) for part, name in names.items()}
    rows = decode_records(layout, keys, values, tuple(metadata.values()), headers=headers_of_parts)
    fields = [*arrow_type(nullable(layout.physical))]
    added = (*metadata, *layout.value_format.own_columns)
    fields += [pa.field(name, column.type) for name, column in zip(added, rows.columns[len(fields) :], strict=True)]
    struct = struct_array(rows.columns, fields, int(rows.counts.sum()))
    offsets = pa.array(np.concatenate(([0], np.cumsum(rows.counts))), pa.int32())
    mask = None if rows.reasons is None else rows.reasons.is_valid()
    lists = pa.ListArray.from_arrays(offsets, struct, mask=mask)
    return DecodedRecords(lists, rows.kinds, rows.reasons, rows.codes, rows.parts)


# --- the rows of a batch, from its decoded keys and values ---------------------------------------------------


@dataclass(frozen=True)
class _DecodedPart:
    """The decoded keys or values of a batch: of each message the number of its rows, and where they start."""

    messages: pa.BinaryArray
    batch: DecodedBatch
    counts: _Ints
    starts: _Ints

    @classmethod
    def of(cls, batch: DecodedBatch, messages: pa.BinaryArray) -> _DecodedPart:
        offsets = np.asarray(batch.rows.offsets).astype(np.int64)
        counts = np.diff(offsets)
        if batch.rows.null_count:
            counts = np.where(np.asarray(batch.rows.is_null()), 0, counts)
        return cls(messages, batch, counts, offsets[:-1])

    def skipped(self) -> _Bools:
        """Return which messages are not null and have no row; messages with an error are among them."""
        skipped: _Bools = (self.counts == 0) & np.asarray(self.messages.is_valid())
        return skipped

    def lengths(self) -> _Ints:
        """Return the number of bytes of each message, 0 for null."""
        return np.asarray(pc.fill_null(pc.binary_length(self.messages), 0)).astype(np.int64)

    def columns(self, indexes: pa.Int64Array | None) -> list[pa.Array]:
        """Return the columns of the rows at these indexes; None returns all rows."""
        values = self.batch.rows.values
        columns = [values.field(i) for i in range(values.type.num_fields)]
        return columns if indexes is None else [column.take(indexes) for column in columns]


class _RowAssembler:
    """Assembles the rows of a batch from its decoded keys and values, and collects the errors of its records."""

    def __init__(self, layout: RecordLayout, key: _DecodedPart | None, value: _DecodedPart, capture: bool) -> None:
        self.layout, self.key, self.value, self.capture = layout, key, value, capture
        self.length = len(value.messages)
        none = np.zeros(self.length, np.bool_)
        self.tombstone = self._tombstones() if layout.deletes_by_null else none
        self.no_key = key.counts == 0 if key is not None else none
        self.reasons: dict[str, pa.StringArray | None] = {"key": None, "value": None, "record": None}
        self.codes = dict(self.reasons)
        self._find_errors()

    def _tombstones(self) -> _Bools:
        """Return which values delete their key: nulls, and messages that the format reads as a tombstone."""
        tombstones: _Bools = np.array(self.value.messages.is_null())
        known: dict[bytes, bool] = {}  # the tombstones of a table are mostly equal
        for i in np.flatnonzero(self.value.skipped()).tolist():
            message = self.value.messages[i].as_py()
            if message not in known:
                known = known if len(known) < _KNOWN_TOMBSTONES else {}
                known[message] = self.layout.value_format.is_tombstone(message)
            tombstones[i] = known[message]
        return tombstones

    # --- errors --------------------------------------------------------------------------------------------

    def _find_errors(self) -> None:
        key, value = self.key, self.value
        if key is not None:
            assert self.layout.key_format is not None
            skipped = _skipped_reason(self.layout.key_format)
            self.reasons["key"] = with_prefix(f"{self.layout.key_format.identifier}: ", key.batch.errors)
            self.codes["key"] = key.batch.codes
            if self.layout.upsert:  # also if the format decodes null to a row, as raw does
                null = np.asarray(key.messages.is_null())
                self._add_error("key", null, "the key is null, but an upsert table needs one", ErrorCode.NULL_KEY)
                self._add_error("key", self.no_key, skipped, ErrorCode.SKIPPED)
            if self.capture:
                self._add_error("key", key.skipped(), skipped, ErrorCode.SKIPPED)
        errors, codes = value.batch.errors, value.batch.codes
        if errors is not None and self.tombstone.any():  # a null value is a delete, whatever the format decodes it to
            deleted, null = pa.array(self.tombstone), pa.scalar(None, pa.string())
            errors, codes = pc.if_else(deleted, null, errors), pc.if_else(deleted, null, codes)
        self.reasons["value"] = with_prefix(f"{self.layout.value_format.identifier}: ", errors)
        self.codes["value"] = codes
        if self.capture:
            skipped = _skipped_reason(self.layout.value_format)
            self._add_error("value", value.skipped() & ~self.tombstone, skipped, ErrorCode.SKIPPED)
        if key is not None:
            self._check_sizes(key, value)

    def _check_sizes(self, key: _DecodedPart, value: _DecodedPart) -> None:
        """Add an error to records whose rows would be much larger than the record itself."""
        several = (key.counts > 1) | (value.counts > 1)
        if not several.any():
            return
        pairs = (key.counts > 1) & (value.counts > 1) & (key.counts * value.counts > _MOST_PAIRS)
        text = f"key and value have several rows each, together more than {_MOST_PAIRS}"
        self._add_error("record", pairs, text, ErrorCode.TOO_LARGE)
        sizes = key.lengths(), value.lengths()
        repeated = sizes[0] * value.counts + sizes[1] * key.counts
        large = several & (repeated > _MOST_REPEATED + _PER_BYTE * (sizes[0] + sizes[1]))
        types = key.batch.rows.type.value_type, value.batch.rows.type.value_type
        cells = _cells(types[0]) * value.counts + _cells(types[1]) * key.counts
        beyond = np.where(several & ~large, np.maximum(cells - CELLS_PER_BYTE * (sizes[0] + sizes[1]), 0), 0)
        large |= beyond > MOST_CELLS
        beyond[large] = 0
        large |= (beyond > 0) & (np.cumsum(beyond) > MOST_CELLS_OF_A_BATCH)
        text = "its rows would take many times as much memory as the record itself"
        self._add_error("record", large, text, ErrorCode.TOO_LARGE)

    def _add_error(self, part: str, where: _Bools, reason: str, code: ErrorCode) -> bool:
        """Add an error to the records in `where` that have no error in this part; return whether `where` has any."""
        if not where.any():
            return False
        for texts, text in ((self.reasons, reason), (self.codes, code.value)):
            new, old = pc.if_else(pa.array(where), text, pa.scalar(None, pa.string())), texts[part]
            texts[part] = new if old is None else pc.coalesce(old, new)
        return True

    def _errors(self) -> tuple[pa.StringArray | None, pa.StringArray | None, pa.StringArray | None]:
        """Return reason, part and code of each record's error; None if there are no errors.

        The part of a record with two errors is 'record', and its code is that of the key, if the key has an error.
        """
        by_part = {
            part: reasons for part, reasons in self.reasons.items() if reasons is not None and any_valid(reasons)
        }
        if not by_part:
            return None, None, None
        if len(by_part) == 1:
            (part, reasons) = next(iter(by_part.items()))
            return reasons, pc.if_else(reasons.is_valid(), part, pa.scalar(None, pa.string())), self.codes[part]
        null = pa.scalar(None, pa.string())
        several = np.sum([np.asarray(reasons.is_valid()) for reasons in by_part.values()], axis=0) > 1
        both = [
            "; ".join(f"{part}: {reasons[at]}" for part, reasons in by_part.items() if reasons[at].is_valid)
            for at in np.flatnonzero(several).tolist()
        ]
        mask = pa.array(several)
        parts = pc.coalesce(*(pc.if_else(reasons.is_valid(), part, null) for part, reasons in by_part.items()))
        reasons = pc.replace_with_mask(pc.coalesce(*by_part.values()), mask, pa.array(both, pa.string()))
        return reasons, pc.if_else(mask, "record", parts), pc.coalesce(*(self.codes[part] for part in by_part))

    def add_null_key_errors(self, rows: TableRows) -> bool:
        """Add an error to each record with a NULL in its PRIMARY KEY; return whether there are any."""
        has_errors = False
        for i in self.layout.row_key:
            if rows.columns[i].null_count:
                null = np.asarray(rows.columns[i].is_null())
                records = np.flatnonzero(null) if rows.records is None else rows.records[null]
                where = np.zeros(self.length, np.bool_)
                where[records] = True
                if rows.reasons is not None:
                    where &= ~np.asarray(rows.reasons.is_valid())
                text = f"column '{self.layout.physical.fields[i].name}' of the PRIMARY KEY is NULL"
                has_errors |= self._add_error("record", where, text, ErrorCode.NULL_KEY)
        return has_errors

    def add_row_errors(self, rows: TableRows, failed: Mapping[int, str]) -> bool:
        """Add an error to each record with a failed row; return whether there are any."""
        known = None if rows.reasons is None else np.asarray(rows.reasons.is_valid())
        reasons: dict[int, str] = {}
        for row, reason in sorted(failed.items()):
            record = row if rows.records is None else int(rows.records[row])
            if known is None or not known[record]:
                reasons.setdefault(record, reason)
        if not reasons:
            return False
        texts = pa.array([reasons.get(i) for i in range(self.length)], pa.string())
        codes = pc.if_else(texts.is_valid(), ErrorCode.COMPUTED_COLUMN.value, pa.scalar(None, pa.string()))
        for of_part, new in ((self.reasons, texts), (self.codes, codes)):
            old = of_part["record"]
            of_part["record"] = new if old is None else pc.coalesce(old, new)
        return True

    # --- rows ----------------------------------------------------------------------------------------------

    def rows(self) -> TableRows:
        reasons, parts, codes = self._errors()
        if reasons is None and self.key is None and self._has_value_rows_only():
            return self._value_rows()
        bad = np.zeros(self.length, np.bool_) if reasons is None else np.asarray(reasons.is_valid())
        ones = np.ones(self.length, np.int64)
        key_counts = np.where(self.no_key, ones, self.key.counts) if self.key is not None else ones
        counts: _Ints = np.where(self.tombstone, ones, self.value.counts) * key_counts
        if reasons is not None:
            counts = np.where(bad, ones * self.capture, counts)
        # `record_of` is the record of each row, `row_in_record` counts the rows of each record
        if bool(np.all(counts == 1)):
            records, row_in_record = None, np.zeros(self.length, np.int64)
            record_of = np.arange(self.length)
        else:
            records = record_of = np.repeat(np.arange(self.length), counts)
            row_in_record = np.arange(len(record_of)) - np.repeat(np.cumsum(counts) - counts, counts)
        tombstone, bad = self.tombstone[record_of], bad[record_of]
        per_key = key_counts[record_of]
        value_indexes = _row_indexes(self.value, record_of, row_in_record // per_key, tombstone | bad)
        kinds = self._kinds(value_indexes, tombstone, bad)
        deleted = tombstone
        if self.layout.by_key and not self.layout.upsert:
            deleted = np.asarray(pc.fill_null(pc.equal(kinds, "-D"), False))
        key_columns: list[pa.Array] = []
        if self.key is not None and (
            len(self.layout.value_indexes) < len(self.layout.physical.fields) or deleted.any()
        ):
            missing = self.no_key[record_of] | bad
            key_columns = self.key.columns(_row_indexes(self.key, record_of, row_in_record % per_key, missing))
        columns = self._columns(key_columns, self.value.columns(value_indexes), deleted)
        return TableRows(columns, kinds, counts, records, reasons, parts, codes)

    def _has_value_rows_only(self) -> bool:
        """Return whether the rows of a table without a key are exactly those of the value, in order, as is usual."""
        return int(self.value.counts.sum()) == len(self.value.batch.rows.values)

    def _value_rows(self) -> TableRows:
        """Return the rows of the value, with their columns unchanged."""
        counts = self.value.counts
        records = None if bool(np.all(counts == 1)) else np.repeat(np.arange(self.length), counts)
        columns = self._columns([], self.value.columns(None), self.tombstone)
        return TableRows(columns, self._kinds(None, self.tombstone, self.tombstone), counts, records, None, None, None)

    def _columns(self, keys: list[pa.Array], values: list[pa.Array], deleted: _Bools) -> list[pa.Array]:
        """Return the table's columns.

        If key and value both contain a column, the value's wins: of an update that changes the key, only the value has
        the old one. A deleted row whose value does not have the column takes the key's.
        """
        of_key = {index: i for i, index in enumerate(self.layout.key_indexes)}
        of_value = {index: i for i, index in enumerate(self.layout.value_indexes)}
        columns = []
        for index in range(len(self.layout.physical.fields)):
            if index not in of_value:
                columns.append(keys[of_key[index]])
            elif index in of_key and keys and deleted.any():
                value = values[of_value[index]]
                from_key = deleted & np.asarray(value.is_null())
                columns.append(pc.if_else(pa.array(from_key), keys[of_key[index]], value))
            else:
                columns.append(values[of_value[index]])
        return [*columns, *values[len(of_value) :]]

    def _kinds(self, value_indexes: pa.Int64Array | None, tombstone: _Bools, bad: _Bools) -> pa.StringArray | None:
        """Return the kind of each row, null for bad records; None if the table has no kinds."""
        if not self.layout.has_kinds:
            return None
        row_kinds = self.value.batch.row_kinds
        if self.layout.upsert:
            deleted = tombstone
            if row_kinds is not None:  # a format with kinds may have deletes of its own
                kinds = row_kinds if value_indexes is None else row_kinds.take(value_indexes)
                deleted = tombstone | np.asarray(pc.equal(kinds, "-D").fill_null(False))
            return pa.array(["+U", "-D"]).take(pa.array(deleted.astype(np.int8), mask=bad))
        if row_kinds is None:
            row_kinds = pa.repeat(pa.scalar("+I"), len(self.value.batch.rows.values))
        kinds = row_kinds if value_indexes is None else row_kinds.take(value_indexes)
        return pc.if_else(pa.array(tombstone), "-D", kinds) if tombstone.any() else kinds


def _row_indexes(part: _DecodedPart, record_of: _Ints, row_in_message: _Ints, missing: _Bools) -> pa.Int64Array | None:
    """Return the index of each row among the rows of a key or value, null if missing.

    None means that all rows of the part are taken, in order.
    """
    indexes = part.starts[record_of] + row_in_message
    total = len(part.batch.rows.values)
    if not missing.any():
        if len(record_of) == total and bool(np.all(indexes == np.arange(total))):
            return None
        return pa.array(indexes)
    return pa.array(indexes, mask=missing)


def _cells(row: pa.DataType) -> int:
    """Return the number of Arrow values and NULLs of a row, including nested rows; an array or a map counts as one."""
    members = [row.field(i).type for i in range(row.num_fields)] if pa.types.is_struct(row) else []
    return 1 + sum(map(_cells, members))


def _skipped_reason(format: Format) -> str:
    return f"skipped: format '{format.identifier}' returned no row for this message"
