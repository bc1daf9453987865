"""The data source `kvformat`: tables of Flink on a real broker, read by Spark's Python workers without a jar."""

from __future__ import annotations

import itertools
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable
from kvformat.registry.contract.errors import ConfigurationError
from tests.support.starting import started

pytestmark = [pytest.mark.spark, pytest.mark.services]

ORDERS = """CREATE TABLE orders (id INT, name STRING, ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
    place INT METADATA FROM 'partition' VIRTUAL) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
    'scan.startup.mode' = 'earliest-offset', 'key.format' = 'json', 'key.fields' = 'id', 'value.format' = 'json')"""
SECRET = "Tr0ub4dor"


def orders(broker: Any, topic: str, count: int = 0, partitions: int = 1) -> str:
    """Create a topic with some orders, and return the table's DDL."""
    broker.send(broker.create(topic, partitions), records(count))
    return ORDERS.format(topic=topic, bootstrap=broker.bootstrap)


def records(count: int, start: int = 0) -> list[tuple[bytes, bytes]]:
    return [(b'{"id":%d}' % n, b'{"id":%d,"name":"n%d"}' % (n, n)) for n in range(start, start + count)]


def load(spark: Any, ddl: str, **options: Any) -> Any:
    return spark.read.format("kvformat").option("ddl", ddl).options(**options).load()


def ids(df: Any) -> list[int]:
    return sorted(row.id for row in df.collect())


def until_now(stream: Any, folder: Path, name: str, **options: str) -> Any:
    """Run a stream until it has read all records, and return the query."""
    writer = stream.writeStream.format("parquet").option("path", str(folder / name)).options(**options)
    writer = writer.option("checkpointLocation", str(folder / f"{name}.checkpoint")).trigger(availableNow=True)
    query = started(writer.start)
    assert query.awaitTermination(180)
    if query.exception() is not None:
        raise query.exception()
    return query


# --- batches ----------------------------------------------------------------------------------------------------------

