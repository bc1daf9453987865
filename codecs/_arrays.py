"""Arrow arrays taken apart and put together: numbers in their memory, lists with other elements, whose row it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kvformat.codecs._columnar import Ints, Mask, validity

RowsOf = Callable[[Ints], Ints]
"""From places in a nested array to the top-level rows that hold them, -1 for what lies under a null, and for -1."""


def valid_of(values: pa.Array) -> Mask | None:
    """Which values are not null; None for all."""
    if not values.null_count:
        return None
    valid: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


def numbers_of(values: pa.Array) -> npt.NDArray[np.integer]:
    """The memory of an array of fixed width as integers, null or not."""
    if not len(values):
        return np.zeros(0, np.int64)  # its buffer, if there is one, may have any length
    width = values.type.bit_width // 8
    return np.frombuffer(values.buffers()[1], f"<i{width}", len(values), values.offset * width).astype(np.int64)


def retyped(numbers: npt.NDArray[np.integer], target: pa.DataType, like: pa.Array) -> pa.Array:
    """Integers as an array of a type of fixed width, null where another array is."""
    data = np.ascontiguousarray(numbers.astype(f"<i{target.bit_width // 8}", copy=False))
    valid = valid_of(like)
    bitmap = None if valid is None else validity(valid)
    return pa.Array.from_buffers(target, len(like), [bitmap, pa.py_buffer(data)])


def owners(values: pa.Array, rows_of: RowsOf) -> RowsOf:
    """From places among the elements of lists or maps to the rows that hold them; elements of null lists have none."""

    def above(places: Ints) -> Ints:
        lists = np.searchsorted(values.offsets.to_numpy(), places, side="right") - 1
        inside = (places >= 0) & (lists >= 0) & (lists < len(values))
        valid = np.append(values.is_valid().to_numpy(zero_copy_only=False), False)
        return rows_of(np.where(inside & valid[np.where(inside, lists, -1)], lists, -1))

    return above


def relisted(values: pa.Array, target: pa.DataType, elements: pa.Array) -> pa.Array:
    """The same lists of other elements, of which there are as many."""
    return pa.Array.from_buffers(target, len(values), values.buffers()[:2], offset=values.offset, children=[elements])
