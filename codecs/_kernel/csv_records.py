r"""The grammar of csv: a tokenizer that finds the text of one column after the other.

    1,"a ""b"", c",x      the columns: 1    a "b", c    x

A quote opens a quoted column only as its first character. Blanks may follow the closing quote. An escape character
escapes the next character; `n`, `r`, `t` and `0` become control characters. A line break ends the record, and the rest
of the message is not read. The module `reader` has the rules for all code of this package.

Rules: Jackson's `CsvDecoder` and `CsvParser`. They work on UTF-16 units, the tokenizer works on UTF-8. All special
characters are single units, and in UTF-8 no character is a part of another, so both find the same columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvformat.codecs._kernel.csv_codes import AFTER_QUOTE, OPEN_ESCAPE, OPEN_QUOTE
from kvformat.codecs._kernel.memory import Bytes, grown
from kvformat.codecs._kernel.reader import Reader

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import (
        DIGIT_0,
        LOWER_N,
        LOWER_R,
        LOWER_T,
        NEWLINE,
        NUMBER_SIGN,
        RETURN,
        SPACE,
        TAB,
        append,
        byte,
        column_end,
        is_character,
        next_of_two,
    )

ONES = 0x0101010101010101
BLOCK = 64
"""The number of records whose texts are found before the cells read them, one column after the other."""
KEPT = 2**20
"""The unescaped text of later messages reuses a buffer of up to this number of bytes."""
_ABSENT = b"\xff"
"""In place of a character that the settings don't have. UTF-8 never contains this byte."""


def word_of(character: bytes) -> int:
    """Return the bytes of a character as a little-endian integer."""
    return int.from_bytes(character, "little")


def repeated(character: bytes) -> int:
    """Return eight times the first byte of a character, for a search."""
    return character[0] * ONES


