"""`json` with nested records of changing shape. Tables do not read most of their members.

    scripts/benchmark json_nested
    scripts/benchmark json_nested --only kernel --megabytes 10
    scripts/benchmark json_nested --corpora FOLDER        your own messages, see below

The records are generated posts, events, package descriptions, performances and users (`_records.py`), and the orders of
the other benchmarks. Two parts, each with its figures in `results/json_nested.json`:

    kernel    one thread, no Spark, batches of 5,000: `decode_batch`, compared with `orjson.loads` + `pa.array` with the
              same types
    decode    Spark: `decode` as a Column and `KeyValueFormat.decode` as a table, compared with `from_json`; and the
              cost of the transport to Python and back, measured with functions that return the length of each message.
              All with the settings that `recommended_settings()` returns

Your own folder must have files `*.jsonl.xz`, with a message in each line, and a README.md. The README.md has a table
with a column `file` and a column whose name begins with `schema`. Each file is measured like a kind of records. The
figures are printed. With `--store-as NAME` they are also stored under this name.
"""

from __future__ import annotations

import argparse
import functools
import lzma
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from _kernel import ByOrjson, batches, decoding
from _measure import Part, Speed, Task, chosen, grid, grid_table, measure, parser, run_parts
from _orders import SCHEMA as ORDERS
from _orders import orders
from _records import SEED, Kind, record_kinds
from _spark import cached_frame, discard_columns, discard_rows, expect_equal, lengths, tables

from kvformat.registry import KeyValueFormat, get_format, recommended_settings
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.schemas import arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MEGABYTES = {"kernel": 25.0, "decode": 50.0}
_TIMES = 4  # how often a job reads the cached messages


def generated_kinds() -> tuple[Kind, ...]:
    """Return the generated kinds of records, and the orders as the last kind."""
    rows = orders(20_000, SEED)
    messages = get_format("json").encode_batch(rows, ORDERS).messages
    return (*record_kinds(), Kind("orders", ORDERS, tuple(messages.to_pylist())))


def kinds_of_folder(folder: Path) -> tuple[Kind, ...]:
    """Return a kind for each row of the table in the folder's README.md."""
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    table = [[cell.strip(" `") for cell in line.strip().strip("|").split("|")] for line in lines if line[:1] == "|"]
    head, _, *rows = table
    schema = next(i for i, name in enumerate(head) if name.startswith("schema"))
    kinds = []
    for row in rows:
        file = row[head.index("file")]
        text = lzma.decompress((folder / file).read_bytes())
        # Not splitlines: some texts contain U+2028, which is not a line end here.
        pool = tuple(line for line in text.split(b"\n") if line)
        kinds.append(Kind(file.removesuffix(".jsonl.xz"), row[schema], pool))
    return tuple(kinds)


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
    """Measure `decode`, `KeyValueFormat.decode`, `from_json`, and the transport to Python for both of ours."""
    speeds, facts = {}, {}
    for kind in kinds:
        messages = kind.draw(megabytes)
        print(f"\n{kind.name}")
        with cached_frame(tables(messages), times=_TIMES) as frame:
            for name, value in recommended_settings().items():
                frame.sparkSession.conf.set(name, value)
            speeds[kind.name] = measure(_tasks(kind, frame), records=_TIMES * len(messages), rounds=rounds)
        facts[kind.name] = _facts(kind, _TIMES * len(messages))

    def compared(row: str, column: str) -> tuple[str, str, str] | None:
        return (row, "from_json", "from_json") if column in ("decode", "KeyValueFormat.decode") else None

    found = grid("messages", speeds, compared, facts)
    found["settings"] = recommended_settings()
    print(grid_table("decode in Spark, records per CPU-second", found))
    return found


def _tasks(kind: Kind, frame: DataFrame) -> dict[str, Task]:
    from pyspark.sql import functions as F

    row = parse_schema(kind.schema)
    ours = get_format("json", kind.options).decode("value", kind.schema)
    theirs = F.from_json(F.col("value").cast("string"), spark_schema(row))
    expect_equal(frame, ours, theirs)
    options = {"format": "json", **{f"json.{name}": value for name, value in kind.options.items()}}
    table = KeyValueFormat(kind.schema, options).decode(frame)
    by_column, by_table = lengths(frame, "value")
    return {
        "from_json": discard_columns(frame, theirs),
        "decode": discard_columns(frame, ours),
        "KeyValueFormat.decode": discard_rows(table),
        "Column of lengths": discard_rows(by_column),
        "table of lengths": discard_rows(by_table),
    }


PARTS = {"kernel": measure_kernel, "decode": measure_decode}


def main() -> None:
    commands = parser(__doc__ or "", PARTS, 0)
    commands.add_argument("--megabytes", type=float, help=f"megabytes of messages of each kind; default: {_MEGABYTES}")
    commands.add_argument("--corpora", type=Path, metavar="FOLDER", help="measure the messages of this folder instead")
    commands.add_argument("--store-as", metavar="NAME", help="store the figures of a folder in results/NAME.json")
    arguments = commands.parse_args()
    kinds = generated_kinds() if arguments.corpora is None else kinds_of_folder(arguments.corpora)
    if arguments.corpora is not None and arguments.store_as is None:
        arguments.no_store = True
    parts = {name: _part(name, kinds, arguments) for name in PARTS}
    name = arguments.store_as or "json_nested"
    run_parts(name, chosen(commands, arguments, parts), parts, {"seed": SEED}, arguments)


def _part(name: str, kinds: Sequence[Kind], arguments: argparse.Namespace) -> Part:
    # For a folder, 25 MB in Spark too: it has few messages, and a larger draw only repeats them.
    default: Mapping[str, float] = _MEGABYTES if arguments.corpora is None else dict.fromkeys(PARTS, 25.0)
    return functools.partial(PARTS[name], kinds, arguments.megabytes or default[name])


if __name__ == "__main__":
    main()
