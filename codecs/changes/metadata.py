"""Metadata columns of change messages: the member that has each column, and the kernel's column that reads it."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from kvformat.codecs._kernel.columns import Column, FinalValueError, Integers
from kvformat.codecs._kernel.containers import Rows
from kvformat.codecs._kernel.times import Timestamps
from kvformat.codecs._kernel.unread import Presence, Repeats
from kvformat.codecs.discovery.column_types import array_of
from kvformat.codecs.json.scalars import BadValue, ScalarRules, preview, scalar_converter
from kvformat.codecs.json.types import JsonSchema, row_of
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.types import STRING, FlinkType, arrow_type
from kvformat.registry.java.parse import MICROS_OF_A_DAY

TEXTS = array_of(STRING)
BIGINT = FlinkType("BIGINT")
_INT = FlinkType("INT")
_INSTANT = FlinkType("TIMESTAMP_LTZ", precision=3)
_OGG_INSTANT = FlinkType("TIMESTAMP_LTZ", precision=6)
_BIGINT_END = 2**63  # one more than the largest BIGINT


class FinalError(BadValue, FinalValueError):
    """The error of a metadata value. It stays an error with `ignore-parse-errors`.

    The option replaces values of the row by null, and metadata is not part of the row.
    """


@dataclass(frozen=True, slots=True)
class Metadata(abc.ABC):
    """A metadata column, which is read from a member of the envelope.

    With `beside_payload`, the member stands beside the payload of a wrapped message. With a `key`, the member is a
    map, and the column is the entry of that key. `others` are members that may have the text instead: the first one
    that is not empty counts.
    """

    member: str
    beside_payload: bool = field(default=False, kw_only=True)
    key: str | None = field(default=None, kw_only=True)
    others: tuple[str, ...] = field(default=(), kw_only=True)

    def of_each_member(self) -> list[Metadata]:
        """Return a column for each member."""
        return [replace(self, member=member, others=()) for member in (self.member, *self.others)]

    @property
    @abc.abstractmethod
    def type(self) -> FlinkType:
        """The column's type."""

    def column(self, schema: JsonSchema) -> Column:
        """Return the kernel's column that reads the member, or an entry of it."""
        return schema.column(self.type)


@dataclass(frozen=True, slots=True)
class PlainMember(Metadata):
    """The value of a member as a column of type `value_type`."""

    value_type: FlinkType = STRING

    @property
    def type(self) -> FlinkType:
        return self.value_type


@dataclass(frozen=True, slots=True)
class Epoch(Metadata):
    """An instant, as a number of units since 1970. A unit has `micros` microseconds."""

    micros: int = 1000

    @property
    def type(self) -> FlinkType:
        return _INSTANT

    def column(self, schema: JsonSchema) -> Column:
        number = scalar_converter(BIGINT, schema.rules)
        return _instants(BIGINT, lambda node: _instant(number(node) * self.micros), self.micros, cuts=True)


@dataclass(frozen=True, slots=True)
class EpochText(Epoch):
    """An instant: a text with milliseconds since 1970, by the rules of `Long.parseLong`. Any other text is an error."""

    def column(self, schema: JsonSchema) -> Column:
        text_of = scalar_converter(STRING, schema.rules)

        def read(node: Any) -> int:
            text = text_of(node)
            if not _LONG.fullmatch(text) or not -_BIGINT_END <= int(text) < _BIGINT_END:
                code = ErrorCode.OUT_OF_RANGE if _LONG.fullmatch(text) else ErrorCode.WRONG_TYPE
                raise FinalError(f"cannot read {preview(text)} as milliseconds since 1970", code)
            return _instant(int(text) * self.micros)

        return _instants(STRING, read, self.micros, cuts=False)


@dataclass(frozen=True, slots=True)
class OggTime(Metadata):
    """A time of Oracle GoldenGate in UTC. Flink reads `op_ts` by strict rules, and `current_ts` by other rules.

    Strict: `2020-05-13 15:40:06.123456`. Month, day and the parts of the time may have one digit or none, and the time
    may be missing. Any other text is an error.
    Not strict: `2020-05-13T15:40:06.123456` with exactly six digits of a second, or a text that `java.sql.Timestamp`
    reads. `java.sql.Date` reads a text without a time. Any other text is null.
    The two forms shown are cut to milliseconds, as in Flink.
    """

    strict: bool = False

    @property
    def type(self) -> FlinkType:
        return _OGG_INSTANT

    def column(self, schema: JsonSchema) -> Column:
        text_of, read = scalar_converter(STRING, schema.rules), _operation_time if self.strict else _current_time
        stored = arrow_type(_OGG_INSTANT)
        width = 0 if self.strict else len("2020-05-13T15:40:06.123456")
        return Timestamps(
            STRING, stored, lambda node: read(text_of(node)), iso=not self.strict, zoned=False, unit=1000, width=width
        )


@dataclass(frozen=True, slots=True)
class SchemaNumber(Metadata):
    """An internal column: the schema beside the payload, as its number among the different schemas of a batch."""

    reads: Repeats = field(default_factory=lambda: Repeats(_INT, arrow_type(_INT)), compare=False, kw_only=True)

    @property
    def type(self) -> FlinkType:
        return _INT

    @property
    def texts(self) -> list[bytes]:
        """The texts of the schemas of the last batch, by number."""
        return self.reads.texts

    def column(self, schema: JsonSchema) -> Column:
        return self.reads


