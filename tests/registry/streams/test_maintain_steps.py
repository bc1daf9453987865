"""The steps of a micro-batch of maintain, and the checks before it. Spark is not started: DataFrames are stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as T

from kvformat.registry import ConfigurationError, DecodeError
from kvformat.registry.streams import maintain
from kvformat.registry.streams.current_table import CurrentTable, _type
from kvformat.registry.streams.dead_letters import DeadLetters
from kvformat.registry.streams.delta.storage import TableStorage
from kvformat.registry.streams.delta.table import DeltaFolder
from kvformat.registry.streams.maintain import MaintainedBatch, start_maintaining

_BROKERS = {"properties.bootstrap.servers": "b:1"}


@pytest.fixture(autouse=True)
def _workers_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvformat.registry.streams.foreach_batch.check_batch_python", lambda session: None)


class _Frame:
    """A DataFrame of bad records, as (reason, code), or of rows."""

    sparkSession = None

    def __init__(self, rows: list[Any], steps: list[str]) -> None:
        self.rows, self.steps, self.isStreaming, self.writeStream = rows, steps, True, _Writer()

    def persist(self) -> _Frame:
        self.steps.append("persist")
        return self

    def unpersist(self) -> None:
        self.steps.append("unpersist")

    def isEmpty(self) -> bool:
        return not self.rows

    def drop(self, *names: str) -> _Frame:
        self.steps.append(f"drop {', '.join(names)}")
        return self

    # --- bad records ---

    def __getitem__(self, name: str) -> _Code:
        assert name == "code"
        return _Code()

    def where(self, wanted: Callable[[Any], bool]) -> _Frame:
        return _Frame([row for row in self.rows if wanted(row)], self.steps)

    def select(self, *names: str) -> _Frame:
        assert names == ("reason", "code")
        return self

    def limit(self, count: int) -> _Frame:
        return _Frame(self.rows[:count], self.steps)

    def collect(self) -> list[Any]:
        return self.rows


class _Code:
    def __ne__(self, other: object) -> Any:
        return lambda row: row[1] != other


class _Table:
    """A table whose batches have these good rows and bad records."""

    name, options, key_columns = "t", _BROKERS, ("id",)

    def __init__(self, steps: list[str], good: list[Any], bad: list[Any], **options: Any) -> None:
        self.steps, self.good, self.bad = steps, good, bad
        self._options = {"ingestion.ignore-errors": False, "ingestion.error-tolerance.max-count": -1, "topic": ("t",)}
        self._options |= {"topic-pattern": None} | {f"ingestion.{name}": value for name, value in options.items()}

    def connector_options(self, direction: str) -> Any:
        assert direction == "decode"
        return self._options

    def decode(self, df: Any, *, metadata: Any, errors: str, row_index: bool) -> _Frame:
        assert (list(metadata.values()), row_index) == (["partition", "offset"], True)
        self.steps.append(f"decode {errors}")
        return _Frame([self.good, self.bad], self.steps)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note that a stream is counted."""

    def observe(df: _Frame, table: str) -> _Frame:
        df.steps.append(f"count {table}")
        return df

    monkeypatch.setattr(maintain, "observe_table", observe)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that runs a batch and returns its steps."""

    def split(decoded: _Frame) -> tuple[_Frame, _Frame]:
        good, bad = decoded.rows
        return _Frame(good, decoded.steps), _Frame(bad, decoded.steps)

    def latest(df: _Frame, table: _Table, order_by: list[str], *, deletes: bool) -> _Frame:
        df.steps.append(f"latest by {', '.join(order_by)}, deletes={deletes}")
        return df

    monkeypatch.setattr(maintain, "split_errors", split)
    monkeypatch.setattr(maintain, "latest_by_key", latest)

    def run_batch(
        good: list[Any],
        bad: list[Any],
        *,
        letters: bool = False,
        fails: str = "",
        steps: list[str] | None = None,
        **options: Any,
    ) -> list[str]:
        noted: list[str] = [] if steps is None else steps
        table: Any = _Table(noted, good, bad, **options)

        def step(name: str) -> Callable[[Any, int], None]:
            def called(df: Any, batch_id: int) -> None:
                noted.append(f"{name} {batch_id}: {len(df.rows)}")
                if fails == name:
                    raise OSError(name)

            return called

        batch = MaintainedBatch(table, step("merge"), DeadLetters.of(step("letters"), {}) if letters else None)
        batch(batch.decoded(df), 7)
        return noted

    df: Any = _Frame([], [])
    return run_batch


_ORDER = "_kvformat_partition, _kvformat_offset"
_MERGED = [f"latest by {_ORDER}, deletes=True", f"drop {_ORDER}", "merge 7: 1"]


def test_dead_letters_are_written_before_the_rows_are_merged(run: Any) -> None:
    found = run(["row"], [("why", "MALFORMED")], letters=True)
    assert found == ["decode capture", "count t", "persist", "letters 7: 1", *_MERGED, "unpersist"]


def test_without_dead_letters_and_tolerance_the_first_bad_record_is_an_error(run: Any) -> None:
    # decode gets errors="raise"; nothing is split, so the stand-in's two lists count as the rows
    found = run(["row"], [])
    assert found[:2] == ["decode raise", "persist"]
    assert found[-2:] == ["merge 7: 2", "unpersist"]


def test_a_batch_without_good_rows_is_not_merged(run: Any) -> None:
    found = run([], [("why", "MALFORMED")], letters=True)
    assert found == ["decode capture", "count t", "persist", "letters 7: 1", "unpersist"]


@pytest.mark.parametrize(("fails", "last"), [("letters", "letters 7: 1"), ("merge", "merge 7: 1")])
def test_a_failed_batch_frees_its_memory_and_does_no_later_step(run: Any, fails: str, last: str) -> None:
    steps: list[str] = []
    with pytest.raises(OSError, match=fails):
        run(["row"], [("why", "MALFORMED")], letters=True, fails=fails, steps=steps)
    assert steps[-2:] == [last, "unpersist"]


@pytest.mark.parametrize(
    ("ignored", "most", "bad", "fails"),
    [
        (True, 0, 0, False),
        (True, 0, 1, True),
        (True, 2, 2, False),
        (True, 2, 3, True),
        (True, -1, 9, False),  # not counted
        (False, 0, 9, False),  # the limit is used only with 'ingestion.ignore-errors'
    ],
)
@pytest.mark.parametrize("letters", [False, True])
def test_a_batch_may_have_exactly_as_many_bad_records_as_are_tolerated(
    run: Any, ignored: bool, most: int, bad: int, fails: bool, letters: bool
) -> None:
    records = [(f"reason {n}", "MALFORMED") for n in range(bad)] + [("skipped", "SKIPPED")] * 3
    options = {"ignore-errors": ignored, "error-tolerance.max-count": most}
    steps: list[str] = []
    if not fails:
        run(["row"], records, letters=letters, steps=steps, **options)
        captured = letters or (ignored and most >= 0)
        assert steps[0] == f"decode {'capture' if captured else 'raise'}"
        assert steps[-2:] == [f"merge 7: {1 if captured else 2}", "unpersist"]
        return
    expected = rf"more than {most} bad records in a micro-batch; .* allows {most}\. One of them: reason 0"
    with pytest.raises(DecodeError, match=expected):
        run(["row"], records, letters=letters, steps=steps, **options)
    assert not [step for step in steps if step.startswith("merge")]
    assert [step for step in steps if step.startswith("letters")] == [f"letters 7: {bad + 3}"] * letters


def test_skipped_messages_are_not_counted_as_bad_records(run: Any) -> None:
    options = {"ignore-errors": True, "error-tolerance.max-count": 0}
    assert run(["row"], [("skipped", "SKIPPED")] * 5, **options)[-2:] == ["merge 7: 1", "unpersist"]


# --- before the query --------------------------------------------------------------------------------------


def _start(table: Any, stream: Any, target: Any, dead_letters: Any = None) -> Any:
    return start_maintaining(
        table,
        stream,
        target,
        checkpoint_location="checkpoint",
        dead_letters=dead_letters,
        trigger={"once": True},
        query_name="name",
    )


class _Writer:
    """Notes the settings of a query."""

    def __init__(self) -> None:
        self.noted: dict[str, Any] = {}

    def foreachBatch(self, batch: Any) -> _Writer:
        self.noted["batch"] = batch.batch
        return self

    def option(self, name: str, value: str) -> _Writer:
        self.noted[name] = value
        return self

    def trigger(self, **trigger: Any) -> _Writer:
        self.noted["trigger"] = trigger
        return self

    def queryName(self, name: str) -> _Writer:
        self.noted["name"] = name
        return self

    def start(self) -> dict[str, Any]:
        return self.noted


def _stream(*, streaming: bool = True) -> Any:
    stream: Any = _Frame([], [])
    stream.isStreaming = streaming
    return stream


@pytest.mark.parametrize("target", ["out/table/", Path("out/table")])
def test_a_path_is_a_delta_table_with_the_key_of_the_table(target: Any) -> None:
    started = _start(_Table([], [], []), _stream(), target, "dead")
    batch = started.pop("batch")
    assert batch.merge == CurrentTable(DeltaFolder(TableStorage("out/table")), ("id",))
    assert (batch.dead_letters.topic, batch.dead_letters.options) == ("dead", {"kafka.bootstrap.servers": "b:1"})
    assert started == {"checkpointLocation": "checkpoint", "trigger": {"once": True}, "name": "name"}


def test_trigger_and_name_of_a_query_may_be_left_out() -> None:
    given: dict[str, Any] = {"dead_letters": None, "trigger": None, "query_name": None}
    table: Any = _Table([], [], [])
    started: Any = start_maintaining(table, _stream(), "out", checkpoint_location="checkpoint", **given)
    assert started.keys() == {"batch", "checkpointLocation"}
    assert started["batch"].dead_letters is None


def test_a_target_makes_the_merge_function_and_a_function_is_used_as_it_is() -> None:
    def merge(changes: Any, batch_id: int) -> None: ...

    class Target:
        def merging(self, table: Any) -> Any:
            return merge if table.name == "t" else None

    table = _Table([], [], [])
    assert _start(table, _stream(), Target())["batch"].merge is merge
    assert _start(table, _stream(), merge)["batch"].merge is merge


def test_a_batch_cannot_be_maintained() -> None:
    with pytest.raises(ConfigurationError, match="takes a stream of Kafka records"):
        _start(_Table([], [], []), _stream(streaming=False), "t")


@pytest.mark.parametrize("topics", [("t",), ("s", "t")])
def test_dead_letters_must_not_go_to_a_topic_that_is_read(topics: tuple[str, ...]) -> None:
    table = _Table([], [], [])
    table._options["topic"] = topics
    with pytest.raises(ConfigurationError, match="cannot go to the topic that is read, 't'"):
        _start(table, _stream(), "out", "t")
    assert _start(table, _stream(), "out", "t2")["batch"].dead_letters.topic == "t2"
    assert _start(table, _stream(), "out", "./t")["batch"].dead_letters.to == "./t"


@pytest.mark.parametrize(("pattern", "read"), [("t", True), ("t.*", True), ("t|s", True), ("s", False), ("t(?", False)])
def test_dead_letters_must_not_go_to_a_topic_that_matches_the_pattern(pattern: str, read: bool) -> None:
    """They would be read as records and be bad again. The pattern matches whole names."""
    table = _Table([], [], [])
    table._options |= {"topic": None, "topic-pattern": pattern}
    if read:
        with pytest.raises(ConfigurationError, match="topic that is read, 't': its name matches 'topic-pattern'"):
            _start(table, _stream(), "out", "t")
    else:
        assert _start(table, _stream(), "out", "t")["batch"].dead_letters.topic == "t"
    assert _start(table, _stream(), "out", "at")["batch"].dead_letters.topic == "at"
    assert _start(table, _stream(), "out", "./t")["batch"].dead_letters.to == "./t"


def test_a_table_without_a_key_cannot_be_maintained() -> None:
    table: Any = _Table([], [], [])
    table.key_columns = ()
    with pytest.raises(ConfigurationError, match="table 't' has no key"):
        _start(table, _stream(), "out")


@pytest.mark.parametrize(
    "type_", [T.TimeType(3), T.CharType(3), T.VarcharType(3), T.DayTimeIntervalType(), T.VariantType()]
)
def test_types_that_delta_does_not_have_are_text_at_any_depth(type_: T.DataType) -> None:
    nested = T.MapType(type_, T.StructType([T.StructField("a", T.ArrayType(type_, False), False)]), False)
    text = T.StringType()
    assert _type(type_) == text
    assert _type(nested) == T.MapType(text, T.StructType([T.StructField("a", T.ArrayType(text))]))
    assert _type(T.ArrayType(T.TimestampNTZType(), False)) == T.ArrayType(T.TimestampNTZType())
