"""Tables to topics: the records of a DataFrame, and what a broker has after a write."""

from __future__ import annotations

import collections
import contextlib
import datetime as dt
import itertools
import json
import logging
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyspark.errors import StreamingQueryException

from kvformat.connectors import KafkaTable, brokers, topics
from kvformat.connectors.exactly_once import ExactlyOnce
from kvformat.ingestion import Pipeline, tables_to_topics
from kvformat.ingestion.local_store import LocalSchemaStore
from kvformat.ingestion.pipeline.sink import parse_sink
from kvformat.ingestion.schemas.events import AddColumns, AddedColumn
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.ingestion.start import start_query
from kvformat.ingestion.targets.discovery import target_of
from kvformat.ingestion.targets.target import BatchWrite, TableOptions
from kvformat.ingestion.targets.topics import TopicTarget
from kvformat.registry.contract.errors import (
    BrokerError,
    ConfigurationError,
    KafkaSinkWarning,
    OptionError,
    SchemaError,
)
from tests.support.starting import started

TABLE = TableId(("shop", "orders"))
SCHEMA = TableSchema(
    (SchemaColumn("id", parse_column_type("BIGINT NOT NULL")), SchemaColumn("v", parse_column_type("STRING"))), ("id",)
)
CHANGES = [
    (1, "a", "+I"),
    (2, "x", "+I"),
    (1, "a", "-U"),
    (1, "b", "+U"),
    (2, "x", "-D"),
    (1, "b", "-U"),
    (3, "b", "+U"),
]


def changes(spark: Any, rows: Any = CHANGES, columns: str = "id BIGINT, v STRING, row_kind STRING") -> Any:
    return spark.createDataFrame(rows, columns).coalesce(1)


def target(broker: Any, type: str = "kafka", **options: str) -> TopicTarget:
    given = {"type": type, "properties.bootstrap.servers": broker if isinstance(broker, str) else broker.bootstrap}
    found = target_of(parse_sink(given | options))
    assert isinstance(found, TopicTarget)
    return found


def sent(df: Any) -> list[tuple[Any, ...]]:
    return [(r.key and r.key.decode(), r.value and r.value.decode(), r.topic, r.partition) for r in df.collect()]


def read(broker: Any, topic: str) -> list[tuple[Any, ...]]:
    return [(m.key(), m.value(), m.partition()) for m in broker.records(topic)]


# --- records ---------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_changes_become_records(spark: Any) -> None:
    records = tables_to_topics(changes(spark), table="shop.orders", primary_key=["id"])
    assert records.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("headers", "array<struct<key:string,value:binary>>"),
        ("topic", "string"),
        ("partition", "int"),
    ]
    source = '"source":{"db":"shop","table":"orders"}}'
    one, two = '{"TableId":"shop.orders","id":1}', '{"TableId":"shop.orders","id":2}'
    values = [
        '{"before":null,"after":{"id":1,"v":"a"},"op":"c",',
        '{"before":null,"after":{"id":2,"v":"x"},"op":"c",',
        '{"before":{"id":1,"v":"a"},"after":{"id":1,"v":"b"},"op":"u",',
        '{"before":{"id":2,"v":"x"},"after":null,"op":"d",',
        '{"before":{"id":1,"v":"b"},"after":{"id":3,"v":"b"},"op":"u",',
    ]
    keys = [one, two, one, two, '{"TableId":"shop.orders","id":3}']
    assert sent(records) == [(k, v + source, "shop.orders", 0) for k, v in zip(keys, values, strict=True)]
    assert {row.headers for row in records.collect()} == {None}


@pytest.mark.spark
def test_a_changed_key_is_two_records_where_records_go_by_their_key(spark: Any) -> None:
    options = {"partition.strategy": "hash-by-key", "value.format": "canal-json", "key.format": "csv"}
    records = sent(tables_to_topics(changes(spark), table="shop.orders", primary_key=["id"], options=options))
    assert [(key, json.loads(value)["type"], partition) for key, value, _, partition in records] == [
        ("shop.orders,1", "INSERT", None),
        ("shop.orders,2", "INSERT", None),
        ("shop.orders,1", "UPDATE", None),
        ("shop.orders,2", "DELETE", None),
        ("shop.orders,1", "DELETE", None),
        ("shop.orders,3", "UPDATE", None),
    ]
    upserts = tables_to_topics(
        changes(spark), table="shop.orders", primary_key=["id"], options={"type": "upsert-kafka"}
    )
    assert sent(upserts) == [
        ('{"id":1}', '{"id":1,"v":"a"}', "shop.orders", None),
        ('{"id":2}', '{"id":2,"v":"x"}', "shop.orders", None),
        ('{"id":1}', '{"id":1,"v":"b"}', "shop.orders", None),
        ('{"id":2}', None, "shop.orders", None),
        ('{"id":1}', None, "shop.orders", None),
        ('{"id":3}', '{"id":3,"v":"b"}', "shop.orders", None),
    ]


