"""Exported metrics: without a query by a listener's events, StatsD's packets, bounds, and the files for monitoring."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("prometheus_client")

import yaml

from kvformat.connectors import batch_progress, metrics
from kvformat.connectors.batch_tallies import BatchTally, TableTally
from kvformat.connectors.lag import Lag
from kvformat.connectors.metric_declarations import BAD, LAG, METRICS, OLDEST, OTHERS, SECONDS
from kvformat.connectors.metric_sinks import PrometheusSink, StatsdSink
from kvformat.connectors.metrics import MetricsListener, export_metrics
from kvformat.registry.contract.errors import ConfigurationError
from tests.connectors.tables import change, upsert

MONITORING = Path(__file__).parents[2] / "docs" / "monitoring"


class Session:
    """A session that notes its listeners."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.streams = self

    def addListener(self, listener: Any) -> None:
        self.listeners.append(listener)

    def removeListener(self, listener: Any) -> None:
        self.listeners.remove(listener)


class Watch:
    """Answers with a lag, or with one for each query."""

    lag = Lag({})

    def after(self, end: Any) -> Lag:
        return self.lag

    tables: Sequence[Any] = ()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    found = Watch()

    def made(tables: Sequence[Any]) -> Watch:
        found.tables = tables
        return found

    monkeypatch.setattr(metrics, "LagWatch", made)
    return found


@pytest.fixture
def listener(watch: Watch) -> Iterator[MetricsListener]:
    session: Any = Session()
    made = export_metrics(session, prometheus_port=0, prometheus_host="127.0.0.1")
    assert session.listeners == [made]
    yield made
    made.close()
    assert session.listeners == []


