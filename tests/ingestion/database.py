"""A database of several tables, its changes as Canal writes them to one topic, and its tables at the end.

    orders, items, late   a key, in all partitions: columns are added, widened, dropped and renamed; keys change.
                          `late` is created in the middle
    basket                truncated again and again
    draft                 dropped and created again
    log                   no key, inserts only
    broken                no key; an update in the middle puts it into quarantine

Between the changes are bad records: no JSON, no table, no types, an unknown operation, a key that is NULL.

The first row of a table and of each column is in partition 0. So the order of the columns is the same for batches of
any size. The records of a key are in one partition. So are those of `basket` and `draft`, unless `spread`: a TRUNCATE
is ordered among the rows of other partitions only if they are in its batch.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kvformat.registry import latest_by_key

PARTITIONS = 3
_START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
_KEYS = 12
_PLACE = ("_kvformat_partition", "_kvformat_offset", "row_index")
Make = Callable[[random.Random], Any]


def _day(rng: random.Random) -> dt.datetime:
    return dt.datetime(2024, 2, rng.randrange(1, 29))


@dataclass(frozen=True)
class _Stage:
    """A type of a column in Canal's `mysqlType`, with values of it, and the column's type in Spark from then on."""

    mysql: str
    spark: str
    make: Make


# The types that a column has one after the other.
_COLUMNS: dict[str, tuple[_Stage, ...]] = {
    "customer": (_Stage("int", "int", lambda r: r.randrange(1000)),),
    "client": (_Stage("int", "int", lambda r: r.randrange(1000)),),
    "price": (
        _Stage("decimal(10,2)", "decimal(10,2)", lambda r: Decimal(r.randrange(10**6)) / 100),
        _Stage("decimal(14,4)", "decimal(14,4)", lambda r: Decimal(r.randrange(10**12)) / 10**4),
    ),
    "note": (_Stage("varchar(20)", "string", lambda r: r.choice(["", "a", "ü", 'say "x"', "7"])),),
    "paid": (_Stage("tinyint(1)", "boolean", lambda r: r.random() < 0.5),),
    "day": (
        _Stage("date", "date", _day),
        _Stage("datetime(3)", "timestamp_ntz", lambda r: _day(r) + dt.timedelta(milliseconds=1)),
    ),
    "amount": (
        _Stage("int", "int", lambda r: r.randrange(100)),
        _Stage("bigint", "bigint", lambda r: r.randrange(2**40)),
        _Stage("varchar(40)", "string", lambda r: r.choice(["many", "12"])),
    ),
    "score": (
        _Stage("int", "int", lambda r: r.randrange(100)),
        _Stage("double", "double", lambda r: r.randrange(100) + 0.5),
    ),
}
# (`add`, column), (`widen`, column), (`drop`, column), (`rename`, old name, new name)
_CHANGES: tuple[tuple[str, ...], ...] = (
    ("add", "paid"),
    ("widen", "price"),
    ("add", "day"),
    ("drop", "note"),
    ("widen", "day"),
    ("rename", "customer", "client"),
    ("add", "amount"),
    ("widen", "amount"),
    ("add", "score"),
    ("widen", "score"),
    ("widen", "amount"),
)
_FIRST = ("customer", "price", "note")


@dataclass
class Table:
    """A table of the database. `columns` are the current ones with their stages; `seen` all that it ever had.

    changes: the places of its changes since it was emptied, as partition, offset and index in the record.
    """

    name: str
    keyed: bool = True
    partition: int | None = None
    columns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_FIRST, 0))
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_FIRST, 0))
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    changes: list[tuple[int, int, int]] = field(default_factory=list)
    next_id: int = 0
    started: bool = False
    exists: bool = False

    def mysql_types(self) -> dict[str, str]:
        """Return MySQL's types of the current columns."""
        return {"id": "bigint"} | {name: _COLUMNS[name][stage].mysql for name, stage in self.columns.items()}

    def types(self) -> dict[str, str]:
        """Return Spark's types of the columns that the target has at the end, in order."""
        return {"id": "bigint"} | {name: _COLUMNS[name][stage].spark for name, stage in self.seen.items()}

    def expected(self) -> list[tuple[Any, ...]]:
        """Return the rows at the end, in the target's columns and types, sorted."""
        rows = [tuple(_as(row.get(name), t) for name, t in self.types().items()) for row in self.rows.values()]
        return sorted(rows, key=repr)


def _as(value: Any, t: str) -> Any:
    """Return a value as one of a type of Spark."""
    if value is None:
        return None
    if t == "string":
        return str(value)
    if t == "double":
        return float(value)
    if t == "date":
        return value.date()
    return value.quantize(Decimal("0.0001")) if t.startswith("decimal") else value


