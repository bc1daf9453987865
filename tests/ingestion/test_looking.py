"""The look at record batches, and the news of several tasks together. No Spark."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kvformat.codecs.discovery.text_forms import merged_forms
from kvformat.ingestion import packing
from kvformat.ingestion.decoded_rows import POSITION
from kvformat.ingestion.looking import (
    DECODED,
    ERROR,
    NEWS,
    RETURNED,
    TABLE,
    LookStage,
    _decode_tables,
    _rows_by_table,
    merged_news,
    news_to_text,
    table_name,
)
from kvformat.ingestion.packing import PACKED, by_table, pack, unpack
from kvformat.ingestion.pipeline.declared_columns import DeclaredColumns
from kvformat.ingestion.planning import BatchNews, NewColumn, NewKey, WholeTableChange
from kvformat.ingestion.schemas.known import IngestState, SourceTable
from kvformat.ingestion.schemas.state import Cause
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.look import KnownTable, LookRequest
from tests.support.extent import case_count
from tests.support.looking import as_bytes

ORDERS, ITEMS = TableId(("shop", "orders")), TableId(("shop", "items"))


def _records(
    values: Sequence[Any], *, partition: int = 0, first: int = 0, keys: Sequence[Any] = (), time: Any = None
) -> pa.RecordBatch:
    """Return records with consecutive offsets; a value is an object, bytes or None."""
    count = len(values)
    columns = {
        "key": pa.array([as_bytes(key) for key in keys or [None] * count], pa.binary()),
        "value": pa.array([as_bytes(value) for value in values], pa.binary()),
        "topic": pa.array(["shop"] * count),
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(range(first, first + count)),
        "timestamp": pa.array([time] * count, pa.timestamp("us", "UTC")),
    }
    return pa.RecordBatch.from_arrays([*columns.values()], [*columns])


def _change(table: str = "orders", op: str = "c", **row: Any) -> dict[str, Any]:
    return {"after": row or None, "op": op, "source": {"db": "shop", "table": table}}


def _batch(partition: int, first: int, tables: list[str | None]) -> pa.RecordBatch:
    return _records([t and _change(t, id=1) for t in tables], partition=partition, first=first)


def _news(stage: LookStage, *tasks: list[pa.RecordBatch]) -> BatchNews:
    """Return the news of tasks, which are the same in any order of the tasks."""
    found = [pa.Table.from_batches(stage.mapped()(iter(batches)))[NEWS].drop_null().to_pylist() for batches in tasks]
    one, other = (merged_news(chain.from_iterable(lines)) for lines in (found, found[::-1]))
    assert (one.tables, one.records, one.errors, one.decoded) == (
        other.tables,
        other.records,
        other.errors,
        other.decoded,
    )
    return one


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


def test_the_driver_gets_one_line_of_each_task_with_records() -> None:
    """The line of its news; without tables that are known well, it gets no records."""
    stage = LookStage(get_format("debezium-json"), LookRequest())
    for batches in ([_batch(0, 0, ["orders", "items"])], [_batch(0, 0, [None])], [_batch(1, 0, ["orders"])] * 3):
        found = pa.Table.from_batches(stage.mapped()(iter(batches)))
        returned = found.filter(found[RETURNED])
        assert (len(returned), returned[NEWS].null_count, len(found) - len(returned)) == (1, 0, found[NEWS].null_count)
    assert list(stage.mapped()(iter([]))) == []


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


def test_the_news_of_a_task_are_those_of_all_its_batches() -> None:
    """The batch with the lower offsets comes last."""
    stage = LookStage(get_format("debezium-json"), LookRequest())
    later = _records([_change(v="2024-02-29"), b"{", _change()], first=13)
    earlier = _records([_change(v=1), b"{"], first=11)
    news = _news(stage, [later, earlier])
    assert (news.records, news.errors) == ({ORDERS: 3}, 2)
    assert news.tables == {ORDERS: Cause("shop", 0, 11)}
    (column,) = news.columns
    assert (column.cause, [*map(str, column.types)]) == (Cause("shop", 0, 11), ["DATE", "BIGINT"])
    both = _news(stage, [later], [earlier])
    assert (both.records, both.errors, both.tables) == (news.records, news.errors, news.tables)


def test_the_first_record_is_that_of_the_first_partition() -> None:
    stage = LookStage(get_format("debezium-json"), LookRequest())
    batches = [_records([_change(v=n)], partition=n, first=9 - n) for n in (1, 0, 2)]
    news = _news(stage, batches)
    assert news.tables == {ORDERS: Cause("shop", 0, 9)}
    assert [column.cause for column in news.columns] == [Cause("shop", 0, 9)]


@pytest.mark.parametrize("first", ["2024-02-29", "x"])
def test_a_column_is_read_as_text_if_any_batch_of_a_task_says_so(first: str) -> None:
    known = {ORDERS.parts: KnownTable({"v": parse_type("TIMESTAMP(9)")})}
    stage = LookStage(get_format("debezium-json"), LookRequest(known))
    second = {"2024-02-29": "x", "x": "2024-02-29"}[first]
    (column,) = _news(stage, [_records([_change(v=first)]), _records([_change(v=second)], first=1)]).columns
    assert ([*map(str, column.types)], column.as_text) == (["STRING"], True)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_texts_of_a_column_have_the_forms_that_all_batches_of_a_task_have_in_common(order: tuple[int, int]) -> None:
    stage = LookStage(get_format("debezium-json"), LookRequest())
    texts = ("2024-02-29 12:00:00.123", "2024-02-29 12:00:00.5")
    batches = [_records([_change(v=text)], first=n) for n, text in enumerate(texts)]
    one, other, (both,) = (
        _news(stage, given).columns for given in (batches[:1], batches[1:], [batches[n] for n in order])
    )
    forms = [column.forms for column in (*one, *other)]
    assert both.forms == merged_forms(*forms)
    assert both.forms not in forms


def test_keys_of_messages_are_those_of_the_first_record_that_has_them() -> None:
    def canal(*names: str) -> dict[str, Any]:
        row = dict.fromkeys(names, "1")
        return {"database": "shop", "table": "orders", "type": "INSERT", "data": [row], "pkNames": [*names]}

    stage = LookStage(get_format("canal-json"), LookRequest())
    news = _news(stage, [_records([canal("b"), canal("a")], first=12), _records([canal("a")], first=11)])
    assert {key.names: key.cause.offset for key in news.keys} == {("b",): 12, ("a",): 11}


@pytest.mark.parametrize(("time", "milliseconds"), [(dt.datetime(2024, 1, 1, 0, 0, 0, 123999), 123), (None, None)])
def test_a_message_that_truncates_its_table_has_the_time_of_its_record_and_no_rows(
    time: dt.datetime | None, milliseconds: int | None
) -> None:
    stage = LookStage(get_format("debezium-json"), LookRequest())
    news = _news(stage, [_records([_change(v=1), _change(op="t"), _change(v=2)], first=7, time=time)])
    assert news.records == {ORDERS: 2}
    expected = 0 if milliseconds is None else 1_704_067_200_000 + milliseconds
    assert news.changes == (WholeTableChange(ORDERS, "truncate", Cause("shop", 0, 8), expected),)


# --- keys of records -----------------------------------------------------------------------------------------

SHOP = TableId(("shop",))


def _with_keys(declared: DeclaredColumns | None = None) -> LookStage:
    json_format = get_format("json")
    stage = LookStage(json_format, LookRequest(), json_format, LookRequest(part="key"))
    return replace(stage, declared=declared or DeclaredColumns())


def test_columns_of_keys_have_their_own_types_and_records() -> None:
    """A record without a value has no table, so its key says nothing."""
    values, keys = [None, {"id": "x"}, {"w": 1}], [{"no": 1}, {"id": 1}, {"k": True}]
    news = _news(_with_keys(), [_records(values, keys=keys, first=5)])
    assert {(c.part, c.name): (str(c.types[0]), c.cause.offset) for c in news.columns} == {
        ("value", "id"): ("STRING", 6),
        ("value", "w"): ("BIGINT", 7),
        ("key", "id"): ("BIGINT", 6),
        ("key", "k"): ("BOOLEAN", 7),
    }


def test_keys_are_compared_with_the_known_columns_of_keys() -> None:
    known = SourceTable(KnownTable({"v": parse_type("BIGINT")}), KnownTable({"id": parse_type("BIGINT")}))
    stage = _with_keys().knowing(IngestState({SHOP: known}))
    assert _news(stage, [_records([{"v": 1}], keys=[{"id": 1}])]).columns == ()


def test_members_that_are_not_columns_contribute_nothing() -> None:
    declared = DeclaredColumns(key_members=frozenset(["id"]), left_out=frozenset(["id"]))
    row = {"id": 1, "x": 1}
    news = _news(_with_keys(declared), [_records([row], keys=[row])])
    assert {(c.part, c.name) for c in news.columns} == {("key", "id"), ("value", "x")}


# --- tables that are decoded at once -------------------------------------------------------------------------


class _Decoder:
    """Decodes each record to its offset; a record with `bad` in it is bad."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.asked.append(batch["offset"].to_pylist())
        errors = ["bad" if b"bad" in value else None for value in batch["value"].to_pylist()]
        place = {to: batch[name] for name, to in zip(("topic", "partition", "offset"), POSITION, strict=True)}
        return pa.record_batch({"offset": batch["offset"], **place, ERROR: pa.array(errors, pa.string())})


