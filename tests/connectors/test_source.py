"""Reading: the effect of every table option, or its warning. Without Spark and without a broker."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kvformat.connectors import KafkaTable, header_filter, option_effects, source
from kvformat.connectors.explain import explained
from kvformat.connectors.source import SPARKS, planned, whole
from kvformat.registry.contract.errors import ConfigurationError, MissingExtraError, OptionError
from kvformat.registry.java.regex import compile_java
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.sql.connector_options import KAFKA_OPTIONS, UPSERT_KAFKA_OPTIONS

BASE = {
    "kafka": {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b:1", "format": "json"}
    | {"scan.startup.mode": "earliest-offset"},
    "upsert-kafka": {"connector": "upsert-kafka", "topic": "t", "properties.bootstrap.servers": "b:1"}
    | {"key.format": "json", "value.format": "json"},
}
SECRET = "Tr0ub4dor"
# For each mapped option: its value with the other options that it needs, and the Spark options that change.
MAPPED: dict[str, tuple[dict[str, str | None], set[str]]] = {
    "topic": ({"topic": "u"}, {"subscribe"}),
    "topic-pattern": ({"topic": None, "topic-pattern": "u"}, {"subscribe", "subscribePattern"}),
    "properties.bootstrap.servers": ({"properties.bootstrap.servers": "c:1"}, {"kafka.bootstrap.servers"}),
    "properties.group.id": ({"scan.startup.mode": "group-offsets", "properties.group.id": "g"}, {"startingOffsets"}),
    "scan.startup.mode": ({"scan.startup.mode": "latest-offset"}, {"startingOffsets"}),
    "scan.startup.specific-offsets": (
        {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:1"},
        {"startingOffsets"},
    ),
    "scan.startup.timestamp-millis": (
        {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "5"},
        {"startingOffsets", "startingTimestamp", "startingOffsetsByTimestampStrategy"},
    ),
    "scan.bounded.mode": ({"scan.bounded.mode": "group-offsets", "properties.group.id": "g"}, {"endingOffsets"}),
    "scan.bounded.specific-offsets": (
        {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:0,offset:1"},
        {"endingOffsets"},
    ),
    "scan.bounded.timestamp-millis": (
        {"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": "5"},
        {"endingOffsets", "endingTimestamp"},
    ),
    "scan.header-filter": ({"scan.header-filter": "a:b"}, {"includeHeaders"}),
    "scan.parallelism": ({"scan.parallelism": "3"}, set()),  # a step after the source: test_reading.py
}
WARNED = {
    "scan.watermark.alignment.group": "g",
    "scan.watermark.alignment.max-drift": "1 s",
    "scan.watermark.alignment.update-interval": "1 s",
    "scan.watermark.emit.strategy": "on-event",
    "scan.watermark.emit.on-event.gap": "1",
    "scan.watermark.idle-timeout": "1 s",
}


def _kv(connector: str = "kafka", options: Mapping[str, str | None] | None = None) -> KeyValueFormat:
    given = {key: value for key, value in {**BASE[connector], **(options or {})}.items() if value is not None}
    return KeyValueFormat("id INT, name STRING", given, primary_key=["id"] * (connector != "kafka")).planned()


def _planned(kv: KeyValueFormat, *, streaming: bool) -> source.SourcePlan:
    return planned(kv, streaming=streaming, ask=False)


@pytest.mark.parametrize(
    ("connector", "option"),
    [("kafka", spec.name) for spec in KAFKA_OPTIONS] + [("upsert-kafka", spec.name) for spec in UPSERT_KAFKA_OPTIONS],
)
def test_every_option_has_an_effect_or_a_warning(connector: str, option: str) -> None:
    effect = option_effects.READING[option]
    assert effect.why
    if effect.kind == "warned":
        plan = _planned(_kv(connector, WARNED), streaming=True)
        assert plan.notes[option] == f"'{option}' has no effect: {effect.why}"
    elif effect.kind == "mapped":
        before = _planned(_kv(connector), streaming=option.startswith("scan.startup")).options
        given, changed = MAPPED[option]
        after = _planned(_kv(connector, given), streaming=option.startswith("scan.startup")).options
        assert {name for name in {*before, *after} if before.get(name) != after.get(name)} == changed
    assert option_effects.WRITING[option].why


def test_listed_options_exist() -> None:
    declared = {spec.name for spec in (*KAFKA_OPTIONS, *UPSERT_KAFKA_OPTIONS)}
    assert declared == set(option_effects.READING)
    assert declared == set(option_effects.WRITING)
    mapped = {option for option, effect in option_effects.READING.items() if effect.kind == "mapped"}
    assert mapped == set(MAPPED)
    assert {option for option, effect in option_effects.READING.items() if effect.kind == "warned"} == set(WARNED)
    for spec in (*KAFKA_OPTIONS, *UPSERT_KAFKA_OPTIONS):
        assert "checked only" not in spec.doc


_DEFAULTS = {
    "value.fields-include": "ALL",
    "ingestion.ignore-errors": False,
    "ingestion.error-tolerance.max-count": -1,
    "scan.bounded.mode": "unbounded",
    "sink.delivery-guarantee": "at-least-once",
}
_OF_KAFKA = {
    "scan.startup.mode": "group-offsets",
    "scan.check.duplicated.group.id": False,
    "sink.partitioner": "default",
}


def test_defaults_of_options_are_those_of_flink() -> None:
    """All other options have no default."""
    for specs, own in ((KAFKA_OPTIONS, _OF_KAFKA), (UPSERT_KAFKA_OPTIONS, {"sink.buffer-flush.max-rows": 0})):
        assert {spec.name: spec.default for spec in specs if spec.default is not None} == _DEFAULTS | own


def test_upsert_tables_start_at_the_earliest_offset() -> None:
    for streaming in (False, True):
        plan = _planned(_kv("upsert-kafka"), streaming=streaming)
        assert plan.options["startingOffsets"] == "earliest"
    assert dict(plan.options) == {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "startingOffsets": "earliest"}


@pytest.mark.parametrize(
    ("options", "option", "told"),
    [
        ({"scan.topic-partition-discovery.interval": "0"}, "scan.topic-partition-discovery.interval", "micro-batch"),
        ({"scan.check.duplicated.group.id": "true"}, "scan.check.duplicated.group.id", "joins none"),
        ({"scan.bounded.mode": "latest-offset"}, "scan.bounded.mode", "trigger(availableNow=True)"),
        ({"properties.enable.auto.commit": "TRUE"}, "properties.enable.auto.commit", "commits none"),
        ({"properties.commit.offsets.on.checkpoint": "true"}, "properties.commit.offsets.on.checkpoint", "checkpoint"),
        ({"properties.interceptor.classes": "a"}, "properties.interceptor.classes", "the bytes as they are"),
        ({"properties.key.deserializer": "a"}, "properties.key.deserializer", "the bytes as they are"),
        ({"properties.value.deserializer": "a"}, "properties.value.deserializer", "the bytes as they are"),
    ],
)
def test_notes_on_streams_that_differ_from_flink(options: dict[str, str], option: str, told: str) -> None:
    plan = _planned(_kv(options=options), streaming=True)
    assert told in plan.notes[option]
    assert not any(name.removeprefix("kafka.") in option for name in plan.options if name != "kafka.bootstrap.servers")


@pytest.mark.parametrize(
    "options",
    [
        {"scan.topic-partition-discovery.interval": "10 s"},
        {"scan.check.duplicated.group.id": "false"},
        {"properties.enable.auto.commit": "false", "properties.auto.offset.reset": "earliest"},
        {"property-version": "1", "sink.parallelism": "3", "scan.parallelism": "2"},
    ],
)
def test_no_notes_if_spark_behaves_like_flink(options: dict[str, str]) -> None:
    for streaming in (False, True):
        assert _planned(_kv(options=options), streaming=streaming).notes == {}


@pytest.mark.parametrize(
    ("options", "streaming", "told"),
    [
        ({"scan.startup.mode": "latest-offset"}, False, "starts at the end reads nothing.*with_options"),
        ({"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": "5"}, True, "can't stop there"),
        ({"scan.bounded.mode": "group-offsets", "properties.group.id": "g"}, True, "'scan.bounded.mode' = 'group-"),
        ({"topic": "a,b"}, True, "no topic has a comma in its name; write 'a;b'"),
        ({"topic": None, "topic-pattern": "a)|(b"}, True, "'topic-pattern' is not a regular expression of Java"),
        ({"scan.header-filter": "a:b&"}, False, "character 5 .*a condition is missing"),
    ],
)
def test_options_spark_cannot_follow_are_refused(options: dict[str, str | None], streaming: bool, told: str) -> None:
    with pytest.raises(OptionError, match=told) as raised:
        _planned(_kv(options=options), streaming=streaming)
    assert raised.value.option in options


def test_properties_are_passed_to_the_client() -> None:
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="{SECRET}";'
    given = {"sasl.jaas.config": jaas, "security.protocol": "SASL_SSL", "ssl.truststore.location": "/ca.jks"}
    given |= {"isolation.level": "read_committed", "max.poll.records": "5"}
    kv = _kv(options={f"properties.{name}": value for name, value in given.items()} | {"properties.group.id": "g"})
    plan = _planned(kv, streaming=False)
    assert {name: plan.options[f"kafka.{name}"] for name in given} == given
    assert SECRET not in repr(plan)
    # Spark does not join the group, and fails if an application reads a partition with a group and two settings.
    assert "kafka.group.id" not in plan.options


# --- options of Spark's source --------------------------------------------------------------------------------


def test_spark_options_are_passed_on() -> None:
    given = {"MAXOFFSETSPERTRIGGER": 10, "failOnDataLoss": False, "kafka.group.id": "g"}
    plan = planned(_kv(), streaming=True, spark_options=given)
    expected = {"maxOffsetsPerTrigger": "10", "failOnDataLoss": "false", "kafka.group.id": "g"}
    assert {name: plan.options.get(name) for name in expected} == expected
    assert set(expected) <= set(SPARKS)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"subscribe": "u"}, "'subscribe' is said by the table, by topic"),
        ({"startingoffsets": "latest"}, "'startingOffsets' is said by the table, by scan.startup.mode"),
        ({"endingOffsets": "latest"}, "'endingOffsets' is said by the table, by scan.bounded.mode"),
        ({"includeHeaders": "true"}, "by the columns of metadata"),
        ({"kafka.Bootstrap.servers": "c"}, r"with_options\(\{'properties.Bootstrap.servers'"),
        ({"maxOffsetPerTrigger": 10}, "no option 'maxOffsetPerTrigger'. Did you mean 'maxOffsetsPerTrigger'"),
    ],
)
def test_spark_options_that_the_table_sets_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        planned(_kv(), streaming=True, spark_options=given)


def test_given_spark_offsets_are_used() -> None:
    modes = {"scan.startup.mode": "group-offsets", "scan.bounded.mode": "group-offsets", "properties.group.id": "g"}
    known = {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":2}}'}
    plan = planned(_kv(options=modes), streaming=False, spark_options=known)
    assert {name: plan.options[name] for name in known} == known


def test_resumed_queries_ask_no_broker() -> None:
    modes = {"scan.startup.mode": "group-offsets", "properties.group.id": "g", "properties.sasl.login.class": "a.B"}
    assert planned(_kv(options=modes), streaming=True, resumed=True).options["startingOffsets"] == "earliest"
    with pytest.raises(OptionError, match=r"sasl\.login\.class"):
        planned(_kv(options=modes), streaming=True)


def test_missing_client_error_names_modes_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    modes = {"scan.startup.mode": "group-offsets", "properties.group.id": "g"}
    with pytest.raises(
        MissingExtraError, match=r"kvformat\[kafka\].*'earliest-offset', 'latest-offset' or 'timestamp'"
    ):
        planned(_kv(options=modes), streaming=True)
    assert planned(_kv(), streaming=True).options["startingOffsets"] == "earliest"


@pytest.mark.parametrize(
    ("modes", "streaming", "given", "told"),
    [
        # an answer replaces offsets for which brokers would be asked
        ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:1"}, True,
         "startingOffsets", None),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "5"}, True,
         "startingOffsets", "by scan.startup.mode"),
        ({"scan.bounded.mode": "group-offsets"}, False, "endingOffsets", None),
        ({"scan.bounded.mode": "group-offsets"}, True, "endingOffsets", "by scan.bounded.mode"),
        ({"scan.bounded.mode": "latest-offset"}, False, "endingOffsets", "by scan.bounded.mode"),
    ],
)  # fmt: skip
def test_given_offsets_only_replace_those_of_brokers(
    modes: dict[str, str], streaming: bool, given: str, told: str | None
) -> None:
    kv, answer = _kv(options=modes | {"properties.group.id": "g"}), {given: '{"t":{"0":1}}'}
    if told is None:
        assert planned(kv, streaming=streaming, spark_options=answer).options[given] == answer[given]
    else:
        with pytest.raises(OptionError, match=told):
            planned(kv, streaming=streaming, spark_options=answer)


@pytest.mark.parametrize(
    ("headers", "options", "wanted"),
    [
        (False, {}, None),
        (True, {}, "true"),
        (False, {"scan.header-filter": "a:b"}, "true"),
        (False, {"format": "avro-confluent", "avro-confluent.url": "http://r:1"}, "true"),  # they may have the id
    ],
)
def test_headers_are_read_if_something_needs_them(headers: bool, options: dict[str, str], wanted: str | None) -> None:
    plan = planned(_kv(options=options), streaming=False, headers=headers)
    assert plan.options.get("includeHeaders") == wanted


def test_several_topics_are_separated_by_commas() -> None:
    assert planned(_kv(options={"topic": "b;a"}), streaming=False).options["subscribe"] == "b,a"


def test_a_batch_has_an_end_and_a_stream_has_none() -> None:
    assert planned(_kv(), streaming=False).options["endingOffsets"] == "latest"
    for resumed in (False, True):
        plan = planned(_kv(), streaming=True, resumed=resumed)
        assert not [name for name in plan.options if name.startswith("ending")]


def test_notes_of_streams_are_not_those_of_batches() -> None:
    options = {"scan.topic-partition-discovery.interval": "0", "scan.bounded.mode": "latest-offset"}
    assert planned(_kv(options=options), streaming=False).notes == {}
    assert set(planned(_kv(options=options), streaming=True).notes) == set(options)


class Records:
    """A DataFrame of Kafka's records; keeps what is done with it."""

    def __init__(self) -> None:
        self.schema, self.done = None, list[Any]()

    def __getattr__(self, method: str) -> Any:
        def call(*given: Any, **options: Any) -> Any:
            self.done.append((method, *given, *([options] if options else [])))
            return self

        return call


