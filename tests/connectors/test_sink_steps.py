"""The steps of a writer for a batch, in order; without Spark. test_writing.py has Spark and a broker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kvformat.connectors import KafkaTable, sink, topics
from kvformat.connectors.sink import Writer
from kvformat.registry import ChangelogMode, ConfigurationError, KafkaSinkWarning, SchemaError
from kvformat.registry.streams.dead_letters import DeadLetters
from tests.support.sink_frames import GIVEN, Frame, table

ONCE = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}


def upsert(**options: Any) -> KafkaTable:
    given = {"connector": "upsert-kafka", "format": None, "key.format": "json", "value.format": "json", **options}
    kept = {key: value for key, value in {**GIVEN, **given}.items() if value is not None}
    return KafkaTable("id INT NOT NULL, n INT", kept, primary_key=["id"])


def writer(made: KafkaTable, monkeypatch: pytest.MonkeyPatch, columns: list[str], **more: Any) -> tuple[Writer, Frame]:
    """Return a writer whose table encodes rows to a frame with these columns."""
    frame = Frame("records", columns, [])
    found = Writer(made.kv, {}, None, None, None, **more)
    monkeypatch.setattr(type(made.kv), "encode", lambda *_, **__: frame)

    def buffered(records: Frame, most: int) -> Frame:
        records.done.append(("records", "buffer", most))
        return records

    monkeypatch.setattr(sink, "last_of_buffers", buffered)
    return found, frame


def _rows(columns: list[str]) -> Any:
    return SimpleNamespace(columns=columns)


# --- steps before the sink -----------------------------------------------------------------------------------------


def test_records_with_a_key_are_shuffled_by_it_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    made, frame = writer(upsert(**{"sink.parallelism": "3"}), monkeypatch, ["key", "value"])
    made.records(_rows(["id"]))
    assert frame.done == [("records", "repartition", 3, "key")]
    made, frame = writer(table(**{"sink.parallelism": "3"}), monkeypatch, ["value"])
    made.records(_rows(["id"]))
    assert frame.done == [("records", "coalesce", 3)]
    made, frame = writer(table(), monkeypatch, ["value"])
    made.records(_rows(["id"]))
    assert frame.done == []


def test_the_buffer_follows_the_shuffle(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = {"sink.buffer-flush.max-rows": "7", "sink.buffer-flush.interval": "1 s", "sink.parallelism": "2"}
    made, frame = writer(upsert(**buffer), monkeypatch, ["key", "value"])
    made.records(_rows(["id"]))
    assert frame.done == [("records", "repartition", 2, "key"), ("records", "buffer", 7)]


def test_transactions_decide_the_tasks_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    made, frame = writer(upsert(**{"sink.parallelism": "3"}, **ONCE), monkeypatch, ["key", "value"], once=object())
    made.records(_rows(["id"]))
    assert frame.done == []


# --- dead letters --------------------------------------------------------------------------------------------------


class Once:
    """Writes with transactions; keeps the batches."""

    def __init__(self, done: list[Any]) -> None:
        self.done = done

    def write(self, records: Any, batch: int, placed: Any) -> None:
        self.done.append(("once", records.name, batch))


def _parted(to: Any, monkeypatch: pytest.MonkeyPatch, *, once: bool, failing: str = "") -> tuple[Writer, list[Any]]:
    """Return a writer of good and bad records, and what is done."""
    done: list[Any] = []
    good, bad = Frame("good", ["id"], []), Frame("bad", ["value"], [])
    monkeypatch.setattr(sink, "split_errors", lambda df: (good, bad))

    def wrote(what: str) -> Callable[..., None]:
        def write(_: Any, rows: Any, batch: Any) -> None:
            done.append((what, rows.name, batch))
            if what == failing:
                raise RuntimeError(what)

        return write

    monkeypatch.setattr(DeadLetters, "write", wrote("letters"))
    monkeypatch.setattr(Writer, "save", wrote("rows"))
    monkeypatch.setattr(Writer, "_with_letters", lambda *_: Frame("both", [], []))
    letters = DeadLetters.of(to, {"kafka.bootstrap.servers": "b:1"})
    found = Writer(table().kv, {}, None, None, None, letters, Once(done) if once else None)  # type: ignore[arg-type]
    return found, done


@pytest.mark.parametrize("to", ["dead", "./dead"])
def test_dead_letters_are_written_before_the_rows(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, done = _parted(to, monkeypatch, once=False)
    batch = Frame("batch", [], [])
    made(batch, 4)  # type: ignore[arg-type]
    assert done == [("letters", "bad", 4), ("rows", "good", 4)]
    assert batch.done == [("batch", "persist"), ("batch", "unpersist")]


def test_rows_are_not_written_if_dead_letters_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    made, done = _parted("dead", monkeypatch, once=False, failing="letters")
    batch = Frame("batch", [], [])
    with pytest.raises(RuntimeError, match="letters"):
        made.save_parted(batch, None)  # type: ignore[arg-type]
    assert done == [("letters", "bad", None)]
    assert batch.done[-1] == ("batch", "unpersist"), "released after an error, too"


def test_transactions_write_rows_and_letters_of_a_topic_together(monkeypatch: pytest.MonkeyPatch) -> None:
    made, done = _parted("dead", monkeypatch, once=True)
    made(Frame("batch", [], []), 4)  # type: ignore[arg-type]
    monkeypatch.setattr(sink, "_warn_of", lambda bad, table: done.append(("warned", bad.name, table)))
    made.save_parted(Frame("batch", [], []), None)  # type: ignore[arg-type]
    assert done == [("once", "both", 4), ("once", "both", 0), ("warned", "bad", made.kv.name)], "a batch alone is told"
    made, done = _parted("./dead", monkeypatch, once=True)
    made(Frame("batch", [], []), 4)  # type: ignore[arg-type]
    assert done == [("letters", "bad", 4), ("rows", "good", 4)], "a path has no transactions"


def test_without_dead_letters_a_batch_is_written_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    monkeypatch.setattr(Writer, "save", lambda _, rows, batch: done.append((rows, batch)))
    Writer(table().kv, {}, None, None, None)("rows", 7)  # type: ignore[arg-type]
    assert done == [("rows", 7)]


def test_dead_letters_must_not_go_to_the_tables_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(topics, "check", lambda kv, names, spark: asked.append(names))
    monkeypatch.setattr(sink, "split_errors", lambda df: (df, df))
    monkeypatch.setattr(Writer, "records", lambda *_: None)
    servers = {"kafka.bootstrap.servers": "b:1"}
    Writer(table().kv, {}, None, None, None, DeadLetters.of("dead", servers)).check(None)  # type: ignore[arg-type]
    Writer(table().kv, {}, None, None, None, DeadLetters.of("./t", servers)).check(None)  # type: ignore[arg-type]
    assert asked == [["t", "dead"], ["t"]], "the topics that must exist"
    pattern = table(**{"topic": None, "topic-pattern": "t1?"})
    Writer(pattern.kv, {}, None, None, None, DeadLetters.of("t12", servers)).check(None)  # type: ignore[arg-type]
    for made, name in ((table(), "t"), (pattern, "t"), (pattern, "t1")):
        with pytest.raises(ConfigurationError, match=f"must not go to the topic that the table writes, '{name}'"):
            Writer(made.kv, {}, None, None, None, DeadLetters.of(name, servers)).check(None)  # type: ignore[arg-type]


def test_the_tables_first_topic_carries_the_marks_of_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics of dead letters come after it, and records without a topic go to the table's."""
    monkeypatch.setattr(sink.ExactlyOnce, "checked", lambda self, df: self)
    monkeypatch.setattr(topics, "partitions", lambda kv: {"t2": 1, "t1": 1})
    letters = DeadLetters.of("dead", {"kafka.bootstrap.servers": "b:1"})
    made = Writer(table(**ONCE).kv, {}, None, None, None, letters)
    once = made.with_transactions(None, "job-1", None).once  # type: ignore[arg-type]
    assert once is not None
    assert (once.settings.topics, once.settings.topic) == (("t", "dead"), "t")
    assert (once.tasks, once.query, once.checkpoint_location, once.in_order) == (None, "job-1", None, False)
    pattern = table(**ONCE, **{"topic": None, "topic-pattern": "t.", "sink.parallelism": "3"})
    once = Writer(pattern.kv, {}, None, None, None).with_transactions(None, None, "/c").once  # type: ignore[arg-type]
    assert once is not None
    assert (once.settings.topics, once.settings.topic) == (("t1", "t2"), None)
    assert (once.tasks, once.query, once.checkpoint_location) == (3, None, "/c")