@pytest.mark.spark
def test_an_update_across_arrow_batches_is_one_record(spark: Any) -> None:
    compared = 0
    for first in (998, 999, 1000):  # a batch has 1000 rows
        rows = [(n, "a", "+I") for n in range(first)]
        rows += [(0, "a", "-U"), (0, "b", "+U"), (1, "a", "-U")]
        for options in ({}, {"type": "upsert-kafka"}):
            records = sent(
                tables_to_topics(changes(spark, rows), table="shop.orders", primary_key=["id"], options=options)
            )
            assert len(records) == first + 2
            if not options:
                assert json.loads(records[-2][1])["before"] == {"id": 0, "v": "a"}
                assert json.loads(records[-1][1])["op"] == "d"
            else:
                assert [value for _, value, *_ in records[-2:]] == ['{"id":0,"v":"b"}', None]
            compared += 1
    assert compared == 6


@pytest.mark.spark
def test_rows_without_kinds_are_inserts_of_any_type(spark: Any, time_zone: str) -> None:
    columns = {
        "id": "BIGINT",
        "flag": "BOOLEAN",
        "d": "DECIMAL(10, 2)",
        "at": "TIMESTAMP_NTZ",
        "ltz": "TIMESTAMP",
        "day": "DATE",
        "b": "BINARY",
        "l": "ARRAY<STRING>",
        "m": "MAP<STRING, INT>",
        "s": "STRUCT<a: INT, b: STRING>",
        "none": "STRING",
    }
    row = (
        *(7, True, Decimal("1.50"), dt.datetime(2024, 2, 29, 12, 0, 0, 123000)),
        *(dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC), dt.date(2024, 2, 29), bytearray(b"\xff"), ["a", None]),
        *({"k": 1}, (1, "b"), None),
    )
    given = ", ".join(f"{name} {type}" for name, type in columns.items())
    frame = spark.createDataFrame([row], given).selectExpr("*", "INTERVAL '1' YEAR AS y")
    options = {"topic": "all", "sink.add-tableId-to-header-enabled": "true", "sink.custom-header": "k:v"}
    (record,) = tables_to_topics(frame, table="a.b.c", options=options).collect()
    assert (record.key, record.topic, record.partition) == (b'{"TableId":"a.b.c"}', "all", 0)
    assert [(h.key, bytes(h.value)) for h in record.headers] == [
        ("namespace", b"a"),
        ("schemaName", b"b"),
        ("tableName", b"c"),
        ("k", b"v"),
    ]
    assert json.loads(record.value) == {
        "before": None,
        "after": {
            "id": 7,
            "flag": True,
            "d": 1.5,
            "at": "2024-02-29 12:00:00.123",
            "ltz": "2024-02-29 12:00:00Z",
            "day": "2024-02-29",
            "b": "/w==",
            "l": ["a", None],
            "m": {"k": 1},
            "s": {"a": 1, "b": "b"},
            "none": None,
            "y": 12,
        },
        "op": "c",
        "source": {"db": "b", "table": "c"},
    }
    (some,) = tables_to_topics(frame, table="t", primary_key=["day", "id"], columns=["id", "day"]).collect()
    assert some.key == b'{"TableId":"t","day":"2024-02-29","id":7}'
    assert json.loads(some.value)["after"] == {"id": 7, "day": "2024-02-29"}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("rows", "columns", "reason"),
    [
        ([(None, "a", "+I")], None, r"\[NULL_KEY\] table shop.orders: cannot encode a row: column 'id' of the PRIMARY"),
        ([(1, "a", "u")], None, r"\[UNKNOWN_OPERATION\] column 'row_kind' must be '\+I'.*not 'u'"),
        ([(1, "a", None)], None, r"\[UNKNOWN_OPERATION\] column 'row_kind' must be '\+I'.*not None"),
    ],
)
def test_a_bad_row_fails_the_job(spark: Any, rows: Any, columns: Any, reason: str) -> None:
    records = tables_to_topics(changes(spark, rows), table="shop.orders", primary_key=["id"])
    with pytest.raises(Exception, match=reason):
        records.collect()


