"""Parse texts at the limits of Java's parsers. The expected answers are those of Flink 2.3.0 on Java 17."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import get_format
from kvformat.registry.java import jackson_text
from kvformat.registry.java.parse import fit_decimal


def _read(format: str, message: str | bytes, columns: str, options: dict[str, str] | None = None) -> Any:
    """The column values of a message, or None for an error."""
    messages = pa.array([message.encode() if isinstance(message, str) else message], pa.binary())
    found: Any = get_format(format, options or {}).decode_batch(messages, columns).rows.to_pylist()[0]
    return found and tuple(value for value in found[0].values() if value is not None)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-" + "0" * 40, 0),
        ("+" + "0" * 25, 0),
        ("0" * 40, 0),
        ("-" + "0" * 30 + "120", -120),
        ("0" * 30 + "7", 7),
        ("1" + "0" * 30, None),
        ("-1" + "0" * 25, None),
        ("12" + "0" * 25 + "3", None),
    ],
)
def test_an_integer_may_have_any_number_of_leading_zeros(text: str, number: int | None) -> None:
    row = None if number is None else (number,)
    assert _read("csv", text, "n TINYINT") == row
    assert _read("json", f'{{"n":"{text}"}}', "n TINYINT") == row


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0e2147483647", "0.00"),  # a zero of any scale that BigDecimal supports
        ("0e-700000000", "0.00"),
        ("0e2147483648", None),
        ("1e2147483648", None),
        ("1e-2147483648", None),
        ("1.5e-2147483647", None),
        ("1e99999999999", None),
        ("1e2147483647", None),  # BigDecimal supports it, but can't change its scale
        ("1e700000000", None),
        ("-2.5e-700000000", None),
        ("1e00000000002", "100.00"),
        ("1e-00000000002", "0.01"),
    ],
)
def test_a_decimal_needs_an_exponent_that_java_supports(text: str, number: str | None) -> None:
    row = None if number is None else (Decimal(number),)
    assert _read("csv", text, "n DECIMAL(10, 2)") == row
    assert _read("json", f'{{"n":"{text}"}}', "n DECIMAL(10, 2)") == row
    assert _read("json", f'{{"n":{text}}}', "n DECIMAL(10, 2)") == row


@pytest.mark.parametrize("text", ["1e400", "1e-400", "99999999.995"])
def test_a_decimal_that_does_not_fit_is_not_an_error(text: str) -> None:
    values = (Decimal("0.00"),) if "-" in text else ()
    assert _read("csv", text, "n DECIMAL(10, 2)") == values
    assert _read("json", f'{{"n":{text}}}', "n DECIMAL(10, 2)") == values


@pytest.mark.parametrize(
    ("number", "fitted"),
    [("9.994", "9.99"), ("9.995", None), ("-9.995", None), ("0.005", "0.01"), ("-0.004", "0.00"), ("10", None)],
)
def test_a_decimal_that_has_too_many_digits_when_it_is_rounded_does_not_fit(number: str, fitted: str | None) -> None:
    assert fit_decimal(Decimal(number), 3, 2) == (None if fitted is None else Decimal(fitted))


@pytest.mark.parametrize("text", ["1.0", "0.0", "-0.00", "0e-50", "10e-1", "1e1"])
def test_a_small_integer_rejects_fractions_in_the_streaming_reader(text: str) -> None:
    for columns in ("n TINYINT", "n SMALLINT", "n TINYINT, d DECIMAL(10, 2)"):
        assert _read("json", f'{{"n":{text}}}', columns) is None


@pytest.mark.parametrize(("text", "number"), [("1.0", 1), ("-0.00", 0), ("0e-50", 0), ("10e-1", 1), ("1e1", None)])
def test_a_decimal_in_the_schema_strips_zeros_of_fractions_in_a_tree(text: str, number: int | None) -> None:
    message, tree = f'{{"n":{text}}}', {"decode.json-parser.enabled": "false"}
    assert _read("json", message, "n TINYINT, d DECIMAL(10, 2)", tree) == (None if number is None else (number,))
    assert _read("json", message, "n TINYINT", tree) is None


_UTF16 = [
    ("a\ud83d\ude00z", "a😀z"),
    ("a\ud83dz", "a\ufffd"),  # the unit after a lone high surrogate is replaced, too
    ("a\ud83d\ud83d\ude00z", "a\ufffd\ufffdz"),
    ("a\ude00z", "a\ufffdz"),
]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(("written", "read"), _UTF16)
def test_broken_utf16_is_replaced_as_java_does(encoding: str, written: str, read: str) -> None:
    def encoded(text: str) -> bytes:
        return text.encode(encoding, "surrogatepass")

    assert _read("csv", encoded(f"1,{written},2"), "a INT, s STRING, b INT") == (1, read, 2)
    assert _read("json", encoded(f'{{"s":"{written}.","b":2}}'), "s STRING, b INT") == (read + ".", 2)


@pytest.mark.parametrize("encoding", ["utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(
    ("written", "read"), [("a\ud83d\ude00z", "a😀z"), ("a\ud83dz", "a?z"), ("\ude00\ud83d", "??"), ("😀\udbff", "😀?")]
)
def test_surrogates_in_utf32_are_characters(encoding: str, written: str, read: str) -> None:
    def encoded(text: str) -> bytes:
        return text.encode(encoding, "surrogatepass")

    assert _read("csv", encoded(f"1,{written}"), "a INT, s STRING") == (1, read)
    assert _read("json", encoded(f'{{"s":"{written}"}}'), "s STRING") == (read,)


@pytest.mark.parametrize("message", [b"\x001", b"1\0", b"\x001\x002", b"1\x002\0"])
def test_a_zero_byte_at_the_begin_shows_utf16_also_in_a_message_of_two_bytes(message: bytes) -> None:
    for parser in (jackson_text.JSON, jackson_text.CSV):
        assert parser.decode(message) == ("12"[: len(message) // 2], False)


@pytest.mark.parametrize("message", [b"\x001\0\0", b"\0\x001\0", b"\0\0\xff\xfe", b"\xfe\xff\0\0"])
def test_utf32_in_an_unusual_order_is_an_encoding_that_csv_does_not_support(message: bytes) -> None:
    with pytest.raises(jackson_text.BadEncoding):
        jackson_text.CSV.decode(message)
    assert "\0" in jackson_text.JSON.decode(message)[0]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_utf32_beyond_unicode_is_malformed(format: str) -> None:
    text = ("1,", "z") if format == "csv" else ('{"s":"', '"}')
    message = text[0].encode("utf-32-le") + b"\x00\x00\x11\x00" + text[1].encode("utf-32-le")
    assert _read(format, message, "a STRING, s STRING" if format == "csv" else "s STRING") is None


@pytest.mark.parametrize(("fraction", "good"), [("", True), (".000", True), (".5", False), (".000001", False)])
def test_only_a_whole_24_oclock_is_the_end_of_a_day(fraction: str, good: bool) -> None:
    end = dt.datetime(2020, 5, 14)
    assert _read("json", f'{{"t":"24:00:00{fraction}"}}', "t TIME(3)") == ((end.time(),) if good else None)
    assert _read("json", f'{{"t":"2020-05-13 24:00:00{fraction}"}}', "t TIMESTAMP(6)") == ((end,) if good else None)
    assert _read("csv", f"2020-05-13 24:00:00{fraction}", "t TIMESTAMP(6)") == ((end,) if good else None)
