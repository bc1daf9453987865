"""Load recordings of real change data capture and compare the decoded tables (fixtures/recordings/README.md).

A recording has the messages that a connector wrote for a database's tables, and the final rows of the tables.
"""

from __future__ import annotations

import base64
import functools
import json
import lzma
import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from kvformat.codecs import KeyValueFormat

FOLDER = Path(__file__).parents[2] / "fixtures" / "recordings"
Row = dict[str, Any]
DAY = 86_400_000_000
_DURATION = re.compile(r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?)?")


@dataclass(frozen=True)
class Record:
    """A Kafka record."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    def event(self) -> Any:
        """The value as JSON, without Connect's schema. None if the value is not valid JSON."""
        if self.value is None or self.value[:1] == b"\0":
            return None
        event = json.loads(self.value)
        return event["payload"] if isinstance(event, dict) and set(event) == {"schema", "payload"} else event


@dataclass(frozen=True)
class Table:
    """A table of a recording: its declaration and its final rows."""

    recording: str
    name: str
    topic: str
    ddl: str
    key: tuple[str, ...]
    columns: dict[str, str]
    accepted: dict[str, Row] = field(default_factory=dict)
    scale: dict[str, float] = field(default_factory=dict)
    truth: str = ""
    source: str = ""

    def __str__(self) -> str:
        return f"{self.recording}: {self.name}"

    def statement(self, folder: Path) -> str:
        """Return the CREATE TABLE statement. Avro schemas are written to a folder."""
        if "file:SCHEMAS" not in self.ddl:
            return self.ddl
        to = folder / self.recording
        if not to.exists():
            to.mkdir(parents=True)
            for line in _lines(self.recording, "schemas"):
                (to / f"{line['id']}.avsc").write_text(json.dumps(line["schema"]), encoding="utf-8")
        return self.ddl.replace("file:SCHEMAS", f"file:{to}")

    def records(self) -> list[Record]:
        """Return the table's records, by partition and offset."""
        return [record for record in records(self.recording) if record.topic == self.topic and self._reads(record)]

    def _reads(self, record: Record) -> bool:
        if self.source:  # the topic has several tables, and no option selects one
            source = (record.event() or {}).get("source") or {}
            return f"{source.get('schema')}.{source.get('table')}" == self.source
        return True

    def rows(self) -> list[Row]:
        """Return the final rows of the table."""
        return [line["row"] for line in _lines(self.recording, "truth") if line["table"] == self.truth]


def names() -> list[str]:
    """Return all recordings."""
    return sorted(path.parent.name for path in FOLDER.glob("*/tables.json"))


def tables(recording: str) -> list[Table]:
    """Return the tables of a recording."""
    found = json.loads((FOLDER / recording / "tables.json").read_text(encoding="utf-8"))
    return [Table(recording, **{**table, "key": tuple(table["key"])}) for table in found]


@functools.cache
def records(recording: str) -> tuple[Record, ...]:
    """Return all records of a recording, by topic, partition and offset."""
    return tuple(_records(recording))


def _records(recording: str) -> Iterator[Record]:
    for line in _lines(recording, "records"):
        parts = [
            base64.b64decode(line[f"{part}_base64"]) if f"{part}_base64" in line else line[part] and line[part].encode()
            for part in ("key", "value")
        ]
        yield Record(line["topic"], line["partition"], line["offset"], line["timestamp"], *parts)