# Tables with what their rows may need: columns, options, the records, and how they are read.
META = ", ".join(
    f"`{key}_` {type_} METADATA FROM '{key}' VIRTUAL"
    for key, type_ in {
        "topic": "STRING",
        "partition": "BIGINT",
        "offset": "STRING",
        "timestamp": "TIMESTAMP(3)",
        "timestamp-type": "STRING",
        "headers": "MAP<STRING, BYTES>",
        "header-list": "ARRAY<ROW<key STRING, `value` BYTES>>",
        "__raw_key__": "BYTES",
        "__raw_value__": "STRING",
    }.items()
)
CASES: dict[str, tuple[str, dict[str, str], list[tuple[bytes | None, bytes | None]], dict[str, Any]]] = {
    "all metadata": ("x INT, " + META, {"format": "json"}, [(b"k", b'{"x":1}'), (None, b'{"x":2}')], {}),
    "times and intervals": (
        "a TIME(0), b TIME(3), c TIMESTAMP(3), d TIMESTAMP_LTZ(6), e DATE, f ROW<a TIME(0), b ARRAY<TIME(3)>>",
        {"format": "json", "json.timestamp-format.standard": "ISO-8601"},
        [
            (
                None,
                b'{"a":"12:34:56","b":"12:34:56.789","c":"2026-01-02T03:04:05.678","d":"2026-01-02T03:04:05.678901Z",'
                b'"e":"2026-01-02","f":{"a":"01:02:03","b":["04:05:06.007",null]}}',
            ),
            (None, b"{}"),
        ],
        {},
    ),
    "nested": (
        "m MAP<STRING, ROW<x DECIMAL(10, 2), y ARRAY<INT NOT NULL>> NOT NULL>, s MULTISET<STRING>",
        {"format": "json"},
        [(None, b'{"m":{"a":{"x":1.5,"y":[1,2]}},"s":{"b":2}}'), (None, b'{"m":null}')],
        {},
    ),
    "variants": ("v VARIANT", {"format": "json"}, [(None, b'{"v":{"a":[1,"x"]}}'), (None, b"{}")], {}),
    "computed": (
        "x INT, y AS x + 1, z AS UPPER(CAST(place AS STRING)), place INT METADATA FROM 'partition' VIRTUAL",
        {"format": "json"},
        [(None, b'{"x":1}')],
        {"row_index": True},
    ),
    "captured": (
        "x INT",
        {"format": "json", "key.format": "raw", "key.fields": "k", "value.fields-include": "EXCEPT_KEY"},
        [(b"a", b'{"x":1}'), (b"b", b"{bad"), (b"c", None)],
        {"errors": "capture", "metadata": {"at": "offset"}},
    ),
    "changes": (
        "x INT, db STRING METADATA FROM 'value.source.database' VIRTUAL",
        {"format": "debezium-json"},
        [
            (None, b'{"before":null,"after":{"x":1},"op":"c","source":{"db":"d"}}'),
            (None, b'{"before":{"x":1},"after":{"x":2},"op":"u","source":{"db":"d"}}'),
        ],
        {"row_index": True, "metadata": ["offset", "timestamp"]},
    ),
    "upserts": (
        "x INT, y INT, PRIMARY KEY (x) NOT ENFORCED",
        {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"},
        [(b'{"x":1}', b'{"x":1,"y":2}'), (b'{"x":1}', None)],
        {"changelog": True},
    ),
    "names that differ in case": ("x INT, X INT", {"format": "json"}, [(None, b'{"x":1,"X":2}')], {}),
    "dropped": ("x INT", {"format": "json", "ingestion.ignore-errors": "true"}, [(None, b"{"), (None, b'{"x":3}')], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_both_sources_give_the_same(spark: Any, broker: Any, case: str, time_zone: str) -> None:
    columns, options, messages, how = CASES[case]
    if "captured" in case:
        columns = f"k STRING, {columns}"
    topic = broker.create(f"both-{case.replace(' ', '-')}-{time_zone.replace('/', '-')}")
    headers = [("h", b"1"), ("g", None), ("h", b"2")]
    broker.send(topic, messages[:1], headers=headers, timestamp=1_750_000_000_123)
    broker.send(topic, messages[1:], timestamp=1_700_000_000_000)
    given = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": broker.bootstrap, **options}
    if given["connector"] == "kafka":
        given["scan.startup.mode"] = "earliest-offset"
    with_ = ", ".join(f"'{key}' = '{text}'" for key, text in given.items())
    ddl = f"CREATE TABLE t ({columns}) WITH ({with_})"
    table = KafkaTable.from_ddl(ddl)
    assert KafkaTable.from_ddl(table.kv.ddl) == table
    expected = table.read(spark, source="spark", **how)
    rows = [row.asDict(recursive=True) for row in expected.collect()]
    assert len(rows) >= 1
    found = table.read(spark, source="python", **how)
    assert found.schema == expected.schema
    assert shown(found.collect()) == shown(expected.collect())
    # The data source itself casts in Python.
    reading = {key: text if isinstance(text, bool | str) else json.dumps(as_map(text)) for key, text in how.items()}
    direct = load(spark, ddl, **reading)
    assert direct.schema == expected.schema
    assert shown(direct.collect()) == shown(expected.collect())
    without_spark = table.read_arrow(time_zone=time_zone, **how).read_all()
    assert without_spark.column_names == expected.columns
    if case == "variants":  # PySpark's toArrow fails for a NULL
        bytes_ = [row.v and {"value": row.v.value, "metadata": row.v.metadata} for row in expected.collect()]
        assert without_spark["v"].to_pylist() == bytes_
    else:
        assert without_spark.to_pylist() == expected.toArrow().to_pylist()


def shown(rows: list[Any]) -> list[str]:
    return [repr(row.asDict(recursive=True)) for row in rows]


def as_map(metadata: Any) -> dict[str, str]:
    return metadata if isinstance(metadata, dict) else {key: key for key in metadata}


def test_an_error_tells_the_same_position(spark: Any, broker: Any) -> None:
    ddl = orders(broker, "source-bad", 3)
    broker.send("source-bad", [(b'{"id":9}', b"{bad")])
    told = []
    for source in ("python", "spark"):
        with pytest.raises(Exception, match="cannot decode the value of a record") as raised:
            KafkaTable.from_ddl(ddl).read(spark, source=source).collect()  # type: ignore[arg-type]
        told.append(str(raised.value).partition("DecodeError: ")[2].partition("errors='capture'")[0])
    assert told[0] == told[1]
    assert "partition 0, offset 3, key b'{\"id\":9}', value b'{bad'" in told[0]


def test_the_epoch_of_the_leader_is_known(spark: Any, broker: Any) -> None:
    ddl = orders(broker, "source-epoch", 2)
    assert {row.epoch for row in load(spark, ddl, metadata="epoch:leader-epoch").collect()} == {0}


def test_tasks_split_and_join_partitions(spark: Any, broker: Any) -> None:
    ddl = orders(broker, "source-tasks", 40, 4)
    whole = load(spark, ddl)
    assert whole.rdd.getNumPartitions() == 4 if hasattr(whole, "_jdf") else True
    assert ids(load(spark, ddl, minPartitions=9)) == list(range(40))
    assert ids(load(spark, ddl, maxRecordsPerPartition=3)) == list(range(40))
    assert ids(load(spark, ddl.replace("'key.format'", "'scan.parallelism' = '3', 'key.format'"))) == list(range(40))


def test_columns_are_proposed_from_the_newest_messages(spark: Any, broker: Any) -> None:
    orders(broker, "source-proposed", 5)
    given = {"topic": "source-proposed", "properties.bootstrap.servers": broker.bootstrap}
    guessed = spark.read.format("kvformat").options(**given).load()
    assert guessed.schema.simpleString() == "struct<key_id:int,id:int,name:string>"
    assert ids(guessed) == list(range(5))
    of_json = spark.read.format("kvformat").options(format="json", **given).load()
    assert of_json.schema.simpleString() == "struct<id:int,name:string>"
    empty = {**given, "topic": broker.create("source-proposed-empty")}
    with pytest.raises(Exception, match="has no messages from which columns can be proposed"):
        spark.read.format("kvformat").options(**empty).load().schema  # noqa: B018 - Connect looks then


def test_a_schema_and_options_make_a_table(spark: Any, broker: Any) -> None:
    orders(broker, "source-schema", 3)
    given = {"topic": "source-schema", "properties.bootstrap.servers": broker.bootstrap, "format": "json"}
    reader = spark.read.format("kvformat").options(**given, metadata="at:offset")
    reader = reader.option("scan.startup.mode", "earliest-offset").schema("at BIGINT, name STRING, id INT")
    assert sorted(map(tuple, reader.load().collect())) == [(n, f"n{n}", n) for n in range(3)]
    with pytest.raises(Exception, match="the schema has column 'at' as STRING, but table 'table' gives BIGINT"):
        reader.schema("at STRING, id INT").load().collect()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "has no options of a table.*CREATE TEMPORARY VIEW"),
        ({"topic": "t", "metadta": "x"}, "has no option 'metadta'. Did you mean 'metadata'"),
        ({"ddl": "CREATE TABLE t", "errors": "ignore"}, "invalid value 'ignore' for option 'errors'"),
        ({"ddl": "CREATE TABEL t (x INT)"}, "SchemaError"),
        ({"format": "json"}, "without 'ddl' and without a schema, the columns are proposed.*needs 'topic'"),
    ],
)
def test_wrong_options_are_errors_of_load(spark: Any, options: dict[str, str], told: str) -> None:
    with pytest.raises(Exception, match=f"(?s){told}"):
        spark.read.format("kvformat").options(**options).load().schema  # noqa: B018 - Connect looks then


