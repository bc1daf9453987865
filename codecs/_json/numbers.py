"""JSON numbers and literals at many cursors, and the columns they make."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Bytes, Column, Ints, Mask, Window, Words, fixed_width, validity
from kvformat.codecs._json import bits
from kvformat.codecs._json.node import JsonBytes, Node, Payload, Scanned, is_null, put
from kvformat.codecs._scalars import fit_decimal

MOST_DIGITS = 19
"""Whatever has no more digits fits a 64-bit word."""
_POWERS = np.array([10**i for i in range(20)], np.uint64)
_FLOAT_POWERS = np.array([10.0**i for i in range(20)])
_SINGLE_POWERS = _FLOAT_POWERS.astype(np.float32)
_EXACT_DOUBLE = np.uint64(2**53)
_EXACT_SINGLE = np.uint64(2**24)
_EXACT_SINGLE_POWER = 10
_SHORT = np.uint64(10**15)
_MOST_WORDS = 16
_LONGEST_EXPONENT_TEXT = 24


@dataclass(slots=True)
class Number:
    """Numbers at many cursors.

    Where `exact` is true, the value is `mantissa` / 10 ** `fraction`, negated where `negative`; elsewhere there is an
    exponent or more digits than 19. `digits` counts those before the point, `power` has the exponents (None: nowhere
    any).
    """

    end: Ints
    ok: Mask
    negative: Mask
    mantissa: Words
    digits: Ints
    fraction: Ints
    dotted: Mask
    exponent: Mask
    exact: Mask
    power: Ints | None = None


def read_number(batch: JsonBytes, window: Window) -> Number:
    """Read numbers by JSON's grammar. What follows them is left to the caller to check."""
    word = window.word(0)
    first = window.first()
    negative: Mask = first == bits.MINUS
    start = window.position
    if negative.any():
        word = np.where(negative, window.word(1), word)
        first = word.astype(np.uint8)
        start = start + negative
    count, mantissa = bits.digit_run(word)
    ok = (count > 0) & ((first != bits.ZERO) | (count == 1))
    digits = count.astype(np.int64)
    end = start + digits
    following = bits.character_at(word, count)
    full = (count == 8) & ok
    if 2 * np.count_nonzero(full) > len(full) and not negative.any():
        mantissa, full = _second_word(window.word(8), full, end, digits, mantissa, following)
    if full.any():
        _more_digits(batch, np.flatnonzero(full), end, digits, mantissa, following)
    result = Number(end, ok, negative, mantissa, digits, np.zeros(len(end), np.int64), following == bits.DOT, ok, ok)
    if result.dotted.any():
        _read_fraction(batch, result, word, following)
    result.exact = result.digits + result.fraction <= MOST_DIGITS
    result.exponent = (following | 0x20) == ord("e")
    if result.exponent.any():
        _read_exponent(batch, result, np.flatnonzero(result.exponent))
    if not ok.all():
        np.copyto(end, window.position, where=~ok)
    return result


def _second_word(word: Words, full: Mask, end: Ints, count: Ints, value: Words, following: Bytes) -> tuple[Words, Mask]:
    """Read on in the next word where all of the first one was digits; returns the values, and where to go on still."""
    more, low = bits.digit_run(word)
    np.multiply(more, full, out=more)
    np.multiply(low, full, out=low)
    end += more
    count += more
    np.copyto(following, bits.character_at(word, more), where=full)
    return value * _POWERS.take(more) + low, more == 8


def _more_digits(batch: JsonBytes, rows: Ints, end: Ints, count: Ints, value: Words, following: Bytes) -> None:
    """Read on where all of a word was digits. A mantissa of more than 19 digits is of no use."""
    for _ in range(_MOST_WORDS):
        word = batch.word(end[rows])
        more, low = bits.digit_run(word)
        value[rows] = value[rows] * _POWERS[more] + low
        end[rows] += more
        count[rows] += more
        following[rows] = bits.character_at(word, more)
        rows = rows[more == 8]
        if not len(rows):
            return
    following[rows] = 0  # what stands there is a digit: no reader will accept it as the end of a number


