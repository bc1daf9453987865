"""Flink's types of results: of arithmetic, and the common type of several operands.

Rules: Calcite's `leastRestrictive` with Flink's type system, and `LogicalTypeMerging`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from kvformat.registry.contract.common_types import INTEGER_DIGITS
from kvformat.registry.contract.types import FlinkField, FlinkType
from kvformat.registry.expressions.bound import BINARIES, DOUBLE, FLOATS, INTEGERS, NULL, NUMBERS, TEXTS, TIMESTAMPS

Typed = Literal["operator", "function"]
MOST_DIGITS = 38
"""Digits of a DECIMAL, as in Flink."""
_LEAST_SCALE = 6


def decimal(precision: int, scale: int) -> FlinkType:
    """Return a DECIMAL."""
    return FlinkType("DECIMAL", precision=precision, scale=scale)


def digits(type_: FlinkType) -> tuple[int, int]:
    """Return precision and scale of a DECIMAL or an integer."""
    if type_.root == "DECIMAL":
        assert type_.precision is not None
        assert type_.scale is not None
        return type_.precision, type_.scale
    return INTEGER_DIGITS[type_.root], 0


def _fitted(precision: int, scale: int) -> FlinkType:
    """Return a DECIMAL of at most 38 digits, which keeps the digits before the point and at least 6 after it."""
    if precision <= MOST_DIGITS:
        return decimal(precision, scale)
    return decimal(MOST_DIGITS, max(MOST_DIGITS - (precision - scale), min(scale, _LEAST_SCALE)))


def arithmetic_type(sign: str, left: FlinkType, right: FlinkType) -> FlinkType | None:
    """Return the type of `left sign right` for two numbers; None if Flink does not have this operation."""
    exact = left.root not in FLOATS and right.root not in FLOATS
    if exact and "DECIMAL" in (left.root, right.root):
        (p1, s1), (p2, s2) = digits(left), digits(right)
        whole = max(p1 - s1, p2 - s2)
        if sign in "+-":
            return _fitted(whole + max(s1, s2) + 1, max(s1, s2))
        if sign == "*":
            return _fitted(p1 + p2 + 1, s1 + s2)
        if sign == "/":
            scale = max(_LEAST_SCALE, s1 + p2 + 1)
            return _fitted(p1 - s1 + s2 + scale, scale)
        if s1 == s2 == 0:
            return right
        return _fitted(min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2))
    if sign == "%":
        return right if exact else None
    return common_type((left, right))


def round_type(type_: FlinkType, places: int) -> FlinkType:
    """Return the type of a DECIMAL rounded to a number of places."""
    precision, scale = digits(type_)
    if places >= scale:
        return type_
    if places < 0:
        return decimal(min(MOST_DIGITS, 1 + precision - scale), 0)
    return decimal(1 + precision - scale + places, places)


def common_type(types: Sequence[FlinkType], *, typed: Typed = "operator") -> FlinkType | None:
    """Return the type that holds the values of all types; None if there is none. NULL counts as any type.

    Operators and CASE follow Calcite, the newer functions of Flink `LogicalTypeMerging`. They differ for FLOAT with
    DOUBLE and with DECIMAL.
    """
    common = NULL
    for type_ in types:
        if type_ in (NULL, common):
            continue
        merged = type_ if common == NULL else _merged(common, type_, typed)
        if merged is None:
            return None
        common = merged
    return common


def _merged(left: FlinkType, right: FlinkType, typed: Typed) -> FlinkType | None:
    for fixed, varying in (TEXTS, BINARIES):
        if left.root in (fixed, varying) and right.root in (fixed, varying):
            same = left.root == right.root == fixed and left.length == right.length
            return FlinkType(fixed if same else varying, length=max(left.length or 0, right.length or 0))
    if left.root in NUMBERS and right.root in NUMBERS:
        return _common_number(left, right, typed)
    if left.root in TIMESTAMPS and right.root in TIMESTAMPS:
        # of different kinds CASE has that of its last branch, a newer function always an instant
        root = right.root if typed == "operator" or left.root == right.root else "TIMESTAMP_LTZ"
        return FlinkType(root, precision=max(left.precision or 0, right.precision or 0))
    if left.root != right.root:
        return None
    if left.root == "TIME":
        return replace(left, precision=max(left.precision or 0, right.precision or 0))
    if left.fields and len(left.fields) == len(right.fields):
        fields = []
        for a, b in zip(left.fields, right.fields, strict=True):
            common = common_type((a.type, b.type), typed=typed)
            if common is None:
                return None
            fields.append(FlinkField(a.name, common))
        return FlinkType(left.root, fields=tuple(fields))
    return left if replace(left, nullable=True) == replace(right, nullable=True) else None


def _common_number(left: FlinkType, right: FlinkType, typed: Typed) -> FlinkType:
    if typed == "function" and right.root in FLOATS:
        both = left.root in FLOATS
        return DOUBLE if both and DOUBLE.root in (left.root, right.root) else right
    approximate = [type_ for type_ in (left, right) if type_.root in FLOATS]
    if approximate:
        # of FLOAT and DOUBLE the first counts: Calcite compares their precisions, which are equal in Flink
        return DOUBLE if "DECIMAL" in (left.root, right.root) else approximate[0]
    if left.root in INTEGERS and right.root in INTEGERS:
        return max(left, right, key=lambda type_: INTEGERS.index(type_.root))
    (p1, s1), (p2, s2) = digits(left), digits(right)
    whole = min(max(p1 - s1, p2 - s2), MOST_DIGITS)
    scale = min(max(s1, s2), MOST_DIGITS - whole)
    return decimal(whole + scale, scale)
