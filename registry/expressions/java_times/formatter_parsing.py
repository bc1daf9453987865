"""Read a local time by a pattern of `java.time.format.DateTimeFormatter`, as Flink's TO_TIMESTAMP does.

    parsed(compiled("dd.MM.yyyy"), "30.02.2024")     the fields, of which `formatter_resolving` makes a time

Rules: the methods `parse` of the classes in `DateTimeFormatterBuilder`, in strict mode and with regard to case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kvformat.registry.expressions.java_times.formatter_fields import texts_of
from kvformat.registry.expressions.java_times.formatter_patterns import (
    DayPeriod,
    Element,
    NumberElement,
    Offset,
    OptionalElement,
    Padded,
    Sign,
    Text,
    TextElement,
    ZoneName,
)
from kvformat.registry.expressions.java_times.zone_names import OFFSETS
from kvformat.registry.expressions.rows import RowError

_DAY_PERIODS = {
    "in the morning": (360, 720), "in the afternoon": (720, 1080), "in the evening": (1080, 1260),
    "at night": (1260, 360), "midnight": (0, 0), "noon": (720, 720), "AM": (0, 720), "PM": (720, 1440),
}  # fmt: skip
"""The parts of the day with the minutes of the day where they begin and end."""
_NARROW = {"midnight": "mi", "noon": "n", "AM": "a", "PM": "p"}
_NARROW_DAY_PERIODS = {_NARROW.get(name, name): minutes for name, minutes in _DAY_PERIODS.items()}
_BASE_YEAR = 2000
_ZONE_NAME = re.compile("[A-Za-z0-9/_+-]+")
_HOUR_MINUTE_SECOND = {
    "+HHmm": r"([0-5]\d)([0-5]\d)?", "+HHMM": r"([0-5]\d)([0-5]\d)", "+HH:MM": r"([0-5]\d):([0-5]\d)",
    "+HHMMss": r"([0-5]\d)([0-5]\d)([0-5]\d)?", "+HH:MM:ss": r"([0-5]\d):([0-5]\d)(?::([0-5]\d))?",
}  # fmt: skip
_OFFSETS = {form: re.compile(f"([+-]){rest}", re.ASCII) for form, rest in _HOUR_MINUTE_SECOND.items()}
_GMT_FULL = re.compile(r"([+-])(\d\d):(\d\d)(?::(\d\d))?", re.ASCII)
_GMT_SHORT = re.compile(r"([+-])(\d\d?)(?::(\d\d)(?::(\d\d))?)?", re.ASCII)


class ParseFailure(Exception):
    """A text that does not fit the pattern."""


class _FatalFailure(ParseFailure):
    """A failure that an optional section does not hide."""


@dataclass(slots=True)
class Parsed:
    """The fields of a text, and the part of the day that it names."""

    fields: dict[str, int] = field(default_factory=dict)
    day_period: tuple[int, int] | None = None


def parsed(elements: Sequence[Element], text: str) -> Parsed:
    """Return the fields of a text. Raises `ParseFailure`, and `RowError` for what can't be read here as Java does."""
    result = Parsed()
    if _read_all(elements, text, 0, result) != len(text):
        raise ParseFailure
    return result


def _read_all(elements: Sequence[Element], text: str, at: int, result: Parsed) -> int:
    for element in elements:
        at = _read(element, text, at, result)
    return at


def _read(element: Element, text: str, at: int, result: Parsed) -> int:
    """Read an element and return the offset after it."""
    match element:
        case TextElement():
            if not text.startswith(element.text, at):
                raise ParseFailure
            return at + len(element.text)
        case NumberElement():
            return _fraction(element, text, at, result) if element.is_fraction else _number(element, text, at, result)
        case Text():
            return _text(element, text, at, result)
        case DayPeriod():
            return _day_period(element, text, at, result)
        case Offset():
            return _offset(element, text, at, result)
        case ZoneName():
            return _zone(element, text, at)
        case Padded():
            return _padded(element, text, at, result)
        case OptionalElement():
            return _section(element, text, at, result)


def _section(section: OptionalElement, text: str, at: int, result: Parsed) -> int:
    trial = Parsed(dict(result.fields), result.day_period)
    try:
        end = _read_all(section.elements, text, at, trial)
    except _FatalFailure:
        raise
    except ParseFailure:
        return at
    result.fields, result.day_period = trial.fields, trial.day_period
    return end


def _padded(padded: Padded, text: str, at: int, result: Parsed) -> int:
    end = at + padded.width
    if end > len(text):
        raise ParseFailure
    start = at
    while start < end and text[start] == " ":
        start += 1
    if _read(padded.element, text[:end], start, result) != end:
        raise ParseFailure
    return end


