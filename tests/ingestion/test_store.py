"""The schema store: plans, counts of errors, quarantine, and files that are broken, cut off or of a later release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.schemas.events import CreateTable
from kvformat.ingestion.schemas.known import BatchPlan, IngestState, SourceTable
from kvformat.ingestion.schemas.state import Cause, CausedEvent, SchemaState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.store import SchemaStore
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.look import KnownTable

pytestmark = pytest.mark.spark


def _plan(before: IngestState, table: TableId, *columns: str, quarantined: str = "") -> BatchPlan:
    types = {name: parse_type("STRING") for name in columns}
    schema = TableSchema(tuple(SchemaColumn(name, t) for name, t in types.items()))
    state = IngestState(
        {**before.sources, table: SourceTable(KnownTable(types, frozenset(columns[:1])))},
        SchemaState({**before.schemas.sources, table: schema}, {**before.schemas.targets, table: schema}),
        {**before.quarantined, **({table: quarantined} if quarantined else {})},
    )
    return BatchPlan(state, (CausedEvent(CreateTable(table, schema), Cause("t", 1, 2)),))


def _file(store: SchemaStore, folder: str) -> Path:
    (found,) = Path(store.folder, folder).glob("part-*")
    return found


def test_states_are_read_again_after_any_batch(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvformat.ingestion.store._FULL_EVERY", 3)
    store, states = SchemaStore(spark, str(tmp_path)), [IngestState()]
    assert store.load() == (IngestState(), None)
    for batch in range(7):
        plan = _plan(states[-1], TableId((f"t{batch % 3}.x", "ü")), *[f"c{n}" for n in range(batch + 1)])
        store.write(batch, states[-1], plan)
        if batch == 4:
            store.write(batch, states[-1], plan)
        states.append(plan.state)
    store.write(7, states[-1], BatchPlan(states[-1]))  # nothing changed: no file
    names = {path.name for path in Path(store.folder, "schemas").iterdir()}
    assert {name for name in names if name.endswith(".all")} >= {"000000002.all", "000000005.all"}
    assert "000000007" not in names
    compared = 0
    for batch in range(8):
        again = SchemaStore(spark, str(tmp_path))
        state, plan = again.load(batch)
        assert state.entries() == states[batch].entries()
        assert (plan is None) == (batch == 7)
        if plan is not None:
            assert plan.state.entries() == states[batch + 1].entries()
        compared += 1
    assert compared == 8
    assert SchemaStore(spark, str(tmp_path)).load()[0].entries() == states[-1].entries()
    assert [batch for batch, _ in store.history()] == list(range(7))


def test_the_query_id_is_made_once(spark: Any, tmp_path: Path) -> None:
    store = SchemaStore(spark, str(tmp_path))
    assert store.chosen("query") is None
    assert store.make_query_id() == store.make_query_id() == SchemaStore(spark, f"{tmp_path}/").chosen("query")


def test_a_repeated_batch_counts_its_errors_once(spark: Any, tmp_path: Path) -> None:
    store = SchemaStore(spark, str(tmp_path))
    assert store.errors() == 0
    assert store.add_errors(0, 0) == 0
    assert not Path(store.folder, "errors").exists()
    for batch, count, total in [(1, 2, 2), (1, 2, 2), (2, 0, 2), (3, 5, 7), (3, 5, 7), (4, 1, 8), (5, 1, 9), (5, 1, 9)]:
        assert store.add_errors(batch, count) == total
    assert (store.errors(5), store.errors()) == (8, 9)
    assert len([*Path(store.folder, "errors").iterdir()]) == 3


def test_a_table_is_released_from_quarantine(spark: Any, tmp_path: Path) -> None:
    store, table, other = SchemaStore(spark, str(tmp_path)), TableId(("a", "b")), TableId(("c",))
    first = _plan(IngestState(), table, "x", quarantined="broken")
    store.write(3, IngestState(), first)
    with pytest.raises(SchemaChangeError, match=r"c is not in quarantine; tables in quarantine: a\.b"):
        store.release(other)
    store.release(table)
    state, _ = store.load()
    assert state.quarantined == {}
    second = _plan(state, other, "y")
    store.write(4, state, second)
    state, _ = store.load()
    assert state.quarantined == {}
    store.write(5, state, _plan(state, table, "x", quarantined="again"))
    assert store.load()[0].quarantined == {table: "again"}


def test_a_batch_that_is_planned_again_replaces_everything_written_after_it(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a table went into quarantine in the batch after which everything is written."""
    monkeypatch.setattr("kvformat.ingestion.store._FULL_EVERY", 1)
    store, table = SchemaStore(spark, str(tmp_path)), TableId(("a", "b"))
    store.write(0, IngestState(), _plan(IngestState(), table, "x"))
    for why in ("first", "second"):
        store.write(0, IngestState(), _plan(IngestState(), table, "x", quarantined=why))
        assert SchemaStore(spark, str(tmp_path)).load()[0].quarantined == {table: why}
        store = SchemaStore(spark, str(tmp_path))
        monkeypatch.setattr("kvformat.ingestion.store._FULL_EVERY", 50)


def test_broken_files_are_errors_and_nothing_is_lost(spark: Any, tmp_path: Path) -> None:
    store, table = SchemaStore(spark, str(tmp_path)), TableId(("a", "b"))
    plan = _plan(IngestState(), table, "x", "y")
    store.write(0, IngestState(), plan)
    store.write(1, plan.state, _plan(plan.state, table, "x", "y", "z"))
    file = _file(store, "schemas/000000000")
    whole = file.read_text()
    lines = whole.splitlines()
    texts = {
        "": "lost, broken or cut off",
        whole[: len(whole) // 2]: "lost, broken or cut off",
        "\n".join(lines[:-1]): "lost, broken or cut off",
        "[]": "lost, broken or cut off",
        whole.replace('"version": 1', '"version": 2', 1): "has version 2, and this release of kvformat reads version 1",
    }
    for text, expected in texts.items():
        for checksum in file.parent.glob(".*.crc"):
            checksum.unlink()
        file.write_text(text)
        with pytest.raises(SchemaChangeError, match=expected) as raised:
            store.load(2)
        assert "schemas/000000000" in str(raised.value)
        if "version" not in expected:  # the batch's own plan is made again
            assert store.load(0) == (IngestState(), None)
    file.write_text(whole)
    assert store.load(1)[0].entries() == plan.state.entries()
    head = json.loads(lines[0])
    assert head.pop("checksum")
    assert head == {"batch": 0, "lines": len(lines) - 1, "previous": None, "version": 1}
