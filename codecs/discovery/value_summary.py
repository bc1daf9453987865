"""Summarize the values of a column or field: kinds, ranges of numbers, forms of texts, members, elements.

    ValueSummary.add(node)    add a value of a JSON tree (`codecs._kernel.tree`) to the summary
    merge_summaries(...)      merge the summaries of several fields, such as the values of a MAP

A summary keeps no values. Its memory depends on the number of field names, not on the number of messages.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

from kvformat.codecs._kernel.tree import Fraction, Integer, Node, Repeated

MAX_DEPTH = 32
"""Nested levels that get their own types; deeper values are kept as text. Flink SQL and Spark support about 100."""
MAX_MEMBERS = 1000
"""Maximum number of distinct names of an object; an object with more names is read as a map or as text."""
MOST_DIGITS = 38  # of a DECIMAL

_DATE = r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.([0-9]{1,9}))?"
_ISO_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.([0-9]{1,9}))?)?"
DATE, TIME = "DATE", "TIME"
SQL, SQL_ZONED, ISO, ISO_ZONED = "SQL", "SQL with Z", "ISO-8601", "ISO-8601 with Z"
_FORMS = tuple(
    (form, re.compile(pattern))
    for form, pattern in (
        (DATE, _DATE),
        (TIME, f"(){_CLOCK}"),
        (SQL, f"{_DATE} {_CLOCK}"),
        (SQL_ZONED, f"{_DATE} {_CLOCK}Z"),
        (ISO, f"{_DATE}T{_ISO_CLOCK}"),
        (ISO_ZONED, f"{_DATE}T{_ISO_CLOCK}Z"),
    )
)
_LONGEST_TIME = len("2024-02-29T23:59:59.123456789Z")
OFFSET, DECIMAL_TEXT = "offset", "decimal"
_OFFSET = re.compile(rf"{_DATE}[T ]{_ISO_CLOCK}[+-][0-9]{{2}}:?[0-9]{{2}}")
_DECIMAL_TEXT = re.compile(r"-?[0-9]+\.[0-9]+")


@functools.lru_cache(maxsize=8192)
def form_of(text: str) -> tuple[str, int]:
    """Return the form in which a text can be parsed without loss, and its number of fractional second digits.

    The form is "" for plain text. The patterns are stricter than the formats: years have four digits, days must exist,
    and 24:00 is not accepted.
    """
    for form, pattern in _FORMS:
        match = pattern.fullmatch(text)
        if match:
            try:
                if match[1]:
                    date.fromisoformat(match[1])
            except ValueError:
                return "", 0
            return form, len(match[2] or "") if form != DATE else 0
    if _OFFSET.fullmatch(text):
        return OFFSET, 0
    return (DECIMAL_TEXT, 0) if _DECIMAL_TEXT.fullmatch(text) else ("", 0)


@dataclass(slots=True)
class ValueSummary:
    """Summary of all values of a column or field."""

    booleans: int = 0
    integers: int = 0
    fractions: int = 0
    texts: int = 0
    objects: int = 0
    arrays: int = 0
    least: int = 0
    most: int = 0
    whole_digits: int = 0  # most digits of a number before the decimal point
    scale: int = 0  # most digits of a number after the decimal point
    inexact: bool = False  # whether a DOUBLE cannot represent some number exactly
    forms: dict[str, int] = field(default_factory=dict)  # number of texts of each form
    second_digits: int = 0
    members: dict[str, ValueSummary] = field(default_factory=dict)
    others: ValueSummary | None = None  # merged summary of the members after MAX_MEMBERS
    counts: dict[str, int] = field(default_factory=dict)  # number of objects that contain each member
    elements: ValueSummary | None = None
    too_deep: bool = False
    repeated: bool = False  # whether an object contains a name twice

    @property
    def numbers(self) -> int:
        """Number of numbers."""
        return self.integers + self.fractions

    @property
    def values(self) -> int:
        """Number of values that are not null."""
        return self.booleans + self.numbers + self.texts + self.objects + self.arrays

    def add(self, node: Node, depth: int = 0) -> None:
        """Add a value to the summary."""
        if node is None:
            return
        if isinstance(node, bool):
            self.booleans += 1
        elif isinstance(node, Integer):
            self._add_integer(node)
        elif isinstance(node, Fraction):
            self._add_fraction(node)
        elif isinstance(node, str):
            self.texts += 1
            form, digits = form_of(node) if len(node) <= _LONGEST_TIME + len("+00:00") else ("", 0)
            self.forms[form] = self.forms.get(form, 0) + 1
            self.second_digits = max(self.second_digits, digits)
        elif depth >= MAX_DEPTH:
            self.too_deep = True
        elif isinstance(node, dict):
            self._add_object(node, depth)
        else:
            self.arrays += 1
            self.elements = self.elements or ValueSummary()
            for element in node:
                self.elements.add(element, depth + 1)

    def _add_integer(self, token: str) -> None:
        digits = len(token.lstrip("-"))
        if digits > MOST_DIGITS:
            self.inexact = True
        else:
            number = int(token)
            self.least = min(number, self.least) if self.integers else number
            self.most = max(number, self.most) if self.integers else number
            self.inexact |= int(float(number)) != number
        self.whole_digits = max(self.whole_digits, digits)
        self.integers += 1

    def _add_fraction(self, token: str) -> None:
        self.fractions += 1
        number = Decimal(token)
        exponent = int(number.as_tuple().exponent)
        if number.is_zero():
            whole, scale = 1, min(max(-exponent, 0), MOST_DIGITS)  # the zeros of 0.000 need no digits before the point
        else:
            whole, scale = max(number.adjusted() + 1, 1), max(-exponent, 0)
        self.inexact |= Decimal(repr(float(token))) != number
        self.whole_digits, self.scale = max(self.whole_digits, whole), max(self.scale, scale)

    def _add_object(self, node: dict[str, Node], depth: int) -> None:
        self.objects += 1
        self.repeated |= isinstance(node, Repeated)
        for name in node:
            if name in self.counts:
                self.counts[name] += 1
            elif len(self.counts) < MAX_MEMBERS:
                self.counts[name] = 1
        for name, value in node.members if isinstance(node, Repeated) else node.items():
            self.member(name).add(value, depth + 1)

    def member(self, name: str) -> ValueSummary:
        """Return the summary of a member; create it if it does not exist yet."""
        if name not in self.members and len(self.members) >= MAX_MEMBERS:
            self.others = self.others or ValueSummary()
            return self.others
        return self.members.setdefault(name, ValueSummary())


def merge_summaries(summaries: Iterable[ValueSummary]) -> ValueSummary:
    """Return one summary of the values of several fields."""
    merged = ValueSummary()
    for summary in summaries:
        _add_summary(merged, summary)
    return merged


def _add_summary(summary: ValueSummary, other: ValueSummary) -> None:
    if other.integers:
        summary.least = min(summary.least, other.least) if summary.integers else other.least
        summary.most = max(summary.most, other.most) if summary.integers else other.most
    for name in ("booleans", "integers", "fractions", "texts", "objects", "arrays"):
        setattr(summary, name, getattr(summary, name) + getattr(other, name))
    for name in ("whole_digits", "scale", "second_digits"):
        setattr(summary, name, max(getattr(summary, name), getattr(other, name)))
    for name in ("inexact", "too_deep", "repeated"):
        setattr(summary, name, getattr(summary, name) or getattr(other, name))
    for form, count in other.forms.items():
        summary.forms[form] = summary.forms.get(form, 0) + count
    for name, count in other.counts.items():
        if name in summary.counts or len(summary.counts) < MAX_MEMBERS:
            summary.counts[name] = summary.counts.get(name, 0) + count
    for name, member in other.members.items():
        _add_summary(summary.member(name), member)
    if other.others is not None:
        summary.others = summary.others or ValueSummary()
        _add_summary(summary.others, other.others)
    if other.elements is not None:
        summary.elements = summary.elements or ValueSummary()
        _add_summary(summary.elements, other.elements)