def test_records_are_filtered_before_their_tasks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    made, asked = Records(), list[Any]()
    spark: Any = SimpleNamespace(read=made, readStream=made)
    monkeypatch.setattr(source.header_filter, "column", lambda conditions: conditions[0].key)
    monkeypatch.setattr(source, "check_stream_jar", lambda _: asked.append("jar"))
    monkeypatch.setattr(source.topics, "check_reading", lambda *_: asked.append("topics"))
    kv = _kv(options={"scan.header-filter": "a:b", "scan.parallelism": "3"})
    plan = planned(kv, streaming=True)
    source.records(spark, kv, plan, streaming=True)
    loading = [("format", "kafka"), ("options", dict(plan.options)), ("load",)]
    assert made.done == [*loading, ("where", "a"), ("coalesce", 3)]
    assert asked == ["jar", "topics"]
    source.records(spark, _kv(), plan, streaming=False, check=False)
    assert made.done[5:] == loading
    assert asked == ["jar", "topics"], "a batch needs no jar of streams, and nothing is checked"


def test_spark_looks_up_topics_without_reading_a_record() -> None:
    made = Records()
    kv = _kv(options={"properties.client.id": "me", "scan.header-filter": "a:b"})
    plan = planned(kv, streaming=False, spark_options={"minPartitions": 5})
    source._read_nothing(SimpleNamespace(read=made), plan)  # type: ignore[arg-type]
    assert made.done[1] == (
        "options",
        {
            "fetchOffset.numRetries": "1",
            "kafka.request.timeout.ms": "15000",
            "kafka.default.api.timeout.ms": "15000",
            "kafka.bootstrap.servers": "b:1",
            "kafka.client.id": "me",
            "subscribe": "t",
            "startingTimestamp": "32503680000000",
            "startingOffsetsByTimestampStrategy": "latest",
        },
    )


