"""Tables made from other tables, the arguments that they pass on, and which columns are a table's key."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kvformat.registry import ConfigurationError, KeyValueFormat
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.table import decode_frame

_DDL = """CREATE TABLE shop (a INT, b INT, x AS NOPE(a), y AS a + 1) WITH ('connector' = 'kafka', 'topic' = 't',
    'properties.bootstrap.servers' = 'b', 'properties.group.id' = 'g', 'format' = 'json')"""


def test_a_table_made_from_a_ddl_needs_what_a_create_table_needs() -> None:
    table = KeyValueFormat.from_ddl(_DDL)
    plain = KeyValueFormat("a INT", {"format": "json", "topic": "t", "properties.bootstrap.servers": "b"})
    changed = {"properties.group.id": "h"}
    copied = pickle.loads(pickle.dumps(table))
    for made in (table.with_options(changed), table.only(["a"]), table.without_computed("x"), copied):
        assert repr(made).startswith("KeyValueFormat.from_ddl(")
        for option in ("connector", "topic", "properties.bootstrap.servers"):
            with pytest.raises(ConfigurationError, match=option.replace(".", r"\.")):
                made.with_options({option: None})
    for unchecked in (plain, plain.with_options(changed), plain.only(["a"])):
        assert unchecked.with_options({"topic": None}).options.get("topic") is None
        with pytest.raises(ConfigurationError, match="connector"):
            unchecked.planned()


@pytest.mark.parametrize(
    ("clause", "names", "kept"),
    [
        ("WATERMARK FOR ts AS ts", ["v"], ["v", "ts"]),
        ("PRIMARY KEY (id) NOT ENFORCED", ["v"], ["id", "v"]),
        ("PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts", ["w"], ["id", "w", "ts"]),
    ],
)
def test_the_columns_of_the_primary_key_and_of_the_watermark_are_always_read(
    clause: str, names: list[str], kept: list[str]
) -> None:
    table = KeyValueFormat.from_ddl(
        f"""CREATE TABLE shop (id INT, v STRING, w STRING, ts TIMESTAMP(3), {clause}) WITH ('connector' = 'kafka',
        'topic' = 't', 'properties.bootstrap.servers' = 'b', 'format' = 'debezium-json',
        'scan.startup.mode' = 'earliest-offset')"""
    )
    assert [column.name for column in table.only(names).columns] == kept
    with pytest.raises(SchemaError, match=r"table 'shop' has no column 'vv'\..* It has id, ts, v, w"):
        table.only(["vv"])


def test_a_table_that_needs_what_a_create_table_needs_is_not_equal_to_another() -> None:
    needed = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b", "properties.group.id": "g"}
    plain = KeyValueFormat("a INT", {"format": "json", **needed})
    checked = plain.planned()
    assert (checked == plain, checked == plain.planned(), plain == "plain") == (False, True, False)
    for table in (plain, checked):
        copied = pickle.loads(pickle.dumps(table))
        assert (copied, hash(copied), repr(copied)) == (table, hash(table), repr(table))


def test_a_table_without_its_computed_columns_is_decoded_with_the_same_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(decode_frame, "decode_frame", lambda plan, *given, **more: calls.append((given, more)))
    given: Any = {"metadata": ["offset"], "errors": "capture", "row_index": True, "input_schema": "value BINARY"}
    table, frame = KeyValueFormat.from_ddl(_DDL), "df"
    table.decode(frame, skip_computed=["x"], **given)  # type: ignore[arg-type]
    table.without_computed("x").decode(frame, **given)  # type: ignore[arg-type]
    assert calls[0] == calls[1]
    assert calls[0][1] == {name: given[name] for name in ("row_index", "input_schema")}


@pytest.mark.parametrize("key", ["idd", ("id", "ID")])
@pytest.mark.parametrize("connector", ["kafka", "upsert-kafka"])
def test_the_primary_key_has_columns_of_the_table(connector: str, key: Any) -> None:
    options = {"connector": connector, "key.format": "json", "value.format": "json"}
    with pytest.raises(SchemaError, match=r"column '(idd|ID)' of the PRIMARY KEY does not exist") as caught:
        KeyValueFormat("id INT", options, primary_key=key)
    assert caught.value.field in ("idd", "ID")


@pytest.mark.parametrize(
    ("connector", "fields", "primary_key", "expected"),
    [
        ("kafka", "region;id", ("id",), ("id",)),
        ("kafka", "id", ("region", "id"), ("region", "id")),
        ("kafka", "region;id", (), ("region", "id")),
        ("upsert-kafka", None, ("region", "id"), ("region", "id")),
    ],
)
def test_the_key_columns_are_the_primary_key_or_else_the_key_fields(
    connector: str, fields: str | None, primary_key: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    value = "json" if connector == "upsert-kafka" else "debezium-json"
    options = {"connector": connector, "key.format": "json", "value.format": value}
    options |= {} if fields is None else {"key.fields": fields}
    kv = KeyValueFormat("id INT NOT NULL, region STRING NOT NULL, n INT", options, primary_key=primary_key)
    assert kv.key_columns == expected
