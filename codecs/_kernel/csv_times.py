"""csv: cells for dates and times.

The module `csv` has the rules of cells, and the module `reader` those for all code of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvformat.codecs._kernel.columns import Int64Column
from kvformat.codecs._kernel.csv import WordCell
from kvformat.codecs._kernel.csv_records import CsvTokenizer
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.time_forms import TimeForms

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.columns import add_integer, add_null_integer
    from kvformat.codecs._kernel.csv import is_plain
    from kvformat.codecs._kernel.memory import SPACE, UPPER_Z, byte
    from kvformat.codecs._kernel.time_forms import NO_MOMENT
    from kvformat.codecs._kernel.times import MICROS_OF_A_DAY, NO_TIME, days_of, micros_of_day


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
