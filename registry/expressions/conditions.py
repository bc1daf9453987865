"""CASE, IF, COALESCE, IFNULL and NULLIF. A branch is evaluated only for the rows that need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kvformat.registry.contract.types import FlinkType
from kvformat.registry.expressions.bound import BOOLEAN, NULL, BindError, Bound, constant, may_be_null, once, shown
from kvformat.registry.expressions.casts import bind_cast
from kvformat.registry.expressions.operators import bind_comparison
from kvformat.registry.expressions.rows import Rows
from kvformat.registry.expressions.types import Typed, common_type
from kvformat.registry.expressions.vectors import Bools, Vector, joined


def with_common_type(
    name: str, values: Sequence[Bound], offset: int | None, *, typed: Typed = "operator"
) -> list[Bound]:
    """Cast values to their common type. Raises `BindError` if there is none."""
    common = common_type([value.type for value in values], typed=typed)
    if common is None:
        types = ", ".join(shown(value.type) for value in values)
        raise BindError(f"{name}: its results have no common type: {types}; cast them to one", offset)
    if common == NULL:
        raise BindError(f"{name}: every result is NULL; cast one of them, as in CAST(NULL AS INT)", offset)
    return [bind_cast(value, common, offset=offset) for value in values]


def bind_case(operands: Sequence[Bound], offset: int | None, *, name: str = "CASE", typed: Typed = "operator") -> Bound:
    """Return CASE WHEN; `operands` are conditions and results by turns, and the result of ELSE."""
    conditions = list(operands[:-1:2])
    for condition in conditions:
        if condition.type.root not in (BOOLEAN.root, NULL.root):
            raise BindError(f"{name}: a condition must be BOOLEAN, not {shown(condition.type)}", offset)
    conditions = [constant(BOOLEAN, None) if condition.type == NULL else condition for condition in conditions]
    results = with_common_type(name, [*operands[1::2], operands[-1]], offset, typed=typed)

    def evaluate(rows: Rows) -> Vector:
        rest = np.ones(rows.length, np.bool_)
        parts: list[Vector] = []
        places: list[Bools] = []
        for condition, result in zip(conditions, results[:-1], strict=True):
            if not rest.any():
                break
            chosen = np.zeros(rows.length, np.bool_)
            truths, valid = condition.evaluate(rows.where(rest)).numbers()
            chosen[rest] = truths & valid
            if chosen.any():
                parts.append(result.evaluate(rows.where(chosen)))
                places.append(chosen)
            rest = rest & ~chosen
        if rest.any() or not parts:
            parts.append(results[-1].evaluate(rows.where(rest)))
            places.append(rest)
        return _scattered(results[0].type, parts, places)

    return Bound(results[0].type, evaluate)


def bind_coalesce(values: Sequence[Bound], offset: int | None, *, name: str = "COALESCE") -> Bound:
    """Return the first value that is not NULL."""
    choices = with_common_type(name, values, offset, typed="function")

    def evaluate(rows: Rows) -> Vector:
        rest = np.ones(rows.length, np.bool_)
        parts: list[Vector] = []
        places: list[Bools] = []
        for i, value in enumerate(choices):
            if not rest.any():
                break
            vector = value.evaluate(rows.where(rest))
            known = vector.valid() if i < len(choices) - 1 else np.ones(vector.length, np.bool_)
            chosen = np.zeros(rows.length, np.bool_)
            chosen[rest] = known
            parts.append(vector.take(np.flatnonzero(known)))
            places.append(chosen)
            rest = rest & ~chosen
        if not parts:
            return choices[0].evaluate(rows)
        return _scattered(choices[0].type, parts, places)

    # of the value as it is given: a literal that is cast is no literal
    return Bound(replace(choices[0].type, nullable=may_be_null(values[-1])), evaluate)


def _scattered(type_: FlinkType, parts: Sequence[Vector], places: Sequence[Bools]) -> Vector:
    """Return the values of several selections of rows in the order of the rows."""
    order = np.concatenate([np.flatnonzero(place) for place in places])
    indexes = np.empty(len(order), np.intp)
    indexes[order] = np.arange(len(order))
    return joined(type_, parts, indexes)


def bind_nullif(value: Bound, other: Bound, offset: int | None) -> Bound:
    """Return NULL if both are equal, else the first."""
    value = once(value)
    equal = bind_comparison("=", value, other, offset)
    null, result = with_common_type("NULLIF", [constant(value.type, None), value], offset)

    def evaluate(rows: Rows) -> Vector:
        truths, valid = equal.evaluate(rows).numbers()
        same = truths & valid
        parts = [null.evaluate(rows.where(same)), result.evaluate(rows).take(np.flatnonzero(~same))]
        return _scattered(result.type, parts, [same, ~same])

    return Bound(result.type, evaluate)
