"""Unscaled numbers of decimals as bytes, and decimals that are texts: `codecs/_decimals.py`."""

from __future__ import annotations

import random
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from kvformat.codecs._conversions import EachValue
from kvformat.codecs._decimals import (
    decimal_array,
    decimal_parser,
    digit_counts,
    offsets_of,
    to_bytes,
    unscaled_bytes,
)
from kvformat.registry.contract.types import FlinkType

_MOST = 10**38 - 1


def _numbers() -> list[int | None]:
    rng = random.Random(4)
    edges = [sign * (2**bits + more) for bits in range(126) for more in (-1, 0, 1) for sign in (1, -1)]
    tens = [sign * (10**power - less) for power in range(39) for less in (0, 1) for sign in (1, -1)]
    some = [rng.randrange(-(10**digits), 10**digits) for digits in range(39) for _ in range(20)]
    return [None, *(number for number in edges + tens + some if abs(number) <= _MOST), None]


@pytest.mark.parametrize("scale", [0, 1, 18, 38])
def test_every_number_keeps_all_its_digits(scale: int) -> None:
    numbers = _numbers()
    assert len(numbers) > 1500
    exact = [None if n is None else Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) for n in numbers]
    values = pa.array(exact, pa.decimal128(38, scale))
    found = unscaled_bytes(values)
    found.validate(full=True)
    assert found.to_pylist() == [None if number is None else to_bytes(number) for number in numbers]
    assert digit_counts(values).to_pylist() == [None if n is None else len(str(abs(n))) for n in numbers]
    again, bad = decimal_array(found, FlinkType("DECIMAL", precision=38, scale=scale), np.full(len(found), scale))
    assert not bad.any()
    assert again.equals(values)


def test_slices_and_empty_arrays() -> None:
    values = pa.array([Decimal("1.00"), None, Decimal("-1.28"), Decimal("327.68")], pa.decimal128(20, 2))
    assert unscaled_bytes(values[1:3]).to_pylist() == [None, b"\x80"]
    assert digit_counts(values[2:]).to_pylist() == [3, 5]
    assert unscaled_bytes(values[:0]).to_pylist() == []
    texts = pa.array(["ab", None, "c", "", "defg"])
    assert [offsets_of(texts.slice(at)).tolist() for at in (0, 2, 5)] == [[0, 2, 2, 3, 3, 7], [2, 3, 3, 7], [7]]
    data = pa.array([b"\x7f", b"\x01", None, b"\xff", b"\0" * 9 + b"\x05"])
    found, bad = decimal_array(data.slice(1), FlinkType("DECIMAL", precision=5, scale=2), np.array([0, 0, 2, 1]))
    assert found.to_pylist() == [Decimal(1), None, Decimal("-0.01"), Decimal("0.50")]
    assert not bad.any()


@pytest.mark.parametrize(
    ("number", "scale", "wanted"),
    [
        (99_999, 2, "999.99"),
        (100_000, 2, None),
        (-99_999, 2, "-999.99"),
        (-100_000, 2, None),
        (999, 0, "999.00"),
        (1000, 0, None),
        (-1000, 0, None),
        (9_999_900, 4, "999.99"),
        (9_999_990, 4, None),
        (10_000_000, 4, None),
        (0, -17, "0.00"),
        (1, -2, "100.00"),
        (1, -3, None),
        (10**30, 30, "1.00"),
        (10**30 + 1, 30, None),
    ],
)
def test_a_number_that_the_type_cannot_hold_exactly_is_bad_in_any_scale(
    number: int, scale: int, wanted: str | None
) -> None:
    data = pa.array([to_bytes(number), b"", None])
    found, bad = decimal_array(data, FlinkType("DECIMAL", precision=5, scale=2), np.array([scale, 0, 0]))
    assert found.to_pylist() == [wanted and Decimal(wanted), None, None]
    assert bad.tolist() == [wanted is None, True, False]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("1.5", "1.50"),
        ("-999.99", "-999.99"),
        ("1e2", "100.00"),
        ("1000", None),
        ("-1000", None),
        ("0.001", None),
        ("1e9999999", None),
        ("1e-9999999", None),
        ("NaN", None),
        ("-Infinity", None),
        ("x", None),
        ("", None),
    ],
)
def test_a_text_that_is_no_number_of_the_type_is_bad_beside_others(value: str, wanted: str | None) -> None:
    conversion = EachValue(FlinkType("DECIMAL", precision=5, scale=2), "text", decimal_parser(5, 2))
    values, bad = conversion.values(pa.array(["0.01", value, None, "2"]))
    assert values.to_pylist() == [Decimal("0.01"), wanted and Decimal(wanted), None, Decimal(2)]
    assert bad is not None
    assert bad.tolist() == [False, wanted is None, False, False]


def test_a_double_is_read_by_its_shortest_text_and_a_whole_number_by_its_digits() -> None:
    read = decimal_parser(5, 2)
    assert [read(value) for value in (0.1, 1.15, -2.5, 1e2, 7, -999)] == [
        *map(Decimal, ("0.10", "1.15", "-2.50", "100.00", "7.00", "-999.00"))
    ]
    for value in (0.125, 1e300, float("nan"), float("-inf"), 1000):
        with pytest.raises(ValueError, match=re.escape(str(value))):
            read(value)
