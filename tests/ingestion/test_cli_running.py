"""How `kvformat ingest` runs queries and tells of them, without Spark."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvformat.connectors import metrics
from kvformat.connectors.batch_progress import BatchProgress
from kvformat.connectors.lag import Lag
from kvformat.ingestion import cli
from kvformat.ingestion.pipeline.pipeline import Pipeline
from kvformat.registry.contract.errors import ConfigurationError
from tests.support.cli import lines, run


class Streams:
    """The queries of a session: `ends` has what each wait for one of them does."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.ends: list[Any] = []
        self.resets = 0

    def addListener(self, listener: Any) -> None:
        self.listeners.append(listener)

    def removeListener(self, listener: Any) -> None:
        self.listeners.remove(listener)

    def resetTerminated(self) -> None:
        self.resets += 1

    def awaitAnyTermination(self) -> None:
        self.ends.pop(0)()


@pytest.fixture
def session() -> Any:
    return SimpleNamespace(streams=Streams())


@pytest.mark.parametrize("text", ["a=b=c", "a=", "a= b"])
def test_a_value_may_be_empty_or_have_an_equals_sign(text: str) -> None:
    name, _, value = text.partition("=")
    assert cli._pairs("--set", ("x=1", text)) == {"x": "1", name: value}


# --- the file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.SQL", "source: x", "sql"),
        ("a.ddl", "", "sql"),
        ("a.yaml", "SET : x", "yaml"),
        ("a.YML", "create : x", "yaml"),
        ("a.txt", "\ufeff\n-- a\n// b\n/* c\nd */ create\ttable", "sql"),
        ("a.txt", "SET 'a' = 'b'", "sql"),
        ("a", "created: x", "yaml"),
        ("a", "# CREATE TABLE\nsource: x", "yaml"),
    ],
)
def test_sql_is_known_by_its_name_or_its_beginning(
    name: str, text: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pipeline, "all_from_sql", lambda text, set: {"sql": text})
    monkeypatch.setattr(Pipeline, "from_yaml", lambda text, set: text)
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert cli._pipelines(tmp_path / name, {}, None) == {kind.replace("yaml", ""): text.removeprefix("\ufeff")}


def test_a_pipeline_is_described_with_its_notes_and_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (SimpleNamespace(explain=lambda: "text", refused=(), notes=("note",)) for _ in range(2))
    with pytest.raises(SystemExit, match=r"^0$"):
        cli._explain({"a": first, "b": second}, as_json=False)
    assert capsys.readouterr().out == "text\n\ntext\n"
    second.refused = ("why",)
    with pytest.raises(SystemExit, match=r"^2$"):
        cli._explain({"": first, "b": second}, as_json=True)
    told = {"explain": "text", "refused": [], "notes": ["note"]}
    assert lines(capsys.readouterr().out) == [told, {"follows": "b", **told, "refused": ["why"]}]


# --- what is told ------------------------------------------------------------------------------------------------


