"""`debezium-json` with changes of orders, with rows of about 220 bytes, compared with `from_json` and orjson.

    scripts/benchmark debezium_orders
    scripts/benchmark debezium_orders --records 100000 --only kernel

The messages are like those of Debezium's MySQL connector, with decimals as plain numbers and times as text: 40 %
creations, 40 % updates, 20 % deletions. Six parts, each with its figures in `results/debezium_orders.json`. Parts
without Spark run on one thread, in batches of 5,000:

    decode        Spark: `decode_rows`, exploded to rows, and `KeyValueFormat.decode`, compared with `from_json` of the
                  envelope and explode; also both as if decoding took no time ("ready-made rows")
    kernel        no Spark: `decode_batch`, compared with `orjson.loads` + `pa.array` of the envelope
    encode        Spark: `encode`, compared with `to_json` of the envelope
    formats       no Spark: these changes as canal-json, maxwell-json and ogg-json, with and without metadata, each
                  compared with `orjson.loads` + `pa.array` of its envelope
    schema        no Spark: messages with the 3 KB of schema that a connector writes with `schemas.enable=true`
    schema-spark  Spark: messages with schema, `decode_rows` and `KeyValueFormat.decode`, compared with `from_json` of
                  the payload
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
from _change_messages import Changes, canal, changes_of, debezium, maxwell, ogg, with_schema
from _kernel import BATCH, ByOrjson, batches, decoding
from _measure import Task, document, measure, run, table
from _orders import ROW, SCHEMA
from _spark import (
    COMPARED,
    cached_frame,
    discard_columns,
    discard_rows,
    expect_equal,
    lengths,
    ready_made,
    ready_made_column,
)

from kvformat.registry import KeyValueFormat, explode_changes, get_format, recommended_settings
from kvformat.registry.contract.schemas import arrow_schema, spark_schema
from kvformat.registry.contract.types import arrow_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SCHEMA_INCLUDE = {"schema-include": "true"}
_TIMES = 4  # how often a job reads the cached messages with schemas


# --- Spark ---------------------------------------------------------------------------------------------


def measure_decode(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode_rows` and `KeyValueFormat.decode`, compared with Spark's own functions."""
    from pyspark.sql import functions as F

    with cached_frame(pa.table({"value": debezium(changes)}) for changes in changes_of(records)) as frame:
        for name, value in recommended_settings().items():
            frame.sparkSession.conf.set(name, value)
        decoded = get_format("debezium-json").decode_rows("value", SCHEMA)
        by_column, by_table = lengths(frame, "value")
        whole = KeyValueFormat(SCHEMA, {"format": "debezium-json"})

        def ours(frame: DataFrame) -> DataFrame:
            return frame.select(F.inline(decoded))

        made_table, made_lists = _ready_made(frame, whole.decode(frame), decoded)
        few = frame.limit(COMPARED).cache()
        if not ours(few).exceptAll(_by_hand(few)).isEmpty():
            raise AssertionError("kvformat and from_json read different rows")
        tasks = {
            "Column of lengths": discard_rows(by_column),
            "table of lengths": discard_rows(by_table),
            "ready-made rows, inline": discard_rows(made_lists),
            "ready-made rows, table": discard_rows(made_table),
            "from_json + explode": discard_rows(_by_hand(frame)),
            "kvformat decode_rows + inline": discard_rows(ours(frame)),
            "kvformat decode_rows + explode_changes": discard_rows(explode_changes(frame, decoded)),
            "KeyValueFormat.decode": discard_rows(whole.decode(frame)),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    by_hand = "from_json + explode"
    print(table("decode in Spark, messages per CPU-second", speeds, by_hand))
    return document(speeds, [(name, by_hand) for name in tasks if name != by_hand], records)


def _ready_made(frame: DataFrame, whole: DataFrame, decoded: Column) -> tuple[DataFrame, DataFrame]:
    """Return DataFrames with the cost of `KeyValueFormat.decode` and of `decode_rows` with inline, without decoding.

    The messages go to Python as usual, but the rows that come back were decoded before, from other messages.
    """
    from pyspark.sql import functions as F

    sample = pa.concat_arrays([debezium(changes) for changes in changes_of(BATCH)])
    batch = get_format("debezium-json").decode_batch(sample, SCHEMA)
    rows = pa.RecordBatch.from_arrays([*batch.rows.values.flatten(), batch.row_kinds], whole.columns)
    kinds = [batch.row_kinds, *batch.rows.values.flatten()]
    structs = pa.StructArray.from_arrays(kinds, ["row_kind", *whole.columns[:-1]])
    lists = pa.ListArray.from_arrays(batch.rows.offsets, structs)
    lists_type = frame.select(decoded).schema.fields[0].dataType
    inlined = frame.select(F.inline(ready_made_column("value", lists, lists_type)))
    return ready_made(frame, "value", rows, len(sample), whole.schema), inlined


def _by_hand(frame: DataFrame, with_schema: bool = False) -> DataFrame:
    """Decode with Spark's functions: `from_json` with both rows, then an array of kind and row, exploded."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    row = spark_schema(ROW)
    members = [T.StructField("before", row), T.StructField("after", row), T.StructField("op", T.StringType())]
    text, payload = F.col("value").cast("string"), T.StructType(members)
    envelope = F.from_json(text, payload)
    if with_schema:
        envelope = F.from_json(text, T.StructType([T.StructField("payload", payload)]))["payload"]

    def change(kind: str, member: str) -> Column:
        return F.struct(F.lit(kind).alias("row_kind"), F.col(f"e.{member}").alias("row"))

    changes = (
        F.when(F.col("e.op") == "u", F.array(change("-U", "before"), change("+U", "after")))
        .when(F.col("e.op").isin("c", "r"), F.array(change("+I", "after")))
        .when(F.col("e.op") == "d", F.array(change("-D", "before")))
    )
    exploded = frame.select(envelope.alias("e")).select(F.explode(changes).alias("change"))
    return exploded.select("change.row_kind", "change.row.*")


def measure_schema_in_spark(records: int, rounds: int) -> dict[str, Any]:
    """Measure decoding messages with schemas, with the recommended settings."""
    from pyspark.sql import functions as F

    records = min(records, 200_000)
    held = records // _TIMES
    tables = (pa.table({"value": with_schema(changes)}) for changes in changes_of(held))
    with cached_frame(tables, times=_TIMES) as frame:
        for name, value in recommended_settings().items():
            frame.sparkSession.conf.set(name, value)
        decoded = get_format("debezium-json", _SCHEMA_INCLUDE).decode_rows("value", SCHEMA)
        options = {"format": "debezium-json", **{f"debezium-json.{k}": v for k, v in _SCHEMA_INCLUDE.items()}}
        whole = KeyValueFormat(SCHEMA, options).decode(frame)
        made_table, made_lists = _ready_made(frame, whole, decoded)
        few = frame.limit(COMPARED).cache()
        if not few.select(F.inline(decoded)).exceptAll(_by_hand(few, with_schema=True)).isEmpty():
            raise AssertionError("kvformat and from_json read different rows")
        tasks = {
            "ready-made rows, inline": discard_rows(made_lists),
            "ready-made rows, table": discard_rows(made_table),
            "from_json + explode": discard_rows(_by_hand(frame, with_schema=True)),
            "kvformat decode_rows + inline": discard_rows(frame.select(F.inline(decoded))),
            "KeyValueFormat.decode": discard_rows(whole),
        }
        speeds = measure(tasks, records=held * _TIMES, rounds=rounds)
    by_hand = "from_json + explode"
    print(table("decode with schemas in Spark, messages per CPU-second", speeds, by_hand))
    return document(speeds, [(name, by_hand) for name in tasks if name != by_hand], held * _TIMES)


def measure_encode(records: int, rounds: int) -> dict[str, Any]:
    """Measure `encode` of inserts and deletes, compared with `to_json` of the envelope."""
    from pyspark.sql import functions as F

    tables = (
        pa.table({"row": changes.after, "kind": changes.where("d", "-D", "+I").cast(pa.string())})
        for changes in changes_of(records)
    )
    with cached_frame(tables) as frame:
        fmt = get_format("debezium-json")
        by_arrow = fmt.encode("row", SCHEMA, row_kind="kind", engine="arrow")
        ours = fmt.encode("row", SCHEMA, row_kind="kind")
        expect_equal(frame, ours, by_arrow)
        is_insert = F.col("kind") == "+I"
        envelope = F.struct(
            F.when(~is_insert, F.col("row")).alias("before"),
            F.when(is_insert, F.col("row")).alias("after"),
            F.when(is_insert, F.lit("c")).otherwise(F.lit("d")).alias("op"),
        )
        tasks = {
            "to_json": discard_columns(frame, F.to_json(envelope, {"ignoreNullFields": "false"})),
            "kvformat encode": discard_columns(frame, ours),
            "kvformat encode, engine='arrow'": discard_columns(frame, by_arrow),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("encode in Spark, rows per CPU-second", speeds, "to_json"))
    return document(speeds, [("kvformat encode", "to_json"), ("kvformat encode, engine='arrow'", "to_json")], records)


# --- the kernel alone ----------------------------------------------------------------------------------


def measure_kernel(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode_batch`, which returns rows, compared with orjson, which only returns envelopes."""
    records = min(records, 300_000)
    inputs = [part for changes in changes_of(records) for part in batches(debezium(changes))]
    lists = [batch.to_pylist() for batch in inputs]
    loose, typed = "orjson + pa.array, floats and strings", "orjson + pa.array, cast to the types"
    by_orjson = ByOrjson(_ENVELOPES["debezium-json"])
    tasks: dict[str, Task] = {
        loose: lambda: [by_orjson.untyped(batch) for batch in lists],
        typed: lambda: [by_orjson.typed(batch) for batch in lists],
        "kvformat decode_batch": decoding("debezium-json", inputs, arrow_schema(ROW)),
    }
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("kernel, one thread, messages per CPU-second", speeds, typed))
    return document(speeds, [("kvformat decode_batch", other) for other in (loose, typed)], records)


