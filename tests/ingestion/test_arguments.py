"""The pipeline that `ingest` makes of its arguments, and what it passes on. No Spark: nothing is started."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from kvformat.connectors.kafka import KafkaTable
from kvformat.ingestion import DeltaPathTarget, Pipeline, ingest
from kvformat.registry.contract.errors import ConfigurationError
from tests.ingestion.history import SOURCE

STREAM: Any = SimpleNamespace(isStreaming=True)


def _ingested(source: Any = SOURCE, target: Any = "/lake", **more: Any) -> tuple[Pipeline, dict[str, Any]]:
    with mock.patch.object(Pipeline, "start", autospec=True) as start:
        ingest("spark", source, target, checkpoint_location="/c", **more)  # type: ignore[arg-type]
    (pipeline, spark), given = start.call_args
    assert spark == "spark"
    return pipeline, given


def test_options_of_a_source_are_its_block() -> None:
    pipeline, given = _ingested(options={"topic": "other", "value.format": "json"})
    source = pipeline.source
    assert (source.values["topic"], source.values["value.format"]) == (("other",), "json")
    assert (given["records"], given["checkpoint_location"]) == (None, "/c")


def test_a_table_lends_its_topics_and_client_and_not_its_columns() -> None:
    options = {
        **{key: value for key, value in SOURCE.items() if key != "type"},
        "connector": "kafka",
        "properties.group.id": "g",
        "format": "json",
        "json.timestamp-format.standard": "ISO-8601",
        "sink.parallelism": "2",
    }
    pipeline, given = _ingested(KafkaTable("id INT", options))
    assert dict(pipeline.source.options) == {
        **{key: value for key, value in options.items() if key not in ("connector", "format", "sink.parallelism")},
        "type": "kafka",
        "value.format": "json",
    }
    assert given["records"] is None
    other, _ = _ingested(KafkaTable("id INT", options), options={"topic": "x"})
    assert other.source.values["topic"] == ("x",)


def test_given_records_need_no_topic() -> None:
    pipeline, given = _ingested(STREAM, options={"value.format": "json"})
    assert given["records"] is STREAM
    assert pipeline.source.values["value.format"] == "json"
    with pytest.raises(ConfigurationError, match="not int"):
        _ingested(5)


@pytest.mark.parametrize(
    ("target", "type_", "path"),
    [
        ("/lake", "delta", "/lake"),
        (Path("/lake"), "delta", "/lake"),
        ("delta", "delta", None),
        ({"type": "iceberg"}, "iceberg", None),
        (DeltaPathTarget("/x"), "DeltaPathTarget", None),
    ],
)
def test_targets(target: Any, type_: str, path: str | None) -> None:
    pipeline, _ = _ingested(target=target)
    assert (pipeline.sink.type, pipeline.sink.values.get("path")) == (type_, path)
    assert pipeline.sink.target is (target if isinstance(target, DeltaPathTarget) else None)
    assert repr(pipeline.sink.target) in pipeline.explain() or pipeline.sink.target is None


def test_a_pipeline_with_a_target_is_pickled_and_shows_no_secret() -> None:
    target = DeltaPathTarget("s3://x/lake", storage_options={"AWS_SECRET_ACCESS_KEY": "hunter2"})
    pipeline = Pipeline({"type": "records", "value.format": "json"}, target)
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline
    shown = repr(pipeline) + pipeline.explain()
    assert "path='s3://x/lake'" in shown
    assert "hunter2" not in shown
    assert "newest" not in pipeline.explain()
    assert pipeline.notes == ()


def test_other_arguments_are_those_of_the_query() -> None:
    more: dict[str, Any] = {
        "dead_letters": "/dead",
        "trigger": {"once": True},
        "query_name": "n",
        "on_table_error": "quarantine",
        "take_over": True,
        "probe": False,
        "spark_options": {"a": "b"},
    }
    rules = {
        "transform": [{"source-table": "a", "primary-keys": "id"}],
        "route": [{"source-table": "a", "sink-table": "b"}],
    }
    pipeline, given = _ingested(schema_change="evolve", pipeline={"name": "p"}, **rules, **more)
    assert {name: given[name] for name in more} == more
    assert (pipeline.behavior.value, pipeline.settings.values["name"]) == ("evolve", "p")
    assert (pipeline.transforms[0].primary_keys, pipeline.routes[0].sink) == (("id",), "b")
    plain, given = _ingested()
    assert (plain.behavior.value, given["on_table_error"], given["take_over"], given["probe"]) == (
        "lenient",
        "stop",
        False,
        True,
    )
    both, _ = _ingested(schema_change="evolve", pipeline={"schema.change.behavior": "ignore"})
    assert both.behavior.value == "ignore"
