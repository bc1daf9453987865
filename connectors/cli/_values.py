"""Convert values of Flink's types to JSON and back without loss.

| type | in JSON |
| --- | --- |
| BOOLEAN | `true`, `false` |
| TINYINT, SMALLINT, INT, BIGINT | a number with all its digits |
| FLOAT, DOUBLE | the shortest number that gives the same value; `"NaN"`, `"Infinity"`, `"-Infinity"` |
| DECIMAL | a string with all digits of its scale, `"12.50"` |
| CHAR, VARCHAR, STRING | a string |
| BINARY, VARBINARY, BYTES | a string in Base64 |
| DATE | `"2024-02-29"`; outside the years 1 to 9999 the number of days since 1970 |
| TIME | `"23:59:59.123"`, without zeros at the end |
| TIMESTAMP | `"2024-02-29T23:59:59.123"`; outside these years the number of microseconds since 1970 |
| TIMESTAMP_LTZ | a TIMESTAMP in UTC, with `Z` |
| INTERVAL | whole months, or whole microseconds |
| ARRAY | an array |
| MAP | an object if the keys are strings; otherwise, or with a NULL key, an array of `[key, value]` |
| MULTISET | a MAP of each element to its count |
| ROW | an object |
| VARIANT | a string with its JSON text, `"[1,null]"` |
| NULL of any type | `null` |

The input may also have a number for a DECIMAL and an array of `[key, value]` for any MAP. Missing fields of a ROW are
NULL.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import itertools
import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from kvformat.codecs.json.variant import read_variants, variant_texts
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import did_you_mean, listed
from kvformat.registry.contract.types import INTEGER_BITS, FlinkField, FlinkType

_TEXTS = ("CHAR", "VARCHAR")
_BYTES = ("BINARY", "VARBINARY")
_BITS = {**INTEGER_BITS, "INTERVAL YEAR TO MONTH": 32, "INTERVAL DAY TO SECOND": 64}
_COUNT = FlinkType("INT")
_UTC = dt.timezone.utc  # noqa: UP017 - of Python 3.11 too
_EPOCH = dt.datetime(1970, 1, 1)
_USUAL_YEAR = re.compile(r"(?!0000)\d{4}-|\d\d:")
_COUNTED_BITS = {"DATE": 32, "TIMESTAMP": 64, "TIMESTAMP_LTZ": 64}
_MOST_DIGITS = 4096
"""Maximum digits of a number: more than any type needs, and less than 4300, where Python refuses to print."""


# --- from Arrow ------------------------------------------------------------------------------------------------


def json_values(array: pa.Array, t: FlinkType) -> list[Any]:
    """Convert an array of this type to values for `json.dumps`."""
    if t.root == "ROW":
        children = [json_values(child, f.type) for child, f in zip(array.flatten(), t.fields, strict=True)]
        names = [field.name for field in t.fields]
        rows = zip(*children, strict=True) if children else iter([()] * len(array))
        return _where_valid(array, [dict(zip(names, row, strict=True)) for row in rows])
    if t.root == "ARRAY":
        return _lists(array, json_values(array.values, t.fields[0].type))
    if t.root in ("MAP", "MULTISET"):
        key, value = _entry_types(t)
        entries = list(zip(json_values(array.keys, key), json_values(array.items, value), strict=True))
        return [_map(some, key) for some in _lists(array, entries)]
    if t.root in _BYTES:
        return [None if data is None else base64.b64encode(data).decode("ascii") for data in array.to_pylist()]
    if t.root in ("FLOAT", "DOUBLE"):
        # Arrow prints the shortest digits for FLOAT and for DOUBLE
        return [_number(text) for text in array.cast(pa.string()).to_pylist()]
    if t.root == "DECIMAL":
        return [None if value is None else format(value, "f") for value in array.to_pylist()]
    if t.root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return _times(array, t)
    if t.root in _TEXTS:  # `raw` can be set to keep bytes that are not UTF-8
        return [None if data is None else data.decode(errors="replace") for data in array.cast(pa.binary()).to_pylist()]
    if t.root == "VARIANT":
        array = variant_texts(array)[0]
    if t.root == "INTERVAL DAY TO SECOND":
        array = array.view(pa.int64())
    values: list[Any] = array.to_pylist()
    return values


def _where_valid(array: pa.Array, values: list[Any]) -> list[Any]:
    if not array.null_count:
        return values
    return [value if valid else None for value, valid in zip(values, array.is_valid().to_pylist(), strict=True)]


def _lists(array: pa.Array, values: Sequence[Any]) -> list[Any]:
    """Split the element values of a list array into its lists."""
    ends = array.offsets.to_pylist()
    return _where_valid(array, [list(values[a:b]) for a, b in itertools.pairwise(ends)])


def _map(entries: list[tuple[Any, Any]] | None, key: FlinkType) -> Any:
    if entries is None:
        return None
    keys = [name for name, _ in entries]
    if key.root in _TEXTS and None not in keys and len(set(keys)) == len(keys):
        return dict(entries)
    return [list(entry) for entry in entries]


def _entry_types(t: FlinkType) -> tuple[FlinkType, FlinkType]:
    return t.fields[0].type, (t.fields[1].type if t.root == "MAP" else _COUNT)


def _number(text: str | None) -> float | str | None:
    if text is None:
        return None
    number = float(text)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _times(array: pa.Array, t: FlinkType) -> list[Any]:
    """Convert dates and times to ISO text; those outside the years 1 to 9999 to numbers."""
    numbers = array.view(pa.int32() if t.root == "DATE" else pa.int64())
    if t.root == "TIMESTAMP_LTZ":
        array = numbers.view(pa.timestamp("us"))  # Arrow prints this type in UTC
    zone = "Z" if t.root == "TIMESTAMP_LTZ" else ""
    texts: list[Any] = array.cast(pa.string()).to_pylist()
    shown = [None if text is None else f"{_time(text)}{zone}" for text in texts]
    for i, text in enumerate(texts):
        if text is not None and not _USUAL_YEAR.match(text):
            shown[i] = numbers[i].as_py()
    return shown


def _time(text: str) -> str:
    """Convert `2024-02-29 12:00:00.500000` to `2024-02-29T12:00:00.5`."""
    head, dot, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return head.replace(" ", "T") + (f"{dot}{fraction}" if fraction else "")


# --- to Arrow ----------------------------------------------------------------------------------------------


class ValueRefused(ValueError):
    """A JSON value does not fit its type. `code` is the kind of error, and the text names the field."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def read_json(line: bytes) -> Any:
    """Parse a line of JSON and keep all digits of numbers; raises `ValueRefused`."""
    try:
        return json.loads(line, parse_float=_decimal, parse_int=_integer, parse_constant=str)
    except (ValueError, RecursionError) as cause:
        raise ValueRefused(ErrorCode.MALFORMED, f"the line is not valid JSON: {cause}") from None