def scraped(listener: MetricsListener) -> dict[str, float]:
    """Return the time series of the endpoint, by their names with labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{listener.port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def started(listener: MetricsListener, name: str | None = "orders", run: str = "r1") -> None:
    listener.onQueryStarted(SimpleNamespace(runId=run, id="i", name=name))  # type: ignore[arg-type]


def batch(listener: MetricsListener, run: str = "r1", **more: Any) -> None:
    kafka = SimpleNamespace(startOffset=None, endOffset='{"t":{"0":5}}', latestOffset=None)
    given = {"name": "orders", "id": "i", "runId": run, "batchId": 7, "numInputRows": 5, "batchDuration": 1250}
    progress = SimpleNamespace(**{**given, "sources": [kafka], "observedMetrics": {}, **more})
    listener.onQueryProgress(SimpleNamespace(progress=progress))  # type: ignore[arg-type]


def ended(listener: MetricsListener, exception: str | None = None, run: str = "r1") -> None:
    listener.onQueryTerminated(SimpleNamespace(runId=run, id="i", exception=exception))  # type: ignore[arg-type]


def test_a_query_is_scraped(listener: MetricsListener, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    started(listener)
    begun = scraped(listener)
    assert begun['kvformat_query_running{query="orders"}'] == 1
    assert begun['kvformat_bad_records_total{code="MALFORMED",query="orders"}'] == 0  # or the first would be no growth
    assert begun['kvformat_query_failures_total{query="orders"}'] == 0
    monkeypatch.setattr("time.time", lambda: 1000.0)
    watch.lag = Lag({"t-0": 3, "t-1": 4, "u-0": 0}, {"t": 940_000})
    batch(listener, observedMetrics={"prices": {"rows": 40, "bad": 2, "MALFORMED": 2, "skipped": 1}})
    batch(listener, batchDuration=45_000)
    found = scraped(listener)
    assert found['kvformat_records_total{query="orders"}'] == 10
    assert found['kvformat_lag_records{query="orders",topic="t"}'] == 7
    assert found['kvformat_lag_records{query="orders",topic="u"}'] == 0
    assert found['kvformat_oldest_unread_seconds{query="orders",topic="t"}'] == 60
    assert found['kvformat_oldest_unread_seconds{query="orders",topic="u"}'] == 0
    assert found['kvformat_bad_records_total{code="MALFORMED",query="orders"}'] == 2
    assert found['kvformat_skipped_records_total{query="orders"}'] == 1
    assert found['kvformat_table_rows_total{query="orders",table="prices"}'] == 40
    assert found['kvformat_batch_seconds_count{query="orders"}'] == 2
    assert found['kvformat_batch_seconds_bucket{le="30.0",query="orders"}'] == 1
    assert found['kvformat_last_batch_timestamp_seconds{query="orders"}'] == 1000
    monkeypatch.setattr("time.time", lambda: 1500.0)
    assert scraped(listener)['kvformat_oldest_unread_seconds{query="orders",topic="t"}'] == 560, "it grows older"


def test_an_unknown_lag_is_not_zero(listener: MetricsListener, watch: Watch) -> None:
    started(listener)
    watch.lag = Lag({"t-0": 3}, {"t": 1})
    batch(listener)
    assert scraped(listener)['kvformat_lag_unknown{query="orders"}'] == 0
    watch.lag = Lag(unknown="they sleep")
    batch(listener)
    found = scraped(listener)
    assert found['kvformat_lag_unknown{query="orders"}'] == 1
    assert not [name for name in found if name.startswith(("kvformat_lag_records", "kvformat_oldest"))]


def test_a_topic_whose_oldest_record_is_unknown_has_no_age(listener: MetricsListener, watch: Watch) -> None:
    started(listener)
    watch.lag = Lag({"t-0": 3, "u-0": 0})
    batch(listener)
    ages = {name: value for name, value in scraped(listener).items() if name.startswith("kvformat_oldest")}
    assert ages == {'kvformat_oldest_unread_seconds{query="orders",topic="u"}': 0}


def test_queries_that_end_and_fail(listener: MetricsListener, watch: Watch) -> None:
    watch.lag = Lag({"t-0": 3})
    for failure in (None, "org.acme.Error: no"):
        started(listener)
        batch(listener)
        ended(listener, failure)
    found = scraped(listener)
    assert found['kvformat_query_running{query="orders"}'] == 0
    assert found['kvformat_query_failures_total{query="orders"}'] == 1
    assert not [name for name in found if name.startswith("kvformat_lag_records")]
    assert found['kvformat_records_total{query="orders"}'] == 10
    # A query that began before the listener has time series with its first batch.
    batch(listener, run="r9", name="older")
    assert scraped(listener)['kvformat_query_running{query="older"}'] == 1


def test_the_tables_of_an_ingestion(listener: MetricsListener, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = BatchTally(
        {"MALFORMED": 2, "SKIPPED": 5}, {"shop.orders": TableTally(12, 1.5), "shop.items": TableTally(3, 2)}
    )
    monkeypatch.setattr(batch_progress, "told", lambda query, batch: tally if (query, batch) == ("i", 7) else None)
    batch(listener)
    found = scraped(listener)
    assert found['kvformat_table_rows_total{query="orders",table="shop.orders"}'] == 12
    assert found['kvformat_table_seconds_total{query="orders",table="shop.items"}'] == 2
    assert found['kvformat_bad_records_total{code="MALFORMED",query="orders"}'] == 2
    assert found['kvformat_skipped_records_total{query="orders"}'] == 5


def test_tables_topics_and_queries_are_bounded(
    listener: MetricsListener, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "_MOST_OF_QUERY", 2)
    monkeypatch.setattr(metrics, "_MOST_QUERIES", 2)
    monkeypatch.setattr("time.time", lambda: 10.0)
    watch.lag = Lag({f"t{n}-0": 1 for n in range(5)}, {"t2": 3000, "t3": 1000, "t4": 2000})
    tables = {f"s{n}": {"rows": 1, "bad": 0} for n in range(5)}
    batch(listener, observedMetrics=tables)
    batch(listener, observedMetrics=tables)
    for n in range(3):
        started(listener, f"q{n}", run=f"run{n}")
    found = scraped(listener)
    assert found[f'kvformat_lag_records{{query="orders",topic="{OTHERS}"}}'] == 3
    assert found[f'kvformat_oldest_unread_seconds{{query="orders",topic="{OTHERS}"}}'] == 9
    assert found[f'kvformat_table_rows_total{{query="orders",table="{OTHERS}"}}'] == 6
    assert found['kvformat_table_rows_total{query="orders",table="s1"}'] == 2
    assert {name for name in found if name.startswith("kvformat_query_running")} == {
        f'kvformat_query_running{{query="{name}"}}' for name in ("orders", "q0", OTHERS)
    }


def test_the_file_for_node_exporter_is_replaced(watch: Watch, tmp_path: Path) -> None:
    session: Any = Session()
    file = tmp_path / "kvformat.prom"
    made = export_metrics(session, textfile=file)
    assert made.port is None
    started(made)
    assert 'kvformat_query_running{query="orders"} 1.0' in file.read_text()
    batch(made)
    assert 'kvformat_records_total{query="orders"} 5.0' in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["kvformat.prom"]
    made.close()


def test_errors_of_a_way_out_do_not_fail_a_query(
    watch: Watch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session: Any = Session()
    made = export_metrics(session, textfile=tmp_path / "gone" / "x.prom")
    started(made)
    assert "metrics were not exported" in caplog.text
    made.close()


def test_statsd_gets_lines(watch: Watch) -> None:
    session: Any = Session()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        made = export_metrics(session, statsd=f"127.0.0.1:{server.getsockname()[1]}")
        started(made, "my orders.v2")
        assert server.recv(9000) == b"kvformat.query_running.my_orders_v2:1|g"
        watch.lag = Lag({"a.b-0": 7}, {"a.b": 0})
        batch(made, observedMetrics={"p": {"rows": 4, "bad": 1, "MALFORMED": 1}})
        lines = server.recv(9000).decode().splitlines()
        made.close()
    assert "kvformat.records.my_orders_v2:5|c" in lines
    assert "kvformat.batch_milliseconds.my_orders_v2:1250|ms" in lines
    assert "kvformat.lag_records.my_orders_v2.a_b:7|g" in lines
    assert "kvformat.bad_records.my_orders_v2.MALFORMED:1|c" in lines
    assert "kvformat.table_rows.my_orders_v2.p:4|c" in lines
    assert [line for line in lines if line.startswith("kvformat.oldest_unread_seconds.my_orders_v2.a_b:")]
    assert not [line for line in lines if not re.fullmatch(r"[\w.-]+:[\d.e+]+\|(c|g|ms)", line)]


def test_several_ways_out_get_the_same_and_are_closed(watch: Watch, tmp_path: Path) -> None:
    session: Any = Session()
    file, tables = tmp_path / "kvformat.prom", [SimpleNamespace(kv="orders"), SimpleNamespace(kv="prices")]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        more: Any = {"textfile": file, "tables": tables, "statsd": f"127.0.0.1:{server.getsockname()[1]}"}
        made = export_metrics(session, prometheus_port=0, prometheus_host="127.0.0.1", **more)
        assert watch.tables == ["orders", "prices"]
        started(made)
        assert server.recv(9000) == b"kvformat.query_running.orders:1|g"
    assert scraped(made)['kvformat_query_running{query="orders"}'] == 1
    assert 'kvformat_query_running{query="orders"} 1.0' in file.read_text()
    made.close()
    with pytest.raises(OSError, match="refused"):
        scraped(made)
    assert [sink._socket.fileno() for sink in made._sinks if isinstance(sink, StatsdSink)] == [-1]


def test_a_way_out_is_closed_if_another_one_is_wrong(watch: Watch) -> None:
    """Otherwise its port would be used when the call is repeated."""
    session: Any = Session()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given: Any = {"prometheus_port": port, "prometheus_host": "127.0.0.1"}
    with pytest.raises(ConfigurationError, match=r"must be host:port"):
        export_metrics(session, **given, statsd="localhost")
    export_metrics(session, **given).close()


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [("[::1]:8125", "::1", 8125), (" localhost:65535 ", "localhost", 65535), ("10.0.0.7:1", "10.0.0.7", 1)],
)
def test_addresses_of_statsd(address: str, host: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def found(*given: Any, **more: Any) -> list[Any]:
        asked.append(given)
        return [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.0.1", 9))]

    monkeypatch.setattr("socket.getaddrinfo", found)
    StatsdSink(address).close()
    assert asked == [(host, port)]


def test_numbers_keep_their_digits_and_no_age_is_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks of machines differ."""
    monkeypatch.setattr("time.time", lambda: 100.0)
    sink, lines = StatsdSink("127.0.0.1:9"), list[str]()
    monkeypatch.setattr(sink, "_lines", lines)
    sink.add(BAD, 123_456_789, ("q", "c"))
    sink.add(BAD, 0, ("q", "c"))
    sink.set(LAG, 9_876_543_210, ("q", "t"))
    for since in (98.5, 101.0):
        sink.set_age(OLDEST, since, ("q", "t"))
    sink.close()
    assert [line.partition(":")[2] for line in lines] == ["123456789|c", "9876543210|g", "1.5|g", "0|g"]
    prometheus = PrometheusSink(METRICS, None, "", None)
    prometheus.set_age(OLDEST, 101.0, ("q", "t"))
    assert prometheus._registry.get_sample_value(OLDEST.name, {"query": "q", "topic": "t"}) == 0