# --- topic-pattern --------------------------------------------------------------------------------------------

PATTERNS = [
    ("a", ["a"], ["ab", "ba", "xax"]),
    ("a|b", ["a", "b"], ["ab", "ax", "xb"]),
    ("a.*", ["a", "abc"], ["ba"]),
    ("", [""], ["a"]),
    ("a|", ["a", ""], ["b"]),
    (r"\Qa.b", ["a.b"], ["axb", "a.bc"]),
    (r"\Qa.b\E", ["a.b"], ["axb"]),
    (r"a\\\Q.\\E+", ["a\\.\\\\"], ["a\\x"]),  # inside a quote, a backslash is an ordinary character
    (r"\Q(?x) # ", ["(?x) # "], ["(?x)"]),
    ("(?x) a b # and so on", ["ab"], ["a b", "abc", "xab"]),
    ("(?x) a # one\n | b # two", ["a", "b"], ["ab"]),
    ("(?x) a b", ["ab"], ["abc"]),
    ("(?i)a", ["A", "a"], ["AB"]),
    ("a#b", ["a#b"], ["a"]),
    ("a[.]b", ["a.b"], ["axb"]),
    ("[ab]", ["a", "b"], ["c", "."]),
    ("a{2}", ["aa"], ["a", "aaa"]),
    (r"(a)\1", ["aa"], ["a"]),
    ("^a$", ["a"], ["ab"]),
]


