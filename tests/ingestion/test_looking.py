"""The look at record batches, and the news of several tasks together. No Spark."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from kvformat.ingestion import packing
from kvformat.ingestion.looking import ERROR, NEWS, TABLE, LookStage, merged_news, table_name
from kvformat.ingestion.packing import PACKED, by_table, pack, unpack
from kvformat.ingestion.schemas.state import Cause
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.registry import get_format
from kvformat.registry.contract.look import LookRequest
from tests.support.extent import case_count

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
    kept: list[tuple[str, Any]] = []
    for batches in tasks:
        found = pa.Table.from_batches(stage.mapped()(iter(batches)))
        lines += found[NEWS].drop_null().to_pylist()
        packed = found.filter(found[TABLE].is_valid())
        for name, cell in zip(packed[TABLE].to_pylist(), packed.select([PACKED]).to_batches(1), strict=True):
            kept += [(name, row) for records in unpack(iter([cell])) for row in records.to_pylist()]
    news = merged_news(lines)
    assert len(lines) == 3
    assert news.records == {ORDERS: 4, ITEMS: 2}
    assert Counter(name for name, _ in kept) == {table_name(ORDERS): 4, table_name(ITEMS): 2}
    assert all(json.loads(row["value"])["source"]["table"] in name for name, row in kept)
    assert news.tables == {ORDERS: Cause("shop", 0, 8), ITEMS: Cause("shop", 0, 9)}
    assert {(column.table, column.name, column.cause) for column in news.columns} == {
        (ORDERS, "id", Cause("shop", 1, 0)),
        (ITEMS, "id", Cause("shop", 1, 1)),
        (ORDERS, "id", Cause("shop", 0, 8)),
        (ITEMS, "id", Cause("shop", 0, 9)),
    }


def test_records_without_a_table_are_packed_with_their_error() -> None:
    stage = LookStage(get_format("debezium-json"), LookRequest())
    batch = _batch(0, 0, ["orders", "items"])
    values = pa.array([batch["value"][0].as_py(), b'{"op": "c", "after": {}, "source": {}}'], pa.binary())
    batch = batch.set_column(batch.schema.get_field_index("value"), "value", values)
    lines = pa.Table.from_batches(stage.mapped()(iter([batch])))
    assert lines[TABLE].to_pylist() == [table_name(ORDERS), None, None]
    assert merged_news(lines[NEWS].drop_null().to_pylist()).errors == 1
    (records,) = unpack(iter(lines.slice(1, 1).select([PACKED]).to_batches()))
    assert records["offset"].to_pylist() == [1]
    assert records[ERROR][0].as_py().startswith("[TABLE_ID]")


@pytest.mark.parametrize("seed", range(case_count(quick=20, all=200)))
def test_packed_records_come_out_by_table_and_in_their_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    for name in ("_MOST_BYTES", "_MOST_TOGETHER", "_TOGETHER"):
        monkeypatch.setattr(packing, name, random.choice([1, 100, 2000, 2**20]))
    names = random.sample(["b", "a", "c.d", "Z", ""], random.randint(0, 5))
    count = random.randint(0, 60)
    tables = [random.choice([None, *range(len(names))]) for _ in range(count)]
    kept = [random.random() < random.choice([0.5, 1]) for _ in range(count)]
    values = [random.choice([None, b"", random.randbytes(random.randint(1, 200))]) for _ in range(count)]
    batch = pa.record_batch({"value": pa.array(values, pa.binary()), "offset": pa.array(range(count), pa.int64())})
    batch = batch.slice(random.randint(0, count))
    first = count - len(batch)
    found: dict[str | None, list[tuple[int, bytes | None]]] = {}
    ranges = []
    parts = by_table(batch, names, pa.array(tables[first:], pa.int32()), pa.array(kept[first:], pa.bool_()))
    for of_cells, cells in pack(parts):
        assert len(of_cells) == len(cells)
        for name, cell in zip(of_cells.to_pylist(), cells, strict=True):
            ranges.append(name)
            given = pa.record_batch({PACKED: pa.array([cell.as_py()], pa.binary())})
            rows = [row for records in unpack(iter([given])) for row in records.to_pylist()]
            found.setdefault(name, []).extend((row["offset"], row["value"]) for row in rows)
    expected: dict[str | None, list[tuple[int, bytes | None]]] = {}
    for n in range(first, count):
        if kept[n]:
            at = tables[n]
            expected.setdefault(None if at is None else names[at], []).append((n, values[n]))
    assert found == expected
    assert ranges == sorted(ranges, key=lambda name: (name is None, name))
