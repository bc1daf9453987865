"""csv: batches of messages with one record each.

The module `csv_records` finds the texts of the records, and the cells of the module `csv` read them into columns. The
module `reader` has the rules for all code of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import FAULT
from kvformat.codecs._kernel.containers import Rows
from kvformat.codecs._kernel.csv import Cell
from kvformat.codecs._kernel.csv_codes import (
    LENGTH_MISMATCH,
    NO_RECORD,
    NOT_ENOUGH_COLUMNS,
    NOT_TEXT,
    TOO_MANY_COLUMNS,
    TOO_MUCH_TEXT,
    UNKNOWN_ENCODING,
)
from kvformat.codecs._kernel.csv_records import CsvTokenizer
from kvformat.codecs._kernel.memory import grown
from kvformat.codecs._kernel.messages import Recoded, TextBatch

if TYPE_CHECKING:
    import cython

    from kvformat.codecs.csv.errors import CsvErrorMessages
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.csv_records import BLOCK
    from kvformat.codecs._kernel.memory import byte


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
        words: CsvErrorMessages,
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