def _read_fraction(batch: JsonBytes, number: Number, word: Words, following: Bytes) -> None:
    """Read on behind the points, in the word that the numbers begin with or beyond it."""
    some = np.count_nonzero(number.dotted)
    rows = slice(None) if 4 * some > len(word) else np.flatnonzero(number.dotted)
    dotted, before = number.dotted[rows], number.digits[rows]
    count, value = bits.digit_run(word[rows] >> ((before + 1) << 3).view(np.uint64))
    np.multiply(count, dotted, out=count)
    np.multiply(value, dotted, out=value)
    digits: Ints = count.astype(np.int64)
    end: Ints = number.end[rows] + digits
    end += dotted
    after = bits.character_at(word[rows], (before + 1 + digits).astype(np.uint8))
    further = np.flatnonzero(dotted & (before + digits >= 7))
    if len(further):
        _more_digits(batch, further, end, digits, value, after)
    number.mantissa[rows] = number.mantissa[rows] * _POWERS.take(digits, mode="clip") + value
    number.end[rows], number.fraction[rows] = end, digits
    following[rows] = np.where(dotted, after, following[rows])
    number.ok[rows] &= (digits > 0) == dotted


def _read_exponent(batch: JsonBytes, number: Number, rows: Ints) -> None:
    at = number.end[rows] + 1
    sign = batch.byte(at)
    at += (sign == ord("+")) | (sign == bits.MINUS)
    count, power = bits.digit_run(batch.word(at))
    number.end[rows] = at + count
    number.power = np.zeros(len(number.end), np.int64)
    number.power[rows] = np.where(sign == bits.MINUS, -power.view(np.int64), power.view(np.int64))
    number.ok[rows] &= (count > 0) & (count < 8)
    number.exact[rows] = False


class ScalarNode(Node):
    """A value of fixed width that is written plainly, or in quotes where the type allows it."""

    quoted = False

    @abc.abstractmethod
    def read(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask, Column]:
        """The ends, where there is a good value, and the values."""

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        end, ok, values = self.read(batch, window)
        valid = np.ones(len(window), bool)
        if not ok.all():
            rows = np.flatnonzero(~ok)
            part = window.select(rows)
            null = is_null(part)
            valid[rows] = False
            ok[rows] = null
            end[rows] = part.position + 4 * null
            quote = np.flatnonzero(part.first() == bits.QUOTE) if self.quoted else rows[:0]
            if len(quote):
                found, fine, inner = self.read(batch, part.select(quote).after(1))
                fine &= batch.byte(found) == bits.QUOTE
                good = rows[quote[fine]]
                end[good] = found[fine] + 1
                ok[good] = valid[good] = True
                values[good] = inner[fine]
        return Scanned(end, ok, [valid, values])


