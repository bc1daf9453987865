"""Expressions of Flink SQL for the columns that a projection adds to a table.

    projected_expression("price * 2", columns=SomeColumns({"price": DOUBLE}))      price * 2, of the type DOUBLE

The grammar is that of computed columns. The types of columns that come from messages may not be known here; then the
expression has no type yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.expressions.tree import names
from kvformat.registry.sql.create_table import CreateTableReader
from kvformat.registry.sql.expressions import Expression, joined


class SomeColumns(dict[str, FlinkType]):
    """The columns with a known type. Every other name is a column, too, of an unknown type."""


def projected_expression(
    text: str,
    start: int = 0,
    end: int | None = None,
    *,
    columns: dict[str, FlinkType],
    inlined: Mapping[str, str] | None = None,
) -> Expression:
    """Read the expression in a part of a text. If it is refused, the reason has line and column of the text.

    `columns` are those that it may use, `SomeColumns` if there are others. `inlined` are columns that are replaced by
    their expressions.
    """
    reader = _ExpressionPart(text, start, end)
    expression = reader.whole(columns, inlined or {})
    if expression.refused or not inlined or not reader.uses(inlined):
        return expression
    source = joined(reader.inlined(inlined))
    return replace(_ExpressionPart(source).whole(columns, {}), source=source)


class _ExpressionPart(CreateTableReader):
    """Reads one expression, up to the end of the part."""

    subject = "expression"
    hint = ""

    def whole(self, columns: dict[str, FlinkType], inlined: Mapping[str, str]) -> Expression:
        """Return the expression. It has no type if it uses a column of an unknown type, or an inlined one."""
        if not self.peek():
            return Expression("", refused=self.error("expected an expression").reason or "")
        try:
            tree = self.tree()
        except SchemaError as error:
            return Expression(joined(self.tokens), refused=error.reason or "")
        if self.peek():
            return Expression(joined(self.tokens), refused=self.error(f"{self.shown()}: unexpected here").reason or "")
        unknown = isinstance(columns, SomeColumns) and any(name not in columns for name in names(tree))
        if unknown or any(name in inlined for name in names(tree)):
            return Expression(joined(self.tokens))
        self.index = 0
        return self.expression(columns)

    def uses(self, inlined: Mapping[str, str]) -> bool:
        """Return whether the expression uses one of these columns."""
        self.index = 0
        return any(name in inlined for name in names(self.tree()))

    def inlined(self, inlined: Mapping[str, str]) -> list[str]:
        """Return the tokens, with the expressions of columns in brackets in their place."""
        tokens = []
        for i, token in enumerate(self.tokens):
            name = token[1:-1].replace("``", "`") if token.startswith("`") else token
            is_column = (i == 0 or self.tokens[i - 1] != ".") and self.tokens[i + 1 : i + 2] != ["("]
            tokens.append(f"({inlined[name]})" if is_column and name in inlined else token)
        return tokens
