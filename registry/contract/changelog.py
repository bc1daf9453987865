"""Row kinds and changelog modes, by Flink's names."""

from __future__ import annotations

import enum

UNCHANGED = "unchanged_columns"
"""Column with the names of the columns whose values a message leaves out: they keep their previous values."""


class RowKind(enum.StrEnum):
    """What a row says about the table: its value is the short text that batches and columns carry."""

    INSERT = "+I"
    UPDATE_BEFORE = "-U"
    UPDATE_AFTER = "+U"
    DELETE = "-D"

    def __str__(self) -> str:
        return self.value


class ChangelogMode(enum.Enum):
    """The kinds of row that a format or table may hold."""

    INSERT_ONLY = frozenset({RowKind.INSERT})
    UPSERT = frozenset({RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE})
    ALL = frozenset(RowKind)

    def __repr__(self) -> str:
        return f"ChangelogMode.{self.name}"

    def contains(self, kind: RowKind | str) -> bool:
        """Whether rows of this kind may occur."""
        return RowKind(kind) in self.value
