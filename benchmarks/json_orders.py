"""`json` on orders of nine fields and about 220 bytes, against Spark's own functions and against orjson.

    scripts/benchmark json_orders
    scripts/benchmark json_orders --records 300000 --only kernel,variants

Four parts, each with its figures in `results/json_orders.json`:

    decode    Spark: `decode` against `from_json` with the same types, and an arrow_udf that returns its input
    encode    Spark: `encode` against `to_json`
    kernel    one thread, no Spark: `decode_batch` against `orjson.loads` + `pa.array`
    variants  `decode_batch` of the same orders with other key orders, blanks, escapes, extra and missing keys
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _measure import Speed, Task, environment, measure, ratios, store, table

from kvformat.registry import get_format
from kvformat.registry.ddl import parse_schema
from kvformat.registry.types import arrow_schema, arrow_type, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SCHEMA = (
    "order_id BIGINT, customer STRING, product STRING, weight DOUBLE, price DECIMAL(10, 2), ordered_at TIMESTAMP(3), "
    "paid BOOLEAN, tags ARRAY<STRING>, address ROW<city STRING, zip STRING, floor INT>"
)
ROW = parse_schema(SCHEMA)
PARTS = ("decode", "encode", "kernel", "variants")
SEED = 20240229
BATCH = 10_000  # Spark's batches for Arrow UDFs
CHUNK = 100_000
ROUND_PRICES = 0.03

_FIRST_NAMES = ("Anna", "Ben", "Carla", "David", "Erika", "Farid", "Grace", "Hiro", "Ines", "Jonas", "Kofi", "Lena")
_LAST_NAMES = ("Smith", "Fischer", "Okafor", "Rossi", "Tanaka", "Novak", "Silva", "Jensen", "Dubois", "Kaya")
_BEYOND_ASCII = ("Zoë Müller", "François Lefèvre", "Łukasz Żak", "张伟", "Ольга Иванова", "Mia 😀")
_PRODUCTS = ("usb-c cable 2m", "desk lamp", "notebook A5", "water bottle", "trail shoes 42", "coffee beans 1kg", "hat")
_CITIES = ("Berlin", "Lisbon", "Osaka", "Lagos", "Toronto", "Springfield", "Antwerp", "Gdansk", "Sevilla", "Pune")
_TAGS = ("new", "gift", "express", "fragile", "sale", "b2b", "returning")


# --- orders --------------------------------------------------------------------------------------------


def orders(count: int, seed: int) -> pa.StructArray:
    """Random orders: 4 % of the names beyond ASCII, 3 % of the prices round (100.00), 2 % of most fields null."""
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


def chunks(records: int) -> Iterator[tuple[pa.StructArray, pa.BinaryArray]]:
    """Orders and their messages, as Flink would write them."""
    fmt = get_format("json")
    for number, start in enumerate(range(0, records, CHUNK)):
        rows = orders(min(CHUNK, records - start), SEED + number)
        yield rows, fmt.encode_batch(rows, SCHEMA).messages


# --- in Spark ------------------------------------------------------------------------------------------


def measure_spark(records: int, rounds: int, parts: set[str]) -> dict[str, Any]:
    """The parts `decode` and `encode`."""
    with tempfile.TemporaryDirectory() as folder:
        size = _write_parquet(records, Path(folder))
        spark = _session()
        try:
            document: dict[str, Any] = {"bytes_per_message": round(size / records)}
            if "decode" in parts:
                document["decode"] = _decode(spark, folder, records, rounds)
            if "encode" in parts:
                document["encode"] = _encode(spark, folder, records, rounds)
            return document
        finally:
            spark.stop()


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers need what this process has
    builder = SparkSession.builder.master("local[*]").appName("json_orders").config("spark.driver.memory", "6g")
    return builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()


def _write_parquet(records: int, folder: Path) -> int:
    """The orders as rows and as messages; returns the bytes of all messages."""
    schema, size = arrow_schema(ROW), 0
    with (
        pq.ParquetWriter(folder / "rows.parquet", schema, compression="zstd") as rows_out,
        pq.ParquetWriter(folder / "messages.parquet", pa.schema([("value", pa.binary())]), compression="zstd") as out,
    ):
        for rows, messages in chunks(records):
            rows_out.write_table(pa.Table.from_arrays(rows.flatten(), schema=schema))
            out.write_table(pa.table({"value": messages}))
            size += pc.sum(pc.binary_length(messages)).as_py()
    return size


def _cached(spark: SparkSession, path: str) -> DataFrame:
    frame = spark.read.parquet(path).repartition(2 * spark.sparkContext.defaultParallelism).cache()
    frame.count()
    return frame


def _into_nothing(frame: DataFrame, column: Column) -> Task:
    return lambda: frame.select(column.alias("result")).write.format("noop").mode("overwrite").save()


def _decode(spark: SparkSession, folder: str, records: int, rounds: int) -> dict[str, Any]:
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType

    frame = _cached(spark, f"{folder}/messages.parquet")
    same = F.arrow_udf(_identity, BinaryType())  # type: ignore[attr-defined]  # PySpark's stubs leave it out
    ours = get_format("json").decode("value", SCHEMA)
    theirs = F.from_json(F.col("value").cast("string"), spark_schema(ROW))
    wrong = frame.limit(20_000).where(~ours.eqNullSafe(theirs)).count()
    if wrong:
        raise AssertionError(f"{wrong} of 20000 messages are read in another way than by from_json")
    tasks = {
        "identity arrow_udf": _into_nothing(frame, same("value")),
        "from_json": _into_nothing(frame, theirs),
        "kvformat decode": _into_nothing(frame, ours),
    }
    speeds = measure(tasks, records=records, rounds=rounds)
    frame.unpersist()
    print(table("decode in Spark, records per CPU-second", speeds, "from_json"))
    return _document(speeds, [("kvformat decode", "from_json"), ("kvformat decode", "identity arrow_udf")], records)


def _identity(values: pa.Array) -> pa.Array:
    return values


def _encode(spark: SparkSession, folder: str, records: int, rounds: int) -> dict[str, Any]:
    from pyspark.sql import functions as F

    frame = _cached(spark, f"{folder}/rows.parquet")
    fmt, row = get_format("json"), F.struct(*frame.columns)
    ours, by_arrow = fmt.encode(row, SCHEMA), fmt.encode(row, SCHEMA, engine="arrow")
    wrong = frame.limit(20_000).where(~ours.eqNullSafe(by_arrow)).count()
    if wrong:
        raise AssertionError(f"{wrong} of 20000 rows are written in another way than by the kernel")
    tasks = {
        "to_json": _into_nothing(frame, F.to_json(row, {"ignoreNullFields": "false"})),
        "kvformat encode": _into_nothing(frame, ours),
        "kvformat encode, engine='arrow'": _into_nothing(frame, by_arrow),
    }
    speeds = measure(tasks, records=records, rounds=rounds)
    frame.unpersist()
    print(table("encode in Spark, records per CPU-second", speeds, "to_json"))
    return _document(speeds, [("kvformat encode", "to_json"), ("kvformat encode, engine='arrow'", "to_json")], records)


# --- the kernel alone ----------------------------------------------------------------------------------


def measure_kernel(records: int, rounds: int) -> dict[str, Any]:
    """`decode_batch` against orjson, with types as exact as ours and with those that cost nothing more."""
    messages = [part for _, chunk in chunks(records) for part in _batches(chunk)]
    lists = [[bytes(m) for m in batch.to_pylist()] for batch in messages]
    tasks = {
        "orjson + pa.array, floats and strings": lambda: [_by_orjson(batch) for batch in lists],
        "orjson + pa.array, cast to the types": lambda: [_typed(_by_orjson(batch)) for batch in lists],
        "kvformat decode_batch": _kernel(messages),
    }
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    typed = "orjson + pa.array, cast to the types"
    print(table("kernel, one thread, records per CPU-second", speeds, typed))
    return _document(
        speeds, [("kvformat decode_batch", other) for other in tasks if other != "kvformat decode_batch"], records
    )


def _batches(messages: pa.BinaryArray) -> list[pa.BinaryArray]:
    return [pa.concat_arrays([messages[i : i + BATCH]]) for i in range(0, len(messages), BATCH)]


def _kernel(batches: list[pa.BinaryArray]) -> Task:
    fmt, schema = get_format("json"), arrow_schema(ROW)
    return lambda: [fmt.decode_batch(batch, schema) for batch in batches]


_LOOSE = {"price": pa.float64(), "ordered_at": pa.string()}
_LOOSE_STRUCT = pa.struct([field.with_type(_LOOSE.get(field.name, field.type)) for field in arrow_type(ROW)])


def _by_orjson(messages: list[bytes]) -> pa.StructArray:
    return pa.array(list(map(orjson.loads, messages)), _LOOSE_STRUCT)


def _typed(rows: pa.StructArray) -> pa.StructArray:
    """Decimals by way of the floats that orjson gives, so not exact for long ones."""
    fields = list(arrow_type(ROW))
    columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(rows.flatten(), fields, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields)


# --- ordinary input that is not what Flink writes ------------------------------------------------------
# Only what the name says may differ from the plain messages, so numbers keep their text: `1E+2` is slower to read
# than `100.0`, and a library that reads and writes the number again would make one of the other.


def _parsed(message: bytes) -> dict[str, Any]:
    order: dict[str, Any] = json.loads(message, parse_float=lambda text: f"<{text}>")
    return order


def _dumped(order: dict[str, Any], **how: Any) -> bytes:
    text = json.dumps(order, **{"ensure_ascii": False, "separators": (",", ":"), **how})
    return _NUMBER.sub(rb"\1", _ASTRAL.sub(_escaped, text).encode())


def _escaped(character: re.Match[str]) -> str:
    """As Flink escapes it: two halves, upper case."""
    digits = character[0].encode("utf-16-be").hex().upper()
    return f"\\u{digits[:4]}\\u{digits[4:]}"


_NUMBER = re.compile(rb'"<([-+.0-9eE]+)>"')
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def _other_order(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Sorted by name, as many serializers do."""
    return _dumped(order, sort_keys=True)


