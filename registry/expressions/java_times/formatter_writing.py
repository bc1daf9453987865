"""Write a local time by a pattern of `java.time.format.DateTimeFormatter`.

    formatted(compiled("yyyy-MM-dd"), 0)      '1970-01-01'

Rules: the methods `format` of the classes in `DateTimeFormatterBuilder`, for a `LocalDateTime`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvformat.registry.expressions.java_times.english_times import day_period
from kvformat.registry.expressions.java_times.formatter_fields import (
    HOUR_NANOS,
    MINUTE_NANOS,
    TIME_FIELDS,
    texts_of,
    value_of,
)
from kvformat.registry.expressions.java_times.formatter_patterns import (
    DayPeriod,
    Element,
    NumberElement,
    OptionalElement,
    Padded,
    Sign,
    Text,
    TextElement,
)
from kvformat.registry.expressions.local_times import DAY_MICROS
from kvformat.registry.expressions.rows import RowError


def uses_time(elements: Sequence[Element]) -> bool:
    """Return whether a pattern writes more than the date."""
    return any(_is_of_time(element) for element in elements)


def _is_of_time(element: Element) -> bool:
    match element:
        case NumberElement() | Text():
            return element.field in TIME_FIELDS
        case Padded():
            return _is_of_time(element.element)
        case OptionalElement():
            return uses_time(element.elements)
    return isinstance(element, DayPeriod)


class _NoZone(Exception):
    """A letter needs a time zone or an offset, which a local time does not have."""


def formatted(elements: Sequence[Element], micros: int) -> str:
    """Return a local time as a text. Raises `RowError` if it can't be written."""
    days, of_day = divmod(micros, DAY_MICROS)
    try:
        return _written(elements, days, of_day * 1000)
    except _NoZone:
        raise RowError("the pattern has a letter for a time zone or an offset; a timestamp has neither") from None


def _written(elements: Sequence[Element], days: int, nanos: int) -> str:
    return "".join([_element(element, days, nanos) for element in elements])


def _element(element: Element, days: int, nanos: int) -> str:
    match element:
        case TextElement():
            return element.text
        case NumberElement():
            return _number(element, value_of(element.field, days, nanos))
        case Text():
            return texts_of(element.field, element.style)[value_of(element.field, days, nanos)]
        case DayPeriod():
            return day_period(nanos // HOUR_NANOS, nanos // MINUTE_NANOS % 60, narrow=element.is_narrow)
        case Padded():
            return _padded(_element(element.element, days, nanos), element.width)
        case OptionalElement():
            try:
                return _written(element.elements, days, nanos)
            except _NoZone:
                return ""
    raise _NoZone


def _padded(text: str, width: int) -> str:
    if len(text) > width:
        raise RowError(f"'{text:.60}' has more characters than the letters p allow")
    return text.rjust(width)


def _number(number: NumberElement, value: int) -> str:
    if number.is_fraction:
        return f"{value:09d}"[: number.most]
    if number.is_reduced:
        return f"{abs(value) % 100:02d}"
    figures = str(abs(value))
    if len(figures) > number.most:
        raise RowError(f"the value {value} is too long for the pattern")
    if value < 0:
        if number.sign is Sign.NOT_NEGATIVE:
            raise RowError(f"the value {value} is negative")
        return f"-{figures.zfill(number.least)}"
    exceeds = number.sign is Sign.EXCEEDS_PAD and len(figures) > number.least
    return ("+" if exceeds else "") + figures.zfill(number.least)
