"""The block `sink`: each rule of its options."""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.ingestion.pipeline.sink import PipelineSink, parse_sink
from kvformat.ingestion.pipeline.yaml import Secret
from kvformat.ingestion.targets.discovery import target_of
from kvformat.registry import ConfigurationError

KAFKA = {"type": "kafka", "properties.bootstrap.servers": "broker:9092"}


def _sink(**options: Any) -> PipelineSink:
    return parse_sink({**KAFKA, **options})


def _error(block: dict[str, Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_sink(block)
    return str(caught.value)


def test_defaults() -> None:
    assert dict(_sink().values) == {
        "type": "kafka",
        "name": None,
        "properties.bootstrap.servers": "broker:9092",
        "sink.delivery-guarantee": "at-least-once",
        "sink.transactional-id-prefix": "kvformat",
        "sink.add-tableId-to-header-enabled": False,
        "topic": None,
        "sink.tableId-to-topic.mapping": None,
        "partition.strategy": "all-to-zero",
        "key.format": "json",
        "value.format": "debezium-json",
        "sink.custom-header": "",
        "debezium-json.include-schema.enabled": False,
        "debezium-json.emit.full-table-id.enabled": False,
        "debezium-json.payload": "json",
        **{
            f"{name}.{option}": default
            for name in ("debezium-json", "json")
            for option, default in (
                ("timestamp-format.standard", "SQL"),
                ("encode.decimal-as-plain-number", False),
                ("encode.ignore-null-fields", False),
                ("map-null-key.mode", "FAIL"),
                ("map-null-key.literal", "null"),
            )
        },
    }
    delta = parse_sink({"type": "delta"}).values
    assert (delta["write-mode"], delta["create-tables"], delta["sink.type-normalize-strategy"]) == (
        "merge",
        True,
        "standard",
    )
    assert delta["rewrite.max-bytes"] == 2**30


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"type": "kafk"},
            "sink: unknown type 'kafk'. Did you mean 'kafka'? Supported types: kafka, upsert-kafka, delta,",
        ),
        ({"properties.bootstrap.servers": "x", "topci": "y"}, "there is no option 'topci'. Did you mean 'topic'?"),
        ({"value.format": "json"}, "supported values are [debezium-json, canal-json]"),
        ({"key.format": "raw"}, "supported values are [json, csv]"),
        ({"partition.strategy": "hash_by_key"}, "supported values are [all-to-zero, hash-by-key]"),
        ({"partition.strategy": "HASH_BY_KEY"}, "supported values are [all-to-zero, hash-by-key]"),
        ({"sink.delivery-guarantee": "EXACTLY_ONCE"}, "supported values are [none, at-least-once, exactly-once]"),
        ({"sink.add-tableId-to-header-enabled": "yes"}, "expected true or false"),
        ({"sink.custom-header": "a:b:c"}, "an entry of 'sink.custom-header' must be name:value, with one ':': 'a:b:c'"),
        ({"sink.custom-header": "a:"}, "an entry of 'sink.custom-header' must be name:value"),
        ({"sink.custom-header": "a:b;;c:d"}, "an entry of 'sink.custom-header' must be name:value"),
        ({"sink.tableId-to-topic.mapping": "a:b:c"}, "must be table[,table]:topic, with one ':': 'a:b:c'"),
        ({"sink.tableId-to-topic.mapping": "a"}, "must be table[,table]:topic"),
        ({"sink.tableId-to-topic.mapping": "a.b.c.d:t"}, "a pattern of table names has one to three parts"),
        ({"sink.tableId-to-topic.mapping": "[:t"}, "which is not a pattern of table names"),
        ({"debezium-json.timestamp-format.standard": "RFC"}, "supported values are [SQL, ISO-8601]"),
        ({"debezium-json.include-schema.enabled": "1"}, "expected true or false"),
        ({"maxwell-json.encode.ignore-null-fields": "true"}, "but the formats are debezium-json, json"),
        ({"key.format": "csv", "avro.encoding": "json"}, "but the formats are csv, debezium-json"),
        ({"catalog": "lake"}, "there is no option 'catalog'"),
        ({"type": "delta"}, "there is no option 'properties.bootstrap.servers'"),
        (
            {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": ""},
            "'sink.transactional-id-prefix' must not be empty with 'exactly-once'",
        ),
        (
            {"topic": {"a": "b"}},
            "sink: option 'topic' must be a text, not a map. Write its keys as 'topic.<key>: <value>'",
        ),
        ({"topic": ["a"]}, "sink: option 'topic' must be a text, not a list"),
        ({"include.schema.changes": "create"}, "'include.schema.changes' must be a list: put '- ' before each entry"),
        ({"include.schema.changes": {"create": ""}}, "must be a list: put '- ' before each entry"),
        ({"exclude.schema.changes": [["drop"]]}, "'exclude.schema.changes' must be a list of texts"),
    ],
)
def test_malformed_options_are_errors(options: dict[str, Any], reason: str) -> None:
    assert reason in _error({**KAFKA, **options})


