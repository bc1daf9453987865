"""Expressions of Flink SQL for the columns that a projection adds to a table.

    read_expression("price * 2", columns=SomeColumns({"price": DOUBLE}))      `price` * 2 for Spark

The grammar is that of computed columns. The types of columns that come from messages are not known here.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvformat.registry.contract.types import FlinkType
from kvformat.registry.sql.create_table import CreateTableReader
from kvformat.registry.sql.expressions import Expression


class SomeColumns(dict[str, FlinkType]):
    """The columns with a known type. Every other name is a column, too, of an unknown type."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> FlinkType | None:
        return None


def read_expression(
    text: str,
    start: int = 0,
    end: int | None = None,
    *,
    columns: dict[str, FlinkType],
    inlined: Mapping[str, Expression] | None = None,
) -> Expression:
    """Read the expression in a part of a text. If it is refused, the reason has line and column of the text.

    `columns` are those that it may use, `SomeColumns` if there are others. `inlined` are columns that are replaced by
    their expressions.
    """
    reader = _ExpressionPart(text, start, end)
    reader.inlined = inlined or {}
    return reader.whole(columns)


class _ExpressionPart(CreateTableReader):
    """Reads one expression, up to the end of the part."""

    subject = "expression"
    hint = ""
    inlined: Mapping[str, Expression]

    def whole(self, columns: dict[str, FlinkType]) -> Expression:
        if not self.peek():
            return Expression("", refused=self.error("expected an expression").reason or "")
        found = self.expression(columns)
        if self.peek() and not found.refused:
            return Expression(found.source, refused=self.error(f"{self.shown()}: unexpected here").reason or "")
        return found

    def _column(self) -> FlinkType:
        token = self.peek()
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        found = self.inlined.get(name)
        if found is None:
            return super()._column()
        self._write(f"({found.source})", f"({found.spark})")
        self.index += 1
        return self._row.get(name)  # type: ignore[return-value]  # None if the type is not known
