"""Tables read from a real broker, in batches and streams: rows, current tables and changes."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable, brokers
from kvformat.registry.contract.errors import (
    BrokerError,
    ConfigurationError,
    KafkaSourceWarning,
    MetadataError,
    OptionError,
)
from kvformat.registry.streams.changes import latest_by_key, split_errors

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.usefixtures("each_source")]

ROWS = "id INT, `at` BIGINT METADATA FROM 'offset' VIRTUAL"
UPSERT = "id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED"
KEYED = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
CDC = {"format": "debezium-json"}


def _table(columns: str, broker: Any, topic: str, options: Mapping[str, str] | None = None) -> KafkaTable:
    given = {"connector": "kafka", "properties.bootstrap.servers": broker.bootstrap, "topic": topic, **(options or {})}
    if given["connector"] == "kafka":
        given = {"format": "json", "scan.startup.mode": "earliest-offset", **given}
    with_ = ", ".join(f"'{key}' = '{value}'" for key, value in given.items() if value)
    return KafkaTable.from_ddl(f"CREATE TABLE t ({columns}) WITH ({with_})")


def _json(**members: Any) -> bytes:
    return json.dumps(members).encode()


def _ids(df: Any) -> list[int]:
    return sorted(row.id for row in df.collect())


def _run(stream: Any, folder: Path, name: str) -> Any:
    """Run a stream until it has read all available records, and return its rows. The folder has the checkpoint."""
    where = stream.writeStream.format("parquet").option("path", str(folder / name))
    query = where.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return stream.sparkSession.read.schema(stream.schema).parquet(str(folder / name))


@pytest.fixture(scope="module")
def ten(broker: Any) -> str:
    """Create a topic with five records in each of two partitions: ids 0-4 and 10-14, timestamps 1000, 2000 ... 5000."""
    topic: str = broker.create("ten", 2)
    for partition in (0, 1):
        for n in range(5):
            record = (None, _json(id=10 * partition + n))
            broker.send(topic, [record], partition=partition, timestamp=1000 * (n + 1))
    return topic


def _commit(broker: Any, topic: str, group: str, offsets: Mapping[int, int]) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, n, at) for n, at in offsets.items()], asynchronous=False)
    consumer.close()


def _committed(broker: Any, topic: str, group: str, partitions: int) -> list[int]:
    """Return the committed offsets of a group."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    question = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, n) for n in range(partitions)])
    admin = broker.admin()
    answers = admin.list_consumer_group_offsets([question])[group].result(30).topic_partitions
    return [answer.offset for answer in answers if answer.offset >= 0]


def _startup(mode: str, **more: str) -> dict[str, str]:
    return {"scan.startup.mode": mode, **{f"scan.startup.{name.replace('_', '-')}": v for name, v in more.items()}}


def _bounded(mode: str, **more: str) -> dict[str, str]:
    return {"scan.bounded.mode": mode, **{f"scan.bounded.{name.replace('_', '-')}": v for name, v in more.items()}}


