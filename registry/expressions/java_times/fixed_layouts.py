"""Whole columns of texts in which every field of a time has a fixed place, such as `2024-03-09 12:34:56`.

    layout_of_java_time(compiled("yyyy-MM-dd"))       Layout(((year, 4), "-", (month, 2), "-", (day, 2)))

Both directions work on bytes in NumPy. They do the usual values: dates that exist, with years from 1583 to 9999. The
caller does the others one by one, as Java does.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kvformat.registry.expressions.java_times import formatter_patterns
from kvformat.registry.expressions.java_times.simple_writing import SimpleDateFormat, SimpleField
from kvformat.registry.expressions.local_times import DAY_MICROS, dates_of, days_of, days_of_dates, month_lengths
from kvformat.registry.expressions.vectors import Bools, Numbers, validity

_FIRST_YEAR = 1583
FIRST, LAST = days_of(_FIRST_YEAR, 1, 1) * DAY_MICROS, days_of(10_000, 1, 1) * DAY_MICROS - 1
"""The timestamps that have the usual form with `SimpleDateFormat`."""
FIRST_OF_JAVA_TIME = days_of(1, 1, 1) * DAY_MICROS
"""The first timestamp that has the usual form with `java.time`."""
_JAVA_TIME = {
    ("YEAR_OF_ERA", 4): "year", ("YEAR", 4): "year", ("MONTH", 2): "month", ("DAY_OF_MONTH", 2): "day",
    ("HOUR", 2): "hour", ("MINUTE", 2): "minute", ("SECOND", 2): "second",
}  # fmt: skip
_SIMPLE = {
    ("y", 4): "year", ("M", 2): "month", ("d", 2): "day", ("H", 2): "hour", ("m", 2): "minute", ("s", 2): "second",
    ("S", 3): "fraction",
}  # fmt: skip
_MICRO_DIGITS = 6
_ZERO, _E = 48, 69
_DEFAULTS = {"year": 1970, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "fraction": 0}
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of a text: a field with its digits, or the bytes of a literal."""

    parts: tuple[tuple[str, int] | bytes, ...]

    @property
    def width(self) -> int:
        """Return the number of bytes of a text."""
        return sum(len(part) if isinstance(part, bytes) else part[1] for part in self.parts)

    @property
    def ends_with_digits(self) -> bool:
        """Return whether the last part is a field."""
        return not isinstance(self.parts[-1], bytes)


def _layout(parts: Sequence[tuple[str, int] | bytes | None]) -> Layout | None:
    """Return a layout, None if a part has no fixed place or a field comes twice."""
    known = [part for part in parts if part is not None]
    fields = [part[0] for part in known if not isinstance(part, bytes)]
    return Layout(tuple(known)) if fields and len(known) == len(parts) and len(set(fields)) == len(fields) else None


@functools.lru_cache(maxsize=256)
def layout_of_java_time(elements: tuple[formatter_patterns.Element, ...]) -> Layout | None:
    """Return the layout of a pattern of java.time, None if it has none."""
    return _layout([_java_time_part(element) for element in elements])


def _java_time_part(element: formatter_patterns.Element) -> tuple[str, int] | bytes | None:
    if isinstance(element, formatter_patterns.TextElement):
        return element.text.encode("utf-8", "replace")
    if not isinstance(element, formatter_patterns.NumberElement) or element.is_reduced:
        return None
    if element.is_fraction:
        return ("fraction", element.least)
    name = _JAVA_TIME.get((element.field, element.least))
    return None if name is None else (name, element.least)


@functools.lru_cache(maxsize=256)
def layout_of_simple(pattern: SimpleDateFormat) -> Layout | None:
    """Return the layout of a pattern of SimpleDateFormat, None if it has none."""
    return _layout([_simple_part(element) for element in pattern.elements])


def _simple_part(element: SimpleField | str) -> tuple[str, int] | bytes | None:
    if isinstance(element, str):
        return element.encode("utf-8", "replace")
    name = _SIMPLE.get((element.letter, element.count))
    return None if name is None else (name, element.count)


# --- writing -------------------------------------------------------------------------------------------------


def written(layout: Layout, micros: Numbers, valid: Bools) -> pa.Array:
    """Return the texts of local times from `FIRST` to `LAST`; null where `valid` is False."""
    count, width = len(micros), layout.width
    values = _values_of(micros * valid)
    texts = np.empty((count, width), np.uint8)
    at = 0
    for part in layout.parts:
        if isinstance(part, bytes):
            texts[:, at : at + len(part)] = np.frombuffer(part, np.uint8)
            at += len(part)
        else:
            _write_digits(texts[:, at : at + part[1]], _digits_of(part, values))
            at += part[1]
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), count, [bits, pa.py_buffer(offsets), pa.py_buffer(texts)])


