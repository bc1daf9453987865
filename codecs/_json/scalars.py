"""One JSON value to one SQL value, by the rules of Flink's two JSON readers.

A converter takes a node of the tree (`syntax.Node`, never None) and gives what `pyarrow.array` takes for the column's
Arrow type: TIME in nanoseconds, TIMESTAMP and INTERVAL DAY TO SECOND in microseconds, DATE in days. It gives None for
a DECIMAL that does not fit and raises ValueError, without a text, for what can't be read. Lengths and precisions of a
type are not enforced, as in Flink; digits below a microsecond are cut, of TIME those below a millisecond.

Rules: `JsonParserToRowDataConverters` (streaming) and `JsonToRowDataConverters` (tree), which rest on Java's
`Integer.parseInt`, `Double.parseDouble`, `BigDecimal`, `DateTimeFormatter` and on Jackson.
"""

from __future__ import annotations

import binascii
import functools
import json
import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from kvformat.codecs._java import decimal_text, double_text_17, stripped_decimal
from kvformat.codecs._json.syntax import Fraction, Integer, Node
from kvformat.registry.types import FlinkType

Converter = Callable[[Any], Any]

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides how a scalar is read.

    `streaming` and `iso` as in `ReadSettings`. `decimals`: a DECIMAL column anywhere in the schema makes Jackson keep
    every fraction as a BigDecimal without trailing zeros, where it otherwise becomes a double. `in_step`: a BOOLEAN
    raises `OutOfStep` for an object or array, which otherwise is false.
    """

    streaming: bool
    iso: bool
    decimals: bool
    in_step: bool = False


class BadValue(ValueError):
    """A JSON value that a column can't take; `str()` names the field, the value and the type, on one line."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.steps: list[str | int] = []  # the way to the field, innermost first

    def __str__(self) -> str:
        return f"field {self.path!r}: {self.reason}" if self.steps else self.reason

    @property
    def path(self) -> str:
        """The field's path, such as `rec.items[2].a`."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{_head(step)}" for step in reversed(self.steps))
        return "".join(steps).removeprefix(".")


class MissingField(BadValue):
    """A column that the JSON object does not have, where that is an error."""

    def __init__(self) -> None:
        super().__init__("is missing")

    def __str__(self) -> str:
        return f"field {self.path!r} is missing"


class OutOfStep(BadValue):
    """An object or array in a BOOLEAN column, where Flink's streaming reader loses its place in the message."""

    def __init__(self, value: Node) -> None:
        super().__init__(f"{shown(value)} where a BOOLEAN belongs; Flink's reader loses its place there and fails")


def unreadable(value: Node, t: FlinkType) -> BadValue:
    """The error for a value that is no value of a type."""
    name = t.root if t.fields or t.root == "ROW" else t.summary()
    return BadValue(f"cannot read {shown(value)} as {name}")


