"""The tests for targets of other packages, and the positions of writes that a target remembers. No Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from kvformat.ingestion.errors import UnsupportedChangeError
from kvformat.ingestion.schemas.events import (
    AddColumns,
    AddedColumn,
    AlterColumnTypes,
    DropColumns,
    DropTable,
    RenameColumns,
    TruncateTable,
)
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.ingestion.targets.path import ParquetTarget, TableState
from kvformat.ingestion.targets.target import BatchWrite, TableOptions, check_owner
from kvformat.ingestion.targets.types import stored_type
from kvformat.ingestion.testing import TargetSuite
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.streams.parquet_table import VERSIONS


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
    """Tables whose rows are numbers in memory, by the folders of the writes; their states are kept as in files."""

    def __init__(self) -> None:
        super().__init__("/lake")
        vars(self).update(notes={}, folders={}, _session=mock.MagicMock())

    def _state(self, table: TableId) -> TableState | None:
        states = [TableState.from_text(text) for (of, _), text in vars(self)["notes"].items() if of == table]
        return max(states, key=lambda state: state.number, default=None)

    def _note(self, table: TableId, state: TableState) -> None:
        state = replace(state, number=state.number + 1)
        vars(self)["notes"][table, state.number % VERSIONS] = state.to_text()

    def rows_of(self, row: int, before: Callable[[], object] = lambda: None) -> Any:
        """Return a frame of one row; `before` is called when it is written."""

        def written(folder: str) -> None:
            before()
            vars(self)["folders"][folder] = row

        frame = mock.MagicMock()
        frame.write.mode().parquet.side_effect = written
        return frame

    def written(self, table: TableId | None = None) -> list[int]:
        """Return the writes that count."""
        state = self._state(TABLE if table is None else table)
        assert state is not None
        places = [(s.generation, s.first + n) for s in state.stored for n in range(s.count)]
        folder = f"{self._folder(TABLE if table is None else table)}/rows"
        return [vars(self)["folders"][f"{folder}/{generation}/_kvformat_write={n}"] for generation, n in places]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> _Notes:
    monkeypatch.setattr("kvformat.ingestion.targets.path.converted_rows", lambda rows, *_, **__: rows)
    target = _Notes()
    target.create(TABLE, SCHEMA, TableOptions(), "q")
    return target


TABLE, SCHEMA = TableId(("t",)), table_schema("id INT")


def _write(target: _Notes, row: int, batch: int, part: int = 0, query: str = "q") -> None:
    target.write(TABLE, SCHEMA, target.rows_of(row), BatchWrite(query, batch, part))


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


def test_rows_after_a_drop_are_kept_if_the_whole_batch_is_repeated(notes: _Notes) -> None:
    for _ in range(2):
        _write(notes, 1, 4)
        notes.change(DropTable(TABLE), SCHEMA, BatchWrite("q", 4, 1))
        notes.create(TABLE, SCHEMA, TableOptions(), "q")
        _write(notes, 2, 4, 1)
        assert notes.written() == [2]


def test_appends_go_on_behind_those_with_other_columns(notes: _Notes) -> None:
    wider = AddColumns(TABLE, tuple(AddedColumn(c) for c in table_schema("id INT", "x INT", "y INT").columns))
    for row in range(6):
        _write(notes, row, row)
        if row in (0, 3):
            notes.change(wider if row else RenameColumns(TABLE, (("id", "n"),)), SCHEMA, BatchWrite("q", row))
    assert notes.written() == [*range(6)]
    state = notes._state(TABLE)
    assert state is not None
    assert state.schema is not None
    assert state.schema.names == ("n", "id", "x", "y")
    assert [(s.first, s.count) for s in state.stored] == [(0, 1), (1, 3), (4, 2)]
    assert [[c[:2] for c in s.columns] for s in state.stored[:2]] == [[("n", "id")], [("n", "n")]]


def test_columns_keep_their_names_in_the_files(notes: _Notes) -> None:
    _write(notes, 1, 0)
    for event in (
        RenameColumns(TABLE, (("id", "n"),)),
        AddColumns(TABLE, (AddedColumn(table_schema("id INT").columns[0]),)),
        RenameColumns(TABLE, (("n", "id"),)),  # which is there
        DropColumns(TABLE, ("id",)),
        RenameColumns(TABLE, (("n", "m"),)),
    ):
        for _ in range(2):
            notes.change(event, SCHEMA, BatchWrite("q", 0))
    state = notes._state(TABLE)
    assert state is not None
    assert state.schema is not None
    assert state.schema.names == ("m",)
    assert [s.columns for s in state.stored] == [(("m", "id", "INT"),)]


@pytest.mark.parametrize(
    ("now", "wanted", "taken"),
    [
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("INT", "STRING", True),
        ("STRING", "INT", False),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", True),
        ("BINARY(3)", "BYTES", True),
        ("TIME(3)", "TIME(0)", True),
        ("DECIMAL(5, 2)", "DECIMAL(6, 2)", True),
        ("DECIMAL(5, 2)", "DECIMAL(6, 3)", True),
        ("DECIMAL(5, 2)", "DECIMAL(5, 3)", False),
    ],
)
def test_a_column_gets_a_type_that_holds_its_values(notes: _Notes, now: str, wanted: str, taken: bool) -> None:
    table = TableId(("u",))
    notes.create(table, table_schema(f"v {now}"), TableOptions(), "q")
    event = AlterColumnTypes(table, (("v", parse_column_type(wanted)),))
    with nullcontext() if taken else pytest.raises(UnsupportedChangeError, match="which does not hold all its values"):
        notes.change(event, SCHEMA, BatchWrite("q", 0))
    found = notes.schema(table)
    assert found is not None
    assert found.columns["v"].dataType == stored_type(parse_column_type(wanted if taken else now))


def test_a_write_beside_another_driver_is_an_error(notes: _Notes) -> None:
    beside = notes.rows_of(2, before=lambda: _write(notes, 1, 0))
    with pytest.raises(ConfigurationError, match="another driver has written it"):
        notes.write(TABLE, SCHEMA, beside, BatchWrite("q", 0))


@pytest.mark.parametrize(
    ("parts", "folder"),
    [
        (("shop", "rows"), "/lake/shop/%72ows"),
        (("notes", "a.b"), "/lake/%6Eotes/a%2Eb"),
        (("a~b/c", "rows.x"), "/lake/a%7Eb%2Fc/rows%2Ex"),
        (("a" * 255,), f"/lake/{'a' * 255}"),
    ],
)
def test_each_table_has_its_folder(notes: _Notes, parts: tuple[str, ...], folder: str) -> None:
    table = TableId(parts)
    notes.create(table, SCHEMA, TableOptions(), "q")
    notes.write(table, SCHEMA, notes.rows_of(1), BatchWrite("q", 0))
    assert [*vars(notes)["folders"]] == [f"{folder}/rows/0/_kvformat_write=0"]


def test_long_names_that_begin_alike_have_folders_of_their_own(notes: _Notes) -> None:
    tables = [TableId(("a" * 255 + end,)) for end in "bc"]
    for row, table in enumerate(tables):
        notes.create(table, SCHEMA, TableOptions(), "q")
        notes.write(table, SCHEMA, notes.rows_of(row), BatchWrite("q", 0))
    assert [notes.written(table) for table in tables] == [[0], [1]]
    assert all(len(part) <= 255 for folder in vars(notes)["folders"] for part in folder.split("/"))


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
