"""VARIANT as JSON text. Values may come from anywhere, so that all of their offsets are checked.

A value is written without recursion. Its elements must not overlap: so the work is bounded by the size of the value,
and by that of its keys in the text, which is limited.

Rules: `toJson` of Spark's `Variant`, in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import MAX_DEPTH
from kvformat.codecs._kernel.memory import Bytes, filled, grown
from kvformat.codecs._kernel.variant_codes import (
    BINARY,
    DECIMAL4,
    DECIMAL8,
    FALSE_BYTE,
    INT1,
    INT8,
    LONG_STRING,
    MALFORMED_VARIANT,
    MOST_OF_A_TEXT,
    NULL_BYTE,
    OBJECT,
    PRIMITIVE,
    SHORT_STRING,
    TOO_DEEP_VARIANT,
    TOO_LARGE_TEXT,
    TRUE_BYTE,
    VERSION,
)

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.columns import TENS
    from kvformat.codecs._kernel.memory import (
        BACKSLASH,
        COLON,
        COMMA,
        DIGIT_0,
        LEFT_BRACE,
        LEFT_BRACKET,
        LOWER_U,
        MINUS,
        POINT,
        QUOTE,
        append,
        append_bytes,
        part,
        word,
    )

SIZES: memoryview[int] = memoryview(bytes([0, 0, 0, 1, 2, 4, 8, 8, 5, 9, 17, 4, 8, 8, 4, 0, 0, 255, 255, 255, 16]))
"""Bytes of the content of each primitive value; 255 for kinds that Spark does not have."""
ESCAPES: memoryview[int] = memoryview(
    bytes(dict(zip(b'"\\\b\f\n\r\t', b'"\\bfnrt', strict=True)).get(c, ord("u") if c < 32 else 0) for c in range(256))
)
"""The letter after the backslash for each byte that must be escaped, else 0."""
DIGITS: memoryview[int] = memoryview(b"0123456789ABCDEF")
NINE_DIGITS, EIGHTEEN_DIGITS = 10**9, 10**18
ALL = 0xFFFFFFFFFFFFFFFF
TRUE_WORD, FALSE_WORD, NULL_WORD = memoryview(b"true"), memoryview(b"false"), memoryview(b"null")


class VariantTexts:
    """Writes arrays of VARIANT. `uncommon` returns the text of a primitive value, or None if it is malformed."""

    def __init__(self, uncommon: Callable[[bytes], bytes | None]) -> None:
        self.uncommon = uncommon
        self.data = self.names = memoryview(b"")
        self.out = Bytes(0)
        self.end = self.left = 0
        self.name_count = self.name_width = self.name_offsets = self.name_texts = self.names_end = 0
        self.is_object: memoryview[int] = grown(None, 0, MAX_DEPTH, "B")
        self.index: memoryview[int] = grown(None, 0, MAX_DEPTH, "q")
        self.counts: memoryview[int] = grown(None, 0, MAX_DEPTH, "q")
        self.id_at: memoryview[int] = grown(None, 0, MAX_DEPTH, "q")
        self.id_size: memoryview[int] = grown(None, 0, MAX_DEPTH, "q")
        self.offset_at: memoryview[int] = grown(None, 0, MAX_DEPTH, "q")
        self.offset_size: memoryview[int] = grown(None, 0, MAX_DEPTH, "q")
        self.data_at: memoryview[int] = grown(None, 0, MAX_DEPTH, "q")

    def write(
        self,
        values: tuple[memoryview[int], memoryview[int]],
        metadata: tuple[memoryview[int], memoryview[int]],
        valid: memoryview[int],
    ) -> tuple[pa.LargeStringArray, list[tuple[int, int]]]:
        """Write all values. Return the texts, and the index and problem of each value that has none.

        `values` and `metadata` are offsets and bytes; `valid` has a byte for each value. A null is null in the texts,
        and so is a value with a problem.
        """
        offsets, self.data = values
        name_offsets, self.names = metadata
        count = len(valid)
        self.out = Bytes(max(len(self.data) * 2, 64))
        ends: memoryview[int] = grown(None, 0, count + 1, "q")
        written: memoryview[int] = grown(None, 0, count, "B")
        problems = []
        ends[0] = 0
        for i in range(count):
            begin = self.out.size
            written[i] = valid[i]
            if valid[i]:
                problem = self.open_metadata(name_offsets[i], name_offsets[i + 1])
                if problem == 0:
                    problem = self.put_value(offsets[i], offsets[i + 1])
                if problem:
                    self.out.size = begin
                    written[i] = False
                    problems.append((i, problem))
            ends[i + 1] = self.out.size
        bits = np.packbits(np.frombuffer(memoryview(written), np.uint8, count), bitorder="little")
        buffers = [pa.py_buffer(bits), filled(ends, count + 1), filled(self.out.view, self.out.size)]
        self.data = self.names = memoryview(b"")
        return pa.Array.from_buffers(pa.large_string(), count, buffers), problems

    def unsigned_number(self, data: memoryview[int], at: int, size: int) -> int:
        """Return an integer of 1 to 4 bytes. The caller has checked the offset."""
        return word(data, at) & ALL >> 64 - 8 * size

    def open_metadata(self, at: int, end: int) -> int:
        """Read the head of the metadata. Return 0, or a problem."""
        if not 0 <= at < end <= len(self.names):
            return MALFORMED_VARIANT
        head = self.names[at]
        width = (head >> 6) + 1
        if head & 15 != VERSION or end - at < 1 + width:
            return MALFORMED_VARIANT
        self.name_width = width
        self.name_count = self.unsigned_number(self.names, at + 1, width)
        self.name_offsets = at + 1 + width
        self.name_texts = self.name_offsets + (self.name_count + 1) * width
        self.names_end = end
        return 0 if self.name_texts <= end else MALFORMED_VARIANT

    def put_value(self, at: int, end: int) -> int:
        """Append the text of the value `data[at:end]`. Return 0, or a problem."""
        if not 0 <= at < end <= len(self.data):
            return MALFORMED_VARIANT
        depth = 0
        most = self.out.size + MOST_OF_A_TEXT
        self.end = end
        self.left = end - at
        while True:
            if at >= end:
                return MALFORMED_VARIANT
            head = self.data[at]
            kind = head & 3
            self.left -= 1
            if kind == SHORT_STRING:
                problem = self.put_string(at + 1, head >> 2)
            elif kind == PRIMITIVE:
                problem = self.put_primitive(at, head)
            elif depth == MAX_DEPTH:
                problem = TOO_DEEP_VARIANT
            else:
                problem = self.begin(at, head, depth)
                depth += 1
            if problem:
                return problem
            if self.left < 0:
                return MALFORMED_VARIANT  # elements overlap
            while depth:
                frame = depth - 1
                i = self.index[frame]
                if i == self.counts[frame]:
                    self.out.put((LEFT_BRACE if self.is_object[frame] else LEFT_BRACKET) + 2)
                    depth = frame
                    continue
                if i:
                    self.out.put(COMMA)
                self.index[frame] = i + 1
                if self.is_object[frame]:
                    size = self.id_size[frame]
                    problem = self.put_name(self.unsigned_number(self.data, self.id_at[frame] + i * size, size))
                    if problem:
                        return problem
                if self.out.size > most:
                    return TOO_LARGE_TEXT
                size = self.offset_size[frame]
                at = self.data_at[frame] + self.unsigned_number(self.data, self.offset_at[frame] + i * size, size)
                break
            else:
                return 0

    def begin(self, at: int, head: int, frame: int) -> int:
        """Begin a container. Return 0, or a problem."""
        is_object = head & 3 == OBJECT
        large = head >> 6 & 1 if is_object else head >> 4 & 1
        count_size = 4 if large else 1
        if at + 1 + count_size > self.end:
            return MALFORMED_VARIANT
        count = self.unsigned_number(self.data, at + 1, count_size)
        id_size = (head >> 4 & 3) + 1 if is_object else 0
        offset_size = (head >> 2 & 3) + 1
        self.is_object[frame] = is_object
        self.index[frame] = 0
        self.counts[frame] = count
        self.id_at[frame] = at + 1 + count_size
        self.id_size[frame] = id_size
        self.offset_at[frame] = at + 1 + count_size + count * id_size
        self.offset_size[frame] = offset_size
        self.data_at[frame] = self.offset_at[frame] + (count + 1) * offset_size
        self.left -= self.data_at[frame] - at - 1
        self.out.put(LEFT_BRACE if is_object else LEFT_BRACKET)
        return 0 if self.data_at[frame] <= self.end else MALFORMED_VARIANT

    def put_name(self, number: int) -> int:
        """Append the key with an id, and a colon. Return 0, or a problem."""
        if number >= self.name_count:
            return MALFORMED_VARIANT
        at = self.name_offsets + number * self.name_width
        start = self.name_texts + self.unsigned_number(self.names, at, self.name_width)
        stop = self.name_texts + self.unsigned_number(self.names, at + self.name_width, self.name_width)
        if start > stop or stop > self.names_end:
            return MALFORMED_VARIANT
        self.put_quoted(self.out, self.names, start, stop)
        self.out.put(COLON)
        return 0

    def put_string(self, at: int, size: int) -> int:
        """Append a string. Return 0, or a problem."""
        if size > self.end - at:
            return MALFORMED_VARIANT
        self.left -= size
        self.put_quoted(self.out, self.data, at, at + size)
        return 0

    def put_quoted(self, out: Bytes, data: memoryview[int], at: int, stop: int) -> int:
        """Append bytes of UTF-8 as a JSON string."""
        out.put(QUOTE)
        start = at
        while at < stop:
            c = data[at]
            letter = ESCAPES[c]
            if letter:
                append(out, data, start, at)
                out.put(BACKSLASH)
                out.put(letter)
                if letter == LOWER_U:
                    out.put(DIGIT_0)
                    out.put(DIGIT_0)
                    out.put(DIGITS[c >> 4])
                    out.put(DIGITS[c & 15])
                start = at + 1
            at += 1
        append(out, data, start, stop)
        return out.put(QUOTE)

    def put_primitive(self, at: int, head: int) -> int:
        """Append a primitive value. Return 0, or a problem."""
        kind = head >> 2
        if kind >= len(SIZES) or SIZES[kind] == 255:
            return MALFORMED_VARIANT
        size = SIZES[kind]
        if head in (LONG_STRING, BINARY):
            if self.end - at < 5:
                return MALFORMED_VARIANT
            size = self.unsigned_number(self.data, at + 1, 4)
            if head == LONG_STRING:
                self.left -= 4
                return self.put_string(at + 5, size)
            size += 4
        if size > self.end - at - 1:
            return MALFORMED_VARIANT
        self.left -= size
        if head == NULL_BYTE:
            return append(self.out, NULL_WORD, 0, 4)
        if head == TRUE_BYTE:
            return append(self.out, TRUE_WORD, 0, 4)
        if head == FALSE_BYTE:
            return append(self.out, FALSE_WORD, 0, 5)
        if INT1 <= head <= INT8:
            return self.put_number(self.signed_number(at + 1, size), 0)
        if head in (DECIMAL4, DECIMAL8):
            value = self.signed_number(at + 2, size - 1)
            most = NINE_DIGITS if head == DECIMAL4 else EIGHTEEN_DIGITS
            scale = self.data[at + 1]
            if not -most < value < most or scale > (9 if head == DECIMAL4 else 18):
                return MALFORMED_VARIANT
            while scale > 0 and value % 10 == 0:
                value = value // 10
                scale -= 1
            return self.put_number(value, scale)
        text = self.uncommon(part(self.data, at, at + 1 + size))
        if text is None:
            return MALFORMED_VARIANT
        return append_bytes(self.out, text)

    def signed_number(self, at: int, size: int) -> int:
        """Return a signed integer of 1 to 8 bytes. The caller has checked the offset."""
        value = word(self.data, at)
        if cython.compiled:
            shift = 64 - 8 * size
            return self.shifted(value << shift, shift)
        else:
            return int.from_bytes((value & ALL).to_bytes(8, "little")[:size], "little", signed=True)

    def shifted(self, value: int, shift: int) -> int:
        """Shift a word to the right, and keep its sign."""
        return value >> shift

    def put_number(self, value: int, scale: int) -> int:
        """Append a number with `scale` digits after the point."""
        out = self.out
        magnitude = value
        if value < 0:
            out.put(MINUS)
            magnitude = -1 - value  # the smallest integer has no counterpart
            magnitude += 1
        count = 1
        while count < 19 and magnitude >= TENS[count]:
            count += 1
        if count <= scale:
            count = scale + 1
        while count > 0:
            if count == scale:
                out.put(POINT)
            count -= 1
            out.put(DIGIT_0 + magnitude // TENS[count] % 10)
        return 0
