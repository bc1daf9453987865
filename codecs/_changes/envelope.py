"""Envelopes as data: which members a change message has, what its operations mean, what can be read besides the rows.

Two families. Debezium and Ogg send whole rows, `before` and `after`. Maxwell and Canal send the row after the change
and, of the row before it, only the columns that were another value (`partial`); Canal sends several rows in arrays
(`many`).
"""

from __future__ import annotations

import abc
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kvformat.codecs._json.exact import BadValue
from kvformat.codecs._json.scalars import Rules, scalar_converter, shown
from kvformat.codecs._scalars import MICROS_OF_A_DAY, clean
from kvformat.registry.changelog import RowKind
from kvformat.registry.types import FlinkField, FlinkType

KINDS = tuple(str(kind) for kind in RowKind)
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
"""Row kinds as indices into `KINDS`."""

TEXT = FlinkType("VARCHAR", length=2**31 - 1)
TEXTS = FlinkType("ARRAY", fields=(FlinkField("element", TEXT),))
BIGINT = FlinkType("BIGINT")


def map_of(value: FlinkType) -> FlinkType:
    """MAP<STRING, value>."""
    return FlinkType("MAP", fields=(FlinkField("key", TEXT), FlinkField("value", value)))


class Operation(enum.IntEnum):
    """What a message says that has happened; SKIP is a message to pass over."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    SKIP = 4


class Frame(NamedTuple):
    """The text before and after a row in a message."""

    opening: str
    closing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """How the messages of a format are laid out.

    `operation` is the member that tells what happened and `operations` its values, compared exactly. `before` and
    `after` are the members with the rows, `deleted` is the one that a deletion is read from. `array` says whether a
    top-level array of one message counts as that message. `writes` are the frames of inserts and deletes,
    `writes_without_nulls` those with `encode.ignore-null-fields`. `remedy` is what to do about a missing `before`.
    `wrappable` messages may also come in `schema` and `payload`. `objects` are members that are objects where they
    exist, which makes passing over them faster.
    """

    operation: str
    operations: Mapping[str, Operation]
    before: str
    after: str
    deleted: str
    writes: tuple[Frame, Frame]
    writes_without_nulls: tuple[Frame, Frame]
    metadata: Mapping[str, Metadata]
    remedy: str
    partial: bool = False
    many: bool = False
    array: bool = False
    wrappable: bool = False
    objects: tuple[str, ...] = ()

    @property
    def metadata_types(self) -> dict[str, str]:
        """The Flink types of the metadata columns, by key."""
        return {key: str(column.type) for key, column in self.metadata.items()}


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """How change messages are read. `lenient` is `ignore-parse-errors`, `iso` the ISO-8601 timestamps.

    `wrapped` messages are `{"schema": ..., "payload": {...}}`. `filters` are pairs of a member and the pattern that its
    text must match from end to end; other messages are skipped.
    """

    lenient: bool = False
    iso: bool = False
    wrapped: bool = False
    filters: tuple[tuple[str, re.Pattern[str]], ...] = ()


# --- metadata ------------------------------------------------------------------------------------------

_LTZ = FlinkType("TIMESTAMP_LTZ", precision=3)
_MOST = 2**63


@dataclass(frozen=True, slots=True)
class Metadata(abc.ABC):
    """A metadata column: `member` of the envelope, and how to get from its value to that of the column.

    `member_type` is the type as which json's rules read the member; `outside` says that it stands beside the payload of
    a wrapped message.
    """

    member: str
    outside: bool = field(default=False, kw_only=True)

    @property
    @abc.abstractmethod
    def type(self) -> FlinkType:
        """The column's type."""

    @property
    def member_type(self) -> FlinkType:
        """The type of the member."""
        return self.type

    def value(self, read: Any) -> Any:
        """The column's value, from that of the member, which is not None. Raises `BadValue`."""
        return read


@dataclass(frozen=True, slots=True)
class Plain(Metadata):
    """The member as it is."""

    plain_type: FlinkType = TEXT

    @property
    def type(self) -> FlinkType:
        return self.plain_type


@dataclass(frozen=True, slots=True)
class Epoch(Metadata):
    """A count since 1970, of units of so many microseconds, as an instant."""

    micros: int = 1000

    @property
    def type(self) -> FlinkType:
        return _LTZ

    @property
    def member_type(self) -> FlinkType:
        return BIGINT

    def value(self, read: Any) -> Any:
        return _instant(read * self.micros, self.member)


@dataclass(frozen=True, slots=True)
class Entry(Metadata):
    """An entry of a member that is read as a map of texts."""

    key: str = ""

    @property
    def type(self) -> FlinkType:
        return TEXT

    @property
    def member_type(self) -> FlinkType:
        return map_of(TEXT)

    def value(self, read: Any) -> Any:
        return dict(read).get(self.key)


