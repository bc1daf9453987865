"""Dates and times at many cursors: fixed patterns checked eight characters at a time, days looked up in a table."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Bytes, Column, Ints, Mask, Window, Words, fixed_width
from kvformat.codecs._json import bits
from kvformat.codecs._json.node import JsonBytes, Payload
from kvformat.codecs._json.numbers import ScalarNode

_U = np.uint64
_BYTE = _U(0xFF)
_LOW = _U(0x7F7F7F7F7F7F7F7F)
_HIGH = _U(0x8080808080808080)
_MICROS = np.array([0, 100_000, 10_000, 1_000, 100, 10, 1, 0, 0], np.int64)
_LAST_YEAR = 9999


class _Pattern:
    """Up to eight characters: `0` stands for any digit, `?` for anything, the others for themselves."""

    def __init__(self, text: bytes) -> None:
        padded = text.ljust(8, b"?")
        wild = bytes(0xFF if c == ord("?") else 0 for c in padded)
        self._text = _U(int.from_bytes(bytes(0 if c == ord("?") else c for c in padded), "little"))
        # what is added to the difference from the pattern makes the highest bit of a byte say: too large
        self._limit = _U(int.from_bytes(bytes(0x76 if c == ord("0") else 0x7F for c in padded), "little"))
        self._mask = _U(0x8080808080808080 & ~int.from_bytes(wild, "little"))

    def match(self, word: Words) -> tuple[Mask, Words]:
        """Where the pattern fits, and for every digit the two-digit number that begins there, each in its byte."""
        digits = word ^ self._text
        ok: Mask = ((((digits & _LOW) + self._limit) | digits) & self._mask) == 0
        return ok, digits * _U(10) + (digits >> _U(8))


def _part(pairs: Words, index: int) -> Ints:
    shifted = pairs >> _U(8 * index) if index else pairs
    return (shifted & _BYTE).view(np.int64)


@functools.cache
def _months() -> tuple[Ints, Ints]:
    """For year * 12 + month - 1: the day number (from 1970) before the month begins, and the length of the month."""
    starts = np.arange(np.datetime64("0000-01"), np.datetime64(f"{_LAST_YEAR + 1}-02"))
    days = starts.astype("datetime64[D]").astype(np.int64)
    return days[:-1] - 1, np.diff(days)


_YEAR_MONTH = _Pattern(b"0000-00-")
_DAY = _Pattern(b'00"')
_TIME = _Pattern(b"00:00:00")
_SECONDS = _Pattern(b":00")


def _days(year_month: Words, day: Ints) -> tuple[Ints, Mask]:
    """Day numbers and where the date exists; years from 0001 to 9999."""
    year = _part(year_month, 0) * 100 + _part(year_month, 2)
    month = _part(year_month, 5)
    index = year * 12 + month - 1
    before, lengths = _months()
    ok = (year > 0) & (month > 0) & (month <= 12) & (day > 0) & (day <= lengths.take(index, mode="clip"))
    return before.take(index, mode="clip") + day, ok


def _fraction(batch: JsonBytes, window: Window, distance: int) -> tuple[Ints | None, Column, Mask]:
    """What may follow the seconds: microseconds (None: nowhere any), how many characters, and where that is fine.

    From one to nine digits are taken, what lies below a microsecond is cut.
    """
    word = window.word(distance)
    dotted = bits.character(word, 0) == bits.DOT
    if not dotted.any():
        return None, np.zeros(len(window), np.uint8), ~dotted
    count, value = bits.digit_run(word >> _U(8))
    count = count * dotted
    micros = value.view(np.int64) * _MICROS.take(count)
    length: Bytes = count + dotted
    rows = np.flatnonzero(count == 7)
    if len(rows):
        micros[rows] = value[rows].view(np.int64) // 10
        position = window.position[rows] + (distance + 8)
        for _ in range(2):
            length[rows] += bits.is_digit(batch.byte(position))
            position = window.position[rows] + distance + length[rows]
    return micros, length, ~dotted | (count > 0)


def _closed(batch: JsonBytes, end: Ints, closing: bytes) -> Mask:
    """Where these characters stand at the position."""
    ok: Mask = batch.byte(end) == closing[0]
    for further in range(1, len(closing)):
        ok &= batch.byte(end + further) == closing[further]
    return ok


class DateNode(ScalarNode):
    """DATE: `"2024-01-31"`, years from 0001 to 9999; everything else is refused."""

    dtypes = (bool, np.int32)
    margin = 1

    def read(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask, Column]:
        ok = window.first() == bits.QUOTE
        fits, year_month = _YEAR_MONTH.match(window.word(1))
        ok &= fits
        fits, day = _DAY.match(window.word(9))
        ok &= fits
        days, fits = _days(year_month, _part(day, 0))
        return window.position + 12, ok & fits, days.astype(np.int32)

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        return fixed_width(pa.date32(), payload[1], payload[0])


class TimeNode(ScalarNode):
    """TIME: `"12:13:14"` with up to nine digits of a second, of which three count; everything else is refused."""

    dtypes = (bool, np.int64)
    margin = 1

    def read(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask, Column]:
        ok = window.first() == bits.QUOTE
        fits, time = _TIME.match(window.word(1))
        hour, minute, second = _part(time, 0), _part(time, 3), _part(time, 6)
        ok &= fits & (hour < 24) & (minute < 60) & (second < 60)
        micros, length, fits = _fraction(batch, window, 9)
        ok &= fits
        end = window.position + 9 + length
        ok &= _closed(batch, end, b'"')
        values = (hour * 3600 + minute * 60 + second) * 1000
        if micros is not None:
            values += micros // 1000
        return end + 1, ok, values * 1_000_000

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        return fixed_width(pa.time64("ns"), payload[1], payload[0])


class TimestampNode(ScalarNode):
    """TIMESTAMP and TIMESTAMP_LTZ: a date that exists, a time with seconds and up to nine digits of a second."""

    dtypes = (bool, np.int64)
    margin = 1

    def __init__(self, *, iso: bool, local: bool) -> None:
        self._kind = pa.timestamp("us", "UTC" if local else None)
        self._day_time = _Pattern(b"00T00:00" if iso else b"00 00:00")
        self._closing = b'Z"' if local else b'"'

    def read(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask, Column]:
        ok = window.first() == bits.QUOTE
        fits, year_month = _YEAR_MONTH.match(window.word(1))
        ok &= fits
        fits, day_time = self._day_time.match(window.word(9))
        ok &= fits
        fits, seconds = _SECONDS.match(window.word(17))
        ok &= fits
        days, fits = _days(year_month, _part(day_time, 0))
        hour, minute, second = _part(day_time, 3), _part(day_time, 6), _part(seconds, 1)
        ok &= fits & (hour < 24) & (minute < 60) & (second < 60)
        micros, length, fits = _fraction(batch, window, 20)
        ok &= fits
        end = window.position + 20 + length
        ok &= _closed(batch, end, self._closing)
        values = (days * 86400 + hour * 3600 + minute * 60 + second) * 1_000_000
        if micros is not None:
            values += micros
        return end + len(self._closing), ok, values

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        return fixed_width(self._kind, payload[1], payload[0])
