"""Parts of dates and times, their sums and differences, and the current time.

Before 1970 Flink counts the parts of a time backward (`HOUR` of 23:59 is 0 or less); here they are those of the clock.
Only where an instant is not before 1970, but its local time is (west of Greenwich), they are counted as Flink does.
Rules: `ExtractCallGen`, `DateTimeUtils`, `StandardConvertletTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kvformat.registry.contract.types import FlinkType
from kvformat.registry.expressions.bound import (
    BIGINT,
    DATE,
    DAYS,
    INT,
    INTEGERS,
    MONTHS,
    TIMESTAMPS,
    BindError,
    Bound,
    constant,
    shown,
)
from kvformat.registry.expressions.functions.signatures import Function
from kvformat.registry.expressions.functions.text_columns import refuse_null
from kvformat.registry.expressions.functions.time_rounding import bind_floor_to, quotient
from kvformat.registry.expressions.local_times import (
    DAY_MICROS,
    DAY_MILLIS,
    dates_of,
    days_of_dates,
    locals_of_instants,
    offsets_of,
)
from kvformat.registry.expressions.rows import Rows
from kvformat.registry.expressions.time_arithmetic import add_months, moved, multiple
from kvformat.registry.expressions.tree import Call
from kvformat.registry.expressions.vectors import Bools, Numbers, Vector

__all__ = ["FUNCTIONS", "bind_floor_to"]

_SECOND = 1_000_000
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MILLIS = {"WEEK": 7 * DAY_MILLIS, "DAY": DAY_MILLIS, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
_INTS = 2**31


# --- parts ---------------------------------------------------------------------------------------------------


def _iso_years(days: Numbers) -> Numbers:
    """Return the years to which the ISO weeks belong: those of their Thursdays."""
    return dates_of(days - (days + 3) % 7 + 3)[0]


def _first_days(year: Numbers) -> Numbers:
    return days_of_dates(year, np.ones_like(year), np.ones_like(year))


def _iso_weeks(days: Numbers) -> Numbers:
    thursdays = days - (days + 3) % 7 + 3
    weeks: Numbers = (thursdays - _first_days(dates_of(thursdays)[0])) // 7 + 1
    return weeks


def _spans(year: Numbers, size: int) -> Numbers:
    """Return the centuries or millenniums of years; a century 0 does not exist."""
    return quotient(year + np.where(year > 0, np.full_like(year, size - 1), np.full_like(year, 1 - size)), size)


_OF_DAYS: dict[str, Callable[[Numbers], Numbers]] = {
    "YEAR": lambda days: dates_of(days)[0],
    "QUARTER": lambda days: (dates_of(days)[1] + 2) // 3,
    "MONTH": lambda days: dates_of(days)[1],
    "DAY": lambda days: dates_of(days)[2],
    "WEEK": _iso_weeks,
    "DOW": lambda days: (days + 4) % 7 + 1,
    "ISODOW": lambda days: (days + 3) % 7 + 1,
    "DOY": lambda days: days - _first_days(dates_of(days)[0]) + 1,
    "ISOYEAR": _iso_years,
    "DECADE": lambda days: quotient(dates_of(days)[0], 10),
    "CENTURY": lambda days: _spans(dates_of(days)[0], 100),
    "MILLENNIUM": lambda days: _spans(dates_of(days)[0], 1000),
}
"""Parts of a date, given by its days since 1970."""
_OF_MICROS: dict[str, Callable[[Numbers], Numbers]] = {
    "HOUR": lambda micros: micros // (3600 * _SECOND) % 24,
    "MINUTE": lambda micros: micros // (60 * _SECOND) % 60,
    "SECOND": lambda micros: micros // _SECOND % 60,
    "MILLISECOND": lambda micros: micros // 1000 % 1000,
    "MICROSECOND": lambda micros: micros % _SECOND,
    "NANOSECOND": lambda micros: micros % _SECOND * 1000,
}
"""Parts of a time, given in microseconds."""
_OF_TIME = ("HOUR", "MINUTE", "SECOND", "MILLISECOND")
_OF_INTERVAL = {
    "DAY": (2**62, DAY_MILLIS), "HOUR": (DAY_MILLIS, 3_600_000), "MINUTE": (3_600_000, 60_000),
    "SECOND": (60_000, 1000), "MILLISECOND": (1000, 1),
}  # fmt: skip
"""Parts of an interval: the milliseconds of the larger unit and of their own."""


def _bind_extract(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return EXTRACT, or a function such as YEAR that is short for it."""
    refuse_null(call, arguments)
    (value,), unit = arguments, call.words[0] if call.words else _PARTS[call.name]
    part = _part(value.type, unit)
    if part is None:
        raise BindError(f"{call.name}: Flink does not have {unit} of {shown(value.type)}", call.offset)
    if (unit, value.type.root) == ("MILLISECOND", "DATE"):
        raise BindError(f"{call.name}: a DATE has no milliseconds, but Flink gives another number than 0", call.offset)

    def evaluate(rows: Rows) -> Vector:
        numbers, valid = value.evaluate(rows).numbers()
        return Vector.of_numbers(BIGINT, part(numbers.astype(np.int64), rows).astype(np.int64), valid)

    return Bound(BIGINT, evaluate)


