"""The pipeline as an object: its blocks together, equality, pickles, explanations, and secrets that nobody sees."""

from __future__ import annotations

import copy
import logging
import pickle
import pprint
import traceback
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion import DeltaPathTarget, Pipeline
from kvformat.ingestion.targets.values import ValuesTarget
from kvformat.registry import ConfigurationError
from tests.support.pipeline_examples import EXAMPLES, SECRET, VARIABLES

SOURCE = {
    "type": "kafka",
    "properties.bootstrap.servers": "broker:9092",
    "topic": "shop",
    "scan.startup.mode": "earliest-offset",
}
SINK = {"type": "values"}
TEXT = """
source:
  type: kafka
  properties.bootstrap.servers: broker:9092
  topic: shop
  scan.startup.mode: earliest-offset
sink: {type: values}
"""


def _error(source: Any = SOURCE, sink: Any = SINK, **blocks: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Pipeline(source, sink, **blocks)
    return str(caught.value)


def test_yaml_and_blocks_give_the_same_pipeline(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(TEXT)
    assert (
        Pipeline.from_yaml(TEXT) == Pipeline.from_yaml(path) == Pipeline.from_yaml(str(path)) == Pipeline(SOURCE, SINK)
    )
    assert Pipeline(SOURCE, SINK) != Pipeline({**SOURCE, "topic": "other"}, SINK)
    assert Pipeline(SOURCE, SINK) != Pipeline(SOURCE, SINK, route=[{"source-table": "a", "sink-table": "b"}])


def test_a_repr_makes_the_pipeline_again() -> None:
    made = Pipeline(SOURCE, SINK, transform=[{"source-table": "a", "filter": "b = 1"}], pipeline={"parallelism": 2})
    assert eval(repr(made), {"Pipeline": Pipeline}) == made


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_pickle_is_the_same_pipeline(name: str) -> None:
    made = Pipeline.from_yaml(EXAMPLES[name], set=VARIABLES)
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert other == made
        assert other.source.options == made.source.options
        assert other.explain() == made.explain()
        assert (other.notes, other.refused) == (made.notes, made.refused)


def test_a_pipeline_keeps_its_own_blocks() -> None:
    source = dict(SOURCE)
    made = Pipeline(source, SINK)
    source["topic"] = "other"
    assert made == Pipeline(SOURCE, SINK)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sink: {type: values}", "the pipeline needs the block 'source'"),
        ("source: {type: kafka}", "the pipeline needs the block 'sink'"),
        ("source:\nsink: {type: values}", "the pipeline needs the block 'source'"),
        ("source: [a]\nsink: {type: values}", "source: must be a map, such as 'type: kafka'"),
        (f"{TEXT}pipeline: [a]", "pipeline: must be a map"),
        (f"{TEXT}route: {{source-table: a, sink-table: b}}", "route: must be a list of rules: put '- '"),
    ],
)
def test_malformed_blocks_are_errors(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Pipeline.from_yaml(text)
    assert reason in str(caught.value)


def test_empty_optional_blocks_are_no_blocks() -> None:
    assert Pipeline.from_yaml(f"{TEXT}transform:\nroute:\npipeline:\n") == Pipeline(SOURCE, SINK)


def test_values_of_python_are_texts() -> None:
    for ignores in (True, False):
        made = Pipeline({**SOURCE, "ingestion.ignore-errors": ignores, "scan.max.pre.fetch.records": 0}, SINK)
        assert made.source.values["ingestion.ignore-errors"] is ignores
    assert made.source.values["scan.max.pre.fetch.records"] == 0
    assert "source: option 'topic' must be a text, not a value" in _error({**SOURCE, "topic": None})
    assert "source: option 'name' must be a text, not a value" in _error({**SOURCE, "name": 10**5000})
    assert "source: the name of an option must be a text, not int" in _error({**SOURCE, 5: "a"})


def test_the_mapping_in_the_source_is_moved_to_the_sink() -> None:
    key = "sink.tableId-to-topic.mapping"
    sink = {"type": "kafka", "properties.bootstrap.servers": "broker:9092"}
    made = Pipeline({**SOURCE, key: "a:b"}, sink)
    assert made.sink.topics == ((("a",), "b"),)
    assert made.notes == (f"source: '{key}' is read as an option of the sink: write it there",)
    assert f"source: there is no option '{key}'" in _error({**SOURCE, key: "a:b"}, {**sink, key: "c:d"})
    assert f"sink: there is no option '{key}'" in _error({**SOURCE, key: "a:b"})


def test_kinds_of_schema_changes_are_checked_with_the_behavior() -> None:
    assert "'exclude.schema.changes' has 'add.colum', which is not a kind of schema change. Did you mean" in _error(
        sink={**SINK, "exclude.schema.changes": ["drop", "add.colum"]}
    )
    assert not {"drop.table", "truncate.table"} & Pipeline(SOURCE, SINK).schema_changes
    all_kinds = Pipeline(SOURCE, {**SINK, "exclude.schema.changes": []})
    assert all_kinds.schema_changes >= {"drop.table", "truncate.table", "add.column"}
    evolve = Pipeline(SOURCE, SINK, pipeline={"schema.change.behavior": "Try-Evolve"})
    assert (evolve.behavior, evolve.schema_changes) == ("try_evolve", all_kinds.schema_changes)


def test_a_class_of_words_in_a_route_gives_a_note() -> None:
    made = Pipeline(SOURCE, SINK, route=[{"source-table": "[app|web].a", "sink-table": "b"}])
    (note,) = made.notes
    assert note.startswith("route 1: the pattern '[app|web].a' has a class of characters")


# --- secrets ---------------------------------------------------------------------------------------------------

_SECRET_OPTIONS = """
source:
  type: kafka
  properties.bootstrap.servers: broker:9092
  properties.ssl.key.password: ${secret_values.plain}
  properties.client.id: x${secret_values.quoted}y
  topic: ${secret_values.plain}
  scan.startup.mode: earliest-offset
  name: ${secret_values.quoted}
  value.format: json
  json.infer-schema.fixed-types: ${secret_values.plain} INT
  json.decode.parser-table-id.fields: ${secret_values.plain}
  scan.header-filter: a:${secret_values.plain}
sink:
  type: kafka
  properties.bootstrap.servers: broker:9092
  topic: ${secret_values.quoted}
  sink.custom-header: h:${secret_values.plain}
  sink.tableId-to-topic.mapping: a:${secret_values.plain}
"""
_SECRETS = {"secret_values.plain": f"{SECRET}_1", "secret_values.quoted": f"{SECRET}'\"\\2"}


def _texts(made: Pipeline, caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    logging.getLogger(__name__).warning("%s %r", made, made)
    parts = (made.source, made.sink, made.settings, made.transforms, made.source.options, made.sink.values)
    shown = [text for part in (made, *parts) for text in (repr(part), str(part), f"{part}", pprint.pformat(part))]
    return "\n".join([*shown, made.explain(), *made.notes, *made.refused, caplog.text])


def test_secrets_are_in_no_text(caplog: pytest.LogCaptureFixture) -> None:
    made = Pipeline.from_yaml(_SECRET_OPTIONS, set=_SECRETS)
    shown = _texts(made, caplog)
    assert SECRET not in shown
    assert "******" in shown
    assert made.source.options["properties.ssl.key.password"] == f"{SECRET}_1"
    assert made.source.records is not None
    assert made.source.records.kv.options["properties.client.id"] == f"x{SECRET}'\"\\2y"
    assert made.sink.values["topic"] == f"{SECRET}'\"\\2"


def test_the_entries_of_a_secret_list_are_in_no_text(caplog: pytest.LogCaptureFixture) -> None:
    text = _SECRET_OPTIONS.replace("mapping: a:${secret_values.plain}", "mapping: ${secret_values.list}")
    text = text.replace("  topic: ${secret_values.plain}", "  topic: ${secret_values.topics}")
    lists = {"secret_values.list": f"a:{SECRET}x;b:{SECRET}y", "secret_values.topics": f"{SECRET}1;other-{SECRET}"}
    made = Pipeline.from_yaml(text.replace("  topic: ${secret_values.quoted}\n", ""), set={**_SECRETS, **lists})
    assert made.source.values["topic"] == (f"{SECRET}1", f"other-{SECRET}")
    assert "topic of a: ******" in made.explain()
    assert SECRET not in _texts(made, caplog)


def test_an_entry_of_a_secret_list_has_at_least_three_characters() -> None:
    """Shorter texts are in many words."""
    text = _SECRET_OPTIONS.replace("mapping: a:${secret_values.plain}", "mapping: ${secret_values.list}")
    text = text.replace("  topic: ${secret_values.quoted}\n", "")
    explained = Pipeline.from_yaml(text, set={**_SECRETS, "secret_values.list": "a:qzx;b:qz"}).explain()
    assert "topic of a: ******\n  topic of b: qz\n" in explained


def test_a_secret_that_begins_with_another_one_is_hidden_as_a_whole() -> None:
    text = _SECRET_OPTIONS.replace("mapping: a:${secret_values.plain}", "mapping: ${secret_values.list}")
    topics = ";".join(f"{table}:{SECRET}{end}" for table, end in zip("abcd", ("1", "12", "_12", "_1"), strict=True))
    made = Pipeline.from_yaml(
        text.replace("  topic: ${secret_values.quoted}\n", ""), set={**_SECRETS, "secret_values.list": topics}
    )
    assert [line for line in made.explain().splitlines() if "topic of" in line][:4] == [
        f"  topic of {table}: ******" for table in "abcd"
    ]


def test_passwords_that_are_written_down_are_hidden_by_their_names(caplog: pytest.LogCaptureFixture) -> None:
    login = f'x required password="{SECRET}";'
    made = Pipeline(
        {**SOURCE, "properties.sasl.jaas.config": login, "properties.ssl.key.password": SECRET},
        {"type": "hologres", "password": SECRET},
    )
    assert SECRET not in _texts(made, caplog)
    assert SECRET not in _texts(Pipeline(SOURCE, {"type": "delta", "table-properties.x.password": SECRET}), caplog)


@pytest.mark.parametrize("key", [*_SECRETS])
@pytest.mark.parametrize(
    "option",
    [
        *("type", "topic-pattern", "value.format", "key.format", "scan.startup.mode", "scan.startup.specific-offsets"),
        *("scan.startup.timestamp-millis", "scan.header-filter", "scan.parallelism", "scan.max.pre.fetch.records"),
        *("metadata.list", "scan.value.initial-schemas.ddls", "ingestion.ignore-errors", "nothing", "json.nothing"),
        *("json.infer-schema.fixed-types", "json.decode.parser-table-id.fields", "json.ignore-parse-errors"),
        *("json.timestamp-format.standard", "key.fields-prefix", "scan.bounded.mode", "json.map-null-key.mode"),
        *("sink:type", "sink:value.format", "sink:sink.custom-header", "sink:sink.tableId-to-topic.mapping"),
        *("sink:partition.strategy", "sink:debezium-json.include-schema.enabled", "sink:nothing"),
        *("pipeline:name", "pipeline:parallelism", "pipeline:local-time-zone", "pipeline:nothing"),
    ],
)
def test_no_error_has_a_secret(option: str, key: str) -> None:
    block, _, name = option.rpartition(":")
    lines = {
        "source": "type: kafka\n  properties.bootstrap.servers: b:9\n  topic: a,b;c\n  value.format: json",
        "sink": "type: kafka\n  properties.bootstrap.servers: b:9",
        "pipeline": "parallelism: 1",
    }
    found = lines[block or "source"].splitlines()
    kept = [line for line in found if line.strip().partition(":")[0] != name]
    lines[block or "source"] = "\n  ".join([*(line.strip() for line in kept), f"{name}: '%,;:${{{key}}}:, %('"])
    text = "\n".join(f"{block}:\n  {content}" for block, content in lines.items())
    with pytest.raises(ConfigurationError) as caught:
        Pipeline.from_yaml(text, set=_SECRETS)
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error) + repr(error) + repr(vars(error))
        error = error.__cause__ or error.__context__
    assert SECRET not in "".join(traceback.format_exception(caught.value))


# --- explanations ----------------------------------------------------------------------------------------------


def test_the_whole_explanation() -> None:
    made = Pipeline.from_yaml(EXAMPLES["whole"], set=VARIABLES)
    assert (
        made.explain()
        == r"""
Pipeline 'shop to lake'
Source: kafka, topics shop-1, shop-2
  value: canal-json {'other-messages': 'skip-all'}
  key: not read
  start: the earliest record of each partition; a checkpoint has priority
  tables: named by 'database' and 'table' of the message
  first schemas: the newest 50 messages of each partition, then the first batch of the table
  types: by 'mysqlType' of the message
  changes of schemas: found by comparing each batch with the known columns
  columns of the record: offset BIGINT, timestamp TIMESTAMP_LTZ(3)
  bad records: dropped, at most 1000 since the checkpoint began; written to the topic 'shop-dead'
  kafka.bootstrap.servers = 'broker:9092'
  startingOffsets = 'earliest'
  subscribe = 'shop-1,shop-2'
Transform 1: tables shop.order\.*
  columns: *, __table_name__ AS `shard`
  primary key: id, shard
Routes, the first that matches; other tables keep their names:
  shop.order_\.* -> ods.orders
  shop.\.* -> ods.<>, <> is the name of the table
Sink: iceberg
  tables: lake
  rows: the last of each key, merged
  batches: one write for each table that has records; 'trigger' sets the time between batches
  changes of schemas (lenient): columns are added at the end and types widened; no column is dropped
  left out: drop.column, drop.table
""".strip()
    )


@pytest.mark.parametrize(
    ("source", "sink", "blocks", "lines"),
    [
        (
            {"value.format": "json", "key.format": "csv", "csv.null-literal": "x", "name": "n", "topic": "t"},
            {"type": "values", "name": "m"},
            {},
            ["Source 'n': kafka, topics t", "key: csv {'null-literal': 'x'}", "Sink 'm': values", "rows are printed"],
        ),
        (
            {"schema.inference.strategy": "static", "scan.bounded.mode": "latest-offset"},
            SINK,
            {"pipeline": {"execution.runtime-mode": "BATCH"}},
            [
                "changes of schemas: none; new columns are left out, values of other types are bad records",
                "end: the last record when the query starts",
                "batches: what is there, then the query stops",
            ],
        ),
        (
            {
                **{"value.format": "json", "json.infer-schema.primitive-as-string": "true"},
                **{"json.infer-schema.flatten-nested-columns.enable": "true", "properties.group.id": "g"},
                "scan.check.duplicated.group.id": "true",
            },
            SINK,
            {},
            [
                "types: booleans and numbers are STRING",
                "members of objects are columns",
                "the consumer group must have no member when the query starts",
            ],
        ),
        (
            {},
            {
                **{"type": "kafka", "properties.bootstrap.servers": "b:9", "partition.strategy": "hash-by-key"},
                **{"sink.add-tableId-to-header-enabled": "true", "sink.custom-header": "a:b", "topic": "all"},
            },
            {},
            ["topic: all", "partition: by the key", "headers: namespace, schemaName, tableName, a"],
        ),
        (
            {
                "scan.startup.mode": "group-offsets",
                **{"ingestion.ignore-errors": "true", "ingestion.error-tolerance.max-count": "0"},
            },
            {"type": "kafka", "properties.bootstrap.servers": "b:9", "sink.tableId-to-topic.mapping": "a,b:c;d:e"},
            {},
            [
                "start: the committed offsets of a group; a checkpoint has priority",
                "bad records: dropped, at most 0 since the checkpoint began",
                "topic of a,b: c",
                "topic of d: e",
                "topic of other tables: the table's name",
                "partition: 0, so one task writes each topic",
            ],
        ),
        (
            {},
            {
                **{"type": "delta", "path": "/lake", "write-mode": "append", "create-tables": "false"},
                **{
                    "sink.type-normalize-strategy": "broaden",
                    "include.schema.changes": ["add"],
                },
            },
            {"pipeline": {"schema.change.behavior": "exception", "trigger": "10 s", "parallelism": "3"}},
            [
                "path: /lake",
                "rows: every change, with its kind and place",
                "types: broaden",
                "tables must exist",
                "changes of schemas (exception): only new tables are created; any other change stops the query",
                "left out: alter.column.type, alter.table.comment, drop.column, drop.table, rename.column, "
                "truncate.table",
                "batches: every 10000 milliseconds",
                "parallelism: 3",
            ],
        ),
        (
            {"ingestion.ignore-errors": "true"},
            {"type": "delta", "catalog": "c", "namespace": "n", "table-properties.a": "b"},
            {
                "transform": [
                    {
                        **{"source-table": "a", "filter": "b = 1", "partition-keys": "d", "table-options": "k=v"},
                        **{"projection": "*, __data_event_type__ AS op", "converter-after-transform": "SOFT_DELETE"},
                    }
                ],
                "pipeline": {
                    "dirty-data.collector": {"type": "logger"},
                    "user-defined-function": [{"name": "f", "python": "m:g"}],
                },
            },
            [
                "property a = 'b'",
                "tables: c.n",
                "batches: one write for each table that has records; 'trigger' sets the time between batches",
                "where: b = 1",
                "partitions: d",
                "property k = 'v'",
                "a deleted row is written as a row with its old values",
                "bad records: dropped, without a limit; logged as warnings",
                "function f: m:g",
            ],
        ),
    ],
)
def test_explanations_name_what_is_set(
    source: dict[str, str], sink: dict[str, Any], blocks: dict[str, Any], lines: list[str]
) -> None:
    told = Pipeline({**SOURCE, **source}, sink, **blocks).explain().splitlines()
    assert [line for line in lines if line not in map(str.strip, told)] == []


@pytest.mark.parametrize(
    ("mode", "which"), [("ALL_MATCH", "all that match"), ("FIRST_MATCH", "the first that matches")]
)
def test_the_explanation_says_how_many_routes_a_table_follows(mode: str, which: str) -> None:
    routes = [{"source-table": "a", "sink-table": "b"}]
    told = Pipeline(SOURCE, SINK, route=routes, pipeline={"route-mode": mode}).explain()
    assert f"Routes, {which}; other tables keep their names:" in told
    assert "changes of schemas (lenient)" in told


def test_topics_take_no_changes_of_schemas() -> None:
    for type_ in ("kafka", "upsert-kafka"):
        sink = {"type": type_, "properties.bootstrap.servers": "b:9"}
        assert "changes of schemas (" not in Pipeline(SOURCE, sink).explain()


def test_options_of_catalogs_have_no_effect_on_other_sinks() -> None:
    rules = [{"source-table": "a.b", "partition-keys": "day", "table-options": "k=v"}]
    at_a_path = {"type": "delta", "path": "x", "table-properties.a": "b", "rewrite.max-bytes": "1 gb"}
    made = Pipeline(SOURCE, at_a_path, transform=rules)
    assert "property a = 'b'" in made.explain()
    assert made.notes == ("transform: no effect: 'partition-keys', because tables at a path have no partitions",)
    assert Pipeline(SOURCE, {"type": "delta", "table-properties.a": "b"}, transform=rules).notes == ()
    assert Pipeline(SOURCE, DeltaPathTarget("x"), transform=rules).notes == ()
    for sink, shown in (({"type": "values"}, "values"), (ValuesTarget(), "ValuesTarget")):
        for key in ("partition-keys", "table-options"):
            (note,) = Pipeline(SOURCE, sink, transform=[{"source-table": "a.b", key: "k=v"}]).notes
            assert note.startswith("transform: no effect: 'partition-keys' and 'table-options', because ")
            assert f"because '{shown}' creates no" in note


def test_a_route_to_four_parts_is_an_error_at_the_start() -> None:
    for route in ({"sink-table": "a.b.c.d"}, {"sink-table": "a.b.c.<>", "replace-symbol": "<>"}):
        assert "is not the name of a table" in _error(route=[{"source-table": "x.y", **route}])
