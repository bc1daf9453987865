"""Parse the expression of a WATERMARK: its column, minus a fixed delay.

    WATERMARK FOR ts AS ts                                                    0 ms
    WATERMARK FOR ts AS ts - INTERVAL 5 SECOND                            5,000 ms
    WATERMARK FOR ts AS CAST(ts AS TIMESTAMP(3)) - INTERVAL '1:30' MINUTE TO SECOND   90,000 ms
    WATERMARK FOR ts AS ts + INTERVAL '-5' SECOND - INTERVAL '1' MINUTE  65,000 ms

Spark's `withWatermark` takes a column and a number of milliseconds that is not negative. Flink evaluates any expression
for each row. What is not the column minus a fixed delay is refused, with what to write instead.
Rules: the answers of Flink 2.3; the texts of intervals are those of Calcite's `SqlIntervalQualifier`, but a number may
have any number of digits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.sql.expressions import ExpressionReader
from kvformat.registry.sql.table_definition import TableColumn, Watermark

_MILLIS: Final = {"WEEK": 604_800_000, "DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
_LONGER: Final = ("YEAR", "QUARTER", "MONTH")  # units without a fixed length
_SHORTER: Final = ("MILLISECOND", "MICROSECOND", "NANOSECOND")  # units that Flink SQL does not have
_LIMITS: Final = {"HOUR": 24, "MINUTE": 60, "SECOND": 60}  # of a number that is not the first in an interval
_MOST_MILLIS: Final = 2**63 - 1  # milliseconds: a Java long
_WHOLE: Final = re.compile(r"[0-9]+")
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
        found = self._sum(name, casts, 0)
        if self.peek() not in (",", ")", ""):
            raise self._unsupported(name)
        if found.columns != 1:
            raise self.error(
                f"the WATERMARK of '{name}' must contain {name} exactly once: {_write_instead(name)}", start
            )
        if found.millis > 0:
            raise self.error(
                f"the WATERMARK of '{name}' is {found.millis} ms later than {name}, but a watermark of Spark can't be "
                f"later than its column: {_write_instead(name)}",
                start,
            )
        return WatermarkClause(Watermark(name, -found.millis), offset, tuple(casts))

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
        found = _Sum()
        while True:
            sign = self._sign()
            found = found.plus(sign, self._term(name, casts, depth))
            if self.peek() not in ("+", "-"):
                return found

    def _term(self, name: str, casts: list[tuple[FlinkType, int]], depth: int) -> _Sum:
        if self.skip("("):
            found = self._sum(name, casts, depth + 1)
            self.expect(")")
        elif self.word() in ("CAST", "TRY_CAST") and self.peek(1) == "(":
            at = self.offset()
            self.index += 2
            found = self._sum(name, casts, depth + 1)
            self.expect("AS")
            casts.append((self.type(0), at))
            self.expect(")")
        elif self.skip("INTERVAL"):
            found = _Sum(millis=self._milliseconds())
        elif self.peek() in (name, f"`{name.replace('`', '``')}`"):
            self.index += 1
            found = _Sum(columns=1)
        else:
            raise self._unsupported(name)
        return found

    def _sign(self) -> int:
        """Skip signs; returns 1 or -1."""
        sign = 1
        while self.peek() in ("+", "-"):
            sign = -sign if self.peek() == "-" else sign
            self.index += 1
        return sign

    def _unsupported(self, name: str) -> SchemaError:
        if self.word() == "SOURCE_WATERMARK":
            return self.error(f"Spark does not have SOURCE_WATERMARK(): {_write_instead(name)}")
        return self.error(
            f"{self.shown()} can't be in the WATERMARK of '{name}', because Spark supports only the column itself with "
            f"a fixed delay: {_write_instead(name)}"
        )

    # --- intervals ---------------------------------------------------------------------------------------------

    def _milliseconds(self) -> int:
        """Parse `'5' SECOND`, `5 SECOND` or `'1:30' MINUTE TO SECOND`, and return the milliseconds."""
        offset, sign = self.offset(), self._sign()
        is_quoted = self.peek().startswith("'")
        if is_quoted:
            text = self.plain_text("the length of an interval").strip()
        elif _WHOLE.fullmatch(self.peek()):
            text = self.peek()
            self.index += 1
        elif self.peek()[:1].isdecimal():
            raise self.error(f"without quotes, the length of an interval must be a whole number, not {self.shown()}")
        else:
            raise self.error(f"expected the length of an interval, such as '5' or 5, found {self.shown()}")
        first = last = self._unit(list(_MILLIS))
        if is_quoted and first in ("DAY", "HOUR", "MINUTE") and self.skip("TO"):
            last = self._unit(_after(first))
        shorter = _after(first)
        units = [first, *shorter[: shorter.index(last) + 1]] if last != first else [first]
        numbers = _numbers(re.sub("^[+-]", "", text), units)
        what = first if first == last else f"{first} TO {last}"
        if numbers is None:
            raise self.error(f"'{text:.60}' is not an interval of {what}", offset)
        found = sum(number * _MILLIS[unit] for number, unit in zip(numbers, units, strict=True))
        if found > _MOST_MILLIS:
            raise self.error(f"'{text:.60}' {what} is longer than the longest interval, {_MOST_MILLIS} ms", offset)
        return sign * int(-found if text.startswith("-") else found)

    def _unit(self, allowed: list[str]) -> str:
        """Parse a unit, in the singular or plural and with a precision, which has no effect."""
        unit = self.word().removesuffix("S")
        if unit in _LONGER:
            raise self.error(
                f"INTERVAL ... {self.word()} has no fixed length, because months differ, and Spark delays a watermark "
                "by a fixed time: write days, such as INTERVAL '30' DAY"
            )
        if unit in _SHORTER:
            raise self.error(f"Flink SQL does not have {self.word()}: write INTERVAL '0.005' SECOND for 5 milliseconds")
        if unit not in allowed:
            raise self.error(f"expected one of {', '.join(allowed)}, found {self.shown()}")
        self.index += 1
        self.numbers(2)
        return unit


def _after(unit: str) -> list[str]:
    """Return the units that are shorter than a unit, the longest first."""
    units = list(_MILLIS)
    return units[units.index(unit) + 1 :]


def _numbers(text: str, units: list[str]) -> list[Decimal] | None:
    """Return the numbers in the text of an interval; None if the text does not fit the units."""
    pattern = ""
    for unit in units:
        pattern += "([0-9]+(?:[.][0-9]+)?)" if unit == "SECOND" else "([0-9]+)"
        if unit != units[-1]:
            pattern += " " if unit == "DAY" else ":"
    match = re.fullmatch(pattern, text)
    if match is None:
        return None
    numbers = [Decimal(number) for number in match.groups()]
    fit = all(number < _LIMITS[unit] for number, unit in zip(numbers[1:], units[1:], strict=True))
    return numbers if fit else None


def _write_instead(name: str) -> str:
    return f"write {name}, or {name} - INTERVAL '5' SECOND"