ALL = [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
GROUP = {"properties.group.id": "reads-ten"}  # has committed offset 2 of partition 0, and offset 1 of partition 1


@pytest.fixture(scope="module")
def grouped(broker: Any, ten: str) -> str:
    _commit(broker, ten, "reads-ten", {0: 2, 1: 1})
    _commit(broker, ten, "reads-half", {0: 2})
    return ten


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (_startup("earliest-offset"), ALL),
        (_startup("timestamp", timestamp_millis="4000"), [3, 4, 13, 14]),
        (_startup("timestamp", timestamp_millis="4001"), [4, 14]),
        (_startup("timestamp", timestamp_millis="9999999999999"), []),  # a start after the end becomes the end
        (_startup("specific-offsets", specific_offsets="partition:0,offset:4"), [4, 10, 11, 12, 13, 14]),
        # A partition that is not named continues at the group's offset.
        (_startup("specific-offsets", specific_offsets="partition:0,offset:4") | GROUP, [4, 11, 12, 13, 14]),
        # Offsets out of range are reset to the earliest; the end offset itself is valid.
        (_startup("specific-offsets", specific_offsets="partition:0,offset:6;partition:1,offset:5"), [0, 1, 2, 3, 4]),
        (_startup("specific-offsets", specific_offsets="partition:0,offset:-1;partition:1,offset:-2"), ALL[5:]),
        (_startup("specific-offsets", specific_offsets="partition:0,offset:-3") | GROUP, [2, 3, 4, 11, 12, 13, 14]),
        (_startup("group-offsets") | GROUP, [2, 3, 4, 11, 12, 13, 14]),
        (_startup("group-offsets") | {"properties.group.id": "reads-half", "properties.auto.offset.reset": "earliest"},
         [2, 3, 4, 10, 11, 12, 13, 14]),
        (_startup("group-offsets") | {"properties.group.id": "reads-half", "properties.auto.offset.reset": "LATEST"},
         [2, 3, 4]),
    ],
)  # fmt: skip
def test_startup_modes(
    spark: Any, broker: Any, grouped: str, tmp_path: Path, options: dict[str, str], expected: list[int]
) -> None:
    table = _table(ROWS, broker, grouped, options)
    assert _ids(table.read(spark)) == expected
    assert _ids(_run(table.read_stream(spark), tmp_path, "rows")) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (_bounded("latest-offset"), ALL),
        (_bounded("timestamp", timestamp_millis="3000"), [0, 1, 10, 11]),
        (_bounded("timestamp", timestamp_millis="9999999999999"), ALL),
        (_bounded("group-offsets") | GROUP, [0, 1, 10]),
        # A partition that is not named is read up to the group's offset, or not at all.
        (_bounded("specific-offsets", specific_offsets="partition:0,offset:3"), [0, 1, 2]),
        (_bounded("specific-offsets", specific_offsets="partition:0,offset:3") | GROUP, [0, 1, 2, 10]),
        (_bounded("specific-offsets", specific_offsets="partition:0,offset:-1;partition:1,offset:0"), ALL[:5]),
        (_bounded("specific-offsets", specific_offsets="partition:0,offset:-3") | GROUP, [0, 1, 10]),
        # The end is before the start: nothing is read.
        (_startup("specific-offsets", specific_offsets="partition:0,offset:3;partition:1,offset:3")
         | _bounded("specific-offsets", specific_offsets="partition:0,offset:1;partition:1,offset:4"), [13]),
        (_startup("group-offsets") | _bounded("group-offsets") | GROUP, []),
    ],
)  # fmt: skip
def test_bounded_modes(spark: Any, broker: Any, grouped: str, options: dict[str, str], expected: list[int]) -> None:
    assert _ids(_table(ROWS, broker, grouped, options).read(spark)) == expected


@pytest.mark.parametrize("start", [
    _startup("timestamp", timestamp_millis="4000"),
    _startup("specific-offsets", specific_offsets="partition:0,offset:3;partition:1,offset:3"),
    _startup("group-offsets") | {"properties.group.id": "reads-three"},
])  # fmt: skip
@pytest.mark.parametrize("end", [
    _bounded("timestamp", timestamp_millis="2000"),
    _bounded("specific-offsets", specific_offsets="partition:0,offset:1;partition:1,offset:1"),
])  # fmt: skip
def test_ranges_that_end_before_their_start_are_empty(
    spark: Any, broker: Any, ten: str, start: dict[str, str], end: dict[str, str]
) -> None:
    _commit(broker, ten, "reads-three", {0: 3, 1: 3})
    assert _ids(_table(ROWS, broker, ten, start | end).read(spark)) == []


# --- a job that comes from Flink -----------------------------------------------------------------------------


