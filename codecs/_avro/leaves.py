"""Leaves: read scalar values of all messages at once.

A leaf can read the value of a union's branch. Then `shift` is 1, because the cursors are before the byte of the
branch. `valid` says which messages have a value (None: all of them); the other cursors only skip the branch.
NumPy gathers single bytes six times as fast as words, so words are only read for values that are mostly longer.
"""

from __future__ import annotations

import abc
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kvformat.codecs._avro.columns import Codes, Nulls, Numbers, Part, TextSpans
from kvformat.codecs._avro.cursors import Cursors, decode_ints, decode_longs, is_too_long, read_varints
from kvformat.codecs._avro.decimals import DecimalReading
from kvformat.codecs._avro.resolve import Number
from kvformat.codecs._columnar import AnyArray, Ints, Mask, Positions

_U = np.uint64
_TYPES: Final[dict[str, np.dtype[Any]]] = {
    "int": np.dtype("i4"),
    "long": np.dtype("i8"),
    "float": np.dtype("f4"),
    "double": np.dtype("f8"),
}
_WIDTHS: Final = {"boolean": 1, "float": 4, "double": 8}
_LONG_MAX: Final = 2**63 - 1


class PartReader(abc.ABC):
    """Reads one part of the writer's schema."""

    #: size of every value in bytes, None if sizes differ
    width: int | None = None

    @abc.abstractmethod
    def read_part(self, cursors: Cursors) -> Part:
        """Read a value of every message and move the cursors after it."""


class Leaf(PartReader):
    """A part reader that can read the value of a union's branch."""

    def read_part(self, cursors: Cursors) -> Part:
        """Read a value of every message and move the cursors after it."""
        return self.read_values(cursors, 0, None)

    @abc.abstractmethod
    def read_values(self, cursors: Cursors, shift: int, valid: Mask | None) -> Part:
        """Read a value of every `valid` message."""

    def take(self, cursors: Cursors, start: Positions) -> Part:
        """Read the values at these offsets, for leaves with a `width`."""
        raise NotImplementedError


class NullLeaf(PartReader):
    """Reads null, which has no bytes."""

    def read_part(self, cursors: Cursors) -> Part:
        """Read nothing."""
        return Nulls(len(cursors))


class VarintLeaf(Leaf):
    """Reads an int or a long and converts it to the reader's type and unit."""

    def __init__(self, action: Number) -> None:
        self._is_int = action.writer == "int"
        self._type = _TYPES[action.reader]
        self._times, self._divisor = action.times, action.divisor

    def read_values(self, cursors: Cursors, shift: int, valid: Mask | None) -> Part:
        """Read a value of every `valid` message."""
        return Numbers(self._convert(cursors, self.read_integers(cursors, shift, valid)), valid)

    def read_integers(self, cursors: Cursors, shift: int, valid: Mask | None) -> AnyArray:
        """Read the numbers in the writer's type and unit."""
        number, length = read_varints(cursors, shift, valid)
        wrong = is_too_long(length, is_int=self._is_int)
        cursors.move(shift + (length if valid is None else length * valid), 11)
        if wrong is not None:
            cursors.refuse(np.broadcast_to(wrong, len(cursors)))
        return decode_ints(number) if self._is_int else decode_longs(number)

    def _convert(self, cursors: Cursors, numbers: AnyArray) -> AnyArray:
        if self._times > 1:
            bound = _LONG_MAX // self._times
            wrong = (numbers > bound) | (numbers < -bound)
            if wrong.any():
                cursors.refuse(wrong)
            numbers = numbers.astype(np.int64) * self._times
        elif self._divisor > 1:
            numbers = numbers // self._divisor
        return numbers.astype(self._type, copy=False)


