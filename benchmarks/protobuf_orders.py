"""`protobuf` with orders of nine optional fields and about 60 bytes, compared with google's `protobuf` and Spark.

    scripts/benchmark protobuf_orders --only kernel,nested,spark
    scripts/benchmark protobuf_orders --records 300000 --only kernel

The parts, each with its figures in `results/protobuf_orders.json`:

    kernel     one thread, no Spark: decoding and encoding, compared with google's messages and `pa.array`
    nested     the part kernel for orders with a message, a list of messages and a map
    spark      Spark: `decode`, compared with an arrow_udf with google's messages, as a user would write it
    native     Spark: `decode` and `encode`, compared with `from_protobuf` and `to_protobuf`. This part needs the jar of
               spark-protobuf; set the environment variable SPARK_PROTOBUF_JAR to its path
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from _measure import Task, document, measure, run, table
from _orders import SEED
from _spark import cached_frame, discard_columns, expect_equal
from avro_orders import SCHEMA, chunks, nested_orders, pieces
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from kvformat.registry import Format, get_format
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.schemas import arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column

NESTED_SCHEMA = (
    "order_id BIGINT, customer ROW<name STRING, zip INT>, items ARRAY<ROW<sku STRING, quantity INT, price DOUBLE>>, "
    "attributes MAP<STRING, STRING>, ordered_at BIGINT"
)
_SCALARS = {"BIGINT": "INT64", "STRING": "STRING", "DOUBLE": "DOUBLE", "INT": "INT32", "BOOLEAN": "BOOL"}
_SCALARS["BYTES"] = "BYTES"


def _fields(columns: str) -> str:
    """Return the descriptors of optional fields with these names and types, as text."""
    made = ""
    for number, column in enumerate(columns.split(", "), 1):
        name, kind = column.split()
        made += f'field {{ name: "{name}" number: {number} label: LABEL_OPTIONAL type: TYPE_{_SCALARS[kind]} }} '
    return made


_OF_MESSAGES = (
    'field { name: "customer" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".Nested.Customer" }'
    'field { name: "items" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".Nested.Item" }'
    'field { name: "attributes" number: 4 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".Nested.AttributesEntry"'
    '}field { name: "ordered_at" number: 5 label: LABEL_OPTIONAL type: TYPE_INT64 }'
)
_FILES = f"""file {{ name: "orders.proto"
    message_type {{ name: "Order" {_fields(SCHEMA)} }}
    message_type {{ name: "Nested" {_fields("order_id BIGINT")} {_OF_MESSAGES}
        nested_type {{ name: "Customer" {_fields("name STRING, zip INT")} }}
        nested_type {{ name: "Item" {_fields("sku STRING, quantity INT, price DOUBLE")} }}
        nested_type {{ name: "AttributesEntry" options {{ map_entry: true }} {_fields("key STRING, value STRING")} }}
    }} }}
"""
TYPES = text_format.Parse(_FILES, descriptor_pb2.FileDescriptorSet())


def _class(name: str) -> Any:
    """Return google's class of a message."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(TYPES.file[0])
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@contextmanager
def order_format(name: str) -> Iterator[Format]:
    """Yield the format of messages of a type in `TYPES`, whose descriptors are in a file until the block ends."""
    with tempfile.NamedTemporaryFile(suffix=".desc") as file:
        file.write(TYPES.SerializeToString())
        file.flush()
        yield get_format("protobuf", {"message-class-name": name, "descriptor-file": file.name})


# --- the kernel alone ----------------------------------------------------------------------------------


def measure_kernel(records: int, rounds: int) -> dict[str, Any]:
    """Measure orders with nine fields."""
    records = min(records, 200_000)
    return _against_google("Order", SCHEMA, list(chunks(records)), _flat_columns, records, rounds, "kernel")


def measure_nested(records: int, rounds: int) -> dict[str, Any]:
    """Measure orders with a message, a list of messages and a map."""
    records = min(records, 100_000)
    rows = [nested_orders(records, np.random.default_rng(SEED))]
    return _against_google("Nested", NESTED_SCHEMA, rows, _nested_columns, records, rounds, "nested")


def _flat_columns(messages: list[Any]) -> dict[str, list[Any]]:
    names = [column.split()[0] for column in SCHEMA.split(", ")]
    return {n: [getattr(m, n) if m.HasField(n) else None for m in messages] for n in names}


def _nested_columns(messages: list[Any]) -> dict[str, list[Any]]:
    return {
        "order_id": [m.order_id if m.HasField("order_id") else None for m in messages],
        "customer": [_of(m.customer, ("name", "zip")) if m.HasField("customer") else None for m in messages],
        "items": [[_of(item, ("sku", "quantity", "price")) for item in m.items] or None for m in messages],
        "attributes": [list(m.attributes.items()) or None for m in messages],
        "ordered_at": [m.ordered_at if m.HasField("ordered_at") else None for m in messages],
    }


def _of(message: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(message, name) if message.HasField(name) else None for name in names}


