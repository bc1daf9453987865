"""The block `pipeline`."""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.ingestion.pipeline.settings import parse_settings
from kvformat.ingestion.pipeline.yaml import Secret
from kvformat.registry import ConfigurationError


def test_defaults() -> None:
    found = parse_settings({})
    assert {key: value for key, value in found.values.items() if value is not None} == {
        "schema.change.behavior": "lenient",
        "route-mode": "ALL_MATCH",
        "execution.runtime-mode": "STREAMING",
    }
    assert (found.trigger, found.functions, found.refused, found.notes) == ({}, {}, (), ())


@pytest.mark.parametrize("text", ["try_evolve", "TRY_EVOLVE", "try-evolve", "Try-Evolve"])
def test_behaviours_and_route_modes_match_in_any_case_and_with_either_line(text: str) -> None:
    found = parse_settings({"schema.change.behavior": text, "route-mode": "first-match"})
    assert found.values["schema.change.behavior"] == "try_evolve"
    assert found.values["route-mode"] == "FIRST_MATCH"


@pytest.mark.parametrize(
    ("block", "trigger"),
    [
        ({"trigger": "10 seconds"}, {"processingTime": "10000 milliseconds"}),
        ({"trigger": "Available-Now"}, {"availableNow": True}),
        ({"execution.runtime-mode": "batch"}, {"availableNow": True}),
        ({"execution.runtime-mode": "BATCH", "trigger": "available-now"}, {"availableNow": True}),
    ],
)
def test_triggers(block: dict[str, str], trigger: dict[str, Any]) -> None:
    assert parse_settings(block).trigger == trigger


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "+08:00", "GMT+8", "UTC-03:30", "+18:00", "-17:59", "-18"])
def test_time_zones(zone: str) -> None:
    assert parse_settings({"local-time-zone": zone}).values["local-time-zone"] == zone


@pytest.mark.parametrize(
    "block",
    [
        {"dirty-data.collector": {"type": "Topic", "location": "dead"}},
        {"dirty-data.collector.type": "topic", "dirty-data.collector.location": "dead"},
    ],
)
def test_the_collector_is_a_map_or_has_dots(block: dict[str, Any]) -> None:
    values = parse_settings(block).values
    assert (values["dirty-data.collector.type"], values["dirty-data.collector.location"]) == ("topic", "dead")


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ({"paralelism": "2"}, "pipeline: there is no option 'paralelism'. Did you mean 'parallelism'?"),
        ({"parallelism": "0"}, "pipeline: 'parallelism' must be at least 1"),
        ({"parallelism": "two"}, "expected a whole number"),
        ({"schema.change.behavior": "strict"}, "supported values are [lenient, evolve, try_evolve, ignore, exception]"),
        ({"route-mode": "ANY"}, "supported values are [ALL_MATCH, FIRST_MATCH]"),
        ({"execution.runtime-mode": "once"}, "supported values are [STREAMING, BATCH]"),
        ({"local-time-zone": "Europe/Berln"}, "there is no time zone 'Europe/Berln'. Did you mean 'Europe/Berlin'?"),
        ({"local-time-zone": "../etc"}, "there is no time zone '../etc'."),
        ({"local-time-zone": "Europe"}, "there is no time zone 'Europe'."),
        ({"local-time-zone": "+18:01"}, "there is no time zone '+18:01'."),
        ({"local-time-zone": "GMT+19"}, "there is no time zone 'GMT+19'."),
        ({"local-time-zone": "-08:60"}, "there is no time zone '-08:60'."),
        ({"local-time-zone": "+\u0663"}, "there is no time zone '+\u0663'."),
        ({"trigger": "soon"}, "'trigger' must be 'available-now' or a time such as '10 seconds'"),
        ({"trigger": "1 s", "execution.runtime-mode": "BATCH"}, "reads what is there, then stops; remove 'trigger'"),
        ({"dirty-data.collector": "logger"}, "'dirty-data.collector' must be a map, such as 'type: logger'"),
        ({"dirty-data.collector": {"type": "file"}}, "supported values are [logger, topic, path]"),
        ({"dirty-data.collector": {"type": "topic"}}, "of type 'topic' needs a 'location'"),
        ({"dirty-data.collector": {"location": "x"}}, "'dirty-data.collector' needs a 'type'"),
        ({"dirty-data.collector": {"type": "logger", "location": "x"}}, "of type 'logger' has no 'location'"),
        ({"dirty-data.collector": {"typ": "x"}}, "Did you mean 'dirty-data.collector.type'?"),
        ({"dirty-data.collector": {"type": "logger"}, "dirty-data.collector.type": "logger"}, "is set twice"),
        ({"schema-operator.rpc-timeout": "long"}, "expected a duration"),
        ({"user-defined-function": {"name": "f"}}, "must be a list: put '- ' before the first key of an entry"),
        ({"user-defined-function": ["f"]}, "user-defined-function 1: must be a map with 'name' and 'python'"),
        ({"user-defined-function": [{"python": "m:f"}]}, "the option 'name' is missing"),
        ({"user-defined-function": [{"name": "f", "python": "m.f"}]}, "'python' must be 'module:function'"),
        (
            {"user-defined-function": [{"name": "f", "python": Secret("s3same:f")}]},
            "'python' must be 'module:function'",
        ),
        ({"user-defined-function": [{"name": "f", "pyton": "m:f"}]}, "no option 'pyton'. Did you mean 'python'?"),
        (
            {"user-defined-function": [{"name": "f", "python": "m:f"}, {"name": "f", "python": "m:g"}]},
            "the name 'f' is used twice",
        ),
        ({"name": Secret("s3same")}, "pipeline: option 'name' must not have a secret"),
        ({"name": {"a": "b"}}, "pipeline: option 'name' must be a text, not a map"),
    ],
)
def test_malformed_settings_are_errors(block: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(block)
    assert reason in str(caught.value)


def test_functions_of_python_run_and_classes_of_the_jvm_are_refused() -> None:
    found = parse_settings(
        {
            "user-defined-function": [
                {"name": "f", "python": "package.module:function"},
                {"name": "g", "classpath": "org.example.G", "options": {"a": "b"}},
                {"name": "h", "python": "package.module:other"},
                {"name": "i", "classpath": "org.example.I"},
            ],
            "model": [{"model-name": "m"}],
        }
    )
    assert found.functions == {"f": "package.module:function", "h": "package.module:other"}
    assert found.refused == (
        "pipeline: user-defined-function 2: 'g' is a class of the JVM; write it in Python, 'python: module:function'",
        "pipeline: user-defined-function 4: 'i' is a class of the JVM; write it in Python, 'python: module:function'",
        "pipeline: 'model': functions of models are not supported",
    )


@pytest.mark.parametrize(
    ("key", "text"),
    [("operator.uid.prefix", "x"), ("schema.operator.uid", "x"), ("schema-operator.rpc-timeout", "1 h")],
)
def test_settings_without_effect_are_said_once(key: str, text: str) -> None:
    (note,) = parse_settings({key: text}).notes
    assert note.startswith(f"pipeline: no effect: '{key}'; ")
