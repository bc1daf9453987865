"""Operators: arithmetic, comparisons, logic, `||`, and the members of ROW, ARRAY and MAP.

Rules: Flink's `ScalarOperatorGens`, `DecimalDataUtils`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kvformat.registry.contract.types import MAX_LENGTH, STRING, FlinkType
from kvformat.registry.expressions import decimals
from kvformat.registry.expressions.bound import (
    BINARIES,
    BOOLEAN,
    DOUBLE,
    FLOATS,
    INTEGERS,
    INTERVALS,
    NULL,
    NUMBERS,
    TEXTS,
    TIMESTAMPS,
    BindError,
    Bound,
    by_value,
    constant,
    once,
    shown,
)
from kvformat.registry.expressions.casts import bind_cast, converter
from kvformat.registry.expressions.rows import RowError, Rows, Session
from kvformat.registry.expressions.time_arithmetic import bind_time_arithmetic
from kvformat.registry.expressions.types import arithmetic_type, common_type, digits
from kvformat.registry.expressions.vectors import DTYPES, Numbers, Vector

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
}
_PYTHON: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


# --- arithmetic ----------------------------------------------------------------------------------------------


def bind_arithmetic(sign: str, left: Bound, right: Bound, offset: int | None) -> Bound:
    """Return `left sign right` for `+ - * / %`."""
    times = (*TIMESTAMPS, "DATE", "TIME", *INTERVALS)
    if left.type.root in times or right.type.root in times:
        return bind_time_arithmetic(sign, left, right, offset)
    left, right = _with_types(left, right)
    type_ = None
    if left.type.root in NUMBERS and right.type.root in NUMBERS:
        type_ = arithmetic_type(sign, left.type, right.type)
    if type_ is None:
        raise BindError(
            f"{sign}: Flink does not have this operation for {shown(left.type)} and {shown(right.type)}", offset
        )
    if type_.root == "DECIMAL":
        return _decimal_arithmetic(sign, left, right, type_)
    if sign == "%" and "DECIMAL" in (left.type.root, right.type.root):
        return bind_cast(_decimal_arithmetic(sign, left, right, _mod_decimal(left.type, right.type)), type_)
    if type_.root in FLOATS:
        return _float_arithmetic(sign, left, right, type_)
    return _integer_arithmetic(sign, left, right, type_)


def _mod_decimal(left: FlinkType, right: FlinkType) -> FlinkType:
    (p1, s1), (p2, s2) = digits(left), digits(right)
    scale = max(s1, s2)
    return FlinkType("DECIMAL", precision=min(38, max(p1 - s1, p2 - s2) + scale), scale=scale)


def _with_types(left: Bound, right: Bound) -> tuple[Bound, Bound]:
    """Give a NULL literal the type of the other operand."""
    if left.type == NULL and right.type != NULL:
        return constant(right.type, None), right
    if right.type == NULL and left.type != NULL:
        return left, constant(left.type, None)
    return left, right


def _integer_arithmetic(sign: str, left: Bound, right: Bound, type_: FlinkType) -> Bound:
    """Integers wrap around, a quotient is truncated, and a division by zero fails."""
    # the remainder is computed with the wider type, its result has the type of the divisor
    wide = common_type((left.type, right.type)) if sign == "%" else type_
    assert wide is not None
    dtype, target = DTYPES[wide.root], DTYPES[type_.root]

    def evaluate(rows: Rows) -> Vector:
        (a, a_valid), (b, b_valid) = left.evaluate(rows).numbers(), right.evaluate(rows).numbers()
        a, b, valid = a.astype(dtype), b.astype(dtype), a_valid & b_valid
        if sign in "/%":
            zero = valid & (b == 0)
            if zero.any():
                for i in np.flatnonzero(zero).tolist():
                    rows.fail(i, f"{sign}: division by zero")
                valid = valid & ~zero
            divisor = np.where(b == 0, 1, b)
            numbers = _quotient(a, divisor) if sign == "/" else np.fmod(a, np.where(divisor == -1, 1, divisor))
        else:
            with np.errstate(over="ignore"):
                numbers = _NUMPY[sign](a, b)
        return Vector.of_numbers(type_, numbers.astype(target), valid)

    return Bound(type_, evaluate)


def _quotient(a: Numbers, b: Numbers) -> Numbers:
    """Divide integers and truncate; the least integer divided by -1 is itself, as in Java."""
    negated = b == -1
    with np.errstate(over="ignore"):
        opposite = np.negative(a)
    b = np.where(negated, 1, b)
    quotient = a // b
    quotient = quotient + ((quotient < 0) & (quotient * b != a))
    return np.where(negated, opposite, quotient)


def _float_arithmetic(sign: str, left: Bound, right: Bound, type_: FlinkType) -> Bound:
    left, right = bind_cast(left, type_), bind_cast(right, type_)

    def evaluate(rows: Rows) -> Vector:
        (a, a_valid), (b, b_valid) = left.evaluate(rows).numbers(), right.evaluate(rows).numbers()
        with np.errstate(all="ignore"):
            numbers = np.divide(a, b) if sign == "/" else _NUMPY[sign](a, b)
        return Vector.of_numbers(type_, numbers, a_valid & b_valid)

    return Bound(type_, evaluate)


def _decimal_arithmetic(sign: str, left: Bound, right: Bound, type_: FlinkType) -> Bound:
    """Exact arithmetic, rounded half up to the scale of the result; too many digits are NULL."""
    precision, scale = digits(type_)
    (_, s1), (_, s2) = digits(left.type), digits(right.type)
    low = max(s1, s2)
    raise1, raise2 = 10 ** (low - s1), 10 ** (low - s2)

    def compute(a: int, b: int) -> int | None:
        if sign == "*":
            return decimals.fitted(a * b, s1 + s2, precision, scale)
        if sign in "+-":
            number = a * raise1 + b * raise2 if sign == "+" else a * raise1 - b * raise2
            return decimals.fitted(number, low, precision, scale)
        if not b:
            raise RowError(f"{sign}: division by zero")
        if sign == "/":
            quotient, of_scale = decimals.divided(a, s1, b, s2)
            return decimals.fitted(quotient, of_scale, precision, scale)
        a, b = a * raise1, b * raise2
        return decimals.fitted(int(math.copysign(1, a)) * (abs(a) % abs(b)), low, precision, scale)

    return by_value(type_, compute, [left, right])


def bind_negative(value: Bound, offset: int | None) -> Bound:
    """Return `-value`; the least integer is its own negative."""
    if value.type == NULL:
        return value
    if value.type.root not in (*NUMBERS, *INTERVALS):
        raise BindError(f"-: needs a number or an interval, not {shown(value.type)}", offset)
    if value.is_literal and value.literal is not None:
        return constant(value.type, -value.literal)
    if value.type.root == "DECIMAL":
        return by_value(value.type, lambda number: -number, [value])

    def evaluate(rows: Rows) -> Vector:
        numbers, valid = value.evaluate(rows).numbers()
        with np.errstate(over="ignore"):
            return Vector.of_numbers(value.type, np.negative(numbers), valid)

    return Bound(value.type, evaluate)


# --- comparisons ---------------------------------------------------------------------------------------------


def bind_comparison(sign: str, left: Bound, right: Bound, offset: int | None) -> Bound:
    """Return a comparison of two values."""
    left, right = _with_types(left, right)
    if left.type == NULL:
        return constant(BOOLEAN, None)
    left, right = _comparable(sign, left, right, offset)
    a, b = left.type.root, right.type.root
    if a in NUMBERS and b in NUMBERS:
        return _number_comparison(sign, left, right)
    if a in DTYPES and a == b:
        return _vector_comparison(sign, left, right, DTYPES[a])
    if (a in TEXTS and b in TEXTS) or (a in BINARIES and b in BINARIES):
        # the order of texts by characters is that of their bytes in UTF-8
        return by_value(BOOLEAN, _PYTHON[sign], [left, right])
    if a == b and left.type.fields and sign in ("=", "<>") and _members_compare(left.type, right.type):
        return by_value(BOOLEAN, _PYTHON[sign], [left, right])
    raise BindError(f"{sign}: Flink does not compare {shown(left.type)} with {shown(right.type)}", offset)


def _members_compare(left: FlinkType, right: FlinkType) -> bool:
    """Return whether nested values are equal when their lists are: not with floats, and only for equal types."""
    plain = all(t.root not in (*FLOATS, "MAP", "MULTISET", "VARIANT") for _, t in left.walk())
    return plain and replace(left, nullable=True) == replace(right, nullable=True)


def _comparable(sign: str, left: Bound, right: Bound, offset: int | None) -> tuple[Bound, Bound]:
    """Cast a text that is compared with a number or a time, as Flink does.

    With `=` and `<>` Flink does not compare it with a number, and a text that is not a time gives NULL; with the others
    such a row fails.
    """
    equality = sign in ("=", "<>")
    if left.type.root in TIMESTAMPS and right.type.root in TIMESTAMPS and left.type.root != right.type.root:
        # both are local times in the session's zone
        common = common_type((left.type, right.type), typed="function")
        assert common is not None
        return bind_cast(left, common), bind_cast(right, common)
    for text, other in ((left, right), (right, left)):
        if text.type.root not in TEXTS or other.type.root in TEXTS:
            continue
        root = other.type.root
        if root in NUMBERS and equality:
            raise BindError(
                f"{sign}: Flink does not compare {shown(other.type)} with a text; cast the text, or write the number "
                "without quotes",
                offset,
            )
        if root in (*NUMBERS, "DATE", "TIME", *TIMESTAMPS):
            cast = bind_cast(text, other.type, tries=equality and not text.is_literal)
            return (cast, other) if text is left else (other, cast)
    return left, right


def _number_comparison(sign: str, left: Bound, right: Bound) -> Bound:
    """Compare numbers. Flink casts the sides of `=` and `<>` to a common type, and no side of an order."""
    a, b = left.type, right.type
    exact = a.root not in FLOATS and b.root not in FLOATS
    if exact and "DECIMAL" in (a.root, b.root):
        (_, s1), (_, s2) = digits(a), digits(b)
        raise1, raise2 = 10 ** max(0, s2 - s1), 10 ** max(0, s1 - s2)
        compare = _PYTHON[sign]
        return by_value(BOOLEAN, lambda x, y: compare(x * raise1, y * raise2), [left, right])
    if exact:
        return _vector_comparison(sign, left, right, np.int64)
    if sign in ("=", "<>"):
        common = common_type((a, b))
        assert common is not None
        return _vector_comparison(sign, bind_cast(left, common), bind_cast(right, common), DTYPES[common.root])
    if "DECIMAL" in (a.root, b.root):
        left, right = bind_cast(left, DOUBLE), bind_cast(right, DOUBLE)
        return _vector_comparison(sign, left, right, np.float64, total=True)
    return _vector_comparison(sign, left, right, np.float64 if "DOUBLE" in (a.root, b.root) else np.float32)


def _vector_comparison(sign: str, left: Bound, right: Bound, dtype: Any, *, total: bool = False) -> Bound:
    """Compare as Java's operators; with `total` as `Double.compare`, where NaN is the greatest and -0.0 before 0.0."""

    def evaluate(rows: Rows) -> Vector:
        (a, a_valid), (b, b_valid) = left.evaluate(rows).numbers(), right.evaluate(rows).numbers()
        a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
        if total:
            a, b = _ordered_bits(a), _ordered_bits(b)
        return Vector.of_numbers(BOOLEAN, _NUMPY[sign](a, b), a_valid & b_valid)

    return Bound(BOOLEAN, evaluate)


