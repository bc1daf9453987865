"""Literals of Flink SQL: `1.5`, `DATE '2024-01-02'`, `INTERVAL '1:30' MINUTE TO SECOND`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from kvformat.registry.contract.ddl import DdlReader, literal_text
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.expressions.bound import BIGINT, DATE, DAYS, DOUBLE, INT, MONTHS
from kvformat.registry.expressions.local_times import parse_date_literal, parse_time_literal, parse_timestamp_literal
from kvformat.registry.expressions.tree import Literal

_MOST_PLACES = 6
"""Digits of a second in Arrow and Spark."""
_MILLIS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000, "WEEK": 604_800_000}
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_SPANS = {
    "YEAR": ["MONTH"],
    "DAY": ["HOUR", "MINUTE", "SECOND"],
    "HOUR": ["MINUTE", "SECOND"],
    "MINUTE": ["SECOND"],
}
"""The units that an interval may go TO, by its first unit."""
NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LIMITS = {"MONTH": 12, "HOUR": 24, "MINUTE": 60, "SECOND": 60}  # of a number that is not the first in an interval
_MOST_NUMBER_DIGITS = 38
"""Digits of a literal, those of a DECIMAL."""


class LiteralReader(DdlReader):
    """Parses numbers, times and intervals among the tokens of a statement."""

    def _sign(self) -> int:
        """Skip signs; returns 1 or -1."""
        sign = 1
        while self.peek() in ("+", "-"):
            sign = -sign if self.peek() == "-" else sign
            self.index += 1
        return sign

    def text_literal(self) -> str:
        """Parse a string in single quotes."""
        token = self.peek()
        if not token.startswith("'"):
            raise self.error(f"expected a string in single quotes, found {self.shown()}")
        self.index += 1
        return literal_text(token)

    def _number(self, token: str, offset: int) -> Literal:
        if set(token) & set("eE"):
            return Literal(float(token), DOUBLE, offset)
        whole, point, fraction = token.partition(".")
        if not point or not fraction:
            number = int(whole)
            if number <= 2**63:
                return Literal(number, whole_type(number), offset)
        number, precision = int(whole + fraction), len(whole + fraction)
        if precision > _MOST_NUMBER_DIGITS:
            raise self.error(f"{self.shown()}: a number has at most {_MOST_NUMBER_DIGITS} digits", offset)
        return Literal(number, FlinkType("DECIMAL", precision=precision, scale=len(fraction)), offset)

    def _typed_literal(self, word: str, offset: int) -> Literal:
        """Parse the text of `DATE '2024-01-02'` and its like."""
        text = self.text_literal()
        try:
            if word == "X":
                data = bytes.fromhex("".join(text.split()))
                return Literal(data, FlinkType("BINARY", length=len(data)), offset)
            if word == "DATE":
                return Literal(parse_date_literal(text), DATE, offset)
            if word == "TIME":
                millis, precision = parse_time_literal(text)
                return Literal(millis, FlinkType("TIME", precision=precision), offset)
            micros, precision = parse_timestamp_literal(text)
        except ValueError:
            forms = {
                "X": "an even number of hexadecimal digits", "DATE": "yyyy-MM-dd", "TIME": "HH:mm:ss",
                "TIMESTAMP": "yyyy-MM-dd HH:mm:ss, maybe with a fraction",
            }  # fmt: skip
            raise self.error(f"{word} '{text:.60}': expected {forms[word]}", offset) from None
        if text.strip().rstrip("0").partition(".")[2][_MOST_PLACES:]:
            raise self.error(f"TIMESTAMP '{text:.40}': at most {_MOST_PLACES} digits of a second are possible", offset)
        return Literal(micros, FlinkType("TIMESTAMP", precision=precision), offset)

    def interval(self) -> Literal:
        """Parse `'5' SECOND`, `5 SECOND` or `'1:30' MINUTE TO SECOND(3)` after INTERVAL.

        Rules: Calcite's `SqlIntervalQualifier`, but a number may have any number of digits.
        """
        offset, sign = self.offset(), self._sign()
        is_quoted = self.peek().startswith("'")
        if is_quoted:
            text = self.plain_text("the length of an interval").strip()
        elif re.fullmatch("[0-9]+", self.peek()):
            text = self.peek()
            self.index += 1
        elif self.peek()[:1].isdecimal():
            raise self.error(f"without quotes, the length of an interval must be a whole number, not {self.shown()}")
        else:
            raise self.error(f"expected the length of an interval, such as '5' or 5, found {self.shown()}")
        first = last = self._interval_unit_of((*_MONTHS, *_MILLIS))
        units = [first]
        if is_quoted and first in _SPANS and self.skip("TO"):
            shorter = _SPANS[first]
            last = self._interval_unit_of(shorter)
            units += shorter[: shorter.index(last) + 1]
        numbers = _interval_numbers(re.sub("^[+-]", "", text), units)
        what = first if first == last else f"{first} TO {last}"
        if numbers is None:
            raise self.error(f"'{text:.60}' is not an interval of {what}", offset)
        sizes, most = (_MONTHS, 2**31) if first in _MONTHS else (_MILLIS, 2**63)
        amount = int(sum(number * sizes[unit] for number, unit in zip(numbers, units, strict=True)))
        if amount >= most:
            raise self.error(f"'{text:.60}' {what} is longer than the longest interval", offset)
        sign = -sign if text.startswith("-") else sign
        return Literal(sign * amount, MONTHS if first in _MONTHS else DAYS, offset)

    def _interval_unit_of(self, allowed: Sequence[str]) -> str:
        """Parse the unit of an interval, in the singular or plural and with a precision, which has no effect."""
        if self.word().removesuffix("S") in ("MILLISECOND", "MICROSECOND", "NANOSECOND"):
            raise self.error(f"Flink SQL does not have {self.word()}: write INTERVAL '0.005' SECOND for 5 milliseconds")
        unit = self._time_unit(allowed)
        self.numbers(2)
        return unit

    def _time_unit(self, allowed: Sequence[str]) -> str:
        word = self.word()
        for unit in (word, word.removesuffix("S")):
            if unit in allowed:
                self.index += 1
                return unit
        raise self.error(f"expected one of {', '.join(allowed)}, found {self.shown()}")


def whole_type(number: int) -> FlinkType:
    """Return the type of the literal of a whole number of at most 2^63."""
    if -(2**31) <= number < 2**31:
        return INT
    return BIGINT if -(2**63) <= number < 2**63 else FlinkType("DECIMAL", precision=19, scale=0)


def _interval_numbers(text: str, units: Sequence[str]) -> list[Decimal] | None:
    """Return the numbers in the text of an interval; None if the text does not fit the units."""
    pattern = ""
    for unit in units:
        pattern += "([0-9]+(?:[.][0-9]+)?)" if unit == "SECOND" else "([0-9]+)"
        if unit != units[-1]:
            pattern += {"DAY": " ", "YEAR": "-"}.get(unit, ":")
    match = re.fullmatch(pattern, text)
    if match is None:
        return None
    numbers = [Decimal(number) for number in match.groups()]
    fit = all(number < _LIMITS[unit] for number, unit in zip(numbers[1:], units[1:], strict=True))
    return numbers if fit else None
