"""Kafka records as rows of a table and back, batch by batch, in Arrow.

    keys, values -> decode_batch of each format -> rows per record (key rows x value rows) -> columns of the table
    columns of the table -> key struct, value struct -> encode_batch of each format -> keys, values

Most batches hold one row per record, whose columns are handed on as they are; only others are put together by
places. Rules: Flink's `DynamicKafkaDeserializationSchema` and `DynamicKafkaRecordSerializationSchema`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.cells import CELLS_PER_BYTE, MOST_CELLS, MOST_CELLS_OF_A_BATCH
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.format import DecodedBatch, EncodedBatch, Format
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable, result_arrow_type, row_type

# What one record may multiply to, so that a few bytes can't fill the memory: key rows x value rows where both are
# several, and bytes of the key repeated for each row of the value or the other way round.
_MOST_PAIRS = 1000
_MOST_REPEATED, _PER_BYTE = 1 << 16, 16
_KNOWN_TOMBSTONES = 64  # different messages without a row that are remembered while a batch is looked at

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DecodedRecords(DecodedBatch):
    """A `DecodedBatch` of whole records; `parts` says of each error where it is: 'key', 'value' or 'record'."""

    parts: pa.StringArray | None = None


@dataclass(frozen=True)
class EncodedRecords:
    """What rows encoded to: `keys` (None without a key format) and `values`, one per row.

    A null value is a tombstone. `kept` is False for the `-U` of an update that writes nothing, or None when all
    rows count. `errors` is null where all is well, or None when there are none at all; `codes` is what kinds they are.
    """

    keys: pa.BinaryArray | None
    values: pa.BinaryArray
    kept: pa.BooleanArray | None = None
    errors: pa.StringArray | None = None
    codes: pa.StringArray | None = None


@dataclass(frozen=True)
class TableRows:
    """Rows of the table: its physical columns and the format metadata asked for.

    `records` is the record of each row, None when each record has one row. `reasons`, `parts` and `codes` are the
    faults, one per record, None when there are none; with `fault_rows`, a record with a fault has one row of nulls.
    """

    columns: list[pa.Array]
    kinds: pa.StringArray | None
    counts: _Ints
    records: _Ints | None
    reasons: pa.StringArray | None
    parts: pa.StringArray | None
    codes: pa.StringArray | None

    def indexes(self) -> pa.Int32Array:
        """The place of each row in its record, null for the row of a fault."""
        starts = np.cumsum(self.counts) - self.counts
        indexes = np.arange(self.counts.sum()) - np.repeat(starts, self.counts)
        faults = None if self.reasons is None else np.repeat(np.asarray(self.reasons.is_valid()), self.counts)
        return pa.array(indexes, pa.int32(), mask=faults)


@dataclass(frozen=True)
class RecordCodec:
    """How the records of one table are read and written; everything in it is small and can be pickled."""

    physical: FlinkType
    key_format: Format | None
    value_format: Format
    key_schema: pa.Schema | None
    value_schema: pa.Schema
    key_places: tuple[int, ...]
    value_places: tuple[int, ...]
    upsert: bool
    #: the columns of the rows' key, of an upsert table or of one whose changes are by key
    row_key: tuple[int, ...] = ()

    @property
    def by_key(self) -> bool:
        """Whether rows are changed by their key: also by a value's format that leaves out the rows before updates."""
        return self.upsert or self.value_format.changelog_mode is ChangelogMode.UPSERT

    @property
    def deletes_by_null(self) -> bool:
        """Whether a null value deletes the row of the record's key: in upsert tables, and where the format says so."""
        in_record = self.key_format is not None and set(self.row_key) <= set(self.key_places)
        return self.upsert or (self.by_key and self.value_format.nulls_delete and in_record)

    @property
    def has_kinds(self) -> bool:
        """Whether rows have kinds other than +I."""
        return self.upsert or self.value_format.changelog_mode is not ChangelogMode.INSERT_ONLY

    def for_encoding(self) -> RecordCodec:
        """What a Spark job that writes carries to its executors."""
        key = self.key_format
        return replace(
            self,
            key_format=None if key is None else key.for_encoding(self.key_schema),
            value_format=self.value_format.for_encoding(self.value_schema),
        )

    # --- decoding ----------------------------------------------------------------------------------------

    def decode(
        self,
        keys: pa.BinaryArray | None,
        values: pa.BinaryArray,
        metadata: tuple[str, ...] = (),
        *,
        skips_are_faults: bool = False,
        fault_rows: bool = False,
    ) -> TableRows:
        """The rows of a batch of records; never raises for bad data."""
        value = _Part.of(self.value_format.decode_batch(values, self.value_schema, metadata=metadata), values)
        key = None
        if self.key_format is not None:
            assert keys is not None
            key = _Part.of(self.key_format.decode_batch(keys, self.key_schema), keys)
        joined = _Join(self, key, value, metadata, skips_are_faults)
        rows = joined.rows(fault_rows)
        if self.by_key and joined.refuse_null_keys(rows):
            rows = joined.rows(fault_rows)
        return rows

    def decode_batch(
        self, keys: pa.BinaryArray | None, values: pa.BinaryArray, metadata: Mapping[str, str]
    ) -> DecodedRecords:
        """`decode` in the form of a format's `decode_batch`; metadata is by the column names of the result."""
        rows = self.decode(keys, values, tuple(metadata.values()))
        fields = [*arrow_type(nullable(self.physical))]
        beside = (*metadata, *self.value_format.own_columns)
        fields += [
            pa.field(name, column.type) for name, column in zip(beside, rows.columns[len(fields) :], strict=True)
        ]
        struct = _struct(rows.columns, fields, int(rows.counts.sum()))
        offsets = pa.array(np.concatenate(([0], np.cumsum(rows.counts))), pa.int32())
        mask = None if rows.reasons is None else rows.reasons.is_valid()
        lists = pa.ListArray.from_arrays(offsets, struct, mask=mask)
        return DecodedRecords(lists, rows.kinds, rows.reasons, rows.codes, rows.parts)

    # --- encoding ----------------------------------------------------------------------------------------

    def encode(self, rows: pa.StructArray, kinds: pa.StringArray | None) -> EncodedRecords:
        """Keys and values of rows that have just the physical columns; never raises for bad data."""
        columns = rows.flatten()
        keys = None
        faults: list[tuple[pa.StringArray | None, pa.StringArray | None]] = []
        if self.key_format is not None:
            batch = self._encoded(self.key_format, self.key_schema, columns, self.key_places, len(rows), None)
            keys = batch.messages
            faults.append((_prefixed("key: ", batch.errors), batch.codes))
        if self.upsert:
            deleted = None if kinds is None else pc.is_in(kinds, pa.array(["-D", "-U"]))
            faults.append(self._null_keys(columns))
            batch = self._live_values(columns, len(rows), deleted)
        else:
            batch = self._encoded(self.value_format, self.value_schema, columns, self.value_places, len(rows), kinds)
        faults.append((_prefixed("value: ", batch.errors), batch.codes))
        kept = _without_pairs(keys, kinds) if self.upsert and kinds is not None else None
        return EncodedRecords(keys, batch.messages, kept, *(_merged(texts) for texts in zip(*faults, strict=True)))

    def _encoded(
        self,
        format: Format,
        schema: pa.Schema,
        columns: Sequence[pa.Array],
        places: Sequence[int],
        length: int,
        kinds: pa.StringArray | None,
    ) -> EncodedBatch:
        struct = _struct([columns[i] for i in places], list(result_arrow_type(row_type(schema))), length)
        return format.encode_batch(struct, schema, row_kinds=kinds if self.has_kinds else None)

    def _live_values(self, columns: Sequence[pa.Array], length: int, deleted: pa.BooleanArray | None) -> EncodedBatch:
        """The values of an upsert table: those of deleted rows are null, and are not even looked at."""
        if deleted is None or not pc.any(deleted, min_count=0).as_py():
            return self._encoded(self.value_format, self.value_schema, columns, self.value_places, length, None)
        live = pc.invert(deleted)
        count = pc.sum(live, min_count=0).as_py()
        batch = self._encoded(
            self.value_format,
            self.value_schema,
            [column.filter(live) for column in columns],
            self.value_places,
            count,
            None,
        )
        order = np.cumsum(np.asarray(live)) - 1
        places = pa.array(order, pa.int64(), mask=np.asarray(deleted))
        beside = (None if texts is None else texts.take(places) for texts in (batch.errors, batch.codes))
        return EncodedBatch(batch.messages.take(places), *beside)

    def _null_keys(self, columns: Sequence[pa.Array]) -> tuple[pa.StringArray | None, pa.StringArray | None]:
        """The errors of rows that have a NULL in their PRIMARY KEY, and their codes."""
        found = None
        for i in self.key_places:
            if columns[i].null_count:
                text = f"column '{self.physical.fields[i].name}' of the PRIMARY KEY is NULL"
                reasons = pc.if_else(columns[i].is_null(), text, pa.scalar(None, pa.string()))
                found = reasons if found is None else pc.coalesce(found, reasons)
        if found is None:
            return None, None
        return found, pc.if_else(found.is_valid(), ErrorCode.NULL_KEY.value, pa.scalar(None, pa.string()))


