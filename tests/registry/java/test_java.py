"""Numbers are formatted as in Java: answers of real Java 17 and 25, and of `BigDecimal`."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from kvformat.registry.java.numbers import (
    decimal_text,
    double_text,
    double_text_java17,
    double_texts,
    float_text,
    stripped_decimal,
)

_LEAST_DOUBLE, _LEAST_FLOAT = math.ulp(0.0), 2.0**-149

# value, Double.toString of Java 17, and of Java 25 where that is another
_DOUBLES = [
    (1e23, "9.999999999999999E22", "1.0E23"),
    (2e23, "1.9999999999999998E23", "2.0E23"),
    (8.41e21, "8.409999999999999E21", "8.41E21"),
    (9.223372036854775e18, "9.2233720368547748E18", "9.223372036854775E18"),
    (9007199254740993.0, "9.007199254740992E15", ""),
    (1e18, "1.0E18", ""),
    (0.002, "0.002", ""),
    (0.001, "0.001", ""),
    (9.5e-4, "9.5E-4", ""),
    (-5e-5, "-5.0E-5", ""),
    (1e7, "1.0E7", ""),
    (12345678.9, "1.23456789E7", ""),
    (-12345678.9, "-1.23456789E7", ""),
    (1.2345678901234567e30, "1.2345678901234567E30", ""),
    (2.2e-322, "2.2E-322", ""),
    (1.5e-323, "1.5E-323", ""),
    (_LEAST_DOUBLE, "4.9E-324", ""),
    (2.0**-1022, "2.2250738585072014E-308", ""),
    (1.7976931348623157e308, "1.7976931348623157E308", ""),
    (100.0, "100.0", ""),
    (-0.0, "-0.0", ""),
    (math.nan, "NaN", ""),
    (-math.inf, "-Infinity", ""),
]
_FLOATS = [
    (2.0**-126, "1.1754944E-38"),
    (-0.047510583, "-0.047510583"),
    (6.9140965e-16, "6.9140965E-16"),
    (8.41e21, "8.41E21"),
    (2e23, "2.0E23"),
    (1e10, "1.0E10"),
    (2.0**25, "3.3554432E7"),
    (-(2.0**25), "-3.3554432E7"),
    (9999999.0, "9999999.0"),
    (0.002, "0.002"),
    (4.4e-44, "4.3E-44"),
    (8.99e-43, "9.0E-43"),
    (_LEAST_FLOAT, "1.4E-45"),
    (3.4028234663852886e38, "3.4028235E38"),
    (-0.0, "-0.0"),
    (math.nan, "NaN"),
    (math.inf, "Infinity"),
]


def _single(value: float) -> float:
    rounded: float = pa.array([value], pa.float32())[0].as_py()
    return rounded


@pytest.mark.parametrize(("value", "old", "new"), _DOUBLES)
def test_doubles_are_formatted_as_in_java(value: float, old: str, new: str) -> None:
    assert double_text_java17(value) == old
    assert double_text(value) == (new or old)
    assert double_texts(pa.array([value, None], pa.float64())).to_pylist() == [new or old, None]


@pytest.mark.parametrize(("value", "text"), _FLOATS)
def test_floats_are_formatted_as_in_java(value: float, text: str) -> None:
    value = _single(value)
    assert float_text(value) == text
    assert double_texts(pa.array([value, None], pa.float32())).to_pylist() == [text, None]


def test_every_text_of_java_17_parses_to_its_number() -> None:
    for power in range(-149, 128):
        for factor in (1, 1.5, 1 + 2.0**-20, 2 - 2.0**-23):
            value = _single(factor * 2.0**power)
            if math.isfinite(value):
                assert float(double_text_java17(value)) == value


@pytest.mark.parametrize(
    ("value", "stripped"),
    [
        (Decimal("1.50"), "1.5"),
        (Decimal("100"), "1E+2"),
        (Decimal("-0.00"), "0"),
        (Decimal("1" + "0" * 120 + ".10"), "1" + "0" * 120 + ".1"),
        (Decimal("7" * 130 + "0"), "7." + "7" * 129 + "E+130"),
    ],
    ids=["fraction", "round", "zero", "long-fraction", "long-round"],
)
def test_stripped_decimals_keep_all_their_digits(value: Decimal, stripped: str) -> None:
    assert decimal_text(stripped_decimal(value)) == stripped
