"""Days, times of day, moments and durations in parts: 'time.precision.mode' = structured.

    {"year": 2025, "month": 3, "day": 3, "hour": 9, "minute": 30, "second": 0, "nanos": 123456000, "specialValue": null}

Source: `io.debezium.time.StructuredTemporal` and the classes beside it. `specialValue` is Postgres's infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kvformat.codecs._debezium.parse_texts import INFINITE_DAYS, INFINITE_MICROS, check_micros, epoch_day
from kvformat.registry.contract.types import MAX_LENGTH, FlinkField, FlinkType

_DAY, _CLOCK, _OFFSET = ("year", "month", "day"), ("hour", "minute", "second", "nanos"), "offsetSeconds"
_SPANS = ("years", "months", "days", "hours", "minutes", "seconds", "nanos")
_SPECIAL = "specialValue"
_DAY_SECONDS = 86_400
_Parts = Mapping[str, Any]


class Structured(NamedTuple):
    """A type in parts: the columns, each with what makes its value of a row of `wire`."""

    wire: FlinkType
    reads: Mapping[str, Callable[[_Parts], int]]


def _wire(*names: str) -> FlinkType:
    text, whole = FlinkType("VARCHAR", length=MAX_LENGTH), FlinkType("BIGINT")
    return FlinkType("ROW", fields=tuple(FlinkField(name, text if name == _SPECIAL else whole) for name in names))


def _numbers(parts: _Parts, names: tuple[str, ...]) -> list[int]:
    found = [parts[name] for name in names]
    if None in found:
        raise ValueError(parts)
    return found


def _days(parts: _Parts) -> int:
    """Days since 1970."""
    special = parts[_SPECIAL]
    return epoch_day(*_numbers(parts, _DAY)) if special is None else _infinite(INFINITE_DAYS, special)


def _infinite(values: Mapping[str, int], special: str) -> int:
    if special not in values:
        raise ValueError(special)
    return values[special]


def _nanos(parts: _Parts) -> int:
    """Nanoseconds since midnight; the column says if they are too many."""
    hours, minutes, seconds, nanos = _numbers(parts, _CLOCK)
    if not (0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds < 60 and 0 <= nanos < 10**9):
        raise ValueError(parts)
    return (hours * 3600 + minutes * 60 + seconds) * 10**9 + nanos


def _zoned_nanos(parts: _Parts) -> int:
    """Nanoseconds since midnight in UTC."""
    (offset,) = _numbers(parts, (_OFFSET,))
    return (_nanos(parts) - offset * 10**9) % (_DAY_SECONDS * 10**9)


def _micros(parts: _Parts) -> int:
    """Microseconds since 1970."""
    if parts[_SPECIAL] is not None:
        return _infinite(INFINITE_MICROS, parts[_SPECIAL])
    return check_micros(_days(parts) * _DAY_SECONDS * 10**6 + _nanos(parts) // 1000)


def _zoned_micros(parts: _Parts) -> int:
    """The same in UTC."""
    if parts[_SPECIAL] is not None:
        return _micros(parts)
    (offset,) = _numbers(parts, (_OFFSET,))
    return check_micros(_micros(parts) - offset * 10**6)


def _span(parts: _Parts) -> int:
    """Nanoseconds of a duration, which has no years and months: these have no length."""
    years, months, days, hours, minutes, seconds, nanos = (parts[name] or 0 for name in _SPANS)
    if years or months:
        raise ValueError(parts)
    return int((days * _DAY_SECONDS + hours * 3600 + minutes * 60 + seconds) * 10**9 + nanos)


def _span_micros(parts: _Parts) -> int:
    return check_micros(_span(parts) // 1000)


def _span_of_day(parts: _Parts) -> int:
    """A duration as a time of day, as MySQL's TIME comes."""
    nanos = _span(parts)
    if not 0 <= nanos < _DAY_SECONDS * 10**9:
        raise ValueError(parts)
    return nanos


def _any_nanos(parts: _Parts) -> int:
    """Nanoseconds since midnight of a time of day with or without an offset, or of a duration (MySQL's TIME)."""
    if parts["hours"] is not None:
        return _span_of_day(parts)
    return _nanos(parts) if parts[_OFFSET] is None else _zoned_nanos(parts)


def _micros_without_offset(parts: _Parts) -> int:
    """Microseconds since 1970 of a moment without a zone; raises `ValueError` for one with an offset."""
    if parts[_OFFSET] is not None:
        raise ValueError(parts)
    return _micros(parts)


_TIME = "io.debezium.time.Structured"
STRUCTURED: Mapping[str, Structured] = {
    f"{_TIME}Date": Structured(_wire(*_DAY, _SPECIAL), {"DATE": _days}),
    f"{_TIME}Time": Structured(_wire(*_CLOCK), {"TIME": _nanos}),
    f"{_TIME}ZonedTime": Structured(_wire(*_CLOCK, _OFFSET), {"TIME": _zoned_nanos}),
    f"{_TIME}Timestamp": Structured(_wire(*_DAY, *_CLOCK, _SPECIAL), {"TIMESTAMP": _micros}),
    f"{_TIME}ZonedTimestamp": Structured(_wire(*_DAY, *_CLOCK, _OFFSET, _SPECIAL), {"TIMESTAMP_LTZ": _zoned_micros}),
    f"{_TIME}Duration": Structured(_wire(*_SPANS), {"INTERVAL DAY TO SECOND": _span_micros, "TIME": _span_of_day}),
}
OF_COLUMN: Mapping[str, Structured] = {
    "DATE": STRUCTURED[f"{_TIME}Date"],
    "TIME": Structured(_wire(*_CLOCK, _OFFSET, *_SPANS[:-1]), {"TIME": _any_nanos}),
    "TIMESTAMP": Structured(_wire(*_DAY, *_CLOCK, _OFFSET, _SPECIAL), {"TIMESTAMP": _micros_without_offset}),
    "TIMESTAMP_LTZ": STRUCTURED[f"{_TIME}ZonedTimestamp"],
    "INTERVAL DAY TO SECOND": STRUCTURED[f"{_TIME}Duration"],
}
"""What a column is in messages without a schema, where a value's parts say which type it has."""