def _decimal(text: str) -> decimal.Decimal:
    return decimal.Decimal(_bounded(text))


def _integer(text: str) -> int:
    return int(_bounded(text))


def _bounded(text: str) -> str:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number has more than {_MOST_DIGITS} digits")
    return text


def python_value(value: Any, t: FlinkType, path: str = "") -> Any:
    """Convert a JSON value to a value for `pyarrow.array`; raises `ValueRefused`."""
    if value is None:
        return None
    if t.root == "ROW":
        return _row(value, t.fields, path)
    if t.root == "ARRAY":
        if not isinstance(value, list):
            raise _wrong(value, t, path, "an array")
        return [python_value(v, t.fields[0].type, f"{path}[{i}]") for i, v in enumerate(value)]
    if t.root in ("MAP", "MULTISET"):
        return _entries(value, t, path)
    if t.root in _BITS:
        return _whole(value, t, path)
    expected, read = _SCALARS[t.root]
    try:
        return read(value, t)
    except _NotOfTheType:
        raise _wrong(value, t, path, expected) from None


def _row(value: Any, fields: Sequence[FlinkField], path: str) -> dict[str, Any]:
    names = [field.name for field in fields]
    if not isinstance(value, dict):
        what = f"field '{path}'" if path else "the line"
        raise ValueRefused(ErrorCode.WRONG_TYPE, f"{what} must be an object with members of {listed(names)}")
    unknown = next((name for name in value if name not in names), None)
    if unknown is not None:
        where = f" in field '{path}'" if path else ""
        raise ValueRefused(
            ErrorCode.UNEXPECTED_FIELD,
            f"there is no column {unknown!r}{where}.{did_you_mean(unknown, names)} Columns: {listed(names)}",
        )
    return {f.name: python_value(value.get(f.name), f.type, f"{path}.{f.name}" if path else f.name) for f in fields}


def _entries(value: Any, t: FlinkType, path: str) -> list[tuple[Any, Any]]:
    key, item = _entry_types(t)
    pairs: list[Any] = list(value.items()) if isinstance(value, dict) and key.root in _TEXTS else value
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise _wrong(value, t, path, "an array of [key, value]" + (", or an object" if key.root in _TEXTS else ""))
    entries = []
    for name, part in pairs:
        if name is None:
            raise ValueRefused(ErrorCode.NULL_VALUE, f"field '{path}': a key of a {t.root} is null")
        entries.append((python_value(name, key, f"{path}.key"), python_value(part, item, f"{path}[{name!r}]")))
    return entries


