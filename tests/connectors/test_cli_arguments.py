"""Arguments that commands share: options of tables, brokers, registries, and files of SQL."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors.cli._table import registry_options
from kvformat.registry.contract.errors import OptionError
from tests.support.cli import lines, run

_SQL = """CREATE TABLE t (id INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json',
    'properties.bootstrap.servers' = 'own:1', 'scan.startup.mode' = 'earliest-offset')"""


def test_the_value_of_an_option_may_have_an_equals_sign() -> None:
    result = run("decode", "-f", "csv", "-s", "a INT, b INT", "-o", " field-delimiter ==", given=b"1=2")
    assert lines(result.stdout) == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("command", ["tail", "produce", "doctor", "inspect", "tail --topic"])
def test_bootstrap_replaces_the_brokers_of_the_table_and_of_other_options(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "t.sql"
    file.write_text(_SQL)
    name, *topic = command.split()
    asked: list[str] = []

    def partitions_of(options: Mapping[str, str], *_: Any) -> Any:
        asked.append(options["properties.bootstrap.servers"])
        raise OptionError("there is no topic")

    module = importlib.import_module(f"kvformat.connectors.cli.{name}")
    monkeypatch.setattr(module, "partitions_of", partitions_of)
    if name == "doctor":
        monkeypatch.setattr(module, "_spark", lambda: iter(()))
    of = ["--topic", "t"] if topic or name == "inspect" else [file]
    run(name, *of, "-b", "given:1", "-o", "properties.bootstrap.servers=other:1")
    run(name, *of, "-o", "properties.bootstrap.servers=other:1")
    assert asked == ["given:1", "other:1"]


def test_a_registry_replaces_the_url_of_other_options() -> None:
    options = {"avro-confluent.url": "other", "avro-confluent.basic-auth.user-info": "a:b", "properties.x": "y"}
    assert registry_options(options, "given") == {"url": "given", "basic-auth.user-info": "a:b"}


@pytest.mark.parametrize("command", ["decode --ddl", "explain", "ingest --explain"])
def test_a_file_of_sql_may_begin_with_a_byte_order_mark(command: str, tmp_path: Path) -> None:
    text = (
        _SQL
        if "ingest" not in command
        else f"{_SQL}; CREATE TABLE x WITH ('connector' = 'delta', 'path' = 'x') AS TABLE t"
    )
    file = tmp_path / "t.sql"
    told = []
    for encoding in ("utf-8", "utf-8-sig"):
        file.write_text(text, encoding=encoding)
        result = run(*command.split(), file, given=b'{"value":"{}"}')
        told.append((result.exit_code, result.stdout))
    assert told[0] == told[1]
    assert told[0][1]


@pytest.mark.parametrize("schema", [(), ("-s", ""), ("-s", " \n")])
def test_a_format_needs_columns(schema: tuple[str, ...]) -> None:
    result = run("decode", "-f", "json", *schema, given=b"{}")
    assert (result.exit_code, "a format needs a schema: --schema 'id BIGINT" in result.stderr) == (2, True)
