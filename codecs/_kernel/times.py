"""Columns of dates and times.

They read the forms that most producers write: `2024-02-29`, `23:59:59.123`, `2024-02-29 23:59:59.123456`,
`2024-02-29T23:59:59Z`. `convert` reads the other forms that Java accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.columns import Int64Column
from kvformat.codecs._kernel.reader import Reader

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.columns import TENS
    from kvformat.codecs._kernel.memory import DIGIT_0, DIGIT_9, MINUS, POINT, QUOTE, UPPER_Z, byte, few_digits, word

HIGHS = 0x8080808080808080
NO_DIGITS = 0xFFFFFFFFFFFFFFFF
DATE = int.from_bytes(b"0000-00-", "little")
DATE_LIMITS = int.from_bytes(b"\x76\x76\x76\x76\x7f\x76\x76\x7f", "little")
MONTH_DAY = int.from_bytes(b"00-00-00", "little")
MONTH_DAY_LIMITS = int.from_bytes(b"\x76\x76\x7f\x76\x76\x7f\x76\x76", "little")
TIME = int.from_bytes(b"00:00:00", "little")
TIME_LIMITS = MONTH_DAY_LIMITS
"""Patterns of eight characters as little-endian words, and their limits for `digits_of`."""
NO_TIME = -(10**15)
"""The result for a text in another form. It is neither a day nor a microsecond of a day."""
MICROS_OF_A_DAY = 86_400_000_000
FIRST_DAY = -719_162
"""0001-01-01. Java's formatters with a year of era reject earlier days."""


def digits_of(characters: int, pattern: int, limits: int) -> int:
    """Compare eight characters with a pattern whose zeros stand for digits.

    Return one byte per character: the number of the two digits that begin there (`two`). Return `NO_DIGITS` if the
    characters do not match. Adding `limits` sets the high bit of each byte that is too large: above 9, or above 0.
    """
    rest = characters ^ pattern
    return NO_DIGITS if (rest + limits | rest) & HIGHS else rest * 10 + (rest >> 8)


def two(digits: int, place: int) -> int:
    """Return the two digits at index `place` of a result of `digits_of` as a number."""
    return digits >> 8 * place & 255


def days_of(r: Reader, at: int, end: int) -> int:
    """Parse ten characters as a date, `2024-02-29`. Return days since 1970, or `NO_TIME`."""
    if at + 10 > end:
        return NO_TIME
    digits = digits_of(word(r.data, at), DATE, DATE_LIMITS)
    last_two = digits_of(word(r.data, at + 2), MONTH_DAY, MONTH_DAY_LIMITS)
    if digits == NO_DIGITS or last_two == NO_DIGITS:
        return NO_TIME
    year = two(digits, 0) * 100 + two(digits, 2)
    return day_number(year, two(digits, 5), two(last_two, 6))


