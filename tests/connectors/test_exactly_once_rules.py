"""Rules of exactly-once delivery on the driver and in tasks, without Spark; test_exactly_once.py has brokers."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kvformat.connectors import exactly_once, transaction_client
from kvformat.connectors.exactly_once import DriverState, ExactlyOnce, job_query
from kvformat.connectors.transaction_client import TransactionSettings
from kvformat.connectors.transactions import Mark, QueryNames, TakenOver, WrittenTask
from kvformat.registry import BrokerError, ConfigurationError, DeliveryError, KafkaSinkWarning, MissingExtraError
from tests.support.sink_frames import Frame as Recorder

SETTINGS = TransactionSettings.of({"properties.bootstrap.servers": "b:1"}, ["t"], "p")


# --- one writer, several batches -------------------------------------------------------------------------------


class Frame:
    """Records of a batch; counts how often they are kept and released."""

    def __init__(self, speculation: str = "false") -> None:
        self.sparkSession = SimpleNamespace(conf={"spark.speculation": speculation})
        self.kept = self.released = 0

    def persist(self) -> Frame:
        self.kept += 1
        return self

    def unpersist(self) -> None:
        self.released += 1


class Query:
    """A query whose driver and tasks are functions of the test. `asked` has the calls in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
        self.asked: list[Any] = []
        self.answer: Callable[[int, int], TakenOver] = lambda batch, tasks: TakenOver(f"g{len(self.asked)}", tasks)
        self.tasks = [WrittenTask(0, 2, 5), WrittenTask(1, 3, 7)]
        self.failure: Exception | None = None
        self.writer = ExactlyOnce(SETTINGS, 2, "q", **more)
        monkeypatch.setattr(exactly_once, "_on_driver", lambda spark, function: function())
        monkeypatch.setattr(exactly_once, "_parted", lambda records, tasks, in_order: records)
        monkeypatch.setattr(exactly_once, "_collected", self._collected)
        monkeypatch.setattr(exactly_once, "_take_over", self._take_over)
        monkeypatch.setattr(exactly_once, "_finish", self._finish)
        monkeypatch.setattr(exactly_once, "_writing", lambda *given: given)
        monkeypatch.setattr(exactly_once, "_planned", lambda spark, checkpoint, batch: 1000.0 + batch)

    def _take_over(self, _: Any, names: QueryNames, batch: int, tasks: int, planned: float | None) -> TakenOver:
        self.asked.append(("take over", names.driver, batch, tasks, planned))
        return self.answer(batch, tasks)

    def _collected(self, _: Any, task: Any) -> list[WrittenTask]:
        if task is exactly_once._digests:
            self.asked.append("digests")
            return self.tasks
        _, _, mark, written, speculative = task
        self.asked.append(("write", mark.batch, mark.tasks, mark.generation, sorted(written), speculative))
        if self.failure is not None:
            raise self.failure
        return self.tasks

    def _finish(self, _: Any, names: QueryNames, mark: Mark) -> None:
        self.asked.append(("finish", mark.batch, mark.rows, mark.digest, mark.generation))

    def write(self, batch: int, frame: Frame | None = None) -> list[Any]:
        """Write a batch, and return the calls for it."""
        self.asked.clear()
        self.writer.write(frame or Frame(), batch, lambda records: records)  # type: ignore[arg-type]
        return list(self.asked)


def test_a_batch_is_taken_over_written_and_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Query(monkeypatch).write(0) == [
        ("take over", "p-q", 0, 2, None),
        ("write", 0, 2, "g1", [], False),
        ("finish", 0, 5, 12, "g1"),
    ]


def test_a_batch_after_a_finished_one_is_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps the generation and the number of tasks, also those of a batch that an earlier run wrote in part."""
    query = Query(monkeypatch)
    query.answer = lambda batch, tasks: TakenOver("old", 5, written={0: Mark(0, 5, 2, 5)})
    query.write(0)
    for batch in (1, 2, 7):
        assert query.write(batch) == [("write", batch, 5, "old", [], False), ("finish", batch, 5, 12, "old")]


@pytest.mark.parametrize("again", [3, 2])
def test_the_same_or_an_older_batch_is_taken_over_again(again: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So its marks are read, and it is not written a second time with the marks of the batch before it."""
    query = Query(monkeypatch)
    query.write(3)
    assert query.write(again)[0] == ("take over", "p-q", again, 2, None)
    assert query.write(4)[0] == ("write", 4, 2, "g1", [], False)


