"""Writing with Spark's sink to a real broker: partitions, order, the buffer of upsert tables, early errors."""

from __future__ import annotations

import collections
import json
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable
from kvformat.registry import ConfigurationError, KafkaSinkWarning
from kvformat.registry.contract.errors import BrokerError, SchemaError
from tests.connectors.tables import upsert

pytestmark = [pytest.mark.spark, pytest.mark.services]


def keyless(broker: Any, topic: str, **options: Any) -> KafkaTable:
    given = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": broker.bootstrap,
        "scan.startup.mode": "earliest-offset",
        "format": "json",
    }
    return KafkaTable("id INT, n BIGINT", given | options)


def is_connect(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def counts(broker: Any, topic: str) -> dict[int, int]:
    """Return the number of records in each partition."""
    return dict(collections.Counter(message.partition() for message in broker.records(topic)))


def by_key(broker: Any, topic: str) -> dict[int, list[int | None]]:
    """Return the numbers of each key in partition order, None for a tombstone. Each key is in one partition."""
    found: dict[int, list[int | None]] = {}
    partitions: dict[int, set[int]] = {}
    for message in broker.records(topic):
        key = json.loads(message.key())["id"]
        found.setdefault(key, []).append(None if message.value() is None else json.loads(message.value())["n"])
        partitions.setdefault(key, set()).add(message.partition())
    assert all(len(places) == 1 for places in partitions.values())
    return found


@pytest.mark.once
def test_default_partitioner_is_that_of_the_kafka_client(spark: Any, broker: Any) -> None:
    table = upsert(broker.bootstrap, broker.create("default-partitioner", 7))
    table.write(spark.range(200).selectExpr("CAST(id AS INT) id", "id AS n"))
    broker.send(broker.create("murmur2", 7), [(b'{"id":%d}' % n, b"{}") for n in range(200)])
    placed = [{m.key(): m.partition() for m in broker.records(topic)} for topic in ("default-partitioner", "murmur2")]
    assert placed[0] == placed[1]
    assert len(set(placed[0].values())) == 7


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_copy_has_the_same_bytes(spark: Any, broker: Any, guarantee: str) -> None:
    topic = broker.create(f"raw-source-{guarantee}", 3)
    records = [(b"k%d\xff" % n if n % 3 else None, b"v%d\xff" % n if n % 5 else None) for n in range(60)]
    broker.send(topic, records, headers=[("h", b"\xff")])
    columns = "v BYTES, k BYTES METADATA FROM '__raw_key__', h MAP<STRING, BYTES> METADATA FROM 'headers'"
    source = KafkaTable.from_ddl(
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'raw', "
        f"'properties.bootstrap.servers' = '{broker.bootstrap}', 'scan.startup.mode' = 'earliest-offset', "
        f"'sink.delivery-guarantee' = '{guarantee}', 'sink.transactional-id-prefix' = '{topic}')",
        options={} if guarantee == "exactly-once" else {"sink.transactional-id-prefix": None},
    )
    copy = source.with_options({"topic": broker.create(f"raw-copy-{guarantee}", 3)})
    copy.write(source.read(spark))
    found = broker.records(f"raw-copy-{guarantee}")
    assert sorted((m.key() or b"", m.value() or b"") for m in found) == sorted((k or b"", v or b"") for k, v in records)
    assert {(m.key() is None, m.value() is None) for m in found} == {
        (a, b) for a in (True, False) for b in (True, False)
    }
    assert all(m.headers() == [("h", b"\xff")] for m in found)
    placed = [{m.key(): m.partition() for m in broker.records(name) if m.key()} for name in (topic, found[0].topic())]
    assert placed[0] == placed[1]


@pytest.mark.once
def test_fixed_sends_each_task_to_a_partition(spark: Any, broker: Any) -> None:
    table = keyless(broker, broker.create("fixed", 3), **{"sink.partitioner": "fixed"})
    rows = spark.range(0, 100, 1, 4).selectExpr("CAST(id AS INT) id", "spark_partition_id() AS n")
    table.write(rows)
    assert counts(broker, "fixed") == {0: 50, 1: 25, 2: 25}  # 4 tasks, 0 and 3 to partition 0
    for message in broker.records("fixed"):
        assert json.loads(message.value())["n"] % 3 == message.partition()


@pytest.mark.once
def test_fixed_knows_the_partitions_of_each_topic(spark: Any, broker: Any) -> None:
    topics = [broker.create("fixed-one", 1), broker.create("fixed-two", 2), broker.create("fixed-not-ours", 5)]
    asked = {"sink.partitioner": "fixed", "topic-pattern": "fixed-(one|two)", "topic": None}
    table = keyless(broker, topics[0]).with_options(asked)
    rows = spark.range(0, 40, 1, 4).selectExpr(
        "CAST(id AS INT) id", "id AS n", "if(id % 2 = 0, 'fixed-one', 'fixed-two') AS place"
    )
    table.write(rows, metadata={"place": "topic"})
    assert (counts(broker, "fixed-one"), counts(broker, "fixed-two")) == ({0: 20}, {0: 10, 1: 10})


def test_parallelism_keeps_the_changes_of_a_key_in_order(spark: Any, broker: Any, tmp_path: Path) -> None:
    source = upsert(broker.bootstrap, broker.create("parallel-source", 4))
    records = [(b'{"id":%d}' % (n % 50), b'{"n":%d}' % n) for n in range(5000)]
    broker.send("parallel-source", records)
    target = upsert(broker.bootstrap, broker.create("parallel-target", 3), **{"sink.parallelism": 3})
    query = target.write_stream(
        source.read_stream(spark), checkpoint_location=str(tmp_path), trigger={"availableNow": True}
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    assert by_key(broker, "parallel-target") == {key: list(range(key, 5000, 50)) for key in range(50)}


def test_parallelism_is_the_number_of_tasks(spark: Any, broker: Any) -> None:
    rows = spark.range(0, 400, 1, 8).selectExpr("CAST(id AS INT) id", "id AS n")
    for table, wanted in (
        (upsert(broker.bootstrap, broker.create("tasks-of-keys", 1), **{"sink.parallelism": 5}), 5),
        (keyless(broker, broker.create("tasks", 1), **{"sink.parallelism": 3}), 3),
    ):
        tasks = table.sink_records(rows).selectExpr("spark_partition_id() AS task").distinct()
        assert tasks.count() == wanted


def test_buffer_of_an_upsert_table_keeps_the_last_row_of_a_key(spark: Any, broker: Any, tmp_path: Path) -> None:
    buffer = {"sink.buffer-flush.max-rows": 100, "sink.buffer-flush.interval": "1 s"}
    table = upsert(broker.bootstrap, broker.create("buffered", 1), **buffer)
    rows = spark.range(0, 1000, 1, 1).selectExpr(
        "CAST(id % 10 AS INT) id", "id AS n", "if(id % 10 = 3, '-D', '+U') AS row_kind"
    )
    table.write(rows)
    wanted = {key: [n if key != 3 else None for n in range(90 + key, 1000, 100)] for key in range(10)}
    assert by_key(broker, "buffered") == wanted  # ten buffers of ten keys

    broker.send(broker.create("to-buffer", 1), [(b'{"id":%d}' % (n % 3), b'{"n":%d}' % n) for n in range(90)])
    target = table.with_options({"topic": broker.create("buffered-stream", 1)})
    stream = table.with_options({"topic": "to-buffer"}).read_stream(spark)
    query = target.write_stream(stream, checkpoint_location=str(tmp_path), trigger={"availableNow": True})
    assert query.awaitTermination(120)
    assert by_key(broker, "buffered-stream") == {0: [87], 1: [88], 2: [89]}


def test_an_aggregate_is_written_as_it_changes(spark: Any, broker: Any, tmp_path: Path) -> None:
    broker.send(broker.create("to-count", 1), [(None, b'{"id":%d}' % (n % 3)) for n in range(30)])
    counted = keyless(broker, "to-count").read_stream(spark).groupBy("id").count().withColumnRenamed("count", "n")
    table = upsert(broker.bootstrap, broker.create("counted", 1))
    query = table.write_stream(
        counted, checkpoint_location=str(tmp_path), trigger={"availableNow": True}, output_mode="update"
    )
    assert query.awaitTermination(120)
    assert by_key(broker, "counted") == {0: [10], 1: [10], 2: [10]}


@pytest.mark.once
def test_headers_are_written_and_timestamps_give_a_warning(spark: Any, broker: Any) -> None:
    table = KafkaTable.from_ddl(
        f"""CREATE TABLE t (id INT, h MAP<STRING, BYTES> METADATA FROM 'headers', ts TIMESTAMP_LTZ(3) METADATA FROM
        'timestamp') WITH ('connector' = 'kafka', 'topic' = '{broker.create("written-headers")}', 'format' = 'json',
        'properties.bootstrap.servers' = '{broker.bootstrap}', 'scan.startup.mode' = 'earliest-offset')"""
    )
    rows = spark.sql("SELECT 1 AS id, map('a', X'00ff') AS h, TIMESTAMP'2001-01-01' AS ts")
    with pytest.warns(KafkaSinkWarning, match="metadata 'timestamp'"):
        table.write(rows)
    (message,) = broker.records("written-headers")
    assert message.headers() == [("a", b"\x00\xff")]
    assert abs(message.timestamp()[1] / 1000 - time.time()) < 3600


@pytest.mark.slow  # waits for brokers that do not answer
def test_missing_topics_are_reported_before_a_job_writes(spark: Any, broker: Any, tmp_path: Path) -> None:
    broker.create("orders-target")
    table = keyless(broker, "orders-targt")
    rows = spark.range(1).selectExpr("CAST(id AS INT) id", "id AS n")
    fixed = table.with_options({"sink.partitioner": "fixed"})
    for one in (table, fixed):
        with pytest.raises(ConfigurationError, match=r"no topic 'orders-targt'.*Did you mean 'orders-target'\?"):
            one.write(rows)
    stream = spark.readStream.format("rate").load().selectExpr("CAST(value AS INT) id", "value AS n")
    with pytest.raises(ConfigurationError, match="no topic 'orders-targt'"):
        table.write_stream(stream, checkpoint_location=str(tmp_path))
    if not is_connect(spark):  # its client may not reach the brokers
        with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1"):
            table.with_options({"properties.bootstrap.servers": "127.0.0.1:1"}).write(rows)


def test_rows_of_several_topics_are_refused_without_the_topic(spark: Any, broker: Any) -> None:
    table = keyless(broker, "a;b")
    rows = spark.range(1).selectExpr("CAST(id AS INT) id", "id AS n")
    with pytest.raises(ConfigurationError, match="no metadata column names the topic"):
        table.write(rows)


def test_error_for_aggregates_names_the_output_mode(spark: Any, broker: Any, tmp_path: Path) -> None:
    counted = keyless(broker, broker.create("to-count-again", 1)).read_stream(spark).groupBy("id").count()
    rows = counted.withColumnRenamed("count", "n")
    table = upsert(broker.bootstrap, broker.create("counted-again", 1))
    with pytest.raises(ConfigurationError, match=r"no output_mode is given.*Output_mode='update' writes each group"):
        table.write_stream(rows, checkpoint_location=str(tmp_path / "a"))
    inserts = keyless(broker, "counted-again")
    with pytest.raises(ConfigurationError, match=r"it is 'append'.*withWatermark"):
        inserts.write_stream(rows, checkpoint_location=str(tmp_path / "b"), output_mode="append")


def test_columns_that_are_not_written_are_named(spark: Any, broker: Any, tmp_path: Path) -> None:
    table = keyless(broker, broker.create("extra-columns", 1))
    rows = spark.sql("SELECT 1 AS id, 2L AS n, 'x' AS nmae, 3 AS `b c`")
    words = "the DataFrame has 2 columns that the table does not have and that are not written: b c, nmae"
    with pytest.warns(KafkaSinkWarning, match=f"table 'table': {words}") as told:
        table.write(rows)
    assert told[0].filename == __file__
    with pytest.raises(SchemaError, match=r"b c, nmae.* Add them to the table, or drop") as raised:
        table.write(rows, extra_columns="error")
    assert raised.value.field == "nmae"
    with pytest.raises(ConfigurationError, match="'warn', 'error' or 'ignore', not 'fail'"):
        table.write(rows, extra_columns="fail")
    with warnings.catch_warnings():
        warnings.simplefilter("error", KafkaSinkWarning)
        table.write(rows, extra_columns="ignore")
        table.write(rows.drop("nmae", "b c"), extra_columns="error")
    stream = table.read_stream(spark).selectExpr("id", "n", "id AS more")
    with pytest.raises(SchemaError, match="1 column that the table does not have and that is not written: more"):
        table.write_stream(stream, checkpoint_location=str(tmp_path / "a"), extra_columns="error")
    target = keyless(broker, broker.create("extra-columns-target", 1))
    with pytest.warns(KafkaSinkWarning, match="not written: more"):
        query = target.write_stream(stream, checkpoint_location=str(tmp_path), trigger={"availableNow": True})
    assert query.awaitTermination(120)
    assert len(broker.records("extra-columns-target")) == 3


def test_columns_added_by_reading_are_not_extra(spark: Any, broker: Any, tmp_path: Path) -> None:
    ddl = """CREATE TABLE t (id INT, place BIGINT METADATA FROM 'offset' VIRTUAL, twice AS id * 2) WITH (
        'connector' = 'kafka', 'topic' = '{}', 'properties.bootstrap.servers' = '{}', 'format' = 'json',
        'scan.startup.mode' = 'earliest-offset')"""
    table = KafkaTable.from_ddl(ddl.format(broker.create("nothing-extra", 1), broker.bootstrap))
    broker.send("nothing-extra", [(None, b'{"id":1}'), (None, b"{")])
    rows = table.read(spark, errors="capture", row_index=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", KafkaSinkWarning)
        table.write(rows, dead_letters=tmp_path / "dead", extra_columns="error")
        headed = spark.sql("SELECT 2 AS id, map('a', X'00') AS h")
        table.write(headed, metadata={"h": "headers"}, extra_columns="error")
        changes = spark.sql("SELECT 3 AS id, 4L AS n, '+U' AS row_kind")
        upsert(broker.bootstrap, "nothing-extra").write(changes, extra_columns="error")
    assert len(broker.records("nothing-extra")) == 5


@pytest.mark.parametrize("given", ["'a=b'", "array('a')", "map(1, X'00')", "array(named_struct('key', 'a'))"])
def test_headers_of_another_type_are_refused_by_name(spark: Any, broker: Any, given: str) -> None:
    table = keyless(broker, "x")
    rows = spark.sql(f"SELECT 1 AS id, 2L AS n, {given} AS h")
    for key, kind in (("headers", "MAP<STRING,BINARY>"), ("header-list", "ARRAY<STRUCT<KEY:STRING,VALUE:BINARY>>")):
        words = f"column 'h' is written as metadata '{key}' and must be {kind}, not "
        with pytest.raises(SchemaError, match=words) as raised:
            table.sink_records(rows, metadata={"h": key})
        assert raised.value.field == "h"
    records = spark.sql(f"SELECT X'01' AS key, X'02' AS value, {given} AS headers")
    for key in ("headers", "header-list"):
        with pytest.raises(SchemaError, match="'headers', which must be ARRAY<STRUCT<key: STRING, value: BINARY>>"):
            table.kv.decode(records, metadata={"h": key})