@pytest.mark.parametrize(("pattern", "matching", "others"), PATTERNS)
def test_patterns_match_the_whole_name(pattern: str, matching: list[str], others: list[str]) -> None:
    """Spark searches anywhere in the name. With `whole`, it finds the names that the pattern matches in Flink."""
    found = compile_java(rf"(?s:.*?){whole(pattern)}(?s:.*)")
    for name in matching:
        assert compile_java(pattern).matches(name)
        assert found.matches(name), name
    for name in others:
        assert not compile_java(pattern).matches(name)
        assert not found.matches(name), name


@pytest.mark.spark
def test_java_patterns_match_the_whole_name_in_spark(spark: Any) -> None:
    """Uses Java through Spark's RLIKE, which searches anywhere in a text, like Spark's Kafka source."""
    cases = [(n, whole(p), name, name in m) for n, (p, m, o) in enumerate(PATTERNS) for name in (*m, *o)]
    df = spark.createDataFrame(cases, "n INT, pattern STRING, name STRING, matching BOOLEAN")
    assert df.where("(name RLIKE pattern) <> matching").collect() == []


@pytest.mark.parametrize("pattern", ["(", "a)|(b", "[a", "a\\", "*", "a{", r"\x"])
def test_patterns_that_java_refuses_stay_invalid(pattern: str) -> None:
    with pytest.raises(OptionError, match="'topic-pattern' is not a regular expression of Java"):
        whole(pattern)


