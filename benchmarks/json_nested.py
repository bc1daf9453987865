"""`json` with nested records of changing shape. Tables do not read most of their members.

    scripts/benchmark json_nested
    scripts/benchmark json_nested --only kernel --megabytes 10
    scripts/benchmark json_nested --corpora FOLDER        your own messages, see below

The records are generated posts, events, package descriptions, performances and users (`_records.py`), and the orders of
the other benchmarks. Parts, each with its figures in `results/json_nested.json`:

    kernel    one thread, no Spark, batches of 5,000: `decode_batch`, compared with `orjson.loads` + `pa.array` with the
              same types
    decode    Spark: `decode` as a Column and `KeyValueFormat.decode` as a table, compared with `from_json`. Also both
              as if decoding took no time: the messages go to Python, which returns ready-made rows. And the cost of the
              transport alone: Python returns the length of each message. All with `recommended_settings()`
    variant   VARIANT. One thread, no Spark: a member with the whole record, compared with `orjson.loads`. In Spark: the
              same, compared with `parse_json` of the message; and a table of two columns and a VARIANT, compared with
              `from_json` with the same types. All with `recommended_settings()`. Not for your own folder

Your own folder must have files `*.jsonl.xz`, with a message in each line, and a README.md. The README.md has a table
with a column `file` and a column whose name begins with `schema`. Each file is measured like a kind of records. The
figures are printed. With `--store-as NAME` they are also stored under this name.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
from _kernel import BATCH, ByOrjson, batches, decoding
from _measure import Speed, Task, grid, grid_table, measure
from _nested import run_nested
from _records import Kind
from _spark import (
    cached_frame,
    discard_columns,
    discard_rows,
    expect_equal,
    lengths,
    ready_made,
    ready_made_column,
    tables,
)

from kvformat.registry import KeyValueFormat, get_format, recommended_settings
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.schemas import arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MEGABYTES = {"kernel": 25.0, "decode": 50.0, "variant": 25.0}
_TIMES = 4  # how often a job reads the cached messages


# --- the kernel alone ------------------------------------------------------------------------------------


def measure_kernel(kinds: Sequence[Kind], megabytes: float, _: int, rounds: int) -> dict[str, Any]:
    """Measure `decode_batch`, compared with orjson, in megabytes."""
    speeds: dict[str, dict[str, Speed]] = {}
    facts = {}
    for kind in kinds:
        messages = kind.draw(megabytes)
        size = sum(map(len, messages))
        inputs = batches(messages)
        del messages
        lists = [batch.to_pylist() for batch in inputs]
        schema = arrow_schema(parse_schema(kind.schema))
        by_orjson = ByOrjson(pa.struct(list(schema)))
        print(f"\n{kind.name}")
        tasks: dict[str, Task] = {
            "orjson + pa.array": lambda lists=lists, f=by_orjson: [f.typed(batch) for batch in lists],  # type: ignore[misc]
            "kvformat decode_batch": decoding("json", inputs, schema, options=kind.options),
        }
        measured = measure(tasks, records=size, rounds=rounds, clock=time.process_time)
        speeds[kind.name] = {name: speed.divided(1e6) for name, speed in measured.items()}
        facts[kind.name] = _facts(kind, sum(map(len, inputs)))

    def compared(row: str, column: str) -> tuple[str, str, str] | None:
        return (row, "orjson + pa.array", "orjson + pa.array") if column == "kvformat decode_batch" else None

    found = grid("messages", speeds, compared, facts, unit="Megabytes")
    print(grid_table("kernel, one thread, megabytes per CPU-second", found))
    return found


def _facts(kind: Kind, records: int) -> dict[str, Any]:
    return {"bytes": round(kind.size), "records": records, "schema": kind.schema, "options": dict(kind.options)}


# --- in Spark --------------------------------------------------------------------------------------------


def measure_decode(kinds: Sequence[Kind], megabytes: float, _: int, rounds: int) -> dict[str, Any]:
    """Measure `decode` and `KeyValueFormat.decode`, each also without decoding, and `from_json`."""
    speeds, facts = {}, {}
    for kind in kinds:
        messages = kind.draw(megabytes)
        print(f"\n{kind.name}")
        with cached_frame(tables(messages), times=_TIMES) as frame:
            for name, value in recommended_settings().items():
                frame.sparkSession.conf.set(name, value)
            speeds[kind.name] = measure(_tasks(kind, frame, messages), records=_TIMES * len(messages), rounds=rounds)
        facts[kind.name] = _facts(kind, _TIMES * len(messages))

    def compared(row: str, column: str) -> tuple[str, str, str] | None:
        return None if column == "from_json" else (row, "from_json", "from_json")

    found = grid("messages", speeds, compared, facts)
    found["settings"] = recommended_settings()
    print(grid_table("decode in Spark, records per CPU-second", found))
    return found


def _tasks(kind: Kind, frame: DataFrame, messages: list[bytes]) -> dict[str, Task]:
    from pyspark.sql import functions as F

    row, fmt = parse_schema(kind.schema), get_format("json", kind.options)
    ours = fmt.decode("value", kind.schema)
    theirs = F.from_json(F.col("value").cast("string"), spark_schema(row))
    expect_equal(frame, ours, theirs)
    options = {"format": "json", **{f"json.{name}": value for name, value in kind.options.items()}}
    table = KeyValueFormat(kind.schema, options).decode(frame)
    by_column, by_table = lengths(frame, "value")
    most = itertools.islice(itertools.cycle(messages), 2 * BATCH)  # as many as Spark sends to Python at once
    rows = fmt.decode_batch(pa.array(most, pa.binary()), kind.schema).rows.values
    made = pa.RecordBatch.from_struct_array(rows)
    returned = frame.select(ours).schema.fields[0].dataType
    return {
        "from_json": discard_columns(frame, theirs),
        "decode": discard_columns(frame, ours),
        "KeyValueFormat.decode": discard_rows(table),
        "ready-made rows, Column": discard_columns(frame, ready_made_column("value", rows, returned)),
        "ready-made rows, table": discard_rows(ready_made(frame, "value", made, len(made), table.schema)),
        "Column of lengths": discard_rows(by_column),
        "table of lengths": discard_rows(by_table),
    }


# --- VARIANT ---------------------------------------------------------------------------------------------

_WHOLE = "record VARIANT"
_LOOSE = {
    "posts": "id BIGINT, created_at STRING, user VARIANT",
    "events": "id STRING, type STRING, payload VARIANT",
    "catalog": "name STRING, downloads BIGINT, maintainers VARIANT",
    "performances": "id BIGINT, event_id BIGINT, categories VARIANT",
    "users": "id BIGINT, name STRING, address VARIANT",
    "orders": "order_id BIGINT, product STRING, address VARIANT",
}
"""Tables with two columns and a member of any shape."""


def measure_variant(kinds: Sequence[Kind], megabytes: float, _: int, rounds: int) -> dict[str, Any]:
    """Measure VARIANT, compared with orjson, with `parse_json` and with `from_json`."""
    speeds, facts = {}, {}
    for kind in kinds:
        messages = kind.draw(megabytes)
        wrapped = [b'{"record":%s}' % message for message in messages]
        print(f"\n{kind.name}")
        inputs, lists = batches(wrapped), [batch.to_pylist() for batch in batches(messages)]
        tasks: dict[str, Task] = {
            "orjson.loads": lambda lists=lists: [[orjson.loads(message) for message in batch] for batch in lists],  # type: ignore[misc]
            "decode_batch of the record": decoding("json", inputs, arrow_schema(parse_schema(_WHOLE)), options={}),
        }
        measured = measure(tasks, records=len(messages), rounds=rounds, clock=time.process_time)
        for texts, schema, names in (
            (wrapped, _WHOLE, ("parse_json of the record", "decode of the record")),
            (messages, _LOOSE[kind.name], ("from_json", "decode of the table")),
        ):
            with cached_frame(tables(texts), times=_TIMES) as frame:
                for name, value in recommended_settings().items():
                    frame.sparkSession.conf.set(name, value)
                both = dict(zip(names, _variant_tasks(frame, schema), strict=True))
                measured |= measure(both, records=_TIMES * len(texts), rounds=rounds)
        speeds[kind.name] = measured
        facts[kind.name] = _facts(kind, len(messages)) | {"schema": _LOOSE[kind.name]}
    compared_with = {
        "decode_batch of the record": "orjson.loads",
        "decode of the record": "parse_json of the record",
        "decode of the table": "from_json",
    }

    def compared(row: str, column: str) -> tuple[str, str, str] | None:
        other = compared_with.get(column)
        return other and (row, other, other)

    found = grid("messages", speeds, compared, facts)
    found["settings"] = recommended_settings()
    print(grid_table("VARIANT, records per CPU-second", found))
    return found


def _variant_tasks(frame: DataFrame, schema: str) -> tuple[Task, Task]:
    """Return Spark's way and ours, after a check that both give the same values."""
    from pyspark.sql import functions as F

    text = F.col("value").cast("string")
    ours = get_format("json").decode("value", schema)
    if schema == _WHOLE:
        theirs = F.parse_json(text)
        same = F.concat(F.lit('{"record":'), F.to_json(ours["record"]), F.lit("}")) == F.to_json(theirs)
    else:
        theirs = F.from_json(text, spark_schema(parse_schema(schema)))
        same = F.to_json(ours) == F.to_json(theirs)
    counted = frame.limit(2_000).select(same.alias("same")).groupBy("same").count().collect()
    assert [row["same"] for row in counted] == [True], counted
    return discard_columns(frame, theirs), discard_columns(frame, ours)


PARTS = {"kernel": measure_kernel, "decode": measure_decode, "variant": measure_variant}


if __name__ == "__main__":
    run_nested("json_nested", __doc__ or "", PARTS, _MEGABYTES, folder_megabytes=dict.fromkeys(PARTS, 25.0))