def _decoding(decoder: _Decoder, returned_bytes: int = 0) -> LookStage:
    known = {ORDERS.parts: KnownTable({"id": parse_type("STRING")})}
    format, request = get_format("debezium-json"), LookRequest(known)
    return LookStage(format, request, decoders={ORDERS: decoder}, returned_bytes=returned_bytes)


def _offsets(lines: pa.Table) -> list[int]:
    return [n for cell in unpack(iter(lines.select([PACKED]).to_batches())) for n in cell["offset"].to_pylist()]


@pytest.mark.parametrize(
    ("last", "asked", "rows", "bad"),
    [
        ([_change(id="c")], [[0, 1], [2], [3], [9]], [0, 1, 2, 3, 9], []),
        ([_change(id="bad"), _change(id="c")], [[0, 1], [2], [3, 4], [9]], [0, 1, 2, 3, 4, 9], [3]),
        ([_change(id="c"), _change(id="d", new=1)], [[0, 1], [2]], [0, 1, 2], []),  # other columns make other rows
    ],
)
def test_a_table_is_decoded_until_a_record_changes_its_columns(
    last: list[Any], asked: list[list[int]], rows: list[int], bad: list[int]
) -> None:
    decoder = _Decoder()
    batches = [[_change(id="a"), _change(id="b")], [_change(id="b"), _change("items", id="x")], last, [_change(id="e")]]
    first = [0, 2, 3, 9]
    made = [_records(values, first=n) for values, n in zip(batches, first, strict=True)]
    lines = pa.Table.from_batches(_decoding(decoder).mapped()(iter(made)))
    assert decoder.asked == asked
    assert _offsets(lines.filter(lines[DECODED])) == rows
    news = merged_news(lines[NEWS].drop_null().to_pylist())
    assert news.decoded == {ORDERS: len(rows)}
    assert news.records[ORDERS] == 4 + len(last)
    assert news.bad == ({ORDERS: len(bad)} if bad else {})
    of_records = lines.filter(pc.and_(pc.equal(lines[TABLE], table_name(ORDERS)), pc.invert(lines[DECODED])))
    assert _offsets(of_records) == (bad if 9 in rows else [3, 4, 9])


