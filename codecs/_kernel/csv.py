"""csv: cells that read texts into columns, and batches of messages with one record each.

A cell reads the usual forms of a text itself. For all other forms it calls `convert`, the type's function in
`csv.scalars`, which has the complete rule of the type. `read_texts` reads the texts of a column in many records. For
common types it has a loop without calls, which reads the most frequent forms and leaves the others to `read_any`.

The read functions of a cell take the reader of the text, and the offsets of its start and its end. They return 0 after
they have appended a value or a null, BAD if the text is not a value of the type, or FAULT if the column has too much
text. The module `csv_records` finds the texts. The module `reader` has the rules for all code of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import BAD, FAULT, MOST_BYTES, TRUE_TEXT
from kvformat.codecs._kernel.columns import Binaries, Booleans, Column, Decimals, Doubles, Int64Column, Texts
from kvformat.codecs._kernel.containers import Lists, Rows
from kvformat.codecs._kernel.csv_codes import (
    LENGTH_MISMATCH,
    NO_RECORD,
    NOT_ENOUGH_COLUMNS,
    NOT_TEXT,
    TOO_MANY_COLUMNS,
    TOO_MUCH_TEXT,
    UNKNOWN_ENCODING,
)
from kvformat.codecs._kernel.csv_records import CsvTokenizer, repeated, word_of
from kvformat.codecs._kernel.memory import grown
from kvformat.codecs._kernel.messages import Recoded, Said, TextBatch
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.time_forms import TimeForms

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.columns import (
        EXACT_DOUBLE,
        HALF_WAY,
        LOW_BITS,
        POWERS,
        TENS,
        add_integer,
        add_null_integer,
        end_text,
    )
    from kvformat.codecs._kernel.csv_records import BLOCK
    from kvformat.codecs._kernel.memory import (
        DIGIT_0,
        DIGIT_9,
        MINUS,
        PLUS,
        POINT,
        SPACE,
        UPPER_I,
        UPPER_N,
        UPPER_Z,
        append,
        bits_of,
        byte,
        eight_digits,
        few_digits,
        is_character,
        matches,
        next_of_two,
        part,
        single,
        word,
    )
    from kvformat.codecs._kernel.time_forms import NO_MOMENT
    from kvformat.codecs._kernel.times import MICROS_OF_A_DAY, NO_TIME, days_of, micros_of_day

ALL = 0xFFFFFFFFFFFFFFFF
LOWER_CASE = 0x20202020
FOUR_BYTES = 0xFFFFFFFF
HIGHS = 0x8080808080808080
ONES = 0x0101010101010101
POINTS = 0x2E2E2E2E2E2E2E2E
ZEROS = 0x3030303030303030


class CsvWords(Protocol):
    """The Python functions that a batch calls: for other encodings than UTF-8, and for the texts of errors."""

    def recoded(self, message: bytes) -> Recoded | None:
        """Return a message as UTF-8 and whether it was malformed, or None if its encoding is not supported.

        A malformed message ends where Jackson fails. Lone surrogates are encoded like other characters.
        """

    def fault(self, reader: Reader, columns: int) -> Said:
        """Return why the reader's message, in which `columns` columns were found, is not a record."""

    def bad_value(self, cell: Cell) -> Said:
        """Return why a cell can't take its text."""


def text_of(r: Reader, start: int, stop: int) -> str:
    """Return a part of the data as text. Surrogates may be encoded."""
    return part(r.data, start, stop).decode("utf-8", "surrogatepass")


def short_number(characters: int, size: int) -> int:
    """Parse the first 1 to 8 bytes of a little-endian word as digits, maybe with a point between or beside them.

    Return 16 times the number without its point, plus the count of the digits after the point. Return -1 for other
    bytes.
    """
    characters = characters << 64 - 8 * size & ALL  # the last character is in the highest byte
    rest = characters ^ POINTS
    point = (rest - ONES) & ~rest & HIGHS
    fraction = 0
    if point:
        before = ((point & (ALL - point + 1)) >> 7) - 1  # the bytes before the first point
        fraction = 7 - ((before & ONES) * ONES >> 56 & 7)
        characters = (characters & before) << 8 | characters & (ALL - (before << 8 | 255))
        size -= 1
        if size == 0:
            return -1
    value = eight_digits(characters | ZEROS >> 8 * size - 8 >> 8)
    return -1 if value < 0 else value * 16 + fraction


