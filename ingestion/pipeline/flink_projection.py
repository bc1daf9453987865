r"""Parse the expressions of a transform in Flink SQL: `dialect` = `flink`.

    \*, CAST(ts AS DATE) AS day       *; CAST(ts AS DATE) AS `day`
    MY_FUNCTION(v) AS a               refused, with its reason

They are evaluated like computed columns of a table. A pipeline with a refused expression can be explained, but not
started.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvformat.ingestion.pipeline.options import Refusal
from kvformat.ingestion.pipeline.transform_sql import METADATA_COLUMNS, ItemsReader, Projected, Translated
from kvformat.registry.contract.types import MAX_LENGTH, FlinkType, quoted
from kvformat.registry.sql.create_table import CreateTableReader
from kvformat.registry.sql.projected_expressions import SomeColumns, projected_expression

_BRACKETS = {"(": 1, "[": 1, ")": -1, "]": -1}
METADATA_TYPES = dict.fromkeys(METADATA_COLUMNS, FlinkType("VARCHAR", nullable=False, length=MAX_LENGTH))
"""The types of the metadata columns that an expression may use."""


def translate_flink_projection(text: str, types: Mapping[str, FlinkType]) -> Translated:
    """Translate a SELECT list. `types` are those of columns whose types are known.

    Raises `SchemaError` with line and column, for invalid text and for repeated names. A column whose expression can't
    be evaluated as Flink does is in `refused` instead.
    """
    return _FlinkProjection(text, types, "projection").projection()


def translate_flink_filter(text: str, types: Mapping[str, FlinkType]) -> Translated:
    """Translate a WHERE condition, as `translate_flink_projection` does."""
    return _FlinkProjection(text, types, "filter").condition()


class _FlinkProjection(ItemsReader, CreateTableReader):
    token = re.compile(rf"\\\*|{CreateTableReader.token.pattern}")

    def __init__(self, text: str, types: Mapping[str, FlinkType], subject: str) -> None:
        super().__init__(text, subject)
        self._types = SomeColumns({**types, **METADATA_TYPES})
        self._refused: list[Refusal] = []

    def projection(self) -> Translated:
        columns = self.items()
        return Translated(columns, "", frozenset(self.metadata), refused=tuple(self._refused))

    def condition(self) -> Translated:
        if not self.peek():
            raise self.error("expected a condition")
        column = self._expression(len(self.tokens), "filter", "the condition")
        flink = "" if column is None else column.flink
        return Translated((), "", frozenset(self.metadata), refused=tuple(self._refused), flink=flink)

    def item(self) -> tuple[str, Projected | None]:
        """Translate one item; returns its name, and the column unless it is refused."""
        if self.peek(1) in (",", ""):
            self._note_metadata(self.index)
            name = self.name()
            return name, Projected(name, quoted(name))
        end = self._end_of_expression()
        start, self.index = self.index, end
        if not self.skip("AS"):
            raise self.error("an expression needs a name: write <expression> AS <name>")
        name = self.name()
        after, self.index = self.index, start
        column = self._expression(end, name, f"column '{name}'")
        self.index = after
        return name, column

    def _expression(self, end: int, name: str, what: str) -> Projected | None:
        """Translate the tokens up to an index, and move there."""
        for place in range(self.index, end):
            self._note_metadata(place)
        stop = self.offsets[end] if end < len(self.offsets) else self.end
        expression = projected_expression(self.text, self.offset(), stop, columns=self._types)
        self.index = end
        if expression.refused:
            self._refused.append(Refusal(f"{what}: {expression.refused}", name))
            return None
        return Projected(name, "", expression.source)

    def _end_of_expression(self) -> int:
        """Return the index of the AS after an expression, or of the token that ends it."""
        depth = 0
        for place in range(self.index, len(self.tokens)):
            token = self.tokens[place]
            if depth == 0 and (token == "," or token.upper() == "AS"):
                return place
            depth = max(0, depth + _BRACKETS.get(token, 0))
        return len(self.tokens)

    def _note_metadata(self, place: int) -> None:
        name = self.tokens[place]
        self.note_metadata(name, repr(name), self.offsets[place])
