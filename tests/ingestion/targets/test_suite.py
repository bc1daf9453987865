"""The tests for targets of other packages: what they show when they fail. No Spark."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.targets.path import ParquetTarget, TableState
from kvformat.ingestion.targets.target import BatchWrite, check_owner
from kvformat.ingestion.testing import TargetSuite
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