class Cell:
    """Reads texts into `column`.

    A text that is `null_literal`, or empty with `empty_is_null`, is null. If lenient, a text that is not a value of the
    type is null too. `path` is the field's path for error messages.
    """

    def __init__(
        self, path: str, column: Column, *, null_literal: bytes | None, empty_is_null: bool, lenient: bool
    ) -> None:
        self.path, self.column, self.lenient = path, column, lenient
        self.convert, self.type = column.convert, column.type
        self.empty_is_null = empty_is_null or null_literal == b""
        self.null_size = len(null_literal) if null_literal else -1
        literal = (null_literal or b"") + bytes(8)
        self.null_literal: memoryview[int] = memoryview(literal)
        self.bad_text = ""
        self.result = 0

    def read(self, r: Reader, start: int, stop: int) -> int:
        """Append the value of `data[start:stop]`, or null."""
        size = stop - start
        if size == 0:
            if self.empty_is_null:
                return self.column.null()
        elif size == self.null_size and matches(r.data, start, stop, self.null_literal, 0, size):
            return self.column.null()
        result = self.read_slow(r, start, stop) if r.has_surrogates else self.read_text(r, start, stop)
        if result == BAD and self.lenient:
            return self.column.null()
        return result

    def read_texts(self, records: CsvTokenizer, first: int, last: int) -> int:
        """Append the values of the texts from index `first` on.

        Return `last`, or the index of the first text that can't be read. Then `result` has its code. Cells of usual
        types have a fast path with one skeleton, which is written out because calls in the loop would cost more:

            for each text: if it is plain and has the usual form, append its value at once
                           else if it is empty, and an empty text is null, append a null
                           else `read_any`, with the whole rule of the type
        """
        for i in range(first, last):
            if self.read_any(records, i) < 0:
                return i
        return last

    def read_any(self, records: CsvTokenizer, i: int) -> int:
        """Append the value of the text at an index. Return 0, or the code that is then also in `result`."""
        start = records.starts[i]
        stop = records.stops[i]
        if stop < 0 or (start == stop and self.empty_is_null):
            return self.column.null()
        if start >= 0:
            self.result = self.read(records.reader, start, stop)
        else:
            self.result = self.read(records.unescaped, ~start, stop)
        return self.result

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        """Append the value of a text that is not null."""
        raise NotImplementedError

    def read_slow(self, r: Reader, start: int, stop: int) -> int:
        """Append the value of a text as `convert` reads it."""
        text = text_of(r, start, stop)
        try:
            value: Any = self.convert(text)  # type: ignore[misc]
        except ValueError:
            self.bad_text = text
            return BAD
        self.column.put(value)
        return FAULT if self.column.weight() > MOST_BYTES else 0


def is_plain(cell: Cell, r: Reader, start: int, size: int) -> bool:
    """Return whether the text at an offset is not empty, not the null literal, and has no encoded surrogates.

    The offset is negative if the text is not in the data of `r`.
    """
    return start >= 0 and size > 0 and size != cell.null_size and not r.has_surrogates


class WordCell(Cell):
    """Reads numbers, dates and times, most of them into a column of words.

    With `trims`, blanks around the text do not count.
    """

    def __init__(self, path: str, column: Column, *, trims: bool, **options: Any) -> None:
        super().__init__(path, column, **options)
        self.trims = trims
        self.words: Int64Column = column if isinstance(column, Int64Column) else None  # type: ignore[assignment]

    def read_uncommon(self, r: Reader, start: int, stop: int) -> int:
        """Append the value of a text that the fast path does not read."""
        first = start
        last = stop
        while first < last and byte(r.data, first, stop) <= SPACE:
            first += 1
        while last > first and byte(r.data, last - 1, stop) <= SPACE:
            last -= 1
        c = byte(r.data, first, last)
        if self.lenient and c < 128 and not DIGIT_0 <= c <= DIGIT_9 and c not in (PLUS, MINUS, POINT, UPPER_I, UPPER_N):
            return BAD  # without the cost of an exception: no number, date or time begins with this character
        if self.trims and 0 < last - first < stop - start:
            return self.read_trimmed(r, start, stop, first, last)
        return self.read_slow(r, start, stop)

    def read_trimmed(self, r: Reader, start: int, stop: int, first: int, last: int) -> int:
        """Append the value of `data[first:last]`, which is the text without blanks around it."""
        result = self.read_text(r, first, last)
        if result == BAD:
            self.bad_text = text_of(r, start, stop)
        return result