def test_long_packets_are_divided() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        sink = StatsdSink(f"127.0.0.1:{server.getsockname()[1]}")
        for n in range(100):
            sink.set(LAG, n, ("q", f"topic-{n}"))
        sink.flush()
        packets = [server.recv(9000)]
        while sum(packet.count(b"\n") + 1 for packet in packets) < 100:
            packets.append(server.recv(9000))
        sink.set(LAG, 7, ("q", "last"))
        sink.flush()
        assert server.recv(9000) == b"kvformat.lag_records.q.last:7|g", "nothing is left of the first lines"
        sink.close()
    assert len(packets) > 2
    assert all(len(packet) <= 1400 for packet in packets)
    assert b"".join(packets).count(b"|g") == 100


@pytest.mark.parametrize(("size", "count"), [(1400, 1), (1401, 2)])
def test_a_packet_has_at_most_1400_bytes(size: int, count: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        sink = StatsdSink(f"127.0.0.1:{server.getsockname()[1]}")
        short = len("kvformat.lag_records.q.:1|g")
        for name in ("x" * (700 - short), "y" * (size - 701 - short)):
            sink.set(LAG, 1, ("q", name))
        sink.flush()
        sink.close()
        assert sum(len(server.recv(9000)) for _ in range(count)) == size - (count - 1)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "needs a way out: prometheus_port, textfile or statsd"),
        ({"textfile": "x.txt"}, r"must end in '\.prom'"),
        ({"statsd": "localhost"}, r"must be host:port"),
        ({"statsd": "localhost:65536"}, r"must be host:port"),
        ({"statsd": "localhost:0"}, r"must be host:port"),
        ({"statsd": "no.such.host.invalid:8125"}, "the host is unknown"),
    ],
)
def test_wrong_ways_out(given: Any, why: str) -> None:
    session: Any = Session()
    with pytest.raises(ConfigurationError, match=why):
        export_metrics(session, **given)
    assert session.listeners == []


