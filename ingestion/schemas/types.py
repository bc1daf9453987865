"""The lattice of types: the least common type of two types, which holds the values of both.

    INT            BIGINT          BIGINT
    INT            DECIMAL(5, 2)   DECIMAL(12, 2)
    SMALLINT       FLOAT           FLOAT
    INT            FLOAT           DOUBLE
    TIMESTAMP(3)   DATE            TIMESTAMP(9)
    VARCHAR(10)    VARCHAR(20)     STRING
    BOOLEAN        INT             STRING

`merge_types` is commutative, associative and idempotent. So the order of messages can't change a type, and tasks can
look at them in parallel. Two types of Flink CDC exist only here: TIMESTAMP_TZ(p) and VARIANT.
Rules: Flink CDC's `SchemaMergingUtils`. DECIMAL types that need more than 38 digits together become STRING. Flink CDC
3.6.0 fails there, and later versions cut off digits.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace

from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.types import MAX_LENGTH, FlinkType

STRING = FlinkType("VARCHAR", length=MAX_LENGTH)
TEXT_ROOTS = ("CHAR", "VARCHAR")
BINARY_ROOTS = ("BINARY", "VARBINARY")
NESTED_ROOTS = ("ARRAY", "MAP", "MULTISET", "ROW")
INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
"""The decimal digits of each integer type, in the order of their widths."""
TIMESTAMP_ROOTS = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_TZ")
"""Kinds of timestamps. Of two, the later one in this order holds both."""
_IN_FLOAT = ("TINYINT", "SMALLINT", "FLOAT")  # FLOAT holds all their values
_APPROXIMATE = ("FLOAT", "DOUBLE")
_MOST_DIGITS = 38  # of a DECIMAL
_FINEST = 9  # digits of a second
_ONLY_HERE = re.compile(r"(TIMESTAMP_TZ)\((\d)\)|(VARIANT)")


def merge_types(one: FlinkType, other: FlinkType) -> FlinkType:
    """Return the least common type. It is NOT NULL if both types are."""
    merged = _merge_nullable(replace(one, nullable=True), replace(other, nullable=True))
    return replace(merged, nullable=one.nullable or other.nullable)


def note_on_merge(current: FlinkType, upcoming: FlinkType) -> str:
    """Return what a change of a column's type to `merge_types` loses, or "" for nothing."""
    if current.root == upcoming.root == "DECIMAL":
        digits = max(map(_whole_digits, (current, upcoming))) + max(t.scale or 0 for t in (current, upcoming))
        if digits > _MOST_DIGITS:
            return (
                f"{current} and {upcoming} need {digits} digits together, and a DECIMAL has at most {_MOST_DIGITS}: "
                "the column becomes STRING"
            )
    if {current.root, upcoming.root} in ({"BIGINT", "FLOAT"}, {"BIGINT", "DOUBLE"}):
        return f"{current} and {upcoming} become DOUBLE, which holds whole numbers exactly only up to 2^53"
    return ""


@functools.lru_cache(maxsize=4096)
def _merge_nullable(one: FlinkType, other: FlinkType) -> FlinkType:
    if one == other:
        return one
    roots = {one.root, other.root}
    if roots <= {*TIMESTAMP_ROOTS, "DATE"}:
        return _merge_timestamps(one, other)
    if roots <= INTEGER_DIGITS.keys():
        return max(one, other, key=lambda t: INTEGER_DIGITS[t.root])
    if roots <= {*INTEGER_DIGITS, "DECIMAL"}:
        return _merge_decimals(one, other)
    if roots <= {*INTEGER_DIGITS, *_APPROXIMATE}:
        return FlinkType("FLOAT" if roots <= {*_IN_FLOAT} else "DOUBLE")
    return STRING


def _merge_timestamps(one: FlinkType, other: FlinkType) -> FlinkType:
    kind = max((t.root for t in (one, other) if t.root != "DATE"), key=TIMESTAMP_ROOTS.index)
    digits = [_FINEST if t.precision is None else t.precision for t in (one, other)]
    return FlinkType(kind, precision=max(digits))


def _merge_decimals(one: FlinkType, other: FlinkType) -> FlinkType:
    scale = max(t.scale or 0 for t in (one, other))
    precision = scale + max(_whole_digits(t) for t in (one, other))
    return STRING if precision > _MOST_DIGITS else FlinkType("DECIMAL", precision=precision, scale=scale)


def _whole_digits(t: FlinkType) -> int:
    """Return the digits before the decimal point."""
    return INTEGER_DIGITS.get(t.root) or (t.precision or 0) - (t.scale or 0)


def _is_tree_type(t: FlinkType) -> bool:
    """Whether Flink CDC has the type in its `TYPE_MERGING_TREE`. Of types with digits, it has those with the most."""
    if t.root == "DECIMAL":
        return (t.precision, t.scale) == (_MOST_DIGITS, 0)
    if t.root in TIMESTAMP_ROOTS:
        return t.precision == _FINEST
    return t.root in (*INTEGER_DIGITS, *_APPROXIMATE, "DATE") or replace(t, nullable=True) == STRING


def is_compatible(current: FlinkType, upcoming: FlinkType) -> bool:
    """Whether a column of the type `current` needs no change for values of the type `upcoming`.

    False does not mean that the type changes: DECIMAL(5, 2) and TINYINT merge to DECIMAL(5, 2).
    """
    if current == upcoming:
        return True
    if upcoming.root == "DECIMAL" and current.root == "DECIMAL":
        return False
    return _is_tree_type(current) and current.nullable and merge_types(current, upcoming) == current


def parse_column_type(text: str) -> FlinkType:
    """Parse a type in Flink's spelling, also TIMESTAMP_TZ(p) and VARIANT. Raises `SchemaError`."""
    plain = text.removesuffix(" NOT NULL")
    found = _ONLY_HERE.fullmatch(plain)
    if not found:
        return parse_type(text)
    zoned, digits, variant = found.groups()
    return FlinkType(zoned or variant, nullable=plain == text, precision=int(digits) if digits else None)
