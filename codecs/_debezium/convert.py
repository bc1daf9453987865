"""Values as they are on the wire as those of a table's columns, array by array.

    Units(1000, 1)         int64 of milliseconds -> timestamp[us]      Unscaled(2)   binary "01d4c0" -> 1200.00
    Zoned()                "2025-03-03T09:30:00+02:00" -> an instant   Inside(...)   what is in rows, arrays and maps

What can't be is the fault of its row; the value is then null.
"""

from __future__ import annotations

import abc
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import RowsOf, numbers_of, owners, relisted, retyped, valid_of
from kvformat.codecs._columnar import Ints, Mask, validity
from kvformat.codecs._json.scalars import shown
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FARTHEST = 2**63 - 1
_ZONE = r"(?:Z|([+-])(\d\d):?(\d\d)(?::?(\d\d))?)"
_DATE = r"([+-]?\d{4,9})-(\d\d)-(\d\d)"
_INSTANT = re.compile(rf"{_DATE}T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{{1,9}}))?)?{_ZONE}", re.ASCII)
_CLOCK = re.compile(rf"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{{1,9}}))?)?{_ZONE}", re.ASCII)
_DAY = re.compile(rf"{_DATE}(?:{_ZONE})?", re.ASCII)
_SHOWN = 100  # characters of a value that an error quotes
_USUAL_LENGTH, _T, _Z = len("2025-03-03T09:30:00Z"), ord("T"), ord("Z")
_MOST_BYTES, _MOST_SCALE = 64, 150
"""Of a decimal that is looked at: more than any DECIMAL holds."""
WIDE = Context(prec=400)
_POWERS = 10 ** np.arange(19)
_NANOS_OF_A_DAY = 86_400 * 10**9
_CYCLE = 400
"""Years after which days and weeks are the same again."""
INFINITE_MICROS = {"POSITIVE_INFINITY": 9_223_372_036_825_200_000, "NEGATIVE_INFINITY": -9_223_372_036_832_400_000}
"""The moments that Debezium writes for Postgres's infinity in columns without a zone, as Postgres's driver does; here
it is these in every column. They are in the years 294247 and -290308."""
EARLIEST_DAY = -2_440_588
"""The first day of any database: 4714-11-24 BC, where PostgreSQL and Oracle begin. A smaller number is not a day."""
INFINITE_DAYS = {"POSITIVE_INFINITY": 106_751_991, "NEGATIVE_INFINITY": -106_751_992}
"""The days of these moments."""
_INFINITE_YEARS = {292_278_994: "POSITIVE_INFINITY", 292_269_055: "NEGATIVE_INFINITY", 292_275_055: "NEGATIVE_INFINITY"}
"""The years, whatever their sign, of the milliseconds that Postgres's driver has for infinity: as Java's `Date` and
`Instant` say them. No database has such years. The day and the hour depend on the connector's time zone."""
_INFINITE_DATES = {(-5_877_611, 6, 21): "POSITIVE_INFINITY", (-5_877_611, 6, 22): "NEGATIVE_INFINITY"}
"""The days that Debezium's `PostgresValueConverter` has for infinity."""
_MOST_DAYS = 2**31
"""The days, or months, that a column counts in 32 bits."""
INFINITE_COUNTS = {
    **dict.fromkeys((-2_147_472_692, -622_191_234, -622_191_233), INFINITE_DAYS["POSITIVE_INFINITY"]),
    **dict.fromkeys((-2_147_472_691, -625_821_272, -625_821_271), INFINITE_DAYS["NEGATIVE_INFINITY"]),
}
"""Days that Debezium writes for infinity: those of `_INFINITE_DATES` while streaming, and in a snapshot those of
`_INFINITE_YEARS` by Java's `Date`, in two time zones, cut to 32 bits. All are before any day that a database has."""
_SPAN = re.compile(
    r"P(?:([+-]?\d{1,9})Y)?(?:([+-]?\d{1,9})M)?(?:([+-]?\d{1,9})D)?"
    r"(?:T(?:([+-]?\d{1,12})H)?(?:([+-]?\d{1,12})M)?(?:([+-]?\d{1,12}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)
_INFINITE_TEXTS = {"infinity": "POSITIVE_INFINITY", "-infinity": "NEGATIVE_INFINITY"}


class RowFaults:
    """Why rows can't be read, by their places; the first reason of a row counts."""

    def __init__(self) -> None:
        self.reasons: dict[int, str] = {}

    def add(self, rows: Ints, reason: Callable[[int], str]) -> None:
        """Rows with the reason for each of them, by its number among these; -1 is no row."""
        for number, row in enumerate(rows.tolist()):
            if row >= 0 and row not in self.reasons:
                self.reasons[row] = reason(number)


@dataclass(frozen=True)
class Change(abc.ABC):
    """From values on the wire to those of a type; `said` is what the wire's schema, or an option, calls them."""

    type: FlinkType
    said: str

    @abc.abstractmethod
    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        """The values, and which of those that are not null can't be; None for none."""

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, faults: RowFaults) -> pa.Array:
        """The values; those that can't be are null and are noted."""
        values, bad = self.values(wire)
        if bad is None or not bad.any():
            return values
        places = np.flatnonzero(bad)
        told = wire.take(pa.array(places)).to_pylist()
        faults.add(rows_of(places), lambda number: self.fault(told[number], path))
        return pc.if_else(pa.array(bad), pa.scalar(None, values.type), values)

    def fault(self, value: Any, path: str) -> str:
        """The reason for a value."""
        text = value.hex() if isinstance(value, bytes) else value
        told = shown(text) if isinstance(text, str) else str(text)[:_SHOWN]
        code = ErrorCode.OUT_OF_RANGE if self.is_range else ErrorCode.WRONG_TYPE
        return code.marked(f"field '{path}': cannot read {told} ({self.said}) as {self.type.summary()}")

    is_range = True


