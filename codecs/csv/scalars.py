"""Convert the text of a csv column to one SQL value, by the rules of Flink's csv reader.

A converter returns a value that `pyarrow.array` accepts for the column's Arrow type: TIME in nanoseconds, TIMESTAMP in
microseconds, DATE in days. It returns None for a DECIMAL that does not fit. It raises ValueError without a message for
text that it can't parse. Lengths and the precision of timestamps are not enforced, as in Flink.

Rules: `CsvToRowDataConverters`, which uses Java's `Integer.parseInt`, `Double.parseDouble`, `BigDecimal`,
`Date.valueOf`, `LocalTime.parse` and Jackson's base64. Unlike in `Date.valueOf`, a date must exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kvformat.codecs.json.scalars import pattern_groups, timestamp_micros
from kvformat.registry.contract.types import INTEGER_BITS, FlinkType
from kvformat.registry.java.parse import (
    BLANKS,
    DATE,
    DECIMAL,
    ISO_TIME,
    TIME,
    decode_base64,
    fit_decimal,
    is_java_text,
    parse_date,
    parse_decimal,
    parse_double,
    parse_float,
    parse_integer,
    python_float_text,
    replace_lone_surrogates,
    time_of_day_micros,
)

Converter = Callable[[str], Any]

MOST_TIME_DIGITS = 3  # of a second: Flink keeps milliseconds of a TIME


def scalar_converter(t: FlinkType) -> Converter:
    """Return the converter of a scalar type."""
    return _CONVERTERS[t.root](t)


def _integer(t: FlinkType) -> Converter:
    bits = INTEGER_BITS[t.root]
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def convert(text: str) -> int:
        number = parse_integer(text)
        if not least <= number <= most:
            raise ValueError
        return number

    return convert


def _floating(t: FlinkType) -> Converter:
    nearest = parse_float if t.root == "FLOAT" else parse_double
    return lambda text: nearest(python_float_text(text))


def _decimal(t: FlinkType) -> Converter:
    precision, scale = t.precision or 0, t.scale or 0

    def convert(text: str) -> Decimal | None:
        if not DECIMAL.fullmatch(text) or not is_java_text(text):
            raise ValueError
        return fit_decimal(parse_decimal(text), precision, scale)

    return convert


def _boolean(t: FlinkType) -> Converter:
    return lambda text: text.strip(BLANKS).lower() == "true"


def _string(t: FlinkType) -> Converter:
    return replace_lone_surrogates


def _binary(t: FlinkType) -> Converter:
    return decode_base64


_CALENDAR_DATE = re.compile(r"(\+\d{3}|\d{4})-(\+\d|\d{1,2})-(\+\d|\d{1,2})")


def _date(t: FlinkType) -> Converter:
    def convert(text: str) -> int:
        match = _CALENDAR_DATE.fullmatch(text)
        if not match or not is_java_text(text):
            raise ValueError
        year, month, day = map(int, match.groups())
        return parse_date(f"{year:04d}-{month:02d}-{day:02d}", strict=True)

    return convert


def _time(t: FlinkType) -> Converter:
    groups = pattern_groups(ISO_TIME)
    unit: int = 10 ** (6 - min(t.precision or 0, MOST_TIME_DIGITS))

    def convert(text: str) -> int:
        return time_of_day_micros(*groups(text), strict=True) // unit * unit * 1000

    return convert


def _timestamp(t: FlinkType) -> Converter:
    groups = pattern_groups(f"{DATE} {TIME}" + ("Z" if t.root == "TIMESTAMP_LTZ" else ""))

    def convert(text: str) -> int:
        return timestamp_micros(*groups(text.strip(BLANKS)), strict=False)

    return convert


_CONVERTERS: dict[str, Callable[[FlinkType], Converter]] = {
    "BOOLEAN": _boolean,
    "TINYINT": _integer,
    "SMALLINT": _integer,
    "INT": _integer,
    "BIGINT": _integer,
    "FLOAT": _floating,
    "DOUBLE": _floating,
    "DECIMAL": _decimal,
    "CHAR": _string,
    "VARCHAR": _string,
    "BINARY": _binary,
    "VARBINARY": _binary,
    "DATE": _date,
    "TIME": _time,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": _timestamp,
}
