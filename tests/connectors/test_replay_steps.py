"""The steps of a replay: reads, writes and counts, in order; without Spark. test_replay.py has Spark and a broker."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvformat.connectors import Replayed, batch_progress, replay
from kvformat.connectors.replay import Replay
from kvformat.registry.contract.errors import ConfigurationError
from tests.support.sink_frames import Frame, table


@pytest.fixture(autouse=True)
def _workers_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvformat.registry.streams.foreach_batch.check_batch_python", lambda session: None)


@pytest.mark.parametrize("failing", ["", "letters", "rows"])
def test_a_replay_keeps_bad_letters_before_it_writes_rows(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error nothing is lost: the checkpoint does not have the batch, and the next replay repeats both."""
    done: list[Any] = []
    good, bad = Frame("good", [], []), Frame("bad", [], [])
    monkeypatch.setattr(replay, "split_errors", lambda df: (good, bad))

    def letters(rows: Any, to: str, *, options: Any, batch_id: int) -> None:
        done.append((rows.name, to, options["kafka.bootstrap.servers"], batch_id))
        if failing == "letters":
            raise RuntimeError(failing)

    def target(rows: Any, batch_id: int) -> None:
        done.append((rows.name, batch_id))
        if failing == "rows":
            raise RuntimeError(failing)

    monkeypatch.setattr(replay, "write_dead_letters", letters)
    batch = Frame("batch", [], [])
    made = Replay(table().kv, "dead", target)
    for _ in range(2 if failing else 1):
        with contextlib.suppress(RuntimeError):
            made(batch, 4)  # type: ignore[arg-type]
    each = [("bad", "dead", "b:1", 4)] + ([("good", 4)] if failing != "letters" else [])
    assert done == (each * 2 if failing else each)
    assert batch.done.count(("batch", "persist")) == batch.done.count(("batch", "unpersist")) > 0


# --- a topic -------------------------------------------------------------------------------------------------------


