"""Convert between the Arrow types of Avro schemas and those of a table.

| Avro schema | table |
| --- | --- |
| int: int32 | int8, int16, int32 |
| time-millis: time32[ms], time-micros: time64[us] | time64[ns] |
| timestamp-*: timestamp[ms or us], with UTC or without | timestamp[us], with UTC or without |
| fixed: fixed_size_binary | binary |
| string, a JSON text | VARIANT |
| not nullable | nullable, when read |
| other fields, in another order, of wider types (`fit.py`) | the columns, when written |

All other types keep their memory. A value that does not fit the other type, or that would lose digits, is an error of
its row. But digits that a column has beyond its declared precision are cut off.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import (
    Ints,
    Mask,
    RowsOf,
    as_integers,
    as_type,
    field_lookup,
    map_value_type,
    row_lookup,
    stored_type,
    validity,
    with_elements,
    with_entries,
    with_fields,
)
from kvformat.codecs.avro.read import Decoded
from kvformat.codecs.json.variant import read_variants, variant_texts
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.error_codes import ErrorCode, Reason, reason_arrays
from kvformat.registry.contract.types import FlinkType

_NANOS = {"ms": 1_000_000, "us": 1000}  # in a unit
_MICROS = 1000  # in a millisecond
_FARTHEST = (2**63 - 1) // _MICROS
_MILLIS = 3  # digits


def read_table(decoded: Decoded, row: FlinkType, *, micros_as_millis: bool) -> DecodedBatch:
    """Convert decoded records of a schema for the type `row` to rows.

    `decoded` has one list of records per message. Numbers that do not fit their column become errors of their message.
    """
    lists = decoded.values
    rows, reasons = read_rows(lists.values, row, micros_as_millis=micros_as_millis)
    if not reasons:
        return DecodedBatch(with_elements(lists, pa.list_(rows.type), rows), None, decoded.errors, decoded.codes)
    offsets = np.asarray(lists.offsets)
    of_messages = {int(np.searchsorted(offsets, at, "right")) - 1: reason for at, reason in reasons.items()}
    errors, codes = with_reasons(decoded, len(lists), of_messages)
    good = np.ones(len(rows), np.bool_)
    good[list(reasons)] = False
    kept = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(good, out=kept[1:])
    valid = validity(np.asarray(errors.is_null()) & np.asarray(lists.is_valid()))
    rows = rows.filter(pa.array(good))
    buffers = [valid, pa.py_buffer(kept[offsets])]
    good_lists = pa.Array.from_buffers(pa.list_(rows.type), len(lists), buffers, children=[rows])
    return DecodedBatch(good_lists, None, errors, codes)


def lists_of_rows(rows: pa.StructArray) -> pa.ListArray:
    """Return one list of a row per message, null for a null row."""
    valid = np.asarray(rows.is_valid())
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(valid, out=offsets[1:])
    values = rows.filter(pa.array(valid)) if rows.null_count else rows
    buffers = [validity(valid), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(values.type), len(rows), buffers, children=[values])


def write_table(
    rows: pa.StructArray, target: pa.DataType, row: FlinkType, *, micros_as_millis: bool
) -> tuple[pa.Array, dict[int, Reason]]:
    """Convert rows to the Arrow type of a schema for `row`. Also returns errors by the index of their row."""
    return _Conversion(reading=False, micros_as_millis=micros_as_millis).convert(rows, target, row)


def read_rows(
    values: pa.StructArray, row: FlinkType, *, micros_as_millis: bool
) -> tuple[pa.StructArray, dict[int, Reason]]:
    """Convert records to rows of the type `row`. Also returns errors by the index of their row."""
    return _Conversion(reading=True, micros_as_millis=micros_as_millis).convert(values, _type_of_rows(row), row)


_type_of_rows = cached_by_identity(stored_type)


def with_reasons(decoded: Decoded, count: int, reasons: dict[int, Reason]) -> tuple[pa.StringArray, pa.StringArray]:
    """Add errors by the index of their message to those of `count` decoded messages.

    Returns the texts and codes of all errors.
    """
    errors, codes = reason_arrays(map(reasons.get, range(count)))
    if decoded.errors is None:
        return errors, codes
    return pc.coalesce(decoded.errors, errors), pc.coalesce(decoded.codes, codes)


class _Conversion:
    """The conversion of one batch, to the table (`reading`) or from the table."""

    def __init__(self, *, reading: bool, micros_as_millis: bool) -> None:
        self._reading, self._micros_as_millis = reading, micros_as_millis
        self._reasons: dict[int, Reason] = {}

    def convert(
        self, rows: pa.StructArray, target: pa.DataType, row: FlinkType
    ) -> tuple[pa.StructArray, dict[int, Reason]]:
        """Convert rows to another type. Also returns errors by the index of their row."""
        return self._value(rows, target, row, "", lambda places: places), self._reasons

    def _value(self, values: pa.Array, target: pa.DataType, t: FlinkType, path: str, rows_of: RowsOf) -> pa.Array:
        if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            return self._timestamps(values, target, t, path, rows_of)
        if values.type == target and not (self._micros_as_millis and t.fields):
            return values
        if t.root == "ROW":
            return self._row(values, target, t, path, rows_of)
        if t.root == "ARRAY":
            return self._array(values, target, t, path, rows_of)
        if t.root in ("MAP", "MULTISET"):
            return self._map(values, target, t, path, rows_of)
        if t.root in ("TINYINT", "SMALLINT") and not pa.types.is_floating(target):
            return self._integers(values, target, t, path, rows_of)
        if t.root == "VARIANT":
            return self._variants(values, target, path, rows_of)
        if t.root == "TIME":
            return self._times(values, target, t, path, rows_of)
        if pa.types.is_floating(target):
            return self._floats(values, target, path, rows_of)
        return self._bytes(values, target, path, rows_of)

    # --- containers ------------------------------------------------------------------------------------

    def _row(self, values: pa.StructArray, target: pa.DataType, t: FlinkType, path: str, rows_of: RowsOf) -> pa.Array:
        above = field_lookup(values, rows_of)
        columns = {f.name: (values.field(i), f.type) for i, f in enumerate(t.fields)}
        children = [
            self._value(columns[f.name][0], f.type, columns[f.name][1], f"{path}.{f.name}" if path else f.name, above)
            if f.name in columns
            else pa.Array.from_buffers(f.type, len(values), [None])
            for f in target
        ]
        return with_fields(values, target, children)

    def _array(self, values: pa.Array, target: pa.DataType, t: FlinkType, path: str, rows_of: RowsOf) -> pa.Array:
        above = row_lookup(values, rows_of)
        items = self._value(values.values, target.value_type, t.fields[0].type, f"{path}.element", above)
        return with_elements(values, target, items)

    def _map(self, values: pa.Array, target: pa.DataType, t: FlinkType, path: str, rows_of: RowsOf) -> pa.Array:
        above = row_lookup(values, rows_of)
        items = self._value(values.items, target.item_type, map_value_type(t), f"{path}.value", above)
        return with_entries(values, target, values.keys, items)

    # --- scalars ---------------------------------------------------------------------------------------

    def _integers(self, values: pa.Array, target: pa.DataType, t: FlinkType, path: str, rows_of: RowsOf) -> pa.Array:
        if self._reading:
            bound = 2 ** (target.bit_width - 1)
            numbers = as_integers(values)
            self._check(
                (numbers >= -bound) & (numbers < bound), values, numbers, f"does not fit {t.root}", path, rows_of
            )
        return values.cast(target, safe=False)

    def _timestamps(self, values: pa.Array, target: pa.DataType, t: FlinkType, path: str, rows_of: RowsOf) -> pa.Array:
        unit = values.type.unit if self._reading else target.unit
        if unit == "us" and not self._micros_as_millis:
            return values if values.type == target else values.view(target)
        numbers = as_integers(values)
        if not self._reading and unit != "ns":
            if unit == "ms":
                self._check_digits(values, numbers, _MICROS, t, path, rows_of)
            return as_type(numbers // _MICROS, target, values)
        near = (numbers <= _FARTHEST) & (numbers >= -_FARTHEST)
        what = f"milliseconds are too far from 1970 for a {t.root}"
        if not self._reading:
            what = f"microseconds are too far from 1970 for {target}"
        self._check(near, values, numbers, what, path, rows_of)
        return as_type(numbers * _MICROS, target, values)

    def _times(self, values: pa.Array, target: pa.DataType, t: FlinkType, path: str, rows_of: RowsOf) -> pa.Array:
        numbers, nanos = as_integers(values), _NANOS[(values.type if self._reading else target).unit]
        if self._reading:
            return as_type(numbers * nanos, target, values)
        if nanos > _NANOS["us"]:
            self._check_digits(values, numbers, nanos, t, path, rows_of)
        return as_type(numbers // nanos, target, values)

    def _check_digits(
        self, values: pa.Array, numbers: Ints, divisor: int, t: FlinkType, path: str, rows_of: RowsOf
    ) -> None:
        """Check that no declared digits of a time are lost."""
        if (t.precision or 0) > _MILLIS:
            what = f"{values.type.unit} of a {t.summary()} have more digits than the milliseconds of the schema"
            self._check(numbers % divisor == 0, values, numbers, what, path, rows_of)

    def _floats(self, values: pa.Array, target: pa.DataType, path: str, rows_of: RowsOf) -> pa.Array:
        """Convert numbers to floating-point numbers that are equal."""
        if pa.types.is_floating(values.type):
            return values.cast(target)
        numbers = as_integers(values)
        floats = numbers.astype(target.to_pandas_dtype())
        back = floats.astype(np.float64)
        same = np.where(back < 2.0**63, back, 0).astype(np.int64) == numbers
        self._check(same, values, numbers, f"has more digits than a {target}", path, rows_of)
        return as_type(floats.view(f"<i{target.bit_width // 8}"), target, values)

    def _variants(self, values: pa.Array, target: pa.DataType, path: str, rows_of: RowsOf) -> pa.Array:
        converted, problems = read_variants(values) if self._reading else variant_texts(values)
        for place, (code, reason) in problems:
            (row,) = rows_of(np.array([place])).tolist()
            if row >= 0:
                self._reasons.setdefault(row, Reason(code, f"field '{path}': {reason}"))
        return converted if self._reading else converted.cast(target)

    def _bytes(self, values: pa.Array, target: pa.DataType, path: str, rows_of: RowsOf) -> pa.Array:
        if not pa.types.is_fixed_size_binary(target):
            return values.cast(target)
        lengths = pc.fill_null(pc.binary_length(values), target.byte_width).to_numpy()
        fits = lengths == target.byte_width
        if not fits.all():
            why = f"bytes, but the schema's fixed has {target.byte_width}"
            self._check(fits, values, lengths, why, path, rows_of, ErrorCode.WRONG_TYPE)
            values = pc.if_else(pa.array(fits), values, pa.scalar(None, pa.binary()))
        return values.cast(target)

    def _check(
        self,
        fits: Mask,
        values: pa.Array,
        numbers: Ints,
        why: str,
        path: str,
        rows_of: RowsOf,
        code: ErrorCode = ErrorCode.OUT_OF_RANGE,
    ) -> None:
        """Keep an error for each row with a number that is not null and does not fit."""
        if fits.all():
            return
        places = np.flatnonzero(~fits & values.is_valid().to_numpy(zero_copy_only=False))
        rows, first = np.unique(rows_of(places), return_index=True)
        for row, number in zip(rows.tolist(), numbers[places[first]].tolist(), strict=True):
            if row >= 0:
                self._reasons.setdefault(row, Reason(code, f"field '{path}': {number} {why}"))
