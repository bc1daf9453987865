"""Pipelines that are changed at random (tests/fuzz/pipelines.py): each is a pipeline, or a clear error."""

from __future__ import annotations

import random
from collections import Counter

from tests.fuzz.pipelines import BLOCKS, KEYS, VALUES, blocks, sql_text, use_blocks, use_sql, use_yaml, yaml_text
from tests.support.extent import case_count

_TEXTS = case_count("KVFORMAT_PIPELINE_TEXTS", quick=600, night=3_000)
_DOCUMENTS = case_count("KVFORMAT_PIPELINE_DOCUMENTS", quick=600, night=3_000)


def test_changed_texts_are_pipelines_or_clear_errors() -> None:
    rng = random.Random(24)
    found: Counter[str] = Counter()
    for _ in range(_TEXTS):
        found[use_yaml(yaml_text(rng))] += 1
    assert found["error"] >= _TEXTS // 3
    assert found["made"] >= _TEXTS // 50
    assert found["refused"] >= _TEXTS // 50


def test_changed_jobs_are_pipelines_or_clear_errors() -> None:
    rng = random.Random(24)
    found: Counter[str] = Counter()
    for _ in range(_TEXTS):
        found[use_sql(sql_text(rng))] += 1
    assert found["error"] >= _TEXTS // 3
    assert found["made"] >= _TEXTS // 200
    assert found["refused"] >= _TEXTS // 50


def test_changed_blocks_are_pipelines_or_clear_errors() -> None:
    rng = random.Random(24)
    found: Counter[str] = Counter()
    for _ in range(_DOCUMENTS):
        found[use_blocks(blocks(rng))] += 1
    assert found["error"] >= _DOCUMENTS // 3
    assert found["made"] + found["refused"] >= _DOCUMENTS // 20


def test_each_option_with_odd_values_is_a_pipeline_or_a_clear_error() -> None:
    rng = random.Random(24)
    tried = 0
    for key in KEYS:
        for name in ("source", "sink", "pipeline"):
            for value in rng.sample(VALUES, case_count(quick=2, night=8)):
                assert use_blocks({**BLOCKS, name: {**BLOCKS[name], key: value}})
                tried += 1
    assert tried >= 600
