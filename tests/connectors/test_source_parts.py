"""Parts of the data source without Spark's session and without a broker: options, tasks, limits and filters."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from kvformat.connectors import KafkaTable, header_filter, range_records
from kvformat.connectors.data_source.batch import RangesOfTask, tasks_of
from kvformat.connectors.data_source.filters import keys_of, narrowed
from kvformat.connectors.data_source.options import OPTIONS, RANGES, RECORDS, WIRE, parse
from kvformat.connectors.data_source.rows import rows_of, stage_of
from kvformat.connectors.data_source.source import KvformatDataSource
from kvformat.connectors.data_source.stream import KafkaStreamReader, limited, up_to
from kvformat.connectors.data_source.tables import table_of
from kvformat.connectors.range_records import RangeRecords, range_rows
from kvformat.connectors.reader.ranges import PartitionRange, TopicOffsets
from kvformat.connectors.reader.records import KAFKA_FIELDS
from kvformat.registry.contract.errors import DecodeError, OptionError
from kvformat.registry.contract.schemas import resolve_schema, row_type, spark_schema
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.table.decode_stage import record_schema
from kvformat.registry.table.metadata import MetadataColumn
from kvformat.registry.table.record_headers import HEADERS_TYPE
from tests.support.memory_brokers import Admin, table

BROKERS = {"topic": "t", "properties.bootstrap.servers": "b:1"}


_PLAN = """
import sys
import pyspark.sql.worker.plan_data_source_read
from kvformat.connectors.data_source.source import KvformatDataSource
ddl = (
    "CREATE TABLE t (id INT, n DECIMAL(9, 2)) WITH ('connector' = 'kafka', 'topic' = 't', "
    f"'properties.bootstrap.servers' = 'b:1', 'scan.startup.mode' = 'earliest-offset', 'format' = '{sys.argv[1]}')"
)
source = KvformatDataSource({"ddl": ddl})
print(type(source.streamReader(source.schema())).__name__, "pandas" in sys.modules)
"""


@pytest.mark.parametrize("format", ["json", "csv", "avro", "debezium-json", "maxwell-json"])
def test_planning_a_read_does_not_import_pandas(format: str) -> None:
    """Spark starts a process for it, which would need a third more CPU time. `pa.array` of a list imports pandas."""
    told = subprocess.run([sys.executable, "-P", "-c", _PLAN, format], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["KafkaStreamReader", "False"]


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("partition", {"partition": "partition"}),
        ("partition,, at:timestamp,", {"partition": "partition", "at": "timestamp"}),
        ("db:value.source.database", {"db": "value.source.database"}),
        ('{"a b":"offset"}', {"a b": "offset"}),
        ("{}", {}),
    ],
)
def test_metadata_is_a_list_or_an_object(text: str, expected: dict[str, str]) -> None:
    assert parse({**BROKERS, "metadata": text}).metadata == expected


def test_a_ddl_may_be_the_path_of_a_file(tmp_path: Path) -> None:
    ddl = "CREATE TABLE t (id INT) WITH ('connector' = 'kafka', 'format' = 'json', 'properties.ssl.key' = 'password')"
    file = tmp_path / "tables.sql"
    file.write_text(ddl, encoding="utf-8")
    options = parse({"ddl": f" {file}\n"})
    assert options.values["ddl"] == ddl
    assert "password" not in repr(options)
    missing = r"'ddl' is the path '.*none\.sql', .*driver can't read this file: No such file"
    with pytest.raises(OptionError, match=missing):
        parse({"ddl": str(tmp_path / "none.sql")})
    file.write_bytes(b"\xff")
    with pytest.raises(OptionError, match="can't read this file: it is not UTF-8"):
        parse({"ddl": str(file)})


def test_each_option_is_found_in_small_letters() -> None:
    values = {"boolean": "true", "long": "5", "int": "5", "list": "a;b", "string": "x", "enum": None, "map": "a:b"}
    given = {spec.name.lower(): values[spec.type] or str((spec.allowed or ("",))[-1]) for spec in OPTIONS}
    found = parse({**BROKERS, **given})
    assert dict(found.table) == BROKERS
    assert len(OPTIONS) >= 15
    for spec in OPTIONS:
        assert spec.doc
        assert found.values[spec.name] is not None, spec.name
    registry = parse({**BROKERS, "registry.url": "http://r", "registry.basic-auth.user-info": "u:secret"})
    assert registry.values["registry"] == {"url": "http://r", "basic-auth.user-info": "u:secret"}
    assert "secret" not in repr(registry)
    assert dict(registry.table) == BROKERS
    assert "password" not in repr(parse({"ddl": "CREATE ... 'password'", "properties.sasl.jaas.config": "password"}))


def test_options_that_spark_gives_for_itself_are_not_those_of_a_table() -> None:
    given = {"checkpointLocation": "/c", "queryName": "q", "outputMode": "append"}
    for options in (given, {name.lower(): text for name, text in given.items()}):
        assert dict(parse(BROKERS | options).table) == BROKERS


def test_options_of_a_registry_are_those_of_one_reader() -> None:
    parse({**BROKERS, "registry": "a:b", "registry.url": "http://r"})
    assert parse({**BROKERS, "registry.url": "http://s"}).values["registry"] == {"url": "http://s"}
    assert parse({**BROKERS, "registry": "c:d"}).values["registry"] == {"c": "d"}
    assert parse(BROKERS).values["registry"] == {}


@pytest.mark.parametrize("name", ["connector", "format", "property-version", "json.any", "any-thing"])
def test_names_that_a_table_or_its_formats_may_have_are_left_to_the_table(name: str) -> None:
    assert dict(parse(BROKERS | {name: "x"}).table) == BROKERS | {name: "x"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "has no options of a table"),
        ({**BROKERS, "provider": "kvformat"}, "CREATE TEMPORARY VIEW"),
        ({**BROKERS, "path": "/x"}, "A table has no path"),
        ({**BROKERS, "minpartition": "5"}, "Did you mean 'minPartitions'"),
        ({**BROKERS, "minpartitions": "many"}, "invalid value 'many' for option 'minPartitions'"),
        *(
            ({**BROKERS, name.lower(): text}, f"invalid value '{text}' for option '{name}': it must be at least 1")
            for name in ("maxOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition")
            for text in ("0", "-1")
        ),
        ({**BROKERS, "metadata": "{x"}, "'metadata' is not a JSON object"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        assert parse(given).metadata


def test_the_columns_of_a_schema_are_those_of_the_table_but_for_what_reading_adds() -> None:
    columns = "id INT, row_kind STRING, o BIGINT, row_index INT"
    schema = spark_schema(row_type(resolve_schema(columns)))
    given = {**BROKERS, "metadata": "o:offset", "row_index": "true", "scan.startup.mode": "earliest-offset"}
    of_changes = table_of(parse({**given, "format": "canal-json"}), schema)
    assert [column.name for column in of_changes.columns] == ["id"]
    of_rows = table_of(parse({**given, "format": "json"}), schema)
    assert [column.name for column in of_rows.columns] == ["id", "row_kind"], "a column of its own"


@pytest.mark.parametrize(("errors", "names"), [("raise", ["id", "error"]), ("capture", ["id"])])
def test_bad_records_are_a_column_that_reading_adds_only_if_they_are_kept(errors: str, names: list[str]) -> None:
    given = {**BROKERS, "format": "json", "scan.startup.mode": "earliest-offset", "errors": errors}
    schema = spark_schema(row_type(resolve_schema("id INT, error STRING")))
    assert [column.name for column in table_of(parse(given), schema).columns] == names


@pytest.mark.parametrize("connector", [None, "kafka", "upsert-kafka"])
def test_a_schema_and_a_primary_key_make_a_table(connector: str | None) -> None:
    options = {"connector": connector, "primary_key": "id;n", "key.format": "json", "value.format": "json"}
    if connector != "upsert-kafka":
        options = {"connector": connector, "primary_key": "id;n", "format": "debezium-json", "properties.group.id": "g"}
    given = {name: text for name, text in {**BROKERS, **options}.items() if text is not None}
    found = table_of(parse(given), spark_schema(row_type(resolve_schema("id INT NOT NULL, n INT NOT NULL, v STRING"))))
    assert (found.options["connector"], found.primary_key) == (connector or "kafka", ("id", "n"))


def test_a_ddl_says_its_primary_key_and_may_create_several_tables() -> None:
    ddl = (
        "CREATE TABLE {} ({} INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', 'properties.group.id'"
    )
    ddl = f"{ddl} = 'g', 'properties.bootstrap.servers' = 'b:1');"
    both = ddl.format("a", "x") + ddl.format("b", "y")
    assert [column.name for column in table_of(parse({"ddl": both, "table": "b"})).columns] == ["y"]
    with pytest.raises(OptionError, match="'primary_key' is for tables without a 'ddl': write PRIMARY KEY there"):
        table_of(parse({"ddl": both, "table": "b", "primary_key": "y"}))


def test_computed_columns_can_be_left_out() -> None:
    ddl = "CREATE TABLE t (id INT, a AS id + 1, b AS id + 2) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = "
    ddl += "'json', 'properties.bootstrap.servers' = 'b:1', 'scan.startup.mode' = 'earliest-offset')"
    found = table_of(parse({"ddl": ddl, "skip_computed": "b"}))
    assert [column.name for column in found.columns] == ["id", "a"]
    assert [column.name for column in table_of(parse({"ddl": ddl, "columns": "id"})).columns] == ["id"]


@pytest.mark.parametrize(
    ("option", "session", "shown"),
    [("Asia/Tokyo", "America/New_York", 21), (None, "America/New_York", 7), (None, None, 13)],
)
def test_times_are_those_of_the_option_or_else_of_the_session_or_the_machine(
    option: str | None, session: str | None, shown: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of computed columns, and those of instants in columns that are local timestamps."""
    ddl = (
        "CREATE TABLE t (ts TIMESTAMP_LTZ(3), computed AS CAST(ts AS TIMESTAMP(3)), wall TIMESTAMP(3) METADATA FROM "
        "'timestamp') WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', "
        "'properties.bootstrap.servers' = 'b:1', 'scan.startup.mode' = 'earliest-offset')"
    )
    source = KvformatDataSource({"ddl": ddl} | ({} if option is None else {"time_zone": option}))
    noon = dt.datetime(2024, 2, 29, 12)
    record = {"value": b'{"ts":"2024-02-29 12:00:00Z"}', "timestamp": noon.replace(tzinfo=dt.UTC)}

    def read_range(_: Any, at: Any, fields: tuple[str, ...], on_loss: Any) -> list[pa.RecordBatch]:
        schema = pa.schema([KAFKA_FIELDS.field(name) for name in fields])
        return [pa.RecordBatch.from_pylist([record], schema)]

    monkeypatch.setattr(range_records, "read_range", read_range)
    monkeypatch.setenv("TZ", "Europe/Paris")
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: SimpleNamespace(getLocalProperty=lambda _: session))
    (batch,) = source.reader(source.schema()).read(RangesOfTask((PartitionRange("t", 0, 0, 1),), 0))
    (row,) = batch.to_pylist()
    assert row["ts"] == record["timestamp"]
    assert [row[name] for name in ("wall", "computed")] == [noon.replace(hour=shown)] * 2


