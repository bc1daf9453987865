"""Functions of numbers.

    ABS(-128) of a TINYINT   -128: integers wrap around
    LN(0)                    -Infinity, and NaN for a negative number
    ROUND(c, 1)              a DECIMAL with one digit after the point, rounded half up

Rules: `SqlFunctionUtils`, `java.lang.Math`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from kvformat.registry.contract.types import INTEGER_BITS
from kvformat.registry.expressions import decimals
from kvformat.registry.expressions.bound import DOUBLE, INT, INTEGERS, BindError, Bound, by_value
from kvformat.registry.expressions.casts import bind_cast
from kvformat.registry.expressions.functions.signatures import Function, by_values, checked
from kvformat.registry.expressions.functions.times import bind_floor_to
from kvformat.registry.expressions.operators import bind_arithmetic
from kvformat.registry.expressions.rows import RowError, Rows
from kvformat.registry.expressions.tree import Call
from kvformat.registry.expressions.types import MOST_DIGITS, decimal, digits, round_type
from kvformat.registry.expressions.vectors import Numbers, Vector
from kvformat.registry.java.numbers import double_text_java17
from kvformat.registry.java.parse import round_to_float

_MOST_PLACES = 10_000
"""Places of ROUND beyond which Java runs out of memory or of its exponents."""
_TRUNCATED_SCALE = 18
_EXACT = Context(prec=_MOST_PLACES * 3)
_PER_DEGREE, _PER_RADIAN = 0.017453292519943295, 57.29577951308232  # as in java.lang.Math


# --- functions of DOUBLE -------------------------------------------------------------------------------------


def _of_doubles(compute: Callable[..., Numbers], count: int = 1) -> Function:
    """Return a function of numbers that are cast to DOUBLE, for whole columns."""

    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        values = checked(call, arguments, "DOUBLE DOUBLE")

        def evaluate(rows: Rows) -> Vector:
            columns = [value.evaluate(rows).numbers() for value in values]
            with np.errstate(all="ignore"):
                numbers = compute(*(column for column, _ in columns))
            return Vector.of_numbers(DOUBLE, numbers, np.logical_and.reduce([valid for _, valid in columns]))

        return Bound(DOUBLE, evaluate)

    return Function(bind, count, count)


def _exactly(compute: Callable[..., float], special: Callable[..., Any], count: int = 1) -> Function:
    """Return a function of numbers that are cast to DOUBLE, for one value at a time.

    `compute` is of Python's `math`, whose results are nearer to Java's than those of NumPy. `special` gives the result
    where it raises: NaN, or infinity.
    """

    def value_of(*values: float) -> float:
        try:
            return compute(*values)
        except (ValueError, ArithmeticError):
            with np.errstate(all="ignore"):
                return float(special(*map(np.float64, values)))

    return by_values(value_of, " ".join(["DOUBLE"] * count), DOUBLE)


def _power(base: float, exponent: float) -> float:
    """Raise to a power as Java does: the powers of 1 and -1 are NaN where those of C are 1."""
    if (math.isnan(exponent) and base == 1) or (math.isinf(exponent) and abs(base) == 1):
        return math.nan
    return math.pow(base, exponent)


_LN = _exactly(math.log, np.log)
_LOG_OF_BASE = _exactly(lambda base, x: math.log(x) / math.log(base), lambda base, x: np.log(x) / np.log(base), 2)


# --- functions that keep the type ----------------------------------------------------------------------------


def _keeping(of_numbers: Callable[[Numbers], Numbers], of_decimal: Callable[[int, int], int]) -> Function:
    """Return a function whose result has the type of its argument.

    `of_decimal` gets an unscaled number and the 10^scale of its type.
    """

    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        (value,) = checked(call, arguments, "NUMBER")
        if value.type.root == "DECIMAL":
            unit = 10 ** digits(value.type)[1]
            return by_value(value.type, lambda number: of_decimal(number, unit), [value])

        def evaluate(rows: Rows) -> Vector:
            numbers, valid = value.evaluate(rows).numbers()
            with np.errstate(all="ignore"):
                return Vector.of_numbers(value.type, of_numbers(numbers), valid)

        return Bound(value.type, evaluate)

    return Function(bind, 1, 1)


def _floor_or_ceil(of_floats: Callable[[Numbers], Numbers], of_decimal: Callable[[int, int], int]) -> Function:
    """Return FLOOR or CEIL of a number, or of a time `TO` a unit. Of a DECIMAL(p, s) it is a DECIMAL(p, 0)."""

    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        if call.words:
            return bind_floor_to(call, arguments)
        (value,) = checked(call, arguments, "NUMBER")
        if value.type.root in INTEGERS:
            return value
        if value.type.root == "DECIMAL":
            precision, scale = digits(value.type)
            unit = 10**scale
            return by_value(decimal(precision, 0), lambda number: of_decimal(number, unit), [value])

        def evaluate(rows: Rows) -> Vector:
            numbers, valid = value.evaluate(rows).numbers()
            return Vector.of_numbers(value.type, of_floats(numbers), valid)

        return Bound(value.type, evaluate)

    return Function(bind, 1, 1)


# --- ROUND and TRUNCATE --------------------------------------------------------------------------------------


def _bind_round(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return a number rounded half up to so many places after the point, 0 if not given."""
    value, *places = checked(call, arguments, "NUMBER INTEGER")
    if value.type.root == "DECIMAL":
        return _decimal_places(call, value, places, decimals.half_up)
    return _number_places(value, places, _rounded_integer if value.type.root in INTEGERS else _rounded_float)


