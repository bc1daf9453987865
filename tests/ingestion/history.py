"""Generated histories of tables as Debezium writes them, the tables at their end, and queries run batch by batch."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvformat.ingestion import DeltaPathTarget, Pipeline, read_table
from kvformat.ingestion.query import IngestBatch, QuerySettings
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.registry.streams.dead_letters import DeadLetters

SOURCE = {
    "type": "kafka",
    "topic": "shop",
    "properties.bootstrap.servers": "127.0.0.1:9",
    "scan.startup.mode": "earliest-offset",
}
BY_ID = [{"source-table": r"\.*.\.*", "primary-keys": "id"}]
RECORDS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
_START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
# Columns that appear one after the other, each with the values of a type that gets wider.
_VALUES: dict[str, list[Callable[[random.Random], Any]]] = {
    "v": [lambda r: r.randrange(100), lambda r: r.randrange(100) + 0.5],
    "name": [lambda r: r.choice(["", "a", "ü", "2024-01-01x"])],
    "day": [lambda r: f"2024-02-{r.randrange(10, 29)}", lambda r: f"2024-02-03 12:00:{r.randrange(10, 59)}"],
    "flag": [lambda r: r.random() < 0.5, lambda r: "later a text"],
    "big": [lambda r: 2 ** r.randrange(40, 70)],
}


@dataclass
class History:
    """Records of several tables in three partitions, and the rows of each table by key at the end."""

    records: list[tuple[Any, ...]] = field(default_factory=list)
    tables: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=lambda: [0, 0, 0])

    def add(self, table: str, key: int, message: dict[str, Any] | None) -> None:
        """Add a message; the records of a key are in one partition."""
        partition = (key + len(table)) % len(self.offsets)
        value = None if message is None else json.dumps(message, ensure_ascii=False).encode()
        time = _START + dt.timedelta(seconds=len(self.records))
        self.records.append((None, value, "shop", partition, self.offsets[partition], time, 0, None))
        self.offsets[partition] += 1

    def batches(self, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the records in batches."""
        for start in range(0, len(self.records), size):
            yield self.records[start : start + size]


def generated(seed: int, count: int, tables: tuple[str, ...] = ("orders", "items")) -> History:
    """Return a history: rows are inserted, changed and deleted, and columns are added and get wider types."""
    rng, history = random.Random(seed), History(tables={f"shop.{table}": {} for table in tables})
    for number in range(count):
        table = rng.choice(tables)
        rows = history.tables[f"shop.{table}"]
        key = rng.randrange(6)
        before = rows.get(key)
        if before is not None and rng.random() < 0.25:
            del rows[key]
            after, operation = None, "d"
        else:
            after, operation = {"id": key, **_row(rng, number / count)}, "c" if before is None else "u"
            rows[key] = after
        source = {"db": "shop", "table": table}
        history.add(table, key, {"before": before, "after": after, "op": operation, "source": source})
        if operation == "d":
            history.add(table, key, None)
    return history


def _row(rng: random.Random, progress: float) -> dict[str, Any]:
    names = list(_VALUES)[: 1 + int(progress * len(_VALUES))]
    row = {}
    for name in names:
        kinds = _VALUES[name]
        kind = rng.choice(kinds[: 1 + int(progress * len(kinds))])
        row[name] = None if rng.random() < 0.2 else kind(rng)
    return row


def expected(history: History, table: str, types: dict[str, str]) -> dict[int, dict[str, Any]]:
    """Return the rows of a table at the end, with values of the given Spark types."""
    return {
        key: {name: _value(row.get(name), t) for name, t in types.items()} for key, row in history.tables[table].items()
    }


def _value(value: Any, t: str) -> Any:
    if value is None:
        return None
    if t == "double":
        return float(value)
    if t == "date":
        return dt.date.fromisoformat(value)
    if t == "timestamp_ntz":
        return dt.datetime.fromisoformat(value)
    if t == "string" and not isinstance(value, str):
        return json.dumps(value)
    if t.startswith("decimal"):
        from decimal import Decimal

        return Decimal(value)
    return value


class KilledError(Exception):
    pass


class BatchQuery:
    """A query on batches of records, without a stream; `kill` is the step after which each batch fails once."""

    def __init__(self, spark: Any, folder: Path, source: dict[str, str] | None = None, **more: Any) -> None:
        settings = more.pop("settings", {})
        kept = more.pop("letters", None)
        self.spark, self.folder, self.batch_id = spark, folder, 0
        self.target = more.pop("target", DeltaPathTarget(str(folder / "out")))
        more.setdefault("transform", BY_ID)
        sink = more.pop("sink", {"type": "delta", "path": "x"})
        self.pipeline = Pipeline({**SOURCE, **(source or {})}, sink, **more)
        letters = DeadLetters.of(kept, {}) if kept is not None else None
        self.settings = QuerySettings(str(folder / "checkpoint"), letters, **settings)
        self.steps: list[str] = []
        self._kill: str | None = None
        self._batch = self._started()

    def _started(self) -> IngestBatch:
        return IngestBatch(self.pipeline, self.target, self.settings, self._step)

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if self._kill is not None and name == self._kill:
            self._kill = None
            raise KilledError(name)

    def restart(self) -> None:
        self._batch = self._started()

    def run(self, records: Iterable[Any], kill: str | None = None) -> None:
        """Run a batch; with `kill`, fail after that step, start again, and repeat it."""
        frame = self.spark.createDataFrame(list(records), RECORDS)
        self._kill = kill
        try:
            self._batch(frame, self.batch_id)
        except KilledError:
            self.restart()
            self._batch(frame, self.batch_id)
        assert self._kill is None, f"the batch has no step {kill!r}"
        self.batch_id += 1

    def table(self, name: str | tuple[str, ...]) -> Any:
        """Return a table; a name is split at its dots, a tuple is not."""
        table = TableId(name) if isinstance(name, tuple) else name
        return read_table(self.spark, str(self.folder / "out"), table)

    def rows(self, name: str | tuple[str, ...], *order: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table(name).orderBy(*(order or ("id",))).toArrow().to_pylist()
        return rows
