r"""`csv` with flat orders of nine fields and about 100 bytes, compared with Spark and Python's `csv.reader`.

    scripts/benchmark csv_orders
    scripts/benchmark csv_orders --records 300000 --only kernel,variants

Five parts, each with its figures in `results/csv_orders.json`:

    decode          Spark: `decode`, compared with `from_csv` with the same types and with an identity arrow_udf; also
                    as if decoding took no time ("ready-made rows")
    encode          Spark: `encode`, compared with `to_csv`
    kernel          one thread, no Spark: `decode_batch`, compared with `csv.reader` + `pa.array`. Also for orders with
                    quotes in quotes, escapes, blanks, and an array
    variants        `decode_batch` of these orders with other quotes, escapes, blanks, line ends, empty fields, and
                    malformed messages
    variants-spark  Spark: `decode` of some variants, compared with `from_csv`
"""

from __future__ import annotations

import csv
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from _measure import Task, document, grid, grid_table, measure, run, table
from _orders import BATCH, SEED, chunks
from _spark import cached_frame, discard_columns, expect_equal, identity, ready_made, ready_made_column

from kvformat.registry import KeyValueFormat, get_format
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.schemas import arrow_schema, spark_schema
from kvformat.registry.contract.types import FlinkType, arrow_type

SCHEMA = (
    "order_id BIGINT, customer STRING, product STRING, weight DOUBLE, price DECIMAL(10, 2), ordered_at TIMESTAMP(3), "
    "paid BOOLEAN, city STRING, floor INT"
)
ROW = parse_schema(SCHEMA)
WITH_TAGS = f"{SCHEMA}, tags ARRAY<STRING>"
OPTIONS = {"null-literal": ""}  # as in Spark's own functions


def flat_orders(records: int) -> Iterator[pa.StructArray]:
    """Yield the orders without tags, and with only the city and floor of the address."""
    for rows in chunks(records):
        order_id, customer, product, weight, price, ordered_at, paid, _, address = rows.flatten()
        city, _, floor = address.flatten()
        columns = [order_id, customer, product, weight, price, ordered_at, paid, city, floor]
        yield pa.StructArray.from_arrays(columns, fields=list(arrow_schema(ROW)))


def messages_of(records: int) -> Iterator[pa.BinaryArray]:
    """Yield the orders as Flink writes them."""
    fmt = get_format("csv", OPTIONS)
    for rows in flat_orders(records):
        yield fmt.encode_batch(rows, SCHEMA).messages


# --- in Spark ------------------------------------------------------------------------------------------


def measure_decode(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode`, compared with `from_csv`."""
    from pyspark.sql import functions as F

    with cached_frame(pa.table({"value": messages}) for messages in messages_of(records)) as frame:
        ours = get_format("csv", OPTIONS).decode("value", SCHEMA)
        table_options = {"format": "csv"} | {f"csv.{name}": value for name, value in OPTIONS.items()}
        whole = KeyValueFormat(SCHEMA, table_options).decode(frame)
        theirs = F.from_csv(F.col("value").cast("string"), spark_schema(ROW).toDDL())
        expect_equal(frame, ours, theirs)
        sample = pa.concat_arrays(list(flat_orders(2 * BATCH)))  # as many as Spark sends to Python at once
        made = ready_made_column("value", sample, frame.select(ours).schema.fields[0].dataType)
        rows = pa.RecordBatch.from_struct_array(sample)
        tasks = {
            "identity arrow_udf": discard_columns(frame, identity("value")),
            "from_csv": discard_columns(frame, theirs),
            "kvformat decode": discard_columns(frame, ours),
            "KeyValueFormat.decode": discard_columns(whole, "*"),
            "ready-made rows": discard_columns(frame, made),
            "ready-made rows, table": discard_columns(ready_made(frame, "value", rows, len(rows), whole.schema), "*"),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("decode in Spark, records per CPU-second", speeds, "from_csv"))
    ours_by_name = ("kvformat decode", "KeyValueFormat.decode", "ready-made rows", "ready-made rows, table")
    pairs = [(name, "from_csv") for name in ours_by_name] + [("kvformat decode", "identity arrow_udf")]
    return document(speeds, pairs, records)


def measure_encode(records: int, rounds: int) -> dict[str, Any]:
    """Measure `encode`, compared with `to_csv`.

    `to_csv` quotes differently, so the native encoder is checked against the bytes of the Arrow encoder.
    """
    from pyspark.sql import functions as F

    with cached_frame(pa.Table.from_struct_array(rows) for rows in flat_orders(records)) as frame:
        fmt, row = get_format("csv", OPTIONS), F.struct(*frame.columns)
        ours, by_arrow = fmt.encode(row, SCHEMA), fmt.encode(row, SCHEMA, engine="arrow")
        expect_equal(frame, ours, by_arrow)
        tasks = {
            "to_csv": discard_columns(frame, F.to_csv(row)),
            "kvformat encode": discard_columns(frame, ours),
            "kvformat encode, engine='arrow'": discard_columns(frame, by_arrow),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("encode in Spark, records per CPU-second", speeds, "to_csv"))
    pairs = [("kvformat encode", "to_csv"), ("kvformat encode, engine='arrow'", "to_csv")]
    return document(speeds, pairs, records)


# --- the kernel alone ----------------------------------------------------------------------------------


def measure_kernel(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode_batch`, compared with Python's csv module with the same types."""
    records = min(records, 200_000)
    plain = [message.decode() for chunk in messages_of(records) for message in chunk.to_pylist()]
    orders, rng = list(csv.reader(plain)), random.Random(SEED)
    theirs, ours = "csv.reader + pa.array", "kvformat decode_batch"
    tasks: dict[str, Task] = {}
    for name in ("", *_DIALECTS):
        texts = [_CHANGES[name](rng, order) for order in orders] if name else plain
        of = f", {name}" if name else ""
        tasks |= _kernel_tasks(f"{theirs}{of}", f"{ours}{of}", texts, SCHEMA, name)
    tasks |= _kernel_tasks(f"{theirs}, array", f"{ours}, array", _with_tags(records), WITH_TAGS, "")
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("kernel, one thread, records per CPU-second", speeds, theirs))
    return document(speeds, [(name, name.replace(ours, theirs)) for name in tasks if name.startswith(ours)], records)


