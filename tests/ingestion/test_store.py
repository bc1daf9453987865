"""The schema store: plans, counts of errors, quarantine, drivers, and files that are broken or of a later release.

It reads and writes plain files here, and those of Spark too.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.local_store import LocalSchemaStore
from kvformat.ingestion.schemas.events import CreateTable
from kvformat.ingestion.schemas.known import BatchPlan, IngestState, SourceTable
from kvformat.ingestion.schemas.state import Cause, CausedEvent, SchemaState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.store import FIRST_BATCH, SchemaStore
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.look import KnownTable

NewStore = Callable[[], SchemaStore]


@pytest.fixture(params=["files", pytest.param("spark", marks=pytest.mark.spark)])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> NewStore:
    """Returns a function that makes a store of the same checkpoint."""
    if request.param == "files":
        return lambda: LocalSchemaStore(tmp_path)
    spark = request.getfixturevalue("spark")
    return lambda: SchemaStore(spark, str(tmp_path))


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


def test_states_are_read_again_after_any_batch(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvformat.ingestion.store._FULL_EVERY", 3)
    store, states = new_store(), [IngestState()]
    assert store.load() == (IngestState(), None)
    batches = range(FIRST_BATCH, 6)
    for batch in batches:
        plan = _plan(states[-1], TableId((f"t{batch % 3}.x", "ü")), *[f"c{n}" for n in range(batch + 2)])
        store.write(batch, states[-1], plan)
        if batch == 3:
            store.write(batch, states[-1], plan)
        states.append(plan.state)
    store.write(6, states[-1], BatchPlan(states[-1]))  # nothing changed: no file
    names = {path.name for path in Path(store.folder, "schemas").iterdir()}
    assert {name for name in names if name.endswith(".all")} >= {"000000001.all", "000000004.all"}
    assert "000000006" not in names
    for before, batch in zip(states, [*batches, 6], strict=True):
        state, plan = new_store().load(batch)
        assert state == before
        assert (plan is None) == (batch == 6)
        if plan is not None:
            assert plan.state == states[batch + 2]
    assert new_store().load()[0] == states[-1]
    assert [batch for batch, _ in store.history()] == [*batches]


def test_everything_is_written_now_and_then_also_if_each_batch_has_a_new_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvformat.ingestion.store._FULL_EVERY", 3)
    for batch in range(7):
        store = LocalSchemaStore(tmp_path)
        state, _ = store.load(batch)
        store.write(batch, state, _plan(state, TableId(("t",)), *[f"c{n}" for n in range(batch + 1)]))
    names = {path.name for path in Path(store.folder, "schemas").iterdir()}
    assert {name for name in names if name.endswith(".all")} == {"000000002.all", "000000005.all"}


def test_a_value_is_chosen_once(new_store: NewStore) -> None:
    store = new_store()
    assert store.chosen("query") is None
    assert store.make_query_id() == store.make_query_id() == new_store().chosen("query")
    assert [store.choose("marks", text) for text in ("b", "a")] == ["b", "b"]
    assert store.chosen("query") == store.make_query_id() != "b"


def test_a_slash_at_the_end_of_the_checkpoint_changes_nothing(tmp_path: Path) -> None:
    assert LocalSchemaStore(tmp_path).make_query_id() == LocalSchemaStore(f"{tmp_path}/").chosen("query")


def test_a_repeated_batch_counts_its_errors_once(new_store: NewStore) -> None:
    store = new_store()
    assert store.errors() == 0
    assert store.add_errors(0, 0) == 0
    assert not Path(store.folder, "errors").exists()
    for batch, count, total in [(1, 2, 2), (1, 2, 2), (2, 0, 2), (3, 5, 7), (3, 5, 7), (4, 1, 8), (5, 1, 9), (5, 1, 9)]:
        assert store.add_errors(batch, count) == total
    assert (store.errors(5), store.errors()) == (8, 9)
    assert len([*Path(store.folder, "errors").iterdir()]) == 3


def test_the_last_run_of_a_batch_says_how_many_errors_it_has(tmp_path: Path) -> None:
    """Its first run may have had more or fewer: with another format, or with another setting."""
    store = LocalSchemaStore(tmp_path)
    store.add_errors(1, 4)
    for count in (3, 1, 0, 5, 2):
        assert store.add_errors(2, count) == 4 + count
        assert (store.errors(2), store.errors(3), store.errors()) == (4, 4 + count, 4 + count)
    assert store.add_errors(3, 1) == 7


def test_a_count_that_is_cut_off_leaves_those_before_it(tmp_path: Path) -> None:
    store = LocalSchemaStore(tmp_path)
    for batch in range(5):
        store.add_errors(batch, 1)
    (newest,) = (p for p in Path(store.folder, "errors").glob("*/part-0") if '"count": 5' in p.read_text())
    newest.write_text(newest.read_text()[:-9])
    assert store.errors() == 4
    assert store.add_errors(4, 1) == 5


def test_a_table_is_released_from_quarantine(new_store: NewStore) -> None:
    store, table, other = new_store(), TableId(("a", "b")), TableId(("c",))
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
    state, _ = store.load()
    assert state.quarantined == {table: "again"}
    store.write(6, state, _plan(state, other, "y", quarantined="too"))
    store.release(other)
    assert store.load()[0].quarantined == {table: "again"}


def test_a_batch_that_is_planned_again_replaces_everything_written_after_it(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a table went into quarantine in the batch after which everything is written."""
    monkeypatch.setattr("kvformat.ingestion.store._FULL_EVERY", 1)
    store, table = new_store(), TableId(("a", "b"))
    store.write(0, IngestState(), _plan(IngestState(), table, "x"))
    for why in ("first", "second"):
        store.write(0, IngestState(), _plan(IngestState(), table, "x", quarantined=why))
        assert new_store().load()[0].quarantined == {table: why}
        store = new_store()
        monkeypatch.setattr("kvformat.ingestion.store._FULL_EVERY", 50)


