"""Schema stores whose files are damaged at random: a load gives the stored state, or an error that names a file.

The store writes and reads plain files here, without Spark. A file is cut off, changed, replaced by another one, of
another version, or lost. If the newest plan of all is lost as a whole, no other file says that there was one.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from kvformat.ingestion import store
from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.local_store import LocalSchemaStore
from kvformat.ingestion.schemas.events import AddColumns, AddedColumn, CreateTable
from kvformat.ingestion.schemas.known import BatchPlan, IngestState, SourceTable
from kvformat.ingestion.schemas.state import Cause, CausedEvent, SchemaState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.look import KnownTable

_TYPES = ("BIGINT", "STRING", "DECIMAL(20, 0)", "TIMESTAMP(3)", "ARRAY<STRING>", "ROW<`a` INT>", "VARCHAR(7)")
_NAMES = ("id", "näme", "a b", "x.y", "`", '"', "\u2028", "1")
_BYTES = (b"{", b"}", b'"', b"\n", b"\\", b"0", b"9", b"-", b"null", b"\xff", b"", b" ", b"[", b"]", b'"version": 2')


class Damage(NamedTuple):
    """A history of plans, and how its files are damaged. Both are functions of the seed."""

    seed: int


def damage(rng: random.Random) -> Damage:
    """Return a random history with damaged files."""
    return Damage(rng.randrange(10**9))


def load_damaged(given: Damage) -> None:
    """Loading each batch gives its state, or a `SchemaChangeError` that names a file and says what to do."""
    rng = random.Random(given.seed)
    folder = Path(tempfile.mkdtemp(prefix="kvformat-store-"))
    full = store._FULL_EVERY
    store._FULL_EVERY = rng.choice([2, 3, 50])
    try:
        _load_damaged(rng, folder)
    finally:
        store._FULL_EVERY = full
        shutil.rmtree(folder)


def _load_damaged(rng: random.Random, folder: Path) -> None:
    written, states, plans = LocalSchemaStore(folder), [IngestState()], []
    for batch in range(rng.randint(1, 8)):
        plan = _plan(rng, states[-1])
        written.write(batch, states[-1], plan)
        plans.append(plan)
        states.append(plan.state)
    files = sorted(Path(written.folder).rglob("part-*"))
    file, newest = rng.choice(files), max(map(_number, files))
    is_newest_lost = _damaged(rng, file, files) and _number(file) == newest
    for batch in (len(plans) - 1, len(plans), len(plans) + 1):  # Spark repeats the last batch, or goes on
        try:
            state, plan = LocalSchemaStore(folder).load(batch)
            told = ""
        except SchemaChangeError as error:
            told = str(error)
        if told:
            assert re.search(r"schemas/\d{9}", told), told
            assert "Restore" in told or "release" in told, told
        elif state.entries() != states[min(batch, len(plans))].entries():
            assert is_newest_lost, batch  # no file tells that there was a newer one
            assert state.entries() in [before.entries() for before in states]
        elif plan is not None:
            assert plan.entries(state) == plans[batch].entries(state)


def _number(file: Path) -> int:
    return int(file.parent.name.removesuffix(".all"))


def _damaged(rng: random.Random, file: Path, files: list[Path]) -> bool:
    """Damage a file. Return whether it is lost."""
    data = file.read_bytes()
    at = rng.randrange(len(data) + 1)
    match rng.randrange(6):
        case 0:
            file.unlink()
            return True
        case 1:
            data = data[:at]
        case 2:
            data = data[:at] + rng.choice(_BYTES) + data[at + rng.choice([0, 1, 1, 5]) :]
        case 3:
            data = rng.choice([other.read_bytes() for other in files if other.exists()])
        case 4:
            lines = data.splitlines(keepends=True)
            del lines[rng.randrange(len(lines))]
            data = b"".join(lines)
        case _:
            data = data.replace(b'"version": 1', b'"version": 7')
    file.write_bytes(data)
    return False


def _plan(rng: random.Random, before: IngestState) -> BatchPlan:
    table = TableId(tuple(rng.choice(_NAMES) for _ in range(rng.randint(1, 2))))
    known = before.schemas.sources.get(table, TableSchema(()))
    name = f"{rng.choice(_NAMES)}{len(known.columns)}"
    column = SchemaColumn(name, parse_type(rng.choice(_TYPES)))
    schema = TableSchema((*known.columns, column), known.primary_key)
    seen = KnownTable(
        {c.name: c.type for c in schema.columns}, frozenset([name]) if rng.random() < 0.3 else frozenset()
    )
    quarantined = {**before.quarantined, **({table: "a reason"} if rng.random() < 0.1 else {})}
    state = IngestState(
        {**before.sources, table: SourceTable(seen)},
        SchemaState({**before.schemas.sources, table: schema}, {**before.schemas.targets, table: schema}),
        quarantined,
    )
    event = AddColumns(table, (AddedColumn(column),)) if known.columns else CreateTable(table, schema)
    return BatchPlan(state, (CausedEvent(event, Cause("t", 0, rng.randrange(99))),))
