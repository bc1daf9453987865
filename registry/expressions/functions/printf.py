"""PRINTF: Java's formats with the values that Flink passes to them.

Flink passes its own objects: a DECIMAL is not a number for `%d` and `%f`, a DATE is its days since 1970, and a
timestamp has Java's text, `2024-01-02T03:04`. The texts of bytes, arrays, maps and rows are addresses in memory or
depend on the job, so that these types are refused.
Rules: `PrintfFunction`, `java.util.Formatter`, `LocalDateTime.toString`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from kvformat.registry.contract.types import STRING, FlinkType
from kvformat.registry.expressions import decimals
from kvformat.registry.expressions.bound import (
    DAYS,
    MONTHS,
    NULL,
    TEXTS,
    TIMESTAMPS,
    BindError,
    Bound,
    by_value,
    constant,
    shown,
)
from kvformat.registry.expressions.functions.text_signatures import accepted
from kvformat.registry.expressions.local_times import DAY_MICROS, date_of
from kvformat.registry.expressions.rows import RowError, check_length
from kvformat.registry.expressions.tree import Call
from kvformat.registry.java.formatter import Argument, FormatError, JavaFormat, UnsupportedFormatError
from kvformat.registry.java.numbers import double_text_java17, float_text_java17

_KINDS: dict[str, tuple[str, Callable[[Any], str], Any]] = {
    "TINYINT": ("byte", str, 0),
    "SMALLINT": ("short", str, 0),
    "INT": ("int", str, 0),
    "DATE": ("int", str, 0),
    "TIME": ("int", str, 0),
    MONTHS.root: ("int", str, 0),
    "BIGINT": ("long", str, 0),
    DAYS.root: ("long", str, 0),
    "DOUBLE": ("double", double_text_java17, 0.0),
    "FLOAT": ("double", float_text_java17, 0.0),
    "BOOLEAN": ("boolean", lambda value: "true" if value else "false", True),
    **dict.fromkeys(TEXTS, ("text", str, "")),
}
"""Java's class of the values of a type, their texts, and one of the values."""

ToArgument = Callable[[Any], Argument]


def bind_printf(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return `PRINTF(format, values...)`. A wrong format gives NULL."""
    format_ = accepted(call, arguments[:1], "TEXT", null_literals=True)[0]
    converts = [_converter(argument.type, call.offset) for argument in arguments[1:]]
    values = [constant(STRING, None) if argument.type == NULL else argument for argument in arguments[1:]]
    if not format_.is_literal:
        return by_value(
            STRING, lambda text, *items: _printed(_compiled(text), converts, items), [format_, *values], nulls=True
        )
    if format_.literal is None:
        return constant(STRING, None)
    compiled = _compiled(format_.literal)
    try:
        _printed(compiled, converts, [_sample(argument.type) for argument in arguments[1:]])
    except RowError as error:
        raise BindError(str(error), call.offset) from None
    return by_value(STRING, lambda *items: _printed(compiled, converts, items), values, nulls=True)


@functools.lru_cache(256)
def _compiled(text: str | None) -> JavaFormat | None:
    try:
        return None if text is None else JavaFormat(text)
    except FormatError:
        return None


def _printed(compiled: JavaFormat | None, converts: Sequence[ToArgument], values: Sequence[Any]) -> str | None:
    if compiled is None:
        return None
    try:
        arguments = [convert(value) for convert, value in zip(converts, values, strict=True)]
        check_length(compiled.least_length, compiled.text, *(argument.text for argument in arguments))
        return compiled.format(arguments)
    except FormatError:
        return None
    except UnsupportedFormatError as error:
        raise RowError(f"PRINTF: {error}") from None


def _converter(type_: FlinkType, offset: int | None) -> ToArgument:
    """Return the function that makes a value an argument of Java's formatter. Raises `BindError`."""
    if type_.root == "DECIMAL":
        scale = type_.scale or 0
        return _to_argument("text", lambda value: decimals.text(value, scale))
    if type_.root in TIMESTAMPS:
        return _to_argument("text", _timestamp_text)
    if type_ == NULL:
        return _to_argument("text", str)
    if type_.root not in _KINDS:
        raise BindError(f"PRINTF: Java's text of {shown(type_)} is not a value; CAST it to STRING", offset)
    kind, text, _ = _KINDS[type_.root]
    return _to_argument(kind, text)


def _to_argument(kind: str, text: Callable[[Any], str]) -> ToArgument:
    return lambda value: Argument(kind, value, "" if value is None else text(value))


def _sample(type_: FlinkType) -> Any:
    return _KINDS[type_.root][2] if type_.root in _KINDS else None if type_ == NULL else 0


def _timestamp_text(micros: int) -> str:
    """Return `LocalDateTime.toString`: without seconds that are zero, and with three or six digits of them."""
    days, micros = divmod(micros, DAY_MICROS)
    year, month, day = date_of(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    minutes, micros = divmod(micros, 60_000_000)
    text = f"{sign}{abs(year):04d}-{month:02d}-{day:02d}T{minutes // 60:02d}:{minutes % 60:02d}"
    if not micros:
        return text
    seconds, micros = divmod(micros, 1_000_000)
    fraction = "" if not micros else f".{micros // 1000:03d}" if micros % 1000 == 0 else f".{micros:06d}"
    return f"{text}:{seconds:02d}{fraction}"
