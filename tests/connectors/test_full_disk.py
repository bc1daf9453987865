"""A full disk under the table, the dead letters or the checkpoint: the query fails and loses no data."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvformat.registry import current_table
from tests.connectors.tables import change, upsert

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 8 MB, which only root may do."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def _fill(disk: Path) -> Path:
    """Write a file that uses all remaining space."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


@pytest.mark.parametrize("full", ["table", "dead", "checkpoint"])
def test_query_continues_after_space_is_freed(spark: Any, broker: Any, tmp_path: Path, disk: Path, full: str) -> None:
    folder = {name: (disk if name == full else tmp_path) / name for name in ("table", "dead", "checkpoint")}
    table = upsert(broker.bootstrap, broker.create(f"full-{full}", 1))

    def update() -> None:
        query = table.maintain(
            spark,
            folder["table"],
            checkpoint_location=str(folder["checkpoint"]),
            dead_letters=folder["dead"],
            trigger={"availableNow": True},
        )
        assert query.awaitTermination(120)
        if query.exception() is not None:
            raise query.exception()

    def rows() -> list[tuple[Any, ...]]:
        return sorted(map(tuple, current_table(spark, folder["table"]).collect()))

    def send(number: int) -> None:
        bad = b'{"n":' + b"x" * 9000 + b"%d" % number  # does not fit into the rest of a file system block
        broker.send(f"full-{full}", [*(change(key, number) for key in range(500)), (b'{"id":1}', bad)])

    send(1)
    update()
    for number in (2, 3):
        send(number)
        ballast = _fill(disk)
        for _ in range(2):
            with pytest.raises(Exception, match="No space left on device"):
                update()
            if full != "checkpoint":  # the batch may be written, but not its commit
                assert rows() == [(key, number - 1) for key in range(500)]
        ballast.unlink()
        update()
        assert rows() == [(key, number) for key in range(500)]
    letters = [bytes(row["value"])[-1:] for row in spark.read.parquet(str(folder["dead"])).collect()]
    assert sorted(letters) == [b"1", b"2", b"3"]