def _bind_truncate(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return a number without the digits after so many places. Flink computes it with DECIMAL(38, 18)."""
    value, *places = checked(call, arguments, "NUMBER INTEGER")
    if value.type.root == "DECIMAL":
        return _decimal_places(call, value, places, decimals.truncated)
    if value.type.root in ("TINYINT", "SMALLINT"):
        raise BindError(f"TRUNCATE: Flink fails for {value.type}; cast it to INT", call.offset)
    return _number_places(value, places, _truncated_integer if value.type.root in INTEGERS else _truncated_float)


def _number_places(value: Bound, places: Sequence[Bound], compute: Callable[[Any, int], Any]) -> Bound:
    type_ = value.type
    if type_.root == "FLOAT":
        return _number_places_of_float(value, places, compute)
    half = 1 << (INTEGER_BITS.get(type_.root, 64) - 1)

    def of_number(number: Any, count: int = 0) -> Any:
        rounded = compute(number, count)
        return (rounded + half) % (2 * half) - half if isinstance(rounded, int) else rounded

    return by_value(type_, of_number, [value, *(bind_cast(place, INT) for place in places)])


def _number_places_of_float(value: Bound, places: Sequence[Bound], compute: Callable[[Any, int], Any]) -> Bound:
    def of_number(number: float, count: int = 0) -> float:
        return round_to_float(compute(number, count))

    return by_value(value.type, of_number, [value, *(bind_cast(place, INT) for place in places)])


def _rounded_integer(number: int, places: int) -> int:
    if not number:
        return 0
    _check_places("ROUND", places)
    return number if places >= 0 else decimals.rescaled(number, 0, places) * 10**-places


def _rounded_float(number: float, places: int) -> float:
    if not math.isfinite(number):
        raise RowError(f"ROUND: {double_text_java17(number)} has no digits")
    _check_places("ROUND", places)
    exact = Decimal(double_text_java17(number))
    return float(exact.quantize(Decimal((0, (1,), -places)), rounding=ROUND_HALF_UP, context=_EXACT))


def _truncated_integer(number: int, places: int) -> int:
    if number:
        _check_places("TRUNCATE", min(places, 0))
    return number if places >= 0 else decimals.truncated(number, 10 ** -max(places, -40)) * 10 ** -max(places, -40)


def _truncated_float(number: float, places: int) -> float:
    if not math.isfinite(number):
        raise RowError(f"TRUNCATE: {double_text_java17(number)} has no digits")
    exact = Decimal(double_text_java17(number))
    unscaled = int(exact.scaleb(_TRUNCATED_SCALE, _EXACT).to_integral_value(ROUND_HALF_UP, _EXACT))
    if abs(unscaled) >= 10**MOST_DIGITS:
        raise RowError(f"TRUNCATE: {double_text_java17(number)} is out of range of DECIMAL(38, 18)")
    if places < _TRUNCATED_SCALE:
        unit = 10 ** (_TRUNCATED_SCALE - max(places, -40))
        unscaled = decimals.truncated(unscaled, unit) * unit
    return decimals.to_double(unscaled, MOST_DIGITS, _TRUNCATED_SCALE)


def _check_places(name: str, places: int) -> None:
    if abs(places) > _MOST_PLACES:
        raise RowError(f"{name}: {places} places are more than {_MOST_PLACES}")


def _decimal_places(call: Call, value: Bound, places: Sequence[Bound], shorten: Callable[[int, int], int]) -> Bound:
    if places and (not places[0].is_literal or places[0].literal is None):
        why = "of a DECIMAL it needs the places as a literal, because they decide its type"
        raise BindError(f"{call.name}: {why}", call.offset)
    wanted = places[0].literal if places else 0
    precision, scale = digits(value.type)
    if wanted >= scale:
        return value
    target = round_type(value.type, wanted)
    to_precision, to_scale = digits(target)
    unit, back = 10 ** (scale - max(wanted, -precision - 1)), 10 ** max(0, -max(wanted, -precision - 1))

    def compute(number: int) -> int | None:
        return decimals.fitted(shorten(number, unit) * back, max(wanted, 0), to_precision, to_scale)

    return by_value(target, compute, [value])


# --- the rest ------------------------------------------------------------------------------------------------


def _bind_rand(call: Call, arguments: Sequence[Bound]) -> Bound:
    if arguments:
        raise BindError(f"{call.name}: with a seed its values depend on the order of all rows", call.offset)
    return by_value(DOUBLE, random.random, [])


def _ceil(number: int, unit: int) -> int:
    return -(-number // unit)


def _sign(number: int, unit: int) -> int:
    return ((number > 0) - (number < 0)) * unit


_OF_MATH: dict[str, tuple[Callable[[float], float], Callable[[Any], Any]]] = {
    "ACOS": (math.acos, np.arccos),
    "ASIN": (math.asin, np.arcsin),
    "ATAN": (math.atan, np.arctan),
    "COS": (math.cos, np.cos),
    "COSH": (math.cosh, np.cosh),
    "COT": (lambda x: 1.0 / math.tan(x) if x else math.copysign(math.inf, x), lambda x: 1.0 / np.tan(x)),
    "EXP": (math.exp, np.exp),
    "LOG10": (math.log10, np.log10),
    "LOG2": (lambda x: math.log(x) / math.log(2.0), lambda x: np.log(x) / math.log(2.0)),
    "SIN": (math.sin, np.sin),
    "SINH": (math.sinh, np.sinh),
    "SQRT": (lambda x: _power(x, 0.5), lambda x: np.power(x, 0.5)),
    "TAN": (math.tan, np.tan),
    "TANH": (math.tanh, np.tanh),
}
FUNCTIONS: dict[str, Function] = {
    **{name: _exactly(compute, special) for name, (compute, special) in _OF_MATH.items()},
    "ABS": _keeping(np.abs, lambda number, _: abs(number)),
    "ATAN2": _exactly(math.atan2, np.arctan2, 2),
    "CEIL": _floor_or_ceil(np.ceil, _ceil),
    "CEILING": _floor_or_ceil(np.ceil, _ceil),
    "DEGREES": _of_doubles(lambda x: x * _PER_RADIAN),
    "E": by_values(lambda: math.e, "", DOUBLE),
    "FLOOR": _floor_or_ceil(np.floor, lambda number, unit: number // unit),
    "LN": _LN,
    "LOG": Function(lambda call, arguments: (_LN if len(arguments) == 1 else _LOG_OF_BASE)(call, arguments), 1, 2),
    "MOD": Function(lambda call, arguments: bind_arithmetic("%", arguments[0], arguments[1], call.offset), 2, 2),
    "PI": by_values(lambda: math.pi, "", DOUBLE),
    "POWER": _exactly(_power, np.power, 2),
    "RADIANS": _of_doubles(lambda x: x * _PER_DEGREE),
    "RAND": Function(_bind_rand, 0, 1),
    "ROUND": Function(_bind_round, 1, 2),
    "SIGN": _keeping(np.sign, _sign),
    "TRUNCATE": Function(_bind_truncate, 1, 2),
}
