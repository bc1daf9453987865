"""Exactly-once tables in Spark on a real broker: repeated batches and jobs, partitions, metadata, errors."""

from __future__ import annotations

import json
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.connectors import KafkaTable, exactly_once, sink, transaction_client
from kvformat.connectors.transaction_client import KafkaBrokers, TransactionSettings
from kvformat.connectors.transactions import Fenced, Mark, QueryNames, take_over
from kvformat.registry import BrokerError, ConfigurationError, DeliveryError, KafkaSinkWarning, OptionError
from tests.connectors.tables import upsert
from tests.support import services

pytestmark = [pytest.mark.spark, pytest.mark.services]

ONCE = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "tests"}


def is_connect(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def raw(broker: Any, topic: str, columns: str = "k BYTES, v BYTES", **options: Any) -> KafkaTable:
    """Return a table whose key and value are any bytes."""
    given = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": broker.bootstrap,
        "scan.startup.mode": "earliest-offset",
        "value.format": "raw",
        **({"key.format": "raw", "key.fields": "k", "value.fields-include": "EXCEPT_KEY"} if "k " in columns else {}),
    }
    return KafkaTable(columns, given | ONCE | options)


def numbers(spark: Any, count: int) -> Any:
    return spark.range(count).selectExpr("CAST(id AS INT) id", "id AS n")


def ids(broker: Any, topic: str, **more: Any) -> list[int]:
    return [json.loads(message.key())["id"] for message in broker.records(topic, **more)]


def run(table: KafkaTable, stream: Any, checkpoint: Path, **more: Any) -> Any:
    """Run a stream to the current end of its source."""
    query = table.write_stream(stream, checkpoint_location=str(checkpoint), trigger={"availableNow": True}, **more)
    assert query.awaitTermination(120)
    return query


# --- jobs --------------------------------------------------------------------------------------------------


def test_a_job_is_written_once_for_each_id(spark: Any, broker: Any) -> None:
    table = upsert(broker.bootstrap, broker.create("once-jobs", 3), **ONCE)
    table.write(numbers(spark, 100), job_id="2026-11-25")
    table.write(numbers(spark, 100), job_id="2026-11-25")
    assert sorted(ids(broker, "once-jobs")) == list(range(100))
    with pytest.raises(DeliveryError, match=r"'tests-job-2026-11-25' can't be repeated.*90 rows.*had 100"):
        table.write(numbers(spark, 90), job_id="2026-11-25")
    table.write(numbers(spark, 10), job_id="2026-11-26")
    table.write(numbers(spark, 10))
    table.write(numbers(spark, 10))
    assert len(ids(broker, "once-jobs")) == 130
    with pytest.raises(ConfigurationError, match="job_id must be a text of letters"):
        table.write(numbers(spark, 1), job_id="a/b")
    with pytest.raises(ConfigurationError, match=r"job_id needs 'sink.delivery-guarantee' = 'exactly-once'"):
        table.with_options({"sink.delivery-guarantee": "at-least-once"}).write(numbers(spark, 1), job_id="a")


