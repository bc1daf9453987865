"""Columns that grow: one class per kind of type. They read JSON values into the buffers of an Arrow array.

A column appends a value (`read_value`) or a null (`null`), removes the last values (`truncate`), and becomes an Arrow
array (`finish`). The columns read the usual forms of a value themselves. For all other forms they call `convert`, the
type's function in `json.scalars`. It has the complete rule of the type; the columns have fast paths for common cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import BAD, FALSE_TEXT, MOST_BYTES, NULL_TEXT, TOO_LARGE, TRUE_TEXT
from kvformat.codecs._kernel.memory import filled, grown
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.tree import Tree

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import (
        BACKSLASH,
        COMMA,
        DIGIT_0,
        DIGIT_1,
        DIGIT_9,
        LEFT_BRACE,
        LEFT_BRACKET,
        LOWER_F,
        LOWER_N,
        LOWER_T,
        MINUS,
        QUOTE,
        RIGHT_BRACE,
        RIGHT_BRACKET,
        UPPER_I,
        UPPER_N,
        bits_of,
        byte,
        single,
        word,
    )

EXACT_DOUBLE = 2**53
LOW_BITS, HALF_WAY = 0x1FFFFFFF, 0x10000000
"""The low bits of a double that a float does not have, and their value half-way between two floats."""
FIVE_BYTES, SIX_BYTES = 2**40 - 1, 2**48 - 1
QUOTED_TRUE = int.from_bytes(b'true"', "little")
QUOTED_FALSE = int.from_bytes(b'false"', "little")
LARGEST = 2**63 - 1  # largest signed 64-bit integer
TENS: memoryview[int] = memoryview(np.array([10**i for i in range(20)], np.uint64).tobytes()).cast("Q")
POWERS: memoryview[float] = memoryview(np.array([float(f"1e{i}") for i in range(23)]).tobytes()).cast("d")


class FinalValueError(ValueError):
    """An error of `Column.convert` that is an error for lenient readers too (`Reader.final`)."""


class Column:
    """Values of the Flink type `type`, stored as the Arrow type `kind`.

    `convert` reads the values that need Python. It takes a node of the tree that is not None, and returns a value or
    None for null. It raises ValueError if it can't read the value.

    A column with `is_text` takes any value. Error messages call the type `name`. `cells` is the smallest number of
    cells of a value or null.

    With `other_forms` only the rules of `convert` count. It then also takes objects, arrays and texts that the type
    does not take as JSON, and `read_value` leaves each value to it that Flink would change to fit the type.
    """

    valid: memoryview[int]

    def __init__(self, type: Any, kind: pa.DataType, convert: Callable[[Any], Any] | None = None) -> None:
        self.type, self.kind, self.convert = type, kind, convert
        self.nodes: Tree | None = None
        self.is_text = type.root in ("CHAR", "VARCHAR")
        self.other_forms = False
        self.name = type.root if type.fields or type.root == "ROW" else type.summary()
        self.length = self.capacity = self.nulls = self.spare = 0
        self.cells = 1

    def start(self, capacity: int) -> int:
        """Start a new array."""
        self.length = 0
        self.nulls = 0
        return self.grow(max(capacity, 8))

    def grow(self, capacity: int) -> int:
        """Make room for `capacity` values in total."""
        if self.length or self.spare < capacity:  # Arrow does not get these bytes, so they are reused
            self.valid = grown(self.valid if self.length else None, self.length, capacity, "B")
            self.spare = capacity
        self.capacity = capacity
        return 0

    def add_validity(self, valid: bool) -> int:
        """End a value or null. There must be room for it."""
        self.valid[self.length] = valid
        self.length += 1
        if not valid:
            self.nulls += 1
        return 0

    def end_value(self, valid: bool) -> int:
        """End a value or null, and make room for it if needed."""
        if self.length == self.capacity:
            self.grow(self.capacity * 2)
        return self.add_validity(valid)

    def null(self) -> int:
        """Append a null."""
        return self.end_value(False)

    def repeat(self) -> bool:
        """Append the last value again if that is faster than reading it again. Return whether it was appended."""
        return False

    def truncate(self, length: int) -> int:
        """Keep only the first `length` values. `nulls` still counts removed nulls, which at worst adds a bitmap."""
        self.length = length
        return 0

    def read_value(self, r: Reader, at: int) -> int:
        """Append the value at an offset. Return its end, FAULT or BAD. After a code the caller must call `truncate`."""
        raise NotImplementedError

    def read_uncommon(self, r: Reader, at: int) -> int:
        """Append a value that the fast path does not read, for example null."""
        c = byte(r.data, at, r.end)
        if c == LOWER_N:
            end = r.literal(at, NULL_TEXT, 4)
            if end > 0:
                self.null()
            return end
        if not self.is_text and not self.other_forms and (c in (LEFT_BRACE, LEFT_BRACKET) or self.convert is None):
            return r.reject(at, self)
        return self.read_slow(r, at)

    def read_slow(self, r: Reader, at: int) -> int:
        """Append any value except null: parse it into a node and call `convert`."""
        if self.nodes is None:
            self.nodes = Tree(keep_repeats=False)
        node = self.nodes.read_node(r, at)
        end = self.nodes.end
        if end < 0:
            return end
        if r.careful and r.bad_at == at and r.culprit is self:
            return BAD  # a second attempt would fail too
        try:
            self.put(self.convert(node))  # type: ignore[misc]
            if self.weight() > MOST_BYTES:
                return r.fail(at, TOO_LARGE)
        except ValueError as fault:
            r.reject(at, self)
            r.reason = fault
            if isinstance(fault, FinalValueError):
                r.final, r.final_of = fault, self
            return BAD
        return end

    def read_slow_text(self, r: Reader, at: int, first: int) -> int:
        """Append a string in place of a number. `first` is the first byte of its content.

        Letters and most punctuation can't begin a number, so the string is BAD. `convert` decides about strings that
        begin with a sign, a blank, an escape or a byte that is not ASCII.
        """
        if DIGIT_9 < first < 128 and first != BACKSLASH and not self.is_text and not self.other_forms:
            end = r.string(at)
            return end if end < 0 else r.reject(at, self)
        return self.read_slow(r, at)

    def put(self, value: Any) -> int:
        """Append a Python value that `convert` returned."""
        raise NotImplementedError

    def put_or_null(self, value: Any) -> int:
        """Append a Python value, or a null for None."""
        return self.null() if value is None else self.put(value)

    def weight(self) -> int:
        """Return the size of the texts in bytes."""
        return 0

    def validity(self) -> pa.Buffer | None:
        """Return the validity bitmap, or None if no value is null."""
        if self.nulls == 0:
            return None
        valid = np.frombuffer(memoryview(self.valid), np.uint8, self.length)
        return pa.py_buffer(np.packbits(valid, bitorder="little"))

    def finish(self) -> pa.Array:
        """Return all values as an array. Then `start` must be called before the column can be used again."""
        return pa.Array.from_buffers(self.kind, self.length, [self.validity(), *self.buffers()])

    def buffers(self) -> list[pa.Buffer]:
        """Return Arrow's buffers after the bitmap."""
        raise NotImplementedError