class FixedWidthLeaf(Leaf):
    """Reads a boolean, a float or a double."""

    def __init__(self, action: Number) -> None:
        self._kind = action.writer
        self._type = None if action.writer == action.reader else _TYPES[action.reader]
        self.width = _WIDTHS[action.writer]

    def read_values(self, cursors: Cursors, shift: int, valid: Mask | None) -> Part:
        """Read a value of every `valid` message."""
        assert self.width is not None
        part = self.take(cursors, Positions(cursors.pos + shift))
        cursors.move(shift + self.width if valid is None else shift + self.width * valid, shift + self.width)
        return part if valid is None else Numbers(part.values, valid)

    def take(self, cursors: Cursors, start: Positions) -> Numbers:
        """Read the values at these offsets."""
        if self._kind == "boolean":
            return Numbers(cursors.batch.bytes[start] == 1)
        return Numbers(self._convert((cursors.batch.floats if self._kind == "float" else cursors.batch.doubles)[start]))

    def _convert(self, numbers: AnyArray) -> AnyArray:
        if self._type is None:
            return numbers
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return numbers.astype(self._type)


class BytesLeaf(Leaf):
    """Reads bytes or a string after their length. With `decimal`, reads a decimal."""

    def __init__(self, decimal: DecimalReading | None = None) -> None:
        self._decimal = None if decimal is None else DecimalBytes(decimal)

    def read_values(self, cursors: Cursors, shift: int, valid: Mask | None) -> Part:
        """Read a value of every `valid` message."""
        start, end, bad = self._bounds(cursors, shift, valid)
        if bad.any():
            start = Positions(np.where(bad, cursors.batch.size, start))
            end = Positions(np.where(bad, cursors.batch.size, end))
        cursors.jump(end, bad)
        if self._decimal is None:
            return TextSpans(start, end, valid)
        return self._decimal.read_decimals(cursors, end, end - start, valid)

    def _bounds(self, cursors: Cursors, shift: int, valid: Mask | None) -> tuple[Positions, Positions, Mask]:
        """Read the lengths. Returns start and end offsets, and which of them are not within the message."""
        short = cursors.batch.bytes[cursors.pos + shift if shift else cursors.pos]
        if valid is not None:
            short = short * valid
        if short.max() < 0x80:
            start = cursors.pos + (1 + shift) if valid is None else cursors.pos + shift + valid
            end = start + (short >> 1)
            bad = end > cursors.end
            negative = short & 1
            return Positions(start), Positions(end), bad | negative.view(bool) if negative.any() else bad
        number, width = read_varints(cursors, shift, valid)
        start = cursors.pos + shift + (width if valid is None else width * valid)
        length = decode_longs(number)
        bad = (length < 0) | (length > cursors.end - start)
        wrong = is_too_long(width, is_int=False)
        if wrong is not None:
            bad |= wrong
        return Positions(start), Positions(start + np.where(bad, 0, length)), bad


class FixedLeaf(Leaf):
    """Reads a fixed. With `decimal`, reads a decimal."""

    def __init__(self, size: int, decimal: DecimalReading | None = None) -> None:
        self._size = size
        self.width = size if decimal is None else None  # `take` does not read decimals
        self._decimal = None if decimal is None else DecimalBytes(decimal)

    def read_values(self, cursors: Cursors, shift: int, valid: Mask | None) -> Part:
        """Read a value of every `valid` message."""
        start = Positions(cursors.pos + shift)
        end = Positions(start + (self._size if valid is None else self._size * valid))
        bad = end > cursors.end
        if bad.any():
            start = Positions(np.where(bad, cursors.batch.size, start))
            end = Positions(np.where(bad, cursors.batch.size, end))
            valid = ~bad if valid is None else valid & ~bad
        cursors.jump(end, bad)
        if self._decimal is None:
            return TextSpans(start, end, valid)
        return self._decimal.read_decimals(cursors, end, end - start, valid)

    def take(self, cursors: Cursors, start: Positions) -> Part:
        """Read the values at these offsets."""
        return TextSpans(start, Positions(start + self._size))