@dataclass(frozen=True)
class RefusedValues(Change):
    """Values of a kind that the column can't hold: each is a fault, whatever it is. `hint` says what to do."""

    hint: str = ""
    is_range = False

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        there: Mask = np.asarray(wire.is_valid())
        return pa.nulls(len(wire), arrow_type(nullable(self.type))), there

    def fault(self, value: Any, path: str) -> str:
        return f"{super().fault(value, path)}{self.hint}"


@dataclass(frozen=True)
class Units(Change):
    """Counts of a unit as DATE, TIME, TIMESTAMP or an interval: `times` / `divisor` of what Arrow counts, cut down.

    `special` are counts with what they stand for.
    """

    times: int = 1
    divisor: int = 1
    special: tuple[tuple[int, int], ...] = ()

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        target = arrow_type(nullable(self.type))
        counts = written = numbers_of(wire)
        bad = None
        if self.times > 1:
            bad = (np.abs(counts) > _FARTHEST // self.times) | (counts == -_FARTHEST - 1)
            counts = np.where(bad, 0, counts) if bad.any() else counts
            counts = counts * self.times
        elif self.divisor > 1:
            counts = counts // self.divisor
        if self.type.root == "DATE":
            bad = (counts < EARLIEST_DAY) & ~np.isin(written, [count for count, _ in self.special])
        for count, meant in self.special:
            is_meant = written == count
            counts = np.where(is_meant, meant, counts) if is_meant.any() else counts
        if self.type.root == "TIME":
            outside = (counts < 0) | (counts >= _NANOS_OF_A_DAY)
            bad = outside if bad is None else bad | outside
        if bad is not None and wire.null_count:
            bad &= np.asarray(wire.is_valid())
        return retyped(counts, target, wire), bad


@dataclass(frozen=True)
class Flag(Change):
    """0 and 1 as BOOLEAN."""

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        counts = numbers_of(wire)
        bad = (counts != 0) & (counts != 1) & np.asarray(wire.is_valid())
        return pa.array(counts == 1, mask=np.asarray(wire.is_null())), bad


@dataclass(frozen=True)
class Unscaled(Change):
    """Two's complement, big-endian, as DECIMAL; `scale` is where the point stands."""

    scale: int = 0

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        return _decimals(wire, self.type, np.full(len(wire), self.scale, np.int64))


@dataclass(frozen=True)
class VariableScale(Change):
    """Rows of `scale` and unscaled `value` as DECIMAL."""

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        scale, value = wire.flatten()
        return _decimals(value, self.type, numbers_of(scale.fill_null(0)).astype(np.int64))


@dataclass(frozen=True)
class PlainDigits(Change):
    """A decimal, as `inner` reads it, as its digits."""

    inner: Change | None = None

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        if isinstance(self.inner, VariableScale):
            pairs = [
                None if row is None or row["value"] is None else (row["value"], row["scale"])
                for row in wire.to_pylist()
            ]
        else:
            scale = self.inner.scale if isinstance(self.inner, Unscaled) else 0
            pairs = [None if data is None else (data, scale) for data in wire.to_pylist()]
        found = [None if pair is None else plain(*pair) for pair in pairs]
        bad = np.fromiter(
            (text is None and pair is not None for text, pair in zip(found, pairs, strict=True)), np.bool_, len(found)
        )
        return pa.array(found, pa.string()), bad


@dataclass(frozen=True)
class ByOne(Change):
    """Each value by a function that raises `ValueError` for what it can't read: for what is rare."""

    read: Callable[[Any], Any] = field(default=str)

    is_range = False

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        found: list[Any] = []
        bad = np.zeros(len(wire), np.bool_)
        for place, value in enumerate(wire.to_pylist()):
            try:
                found.append(None if value is None else self.read(value))
            except (ValueError, ArithmeticError):
                found.append(None)
                bad[place] = True
        target = arrow_type(nullable(self.type))
        if not pa.types.is_temporal(target):
            return pa.array(found, target), bad
        return pa.array(found, pa.int32() if target == pa.date32() else pa.int64()).cast(target), bad


@dataclass(frozen=True)
class Zoned(Change):
    """Texts of ISO 8601 with an offset as instants, digits below a microsecond cut off."""

    is_range = False

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        target = arrow_type(nullable(self.type))
        if _are_usual(wire.drop_null() if wire.null_count else wire):
            try:
                instants = wire.cast(pa.timestamp("us", "UTC"))
                return instants.cast(pa.int64()).cast(target), None
            except pa.ArrowInvalid:  # a 30th of February, an hour 25
                pass
        return ByOne(self.type, self.said, instant_of).values(wire)


@dataclass(frozen=True)
class SplitWords(Change):
    """Texts with commas between as ARRAY<STRING>; the empty text is no word."""

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        lists = [None if text is None else text.split(",") if text else [] for text in wire.to_pylist()]
        return pa.array(lists, arrow_type(nullable(self.type))), None


@dataclass(frozen=True)
class Inside(Change):
    """What is in a ROW, an ARRAY or a MAP: the change of each part, by its name in the type; others stay."""

    parts: Mapping[str, Change] = field(default_factory=dict)

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        raise NotImplementedError("its parts are converted")

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, faults: RowFaults) -> pa.Array:
        target = arrow_type(nullable(self.type))
        if self.type.root == "ROW":
            return self._row(wire, target, path, rows_of, faults)
        above = owners(wire, rows_of)
        if self.type.root == "ARRAY":
            items = self._part("element", wire.values, f"{path}.element", above, faults)
            return relisted(wire, target, items)
        items = self._part("value", wire.items, f"{path}.value", above, faults)
        entries = pa.StructArray.from_arrays([wire.keys, items], fields=[target.key_field, target.item_field])
        return relisted(wire, target, entries)

    def _part(self, name: str, wire: pa.Array, path: str, rows_of: RowsOf, faults: RowFaults) -> pa.Array:
        change = self.parts.get(name)
        return wire if change is None else change.convert(wire, path, rows_of, faults)

    def _row(
        self, wire: pa.StructArray, target: pa.DataType, path: str, rows_of: RowsOf, faults: RowFaults
    ) -> pa.StructArray:
        valid = valid_of(wire)

        def above(places: Ints) -> Ints:
            return rows_of(places if valid is None else np.where((places >= 0) & valid[places], places, -1))

        children = [
            self._part(f.name, wire.field(i), f"{path}.{f.name}" if path else f.name, above, faults)
            for i, f in enumerate(self.type.fields)
        ]
        return pa.Array.from_buffers(target, len(wire), [None if valid is None else validity(valid)], children=children)


