"""Parsers of the texts that Debezium writes: times and durations of ISO 8601, hexadecimal digits, Base64, and bits.

Each parser raises `ValueError` for any other value.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal

_INT64_MAX = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZONE = r"(?:Z|([+-])(\d\d):?(\d\d)(?::?(\d\d))?)"
_DATE = r"([+-]?\d{4,9})-(\d\d)-(\d\d)"
_INSTANT = re.compile(rf"{_DATE}T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{{1,9}}))?)?{_ZONE}", re.ASCII)
_CLOCK = re.compile(rf"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{{1,9}}))?)?{_ZONE}", re.ASCII)
_DAY = re.compile(rf"{_DATE}(?:{_ZONE})?", re.ASCII)
_CYCLE = 400
"""Years after which the calendar repeats."""
INFINITE_MICROS = {"POSITIVE_INFINITY": 9_223_372_036_825_200_000, "NEGATIVE_INFINITY": -9_223_372_036_832_400_000}
"""The instants for Postgres's infinity, in microseconds since 1970. Debezium and Postgres's driver write them in
columns without a zone; here every column has them. They are in the years 294247 and -290308."""
INFINITE_DAYS = {"POSITIVE_INFINITY": 106_751_991, "NEGATIVE_INFINITY": -106_751_992}
"""The days of these instants, since 1970."""
_INFINITE_YEARS = {292_278_994: "POSITIVE_INFINITY", 292_269_055: "NEGATIVE_INFINITY", 292_275_055: "NEGATIVE_INFINITY"}
"""The years in which Postgres's driver puts infinity, with any sign, as Java's `Date` and `Instant` print them. No
database has such years. The day and the hour depend on the connector's time zone."""
_INFINITE_DATES = {(-5_877_611, 6, 21): "POSITIVE_INFINITY", (-5_877_611, 6, 22): "NEGATIVE_INFINITY"}
"""The dates that Debezium's `PostgresValueConverter` writes for infinity."""
_MOST_DAYS = 2**31
"""One more than the largest number of days, or months, in 32 bits."""
INFINITE_COUNTS = {
    **dict.fromkeys((-2_147_472_692, -622_191_234, -622_191_233), INFINITE_DAYS["POSITIVE_INFINITY"]),
    **dict.fromkeys((-2_147_472_691, -625_821_272, -625_821_271), INFINITE_DAYS["NEGATIVE_INFINITY"]),
}
"""The day numbers that Debezium writes for infinity, with the days they stand for. While streaming, they are those of
`_INFINITE_DATES`. In a snapshot they are those of `_INFINITE_YEARS` by Java's `Date`, in two time zones, cut to 32
bits. All are before any day that a database has."""
_DURATION = re.compile(
    r"P(?:([+-]?\d{1,9})Y)?(?:([+-]?\d{1,9})M)?(?:([+-]?\d{1,9})D)?"
    r"(?:T(?:([+-]?\d{1,12})H)?(?:([+-]?\d{1,12})M)?(?:([+-]?\d{1,12}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)
_INFINITE_TEXTS = {"infinity": "POSITIVE_INFINITY", "-infinity": "NEGATIVE_INFINITY"}


def parse_instant(text: str) -> int:
    """Microseconds since 1970 of an instant with an offset, or of Postgres's infinity."""
    if text in _INFINITE_TEXTS:
        return INFINITE_MICROS[_INFINITE_TEXTS[text]]
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, *zone = match.groups()
    if abs(int(year)) in _INFINITE_YEARS:
        return INFINITE_MICROS[_INFINITE_YEARS[abs(int(year))]]
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        raise ValueError(text)
    minutes = (epoch_day(int(year), int(month), int(day)) * 24 + int(hour)) * 60 + int(minute)
    seconds = minutes * 60 + int(second or 0) - _offset(*zone)
    return check_micros(seconds * 10**6 + int((fraction or "")[:6].ljust(6, "0")))


def parse_day(text: str) -> int:
    """Days since 1970 of a date, which may end in an offset or `Z`."""
    match = _DAY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day = map(int, match.groups()[:3])
    special = _INFINITE_YEARS.get(abs(year)) or _INFINITE_DATES.get((year, month, day))
    return check_days(epoch_day(year, month, day)) if special is None else INFINITE_DAYS[special]


def parse_clock(text: str) -> int:
    """Nanoseconds since midnight in UTC of a time of day with an offset."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(text)
    hour, minute, second, fraction, *zone = match.groups()
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        raise ValueError(text)
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second or 0) - _offset(*zone)
    return (seconds % 86_400) * 10**9 + int((fraction or "").ljust(9, "0"))


def _offset(sign: str | None, hours: str | None, minutes: str | None, seconds: str | None) -> int:
    """Seconds east of Greenwich of the matched parts of an offset, which must be less than a day."""
    offset = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    if offset >= 86_400:
        raise ValueError(offset)
    return -offset if sign == "-" else offset


def parse_duration(text: str) -> int:
    """Microseconds of a duration of ISO 8601 without years and months, which have no length.

    Each part may have a sign.
    """
    months, micros = _duration_parts(text)
    if months:
        raise ValueError(text)
    return check_micros(micros)


def parse_months(text: str) -> int:
    """Months of a duration of ISO 8601 that has only years and months."""
    months, micros = _duration_parts(text)
    if micros or not -_MOST_DAYS <= months < _MOST_DAYS:
        raise ValueError(text)
    return months


def _duration_parts(text: str) -> tuple[int, int]:
    """Months and microseconds of a duration of ISO 8601."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(text)
    years, months, days, hours, minutes = (int(part or 0) for part in match.groups()[:5])
    fraction = Decimal(match[6] or 0).scaleb(6)
    seconds = ((days * 24 + hours) * 60 + minutes) * 60
    return years * 12 + months, seconds * 10**6 + int(fraction.to_integral_value(ROUND_FLOOR))


def epoch_day(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date in any year, by today's calendar."""
    cycles, of_cycle = divmod(year - 2000, _CYCLE)
    return datetime(2000 + of_cycle, month, day).toordinal() - _EPOCH.toordinal() + cycles * 146_097


def check_days(days: int) -> int:
    """Return a number of days unchanged if it fits 32 bits; otherwise raise `ValueError`."""
    if not -_MOST_DAYS <= days < _MOST_DAYS:
        raise ValueError(days)
    return days


def check_micros(micros: int) -> int:
    """Return a number of microseconds unchanged if it fits 64 bits; otherwise raise `ValueError`."""
    if abs(micros) > _INT64_MAX:
        raise ValueError(micros)
    return micros


def parse_hex(text: str) -> bytes:
    """Bytes of hexadecimal digits."""
    return binascii.a2b_hex(text)


def parse_hex_or_bits(text: str) -> bytes:
    """Bytes of hexadecimal digits, or of Base64, in which the connector writes BIT(n) in every mode."""
    try:
        return parse_hex(text)
    except ValueError:
        return parse_base64(text)


def parse_base64(text: str) -> bytes:
    """Bytes of Base64."""
    return binascii.a2b_base64(text, strict_mode=True)


def parse_base64_url_safe(text: str) -> bytes:
    """Bytes of Base64 with `-` and `_`, with or without padding."""
    return binascii.a2b_base64(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), strict_mode=True)


@dataclass(frozen=True)
class OrPlaceholder:
    """A parser that returns the placeholder as bytes, and calls `read` for other texts.

    Postgres's connector writes the placeholder unchanged in every mode.
    """

    read: Callable[[str], bytes]
    placeholder: bytes

    def __call__(self, text: str) -> bytes:
        return self.placeholder if text.encode() == self.placeholder else self.read(text)


def bits_reader(bits: int) -> Callable[[bytes], int]:
    """A function that reads bytes of bits, the lowest first, as a signed integer of `bits` bits."""

    def read(data: bytes) -> int:
        number = int.from_bytes(data, "little")
        if number >= 1 << bits - 1:
            raise ValueError(data)
        return number

    return read
