"""Memory: bytes of messages, and buffers that grow.

Compiled, the functions are those of `memory.pxd`, which hold all raw memory of the kernel; what stands here says the
same in Python.
"""

from __future__ import annotations

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
_FEW = 24
_ASCII = re.compile(rb"[\0-\x7f]*")
_PLAIN = re.compile(rb'[^"\\]*')


def grown(view: Any, kept: int, count: int, form: Any) -> Any:
    """A view of `count` items of that form (of `struct`), the first `kept` of them those of `view`."""
    fresh: Any = memoryview(pa.allocate_buffer(max(count, 1) * SIZES[form])).cast("B").cast(form)
    if kept:
        fresh[:kept] = memoryview(view)[:kept]
    return fresh


def filled(view: Any, count: int) -> pa.Buffer:
    """The first `count` items of a view, as Arrow takes them; nothing is copied."""
    return pa.py_buffer(memoryview(view)[:count])


if not cython.compiled:
    TAB, NEWLINE, RETURN, SPACE = b"\t\n\r "
    QUOTE, BACKSLASH, COMMA, COLON = b"\"\\,:"
    LEFT_BRACKET, RIGHT_BRACKET, LEFT_BRACE, RIGHT_BRACE = b"[]{}"
    PLUS, MINUS, POINT, DIGIT_0, DIGIT_1, DIGIT_9 = b"+-.019"
    LOWER_E, LOWER_F, LOWER_N, LOWER_T, LOWER_U = b"efntu"
    UPPER_E, UPPER_I, UPPER_N, UPPER_Z = b"EINZ"
    EQUALS, QUESTION_MARK = b"=?"

    def byte(data: memoryview[int], at: int, end: int) -> int:
        """The byte at a place of a message that ends at `end`, 0 outside of it."""
        return data[at] if 0 <= at < end else 0

    def word(data: memoryview[int], at: int) -> int:
        """The eight bytes from a place on as a number, the first one lowest; zeros beyond the data."""
        return int.from_bytes(data[at : at + 8], "little")

    def append(out: Bytes, data: memoryview[int], start: int, stop: int) -> int:
        """Append a part of the data."""
        count = stop - start
        if start < 0 or count < 0 or stop > len(data):
            return out.refuse()
        if len(out.view) - out.size < count:
            out.grow(count)
        out.view[out.size : out.size + count] = data[start:stop]
        out.size += count
        return 0

    def append_bytes(out: Bytes, text: bytes) -> int:
        """Append what Python has."""
        return append(out, memoryview(text), 0, len(text))

    def append_character(out: Bytes, code: int) -> int:
        """Append a code point as UTF-8."""
        return append_bytes(out, chr(code).encode())

    def part(data: memoryview[int], start: int, stop: int) -> bytes:
        """A part of the data as bytes."""
        return bytes(data[start:stop])

    def same(data: memoryview[int], a: int, b: int, count: int) -> bool:
        """Whether so many bytes are the same at two places."""
        return data[a : a + count] == data[b : b + count]

    def equal(data: memoryview[int], a: int, b: int, count: int) -> int:
        """How many bytes are the same at two places, at most `count`."""
        low, high = 0, max(count, 0)
        while low < high:
            middle = (low + high + 1) // 2
            if data[a : a + middle] == data[b : b + middle]:
                low = middle
            else:
                high = middle - 1
        return low

    def matches(data: memoryview[int], at: int, end: int, texts: memoryview[int], start: int, count: int) -> bool:
        """Whether a text stands at a place of a message that ends at `end`: `count` of `texts` from `start` on."""
        return 0 < count <= end - at and data[at : at + count] == texts[start : start + count]

    def bits_of(value: float) -> int:
        """The bits of a double, as a number with a sign."""
        bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
        return bits

    def single(value: float) -> float:
        """A double rounded to 32 bits; it must be in their range."""
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
        return rounded

    def special(data: memoryview[int], at: int, end: int) -> int:
        """Where the next quote or backslash is, from a place on; not before `end` if there is none."""
        return _PLAIN.match(data, at, end).end() if at < end else at  # type: ignore[union-attr]  # it matches nothing, too

    def ascii_end(data: memoryview[int], at: int, end: int) -> int:
        """Where bytes of ASCII end."""
        return _ASCII.match(data, at, end).end() if at < end else at  # type: ignore[union-attr]  # it matches nothing, too

    def token(data: memoryview[int], at: int, end: int) -> int:
        """Where the next token is: behind blanks."""
        while at < end and data[at] in b" \n\r\t":
            at += 1
        return at


def _hash_of(name: bytes) -> int:
    return hash(name) & 0xFFFFFFFFFFFFFFFF


class Bytes:
    """Bytes that grow: the first `size` of `view`."""

    def __init__(self, capacity: int) -> None:
        self.size = 0
        self.view: memoryview[int] = grown(None, 0, capacity, "B")

    def grow(self, count: int) -> int:
        """Make room for that many more."""
        with cython.gil:
            self.view = grown(self.view, self.size, max(len(self.view) * 2, self.size + count), "B")
        return 0

    def refuse(self) -> int:
        """Say that a part lies outside of its data."""
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
        """Append a number that is not negative."""
        if value > 9:
            self.number(value // 10)
        return self.put(DIGIT_0 + value % 10)

    def to_bytes(self) -> bytes:
        """What was appended."""
        return part(self.view, 0, self.size)


class Hashes:
    """Hashes of names, a stack of them: equal names have equal hashes, others hardly ever."""

    def __init__(self) -> None:
        self.size = 0
        self.view: memoryview[int] = grown(None, 0, 32, "Q")

    def grow(self) -> int:
        """Make room for as many again."""
        with cython.gil:
            self.view = grown(self.view, self.size, self.size * 2, "Q")
        return 0

    def push(self, data: memoryview[int], start: int, stop: int) -> int:
        """Add the hash of a part of the data."""
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
        """Whether two hashes from a place on are equal."""
        if self.size - first > _FEW:
            some = np.frombuffer(memoryview(self.view), np.uint64, self.size)[first:]
            return bool(len(np.unique(some)) < len(some))
        for i in range(first + 1, self.size):
            for k in range(first, i):
                if self.view[k] == self.view[i]:
                    return True
        return False
