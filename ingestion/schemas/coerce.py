"""Values of one type as values of another type, and rows of one schema as rows of another, on Arrow arrays.

    source  id INT, v TIMESTAMP(3)       7, 2024-02-29 12:00:01.123
    target  id BIGINT, w INT, v STRING   7, null, '2024-02-29T12:00:01.123'

A wider type (`merge_types`) holds every value: numbers exactly or as the nearest DOUBLE, everything else as text.
Texts are numbers and booleans as Java writes them, base64 of bytes, ISO dates and times, milliseconds and months of
intervals, and JSON of nested values.
A TIMESTAMP or DATE without time zone is one of the session's time zone where it becomes TIMESTAMP_LTZ, and the other
way around.

Any other type holds a value if nothing is lost: BIGINT 7 fits an INT, 7000000000 does not. A row with a value that
does not fit is bad. Flink CDC writes NULL, 0 or '' instead.
Rules: Flink CDC's `SchemaMergingUtils.coerceObject`. It compares only types, takes local times as UTC, and writes
nested values as Java's `toString`.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._timestamps.texts import TEXT, date_texts, timestamp_texts, without_zeros
from kvformat.codecs.discovery.text_forms import AT_LEAST_ONE, DIGITS, SPACE, TRACKED, ZONED, size_of_bits, text_steps
from kvformat.codecs.json.settings import WriteSettings
from kvformat.codecs.json.write import JsonWriter, base64_texts
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import (
    BINARY_ROOTS,
    INTEGER_DIGITS,
    NESTED_ROOTS,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    merge_types,
)
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkField, FlinkType, arrow_type, nullable
from kvformat.registry.java.numbers import double_texts, plain_decimal_texts

_NUMBERS = (*INTEGER_DIGITS, "DECIMAL", "FLOAT", "DOUBLE")
_TIMES = (*TIMESTAMP_ROOTS, "DATE")
_AS_TEXT = ("TIMESTAMP_TZ", "VARIANT")  # Arrow has no such types, so their values are texts
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?(?::?00)?", re.ASCII)
_UTC = ("Z", "UT", "GMT")
_WHOLE_DOUBLES = 2.0**53  # below it, each whole number is a DOUBLE
_SHOWN = 40  # characters of a value that an error shows


@dataclass(frozen=True, slots=True)
class FittedRows:
    """Rows with the columns of the target's schema, and the error of each bad row by its index."""

    rows: pa.StructArray
    errors: Mapping[int, Reason]


Convert = Callable[[pa.Array, FlinkType, FlinkType, str, int | None], pa.Array]


def fit_rows(
    rows: pa.StructArray, source: TableSchema, target: TableSchema, time_zone: str, convert: Convert | None = None
) -> FittedRows:
    """Convert rows of the source's schema to rows of the target's schema, by the names of columns.

    A column that the source lacks is null. The errors have the code SCHEMA: a value does not fit its column, or a
    NOT NULL column has no value. `time_zone` is the session's time zone, such as `Asia/Shanghai`. `convert` converts
    values instead of `coerce`.
    """
    # flatten() makes the values of a null row null
    values = dict(zip(source.names, rows.flatten(), strict=True))
    fitted: list[pa.Array] = []
    errors: dict[int, str] = {}
    for column in target.columns:
        source_column = source.column(column.name)
        if source_column is None:
            column_values = pa.nulls(len(rows), arrow_type_of(column.type))
        elif is_same_kind(source_column.type, column.type):
            column_values = values[column.name]
        else:
            column_values = (convert or coerce)(
                values[column.name], source_column.type, column.type, time_zone, source_column.forms
            )
            _note_misfits(errors, values[column.name], column_values, source_column, column)
        if not column.type.nullable:
            _note_missing(errors, rows, column_values, column)
        fitted.append(column_values)
    fields = [pa.field(column.name, array.type) for column, array in zip(target.columns, fitted, strict=True)]
    mask = rows.is_null() if rows.null_count else None
    struct = pa.StructArray.from_arrays(fitted, fields=fields, mask=mask)
    return FittedRows(struct, {index: Reason(ErrorCode.SCHEMA, text) for index, text in errors.items()})


