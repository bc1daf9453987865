"""Names of tables: `table`, `schema.table` or `namespace.schema.table`.

A part may contain dots, because a topic's name is one part. So a name is a tuple, and dots join the parts only in the
text. Rules: Flink CDC's `TableId`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from kvformat.registry.contract.errors import OptionError

MOST_PARTS = 3  # namespace, schema and table


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """The name of a table, as one to three parts. `str()` joins them by dots."""

    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.parts) <= MOST_PARTS or not all(self.parts):
            raise OptionError(
                f"{'.'.join(self.parts)!r} is not the name of a table: a name has one to three parts, and none is empty"
            )

    def __str__(self) -> str:
        return ".".join(self.parts)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Split a text at its dots. Raises `OptionError` for more than three parts, and for an empty part."""
        return cls(tuple(text.split(".")))

    @property
    def table(self) -> str:
        """The last part."""
        return self.parts[-1]

    @property
    def schema(self) -> str | None:
        """The part before the last, or None."""
        return self.parts[-2] if len(self.parts) > 1 else None

    @property
    def namespace(self) -> str | None:
        """The first of three parts, or None."""
        return self.parts[0] if len(self.parts) == MOST_PARTS else None

    def shown_parts(self) -> tuple[str, ...]:
        """Return the parts of the text, which differ from `parts` if a part has dots.

        A text of more than three parts can't be a name. Its table keeps its own parts.
        """
        shown = tuple(str(self).split("."))
        return shown if len(shown) <= MOST_PARTS else self.parts