def test_a_used_port_is_an_error(listener: MetricsListener) -> None:
    session: Any = Session()
    with pytest.raises(ConfigurationError, match=rf"can't listen at 127\.0\.0\.1, port {listener.port}: .*free one"):
        export_metrics(session, prometheus_port=listener.port, prometheus_host="127.0.0.1")


# --- a running query -------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.services
def test_the_endpoint_of_a_running_query(spark: Any, broker: Any, tmp_path: Path) -> None:
    """A table is maintained; records arrive while its second batch runs."""
    topic = broker.create("metrics-running", 2)
    table = upsert(broker.bootstrap, topic)
    broker.send(topic, [change(1, 1), change(2, 2), (b'{"id":3}', b"{"), (None, b"{}")])
    running, go_on = threading.Event(), threading.Event()

    def merge(changes: Any, batch_id: int) -> None:
        if batch_id == 1:
            broker.send(topic, [change(n, n) for n in range(20)])
            running.set()
            assert go_on.wait(120)

    made = export_metrics(spark, prometheus_port=0, prometheus_host="127.0.0.1", textfile=tmp_path / "k.prom")
    try:
        query = table.maintain(
            spark,
            merge,
            checkpoint_location=str(tmp_path / "checkpoint"),
            dead_letters=str(tmp_path / "dead"),
            query_name="prices",
        )
        first = _wait(made, 'kvformat_records_total{query="prices"}', 4)
        assert first['kvformat_query_running{query="prices"}'] == 1
        assert first['kvformat_bad_records_total{code="MALFORMED",query="prices"}'] == 1
        assert first['kvformat_bad_records_total{code="NULL_KEY",query="prices"}'] == 1
        assert first[f'kvformat_table_rows_total{{query="prices",table="{table.kv.name}"}}'] == 2
        assert first[f'kvformat_lag_records{{query="prices",topic="{topic}"}}'] == 0
        broker.send(topic, [change(7, 7)])
        assert running.wait(120)
        go_on.set()
        lag = f'kvformat_lag_records{{query="prices",topic="{topic}"}}'
        behind = _wait(made, 'kvformat_records_total{query="prices"}', 5)
        assert behind[lag] == 20
        assert 0 < behind[f'kvformat_oldest_unread_seconds{{query="prices",topic="{topic}"}}'] < 120
        assert _wait(made, 'kvformat_records_total{query="prices"}', 25)[lag] == 0
        query.stop()
        assert _wait(made, 'kvformat_query_running{query="prices"}', 0)
        assert 'kvformat_records_total{query="prices"} 25.0' in (tmp_path / "k.prom").read_text()
    finally:
        go_on.set()
        made.close()