def test_streams_start_at_the_group_offsets_and_resume_from_the_checkpoint(
    spark: Any, broker: Any, tmp_path: Path
) -> None:
    """The group reads and commits one half, the stream the other: no loss and no repeats, even without the group."""
    from confluent_kafka import Consumer

    topic, group = broker.create("moved", 3), "moved-from-flink"
    broker.send(topic, [(str(n).encode(), _json(id=n)) for n in range(60)])
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    theirs = [json.loads(message.value())["id"] for message in consumer.consume(30, timeout=60)]
    consumer.commit(asynchronous=False)
    consumer.close()
    assert len(theirs) == 30

    table = _table(ROWS, broker, topic, {"scan.startup.mode": "", "properties.group.id": group}).with_options(
        {"scan.startup.mode": None, "properties.auto.offset.reset": "earliest"}
    )
    checkpoint = str(tmp_path / "checkpoint")
    first = _run(table.read_stream(spark, checkpoint_location=checkpoint), tmp_path, "rows")
    assert sorted([*theirs, *_ids(first)]) == list(range(60))
    assert sum(_committed(broker, topic, group, 3)) == 30
    assert _ids(table.read(spark)) == _ids(first)  # a batch has no checkpoint

    admin = broker.admin()
    admin.delete_consumer_groups([group], request_timeout=30)[group].result(30)
    assert _committed(broker, topic, group, 3) == []
    broker.send(topic, [(str(n).encode(), _json(id=n)) for n in range(60, 70)])
    strict = table.with_options({"properties.auto.offset.reset": "none"})
    again = _run(strict.read_stream(spark, checkpoint_location=checkpoint), tmp_path, "rows")
    assert sorted([*theirs, *_ids(again)]) == list(range(70))
    with pytest.raises(OptionError, match=rf"'{group}' has committed for moved-0: nothing; .*checkpoint_location="):
        strict.read_stream(spark, checkpoint_location=str(tmp_path / "another"))


def test_checkpoint_paths_are_not_glob_patterns(spark: Any, broker: Any, grouped: str, tmp_path: Path) -> None:
    folder = tmp_path / "a [1]{x,y}*"
    table = _table(ROWS, broker, grouped, _startup("group-offsets") | GROUP)
    for _ in range(2):
        stream = table.read_stream(spark, checkpoint_location=f"{folder}/checkpoint/")
        found = _run(stream, folder, "rows") if not (folder / "rows").exists() else None
    assert found is None
    lost = table.with_options({"properties.group.id": "nobody"})
    lost.read_stream(spark, checkpoint_location=str(folder / "checkpoint"))  # no request for that group
    (tmp_path / "empty" / "offsets").mkdir(parents=True)
    for nothing in (tmp_path / "empty", tmp_path / "missing"):
        with pytest.raises(OptionError, match="no reset policy"):
            lost.read_stream(spark, checkpoint_location=str(nothing))


def test_deleted_offsets_follow_the_reset_policy(spark: Any, broker: Any) -> None:
    from confluent_kafka import TopicPartition

    topic = broker.create("deleted", 2)
    for n in range(6):
        broker.send(topic, [(None, _json(id=n))], partition=0)
        broker.send(topic, [(None, _json(id=10 + n))], partition=1)
    _commit(broker, topic, "late", {0: 1, 1: 99})
    admin = broker.admin()
    for future in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
        future.result(30)
    given = _startup("group-offsets") | {"properties.group.id": "late"}
    with pytest.raises(
        OptionError, match="deleted-0: 1, which is not in 4 to 6; deleted-1: 99, which is not in 0 to 6"
    ):
        _table(ROWS, broker, topic, given).read(spark)
    reset = "properties.auto.offset.reset"
    assert _ids(_table(ROWS, broker, topic, given | {reset: "earliest"}).read(spark)) == [4, 5, *range(10, 16)]
    assert _ids(_table(ROWS, broker, topic, given | {reset: "latest"}).read(spark)) == []