def _ordered_bits(numbers: Numbers) -> Numbers:
    """Return integers in the order of `Double.compare`."""
    plain = np.where(np.isnan(numbers), np.nan, numbers)
    bits = plain.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)


def bind_same(sign: str, value: Bound) -> Bound:
    """Return a comparison of a value with itself. Flink decides it by the sign, also for NaN; NULL stays NULL."""
    holds = sign in ("=", "<=", ">=")

    def evaluate(rows: Rows) -> Vector:
        valid = value.evaluate(rows).valid()
        return Vector.of_numbers(BOOLEAN, np.full(rows.length, holds), valid)

    return Bound(BOOLEAN, evaluate)


def bind_in(value: Bound, others: Sequence[Bound], offset: int | None) -> Bound:
    """Return `value IN (...)`. Literals get the type of the value, so that `i IN (12.5)` is `i = 12`, as in Flink."""
    if not all(other.is_literal for other in others) or value.type.root not in (*INTEGERS, *FLOATS, *TEXTS):
        equal = [bind_comparison("=", value, other, offset) for other in others]
        return bind_logic("OR", equal, offset)
    if any((other.type.root in TEXTS) != (value.type.root in TEXTS) for other in others if other.type != NULL):
        raise BindError(f"IN: compares {shown(value.type)} with values of another kind", offset)
    has_null = any(other.literal is None for other in others)
    target = value.type if value.type.root in NUMBERS else STRING
    converts = [converter(other.type, target, offset)(Session()) for other in others if other.literal is not None]
    literals = [other.literal for other in others if other.literal is not None]
    known = {_exact_key(convert(literal)) for convert, literal in zip(converts, literals, strict=True)}

    def compute(item: Any) -> bool | None:
        return True if _exact_key(item) in known else None if has_null else False

    return by_value(BOOLEAN, compute, [value])


