"""The table that the data source proposes from the newest messages of a topic, without Spark's session and a broker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kvformat.connectors import infer
from kvformat.connectors.data_source import tables
from kvformat.connectors.data_source.options import parse
from kvformat.connectors.data_source.source import KvformatDataSource
from kvformat.connectors.data_source.tables import named_as_proposed, proposed_ddl
from kvformat.connectors.reader.records import KAFKA_FIELDS
from kvformat.registry.contract.errors import OptionError, SchemaError
from tests.support.memory_brokers import Admin, table

GIVEN = {"topic": "t", "properties.bootstrap.servers": "b:1"}
FIELDS = pa.schema([KAFKA_FIELDS.field(name) for name in ("key", "value", "headers")])
SECRET = "Tr0ub4dor"


@pytest.fixture
def newest(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets the messages of the topic, the key of each being its number."""

    def messages(*values: bytes) -> None:
        rows = [{"key": b'{"k":%d}' % n, "value": value} for n, value in enumerate(values)]
        monkeypatch.setattr(tables, "_newest", lambda _: pa.Table.from_pylist(rows, FIELDS))

    return messages


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, ["k", "id"]),
        ({"format": "json"}, ["id"]),
        ({"format": "json", "errors": "capture", "metadata": "p:partition", "columns": "p"}, ["p", "error"]),
    ],
)
def test_columns_are_those_of_the_messages(options: dict[str, str], columns: list[str], newest: Any) -> None:
    newest(b'{"id":1}', b'{"id":2}')
    source = KvformatDataSource(GIVEN | options)
    schema = source.schema()
    assert schema.names == columns
    newest()  # Spark makes a reader later, of the table that was proposed
    source.reader(schema)


@pytest.mark.parametrize("format", ["format", "value.format"])
def test_options_of_the_format_are_those_of_the_proposed_table(format: str, newest: Any) -> None:
    newest(b"1:x", b"2:y")
    prefix = format.removesuffix("format")
    options = {format: "csv", f"{prefix}csv.field-delimiter": ":", f"{prefix}csv.null-literal": "x"}
    source = KvformatDataSource(GIVEN | options)
    assert source.schema().names == ["f0", "f1"]
    kv, _ = source._table(source.schema())
    wanted = {"format": "csv", "csv.field-delimiter": ":", "csv.null-literal": "x"}
    assert {name: kv.options[name] for name in wanted} == wanted


def test_a_format_has_precedence_over_that_of_the_value() -> None:
    given = {"format": "json", "value.format": "csv", "value.csv.field-delimiter": ":"}
    assert named_as_proposed(given) == given
    del given["format"]
    assert named_as_proposed(given | {"value.json.x": "y"}) == {
        **{"format": "csv", "csv.field-delimiter": ":", "value.json.x": "y"},
    }


def test_a_format_is_given_the_whole_sample(newest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    newest(b"1", b"2")
    asked: list[Any] = []
    usual = infer.infer_schema

    def infer_schema(values: Any, *, keys: Any, headers: Any, **given: Any) -> Any:
        asked.append((values.to_pylist(), keys.to_pylist(), headers, given))
        return usual(values, **given)

    monkeypatch.setattr(infer, "infer_schema", infer_schema)
    proposed_ddl(parse(GIVEN | {"format": "csv", "csv.field-delimiter": ":", "json.ignore-parse-errors": "true"}))
    options = {"format": "csv", "options": {"field-delimiter": ":"}}
    assert asked == [([b"1", b"2"], [b'{"k":0}', b'{"k":1}'], [[], []], options)]


def test_secrets_are_options_of_the_table_and_not_in_its_text(newest: Any, caplog: pytest.LogCaptureFixture) -> None:
    newest(b'{"id":1}')
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";'
    source = KvformatDataSource({**GIVEN, "format": "json", "properties.sasl.jaas.config": jaas})
    with caplog.at_level(logging.WARNING, "kvformat.data_source"):
        source.schema()
    assert "columns of topic 't' as its newest messages propose them:\nCREATE TABLE `t` (\n  `id` INT" in caplog.text
    assert SECRET not in caplog.text
    kv, _ = source._table(source.schema())
    assert kv.options["properties.sasl.jaas.config"] == jaas


def test_a_schema_registry_is_asked_for_columns(newest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    newest(b'{"id":1}')
    asked: list[Any] = []
    usual = infer.inspect_topic

    def inspect(values: Any, keys: Any, *, registry: Any, **given: Any) -> Any:
        asked.append((registry, given["topic"], given["bootstrap"], keys.to_pylist()))
        return usual(values, keys, **given)

    monkeypatch.setattr(infer, "inspect_topic", inspect)
    for options, registry in (({}, None), ({"registry.url": "http://r"}, {"url": "http://r"})):
        proposed_ddl(parse(GIVEN | options))
        assert asked.pop() == (registry, "t", "b:1", [b'{"k":0}'])


@pytest.mark.parametrize(
    ("options", "messages", "error", "told"),
    [
        ({"topic": None}, [b"{}"], OptionError, "proposed from the messages of a topic, which needs 'topic'"),
        ({"properties.bootstrap.servers": None}, [b"{}"], OptionError, "which needs 'properties.bootstrap.servers'"),
        ({"key.format": "json"}, [b"{}"], OptionError, "with 'key.format' the columns of the key must be declared"),
        ({"primary_key": "id"}, [b'{"id":1}'], OptionError, "with 'primary_key' the columns must be declared"),
        ({}, [], SchemaError, "topic 't' has no messages from which columns can be proposed"),
        ({"format": "avro"}, [b"\xff"], SchemaError, "says nothing of its schema"),
    ],
)
def test_what_cannot_be_proposed_is_an_error(
    options: dict[str, str | None], messages: list[bytes], error: type[Exception], told: str, newest: Any
) -> None:
    newest(*messages)
    given = {name: text for name, text in {**GIVEN, **options}.items() if text is not None}
    with pytest.raises(error, match=told):
        KvformatDataSource(given).schema()


def test_the_newest_thousand_records_of_each_partition_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def read_range(settings: Any, at: Any, fields: tuple[str, ...]) -> list[pa.RecordBatch]:
        asked.append((dict(settings.options), at.partition, at.start, at.end, fields))
        return [pa.RecordBatch.from_pylist([{"value": b"%d" % at.partition}], FIELDS)]

    table(Admin({"t": {0: 5, 1: 0, 2: 7}}, {"t": {0: 2005, 1: 3, 2: 7}}), monkeypatch, {})
    monkeypatch.setattr(tables, "read_range", read_range)
    client = {"properties.bootstrap.servers": "b:1", "properties.isolation.level": "read_committed"}
    given = {"topic": "t", **client, "format": "json", "json.ignore-parse-errors": "true"}
    assert tables._newest(given)["value"].to_pylist() == [b"0", b"1"]
    fields = ("key", "value", "headers")
    assert asked == [(client, 0, 1005, 2005, fields), (client, 1, 0, 3, fields)]