@pytest.mark.spark
def test_values_that_a_message_leaves_out_are_never_written_as_null(spark: Any) -> None:
    rows = [(1, "a", "+I", []), (1, None, "+U", ["v"])]
    frame = changes(spark, rows, "id BIGINT, v STRING, row_kind STRING, unchanged_columns ARRAY<STRING>")
    made = target("b:1")
    assert len(made.records(TABLE, SCHEMA, frame.limit(1)).collect()) == 1
    of_a_format = frame.limit(1).selectExpr("*", "0 AS row_index")
    ((_, value, *_),) = sent(tables_to_topics(of_a_format, table="t", primary_key=["id"]))
    assert json.loads(value)["after"] == {"id": 1, "v": "a"}, "what decoding adds is no column of the table"
    with pytest.raises(Exception, match=r"\[NULL_VALUE\] table shop.orders: cannot encode a row.*has no value: v"):
        made.records(TABLE, SCHEMA, frame).collect()


@pytest.mark.spark
def test_what_does_not_fit_is_an_error_before_a_job(spark: Any) -> None:
    frame = changes(spark)
    cases = [
        ({"primary_key": ["nr"]}, SchemaError, "table 't' has no column 'nr'"),
        ({"primary_key": ["id"], "columns": ["v"]}, SchemaError, "table 't' has no column 'id'. The columns: v;"),
        ({"columns": ["id", "w"]}, SchemaError, "table 't' has no column 'w'"),
        ({"primary_key": "id"}, ConfigurationError, r"primary_key must be a list of column names, \['id'\]"),
        ({"table": "a.b.c.d"}, OptionError, "a name has one to three parts"),
        ({"options": {"value.fromat": "canal-json"}}, OptionError, "Did you mean 'value.format'"),
        ({"options": {"sink.delivery-guarantee": "exactly-once"}}, OptionError, "has no effect on records that"),
        ({"options": {"type": "delta"}}, OptionError, "'type' must be one of kafka, upsert-kafka"),
        ({"options": {"type": "upsert-kafka"}}, SchemaError, "the sink 'upsert-kafka' needs a primary key"),
    ]
    for arguments, kind, text in cases:
        with pytest.raises(kind, match=text):
            tables_to_topics(frame, **{"table": "t", **arguments})
    with pytest.raises(SchemaError, match="'row_kind' must be STRING, not int"):
        tables_to_topics(spark.sql("SELECT 1 AS id, 1 AS row_kind"), table="t")
    with pytest.warns(KafkaSinkWarning, match="aliyun"):
        tables_to_topics(frame, table="t", primary_key=["id"], options={"type": "upsert-kafka", "aliyun.kafka.x": "y"})


def test_a_target_hides_its_options_and_can_be_pickled() -> None:
    made = target("b:1", **{"properties.sasl.jaas.config": "m required password=sesame;"})
    assert "sesame" not in repr(made)
    copy = pickle.loads(pickle.dumps(made))
    assert copy.options["properties.sasl.jaas.config"].endswith("sesame;")
    assert (made.rows, made.has_tables, made.schema(TABLE)) == ("changes", False, None)
    made.change(AddColumns(TABLE, (AddedColumn(SCHEMA.columns[1]),)), SCHEMA, BatchWrite("q", 0))
    made.own(TABLE, "query")
    with pytest.raises(OptionError, match="the type 'values' does not write topics"):
        TopicTarget.from_sink(parse_sink({"type": "values"}))
    refused = {"type": "kafka", "properties.bootstrap.servers": "b:1", "value.format": "canal-protobuf"}
    with pytest.raises(OptionError, match="'canal-protobuf' is not supported"):
        TopicTarget.from_sink(parse_sink(refused))
    with pytest.raises(OptionError, match=r"'properties.acks' = '1' does not fit 'sink.delivery-guarantee'"):
        target("b:1", **{"sink.delivery-guarantee": "exactly-once", "properties.acks": "1"})


