"""TO_TIMESTAMP_LTZ of a number: seconds, or 10^precision parts of a second, since 1970.

Rules: `DateTimeUtils.toTimestampData`, `ToTimestampLtzTypeStrategy`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kvformat.registry.contract.types import FlinkType
from kvformat.registry.expressions import decimals
from kvformat.registry.expressions.bound import FLOATS, INTEGERS, BindError, Bound, by_value, shown
from kvformat.registry.expressions.rows import RowError, Rows
from kvformat.registry.expressions.tree import Call
from kvformat.registry.expressions.vectors import Vector

_FIRST_SECOND, _LAST_SECOND = -62_167_219_200, 253_402_300_799
_MOST_PRECISION, _DEFAULT_PRECISION, _MICROS = 9, 3, 6
"""Digits of a second: of Flink's type, if none are given, and of Arrow's."""
_MOST_PLACES = 300
"""A precision with which every number is less than a second."""
_LONGS = 2**64


def bind_epoch(call: Call, epoch: Bound, precision: Bound | None) -> Bound:
    """Return the instant of a number; NULL before the year 0 and after 9999."""
    if precision is not None and precision.type.root != "INT":
        raise BindError(f"{call.name}: Flink needs an INT as precision, not {shown(precision.type)}", call.offset)
    if precision is None or precision.is_literal:
        places = _DEFAULT_PRECISION if precision is None else precision.literal
        if places is None or not 0 <= places <= _MOST_PRECISION:
            raise BindError(f"{call.name}: the precision must be from 0 to 9, not {places}", call.offset)
        if places > _MICROS:
            raise BindError(
                f"{call.name}: a timestamp has at most microseconds here, so precision {places} is not supported; "
                f"divide the number by {10 ** (places - _MICROS)} and use precision {_MICROS}",
                call.offset,
            )
        type_ = FlinkType("TIMESTAMP_LTZ", precision=max(places, _DEFAULT_PRECISION))
        if epoch.type.root in INTEGERS:
            return _of_integers(type_, epoch, places)
        convert, unit = _converter(epoch.type), 10 ** (_MICROS - (type_.precision or 0))
        return by_value(type_, lambda value: _cut(convert(value, places), unit), [epoch])
    type_ = FlinkType("TIMESTAMP_LTZ", precision=_DEFAULT_PRECISION)
    return by_value(type_, _of_dynamic(epoch.type), [epoch, precision])


def _of_integers(type_: FlinkType, epoch: Bound, places: int) -> Bound:
    factor, nanos = 10**places, 10 ** (9 - places)

    def evaluate(rows: Rows) -> Vector:
        numbers, valid = epoch.evaluate(rows).numbers()
        numbers = numbers.astype(np.int64)
        seconds = numbers // factor
        micros = (numbers - seconds * factor) * nanos // 1000
        in_range = (seconds >= _FIRST_SECOND) & (seconds <= _LAST_SECOND)
        return Vector.of_numbers(type_, seconds * in_range * 1_000_000 + micros, valid & in_range)

    return Bound(type_, evaluate)


def _converter(type_: FlinkType) -> Callable[[int | float, int], int | None]:
    """Return the function of a number and a precision."""
    if type_.root in FLOATS:
        return _of_float
    if type_.root == "DECIMAL":
        unit = 10 ** (type_.scale or 0)
        return lambda number, places: _of_integer(decimals.truncated(int(number), unit), places)
    return lambda number, places: _of_integer(int(number), places)


def _of_integer(number: int, places: int) -> int | None:
    number = (number + _LONGS // 2) % _LONGS - _LONGS // 2
    unit: int = min(10**places, _LONGS // 2 - 1)
    seconds, rest = divmod(number, unit)
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        return None
    nanos = rest * 10 ** (_MOST_PRECISION - places) if places <= _MOST_PRECISION else 0
    return seconds * 1_000_000 + nanos // 1000


def _of_float(number: float, places: int) -> int | None:
    seconds = number / 10.0**places
    if seconds < _FIRST_SECOND or seconds > _LAST_SECOND:
        return None
    nanos = number * 10.0 ** (9 - places)
    if nanos != nanos:
        return 0
    return _of_integer(int(max(min(nanos, _LONGS // 2 - 1), -(_LONGS // 2))), _MOST_PRECISION)


def _of_dynamic(type_: FlinkType) -> Callable[[int | float, int], int | None]:
    """Return the function for a precision that is a column; its digits after the third are dropped."""
    convert = _converter(type_)

    def compute(number: int | float, places: int) -> int | None:
        if places < 0:
            raise RowError(f"TO_TIMESTAMP_LTZ: the precision {places} is negative")
        return _cut(convert(number, min(places, _MOST_PLACES)), 1000)

    return compute


def _cut(micros: int | None, unit: int) -> int | None:
    """Drop the digits that the type does not have, as Flink does when it stores the value."""
    return None if micros is None else micros // unit * unit