# --- scan.header-filter ---------------------------------------------------------------------------------------


def test_header_filters_are_evaluated_from_left_to_right() -> None:
    found = header_filter.parse("depart:toy|depart:b:k&!env:")
    assert [(one.operator, one.negated, one.key, one.value) for one in found] == [
        ("", False, "depart", "toy"),
        ("|", False, "depart", "b:k"),
        ("&", True, "env", ""),
    ]


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("", 1, "a condition is missing"),
        ("a:b||c:d", 5, "a condition is missing"),
        ("&a:b", 1, "a condition is missing"),
        ("a:b & c:d", 1, "remove them"),
        ("a:b&c :d", 5, "remove them"),
        ("(a:b|c:d)&e:f", 1, "parentheses are not"),
        ("a:b&!!c:d", 5, "at most one '!'"),
        ("a:b|c", 5, "key:value"),
        ("a:b|:c", 5, "key:value"),
        ("a:b|!", 5, "key:value"),
    ],
)
def test_errors_in_header_filters_give_the_position(text: str, place: int, why: str) -> None:
    with pytest.raises(OptionError, match=rf"option 'scan.header-filter', character {place} .*{why}"):
        header_filter.parse(text)


# --- explain --------------------------------------------------------------------------------------------------

DDL = f"""CREATE TABLE orders (
    id INT, name STRING, up AS UPPER(name), ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
    h MAP<STRING, BYTES> METADATA FROM 'headers', WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'b:9092', 'key.format' = 'json',
    'key.fields' = 'id', 'value.format' = 'json', 'scan.parallelism' = '2',
    'sink.parallelism' = '3', 'sink.transactional-id-prefix' = 'p', 'scan.watermark.idle-timeout' = '5 s',
    'properties.group.id' = 'shop', 'properties.auto.offset.reset' = 'latest',
    'properties.sasl.jaas.config' = 'x.Y required username="a" password="{SECRET}";',
    'properties.ssl.keystore.password' = '{SECRET}')"""


