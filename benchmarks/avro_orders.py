"""`avro` and `avro-confluent` with orders of nine nullable fields and about 60 bytes, compared with fastavro and Spark.

    scripts/benchmark avro_orders
    scripts/benchmark avro_orders --records 300000 --only kernel,nested

The parts, each with its figures in `results/avro_orders.json`:

    kernel     one thread, no Spark: decoding and encoding, compared with fastavro and `pa.array`
    nested     the part kernel for orders with a record, an array of records and a map
    evolved    decoding messages written with other schemas: more fields, another order, smaller types
    confluent  `decode_batch` and `encode_batch` of `avro-confluent`, compared with `avro`; four writers' schemas; three
               types of records in one topic, with a column or a table for each
    decode     Spark: `decode` (Arrow) of both formats, compared with an arrow_udf with fastavro
    encode     Spark: `encode` (Arrow) of both formats, compared with an arrow_udf with fastavro
    native     Spark: `decode` and `encode` with `engine="auto"`, compared with `from_avro` and `to_avro` by hand. Also
               for orders without text, because "auto" decodes only these with `from_avro`. This part needs the jar of
               spark-avro; set the environment variable SPARK_AVRO_JAR to its path
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _measure import Task, document, measure, run, table
from _orders import BATCH, CHUNK, SEED
from _spark import cached_frame, discard_columns, expect_equal

from kvformat.codecs.avro.batches import encode
from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.read import read_batch
from kvformat.codecs.avro.resolve import plan
from kvformat.codecs.avro.schema import Schema
from kvformat.registry import Format, get_format
from kvformat.registry.contract.ddl import parse_schema as parse_table
from kvformat.registry.contract.schemas import arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SCHEMA = (
    "order_id BIGINT, user_name STRING, region STRING, amount DOUBLE, quantity INT, ordered_at BIGINT, paid BOOLEAN, "
    "coupon STRING, price BYTES"
)
_TYPES = ("long", "string", "string", "double", "int", "long", "boolean", "string", "bytes")
_NAMES = tuple(column.split()[0] for column in SCHEMA.split(", "))
_REGIONS = ("cn-hangzhou", "eu-west-1", "us-east-2", "ap-southeast-1")
_SKUS = ("cable", "lamp", "notebook", "bottle", "shoes", "beans", "hat")
_KEYS = ("color", "size", "gift", "note")


def _record(fields: list[tuple[str, Any]], name: str = "record") -> dict[str, Any]:
    shown = [{"name": n, "type": t, **({"default": None} if isinstance(t, list) else {})} for n, t in fields]
    return {"type": "record", "name": name, "namespace": "org.apache.flink.avro.generated", "fields": shown}


FLAT = _record([(name, ["null", kind]) for name, kind in zip(_NAMES, _TYPES, strict=True)])
TEXTLESS = _record([(f["name"], f["type"]) for f in FLAT["fields"] if "string" not in f["type"]])
_TEXTLESS_SCHEMA = ", ".join(column for column in SCHEMA.split(", ") if "STRING" not in column)
_ITEM = _record([("sku", ["null", "string"]), ("quantity", ["null", "int"]), ("price", ["null", "double"])], "item")
_CUSTOMER = _record([("name", ["null", "string"]), ("zip", ["null", "int"])], "customer")
NESTED = _record(
    [
        ("order_id", "long"),
        ("customer", ["null", _CUSTOMER]),
        ("items", {"type": "array", "items": _ITEM}),
        ("attributes", {"type": "map", "values": "string"}),
        ("ordered_at", ["null", "long"]),
    ]
)


# --- orders --------------------------------------------------------------------------------------------


def chunks(records: int) -> Iterator[pa.StructArray]:
    """Yield the given number of orders with nine fields, in arrays of at most `CHUNK`."""
    for number, start in enumerate(range(0, records, CHUNK)):
        yield _orders(min(CHUNK, records - start), np.random.default_rng(SEED + number))


def _orders(count: int, rng: np.random.Generator) -> pa.StructArray:
    coupons = _joined(rng, count, ("SAVE", "GIFT"), "", 100)
    columns = [
        pa.array(rng.integers(10**9, 2 * 10**9, count)),
        _joined(rng, count, ("user",), "-", 1_000_000),
        _nulls(rng, _choice(rng, count, _REGIONS), 0.02),
        _nulls(rng, pa.array(rng.random(count) * 1000), 0.02),
        _nulls(rng, pa.array(rng.integers(1, 200, count), pa.int32()), 0.02),
        pa.array(rng.integers(1_577_934_245_000, 1_578_934_245_000, count)),
        pa.array(rng.random(count) < 0.5),
        _nulls(rng, coupons, 0.7),
        pa.array([int(n).to_bytes(3, "big") for n in rng.integers(0, 10**6, count)], pa.binary()),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(arrow_schema(parse_table(SCHEMA))))


def nested_orders(count: int, rng: np.random.Generator) -> pa.StructArray:
    """Return orders with one to four items and up to three attributes. One in ten has no customer."""
    items = np.concatenate([[0], np.cumsum(rng.integers(1, 5, count))])
    attributes = np.concatenate([[0], np.cumsum(rng.integers(0, 4, count))])
    total = int(items[-1])
    item = pa.StructArray.from_arrays(
        [
            _joined(rng, total, _SKUS, "-", 10_000),
            _nulls(rng, pa.array(rng.integers(1, 100, total), pa.int32()), 0.02),
            pa.array(rng.random(total) * 100),
        ],
        ["sku", "quantity", "price"],
    )
    customer = pa.StructArray.from_arrays(
        [
            _joined(rng, count, ("customer",), "-", 10_000),
            _nulls(rng, pa.array(rng.integers(0, 10**5, count), pa.int32()), 0.1),
        ],
        ["name", "zip"],
        mask=pa.array(rng.random(count) < 0.1),
    )
    within = np.arange(int(attributes[-1])) - np.repeat(attributes[:-1], np.diff(attributes))
    keys = pa.array(_KEYS).take(pa.array(within))
    values = pa.array(rng.integers(0, 100, int(attributes[-1]))).cast(pa.string())
    columns = [
        pa.array(rng.integers(10**9, 2 * 10**9, count)),
        customer,
        pa.ListArray.from_arrays(pa.array(items, pa.int32()), item),
        pa.MapArray.from_arrays(pa.array(attributes, pa.int32()), keys, values),
        _nulls(rng, pa.array(rng.integers(1_577_934_245_000, 1_578_934_245_000, count)), 0.02),
    ]
    fields = list(_kernel_schema(NESTED).arrow_type)
    return pa.StructArray.from_arrays([c.cast(f.type) for c, f in zip(columns, fields, strict=True)], fields=fields)


def _nulls(rng: np.random.Generator, values: pa.Array, share: float) -> pa.Array:
    return pc.if_else(pa.array(rng.random(len(values)) < share), pa.scalar(None, values.type), values)


def _choice(rng: np.random.Generator, count: int, words: tuple[str, ...]) -> pa.Array:
    return pa.array(words).take(pa.array(rng.integers(0, len(words), count)))


def _joined(rng: np.random.Generator, count: int, words: tuple[str, ...], between: str, numbers: int) -> pa.Array:
    ends = pa.array(rng.integers(0, numbers, count)).cast(pa.string())
    return pc.binary_join_element_wise(_choice(rng, count, words), ends, between)


def _kernel_schema(node: dict[str, Any]) -> Schema:
    return parse_schema(json.dumps(node))


def pieces(array: pa.Array) -> list[pa.Array]:
    return [pa.concat_arrays([array[i : i + BATCH]]) for i in range(0, len(array), BATCH)]


# --- the kernel alone ----------------------------------------------------------------------------------


def measure_kernel(records: int, rounds: int) -> dict[str, Any]:
    """Measure orders with nine fields."""
    records = min(records, 200_000)
    return _against_fastavro(FLAT, list(chunks(records)), records, rounds, "kernel")


def measure_nested(records: int, rounds: int) -> dict[str, Any]:
    """Measure orders with a record, an array of records and a map."""
    records = min(records, 100_000)
    return _against_fastavro(NESTED, [nested_orders(records, np.random.default_rng(SEED))], records, rounds, "nested")


def _against_fastavro(
    node: dict[str, Any], rows: list[pa.StructArray], records: int, rounds: int, part: str
) -> dict[str, Any]:
    schema, parsed = _kernel_schema(node), fastavro.parse_schema(node)
    batches = [piece for chunk in rows for piece in pieces(chunk)]
    messages = [encode(batch, schema).messages for batch in batches]
    lists = [[bytes(m) for m in batch.to_pylist()] for batch in messages]
    values = [[_as_dicts(row) for row in batch.to_pylist()] for batch in batches]
    if any([_written(parsed, row) for row in some] != batch for some, batch in zip(values, lists, strict=True)):
        raise AssertionError("fastavro and kvformat write different bytes")
    kind = schema.arrow_type
    tasks: dict[str, Task] = {
        "fastavro + pa.array, decode": lambda: [pa.array([_pairs(_read(parsed, m)) for m in b], kind) for b in lists],
        "kvformat, decode": _decoding(messages, schema, schema),
        "fastavro from dicts, encode": lambda: [[_written(parsed, row) for row in batch] for batch in values],
        "kvformat, encode": lambda: [encode(batch, schema) for batch in batches],
    }
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table(f"{part}, one thread, records per CPU-second", speeds, "fastavro + pa.array, decode"))
    pairs = [
        ("kvformat, decode", "fastavro + pa.array, decode"),
        ("kvformat, encode", "fastavro from dicts, encode"),
    ]
    return document(speeds, pairs, records)


def _read(schema: Any, message: bytes) -> dict[str, Any]:
    value = fastavro.schemaless_reader(io.BytesIO(message), schema)
    assert isinstance(value, dict)
    return value


def _written(schema: Any, row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


def _pairs(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row's map to a list of pairs, for Arrow."""
    return {**row, "attributes": list(row["attributes"].items())} if "attributes" in row else row


