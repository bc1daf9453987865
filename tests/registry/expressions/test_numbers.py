"""Functions of numbers: NaN, the infinities, and limits."""

from __future__ import annotations

import math

import pytest

from tests.registry.expressions.text_rows import value


@pytest.mark.parametrize(("base", "exponent"), [(1, "NaN"), (1, "Infinity"), (-1, "-Infinity")])
def test_a_power_of_one_is_nan_where_java_has_nan(base: int, exponent: str) -> None:
    assert math.isnan(value("POWER(i, CAST(s AS DOUBLE))", i=base, s=exponent))


@pytest.mark.parametrize(("type_", "greater"), [("FLOAT", False), ("DOUBLE", True), ("BIGINT", True)])
def test_an_integer_is_compared_with_a_float_as_a_float(type_: str, greater: bool) -> None:
    assert value(f"i > CAST(n AS {type_})", i=2**24 + 1, n=2**24) is greater


@pytest.mark.parametrize(("precision", "double"), [(18, 7.562473810857621), (19, 7.56247381085762)])
def test_a_decimal_of_18_digits_becomes_a_double_by_a_division(precision: int, double: float) -> None:
    """Flink holds it as a long."""
    assert value(f"CAST(CAST(s AS DECIMAL({precision}, 17)) AS DOUBLE)", s="7.56247381085762037") == double


@pytest.mark.parametrize(("end", "rounded"), [("1", 7813), ("3", 23_438)])
def test_a_quotient_of_more_than_38_digits_is_rounded_half_up(end: str, rounded: int) -> None:
    assert value(f"128000000000000000000000000000000{end} / i", i=128) == 10**37 + rounded