def _whole(value: Any, t: FlinkType, path: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(value, t, path, "a whole number")
    if not _fits(value, _BITS[t.root]):
        raise ValueRefused(ErrorCode.OUT_OF_RANGE, f"field '{path}': {_short(value)} is beyond the range of {t}")
    return value


def _fits(number: int, bits: int) -> bool:
    return number in range(-(2 ** (bits - 1)), 2 ** (bits - 1))


def _wrong(value: Any, t: FlinkType, path: str, expected: str) -> ValueRefused:
    return ValueRefused(ErrorCode.WRONG_TYPE, f"field '{path}': {t} is written as {expected}, not as {_short(value)}")


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, decimal.Decimal) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."


class _NotOfTheType(Exception):
    pass


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _NotOfTheType
    return value


def _read_boolean(value: Any, _: FlinkType) -> bool:
    if not isinstance(value, bool):
        raise _NotOfTheType
    return value


def _read_text(value: Any, _: FlinkType) -> str:
    text = _text(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _NotOfTheType from None
    return text


def _read_variant(value: Any, t: FlinkType) -> Any:
    variants, problems = read_variants(pa.array([_read_text(value, t)]))
    if problems:
        raise _NotOfTheType
    return variants[0].as_py()


def _read_float(value: Any, t: FlinkType) -> float:
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        raise _NotOfTheType
    try:
        number = float(value)
        struct.pack("<f" if t.root == "FLOAT" else "<d", number)
    except OverflowError:
        raise _NotOfTheType from None
    if not math.isfinite(number):
        raise _NotOfTheType
    return number


def _read_decimal(value: Any, t: FlinkType) -> decimal.Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | decimal.Decimal):
        raise _NotOfTheType
    assert t.precision is not None
    assert t.scale is not None
    exact = decimal.Context(prec=t.precision, traps=[decimal.InvalidOperation, decimal.Inexact])
    try:
        number = decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-t.scale), context=exact)
    except decimal.DecimalException:
        raise _NotOfTheType from None
    if not number.is_finite():
        raise _NotOfTheType
    return number


def _read_bytes(value: Any, _: FlinkType) -> bytes:
    try:
        return base64.b64decode(_text(value), validate=True)
    except (binascii.Error, ValueError):
        raise _NotOfTheType from None


def _iso_parser(read: Callable[[str], Any], pattern: str, zoned: bool = False) -> Callable[[Any, FlinkType], Any]:
    """Return a parser of texts such as `2024-02-29T23:59:59.123`; it refuses digits below a microsecond."""
    shape = re.compile(pattern)

    def value_of(value: Any, t: FlinkType) -> Any:
        if t.root in _COUNTED_BITS and isinstance(value, int) and not isinstance(value, bool):
            if not _fits(value, _COUNTED_BITS[t.root]):
                raise _NotOfTheType
            return value
        match = shape.fullmatch(_text(value))
        if match is None:
            raise _NotOfTheType
        try:
            moment = read(match[0])
        except ValueError:
            raise _NotOfTheType from None
        if not zoned:
            return moment
        try:
            return moment.astimezone(_UTC)
        except OverflowError:  # in UTC it is outside the years 1 to 9999
            return (moment.replace(tzinfo=None) - _EPOCH - moment.utcoffset()) // dt.timedelta(microseconds=1)

    return value_of


# 24:00 is refused: only newer Pythons read it, as midnight.
_DAY, _CLOCK = r"\d{4}-\d\d-\d\d", r"(?!24)\d\d:\d\d(?::\d\d(?:\.\d{1,6}0*)?)?"
_SCALARS: dict[str, tuple[str, Callable[[Any, FlinkType], Any]]] = {
    "BOOLEAN": ("true or false", _read_boolean),
    **dict.fromkeys(_TEXTS, ("a text", _read_text)),
    **dict.fromkeys(_BYTES, ("a text in Base64", _read_bytes)),
    **dict.fromkeys(("FLOAT", "DOUBLE"), ('a number, "NaN", "Infinity" or "-Infinity"', _read_float)),
    "DECIMAL": ("a text or number that fits its precision and scale", _read_decimal),
    "VARIANT": ("a text with JSON, without a key twice in an object", _read_variant),
    "DATE": ('a text such as "2024-02-29"', _iso_parser(dt.date.fromisoformat, _DAY)),
    "TIME": ('a text such as "23:59:59.123"', _iso_parser(dt.time.fromisoformat, _CLOCK)),
    "TIMESTAMP": (
        'a text such as "2024-02-29T23:59:59.123"',
        _iso_parser(dt.datetime.fromisoformat, f"{_DAY}[T ]{_CLOCK}"),
    ),
    "TIMESTAMP_LTZ": (
        'a text such as "2024-02-29T23:59:59.123Z"',
        _iso_parser(dt.datetime.fromisoformat, rf"{_DAY}[T ]{_CLOCK}(?:Z|[+-]\d\d:\d\d)", zoned=True),
    ),
}