def _note_misfits(
    errors: dict[int, str], before: pa.Array, after: pa.Array, source: SchemaColumn, target: SchemaColumn
) -> None:
    for index in np.flatnonzero(pc.and_(before.is_valid(), after.is_null()).to_numpy(zero_copy_only=False)).tolist():
        values = before.slice(index, 1)
        if source.type.root in _TIMES:  # Python has only the years 1 to 9999
            values = texts_of(values, source.type)
        value = str(values[0].as_py())[:_SHOWN]
        text = f"column {target.name!r}: the value {value} of type {source.type} does not fit {target.type}"
        errors.setdefault(index, text)


def _note_missing(errors: dict[int, str], rows: pa.StructArray, values: pa.Array, column: SchemaColumn) -> None:
    for index in np.flatnonzero(pc.and_(rows.is_valid(), values.is_null()).to_numpy(zero_copy_only=False)).tolist():
        errors.setdefault(index, f"column {column.name!r} is {column.type}, and the row has no value for it")


def is_same_kind(source: FlinkType, target: FlinkType) -> bool:
    """Whether values need no conversion. Lengths and digits of a second are not enforced, as in the formats."""
    if nullable(source) == nullable(target):
        return True
    for roots in (TEXT_ROOTS, BINARY_ROOTS):
        if source.root in roots:
            return target.root in roots
    return source.root == target.root and source.root in ("TIME", *TIMESTAMP_ROOTS)


def arrow_type_of(t: FlinkType) -> pa.DataType:
    """Return the Arrow type of a type, text for TIMESTAMP_TZ and VARIANT."""
    return pa.string() if t.root in _AS_TEXT else arrow_type(nullable(t))


def coerce(
    values: pa.Array, source: FlinkType, target: FlinkType, time_zone: str, forms: int | None = None
) -> pa.Array:
    """Convert values to another type. A value that does not fit becomes null. `forms` are those of `texts_of`.

    Raises `SchemaError` for a nested target, because only equal nested types have a common type, and they need no
    conversion.
    """
    if target.root in NESTED_ROOTS:
        raise SchemaError(f"values of type {source} can't be converted to {target}; only the same type fits")
    if is_same_kind(source, target):
        return values
    if target.root in TEXT_ROOTS:
        return texts_of(values, source, forms, time_zone)
    if source.root in _NUMBERS and target.root in _NUMBERS:
        if nullable(merge_types(source, target)) == nullable(target):
            return values.cast(arrow_type(nullable(target)), safe=False)
        fit = _NARROWED[target.root]
        return pa.array([None if v is None else fit(v, target) for v in values.to_pylist()], arrow_type_of(target))
    if source.root in _TIMES and target.root in _TIMES and "TIMESTAMP_TZ" not in (source.root, target.root):
        return _convert_time(values, source.root, target.root, time_zone)
    return pa.nulls(len(values), arrow_type_of(target))


# --- text ----------------------------------------------------------------------------------------------


def texts_of(values: pa.Array, t: FlinkType, forms: int | None = None, time_zone: str = "UTC") -> pa.StringArray:
    """Return the text of each value, null for null.

    `forms` say how messages write the values (`codecs/discovery/text_forms.py`). Without them, or without a form that
    writes all of them, times have the ISO form.
    """
    if t.root in BINARY_ROOTS and size_of_bits(forms):
        return pa.array([None if v is None else str(int.from_bytes(v, "big")) for v in values.to_pylist()], pa.string())
    if forms and t.root in TRACKED:
        return _texts_in_form(values, t, forms, time_zone).cast(pa.string())
    return _TEXTS[t.root](values, t).cast(pa.string())


