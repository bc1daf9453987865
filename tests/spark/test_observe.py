"""Counts of decoded records: in a batch, and for a listener of streaming queries."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Observation

from kvformat.connectors.batch_progress import BatchProgress, observed_counts
from kvformat.connectors.lag import LagWatch
from kvformat.connectors.progress import described
from kvformat.registry import (
    ConfigurationError,
    ErrorCode,
    KeyValueFormat,
    SchemaError,
    explode_changes,
    get_format,
    observe_records,
    split_errors,
)

pytestmark = pytest.mark.spark

UPSERT = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
RECORDS = [
    (b'{"id":1}', b'{"id":1,"v":"a"}'),
    (b'{"id":2}', None),
    (b'{"id":3}', b"{"),
    (b'{"id":4}', b'{"id":4,"v":{}'),
    (b'{"id":5}', b'{"id":"x","v":"a"}'),
    (b'{"id":6}', b""),
    (None, b'{"id":7,"v":"a"}'),
]
COUNTS = {"rows": 2, "bad": 4, "skipped": 1, "insert": 0, "update_before": 0, "update_after": 1, "delete": 1}
CODES = {"MALFORMED": 2, "WRONG_TYPE": 1, "NULL_KEY": 1}


def _observed(df: Any, action: Any = lambda df: df.collect()) -> dict[str, int]:
    observation = Observation()
    action(observe_records(df, observation))
    counts: dict[str, int] = observation.get
    return counts


def _table() -> KeyValueFormat:
    return KeyValueFormat("id INT, v STRING", UPSERT, primary_key=["id"])


def test_counts_of_a_batch(spark: Any) -> None:
    frame = spark.createDataFrame(RECORDS, "key BINARY, value BINARY")
    others = dict.fromkeys(set(ErrorCode) - set(CODES) - {ErrorCode.SKIPPED}, 0)
    wanted = COUNTS | CODES | others
    assert _observed(_table().decode(frame, errors="capture")) == wanted
    indexed = _table().decode(frame, errors="capture", row_index=True)
    assert _observed(indexed) == wanted | {"records": 7}
    # a partition counts all records that it has read
    assert _observed(indexed, lambda df: split_errors(df)[0].collect()) == wanted | {"records": 7}


def test_counts_of_changes(spark: Any) -> None:
    update = b'{"data":[{"id":1},{"id":2}],"old":[{"id":3},{"id":4}],"type":"UPDATE"}'
    frame = spark.createDataFrame([(update,), (b"x",), (b'{"type":"DELETE","data":[{"id":1}]}',)], "value BINARY")
    canal = get_format("canal-json")
    captured = explode_changes(frame, canal.decode_rows("value", "id INT", errors="capture"))
    counts = _observed(captured)
    assert (counts["rows"], counts["bad"], counts["records"], counts["MALFORMED"]) == (5, 1, 3, 1)
    assert (counts["update_before"], counts["update_after"], counts["delete"], counts["insert"]) == (2, 2, 1, 0)
    good = explode_changes(frame.where("value <> X'78'"), canal.decode_rows("value", "id INT"))
    counts = _observed(good)
    assert counts == COUNTS | {"rows": 5, "bad": 0, "skipped": 0, "records": 2, "update_before": 2, "update_after": 2}


def test_wrong_input_of_observe_is_refused(spark: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"observe_records takes.*'row_kind'. The columns: id"):
        observe_records(spark.range(1), "x")


def test_a_listener_receives_the_counts_of_each_batch(spark: Any, tmp_path: Path) -> None:
    """The listener is from the docs. It is removed after the last event, because Spark Connect deadlocks if an event
    arrives during the removal.
    """
    page = (Path(__file__).parent.parent.parent / "docs" / "bad-records.md").read_text(encoding="utf-8")
    snippet = next(s for s in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class Counts" in s)
    scope: dict[str, Any] = {}
    exec(snippet.partition("# spark.streams")[0], scope)
    source = tmp_path / "in"
    frame = spark.createDataFrame(RECORDS, "key BINARY, value BINARY").coalesce(1)
    frame.limit(2).write.mode("append").parquet(str(source))
    stream = spark.readStream.schema("key BINARY, value BINARY").parquet(str(source))
    counted = observe_records(_table().decode(stream, errors="capture"), "orders")
    listener = scope["Counts"]()
    seen: list[Any] = []
    ended = threading.Event()
    listener.onQueryTerminated = lambda event: ended.set()
    plain = listener.onQueryProgress
    listener.onQueryProgress = lambda event: (seen.append(event.progress.observedMetrics["orders"]), plain(event))
    spark.streams.addListener(listener)
    try:
        query = (
            counted.writeStream.format("memory")
            .queryName("observed")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert ended.wait(120)
    finally:
        spark.streams.removeListener(listener)
    assert sum(counts.rows for counts in seen) == 2
    assert sum(counts.delete for counts in seen) == 1


def test_messages_are_counted_by_the_id_of_their_schema(spark: Any, tmp_path: Path) -> None:
    """The text of a log's line is made of the event of a real query, which Spark Connect gives in another form."""
    schemas = {b"\1": b'{"after":{"id":1},"op":"c"}', b"\2": b'{"before":{"id":1},"after":{"id":2},"op":"u"}'}
    messages = [bytes(4) + one + text for one, text in schemas.items() for _ in range(3)]
    records = [*((message,) for message in [*messages, bytes(4) + b"\2" + schemas[b"\1"]]), (b"x",), (None,)]
    source = tmp_path / "in"
    spark.createDataFrame(records, "value BINARY").coalesce(1).write.parquet(str(source))
    table = KeyValueFormat.from_ddl(
        "CREATE TABLE t (id INT, schema_id STRING METADATA FROM 'value.registry.schema-id') WITH ("
        "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9', "
        "'scan.startup.mode' = 'earliest-offset', "
        "'format' = 'json-debezium-registry')"
    )

    def counted(df: Any, observation: Any) -> Any:
        decoded = table.decode(df, errors="capture", row_index=True)
        return observe_records(decoded, observation, schema_id="schema_id")

    observation = Observation()
    counted(spark.read.parquet(str(source)), observation).collect()
    counts: dict[str, Any] = observation.get
    assert (counts["rows"], counts["records"], counts["bad"]) == (10, 8, 1)
    assert [(one["id"], one["records"]) for one in counts["schemas"]] == [("2", 4), ("1", 3)]

    stream = spark.readStream.schema("value BINARY").parquet(str(source))
    query = (
        counted(stream, "orders")
        .writeStream.format("memory")
        .queryName("schema_ids")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = next(one for one in query.recentProgress if one.numInputRows)
    assert observed_counts(progress)["orders"].items() >= {"rows": 10, "bad": 1, "schema 2": 4, "schema 1": 3}.items()
    assert described(BatchProgress.of(progress, LagWatch())).endswith("records 8, MALFORMED 1, schema 2 4, schema 1 3")
    with pytest.raises(SchemaError, match="no column 'schema'"):
        observe_records(table.decode(stream, errors="capture"), "x", schema_id="schema")


@pytest.mark.parametrize("ids", [99, 100, 101])
def test_at_most_100_ids_of_schemas_are_shown_beside_records_without_one(ids: int, spark: Any) -> None:
    schema_id = f"IF(id < 500, NULL, CAST(id % {ids} AS STRING))"
    frame = spark.range(500 + 2 * ids).selectExpr("'+I' AS row_kind", f"{schema_id} AS schema_id")
    observation = Observation()
    observe_records(frame, observation, schema_id="schema_id").collect()
    found = {one["id"]: one["records"] for one in observation.get["schemas"]}
    assert (len(found), set(found.values()), None in found) == (min(ids, 100), {2}, False)