def test_a_batch_after_a_failure_is_taken_over_again(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(monkeypatch)
    query.write(0)
    query.failure = RuntimeError("the executor is lost")
    with pytest.raises(RuntimeError, match="the executor is lost"):
        query.write(1)
    query.failure = None
    assert query.write(1)[:2] == [("take over", "p-q", 1, 2, None), ("write", 1, 2, "g1", [], False)]


def test_a_finished_batch_is_compared_and_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(monkeypatch)
    query.answer = lambda batch, tasks: TakenOver("g", 2, done=Mark(batch, 2, 5, 12))
    frame = Frame()
    assert query.write(4, frame) == [("take over", "p-q", 4, 2, None), "digests"]
    assert (frame.kept, frame.released) == (1, 1)
    query.tasks = [WrittenTask(0, 5, 13)]
    with pytest.raises(DeliveryError, match="can't be repeated"):
        query.write(4, frame)
    assert (frame.kept, frame.released) == (2, 2), "released after an error, too"


def test_a_batch_written_in_part_is_compared_and_the_rest_written(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(monkeypatch)
    query.answer = lambda batch, tasks: TakenOver("g", 2, written={1: Mark(batch, 2, 3, 7)})
    wanted = ["digests", ("write", 4, 2, "g", [1], False), ("finish", 4, 5, 12, "g")]
    assert query.write(4)[1:] == wanted
    query.tasks = [WrittenTask(0, 2, 5), WrittenTask(1, 3, 8)]
    with pytest.raises(DeliveryError, match="1 of its 2 tasks were written before"):
        query.write(4)
    assert query.asked[-1] == "digests", "nothing more was written"


def test_a_new_batch_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = Frame()
    Query(monkeypatch).write(0, frame)
    assert (frame.kept, frame.released) == (0, 0)


@pytest.mark.parametrize(("given", "wanted"), [("true", True), ("TRUE", True), ("false", False)])
def test_tasks_know_whether_spark_speculates(given: str, wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Query(monkeypatch).write(0, Frame(given))[1][-1] is wanted


def test_a_stream_tells_when_its_batch_was_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(monkeypatch, checkpoint_location="/c")
    assert query.write(3)[0] == ("take over", "p-q", 3, 2, 1003.0)


def test_a_query_without_a_mark_of_an_earlier_batch_gives_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(monkeypatch)
    query.answer = lambda batch, tasks: TakenOver("g", tasks, unmarked=True)
    with pytest.warns(KafkaSinkWarning, match=r"'p-q' has no mark of an earlier batch.*goes on with batch 3"):
        query.write(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        query.write(4)


# --- names and checkpoints -------------------------------------------------------------------------------------


@pytest.mark.parametrize("job_id", ["a", "A-Z.0_9:+", "x" * 200])
def test_ids_of_jobs_begin_with_job(job_id: str) -> None:
    assert job_query(job_id) == f"job-{job_id}"


@pytest.mark.parametrize("job_id", ["", "x" * 201, "a b", "a\n", "ä", "a/b", 7])
def test_invalid_ids_of_jobs_are_refused(job_id: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"letters, digits and \._:\+-, at most 200"):
        job_query(job_id)


def test_each_job_without_an_id_is_new() -> None:
    first, second = job_query(None), job_query(None)
    assert first != second
    assert first.startswith("once-")
    assert second.startswith("once-")


class Files:
    """Files of a checkpoint for Spark's reader. `paths` has those that were read."""

    def __init__(self, files: Mapping[str, Sequence[str]]) -> None:
        self.files, self.paths = files, list[str]()
        self.read = self

    def same(self, *_: Any, **__: Any) -> Files:
        return self

    option = options = schema = format = same

    def load(self, paths: Sequence[str]) -> Any:
        (path,) = set(paths)
        self.paths.append(path)
        rows = [{"value": line} for line in self.files.get(path.rpartition("/c/")[2], ())]
        return SimpleNamespace(select=lambda _: SimpleNamespace(collect=lambda: rows))


def test_the_id_of_a_query_is_that_of_its_checkpoint() -> None:
    files = Files({"metadata": ['{"id":', '"abc"}']})
    assert exactly_once._checkpoint_id(files, "/tmp/a{1}[b]*?\\/c/") == "abc"  # type: ignore[arg-type]
    assert files.paths == ["/tmp/a\\{1\\}\\[b\\]\\*\\?\\\\/c/metadata"], "a path is not a pattern"


def test_the_time_of_a_batch_is_that_of_its_plan_in_milliseconds() -> None:
    plan = ["v1", json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_123}), '{"t":{"0":1}}']
    files = Files({"offsets/12": plan, "offsets/13": ["v1", "{}"]})
    assert exactly_once._planned(files, "/c", 12) == 1_700_000_000.123  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="the checkpoint '/c' has no time of batch 13"):
        exactly_once._planned(files, "/c", 13)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="the checkpoint '/c' has lost the id of its query: 'metadata'"):
        exactly_once._checkpoint_id(files, "/c")  # type: ignore[arg-type]