def test_a_table_in_spark_s_catalog_is_refused(spark: Any, broker: Any) -> None:
    options = f"topic 't', 'properties.bootstrap.servers' '{broker.bootstrap}', format 'json'"
    with pytest.raises(Exception, match=r"(?s)CREATE TEMPORARY VIEW name USING kvformat"):
        spark.sql(f"CREATE TABLE in_catalog USING kvformat OPTIONS ({options})")
    spark.sql(f"CREATE TABLE in_catalog (id INT) USING kvformat OPTIONS ({options})")
    try:
        with pytest.raises(Exception, match=r"(?s)would lose the options, and store secrets in its catalog"):
            spark.sql("SELECT * FROM in_catalog").collect()
    finally:
        spark.sql("DROP TABLE in_catalog")


def test_secrets_are_in_no_plan_and_no_error(spark: Any, broker: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ddl = orders(broker, "source-secured", 2).replace(broker.bootstrap, broker.secured)
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'
    secured = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas.format(SECRET),
    }
    options = {f"properties.{name}": text for name, text in secured.items()}
    found = load(spark, ddl, **options)
    assert ids(found) == [0, 1]
    found.explain(extended=True)
    assert SECRET not in capsys.readouterr().out
    wrong = {**options, "properties.sasl.jaas.config": jaas.format("Wr0ngSecret")}
    with pytest.raises(Exception, match="could not be asked") as raised:
        load(spark, ddl, **wrong).collect()
    assert "Wr0ngSecret" not in str(raised.value)