def _as_dicts(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row's map to a dict, for fastavro."""
    return {**row, "attributes": dict(row["attributes"])} if "attributes" in row else row


_SMALLER = {"order_id": "int", "amount": "float", "ordered_at": "long", "quantity": "int"}


def _writers() -> dict[str, dict[str, Any]]:
    """Return schemas of writers by their difference from the table's schema. The table's schema reads all of them."""
    fields = [(f["name"], f["type"]) for f in FLAT["fields"]]
    more = [
        ("trace", "string"),
        *fields[:4],
        ("shard", ["null", "int"]),
        *fields[4:],
        ("tags", {"type": "array", "items": "string"}),
    ]
    return {
        "same": FLAT,
        "other order": _record([*fields[5:], *fields[:5]]),
        "fields more": _record(more),
        "smaller types": _record([(n, ["null", _SMALLER.get(n, t[1])]) for n, t in fields]),
        "fields fewer, not null": _record([(n, t if n == "coupon" else t[1]) for n, t in fields[:8]]),
    }


def _written_as(node: dict[str, Any], count: int) -> pa.BinaryArray:
    """Return messages in a writer's schema. Their orders have nulls only in `coupon`."""
    rows = _orders(count, np.random.default_rng(SEED))
    known = {name: rows.field(i) for i, name in enumerate(_NAMES)}
    known["trace"] = pc.binary_join_element_wise("trace", known["user_name"], "-")
    known["shard"] = pa.array(np.arange(count) % 7, pa.int32())
    offsets = pa.array(np.arange(count + 1) // 2, pa.int32())
    known["tags"] = pa.ListArray.from_arrays(offsets, known["user_name"][: count // 2])
    schema = _kernel_schema(node)
    columns = []
    for field in schema.arrow_type:
        column = known[field.name]
        if column.null_count and field.name != "coupon":
            column = column.fill_null(0 if not pa.types.is_string(column.type) else "")
        columns.append(column.cast(field.type, safe=False))
    return encode(pa.StructArray.from_arrays(columns, fields=list(schema.arrow_type)), schema).messages


def _decoding(batches: list[pa.BinaryArray], writer: Schema, reader: Schema) -> Task:
    return lambda: [read_batch(batch, [plan(writer, reader)], reader) for batch in batches]


def measure_evolved(records: int, rounds: int) -> dict[str, Any]:
    """Measure decoding messages of other writers' schemas."""
    records = min(records, 200_000)
    reader = _kernel_schema(FLAT)
    tasks: dict[str, Task] = {}
    for name, node in _writers().items():
        writer, batches = _kernel_schema(node), pieces(_written_as(node, records))
        tasks[name] = _decoding(batches, writer, reader)
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("writers' schemas, one thread, records per CPU-second", speeds, "same"))
    return document(speeds, [(name, "same") for name in tasks if name != "same"], records)


# --- the formats without Spark -------------------------------------------------------------------------


@contextmanager
def _registry() -> Iterator[str]:
    """Yield the URL of a schema registry in a folder. It has all writers' schemas, with the ids from 1 on."""
    with tempfile.TemporaryDirectory() as folder:
        for schema_id, node in enumerate([*_writers().values(), *_RECORDS.values()], 1):
            Path(folder, f"{schema_id}.avsc").write_text(json.dumps(node))
        yield f"file:{folder}"


def _confluent(url: str, **options: str) -> Format:
    return get_format("avro-confluent", {"url": url, "subject": "orders-value", **options})


def _framed(messages: pa.BinaryArray, schema_id: int) -> pa.BinaryArray:
    return pc.binary_join_element_wise(pa.scalar(b"\0" + schema_id.to_bytes(4, "big")), messages, b"")


_RECORDS = {
    f"com.shop.{name}": {**FLAT, "name": name, "namespace": "com.shop"} for name in ("Order", "Refund", "Offer")
}
"""Types of records that a topic has together."""


def measure_confluent(records: int, rounds: int) -> dict[str, Any]:
    """Measure the cost of framing, of the registry, and of several schemas in one batch."""
    records = min(records, 200_000)
    schema = arrow_schema(parse_table(SCHEMA))
    rows = pieces(_orders(records, np.random.default_rng(SEED)))
    nodes = list(_writers().values())[:4]
    plain = pieces(_written_as(FLAT, records))
    of_writers = [pieces(_framed(_written_as(node, records), i)) for i, node in enumerate(nodes, 1)]
    mixed = [_interleaved(batches) for batches in zip(*of_writers, strict=True)]
    first = len(_writers()) + 1  # the id of the first of `_RECORDS`
    of_types = [pieces(_framed(_written_as(node, records), i)) for i, node in enumerate(_RECORDS.values(), first)]
    types = [_interleaved(batches) for batches in zip(*of_types, strict=True)]
    columns = ", ".join(f"c{number} ROW<{SCHEMA}>" for number in range(len(_RECORDS)))
    named = ",".join(f"c{number}:{name}" for number, name in enumerate(_RECORDS))
    with _registry() as url:
        avro, confluent = get_format("avro"), _confluent(url)
        tasks: dict[str, Task] = {
            "avro, decode_batch": lambda: [avro.decode_batch(batch, schema) for batch in plain],
            "avro-confluent, decode_batch": lambda: [confluent.decode_batch(batch, schema) for batch in of_writers[0]],
            "avro-confluent, four schemas": lambda: [confluent.decode_batch(batch, schema) for batch in mixed],
            "avro-confluent, three types in columns": _decoding_with(
                [(_confluent(url, **{"record-columns": named}), arrow_schema(parse_table(columns)))], types
            ),
            "avro-confluent, three types in tables": _decoding_with(
                [(_confluent(url, **{"record-name": name, "other-messages": "skip"}), schema) for name in _RECORDS],
                types,
            ),
            "avro, encode_batch": lambda: [avro.encode_batch(batch, schema) for batch in rows],
            "avro-confluent, encode_batch": lambda: [confluent.encode_batch(batch, schema) for batch in rows],
        }
        speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("formats, one thread, records per CPU-second", speeds, "avro, decode_batch"))
    pairs = [
        ("avro-confluent, decode_batch", "avro, decode_batch"),
        ("avro-confluent, four schemas", "avro-confluent, decode_batch"),
        ("avro-confluent, three types in columns", "avro-confluent, decode_batch"),
        ("avro-confluent, three types in tables", "avro-confluent, decode_batch"),
        ("avro-confluent, encode_batch", "avro, encode_batch"),
    ]
    return document(speeds, pairs, records)


def _decoding_with(tables: list[tuple[Format, pa.Schema]], batches: list[pa.BinaryArray]) -> Task:
    return lambda: [fmt.decode_batch(batch, schema) for batch in batches for fmt, schema in tables]


def _interleaved(batches: tuple[pa.BinaryArray, ...]) -> pa.BinaryArray:
    """Take the messages of the batches in turns: message i comes from batch i modulo their number."""
    count = len(batches[0])
    indices = np.arange(count) + count * (np.arange(count) % len(batches))
    return pa.concat_arrays(batches).take(pa.array(indices))


# --- in Spark ------------------------------------------------------------------------------------------


@cache
def _settings() -> Mapping[str, str]:
    jar = os.environ.get("SPARK_AVRO_JAR")
    return {"spark.jars": jar} if jar else {}


def _by_fastavro(*, reads: bool) -> Callable[[Column | str], Column]:
    """Return an arrow_udf with fastavro, as a user would write it."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType

    text, kind = json.dumps(FLAT), _kernel_schema(FLAT).arrow_type

    def read(messages: pa.Array) -> pa.Array:  # local, so that it is pickled with its code
        parsed = fastavro.parse_schema(json.loads(text))
        return pa.array([fastavro.schemaless_reader(io.BytesIO(m), parsed) for m in messages.to_pylist()], kind)

    def write(rows: pa.Array) -> pa.Array:
        parsed, messages = fastavro.parse_schema(json.loads(text)), []
        for row in rows.to_pylist():
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, row)
            messages.append(out.getvalue())
        return pa.array(messages, pa.binary())

    returned = spark_schema(parse_table(SCHEMA)) if reads else BinaryType()
    made: Callable[[Column | str], Column] = F.arrow_udf(read if reads else write, returned)  # type: ignore[attr-defined]
    return made


def _tables(records: int) -> Iterator[pa.Table]:
    """Yield messages of both formats, messages without text, and the columns of the orders."""
    schema, textless, head = _kernel_schema(FLAT), _kernel_schema(TEXTLESS), pa.scalar(b"\0\0\0\0\x01")
    for rows in chunks(records):
        messages = encode(rows, schema).messages
        framed = pc.binary_join_element_wise(head, messages, b"")
        columns = pa.Table.from_struct_array(rows)
        short = columns.select([field.name for field in textless.arrow_type]).to_struct_array().combine_chunks()
        of_rows = {"value": messages, "framed": framed, "textless": encode(short, textless).messages}
        for name, column in of_rows.items():
            columns = columns.append_column(name, column)
        yield columns


def measure_decode(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode` with Arrow."""
    with _registry() as url, cached_frame(_tables(records), _settings()) as frame:
        avro = get_format("avro").decode("value", SCHEMA, engine="arrow")
        confluent = _confluent(url).decode("framed", SCHEMA, engine="arrow")
        theirs = _by_fastavro(reads=True)("value")
        expect_equal(frame, avro, theirs)
        expect_equal(frame, confluent, theirs)
        tasks = {
            "fastavro arrow_udf": discard_columns(frame, theirs),
            "avro": discard_columns(frame, avro),
            "avro-confluent": discard_columns(frame, confluent),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("decode in Spark, records per CPU-second", speeds, "fastavro arrow_udf"))
    return document(speeds, [("avro", "fastavro arrow_udf"), ("avro-confluent", "avro")], records)


def measure_encode(records: int, rounds: int) -> dict[str, Any]:
    """Measure `encode` with Arrow."""
    from pyspark.sql import functions as F

    with _registry() as url, cached_frame(_tables(records), _settings()) as frame:
        row = F.struct(*_NAMES)
        avro = get_format("avro").encode(row, SCHEMA, engine="arrow")
        confluent = _confluent(url).encode(row, SCHEMA, engine="arrow")
        theirs = _by_fastavro(reads=False)(row)
        expect_equal(frame, avro, theirs)
        tasks = {
            "fastavro arrow_udf": discard_columns(frame, theirs),
            "avro": discard_columns(frame, avro),
            "avro-confluent": discard_columns(frame, confluent),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("encode in Spark, records per CPU-second", speeds, "fastavro arrow_udf"))
    return document(speeds, [("avro", "fastavro arrow_udf"), ("avro-confluent", "avro")], records)


def measure_native(records: int, rounds: int) -> dict[str, Any]:
    """Measure `engine="auto"` with spark-avro on the class path."""
    if not _settings():
        raise SystemExit("the part 'native' needs spark-avro: set SPARK_AVRO_JAR to the path of its jar")
    with _registry() as url, cached_frame(_tables(records), _settings()) as frame:
        tasks: dict[str, Task] = {}
        pairs: list[tuple[str, str]] = []
        for what, message, node, schema in (
            ("nine fields", "value", FLAT, SCHEMA),
            ("without text", "textless", TEXTLESS, _TEXTLESS_SCHEMA),
        ):
            of_orders, compared = _native_tasks(frame, what, message, node, schema, url)
            tasks |= of_orders
            pairs += compared
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("native, records per CPU-second", speeds, "from_avro, nine fields"))
    return document(speeds, pairs, records)


def _native_tasks(
    frame: DataFrame, what: str, message: str, node: dict[str, Any], schema: str, url: str
) -> tuple[dict[str, Task], list[tuple[str, str]]]:
    """Return the tasks for one kind of orders (Spark's functions, "auto" and "arrow"), and the pairs to compare."""
    from pyspark.sql import functions as F

    row, text = F.struct(*(field["name"] for field in node["fields"])), F.lit(json.dumps(node))
    failfast = F.create_map(F.lit("mode"), F.lit("FAILFAST"))
    avro = get_format("avro")
    columns = {
        "from_avro": F.call_function("from_avro", F.col(message), text, failfast),
        "auto, decode": avro.decode(message, schema),
        "arrow, decode": avro.decode(message, schema, engine="arrow"),
        "to_avro": F.call_function("to_avro", row, text),
        "auto, encode": avro.encode(row, schema),
        "arrow, encode": avro.encode(row, schema, engine="arrow"),
        "auto, avro-confluent, encode": _confluent(url).encode(row, schema),
    }
    expect_equal(frame, columns["auto, decode"], columns["from_avro"])
    expect_equal(frame, columns["auto, encode"], columns["to_avro"])
    pairs = [
        ("auto, decode", "from_avro"),
        ("auto, decode", "arrow, decode"),
        ("auto, encode", "to_avro"),
        ("auto, encode", "arrow, encode"),
        ("auto, avro-confluent, encode", "to_avro"),
    ]
    tasks = {f"{name}, {what}": discard_columns(frame, column) for name, column in columns.items()}
    return tasks, [(f"{a}, {what}", f"{b}, {what}") for a, b in pairs]


PARTS = {
    "kernel": measure_kernel,
    "nested": measure_nested,
    "evolved": measure_evolved,
    "confluent": measure_confluent,
    "decode": measure_decode,
    "encode": measure_encode,
    "native": measure_native,
}


if __name__ == "__main__":
    run("avro_orders", __doc__ or "", PARTS, {"schema": SCHEMA}, records=1_000_000)