def test_missing_options_are_errors() -> None:
    assert "sink: the option 'type' is missing. Types: kafka, upsert-kafka, delta" in _error({})
    assert "the option 'properties.bootstrap.servers' is missing" in _error({"type": "kafka"})
    assert "there is no option 'json.x'" in _error({**KAFKA, "type": "upsert-kafka", "json.x": "y"})
    assert "there is no option 'aliyun.kafka.x'" in _error({"type": "delta", "aliyun.kafka.x": "y"})


def test_enumerations_match_in_any_case() -> None:
    found = _sink(**{"type": "Kafka", "partition.strategy": "Hash-By-Key", "value.format": "CANAL-JSON"})
    assert (found.values["partition.strategy"], found.values["value.format"]) == ("hash-by-key", "canal-json")
    broaden = parse_sink({"type": "iceberg", "sink.type-normalize-strategy": "BROADEN"})
    assert broaden.values["sink.type-normalize-strategy"] == "broaden"


@pytest.mark.parametrize("type_", ["hologres", "paimon", "StarRocks", "doris", "elasticsearch", "maxcompute"])
def test_sinks_of_flink_cdc_are_refused_with_another_way(type_: str) -> None:
    found = parse_sink({"type": type_, "endpoint": "e", "anything": "x"})
    (why,) = found.refused
    assert why.startswith(f"sink '{type_.lower()}' is not supported: use 'delta' or 'iceberg'")
    assert "kvformat.targets" in why
    strategy = parse_sink({"type": type_, "sink.type-normalize-strategy": "BROADEN"})
    assert "'sink.type-normalize-strategy' is known there" in strategy.refused[0]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"value.format": "canal-protobuf", "canal-protobuf.x": "y"},
            "'value.format' = 'canal-protobuf' is not supported",
        ),
    ],
)
def test_what_spark_cannot_do_is_refused_not_an_error(options: dict[str, str], reason: str) -> None:
    (why,) = _sink(**options).refused
    assert reason in why


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (
            {"aliyun.kafka.endpoint": "x", "aliyun.kafka.a": "y"},
            "aliyun.kafka.a, aliyun.kafka.endpoint; use 'properties.sasl.*'",
        ),
        ({"sink.delivery-guarantee": "none"}, "'sink.delivery-guarantee' = 'none' is 'at-least-once'"),
        ({"sink.transactional-id-prefix": "a"}, "'sink.transactional-id-prefix'; only 'exactly-once' has transactions"),
        (
            {"sink.delivery-guarantee": "exactly-once", "properties.transactional.id": "a"},
            "'properties.transactional.id' has no effect: transactions are named by 'sink.transactional-id-prefix'",
        ),
        ({"topic": "all", "sink.tableId-to-topic.mapping": "a:b"}, "because 'topic' is set"),
        ({"properties.bathc.size": "1"}, "Did you mean 'properties.batch.size'?"),
        # Flink CDC ignores unknown options of formats: vector sink-0580
        ({"debezium-json.include-schema": "true"}, "Did you mean 'debezium-json.include-schema.enabled'?"),
    ],
)
def test_options_without_effect_are_said_once(options: dict[str, str], note: str) -> None:
    (found,) = _sink(**options).notes
    assert note in found
    assert "no effect" in found


def test_an_empty_topic_is_no_topic() -> None:
    found = _sink(**{"topic": "", "sink.tableId-to-topic.mapping": "a:b"})
    assert found.values["topic"] is None
    assert found.notes == ()


