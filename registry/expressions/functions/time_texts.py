"""Functions between timestamps and texts: DATE_FORMAT, TO_TIMESTAMP, TO_TIMESTAMP_LTZ; and those of `unix_times.py`.

The patterns are those of `java.time`. A text that does not fit gives NULL or fails the row, as in Flink.
Rules: `DateTimeUtils`, `ToTimestampLtzFunction`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from kvformat.registry.contract.types import STRING, FlinkType
from kvformat.registry.expressions.bound import (
    NUMBERS,
    TEXTS,
    TIMESTAMPS,
    BindError,
    Bound,
    by_value,
    shown,
    with_session,
)
from kvformat.registry.expressions.functions.epochs import bind_epoch
from kvformat.registry.expressions.functions.signatures import Function, checked
from kvformat.registry.expressions.functions.text_columns import (
    FromTexts,
    numbers_of_texts,
    refuse_null,
    texts_of_numbers,
)
from kvformat.registry.expressions.functions.unix_times import FUNCTIONS as UNIX_TIMES
from kvformat.registry.expressions.functions.unix_times import bind_format_of_text
from kvformat.registry.expressions.java_times import sql_times
from kvformat.registry.expressions.java_times.fixed_layouts import (
    FIRST_OF_JAVA_TIME,
    LAST,
    FixedTexts,
    layout_of_java_time,
    read,
)
from kvformat.registry.expressions.java_times.formatter_parsing import ParseFailure, parsed
from kvformat.registry.expressions.java_times.formatter_patterns import Element, PatternError, compiled
from kvformat.registry.expressions.java_times.formatter_resolving import InvalidDate, resolved
from kvformat.registry.expressions.java_times.formatter_writing import formatted, uses_time
from kvformat.registry.expressions.local_times import (
    DAY_MICROS,
    MOST_MICROS,
    local_of_instant,
    locals_of_instants,
    parse_timestamp,
)
from kvformat.registry.expressions.rows import RowError, Rows
from kvformat.registry.expressions.tree import Call
from kvformat.registry.expressions.vectors import Bools, Numbers, Vector
from kvformat.registry.java.zones import offset_of_local, zone_of_id

_TIMESTAMP = FlinkType("TIMESTAMP", precision=3)
_DEFAULT_PRECISION, _MOST_PRECISION = 3, 9
"""Digits of a second that TO_TIMESTAMP gives if none are asked for, and at most."""
_TIME_LENGTH = len("yyyy-MM-dd HH:mm:ss")


# --- DATE_FORMAT ---------------------------------------------------------------------------------------------


def _bind_date_format(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return DATE_FORMAT of a timestamp, or of a text `yyyy-MM-dd HH:mm:ss`."""
    refuse_null(call, arguments)
    value, pattern = arguments
    if value.type.root not in (*TIMESTAMPS, *TEXTS) or pattern.type.root not in TEXTS:
        types = f"{shown(value.type)} and {shown(pattern.type)}"
        raise BindError(f"{call.name}: Flink needs a timestamp or a text, and a pattern, not {types}", call.offset)
    if value.type.root in TEXTS:
        return bind_format_of_text(value, pattern)
    if pattern.is_literal and pattern.literal is not None:
        return _format_by(value, pattern.literal)

    def of_rows(rows: Rows) -> Callable[[int, str], str]:
        zone = rows.session.zone if value.type.root == "TIMESTAMP_LTZ" else None
        return lambda micros, form: formatted(
            _elements(form), micros if zone is None else local_of_instant(zone, micros)
        )

    return with_session(STRING, of_rows, [value, pattern])


def _elements(pattern: str) -> tuple[Element, ...]:
    """Return a compiled pattern. Raises `RowError`, because Flink fails the job at a pattern that Java refuses."""
    try:
        return compiled(pattern)
    except PatternError as error:
        raise RowError(f"the pattern '{pattern:.60}': {error}") from None


def _format_by(value: Bound, pattern: str) -> Bound:
    try:
        elements = compiled(pattern)
    except PatternError:
        return by_value(STRING, lambda _: _elements(pattern), [value])
    layout = layout_of_java_time(elements)
    unit = 1 if uses_time(elements) else DAY_MICROS

    def evaluate(rows: Rows) -> Vector:
        micros, valid = value.evaluate(rows).numbers()
        if value.type.root == "TIMESTAMP_LTZ":
            micros = locals_of_instants(rows.session.zone, micros)
        return texts_of_numbers(
            rows,
            micros // unit,
            valid,
            lambda number: formatted(elements, number * unit),
            layout=layout,
            usual=(micros >= FIRST_OF_JAVA_TIME) & (micros <= LAST),
            locals_=micros,
        )

    return Bound(STRING, evaluate)


# --- TO_TIMESTAMP --------------------------------------------------------------------------------------------


