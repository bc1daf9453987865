"""Merges of rows in the driver into a table of several files, features that can't be written, and the upkeep."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from contextlib import nullcontext as does_not_raise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake
from deltalake import Transaction as AppTransaction
from pyspark.sql import types as T

from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.schemas import spark_schema
from kvformat.registry.contract.types import FlinkField, FlinkType, from_arrow
from kvformat.registry.streams.current_table import CurrentTable
from kvformat.registry.streams.delta import files as delta_files
from kvformat.registry.streams.delta import table as delta_table
from kvformat.registry.streams.delta.files import DataFile, read_file, write_file, write_files
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


def test_the_files_of_a_commit_that_is_there_in_spite_of_its_error_stay(
    folder: DeltaFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = DeltaLog.commit

    def unanswered(log: DeltaLog, *given: Any) -> None:
        commit(log, *given)
        raise OSError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaLog, "commit", unanswered)
        with pytest.raises(OSError, match="no answer"):
            folder.merge_rows(_changes((1, "a", "+U")), ["id"], _write(5))
    folder.merge_rows(_changes((1, "not again", "+U")), ["id"], _write(5))
    assert _read(folder) == {1: "a"}


def test_a_write_is_given_up_after_five_conflicts(folder: DeltaFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def refused(log: DeltaLog, *given: Any) -> None:
        tried.append(log.version)
        raise CommitConflict

    for name, write in (
        ("commit", lambda: folder.merge_rows(_changes((1, "a", "+U")), ["id"], _write(5))),
        ("replace", lambda: folder.truncate(_write(5))),
    ):
        tried.clear()
        monkeypatch.setattr(DeltaLog, name, refused)
        with pytest.raises(ConfigurationError, match="another version in each of 5 attempts to write it: stop its"):
            write()
        assert len(tried) == 5
    assert [*(Path(folder.storage.uri)).glob("*.parquet")] == []


def test_a_table_is_emptied_after_a_conflict(folder: DeltaFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.merge_rows(_changes((1, "a", "+U")), ["id"], _write(5))
    replace, fails = DeltaLog.replace, [CommitConflict()]

    def failing(log: DeltaLog, *given: Any) -> None:
        if fails:
            raise fails.pop()
        replace(log, *given)

    monkeypatch.setattr(DeltaLog, "replace", failing)
    folder.truncate(_write(6))
    assert (_read(folder), folder.written_log().position("q")) == ({}, 6)


def test_a_file_that_the_driver_does_not_see_is_not_committed(
    folder: DeltaFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task wrote it to a folder of its own machine."""

    def elsewhere(*given: Any) -> list[DataFile]:
        files = write_files(*given)
        for file in files[:1]:
            (Path(folder.storage.uri) / file.name).unlink()
        return files

    monkeypatch.setattr(delta_table, "write_files", elsewhere)
    with pytest.raises(ConfigurationError, match="was written by a task, and the driver does not see it: give a path"):
        folder.merge_rows(_changes((1, "a", "+U")), ["id"], _write(5))
    assert (_read(folder), folder.written_log().version) == ({}, 0)


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


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.float64(), pa.decimal128(5, 2), pa.binary(), pa.timestamp("us", "UTC")]
)
def test_a_batch_without_rows_changes_nothing_and_is_done(tmp_path: Path, kind: pa.DataType) -> None:
    """All records of the batch were bad. Of most types a file does not tell which keys it has."""
    folder = DeltaFolder(TableStorage.of(tmp_path), upkeep_commits=0)
    column = pa.nulls(1, kind)
    key = spark_schema(FlinkType("ROW", fields=(FlinkField("id", from_arrow(kind, True, "id")),)))
    DeltaLog.create(folder.storage, T.StructType([*key.fields, T.StructField("k2", T.StringType())]), {})
    changes = pa.table({"id": column, "k2": ["a"], "row_kind": ["+U"]})
    folder.merge_rows(changes, ["id", "k2"], _write(0))
    for keys, position in ((["id", "k2"], 1), (["id"], 2)):
        folder.merge_rows(changes.slice(0, 0), keys, _write(position))
        log = folder.written_log()
        assert log.position("q") == position
        (file,) = log.files()
        assert read_file(folder.storage, file.name, log.schema).num_rows == 1


def test_null_in_a_column_that_is_not_null_leaves_the_table_as_it_is(folder: DeltaFolder) -> None:
    changes = pa.table({"id": pa.array([None], pa.int32()), "v": ["a"], "row_kind": ["+U"]})
    with pytest.raises(ConfigurationError, match="the column 'id' of the table is NOT NULL, and 1 rows have no value"):
        folder.merge_rows(changes, ["id"], _write(0))
    assert (_read(folder), folder.written_log().version) == ({}, 0)