def _texts_in_form(values: pa.Array, t: FlinkType, forms: int, time_zone: str) -> pa.Array:
    if t.root == "DATE":
        return date_texts(values)
    if t.root == "BOOLEAN":
        return pc.if_else(values, "1", "0") if forms & DIGITS else values.cast(TEXT)
    if t.root in TIMESTAMP_ROOTS:
        if t.root == "TIMESTAMP_LTZ" and not forms & ZONED:
            values = _utc_to_local(values, time_zone)
        texts = timestamp_texts(values, " " if forms & SPACE else "T")
    elif t.root == "TIME":
        texts = without_zeros(values.cast(pa.time64("us")).cast(TEXT))
    else:
        texts = _TEXTS[t.root](values, t).cast(TEXT)
        if t.root != "DECIMAL" and not forms & AT_LEAST_ONE:  # large whole numbers, too, have no exponent
            whole = pc.and_(pc.equal(values, pc.trunc(values)), pc.less(pc.abs(values), _WHOLE_DOUBLES))
            known = pc.if_else(whole, values, pa.scalar(None, values.type))
            texts = pc.coalesce(known.cast(pa.int64()).cast(TEXT), texts)
    for pattern, more in text_steps(forms, t.root):
        texts = pc.replace_substring_regex(texts, pattern, rf"\1{more}")
    if t.root == "TIMESTAMP_LTZ" and forms & ZONED:
        texts = pc.binary_join_element_wise(texts, pa.scalar("Z", TEXT), pa.scalar("", TEXT))
    return texts


def _plain_texts(values: pa.Array, t: FlinkType) -> pa.Array:
    return values.cast(TEXT)


def _time_texts(values: pa.Array, t: FlinkType) -> pa.Array:
    return _grouped_fraction(pc.ascii_rtrim(pc.ascii_rtrim(values.cast(pa.time64("ns")).cast(TEXT), "0"), "."))


def _timestamp_texts(values: pa.Array, t: FlinkType) -> pa.Array:
    texts = _grouped_fraction(timestamp_texts(values, "T"))
    if t.root == "TIMESTAMP":
        return texts
    return pc.binary_join_element_wise(texts, pa.scalar("Z", TEXT), pa.scalar("", TEXT))


def _grouped_fraction(texts: pa.Array) -> pa.Array:
    """Fill up fractions of a second to 3, 6 or 9 digits, as in Java."""
    for digits, zeros in ((r"\d", "00"), (r"\d\d", "0")):
        texts = pc.replace_substring_regex(texts, rf"(\.(?:\d\d\d)*{digits})$", rf"\1{zeros}")
    return texts


def _milliseconds(values: pa.DurationArray) -> pa.Array:
    """Return intervals as numbers of milliseconds, which Flink's formats write, with a fraction if they have one."""
    exact = pc.divide(values.cast(pa.int64()).cast(pa.decimal128(19, 0)), pa.scalar(Decimal("1000.000")))
    return exact.cast(pa.decimal128(19, 3))


def _json_texts(values: pa.Array, t: FlinkType) -> pa.Array:
    """Return the JSON of nested values. Raises `SchemaError` for a MAP with keys that are not texts."""
    row = FlinkType("ROW", fields=(FlinkField("v", t),))
    rows = pa.StructArray.from_arrays([values], ["v"])
    texts, _ = JsonWriter(row, WriteSettings(null_key_mode="LITERAL")).texts(rows)
    inside = pc.binary_replace_slice(pc.binary_replace_slice(texts, -1, 2**31 - 1, ""), 0, len('{"v":'), "")
    return pc.if_else(values.is_valid(), inside, pa.scalar(None, TEXT))


