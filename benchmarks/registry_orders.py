"""The cost of a schema registry: formats after Confluent's frame compared with the same formats without one.

    scripts/benchmark registry_orders
    scripts/benchmark registry_orders --records 300000 --only kernel

The messages are the orders of `avro_orders`. Two parts, each with its figures in `results/registry_orders.json`:

    kernel    one thread, no Spark: `decode_batch` of json-registry, proto-registry and avro-confluent, compared with
              json, protobuf and avro; and three types of records in one topic, with a column for each, compared with
              one type
    spark     Spark: `decode` of the same
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _measure import Speed, document, measure, run, table
from _spark import cached_frame, discard_columns
from avro_orders import SCHEMA, chunks, pieces
from protobuf_orders import order_format

from kvformat.registry import Format, get_format

REGISTRIES = {"json-registry": "json", "proto-registry": "protobuf", "avro-confluent": "avro"}
"""Formats with a registry, each with the one that it is compared with."""
TYPES = {"a": "com.shop.Order", "b": "com.shop.Refund", "c": "com.shop.Offer"}
"""Types of records by their columns."""
_COLUMNS = ", ".join(f"{name} ROW<{SCHEMA}>" for name in TYPES)


@contextmanager
def _formats() -> Iterator[tuple[dict[str, Format], dict[str, Format]]]:
    """Yield the formats of one type of records, and those of three types. Registries are folders."""
    with tempfile.TemporaryDirectory() as folder, order_format("Order") as protobuf:
        of_one: dict[str, Format] = {"json": get_format("json"), "protobuf": protobuf, "avro": get_format("avro")}
        of_three: dict[str, Format] = {}
        named = ",".join(f"{column}:{name}" for column, name in TYPES.items())
        for name in REGISTRIES:
            url = f"file:{folder}/{name}"
            for made in (name, f"{name}-types"):
                Path(folder, made).mkdir()
            of_one[name] = get_format(name, {"url": url, "subject": "orders-value"})
            strategy = {"subject-name-strategy": "record-name", "record-columns": named}
            of_three[name] = get_format(name, {"url": f"{url}-types", **strategy})
        yield of_one, of_three


def _of_one(formats: dict[str, Format], rows: pa.StructArray) -> dict[str, pa.BinaryArray]:
    """Return the messages of each format. Those of json-registry are those of json after a frame."""
    found = {name: fmt.encode_batch(rows, SCHEMA).messages for name, fmt in formats.items()}
    frame = found["json-registry"][0].as_py()[:5]
    return found | {"json-registry": pc.binary_join_element_wise(pa.scalar(frame), found["json"], b"")}


def _of_types(format: Format, rows: pa.StructArray) -> pa.BinaryArray:
    """Return messages of three types in turns."""
    which = np.arange(len(rows)) % len(TYPES)
    columns = [pa.StructArray.from_arrays(rows.flatten(), fields=list(rows.type), mask=pa.array(which != number))
               for number in range(len(TYPES))]  # fmt: skip
    return format.encode_batch(pa.StructArray.from_arrays(columns, list(TYPES)), _COLUMNS).messages


def measure_kernel(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode_batch`."""
    records = min(records, 200_000)
    with _formats() as (of_one, of_three):
        rows = [piece for chunk in chunks(records) for piece in pieces(chunk)]
        messages = [_of_one(of_one, some) for some in rows]
        plain = {name: [batch[name] for batch in messages] for name in of_one}
        mixed = {name: [_of_types(fmt, some) for some in rows] for name, fmt in of_three.items()}

        def decoding(fmt: Format, schema: str, batches: list[pa.BinaryArray]) -> None:
            for batch in batches:
                assert fmt.decode_batch(batch, schema).errors is None

        tasks = {name: (lambda n=name: decoding(of_one[n], SCHEMA, plain[n])) for name in of_one}
        for name in of_three:
            tasks[f"{name}, three types"] = lambda n=name: decoding(of_three[n], _COLUMNS, mixed[n])
        speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("decode_batch, one thread, records per CPU-second", speeds, "avro"))
    return _document(speeds, records)


def measure_spark(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode` with Arrow."""
    with _formats() as (of_one, of_three):

        def tables() -> Iterator[pa.Table]:
            for rows in chunks(records):
                found = _of_one(of_one, rows) | {
                    f"{name}, three types": _of_types(fmt, rows) for name, fmt in of_three.items()
                }
                yield pa.table(found)

        with cached_frame(tables()) as frame:
            columns = {name: fmt.decode(f"`{name}`", SCHEMA, engine="arrow") for name, fmt in of_one.items()}
            for name, fmt in of_three.items():
                kind = f"{name}, three types"
                columns[kind] = fmt.decode(f"`{kind}`", _COLUMNS, engine="arrow")
            tasks = {name: discard_columns(frame, column) for name, column in columns.items()}
            speeds = measure(tasks, records=records, rounds=rounds)
    print(table("decode in Spark, records per CPU-second", speeds, "avro"))
    return _document(speeds, records)


def _document(speeds: dict[str, Speed], records: int) -> dict[str, Any]:
    pairs = [*REGISTRIES.items(), *((f"{name}, three types", name) for name in REGISTRIES)]
    return document(speeds, pairs, records)


PARTS = {"kernel": measure_kernel, "spark": measure_spark}

if __name__ == "__main__":
    run("registry_orders", __doc__ or "", PARTS, {"schema": SCHEMA}, records=1_000_000)