def _envelope(kind: str, rows: pa.DataType, *members: str) -> pa.DataType:
    return pa.struct([*((member, rows) for member in members), (kind, pa.string())])


_ROW_TYPE = arrow_type(ROW)
_ENVELOPES = {
    "debezium-json": _envelope("op", _ROW_TYPE, "before", "after"),
    "canal-json": _envelope("type", pa.list_(_ROW_TYPE), "data", "old"),
    "maxwell-json": _envelope("type", _ROW_TYPE, "data", "old"),
    "ogg-json": _envelope("op_type", _ROW_TYPE, "before", "after"),
}
"""The members of each message that are needed to make rows with kinds."""


def measure_formats(records: int, rounds: int) -> dict[str, Any]:
    """Measure `decode_batch` of all four formats for the same changes, without metadata and with the usual metadata."""
    records = min(records, 200_000)
    makers: dict[str, Callable[[Changes], pa.BinaryArray]] = {
        "debezium-json": debezium,
        "canal-json": canal,
        "maxwell-json": maxwell,
        "ogg-json": ogg,
    }
    usual = {
        "debezium-json": ("source.table", "source.timestamp", "ingestion-timestamp"),
        "canal-json": ("table", "event-timestamp"),
        "maxwell-json": ("table", "ingestion-timestamp"),
        "ogg-json": ("table", "event-timestamp"),
    }
    schema = arrow_schema(ROW)
    tasks: dict[str, Task] = {}
    pairs = []
    for name, maker in makers.items():
        inputs = [part for changes in changes_of(records) for part in batches(maker(changes))]
        yardstick = f"orjson + pa.array, {name}"
        tasks[yardstick] = _by_orjson(ByOrjson(_ENVELOPES[name]), [batch.to_pylist() for batch in inputs])
        tasks[name] = decoding(name, inputs, schema)
        tasks[f"{name} with metadata"] = decoding(name, inputs, schema, metadata=usual[name])
        pairs += [(name, yardstick), (f"{name} with metadata", yardstick)]
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("formats, kernel on one thread, messages per CPU-second", speeds, "debezium-json"))
    return document(speeds, pairs, records)


