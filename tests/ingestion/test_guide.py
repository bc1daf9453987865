"""Run the code of docs/ingestion.md on a real broker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion import Pipeline, read_table

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "ingestion.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.slow
@pytest.mark.once
def test_three_tables_in_five_minutes(spark: Any, broker: Any, tmp_path: Path) -> None:
    topic = broker.create("shop", 3)
    broker.create("customers", 3)
    (messages,) = _blocks("json")
    broker.send(topic, [(None, line.encode()) for line in messages.splitlines()])
    scope: dict[str, Any] = {
        "spark": spark,
        "lake": str(tmp_path),
        "send": lambda text: broker.send(topic, [(None, text.encode())]),
    }
    snippets = _blocks("python")
    shown = []
    for number, snippet in enumerate(snippets):
        code = snippet.replace("broker:9092", broker.bootstrap)
        exec(compile(code, f"docs/ingestion.md, snippet {number}", "exec"), scope)
        shown.append(read_table(spark, tmp_path / "tables", "shop.orders"))
    first, second = (
        ([(f.name, f.dataType.simpleString()) for f in frame.schema], [tuple(r) for r in frame.collect()])
        for frame in (shown[0], shown[1])
    )
    del first  # its rows were replaced by the next batch
    assert second == (
        [("id", "bigint"), ("customer", "bigint"), ("price", "double"), ("paid", "boolean")],
        [(7, 1, 12.5, True)],
    )
    assert read_table(spark, tmp_path / "tables", "shop.customers").count() == 1
    assert [f.dataType.simpleString() for f in read_table(spark, tmp_path / "tables", "shop.notes").schema] == [
        "bigint",
        "string",
        "timestamp_ntz",
    ]
    values = [json.loads(message.value()) for message in broker.records("customers")]
    assert sorted((value["type"], value["data"][0]["id"]) for value in values) == [
        ("DELETE", 2),
        ("INSERT", 1),
        ("UPDATE", 1),
    ]


def test_the_pipelines_of_the_page_are_correct() -> None:
    whole, parts = _blocks("yaml")
    pipeline = Pipeline.from_yaml(whole, set={"kafka.bootstrap": "broker:9092"})
    assert pipeline.refused == ()
    merged = Pipeline.from_yaml(
        f"{whole.partition('transform:')[0]}{parts}sink:\n  type: values\n", set={"kafka.bootstrap": "broker:9092"}
    )
    assert (len(merged.transforms), len(merged.routes), merged.refused) == (1, 2, ())


def test_the_job_of_the_page_is_correct() -> None:
    (text,) = _blocks("sql")
    made = Pipeline.from_sql(text, set={"kafka.bootstrap": "broker:9092"})
    assert (made.refused, made.notes) == ((), ())
    (rule,) = made.transforms
    assert (rule.primary_keys, rule.partition_keys) == (("part", "offset"), ("day",))
    assert (made.sink.values["catalog"], made.routes[0].sink) == ("lake", "shop.orders")
