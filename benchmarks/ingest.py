"""Ingestion: the look at messages, batches with many known tables, one table against `maintain`, memory, many tables.

    scripts/benchmark ingest
    scripts/benchmark ingest --only look --no-store

The messages are changes of orders of about 660 bytes, like those of `debezium_orders`. Each part has its figures
in `results/ingest.json`:

    look       no Spark: the look at messages that fit their known tables, compared with decoding one column of them
"""

from __future__ import annotations

import functools
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from _change_messages import canal, changes_of, debezium, with_schema
from _kernel import batches, decoding
from _measure import Task, grid, grid_table, measure, run
from _orders import SCHEMA, SEED

from kvformat.ingestion.schemas.types import merge_types
from kvformat.registry import get_format
from kvformat.registry.contract.look import KnownTable, Looked, LookRequest, TableName

ALTERNATING = 5  # tables whose messages alternate
_ONE_COLUMN = pa.schema([pa.field("order_id", pa.int64())])


# --- the look ------------------------------------------------------------------------------------------------


def measure_look(records: int, rounds: int) -> dict[str, Any]:
    """Measure `Looker.look` of messages that fit their tables, compared with decoding one column of them."""
    count = min(records, 100_000)
    plain = get_format("json").encode_batch
    (changes,) = changes_of(count)
    schemas = {"schema-include": "true"}
    inputs: dict[str, tuple[str, dict[str, str], pa.BinaryArray]] = {
        "json": ("json", {}, plain(changes.after, SCHEMA).messages),
        "debezium-json": ("debezium-json", {}, debezium(changes)),
        f"debezium-json, {ALTERNATING} tables in turn": ("debezium-json", {}, _of_tables(debezium(changes))),
        "debezium-json with schema": ("debezium-json", schemas, with_schema(changes)),
        "canal-json": ("canal-json", {}, canal(changes)),
    }
    speeds, facts = {}, {}
    for name, (format, options, messages) in inputs.items():
        parts = batches(messages)
        tasks: dict[str, Task] = {
            "decode one column": decoding(format, parts, _ONE_COLUMN, options=options),
            "look": _looking(format, options, parts),
        }
        speeds[name] = measure(tasks, records=count, rounds=rounds, clock=time.process_time)
        facts[name] = {"bytes": round(messages.nbytes / count), "records": count}
    found = grid(
        "messages",
        speeds,
        lambda row, column: (row, "decode one column", "decode one column") if column == "look" else None,
        facts,
    )
    print(grid_table("look, one thread, messages per CPU-second", found))
    return found


def _of_tables(messages: pa.BinaryArray) -> pa.BinaryArray:
    """Return messages whose table, and the name of one column, changes from each one to the next."""
    texts = messages.cast(pa.string())
    number = pc.cast(pa.array(range(len(texts))), pa.int64())
    number = pc.subtract(number, pc.multiply(pc.divide(number, ALTERNATING), ALTERNATING))
    found = texts
    for table in range(ALTERNATING):
        named = pc.replace_substring(texts, '"orders"', f'"orders_{table}"')
        named = pc.replace_substring(named, '"product":', f'"product_{table}":')
        found = pc.if_else(pc.equal(number, table), named, found)
    return found.cast(pa.binary())


def _looking(format: str, options: dict[str, str], parts: list[pa.BinaryArray]) -> Task:
    """Return a task that looks at all batches. It fails if a message contributes something to its table."""
    fmt = get_format(format, options)
    known: dict[TableName, KnownTable] = {}
    topics = [pa.array(["orders"]).take(pa.nulls(len(part), pa.int32()).fill_null(0)) for part in parts]
    first = fmt.looker(LookRequest(known)).look(pa.concat_arrays(parts), pa.concat_arrays(topics))
    for column in first.columns:
        table = known.get(column.table, KnownTable({}))
        t = functools.reduce(merge_types, column.types)
        known[column.table] = KnownTable({**table.columns, column.name: t}, table.as_text)
    looker = fmt.looker(LookRequest(known))

    def look() -> None:
        for part, names in zip(parts, topics, strict=True):
            found: Looked = looker.look(part, names)
            if found.columns or found.errors:
                raise AssertionError(f"a message does not fit its table: {found.columns or found.errors}")

    return look


if __name__ == "__main__":
    run("ingest", __doc__ or "", {"look": measure_look}, {"schema": SCHEMA, "seed": SEED}, records=300_000)
