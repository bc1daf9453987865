"""VARIANT: any JSON value as Spark's `parse_json` stores it, a binary value and its metadata, the dictionary of keys.

A value begins with a byte that has its kind in the two lowest bits. A container is a header and its data. The header
has the number of elements, the ids of an object's keys in the order of the keys, and the offsets of the elements in the
data. The data are the elements in the order of the document.

`VariantWriter` parses a value once. It appends scalars to `flat`, and the header of a container to `heads` when the
container ends, because only then all offsets are known. At the end, it inserts the headers between the scalars. So the
work for each byte does not depend on the depth.

Rules: Spark's `VariantBuilder`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kvformat.codecs._kernel.codes import (
    BAD,
    EXPECTED_COMMA,
    EXPECTED_NAME,
    FALSE_TEXT,
    MAX_DEPTH,
    MOST_BYTES,
    NULL_TEXT,
    TOO_DEEP,
    TOO_LARGE,
    TRAILING,
    TRUE_TEXT,
)
from kvformat.codecs._kernel.columns import Slices
from kvformat.codecs._kernel.memory import Bytes, filled, grown
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.variant_codes import (
    ARRAY,
    DECIMAL4,
    DECIMAL8,
    DECIMAL16,
    DOUBLE,
    DUPLICATE_KEY,
    FALSE_BYTE,
    INT1,
    INT2,
    INT4,
    INT8,
    LARGE_ARRAY,
    LARGE_OBJECT,
    LONG_STRING,
    MOST_OF_A_VARIANT,
    NULL_BYTE,
    OBJECT,
    SHORT_STRING,
    TOO_LARGE_VARIANT,
    TRUE_BYTE,
    VERSION,
)
from kvformat.codecs._kernel.variant_keys import Keys

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.columns import EXACT_DOUBLE, POWERS
    from kvformat.codecs._kernel.memory import (
        COMMA,
        DIGIT_0,
        DIGIT_9,
        LEFT_BRACE,
        LEFT_BRACKET,
        LOWER_F,
        LOWER_N,
        LOWER_T,
        MINUS,
        QUOTE,
        RIGHT_BRACE,
        append,
        append_bytes,
        append_integer,
        bits_of,
        byte,
        part,
        special,
        token,
    )

MOST_SHORT = 63
"""Most bytes of a string whose size is in its first byte."""
NINE_DIGITS = 10**9
"""Unscaled numbers from here on do not fit in a decimal of four bytes. The mantissas here have at most 18 digits."""
LOW_WORD = 0xFFFFFFFF


def number_bytes(text: str) -> bytes:
    """Return the bytes of any number: an integer, a decimal of at most 38 digits without an exponent, or a double."""
    whole, point, fraction = text.partition(".")
    digits = (whole + fraction).removeprefix("-")
    if digits.isdigit():
        unscaled, scale = int(whole + fraction), len(fraction)
        if not point and -(2**63) <= unscaled < 2**63:
            return bytes([INT8]) + unscaled.to_bytes(8, "little", signed=True)
        precision = len(digits.lstrip("0")) or 1
        if scale <= 38 and precision <= 38:
            size = 4 if max(scale, precision) <= 9 else 8 if max(scale, precision) <= 18 else 16
            kind = {4: DECIMAL4, 8: DECIMAL8, 16: DECIMAL16}[size]
            return bytes([kind, scale]) + unscaled.to_bytes(size, "little", signed=True)
    return bytes([DOUBLE]) + bits_of(float(text)).to_bytes(8, "little", signed=True)


class VariantWriter:
    """Parses JSON values to the bytes of VARIANT."""

    def __init__(self) -> None:
        self.keys = Keys()
        self.flat, self.heads, self.name = Bytes(4096), Bytes(1024), Bytes(64)
        self.metadata = Bytes(256)
        self.metadata_keys = -1
        # containers in the order of their beginnings: the offset in `flat`, and the header's start and end in `heads`
        self.places: memoryview[int] = grown(None, 0, 3 * 16, "q")
        self.containers = 0
        # elements of open containers: the id of the key, 32 bits, and the offset in the container's data, 32 bits
        self.elements: memoryview[int] = grown(None, 0, 32, "q")
        self.sorted: memoryview[int] = grown(None, 0, 32, "q")
        self.count = 0
        # open containers by depth
        self.closings: memoryview[int] = grown(None, 0, MAX_DEPTH + 1, "B")
        self.starts: memoryview[int] = grown(None, 0, MAX_DEPTH + 1, "q")
        self.firsts: memoryview[int] = grown(None, 0, MAX_DEPTH + 1, "q")
        self.numbers: memoryview[int] = grown(None, 0, MAX_DEPTH + 1, "q")
        self.size = self.problem = self.repeated = 0

    def read(self, r: Reader, at: int) -> int:
        """Parse the value at an offset. Return its end, FAULT, or BAD with the reason in `problem`."""
        self.keys.start()
        self.flat.size = self.heads.size = 0
        self.containers = self.count = 0
        self.size = 0
        at = self.parse(r, at)
        if at >= 0 and self.size > MOST_OF_A_VARIANT:
            return self.refuse(TOO_LARGE_VARIANT)
        return self.add_metadata(at)

    def parse(self, r: Reader, at: int) -> int:
        """Parse a value to `flat` and `heads`."""
        c = byte(r.data, at, r.end)
        if c != LEFT_BRACE and c != LEFT_BRACKET:
            return self.scalar(r, at, c)
        depth = 0
        closing = 0
        while True:
            c = byte(r.data, at, r.end)
            if c in (LEFT_BRACE, LEFT_BRACKET):
                if r.depth + depth >= MAX_DEPTH:
                    return r.fail(at, TOO_DEEP)
                closing = c + 2
                self.begin(depth, closing)
                depth += 1
                at = token(r.data, at + 1, r.end)
                if byte(r.data, at, r.end) != closing:
                    at = self.element(r, at, closing, depth)
                    if at < 0:
                        return at
                    continue
            else:
                at = self.scalar(r, at, c)
                if at < 0:
                    return at
                at = token(r.data, at, r.end)
            while byte(r.data, at, r.end) == closing:
                depth -= 1
                if not self.close(depth):
                    return self.refuse(DUPLICATE_KEY)
                if depth == 0:
                    return at + 1
                closing = self.closings[depth - 1]
                at = token(r.data, at + 1, r.end)
            if byte(r.data, at, r.end) != COMMA:
                return r.fail(at, EXPECTED_COMMA)
            at = self.element(r, token(r.data, at + 1, r.end), closing, depth)
            if at < 0:
                return at

    def refuse(self, problem: int) -> int:
        """Record why the value is not a VARIANT. Return BAD."""
        self.problem = problem
        return BAD

    def begin(self, depth: int, closing: int) -> int:
        """Begin a container."""
        if (self.containers + 1) * 3 > len(self.places):
            self.more_places()
        self.places[self.containers * 3] = self.flat.size
        self.closings[depth] = closing
        self.starts[depth] = self.size
        self.firsts[depth] = self.count
        self.numbers[depth] = self.containers
        self.containers += 1
        return 0

    def more_places(self) -> int:
        """Make room for more containers."""
        with cython.gil:
            self.places = grown(self.places, self.containers * 3, self.containers * 6, "q")
        return 0

    def more_elements(self) -> int:
        """Make room for more elements."""
        with cython.gil:
            self.elements = grown(self.elements, self.count, self.count * 2, "q")
            self.sorted = grown(None, 0, self.count * 2, "q")
        return 0

    def element(self, r: Reader, at: int, closing: int, depth: int) -> int:
        """Begin the next element of a container; in an object, read its key. Return the offset of its value."""
        offset = self.size - self.starts[depth - 1]
        if offset > MOST_OF_A_VARIANT:
            return self.refuse(TOO_LARGE_VARIANT)
        if closing == RIGHT_BRACE:
            if byte(r.data, at, r.end) != QUOTE:
                return r.fail(at, EXPECTED_NAME)
            number = self.keys.expected(r.data, at + 1, r.end)
            if number >= 0:
                at += self.keys.ends[number + 1] - self.keys.ends[number] + 2
            else:
                first = at + 1
                at = special(r.data, first, r.end)
                if byte(r.data, at, r.end) == QUOTE:
                    number = self.keys.find(r.data, first, at)
                    at += 1
                else:
                    self.name.size = 0
                    at = r.string_into(first - 1, self.name)
                    if at < 0:
                        return at
                    number = self.keys.find(self.name.view, 0, self.name.size)
            offset |= self.keys.id_of(number) << 32
            at = r.colon(at)
            if at < 0:
                return at
        if self.count == len(self.elements):
            self.more_elements()
        self.elements[self.count] = offset
        self.count += 1
        return at

    # --- scalars ---------------------------------------------------------------------------------------

    def scalar(self, r: Reader, at: int, c: int) -> int:
        """Append a value that is neither an object nor an array. `c` is its first byte. Return its end."""
        before = self.flat.size
        if c == QUOTE:
            at = self.string(r, at)
        elif c == MINUS or DIGIT_0 <= c <= DIGIT_9:
            at = self.number(r, at)
        elif c == LOWER_T:
            at = r.literal(at, TRUE_TEXT, 4)
            self.flat.put(TRUE_BYTE)
        elif c == LOWER_F:
            at = r.literal(at, FALSE_TEXT, 5)
            self.flat.put(FALSE_BYTE)
        elif c == LOWER_N:
            at = r.literal(at, NULL_TEXT, 4)
            self.flat.put(NULL_BYTE)
        else:
            at = r.fail_value(at)
        self.size += self.flat.size - before
        return at

    def string(self, r: Reader, at: int) -> int:
        """Append a string."""
        end = special(r.data, at + 1, r.end)
        if byte(r.data, end, r.end) == QUOTE:
            self.string_head(end - at - 1)
            append(self.flat, r.data, at + 1, end)
            return end + 1
        self.name.size = 0
        end = r.string_into(at, self.name)
        if end > 0:
            self.string_head(self.name.size)
            append(self.flat, self.name.view, 0, self.name.size)
        return end

    def string_head(self, size: int) -> int:
        """Append what comes before the bytes of a string."""
        if size <= MOST_SHORT:
            return self.flat.put(size << 2 | SHORT_STRING)
        self.flat.put(LONG_STRING)
        return append_integer(self.flat, size, 4)

    def number(self, r: Reader, at: int) -> int:
        """Append a number."""
        end = r.number(at)
        if end < 0:
            return end
        if r.digit_count <= 18:
            value = r.mantissa
            if r.negative:
                value = -value
            if r.whole:
                if -128 <= value < 128:
                    self.flat.put(INT1)
                    return self.put_number(value, 1, end)
                if -0x8000 <= value < 0x8000:
                    self.flat.put(INT2)
                    return self.put_number(value, 2, end)
                if -0x7FFFFFFF - 1 <= value <= 0x7FFFFFFF:
                    self.flat.put(INT4)
                    return self.put_number(value, 4, end)
                self.flat.put(INT8)
                return self.put_number(value, 8, end)
            if end - at == r.digit_count + 1 + r.negative:  # one more character, the point, so there is no exponent
                small = r.exponent >= -9 and -NINE_DIGITS < value < NINE_DIGITS
                self.flat.put(DECIMAL4 if small else DECIMAL8)
                self.flat.put(-r.exponent)
                return self.put_number(value, 4 if small else 8, end)
            if r.mantissa <= EXACT_DOUBLE and -22 <= r.exponent <= 22:
                # both operands are exact, so the result is rounded once
                double = float(r.mantissa)
                double = double / POWERS[-r.exponent] if r.exponent < 0 else double * POWERS[r.exponent]
                self.flat.put(DOUBLE)
                return self.put_number(bits_of(-double if r.negative else double), 8, end)
        with cython.gil:
            append_bytes(self.flat, number_bytes(r.text(at, end)))
        return end

    def put_number(self, value: int, size: int, end: int) -> int:
        """Append an integer of `size` bytes. Return `end`."""
        append_integer(self.flat, value, size)
        return end

    # --- containers ------------------------------------------------------------------------------------

    def close(self, depth: int) -> bool:
        """End the container of this depth: append its header to `heads`. Return False if a key is repeated."""
        first = self.firsts[depth]
        count = self.count - first
        is_object = self.closings[depth] == RIGHT_BRACE
        most = 0
        if is_object:
            self.sort(first)
            last = -1
            for i in range(first, self.count):
                key = self.elements[i] >> 32
                if key == last:
                    self.repeated = self.keys.used[key]
                    return False
                last = key
                most = max(most, key)
        data = self.size - self.starts[depth]
        id_size, offset_size = integer_size(most), integer_size(data)
        begin = self.heads.size
        large = count > 255
        if is_object:
            self.heads.put((LARGE_OBJECT if large else OBJECT) | id_size - 1 << 4 | offset_size - 1 << 2)
        else:
            self.heads.put((LARGE_ARRAY if large else ARRAY) | offset_size - 1 << 2)
        append_integer(self.heads, count, 4 if large else 1)
        if is_object:
            for i in range(first, self.count):
                append_integer(self.heads, self.elements[i] >> 32, id_size)
        for i in range(first, self.count):
            append_integer(self.heads, self.elements[i] & LOW_WORD, offset_size)
        append_integer(self.heads, data, offset_size)
        self.count = first
        number = self.numbers[depth] * 3
        self.places[number + 1] = begin
        self.places[number + 2] = self.heads.size
        self.size += self.heads.size - begin
        return True

    def sort(self, first: int) -> int:
        """Sort the elements from index `first` on by their keys: a merge sort, bottom up."""
        count = self.count
        i = first + 1
        while i < count and not self.keys.less(self.elements[i] >> 32, self.elements[i - 1] >> 32):
            i += 1
        if i >= count:
            return 0
        width = 1
        while width < count - first:
            low = first
            while low < count:
                middle = min(low + width, count)
                high = min(low + 2 * width, count)
                a = low
                b = middle
                for k in range(low, high):
                    if b >= high or (a < middle and not self.keys.less(self.elements[b] >> 32, self.elements[a] >> 32)):
                        self.sorted[k] = self.elements[a]
                        a += 1
                    else:
                        self.sorted[k] = self.elements[b]
                        b += 1
                low = high
            for k in range(first, count):
                self.elements[k] = self.sorted[k]
            width *= 2
        return 0

    # --- results ---------------------------------------------------------------------------------------

    def add_value(self, out: Bytes) -> int:
        """Append the value: the scalars, and the headers between them."""
        done = 0
        for i in range(self.containers):
            place = self.places[i * 3]
            append(out, self.flat.view, done, place)
            append(out, self.heads.view, self.places[i * 3 + 1], self.places[i * 3 + 2])
            done = place
        return append(out, self.flat.view, done, self.flat.size)

    def add_metadata(self, end: int) -> int:
        """Write the metadata if they differ from the last value's. Return `end`, or BAD if they are too large."""
        keys = self.keys
        count = keys.used_count
        if end < 0 or (not keys.changed and count == self.metadata_keys):
            return end
        size = 0
        for i in range(count):
            size += keys.ends[keys.used[i] + 1] - keys.ends[keys.used[i]]
        if size + 4 * count > MOST_OF_A_VARIANT:
            return self.refuse(TOO_LARGE_VARIANT)
        out = self.metadata
        out.size = 0
        width = integer_size(max(size, count))
        out.put(VERSION | width - 1 << 6)
        append_integer(out, count, width)
        offset = 0
        for i in range(count):
            append_integer(out, offset, width)
            offset += keys.ends[keys.used[i] + 1] - keys.ends[keys.used[i]]
        append_integer(out, offset, width)
        for i in range(count):
            append(out, keys.text.view, keys.ends[keys.used[i]], keys.ends[keys.used[i] + 1])
        self.metadata_keys = count
        keys.changed = False
        return end

    def repeated_key(self) -> Any:
        """Return the key that an object has twice."""
        keys = self.keys
        return part(keys.text.view, keys.ends[self.repeated], keys.ends[self.repeated + 1]).decode()


