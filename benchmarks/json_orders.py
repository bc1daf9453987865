"""How fast is json? Nine-field orders of some 220 bytes, against what a user would pick instead.

    scripts/benchmark json_orders [--records 2000000] [--rounds 3] [--only decode,encode,kernel,variants]

In Spark, per CPU second of driver, JVM and Python workers together, cached input, noop sink: `decode` against
`from_json` with the same types, `encode` against `to_json`. Without Spark, one thread: the decode kernel against
`orjson.loads` + `pa.array`, which leaves decimals as doubles and timestamps as text, and against itself on messages
that other producers write.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

import orjson
import pyarrow as pa
from _measure import rates, store

from kvformat.codecs import get_format
from kvformat.registry.types import resolve_schema, result_arrow_type, row_type, spark_schema

SCHEMA = (
    "order_id BIGINT, customer STRING, note STRING, price DOUBLE, amount DECIMAL(10, 2), created TIMESTAMP(3), "
    "paid BOOLEAN, tags ARRAY<STRING>, ship ROW<city STRING, zip INT>"
)
DISTINCT = 100_000
BATCH = 10_000
FORMAT = get_format("json")
_NOTES = ["leave at the door", "ring twice", "call before delivery", "Straße 5, 3. Stock", "gift wrap, please", None]
_CITIES = ["Berlin", "Paris", "New York", "São Paulo", "Zürich", "Warsaw"]


def order(rng: random.Random, number: int) -> dict[str, Any]:
    """A plausible order; few are alike."""
    cents = rng.choice([rng.randrange(100, 10**6)] * 19 + [rng.randrange(1, 100) * 10_000])
    return {
        "order_id": 10_000_000_000 + number,
        "customer": f"customer-{rng.randrange(50_000):06d}",
        "note": rng.choice(_NOTES),
        "price": round(rng.random() * 1000, 4),
        "amount": f"{cents // 100}.{cents % 100:02d}",
        "created": f"2024-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d} {rng.randrange(24):02d}:"
        f"{rng.randrange(60):02d}:{rng.randrange(60):02d}.{rng.randrange(1, 1000):03d}".rstrip("0").rstrip("."),
        "paid": rng.random() < 0.7,
        "tags": [rng.choice(["new", "express", "fragile", "b2b"]) for _ in range(rng.randrange(4))],
        "ship": {"city": rng.choice(_CITIES), "zip": rng.randrange(10_000, 99_999)},
    }


def as_text(value: dict[str, Any], **how: Any) -> bytes:
    """The order as JSON, its amount as a number."""
    text = json.dumps(value, ensure_ascii=False, **({"separators": (",", ":")} | how))
    return text.replace(f'"{value["amount"]}"', value["amount"]).encode() if value.get("amount") else text.encode()


def variants(orders: list[dict[str, Any]]) -> dict[str, list[bytes]]:
    """The same orders as other producers write them."""
    rng = random.Random(5)

    def shuffled(value: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        keys = list(value)
        rng.shuffle(keys)
        return {key: value[key] for key in keys}

    def escaped(value: dict[str, Any]) -> dict[str, Any]:
        return value | {"note": 'say "hello"\nand \\ go'} if rng.random() < 0.1 else value

    orders_of_keys = [random.Random(n) for n in range(3)]
    kinds: dict[str, Callable[[dict[str, Any]], bytes]] = {
        "plain": as_text,
        "another key order": lambda o: as_text(shuffled(o, random.Random(1))),
        "three key orders mixed": lambda o: as_text(shuffled(o, random.Random(rng.randrange(len(orders_of_keys))))),
        "a random key order each": lambda o: as_text(shuffled(o, rng)),
        "blanks after : and ,": lambda o: as_text(o, separators=(", ", ": ")),
        "pretty printed": lambda o: as_text(o, indent=2, separators=(",", ": ")),
        "escapes in 10 % of the notes": lambda o: as_text(escaped(o)),
        "non-ASCII as \\u escapes": lambda o: json.dumps(o).encode(),
        "two extra keys": lambda o: as_text({"version": 3, **o, "source": "web"}),
        "a nested extra key": lambda o: as_text(o | {"extra": {"a": [1, 2], "b": {"c": "}"}}}),
        "10 % of the keys missing": lambda o: as_text({k: v for k, v in o.items() if rng.random() < 0.9}),
        "1 % broken": lambda o: as_text(o)[: None if rng.random() < 0.99 else -9],
    }
    return {name: [make(value) for value in orders] for name, make in kinds.items()}


def kernel(orders: list[dict[str, Any]], rounds: int) -> dict[str, Any]:
    """The kernels alone, one thread, by batches of 10,000."""
    pa.set_cpu_count(1)
    schema = resolve_schema(SCHEMA)
    typed = result_arrow_type(row_type(schema))
    loose = {"amount": pa.float64(), "created": pa.string()}
    loosely = pa.struct([pa.field(field.name, loose.get(field.name, field.type)) for field in typed])
    batches = {name: pa.array(texts[:BATCH]) for name, texts in variants(orders[:BATCH]).items()}
    rows = FORMAT.decode_batch(batches["plain"], schema).rows.values

    def by_orjson() -> pa.Array:
        return pa.array([orjson.loads(message) for message in batches["plain"].to_pylist()], loosely)

    def best(job: Callable[[], object]) -> float:
        return BATCH / min(_cpu(job) for _ in range(max(5 * rounds, 5)))

    found = {name: best(lambda batch=batch: FORMAT.decode_batch(batch, schema)) for name, batch in batches.items()}
    orjson_rate = best(by_orjson)
    dumps = best(lambda: [orjson.dumps(row, default=str) for row in rows.to_pylist()])
    return {
        "records_per_cpu_second": {"decode_batch": found["plain"], "orjson.loads + pa.array": orjson_rate},
        "ratio": found["plain"] / orjson_rate,
        "encode": {"encode_batch": best(lambda: FORMAT.encode_batch(rows, schema)), "orjson.dumps + to_pylist": dumps},
        "cost_of_other_messages": {name: found["plain"] / rate for name, rate in found.items()},
    }


def _cpu(job: Callable[[], object]) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def in_spark(orders: list[dict[str, Any]], records: int, rounds: int, only: set[str]) -> dict[str, Any]:
    """Columns against Spark's own functions."""
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "8g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    copies = max(records // len(orders), 1)
    texts = spark.createDataFrame(pa.table({"value": pa.array([as_text(o) for o in orders])}))
    messages = texts.crossJoin(spark.range(copies)).select("value").repartition(4).cache()
    count = messages.count()
    struct = spark_schema(row_type(resolve_schema(SCHEMA)))
    like_flink = {"timestampNTZFormat": "yyyy-MM-dd HH:mm:ss[.SSS]"}

    def noop(frame: DataFrame) -> Callable[[], object]:
        return lambda: frame.write.format("noop").mode("overwrite").save()

    results: dict[str, Any] = {"records": count}
    if "decode" in only:
        from pyspark.sql.functions import arrow_udf

        def same(messages: pa.Array) -> pa.Array:
            return messages

        by_spark = F.from_json(F.col("value").cast("string"), struct, {**like_flink, "mode": "FAILFAST"})
        jobs = {
            "identity arrow_udf": noop(messages.select(arrow_udf(same, "binary")("value"))),
            "decode": noop(messages.select(FORMAT.decode("value", struct).alias("o"))),
            "from_json": noop(messages.select(by_spark.alias("o"))),
        }
        results["decode"] = measured = rates(jobs, count, rounds)
        results["decode_ratio"] = measured["decode"]["median"] / measured["from_json"]["median"]
    if "encode" in only:
        rows = messages.select(FORMAT.decode("value", struct).alias("o")).cache()
        rows.count()
        by_spark = F.to_json("o", {**like_flink, "ignoreNullFields": "false"})
        wrong = rows.limit(20_000).select(
            FORMAT.encode("o", struct).alias("native"), FORMAT.encode("o", struct, engine="arrow").alias("arrow")
        )
        assert wrong.where("NOT native <=> arrow").count() == 0, "the two engines differ"
        jobs = {
            "encode": noop(rows.select(FORMAT.encode("o", struct))),
            "encode, engine='arrow'": noop(rows.select(FORMAT.encode("o", struct, engine="arrow"))),
            "to_json": noop(rows.select(by_spark)),
        }
        results["encode"] = measured = rates(jobs, count, rounds)
        results["encode_ratio"] = measured["encode"]["median"] / measured["to_json"]["median"]
    spark.stop()
    return results


def main() -> None:
    """Measure what was asked for, print and store it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="decode,encode,kernel")
    arguments = parser.parse_args()
    only = set(arguments.only.split(","))
    rng = random.Random(42)
    orders = [order(rng, number) for number in range(min(DISTINCT, arguments.records))]
    size = sum(len(as_text(o)) for o in orders) / len(orders)
    results: dict[str, Any] = {"schema": SCHEMA, "bytes_per_message": round(size, 1)}
    if "kernel" in only:
        results["kernel"] = kernel(orders, arguments.rounds)
        print(json.dumps(results["kernel"], indent=1))
    if only & {"decode", "encode"}:
        results |= in_spark(orders, arguments.records, arguments.rounds, only)
    print(json.dumps({key: value for key, value in results.items() if key.endswith("ratio")}, indent=1))
    if only == {"decode", "encode", "kernel"}:
        store("json_orders", results)


if __name__ == "__main__":
    main()