def _exact_key(value: Any) -> Any:
    """Return a key that differs for 0.0 and -0.0, as `Double.equals`."""
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def bind_distinct(left: Bound, right: Bound, offset: int | None, *, distinct: bool) -> Bound:
    """Return `left IS [NOT] DISTINCT FROM right`: a comparison in which NULL equals NULL."""
    left, right = map(once, _with_types(left, right))
    equal = bind_comparison("=", left, right, offset)

    def evaluate(rows: Rows) -> Vector:
        nulls = [side.evaluate(rows).valid() for side in (left, right)]
        values, valid = equal.evaluate(rows).numbers()
        same = np.where(valid, values, ~nulls[0] & ~nulls[1])
        return Vector.of_numbers(BOOLEAN, ~same if distinct else same, np.ones(rows.length, np.bool_))

    return Bound(BOOLEAN, evaluate)


# --- logic ---------------------------------------------------------------------------------------------------


def bind_logic(name: str, operands: Sequence[Bound], offset: int | None) -> Bound:
    """Return AND or OR. An operand is only evaluated where those before it do not decide."""
    operands = [_truth(operand, name, offset) for operand in operands]
    stops = name == "OR"

    def evaluate(rows: Rows) -> Vector:
        decided, unknown = np.zeros(rows.length, np.bool_), np.zeros(rows.length, np.bool_)
        for operand in operands:
            rest = ~decided
            if not rest.any():
                break
            values, valid = operand.evaluate(rows.where(rest)).numbers()
            unknown[rest] |= ~valid
            decided[rest] = valid & (values == stops)
        return Vector.of_numbers(BOOLEAN, decided == stops, decided | ~unknown)

    return Bound(BOOLEAN, evaluate)