class IntegerCell(WordCell):
    """TINYINT to BIGINT."""

    def __init__(self, path: str, column: Int64Column, *, bits: int, **options: Any) -> None:
        super().__init__(path, column, trims=True, **options)
        self.most = 2 ** (bits - 1) - 1

    def read_texts(self, records: CsvTokenizer, first: int, last: int) -> int:
        # fast path
        r = records.reader
        for i in range(first, last):
            start = records.starts[i]
            size = records.stops[i] - start
            value = -1
            if is_plain(self, r, start, size):
                if size <= 8:
                    value = few_digits(word(r.data, start), size)
                elif size <= 16:
                    value = few_digits(word(r.data, start), size - 8)
                    low = eight_digits(word(r.data, start + size - 8))
                    value = value * 100_000_000 + low if value >= 0 and low >= 0 else -1
            if 0 <= value <= self.most:
                add_integer(self.words, value, 0)
            elif size == 0 and self.empty_is_null:
                add_null_integer(self.words, 0)
            elif self.read_any(records, i) < 0:
                return i
        return last

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        at = start
        negative = byte(r.data, at, stop) == MINUS
        if negative:
            at += 1
        size = stop - at
        if not 0 < size <= 16:
            return self.read_uncommon(r, start, stop)
        if size <= 8:
            value = few_digits(word(r.data, at), size)
        else:
            value = few_digits(word(r.data, at), size - 8)
            last = eight_digits(word(r.data, stop - 8))
            value = value * 100_000_000 + last if value >= 0 and last >= 0 else -1
        if value < 0:
            return self.read_uncommon(r, start, stop)
        if value > self.most:
            return self.read_uncommon(r, start, stop)
        return add_integer(self.words, -value if negative else value, 0)


class NumberCell(WordCell):
    """Reads numbers with digits and a point into `mantissa` and `negative`."""

    def parse(self, r: Reader, at: int, stop: int) -> int:
        """Parse a number without exponent. Return the count of its fraction's digits, or -1 if it is another text.

        The mantissa is exact if `digit_count` is below 20.
        """
        self.negative = byte(r.data, at, stop) == MINUS
        if self.negative:
            at += 1
        size = stop - at
        if 0 < size <= 8:
            packed = short_number(word(r.data, at), size)
            self.mantissa = packed >> 4
            self.digit_count = size  # or one less, which makes no difference
            return packed & 15 if packed >= 0 else -1
        first = at
        point = -1
        mantissa = 0
        while at < stop:
            c = byte(r.data, at, stop) - DIGIT_0
            if 0 <= c <= 9:
                mantissa = (mantissa * 10 + c) & ALL
            elif c == POINT - DIGIT_0 and point < 0:
                point = at
            else:
                return -1
            at += 1
        self.mantissa = mantissa
        self.digit_count = stop - first
        if point >= 0:
            self.digit_count -= 1
        if self.digit_count == 0:
            return -1
        return stop - point - 1 if point >= 0 else 0