class Int64Column(Column):
    """Values that the buffer keeps as 64-bit integers. The array has the numpy type `stored`."""

    values: memoryview[int]

    def __init__(self, type: Any, kind: pa.DataType, convert: Callable[[Any], Any] | None, stored: Any) -> None:
        super().__init__(type, kind, convert)
        self.stored = np.dtype(stored)

    def grow(self, capacity: int) -> int:
        self.values = grown(self.values if self.length else None, self.length, capacity, "q")
        return Column.grow(self, capacity)

    def add_value(self, value: int, end: int) -> int:
        """Append a value that ends at the offset `end`. Return `end`."""
        if self.length == self.capacity:
            self.grow(self.capacity * 2)
        self.values[self.length] = value
        self.valid[self.length] = True
        self.length += 1
        return end

    def null(self) -> int:
        self.add_value(0, 0)
        self.valid[self.length - 1] = False
        self.nulls += 1
        return 0

    def repeat(self) -> bool:
        if self.valid[self.length - 1]:
            self.add_value(self.values[self.length - 1], 0)
        else:
            self.null()
        return True

    def put(self, value: Any) -> int:
        return self.null() if value is None else self.add_value(value, 0)

    def buffers(self) -> list[pa.Buffer]:
        if self.stored.itemsize == 8:
            return [filled(self.values, self.length)]
        return [pa.py_buffer(np.frombuffer(memoryview(self.values), np.int64, self.length).astype(self.stored))]


