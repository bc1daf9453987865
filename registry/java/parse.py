"""Parse numbers, dates and bytes from text as Java and Jackson do.

Text that can't be parsed raises ValueError without a message. TIME and TIMESTAMP are microseconds, further digits are
truncated. DATE is days since 1970. Rules: Java's `Long.parseLong`, `Double.parseDouble`, `BigDecimal`,
`DateTimeFormatter`, and Jackson's base64 of variant MIME-NO-LINEFEEDS.
"""

from __future__ import annotations

import binascii
import functools
import math
import re
import struct
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np

# --- numbers -------------------------------------------------------------------------------------------

BLANKS = "".join(map(chr, range(33)))  # the characters that Java's String.trim removes
_WHOLE = re.compile(r"[+-]?\d+")
_is_whole_in_blanks = re.compile(r"[\x00- ]*+[+-]?\d+[\x00- ]*+").fullmatch
_FLOATING = re.compile(
    r"[+-]?(?:NaN|Infinity|(?P<decimal>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)"
)
DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
MOST_DIGITS = 25  # more than any integer type has
_ROUNDING = Context(prec=100, rounding=ROUND_HALF_UP)
_TOO_HIGH_A_POWER = 2**29 + 8  # `BigInteger.TEN.pow` fails for this exponent
_FAR = 2**28
_SMALLEST_NORMAL = 2.0**-126  # of a 32-bit float
_HALF_WAY_TO_INFINITY = float.fromhex("0x1.ffffffp127")


def is_java_text(text: str) -> bool:
    """Whether all characters are single UTF-16 units. Java checks units, so that other characters are never digits."""
    return text.isascii() or max(text) <= "\uffff"


def is_integer_text(text: str) -> bool:
    """Whether `Long.parseLong` accepts a text, if its range is ignored."""
    return _is_whole_in_blanks(text) is not None and is_java_text(text.strip(BLANKS))


def parse_integer(text: str) -> int:
    """Parse an integer as `Long.parseLong` does, without its range."""
    text = text.strip(BLANKS)
    if not _WHOLE.fullmatch(text) or not is_java_text(text):
        raise ValueError
    if len(text) > MOST_DIGITS:
        sign = text[0] if text[0] in "+-" else ""
        text = sign + (text[len(sign) :].lstrip("0") or "0")
        if len(text) > MOST_DIGITS:
            raise ValueError
    return int(text)


def python_float_text(text: str) -> str:
    """Convert text that `Double.parseDouble` accepts to text that Python's `float` accepts."""
    text = text.strip(BLANKS)
    match = _FLOATING.fullmatch(text)
    if not match:
        raise ValueError
    end = max(match.end("decimal"), match.end("hex"))
    return text[:end] if end >= 0 else text  # without the suffix


def parse_double(text: str) -> float:
    """Return the 64-bit float nearest to the result of `python_float_text`."""
    if "x" in text or "X" in text:
        try:
            return float.fromhex(text)
        except OverflowError:
            return -math.inf if text.startswith("-") else math.inf
    return float(text)


def round_to_float(number: float) -> float:
    """Round to the nearest 32-bit float."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded


def parse_float(text: str) -> float:
    """Return the 32-bit float nearest to a text, without rounding to 64 bits first."""
    number = parse_double(text)
    rounded = round_to_float(number)
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


def parse_decimal(text: str) -> Decimal:
    """Parse well-formed text as `new BigDecimal(text)` does. ValueError if Java does not support the exponent."""
    if "e" not in text and "E" not in text:
        return Decimal(text)
    mantissa, _, exponent = text.replace("E", "e").partition("e")
    digits = exponent.lstrip("+-0")
    if len(digits) > 10:
        raise ValueError
    power = -int(digits or "0") if exponent.startswith("-") else int(digits or "0")
    scale = len(mantissa.partition(".")[2]) - power
    if not (-(2**31) <= power < 2**31 and -(2**31) <= scale < 2**31):
        raise ValueError
    return Decimal(text)


def fit_decimal(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """Round a number half up to the scale. Returns None if it does not fit the precision.

    Raises ValueError for exponents at which `BigDecimal.setScale` fails.
    """
    whole_digits = precision - scale
    magnitude = 0 if number.is_zero() else number.adjusted()
    if abs(magnitude) > _FAR and abs(int(number.as_tuple().exponent) + scale) >= _TOO_HIGH_A_POWER:
        raise ValueError
    if magnitude >= whole_digits and not number.is_zero():
        return None  # before rounding, which takes Java a minute for 1e100000000
    rounded = number.quantize(Decimal((0, (1,), -scale)), context=_ROUNDING)
    return rounded if rounded.adjusted() < whole_digits or rounded.is_zero() else None


# --- texts ---------------------------------------------------------------------------------------------


def replace_lone_surrogates(text: str) -> str:
    """Replace each lone surrogate by `?`, as Java does when it encodes text."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return joined.encode("utf-8", "replace").decode()
    return text


_BASE64_GAPS = re.compile(r"[\x00-\x20]+")
_BASE64_GROUPS = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def decode_base64(text: str) -> bytes:
    """Decode base64. Blanks may separate pieces of it. Padding is required, and each piece may end with padding."""
    return b"".join(map(_unbase64, _BASE64_GAPS.split(text)))


def _unbase64(text: str) -> bytes:
    """Decode base64 of complete groups. Padded groups may be anywhere, and excess bits are ignored."""
    groups = _BASE64_GROUPS.findall(text)
    if sum(map(len, groups)) != len(text) or any(len(group) % 4 for group in groups):
        raise ValueError
    return b"".join(map(binascii.a2b_base64, groups))


# --- dates and times -----------------------------------------------------------------------------------

DATE = r"((?:[0-9]{4}|-[0-9]{4,10}|\+[0-9]{5,10})-[0-9]{2}-[0-9]{2})"
_SECONDS = r"([0-9]{2})(?:\.([0-9]{0,9}))?"
TIME = rf"([0-9]{{2}}):([0-9]{{2}}):{_SECONDS}"
ISO_TIME = rf"([0-9]{{2}}):([0-9]{{2}})(?::{_SECONDS})?"
_DAYS_BEFORE_1970 = 719_162  # of 0001-01-01; `date.toordinal` counts it as 1
_DAYS_OF_400_YEARS, _SECONDS_OF_A_DAY, MICROS_OF_A_DAY = 146_097, 86_400, 86_400_000_000
_MOST_YEARS = 999_999_999  # `Year.MAX_VALUE`


@functools.lru_cache(maxsize=8192)
def parse_date(text: str, *, strict: bool) -> int:
    """Parse an ISO date to days since 1970.

    If not strict, days 29 to 31 that the month does not have become its last day (Java's SMART).
    """
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
    """Return the second of the day. If not strict, 24:00:00 is the end of the day."""
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(second or 0)
    if int(minute) > 59 or int(second or 0) > 59 or seconds >= _SECONDS_OF_A_DAY + (not strict):
        raise ValueError
    return seconds


def time_of_day_micros(hour: str, minute: str, second: str | None, fraction: str | None, *, strict: bool) -> int:
    """Return the microsecond of the day. Further digits are truncated. If not strict, 24:00:00 is allowed."""
    seconds = _seconds(hour, minute, second, strict=strict)
    if not fraction:
        return seconds * 1_000_000
    if seconds == _SECONDS_OF_A_DAY and fraction.strip("0"):
        raise ValueError
    return seconds * 1_000_000 + int(fraction[:6].ljust(6, "0"))
