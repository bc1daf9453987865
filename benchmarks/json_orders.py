"""`json` with orders of nine fields and about 220 bytes, compared with Spark's own functions and with orjson.

    scripts/benchmark json_orders
    scripts/benchmark json_orders --records 300000 --only kernel,variants

Four parts, each with its figures in `results/json_orders.json`:

    decode    Spark: `decode`, compared with `from_json` with the same types and an arrow_udf that returns its input
    encode    Spark: `encode`, compared with `to_json`
    kernel    one thread, no Spark, batches of 5,000: `decode_batch`, compared with `orjson.loads` + `pa.array`
    variants  `decode_batch`, batches of 5,000, of these orders with other key orders, blanks, escapes, extra and
              missing keys, and more; also with some messages that can't be read
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from _kernel import BATCH, ByOrjson, batches, decoding
from _measure import document, measure, run, table
from _orders import ROW, SCHEMA, SEED, chunks
from _spark import cached_frame, discard_columns, expect_equal, identity

from kvformat.registry import get_format
from kvformat.registry.contract.schemas import arrow_schema, spark_schema
from kvformat.registry.contract.types import arrow_type


def messages_of(records: int) -> Iterator[pa.BinaryArray]:
    """Yield the orders as Flink writes them."""
    fmt = get_format("json")
    for rows in chunks(records):
        yield fmt.encode_batch(rows, SCHEMA).messages


# --- in Spark ------------------------------------------------------------------------------------------


def measure_decode(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode`, compared with `from_json`."""
    from pyspark.sql import functions as F

    with cached_frame(pa.table({"value": messages}) for messages in messages_of(records)) as frame:
        ours = get_format("json").decode("value", SCHEMA)
        theirs = F.from_json(F.col("value").cast("string"), spark_schema(ROW))
        expect_equal(frame, ours, theirs)
        tasks = {
            "identity arrow_udf": discard_columns(frame, identity("value")),
            "from_json": discard_columns(frame, theirs),
            "kvformat decode": discard_columns(frame, ours),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("decode in Spark, records per CPU-second", speeds, "from_json"))
    return document(speeds, [("kvformat decode", "from_json"), ("kvformat decode", "identity arrow_udf")], records)


def measure_encode(records: int, rounds: int) -> dict[str, Any]:
    """Measure `encode`, compared with `to_json`."""
    from pyspark.sql import functions as F

    with cached_frame(pa.Table.from_struct_array(rows) for rows in chunks(records)) as frame:
        fmt, row = get_format("json"), F.struct(*frame.columns)
        ours, by_arrow = fmt.encode(row, SCHEMA), fmt.encode(row, SCHEMA, engine="arrow")
        expect_equal(frame, ours, by_arrow)
        tasks = {
            "to_json": discard_columns(frame, F.to_json(row, {"ignoreNullFields": "false"})),
            "kvformat encode": discard_columns(frame, ours),
            "kvformat encode, engine='arrow'": discard_columns(frame, by_arrow),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("encode in Spark, records per CPU-second", speeds, "to_json"))
    pairs = [("kvformat encode", "to_json"), ("kvformat encode, engine='arrow'", "to_json")]
    return document(speeds, pairs, records)


# --- the kernel alone ----------------------------------------------------------------------------------


