"""Which arguments the methods of a `KafkaTable` pass on, and in which order they do things; without Spark."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import pytest

from kvformat.connectors import KafkaTable, kafka, offsets, sink, source, source_choice, topics
from kvformat.registry.contract.errors import ConfigurationError, KafkaSourceWarning, OptionError

GIVEN = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b:1", "format": "json"}
GIVEN |= {"scan.startup.mode": "earliest-offset"}
ONCE = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}
READING = {"metadata": ["offset"], "errors": "capture", "row_index": True, "spark_options": {"minPartitions": 5}}
READING |= {"source": "spark"}


@pytest.fixture(autouse=True)
def _workers_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvformat.registry.streams.foreach_batch.check_batch_python", lambda session: None)


def table(**options: str) -> KafkaTable:
    return KafkaTable("id INT", GIVEN | options)


@pytest.mark.parametrize(("method", "more"), [("read", {}), ("read_stream", {"checkpoint_location": "/c"})])
def test_a_table_without_computed_columns_is_read_in_the_same_way(
    method: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    other = table()

    def without(_: Any, *names: str) -> KafkaTable:
        asked.append(names)
        return other

    def decode(of: KafkaTable, spark: Any, source: str, **given: Any) -> Any:
        asked.append((of is other, spark, source, given))
        return lambda **arguments: arguments

    monkeypatch.setattr(KafkaTable, "without_computed", without)
    monkeypatch.setattr(KafkaTable, "_decode", decode)
    rows = getattr(table(), method)("spark", skip_computed=["a", "b"], **READING, **more)
    given = {"streaming": method == "read_stream", "headers": True, "spark_options": {"minPartitions": 5}, **more}
    assert asked == [("a", "b"), (True, "spark", "spark", given)]
    assert rows == {name: READING[name] for name in ("metadata", "errors", "row_index")}


@pytest.mark.parametrize("more", [{"errors": "capture"}, {"row_index": True}])
def test_normalized_changes_have_no_bad_records_and_no_indices(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="normalize=True gives the rows of 'table' without error and"):
        table(format="debezium-json").read_stream(None, normalize=True, **more)  # type: ignore[arg-type]


def test_rows_are_read_without_spark_with_all_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(kafka.arrow_rows, "arrow_reader", lambda kv, **given: asked.append((kv, given)))
    options = ", ".join(f"'{key}' = '{text}'" for key, text in GIVEN.items())
    made = KafkaTable.from_ddl(f"CREATE TABLE t (id INT, a AS id + 1, b AS id + 2) WITH ({options})")
    given: dict[str, Any] = {"changelog": True, "metadata": ["offset"], "errors": "capture", "row_index": True}
    given["time_zone"] = "Asia/Tokyo"
    made.read_arrow(skip_computed=["b"], **given)
    ((kv, named),) = asked
    assert [column.name for column in kv.columns] == ["id", "a"]
    assert named == {**given, "stacklevel": 2}


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Keep the plans of Spark's source, and whether topics are checked."""
    found: list[Any] = []

    def records(spark: Any, kv: Any, plan: Any, *, streaming: bool, check: bool) -> str:
        found.append((dict(plan.options), streaming, check))
        return "records"

    monkeypatch.setattr(source, "records", records)
    monkeypatch.setattr(source_choice, "_reason", lambda *_, **more: "a test")
    return found


def test_a_query_that_continues_does_not_wait_for_topics(loaded: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "checkpoint_lines", lambda spark, place: ["v1"] * (place == "/used"))
    tail = table(**{"scan.startup.mode": "latest-offset"})
    for place in (None, "/new", "/used"):
        assert tail.records_stream(None, checkpoint_location=place) == "records"  # type: ignore[arg-type]
    assert [(given["startingOffsets"], streaming, check) for given, streaming, check in loaded] == [
        ("latest", True, True),
        ("latest", True, True),
        ("earliest", True, False),
    ]


def test_records_have_headers_and_options_of_the_caller(loaded: list[Any]) -> None:
    table().records(None, spark_options={"minPartitions": 5})  # type: ignore[arg-type]
    ((given, streaming, check),) = loaded
    assert (given["includeHeaders"], given["minPartitions"], streaming, check) == ("true", "5", False, True)


