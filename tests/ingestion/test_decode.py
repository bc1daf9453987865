"""Rows of the records of one table: which are bad and why, and where each row has its record. No Spark."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.discovery.text_forms import forms_of_bits
from kvformat.ingestion.behaviors import SchemaChangeBehavior, SchemaEvolution
from kvformat.ingestion.decode import FitStage, TableDecoder, layout_of
from kvformat.ingestion.decoded_rows import (
    ERROR_FIELDS,
    POSITION,
    ROW_ERROR,
    ROW_INDEX,
    TIMESTAMP,
    DecodedRows,
    error_type,
    in_order,
    wire_names,
)
from kvformat.ingestion.packing import unpack
from kvformat.ingestion.pipeline.routes import Router
from kvformat.ingestion.planning import Planner, PlanRules
from kvformat.ingestion.schemas.known import IngestState, SourceTable
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.sql.table_definition import TableColumn
from kvformat.registry.table.metadata import readable
from tests.support.looking import as_bytes, table

SHOP = TableId(("shop",))


def _decoder(
    columns: str,
    format: str = "json",
    *,
    as_text: list[str] | None = None,
    keys: str = "",
    keys_as_text: list[str] | None = None,
    metadata: str = "",
    target: TableSchema | None = None,
    zone: str = "UTC",
    **more: Any,
) -> TableDecoder:
    types = {metadata: "BIGINT"} if metadata else {}
    evolution = SchemaEvolution(Router(()), SchemaChangeBehavior.LENIENT, frozenset())
    rules = PlanRules(evolution, metadata=types, key_prefix="k_" if keys else "", has_changes=False)
    source = SourceTable(table(columns, as_text=as_text or ()), table(keys, as_text=keys_as_text or ()))
    planner = Planner(rules, lambda *_: TableSchema(()))
    schema = planner.message_schema(IngestState({SHOP: source}), SHOP)
    value_format = get_format(format)
    key_format = get_format("json") if keys else None
    layout, flat = layout_of(source, schema, rules, value_format, key_format)
    given = [TableColumn(name, "metadata", parse_type(t), name) for name, t in types.items()]
    read = readable("table", given, value_format)
    return TableDecoder(SHOP, layout, schema, read, target, more.pop("inserts_only", False), zone, flat, **more)


def _rows(decoder: TableDecoder, *messages: Any, keys: Any = None) -> tuple[list[tuple[Any, ...]], dict[int, Any]]:
    """Return the offset and the columns of each row, and the part, reason and code of bad records by their offset."""
    count = len(messages)
    columns = {
        "key": pa.array([as_bytes(key) for key in keys or [None] * count], pa.binary()),
        "value": pa.array([as_bytes(message) for message in messages], pa.binary()),
        "topic": pa.array(["t"] * count),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(10, 10 + count)),
        TIMESTAMP: pa.array([5] * count),
        **{f"_kvformat_metadata_{c.name}": pa.array(range(70, 70 + count)) for c in decoder.metadata},
    }
    found = decoder.decoded(pa.record_batch(columns)).to_pylist()
    names = [f"c{n}" for n in range(len(decoder.result.columns))]
    good = [(row["_kvformat_offset"], *(row[name] for name in names)) for row in found if row[ROW_ERROR] is None]
    bad = [row for row in found if row[ROW_ERROR] is not None]
    assert [row["_kvformat_offset"] for row in bad] == sorted(row["_kvformat_offset"] for row in bad)
    return good, {row["_kvformat_offset"]: tuple(row[ROW_ERROR][name] for name in ERROR_FIELDS) for row in bad}


def _change(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op}


def test_a_record_with_a_bad_row_is_bad_and_others_keep_their_places() -> None:
    decoder = _decoder("id INT, v STRING", target=table_schema("id TINYINT", "v STRING"))
    ids = [[1], [2, 300, 400], [], [3], [999], [4, 5]]
    rows, bad = _rows(decoder, *([{"id": n} for n in of] for of in ids))
    assert rows == [(10, 1, None), (13, 3, None), (15, 4, None), (15, 5, None)]
    assert {offset: (part, code) for offset, (part, _, code) in bad.items()} == dict.fromkeys(
        (11, 14), ("record", "SCHEMA")
    )
    assert ("value 300" in bad[11][1], "value 999" in bad[14][1]) == (True, True), "the first bad row of each record"


def test_an_error_of_the_format_counts_before_those_of_rows() -> None:
    rows, bad = _rows(_decoder("id INT", target=table_schema("id TINYINT")), b"{", {"id": 300}, {"id": 1})
    assert rows == [(12, 1)]
    assert [bad[offset][0::2] for offset in (10, 11)] == [("value", "MALFORMED"), ("record", "SCHEMA")]


def test_metadata_is_that_of_the_record_of_each_row() -> None:
    decoder = _decoder("id INT", metadata="offset")
    rows, bad = _rows(decoder, [{"id": 1}, {"id": 2}], [], [{"id": 3}])
    assert (rows, bad) == ([(10, 1, 70), (10, 2, 70), (12, 3, 72)], {})


def test_a_change_of_a_table_without_a_key_is_the_error_of_its_row_before_others() -> None:
    decoder = _decoder("id INT", "debezium-json", target=table_schema("id TINYINT"), inserts_only=True)
    deleted, updated = _change("d", {"id": 300}), _change("u", {"id": 1}, {"id": 2})
    rows, bad = _rows(decoder, _change("c", None, {"id": 1}), deleted, updated, _change("c", None, {"id": 300}))
    assert [row[0] for row in rows] == [10]
    assert {offset: error[2] for offset, error in bad.items()} == {11: "NO_KEY", 12: "NO_KEY", 13: "SCHEMA"}


def test_a_row_that_is_deleted_or_replaced_needs_only_its_key() -> None:
    decoder = _decoder("id INT, v INT", "debezium-json", not_null=frozenset(["v"]))
    full, half = {"id": 1, "v": 1}, {"id": 1}
    changes = [("c", None, full), ("c", None, half), ("u", half, full), ("u", full, half), ("d", half, None)]
    rows, bad = _rows(decoder, *(_change(*change) for change in changes))
    assert [row[0] for row in rows] == [10, 12, 12, 14]
    assert bad.keys() == {11, 13}
    assert bad[11] == ("record", "column 'v' is NOT NULL, and the record has no value for it", "SCHEMA")


def test_only_the_last_row_of_each_key_is_left_beside_bad_records() -> None:
    """The key is the column of the target, with its type. A key that is deleted has a row, too."""
    target = table_schema("v STRING", "id TINYINT", key=["id"])
    of_all, of_last = (
        _decoder("v STRING, id INT", "debezium-json", target=target, last_only=last) for last in (False, True)
    )
    one, two, wide = {"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 300, "v": "c"}
    changes = [
        ("c", None, one),
        ("c", None, two),
        ("u", one, {"id": 3, "v": "a"}),
        ("c", None, wide),
        ("u", two, {**two, "v": "z"}),
        ("d", {"id": 3, "v": "a"}, None),
    ]
    rows, bad = _rows(of_all, *(_change(*change) for change in changes))
    assert len(rows) == 7
    last, bad_of_last = _rows(of_last, *(_change(*change) for change in changes))
    assert last == [(12, "a", 1), (14, "z", 2), (15, "a", 3)]
    assert bad == bad_of_last
    assert bad.keys() == {13}


@pytest.mark.parametrize(("t", "is_plain"), [("INT", True), ("ROW<a INT>", False), ("ARRAY<INT>", False)])
def test_rows_are_merged_without_spark_unless_a_key_is_nested(t: str, is_plain: bool) -> None:
    columns = f"id {t}, v ROW<a INT>"
    assert _decoder(columns, target=table_schema(f"id {t}", "v ROW<a INT>", key=["id"])).in_arrow is is_plain
    assert _decoder(columns, target=table_schema(f"id {t}", "v ROW<a INT>")).in_arrow


def test_the_last_row_of_a_key_is_that_of_the_highest_offset() -> None:
    """Spark may give the records of a partition in another order."""
    decoder = _decoder("id INT, v INT", target=table_schema("id INT", "v INT", key=["id"]), last_only=True)
    messages = [as_bytes({"id": n % 3, "v": n}) for n in range(9)]
    records = {
        "key": pa.nulls(9, pa.binary()),
        "value": pa.array(messages, pa.binary()),
        "topic": pa.array(["t"] * 9),
        "partition": pa.array([0] * 9, pa.int32()),
        "offset": pa.array(range(9)),
        TIMESTAMP: pa.array([5] * 9),
    }
    order = pa.array([8, 4, 0, 1, 7, 2, 6, 5, 3])
    rows = decoder.decoded(pa.record_batch(records).take(order)).to_pylist()
    assert [(row["c0"], row["c1"]) for row in rows] == [(0, 6), (1, 7), (2, 8)]

    # A TRUNCATE of another partition at time 6 removes the last row of key 2, and not the one before it.
    later = records | {TIMESTAMP: pa.array([9, 5, 5, 8, 7, 7, 8, 7, 6])}
    rows = decoder.decoded(pa.record_batch(later)).to_pylist()
    assert [(row["c0"], row["c1"]) for row in rows] == [(0, 0), (2, 5), (0, 6), (1, 7), (2, 8)]
    without = records | {TIMESTAMP: pa.array([9, 5, 5, None, 5, 5, None, 5, 5])}  # a record without a time is early
    rows = decoder.decoded(pa.record_batch(without)).to_pylist()
    assert [(row["c0"], row["c1"]) for row in rows] == [(0, 0), (0, 6), (1, 7), (2, 8)]


def test_the_first_error_of_a_row_counts() -> None:
    decoder = _decoder("v INT, w INT", as_text=["v", "w"], target=table_schema("v INT", "w INT", key=["v"]))
    _, bad = _rows(decoder, {"v": "x", "w": "y"}, {"w": "y"})
    assert [error[1] for error in bad.values()] == [f"column '{name}': a text does not fit INT" for name in "vw"]


def test_the_error_of_a_record_is_that_of_its_first_bad_row() -> None:
    decoder = _decoder("v INT, w INT", as_text=["v", "w"])
    _, bad = _rows(decoder, [{"v": 1, "w": 1}, {"v": 1, "w": "y"}, {"v": "x", "w": 1}])
    assert [error[1] for error in bad.values()] == ["column 'w': a text does not fit INT"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7.0", 7),
        ("1.2E3", 1200),
        ("-7.00e0", -7),
        ("7.5", None),
        ("9223372036854775807.0", 2**63 - 1),
        ("-9223372036854775808.0", -(2**63)),
        ("9223372036854775808.0", None),
        ("1e18", 10**18),
        ("1e19", None),
        ("1e9999", None),
    ],
)
def test_whole_numbers_that_are_written_with_a_fraction_or_an_exponent(text: str, expected: int | None) -> None:
    rows, bad = _rows(_decoder("v BIGINT", as_text=["v"]), {"v": text})
    assert rows == ([] if expected is None else [(10, expected)])
    assert len(bad) == (expected is None)


def test_numbers_of_bits_have_the_bytes_of_their_column() -> None:
    decoder = _decoder("v BYTES", as_text=["v"])
    decoder = replace(decoder, schema=decoder.schema.with_forms({"v": forms_of_bits(2)}))
    rows, bad = _rows(decoder, {"v": "258"}, {"v": "65536"})
    assert (rows, bad.keys()) == ([(10, b"\1\2")], {11})


def test_columns_of_keys_and_values_are_read_as_text_by_their_own_names() -> None:
    """The key has the prefix, so `v` of the value is not the `v` of the key."""
    of_key = _decoder("v BOOLEAN", keys="v BOOLEAN", keys_as_text=["v"])
    of_value = _decoder("v BOOLEAN", keys="v BOOLEAN", as_text=["v"])
    for decoder, key, value in ((of_key, "1", True), (of_value, True, "1")):
        rows, bad = _rows(decoder, {"v": value}, keys=[{"v": key}])
        assert (rows, bad) == ([(10, True, True)], {})


@pytest.mark.parametrize("of_value", [False, True])
def test_a_column_of_key_and_value_is_read_as_the_value_has_it(of_value: bool) -> None:
    as_text = {True: ["v"], False: []}
    source = SourceTable(
        table("v BOOLEAN", as_text=as_text[of_value]), table("v BOOLEAN", as_text=as_text[not of_value])
    )
    evolution = SchemaEvolution(Router(()), SchemaChangeBehavior.LENIENT, frozenset())
    layout, _ = layout_of(
        source, table_schema("v BOOLEAN"), PlanRules(evolution), get_format("json"), get_format("json")
    )
    assert [field.type.root for field in layout.physical.fields] == ["VARCHAR" if of_value else "BOOLEAN"]


@pytest.mark.parametrize(
    ("keys", "key", "in_value", "in_record"),
    [
        ("id INT", ["id"], ["id"], True),
        ("id INT, k INT", ["id"], ["id"], True),
        ("id INT, k INT", ["k", "id"], ["id"], True),
        ("id INT", ["id", "v"], ["id", "v"], False),
        ("k INT", ["v"], ["v"], False),
        ("", ["id"], ["id"], False),
    ],
)
def test_a_deletion_without_a_row_has_its_key_in_the_record_only_if_all_of_it_is_there(
    keys: str, key: list[str], in_value: list[str], in_record: bool
) -> None:
    source = SourceTable(table("id INT, v INT"), table(keys))
    rules = PlanRules(SchemaEvolution(Router(()), SchemaChangeBehavior.LENIENT, frozenset()))
    schema = Planner(rules, lambda *_: TableSchema(())).message_schema(IngestState({SHOP: source}), SHOP)
    value_format = get_format("debezium-json", {"changelog.mode": "upsert"})
    keyed = replace(schema, primary_key=tuple(key))
    layout, _ = layout_of(source, keyed, rules, value_format, get_format("json") if keys else None)
    assert layout.value_format == value_format.for_rows(in_value, in_record=in_record)


@pytest.mark.parametrize("name", ["json", "debezium-json", "maxwell-json"])
def test_keys_are_read_as_the_source_of_the_values_writes_them(name: str) -> None:
    """Debezium may put the schema beside a key, and Maxwell writes keys of its own form."""
    source, value_format, key_format = (
        SourceTable(table("v INT"), table("id INT")),
        get_format(name),
        get_format("json"),
    )
    rules = PlanRules(SchemaEvolution(Router(()), SchemaChangeBehavior.LENIENT, frozenset()))
    layout, _ = layout_of(source, table_schema("id INT", "v INT"), rules, value_format, key_format)
    assert type(layout.key_format) is type(value_format.for_key(key_format))
    assert (type(layout.key_format) is type(key_format)) == (name == "json")


@pytest.mark.parametrize("process", ["America/New_York", "Asia/Tokyo"])
def test_local_times_have_the_zone_of_the_session_and_not_of_the_process(
    process: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    noon = "2024-02-29 12:00:00"
    decoder = _decoder(
        "a TIMESTAMP_LTZ(3), b TIMESTAMP(3), c STRING",
        as_text=["a"],
        zone="Asia/Shanghai",
        target=table_schema("a STRING", "b TIMESTAMP_LTZ(3)", "c TIMESTAMP_LTZ(3)"),
    )
    monkeypatch.setenv("TZ", process)
    time.tzset()
    try:
        ((_, a, b, c),), bad = _rows(decoder, dict.fromkeys("abc", noon))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert bad == {}
    assert [a, b.isoformat(), c.isoformat()] == ["2024-02-29T04:00:00Z", *["2024-02-29T04:00:00+00:00"] * 2]


def test_an_error_before_a_transform_stays_the_error_of_its_row() -> None:
    stage = FitStage(SHOP, table_schema("id INT"), table_schema("id TINYINT"), "UTC")
    ids, errors = [1, 300, 300, None], [None, None, ("record", "earlier", "NO_KEY"), ("value", "other", "MALFORMED")]
    named = [None if error is None else dict(zip(ERROR_FIELDS, error, strict=True)) for error in errors]
    rest = [pa.array([n] * 4) for n in range(len(wire_names(0)) - 1)]
    given = pa.RecordBatch.from_arrays([pa.array(ids, pa.int32()), *rest, pa.array(named, error_type())], wire_names(1))
    found = stage.batch(given).to_pylist()
    assert [row["c0"] for row in found] == [1, None, None, None]
    codes = [row[ROW_ERROR] and (row[ROW_ERROR]["reason"], row[ROW_ERROR]["code"]) for row in found]
    assert codes[0] is None
    assert "value 300 of type INT does not fit TINYINT" in codes[1][0]
    assert codes[2:] == [("earlier", "NO_KEY"), ("other", "MALFORMED")]


def test_the_rows_of_a_batch_are_packed_with_the_number_of_its_bad_records() -> None:
    """The stage of Spark is called without Spark here."""
    errors = [None, {"part": "value", "reason": "why", "code": "X"}]
    batches = [[0, 0], [1, 0, 1], []]
    made = [pa.record_batch({ROW_ERROR: pa.array([errors[n] for n in of], error_type())}) for of in batches]
    records: Any = SimpleNamespace(mapInArrow=lambda stage, _: stage)
    stage: Any = DecodedRows.of(SHOP, records, lambda _: iter(made), table_schema("id INT"), {}).lines
    cells = list(stage(iter([])))
    assert [batch["_kvformat_bad"].to_pylist() for batch in cells] == [[0], [2]]
    assert [len(rows) for batch in cells for rows in unpack(iter([batch]))] == [2, 3]


def test_rows_are_in_order_whatever_their_order_was() -> None:
    """By topic, partition, offset and the row in its record. Each decides for some two neighbours that are swapped."""
    rows = [
        (topic, partition, offset, index)
        for topic in "ab"
        for partition in (0, 2)
        for offset in (5, 9)
        for index in (0, 1)
    ]
    names = (*POSITION, ROW_INDEX)
    orders = [[*rows[:at], rows[at + 1], rows[at], *rows[at + 2 :]] for at in range(len(rows) - 1)]
    orders += [random.Random(seed).sample(rows, len(rows)) for seed in range(20)]
    compared = 0
    for given in (*orders, rows):
        table = pa.table(dict(zip(names, map(list, zip(*given, strict=True)), strict=True)))
        found = in_order(table)
        assert [tuple(row.values()) for row in found.to_pylist()] == rows
        assert (found is table) == (given == rows), "rows in order are not sorted again"
        compared += 1
    assert compared == 36