# --- the table of maintain ---------------------------------------------------------------------------------------


def test_columns_are_added_beside_other_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another driver creates the table, or commits, between the look at it and the commit."""
    create, add_columns, fails = DeltaLog.create, DeltaLog.add_columns, [CommitConflict()]

    def created_elsewhere(storage: TableStorage, columns: T.StructType, properties: Any) -> None:
        create(storage, T.StructType(columns.fields[:1]), properties)
        raise CommitConflict

    def failing(log: DeltaLog, columns: T.StructType) -> None:
        if fails:
            raise fails.pop()
        add_columns(log, columns)

    monkeypatch.setattr(DeltaLog, "create", created_elsewhere)
    monkeypatch.setattr(DeltaLog, "add_columns", failing)
    table = CurrentTable.at(tmp_path / "t", ("id",))
    table._prepare(_COLUMNS)
    assert table.folder.written_log().columns.names == ["id", "v"]
    fails.append(CommitConflict())
    table._prepare(T.StructType([*_COLUMNS.fields, T.StructField("new", T.LongType())]))
    assert table.folder.written_log().columns.names == ["id", "v", "new"]


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


@pytest.mark.parametrize("t", ["variant", {"type": "array", "elementType": "variant", "containsNull": True}])
def test_a_column_of_variants_is_named(tmp_path: Path, t: Any) -> None:
    """The feature alone says nothing: tables have it without such a column."""
    column = {"name": "v", "type": t, "nullable": True, "metadata": {}}
    DeltaTable.create(tmp_path, Schema.from_json(json.dumps({"type": "struct", "fields": [column]})))
    with pytest.raises(ConfigurationError, match=r"has features \(variantType\)"):
        DeltaFolder(TableStorage.of(tmp_path)).written_log()


def test_a_constraint_is_named(tmp_path: Path) -> None:
    _foreign(tmp_path)
    DeltaTable(tmp_path).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ConfigurationError, match=r"has delta\.constraints\.positive, which only Spark with Delta's"):
        DeltaFolder(TableStorage.of(tmp_path)).written_log()


@pytest.mark.parametrize(
    ("property", "of_column", "words"),
    [
        (("delta.columnMapping.mode", "name"), None, "column mapping"),
        (("delta.columnMapping.mode", "none"), None, None),
        (("delta.appendOnly", "TRUE"), None, "delta.appendOnly"),
        (("delta.appendOnly", "false"), None, None),
        (("delta.enableRowTracking", "true"), None, "delta.enableRowTracking"),
        (None, ("delta.generationExpression", "id + 1"), "delta.generationExpression of v"),
        (None, ("delta.invariants", "{}"), "delta.invariants of v"),
        (None, ("delta.identity.start", 1), "delta.identity.start of v"),
        (None, ("comment", "text"), None),
    ],
)
def test_a_feature_of_other_writers_is_named(tmp_path: Path, property: Any, of_column: Any, words: str | None) -> None:
    """Deltalake itself can't make such tables, so the log is changed."""
    _foreign(tmp_path)
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (metadata,) = (line["metaData"] for line in lines if "metaData" in line)
    metadata["configuration"].update([property] if property else [])
    schema = json.loads(metadata["schemaString"])
    schema["fields"][1]["metadata"].update([of_column] if of_column else [])
    metadata["schemaString"] = json.dumps(schema)
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ConfigurationError, match=f"has {words}, which only Spark") if words else does_not_raise():
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


def test_an_upkeep_that_fails_is_logged_and_the_rows_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(log: DeltaLog) -> None:
        raise RuntimeError("hunter2")

    folder = DeltaFolder(TableStorage.of(tmp_path), upkeep_commits=2)
    DeltaLog.create(folder.storage, _COLUMNS, {})
    monkeypatch.setattr(DeltaLog, "vacuum", failing)
    for batch in range(3):
        folder.merge_rows(_changes((batch, "a", "+U")), ["id"], _write(batch))
    assert len(_read(folder)) == 3
    assert [record.getMessage() for record in caplog.records] == [
        f"the upkeep of the Delta table at '{tmp_path}' failed: RuntimeError"
    ]


def test_the_log_stays_short(tmp_path: Path) -> None:
    folder = DeltaFolder(TableStorage.of(tmp_path))
    DeltaLog.create(folder.storage, _COLUMNS, {})
    for batch in range(25):
        folder.merge_rows(_changes((batch, "a", "+U")), ["id"], _write(batch))
    assert (tmp_path / "_delta_log" / f"{19:020}.checkpoint.parquet").exists()
    assert folder.written_log().position("q") == 24
    assert len(_read(folder)) == 25