def _wait(listener: MetricsListener, name: str, value: float) -> dict[str, float]:
    """Scrape until a time series has a value."""
    deadline = time.monotonic() + 120
    while (found := scraped(listener)).get(name) != value:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


# --- the files for monitoring ----------------------------------------------------------------------------------

_OF_HISTOGRAM = ("_bucket", "_sum", "_count")
_USED = re.compile(r"\bkvformat_\w+")


def _exist(expression: str) -> int:
    """Check the metrics of an expression of PromQL, and return their number."""
    known = {metric.name for metric in METRICS} | {f"{SECONDS.name}{end}" for end in _OF_HISTOGRAM}
    used = set(_USED.findall(expression))
    assert used, expression
    assert used <= known, expression
    labels = {label for metric in METRICS for label in metric.labels} | {"le", "job", "instance"}
    for names in re.findall(r"(?:\b(?:by|on|without|ignoring) ?|\{)[({]?([\w, =~!\"]*)[)}]", expression):
        assert {name.strip() for name in re.sub(r"[=~!]+\"[^\"]*\"", "", names).split(",")} <= labels | {""}, expression
    return len(used)


def test_alerts_use_metrics_that_exist() -> None:
    (group,) = yaml.safe_load((MONITORING / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    assert len(group["rules"]) >= 6
    for rule in group["rules"]:
        assert _exist(rule["expr"])
        assert {*rule} >= {"alert", "expr", "labels", "annotations"}
        assert rule["annotations"]["summary"]
        assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= {"query", "topic", "code"}
    used = " ".join(rule["expr"] for rule in group["rules"])
    assert BAD.name in used
    assert LAG.name in used


def test_the_board_uses_metrics_that_exist() -> None:
    board = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))
    assert len(board["panels"]) >= 8
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert all(map(_exist, expressions))
    shown = {name for expression in expressions for name in _USED.findall(expression)}
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) if name.startswith(SECONDS.name) else name for name in shown}
    unshown = {metric.name for metric in METRICS} - shown
    assert unshown <= {"kvformat_last_batch_timestamp_seconds", "kvformat_new_partitions_total"}
    places = [panel["gridPos"] for panel in board["panels"]]
    assert len({(place["x"], place["y"]) for place in places}) == len(places)


def test_declared_metrics_follow_the_conventions_of_prometheus() -> None:
    sink = PrometheusSink(METRICS, None, "", None)
    assert len({metric.name for metric in METRICS}) == len(METRICS) == len(sink._metrics)
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.labels[0] == "query"
        assert metric.doc.endswith(".")
