"""Decoding the messages of real connectors gives the databases' tables (fixtures/recordings/)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import recordings

TABLES = [table for name in recordings.names() for table in recordings.tables(name)]
FEWEST_TABLES = 100
FEWEST_ROWS = 1400


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_a_captured_table_equals_the_database(table: recordings.Table, tmp_path: Path) -> None:
    found = recordings.fold(table, tmp_path)
    assert found.errors == []
    assert recordings.differences(table, found.rows) == []


def test_the_readme_has_the_number_of_recordings() -> None:
    rows = sum(len(table.rows()) for table in TABLES)
    print(f"{len(TABLES)} tables of {len(recordings.names())} recordings, {rows} rows")
    assert len(TABLES) >= FEWEST_TABLES
    assert rows >= FEWEST_ROWS
    assert all(table.records() for table in TABLES)


def test_a_wrong_value_and_a_lost_record_are_reported(tmp_path: Path) -> None:
    table = recordings.tables("orders")[0]
    found = recordings.fold(table, tmp_path)
    assert recordings.differences(table, found.rows[1:])
    for column in table.columns:
        wrong = [{**found.rows[0], column: None}, *found.rows[1:]]
        assert recordings.differences(table, wrong), column