def _without_pairs(keys: pa.BinaryArray | None, kinds: pa.StringArray) -> pa.BooleanArray | None:
    """False for each `-U` whose next row is a `+U` of the same key: the later value replaces the earlier one."""
    assert keys is not None  # upsert tables have a key
    if len(kinds) < 2:
        return None
    pair = pc.and_(pc.equal(kinds[:-1], "-U"), pc.equal(kinds[1:], "+U"))
    pair = pc.fill_null(pc.and_(pair, pc.equal(keys[:-1], keys[1:])), False)
    if not pc.any(pair, min_count=0).as_py():
        return None
    return pa.concat_arrays([pc.invert(pair), pa.array([True])])


# --- one part of the records, decoded ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    messages: pa.BinaryArray
    batch: DecodedBatch
    counts: _Ints
    starts: _Ints

    @classmethod
    def of(cls, batch: DecodedBatch, messages: pa.BinaryArray) -> _Part:
        offsets = np.asarray(batch.rows.offsets).astype(np.int64)
        counts = np.diff(offsets)
        if batch.rows.null_count:
            counts = np.where(np.asarray(batch.rows.is_null()), 0, counts)
        return cls(messages, batch, counts, offsets[:-1])

    def skipped(self) -> _Bools:
        """Messages that are no null and have no row; those with an error are among them."""
        skipped: _Bools = (self.counts == 0) & np.asarray(self.messages.is_valid())
        return skipped

    def lengths(self) -> _Ints:
        return np.asarray(pc.fill_null(pc.binary_length(self.messages), 0)).astype(np.int64)

    def columns(self, places: pa.Int64Array | None) -> list[pa.Array]:
        """The columns of the rows at these places, or of all."""
        values = self.batch.rows.values
        columns = [values.field(i) for i in range(values.type.num_fields)]
        return columns if places is None else [column.take(places) for column in columns]