@pytest.mark.parametrize(("most", "errors"), [(0, "raise"), (1, "raise"), (-1, "raise"), (0, "capture")])
def test_a_task_does_not_count_the_bad_records_of_a_batch(most: int, errors: str) -> None:
    given = {**BROKERS, "format": "json", "scan.startup.mode": "earliest-offset", "errors": errors}
    options = parse(given | {"ingestion.ignore-errors": "true", "ingestion.error-tolerance.max-count": str(most)})
    kv = table_of(options, spark_schema(row_type(resolve_schema("id INT"))))
    if most < 0 or errors == "capture":
        stage_of(kv, options)
        return
    with pytest.raises(OptionError, match="a task of the data source knows only its own"):
        stage_of(kv, options)


@pytest.mark.parametrize("rows", ["", WIRE, RECORDS, RANGES])
@pytest.mark.parametrize(("fails", "skips"), [("", False), ("true", False), ("false", True)])
def test_lost_records_are_skipped_only_without_fail_on_data_loss(rows: str, fails: str, skips: bool) -> None:
    given = {**BROKERS, "format": "json", "scan.startup.mode": "earliest-offset", rows: "true", "failondataloss": fails}
    options = parse({name: text for name, text in given.items() if name and text})
    schema = record_schema() if rows == RECORDS else spark_schema(row_type(resolve_schema("id INT")))
    found: Any = rows_of(table_of(options, schema), options, schema)
    assert (found if rows == RANGES else found.records).skips_lost == skips


