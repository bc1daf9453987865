"""The schema store: what a query keeps in its checkpoint beside Spark's offsets.

    <checkpoint>/kvformat/query/                 the id of the query
    <checkpoint>/kvformat/marks/                 the topic of an exactly-once sink's marks
    <checkpoint>/kvformat/schemas/000000012/     what batch 12 changed: each changed table as a whole, the events
    <checkpoint>/kvformat/schemas/000000012.all/ everything after batch 12
    <checkpoint>/kvformat/errors/0 1 2           the number of bad records so far, after the last batches that had any
    <checkpoint>/kvformat/released/              tables that were released from quarantine
    <checkpoint>/kvformat/drivers/0 1 2          the last drivers of the query, counted; the newest one runs it

Spark writes and reads all of it, so the store works wherever checkpoints do; local_store.py reads a local one without
Spark. A folder has one text file with one JSON object per line, sorted and without secrets. The first line has the
version, the number of lines, a checksum, and the number of the plan before, so a file that was changed, cut off or lost
is found.

The plan of a batch is written before a target is touched. A batch that runs again takes the stored plan.
"""

from __future__ import annotations

import json
import re
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.schemas.known import BatchPlan, IngestState
from kvformat.ingestion.schemas.state import VERSION, CausedEvent
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.streams.small_files import note_rows, rows_below, uncached_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_BATCH = -1
"""The number of the plan that is made before the first batch."""
_FULL_EVERY = 50  # plans of batches after which everything is written
_SLOTS = 3  # counts of errors that are kept; Spark repeats only the last batch. As many drivers are kept
_TRUSTED = 1.0  # seconds; a new driver needs longer until its first write
_NAME = re.compile(r".*/(-?\d+)(\.all)?/[^/]*$")


@dataclass(frozen=True, slots=True)
class _StoreFile:
    path: str
    batch: int
    full: bool


