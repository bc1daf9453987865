"""The block `source`: each rule of its options."""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.connectors import KafkaTable, brokers
from kvformat.ingestion.pipeline.options import FORMAT_OPTIONS, SOURCE_OPTIONS
from kvformat.ingestion.pipeline.source import parse_source
from kvformat.ingestion.pipeline.yaml import Secret
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.registry import ConfigurationError, OptionError
from kvformat.registry.sql.connector_options import KAFKA_OPTIONS
from tests.support.sources import source_of


def _error(**options: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        source_of(**options)
    return str(caught.value)


def test_all_options_of_a_table_for_reading_are_options_of_a_source() -> None:
    """Only those of sinks are missing, and those that have another name."""
    names = {spec.name for spec in SOURCE_OPTIONS}
    missing = {spec.name for spec in KAFKA_OPTIONS} - names
    assert {name for name in missing if not name.startswith("sink.")} == {"connector", "format"}
    assert len(names) == len(SOURCE_OPTIONS) >= 36


def test_debezium_has_the_types_of_the_database_where_messages_have_schemas() -> None:
    def types(**options: str) -> Any:
        made = source_of(**options).value_format
        assert made is not None
        assert made.options["other-messages"] == "skip-all"
        return made.options["types"]

    assert types() == "flink"
    assert types(**{"debezium-json.schema-include": "TRUE"}) == "debezium"
    assert types(**{"debezium-json.schema-include": "true", "debezium-json.types": "flink"}) == "flink"
    avro = {"value.format": "debezium-avro-confluent", "debezium-avro-confluent.url": "mock://x"}
    assert types(**avro) == "debezium"
    assert types(**{"value.format": "maxwell-json"}) == "flink"


def test_a_source_is_parsed_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its query asks for the offsets of the group when it starts."""
    monkeypatch.setattr(brokers, "admin", lambda _: pytest.fail("a broker was asked"))
    source = source_of(**{"scan.startup.mode": "group-offsets", "properties.group.id": "g"})
    assert source.records is not None


def test_given_records_need_no_topic_and_no_broker() -> None:
    given = {"type": "records", "value.format": "json", "scan.bounded.mode": "latest-offset"}
    schemas = {"scan.value.initial-schemas.ddls": "CREATE TABLE t (a INT)"}
    source = parse_source({**given, **schemas, "scan.startup.mode": "latest-offset", "topic": "t"})
    assert (source.type, source.records, [*source.schemas]) == ("records", None, [TableId(("t",))])
    assert [note.partition(", because")[0] for note in source.notes] == [
        "source: no effect: 'scan.startup.mode'",
        "source: no effect: 'topic'",
    ]
    assert "no effect: 'topic-pattern', because a stream" in parse_source({**given, "topic-pattern": "t"}).notes[0]
    with pytest.raises(OptionError, match=r"there is no option 'value\.fomat'\. Did you mean 'value\.format'"):
        parse_source({**given, "value.fomat": "json"})
    with pytest.raises(OptionError, match=r"unknown type 'recrods'\. Did you mean 'records'"):
        parse_source({**given, "type": "recrods"})
    with pytest.raises(OptionError, match="the option 'type' is missing; it is 'kafka', or 'records' for a stream"):
        parse_source({"value.format": "json"})


def test_defaults() -> None:
    values = source_of().values
    assert values["value.format"] == "debezium-json"
    assert values["schema.inference.strategy"] == "continuous"
    assert values["scan.max.pre.fetch.records"] == 50
    assert values["ingestion.ignore-errors"] is False
    assert values["ingestion.error-tolerance.max-count"] == -1
    assert values["debezium-json.infer-schema.primitive-as-string"] is False
    canal = source_of(**{"value.format": "canal-json"}).values
    assert canal["canal-json.infer-schema.strategy"] == "AUTO"
    assert canal["canal-json.mysql.treat-mysql-timestamp-as-datetime-enabled"] is True
    assert canal["canal-json.mysql.treat-tinyint1-as-boolean.enabled"] is True
    json = source_of(**{"value.format": "json"}).values
    assert json["json.infer-schema.flatten-nested-columns.enable"] is False


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"type": "(none)"}, "source: the option 'type' is missing; it is 'kafka'"),
        ({"type": "kafak"}, "source: unknown type 'kafak'. Did you mean 'kafka'? Supported types: kafka"),
        ({"properties.bootstrap.servers": "(none)"}, "the option 'properties.bootstrap.servers' is missing"),
        ({"topic": "(none)"}, "Either 'topic' or 'topic-pattern' must be set."),
        ({"topic-pattern": "a.*"}, "'topic' and 'topic-pattern' shouldn't be set together"),
        ({"topic": "(none)", "topic-pattern": "a("}, "'topic-pattern' is not a regular expression of Java"),
        ({"topic": "a,b"}, "no topic has a comma in its name; write 'a;b'"),
        ({"topci": "a"}, "source: there is no option 'topci'. Did you mean 'topic'? Options: "),
        ({"key.fields": "a"}, "source: 'key.fields' needs 'key.format'"),
        ({"format": "json"}, "source: there is no option 'format'"),
        ({"TOPIC": "a"}, "Property already present: topic"),
        ({"value.format": "jsn"}, "source: option 'value.format': "),
        ({"value.format": "x.y"}, "source: option 'value.format': "),
        ({"scan.startup.mode": "earliest"}, "supported values are [earliest-offset, latest-offset, group-offsets"),
        ({"scan.startup.mode": "timestamp"}, "'scan.startup.timestamp-millis' is required in 'timestamp' startup mode"),
        (
            {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "0:42"},
            "should follow the format 'partition:0,offset:42;partition:1,offset:300', but is '0:42'",
        ),
        (
            {
                "scan.startup.mode": "specific-offsets",
                "topic": "a;b",
                "scan.startup.specific-offsets": "partition:0,offset:1",
            },
            "only supports specific offset for single topic",
        ),
        (
            {"scan.startup.mode": "group-offsets", "properties.group.id": "g", "properties.auto.offset.reset": "first"},
            "auto.offset.reset can not be set to first. Valid values: [latest,earliest,none]",
        ),
        ({"scan.startup.timestamp-millis": "now"}, "invalid value 'now' for option 'scan.startup.timestamp-millis'"),
        ({"scan.parallelism": "0"}, "'scan.parallelism' must be at least 1"),
        ({"scan.header-filter": "a"}, "scan.header-filter"),
        ({"scan.max.pre.fetch.records": "-1"}, "'scan.max.pre.fetch.records' must be at least 0"),
        ({"scan.max.pre.fetch.records": "1.5"}, "expected a whole number of 32 bits"),
        ({"schema.inference.strategy": "once"}, "supported values are [continuous, static]"),
        ({"ingestion.ignore-errors": "yes"}, "expected true or false (in any letter case)"),
        ({"ingestion.error-tolerance.max-count": "-2"}, "must be a number of records, or -1 for no limit"),
        ({"key.fields-prefix": "k_"}, "'key.fields-prefix' needs 'key.format'"),
        ({"key.format": "json", "key.fields-prefix": "a_", "value.fields-prefix": "a_b"}, "neither may begin with"),
        ({"key.format": "json", "key.fields-prefix": "a_b", "value.fields-prefix": "a_"}, "neither may begin with"),
        ({"key.format": "json", "key.fields-prefix": "a_", "value.fields-prefix": "a_"}, "neither may begin with"),
        ({"key.format": "canal-json"}, "'key.format' = 'canal-json': a key's format must be insert-only"),
        ({"key.format": "jsn"}, "source: option 'key.format': "),
        ({"metadata.list": "offset,timestmp"}, "has no column 'timestmp'. Did you mean 'timestamp'? Columns: topic, "),
        ({"metadata.list": "offset, offset"}, "'metadata.list' has the column 'offset' twice"),
        ({"metadata.list": "offset,"}, "'metadata.list' has no column ''"),
        (
            {"scan.value.initial-schemas.ddls": "CREATE TABEL t (a INT)"},
            "source: option 'scan.value.initial-schemas.ddls': ",
        ),
        ({"scan.value.initial-schemas.ddls": "CREATE TABLE t (a INT); DROP TABLE t"}, "not DROP TABLE, at line 1"),
        (
            {"scan.value.initial-schemas.ddls": "CREATE TABLE t (a INT); CREATE TABLE t (a INT)"},
            "created twice, again at line 1",
        ),
        ({"scan.value.initial-schemas.ddls": "CREATE TABLE a.b.c.d (a INT)"}, "a name has one to three parts"),
        (
            {"scan.value.initial-schemas.ddls": "CREATE TABLE t (a INT) WITH ('a' = 'b')"},
            "table 't': WITH (...) is not allowed",
        ),
        (
            {"scan.value.initial-schemas.ddls": "CREATE TABLE t (a INT, b AS a + 1)"},
            "the computed column 'b' is not allowed",
        ),
        (
            {"scan.value.initial-schemas.ddls": "CREATE TABLE t (a INT, `offset` BIGINT METADATA)"},
            "the metadata column 'offset'",
        ),
        (
            {"scan.value.initial-schemas.ddls": "CREATE TABLE t (a TIMESTAMP(3), WATERMARK FOR a AS a)"},
            "the WATERMARK is not allowed",
        ),
        (
            {"scan.value.initial-schemas.ddls": "CREATE TABLE t (a INT) DISTRIBUTED BY HASH(a) INTO 2 BUCKETS"},
            "DISTRIBUTED is not allowed",
        ),
        (
            {"scan.value.initial-schemas.ddls": "CREATE TABLE t (a INT) PARTITIONED BY (a)"},
            "PARTITIONED BY is not allowed",
        ),
        ({"scan.value.initial-schemas.ddls": " "}, "the text has no CREATE TABLE"),
    ],
)
def test_malformed_options_are_errors(options: dict[str, str], reason: str) -> None:
    assert reason in _error(**options)


@pytest.mark.parametrize("type_", ["mysql", "MySQL", "postgres", "mongodb", "oracle", "sqlserver", "paimon", "values"])
def test_sources_of_flink_cdc_are_refused_with_another_way(type_: str) -> None:
    found = parse_source({"type": type_, "hostname": "h", "anything": "x"})
    (why,) = found.refused
    assert why == (
        f"source '{type_.lower()}': run Debezium or Flink CDC into Kafka, and read that topic with a source 'kafka'"
    )
    assert found.records is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"scan.startup.mode": "(none)"}, "'group-offsets' (the default) needs 'properties.group.id'"),
        ({"scan.startup.mode": "group-offsets"}, "'scan.startup.mode' = 'group-offsets' needs 'properties.group.id'"),
        ({"metadata.list": "leader-epoch"}, "Spark's Kafka source does not have 'leader-epoch'"),
        (
            {"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": "1"},
            "a stream of Spark can't stop there",
        ),
        ({"value.format": "avro"}, "the messages don't have their schema; use 'avro-confluent'"),
    ],
)
def test_what_spark_cannot_do_is_refused_not_an_error(options: dict[str, str], reason: str) -> None:
    (why,) = source_of(**options).refused
    assert reason in why


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({"aliyun.kafka.accessKeyId": "x"}, "no effect: aliyun.kafka.accessKeyId; use 'properties.sasl.*'"),
        ({"ingestion.error-tolerance.max-count": "5"}, "because 'ingestion.ignore-errors' is not true"),
        ({"debezium-json.distributed-tables": "true"}, "a table may always be in several partitions"),
        ({"scan.check.duplicated.group.id": "true"}, "because there is no 'properties.group.id'"),
        ({"scan.topic-partition-discovery.interval": "0"}, "Spark looks for new partitions before each micro-batch"),
        ({"scan.watermark.idle-timeout": "1 s"}, "'scan.watermark.idle-timeout' has no effect"),
        ({"properties.max.poll.record": "1"}, "Did you mean 'properties.max.poll.records'?"),
        ({"properties.enable.auto.commit": "true"}, "'properties.enable.auto.commit' has no effect"),
        ({"properties.key.deserializer": "x"}, "'properties.key.deserializer' has no effect"),
        (
            {"value.format": "canal-json", "canal-json.mysql.treat-tinyint1-as-boolean.enabled": "false"},
            "because it needs 'MYSQL_TYPE'",
        ),
    ],
)
def test_options_without_effect_are_said_once(options: dict[str, str], note: str) -> None:
    (found,) = source_of(**options).notes
    assert note in found


def test_a_group_that_need_not_be_checked_gives_no_note() -> None:
    assert source_of(**{"scan.check.duplicated.group.id": "false"}).notes == ()


def test_options_with_effect_give_no_note() -> None:
    found = source_of(
        **{
            **{"scan.check.duplicated.group.id": "true", "properties.group.id": "g", "key.format": "json"},
            "scan.bounded.mode": "latest-offset",
            **{
                "ingestion.ignore-errors": "true",
                "ingestion.error-tolerance.max-count": "5",
                "value.format": "canal-json",
            },
            **{"canal-json.mysql.treat-tinyint1-as-boolean.enabled": "false"},
            **{"canal-json.infer-schema.strategy": "mysql_type", "metadata.list": " offset , headers"},
        }
    )
    assert (found.notes, found.refused) == ((), ())
    assert found.values["canal-json.infer-schema.strategy"] == "MYSQL_TYPE"
    metadata = {name: (column.key, str(column.type)) for name, column in found.metadata.items()}
    assert metadata == {"offset": ("offset", "BIGINT"), "headers": ("headers", "MAP<STRING, BYTES>")}


def test_the_records_are_a_kafka_table_of_bytes() -> None:
    found = source_of(**{"properties.group.id": "g", "scan.header-filter": "a:b", "topic": "a;b"})
    assert found.records == KafkaTable(
        "value BYTES",
        {
            **{"connector": "kafka", "format": "raw", "properties.bootstrap.servers": "broker:9092", "topic": "a;b"},
            **{"scan.startup.mode": "earliest-offset", "properties.group.id": "g", "scan.header-filter": "a:b"},
        },
    )


def test_a_topic_pattern_takes_the_place_of_topics() -> None:
    found = source_of(**{"topic": "(none)", "topic-pattern": "shop-.*"})
    assert found.values["topic"] is None
    assert found.records is not None


def test_one_prefix_alone_is_compared_with_nothing() -> None:
    found = source_of(**{"key.format": "json", "key.fields-prefix": "", "value.format": "json"})
    assert found.values["value.fields-prefix"] is None
    assert source_of(**{"value.fields-prefix": "v_"}).values["value.fields-prefix"] == "v_"
    both = source_of(**{"key.format": "json", "key.fields-prefix": "key_", "value.fields-prefix": "value_"})
    assert both.values["key.fields-prefix"] == "key_"


def test_secrets_are_texts_where_they_are_used() -> None:
    login = {"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": Secret("me:s3same")}
    formats = {f"{part}.format": "avro-confluent" for part in ("key", "value")}
    options = {f"{part}.avro-confluent.{name}": text for part in ("key", "value") for name, text in login.items()}
    urls = {f"{part}.avro-confluent.url": "http://registry:8081" for part in ("key", "value")}
    prefixes = {"key.fields-prefix": Secret("s3same_k"), "value.fields-prefix": Secret("s3same_v")}
    found = source_of(**formats, **urls, **options, **prefixes)
    for made in (found.key_format, found.value_format):
        assert made is not None
        assert made.options["basic-auth.user-info"] == "me:s3same"
        assert "s3same" not in repr(made)
    assert [found.values[name] for name in prefixes] == ["s3same_k", "s3same_v"]


# --- options of formats ----------------------------------------------------------------------------------------


def _format_options(**options: str) -> Any:
    found = source_of(**options).value_format
    assert found is not None
    return found.options


def test_options_of_the_format_reach_the_format() -> None:
    assert _format_options(**{"debezium-json.schema-include": "true"})["schema-include"] is True
    canal = _format_options(**{"value.format": "canal-json", "value.canal-json.table.include": "a|b"})
    assert canal["table.include"] == "a|b"


def test_every_option_of_ingestion_belongs_to_its_format_only() -> None:
    compared = 0
    for name, specs in FORMAT_OPTIONS.items():
        for spec in specs:
            text = "a INT" if spec.name.endswith("types") else "a" if spec.type == "string" else str(spec.default)
            given = {"value.format": name, f"{name}.{spec.name}": text}
            if name.startswith("avro") or name.startswith("proto"):
                given[f"{name}.url"] = "mock://options"
            assert f"{name}.{spec.name}" in source_of(**given).values
            other = "canal-json" if name != "canal-json" else "json"
            key = f"{name}.{spec.name}"
            assert f"'{key}' is an option of the format '{name}', but 'value.format' is '{other}'" in _error(
                **{"value.format": other, key: text}
            )
            compared += 1
    assert compared >= 17


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"debezium-json.schema-includ": "true"},
            "there is no option 'debezium-json.schema-includ'. Did you mean 'debezium-json.schema-include'?",
        ),
        (
            {"value.format": "json", "json.infer-schema.fixed-type": "a"},
            "Did you mean 'json.infer-schema.fixed-types'?",
        ),
        ({"debezium-json.ignore-parse-errors": "1"}, "expected true or false"),
        ({"value.format": "canal-json", "canal-json.table.include": "("}, "canal-json"),
        (
            {"value.format": "canal-json", "canal-json.infer-schema.strategy": "SQL"},
            "values are [AUTO, SQL_TYPE, MYSQL_TYPE]",
        ),
        (
            {"value.format": "json", "json.ignore-parse-errors": "true", "value.json.ignore-parse-errors": "true"},
            "'value.json.ignore-parse-errors' and 'json.ignore-parse-errors' are the same option; write one",
        ),
        (
            {
                "value.format": "canal-json",
                "canal-json.mysql.treat-mysql-timestamp-as-datetime-enabled": "true",
                "canal-json.mysql.treat-mysql-timestamp-as-datetime.enabled": "true",
            },
            "are the same option; write one",
        ),
        (
            {"value.format": "json", "json.decode.parser-table-id.fields": "a,b,c,d"},
            "must be 1 to 3 names, separated by ','",
        ),
        ({"value.format": "json", "json.decode.parser-table-id.fields": "a,,b"}, "must be 1 to 3 names"),
        (
            {"value.format": "json", "json.infer-schema.fixed-types": "id BIGNT"},
            "unknown type 'BIGNT'. Did you mean 'BIGINT'?",
        ),
        (
            {"value.format": "json", "json.infer-schema.fixed-types": "id INT, id INT"},
            "there are two columns named 'id'",
        ),
        ({"value.format": "avro-confluent"}, "avro-confluent"),
        (
            {"json.ignore-parse-errors": "true"},
            "is an option of the format 'json', but 'value.format' is 'debezium-json'",
        ),
        ({"key.csv.null-literal": "x", "key.format": "json"}, "and 'key.format' is 'json'"),
    ],
)
def test_malformed_options_of_formats_are_errors(options: dict[str, str], reason: str) -> None:
    assert reason in _error(**options)


def test_the_other_spelling_of_an_option_is_taken() -> None:
    key = "canal-json.mysql.treat-mysql-timestamp-as-datetime"
    found = source_of(**{"value.format": "canal-json", f"{key}.enabled": "false"})
    assert found.values[f"{key}-enabled"] is False


def test_options_belong_to_the_value_first_and_then_to_the_key() -> None:
    found = source_of(**{"key.format": "json", "json.ignore-parse-errors": "true"})
    assert found.key_format is not None
    assert found.key_format.options["ignore-parse-errors"] is True
    both = source_of(**{"key.format": "json", "value.format": "json", "json.ignore-parse-errors": "true"})
    assert both.key_format is not None
    assert both.value_format is not None
    assert both.key_format.options["ignore-parse-errors"] is False
    assert both.value_format.options["ignore-parse-errors"] is True
    own = source_of(**{"key.format": "json", "value.format": "json", "key.json.ignore-parse-errors": "true"})
    assert own.key_format is not None
    assert own.key_format.options["ignore-parse-errors"] is True


def test_a_single_topic_completes_the_options_of_a_registry_format() -> None:
    found = _format_options(**{"value.format": "avro-confluent", "avro-confluent.url": "http://registry:8081"})
    assert found["url"] == "http://registry:8081"


@pytest.mark.parametrize("name", ["avro-confluent", "debezium-avro-confluent"])
def test_enums_are_read_and_one_schema_of_all_tables_is_refused(name: str) -> None:
    given = {"value.format": name, f"{name}.url": "http://registry:8081"}
    assert _format_options(**given)["read-enum-and-fixed"] is True
    assert _format_options(**given, **{f"{name}.read-enum-and-fixed": "false"})["read-enum-and-fixed"] is False
    for option in ("schema", "schema-registry.schema"):
        with pytest.raises(OptionError, match=f"format of the value: the option '{option}' sets one schema, .* Remove"):
            source_of(**given, **{f"{name}.{option}": "{}"})


# --- schemas ---------------------------------------------------------------------------------------------------


def test_first_schemas_are_found_by_the_parts_of_the_name() -> None:
    text = (
        "CREATE TABLE db1.t1 (id BIGINT, name VARCHAR(10), PRIMARY KEY (id) NOT ENFORCED);\nCREATE TABLE `a.b` (x INT);"
    )
    found = source_of(**{"scan.value.initial-schemas.ddls": text}).schemas
    assert {name: (str(table.physical()), table.primary_key) for name, table in found.items()} == {
        TableId(("db1", "t1")): ("ROW<`id` BIGINT NOT NULL, `name` VARCHAR(10)> NOT NULL", ("id",)),
        TableId(("a.b",)): ("ROW<`x` INT> NOT NULL", None),
    }


def test_fixed_types_and_the_members_of_the_table_id() -> None:
    found = source_of(
        **{
            "value.format": "json",
            "json.infer-schema.fixed-types": "id BIGINT NOT NULL, `a.b` VARCHAR(10)",
            "json.decode.parser-table-id.fields": "col1, col2, col3",
        }
    )
    assert {name: str(type_) for name, type_ in found.fixed_types.items()} == {"id": "BIGINT", "a.b": "VARCHAR(10)"}
    assert found.table_id == ("col1", "col2", "col3")


@pytest.mark.parametrize(("topic", "subjects"), [("a", ["a-value", "a-key"]), ("a;b", [None, None])])
def test_only_one_topic_names_the_subjects_of_a_registry(topic: str, subjects: list[str | None]) -> None:
    formats = {f"{part}.format": "avro-confluent" for part in ("key", "value")}
    found = source_of(
        **formats, **{"topic": topic, "avro-confluent.url": "mock://x", "key.avro-confluent.url": "mock://x"}
    )
    assert found.value_format is not None
    assert found.key_format is not None
    assert [made.options["subject"] for made in (found.value_format, found.key_format)] == subjects
