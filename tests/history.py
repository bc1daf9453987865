"""A small random database, and what connectors write of its history.

    Database  ->  events: +I of a snapshot, inserts, updates, changes of keys, deletions  ->  Writer  ->  Kafka records
              ->  `states`: its tables at each checkpoint

Each connector has its way to say what a row was before a change, and sends stretches of its log again. The rows of an
incremental snapshot stand between the changes, as Debezium writes them: it reads a chunk between two signals and leaves
out the rows that changed meanwhile, so that each is the row as it is at its place in the log.
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
    """A change of a row; `kind` is 'r', 'i', 'u' or 'd', `checkpoint` how many were there before."""

    kind: str
    before: Row | None
    after: Row | None
    checkpoint: int


@dataclass(frozen=True)
class Table:
    """A table: its columns with their Flink types, its key, and the columns whose values may be too large to repeat."""

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
OPERATIONS = {"i": 3, "u": 6, "k": 1, "d": 2, "r": 1, "truncate": 0}
"""How often each operation is: `k` changes a key, `r` reads rows again; to truncate takes a rule of the format's."""


@dataclass
class Database:
    """Random transactions, seeded. `events` is the log of each table, `states` its rows at each checkpoint."""

    seed: int
    transactions: int
    checkpoints: int
    events: dict[str, list[Event]] = field(default_factory=dict)
    states: dict[str, list[dict[Key, Row]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        for table in TABLES:
            self.events[table.name], self.states[table.name] = [], []
        rows: dict[str, dict[Key, Row]] = {table.name: {} for table in TABLES}
        for table in TABLES:
            for _ in range(80):
                self._do("i", table, rows[table.name], 0, kind="r")
        every = self.transactions // self.checkpoints
        for number in range(every * self.checkpoints):
            for _ in range(self._random.randint(1, 4)):
                table = self._random.choice(TABLES)
                (operation,) = self._random.choices([*OPERATIONS], [*OPERATIONS.values()])
                if operation == "i" and len(rows[table.name]) >= 120:
                    operation = "d"  # so that keys come again
                self._do(operation, table, rows[table.name], number // every)
            if (number + 1) % every == 0:
                for table in TABLES:
                    self.states[table.name].append(copy.deepcopy(rows[table.name]))

    def _do(self, operation: str, table: Table, rows: dict[Key, Row], at: int, kind: str = "i") -> None:
        log, choose = self.events[table.name], self._random
        if operation == "i":
            row = {name: self._value(type) for name, type in table.columns.items()} | self._free_key(table, rows)
            rows[table.key_of(row)] = row
            log.append(Event(kind, None, row, at))
        elif not rows:
            return
        elif operation == "r":
            for row in choose.sample([*rows.values()], min(4, len(rows))):
                log.append(Event("r", None, row, at))
        else:
            old = rows[choose.choice([*rows])]
            if operation == "d":
                del rows[table.key_of(old)]
                log.append(Event("d", old, None, at))
                return
            others = [name for name in table.columns if name not in table.key]
            new = old | {name: self._value(table.columns[name]) for name in choose.sample(others, choose.randint(1, 2))}
            if operation == "k":  # the database writes the whole row anew
                new |= self._free_key(table, rows)
                del rows[table.key_of(old)]
            rows[table.key_of(new)] = new
            log.append(Event("u", old, new, at))

    def _free_key(self, table: Table, rows: dict[Key, Row]) -> Row:
        """A key that no row has; deleted rows had it, now and then."""
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
    """A Kafka record; `checkpoint` says in which part of the history."""

    partition: int
    key: bytes
    value: bytes | None
    checkpoint: int


Message = Callable[[Table, Event, random.Random], "list[Row | None]"]


@dataclass(frozen=True)
class Connector:
    """What writes the history of a table: the format and its options, and the messages of an event.

    `moves` says that a change of the key is one message; then all keys have to be in one partition.
    """

    name: str
    format: str
    options: dict[str, str]
    messages: Message
    moves: bool

    def records(self, table: Table, events: list[Event], seed: int) -> Iterator[Record]:
        """The records of a log, some stretches of it twice: as after a restart that did not know how far it was."""
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
                    record = self._record(table, row, message)
                    written.append(record)
                    yield record

    def _split(self, table: Table, event: Event) -> list[Event]:
        """Debezium and GoldenGate write a change of the key as a deletion and an insert."""
        if event.before is None or event.after is None or self.moves:
            return [event]
        if table.key_of(event.before) == table.key_of(event.after):
            return [event]
        return [event._replace(kind="d", after=None), event._replace(kind="i", before=None)]

    def _record(self, table: Table, event: Event, message: Row | None) -> Record:
        row = event.after or event.before
        assert row is not None
        key = json.dumps({name: row[name] for name in table.key}).encode()
        value = None if message is None else json.dumps(message, ensure_ascii=False).encode()
        return Record(0 if self.moves else zlib.crc32(key) % 3, key, value, event.checkpoint)


def _image(row: Row | None) -> Row | None:
    """A row in JSON."""
    texts = {Decimal: str, bytes: lambda octets: base64.b64encode(octets).decode()}
    return None if row is None else {name: texts.get(type(v), lambda v: v)(v) for name, v in row.items()}


def _untouched(event: Event) -> list[str]:
    assert event.before is not None
    assert event.after is not None
    return [name for name, value in event.after.items() if event.before[name] == value]


def _debezium(before: str) -> Message:
    """Messages with all of the row before ('full'), with its key ('key'), or without it ('none'), and tombstones."""

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
    """Compressed: of an update the key and what is other, of a deletion the key."""
    old, new = _image(event.before), _image(event.after)
    if old is not None:
        old = {name: old[name] for name in table.key}
    if event.kind == "u" and new is not None:
        left_out = [name for name in _untouched(event) if name not in table.key]
        new = {name: value for name, value in new.items() if name not in left_out}
    op = {"u": "U", "d": "D"}.get(event.kind, "I")
    return [{"table": table.name, "op_type": op, "before": old, "after": new}]


def _old(event: Event) -> Row | None:
    """Of the row before an update what is other."""
    if event.kind != "u":
        return None
    same = _untouched(event)
    return {name: value for name, value in (_image(event.before) or {}).items() if name not in same}


def _maxwell(table: Table, event: Event, _: random.Random) -> list[Row | None]:
    kind = {"u": "update", "d": "delete"}.get(event.kind, "insert")
    return [{"table": table.name, "type": kind, "data": _image(event.after or event.before), "old": _old(event)}]


def _canal(table: Table, event: Event, _: random.Random) -> list[Row | None]:
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
    Connector("maxwell", "maxwell-json", {}, _maxwell, True),
    Connector("maxwell, upsert", "maxwell-json", _UPSERT, _maxwell, True),
)
