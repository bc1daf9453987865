"""Texts as values of a type, on Arrow arrays: for columns whose values a format can't all read by their type.

    BOOLEAN          true, FALSE, 1, 0
    numbers          12, -1.50, 1e3; a fraction that is not 0 does not fit an integer
    DATE             2024-02-29, and a timestamp at midnight
    TIMESTAMP        2024-02-29, 2024-02-29 12:00:01.5, 2024-02-29T12:00:01.5; with a zone the time in the session's zone
    TIMESTAMP_LTZ    the same; without a zone it is a time in the session's zone
    BYTES            base64

A text that does not fit is null.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
import zoneinfo
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from kvformat.ingestion.schemas.coerce import arrow_type_of, coerce
from kvformat.ingestion.schemas.types import BINARY_ROOTS, INTEGER_DIGITS, TEXT_ROOTS
from kvformat.registry.contract.types import FlinkType

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?\s*(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)?")
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


def from_texts(values: pa.Array, t: FlinkType, time_zone: str) -> pa.Array:
    """Return the value of each text, null for null and for a text that does not fit."""
    if t.root in TEXT_ROOTS:
        return values
    reader = _READERS.get(t.root)
    if reader is None:
        return pa.nulls(len(values), arrow_type_of(t))
    zone = _zone(time_zone)
    found = [None if text is None else reader(text.strip(), zone) for text in values.to_pylist()]
    if t.root in INTEGER_DIGITS or t.root == "DECIMAL":
        return _numbers(found, t, time_zone)
    if t.root == "TIMESTAMP":
        found = [None if v is None else v.astimezone(zone).replace(tzinfo=None) for v in found]
    elif t.root == "DATE":
        local = [None if v is None else v.astimezone(zone).replace(tzinfo=None) for v in found]
        found = [None if v is None or v.time() != dt.time() else v.date() for v in local]
    return pa.array(found, arrow_type_of(t))


def _numbers(found: list[Decimal | None], t: FlinkType, time_zone: str) -> pa.Array:
    """Return exact numbers, null for those that do not fit."""
    fitted: list[Any] = []
    for value in found:
        one = None
        if value is not None and value.is_finite() and abs(value.adjusted()) <= 38:
            scale = -min(int(value.as_tuple().exponent), 0)
            if scale <= 38 and len(value.as_tuple().digits) <= 38:
                source = FlinkType("DECIMAL", precision=38, scale=scale)
                try:
                    one = coerce(pa.array([value], pa.decimal128(38, scale)), source, t, time_zone)[0].as_py()
                except pa.ArrowInvalid:
                    one = None
        fitted.append(one)
    return pa.array(fitted, arrow_type_of(t))


def _boolean(text: str, zone: dt.tzinfo) -> bool | None:
    return _BOOLEANS.get(text.lower())


def _decimal(text: str, zone: dt.tzinfo) -> Decimal | None:
    try:
        return Decimal(text) if "_" not in text else None
    except InvalidOperation:
        return None


def _double(text: str, zone: dt.tzinfo) -> float | None:
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


def _bytes(text: str, zone: dt.tzinfo) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _time(text: str, zone: dt.tzinfo) -> dt.datetime | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    date, clock, fraction, offset = match.groups()
    try:
        found = dt.datetime.fromisoformat(f"{date}T{clock or '00:00'}")
    except ValueError:
        return None
    found = found.replace(microsecond=int((fraction or "0").ljust(6, "0")[:6]))
    return found.replace(tzinfo=_zone(offset) if offset else zone)


def _zone(text: str) -> dt.tzinfo:
    if text in ("Z", "UTC"):
        return dt.UTC
    match = _OFFSET.fullmatch(text)
    if match is None:
        return zoneinfo.ZoneInfo(text)
    sign, hours, minutes = match.groups()
    length = dt.timedelta(hours=int(hours), minutes=int(minutes or 0))
    return dt.timezone(-length if sign == "-" else length)


_READERS: dict[str, Callable[[str, dt.tzinfo], Any]] = {
    "BOOLEAN": _boolean,
    **dict.fromkeys((*INTEGER_DIGITS, "DECIMAL"), _decimal),
    "FLOAT": _double,
    "DOUBLE": _double,
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_LTZ"), _time),
    **dict.fromkeys(BINARY_ROOTS, _bytes),
}