def test_an_error_says_which_record_of_the_task_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the number of records, of which one may have several rows, in all batches of the task."""
    update = b'{"op":"u","before":{"v":"AA=="},"after":{"v":"AQ=="}}'

    def read_range(_: Any, at: Any, fields: tuple[str, ...], on_loss: Any) -> list[pa.RecordBatch]:
        schema = pa.schema([KAFKA_FIELDS.field(name) for name in fields])
        batches = [[update, update], [update, b"{"]]
        return [pa.RecordBatch.from_pylist([{"value": value} for value in batch], schema) for batch in batches]

    monkeypatch.setattr(range_records, "read_range", read_range)
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: SimpleNamespace(partitionId=lambda: 7))
    kv = table(Admin({"t": {0: 0}}, {"t": {0: 4}}), monkeypatch, {"format": "debezium-json"})
    source = KvformatDataSource({"ddl": kv.ddl, "time_zone": "UTC"})
    reader = source.reader(source.schema())
    (task,) = reader.partitions()
    for read in (lambda: list(reader.read(task)), KafkaTable.from_ddl(kv.ddl).read_arrow().read_all):
        with pytest.raises(DecodeError, match=r"The record: number 4 of Spark's partition 7, "):
            read()


# --- tasks and limits -------------------------------------------------------------------------------------------------

PARTITIONS = [PartitionRange("t", 0, 0, 10), PartitionRange("t", 1, 5, 6), PartitionRange("t", 2, 100, 190)]


@pytest.mark.parametrize(
    ("values", "most_tasks", "sizes"),
    [
        ({}, None, [[10], [1], [90]]),
        ({}, 2, [[10], [1, 90]]),
        ({}, 1, [[10, 1, 90]]),
        ({}, 9, [[10], [1], [90]]),
        ({"minPartitions": 3}, None, [[10], [1], [90]]),
        ({"minPartitions": 10}, None, [[10], [1], *[[10]] * 9]),
        ({"maxRecordsPerPartition": 45}, None, [[10], [1], [45], [45]]),
        ({"maxRecordsPerPartition": 7}, None, [[5], [5], [1], *[[n] for n in (6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7)]]),
    ],
)
def test_ranges_become_tasks(values: dict[str, int], most_tasks: int | None, sizes: list[list[int]]) -> None:
    every = {"minPartitions": None, "maxRecordsPerPartition": None, **values}
    tasks = list(tasks_of(PARTITIONS, every, most_tasks))
    found = [[one.count for one in task.ranges] for task in tasks]
    assert sorted(map(sorted, found)) == sorted(map(sorted, sizes))
    assert sum(one.count for task in tasks for one in task.ranges) == 101
    assert {task.tasks for task in tasks} == {len(tasks)}  # so that each knows its share of a bound
    at = {(one.topic, one.partition): set[int]() for one in PARTITIONS}
    for task in tasks:
        for one in task.ranges:
            at[one.topic, one.partition] |= set(range(one.start, one.end))
    assert at == {(one.topic, one.partition): set(range(one.start, one.end)) for one in PARTITIONS}


def test_no_ranges_are_one_empty_task() -> None:
    (task,) = tasks_of([], {"minPartitions": None, "maxRecordsPerPartition": None}, None)
    assert task.ranges == ()


@pytest.mark.parametrize("skips", [False, True])
def test_ranges_that_are_rows_say_whether_lost_records_are_skipped(
    skips: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(range_records, "read_range", lambda _, at, __, on_loss: asked.append((at, on_loss)) or ())
    ranges = [PartitionRange("t", 0, 1, 5), PartitionRange("u", 3, 2, 4)]
    settings: Any = None
    rows = range_rows(ranges, skips_lost=skips, tasks=1)
    assert list(RangeRecords(settings, (), not skips).read_rows(rows, ("value",))) == []
    assert [at for at, _ in asked] == ranges
    assert [on_loss is not None for _, on_loss in asked] == [skips, skips]


def test_a_header_filter_reads_headers_and_gives_no_empty_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    schema = pa.schema([KAFKA_FIELDS.field(name) for name in ("value", "headers")])
    entries = [[[("a", b"1")], None], [[("a", b"2")]], [[("b", b"1"), ("a", b"1")]]]

    def read_range(_: Any, at: Any, fields: Any, on_loss: Any) -> list[pa.RecordBatch]:
        asked.append(fields)
        rows = [[{"value": b"%d" % n, "headers": headers} for headers in one] for n, one in enumerate(entries)]
        return [pa.RecordBatch.from_pylist(one, schema) for one in rows]

    monkeypatch.setattr(range_records, "read_range", read_range)
    given = {**BROKERS, "format": "raw", "scan.startup.mode": "earliest-offset"}
    for options, values in (({"scan.header-filter": "a:1"}, [[b"0"], [b"2"]]), ({}, [[b"0", b"0"], [b"1"], [b"2"]])):
        kv = KeyValueFormat("v BYTES", {"connector": "kafka", **given, **options}).planned()
        for fields in (("value",), ("value", "headers")):
            found = RangeRecords.of(kv).read([PartitionRange("t", 0, 0, 4)], fields)
            assert [batch.column("value").to_pylist() for batch in found] == values
    assert asked == [("value", "headers"), ("value", "headers"), ("value",), ("value", "headers")]


def test_a_stream_of_ranges_counts_the_offsets_that_it_has_read() -> None:
    """A new partition counts from its first offset; another stream does not count."""
    stream = object.__new__(KafkaStreamReader)
    stream._counts = True
    at = [TopicOffsets({("t", 0): 5}), TopicOffsets({("t", 0): 9}), TopicOffsets({("t", 0): 9, ("t", 1): 3})]
    first = stream._json(at[0])
    second = stream._json(at[1], first)
    assert [offsets["$ranges"] for offsets in (first, second, stream._json(at[2], second))] == [0, 4, 7]
    stream._counts = False
    assert "$ranges" not in stream._json(at[1], second)


def _reader(last: dict[int, int], monkeypatch: pytest.MonkeyPatch, mode: str, **committed: Any) -> Any:
    """Return the reader of a stream, whose topic `t` has the offsets 0 to `last`, which may change."""
    kv = table(Admin({"t": {0: 0}}, {"t": last}, **committed), monkeypatch, {"scan.startup.mode": mode})
    source = KvformatDataSource({"ddl": kv.ddl})
    return source.streamReader(source.schema())


def _ranges(tasks: list[Any]) -> list[tuple[int, int, int]]:
    return [(at.partition, at.start, at.end) for task in tasks for at in task.ranges]


@pytest.mark.parametrize("mode", ["latest-offset", "group-offsets"])
def test_the_first_batch_starts_where_its_end_says(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Spark asks for the start before each plan of the batch, also after a restart; records arrive in between."""
    last, committed = {0: 10}, {0: 10}

    def reader() -> Any:
        return _reader(last, monkeypatch, mode, committed={"t": committed})

    from pyspark.sql.streaming.datasource import ReadAllAvailable  # the tests of Spark with 4.1 import this module too

    stream = reader()
    start = stream.initialOffset()
    last[0], committed[0] = 15, 12
    end = json.loads(json.dumps(stream.latestOffset(start, ReadAllAvailable())))
    last[0], committed[0] = 20, 17
    assert stream.initialOffset() == start
    assert _ranges(stream.partitions(start, end)) == [(0, 10, 15)]
    restarted = reader()
    assert _ranges(restarted.partitions(restarted.initialOffset(), end)) == [(0, 10, 15)]
    following = restarted.latestOffset(end, ReadAllAvailable())
    assert _ranges(restarted.partitions(end, following)) == [(0, 15, 20)]


