"""Read texts as `java.text.SimpleDateFormat` does, in its lenient mode.

    parsed_millis(compiled("dd.MM.yyyy"), "30.02.2024", "UTC", 0, now)     that of 2024-03-01

Numbers may be out of range, texts after the end of the pattern are ignored, and a number has as many digits as there
are unless another number follows it directly. Rules: `SimpleDateFormat.subParse`, `CalendarBuilder.establish`,
`DecimalFormat.parse`.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from dataclasses import dataclass, field

from kvformat.registry.expressions.java_times import english_times as english
from kvformat.registry.expressions.java_times.hybrid_calendar import (
    SUNDAY,
    InvalidEra,
    days_of_fields,
    first_day_of_year,
    hybrid_date,
    sunday_from,
)
from kvformat.registry.expressions.java_times.simple_writing import DAY_MILLIS, SimpleDateFormat, SimpleField
from kvformat.registry.expressions.java_times.zone_names import offset_named, own_names
from kvformat.registry.expressions.local_times import days_of
from kvformat.registry.expressions.rows import RowError
from kvformat.registry.java.zones import Zone, standard_offset_of_local, util_offset_of_local

_NUMERIC = frozenset("dHkmsSDFwWhKYyu")
_FIELDS = {
    "y": "YEAR", "Y": "WEEK_YEAR", "M": "MONTH", "L": "MONTH", "d": "DAY_OF_MONTH", "k": "HOUR_OF_DAY",
    "H": "HOUR_OF_DAY", "m": "MINUTE", "s": "SECOND", "S": "MILLISECOND", "D": "DAY_OF_YEAR", "F": "WEEKDAY_IN_MONTH",
    "w": "WEEK_OF_YEAR", "W": "WEEK_OF_MONTH", "h": "HOUR", "K": "HOUR", "u": "WEEKDAY",
}  # fmt: skip
_MOST_EXPONENT, _MOST_FIGURES = 400, 1000
"""The exponent and the digits of a number; a DOUBLE has fewer."""
_MOST_NAME = 30
"""Characters of the name of a month or day."""
_MOST_MILLIS, _MOST_WEEKS = 10**17, 10**8
"""Milliseconds since 1970 and numbers of weeks, beyond which the row fails: about 3 million years."""
_MIN_LONG = -(2**63)
_LETTERS = re.compile("[A-Za-z]+")
_CENTURY_YEARS = 80


def parsed_millis(pattern: SimpleDateFormat, text: str, zone: Zone, now: int) -> int | None:
    """Return the instant of a text in milliseconds since 1970; None if it can't be parsed.

    now: the current time in microseconds, which decides about the century of a year of two digits. Raises `RowError`
    for the name of a time zone that is not known here.
    """
    reader = _Reader(text, zone, now)
    if not reader.reads(pattern):
        return None
    fields = reader.fields
    try:
        millis = _established(fields, zone)
        if reader.is_ambiguous and millis < _century_start(now):
            fields = {name: value + 100 * (name in ("YEAR", "WEEK_YEAR")) for name, value in fields.items()}
            millis = _established(fields, zone)
    except InvalidEra:
        return None
    if reader.names_zone and millis < 0:
        raise RowError("the letter z: names of time zones are not supported before 1970")
    return millis


def _is_number(element: SimpleField | str) -> bool:
    if isinstance(element, str):
        return False
    return element.letter in _NUMERIC or (element.letter in "ML" and element.count <= 2)


# --- fields --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Reader:
    """Reads fields of a text into `fields`, in which the field that was set last is the last one."""

    text: str
    zone: Zone
    now: int
    fields: dict[str, int] = field(default_factory=dict)
    is_ambiguous: bool = False
    names_zone: bool = False

    def reads(self, pattern: SimpleDateFormat) -> bool:
        """Return whether the text begins with what the pattern says, but is not empty."""
        at = 0
        for index, element in enumerate(pattern.elements):
            if isinstance(element, str):
                if not self.text.startswith(element, at):
                    return False
                at += len(element)
                continue
            obeys = index + 1 < len(pattern.elements) and _is_number(pattern.elements[index + 1])
            end = self.read(element, at, obeys_count=obeys)
            if end is None:
                return False
            at = end
        return at > 0

    def set(self, name: str, value: int) -> None:
        self.fields.pop(name, None)
        self.fields[name] = value

    def read(self, element: SimpleField, start: int, *, obeys_count: bool) -> int | None:
        """Read a field and return the offset after it, None if there is no such field."""
        text, letter, count = self.text, element.letter, element.count
        at = start
        while text[at : at + 1] in (" ", "\t") and at < len(text):
            at += 1
        if at >= len(text):
            return None
        if letter in "zZX":
            return self._zone(letter, count, start, at)
        if not _is_number(element):
            return self._name(letter, start)
        if obeys_count and start + count > len(text):
            return None
        number = _number(text[: start + count] if obeys_count else text, at)
        if number is None:
            return None
        value, end = number
        self._set_number(letter, count, value, text[at:end])
        return end

    def _set_number(self, letter: str, count: int, value: int, figures: str) -> None:
        if letter in "yY" and count <= 2 and len(figures) == 2 and all(_is_digit(char) for char in figures):
            century, first = divmod(_century_start_year(self.now), 100)
            self.is_ambiguous = value == first
            value += (century + (value < first)) * 100
        elif letter in "ML":
            value -= 1
        elif (letter == "k" and value == 24) or (letter == "h" and value == 12):
            value = 0
        elif letter == "u" and 1 <= value <= 7:
            value = value % 7 + 1
        elif letter in "wWF" and abs(value) > _MOST_WEEKS:
            raise RowError(f"the letter {letter}: the number {value} is too large")
        self.set(_FIELDS[letter], value)

    def _name(self, letter: str, start: int) -> int | None:
        """Read a text such as that of a month; the longest that fits."""
        tables: list[tuple[str, dict[str, int]]] = {
            "M": [("MONTH", _MONTHS)], "L": [("MONTH", _MONTHS)], "G": [("ERA", _ERAS)], "a": [("AM_PM", _HALF_DAYS)],
            "E": [("WEEKDAY", _LONG_WEEKDAYS), ("WEEKDAY", _SHORT_WEEKDAYS)],
        }[letter]  # fmt: skip
        for name, table in tables:
            longest = max((word for word in table if _matches(self.text, start, word)), key=len, default=None)
            if longest is not None:
                self.set(name, table[longest])
                return start + len(longest)
        return None

    # --- zones -----------------------------------------------------------------------------------------------

    def _zone(self, letter: str, count: int, start: int, at: int) -> int | None:
        char = self.text[at]
        sign = {"+": 1, "-": -1}.get(char, 0)
        if letter == "X":
            if char == "Z":
                return self._set_offset(0, at + 1)
            return self._numeric_zone(at + 1, sign, count, colon=count == 3) if sign else None
        if sign:
            return self._numeric_zone(at + 1, sign, 0, colon=False)
        if char not in "Gg" or not _matches(self.text, start, "GMT"):
            return self._zone_name(at)
        at = start + len("GMT")
        sign = {"+": 1, "-": -1}.get(self.text[at : at + 1], 0)
        return self._numeric_zone(at + 1, sign, 0, colon=True) if sign else self._set_offset(0, at)

    def _set_offset(self, millis: int, end: int) -> int:
        self.set("ZONE_OFFSET", millis)
        self.set("DST_OFFSET", 0)
        return end

    def _numeric_zone(self, at: int, sign: int, count: int, *, colon: bool) -> int | None:
        """Read `hhmm` or, with `colon`, `hh:mm`; `hh` alone for X, and `h:mm` after GMT."""
        hour = r"[0-9]{1,2}" if colon and not count else r"[0-9]{2}"
        minute = "" if count == 1 else ":([0-9]{2})" if colon else "([0-9]{2})"
        match = re.compile(f"({hour}){minute}").match(self.text, at)
        if not match or int(match[1]) > 23 or (minute and int(match[2]) > 59):
            return None
        minutes = int(match[1]) * 60 + (int(match[2]) if minute else 0)
        return self._set_offset(sign * minutes * 60_000, match.end())

    def _zone_name(self, at: int) -> int | None:
        match = _LETTERS.match(self.text, at)
        if not match:
            return None
        name, zone_names = match[0].upper(), own_names(self.zone)
        offset = offset_named(name, self.zone)
        if name in zone_names and len(zone_names) == 2:
            # the standard offset of the time, which is not known yet, and maybe an hour
            self.fields.pop("ZONE_OFFSET", None)
            self.set("DST_OFFSET", zone_names.index(name) * 3_600_000)
        elif offset is not None:
            self._set_offset(offset * 1000, match.end())
        else:
            raise RowError(f"the letter z: the time zone '{match[0]:.{_MOST_NAME}}' is not known here")
        self.names_zone = True
        return match.end()


_MONTHS = {name: number for names in (english.MONTHS, english.SHORT_MONTHS) for number, name in enumerate(names)}
_ERAS = {name: number for names in (english.ERAS, english.LONG_ERAS) for number, name in enumerate(names)}
_HALF_DAYS = {name: number for number, name in enumerate(english.HALF_DAYS)}
_LONG_WEEKDAYS = {name: number % 7 + 1 for number, name in enumerate(english.WEEKDAYS, 1)}
_SHORT_WEEKDAYS = {name: number % 7 + 1 for number, name in enumerate(english.SHORT_WEEKDAYS, 1)}


def _matches(text: str, start: int, word: str) -> bool:
    """Return whether a word is in a text, without regard to case (`String.regionMatches`)."""
    return len(text) - start >= len(word) and all(map(_same_letter, text[start : start + len(word)], word))


def _same_letter(left: str, right: str) -> bool:
    return left == right or left.upper() == right.upper() or left.upper().lower() == right.upper().lower()


# --- numbers -------------------------------------------------------------------------------------------------


def _is_digit(char: str) -> bool:
    return char.isdecimal() and char <= "\uffff"


def _number(text: str, start: int) -> tuple[int, int] | None:
    """Read an integer as `DecimalFormat.parse` and `intValue` do; return it and the offset after it."""
    if text.startswith("NaN", start):
        return 0, start + 3
    negative = text.startswith("-", start)
    at = first = start + negative
    if text.startswith("∞", at):
        return (-(2**31) if negative else 2**31 - 1), at + 1
    while at < len(text) and _is_digit(text[at]):
        at += 1
    if at == first:
        return None
    number = _whole(text[first:at])
    if text.startswith("E", at):
        suffix = _exponent(text, at + 1)
        if suffix is not None:
            exponent, at = suffix
            number = number * 10**exponent if exponent > 0 else number // 10**-exponent
    return _int_value(-number if negative else number), at


def _whole(figures: str) -> int:
    return int(figures) if len(figures) < _MOST_FIGURES else 10**_MOST_EXPONENT


def _exponent(text: str, start: int) -> tuple[int, int] | None:
    negative = text.startswith("-", start)
    at = first = start + negative
    while at < len(text) and _is_digit(text[at]):
        at += 1
    if at == first:
        return None
    size = min(_whole(text[first:at]), _MOST_EXPONENT)
    return (-size if negative else size), at


def _int_value(number: int) -> int:
    """Return the int of a number: the low bits of a long, and the nearest int of what is not a long."""
    if _MIN_LONG <= number < 2**63:
        return (number + 2**31) % 2**32 - 2**31
    return 2**31 - 1 if number > 0 else -(2**31)


# --- from fields to an instant -------------------------------------------------------------------------------


def _established(fields: dict[str, int], zone: Zone) -> int:
    """Return the instant of the fields (`CalendarBuilder.establish`, `GregorianCalendar.computeTime`)."""
    names = list(fields)
    seconds = (_hour(fields, names) * 60 + fields.get("MINUTE", 0)) * 60 + fields.get("SECOND", 0)
    extra, of_day = divmod(seconds * 1000 + fields.get("MILLISECOND", 0), DAY_MILLIS)
    by_week = _stamp(names, "WEEK_YEAR") > _stamp(names, "YEAR")
    local = days_of_fields(_week_date(fields) if by_week else fields, extra) * DAY_MILLIS + of_day
    if abs(local) > _MOST_MILLIS:
        raise RowError("the date is more than three million years away")
    return local - _offset(fields, local, zone)


def _offset(fields: dict[str, int], local: int, zone: Zone) -> int:
    """Return the offset of a local time in milliseconds: what the text says about it, and else that of the zone."""
    if "DST_OFFSET" not in fields:
        return util_offset_of_local(zone, local * 1000) * 1000
    standard = fields.get("ZONE_OFFSET")
    if standard is None:
        standard = standard_offset_of_local(zone, local * 1000) * 1000
    return standard + fields["DST_OFFSET"]


def _stamp(names: list[str], name: str) -> int:
    return names.index(name) + 1 if name in names else 0


def _hour(fields: dict[str, int], names: list[str]) -> int:
    """Return the hour of the day: of `H` or of `h a`, whichever was set last; `h` or `a` alone count without `H`."""
    of_day, half, hour = (_stamp(names, name) for name in ("HOUR_OF_DAY", "AM_PM", "HOUR"))
    if of_day and not (half and hour and max(half, hour) > of_day):
        return fields["HOUR_OF_DAY"]
    return fields.get("HOUR", 0) + 12 * fields.get("AM_PM", 0)


def _week_date(fields: dict[str, int]) -> dict[str, int]:
    """Return year, month and day of a week date (`GregorianCalendar.setWeekDate`)."""
    if not hybrid_date(days_of_fields(fields)).era:
        raise RowError("the letter Y is not supported for years before 1")
    week, weekday = fields.get("WEEK_OF_YEAR", 1), fields.get("WEEKDAY", SUNDAY)
    if not 1 <= weekday <= 7:
        # it is a number of the letter u, which counts from Monday
        weeks, number = divmod(weekday - 1, 7)
        week, weekday = week + weeks, (number + 1) % 7 + 1
    first = sunday_from(first_day_of_year(fields["WEEK_YEAR"]))
    date = hybrid_date(first + 7 * (week - 1) + weekday - SUNDAY)
    return {"ERA": date.era, "YEAR": date.year_of_era, "MONTH": date.month - 1, "DAY_OF_MONTH": date.day}


@functools.lru_cache(maxsize=64)
def _century_start(now: int) -> int:
    """Return the instant 80 years ago, in milliseconds."""
    days, of_day = divmod(now // 1000, DAY_MILLIS)
    today = dt.date(1970, 1, 1) + dt.timedelta(days=days)
    year = today.year - _CENTURY_YEARS
    day = min(today.day, 28) if today.month == 2 and not (year % 4 == 0 and year % 100) else today.day
    return days_of(year, today.month, day) * DAY_MILLIS + of_day


def _century_start_year(now: int) -> int:
    return (dt.date(1970, 1, 1) + dt.timedelta(days=now // 1_000_000 // 86_400)).year - _CENTURY_YEARS
