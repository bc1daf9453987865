"""Errors of ingestion.

    KvFormatError
    └── SchemaChangeError (RuntimeError)         a change of a table's schema can't be planned or applied
        └── UnsupportedChangeError (NotImplementedError)   the target can't make the change

Wrong options, patterns and routes raise `OptionError` before the first batch.
"""

from __future__ import annotations

from kvformat.registry.contract.errors import KvFormatError


class SchemaChangeError(KvFormatError, RuntimeError):
    """A change of a table's schema can't be planned or applied. `table` is the table's name with dots."""

    def __init__(self, message: str, *, table: str | None = None) -> None:
        super().__init__(message)
        self.table = table


class UnsupportedChangeError(SchemaChangeError, NotImplementedError):
    """The target can't make a change. In `try_evolve`, the change is left out; otherwise the query stops."""


def table_error(table: object, text: str, kind: type[SchemaChangeError] = SchemaChangeError) -> SchemaChangeError:
    """Make the error of a table; its text begins with the table's name."""
    return kind(f"table {table}: {text}", table=str(table))