class Booleans(Int64Column):
    """BOOLEAN: every value except true and "true" is false, also an object or array."""

    def __init__(self, type: Any, kind: pa.DataType, convert: Callable[[Any], Any]) -> None:
        super().__init__(type, kind, convert, np.bool_)

    def read_value(self, r: Reader, at: int) -> int:
        c = byte(r.data, at, r.end)
        if c == LOWER_T:
            end = r.literal(at, TRUE_TEXT, 4)
        elif c == LOWER_F:
            end = r.literal(at, FALSE_TEXT, 5)
        elif c == QUOTE and word(r.data, at + 1) & FIVE_BYTES == QUOTED_TRUE and at + 6 <= r.end:
            return self.add_value(1, at + 6)
        elif c == QUOTE and word(r.data, at + 1) & SIX_BYTES == QUOTED_FALSE and at + 7 <= r.end:
            return self.add_value(0, at + 7)
        elif c in (LEFT_BRACE, LEFT_BRACKET) and not self.other_forms:
            end = r.skip(at)
        else:
            return self.read_uncommon(r, at)
        return self.add_value(c == LOWER_T, end) if end > 0 else end

    def buffers(self) -> list[pa.Buffer]:
        words = np.frombuffer(memoryview(self.values), np.int64, self.length)
        return [pa.py_buffer(np.packbits(words.astype(np.bool_), bitorder="little"))]


class Integers(Int64Column):
    """TINYINT to BIGINT, and the intervals. The column stores the number times `factor`.

    With `cuts`, types of 32 and more bits drop the fraction of a number.
    """

    def __init__(
        self,
        type: Any,
        kind: pa.DataType,
        convert: Callable[[Any], Any] | None,
        bits: int,
        *,
        factor: int = 1,
        cuts: bool = True,
    ) -> None:
        super().__init__(type, kind, convert, f"i{bits // 8}")
        self.factor = factor
        self.most = (2 ** (bits - 1) - 1) // factor
        self.cuts = cuts and bits > 16

    def read_value(self, r: Reader, at: int) -> int:
        c = byte(r.data, at, r.end)
        start = at
        if c == QUOTE:
            if self.other_forms:
                return self.read_slow(r, at)
            start = at + 1
            c = byte(r.data, start, r.end)
            if c != MINUS and not DIGIT_0 <= c <= DIGIT_9:
                return self.read_slow_text(r, at, c)
        elif DIGIT_1 <= c <= DIGIT_9:
            # the common case: up to 18 digits, then a comma or bracket
            size = 0
            while DIGIT_0 <= c <= DIGIT_9 and start - at < 18:
                size = size * 10 + (c - DIGIT_0)
                start += 1
                c = byte(r.data, start, r.end)
            if c in (COMMA, RIGHT_BRACE, RIGHT_BRACKET) and size <= self.most:
                return self.add_value(size * self.factor, start)
            start = at
        elif c != MINUS and c != DIGIT_0:
            return self.read_uncommon(r, at)
        end = r.number(start)
        if start > at:
            if end < 0 or not r.whole or r.digit_count > 19 or byte(r.data, end, r.end) != QUOTE:
                return self.read_slow(r, at)
            end += 1
        elif end < 0:
            return end
        value = r.mantissa
        if not r.whole:
            # with so few digits, a decimal and a rounded double are cut to the same integer
            if not self.cuts or self.other_forms or r.digit_count > 15 or r.exponent < -15 or r.exponent >= 0:
                return self.read_slow(r, at)
            if end - at != r.digit_count + 1 + r.negative:
                return self.read_slow(r, at)
            value = value // TENS[-r.exponent]
            if value >= self.most:
                return self.read_slow(r, at)
        elif r.digit_count > 19:
            return self.read_slow(r, at)
        if value > self.most and not (r.negative and value == self.most + 1 and self.factor == 1):
            return self.read_slow(r, at)
        if r.negative and value:
            size = -1 - (value - 1)
            return self.add_value(size * self.factor, end)
        return self.add_value(value * self.factor, end)


