"""Decimals as unscaled numbers in big-endian two's complement with a scale, and as texts.

Source: Avro's `decimal`, Connect's `Decimal`, Debezium's `VariableScaleDecimal`, Confluent's `confluent.type.Decimal`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints, Mask, stored_type, validity
from kvformat.registry.contract.types import FlinkType

_MOST_BYTES, _MOST_SCALE = 64, 150
"""The most bytes and the largest scale of a decimal that is read. No DECIMAL has as many."""
WIDE = Context(prec=400)
"""A context that computes exactly with every decimal within these bounds."""
_POWERS = 10 ** np.arange(19)
_INT64_MAX = 2**63 - 1


def decimal_array(data: pa.BinaryArray, t: FlinkType, scales: Ints) -> tuple[pa.Array, Mask]:
    """Convert unscaled numbers with their scales to DECIMAL; also returns which of them can't be converted.

    Numbers of at most eight bytes are converted together, the others one by one.
    """
    precision, scale = t.precision or 0, t.scale or 0
    count = len(data)
    present: Mask = np.asarray(data.is_valid())
    offsets = offsets_of(data) if count else np.zeros(1, np.int64)
    lengths = np.where(present, np.diff(offsets), 0)
    finer = scale - scales
    short = present & (lengths > 0) & (lengths <= 8) & (finer >= 0) & (finer <= 18)
    # read the eight bytes before each end, then shift out those of other values, which extends the sign
    octets = bytes(8) + (data.buffers()[2] or b"") if count else bytes(8)
    before = np.ndarray((len(octets) - 7,), ">i8", octets, strides=(1,))
    unused = np.where(short, 64 - 8 * lengths, 0)
    values = before[offsets[1:]].astype(np.int64) << unused >> unused
    places = np.where(short, finer, 0)
    most = 10**precision - 1 if precision <= 18 else _INT64_MAX
    limits = np.array([most // 10**place for place in range(19)], np.int64)[places]
    fits = short & (values <= limits) & (values >= -limits)
    values = np.where(fits, values * _POWERS[places], 0)
    words = np.empty((count, 2), np.int64)
    words[:, 0], words[:, 1] = values, values >> 63
    kind = stored_type(t)
    slow = np.flatnonzero(present & ~fits)
    valid = present.copy()
    valid[slow] = False
    array = pa.Array.from_buffers(kind, count, [validity(valid), pa.py_buffer(words)])
    bad = np.zeros(count, np.bool_)
    if len(slow):
        decimals = [
            _decimal(value, of, precision, scale)
            for value, of in zip(data.take(pa.array(slow)).to_pylist(), scales[slow].tolist(), strict=True)
        ]
        mask = np.zeros(count, np.bool_)
        mask[slow] = True
        array = pc.replace_with_mask(array, pa.array(mask), pa.array(decimals, kind))
        bad[slow] = [number is None for number in decimals]
    return array, bad


def unscaled_bytes(values: pa.Decimal128Array) -> pa.BinaryArray:
    """Return the unscaled number of each decimal as the fewest bytes."""
    count = len(values)
    words = np.frombuffer(values.buffers()[1], np.uint8, 16 * count, 16 * values.offset) if count else b""
    octets = np.ndarray((count, 16), np.uint8, words)[:, ::-1]
    signs = np.where(octets[:, :1] > 127, np.uint8(255), np.uint8(0))
    unlike = octets ^ signs  # where it differs from more bytes of its sign
    first = np.where(unlike.any(axis=1), (unlike != 0).argmax(axis=1), 15)
    first -= np.take_along_axis(unlike, first[:, None], 1)[:, 0] > 127  # one more for the sign
    kept = np.arange(16) >= first[:, None]
    valid: Mask = np.asarray(values.is_valid())
    kept &= valid[:, None]
    offsets = np.append(0, kept.sum(axis=1).cumsum()).astype(np.int32)
    buffers = [validity(valid), pa.py_buffer(offsets), pa.py_buffer(octets[kept])]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def digit_counts(values: pa.Decimal128Array) -> pa.Int32Array:
    """Return the number of digits of each unscaled number, as `BigDecimal.precision()` counts them: 1 for zero."""
    numbers = pa.Array.from_buffers(pa.decimal128(38), len(values), values.buffers(), offset=values.offset)
    return pc.utf8_length(pc.ascii_ltrim(numbers.cast(pa.string()), "-"))


def to_bytes(number: int) -> bytes:
    """Return a number as the fewest bytes."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def unscaled_number(data: bytes, scale: int) -> Decimal | None:
    """Return the number of unscaled bytes with `scale` digits after the point. None for no bytes or too many."""
    if not data or len(data) > _MOST_BYTES or abs(scale) > _MOST_SCALE:
        return None
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, WIDE)


def decimal_digits(data: bytes, scale: int) -> str | None:
    """Return the number of unscaled bytes as text, without an exponent. None for no bytes or too many."""
    number = unscaled_number(data, scale)
    return None if number is None else f"{number:f}"


def _decimal(data: bytes, written: int, precision: int, scale: int) -> Decimal | None:
    """The number of unscaled bytes as DECIMAL(precision, scale); None if digits would be lost."""
    number = unscaled_number(data, written)
    return None if number is None else _exact(number, precision, scale)


def _exact(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """The number with `scale` digits after the point; None if DECIMAL(precision, scale) can't hold it exactly."""
    exact = number.quantize(Decimal((0, (1,), -scale)), context=WIDE)
    return exact if exact == number and exact.copy_abs() < Decimal(10) ** (precision - scale) else None


def decimal_parser(precision: int, scale: int) -> Callable[[Any], Decimal]:
    """A function that reads a text, an integer, or a double by its shortest text, as DECIMAL(precision, scale).

    It raises `ValueError` for a value that the type can't hold exactly.
    """

    def read(value: Any) -> Decimal:
        number = Decimal(repr(value) if isinstance(value, float) else value)
        exact = _exact(number, precision, scale) if number.is_finite() else None
        if exact is None:
            raise ValueError(value)
        return exact

    return read


def offsets_of(values: pa.Array) -> Ints:
    """The start offset of each text or binary value, and the end offset of the last one."""
    offsets: Ints = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    return offsets
