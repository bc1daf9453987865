"""Ingestion of topics with records of several types: a table for each type, or one for all."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import OptionError, get_format
from kvformat.registry.contract.discovery import format_class
from kvformat.registry.contract.look import LookRequest
from tests.ingestion.history import BatchQuery
from tests.support.registry_server import Registry

_TIME = dt.datetime(2024, 2, 29, 12)
_TABLES = {"com.shop.Order": "id BIGINT, name STRING", "com.shop.Refund": "id BIGINT, why STRING, cents BIGINT"}
_KINDS = ("avro-confluent", "avro-registry", "json-registry", "proto-registry")


def _messages(kind: str, url: str) -> list[bytes]:
    """Return messages of two types, in turn."""
    found = []
    for name, table in _TABLES.items():
        fmt = get_format(kind, {"url": url, "record-name": name, "subject-name-strategy": "record-name"})
        rows = [{"id": n, "name": f"n{n}", "why": f"w{n}", "cents": n * 100} for n in range(3)]
        found.append(fmt.encode_batch(pa.array(rows), table).messages.to_pylist())
    return [message for pair in zip(*found, strict=True) for message in pair]


@pytest.mark.parametrize("kind", _KINDS)
def test_messages_are_looked_at_by_their_types(kind: str, registry: Registry) -> None:
    messages = [*_messages(kind, registry.url), None, b"\0\0\0\0\x63\0", b"?"]
    fmt = get_format(kind, {"url": registry.url})
    topics = pa.array(["events"] * len(messages))
    found = fmt.looker(LookRequest(options={"tables-by-record-name": True})).look(pa.array(messages), topics)
    assert found.tables == (("com.shop.Order",), ("com.shop.Refund",))
    assert found.indices.to_pylist() == [0, 1, 0, 1, 0, 1, None, None, None]
    columns = {table[0]: [c.name for c in found.columns if c.table == table] for table in found.tables}
    assert columns == {"com.shop.Order": ["id", "name"], "com.shop.Refund": ["id", "why", "cents"]}
    assert list(found.errors) == [7, 8]
    assert "Could not find schema with id 99" in found.errors[7]
    together = fmt.looker(LookRequest()).look(pa.array(messages), topics)
    assert together.tables == (("events",),)
    assert {column.name for column in together.columns} == {"id", "name", "why", "cents"}


def test_branches_of_unions_are_looked_at_by_their_types(registry: Registry) -> None:
    order = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    refund = {"type": "record", "name": "Refund", "fields": [{"name": "why", "type": "string"}]}
    registry.ids[1] = json.dumps([order, refund, "null", "int"])
    frame = b"\0\0\0\0\1"
    messages = pa.array([frame + datum for datum in (b"\x02\x02x", b"\0\x0e", b"\x08", b"\4", b"\6\2")])
    looker = get_format("avro-confluent", {"url": registry.url}).looker(
        LookRequest(options={"tables-by-record-name": True})
    )
    found = looker.look(messages, pa.array(["events"] * 5))
    assert [found.tables[i][0] if i is not None else None for i in found.indices.to_pylist()] == [
        *("Refund", "Order", None, None, None)
    ]
    assert [(c.table[0], c.name) for c in found.columns] == [("Refund", "why"), ("Order", "id")]
    assert list(found.errors) == [2, 4]
    assert found.errors[4] == "[TABLE_ID] the message has the type int, and only records have tables"


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["avro-confluent", "json-registry", "proto-registry"])
def test_each_type_becomes_a_table(kind: str, spark: Any, tmp_path: Path, registry: Registry) -> None:
    messages = _messages(kind, registry.url)
    source = {"value.format": kind, f"{kind}.url": registry.url, f"{kind}.tables-by-record-name": "true"}
    query = BatchQuery(spark, tmp_path, source, transform=[])
    for first in (0, 2):  # the second batch knows the tables
        records = [(None, m, "events", 0, n, _TIME, 0, None) for n, m in enumerate(messages[first : first + 4], first)]
        query.run(records)
    assert query.rows(("com.shop.Order",)) == [{"id": n, "name": f"n{n}"} for n in (0, 1, 1, 2)]
    refunds = [{"id": n, "why": f"w{n}", "cents": n * 100} for n in (0, 1, 1, 2)]
    assert query.rows(("com.shop.Refund",)) == refunds


def test_options_of_declared_tables_are_refused() -> None:
    for name, value in (("record-name", "com.shop.Order"), ("record-columns", "a:A")):
        with pytest.raises(OptionError, match=f"'{name}' is for a declared table.*tables-by-record-name"):
            format_class("avro-confluent").look_options({"url": "mock://x", name: value})
