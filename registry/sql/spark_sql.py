"""Flink SQL's literals and types in Spark SQL's spelling, for expressions that Spark evaluates."""

from __future__ import annotations

from kvformat.registry.contract.types import FlinkType, quoted

LITERAL_PREFIXES = {"DATE": "DATE", "TIME": "TIME", "TIMESTAMP": "TIMESTAMP_NTZ", "X": "X"}
"""The word before a literal in quotes, such as DATE '2024-01-02', with Spark's word for it."""
_SPARK_TYPES = {
    "CHAR": "STRING",
    "VARCHAR": "STRING",
    "BINARY": "BINARY",
    "VARBINARY": "BINARY",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP_LTZ": "TIMESTAMP_LTZ",
}


def spark_string(literal: str) -> str:
    """Return Flink's string literal as one of Spark SQL, in which a backslash begins an escape."""
    escaped = literal[1:-1].replace("''", "'").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def spark_type_text(type_: FlinkType) -> str:
    """Return a type in Spark SQL's spelling."""
    members = [spark_type_text(member.type) for member in type_.fields]
    if type_.root == "ROW":
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {m}' for f, m in zip(type_.fields, members, strict=True))}>"
    if type_.root in ("ARRAY", "MAP"):
        return f"{type_.root}<{', '.join(members)}>"
    if type_.root == "MULTISET":
        return f"MAP<{members[0]}, INT>"
    if type_.root == "TIME":
        return f"TIME({min(type_.precision or 0, 6)})"
    return type_.summary() if type_.root == "DECIMAL" else _SPARK_TYPES.get(type_.root, type_.root)
