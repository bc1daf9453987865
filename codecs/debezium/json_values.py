"""Readers of JSON values in messages without a schema: the form of a value tells which of Debezium's types it has.

    DECIMAL   "AdTA" (bytes of the unscaled number), "1200.00", 1200.0, {"scale": 2, "value": "AdTA"}
    BIGINT    7, "BQE=" (bits, the lowest byte first)         BOOLEAN   true, 1
    INTERVAL  1500000 (microseconds), "P0Y0M0DT0H0M1.5S"      ARRAY     ["a", "b"], "a,b" (MySQL's SET)

A value with two possible meanings is an error, and so is a value that the column's type can't have. Sources: Connect's
`JsonConverter`; Debezium's `JdbcValueConverters`, `PostgresValueConverter` and `BinlogValueConverters`.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kvformat.codecs._decimals import WIDE, decimal_digits, to_bytes, unscaled_number
from kvformat.codecs._kernel.tree import Fraction, Integer
from kvformat.codecs.json.value_converters import ValueConverter
from kvformat.registry.java.parse import DECIMAL, decode_base64, fit_decimal, parse_decimal, parse_double, parse_float

_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_UNSIGNED_BYTES = 9
"""The number of bytes of the largest BIGINT UNSIGNED in two's complement."""
_WHOLE_DIGITS = 20
"""The most digits before the point of a number that may fit a BIGINT."""
_MOST_DIGITS = 76
"""The most digits of an unscaled number. No DECIMAL has more."""


def jackson_base64(text: str) -> bytes | None:
    """The bytes of a text of Base64 as Jackson writes it; None for any other text."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except (ValueError, UnicodeEncodeError):
        return None
    return data if binascii.b2a_base64(data, newline=False).decode() == text else None


def number_of(node: Any) -> Decimal | None:
    """The value of a JSON number; None for any other node."""
    return parse_decimal(node) if type(node) is Integer or type(node) is Fraction else None


def variable_scale_decimal(node: Any) -> tuple[int, bytes] | None:
    """The scale and the unscaled bytes of a `VariableScaleDecimal`; None for any other node."""
    if not isinstance(node, dict) or node.keys() != {"scale", "value"}:
        return None
    scale, value = node["scale"], node["value"]
    if type(scale) is not Integer or len(scale) > 6 or type(value) is not str:
        return None
    data = jackson_base64(value)
    return None if not data else (int(scale), data)


def exact_decimal(number: Decimal | None, precision: int, scale: int) -> Decimal:
    """The number as DECIMAL(precision, scale). Raises `ValueError` for None, or if digits would be lost."""
    fitted = None if number is None else fit_decimal(number, precision, scale)
    if fitted is None or fitted != number:
        raise ValueError(number)
    return fitted


@dataclass(frozen=True)
class WholeNumber(ValueConverter):
    """TINYINT to BIGINT, signed integers of `bits` bits: numbers, and the bits of BIT(n), the lowest byte first.

    A text of digits that is also Base64 could be a number or bits, and is an error.
    """

    bits: int

    def __call__(self, node: Any) -> int:
        number = self._bits_of(node) if type(node) is str else self._of_number(number_of(node))
        if not -(1 << self.bits - 1) <= number < 1 << self.bits - 1:
            raise ValueError(node)
        return number

    @staticmethod
    def _bits_of(text: str) -> int:
        data = jackson_base64(text)
        is_number = text.removeprefix("-").isdecimal() and text.isascii()
        if is_number == (data is not None):
            raise ValueError(text)
        return int(text[: _WHOLE_DIGITS + 1]) if data is None else int.from_bytes(data, "little")

    @staticmethod
    def _of_number(number: Decimal | None) -> int:
        if number is None or number.adjusted() > _WHOLE_DIGITS or number != number.to_integral_value():
            raise ValueError(number)
        return int(number)


@dataclass(frozen=True)
class FloatingPoint(ValueConverter):
    """FLOAT (`single`) and DOUBLE: numbers, and "NaN", "Infinity", "-Infinity".

    A text of a number is also read. If it is also Base64, it could be a decimal of mode `precise`, and is an error
    unless `texts_are_numbers`.
    """

    single: bool
    texts_are_numbers: bool = False

    def __call__(self, node: Any) -> float:
        if type(node) is str and node in _SPECIAL:
            return _SPECIAL[node]
        text = node
        if type(node) is str:
            if not DECIMAL.fullmatch(node) or not (self.texts_are_numbers or jackson_base64(node) is None):
                raise ValueError(node)
        elif type(node) is not Integer and type(node) is not Fraction:
            raise ValueError(node)
        number = parse_float(text) if self.single else parse_double(text)
        if math.isinf(number):
            raise ValueError(node)
        return 0.0 if number == 0 and type(node) is Integer else number


@dataclass(frozen=True)
class DecimalNumber(ValueConverter):
    """DECIMAL, if the connector writes decimals as texts or doubles. Doubles are rounded half up to the scale.

    With `unsigned`, also a BIGINT UNSIGNED, as the unscaled bytes of a number that is not negative. Its Base64 begins
    with a letter, and the text of a number does not.
    """

    precision: int
    scale: int
    unsigned: bool = False

    def __call__(self, node: Any) -> Decimal:
        if type(node) is Fraction:
            rounded = fit_decimal(parse_decimal(node), self.precision, self.scale)
            if rounded is None:
                raise ValueError(node)
            return rounded
        number = number_of(node)
        if type(node) is str and node not in _SPECIAL:
            if DECIMAL.fullmatch(node) and node.isascii():
                number = parse_decimal(node)
            elif self.unsigned:
                number = _unsigned_of(node)
        elif self.unsigned and isinstance(node, dict):
            number = _variable_number(node)
        return exact_decimal(number, self.precision, self.scale)


def _variable_number(node: Any) -> Decimal | None:
    pair = variable_scale_decimal(node)
    return None if pair is None else unscaled_number(pair[1], pair[0])


def _unsigned_of(text: str) -> Decimal | None:
    """The number of bytes in Base64: not negative, in the shortest two's complement; None for any other text."""
    data = jackson_base64(text)
    if not data or len(data) > _UNSIGNED_BYTES or data[0] > 127:
        return None
    return None if len(data) > 1 and data[0] == 0 and data[1] < 128 else Decimal(int.from_bytes(data, "big"))