# --- streams ----------------------------------------------------------------------------------------------------------


def stream(spark: Any, ddl: str, **options: Any) -> Any:
    return spark.readStream.format("kvformat").option("ddl", ddl).options(**options).load()


def test_a_stream_continues_with_limits_and_new_partitions(spark: Any, broker: Any, tmp_path: Path) -> None:
    ddl = orders(broker, "source-stream", 30, 3)

    def run(**options: Any) -> list[int]:
        query = until_now(stream(spark, ddl, **options), tmp_path, "rows")
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    def read() -> list[int]:
        return ids(spark.read.parquet(str(tmp_path / "rows")))

    counts = run(maxOffsetsPerTrigger=10)
    if spark.version > "4.2":
        assert len(counts) >= 3
        assert max(counts) <= 10
    assert sum(counts) == 30
    assert read() == list(range(30))
    last = max(int(file.name) for file in (tmp_path / "rows.checkpoint" / "offsets").iterdir() if file.name.isdigit())
    offsets = json.loads((tmp_path / "rows.checkpoint" / "offsets" / str(last)).read_text().splitlines()[-1])
    assert sum(offsets["source-stream"].values()) == 30
    assert offsets["$topic_ids"].keys() == {"source-stream"}
    broker.add_partitions("source-stream", 5)
    broker.send("source-stream", records(20, 30))
    assert sum(run()) == 20
    assert read() == list(range(50))
    (tmp_path / "rows.checkpoint" / "commits" / str(last)).unlink(missing_ok=True)
    assert run() == []


