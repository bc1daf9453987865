"""Java's formatter. The expected texts are those of Java 17."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from kvformat.registry.java.formatter import (
    Argument,
    FormatError,
    JavaFormat,
    UnsupportedFormatError,
)

_KINDS = {bool: "boolean", int: "int", float: "double", str: "text"}


def _printed(text: str, *values: Any) -> str:
    return JavaFormat(text).format([Argument(_KINDS.get(type(v), "text"), v, str(v)) for v in values])


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("%1$s %s %<s %s", ("a", "b"), "a a a b"),
        ("%5s|%-5s|%.1s", ("ab", "ab", "ab"), "   ab|ab   |a"),
        ("%S %B", ("ß", None), "SS FALSE"),
        ("%,d %(d %+d %05d", (-1234567, -5, 5, -5), "-1,234,567 (5) +5 -0005"),
        ("%x %X %#x %o", (-1, 255, 255, 8), "ffffffff FF 0xff 10"),
        ("%.2f %.0f %.1f", (1.005, 0.5, 0.05), "1.01 1 0.1"),
        ("%f", (1e10,), "10000000000.000000"),
        ("%e %.0e", (12345.678, 0.0), "1.234568e+04 0e+00"),
        ("%g %g", (0.0001, 1e6), "0.000100000 1.00000e+06"),
        ("%08.2f|%(8.2f", (-1.5, -1.5), "-0001.50|  (1.50)"),
        ("%c%%%n", (128512,), "😀%\n"),
        ("%3s|%.1s", ("😀", "😀"), " 😀|?"),
        ("%d %.1f", (None, None), "null n"),
        ("%(08.2f|%(,d|%-(8d|", (-1.5, -1234, -5), "(001.50)|(1,234)|(5)     |"),
        ("%5%|%-5%|", (), "    %|%    |"),
        ("%+f %(f %010f %E", (inf, -inf, -inf, inf), "+Infinity (Infinity)  -Infinity INFINITY"),
        ("%#.0f %#.0e", (1.0, 1.0), "1. 1.e+00"),
    ],
)
def test_formats_as_java(text: str, values: tuple[Any, ...], expected: str) -> None:
    assert _printed(text, *values) == expected


@pytest.mark.parametrize(
    ("kind", "text"),
    [("byte", "ff 377"), ("short", "ffff 177777"), ("int", "ffffffff 37777777777"), ("long", "f" * 16)],
)
def test_a_negative_number_has_as_many_hexadecimal_digits_as_its_class(kind: str, text: str) -> None:
    assert JavaFormat("%x %<o").format([Argument(kind, -1, "-1")]).startswith(text)


@pytest.mark.parametrize(
    "text",
    ["%", "%z", "%-d", "%05s", "%,x", "%.1d", "%+ d", "%-05d", "%0$s", "%--5d", "%2$s", "%<s", "%5n", "%s %s"],
)
def test_a_wrong_format_fails(text: str) -> None:
    with pytest.raises(FormatError):
        _printed(text, 1)


@pytest.mark.parametrize(
    ("text", "value"), [("%d", "1"), ("%d", 1.5), ("%f", 1), ("%c", "a"), ("%tY", "a"), ("%#s", "a")]
)
def test_a_value_of_another_class_fails(text: str, value: Any) -> None:
    with pytest.raises(FormatError):
        _printed(text, value)


@pytest.mark.parametrize("text", ["%h", "%a"])
def test_conversions_that_are_not_supported(text: str) -> None:
    with pytest.raises(UnsupportedFormatError):
        _printed(text, 1.5)
    with pytest.raises(UnsupportedFormatError):
        JavaFormat("%tY").format([Argument("long", 1, "1")])
