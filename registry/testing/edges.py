"""Edge values of every type, as Arrow arrays and as comparable numbers and texts."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.errors import ConfigurationError, KvFormatError
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable
from kvformat.registry.testing.results import row_texts, storage

_DAY_MILLIS: Final = 86_400_000


def _days(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date in any year. The calendar repeats every 400 years."""
    cycles, rest = divmod(year - 2000, 400)
    return (dt.date(2000 + rest, month, day) - dt.date(1970, 1, 1)).days + cycles * 146_097


_DATES: Final = [
    *(_days(year, 1, 1) for year in (-4712, -1, 0, 1, 1582, 1600, 1900, 1970, 9999, 10_000, 99_999)),
    *(_days(year, 2, 29) for year in (-4, 0, 4, 1600, 2000, 2024, 9996, 10_000)),
    *(_days(year, 12, 31) for year in (-1, 0, 1969, 9999)),
]
_DAY: Final = _DAY_MILLIS * 1000
_MICROS: Final = [
    *(day * _DAY + rest for day in _DATES for rest in (0, _DAY - 1)),
    *(_days(2024, 2, 29) * _DAY + rest for rest in (1, 10, 1000, 999_000, 500_000, 43_200_000_000)),
    *(-1, 1, -(2**63), -(2**63) + 1, 2**63 - 1),
]
_MILLIS: Final = sorted({micros // 1000 * 1000 for micros in _MICROS if micros >= -(2**63) + 1000})
_TIMES: Final = [0, 1, 999, 1000, 43_200_000, _DAY_MILLIS - 1000, _DAY_MILLIS - 1]
_NO_TIMES: Final = [-1, _DAY_MILLIS, 2**31 - 1, -(2**31), 9_223_372_036_854]  # milliseconds
NO_TIMES: Final = frozenset(str(value * 1_000_000) for value in _NO_TIMES)
"""Nanoseconds, as texts of `value_texts`, that Arrow accepts as a TIME and Spark does not."""
_NO_NANOS: Final = [value * 1_000_000 for value in _NO_TIMES]
_TEXTS: Final = [
    *("", " ", "\0", "a\0b", "a", "null", "NULL", "'", '"', '""', ",", ";", "\\", "\\N", "a,b;c", "\n", "\r\n", "\t"),
    *("\x7f", "ü", "€", "\u2028", "\ufeff", "\ufffd", "\uffff", "\U0001f600", "\U0010ffff", "x" * 24, "x" * 25),
    *("x" * 70_000, "😀" * 3000, "{}", "[1]", "true", "-0", "1e5", "#"),
]
_BYTES: Final = [b"", b"\0", b"\0\0", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", bytes(range(256)), b"x" * 70_000]


def _float(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


_FLOATS: Final = [0.0, -0.0, 1.0, _float(1), _float(0x7FFFFF), _float(0x800000), _float(0x7F7FFFFF), 0.1, 16777217.0]
_DOUBLES: Final = [
    0.0,
    -0.0,
    1.0,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    0.1,
    2e23,
    9007199254740993.0,
]
_NOT_FINITE: Final = [float("nan"), float("inf"), float("-inf")]


def _whole(bits: int) -> list[Any]:
    return [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]


def _decimals(precision: int, scale: int) -> list[Any]:
    most = Decimal((0, (9,) * precision, -scale))
    least = Decimal((0, (1,), -scale))
    return [most, most.copy_negate(), least, least.copy_negate(), Decimal((0, (0,), -scale))]


EDGES: Final[dict[str, list[Any]]] = {
    "BOOLEAN": [True, False],
    "TINYINT": _whole(8),
    "SMALLINT": _whole(16),
    "INT": _whole(32),
    "BIGINT": [*_whole(64), 2**53 + 1],
    "FLOAT": [*_FLOATS, *(-value for value in _FLOATS[2:]), *_NOT_FINITE],
    "DOUBLE": [*_DOUBLES, *(-value for value in _DOUBLES[2:]), *_NOT_FINITE],
    **{
        f"DECIMAL({p}, {s})": _decimals(p, s)
        for p, s in ((1, 0), (1, 1), (18, 9), (19, 0), (38, 0), (38, 18), (38, 38))
    },
    "STRING": _TEXTS,
    "BYTES": _BYTES,
    "DATE": [*_DATES, 0, -1, 2**31 - 1, -(2**31)],
    "TIME(0)": [value // 1000 * 1_000_000_000 for value in _TIMES],
    "TIME(3)": [value * 1_000_000 for value in (*_TIMES, *_NO_TIMES)],
    "TIMESTAMP(3)": _MILLIS,
    "TIMESTAMP(6)": _MICROS,
    "TIMESTAMP_LTZ(3)": _MILLIS,
    "TIMESTAMP_LTZ(6)": _MICROS,
    "INTERVAL YEAR TO MONTH": _whole(32),
    "INTERVAL DAY TO SECOND": [0, 1000, -1000, (2**63 - 1) // 1000 * 1000, -(2**63 // 1000) * 1000],
    "VARIANT": [
        {"value": value, "metadata": metadata}  # -7, "", {"a":[1.5,null],"b":{}}, []
        for value, metadata in (
            (b"\x0c\xf9", b"\1\0\0"),
            (b"\1", b"\1\0\0"),
            (b"\2\2\0\1\0\x0c\x0f\3\2\0\6\7 \1\x0f\0\0\0\0\2\0\0", b"\1\2\0\1\2ab"),
            (b"\3\0\0", b"\1\0\0"),
        )
    ],
    "ARRAY<INT>": [[], [None], [1, None, -1], list(range(300)), [2**31 - 1, -(2**31)]],
    "ARRAY<STRING>": [[], [None, "a"], ["a", "b"], ["x" * 1000]],
    "MAP<STRING, BIGINT>": [[], [("", 0)], [("a", None), ("\0", 2**63 - 1)]],
    "MULTISET<STRING>": [[], [("a", 2**31 - 1)]],
    "ROW<a INT, b STRING>": [{"a": None, "b": None}, {"a": 1, "b": "x"}, {"a": -(2**31), "b": "y"}],
    "ROW<r ROW<t TIMESTAMP(3)>>": [{"r": None}, {"r": {"t": None}}, {"r": {"t": 1000}}, {"r": {"t": _MILLIS[0]}}],
}
"""Flink's types and their edge values, as Arrow stores them: days, nanoseconds of a day, microseconds."""


_SPELLED: Final = {str(parse_type(text)): text for text in EDGES}
_MOST: Final = 20
"""The maximum number of a type's edge values in an ARRAY, MAP or ROW."""


def known_type(text: str) -> str:
    """Convert a type to the kit's spelling.

    Accepts every type of a schema, such as `map<string,int>` and `STRUCT<a: LONG>`. Raises `ConfigurationError` for a
    text that is not a type.
    """
    try:
        spelled = str(parse_type(text))
    except KvFormatError as cause:
        raise ConfigurationError(
            f"the test kit cannot test the type {text!r}: {cause}. Write a type as in a schema: 'MAP<STRING, INT>'"
        ) from cause
    return _SPELLED.get(spelled, spelled)


def rows_of(flink: str) -> pa.StructArray:
    """Return rows with one column `v`: the edge values of a type, then null."""
    t = nullable(parse_type(flink))
    kind = arrow_type(t)
    values = pa.array([*_edges_of(t), None], storage(kind)).cast(kind)
    return pa.StructArray.from_arrays([values], fields=[pa.field("v", kind)])


def _edges_of(t: FlinkType) -> list[Any]:
    """Return the edge values of any type, as Arrow stores them. Containers hold the edge values of their elements."""
    spelled = _SPELLED.get(str(t))
    if spelled is not None:
        return EDGES[spelled]
    if t.root in ("CHAR", "VARCHAR"):
        return [text for text in _TEXTS if len(text) <= (t.length or 0)]
    if t.root in ("BINARY", "VARBINARY"):
        return [data for data in _BYTES if len(data) <= (t.length or 0)]
    if t.root == "DECIMAL":
        return _decimals(t.precision or 0, t.scale or 0)
    if t.root == "TIME":
        return _cut([value * 1_000_000 for value in _TIMES], 10 ** (9 - min(t.precision or 0, 3)))
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return _cut(_MICROS, 10 ** (6 - min(t.precision or 0, 6)))
    parts = [[edge for edge in _edges_of(f.type) if edge not in _NO_NANOS][:_MOST] for f in t.fields]
    if t.root == "ARRAY":
        return [[], [None], [parts[0][0], None, parts[0][-1]], parts[0]]
    if t.root == "MULTISET":
        return [[], [(parts[0][0], 2**31 - 1)]]
    if t.root == "MAP":
        keys, items = [key for at, key in enumerate(parts[0]) if key not in parts[0][:at]], parts[1]
        return [[], [(keys[0], None)], [(key, items[at % len(items)]) for at, key in enumerate(keys)]]
    rows = [{f.name: of[at % len(of)] for f, of in zip(t.fields, parts, strict=True)} for at in range(_MOST)]
    return [dict.fromkeys(rows[0]), *rows]


def _cut(numbers: list[int], unit: int) -> list[int]:
    """Round numbers down to a multiple of the unit. Numbers that would leave 64 bits are dropped."""
    return sorted({number // unit * unit for number in numbers if number >= -(2**63) + unit})


def value_texts(rows: pa.StructArray) -> list[str]:
    """Return the value of each row as text.

    -0.0 differs from 0.0, dates and times are numbers, and a null row is a null value.
    """
    return row_texts(rows.flatten()[0])


WIDER: Final[dict[str, tuple[str, int]]] = {
    "TINYINT": ("SMALLINT", 8),
    "SMALLINT": ("INT", 16),
    "INT": ("BIGINT", 32),
    "BIGINT": ("DECIMAL(38, 0)", 64),
}
"""Integer types: the next wider type, and the number of bits of the type itself."""

OTHERS: Final[dict[str, tuple[list[Any], tuple[str, ...]]]] = {
    "DOUBLE": ([7.9, -0.5, 1e300], tuple(WIDER)),
    "BOOLEAN": ([True, False], (*WIDER, "FLOAT", "DOUBLE", "DECIMAL(38, 0)")),
    "STRING": (["x", "7x"], (*WIDER, "FLOAT", "DOUBLE", "DECIMAL(38, 0)", "DATE")),
}
"""Types with values that other types do not have: the values, and the other types."""


def in_range(number: int, wide: str) -> bool:
    """Return whether the number fits the type."""
    bits = next((bits for narrow, (_, bits) in WIDER.items() if narrow == wide), 128)
    return -(1 << bits - 1) <= number < 1 << bits - 1
