"""The bytes of a batch of messages, which numpy reads at one cursor per message; for csv.

`MessageBytes` holds the bytes of a whole batch. Texts are pairs of positions (start, end) until the end of reading;
`MessageBytes.pieces` then copies all of them with one Arrow kernel. Cursors only move forward. If the cursor of a
message is at the message's end after reading, the reader has not read bytes of the next message.
"""

from __future__ import annotations

import functools
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
Positions = NewType("Positions", npt.NDArray[np.int64])
"""Offsets in the bytes of a batch (`MessageBytes.bytes`), not in a message."""

FRONT = 64
"""Bytes before the first message, so that a cursor may be a few bytes before its message."""
BACK = 256
"""Bytes after the last message, so that a word may extend past its end."""
_KEPT = 31 << 20


class MessageBytes:
    """A copy of the bytes of a binary array of at most 1 GB, with the start and end of every message.

    `raw` and `bytes` are the same memory. `blank` overwrites refused messages in it.
    """

    def __init__(self, messages: pa.Array) -> None:
        _keep_memory()
        offsets_buffer, data = messages.buffers()[1:]
        width = np.int64 if messages.type in (pa.large_binary(), pa.large_string()) else np.int32
        offsets = np.frombuffer(offsets_buffer, width)[messages.offset : messages.offset + len(messages) + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        self.size = FRONT + last - first
        length = self.size + BACK
        texts = memoryview(data)[first:last] if last > first else b""
        self.raw = bytearray().join([bytes(FRONT), texts, bytes(BACK)])
        self.bytes: ByteArray = np.frombuffer(self.raw, np.uint8)
        moved = offsets.astype(np.int64) + (FRONT - first)
        self.start = Positions(moved[:-1])
        self.end = Positions(moved[1:])
        self.words: WordArray = np.ndarray((length - 7,), "<u8", self.bytes.data, strides=(1,))

    def blank(self, messages: MessageNumbers) -> None:
        """Overwrite messages with zero bytes, so that a reader finds no values in them."""
        for number in messages.tolist():
            self.bytes[self.start[number] : self.end[number]] = 0

    def byte(self, position: Positions) -> ByteArray:
        """Return the byte at each cursor."""
        return self.bytes.take(position, mode="clip")

    def word(self, position: Positions) -> WordArray:
        """Return the eight bytes at each cursor as a little-endian word."""
        if not _are_below(position, len(self.words)):
            position = Positions(np.clip(position, 0, len(self.words) - 1))
        return self.words[position]

    def pieces(self, start: Positions, end: Positions, kind: pa.DataType, valid: Mask | None = None) -> pa.Array:
        """Return the bytes between pairs of positions as a string or binary array; null where `valid` is false."""
        return take_slices(self.bytes, start, end, kind, valid)


@functools.cache
def _keep_memory() -> None:
    """Make the C library keep the memory of a batch for the next batch.

    At first, glibc returns each large block to the system, and allocating it again costs more than most steps of
    reading. After a large block is freed, glibc keeps blocks up to its size (mallopt(3), M_MMAP_THRESHOLD). The block
    allocated here is just below the largest size with this effect. It is never written, so it uses no memory.
    """
    np.empty(_KEPT, np.uint8)


def _are_below(position: Ints, stop: int) -> bool:
    """Return whether all positions are at least 0 and less than `stop`.

    Negative positions are large as unsigned numbers, so one comparison is enough.
    """
    return not len(position) or bool(position.view(np.uint64).max() < stop)


def validity(valid: Mask) -> pa.Buffer | None:
    """Return Arrow's validity bitmap of a mask; None if all values are valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def ranges(first: Ints, count: Ints) -> Ints:
    """Concatenate the ranges `first[i], first[i] + 1, ...` of length `count[i]`."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(first - (ends - count), count) + np.arange(total)


def merge_rows(rows: pa.Array, refused: Mask, others: pa.ListArray | None = None) -> pa.ListArray:
    """Merge the rows of a fast reader and the lists of an exact reader in the order of messages.

    `rows` has one row per message. `others` has one list per refused message, in order; null lists stay null. It is
    None if no message was refused.
    """
    count = len(rows)
    where = np.flatnonzero(refused)
    if others is None:
        offsets = pa.array(np.arange(count + 1, dtype=np.int32))
        return pa.ListArray.from_arrays(offsets, rows)
    bounds = np.asarray(others.offsets).astype(np.int64)
    valid = np.asarray(others.is_valid())
    lengths = np.where(valid, np.diff(bounds), 0)
    counts = np.ones(count, np.int64)
    counts[where] = lengths
    first = np.arange(count)
    first[where] = count + bounds[:-1]
    values = pa.concat_arrays([rows, others.values]).take(pa.array(ranges(first, counts)))
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    present = np.ones(count, bool)
    present[where] = valid
    return pa.Array.from_buffers(
        pa.list_(values.type), count, [validity(present), pa.py_buffer(offsets)], children=[values]
    )


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
