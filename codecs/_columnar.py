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
_SPARE = 4096
_SHARE = 64
_KEPT = 31 << 20
_WINDOW = 64
_BLOCK = np.dtype((np.void, _WINDOW))


class MessageBytes:
    """The bytes of a binary array of at most 1 GB, with the start and the end of every message.

    A private copy: what is refused can be blanked out. `raw` and `bytes` are the same memory. `append` adds texts that
    are not in the messages; there is room for some behind them.
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
        self.raw = bytearray().join([bytes(FRONT), texts, bytes(BACK + _SPARE + self.size // _SHARE)])
        self.bytes: Bytes = np.frombuffer(self.raw, np.uint8)
        moved = offsets.astype(np.int64) + (FRONT - first)
        self.start: Ints = moved[:-1]
        self.end: Ints = moved[1:]
        self.words: Words = np.ndarray((length - 7,), "<u8", self.bytes.data, strides=(1,))
        self._blocks = np.ndarray((length - _WINDOW + 1,), _BLOCK, self.bytes.data, strides=(1,))
        self._limit = length - _WINDOW
        self._more: list[Bytes] = []
        self._total = length

    def blank(self, rows: Ints) -> None:
        """Overwrite messages, so that nothing in them can be taken for anything."""
        for row in rows.tolist():
            self.bytes[self.start[row] : self.end[row]] = 0

    def window(self, position: Ints) -> Window:
        """What lies behind these cursors; those outside of the bytes are moved to their end."""
        if not _are_below(position, self._limit + 1):
            position = np.clip(position, 0, self._limit)
        block = self._blocks[position].view("<u8").reshape(len(position), _WINDOW // 8)
        return Window(self, position, block)

    def block(self, position: Ints, count: int) -> Words:
        """At most 32 words that begin at each cursor; cursors outside of the bytes are moved into them."""
        width = 8 * count
        wide = np.ndarray((len(self.words) + 8 - width,), np.dtype((np.void, width)), self.bytes.data, strides=(1,))
        return wide[np.clip(position, 0, len(wide) - 1)].view("<u8").reshape(len(position), count)

    def byte(self, position: Ints) -> Bytes:
        """The byte at each cursor."""
        return self.bytes.take(position, mode="clip")

    def word(self, position: Ints) -> Words:
        """The eight bytes at each cursor as a little-endian word."""
        if not _are_below(position, len(self.words)):
            position = np.clip(position, 0, len(self.words) - 1)
        return self.words[position]

    def append(self, data: Bytes) -> int:
        """Keep further bytes for `pieces`; returns their position."""
        at = self._total
        self._total += len(data)
        if self._total <= len(self.bytes) and not self._more:
            self.bytes[at : self._total] = data
        else:
            if not self._more:
                self.bytes = self.bytes[:at]
            self._more.append(data)
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


def _are_below(position: Ints, stop: int) -> bool:
    """Whether all positions are from 0 to before `stop`. As unsigned numbers, negative ones are beyond."""
    return not len(position) or bool(position.view(np.uint64).max() < stop)


class Window:
    """The bytes behind one cursor per message; `word(k)` is the little-endian word `k` bytes behind the cursor."""

    __slots__ = ("_batch", "_block", "_columns", "_offset", "_origin", "_position")

    def __init__(
        self,
        batch: MessageBytes,
        origin: Ints,
        block: Words,
        offset: int = 0,
        columns: list[Words | None] | None = None,
    ) -> None:
        self._batch = batch
        self._origin = origin
        self._block = block
        self._columns: list[Words | None] = [None] * block.shape[1] if columns is None else columns
        self._offset = offset
        self._position: Ints | None = None if offset else origin

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
        first, shift = divmod(self._offset, 8)
        for index, mask, wanted in literal.words(shift):
            word = self._column(first + index)
            here = (word if mask is None else word & mask) == wanted
            if result is None:
                result = here
                continue
            result &= here
            if not result.any():
                break
        assert result is not None
        return result

    def marks(self, byte: int, distance: int) -> Words:
        """Where this byte stands from a distance behind the cursor on, in the next `reach(distance)` bytes.

        One bit for each byte, the lowest for the first.
        """
        there = self._block.view(np.uint8) == np.uint8(byte)
        bits = np.packbits(there.reshape(-1), bitorder="little").view("<u8")
        return bits >> np.uint64(_WINDOW - self.reach(distance))

    def reach(self, distance: int) -> int:
        """How many bytes `marks` looks at; more than 0 while a cursor has moved less than the width of a window."""
        return max(0, _WINDOW - self._offset - distance)

    def after(self, distance: int) -> Window:
        """The same cursors moved by a fixed distance."""
        return Window(self._batch, self._origin, self._block, self._offset + distance, self._columns)

    def select(self, rows: Ints) -> Window:
        """Some of the cursors."""
        return Window(self._batch, self._origin[rows], self._block[rows], self._offset)

    def move(self, rows: Ints, position: Ints) -> Window:
        """Some of the cursors moved to new positions; this window is used up."""
        fresh = self._batch.window(position - self._offset)
        origin = self._origin.copy()
        origin[rows] = fresh._origin
        self._block[rows] = fresh._block
        for index, column in enumerate(self._columns):
            if column is not None:
                column[rows] = fresh._block[:, index]
        return Window(self._batch, origin, self._block, self._offset, self._columns)

    def replace(self, rows: Ints, leader: int) -> Window:
        """The same cursors, but those in `rows` stand where that of `leader` does."""
        origin, block = self._origin.copy(), self._block.copy()
        origin[rows] = origin[leader]
        block[rows] = block[leader]
        return Window(self._batch, origin, block, self._offset)

    def _column(self, index: int) -> Words:
        if index >= len(self._columns):
            return self._batch.word(self._origin + 8 * index)
        column = self._columns[index]
        if column is None:
            column = np.ascontiguousarray(self._block[:, index])
            self._columns[index] = column
        return column


class Literal:
    """A text to compare with; `wild` bytes at its head match anything."""

    __slots__ = ("_shifted", "_text", "_wild", "length")

    def __init__(self, text: bytes, wild: int = 0) -> None:
        self.length = wild + len(text)
        self._text, self._wild = text, wild
        self._shifted: dict[int, list[tuple[int, np.uint64 | None, np.uint64]]] = {}

    def words(self, shift: int) -> list[tuple[int, np.uint64 | None, np.uint64]]:
        """What to compare where the text begins so many bytes behind the beginning of a word.

        For each word that has some of it: its number, a mask (None for all of the word), and what is then wanted.
        """
        found = self._shifted.get(shift)
        if found is None:
            found = self._shifted[shift] = self._words(shift + self._wild)
        return found

    def _words(self, wild: int) -> list[tuple[int, np.uint64 | None, np.uint64]]:
        behind = bytes(-(wild + len(self._text)) % 8)
        text = bytes(wild) + self._text + behind
        masks = bytes(wild) + b"\xff" * len(self._text) + behind
        found: list[tuple[int, np.uint64 | None, np.uint64]] = []
        for at in range(0, len(text), 8):
            mask = int.from_bytes(masks[at : at + 8], "little")
            if mask:
                wanted = np.uint64(int.from_bytes(text[at : at + 8], "little"))
                found.append((at // 8, None if mask == 2**64 - 1 else np.uint64(mask), wanted))
        return found


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
