"""Parse the expression of a WATERMARK: its column, minus a fixed delay.

    WATERMARK FOR ts AS ts                                                    0 ms
    WATERMARK FOR ts AS ts - INTERVAL 5 SECOND                            5,000 ms
    WATERMARK FOR ts AS CAST(ts AS TIMESTAMP(3)) - INTERVAL '1:30' MINUTE TO SECOND   90,000 ms
    WATERMARK FOR ts AS ts + INTERVAL '-5' SECOND - INTERVAL '1' MINUTE  65,000 ms

Spark's `withWatermark` takes a column and a number of milliseconds that is not negative. Flink evaluates any expression
for each row. Any expression but the column minus a fixed delay is refused, with what to write instead.
Rules: the answers of Flink 2.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.expressions.bound import MONTHS
from kvformat.registry.sql.expressions import ExpressionReader
from kvformat.registry.sql.table_definition import TableColumn, Watermark

_SPARK_DIGITS: Final = 3  # digits of a second in Spark's watermarks
_MOST_NESTED: Final = 60  # levels of brackets; each needs three frames of Python's stack of 1,000
_TIMESTAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")


@dataclass(frozen=True, slots=True)
class WatermarkClause:
    """A WATERMARK, the offset of its column, and the types of CASTs around the column with their offsets."""

    watermark: Watermark
    offset: int
    casts: tuple[tuple[FlinkType, int], ...]


@dataclass(frozen=True, slots=True)
class _Sum:
    """How often an expression adds the column, and how many milliseconds."""

    columns: int = 0
    millis: int = 0

    def plus(self, sign: int, other: _Sum) -> _Sum:
        return _Sum(self.columns + sign * other.columns, self.millis + sign * other.millis)


class WatermarkReader(ExpressionReader):
    """Parses the expressions of watermarks."""

    def watermark(self) -> WatermarkClause:
        """Parse `ts AS ts - INTERVAL '5' SECOND`, up to the `,` or `)` after it."""
        offset = self.offset()
        name = self.name()
        if self.peek() == ".":
            raise self.error(f"a WATERMARK needs a column, not a field of '{name}'", offset)
        self.expect("AS")
        start = self.offset()
        casts: list[tuple[FlinkType, int]] = []
        terms = self._sum(name, casts, 0)
        if self.peek() not in (",", ")", ""):
            raise self._unsupported(name)
        if terms.columns != 1:
            raise self.error(
                f"the WATERMARK of '{name}' must contain {name} exactly once: {_write_instead(name)}", start
            )
        if terms.millis > 0:
            raise self.error(
                f"the WATERMARK of '{name}' is {terms.millis} ms later than {name}, but a watermark of Spark can't be "
                f"later than its column: {_write_instead(name)}",
                start,
            )
        return WatermarkClause(Watermark(name, -terms.millis), offset, tuple(casts))

    def check_watermark(self, clause: WatermarkClause, column: TableColumn | None) -> None:
        """Check that the column exists and has a timestamp, and that a CAST of it changes nothing."""
        name = clause.watermark.column
        if column is None:
            raise self.error(f"column '{name}' of the WATERMARK does not exist", clause.offset)
        if column.type is not None and column.type.root not in _TIMESTAMPS:
            raise self.error(
                f"column '{name}' of the WATERMARK is {column.type}, but must be TIMESTAMP or TIMESTAMP_LTZ",
                clause.offset,
            )
        for to, offset in clause.casts:
            if to.root not in (_TIMESTAMPS if column.type is None else (column.type.root,)):
                raise self.error(
                    f"a CAST to {to} changes the type of '{name}', which Flink refuses in a WATERMARK: "
                    f"{_write_instead(name)}",
                    offset,
                )
            digits = _SPARK_DIGITS if column.type is None else min(_SPARK_DIGITS, column.type.precision or 0)
            if (to.precision or 0) < digits:
                raise self.error(
                    f"a CAST to {to} cuts off a part of each second, so that the delay is not fixed: "
                    f"{_write_instead(name)}",
                    offset,
                )

    # --- the expression ----------------------------------------------------------------------------------------

    def _sum(self, name: str, casts: list[tuple[FlinkType, int]], depth: int) -> _Sum:
        """Parse terms between `+` and `-`; `depth` is the number of open brackets."""
        if depth > _MOST_NESTED:
            raise self.error(f"brackets are nested more than {_MOST_NESTED} levels deep")
        terms = _Sum()
        while True:
            sign = self._sign()
            terms = terms.plus(sign, self._term(name, casts, depth))
            if self.peek() not in ("+", "-"):
                return terms

    def _term(self, name: str, casts: list[tuple[FlinkType, int]], depth: int) -> _Sum:
        if self.skip("("):
            terms = self._sum(name, casts, depth + 1)
            self.expect(")")
        elif self.word() in ("CAST", "TRY_CAST") and self.peek(1) == "(":
            at = self.offset()
            self.index += 2
            terms = self._sum(name, casts, depth + 1)
            self.expect("AS")
            casts.append((self.type(0), at))
            self.expect(")")
        elif self.skip("INTERVAL"):
            terms = _Sum(millis=self._milliseconds())
        elif self.peek() in (name, f"`{name.replace('`', '``')}`"):
            self.index += 1
            terms = _Sum(columns=1)
        else:
            raise self._unsupported(name)
        return terms

    def _unsupported(self, name: str) -> SchemaError:
        if self.word() == "SOURCE_WATERMARK":
            return self.error(f"Spark does not have SOURCE_WATERMARK(): {_write_instead(name)}")
        return self.error(
            f"{self.shown()} can't be in the WATERMARK of '{name}', because Spark supports only the column itself with "
            f"a fixed delay: {_write_instead(name)}"
        )

    def _milliseconds(self) -> int:
        """Parse an interval and return its milliseconds."""
        offset = self.offset()
        interval = self.interval()
        if interval.type == MONTHS:
            raise self.error(
                "an INTERVAL of months or years has no fixed length, because months differ, and Spark delays a "
                "watermark by a fixed time: write days, such as INTERVAL '30' DAY",
                offset,
            )
        millis: int = interval.value
        return millis


def _write_instead(name: str) -> str:
    return f"write {name}, or {name} - INTERVAL '5' SECOND"
