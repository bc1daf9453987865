"""Which rows of a batch are written from the driver: those of small tables, and of a target all or none. No Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from kvformat.ingestion.batch_decoder import BatchDecoder
from kvformat.ingestion.looking import Looking
from kvformat.ingestion.planning import BatchNews
from kvformat.ingestion.schemas.table_id import TableId


def _rows(size: int) -> pa.Table:
    """Return rows of so many bytes."""
    return pa.table({"c0": np.zeros(size, np.int8)})


class _Look(Looking):
    """A look that notes what it is asked for, in `lines`."""

    def fetched(self, tables: Iterable[TableId]) -> dict[TableId, pa.Table]:
        names: Any = self.lines
        names += [("fetched", "".join(table.table for table in tables))]
        return {table: _rows(1) for table in tables}

    def decoded_together(self, decoders: Mapping[TableId, Any], returned_bytes: int) -> dict[TableId, pa.Table]:
        names: Any = self.lines
        names += [("decoded", "".join(table.table for table in decoders), returned_bytes)]
        return {table: _rows(1) for table in decoders}


def _in_driver(
    most: int,
    *,
    returned: dict[str, int] | None = None,
    known: dict[str, int] | None = None,
    new: dict[str, int] | None = None,
    targets: str = "",
    truncated: str = "",
    nested: str = "",
) -> tuple[str, list[tuple[Any, ...]]]:
    """Return the tables whose rows are in the driver, and what the look was asked for.

    The look has decoded the tables `returned` and `known`, with so many bytes, and not those of `new`, with so many
    records. All tables of `targets` lead to one target, and any other table to its own.
    """
    returned, known, new = returned or {}, known or {}, new or {}
    names = sorted({*returned, *known, *new})
    news = BatchNews(
        records={TableId((name,)): new.get(name, 1) for name in names},
        sizes={TableId((name,)): size for name, size in (returned | known).items()},
        tasks=4,
    )
    memory: Any = mock.Mock(target=mock.Mock(driver_max_bytes=most))
    memory.rules.rule = lambda table: None
    memory.planner.targets = lambda state, table: [TableId(("all" if table.table in targets else table.table,))]
    decoders: Any = {
        TableId((name,)): SimpleNamespace(table=TableId((name,)), in_arrow=name not in nested) for name in names
    }
    asked: Any = []
    of_look = {table: decoder for table, decoder in decoders.items() if table.table not in new}
    rows = {TableId((name,)): _rows(size) for name, size in returned.items()}
    looked = _Look(asked, mock.Mock(), of_look, news, rows)
    nothing: Any = None
    decoder = BatchDecoder(nothing, memory, nothing, "UTC", (), nothing)
    found = decoder._with_returned(looked, decoders, {TableId((name,)) for name in truncated.split()})
    return "".join(sorted(table.table for table in found.rows)), asked


def test_rows_are_fetched_while_all_together_fit_the_driver() -> None:
    """The smallest first."""
    assert _in_driver(100, known={"a": 61, "b": 60, "c": 40}) == ("bc", [("fetched", "cb")])
    assert _in_driver(100, returned={"a": 10}, known={"b": 60, "c": 40}) == ("ac", [("fetched", "c")])
    assert _in_driver(100, known={"a": 101}) == ("", [])


def test_tables_with_few_records_are_decoded_in_the_bytes_that_are_left_to_each_task() -> None:
    found = _in_driver(1000, returned={"a": 200}, known={"b": 300}, new={"x": 10, "y": 11, "z": 1})
    assert found == ("abxz", [("fetched", "b"), ("decoded", "xz", 125)])
    assert _in_driver(1000, returned={"a": 1000}, new={"x": 1}) == ("a", []), "nothing is left"


@pytest.mark.parametrize(
    ("tables", "found"),
    [
        ({"returned": {"a": 10, "b": 10, "c": 10}}, "abc"),
        ({"returned": {"a": 10, "c": 10}, "known": {"b": 2000}}, "c"),
        ({"returned": {"b": 10, "c": 10}, "new": {"a": 50}}, "c"),
        ({"returned": {"a": 10, "b": 10, "c": 10}, "nested": "b"}, "c"),
        ({"returned": {"a": 10, "b": 10, "c": 10}, "truncated": "all"}, "c"),
        ({"returned": {"a": 10, "b": 10, "c": 10}, "truncated": "all c"}, ""),
    ],
)
def test_the_rows_of_a_target_are_in_the_driver_if_those_of_all_its_sources_are(
    tables: dict[str, Any], found: str
) -> None:
    """Only one of both is written."""
    assert _in_driver(1000, targets="ab", **tables)[0] == found


def test_a_target_that_takes_no_rows_from_the_driver_gets_none() -> None:
    assert _in_driver(0, returned={"a": 10}, known={"b": 1}, new={"x": 1}) == ("", [])