@pytest.mark.parametrize("type", ["kafka", "upsert-kafka"])
@pytest.mark.parametrize("value", [None, "false", "true"])
def test_headers_have_the_name_of_the_table_if_the_option_says_so(type: str, value: str | None) -> None:
    made = target("b:1", type, **({} if value is None else {"sink.add-tableId-to-header-enabled": value}))
    assert (made.settings is None) == (type == "upsert-kafka")
    by_settings = () if made.settings is None else made.settings.headers_of(TABLE)
    assert (made.table_headers or bool(by_settings)) == (value == "true")
    assert not (made.table_headers and by_settings)  # they would come twice


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, []),
        ({"sink.tableId-to-topic.mapping": "a:one;b:two;c:one"}, ["one", "two"]),
        ({"sink.tableId-to-topic.mapping": "a:one", "topic": "all"}, ["all"]),
    ],
)
def test_the_probe_asks_once_for_the_topics_that_the_options_name(
    options: dict[str, str], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(topics, "check", lambda table, wanted, spark: asked.extend(wanted) or {})
    made = target("b:1", **options)
    session: Any = object()
    for _ in range(2):
        made.with_session(session).probe()
    assert asked == names


@pytest.mark.parametrize(
    ("options", "key", "partitions", "told"),
    [
        ({}, True, 2, "topic 'shop.orders' has 2 partitions, and 'partition.strategy' = 'all-to-zero'"),
        ({}, True, 1, None),
        ({"partition.strategy": "hash-by-key"}, True, 2, None),
        ({"partition.strategy": "hash-by-key"}, False, 2, "table shop.orders has no primary key: 'partition.strategy'"),
    ],
)
def test_what_the_partitions_of_a_topic_mean_is_told_once(
    options: dict[str, str],
    key: bool,
    partitions: int,
    told: str | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(topics, "check", lambda table, wanted, spark: dict.fromkeys(wanted, partitions))
    session: Any = object()
    made, schema = target("b:1", **options), TableSchema(SCHEMA.columns, SCHEMA.primary_key if key else ())
    for _ in range(2):
        made.with_session(session).create(TABLE, schema, TableOptions(), "q")
    assert [text.getMessage()[: len(told or "")] for text in caplog.records] == ([] if told is None else [told])


def test_marks_stay_in_a_topic_of_the_first_batch_also_after_a_new_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver has to find the marks of the one before."""
    written: list[tuple[Any, ...]] = []

    def write(once: ExactlyOnce, records: Any, batch: int, placed: Any) -> None:
        written.append((batch, once.settings.topics, once.query, once.checkpoint_location, once.in_order))

    monkeypatch.setattr(ExactlyOnce, "checked", lambda once, _: once)
    monkeypatch.setattr(ExactlyOnce, "write", write)
    store, records = LocalSchemaStore(tmp_path), [mock.Mock()]
    for start, names in ((0, {"b", "c"}), (2, {"a"})):
        made = target("b:1", **{"sink.delivery-guarantee": "exactly-once"})
        for batch in (start, start + 1):
            made.checked.update(names)
            made.write_together(records, BatchWrite("q", batch), store)
            names = {"0"}
    assert written == [(batch, ("b",), "q", str(tmp_path), True) for batch in range(4)]


# --- a broker --------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.services
def test_a_target_writes_topics(spark: Any, broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    broker.create("shop.orders", 3)
    broker.create("shop-mapped", 3)
    rows = changes(spark)
    with caplog.at_level(logging.WARNING, "kvformat.ingest"):
        made = target(broker).with_session(spark)
        for number in range(2):
            made.write(TABLE, SCHEMA, rows, BatchWrite("q", number))
    assert [r.getMessage().partition(",")[0] for r in caplog.records] == ["topic 'shop.orders' has 3 partitions"]
    written = read(broker, "shop.orders")
    assert len(written) == 10  # at least once: a repeated batch is there twice
    assert {partition for *_, partition in written} == {0}

    mapped = {"sink.tableId-to-topic.mapping": r"shop.\.*:shop-mapped", "partition.strategy": "hash-by-key"}
    many = changes(spark, [(n % 50, str(n), "+I") for n in range(500)])
    by_key = target(broker, **mapped).with_session(spark)
    by_key.probe()
    by_key.write(TABLE, SCHEMA, many, BatchWrite("q", 0))
    found = collections.defaultdict(list)
    places = collections.defaultdict(set)
    for key, value, partition in read(broker, "shop-mapped"):
        found[key].append(int(json.loads(value)["after"]["v"]))
        places[key].add(partition)
    assert sorted(found.values()) == [list(range(key, 500, 50)) for key in range(50)]
    assert {len(partitions) for partitions in places.values()} == {1}
    assert len({partition for partitions in places.values() for partition in partitions}) == 3


@pytest.mark.spark
@pytest.mark.services
def test_missing_topics_are_errors_before_the_first_write(spark: Any, broker: Any) -> None:
    rows = changes(spark)
    for type in ("kafka", "upsert-kafka"):
        with pytest.raises(OptionError, match=r"table 'db.missing': there is no topic 'db.missing'"):
            target(broker, type).with_session(spark).write(TableId(("db", "missing")), SCHEMA, rows, BatchWrite("q", 0))
    with pytest.raises(OptionError, match="there is no topic 'nowhere'"):
        target(broker, topic="nowhere").with_session(spark).probe()
    with pytest.raises(OptionError, match=r"there is no topic 'db.new'"):
        target(broker).with_session(spark).create(TableId(("db", "new")), SCHEMA, TableOptions(), "q")


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.slow
def test_upserts_are_read_as_a_table(spark: Any, broker: Any) -> None:
    broker.create("shop.upserts", 2)
    made = target(broker, "upsert-kafka", **{"sink.add-tableId-to-header-enabled": "true"}).with_session(spark)
    made.write(TableId(("shop", "upserts")), SCHEMA, changes(spark), BatchWrite("q", 0))
    options = {
        "connector": "upsert-kafka",
        "topic": "shop.upserts",
        "properties.bootstrap.servers": broker.bootstrap,
        "key.format": "json",
        "value.format": "json",
    }
    table = KafkaTable("id BIGINT NOT NULL, v STRING", options, primary_key=["id"])
    assert sorted(map(tuple, table.read(spark).collect())) == [(3, "b")]
    (first, *_) = broker.records("shop.upserts")
    assert first.headers() == [("namespace", b""), ("schemaName", b"shop"), ("tableName", b"upserts")]


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.slow
@pytest.mark.parametrize("format", ["debezium-json", "canal-json"])
def test_a_stream_of_changes_goes_through_a_topic(spark: Any, broker: Any, tmp_path: Path, format: str) -> None:
    topic = broker.create(f"stream-{format}")
    folder = tmp_path / "changes"
    rows = [row for n in range(300) for row in ((n, "a", "+I"), (n, "a", "-U"), (n, "b", "+U"))]
    rows += [(n, "b", "-D") for n in range(0, 300, 3)]
    changes(spark, rows).write.parquet(str(folder))
    stream = spark.readStream.schema("id BIGINT, v STRING, row_kind STRING").parquet(str(folder))
    records = tables_to_topics(
        stream, table="shop.orders", primary_key=["id"], options={"topic": topic, "value.format": format}
    )
    query = (
        records.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    assert len(broker.records(topic)) == 700
    options = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": broker.bootstrap,
        "scan.startup.mode": "earliest-offset",
        "format": format,
    }
    table = KafkaTable("id BIGINT NOT NULL, v STRING", options, primary_key=["id"])
    wanted = [(n, "b") for n in range(300) if n % 3]
    assert sorted(map(tuple, table.read(spark).collect())) == wanted
    kinds = collections.Counter(row.row_kind for row in table.read(spark, changelog=True).collect())
    assert kinds == {"+I": 300, "-U": 300, "+U": 300, "-D": 100}


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.slow
@pytest.mark.parametrize("type", ["kafka", "upsert-kafka"])
def test_a_pipeline_from_topics_to_topics(spark: Any, broker: Any, tmp_path: Path, type: str) -> None:
    """Records of three partitions go to a topic, in which each key has its changes in order."""
    source = broker.create(f"pipe-{type}", 3)
    topic = broker.create(f"out.{type}", 3)
    text = '{"before":%s,"after":%s,"op":"%s","source":{"db":"shop","table":"orders"}}'
    sent: list[tuple[bytes, bytes]] = []
    for key in range(30):
        rows = [json.dumps({"id": key, "v": version}) for version in range(4)]
        pairs = [("null", rows[0], "c"), *((a, b, "u") for a, b in itertools.pairwise(rows)), (rows[3], "null", "d")]
        sent += [(b"%d" % key, (text % pair).encode()) for pair in pairs[: 4 + key % 2]]
    broker.send(source, sent)
    options = {} if type == "upsert-kafka" else {"partition.strategy": "hash-by-key", "value.format": "canal-json"}
    pipeline = Pipeline(
        {
            "type": "kafka",
            "topic": source,
            "properties.bootstrap.servers": broker.bootstrap,
            "scan.startup.mode": "earliest-offset",
        },
        {"type": type, "properties.bootstrap.servers": broker.bootstrap, **options},
        transform=[{"source-table": r"shop.\.*", "primary-keys": "id"}],
        route=[{"source-table": "shop.orders", "sink-table": topic}],
    )
    query = started(lambda: pipeline.start(spark, checkpoint_location=str(tmp_path), trigger={"availableNow": True}))
    assert query.awaitTermination(200)
    assert query.exception() is None
    found = collections.defaultdict(list)
    for message in broker.records(topic):
        value = None if message.value() is None else json.loads(message.value())
        if type == "kafka":
            assert value is not None
            found[json.loads(message.key())["id"]].append((value["type"], value["data"][0]["v"]))
        else:
            found[json.loads(message.key())["id"]].append(value and value["v"])
    assert len(found) == 30
    kinds = ["INSERT", "UPDATE", "UPDATE", "UPDATE", "DELETE"]
    for key, values in found.items():
        if type == "kafka":
            assert values == list(zip(kinds, (0, 1, 2, 3, 3), strict=True))[: 4 + key % 2]
        else:
            assert values == [0, 1, 2, 3, None][: 4 + key % 2]


_ONCE = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "topics"}


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.parametrize("type", ["kafka", pytest.param("upsert-kafka", marks=pytest.mark.slow)])
def test_a_batch_that_fails_is_written_exactly_once(spark: Any, broker: Any, tmp_path: Path, type: str) -> None:
    """Two tables, of which one is truncated, in four batches; the query fails before and after each step of writing."""
    source = broker.create(f"once-source-{type}", 2)
    out = {table: broker.create(f"once.{table}-{type}", 2) for table in ("orders", "users")}
    sent: list[tuple[bytes, bytes]] = []
    for version in range(8):
        for key, table in itertools.product(range(20), out if version < 4 else ["orders"]):
            rows = [{"id": key, "v": of} if of >= 0 else None for of in (version - 1, version)]
            of = {"db": "shop", "table": table}
            change = {"before": rows[0], "after": rows[1], "op": "u" if version else "c", "source": of}
            sent.append((b"%s %d" % (table.encode(), key), json.dumps(change).encode()))
        if version == 3:
            sent.append((b"", b'{"op":"t","source":{"db":"shop","table":"users"}}'))
    broker.send(source, sent)
    options = {} if type == "upsert-kafka" else {"partition.strategy": "hash-by-key"}
    pipeline = Pipeline(
        {
            "type": "kafka",
            "topic": source,
            "properties.bootstrap.servers": broker.bootstrap,
            "scan.startup.mode": "earliest-offset",
        },
        {"type": type, "properties.bootstrap.servers": broker.bootstrap, **_ONCE, **options},
        transform=[{"source-table": r"shop.\.*", "primary-keys": "id"}],
        route=[{"source-table": f"shop.{table}", "sink-table": topic} for table, topic in out.items()],
    )
    failures = ["decoded", "written", "letters", "looked", "written", "checked"]

    def step(name: str) -> None:
        if failures and name == failures[0]:
            failures.pop(0)
            raise RuntimeError("a failure of the test")

    failed = 0
    while True:
        query = start_query(
            pipeline,
            spark,
            checkpoint_location=tmp_path,
            trigger={"availableNow": True},
            spark_options={"maxOffsetsPerTrigger": "70"},
            step=step,
        )
        with contextlib.suppress(StreamingQueryException):
            query.awaitTermination(200)
        if query.exception() is None:
            break
        assert "a failure of the test" in str(query.exception())
        failed += 1
    assert failed == 6
    compared = 0
    for table, topic in out.items():
        found = collections.defaultdict(list)
        for message in broker.records(topic):
            value = json.loads(message.value())
            found[json.loads(message.key())["id"]].append((value if type == "upsert-kafka" else value["after"])["v"])
        versions = list(range(4 if table == "users" else 8))
        assert dict(found) == dict.fromkeys(range(20), versions)
        compared += 20 * len(versions)
    assert compared == 240


@pytest.mark.spark
@pytest.mark.services
def test_transactions_need_a_reachable_broker_before_the_first_batch(
    spark: Any, broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = {"properties.transaction.timeout.ms": str(2**31 - 1)}
    with pytest.raises(OptionError, match="is larger than the brokers allow"):
        target(broker, **_ONCE, **limit).with_session(spark).probe()
    with monkeypatch.context() as quick:
        quick.setattr(brokers, "TIMEOUT", 0.5)
        with pytest.raises(BrokerError, match="could not be asked for their topics"):
            target("127.0.0.1:1", **_ONCE, topic="t").with_session(spark).probe()
    target(broker, **_ONCE).with_session(spark).probe()