def _lines(recording: str, what: str) -> Iterator[Any]:
    with lzma.open(FOLDER / recording / f"{what}.jsonl.xz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


# --- decoding and folding --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Folded:
    """The decoded table: its final rows, and the messages that are errors."""

    rows: list[Row]
    errors: list[str]


def fold(table: Table, folder: Path) -> Folded:
    """Decode the records of a table as one batch, and apply the changes by key."""
    kv = KeyValueFormat.from_ddl(table.statement(folder))
    read = table.records()
    keys, values = (pa.array([getattr(record, part) for record in read], pa.binary()) for part in ("key", "value"))
    batch = kv.decode_batch(keys, values)
    rows = batch.rows.flatten() if pa.types.is_list(batch.rows.type) else batch.rows
    columns = {column.name: plain(rows.field(column.name)) for column in rows.type}
    kinds = batch.row_kinds.to_pylist()
    unchanged = columns.pop("unchanged_columns", [None] * len(kinds))
    changes = [{name: column[i] for name, column in columns.items()} for i in range(len(kinds))]
    errors = [] if batch.errors is None else [error for error in batch.errors.to_pylist() if error is not None]
    return Folded(_keyed(table, kinds, changes, unchanged) if table.key else _counted(kinds, changes), errors)


def _keyed(table: Table, kinds: list[str], changes: list[Row], unchanged: list[list[str] | None]) -> list[Row]:
    now: dict[str, Row] = {}
    before: dict[str, Row] = {}
    for kind, row, missing in zip(kinds, changes, unchanged, strict=True):
        key = repr([row[column] for column in table.key])
        if kind in ("-D", "-U"):
            before[key] = now.pop(key, {})
            continue
        old = now.get(key) or (before.get(key, {}) if kind == "+U" else {})
        now[key] = {**row, **{column: old.get(column) for column in missing or ()}}
    return list(now.values())


def _counted(kinds: list[str], changes: list[Row]) -> list[Row]:
    counts: Counter[str] = Counter()
    for kind, row in zip(kinds, changes, strict=True):
        counts[json.dumps(row, default=str)] += 1 if kind in ("+I", "+U") else -1
    assert min(counts.values(), default=0) >= 0, "a row was deleted more often than it was inserted"
    return [json.loads(row) for row in counts.elements()]


def plain(array: pa.Array) -> list[Any]:
    """Convert dates to days and timestamps and times to microseconds. Python's types have a smaller range."""
    kind = array.type
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_temporal(kind):
        per = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1 / 1000}[kind.unit]
        wide = array.cast(pa.int32()).cast(pa.int64()) if kind.bit_width == 32 else array.cast(pa.int64())
        return [None if value is None else value * per if per >= 1 else value // 1000 for value in wide.to_pylist()]
    if pa.types.is_list(kind):
        values, at = plain(array.values), array.offsets.to_pylist()
        return [values[at[i] : at[i + 1]] if valid else None for i, valid in enumerate(array.is_valid().to_pylist())]
    return array.to_pylist()  # type: ignore[no-any-return]


# --- comparing -------------------------------------------------------------------------------------------


def differences(table: Table, got: list[Row]) -> list[str]:
    """Return one line for each difference between the rows and the database's rows."""
    wanted = table.rows()
    if not table.key:
        found = Counter(str(_comparable(table, row)) for row in got)
        found.subtract(Counter(str(_comparable(table, row)) for row in wanted))
        return [f"{count:+} of {row}" for row, count in found.items() if count]
    by_key = {tuple(map(_text, (row[column] for column in table.key))): row for row in got}
    out = []
    for want in wanted:
        row = by_key.pop(tuple(map(_text, (want[column] for column in table.key))), None)
        if row is None:
            out.append(f"no row with the key {[want[column] for column in table.key]}")
        else:
            out += [
                f"{column}: {want[column]!r} in the database, read as {row[column]!r}"
                for column, kind in table.columns.items()
                if not _equal(table, column, kind, want[column], row[column])
            ]
    return out + [f"a row too many, with the key {key}" for key in by_key]


def _text(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _comparable(table: Table, row: Row) -> list[str]:
    return [
        str(Decimal(str(row[column])).normalize()) if kind == "dec" and row[column] is not None else str(row[column])
        for column, kind in table.columns.items()
    ]


def _equal(table: Table, column: str, kind: str, want: Any, got: Any) -> bool:
    if got is not None and column in table.scale:
        got = round(got * table.scale[column])
    when = table.accepted.get(column, {}).get("when")
    return same(kind, want, got) or (when is not None and ACCEPTED[when](want, got))


def _is_double(want: Any, got: Any) -> bool:
    return want is not None and got is not None and float(want) == float(got)


def _wraps(want: Any, got: Any) -> bool:
    if isinstance(want, str):  # the connector writes this value for an infinity
        return bool(got == (22_375_808 if want[0] == "-" else -29_575_808))
    if want is None or got is None:
        return False
    return bool(((want * 1000 + 2**63) % 2**64 - 2**63) // 1000 == got)


ACCEPTED: dict[str, Callable[[Any, Any], bool]] = {
    "any": lambda want, got: True,
    "null": lambda want, got: got is None,
    "milliseconds": lambda want, got: want is not None and got == want // 1000 * 1000,
    "wrapped": _wraps,
    "double": _is_double,
    "zero": lambda want, got: want in ("-0", "-0.0") and got == 0,
}
"""Rules for values that the connector changes. `tables.json` gives the reason for each."""


def same(kind: str, want: Any, got: Any) -> bool:
    """Return whether a decoded value equals the database's value."""
    if want is None or got is None:
        return want is None and got is None
    if kind.startswith("list:"):
        return len(want) == len(got) and all(same(kind[5:], *pair) for pair in zip(want, got, strict=True))
    return bool(_SAME.get(kind, lambda want, got: want == got)(want, got))


def _bits(want: str, got: Any) -> bool:
    return int(want or "0", 2) == (int.from_bytes(got, "little") if isinstance(got, bytes) else int(got))


def _number(want: Any, got: Any) -> bool:
    if isinstance(got, bytes):
        return want in (int.from_bytes(got, "little"), int.from_bytes(got, "big", signed=True))
    return int(want) == int(got)


def _time(want: int, got: Any) -> bool:
    if isinstance(got, str):
        hours, minutes, seconds = got.lstrip("-").rstrip("Z").split(":")
        size = int((Decimal(hours) * 3600 + Decimal(minutes) * 60 + Decimal(seconds)) * 1_000_000)
        got = -size if got[0] == "-" else size
    # A TIME(p) column has at most milliseconds, as in Flink.
    return want == got or (isinstance(got, int) and 0 <= want < DAY and got == want // 1000 * 1000)


def _decimal(want: str, got: Any) -> bool:
    try:
        return float(want) == got if isinstance(got, float) else Decimal(want) == Decimal(str(got))
    except ArithmeticError:  # no number
        return False


def _double(want: str, got: float) -> bool:
    return struct.pack("d", float(want)) == struct.pack("d", got) or (math.isnan(float(want)) and math.isnan(got))


def _float(want: str, got: float) -> bool:
    return struct.pack("f", float(want)) == struct.pack("f", got) or (math.isnan(float(want)) and math.isnan(got))


def _day(want: Any, got: int) -> bool:
    return (got < -(10**8) if want[0] == "-" else got > 10**8) if isinstance(want, str) else want == got


def _moment(want: Any, got: int) -> bool:
    if isinstance(want, str):
        return got <= -9_223_372_036_832_399_000 if want[0] == "-" else got >= 9_223_371_331_199_999_000
    return bool(want == got)


def _interval(want: list[int], got: Any) -> bool:
    months, days, micros = want
    if isinstance(got, int):
        return abs(int(months * 365.25 / 12 * DAY) + days * DAY + micros - got) <= 1
    found = _DURATION.fullmatch(got)
    assert found, got
    year, month, day, hour, minute, second = (Decimal(part or 0) for part in found.groups())
    rest = int((day * 86400 + hour * 3600 + minute * 60 + second) * 1_000_000)
    return months == year * 12 + month and days * DAY + micros == rest


def _document(want: str, got: Any) -> bool:
    if isinstance(got, str):
        got = json.loads(got)
    return bool(json.loads(want) == (dict(got) if isinstance(got, list) else got))


_SAME: dict[str, Callable[[Any, Any], bool]] = {
    "int": _number,
    "bool": lambda want, got: bool(want) == got,
    "boolint": lambda want, got: int(want) == int(got),
    "dec": _decimal,
    "float4": _float,
    "float8": _double,
    "bits": _bits,
    "bytes": lambda want, got: base64.b64decode(want) == got,
    "date": _day,
    "ts": _moment,
    "tstz": _moment,
    "time": _time,
    "timetz": _time,
    "bigtime": _time,
    "interval": _interval,
    "json": _document,
    "point": lambda want, got: [got["x"], got["y"]] == want,
    "set": lambda want, got: want == (got.split(",") if got else []) if isinstance(got, str) else want == got,
}
"""Comparison functions by kind of value. Other kinds are compared with ==."""
