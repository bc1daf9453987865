r"""csv: a tokenizer of records, and batches of messages with one record each.

    1,"a ""b"", c",x      the columns: 1    a "b", c    x

The tokenizer finds the text of one column after the other. A quote opens a quoted column only as its first character.
Blanks may follow the closing quote. An escape character escapes the next character; `n`, `r`, `t` and `0` become
control characters. A line break ends the record, and the rest of the message is not read. The cells in `csv_cells`
convert the texts and fill the columns. The module `reader` has the rules for all code of this package.

Rules: Jackson's `CsvDecoder` and `CsvParser`. They work on UTF-16 units, the tokenizer works on UTF-8. All special
characters are single units, and in UTF-8 no character is a part of another, so both find the same columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from kvformat.codecs._kernel.codes import BAD, FAULT
from kvformat.codecs._kernel.containers import Rows
from kvformat.codecs._kernel.csv_cells import Cell, Special
from kvformat.codecs._kernel.csv_codes import (
    AFTER_QUOTE,
    LENGTH_MISMATCH,
    NO_RECORD,
    NOT_ENOUGH_COLUMNS,
    NOT_TEXT,
    OPEN_ESCAPE,
    OPEN_QUOTE,
    TOO_MANY_COLUMNS,
    TOO_MUCH_TEXT,
    UNKNOWN_ENCODING,
)
from kvformat.codecs._kernel.memory import Bytes
from kvformat.codecs._kernel.messages import Recoded, Said, TextBatch
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
        next_of_two,
    )

_ABSENT = b"\xff"
"""In place of a character that the settings don't have. UTF-8 never contains this byte."""


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


