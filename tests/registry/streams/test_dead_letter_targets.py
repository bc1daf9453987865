"""Where dead letters go: functions, and a folder for each batch. Spark is not started: DataFrames are stand-ins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvformat.registry import write_dead_letters
from kvformat.registry.streams import dead_letters
from kvformat.registry.streams.dead_letters import DeadLetters, content_name


class _Bad:
    """Bad records of which only the number and a hash are known. Notes where they are written."""

    def __init__(self, count: int, content: str = "9A") -> None:
        self.content, self.written = (count, content), list[tuple[str, str]]()

    @property
    def write(self) -> _Bad:
        return self

    def mode(self, mode: str) -> _Bad:
        self._mode = mode
        return self

    def parquet(self, path: str) -> None:
        self.written.append((self._mode, path))


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "_content", lambda bad: bad.content)


def _folder(bad: Any, path: Any, batch_id: int | None) -> list[tuple[str, str]]:
    write_dead_letters(bad, path, batch_id=batch_id)
    written: list[tuple[str, str]] = bad.written
    return written


@pytest.mark.parametrize(
    ("path", "batch_id", "folder"),
    [
        ("./dead", 7, "./dead/batch=000000007-9A"),
        ("./dead/", 0, "./dead/batch=000000000-9A"),
        ("s3://b/dead", 999_999_999, "s3://b/dead/batch=999999999-9A"),
        (Path("dead"), 1_000_000_000, "./dead/batch=1000000000-9A"),  # a Path is never a topic
        (Path("/dead"), 1, "/dead/batch=000000001-9A"),
    ],
)
def test_the_folder_of_a_batch_has_its_number_with_nine_digits_and_its_content(
    path: Any, batch_id: int, folder: str
) -> None:
    assert _folder(_Bad(1), path, batch_id) == [("overwrite", folder)]


@pytest.mark.parametrize(
    ("to", "topic"),
    [("dead", True), ("a.b_c-1", True), ("d" * 249, True), ("d" * 250, False), (".", False), ("..", False)],
)
def test_the_name_of_a_topic_is_one_that_kafka_takes(to: str, topic: bool) -> None:
    assert DeadLetters.of(to, {"kafka.bootstrap.servers": "b:1"}).topic == (to if topic else None)


def test_a_repeated_batch_replaces_its_folder_and_no_other() -> None:
    first, again, other_batch, other_letters = (
        _folder(_Bad(2, content), "./dead", batch_id)[0]
        for content, batch_id in (("9A", 3), ("9A", 3), ("9A", 4), ("9B", 3))
    )
    assert first == again
    assert len({first, other_batch, other_letters}) == 3


def test_letters_without_a_batch_never_replace_others() -> None:
    first, again = (_folder(_Bad(2), "./dead", None)[0] for _ in range(2))
    assert first != again
    assert first[1].startswith("./dead/batch=once-")


@pytest.mark.parametrize("batch_id", [0, None])
def test_a_batch_without_letters_writes_no_folder(batch_id: int | None) -> None:
    assert _folder(_Bad(0), "./dead", batch_id) == []


def test_the_name_of_letters_has_their_number_and_content() -> None:
    names = {content_name(bad) for bad in (_Bad(1, "9A"), _Bad(2, "9A"), _Bad(1, "9B"))}  # type: ignore[arg-type]
    assert names == {"1-9A", "2-9A", "1-9B"}


@pytest.mark.parametrize(("given", "passed"), [(None, -1), (0, 0), (1, 1)])
def test_a_function_gets_the_number_of_the_batch_and_minus_one_for_none(given: int | None, passed: int) -> None:
    got: list[Any] = []
    bad: Any = _Bad(1)
    write_dead_letters(bad, lambda letters, batch_id: got.append((letters, batch_id)), batch_id=given)
    assert got == [(bad, passed)]


def test_the_topic_of_the_options_is_not_that_of_dead_letters() -> None:
    letters = DeadLetters.of("dead", {"kafka.bootstrap.servers": "b:1", "topic": "orders", "kafka.acks": "all"})
    assert letters.options == {"kafka.bootstrap.servers": "b:1", "kafka.acks": "all"}
    assert (letters.topic, letters.topics) == ("dead", ("dead",))
    assert DeadLetters.of("./dead", {}).topics == ()
