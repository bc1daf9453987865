"""FLOOR and CEIL of a time TO a unit.

Flink computes in milliseconds, with the Julian calendar before 1582-10-15, and takes the day after for a time of day
before 1970. For an instant it takes the offset of the instant itself. All of that is done here as well.
Rules: `FloorCeilCallGen`, `DateTimeUtils.timestampFloor` and `julianDateFloor`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kvformat.registry.expressions.bound import TIMESTAMPS, BindError, Bound, shown
from kvformat.registry.expressions.local_times import DAY_MILLIS, days_of_dates, offsets_of
from kvformat.registry.expressions.rows import Rows
from kvformat.registry.expressions.tree import Call
from kvformat.registry.expressions.vectors import Bools, Numbers, Vector

_MILLIS = {"HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000, "MILLISECOND": 1}
_SMALL = ("MICROSECOND", "NANOSECOND")
_BY_DATE = ("MILLENNIUM", "CENTURY", "DECADE", "YEAR", "QUARTER", "MONTH", "WEEK")
_YEARS = {"MILLENNIUM": 1000, "CENTURY": 100}
_JULIAN_1970 = 2_440_588
_LAST_JULIAN = 2_299_160
"""The day before 1582-10-15."""


def bind_floor_to(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return FLOOR or CEIL of a time to the unit in the words of the call. Raises `BindError`."""
    (value,), (unit,) = arguments, call.words
    root, ceil = value.type.root, call.name != "FLOOR"
    if root == "DATE" and unit in (*_BY_DATE, "DAY", *_MILLIS, *_SMALL):
        return _rounded(value, lambda days, _: _dates(days, unit, ceil=ceil))
    if root == "TIME" and unit in _MILLIS:
        return _rounded_time(value, _MILLIS[unit], ceil=ceil)
    if root in TIMESTAMPS and unit in (*_BY_DATE, "DAY", *_MILLIS):
        is_instant = root == "TIMESTAMP_LTZ"
        return _rounded(value, lambda micros, rows: _timestamps(micros, rows if is_instant else None, unit, ceil=ceil))
    why = "; its job fails at every row" if root in TIMESTAMPS and unit in _SMALL else ""
    raise BindError(f"{call.name}: Flink does not round {shown(value.type)} to {unit}{why}", call.offset)


def _rounded(value: Bound, compute: Callable[[Numbers, Rows], Numbers]) -> Bound:
    def evaluate(rows: Rows) -> Vector:
        numbers, valid = value.evaluate(rows).numbers()
        return Vector.of_numbers(value.type, compute(numbers, rows).astype(numbers.dtype), valid)

    return Bound(value.type, evaluate)


def _rounded_time(value: Bound, unit: int, *, ceil: bool) -> Bound:
    """Round a time of the day; 24:00 fails the row, as it does in Flink when it reads the time."""

    def evaluate(rows: Rows) -> Vector:
        numbers, valid = value.evaluate(rows).numbers()
        rounded = _to_unit(numbers, unit, ceil=ceil)
        fits: Bools = rounded < DAY_MILLIS
        for index in np.flatnonzero(valid & ~fits).tolist():
            rows.fail(index, "the time is 24:00")
        return Vector.of_numbers(value.type, rounded, valid & fits)

    return Bound(value.type, evaluate)


def _timestamps(micros: Numbers, rows: Rows | None, unit: str, *, ceil: bool) -> Numbers:
    """Round timestamps; with `rows` they are instants, which are rounded in the zone of the session."""
    millis = micros // 1000
    offsets: Numbers = np.zeros_like(millis)
    if rows is not None:
        offsets = offsets_of(rows.session.zone, micros, "util moment") // 1000
    local = millis + offsets
    if unit == "MILLISECOND":
        # only of a TIMESTAMP Flink rounds up what is less than a millisecond
        whole = local + (micros - millis * 1000 > 0) if ceil and rows is None else local
    elif unit in _BY_DATE:
        whole = _dates(quotient(local, DAY_MILLIS), unit, ceil=ceil) * DAY_MILLIS
    else:
        whole = _to_unit(local, _MILLIS.get(unit, DAY_MILLIS), ceil=ceil)
    rounded: Numbers = (whole - offsets) * 1000
    return rounded


def _to_unit(millis: Numbers, unit: int, *, ceil: bool) -> Numbers:
    rounded: Numbers = -(-millis // unit) * unit if ceil else millis // unit * unit
    return rounded


def quotient(numbers: Numbers, divisor: int) -> Numbers:
    """Divide integers and drop the rest, as Java's operator `/`."""
    result: Numbers = np.sign(numbers) * (np.abs(numbers) // divisor)
    return result


def _dates(days: Numbers, unit: str, *, ceil: bool) -> Numbers:
    """Round dates (`julianDateFloor`)."""
    if unit in (*_MILLIS, *_SMALL):
        return days
    julian = days.astype(np.int64) + _JULIAN_1970
    year, month, day = _julian_fields(julian)
    if unit in _YEARS:
        size = _YEARS[unit]
        year = quotient(year + size - 1, size) * size + (1 if ceil else 1 - size)
        return _first_day(year)
    if unit == "DECADE":
        return _first_day((quotient(year, 10) + ceil) * 10)
    is_later = (month > 1) | (day > 1)
    if unit == "YEAR":
        return _first_day(year + (is_later & ceil))
    if unit == "MONTH":
        return days_of_dates(year, month + ((day > 1) & ceil), np.ones_like(day))
    if unit == "QUARTER":
        # Flink goes on to the next quarter also from the first day of one, but not from January 1
        return days_of_dates(year, ((month + 2) // 3 + (is_later & ceil)) * 3 - 2, np.ones_like(day))
    dates = days_of_dates(year, month, day)
    if unit == "DAY":
        return dates + ceil
    since_sunday = (julian + 1) % 7
    return dates - since_sunday + 7 * ((since_sunday > 0) & ceil)


def _first_day(year: Numbers) -> Numbers:
    return days_of_dates(year, np.ones_like(year), np.ones_like(year))


def _julian_fields(julian: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return year, month and day of Julian day numbers, before 1582-10-15 by the Julian calendar."""
    gregorian = julian > _LAST_JULIAN
    since = julian + 32_044
    centuries = (4 * since + 3) // 146_097 * gregorian
    days = np.where(gregorian, since - centuries * 146_097 // 4, julian + 32_082)
    years = (4 * days + 3) // 1461
    of_year = days - 1461 * years // 4
    months = (5 * of_year + 2) // 153
    day = of_year - (153 * months + 2) // 5 + 1
    return centuries * 100 + years - 4800 + months // 10, months + 3 - 12 * (months // 10), day
