"""`inspect` of a topic: what is read, what the inspection gets, and what is shown."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from kvformat.connectors import infer
from kvformat.connectors.cli import inspect
from kvformat.connectors.cli._framing import MessageBatch
from kvformat.connectors.infer import Inspection
from kvformat.connectors.infer.inspection import FormatGuess
from tests.support.cli import run

TOPIC = ("inspect", "--topic", "orders", "-b", "b:1")


def framed(schema: int) -> bytes:
    return bytes([0, 0, 0, 0, schema]) + b'{"a":1}'


class Topics:
    """A topic with these batches, and these in all of its parts."""

    def __init__(self, first: Sequence[MessageBatch], parts: Sequence[MessageBatch]) -> None:
        self.first, self.parts = first, parts
        self.asked: list[Any] = []

    def batches(self, **how: Any) -> Iterator[MessageBatch]:
        self.asked.append(how)
        yield from self.first

    def spread(self, *how: Any) -> Iterator[MessageBatch]:
        self.asked.append(how)
        yield from self.parts


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Topics]:
    """Return a function that gives the topic its records."""

    def with_(first: Sequence[MessageBatch], parts: Sequence[MessageBatch] = ()) -> Topics:
        topics = Topics(first, parts)

        @contextlib.contextmanager
        def reading(options: Mapping[str, str], partitions: Any, start: str) -> Iterator[Topics]:
            topics.asked.append((options["properties.bootstrap.servers"], partitions, start))
            yield topics

        monkeypatch.setattr(inspect, "partitions_of", lambda options, names, pattern: {names[0]: [0, 1]})
        monkeypatch.setattr(inspect, "reading", reading)
        return topics

    return with_


def test_a_topic_is_read_from_its_beginning_to_its_end(topic: Any, inspected: list[Any]) -> None:
    about = [{"timestamp": 7, "headers": [("h", b"x"), ("h", None)]}, {"timestamp": 8}]
    topics = topic([MessageBatch(1, [b"a", None], [None, b"k"], about), MessageBatch(3, [], [], [])])
    run(*TOPIC, "--max", "9", "--name", "mine")
    assert topics.asked == [("b:1", {"orders": [0, 1]}, "earliest"), {"most": 9, "until_end": True}]
    ((values, keys, more),) = inspected
    assert (values, keys, more["timestamps"]) == ([b"a", None], [None, b"k"], [7, 8])
    assert more["headers"] == [[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], []]
    names = {name: more[name] for name in ("name", "topic", "bootstrap", "registry")}
    assert names == {"name": "mine", "topic": "orders", "bootstrap": "b:1", "registry": None}
    run(*TOPIC)
    assert inspected[1][2]["name"] == "orders"


def test_schemas_of_keys_and_values_are_those_of_all_parts(topic: Any) -> None:
    """The first records have an older schema. Each part has timestamps of its own."""
    first = MessageBatch(1, [framed(1)], [framed(5)], [{"timestamp": 0}])
    days = [{"timestamp": day * 86_400_000} for day in (1, 2)]
    parts = [
        MessageBatch(1, [framed(1), framed(2)], [framed(5), framed(6)], days),
        MessageBatch(1, [framed(2)], [framed(6)], [{"timestamp": 9 * 86_400_000}]),
    ]
    topics = topic([first], parts)
    found = json.loads(run(*TOPIC, "--json").stdout)
    assert topics.asked[2:] == [("b:1", {"orders": [0, 1]}, "earliest"), (40, 25)]
    assert [[use[name] for name in ("part", "schema", "messages", "last")] for use in found["schemas"]] == [
        ["value", "1", 1, "1970-01-02T00:00:00+00:00"],
        ["value", "2", 2, "1970-01-10T00:00:00+00:00"],
        ["key", "5", 1, "1970-01-02T00:00:00+00:00"],
        ["key", "6", 2, "1970-01-10T00:00:00+00:00"],
    ]


def test_a_topic_without_schemas_is_read_once(topic: Any) -> None:
    topics = topic([MessageBatch(1, [b"{}"], [None], [{}])])
    assert run(*TOPIC).exit_code == 0
    assert len(topics.asked) == 2


def test_glue_and_another_registry_are_not_given_together() -> None:
    for option in ("aws.region=eu-west-1", "registry.name=x"):
        result = run("inspect", "-", "--registry", "http://r", "-o", f"avro-glue.{option}", given=b"{}")
        assert (result.exit_code, "not both: the schemas of a topic are in one registry" in result.stderr) == (2, True)


def test_keys_are_shown_before_values_and_all_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    guesses = (
        FormatGuess("value", "json", 0.5, "are values"),
        FormatGuess("value", "gzip", 0.25, "are packed", readable=False),
        FormatGuess("key", "raw", 1.0, "are keys", {"a": "b"}),
    )
    tables = {"a.X": "CREATE TABLE x (...)", "a.Y": "CREATE TABLE y (...)"}
    found = Inspection(guesses, tables["a.X"], (), {"messages": 4, "nulls": 0}, tables=tables)
    monkeypatch.setattr(infer, "inspect_topic", lambda *_, **__: found)
    assert run("inspect", "-", given=b"").stdout.splitlines() == [
        "4 messages, 0 nulls",
        "key: raw, a = b (100%): are keys",
        "value: json (50%): are values",
        "value: gzip (25%, which no format reads): are packed",
        "",
        "CREATE TABLE x (...);",
        "",
        "CREATE TABLE y (...);",
    ]
    assert run("inspect", "-", "--sql", given=b"").stdout == "CREATE TABLE x (...);\n\nCREATE TABLE y (...);\n"
    assert json.loads(run("inspect", "-", "--json", given=b"").stdout)["tables"] == tables
    nothing = Inspection((), None, (), {"messages": 0})
    monkeypatch.setattr(infer, "inspect_topic", lambda *_, **__: nothing)
    assert run("inspect", "-", given=b"").stdout == "0 messages\nnothing was recognised\n"
    refused = run("inspect", "-", "--sql", given=b"")
    assert (refused.exit_code, refused.stdout) == (1, "")