def day_number(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date, or `NO_TIME` if there is no such day. The year is not negative."""
    if month < 1 or month > 12 or day < 1:
        return NO_TIME
    if day > 28:
        if month == 2:
            last = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
        else:
            last = 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31
        if day > last:
            return NO_TIME
    # The year begins in March, so the leap day is its last day. It is 400 years later, so no number is negative.
    year += 399 if month <= 2 else 400
    month = month + 9 if month <= 2 else month - 3
    days = year * 365 + year // 4 - year // 100 + year // 400
    return days + (month * 153 + 2) // 5 + day - 719469 - 146097


def seconds_of_day(r: Reader, at: int, stop: int) -> int:
    """Parse eight characters as a time, `23:59:59`. Return seconds, or `NO_TIME`."""
    if at + 8 > stop:
        return NO_TIME
    digits = digits_of(word(r.data, at), TIME, TIME_LIMITS)
    if digits == NO_DIGITS:
        return NO_TIME
    hour, minute, second = two(digits, 0), two(digits, 3), two(digits, 6)
    if hour > 23 or minute > 59 or second > 59:
        return NO_TIME
    return (hour * 60 + minute) * 60 + second


def micros_of_day(r: Reader, at: int, stop: int) -> int:
    """Parse `r.data[at:stop]` as a time, `23:59:59` or `23:59:59.123456789`. Return microseconds, or `NO_TIME`."""
    seconds = seconds_of_day(r, at, stop)
    if seconds == NO_TIME:
        return NO_TIME
    micros = seconds * 1_000_000
    at += 8
    if at == stop:
        return micros
    if byte(r.data, at, stop) != POINT or not 2 <= stop - at <= 10:
        return NO_TIME
    at += 1
    count = stop - at
    if count > 6:
        if few_digits(word(r.data, at + 6), count - 6) < 0:
            return NO_TIME
        count = 6
    fraction = few_digits(word(r.data, at), count)
    return NO_TIME if fraction < 0 else micros + fraction * TENS[6 - count]


class Moments(Int64Column):
    """Dates and times. A number is stored times `factor`; it is left to `convert` if that is 0."""

    def __init__(self, type: Any, kind: pa.DataType, convert: Callable[[Any], Any], stored: Any, factor: int) -> None:
        super().__init__(type, kind, convert, stored)
        self.factor = factor
        self.most = (2 ** (8 * np.dtype(stored).itemsize - 1) - 1) // factor if factor else 0

    def read_number(self, r: Reader, at: int) -> int:
        """Read a value that is not a text."""
        c = byte(r.data, at, r.end)
        if not self.factor or (c != MINUS and not DIGIT_0 <= c <= DIGIT_9):
            return self.read_uncommon(r, at)
        end = r.number(at)
        if end < 0:
            return end
        if not r.whole or r.digit_count > 18 or r.mantissa > self.most:
            return self.read_slow(r, at)
        size: int = r.mantissa
        if r.negative:
            size = -size
        return self.add_value(size * self.factor, end)


class Dates(Moments):
    """DATE, in days."""

    def __init__(self, type: Any, kind: pa.DataType, convert: Callable[[Any], Any], factor: int = 0) -> None:
        super().__init__(type, kind, convert, np.int32, factor)

    def read_value(self, r: Reader, at: int) -> int:
        if byte(r.data, at, r.end) != QUOTE:
            return self.read_number(r, at)
        end = r.string(at)
        if end < 0:
            return end
        days = days_of(r, at + 1, r.end) if end - at == 12 else NO_TIME
        if days == NO_TIME:
            return self.read_slow(r, at)
        return self.add_value(days, end)


class Times(Moments):
    """TIME, in nanoseconds, cut to milliseconds as in Flink."""

    def __init__(self, type: Any, kind: pa.DataType, convert: Callable[[Any], Any], factor: int = 0) -> None:
        super().__init__(type, kind, convert, np.int64, factor)

    def read_value(self, r: Reader, at: int) -> int:
        if byte(r.data, at, r.end) != QUOTE:
            return self.read_number(r, at)
        end = r.string(at)
        if end < 0:
            return end
        micros = micros_of_day(r, at + 1, end - 1)
        if micros == NO_TIME:
            return self.read_slow(r, at)
        return self.add_value(micros // 1000 * 1_000_000, end)


class Timestamps(Moments):
    """TIMESTAMP and TIMESTAMP_LTZ (`zoned`), in microseconds. With `iso` a T separates date and time, else a blank.

    Values are cut to a multiple of `unit` microseconds. If `width` is not 0, this class reads only texts of `width`
    characters and leaves the others to `convert`.
    """

    def __init__(
        self,
        type: Any,
        kind: pa.DataType,
        convert: Callable[[Any], Any],
        *,
        iso: bool,
        zoned: bool,
        unit: int = 1,
        width: int = 0,
        factor: int = 0,
    ) -> None:
        super().__init__(type, kind, convert, np.int64, factor)
        self.between, self.zoned = ord("T" if iso else " "), zoned
        self.unit, self.width = unit, width

    def read_value(self, r: Reader, at: int) -> int:
        if byte(r.data, at, r.end) != QUOTE:
            return self.read_number(r, at)
        end = r.string(at)
        if end < 0:
            return end
        stop = end - 1
        if self.zoned:
            stop -= 1
            if byte(r.data, stop, r.end) != UPPER_Z:
                return self.read_slow(r, at)
        days = days_of(r, at + 1, r.end)
        micros = micros_of_day(r, at + 12, stop)
        if days == NO_TIME or micros == NO_TIME or byte(r.data, at + 11, r.end) != self.between:
            return self.read_slow(r, at)
        if (self.width and end - at != self.width + 2) or (self.unit > 1 and days < FIRST_DAY):
            return self.read_slow(r, at)
        return self.add_value(days * MICROS_OF_A_DAY + micros // self.unit * self.unit, end)
