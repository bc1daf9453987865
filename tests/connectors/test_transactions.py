"""The protocol of exactly-once delivery, with brokers in memory: crashes, zombies, several drivers, lost marks."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kvformat.connectors import transactions
from kvformat.connectors.transactions import (
    Fenced,
    Mark,
    QueryNames,
    TakenOver,
    WrittenTask,
    check_repeated,
    finish,
    take_over,
    whole,
    write_task,
)
from kvformat.registry import DeliveryError
from tests.support.extent import case_count

NAMES = QueryNames("p", "q")
BATCHES, ROWS = 3, 9
LONGEST = 10.0  # seconds of a transaction
Row = tuple[int, int]
"""The batch and the number of a row."""


class Crash(BaseException):
    """Ends an actor without any cleanup, like SIGKILL."""


class Clock:
    """Replaces the module `time`: nobody sleeps, but time goes on. `asleep` is called after each sleep."""

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.now = 0.0
        self.asleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.asleep()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(transactions, "time", clock)
    return clock


class Brokers:
    """Brokers in memory. Each request first waits for its turn, `step`."""

    def __init__(self, step: Callable[[], None] = lambda: None, retention: float = 1e9) -> None:
        self.step, self._retention = step, retention
        self.epochs: dict[str, int] = {}
        self.written: list[Row] = []
        self.kept: dict[str, Mark] = {}

    def begin(self, name: str) -> Transaction:
        self.step()
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return Transaction(self, name)

    def marks(self, names: Sequence[str]) -> dict[str, Mark]:
        self.step()
        return {name: self.kept[name] for name in names if name in self.kept}

    def retention(self) -> float:
        return self._retention

    def longest(self) -> float:
        return LONGEST


class Transaction:
    """A transaction; rows become visible with its commit."""

    def __init__(self, brokers: Brokers, name: str) -> None:
        self._brokers, self._name, self._epoch = brokers, name, brokers.epochs[name]
        self._rows: list[Row] = []

    def write(self, rows: list[Row]) -> None:
        self._request()
        self._rows += rows

    def commit(self, mark: Mark) -> None:
        self._request()
        self._brokers.written += self._rows
        self._brokers.kept[self._name] = mark
        self._rows = []
        self._brokers.step()  # the answer may be lost

    def close(self) -> None:
        self._rows = []

    def _request(self) -> None:
        self._brokers.step()
        if self._brokers.epochs[self._name] != self._epoch:
            raise Fenced("fenced")


class Actors:
    """Threads that run one at a time. A random choice decides which one goes on, and which one crashes."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.crashes = chance, 0.02
        self._turns: dict[threading.Thread, threading.Semaphore] = {}
        self._back = threading.Semaphore(0)

    def start(self, act: Callable[[], None]) -> threading.Thread:
        turn = threading.Semaphore(0)

        def run() -> None:
            turn.acquire()
            try:
                act()
            except (Crash, DeliveryError):
                pass
            finally:
                del self._turns[thread]
                self._back.release()

        thread = threading.Thread(target=run, daemon=True)
        self._turns[thread] = turn
        thread.start()
        return thread

    def step(self) -> None:
        """Let other actors go on; the actor may crash here."""
        self._back.release()
        self._turns[threading.current_thread()].acquire()
        if self.chance.random() < self.crashes:
            raise Crash

    def run(self) -> None:
        while self._turns:
            self._turns[self.chance.choice(list(self._turns))].release()
            self._back.acquire()


def rows_of(batch: int) -> list[Row]:
    return [(batch, n) for n in range(ROWS)]