class _Join:
    """The rows of a batch, put together from its two parts."""

    def __init__(
        self, codec: RecordCodec, key: _Part | None, value: _Part, metadata: tuple[str, ...], skips_are_faults: bool
    ) -> None:
        self.codec, self.key, self.value, self.metadata = codec, key, value, metadata
        self.length = len(value.messages)
        none = np.zeros(self.length, np.bool_)
        self.tombstone = self._tombstones() if codec.deletes_by_null else none
        self.no_key = key.counts == 0 if key is not None else none
        self.reasons: dict[str, pa.StringArray | None] = {"key": None, "value": None, "record": None}
        self.codes = dict(self.reasons)
        self._find_faults(skips_are_faults)

    def _tombstones(self) -> _Bools:
        """Which values are deletions of their key: nulls, and messages that the format takes for one."""
        found: _Bools = np.array(self.value.messages.is_null())
        known: dict[bytes, bool] = {}  # deletions of a table are mostly equal
        for place in np.flatnonzero(self.value.skipped()).tolist():
            message = self.value.messages[place].as_py()
            if message not in known:
                known = known if len(known) < _KNOWN_TOMBSTONES else {}
                known[message] = self.codec.value_format.is_tombstone(message)
            found[place] = known[message]
        return found

    def _find_faults(self, skips_are_faults: bool) -> None:
        key, value = self.key, self.value
        if key is not None:
            assert self.codec.key_format is not None
            self.reasons["key"] = _prefixed(f"{self.codec.key_format.identifier}: ", key.batch.errors)
            self.codes["key"] = key.batch.codes
            if self.codec.upsert:  # also where the format makes a row of null, as raw does
                null = np.asarray(key.messages.is_null())
                self._add("key", null, "the key is null, but an upsert table needs one", ErrorCode.NULL_KEY)
                self._add("key", self.no_key, _no_row(self.codec.key_format), ErrorCode.SKIPPED)
            if skips_are_faults:
                self._add("key", key.skipped(), _no_row(self.codec.key_format), ErrorCode.SKIPPED)
        errors, codes = value.batch.errors, value.batch.codes
        if errors is not None and self.tombstone.any():  # a null value is a delete, whatever the format makes of it
            dead, null = pa.array(self.tombstone), pa.scalar(None, pa.string())
            errors, codes = pc.if_else(dead, null, errors), pc.if_else(dead, null, codes)
        self.reasons["value"] = _prefixed(f"{self.codec.value_format.identifier}: ", errors)
        self.codes["value"] = codes
        if skips_are_faults:
            self._add("value", value.skipped() & ~self.tombstone, _no_row(self.codec.value_format), ErrorCode.SKIPPED)
        if key is not None:
            self._bound(key, value)

    def _bound(self, key: _Part, value: _Part) -> None:
        """Refuse a record whose rows would be out of all proportion to its bytes."""
        several = (key.counts > 1) | (value.counts > 1)
        if not several.any():
            return
        pairs = (key.counts > 1) & (value.counts > 1) & (key.counts * value.counts > _MOST_PAIRS)
        text = f"key and value hold several rows each, together more than {_MOST_PAIRS}"
        self._add("record", pairs, text, ErrorCode.TOO_LARGE)
        sizes = key.lengths(), value.lengths()
        repeated = sizes[0] * value.counts + sizes[1] * key.counts
        large = several & (repeated > _MOST_REPEATED + _PER_BYTE * (sizes[0] + sizes[1]))
        kinds = key.batch.rows.type.value_type, value.batch.rows.type.value_type
        cells = _cells(kinds[0]) * value.counts + _cells(kinds[1]) * key.counts
        beyond = np.where(several & ~large, np.maximum(cells - CELLS_PER_BYTE * (sizes[0] + sizes[1]), 0), 0)
        large |= beyond > MOST_CELLS
        beyond[large] = 0
        large |= (beyond > 0) & (np.cumsum(beyond) > MOST_CELLS_OF_A_BATCH)
        text = "its rows would take many times as much room as the record itself"
        self._add("record", large, text, ErrorCode.TOO_LARGE)

    def _add(self, part: str, where: _Bools, reason: str, code: ErrorCode) -> bool:
        """Add a fault to records that have none in this part; says whether there were any."""
        if not where.any():
            return False
        for texts, text in ((self.reasons, reason), (self.codes, code.value)):
            new, old = pc.if_else(pa.array(where), text, pa.scalar(None, pa.string())), texts[part]
            texts[part] = new if old is None else pc.coalesce(old, new)
        return True

    def _faults(self) -> tuple[pa.StringArray | None, pa.StringArray | None, pa.StringArray | None]:
        """Reason, part and code of each record's fault.

        The fault of a record with two of them is in the 'record'; its code is that of the key, or else of the value.
        """
        found = {part: reasons for part, reasons in self.reasons.items() if reasons is not None and _any_valid(reasons)}
        if not found:
            return None, None, None
        if len(found) == 1:
            (part, reasons) = next(iter(found.items()))
            return reasons, pc.if_else(reasons.is_valid(), part, pa.scalar(None, pa.string())), self.codes[part]
        null = pa.scalar(None, pa.string())
        several = np.sum([np.asarray(reasons.is_valid()) for reasons in found.values()], axis=0) > 1
        both = [
            "; ".join(f"{part}: {reasons[at]}" for part, reasons in found.items() if reasons[at].is_valid)
            for at in np.flatnonzero(several).tolist()
        ]
        mask = pa.array(several)
        parts = pc.coalesce(*(pc.if_else(reasons.is_valid(), part, null) for part, reasons in found.items()))
        reasons = pc.replace_with_mask(pc.coalesce(*found.values()), mask, pa.array(both, pa.string()))
        return reasons, pc.if_else(mask, "record", parts), pc.coalesce(*(self.codes[part] for part in found))

    def rows(self, fault_rows: bool) -> TableRows:
        reasons, parts, codes = self._faults()
        if reasons is None and self.key is None and self._are_all():
            return self._as_they_are()
        bad = np.zeros(self.length, np.bool_) if reasons is None else np.asarray(reasons.is_valid())
        ones = np.ones(self.length, np.int64)
        key_counts = np.where(self.no_key, ones, self.key.counts) if self.key is not None else ones
        counts: _Ints = np.where(self.tombstone, ones, self.value.counts) * key_counts
        if reasons is not None:
            counts = np.where(bad, ones * fault_rows, counts)
        if bool(np.all(counts == 1)):
            records, inner = None, np.zeros(self.length, np.int64)
            of = np.arange(self.length)
        else:
            records = of = np.repeat(np.arange(self.length), counts)
            inner = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        dead, bad = self.tombstone[of], bad[of]
        per_key = key_counts[of]
        value_places = _places(self.value, of, inner // per_key, dead | bad)
        kinds = self._kinds(value_places, dead, bad)
        deleted = dead
        if self.codec.by_key and not self.codec.upsert:
            deleted = np.asarray(pc.fill_null(pc.equal(kinds, "-D"), False))
        key_columns: list[pa.Array] = []
        if self.key is not None and (len(self.codec.value_places) < len(self.codec.physical.fields) or deleted.any()):
            key_places = _places(self.key, of, inner % per_key, self.no_key[of] | bad)
            key_columns = self.key.columns(key_places)
        columns = self._columns(key_columns, self.value.columns(value_places), deleted)
        return TableRows(columns, kinds, counts, records, reasons, parts, codes)

    def _are_all(self) -> bool:
        """Whether the rows of the value are those of the table, in their order: the usual case without a key."""
        total = len(self.value.batch.rows.values)
        return not self.codec.deletes_by_null and int(self.value.counts.sum()) == total

    def _as_they_are(self) -> TableRows:
        """The rows of the value, whose columns are handed on without being touched."""
        counts = self.value.counts
        records = None if bool(np.all(counts == 1)) else np.repeat(np.arange(self.length), counts)
        columns = self._columns([], self.value.columns(None), self.tombstone)
        return TableRows(columns, self._kinds(None, self.tombstone, self.tombstone), counts, records, None, None, None)

    def _columns(self, keys: list[pa.Array], values: list[pa.Array], deleted: _Bools) -> list[pa.Array]:
        """The table's columns: the value's copy wins over the key's, but for a deletion, which may not have it."""
        of_key = {place: i for i, place in enumerate(self.codec.key_places)}
        of_value = {place: i for i, place in enumerate(self.codec.value_places)}
        columns = []
        for place in range(len(self.codec.physical.fields)):
            if place not in of_value:
                columns.append(keys[of_key[place]])
            elif place in of_key and keys and deleted.any():
                value = values[of_value[place]]
                of_key_alone = deleted if self.codec.upsert else deleted & np.asarray(value.is_null())
                columns.append(pc.if_else(pa.array(of_key_alone), keys[of_key[place]], value))
            else:
                columns.append(values[of_value[place]])
        return [*columns, *values[len(of_value) :]]

    def _kinds(self, value_places: pa.Int64Array | None, dead: _Bools, bad: _Bools) -> pa.StringArray | None:
        if not self.codec.has_kinds:
            return None
        given = self.value.batch.row_kinds
        if self.codec.upsert:
            if given is not None:  # a format with kinds tells of deletes, too
                told = given if value_places is None else given.take(value_places)
                dead = dead | np.asarray(pc.equal(told, "-D").fill_null(False))
            kinds = np.where(dead, 1, 0).astype(np.int8)
            return pa.array(["+U", "-D"]).take(pa.array(kinds, mask=bad))
        if given is None:
            given = pa.repeat(pa.scalar("+I"), len(self.value.batch.rows.values))
        kinds = given if value_places is None else given.take(value_places)
        return pc.if_else(pa.array(dead), "-D", kinds) if dead.any() else kinds

    def refuse_null_keys(self, rows: TableRows) -> bool:
        """Make a fault of each record with a NULL in its PRIMARY KEY; says whether there are any."""
        found = False
        for place in self.codec.row_key:
            if rows.columns[place].null_count:
                null = np.asarray(rows.columns[place].is_null())
                records = np.flatnonzero(null) if rows.records is None else rows.records[null]
                where = np.zeros(self.length, np.bool_)
                where[records] = True
                if rows.reasons is not None:
                    where &= ~np.asarray(rows.reasons.is_valid())
                name = self.codec.physical.fields[place].name
                text = f"column '{name}' of the PRIMARY KEY is NULL"
                found |= self._add("record", where, text, ErrorCode.NULL_KEY)
        return found


def _places(part: _Part, of: _Ints, inner: _Ints, missing: _Bools) -> pa.Int64Array | None:
    """Where in the part's rows each row is found, None when they are those rows, one for one."""
    places = part.starts[of] + inner
    total = len(part.batch.rows.values)
    if not missing.any():
        if len(of) == total and bool(np.all(places == np.arange(total))):
            return None
        return pa.array(places)
    return pa.array(places, mask=missing)


def _cells(kind: pa.DataType) -> int:
    """How many values or NULLs a row has in Arrow, those of the rows in it too; of an array or a map one."""
    members = [kind.field(i).type for i in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    return 1 + sum(map(_cells, members))


def _no_row(format: Format | None) -> str:
    assert format is not None
    return f"skipped: format '{format.identifier}' gives no row for this message"


def _struct(columns: Sequence[pa.Array], fields: Sequence[pa.Field], length: int) -> pa.StructArray:
    if not columns:
        return pa.array([{}] * length, pa.struct([]))
    return pa.StructArray.from_arrays(columns, fields=list(fields))


def _any_valid(reasons: pa.StringArray | None) -> bool:
    return reasons is not None and bool(reasons.null_count < len(reasons))


def _prefixed(prefix: str, reasons: pa.StringArray | None) -> pa.StringArray | None:
    return None if reasons is None else pc.binary_join_element_wise(prefix, reasons, "")


def _merged(faults: Sequence[pa.StringArray | None]) -> pa.StringArray | None:
    """Several arrays of errors as one, None when there are no errors."""
    found = [reasons for reasons in faults if _any_valid(reasons)]
    return pc.coalesce(*found) if found else None


def held_back(batches: Iterator[Any], last_is_open: Any) -> Iterator[Any]:
    """Batches in which an open last row stands at the beginning of the next batch instead.

    `last_is_open` says of a batch whether what its last row writes depends on the next row.
    """
    held: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        whole = batch if held is None else _stacked(held, batch)
        held = whole.slice(whole.num_rows - 1) if last_is_open(whole) else None
        whole = whole if held is None else whole.slice(0, whole.num_rows - 1)
        if whole.num_rows:
            yield whole
    if held is not None:
        yield held


def _stacked(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pa.concat_arrays([a, b]) for a, b in zip(first.columns, second.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=second.schema)