@dataclass(frozen=True)
class UnscaledBytes(ValueConverter):
    """The unscaled bytes of a DECIMAL with this scale.

    The value is a text of Base64, a number (the converter's `decimal.format` = NUMERIC), or, if the message has no
    schema, a decimal with a scale of its own.
    """

    scale: int
    has_schema: bool = False

    def __call__(self, node: Any) -> bytes:
        if type(node) is str:
            data: bytes = decode_base64(node)
            return data
        number = number_of(node)
        if number is None and not self.has_schema:
            number = _variable_number(node)
        exact = exact_decimal(number, _MOST_DIGITS, max(self.scale, 0))
        unscaled, rest = divmod(int(exact.scaleb(max(self.scale, 0), WIDE)), 10 ** max(-self.scale, 0))
        if rest:
            raise ValueError(node)
        return to_bytes(unscaled)


@dataclass(frozen=True)
class DecimalText(ValueConverter):
    """STRING: the digits of a decimal with a scale of its own; `default` reads any other value, by Flink's rules."""

    default: Callable[[Any], Any] | None = None

    def __call__(self, node: Any) -> str:
        pair = variable_scale_decimal(node)
        if pair is None:
            assert self.default is not None
            return str(self.default(node))
        text = decimal_digits(pair[1], pair[0])
        if text is None:
            raise ValueError(node)
        return text

    def wrap(self, default: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return DecimalText(default)


@dataclass(frozen=True)
class TextOnly(ValueConverter):
    """Texts, which `read` converts to the value that the column stores. The kernel reads numbers itself."""

    read: Callable[[str], Any]

    def __call__(self, node: Any) -> Any:
        if type(node) is not str:
            raise ValueError(node)
        return self.read(node)


@dataclass(frozen=True)
class NumbersOnly(ValueConverter):
    """Refuses every value that is not an integer. The kernel reads integers itself."""

    def __call__(self, node: Any) -> Any:
        raise ValueError(node)


@dataclass(frozen=True)
class SetText(ValueConverter):
    """ARRAY of texts: MySQL's SET as a text with words between commas. The empty text has no words."""

    def __call__(self, node: Any) -> list[str]:
        if type(node) is not str:
            raise ValueError(node)
        return node.split(",") if node else []
