"""A writer that is killed at any time, and repeats all its batches: each of them is in the table once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import types as T

from kvformat.registry.streams.delta.log import DeltaLog, WriterTransaction
from kvformat.registry.streams.delta.storage import TableStorage
from kvformat.registry.streams.delta.table import DeltaFolder, TableWrite

_BATCHES, _KEYS = 60, 2000
_SCHEMA = pa.schema([("id", pa.int32()), ("batch", pa.int32()), ("text", pa.string()), ("row_kind", pa.string())])


def _rows(batch: int) -> dict[int, bool]:
    """Return which keys a batch writes and deletes."""
    rng = random.Random(batch)
    return {key: rng.random() < 0.8 for key in rng.sample(range(_KEYS), 300)}


def _write(path: str) -> None:
    """Write all batches. Runs in a process of its own."""
    storage = TableStorage.of(path)
    if DeltaLog.open(storage) is None:
        types = (T.IntegerType(), T.IntegerType(), T.StringType())
        fields = [T.StructField(field.name, t) for field, t in zip(_SCHEMA, types, strict=False)]
        DeltaLog.create(storage, T.StructType(fields), {})
    folder = DeltaFolder(storage, upkeep_commits=5)
    for batch in range(_BATCHES):
        changes = [
            {"id": key, "batch": batch, "text": f"{key}" * 9, "row_kind": "+U" if is_row else "-D"}
            for key, is_row in _rows(batch).items()
        ]
        write = TableWrite(WriterTransaction("q", batch), lambda log: None)
        folder.merge_rows(pa.Table.from_pylist(changes, _SCHEMA), ["id"], write)
        print(batch, flush=True)


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_and_writes_nothing_twice(tmp_path: Path) -> None:
    rng, kills, versions, done = random.Random(1), 0, [], 0
    command = [sys.executable, "-c", f"from {__name__} import _write; _write({str(tmp_path)!r})"]
    while done < _BATCHES:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            until = done + rng.randrange(1, 9)
            for line in process.stdout:
                if (done := int(line) + 1) >= until:
                    time.sleep(rng.random() * 0.05)
                    process.send_signal(signal.SIGKILL)
                    break
            kills += process.wait() == -signal.SIGKILL
        versions.append(DeltaTable(tmp_path).transaction_version("q"))
    table = DeltaTable(tmp_path)
    assert table.transaction_version("q") == _BATCHES - 1
    expected: dict[int, int] = {}
    for batch in range(_BATCHES):
        for key, is_row in _rows(batch).items():
            expected[key] = batch
            if not is_row:
                del expected[key]
    rows = pa.table(table.scan().read_all()).to_pylist()
    assert {row["id"]: row["batch"] for row in rows} == expected
    assert len(rows) == len(expected) > 1000
    assert kills >= 8
    assert versions == sorted(versions)