# --- varying values --------------------------------------------------------------------------------------------


def _warned(plan: str, query: str | None, checkpoint: str | None) -> list[str]:
    frame = SimpleNamespace(explain=lambda extended: print(plan))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ExactlyOnce(SETTINGS, 1, query, checkpoint)._warn_about_plan(frame)  # type: ignore[arg-type]
    return [str(warning.message).partition(", whose value")[0] for warning in found]


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ("Project [rand(5) AS n]", "rand()"),
        ("Project [UUID(Some(1)), shuffle(a#1)]", "shuffle(), uuid()"),
        ("Project [monotonically_increasing_id() AS n]", "monotonically_increasing_id()"),
        ("Project [current_timestamp() AS n]", "current_timestamp()"),
        ("Project [brand(5), my.rand(5), rand#5]", ""),
    ],
)
def test_functions_with_other_values_in_a_repeated_job_are_told(plan: str, told: str) -> None:
    assert _warned(plan, "job-1", None) == ([f"the rows depend on {told}"] if told else [])
    assert _warned(plan, "once-1", None) == [], "a job without an id is not repeated"


def test_a_stream_keeps_the_time_of_a_batch() -> None:
    assert _warned("Project [now() AS n, current_date(Some(UTC))]", None, "/c") == []
    assert _warned("Project [now() AS n, rand(1)]", None, "/c") == ["the rows depend on rand()"]


# --- executors ---------------------------------------------------------------------------------------------------


def _checked(missing: Sequence[str | None], tasks: int | None, monkeypatch: pytest.MonkeyPatch) -> ExactlyOnce:
    rows = [SimpleNamespace(missing=reason) for reason in missing]
    mapped = SimpleNamespace(mapInArrow=lambda *_: SimpleNamespace(collect=lambda: rows))
    session = SimpleNamespace(range=lambda _: mapped)
    frame = SimpleNamespace(explain=lambda extended: None, sparkSession=session)
    monkeypatch.setattr(exactly_once, "_on_driver", lambda spark, function: function())
    monkeypatch.setattr(transaction_client, "broker_settings", lambda _: {"transaction.max.timeout.ms": "5000"})
    monkeypatch.setattr(transaction_client, "largest_messages", lambda *_: [])
    before = ExactlyOnce(SETTINGS, tasks, "job-1", state=DriverState(last=4))
    return before.checked(frame)  # type: ignore[arg-type]


@pytest.mark.parametrize(("tasks", "wanted"), [(None, 3), (5, 5)])
def test_the_number_of_tasks_is_that_of_the_table_or_of_a_small_job(
    tasks: int | None, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _checked([None] * 3, tasks, monkeypatch)
    assert (made.tasks, made.state) == (wanted, DriverState())
    assert made.settings.producer["transaction.timeout.ms"] == 5000, "limited by the brokers"


def test_one_executor_without_the_client_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtraError, match=r"on Spark's executors.*\(No module\)"):
        _checked([None, "No module", None], None, monkeypatch)


