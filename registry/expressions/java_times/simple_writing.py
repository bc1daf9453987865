"""The pattern language of `java.text.SimpleDateFormat`, and how it writes an instant in a zone.

    compiled("dd.MM.yyyy").text(0, "UTC", 0)     '01.01.1970'

Flink uses it for FROM_UNIXTIME, UNIX_TIMESTAMP, TO_DATE, CONVERT_TZ and DATE_FORMAT of a text. Dates before 1582-10-15
are those of the Julian calendar. `simple_parsing.py` reads texts.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from kvformat.registry.expressions.java_times import english_times as english
from kvformat.registry.expressions.java_times.hybrid_calendar import HybridDate, hybrid_date
from kvformat.registry.expressions.java_times.zone_names import short_zone_name
from kvformat.registry.expressions.rows import RowError
from kvformat.registry.java.zones import Zone, util_offset_of_moment

LETTERS = "GyMdkHmsSEDFwWahKzZYuXL"
_MOST_ISO_LETTERS = 3
"""Letters X, Java's limit."""
DAY_MILLIS = 86_400_000


class SimplePatternError(ValueError):
    """A pattern that Java refuses; the text says why."""


@dataclass(frozen=True, slots=True)
class SimpleField:
    """A letter of the pattern with the number of times that it is repeated."""

    letter: str
    count: int


Element = SimpleField | str
"""A field or a literal text."""


@dataclass(frozen=True, slots=True)
class SimpleDateFormat:
    """A compiled pattern."""

    elements: tuple[Element, ...]

    def text(self, millis: int, zone_name: str, zone: Zone) -> str:
        """Return an instant, in milliseconds since 1970, as a text. Raises `RowError` for a name that is not known."""
        offset = util_offset_of_moment(zone, millis * 1000) * 1000
        days, of_day = divmod(millis + offset, DAY_MILLIS)
        moment = _Moment(hybrid_date(days), of_day, offset, millis, zone_name, zone)
        return "".join([e if isinstance(e, str) else _written(e, moment) for e in self.elements])


@functools.lru_cache(maxsize=256)
def compiled(pattern: str) -> SimpleDateFormat:
    """Return a compiled pattern. Raises `SimplePatternError` as `new SimpleDateFormat(pattern)`."""
    elements: list[Element] = []
    at, quoted = 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "'":
            if pattern[at + 1 : at + 2] == "'":
                elements.append("'")
                at += 1
            else:
                quoted = not quoted
            at += 1
            continue
        if quoted or not (char.isascii() and char.isalpha()):
            elements.append(char)
            at += 1
            continue
        if char not in LETTERS:
            raise SimplePatternError(f"Java's SimpleDateFormat does not know the letter {char}")
        count = len(pattern[at:]) - len(pattern[at:].lstrip(char))
        if char == "X" and count > _MOST_ISO_LETTERS:
            raise SimplePatternError(f"Java's SimpleDateFormat allows at most {_MOST_ISO_LETTERS} letters X")
        elements.append(SimpleField(char, count))
        at += count
    if quoted:
        raise SimplePatternError("a quote is not closed")
    return SimpleDateFormat(_merged(elements))


def _merged(elements: list[Element]) -> tuple[Element, ...]:
    """Join literals that follow each other."""
    merged: list[Element] = []
    for element in elements:
        if isinstance(element, str) and merged and isinstance(merged[-1], str):
            merged[-1] += element
        else:
            merged.append(element)
    return tuple(merged)


# --- writing -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Moment:
    date: HybridDate
    millis_of_day: int
    offset: int
    millis: int
    zone_name: str
    zone: Zone


def _written(field: SimpleField, moment: _Moment) -> str:
    """Return a field as a text (`SimpleDateFormat.subFormat`)."""
    letter, count = field.letter, field.count
    if letter in "yY":
        return _year(field, moment.date)
    if letter in "ML" and count > 2:
        return (english.MONTHS if count > 3 else english.SHORT_MONTHS)[moment.date.month - 1]
    if letter == "E":
        return (english.WEEKDAYS if count > 3 else english.SHORT_WEEKDAYS)[_iso_weekday(moment.date) - 1]
    if letter == "G":
        return english.ERAS[moment.date.era]
    if letter == "a":
        return english.HALF_DAYS[moment.millis_of_day // (DAY_MILLIS // 2)]
    if letter in "zZX":
        return _zone(field, moment)
    return str(_number(letter, moment)).zfill(count)


def _year(field: SimpleField, date: HybridDate) -> str:
    year = date.year_of_era
    if field.letter == "Y":
        if not date.era:
            raise RowError("the letter Y is not supported for a year before 1")
        year = date.week_year
    return f"{year % 100:02d}" if field.count == 2 else str(year).zfill(field.count)


def _iso_weekday(date: HybridDate) -> int:
    return (date.weekday + 5) % 7 + 1


def _number(letter: str, moment: _Moment) -> int:
    date, seconds = moment.date, moment.millis_of_day // 1000
    hour = seconds // 3600
    match letter:
        case "M" | "L":
            return date.month
        case "d":
            return date.day
        case "H":
            return hour
        case "k":
            return hour or 24
        case "K":
            return hour % 12
        case "h":
            return hour % 12 or 12
        case "m":
            return seconds // 60 % 60
        case "s":
            return seconds % 60
        case "S":
            return moment.millis_of_day % 1000
        case "D":
            return date.day_of_year
        case "F":
            return date.weekday_in_month
        case "w":
            return date.week_of_year
        case "W":
            return date.week_of_month
        case _:
            return _iso_weekday(date)


def _zone(field: SimpleField, moment: _Moment) -> str:
    if field.letter == "z":
        return _zone_name(field, moment)
    if field.letter == "X" and not moment.offset:
        return "Z"
    hours, minutes = divmod(abs(moment.offset) // 60_000, 60)
    sign = "-" if moment.offset <= -60_000 else "+"
    if field.letter == "X" and field.count == 1:
        return f"{sign}{hours:02d}"
    return f"{sign}{hours:02d}{':' if field.letter == 'X' and field.count == _MOST_ISO_LETTERS else ''}{minutes:02d}"


def _zone_name(field: SimpleField, moment: _Moment) -> str:
    if field.count > _MOST_ISO_LETTERS:
        raise RowError("the letters zzzz: Java's long names of time zones are not known here")
    return short_zone_name(moment.zone_name, moment.zone, moment.millis * 1000)