class DoubleCell(NumberCell):
    """FLOAT and DOUBLE."""

    def __init__(self, path: str, column: Doubles, **options: Any) -> None:
        super().__init__(path, column, trims=True, **options)
        self.short = column.type.root == "FLOAT"

    def read_texts(self, records: CsvTokenizer, first: int, last: int) -> int:
        # fast path
        r = records.reader
        for i in range(first, last):
            start = records.starts[i]
            size = records.stops[i] - start
            packed = -1
            if size <= 8 and not self.short and is_plain(self, r, start, size):
                packed = short_number(word(r.data, start), size)
            if packed >= 0:
                value = float(packed >> 4)
                add_integer(self.words, bits_of(value / POWERS[packed & 15]), 0)
            elif size == 0 and self.empty_is_null:
                add_null_integer(self.words, 0)
            elif self.read_any(records, i) < 0:
                return i
        return last

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        fraction = self.parse(r, start, stop)
        if fraction < 0 and (start >= stop or r.number(start) != stop):
            return self.read_uncommon(r, start, stop)
        if 0 <= fraction <= 22 and self.digit_count < 20 and self.mantissa <= EXACT_DOUBLE:
            # both operands are exact, so the result is rounded once
            value = float(self.mantissa)
            value = value / POWERS[fraction]
            if self.negative:
                value = -value
        else:
            value = float(part(r.data, start, stop))
        if self.short and value != 0:
            if not 1.1754943508222875e-38 <= abs(value) < 3.4028234e38 or bits_of(value) & LOW_BITS == HALF_WAY:
                return self.read_slow(r, start, stop)
            value = single(value)
        return add_integer(self.words, bits_of(value), 0)


class DecimalCell(NumberCell):
    """DECIMAL(p, s), rounded half up to the scale; null if it does not fit."""

    def __init__(self, path: str, column: Decimals, **options: Any) -> None:
        super().__init__(path, column, trims=False, **options)
        self.decimals = column

    def read_texts(self, records: CsvTokenizer, first: int, last: int) -> int:
        # fast path
        r = records.reader
        decimals = self.decimals
        most = TENS[decimals.precision if decimals.precision < 18 else 18]
        for i in range(first, last):
            start = records.starts[i]
            size = records.stops[i] - start
            packed = -1
            if size <= 8 and is_plain(self, r, start, size):
                packed = short_number(word(r.data, start), size)
            shift = decimals.scale - (packed & 15)
            if packed >= 0 and 0 <= shift <= 10 and (packed >> 4) * TENS[shift] < most:
                length = decimals.length
                if length == decimals.capacity:
                    decimals.grow(length * 2)
                decimals.values[length * 2] = (packed >> 4) * TENS[shift]
                decimals.values[length * 2 + 1] = 0
                decimals.valid[length] = True
                decimals.length = length + 1
            elif self.read_any(records, i) < 0:
                return i
        return last

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        fraction = self.parse(r, start, stop)
        if fraction < 0 or self.digit_count > 18:
            return self.read_uncommon(r, start, stop)
        if not self.decimals.add_number(self.mantissa, -fraction, self.negative):
            return self.read_slow(r, start, stop)
        return 0


class BooleanCell(WordCell):
    """BOOLEAN: every text except true is false."""

    def __init__(self, path: str, column: Booleans, **options: Any) -> None:
        super().__init__(path, column, trims=True, **options)

    def read_texts(self, records: CsvTokenizer, first: int, last: int) -> int:
        # fast path
        r = records.reader
        for i in range(first, last):
            start = records.starts[i]
            size = records.stops[i] - start
            if is_plain(self, r, start, size) and byte(r.data, start, start + size) > SPACE:
                # of texts with blanks after them, only those with "true" are special
                is_true = (word(r.data, start) | LOWER_CASE) & FOUR_BYTES == TRUE_TEXT
                if not is_true or size == 4:
                    add_integer(self.words, is_true, 0)
                    continue
            if size == 0 and self.empty_is_null:
                add_null_integer(self.words, 0)
            elif self.read_any(records, i) < 0:
                return i
        return last

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        while start < stop and byte(r.data, start, stop) <= SPACE:
            start += 1
        while stop > start and byte(r.data, stop - 1, stop) <= SPACE:
            stop -= 1
        is_true = stop - start == 4 and (word(r.data, start) | LOWER_CASE) & FOUR_BYTES == TRUE_TEXT
        return add_integer(self.words, is_true, 0)


