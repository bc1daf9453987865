"""Decimals as Avro writes them, two's complement and big-endian, and as Arrow holds them.

Rules: the Avro specification; `java.math.BigInteger(byte[])` and `toByteArray` for the bytes (no bytes are no number,
more than needed are fine, the fewest are written).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

from kvformat.codecs._avro.schema import MAX_DECIMAL256

_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def has_arrow_type(precision: int) -> bool:
    """Whether Arrow has decimals of that many digits."""
    return precision <= MAX_DECIMAL256


@dataclass(frozen=True, slots=True)
class DecimalReading:
    """How bytes become a decimal: its type, the scale in which it was written, and what a number too long is."""

    precision: int
    scale: int
    written_scale: int
    overflow_as_null: bool

    def value(self, data: bytes) -> Decimal | None:
        """The number, or None for one that is too long. Raises `ValueError` for what is none."""
        if not data:
            raise ValueError("a decimal has no bytes")
        number = self._rescaled(int.from_bytes(data, "big", signed=True))
        if abs(number) >= 10**self.precision:
            if self.overflow_as_null:
                return None
            raise ValueError(f"a decimal has more digits than {self}")
        return _EXACT.scaleb(Decimal(number), -self.scale)

    def _rescaled(self, number: int) -> int:
        finer = self.scale - self.written_scale
        power: int = 10 ** abs(finer)
        if finer >= 0:
            return number * power
        number, lost = divmod(number, power)
        if lost:
            raise ValueError(f"a decimal has more than {self.scale} digits behind the point")
        return number

    def __str__(self) -> str:
        rescaled = "" if self.scale == self.written_scale else f", written with scale {self.written_scale}"
        return f"decimal({self.precision}, {self.scale}){rescaled}"


def unscaled(value: Decimal) -> int:
    """The whole number that the digits of a finite decimal are."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def to_bytes(number: int) -> bytes:
    """The fewest bytes of a number."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
