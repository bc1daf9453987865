"""Rows as lines on the standard output."""

from __future__ import annotations

from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.targets.values import _lines


def test_changes_are_printed_as_flink_cdc_prints_them() -> None:
    rows = [
        (1, "a", "+I"),
        (1, "a", "-U"),
        (1, None, "+U"),
        (2, True, "-U"),
        (3, b"x", "-D"),
        (4, "z", "+U"),
        (5, "w", "-U"),
    ]
    begin = "DataChangeEvent{tableId=shop.t, "
    assert [
        line.removeprefix(begin).removesuffix(", meta=()}") for line in _lines(TableId.parse("shop.t"), rows, True)
    ] == [
        "before=[], after=[1, a], op=INSERT",
        "before=[1, a], after=[1, null], op=UPDATE",
        "before=[2, true], after=[], op=UPDATE",
        "before=[3, b'x'], after=[], op=DELETE",
        "before=[], after=[4, z], op=UPDATE",
        "before=[5, w], after=[], op=UPDATE",
    ]
    assert [*_lines(TableId.parse("t"), [(1,)], False)] == [
        "DataChangeEvent{tableId=t, before=[], after=[1], op=INSERT, meta=()}"
    ]
