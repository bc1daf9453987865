"""Dates and times as numbers: between texts and numbers, and between instants and local times.

A date is days since 1970, a time milliseconds of the day, a timestamp microseconds since 1970. Zones are those of
`registry.java.zones`. Rules: Flink's `DateTimeUtils`.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable

import numpy as np

from kvformat.registry.expressions.rows import RowError
from kvformat.registry.expressions.vectors import Numbers
from kvformat.registry.java import zones

DAY_MILLIS = 86_400_000
DAY_MICROS = DAY_MILLIS * 1000
_SECOND = 1_000_000
_DAYS_BEFORE_1970 = 719_162  # of 0001-01-01; `date.toordinal` counts it as 1
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
_TIMESTAMP = re.compile(
    r"([0-9]{4}|\+[0-9]{5,19})-([0-9]{0,21})-([0-9]{0,21})"
    r"(?: ([0-9]{0,21}):([0-9]{0,21}):([0-9]{0,21})(?:\.([0-9]{0,9}))?)?"
)
_MONTH_LENGTHS = np.array((0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), np.int64)
_MOST_INT = 2**31 - 1
"""Java's Integer.MAX_VALUE."""
_MOST_YEAR = 999_999_999
"""The last year of java.time."""
_MOST_SPAN = 100_000
"""Days between two instants for which offsets are looked up day by day; more would need too much memory."""
_DAY_NANOS = DAY_MICROS * 1000
MOST_MICROS = 2**63 - 1
"""The last timestamp that is supported, in the year 294,247."""
_JAVA_BLANKS = "".join(map(chr, range(33)))
"""What `String.trim` removes."""


# --- the calendar --------------------------------------------------------------------------------------------


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date of the proleptic Gregorian calendar, of any year.

    Raises `ValueError` for a date that does not exist.
    """
    cycles, of_cycle = divmod(year - 1, _CYCLE_YEARS)
    return dt.date(of_cycle + 1, month, day).toordinal() - 1 - _DAYS_BEFORE_1970 + cycles * _CYCLE_DAYS


def date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day."""
    cycles, of_cycle = divmod(days + _DAYS_BEFORE_1970, _CYCLE_DAYS)
    day = dt.date.fromordinal(of_cycle + 1)
    return day.year + cycles * _CYCLE_YEARS, day.month, day.day


def month_length(year: int, month: int) -> int:
    """Return the days of a month."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def dates_of(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return years, months and days of many dates."""
    shifted = days.astype(np.int64) + 719_468  # days since 0000-03-01
    era = shifted // _CYCLE_DAYS
    of_era = shifted - era * _CYCLE_DAYS
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = np.where(month < 10, month + 3, month - 9)
    return year + era * _CYCLE_YEARS + (month <= 2), month, day


