"""All that a query knows of its tables between two batches, and the plan of a batch.

    sources       the columns of each source table, as its messages have them
    schemas       the source tables after their transforms, and the target tables
    quarantined   tables whose records go to the dead letters, and why

Each has a JSON form, one object per table. A batch stores only the objects that it changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from kvformat.ingestion.schemas.state import Cause, CausedEvent, SchemaState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.registry.contract.look import KnownTable


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A source table: the columns of its values, and those of the records' keys (without `key.format` none)."""

    value: KnownTable = field(default_factory=lambda: KnownTable({}))
    key: KnownTable = field(default_factory=lambda: KnownTable({}))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"value": _known_to_json(self.value), "key": _known_to_json(self.key)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the table of a JSON form. Raises `SchemaError` for a type that can't be parsed."""
        return cls(_known_from_json(value["value"]), _known_from_json(value["key"]))


def _known_to_json(known: KnownTable) -> dict[str, Any]:
    return {
        "columns": [[name, str(t)] for name, t in known.columns.items()],
        "as_text": sorted(known.as_text),
        "key": None if known.key is None else [*known.key],
        **({"forms": dict(sorted(known.forms.items()))} if known.forms else {}),
        **({"nulls": sorted(known.nulls)} if known.nulls else {}),
    }


def _known_from_json(value: Mapping[str, Any]) -> KnownTable:
    columns = {name: parse_column_type(text) for name, text in value["columns"]}
    key = None if value["key"] is None else tuple(value["key"])
    nulls = frozenset(value.get("nulls", ()))
    return KnownTable(columns, frozenset(value["as_text"]), key, value.get("forms", {}), nulls)


@dataclass(frozen=True, slots=True)
class IngestState:
    """The known tables after a batch; see the module."""

    sources: Mapping[TableId, SourceTable] = field(default_factory=dict)
    schemas: SchemaState = field(default_factory=SchemaState)
    quarantined: Mapping[TableId, str] = field(default_factory=dict)

    def entries(self, before: IngestState | None = None) -> list[dict[str, Any]]:
        """Return the JSON form: an object for each table that differs from `before`, sorted."""
        before = before or IngestState()
        kinds: tuple[tuple[str, Mapping[TableId, Any], Mapping[TableId, Any]], ...] = (
            ("source", self.sources, before.sources),
            ("schema", self.schemas.sources, before.schemas.sources),
            ("target", self.schemas.targets, before.schemas.targets),
            ("quarantined", self.quarantined, before.quarantined),
        )
        return [
            {kind: [*table.parts], **({"reason": value} if isinstance(value, str) else value.to_json())}
            for kind, now, then in kinds
            for table, value in sorted(now.items())
            if then.get(table) != value or _forms(then[table]) != _forms(value)
        ]

    def with_entries(self, entries: Iterable[Mapping[str, Any]]) -> Self:
        """Return the state with the objects of a JSON form. Other objects are ignored."""
        sources, quarantined = dict(self.sources), dict(self.quarantined)
        transformed, targets = dict(self.schemas.sources), dict(self.schemas.targets)
        for entry in entries:
            if "source" in entry:
                sources[_table(entry["source"])] = SourceTable.from_json(entry)
            elif "schema" in entry:
                transformed[_table(entry["schema"])] = TableSchema.from_json(dict(entry))
            elif "target" in entry:
                targets[_table(entry["target"])] = TableSchema.from_json(dict(entry))
            elif "quarantined" in entry:
                quarantined[_table(entry["quarantined"])] = entry["reason"]
        return replace(self, sources=sources, schemas=SchemaState(transformed, targets), quarantined=quarantined)


def _forms(value: Any) -> dict[str, int]:
    """Return the forms of a schema's texts, which equal schemas may have in different ways."""
    return value.forms() if isinstance(value, TableSchema) else {}


def _table(parts: list[str]) -> TableId:
    return TableId(tuple(parts))


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change of a target table, and the record that caused it.

    timestamp: milliseconds of that record. A TRUNCATE is ordered by it among the rows of other partitions.
    """

    caused: CausedEvent
    timestamp: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"change": self.caused.to_json(), "timestamp": self.timestamp}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the change of a JSON form."""
        return cls(CausedEvent.from_json(value["change"]), value["timestamp"])

    def place(self) -> tuple[int, str, int, int]:
        """Return what orders the change among others."""
        cause = self.caused.cause or Cause("", 0, 0)
        return self.timestamp, cause.topic, cause.partition, cause.offset


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What a batch changes: the state after it, the changes of source tables, and those of target tables.

    failed: tables that can't be ingested from this batch on, with the error. They are in `state.quarantined`.
    """

    state: IngestState
    events: tuple[CausedEvent, ...] = ()
    changes: tuple[PlannedChange, ...] = ()
    failed: Mapping[TableId, str] = field(default_factory=dict)

    def entries(self, before: IngestState) -> list[dict[str, Any]]:
        """Return the JSON form of all that changed."""
        return [
            *self.state.entries(before),
            *(event.to_json() for event in self.events),
            *(change.to_json() for change in self.changes),
        ]

    @classmethod
    def from_entries(cls, before: IngestState, entries: Iterable[Mapping[str, Any]]) -> Self:
        """Return the plan of a JSON form."""
        entries = list(entries)
        return cls(
            before.with_entries(entries),
            tuple(CausedEvent.from_json(entry) for entry in entries if "event" in entry),
            tuple(PlannedChange.from_json(entry) for entry in entries if "change" in entry),
        )
