"""Merges of rows in the driver into a table of several files, features that can't be written, and the upkeep."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake import Transaction as AppTransaction
from pyspark.sql import types as T

from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.streams.delta import files as delta_files
from kvformat.registry.streams.delta import table as delta_table
from kvformat.registry.streams.delta.files import write_file
from kvformat.registry.streams.delta.log import CommitConflict, DeltaLog, WriterTransaction
from kvformat.registry.streams.delta.storage import TableStorage
from kvformat.registry.streams.delta.table import DeltaFolder, TableWrite

_COLUMNS = T.StructType([T.StructField("id", T.IntegerType(), False), T.StructField("v", T.StringType())])
_ROWS = pa.schema([pa.field("id", pa.int32(), nullable=False), ("v", pa.string())])


def _write(position: int) -> TableWrite:
    return TableWrite(WriterTransaction("q", position), lambda log: None)


def _changes(*rows: tuple[int, str | None, str]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": key, "v": v, "row_kind": kind} for key, v, kind in rows],
        _ROWS.append(pa.field("row_kind", pa.string())),
    )


@pytest.fixture
def folder(tmp_path: Path) -> DeltaFolder:
    made = DeltaFolder(TableStorage.of(tmp_path / "t"), upkeep_commits=0)
    DeltaLog.create(made.storage, _COLUMNS, {})
    return made


def _read(folder: DeltaFolder) -> dict[int, str | None]:
    """Return the rows as deltalake reads them, which are those of DuckDB."""
    table = DeltaTable(folder.storage.uri)
    rows = pa.table(table.scan().read_all()).to_pylist()
    found = {row["id"]: row["v"] for row in rows}
    assert len(found) == len(rows)
    if files := table.file_uris():
        assert dict(duckdb.sql(f"SELECT id, v FROM read_parquet({files!r})").fetchall()) == found
    return found


@pytest.mark.parametrize("writer", ["kvformat", "deltalake"])
def test_keys_outside_of_pythons_years_are_merged(tmp_path: Path, writer: str) -> None:
    folder = DeltaFolder(TableStorage.of(tmp_path / "t"), upkeep_commits=0)
    DeltaLog.create(folder.storage, T.StructType([T.StructField("day", T.DateType(), False)]), {})
    days = [-900_000, 0, 10**7, 2 * 10**7]
    rows = pa.table({"day": pa.array(days, pa.int32()).cast(pa.date32())})
    if writer == "deltalake":
        write_deltalake(folder.storage.uri, rows, mode="append", schema_mode="merge")
    else:
        folder.merge_rows(rows.append_column("row_kind", pa.array(["+U"] * 4)), ["day"], _write(0))
    deleted = pa.table({"day": rows["day"].slice(2), "row_kind": ["-D", "-D"]})
    for _ in range(2):
        folder.merge_rows(deleted, ["day"], _write(1))
    left = pa.table(DeltaTable(folder.storage.uri).scan().read_all())["day"].cast(pa.int32())
    assert sorted(left.to_pylist()) == days[:2]


@pytest.mark.parametrize("seed", range(6))
def test_batches_are_merged_into_files_of_any_number(
    folder: DeltaFolder, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Files are so small here that merges split them, and most batches touch only some of them."""
    rng, expected = random.Random(seed), dict[int, str | None]()
    for module in (delta_files, delta_table):
        monkeypatch.setattr(module, "TARGET_BYTES", rng.choice([1, 1200, 3000]))
    monkeypatch.setattr(delta_table, "_KEYS_FIRST", rng.choice([0, 2**20]))
    most = 0
    for batch in range(30):
        begin = rng.randrange(300)
        rows = []
        for key in {begin + rng.randrange(40) for _ in range(rng.randrange(1, 30))}:
            value, kind = rng.choice([None, "", f"{batch}-{key}" * rng.randrange(1, 9)]), rng.choice(["+U", "+U", "-D"])
            rows.append((key, value, kind))
            if kind == "+U":
                expected[key] = value
            else:
                expected.pop(key, None)
        for _ in range(2):
            folder.merge_rows(_changes(*rows), ["id"], _write(batch))
        assert _read(folder) == expected
        most = max(most, len(folder.written_log().files()))
    assert most > 1
    assert folder.written_log().version == 30


@pytest.mark.parametrize("position", [0, 4, 5])
def test_a_write_of_a_position_that_the_table_has_is_left_out(position: int, folder: DeltaFolder) -> None:
    folder.merge_rows(_changes((1, "a", "+U")), ["id"], _write(5))
    version = folder.written_log().version
    folder.merge_rows(_changes((1, "b", "+U")), ["id"], _write(position))
    folder.append_rows(pa.table({"id": [2], "v": ["c"]}, schema=_ROWS), _write(position), folder.written_log())
    folder.truncate(_write(position))
    assert _read(folder) == {1: "a"}
    assert folder.written_log().version == version


