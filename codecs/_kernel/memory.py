"""Memory access: the bytes of messages, and buffers that grow.

`memory.pxd` has the compiled versions of the functions. It contains all raw memory access of the kernel. The functions
here do the same in Python. All offsets and sizes are in bytes.
"""

from __future__ import annotations

import functools
import re
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

SIZES = {"B": 1, "i": 4, "q": 8, "Q": 8}
MIX = 0x9E3779B97F4A7C15
_FEW = 24  # up to this number of hashes, comparing each pair is faster than numpy
_ASCII = re.compile(rb"[\0-\x7f]*")
_PLAIN = re.compile(rb'[^"\\]*')


def grown(view: Any, kept: int, count: int, form: Any) -> Any:
    """Return a new view of `count` items of `form` (a code of `struct`), and copy the first `kept` items of `view`."""
    fresh: Any = memoryview(pa.allocate_buffer(max(count, 1) * SIZES[form])).cast("B").cast(form)
    if kept:
        fresh[:kept] = memoryview(view)[:kept]
    return fresh


def filled(view: Any, count: int) -> pa.Buffer:
    """Return the first `count` items of a view as an Arrow buffer, without a copy."""
    return pa.py_buffer(memoryview(view)[:count])


@functools.cache
def _other_than(a: int, b: int, *, controls: bool) -> re.Pattern[bytes]:
    """Return a pattern of all bytes but two, and but those below 14 with `controls`."""
    return re.compile(b"[^%s%s]*" % (rb"\0-\x0d" if controls else b"", re.escape(bytes([a, b]))))


