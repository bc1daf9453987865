"""The tests for targets of other packages refuse a target with a mistake. No Spark: its tables are in memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from kvformat.ingestion.errors import UnsupportedChangeError, table_error
from kvformat.ingestion.schemas import events
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.targets.target import (
    BatchWrite,
    TableOptions,
    Target,
    TargetSchema,
    check_order,
    check_owner,
)
from kvformat.ingestion.targets.types import stored_columns
from kvformat.ingestion.testing import TargetSuite, targets
from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import KvFormatError
from kvformat.registry.spark.decoded_columns import ROW_KIND


class _Frame:
    """Rows as dicts, instead of a frame of Spark."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.dicts = rows

    @classmethod
    def of(cls, rows: list[tuple[Any, ...]], ddl: str) -> _Frame:
        names = [column.rpartition(" ")[0].strip("`").replace("``", "`") for column in ddl.split(", ")]
        return cls([dict(zip(names, row, strict=True)) for row in rows])

    @classmethod
    def of_query(cls, text: str) -> _Frame:
        names = re.findall(r" AS (c\d+)\b", text)
        return cls([{"id": 1, **{name: f"value of {name}" for name in names}, ROW_KIND: "+U"}])

    def collect(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.dicts]

    def toArrow(self) -> pa.Table:
        return pa.Table.from_pylist(self.dicts)

    def drop(self, *names: str) -> _Frame:
        return _Frame([{name: v for name, v in row.items() if name not in names} for row in self.dicts])

    def selectExpr(self, *_: str) -> _Frame:
        return _Frame([{**row, "id": 2} for row in self.dicts])


@dataclass
class _Session:
    """What the tests use of a session; it has the tables, so that a pickled target finds them."""

    tables: dict[TableId, _Table] = field(default_factory=dict)
    createDataFrame = staticmethod(_Frame.of)
    sql = staticmethod(_Frame.of_query)


@dataclass
class _Table:
    schema: TableSchema
    owner: str | None
    rows: list[dict[str, Any]] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)