def test_no_newer_records_are_no_newer_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise Spark runs an empty batch."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    stream = _reader({0: 10}, monkeypatch, "latest-offset")
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert stream.latestOffset(end, ReadAllAvailable()) == end


def test_a_limit_is_shared_and_reaches_the_end() -> None:
    latest = TopicOffsets({("t", 0): 1000, ("t", 1): 10, ("t", 2): 7}, {"t": "x"})
    at = TopicOffsets({("t", 0): 0, ("t", 1): 0, ("t", 2): 7}, {"t": "x"})
    first = limited(at, latest, 100)
    assert dict(first.offsets) == {("t", 0): 99, ("t", 1): 1, ("t", 2): 7}, "each partition gets one at least"
    steps = 0
    while at != latest:
        at, steps = limited(at, latest, 100), steps + 1
    assert steps == 11
    again = TopicOffsets(latest.offsets, {"t": "y"})
    assert limited(latest, again, 100).offsets["t", 0] < 100, "the records of another topic are all new"


def test_available_now_ends_where_it_began() -> None:
    start = TopicOffsets({("t", 0): 5, ("t", 1): 30})
    latest = TopicOffsets({("t", 0): 50, ("t", 1): 30, ("t", 2): 9})
    until = TopicOffsets({("t", 0): 40, ("t", 1): 20})
    assert dict(up_to(start, latest, until).offsets) == {("t", 0): 40, ("t", 1): 30}
    added = replace(start, offsets={**start.offsets, ("t", 2): 4})  # by a query that ran after `until` was asked for
    assert dict(up_to(added, latest, until).offsets) == {("t", 0): 40, ("t", 1): 30, ("t", 2): 4}
    again = replace(start, topic_ids={"t": "old"}), replace(latest, topic_ids={"t": "new"})
    assert dict(up_to(*again, until).offsets) == {("t", 0): 40, ("t", 1): 20}, "nothing of another topic was read"