def days_of_dates(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """Return the days since 1970 of many dates, the opposite of `dates_of`."""
    shifted = year - (month <= 2)
    era = shifted // _CYCLE_YEARS
    of_era = shifted - era * _CYCLE_YEARS
    of_year: Numbers = (153 * np.where(month > 2, month - 3, month + 9) + 2) // 5 + day - 1
    days: Numbers = era * _CYCLE_DAYS + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return days


def month_lengths(year: Numbers, month: Numbers) -> Numbers:
    """Return the days of many months."""
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths: Numbers = _MONTH_LENGTHS[month] + (is_leap & (month == 2))
    return lengths


# --- zones ---------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def session_zone(name: str) -> zones.Zone:
    """Return the zone of a session, by Spark's or Flink's name of it."""
    return zones.zone_named(name)


@functools.lru_cache(maxsize=8192)
def local_of_instant(zone: str, micros: int) -> int:
    """Return the local time of an instant."""
    return micros + zones.offset_of_moment(session_zone(zone), micros) * _SECOND


@functools.lru_cache(maxsize=8192)
def instant_of_local(zone: str, micros: int) -> int:
    """Return the instant of a local time; of two the earlier one, and in a gap the time after it."""
    return micros - zones.offset_of_local(session_zone(zone), micros) * _SECOND


def locals_of_instants(zone: str, micros: Numbers) -> Numbers:
    """Return the local times of instants."""
    return micros + offsets_of(zone, micros, "moment")


def instants_of_locals(zone: str, micros: Numbers) -> Numbers:
    """Return the instants of local times."""
    return micros - offsets_of(zone, micros, "local")


_LOOKUPS: dict[str, Callable[[zones.Zone, int], int]] = {
    "moment": zones.offset_of_moment,
    "local": zones.offset_of_local,
    "util moment": zones.util_offset_of_moment,
    "util local": zones.util_offset_of_local,
}


def offsets_of(zone: str | zones.Zone, micros: Numbers, lookup: str) -> Numbers:
    """Return the offsets of instants or local times, in microseconds.

    lookup: `moment` or `local` by the rules of java.time, `util moment` or `util local` by those of java.util.
    Most days have a single offset, so that it is looked up once for a day.
    """
    session = session_zone(zone) if isinstance(zone, str) else zone
    if isinstance(session, int):
        return np.full(len(micros), session * _SECOND, np.int64)
    days, of_day = _distinct(micros // DAY_MICROS)
    per_day = [_day_offset(session, day, lookup) for day in days.tolist()]
    offsets = np.array([0 if offset is None else offset * _SECOND for offset in per_day], np.int64)[of_day]
    if None in per_day:
        changes = np.array([offset is None for offset in per_day], np.bool_)[of_day]
        for i in np.flatnonzero(changes).tolist():
            offsets[i] = _LOOKUPS[lookup](session, int(micros[i])) * _SECOND
    return offsets


def _distinct(days: Numbers) -> tuple[Numbers, Numbers]:
    """Return the distinct days, and for each day its index among them."""
    if not len(days):
        return days, days
    first, span = days.min(), int(days.max()) - int(days.min()) + 1
    if span > _MOST_SPAN:
        return np.unique(days, return_inverse=True)
    present = np.zeros(span, np.bool_)
    present[days - first] = True
    index: Numbers = np.cumsum(present) - 1
    return np.flatnonzero(present) + first, index[days - first]


@functools.lru_cache(maxsize=65536)
def _day_offset(zone: zones.Zone, day: int, lookup: str) -> int | None:
    """Return the offset of a whole day, None if it changes."""
    offset_at = _LOOKUPS[lookup]
    # local times have the offset of their instant, at most a day away
    offset = offset_at(zone, (day - 1) * DAY_MICROS)
    same = all(offset == offset_at(zone, (day + more) * DAY_MICROS) for more in (0, 1, 2))
    return offset if same else None


# --- to texts ------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8192)
def date_text(days: int) -> str:
    """Format a date as `yyyy-MM-dd`; of a year above 9999 the last four digits, as in Flink."""
    year, month, day = date_of(days)
    return f"{year % 10_000:04d}-{month:02d}-{day:02d}"


def time_text(millis: int, digits: int) -> str:
    """Format a time of the day; of the fraction at least one digit, and no zeros at its end."""
    seconds, rest = divmod(millis, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02d}:{minute:02d}:{second:02d}"
    if digits:
        text += f".{f'{rest:03d}'[:digits].rstrip('0') or '0'}"
    return text


def timestamp_text(micros: int, precision: int) -> str:
    """Format a local time with exactly `precision` digits of a second."""
    days, of_day = divmod(micros, DAY_MICROS)
    seconds, rest = divmod(of_day, _SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{date_text(days)} {hour:02d}:{minute:02d}:{second:02d}"
    if precision:
        text += f".{f'{rest:06d}'.ljust(9, '0')[:precision]}"
    return text


# --- from texts ----------------------------------------------------------------------------------------------


def parse_date(text: str) -> int:
    """Parse a date as CAST does: `2024-3-9`, `2024-3`, `2024`, a text after a blank is ignored."""
    day = date_of_text(text)
    if day is None:
        raise RowError(f"'{text:.60}' is not a date")
    return day


@functools.lru_cache(maxsize=8192)
def date_of_text(text: str) -> int | None:
    """Return the date of a text, None if it is none (`DateTimeUtils.parseDate`).

    Raises `RowError` for a number that is too large, as Java's `parseInt`.
    """
    space = text.find(" ")
    parts = []
    for part in (text[:space] if space > 0 else text).split("-", 2):
        number = _whole(part)
        if number is None:
            return None
        parts.append(number)
    year, month, day = (*parts, 1, 1)[:3]
    if year <= 9999 and 1 <= month <= 12 and 1 <= day <= month_length(year, month):
        return days_of(year, month, day)
    return None


def parse_time(text: str) -> int:
    """Parse a time of the day as CAST does, to milliseconds: `12:34:56.789`, `12:34`, `12`, maybe with an offset."""
    millis = _time_of_text(text)
    if millis is None:
        raise RowError(f"'{text:.60}' is not a time")
    if not 0 <= millis < DAY_MILLIS:
        raise RowError(f"'{text:.60}' is not within a day")
    return millis


def _time_of_text(text: str) -> int | None:
    """Return the milliseconds of a text (`DateTimeUtils.parseTime`), None if it is not a time."""
    end = next((at for sign in "-+" if (at := text.find(sign)) >= 0), len(text))
    offset = [_whole(part) for part in text[end + 1 :].split(":", 1)] if end < len(text) else [0]
    # Java looks for colons and the point in the whole text, so that those of the offset count, too
    first = text.find(":")
    second = text.find(":", first + 1) if first >= 0 else -1
    point = text.find(".", second) if second >= 0 else -1
    stops = [stop for stop in (first, second, point) if stop >= 0]
    starts = [0, *(stop + 1 for stop in stops)]
    pieces = [text[start:stop] for start, stop in zip(starts, [*stops, end], strict=True)]
    fraction = pieces.pop().strip(_JAVA_BLANKS) if point >= 0 else ""
    parts = [_whole(piece) for piece in pieces]
    if None in parts or None in offset:
        return None
    hour, minute, second = (*(part or 0 for part in parts), 0, 0)[:3]
    if hour > 23 or minute > 59 or second > 59:
        return None
    sign = -1 if text[end : end + 1] == "-" else 1
    millis = ((hour * 60 + minute) * 60 + second) * 1000 + _rounded_millis(fraction)
    return millis + sum(sign * (part or 0) * unit for part, unit in zip(offset, (3_600_000, 60_000), strict=False))


def _whole(text: str) -> int | None:
    """Return a number of ASCII digits between blanks, None for another text. Raises `RowError` if it is too large."""
    stripped = text.strip(_JAVA_BLANKS)
    if not (stripped.isascii() and stripped.isdigit()):
        return None
    if len(stripped.lstrip("0")) > len(str(_MOST_INT)) or int(stripped) > _MOST_INT:
        raise RowError(f"'{text:.60}' is too large a number")
    return int(stripped)


def _rounded_millis(fraction: str) -> int:
    """Return the milliseconds of a fraction, rounded half up; a character that is not a digit counts as 0."""
    figures = [int(c) if c in "0123456789" else 0 for c in fraction[:3].ljust(3, "0")]
    return figures[0] * 100 + figures[1] * 10 + figures[2] + (len(fraction) > 3 and fraction[3] >= "5")


@functools.lru_cache(maxsize=8192)
def parse_timestamp(text: str, precision: int) -> int:
    """Parse a local time as CAST does, to microseconds; digits of a second after the precision are dropped.

    Flink's pattern is `yyyy-[MM][M]-[dd][d][ [HH][H]:[mm][m]:[ss][s][.fraction]]` of `java.time`, where every number
    may be missing but the year. Years that microseconds can't represent fail, too.
    """
    match = _TIMESTAMP.fullmatch(text)
    parsed = _nanos_of_match(match) if match else None
    if parsed is not None:
        unit: int = 10 ** (9 - min(precision, 6))
        micros = parsed // unit * unit // 1000
        if abs(micros) <= MOST_MICROS:
            return micros
    raise RowError(f"'{text:.60}' is not a timestamp")


def _doubled_number(text: str | None) -> int | None:
    """Return a number of one or two digits, None if there are none, -1 if there are others.

    Flink reads it twice, with two digits and then with any number of them. So further digits are right if they are the
    same number again.
    """
    if not text:
        return None
    return int(text[:2]) if len(text) <= 2 or int(text[:2]) == int(text[2:]) else -1


def _nanos_of_match(match: re.Match[str]) -> int | None:
    """Return the timestamp of its parts in nanoseconds, by the rules of Java's SMART; None if one is out of range.

    24:00 is the next day, and a day that a month does not have is its last one, unless parts in between are missing.
    """
    year, (month, day, hour, minute, second) = int(match[1]), map(_doubled_number, match.groups()[1:6])
    nanos = None if match[7] is None else int(match[7].ljust(9, "0"))
    known = (month or 1, day or 1, minute or 0, second or 0)
    if not (1 <= year <= _MOST_YEAR and 0 not in (month, day) and all(map(_in_range, known, (12, 31, 59, 59)))):
        return None
    is_date = month is not None and day is not None
    days = days_of(year, known[0], min(known[1], month_length(year, known[0])))
    has_gap = (minute is None and (second is not None or nanos is not None)) or (second is None and nanos is not None)
    if hour == 24 and not (has_gap or minute or second or nanos):
        return (days + is_date) * _DAY_NANOS
    if not _in_range(hour or 0, 23):
        return None
    return days * _DAY_NANOS + (((hour or 0) * 60 + known[2]) * 60 + known[3]) * 1_000_000_000 + (nanos or 0)


def _in_range(number: int, most: int) -> bool:
    return 0 <= number <= most


# --- literals ------------------------------------------------------------------------------------------------

_DATE_LITERAL = re.compile(r"([0-9]{1,4})-([0-9]{1,2})-([0-9]{1,2})")
_TIME_LITERAL = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]*))?")


