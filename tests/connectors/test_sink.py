"""The effects of a table's `sink.*` options and `properties.*`, without Spark and without a broker."""

from __future__ import annotations

import random
import re
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.connectors import KafkaTable, java_settings, producer_settings, sink
from kvformat.connectors.buffer import buffered
from kvformat.connectors.properties import CLIENT_SETTINGS, misspelt
from kvformat.connectors.source import planned
from kvformat.registry import ConfigurationError, KafkaSinkWarning, KeyValueFormat, OptionError
from kvformat.registry.contract.types import arrow_type, nullable
from kvformat.registry.streams.dead_letters import DeadLetters, is_topic
from tests.support import interop, services

KAFKA = {
    "connector": "kafka",
    "topic": "t",
    "properties.bootstrap.servers": "b:1",
    "properties.group.id": "g",
    "format": "json",
}
UPSERT = {
    "connector": "upsert-kafka",
    "topic": "t",
    "properties.bootstrap.servers": "b:1",
    "key.format": "json",
    "value.format": "json",
}


def kafka(**options: str) -> KafkaTable:
    return KafkaTable("id INT, name STRING", KAFKA | options)


def upsert(**options: str) -> KafkaTable:
    return KafkaTable("id INT NOT NULL, name STRING", UPSERT | options, primary_key=["id"])