def _kernel_tasks(theirs: str, ours: str, texts: list[str], schema: str, dialect: str) -> dict[str, Task]:
    options = OPTIONS | _VARIANT_OPTIONS.get(dialect, {})
    fmt, row = get_format("csv", options), parse_schema(schema)
    lines = [texts[i : i + BATCH] for i in range(0, len(texts), BATCH)]
    messages = [pa.array([text.encode() for text in some], pa.binary()) for some in lines]
    read = _by_csv_reader(row, _DIALECTS.get(dialect, {}), strip=dialect == "blanks")
    for batch, some in zip(messages, lines, strict=True):
        if not fmt.decode_batch(batch, schema).rows.values.equals(read(some)):
            raise AssertionError(f"csv.reader and kvformat read different rows of {ours}")
    return {theirs: lambda: [read(some) for some in lines], ours: _kernel(messages, options, schema)}


def _with_tags(records: int) -> list[str]:
    """Return the orders with their tags, an array of up to three texts."""
    fmt, fields = get_format("csv", OPTIONS), list(arrow_schema(parse_schema(WITH_TAGS)))
    found: list[str] = []
    for rows, whole in zip(flat_orders(records), chunks(records), strict=True):
        tagged = pa.StructArray.from_arrays([*rows.flatten(), whole.field("tags")], fields=fields)
        found += [message.decode() for message in fmt.encode_batch(tagged, WITH_TAGS).messages.to_pylist()]
    return found


def _batches(messages: pa.BinaryArray) -> list[pa.BinaryArray]:
    return [pa.concat_arrays([messages[i : i + BATCH]]) for i in range(0, len(messages), BATCH)]


def _kernel(batches: list[pa.BinaryArray], options: Mapping[str, str], columns: str = SCHEMA) -> Task:
    fmt, schema = get_format("csv", options), arrow_schema(parse_schema(columns))
    return lambda: [fmt.decode_batch(batch, schema) for batch in batches]


def _by_csv_reader(row: FlinkType, dialect: Mapping[str, Any], *, strip: bool) -> Callable[[list[str]], pa.StructArray]:
    fields = list(arrow_type(row))

    def column(texts: tuple[str, ...], kind: pa.DataType) -> pa.Array:
        if pa.types.is_list(kind):
            return pa.array([text.split(";") if text else [] for text in texts], kind)
        if strip:
            texts = tuple(text.strip() for text in texts)
        return pa.array([text or None for text in texts], pa.string()).cast(kind)

    def read(lines: list[str]) -> pa.StructArray:
        columns = zip(*csv.reader(lines, **dialect), strict=True)
        return pa.StructArray.from_arrays(
            [column(texts, field.type) for texts, field in zip(columns, fields, strict=True)], fields=fields
        )

    return read


# --- ordinary input that Flink does not write ----------------------------------------------------------

_NUMBERS = [field.type.root not in ("VARCHAR", "TIMESTAMP") for field in ROW.fields]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _all_quoted(rng: random.Random, order: list[str]) -> str:
    return ",".join(map(_quoted, order))


def _few_quotes(rng: random.Random, order: list[str]) -> str:
    """Quote only texts with a delimiter, as most libraries do."""
    return ",".join(_quoted(text) if "," in text else text for text in order)


def _inner_quotes(rng: random.Random, order: list[str]) -> str:
    order = [order[0], f'{order[1]} "VIP"', *order[2:]]
    return ",".join(text if number else _quoted(text) for text, number in zip(order, _NUMBERS, strict=True))


def _escapes(rng: random.Random, order: list[str]) -> str:
    order = [order[0], f'{order[1]}, \\"VIP\\"', *order[2:]]
    return ",".join(text if number else f'"{text}"' for text, number in zip(order, _NUMBERS, strict=True))


def _blanks(rng: random.Random, order: list[str]) -> str:
    """Add a blank after every comma and after every number."""
    return ", ".join(f"{text} " if number else _quoted(text) for text, number in zip(order, _NUMBERS, strict=True))


