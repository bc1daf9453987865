"""Pipelines of ingestion that are changed at random: their YAML, their SQL, and their blocks.

Each is a pipeline or a `ConfigurationError`, and no text has a secret.
"""

from __future__ import annotations

import functools
import pickle
import random
from collections.abc import Callable
from typing import Any

from kvformat.ingestion import Pipeline
from kvformat.ingestion.pipeline import options
from kvformat.ingestion.pipeline.yaml import Secret
from kvformat.ingestion.targets.discovery import BUILT_IN, sink_options
from kvformat.registry import ConfigurationError
from tests.support import cost
from tests.support.pipeline_examples import EXAMPLES, SECRET, SQL_EXAMPLES, VARIABLES

SECONDS = 5.0
"""Maximum CPU time of one pipeline in seconds."""

PIECES = [
    *("\n", " ", "  ", "\t", ":", ": ", "- ", "&a ", "*a", "!!x ", "|\n", ">", "'", '"', "#", "{", "}", "[", "]", ","),
    *("${", "}", "${x}", "${secret_values.ak_id}", "%", "@", "`", "\\", "\x00", "\x85", "\u2028", "\ufeff", "\ud800"),
    *("é", "𝄞", "<<: ", "? ", "---\n", "...\n", "=", "null", "~", "0", "-1", "source:", " route:\n"),
]
VALUES: list[Any] = [
    *(
        "",
        " ",
        ";",
        ",",
        ":",
        "'",
        "`",
        "a",
        "a,b",
        "a;b",
        "a:b",
        "a.b.c.d",
        "(",
        "[",
        "\\",
        "*",
        r"\*",
        "\x00",
        "é" * 9,
    ),
    *("0", "-1", "99999999999999999999", "1e3", "true", "maybe", "null", "10 s", "kafka", "mysql", "json", "csv"),
    *("canal-json", "avro", "avro-confluent", "protobuf", "raw", "group-offsets", "timestamp", "specific-offsets"),
    *(
        "partition:0,offset:1",
        "CREATE TABLE t (a INT)",
        "CREATE TABLE t (a",
        "id BIGINT",
        "id NT",
        "\ud800",
        "$1",
        "x" * 999,
    ),
    *("flink", "id INT, b BIGINT NOT NULL METADATA FROM 'offset'", "a INT, b AS a", "EXCEPT_KEY", "a STRING"),
    *("UPPER(a) AS b", "a = 1", "CAST(a AS INT) AS b", "TO_TIMESTAMP_LTZ(a, 3) AS b", "((((", "k=v", "topic", "logger"),
    *(Secret(f"{SECRET}-9"), Secret(f"a;{SECRET}:,'"), None, True, 7, 1.5, float("nan"), 10**400, [], {}, ["a"], [{}]),
    *({"a": "b"}, {"a": {"b": ["c"]}}, [["a"]], (), object(), b"bytes", [None], {1: "a"}, {None: "a"}),
]
KEYS: list[Any] = [
    *sorted(
        {
            *(spec.name for type_ in BUILT_IN for spec in sink_options(type_)),
            *(spec.name for spec in (*options.SOURCE_OPTIONS, *options.TRANSFORM_OPTIONS, *options.PIPELINE_OPTIONS)),
            *(f"{name}.{spec.name}" for name, specs in options.FORMAT_OPTIONS.items() for spec in specs),
            *(f"debezium-json.{spec.name}" for spec in options.SINK_FORMAT_OPTIONS["debezium-json"]),
            *(
                "include.schema.changes",
                "exclude.schema.changes",
                "dirty-data.collector",
                "user-defined-function",
                "model",
            ),
            *("key.json.ignore-parse-errors", "value.json.x", "properties.", "properties.x", "table-properties.x"),
        }
    ),
    *("", ".", "a.b.c", "\x00", "\ud800", "é", "x" * 999, 1, None, ("a",), "Topic", "aliyun.x", "json.", "kafka"),
]


def outcome(make: Callable[[], Pipeline]) -> str:
    """Return 'made' or 'refused' for a pipeline, 'error' for a clear error; other exceptions fail the test."""
    try:
        made = make()
    except ConfigurationError as error:
        told = str(error)
        made = None
    if made is None:
        assert told.strip()
        assert len(told) < 8000
        assert SECRET not in told
        return "error"
    told = made.explain()
    assert pickle.loads(pickle.dumps(made)).explain() == told
    assert SECRET not in told + repr(made) + repr(made.source) + repr(made.sink)
    return "refused" if made.refused else "made"