def told(table: KafkaTable) -> list[str]:
    """Return the warnings for the options of the sink."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        table.sink_options()
    assert all(one.category is KafkaSinkWarning and one.filename == __file__ for one in found)
    return [str(one.message) for one in found]


@pytest.mark.parametrize("make", [kafka, upsert])
def test_options_of_sparks_sink_are_refused_with_advice_if_exactly_once(make: Any) -> None:
    table = make(**{"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"})
    with pytest.raises(OptionError, match=r"no transactions.*'at-least-once'.*upsert") as error:
        table.sink_options()
    assert error.value.option == "sink.delivery-guarantee"


ONCE = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}


@pytest.mark.parametrize("make", [kafka, upsert])
def test_exactly_once_needs_a_prefix(make: Any) -> None:
    with pytest.raises(OptionError, match=r"sink.transactional-id-prefix must be specified") as error:
        sink.transactions(make(**{"sink.delivery-guarantee": "exactly-once"}).kv)
    assert error.value.option == "sink.transactional-id-prefix"


def test_settings_of_java_have_their_names_in_librdkafka() -> None:
    given = {
        "max.request.size": "5000000",
        "buffer.memory": "67108864",
        "batch.size": "16384",
        "compression.type": "zstd",
        "compression.zstd.level": "7",
        "linger.ms": "3",
        "send.buffer.bytes": "-1",
        "receive.buffer.bytes": "70000",
        "transaction.timeout.ms": "60000",
        "acks": "-1",
        "client.id": "me",
        "auto.offset.reset": "earliest",
    }
    table = kafka(**ONCE, **{f"properties.{name}": text for name, text in given.items()})
    settings = sink.transactions(table.kv)
    assert {**settings.producer, **settings.client()} == {
        "acks": "-1",
        "batch.size": 16384,
        "bootstrap.servers": "b:1",
        "client.id": "me",
        "compression.level": "7",
        "compression.type": "zstd",
        "delivery.timeout.ms": 60000,
        "linger.ms": "3",
        "message.max.bytes": 5_000_000,
        "partitioner": "murmur2_random",
        "queue.buffering.max.kbytes": 65536,
        "queue.buffering.max.messages": 0,
        "socket.receive.buffer.bytes": "70000",
        "socket.send.buffer.bytes": "0",
        "transaction.timeout.ms": 60000,
    }
    assert list(sink.differences(table.kv)) == []
    assert (settings.topic, settings.names("q").task(3)) == ("t", "p-q-3")


def test_librdkafka_accepts_all_settings() -> None:
    """A misnamed setting would be an error of every task. Java's defaults, and each setting with a value of Java's."""
    from confluent_kafka import Producer

    values = dict.fromkeys((*producer_settings._SAME, *java_settings.CONNECTION), "1000")
    values |= {"acks": "all", "enable.idempotence": "true", "compression.type": "gzip", "compression.gzip.level": "5"}
    values |= {"max.in.flight.requests.per.connection": "5", "metadata.recovery.strategy": "rebootstrap"}
    values |= {"enable.metrics.push": "false", "delivery.timeout.ms": "90000", "send.buffer.bytes": "4096"}
    for given in ({}, values):
        settings = sink.transactions(kafka(**ONCE, **{f"properties.{name}": text for name, text in given.items()}).kv)
        Producer({**settings.client(), **settings.producer, "transactional.id": "x", "log_level": 0})
    assert len(values) >= 18


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("acks", "1", "acknowledgement of all replicas"),
        ("enable.idempotence", "false", "idempotent producer"),
        ("max.in.flight.requests.per.connection", "6", "5 requests at most"),
        ("partitioner.class", "org.example.Mine", "is a class of Java"),
        ("interceptor.classes", "org.example.Traced", "is a class of Java"),
        ("partitioner.ignore.keys", "true", "chooses partitions by key"),
        ("transaction.timeout.ms", "10", "at least 1000"),
        ("transaction.timeout.ms", "soon", "must be a whole number"),
        ("max.request.size", "1 MB", "must be a whole number"),
        ("sasl.login.class", "org.example.Login", "is a class of Java. librdkafka, which writes the transactions"),
    ],
)
def test_settings_that_transactions_cannot_keep_are_refused(option: str, value: str, words: str) -> None:
    table = kafka(**ONCE, **{f"properties.{option}": value})
    with pytest.raises(OptionError, match=re.escape(words)) as error:
        sink.transactions(table.kv)
    assert error.value.option == f"properties.{option}"
    assert words in table.explain()


def test_stores_of_java_are_refused_by_name() -> None:
    options = {"properties.security.protocol": "SSL", "properties.ssl.truststore.location": "/etc/trust.jks"}
    with pytest.raises(
        OptionError, match=r"truststore.location' is a file of type JKS.*PEM or PKCS12.*'at-least-once'"
    ):
        sink.transactions(kafka(**ONCE, **options).kv)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("properties.metric.reporters", "librdkafka, which writes the records, does not have it"),
        ("properties.transactional.id", "named by 'sink.transactional-id-prefix'"),
        ("sink.transaction-naming-strategy", "named after its query and its task"),
    ],
)
def test_options_without_effect_on_transactions_are_told(option: str, words: str) -> None:
    found = list(sink.differences(kafka(**ONCE, **{option: "POOLING"}).kv))
    assert len(found) == 1
    assert option in found[0]
    assert words in found[0]


def test_explain_shows_transactions() -> None:
    text = kafka(**ONCE).explain()
    assert "Writing, exactly once:" in text
    assert "transactional.id = 'p-<query>-<task>'" in text


def test_old_option_name_of_the_guarantee_is_accepted() -> None:
    table = kafka(**{"sink.semantic": "EXACTLY_ONCE", "sink.transactional-id-prefix": "p"})
    with pytest.raises(OptionError, match=r"'sink\.semantic' = 'EXACTLY_ONCE'"):
        table.sink_options()
    assert told(kafka(**{"sink.semantic": "at-least-once"})) == []
    assert "'sink.semantic' = 'none' writes at least once" in told(kafka(**{"sink.semantic": "none"}))[0]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("sink.delivery-guarantee", "none", "writes at least once"),
        ("sink.transactional-id-prefix", "orders", "has no effect"),
        ("sink.transaction-naming-strategy", "POOLING", "has no effect"),
        ("properties.transactional.id", "orders", "is ignored"),
        ("properties.acks", "1", "is lost if the broker"),
        ("properties.enable.idempotence", "false", "change their order"),
        ("properties.max.in.flight.requests.per.connection", "6", "change their order"),
    ],
)
def test_warnings_name_options_with_another_effect(option: str, value: str, words: str) -> None:
    found = told(kafka(**{option: value}))
    assert any(option in one and words in one for one in found), found
    assert told(kafka()) == []


@pytest.mark.parametrize(
    "properties",
    [
        {"enable.idempotence": "true", "max.in.flight.requests.per.connection": "5"},
        {"enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"},
        {"enable.idempotence": "false", "retries": "0"},
        {"acks": "-1", "linger.ms": "20", "compression.type": "zstd"},
    ],
)
def test_no_warning_for_properties_that_keep_the_order(properties: dict[str, str]) -> None:
    assert told(kafka(**{f"properties.{name}": value for name, value in properties.items()})) == []


def test_properties_are_passed_to_the_producer() -> None:
    """All except the group, which is only for reading; `explain` shows the passed properties."""
    assert "kafka.group.id" not in kafka().explain()
    given = {
        "properties.key.serializer": "x",
        "properties.value.serializer": "y",
        "properties.linger.ms": "20",
        "properties.interceptor.classes": "org.example.Traced",
    }
    assert kafka(**given).sink_options() == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.linger.ms": "20",
        "kafka.interceptor.classes": "org.example.Traced",
        "topic": "t",
    }


@pytest.mark.parametrize("topics", [{"topic": "a;b"}, {"topic-pattern": "t.*", "topic": None}])
def test_writing_to_several_topics_requires_a_topic(topics: dict[str, Any]) -> None:
    table = kafka().with_options(topics)
    with pytest.raises(OptionError, match=r"no metadata column names the topic.*'topic'") as error:
        sink.check_topic(table.kv, None)
    assert error.value.option == "topic"
    sink.check_topic(table.kv, {"place": "topic"})
    assert "topic" not in table.sink_options()


def test_repr_does_not_contain_secrets() -> None:
    table = kafka(**{"properties.sasl.jaas.config": 'x required username="u" password="hush";'})
    made = sink.Writer.made(table.kv, None, None, DeadLetters.of("dead", table.sink_options()))
    assert "hush" in str(table.sink_options())
    assert "hush" not in f"{made!r} {made.dead_letters!r} {made}"


# --- the buffer of upsert tables ---------------------------------------------------------------------------


def flushed(records: list[tuple[Any, ...]], most: int, sizes: list[int], keys: list[int]) -> list[tuple[Any, ...]]:
    """Return the buffer's output for records in batches of the given sizes."""
    names = ["key", "value", "topic"][: len(records[0])]
    batches, start = [], 0
    for size in sizes:
        rows = [dict(zip(names, record, strict=True)) for record in records[start : start + size]]
        batches.append(pa.RecordBatch.from_pylist(rows, pa.schema([(name, pa.binary()) for name in names])))
        start += size
    assert start == len(records)
    return [tuple(row.values()) for batch in buffered(most, keys)(iter(batches)) for row in batch.to_pylist()]