def _by_orjson(by_orjson: ByOrjson, lists: list[list[bytes]]) -> Task:
    return lambda: [by_orjson.typed(batch) for batch in lists]


def measure_schema(records: int, rounds: int) -> dict[str, Any]:
    """Measure messages with schemas, which are four fifths of their size, compared with orjson without columns."""
    records = min(records, 50_000)
    changes = list(changes_of(records))
    inputs = [part for some in changes for part in batches(with_schema(some))]
    plain = [part for some in changes for part in batches(debezium(some))]
    lists = [batch.to_pylist() for batch in inputs]
    schema = arrow_schema(ROW)
    tasks: dict[str, Task] = {
        "orjson.loads alone": lambda: [collections.deque(map(orjson.loads, batch), maxlen=0) for batch in lists],
        "kvformat decode_batch": decoding("debezium-json", inputs, schema, options=_SCHEMA_INCLUDE),
        "the payload alone": decoding("debezium-json", plain, schema),
    }
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("messages with schemas, kernel on one thread, messages per CPU-second", speeds, "orjson.loads alone"))
    pairs = [("kvformat decode_batch", "orjson.loads alone"), ("kvformat decode_batch", "the payload alone")]
    return document(speeds, pairs, records)


PARTS = {
    "decode": measure_decode,
    "kernel": measure_kernel,
    "encode": measure_encode,
    "formats": measure_formats,
    "schema": measure_schema,
    "schema-spark": measure_schema_in_spark,
}

if __name__ == "__main__":
    run("debezium_orders", __doc__ or "", PARTS, {"schema": SCHEMA, "batch": BATCH}, records=500_000)