def test_rows_are_returned_until_a_task_has_returned_enough() -> None:
    batches = [_records([_change(id="a")] * 50, first=first) for first in (0, 50, 100)]
    sizes = [_Decoder().decoded(pa.record_batch(batch)).nbytes for batch in batches]
    for most, returned in ((sum(sizes), 3), (sum(sizes) - 1, 2), (sizes[0], 1), (sizes[0] - 1, 0), (0, 0)):
        lines = pa.Table.from_batches(_decoding(_Decoder(), most).mapped()(iter(batches)))
        rows = lines.filter(pc.and_(lines[RETURNED], lines[NEWS].is_null()))
        assert _offsets(rows) == [*range(50 * returned)]
        assert len(_offsets(lines.filter(lines[DECODED]))) == 150
        news = merged_news(lines[NEWS].drop_null().to_pylist())
        assert news.kept == (set() if returned == 3 else {ORDERS})
        assert (news.tasks, news.decoded, news.sizes) == (1, {ORDERS: 150}, {ORDERS: sum(sizes)})


class _Ranges:
    """Reads the records of ranges, which are 50 each; the column `tasks` says how many tasks there are."""

    def tasks(self, ranges: pa.RecordBatch) -> int:
        return int(ranges["tasks"][0].as_py())

    def read(self, ranges: pa.RecordBatch) -> Any:
        for first in ranges["first"].to_pylist():
            yield _records([_change(id="a")] * 50, first=first)