def test_buffer_keeps_the_last_record_of_each_key() -> None:
    records = [(b"a", b"1"), (b"b", b"1"), (b"a", None), (b"b", b"2"), (b"c", b"1")]
    assert flushed(records, 3, [5], [0]) == [(b"b", b"1"), (b"a", None), (b"b", b"2"), (b"c", b"1")]
    assert flushed(records, 3, [2, 0, 2, 1], [0]) == flushed(records, 3, [5], [0])
    assert flushed(records, 100, [2, 3], [0]) == [(b"a", None), (b"b", b"2"), (b"c", b"1")]
    assert flushed(records, 1, [5], [0]) == records


def test_buffer_separates_keys_of_different_topics() -> None:
    records = [(b"a", b"1", b"x"), (b"a", b"2", b"y"), (b"a", b"3", b"x")]
    assert flushed(records, 9, [3], [2, 0]) == [(b"a", b"2", b"y"), (b"a", b"3", b"x")]


@pytest.mark.parametrize("seed", range(20))
def test_buffer_works_as_flink_describes(seed: int) -> None:
    chance = random.Random(seed)
    records = [(bytes([chance.randrange(8)]), b"%d" % n) for n in range(chance.randrange(1, 200))]
    most = chance.randrange(1, 40)
    sizes, left = [], len(records)
    while left:
        sizes.append(chance.randrange(0, left + 1))
        left -= sizes[-1]
    expected = []
    for start in range(0, len(records), most):
        window = records[start : start + most]
        expected += [
            record for n, record in enumerate(window) if record[0] not in {later[0] for later in window[n + 1 :]}
        ]
    assert flushed(records, most, sizes, [0]) == expected


