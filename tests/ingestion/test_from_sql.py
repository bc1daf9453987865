"""Pipelines of CREATE TABLE ... AS TABLE: their blocks, notes, refusals, and errors with line and column."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion import Pipeline
from kvformat.ingestion.pipeline.from_sql import checkpoint_folder
from kvformat.registry import ConfigurationError
from tests.support.pipeline_examples import SQL_EXAMPLES

_SECRET = "s3same"
_OPTIONS = {
    "connector": "kafka",
    "properties.bootstrap.servers": "broker:9092",
    "topic": "shop",
    "scan.startup.mode": "earliest-offset",
    "format": "json",
}


def _source(columns: str = "", name: str = "k", **options: str | None) -> str:
    given = {key: text for key, text in {**_OPTIONS, **options}.items() if text is not None}
    listed = ",\n".join(f"  '{key}' = '{text}'" for key, text in given.items())
    return f"CREATE TABLE {name} ({columns}) WITH (\n{listed}\n);\n"


_K = _source()
_T = "CREATE TABLE IF NOT EXISTS lake.shop.t WITH ('connector' = 'delta') AS TABLE k"


def _given(pipeline: Pipeline) -> dict[str, Any]:
    """Return the blocks, the source without the options that all tables of the tests have."""
    blocks = pipeline._arguments()
    source = {key: text for key, text in blocks["source"].items() if _OPTIONS.get(key) != text}
    return {**blocks, "source": source}


def _error(text: str, **more: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Pipeline.from_sql(text, **more)
    assert _SECRET not in str(caught.value)
    return str(caught.value)


# --- blocks ----------------------------------------------------------------------------------------------------


def test_a_table_without_columns() -> None:
    made = Pipeline.from_sql(_K + _T)
    assert _given(made) == {
        "source": {"type": "kafka", "name": "k", "value.format": "json"},
        "sink": {"type": "delta", "catalog": "lake"},
        "route": [{"source-table": r"\.*", "sink-table": "shop.t"}],
    }
    assert (made.refused, made.notes) == ((), ())


def test_options_of_the_format_of_the_value() -> None:
    options = {"value.json.infer-schema.fixed-types": "id BIGINT", "json.infer-schema.primitive-as-string": "true"}
    made = Pipeline.from_sql(_source(**options) + _T)
    assert {name: str(t) for name, t in made.source.fixed_types.items()} == {"id": "BIGINT"}
    assert made.source.values["json.infer-schema.primitive-as-string"] is True
    assert "both have the column 'id' (line 7, column 3)" in _error(_source("id INT", **options) + _T)


def test_columns_keys_and_computed_columns() -> None:
    columns = (
        "key_id INT NOT NULL, name STRING, sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', `d` AS CAST(sent AS DATE), "
        "PRIMARY KEY (key_id) NOT ENFORCED"
    )
    options = {"format": None, "value.format": "json", "key.format": "json", "key.fields": "key_id"}
    source = _source(columns, **options, **{"key.fields-prefix": "key_", "value.fields-include": "EXCEPT_KEY"})
    added = "ADD COLUMN upper_name AS UPPER(name) FIRST, next_d AS d + INTERVAL '1' DAY, x AS 1 AFTER key_id"
    made = Pipeline.from_sql(
        f"{source}CREATE TABLE IF NOT EXISTS t PARTITIONED BY (d) WITH ('path' = '/lake') AS TABLE k {added}"
    )
    given = _given(made)
    assert given["source"]["table.columns"] == (
        "`key_id` INT NOT NULL, `name` STRING, `sent` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'"
    )
    assert [given["source"][key] for key in ("key.format", "key.fields", "value.format")] == ["json", "key_id", "json"]
    assert given["sink"] == {"type": "delta", "path": "/lake"}
    assert given["transform"] == [
        {
            "source-table": r"\.*.\.*.\.*",
            "dialect": "flink",
            "projection": "UPPER(name) AS `upper_name`, `key_id`, 1 AS `x`, `name`, `sent`, CAST(sent AS DATE) AS `d`, "
            "*, (CAST(sent AS DATE)) + INTERVAL '1' DAY AS `next_d`",
            "primary-keys": "`key_id`",
            "partition-keys": "`d`",
        }
    ]
    assert "  columns: UPPER(name) AS `upper_name`, `key_id` AS `key_id`" in made.explain()
    assert made.refused == ()
    assert pickle.loads(pickle.dumps(made)) == made


def test_the_comment_of_a_statement_is_the_description_of_its_rule() -> None:
    made = Pipeline.from_sql(_K + _T.replace("shop.t", "shop.t COMMENT 'orders of it''s shop'"))
    assert _given(made)["transform"] == [{"source-table": r"\.*.\.*.\.*", "description": "orders of it's shop"}]


def test_the_key_of_the_statement_comes_before_that_of_the_table() -> None:
    source = _source("id INT, nr INT, PRIMARY KEY (id) NOT ENFORCED")
    for clause, key in (("", "id"), ("(PRIMARY KEY (nr, id) NOT ENFORCED)", "nr, id")):
        made = Pipeline.from_sql(source + _T.replace("lake.shop.t", f"lake.shop.t {clause}"))
        assert _given(made)["transform"] == [
            {"source-table": r"\.*.\.*.\.*", "primary-keys": ", ".join(f"`{name}`" for name in key.split(", "))}
        ]
    keyed = _T.replace("lake.shop.t", "t (PRIMARY KEY (`we``ird`) NOT ENFORCED)")
    made = Pipeline.from_sql(_source("`we``ird` INT") + keyed)
    assert made.transforms[0].primary_keys == made.source.declared.names == ("we`ird",)


@pytest.mark.parametrize(
    ("name", "options", "sink", "target"),
    [
        ("t", {"connector": "Delta"}, {"type": "delta"}, "t"),
        ("shop.t", {"connector": "iceberg"}, {"type": "iceberg"}, "shop.t"),
        ("lake.shop.t", {"connector": "iceberg"}, {"type": "iceberg", "catalog": "lake"}, "shop.t"),
        ("a.b.t", {"connector": "iceberg", "catalog": "lake"}, {"type": "iceberg", "catalog": "lake"}, "a.b.t"),
        ("a.b.t", {"path": "/lake"}, {"type": "delta", "path": "/lake"}, "a.b.t"),
        ("`t$1\\x`", {"connector": "values"}, {"type": "values"}, "t\\$1\\\\x"),
        (
            "t",
            {"connector": "delta", "exclude.schema.changes": "drop.table, truncate.table"},
            {"type": "delta", "exclude.schema.changes": ["drop.table", "truncate.table"]},
            "t",
        ),
        (
            "t",
            {"connector": "delta", "include.schema.changes": "add; alter"},
            {"type": "delta", "include.schema.changes": ["add", "alter"]},
            "t",
        ),
    ],
)
def test_targets(name: str, options: Mapping[str, str], sink: Mapping[str, Any], target: str) -> None:
    listed = ", ".join(f"'{key}' = '{text}'" for key, text in options.items())
    made = Pipeline.from_sql(f"{_K}CREATE TABLE IF NOT EXISTS {name} WITH ({listed}) AS TABLE k")
    assert _given(made)["sink"] == sink
    assert _given(made)["route"] == [{"source-table": r"\.*", "sink-table": target}]


def test_settings_are_those_of_the_pipeline_or_have_no_effect() -> None:
    text = (
        "SET 'pipeline.name' = 'my job'; SET 'table.local-time-zone' = 'UTC'; SET 'trigger' = '${every}';\n"
        "SET 'execution.checkpointing.interval' = '10 s'; SET 'state.backend' = 'x'; SET 'checkpoint' = '/c';\n"
    )
    made = Pipeline.from_sql(text + _K + _T, set={"every": "5 seconds"})
    assert _given(made)["pipeline"] == {
        "name": "my job",
        "local-time-zone": "UTC",
        "trigger": "5 seconds",
        "checkpoint": "/c/k",
    }
    assert made.notes == (
        "SET 'execution.checkpointing.interval' (line 2, column 1) has no effect on Spark; 'trigger' sets the time "
        "between batches",
        "SET 'state.backend' (line 2, column 50) has no effect on Spark",
    )
    made = Pipeline.from_sql(f"SET 'table.local-time-zone' = 'default'; {_K}{_T}")
    assert (_given(made).get("pipeline"), made.notes) == (None, ()), "the zone of the session"
    secret = {"secret_values.c": "/c"}
    assert "'checkpoint' must not have a secret (secret_values) (line 1, column 1)" in _error(
        f"SET 'checkpoint' = '${{secret_values.c}}'; {_K}{_T}", set=secret
    )
    assert "there is no setting 'schema.change.behaviour'. Did you mean 'schema.change.behavior'?" in _error(
        f"SET 'schema.change.behaviour' = 'evolve'; {_K}{_T}"
    )
    assert _error(f"SET 'execution.runtime-mode' = 'AUTOMATIC'; {_K}{_T}").endswith(
        "[STREAMING, BATCH] (line 1, column 1)"
    )


def test_notes_say_what_has_no_effect() -> None:
    columns = "id INT, sent TIMESTAMP(3) METADATA FROM 'timestamp', WATERMARK FOR sent AS sent - INTERVAL '5' SECOND"
    source = _source(columns, **{"sink.partitioner": "fixed"})
    source = source.replace(") WITH", ") DISTRIBUTED BY HASH(id) INTO 2 BUCKETS PARTITIONED BY (id) WITH")
    made = Pipeline.from_sql(source + _T.replace("IF NOT EXISTS ", ""))
    assert made.notes == (
        "table 'k': no effect: 'sink.partitioner', because the table is only read",
        "table 'k': no effect: WATERMARK, because the rows are written as they come",
        "table 'k': no effect: PARTITIONED BY, because the rows are written as they come",
        "table 'k': no effect: DISTRIBUTED, because the rows are written as they come",
        "lake.shop.t (line 9, column 14): the table is used if it exists, as with IF NOT EXISTS",
    )


# --- several statements ----------------------------------------------------------------------------------------


def test_statements_that_follow_one_table_are_one_pipeline() -> None:
    made = Pipeline.from_sql(f"{_K}BEGIN STATEMENT SET; {_T}; {_T.replace('shop.t', 'shop.u')}; END;")
    assert [rule["sink-table"] for rule in _given(made)["route"]] == ["shop.t", "shop.u"]
    assert made.notes == ()
    plain = _T.replace("IF NOT EXISTS ", "")
    made = Pipeline.from_sql(f"{_K}{plain};\n{plain.replace('shop.t', 'shop.u')}")
    assert [note.partition(" (")[0] for note in made.notes] == ["lake.shop.t", "lake.shop.u"]


@pytest.mark.parametrize(
    ("other", "clause"),
    [
        ("CREATE TABLE u WITH ('connector' = 'iceberg') AS TABLE k", "WITH"),
        (f"{_T.replace('shop.t', 'shop.u')} ADD COLUMN a AS 1", "ADD COLUMN"),
        (f"{_T.replace('shop.t', 'shop.u')} /*+ OPTIONS('scan.startup.mode' = 'latest-offset') */", "the hint OPTIONS"),
        (_T.replace("shop.t", "shop.u PARTITIONED BY (a)"), "PARTITIONED BY"),
        (_T.replace("shop.t", "shop.u (PRIMARY KEY (a) NOT ENFORCED)"), "PRIMARY KEY"),
    ],
)
def test_statements_that_one_query_can_not_serve_are_an_error(other: str, clause: str) -> None:
    reason = _error(f"{_K}{_T};\n{other}")
    assert reason.startswith("table 'lake.shop.t' (line 8) and table '")
    assert f"(line 9) follow the same table 'k', but differ in {clause}, and one query has one of it." in reason
    assert reason.endswith(
        "Write them into two files, or let one follow a table of its own: CREATE TABLE `k_2` LIKE `k`"
    )


def test_a_table_of_another_database_is_copied_there() -> None:
    source = _source(name="d.k").replace("CREATE", "USE CATALOG c; CREATE", 1)
    other = _T.replace("TABLE k", "TABLE d.k ADD COLUMN a AS 1").replace("shop.t", "shop.u")
    assert _error(f"{source}{_T.replace('TABLE k', 'TABLE d.k')};\n{other}").endswith(
        "CREATE TABLE `d`.`k_2` LIKE `d`.`k`"
    )


def test_each_followed_table_is_a_pipeline() -> None:
    text = f"SET 'pipeline.name' = 'job'; SET 'checkpoint' = '/c/'; {_K}{_source(name='`my k`')}{_T};\n"
    text += _T.replace("shop.t", "shop.u").replace("TABLE k", "TABLE `my k`")
    found = Pipeline.all_from_sql(text)
    assert [(name, p.source.values["name"], p.settings.values["name"]) for name, p in found.items()] == [
        ("k", "k", "job k"),
        ("my k", "my k", "job my k"),
    ]
    assert [p.settings.values["checkpoint"] for p in found.values()] == ["/c/k", "/c/my=20=k"]
    assert Pipeline.from_sql(text, source="my k") == found["my k"]
    assert "the text has 2 pipelines, one for each table that it follows: k, my k. Choose one, " in _error(text)
    assert "follows no table 'myk'. Did you mean 'my k'? It follows k, my k" in _error(text, source="myk")
    assert len({checkpoint_folder("/c", name) for name in ("a b", "a_b", "a.b", "a=20=b", "ä")}) == 5


def test_a_target_belongs_to_one_query() -> None:
    again = _T.replace("TABLE k", "TABLE j")
    assert _error(f"{_K}{_source(name='j')}{_T};\n{again}") == (
        "table 'lake.shop.t' (line 15) is created again at line 16: a table belongs to one query"
    )
    assert "two tables that are followed have the name 'k'" in _error(
        f"{_K}{_T}; USE d; {_K}{_T.replace('shop.t', 'shop.u')}"
    )


# --- errors and refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"topci": "x"}, "source: there is no option 'topci'. Did you mean 'topic'?.* .line 7, column 3.$"),
        ({"scan.startup.mode": "first"}, "supported values are .*. .line 5, column 3.$"),
        ({"json.infer-schema.primitive-as-strin": "true"}, "no option 'json.infer-schema.primitive-as-strin'.*line 7"),
        (
            {"canal-json.table.include": "x"},
            "'canal-json.table.include' is an option of the format .* .line 7, column 3.$",
        ),
        ({"format": "jsn"}, "source: option 'value.format': .*jsn.* .line 6, column 3.$"),
        ({"format": None}, r"table 'k' has no 'format' .line 1, column 1.$"),
        (
            {"value.format": "csv"},
            r"table 'k' has a 'format' and another 'value.format'; write one .line 6, column 3.$",
        ),
        ({"connector": None}, r"table 'k' has no 'connector'; it is 'kafka' .line 1, column 1.$"),
        ({"connector": "mysql"}, r"the connector 'mysql', .*: run Debezium or .* .line 2, column 3.$"),
        ({"connector": "upsert-kafka"}, "KafkaTable.maintain keeps a table of its rows"),
        ({"connector": "confluent"}, "write it as a table with 'connector' = 'kafka'"),
        ({"type": "kafka"}, r"table 'k': there is no option 'type' .line 7, column 3.$"),
        ({"key.fields": "id"}, r"'key.fields' needs 'key.format' .line 7, column 3.$"),
        ({"json.timestamp-format.standard": "x"}, r"supported values are .* .line 7, column 3.$"),
        ({"topic": None}, r"Either 'topic' or 'topic-pattern' must be set. .line 1, column 1.$"),
        ({"topic": "${my.topic}"}, "line 4, column 3: the variable 'my.topic' has no value"),
        ({"properties.sasl.password": "${secret_values.p}"}, "line 7, column 3: the variable 'secret_values.p' has no"),
    ],
)
def test_errors_of_the_followed_table(source: dict[str, str | None], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        Pipeline.from_sql(_source(**source) + _T)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (
            "p INT METADATA FROM 'partitoin'",
            "column 'p': the metadata 'partitoin' is unknown. Did you mean 'partition'",
        ),
        ("p INT METADATA FROM 'value.source.table'", "belongs to a format"),
        ("p INT METADATA FROM 'leader-epoch'", "is not in Spark's Kafka source"),
        ("p IMT", "cannot read the CREATE TABLE: unknown type 'IMT'.*, at line 1, column 19"),
    ],
)
def test_errors_of_columns(columns: str, reason: str) -> None:
    text = _source(columns) + _T
    with pytest.raises(ConfigurationError, match=reason):
        Pipeline.from_sql(text)
    assert "line 1, column" in _error(text)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("'connector' = 'iceberg', 'path' = '/x'", r"sink: there is no option 'path'.*\(line 8, column 62\)$"),
        ("'path' = '/x', 'catalog' = 'c'", r"sink: 'catalog' and 'path' exclude each other.* \(line 8, column 52\)$"),
        ("'connector' = 'delta', 'path' = ''", r"sink: 'path' must not be empty \(line 8, column "),
        ("'connector' = 'delta', 'write-mode' = 'x'", r"supported values are \[merge, append\] \(line 8, column 60\)$"),
        ("'connector' = 'delt'", r"the connector 'delt' of table .*\(line 8, column 37\). Did you mean 'delta'\?"),
        (
            "'namespace' = 'x'",
            r"table 't' has no 'connector'. Write 'connector' = 'delta' or .* \(line 8, column 28\)$",
        ),
        ("'connector' = 'delta', 'type' = 'x'", r"there is no option 'type'; it is 'connector' \(line 8, column 60\)$"),
        ("'connector' = 'delta', 'path' = '${p}'", "line 8, column 60: the variable 'p' has no value"),
    ],
)
def test_errors_of_the_target(options: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        Pipeline.from_sql(f"{_K}CREATE TABLE IF NOT EXISTS t  WITH ({options}) AS TABLE k")


def test_errors_of_names() -> None:
    assert "at most three parts, and no part has a dot (line 8, column 28)" in _error(
        _K + _T.replace("shop.t", "`s.t`")
    )
    assert "at most three parts, and no part has a dot (line 8, column 28)" in _error(
        _K + _T.replace("lake.shop.t", "a.lake.shop.t")
    )
    assert "a key column can't have a comma in its name" in _error(
        _source("`a,b` INT, PRIMARY KEY (`a,b`) NOT ENFORCED") + _T
    )


def test_what_can_not_be_served_is_refused_with_its_place_and_explained() -> None:
    columns = "sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', `d` AS CAST(sent AS DATE), s AS NOPE(1)"
    source = _source(
        columns, **{"scan.startup.mode": None, "scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": "1"}
    )
    made = Pipeline.from_sql(f"{source}{_T.replace('delta', 'hologres')} ADD COLUMN v AS NOT_THERE(p, '$.a')")
    assert len(made.refused) == 5
    started = "\n".join(made.refused)
    for words in (
        "the connector 'hologres' of table 'lake.shop.t' is not supported here (line 9, column 46). Connectors: ",
        "Write 'connector' = 'delta' or 'iceberg' for a table of a Spark catalog, or 'path' = '...' for a Delta ",
        "table 'k': column 's': NOPE: no function that can be evaluated here",
        "column 'v' of ADD COLUMN: NOT_THERE: no function that can be evaluated here",
        "needs 'properties.group.id'; set it, or another mode such as 'earliest-offset' (line 1, column 1)",
        "source: 'scan.bounded.mode' = 'timestamp': a stream of Spark can't stop there. ",
    ):
        assert words in started
    told = made.explain()
    assert _given(made)["transform"][0]["projection"] == "`sent`, CAST(sent AS DATE) AS `d`, *"
    assert "Sink: hologres (refused)" in told
    assert all(f"  {why}" in told for why in made.refused)
    assert pickle.loads(pickle.dumps(made)).refused == made.refused


# --- secrets and files -----------------------------------------------------------------------------------------


def test_secrets_are_shown_nowhere() -> None:
    login = f'm required username="me" password="{_SECRET}";'
    options = {"properties.sasl.jaas.config": login, "properties.ssl.keystore.password": "${secret_values.store}"}
    text = _source(**options) + _T
    made = Pipeline.from_sql(text, set={"secret_values.store": f"{_SECRET}-2"})
    assert made.source.records is not None
    assert made.source.records.kv.options["properties.sasl.jaas.config"] == login
    for shown in (repr(made), str(made), made.explain(), *made.notes, repr(made.source), repr(made._document)):
        assert _SECRET not in shown
    for wrong in (text.replace("'format' = 'json'", "'format' = 'jsn'"), text.replace("'delta'", "'x'"), text[:-9]):
        _error(wrong, set={"secret_values.store": f"{_SECRET}-2"})


@pytest.mark.parametrize("key", ["include.schema.changes", "exclude.schema.changes"])
@pytest.mark.parametrize("text", ["${secret_values.x}", "add,${secret_values.x};drop"])
def test_the_entries_of_a_list_with_a_secret_are_secrets(key: str, text: str) -> None:
    target = f"CREATE TABLE t WITH ('path' = '/lake', '{key}' = '{text}') AS TABLE k"
    assert f"sink: '{key}' must be a list of texts" in _error(_K + target, set={"secret_values.x": _SECRET})


def test_a_file_is_given_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "job.sql"
    file.write_text(_K + _T)
    assert Pipeline.from_sql(file) == Pipeline.from_sql(_K + _T)
    assert "'job.sql' is the path of a file; pass the text" in _error("job.sql")


def test_the_examples_of_the_product_page() -> None:
    assert len(SQL_EXAMPLES) == 4
    for name, text in SQL_EXAMPLES.items():
        if "AS TABLE" not in text:
            assert "the text has no CREATE TABLE ... AS TABLE" in _error(text)
            continue
        made = Pipeline.from_sql(text)
        (why,) = made.refused
        assert why.startswith("the connector 'hologres'")
        assert (len(made.notes) == 1) == (name == "follow_key_and_value")
        assert "hologres.kafka.sync_kafka" in made.explain()
