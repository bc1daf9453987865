"""Skips objects and arrays faster by comparing them with the value of the previous message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvformat.codecs._kernel.memory import grown
from kvformat.codecs._kernel.reader import Reader

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import (
        COLON,
        COMMA,
        LEFT_BRACE,
        LEFT_BRACKET,
        RIGHT_BRACE,
        RIGHT_BRACKET,
        byte,
        equal,
        token,
    )

WORTH_COMPARING = 32
"""The least bytes of a value that is compared. Comparing shorter values saves no time."""
MOST_SCALARS = 64
"""The most scalars (texts, numbers, true, false, null) in a value that is compared."""
NEVER_ALIKE = 32
"""The doubt at which comparing stops, because too many values differed."""
ONE = 1  # with 64 bits


class PreviousValueCache:
    """The previous value of a member, such as Debezium's `source`.

    Equal bytes are not parsed again: they were JSON before. At the first byte that differs, the scalar around it, or
    just before it, is parsed. The comparison goes on after that scalar. If the byte is elsewhere, the whole value is
    skipped as usual.

        "source":{"db":"shop","pos":17,"gtid":null}      17 is a scalar from `starts[1]` to `ends[1]`
        "source":{"db":"shop","pos":4711,"gtid":null}    differs after `"pos":`, and is equal after the number

    After `skip_alike`, bit i of `changed` says that scalar i was parsed: it is from `new_starts[i]` to `new_ends[i]`.
    Every other scalar has the bytes of the previous one.
    """

    def __init__(self) -> None:
        self.opening = self.at = self.size = self.depth = 0
        self.count = self.doubt = 0
        self.starts: memoryview[int] = grown(None, 0, MOST_SCALARS, "q")
        self.ends: memoryview[int] = grown(None, 0, MOST_SCALARS, "q")
        self.new_starts: memoryview[int] = grown(None, 0, MOST_SCALARS, "q")
        self.new_ends: memoryview[int] = grown(None, 0, MOST_SCALARS, "q")
        self.changed = 0

    def skip(self, r: Reader, at: int) -> int:
        """Skip the object or array at an offset, like `Reader.skip`. Returns the offset after it, or FAULT."""
        end = self.compare(r, at)
        if end > 0:
            return end
        end = r.skip(at)
        if end - at >= WORTH_COMPARING and self.doubt < NEVER_ALIKE:
            self.note_value(r, at, end)
        return end

    def compare(self, r: Reader, at: int) -> int:
        """Skip the object or array at an offset if it is like the previous one. Returns its end, -1 if it is not."""
        if self.opening != r.openings:  # the reader has other data, without the previous value
            self.opening = r.openings
            self.size = self.doubt = 0
        if self.size == 0 or self.doubt >= NEVER_ALIKE:
            return -1
        end = self.skip_alike(r, at)
        if end < 0:
            self.doubt += 2
        elif self.doubt:
            self.doubt -= 1
        return end

    def skip_alike(self, r: Reader, at: int) -> int:
        """Skip a value that differs from the previous one only in scalars. Returns its end, -1 if it differs more."""
        previous = self.at
        stop = previous + self.size
        if self.depth != r.depth:
            return -1
        self.changed = 0
        i = 0
        while True:
            size = equal(r.data, at, previous, min(r.end - at, stop - previous))
            at += size
            previous += size
            if previous == stop:
                return at
            while i < self.count and self.ends[i] < previous:
                i += 1
            if i == self.count or self.starts[i] > previous:
                return -1
            start = at - (previous - self.starts[i])
            at = r.scalar(start)
            if at < 0:
                return -1
            self.changed |= ONE << i
            self.new_starts[i] = start
            self.new_ends[i] = at
            previous = self.ends[i]
            i += 1

    def note_value(self, r: Reader, at: int, end: int) -> int:
        """Note the value between two offsets, and the offsets of its scalars."""
        self.size = 0
        self.at = at
        self.depth = r.depth
        self.count = 0
        while at < end:
            at = token(r.data, at, end)
            c = byte(r.data, at, end)
            if c in (LEFT_BRACE, RIGHT_BRACE, LEFT_BRACKET, RIGHT_BRACKET, COMMA):
                at += 1
                continue
            start = at
            at = r.scalar(at)
            if byte(r.data, token(r.data, at, end), end) == COLON:  # the text is a name
                at = token(r.data, at, end) + 1
                continue
            if self.count == MOST_SCALARS:
                return 0
            self.starts[self.count] = start
            self.ends[self.count] = at
            self.count += 1
        self.size = end - self.at
        return 0
