"""Conversions of Debezium's wire values to column values.

    ScaledCount(1000, 1)    int64 of milliseconds -> timestamp[us]
    UnscaledDecimal(2)      binary "01d4c0" -> 1200.00
    ZonedText()             "2025-03-03T09:30:00+02:00" -> an instant

`value_readings.py` says which conversion a column needs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Mask, as_integers, as_type, stored_type
from kvformat.codecs._conversions import Conversion, EachValue
from kvformat.codecs._decimals import decimal_array, decimal_digits, offsets_of
from kvformat.codecs.debezium.parse_texts import parse_instant
from kvformat.registry.contract.error_codes import ErrorCode

_INT64_MAX = 2**63 - 1
_SHORTEST_INSTANT, _T, _Z = len("2025-03-03T09:30:00Z"), ord("T"), ord("Z")
_NANOS_OF_A_DAY = 86_400 * 10**9
EARLIEST_DAY = -2_440_588
"""The first day of any database, in days since 1970: 4714-11-24 BC in PostgreSQL and Oracle. A smaller number is not
a day."""


@dataclass(frozen=True)
class ScaledCount(Conversion):
    """Integers that count a unit of time, as DATE, TIME, TIMESTAMP or an interval.

    One of them is `times` / `divisor` of Arrow's unit for the type; fractions are cut off. `special` has pairs of a
    count, such as the one for infinity, and the value in Arrow's unit that it stands for.
    """

    times: int = 1
    divisor: int = 1
    special: tuple[tuple[int, int], ...] = ()

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        target = stored_type(self.type)
        counts = written = as_integers(wire)
        bad = None
        if self.times > 1:
            bad = (np.abs(counts) > _INT64_MAX // self.times) | (counts == -_INT64_MAX - 1)
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
        return as_type(counts, target, wire), bad


@dataclass(frozen=True)
class IntegerToBoolean(Conversion):
    """The integers 0 and 1 as BOOLEAN."""

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        counts = as_integers(wire)
        bad = (counts != 0) & (counts != 1) & np.asarray(wire.is_valid())
        return pa.array(counts == 1, mask=np.asarray(wire.is_null())), bad


@dataclass(frozen=True)
class UnscaledDecimal(Conversion):
    """Unscaled numbers, in big-endian two's complement, as DECIMAL. `scale` digits are after the point."""

    scale: int = 0

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        return decimal_array(wire, self.type, np.full(len(wire), self.scale, np.int64))


@dataclass(frozen=True)
class VariableScaleDecimal(Conversion):
    """Rows of a `scale` and an unscaled `value` as DECIMAL. A value without a scale is not a number."""

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        scale, value = wire.flatten()
        decimals, bad = decimal_array(value, self.type, as_integers(scale.fill_null(0)))
        return decimals, bad | np.asarray(pc.and_(scale.is_null(), value.is_valid()))


@dataclass(frozen=True)
class DecimalToText(Conversion):
    """The digits of decimals as text. The wire has unscaled numbers, or rows of a `scale` and an unscaled `value`.

    A value without a scale is not a number.
    """

    scale: int = 0

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        if pa.types.is_struct(wire.type):
            pairs = [
                None if row is None or row["value"] is None else (row["value"], row["scale"])
                for row in wire.to_pylist()
            ]
        else:
            pairs = [None if data is None else (data, self.scale) for data in wire.to_pylist()]
        texts = [None if pair is None or pair[1] is None else decimal_digits(*pair) for pair in pairs]
        bad = np.fromiter(
            (text is None and pair is not None for text, pair in zip(texts, pairs, strict=True)), np.bool_, len(texts)
        )
        return pa.array(texts, pa.string()), bad


@dataclass(frozen=True)
class ZonedText(Conversion):
    """Texts of ISO 8601 with an offset as instants. Digits after the microseconds are cut off."""

    error_code = ErrorCode.WRONG_TYPE

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        target = stored_type(self.type)
        if _are_common_instants(wire.drop_null() if wire.null_count else wire):
            try:
                instants = wire.cast(pa.timestamp("us", "UTC"))
                return instants.cast(pa.int64()).cast(target), None
            except pa.ArrowInvalid:  # such as a 30th of February or an hour 25
                pass
        return EachValue(self.type, self.source, parse_instant).values(wire)


@dataclass(frozen=True)
class SplitSet(Conversion):
    """Texts with words between commas as ARRAY<STRING>. The empty text has no words."""

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        lists = [None if text is None else text.split(",") if text else [] for text in wire.to_pylist()]
        return pa.array(lists, stored_type(self.type)), None


def _are_common_instants(texts: pa.StringArray) -> bool:
    """Whether all texts have the `T` and `Z` of `2025-03-03T09:30:00.123456Z`. Arrow's parser does not check these."""
    if not len(texts):
        return True
    offsets, data = offsets_of(texts), np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if (np.diff(offsets) < _SHORTEST_INSTANT).any():
        return False
    return bool((data[offsets[:-1] + 10] == _T).all() and (data[offsets[1:] - 1] == _Z).all())