def shown(value: Node) -> str:
    """A value for a message, at most about 60 characters of it."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, Integer | Fraction):
        return _head(value)
    return json.dumps(_head(value) if isinstance(value, str) else value)


def _head(text: str) -> str:
    return text[:_SHOWN] + ("..." if len(text) > _SHOWN else "")


def scalar_converter(t: FlinkType, rules: Rules) -> Converter:
    """The converter of a type that is neither ARRAY, MAP, MULTISET nor ROW."""
    return _READERS[t.root](t, rules)


# --- numbers -------------------------------------------------------------------------------------------

_BLANKS = "".join(map(chr, range(33)))  # what Java's String.trim cuts
_WHOLE = re.compile(r"[+-]?\d+")
_FLOATING = re.compile(
    r"[+-]?(?:NaN|Infinity|(?P<decimal>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)"
)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_BITS = {"TINYINT": 8, "SMALLINT": 16, "BIGINT": 64, "INTERVAL DAY TO SECOND": 64}  # and 32
_MOST_DIGITS = 25  # more than any integer type holds
_ROUNDING = Context(prec=100, rounding=ROUND_HALF_UP)
_SMALLEST_NORMAL = 2.0**-126  # of a 32-bit float
_HALF_WAY_TO_INFINITY = float.fromhex("0x1.ffffffp127")


def _is_java_text(text: str) -> bool:
    # Java looks at UTF-16 units one by one, so that no digit outside of the basic plane is one
    return text.isascii() or max(text) <= "\uffff"


def _whole(text: str) -> int:
    """`Long.parseLong` without its range."""
    text = text.strip(_BLANKS)
    if not _WHOLE.fullmatch(text) or not _is_java_text(text):
        raise ValueError
    if len(text) > _MOST_DIGITS:
        text = text[0].strip("0") + text[1:].lstrip("0") if text[0] in "+-" else text.lstrip("0")
        if len(text) > _MOST_DIGITS:
            raise ValueError
    return int(text or "0")


def _integer(t: FlinkType, rules: Rules) -> Converter:
    bits = _BITS.get(t.root, 32)
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    truncate = _truncation(least, most, rules) if bits > 16 else _no_truncation(rules)

    def read(value: Node) -> int:
        if type(value) is Integer and len(value) <= _MOST_DIGITS:
            number = int(value)
        elif type(value) is str:
            number = _whole(value)
        elif type(value) is Fraction:
            number = truncate(value)
        else:
            raise ValueError
        if not least <= number <= most:
            raise ValueError
        return number

    return read


def _truncation(least: int, most: int, rules: Rules) -> Callable[[str], int]:
    """A fraction cut to an integer, its range tested before."""

    def exactly(token: str) -> int:
        number = decimal_of(token)
        if not least <= number <= most:
            raise ValueError
        return int(number)

    def by_double(token: str) -> int:
        number = float(token)
        if not float(least) <= number <= float(most):
            raise ValueError
        return min(int(number), most)  # the bound itself, rounded to a double, may be above it

    return exactly if rules.decimals and not rules.streaming else by_double


def _no_truncation(rules: Rules) -> Callable[[str], int]:
    """TINYINT and SMALLINT read the text of a number, which may have lost its fraction: 1.0 is then 1."""
    text = _number_text(rules)
    return lambda token: _whole(text(token))


def _interval(t: FlinkType, rules: Rules) -> Converter:
    """Milliseconds as microseconds."""
    milliseconds = _integer(t, rules)

    def read(value: Node) -> int:
        number: int = milliseconds(value) * 1000
        if not -(2**63) <= number < 2**63:
            raise ValueError
        return number

    return read


def _floating(t: FlinkType, rules: Rules) -> Converter:
    round_ = _nearest_single if t.root == "FLOAT" else _nearest_double

    def streaming(value: Node) -> float:
        if type(value) is Fraction or type(value) is Integer:
            return round_(value)
        if type(value) is str:
            return round_(_floating_text(value))
        raise ValueError

    def tree(value: Node) -> float:
        if type(value) is Integer:
            return round_(value) + 0.0  # it has been an integer, so that -0 is 0
        if type(value) is not Fraction:
            return streaming(value)
        if rules.decimals:
            return round_(value) if not decimal_of(value).is_zero() else 0.0
        return round_(value) if t.root == "DOUBLE" else _single(float(value))  # rounded twice

    return streaming if rules.streaming else tree


def _floating_text(text: str) -> str:
    """Text that `Double.parseDouble` takes, as Python takes it."""
    text = text.strip(_BLANKS)
    found = _FLOATING.fullmatch(text)
    if not found:
        raise ValueError
    end = max(found.end("decimal"), found.end("hex"))
    return text[:end] if end >= 0 else text  # without the suffix


def _nearest_double(text: str) -> float:
    if "x" in text or "X" in text:
        try:
            return float.fromhex(text)
        except OverflowError:
            return -math.inf if text.startswith("-") else math.inf
    return float(text)


def _single(number: float) -> float:
    """The nearest 32-bit float."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded


def _nearest_single(text: str) -> float:
    """The 32-bit float nearest to a text, without rounding to 64 bits before."""
    number = _nearest_double(text)
    rounded = _single(number)
    if rounded == number or math.isnan(number) or "x" in text or "X" in text:
        return rounded
    bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
    if bits & 0x1FFFFFFF != 0x10000000 and abs(number) >= _SMALLEST_NORMAL:
        return rounded  # not half-way between two of them
    other = float(np.nextafter(np.float32(rounded), np.float32(math.copysign(math.inf, number - rounded))))
    middle = math.copysign(_HALF_WAY_TO_INFINITY, number) if math.isinf(rounded) else (rounded + other) / 2
    exact = Decimal(text)
    if number != middle or exact == Decimal(number):
        return rounded
    return max(rounded, other) if exact > Decimal(number) else min(rounded, other)