def test_the_bar_shows_records_and_waiting_ones_of_all_queries(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lag that is not known leaves the last one that was."""
    states: list[Any] = []

    @contextlib.contextmanager
    def progress(*_: Any) -> Iterator[Any]:
        yield SimpleNamespace(to=lambda done, total: states.append((done, total)))

    monkeypatch.setattr(cli, "progress", progress)
    lags = (None, Lag({"t-0": 5, "t-1": 1}), Lag({"u-0": 2}), Lag({}, {}, "?"), Lag({"t-0": 0}))
    with cli._telling(session, as_json=False):
        (listener,) = session.streams.listeners
        for query, records, lag in zip("aabaa", (10, 5, 1, 4, 6), lags, strict=True):
            listener._told(BatchProgress(query, 0, records, 1.0, lag))
    assert states == [(10, None), (15, 21), (16, 24), (20, 28), (26, 28)]
    assert session.streams.listeners == []


@pytest.mark.parametrize("level", [logging.NOTSET, logging.DEBUG, logging.ERROR])
def test_the_log_of_the_library_is_told_and_left_as_it_was(
    level: int, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("kvformat")
    before, handlers = logger.level, [*logger.handlers]
    logger.setLevel(level)
    try:
        for as_json in (False, True):
            with contextlib.suppress(KeyError), cli._telling(session, as_json=as_json):
                logger.getChild("sink").info("wrote %d", 1)
                logger.getChild("sink").warning("slow")
                logger.getChild("sink").error("lost")
                logger.getChild("progress").error("the query failed, which the command tells")
                raise KeyError
            assert (logger.level, logger.handlers) == (level, handlers)
    finally:
        logger.setLevel(before)
    text = capsys.readouterr().err.splitlines()
    assert text[:3] == ["kvformat: wrote 1", "kvformat: warning: slow", "kvformat: error: lost"]
    assert lines("\n".join(text[3:])) == [
        {"level": level, "message": told}
        for level, told in (("info", "wrote 1"), ("warning", "slow"), ("error", "lost"))
    ]


@pytest.mark.parametrize(
    ("given", "port"), [((0, None, None), 4711), ((None, "x.prom", None), None), ((None, None, "h:1"), None)]
)
def test_each_way_of_metrics_alone_is_opened_and_closed(
    given: Any, port: int | None, session: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[Any] = []

    def export_metrics(_: Any, **how: Any) -> Any:
        calls.append((how["prometheus_port"], how["textfile"], how["statsd"]))
        return SimpleNamespace(port=port, close=lambda: calls.append("closed"))

    monkeypatch.setattr(metrics, "export_metrics", export_metrics)
    with contextlib.suppress(KeyError), cli._exporting(session, *given):
        raise KeyError
    assert calls == [given, "closed"]
    assert capsys.readouterr().err == ("kvformat: metrics are at http://localhost:4711/metrics\n" if port else "")
    with cli._exporting(session, None, None, None):
        assert len(calls) == 2


# --- queries -----------------------------------------------------------------------------------------------------


class Query:
    """A pipeline and its query. It may fail where it starts, or, with `error`, when it ends."""

    def __init__(self, started: list[Any], fails: bool = False, error: Exception | None = None) -> None:
        self.started, self.fails, self.error = started, fails, error
        self.isActive = True
        self.lastProgress = {"batchId": 7}
        self.stopped = 0
        self.refused: tuple[str, ...] = ()
        self.notes = ("no effect: x",)
        self.settings = SimpleNamespace(values={"checkpoint": None})

    def start(self, _: Any, **how: Any) -> Query:
        self.started.append(how)
        if self.fails:
            raise KeyError("start")
        return self

    def awaitTermination(self) -> None:
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        self.isActive = False

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def job(session: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function that ingests by these queries; it returns the starts and the result."""

    def run_(queries: dict[str, Query], *arguments: str) -> Any:
        file = tmp_path / "job.sql"
        file.write_text("")
        monkeypatch.setattr(cli, "_pipelines", lambda *_: queries)
        monkeypatch.setattr(cli, "_session", lambda _: session)
        return run("ingest", file, *arguments)

    return run_


def test_each_query_of_a_job_has_a_folder_and_is_awaited(job: Any, session: Any) -> None:
    started: list[Any] = []
    queries = {name: Query(started) for name in ("a", "b.c")}
    session.streams.ends = [queries["b.c"].end, queries["a"].end]
    result = job(queries, "--once", "--checkpoint", "ck/")
    once = {"availableNow": True}
    assert started == [{"checkpoint_location": f"ck/{name}", "trigger": once} for name in ("a", "b.c")]
    assert session.streams.resets == 3, "before the first, and after each that has ended"
    assert result.stderr.splitlines() == [
        "kvformat: no effect: x",
        "kvformat: the query that follows 'a' has stopped after batch 7",
        "kvformat: the query that follows 'b.c' has stopped after batch 7",
    ]
    started.clear()
    one = Query(started)
    assert (
        job({"": one}, "--checkpoint", "ck/").stderr.splitlines()[-1] == "kvformat: the query has stopped after batch 7"
    )
    one.settings.values["checkpoint"] = "own"
    assert job({"": one}).exit_code == 0
    assert started == [{"checkpoint_location": folder, "trigger": None} for folder in ("ck/", "own")]


def test_the_other_queries_are_stopped_if_one_does_not_start(job: Any) -> None:
    started: list[Any] = []
    queries = {"a": Query(started), "b": Query(started, fails=True), "c": Query(started)}
    with pytest.raises(KeyError):
        job(queries, "--checkpoint", "ck")
    assert [query.stopped for query in queries.values()] == [1, 0, 0]


def test_a_query_that_fails_ends_the_job_at_once(job: Any, session: Any) -> None:
    queries = {name: Query([]) for name in ("a", "b")}

    def fail() -> None:
        raise RuntimeError("b failed")

    session.streams.ends = [fail]
    with pytest.raises(RuntimeError, match="b failed"):
        job(queries, "--checkpoint", "ck")
    assert [query.stopped for query in queries.values()] == [1, 1]


def test_the_error_of_the_query_that_ends_last_is_raised(job: Any, session: Any) -> None:
    queries = {"a": Query([]), "b": Query([], error=RuntimeError("b failed"))}
    session.streams.ends = [queries["a"].end, queries["b"].end]
    with pytest.raises(RuntimeError, match="b failed"):
        job(queries, "--checkpoint", "ck")


def test_the_librarys_own_reason_is_told_without_a_trace(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "own_reason", lambda cause: str(cause).partition(": ")[2] or None)
    result = job({"": Query([], error=RuntimeError("Spark: a key changed"))}, "--checkpoint", "ck")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, "Error: the query has stopped: a key changed")


def test_a_refused_query_of_a_job_keeps_the_others_from_starting(job: Any) -> None:
    started: list[Any] = []
    queries = {"a": Query(started), "b": Query(started)}
    queries["b"].refused = ("why", "and why")
    result = job(queries, "--checkpoint", "ck")
    assert (result.exit_code, started) == (2, [])
    assert "the pipeline that follows 'b' can't be started: why; and why" in result.stderr


def test_all_ways_of_metrics_are_passed_on(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def exporting(_: Any, *ways: Any) -> Any:
        asked.append(ways)
        return contextlib.nullcontext()

    monkeypatch.setattr(cli, "_exporting", exporting)
    ways = ("--metrics-port", "0", "--metrics-file", "x.prom", "--statsd", "h:1")
    for arguments in (ways, ()):
        assert job({"": Query([])}, "--checkpoint", "ck", *arguments).exit_code == 0
    assert asked == [(0, "x.prom", "h:1"), (None, None, None)]


def test_settings_reach_the_session_that_reads_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    def session(settings: Any) -> Any:
        raise ConfigurationError(f"a session with {settings}")

    monkeypatch.setattr(cli, "_session", session)
    with pytest.raises(ConfigurationError, match=r"a session with {'spark\.a': 'b'}"):
        cli._store("s3a://bucket/ck", {"spark.a": "b"})