@pytest.mark.parametrize(
    ("more", "headers"), [({}, None), ({"errors": "capture"}, "true"), ({"metadata": ["headers"]}, "true")]
)
def test_rows_have_headers_only_if_they_are_needed(
    more: Any, headers: str | None, loaded: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, decoded = table(), list[Any]()
    monkeypatch.setattr(type(made.kv), "decode", lambda _, records, **given: decoded.append(given))
    made.read(None, **more)  # type: ignore[arg-type]
    made.read_stream(None, **more)  # type: ignore[arg-type]
    assert [given.get("includeHeaders") for given, _, _ in loaded] == [headers, headers]
    assert decoded == [{"metadata": None, "errors": "raise", "row_index": False, **more}] * 2


def test_an_option_without_effect_is_told_once_for_a_table(loaded: list[Any]) -> None:
    made = table(**{"scan.topic-partition-discovery.interval": "0", "scan.check.duplicated.group.id": "true"})
    told = []
    for streaming in (False, True, True):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", KafkaSourceWarning)
            made._records(None, "auto", streaming=streaming, headers=False, spark_options=None)  # type: ignore[arg-type]
        told.append([str(warning.message).partition("'scan.")[2].partition("'")[0] for warning in found])
    assert told == [["check.duplicated.group.id"], ["topic-partition-discovery.interval"], []]


# --- writing -------------------------------------------------------------------------------------------------------


FRAME = type("Frame", (str,), {"columns": []})("df")
"""Rows that are only passed on."""


class Writer:
    """A writer that keeps what is done with it."""

    def __init__(self, done: list[Any], dead_letters: Any) -> None:
        self.done, self.dead_letters, self.once, self.options = done, dead_letters, None, {"kafka.x": "y"}

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            self.done.append((name, *given))
            if name == "with_transactions":
                self.once = "once"  # type: ignore[assignment]
            return self

        return call


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Keep what tables do to write."""
    done: list[Any] = []

    def made(kv: Any, metadata: Any, mode: Any, letters: Any = None) -> Writer:
        done.append(("made", metadata, mode, letters and letters.to))
        return Writer(done, letters)

    monkeypatch.setattr(sink.Writer, "made", made)
    monkeypatch.setattr(sink, "check_columns", lambda kv, df, *given, stacklevel: done.append(("columns", *given)))
    monkeypatch.setattr(kafka, "job_query", lambda job_id: f"query of {job_id}")
    return done


def test_a_batch_is_checked_and_written(written: list[Any]) -> None:
    table().write(FRAME, metadata=["headers"], extra_columns="error")  # type: ignore[arg-type]
    columns = ("columns", ["headers"], "error")
    assert written == [("made", ["headers"], None, None), ("check", FRAME), columns, ("save", FRAME)]
    written.clear()
    table().write(FRAME, dead_letters="dead")  # type: ignore[arg-type]
    assert written[0] == ("made", None, None, "dead")
    assert written[-1] == ("save_parted", FRAME, None)


@pytest.mark.parametrize("job_id", [None, "a"])
def test_a_batch_is_written_exactly_once_as_a_job(job_id: str | None, written: list[Any]) -> None:
    table(**ONCE).write(FRAME, job_id=job_id)  # type: ignore[arg-type]
    assert written[-2:] == [("with_transactions", FRAME, f"query of {job_id}", None), ("save", FRAME)]


def test_a_job_id_needs_transactions(written: list[Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"job_id needs 'sink.delivery-guarantee' = 'exactly-once'"):
        table().write(FRAME, job_id="a")  # type: ignore[arg-type]
    assert written == []


class Stream:
    """A stream that keeps its settings."""

    columns = ("id", "row_kind")

    def __init__(self) -> None:
        self.set: list[Any] = []
        self.writeStream = self

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **options: Any) -> Any:
            self.set.append((name, *given, *([options] if options else [])))
            return self

        return call


def test_a_stream_has_the_given_settings(written: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    monkeypatch.setattr(Writer, "records", lambda self, df: stream, raising=False)
    observed: list[str] = []
    monkeypatch.setattr("kvformat.connectors.kafka.observe_table", lambda df, name: observed.append(name) or df)
    modes: list[Any] = []
    monkeypatch.setattr(sink, "output_mode_missing", lambda *given: modes.append(given) or contextlib.nullcontext())
    given = {"trigger": {"availableNow": True}, "query_name": "q", "output_mode": "update"}
    table().write_stream(stream, checkpoint_location="/c", **given)  # type: ignore[arg-type]
    assert stream.set == [
        ("format", "kafka"),
        ("options", {"kafka.x": "y"}),
        ("option", "checkpointLocation", "/c"),
        ("trigger", {"availableNow": True}),
        ("outputMode", "update"),
        ("queryName", "q"),
        ("start",),
    ]
    for more in ({"dead_letters": "dead"}, ONCE):
        stream.set.clear()
        options = more if more is ONCE else {}
        letters = {} if more is ONCE else more
        table(**options).write_stream(stream, checkpoint_location="/c", **letters)  # type: ignore[arg-type]
        assert [name for name, *_ in stream.set] == ["foreachBatch", "option", "start"]
    assert written[-1] == ("with_transactions", stream, None, "/c")
    assert modes[0] == (table().kv, "update")
    assert observed == ["table"], "where dead letters are written, their counts are told"


@pytest.mark.parametrize(
    ("columns", "way"),
    [
        (("_change_type", "_commit_version"), "foreachBatch"),
        (("_change_type",), "format"),
        (("row_kind", "_commit_version"), "format"),
    ],
)
def test_changes_of_several_commits_are_put_in_order_in_each_batch(
    columns: tuple[str, ...], way: str, written: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream can't be sorted."""
    stream = Stream()
    stream.columns = ("id", *columns)  # type: ignore[assignment]
    monkeypatch.setattr(Writer, "records", lambda self, df: stream, raising=False)
    table(format="debezium-json").write_stream(stream, checkpoint_location="/c")  # type: ignore[arg-type]
    assert stream.set[0][0] == way


def test_records_of_transactions_are_not_those_of_sparks_sink(written: list[Any]) -> None:
    with pytest.raises(OptionError, match="Spark's Kafka sink has no transactions"):
        table(**ONCE).sink_records(FRAME)  # type: ignore[arg-type]
    table().sink_records(FRAME, metadata=["headers"])  # type: ignore[arg-type]
    assert written == [("made", ["headers"], None, None), ("records", FRAME)]


def test_maintaining_checks_the_topic_of_dead_letters(loaded: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made, asked = table(), list[Any]()
    monkeypatch.setattr(topics, "check", lambda kv, names, spark: asked.append((tuple(names), spark)))
    monkeypatch.setattr(offsets, "checkpoint_lines", lambda spark, place: [])
    monkeypatch.setattr(type(made.kv), "maintain", lambda _, records, target, **given: asked.append((target, given)))
    given: dict[str, Any] = {"checkpoint_location": "/c", "trigger": {"once": True}, "query_name": "q"}
    made.maintain("spark", "target", dead_letters="dead", **given)  # type: ignore[arg-type]
    made.maintain("spark", "target", **given)  # type: ignore[arg-type]
    assert asked == [
        (("dead",), "spark"),
        ("target", {"dead_letters": "dead", **given}),
        ("target", {"dead_letters": None, **given}),
    ]


def test_maintaining_reads_as_a_stream_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that continues asks no brokers for the offsets of a group, which may have changed."""
    made, asked = table(), list[Any]()
    monkeypatch.setattr(KafkaTable, "records_stream", lambda _, spark, **given: asked.append((spark, given)))
    monkeypatch.setattr(type(made.kv), "maintain", lambda *_, **__: None)
    given: dict[str, Any] = {"source": "python", "spark_options": {"minPartitions": 5}, "checkpoint_location": "/c"}
    made.maintain("spark", "target", **given)  # type: ignore[arg-type]
    assert asked == [("spark", given)]


def test_dead_letters_are_written_with_the_settings_of_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(kafka, "write_dead_letters", lambda *given, **named: asked.append((*given, named)))
    table().write_dead_letters("bad", "dead", batch_id=7)  # type: ignore[arg-type]
    assert asked == [("bad", "dead", {"options": {"kafka.bootstrap.servers": "b:1"}, "batch_id": 7})]


def test_a_replay_has_all_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "replay", lambda *given, **named: (given, named))
    made, named = table(), {"checkpoint_location": "/c", "metadata": ["offset"]}
    assert made.replay("spark", "dead", "to", **named) == ((made.kv, "spark", "dead", "to"), named)  # type: ignore[comparison-overlap,arg-type]


def test_tables_are_equal_by_their_options_and_columns() -> None:
    first, second = table(), table()
    first._told.add("x")
    assert first == second
    assert hash(first) == hash(second)
    assert first != table(**{"topic": "u"})
    assert first != first.kv
    assert first.with_options({"topic": "u"}) == table(**{"topic": "u"})
    assert first.with_options({"topic": "u"})._told == set(), "a copy tells again"
    assert repr(first).startswith("KafkaTable.from_ddl(")