def test_a_stream_starts_at_the_end_while_records_arrive(spark: Any, broker: Any, tmp_path: Path) -> None:
    ddl = orders(broker, "source-busy").replace("earliest-offset", "latest-offset")
    done, sent = threading.Event(), itertools.count()

    def send() -> None:
        while not done.wait(0.01):
            broker.send("source-busy", records(10, start=10 * next(sent)))

    writer = stream(spark, ddl).writeStream.format("parquet").option("path", str(tmp_path / "rows"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with ThreadPoolExecutor(1) as sender:
        sending = sender.submit(send)
        query = started(writer.start)
        try:
            for at in itertools.count():
                assert query.exception() is None
                if query.lastProgress is not None and query.lastProgress.batchId >= 3:
                    break
                assert at < 1200
                time.sleep(0.1)
        finally:
            done.set()
            query.stop()
        sending.result()
    found = ids(spark.read.parquet(str(tmp_path / "rows")))
    assert len(found) >= 3, "at least one record for each batch after the first"
    assert found == list(range(found[0], found[0] + len(found)))


def test_a_topic_that_is_created_again_is_a_loss(spark: Any, broker: Any, tmp_path: Path) -> None:
    ddl = orders(broker, "source-again", 5)
    until_now(stream(spark, ddl), tmp_path, "rows")
    broker.delete("source-again")
    broker.send(broker.create("source-again"), records(9, 100))
    with pytest.raises(Exception, match="the topic was deleted and created again"):
        until_now(stream(spark, ddl), tmp_path, "rows")
    until_now(stream(spark, ddl, failOnDataLoss="false"), tmp_path, "rows")
    assert ids(spark.read.parquet(str(tmp_path / "rows"))) == [*range(5), *range(100, 109)]


def test_a_checkpoint_keeps_its_source(spark: Any, broker: Any, tmp_path: Path) -> None:
    if spark.version < "4.2":
        pytest.skip("streams are read by Spark's source")
    ddl = orders(broker, "source-keeps", 4)
    table = KafkaTable.from_ddl(ddl)
    for source, other in (("spark", "python"), ("python", "spark")):
        checkpoint = str(tmp_path / f"{source}.checkpoint")
        until_now(table.read_stream(spark, source=source), tmp_path, source)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=f"the checkpoint has offsets of the source '{source}'"):
            table.read_stream(spark, source=other, checkpoint_location=checkpoint)  # type: ignore[arg-type]
    broker.send("source-keeps", records(3, 4))
    with pytest.raises(Exception, match="has offsets of Spark's Kafka source, and a query can't change its source"):
        until_now(table.read_stream(spark, source="python"), tmp_path, "spark")
    for source in ("spark", "python"):
        checkpoint = str(tmp_path / f"{source}.checkpoint")
        until_now(table.read_stream(spark, checkpoint_location=checkpoint), tmp_path, source)
        assert ids(spark.read.parquet(str(tmp_path / source))) == list(range(7))


# --- writing ----------------------------------------------------------------------------------------------------------


def test_rows_are_written_as_kafka_table_writes_them(spark: Any, broker: Any) -> None:
    ddl = orders(broker, "source-written", 0, 3)
    rows = spark.createDataFrame([(n, f"n{n}") for n in range(50)], "id INT, name STRING")
    rows.write.format("kvformat").option("ddl", ddl).mode("append").save()
    KafkaTable.from_ddl(ddl.replace("source-written", orders_topic(broker))).write(rows)
    written = [
        sorted((m.partition(), m.key(), m.value()) for m in broker.records(topic))
        for topic in ("source-written", "source-written-jvm")
    ]
    assert len(written[0]) == 50
    assert written[0] == written[1]


def orders_topic(broker: Any) -> str:
    topic: str = broker.create("source-written-jvm", 3)
    return topic


def test_a_view_is_written_by_insert_into(spark: Any, broker: Any) -> None:
    topic = broker.create("source-view")
    options = f"topic '{topic}', 'properties.bootstrap.servers' '{broker.bootstrap}', format 'json'"
    options += ", 'scan.startup.mode' 'earliest-offset'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW source_view (id INT, name STRING) USING kvformat OPTIONS ({options})")
    spark.sql("INSERT INTO source_view VALUES (1, 'a'), (2, NULL)")
    assert sorted(m.value() for m in broker.records(topic)) == [b'{"id":1,"name":"a"}', b'{"id":2,"name":null}']
    assert ids(spark.table("source_view")) == [1, 2]