class IntegerNode(ScalarNode):
    """TINYINT to BIGINT, and the intervals: integers in range, plainly written.

    Fractions are cut, except those in quotes and for the two small types; there and near the bounds they are refused.
    """

    def __init__(self, kind: pa.DataType, *, bits_: int, factor: int = 1, quoted: bool = True) -> None:
        self._kind = kind
        self._cuts = bits_ > 16
        self._factor = factor
        self._most = np.uint64((2 ** (bits_ - 1) - 1) // factor)
        self.quoted = quoted
        self.dtypes = (bool, np.dtype(f"i{bits_ // 8}"))

    def read(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask, Column]:
        number = read_number(batch, window)
        ok = number.ok & number.exact & ~number.dotted
        ok &= number.mantissa <= self._most
        values = number.mantissa.view(np.int64)
        if number.negative.any():
            low = number.negative & (number.mantissa == self._most + np.uint64(1)) & (self._factor == 1)
            ok |= low & number.ok & number.exact & ~number.dotted
            values = np.where(number.negative, -values, values)
        return number.end, ok, (values * self._factor).astype(self.dtypes[1], copy=False)

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        found = super().scan(batch, window)
        rows = np.flatnonzero(~found.ok)
        if len(rows) and self._cuts:
            self._cut_fractions(batch, window.select(rows), rows, found)
        return found

    def _cut_fractions(self, batch: JsonBytes, window: Window, rows: Ints, found: Scanned) -> None:
        """Read numbers of so few digits that they are cut alike as a decimal and, after rounding, as a double."""
        number = read_number(batch, window)
        fine = number.ok & number.dotted & number.exact & (number.mantissa < _SHORT)
        value = number.mantissa // _POWERS.take(number.fraction, mode="clip")
        fine &= value < self._most
        rows, signed = rows[fine], value[fine].view(np.int64) * np.where(number.negative[fine], -1, 1)
        found.end[rows], found.ok[rows] = number.end[fine], True
        found.payload[0][rows], found.payload[1][rows] = True, signed * self._factor

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        return fixed_width(self._kind, payload[1], payload[0])


class FloatNode(ScalarNode):
    """DOUBLE and FLOAT: correctly rounded from the text.

    The tree reader rounds a FLOAT by way of a double and knows no negative zero: where that could differ, a value
    is refused.
    """

    quoted = True

    def __init__(self, *, single: bool, streaming: bool) -> None:
        self._kind = pa.float32() if single else pa.float64()
        self._single = single
        self._streaming = streaming
        self.dtypes = (bool, np.float32 if single else np.float64)

    def read(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask, Column]:
        number = read_number(batch, window)
        values = _singles(number) if self._single else _doubles(number)
        limit = _EXACT_SINGLE if self._single else _EXACT_DOUBLE
        far = ~number.exact | (number.mantissa > limit)
        if self._single:
            far |= number.fraction > _EXACT_SINGLE_POWER
        rows = np.flatnonzero(far & number.ok)
        if len(rows):
            texts = batch.texts(window.position[rows], number.end[rows])
            values[rows] = np.asarray(texts.cast(self._kind))
            if not self._streaming:
                number.ok[rows] &= np.isfinite(values[rows])
                if self._single:
                    with np.errstate(over="ignore"):
                        by_double = np.asarray(texts.cast(pa.float64())).astype(np.float32)
                    number.ok[rows] &= values[rows] == by_double
        if not self._streaming:
            number.ok &= ~(number.negative & (values == 0))
            if self._single:
                number.ok &= far | (_doubles(number).astype(np.float32) == values)
        return number.end, number.ok, values

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        return fixed_width(self._kind, payload[1], payload[0])


def _doubles(number: Number) -> Column:
    """The doubles of numbers of at most 53 bits: one division of two exact operands rounds once."""
    values = number.mantissa.astype(np.float64)
    if number.dotted.any():
        values /= _FLOAT_POWERS.take(number.fraction, mode="clip")
    return np.negative(values, out=values, where=number.negative) if number.negative.any() else values


def _singles(number: Number) -> Column:
    """The floats of numbers of at most 24 bits."""
    values = number.mantissa.astype(np.float32)
    if number.dotted.any():
        values /= _SINGLE_POWERS.take(number.fraction, mode="clip")
    return np.negative(values, out=values, where=number.negative) if number.negative.any() else values


class DecimalNode(Node):
    """DECIMAL(p, s): rounded half up to the scale, null where it does not fit.

    The payload is the unscaled value, as two words where it can have more than 18 digits. Long texts are refused
    unless Arrow reads them exactly. Numbers with so large or small an exponent that
    they don't fit a word are read one by one.
    """

    def __init__(self, precision: int, scale: int) -> None:
        self._precision, self._scale = precision, scale
        self._wide = precision > MOST_DIGITS - 1
        self._kind = pa.decimal128(precision, scale)
        self.dtypes = (bool, np.int64, np.int64) if self._wide else (bool, np.int64)

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        end, ok, payload = self._read(batch, window)
        if not ok.all():
            rows = np.flatnonzero(~ok)
            part = window.select(rows)
            null = is_null(part)
            ok[rows] = null
            payload[0][rows] = False
            end[rows] = part.position + 4 * null
            quoted = np.flatnonzero(part.first() == bits.QUOTE)
            if len(quoted):
                found, fine, inner = self._read(batch, part.select(quoted).after(1))
                fine &= batch.byte(found) == bits.QUOTE
                good = rows[quoted[fine]]
                end[good] = found[fine] + 1
                ok[good] = True
                put(payload, good, [column[fine] for column in inner])
        return Scanned(end, ok, payload)

    def _read(self, batch: JsonBytes, window: Window) -> Scanned:
        number = read_number(batch, window)
        reader = self._read_wide if self._wide else self._read_narrow
        ok, payload = reader(batch, window, number)
        if number.power is None:
            return Scanned(number.end, ok, payload)
        far = number.ok & number.exponent & ~ok
        rows = np.flatnonzero(far & (number.end - window.position <= _LONGEST_EXPONENT_TEXT))
        if len(rows):
            texts = batch.texts(window.position[rows], number.end[rows]).to_pylist()
            values = [fit_decimal(Decimal(text), self._precision, self._scale) for text in texts]
            unscaled = [0 if value is None else int(value.scaleb(self._scale)) for value in values]
            payload[0][rows] = [value is not None for value in values]
            payload[1][rows] = np.array([value & (2**64 - 1) for value in unscaled], np.uint64).view(np.int64)
            if self._wide:
                payload[2][rows] = [value >> 64 for value in unscaled]
            ok[rows] = True
        return Scanned(number.end, ok, payload)

    def _read_narrow(self, batch: JsonBytes, window: Window, number: Number) -> tuple[Mask, Payload]:
        scale, value = self._scale, number.mantissa
        ok = number.ok & (number.digits + number.fraction <= MOST_DIGITS)
        missing = scale - number.fraction
        if number.power is not None:
            missing += number.power
            ok &= missing > -MOST_DIGITS
        if missing.any():
            less = np.maximum(missing, 0)
            ok &= number.digits + number.fraction + less < MOST_DIGITS
            value = value * _POWERS.take(less, mode="clip")
            rows = np.flatnonzero(missing < 0)
            if len(rows):
                unit = _POWERS.take(-missing[rows], mode="clip")
                value[rows] = value[rows] // unit + (value[rows] % unit >= (unit >> np.uint64(1)))
        fits = value < np.uint64(10**self._precision)
        unscaled = value.view(np.int64)
        if number.negative.any():
            unscaled = np.where(number.negative, -unscaled, unscaled)
        return ok, [fits, unscaled]

    def _read_wide(self, batch: JsonBytes, window: Window, number: Number) -> tuple[Mask, Payload]:
        simple = number.exact | (number.digits + number.fraction <= 38)
        ok = number.ok & simple & ~number.exponent & (number.fraction <= self._scale)
        ok &= number.digits <= self._precision - self._scale
        words = np.zeros((len(ok), 2), np.int64)
        rows = np.flatnonzero(ok)
        if len(rows):
            cast = batch.texts(window.position[rows], number.end[rows]).cast(self._kind)
            words[rows] = np.frombuffer(cast.buffers()[1], np.int64)[: 2 * len(rows)].reshape(-1, 2)
        return ok, [np.ones(len(ok), bool), words[:, 0].copy(), words[:, 1].copy()]

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        valid, low = payload[:2]
        words = np.empty((len(valid), 2), np.int64)
        words[:, 0] = low
        words[:, 1] = payload[2] if self._wide else low >> 63
        return pa.Array.from_buffers(self._kind, len(valid), [validity(valid), pa.py_buffer(words)])


_TRUE = np.uint64(int.from_bytes(b"true", "little"))
_FALSE = np.uint64(int.from_bytes(b"false", "little"))


class BooleanNode(ScalarNode):
    """BOOLEAN: the two literals, also in quotes; everything else is refused."""

    quoted = True
    dtypes = (bool, bool)

    def read(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask, Column]:
        word = window.word(0)
        values = (word & np.uint64(0xFFFFFFFF)) == _TRUE
        negative = (word & np.uint64(0xFFFFFFFFFF)) == _FALSE
        return window.position + 4 + negative, values | negative, values

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        return fixed_width(pa.bool_(), payload[1], payload[0])