def _bind_to_timestamp(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return TO_TIMESTAMP: NULL for whatever can't be read."""
    refuse_null(call, arguments)
    text, *patterns = checked(call, arguments, "TEXT TEXT")
    if not patterns:
        return numbers_of_texts(_TIMESTAMP, text, _usual_times, lambda _: _or_null(_default_time))
    return _by_pattern(_TIMESTAMP, text, patterns[0], _or_null(_millis_of))


def _or_null(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Return a function that gives None where Flink ignores an error; not for what is unknown here."""

    def compute(*arguments: str) -> int | None:
        try:
            return function(*arguments)
        except _Failure:
            return None

    return compute


class _Failure(RowError):
    """An error of Java's, which TO_TIMESTAMP ignores."""


def _default_time(text: str) -> int:
    """Return the timestamp of a text as CAST reads it, with milliseconds."""
    try:
        return parse_timestamp(text, _DEFAULT_PRECISION)
    except RowError as error:
        raise _Failure(str(error)) from None


def _usual_times(texts: FixedTexts, rows: Rows) -> tuple[Numbers, Bools]:
    """Read `yyyy-MM-dd` and `yyyy-MM-dd HH:mm:ss` with a fraction of any length."""
    micros, known = np.zeros(len(texts.starts), np.int64), np.zeros(len(texts.starts), np.bool_)
    for length in np.unique(texts.lengths).tolist():
        pattern = _PATTERNS.get(length)
        layout = layout_of_java_time(compiled(pattern)) if pattern else None
        if layout is not None:
            times, usual = read(layout, texts)
            micros, known = micros + times * usual, known | usual
    return micros // 1000 * 1000, known


_PATTERNS = {10: "yyyy-MM-dd", _TIME_LENGTH: "yyyy-MM-dd HH:mm:ss"} | {
    _TIME_LENGTH + 1 + digits: f"yyyy-MM-dd HH:mm:ss.{'S' * digits}" for digits in range(1, 10)
}
"""The usual patterns by the number of bytes of a text."""


def _millis_of(text: str, pattern: str) -> int | None:
    return _time_of(text, pattern, _DEFAULT_PRECISION)


def _time_of(text: str, pattern: str, precision: int) -> int | None:
    """Return the timestamp of a text in microseconds; None if it is NULL in Flink (`parseTimestampData`)."""
    try:
        parsed = _parsed(text, pattern)
    except InvalidDate:
        raise _Failure(f"'{text:.60}' is not a date for the pattern '{pattern:.60}'") from None
    if parsed is None:
        return None
    days, nanos = parsed
    unit = 10 ** (9 - min(precision, 6))
    micros = days * DAY_MICROS + nanos // unit * unit // 1000
    return micros if abs(micros) <= MOST_MICROS else None


@functools.lru_cache(maxsize=8192)
def _parsed(text: str, pattern: str) -> tuple[int, int] | None:
    """Return days and nanoseconds of a text; if the pattern does not fit, as `java.sql` reads it."""
    try:
        elements = compiled(pattern)
    except PatternError as error:
        if error.is_illegal:
            return None
        raise _Failure(f"the pattern '{pattern:.60}': {error}") from None
    try:
        return resolved(parsed(elements, text))
    except ParseFailure:
        return sql_times.value_of(text)


def _by_pattern(type_: FlinkType, text: Bound, pattern: Bound, compute: Callable[[str, str], int | None]) -> Bound:
    """Return a timestamp of a text and a pattern."""
    if not (pattern.is_literal and pattern.literal is not None):
        return by_value(type_, compute, [text, pattern])
    form = pattern.literal
    usual = _usual(form, type_.precision or 0)
    return numbers_of_texts(type_, text, usual, lambda _: lambda value: compute(value, form))


def _usual(pattern: str, precision: int) -> FromTexts | None:
    try:
        layout = layout_of_java_time(compiled(pattern))
    except PatternError:
        return None
    if layout is None:
        return None
    unit = 10 ** (6 - min(precision, 6))

    def usual(texts: FixedTexts, rows: Rows) -> tuple[Numbers, Bools]:
        micros, known = read(layout, texts)
        return micros // unit * unit, known

    return usual


# --- TO_TIMESTAMP_LTZ ----------------------------------------------------------------------------------------


def _bind_to_timestamp_ltz(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return TO_TIMESTAMP_LTZ of a number, or of a text; a text without a zone is one of UTC."""
    if len(arguments) > 1:
        refuse_null(call, arguments)
    first, *others = arguments
    if first.type.root in NUMBERS and len(others) < 2:
        return bind_epoch(call, first, others[0] if others else None)
    text, *others = checked(call, arguments, "TEXT TEXT TEXT")
    precision = _precision(call, others[0] if others else None)
    type_ = FlinkType("TIMESTAMP_LTZ", precision=precision)
    if not others:
        return numbers_of_texts(type_, text, _usual_times, lambda _: _default_time)

    def compute(value: str, form: str) -> int | None:
        return _time_of(value, form, precision)

    if len(others) == 1:
        return _by_pattern(type_, text, others[0], compute)
    zone = others[1]
    if zone.is_literal:
        try:
            zone_of_id(zone.literal or "")
        except ValueError as error:
            raise BindError(f"{call.name}: {error}", call.offset) from None

    def in_zone(value: str, form: str, zone: str) -> int | None:
        micros = compute(value, form)
        return None if micros is None else _instant(micros, zone)

    return by_value(type_, in_zone, [text, *others])


def _precision(call: Call, pattern: Bound | None) -> int:
    """Return the precision that a literal pattern has by the letters S at its end. Raises `BindError` as Flink."""
    if pattern is None or not pattern.is_literal:
        return _DEFAULT_PRECISION
    form = pattern.literal or ""
    try:
        compiled(form)
    except PatternError as error:
        raise BindError(f"{call.name}: the pattern '{form:.60}': {error}", call.offset) from None
    return max(min(len(form) - len(form.rstrip("S")), _MOST_PRECISION), _DEFAULT_PRECISION)


def _instant(micros: int, zone: str) -> int | None:
    """Return the instant of a local time in a zone; None if Java does not know the zone."""
    try:
        return micros - offset_of_local(zone_of_id(zone), micros) * 1_000_000
    except ValueError:
        return None


FUNCTIONS: dict[str, Function] = {
    "DATE_FORMAT": Function(_bind_date_format, 2, 2),
    "TO_TIMESTAMP": Function(_bind_to_timestamp, 1, 2),
    "TO_TIMESTAMP_LTZ": Function(_bind_to_timestamp_ltz, 1, 3),
    **UNIX_TIMES,
}