class TextCell(Cell):
    """CHAR and VARCHAR."""

    def __init__(self, path: str, column: Texts, **options: Any) -> None:
        super().__init__(path, column, **options)
        self.texts = column

    def read_texts(self, records: CsvTokenizer, first: int, last: int) -> int:
        # fast path
        r = records.reader
        texts = self.texts
        text = texts.text
        for i in range(first, last):
            start = records.starts[i]
            stop = records.stops[i]
            is_null = start == stop and self.empty_is_null
            if is_plain(self, r, start, stop - start):
                append(text, r.data, start, stop)
            elif is_plain(self, records.unescaped, ~start, stop - ~start):
                append(text, records.unescaped.data, ~start, stop)
            elif not is_null:
                if self.read_any(records, i) < 0:
                    return i
                continue
            if text.size > MOST_BYTES:
                self.result = FAULT
                return i
            length = texts.length
            if length == texts.capacity:
                texts.grow(length * 2)
            texts.valid[length] = not is_null
            texts.nulls += is_null
            texts.length = length + 1
            texts.offsets[length + 1] = text.size
        return last

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        append(self.texts.text, r.data, start, stop)
        if self.texts.text.size > MOST_BYTES:
            return FAULT
        return end_text(self.texts)


class BinaryCell(Cell):
    """BINARY and VARBINARY, written as base64."""

    def __init__(self, path: str, column: Binaries, **options: Any) -> None:
        super().__init__(path, column, **options)
        self.binaries = column

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        size = self.binaries.text.size
        if self.binaries.decoded(r, start, stop):
            return FAULT if self.binaries.text.size > MOST_BYTES else self.binaries.ended(True)
        self.binaries.text.size = size
        return self.read_slow(r, start, stop)


class DateCell(WordCell):
    """DATE."""

    def __init__(self, path: str, column: Int64Column, **options: Any) -> None:
        super().__init__(path, column, trims=False, **options)

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        days = days_of(r, start, stop) if stop - start == 10 else NO_TIME
        if days == NO_TIME:
            return self.read_uncommon(r, start, stop)
        return add_integer(self.words, days, 0)