_TEXTS: dict[str, Callable[[pa.Array, FlinkType], pa.Array]] = {
    **dict.fromkeys(("BOOLEAN", *INTEGER_DIGITS, *TEXT_ROOTS, *_AS_TEXT), _plain_texts),
    **dict.fromkeys(("INTERVAL YEAR TO MONTH",), _plain_texts),
    "INTERVAL DAY TO SECOND": lambda values, t: without_zeros(_milliseconds(values).cast(TEXT)),
    "FLOAT": lambda values, t: double_texts(values),
    "DOUBLE": lambda values, t: double_texts(values),
    "DECIMAL": lambda values, t: plain_decimal_texts(values),
    **dict.fromkeys(BINARY_ROOTS, lambda values, t: base64_texts(values.cast(pa.large_binary()))),
    "DATE": lambda values, t: date_texts(values),
    "TIME": _time_texts,
    "TIMESTAMP": _timestamp_texts,
    "TIMESTAMP_LTZ": _timestamp_texts,
    **dict.fromkeys(NESTED_ROOTS, _json_texts),
}


# --- numbers -------------------------------------------------------------------------------------------


def _fit_integer(value: Any, target: FlinkType) -> int | None:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    bits = arrow_type(nullable(target)).bit_width
    return int(value) if value == int(value) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None


def _fit_decimal(value: Any, target: FlinkType) -> Decimal | None:
    assert target.precision is not None
    assert target.scale is not None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    unscaled = Decimal(value).scaleb(target.scale, _EXACT)
    if unscaled != unscaled.to_integral_value() or unscaled.copy_abs() >= 10**target.precision:
        return None
    return Decimal(int(unscaled)).scaleb(-target.scale, _EXACT)


def _fit_float(value: Any, target: FlinkType) -> float | None:
    nearest = float(value)
    if target.root == "DOUBLE":
        return nearest
    with np.errstate(over="ignore"):  # a value beyond FLOAT is infinite, and does not fit
        single = float(np.float32(nearest))
    return single if not isinstance(value, float) or single == value or math.isnan(value) else None


_NARROWED: dict[str, Callable[[Any, FlinkType], Any]] = {
    **dict.fromkeys(INTEGER_DIGITS, _fit_integer),
    "DECIMAL": _fit_decimal,
    "FLOAT": _fit_float,
    "DOUBLE": _fit_float,
}
"""How a number fits a type that does not hold all values of its own. Only the nearest DOUBLE may lose digits."""


# --- dates and times -----------------------------------------------------------------------------------


def _convert_time(values: pa.Array, source: str, target: str, time_zone: str) -> pa.Array:
    """Convert between DATE, TIMESTAMP and TIMESTAMP_LTZ. A DATE is midnight, and only midnight is a DATE."""
    if source == "DATE":
        local = values.cast(pa.timestamp("us"))
        return local if target == "TIMESTAMP" else local_to_utc(local, time_zone)
    local = values if source == "TIMESTAMP" else _utc_to_local(values, time_zone)
    if target == "TIMESTAMP_LTZ":
        return local_to_utc(local, time_zone)
    if target == "TIMESTAMP":
        return local
    days = pc.floor_temporal(local, unit="day")
    return pc.if_else(pc.equal(days, local), days.cast(pa.date32()), pa.scalar(None, pa.date32()))


def local_to_utc(values: pa.Array, time_zone: str) -> pa.Array:
    """Times that a change of the clock skips become the first one after it; of repeated times the first counts."""
    zoned = pc.assume_timezone(values, _arrow_zone(time_zone), ambiguous="earliest", nonexistent="latest")
    return zoned.cast(pa.timestamp(values.type.unit, "UTC"))


def _utc_to_local(values: pa.Array, time_zone: str) -> pa.Array:
    return pc.local_timestamp(values.cast(pa.timestamp(values.type.unit, _arrow_zone(time_zone))))


@functools.lru_cache(maxsize=64)
def _arrow_zone(name: str) -> str:
    """Return Arrow's name of a time zone of Spark, which may be an offset such as `+8`, `UTC+8` or `GMT+08:00`."""
    offset = _OFFSET.fullmatch(name)
    if offset is None:
        return "UTC" if name in _UTC else name
    sign, hours, minutes = offset.groups(default="0")
    return f"{sign}{int(hours):02}:{int(minutes):02}"
