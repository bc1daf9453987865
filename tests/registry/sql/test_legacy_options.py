"""Tables for Flink before 1.11: the error has the new names of the options."""

from __future__ import annotations

import re

import pytest

from kvformat.registry import KeyValueFormat
from kvformat.registry.contract.errors import OptionError


def _error(options: str) -> str:
    with pytest.raises(OptionError) as raised:
        KeyValueFormat.from_ddl(f"CREATE TABLE t (id INT) WITH ({options})")
    assert raised.value.option in options
    return str(raised.value)


def test_each_old_option_is_named_with_the_new_one() -> None:
    """The example of "Connect to External Systems" of Flink 1.10."""
    error = _error("""
        'connector.type' = 'kafka', 'connector.version' = '0.11', 'connector.topic' = 'topic_name',
        'connector.startup-mode' = 'earliest-offset', 'connector.sink-partitioner' = 'fixed',
        'connector.properties.zookeeper.connect' = 'localhost:2181',
        'connector.properties.bootstrap.servers' = 'localhost:9092', 'connector.properties.group.id' = 'testGroup',
        'format.type' = 'json', 'format.fail-on-missing-field' = 'true', 'format.derive-schema' = 'true',
        'format.fields.0.name' = 'lon', 'schema.0.name' = 'id', 'update-mode' = 'append'""")
    assert error == (
        "option 'connector.type' of table 't' is one of Flink before 1.11, whose options have new names. Replace "
        "'connector.type' with 'connector', 'connector.topic' with 'topic', 'connector.startup-mode' with "
        "'scan.startup.mode', 'connector.sink-partitioner' with 'sink.partitioner', "
        "'connector.properties.bootstrap.servers' with 'properties.bootstrap.servers', "
        "'connector.properties.group.id' with 'properties.group.id', 'format.type' with 'format', "
        "'format.fail-on-missing-field' with 'json.fail-on-missing-field'; remove 'connector.version', "
        "'connector.properties.zookeeper.connect', 'format.derive-schema', 'format.fields.0.name', 'schema.0.name', "
        "'update-mode'"
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("'connector.type' = 'kafka', 'update-mode' = 'upsert'",
         "remove 'update-mode'; for rows that are updated, declare a PRIMARY KEY and set 'connector' = 'upsert-kafka'"),
        ("'connector' = 'kafka', 'update-mode' = 'append'", "option 'update-mode' of .*names. Remove 'update-mode'$"),
        ("'connector' = 'kafka', 'topic' = 't', 'format.type' = 'csv', 'format.field-delimiter' = ';'",
         "Replace 'format.type' with 'format', 'format.field-delimiter' with 'csv.field-delimiter'$"),
        ("'connector.type' = 'kafka', 'connector.properties.0.key' = 'group.id', "
         "'connector.properties.0.value' = 'hunter2'",
         "'connector.properties.0.value' with 'properties.group.id'; remove 'connector.properties.0.key'$"),
        ("'connector.type' = 'kafka', 'connector.properties.10.key' = 'group.id', "
         "'connector.properties.10.value' = 'hunter2'",
         "'connector.properties.10.value' with 'properties.group.id'; remove 'connector.properties.10.key'$"),
        ("'connector.type' = 'kafka', 'connector.properties.0.key' = 'a b', 'connector.properties.0.value' = 'hunter2'",
         "remove 'connector.properties.0.key', 'connector.properties.0.value'$"),
        ("'connector.type' = 'kafka', 'format.x' = 'hunter2'", "'format.x' with '<format>.x'"),
        ("'connector.type' = 'kafka', 'x' = 'hunter2'", "Replace 'connector.type' with 'connector'$"),
    ],
)  # fmt: skip
def test_rules_about_old_options(options: str, told: str) -> None:
    error = _error(options)
    assert re.search(told, error), error
    assert "hunter2" not in error


def test_the_list_of_old_options_is_short() -> None:
    options = ", ".join(f"'connector.properties.x{i}' = 'y'" for i in range(1000))
    assert len(_error(f"'connector.type' = 'kafka', {options}")) < 3000