class TimeCell(WordCell):
    """TIME, in nanoseconds, cut to a multiple of `unit` microseconds."""

    def __init__(self, path: str, column: Int64Column, *, unit: int, **options: Any) -> None:
        super().__init__(path, column, trims=False, **options)
        self.unit = unit

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        micros = micros_of_day(r, start, stop)
        if micros == NO_TIME:
            return self.read_uncommon(r, start, stop)
        return add_integer(self.words, micros // self.unit * self.unit * 1000, 0)


class TimestampCell(WordCell):
    """TIMESTAMP and TIMESTAMP_LTZ (`zoned`), in microseconds."""

    def __init__(self, path: str, column: Int64Column, *, zoned: bool, **options: Any) -> None:
        super().__init__(path, column, trims=True, **options)
        self.zoned = zoned

    def read_texts(self, records: CsvTokenizer, first: int, last: int) -> int:
        # fast path
        r = records.reader
        for i in range(first, last):
            start = records.starts[i]
            size = records.stops[i] - start
            if is_plain(self, r, start, size) and not self.zoned and byte(r.data, start + 10, start + size) == SPACE:
                days = days_of(r, start, start + size)
                micros = micros_of_day(r, start + 11, start + size)
                if days != NO_TIME and micros != NO_TIME:
                    add_integer(self.words, days * MICROS_OF_A_DAY + micros, 0)
                    continue
            if size == 0 and self.empty_is_null:
                add_null_integer(self.words, 0)
            elif self.read_any(records, i) < 0:
                return i
        return last

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        end = stop
        if self.zoned:
            end -= 1
            if byte(r.data, end, stop) != UPPER_Z:
                return self.read_uncommon(r, start, stop)
        if byte(r.data, start + 10, end) != SPACE:
            return self.read_uncommon(r, start, stop)
        days = days_of(r, start, end)
        micros = micros_of_day(r, start + 11, end)
        if NO_TIME in (days, micros):
            return self.read_uncommon(r, start, stop)
        return add_integer(self.words, days * MICROS_OF_A_DAY + micros, 0)


class FormTimestampCell(WordCell):
    """TIMESTAMP and TIMESTAMP_LTZ in the forms `forms`, in microseconds."""

    def __init__(self, path: str, column: Int64Column, *, forms: TimeForms, **options: Any) -> None:
        super().__init__(path, column, trims=True, **options)
        self.forms = forms

    def read_texts(self, records: CsvTokenizer, first: int, last: int) -> int:
        # fast path
        r = records.reader
        for i in range(first, last):
            start = records.starts[i]
            size = records.stops[i] - start
            moment = NO_MOMENT
            if is_plain(self, r, start, size):
                moment = self.forms.text(r, start, start + size)
            if moment != NO_MOMENT:
                add_integer(self.words, moment, 0)
            elif self.read_any(records, i) < 0:
                return i
        return last

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        moment = self.forms.text(r, start, stop)
        if moment != NO_MOMENT:
            return add_integer(self.words, moment, 0)
        first = start
        last = stop
        while first < last and byte(r.data, first, stop) <= SPACE:
            first += 1
        while last > first and byte(r.data, last - 1, stop) <= SPACE:
            last -= 1
        if 0 < last - first < stop - start:
            return self.read_trimmed(r, start, stop, first, last)
        return self.read_slow(r, start, stop)


class ContainerCell(Cell):
    """A cell with several elements. `delimiter` is the UTF-8 of the character between them.

    Blank text has no elements, unless the delimiter is a blank. With `trim`, blanks around elements do not count.
    """

    def __init__(self, path: str, column: Column, *, delimiter: bytes, trim: bool, lenient: bool) -> None:
        super().__init__(path, column, null_literal=None, empty_is_null=False, lenient=lenient)
        self.delimiter, self.delimiter_size = word_of(delimiter), len(delimiter)
        self.delimiters, self.trim = repeated(delimiter), trim

    def element_end(self, r: Reader, at: int, stop: int) -> int:
        """Return the end of the element at an offset: that of the next delimiter, or `stop`."""
        at = next_of_two(r.data, at, stop, self.delimiters, self.delimiters)
        while at < stop and not is_character(r.data, at, stop, self.delimiter, self.delimiter_size):
            at = next_of_two(r.data, at + 1, stop, self.delimiters, self.delimiters)
        return at if at < stop else stop

    def has_elements(self, r: Reader, start: int, stop: int, end: int) -> bool:
        """Return whether a text has elements, given the end of the first one."""
        if end < stop:
            return True
        while start < stop and byte(r.data, start, stop) <= SPACE:
            start += 1
        return start < stop

    def read_element(self, r: Reader, cell: Cell, start: int, stop: int) -> int:
        """Let a cell read an element."""
        if self.trim:
            while start < stop and byte(r.data, start, stop) <= SPACE:
                start += 1
            while stop > start and byte(r.data, stop - 1, stop) <= SPACE:
                stop -= 1
        return cell.read(r, start, stop)

    def read_slow(self, r: Reader, start: int, stop: int) -> int:
        return self.read_text(r, start, stop)


class ArrayCell(ContainerCell):
    """ARRAY."""

    def __init__(self, path: str, column: Lists, element: Cell, **options: Any) -> None:
        super().__init__(path, column, **options)
        self.lists, self.element = column, element

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        end = self.element_end(r, start, stop)
        if self.has_elements(r, start, stop, end):
            while True:
                result = self.read_element(r, self.element, start, end)
                if result < 0:
                    return result
                if end >= stop:
                    break
                start = end + self.delimiter_size
                end = self.element_end(r, start, stop)
        if self.element.column.length > MOST_BYTES:
            return FAULT
        return self.lists.end()


class RowCell(ContainerCell):
    """ROW. Elements after its fields are skipped. A lenient reader reads missing elements as null."""

    def __init__(self, path: str, column: Rows, members: list[Cell], **options: Any) -> None:
        super().__init__(path, column, **options)
        self.rows, self.members = column, members
        self.count = len(members)
        self.found = 0
        self.bad_member: Cell | None = None

    def read_text(self, r: Reader, start: int, stop: int) -> int:
        end = self.element_end(r, start, stop)
        if not self.has_elements(r, start, stop, end):
            return self.rows.null()
        if not self.lenient and self.count_elements(r, end, stop) < self.count:
            self.bad_member = None
            return BAD
        for number in range(self.count):
            cell = cython.cast(Cell, self.members[number])
            if start > stop:
                cell.column.null()
                continue
            result = self.read_element(r, cell, start, end)
            if result == BAD:
                self.bad_member = cell
            if result < 0:
                return result
            start = end + self.delimiter_size
            end = self.element_end(r, start, stop)
        return self.rows.end_row()

    def count_elements(self, r: Reader, end: int, stop: int) -> int:
        """Count the elements of a text up to the number of the fields, given the end of the first one."""
        self.found = 1
        while end < stop and self.found < self.count:
            self.found += 1
            end = self.element_end(r, end + self.delimiter_size, stop)
        return self.found


class CsvBatch(TextBatch):
    """Reads batches of csv messages, one row per message.

    `cells` fill the columns of `root`. `lenient`, `ignore_trailing_unmappable`, `allow_trailing_comma` and
    `fail_on_missing_columns` are those of `ReadSettings`.
    """

    def __init__(
        self,
        root: Rows,
        cells: list[Cell],
        records: CsvTokenizer,
        words: CsvWords,
        *,
        lenient: bool,
        ignore_trailing_unmappable: bool,
        allow_trailing_comma: bool,
        fail_on_missing_columns: bool,
    ) -> None:
        super().__init__(records.reader)
        self.root, self.cells, self.records, self.words = root, cells, records, words
        self.lenient, self.allow_trailing_comma = lenient, allow_trailing_comma
        self.ignore_trailing_unmappable = ignore_trailing_unmappable
        self.fail_on_missing_columns = fail_on_missing_columns
        self.numbers: memoryview[int] = grown(None, 0, BLOCK, "q")
        self.at_once = False
        self.removed: list[int] = []

    def read_batch(self, messages: pa.BinaryArray) -> pa.ListArray:
        """Return the row of each message, in a list."""
        self.root.start(self.capacity(len(messages)))
        self.reader.start_batch(self.root.cells)
        self.records.start_block()
        self.removed = []
        self.run(messages)
        self.records.release()
        for cell in self.cells:
            if cell.column.length != self.root.length:
                raise AssertionError(f"a column of {cell.column.length} values in {self.root.length} rows")
        if self.removed:
            counts = np.zeros(self.count + 1, np.int32)
            counts[np.array(self.removed) + 1] = 1
            offsets = np.frombuffer(memoryview(self.offsets), np.int32, self.count + 1)
            offsets -= np.cumsum(counts, dtype=np.int32)
        return self.lists(self.root.finish())

    def end_batch(self) -> int:
        return self.read_records()

    def recode(self, message: bytes) -> Recoded | None:
        recoded = self.words.recoded(message)
        if recoded is not None:
            # in valid UTF-8 no surrogates are encoded
            text, _ = recoded
            self.reader.open(memoryview(text))
            self.reader.has_surrogates = self.reader.utf8_end(0, len(text)) < len(text)
        return recoded

    def read_recoded(self, message: bytes) -> int:
        self.read_records()
        self.at_once = True  # the reader has the data only now
        status = TextBatch.read_recoded(self, message)
        self.at_once = self.reader.has_surrogates = False
        return status

    def is_usual(self, begin: int, end: int) -> bool:
        # In UTF-16 and UTF-32 one of the first two bytes is zero, or a byte order mark.
        r = self.reader
        first = byte(r.data, begin, end)
        second = byte(r.data, begin + 1, end)
        if first == 0 or first >= 0xFE or (first == 0xEF and second == 0xBB):
            return False
        return second != 0 or begin + 1 == end

    def read_empty(self, at: int) -> int:
        return self.read_message(at, at, False)

    def reject_encoding(self) -> int:
        self.reader.fail(self.reader.begin, UNKNOWN_ENCODING)
        return self.reject()

    def read_message(self, begin: int, end: int, loose: bool) -> int:
        r = self.reader
        records = self.records
        r.begin = begin  # nothing else of the reader's message is used
        r.end = end
        if self.find_record(records.record_start(begin) if records.comments else begin, loose) < 0:
            return self.reject()
        self.numbers[records.record] = self.current
        records.record += 1
        self.rows += 1
        if records.record == BLOCK or self.at_once:
            self.read_records()
        return 1

    def find_record(self, at: int, loose: bool) -> int:
        """Find the texts of the record at an offset. Return its end, or FAULT if the message is not a record."""
        r = self.reader
        records = self.records
        records.found = 0
        if at >= r.end:
            return r.fail(at, NOT_TEXT if loose else NO_RECORD)
        records.has_more = True
        while True:
            at = records.read_usual(at)
            if not records.has_more:
                break
            at = records.read_column(at)
            if at < 0:
                return at
            if records.found == records.count:
                return self.read_others(at, loose)
            records.add()
            if not records.has_more:
                break
        return at if records.found == records.count and not loose else self.end_record(at, loose)

    def read_others(self, at: int, loose: bool) -> int:
        """Read the columns after those of the schema. The first of them was just read, and ends at an offset."""
        r = self.reader
        records = self.records
        if not self.ignore_trailing_unmappable:
            if records.has_more:
                at = records.read_column(at)
                return at if at < 0 else r.fail(at, TOO_MANY_COLUMNS)
            if not self.allow_trailing_comma or not records.is_blank():
                return r.fail(at, TOO_MANY_COLUMNS)
        while records.has_more:
            at = records.read_column(at)
            if at < 0:
                return at
        return self.end_record(at, loose)

    def end_record(self, at: int, loose: bool) -> int:
        """Check the end of the record, and add missing columns. Return `at`, or FAULT."""
        r = self.reader
        records = self.records
        if loose and records.record_start(at) >= r.end:
            return r.fail(at, NOT_TEXT)
        if records.found < records.count:
            if self.fail_on_missing_columns:
                return r.fail(at, NOT_ENOUGH_COLUMNS)
            if not self.lenient:
                return r.fail(at, LENGTH_MISMATCH)
            records.add_missing()
        return at

    def reject(self) -> int:
        """Add the error of a message that is not a record, or skip it. The result is that of `read_message`."""
        if self.lenient:
            return 1
        said = self.words.fault(self.reader, self.records.found)
        self.read_records()  # their errors come first
        return self.add_error(said)

    def read_records(self) -> int:
        """Append the rows of the records whose texts were found.

        After a record with a bad value, fewer records are read at once: their values may have to be removed again.
        """
        root = self.root
        records = self.records
        most = records.record
        records.open_unescaped()
        first = 0
        size = BLOCK
        while first < most:
            stop = most if most - first < size else first + size
            last = self.read_columns(first, stop)
            while root.length + last - first > root.capacity:
                root.grow(root.capacity * 2)
            for _ in range(first, last):
                root.valid[root.length] = True
                root.length += 1
            first = last
            size *= 2
            if last < stop:
                root.truncate(root.length)
                self.add_value_error(self.numbers[last])
                first += 1
                size = 1
        return records.start_block()

    def read_columns(self, first: int, stop: int) -> int:
        """Append the values of some records to all columns. Return the number of the first bad record, or `stop`.

        Then `bad` has its error, and columns may have values of records from there on.
        """
        for number in range(len(self.cells)):
            cell = cython.cast(Cell, self.cells[number])
            place = number * BLOCK
            last = cell.read_texts(self.records, place + first, place + stop) - place
            if last < stop:
                stop = last
                if cell.result == FAULT:
                    self.reader.fail(0, TOO_MUCH_TEXT)
                self.bad = self.words.fault(self.reader, 0) if cell.result == FAULT else self.words.bad_value(cell)
        return stop

    def add_value_error(self, message: int) -> int:
        """Add the error `bad` of a message."""
        current = self.current
        self.current = message
        self.add_error(self.bad)
        self.current = current
        self.present[message] = 0
        self.removed.append(message)
        return 0