# --- filters ----------------------------------------------------------------------------------------------------------

KEYS = {"p": "partition", "o": "offset", "t": "timestamp", "topic": "topic"}
SECOND = dt.datetime(1970, 1, 1, 0, 0, 1, 500, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("p",), 2)], [(2, 100, 190)]),
        ([In(("p",), (0, 1)), GreaterThan(("p",), 0)], [(1, 5, 6)]),
        ([EqualTo(("topic",), "u")], []),
        ([GreaterThanOrEqual(("o",), 6)], [(0, 6, 10), (2, 100, 190)]),
        ([GreaterThan(("o",), 5), LessThan(("o",), 101)], [(0, 6, 10), (2, 100, 101)]),
        ([LessThanOrEqual(("o",), 5)], [(0, 0, 6), (1, 5, 6)]),
        ([EqualTo(("o",), 150)], [(2, 150, 151)]),
        ([In(("o",), (3, None, 120))], [(0, 3, 10), (1, 5, 6), (2, 100, 121)]),
        ([In(("o",), (None,))], []),
        ([GreaterThanOrEqual(("t",), SECOND)], [(0, 7, 10), (1, 5, 6), (2, 100, 190)]),
        ([EqualTo(("t",), SECOND)], [(0, 7, 10), (1, 5, 6), (2, 100, 190)]),
        # These conditions say nothing about the place of a record, or may be true for any.
        ([GreaterThanOrEqual(("t",), SECOND.replace(year=1969))], [(0, 0, 10), (1, 5, 6), (2, 100, 190)]),
        ([LessThan(("t",), SECOND)], [(0, 0, 10), (1, 5, 6), (2, 100, 190)]),
        ([GreaterThanOrEqual(("t",), dt.datetime(2026, 1, 1))], [(0, 0, 10), (1, 5, 6), (2, 100, 190)]),
        ([Not(EqualTo(("p",), 2)), IsNotNull(("p",))], [(0, 0, 10), (1, 5, 6), (2, 100, 190)]),
        ([EqualTo(("x",), 2), EqualTo(("p", "o"), 2)], [(0, 0, 10), (1, 5, 6), (2, 100, 190)]),
    ],
)
def test_filters_narrow_ranges(filters: list[Any], expected: list[tuple[int, int, int]]) -> None:
    asked = []

    def first_at(millis: int) -> dict[tuple[str, int], int]:
        asked.append(millis)
        return {("t", 0): 7, ("t", 1): 2}

    found = narrowed(PARTITIONS, filters, KEYS, first_at)
    assert [(one.partition, one.start, one.end) for one in found] == expected
    assert asked in ([], [1000])


