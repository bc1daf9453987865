"""Times and intervals: `ts + INTERVAL '1' DAY`, `ts - INTERVAL '1' MONTH`, sums and multiples of intervals.

An instant (TIMESTAMP_LTZ) is moved in UTC: a day is 24 hours, also where clocks change. A DATE stays a DATE: of an
interval of days and hours only whole days count. Rules: `ScalarOperatorGens.generateTemporalPlusMinus`.
"""

from __future__ import annotations

import numpy as np

from kvformat.registry.contract.types import FlinkType
from kvformat.registry.expressions.bound import (
    DATE,
    DAYS,
    INTEGERS,
    INTERVALS,
    MONTHS,
    NULL,
    TIMESTAMPS,
    BindError,
    Bound,
    constant,
    shown,
)
from kvformat.registry.expressions.local_times import DAY_MICROS, DAY_MILLIS, dates_of, days_of_dates, month_lengths
from kvformat.registry.expressions.rows import Rows
from kvformat.registry.expressions.vectors import DTYPES, Bools, Numbers, Vector

_MOST_MICROS = 2.0**63
"""Microseconds that 64 bits hold."""
_TIMES = ("DATE", "TIME", *TIMESTAMPS)


def bind_time_arithmetic(sign: str, left: Bound, right: Bound, offset: int | None) -> Bound:
    """Return a time plus or minus an interval, the sum or difference of two intervals, or a multiple of one."""
    if sign == "+" and left.type.root in INTERVALS and right.type.root in _TIMES and right.type.root != "TIMESTAMP_LTZ":
        left, right = right, left
    if sign in "+-" and right.type == NULL:
        right = constant(left.type if left.type.root in INTERVALS else DAYS, None)
    if sign in "+-" and left.type == NULL and right.type.root in INTERVALS:
        left = constant(right.type, None)
    if sign in "+-":
        if left.type.root in _TIMES and right.type.root in INTERVALS:
            return moved(left, right, negative=sign == "-")
        if left.type.root in INTERVALS and left.type.root == right.type.root:
            return _sum(sign, left, right)
    if sign == "*":
        for interval, number in ((left, right), (right, left)):
            if interval.type.root in INTERVALS and number.type.root in INTEGERS:
                return multiple(interval, number)
    raise BindError(
        f"{sign}: Flink does not have this operation for {shown(left.type)} and {shown(right.type)}; the time between "
        "two timestamps is TIMESTAMPDIFF(SECOND, a, b)",
        offset,
    )


def _sum(sign: str, left: Bound, right: Bound) -> Bound:
    def evaluate(rows: Rows) -> Vector:
        (a, a_valid), (b, b_valid) = left.evaluate(rows).numbers(), right.evaluate(rows).numbers()
        with np.errstate(over="ignore"):
            return Vector.of_numbers(left.type, a + b if sign == "+" else a - b, a_valid & b_valid)

    return Bound(left.type, evaluate)


def multiple(interval: Bound, number: Bound) -> Bound:
    """Return an interval times an integer, with the low bits of the product, as in Java."""

    def evaluate(rows: Rows) -> Vector:
        (size, a_valid), (by, b_valid) = interval.evaluate(rows).numbers(), number.evaluate(rows).numbers()
        with np.errstate(over="ignore"):
            product = size.astype(np.int64) * by.astype(np.int64)
        return Vector.of_numbers(interval.type, product.astype(DTYPES[interval.type.root]), a_valid & b_valid)

    return Bound(interval.type, evaluate)


def moved(time: Bound, interval: Bound, *, negative: bool = False, result: FlinkType | None = None) -> Bound:
    """Return a time moved by an interval.

    result: the type, if it is not that of the time: TIMESTAMP to move a DATE by parts of a day. A DATE that is out of
    range fails the row; a timestamp that microseconds can't represent is NULL.
    """
    root, by_months = time.type.root, interval.type.root == MONTHS.root
    type_ = time.type if result is None else result

    def evaluate(rows: Rows) -> Vector:
        (start, a_valid), (by, b_valid) = time.evaluate(rows).numbers(), interval.evaluate(rows).numbers()
        start, by, valid = start.astype(np.int64), by.astype(np.int64), a_valid & b_valid
        with np.errstate(over="ignore"):
            by = -by if negative else by
        if root == "TIME":
            numbers = start if by_months else (start + by % DAY_MILLIS) % DAY_MILLIS
        elif root == DATE.root and type_.root == DATE.root:
            days = add_months(start, by) if by_months else start + np.sign(by) * (np.abs(by) // DAY_MILLIS)
            in_range = days == days.astype(np.int32)  # others fail, as in Flink when it reads the date
            for index in np.flatnonzero(valid & ~in_range).tolist():
                rows.fail(index, "the date is out of range")
            return Vector.of_numbers(DATE, days.astype(np.int32), valid & in_range)
        elif by_months:
            days = start // DAY_MICROS
            numbers, valid = _micros(add_months(days, by), start - days * DAY_MICROS, valid)
        elif root == DATE.root:
            numbers, valid = _micros(start + by // DAY_MILLIS, by % DAY_MILLIS * 1000, valid)
        else:
            numbers, valid = _micros(by // DAY_MILLIS, start + by % DAY_MILLIS * 1000, valid)
        return Vector.of_numbers(type_, numbers, valid)

    return Bound(type_, evaluate)


def _micros(days: Numbers, micros: Numbers, valid: Bools) -> tuple[Numbers, Bools]:
    """Return the timestamps of days and microseconds; NULL where they are out of range of a timestamp."""
    about = days.astype(np.float64) * DAY_MICROS + micros
    fits: Bools = np.abs(about) < _MOST_MICROS * 0.999
    with np.errstate(over="ignore"):
        return days * DAY_MICROS + micros, valid & fits


def add_months(days: Numbers, months: Numbers) -> Numbers:
    """Return dates some months later; of a day that the month does not have the last one."""
    year, month, day = dates_of(days)
    number = year * 12 + month - 1 + months
    year = number // 12
    month = number - year * 12 + 1
    return days_of_dates(year, month, np.minimum(day, month_lengths(year, month)))