def _empty_fields(rng: random.Random, order: list[str]) -> str:
    return _few_quotes(rng, ["" if rng.random() < 0.3 else text for text in order])


def _line_ends(rng: random.Random, order: list[str]) -> str:
    return _few_quotes(rng, order) + "\r\n"


def _malformed(rng: random.Random, order: list[str]) -> str:
    """Break 1 message in 100: a number with a letter, a missing closing quote, or too many columns."""
    if rng.random() >= 0.01:
        return _few_quotes(rng, order)
    number, customer, *others = order
    broken = [
        [f"{number}x", customer, *others],
        [number, f'"{customer}', *others],
        [number, customer, *others, *others],
    ]
    return ",".join(rng.choice(broken))


_Change = Callable[[random.Random, list[str]], str]
_CHANGES: dict[str, _Change] = {
    "all quoted": _all_quoted,
    "few quotes": _few_quotes,
    "quotes in quotes": _inner_quotes,
    "escapes": _escapes,
    "blanks": _blanks,
    "empty fields": _empty_fields,
    "line ends": _line_ends,
    "1 in 100 malformed": _malformed,
}
_VARIANT_OPTIONS = {"escapes": {"escape-character": "\\"}, "blanks": {"trim-spaces": "true"}}
_DIALECTS: dict[str, dict[str, Any]] = {
    "quotes in quotes": {},
    "escapes": {"escapechar": "\\", "doublequote": False},
    "blanks": {"skipinitialspace": True},
}
"""The options of `csv.reader` for some of the variants."""
_IN_SPARK: dict[str, dict[str, str]] = {
    "quotes in quotes": {"escape": '"'},
    "escapes": {},
    "blanks": {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"},
    "1 in 100 malformed": {},
}
"""The options of `from_csv` for some of the variants."""


def measure_variants(records: int, rounds: int) -> dict[str, Any]:
    """Measure changed messages: all of them changed in one way, one in ten changed, and changed in different ways."""
    records = min(records, 200_000)
    plain = [message.decode() for chunk in messages_of(records) for message in chunk.to_pylist()]
    orders, rng = list(csv.reader(plain)), random.Random(SEED)
    inputs = {"plain": (plain, OPTIONS)}
    for name, change in _CHANGES.items():
        options = OPTIONS | _VARIANT_OPTIONS.get(name, {})
        changed = [change(rng, order) for order in orders]
        inputs[name] = (changed, options)
        if change is not _malformed:
            mixed = [c if rng.random() < 0.1 else p for c, p in zip(changed, plain, strict=True)]
            inputs[f"{name}, 1 in 10"] = (mixed, options)
    kinds = [c for name, c in _CHANGES.items() if name not in _VARIANT_OPTIONS and c is not _malformed]
    inputs["all kinds mixed"] = ([rng.choice(kinds)(rng, order) for order in orders], OPTIONS)
    tasks = {
        name: _kernel(_batches(pa.array([text.encode() for text in texts], pa.binary())), options)
        for name, (texts, options) in inputs.items()
    }
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("variants, kernel on one thread, records per CPU-second", speeds, "plain"))
    return document(speeds, [(name, "plain") for name in tasks if name != "plain"], records)


def measure_variants_in_spark(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode` of some variants, compared with `from_csv`."""
    from pyspark.sql import functions as F

    records = min(records, 500_000)
    plain = [message.decode() for chunk in messages_of(records) for message in chunk.to_pylist()]
    orders, rng = list(csv.reader(plain)), random.Random(SEED)
    columns = {name: [_CHANGES[name](rng, order).encode() for order in orders] for name in _IN_SPARK}
    speeds = {}
    with cached_frame([pa.table({name: pa.array(texts, pa.binary()) for name, texts in columns.items()})]) as frame:
        for name, given in _IN_SPARK.items():
            print(f"\n{name}")
            fmt = get_format("csv", OPTIONS | _VARIANT_OPTIONS.get(name, {}))
            theirs = F.from_csv(F.col(name).cast("string"), spark_schema(ROW).toDDL(), given)
            malformed = name == "1 in 100 malformed"
            ours = fmt.decode(name, SCHEMA, errors="capture" if malformed else "raise")
            if not malformed:
                expect_equal(frame, ours, theirs)
            tasks = {"from_csv": discard_columns(frame, theirs), "kvformat decode": discard_columns(frame, ours)}
            speeds[name] = measure(tasks, records=records, rounds=rounds)

    def compared(row: str, column: str) -> tuple[str, str, str] | None:
        return None if column == "from_csv" else (row, "from_csv", "from_csv")

    found = grid("messages", speeds, compared, {name: {"records": records} for name in speeds})
    print(grid_table("variants in Spark, records per CPU-second", found))
    return found


PARTS = {
    "kernel": measure_kernel,
    "variants": measure_variants,
    "decode": measure_decode,
    "encode": measure_encode,
    "variants-spark": measure_variants_in_spark,
}


if __name__ == "__main__":
    run("csv_orders", __doc__, PARTS, {"schema": SCHEMA, "options": OPTIONS}, records=1_000_000)
