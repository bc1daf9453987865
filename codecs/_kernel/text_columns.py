"""Columns of texts and bytes, concatenated in one buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import MOST_BYTES, NEEDS_PYTHON, TOO_LARGE
from kvformat.codecs._kernel.columns import Slices
from kvformat.codecs._kernel.memory import Bytes, filled
from kvformat.codecs._kernel.reader import Reader

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import (
        DIGIT_0,
        DIGIT_9,
        EQUALS,
        LEFT_BRACE,
        LEFT_BRACKET,
        LOWER_F,
        LOWER_T,
        MINUS,
        QUOTE,
        append,
        append_bytes,
        byte,
        special,
    )

_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
SEXTETS: memoryview[int] = memoryview(
    np.array([_BASE64.find(chr(c)) if chr(c) in _BASE64 else 1 << 24 for c in range(256)], np.uint64).tobytes()
).cast("Q")
"""Values of the characters of base64. The value of other characters is too large to be valid."""


class Texts(Slices):
    """STRING. A value that is not a string becomes its JSON text."""

    def start(self, capacity: int) -> int:
        self.text = Bytes(max(capacity, 8) * 16)
        return Slices.start(self, capacity)

    def read_value(self, r: Reader, at: int) -> int:
        c = byte(r.data, at, r.end)
        if c == QUOTE:
            end = special(r.data, at + 1, r.end)
            if byte(r.data, end, r.end) == QUOTE:
                append(self.text, r.data, at + 1, end)
                end += 1
            else:
                end = r.string_into(at, self.text)
        elif c in (LEFT_BRACE, LEFT_BRACKET) and not self.other_forms:
            end = r.compact(at, self.text)
            if end == NEEDS_PYTHON:
                return self.read_slow(r, at)
        elif c == MINUS or DIGIT_0 <= c <= DIGIT_9:
            end = r.number(at)
            if not r.streaming and (not r.whole or (r.negative and r.mantissa == 0 and r.digit_count == 1)):
                return self.read_slow(r, at)
            if end > 0:
                append(self.text, r.data, at, end)
        elif c in (LOWER_T, LOWER_F):
            end = r.scalar(at)
            if end > 0:
                append(self.text, r.data, at, end)
        else:
            return self.read_uncommon(r, at)
        return self.done(r, end)

    def done(self, r: Reader, end: int) -> int:
        """End the value whose bytes were appended to `text`. Return `end`, or FAULT if the column has too much text."""
        if end < 0:
            return end
        if self.text.size > MOST_BYTES:
            return r.fail(end, TOO_LARGE)
        end_text(self)
        return end

    def null(self) -> int:
        add_null_text(self, 0)
        return 0

    def put(self, value: Any) -> int:
        append_bytes(self.text, value.encode())
        return end_text(self)

    def repeat(self) -> bool:
        start = self.offsets[self.length - 1]
        stop = self.offsets[self.length]
        text = self.text.view  # keep a reference: `append` may replace the view by a larger one
        append(self.text, text, start, stop)
        if self.valid[self.length - 1]:
            end_text(self)
        else:
            add_null_text(self, 0)
        return True

    def truncate(self, length: int) -> int:
        self.length = length
        self.text.size = self.offsets[length]
        return 0

    def weight(self) -> int:
        return self.text.size

    def buffers(self) -> list[pa.Buffer]:
        return [filled(self.offsets, self.length + 1), filled(self.text.view, self.text.size)]


class Binaries(Texts):
    """BYTES, written as base64."""

    def read_value(self, r: Reader, at: int) -> int:
        if byte(r.data, at, r.end) != QUOTE:
            return self.read_uncommon(r, at)
        end = special(r.data, at + 1, r.end)
        size = self.text.size
        if byte(r.data, end, r.end) != QUOTE or not self.decoded(r, at + 1, end):
            self.text.size = size
            return self.read_slow(r, at)
        return self.done(r, end + 1)

    def decoded(self, r: Reader, at: int, end: int) -> bool:
        """Append the bytes of base64: units of four characters, the last may be padded. Return whether it is valid."""
        while at + 4 <= end:
            bits = 0
            for i in range(4):
                bits = bits << 6 | SEXTETS[byte(r.data, at + i, end)]
            at += 4
            if bits < 1 << 24:
                self.text.put(bits >> 16)
                self.text.put(bits >> 8 & 255)
                self.text.put(bits & 255)
                continue
            if at != end or byte(r.data, at - 1, end) != EQUALS:
                return False
            padded = 2 if byte(r.data, at - 2, end) == EQUALS else 1
            bits = 0
            for i in range(4 - padded):
                bits = bits << 6 | SEXTETS[byte(r.data, at - 4 + i, end)]
            if bits >= 1 << 6 * (4 - padded):
                return False
            bits = bits << 6 * padded
            self.text.put(bits >> 16)
            if padded == 1:
                self.text.put(bits >> 8 & 255)
        return at == end

    def put(self, value: Any) -> int:
        append_bytes(self.text, value)
        return end_text(self)


if not cython.compiled:  # the compiled versions are in the .pxd, so that other modules can inline them

    def end_text(texts: Texts) -> int:
        """End a value whose bytes were appended to the column's text. Return 0."""
        texts.end_value(True)
        texts.offsets[texts.length] = texts.text.size
        return 0

    def add_null_text(texts: Texts, end: int) -> int:
        """Append a null. Return `end`."""
        texts.end_value(False)
        texts.offsets[texts.length] = texts.text.size
        return end
