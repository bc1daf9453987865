"""A typed expression: what `bind` makes of a syntax tree, and how rows are evaluated with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from kvformat.registry.contract.types import INTEGER_BITS, FlinkType
from kvformat.registry.expressions.rows import RowError, Rows
from kvformat.registry.expressions.vectors import DTYPES, Vector

NOT_LITERAL: Final = object()
NULL: Final = FlinkType("NULL")
"""The type of the literal NULL. It becomes that of the other operands, and BOOLEAN if there are none."""

BOOLEAN, INT, BIGINT, DOUBLE = (FlinkType(root) for root in ("BOOLEAN", "INT", "BIGINT", "DOUBLE"))
DATE = FlinkType("DATE")
DAYS, MONTHS = FlinkType("INTERVAL DAY TO SECOND"), FlinkType("INTERVAL YEAR TO MONTH")

TEXTS: Final = ("CHAR", "VARCHAR")
BINARIES: Final = ("BINARY", "VARBINARY")
INTEGERS: Final = tuple(INTEGER_BITS)
FLOATS: Final = ("FLOAT", "DOUBLE")
NUMBERS: Final = (*INTEGERS, "DECIMAL", *FLOATS)
TIMESTAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
INTERVALS: Final = (DAYS.root, MONTHS.root)


class BindError(Exception):
    """An expression that can't be evaluated as Flink does; the text says why. `offset` is its place in the text."""

    def __init__(self, why: str, offset: int | None = None) -> None:
        super().__init__(why)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Bound:
    """A typed expression.

    evaluate: returns the values for some rows. It never raises for a value: `Rows.fail` notes the rows that fail, whose
    values are then NULL.
    literal: the value of a literal, else `NOT_LITERAL`.
    """

    type: FlinkType
    evaluate: Callable[[Rows], Vector]
    literal: Any = NOT_LITERAL

    @property
    def is_literal(self) -> bool:
        """Whether this is a literal."""
        return self.literal is not NOT_LITERAL


def constant(type_: FlinkType, value: Any) -> Bound:
    """Return a literal."""

    def evaluate(rows: Rows) -> Vector:
        if type_.root in DTYPES:
            filled = np.full(rows.length, 0 if value is None else value, DTYPES[type_.root])
            return Vector.of_numbers(type_, filled, np.full(rows.length, value is not None))
        return Vector.of_values(type_, [value] * rows.length)

    return Bound(type_, evaluate, value)


def once(value: Bound) -> Bound:
    """Return an expression that is evaluated once for the same rows, although several others use it."""
    return replace(value, evaluate=lambda rows: rows.once(value.evaluate))


def by_value(
    type_: FlinkType, function: Callable[..., Any], arguments: Sequence[Bound], *, nulls: bool = False
) -> Bound:
    """Return a call that computes one value at a time.

    `function` gets the values of the arguments; it raises `RowError` where Flink fails. If one of them is NULL the
    result is NULL, unless `nulls` passes them to the function.
    """
    return with_session(type_, lambda _: function, arguments, nulls=nulls)


def with_session(
    type_: FlinkType, factory: Callable[[Rows], Callable[..., Any]], arguments: Sequence[Bound], *, nulls: bool = False
) -> Bound:
    """Return a call like `by_value`; `factory` returns its function for some rows."""
    arguments = tuple(arguments)

    def evaluate(rows: Rows) -> Vector:
        columns = [argument.evaluate(rows).values() for argument in arguments]
        return Vector.of_values(type_, mapped(rows, factory(rows), columns, nulls=nulls))

    return Bound(type_, evaluate)


def mapped(rows: Rows, function: Callable[..., Any], columns: Sequence[list[Any]], *, nulls: bool = False) -> list[Any]:
    """Return the results of a function for each row of some columns; a row that raises `RowError` fails."""
    try:
        if nulls or not columns:
            return (
                [function(*row) for row in zip(*columns, strict=True)]
                if columns
                else [function() for _ in range(rows.length)]
            )
        if len(columns) == 1:
            return [None if value is None else function(value) for value in columns[0]]
        if len(columns) == 2:
            return [
                None if a is None or b is None else function(a, b) for a, b in zip(columns[0], columns[1], strict=True)
            ]
        return [None if any(v is None for v in row) else function(*row) for row in zip(*columns, strict=True)]
    except RowError:
        pass
    results: list[Any] = []
    for i, row in enumerate(zip(*columns, strict=True) if columns else [()] * rows.length):
        value = None
        if nulls or not any(v is None for v in row):
            try:
                value = function(*row)
            except RowError as error:
                rows.fail(i, str(error))
        results.append(value)
    return results


def may_be_null(value: Bound) -> bool:
    """Return whether a value may be NULL: not a literal, nor a COALESCE that ends with one."""
    return value.literal is None if value.is_literal else value.type.nullable


def shown(type_: FlinkType) -> str:
    """Return a type for an error."""
    return "NULL" if type_ == NULL else type_.summary()