def test_buffer_writes_the_same_records_as_flink() -> None:
    case = interop.cases()["upsert_bufferflush_json_json"]
    kv = KeyValueFormat.from_ddl(case["ddl"].format(bootstrap="b:1"))
    columns = interop.table(case)
    row = interop.row_type(columns)
    kinds, rows = zip(*interop.written_rows(case, row), strict=True)
    names = [field.name for field in row.fields]
    structs = pa.array([dict(zip(names, values, strict=True)) for values in rows], arrow_type(nullable(row)))
    written = kv.encode_batch(structs, row_kinds=pa.array(kinds))
    keys, values = written.keys.to_pylist(), written.values.to_pylist()
    most = kv.connector_options("encode")["sink.buffer-flush.max-rows"]
    found = flushed(list(zip(keys, values, strict=True)), most, [len(keys)], [0])
    assert len(found) < len(keys)
    assert dict(found) == dict(zip(*(interop.binary(case, n).to_pylist() for n in ("key", "value")), strict=True))
    assert len(found) == len(case["records"])


# --- dead letters ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["orders-dead", "Orders.dead_1", "a", "x" * 249])
def test_valid_kafka_names_are_topics(text: str) -> None:
    assert is_topic(text)
    assert DeadLetters.of(text, {"kafka.bootstrap.servers": "b:1"}).topic == text


@pytest.mark.parametrize("text", ["./dead", "/dead", "s3://bucket/dead", "dead/", "x" * 250, ".", "..", Path("dead")])
def test_other_texts_are_paths(text: Any) -> None:
    assert not is_topic(text)
    assert DeadLetters.of(text, {}).topic is None


def test_dead_letters_to_a_topic_require_brokers() -> None:
    with pytest.raises(
        ConfigurationError, match=r"'dead' need brokers: .*'properties.bootstrap.servers'.* write './dead'"
    ):
        DeadLetters.of("dead", {})


@pytest.mark.parametrize("to", ["", " ", 7, None, b"dead"])
def test_invalid_targets_for_dead_letters(to: Any) -> None:
    with pytest.raises(ConfigurationError, match="a topic, a path, or a function"):
        DeadLetters.of(to, {})


# --- misspelt settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("isolation.levle", "isolation.level"),
        ("sasl.mechanisms", "sasl.mechanism"),
        ("max.requst.size", "max.request.size"),
        ("security.protocl", "security.protocol"),
        ("Linger.Ms", "linger.ms"),
        ("ack", "acks"),
        ("linger", "linger.ms"),  # a similarity of 0.8
    ],
)
def test_warning_for_a_misspelt_setting_names_the_nearest_one(given: str, meant: str) -> None:
    table = kafka(**{f"properties.{given}": "hush"})
    told_ = told(table)
    assert told_ == [
        f"table 'table': 'properties.{given}' is not a setting of Kafka's clients and has no effect. "
        f"Did you mean 'properties.{meant}'?"
    ]
    notes = planned(table.kv, streaming=False, ask=False).notes
    assert "Did you mean" in notes[f"properties.{given}"]
    assert "hush" not in f"{told_}{notes}"


@pytest.mark.parametrize(
    "given",
    [*sorted(CLIENT_SETTINGS)[::7], "aws.region", "confluent.monitoring.topic", "client.id.prefix", "my.own", "batch"],
)
def test_no_warning_for_settings_of_clients_and_plugins(given: str) -> None:
    assert misspelt({f"properties.{given}": "x"}) == {}


@pytest.mark.services
def test_known_settings_are_those_of_kafka_clients(tmp_path: Path) -> None:
    program = tmp_path / "Names.java"
    classes = ("consumer.ConsumerConfig", "producer.ProducerConfig", "admin.AdminClientConfig")
    lines = "".join(f"org.apache.kafka.clients.{name}.configNames().forEach(System.out::println);" for name in classes)
    program.write_text(f"public class Names {{ public static void main(String[] a) {{ {lines} }} }}")
    command = ["java", "-cp", f"{services.fetched('broker')}/*", str(program)]
    names = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert len(names) >= 140
    assert names <= CLIENT_SETTINGS
