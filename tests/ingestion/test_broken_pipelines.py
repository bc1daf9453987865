"""Pipelines that are changed at random: each is a pipeline, or a clear error, and no text has a secret."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from kvformat.ingestion import Pipeline
from kvformat.ingestion.blocks import options
from kvformat.ingestion.yaml import Secret
from kvformat.registry import ConfigurationError
from tests.ingestion.examples import EXAMPLES, SECRET, VARIABLES
from tests.support.extent import case_count

_TEXTS = case_count("KVFORMAT_PIPELINE_TEXTS", quick=600, all=20_000)
_DOCUMENTS = case_count("KVFORMAT_PIPELINE_DOCUMENTS", quick=600, all=20_000)
_PIECES = [
    *("\n", " ", "  ", "\t", ":", ": ", "- ", "&a ", "*a", "!!x ", "|\n", ">", "'", '"', "#", "{", "}", "[", "]", ","),
    *("${", "}", "${x}", "${secret_values.ak_id}", "%", "@", "`", "\\", "\x00", "\x85", "\u2028", "\ufeff", "\ud800"),
    *("é", "𝄞", "<<: ", "? ", "---\n", "...\n", "=", "null", "~", "0", "-1", "source:", " route:\n"),
]
_VALUES: list[Any] = [
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
    *("UPPER(a) AS b", "a = 1", "CAST(a AS INT) AS b", "TO_TIMESTAMP_LTZ(a, 3) AS b", "((((", "k=v", "topic", "logger"),
    *(Secret(f"{SECRET}-9"), Secret(f"a;{SECRET}:,'"), None, True, 7, 1.5, float("nan"), 10**400, [], {}, ["a"], [{}]),
    *({"a": "b"}, {"a": {"b": ["c"]}}, [["a"]], (), object(), b"bytes", [None], {1: "a"}, {None: "a"}),
]
_KEYS: list[Any] = [
    *sorted(
        {
            *(spec.name for specs in options.SINK_OPTIONS.values() for spec in specs),
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


def _outcome(make: Any) -> str:
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
    assert SECRET not in told + repr(made) + repr(made.source) + repr(made.sink)
    return "refused" if made.refused else "made"


def _changed_text(random_: random.Random, text: str) -> str:
    for _ in range(random_.randint(1, 4)):
        start = random_.randrange(len(text) + 1)
        kind = random_.randrange(5)
        if kind == 0:
            text = text[:start] + random_.choice(_PIECES) + text[start:]
        elif kind == 1:
            text = text[:start] + text[start + random_.randint(1, 20) :]
        elif kind == 2:
            lines = text.splitlines(keepends=True)
            random_.shuffle(lines)
            text = "".join(lines)
        elif kind == 3:
            lines = text.splitlines(keepends=True) or [""]
            at = random_.randrange(len(lines))
            lines[at:at] = [random_.choice(("", " ", "  ", "- ")) + lines[at]]
            text = "".join(lines)
        else:
            text = text[:start] + chr(random_.randrange(0x250)) + text[start + 1 :]
    return text


def test_changed_texts_are_pipelines_or_clear_errors() -> None:
    random_ = random.Random(24)
    variables = {**VARIABLES, "mysql.password": "p", "upsert.kafka.aliyun.sk": "p"}
    names = sorted(EXAMPLES)
    found: Counter[str] = Counter()
    for _ in range(_TEXTS):
        text = _changed_text(random_, EXAMPLES[random_.choice(names)])
        found[_outcome(lambda text=text: Pipeline.from_yaml(f"\n{text}", set=variables))] += 1
    assert found["error"] >= _TEXTS // 3
    assert found["made"] >= _TEXTS // 50
    assert found["refused"] >= _TEXTS // 50


_BLOCKS: dict[str, Any] = {
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


def _changed_block(random_: random.Random, value: Any) -> Any:
    """Return a copy of a block in which about one value or key is another."""
    if random_.random() < 0.12:
        return random_.choice(_VALUES)
    if isinstance(value, dict):
        found = dict(value)
        if found and random_.random() < 0.9:
            key = random_.choice(list(found))
            found[key] = _changed_block(random_, found[key])
        if random_.random() < 0.7:
            found[random_.choice(_KEYS)] = random_.choice(_VALUES)
        if found and random_.random() < 0.1:
            del found[random_.choice(list(found))]
        return found
    if isinstance(value, list):
        return [_changed_block(random_, item) for item in value] * random_.choice((1, 1, 1, 2))
    return value


def test_changed_blocks_are_pipelines_or_clear_errors() -> None:
    random_ = random.Random(24)
    found: Counter[str] = Counter()
    for _ in range(_DOCUMENTS):
        blocks = dict(_BLOCKS)
        name = random_.choice(list(blocks))
        blocks[name] = _changed_block(random_, blocks[name])
        found[_outcome(lambda blocks=blocks: Pipeline(**blocks))] += 1
    assert found["error"] >= _DOCUMENTS // 3
    assert found["made"] + found["refused"] >= _DOCUMENTS // 20


def test_each_option_with_odd_values_is_a_pipeline_or_a_clear_error() -> None:
    random_ = random.Random(24)
    tried = 0
    for key in _KEYS:
        for name in ("source", "sink", "pipeline"):
            for value in random_.sample(_VALUES, case_count(quick=2, all=len(_VALUES))):
                blocks = {**_BLOCKS, name: {**_BLOCKS[name], key: value}}
                assert _outcome(lambda blocks=blocks: Pipeline(**blocks))
                tried += 1
    assert tried >= 600