def test_explain_needs_no_broker_and_shows_no_secrets() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = KafkaTable.from_ddl(DDL).explain()
    assert SECRET not in told
    for line in (
        "Table 'orders', connector kafka",
        "up AS UPPER(name)",
        "ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL",
        "WATERMARK ts, 5000 ms late at most; in streams",
        "Key: json: id",
        "Value: json: id, name; INSERT_ONLY",
        "Reading a batch: rows",
        "from the committed offsets of the group 'shop', for which the brokers are asked; a partition without one "
        "starts at the end",
        "scan.parallelism = 2: coalesce before decoding",
        "includeHeaders = 'true'",
        "kafka.sasl.jaas.config = '******'",
        "kafka.ssl.keystore.password = '******'",
        "subscribe = 'orders'",
        "'scan.watermark.idle-timeout' has no effect: a partition without records does not hold up Spark's watermark",
        "Writing, at least once:",
        "sink.parallelism = 3: repartition by the key after encoding",
        "'sink.transactional-id-prefix' has no effect: only 'exactly-once' has transactions",
    ):
        assert line in told, line
    assert "startingOffsets" not in told


STARTS = {
    "earliest-offset": ({}, "the earliest record of each partition"),
    "timestamp": (
        {"scan.startup.timestamp-millis": "1700000000123"},
        "the first record of each partition not older than 1700000000123 (milliseconds)",
    ),
    "specific-offsets": (
        {"scan.startup.specific-offsets": "partition:0,offset:41;partition:1,offset:42"},
        "partition:0,offset:41;partition:1,offset:42; other partitions at the committed offset, or the earliest",
    ),
    "group-offsets": (
        {"properties.auto.offset.reset": "Earliest"},
        "the committed offsets of the group 'g', for which the brokers are asked; a partition without one starts at "
        "the earliest record",
    ),
}
ENDS = {
    "unbounded": ({}, "the last record"),
    "latest-offset": ({}, "the last record"),
    "timestamp": (
        {"scan.bounded.timestamp-millis": "1700000000124"},
        "the first record of each partition not older than 1700000000124 (milliseconds)",
    ),
    "specific-offsets": (
        {"scan.bounded.specific-offsets": "partition:0,offset:43"},
        "partition:0,offset:43; other partitions at the committed offset, or not read",
    ),
    "group-offsets": ({}, "the committed offsets of the group 'g', for which the brokers are asked"),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("end", ENDS)
def test_explain_says_where_a_batch_starts_and_ends(start: str, end: str) -> None:
    """Start and end have options of almost the same names."""
    (first, begins), (last, ends) = STARTS[start], ENDS[end]
    options = {"scan.startup.mode": start, "scan.bounded.mode": end, "properties.group.id": "g"}
    reading = explained(_kv(options=options | first | last))["reading"]["batch"]
    assert (reading["from"], reading["to"]) == (begins, ends)


@pytest.mark.parametrize(
    ("given", "told"),
    [({}, "a partition without one is an error"), ({"properties.auto.offset.reset": "latest"}, "starts at the end")],
)
def test_explain_says_what_happens_without_a_committed_offset(given: dict[str, str], told: str) -> None:
    options = {"scan.startup.mode": "group-offsets", "properties.group.id": "g"}
    for what in ("batch", "stream"):
        assert explained(_kv(options=options | given))["reading"][what]["from"].endswith(told)


@pytest.mark.parametrize(
    ("options", "key", "batch"),
    [
        ({}, [], "rows"),
        ({"format": "debezium-json"}, ["id"], "the current row of each key, or with changelog=True the changes"),
        ({"format": "debezium-json"}, [], "changes, with row_kind"),
    ],
)
def test_explain_says_which_rows_a_batch_and_a_stream_give(options: dict[str, str], key: list[str], batch: str) -> None:
    reading = explained(KafkaTable("id INT", BASE["kafka"] | options, primary_key=key).kv)["reading"]
    stream = "changes, with row_kind" if options else "rows"
    assert (reading["batch"]["gives"], reading["stream"]["gives"]) == (batch, stream)


def test_explain_says_which_computed_columns_are_refused() -> None:
    ddl = DDL.replace("up AS UPPER(name)", "up AS UPPER(name), other AS my_udf(id)")
    lines = KafkaTable.from_ddl(ddl).explain().splitlines()
    assert "  up AS UPPER(name), STRING" in lines
    (refused,) = (line for line in lines if line.startswith("  other AS my_udf(id)"))
    assert " (refused by decode: MY_UDF: no function that can be evaluated here" in refused


def test_explain_shows_refused_options() -> None:
    at_the_end = KafkaTable.from_ddl(DDL).with_options({"scan.startup.mode": "latest-offset"}).explain()
    assert "Reading a batch is refused: 'scan.startup.mode' = 'latest-offset'" in at_the_end
    assert "Reading a stream: rows\n  from the first record after the start of the query" in at_the_end
    no_group = KafkaTable.from_ddl(DDL).with_options({"properties.group.id": None}).explain()
    assert "Reading a stream is refused: Property group.id is required" in no_group
    upsert = KafkaTable("id INT, name STRING", BASE["upsert-kafka"], primary_key=["id"])
    assert "Reading a batch: the current row of each key, or with changelog=True the changes" in upsert.explain()
    assert "Reading a stream: changes, with row_kind" in upsert.explain()
    assert "PRIMARY KEY id" in upsert.explain()
    with pytest.raises(ConfigurationError):
        KafkaTable.from_ddl(DDL).with_options({"format": None, "value.format": None})