def measure_kernel(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode_batch`, compared with orjson with and without a cast to our types."""
    records = min(records, 500_000)
    messages = [part for chunk in messages_of(records) for part in batches(chunk)]
    lists = [batch.to_pylist() for batch in messages]
    by_orjson, typed = ByOrjson(arrow_type(ROW)), "orjson + pa.array, cast to the types"
    tasks = {
        "orjson + pa.array, floats and strings": lambda: [by_orjson.untyped(batch) for batch in lists],
        typed: lambda: [by_orjson.typed(batch) for batch in lists],
        "kvformat decode_batch": decoding("json", messages, arrow_schema(ROW)),
    }
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("kernel, one thread, records per CPU-second", speeds, typed))
    return document(
        speeds, [("kvformat decode_batch", other) for other in tasks if other != "kvformat decode_batch"], records
    )


# --- ordinary input that Flink does not write ----------------------------------------------------------
# A variant may differ from the plain messages only as its name says, so numbers keep their text. A library that reads
# and writes a number could change `100.0` to `1E+2`, which is slower to read.


def _parsed(message: bytes) -> dict[str, Any]:
    order: dict[str, Any] = json.loads(message, parse_float=lambda text: f"<{text}>")
    return order


def _dumped(order: dict[str, Any], **how: Any) -> bytes:
    text = json.dumps(order, **{"ensure_ascii": False, "separators": (",", ":"), **how})
    return _NUMBER.sub(rb"\1", _ASTRAL.sub(_escaped, text).encode())


def _escaped(character: re.Match[str]) -> str:
    """Escape a character as Flink does: as two surrogates in upper case."""
    digits = character[0].encode("utf-16-be").hex().upper()
    return f"\\u{digits[:4]}\\u{digits[4:]}"


_NUMBER = re.compile(rb'"<([-+.0-9eE]+)>"')
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def _other_order(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Sort the fields by name, as many serializers do."""
    return _dumped(order, sort_keys=True)


def _blanks(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Write the blanks that Python's `json.dumps` writes."""
    return _dumped(order, separators=(", ", ": "))


def _escapes(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Write escaped quotes and line breaks, and escape all characters except ASCII."""
    changed = {**order, "customer": f'{order["customer"]} "VIP"\n', "product": f"{order['product']} é/ü"}
    return _dumped(changed, ensure_ascii=True)


def _extra_keys(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Add plain and nested fields that the schema does not have."""
    first = {"version": 3, "trace": f"{rng.getrandbits(64):016x}"}
    return _dumped({**first, **order, "meta": {"source": ["web", None], "retry": rng.random() < 0.1}})


def _missing_keys(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Leave out nulls, and each of three fields in one of five messages."""
    left_out = {name for name in ("weight", "tags", "paid") if rng.random() < 0.2}
    return _dumped({k: v for k, v in order.items() if v is not None and k not in left_out})


def _random_order(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Write the fields of each message in a random order, as hash maps do."""
    names = rng.sample(list(order), len(order))
    return _dumped({name: order[name] for name in names})


def _escaped_letters(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Write a text of escaped letters that are not Latin."""
    return _dumped({**order, "product": "Чайник " * rng.randint(2, 8)}, ensure_ascii=True)


def _other_kinds(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Write integers as `5.0`, and booleans in quotes."""
    paid = None if order["paid"] is None else str(order["paid"]).lower()
    return _dumped({**order, "order_id": f"<{order['order_id']}.0>", "paid": paid})


def _objects_as_text(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Write an object for a STRING column."""
    return _dumped({**order, "product": {"name": order["product"], "size": rng.randrange(50)}})


def _of_ten_producers(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Write the message of one of ten programs, with its own field order, blanks, and missing or additional fields."""
    own = random.Random(rng.randrange(10))
    names = own.sample(list(order), len(order))
    if own.random() < 0.5:
        names = [name for name in names if order[name] is not None]
    changed = {name: order[name] for name in names} | {f"extra_{i}": i for i in range(own.randrange(4))}
    how = own.choice([{}, {"separators": (", ", ": ")}, {"ensure_ascii": True}, {"separators": None, "indent": 2}])
    return _dumped(changed, **how)


_Change = Callable[[random.Random, dict[str, Any]], bytes]
_CHANGES: dict[str, _Change] = {
    "other key order": _other_order,
    "blanks": _blanks,
    "escapes": _escapes,
    "extra keys": _extra_keys,
    "missing keys": _missing_keys,
}
_MORE_CHANGES: dict[str, _Change] = {
    "random key order": _random_order,
    "letters escaped": _escaped_letters,
    "numbers and booleans of other kinds": _other_kinds,
    "objects for a STRING": _objects_as_text,
    "ten producers": _of_ten_producers,
}


def _broken(rng: random.Random, order: dict[str, Any]) -> bytes:
    """Break a message: cut it off, change a type, write other bytes than UTF-8, or add a byte after the end."""
    message = _dumped(order)
    match rng.randrange(4):
        case 0:
            return message[: rng.randrange(1, len(message))]
        case 1:
            return _dumped({**order, rng.choice(("order_id", "weight", "address")): "none"})
        case 2:
            return _dumped({**order, "product": "Teekännchen"}).replace("ä".encode(), b"\xe4")
        case _:
            return message + b"}"


def measure_variants(records: int, rounds: int) -> dict[str, Any]:
    """Measure changed messages: all changed in one way, one in ten changed, different changes, broken messages."""
    records = min(records, 200_000)
    plain = [bytes(message) for chunk in messages_of(records) for message in chunk.to_pylist()]
    rng = random.Random(SEED)
    parsed = [_parsed(message) for message in plain]
    if [_dumped(order) for order in parsed] != plain:
        raise AssertionError("parsing and writing the plain messages changes them")
    inputs = {"plain": plain}
    for name, change in _CHANGES.items():
        changed = [change(rng, order) for order in parsed]
        inputs[name] = changed
        inputs[f"{name}, 1 in 10"] = [c if rng.random() < 0.1 else p for c, p in zip(changed, plain, strict=True)]
    kinds: list[_Change] = list(_CHANGES.values())
    inputs["all kinds mixed"] = [rng.choice(kinds)(rng, order) for order in parsed]
    for name, change in _MORE_CHANGES.items():
        inputs[name] = [change(rng, order) for order in parsed]
    broken = [_broken(rng, order) for order in parsed]
    for name, share in (("1 in 100", 0.01), ("1 in 10", 0.1)):
        inputs[f"broken, {name}"] = [b if rng.random() < share else p for b, p in zip(broken, plain, strict=True)]
    inputs["broken, all"] = broken
    schema = arrow_schema(ROW)
    tasks = {
        name: decoding("json", batches(messages), schema, with_errors=name.startswith("broken"))
        for name, messages in inputs.items()
    }
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("variants, kernel on one thread, records per CPU-second", speeds, "plain"))
    return document(speeds, [(name, "plain") for name in tasks if name != "plain"], records)


if __name__ == "__main__":
    run(
        "json_orders",
        __doc__,
        {
            "decode": measure_decode,
            "encode": measure_encode,
            "kernel": measure_kernel,
            "variants": measure_variants,
        },
        {"schema": SCHEMA, "batch": BATCH},
        records=1_000_000,
    )
