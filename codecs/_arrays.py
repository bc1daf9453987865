"""Parts of Arrow arrays as numpy arrays, and back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kvformat.registry.contract.types import FlinkType

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
RowsOf = Callable[[Ints], Ints]
"""Maps indices in a nested array to the indices of their top-level rows; -1 for a value inside a null, and for -1."""
_COUNT = FlinkType("INT")


def validity(valid: Mask) -> pa.Buffer | None:
    """Return Arrow's validity bitmap of a mask; None if all values are valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def valid_mask(values: pa.Array) -> Mask | None:
    """Return a mask of the values that are not null; None if no value is null."""
    if not values.null_count:
        return None
    valid: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


def as_integers(values: pa.Array) -> Ints:
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


def text_bytes(values: pa.LargeStringArray) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """Return the offsets, which begin at 0, and the bytes of an array. The array may be a slice."""
    _, offsets_buffer, data_buffer = values.buffers()
    if not len(values) or data_buffer is None:
        return np.zeros(len(values) + 1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(offsets_buffer, np.int64, len(values) + 1, values.offset * 8)
    return offsets - offsets[0], np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]


def replace_malformed(values: pa.LargeStringArray) -> pa.LargeStringArray:
    """Replace malformed UTF-8 with U+FFFD, as Java does. Returns `values` itself if all texts are well-formed."""
    return values if _is_utf8(values) else _repaired(values)


def _is_utf8(values: pa.LargeStringArray) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _repaired(values: pa.LargeStringArray) -> pa.LargeStringArray:
    raw = values.cast(pa.large_binary()).to_pylist()
    return pa.array([None if value is None else value.decode("utf-8", "replace") for value in raw], pa.large_string())
