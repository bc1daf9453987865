"""csv: cells that read texts into columns.

A cell reads the usual forms of a text itself. For all other forms it calls `convert`, the type's function in
`csv.scalars`, which has the complete rule of the type. `read_texts` reads the texts of a column in many records. For
common types it has a loop without calls, which reads the most frequent forms and leaves the others to `read_any`.

The read functions of a cell take the reader of the text, and the offsets of its start and its end. They return 0 after
they have appended a value or a null, BAD if the text is not a value of the type, or FAULT if the column has too much
text. The module `csv_records` finds the texts. The module `reader` has the rules for all code of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvformat.codecs._kernel.codes import BAD, FAULT, MOST_BYTES, TRUE_TEXT
from kvformat.codecs._kernel.columns import Booleans, Column, Decimals, Doubles, Int64Column
from kvformat.codecs._kernel.containers import Lists, Rows
from kvformat.codecs._kernel.csv_records import CsvTokenizer, repeated, word_of
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.text_columns import Binaries, Texts

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
    )
    from kvformat.codecs._kernel.memory import (
        DIGIT_0,
        DIGIT_9,
        MINUS,
        PLUS,
        POINT,
        SPACE,
        UPPER_I,
        UPPER_N,
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
    from kvformat.codecs._kernel.text_columns import end_text

ALL = 0xFFFFFFFFFFFFFFFF
LOWER_CASE = 0x20202020
FOUR_BYTES = 0xFFFFFFFF
HIGHS = 0x8080808080808080
ONES = 0x0101010101010101
POINTS = 0x2E2E2E2E2E2E2E2E
ZEROS = 0x3030303030303030


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
            return FAULT if self.binaries.text.size > MOST_BYTES else end_text(self.binaries)
        self.binaries.text.size = size
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


if not cython.compiled:  # the compiled version is in the .pxd, so that other modules can inline it

    def is_plain(cell: Cell, r: Reader, start: int, size: int) -> bool:
        """Return whether the text at an offset is not empty, not the null literal, and has no encoded surrogates.

        The offset is negative if the text is not in the data of `r`.
        """
        return start >= 0 and size > 0 and size != cell.null_size and not r.has_surrogates