def test_only_columns_with_the_key_s_values_count() -> None:
    given = FlinkType("BIGINT")
    columns = [
        MetadataColumn("a", "offset", given, given),
        MetadataColumn("b", "offset", given, FlinkType("INT")),
        MetadataColumn("c", "timestamp", FlinkType("TIMESTAMP_LTZ", precision=3), FlinkType("TIMESTAMP", precision=3)),
        MetadataColumn("d", "headers", given, given),
    ]
    assert keys_of(columns) == {"a": "offset"}


def test_headers_are_filtered_as_by_spark() -> None:
    headers: list[list[tuple[str, bytes | None]] | None] = [
        [("depart", b"toy"), ("env", b"test")],
        [("depart", b"book")],
        [("depart", b"x"), ("depart", b"toy")],
        [("depart", None)],
        [],
        None,
    ]
    entries = [None if one is None else [{"key": k, "value": v} for k, v in one] for one in headers]
    array = pa.array(entries, HEADERS_TYPE)
    cases = {
        "depart:toy": [True, False, True, False, False, False],
        "!depart:toy": [False, True, False, True, True, True],
        "depart:toy|depart:book&!env:test": [False, True, True, False, False, False],
        "depart:": [False] * 6,
    }
    for text, expected in cases.items():
        assert header_filter.mask(header_filter.parse(text), array).to_pylist() == expected, text
        assert header_filter.mask(header_filter.parse(text), array[1:5]).to_pylist() == expected[1:5], "a slice"
    assert len(cases) == 4


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "names", "kept"),
    [
        ("json", ["b"], ["k", "b"]),
        ("json", ["m"], ["k", "a", "b", "m"]),  # the value keeps its columns, rather than none
        ("json", ["c"], ["k", "a", "b", "m", "c"]),
        ("csv", ["b"], ["k", "a", "b"]),
    ],
)
def test_a_table_of_some_columns_keeps_what_it_needs(format: str, names: list[str], kept: list[str]) -> None:
    kv = KeyValueFormat.from_ddl(
        "CREATE TABLE t (k INT, a INT, b INT, m INT METADATA FROM 'partition' VIRTUAL, c AS a + 1) WITH ('connector' = "
        "'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:1', 'scan.startup.mode' = 'earliest-offset', "
        f"'key.format' = 'csv', 'key.fields' = 'k', 'value.format' = '{format}', 'value.fields-include' = 'EXCEPT_KEY')"
    )
    assert [column.name for column in kv.only(names).columns] == kept


@pytest.mark.parametrize(
    ("columns", "kept"), [("v", ["v"]), ("p;id", ["id", "p"]), ("v;o", ["v"]), (None, ["id", "v", "p"])]
)
@pytest.mark.parametrize("format", ["json", "canal-json"])
def test_a_choice_of_columns_keeps_those_that_reading_adds(format: str, columns: str | None, kept: list[str]) -> None:
    ddl = (
        "CREATE TABLE t (id INT, v STRING, p INT METADATA FROM 'partition' VIRTUAL) WITH ('connector' = 'kafka', "
        "'topic' = 't', 'properties.bootstrap.servers' = 'b:1', 'scan.startup.mode' = 'earliest-offset', "
        f"'format' = '{format}')"
    )
    given = {"ddl": ddl, "errors": "capture", "row_index": "true", "metadata": '{"o": "offset"}'}
    schema = KvformatDataSource(given if columns is None else {**given, "columns": columns}).schema()
    kinds = ["row_kind"] if format == "canal-json" else []
    assert schema.names == [*kept, "o", *kinds, "row_index", "error"]