class EnumLeaf(Leaf):
    """Reads an enum. `texts` are the reader's symbols for the writer's, None for an unknown one."""

    def __init__(self, texts: tuple[str | None, ...]) -> None:
        self._texts = pa.array([text or "" for text in texts], pa.string())
        self._known = np.array([text is not None for text in texts], bool)
        self._index = VarintLeaf(Number("int", "int"))

    def read_values(self, cursors: Cursors, shift: int, valid: Mask | None) -> Part:
        """Read a value of every `valid` message."""
        index = self._index.read_integers(cursors, shift, valid)
        bad = (index < 0) | (index >= len(self._known))
        index = np.where(bad, 0, index)
        if not self._known.all():
            bad |= ~self._known[index] if len(self._known) else True
        if valid is not None:
            bad &= valid
        if bad.any():
            cursors.refuse(bad)
            valid = ~bad if valid is None else valid & ~bad
        return Codes(index, self._texts, valid)


class DecimalBytes:
    """Reads decimals of at most 38 digits and 16 bytes. Leaves longer ones to the exact reader."""

    def __init__(self, reading: DecimalReading) -> None:
        self._reading = reading
        self._most = 10**reading.precision - 1
        self._times = 10 ** max(reading.scale - reading.written_scale, 0)
        self._divisor = 10 ** max(reading.written_scale - reading.scale, 0)

    def read_decimals(self, cursors: Cursors, end: Ints, length: Ints, valid: Mask | None) -> Part:
        """Convert `length` bytes before each offset `end` to decimal128 values."""
        bad = (length < 1) | (length > 16)
        eight = cursors.batch.words[end - 8].byteswap().view(np.int64)
        low = _shift_down(eight, 8 - length)
        high = low >> 63
        fits = np.ones(len(end), bool)
        if length.max(initial=0) > 8:
            upper = cursors.batch.words[end - 16].byteswap().view(np.int64)
            short = length <= 8
            high = np.where(short, high, _shift_down(upper, 16 - length))
            low = np.where(short, low, eight)
            fits = high == low >> 63
        low, outside = self._check(low, high, fits)
        bad |= outside
        if valid is not None:
            bad &= valid
        if bad.any():
            cursors.refuse(bad)
        values = np.empty((len(end), 2), np.int64)
        values[:, 0], values[:, 1] = low, high if self._reading.precision > 18 else low >> 63
        return Numbers(values, valid)

    def _check(self, low: Ints, high: Ints, fits: Mask) -> tuple[Ints, Mask]:
        """Return the lower words in the reader's scale, and which numbers the exact reader must handle."""
        if self._times > 1 or self._divisor > 1:
            return self._rescale(low, fits)
        most = self._most
        if most <= _LONG_MAX:
            return low, ~fits | (low > most) | (low < -most)
        top, rest = most >> 64, _U(most & 0xFFFFFFFFFFFFFFFF)
        lowest_top, lowest_rest = -most >> 64, _U(-most & 0xFFFFFFFFFFFFFFFF)
        bits = low.view(np.uint64)
        over = (high > top) | ((high == top) & (bits > rest))
        return low, over | (high < lowest_top) | ((high == lowest_top) & (bits < lowest_rest))

    def _rescale(self, low: Ints, fits: Mask) -> tuple[Ints, Mask]:
        if self._times > 1:
            bound = min(self._most, _LONG_MAX) // self._times
            wrong = ~fits | (low > bound) | (low < -bound)
            return np.where(wrong, 0, low) * min(self._times, _LONG_MAX), wrong
        if self._divisor > _LONG_MAX:
            return low, np.ones(len(low), bool)
        result = low // self._divisor
        most = min(self._most, _LONG_MAX)
        return result, ~fits | (result * self._divisor != low) | (result > most) | (result < -most)


def _shift_down(words: Ints, unused: Ints) -> Ints:
    """Shift words right by the `unused` number of bytes and keep the sign."""
    shift: Ints = np.clip(unused, 0, 7) << 3
    return (words << shift) >> shift


def number_skipper(kind: str) -> PartReader:
    """Return the leaf that skips a number."""
    return FixedWidthLeaf(Number(kind, kind)) if kind in _WIDTHS else VarintLeaf(Number(kind, kind))
