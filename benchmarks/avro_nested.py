"""`avro`, `avro-confluent` and `debezium-avro-confluent` with nested records, compared with fastavro and Spark.

    scripts/benchmark avro_nested
    scripts/benchmark avro_nested --only kernel --megabytes 2
    scripts/benchmark avro_nested --corpora FOLDER        your own messages, as for json_nested

The records are those of json_nested, and the orders of avro_orders, which have nine fields. They are read as JSON by
the schema of their table, and written as Avro. So a message has exactly the columns of its table. The parts, each with
its figures in `results/avro_nested.json`:

    kernel    one thread, no Spark, batches of 5,000: `decode_batch`, compared with `fastavro.schemaless_reader` +
              `pa.array`; and the same messages, of which 1 in 100, 1 in 10 or all are cut off
    ids       one thread, no Spark: `avro-confluent` with one schema id, with ten ids one after another, and with ten
              ids interleaved. The ten schemas have the same fields in different orders
    changes   one thread, no Spark: `debezium-avro-confluent` with changes of the orders, compared with fastavro and
              rows made by hand
    decode    Spark: `decode` of `avro-confluent`, compared with an arrow_udf with fastavro, and with a Python function
              that returns ready-made rows. With SPARK_AVRO_JAR, the path of spark-avro's jar, also with `from_avro`
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _kernel import BATCH, batches, decoding
from _measure import Speed, Task, document, grid, grid_table, measure, table
from _nested import run_nested
from _records import SEED, Kind
from _spark import cached_frame, discard_columns, expect_equal, ready_made_column, tables
from avro_orders import FLAT, chunks
from avro_orders import SCHEMA as FLAT_ORDERS

from kvformat.codecs.avro.batches import encode
from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.read import read_batch
from kvformat.codecs.avro.resolve import plan
from kvformat.codecs.avro.types import schema_text
from kvformat.registry import get_format, recommended_settings
from kvformat.registry.contract.ddl import parse_schema as parse_table
from kvformat.registry.contract.schemas import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MEGABYTES = {"kernel": 5.0, "ids": 5.0, "changes": 5.0, "decode": 10.0}
_TIMES = 4  # how often a job reads the cached messages
_IDS = 10
_CUT = {"1 in 100 cut off": 0.01, "1 in 10 cut off": 0.1, "all cut off": 1.0}
_FASTAVRO = "fastavro + pa.array"
_SHARES = {"c": 0.4, "u": 0.4, "d": 0.2}
"""The shares of creations, updates and deletions."""


def avro_kinds(kinds: Sequence[Kind]) -> tuple[Kind, ...]:
    """Convert JSON messages to Avro messages with the columns of their tables, and add the flat orders."""
    return (*map(_as_avro, kinds), _flat_orders())


def _as_avro(kind: Kind) -> Kind:
    schema = kind.schema.replace("TIMESTAMP_LTZ(0)", "TIMESTAMP(3)")  # Flink's Avro has no TIMESTAMP_LTZ by default
    fmt = get_format("json", kind.options)
    rows = fmt.decode_batch(pa.array(kind.pool, pa.binary()), kind.schema).rows.values
    columns = [column.cast(field.type) for column, field in zip(rows.flatten(), _row_type(schema), strict=True)]
    messages = get_format("avro").encode_batch(pa.StructArray.from_arrays(columns, fields=_row_type(schema)), schema)
    return Kind(kind.name, schema, tuple(messages.messages.to_pylist()))


def _flat_orders() -> Kind:
    messages = get_format("avro").encode_batch(next(chunks(20_000)), FLAT_ORDERS).messages
    return Kind("flat orders", FLAT_ORDERS, tuple(messages.to_pylist()))


def _row_type(schema: str) -> list[pa.Field]:
    return list(arrow_schema(parse_table(schema)))


def _schema_of(kind: Kind) -> str:
    """Return the Avro schema of the messages, as JSON."""
    return schema_text(parse_table(kind.schema), legacy=True)


def _facts(kind: Kind, records: int) -> dict[str, Any]:
    return {"bytes": round(kind.size), "records": records, "schema": kind.schema}


# --- the kernel alone ------------------------------------------------------------------------------------


def measure_kernel(kinds: Sequence[Kind], megabytes: float, _: int, rounds: int) -> dict[str, Any]:
    """Measure `decode_batch`, compared with fastavro, and the cost of messages that are cut off."""
    speeds: dict[str, dict[str, Speed]] = {}
    facts = {}
    for kind in kinds:
        messages = kind.draw(megabytes)
        print(f"\n{kind.name}")
        speeds[kind.name] = measure(
            _kernel_tasks(kind, messages), records=len(messages), rounds=rounds, clock=time.process_time
        )
        facts[kind.name] = _facts(kind, len(messages))

    def compared(row: str, column: str) -> tuple[str, str, str] | None:
        if column == "avro":
            return (row, _FASTAVRO, _FASTAVRO)
        return (row, "avro", "avro") if column in _CUT else None

    found = grid("messages", speeds, compared, facts)
    print(grid_table("kernel, one thread, records per CPU-second", found))
    return found


def _kernel_tasks(kind: Kind, messages: list[bytes]) -> dict[str, Task]:
    schema = arrow_schema(parse_table(kind.schema))
    whole, lists = batches(messages), [messages[i : i + BATCH] for i in range(0, len(messages), BATCH)]
    by_fastavro = _by_fastavro(_schema_of(kind), pa.struct(list(schema)))
    for batch, some in zip(whole, lists, strict=True):
        if not get_format("avro").decode_batch(batch, schema).rows.values.equals(by_fastavro(some)):
            raise AssertionError(f"fastavro and kvformat read different rows of {kind.name}")
    tasks: dict[str, Task] = {
        _FASTAVRO: lambda: [by_fastavro(some) for some in lists],
        "avro": decoding("avro", whole, schema),
    }
    rng = random.Random(SEED)
    for name, share in _CUT.items():
        some = [m[: rng.randrange(len(m))] if rng.random() < share else m for m in messages]
        tasks[name] = decoding("avro", batches(some), schema, with_errors=True)
    return tasks


def _by_fastavro(schema: str, kind: pa.DataType) -> Callable[[list[bytes]], pa.Array]:
    parsed = fastavro.parse_schema(json.loads(schema))

    def read(messages: list[bytes]) -> pa.Array:
        return pa.array([fastavro.schemaless_reader(io.BytesIO(m), parsed) for m in messages], kind)  # type: ignore[call-arg]

    return read


# --- several schema ids ----------------------------------------------------------------------------------


def measure_ids(kinds: Sequence[Kind], megabytes: float, _: int, rounds: int) -> dict[str, Any]:
    """Measure messages with several schema ids in a batch."""
    speeds: dict[str, dict[str, Speed]] = {}
    facts = {}
    for kind in kinds:
        messages = kind.draw(megabytes)
        print(f"\n{kind.name}")
        with _several_ids(kind, messages) as tasks:
            speeds[kind.name] = measure(tasks, records=len(messages), rounds=rounds, clock=time.process_time)
        facts[kind.name] = _facts(kind, len(messages))

    def compared(row: str, column: str) -> tuple[str, str, str] | None:
        return None if column == "one id" else (row, "one id", "one id")

    found = grid("messages", speeds, compared, facts)
    print(grid_table("avro-confluent, one thread, records per CPU-second", found))
    return found


@contextmanager
def _several_ids(kind: Kind, messages: list[bytes]) -> Iterator[dict[str, Task]]:
    """Yield the tasks. Schema number i has the fields of the table's schema from field i on, then those before it."""
    first = json.loads(_schema_of(kind))
    schemas = []
    for number in range(_IDS):
        at = number % len(first["fields"])
        fields = [*first["fields"][at:], *first["fields"][:at]]
        schemas.append({**first, "fields": fields, "doc": f"schema {number + 1}"})  # all differ by their docs
    schema = parse_schema(_schema_of(kind))
    rows = read_batch(pa.array(messages, pa.binary()), [plan(schema, schema)], schema).values
    with _registry(schemas) as url:
        written = [_written(rows, schema, number) for number, schema in enumerate(schemas, 1)]
        size = -(-len(messages) // _IDS)
        one_by_one = [written[i][i * size : (i + 1) * size] for i in range(_IDS)]
        interleaved = [written[i % _IDS][i] for i in range(len(messages))]
        inputs = {
            "one id": batches(pa.array(written[0], pa.binary())),
            "ten ids, one after another": [batch for part in one_by_one for batch in batches(part)],
            "ten ids, interleaved": batches(interleaved),
        }
        options = {"url": url}
        schema = arrow_schema(parse_table(kind.schema))
        yield {name: decoding("avro-confluent", some, schema, options=options) for name, some in inputs.items()}


def _written(rows: pa.StructArray, node: Mapping[str, Any], schema_id: int) -> list[bytes]:
    """Encode rows with a schema that has the same fields in another order. Returns messages with the schema's id."""
    schema = parse_schema(json.dumps(node))
    columns = [rows.field(field.name) for field in schema.arrow_type]
    ordered = pa.StructArray.from_arrays(columns, fields=list(schema.arrow_type))
    found: list[bytes] = encode(ordered, schema, prefix=b"\0" + schema_id.to_bytes(4, "big")).messages.to_pylist()
    return found


@contextmanager
def _registry(schemas: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the URL of a schema registry in a folder. The ids of the schemas start at 1."""
    with tempfile.TemporaryDirectory() as folder:
        for schema_id, node in enumerate(schemas, 1):
            Path(folder, f"{schema_id}.avsc").write_text(json.dumps(node), encoding="utf-8")
        yield f"file:{folder}"


# --- change data -----------------------------------------------------------------------------------------

_SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [
        *({"name": name, "type": "string"} for name in ("version", "connector", "name")),
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": ["null", "string"]},
        *({"name": name, "type": "string"} for name in ("db", "table")),
        {"name": "server_id", "type": "long"},
        {"name": "gtid", "type": ["null", "string"]},
        {"name": "file", "type": "string"},
        {"name": "pos", "type": "long"},
        {"name": "row", "type": "int"},
        {"name": "thread", "type": ["null", "long"]},
    ],
}
_ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.inventory.orders",
    "fields": [
        {"name": "before", "type": ["null", {**FLAT, "name": "Value"}]},
        {"name": "after", "type": ["null", f"{FLAT['namespace']}.Value"]},
        {"name": "source", "type": _SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ],
}


def _changes(count: int) -> list[bytes]:
    """Return changes of the orders as Debezium's MySQL connector writes them, with the schema id 1."""
    schema, rng = parse_schema(json.dumps(_ENVELOPE)), np.random.default_rng(SEED)
    found: list[bytes] = []
    for after in chunks(count):
        number = len(after)
        op = pa.array(rng.choice(list(_SHARES), number, p=list(_SHARES.values())))
        shuffled = pa.array(rng.permutation(number))
        old = [c.take(shuffled) if f.name in ("amount", "paid") else c for f, c in _columns(after)]
        before = pa.StructArray.from_arrays(old, fields=list(after.type))
        nothing = pa.scalar(None, after.type)
        texts = {"version": "2.7.3.Final", "connector": "mysql", "name": "shop", "db": "inventory", "table": "orders"}
        texts |= {"snapshot": "false", "gtid": None, "file": "mysql-bin.000003"}
        numbers = {"ts_ms": 1_700_000_000_000, "server_id": 223_344, "pos": 4000, "row": 0, "thread": 7}
        steps = pa.array(np.arange(number) * 37)
        source = [
            pc.add(steps, numbers[field.name])
            if field.name in ("ts_ms", "pos")
            else pa.repeat(pa.scalar((texts | numbers)[field.name], field.type), number)
            for field in schema.arrow_type.field("source").type
        ]
        columns = {
            "before": pc.if_else(pc.equal(op, "c"), nothing, before),
            "after": pc.if_else(pc.equal(op, "d"), nothing, after),
            "source": pa.StructArray.from_arrays(source, fields=list(schema.arrow_type.field("source").type)),
            "op": op,
            "ts_ms": pc.add(steps, 1_700_000_000_123),
        }
        envelopes = pa.StructArray.from_arrays(
            [columns[f.name].cast(f.type) for f in schema.arrow_type], fields=list(schema.arrow_type)
        )
        found += encode(envelopes, schema, prefix=b"\0\0\0\0\1").messages.to_pylist()
    return found


def _columns(rows: pa.StructArray) -> Iterator[tuple[pa.Field, pa.Array]]:
    return zip(rows.type, rows.flatten(), strict=True)


def measure_changes(kinds: Sequence[Kind], megabytes: float, _: int, rounds: int) -> dict[str, Any]:
    """Measure `debezium-avro-confluent`, compared with fastavro and rows made by hand."""
    known = _changes(20_000)
    messages = Kind("changes", FLAT_ORDERS, tuple(known)).draw(megabytes)
    schema = arrow_schema(parse_table(FLAT_ORDERS))
    inputs, lists = batches(messages), [messages[i : i + BATCH] for i in range(0, len(messages), BATCH)]
    by_hand = _rows_by_hand(pa.struct(list(schema)))
    ours, theirs = "debezium-avro-confluent", "fastavro + rows by hand"
    with _registry([_ENVELOPE]) as url:
        fmt = get_format("debezium-avro-confluent", {"url": url})
        for batch, some in zip(inputs, lists, strict=True):
            found = fmt.decode_batch(batch, schema)
            rows, kinds_of_rows = by_hand(some)
            if not found.rows.equals(rows.cast(found.rows.type)) or not found.row_kinds.equals(kinds_of_rows):  # type: ignore[union-attr]
                raise AssertionError("fastavro and kvformat read different changes")
        tasks: dict[str, Task] = {
            theirs: lambda: [by_hand(some) for some in lists],
            ours: decoding("debezium-avro-confluent", inputs, schema, options={"url": url}),
        }
        speeds = measure(tasks, records=len(messages), rounds=rounds, clock=time.process_time)
    print(table("changes, one thread, messages per CPU-second", speeds, theirs))
    return document(speeds, [(ours, theirs)], len(messages))


def _rows_by_hand(kind: pa.DataType) -> Callable[[list[bytes]], tuple[pa.ListArray, pa.StringArray]]:
    parsed = fastavro.parse_schema(_ENVELOPE)

    def read(messages: list[bytes]) -> tuple[pa.ListArray, pa.StringArray]:
        rows: list[list[Any]] = []
        kinds: list[str] = []
        for message in messages:
            change: Any = fastavro.schemaless_reader(io.BytesIO(message[5:]), parsed)  # type: ignore[call-arg]
            if change["op"] == "u":
                rows.append([change["before"], change["after"]])
                kinds += "-U", "+U"
            elif change["op"] == "d":
                rows.append([change["before"]])
                kinds.append("-D")
            else:
                rows.append([change["after"]])
                kinds.append("+I")
        return pa.array(rows, pa.list_(kind)), pa.array(kinds)

    return read


# --- in Spark --------------------------------------------------------------------------------------------


def measure_decode(kinds: Sequence[Kind], megabytes: float, _: int, rounds: int) -> dict[str, Any]:
    """Measure `decode` of `avro-confluent`, compared with fastavro and `from_avro`."""
    speeds, facts = {}, {}
    for kind in kinds:
        messages = [b"\0\0\0\0\1" + message for message in kind.draw(megabytes)]
        print(f"\n{kind.name}")
        with (
            _registry([json.loads(_schema_of(kind))]) as url,
            cached_frame(tables(messages), _settings(), times=_TIMES) as frame,
        ):
            for name, value in recommended_settings().items():
                frame.sparkSession.conf.set(name, value)
            tasks = _spark_tasks(kind, frame, url, messages)
            speeds[kind.name] = measure(tasks, records=_TIMES * len(messages), rounds=rounds)
        facts[kind.name] = _facts(kind, _TIMES * len(messages))

    def compared(row: str, column: str) -> tuple[str, str, str] | None:
        return None if column == "fastavro arrow_udf" else (row, "fastavro arrow_udf", "fastavro arrow_udf")

    found = grid("messages", speeds, compared, facts)
    found["settings"] = recommended_settings()
    print(grid_table("decode in Spark, records per CPU-second", found))
    return found


@functools.cache
def _settings() -> Mapping[str, str]:
    jar = os.environ.get("SPARK_AVRO_JAR")
    return {"spark.sql.session.timeZone": "UTC"} | ({"spark.jars": jar} if jar else {})


def _spark_tasks(kind: Kind, frame: DataFrame, url: str, messages: list[bytes]) -> dict[str, Task]:
    from pyspark.sql import functions as F

    fmt = get_format("avro-confluent", {"url": url})
    ours = fmt.decode("value", kind.schema)
    returned = frame.select(ours).schema.fields[0].dataType
    most = list(itertools.islice(itertools.cycle(messages), 2 * BATCH))  # as many as Spark sends to Python at once
    sample = fmt.decode_batch(pa.array(most, pa.binary()), kind.schema).rows.values
    theirs = {"fastavro arrow_udf": _udf(_schema_of(kind), pa.struct(_row_type(kind.schema)), returned)}
    if "spark.jars" in _settings():
        failfast = F.create_map(F.lit("mode"), F.lit("FAILFAST"))
        datum = F.expr("substring(value, 6)")
        theirs["from_avro"] = F.call_function("from_avro", datum, F.lit(_schema_of(kind)), failfast)
    for column in theirs.values():
        expect_equal(frame, _without_order(ours, returned), _without_order(column.cast(returned), returned))
    columns = {**theirs, "avro-confluent": ours, "ready-made rows": ready_made_column("value", sample, returned)}
    return {name: discard_columns(frame, column) for name, column in columns.items()}


def _without_order(row: Column, t: Any) -> Column:
    """Sort the entries of maps, because `from_avro` returns them in any order."""
    from pyspark.sql import functions as F

    columns = [(row[field.name], field.dataType.typeName() == "map") for field in t.fields]
    return F.struct(*(F.array_sort(F.map_entries(column)) if is_map else column for column, is_map in columns))


def _udf(schema: str, kind: pa.DataType, returned: Any) -> Column:
    """Return an arrow_udf with fastavro, as a user would write it."""
    from pyspark.sql import functions as F

    def read(messages: pa.Array) -> pa.Array:  # local, so that it is pickled with its code
        parsed = fastavro.parse_schema(json.loads(schema))
        return pa.array([fastavro.schemaless_reader(io.BytesIO(m[5:]), parsed) for m in messages.to_pylist()], kind)

    made: Column = F.arrow_udf(read, returned)("value")  # type: ignore[attr-defined]  # not in PySpark's stubs
    return made


PARTS = {"kernel": measure_kernel, "ids": measure_ids, "changes": measure_changes, "decode": measure_decode}


if __name__ == "__main__":
    run_nested("avro_nested", __doc__ or "", PARTS, _MEGABYTES, folder_megabytes=_MEGABYTES, changed=avro_kinds)
