"""The bad records of a batch: which they are, their numbers, and how many of them a query may have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from kvformat.ingestion import bad_records
from kvformat.ingestion.bad_records import BadRecords, Summary, check_count, first_error
from kvformat.ingestion.decoded_rows import DecodedRows, with_bad_records
from kvformat.ingestion.local_store import LocalSchemaStore
from kvformat.ingestion.looking import table_name
from kvformat.ingestion.query import QuerySettings
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry.contract.errors import DecodeError

ORDERS, ITEMS = TableId(("shop", "orders")), TableId(("shop", "items"))


def _group(
    code: str,
    count: int,
    table: TableId | None = ORDERS,
    place: tuple[str, int, int] = ("t", 0, 7),
    part: str = "record",
) -> dict[str, Any]:
    name = None if table is None else table_name(table)
    position = dict(zip(("_kvformat_topic", "_kvformat_partition", "_kvformat_offset"), place, strict=True))
    first = {"_kvformat_table": name, **position, "part": part, "reason": f"why {place[2]}", "code": code}
    return {"_kvformat_table": name, "code": code, "count": count, "first": first}


def test_records_of_quarantined_tables_and_skipped_records_do_not_count() -> None:
    groups = [_group("SCHEMA", 2), _group("MALFORMED", 3, None), _group("SKIPPED", 5), _group("SCHEMA", 7, ITEMS)]
    assert Summary.of_groups(groups, []).count == 12
    assert Summary.of_groups(groups, []).codes == {"SCHEMA": 9, "MALFORMED": 3, "SKIPPED": 5}
    found = Summary.of_groups(groups, [ITEMS])
    assert (found.count, found.is_empty) == (5, False)
    skipped = Summary.of_groups(groups[2:], [ITEMS])
    assert (skipped.count, skipped.is_empty, skipped.first) == (0, False, None)
    assert Summary.of_groups([], []) == Summary()


@pytest.mark.parametrize(
    ("places", "first"),
    [
        ([("t", 0, 103), ("t", 0, 101), ("t", 0, 102)], 101),
        ([("t", 1, 8), ("t", 0, 9), ("t", 2, 7)], 9),
        ([("b", 0, 8), ("a", 1, 9), ("c", 0, 7)], 9),
    ],
)
def test_the_first_bad_record_has_the_lowest_topic_partition_and_offset(
    places: list[tuple[str, int, int]], first: int
) -> None:
    found = Summary.of_groups([_group(f"C{n}", 1, place=place) for n, place in enumerate(places)], [])
    assert found.first is not None
    assert found.first["_kvformat_offset"] == first


def test_only_errors_of_rows_say_that_records_have_rows() -> None:
    unread = _group("MALFORMED", 1, None, part="value")
    assert not Summary.of_groups([unread], []).of_rows
    assert Summary.of_groups([unread, _group("SCHEMA", 1)], []).of_rows


def test_tables_that_need_a_key_are_named() -> None:
    found = Summary.of_groups([_group("NO_KEY", 1), _group("SCHEMA", 1, ITEMS)], [])
    assert found.tables_without_key == {ORDERS}


@pytest.mark.parametrize(
    ("on_table_error", "advice"), [("stop", "start with a new checkpoint"), ("quarantine", "release the table")]
)
def test_the_error_of_a_table_without_a_key_says_what_to_do(on_table_error: Any, advice: str) -> None:
    settings, nothing = QuerySettings("", on_table_error=on_table_error), mock.Mock()
    failed = BadRecords(nothing, settings, nothing, 0, nothing)._without_key({ORDERS, ITEMS})
    assert {*failed.tables} == {ORDERS, ITEMS}
    assert str(failed.cause).startswith("table shop.items: it has no primary key")
    assert str(failed.cause).endswith(f"for the keys of the records, and {advice}")


def test_the_error_of_a_bad_record_says_where_it_is() -> None:
    first = _group("SCHEMA", 1)["first"]
    with pytest.raises(DecodeError, match=r"record: table shop\.orders, topic t, partition 0, offset 7: why 7\. To go"):
        raise first_error(first)
    with pytest.raises(DecodeError, match=r"record: topic t, partition 0, offset 7: why 7\. To go"):
        raise first_error(_group("MALFORMED", 1, None)["first"])
    assert (first_error(first).code, first_error(first).reason) == ("SCHEMA", "why 7")


@pytest.mark.parametrize("most", [0, 1, 5])
def test_a_query_has_at_most_so_many_bad_records(tmp_path: Path, most: int) -> None:
    store = LocalSchemaStore(tmp_path)
    for _ in range(2):  # the batch is repeated
        check_count(store, 0, Summary.of_groups([_group("SCHEMA", most)] if most else [], []), most)
    check_count(store, 1, Summary(), most)
    one_more = Summary.of_groups([_group("SCHEMA", 1)], [])
    for _ in range(2):
        with pytest.raises(DecodeError, match=rf"has {most + 1} bad records .* allows {most}\. One of them: why 7"):
            check_count(store, 2, one_more, most)
    check_count(store, 2, Summary(), most)  # with another format, the batch has none


@pytest.mark.parametrize("logs", [False, True])
def test_bad_records_become_letters_after_the_rows_or_with_the_error_that_ends_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: bool
) -> None:
    written: list[Any] = []
    letters: Any = SimpleNamespace(write=lambda frame, batch: written.append((frame, batch)))
    monkeypatch.setattr(bad_records, "errors_of", lambda rows: rows)
    monkeypatch.setattr(bad_records, "letters_of", lambda looked, errors: "letters")
    monkeypatch.setattr(bad_records, "log", lambda frame, count: written.append((frame, "log", count)))
    counts = ("MALFORMED", 2, None), ("SKIPPED", 3, ORDERS), ("SCHEMA", 4, ITEMS)
    groups = [_group(code, n, table, part="value") for code, n, table in counts]
    summary = Summary.of_groups(groups, [ITEMS])
    monkeypatch.setattr(Summary, "of", lambda errors, quarantined: summary)
    source, memory = mock.Mock(values={}), mock.Mock(store=LocalSchemaStore(tmp_path))
    settings = QuerySettings("", letters, logs_bad_records=logs)

    def checked(most: int, *, ignored: bool = True) -> Callable[[], None]:
        source.values = {"ingestion.ignore-errors": ignored, "ingestion.error-tolerance.max-count": most}
        return BadRecords(source, settings, memory, 7, lambda frame: frame).checked(mock.Mock(), [])[2]

    expected = [("letters", 7), *([("letters", "log", 9)] if logs else [])]  # also those that do not count
    write_letters = checked(2)
    assert written == [], "a table that fails adds its records to them"
    write_letters()
    assert written == expected
    with pytest.raises(DecodeError, match="cannot read a record"):
        checked(-1, ignored=False)
    assert written == expected, "the record stays in its topic"
    with pytest.raises(DecodeError, match="the query has 2 bad records"):
        checked(1)
    assert written == expected * 2


def test_without_a_limit_bad_records_are_only_counted(tmp_path: Path) -> None:
    store = LocalSchemaStore(tmp_path)
    check_count(store, 0, Summary.of_groups([_group("SCHEMA", 10**6)], []), -1)
    assert store.errors() == 10**6


@pytest.mark.spark
def test_a_record_that_is_bad_for_several_targets_is_one_bad_record(spark: Any) -> None:
    error = "_kvformat_error STRUCT<part: STRING, reason: STRING, code: STRING>"
    types = f"_kvformat_topic STRING, _kvformat_partition INT, _kvformat_offset BIGINT, {error}"
    bad = []
    for offsets in ([7, 8, None], [7, None], [7, 9]):
        rows = [("t", 0, n or 0, n and ("record", f"{n}", "SCHEMA")) for n in offsets]
        bad.append(SimpleNamespace(table=ORDERS, rows=functools.partial(spark.createDataFrame, rows, types)))
    looked = SimpleNamespace(news=SimpleNamespace(errors=0))
    batch: Any = SimpleNamespace(looked=looked, refused={}, returned={}, bad=bad)
    errors = bad_records.errors_of(batch)
    assert errors is not None
    found = sorted((row["_kvformat_offset"], row["reason"], row["code"]) for row in errors.collect())
    assert found == [(n, f"{n}", "SCHEMA") for n in (7, 8, 9)]


@pytest.mark.spark
@pytest.mark.parametrize("count", [2, 3])
def test_bad_records_are_logged_up_to_a_number(
    spark: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(bad_records, "_MOST_LOGGED", 2)
    types = "table STRING, topic STRING, partition INT, offset BIGINT, code STRING, reason STRING, value BINARY"
    letters = spark.createDataFrame([("shop.o", "t", 0, n, "MALFORMED", "why", b"{") for n in range(count)], types)
    bad_records.log(letters, count)
    texts = [record.getMessage() for record in caplog.records if record.name == "kvformat.ingest"]
    begin, end = "bad record: table shop.o, topic t, partition 0, offset", "MALFORMED: why, value (base64) ew=="
    assert texts[:2] == [f"{begin} {n}, {end}" for n in (0, 1)]
    assert texts[2:] == ["bad records: 1 more are not logged"] * (count - 2)


@pytest.mark.spark
def test_a_table_has_bad_records_if_one_batch_has_one(spark: Any) -> None:
    types = "_kvformat_packed BINARY, _kvformat_bad BIGINT"
    decoded = [
        DecodedRows(ORDERS, spark.createDataFrame([(b"", n) for n in counts], types), table_schema("id INT"), {})
        for counts in ([0, 0], [0, 1], [3], [])
    ]
    assert with_bad_records(decoded) == decoded[1:3]
    assert with_bad_records([]) == []
