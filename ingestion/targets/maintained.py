"""A table of a target that `KeyValueFormat.maintain` keeps current. It has one declared schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from kvformat.ingestion.schemas.events import AddColumns, AddedColumn
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.targets.target import BatchWrite, TableOptions, Target
from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.types import from_spark
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kvformat.registry.streams.maintain import MaintainableTable


@dataclass(frozen=True)
class MaintainedTable:
    """The function that writes the changes of a micro-batch: one row per key with `row_kind`."""

    target: Target
    table: TableId
    keys: tuple[str, ...]

    @classmethod
    def of(cls, target: Target, table: MaintainableTable, name: str | None) -> Self:
        """Return the function for a table. Raises `ConfigurationError` for a target that takes no merges."""
        if not target.has_tables or target.rows != "latest":
            raise ConfigurationError(f"maintain writes the last row of each key, and {target!r} takes all changes")
        return cls(target, TableId.parse(name or table.name), table.key_columns)

    def __call__(self, changes: DataFrame, batch_id: int) -> None:
        """Create the table or add its new columns, and merge. Repeating it gives the same table."""
        target = self.target.with_session(changes.sparkSession)
        fields = [f for f in changes.schema.fields if f.name not in (ROW_KIND, ROW_INDEX, UNCHANGED)]
        columns = tuple(SchemaColumn(f.name, from_spark(f.dataType, f.name not in self.keys, f.name)) for f in fields)
        schema = TableSchema(columns, self.keys)
        batch = BatchWrite(f"maintain {self.table}", batch_id)
        now = target.schema(self.table)
        if now is None:
            target.create(self.table, schema, TableOptions(), batch.query)
        elif added := tuple(AddedColumn(column) for column in columns if column.name not in now.columns.names):
            target.change(AddColumns(self.table, added), schema, batch)
        target.write(self.table, schema, changes.drop(ROW_INDEX), batch)
