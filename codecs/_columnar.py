"""A batch of messages as one run of bytes, read at many cursors at once, and what columns are made of.

`MessageBytes` holds the bytes of a whole batch. A `Window` is what lies behind one cursor per message: the next
64 bytes of every message come in one gather, because on common machines that costs little more than eight bytes,
and all words that begin at a fixed distance from the cursor are cut out of it by shifts. Texts are pairs of
positions (start, end) until the very end; `MessageBytes.pieces` then takes all of them in one Arrow kernel.

Cursors only ever go forward. A reader that checks that a message's cursor stands at the message's end when it has
finished therefore knows that it never read a byte of the neighbour.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]

FRONT = 64
"""Bytes before the first message, so that a cursor may stand a little before its message."""
BACK = 256
"""Bytes behind the last message, so that a window may reach beyond it."""
_KEPT = 31 << 20
_WINDOW = 64
_BLOCK = np.dtype((np.void, _WINDOW))


class MessageBytes:
    """The bytes of a binary array of at most 1 GB, with the start and the end of every message.

    A private copy: what is refused can be blanked out. `raw` and `bytes` are the same memory. `append` adds texts that
    are not in the messages.
    """

    def __init__(self, messages: pa.Array) -> None:
        _keep_memory()
        offsets_buffer, data = messages.buffers()[1:]
        width = np.int64 if messages.type in (pa.large_binary(), pa.large_string()) else np.int32
        offsets = np.frombuffer(offsets_buffer, width)[messages.offset : messages.offset + len(messages) + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        self.size = FRONT + last - first
        self.raw = bytearray(self.size + BACK)
        self.bytes: Bytes = np.frombuffer(self.raw, np.uint8)
        if last > first:
            self.bytes[FRONT : self.size] = np.frombuffer(data, np.uint8)[first:last]
        moved = offsets.astype(np.int64) + (FRONT - first)
        self.start: Ints = moved[:-1]
        self.end: Ints = moved[1:]
        self.words: Words = np.ndarray((len(self.bytes) - 7,), "<u8", self.bytes.data, strides=(1,))
        self._blocks = np.ndarray((len(self.bytes) - _WINDOW + 1,), _BLOCK, self.bytes.data, strides=(1,))
        self._limit = len(self.bytes) - _WINDOW
        self._more: list[Bytes] = []
        self._total = len(self.bytes)

    def blank(self, rows: Ints) -> None:
        """Overwrite messages, so that nothing in them can be taken for anything."""
        for row in rows.tolist():
            self.bytes[self.start[row] : self.end[row]] = 0

    def window(self, position: Ints) -> Window:
        """What lies behind these cursors; those outside of the bytes are moved to their end."""
        if len(position) and (position.max() > self._limit or position.min() < 0):
            position = np.clip(position, 0, self._limit)
        block = self._blocks[position].view("<u8").reshape(len(position), _WINDOW // 8)
        return Window(self, position, block)

    def byte(self, position: Ints) -> Bytes:
        """The byte at each cursor."""
        return self.bytes.take(position, mode="clip")

    def word(self, position: Ints) -> Words:
        """The eight bytes at each cursor as a little-endian word."""
        if len(position) and (position.max() >= len(self.words) or position.min() < 0):
            position = np.clip(position, 0, len(self.words) - 1)
        return self.words[position]

    def append(self, data: Bytes) -> int:
        """Keep further bytes for `pieces`; returns their position."""
        at = self._total
        self._more.append(data)
        self._total += len(data)
        return at

    def texts(self, start: Ints, end: Ints) -> pa.Array:
        """The texts between two positions each, within the messages themselves, as strings."""
        return pieces_of(self.bytes, start, end, pa.string(), None)

    def pieces(self, start: Ints, end: Ints, kind: pa.DataType, valid: Mask | None = None) -> pa.Array:
        """The texts between two positions each as a string or binary array; null where not `valid`."""
        if self._more:
            self.bytes = np.concatenate([self.bytes, *self._more])
            self._more = []
        return pieces_of(self.bytes, start, end, kind, valid)


@functools.cache
def _keep_memory() -> None:
    """Let the C library keep the memory of one batch for the next one.

    glibc gives each larger block back to the system, where getting it again costs more than most steps over it, until
    it sees such blocks freed: it then keeps those up to the size of the largest one so far (mallopt(3),
    M_MMAP_THRESHOLD). This one is never touched, so it takes no memory; it is just below the most that counts.
    """
    np.empty(_KEPT, np.uint8)


class Window:
    """The bytes behind one cursor per message; `word(k)` is the little-endian word `k` bytes behind the cursor."""

    __slots__ = ("_batch", "_block", "_columns", "_offset", "_origin", "_position")

    def __init__(self, batch: MessageBytes, origin: Ints, block: Column) -> None:
        self._batch = batch
        self._origin = origin
        self._block = block
        self._columns: list[Words | None] = [None] * block.shape[1]
        self._offset = 0
        self._position: Ints | None = origin

    def __len__(self) -> int:
        return len(self._origin)

    @property
    def position(self) -> Ints:
        """Where the cursors stand."""
        if self._position is None:
            self._position = self._origin + self._offset
        return self._position

    def word(self, distance: int) -> Words:
        """The eight bytes at this distance behind every cursor."""
        column, bits = divmod(8 * (self._offset + distance), 64)
        if column + (bits > 0) >= len(self._columns):
            return self._batch.word(self.position + distance)
        low = self._column(column)
        if not bits:
            return low
        return (low >> np.uint64(bits)) | (self._column(column + 1) << np.uint64(64 - bits))

    def first(self) -> Bytes:
        """The byte at every cursor."""
        column, byte = divmod(self._offset, 8)
        if column >= len(self._columns):
            return self._batch.byte(self.position)
        shifted = self._column(column) >> np.uint64(8 * byte) if byte else self._column(column)
        return shifted.astype(np.uint8)

    def has(self, literal: Literal) -> Mask:
        """Where exactly this text stands at the cursor."""
        result: Mask | None = None
        for distance, mask, wanted in literal.words:
            word = self.word(distance)
            here = (word if mask is None else word & mask) == wanted
            result = here if result is None else result & here
            if distance and not result.any():
                break
        assert result is not None
        return result

    def after(self, distance: int) -> Window:
        """The same cursors moved by a fixed distance."""
        moved = Window(self._batch, self._origin, self._block)
        moved._columns = self._columns
        moved._offset = self._offset + distance
        moved._position = None
        return moved

    def select(self, rows: Ints) -> Window:
        """Some of the cursors."""
        chosen = Window(self._batch, self._origin[rows], self._block[rows])
        chosen._offset = self._offset
        chosen._position = None
        return chosen

    def move(self, rows: Ints, position: Ints) -> Window:
        """Some of the cursors moved to new positions; this window is used up."""
        fresh = self._batch.window(position - self._offset)
        origin = self._origin.copy()
        origin[rows] = fresh._origin
        self._block[rows] = fresh._block
        for index, column in enumerate(self._columns):
            if column is not None:
                column[rows] = fresh._block[:, index]
        moved = Window(self._batch, origin, self._block)
        moved._columns = self._columns
        moved._offset = self._offset
        moved._position = None
        return moved

    def replace(self, rows: Ints, leader: int) -> Window:
        """The same cursors, but those in `rows` stand where that of `leader` does."""
        origin, block = self._origin.copy(), self._block.copy()
        origin[rows] = origin[leader]
        block[rows] = block[leader]
        changed = Window(self._batch, origin, block)
        changed._offset = self._offset
        changed._position = None
        return changed

    def _column(self, index: int) -> Words:
        column = self._columns[index]
        if column is None:
            column = np.ascontiguousarray(self._block[:, index])
            self._columns[index] = column
        return column


class Literal:
    """A text to compare with, as words and masks; `wild` bytes at its head match anything."""

    __slots__ = ("length", "words")

    def __init__(self, text: bytes, wild: int = 0) -> None:
        self.length = wild + len(text)
        padded = bytes(wild) + text + bytes(-self.length % 8)
        masks = bytes(wild) + b"\xff" * len(text) + bytes(-self.length % 8)
        self.words: list[tuple[int, np.uint64 | None, np.uint64]] = []
        for at in range(0, len(padded), 8):
            mask = int.from_bytes(masks[at : at + 8], "little")
            wanted = np.uint64(int.from_bytes(padded[at : at + 8], "little"))
            if mask:
                self.words.append((at, None if mask == 2**64 - 1 else np.uint64(mask), wanted))


def validity(valid: Mask) -> pa.Buffer | None:
    """Arrow's validity bitmap of a mask; None when everything is valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def fixed_width(kind: pa.DataType, values: Column, valid: Mask) -> pa.Array:
    """An array of a type of fixed width over the memory of `values`, null where not `valid`."""
    count = len(valid)
    if kind == pa.bool_():
        data = np.packbits(values, bitorder="little")
    else:
        data = np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, count, [validity(valid), pa.py_buffer(data)])