@dataclass
class Database:
    """The records so far, as Kafka's source gives them, and the tables. `bad` are the places of the bad records.

    of_broken: the ids of the rows that each record of `broken` inserts, by the record's place.
    """

    rng: random.Random
    spread: bool = False
    records: list[tuple[Any, ...]] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    bad: list[tuple[int, int]] = field(default_factory=list)
    offsets: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    of_broken: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for table in (
            Table("orders"),
            Table("items"),
            Table("late"),
            Table("basket", partition=None if self.spread else 1),
            Table("draft", partition=None if self.spread else 2),
            Table("log", keyed=False),
            Table("broken", keyed=False),
        ):
            self.tables[table.name] = table

    def batches(self, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the records in batches."""
        for start in range(0, len(self.records), size):
            yield self.records[start : start + size]

    # --- records -----------------------------------------------------------------------------------------------

    def send(self, message: dict[str, Any] | bytes, partition: int) -> tuple[int, int]:
        """Add a record and return its place."""
        value = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        time = _START + dt.timedelta(seconds=len(self.records))
        place = partition, self.offsets[partition]
        self.records.append((None, value, "shop", *place, time, 0, None))
        self.offsets[partition] += 1
        return place

    def change(self, table: Table, kind: str, rows: list[dict[str, Any]], old: list[dict[str, Any]] | None) -> None:
        """Add a message with rows."""
        stages = table.mysql_types()
        message = {
            "data": [_texts(row, stages) for row in rows],
            "database": "shop",
            "es": 1700000000000 + len(self.records),
            "id": len(self.records),
            "isDdl": False,
            "mysqlType": stages,
            "old": None if old is None else [_texts(row, stages) for row in old],
            "pkNames": ["id"] if table.keyed else None,
            "sql": "",
            "table": table.name,
            "ts": 1700000000500 + len(self.records),
            "type": kind,
        }
        place = self.send(message, self.partition(table, rows[0]["id"]))
        table.changes += ((*place, index) for index in range(len(rows) * (2 if kind == "UPDATE" else 1)))
        if table.name == "broken":
            self.of_broken[place] = [row["id"] for row in rows] if kind == "INSERT" else []

    def statement(self, table: Table, kind: str, sql: str) -> None:
        """Add a message with a statement."""
        message = {"data": None, "database": "shop", "isDdl": True, "mysqlType": None, "old": None, "pkNames": None}
        self.send(message | {"sql": sql, "table": table.name, "type": kind}, table.partition or 0)

    def partition(self, table: Table, key: Any) -> int:
        return int(key) % PARTITIONS if table.partition is None else table.partition

    # --- operations --------------------------------------------------------------------------------------------

    def row(self, table: Table, key: int) -> dict[str, Any]:
        """Return a new row with the current columns."""
        made: dict[str, Any] = {"id": key}
        for name, stage in table.columns.items():
            kinds = _COLUMNS[name][: stage + 1]
            made[name] = None if self.rng.random() < 0.2 else self.rng.choice(kinds).make(self.rng)
        return made

    def write(self, table: Table, key: int | None = None) -> None:
        """Insert, update or delete a row, or change its key."""
        rng = self.rng
        if not table.keyed:
            if not table.started:
                table.next_id = 0
            rows = [self.row(table, table.next_id)]
            if rng.random() < 0.2:  # several rows in a message
                rows.append(self.row(table, table.next_id + PARTITIONS))
                table.next_id += PARTITIONS
            table.rows |= {row["id"]: row for row in rows}
            table.next_id += 1 + (PARTITIONS if len(rows) > 1 else 0)
            self.change(table, "INSERT", rows, None)
        else:
            key = rng.randrange(_KEYS) if key is None else key
            before = table.rows.get(key)
            if before is None:
                table.rows[key] = self.row(table, key)
                self.change(table, "INSERT", [table.rows[key]], None)
            elif rng.random() < 0.2:
                del table.rows[key]
                columns = ("id", *table.columns)
                self.change(table, "DELETE", [{name: before.get(name) for name in columns}], None)
            else:
                after = self.row(table, key)
                moved = key + PARTITIONS * rng.randrange(1, 4)
                if rng.random() < 0.15 and moved not in table.rows:
                    after["id"] = moved
                del table.rows[key]
                table.rows[after["id"]] = after
                current = {name: before.get(name) for name in after}
                old = {name: value for name, value in current.items() if value != after[name]}
                self.change(table, "UPDATE", [after], [old])
        table.started = table.exists = True

    def alter(self, table: Table, change: tuple[str, ...]) -> None:
        """Change the columns of a table, and insert or update a row with them in partition 0."""
        kind, name, *new = change
        if kind == "add":
            table.columns[name] = 0
        elif kind == "widen":
            table.columns[name] += 1
        elif kind == "drop":
            del table.columns[name]
        else:
            table.columns = {new[0] if n == name else n: stage for n, stage in table.columns.items()}
        table.seen |= table.columns
        self.statement(table, "ALTER", f"ALTER TABLE {table.name} {' '.join(change)}")
        stage = table.columns.get(new[0] if new else name)
        row = self.row(table, 0)
        if stage is not None:
            changed = new[0] if new else name
            row[changed] = _COLUMNS[changed][stage].make(self.rng)
        before = table.rows.get(0)
        table.rows[0] = row
        if before is None:
            self.change(table, "INSERT", [row], None)
        else:
            current = {name: before.get(name) for name in row}
            self.change(table, "UPDATE", [row], [{n: v for n, v in current.items() if v != row[n]}])

    def empty(self, table: Table, kind: str) -> None:
        """TRUNCATE or drop a table."""
        table.rows.clear()
        table.changes.clear()
        table.exists = kind == "TRUNCATE"
        self.statement(table, kind, f"{'TRUNCATE' if kind == 'TRUNCATE' else 'DROP'} TABLE {table.name}")

    def add_bad(self, table: Table) -> None:
        """Add a bad record."""
        number, types = len(self.records), table.mysql_types()
        row = _texts(self.row(table, 0), types)
        whole = {"database": "shop", "table": table.name, "type": "INSERT", "isDdl": False, "old": None}
        whole |= {"mysqlType": types, "pkNames": ["id"], "number": number, "data": [row]}
        messages: list[Any] = [
            b"{no json %d" % number,
            {key: value for key, value in whole.items() if key != "database"},
            whole | {"data": [row | {"id": None}]},
            whole | {"data": [row, row | {"id": None}]},
            whole | {"mysqlType": None},
            whole | {"type": "UNKNOWN"},
        ]
        self.bad.append(self.send(self.rng.choice(messages), self.rng.randrange(PARTITIONS)))


def _texts(row: dict[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """Return the values as Canal's texts."""
    return {name: _text(value, types.get(name, "")) for name, value in row.items()}


def _text(value: Any, mysql_type: str) -> str | None:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if mysql_type == "date" else value.isoformat(" ", "milliseconds")
    return None if value is None else str(value)


def generated(seed: int, count: int, *, spread: bool = False) -> Database:
    """Return a database after about `count` records."""
    made = Database(random.Random(seed), spread)
    rng, tables = made.rng, made.tables
    begins = {name: 0.4 if name == "late" else 0.0 for name in tables}
    done = dict.fromkeys(("orders", "items", "late"), 0)
    quarantined = False
    while len(made.records) < count:
        progress = len(made.records) / count
        table = rng.choice([table for name, table in tables.items() if begins[name] <= progress])
        if not table.started:
            made.statement(table, "CREATE", f"CREATE TABLE {table.name}")
            made.write(table, 0)
            continue
        if table.name in done:
            own = (progress - begins[table.name]) / (1 - begins[table.name])
            if own * (len(_CHANGES) + 1) > done[table.name] + 1 and done[table.name] < len(_CHANGES):
                made.alter(table, _CHANGES[done[table.name]])
                done[table.name] += 1
                continue
        if tables["orders"].started and rng.random() < 0.06:
            made.add_bad(tables["orders"])
        elif table.name == "broken" and progress > 0.5 and not quarantined:
            quarantined = True
            key = next(iter(table.rows))
            made.change(table, "UPDATE", [table.rows[key]], [{"note": "before"}])
        elif table.name in ("basket", "draft") and rng.random() < 0.15:
            made.empty(table, "TRUNCATE" if table.name == "basket" else "ERASE")
        else:
            made.write(table)
    return made


def check_tables(
    database: Database, read: Callable[[str], Any], letters: Collection[tuple[int, int]], *, changes: bool = False
) -> int:
    """Compare all tables with the database, and the places of the dead letters. Returns the number of rows.

    `read` returns a table's frame, None if there is no such table. With `changes` a table has all changes since it was
    emptied. Otherwise `broken` goes into quarantine: each of its records is in the table or in the dead letters, and
    the batches decide which.
    """
    compared = 0
    found = Counter(letters)
    for table in database.tables.values():
        frame = read(f"shop.{table.name}")
        if not table.exists:
            assert frame is None, f"{table.name} was dropped"
            continue
        if frame is None and table.name == "broken" and not changes:  # all its records are in one batch
            assert all(found.pop(place, 0) == 1 for place in database.of_broken)
            continue
        assert frame is not None, table.name
        if changes:
            places = Counter(tuple(row) for row in frame.select(*_PLACE).collect())
            assert (table.name, places) == (table.name, Counter(table.changes))
            compared += places.total()
            frame = latest_by_key(frame, ["id"], [*_PLACE]).drop(*_PLACE, "_kvformat_topic")
        assert frame.dtypes == [*table.types().items()], f"{table.name}: {frame.dtypes}, not {table.types()}"
        rows = sorted((tuple(row) for row in frame.collect()), key=repr)
        compared += 0 if changes else len(rows)
        expected = table.expected()
        if table.name == "broken" and not changes:
            lost = [row for place, ids in database.of_broken.items() if found.pop(place, 0) for row in ids]
            expected = [row for row in expected if row[0] not in lost]
        missing, extra = [row for row in expected if row not in rows], [row for row in rows if row not in expected]
        assert rows == expected, f"{table.name}: the rows {missing} are missing, and {extra} are too many"
    assert found == Counter(database.bad), "the dead letters"
    return compared
