"""The definition of a table: columns, options, primary key and watermark, and its text as a CREATE TABLE."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal

from kvformat.registry.contract.types import FlinkField, FlinkType, quoted

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_MOST_TWO_DIGITS = 99  # of an interval: Flink refuses a number with more digits, unless it has a precision
ColumnKind = Literal["physical", "metadata", "computed"]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table. `key` is the metadata key.

    A computed column has its expression in Flink SQL (`source`) and the type of its values. `refused` is the reason why
    it can't be evaluated; its type is then None.
    """

    name: str
    kind: ColumnKind
    type: FlinkType | None = None
    key: str = ""
    virtual: bool = False
    source: str = ""
    refused: str = field(default="", compare=False)  # it contains a position in the text


@dataclass(frozen=True, slots=True)
class Watermark:
    """An event-time column, and how many milliseconds late its rows may arrive."""

    column: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """The content of a CREATE TABLE; `options` are as written, without quotes.

    `short_name` is the name without catalog and database. `distribution` are the columns of DISTRIBUTED BY, none of
    them for `DISTRIBUTED INTO n BUCKETS`; None without the clause.
    """

    name: str
    columns: tuple[TableColumn, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    primary_key: tuple[str, ...] | None = None
    watermark: Watermark | None = None
    partition_keys: tuple[str, ...] = ()
    distribution: tuple[str, ...] | None = None
    short_name: str = field(default="", compare=False)

    def physical(self) -> FlinkType:
        """Return the physical columns as a ROW."""
        fields = (FlinkField(c.name, c.type) for c in self.columns if c.kind == "physical" and c.type is not None)
        return FlinkType("ROW", nullable=False, fields=tuple(fields))

    def metadata(self) -> tuple[TableColumn, ...]:
        """Return the metadata columns."""
        return tuple(column for column in self.columns if column.kind == "metadata")


def with_primary_key(table: TableDefinition, names: tuple[str, ...] | None) -> TableDefinition:
    """Return the table with this primary key, whose columns become NOT NULL."""
    keys = frozenset(names or ())
    columns = tuple(
        replace(column, type=replace(column.type, nullable=False))
        if column.name in keys and column.type is not None
        else column
        for column in table.columns
    )
    return replace(table, columns=columns, primary_key=names)


def create_table_text(table: TableDefinition, options: Mapping[str, str]) -> str:
    r"""Return a CREATE TABLE statement for the table with these options, on one line and without comments.

    Names and texts with control characters are written as U&'\0001', so that a person can see and copy them.
    """
    parts = []
    for column in table.columns:
        text = _name(column.name)
        if column.kind == "computed":
            text += f" AS {column.source}"
        else:
            text += f" {column.type}"
        if column.kind == "metadata":
            text += f" METADATA FROM {_literal(column.key)}" + (" VIRTUAL" if column.virtual else "")
        parts.append(text)
    if table.watermark is not None:
        name = _name(table.watermark.column)
        parts.append(f"WATERMARK FOR {name} AS {name} - INTERVAL {_interval(table.watermark.delay_ms)}")
    if table.primary_key:
        parts.append(f"PRIMARY KEY ({', '.join(map(_name, table.primary_key))}) NOT ENFORCED")
    options_text = ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in options.items())
    names = ".".join(map(_name, table.name.split(".")))
    by = f" PARTITIONED BY ({', '.join(map(_name, table.partition_keys))})" if table.partition_keys else ""
    return f"CREATE TABLE {names} ({', '.join(parts)}){by} WITH ({options_text})"


def _name(name: str) -> str:
    if not _CONTROL.search(name):
        return quoted(name)
    escaped = _escaped(name).replace('"', '""')
    return f'U&"{escaped}"'


def _literal(text: str) -> str:
    if not _CONTROL.search(text):
        return "'" + text.replace("'", "''") + "'"
    escaped = _escaped(text).replace("'", "''")
    return f"U&'{escaped}'"


def _escaped(text: str) -> str:
    """Return the text between the quotes of U&'...', where these are not doubled yet."""
    return _CONTROL.sub(lambda match: f"\\{ord(match.group()):04X}", text.replace("\\", "\\\\"))


def _interval(millis: int) -> str:
    """Return an interval as Flink reads it: a number has at most two digits, and three after `DAY(3)`."""
    for unit, length in (("SECOND", 1000), ("MINUTE", 60_000), ("HOUR", 3_600_000), ("DAY", 86_400_000)):
        if millis % length == 0 and millis // length <= _MOST_TWO_DIGITS:
            return f"'{millis // length}' {unit}"
    if millis < (_MOST_TWO_DIGITS + 1) * 1000:
        return f"'{Decimal(millis) / 1000}' SECOND"
    seconds, millis = divmod(millis, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    text = f"{days} {hours:02}:{minutes:02}:{seconds:02}.{millis:03}"
    return f"'{text}' DAY({max(3, len(str(days)))}) TO SECOND(3)"