def test_a_job_that_failed_goes_on_where_it_stopped(spark: Any, broker: Any) -> None:
    """A record is too large for the topic, so one task fails, and the other tasks are committed."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    topic = broker.create("once-parts", 3, max_message_bytes="2000")
    table = raw(broker, topic, **{"sink.parallelism": 5})
    small = spark.range(1000).selectExpr("CAST(CAST(id AS STRING) AS BINARY) k", "X'00' v")
    tasks = exactly_once._parted(small.withColumnsRenamed({"k": "key", "v": "value"}), 5).selectExpr(
        "CAST(key AS STRING) k", "spark_partition_id() task"
    )
    large = tasks.where("task = 4").first()["k"]  # this task begins after most of the others have ended
    rows = small.selectExpr("k", f"IF(CAST(k AS STRING) = '{large}', CAST(repeat('v', 5000) AS BINARY), v) v")
    with pytest.raises(Exception, match=rf"topic 'once-parts', a part.*, key b'{large}': MSG_SIZE_TOO_LARGE") as error:
        table.write(rows, job_id="parts")
    assert "nothing of it is visible" in str(error.value)
    before = [message.key() for message in broker.records(topic)]
    assert 0 < len(before) < 1000
    larger = ConfigEntry("max.message.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
    admin = broker.admin()  # its futures must finish before it is closed
    asked = admin.incremental_alter_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[larger])]
    )
    next(iter(asked.values())).result(30)
    with pytest.raises(DeliveryError, match=r"can't be repeated: \d of its 5 tasks were written before"):
        table.write(rows.where("CAST(k AS STRING) <> '500'").union(rows.limit(1)), job_id="parts")
    assert [message.key() for message in broker.records(topic)] == before
    table.with_options({"sink.parallelism": "2"}).write(rows, job_id="parts")
    assert sorted(int(message.key()) for message in broker.records(topic)) == list(range(1000))


def test_aborted_records_are_in_the_log_but_not_visible(spark: Any, broker: Any) -> None:
    topic = broker.create("once-aborted", 1)
    table = upsert(broker.bootstrap, topic, **ONCE, **{"sink.parallelism": 1})
    rows = numbers(spark, 50_000).selectExpr("id", "IF(id = 49999, raise_error('broken'), n) AS n")
    with pytest.raises(Exception, match="broken"):
        table.write(rows)
    settings = TransactionSettings.of(table.kv.options, [topic], "tests")
    transaction = KafkaBrokers(settings).begin("tests-direct-0")
    transaction.write(pa.RecordBatch.from_pydict({"key": [b"k"], "value": [b"v"]}))
    transaction._producer.flush(30)
    transaction.close()
    assert broker.records(topic) == []
    assert [message.key() for message in broker.records(topic, committed_only=False)] == [b"k"]


@pytest.mark.once
def test_marks_wait_for_a_transaction_that_is_being_committed(broker: Any) -> None:
    """Otherwise a mark that is about to appear would count as missing, and its records would be written again."""
    from confluent_kafka import TopicPartition

    topic = broker.create("once-unstable", 1)
    readers = {"properties.isolation.level": "read_uncommitted"}  # the table's readers do not decide for marks
    settings = TransactionSettings.of({"properties.bootstrap.servers": broker.bootstrap} | readers, [topic], "unstable")
    transaction = KafkaBrokers(settings).begin("unstable-0")
    transaction.commit(Mark(3, 1))
    transaction._begin()
    with transaction_client._group(settings, "unstable-0") as consumer:
        offset = TopicPartition(topic, 0, 6, Mark(5, 1).metadata)
        transaction._producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata(), 30)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(KafkaBrokers(settings).marks, ["unstable-0", "unstable-none"])
        time.sleep(2)
        assert not asked.done()
        transaction._producer.commit_transaction(30)
        assert asked.result(30) == {"unstable-0": Mark(5, 1)}
    transaction.close()


@pytest.mark.once
@pytest.mark.parametrize("late", ["write", "commit"])
def test_a_fenced_attempt_is_told_so_and_writes_nothing(broker: Any, late: str) -> None:
    topic = broker.create(f"once-fenced-{late}", 1)
    settings = TransactionSettings.of({"properties.bootstrap.servers": broker.bootstrap}, [topic], "fenced")
    older = KafkaBrokers(settings).begin(f"fenced-{late}-0")
    rows = pa.RecordBatch.from_pydict({"key": [b"k"] * 50, "value": [b"v"] * 50})
    older.write(rows)
    older._producer.flush(30)
    newer = KafkaBrokers(settings).begin(f"fenced-{late}-0")

    def write_until_brokers_have_answered() -> None:
        for _ in range(600):
            older.write(rows)
            time.sleep(0.05)

    told = rf"'fenced-{late}-0' was fenced .*: a newer attempt of this task or a newer driver"
    if late == "write":
        with pytest.raises(Fenced, match=told):
            write_until_brokers_have_answered()
    with pytest.raises(Fenced, match=told):
        older.commit(Mark(0, 1))
    older.close()
    newer.write(rows)
    newer.commit(Mark(0, 1))
    newer.close()
    assert len(broker.records(topic)) == 50
    assert len(broker.records(topic, committed_only=False)) == 100


@pytest.mark.once
def test_a_request_that_librdkafka_never_ends_is_given_up(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`send_offsets_to_transaction` does not keep its timeout while the group's coordinator can't be reached."""
    monkeypatch.setattr(transaction_client, "_LATE", 0.1)
    topic = broker.create("once-stuck", 1)
    options = {"properties.bootstrap.servers": broker.bootstrap}
    short = {"properties.max.block.ms": "500", "properties.delivery.timeout.ms": "500"}
    settings, impatient = (TransactionSettings.of(options | more, [topic], "stuck") for more in ({}, short))
    rows = pa.RecordBatch.from_pydict({"key": [b"k"], "value": [b"v"]})
    ended = threading.Event()

    class Stuck:
        def __init__(self, producer: Any) -> None:
            self._producer = producer

        def __getattr__(self, name: str) -> Any:
            return getattr(self._producer, name)

        def send_offsets_to_transaction(self, *arguments: Any) -> None:
            ended.wait(60)

    transaction = KafkaBrokers(settings).begin("stuck-0")
    transaction._settings, transaction._producer = impatient, Stuck(transaction._producer)
    transaction.write(rows)
    begun = time.monotonic()
    with pytest.raises(BrokerError, match=r"commit a mark of 'stuck-0': _TIMED_OUT: librdkafka does not answer"):
        transaction.commit(Mark(0, 1))
    transaction.close()
    assert time.monotonic() - begun < 30
    for _ in range(2):
        again = KafkaBrokers(settings).begin("stuck-0")
        again.write(rows)
        again.commit(Mark(0, 1))
        again.close()
    ended.set()
    assert len(broker.records(topic)) == 2


