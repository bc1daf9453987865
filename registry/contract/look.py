"""Discovery of tables and columns in messages: the arguments and the answer of `Format.looker`.

Ingestion looks at all messages of a batch before it decodes one. A message contributes the columns that the known
schema of its table does not have, and those whose type does not read the message's value. A value that the known type
reads without loss contributes nothing. A null contributes nothing, unless `LookRequest.nulls` asks for its column.

    known     db.t: id BIGINT, v INT
    message   {"id": 1, "v": 2.5, "w": null, "x": "a"}
    answer    v DOUBLE, x STRING

The caller merges the types, so the order of messages and tasks does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import pyarrow as pa

from kvformat.registry.contract.types import FlinkType

TableName = tuple[str, ...]
"""The parts of a table's name, one to three. A part may contain dots."""


@dataclass(frozen=True, slots=True)
class KnownTable:
    """The columns of a table in their order, as its messages have them, and what is known beside their types.

    as_text: columns whose values are read as text, because the format can't read all of them by their type.
    key: the names of the primary key that the messages declare; None if no message did.
    forms: what the texts of a column have in common, as bits of the format's choice, so that the column can become
    STRING with the same texts. Without texts a column has no entry.
    nulls: names that came with null only, of those that `LookRequest.nulls` asks for.
    """

    columns: Mapping[str, FlinkType]
    as_text: frozenset[str] = frozenset()
    key: tuple[str, ...] | None = None
    forms: Mapping[str, int] = field(default_factory=dict)
    nulls: frozenset[str] = frozenset()


def no_names(table: TableName) -> frozenset[str]:
    """Return no names."""
    return frozenset()


@dataclass(frozen=True, slots=True)
class LookRequest:
    """The known tables with which messages are compared, and how.

    known: the known tables by name. fixed: the types of columns in all tables, whatever the values look like.
    options: the options of the format that only ingestion has, without the format's name (`infer-schema.strategy`),
    with their defaults. part: whether the messages are the values or the keys of records. static: whether the types of
    known columns never change, as those of `fixed`. A value that such a type does not hold contributes only that its
    column is read as text: then a value that would be rounded or cut off makes a bad record. nulls: returns names by
    table. One that is not a known column contributes itself if it comes with null, once.
    """

    known: Mapping[TableName, KnownTable] = field(default_factory=dict)
    fixed: Mapping[str, FlinkType] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    part: Literal["key", "value"] = "value"
    static: bool = False
    nulls: Callable[[TableName], frozenset[str]] = no_names


@dataclass(frozen=True, slots=True)
class SeenColumn:
    """The contribution of a column's values.

    types: the distinct types of the values that do not fit, at most a few; the caller merges them. Empty if only
    `as_text` or `forms` is new, and for a name of `LookRequest.nulls` that came with null.
    message, place: the index of the first such message, and of the column within it.
    as_text: whether the column must be read as text from now on. forms: what its texts have in common, see
    `KnownTable`; None if they say nothing new. Forms of several messages are merged by `&`.
    """

    table: TableName
    name: str
    types: tuple[FlinkType, ...]
    message: int
    place: int
    as_text: bool = False
    forms: int | None = None


@dataclass(frozen=True, slots=True)
class SeenKey:
    """A primary key that a message declares and that differs from the known one."""

    table: TableName
    names: tuple[str, ...]
    message: int


@dataclass(frozen=True, slots=True)
class Looked:
    """The answer for a batch of messages.

    tables: the names of the tables of this batch. indices: for each message the index of its table (INT32), null for a
    message that gives no row: a bad record, a null value, a heartbeat, a message of a table that is not included.
    columns, keys: what is new, in the order of messages and places, each column and key once.
    changes: messages that truncate or drop their table, by index; they give no row, but `indices` has their table.
    errors: bad records without a table, by index; the text has its code (`ErrorCode.marked`). Their table can't be
    told, or they can't be looked at: a message without the types that it must declare, or with too many columns. A
    message with a table has no error here, even if it can't be decoded.
    """

    tables: tuple[TableName, ...]
    indices: pa.Int32Array
    columns: tuple[SeenColumn, ...] = ()
    keys: tuple[SeenKey, ...] = ()
    changes: Mapping[int, Literal["truncate", "drop"]] = field(default_factory=dict)
    errors: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """The columns of messages by the schemas that wrote them.

    numbers: for each message the index of its schema in `columns` (INT32), null for a message without one.
    columns: the types of each schema's columns, nullable, by name; empty for a schema that can't be read.
    """

    numbers: pa.Int32Array
    columns: tuple[Mapping[str, FlinkType], ...]


class Looker(Protocol):
    """Looks at batches of messages; keeps what it prepared for the known tables."""

    def look(self, messages: pa.BinaryArray, topics: pa.StringArray) -> Looked:
        """Return what the messages contribute. `topics` are the topics of their records."""
