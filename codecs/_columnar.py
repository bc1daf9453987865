"""numpy arrays with names, and Arrow arrays made from them."""

from __future__ import annotations

from typing import NewType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
WordArray = npt.NDArray[np.uint64]
ByteArray = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
MessageNumbers = NewType("MessageNumbers", npt.NDArray[np.int64])
"""Indices of messages in a batch."""


def validity(valid: Mask) -> pa.Buffer | None:
    """Return Arrow's validity bitmap of a mask; None if all values are valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def take_slices(data: ByteArray, start: Ints, end: Ints, kind: pa.DataType, valid: Mask | None) -> pa.Array:
    """Return the slices of `data` between pairs of positions as an array, null where `valid` is false.

    One `take` copies all slices: with the offsets [start0, end0, start1, end1, ...] they have the even indices.
    """
    count = len(start)
    if count == 0:
        return pa.array([], kind)
    ends = np.empty(2 * count + 1, np.int32)
    ends[0:-1:2] = start
    ends[1::2] = end if valid is None else np.where(valid, end, start)
    ends[-1] = len(data)  # Arrow requires a last offset that is not less than the first
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    every_other = pa.array(np.arange(0, 2 * count - 1, 2, dtype=np.int32))
    taken = pa.Array.from_buffers(kind, 2 * count, buffers).take(every_other)
    if valid is None:
        return taken
    return pa.Array.from_buffers(kind, count, [validity(valid), *taken.buffers()[1:]])