@pytest.mark.parametrize(
    ("format", "mode", "in_order"),
    [
        ("json", None, False),
        ("debezium-json", None, True),
        ("debezium-json", ChangelogMode.UPSERT, True),
        ("debezium-json", ChangelogMode.INSERT_ONLY, False),
    ],
)
def test_records_of_transactions_stay_in_order_unless_all_rows_are_inserts(
    format: str, mode: ChangelogMode | None, in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's mode counts before the table's: without a key, order costs all tasks but one."""
    monkeypatch.setattr(sink.ExactlyOnce, "checked", lambda self, df: self)
    made = Writer(table(**ONCE, format=format).kv, {}, None, mode, None)
    once = made.with_transactions(None, None, "/c").once  # type: ignore[arg-type]
    assert once is not None
    assert once.in_order is in_order


# --- columns that are not written -----------------------------------------------------------------------------------


def _columns(count: int) -> list[str]:
    return ["id", *(f"c{n:02}" for n in range(count))]


@pytest.mark.parametrize(("count", "named"), [(20, "c18, c19. "), (21, "c18, c19, .... ")])
def test_twenty_columns_that_are_not_written_are_named(count: int, named: str) -> None:
    with pytest.warns(KafkaSinkWarning, match=f"has {count} columns that the table does not have") as told:
        sink.check_columns(table().kv, _columns(count), None, "warn", stacklevel=1)
    assert named in str(told[0].message)
    assert told[0].filename == __file__
    with pytest.raises(SchemaError, match="not written: c00") as raised:
        sink.check_columns(table().kv, _columns(count), None, "error", stacklevel=1)
    assert raised.value.field == "c00"


def test_columns_of_metadata_and_of_reading_are_written_or_known() -> None:
    columns = ["id", "row_kind", "h", "row_index", "error"]
    sink.check_columns(table().kv, columns, {"h": "headers"}, "error", stacklevel=1)
    sink.check_columns(table().kv, _columns(3), None, "ignore", stacklevel=1)
    with pytest.raises(SchemaError, match="1 column that the table does not have and that is not written: h"):
        sink.check_columns(table().kv, columns, None, "error", stacklevel=1)
    feed = ["id", "_change_type", "_commit_version"]
    sink.check_columns(table().kv, feed, None, "error", stacklevel=1)
    with pytest.raises(SchemaError, match="not written: _commit_version"):
        sink.check_columns(table().kv, ["id", "_commit_version"], None, "error", stacklevel=1)
