"""Convert decimals between Avro's bytes (big-endian two's complement) and Python's `Decimal`.

Rules: the Avro specification, and `java.math.BigInteger(byte[])` and `toByteArray` for the bytes. Zero bytes are an
error, more bytes than needed are allowed, and the fewest possible bytes are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_INT_BYTES = 5
_MOST_SCALE = 10_000  # more would take long to compute, and no column has as many digits


@dataclass(frozen=True, slots=True)
class DecimalReading:
    """How to read the bytes of a decimal.

    precision, scale: the reader's type.
    written_scale: the scale of the bytes.
    overflow_as_null: whether a number with more than `precision` digits is null or an error.
    """

    precision: int
    scale: int
    written_scale: int
    overflow_as_null: bool

    def value(self, data: bytes) -> Decimal | None:
        """Return the decimal, None for overflow as null. Raises `ValueError` if the bytes are not a valid decimal."""
        if not data:
            raise ValueError("a decimal has no bytes")
        finer = self.scale - self.written_scale
        number, lost = divmod(int.from_bytes(data, "big", signed=True) * 10 ** max(finer, 0), 10 ** max(-finer, 0))
        if lost:
            raise ValueError(f"a decimal has more than {self.scale} digits after the decimal point")
        if abs(number) >= 10**self.precision:
            if self.overflow_as_null:
                return None
            raise ValueError(f"a decimal has more digits than {self}")
        return _EXACT.scaleb(Decimal(number), -self.scale)

    def __str__(self) -> str:
        rescaled = "" if self.scale == self.written_scale else f", written with scale {self.written_scale}"
        return f"decimal({self.precision}, {self.scale}){rescaled}"


@dataclass(frozen=True, slots=True)
class BigDecimalReading:
    """How to read the bytes of a `big-decimal`, which have its unscaled bytes and its scale, as a decimal.

    precision, scale: the reader's type. A number with more digits is null, as that of a decimal.
    """

    precision: int
    scale: int

    def value(self, data: bytes) -> Decimal | None:
        """Return the decimal, None for overflow. Raises `ValueError` if the bytes are not a valid big-decimal."""
        size, start = _read_int(data, 0)
        scale, end = _read_int(data, start + max(size, 0))
        if size < 0 or end != len(data):
            raise ValueError("a big-decimal must have the length and the bytes of a number, and a scale")
        reading = DecimalReading(self.precision, self.scale, scale, overflow_as_null=True)
        if abs(scale) > _MOST_SCALE:
            raise ValueError(f"a big-decimal has scale {scale}, which does not fit {reading}")
        return reading.value(data[start : start + size])


def _read_int(data: bytes, at: int) -> tuple[int, int]:
    """Read a number as Avro writes an int. Returns it and the offset after it; raises `ValueError`."""
    number = 0
    for count, byte in enumerate(data[at : at + _INT_BYTES]):
        number |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + count + 1
    raise ValueError("a big-decimal ends within a number")


def unscaled(value: Decimal) -> int:
    """Return the digits of a finite decimal as an integer, without the decimal point."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number
