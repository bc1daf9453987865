"""Goes past objects and arrays that are mostly like the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvformat.codecs._kernel.memory import grown
from kvformat.codecs._kernel.reader import Reader

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import byte, equal, token

WORTH_COMPARING = 32
"""So many bytes has an object or array that is compared with the one before; a shorter one is skipped as fast."""
MOST_SCALARS = 64
"""So many values that are no containers it may have."""
NEVER_ALIKE = 32
"""From here on objects are no longer compared: too often they were not alike."""


class PreviousValueCache:
    """What an object or array was like, such as Debezium's `source`, to go past the next one.

    Bytes that are equal need not be read again: what was JSON is JSON. Where the first other byte is in a scalar, or
    right behind it, that is read, and behind it the comparison goes on; where it is elsewhere, all is read.

        "source":{"db":"shop","pos":17,"gtid":null}      17 is a scalar from `starts[1]` to `ends[1]`
        "source":{"db":"shop","pos":4711,"gtid":null}    differs behind `"pos":`, and no more behind the number
    """

    def __init__(self) -> None:
        self.opening = self.at = self.size = self.depth = 0
        self.count = self.doubt = 0
        self.starts: memoryview[int] = grown(None, 0, MOST_SCALARS, "q")
        self.ends: memoryview[int] = grown(None, 0, MOST_SCALARS, "q")

    def skip(self, r: Reader, at: int) -> int:
        """As `Reader.skip`."""
        if self.opening != r.openings:  # what was learned is no longer there
            self.opening = r.openings
            self.size = self.doubt = 0
        if self.doubt >= NEVER_ALIKE:
            return r.skip(at)
        if self.size:
            end = self.alike(r, at)
            if end > 0:
                if self.doubt:
                    self.doubt -= 1
                return end
            self.doubt += 2
        end = r.skip(at)
        if end - at >= WORTH_COMPARING:
            self.learn(r, at, end)
        return end

    def alike(self, r: Reader, at: int) -> int:
        """The end of an object or array like the last one, -1 if it is not."""
        there = self.at
        stop = there + self.size
        if self.depth != r.depth:
            return -1
        i = 0
        while True:
            size = equal(r.data, at, there, min(r.end - at, stop - there))
            at += size
            there += size
            if there == stop:
                return at
            while i < self.count and self.ends[i] < there:
                i += 1
            if i == self.count or self.starts[i] > there:
                return -1
            at = r.scalar(at - (there - self.starts[i]))
            if at < 0:
                return -1
            there = self.ends[i]
            i += 1

    def learn(self, r: Reader, at: int, end: int) -> int:
        """Note where the scalars are in what was skipped."""
        self.size = 0
        self.at = at
        self.depth = r.depth
        self.count = 0
        while at < end:
            at = token(r.data, at, end)
            c = byte(r.data, at, end)
            if c == 123 or c == 125 or c == 91 or c == 93 or c == 44:
                at += 1
                continue
            start = at
            at = r.scalar(at)
            if byte(r.data, token(r.data, at, end), end) == 58:  # a name
                at = token(r.data, at, end) + 1
                continue
            if self.count == MOST_SCALARS:
                return 0
            self.starts[self.count] = start
            self.ends[self.count] = at
            self.count += 1
        self.size = end - self.at
        return 0
