"""The listener's log of a query's progress, without a query; test_replay.py logs a real one."""

from __future__ import annotations

import json
import logging
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from kvformat.connectors import batch_tallies
from kvformat.connectors.batch_progress import BatchProgress, lag_of, new_partitions, observed_counts
from kvformat.connectors.batch_tallies import BatchTally, TableTally
from kvformat.connectors.lag import NO_TABLE, Lag
from kvformat.connectors.progress import ProgressListener
from kvformat.connectors.progress import described as described_batch
from kvformat.registry.contract.fork_safe import Guarded

pytestmark = [pytest.mark.once]


def test_lag_is_only_known_for_kafka_sources() -> None:
    assert lag_of('{"a":{"0":5,"1":7}}', '{"a":{"0":9,"1":7,"2":3}}') == {"a-0": 4, "a-1": 0, "a-2": 3}
    assert lag_of('{"a":{"0":5}}', '{"a":{"0":4}}') == {"a-0": 0}
    assert lag_of("{'a': {'0': 5}}", "{'a': {'0': 9}}") == {"a-0": 4}
    for other in (None, "", "7", '{"logOffset":3}', "null", "[1]", "{'a", '{"a":{"x":"y"}}'):
        assert lag_of(other, '{"a":{"0":9}}') is None
        assert lag_of('{"a":{"0":9}}', other) is None


def test_new_partitions_are_those_of_known_topics() -> None:
    before = '{"a":{"0":5,"1":7},"b-c":{"0":1}}'
    assert new_partitions(before, '{"a":{"0":9,"1":7,"2":0,"10":3},"b-c":{"0":1,"1":0}}') == ["a-2", "a-10", "b-c-1"]
    assert new_partitions(before, '{"a":{"0":9,"1":7},"b-c":{"0":1},"b":{"0":0,"1":0}}') == []
    assert new_partitions("{'a': {'0': 5}}", "{'a': {'0': 9, '1': 0}}") == ["a-1"]
    for other in (None, "null", '{"logOffset":3}'):
        assert new_partitions(other, before) == []
        assert new_partitions(before, other) == []


def test_failed_queries_are_logged_with_the_first_line_of_the_error(caplog: pytest.LogCaptureFixture) -> None:
    class Ended:
        id = runId = "7"
        exception = "org.acme.Error: " + "x" * 1000 + "\nat somewhere"

    # A separate logger: listeners of other tests may still log the end of their queries.
    logger = logging.getLogger("kvformat.tests.first_line")
    with caplog.at_level(logging.INFO, logger.name):
        ProgressListener(logger).onQueryTerminated(Ended())  # type: ignore[arg-type]
    (record,) = (record for record in caplog.records if record.name == logger.name)
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith("query 7: failed: org.acme.Error: xxx")
    assert len(record.getMessage()) < 400
    assert "somewhere" not in record.getMessage()