def _part(type_: FlinkType, unit: str) -> Callable[[Numbers, Rows], Numbers] | None:
    """Return the function of a part; None if Flink does not have it."""
    root = type_.root
    if root == MONTHS.root:
        return _part_of_months(unit)
    if root == DAYS.root:
        return _part_of_interval(unit)
    if root == "TIME":
        of_time = _OF_MICROS[unit] if unit in _OF_TIME else None
        return None if of_time is None else lambda millis, _: of_time(millis * 1000)
    if root == "DATE":
        return _part_of_date(unit)
    if root in TIMESTAMPS:
        return _part_of_timestamp(unit, is_instant=root == "TIMESTAMP_LTZ")
    return None


def _part_of_months(unit: str) -> Callable[[Numbers, Rows], Numbers] | None:
    if unit == "YEAR":
        return lambda months, _: quotient(months, 12)
    if unit == "MONTH":
        return lambda months, _: np.fmod(months, np.int64(12))
    if unit == "QUARTER":
        return lambda months, _: quotient(np.fmod(months, np.int64(12)) - 1, 3) + 1
    return None


def _part_of_interval(unit: str) -> Callable[[Numbers, Rows], Numbers] | None:
    if unit not in _OF_INTERVAL:
        return None
    whole, size = _OF_INTERVAL[unit]
    return lambda millis, _: quotient(np.fmod(millis, np.int64(whole)), size)


def _part_of_date(unit: str) -> Callable[[Numbers, Rows], Numbers] | None:
    if unit in _OF_DAYS:
        of_days = _OF_DAYS[unit]
        return lambda days, _: of_days(days)
    if unit == "EPOCH":
        return lambda days, _: days * 86_400
    return (lambda days, _: np.zeros_like(days)) if unit in _OF_TIME else None


