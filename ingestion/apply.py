"""Bring the tables of a target to their planned schemas.

The target is asked what a table has, and gets only the difference. So a change that was made in part is finished, and
a column that somebody else added is no error. Each table is compared once per start of the query, and then when its
planned schema changes.

A table that exists with wider types keeps them: the rows are fitted to the common types of both.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from kvformat.ingestion.behaviors import SchemaChangeBehavior
from kvformat.ingestion.errors import UnsupportedChangeError, table_error
from kvformat.ingestion.schemas.events import AddColumns, AddedColumn, AlterColumnTypes, DropTable, SchemaEvent
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import merge_types
from kvformat.ingestion.targets.target import BatchWrite, TableOptions, Target, TargetSchema, check_owner
from kvformat.ingestion.targets.types import stored_type
from kvformat.registry.contract.types import FlinkType, from_spark, nullable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

_LOG = logging.getLogger("kvformat.ingest")
_FROZEN = (SchemaChangeBehavior.IGNORE, SchemaChangeBehavior.EXCEPTION)


class TargetTables:
    """The tables of a target, as one query knows them."""

    def __init__(self, target: Target, behavior: SchemaChangeBehavior, query: str, *, take_over: bool) -> None:
        self.target, self._behavior, self._query, self._take_over = target, behavior, query, take_over
        self._ready: dict[TableId, tuple[TableSchema, TableSchema]] = {}  # the planned schema, and that of the rows
        self._seen: dict[TableId, TargetSchema | None] = {}  # what the target said in `expected`

    def use(self, spark: SparkSession) -> None:
        """Use a session."""
        self.target = self.target.with_session(spark)

    def expected(self, table: TableId, wanted: TableSchema) -> TableSchema:
        """Return the columns that rows for a table are fitted to, without changing the table.

        `ready` returns the same schema.
        """
        if not self.target.has_tables:
            return wanted
        known = self._ready.get(table)
        if known is not None and known[0] == wanted:
            return known[1]
        existing = self._seen[table] = self.target.schema(table)
        return wanted if existing is None else self._fitted(table, wanted, existing)[0]

    def ready(self, table: TableId, wanted: TableSchema, options: TableOptions) -> TableSchema:
        """Create or change a table, and return the columns of the rows that it takes.

        Raises `ConfigurationError` for a table of another query, and `SchemaChangeError` for a change that the target
        does not make.
        """
        if not self.target.has_tables:
            return wanted
        known = self._ready.get(table)
        if known is not None and known[0] == wanted:
            return known[1]
        existing = self._seen.pop(table) if table in self._seen else self.target.schema(table)
        if existing is None:
            self.target.create(table, wanted, options, self._query)
            rows = wanted
        else:
            self._own(table, existing)
            unlike = self.target.unlike(table, options) if options != TableOptions() else []
            if unlike:
                _LOG.warning(
                    "table %s exists, so the changed %s of its transform have no effect: they are used only when a "
                    "table is created",
                    *(table, ", ".join(unlike)),
                )
            rows = self._changed(table, wanted, existing)
        self._ready[table] = wanted, rows
        return rows

    def change(self, event: SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        """Apply a TRUNCATE or a DROP TABLE."""
        self.target.change(event, schema, batch)
        if isinstance(event, DropTable):
            self._ready.pop(event.table, None)
            self._seen.pop(event.table, None)

    def _own(self, table: TableId, existing: TargetSchema) -> None:
        if existing.owner == self._query:
            return
        if not self._take_over:
            check_owner(table, existing.owner, self._query)
        self.target.own(table, self._query)

    def _fitted(
        self, table: TableId, wanted: TableSchema, existing: TargetSchema
    ) -> tuple[TableSchema, list[SchemaColumn], list[tuple[str, FlinkType]]]:
        """Return the columns of the rows, the columns that the table lacks, and the types that it must change."""
        there = {field.name: field for field in existing.columns.fields}
        columns: list[SchemaColumn] = []
        missing: list[SchemaColumn] = []
        types: list[tuple[str, FlinkType]] = []
        for column in wanted.columns:
            field = there.get(column.name)
            if field is None:
                missing.append(column)
                if self._behavior not in _FROZEN:
                    columns.append(column)
                continue
            now = from_spark(field.dataType, column.type.nullable, field.name)
            if stored_type(nullable(column.type)) == stored_type(nullable(now)):
                columns.append(column)
                continue
            merged = merge_types(now, column.type)
            if stored_type(nullable(merged)) == stored_type(nullable(now)):
                columns.append(replace(column, type=merged))
            elif self._behavior in _FROZEN or self._is_left_out(field.dataType, merged):
                types.append((column.name, merged))
                columns.append(replace(column, type=now))
            else:
                types.append((column.name, merged))
                columns.append(replace(column, type=merged))
        return replace(wanted, columns=tuple(columns)), missing, types

    def _is_left_out(self, now: DataType, wanted: FlinkType) -> bool:
        """Whether `try_evolve` leaves a change of a type out. The rows are fitted before the table is changed."""
        return self._behavior is SchemaChangeBehavior.TRY_EVOLVE and not self.target.can_change(now, wanted)

    def _changed(self, table: TableId, wanted: TableSchema, existing: TargetSchema) -> TableSchema:
        """Apply the difference between a table and its planned schema, and return the columns of the rows."""
        rows, missing, types = self._fitted(table, wanted, existing)
        if self._behavior is SchemaChangeBehavior.IGNORE:
            return rows
        if self._behavior is SchemaChangeBehavior.EXCEPTION:
            if missing or types:
                names = ", ".join([*(column.name for column in missing), *(name for name, _ in types)])
                raise table_error(
                    table,
                    f"the target lacks the columns {names}, or has other types of them, and "
                    "'schema.change.behavior' is exception",
                )
            return rows
        place = BatchWrite(self._query, -1)
        left_out: set[str] = set()
        if missing:
            added = AddColumns(table, tuple(AddedColumn(column.as_nullable()) for column in missing))
            if not self._apply(added, rows, place):
                left_out |= {column.name for column in missing}
        apart = self._behavior is SchemaChangeBehavior.TRY_EVOLVE  # the target may refuse only one
        for changed in [[change] for change in types] if apart else [types]:
            if changed and not self._apply(AlterColumnTypes(table, tuple(changed)), rows, place):
                kept = [(n, from_spark(existing.columns[n].dataType, t.nullable, n)) for n, t in changed]
                rows = rows.with_types(kept)
        if not left_out:
            return rows
        return replace(rows, columns=tuple(column for column in rows.columns if column.name not in left_out))

    def _apply(self, event: SchemaEvent, schema: TableSchema, place: BatchWrite) -> bool:
        """Apply a change; returns False if `try_evolve` leaves it out."""
        try:
            try:
                self.target.change(event, schema, place)
            except UnsupportedChangeError:
                if not isinstance(event, AlterColumnTypes) or self._behavior is SchemaChangeBehavior.TRY_EVOLVE:
                    raise
                self.target.rewrite(event.table, schema)
        except UnsupportedChangeError as error:
            if self._behavior is not SchemaChangeBehavior.TRY_EVOLVE:
                raise
            _LOG.warning("table %s: %s is left out, rows are fitted to the table: %s", event.table, event.tag, error)
            return False
        return True
