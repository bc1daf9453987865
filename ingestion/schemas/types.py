"""Types of columns in Flink CDC: their texts, and what a change of a type means. The lattice is in `common_types`.

TIMESTAMP_TZ(p) of Flink CDC exists only here. Values of TIMESTAMP_TZ(p) and of VARIANT are texts.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kvformat.registry.contract.common_types import (
    APPROXIMATE_ROOTS,
    BINARY_ROOTS,
    FINEST,
    INTEGER_DIGITS,
    MOST_DIGITS,
    NESTED_ROOTS,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    merge_types,
    whole_digits,
)
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.types import STRING, FlinkType

__all__ = [
    "BINARY_ROOTS",
    "INTEGER_DIGITS",
    "NESTED_ROOTS",
    "STRING",
    "TEXT_ROOTS",
    "TIMESTAMP_ROOTS",
    "is_compatible",
    "merge_types",
    "note_on_merge",
    "parse_column_type",
]
_ONLY_HERE = re.compile(r"(TIMESTAMP_TZ)\((\d)\)|(VARIANT)")


def note_on_merge(current: FlinkType, upcoming: FlinkType) -> str:
    """Return what a change of a column's type to `merge_types` loses, or "" for nothing."""
    if current.root == upcoming.root == "DECIMAL":
        digits = max(map(whole_digits, (current, upcoming))) + max(t.scale or 0 for t in (current, upcoming))
        if digits > MOST_DIGITS:
            return (
                f"{current} and {upcoming} need {digits} digits together, and a DECIMAL has at most {MOST_DIGITS}: "
                "the column becomes STRING"
            )
    if current.root not in TEXT_ROOTS and merge_types(current, upcoming).root in TEXT_ROOTS:
        return f"{current} and {upcoming} become STRING, the only type that holds both"
    if {current.root, upcoming.root} in ({"BIGINT", "FLOAT"}, {"BIGINT", "DOUBLE"}):
        return f"{current} and {upcoming} become DOUBLE, which holds whole numbers exactly only up to 2^53"
    return ""


def _is_tree_type(t: FlinkType) -> bool:
    """Whether Flink CDC has the type in its `TYPE_MERGING_TREE`. Of types with digits, it has those with the most."""
    if t.root == "DECIMAL":
        return (t.precision, t.scale) == (MOST_DIGITS, 0)
    if t.root in TIMESTAMP_ROOTS:
        return t.precision == FINEST
    return t.root in (*INTEGER_DIGITS, *APPROXIMATE_ROOTS, "DATE") or replace(t, nullable=True) == STRING


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
    match = _ONLY_HERE.fullmatch(plain)
    if not match:
        return parse_type(text)
    zoned, digits, variant = match.groups()
    return FlinkType(zoned or variant, nullable=plain == text, precision=int(digits) if digits else None)
