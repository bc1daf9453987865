"""Changes of a table's schema, and their effect on it.

Each change names its table and has a JSON form: `{"add_column": {"table": ["db", "t"], "columns": [...]}}`. Its `tag`
is the name by which `include.schema.changes` and `exclude.schema.changes` select it.
Rules: Flink CDC's `SchemaChangeEvent` classes and `SchemaUtils`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, get_args

from kvformat.ingestion.errors import SchemaChangeError, table_error
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.registry.contract.types import FlinkType

Place = Literal["FIRST", "LAST", "BEFORE", "AFTER"]


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A new column and its place. `beside` is the column for BEFORE and AFTER, and None otherwise."""

    column: SchemaColumn
    place: Place = "LAST"
    beside: str | None = None


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A table is created."""

    tag: ClassVar[str] = "create.table"
    table: TableId
    schema: TableSchema

    def apply(self, schema: TableSchema | None) -> TableSchema:
        """Return the schema of the new table."""
        return self.schema

    def is_done(self, schema: TableSchema) -> bool:
        """Whether a table with this schema has the change already. `SchemaEvent` says what a missing table means."""
        return True

    def details(self) -> dict[str, Any]:
        """Return the JSON form without the table."""
        return self.schema.to_json()

    @classmethod
    def read(cls, table: TableId, value: dict[str, Any]) -> Self:
        """Return the change of a JSON form."""
        return cls(table, TableSchema.from_json(value))


@dataclass(frozen=True, slots=True)
class AddColumns:
    """Columns are added, each at its place, one after the other."""

    tag: ClassVar[str] = "add.column"
    table: TableId
    columns: tuple[AddedColumn, ...]

    def apply(self, schema: TableSchema) -> TableSchema:
        """Return the schema after the change. Raises `SchemaChangeError` if the column beside a new one is missing."""
        columns = list(schema.columns)
        for added in self.columns:
            columns.insert(self._index(added, [column.name for column in columns]), added.column)
        return replace(schema, columns=tuple(columns))

    def _index(self, added: AddedColumn, names: list[str]) -> int:
        if added.beside is None:
            return 0 if added.place == "FIRST" else len(names)
        if added.beside not in names:
            raise table_error(
                self.table,
                f"column {added.column.name!r} can't be added {added.place} {added.beside!r}: "
                f"there is no such column; the columns are {', '.join(names)}",
            )
        return names.index(added.beside) + (added.place == "AFTER")

    def is_done(self, schema: TableSchema) -> bool:
        """Whether all columns are there, with the same types, defaults and comments."""
        return all(added.column in schema.columns for added in self.columns)

    def details(self) -> dict[str, Any]:
        """Return the JSON form without the table."""
        return {
            "columns": [
                {"column": a.column.to_json(), "position": [a.place, *([a.beside] if a.beside is not None else [])]}
                for a in self.columns
            ]
        }

    @classmethod
    def read(cls, table: TableId, value: dict[str, Any]) -> Self:
        """Return the change of a JSON form."""
        columns = [AddedColumn(SchemaColumn.from_json(c["column"]), *c["position"]) for c in value["columns"]]
        return cls(table, tuple(columns))


@dataclass(frozen=True, slots=True)
class AlterColumnTypes:
    """Columns get other types."""

    tag: ClassVar[str] = "alter.column.type"
    table: TableId
    types: tuple[tuple[str, FlinkType], ...]

    def apply(self, schema: TableSchema) -> TableSchema:
        """Return the schema after the change."""
        return schema.with_types(self.types)

    def is_done(self, schema: TableSchema) -> bool:
        """Whether all columns are there with these types."""
        types = {column.name: column.type for column in schema.columns}
        return all(types.get(name) == t for name, t in self.types)

    def details(self) -> dict[str, Any]:
        """Return the JSON form without the table."""
        return {"types": {name: str(t) for name, t in self.types}}

    @classmethod
    def read(cls, table: TableId, value: dict[str, Any]) -> Self:
        """Return the change of a JSON form."""
        return cls(table, tuple((name, parse_column_type(text)) for name, text in value["types"].items()))


@dataclass(frozen=True, slots=True)
class RenameColumns:
    """Columns get other names; `names` has pairs of old and new names."""

    tag: ClassVar[str] = "rename.column"
    table: TableId
    names: tuple[tuple[str, str], ...]

    def apply(self, schema: TableSchema) -> TableSchema:
        """Return the schema after the change."""
        new = dict(self.names)
        return replace(schema, columns=tuple(replace(c, name=new.get(c.name, c.name)) for c in schema.columns))

    def is_done(self, schema: TableSchema) -> bool:
        """Whether the old names are gone and the new ones are there."""
        names = schema.names
        return all(old not in names and new in names for old, new in self.names)

    def details(self) -> dict[str, Any]:
        """Return the JSON form without the table."""
        return {"names": dict(self.names)}

    @classmethod
    def read(cls, table: TableId, value: dict[str, Any]) -> Self:
        """Return the change of a JSON form."""
        return cls(table, tuple(value["names"].items()))


@dataclass(frozen=True, slots=True)
class DropColumns:
    """Columns are dropped."""

    tag: ClassVar[str] = "drop.column"
    table: TableId
    columns: tuple[str, ...]

    def apply(self, schema: TableSchema) -> TableSchema:
        """Return the schema after the change."""
        return replace(schema, columns=tuple(c for c in schema.columns if c.name not in self.columns))

    def is_done(self, schema: TableSchema) -> bool:
        """Whether none of the columns is there."""
        return not {*self.columns} & {*schema.names}

    def details(self) -> dict[str, Any]:
        """Return the JSON form without the table."""
        return {"columns": [*self.columns]}

    @classmethod
    def read(cls, table: TableId, value: dict[str, Any]) -> Self:
        """Return the change of a JSON form."""
        return cls(table, tuple(value["columns"]))


@dataclass(frozen=True, slots=True)
class _WholeTable:
    """A change of a whole table, which keeps its schema. It can't be seen whether it was done before."""

    table: TableId

    def apply(self, schema: TableSchema) -> TableSchema:
        """Return the schema, unchanged."""
        return schema

    def is_done(self, schema: TableSchema) -> bool:
        """False."""
        return False

    def details(self) -> dict[str, Any]:
        """Return the JSON form without the table."""
        return {}

    @classmethod
    def read(cls, table: TableId, value: dict[str, Any]) -> Self:
        """Return the change of a JSON form."""
        return cls(table)