def _blanks(rng: random.Random, order: dict[str, Any]) -> bytes:
    """As Python's `json.dumps` writes."""
    return _dumped(order, separators=(", ", ": "))


def _escapes(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Quotes, line breaks, and all but ASCII escaped."""
    changed = {**order, "customer": f'{order["customer"]} "VIP"\n', "product": f"{order['product']} é/ü"}
    return _dumped(changed, ensure_ascii=True)


def _extra_keys(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Fields that the schema doesn't have, plain and nested."""
    first = {"version": 3, "trace": f"{rng.getrandbits(64):016x}"}
    return _dumped({**first, **order, "meta": {"source": ["web", None], "retry": rng.random() < 0.1}})


def _missing_keys(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Nulls left out, and each of three fields in one message of five."""
    left_out = {name for name in ("weight", "tags", "paid") if rng.random() < 0.2}
    return _dumped({k: v for k, v in order.items() if v is not None and k not in left_out})


_Change = Callable[[random.Random, dict[str, Any]], bytes]
_CHANGES: dict[str, _Change] = {
    "other key order": _other_order,
    "blanks": _blanks,
    "escapes": _escapes,
    "extra keys": _extra_keys,
    "missing keys": _missing_keys,
}


def measure_variants(records: int, rounds: int) -> dict[str, Any]:
    """The kernel on changed messages: all of a kind, one in ten among plain ones, and all kinds mixed."""
    plain = [bytes(message) for _, chunk in chunks(records) for message in chunk.to_pylist()]
    rng = random.Random(SEED)
    parsed = [_parsed(message) for message in plain]
    if [_dumped(order) for order in parsed] != plain:
        raise AssertionError("taken apart and put together again, the plain messages are not the same")
    inputs = {"plain": plain}
    for name, change in _CHANGES.items():
        changed = [change(rng, order) for order in parsed]
        inputs[name] = changed
        inputs[f"{name}, 1 in 10"] = [c if rng.random() < 0.1 else p for c, p in zip(changed, plain, strict=True)]
    kinds: list[_Change] = list(_CHANGES.values())
    inputs["all kinds mixed"] = [rng.choice(kinds)(rng, order) for order in parsed]
    tasks = {name: _kernel(_batches(pa.array(messages, pa.binary()))) for name, messages in inputs.items()}
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("variants, kernel on one thread, records per CPU-second", speeds, "plain"))
    return _document(speeds, [(name, "plain") for name in tasks if name != "plain"], records)


# --- the run -------------------------------------------------------------------------------------------


def _document(speeds: dict[str, Speed], pairs: list[tuple[str, str]], records: int) -> dict[str, Any]:
    """A part as it is stored, with the run it comes from, because a file may hold parts of several runs."""
    return {
        "per_cpu_second": {name: speed.stored() for name, speed in speeds.items()},
        "ratios": ratios(speeds, pairs),
        "records": records,
        "environment": environment("kvformat", "pyspark", "pyarrow", "numpy", "orjson"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between")
    parser.add_argument("--no-store", action="store_true", help="print the figures, leave the stored ones alone")
    arguments = parser.parse_args()
    parts = set(arguments.only.split(","))
    if unknown := parts - set(PARTS):
        parser.error(f"unknown parts {sorted(unknown)}; there are {', '.join(PARTS)}")

    pa.set_cpu_count(1)
    records, rounds = arguments.records, arguments.rounds
    figures: dict[str, Any] = {}
    if "kernel" in parts:
        figures["kernel"] = measure_kernel(min(records, 500_000), rounds)
    if "variants" in parts:
        figures["variants"] = measure_variants(min(records, 200_000), rounds)
    if parts & {"decode", "encode"}:
        figures |= measure_spark(records, rounds, parts)
    if not arguments.no_store:
        print(f"\nstored in {store('json_orders', {'schema': SCHEMA, **figures})}")


if __name__ == "__main__":
    main()
