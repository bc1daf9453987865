"""CAST and TRY_CAST: a value as one of another type.

    CAST('12.9' AS INT)        12: the fraction of a text is dropped
    CAST(300 AS TINYINT)       44: the low bits of an integer
    CAST(ts AS TIMESTAMP(0))   further digits of a second are dropped
    CAST('x' AS INT)           the row fails; with TRY_CAST it is NULL

Rules: Flink's classes `*CastRule`, `BinaryStringDataUtil`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from kvformat.registry.contract.types import INTEGER_BITS, MAX_LENGTH, FlinkType
from kvformat.registry.expressions import decimals
from kvformat.registry.expressions.bound import (
    BINARIES,
    DAYS,
    FLOATS,
    INTEGERS,
    MONTHS,
    NULL,
    NUMBERS,
    TEXTS,
    TIMESTAMPS,
    BindError,
    Bound,
    constant,
    shown,
    with_session,
)
from kvformat.registry.expressions.local_times import (
    DAY_MICROS,
    DAY_MILLIS,
    date_text,
    instant_of_local,
    instants_of_locals,
    local_of_instant,
    locals_of_instants,
    parse_date,
    parse_time,
    parse_timestamp,
    time_text,
    timestamp_text,
)
from kvformat.registry.expressions.rows import RowError, Rows, Session, check_length
from kvformat.registry.expressions.vectors import DTYPES, Numbers, Vector
from kvformat.registry.java.charsets import java_text
from kvformat.registry.java.numbers import double_text_java17, float_text_java17
from kvformat.registry.java.parse import (
    DECIMAL,
    is_java_text,
    parse_decimal,
    parse_double,
    parse_float,
    python_float_text,
    replace_lone_surrogates,
    round_to_float,
)

Convert = Callable[[Any], Any]
"""A function of a value that is not NULL; raises `RowError` if Flink fails."""

_INTEGER_TEXT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]*)")
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_BLANKS = " \n\t"
_MOST_COMPACT = 18
"""Digits of a DECIMAL that Flink keeps in a long."""
_MOST_POWER = 18
"""Powers of ten that fit 64 bits."""


def bind_cast(value: Bound, target: FlinkType, *, tries: bool = False, offset: int | None = None) -> Bound:
    """Return `value` cast to a type; with `tries` a failure is NULL. Raises `BindError` if Flink has no such cast."""
    source = value.type
    if source == NULL:
        return constant(target, None)
    if same_values(source, target):
        return Bound(target, lambda rows: value.evaluate(rows).relabelled(target))
    factory = converter(source, target, offset)
    tries = tries and _can_fail(source, target)
    to_decimal = target.root == "DECIMAL" and source.root in NUMBERS
    if to_decimal and value.is_literal and value.literal is not None and factory(Session())(value.literal) is None:
        raise BindError(f"CAST: the number has too many digits for {target.summary()}", offset)
    quick = _vectorized(source, target)
    name = f"{'TRY_' if tries else ''}CAST"

    def of_rows(rows: Rows) -> Convert:
        convert = factory(rows.session)

        def converted(item: Any) -> Any:
            try:
                return convert(item)
            except RowError as error:
                if tries:
                    return None
                raise RowError(f"{name} to {target.summary()}: {error}") from None

        return converted

    if quick is None:
        return with_session(target, of_rows, [value])

    def evaluate(rows: Rows) -> Vector:
        numbers, valid = value.evaluate(rows).numbers()
        return Vector.of_numbers(target, quick(numbers, rows.session), valid)

    return Bound(target, evaluate)


def _can_fail(source: FlinkType, target: FlinkType) -> bool:
    """Return whether TRY_CAST gives NULL for a failure: only of texts. Other failures stay failures, as in Flink."""
    if source.fields and len(source.fields) == len(target.fields):
        return any(_can_fail(a.type, b.type) for a, b in zip(source.fields, target.fields, strict=True))
    return source.root in TEXTS and target.root not in (*TEXTS, *BINARIES)


def same_values(source: FlinkType, target: FlinkType) -> bool:
    """Return whether a cast leaves every value as it is."""
    if source.root == target.root == "VARCHAR" or (source.root, target.root) == ("CHAR", "VARCHAR"):
        return (target.length or 0) >= (source.length or 0)
    if source.root in BINARIES and target.root == "VARBINARY":
        return (target.length or 0) >= (source.length or 0)
    if source.root != target.root:
        return False
    if source.root in TIMESTAMPS:
        return (target.precision or 0) >= (source.precision or 0)
    if source.fields:
        return len(source.fields) == len(target.fields) and all(
            same_values(a.type, b.type) for a, b in zip(source.fields, target.fields, strict=True)
        )
    return (source.length, source.precision, source.scale) == (target.length, target.precision, target.scale)


# --- whole columns of numbers and times ----------------------------------------------------------------------


def _vectorized(source: FlinkType, target: FlinkType) -> Callable[[Numbers, Session], Numbers] | None:
    """Return a function for a whole column; None if there is none."""
    if source.root in (*INTEGERS, *FLOATS, "BOOLEAN") and target.root in (*INTEGERS, *FLOATS):
        return lambda numbers, _: java_cast(numbers, target)
    if source.root in (*INTEGERS, *FLOATS) and target.root == "BOOLEAN":
        return lambda numbers, _: numbers != 0
    if source.root in TIMESTAMPS and target.root in TIMESTAMPS:
        cut = (target.precision or 0) < min(source.precision or 0, 6)

        def of_timestamps(numbers: Numbers, session: Session) -> Numbers:
            if (source.root, target.root) == ("TIMESTAMP", "TIMESTAMP_LTZ"):
                numbers = instants_of_locals(session.zone, numbers)
            elif (source.root, target.root) == ("TIMESTAMP_LTZ", "TIMESTAMP"):
                numbers = locals_of_instants(session.zone, numbers)
            return _cut_micros(numbers, target.precision or 0) if cut else numbers

        return of_timestamps
    if source.root == "DATE" and target.root in TIMESTAMPS:

        def of_dates(numbers: Numbers, session: Session) -> Numbers:
            micros = numbers.astype(np.int64) * DAY_MICROS
            return instants_of_locals(session.zone, micros) if target.root == "TIMESTAMP_LTZ" else micros

        return of_dates
    if source.root in TIMESTAMPS and target.root == "DATE":

        def to_dates(numbers: Numbers, session: Session) -> Numbers:
            if source.root == "TIMESTAMP_LTZ":
                days: Numbers = locals_of_instants(session.zone, numbers) // DAY_MICROS
            else:  # Flink divides by the length of a day, and Java truncates
                millis = numbers // 1000
                days = np.sign(millis) * (np.abs(millis) // DAY_MILLIS)
            return days.astype(np.int32)

        return to_dates
    return None


def java_cast(numbers: Numbers, target: FlinkType) -> Numbers:
    """Cast numbers as Java casts primitive types: integers keep their low bits, a float becomes the nearest integer."""
    dtype = DTYPES[target.root]
    if numbers.dtype.kind != "f" or target.root in FLOATS:
        with np.errstate(over="ignore"):
            return numbers.astype(dtype)
    wide = np.int64 if target.root == "BIGINT" else np.int32
    least, most = np.iinfo(wide).min, np.iinfo(wide).max
    whole = np.where(np.isnan(numbers), 0.0, np.trunc(numbers.astype(np.float64)))
    high, low = whole >= float(most), whole <= float(least)
    cut = np.where(high | low, 0.0, whole).astype(wide)
    cut[high], cut[low] = most, least
    return cut.astype(dtype)


def _cut_micros(micros: Numbers, precision: int) -> Numbers:
    """Drop the digits of a second after the precision. Flink drops those of milliseconds towards 1970."""
    millis = micros // 1000
    cut: Numbers
    if precision > 3:
        unit = 10 ** (6 - precision)
        cut = millis * 1000 + (micros - millis * 1000) // unit * unit
    else:
        unit = 10 ** (3 - precision)
        cut = np.sign(millis) * (np.abs(millis) // unit) * unit * 1000
    return cut


# --- single values -------------------------------------------------------------------------------------------


def converter(source: FlinkType, target: FlinkType, offset: int | None = None) -> Callable[[Session], Convert]:
    """Return the function of a cast, for a session. Raises `BindError` if Flink has no such cast."""
    if same_values(source, target):
        return lambda _: lambda value: value
    quick = _vectorized(source, target)
    if quick is not None:
        dtype = DTYPES[source.root]
        return lambda session: lambda value: quick(np.array([value], dtype), session).tolist()[0]
    if target.root in TEXTS:
        return _to_text(source, target, offset)
    if "DECIMAL" in (source.root, target.root):
        convert = (_to_decimal if target.root == "DECIMAL" else _from_decimal)(source, target)
        if convert is None:
            raise _no_cast(source, target, offset)
        return lambda _: convert
    if source.root in TEXTS:
        return _from_text(source, target, offset)
    if source.root in BINARIES and target.root in BINARIES:
        return lambda _: lambda value: _sized_bytes(value, target)
    if source.root in TIMESTAMPS and target.root == "TIME":
        return _to_time(source, target)
    if source.root == "TIME" and target.root in TIMESTAMPS:
        if target.root == "TIMESTAMP":
            return lambda _: lambda millis: millis * 1000
        return lambda session: lambda millis: instant_of_local(session.zone, millis * 1000)
    if source.root == "TIME" and target.root == "TIME":
        unit = 10 ** (3 - min(target.precision or 0, 3))
        return lambda _: lambda value: value // unit * unit
    if source.fields and source.root == target.root and len(source.fields) == len(target.fields):
        return _of_members(source, target, offset)
    if source.root in NUMBERS and target.root in TIMESTAMPS:
        raise _no_cast(source, target, offset, "; use TO_TIMESTAMP_LTZ(n, 3) for milliseconds since 1970")
    raise _no_cast(source, target, offset)


def _no_cast(source: FlinkType, target: FlinkType, offset: int | None, advice: str = "") -> BindError:
    return BindError(f"CAST: Flink does not cast {shown(source)} to {target.summary()}{advice}", offset)


def _of_members(source: FlinkType, target: FlinkType, offset: int | None) -> Callable[[Session], Convert]:
    """Return the cast of an ARRAY, MAP, MULTISET or ROW: member by member."""
    pairs = zip(source.fields, target.fields, strict=True)
    factories = [converter(a.type, b.type, offset) for a, b in pairs]

    def of_session(session: Session) -> Convert:
        converts = [_with_null(factory(session)) for factory in factories]
        if source.root == "ARRAY":
            return lambda value: [converts[0](item) for item in value]
        if source.root == "MAP":
            return lambda value: [(_key(converts[0], key), converts[1](item)) for key, item in value]
        if source.root == "MULTISET":
            return lambda value: [(_key(converts[0], key), count) for key, count in value]
        return lambda value: tuple(convert(item) for convert, item in zip(converts, value, strict=True))

    return of_session


def _key(convert: Convert, key: Any) -> Any:
    """Return the cast of a key. Flink allows the key NULL, neither Arrow nor Spark can hold it."""
    converted = convert(key)
    if converted is None:
        raise RowError(f"the key {key!r:.60} of a map would be NULL")
    return converted


def _with_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


# --- numbers -------------------------------------------------------------------------------------------------


def _to_decimal(source: FlinkType, target: FlinkType) -> Convert | None:
    precision, scale = target.precision or 0, target.scale or 0
    if source.root == "DECIMAL":
        from_scale = source.scale or 0
        return lambda value: decimals.fitted(value, from_scale, precision, scale)
    if source.root in (*INTEGERS, "BOOLEAN"):
        return lambda value: decimals.fitted(int(value), 0, precision, scale)
    if source.root in FLOATS:
        return lambda value: _decimal_of_text(double_text_java17(value), precision, scale)
    if source.root in TEXTS:
        return lambda value: _parse_decimal(value, precision, scale)
    return None


def _decimal_of_text(text: str, precision: int, scale: int) -> int | None:
    """Return `new BigDecimal(text)` as an unscaled number; None if it has too many digits."""
    decimal = None
    if DECIMAL.fullmatch(text) and is_java_text(text):
        with contextlib.suppress(ValueError):
            decimal = parse_decimal(text)
    if decimal is None:
        raise RowError(f"'{text:.60}' is not a number")
    if decimal.is_zero():
        return 0
    if decimal.adjusted() >= precision - scale:
        return None
    if decimal.adjusted() < -scale - 1:
        return 0
    sign, figures, exponent = decimal.as_tuple()
    number = int("".join(map(str, figures)))
    return decimals.fitted(-number if sign else number, -int(exponent), precision, scale)


def _parse_decimal(text: str, precision: int, scale: int) -> int:
    """Parse a text as `BinaryStringDataUtil.toDecimal`, which has a reader of its own for short texts."""
    if precision > _MOST_COMPACT or len(text.encode()) > _MOST_COMPACT:
        stripped = text.strip(_BLANKS)
        number = _decimal_of_text(stripped or text, precision, scale)
    else:
        number = _parse_short_decimal(text, precision, scale)
    if number is None:
        raise RowError(f"'{text:.60}' is not a number of DECIMAL({precision}, {scale})")
    return number


_SHORT = re.compile(r"[ \n\t]*+([+-]?)([0-9.]*)(.?)(.*)", re.DOTALL)
_EXPONENT = re.compile(r"([+-]?)([0-9]*)(.?)(.*)", re.DOTALL)


def _parse_short_decimal(text: str, precision: int, scale: int) -> int | None:
    """Parse at most 18 bytes. Like Flink, it accepts one wrong character after the digits, and counts leading zeros."""
    match = _SHORT.fullmatch(text.encode().decode("latin-1"))  # Flink reads bytes
    assert match
    sign, figures, stop, rest = match.groups()
    whole, _, fraction = figures.partition(".")
    if not text.strip(_BLANKS) or (sign and not figures + stop) or "." in fraction:
        return None
    exponent = 0
    if stop in ("e", "E") and rest:
        exponent_match = _EXPONENT.fullmatch(rest)
        assert exponent_match
        exponent_sign, exponent_figures, _, after = exponent_match.groups()
        if exponent_sign and len(rest) == 1:
            return None
        size = 0
        for figure in exponent_figures:
            size = size * 10 + int(figure) if size < 40 else size
        exponent, rest = (-size if exponent_sign == "-" else size), after
    if rest.strip(_BLANKS):
        return None
    number = int((whole + fraction) or "0")
    change = exponent - len(fraction) + scale
    if len(whole) + len(fraction) + change > precision:
        return None
    if not -_MOST_POWER <= change <= _MOST_POWER:
        raise RowError(f"'{text:.60}' has an exponent out of range")
    rounded = number * 10**change if change >= 0 else decimals.half_up(number, 10**-change)
    if rounded >= 10**precision:
        return None
    return -rounded if sign == "-" else rounded


def _from_decimal(source: FlinkType, target: FlinkType) -> Convert | None:
    precision, scale = source.precision or 0, source.scale or 0
    if target.root in INTEGERS:
        bits = INTEGER_BITS[target.root]
        half = 1 << (bits - 1)
        unit = 10**scale
        return lambda value: (decimals.truncated(value, unit) + half) % (2 * half) - half
    if target.root == "DOUBLE":
        return lambda value: decimals.to_double(value, precision, scale)
    if target.root == "FLOAT":
        return lambda value: round_to_float(decimals.to_double(value, precision, scale))
    if target.root == "BOOLEAN":
        return bool
    return None


# --- to texts and bytes --------------------------------------------------------------------------------------


def _to_text(source: FlinkType, target: FlinkType, offset: int | None) -> Callable[[Session], Convert]:
    factory = text_of(source, offset)
    length = MAX_LENGTH if target.length is None else target.length
    pads = target.root == "CHAR"
    if length == MAX_LENGTH:
        return factory
    size = _sized_units if source.root in (*BINARIES, "ARRAY", "MAP", "MULTISET", "ROW") else _sized

    def of_session(session: Session) -> Convert:
        convert = factory(session)
        return lambda value: size(convert(value), length, pads)

    return of_session


def _sized(text: str, length: int, pads: bool) -> str:
    if pads:
        check_length(length, text)
        return text[:length].ljust(length)
    return text[:length]


def _sized_units(text: str, length: int, pads: bool) -> str:
    """Cut or pad a text by units of UTF-16, as `String.substring` does."""
    if text.isascii():
        return _sized(text, length, pads)
    data = text.encode("utf-16-le")
    if len(data) <= 2 * length:
        if pads:
            check_length(length, text)
        return text + " " * (length - len(data) // 2) * pads
    return replace_lone_surrogates(data[: 2 * length].decode("utf-16-le", "surrogatepass"))


def text_of(source: FlinkType, offset: int | None = None) -> Callable[[Session], Convert]:
    """Return the function that writes values of a type as texts."""
    root = source.root
    if root in _TEXTS:
        return lambda _: _TEXTS[root]
    if root == "DECIMAL":
        scale = source.scale or 0
        return lambda _: lambda value: decimals.text(value, scale)
    if root == "TIME":
        digits = min(source.precision or 0, 3)
        return lambda _: lambda value: time_text(value, digits)
    if root in TIMESTAMPS:
        precision = source.precision or 0
        if root == "TIMESTAMP":
            return lambda _: lambda value: timestamp_text(value, precision)
        return lambda session: lambda value: timestamp_text(local_of_instant(session.zone, value), precision)
    if source.fields:
        return _text_of_members(source, offset)
    raise BindError(f"CAST: {shown(source)} can't be cast to STRING here", offset)


def _text_of_members(source: FlinkType, offset: int | None) -> Callable[[Session], Convert]:
    factories = [text_of(field.type, offset) for field in source.fields]

    def of_session(session: Session) -> Convert:
        texts = [_null_as_text(factory(session)) for factory in factories]
        if source.root == "ARRAY":
            return lambda value: f"[{', '.join([texts[0](item) for item in value])}]"
        if source.root == "ROW":
            return lambda value: f"({', '.join([text(item) for text, item in zip(texts, value, strict=True)])})"
        item_text = texts[1] if source.root == "MAP" else str
        return lambda value: "{" + ", ".join([f"{texts[0](key)}={item_text(item)}" for key, item in value]) + "}"

    return of_session


def _null_as_text(text: Convert) -> Convert:
    return lambda value: "NULL" if value is None else text(value)


def _month_interval_text(months: int) -> str:
    years, rest = divmod(abs(months), 12)
    return f"{'+' if months >= 0 else '-'}{years}-{rest:02d}"


def _day_interval_text(millis: int) -> str:
    seconds, rest = divmod(abs(millis), 1000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{'+' if millis >= 0 else '-'}{days} {hour:02d}:{minute:02d}:{second:02d}.{rest:03d}"


_TEXTS: dict[str, Convert] = {
    **dict.fromkeys(TEXTS, lambda text: text),
    **dict.fromkeys(INTEGERS, str),
    **dict.fromkeys(BINARIES, java_text),
    "BOOLEAN": lambda value: "TRUE" if value else "FALSE",
    "DOUBLE": double_text_java17,
    "FLOAT": float_text_java17,
    "DATE": date_text,
    DAYS.root: _day_interval_text,
    MONTHS.root: _month_interval_text,
}
"""How the values of a type are written, whatever its parameters."""


def _sized_bytes(value: bytes, target: FlinkType) -> bytes:
    length = MAX_LENGTH if target.length is None else target.length
    if target.root == "BINARY":
        check_length(length, value)
        return value[:length].ljust(length, b"\0")
    return value[:length]


# --- from texts ----------------------------------------------------------------------------------------------


def _from_text(source: FlinkType, target: FlinkType, offset: int | None) -> Callable[[Session], Convert]:
    root = target.root
    if root in INTEGERS:
        bits = INTEGER_BITS[root]
        return lambda _: lambda value: _parse_integer(value, bits)
    if root == "DOUBLE":
        return lambda _: lambda value: parse_double(_float_text(value))
    if root == "FLOAT":
        return lambda _: lambda value: parse_float(_float_text(value))
    if root == "BOOLEAN":
        return lambda _: _parse_boolean
    if root in BINARIES:
        return lambda _: lambda value: _sized_bytes(value.encode(), target)
    if root == "DATE":
        return lambda _: parse_date
    if root == "TIME":
        unit = 10 ** (3 - min(target.precision or 0, 3))
        return lambda _: lambda value: parse_time(value) // unit * unit
    if root in TIMESTAMPS:
        precision = target.precision or 0
        if root == "TIMESTAMP":
            return lambda _: lambda value: parse_timestamp(value, precision)
        return lambda session: lambda value: instant_of_local(session.zone, parse_timestamp(value, precision))
    raise _no_cast(source, target, offset)


def _parse_integer(text: str, bits: int) -> int:
    stripped = text.strip(" ")
    if not _INTEGER_TEXT.fullmatch(stripped):
        raise RowError(f"'{text:.60}' is not a whole number")
    whole = stripped.partition(".")[0]
    figures = whole.lstrip("+-").lstrip("0")
    if len(figures) <= 19:
        number = -int(figures or "0") if whole.startswith("-") else int(figures or "0")
        if -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            return number
    raise RowError(f"'{text:.60}' is out of range")


def _float_text(text: str) -> str:
    try:
        return python_float_text(text)
    except ValueError:
        raise RowError(f"'{text:.60}' is not a number") from None


def _parse_boolean(text: str) -> bool:
    lower = text.lower()
    if lower in _TRUE:
        return True
    if lower in _FALSE:
        return False
    raise RowError(f"'{text:.60}' is not a BOOLEAN")


# --- times of the day ----------------------------------------------------------------------------------------


def _to_time(source: FlinkType, target: FlinkType) -> Callable[[Session], Convert]:
    unit = int(10 ** (3 - min(target.precision or 0, 3)))

    def of_session(session: Session) -> Convert:
        def convert(micros: int) -> int:
            local = local_of_instant(session.zone, micros) if source.root == "TIMESTAMP_LTZ" else micros
            return local % DAY_MICROS // 1000 // unit * unit

        return convert

    return of_session
