"""The table that maintain writes to a path: batches, repeated batches, keys, unchanged columns, merges by tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kvformat.registry import ConfigurationError, current_table
from kvformat.registry.streams.current_table import CurrentTable

pytestmark = [pytest.mark.spark, pytest.mark.once]

_COLUMNS = "id INT, sub STRING, v STRING"


class _Table:
    def __init__(self, spark: Any, path: Path, *keys: str, driver_bytes: int | None = None) -> None:
        self.spark, self.path, self._table = spark, path, CurrentTable.at(f"{path}/", keys)
        if driver_bytes is not None:
            self._table = replace(self._table, folder=replace(self._table.folder, driver_bytes=driver_bytes))

    def write(self, batch_id: int, *rows: tuple[Any, ...], columns: str = _COLUMNS) -> None:
        self._table(self.spark.createDataFrame(list(rows), f"{columns}, row_kind STRING").coalesce(1), batch_id)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows that Spark reads, which are those that deltalake and DuckDB read."""
        frame = current_table(self.spark, self.path)
        found = sorted((tuple(row) for row in frame.collect()), key=repr)
        table = DeltaTable(str(self.path))
        rows = pa.table(table.scan().read_all())
        assert sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr) == found
        if files := table.file_uris():
            names = ", ".join(f'"{name}"' for name in frame.columns)
            of_files = duckdb.sql(f"SELECT {names} FROM read_parquet({files!r}, union_by_name => true)").fetchall()
            assert sorted(of_files, key=repr) == found
        return found


def test_a_batch_is_merged_once(spark: Any, tmp_path: Path) -> None:
    table = _Table(spark, tmp_path / "t", "id", "sub")
    table.write(3, (1, "a", "x", "+U"), (1, None, "null", "+U"), (1, "b", "y", "+U"), (9, "a", None, "-D"))
    assert table.rows() == [(1, "a", "x"), (1, "b", "y"), (1, None, "null")]
    table.write(4, (1, None, "n", "+U"), (1, "b", None, "-D"), (2, None, None, "-D"))
    after_4 = [(1, "a", "x"), (1, None, "n")]
    assert table.rows() == after_4
    first = current_table(spark, tmp_path / "t")
    for value in ("new", "not written: the batch is there"):
        table.write(10, (1, "a", None, "-D"), (5, "a", value, "+U"))
        assert table.rows() == [(1, None, "n"), (5, "a", "new")]
        assert sorted(map(tuple, first.collect()), key=repr) == after_4
    for earlier in (9, 0):
        with pytest.raises(ConfigurationError, match=f"has the table of batch 10, but this is batch {earlier}: "):
            table.write(earlier, (7, "z", "lost", "+U"))
    table.write(11, (5, "a", None, "-D"))
    table.write(12, (1, None, None, "-D"))
    assert table.rows() == []
    assert sorted(map(tuple, first.collect()), key=repr) == after_4


def test_a_path_without_a_table_is_an_error(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has no table written by maintain, or its first batch is not comple"):
        _Table(spark, tmp_path / "t", "id").rows()
    table = _Table(spark, tmp_path / "t", "id")
    table.write(0, (1, "a", "x", "+U"))
    with pytest.raises(
        ConfigurationError, match=r"the column 'sub' of the table at .*t' is string, and the rows have in"
    ):
        table.write(1, (1, 2, "x", "+U"), columns="id INT, sub INT, v STRING")
    assert table.rows() == [(1, "a", "x")]


@pytest.mark.parametrize("driver_bytes", [None, 0])
def test_unchanged_columns_keep_the_value_of_the_stored_row_with_the_same_key(
    spark: Any, tmp_path: Path, driver_bytes: int | None
) -> None:
    """In the driver, and in tasks."""
    table = _Table(spark, tmp_path / "t", "id", driver_bytes=driver_bytes)
    columns = f"{_COLUMNS}, unchanged_columns ARRAY<STRING>"
    table.write(0, (1, "a", "x", ["v"], "+U"), (None, "b", "y", None, "+U"), columns=columns)
    assert table.rows() == [(1, "a", "x"), (None, "b", "y")]
    changed = (1, "c", None, None, "+U"), (None, None, None, ["v"], "+U"), (3, None, "w", ["sub"], "+U")
    table.write(1, *changed, columns=columns)
    assert table.rows() == [(1, "c", None), (3, None, "w"), (None, None, "y")]
    wider = f"id INT, more INT, {_COLUMNS.removeprefix('id INT, ')}"  # old rows have no value of an added column
    table.write(2, (3, 7, "s", "t", "+U"), columns=wider)
    assert table.rows() == [(1, "c", None, None), (3, "s", "t", 7), (None, None, "y", None)]
    table.write(3, (3, "r", "s", "+U"), (1, None, None, "-D"))
    assert table.rows() == [(3, "r", "s", 7), (None, None, "y", None)], "a column that the batch lacks keeps its value"
    table.write(4, (3, "z", None, ["v"], "+U"), columns=columns)  # beside one that the update did not contain
    assert table.rows() == [(3, "z", "s", 7), (None, None, "y", None)]


def test_a_key_with_a_struct_is_merged_by_tasks(spark: Any, tmp_path: Path) -> None:
    table = _Table(spark, tmp_path / "t", "id")
    columns = "id STRUCT<a: INT>, v STRING"
    table.write(0, ((1,), "a", "+U"), ((2,), "b", "+U"), ((None,), "c", "+U"), columns=columns)
    table.write(1, ((1,), None, "-D"), ((None,), "d", "+U"), ((3,), "e", "+U"), columns=columns)
    found = [(row.id.a, row.v) for row in current_table(spark, tmp_path / "t").collect()]
    assert sorted(found, key=repr) == [(2, "b"), (3, "e"), (None, "d")]


def test_types_that_delta_does_not_have_are_texts(spark: Any, tmp_path: Path) -> None:
    table = CurrentTable.at(tmp_path / "t", ("id",))
    values = "TIME'12:00:01.5' AS t, INTERVAL '1-2' YEAR TO MONTH AS m, "
    values += "parse_json('{\"a\":[1]}') AS v, array(TIME'01:02:03') AS l"
    table(spark.sql(f"SELECT 1 AS id, {values}, '+U' AS row_kind"), 0)
    (row,) = current_table(spark, tmp_path / "t").collect()
    assert tuple(row) == (1, "12:00:01.5", "INTERVAL '1-2' YEAR TO MONTH", '{"a":[1]}', ["01:02:03"])