# --- streams -----------------------------------------------------------------------------------------------


@pytest.mark.once  # with availableNow, Spark 4.1's Kafka source fails at the progress report of such a batch
def test_a_stream_repeats_no_batch(spark: Any, broker: Any, tmp_path: Path) -> None:
    source = upsert(broker.bootstrap, broker.create("once-source", 4))
    broker.send("once-source", [(b'{"id":%d}' % (n % 50), b'{"n":%d}' % n) for n in range(3000)])
    target = upsert(broker.bootstrap, broker.create("once-target", 3), **ONCE)
    stream = source.read_stream(spark, spark_options={"maxOffsetsPerTrigger": 1000})
    checkpoint = tmp_path / "checkpoint"
    run(target, stream, checkpoint)
    for _ in range(2):
        last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
        (checkpoint / "commits" / str(last)).unlink()  # as if the query had died before it noted the batch
        (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
        run(target.with_options({"sink.parallelism": "7"}), stream, checkpoint)
    broker.send("once-source", [(b'{"id":%d}' % (n % 50), b'{"n":%d}' % n) for n in range(3000, 3500)])
    run(target, stream, checkpoint)
    found: dict[int, list[int]] = {}
    for message in broker.records("once-target"):
        found.setdefault(json.loads(message.key())["id"], []).append(json.loads(message.value())["n"])
    assert found == {key: list(range(key, 3500, 50)) for key in range(50)}
    # A new checkpoint is another query: its batch numbers begin again.
    run(target, stream, tmp_path / "other")
    assert len(broker.records("once-target")) == 7000


@pytest.mark.once
def test_two_queries_with_one_prefix_do_not_disturb_each_other(spark: Any, broker: Any, tmp_path: Path) -> None:
    broker.send(broker.create("once-two", 2), [(b'{"id":%d}' % n, b'{"n":1}') for n in range(100)])
    stream = upsert(broker.bootstrap, "once-two").read_stream(spark)
    target = upsert(broker.bootstrap, broker.create("once-both", 2), **ONCE)
    queries = [
        target.write_stream(stream, checkpoint_location=str(tmp_path / name), trigger={"availableNow": True})
        for name in "ab"
    ]
    for query in queries:
        assert query.awaitTermination(120)
        assert query.exception() is None
    assert sorted(ids(broker, "once-both")) == sorted(2 * list(range(100)))


@pytest.mark.once  # with availableNow, Spark 4.1's Kafka source fails at the progress report of such a batch
def test_an_older_checkpoint_is_refused(spark: Any, broker: Any, tmp_path: Path) -> None:
    broker.send(broker.create("once-older", 1), [(b'{"id":%d}' % n, b'{"n":1}') for n in range(30)])
    stream = upsert(broker.bootstrap, "once-older").read_stream(spark, spark_options={"maxOffsetsPerTrigger": 10})
    target = upsert(broker.bootstrap, broker.create("once-older-target", 1), **ONCE)
    run(target, stream, tmp_path)
    for name in ("offsets/2", "offsets/1", "commits/2", "commits/1"):
        (tmp_path / name).unlink()
        (tmp_path / name).with_name(f".{(tmp_path / name).name}.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match=r"has written batch 2, but its checkpoint goes on with batch 1"):
        run(target, stream, tmp_path)
    assert sorted(ids(broker, "once-older-target")) == list(range(30))


def test_an_aggregate_is_written_once(spark: Any, broker: Any, tmp_path: Path) -> None:
    broker.send(broker.create("once-to-count", 1), [(None, b'{"id":%d}' % (n % 3)) for n in range(30)])
    inserts = KafkaTable(
        "id INT",
        {
            "connector": "kafka",
            "topic": "once-to-count",
            "properties.bootstrap.servers": broker.bootstrap,
            "scan.startup.mode": "earliest-offset",
            "format": "json",
        },
    )
    counted = inserts.read_stream(spark).groupBy("id").count().withColumnRenamed("count", "n")
    table = upsert(broker.bootstrap, broker.create("once-counted", 1), **ONCE)
    run(table, counted, tmp_path, output_mode="update")
    found = {json.loads(m.key())["id"]: json.loads(m.value())["n"] for m in broker.records("once-counted")}
    assert found == {0: 10, 1: 10, 2: 10}


@pytest.mark.once  # with availableNow, Spark 4.1's Kafka source fails at the progress report of such a batch
def test_dead_letters_are_written_once_too(spark: Any, broker: Any, tmp_path: Path) -> None:
    topic = broker.create("once-letters", 2)
    sent = [(b'{"id":%d}' % n, b"no json" if n % 10 == 0 else b'{"n":%d}' % n) for n in range(200)]
    broker.send(topic, sent)
    dead, target = broker.create("once-dead", 2), broker.create("once-good", 2)
    table = upsert(broker.bootstrap, target, **ONCE)
    stream = upsert(broker.bootstrap, topic).read_stream(spark, errors="capture")
    checkpoint = tmp_path / "checkpoint"
    for _ in range(2):
        run(table, stream, checkpoint, dead_letters=dead, extra_columns="ignore")
        (checkpoint / "commits" / "0").unlink()
        (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    assert sorted(ids(broker, target)) == [n for n in range(200) if n % 10]
    letters = broker.records(dead)
    assert sorted(json.loads(message.key())["id"] for message in letters) == list(range(0, 200, 10))
    assert all(message.value() == b"no json" for message in letters)
    assert dict(letters[0].headers())["__kvformat.errors.topic"] == b"once-letters"
    # to a path: the letters are written before the rows, into the folder of their batch
    run(table, stream, tmp_path / "path", dead_letters=tmp_path / "letters", extra_columns="ignore")
    assert spark.read.parquet(str(tmp_path / "letters")).count() == 20


# --- what Spark's sink can't do, and what it does, too -----------------------------------------------------


def test_metadata_is_written_with_the_timestamp(spark: Any, broker: Any) -> None:
    table = KafkaTable.from_ddl(
        f"""CREATE TABLE t (id INT, h ARRAY<ROW<key STRING, `value` BYTES>> METADATA FROM 'header-list',
        ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') WITH ('connector' = 'kafka',
        'topic' = '{broker.create("once-metadata")}', 'format' = 'json', 'properties.bootstrap.servers' =
        '{broker.bootstrap}', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'm')"""
    )
    rows = spark.sql(
        "SELECT 1 AS id, array(named_struct('key', 'a', 'value', X'00ff'), named_struct('key', 'a', 'value', null)) h,"
        " TIMESTAMP'2001-01-01 00:00:00.123456Z' AS ts UNION ALL SELECT 2, null, null"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.write(rows)
    found = {json.loads(message.value())["id"]: message for message in broker.records("once-metadata")}
    assert found[1].timestamp() == (1, 978307200123)
    assert found[1].headers() == [("a", b"\x00\xff"), ("a", None)]
    assert found[2].headers() is None
    assert abs(found[2].timestamp()[1] / 1000 - time.time()) < 3600
    with pytest.raises(Exception, match=r"the timestamp 0 \(milliseconds since 1970\).*at least 1"):
        table.write(spark.sql("SELECT 3 AS id, null AS h, TIMESTAMP'1970-01-01 00:00:00Z' AS ts"))


@pytest.mark.once
def test_partitions_are_those_of_the_java_client(spark: Any, broker: Any) -> None:
    """Keys of many lengths and empty ones. Records without key go to any partition, as with Java's client."""
    count = 100_000
    rows = spark.range(count).selectExpr(
        "CASE WHEN id % 1000 = 7 THEN NULL WHEN id = 0 THEN X'' "
        "ELSE unhex(substr(repeat(hex(xxhash64(id)), 4), 1, CAST(2 * (1 + id % 30) AS INT))) END AS k",
        "CASE WHEN id % 100 = 3 THEN NULL WHEN id % 100 = 4 THEN X'' ELSE CAST(CAST(id AS STRING) AS BINARY) END AS v",
    )
    once = raw(broker, broker.create("once-murmur2", 7))
    once.write(rows)
    java = once.with_options({"topic": broker.create("java-murmur2", 7), "sink.delivery-guarantee": "at-least-once"})
    with pytest.warns(KafkaSinkWarning, match="only 'exactly-once' has transactions"):
        java.write(rows)
    placed = []
    for topic in ("once-murmur2", "java-murmur2"):
        messages = broker.records(topic)
        assert len(messages) == count
        found = [(m.key(), m.value() or b"", m.value() is None, m.partition()) for m in messages if m.key() is not None]
        placed.append(sorted(found))
    assert len(placed[0]) > 0.99 * count - 1000
    assert placed[0] == placed[1]


@pytest.mark.once
def test_fixed_sends_each_task_to_a_partition(spark: Any, broker: Any) -> None:
    table = raw(broker, broker.create("once-fixed", 3), **{"sink.partitioner": "fixed", "sink.parallelism": 4})
    table.write(spark.range(400).selectExpr("CAST(CAST(id % 40 AS STRING) AS BINARY) k", "X'00' v"))
    places: dict[bytes, set[int]] = {}
    for message in broker.records("once-fixed"):
        places.setdefault(message.key(), set()).add(message.partition())
    assert len(places) == 40
    assert all(len(found) == 1 for found in places.values())
    assert set.union(*places.values()) == {0, 1, 2}


@pytest.mark.once
def test_rows_choose_among_several_topics(spark: Any, broker: Any) -> None:
    one, two = broker.create("once-one", 1), broker.create("once-two-more", 2)
    table = raw(broker, f"{one};{two}", "v BYTES")
    rows = spark.range(40).selectExpr("CAST(CAST(id AS STRING) AS BINARY) v", f"IF(id % 4 = 0, '{one}', '{two}') place")
    table.write(rows, metadata={"place": "topic"}, job_id="several")
    table.write(rows, metadata={"place": "topic"}, job_id="several")
    assert (len(broker.records(one)), len(broker.records(two))) == (10, 30)


@pytest.mark.once
def test_records_without_a_key_are_spread_over_the_tasks(spark: Any, broker: Any) -> None:
    table = raw(broker, broker.create("once-keyless", 1), "v BYTES", **{"sink.parallelism": 3})
    rows = spark.range(3000).selectExpr("CAST(CAST(id AS STRING) AS BINARY) v")
    writer = sink.Writer.made(table.kv, None, None)
    parted = exactly_once._parted(writer._encoded(rows), 3)
    sizes = [row["count"] for row in parted.selectExpr("spark_partition_id() task").groupBy("task").count().collect()]
    assert len(sizes) == 3
    assert min(sizes) > 800
    table.write(rows)
    assert sorted(int(message.value()) for message in broker.records("once-keyless")) == list(range(3000))


# --- errors and warnings -----------------------------------------------------------------------------------


@pytest.mark.once
def test_changes_without_a_key_stay_in_order(spark: Any, broker: Any) -> None:
    options = {"connector": "kafka", "topic": broker.create("once-changes"), "sink.parallelism": "3"}
    options |= {"properties.bootstrap.servers": broker.bootstrap, "format": "debezium-json", **ONCE}
    rows = [(n % 7, n // 7, kind) for n in range(700) for kind in ("+I", "-D")]
    changes = spark.createDataFrame(rows, "id INT, n INT, row_kind STRING").coalesce(1)
    KafkaTable("id INT, n INT", options).write(changes)
    found = [json.loads(message.value()) for message in broker.records("once-changes")]
    assert [((value["after"] or value["before"])["n"], value["op"]) for value in found] == [
        (n, "c" if kind == "+I" else "d") for _, n, kind in rows
    ]


def test_varying_values_are_told_before_they_stop_a_query(spark: Any, broker: Any) -> None:
    table = upsert(broker.bootstrap, broker.create("once-varying", 1), **ONCE)

    def rows() -> Any:
        return numbers(spark, 3).selectExpr("id", "CAST(rand() * 1e9 AS BIGINT) AS n")

    with pytest.warns(KafkaSinkWarning, match=r"the rows depend on rand\(\), whose value differs"):
        table.write(rows(), job_id="varying")
    with pytest.warns(KafkaSinkWarning), pytest.raises(DeliveryError, match="can't be repeated"):
        table.write(rows(), job_id="varying")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.write(rows())  # a job without job_id is not repeated
        table.write(numbers(spark, 3).selectExpr("id AS brand", "id", "n"), extra_columns="ignore", job_id="brand")


@pytest.mark.once
def test_a_transaction_longer_than_brokers_allow_is_refused(spark: Any, broker: Any) -> None:
    topic = broker.create("once-long", 1)
    table = upsert(broker.bootstrap, topic, **ONCE, **{"properties.transaction.timeout.ms": 3_600_000})
    with pytest.raises(OptionError, match=r"'3600000' is larger than.*'transaction.max.timeout.ms' = 900000"):
        table.write(numbers(spark, 1))


def test_a_missing_topic_is_told_before_the_job(spark: Any, broker: Any) -> None:
    with pytest.raises(ConfigurationError, match="no topic 'once-nowhere'"):
        upsert(broker.bootstrap, "once-nowhere", **ONCE).write(numbers(spark, 1))


def test_a_second_driver_takes_over(spark: Any, broker: Any, tmp_path: Path) -> None:
    """While the query runs, another driver takes it over: the next batch of the query fails, and writes nothing."""
    topic = broker.create("once-taken", 2)
    broker.send(topic, [(b'{"id":%d}' % n, b'{"n":1}') for n in range(10)])
    table = upsert(broker.bootstrap, broker.create("once-taken-target", 2), **ONCE)
    query = table.write_stream(upsert(broker.bootstrap, topic).read_stream(spark), checkpoint_location=str(tmp_path))
    try:
        deadline = time.monotonic() + 60
        while len(ids(broker, "once-taken-target")) < 10 and time.monotonic() < deadline:
            time.sleep(0.2)
        query.processAllAvailable()
        name = json.loads((tmp_path / "metadata").read_text())["id"]
        settings = TransactionSettings.of(table.kv.options, ["once-taken-target"], "tests")
        take_over(KafkaBrokers(settings), QueryNames("tests", name), 1, 2)
        broker.send(topic, [(b'{"id":%d}' % n, b'{"n":1}') for n in range(10, 20)])
        deadline = time.monotonic() + 60
        while query.isActive and time.monotonic() < deadline:
            time.sleep(0.2)
        assert "another driver has taken over the query" in str(query.exception())
    finally:
        query.stop()
    assert sorted(ids(broker, "once-taken-target")) == list(range(10))


@pytest.mark.once
def test_executors_without_confluent_kafka_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = TransactionSettings.of({"properties.bootstrap.servers": "b:1"}, ["t"], "p")
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    (row,) = exactly_once._probing(settings)(iter([]))
    assert "confluent_kafka" in row.column("missing")[0].as_py()


@pytest.mark.once
def test_secrets_are_in_no_error(spark: Any, broker: Any) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="{}";'
    topic = broker.create("once-secured", 1)
    secured = {
        "properties.bootstrap.servers": broker.secured,
        "properties.security.protocol": "SASL_PLAINTEXT",
        "properties.sasl.mechanism": "PLAIN",
        "properties.sasl.jaas.config": login.format(broker.user, broker.password),
    }
    table = upsert(broker.bootstrap, topic, **ONCE).with_options(secured)
    table.write(numbers(spark, 20))
    assert sorted(ids(broker, topic)) == list(range(20))
    told = [table.explain(), repr(table), repr(sink.transactions(table.kv)), str(sink.transactions(table.kv).shown())]
    told.append(table.kv.encode(numbers(spark, 20))._jdf.queryExecution().toString())
    wrong = table.with_options({"properties.sasl.jaas.config": login.format(broker.user, "hush-hush")})
    with pytest.raises(BrokerError) as error:
        wrong.write(numbers(spark, 20))
    told += [str(error.value), repr(error.value), str(error.value.__cause__)]
    settings = sink.transactions(wrong.kv)
    with pytest.raises(BrokerError) as error:
        KafkaBrokers(settings).begin("tests-secret")
    told.append(str(error.value))
    for text in told:
        assert broker.password not in text
        assert "hush-hush" not in text
    assert len(told) == 9


@pytest.mark.once
@pytest.mark.slow  # brokers keep offsets for a minute at least
def test_a_query_that_rested_for_longer_than_its_marks_is_refused(spark: Any, tmp_path: Path) -> None:
    """The batch in flight may have been written in part. A batch that was planned after the rest can't have been."""
    settings = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 500}
    broker = services.KafkaBroker(tmp_path, settings)
    broker.start()
    try:
        broker.send(broker.create("rest", 1), [(b'{"id":%d}' % n, b'{"n":1}') for n in range(20)])
        stream = upsert(broker.bootstrap, "rest").read_stream(spark, spark_options={"maxOffsetsPerTrigger": 10})
        target = upsert(broker.bootstrap, broker.create("rest-target", 1), **ONCE)
        stopped, clean = tmp_path / "stopped", tmp_path / "clean"
        run(target, stream, stopped)
        run(target, stream, clean)
        (stopped / "commits" / "1").unlink()
        (stopped / "commits" / ".1.crc").unlink(missing_ok=True)
        names = [f"tests-{json.loads((at / 'metadata').read_text())['id']}" for at in (stopped, clean)]
        client = KafkaBrokers(TransactionSettings.of(target.kv.options, ["rest-target"], "tests"))
        assert client.retention() == 60
        deadline = time.monotonic() + 180
        while client.marks(names):
            assert time.monotonic() < deadline, "the marks did not expire"
            time.sleep(1)
        with pytest.raises(Exception, match=r"goes on with batch 1, which was planned \d minutes ago.*'at-least-once'"):
            run(target, stream, stopped)
        assert len(ids(broker, "rest-target")) == 40
        broker.send("rest", [(b'{"id":%d}' % n, b'{"n":1}') for n in range(20, 25)])
        with pytest.warns(KafkaSinkWarning, match=r"has no mark of an earlier batch.*batch 2"):
            run(target, stream, clean)
        assert len(ids(broker, "rest-target")) == 45
    finally:
        broker.kill()
