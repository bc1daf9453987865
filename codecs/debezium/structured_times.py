"""Dates, times, timestamps and durations as rows of their parts: 'time.precision.mode' = structured.

    {"year": 2025, "month": 3, "day": 3, "hour": 9, "minute": 30, "second": 0, "nanos": 123456000, "specialValue": null}

Source: `io.debezium.time.StructuredTemporal` and the classes beside it. `specialValue` is Postgres's infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kvformat.codecs.debezium.parse_texts import INFINITE_DAYS, INFINITE_MICROS, check_days, check_micros, epoch_day
from kvformat.registry.contract.types import STRING, FlinkField, FlinkType

_DAY, _CLOCK, _OFFSET = ("year", "month", "day"), ("hour", "minute", "second", "nanos"), "offsetSeconds"
_DURATION = ("years", "months", "days", "hours", "minutes", "seconds", "nanos")
_SPECIAL = "specialValue"
_DAY_SECONDS = 86_400
_Parts = Mapping[str, Any]


class Structured(NamedTuple):
    """A structured type: its row type on the wire, and by Flink type the function that converts a row of parts."""

    wire: FlinkType
    reads: Mapping[str, Callable[[_Parts], int]]


def _wire(*names: str) -> FlinkType:
    text, whole = STRING, FlinkType("BIGINT")
    return FlinkType("ROW", fields=tuple(FlinkField(name, text if name == _SPECIAL else whole) for name in names))


def _numbers(parts: _Parts, names: tuple[str, ...]) -> list[int]:
    numbers = [parts[name] for name in names]
    if None in numbers:
        raise ValueError(parts)
    return numbers


def _days(parts: _Parts) -> int:
    """Days since 1970 of a date, or of Postgres's infinity."""
    special = parts[_SPECIAL]
    return check_days(epoch_day(*_numbers(parts, _DAY))) if special is None else _infinite(INFINITE_DAYS, special)


def _infinite(values: Mapping[str, int], special: str) -> int:
    if special not in values:
        raise ValueError(special)
    return values[special]


def _nanos(parts: _Parts) -> int:
    """Nanoseconds since midnight of a time of day."""
    hours, minutes, seconds, nanos = _numbers(parts, _CLOCK)
    if not (0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds < 60 and 0 <= nanos < 10**9):
        raise ValueError(parts)
    return (hours * 3600 + minutes * 60 + seconds) * 10**9 + nanos


def _zoned_nanos(parts: _Parts) -> int:
    """Nanoseconds since midnight in UTC of a time of day with an offset."""
    (offset,) = _numbers(parts, (_OFFSET,))
    return (_nanos(parts) - offset * 10**9) % (_DAY_SECONDS * 10**9)


def _micros(parts: _Parts) -> int:
    """Microseconds since 1970 of a timestamp, or of Postgres's infinity."""
    if parts[_SPECIAL] is not None:
        return _infinite(INFINITE_MICROS, parts[_SPECIAL])
    return check_micros(_days(parts) * _DAY_SECONDS * 10**6 + _nanos(parts) // 1000)


def _zoned_micros(parts: _Parts) -> int:
    """Microseconds since 1970 in UTC of a timestamp with an offset."""
    if parts[_SPECIAL] is not None:
        return _micros(parts)
    (offset,) = _numbers(parts, (_OFFSET,))
    return check_micros(_micros(parts) - offset * 10**6)


def _duration(parts: _Parts) -> int:
    """Nanoseconds of a duration without years and months, which have no length."""
    years, months, days, hours, minutes, seconds, nanos = (parts[name] or 0 for name in _DURATION)
    if years or months:
        raise ValueError(parts)
    return int((days * _DAY_SECONDS + hours * 3600 + minutes * 60 + seconds) * 10**9 + nanos)


def _duration_micros(parts: _Parts) -> int:
    return check_micros(_duration(parts) // 1000)


def _duration_as_time(parts: _Parts) -> int:
    """Nanoseconds since midnight of a duration, as which the connector writes MySQL's TIME."""
    nanos = _duration(parts)
    if not 0 <= nanos < _DAY_SECONDS * 10**9:
        raise ValueError(parts)
    return nanos


def _any_nanos(parts: _Parts) -> int:
    """Nanoseconds since midnight of a time of day, with or without an offset, or of a duration (MySQL's TIME)."""
    if parts["hours"] is not None:
        return _duration_as_time(parts)
    return _nanos(parts) if parts[_OFFSET] is None else _zoned_nanos(parts)


def _micros_without_offset(parts: _Parts) -> int:
    """Microseconds since 1970 of a timestamp; raises `ValueError` if it has an offset."""
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
    f"{_TIME}Duration": Structured(
        _wire(*_DURATION), {"INTERVAL DAY TO SECOND": _duration_micros, "TIME": _duration_as_time}
    ),
}
STRUCTURED_BY_ROOT: Mapping[str, Structured] = {
    "DATE": STRUCTURED[f"{_TIME}Date"],
    "TIME": Structured(_wire(*_CLOCK, _OFFSET, *_DURATION[:-1]), {"TIME": _any_nanos}),
    "TIMESTAMP": Structured(_wire(*_DAY, *_CLOCK, _OFFSET, _SPECIAL), {"TIMESTAMP": _micros_without_offset}),
    "TIMESTAMP_LTZ": STRUCTURED[f"{_TIME}ZonedTimestamp"],
    "INTERVAL DAY TO SECOND": STRUCTURED[f"{_TIME}Duration"],
}
"""The structured type of a column in messages without a schema. The parts of a value tell what it is."""
