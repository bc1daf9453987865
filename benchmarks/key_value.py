"""`KeyValueFormat` with a json key and a json value of about 220 bytes, compared with two json Columns by hand.

    scripts/benchmark key_value
    scripts/benchmark key_value --records 300000 --only decode

Three parts, each with its figures in `results/key_value.json`:

    decode    `KeyValueFormat.decode`, compared with `decode` of the key and `decode` of the value
    capture   the part decode with errors="capture"
    encode    `KeyValueFormat.encode`, compared with `encode` of the key and of the value: for inserts, and for an
              upsert table. If its rows can be -U, they go through Python in order
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from _measure import Task, document, measure, run, table
from _orders import SCHEMA, SEED, chunks
from _spark import cached_frame

from kvformat.registry import ChangelogMode, KeyValueFormat, get_format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY_SCHEMA = "order_id BIGINT"
KAFKA = {"key.format": "json", "key.fields": "order_id", "value.format": "json"}
UPSERT = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}


def records_of(records: int) -> Iterator[pa.Table]:
    """Yield the orders as Flink writes them, with their id as key."""
    fmt = get_format("json")
    for rows in chunks(records):
        keys = fmt.encode_batch(pa.StructArray.from_arrays([rows.field("order_id")], ["order_id"]), KEY_SCHEMA)
        yield pa.table({"key": keys.messages, "value": fmt.encode_batch(rows, SCHEMA).messages})


def _written(frame: DataFrame) -> Task:
    return lambda: frame.write.format("noop").mode("overwrite").save()


def measure_decode(records: int, rounds: int) -> dict[str, Any]:
    """Measure decoding key and value in one stage, compared with two Columns."""
    fmt = get_format("json")
    with cached_frame(records_of(records)) as frame:
        columns = fmt.decode("key", KEY_SCHEMA).alias("k"), fmt.decode("value", SCHEMA).alias("v")
        tasks = {
            "two columns by hand": _written(frame.select(*columns).select("k.order_id", "v.*")),
            "KeyValueFormat.decode": _written(KeyValueFormat(SCHEMA, KAFKA).decode(frame)),
            "KeyValueFormat.decode, upsert": _written(
                KeyValueFormat(SCHEMA, UPSERT, primary_key=["order_id"]).decode(frame)
            ),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("decode in Spark, records per CPU-second", speeds, "two columns by hand"))
    return document(speeds, [(name, "two columns by hand") for name in list(tasks)[1:]], records)


def measure_capture(records: int, rounds: int) -> dict[str, Any]:
    """Measure decoding with bad records kept."""
    fmt = get_format("json")
    with cached_frame(records_of(records)) as frame:
        key, value = fmt.decode("key", KEY_SCHEMA, errors="capture"), fmt.decode("value", SCHEMA, errors="capture")
        by_hand = frame.select(key.alias("k"), value.alias("v")).select("k.row.order_id", "v.row.*", "v.error")
        tasks = {
            "two columns by hand": _written(by_hand),
            "KeyValueFormat.decode": _written(KeyValueFormat(SCHEMA, KAFKA).decode(frame, errors="capture")),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("decode with errors='capture', records per CPU-second", speeds, "two columns by hand"))
    return document(speeds, [("KeyValueFormat.decode", "two columns by hand")], records)


def measure_encode(records: int, rounds: int) -> dict[str, Any]:
    """Measure encoding. Inserts use the engines of the formats, and updates use a stage that compares adjacent rows."""
    from pyspark.sql import functions as F

    fmt = get_format("json")
    with cached_frame(pa.Table.from_struct_array(rows) for rows in chunks(records)) as frame:
        by_hand = frame.select(
            fmt.encode(F.struct("order_id"), KEY_SCHEMA).alias("key"),
            fmt.encode(F.struct(*frame.columns), SCHEMA).alias("value"),
        )
        upsert = KeyValueFormat(SCHEMA, UPSERT, primary_key=["order_id"])
        changes = frame.where("order_id IS NOT NULL").withColumn(
            "row_kind", F.expr("CASE order_id % 10 WHEN 0 THEN '-U' WHEN 1 THEN '-D' ELSE '+U' END")
        )
        tasks = {
            "two columns by hand": _written(by_hand),
            "KeyValueFormat.encode": _written(KeyValueFormat(SCHEMA, KAFKA).encode(frame)),
            "KeyValueFormat.encode, upsert, no kinds": _written(upsert.encode(frame)),
            "KeyValueFormat.encode, upsert, no -U": _written(
                upsert.encode(changes.where("row_kind != '-U'"), changelog_mode=ChangelogMode.UPSERT)
            ),
            "KeyValueFormat.encode, upsert, all kinds": _written(upsert.encode(changes)),
        }
        speeds = measure(tasks, records=records, rounds=rounds)
    print(table("encode in Spark, records per CPU-second", speeds, "two columns by hand"))
    return document(speeds, [(name, "two columns by hand") for name in list(tasks)[1:]], records)


if __name__ == "__main__":
    run(
        "key_value",
        __doc__ or "",
        {"decode": measure_decode, "capture": measure_capture, "encode": measure_encode},
        {"schema": SCHEMA, "options": KAFKA, "seed": SEED},
        records=500_000,
    )