def decimal_of(text: str) -> Decimal:
    """`new BigDecimal(text)` of well-formed text; ValueError when the exponent is more than Java's."""
    if "e" not in text and "E" not in text:
        return Decimal(text)
    mantissa, _, exponent = text.replace("E", "e").partition("e")
    digits = exponent.lstrip("+-0")
    if len(digits) > 10:
        raise ValueError
    power = -int(digits or "0") if exponent.startswith("-") else int(digits or "0")
    scale = len(mantissa.partition(".")[2]) - power
    if not -(2**31) <= scale < 2**31:
        raise ValueError
    return Decimal(text)


def fit_decimal(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """The number rounded half up to the scale; None where it does not fit."""
    whole_digits = precision - scale
    if number.adjusted() >= whole_digits and not number.is_zero():
        return None  # before rounding, which would take Java a minute for 1e100000000
    rounded = number.quantize(Decimal((0, (1,), -scale)), context=_ROUNDING)
    return rounded if rounded.adjusted() < whole_digits or rounded.is_zero() else None


def _decimal(t: FlinkType, rules: Rules) -> Converter:
    precision, scale = t.precision or 0, t.scale or 0

    def read(value: Node) -> Decimal | None:
        if type(value) is str:
            text = value.strip(_BLANKS) if rules.streaming else value
            if not _DECIMAL.fullmatch(text) or not _is_java_text(text):
                raise ValueError
        elif type(value) is Fraction or type(value) is Integer:
            text = value
        else:
            raise ValueError
        return fit_decimal(decimal_of(text), precision, scale)

    return read


def _number_text(rules: Rules) -> Callable[[str], str]:
    """A number as text, as Jackson's tree prints it on Java 17."""

    def text(token: str) -> str:
        if type(token) is Integer:
            return "0" if token == "-0" else str(token)
        if not rules.decimals:
            return double_text_17(float(token))
        return decimal_text(stripped_decimal(decimal_of(token)))

    return text


# --- texts ---------------------------------------------------------------------------------------------

_QUOTED = re.compile(r'["\\\x00-\x1f]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def clean(text: str) -> str:
    """The text with `?` for each lone surrogate, as Java encodes it."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return joined.encode("utf-8", "replace").decode()
    return text


def _string(t: FlinkType, rules: Rules) -> Converter:
    normalized = _number_text(rules)
    number_text: Callable[[str], str] = str if rules.streaming else normalized

    def read(value: Node) -> str:
        if type(value) is str:
            return value if value.isascii() else clean(value)
        if isinstance(value, str):
            return number_text(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        return clean("".join(_compact(value, normalized)))

    return read


def _compact(tree: Node, number_text: Callable[[str], str]) -> Iterator[str]:
    """A tree as JSON without blanks, piece by piece; not recursive, because a tree may be 1000 deep."""
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


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    return _ESCAPES.get(character) or f"\\u{ord(character):04X}"


def _boolean(t: FlinkType, rules: Rules) -> Converter:
    def read(value: Node) -> bool:
        if isinstance(value, bool):
            return value
        if rules.in_step and isinstance(value, dict | list):
            raise OutOfStep(value)
        return isinstance(value, str) and value.strip(_BLANKS).lower() == "true"

    return read


_BASE64_GAPS = re.compile(r"[\x00-\x20]+")
_BASE64_GROUPS = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def _binary(t: FlinkType, rules: Rules) -> Converter:
    def read(value: Node) -> bytes:
        if type(value) is not str:
            raise ValueError
        return b"".join(map(_unbase64, _BASE64_GAPS.split(value)))

    return read


def _unbase64(text: str) -> bytes:
    """Base64 of whole units; a padded one may stand anywhere, and bits that are too many are dropped."""
    groups = _BASE64_GROUPS.findall(text)
    if sum(map(len, groups)) != len(text) or any(len(group) % 4 for group in groups):
        raise ValueError
    return b"".join(map(binascii.a2b_base64, groups))


# --- dates and times -----------------------------------------------------------------------------------

_DATE = r"((?:[0-9]{4}|-[0-9]{4,10}|\+[0-9]{5,10})-[0-9]{2}-[0-9]{2})"
_SECONDS = r"([0-9]{2})(?:\.([0-9]{0,9}))?"
_TIME = rf"([0-9]{{2}}):([0-9]{{2}}):{_SECONDS}"
_ISO_TIME = rf"([0-9]{{2}}):([0-9]{{2}})(?::{_SECONDS})?"
_DAYS_BEFORE_1970 = 719_162  # of day 1, 0001-01-01, as `date.toordinal` counts, and one less
_DAYS_OF_400_YEARS, _SECONDS_OF_A_DAY, _MICROS_OF_A_DAY = 146_097, 86_400, 86_400_000_000
_MOST_YEARS = 999_999_999


@functools.lru_cache(maxsize=8192)
def _days(text: str, *, strict: bool) -> int:
    """Days since 1970 of an ISO date; not strict, a day that a month lacks is its last one (Java's SMART)."""
    year, month, day = int(text[:-6]), int(text[-5:-3]), int(text[-2:])
    if abs(year) > _MOST_YEARS or (year == 0 and text[0] == "-"):
        raise ValueError
    cycles, year = divmod(year - 1, 400)  # the calendar repeats after 400 years
    if not strict and 1 <= day <= 31:
        day = min(day, _month_length(year + 1, month))
    return date(year + 1, month, day).toordinal() - 1 - _DAYS_BEFORE_1970 + cycles * _DAYS_OF_400_YEARS


def _month_length(year: int, month: int) -> int:
    if month != 2:
        return 30 if month in (4, 6, 9, 11) else 31
    return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28


@functools.lru_cache(maxsize=8192)
def _seconds(hour: str, minute: str, second: str | None, *, strict: bool) -> int:
    """Seconds of a day; not strict, 24:00:00 is the end of the day."""
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(second or 0)
    if int(minute) > 59 or int(second or 0) > 59 or seconds >= _SECONDS_OF_A_DAY + (not strict):
        raise ValueError
    return seconds


def _micros(hour: str, minute: str, second: str | None, fraction: str | None, *, strict: bool) -> int:
    """Microseconds of a day, further digits cut."""
    seconds = _seconds(hour, minute, second, strict=strict)
    if not fraction:
        return seconds * 1_000_000
    if seconds == _SECONDS_OF_A_DAY and fraction.strip("0"):
        raise ValueError
    return seconds * 1_000_000 + int(fraction[:6].ljust(6, "0"))


def _pattern(expression: str) -> Callable[[Node], tuple[str, ...]]:
    fullmatch = re.compile(expression).fullmatch

    def groups(value: Node) -> tuple[str, ...]:
        found = fullmatch(value) if type(value) is str else None
        if found is None:
            raise ValueError
        return found.groups()

    return groups


def _date(t: FlinkType, rules: Rules) -> Converter:
    groups = _pattern(_DATE)

    def read(value: Node) -> int:
        days = _days(*groups(value), strict=True)
        if not -(2**31) <= days < 2**31:
            raise ValueError
        return days

    return read


def _time(t: FlinkType, rules: Rules) -> Converter:
    groups = _pattern(_TIME)

    def read(value: Node) -> int:
        micros = _micros(*groups(value), strict=False)
        return micros % _MICROS_OF_A_DAY // 1000 * 1_000_000

    return read


def _timestamp(t: FlinkType, rules: Rules) -> Converter:
    zoned = t.root == "TIMESTAMP_LTZ"
    between = ("T" if zoned else "[Tt]") if rules.iso else " "
    groups = _pattern(_DATE + between + (_ISO_TIME if rules.iso else _TIME) + ("Z" if zoned else ""))
    strict = rules.iso and not zoned  # Java's ISO_LOCAL_DATE_TIME; the other three are formatters made by Flink

    def read(value: Node) -> int:
        day, *time = groups(value)
        micros = _days(day, strict=strict) * _MICROS_OF_A_DAY + _micros(*time, strict=strict)
        if not -(2**63) <= micros < 2**63:
            raise ValueError
        return micros

    return read


_READERS: dict[str, Callable[[FlinkType, Rules], Converter]] = {
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