class RecordReader:
    """Tokenizer of the record in the current message of `reader`.

    After `read_column` the column's text is `data[start:stop]` of `reader`, or of `unescaped` if `is_unescaped`. Then
    `has_more` says whether another column follows. The special characters are UTF-8. `comments` and `trim` are those
    of `ReadSettings`.
    """

    def __init__(
        self, reader: Reader, *, delimiter: bytes, quote: bytes | None, escape: bytes | None, comments: bool, trim: bool
    ) -> None:
        self.reader, self.unescaped, self.buffer = reader, Reader(), Bytes(256)
        self.delimiter, self.quote = Special(delimiter), Special(quote or _ABSENT)
        self.inner_escape = Special(escape or _ABSENT)
        # without quotes, a delimiter that is also the escape character is a delimiter
        self.escape = Special(escape if escape and escape != delimiter else _ABSENT)
        self.comments, self.trim = comments, trim
        self.start = self.stop = 0
        self.has_more = self.is_unescaped = False

    def record_start(self, at: int) -> int:
        """Return the offset of the next record: after comments and empty lines, if they are allowed."""
        if not self.comments:
            return at
        r = self.reader
        while at < r.end:
            c = byte(r.data, at, r.end)
            if c == NUMBER_SIGN:
                while at < r.end and c != NEWLINE and c != RETURN:
                    at += 1
                    c = byte(r.data, at, r.end)
            elif c == SPACE or c == NEWLINE or c == RETURN:
                at += 1
            else:
                break
        return at

    def read_column(self, at: int) -> int:
        """Find the text of the column at an offset. Return the offset after its delimiter or line break, or FAULT."""
        self.is_unescaped = False
        if self.trim:
            at = self.skip_blanks(at)
        c = byte(self.reader.data, at, self.reader.end)
        if c == NEWLINE or c == RETURN:
            self.start = self.stop = at
            return self.end_column(at)
        if c == self.quote.first and self.quote.is_at(self.reader.data, at, self.reader.end):
            return self.read_quoted(at)
        self.start = at
        at = column_end(self.reader.data, at, self.reader.end, self.delimiter.repeated, self.escape.repeated)
        if byte(self.reader.data, at, self.reader.end) == self.delimiter.first and self.delimiter.size == 1:
            self.stop = at
        else:
            at = self.read_unquoted(at)
            if at < 0:
                return at
        if self.trim:
            self.trim_end()
        return self.end_column(at)

    def skip_blanks(self, at: int) -> int:
        """Return the offset after blanks, which are neither delimiters nor line breaks."""
        while at < self.reader.end:
            c = byte(self.reader.data, at, self.reader.end)
            if c > SPACE or c == NEWLINE or c == RETURN or c == self.delimiter.word:
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
        if at >= end:
            self.has_more = False
            return end
        self.has_more = self.delimiter.is_at(self.reader.data, at, end)
        if self.has_more:
            return at + self.delimiter.size
        if byte(self.reader.data, at, end) == RETURN and byte(self.reader.data, at + 1, end) == NEWLINE:
            return at + 2
        return at + 1

    def read_unquoted(self, at: int) -> int:
        """Find the end of the column without quotes at `start`. The offset is that of its first special byte."""
        end = self.reader.end
        span = self.start
        while at < end:
            c = byte(self.reader.data, at, end)
            if self.escape.is_at(self.reader.data, at, end):
                self.keep(span, at)
                span = self.unescape(at, self.escape.size)
                if span < 0:
                    return span
                at += self.escape.size + 1
            elif c == NEWLINE or c == RETURN or self.delimiter.is_at(self.reader.data, at, end):
                break
            else:
                at += 1
            at = column_end(self.reader.data, at, end, self.delimiter.repeated, self.escape.repeated)
        self.end_text(span, at)
        return at

    def read_quoted(self, opening: int) -> int:
        """Find the text of the quoted column at an offset. The result is that of `read_column`."""
        end = self.reader.end
        size = self.quote.size
        at = opening + size
        self.start = span = at
        while True:
            at = next_of_two(self.reader.data, at, end, self.quote.repeated, self.inner_escape.repeated)
            if at >= end:
                return self.reader.fail(opening, OPEN_QUOTE)
            if self.quote.is_at(self.reader.data, at, end):
                if not self.quote.is_at(self.reader.data, at + size, end):
                    break
                self.keep(span, at + size)
                at += 2 * size
                span = at
            elif self.inner_escape.is_at(self.reader.data, at, end):
                self.keep(span, at)
                span = self.unescape(at, self.inner_escape.size)
                if span < 0:
                    return span
                at += self.inner_escape.size + 1
            else:
                at += 1
        self.end_text(span, at)
        at = self.skip_blanks(at + size)
        c = byte(self.reader.data, at, end)
        if at < end and c != NEWLINE and c != RETURN and not self.delimiter.is_at(self.reader.data, at, end):
            return self.reader.fail(at, AFTER_QUOTE)
        return self.end_column(at)

    def keep(self, start: int, stop: int) -> int:
        """Append a part of the message to the unescaped text."""
        if not self.is_unescaped:
            self.is_unescaped = True
            self.buffer.size = 0
        return append(self.buffer, self.reader.data, start, stop)

    def unescape(self, at: int, size: int) -> int:
        """Parse the escape sequence at an offset, given the size of the escape character.

        Return the offset from which on the message is text again: that of the escaped character, if it means itself.
        """
        after = at + size
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
            self.start = 0
            self.stop = self.buffer.size
        else:
            self.stop = stop
        return 0

    def open_unescaped(self) -> int:
        """Make `unescaped` read the unescaped text."""
        if len(self.unescaped.data) != len(self.buffer.view):
            self.unescaped.open(self.buffer.view)
        return self.unescaped.start_message(0, self.buffer.size)

    def is_blank(self) -> bool:
        """Return whether the text of the column has only blanks."""
        for i in range(self.start, self.stop):
            c = self.buffer.view[i] if self.is_unescaped else byte(self.reader.data, i, self.reader.end)
            if c > SPACE:
                return False
        return True