class Doubles(Int64Column):
    """DOUBLE and FLOAT (`short`), rounded once from the text. Like Flink, the tree reader rounds FLOAT twice."""

    def __init__(self, type: Any, kind: pa.DataType, convert: Callable[[Any], Any]) -> None:
        super().__init__(type, kind, convert, np.float64)
        self.short = kind == pa.float32()

    def read_value(self, r: Reader, at: int) -> int:
        c = byte(r.data, at, r.end)
        quoted = c == QUOTE
        start = at
        if quoted:
            if self.other_forms:
                return self.read_slow(r, at)
            start = at + 1
            c = byte(r.data, start, r.end)
            if c in (UPPER_I, UPPER_N):  # Infinity, NaN
                return self.read_slow(r, at)
            if c != MINUS and not DIGIT_0 <= c <= DIGIT_9:
                return self.read_slow_text(r, at, c)
        elif c != MINUS and not DIGIT_0 <= c <= DIGIT_9:
            return self.read_uncommon(r, at)
        end = r.number(start)
        if quoted:
            if end < 0 or byte(r.data, end, r.end) != QUOTE:
                return self.read_slow(r, at)
        elif end < 0:
            return end
        if r.digit_count < 20 and r.mantissa <= EXACT_DOUBLE and -22 <= r.exponent <= 22:
            # both operands are exact, so the result is rounded once
            value = float(r.mantissa)
            value = value / POWERS[-r.exponent] if r.exponent < 0 else value * POWERS[r.exponent]
            if r.negative:
                value = -value
        else:
            value = float(r.text(start, end))
        if value == 0 and r.negative and not r.streaming:
            return self.read_slow(r, at)  # the sign of zero depends on its notation
        if self.short and value != 0:
            if not 1.1754943508222875e-38 <= abs(value) < 3.4028234e38:
                return self.read_slow(r, at)
            if (r.streaming or r.decimals or r.whole or quoted) and bits_of(value) & LOW_BITS == HALF_WAY:
                return self.read_slow(r, at)
            value = single(value)
        return self.add_value(bits_of(value), end + quoted)

    def put(self, value: Any) -> int:
        return self.add_value(bits_of(value), 0)

    def buffers(self) -> list[pa.Buffer]:
        if not self.short:
            return Int64Column.buffers(self)
        with np.errstate(over="ignore"):
            return [pa.py_buffer(np.frombuffer(memoryview(self.values), np.float64, self.length).astype(np.float32))]


