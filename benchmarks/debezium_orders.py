"""`debezium-json` on changes of orders, the rows about 220 bytes each, against Spark's and Python's usual ways.

    scripts/benchmark debezium_orders
    scripts/benchmark debezium_orders --records 100000 --only kernel

Messages as Debezium's MySQL connector writes them without schemas (decimals as plain numbers, times as text): 40 %
creations, 40 % updates, 20 % deletions. Four parts, each with its figures in `results/debezium_orders.json`:

    decode    Spark: `decode_rows`, made into rows, against `from_json` of the envelope and explode, written by hand
    kernel    one thread, no Spark: `decode_batch` against `orjson.loads` + `pa.array` of the envelope
    encode    Spark: `encode` against `to_json` of the envelope
    formats   one thread, no Spark: the same changes as canal-json, maxwell-json and ogg-json, and with metadata
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from _measure import Task, document, measure, run, table
from _orders import BATCH, ROW, SCHEMA, SEED, chunks
from _spark import COMPARED, cached_frame, expect_equal, identity, into_nothing

from kvformat.registry import KeyValueFormat, explode_changes, get_format
from kvformat.registry.types import arrow_schema, arrow_type, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TEXT = pa.large_string()
_SHARES = (("c", 0.4), ("u", 0.4), ("d", 0.2))
_CHANGED = ("weight", "paid", "ordered_at")
"""The columns that an update changes."""
_SOURCE = (
    ',"source":{"version":"2.7.3.Final","connector":"mysql","name":"shop","ts_ms":',
    ',"snapshot":"false","db":"inventory","sequence":null,"table":"orders","server_id":223344,"gtid":null,'
    '"file":"mysql-bin.000003","pos":',
    ',"row":0,"thread":7,"query":null}',
)


class _Changes:
    """A chunk of changes: texts of the rows before and after, and the operation of each."""

    def __init__(self, after: pa.StructArray, seed: int) -> None:
        rng = np.random.default_rng(seed)
        operations, shares = zip(*_SHARES, strict=True)
        self.operation = pa.array(rng.choice(operations, len(after), p=shares))
        shuffled = pa.array(rng.permutation(len(after)))
        before = [
            column.take(shuffled) if field.name in _CHANGED else column
            for field, column in zip(after.type, after.flatten(), strict=True)
        ]
        self.after, self.before = after, pa.StructArray.from_arrays(before, fields=list(after.type))

    def texts(self, rows: pa.StructArray) -> pa.Array:
        plain = get_format("json", {"encode.decimal-as-plain-number": "true"})
        return plain.encode_batch(rows, SCHEMA).messages.cast(pa.string()).cast(_TEXT)

    def where(self, operations: str, yes: Any, no: Any) -> pa.Array:
        """One of two things, by whether the operation is among these."""
        chosen = pc.is_in(self.operation, pa.array(list(operations)))
        return pc.if_else(chosen, *(_text(part) for part in (yes, no)))

    def numbers(self, first: int) -> pa.Array:
        """A number per message that goes up, as text."""
        return pa.array(np.arange(first, first + 37 * len(self.after), 37)).cast(pa.string()).cast(_TEXT)

    def images(self, operations: str, *closing: Any) -> pa.Array:
        """Messages with whole rows before and after; `operations` are the three names."""
        before = self.where("ud", self.texts(self.before), "null")
        after = self.where("cu", self.texts(self.after), "null")
        create, update, delete = operations
        operation = self.where("c", create, self.where("u", update, delete))
        return _joined('{"before":', before, ',"after":', after, *closing, operation, '"}')

    def old_values(self) -> pa.Array:
        """Of an updated row the columns that were another value."""
        names = [field.name for field in self.before.type if field.name in _CHANGED]
        changed = pa.StructArray.from_arrays([self.before.field(name) for name in names], names)
        row = pa.schema([field for field in arrow_schema(ROW) if field.name in names])
        texts = get_format("json").encode_batch(changed, row).messages.cast(pa.string()).cast(_TEXT)
        return self.where("u", texts, "null")

    def data(self) -> pa.Array:
        """The row after the change, of a deletion the one before."""
        return self.where("d", self.texts(self.before), self.texts(self.after))


def _text(part: Any) -> Any:
    return part if isinstance(part, pa.Array) else pa.scalar(part, _TEXT)


def _joined(*parts: Any) -> pa.BinaryArray:
    joined = pc.binary_join_element_wise(*map(_text, parts), pa.scalar("", _TEXT))
    return joined.cast(pa.large_binary()).cast(pa.binary())


def _changes(records: int) -> Iterator[_Changes]:
    for number, rows in enumerate(chunks(records)):
        yield _Changes(rows, SEED + number)


def _debezium(changes: _Changes) -> pa.BinaryArray:
    source = (_SOURCE[0], changes.numbers(1_700_000_000_000), _SOURCE[1], changes.numbers(4000), _SOURCE[2])
    return changes.images("cud", *source, ',"transaction":null,"ts_ms":1700000000123,"op":"')


def _ogg(changes: _Changes) -> pa.BinaryArray:
    times = '"op_ts":"2024-05-13 15:40:06.123456","current_ts":"2024-05-13T15:40:07.327000"'
    return changes.images("IUD", f',"table":"SHOP.ORDERS",{times},"primary_keys":["order_id"],"op_type":"')


def _maxwell(changes: _Changes) -> pa.BinaryArray:
    operation = changes.where("c", "insert", changes.where("u", "update", "delete"))
    opening = '{"database":"shop","table":"orders","ts":1700000000,"xid":9,"commit":true,"type":"'
    return _joined(opening, operation, '","data":', changes.data(), ',"old":', changes.old_values(), "}")


def _canal(changes: _Changes) -> pa.BinaryArray:
    operation = changes.where("c", "INSERT", changes.where("u", "UPDATE", "DELETE"))
    old = changes.where("u", _bracketed(changes.old_values()), "null")
    opening = '{"database":"shop","es":1700000000000,"id":3,"isDdl":false,"data":['
    closing = ',"pkNames":["order_id"],"sql":"","ts":1700000000123,"table":"orders","type":"'
    return _joined(opening, changes.data(), '],"old":', old, closing, operation, '"}')


def _bracketed(texts: pa.Array) -> pa.Array:
    return _joined("[", texts, "]").cast(pa.string()).cast(_TEXT)


# --- Spark ---------------------------------------------------------------------------------------------


def measure_decode(records: int, rounds: int) -> dict[str, Any]:
    """`decode_rows`, exploded into rows, against the same by Spark's own functions."""
    from pyspark.sql import functions as F

    with cached_frame(pa.table({"value": _debezium(changes)}) for changes in _changes(records)) as frame:
        decoded = get_format("debezium-json").decode_rows("value", SCHEMA)
        whole = KeyValueFormat(SCHEMA, {"format": "debezium-json"})

        def ours(frame: DataFrame) -> DataFrame:
            return frame.select(F.inline(decoded))

        few = frame.limit(COMPARED).cache()
        if not ours(few).exceptAll(_by_hand(few)).isEmpty():
            raise AssertionError("some changes are read in another way than by from_json")
        tasks = {
            "identity arrow_udf": into_nothing(frame, identity("value")),
            "from_json + explode": _done(_by_hand(frame)),
            "kvformat decode_rows + inline": _done(ours(frame)),
            "kvformat decode_rows + explode_changes": _done(explode_changes(frame, decoded)),
            "KeyValueFormat.decode": _done(whole.decode(frame)),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    by_hand = "from_json + explode"
    print(table("decode in Spark, messages per CPU-second", speeds, by_hand))
    return document(speeds, [(name, by_hand) for name in list(tasks)[2:]], records)


def _done(frame: DataFrame) -> Task:
    return lambda: frame.write.format("noop").mode("overwrite").save()


def _by_hand(frame: DataFrame) -> DataFrame:
    """What is written today: the envelope with both rows typed, then an array of kind and row, exploded."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    row = spark_schema(ROW)
    members = [T.StructField("before", row), T.StructField("after", row), T.StructField("op", T.StringType())]
    envelope = F.from_json(F.col("value").cast("string"), T.StructType(members))

    def change(kind: str, member: str) -> Column:
        return F.struct(F.lit(kind).alias("row_kind"), F.col(f"e.{member}").alias("row"))

    changes = (
        F.when(F.col("e.op") == "u", F.array(change("-U", "before"), change("+U", "after")))
        .when(F.col("e.op").isin("c", "r"), F.array(change("+I", "after")))
        .when(F.col("e.op") == "d", F.array(change("-D", "before")))
    )
    exploded = frame.select(envelope.alias("e")).select(F.explode(changes).alias("change"))
    return exploded.select("change.row_kind", "change.row.*")


def measure_encode(records: int, rounds: int) -> dict[str, Any]:
    """`encode` of inserts and deletes against `to_json` of the same envelope."""
    from pyspark.sql import functions as F

    tables = (
        pa.table({"row": changes.after, "kind": changes.where("d", "-D", "+I").cast(pa.string())})
        for changes in _changes(records)
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
            "to_json": into_nothing(frame, F.to_json(envelope, {"ignoreNullFields": "false"})),
            "kvformat encode": into_nothing(frame, ours),
            "kvformat encode, engine='arrow'": into_nothing(frame, by_arrow),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("encode in Spark, rows per CPU-second", speeds, "to_json"))
    return document(speeds, [("kvformat encode", "to_json"), ("kvformat encode, engine='arrow'", "to_json")], records)


# --- the kernel alone ----------------------------------------------------------------------------------


def measure_kernel(records: int, rounds: int) -> dict[str, Any]:
    """`decode_batch`, which gives the rows, against orjson, which only gives the envelopes."""
    records = min(records, 300_000)
    batches = [part for changes in _changes(records) for part in _batches(_debezium(changes))]
    lists = [batch.to_pylist() for batch in batches]
    loose, typed = "orjson + pa.array, floats and strings", "orjson + pa.array, cast to the types"
    tasks: dict[str, Task] = {
        loose: lambda: [_by_orjson(batch) for batch in lists],
        typed: lambda: [_typed(_by_orjson(batch)) for batch in lists],
        "kvformat decode_batch": _kernel("debezium-json", batches),
    }
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("kernel, one thread, messages per CPU-second", speeds, typed))
    return document(speeds, [("kvformat decode_batch", other) for other in (loose, typed)], records)


_LOOSE = {"price": pa.float64(), "ordered_at": pa.string()}
_LOOSE_ROW = pa.struct([field.with_type(_LOOSE.get(field.name, field.type)) for field in arrow_type(ROW)])
_LOOSE_ENVELOPE = pa.struct({"before": _LOOSE_ROW, "after": _LOOSE_ROW, "op": pa.string()})


def _by_orjson(messages: list[bytes]) -> pa.StructArray:
    return pa.array(list(map(orjson.loads, messages)), _LOOSE_ENVELOPE)


def _typed(envelopes: pa.StructArray) -> list[pa.Array]:
    """Decimals by way of the floats that orjson gives, so not exact for long ones."""
    fields = list(arrow_type(ROW))
    rows = (envelopes.field(member).flatten() for member in ("before", "after"))
    return [[c if c.type == f.type else c.cast(f.type) for c, f in zip(row, fields, strict=True)] for row in rows]


def _batches(messages: pa.BinaryArray) -> list[pa.BinaryArray]:
    return [pa.concat_arrays([messages[i : i + BATCH]]) for i in range(0, len(messages), BATCH)]


def _kernel(format: str, batches: list[pa.BinaryArray], metadata: tuple[str, ...] = ()) -> Task:
    fmt, schema = get_format(format), arrow_schema(ROW)

    def decode() -> None:
        for batch in batches:
            if fmt.decode_batch(batch, schema, metadata=metadata).errors is not None:
                raise AssertionError("a message that should be good has an error")

    return decode


def measure_formats(records: int, rounds: int) -> dict[str, Any]:
    """The kernels of all four formats on the same changes, without metadata and with what is usually asked for."""
    records = min(records, 200_000)
    makers = {"debezium-json": _debezium, "canal-json": _canal, "maxwell-json": _maxwell, "ogg-json": _ogg}
    usual = {
        "debezium-json": ("source.table", "source.timestamp", "ingestion-timestamp"),
        "canal-json": ("table", "event-timestamp"),
        "maxwell-json": ("table", "ingestion-timestamp"),
        "ogg-json": ("table", "event-timestamp"),
    }
    tasks = {}
    for name, maker in makers.items():
        batches = [part for changes in _changes(records) for part in _batches(maker(changes))]
        tasks[name] = _kernel(name, batches)
        tasks[f"{name} with metadata"] = _kernel(name, batches, usual[name])
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table("formats, kernel on one thread, messages per CPU-second", speeds, "debezium-json"))
    return document(speeds, [(name, "debezium-json") for name in tasks if name != "debezium-json"], records)


PARTS = {
    "decode": measure_decode,
    "kernel": measure_kernel,
    "encode": measure_encode,
    "formats": measure_formats,
}

if __name__ == "__main__":
    run("debezium_orders", __doc__, PARTS, {"schema": SCHEMA})