def changed_text(rng: random.Random, text: str) -> str:
    """Return a text in which some characters or lines are others."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(text) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            text = text[:start] + rng.choice(PIECES) + text[start:]
        elif kind == 1:
            text = text[:start] + text[start + rng.randint(1, 20) :]
        elif kind == 2:
            lines = text.splitlines(keepends=True)
            rng.shuffle(lines)
            text = "".join(lines)
        elif kind == 3:
            lines = text.splitlines(keepends=True) or [""]
            at = rng.randrange(len(lines))
            lines[at:at] = [rng.choice(("", " ", "  ", "- ")) + lines[at]]
            text = "".join(lines)
        else:
            text = text[:start] + chr(rng.randrange(0x250)) + text[start + 1 :]
    return text


BLOCKS: dict[str, Any] = {
    "source": {
        "type": "kafka",
        "properties.bootstrap.servers": "broker:9092",
        "topic": "shop",
        "scan.startup.mode": "earliest-offset",
        "value.format": "json",
    },
    "sink": {"type": "kafka", "properties.bootstrap.servers": "broker:9092"},
    "transform": [{"source-table": "a", "projection": r"\*, b AS c", "filter": "d = 1", "primary-keys": "e"}],
    "route": [{"source-table": "a", "sink-table": "b", "replace-symbol": "<>"}],
    "pipeline": {"name": "n", "dirty-data.collector": {"type": "logger"}, "user-defined-function": [{"name": "f"}]},
}


def changed_block(rng: random.Random, value: Any) -> Any:
    """Return a copy of a block in which about one value or key is another."""
    if rng.random() < 0.12:
        return rng.choice(VALUES)
    if isinstance(value, dict):
        found = dict(value)
        if found and rng.random() < 0.9:
            key = rng.choice(list(found))
            found[key] = changed_block(rng, found[key])
        if rng.random() < 0.7:
            found[rng.choice(KEYS)] = rng.choice(VALUES)
        if found and rng.random() < 0.1:
            del found[rng.choice(list(found))]
        return found
    if isinstance(value, list):
        return [changed_block(rng, item) for item in value] * rng.choice((1, 1, 1, 2))
    return value


def yaml_text(rng: random.Random) -> str:
    """Return a changed example."""
    return changed_text(rng, EXAMPLES[rng.choice(sorted(EXAMPLES))])


_SQL_PIECES = [
    *("(", ")", ",", ";", "'", "`", "/*", "*/", "--", "/*+ OPTIONS('topic' = 'x') */", " AS TABLE k ", " ADD COLUMN "),
    *(
        " FIRST",
        " AFTER a",
        " AS ",
        " PRIMARY KEY (a) NOT ENFORCED",
        " WITH ",
        "BEGIN STATEMENT SET;",
        "END;",
        "USE c;",
    ),
    *("SET 'a' = 'b';", "SET 'trigger' = '1 s';", "METADATA ", "CAST(", "[", "||", "=", "${x}", "INSERT INTO a ", "."),
]
_JOB = """SET 'pipeline.name' = 'job';
CREATE TABLE k (
  key_id INT NOT NULL, val_price DOUBLE, part BIGINT METADATA FROM 'partition', val_d AS CAST(val_price AS INT),
  PRIMARY KEY (key_id) NOT ENFORCED
) WITH (
  'connector' = 'kafka', 'topic' = 'k', 'properties.bootstrap.servers' = 'broker:9092', 'value.format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'key.format' = 'json', 'key.fields' = 'key_id',
  'key.fields-prefix' = 'key_', 'value.fields-prefix' = 'val_', 'properties.sasl.password' = '${secret_values.kafka-sk}'
);
EXECUTE STATEMENT SET BEGIN
CREATE TABLE IF NOT EXISTS lake.a.t (PRIMARY KEY (key_id) NOT ENFORCED) COMMENT 'c' PARTITIONED BY (val_d)
WITH ('connector' = 'iceberg') AS TABLE k /*+ OPTIONS('scan.max.pre.fetch.records' = '0') */
ADD COLUMN (a AS COALESCE(val_price, 0) FIRST, b AS val_d + 1 AFTER part, c AS UPPER(val_name));
END;
"""


def sql_text(rng: random.Random) -> str:
    """Return a changed job of SQL."""
    examples = [text for _, text in sorted(SQL_EXAMPLES.items()) if "AS TABLE" in text]
    text = _JOB if rng.random() < 0.5 else rng.choice(examples)
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(text) + 1)
        if rng.random() < 0.5:
            text = text[:start] + rng.choice(_SQL_PIECES) + text[start:]
        elif rng.random() < 0.6:
            text = text[:start] + text[start + rng.randint(1, 20) :]
        else:
            text = changed_text(rng, text)
    return text


def use_sql(text: str) -> str:
    """A text is a job, whose pipelines can be pickled and explained, or an error, within the time limit."""
    return timed(lambda: next(iter(Pipeline.all_from_sql(text, set=_variables()).values())))


def use_yaml(text: str) -> str:
    """A text is a pipeline, which can be pickled and explained, or an error, within the time limit."""
    return timed(lambda: Pipeline.from_yaml(f"\n{text}", set=_variables()))


@functools.cache
def _variables() -> dict[str, str]:
    return {**VARIABLES, "mysql.password": "p", "upsert.kafka.aliyun.sk": "p"}


def blocks(rng: random.Random) -> dict[str, Any]:
    """Return the blocks of a pipeline, one of them changed."""
    found = dict(BLOCKS)
    name = rng.choice(list(found))
    found[name] = changed_block(rng, found[name])
    return found


def use_blocks(given: dict[str, Any]) -> str:
    """Blocks are a pipeline, which can be pickled and explained, or an error, within the time limit."""
    return timed(lambda: Pipeline(**given))


def timed(make: Callable[[], Pipeline]) -> str:
    """Return the outcome of a pipeline, which must not take long."""
    with cost.at_most(SECONDS):
        return outcome(make)