def test_a_stream_is_written_with_metadata_and_changes(spark: Any, broker: Any, tmp_path: Path) -> None:
    ddl, to = orders(broker, "source-from", 6, 2), broker.create("source-to")
    target = (
        "CREATE TABLE t (id INT, name STRING, h MAP<STRING, BYTES> METADATA FROM 'headers', ts TIMESTAMP_LTZ(3) "
        f"METADATA FROM 'timestamp') WITH ('connector' = 'kafka', 'topic' = '{to}', 'format' = 'canal-json', "
        f"'properties.bootstrap.servers' = '{broker.bootstrap}')"
    )
    changed = stream(spark, ddl).selectExpr(
        "id",
        "name",
        "map('k', binary('v')) h",
        "timestamp_millis(1700000000000 + id) ts",
        "CASE WHEN id % 2 = 0 THEN 'insert' ELSE 'delete' END _change_type",
    )
    writer = changed.writeStream.format("kvformat").option("ddl", target)
    query = started(lambda: writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start())
    assert query.awaitTermination(180)
    assert query.exception() is None
    found = broker.records("source-to")
    assert len(found) == 6
    assert {m.timestamp()[1] for m in found} == {1_700_000_000_000 + n for n in range(6)}
    assert {tuple(m.headers()) for m in found} == {(("k", b"v"),)}
    assert sorted(json.loads(m.value())["type"] for m in found) == ["DELETE"] * 3 + ["INSERT"] * 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"},
            r"a data source writes at least once.*KafkaTable\.from_ddl\(\.\.\.\)\.write_stream",
        ),
        ({"topic": "source-nowhere"}, "no topic 'source-nowhere'"),
        ({"properties.partitioner.class": "com.x.Y"}, "is a class of Java.*KafkaTable"),
    ],
)
def test_what_can_t_be_written_is_an_error_before_the_job(
    spark: Any, broker: Any, options: dict[str, str], told: str
) -> None:
    ddl = ORDERS.format(topic="source-to", bootstrap=broker.bootstrap)
    rows = spark.createDataFrame([(1, "a")], "id INT, name STRING")
    with pytest.raises(Exception, match=f"(?s){told}"):
        rows.write.format("kvformat").option("ddl", ddl).options(**options).mode("append").save()


# --- filters and columns ----------------------------------------------------------------------------------------------


def test_filters_narrow_what_is_read(spark: Any, broker: Any) -> None:
    """A bad record outside of the filters is not read, so it fails nothing."""
    ddl = orders(broker, "source-filtered", 0, 2)
    for n, timestamp in enumerate((1_000_000, 2_000_000, 3_000_000)):
        broker.send("source-filtered", records(1, n), partition=0, timestamp=timestamp)
    broker.send("source-filtered", [(b"{}", b"{bad")], partition=1)
    found = load(spark, ddl, metadata="p:partition,o:offset,t:timestamp", push_filters="true")
    name = "spark.sql.python.filterPushdown.enabled"
    with pytest.raises(Exception, match="filterPushdown"):
        found.collect()
    before = spark.conf.get(name)
    spark.conf.set(name, "true")
    try:
        cases = {
            "p = 0": [0, 1, 2],
            "p IN (0) AND o > 0": [1, 2],
            "p < 1 AND o BETWEEN 1 AND 1": [1],
            "p = 0 AND t >= TIMESTAMP '1970-01-01 00:33:20'": [1, 2],
            "p = 0 AND o IN (0, 2)": [0, 2],
        }
        for condition, expected in cases.items():
            rows = load(spark, ddl, metadata="p:partition,o:offset,t:timestamp", push_filters="true").where(condition)
            assert ids(rows) == expected, condition
        assert len(cases) == 5
    finally:
        spark.conf.set(name, before)


def test_only_some_columns_are_decoded(spark: Any, broker: Any) -> None:
    """A value that is not valid for its column is not an error if the column is not read."""
    broker.send(broker.create("source-columns"), [(None, b'{"id":1,"name":"a","price":"x"}')])
    ddl = (
        "CREATE TABLE t (id INT, name STRING, price INT, place INT METADATA FROM 'partition' VIRTUAL) WITH ("
        f"'connector' = 'kafka', 'topic' = 'source-columns', 'properties.bootstrap.servers' = '{broker.bootstrap}', "
        "'format' = 'json', 'scan.startup.mode' = 'earliest-offset')"
    )
    found = load(spark, ddl, columns="name;id", metadata="offset")
    assert [row.asDict() for row in found.select("id", "name").collect()] == [{"id": 1, "name": "a"}]
    assert found.columns == ["id", "name", "offset"]
    with pytest.raises(Exception, match="price"):
        load(spark, ddl).collect()
    with pytest.raises(Exception, match=r"table 't' has no column 'nmae'. Did you mean 'name'"):
        load(spark, ddl, columns="nmae").schema  # noqa: B018 - Connect looks then
