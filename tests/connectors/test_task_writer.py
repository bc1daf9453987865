"""How a task of the data source writes its rows, without Spark's session and without a broker."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyspark
import pytest

from kvformat.connectors import topics
from kvformat.connectors.data_source import write
from kvformat.connectors.data_source.options import parse
from kvformat.connectors.data_source.tables import table_of
from kvformat.connectors.data_source.write import TaskWriter
from kvformat.connectors.record_producer import ProducerSettings
from kvformat.registry.contract.errors import KafkaSinkWarning, OptionError, SchemaError
from kvformat.registry.contract.schemas import resolve_schema, row_type, spark_schema

INSERTS = "CREATE TABLE x (id INT, t STRING METADATA FROM 'topic') WITH ('connector' = 'kafka', 'format' = 'json', {})"
UPSERTS = (
    "CREATE TABLE x (id INT, n INT, t STRING METADATA FROM 'topic', PRIMARY KEY (id) NOT ENFORCED) WITH ("
    "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json', "
    "'value.fields-include' = 'EXCEPT_KEY', {})"
)
TOPICS = "'topic' = 't;u', 'properties.bootstrap.servers' = 'b:1'"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that writes batches of rows as task 7, and returns the records."""
    monkeypatch.setattr(topics, "check", lambda *_: {})
    monkeypatch.setattr(topics, "partitions", lambda _: {"t": 2, "u": 5})
    monkeypatch.setattr(ProducerSettings, "of", lambda kv: None)
    context = SimpleNamespace(partitionId=lambda: 7, getLocalProperty=lambda _: "America/New_York")
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)

    def run(columns: str, batches: list[pa.RecordBatch], **given: str) -> list[dict[str, Any]]:
        options, schema = parse(given), spark_schema(row_type(resolve_schema(columns)))
        found: list[dict[str, Any]] = []

        def write_records(_: Any, records: Any) -> int:
            found.extend(record for batch in records for record in batch.to_pylist())
            return len(found)

        monkeypatch.setattr(write, "write_records", write_records)
        assert TaskWriter.of(table_of(options, schema), options, schema).write(iter(batches)).count == len(found)
        return found

    return run


def upserts(*changed: tuple[int, int, str]) -> list[pa.RecordBatch]:
    """Return a batch for each row."""
    return [pa.record_batch({"id": pa.array([id_], pa.int32()), "n": pa.array([n], pa.int32()), "t": [topic]})
            for id_, n, topic in changed]  # fmt: skip


def test_the_buffer_keeps_the_last_record_of_a_key_in_each_topic(written: Any) -> None:
    buffer = "'sink.buffer-flush.max-rows' = '4', 'sink.buffer-flush.interval' = '1 s'"
    changed = [(1, 1, "t"), (1, 2, "u"), (1, 3, "t"), (2, 4, "t"), (1, 5, "t")]
    found = written("id INT, n INT, t STRING", upserts(*changed), ddl=UPSERTS.format(f"{TOPICS}, {buffer}"))
    assert [(record["topic"], record["key"], record["value"]) for record in found] == [
        ("u", b'{"id":1}', b'{"n":2}'),
        ("t", b'{"id":1}', b'{"n":3}'),
        ("t", b'{"id":2}', b'{"n":4}'),
        ("t", b'{"id":1}', b'{"n":5}'),
    ]
    assert written("id INT, n INT, t STRING", [], ddl=UPSERTS.format(f"{TOPICS}, {buffer}")) == []


def test_a_fixed_partition_is_that_of_the_task_in_the_topic_of_each_row(written: Any) -> None:
    fixed = "'sink.partitioner' = 'fixed', 'properties.bootstrap.servers' = 'b:1'"
    batch = pa.record_batch({"id": pa.array([1, 2], pa.int32()), "t": ["t", "u"]})
    found = written("id INT, t STRING", [batch], ddl=INSERTS.format(f"'topic' = 't;u', {fixed}"))
    assert [(record["topic"], record["partition"]) for record in found] == [("t", 1), ("u", 2)]
    one = INSERTS.replace(", t STRING METADATA FROM 'topic'", "").format(f"'topic' = 't', {fixed}")
    assert [record["partition"] for record in written("id INT", [batch.select(["id"])], ddl=one)] == [1, 1]


@pytest.mark.parametrize(("zone", "shown"), [("Asia/Tokyo", "21:00:00"), (None, "07:00:00")])
def test_local_times_are_those_of_the_option_or_else_of_the_session(zone: str | None, shown: str, written: Any) -> None:
    ddl = (
        "CREATE TABLE x (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'format' = 'json', "
        "'topic' = 't', 'properties.bootstrap.servers' = 'b:1')"
    )
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    batch = pa.record_batch({"ts": pa.array([moment], pa.timestamp("us", "UTC"))})
    given = {"ddl": ddl} | ({} if zone is None else {"time_zone": zone})
    (record,) = written("ts TIMESTAMP_LTZ(3)", [batch], **given)
    assert record["value"] == b'{"ts":"2024-02-29 %s"}' % shown.encode()


# --- checks before a job ---------------------------------------------------------------------------------------

ONE = INSERTS.replace(", t STRING METADATA FROM 'topic'", "")
TO_T = "'topic' = 't', 'properties.bootstrap.servers' = 'b:1'"


@pytest.mark.parametrize(
    ("options", "given", "error", "told"),
    [
        (f"{TO_T}, 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'p'", {}, OptionError,
         "'sink.delivery-guarantee' = 'exactly-once': a data source writes at least once"),
        (TOPICS, {}, OptionError, "has topics t, u, but no metadata column names the topic of a row"),
        (TO_T, {"extra_columns": "error"}, SchemaError, "1 column that the table does not have"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_written_are_an_error_before_the_job(
    options: str, given: dict[str, str], error: type[Exception], told: str, written: Any
) -> None:
    with pytest.raises(error, match=told):
        written("id INT, more INT", [], ddl=ONE.format(options), **given)


@pytest.mark.parametrize(
    ("options", "columns", "told"),
    [
        (
            "'sink.parallelism' = '3'",
            "id INT",
            "'sink.parallelism' has no effect: each task of the rows writes its own",
        ),
        ("'sink.delivery-guarantee' = 'none'", "id INT", "'none' writes at least once"),
        ("'properties.metric.reporters' = 'a.B'", "id INT", "'properties.metric.reporters' has no effect: librdkafka"),
        ("'properties.ackss' = 'all'", "id INT", "Did you mean 'properties.acks'"),
        ("'value.fields-include' = 'ALL'", "id INT, more INT", "1 column that the table does not have"),
    ],
)
def test_what_is_written_in_another_way_is_a_warning(options: str, columns: str, told: str, written: Any) -> None:
    with pytest.warns(KafkaSinkWarning, match=told):
        written(columns, [], ddl=ONE.format(f"{TO_T}, {options}"))


def test_topics_are_checked_and_may_be_in_a_column_of_metadata(written: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(topics, "check", lambda kv, names, spark: asked.append((list(names), spark)))
    batch = pa.record_batch({"id": pa.array([1], pa.int32()), "to": ["u"]})
    (record,) = written("id INT, to STRING", [batch], ddl=ONE.format(TOPICS), metadata="to:topic")
    assert (record["topic"], record["value"]) == ("u", b'{"id":1}')
    assert asked == [(["t", "u"], None)]
