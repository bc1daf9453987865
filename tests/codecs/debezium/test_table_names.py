"""The table that a message of Debezium names, for the connectors of all databases."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.debezium.table_names import row_table, source_table
from kvformat.registry import get_format
from tests.ingestion.folding import Folded, change


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"db": "shop", "table": "o"}, ("shop", "o")),
        ({"db": "shop", "schema": None, "table": "o"}, ("shop", "o")),
        ({"db": "shop", "schema": "public", "table": "o"}, ("shop", "public", "o")),
        ({"db": "shop", "collection": "o"}, ("shop", "o")),
        ({"db": "", "keyspace": "commerce", "table": "o"}, ("commerce", "o")),
        ({"database_id": "shop", "table": "o"}, ("shop", "o")),
        ({"keyspace_name": "shop", "table_name": "o"}, ("shop", "o")),
        ({"db": None, "table": "o"}, ("o",)),
        (None, ("topic",)),
        ({"table": "o"}, None),
        ({"db": "", "table": "o"}, None),
        ({"db": "shop"}, None),
        ({"db": 1, "table": "o"}, None),
        ({}, None),
        ("shop", None),
    ],
)
def test_the_table_of_an_envelope(source: Any, expected: tuple[str, ...] | None) -> None:
    assert source_table(source, "topic") == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"__db": "shop", "__table": "o"}, ("shop", "o")),
        ({"__source_db": "shop", "__source_table": "o"}, ("shop", "o")),
        ({"__source_db": "shop", "__source_schema": "public", "__source_table": "o"}, ("shop", "public", "o")),
        ({"__db": "shop", "__collection": "o"}, ("shop", "o")),
        ({"__db": "", "__keyspace": "ks", "__table": "o"}, ("ks", "o")),
        ({"__source_keyspace": "ks", "__source_table": "o"}, ("ks", "o")),
        ({"__table": "o"}, ("all", "o")),
        ({"__source_table": "o"}, ("all", "o")),
        ({"__db": "shop"}, ("shop", "all")),
        ({"__source_db": "shop", "__source_table": None}, ("shop", "all")),
        ({"__db": "shop", "__schema": "a"}, ("shop", "a", "all")),
        ({"__schema": "a", "__table": "o"}, ("a", "o")),
        ({}, ("all",)),
    ],
)
def test_the_table_of_a_row_without_an_envelope(row: dict[str, str], expected: tuple[str, ...]) -> None:
    assert row_table(row, "all") == expected


@pytest.mark.parametrize(
    ("row", "topic", "expected"),
    [
        ({"__table": "o"}, "p.shop.o", ("p.shop.o",)),
        ({"__db": "shop"}, "p.shop.o", ("p.shop.o",)),
        ({"__schema": "a"}, "p.a.o", ("p.a.o",)),
        ({"__source_db": "shop"}, "p.a.o", ("shop", "p.a.o")),
        ({"__db": "shop", "__table": "o"}, "p.shop.o", ("shop", "o")),
        ({"__db": "shop", "__table": "o"}, "p.a.o", ("shop", "a", "o")),  # PostgreSQL, whose schema was not added
        ({"__db": "shop", "__table": "o"}, "p.b.o", ("shop", "b", "o")),
        ({"__db": "shop", "__table": "o"}, "o", ("shop", "o")),
        ({"__db": "shop", "__table": "o"}, "p.o", ("shop", "o")),
        ({"__db": "shop", "__schema": "a", "__table": "o"}, "p.b.o", ("shop", "a", "o")),
        ({"__db": 1, "__table": "o"}, "p.shop.o", ("p.shop.o",)),
    ],
)
def test_the_topic_completes_the_name_of_a_row(row: dict[str, Any], topic: str, expected: tuple[str, ...]) -> None:
    assert row_table(row, topic) == expected


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"__db": "shop", "__table": "o"}, ("shop", None, "o")),
        ({"__source_db": "shop", "__source_table": "o"}, ("shop", None, "o")),
        ({"__source_db": "shop", "__source_schema": "a", "__source_table": "o"}, ("shop", "a", "o")),
        ({"__db": "", "__keyspace": "ks", "__collection": "o"}, ("ks", None, "o")),
        ({"__db": None, "__source_keyspace_name": "ks", "__source_table_name": "o"}, ("ks", None, "o")),
        ({"__db": "first", "__source_db": "second"}, ("first", None, None)),
        ({"__source_table": "o"}, (None, None, "o")),
        ({"__database_id": "d"}, ("d", None, None)),
        ({"__db": ""}, ("", None, None)),
        ({}, (None, None, None)),
    ],
)
def test_metadata_of_a_row_without_an_envelope(row: dict[str, Any], expected: Any, wrapped: bool) -> None:
    message = {"schema": None, "payload": {"id": 1, **row}} if wrapped else {"id": 1, **row}
    fmt = get_format("debezium-json", {"flattened": "true", "schema-include": str(wrapped).lower()})
    keys = ("source.table", "source.database", "source.schema")
    batch = fmt.decode_batch(pa.array([json.dumps(message).encode()] * 2), "id INT", metadata=keys)
    (found, again) = batch.rows.to_pylist()
    assert [[r[k] for k in (keys[1], keys[2], keys[0])] for r in found] == [[*expected]]
    assert found == again


def test_a_name_that_lacks_the_database_makes_the_record_bad() -> None:
    message = change("c", None, {"id": 1})
    message["source"] = {"table": "o"}
    named = change("c", None, {"id": 2}, db=None)
    folded = Folded("debezium-json", key="id").add([named, message])
    assert folded.tables() == {"o": [{"id": 2}]}
    assert len(folded.errors) == 1
    assert "decode.parser-table-id.fields" in folded.errors[0]


def test_members_that_the_user_names_are_the_table() -> None:
    option = "debezium-json.decode.parser-table-id.fields"
    rows = [{"id": 1, "_database": "a", "_tab": "o"}, {"id": 1, "_database": "b", "_tab": "o"}]
    options = {option: "_database, _tab", "debezium-json.flattened": "true"}
    assert [*Folded("debezium-json", options, "id").add(rows).tables()] == ["a.o", "b.o"]
    sources = [change("c", None, {"id": 1}, database=name) for name in "ab"]
    assert [*Folded("debezium-json", {option: "database,table"}, "id").add(sources).tables()] == ["a.o", "b.o"]