def _part_of_timestamp(unit: str, *, is_instant: bool) -> Callable[[Numbers, Rows], Numbers] | None:
    of_days, of_micros = _OF_DAYS.get(unit), _OF_MICROS.get(unit)
    if unit != "EPOCH" and of_days is None and of_micros is None:
        return None

    def compute(micros: Numbers, rows: Rows) -> Numbers:
        backward = np.zeros(len(micros), bool)
        if is_instant:
            since_1970 = micros >= 0
            micros = micros + offsets_of(rows.session.zone, micros, "util moment")
            backward = since_1970 & (micros < 0)
        if of_days is not None:
            return of_days(np.where(backward, 0, micros // DAY_MICROS))
        if of_micros is not None:
            return np.where(backward, -of_micros(-micros), of_micros(micros)) if backward.any() else of_micros(micros)
        # of an instant, too, these are the seconds of the local time
        return quotient(micros // 1000, 1000)

    return compute


# --- sums and differences ------------------------------------------------------------------------------------


def _bind_add(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return TIMESTAMPADD: a time plus a number of units."""
    refuse_null(call, arguments)
    (number, time), (unit,) = arguments, call.words
    root = time.type.root
    if number.type.root not in INTEGERS or root not in ("DATE", "TIME", *TIMESTAMPS):
        types = f"{shown(number.type)} and {shown(time.type)}"
        raise BindError(f"{call.name}: Flink needs an integer and a time, not {types}", call.offset)
    if unit in _MONTHS:
        return moved(time, multiple(constant(MONTHS, _MONTHS[unit]), number))
    if unit in _MILLIS:
        days = root == "DATE" and unit not in ("WEEK", "DAY")
        result = FlinkType("TIMESTAMP", precision=6) if days else None
        return moved(time, multiple(constant(DAYS, _MILLIS[unit]), number), result=result)
    if unit == "MILLISECOND" and root in TIMESTAMPS:
        result = FlinkType(root, precision=max(3, time.type.precision or 0))
        return moved(time, multiple(constant(DAYS, 1), number), result=result)
    raise BindError(f"{call.name}: Flink does not have {unit} for {shown(time.type)}", call.offset)


def _bind_difference(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return TIMESTAMPDIFF: the whole units from the first time to the second; NULL if an INT can't hold them."""
    refuse_null(call, arguments)
    (first, second), (unit,) = arguments, call.words
    roots = {first.type.root, second.type.root}
    local, instants = roots <= {"DATE", "TIMESTAMP"}, roots == {"TIMESTAMP_LTZ"}
    if not (local or instants or (roots == {"TIME"} and unit in _MILLIS)):
        types = f"{shown(first.type)} and {shown(second.type)}"
        raise BindError(f"{call.name}: Flink does not have {unit} between {types}; cast one of them", call.offset)
    if unit not in (*_MONTHS, *_MILLIS, "MILLISECOND"):
        raise BindError(f"{call.name}: {unit} is not supported; an INT overflows after half an hour", call.offset)

    def evaluate(rows: Rows) -> Vector:
        (a, a_valid), (b, b_valid) = first.evaluate(rows).numbers(), second.evaluate(rows).numbers()
        a, b = _millis(first.type, a), _millis(second.type, b)
        if unit in _MONTHS:
            differences = quotient(_months_between(a, b), _MONTHS[unit])
        elif unit == "MILLISECOND":
            # Flink casts the difference to seconds first
            differences = quotient(b - a, 1000) * 1000
        else:
            differences = quotient(b - a, _MILLIS[unit])
        fits = (differences >= -_INTS) & (differences < _INTS)
        return Vector.of_numbers(INT, (differences * fits).astype(np.int32), a_valid & b_valid & fits)

    return Bound(INT, evaluate)


def _millis(type_: FlinkType, numbers: Numbers) -> Numbers:
    if type_.root == "TIME":
        return numbers
    return numbers.astype(np.int64) * DAY_MILLIS if type_.root == "DATE" else numbers // 1000


def _months_between(first: Numbers, second: Numbers) -> Numbers:
    """Return the whole months between two times in milliseconds (`DateTimeUtils.subtractMonths`).

    Flink compares the times of the day only in one direction: between a time and midnight of its day it is -1.
    """
    day_a, day_b = first // DAY_MILLIS, second // DAY_MILLIS
    earlier, later = np.minimum(day_a, day_b), np.maximum(day_a, day_b)
    (year_a, month_a, _), (year_b, month_b, _) = dates_of(earlier), dates_of(later)
    months = (year_b - year_a) * 12 + month_b - month_a
    months = months - (add_months(earlier, months) > later)
    months = np.where(day_b < day_a, -months, months)
    same_day = add_months(day_a, months) == day_b
    whole_months: Numbers = months - (same_day & (second % DAY_MILLIS < first % DAY_MILLIS))
    return whole_months


# --- the current time ----------------------------------------------------------------------------------------


def _now(type_: FlinkType, compute: Callable[[Rows], int]) -> Function:
    """Return a function of the current time, which `compute` gives for the session of the rows."""

    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        def evaluate(rows: Rows) -> Vector:
            valid: Bools = np.ones(rows.length, np.bool_)
            return Vector.of_numbers(type_, np.full(rows.length, compute(rows), np.int64), valid)

        return Bound(type_, evaluate)

    return Function(bind, 0, 0)


def _instant(rows: Rows) -> int:
    return rows.session.now // 1000 * 1000


def _local(rows: Rows) -> int:
    return int(locals_of_instants(rows.session.zone, np.array([_instant(rows)], np.int64))[0])


def _time_of_day(rows: Rows) -> int:
    return _local(rows) % DAY_MICROS // _SECOND * 1000


_PARTS = {
    "YEAR": "YEAR", "QUARTER": "QUARTER", "MONTH": "MONTH", "WEEK": "WEEK", "DAYOFYEAR": "DOY", "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW", "HOUR": "HOUR", "MINUTE": "MINUTE", "SECOND": "SECOND",
}  # fmt: skip
"""The functions that are short for EXTRACT, with their units."""
_INSTANT = FlinkType("TIMESTAMP_LTZ", precision=3)
FUNCTIONS: dict[str, Function] = {
    **{name: Function(_bind_extract, 1, 1) for name in (*_PARTS, "EXTRACT")},
    "TIMESTAMPADD": Function(_bind_add, 2, 2),
    "TIMESTAMPDIFF": Function(_bind_difference, 2, 2),
    **{name: _now(_INSTANT, _instant) for name in ("CURRENT_ROW_TIMESTAMP", "CURRENT_TIMESTAMP", "NOW", "PROCTIME")},
    **{name: _now(FlinkType("TIME", precision=0), _time_of_day) for name in ("CURRENT_TIME", "LOCALTIME")},
    "CURRENT_DATE": _now(DATE, lambda rows: _local(rows) // DAY_MICROS),
    "LOCALTIMESTAMP": _now(FlinkType("TIMESTAMP", precision=3), _local),
}
