"""Fields of a local date and time, as `java.time` counts them, and the English texts of their values.

A date is given by its days since 1970, a time by its nanoseconds. Weeks begin on Sunday, and the first week of a year
is that of January 1, as in the locale `en`. Rules: `ChronoField`, `IsoFields`, `WeekFields`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from kvformat.registry.expressions.java_times import english_times as english
from kvformat.registry.expressions.java_times.formatter_patterns import Style
from kvformat.registry.expressions.local_times import date_of, days_of

HOUR_NANOS, MINUTE_NANOS, SECOND_NANOS = 3_600_000_000_000, 60_000_000_000, 1_000_000_000
MODIFIED_JULIAN_1970 = 40_587
_MOST_YEAR = 999_999_999
"""The last year of java.time."""
RANGES: dict[str, tuple[int, int]] = {
    "ERA": (0, 1), "YEAR": (-_MOST_YEAR, _MOST_YEAR), "YEAR_OF_ERA": (1, _MOST_YEAR + 1), "MONTH": (1, 12),
    "DAY_OF_MONTH": (1, 31), "DAY_OF_YEAR": (1, 366), "WEEKDAY": (1, 7), "ALIGNED_DAY": (1, 7), "HALF": (0, 1),
    "HOUR": (0, 23), "CLOCK_HOUR": (1, 24), "HOUR_OF_HALF": (0, 11), "CLOCK_HOUR_OF_HALF": (1, 12), "MINUTE": (0, 59),
    "SECOND": (0, 59), "NANO": (0, SECOND_NANOS - 1), "MILLI": (0, 999), "MILLI_OF_DAY": (0, 86_399_999),
    "SECOND_OF_DAY": (0, 86_399), "NANO_OF_DAY": (0, 24 * HOUR_NANOS - 1), "LOCAL_WEEKDAY": (1, 7),
    "WEEK_OF_MONTH": (0, 6), "WEEK_YEAR": (-_MOST_YEAR, _MOST_YEAR),
    "MODIFIED_JULIAN_DAY": (-365_243_219_162 + MODIFIED_JULIAN_1970, 365_241_780_471 + MODIFIED_JULIAN_1970),
}  # fmt: skip
"""The least and the greatest value of each field."""
TIME_FIELDS = frozenset(
    ("HALF", "HOUR", "CLOCK_HOUR", "HOUR_OF_HALF", "CLOCK_HOUR_OF_HALF", "MINUTE", "SECOND", "NANO", "MILLI",
     "MILLI_OF_DAY", "SECOND_OF_DAY", "NANO_OF_DAY")
)  # fmt: skip


# --- of a date -----------------------------------------------------------------------------------------------


def weekday(days: int) -> int:
    """Return 1 for Monday to 7 for Sunday."""
    return (days + 3) % 7 + 1


def local_weekday(days: int) -> int:
    """Return 1 for Sunday to 7 for Saturday."""
    return (days + 4) % 7 + 1


def week_begin(days: int) -> int:
    """Return the Sunday that begins the week of a day."""
    return days - local_weekday(days) + 1


def weeks_of_year(year: int) -> int:
    """Return the number of weeks of a week-based year."""
    return (week_begin(days_of(year + 1, 1, 1)) - week_begin(days_of(year, 1, 1))) // 7


@functools.lru_cache(maxsize=8192)
def date_fields(days: int) -> Mapping[str, int]:
    """Return the fields of a date."""
    year, month, day = date_of(days)
    first = days_of(year, 1, 1)
    in_next = days >= week_begin(days_of(year + 1, 1, 1))
    return {
        "ERA": int(year > 0),
        "YEAR": year,
        "YEAR_OF_ERA": year if year > 0 else 1 - year,
        "QUARTER": (month + 2) // 3,
        "MONTH": month,
        "DAY_OF_MONTH": day,
        "DAY_OF_YEAR": days - first + 1,
        "ALIGNED_DAY": (day - 1) % 7 + 1,
        "WEEKDAY": weekday(days),
        "LOCAL_WEEKDAY": local_weekday(days),
        "WEEK_OF_MONTH": (days - week_begin(days - day + 1)) // 7 + 1,
        "WEEK": 1 if in_next else (days - week_begin(first)) // 7 + 1,
        "WEEK_YEAR": year + in_next,
        "MODIFIED_JULIAN_DAY": days + MODIFIED_JULIAN_1970,
    }


# --- of a time -----------------------------------------------------------------------------------------------

_OF_TIME: dict[str, Callable[[int], int]] = {
    "HALF": lambda nanos: nanos // (12 * HOUR_NANOS),
    "HOUR": lambda nanos: nanos // HOUR_NANOS,
    "CLOCK_HOUR": lambda nanos: nanos // HOUR_NANOS or 24,
    "HOUR_OF_HALF": lambda nanos: nanos // HOUR_NANOS % 12,
    "CLOCK_HOUR_OF_HALF": lambda nanos: nanos // HOUR_NANOS % 12 or 12,
    "MINUTE": lambda nanos: nanos // MINUTE_NANOS % 60,
    "SECOND": lambda nanos: nanos // SECOND_NANOS % 60,
    "NANO": lambda nanos: nanos % SECOND_NANOS,
    "MILLI": lambda nanos: nanos % SECOND_NANOS // 1_000_000,
    "MILLI_OF_DAY": lambda nanos: nanos // 1_000_000,
    "SECOND_OF_DAY": lambda nanos: nanos // SECOND_NANOS,
    "NANO_OF_DAY": lambda nanos: nanos,
}


def value_of(field: str, days: int, nanos: int) -> int:
    """Return the value of a field of a date and a time."""
    of_time = _OF_TIME.get(field)
    return date_fields(days)[field] if of_time is None else of_time(nanos)


def time_value(field: str, nanos: int) -> int:
    """Return the value of a field of a time."""
    return _OF_TIME[field](nanos)


# --- texts ---------------------------------------------------------------------------------------------------


def _from(first: int, names: tuple[str, ...]) -> dict[int, str]:
    return dict(enumerate(names, first))


def _initials(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name[0] for name in names)


_TEXTS: dict[str, tuple[dict[int, str], dict[int, str], dict[int, str]]] = {
    "ERA": (_from(0, english.ERAS), _from(0, english.LONG_ERAS), _from(0, _initials(english.ERAS))),
    "QUARTER": (
        _from(1, english.QUARTERS),
        _from(1, english.LONG_QUARTERS),
        _from(1, _initials(english.LONG_QUARTERS)),
    ),
    "MONTH": (_from(1, english.SHORT_MONTHS), _from(1, english.MONTHS), _from(1, _initials(english.MONTHS))),
    "WEEKDAY": (_from(1, english.SHORT_WEEKDAYS), _from(1, english.WEEKDAYS), _from(1, _initials(english.WEEKDAYS))),
    "HALF": (_from(0, english.HALF_DAYS),) * 3,
}


def texts_of(field: str, style: Style) -> Mapping[int, str]:
    """Return the texts of a field by its values."""
    return _TEXTS[field][style.value]
