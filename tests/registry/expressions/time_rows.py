"""Evaluate expressions of times for a few rows; times are ISO texts: `2024-03-10T07:30:00`, also instants in UTC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kvformat.registry.contract.types import MAX_LENGTH, FlinkType
from kvformat.registry.expressions.rows import Rows, Session
from kvformat.registry.sql.expressions import read_expression

TYPES = {
    "s": FlinkType("VARCHAR", length=MAX_LENGTH),
    "p": FlinkType("VARCHAR", length=MAX_LENGTH),
    "i": FlinkType("INT"),
    "n": FlinkType("BIGINT"),
    "f": FlinkType("DOUBLE"),
    "d": FlinkType("DATE"),
    "ts": FlinkType("TIMESTAMP", precision=6),
    "tt": FlinkType("TIMESTAMP", precision=6),
    "lz": FlinkType("TIMESTAMP_LTZ", precision=6),
}
_ARROW = {
    "VARCHAR": pa.string(), "INT": pa.int32(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"), "TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
}  # fmt: skip
_UNITS = {"DATE": "D", "TIMESTAMP": "us", "TIMESTAMP_LTZ": "us"}


def evaluated(
    expression: str, *, zone: str = "UTC", now: str = "1970-01-01", **columns: list[Any]
) -> tuple[list[Any], dict[int, str]]:
    """Return the values of an expression, and the reasons of the rows that fail. Raises `SchemaError`."""
    length = max((len(values) for values in columns.values()), default=1)
    arrays = {name: _array(type_, columns.get(name, [None] * length)) for name, type_ in TYPES.items()}
    rows = Rows(arrays, TYPES, length, Session(zone, _number(now, "us")))
    found = read_expression(expression, TYPES).evaluate(rows)
    unit = _UNITS.get(found.type.root)
    return [value if unit is None or value is None else _iso(value, unit) for value in found.values()], rows.failures


def value(expression: str, *, zone: str = "UTC", now: str = "1970-01-01", **columns: Any) -> Any:
    """Return the value of an expression for one row, which must not fail."""
    lists = {name: [one] for name, one in columns.items()}
    values, failures = evaluated(expression, zone=zone, now=now, **lists)
    assert failures == {}
    return values[0]


def failure(expression: str, *, zone: str = "UTC", **columns: Any) -> str:
    """Return the reason why an expression fails for one row."""
    values, failures = evaluated(expression, zone=zone, **{name: [one] for name, one in columns.items()})
    assert values == [None]
    return failures[0]


def _array(type_: FlinkType, values: list[Any]) -> pa.Array:
    unit, arrow = _UNITS.get(type_.root), _ARROW[type_.root]
    if unit is None:
        return pa.array(values, arrow)
    numbers = [None if value is None else _number(value, unit) for value in values]
    return pa.array(numbers, pa.int32() if unit == "D" else pa.int64()).cast(arrow)


def _number(iso: str, unit: str) -> int:
    return int(np.datetime64(iso, unit).astype(np.int64))


def _iso(number: int, unit: str) -> str:
    return str(np.datetime64(number, unit)).removesuffix(".000000")