def _truth(operand: Bound, name: str, offset: int | None) -> Bound:
    if operand.type == NULL:
        return constant(BOOLEAN, None)
    if operand.type != replace(BOOLEAN, nullable=operand.type.nullable):
        raise BindError(f"{name}: needs BOOLEAN, not {shown(operand.type)}", offset)
    return operand


def bind_not(operand: Bound, offset: int | None) -> Bound:
    """Return NOT."""
    operand = _truth(operand, "NOT", offset)

    def evaluate(rows: Rows) -> Vector:
        values, valid = operand.evaluate(rows).numbers()
        return Vector.of_numbers(BOOLEAN, ~values, valid)

    return Bound(BOOLEAN, evaluate)


def bind_is(test: str, operand: Bound, offset: int | None, *, negated: bool) -> Bound:
    """Return `operand IS [NOT] NULL | TRUE | FALSE | UNKNOWN`."""
    if test != "NULL":
        operand = _truth(operand, f"IS {test}", offset)

    def evaluate(rows: Rows) -> Vector:
        vector = operand.evaluate(rows)
        valid = vector.valid()
        if test in ("TRUE", "FALSE"):
            truths = valid & (vector.numbers()[0] == (test == "TRUE"))
        else:
            truths = ~valid
        return Vector.of_numbers(BOOLEAN, ~truths if negated else truths, np.ones(rows.length, np.bool_))

    return Bound(BOOLEAN, evaluate)


# --- texts and members ---------------------------------------------------------------------------------------


def bind_concat(left: Bound, right: Bound, offset: int | None) -> Bound:
    """Return `left || right` of texts or bytes."""
    left, right = _with_types(left, right)
    for fixed, varying in (TEXTS, BINARIES):
        if left.type.root in (fixed, varying) and right.type.root in (fixed, varying):
            root = fixed if left.type.root == right.type.root == fixed else varying
            length = min((left.type.length or 0) + (right.type.length or 0), MAX_LENGTH)
            return by_value(FlinkType(root, length=length), lambda a, b: a + b, [left, right])
    raise BindError(f"||: needs texts, not {shown(left.type)} and {shown(right.type)}; cast the other side", offset)


def bind_field(of: Bound, name: str, offset: int | None) -> Bound:
    """Return the field of a ROW; NULL for a ROW that is NULL."""
    if of.type.root != "ROW":
        raise BindError(f".{name}: only a ROW has fields, not {shown(of.type)}", offset)
    at = next((i for i, field in enumerate(of.type.fields) if field.name == name), None)
    if at is None:
        names = ", ".join(field.name for field in of.type.fields)
        raise BindError(f"{name}: the ROW has no such field; it has {names}", offset)
    return by_value(of.type.fields[at].type, lambda row: row[at], [of])


def bind_item(of: Bound, key: Bound, offset: int | None) -> Bound:
    """Return `array[index]`, from 1, or `map[key]`; NULL if there is none."""
    if of.type.root == "ARRAY":
        if key.type.root not in INTEGERS:
            raise BindError(f"[...]: the index of an ARRAY is an INT, not {shown(key.type)}", offset)
        if key.is_literal and key.literal is not None and key.literal < 1:
            raise BindError("[...]: Flink counts the elements of an ARRAY from 1", offset)
        return by_value(of.type.fields[0].type, _element, [of, key])
    if of.type.root == "MAP":
        key = bind_cast(key, of.type.fields[0].type, offset=offset)
        return by_value(of.type.fields[1].type, _map_value, [of, key])
    raise BindError(f"[...]: only an ARRAY or a MAP has elements, not {shown(of.type)}", offset)


def _element(array: list[Any], index: int) -> Any:
    return array[index - 1] if 1 <= index <= len(array) else None


def _map_value(pairs: list[tuple[Any, Any]], key: Any) -> Any:
    return next((value for entry_key, value in pairs if entry_key == key), None)
