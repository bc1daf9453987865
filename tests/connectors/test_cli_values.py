"""Values in the command line's JSON: the form of each type, and round trips without loss."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kvformat.connectors.cli._values import ValueRefused, _map, json_values, python_value, read_json
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable
from tests.support import random_rows as rows


def there_and_back(array: pa.Array, t: FlinkType) -> pa.Array:
    texts = [json.dumps(value, ensure_ascii=False) for value in json_values(array, t)]
    return pa.array([python_value(read_json(text.encode()), t) for text in texts], array.type)


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_unchanged_after_json(seed: int) -> None:
    rng = random.Random(seed)
    row = nullable(row_type(resolve_schema(rows.schema(rng, depth=3))))
    given = rows.rows(rng, row, 50)
    again = there_and_back(given, row)
    assert again.equals(given)
    assert json.dumps(json_values(again, row)) == json.dumps(json_values(given, row))  # -0.0 equals 0.0


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("BOOLEAN", True, True),
        ("BIGINT", 2**63 - 1, 2**63 - 1),
        ("FLOAT", 0.1, 0.1),
        ("DOUBLE", 0.1, 0.1),
        ("DOUBLE", float("nan"), "NaN"),
        ("DOUBLE", float("-inf"), "-Infinity"),
        ("DECIMAL(10, 2)", Decimal("12.50"), "12.50"),
        ("DECIMAL(38, 38)", Decimal("1E-38"), f"0.{'0' * 37}1"),
        ("STRING", "ä\n😀", "ä\n😀"),
        ("BYTES", b"\x00\xff", "AP8="),
        ("DATE", dt.date(1, 1, 1), "0001-01-01"),
        ("DATE", -719_163, -719_163),
        ("DATE", 2**31 - 1, 2**31 - 1),
        ("TIMESTAMP(6)", -(2**63), -(2**63)),
        ("TIMESTAMP_LTZ(3)", 253_402_300_800_000_000, 253_402_300_800_000_000),
        ("TIME(3)", dt.time(23, 59, 59, 120_000), "23:59:59.12"),
        ("TIMESTAMP(6)", dt.datetime(2024, 2, 29, 1, 2, 3), "2024-02-29T01:02:03"),
        ("TIMESTAMP(6)", dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), "1969-12-31T23:59:59.999999"),
        ("TIMESTAMP_LTZ(3)", dt.datetime(2024, 2, 29, tzinfo=dt.UTC), "2024-02-29T00:00:00Z"),
        ("ARRAY<INT>", [1, None], [1, None]),
        ("MAP<STRING, INT>", [("a", 1), ("b", None)], {"a": 1, "b": None}),
        ("MAP<INT, STRING>", [(1, "a")], [[1, "a"]]),
        ("MULTISET<STRING>", [("a", 2)], {"a": 2}),
        ("ROW<a INT, b ROW<c STRING>>", {"a": None, "b": {"c": "x"}}, {"a": None, "b": {"c": "x"}}),
        ("INTERVAL YEAR TO MONTH", 14, 14),
        ("INTERVAL DAY TO SECOND", dt.timedelta(seconds=1.5), 1_500_000),
        ("VARIANT", {"value": b"\x03\x01\0\x02\x0c\x07", "metadata": b"\x01\0\0"}, "[7]"),
        ("INT", None, None),
        ("MAP<STRING, INT>", None, None),
        ("ROW<a INT>", None, None),
    ],
)
def test_each_type_has_one_json_form(text: str, value: Any, expected: Any) -> None:
    t = nullable(parse_type(text))
    array = pa.array([value], arrow_type(t))
    assert json_values(array, t) == [expected]
    assert json_values(there_and_back(array, t), t) == [expected]


def test_sliced_arrays_use_their_offset() -> None:
    t = nullable(parse_type("ROW<a ARRAY<INT>, m MAP<STRING, INT>, b BYTES, t TIMESTAMP_LTZ(3)>"))
    values = [{"a": [i, i], "m": [(str(i), i)], "b": bytes([i]), "t": i} for i in range(5)]
    whole = pa.array(values, arrow_type(t))
    assert json_values(whole.slice(2, 2), t) == json_values(whole, t)[2:4]


@pytest.mark.parametrize(
    ("text", "value", "code", "words"),
    [
        ("INT", "1", "WRONG_TYPE", "a whole number"),
        ("INT", True, "WRONG_TYPE", "a whole number"),
        ("INT", 2**31, "OUT_OF_RANGE", "beyond the range of INT"),
        ("BOOLEAN", 1, "WRONG_TYPE", "true or false"),
        ("DECIMAL(4, 2)", "1.234", "WRONG_TYPE", "precision and scale"),
        ("DECIMAL(4, 2)", "100", "WRONG_TYPE", "precision and scale"),
        ("DECIMAL(4, 2)", "NaN", "WRONG_TYPE", "precision and scale"),
        ("STRING", 1, "WRONG_TYPE", "a text"),
        ("FLOAT", Decimal("1e39"), "WRONG_TYPE", "a number"),
        ("DOUBLE", Decimal("1e309"), "WRONG_TYPE", "a number"),
        ("DATE", 2**31, "WRONG_TYPE", "2024-02-29"),
        ("TIMESTAMP(3)", True, "WRONG_TYPE", "2024-02-29"),
        ("TIME(3)", 1, "WRONG_TYPE", "23:59:59"),
        ("BYTES", "é", "WRONG_TYPE", "Base64"),
        ("DATE", "2024-02-30", "WRONG_TYPE", "2024-02-29"),
        ("TIME(3)", "24:00", "WRONG_TYPE", "23:59:59.123"),
        ("TIMESTAMP(3)", "2024-02-29T00:00:00Z", "WRONG_TYPE", "2024-02-29T23:59:59.123"),
        ("TIMESTAMP(3)", "2024-02-28T24:00:00", "WRONG_TYPE", "2024-02-29T23:59:59.123"),
        ("TIMESTAMP_LTZ(3)", "2024-02-29T00:00:00", "WRONG_TYPE", "Z"),
        ("VARIANT", {"a": 1}, "WRONG_TYPE", "a text with JSON"),
        ("VARIANT", '{"a":1,"a":2}', "WRONG_TYPE", "a text with JSON"),
        ("VARIANT", "{", "WRONG_TYPE", "a text with JSON"),
        ("ARRAY<INT>", {}, "WRONG_TYPE", "an array"),
        ("MAP<INT, INT>", {"1": 1}, "WRONG_TYPE", "an array of [key, value]"),
        ("MAP<STRING, INT>", [[None, 1]], "NULL_VALUE", "a key"),
        ("MAP<STRING, INT>", [[1, 1]], "WRONG_TYPE", "'r.a.key'"),
        ("MAP<STRING, INT>", {"k": "x"}, "WRONG_TYPE", "'r.a['k']'"),
        ("ARRAY<ARRAY<INT>>", [[1], [2, "x"]], "WRONG_TYPE", "'r.a[1][1]'"),
    ],
)
def test_errors_for_invalid_values_name_the_field(text: str, value: Any, code: str, words: str) -> None:
    t = nullable(parse_type(f"ROW<r ROW<a {text}>>"))
    with pytest.raises(ValueRefused) as refused:
        python_value({"r": {"a": value}}, t)
    assert refused.value.code == code
    assert "'r.a" in str(refused.value)
    assert words in str(refused.value)


def test_missing_columns_are_named() -> None:
    with pytest.raises(ValueRefused, match=r"no column 'nmae'\. Did you mean 'name'"):
        python_value({"nmae": 1}, nullable(parse_type("ROW<id INT, name STRING>")))


@pytest.mark.parametrize("line", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a": 1' + b"0" * 5000 + b"}"])
def test_invalid_json_is_refused(line: bytes) -> None:
    with pytest.raises(ValueRefused, match="is not valid JSON"):
        read_json(line)


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("TINYINT", 8),
        ("SMALLINT", 16),
        ("INT", 32),
        ("BIGINT", 64),
        ("INTERVAL YEAR TO MONTH", 32),
        ("INTERVAL DAY TO SECOND", 64),
        ("DATE", 32),
        ("TIMESTAMP(3)", 64),
    ],
)
def test_whole_numbers_have_the_range_of_their_type(text: str, bits: int) -> None:
    t, last = nullable(parse_type(text)), 2 ** (bits - 1)
    for value in (-last, last - 1):
        assert python_value(value, t) == value
    for value in (-last - 1, last):
        with pytest.raises(ValueRefused):
            python_value(value, t, "a")


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("DECIMAL(4, 2)", "99.99", Decimal("99.99")),
        ("DECIMAL(4, 2)", "1.2300", Decimal("1.23")),
        ("DECIMAL(4, 2)", 99, Decimal("99.00")),
        ("TIME(6)", "12:00", dt.time(12)),
        ("TIME(6)", "23:59:59.123456000", dt.time(23, 59, 59, 123_456)),
        ("TIMESTAMP(6)", "2024-02-29 01:02:03.0000010", dt.datetime(2024, 2, 29, 1, 2, 3, 1)),
        ("TIMESTAMP_LTZ(3)", "2024-02-29T00:30:00+05:45", dt.datetime(2024, 2, 28, 18, 45, tzinfo=dt.UTC)),
        ("TIMESTAMP_LTZ(3)", "2024-02-29T23:30:00-03:30", dt.datetime(2024, 3, 1, 3, 0, tzinfo=dt.UTC)),
        ("TIMESTAMP_LTZ(3)", "9999-12-31T23:59:59.000001-00:01", 253_402_300_859_000_001),
        ("TIMESTAMP_LTZ(3)", "0001-01-01T00:00:00+00:01", -62_135_596_860_000_000),
        ("MAP<STRING, INT>", [["a", 1], ["a", 2]], [("a", 1), ("a", 2)]),
        ("DOUBLE", "Infinity", float("inf")),
    ],
)
def test_uncommon_forms_of_values_are_read(text: str, value: Any, wanted: Any) -> None:
    assert python_value(value, nullable(parse_type(text))) == wanted


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("DECIMAL(4, 2)", "100.00"),
        ("DECIMAL(4, 2)", "1.001"),
        ("TIME(6)", "23:59:59.1234567"),
        ("TIMESTAMP(6)", "2024-02-29T01:02:03.0000001"),
        ("TIMESTAMP_LTZ(3)", "2024-02-29T00:30:00.0000001Z"),
        ("STRING", "\ud800"),
        ("DOUBLE", "nan"),
    ],
)
def test_digits_that_would_be_lost_are_refused(text: str, value: Any) -> None:
    with pytest.raises(ValueRefused):
        python_value(value, nullable(parse_type(text)), "a")


@pytest.mark.parametrize("number", ["7" * 4096, "0." + "7" * 4094])
def test_numbers_have_at_most_4096_digits(number: str) -> None:
    assert str(read_json(number.encode())) == number
    with pytest.raises(ValueRefused, match="a number has more than 4096 digits"):
        read_json(f"{number}7".encode())


def test_an_error_shows_sixty_characters_of_a_value() -> None:
    t = nullable(parse_type("INT"))
    for length, more in ((58, False), (59, True)):  # with the quotes 60 and 61
        with pytest.raises(ValueRefused) as refused:
            python_value("x" * length, t, "a")
        assert str(refused.value).endswith("x..." if more else 'x"')


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([("a", 1), ("a", 2)], [["a", 1], ["a", 2]]),
        ([(None, 1)], [[None, 1]]),
        ([("a", 1), ("b", 2)], {"a": 1, "b": 2}),
        ([], {}),
    ],
)
def test_a_map_is_an_object_if_its_keys_are_different_texts(value: Any, expected: Any) -> None:
    """A second entry of a key is not lost."""
    assert _map(value, parse_type("STRING")) == expected