# --- decimals ----------------------------------------------------------------------------------------------


def _decimals(data: pa.BinaryArray, t: FlinkType, scales: Ints) -> tuple[pa.Array, Mask]:
    """Unscaled numbers with their scales as DECIMAL: those of at most eight bytes at once, the others one by one."""
    precision, scale = t.precision or 0, t.scale or 0
    count = len(data)
    there: Mask = np.asarray(data.is_valid())
    offsets = _offsets(data) if count else np.zeros(1, np.int64)
    lengths = np.where(there, np.diff(offsets), 0)
    finer = scale - scales
    short = there & (lengths > 0) & (lengths <= 8) & (finer >= 0) & (finer <= 18)
    # the eight bytes before each end, and what is not of the value pushed out: its sign comes down
    octets = bytes(8) + (data.buffers()[2] or b"") if count else bytes(8)
    before = np.ndarray((len(octets) - 7,), ">i8", octets, strides=(1,))
    unused = np.where(short, 64 - 8 * lengths, 0)
    values = before[offsets[1:]].astype(np.int64) << unused >> unused
    places = np.where(short, finer, 0)
    most = 10**precision - 1 if precision <= 18 else _FARTHEST
    limits = np.array([most // 10**place for place in range(19)], np.int64)[places]
    fits = short & (values <= limits) & (values >= -limits)
    values = np.where(fits, values * _POWERS[places], 0)
    words = np.empty((count, 2), np.int64)
    words[:, 0], words[:, 1] = values, values >> 63
    kind = arrow_type(nullable(t))
    slow = np.flatnonzero(there & ~fits)
    valid = there.copy()
    valid[slow] = False
    array = pa.Array.from_buffers(kind, count, [validity(valid), pa.py_buffer(words)])
    bad = np.zeros(count, np.bool_)
    if len(slow):
        found = [
            _decimal(value, of, precision, scale)
            for value, of in zip(data.take(pa.array(slow)).to_pylist(), scales[slow].tolist(), strict=True)
        ]
        mask = np.zeros(count, np.bool_)
        mask[slow] = True
        array = pc.replace_with_mask(array, pa.array(mask), pa.array(found, kind))
        bad[slow] = [number is None for number in found]
    return array, bad


def number(data: bytes, scale: int) -> Decimal | None:
    """The number of unscaled bytes; None for no bytes, and where there are too many."""
    if not data or len(data) > _MOST_BYTES or abs(scale) > _MOST_SCALE:
        return None
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, WIDE)


def _decimal(data: bytes, written: int, precision: int, scale: int) -> Decimal | None:
    """The number, None where digits of it would be lost."""
    found = number(data, written)
    if found is None:
        return None
    exact = found.quantize(Decimal((0, (1,), -scale)), context=WIDE)
    return exact if exact == found and exact.copy_abs() < Decimal(10) ** (precision - scale) else None


def plain(data: bytes, scale: int) -> str | None:
    """The digits of the number of unscaled bytes, without an exponent; None where there are too many."""
    found = number(data, scale)
    return None if found is None else f"{found:f}"


def decimal_of(precision: int, scale: int) -> Callable[[Any], Decimal]:
    """Reads a text, or a double by its shortest text, as DECIMAL."""

    def read(value: Any) -> Decimal:
        number = Decimal(repr(value) if isinstance(value, float) else value)
        if not number.is_finite():
            raise ValueError(value)
        exact = number.quantize(Decimal((0, (1,), -scale)), context=WIDE)
        if exact != number or exact.copy_abs() >= Decimal(10) ** (precision - scale):
            raise ValueError(value)
        return exact

    return read


# --- texts -------------------------------------------------------------------------------------------------


def _are_usual(texts: pa.StringArray) -> bool:
    """Whether all are as `2025-03-03T09:30:00.123456Z`, as far as Arrow does not refuse others, or looks at them."""
    if not len(texts):
        return True
    offsets, data = _offsets(texts), np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if (np.diff(offsets) < _USUAL_LENGTH).any():
        return False
    return bool((data[offsets[:-1] + 10] == _T).all() and (data[offsets[1:] - 1] == _Z).all())


def _offsets(values: pa.Array) -> Ints:
    """Where texts or bytes begin, and the end of the last one."""
    found: Ints = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    return found


def instant_of(text: str) -> int:
    """Microseconds since 1970 of a text with an offset, or of Postgres's infinity."""
    if text in _INFINITE_TEXTS:
        return INFINITE_MICROS[_INFINITE_TEXTS[text]]
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, *zone = found.groups()
    if abs(int(year)) in _INFINITE_YEARS:
        return INFINITE_MICROS[_INFINITE_YEARS[abs(int(year))]]
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        raise ValueError(text)
    minutes = (day_number(int(year), int(month), int(day)) * 24 + int(hour)) * 60 + int(minute)
    seconds = minutes * 60 + int(second or 0) - _offset(*zone)
    return in_range(seconds * 10**6 + int((fraction or "")[:6].ljust(6, "0")))


def in_range(micros: int) -> int:
    """Microseconds that a column of moments holds; raises `ValueError` for others."""
    if abs(micros) > _FARTHEST:
        raise ValueError(micros)
    return micros


def day_number(year: int, month: int, day: int) -> int:
    """Days since 1970 of a day of any year, by the calendar of today."""
    cycles, of_cycle = divmod(year - 2000, _CYCLE)
    return datetime(2000 + of_cycle, month, day).toordinal() - _EPOCH.toordinal() + cycles * 146_097


def clock_of(text: str) -> int:
    """Nanoseconds since midnight, in UTC, of a time of day with an offset."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(text)
    hour, minute, second, fraction, *zone = found.groups()
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        raise ValueError(text)
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second or 0) - _offset(*zone)
    return (seconds % 86_400) * 10**9 + int((fraction or "").ljust(9, "0"))


def _offset(sign: str | None, hours: str | None, minutes: str | None, seconds: str | None) -> int:
    """Seconds east of Greenwich; raises `ValueError` from a day on."""
    offset = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    if offset >= 86_400:
        raise ValueError(offset)
    return -offset if sign == "-" else offset


def day_of(text: str) -> int:
    """Days since 1970 of a date, which may end in an offset or `Z`."""
    found = _DAY.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, month, day = map(int, found.groups()[:3])
    special = _INFINITE_YEARS.get(abs(year)) or _INFINITE_DATES.get((year, month, day))
    days = day_number(year, month, day) if special is None else INFINITE_DAYS[special]
    if not -_MOST_DAYS <= days < _MOST_DAYS:
        raise ValueError(text)
    return days


def span_of(text: str) -> int:
    """Microseconds of a duration of ISO 8601, each part with a sign of its own; years and months have no length."""
    months, micros = _span_parts(text)
    if months:
        raise ValueError(text)
    return in_range(micros)


def months_of(text: str) -> int:
    """Months of a duration of ISO 8601 that has nothing but years and months."""
    months, micros = _span_parts(text)
    if micros or not -_MOST_DAYS <= months < _MOST_DAYS:
        raise ValueError(text)
    return months


def _span_parts(text: str) -> tuple[int, int]:
    """Months and microseconds."""
    found = _SPAN.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(text)
    years, months, days, hours, minutes = (int(part or 0) for part in found.groups()[:5])
    fraction = Decimal(found[6] or 0).scaleb(6, WIDE)
    seconds = ((days * 24 + hours) * 60 + minutes) * 60
    return years * 12 + months, seconds * 10**6 + int(fraction.to_integral_value(ROUND_FLOOR))



def hex_of(text: str) -> bytes:
    """Bytes of pairs of hexadecimal digits."""
    return binascii.a2b_hex(text)


def hex_or_bits_of(text: str) -> bytes:
    """Bytes of pairs of hexadecimal digits, or of Base64, which BIT(n) has whatever the mode."""
    try:
        return hex_of(text)
    except ValueError:
        return base64_of(text)


def url_safe_of(text: str) -> bytes:
    """Bytes of base64 with `-` and `_`."""
    return binascii.a2b_base64(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), strict_mode=True)


@dataclass(frozen=True)
class OrPlaceholder:
    """What `read` reads, but for a placeholder: Postgres's connector writes it as it is, whatever the mode."""

    read: Callable[[str], bytes]
    placeholder: bytes

    def __call__(self, text: str) -> bytes:
        return self.placeholder if text.encode() == self.placeholder else self.read(text)


def base64_of(text: str) -> bytes:
    """Bytes of base64."""
    return binascii.a2b_base64(text, strict_mode=True)


def bits_of(bits: int) -> Callable[[bytes], int]:
    """Reads bits, the lowest byte first, as a whole number with so many bits."""

    def read(data: bytes) -> int:
        found = int.from_bytes(data, "little")
        if found >= 1 << bits - 1:
            raise ValueError(data)
        return found

    return read
