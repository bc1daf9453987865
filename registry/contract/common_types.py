"""The lattice of types: the least common type of two types, which holds the values of both.

    INT            BIGINT          BIGINT
    INT            DECIMAL(5, 2)   DECIMAL(12, 2)
    SMALLINT       FLOAT           FLOAT
    INT            FLOAT           DOUBLE
    TIMESTAMP(3)   DATE            TIMESTAMP(9)
    VARCHAR(10)    VARCHAR(20)     STRING
    BOOLEAN        INT             STRING

`merge_types` is commutative, associative and idempotent. So the order of messages can't change a type, and tasks can
look at them in parallel.
Rules: Flink CDC's `SchemaMergingUtils`. DECIMAL types that need more than 38 digits together become STRING. Flink CDC
3.6.0 fails there, and later versions cut off digits.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from kvformat.registry.contract.types import STRING, FlinkType, nullable

TEXT_ROOTS = ("CHAR", "VARCHAR")
BINARY_ROOTS = ("BINARY", "VARBINARY")
NESTED_ROOTS = ("ARRAY", "MAP", "MULTISET", "ROW")
INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
"""The decimal digits of each integer type, in the order of their widths."""
TIMESTAMP_ROOTS = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_TZ")
"""Kinds of timestamps. Of two, the later one in this order holds both."""
_IN_FLOAT = ("TINYINT", "SMALLINT", "FLOAT")  # FLOAT holds all their values
APPROXIMATE_ROOTS = ("FLOAT", "DOUBLE")
MOST_DIGITS = 38  # of a DECIMAL
FINEST = 9  # digits of a second


def merge_types(left: FlinkType, right: FlinkType) -> FlinkType:
    """Return the least type that holds the values of both; STRING holds all. It is NOT NULL if both types are."""
    merged = _merge_nullable(replace(left, nullable=True), replace(right, nullable=True))
    return replace(merged, nullable=left.nullable or right.nullable)


def holds(known: FlinkType, other: FlinkType) -> bool:
    """Return whether a column of the known type needs no change for values of the other type; all may be null."""
    return merge_types(nullable(known), nullable(other)) == nullable(known)


@functools.lru_cache(maxsize=4096)
def _merge_nullable(left: FlinkType, right: FlinkType) -> FlinkType:
    if left == right:
        return left
    roots = {left.root, right.root}
    if roots <= {*TIMESTAMP_ROOTS, "DATE"}:
        kind = max((t.root for t in (left, right) if t.root != "DATE"), key=TIMESTAMP_ROOTS.index)
        return FlinkType(kind, precision=max(FINEST if t.precision is None else t.precision for t in (left, right)))
    if roots <= INTEGER_DIGITS.keys():
        return max(left, right, key=lambda t: INTEGER_DIGITS[t.root])
    if roots <= {*INTEGER_DIGITS, "DECIMAL"}:
        scale = max(left.scale or 0, right.scale or 0)
        precision = scale + max(whole_digits(left), whole_digits(right))
        return STRING if precision > MOST_DIGITS else FlinkType("DECIMAL", precision=precision, scale=scale)
    if roots <= {*INTEGER_DIGITS, *APPROXIMATE_ROOTS}:
        return FlinkType("FLOAT" if roots <= {*_IN_FLOAT} else "DOUBLE")
    return STRING


def whole_digits(t: FlinkType) -> int:
    """Return the digits before the decimal point."""
    return INTEGER_DIGITS.get(t.root) or (t.precision or 0) - (t.scale or 0)
