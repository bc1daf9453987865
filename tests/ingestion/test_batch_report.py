"""What a query says of its batches: heartbeats, slow tables, totals. No Spark."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from kvformat.connectors.batch_tallies import BatchTally, TableTally
from kvformat.ingestion import batch_report
from kvformat.ingestion.batch_report import BatchReport
from kvformat.ingestion.schemas.table_id import TableId

ORDERS, ITEMS, ODS = TableId(("shop", "orders")), TableId(("shop", "items")), TableId(("ods", "all"))


@pytest.fixture(autouse=True)
def debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kvformat.ingest")


def _lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "kvformat.ingest"]


def test_slow_tables_have_lines_and_the_end_has_totals(caplog: pytest.LogCaptureFixture) -> None:
    report = BatchReport(7, {ORDERS: 40, ITEMS: 2})
    report.was_read()
    report.wrote(ORDERS, [ORDERS], 0.5)
    report.wrote(ODS, [ITEMS, ORDERS], 12.25)
    tally = report.done({"MALFORMED": 2, "SKIPPED": 3}, 2)
    assert tally == BatchTally(
        {"MALFORMED": 2, "SKIPPED": 3}, {"shop.orders": TableTally(40, 0.5), "ods.all": TableTally(42, 12.25)}
    )
    assert tally.counts == {"bad": 2, "skipped": 3, "MALFORMED": 2}
    assert _lines(caplog) == [
        ("DEBUG", "batch 7: table shop.orders: 40 records in 0.5 s"),
        ("INFO", "batch 7: table ods.all: 42 records in 12.2 s"),
        (
            "WARNING",
            "batch 7: wrote 2 tables (2 source tables), 42 records in 0.0 s; the slowest: ods.all 12.2 s, shop.orders "
            "0.5 s; bad 2, skipped 3, MALFORMED 2",
        ),
    ]


@pytest.mark.parametrize(("codes", "level"), [({"SKIPPED": 3}, "INFO"), ({"SKIPPED": 3, "MALFORMED": 1}, "WARNING")])
def test_only_bad_records_make_the_last_line_a_warning(
    caplog: pytest.LogCaptureFixture, codes: dict[str, int], level: str
) -> None:
    BatchReport(0).done(codes, 1)
    ((found, text),) = _lines(caplog)
    assert (found, "skipped 3" in text) == (level, True)


@pytest.mark.parametrize(("seconds", "level"), [(9.9, "DEBUG"), (10.0, "INFO")])
def test_a_table_has_a_line_of_its_own_from_ten_seconds_on(
    caplog: pytest.LogCaptureFixture, seconds: float, level: str
) -> None:
    BatchReport(0, {ORDERS: 1}).wrote(ORDERS, [ORDERS], seconds)
    assert _lines(caplog) == [(level, f"batch 0: table shop.orders: 1 records in {seconds} s")]


def test_a_batch_with_a_thousand_tables_has_one_line(caplog: pytest.LogCaptureFixture) -> None:
    tables = [TableId(("shop", f"t{n}")) for n in range(1000)]
    report = BatchReport(0, dict.fromkeys(tables, 3))
    for table in tables:
        report.wrote(table, [table], 0.1)
    report.done({}, 1000)
    (line,) = [text for level, text in _lines(caplog) if level != "DEBUG"]
    assert "wrote 1000 tables (1000 source tables), 3000 records" in line
    assert len(line) < 200


def test_a_long_batch_says_from_time_to_time_how_far_it_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_report, "_PAUSE", 0.1)
    report = BatchReport(3, {ORDERS: 5}, time.monotonic() - 60)
    report.was_read()
    finished: Future[Any] = Future()
    finished.set_result([])
    with ThreadPoolExecutor() as pool:
        report.wait([finished, pool.submit(time.sleep, 0.35)])
    lines = [text for _, text in _lines(caplog)]
    assert lines[0] == "batch 3: read 5 records of 1 tables in 60 s"
    assert {*lines[1:]} == {"batch 3: 1 of 2 tables in 60 s"}
    assert 2 <= len(lines[1:]) <= 3


def test_a_failed_write_does_not_wait_for_ever() -> None:
    failed: Future[Any] = Future()
    failed.set_exception(OSError("full"))
    BatchReport(0).wait([failed])