@pytest.mark.parametrize("together", [1, 2, 3])
@pytest.mark.parametrize(("tasks", "returned"), [(1, 3), (2, 1), (3, 1), (4, 0)])
def test_a_task_returns_its_share_of_the_bytes_of_all_tasks(tasks: int, returned: int, together: int) -> None:
    """Of all its ranges, which come in one batch or in several."""
    sizes = [_Decoder().decoded(_records([_change(id="a")] * 50, first=first)).nbytes for first in (0, 50, 100)]
    reader: Any = _Ranges()
    stage = replace(_decoding(_Decoder(), sum(sizes)), reader=reader)
    ranges = pa.record_batch({"first": [0, 50, 100], "tasks": [tasks] * 3})
    given = [ranges.slice(first, together) for first in range(0, 3, together)]
    lines = pa.Table.from_batches(stage.mapped()(iter(given)))
    assert _offsets(lines.filter(pc.and_(lines[RETURNED], lines[NEWS].is_null()))) == [*range(50 * returned)]
    assert len(_offsets(lines.filter(lines[DECODED]))) == 150


def test_a_table_with_too_many_rows_does_not_keep_others_from_being_returned() -> None:
    decoders = {table_name(ORDERS): _Decoder(), table_name(ITEMS): _Decoder()}
    cells = [(ORDERS, 400), (ITEMS, 5), (ORDERS, 1)]
    stage = LookStage(get_format("debezium-json"), LookRequest())
    made = [_records([_change(table.parts[-1], id="a")] * count) for table, count in cells]
    lines = [line for batch in made for line in stage.mapped()(iter([batch]))]
    packed = pa.Table.from_batches(lines).select([TABLE, PACKED]).drop_null().to_batches()
    small = decoders[table_name(ITEMS)].decoded(made[1]).nbytes
    found = pa.Table.from_batches(_decode_tables(decoders, small + 1)(iter(packed)))
    rows = _rows_by_table(found, {*found[TABLE].filter(found[PACKED].is_null()).to_pylist()})
    assert {table: len(of) for table, of in rows.items()} == {ITEMS: 5}


def test_the_rows_that_tasks_decode_are_added_up() -> None:
    tasks = [[_records([_change(id=n) for n in of], first=len(of))] for of in ("a", "bc")]
    news = _news(_decoding(_Decoder()), *tasks)
    assert (news.decoded, news.tasks) == ({ORDERS: 3}, 2)


def test_the_news_of_a_batch_have_all_that_any_of_its_tasks_says() -> None:
    """A table of which one task keeps rows is kept, although the other one returned all of its own."""
    number = (parse_type("BIGINT"),)
    parts = {
        table: BatchNews(
            {table: (cause := Cause("t", 0, offset))},
            (NewColumn(table, "value", "v", number, cause, 1, as_text=True, forms=3),),
            (NewKey(table, ("v",), cause),),
            (WholeTableChange(table, "truncate", cause, 9),),
            {table: 5},
            errors=2,
            decoded={table: 4, SHOP: 1},
            bad={table: 3, SHOP: 1},
            kept=frozenset({table}),
            sizes={table: 7, SHOP: 1},
        )
        for table, offset in ((ORDERS, 6), (ITEMS, 8))
    }
    for tables in ((ORDERS, ITEMS), (ITEMS, ORDERS)):
        tasks = [parts[table] for table in tables]
        assert merged_news(map(news_to_text, tasks)) == BatchNews(
            {table: parts[table].tables[table] for table in tables},
            tasks[0].columns + tasks[1].columns,
            tasks[0].keys + tasks[1].keys,
            tasks[0].changes + tasks[1].changes,
            {ORDERS: 5, ITEMS: 5},
            errors=4,
            decoded={ORDERS: 4, ITEMS: 4, SHOP: 2},
            bad={ORDERS: 3, ITEMS: 3, SHOP: 2},
            kept=frozenset({ORDERS, ITEMS}),
            sizes={ORDERS: 7, ITEMS: 7, SHOP: 2},
            tasks=2,
        )


@pytest.mark.parametrize("seed", range(case_count(quick=20, night=200)))
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