@dataclass(frozen=True, slots=True)
class TruncateTable(_WholeTable):
    """All rows of a table are deleted."""

    tag: ClassVar[str] = "truncate.table"


@dataclass(frozen=True, slots=True)
class DropTable(_WholeTable):
    """A table is dropped. Its schema stays known, as in Flink CDC: a row that comes later creates the table again."""

    tag: ClassVar[str] = "drop.table"


SchemaEvent = CreateTable | AddColumns | AlterColumnTypes | RenameColumns | DropColumns | TruncateTable | DropTable
"""A change of a schema. All have `table`, `tag`, `apply(schema)`, `is_done(schema)` and a JSON form."""
_EVENTS: dict[str, type[SchemaEvent]] = {event.tag.replace(".", "_"): event for event in get_args(SchemaEvent)}


def event_to_json(event: SchemaEvent) -> dict[str, Any]:
    """Return the JSON form of a change."""
    return {event.tag.replace(".", "_"): {"table": [*event.table.parts], **event.details()}}


def event_from_json(value: dict[str, Any]) -> SchemaEvent:
    """Return the change of a JSON form. Raises `SchemaChangeError` for an unknown one."""
    ((name, details),) = value.items()
    if name not in _EVENTS:
        raise SchemaChangeError(f"{name!r} is not a change of a schema; known changes: {', '.join(sorted(_EVENTS))}")
    return _EVENTS[name].read(TableId(tuple(details["table"])), details)


def schema_difference(table: TableId, before: TableSchema | None, after: TableSchema) -> tuple[SchemaEvent, ...]:
    """Return the changes from one schema to another: new columns, other types, dropped columns; or a new table."""
    if before is None:
        return (CreateTable(table, after),)
    known = {column.name: column.type for column in before.columns}
    added: list[AddedColumn] = []
    types: list[tuple[str, FlinkType]] = []
    previous: str | None = None
    for column in after.columns:
        if column.name not in known:
            added.append(AddedColumn(column, "FIRST" if previous is None else "AFTER", previous))
        elif known.pop(column.name) != column.type:
            types.append((column.name, column.type))
        previous = column.name
    events: list[SchemaEvent] = []
    if added:
        events.append(AddColumns(table, tuple(added)))
    if types:
        events.append(AlterColumnTypes(table, tuple(types)))
    if known:
        events.append(DropColumns(table, tuple(known)))
    return tuple(events)