def test_the_newest_driver_runs_a_query(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    new_store().check_driver()  # no driver has begun yet
    stores = [new_store() for _ in range(12)]
    for store in stores:
        store.begin_driver()
        store.check_driver()
    assert len([*Path(stores[0].folder, "drivers").iterdir()]) == 3
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 1)
    for store in stores[:-1]:
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="another driver has started with the checkpoint"):
                store.check_driver()
    stores[-1].check_driver()


def test_the_answer_about_drivers_counts_for_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    first, second = LocalSchemaStore(tmp_path), LocalSchemaStore(tmp_path)
    first.begin_driver()
    first.check_driver()
    second.begin_driver()
    now[0] = 100.9
    first.check_driver()
    now[0] = 101.0
    with pytest.raises(ConfigurationError, match="another driver"):
        first.check_driver()


def test_a_driver_that_is_being_written_does_not_count(tmp_path: Path) -> None:
    first = LocalSchemaStore(tmp_path)
    first.begin_driver()
    LocalSchemaStore(tmp_path).begin_driver()
    newest = Path(first.folder, "drivers", "1", "part-0")
    newest.write_text(newest.read_text()[:-9])
    first.check_driver()


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_plan_is_an_error_that_names_it(tmp_path: Path, lost: int) -> None:
    store, state = LocalSchemaStore(tmp_path), IngestState()
    for batch in range(4):
        plan = _plan(state, TableId(("t",)), *[f"c{n}" for n in range(batch + 1)])
        store.write(batch, state, plan)
        state = plan.state
    shutil.rmtree(Path(store.folder, "schemas", f"00000000{lost}"))
    with pytest.raises(SchemaChangeError, match=rf"schemas/00000000{lost}' is lost"):
        LocalSchemaStore(tmp_path).load(4)


def test_a_plan_of_another_batch_is_an_error(tmp_path: Path) -> None:
    store = LocalSchemaStore(tmp_path)
    store.write(0, IngestState(), _plan(IngestState(), TableId(("t",)), "x"))
    Path(store.folder, "schemas", "000000000").rename(Path(store.folder, "schemas", "000000001"))
    with pytest.raises(SchemaChangeError, match="schemas/000000001/part-0' is lost, broken"):
        LocalSchemaStore(tmp_path).load(2)


@pytest.mark.parametrize(
    "entry",
    [
        {"source": ["t"]},
        {"quarantined": 5, "reason": "why"},
        {"schema": ["t"], "columns": [["id", "IMT"]]},
    ],
)
def test_an_object_that_is_not_understood_is_an_error_of_its_file(tmp_path: Path, entry: dict[str, Any]) -> None:
    """The file is complete: another release, or somebody, has written it."""
    store = LocalSchemaStore(tmp_path)
    store._write("schemas/000000003", [entry], batch=3, previous=None)
    for batch in (3, None):
        with pytest.raises(SchemaChangeError, match=r"schemas/000000003/part-0' is lost, broken or cut off"):
            store.load(batch)


def test_broken_files_are_errors_and_nothing_is_lost(new_store: NewStore) -> None:
    store, table = new_store(), TableId(("a", "b"))
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
