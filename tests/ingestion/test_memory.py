"""What a query remembers between two batches, and when it reads the store again. The batches do nothing here."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kvformat.ingestion import Pipeline, query, query_memory
from kvformat.ingestion.local_store import LocalSchemaStore
from kvformat.ingestion.query import IngestBatch, QuerySettings
from kvformat.ingestion.schemas.known import BatchPlan, IngestState, SourceTable
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.targets.values import ValuesTarget
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.look import KnownTable
from tests.ingestion.history import SOURCE, KilledError

SHOP = TableId(("shop",))


class _Batches:
    """Runs batches, each of which adds a column; `runs` has the columns before each, and whether a plan was stored."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.kill = folder, False
        self.runs: list[tuple[int, list[str], bool]] = []
        monkeypatch.setattr(query_memory, "SchemaStore", lambda _, checkpoint: LocalSchemaStore(checkpoint))
        monkeypatch.setattr(query_memory, "allows_time", lambda _: True)
        monkeypatch.setattr(query._BatchRun, "run", lambda run: self._run(run))
        settings = QuerySettings(str(folder))
        self.batch = IngestBatch(Pipeline(SOURCE, {"type": "values"}), ValuesTarget(), settings)

    def __call__(self, number: int, *, kill: bool = False) -> None:
        self.kill = kill
        self.batch(mock.MagicMock(), number)

    def _run(self, run: Any) -> None:
        memory = run.memory
        known = memory.state.sources.get(SHOP, SourceTable()).value.columns
        self.runs.append((run.id, [*known], memory.stored is not None))
        columns = {**known, f"c{run.id}": parse_type("INT")}
        plan = memory.stored or BatchPlan(IngestState({SHOP: SourceTable(KnownTable(columns))}))
        memory.store.write(run.id, memory.state, plan)
        if self.kill:
            raise KilledError
        memory.state = plan.state

    @property
    def drivers(self) -> int:
        """How often the query began."""
        return 1 + max(int(driver["number"]) for driver in LocalSchemaStore(self.folder)._drivers())


@pytest.fixture
def batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Batches:
    return _Batches(tmp_path, monkeypatch)


def test_the_store_is_read_once_while_batches_follow_each_other(batches: _Batches) -> None:
    for number in range(3):
        batches(number)
    assert batches.runs == [(0, [], False), (1, ["c0"], False), (2, ["c0", "c1"], False)]
    assert batches.drivers == 1


def test_a_batch_that_failed_is_repeated_with_the_plan_of_its_first_run(batches: _Batches) -> None:
    batches(0)
    with pytest.raises(KilledError):
        batches(1, kill=True)
    batches(1)
    batches(2)
    assert batches.runs == [(0, [], False), (1, ["c0"], False), (1, ["c0"], True), (2, ["c0", "c1"], False)]
    assert batches.drivers == 2


def test_a_batch_that_is_repeated_after_its_success_takes_the_stored_plan(batches: _Batches) -> None:
    for number in (0, 1, 1, 0):
        batches(number)
    assert batches.runs == [(0, [], False), (1, ["c0"], False), (1, ["c0"], True), (0, [], True)]


def test_a_pickled_query_remembers_nothing(batches: _Batches) -> None:
    batches(0)
    batches.batch = pickle.loads(pickle.dumps(batches.batch))
    batches(1)
    assert batches.runs == [(0, [], False), (1, ["c0"], False)]
    assert batches.drivers == 2


def test_a_decoder_is_made_again_when_what_it_is_made_from_has_changed() -> None:
    nothing: Any = None
    memory = query_memory.QueryMemory(nothing, nothing, nothing, nothing, nothing, "q")
    made: list[Any] = []

    def decoder(table: TableId, *inputs: object) -> Any:
        return memory.decoder(table, inputs, lambda: made.append((table, inputs)) or object())  # type: ignore[func-returns-value]

    other = TableId(("other",))
    first = decoder(SHOP, 1, 2)
    assert decoder(SHOP, 1, 2) is first
    assert decoder(other, 1, 2) is not first
    second = decoder(SHOP, 1, 3)
    assert second is not first
    assert decoder(SHOP, 1, 3) is second
    assert made == [(SHOP, (1, 2)), (other, (1, 2)), (SHOP, (1, 3))]