@pytest.mark.parametrize("error", [CommitConflict, OSError])
def test_a_commit_that_fails_leaves_no_file(
    error: type[Exception], folder: DeltaFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, fails = DeltaLog.commit, [error("once")]

    def failing(log: DeltaLog, *given: Any) -> None:
        if fails:
            raise fails.pop()
        commit(log, *given)

    monkeypatch.setattr(DeltaLog, "commit", failing)
    for _ in range(2):  # another writer's commit is no failure; after another error the write is repeated
        with contextlib.suppress(OSError):
            folder.merge_rows(_changes((1, "a", "+U")), ["id"], _write(5))
    assert _read(folder) == {1: "a"}
    assert len([*(Path(folder.storage.uri)).glob("*.parquet")]) == 1


def test_only_files_with_changed_keys_are_written(folder: DeltaFolder) -> None:
    files = []
    for start in (0, 100, 200):
        rows = pa.table({"id": pa.array(range(start, start + 100), pa.int32()), "v": ["x" * 9] * 100}, schema=_ROWS)
        files.append(write_file(folder.storage, rows))
        folder.written_log().commit(files[-1:], [], WriterTransaction("q", start))
    folder.merge_rows(_changes((150, "new", "+U"), (151, None, "-D")), ["id"], _write(300))
    names = {file.name for file in folder.written_log().files()}
    assert names & {file.name for file in files} == {files[0].name, files[2].name}
    assert len(_read(folder)) == 299
    assert _read(folder)[150] == "new"


def test_null_in_a_column_that_is_not_null_leaves_the_table_as_it_is(folder: DeltaFolder) -> None:
    changes = pa.table({"id": pa.array([None], pa.int32()), "v": ["a"], "row_kind": ["+U"]})
    with pytest.raises(ConfigurationError, match="the column 'id' of the table is NOT NULL, and 1 rows have no value"):
        folder.merge_rows(changes, ["id"], _write(0))
    assert (_read(folder), folder.written_log().version) == ({}, 0)


# --- tables of others --------------------------------------------------------------------------------------------


def _foreign(path: Path, **more: Any) -> None:
    write_deltalake(path, pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}, schema=_ROWS), **more)


def test_a_table_of_somebody_else_is_written(tmp_path: Path) -> None:
    _foreign(tmp_path, commit_properties=CommitProperties(app_transactions=[AppTransaction("spark", 3)]))
    folder = DeltaFolder(TableStorage.of(tmp_path))
    folder.merge_rows(_changes((2, "c", "+U"), (3, "d", "+U")), ["id"], _write(0))
    assert _read(folder) == {1: "a", 2: "c", 3: "d"}
    assert DeltaTable(tmp_path).transaction_version("spark") == 3


@pytest.mark.parametrize(
    ("properties", "partitions", "words"),
    [
        ({}, ["id"], "has partitions (id)"),
        ({"delta.appendOnly": "true"}, [], "has delta.appendOnly"),
        ({"delta.enableChangeDataFeed": "true"}, [], "has delta.enableChangeDataFeed"),
        ({"delta.enableDeletionVectors": "true"}, [], "has features (deletionVectors"),
    ],
)
def test_a_feature_that_is_not_written_here_is_named(
    tmp_path: Path, properties: dict[str, str], partitions: list[str], words: str
) -> None:
    _foreign(tmp_path, configuration=properties, partition_by=partitions or None)
    with pytest.raises(
        ConfigurationError, match="which only Spark with Delta's package writes: use a sink with"
    ) as caught:
        DeltaFolder(TableStorage.of(tmp_path)).written_log()
    assert words in str(caught.value)


def test_a_table_whose_files_are_not_its_rows_is_not_read(tmp_path: Path) -> None:
    _foreign(tmp_path, partition_by=["id"])
    folder = DeltaFolder(TableStorage.of(tmp_path))
    log = folder.log()
    assert log is not None
    with pytest.raises(ConfigurationError, match=r"has partitions \(id\): read it with Spark and Delta's package, or"):
        folder.read(None, log)  # type: ignore[arg-type]


def test_a_constraint_is_named(tmp_path: Path) -> None:
    _foreign(tmp_path)
    DeltaTable(tmp_path).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ConfigurationError, match=r"has delta\.constraints\.positive, which only Spark with Delta's"):
        DeltaFolder(TableStorage.of(tmp_path)).written_log()


def test_column_mapping_is_named(tmp_path: Path) -> None:
    """Deltalake itself can't make such a table, so its log is changed."""
    _foreign(tmp_path)
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ConfigurationError, match="has column mapping, which only Spark"):
        DeltaFolder(TableStorage.of(tmp_path)).written_log()


# --- upkeep ------------------------------------------------------------------------------------------------------


def test_the_upkeep_removes_what_no_reader_needs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    storage = TableStorage.of(tmp_path)
    DeltaLog.create(storage, _COLUMNS, {"delta.deletedFileRetentionDuration": "interval 1 hours"})
    folder = DeltaFolder(storage, upkeep_commits=4)
    rows = pa.table({"id": pa.array([9], pa.int32()), "v": ["x"]}, schema=_ROWS)
    old, fresh = write_file(storage, rows), write_file(storage, rows)
    (tmp_path / "foreign.parquet").write_bytes(b"x")
    long_ago = time.time() - 25 * 3600
    for name in (old.name, "foreign.parquet"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    for batch in range(3):
        folder.merge_rows(_changes((batch, "a", "+U")), ["id"], _write(batch))
    replaced = [path.name for path in tmp_path.glob("kvformat-*.parquet")]
    assert len(replaced) == 5
    for name in replaced:  # they are old, too, but were removed from the table only now
        if name != fresh.name:
            os.utime(tmp_path / name, (long_ago, long_ago))
    folder.merge_rows(_changes((3, "a", "+U")), ["id"], _write(3))
    left = {path.name for path in tmp_path.glob("*.parquet")}
    assert left == {*replaced, folder.written_log().files()[0].name, "foreign.parquet"} - {old.name}
    assert caplog.records == []
    assert _read(folder) == dict.fromkeys(range(4), "a")


def test_the_log_stays_short(tmp_path: Path) -> None:
    folder = DeltaFolder(TableStorage.of(tmp_path))
    DeltaLog.create(folder.storage, _COLUMNS, {})
    for batch in range(25):
        folder.merge_rows(_changes((batch, "a", "+U")), ["id"], _write(batch))
    assert (tmp_path / "_delta_log" / f"{19:020}.checkpoint.parquet").exists()
    assert folder.written_log().position("q") == 24
    assert len(_read(folder)) == 25
