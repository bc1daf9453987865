"""Row kinds and changelog modes, by Flink's names."""

from __future__ import annotations

import enum

UNCHANGED = "unchanged_columns"
"""Column with the names of the columns whose values a message leaves out: they keep their previous values."""


class RowKind(enum.StrEnum):
    """The kind of change that a row describes. Batches and columns contain its value, such as '+I'."""

    INSERT = "+I"
    UPDATE_BEFORE = "-U"
    UPDATE_AFTER = "+U"
    DELETE = "-D"

    def __str__(self) -> str:
        return self.value


class ChangelogMode(enum.Enum):
    """The row kinds that a format or table may contain."""

    INSERT_ONLY = frozenset({RowKind.INSERT})
    UPSERT = frozenset({RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE})
    ALL = frozenset(RowKind)

    def __repr__(self) -> str:
        return f"ChangelogMode.{self.name}"

    def contains(self, kind: RowKind | str) -> bool:
        """Return whether rows of this kind may occur."""
        return RowKind(kind) in self.value
