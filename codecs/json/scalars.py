"""Convert one JSON value to one SQL value, by the rules of Flink's two JSON readers.

A converter takes a node of the tree (`_kernel.tree.Node`) that is not None. It returns a value that `pyarrow.array`
accepts for the column's Arrow type: TIME in nanoseconds, TIMESTAMP and INTERVAL DAY TO SECOND in microseconds, DATE in
days. It returns None for a DECIMAL that does not fit. It raises ValueError without a message for a value that it can't
convert. Lengths and precisions of a type are not enforced, as in Flink. Digits below a microsecond are truncated; TIME
has milliseconds.

Rules: `JsonParserToRowDataConverters` (streaming) and `JsonToRowDataConverters` (tree), which use Java's
`Integer.parseInt`, `Double.parseDouble`, `BigDecimal`, `DateTimeFormatter` and on Jackson.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from json.encoder import encode_basestring_ascii
from typing import Any

from kvformat.codecs._kernel.tree import Fraction, Integer, Node
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.types import INTEGER_BITS, FlinkType
from kvformat.registry.java.numbers import decimal_text, double_text_java17, stripped_decimal
from kvformat.registry.java.parse import (
    BLANKS,
    DATE,
    DECIMAL,
    ISO_TIME,
    MICROS_OF_A_DAY,
    MOST_DIGITS,
    TIME,
    decode_base64,
    fit_decimal,
    is_integer_text,
    is_java_text,
    parse_date,
    parse_decimal,
    parse_double,
    parse_float,
    parse_integer,
    python_float_text,
    replace_lone_surrogates,
    round_to_float,
    time_of_day_micros,
)

Converter = Callable[[Any], Any]

_SHOWN = 60
MILLIS = 3
"""Digits of a fraction of a second in milliseconds."""
_WRONG_TYPE, _OUT_OF_RANGE = ErrorCode.WRONG_TYPE, ErrorCode.OUT_OF_RANGE  # an enum's own lookup is slow


@dataclass(frozen=True, slots=True)
class ScalarRules:
    """The rules by which scalars are converted.

    `streaming` and `iso` are those of `ReadSettings`. `decimals`: the schema has a DECIMAL column. Jackson's tree then
    has every fraction as a BigDecimal without trailing zeros, otherwise as a double.
    """

    streaming: bool
    iso: bool
    decimals: bool


class BadValue(ValueError):
    """A column does not accept a JSON value. `str()` has the field, the value and the type, on one line."""

    def __init__(self, reason: str, code: ErrorCode = _WRONG_TYPE) -> None:
        self.reason, self.code = reason, code
        self.steps: list[str | int] = []  # the path to the field, innermost first

    def __str__(self) -> str:
        return self.said[1]

    @property
    def said(self) -> tuple[ErrorCode, str]:
        """The code and the text of the message's error, as the kernel takes them."""
        return self.code, f"field {self.path!r}: {self.reason}" if self.steps else self.reason

    @property
    def path(self) -> str:
        """The field's path, such as `rec.items[2].a`."""
        return field_path(self.steps)


def field_path(steps: list[str | int]) -> str:
    """Format the path of a field, such as `rec.items[2].a`, from its steps, innermost first."""
    if len(steps) == 1 and isinstance(steps[0], str):
        return _head(steps[0])
    parts = (f"[{step}]" if isinstance(step, int) else f".{_head(step)}" for step in reversed(steps))
    return "".join(parts).removeprefix(".")


def conversion_error_code(value: Node, name: str) -> ErrorCode:
    """Return the error code of a value that the named type does not accept: out of range, or of the wrong type."""
    if name not in INTEGER_BITS or not isinstance(value, str) or "A" <= value[:1] <= "z":
        return _WRONG_TYPE
    cut = type(value) is Fraction and name in _TRUNCATED
    return _OUT_OF_RANGE if cut or is_integer_text(value) else _WRONG_TYPE


def conversion_error_text(value: Node, name: str) -> str:
    """Return the message for a value that the named type does not accept."""
    return f"cannot read {preview(value)} as {name}"


def preview(value: Node) -> str:
    """Format a value for an error message, with at most about 60 characters."""
    if type(value) is str:
        return encode_basestring_ascii(_head(value))
    if isinstance(value, str):  # of a number
        return _head(value)
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return "null" if value is None else "true" if value else "false"


