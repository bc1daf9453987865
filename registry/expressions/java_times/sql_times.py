"""The texts that `java.sql.Timestamp.valueOf` and `java.sql.Date.valueOf` read.

    timestamp_value("2024-03-09 25:00:00")     that of 2024-03-10 01:00:00

Flink's TO_TIMESTAMP with a pattern reads a text like this if the pattern does not fit. The parts of the time may be out
of range. Dates before 1582-10-15 are those of the Julian calendar, with the same year, month and day in the result. The
time zone of the Java process is taken to be UTC, so that it has no gaps.
"""

from __future__ import annotations

from kvformat.registry.expressions.java_times.formatter_resolving import InvalidDate
from kvformat.registry.expressions.java_times.hybrid_calendar import days_of_fields, hybrid_date
from kvformat.registry.expressions.local_times import days_of, month_length

_DAY_SECONDS = 86_400
_INTS = 2**31
_YEAR_LENGTH = 4
_JAVA_BLANKS = "".join(map(chr, range(33)))
"""What `String.trim` removes."""


def value_of(text: str) -> tuple[int, int] | None:
    """Return days since 1970 and nanoseconds of a text; None if Java does not read it. Raises `InvalidDate`."""
    text = text.strip(_JAVA_BLANKS)
    date, blank, time = text.partition(" ")
    if not blank:
        return _local(_date(text), 0, 0)
    parsed = _time(time)
    return None if parsed is None else _local(_date(date), *parsed)


def _date(text: str) -> tuple[int, int, int] | None:
    """Return year, month and day of `yyyy-[m]m-[d]d`."""
    first = text.find("-")
    second = text.find("-", first + 1)
    if first != _YEAR_LENGTH or not 1 < second - first <= 3 or not 1 < len(text) - second <= 3:
        return None
    year, month, day = _int(text[:first]), _int(text[first + 1 : second]), _int(text[second + 1 :])
    if year is None or month is None or day is None or not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return year, month, day


def _time(text: str) -> tuple[int, int] | None:
    """Return seconds and nanoseconds of `h:m:s[.f...]`."""
    hour, _, rest = text.partition(":")
    minute, colon, rest = rest.partition(":")
    if not colon or not rest:
        return None
    second, point, fraction = rest.partition(".")
    parts = [_int(part) for part in (hour, minute, second)]
    nanos = _int(fraction) if point else 0
    if None in parts or nanos is None or len(fraction) > 9 or (point and not fraction[:1].isdecimal()):
        return None
    seconds = sum((part or 0) * unit for part, unit in zip(parts, (3600, 60, 1), strict=True))
    return seconds, nanos * 10 ** (9 - len(fraction)) if point else 0


def _int(text: str) -> int | None:
    """Return an int as `Integer.parseInt`."""
    figures = text[1:] if text[:1] in ("+", "-") else text
    if not figures.isdecimal() or len(figures) > 20:
        return None
    number = int(text)
    return number if -_INTS <= number < _INTS else None


def _local(date: tuple[int, int, int] | None, seconds: int, nanos: int) -> tuple[int, int] | None:
    if date is None:
        return None
    extra, of_day = divmod(seconds, _DAY_SECONDS)
    year, month, day = date
    resolved = hybrid_date(days_of_fields({"YEAR": year, "MONTH": month - 1, "DAY_OF_MONTH": day}, extra))
    if resolved.day > month_length(resolved.year_of_era, resolved.month):
        raise InvalidDate
    return days_of(resolved.year_of_era, resolved.month, resolved.day), of_day * 1_000_000_000 + nanos
