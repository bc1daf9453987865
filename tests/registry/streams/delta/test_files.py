"""Files of a table: what is written is read, statistics, and the folder's names."""

from __future__ import annotations

import datetime as dt
import functools
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.streams.delta.files import (
    TARGET_BYTES,
    DataFile,
    conformed,
    expected_size,
    read_file,
    write_file,
    write_files,
    written_batches,
)
from kvformat.registry.streams.delta.storage import TableStorage

_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("a.b", pa.string()),
        ("long", pa.string()),
        ("f", pa.float64()),
        ("t", pa.timestamp("us")),
        ("u", pa.timestamp("us", "UTC")),
        ("d", pa.decimal128(38, 5)),
        ("day", pa.date32()),
        ("yes", pa.bool_()),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("s", pa.struct([("id", pa.int32()), ("l", pa.list_(pa.field("element", pa.string())))])),
    ]
)
_ROW = {
    "id": 3,
    "a.b": "x",
    "long": "y" * 65,
    "f": 1.5,
    "t": dt.datetime(1, 1, 1, 2, 3, 4, 567891),
    "u": dt.datetime(9999, 12, 31, tzinfo=dt.UTC),
    "d": Decimal("1.10000"),
    "day": dt.date(1500, 2, 28),
    "yes": True,
    "m": [("k", None)],
    "s": {"id": 100, "l": ["", None]},
}


@pytest.fixture
def storage(tmp_path: Path) -> TableStorage:
    return TableStorage.of(tmp_path)


def test_rows_are_read_as_they_were_written(storage: TableStorage) -> None:
    rows = pa.Table.from_pylist([_ROW, {"id": -1}], _SCHEMA)
    file = write_file(storage, rows)
    assert file.size == (Path(storage.uri) / file.name).stat().st_size
    assert read_file(storage, file.name, _SCHEMA).equals(rows)
    assert read_file(storage, file.name, _SCHEMA, ["a.b", "id"]).column_names == ["a.b", "id"]
    wider = _SCHEMA.append(pa.field("new", pa.int8()))
    assert read_file(storage, file.name, wider).column("new").to_pylist() == [None, None]


def test_the_statistics_have_exact_values_only(storage: TableStorage) -> None:
    rows = pa.Table.from_pylist([_ROW, {"id": -1}], _SCHEMA)
    stats = json.loads(write_file(storage, rows).stats)
    day = "1500-02-28"
    assert stats["numRecords"] == 2
    assert stats["minValues"] == {"id": -1, "a.b": "x", "day": day}
    assert stats["maxValues"] == {"id": 3, "a.b": "x", "day": day}
    assert stats["nullCount"] == {name: int(name != "id") for name in _SCHEMA.names if name not in ("m", "s")}


def test_values_outside_of_pythons_years_have_no_statistics(storage: TableStorage) -> None:
    days = pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32())
    early = pa.array([-(2**31), 0], pa.int32()).cast(pa.date32())
    moments = pa.array([-(2**63) + 1, 2**63 - 1], pa.timestamp("us"))
    rows = pa.table(
        {"id": [1, 2], "day": days, "early": early, "t": moments, "u": moments.cast(pa.timestamp("us", "UTC"))}
    )
    stats = json.loads(write_file(storage, rows).stats)
    assert (stats["minValues"], stats["maxValues"]) == ({"id": 1}, {"id": 2})
    assert stats["nullCount"] == dict.fromkeys(rows.column_names, 0)