def test_the_first_task_of_the_small_job_asks_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not each of them; and none where the client is missing."""
    asked: list[Any] = []
    monkeypatch.setattr(exactly_once, "broker_settings", asked.append)
    for task in (0, 1):
        monkeypatch.setattr(exactly_once, "_task", lambda task=task: task)
        (found,) = exactly_once._probing(SETTINGS)(iter([]))
        assert found.to_pylist() == [{"missing": None}]
        assert asked == [SETTINGS.options]
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.setattr(exactly_once, "_task", lambda: 0)
    (found,) = exactly_once._probing(SETTINGS)(iter([]))
    assert "confluent_kafka" in found.to_pylist()[0]["missing"]
    assert len(asked) == 1


class Server:
    """A session of Spark Connect that runs a task here."""

    def range(self, *numbers: int) -> Any:
        assert numbers == (0, 1, 1, 1)
        return SimpleNamespace(mapInArrow=self._mapped)

    def _mapped(self, task: Any, schema: str) -> Any:
        assert schema == "answer BINARY"
        rows = [SimpleNamespace(**row) for batch in task(iter([None])) for row in batch.to_pylist()]
        return SimpleNamespace(collect=lambda: rows)


def test_with_connect_a_task_asks_the_brokers_and_its_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exactly_once, "is_connect", lambda _: True)
    server: Any = Server()
    assert exactly_once._on_driver(server, lambda: Mark(4, 2)) == Mark(4, 2)

    def fails() -> None:
        raise BrokerError("away", option="x") from RuntimeError("of the client")

    with pytest.raises(BrokerError, match="away") as raised:
        exactly_once._on_driver(server, fails)
    assert raised.value.option == "x"
    with pytest.raises(ZeroDivisionError):
        exactly_once._on_driver(server, lambda: 1 // 0)


# --- digests -----------------------------------------------------------------------------------------------------


def _digest(monkeypatch: pytest.MonkeyPatch, *batches: Sequence[int]) -> tuple[int, int, int]:
    monkeypatch.setattr(exactly_once, "_task", lambda: 3)
    given = [
        pa.RecordBatch.from_pydict({"key": [b"k"] * len(hashes), "__kvformat_hash": pa.array(hashes, pa.int64())})
        for hashes in batches
    ]
    (row,) = exactly_once._digests(iter(given))
    assert row.schema.names == ["task", "rows", "digest", "before"]
    return row.column(0)[0].as_py(), row.column(1)[0].as_py(), int.from_bytes(row.column(2)[0].as_py(), "big")


def test_a_digest_is_a_sum_that_does_not_depend_on_order_and_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _digest(monkeypatch, [5, -3], [], [2**63 - 1]) == (3, 3, (5 - 3 + 2**63 - 1) % 2**64)
    assert _digest(monkeypatch, [2**63 - 1, 5, -3]) == _digest(monkeypatch, [5], [-3, 2**63 - 1])
    for batches in ([[-1, -1]], [[-1], [-1]]):
        assert _digest(monkeypatch, *batches) == (3, 2, 2**64 - 2), "modulo 2^64"
    assert _digest(monkeypatch) == (3, 0, 0)


def test_hashes_are_not_written() -> None:
    batch = pa.RecordBatch.from_pydict({"key": [b"k"], "__kvformat_hash": pa.array([7], pa.int64()), "value": [b"v"]})
    ((rows, count, digest),) = exactly_once._hashed(iter([batch]))
    assert (rows.schema.names, count, digest) == (["key", "value"], 1, np.uint64(7))


def test_the_hash_of_a_record_covers_its_contents_and_each_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = pytest.importorskip("pyspark.sql.functions")
    for name in ("xxhash64", "unix_millis", "lit", "when"):
        monkeypatch.setattr(functions, name, lambda *given, name=name: (name, *given))
    monkeypatch.setattr(functions, "col", lambda name: SimpleNamespace(isNull=lambda: name))
    records = Recorder("records", ["headers", "topic", "key", "value", "partition", "timestamp"], [])
    exactly_once._parted(records, 3)  # type: ignore[arg-type]
    assert [call[-1] for call in records.done if call[1] == "withColumn"] == [
        ("unix_millis", "timestamp"),
        ("xxhash64", "topic", "key", "value", "headers", "timestamp"),
    ]