def _set(result: Parsed, name: str, value: int) -> None:
    if result.fields.setdefault(name, value) != value:
        raise ParseFailure


# --- numbers -------------------------------------------------------------------------------------------------


def _digits(text: str, at: int, most: int) -> int:
    """Return the offset after the ASCII digits of a text, at most so many."""
    end = min(at + most, len(text))
    while at < end and "0" <= text[at] <= "9":
        at += 1
    return at


def _number(number: NumberElement, text: str, at: int, result: Parsed) -> int:
    if at >= len(text):
        raise ParseFailure
    sign = text[at] if text[at] in "+-" else ""
    if sign and not _allows(number.sign, sign):
        raise ParseFailure
    start = at + len(sign)
    if start + number.least > len(text):
        raise ParseFailure
    followed = max(number.followed_by, 0)
    end = _digits(text, start, number.most + followed)
    if end - start < number.least:
        raise ParseFailure
    if followed:
        end = _digits(text, start, max(number.least, end - start - followed))
    size = end - start
    value = int(text[start:end])
    if value >= 2**63:
        value, end = value // 10, end - 1
    if sign == "-":
        if not value:
            raise ParseFailure
        value = -value
    elif number.sign is Sign.EXCEEDS_PAD and (size > number.least) != (sign == "+"):
        raise ParseFailure
    if number.is_reduced and end - start == 2 and value >= 0:
        value += _BASE_YEAR
    _set(result, number.field, value)
    return end


def _allows(sign: Sign, char: str) -> bool:
    """Return whether a number may begin with a sign (`SignStyle.parse`)."""
    return sign is Sign.EXCEEDS_PAD or (sign is Sign.NORMAL and char == "-")


def _fraction(number: NumberElement, text: str, at: int, result: Parsed) -> int:
    end = _digits(text, at, number.most)
    if end - at < number.least:
        raise ParseFailure
    _set(result, number.field, int(text[at:end].ljust(9, "0")))
    return end


# --- texts ---------------------------------------------------------------------------------------------------


def _text(element: Text, text: str, at: int, result: Parsed) -> int:
    """Read the longest text that fits. Of texts for several values, such as `J`, the last value counts."""
    values = {name: value for value, name in texts_of(element.field, element.style).items()}
    name = max((name for name in values if text.startswith(name, at)), key=len, default=None)
    if name is None:
        raise ParseFailure
    _set(result, element.field, values[name])
    return at + len(name)


def _day_period(element: DayPeriod, text: str, at: int, result: Parsed) -> int:
    periods = _NARROW_DAY_PERIODS if element.is_narrow else _DAY_PERIODS
    name = max((name for name in periods if text.startswith(name, at)), key=len, default=None)
    if name is None:
        raise ParseFailure
    result.day_period = periods[name]
    return at + len(name)


# --- zones ---------------------------------------------------------------------------------------------------


def _offset(offset: Offset, text: str, at: int, result: Parsed) -> int:
    if offset.form.startswith("GMT"):
        return _gmt_offset(offset, text, at, result)
    if text.startswith(offset.zero, at):
        _set(result, "OFFSET", 0)
        return at + len(offset.zero)
    match = _OFFSETS[offset.form].match(text, at)
    if not match:
        raise ParseFailure
    if int(match[2]) > 23:
        raise _FatalFailure
    _set(result, "OFFSET", _seconds(match))
    return match.end()


def _gmt_offset(offset: Offset, text: str, at: int, result: Parsed) -> int:
    if not text.startswith("GMT", at):
        raise ParseFailure
    end = at + len("GMT")
    if text[end : end + 1] not in ("+", "-") or end == len(text):
        _set(result, "OFFSET", 0)
        return end
    match = (_GMT_FULL if offset.form == "GMT:" else _GMT_SHORT).match(text, end)
    if not match:
        raise ParseFailure
    _set(result, "OFFSET", _seconds(match))
    return match.end()


def _seconds(match: re.Match[str]) -> int:
    hours, minutes, seconds = (int(part or 0) for part in (*match.groups()[1:], None, None)[:3])
    size = (hours * 60 + minutes) * 60 + seconds
    return -size if match[1] == "-" else size


def _zone(zone: ZoneName, text: str, at: int) -> int:
    """Read a short name of a time zone, which does not change the local time."""
    name = _ZONE_NAME.match(text, at)
    if zone.letter == "z" and name and name[0] in (*OFFSETS, "GMT"):
        return name.end()
    raise RowError(f"the letter {zone.letter}: the time zone '{text[at : at + 30]}' is not known here")
