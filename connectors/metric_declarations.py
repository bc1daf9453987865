"""The metrics that `export_metrics` exports, for Prometheus: names, types, labels and meanings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of Prometheus, with the names of its labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    doc: str
    labels: tuple[str, ...]


OTHERS: Final = "(others)"
"""The label of tables, topics and queries beyond the bounds: a monitoring system must not drown in time series."""

RUNNING = Metric("kvformat_query_running", "gauge", "1 while a query runs, 0 when it has ended.", ("query",))
FAILURES = Metric("kvformat_query_failures_total", "counter", "How often a query has failed.", ("query",))
RECORDS = Metric("kvformat_records_total", "counter", "Records that the query has read.", ("query",))
SECONDS = Metric("kvformat_batch_seconds", "histogram", "Seconds of a micro-batch.", ("query",))
LAST = Metric("kvformat_last_batch_timestamp_seconds", "gauge", "When the last micro-batch ended.", ("query",))
LAG = Metric(
    "kvformat_lag_records",
    "gauge",
    "Records of a topic that the query had not read when its last micro-batch had ended. None while it is unknown.",
    ("query", "topic"),
)
OLDEST = Metric(
    "kvformat_oldest_unread_seconds",
    "gauge",
    "Age of the oldest record that the query had not read, now. 0 without lag, none if it is unknown.",
    ("query", "topic"),
)
UNKNOWN = Metric("kvformat_lag_unknown", "gauge", "1 if the brokers did not tell the lag, otherwise 0.", ("query",))
BAD = Metric(
    "kvformat_bad_records_total",
    "counter",
    "Bad records by error code: of `observe_records`, of dead letters, of ingestion.",
    ("query", "code"),
)
SKIPPED = Metric("kvformat_skipped_records_total", "counter", "Records that formats or filters skip.", ("query",))
PARTITIONS = Metric("kvformat_new_partitions_total", "counter", "Partitions that were added to topics.", ("query",))
TABLE_ROWS = Metric(
    "kvformat_table_rows_total",
    "counter",
    "Rows by the table or the name of `observe_records`; of an ingestion, records with rows for the table.",
    ("query", "table"),
)
TABLE_SECONDS = Metric(
    "kvformat_table_seconds_total", "counter", "Seconds in which an ingestion wrote a table.", ("query", "table")
)
METRICS: Final = (
    *(RUNNING, FAILURES, RECORDS, SECONDS, LAST, LAG, OLDEST, UNKNOWN, BAD, SKIPPED, PARTITIONS),
    *(TABLE_ROWS, TABLE_SECONDS),
)
"""All metrics."""