@pytest.mark.slow
def test_missing_topics_and_offsets_are_reported(
    spark: Any, broker: Any, grouped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OptionError, match="there is no topic 'nowhere'"):
        _table(ROWS, broker, "nowhere", _startup("group-offsets") | GROUP).read(spark)
    with pytest.raises(OptionError, match="ten-1 should stop at committed offset"):
        _table(ROWS, broker, grouped, _bounded("group-offsets") | {"properties.group.id": "reads-half"}).read(spark)
    given = _startup("specific-offsets", specific_offsets="partition:7,offset:1")
    with pytest.warns(KafkaSourceWarning, match="specific-offsets' names partitions that do not exist: ten-7"):
        assert _ids(_table(ROWS, broker, grouped, given).read(spark)) == ALL
    beyond = _bounded("specific-offsets", specific_offsets="partition:0,offset:99;partition:1,offset:1")
    with pytest.warns(KafkaSourceWarning, match="a batch does not: ten-0 ends at 5, not at 99"):
        assert _ids(_table(ROWS, broker, grouped, beyond).read(spark)) == [0, 1, 2, 3, 4, 10]
    nobody = _table(ROWS, broker, grouped, _startup("group-offsets") | GROUP).with_options(
        {"properties.bootstrap.servers": "127.0.0.1:1"}
    )
    with monkeypatch.context() as quick:
        quick.setattr(brokers, "TIMEOUT", 0.5)
        with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1"):
            nobody.read(spark)
    # With given offsets, no broker is asked.
    answered = {"startingOffsets": json.dumps({"ten": {"0": 4, "1": 4}})}
    table = _table(ROWS, broker, grouped, _startup("group-offsets") | {"properties.group.id": "nobody"})
    assert _ids(table.read(spark, spark_options=answered)) == [4, 14]


