"""Random schemas, and random rows of any schema as input for `tests.support.vectors.to_arrow`."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from kvformat.registry.contract.types import FlinkType
from tests.support.variants import random_variant
from tests.support.vectors import to_arrow

SCALARS = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "STRING", "BYTES", "DATE"),
    *("DECIMAL(10, 2)", "DECIMAL(38, 18)", "DECIMAL(5, 0)", "CHAR(3)", "TIME(0)", "TIME(3)"),
    *("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "TIMESTAMP(0)"),
)
WITH_VARIANT = (*SCALARS, "VARIANT", "VARIANT")
"""The types of columns, also one that few formats have."""
_DAY = 86_400 * 10**9  # in nanoseconds
_YEARS = (-62_135_596_800, 253_402_300_799)  # the first and last second of the years 1 to 9999
_TEXTS = (
    *("", "a", "plain", "two words", "é ß 世界", "😀", 'quote " and \\', "line\nbreak", "a,b;c|d", "null", "1", "true"),
    *("x" * 8, "y" * 25, "z" * 70, "\t ", "#", "'", "\x00", "\ufeff", "NaN", "2024-02-29"),
)


def schema(rng: random.Random, *, columns: int | None = None, depth: int = 2, scalars: Sequence[str] = SCALARS) -> str:
    """Return the columns of a random table."""
    count = columns or rng.choice([1, 2, 3, 5, 8])
    return ", ".join(f"c{i} {_type(rng, depth, scalars)}" for i in range(count))


def _type(rng: random.Random, depth: int, scalars: Sequence[str]) -> str:
    if not depth or rng.random() < 0.7:
        return rng.choice(scalars)
    match rng.randrange(3):
        case 0:
            return f"ARRAY<{_type(rng, depth - 1, scalars)}>"
        case 1:
            return f"MAP<STRING, {_type(rng, depth - 1, scalars)}>"
        case _:
            return f"ROW<{', '.join(f'f{i} {_type(rng, depth - 1, scalars)}' for i in range(rng.randint(1, 3)))}>"


def rows(rng: random.Random, row: FlinkType, count: int) -> pa.StructArray:
    """Return `count` random rows of a ROW. A tenth of their values is NULL."""
    return to_arrow([tuple(_value(rng, field.type) for field in row.fields) for _ in range(count)], row)


def _value(rng: random.Random, t: FlinkType) -> Any:
    if rng.random() < 0.1:
        return None
    if t.root == "ROW":
        return tuple(_value(rng, field.type) for field in t.fields)
    if t.root == "ARRAY":
        return [_value(rng, t.fields[0].type) for _ in range(rng.choice([0, 1, 2, 4]))]
    if t.root in ("MAP", "MULTISET"):
        of = t.fields[1].type if t.root == "MAP" else FlinkType("INT")
        return [(f"k{i}", _value(rng, of)) for i in range(rng.choice([0, 1, 3]))]
    return _VALUES[t.root](rng, t)


def _integer(bits: int) -> Callable[[random.Random, FlinkType], int]:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return lambda rng, t: rng.choice([0, 1, -1, least, most, rng.randint(least, most), rng.randrange(100)])


def _double(rng: random.Random, t: FlinkType) -> float:
    return rng.choice([0.0, -0.0, 1.5, -2.25, 1e-7, 1e7, 123456789.125, 1.5e300, rng.random(), rng.uniform(-1e9, 1e9)])


def _float(rng: random.Random, t: FlinkType) -> float:
    number: float = struct.unpack("f", struct.pack("f", min(_double(rng, t), 3e38)))[0]
    return number


def _decimal(rng: random.Random, t: FlinkType) -> Decimal:
    most = 10 ** rng.randint(0, t.precision or 0) - 1
    number = rng.choice([0, most, -most, rng.randint(-most, most)])
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -(t.scale or 0)))


def _moment(rng: random.Random, t: FlinkType) -> int:
    """Return random microseconds since 1970 with the type's precision."""
    micros = rng.choice([0, -1, rng.randint(*_YEARS) * 10**6, rng.randint(0, 2 * 10**15)])
    unit = 10 ** (6 - min(t.precision or 0, 6))
    return micros // unit * unit


_VALUES: dict[str, Callable[[random.Random, FlinkType], Any]] = {
    "BOOLEAN": lambda rng, t: rng.random() < 0.5,
    "TINYINT": _integer(8),
    "SMALLINT": _integer(16),
    "INT": _integer(32),
    "BIGINT": _integer(64),
    "FLOAT": _float,
    "DOUBLE": _double,
    "DECIMAL": _decimal,
    "CHAR": lambda rng, t: rng.choice(_TEXTS),
    "VARCHAR": lambda rng, t: rng.choice(_TEXTS),
    "BINARY": lambda rng, t: rng.randbytes(rng.choice([0, 1, 8])),
    "VARBINARY": lambda rng, t: rng.randbytes(rng.choice([0, 1, 9, 40])),
    "VARIANT": lambda rng, t: random_variant(rng),
    "DATE": lambda rng, t: rng.choice([0, -1, 19_782, rng.randint(_YEARS[0] // 86_400, _YEARS[1] // 86_400)]),
    "TIME": lambda rng, t: rng.randrange(_DAY) // 10 ** (9 - (t.precision or 0)) * 10 ** (9 - (t.precision or 0)),
    "TIMESTAMP": _moment,
    "TIMESTAMP_LTZ": _moment,
    "INTERVAL YEAR TO MONTH": lambda rng, t: rng.randint(-99, 99),
    "INTERVAL DAY TO SECOND": lambda rng, t: rng.randint(-(10**9), 10**9) * 1000,
}