@dataclass(frozen=True, slots=True)
class ColumnPresence(Metadata):
    """An internal column: the columns of `row` that the row in the member has. A column that is null counts."""

    row: FlinkType = _INT

    @property
    def type(self) -> FlinkType:
        return row_of({column.name: _INT for column in self.row.fields})

    def column(self, schema: JsonSchema) -> Rows:
        return schema.row_of_columns(
            self.type, [Presence(_INT, arrow_type(_INT), None, np.int32) for _ in self.row.fields]
        )


def _instants(member: FlinkType, read: Callable[[Any], int], micros: int, *, cuts: bool) -> Column:
    return Integers(member, arrow_type(_INSTANT), read, 64, factor=micros, cuts=cuts)


def _instant(micros: int) -> int:
    if not -_BIGINT_END <= micros < _BIGINT_END:
        raise FinalError("the time is out of the range of timestamps in microseconds", ErrorCode.OUT_OF_RANGE)
    return micros


# --- times of Oracle GoldenGate ------------------------------------------------------------------------

_LONG = re.compile(r"[+-]?\d{1,30}")
_YEAR = r"([0-9]{4}|\+[0-9]{5,19})"
_PART = "([0-9]{0,21})"
_OPERATION_TIME = re.compile(rf"{_YEAR}-{_PART}-{_PART}(?: {_PART}:{_PART}:{_PART}(?:\.([0-9]{{0,9}}))?)?")
_CURRENT_TIME = re.compile(rf"{_YEAR}-([0-9]{{2}})-([0-9]{{2}})T([0-9]{{2}}):([0-9]{{2}}):([0-9]{{2}})\.([0-9]{{6}})")
_SQL_DAY = r"(\+?\d{3,4})-(\+?\d|\d\d)-(\+?\d|\d\d)"
_SQL_DATE = re.compile(_SQL_DAY)
_SQL_TIME = re.compile(_SQL_DAY + r" ([+-]?\d{1,9}):([+-]?\d{1,9}):([+-]?\d{1,9})(?:\.(\d{1,9}))?")
_BLANKS = "".join(map(chr, range(33)))
_EPOCH = datetime(1970, 1, 1)
_read_time = scalar_converter(
    FlinkType("TIMESTAMP", precision=6), ScalarRules(streaming=False, iso=False, decimals=False)
)


def _operation_time(text: str) -> int:
    """Microseconds since 1970 of `op_ts`, by Flink's rules."""
    micros = _time_of(_OPERATION_TIME.fullmatch(text))
    if micros is None:
        raise FinalError(f"cannot read {preview(text)} as a time such as 2020-05-13 15:40:06.123456")
    return micros


def _current_time(text: str) -> int | None:
    """Microseconds since 1970 of `current_ts`, by Flink's rules; None if it is not a time."""
    micros = _time_of(_CURRENT_TIME.fullmatch(text))
    return _sql_time(text.strip(_BLANKS)) if micros is None else micros


def _time_of(match: re.Match[str] | None) -> int | None:
    """Microseconds since 1970, cut to milliseconds, of the matched parts of a time; None if they are not a time.

    The rules are those of Java's lenient parser. A missing month is January, a missing day the first, and a missing
    part of the time is 0. A day that its month does not have is the last day of the month. 24:00:00 is the next day.
    """
    if match is None:
        return None
    year, *parts = match.groups()[:6]
    fraction = match[7]
    try:
        month, day, hour, minute, second = map(_unit, parts)
    except ValueError:
        return None
    if not int(year) or (month is None and day is not None):
        return None
    gap = (fraction is not None and second is None) or (second is not None and minute is None)
    if hour == 24 and (gap or (fraction or "").strip("0")):
        return None
    year = f"{int(year):04}" if int(year) < 10_000 else f"+{int(year)}"
    date = f"{year}-{1 if month is None else month:02}-{1 if day is None else day:02}"
    try:
        micros: int = _read_time(f"{date} {hour or 0:02}:{minute or 0:02}:{second or 0:02}.{(fraction or '')[:3]}")
    except ValueError:
        return None
    return micros - MICROS_OF_A_DAY if hour == 24 and day is None else micros  # only a whole date has a next day


def _unit(digits: str | None) -> int | None:
    """The number of a month, day, hour, minute or second, which has one or two digits. None without digits.

    After two digits the same number may be repeated, because Flink's pattern has both widths in a row (`[MM][M]`).
    Raises `ValueError` if the second number differs.
    """
    if not digits:
        return None
    number, repeated = int(digits[:2]), digits[2:]
    if repeated and int(repeated) != number:
        raise ValueError
    return number


def _sql_time(text: str) -> int | None:
    """Microseconds since 1970 by `java.sql.Timestamp.valueOf` or `java.sql.Date.valueOf`; None if it is not a time.

    A part that is too large carries over into the next one: 25 hours are a day and an hour.
    """
    match = _SQL_TIME.fullmatch(text) if " " in text else _SQL_DATE.fullmatch(text)
    if not match or len(match[1]) != 4:
        return None
    year, month, day, *time = (int(part or 0) for part in match.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    hours, minutes, seconds = time or (0, 0, 0)
    fraction = (match[7] if time else None) or ""
    try:
        since = datetime(year, month, 1) - _EPOCH + timedelta(days=day - 1, hours=hours, minutes=minutes)
        micros = (since + timedelta(seconds=seconds)) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None
    return micros + int(fraction[:6].ljust(6, "0"))
