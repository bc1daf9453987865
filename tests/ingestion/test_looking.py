"""The look at record batches, and the news of several tasks together. No Spark."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa

from kvformat.ingestion.looking import NEWS, TABLE, LookStage, merged_news
from kvformat.ingestion.schemas.state import Cause
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.registry import get_format
from kvformat.registry.contract.look import LookRequest

ORDERS, ITEMS = TableId(("shop", "orders")), TableId(("shop", "items"))


def _batch(partition: int, first: int, tables: list[str | None]) -> pa.RecordBatch:
    values = [t and json.dumps({"after": {"id": 1}, "op": "c", "source": {"db": "shop", "table": t}}) for t in tables]
    count = len(values)
    columns = {
        "key": pa.nulls(count, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": pa.array(["shop"] * count),
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(range(first, first + count)),
        "timestamp": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * count, pa.timestamp("us", "UTC")),
    }
    return pa.RecordBatch.from_arrays([*columns.values()], [*columns])


def test_the_news_of_tasks_have_the_first_record_and_the_number_of_records_of_each_table() -> None:
    stage = LookStage(get_format("debezium-json"), LookRequest())
    tasks: list[list[pa.RecordBatch]] = [
        [_batch(1, 0, ["orders", "items", "orders"]), _batch(1, 3, ["orders", None])],
        [_batch(0, 7, [None, "orders", "items"])],
        [_batch(2, 0, [None])],
    ]
    lines: list[Any] = []
    kept: list[Any] = []
    for batches in tasks:
        for looked in stage.mapped()(iter(batches)):
            lines += [line for line in looked.column(looked.schema.get_field_index(NEWS)).to_pylist() if line]
            kept += [name for name in looked.column(looked.schema.get_field_index(TABLE)).to_pylist() if name]
    news = merged_news(lines)
    assert len(lines) == 3
    assert news.records == {ORDERS: 4, ITEMS: 2}
    assert len(kept) == sum(news.records.values())
    assert news.tables == {ORDERS: Cause("shop", 0, 8), ITEMS: Cause("shop", 0, 9)}
    assert {(column.table, column.name, column.cause) for column in news.columns} == {
        (ORDERS, "id", Cause("shop", 1, 0)),
        (ITEMS, "id", Cause("shop", 1, 1)),
        (ORDERS, "id", Cause("shop", 0, 8)),
        (ITEMS, "id", Cause("shop", 0, 9)),
    }
