"""The table that maintain writes to a path: batches, repeated batches, versions, keys, unchanged columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvformat.registry import ConfigurationError, current_table
from kvformat.registry.streams.parquet_table import VERSIONS, ParquetTable

pytestmark = [pytest.mark.spark, pytest.mark.once]

_COLUMNS = "id INT, sub STRING, v STRING"


class _Table:
    def __init__(self, spark: Any, path: Path, *keys: str) -> None:
        self.spark, self.path, self._table = spark, path, ParquetTable.at(f"{path}/", keys)

    def write(self, batch_id: int, *rows: tuple[Any, ...], columns: str = _COLUMNS) -> None:
        self._table(self.spark.createDataFrame(list(rows), f"{columns}, row_kind STRING").coalesce(1), batch_id)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in current_table(self.spark, self.path).collect()), key=repr)


def test_each_batch_writes_the_next_version_and_a_repeated_batch_the_same_one(spark: Any, tmp_path: Path) -> None:
    table = _Table(spark, tmp_path / "t", "id", "sub")
    table.write(3, (1, "a", "x", "+U"), (1, None, "null", "+U"), (1, "b", "y", "+U"), (9, "a", None, "-D"))
    assert table.rows() == [(1, "a", "x"), (1, "b", "y"), (1, None, "null")]
    table.write(4, (1, None, "n", "+U"), (1, "b", None, "-D"), (2, None, None, "-D"))
    after_4 = [(1, "a", "x"), (1, None, "n")]
    assert table.rows() == after_4
    first = current_table(spark, tmp_path / "t")
    for _ in range(2):  # the second time, the batch is repeated: it begins with the version of batch 4
        table.write(10, (1, "a", None, "-D"), (5, "a", "new", "+U"))
        assert table.rows() == [(1, None, "n"), (5, "a", "new")]
        assert sorted(map(tuple, first.collect()), key=repr) == after_4
    for earlier in (9, 0):
        with pytest.raises(ConfigurationError, match=f"has the table of batch 10, but this is batch {earlier}: "):
            table.write(earlier, (7, "z", "lost", "+U"))
    table.write(11, (5, "a", None, "-D"))
    assert sorted(map(tuple, first.collect()), key=repr) == after_4  # readable while the next two are written
    table.write(12, (1, None, None, "-D"))
    assert table.rows() == []
    assert len(list((tmp_path / "t" / "rows").iterdir())) == VERSIONS


def test_a_version_without_its_commit_does_not_count(spark: Any, tmp_path: Path) -> None:
    table = _Table(spark, tmp_path / "t", "id")
    with pytest.raises(ConfigurationError, match="has no table written by maintain, or its first batch is not comple"):
        table.rows()
    table.write(0, (1, "a", "x", "+U"))
    table.write(1, (2, "b", "y", "+U"))
    (commit,) = (tmp_path / "t" / "commits" / "1").glob("*.json")
    commit.unlink()
    assert table.rows() == [(1, "a", "x")]
    table.write(1, (3, "c", "z", "+U"))
    assert table.rows() == [(1, "a", "x"), (3, "c", "z")]


def test_unchanged_columns_keep_the_value_of_the_stored_row_with_the_same_key(spark: Any, tmp_path: Path) -> None:
    table, columns = _Table(spark, tmp_path / "t", "id"), f"{_COLUMNS}, unchanged_columns ARRAY<STRING>"
    table.write(0, (1, "a", "x", ["v"], "+U"), (None, "b", "y", None, "+U"), columns=columns)
    assert table.rows() == [(1, "a", "x"), (None, "b", "y")]
    changed = (1, "c", None, None, "+U"), (None, None, None, ["v"], "+U"), (3, None, "w", ["sub"], "+U")
    table.write(1, *changed, columns=columns)
    assert table.rows() == [(1, "c", None), (3, None, "w"), (None, None, "y")]
    wider = f"id INT, more INT, {_COLUMNS.removeprefix('id INT, ')}"  # old rows have no value of an added column
    table.write(2, (3, 7, "s", "t", "+U"), columns=wider)
    assert table.rows() == [(1, None, "c", None), (3, 7, "s", "t"), (None, None, None, "y")]
