"""The columns of a CREATE TABLE without the statement around them: `id INT, part INT METADATA FROM 'partition'`."""

from __future__ import annotations

from collections.abc import Sequence

from kvformat.registry.contract.types import quoted
from kvformat.registry.sql.create_table import CreateTableReader
from kvformat.registry.sql.table_definition import TableColumn


def parse_column_list(text: str) -> tuple[TableColumn, ...]:
    """Parse physical and metadata columns, separated by commas.

    Raises `SchemaError` with line and column, also for computed columns and for columns with a PRIMARY KEY.
    """
    return _ColumnListReader(text).listed()


def column_list_text(columns: Sequence[TableColumn]) -> str:
    """Return the text of physical and metadata columns."""
    return ", ".join(map(_column_text, columns))


def _column_text(column: TableColumn) -> str:
    key = column.key.replace("'", "''")
    metadata = f" METADATA FROM '{key}'" if column.kind == "metadata" else ""
    return f"{quoted(column.name)} {column.type}{metadata}"


class _ColumnListReader(CreateTableReader):
    subject = "columns"

    def listed(self) -> tuple[TableColumn, ...]:
        """Parse the whole text."""
        while True:
            start = self.offset()
            self._read_column()
            if self._computed or self._key is not None:
                what = "a computed column" if self._computed else "a PRIMARY KEY"
                raise self.error(f"{what} is not allowed here, only columns with a type", start)
            if not self.skip(","):
                break
        if self.peek():
            raise self.error(f"expected ',' or the end of the text, found {self.shown()}")
        return tuple(self._columns.values())
