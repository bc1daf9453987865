"""Build Arrow arrays from Python values, and convert parts of Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kvformat.codecs._columnar import Ints, Mask, validity
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable

Row = tuple[Any, ...]
"""The values of a row's columns."""
RowsOf = Callable[[Ints], Ints]
"""Maps indices in a nested array to the indices of their top-level rows; -1 for a value inside a null, and for -1."""
_COUNT = FlinkType("INT")


def valid_mask(values: pa.Array) -> Mask | None:
    """Return a mask of the values that are not null; None if no value is null."""
    if not values.null_count:
        return None
    valid: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


def as_integers(values: pa.Array) -> npt.NDArray[np.integer]:
    """Return the values of an array of fixed width as integers; the integers of nulls are undefined."""
    if not len(values):
        return np.zeros(0, np.int64)  # an empty array may have a buffer of any length
    width = values.type.bit_width // 8
    return np.frombuffer(values.buffers()[1], f"<i{width}", len(values), values.offset * width).astype(np.int64)


def as_type(numbers: npt.NDArray[np.integer], target: pa.DataType, like: pa.Array) -> pa.Array:
    """Return integers as an array of a type of fixed width, null where `like` is null."""
    data = np.ascontiguousarray(numbers.astype(f"<i{target.bit_width // 8}", copy=False))
    valid = valid_mask(like)
    bitmap = None if valid is None else validity(valid)
    return pa.Array.from_buffers(target, len(like), [bitmap, pa.py_buffer(data)])


def row_lookup(values: pa.Array, rows_of: RowsOf) -> RowsOf:
    """Return a function that maps indices of elements of lists or maps to top-level rows.

    `rows_of` maps indices of the lists. Elements of null lists have the row -1.
    """

    def rows_of_elements(indices: Ints) -> Ints:
        lists = np.searchsorted(values.offsets.to_numpy(), indices, side="right") - 1
        inside = (indices >= 0) & (lists >= 0) & (lists < len(values))
        valid = np.append(values.is_valid().to_numpy(zero_copy_only=False), False)
        return rows_of(np.where(inside & valid[np.where(inside, lists, -1)], lists, -1))

    return rows_of_elements


def with_elements(values: pa.Array, target: pa.DataType, elements: pa.Array) -> pa.Array:
    """Return the lists or maps with other elements; the number of elements must be the same."""
    return pa.Array.from_buffers(target, len(values), values.buffers()[:2], offset=values.offset, children=[elements])


def map_value_type(t: FlinkType) -> FlinkType:
    """Return the type of a MAP's values, or of a MULTISET's counts."""
    return t.fields[1].type if t.root == "MAP" else _COUNT


def to_arrow(rows: Sequence[Row | None], row: FlinkType) -> pa.StructArray:
    """Build a struct array, nullable at every level; None becomes a null struct."""
    return _structs(rows, nullable(row))


def _array(values: Sequence[Any], t: FlinkType) -> pa.Array:
    if t.root == "ROW":
        return _structs(values, t)
    if t.root == "ARRAY":
        return _lists(values, t, lambda flat: _array(flat, t.fields[0].type))
    if t.root in ("MAP", "MULTISET"):
        return _lists(values, t, lambda flat: _entries(flat, t))
    return pa.array(values, arrow_type(t))


def _structs(rows: Sequence[Row | None], t: FlinkType) -> pa.StructArray:
    stored = arrow_type(t)
    nulls = [row is None for row in rows]
    if not t.fields:
        return pa.array([None if null else {} for null in nulls], stored)
    empty: Row = (None,) * len(t.fields)
    columns = zip(*(empty if row is None else row for row in rows), strict=True) if rows else [()] * len(t.fields)
    children = [_array(column, field.type) for column, field in zip(columns, t.fields, strict=True)]
    mask = pa.array(nulls, pa.bool_()) if any(nulls) else None
    return pa.StructArray.from_arrays(children, fields=list(stored), mask=mask)


def _entries(entries: Sequence[tuple[Any, Any]], t: FlinkType) -> pa.StructArray:
    stored = arrow_type(t)
    keys = pa.array([key for key, _ in entries], stored.key_type)
    values = _array([value for _, value in entries], map_value_type(t))
    return pa.StructArray.from_arrays([keys, values], fields=[stored.key_field, stored.item_field])


def _lists(values: Sequence[Sequence[Any] | None], t: FlinkType, child: Callable[[list[Any]], pa.Array]) -> pa.Array:
    """Build lists; `child` builds their elements: those of an ARRAY, or the entries of a MAP."""
    flat = [element for value in values if value is not None for element in value]
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter((len(value or ()) for value in values), np.int64, len(values)), out=offsets[1:])
    if len(flat) > np.iinfo(np.int32).max:
        raise pa.ArrowCapacityError(f"{len(flat)} elements in one column of a batch; use smaller batches")
    nulls = [value is None for value in values]
    valid = pa.array([not null for null in nulls], pa.bool_()).buffers()[1] if any(nulls) else None
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(arrow_type(t), len(values), buffers, children=[child(flat)])
