"""The tests for targets of other packages, and the positions of writes that a target remembers. No Spark."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from kvformat.ingestion.schemas.events import DropTable, TruncateTable
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.targets.path import ParquetTarget, StoredRows, TableState
from kvformat.ingestion.targets.target import BatchWrite, TableOptions, check_owner
from kvformat.ingestion.testing import TargetSuite
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry.contract.errors import ConfigurationError


def test_a_failed_assert_of_the_suite_shows_its_values() -> None:
    class Unpickled:
        spark = None

        def with_session(self, spark: Any) -> Any:
            return self

        def create(self, *arguments: Any) -> None:
            pass

        def own(self, *arguments: Any) -> None:
            pass

        def schema(self, table: TableId) -> str:
            return "a table that is there"

    suite: Any = type("Suite", (TargetSuite,), {"__test__": False})()
    with pytest.raises(AssertionError, match="'a table that is there' is None"):
        suite.test_a_table_is_created_once(Unpickled())


@pytest.mark.parametrize(
    ("query", "batch", "part", "is_past"),
    [
        ("q", 10, 1, True),  # the last write itself, repeated
        ("q", 10, 0, True),
        ("q", 9, 7, True),
        ("q", 10, 2, False),
        ("q", 11, 0, False),
        ("other", 10, 1, False),
        ("other", 9, 0, False),
    ],
)
def test_a_write_is_past_up_to_the_last_position_of_the_same_query(
    query: str, batch: int, part: int, is_past: bool
) -> None:
    state = TableState(0, None, "q", query="q", position=(10, 3))
    assert state.is_past(BatchWrite(query, batch, part), (batch, 2 * part + 1)) is is_past


@pytest.mark.parametrize(("part", "is_past"), [(0, True), (1, True), (2, False)])
def test_a_change_of_a_part_comes_before_the_write_of_the_part(part: int, is_past: bool) -> None:
    state = TableState(0, None, "q", query="q", position=(10, 3))
    assert state.is_past(BatchWrite("q", 10, part), (10, 2 * part)) is is_past
    changed = TableState(0, None, "q", query="q", position=(10, 2))
    assert not changed.is_past(BatchWrite("q", 10, 1), (10, 3)), "the write after a TRUNCATE of its part"


def test_only_the_owner_writes_a_table() -> None:
    table = TableId(("t",))
    check_owner(table, None, "q")
    check_owner(table, "q", "q")
    for other in ("q2", "Q", ""):
        with pytest.raises(ConfigurationError, match="take_over=True"):
            check_owner(table, other, "q")


def test_a_pickled_target_has_no_session_and_keeps_its_options() -> None:
    target = ParquetTarget("/lake", types="broaden", create_tables=False, write_mode="append")
    again = pickle.loads(pickle.dumps(target.with_session(object())))  # type: ignore[arg-type]
    assert again == target
    with pytest.raises(ConfigurationError, match="has no session"):
        _ = again.spark


class _Notes(ParquetTarget):
    """Tables whose rows are numbers in memory; their states are those of Parquet tables."""

    def __init__(self) -> None:
        super().__init__("/lake")
        vars(self).update(states={}, generations={}, _session=mock.MagicMock())

    def _state(self, table: TableId) -> TableState | None:
        return vars(self)["states"].get(table)

    def _note(self, table: TableId, state: TableState) -> None:
        vars(self)["states"][table] = replace(state, number=state.number + 1)

    def _append(self, table: TableId, state: TableState, rows: Any, note: Any) -> TableState:
        count = sum(stored.count for stored in state.stored)
        written = vars(self)["generations"].setdefault(state.generation, [])
        written[count:] = [rows]
        return replace(state, stored=(StoredRows(state.generation, 0, count + 1, ()),))

    def written(self) -> list[int]:
        """Return the writes that count."""
        (state,) = vars(self)["states"].values()
        return [row for s in state.stored for row in vars(self)["generations"][s.generation][: s.count]]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> _Notes:
    monkeypatch.setattr("kvformat.ingestion.targets.path.converted_rows", lambda rows, *_: rows)
    target = _Notes()
    target.create(TABLE, SCHEMA, TableOptions(), "q")
    return target


TABLE, SCHEMA = TableId(("t",)), table_schema("id INT")


def _write(target: _Notes, row: int, batch: int, part: int = 0, query: str = "q") -> None:
    target.write(TABLE, SCHEMA, row, BatchWrite(query, batch, part))  # type: ignore[arg-type]


def test_each_part_of_a_batch_is_written_once(notes: _Notes) -> None:
    for row, batch, part in [(1, 9, 0), (1, 9, 0), (2, 9, 1), (1, 9, 0), (2, 9, 1), (3, 10, 0), (3, 10, 0)]:
        _write(notes, row, batch, part)
    assert notes.written() == [1, 2, 3]


def test_a_batch_before_the_last_one_is_an_error_and_the_last_one_is_not(notes: _Notes) -> None:
    _write(notes, 1, 10)
    _write(notes, 1, 10)
    with pytest.raises(ConfigurationError, match="has batch 10 of this query, but this is batch 9"):
        _write(notes, 2, 9, 5)
    assert notes.written() == [1]


def test_another_query_appends_batches_with_equal_numbers_after_it_owns_the_table(notes: _Notes) -> None:
    _write(notes, 1, 7)
    with pytest.raises(ConfigurationError, match="take_over"):
        _write(notes, 2, 8, query="other")
    notes.own(TABLE, "other")
    _write(notes, 2, 0, query="other")
    _write(notes, 2, 0, query="other")
    assert notes.written() == [1, 2]


def test_a_repeated_truncate_keeps_the_rows_that_were_written_after_it(notes: _Notes) -> None:
    _write(notes, 1, 0)
    steps: list[Any] = [
        lambda: _write(notes, 2, 1),
        lambda: notes.change(TruncateTable(TABLE), SCHEMA, BatchWrite("q", 1, 1)),
        lambda: _write(notes, 3, 1, 1),
    ]
    found = []
    for end in (1, 2, 3, 3):
        for step in steps[:end]:
            step()
        found.append(notes.written())
    assert found == [[1, 2], [], [3], [3]]


def test_a_dropped_table_that_a_repeated_batch_creates_again_is_dropped_again(notes: _Notes) -> None:
    for _ in range(2):
        notes.create(TABLE, SCHEMA, TableOptions(), "q")
        notes.change(DropTable(TABLE), SCHEMA, BatchWrite("q", 4))
        assert notes.schema(TABLE) is None
    notes.create(TABLE, SCHEMA, TableOptions(), "new")
    found = notes.schema(TABLE)
    assert found is not None
    assert found.owner == "new"
    assert notes.written() == []


def test_a_table_that_is_there_keeps_its_owner_when_it_is_created(notes: _Notes) -> None:
    notes.create(TABLE, table_schema("other INT"), TableOptions(), "other")
    found = notes.schema(TABLE)
    assert found is not None
    assert (found.columns.names, found.owner) == (["id"], "q")


def test_a_change_of_a_table_of_another_query_is_an_error(notes: _Notes) -> None:
    _write(notes, 1, 0)
    notes.own(TABLE, "other")
    for event in (TruncateTable(TABLE), DropTable(TABLE)):
        with pytest.raises(ConfigurationError, match="take_over"):
            notes.change(event, SCHEMA, BatchWrite("q", 1))
    assert notes.written() == [1]