@dataclass(frozen=True, slots=True)
class EpochEntry(Entry):
    """An entry that is a count of milliseconds since 1970, by `Long.parseLong`; other text is an error."""

    @property
    def type(self) -> FlinkType:
        return _LTZ

    def value(self, read: Any) -> Any:
        text = dict(read).get(self.key)
        if text is None:
            return None
        if not _LONG.fullmatch(text) or not -_MOST <= int(text) < _MOST:
            raise bad(f"cannot read {shown(text)} as milliseconds since 1970", self.member, self.key)
        return _instant(int(text) * 1000, f"{self.member}.{self.key}")


_LONG = re.compile(r"[+-]?\d{1,30}")


@dataclass(frozen=True, slots=True)
class OggTime(Metadata):
    """A time of Oracle GoldenGate, taken as UTC: `op_ts` where `strict`, else `current_ts`.

    Strict: `2020-05-13 15:40:06.123456`, months to seconds also of one digit or none, the time optional; all else is an
    error.
    Not strict: `2020-05-13T15:40:06.123456` with just six digits, or what `java.sql.Timestamp` or, without a time,
    `java.sql.Date` read; all else is null. The first two forms are cut to milliseconds, as Flink does.
    """

    strict: bool = False

    @property
    def type(self) -> FlinkType:
        return FlinkType("TIMESTAMP_LTZ", precision=6)

    @property
    def member_type(self) -> FlinkType:
        return TEXT

    def value(self, read: Any) -> Any:
        if self.strict:
            micros = _time_of(_OPERATION_TIME.fullmatch(read))
            if micros is None:
                raise bad(f"cannot read {shown(read)} as a time such as 2020-05-13 15:40:06.123456", self.member)
            return micros
        micros = _time_of(_CURRENT_TIME.fullmatch(read))
        return _sql_time(read.strip(_BLANKS)) if micros is None else micros


_YEAR = r"([0-9]{4}|\+[0-9]{5,19})"
_PART = "([0-9]{0,21})"
_OPERATION_TIME = re.compile(rf"{_YEAR}-{_PART}-{_PART}(?: {_PART}:{_PART}:{_PART}(?:\.([0-9]{{0,9}}))?)?")
_CURRENT_TIME = re.compile(rf"{_YEAR}-([0-9]{{2}})-([0-9]{{2}})T([0-9]{{2}}):([0-9]{{2}}):([0-9]{{2}})\.([0-9]{{6}})")
_SQL_DAY = r"(\+?\d{3,4})-(\+?\d|\d\d)-(\+?\d|\d\d)"
_SQL_DATE = re.compile(_SQL_DAY)
_SQL_TIME = re.compile(_SQL_DAY + r" ([+-]?\d{1,9}):([+-]?\d{1,9}):([+-]?\d{1,9})(?:\.(\d{1,9}))?")
_BLANKS = "".join(map(chr, range(33)))
_EPOCH = datetime(1970, 1, 1)
_read_time = scalar_converter(FlinkType("TIMESTAMP", precision=6), Rules(streaming=False, iso=False, decimals=False))


def _time_of(found: re.Match[str] | None) -> int | None:
    """Microseconds since 1970, cut to milliseconds, of the year to the fraction of a second; None if they are no time.

    As Java reads them leniently: without a month it is January, without a day the first, without a unit of time its
    zero. The last day of a month stands for one that it lacks, and 24:00:00 is the next day.
    """
    if found is None:
        return None
    year, *parts = found.groups()[:6]
    fraction = found[7]
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
    """A month, day, hour, minute or second of one or two digits, or none of them.

    After two digits the same number may come again: Flink's pattern has both widths one after the other (`[MM][M]`).
    """
    if not digits:
        return None
    number, again = int(digits[:2]), digits[2:]
    if again and int(again) != number:
        raise ValueError
    return number


def _sql_time(text: str) -> int | None:
    """As `java.sql.Timestamp.valueOf` or `java.sql.Date.valueOf`, which carry what is too much into the next unit."""
    found = _SQL_TIME.fullmatch(text) if " " in text else _SQL_DATE.fullmatch(text)
    if not found or len(found[1]) != 4:
        return None
    year, month, day, *time = (int(part or 0) for part in found.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    hours, minutes, seconds = time or (0, 0, 0)
    fraction = (found[7] if time else None) or ""
    try:
        since = datetime(year, month, 1) - _EPOCH + timedelta(days=day - 1, hours=hours, minutes=minutes)
        micros = (since + timedelta(seconds=seconds)) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None
    return micros + int(fraction[:6].ljust(6, "0"))


def _instant(micros: int, member: str) -> int:
    if not -_MOST <= micros < _MOST:
        raise bad("the time is out of the range of timestamps in microseconds", member)
    return micros


def bad(reason: str, *path: str) -> BadValue:
    """An error at a field of the envelope."""
    error = BadValue(reason)
    error.steps.extend(clean(step) for step in reversed(path))
    return error