class CsvBatch(TextBatch):
    """Reads batches of csv messages, one row per message.

    `cells` fill the columns of `root`. `lenient`, `ignore_trailing_unmappable`, `allow_trailing_comma` and
    `fail_on_missing_columns` are those of `ReadSettings`.
    """

    def __init__(
        self,
        root: Rows,
        cells: list[Cell],
        records: RecordReader,
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
        self.found = 0
        self.bad: Any = None

    def read_batch(self, messages: pa.BinaryArray) -> pa.ListArray:
        """Return the row of each message, in a list."""
        self.root.start(self.capacity(len(messages)))
        self.reader.start_batch(self.root.cells)
        self.run(messages)
        return self.lists(self.root.finish())

    def undo(self, rows: int) -> int:
        return self.root.truncate(rows)

    def recode(self, message: bytes) -> Recoded | None:
        recoded = self.words.recoded(message)
        if recoded is not None:
            # in valid UTF-8 no surrogates are encoded
            text, _ = recoded
            self.reader.open(memoryview(text))
            self.reader.has_surrogates = self.reader.utf8_end(0, len(text)) < len(text)
        return recoded

    def read_recoded(self, message: bytes) -> int:
        found = TextBatch.read_recoded(self, message)
        self.reader.has_surrogates = False
        return found

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
        return self.reject(self.reader.fail(self.reader.begin, UNKNOWN_ENCODING), 0)

    def read_message(self, begin: int, end: int, loose: bool) -> int:
        r = self.reader
        r.start_message(begin, end)
        found = self.read_record(self.records.record_start(begin), loose)
        if found < 0:
            return self.reject(found, self.found)
        self.root.end_row()
        self.rows += 1
        return 1

    def read_record(self, at: int, loose: bool) -> int:
        """Append the row of the record at an offset, without its end. Return FAULT if the message is not a record.

        Return BAD if a column can't take its value; `bad` has the error.
        """
        r = self.reader
        records = self.records
        count = len(self.cells)
        self.found = 0
        result = 0
        if at >= r.end:
            return r.fail(at, NOT_TEXT if loose else NO_RECORD)
        while True:
            at = records.read_column(at)
            if at < 0:
                return at
            if self.found == count:
                return self.read_others(at, result, loose)
            if result == 0:
                cell = cython.cast(Cell, self.cells[self.found])
                if records.is_unescaped:
                    result = self.read_unescaped(cell)
                else:
                    result = cell.read(r, records.start, records.stop)
                if result == BAD:
                    self.bad = self.words.bad_value(cell)
                elif result == FAULT:
                    return r.fail(at, TOO_MUCH_TEXT)
            self.found += 1
            if not records.has_more:
                return self.end_record(at, result, loose)

    def read_unescaped(self, cell: Cell) -> int:
        """Let a cell read the unescaped text."""
        records = self.records
        records.open_unescaped()
        records.unescaped.has_surrogates = self.reader.has_surrogates
        return cell.read(records.unescaped, records.start, records.stop)

    def read_others(self, at: int, result: int, loose: bool) -> int:
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
        return self.end_record(at, result, loose)

    def end_record(self, at: int, result: int, loose: bool) -> int:
        """Check the end of the record, and append nulls for missing columns. Return `result`, or FAULT."""
        r = self.reader
        if loose and self.records.record_start(at) >= r.end:
            return r.fail(at, NOT_TEXT)
        count = len(self.cells)
        if self.found < count:
            if self.fail_on_missing_columns:
                return r.fail(at, NOT_ENOUGH_COLUMNS)
            if not self.lenient:
                return r.fail(at, LENGTH_MISMATCH)
            for number in range(self.found, count):
                cython.cast(Cell, self.cells[number]).column.null()
        return result

    def reject(self, result: int, columns: int) -> int:
        """Add the error of a message, or skip the message. `result` and the result are those of `read_message`."""
        r = self.reader
        if self.lenient and r.code != TOO_MUCH_TEXT:
            self.root.truncate(self.rows)
            return 1
        return self.add_error(self.bad if result == BAD else self.words.fault(r, columns))
