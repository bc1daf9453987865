"""Values of columns that are decoded as text, because their format can't read all of them by the column's type.

    TIMESTAMP(9)       '2024-02-29', '2024-02-29 12:00:00', '2024-02-29T12:00:00.5'
    TIMESTAMP_LTZ(3)   '2024-02-29 12:00:00' in the session's time zone, '2024-02-29 12:00:00Z'
    BOOLEAN            '1', '0', 'true', 'false'
    BYTES              a character for each byte (ISO-8859-1), as Canal writes them

`SeenColumn.as_text` says which columns these are. A text that does not fit the type becomes null.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.json.scalars import ScalarRules, scalar_converter
from kvformat.ingestion.schemas.coerce import arrow_type_of, local_to_utc
from kvformat.ingestion.schemas.types import BINARY_ROOTS, INTEGER_DIGITS, TEXT_ROOTS
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkType

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_FRACTION = r"(?:\.[0-9]{1,9})?"
_LOCAL = rf"^{_DAY}(?: {_CLOCK}:[0-5][0-9]{_FRACTION}|T{_CLOCK}(?::[0-5][0-9]{_FRACTION})?)?$"
_ZONED = rf"^{_DAY}(?: {_CLOCK}:[0-5][0-9]{_FRACTION}|T{_CLOCK}(?::[0-5][0-9]{_FRACTION})?)Z$"
_MICROS = r"(\.[0-9]{6})[0-9]+$"
_BITS = re.compile(r"[0-9]{1,20}")  # as many as the number of eight bytes has
_TRUTHS = {"1": True, "0": False, "true": True, "false": False}
_NUMBERS = (*INTEGER_DIGITS, "DECIMAL", "FLOAT", "DOUBLE")
_RULES = ScalarRules(streaming=False, iso=False, decimals=True)


def from_texts(values: pa.StringArray, t: FlinkType, time_zone: str) -> pa.Array:
    """Convert texts to values of a type, null for null and for a text that does not fit.

    `time_zone` is the session's, such as `Asia/Shanghai`: that of timestamps without Z in a TIMESTAMP_LTZ column.
    Fractions of a second are cut off after six digits. Numbers must fit without loss, but for DOUBLE and FLOAT.
    Raises `SchemaError` for a nested type or an interval.
    """
    kind = arrow_type_of(t)
    if t.root in TEXT_ROOTS:
        return values
    if t.root == "BOOLEAN":
        return pa.array([None if v is None else _TRUTHS.get(v.lower()) for v in values.to_pylist()], kind)
    if t.root in BINARY_ROOTS:
        return pa.array([_latin(v) for v in values.to_pylist()], pa.binary()).cast(kind)
    if t.root == "TIMESTAMP":
        return _local_times(values)
    if t.root == "DATE":
        times = _local_times(values)
        days = pc.floor_temporal(times, unit="day")
        return pc.if_else(pc.equal(days, times), days.cast(pa.date32()), pa.scalar(None, pa.date32()))
    if t.root == "TIMESTAMP_LTZ":
        zoned = pc.match_substring_regex(values, _ZONED)
        nothing = pa.scalar(None, pa.string())
        stripped = pc.replace_substring_regex(pc.if_else(zoned, values, nothing), "Z$", "")
        utc = _local_times(stripped).cast(pa.timestamp("us", "UTC"))
        return pc.coalesce(utc, local_to_utc(_local_times(values), time_zone))
    if t.root in _NUMBERS or t.root == "TIME":
        return _each(values, t, kind)
    raise SchemaError(f"texts can't be converted to {t}; only numbers, times, booleans and bytes are read from texts")


def from_numbers(values: pa.StringArray, size: int) -> pa.Array:
    """Convert whole numbers to their bytes, big-endian and of this size; null for a text that does not fit."""

    def value(text: str | None) -> bytes | None:
        if text is None or not _BITS.fullmatch(text) or int(text) >= 256**size:
            return None
        return int(text).to_bytes(size, "big")

    return pa.array([value(text) for text in values.to_pylist()], pa.binary())


def _latin(text: str | None) -> bytes | None:
    try:
        return None if text is None else text.encode("iso-8859-1")
    except UnicodeEncodeError:
        return None


def _local_times(values: pa.StringArray) -> pa.Array:
    """Return timestamps without time zone. A date is midnight; both standards of timestamps are read."""
    good = pc.match_substring_regex(values, _LOCAL)
    texts = pc.if_else(good, values, pa.scalar(None, pa.string()))
    texts = pc.replace_substring_regex(texts, _MICROS, r"\1")
    try:
        return texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:  # a day that does not exist
        days = [v if v is not None and _is_day(v[:10]) else None for v in texts.to_pylist()]
        return pa.array(days, pa.string()).cast(pa.timestamp("us"))


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _each(values: pa.StringArray, t: FlinkType, kind: pa.DataType) -> pa.Array:
    convert = scalar_converter(t, _RULES)

    def value(text: str | None) -> Any:
        if text is None:
            return None
        try:
            parsed = convert(text)
            return parsed if t.root != "DECIMAL" or parsed == Decimal(text) else None
        except (ValueError, ArithmeticError):
            return None

    converted = [value(text) for text in values.to_pylist()]
    return pa.array(converted, pa.int64()).cast(kind) if t.root == "TIME" else pa.array(converted, kind)