class CsvTokenizer:
    """Tokenizer of the record in the current message of `reader`.

    The texts of up to `BLOCK` records are kept: that of a column in a record is `data[start:stop]` of `reader`, with
    `starts` and `stops` at the index `column * BLOCK + record`. A start that is `~start` belongs to the data of
    `unescaped`. If the stop is negative too, the column is missing.

    `read_usual` finds the texts of several columns, as long as they are usual. `read_column` finds any text, and `add`
    keeps it. Both set `has_more`, whether another column follows. The special characters are UTF-8. `comments` and
    `trim` are those of `ReadSettings`.
    """

    def __init__(
        self,
        reader: Reader,
        columns: int,
        *,
        delimiter: bytes,
        quote: bytes | None,
        escape: bytes | None,
        comments: bool,
        trim: bool,
    ) -> None:
        self.reader, self.unescaped, self.buffer = reader, Reader(), Bytes(256)
        quote, inner_escape = quote or _ABSENT, escape or _ABSENT
        # without quotes, a delimiter that is also the escape character is a delimiter
        outer_escape = _ABSENT if inner_escape == delimiter else inner_escape
        self.delimiter, self.delimiter_size = word_of(delimiter), len(delimiter)
        self.quote, self.quote_size = word_of(quote), len(quote)
        self.escape, self.escape_size = word_of(inner_escape), len(inner_escape)
        self.outer_escape = word_of(outer_escape)
        self.delimiter_byte, self.quote_byte = delimiter[0], quote[0]
        self.delimiters, self.quotes = repeated(delimiter), repeated(quote)
        self.escapes, self.outer_escapes = repeated(inner_escape), repeated(outer_escape)
        # one byte each: then a delimiter after a quote ends the column
        is_simple = len(delimiter) == len(quote) == 1 and delimiter != quote
        self.has_usual = is_simple and delimiter not in b"\r\n" and quote not in b"\r\n\0"
        self.starts: memoryview[int] = grown(None, 0, columns * BLOCK, "q")
        self.stops: memoryview[int] = grown(None, 0, columns * BLOCK, "q")
        self.count = columns
        self.record = self.found = 0
        self.comments, self.trim = comments, trim
        self.start = self.stop = self.unescaped_start = 0
        self.has_more = self.is_unescaped = False

    def record_start(self, at: int) -> int:
        """Return the offset of the next record: after comments and empty lines, if they are allowed."""
        end = self.reader.end
        while self.comments and at < end:
            c = byte(self.reader.data, at, end)
            if c == NUMBER_SIGN:
                while at < end and c not in (NEWLINE, RETURN):
                    at += 1
                    c = byte(self.reader.data, at, end)
            elif c in (SPACE, NEWLINE, RETURN):
                at += 1
            else:
                break
        return at

    def read_usual(self, at: int) -> int:
        """Find and keep the texts of the next columns, from an offset on. Return the offset after the last of them.

        Stops after the last column of the schema, and before a column that is not usual: with escapes, doubled quotes,
        blanks after a quote, or a line break.
        """
        end = self.reader.end
        column = self.found
        if not self.has_usual:
            return at
        place = column * BLOCK + self.record
        while column < self.count:
            begin = at
            if self.trim:
                at = self.skip_blanks(at)
            start = at
            if byte(self.reader.data, at, end) == self.quote_byte:
                start += 1
                stop = next_of_two(self.reader.data, start, end, self.quotes, self.escapes)
                if byte(self.reader.data, stop, end) != self.quote_byte:
                    at = begin
                    break
                at = stop + 1
            else:
                stop = column_end(self.reader.data, at, end, self.delimiters, self.outer_escapes)
                at = stop
            if at >= end:  # the last column
                at = end
                if stop > end:
                    stop = end
                self.has_more = False
            elif byte(self.reader.data, at, end) != self.delimiter_byte:
                at = begin
                break
            if self.trim and at == stop:
                while stop > start and byte(self.reader.data, stop - 1, end) <= SPACE:
                    stop -= 1
            self.starts[place] = start
            self.stops[place] = stop
            place += BLOCK
            column += 1
            if at == end:
                break
            at += 1
        self.found = column
        return at

    def add(self) -> int:
        """Keep the text that `read_column` has found."""
        place = self.found * BLOCK + self.record
        self.starts[place] = ~self.start if self.is_unescaped else self.start
        self.stops[place] = self.stop
        self.found += 1
        return 0

    def add_missing(self) -> int:
        """End a record without its last columns."""
        while self.found < self.count:
            place = self.found * BLOCK + self.record
            self.starts[place] = self.stops[place] = -1
            self.found += 1
        return 0

    def read_column(self, at: int) -> int:
        """Find the text of the column at an offset. Return the offset after its delimiter or line break, or FAULT.

        The text is `data[start:stop]` of `reader`, or of `unescaped` if `is_unescaped`.
        """
        end = self.reader.end
        self.is_unescaped = False
        if self.trim:
            at = self.skip_blanks(at)
        self.start = at
        c = byte(self.reader.data, at, end)
        if c in (NEWLINE, RETURN):
            self.stop = at
            self.has_more = False
            return self.skip_line_break(at)
        if c == self.quote_byte and is_character(self.reader.data, at, end, self.quote, self.quote_size):
            return self.read_quoted(at)
        stop = column_end(self.reader.data, at, end, self.delimiters, self.outer_escapes)
        if stop >= end or byte(self.reader.data, stop, end) != self.delimiter_byte or self.delimiter_size > 1:
            stop = self.read_unquoted(stop)
            if stop < 0:
                return stop
        else:
            self.stop = stop
        if self.trim:
            self.trim_end()
        return self.end_column(stop)

    def skip_blanks(self, at: int) -> int:
        """Return the offset after blanks, which are neither delimiters nor line breaks."""
        end = self.reader.end
        while at < end:
            c = byte(self.reader.data, at, end)
            if c > SPACE or c in (NEWLINE, RETURN, self.delimiter_byte):
                break
            at += 1
        return at

    def trim_end(self) -> int:
        """Remove blanks from the end of the text."""
        if self.is_unescaped:
            while self.stop > self.start and self.buffer.view[self.stop - 1] <= SPACE:
                self.stop -= 1
        else:
            while self.stop > self.start and byte(self.reader.data, self.stop - 1, self.reader.end) <= SPACE:
                self.stop -= 1
        return 0

    def end_column(self, at: int) -> int:
        """Set `has_more`. Return the offset after the delimiter or line break at an offset, or the message's end."""
        end = self.reader.end
        self.has_more = is_character(self.reader.data, at, end, self.delimiter, self.delimiter_size)
        if self.has_more:
            return at + self.delimiter_size
        return self.skip_line_break(at) if at < end else end

    def skip_line_break(self, at: int) -> int:
        """Return the offset after the line break at an offset."""
        end = self.reader.end
        if byte(self.reader.data, at, end) == RETURN and byte(self.reader.data, at + 1, end) == NEWLINE:
            return at + 2
        return at + 1

    def read_unquoted(self, at: int) -> int:
        """Find the end of the column without quotes at `start`. The offset is that of its first special byte."""
        end = self.reader.end
        span = self.start
        while at < end:
            c = byte(self.reader.data, at, end)
            if is_character(self.reader.data, at, end, self.outer_escape, self.escape_size):
                self.keep(span, at)
                span = self.unescape(at)
                if span < 0:
                    return span
                at += self.escape_size + 1
            elif c in (NEWLINE, RETURN) or is_character(self.reader.data, at, end, self.delimiter, self.delimiter_size):
                break
            else:
                at += 1
            at = column_end(self.reader.data, at, end, self.delimiters, self.outer_escapes)
        if at > end:
            at = end
        self.end_text(span, at)
        return at

    def read_quoted(self, opening: int) -> int:
        """Find the text of the quoted column at an offset. The result is that of `read_column`."""
        end = self.reader.end
        size = self.quote_size
        at = opening + size
        self.start = span = at
        while True:
            at = next_of_two(self.reader.data, at, end, self.quotes, self.escapes)
            if at >= end:
                return self.reader.fail(opening, OPEN_QUOTE)
            if is_character(self.reader.data, at, end, self.quote, size):
                if not is_character(self.reader.data, at + size, end, self.quote, size):
                    break
                self.keep(span, at + size)
                at += 2 * size
                span = at
            elif is_character(self.reader.data, at, end, self.escape, self.escape_size):
                self.keep(span, at)
                span = self.unescape(at)
                if span < 0:
                    return span
                at += self.escape_size + 1
            else:
                at += 1
        self.end_text(span, at)
        at = self.skip_blanks(at + size)
        c = byte(self.reader.data, at, end)
        if at >= end or c in (NEWLINE, RETURN):
            return self.end_column(at)
        if not is_character(self.reader.data, at, end, self.delimiter, self.delimiter_size):
            return self.reader.fail(at, AFTER_QUOTE)
        return self.end_column(at)

    def keep(self, start: int, stop: int) -> int:
        """Append a part of the message to the unescaped text."""
        if not self.is_unescaped:
            self.is_unescaped = True
            self.unescaped_start = self.buffer.size
        return append(self.buffer, self.reader.data, start, stop)

    def unescape(self, at: int) -> int:
        """Parse the escape sequence at an offset.

        Return the offset from which on the message is text again: that of the escaped character, if it means itself.
        """
        after = at + self.escape_size
        if after >= self.reader.end:
            return self.reader.fail(at, OPEN_ESCAPE)
        c = byte(self.reader.data, after, self.reader.end)
        if c == LOWER_N:
            self.buffer.put(NEWLINE)
        elif c == LOWER_R:
            self.buffer.put(RETURN)
        elif c == LOWER_T:
            self.buffer.put(TAB)
        elif c == DIGIT_0:
            self.buffer.put(0)
        else:
            return after
        return after + 1

    def end_text(self, span: int, stop: int) -> int:
        """End the column's text, whose last part begins at `span`."""
        if self.is_unescaped:
            append(self.buffer, self.reader.data, span, stop)
            self.start = self.unescaped_start
            self.stop = self.buffer.size
        else:
            self.stop = stop
        return 0

    def open_unescaped(self) -> int:
        """Make `unescaped` read the unescaped texts of all records."""
        if len(self.unescaped.data) != len(self.buffer.view):
            self.unescaped.open(self.buffer.view)
        self.unescaped.has_surrogates = self.reader.has_surrogates
        return self.unescaped.start_message(0, self.buffer.size)

    def start_block(self) -> int:
        """Forget all records."""
        self.record = 0
        self.buffer.size = 0
        return 0

    def release(self) -> int:
        """Free the memory of a large unescaped text."""
        if len(self.buffer.view) > KEPT:
            self.unescaped.open(memoryview(b""))
            self.buffer = Bytes(256)
        return 0

    def is_blank(self) -> bool:
        """Return whether the text of the column has only blanks."""
        for i in range(self.start, self.stop):
            c = self.buffer.view[i] if self.is_unescaped else byte(self.reader.data, i, self.reader.end)
            if c > SPACE:
                return False
        return True
