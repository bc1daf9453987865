"""The known schemas of all tables, and the record that caused a change.

The schema store writes the JSON forms. They are plain text, sorted, and have the version 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from kvformat.ingestion.errors import SchemaChangeError, table_error
from kvformat.ingestion.schemas.events import CreateTable, SchemaEvent, event_from_json, event_to_json
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema

VERSION = 1
"""The version of the JSON forms. A reader refuses a later one."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schemas of the source tables, as their messages have them, and of the target tables, as they were changed."""

    sources: Mapping[TableId, TableSchema] = field(default_factory=dict)
    targets: Mapping[TableId, TableSchema] = field(default_factory=dict)

    def change_source(self, event: SchemaEvent) -> Self:
        """Return the state after a change of a source table. Raises `SchemaChangeError` if it can't be applied."""
        return replace(self, sources=_changed(self.sources, event))

    def change_target(self, event: SchemaEvent) -> Self:
        """Return the state after a target table took a change. Raises `SchemaChangeError` if it can't be applied."""
        return replace(self, targets=_changed(self.targets, event))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"version": VERSION, "sources": _to_json(self.sources), "targets": _to_json(self.targets)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the state of a JSON form. Raises `SchemaChangeError` for another version."""
        if value.get("version") != VERSION:
            raise SchemaChangeError(
                f"the schemas have the version {value.get('version')!r}, and this release of kvformat reads version "
                f"{VERSION}: use the release that wrote them, or a later one"
            )
        return cls(_from_json(value["sources"]), _from_json(value["targets"]))


def _changed(schemas: Mapping[TableId, TableSchema], event: SchemaEvent) -> dict[TableId, TableSchema]:
    known = schemas.get(event.table)
    if isinstance(event, CreateTable):
        return {**schemas, event.table: event.schema}
    if known is None:
        raise table_error(event.table, f"{event.tag}, and there is no such table")
    return {**schemas, event.table: event.apply(known)}


def _to_json(schemas: Mapping[TableId, TableSchema]) -> list[dict[str, Any]]:
    return [{"table": [*table.parts], **schema.to_json()} for table, schema in sorted(schemas.items())]


def _from_json(values: list[dict[str, Any]]) -> dict[TableId, TableSchema]:
    return {TableId(tuple(value["table"])): TableSchema.from_json(value) for value in values}


@dataclass(frozen=True, slots=True)
class Cause:
    """The record that caused a change: its topic, partition and offset."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class CausedEvent:
    """A change and its cause; None for the schemas that a user declares."""

    event: SchemaEvent
    cause: Cause | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        cause = self.cause and {
            "topic": self.cause.topic,
            "partition": self.cause.partition,
            "offset": self.cause.offset,
        }
        return {"event": event_to_json(self.event), "cause": cause}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the change of a JSON form."""
        return cls(event_from_json(value["event"]), value["cause"] and Cause(**value["cause"]))