def _replayed(batches: list[tuple[int, dict[str, int] | None]], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Replay a topic in these batches: the number of records, and the counts of their rows."""
    done: list[Any] = []
    frame = Frame("letters", [], done)
    vars(frame).update(readStream=frame, writeStream=frame, schema=None)
    query = SimpleNamespace(
        awaitTermination=lambda: done.append("awaited"),
        recentProgress=[SimpleNamespace(numInputRows=rows, counts=counts) for rows, counts in batches],
    )
    vars(frame)["start"] = lambda: query
    for name in ("option", "trigger", "foreachBatch", "format", "options"):
        vars(frame)[name] = lambda *given, name=name, **more: done.append((name, *given, *more.items())) or frame
    monkeypatch.setattr(replay, "check_stream_jar", lambda spark: None)
    monkeypatch.setattr(replay.topics, "check", lambda kv, names, spark: done.append(("check", names)))
    monkeypatch.setattr(replay, "original_records", lambda df: df)
    monkeypatch.setattr(replay, "observe_records", lambda df, name: df)
    counted = {"other": {"bad": 99}}
    monkeypatch.setattr(
        batch_progress,
        "observed_counts",
        lambda one: counted | ({} if one.counts is None else {"kvformat_replay": one.counts}),
    )
    kv = table().kv
    monkeypatch.setattr(type(kv), "decode", lambda _, df, *, metadata, errors: done.append((metadata, errors)) or df)
    given = {"checkpoint_location": "/c", "metadata": ["offset"]}
    return replay.replay(kv, frame, "dead", lambda rows, batch: None, **given), done  # type: ignore[arg-type]


def test_a_topic_is_read_from_its_first_letter_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    found, done = _replayed([(3, {"bad": 1})], monkeypatch)
    assert found == Replayed(3, 1)
    options = dict(next(call[1:] for call in done if call[0] == "options"))
    assert options == {
        "kafka.bootstrap.servers": "b:1",
        "subscribe": "dead",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    for call in (("check", ["dead"]), (["offset"], "capture"), ("option", "checkpointLocation", "/c")):
        assert call in done
    assert ("trigger", ("availableNow", True)) in done
    assert done[-1] == "awaited"


def test_letters_of_all_batches_are_counted_and_batches_without_records_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A letter that the format skips is still bad: it gives no row. The last report of a query may repeat counts."""
    pytest.importorskip("pyspark")
    batches = [(3, {"rows": 2, "bad": 1}), (0, {"bad": 1}), (4, {"bad": 2, "skipped": 1}), (1, None)]
    assert _replayed(batches, monkeypatch)[0] == Replayed(8, 4)
    assert _replayed([], monkeypatch)[0] == Replayed(0, 0)


# --- a path --------------------------------------------------------------------------------------------------------


class Letters:
    """Letters of a folder. `done` has the reads and writes."""

    def __init__(self, name: str, count: int, done: list[Any]) -> None:
        self.name, self._count, self.done, self.schema = name, count, done, "schema"
        self.write = self

    def count(self) -> int:
        return self._count

    def persist(self) -> Letters:
        return self

    def unpersist(self) -> None:
        self.done.append(("released", self.name))

    def mode(self, mode: str) -> Letters:
        assert mode == "overwrite"
        return self

    def parquet(self, folder: str) -> None:
        self.done.append(("write", self.name, folder))


def _from_path(
    folders: dict[str, tuple[int, int]], monkeypatch: pytest.MonkeyPatch, failing: str = ""
) -> tuple[Any, Any]:
    """Replay folders, each with a number of letters and of those that are still bad."""
    done: list[Any] = []

    def read(folder: str) -> Letters:
        name = folder.partition("batch=")[2]
        return Letters(name, folders[name][0], done)

    def split(letters: Letters) -> tuple[Letters, Letters]:
        return Letters(f"good {letters.name}", 0, done), Letters(f"bad {letters.name}", folders[letters.name][1], done)

    def target(rows: Letters, batch: int) -> None:
        done.append(("rows", rows.name, batch))
        if rows.name == failing:
            raise RuntimeError(failing)

    spark = SimpleNamespace(read=SimpleNamespace(parquet=read))
    spark.createDataFrame = lambda rows, schema: Letters("nothing", len(rows), done)
    monkeypatch.setattr(replay, "_folders", lambda spark, path: list(folders))
    monkeypatch.setattr(replay, "split_errors", split)
    monkeypatch.setattr(replay, "original_records", lambda letters: letters)
    monkeypatch.setattr(replay, "content_name", lambda bad: "1-9A")
    kv = table().kv
    monkeypatch.setattr(type(kv), "decode", lambda _, letters, **given: letters)
    with contextlib.ExitStack() as stack:
        if failing:
            stack.enter_context(pytest.raises(RuntimeError, match=failing))
        found = replay.replay(kv, spark, Path("/dead"), target, checkpoint_location=None, metadata=None)  # type: ignore[arg-type]
        return found, done
    return None, done


def test_letters_that_are_still_bad_are_kept_before_rows_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    found, done = _from_path({"1": (3, 1)}, monkeypatch)
    assert found == Replayed(3, 1)
    assert done == [
        ("write", "bad 1", "/dead/batch=replayed-1-9A-83dcefb7"),
        ("rows", "good 1", -1),
        ("write", "nothing", "/dead/batch=1"),
        ("released", "1"),
    ]


def test_a_folder_without_bad_letters_is_emptied_and_one_with_bad_letters_only_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, done = _from_path({"1": (3, 0), "2": (2, 2), "3": (1, 0)}, monkeypatch)
    assert found == Replayed(6, 2)
    assert [call for call in done if call[0] != "released"] == [
        ("rows", "good 1", -1),
        ("write", "nothing", "/dead/batch=1"),
        ("rows", "good 3", -1),
        ("write", "nothing", "/dead/batch=3"),
    ]
    assert [call for call in done if call[0] == "released"] == [("released", name) for name in "123"]


def test_a_folder_whose_rows_could_not_be_written_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters that are still bad are then there twice, and the name of their folder is the same next time."""
    _, done = _from_path({"1": (3, 1), "2": (1, 0)}, monkeypatch, failing="good 1")
    assert done == [("write", "bad 1", "/dead/batch=replayed-1-9A-83dcefb7"), ("rows", "good 1", -1), ("released", "1")]


def test_equal_letters_of_two_folders_are_both_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters that have no place in a topic may be equal."""
    _, done = _from_path({"1": (3, 1), "2": (3, 1)}, monkeypatch)
    kept = [path for _, name, path in (call for call in done if call[0] == "write") if name.startswith("bad")]
    assert kept == ["/dead/batch=replayed-1-9A-83dcefb7", "/dead/batch=replayed-1-9A-1ad5be0d"]


@pytest.mark.parametrize("letters", ["", " ", 7, None])
def test_dead_letters_are_a_topic_or_a_path(letters: Any) -> None:
    with pytest.raises(ConfigurationError, match="dead_letters must be a topic or a path, not"):
        replay.replay(table().kv, None, letters, print, checkpoint_location="/c", metadata=None)  # type: ignore[arg-type]