@pytest.mark.parametrize(
    ("exception", "told"),
    [("", ""), ("\n  org.acme.Error: no\n at x", "org.acme.Error: no"), ("x" * 301, "x" * 300)],
)
def test_300_characters_of_an_error_are_told(exception: str, told: str, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("kvformat.tests.errors")
    with caplog.at_level(logging.INFO, logger.name):
        ended: Any = SimpleNamespace(id="i", runId="r", exception=exception)
        ProgressListener(logger).onQueryTerminated(ended)
    (message,) = (record.getMessage() for record in caplog.records if record.name == logger.name)
    assert message == f"query i: failed: {told}"


def progress(**more: Any) -> Any:
    given = {"name": "orders", "id": "i", "batchId": 7, "numInputRows": 5, "batchDuration": 1250}
    return SimpleNamespace(**{**given, "sources": [], "observedMetrics": {}, **more})


def source(start: Any, end: Any, latest: Any) -> Any:
    texts = (None if offsets is None else json.dumps(offsets) for offsets in (start, end, latest))
    return SimpleNamespace(**dict(zip(("startOffset", "endOffset", "latestOffset"), texts, strict=True)))


class Watch:
    """Answers with a lag for all topics, and notes the offsets that it was asked about."""

    def __init__(self, lag: Lag) -> None:
        self.lag, self.asked = lag, list[Any]()

    def after(self, end: Any) -> Lag:
        self.asked.append(end.offsets)
        return self.lag


def described(of: Any, lag: Lag | None = None) -> str:
    watch: Any = Watch(Lag({}) if lag is None else lag)
    return described_batch(BatchProgress.of(of, watch))


def test_a_micro_batch_without_numbers_is_described() -> None:
    assert described(progress()) == "query orders, batch 7: 5 records in 1.2 s"
    nameless = progress(name=None, numInputRows=None, batchDuration=None)
    assert described(nameless) == "query i, batch 7: 0 records in 0.0 s"


def test_a_stream_of_ranges_counts_their_offsets() -> None:
    """Spark counts its rows, which are three ranges here. The first micro-batch has no start."""
    first, second = ({"a": {"0": 1200 * n}, "$topic_ids": {}, "$ranges": 1200 * n} for n in (1, 2))
    for start in (None, first):
        text = described(progress(numInputRows=3, sources=[source(start, second if start else first, second)]))
        assert "batch 7: 1200 records in" in text


def test_the_lag_is_that_after_the_batch_and_not_when_it_was_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equal partitions the first by name; a partition that is read to its end is not named."""
    monkeypatch.setattr("time.time", lambda: 1000.0)
    read = source(None, {"a": {"0": 1, "1": 5, "2": 0}}, {"a": {"0": 1, "1": 5, "2": 0}})
    lag = Lag({"a-0": 2, "a-1": 0, "a-2": 12_598}, {"a": 940_000})
    text = described(progress(sources=[source(None, {"logOffset": 1}, {"logOffset": 2}), read]), lag)
    assert text.endswith("; lag 12600 records (a-2 12598, a-0 2), the oldest waits 60.0 s")
    done = described(progress(sources=[read]), Lag({"a-0": 0, "a-1": 0}))
    assert done.endswith("; lag 0 records")
    late = described(progress(sources=[read]), Lag({"a-0": 1, "b-0": 2, "c-0": 0}, {"a": 1, "b": -8_000_000}))
    assert late.endswith("; lag 3 records (b-0 2, a-0 1), the oldest waits b 2 h 30 min, a 16 min")
    assert described(progress(sources=[read]), Lag({"a-0": 1})).endswith("(a-0 1), the age of the oldest is unknown")
    assert "lag" not in described(progress(sources=[source(None, {"logOffset": 1}, {"logOffset": 2})]), lag)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        *((-5, "0.0 s"), (119.94, "119.9 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h 0 min")),
        *((100_000, "27 h 46 min"),),
    ],
)
def test_ages_are_told_in_seconds_minutes_or_hours(seconds: float, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is negative: clocks of machines differ."""
    monkeypatch.setattr("time.time", lambda: 200_000.0)
    behind = progress(sources=[source(None, {"a": {"0": 1}}, None)])
    text = described(behind, Lag({"a-0": 1}, {"a": round((200_000 - seconds) * 1000)}))
    assert text.endswith(f"the oldest waits {told}")


def test_the_first_batch_after_a_restart_has_a_lag() -> None:
    """Spark's progress has no latest offset then."""
    text = described(progress(sources=[source({"a": {"0": 1}}, {"a": {"0": 3}}, None)]), Lag({"a-0": 7}, {}))
    assert "lag 7 records (a-0 7)" in text


def test_a_lag_that_nobody_tells_is_unknown() -> None:
    read = progress(sources=[source(None, {"a": {"0": 3}}, {"a": {"0": 3}})])
    assert described(read, Lag(unknown="they sleep")).endswith("; lag unknown (they sleep)")
    left = progress(sources=[source(None, {"a": {"0": 3}}, {"a": {"0": 8}})])
    left.sources.append(source(None, {"b": {"0": 3, "1": 1}}, {"b": {"0": 5, "1": 1}}))
    text = described(left, Lag(unknown=NO_TABLE))
    expected = "; lag at least 7 records (a-0 5, b-0 2) when it was planned, now unknown (no table with these topics"
    assert expected in text
    assert text.endswith("log_progress(spark, tables=[...]))")


def test_the_lags_of_all_sources_are_added() -> None:
    watch: Any = Watch(Lag({"x-0": 4}))
    sources = [source(None, {"a": {"0": 2}}, None), source(None, {"b": {"1": 3}, "$topic_ids": {"b": "i"}}, None)]
    assert BatchProgress.of(progress(sources=sources), watch).lag == Lag({"x-0": 4})
    assert watch.asked == [{("a", 0): 2}, {("b", 1): 3}]


def test_the_lag_of_all_sources_is_unknown_if_that_of_one_is() -> None:
    """A source that has read nothing yet, or is not of Kafka, has none."""
    lags = {"a": Lag({"a-0": 4}, {"a": 7}), "b": Lag({"b-1": 2}, {"b": 8}), "c": Lag(unknown="they sleep")}
    watch: Any = SimpleNamespace(after=lambda end: lags[next(iter(end.offsets))[0]])
    of = {name: source(None, {name: {"0": 1}}, None) for name in lags}
    nothing = source(None, {}, None), source(None, {"logOffset": 1}, None)
    both = BatchProgress.of(progress(sources=[of["a"], *nothing, of["b"]]), watch)
    assert both.lag == Lag({"a-0": 4, "b-1": 2}, {"a": 7, "b": 8})
    found = BatchProgress.of(progress(sources=[of["a"], of["c"]]), watch).lag
    assert found == Lag({"a-0": 4}, {"a": 7}, "they sleep")
    assert BatchProgress.of(progress(sources=nothing), watch).lag is None


@pytest.mark.parametrize(("count", "more"), [(5, ""), (6, " and 1 more")])
def test_five_partitions_are_named(count: int, more: str) -> None:
    behind = source(None, {"a": {"0": 0}}, None)
    named = "a-0 1, a-1 1, a-2 1, a-3 1, a-4 1"
    text = described(progress(sources=[behind]), Lag({f"a-{n}": 1 for n in range(count)}))
    assert f"; lag {count} records ({named}{more}), the age" in text


def test_zeros_are_left_out_except_for_rows_and_bad_records() -> None:
    counts = {"orders": {"rows": 0, "bad": 0, "skipped": 0, "update_after": 3, "text": "x"}}
    assert described(progress(observedMetrics=counts)).endswith("; orders: rows 0, bad 0, update_after 3")


def test_counts_of_schemas_have_the_ids_of_schemas() -> None:
    schemas = [{"id": "7", "records": 3}, SimpleNamespace(asDict=lambda: {"id": "8", "records": 1})]
    row = SimpleNamespace(asDict=lambda: {"rows": 4, "schemas": schemas})
    assert observed_counts(progress(observedMetrics={"o": row})) == {"o": {"rows": 4, "schema 7": 3, "schema 8": 1}}
    connect = {"values": [4, 0], "schema": {"fields": [{"name": "rows"}, {"name": "bad"}]}}
    assert observed_counts(progress(observedMetrics={"o": connect})) == {"o": {"rows": 4, "bad": 0}}


def test_an_ingestion_tells_of_its_latest_hundred_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """By query and batch, beside what is observed; a batch that runs again replaces its counts."""
    monkeypatch.setattr(batch_tallies, "_told", Guarded(dict))
    for query in ("i", "j"):
        session: Any = SimpleNamespace(_sc=SimpleNamespace(getLocalProperty=lambda _, query=query: query))
        for batch in (*range(5), *range(75)):
            batch_tallies.tell(session, batch, BatchTally({f"{query}{batch}": 1}, {"t": TableTally(batch, 0.5)}))
    batch_tallies.tell(SimpleNamespace(), 1, BatchTally())  # type: ignore[arg-type]  # of Spark Connect
    known = {query: [n for n in range(75) if batch_tallies.told(query, n)] for query in "ij"}
    assert known == {"i": [*range(50, 75)], "j": [*range(75)]}
    watch: Any = Watch(Lag({}))
    batch = BatchProgress.of(progress(batchId=60, observedMetrics={"o": {"rows": 4}}), watch)
    assert batch.counts == {"o": {"rows": 4}, "ingestion": {"bad": 1, "skipped": 0, "i60": 1}}
    assert batch.tables == {"t": TableTally(60, 0.5)}


@pytest.mark.parametrize(
    ("more", "level"),
    [
        ({"observedMetrics": {"a": {"rows": 1, "bad": 0}}}, logging.INFO),
        ({"observedMetrics": {"a": {"bad": 0}, "b": {"bad": 1}}}, logging.WARNING),
        ({"sources": [source({"a": {"0": 1}}, {"a": {"0": 1, "1": 0}}, None)]}, logging.WARNING),
        ({"sources": [source({"a": {"0": 1}}, {"a": {"0": 2}}, None)]}, logging.INFO),
    ],
    ids=["good", "bad in one of two", "new partition", "no new partition"],
)
def test_bad_records_and_new_partitions_are_warnings(more: Any, level: int, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("kvformat.tests.levels")
    with caplog.at_level(logging.INFO, logger.name):
        ProgressListener(logger).onQueryProgress(SimpleNamespace(progress=progress(**more)))  # type: ignore[arg-type]
    assert [record.levelno for record in caplog.records if record.name == logger.name] == [level]


def test_a_query_keeps_its_name_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    """A run of the same query that was started without the listener has only its id."""
    logger = logging.getLogger("kvformat.tests.names")
    listener, event = ProgressListener(logger), SimpleNamespace(id="i", runId="r", name="orders", exception=None)
    with caplog.at_level(logging.INFO, logger.name):
        listener.onQueryStarted(event)  # type: ignore[arg-type]
        listener.onQueryTerminated(event)  # type: ignore[arg-type]
        listener.onQueryTerminated(event)  # type: ignore[arg-type]
    told = [record.getMessage() for record in caplog.records if record.name == logger.name]
    assert told == ["query orders: started", "query orders: ended", "query i: ended"]


def test_the_ends_of_queries_are_waited_for() -> None:
    listener = ProgressListener(logging.getLogger("kvformat.tests.ends"))
    listener.onQueryStarted(SimpleNamespace(runId="r", id="i", name="n"))  # type: ignore[arg-type]
    begun = time.monotonic()
    listener.await_ends(0.2)
    assert time.monotonic() - begun >= 0.2
    threading.Timer(0.2, listener.onQueryTerminated, [SimpleNamespace(runId="r", id="i", exception=None)]).start()
    listener.await_ends(60)
    assert time.monotonic() - begun < 30
