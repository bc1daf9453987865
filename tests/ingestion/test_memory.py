"""What a query remembers between two batches, and when it reads the store again. The batches do nothing here."""

from __future__ import annotations

import html
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from kvformat.ingestion import Pipeline, query, query_memory
from kvformat.ingestion.local_store import LocalSchemaStore
from kvformat.ingestion.planning import BatchNews, NewColumn
from kvformat.ingestion.query import IngestBatch, QuerySettings
from kvformat.ingestion.schemas.known import BatchPlan, IngestState, SourceTable
from kvformat.ingestion.schemas.state import Cause
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.target_writer import TableFailedError
from kvformat.ingestion.targets.values import ValuesTarget
from kvformat.ingestion.testing.targets import table_schema
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


def _memory() -> query_memory.QueryMemory:
    nothing: Any = None
    return query_memory.QueryMemory(nothing, nothing, nothing, nothing, nothing, "q", _session=mock.Mock())


def test_spark_is_asked_once_for_the_columns_after_a_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each table, with the same columns, and with the same ones that had no value yet."""
    asked: list[Any] = []
    monkeypatch.setattr(
        query_memory.transforming, "analyzed", lambda session, rule, *given: asked.append(given) or given[1]
    )
    memory, one, two = _memory(), table_schema("id INT"), table_schema("id INT", "v INT")
    inputs = [(SHOP, one, frozenset()), (SHOP, one, frozenset("v")), (SHOP, two, frozenset())]
    inputs.append((TableId(("other",)), one, frozenset()))
    rule: Any = None
    for _ in range(2):
        assert [memory._analyze(rule, *given) for given in inputs] == [one, one, two, one]
    assert asked == inputs


def test_the_next_look_may_use_the_newest_decoders_of_tables_without_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder that is used again is pickled once."""
    monkeypatch.setattr(query_memory, "_MOST_DECODERS", 3)
    memory, decoders = _memory(), [SimpleNamespace(table=TableId((name,))) for name in "abcd"]

    def kept(*used: int, without: str = "") -> str:
        given: Any = [decoders[n] for n in used]
        memory.keep_decoders(given, without={TableId((name,)) for name in without})
        return "".join(table.table for table in memory.decoders)

    assert kept(0, 1) == "ab"
    first = memory.decoders[TableId(("a",))]
    assert kept(2, 0) == "bca"
    assert memory.decoders[TableId(("a",))] is first
    assert kept(3) == "cad"
    assert kept(1, 2, without="cd") == "b", "the oldest are forgotten, and those of tables with news"
    decoders[1] = SimpleNamespace(table=TableId(("b",)))
    assert kept(1) == "b"
    made: Any = memory.decoders[TableId(("b",))].decoder
    assert made is decoders[1]


@pytest.mark.parametrize("take_over", [False, True])
def test_a_query_takes_tables_over_and_has_functions_as_its_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, take_over: bool
) -> None:
    monkeypatch.setattr(query_memory, "SchemaStore", lambda _, checkpoint: LocalSchemaStore(checkpoint))
    monkeypatch.setattr(query_memory, "allows_time", lambda _: False)
    functions = {"user-defined-function": [{"name": "escape", "python": "html:escape"}]}
    pipeline, spark = Pipeline(SOURCE, {"type": "values"}, pipeline=functions), mock.Mock()
    settings = QuerySettings(str(tmp_path), on_table_error="quarantine", take_over=take_over)
    memory = query_memory.QueryMemory.of(pipeline, ValuesTarget(), settings, spark)
    spark.udf.register.assert_called_once_with("escape", html.escape)
    assert memory.tables._take_over is take_over
    assert (memory.rules.quarantine, memory.rules.has_time) == (True, False)


# --- one run of a batch ----------------------------------------------------------------------------------------


def _batch_run(folder: Path, monkeypatch: pytest.MonkeyPatch, pipeline: Any = None, **settings: Any) -> Any:
    """Return the run of a first batch, whose session has the time zone of Tokyo."""
    monkeypatch.setattr(query_memory, "SchemaStore", lambda _, checkpoint: LocalSchemaStore(checkpoint))
    monkeypatch.setattr(query_memory, "allows_time", lambda _: True)
    made = Pipeline({**SOURCE, "value.format": "json"}, {"type": "values"}, pipeline=pipeline)
    batch = IngestBatch(made, ValuesTarget(), QuerySettings(str(folder), **settings))
    records = mock.MagicMock(columns=["value"])
    records.sparkSession.conf.get.return_value = "Asia/Tokyo"
    memory = query_memory.QueryMemory.of(made, batch.target, batch.settings, records.sparkSession)
    memory.begin(records.sparkSession)
    return query._BatchRun(batch, memory, records, 0)


