"""Rows of Spark's tasks: each is in the driver or in a file. Tasks run here; tests/spark has real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.streams.delta import files as delta_files
from kvformat.registry.streams.delta import transfer
from kvformat.registry.streams.delta.files import read_file
from kvformat.registry.streams.delta.storage import TableStorage
from kvformat.registry.streams.delta.transfer import transferred

_SCHEMA = pa.schema([pa.field("a.b", pa.int64(), nullable=False), ("new", pa.string())])
_LEAST = 80  # bytes that a task may return: ten rows


class _Frame:
    """A DataFrame with one column of numbers: for each task the batches, for each batch the number of rows."""

    columns: tuple[str, ...] = ("a.b",)

    def __init__(self, *tasks: list[int]) -> None:
        numbers = iter(range(sum(map(sum, tasks))))
        self._tasks = [[[next(numbers) for _ in range(rows)] for rows in task] for task in tasks]
        self.sparkSession = SimpleNamespace(conf={"spark.sql.shuffle.partitions": "4"})

    def toDF(self, *names: str) -> _Frame:
        self._names = names
        return self

    def mapInArrow(self, stage: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], ddl: str) -> _Frame:
        assert "." not in "".join(self._names)
        tasks = [[pa.record_batch([pa.array(of, pa.int64())], self._names) for of in task] for task in self._tasks]
        self._lines = [line for task in tasks for batch in stage(iter(task)) for line in batch.to_pylist()]
        return self

    def collect(self) -> list[dict[str, Any]]:
        return self._lines


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_LEAST", _LEAST)


_TASKS: list[tuple[list[list[int]], int, int]] = [
    ([], 0, 0),
    ([[], [0, 0]], 0, 0),
    ([[10]], 0, 0),
    ([[11]], 0, 1),
    ([[4, 6], [1]], 0, 0),
    ([[4, 6, 1, 9], [1]], 0, 1),
    ([[2], [5, 0, 9], [3, 8, 1], [7]], 0, 2),
    ([[30]], 4 * 8 * 30, 0),  # each of four tasks may return a quarter
    ([[31]], 4 * 8 * 30, 1),
]


@pytest.mark.parametrize(("tasks", "most", "large"), _TASKS)
@pytest.mark.parametrize("target", [1, 2**24])
def test_each_row_is_in_the_driver_or_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: list[list[int]], most: int, large: int, target: int
) -> None:
    monkeypatch.setattr(delta_files, "TARGET_BYTES", target)
    storage = TableStorage.of(tmp_path)
    found = transferred(_Frame(*tasks), _SCHEMA, most, storage)  # type: ignore[arg-type]
    in_files = [read_file(storage, file.name, _SCHEMA) for file in found.files]
    numbers = [number for rows in (found.rows, *in_files) for number in rows["a.b"].to_pylist()]
    assert sorted(numbers) == [*range(sum(map(sum, tasks)))]
    assert found.rows.schema == _SCHEMA
    assert len(found.files) == large if target > 1 else len(found.files) >= large
    assert not found.too_many
    for file, rows in zip(found.files, in_files, strict=True):
        stats, ids = json.loads(file.stats), rows["a.b"].to_pylist()
        assert (stats["numRecords"], stats["minValues"], stats["maxValues"]) == (
            len(ids),
            {"a.b": min(ids)},
            {"a.b": max(ids)},
        )
        assert file.size == (tmp_path / file.name).stat().st_size


@pytest.mark.parametrize(("tasks", "most", "large"), _TASKS)
def test_without_a_folder_a_task_with_many_rows_says_so_only(tasks: list[list[int]], most: int, large: int) -> None:
    found = transferred(_Frame(*tasks), _SCHEMA, most, None)  # type: ignore[arg-type]
    assert (found.too_many, found.files) == (large > 0, ())
    if not large:
        assert found.rows["a.b"].to_pylist() == [*range(sum(map(sum, tasks)))]


@pytest.mark.parametrize("rows", [1, 20])
def test_a_column_that_is_not_null_is_checked_in_the_task(tmp_path: Path, rows: int) -> None:
    schema = pa.schema([*_SCHEMA, pa.field("needed", pa.int32(), nullable=False)])
    with pytest.raises(ConfigurationError, match="the column 'needed' of the table is NOT NULL"):
        transferred(_Frame([rows]), schema, 0, TableStorage.of(tmp_path))  # type: ignore[arg-type]
