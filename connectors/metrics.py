"""A listener that exports the progress of streaming queries as metrics: for Prometheus, and for StatsD.

    export_metrics(spark, prometheus_port=9108)               an endpoint that Prometheus scrapes
    export_metrics(spark, textfile="/var/.../kvformat.prom")  a file that node_exporter reads
    export_metrics(spark, statsd="localhost:8125")            UDP packets

metric_declarations.py declares every metric once, and metric_sinks.py has the two ways out.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kvformat.connectors import metric_declarations as declared
from kvformat.connectors.batch_progress import INGESTION, BatchProgress
from kvformat.connectors.lag import LagWatch
from kvformat.connectors.metric_sinks import MetricSink, PrometheusSink, StatsdSink
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import ConfigurationError, needs_extra

with needs_extra("a listener needs PySpark 4.1 or newer", extra="spark"):
    from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from kvformat.connectors.kafka import KafkaTable

_LOG = logging.getLogger("kvformat.metrics")
_MOST_QUERIES: Final = 100  # each has some thirty time series of its own
_MOST_OF_QUERY: Final = 1000  # tables or topics of a query with time series of their own
_CODES: Final = tuple(code.value for code in ErrorCode if code is not ErrorCode.SKIPPED)


def export_metrics(
    spark: SparkSession,
    *,
    prometheus_port: int | None = None,
    prometheus_host: str = "0.0.0.0",
    textfile: str | PathLike[str] | None = None,
    statsd: str | None = None,
    tables: Sequence[KafkaTable] = (),
) -> MetricsListener:
    """Export the metrics of all queries of a session from now on; returns the listener, whose `close` ends it.

    `prometheus_port` opens an HTTP endpoint for Prometheus at all addresses, or at `prometheus_host`; 0 takes a free
    port. `textfile` is a file that is replaced after each micro-batch, for the textfile collector of node_exporter; its
    name must end in `.prom`. Both need `kvformat[metrics]`. `statsd` is the `host:port` of a StatsD server.

    The metrics are those of `log_progress`, and `tables` too. Query, table and topic are labels: give each query a
    name. At most 100 queries, and 1,000 tables and topics of each, have labels of their own; the label of the others is
    `(others)`. Raises `ConfigurationError`, and `MissingExtraError` without prometheus-client.
    """
    sinks: list[MetricSink] = []
    with contextlib.ExitStack() as opened:  # an error closes what was opened: the call may be repeated
        if prometheus_port is not None or textfile is not None:
            file = None if textfile is None else os.fspath(textfile)
            if file is not None and not file.endswith(".prom"):
                raise ConfigurationError(f"textfile={file!r} must end in '.prom': node_exporter reads no other files")
            sinks.append(PrometheusSink(declared.METRICS, prometheus_port, prometheus_host, file))
            opened.callback(sinks[-1].close)
        if statsd is not None:
            sinks.append(StatsdSink(statsd))
            opened.callback(sinks[-1].close)
        if not sinks:
            raise ConfigurationError("export_metrics needs a way out: prometheus_port, textfile or statsd")
        listener = MetricsListener(spark, sinks, LagWatch([table.kv for table in tables]))
        spark.streams.addListener(listener)
        opened.pop_all()
    return listener


class MetricsListener(StreamingQueryListener):
    """The listener that `export_metrics` adds to a session."""

    def __init__(self, spark: SparkSession, sinks: Sequence[MetricSink], watch: LagWatch) -> None:
        self._spark, self._sinks, self._watch = spark, tuple(sinks), watch
        self._names: dict[str, str] = {}  # of running queries, by the id of the run
        self._labels: dict[tuple[str, ...], set[str]] = {}
        self._topics: dict[str, set[str]] = {}  # with a lag, by query

    @property
    def port(self) -> int | None:
        """The port of the endpoint for Prometheus; None without one."""
        return next((sink.port for sink in self._sinks if isinstance(sink, PrometheusSink)), None)

    def close(self) -> None:
        """Remove the listener from its session, and close the endpoint."""
        self._spark.streams.removeListener(self)
        for sink in self._sinks:
            sink.close()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Begin the time series of a query: a counter that begins at 5 has not grown for Prometheus."""
        with self._told():
            self._begin(str(event.runId), event.name or str(event.id))

    def _begin(self, run: str, query: str) -> str:
        """Return the label of a query, and begin its time series with the first event of a run."""
        if run in self._names:
            return self._names[run]
        name = self._names[run] = self._label(query, _MOST_QUERIES, "query")
        self._set(declared.RUNNING, 1, name)
        for counter in (declared.FAILURES, declared.RECORDS, declared.SKIPPED, declared.PARTITIONS):
            self._add(counter, 0, name)
        for code in _CODES:
            self._add(declared.BAD, 0, name, code)
        return name

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Export a micro-batch."""
        with self._told():
            batch = BatchProgress.of(event.progress, self._watch)
            name = self._begin(str(event.progress.runId), batch.query)
            self._add(declared.RECORDS, batch.records, name)
            for sink in self._sinks:
                sink.observe(declared.SECONDS, batch.seconds, (name,))
            self._set(declared.LAST, time.time(), name)
            self._add(declared.PARTITIONS, len(batch.new_partitions), name)
            self._export_lag(batch, name)
            self._export_counts(batch, name)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Export nothing: there was no micro-batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Export that a query has ended, and forget its lag."""
        with self._told():
            name = self._names.pop(str(event.runId), None)
            if name is None:
                return
            self._set(declared.RUNNING, 0, name)
            self._add(declared.FAILURES, event.exception is not None, name)
            self._forget_lag(name)

    def _export_lag(self, batch: BatchProgress, name: str) -> None:
        if batch.lag is None:
            return
        self._set(declared.UNKNOWN, int(bool(batch.lag.unknown)), name)
        self._forget_lag(name)
        records: dict[str, int] = {}
        oldest: dict[str, int] = {}
        for topic, count in batch.lag.topics.items():
            label = self._label(topic, _MOST_OF_QUERY, "topic", name)
            records[label] = records.get(label, 0) + count
            if topic in batch.lag.oldest:
                oldest[label] = min(batch.lag.oldest[topic], oldest.get(label, batch.lag.oldest[topic]))
        self._topics[name] = {*records}
        for label, count in records.items():
            self._set(declared.LAG, count, name, label)
            if label in oldest:
                for sink in self._sinks:
                    sink.set_age(declared.OLDEST, oldest[label] / 1000, (name, label))
            elif not count:
                self._set(declared.OLDEST, 0, name, label)

    def _forget_lag(self, name: str) -> None:
        for topic in self._topics.pop(name, ()):
            for sink in self._sinks:
                sink.forget(declared.LAG, (name, topic))
                sink.forget(declared.OLDEST, (name, topic))

    def _export_counts(self, batch: BatchProgress, name: str) -> None:
        for of, counts in batch.counts.items():
            self._add(declared.SKIPPED, counts.get("skipped", 0), name)
            for code in _CODES:
                if counts.get(code):
                    self._add(declared.BAD, counts[code], name, code)
            if of != INGESTION and "rows" in counts:
                self._add(declared.TABLE_ROWS, counts["rows"], name, self._label(of, _MOST_OF_QUERY, "table", name))
        for table, tally in batch.tables.items():
            label = self._label(table, _MOST_OF_QUERY, "table", name)
            self._add(declared.TABLE_ROWS, tally.records, name, label)
            self._add(declared.TABLE_SECONDS, tally.seconds, name, label)

    def _add(self, metric: declared.Metric, count: float, *labels: str) -> None:
        for sink in self._sinks:
            sink.add(metric, count, labels)

    def _set(self, metric: declared.Metric, value: float, *labels: str) -> None:
        for sink in self._sinks:
            sink.set(metric, value, labels)

    def _label(self, value: str, most: int, *kind: str) -> str:
        """Return the label of a name: the name itself, or `OTHERS` if there are too many."""
        known = self._labels.setdefault(kind, set())
        if value not in known and len(known) >= most:
            return declared.OTHERS
        known.add(value)
        return value

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Log an error instead of raising it: a query does not fail for its metrics. Then send what was exported."""
        try:
            yield
            for sink in self._sinks:
                sink.flush()
        except Exception as error:  # a full disk, or a bug
            _LOG.warning("metrics were not exported: %s", error)