class SchemaStore:
    """The store of one checkpoint. It remembers the numbers of the files that it has read or written."""

    def __init__(self, spark: SparkSession | None, checkpoint: str) -> None:
        self._session, self.checkpoint, self.folder = spark, checkpoint, f"{checkpoint.rstrip('/')}/kvformat"
        self._plans: set[int] | None = None
        self._full: set[int] = set()
        self._since_full = 0
        self._driver, self._checked = uuid.uuid4().hex, 0.0

    def use(self, spark: SparkSession) -> None:
        """Use another session."""
        self._session = spark

    @property
    def _spark(self) -> SparkSession:
        assert self._session is not None, "a store without a session reads its files by itself"
        return self._session

    # --- reading -------------------------------------------------------------------------------------------

    def chosen(self, name: str) -> str | None:
        """Return what `choose` has stored under a name; None if it has not."""
        for path, text in self._read(f"{self.folder}/{name}").items():
            return str(_parsed(path, text)[0][name])
        return None

    def load(self, batch: int | None = None) -> tuple[IngestState, BatchPlan | None]:
        """Return the state before a batch, and the stored plan of the batch; None if it has none.

        Without a batch, returns the newest state. Raises `SchemaChangeError` for a file that is broken, and for one of
        a later release. A broken plan of `batch` itself is made again: no target was touched before it was complete.
        """
        files = self._files()
        before = [file for file in files if batch is None or file.batch < batch]
        full = max((file.batch for file in before if file.full), default=None)
        used = [f for f in before if (f.full and f.batch == full) or (not f.full and (full is None or f.batch > full))]
        planned = [file for file in files if not file.full and file.batch == batch]
        texts = self._texts([file.path for file in (*used, *planned)])
        state, since = IngestState(), dict[TableId, int]()
        previous = full
        for file in sorted(used, key=lambda file: file.batch):
            entries = self._entries(file, texts, previous)
            previous = file.batch
            with _naming(file.path):
                state = state.with_entries(entries)
                since |= {TableId(tuple(e["quarantined"])): file.batch for e in entries if "quarantined" in e}
        self._plans = self._remembered(files)
        self._since_full = sum(not file.full for file in used)
        state = self._without_released(state, since)
        plan = None
        for file in planned:
            if _is_complete(texts.get(file.path, "")):
                entries = self._entries(file, texts, previous)
                with _naming(file.path):
                    plan = BatchPlan.from_entries(state, entries)
        return state, plan

    def _entries(self, file: _StoreFile, texts: Mapping[str, str], previous: int | None) -> list[dict[str, Any]]:
        """Return the objects of a plan. Raises `SchemaChangeError` if the plan before it is lost."""
        head, *entries = _parsed(file.path, texts.get(file.path, ""))
        with _naming(file.path):
            if head["batch"] != file.batch or file.full == ("previous" in head):
                raise _broken(file.path)
            before = None if file.full else head["previous"]
            if not file.full and before != previous:
                raise _broken(file.path if before is None else f"{self.folder}/schemas/{before:09}")
        return entries

    def history(self) -> list[tuple[int, CausedEvent]]:
        """Return the changes of source tables of all batches, each with the number of its batch."""
        files = sorted((file for file in self._files() if not file.full), key=lambda file: file.batch)
        texts = self._texts([file.path for file in files])
        changes = []
        for file in files:
            with _naming(file.path):
                entries = _parsed(file.path, texts.get(file.path, ""))[1:]
                changes += [(file.batch, CausedEvent.from_json(entry)) for entry in entries if "event" in entry]
        return changes

    def errors(self, batch: int | None = None) -> int:
        """Return the number of bad records before a batch; without a batch, of all."""
        counts = [count for count in self._counts() if batch is None or count["batch"] < batch]
        return int(max(counts, key=lambda count: count["batch"])["count"]) if counts else 0

    # --- writing -------------------------------------------------------------------------------------------

    def make_query_id(self) -> str:
        """Return the id of the query, which is made once."""
        return self.choose("query", uuid.uuid4().hex)

    def choose(self, name: str, value: str) -> str:
        """Return a value of the query that is chosen once: `value`, unless there is one already."""
        stored = self.chosen(name)
        if stored is None:
            self._write(name, [], **{name: value})
        return value if stored is None else stored

    def write(self, batch: int, before: IngestState, plan: BatchPlan) -> None:
        """Write the plan of a batch, if it changes anything. Call it before a target is touched."""
        entries = plan.entries(before)
        if not entries:
            return
        if self._plans is None:
            self._plans = self._remembered(self._files())
        previous = max((number for number in self._plans if number < batch), default=None)
        self._write(f"schemas/{batch:09}", entries, batch=batch, previous=previous)
        self._since_full += batch not in self._plans
        self._plans.add(batch)
        if self._since_full >= _FULL_EVERY or batch in self._full:
            self._write(f"schemas/{batch:09}.all", plan.state.entries(), batch=batch)
            self._full.add(batch)
            self._since_full = 0

    def _remembered(self, files: list[_StoreFile]) -> set[int]:
        """Remember the batches after which everything was written, and return those that have a plan."""
        self._full = {file.batch for file in files if file.full}
        return {file.batch for file in files if not file.full}

    def add_errors(self, batch: int, count: int) -> int:
        """Add the bad records of a batch, and return the number of all. A repeated batch counts once."""
        counts = self._counts()
        before = [entry for entry in counts if entry["batch"] < batch]
        last = max(before, key=lambda entry: entry["batch"], default={"count": 0, "slot": -1})
        total = int(last["count"]) + count
        if count or any(entry["batch"] == batch for entry in counts):
            slot = (last["slot"] + 1) % _SLOTS
            self._write(f"errors/{slot}", [], batch=batch, count=total, slot=slot)
        return total

    def release(self, table: TableId) -> None:
        """Release a table from quarantine; the next start of the query ingests it again.

        Raises `SchemaChangeError` if the table is not in quarantine.
        """
        state, _ = self.load()
        if table not in state.quarantined:
            names = ", ".join(sorted(map(str, state.quarantined))) or "none"
            raise SchemaChangeError(
                f"table {table} is not in quarantine; tables in quarantine: {names}", table=str(table)
            )
        last = max((file.batch for file in self._files()), default=FIRST_BATCH)
        self._write(f"released/{uuid.uuid4().hex}", [], table=[*table.parts], batch=last)

    # --- drivers -------------------------------------------------------------------------------------------

    def begin_driver(self) -> None:
        """Make this the driver of the query. One that began before fails at its next `check_driver`."""
        last = max((int(driver["number"]) for driver in self._drivers()), default=-1)
        self._write(f"drivers/{(last + 1) % _SLOTS}", [], number=last + 1, driver=self._driver)

    def check_driver(self) -> None:
        """Raise `ConfigurationError` if another driver has begun since this one. Reuses its last answer for one second.

        A driver that was thought dead must not write after the one that replaced it.
        """
        now = time.monotonic()
        if now - self._checked < _TRUSTED:
            return
        newest = max(self._drivers(), key=lambda driver: int(driver["number"]), default=None)
        if newest is not None and newest["driver"] != self._driver:
            raise ConfigurationError(
                f"another driver has started with the checkpoint of this query ('{self.folder}') and continues it, so "
                "this driver stops. Run only one query at a time on a checkpoint"
            )
        self._checked = now

    def _drivers(self) -> list[dict[str, Any]]:
        """Return the last drivers. One that is being written is left out."""
        return [json.loads(note) for note in self._notes(f"{self.folder}/drivers") if _is_complete(note)]

    # --- files ---------------------------------------------------------------------------------------------

    def _without_released(self, state: IngestState, since: Mapping[TableId, int]) -> IngestState:
        """Return the state without tables that were released after the batch that put them into quarantine."""
        if not state.quarantined:
            return state
        heads = [_parsed(path, text)[0] for path, text in self._read(f"{self.folder}/released").items()]
        released = [(TableId(tuple(head["table"])), head["batch"]) for head in heads]
        kept = {
            table: why
            for table, why in state.quarantined.items()
            if not any(name == table and batch >= since[table] for name, batch in released)
        }
        return replace(state, quarantined=kept)

    def _counts(self) -> list[dict[str, Any]]:
        texts = self._read(f"{self.folder}/errors")
        # The count that is overwritten may be cut off; the others are older and enough.
        return [_parsed(path, text)[0] for path, text in texts.items() if _is_complete(text)]

    def _files(self) -> list[_StoreFile]:
        files = []
        for path in self._listed(f"{self.folder}/schemas"):
            name = _NAME.fullmatch(path)
            if name:
                files.append(_StoreFile(path, int(name[1]), name[2] is not None))
        return files

    def _listed(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder; none if there is no folder."""
        return [row["path"] for row in rows_below(uncached_reader(self._spark).format("binaryFile"), folder, "path")]

    def _texts(self, paths: list[str]) -> dict[str, str]:
        """Return the texts of files by their paths."""
        if not paths:
            return {}
        reader = uncached_reader(self._spark).format("binaryFile").option("ignoreMissingFiles", "true")
        rows = reader.load(paths).select("path", "content").collect()
        return {row["path"]: bytes(row["content"]).decode(errors="replace") for row in rows}

    def _notes(self, folder: str) -> list[str]:
        """Return the texts of one line below a folder, also while one of them is replaced."""
        return [row["value"] for row in note_rows(self._spark, folder, "text", "value STRING")]

    def _read(self, folder: str) -> dict[str, str]:
        return self._texts(self._listed(folder))

    def _write(self, name: str, entries: Iterable[Mapping[str, Any]], **head: Any) -> None:
        from pyspark.sql import types as T

        schema = T.StructType([T.StructField("value", T.StringType())])
        rows = self._spark.createDataFrame([(file_text(entries, **head),)], schema)
        rows.coalesce(1).write.mode("overwrite").text(f"{self.folder}/{name}")


def file_text(entries: Iterable[Mapping[str, Any]], **head: Any) -> str:
    """Return the text of a file: its head, with a checksum of all, and its objects."""
    lines = [json.dumps(entry, sort_keys=True) for entry in entries]
    head = {"version": VERSION, "lines": len(lines), **head}
    return "\n".join([json.dumps({**head, "checksum": _checksum(head, lines)}, sort_keys=True), *lines])


def _checksum(head: Mapping[str, Any], lines: Iterable[str]) -> int:
    return zlib.crc32("\n".join([json.dumps(head, sort_keys=True), *lines]).encode())


def _is_complete(text: str) -> bool:
    """Whether a file has all its lines, unchanged: their number and the checksum are in its first line."""
    first, *lines = text.splitlines() or [""]
    try:
        head = json.loads(first)
        return bool(head["lines"] == len(lines) and head.pop("checksum") == _checksum(head, lines))
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _parsed(path: str, text: str) -> list[dict[str, Any]]:
    """Return the objects of a file. Raises `SchemaChangeError` naming the file."""
    lines = text.splitlines()
    try:
        version = json.loads(lines[0])["version"]
    except (ValueError, KeyError, TypeError, IndexError):
        version = None
    if version is not None and version != VERSION:
        raise SchemaChangeError(
            f"the schema store's file '{path}' has version {version!r}, and this release of kvformat reads version "
            f"{VERSION}: use the release that wrote it, or a later one"
        )
    if version is None or not _is_complete(text):
        raise _broken(path)
    return [json.loads(line) for line in lines]


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Turn errors about missing or odd members of a file's objects into a `SchemaChangeError` that names the file."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ConfigurationError) as error:
        raise _broken(path) from error


def _broken(path: str) -> SchemaChangeError:
    return SchemaChangeError(
        f"the schema store's file '{path}' is lost, broken or cut off. Nothing was written to a target. Restore the "
        "file from a copy of the checkpoint, or start with a new checkpoint: types of existing tables are kept"
    )