def test_the_statistics_are_those_of_all_row_groups(storage: TableStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column with one text that is too long, in any group, has no least and greatest value."""
    monkeypatch.setattr(pq, "write_table", functools.partial(pq.write_table, row_group_size=2))
    days = [dt.date(2024, 5, day) if day else None for day in (9, 7, 0, 0, 8, 3, 4, 5)]
    rows = pa.table(
        {
            "id": [5, 9, 1, 2, None, None, 7, None],
            "day": days,
            "begins": ["y" * 65, "a", "b", "c", None, "d", "e", None],
            "ends": ["a", "b", "c", "d", None, None, "e", "y" * 65],
        }
    )
    stats = json.loads(write_file(storage, rows).stats)
    assert stats["numRecords"] == 8
    assert stats["minValues"] == {"id": 1, "day": "2024-05-03"}
    assert stats["maxValues"] == {"id": 9, "day": "2024-05-09"}
    assert stats["nullCount"] == {"id": 3, "day": 2, "begins": 2, "ends": 2}


def test_a_file_that_is_not_written_whole_is_removed(storage: TableStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(rows: pa.Table, sink: Any, **more: Any) -> None:
        sink.write(b"PAR1")
        raise OSError("no space left")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="no space left"):
        write_file(storage, pa.table({"id": [1]}))
    assert [*Path(storage.uri).iterdir()] == []


def test_null_in_a_column_that_is_not_null_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="the column 'id' of the table is NOT NULL, and 1 rows have no value"):
        conformed(pa.table({"id": pa.array([1, None], pa.int32())}), _SCHEMA)


def test_large_rows_become_several_files_with_sorted_keys(storage: TableStorage) -> None:
    rows = pa.table({"id": [*range(50, 0, -1)]})
    assert len(write_files(storage, rows, ["id"], 2 * TARGET_BYTES)) == 1
    files = write_files(storage, rows, ["id"], 5 * TARGET_BYTES)
    read = [pq.read_table(f"{storage.uri}/{file.name}")["id"].to_pylist() for file in files]
    assert len(read) == 5
    assert [number for numbers in read for number in numbers] == [*range(1, 51)]
    assert write_files(storage, rows.slice(0, 0), ["id"], 0) == []


@pytest.mark.parametrize("keys", [["a"], ["a", "id"], ["m", "s", "id", "a"]])
def test_nested_keys_of_large_rows_are_not_sorted(storage: TableStorage, keys: list[str]) -> None:
    """Arrow can't sort some of them."""
    count = 50
    rows = pa.table(
        {
            "id": [*range(count, 0, -1)],
            "a": [[number] for number in range(count)],
            "m": pa.array([[("k", 1)]] * count, pa.map_(pa.string(), pa.int64())),
            "s": [{"l": [number]} for number in range(count)],
        }
    )
    files = write_files(storage, rows, keys, 5 * TARGET_BYTES)
    read = [pq.read_table(f"{storage.uri}/{file.name}")["id"].to_pylist() for file in files]
    assert [number for numbers in read for number in numbers] == [*range(1, 51)][:: 1 if "id" in keys else -1]


def test_a_task_writes_files_of_the_target_size(storage: TableStorage) -> None:
    batch = pa.record_batch({"id": pa.array(range(2**20), pa.int64())})
    schema = pa.schema([("id", pa.int64())])
    files = [*written_batches(storage, schema, [batch] * 9)]
    assert [pq.read_metadata(f"{storage.uri}/{file.name}").num_rows for file in files] == [2**23, 2**20]
    assert [*written_batches(storage, schema, [])] == []


def test_the_size_of_rows_is_that_of_their_file() -> None:
    rows = pa.table({"id": [*range(100)]})
    assert expected_size(rows, DataFile("f", 1000, 50)) == 2000
    for file in (None, DataFile("f", 1000, None), DataFile("f", 1000, 0)):  # other writers need not tell the number
        assert expected_size(rows, file) == 200


@pytest.mark.parametrize(
    ("path", "uri", "for_spark"),
    [
        ("/lake/", "/lake", "file:///lake/f"),
        ("file:///lake/a%20b", "/lake/a b", "file:///lake/a b/f"),
        ("s3://bucket/lake/", "s3://bucket/lake", "s3a://bucket/lake/f"),
        (
            "abfss://c@a.dfs.core.windows.net/t",
            "abfss://c@a.dfs.core.windows.net/t",
            "abfss://c@a.dfs.core.windows.net/t/f",
        ),
    ],
)
def test_a_folder_has_a_name_for_each_reader(path: str, uri: str, for_spark: str) -> None:
    storage = TableStorage.of(path, {"AWS_SECRET_ACCESS_KEY": "hunter2"})
    assert storage.uri == uri
    assert storage.for_spark("f") == for_spark
    assert "hunter2" not in repr(storage)
    assert storage.below("t").options == storage.options
