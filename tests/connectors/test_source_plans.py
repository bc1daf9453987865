"""How the data source plans batches and streams, and checks what is written: with brokers in memory, without Spark."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, GreaterThanOrEqual

from kvformat.connectors import brokers
from kvformat.connectors.data_source import write
from kvformat.connectors.data_source.options import RANGES
from kvformat.connectors.data_source.source import KvformatDataSource
from kvformat.registry.contract.errors import (
    BrokerError,
    ConfigurationError,
    DataLossError,
    KafkaSourceWarning,
    OptionError,
    SchemaError,
)
from kvformat.registry.contract.schemas import resolve_schema, row_type, spark_schema
from tests.support.memory_brokers import Admin, table

FIRST, LAST = {0: 0, 1: 5, 2: 0}, {0: 10, 1: 25, 2: 0}


@pytest.fixture
def admin() -> Admin:
    return Admin({"t": dict(FIRST)}, {"t": dict(LAST)}, ids={"t": "id-t"}, later={1500: {"t": {0: 4, 1: -1, 2: -1}}})


@pytest.fixture
def source(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> Callable[..., KvformatDataSource]:
    """Return a function that makes the data source of topic `t`, with options of the table and of the data source."""

    def made(options: Mapping[str, str] | None = None, **given: str) -> KvformatDataSource:
        return KvformatDataSource({"ddl": table(admin, monkeypatch, options or {}).ddl, **given})

    return made


def ranges(tasks: list[Any]) -> list[list[tuple[int, int, int]]]:
    return [[(at.partition, at.start, at.end) for at in task.ranges] for task in tasks]


def schema_of(columns: str) -> Any:
    return spark_schema(row_type(resolve_schema(columns)))


def batch(made: KvformatDataSource) -> Any:
    return made.reader(made.schema())


def stream(made: KvformatDataSource) -> Any:
    return made.streamReader(made.schema())


# --- batches ---------------------------------------------------------------------------------------------------


def test_a_batch_reads_each_partition_with_records(source: Any) -> None:
    assert ranges(batch(source()).partitions()) == [[(0, 0, 10)], [(1, 5, 25)]]
    assert ranges(batch(source({"scan.parallelism": "1"})).partitions()) == [[(0, 0, 10), (1, 5, 25)]]
    parts = [[(0, 0, 10)], [(1, 5, 15)], [(1, 15, 25)]]
    assert ranges(batch(source(maxrecordsperpartition="10")).partitions()) == parts


def test_the_tasks_of_a_batch_have_the_time_of_its_plan(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In microseconds, as Spark's timestamps: CURRENT_TIMESTAMP is the same in all of them."""
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_123_456_789)
    assert [task.now for task in batch(source()).partitions()] == [1_700_000_000_123_456] * 2


def test_notes_on_the_offsets_of_a_batch_are_warnings(source: Any) -> None:
    specific = {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:7,offset:1"}
    with pytest.warns(KafkaSourceWarning, match="table 'table': .*names partitions that do not exist: t-7"):
        batch(source(specific)).partitions()


def test_filters_narrow_a_batch_and_are_left_to_spark(source: Any) -> None:
    moment = dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, dt.UTC)
    filters = [EqualTo(("partition",), 0), GreaterThanOrEqual(("timestamp",), moment)]
    made = batch(source(push_filters="true", metadata="partition,timestamp"))
    assert list(made.pushFilters(filters)) == filters
    assert ranges(made.partitions()) == [[(0, 4, 10)]]
    unable = DataSourceReader.pushFilters
    assert type(batch(source())).pushFilters is unable, "Spark refuses another one unless the session allows it"


# --- streams ---------------------------------------------------------------------------------------------------


def offsets(*at: int, topic_id: str = "id-t") -> dict[str, Any]:
    return {"t": {str(number): offset for number, offset in enumerate(at)}, "$topic_ids": {"t": topic_id}}


@pytest.mark.parametrize(
    ("start", "told", "read"),
    [
        (offsets(3, 1, 0), "t-1: the records from offset 1 to 5 are deleted", [(0, 3, 10), (1, 5, 25)]),
        (offsets(3, 7, 0, topic_id="x"), "t-0: the topic was deleted and created again", [(0, 0, 10), (1, 5, 25)]),
    ],
)
def test_lost_records_of_a_micro_batch_are_an_error_or_a_warning(start: Any, told: str, read: Any, source: Any) -> None:
    end = offsets(10, 25, 0)
    with pytest.raises(DataLossError, match=f"table 'table': records were lost before .*{told}"):
        stream(source()).partitions(start, end)
    with pytest.warns(KafkaSourceWarning, match=told):
        tasks = stream(source({"scan.parallelism": "1"}, failondataloss="false")).partitions(start, end)
    assert ranges(tasks) == [read]


def test_offsets_of_sparks_kafka_source_are_refused(source: Any) -> None:
    with pytest.raises(ConfigurationError, match="the checkpoint has offsets of Spark's Kafka source"):
        stream(source()).partitions({"t": {"0": 3}}, offsets(10, 25, 0))