def _values_of(micros: Numbers) -> dict[str, Numbers]:
    days = micros // DAY_MICROS
    of_day = micros - days * DAY_MICROS
    year, month, day = dates_of(days)
    seconds = (of_day // 1_000_000).astype(np.int32)
    minutes = seconds // 60
    return {
        "year": year, "month": month, "day": day, "hour": minutes // 60, "minute": minutes % 60,
        "second": seconds % 60, "fraction": of_day % 1_000_000,
    }  # fmt: skip


def _digits_of(part: tuple[str, int], values: dict[str, Numbers]) -> Numbers:
    name, width = part
    numbers = values[name]
    if name == "fraction":
        numbers = numbers * 10 ** max(0, width - _MICRO_DIGITS) // 10 ** max(0, _MICRO_DIGITS - width)
    return numbers


def _write_digits(columns: Bytes, values: Numbers) -> None:
    rest = values.astype(np.int32)
    for column in range(columns.shape[1] - 1, 0, -1):
        following = rest // 10
        columns[:, column] = rest - following * 10 + _ZERO
        rest = following
    columns[:, 0] = rest + _ZERO


# --- reading -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FixedTexts:
    """The bytes of an array of texts: where each one starts and ends."""

    data: Bytes
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]

    @classmethod
    def of(cls, array: pa.Array) -> FixedTexts:
        """Return the bytes of a string array; a null has none."""
        _, offsets, data = array.buffers()
        places = np.zeros(1, np.int32)
        if len(array):
            places = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
        content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        starts = places[:-1]
        return cls(content, starts, np.where(validity(array), places[1:], starts).astype(np.int32))

    @property
    def lengths(self) -> npt.NDArray[np.int32]:
        """Return the number of bytes of each text."""
        return self.ends - self.starts

    def matrix(self, rows: npt.NDArray[np.intp], width: int) -> Bytes:
        """Return the first bytes of some texts, which have at least so many."""
        starts = self.starts[rows]
        if len(rows) and bool((np.diff(starts) == width).all()):
            return self.data[starts[0] : starts[0] + len(rows) * width].reshape(len(rows), width)
        first_bytes: Bytes = self.data[starts[:, np.newaxis] + np.arange(width, dtype=np.int32)]
        return first_bytes


def read(layout: Layout, texts: FixedTexts, *, prefix: bool = False, then: bytes = b"") -> tuple[Numbers, Bools]:
    """Return local times in microseconds, and which texts are usual ones of a layout.

    prefix: whether a text may go on after the layout, as with SimpleDateFormat, but not with a part of a number.
    then: with `prefix` the only byte that may follow.
    """
    width, lengths = layout.width, texts.lengths
    rows = np.flatnonzero(lengths >= width if prefix else lengths == width)
    micros, usual = np.zeros(len(lengths), np.int64), np.zeros(len(lengths), np.bool_)
    if not len(rows):
        return micros, usual
    values, good = _fields(layout, texts.matrix(rows, width))
    if prefix:
        good &= _may_end(layout, texts, rows, then)
    times, exists = _micros_of(values)
    micros[rows], usual[rows] = times, good & exists
    return micros, usual


def _may_end(layout: Layout, texts: FixedTexts, rows: npt.NDArray[np.intp], then: bytes) -> Bools:
    longer = texts.lengths[rows] > layout.width
    after = texts.data[(texts.starts[rows] + layout.width) * longer]
    if then:
        ends: Bools = after == then[0]
    elif layout.ends_with_digits:
        ends = (after < _ZERO) | ((after > _ZERO + 9) & (after < 128) & (after != _E))
    else:
        ends = np.ones(len(rows), np.bool_)
    return ~longer | ends


def _fields(layout: Layout, matrix: Bytes) -> tuple[dict[str, Numbers], Bools]:
    """Return the numbers of the fields, and which texts have digits and literals at their places."""
    values: dict[str, Numbers] = {}
    good = np.ones(len(matrix), np.bool_)
    at = 0
    for part in layout.parts:
        if isinstance(part, bytes):
            good &= (matrix[:, at : at + len(part)] == np.frombuffer(part, np.uint8)).all(axis=1)
            at += len(part)
            continue
        name, width = part
        digits = matrix[:, at : at + width] - np.uint8(_ZERO)
        good &= (digits <= 9).all(axis=1)
        number: Numbers = np.zeros(len(matrix), np.int32)
        for column in range(min(width, _MICRO_DIGITS)):
            number = number * 10 + digits[:, column]
        if name == "fraction":
            number = number * 10 ** max(0, _MICRO_DIGITS - width)
        values[name] = number
        at += width
    return values, good


def _micros_of(values: dict[str, Numbers]) -> tuple[Numbers, Bools]:
    """Return the timestamps of fields, and which of them exist and are usual."""
    count = len(next(iter(values.values())))
    year, month, day, hour, minute, second, fraction = (
        values.get(name, np.full(count, default, np.int32)) for name, default in _DEFAULTS.items()
    )
    exists = (year >= _FIRST_YEAR) & (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60)
    exists &= second < 60
    month = np.clip(month, 1, 12)
    exists &= day <= month_lengths(year, month)
    days = days_of_dates(year, month, day).astype(np.int64)
    seconds = (hour.astype(np.int32) * 60 + minute) * 60 + second
    return days * DAY_MICROS + seconds.astype(np.int64) * 1_000_000 + fraction, exists