if not cython.compiled:
    TAB, NEWLINE, RETURN, SPACE = b"\t\n\r "
    QUOTE, BACKSLASH, COMMA, COLON = b'"\\,:'
    LEFT_BRACKET, RIGHT_BRACKET, LEFT_BRACE, RIGHT_BRACE = b"[]{}"
    PLUS, MINUS, POINT, DIGIT_0, DIGIT_1, DIGIT_9 = b"+-.019"
    LOWER_E, LOWER_F, LOWER_N, LOWER_R, LOWER_T, LOWER_U = b"efnrtu"
    UPPER_E, UPPER_I, UPPER_N, UPPER_Z = b"EINZ"
    EQUALS, NUMBER_SIGN, QUESTION_MARK = b"=#?"

    def byte(data: memoryview[int], at: int, end: int) -> int:
        """Return the byte at an offset, or 0 if the offset is negative or not before `end`."""
        return data[at] if 0 <= at < end else 0

    def word(data: memoryview[int], at: int) -> int:
        """Return the eight bytes from an offset on as a little-endian integer, with zeros after the data."""
        return int.from_bytes(data[at : at + 8], "little")

    def is_character(data: memoryview[int], at: int, end: int, character: int, size: int) -> bool:
        """Return whether the character at an offset of a message is the one with these bytes, a little-endian word."""
        return end - at >= size and int.from_bytes(data[at : at + size], "little") == character

    def append(out: Bytes, data: memoryview[int], start: int, stop: int) -> int:
        """Append `data[start:stop]`."""
        count = stop - start
        if start < 0 or count < 0 or stop > len(data):
            return out.refuse()
        if len(out.view) - out.size < count:
            out.grow(count)
        out.view[out.size : out.size + count] = data[start:stop]
        out.size += count
        return 0

    def append_bytes(out: Bytes, text: bytes) -> int:
        """Append Python bytes."""
        return append(out, memoryview(text), 0, len(text))

    def append_integer(out: Bytes, value: int, size: int) -> int:
        """Append the lowest `size` bytes of a 64-bit integer, little-endian."""
        return append_bytes(out, (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")[:size])

    def append_character(out: Bytes, code: int) -> int:
        """Append a code point as UTF-8."""
        return append_bytes(out, chr(code).encode())

    def part(data: memoryview[int], start: int, stop: int) -> bytes:
        """Return `data[start:stop]` as bytes."""
        return bytes(data[start:stop])

    def same(data: memoryview[int], a: int, b: int, count: int) -> bool:
        """Return whether `count` bytes are the same at the offsets `a` and `b`."""
        return data[a : a + count] == data[b : b + count]

    def equal(data: memoryview[int], a: int, b: int, count: int) -> int:
        """Return how many bytes are the same at the offsets `a` and `b`, at most `count`."""
        low, high = 0, max(count, 0)
        while low < high:
            middle = (low + high + 1) // 2
            if data[a : a + middle] == data[b : b + middle]:
                low = middle
            else:
                high = middle - 1
        return low

    def matches(data: memoryview[int], at: int, end: int, texts: memoryview[int], start: int, count: int) -> bool:
        """Return whether the message, which ends at `end`, has `texts[start : start + count]` at an offset."""
        return 0 < count <= end - at and data[at : at + count] == texts[start : start + count]

    def bits_of(value: float) -> int:
        """Return the bits of a double as a signed integer."""
        bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
        return bits

    def single(value: float) -> float:
        """Round a double to 32 bits. The value must be in the range of a float."""
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
        return rounded

    def bits_of_single(value: float) -> int:
        """Return the bits of a float. Round the value to 32 bits first."""
        with np.errstate(over="ignore"):
            return int(np.float32(value).view(np.uint32))

    def nearest_single(value: int) -> float:
        """Return the float nearest a 64-bit integer. A double between them would be rounded twice."""
        return float(np.float32(np.int64(value)))

    def single_of_bits(bits: int) -> float:
        """Return the float whose bits are the low 32 bits of a word."""
        value: float = struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0]
        return value

    def eight_digits(characters: int) -> int:
        """Parse eight bytes, a little-endian word, as digits. Return -1 if they are not digits."""
        text = characters.to_bytes(8, "little")
        return int(text) if text.isdigit() else -1

    def few_digits(characters: int, size: int) -> int:
        """Parse the first 1 to 8 bytes of a little-endian word as digits. Return -1 if they are not digits."""
        text = characters.to_bytes(8, "little")[:size]
        return int(text) if text.isdigit() else -1

    def special(data: memoryview[int], at: int, end: int) -> int:
        """Return the offset of the next quote or backslash, or an offset not before `end` if there is none."""
        return _PLAIN.match(data, at, end).end() if at < end else at  # type: ignore[union-attr]  # it always matches

    def column_end(data: memoryview[int], at: int, end: int, a: int, b: int) -> int:
        """Return the offset of the next byte below 14, or in `a` or `b` (a byte repeated eight times).

        Return an offset not before `end` if there is none.
        """
        match = _other_than(a & 255, b & 255, controls=True).match(data, at, end)
        return match.end() if match and at < end else end

    def next_of_two(data: memoryview[int], at: int, end: int, a: int, b: int) -> int:
        """Return the offset of the next byte that is in `a` or `b` (a byte repeated eight times).

        Return an offset not before `end` if there is none.
        """
        match = _other_than(a & 255, b & 255, controls=False).match(data, at, end)
        return match.end() if match and at < end else end

    def ascii_end(data: memoryview[int], at: int, end: int) -> int:
        """Return the offset of the first byte that is not ASCII, or `end`."""
        return _ASCII.match(data, at, end).end() if at < end else at  # type: ignore[union-attr]  # it always matches

    def utf8_blocks(data: memoryview[int], at: int, stop: int) -> int:
        """Return the end of the valid UTF-8 from an offset on that is checked in blocks: here, no block is."""
        return at

    def token(data: memoryview[int], at: int, end: int) -> int:
        """Return the offset of the next token: skip blanks."""
        while at < end and data[at] in b" \n\r\t":
            at += 1
        return at


def _hash_of(name: bytes) -> int:
    return hash(name) & 0xFFFFFFFFFFFFFFFF


class Bytes:
    """A byte buffer that grows. Its content is the first `size` bytes of `view`."""

    def __init__(self, capacity: int) -> None:
        self.size = 0
        self.view: memoryview[int] = grown(None, 0, capacity, "B")

    def grow(self, count: int) -> int:
        """Make room for `count` more bytes."""
        with cython.gil:
            self.view = grown(self.view, self.size, max(len(self.view) * 2, self.size + count), "B")
        return 0

    def refuse(self) -> int:
        """Raise an error for a part that lies outside of its data."""
        with cython.gil:
            raise IndexError("a part outside of the data")

    def put(self, byte: int) -> int:
        """Append one byte."""
        if self.size == len(self.view):
            self.grow(1)
        self.view[self.size] = byte
        self.size += 1
        return 0

    def number(self, value: int) -> int:
        """Append the decimal digits of a number, which must not be negative."""
        if value > 9:
            self.number(value // 10)
        return self.put(DIGIT_0 + value % 10)

    def to_bytes(self) -> bytes:
        """Return a copy of the content."""
        return part(self.view, 0, self.size)


class Hashes:
    """A stack of hashes of names. Equal names have equal hashes, different names almost never."""

    def __init__(self) -> None:
        self.size = 0
        self.view: memoryview[int] = grown(None, 0, 32, "Q")

    def grow(self) -> int:
        """Double the capacity."""
        with cython.gil:
            self.view = grown(self.view, self.size, self.size * 2, "Q")
        return 0

    def push(self, data: memoryview[int], start: int, stop: int) -> int:
        """Push the hash of `data[start:stop]`."""
        if self.size == len(self.view):
            self.grow()
        if cython.compiled:
            mixed = (stop - start) * MIX
            while start + 8 <= stop:
                mixed = (mixed ^ word(data, start)) * MIX
                mixed ^= mixed >> 29
                start += 8
            while start < stop:
                mixed = (mixed ^ data[start]) * MIX
                mixed ^= mixed >> 29
                start += 1
        else:
            mixed = _hash_of(bytes(data[start:stop]))
        self.view[self.size] = mixed
        self.size += 1
        return 0

    def repeated(self, first: int) -> bool:
        """Return whether two of the hashes from index `first` on are equal."""
        if self.size - first > _FEW:
            some = np.frombuffer(memoryview(self.view), np.uint64, self.size)[first:]
            return bool(len(np.unique(some)) < len(some))
        for i in range(first + 1, self.size):
            for k in range(first, i):
                if self.view[k] == self.view[i]:
                    return True
        return False
