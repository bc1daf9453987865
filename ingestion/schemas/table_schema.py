"""Columns and primary key of a table, and merged schemas.

    known     id BIGINT, v INT
    upcoming  id BIGINT, v DOUBLE, w DATE
    merged    id BIGINT, v DOUBLE, w DATE

Rules: Flink CDC's `SchemaMergingUtils`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.schemas.types import is_compatible, merge_types, parse_column_type
from kvformat.registry.contract.types import FlinkField, FlinkType


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column of a table. `default` is the default value's text, `comment` the column's comment; both may be None.

    `forms` say how the messages write its values as texts (`codecs/discovery/text_forms.py`), those of its former type
    for a column that became STRING; None if they do not write texts. They are no part of the schema: two columns that
    differ in them only are equal.
    """

    name: str
    type: FlinkType
    default: str | None = None
    comment: str | None = None
    forms: int | None = field(default=None, compare=False)

    def as_nullable(self) -> Self:
        """Return the column, which may be null. Its nested fields stay as they are."""
        return replace(self, type=replace(self.type, nullable=True))

    def to_json(self) -> list[Any]:
        """Return `[name, type]`, with a dict of default, comment and forms if there are any."""
        more = {key: value for key in ("default", "comment", "forms") if (value := getattr(self, key)) is not None}
        return [self.name, str(self.type), *([more] if more else [])]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        """Return the column of a JSON form."""
        name, text, *more = value
        return cls(name, parse_column_type(text), **(more[0] if more else {}))


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table in their order, and the names of its primary key."""

    columns: tuple[SchemaColumn, ...]
    primary_key: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> SchemaColumn | None:
        """Return the column of a name, or None."""
        return next((column for column in self.columns if column.name == name), None)

    def row_type(self) -> FlinkType:
        """Return the type of a row."""
        return FlinkType("ROW", nullable=False, fields=tuple(FlinkField(c.name, c.type) for c in self.columns))

    def with_types(self, types: Iterable[tuple[str, FlinkType]]) -> Self:
        """Return the schema with these types. Names that are not columns are ignored."""
        by_name = dict(types)
        columns = (replace(c, type=by_name[c.name]) if c.name in by_name else c for c in self.columns)
        return replace(self, columns=tuple(columns))

    def forms(self) -> dict[str, int]:
        """Return how values are written as texts, by column."""
        return {column.name: column.forms for column in self.columns if column.forms is not None}

    def with_forms(self, forms: Mapping[str, int]) -> Self:
        """Return the schema with these forms. Names that are not columns are ignored."""
        return replace(self, columns=tuple(replace(c, forms=forms.get(c.name, c.forms)) for c in self.columns))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"columns": [column.to_json() for column in self.columns], "primary_key": [*self.primary_key]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Return the schema of a JSON form. Raises `SchemaError` for a type that can't be parsed."""
        columns = tuple(SchemaColumn.from_json(column) for column in value["columns"])
        return cls(columns, tuple(value.get("primary_key", ())))


def needs_no_change(known: TableSchema | None, upcoming: TableSchema) -> bool:
    """Whether the known schema holds all columns of the upcoming one. Order, key and missing columns do not count."""
    if known is None:
        return False
    types = {column.name: column.type for column in known.columns}
    return all(column.name in types and is_compatible(types[column.name], column.type) for column in upcoming.columns)


def merge_schemas(known: TableSchema | None, upcoming: TableSchema) -> TableSchema:
    """Return the known schema with merged types, and with new columns at the end.

    The key is the known one. A column that the upcoming schema lacks stays.
    """
    if known is None:
        return upcoming
    if needs_no_change(known, upcoming):
        return known
    merged = {c.name: c for c in known.columns}
    for column in upcoming.columns:
        now = merged.get(column.name)
        merged[column.name] = replace(now, type=merge_types(now.type, column.type)) if now else column
    return replace(known, columns=tuple(merged.values()))


def check_same_key(schemas: Iterable[tuple[str, TableSchema]], target: str) -> None:
    """Raise `SchemaChangeError` if the tables of one target have different primary keys.

    `schemas` has the name and schema of each table.
    """
    keys = [(name, schema.primary_key) for name, schema in schemas]
    for name, key in keys[1:]:
        if set(key) != set(keys[0][1]):
            first, other = (f"{n} ({', '.join(k) or 'no key'})" for n, k in (keys[0], (name, key)))
            raise SchemaChangeError(
                f"table {target}: the tables {first} and {other} lead to it, and have different primary keys; set one "
                "key for both by 'primary-keys' of a transform, or route them to different tables",
                table=target,
            )
