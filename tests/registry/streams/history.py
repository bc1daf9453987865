"""A small random database, and the messages that connectors write for its changes.

    Database  ->  events: snapshot rows, inserts, updates, key changes, deletes  ->  Connector  ->  records
              ->  `states`: its tables at each checkpoint

Connectors differ in how they write the row before a change. They repeat parts of their log. Debezium has two kinds of
snapshots. An incremental snapshot reads a chunk of rows between two watermarks. Until the second watermark, a change
of a key removes its row from the chunk; the remaining rows are written after these changes. A blocking snapshot writes
all rows at once. Then the log continues from its position before the snapshot, so changes follow rows that already
contain them.
Source: Debezium's pages "Ad hoc snapshots" and "Incremental snapshots" of each connector.
"""

from __future__ import annotations

import base64
import copy
import json
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

Row = dict[str, Any]
Key = tuple[Any, ...]
PLACEHOLDER = "__debezium_unavailable_value"


class Event(NamedTuple):
    """A change of a row.

    kind: 'r' (snapshot), 'i', 'u', 'd', or 't' (truncate).
    checkpoint: the number of checkpoints before the change.
    """

    kind: str
    before: Row | None
    after: Row | None
    checkpoint: int


@dataclass(frozen=True)
class Table:
    """A table: its columns with Flink types, its key, and the columns with large values that updates may omit."""

    name: str
    columns: dict[str, str]
    key: tuple[str, ...]
    large: tuple[str, ...]

    def key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{name}` {type}" for name, type in self.columns.items())


TABLES = (
    Table("item", {"id": "INT", "name": "STRING", "n": "BIGINT", "t": "STRING", "o": "BYTES"}, ("id",), ("t", "o")),
    Table("line", {"no": "INT", "a": "DECIMAL(10, 2)", "t": "STRING", "of": "STRING"}, ("of", "no"), ("t",)),
)
OPERATIONS = {"i": 3, "u": 6, "k": 1, "d": 2, "chunk": 1, "snapshot": 0.05}
"""Weights of the operations. `k` changes a key, `chunk` and `snapshot` write existing rows."""
TRUNCATE = {"truncate": 0.1}


class _Chunk(NamedTuple):
    """Rows of an incremental snapshot without changes since they were read, and the end of the chunk in the log."""

    rows: dict[Key, Row]
    ends: int


@dataclass
class Database:
    """A database with seeded random transactions.

    events: the log of each table.
    states: the rows of each table at each checkpoint.
    truncates: whether tables are sometimes truncated.
    kept: the rows at each checkpoint of a copy that ignores truncates.
    """

    seed: int
    transactions: int
    checkpoints: int
    truncates: bool = False
    events: dict[str, list[Event]] = field(default_factory=dict)
    states: dict[str, list[dict[Key, Row]]] = field(default_factory=dict)
    kept: dict[str, list[dict[Key, Row]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._rows: dict[str, dict[Key, Row]] = {table.name: {} for table in TABLES}
        self._lost: dict[str, dict[Key, Row]] = {table.name: {} for table in TABLES}
        self._chunks: dict[str, _Chunk] = {}
        for table in TABLES:
            self.events[table.name], self.states[table.name], self.kept[table.name] = [], [], []
            for _ in range(80):
                self._insert(table, 0, kind="r")
        weights = OPERATIONS | (TRUNCATE if self.truncates else {})
        every = self.transactions // self.checkpoints
        for number in range(every * self.checkpoints):
            for _ in range(self._random.randint(1, 4)):
                (operation,) = self._random.choices([*weights], [*weights.values()])
                self._do(operation, self._random.choice(TABLES), number // every)
            if (number + 1) % every == 0:
                for table in TABLES:
                    rows = copy.deepcopy(self._rows[table.name])
                    self.states[table.name].append(rows)
                    self.kept[table.name].append(self._lost[table.name] | rows)

    def _do(self, operation: str, table: Table, at: int) -> None:
        rows, log, choose = self._rows[table.name], self.events[table.name], self._random
        if operation == "i" and len(rows) >= 120:
            operation = "d"  # so that keys are reused
        if operation == "i":
            self._insert(table, at)
        elif operation == "chunk":
            some = choose.sample([*rows.items()], min(4, len(rows)))
            self._chunks.setdefault(table.name, _Chunk(dict(some), len(log) + choose.randint(0, 8)))
        elif operation == "snapshot":
            place = len(log) - choose.randint(0, 12)
            while place < len(log) and log[place].checkpoint < at:
                place += 1
            log[place:place] = [Event("r", None, row, at) for row in rows.values()]
        elif operation == "truncate":
            self._lost[table.name] |= rows
            self._write(table, Event("t", None, None, at))
            for _ in range(choose.randint(20, 60)):  # a truncate is usually followed by a reload
                self._insert(table, at)
        elif rows:
            self._change(operation, table, at)

    def _insert(self, table: Table, at: int, kind: str = "i") -> None:
        row = {name: self._value(type) for name, type in table.columns.items()}
        self._write(table, Event(kind, None, row | self._free_key(table, self._rows[table.name]), at))

    def _change(self, operation: str, table: Table, at: int) -> None:
        rows, choose = self._rows[table.name], self._random
        old = rows[choose.choice([*rows])]
        if operation == "d":
            self._write(table, Event("d", old, None, at))
            return
        others = [name for name in table.columns if name not in table.key]
        new = old | {name: self._value(table.columns[name]) for name in choose.sample(others, choose.randint(1, 2))}
        if operation == "k":  # the database writes the complete row
            new |= self._free_key(table, rows)
        self._write(table, Event("u", old, new, at))

    def _write(self, table: Table, event: Event) -> None:
        """Apply the event and append it to the log, followed by the chunk that ends here."""
        rows, log, chunk = self._rows[table.name], self.events[table.name], self._chunks.get(table.name)
        for row in (event.before, event.after):
            if row is not None:
                key = table.key_of(row)
                for each in (rows, self._lost[table.name], {} if chunk is None else chunk.rows):
                    each.pop(key, None)
        if event.after is not None:
            rows[table.key_of(event.after)] = event.after
        log.append(event)
        if event.kind == "t":
            rows.clear()
            self._chunks.pop(table.name, None)
        elif chunk is not None and len(log) >= chunk.ends:
            log += [Event("r", None, row, event.checkpoint) for row in chunk.rows.values()]
            del self._chunks[table.name]

    def _free_key(self, table: Table, rows: dict[Key, Row]) -> Row:
        """Return an unused key. It is sometimes the key of a deleted row."""
        while True:
            row: Row = {}
            for name in table.key:
                number = self._random.randrange(220)
                row[name] = number if table.columns[name] == "INT" else f"of {number % 7}"
            if table.key_of(row) not in rows:
                return row

    def _value(self, type: str) -> Any:
        choose = self._random
        if choose.random() < 0.1:
            return None
        if type in ("INT", "BIGINT"):
            return choose.randrange(10**6)
        if type.startswith("DECIMAL"):
            return Decimal(choose.randrange(10**6)).scaleb(-2)
        if type == "BYTES":
            return choose.randbytes(5)
        return choose.choice(["", 'a "quoted"\n', "é😀", "\\", "plain"]) + str(choose.randrange(10**4))


class Record(NamedTuple):
    """A Kafka record and the checkpoint of the history that it belongs to."""

    partition: int
    key: bytes | None
    value: bytes | None
    checkpoint: int


Message = Callable[[Table, Event, random.Random], "list[Row | None]"]


@dataclass(frozen=True)
class Connector:
    """Writes the history of a table as messages.

    moves: whether a change of the key is one message. Then all keys must be in one partition. Truncates also need one
        partition, because their message has no key.
    tells: whether the connector writes a message for a truncate. Maxwell does not.
    """

    name: str
    format: str
    options: dict[str, str]
    messages: Message
    moves: bool
    tells: bool = True

    def records(self, table: Table, events: list[Event], seed: int) -> Iterator[Record]:
        """Return the records of a log. Some parts are repeated, as after a restart from an older offset."""
        partitions = 1 if self.moves or any(event.kind == "t" for event in events) else 3
        choose = random.Random(f"{seed} {self.name}")
        written: list[Record] = []
        for event in events:
            if written and written[-1].checkpoint == event.checkpoint and choose.random() < 0.02:
                again = [
                    record for record in written[-choose.randint(1, 12) :] if record.checkpoint == event.checkpoint
                ]
                yield from again
                written += again
            for row in self._split(table, event):
                for message in self.messages(table, row, choose):
                    record = self._record(table, row, message, partitions)
                    written.append(record)
                    yield record

    def _split(self, table: Table, event: Event) -> list[Event]:
        """Return the events with key changes as a delete and an insert, as Debezium and GoldenGate write them."""
        if event.before is None or event.after is None or self.moves:
            return [event]
        if table.key_of(event.before) == table.key_of(event.after):
            return [event]
        return [event._replace(kind="d", after=None), event._replace(kind="i", before=None)]

    def _record(self, table: Table, event: Event, message: Row | None, partitions: int) -> Record:
        row = event.after or event.before
        key = None if row is None else json.dumps({name: row[name] for name in table.key}).encode()
        value = None if message is None else json.dumps(message, ensure_ascii=False).encode()
        return Record(zlib.crc32(key or b"") % partitions, key, value, event.checkpoint)


def _image(row: Row | None) -> Row | None:
    """Return a row as JSON."""
    texts = {Decimal: str, bytes: lambda octets: base64.b64encode(octets).decode()}
    return None if row is None else {name: texts.get(type(v), lambda v: v)(v) for name, v in row.items()}


def _untouched(event: Event) -> list[str]:
    assert event.before is not None
    assert event.after is not None
    return [name for name, value in event.after.items() if event.before[name] == value]


def _debezium(before: str) -> Message:
    """Writes the old row completely ('full'), only its key ('key'), or not at all ('none'), and tombstones."""

    def messages(table: Table, event: Event, choose: random.Random) -> list[Row | None]:
        old, new = _image(event.before), _image(event.after)
        if old is not None and before == "key":
            old = {name: old[name] if name in table.key else None for name in old} if event.kind == "d" else None
        if before == "none":
            old = None
        if event.kind == "u" and new is not None:
            for name in table.large:
                if name in _untouched(event) and new[name] is not None and choose.random() < 0.7:
                    octets = table.columns[name] == "BYTES"
                    new[name] = base64.b64encode(PLACEHOLDER.encode()).decode() if octets else PLACEHOLDER
        op = {"i": "c"}.get(event.kind, event.kind)
        message: Row = {"before": old, "after": new, "source": {"table": table.name}, "op": op}
        return [message, None] if op == "d" else [message]

    return messages


def _golden_gate(table: Table, event: Event, _: random.Random) -> list[Row | None]:
    """Writes compressed records: key and changed columns of an update, the key of a delete."""
    old, new = _image(event.before), _image(event.after)
    if old is not None:
        old = {name: old[name] for name in table.key}
    if event.kind == "u" and new is not None:
        left_out = [name for name in _untouched(event) if name not in table.key]
        new = {name: value for name, value in new.items() if name not in left_out}
    op = {"u": "U", "d": "D", "t": "T"}.get(event.kind, "I")
    return [{"table": table.name, "op_type": op, "before": old, "after": new}]


def _old(event: Event) -> Row | None:
    """Return the changed columns of the old row of an update."""
    if event.kind != "u":
        return None
    same = _untouched(event)
    return {name: value for name, value in (_image(event.before) or {}).items() if name not in same}


def _maxwell(table: Table, event: Event, _: random.Random) -> list[Row | None]:
    """Maxwell does not write a message for TRUNCATE."""
    if event.kind == "t":
        return []
    kind = {"u": "update", "d": "delete"}.get(event.kind, "insert")
    return [{"table": table.name, "type": kind, "data": _image(event.after or event.before), "old": _old(event)}]


def _canal(table: Table, event: Event, _: random.Random) -> list[Row | None]:
    if event.kind == "t":
        return [{"table": table.name, "type": "TRUNCATE", "data": None, "old": None, "isDdl": True}]
    kind = {"u": "UPDATE", "d": "DELETE"}.get(event.kind, "INSERT")
    old, data = _old(event), _image(event.after or event.before)
    texts = [{n: None if v is None else str(v) for n, v in row.items()} for row in (data, old) if row is not None]
    return [{"table": table.name, "type": kind, "data": texts[:1], "old": texts[1:] or None, "isDdl": False}]


_UPSERT, _KEEP = {"changelog.mode": "upsert"}, {"unchanged.columns": "keep"}
CONNECTORS = (
    Connector("debezium, full", "debezium-json", _KEEP, _debezium("full"), False),
    Connector("debezium, key", "debezium-json", _UPSERT | _KEEP, _debezium("key"), False),
    Connector("debezium, none", "debezium-json", _UPSERT | _KEEP, _debezium("none"), False),
    Connector("ogg", "ogg-json", _UPSERT | _KEEP, _golden_gate, False),
    Connector("canal", "canal-json", _UPSERT, _canal, True),
    Connector("maxwell", "maxwell-json", {}, _maxwell, True, False),
    Connector("maxwell, upsert", "maxwell-json", _UPSERT, _maxwell, True, False),
)
