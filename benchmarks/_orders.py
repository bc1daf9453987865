"""The input of the benchmarks: orders with nine fields, about 220 bytes as JSON. They are the same in every run."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.schemas import arrow_schema

SCHEMA = (
    "order_id BIGINT, customer STRING, product STRING, weight DOUBLE, price DECIMAL(10, 2), ordered_at TIMESTAMP(3), "
    "paid BOOLEAN, tags ARRAY<STRING>, address ROW<city STRING, zip STRING, floor INT>"
)
ROW = parse_schema(SCHEMA)
SEED = 20240229
BATCH = 10_000  # records; the default size of Spark's batches for Arrow UDFs
CHUNK = 100_000
ROUND_PRICES = 0.03

_FIRST_NAMES = ("Anna", "Ben", "Carla", "David", "Erika", "Farid", "Grace", "Hiro", "Ines", "Jonas", "Kofi", "Lena")
_LAST_NAMES = ("Smith", "Fischer", "Okafor", "Rossi", "Tanaka", "Novak", "Silva", "Jensen", "Dubois", "Kaya")
_BEYOND_ASCII = ("Zoë Müller", "François Lefèvre", "Łukasz Żak", "张伟", "Ольга Иванова", "Mia 😀")
_PRODUCTS = ("usb-c cable 2m", "desk lamp", "notebook A5", "water bottle", "trail shoes 42", "coffee beans 1kg", "hat")
_CITIES = ("Berlin", "Lisbon", "Osaka", "Lagos", "Toronto", "Springfield", "Antwerp", "Gdansk", "Sevilla", "Pune")
_TAGS = ("new", "gift", "express", "fragile", "sale", "b2b", "returning")


def chunks(records: int) -> Iterator[pa.StructArray]:
    """Yield the given number of orders, in arrays of at most `CHUNK`."""
    for number, start in enumerate(range(0, records, CHUNK)):
        yield orders(min(CHUNK, records - start), SEED + number)


def orders(count: int, seed: int) -> pa.StructArray:
    """Return random orders: 4 % of names are not ASCII, 3 % of prices are round (100.00), 2 % of most fields null."""
    rng = np.random.default_rng(seed)
    columns = [
        pa.array(rng.integers(10**9, 10**12, count)),
        _nulls(rng, _names(rng, count)),
        _nulls(rng, _joined(rng, count, _PRODUCTS, "-", 10_000)),
        _nulls(rng, pa.array(np.round(rng.gamma(2.0, 3.0, count), 3))),
        _nulls(rng, _prices(rng, count)),
        _nulls(rng, pa.array(rng.integers(1_600_000_000_000, 1_750_000_000_000, count) * 1000, pa.timestamp("us"))),
        _nulls(rng, pa.array(rng.random(count) < 0.8)),
        _tags(rng, count),
        _addresses(rng, count),
    ]
    fields = list(arrow_schema(ROW))
    return pa.StructArray.from_arrays([c.cast(f.type) for c, f in zip(columns, fields, strict=True)], fields=fields)


def _nulls(rng: np.random.Generator, values: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(rng.random(len(values)) < 0.02), pa.scalar(None, values.type), values)


def _choice(rng: np.random.Generator, count: int, words: tuple[str, ...]) -> pa.Array:
    return pa.array(words).take(pa.array(rng.integers(0, len(words), count)))


def _joined(rng: np.random.Generator, count: int, words: tuple[str, ...], between: str, numbers: int) -> pa.Array:
    ends = pa.array(rng.integers(0, numbers, count)).cast(pa.string())
    return pc.binary_join_element_wise(_choice(rng, count, words), ends, between)


def _names(rng: np.random.Generator, count: int) -> pa.Array:
    plain = pc.binary_join_element_wise(_choice(rng, count, _FIRST_NAMES), _choice(rng, count, _LAST_NAMES), " ")
    return pc.if_else(pa.array(rng.random(count) < 0.04), _choice(rng, count, _BEYOND_ASCII), plain)


def _prices(rng: np.random.Generator, count: int) -> pa.Array:
    cents = rng.integers(100, 50_000, count)
    cents = np.where(rng.random(count) < ROUND_PRICES, (cents // 1000 + 1) * 1000, cents)
    return pc.multiply(pa.array(cents).cast(pa.decimal128(19, 0)), pa.scalar(Decimal("0.01")))


def _tags(rng: np.random.Generator, count: int) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, count))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), _choice(rng, int(offsets[-1]), _TAGS))


def _addresses(rng: np.random.Generator, count: int) -> pa.Array:
    zips = pa.array(rng.integers(10_000, 99_999, count)).cast(pa.string())
    floors = _nulls(rng, pa.array(rng.integers(0, 30, count), pa.int32()))
    return pa.StructArray.from_arrays(
        [_nulls(rng, _choice(rng, count, _CITIES)), zips, floors], ["city", "zip", "floor"]
    )
