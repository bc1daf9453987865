"""The log of a table: conflicts, features that a table does not use, and what an error leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from pyspark.sql import types as T

from kvformat.registry.streams.delta import table as delta_table
from kvformat.registry.streams.delta.files import DataFile
from kvformat.registry.streams.delta.log import CommitConflict, DeltaLog, WriterTransaction
from kvformat.registry.streams.delta.storage import TableStorage
from kvformat.registry.streams.delta.table import DeltaFolder, TableWrite
from kvformat.registry.streams.delta.transfer import Transferred

_COLUMNS = T.StructType([T.StructField("id", T.IntegerType(), False), T.StructField("v", T.StringType())])
_NEW = T.StructType([T.StructField("new", T.LongType())])


@pytest.fixture
def folder(tmp_path: Path) -> DeltaFolder:
    made = DeltaFolder(TableStorage.of(tmp_path / "t"), upkeep_commits=0)
    DeltaLog.create(made.storage, _COLUMNS, {})
    return made


def _merge(folder: DeltaFolder) -> None:
    rows = pa.table({"id": pa.array([1], pa.int32()), "v": ["a"], "row_kind": ["+U"]})
    folder.merge_rows(rows, ["id"], TableWrite(WriterTransaction("q", 0), lambda log: None))


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.add_columns(_NEW),
        lambda log: log.set_properties({"a.b": "c"}),
        lambda log: log.replace([], None),
        lambda log: log.commit([], [], WriterTransaction("q", 1)),
    ],
    ids=["columns", "properties", "replace", "commit"],
)
def test_a_change_of_an_older_version_is_a_conflict(folder: DeltaFolder, change: Callable[[DeltaLog], None]) -> None:
    first, second = folder.written_log(), folder.written_log()
    first.add_columns(_NEW)
    with pytest.raises(CommitConflict):
        change(second)
    assert folder.written_log().version == 1


def test_a_table_that_is_there_is_a_conflict_and_another_error_is_none(folder: DeltaFolder, tmp_path: Path) -> None:
    with pytest.raises(CommitConflict):
        DeltaLog.create(folder.storage, _COLUMNS, {})
    with pytest.raises(DeltaError, match="minReaderVersion"):
        DeltaLog.create(TableStorage.of(tmp_path / "other"), _COLUMNS, {"delta.minReaderVersion": "99"})


def test_a_table_of_local_times_is_read_and_written(tmp_path: Path) -> None:
    storage = TableStorage.of(tmp_path)
    DeltaLog.create(storage, T.StructType([T.StructField("at", T.TimestampNTZType())]), {})
    log = DeltaFolder(storage).written_log()
    assert (log.unreadable(), log.unwritable(), log.allow_timestamp_ntz()) == ("", "", False)


@pytest.mark.parametrize(
    ("feature", "told"),
    [
        ("appendOnly", ""),
        ("invariants", ""),
        ("checkConstraints", ""),
        ("changeDataFeed", ""),
        ("generatedColumns", ""),
        ("timestampNtz", ""),
        ("identityColumns", "features (identityColumns)"),
    ],
)
def test_a_feature_that_a_table_does_not_use_is_no_obstacle(folder: DeltaFolder, feature: str, told: str) -> None:
    """A table that gets a newer protocol lists all features of the older one."""
    path = Path(folder.storage.uri, "_delta_log", f"{0:020}.json")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": [feature]}
    protocol["readerFeatures"] = [feature] if feature == "timestampNtz" else []
    lines = [{"protocol": protocol} if "protocol" in line else line for line in lines]
    path.write_text("\n".join(map(json.dumps, lines)))
    log = folder.log()
    assert log is not None
    assert log.unwritable() == told


def test_a_table_that_is_written_again_after_a_conflict_has_no_file_of_the_first_attempt(
    folder: DeltaFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _merge(folder)
    wider = T.StructType([T.StructField("id", T.LongType()), T.StructField("v", T.StringType())])
    replace, fails = DeltaLog.replace, [CommitConflict()]

    def failing(log: DeltaLog, *given: Any) -> None:
        if fails:
            raise fails.pop()
        replace(log, *given)

    monkeypatch.setattr(DeltaLog, "replace", failing)
    monkeypatch.setattr(delta_table, "transferred", lambda *_: Transferred(pa.table({"id": [1], "v": ["a"]})))
    folder.rewrite(lambda log: None, wider)  # type: ignore[arg-type, return-value]
    assert folder.written_log().columns == wider
    assert len([*Path(folder.storage.uri).glob("*.parquet")]) == 2, "the old file, which readers need, and the new one"


@pytest.mark.parametrize("fault", ["log", "file"])
def test_the_error_of_a_commit_stays_if_its_files_cannot_be_removed(
    folder: DeltaFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    def fails(log: DeltaLog, added: list[DataFile], *more: Any) -> None:
        if fault == "log":
            monkeypatch.setattr(DeltaLog, "open", lambda storage: 1 / 0)
        else:
            Path(log.storage.uri, added[0].name).unlink()
        raise OSError("the disk is full")

    monkeypatch.setattr(DeltaLog, "commit", fails)
    with pytest.raises(OSError, match="the disk is full"):
        _merge(folder)
    (told,) = caplog.messages
    where = f"the Delta table at '{folder.storage.uri}' are left: ZeroDivisionError"
    assert told == f"files of {where}" if fault == "log" else told.startswith("cannot remove the file kvformat-")