def parts(batch: int, tasks: int, rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each task, decided by their contents."""
    return [[row for row in rows if hash((batch, row)) % tasks == task] for task in range(tasks)]


def batches(rows: list[Row]) -> Iterator[tuple[list[Row], int, int]]:
    """Yield rows in pieces, with their number and digest."""
    for start in range(0, len(rows), 2):
        piece = rows[start : start + 2]
        yield piece, len(piece), sum(hash(row) % 2**64 for row in piece)


def digest(task: int, rows: list[Row]) -> WrittenTask:
    return WrittenTask(task, len(rows), sum(hash(row) % 2**64 for row in rows) % 2**64)


class Cluster:
    """Drivers with a checkpoint, each with its tasks; a task may be tried again, or twice at the same time."""

    def __init__(self, seed: int) -> None:
        self.actors = Actors(random.Random(seed))
        self.brokers = Brokers(self.actors.step)
        self.finished = 0  # batches in the checkpoint

    def drive(self, tasks: int) -> None:
        """Run the batches after the checkpoint, as Spark does."""
        found: TakenOver | None = None
        for batch in range(self.finished, BATCHES):
            if found is None:
                found = take_over(self.brokers, NAMES, batch, tasks, planned=time.time())
            rows = rows_of(batch)
            self.actors.chance.shuffle(rows)
            parted = parts(batch, found.tasks, rows)
            mark = Mark(batch, found.tasks, generation=found.generation)
            if found.done or found.written:
                check_repeated(NAMES, batch, found, [digest(n, part) for n, part in enumerate(parted)])
            if found.done is None:
                results = self._run(mark, parted, set(found.written))
                finish(self.brokers, NAMES, whole(results, mark))
            found = TakenOver(found.generation, found.tasks)
            self.actors.step()
            if self.finished > batch:
                return  # Spark: "concurrent stream log update"
            self.finished = batch + 1

    def _run(self, mark: Mark, parted: list[list[Row]], written: set[int]) -> list[WrittenTask]:
        results: dict[int, WrittenTask] = {}
        failed: dict[int, int] = {}

        def attempt(task: int) -> Callable[[], None]:
            def act() -> None:
                failed[task] = failed.get(task, 0) + 1
                try:
                    part, speculative = batches(parted[task]), self.actors.chance.random() < 0.5
                    results[task] = write_task(
                        self.brokers, NAMES, mark, task, part, written=written, speculative=speculative
                    )
                    failed[task] -= 1
                except (Crash, DeliveryError):
                    if failed[task] < 4 and task not in results:
                        self.actors.start(attempt(task))

            return act

        for task in range(len(parted)):
            for _ in range(1 + (self.actors.chance.random() < 0.2)):
                self.actors.start(attempt(task))
        for _ in range(500):
            if len(results) == len(parted):
                return list(results.values())
            self.actors.step()
        raise Crash


@pytest.mark.parametrize("seed", range(case_count(quick=200, night=800)))
def test_each_row_is_written_once_whatever_crashes(seed: int) -> None:
    cluster = Cluster(seed)
    chance = cluster.actors.chance
    for _ in range(chance.randrange(1, 4)):  # several drivers at the same time, with other numbers of tasks
        for _ in range(chance.randrange(1, 3)):
            tasks = chance.randrange(1, 6)
            cluster.actors.start(lambda tasks=tasks: cluster.drive(tasks))
        cluster.actors.run()
    cluster.actors.crashes = 0.0
    for _ in range(3):
        cluster.actors.start(lambda: cluster.drive(2))
        cluster.actors.run()
    assert cluster.finished == BATCHES
    assert sorted(cluster.brokers.written) == [row for batch in range(BATCHES) for row in rows_of(batch)]
    assert [batch for batch, _ in cluster.brokers.written] == sorted(batch for batch, _ in cluster.brokers.written)


# --- single steps ------------------------------------------------------------------------------------------


def written(brokers: Brokers, batch: int, tasks: int, only: Sequence[int] | None = None) -> TakenOver:
    """Write a batch, or only some of its tasks."""
    found = take_over(brokers, NAMES, batch, tasks)
    mark = Mark(batch, found.tasks, generation=found.generation)
    results = [
        write_task(brokers, NAMES, mark, task, batches(part), written=set(found.written))
        for task, part in enumerate(parts(batch, found.tasks, rows_of(batch)))
        if only is None or task in only
    ]
    if only is None:
        finish(brokers, NAMES, whole(results, mark))
    return found


def test_a_batch_written_in_part_keeps_its_number_of_tasks() -> None:
    brokers = Brokers()
    written(brokers, 0, 4, only=[1, 2])
    found = take_over(brokers, NAMES, 0, 7)
    assert (found.tasks, sorted(found.written), found.done) == (4, [1, 2], None)
    assert written(brokers, 0, 7).tasks == 4
    assert sorted(brokers.written) == rows_of(0)
    assert take_over(brokers, NAMES, 1, 7).tasks == 7


def test_a_finished_batch_is_not_written_again() -> None:
    brokers = Brokers()
    written(brokers, 0, 2)
    found = take_over(brokers, NAMES, 0, 3)
    assert found.done is not None
    assert (found.done.rows, found.tasks) == (ROWS, 2)
    check_repeated(NAMES, 0, found, [digest(0, rows_of(0)[:4]), digest(1, rows_of(0)[4:])])
    with pytest.raises(
        DeliveryError, match=r"batch 0 of the query 'p-q' can't be repeated: it was written before.*8 rows"
    ):
        check_repeated(NAMES, 0, found, [digest(0, rows_of(0)[1:])])


def test_other_rows_of_a_repeated_batch_are_refused() -> None:
    brokers = Brokers()
    written(brokers, 0, 3, only=[0])
    found = take_over(brokers, NAMES, 0, 3)
    same = [digest(task, part) for task, part in enumerate(parts(0, 3, rows_of(0)))]
    check_repeated(NAMES, 0, found, same)
    check_repeated(NAMES, 0, found, [same[0]])  # the other tasks have written nothing
    with pytest.raises(DeliveryError, match=r"1 of its 3 tasks were written before.*rand\(\).*'at-least-once'"):
        check_repeated(NAMES, 0, found, [WrittenTask(0, same[0].rows, same[0].digest + 1), *same[1:]])
    with pytest.raises(DeliveryError, match="can't be repeated"):
        check_repeated(NAMES, 0, found, same[1:])


def test_a_finished_batch_has_the_digest_of_all_its_rows() -> None:
    """It has as many rows, but other ones."""
    brokers = Brokers()
    written(brokers, 0, 2)
    found = take_over(brokers, NAMES, 0, 2)
    others = [(9, 9), *rows_of(0)[1:]]
    with pytest.raises(DeliveryError, match=rf"\({ROWS} rows, those that differ had {ROWS}\)"):
        check_repeated(NAMES, 0, found, [digest(0, others)])


@pytest.mark.parametrize(("rows", "digest"), [(2, 6), (4, 6), (3, 7), (3, 5), (3, 6 + 2**63)])
def test_a_repeated_batch_has_the_same_number_of_rows_and_the_same_digest(rows: int, digest: int) -> None:
    mark, task = Mark(4, 1, 3, 6, "g"), WrittenTask(0, rows, digest)
    for found in (TakenOver("g", 1, done=mark), TakenOver("g", 1, written={0: mark})):
        check_repeated(NAMES, 4, found, [WrittenTask(0, 3, 6)])
        with pytest.raises(DeliveryError, match="can't be repeated"):
            check_repeated(NAMES, 4, found, [task])


def test_an_attempt_after_a_success_writes_nothing() -> None:
    """Its rows are those of the first attempt, even if it has other ones now."""
    brokers = Brokers()
    mark = Mark(0, 1, generation=take_over(brokers, NAMES, 0, 1).generation)
    first = write_task(brokers, NAMES, mark, 0, batches(rows_of(0)))
    again = write_task(brokers, NAMES, mark, 0, batches(rows_of(7)[:3]))
    assert (first.before, again) == (False, replace(first, before=True))
    assert brokers.written == rows_of(0)


def test_an_attempt_after_a_rejected_record_writes_all_rows() -> None:
    brokers = Brokers()
    mark = Mark(0, 1, generation=take_over(brokers, NAMES, 0, 1).generation)

    def failing() -> Iterator[tuple[list[Row], int, int]]:
        yield from batches(rows_of(0)[:5])
        raise RuntimeError("rejected")

    with pytest.raises(RuntimeError, match="rejected"):
        write_task(brokers, NAMES, mark, 0, failing())
    assert (brokers.written, list(brokers.kept)) == ([], [NAMES.driver])
    assert write_task(brokers, NAMES, mark, 0, batches(rows_of(0))) == digest(0, rows_of(0))
    assert brokers.written == rows_of(0)


def test_rows_after_an_empty_piece_are_written() -> None:
    brokers = Brokers()
    mark = Mark(0, 1, generation=take_over(brokers, NAMES, 0, 1).generation)
    empty: tuple[list[Row], int, int] = ([], 0, 0)
    pieces = [empty, *batches(rows_of(0)), empty]
    assert write_task(brokers, NAMES, mark, 0, iter(pieces)) == digest(0, rows_of(0))
    assert brokers.written == rows_of(0)


def test_digests_are_added_modulo_two_to_the_64() -> None:
    tasks = [WrittenTask(0, 2, 2**64 - 1), WrittenTask(1, 3, 5)]
    assert whole(tasks, Mark(4, 2, 9, 9, "g")) == Mark(4, 2, 5, 4, "g")
    brokers = Brokers()
    mark = Mark(0, 1, generation=take_over(brokers, NAMES, 0, 1).generation)
    pieces = iter([(rows_of(0)[:1], 1, 2**64 - 1), (rows_of(0)[1:2], 1, 5)])
    assert write_task(brokers, NAMES, mark, 0, pieces) == WrittenTask(0, 2, 4)
    assert brokers.kept[NAMES.task(0)] == replace(mark, rows=2, digest=4)


def test_names_of_tasks_and_driver() -> None:
    assert (NAMES.driver, NAMES.task(0), NAMES.task(12)) == ("p-q", "p-q-0", "p-q-12")


def test_tasks_of_the_older_driver_are_fenced_all() -> None:
    """Before the marks of the batch are read, each of the tasks that the query had until now."""
    brokers = Brokers()
    written(brokers, 0, 3)
    epochs = dict(brokers.epochs)
    take_over(brokers, NAMES, 1, 1)
    assert {name: epoch - epochs[name] for name, epoch in brokers.epochs.items()} == {
        NAMES.driver: 1, **{NAMES.task(n): 1 for n in range(3)}
    }  # fmt: skip


def test_a_finished_batch_stays_finished_when_it_is_taken_over_twice() -> None:
    brokers = Brokers()
    written(brokers, 3, 2)
    found = [take_over(brokers, NAMES, 3, 5) for _ in range(2)]
    assert [one.done and (one.done.batch, one.done.rows, one.tasks) for one in found] == [(3, ROWS, 2)] * 2
    assert found[0].generation != found[1].generation


def test_marks_of_an_earlier_batch_are_not_those_of_the_batch() -> None:
    brokers = Brokers()
    written(brokers, 0, 2)
    found = take_over(brokers, NAMES, 1, 4)
    assert (found.written, found.done, found.tasks, found.unmarked) == ({}, None, 4, False)
    assert brokers.kept[NAMES.driver].tasks == 4, "committed before a task begins"


@pytest.mark.parametrize(("age", "refused"), [(539.0, False), (541.0, True)])
def test_marks_count_as_expired_after_nine_tenths_of_their_retention(age: float, refused: bool) -> None:
    """The clocks of brokers and Spark may differ."""
    with contextlib.ExitStack() as stack:
        if refused:
            stack.enter_context(pytest.raises(DeliveryError, match="planned 9 minutes ago"))
        take_over(Brokers(retention=600.0), NAMES, 4, 2, planned=time.time() - age)


def test_a_job_without_a_mark_is_new() -> None:
    """It has no time of a plan, so it can't be too old."""
    found = take_over(Brokers(retention=0.0), NAMES, 0, 2, planned=None)
    assert (found.unmarked, found.written, found.tasks) == (False, {}, 2)


def test_a_task_without_rows_asks_no_broker() -> None:
    def step() -> None:
        raise AssertionError("a request")

    empty = iter([([], 0, 0)])
    assert write_task(Brokers(step), NAMES, Mark(0, 1), 0, empty) == WrittenTask(0, 0, 0)


def test_a_task_of_an_older_driver_gives_up() -> None:
    brokers = Brokers()
    old = take_over(brokers, NAMES, 0, 2)
    take_over(brokers, NAMES, 0, 2)
    mark = Mark(0, 2, generation=old.generation)
    with pytest.raises(DeliveryError, match=r"another driver has taken over the query 'p-q'"):
        write_task(brokers, NAMES, mark, 0, batches(rows_of(0)))
    with pytest.raises(DeliveryError, match="another driver"):
        finish(brokers, NAMES, mark)
    assert brokers.written == []


def test_a_late_attempt_of_an_older_batch_gives_up() -> None:
    """Spark ends the other attempt of a task when one has succeeded, but an executor may be out of its reach."""
    brokers = Brokers()
    driver = take_over(brokers, NAMES, 0, 1)
    marks = [Mark(batch, 1, generation=driver.generation) for batch in range(2)]
    for mark in marks:
        finish(brokers, NAMES, whole([write_task(brokers, NAMES, mark, 0, batches(rows_of(mark.batch)))], mark))
    with pytest.raises(DeliveryError, match=r"'p-q-0' has written batch 1, so this attempt for batch 0 is an older"):
        write_task(brokers, NAMES, marks[0], 0, batches(rows_of(0)))
    assert brokers.written == [*rows_of(0), *rows_of(1)]
    assert brokers.kept[NAMES.task(0)].batch == 1


def test_a_query_whose_mark_expired_while_it_rested_writes_nothing_until_it_is_started_again() -> None:
    brokers = Brokers()
    driver = written(brokers, 0, 1)
    brokers.kept.clear()
    mark = Mark(1, 1, generation=driver.generation)
    with pytest.raises(DeliveryError, match=r"the mark of the query 'p-q' is gone.*Start the query again"):
        write_task(brokers, NAMES, mark, 0, batches(rows_of(1)))
    found = take_over(brokers, NAMES, 1, 1, planned=time.time())
    write_task(brokers, NAMES, replace(mark, generation=found.generation), 0, batches(rows_of(1)))
    assert brokers.written == [*rows_of(0), *rows_of(1)]


def test_a_checkpoint_that_is_older_than_the_records_is_refused() -> None:
    brokers = Brokers()
    for batch in range(3):
        written(brokers, batch, 2)
    with pytest.raises(DeliveryError, match=r"has written batch 2, but its checkpoint goes on with batch 1"):
        take_over(brokers, NAMES, 1, 2)


def test_expired_marks_are_refused_if_the_batch_may_have_been_written() -> None:
    brokers = Brokers(retention=600.0)
    with pytest.raises(DeliveryError, match=r"planned 11 minutes ago, and brokers delete marks after 10 minutes"):
        take_over(brokers, NAMES, 4, 2, planned=time.time() - 660)
    assert brokers.kept == {}
    found = take_over(brokers, NAMES, 4, 2, planned=time.time() - 60)
    assert found.unmarked
    for batch, unmarked in ((0, False), (1, True), (2, True)):
        assert take_over(Brokers(retention=600.0), NAMES, batch, 2, planned=time.time()).unmarked is unmarked


def test_a_mark_whose_batch_has_no_state_any_more_is_refused() -> None:
    brokers = Brokers()
    written(brokers, 0, 2, only=[0])
    del brokers.kept[NAMES.driver]  # the state expires before the marks of the tasks
    with pytest.raises(DeliveryError, match=r"'p-q-0' has written its part of batch 0 in an earlier run.*expired"):
        written(brokers, 0, 2)


def test_marks_are_read_as_they_were_committed() -> None:
    mark = Mark(7, 3, 12, 2**64 - 1, "g")
    assert Mark.of("p-q", 8, mark.metadata) == mark


@pytest.mark.parametrize("metadata", [None, "", "x", "[]", "{}", '{"tasks":1}', "7"])
def test_offsets_of_other_programs_are_no_marks(metadata: Any) -> None:
    with pytest.raises(DeliveryError, match=r"consumer group 'p-q' has the offset 8 .* set another prefix"):
        Mark.of("p-q", 8, metadata)


# --- a newer attempt of a task, while the older one runs ---------------------------------------------------


def interrupted(rows: list[Row], interrupt: Callable[[], object]) -> Iterator[tuple[list[Row], int, int]]:
    """Yield rows in pieces; something happens after the first one."""
    pieces = batches(rows)
    yield next(pieces)
    interrupt()
    yield from pieces


def test_a_fenced_attempt_ends_well_when_the_newer_one_has_written_the_rows(clock: Clock) -> None:
    """With `spark.speculation` a failure would count, and let Spark start a third attempt that fences the second."""
    brokers = Brokers()
    mark = Mark(0, 1, generation=take_over(brokers, NAMES, 0, 1).generation)
    newer: list[Transaction] = []

    def later() -> None:
        if clock.now == 3:
            newer[0].write(rows_of(0))
            newer[0].commit(replace(mark, rows=ROWS, digest=digest(0, rows_of(0)).digest))

    clock.asleep = later
    pieces = interrupted(rows_of(0), lambda: newer.append(brokers.begin(NAMES.task(0))))
    found = write_task(brokers, NAMES, mark, 0, pieces, speculative=True)
    assert found == replace(digest(0, rows_of(0)), before=True)
    assert clock.now == 3
    assert brokers.written == rows_of(0)


def test_without_speculation_a_fenced_attempt_does_not_wait(clock: Clock) -> None:
    brokers = Brokers()
    mark = Mark(0, 1, generation=take_over(brokers, NAMES, 0, 1).generation)
    with pytest.raises(Fenced, match="fenced"):
        write_task(brokers, NAMES, mark, 0, interrupted(rows_of(0), lambda: brokers.begin(NAMES.task(0))))
    assert clock.now == 0


def test_an_attempt_finds_its_own_mark_when_the_answer_to_its_commit_is_lost(clock: Clock) -> None:
    brokers = Brokers()
    mark = Mark(0, 1, generation=take_over(brokers, NAMES, 0, 1).generation)

    def lost() -> None:
        if brokers.written:
            brokers.step = lambda: None
            raise Fenced("invalid state")

    brokers.step = lost
    found = write_task(brokers, NAMES, mark, 0, batches(rows_of(0)))
    assert found == replace(digest(0, rows_of(0)), before=True)
    assert clock.now == 0
    assert brokers.written == rows_of(0)


def test_a_fenced_attempt_does_not_wait_for_ever(clock: Clock) -> None:
    """The newer attempt may have died."""
    brokers = Brokers()
    mark = Mark(0, 1, generation=take_over(brokers, NAMES, 0, 1).generation)
    pieces = interrupted(rows_of(0), lambda: brokers.begin(NAMES.task(0)))
    with pytest.raises(Fenced, match="fenced"):
        write_task(brokers, NAMES, mark, 0, pieces, speculative=True)
    assert clock.now == LONGEST


def test_an_attempt_whose_transaction_took_too_long_does_not_wait_for_a_newer_one(clock: Clock) -> None:
    brokers = Brokers()
    mark = Mark(0, 1, generation=take_over(brokers, NAMES, 0, 1).generation)

    def too_long() -> None:
        clock.now += LONGEST
        brokers.epochs[NAMES.task(0)] += 1  # as brokers do when they abort it

    with pytest.raises(Fenced, match="fenced"):
        write_task(brokers, NAMES, mark, 0, interrupted(rows_of(0), too_long), speculative=True)
    assert clock.now == LONGEST


def test_an_attempt_that_a_newer_driver_fences_does_not_wait(clock: Clock) -> None:
    brokers = Brokers()
    mark = Mark(0, 1, generation=take_over(brokers, NAMES, 0, 1).generation)
    pieces = interrupted(rows_of(0), lambda: take_over(brokers, NAMES, 0, 1))
    with pytest.raises(DeliveryError, match="another driver has taken over"):
        write_task(brokers, NAMES, mark, 0, pieces, speculative=True)
    assert clock.now == 0