def integer_size(value: int) -> int:
    """Return how many bytes an id or an offset needs."""
    return 1 if value <= 0xFF else 2 if value <= 0xFFFF else 3 if value <= 0xFFFFFF else 4


class Variants(Slices):
    """VARIANT. A null is SQL's NULL; a JSON null within a value is a value of VARIANT.

    `refusal` makes the error of a value from the reason, a number of `variant_codes`, and the key that is repeated.
    """

    def __init__(self, type: Any, kind: pa.DataType, refusal: Callable[[int, str], ValueError]) -> None:
        super().__init__(type, kind)
        self.refusal = refusal
        self.writer = VariantWriter()

    def start(self, capacity: int) -> int:
        self.text, self.metadata = Bytes(max(capacity, 8) * 32), Bytes(max(capacity, 8) * 32)
        self.metadata_offsets = grown(None, 0, max(capacity, 8) + 1, "i")
        self.metadata_offsets[0] = 0
        return Slices.start(self, capacity)

    def grow(self, capacity: int) -> int:
        kept = self.length + 1 if self.length else 0
        if kept:
            self.metadata_offsets = grown(self.metadata_offsets, kept, capacity + 1, "i")
        return Slices.grow(self, capacity)

    def read_value(self, r: Reader, at: int) -> int:
        if byte(r.data, at, r.end) == LOWER_N:
            return self.read_uncommon(r, at)
        end = self.writer.read(r, at)
        if end < 0:
            if end == BAD:
                r.reject(at, self)
                problem = self.writer.problem
                r.reason = self.refusal(problem, self.writer.repeated_key() if problem == DUPLICATE_KEY else "")
            return end
        self.writer.add_value(self.text)
        append(self.metadata, self.writer.metadata.view, 0, self.writer.metadata.size)
        if self.text.size > MOST_BYTES or self.metadata.size > MOST_BYTES:
            return r.fail(end, TOO_LARGE)
        self.ended(True)
        return end

    def read_texts(
        self,
        r: Reader,
        offsets: memoryview[int],
        data: memoryview[int],
        valid: memoryview[int],
        error: Callable[[Reader, int], Any],
    ) -> list[tuple[int, Any]]:
        """Start an array, and append a value for each text, a document. A text that is not valid gives a null.

        offsets, data: the texts. valid: a byte for each text. error: a function of the reader and the code that
        returns the error of a text. Return the index and the error of each text that has one.
        """
        count = len(valid)
        self.start(count)
        r.open(data)
        faults = []
        for i in range(count):
            if not valid[i]:
                self.null()
                continue
            r.start_message(offsets[i], offsets[i + 1])
            at = self.read_value(r, r.first_token())
            if at >= 0:
                at = token(r.data, at, r.end)
                if at < r.end:
                    at = r.fail(at, TRAILING)
            if at < 0:
                faults.append((i, error(r, at)))
                self.truncate(i)
                self.null()
        return faults

    def ended(self, valid: bool) -> int:
        """End a value or a null: store its end offsets."""
        self.end_value(valid)
        self.offsets[self.length] = self.text.size
        self.metadata_offsets[self.length] = self.metadata.size
        return 0

    def null(self) -> int:
        return self.ended(False)

    def truncate(self, length: int) -> int:
        self.length = length
        self.text.size = self.offsets[length]
        self.metadata.size = self.metadata_offsets[length]
        return 0

    def weight(self) -> int:
        return max(self.text.size, self.metadata.size)

    def finish(self) -> pa.Array:
        values = [filled(self.offsets, self.length + 1), filled(self.text.view, self.text.size)]
        metadata = [filled(self.metadata_offsets, self.length + 1), filled(self.metadata.view, self.metadata.size)]
        children = [pa.Array.from_buffers(pa.binary(), self.length, [None, *buffers]) for buffers in (values, metadata)]
        return pa.Array.from_buffers(self.kind, self.length, [self.validity()], children=children)
