"""The sink `values`: each change is a line on the standard output, as Flink CDC's sink of this name prints it.

    DataChangeEvent{tableId=shop.orders, before=[1, a], after=[1, b], op=UPDATE, meta=()}

Rules: Flink CDC's `ValuesDataSink` and `DataChangeEvent`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from kvformat.ingestion.schemas.events import SchemaEvent
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.targets.target import BatchWrite, TableOptions, Target, TargetSchema
from kvformat.ingestion.targets.types import CHANGE_COLUMNS
from kvformat.registry.spark.decoded_columns import ROW_KIND, exact_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kvformat.ingestion.pipeline.sink import PipelineSink

_OPERATIONS = {"+I": "INSERT", "-U": "UPDATE", "+U": "UPDATE", "-D": "DELETE"}


@dataclass(frozen=True)
class ValuesTarget(Target):
    """Prints rows. It keeps no tables, and a repeated batch is printed again."""

    identifier: ClassVar[str] = "values"
    has_tables: ClassVar[bool] = False
    has_catalog: ClassVar[bool] = False

    @classmethod
    def from_sink(cls, sink: PipelineSink) -> Self:
        """Return the target of a checked sink."""
        return cls()

    @classmethod
    def describe(cls, sink: PipelineSink) -> list[str]:
        """Return the lines of `Pipeline.explain`."""
        return ["rows are printed"]

    @property
    def rows(self) -> Literal["latest", "changes"]:
        """All changes."""
        return "changes"

    def schema(self, table: TableId) -> TargetSchema | None:
        """None."""
        return None

    def create(self, table: TableId, schema: TableSchema, options: TableOptions, owner: str) -> None:
        """Do nothing."""

    def own(self, table: TableId, owner: str) -> None:
        """Do nothing."""

    def change(self, event: SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        """Do nothing."""

    def write(self, table: TableId, schema: TableSchema, rows: DataFrame, batch: BatchWrite) -> None:
        """Print the rows in the order of their records. An update is one line with both rows, if both are there."""
        order = [column.name for column in CHANGE_COLUMNS[1:] if column.name in rows.columns]
        kind = [ROW_KIND] if ROW_KIND in rows.columns else []
        columns = [*map(exact_column, (*schema.names, *kind))]
        ordered = rows.orderBy(*map(exact_column, order)) if order else rows
        for line in _lines(table, map(tuple, ordered.select(*columns).toLocalIterator()), bool(kind)):
            print(line)


def _lines(table: TableId, rows: Iterable[tuple[Any, ...]], has_kind: bool) -> Iterator[str]:
    old: tuple[Any, ...] | None = None
    for row in rows:
        values, kind = (row[:-1], row[-1]) if has_kind else (row, "+I")
        if old is not None and kind != "+U":
            yield _line(table, old, None, "UPDATE")
            old = None
        if kind == "-U":
            old = values
        elif kind == "-D":
            yield _line(table, values, None, "DELETE")
        else:
            yield _line(table, old, values, _OPERATIONS[kind])
            old = None
    if old is not None:
        yield _line(table, old, None, "UPDATE")


def _line(table: TableId, before: tuple[Any, ...] | None, after: tuple[Any, ...] | None, operation: str) -> str:
    shown = (f"[{', '.join(map(_shown, row or ()))}]" for row in (before, after))
    return "DataChangeEvent{{tableId={}, before={}, after={}, op={}, meta=()}}".format(table, *shown, operation)


def _shown(value: Any) -> str:
    """Return the text of a value, as Java prints null and booleans."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