class Decimals(Column):
    """DECIMAL(p, s), rounded half up to the scale; null if it does not fit. Two 64-bit words per value."""

    values: memoryview[int]

    def __init__(self, type: Any, kind: pa.DataType, convert: Callable[[Any], Any]) -> None:
        super().__init__(type, kind, convert)
        self.precision, self.scale = kind.precision, kind.scale

    def grow(self, capacity: int) -> int:
        self.values = grown(self.values if self.length else None, self.length * 2, capacity * 2, "Q")
        return Column.grow(self, capacity)

    def read_value(self, r: Reader, at: int) -> int:
        c = byte(r.data, at, r.end)
        start = at
        if c == QUOTE:
            start = at + 1
            c = byte(r.data, start, r.end)
            if c != MINUS and not DIGIT_0 <= c <= DIGIT_9:
                return self.read_slow_text(r, at, c)
        elif c != MINUS and not DIGIT_0 <= c <= DIGIT_9:
            return self.read_uncommon(r, at)
        end = r.number(start)
        if start > at:
            if end < 0 or byte(r.data, end, r.end) != QUOTE:
                return self.read_slow(r, at)
            end += 1
        elif end < 0:
            return end
        if r.digit_count > 18 or not self.add_number(r.mantissa, r.exponent, r.negative):
            return self.read_slow(r, at)
        return end

    def add_number(self, mantissa: int, exponent: int, negative: bool) -> bool:
        """Append `mantissa * 10**exponent`, rounded, or null if it does not fit. The mantissa has up to 18 digits.

        Return False, and append nothing, if `convert` must read the number.
        """
        value = mantissa
        shift = exponent + self.scale
        if not -18 <= shift <= 18:
            return False
        if shift >= 0:
            if value >= TENS[18 - shift]:
                return False
            value *= TENS[shift]
        else:
            unit = TENS[-shift]
            if self.other_forms and value % unit:
                return False
            value = value // unit + (1 if value % unit * 2 >= unit else 0)
        if self.precision <= 18 and value >= TENS[self.precision]:
            if self.other_forms:
                return False
            self.null()
        elif negative and value:
            self.add_decimal((LARGEST - (value - 1)) | (LARGEST + 1), LARGEST * 2 + 1)
        else:
            self.add_decimal(value, 0)
        return True

    def add_decimal(self, low: int, high: int) -> int:
        """Append an unscaled number, given as two words."""
        if self.length == self.capacity:
            self.grow(self.capacity * 2)
        self.values[self.length * 2] = low
        self.values[self.length * 2 + 1] = high
        return self.add_validity(True)

    def null(self) -> int:
        self.add_decimal(0, 0)
        self.valid[self.length - 1] = False
        self.nulls += 1
        return 0

    def repeat(self) -> bool:
        if self.valid[self.length - 1]:
            self.add_decimal(self.values[self.length * 2 - 2], self.values[self.length * 2 - 1])
        else:
            self.null()
        return True

    def put(self, value: Any) -> int:
        if value is None:
            return self.null()
        sign, digits, exponent = value.as_tuple()
        unscaled = int("".join(map(str, digits))) * 10 ** (self.scale + exponent)
        if sign:
            unscaled = -unscaled
        return self.add_decimal(unscaled & 0xFFFFFFFFFFFFFFFF, unscaled >> 64 & 0xFFFFFFFFFFFFFFFF)

    def buffers(self) -> list[pa.Buffer]:
        return [filled(self.values, self.length * 2)]


class Slices(Column):
    """Values of any size, concatenated. `offsets` has the start of each value, and the end of the last value."""

    offsets: memoryview[int]

    def start(self, capacity: int) -> int:
        Column.start(self, capacity)
        self.offsets[0] = 0
        return 0

    def grow(self, capacity: int) -> int:
        kept = self.length + 1 if self.length else 0
        self.offsets = grown(self.offsets if kept else None, kept, capacity + 1, "i")
        return Column.grow(self, capacity)


if not cython.compiled:  # the compiled versions are in the .pxd, so that other modules can inline them

    def add_integer(words: Int64Column, value: int, end: int) -> int:
        """Append a value that ends at the offset `end`. Return `end`."""
        return words.add_value(value, end)

    def add_null_integer(words: Int64Column, end: int) -> int:
        """Append a null. Return `end`."""
        words.null()
        return end