@pytest.mark.parametrize(
    ("pipeline", "zone"), [({}, "Asia/Tokyo"), ({"local-time-zone": "Europe/Berlin"}, "Europe/Berlin")]
)
def test_the_time_zone_is_that_of_the_pipeline_or_of_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipeline: dict[str, str], zone: str
) -> None:
    assert _batch_run(tmp_path, monkeypatch, pipeline).zone == zone


@pytest.mark.parametrize(("pipeline", "tasks"), [({}, []), ({"parallelism": "2"}, [mock.call(2)])])
def test_a_look_has_as_many_tasks_as_the_pipeline_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipeline: dict[str, str], tasks: list[Any]
) -> None:
    run = _batch_run(tmp_path, monkeypatch, pipeline)
    monkeypatch.setattr(query, "decodable_records", lambda records, _: records)
    run._look({})
    assert run.records.coalesce.mock_calls[:1] == tasks


def test_the_plan_without_a_failed_table_is_stored_before_the_others_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, cause = TableId(("other",)), Cause("t", 0, 0)
    columns = tuple(NewColumn(table, "value", "v", (parse_type("INT"),), cause) for table in (SHOP, other))
    news = BatchNews({SHOP: cause, other: cause}, columns)
    monkeypatch.setattr(query._BatchRun, "_look", lambda *_: SimpleNamespace(run=lambda: SimpleNamespace(news=news)))
    ingested: list[list[TableId]] = []

    def ingest(run: Any, plan: BatchPlan, looked: Any) -> None:
        stored = run.memory.store.load(0)[1]
        assert stored is not None
        assert stored.state.quarantined == plan.state.quarantined
        ingested.append([*plan.state.quarantined])
        if len(ingested) == 1:
            raise TableFailedError([SHOP], ValueError("broken"))

    monkeypatch.setattr(query._BatchRun, "_ingest", ingest)
    run = _batch_run(tmp_path, monkeypatch, on_table_error="quarantine")
    run.run()
    assert ingested == [[], [SHOP]]
    assert (run.memory.state.quarantined, [*run.memory.state.schemas.targets]) == ({SHOP: "broken"}, [other])
    ingested.clear()
    with pytest.raises(ValueError, match="broken"):
        _batch_run(tmp_path / "stop", monkeypatch).run()


_STEPS = ["looked", "planned", "stored", "decoded", "checked", "written", "letters"]


@pytest.mark.parametrize(("check", "steps"), [(1, _STEPS[:1]), (2, _STEPS[:6]), (3, _STEPS), (4, _STEPS)])
def test_a_driver_that_was_replaced_writes_no_plan_and_no_letters_and_ends_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: int, steps: list[str]
) -> None:
    """It finds out before each of them. What it has cached is released, whatever happens."""
    news, letters, done = BatchNews({SHOP: Cause("t", 0, 0)}), mock.Mock(), list[str]()
    monkeypatch.setattr(query._BatchRun, "_look", lambda *_: SimpleNamespace(run=lambda: SimpleNamespace(news=news)))
    decoded = mock.Mock(decoders={})
    bad = mock.Mock(checked=mock.Mock(return_value=(decoded, mock.Mock(codes={}), letters)))
    rows = mock.Mock(rows=mock.Mock(return_value=decoded), reusable=mock.Mock(return_value=[]))
    for name, made in {"BadRecords": bad, "BatchDecoder": rows, "TargetWriter": mock.Mock(), "tell": None}.items():
        monkeypatch.setattr(query, name, mock.Mock(return_value=made))
    run = _batch_run(tmp_path, monkeypatch)
    run.batch.step = done.append
    cached = run._cached(mock.Mock())
    run.memory.store.check_driver = mock.Mock(side_effect=[None] * (check - 1) + [KilledError] * (4 - check))
    if check < 4:
        with pytest.raises(KilledError):
            run.run()
    else:
        run.run()
    assert done == steps
    assert letters.called == ("letters" in steps)
    assert (run.memory.store.load(0)[1] is None) == (check == 1)
    assert (SHOP in run.memory.state.sources) == (check == 4)
    cached.unpersist.assert_called_once_with()
