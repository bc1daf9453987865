"""Code that the benchmarks of nested records share: the records, and the command line.

The records are generated, or the messages of a folder. Such a folder has files `*.jsonl.xz`, with a message in each
line, and a README.md. The README.md has a table with a column `file` and a column whose name begins with `schema`.
"""

from __future__ import annotations

import functools
import lzma
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from _measure import chosen, parser, run_parts
from _orders import SCHEMA as ORDERS
from _orders import orders
from _records import SEED, Kind, record_kinds

from kvformat.registry import get_format

Kinds = Sequence[Kind]
NestedPart = Callable[[Kinds, float, int, int], dict[str, Any]]
"""A function of the kinds of records, megabytes of each kind, an unused number, and rounds. Returns a `document`."""


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


def run_nested(
    name: str,
    about: str,
    parts: Mapping[str, NestedPart],
    megabytes: Mapping[str, float],
    *,
    folder_megabytes: Mapping[str, float],
    changed: Callable[[Kinds], Kinds] = tuple,
) -> None:
    """Run a benchmark of nested records from the command line. A folder's figures are only stored with --store-as.

    megabytes: of each kind, for each part.
    folder_megabytes: of each file of a folder, which has few messages, so a larger draw only repeats them.
    changed: converts the kinds, whose messages are JSON, to the kinds to measure.
    """
    commands = parser(about, parts, 0)
    commands.add_argument("--megabytes", type=float, help=f"megabytes of messages of each kind; default: {megabytes}")
    commands.add_argument("--corpora", type=Path, metavar="FOLDER", help="measure the messages of this folder instead")
    commands.add_argument("--store-as", metavar="NAME", help="store the figures of a folder in results/NAME.json")
    arguments = commands.parse_args()
    folder = arguments.corpora
    kinds = changed(generated_kinds() if folder is None else kinds_of_folder(folder))
    if folder is not None and arguments.store_as is None:
        arguments.no_store = True
    made = {
        part: functools.partial(
            measure_part, kinds, arguments.megabytes or (megabytes if folder is None else folder_megabytes)[part]
        )
        for part, measure_part in parts.items()
    }
    run_parts(arguments.store_as or name, chosen(commands, arguments, made), made, {"seed": SEED}, arguments)
