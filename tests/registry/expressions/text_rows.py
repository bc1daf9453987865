"""Evaluate expressions of texts for a few rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kvformat.registry.contract.types import MAX_LENGTH, FlinkType
from kvformat.registry.expressions.rows import Rows, Session
from kvformat.registry.sql.expressions import read_expression

TYPES = {
    "s": FlinkType("VARCHAR", length=MAX_LENGTH),
    "p": FlinkType("VARCHAR", length=MAX_LENGTH),
    "i": FlinkType("INT"),
    "n": FlinkType("BIGINT"),
    "x": FlinkType("VARBINARY", length=MAX_LENGTH),
}
_ARROW = {"s": pa.string(), "p": pa.string(), "i": pa.int32(), "n": pa.int64(), "x": pa.binary()}


def evaluated(expression: str, **columns: list[Any]) -> tuple[list[Any], dict[int, str]]:
    """Return the values of an expression, and the reasons of the rows that fail. Raises `SchemaError`."""
    length = max((len(values) for values in columns.values()), default=1)
    arrays = {name: pa.array(columns.get(name, [None] * length), type_) for name, type_ in _ARROW.items()}
    rows = Rows(arrays, TYPES, length, Session())
    return list(read_expression(expression, TYPES).evaluate(rows).values()), rows.failures


def value(expression: str, **columns: Any) -> Any:
    """Return the value of an expression for one row, which must not fail."""
    values, failures = evaluated(expression, **{name: [one] for name, one in columns.items()})
    assert failures == {}
    return values[0]


def failure(expression: str, **columns: Any) -> str:
    """Return the reason why an expression fails for one row."""
    values, failures = evaluated(expression, **{name: [one] for name, one in columns.items()})
    assert values == [None]
    return failures[0]