def _against_google(
    name: str,
    schema: str,
    rows: list[pa.StructArray],
    columns: Callable[[list[Any]], dict[str, list[Any]]],
    records: int,
    rounds: int,
    part: str,
) -> dict[str, Any]:
    with order_format(name) as format:
        batches = [piece for chunk in rows for piece in pieces(chunk)]
        messages = [format.encode_batch(batch, schema).messages for batch in batches]
        kind, of = format.decode_batch(messages[0], schema).rows.values.type, _class(name)
        lists = [batch.to_pylist() for batch in messages]
        values = [[_as_given(row) for row in batch.to_pylist()] for batch in batches]

        def by_google(some: list[bytes]) -> pa.StructArray:
            found = columns([of.FromString(message) for message in some])
            arrays = [pa.array(found[field.name], field.type) for field in kind]
            return pa.StructArray.from_arrays(arrays, fields=list(kind))

        for batch, some in zip(messages, lists, strict=True):
            ours, theirs = format.decode_batch(batch, schema).rows.values, by_google(some)
            if list(map(_as_given, ours.to_pylist())) != list(map(_as_given, theirs.to_pylist())):
                raise AssertionError("google's protobuf and kvformat read different rows")
        tasks: dict[str, Task] = {
            "google + pa.array, decode": lambda: [by_google(some) for some in lists],
            "protobuf, decode": lambda: [format.decode_batch(batch, schema) for batch in messages],
            "google from dicts, encode": lambda: [[of(**row).SerializeToString() for row in b] for b in values],
            "protobuf, encode": lambda: [format.encode_batch(batch, schema) for batch in batches],
        }
        speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table(f"{part}, one thread, records per CPU-second", speeds, "google + pa.array, decode"))
    pairs = [
        ("protobuf, decode", "google + pa.array, decode"),
        ("protobuf, encode", "google from dicts, encode"),
    ]
    return document(speeds, pairs, records)


def _as_given(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row for google's classes: without NULLs, and with maps as dicts."""
    given = {name: value for name, value in row.items() if value is not None}
    if "attributes" in given:
        given["attributes"] = dict(given["attributes"])
    if "items" in given:
        given["items"] = [_as_given(item) for item in given["items"]]
    if "customer" in given:
        given["customer"] = _as_given(given["customer"])
    return given


# --- in Spark ------------------------------------------------------------------------------------------


def measure_spark(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode` in Spark. This part does not need spark-protobuf's jar."""
    with order_format("Order") as format, cached_frame(_tables(format, records)) as frame:
        ours, theirs = format.decode("value", SCHEMA), _by_hand("value")
        expect_equal(frame, ours, theirs)
        tasks = {"google arrow_udf": discard_columns(frame, theirs), "protobuf, decode": discard_columns(frame, ours)}
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("decode in Spark, records per CPU-second", speeds, "google arrow_udf"))
    return document(speeds, [("protobuf, decode", "google arrow_udf")], records)


def _by_hand(column: str) -> Column:
    from pyspark.sql import functions as F

    types, names = TYPES.SerializeToString(), [column.split()[0] for column in SCHEMA.split(", ")]
    returned = spark_schema(parse_schema(SCHEMA))
    arrow = pa.struct(list(arrow_schema(parse_schema(SCHEMA))))
    kept: list[Any] = []

    def read(values: pa.Array) -> pa.Array:  # local: workers can't import it
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        if not kept:
            pool = descriptor_pool.DescriptorPool()
            pool.Add(descriptor_pb2.FileDescriptorSet.FromString(types).file[0])
            kept.append(message_factory.GetMessageClass(pool.FindMessageTypeByName("Order")))
        messages = [kept[0].FromString(value) for value in values.to_pylist()]
        columns = [
            pa.array([getattr(m, name) if m.HasField(name) else None for m in messages], arrow.field(name).type)
            for name in names
        ]
        return pa.StructArray.from_arrays(columns, fields=list(arrow))

    made: Column = F.arrow_udf(read, returned)(column)  # type: ignore[attr-defined]  # not in PySpark's stubs
    return made


def measure_native(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode` and `encode`, compared with Spark's own functions."""
    from pyspark.sql import functions as F
    from pyspark.sql.protobuf.functions import from_protobuf, to_protobuf

    jar = os.environ.get("SPARK_PROTOBUF_JAR")
    if not jar:
        raise SystemExit("the part 'native' needs spark-protobuf: set SPARK_PROTOBUF_JAR to the path of its jar")
    types = TYPES.SerializeToString()
    with order_format("Order") as format, cached_frame(_tables(format, records), {"spark.jars": jar}) as frame:
        row = F.struct(*(column.split()[0] for column in SCHEMA.split(", ")))
        columns = {
            "from_protobuf": from_protobuf("value", "Order", binaryDescriptorSet=types),
            "protobuf, decode": format.decode("value", SCHEMA),
            "to_protobuf": to_protobuf(row, "Order", binaryDescriptorSet=types),
            "protobuf, encode": format.encode(row, SCHEMA),
        }
        expect_equal(frame, columns["protobuf, decode"], columns["from_protobuf"])
        expect_equal(frame, columns["protobuf, encode"], columns["to_protobuf"])
        tasks = {name: discard_columns(frame, column) for name, column in columns.items()}
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("Spark's own, records per CPU-second", speeds, "from_protobuf"))
    return document(speeds, [("protobuf, decode", "from_protobuf"), ("protobuf, encode", "to_protobuf")], records)


def _tables(format: Format, records: int) -> Iterator[pa.Table]:
    for rows in chunks(records):
        messages = format.encode_batch(rows, SCHEMA).messages
        yield pa.Table.from_struct_array(rows).append_column("value", messages)


PARTS = {"kernel": measure_kernel, "nested": measure_nested, "spark": measure_spark, "native": measure_native}


if __name__ == "__main__":
    run("protobuf_orders", __doc__ or "", PARTS, {"schema": SCHEMA}, records=1_000_000)