def test_notes_on_options_of_a_stream_are_warnings(source: Any) -> None:
    with pytest.warns(KafkaSourceWarning, match="table 'table': 'scan.topic-partition-discovery.interval' = '0'"):
        stream(source({"scan.topic-partition-discovery.interval": "0"}))
    with pytest.raises(OptionError, match="a stream of Spark can't stop there"):
        stream(source({"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": "5"}))


def test_a_micro_batch_has_the_limit_of_its_trigger(source: Any, admin: Admin) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # not in PySpark 4.1

    made = stream(source(maxoffsetspertrigger="6"))
    limit = made.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    assert limit.max_rows == 6
    assert isinstance(stream(source()).getDefaultReadLimit(), ReadAllAvailable)
    assert made.reportLatestOffset() is None
    start = made.initialOffset()
    end = json.loads(json.dumps(made.latestOffset(start, limit)))
    assert ranges(made.partitions(start, end)) == [[(0, 0, 2)], [(1, 5, 9)]]
    assert made.reportLatestOffset()["t"] == {"0": 10, "1": 25, "2": 0}, "the newest, and not those of the limit"
    assert made.latestOffset(end, ReadAllAvailable()) == offsets(10, 25, 0)
    admin.ids = {"t": "again"}
    assert made.latestOffset(end, limit)["$topic_ids"] == {"t": "again"}


def test_available_now_ends_at_the_records_of_its_start(source: Any, admin: Admin) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    made = stream(source())
    made.prepareForTriggerAvailableNow()
    admin.last["t"][0] = 99  # type: ignore[index]
    end = made.latestOffset(offsets(3, 5, 0), ReadAllAvailable())
    assert end == offsets(10, 25, 0)
    assert made.latestOffset(end, ReadAllAvailable()) == end, "Spark then ends the query"
    assert made.reportLatestOffset() == offsets(99, 25, 0)


def test_ranges_count_their_offsets_from_batch_to_batch(source: Any, admin: Admin) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    made = source(**{RANGES: "true"}).streamReader(schema_of("topic STRING"))
    start = made.initialOffset()
    first = made.latestOffset(start, ReadAllAvailable())
    admin.last["t"][0] = 14  # type: ignore[index]
    assert [at["$ranges"] for at in (start, first, made.latestOffset(first, ReadAllAvailable()))] == [0, 30, 34]


def test_one_client_asks_for_all_micro_batches(source: Any, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    made, asked = stream(source()), list[Any]()
    monkeypatch.setattr(brokers, "admin", lambda options: asked.append(options) or admin)
    made.prepareForTriggerAvailableNow()
    end = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    made.partitions(offsets(0, 5, 0), end)
    assert len(asked) == 1


# --- columns and rows -------------------------------------------------------------------------------------------


def test_a_schema_has_columns_of_the_table_in_any_order(source: Any) -> None:
    made = source(metadata="offset")
    reader = made.reader(schema_of("offset BIGINT, v BYTES"))
    assert reader._rows.final.places == (1, 0)
    for columns, told in (
        ("w BYTES", "column 'w', which table 'table' does not give: it gives offset, v"),
        ("offset STRING", "column 'offset' as STRING, but table 'table' gives BIGINT"),
    ):
        with pytest.raises(SchemaError, match=told):
            made.reader(schema_of(columns))


@pytest.mark.parametrize("changelog", [None, "true", "false"])
def test_the_data_source_gives_changes_and_no_current_rows(
    changelog: str | None, source: Any, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "admin", lambda _: admin)
    given = {} if changelog is None else {"changelog": changelog}
    upserts = (
        "CREATE TABLE u (id INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 't', "
        "'properties.bootstrap.servers' = 'b:1', 'key.format' = 'json', 'value.format' = 'json')"
    )
    made = KvformatDataSource({"ddl": upserts, **given})
    if changelog == "false":
        with pytest.raises(OptionError, match="the current row of each key needs an aggregation by Spark"):
            made.schema()
    else:
        assert made.schema().names == ["id", "row_kind"]
    if changelog == "true":
        with pytest.raises(ConfigurationError, match="has only inserts and no changes"):
            source(**given).schema()
    else:
        assert source(**given).schema().names == ["v"]


# --- writing -----------------------------------------------------------------------------------------------------


def test_rows_are_only_appended(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write.TaskWriter, "of", lambda *_: "writer")
    for writer in (source().writer, source().streamWriter):
        with pytest.raises(OptionError, match="rows can only be appended to a topic"):
            writer(schema_of("v BYTES"), True)
        assert writer(schema_of("v BYTES"), False)._writer == "writer"


def test_a_stream_waits_for_brokers_that_restart_and_a_batch_does_not(
    source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = []

    def writer(*_: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(write.TaskWriter, "of", writer)
    monkeypatch.setattr(brokers, "_LONG_PAUSE", 0.0)
    answers[:] = [BrokerError("away"), BrokerError("away"), "writer"]
    assert source().streamWriter(schema_of("v BYTES"), False)._writer == "writer"
    answers[:] = [BrokerError("away"), "writer"]
    with pytest.raises(BrokerError, match="away"):
        source().writer(schema_of("v BYTES"), False)