def test_reading_commits_nothing_and_skips_aborted_transactions(spark: Any, broker: Any) -> None:
    from confluent_kafka import Producer

    topic = broker.create("transactions")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(60)
    for n, end in enumerate((producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, _json(id=n))
        producer.flush(60)
        end(60)
    table = _table(ROWS, broker, topic, {"properties.group.id": "reads-only"})
    assert _ids(table.read(spark)) == [0, 1, 2]
    assert _ids(table.with_options({"properties.isolation.level": "read_committed"}).read(spark)) == [0, 2]
    assert _committed(broker, topic, "reads-only", 1) == []


# --- which records -------------------------------------------------------------------------------------------


def test_topics_from_a_list_and_a_pattern(spark: Any, broker: Any, tmp_path: Path) -> None:
    for n, name in enumerate(("shop.a", "shop.b", "my.shop.a", "shop.abc")):
        broker.send(broker.create(name), [(None, _json(id=n))])
    columns = f"{ROWS}, `from` STRING METADATA FROM 'topic' VIRTUAL"
    listed = _table(columns, broker, "shop.a;my.shop.a")
    assert [(row.id, row["from"]) for row in listed.read(spark).orderBy("id").collect()] == [
        (0, "shop.a"),
        (2, "my.shop.a"),
    ]
    by_pattern = listed.with_options({"topic": None, "topic-pattern": "shop\\.[ab]|(?x)shop[.]abc # and that"})
    assert _ids(by_pattern.read(spark)) == [0, 1, 3]
    assert _ids(_run(by_pattern.read_stream(spark), tmp_path, "rows")) == [0, 1, 3]
    # The brokers get requests for the same topics.
    _commit(broker, "shop.a", "of-pattern", {0: 1})
    by_group = {"scan.startup.mode": "group-offsets", "properties.group.id": "of-pattern"}
    grouped = by_pattern.with_options({**by_group, "properties.auto.offset.reset": "earliest"})
    assert _ids(grouped.read(spark)) == [1, 3]
    # No topic matches now: a stream waits for one.
    none = grouped.with_options({"topic-pattern": "nothing-yet"})
    assert none.source_options(streaming=True)["startingOffsets"] == "earliest"


def test_header_filter_removes_records_before_decoding(spark: Any, broker: Any, tmp_path: Path) -> None:
    topic = broker.create("headers")
    headers: list[list[tuple[str, bytes | None]] | None] = [
        [("depart", b"toy")],
        [("depart", b"book"), ("env", b"test")],
        [("depart", "köche".encode()), ("depart", b"book")],
        [("env", None), ("depart", None)],
        None,
        [("depart", b"\xff")],
    ]
    for n, given in enumerate(headers):
        broker.send(topic, [(None, _json(id=n))], headers=given)
    broker.send(topic, [(None, b"{bad")], headers=[("env", b"test")])
    expected = {
        "depart:toy": [0],
        "depart:toy|depart:book": [0, 1, 2],
        "depart:toy|depart:book&!env:test": [0, 2],
        "!env:test&depart:toy|depart:book": [0, 1, 2],
        "depart:köche": [2],
        "!env:test": [0, 2, 3, 4, 5],
        "!depart:book": [0, 3, 4, 5],
    }
    for text, ids in expected.items():
        table = _table(ROWS, broker, topic, {"scan.header-filter": text})
        if text == "!depart:book":
            _, bad = split_errors(table.read(spark, errors="capture"))
            assert [bytes(row.value) for row in bad.collect()] == [b"{bad"]
            assert [[h.key for h in row.headers] for row in bad.collect()] == [["env"]]
            table = table.with_options({"scan.header-filter": f"{text}&!env:test"})
        assert _ids(table.read(spark)) == ids, text
    assert _ids(_run(table.read_stream(spark), tmp_path, "rows")) == ids
    assert table.records(spark).count() == len(ids)


def test_headers_are_read_only_if_needed(spark: Any, broker: Any) -> None:
    topic = broker.create("with-headers")
    broker.send(topic, [(None, _json(id=1))], headers=[("a", b"1")])
    declared = _table("id INT, h MAP<STRING, BYTES> METADATA FROM 'headers'", broker, topic)
    assert declared.read(spark).collect()[0].h == {"a": b"1"}
    plain = _table(ROWS, broker, topic)
    assert plain.read(spark, metadata=["headers"]).collect()[0].headers == {"a": b"1"}
    assert "headers" in plain.records(spark).columns
    assert "includeHeaders" not in plain.source_options()
    with pytest.raises(MetadataError, match="list of keys"):
        plain.read(spark, metadata="headers")


def test_ids_of_schemas_in_headers_are_read(spark: Any, broker: Any, tmp_path: Path) -> None:
    topic = broker.create("schema-headers")
    for n in range(3):
        frame = [b"\0\0\0\0\1", b"\1" + bytes(16), b"\2"][n]
        broker.send(topic, [(None, _json(id=n))], headers=[("trace", b"1"), ("__value_schema_id", frame)])
    broker.send(topic, [(None, b"\0\0\0\0\1" + _json(id=3))])
    table = _table("id INT", broker, topic, {"format": "json-registry"})
    good, bad = split_errors(table.read(spark, errors="capture"))
    assert _ids(good) == [0, 1, 3]
    assert [row.value for row in bad.collect()] == [_json(id=2)]
    good, _ = split_errors(table.read_stream(spark, errors="capture"))
    assert _ids(_run(good, tmp_path, "rows")) == [0, 1, 3]


def test_parallelism_groups_partitions_without_splitting_them(spark: Any, broker: Any) -> None:
    topic = broker.create("parallel", 4)
    broker.send(topic, [(str(n).encode(), _json(id=n)) for n in range(100)])
    table = _table(f"{ROWS}, p INT METADATA FROM 'partition' VIRTUAL", broker, topic, {"scan.parallelism": "3"})
    from pyspark.sql import functions as F

    rows = table.read(spark).withColumn("task", F.spark_partition_id()).collect()
    assert len({row.task for row in rows}) == 3
    by_partition = {p: [row for row in rows if row.p == p] for p in range(4)}
    for found in by_partition.values():
        assert len({row.task for row in found}) == 1
        assert [row["at"] for row in found] == sorted(row["at"] for row in found)
    assert table.with_options({"scan.parallelism": "1000"}).read(spark).count() == 100


# --- rows, tables and changes --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def upserts(broker: Any) -> str:
    topic: str = broker.create("upserts", 3)
    first = [(n, f"a{n}") for n in range(20)]
    last = [(n, f"b{n}") for n in range(10)] + [(n, None) for n in range(5)]
    broker.send(topic, [(_json(id=n), name and _json(id=n, name=name)) for n, name in first + last])
    return topic


def test_upsert_tables_are_read_in_their_current_state(spark: Any, broker: Any, upserts: str, tmp_path: Path) -> None:
    table = _table(UPSERT, broker, upserts, KEYED)
    now = [(n, f"{'b' if n < 10 else 'a'}{n}") for n in range(5, 20)]
    assert table.read(spark).columns == ["id", "name"]
    assert sorted(tuple(row) for row in table.read(spark).collect()) == now
    with_offset = table.read(spark, metadata={"place": "offset"})
    assert with_offset.columns == ["id", "name", "place"]
    assert all(row.place is not None for row in with_offset.collect())

    changes = table.read(spark, changelog=True, row_index=True)
    assert changes.columns == ["id", "name", "row_kind", "row_index"]
    deleted = [row for row in changes.collect() if row.row_kind == "-D"]
    assert sorted((row.id, row.name) for row in deleted) == [(n, None) for n in range(5)]
    assert changes.count() == 35

    stream = table.read_stream(spark, metadata=["partition", "offset"])
    folded = latest_by_key(_run(stream, tmp_path, "rows"), table.kv)
    assert sorted((row.id, row.name) for row in folded.collect()) == now


def test_a_tombstone_is_a_null_value(spark: Any, broker: Any, upserts: str) -> None:
    table = _table(UPSERT, broker, upserts, KEYED)
    records = table.records(spark)
    assert {"key", "value", "topic", "partition", "offset", "timestamp", "headers"} <= set(records.columns)
    assert records.where("value IS NULL").count() == 5
    copy = table.with_options({"topic": broker.create("upserts-written", 2)})
    copy.write(table.read(spark, changelog=True).where("row_kind = '-D'"))
    assert {(message.key(), message.value()) for message in broker.records("upserts-written")} == {
        (_json(id=n).replace(b" ", b""), None) for n in range(5)
    }


def test_cdc_is_a_table_with_a_primary_key_and_changes_without(spark: Any, broker: Any) -> None:
    topic = broker.create("changes", 1)

    def change(op: str, before: Any, after: Any) -> tuple[bytes, bytes]:
        return b"k", _json(op=op, before=before, after=after)

    broker.send(
        topic,
        [
            change("c", None, {"id": 1, "name": "a"}),
            change("u", {"id": 1, "name": "a"}, {"id": 2, "name": "a"}),  # another key
            change("c", None, {"id": 1, "name": "b"}),
            change("d", {"id": 2, "name": "a"}, None),
        ],
    )
    keyed = _table(UPSERT, broker, topic, CDC)
    assert [tuple(row) for row in keyed.read(spark).collect()] == [(1, "b")]
    assert [row.row_kind for row in keyed.read(spark, changelog=True).collect()] == ["+I", "-U", "+U", "+I", "-D"]
    unkeyed = _table("id INT, name STRING", broker, topic, CDC)
    assert unkeyed.read(spark).columns == ["id", "name", "row_kind"]
    with pytest.raises(ConfigurationError, match="table 't' has no PRIMARY KEY"):
        unkeyed.read(spark, changelog=False)
    for given in ({"errors": "capture"}, {"row_index": True}):
        with pytest.raises(ConfigurationError, match=r"read the changes, read\(spark, changelog=True"):
            keyed.read(spark, **given)
        with pytest.raises(ConfigurationError, match="normalize=True gives the rows"):
            keyed.read_stream(spark, normalize=True, **given)
    good, _ = split_errors(keyed.read(spark, changelog=True, errors="capture", metadata=["partition", "offset"]))
    assert [row.name for row in latest_by_key(good, keyed.kv).collect()] == ["b"]
    inserts = _table("id INT, name STRING", broker, topic)
    with pytest.raises(ConfigurationError, match="only inserts"):
        inserts.read(spark, changelog=True)
    with pytest.raises(ConfigurationError, match="only inserts"):
        inserts.read_stream(spark, normalize=True)


def test_order_is_kept_within_each_of_several_topics(spark: Any, broker: Any) -> None:
    for topic in ("upserts-x", "upserts-y"):
        broker.create(topic)
        broker.send(topic, [(_json(id=len(topic) + n), _json(id=n, name=topic)) for n in range(3)])
    broker.send("upserts-x", [(_json(id=1), _json(id=1, name="new"))])
    table = _table(UPSERT, broker, "upserts-x;upserts-y", KEYED)
    assert table.read(spark, metadata=["topic"]).columns == ["id", "name", "topic"]
    assert {row.id: row.name for row in table.read(spark).collect()}[2] == "upserts-y"  # the last topic by name


def test_normalized_streams_have_all_changes(spark: Any, broker: Any, upserts: str, tmp_path: Path) -> None:
    provider = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(provider)
    rocks = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set(provider, rocks)
    try:
        table = _table(UPSERT, broker, upserts, KEYED)
        found = _run(table.read_stream(spark, normalize=True), tmp_path, "rows")
        assert found.columns == ["id", "name", "row_kind"]
        rows = [(row.row_kind, row.name) for row in found.collect() if row.id == 3]
        assert sorted(rows) == [("+I", "a3"), ("+U", "b3"), ("-D", "b3"), ("-U", "a3")]
    finally:
        spark.conf.set(provider, before)


# --- warnings and secrets ------------------------------------------------------------------------------------


def test_options_without_effect_give_one_warning(spark: Any, broker: Any, ten: str) -> None:
    table = _table(ROWS, broker, ten, {"scan.watermark.idle-timeout": "5 s"})
    with pytest.warns(KafkaSourceWarning, match="table 't': 'scan.watermark.idle-timeout' has no effect") as told:
        table.read(spark)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.read(spark)
        table.read_stream(spark)
    with pytest.warns(KafkaSourceWarning):
        table.with_options({"scan.parallelism": "1"}).read_stream(spark)


@pytest.mark.slow
def test_secured_brokers_work_and_secrets_are_not_shown(spark: Any, broker: Any, grouped: str) -> None:
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    given = {
        "properties.bootstrap.servers": broker.secured,
        "properties.security.protocol": "SASL_PLAINTEXT",
        "properties.sasl.mechanism": "PLAIN",
        "properties.sasl.jaas.config": f'{jaas} username="{broker.user}" password="{broker.password}";',
    }
    table = _table(ROWS, broker, grouped, _startup("group-offsets") | GROUP | given)
    assert _ids(table.read(spark)) == [2, 3, 4, 11, 12, 13, 14]
    shown = [repr(table), table.explain()]
    for frame in (table.read(spark), table.read_stream(spark)):
        with contextlib.redirect_stdout(io.StringIO()) as plan:
            frame.explain(True)
        shown.append(plan.getvalue())
    assert all(broker.password not in text for text in shown)
    wrong = table.with_options({"properties.sasl.jaas.config": f'{jaas} username="alice" password="Wr0ng";'})
    with pytest.raises(BrokerError, match=r"(?i)authentication") as raised:
        wrong.read(spark)
    assert "Wr0ng" not in str(raised.value)