def _head(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def scalar_converter(t: FlinkType, rules: ScalarRules) -> Converter:
    """Return the converter of a scalar type."""
    return _CONVERTERS[t.root](t, rules)


# --- numbers -------------------------------------------------------------------------------------------

_BITS = {**INTEGER_BITS, "INTERVAL YEAR TO MONTH": 32, "INTERVAL DAY TO SECOND": 64}
_TRUNCATED = ("INT", "BIGINT")  # types that truncate fractions


def _integer(t: FlinkType, rules: ScalarRules) -> Converter:
    bits = _BITS[t.root]
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    truncate = _truncation(least, most, rules) if bits > 16 else _no_truncation(rules)

    def convert(value: Node) -> int:
        if type(value) is Integer and len(value) <= MOST_DIGITS:
            number = int(value)
        elif type(value) is str:
            number = parse_integer(value)
        elif type(value) is Fraction:
            number = truncate(value)
        else:
            raise ValueError
        if not least <= number <= most:
            raise ValueError
        return number

    return convert


def _truncation(least: int, most: int, rules: ScalarRules) -> Callable[[str], int]:
    """Return a function that truncates a fraction to an integer. The range is checked before truncation."""

    def exactly(token: str) -> int:
        number = parse_decimal(token)
        if not least <= number <= most:
            raise ValueError
        return int(number)

    def by_double(token: str) -> int:
        number = float(token)
        if not float(least) <= number <= float(most):
            raise ValueError
        return min(int(number), most)  # the bound itself, rounded to a double, may be above it

    return exactly if rules.decimals and not rules.streaming else by_double


def _no_truncation(rules: ScalarRules) -> Callable[[str], int]:
    """Return a function that parses the text of a number. A tree may have removed the fraction: 1.0 is then 1."""
    text: Callable[[str], str] = str if rules.streaming else _number_text(rules)
    return lambda token: parse_integer(text(token))


def _interval(t: FlinkType, rules: ScalarRules) -> Converter:
    """INTERVAL DAY TO SECOND: milliseconds, converted to microseconds."""
    milliseconds = _integer(t, rules)

    def convert(value: Node) -> int:
        number: int = milliseconds(value) * 1000
        if not -(2**63) <= number < 2**63:
            raise ValueError
        return number

    return convert


def _floating(t: FlinkType, rules: ScalarRules) -> Converter:
    round_ = parse_float if t.root == "FLOAT" else parse_double

    def streaming(value: Node) -> float:
        if type(value) is Fraction or type(value) is Integer:
            return round_(value)
        if type(value) is str:
            return round_(python_float_text(value))
        raise ValueError

    def tree(value: Node) -> float:
        if type(value) is Integer:
            return round_(value) + 0.0  # an integer in Java, so that -0 is 0
        if type(value) is not Fraction:
            return streaming(value)
        if rules.decimals:
            return round_(value) if not parse_decimal(value).is_zero() else 0.0
        return round_(value) if t.root == "DOUBLE" else round_to_float(float(value))  # rounded twice

    return streaming if rules.streaming else tree


def _decimal(t: FlinkType, rules: ScalarRules) -> Converter:
    precision, scale = t.precision or 0, t.scale or 0

    def convert(value: Node) -> Decimal | None:
        if type(value) is str:
            text = value.strip(BLANKS) if rules.streaming else value
            if not DECIMAL.fullmatch(text) or not is_java_text(text):
                raise ValueError
        elif type(value) is Fraction or type(value) is Integer:
            text = value
        else:
            raise ValueError
        return fit_decimal(parse_decimal(text), precision, scale)

    return convert


def _number_text(rules: ScalarRules) -> Callable[[str], str]:
    """Return a function that formats a number as Jackson's tree does on Java 17."""

    def text(token: str) -> str:
        if type(token) is Integer:
            return "0" if token == "-0" else str(token)
        if not rules.decimals:
            return double_text_java17(float(token))
        return decimal_text(stripped_decimal(parse_decimal(token)))

    return text


# --- texts ---------------------------------------------------------------------------------------------

_QUOTED = re.compile(r'["\\\x00-\x1f]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def _string(t: FlinkType, rules: ScalarRules) -> Converter:
    normalized = _number_text(rules)
    number_text: Callable[[str], str] = str if rules.streaming else normalized

    def convert(value: Node) -> str:
        if type(value) is str:
            return value if value.isascii() else replace_lone_surrogates(value)
        if isinstance(value, str):
            return number_text(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        return replace_lone_surrogates("".join(_compact(value, normalized)))

    return convert


def _compact(tree: Node, number_text: Callable[[str], str]) -> Iterator[str]:
    """Yield a tree as JSON without blanks, in pieces. It is not recursive, because a tree may have 1000 levels."""
    open_: list[tuple[str, Iterator[Any]]] = []  # closing bracket and members to come
    value, before = tree, ""
    while True:
        yield before
        if isinstance(value, dict):
            yield "{"
            open_.append(("}", iter(value.items())))
            before = ""
        elif isinstance(value, list):
            yield "["
            open_.append(("]", iter(value)))
            before = ""
        else:
            yield _scalar_text(value, number_text)
            before = ","
        while open_:
            closing, members = open_[-1]
            try:
                value = next(members)
            except StopIteration:
                yield closing
                open_.pop()
                before = ","
                continue
            if closing == "}":
                name, value = value
                before += _quote(name) + ":"
            break
        else:
            return


def _scalar_text(value: Node, number_text: Callable[[str], str]) -> str:
    if isinstance(value, Integer | Fraction):
        text = number_text(value)
        return f'"{text}"' if text.endswith("Infinity") else text
    if isinstance(value, str):
        return _quote(value)
    return "null" if value is None else "true" if value else "false"


def _quote(text: str) -> str:
    return f'"{_QUOTED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _ESCAPES.get(character) or f"\\u{ord(character):04X}"


def _boolean(t: FlinkType, rules: ScalarRules) -> Converter:
    def convert(value: Node) -> bool:
        if isinstance(value, bool):
            return value
        return isinstance(value, str) and value.strip(BLANKS).lower() == "true"

    return convert


def _binary(t: FlinkType, rules: ScalarRules) -> Converter:
    def convert(value: Node) -> bytes:
        if type(value) is not str:
            raise ValueError
        return decode_base64(value)

    return convert


# --- dates and times -----------------------------------------------------------------------------------


def pattern_groups(expression: str) -> Callable[[Node], tuple[str, ...]]:
    """Return a function that matches a whole text, and raises `ValueError` for any other value."""
    fullmatch = re.compile(expression).fullmatch

    def groups(value: Node) -> tuple[str, ...]:
        match = fullmatch(value) if type(value) is str else None
        if match is None:
            raise ValueError
        return match.groups()

    return groups


def epoch_factor(t: FlinkType) -> int:
    """Return the units of the column's Arrow type in the unit of a number for a date or time in JSON.

    The numbers are Kafka Connect's: days, milliseconds of a day, and milliseconds since 1970. A TIMESTAMP of more than
    three digits is microseconds, as in Flink on Confluent Cloud.
    """
    if t.root == "DATE":
        return 1
    return 1_000_000 if t.root == "TIME" else 1000 if (t.precision or 0) <= MILLIS else 1


def epoch_converter(t: FlinkType, rules: ScalarRules) -> Converter:
    """Return the converter of a date or time that is a number, or a text as in Flink's format."""
    factor, bits = epoch_factor(t), 32 if t.root == "DATE" else 64
    of_text = scalar_converter(t, rules)

    def convert(value: Node) -> Any:
        if type(value) is not Integer and type(value) is not Fraction:
            return of_text(value)
        number = parse_decimal(value)
        if not -(2**bits) <= number <= 2**bits:  # an integer of many digits takes very long to make
            raise ValueError
        stored = int(number) * factor
        if number != int(number) or not -(2 ** (bits - 1)) <= stored < 2 ** (bits - 1):
            raise ValueError
        return stored

    return convert


def _date(t: FlinkType, rules: ScalarRules) -> Converter:
    groups = pattern_groups(DATE)

    def convert(value: Node) -> int:
        days = parse_date(*groups(value), strict=True)
        if not -(2**31) <= days < 2**31:
            raise ValueError
        return days

    return convert


def _time(t: FlinkType, rules: ScalarRules) -> Converter:
    groups = pattern_groups(TIME)

    def convert(value: Node) -> int:
        micros = time_of_day_micros(*groups(value), strict=False)
        return micros % MICROS_OF_A_DAY // 1000 * 1_000_000

    return convert


def _timestamp(t: FlinkType, rules: ScalarRules) -> Converter:
    zoned = t.root == "TIMESTAMP_LTZ"
    between = ("T" if zoned else "[Tt]") if rules.iso else " "
    groups = pattern_groups(DATE + between + (ISO_TIME if rules.iso else TIME) + ("Z" if zoned else ""))
    strict = rules.iso and not zoned  # Java's ISO_LOCAL_DATE_TIME; Flink defines the three other formatters

    def convert(value: Node) -> int:
        return timestamp_micros(*groups(value), strict=strict)

    return convert


def timestamp_micros(day: str, *time: str, strict: bool) -> int:
    """Return the microseconds since 1970 of the parts of a timestamp. Raises `ValueError` beyond 64 bits."""
    micros = parse_date(day, strict=strict) * MICROS_OF_A_DAY + time_of_day_micros(*time, strict=strict)
    if not -(2**63) <= micros < 2**63:
        raise ValueError
    return micros


_CONVERTERS: dict[str, Callable[[FlinkType, ScalarRules], Converter]] = {
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
    "INTERVAL YEAR TO MONTH": _integer,
    "INTERVAL DAY TO SECOND": _interval,
}