def parse_date_literal(text: str) -> int:
    """Parse the text of `DATE '2024-01-02'`. Raises `ValueError`."""
    match = _DATE_LITERAL.fullmatch(text.strip())
    if not match or not int(match[1]):
        raise ValueError
    return days_of(*map(int, match.groups()))


def parse_time_literal(text: str) -> tuple[int, int]:
    """Parse the text of `TIME '12:34:56.7'` to milliseconds and a precision. Raises `ValueError`."""
    match = _TIME_LITERAL.fullmatch(text.strip())
    if not match:
        raise ValueError
    hour, minute, second = (int(part) for part in match.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    fraction = match[4] or ""
    return ((hour * 60 + minute) * 60 + second) * 1000 + int(fraction[:3].ljust(3, "0")), min(len(fraction), 3)


def parse_timestamp_literal(text: str) -> tuple[int, int]:
    """Parse the text of `TIMESTAMP '2024-01-02 12:34:56.7'` to microseconds and a precision. Raises `ValueError`."""
    date, blank, time = text.strip().partition(" ")
    if not blank:
        return parse_date_literal(date) * DAY_MICROS, 0
    millis, _ = parse_time_literal(time.strip())
    fraction = time.partition(".")[2].strip()
    micros = millis // 1000 * 1_000_000 + int(fraction[:6].ljust(6, "0"))
    return parse_date_literal(date) * DAY_MICROS + micros, min(len(fraction), 9)