class _Memory(Target):
    """Tables in memory. `mistake` is what the target does wrong, "" for nothing."""

    driver_max_bytes = 1

    def __init__(self, mistake: str = "") -> None:
        self.mistake = mistake

    def _tables(self) -> dict[TableId, _Table]:
        found: Any = vars(self).setdefault("own", {}) if self.mistake == "pickles its tables" else self.spark
        tables: dict[TableId, _Table] = found if isinstance(found, dict) else found.tables
        return tables

    def schema(self, table: TableId) -> TargetSchema | None:
        found = self._tables().get(table)
        if found is None:
            return None
        columns = stored_columns(found.schema)
        if self.mistake == "changes names":
            columns = stored_columns(
                replace(found.schema, columns=tuple(replace(c, name=c.name.lower()[:6]) for c in found.schema.columns))
            )
        if self.mistake == "keeps types":
            columns = type(columns)([columns[0] for _ in columns])
        return TargetSchema(columns, None if self.mistake == "shows no owner" else found.owner)

    def create(self, table: TableId, schema: TableSchema, options: TableOptions, owner: str) -> None:
        if table not in self._tables() or self.mistake == "creates again":
            self._tables()[table] = _Table(schema, owner)
        elif self.mistake == "creates for another query":
            self._tables()[table].owner = owner

    def own(self, table: TableId, owner: str) -> None:
        if self.mistake != "has one owner":
            self._tables()[table].owner = owner

    def change(self, event: events.SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        table = self._tables().get(event.table)
        if isinstance(event, events.DropTable):
            if self.mistake != "never drops":
                self._tables().pop(event.table, None)
            return
        assert table is not None
        if isinstance(event, events.TruncateTable):
            self._once(table, batch, 0, "empties") or table.rows.clear()
        elif isinstance(event, events.AddColumns):
            missing = tuple(added for added in event.columns if added.column.name not in table.schema.names)
            if len(missing) < len(event.columns) and self.mistake == "adds again":
                raise table_error(event.table, "a column is there already")
            table.schema = events.AddColumns(event.table, missing).apply(table.schema)
        elif isinstance(event, events.RenameColumns):
            new = dict(event.names)
            table.rows = [{new.get(name, name): v for name, v in row.items()} for row in table.rows]
            table.schema = event.apply(table.schema)
        elif isinstance(event, events.DropColumns):
            if self.mistake != "hides columns":
                table.rows = _Frame(table.rows).drop(*event.columns).dicts
            table.schema = event.apply(table.schema)
        elif not event.is_done(table.schema):
            raise UnsupportedChangeError("only by a rewrite", table=str(event.table))

    def rewrite(self, table: TableId, schema: TableSchema) -> None:
        now = self._tables()[table]
        rows = [{"id": row["id"]} if self.mistake == "rewrites no values" else row for row in now.rows]
        owner = None if self.mistake == "loses the owner" else now.owner
        self._tables()[table] = replace(now, schema=schema, rows=rows, owner=owner)

    def write(self, table: TableId, schema: TableSchema, rows: Any, batch: BatchWrite) -> None:
        self._write(self._tables()[table], schema, rows.dicts, batch, "merges" if schema.primary_key else "appends")

    def write_rows(self, table: TableId, schema: TableSchema, rows: pa.Table, batch: BatchWrite) -> None:
        self._write(self._tables()[table], schema, rows.to_pylist(), batch, "writes from the driver")

    def _once(self, table: _Table, batch: BatchWrite, step: Any, what: str) -> bool:
        """Return whether a write is there already, and remember it."""
        if self.mistake != f"{what} tables of others":
            check_owner(TableId(("t",)), table.owner, batch.query)
        if self.mistake == "counts batches only":
            batch = replace(batch, part=0)
        query = "" if self.mistake == "counts all queries together" else batch.query
        position = batch.position(step)
        is_done = table.written.get(query, -1) >= position
        if self.mistake == f"{what} again":
            is_done = False
        elif self.mistake == f"{what} earlier batches":
            is_done = table.written.get(query) == position
        else:
            check_order("t", table.written.get(query, -1), batch)
        table.written[query] = max(position, table.written.get(query, -1))
        return is_done

    def _write(
        self, table: _Table, schema: TableSchema, rows: list[dict[str, Any]], batch: BatchWrite, what: str
    ) -> None:
        if self._once(table, batch, 1, what):
            return
        if not schema.primary_key or self.mistake == "appends merges":
            table.rows += [row for row in rows if self.mistake != "appends no equal rows" or row not in table.rows]
            return
        key = schema.primary_key[: 1 if self.mistake == "merges by a part of the key" else None]
        for given in rows:
            row = dict(given)
            unchanged = row.pop(UNCHANGED, None) or () if self.mistake != "forgets old values" else ()
            kind = row.pop(ROW_KIND)
            places = [n for n, old in enumerate(table.rows) if all(old[name] == row[name] for name in key)]
            if kind == "-D" and self.mistake != "never deletes":
                table.rows = [old for n, old in enumerate(table.rows) if n not in places]
            elif kind == "-D":
                continue
            elif places:
                old = table.rows[places[0]]
                table.rows[places[0]] = {**row, **{name: old[name] for name in unchanged}}
            else:
                table.rows.append(row)


class _Suite(TargetSuite):
    __test__: ClassVar[bool] = False

    def read(self, target: Target, table: TableId) -> Any:
        assert isinstance(target, _Memory)
        found = target._tables()[table]
        return _Frame([{name: row.get(name) for name in found.schema.names} for row in found.rows])


_CHECKS = {
    "a_table_is_created_once": ["creates again"],
    "the_owner_is_kept": ["shows no owner", "has one owner", "creates for another query"],
    "rows_from_the_driver_are_those_of_spark": ["writes from the driver again"],
    "a_repeated_merge_changes_nothing": ["never deletes", "merges by a part of the key", "appends merges"],
    "unchanged_columns_keep_their_values": ["forgets old values"],
    "a_repeated_append_changes_nothing": ["appends again", "counts batches only", "appends no equal rows"],
    "an_earlier_batch_is_not_appended": ["appends earlier batches"],
    "an_earlier_batch_is_not_merged": ["merges earlier batches"],
    "a_table_of_another_query_is_not_written": ["merges tables of others", "empties tables of others"],
    "two_queries_append_in_turn": ["counts all queries together"],
    "added_columns_are_null_in_old_rows": ["adds again"],
    "columns_get_wider_types": ["rewrites no values", "loses the owner", "keeps types"],
    "columns_are_renamed_and_dropped": ["hides columns"],
    "a_repeated_truncate_keeps_later_rows": ["empties again"],
    "a_dropped_table_can_be_created_again": ["never drops"],
    "unusual_names": ["changes names"],
    "it_can_be_pickled": ["pickles its tables"],
}
"""The tests of the kit, each with mistakes that it finds."""


def _check(name: str, mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = _Session()
    monkeypatch.setattr(targets, "converted_rows", lambda rows, *_: rows)
    getattr(_Suite(), f"test_{name}")(_Memory(mistake).with_session(session))


@pytest.mark.parametrize("name", _CHECKS)
def test_a_target_without_a_mistake_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _check(name, "", monkeypatch)


@pytest.mark.parametrize(("name", "mistake"), [(name, m) for name, mistakes in _CHECKS.items() for m in mistakes])
def test_a_target_with_a_mistake_is_refused(name: str, mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((AssertionError, LookupError, KvFormatError)):
        _check(name, mistake, monkeypatch)


def test_each_test_of_the_kit_that_needs_no_spark_is_tried() -> None:
    """The values of all types are those of Spark."""
    of_kit = {name.removeprefix("test_") for name in vars(TargetSuite) if name.startswith("test_")}
    assert of_kit - _CHECKS.keys() == {"values_of_all_types"}
