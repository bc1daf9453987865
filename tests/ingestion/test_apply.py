"""Which types rows are fitted to, before and after a table's columns change. The tables here only have columns."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kvformat.ingestion.apply import TargetTables
from kvformat.ingestion.behaviors import SchemaChangeBehavior
from kvformat.ingestion.errors import SchemaChangeError, UnsupportedChangeError
from kvformat.ingestion.schemas.events import AlterColumnTypes, SchemaEvent
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.ingestion.targets.target import BatchWrite, TableOptions, Target, TargetSchema
from kvformat.ingestion.targets.types import stored_columns, stored_type
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry.contract.types import FlinkType

B = SchemaChangeBehavior
TABLE = TableId(("db", "t"))
WIDENED = {("INT", "BIGINT"), ("FLOAT", "DOUBLE")}
"""The types that the tables change in place."""


class _Tables(Target):
    """A target with one table, whose other types it changes only by `rewrite`."""

    def __init__(self, now: TableSchema) -> None:
        self.now = now
        self.done: list[str] = []

    def schema(self, table: TableId) -> TargetSchema:
        return TargetSchema(stored_columns(self.now), "q")

    def create(self, table: TableId, schema: TableSchema, options: TableOptions, owner: str) -> None:
        raise NotImplementedError

    def own(self, table: TableId, owner: str) -> None:
        raise NotImplementedError

    def write(self, table: TableId, schema: TableSchema, rows: Any, batch: BatchWrite) -> None:
        raise NotImplementedError

    def can_change(self, now: Any, wanted: FlinkType) -> bool:
        return any(
            (now, stored_type(wanted)) == tuple(stored_type(parse_column_type(t)) for t in pair) for pair in WIDENED
        )

    def change(self, event: SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        assert isinstance(event, AlterColumnTypes)
        here = stored_columns(self.now)
        for name, wanted in event.types:
            if not self.can_change(here[name].dataType, wanted):
                raise UnsupportedChangeError(f"table {event.table}: {name} can't be {wanted}", table=str(event.table))
        self.now = event.apply(self.now)
        self.done.append("change")

    def rewrite(self, table: TableId, schema: TableSchema) -> None:
        self.now = schema
        self.done.append("rewrite")


@pytest.mark.parametrize(
    ("behavior", "rows", "done"),
    [
        (B.TRY_EVOLVE, ["BIGINT", "INT", "FLOAT"], ["change"]),
        (B.LENIENT, ["BIGINT", "STRING", "STRING"], ["rewrite"]),
        (B.EVOLVE, ["BIGINT", "STRING", "STRING"], ["rewrite"]),
        (B.IGNORE, ["INT", "INT", "FLOAT"], []),
    ],
)
def test_rows_are_fitted_to_the_types_that_the_table_gets(
    behavior: SchemaChangeBehavior, rows: list[str], done: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Rows are fitted before the table is changed, so both must agree on the types. The table refuses two of three."""
    target = _Tables(table_schema("a INT", "b INT", "c FLOAT"))
    wanted = table_schema("a BIGINT", "b STRING", "c DECIMAL(10, 2)")  # FLOAT and DECIMAL become STRING
    tables = TargetTables(target, behavior, "q", take_over=False)
    expected = table_schema(*(f"{name} {t}" for name, t in zip("abc", rows, strict=True)))
    assert tables.expected(TABLE, wanted) == expected
    assert tables.ready(TABLE, wanted, TableOptions()) == expected
    assert target.done == done
    assert stored_columns(target.now) == stored_columns(expected)
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len([text for text in told if "alter.column.type is left out" in text]) == 2 * (behavior is B.TRY_EVOLVE)
    assert tables.expected(TABLE, wanted) == expected  # and in the batches that follow


def test_exception_names_the_columns_whose_types_differ() -> None:
    target = _Tables(table_schema("a INT", "b INT"))
    tables = TargetTables(target, B.EXCEPTION, "q", take_over=False)
    with pytest.raises(SchemaChangeError, match=r"table db\.t: the target lacks the columns b, or has other types"):
        tables.ready(TABLE, table_schema("a INT", "b BIGINT"), TableOptions())
    assert target.done == []