def spread(first: Ints, count: Ints) -> Ints:
    """The indices `first[i], first[i] + 1, ...`, `count[i]` of them, for every i one after another."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(first - (ends - count), count) + np.arange(total)


def merge_rows(rows: pa.Array, refused: Mask, others: pa.ListArray | None = None) -> pa.ListArray:
    """The rows of a batch in the order of its messages, from a fast reader and one that gives lists.

    `rows` has one row per message. `others` has one list per refused message, in order; null lists stay null;
    None if none was refused.
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
    values = pa.concat_arrays([rows, others.values]).take(pa.array(spread(first, counts)))
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    present = np.ones(count, bool)
    present[where] = valid
    return pa.Array.from_buffers(
        pa.list_(values.type), count, [validity(present), pa.py_buffer(offsets)], children=[values]
    )


def pieces_of(data: Bytes, start: Ints, end: Ints, kind: pa.DataType, valid: Mask | None) -> pa.Array:
    """All pieces in one `take`: with the offsets [start0, end0, start1, end1, ...] they are at the even places."""
    count = len(start)
    if count == 0:
        return pa.array([], kind)
    ends = np.empty(2 * count + 1, np.int32)
    ends[0:-1:2] = start
    ends[1::2] = end if valid is None else np.where(valid, end, start)
    ends[-1] = len(data)  # Arrow wants the last offset not to be before the first
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    every_other = pa.array(np.arange(0, 2 * count - 1, 2, dtype=np.int32))
    taken = pa.Array.from_buffers(kind, 2 * count, buffers).take(every_other)
    if valid is None:
        return taken
    return pa.Array.from_buffers(kind, count, [validity(valid), *taken.buffers()[1:]])