def test_topics_by_table_and_headers_are_in_order_and_trimmed() -> None:
    found = _sink(
        **{
            "sink.tableId-to-topic.mapping": r" mydb.t1 , mydb.t2 : one ;mydb.\.*:two;",
            "sink.custom-header": "k1:v1;k2: v 2 ;",
        }
    )
    assert found.topics == ((("mydb.t1 , mydb.t2",), "one"), ((r"mydb.\.*",), "two"))
    assert found.headers == (("k1", "v1"), ("k2", "v 2"))
    assert (_sink().topics, _sink().headers) == ((), ())


def test_options_of_the_formats_of_key_and_value() -> None:
    found = _sink(
        **{
            "canal-json.map-null-key.mode": "literal",
            "value.format": "canal-json",
            "key.format": "csv",
            "csv.null-literal": "x",
            "debezium-json.include-schema.enabled": "true",
            "json.timestamp-format.standard": "SQL",
        }
    )
    assert found.values["canal-json.map-null-key.mode"] == "LITERAL"
    assert "debezium-json.include-schema.enabled" not in found.values
    assert [note.partition(",")[0] for note in sorted(found.notes)] == [
        "sink: no effect: 'csv.null-literal'",
        "sink: no effect: 'debezium-json.include-schema.enabled'",
        "sink: no effect: 'json.timestamp-format.standard'",
    ]


def test_schema_changes_and_properties_of_tables() -> None:
    found = parse_sink(
        {
            "type": "iceberg",
            "include.schema.changes": ["create", "ADD.column"],
            "exclude.schema.changes": [],
            "table-properties.format-version": "3",
            "table-properties": "a:b,format-version:2",
        }
    )
    assert found.include == ("create", "add.column")
    assert found.exclude == ()
    assert found.values["table-properties"] == {"a": "b", "format-version": "3"}
    assert parse_sink({"type": "values"}).exclude is None
    refused = parse_sink({"type": "hologres", "include.schema.changes": ["add"], "exclude.schema.changes": ["drop"]})
    assert (refused.include, refused.exclude) == (("add",), ("drop",))


def test_a_path_and_a_catalog_exclude_each_other() -> None:
    for key in ("catalog", "namespace"):
        assert f"'{key}' and 'path' exclude each other" in _error({"type": "delta", "path": "/lake", key: "x"})
    assert "'path' must not be empty" in _error({"type": "delta", "path": ""})


def test_upkeep_is_after_some_commits_or_never() -> None:
    delta = {"type": "delta", "path": "/lake"}
    assert parse_sink({**delta, "upkeep.commits": "0"}).values["upkeep.commits"] == 0
    assert "'upkeep.commits' must be at least 0, which is never" in _error({**delta, "upkeep.commits": "-1"})


def test_options_of_a_path_have_no_effect_in_a_catalog() -> None:
    sink = parse_sink({"type": "delta", "catalog": "lake", "storage-options.AWS_REGION": "x", "upkeep.commits": "3"})
    assert sink.notes == (
        "sink: no effect: 'storage-options.AWS_REGION', because there is no 'path'",
        "sink: no effect: 'upkeep.commits', because there is no 'path'",
    )


def test_options_of_an_object_store_are_never_shown() -> None:
    options = {"storage-options.AWS_REGION": "hunter2", "storage-options": "a:hunter3"}
    sink = parse_sink({"type": "delta", "path": "s3://lake", **options})
    assert sink.values["storage-options"] == {"AWS_REGION": "hunter2", "a": "hunter3"}
    for shown in (repr(sink), repr(sink.options), repr(sink.values), repr(target_of(sink)), str(sink.values.shown)):
        assert "hunter" not in shown


def test_an_entry_of_a_map_may_be_a_secret() -> None:
    sink = parse_sink({"type": "delta", "table-properties.a": Secret("hunter2"), "table-properties.b": "c"})
    assert sink.values["table-properties"] == {"a": "hunter2", "b": "c"}
    assert repr(sink.values).count("hunter2") == 0
    assert "'b': 'c'" in repr(sink.values)


def test_what_endangers_records_is_said() -> None:
    assert [note.partition(":")[0] for note in _sink(**{"properties.acks": "1"}).notes] == ["sink", "sink"]
    assert "is lost if the broker that has it fails" in _sink(**{"properties.acks": "1"}).notes[0]
    assert _sink(**{"properties.acks": "all"}).notes == ()


def test_a_key_that_java_can_not_read_is_told() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----"
    (note,) = _sink(**{"properties.security.protocol": "SSL", "properties.ssl.keystore.key": key}).notes
    assert note.startswith("sink: 'properties.ssl.keystore.key' ")
