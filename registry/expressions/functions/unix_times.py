"""Functions with patterns of `java.text.SimpleDateFormat`: FROM_UNIXTIME, UNIX_TIMESTAMP, TO_DATE, CONVERT_TZ.

Rules: `DateTimeUtils`, with `java.util.TimeZone`. A text that does not fit gives the least BIGINT in UNIX_TIMESTAMP, as
in Flink, and an odd date far in the future in TO_DATE with a pattern.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from kvformat.registry.contract.types import STRING, FlinkType
from kvformat.registry.expressions.bound import BIGINT, DATE, Bound, by_value, with_session
from kvformat.registry.expressions.functions.signatures import Function, checked
from kvformat.registry.expressions.functions.text_columns import (
    FromTexts,
    numbers_of_texts,
    refuse_null,
    texts_of_numbers,
)
from kvformat.registry.expressions.java_times.fixed_layouts import (
    FIRST,
    LAST,
    FixedTexts,
    Layout,
    layout_of_simple,
    read,
)
from kvformat.registry.expressions.java_times.simple_parsing import parsed_millis
from kvformat.registry.expressions.java_times.simple_writing import (
    SimpleDateFormat,
    SimpleField,
    SimplePatternError,
    compiled,
)
from kvformat.registry.expressions.local_times import (
    DAY_MICROS,
    date_of_text,
    date_text,
    offsets_of,
    parse_date_literal,
    session_zone,
)
from kvformat.registry.expressions.rows import RowError, Rows, Session
from kvformat.registry.expressions.tree import Call
from kvformat.registry.expressions.vectors import Bools, Numbers, Vector
from kvformat.registry.java.zones import Zone, zone_of_util_id

_TIMESTAMP, _DATE = "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd"
_MIN_LONG, _LONGS = -(2**63), 2**64
_DAY_MILLIS = 86_400_000
_NamedZone = tuple[str, Zone]
"""The name of a time zone and the zone."""
_UTC: _NamedZone = ("UTC", 0)
_UNPARSED_DATE = 622_191_233
"""The DATE that Flink makes of a text that does not fit a pattern: the low bits of `Long.MIN_VALUE` as a date."""


def _format(pattern: str) -> SimpleDateFormat:
    """Return a compiled pattern. Raises `RowError`, because Flink fails the job at a pattern that Java refuses."""
    try:
        return compiled(pattern)
    except SimplePatternError as error:
        raise RowError(f"the pattern '{pattern:.60}': {error}") from None


def _layout(pattern: str) -> Layout | None:
    """Return the layout of a pattern, if it has one."""
    try:
        return layout_of_simple(compiled(pattern))
    except SimplePatternError:
        return None


@functools.lru_cache(maxsize=256)
def _needs_now(pattern: SimpleDateFormat) -> bool:
    """Return whether a year of two digits depends on the current time."""
    return any(isinstance(e, SimpleField) and e.letter in "yY" and e.count <= 2 for e in pattern.elements)


def _millis(pattern: str, text: str, zone: Zone, now: int) -> int | None:
    """Return the instant of a text; None if it does not fit."""
    form = _format(pattern)
    return _parsed(form, text, zone, now if _needs_now(form) else 0)


@functools.lru_cache(maxsize=8192)
def _parsed(pattern: SimpleDateFormat, text: str, zone: Zone, now: int) -> int | None:
    return parsed_millis(pattern, text, zone, now)


# --- from texts ----------------------------------------------------------------------------------------------


def _bind_unix_timestamp(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return UNIX_TIMESTAMP: seconds since 1970 of now, or of a text in the zone of the session."""
    refuse_null(call, arguments)
    if not arguments:
        return with_session(BIGINT, lambda rows: lambda: rows.session.now // 1_000_000, [])
    text, *patterns = checked(call, arguments, "TEXT TEXT")

    def seconds(session: Session, text: str, pattern: str) -> int:
        millis = _millis(pattern, text, session_zone(session.zone), session.now)
        if millis is None:
            return _MIN_LONG
        return -(-millis // 1000) if millis < 0 else millis // 1000

    return _by_pattern(BIGINT, text, patterns, _seconds_of_texts, seconds)


def _by_pattern(
    type_: FlinkType,
    text: Bound,
    patterns: Sequence[Bound],
    usual: Callable[[Layout], FromTexts],
    compute: Callable[[Session, str, str], int],
) -> Bound:
    """Return a number for a text and a pattern, which may be missing."""
    pattern = patterns[0] if patterns else None
    if pattern is not None and not pattern.is_literal:
        return with_session(type_, lambda rows: lambda value, form: compute(rows.session, value, form), [text, pattern])
    form = _TIMESTAMP if pattern is None else pattern.literal
    if form is None:
        return by_value(type_, lambda _: None, [text])
    layout = _layout(form)
    return numbers_of_texts(
        type_,
        text,
        None if layout is None else usual(layout),
        lambda rows: lambda value: compute(rows.session, value, form),
    )


def _seconds_of_texts(layout: Layout) -> FromTexts:
    def usual(texts: FixedTexts, rows: Rows) -> tuple[Numbers, Bools]:
        micros, known = read(layout, texts, prefix=True)
        micros = micros - offsets_of(rows.session.zone, micros, "util local")
        return np.sign(micros) * (np.abs(micros) // 1_000_000), known

    return usual


def _bind_to_date(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return TO_DATE: with `yyyy-MM-dd` as CAST, but NULL for another text; with a pattern by `SimpleDateFormat`."""
    refuse_null(call, arguments)
    text, *patterns = checked(call, arguments, "TEXT TEXT")
    if not patterns:
        layout = layout_of_simple(compiled(_DATE))
        assert layout is not None
        return numbers_of_texts(DATE, text, _days_of_texts(layout, then=b" "), lambda _: date_of_text)
    is_constant = text.is_literal and patterns[0].is_literal

    def days(session: Session, text: str, pattern: str) -> int:
        millis = _millis(pattern, text, 0, session.now)
        day = _UNPARSED_DATE if millis is None else _date_in_range(millis // _DAY_MILLIS)
        return _constant_date(day) if is_constant else day

    return _by_pattern(DATE, text, patterns, _days_of_texts, days)


def _days_of_texts(layout: Layout, then: bytes = b"") -> FromTexts:
    def usual(texts: FixedTexts, rows: Rows) -> tuple[Numbers, Bools]:
        micros, known = read(layout, texts, prefix=True, then=then)
        return micros // DAY_MICROS, known

    return usual


def _date_in_range(days: int) -> int:
    if not -(2**31) <= days < 2**31:
        raise RowError("the date is out of range")
    return days


def _constant_date(days: int) -> int:
    """Return a date as Flink's planner has it as a literal: with the last four digits of the year (`formatDate`)."""
    try:
        return parse_date_literal(date_text(days))
    except ValueError:
        raise RowError("Flink can't plan a constant date whose year ends with 0000") from None


# --- to texts ------------------------------------------------------------------------------------------------


def _bind_from_unixtime(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return FROM_UNIXTIME: a text of seconds since 1970, in the zone of the session."""
    refuse_null(call, arguments)
    seconds, *patterns = checked(call, arguments, "LONG TEXT")
    pattern = patterns[0] if patterns else None
    if pattern is not None and not pattern.is_literal:
        return with_session(STRING, lambda rows: functools.partial(_unix_text, rows.session), [seconds, pattern])
    form = _TIMESTAMP if pattern is None else pattern.literal
    if form is None:
        return by_value(STRING, lambda _: None, [seconds])
    return _texts_of_moments(seconds, 1_000_000, form)


def _unix_text(session: Session, seconds: int, form: str) -> str:
    return _moment_text(form, seconds * 1000, session.zone, session_zone(session.zone))


def _texts_of_moments(moments: Bound, unit: int, form: str, zone: _NamedZone | None = None) -> Bound:
    """Return the texts of moments, which count `unit` microseconds since 1970; without `zone` in the session's zone."""
    layout = _layout(form)
    first, last = FIRST // unit, LAST // unit

    def evaluate(rows: Rows) -> Vector:
        name, rules = zone or (rows.session.zone, session_zone(rows.session.zone))
        numbers, valid = moments.evaluate(rows).numbers()
        numbers = numbers.astype(np.int64)
        # far away from the usual times, where microseconds may overflow, the offset does not matter
        micros = np.clip(numbers, first, last) * unit
        micros = micros + offsets_of(rules, micros, "util moment")
        return texts_of_numbers(
            rows,
            numbers,
            valid,
            lambda number: _moment_text(form, number * (unit // 1000), name, rules),
            layout=layout,
            usual=(numbers > first) & (numbers < last) & (micros >= FIRST) & (micros <= LAST),
            locals_=micros,
        )

    return Bound(STRING, evaluate)


def _moment_text(form: str, millis: int, name: str, zone: Zone) -> str:
    """Return the text of milliseconds since 1970, of which Java keeps the low 64 bits."""
    return _format(form).text((millis + _LONGS // 2) % _LONGS - _LONGS // 2, name, zone)


# --- from texts to texts -------------------------------------------------------------------------------------


def _moments_of_texts(text: Bound, zone: Zone) -> Bound:
    """Return the milliseconds since 1970 of texts `yyyy-MM-dd HH:mm:ss`; NULL for one that does not fit."""
    layout = layout_of_simple(compiled(_TIMESTAMP))
    assert layout is not None
    form = layout

    def usual(texts: FixedTexts, rows: Rows) -> tuple[Numbers, Bools]:
        micros, known = read(form, texts, prefix=True)
        return (micros - offsets_of(zone, micros, "util local")) // 1000, known

    return numbers_of_texts(BIGINT, text, usual, lambda _: lambda value: _millis(_TIMESTAMP, value, zone, 0))


def _bind_convert_tz(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Return CONVERT_TZ: a text `yyyy-MM-dd HH:mm:ss` of one zone as one of another zone."""
    refuse_null(call, arguments)
    text, source, target = checked(call, arguments, "TEXT TEXT TEXT")
    zones = [_named_zone(zone) for zone in (source, target)]
    if zones[0] is None or zones[1] is None:
        return by_value(STRING, _converted, [text, source, target])
    return _texts_of_moments(_moments_of_texts(text, zones[0][1]), 1000, _TIMESTAMP, zones[1])


def _named_zone(name: Bound) -> _NamedZone | None:
    """Return the zone of a literal; None if only a row has it, or Java's data of it are not known."""
    if not isinstance(name.literal, str):
        return None
    try:
        return name.literal, zone_of_util_id(name.literal)
    except ValueError:
        return None


@functools.lru_cache(maxsize=8192)
def _converted(text: str, source: str, target: str) -> str | None:
    """Convert a text between zones; a zone that Java does not know is GMT."""
    try:
        from_zone, to_zone = zone_of_util_id(source), zone_of_util_id(target)
    except ValueError as error:
        raise RowError(f"CONVERT_TZ: {error}") from None
    millis = _millis(_TIMESTAMP, text, from_zone, 0)
    return None if millis is None else _moment_text(_TIMESTAMP, millis, target, to_zone)


def bind_format_of_text(text: Bound, pattern: Bound) -> Bound:
    """Return DATE_FORMAT of a text `yyyy-MM-dd HH:mm:ss`, which is one of UTC."""

    def formatted(value: str, form: str) -> str | None:
        _format(form)  # Java refuses a wrong pattern before it reads the text
        millis = _millis(_TIMESTAMP, value, 0, 0)
        return None if millis is None else _moment_text(form, millis, *_UTC)

    if isinstance(pattern.literal, str) and _is_known(pattern.literal):
        return _texts_of_moments(_moments_of_texts(text, 0), 1000, pattern.literal, _UTC)
    return by_value(STRING, formatted, [text, pattern])


def _is_known(pattern: str) -> bool:
    try:
        compiled(pattern)
    except SimplePatternError:
        return False
    return True


FUNCTIONS: dict[str, Function] = {
    "CONVERT_TZ": Function(_bind_convert_tz, 3, 3),
    "FROM_UNIXTIME": Function(_bind_from_unixtime, 1, 2),
    "TO_DATE": Function(_bind_to_date, 1, 2),
    "UNIX_TIMESTAMP": Function(_bind_unix_timestamp, 0, 2),
}
