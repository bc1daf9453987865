"""Write the rows of a batch to their targets: several tables at the same time, each first brought to its schema."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kvformat.ingestion.batch_decoder import BatchRows, SourceRows
from kvformat.ingestion.batch_report import BatchReport
from kvformat.ingestion.decoded_rows import POSITION, ROW_ERROR, TIMESTAMP, in_order, latest_rows
from kvformat.ingestion.errors import SchemaChangeError, table_error
from kvformat.ingestion.schemas.events import DropTable, TruncateTable
from kvformat.ingestion.targets.target import BatchWrite, TableOptions
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND, exact_column
from kvformat.registry.streams.changes import latest_by_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kvformat.ingestion.query_memory import QueryMemory
    from kvformat.ingestion.schemas.known import BatchPlan, PlannedChange
    from kvformat.ingestion.schemas.table_id import TableId
    from kvformat.ingestion.schemas.table_schema import TableSchema

_POOL = 4  # tables that are written at the same time


class TableFailedError(Exception):
    """Source tables that fail while their rows are decoded or written."""

    def __init__(self, tables: Iterable[TableId], cause: Exception) -> None:
        super().__init__(str(cause))
        self.tables, self.cause = tuple(tables), cause


@dataclass(frozen=True)
class TargetWriter:
    """Writes the rows of one batch. report: is told of each table. done: called with the name of each finished step."""

    memory: QueryMemory
    plan: BatchPlan
    report: BatchReport
    done: Callable[[str], None]

    def truncations(self) -> dict[TableId, PlannedChange]:
        """Return the last TRUNCATE or DROP TABLE of each target."""
        changes = [c for c in self.plan.changes if isinstance(c.caused.event, TruncateTable | DropTable)]
        return {change.caused.event.table: change for change in sorted(changes, key=lambda change: change.place())}

    def write(self, spark: SparkSession, rows: BatchRows) -> None:
        """Write the rows to their targets."""
        self.memory.store.check_driver()
        changes = self.truncations()
        frames: dict[TableId, list[SourceRows]] = {}
        for of_table in rows.frames:
            frames.setdefault(of_table.target, []).append(of_table)
        returned: dict[TableId, dict[TableId, pa.Table]] = {}
        for source, arrow_rows in rows.returned.items():
            (target,) = self.memory.planner.targets(self.plan.state, source)
            returned.setdefault(target, {})[source] = arrow_rows
        targets = sorted(frames.keys() | returned.keys() | changes.keys())
        with ThreadPoolExecutor(_POOL, initializer=_thread_start(spark)) as pool:
            writes = [
                pool.submit(self._write, t, frames.get(t, []), returned.get(t, {}), changes.get(t)) for t in targets
            ]
            self.report.wait(writes)
        records = [left for write in writes for left in write.result()]
        if records:
            batch = BatchWrite(self.memory.query, self.report.batch_id)
            self.memory.target.write_together(records, batch, self.memory.store)

    def _write(
        self,
        target: TableId,
        frames: list[SourceRows],
        returned: Mapping[TableId, pa.Table],
        change: PlannedChange | None,
    ) -> list[DataFrame]:
        """Bring a target table to its schema, and write its rows, which are with Spark or in the driver.

        A TRUNCATE is between the rows of two parts. Returns the records that are not written yet.
        """
        memory, wanted = self.memory, self.plan.state.schemas.targets[target]
        sources = {*returned, *(rows.source for rows in frames)}
        change = change if memory.target.has_tables else None
        options, begun = self._options(sources), time.monotonic()
        if not returned:  # a commit of a Delta table at a path keeps older drivers away by itself
            memory.store.check_driver()
        records: list[DataFrame] = []
        try:
            written = memory.tables.ready(target, wanted, options) if sources or change is not None else wanted
            self.done(f"changed {target}")
            if returned:
                self._write_returned(target, written, [*returned.values()])
            elif change is None:
                records += self._write_part(target, written, frames, 0)
            else:
                before = [replace(rows, rows=rows.rows.where(_is_before(change))) for rows in frames]
                after = [replace(rows, rows=rows.rows.where(~_is_before(change))) for rows in frames]
                records += self._write_part(target, written, before, 0)
                self.done(f"written {target} before")
                memory.tables.change(change.caused.event, wanted, BatchWrite(memory.query, self.report.batch_id, 1))
                self.done(f"truncated {target}")
                if isinstance(change.caused.event, DropTable):
                    after = [rows for rows in after if not rows.rows.isEmpty()]
                if after:
                    written = memory.tables.ready(target, wanted, options)
                records += self._write_part(target, written, after, 1)
            self.report.wrote(target, sources, time.monotonic() - begun)
            self.done(f"written {target}")
        except SchemaChangeError as error:
            state = self.plan.state
            fed = (table for table in state.sources if target in memory.planner.targets(state, table))
            raise TableFailedError(sources or {*fed}, error) from error
        return records

    def _options(self, sources: Iterable[TableId]) -> TableOptions:
        rules = [self.memory.rules.rule(source) for source in sorted(sources)]
        rule = next((rule for rule in rules if rule is not None), None)
        return TableOptions() if rule is None else TableOptions(rule.partition_keys, rule.table_options)

    def _write_returned(self, target: TableId, schema: TableSchema, tables: list[pa.Table]) -> None:
        """Write rows that are in the driver."""
        rows = pa.concat_tables(tables, promote_options="default")
        errors = rows.column(ROW_ERROR)
        if errors.null_count < len(errors):  # a filter copies the rows, which may be many
            rows = rows.filter(errors.is_null())
        rows = rows.drop_columns([ROW_ERROR, TIMESTAMP])
        _check_columns(target, schema, rows.column_names)
        rows = in_order(rows)
        if self.memory.target.rows == "latest":
            rows = latest_rows(rows.drop_columns([ROW_INDEX, *POSITION]), schema.primary_key)
        self.memory.target.write_rows(target, schema, rows, BatchWrite(self.memory.query, self.report.batch_id))

    def _write_part(
        self, target: TableId, schema: TableSchema, frames: Sequence[SourceRows], part: int
    ) -> list[DataFrame]:
        """Write rows that are with Spark. Returns the records that are not written yet."""
        if not frames:
            return []
        rows = reduce(lambda frame, other: frame.unionByName(other, allowMissingColumns=True), [f.rows for f in frames])
        rows = rows.drop(ROW_ERROR, TIMESTAMP)
        _check_columns(target, schema, rows.columns)
        if self.memory.target.rows == "latest":
            if schema.primary_key:
                keys = [exact_column(name) for name in schema.primary_key]
                order = [exact_column(name) for name in POSITION]
                rows = latest_by_key(rows, keys, order, deletes=True).drop(*POSITION)
            else:
                rows = rows.drop(ROW_KIND, ROW_INDEX, *POSITION)
        batch = BatchWrite(self.memory.query, self.report.batch_id, part)
        records = self.memory.target.write(target, schema, rows, batch)
        return [] if records is None else [records]


def _check_columns(target: TableId, schema: TableSchema, names: list[str]) -> None:
    missing = [name for name in schema.names if name not in names]
    if missing:
        raise table_error(target, f"the rows have no column {missing[0]!r}; run the batch again")


def _thread_start(spark: SparkSession) -> Callable[[], Any] | None:
    """Return what a thread must do before it uses a session.

    A thread without an active session analyzes with Spark's default settings, and not with those of the session.
    Without the properties of this thread, Spark would not stop its jobs with the query.
    """
    from pyspark.sql import SparkSession as ClassicSession
    from pyspark.util import inheritable_thread_target

    if not isinstance(spark, ClassicSession):  # a client of Spark Connect names its session in each request
        return None

    def start() -> None:
        spark.createDataFrame([], "id INT")  # makes the session the active one of the thread

    started: Callable[[], Any] = inheritable_thread_target(spark)(start)
    return started


def _is_before(change: PlannedChange) -> Any:
    """Return whether a row comes before a change: in its partition by offset, in others by the time of the record."""
    from pyspark.sql import functions as F

    topic, partition, offset = (exact_column(name) for name in POSITION)
    cause = change.caused.cause
    assert cause is not None
    same = (topic == cause.topic) & (partition == cause.partition)
    earlier = F.coalesce(exact_column(TIMESTAMP), F.lit(0)) <= change.timestamp
    return F.when(same, offset < cause.offset).otherwise(earlier)
