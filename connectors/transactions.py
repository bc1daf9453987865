"""The protocol of exactly-once delivery into Kafka, without Spark and without a client of Kafka.

    driver   take_over    begin "p-q"     the older driver is fenced. A new generation is committed, then the tasks of
                                          the older generation are fenced, then the marks of the batch are read
    tasks    write_task   begin "p-q-3"   the older attempt is fenced. Same generation? No mark of the batch yet?
                                          Then records and mark are committed in one transaction
    driver   finish       begin "p-q"     same generation? Then the batch is done

`p` is the prefix of the transactional ids, `q` the query: the id of a checkpoint, or of a job. A *mark* is an offset of
a consumer group that has the name of the transactional id: the number of the batch plus 1, with the number of tasks, of
rows and a digest of the rows as metadata. The mark is in the transaction of the records, so it is there if and only if
the records are.

Why each record is written exactly once:

- `begin` (Kafka's `InitProducerId`) comes before a mark is read. Records that an older attempt did not commit are
  aborted. So a mark that is missing after `begin` stays missing, unless a newer attempt commits it.
- The contents of a record and the number of tasks decide which task writes it. The number of tasks is committed by the
  driver before a task begins, and a batch that was written in part keeps it.
- A repeated batch has the same rows, or its digests differ: then nothing more is written, `DeliveryError` tells why.
- A late attempt of an older batch finds the mark of a newer batch, and gives up.
- A fenced attempt writes nothing more, and looks for its mark once: the answer to its own commit may have been lost.
  With `spark.speculation` it waits for the mark of the newer attempt, and then ends as if it had found that mark at its
  start. If it failed instead, Spark would count a failure, and start a third attempt, which would fence the second one.
- A task of an older generation gives up, because it reads the generation after `begin`. If it has read it before, its
  transaction began before the new driver fenced it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from kvformat.registry.contract.errors import DeliveryError

Rows = TypeVar("Rows")
_Given = TypeVar("_Given", contravariant=True)
_WORD = 1 << 64
# Part of the retention after which marks count as expired: the clocks of brokers and Spark may differ.
_CERTAIN = 0.9
_PAUSE = 1.0  # seconds between two looks for the mark of a newer attempt
_HOW_TO_GO_ON = (
    "To go on, run the query with 'sink.delivery-guarantee' = 'at-least-once' until this batch is finished (its "
    "records may then be there twice), or the job with a new job_id"
)


@dataclass(frozen=True, slots=True)
class Mark:
    """The last batch that a task has written, or that a driver has finished; -1 before the first one.

    tasks: the number of tasks that write a batch.
    rows: the number of rows of this task, or of the batch.
    digest: the sum of the hashes of these rows, modulo 2^64. It does not depend on their order.
    generation: the driver that wrote the batch. It changes with each start of a query.
    """

    batch: int
    tasks: int
    rows: int = 0
    digest: int = 0
    generation: str = ""

    @property
    def metadata(self) -> str:
        """The text that is committed with the offset `batch + 1`."""
        told = {"tasks": self.tasks, "rows": self.rows, "digest": f"{self.digest:x}", "generation": self.generation}
        return json.dumps(told, separators=(",", ":"))

    @classmethod
    def of(cls, group: str, offset: int, metadata: str | None) -> Mark:
        """Parse a committed offset; raises `DeliveryError` if another program has committed it."""
        try:
            told = json.loads(metadata or "")
            return cls(
                offset - 1, int(told["tasks"]), int(told["rows"]), int(told["digest"], 16), str(told["generation"])
            )
        except (ValueError, KeyError, TypeError):
            raise DeliveryError(
                f"the consumer group '{group}' has the offset {offset} with the metadata {metadata!r}, which is not a "
                "mark of exactly-once delivery. No other program may use groups with the prefix of "
                "'sink.transactional-id-prefix': set another prefix, or delete the group if no query uses it"
            ) from None


class Fenced(DeliveryError):
    """A newer attempt or a newer driver has begun, or brokers have aborted a transaction after its timeout."""


class Transaction(Protocol[_Given]):
    """A transaction of one transactional id; begun, it has fenced and aborted the older one of this id."""

    def write(self, rows: _Given) -> None:
        """Add rows. Raises `BrokerError` if a broker rejects one, `Fenced` if a newer attempt has begun."""

    def commit(self, mark: Mark) -> None:
        """Commit the rows and the mark. Another transaction may follow. Raises as `write` does."""

    def close(self) -> None:
        """Abort what is not committed; raises nothing."""


class Brokers(Protocol[_Given]):
    """The requests to brokers that the protocol makes. Every method raises `BrokerError`."""

    def begin(self, name: str) -> Transaction[_Given]:
        """Fence the older transaction with this transactional id, wait until it has ended, and begin a new one."""

    def marks(self, names: Sequence[str]) -> Mapping[str, Mark]:
        """Return the marks of groups that have one. Waits for transactions that are being committed."""

    def retention(self) -> float:
        """Return the seconds after which brokers delete marks (`offsets.retention.minutes`)."""

    def longest(self) -> float:
        """Return the seconds after which brokers abort a transaction (`transaction.timeout.ms`)."""


@dataclass(frozen=True, slots=True)
class QueryNames:
    """The names of a query's transactional ids, which are also those of its groups."""

    prefix: str
    query: str

    @property
    def driver(self) -> str:
        """The driver's name."""
        return f"{self.prefix}-{self.query}"

    def task(self, task: int) -> str:
        """Return a task's name."""
        return f"{self.prefix}-{self.query}-{task}"


@dataclass(frozen=True, slots=True)
class TakenOver:
    """The state of a batch after a driver has taken over the query.

    tasks: the number of tasks that must write the batch.
    done: the mark of the whole batch, if it was finished.
    written: the marks of tasks that have written their part of the batch, by task.
    unmarked: whether the query has no mark, although the batch is not its first: marks expire, and a query that was
        not exactly-once before has none.
    """

    generation: str
    tasks: int
    done: Mark | None = None
    written: Mapping[int, Mark] = field(default_factory=dict)
    unmarked: bool = False


@dataclass(frozen=True, slots=True)
class WrittenTask:
    """The part of a batch that a task has written, now or (`before`) in an earlier attempt."""

    task: int
    rows: int
    digest: int
    before: bool = False


def take_over(
    brokers: Brokers[Rows], names: QueryNames, batch: int, tasks: int, *, planned: float | None = None
) -> TakenOver:
    """Become the only driver of a query, before it writes `batch` with `tasks` tasks.

    `planned` is the time in seconds since 1970 at which the batch was planned for the first time, None for a job.
    Raises `DeliveryError` if it can't be known what was written: if marks have expired, or for an old checkpoint.
    """
    with _begun(brokers, names.driver) as transaction:
        state = brokers.marks([names.driver]).get(names.driver)
        if state is None and planned is not None:
            _check_retention(brokers, names, batch, planned)
        if state is not None and state.batch > batch:
            raise DeliveryError(
                f"the query '{names.driver}' has written batch {state.batch}, but its checkpoint goes on with batch "
                f"{batch}: the checkpoint is older than the records in Kafka (a copy that was restored?). Writing "
                "would repeat records. Restore the newest checkpoint, or start with a new one where the records end"
            )
        generation = uuid.uuid4().hex
        known = replace(state or Mark(batch - 1, tasks), generation=generation)
        transaction.commit(known)
        if state is None:
            return TakenOver(generation, tasks, unmarked=batch > 0)
        for task in range(known.tasks):
            brokers.begin(names.task(task)).close()
        if known.batch == batch:
            return TakenOver(generation, known.tasks, done=known)
        numbers = {names.task(task): task for task in range(known.tasks)}
        marks = brokers.marks(list(numbers))
        written = {numbers[name]: mark for name, mark in marks.items() if mark.batch == batch}
        if not written and known.tasks != tasks:
            known = replace(known, tasks=tasks)
            transaction.commit(known)
        return TakenOver(generation, known.tasks, written=written)


def _check_retention(brokers: Brokers[Rows], names: QueryNames, batch: int, planned: float) -> None:
    """Raise `DeliveryError` if a batch was planned so long ago that its marks may have expired."""
    age, retention = time.time() - planned, brokers.retention()
    if age > _CERTAIN * retention:
        raise DeliveryError(
            f"the query '{names.driver}' goes on with batch {batch}, which was planned {age / 60:.0f} minutes ago, and "
            f"brokers delete marks after {retention / 60:.0f} minutes ('offsets.retention.minutes'). So it can't be "
            f"known whether the batch was written in part. {_HOW_TO_GO_ON}. A larger 'offsets.retention.minutes' "
            "avoids this"
        )


def write_task(
    brokers: Brokers[Rows],
    names: QueryNames,
    mark: Mark,
    task: int,
    batches: Iterator[tuple[Rows, int, int]],
    *,
    written: Collection[int] = (),
    speculative: bool = False,
) -> WrittenTask:
    """Write a task's rows and its mark in one transaction, unless an earlier attempt has done so.

    `mark` has the batch, the number of tasks and the generation. `batches` yields rows, their number and their digest.
    `written` are the tasks whose marks the driver has found and compared.
    `speculative` tells whether Spark runs a second attempt of a task while the first one still runs. Then an attempt
    that is fenced waits until the newer one has written the rows.
    A task without rows writes nothing, and asks no broker. Raises `BrokerError`, `DeliveryError`.
    """
    first = next((entry for entry in batches if entry[1]), None)
    if first is None:
        return WrittenTask(task, 0, 0)
    begun, longest = time.monotonic(), brokers.longest()
    try:
        return _write(brokers, names, mark, task, itertools.chain([first], batches), written)
    except Fenced:
        fenced = time.monotonic()
        # After its longest time, brokers may have aborted this transaction themselves. A newer one has ended by then.
        wait = longest if speculative and fenced - begun < longest else 0.0
        while True:
            marks = brokers.marks([names.driver, names.task(task)])
            _check_generation(names, marks.get(names.driver), mark.generation)
            newer = _before(names, mark, task, marks, written)
            if newer is not None:
                return newer
            if time.monotonic() - fenced >= wait:
                raise
            time.sleep(_PAUSE)


def _write(
    brokers: Brokers[Rows],
    names: QueryNames,
    mark: Mark,
    task: int,
    batches: Iterator[tuple[Rows, int, int]],
    written: Collection[int],
) -> WrittenTask:
    """Write a task's rows and its mark, unless the mark is there."""
    name = names.task(task)
    with _begun(brokers, name) as transaction:
        marks = brokers.marks([names.driver, name])
        _check_generation(names, marks.get(names.driver), mark.generation)
        before = _before(names, mark, task, marks, written)
        if before is not None:
            return before
        count = digest = 0
        for rows, number, part in batches:
            transaction.write(rows)
            count, digest = count + number, digest + part
        transaction.commit(replace(mark, rows=count, digest=digest % _WORD))
    return WrittenTask(task, count, digest % _WORD)


def _before(
    names: QueryNames, mark: Mark, task: int, marks: Mapping[str, Mark], written: Collection[int]
) -> WrittenTask | None:
    """Return the rows of a task that another attempt has written, None if it has not written this batch."""
    name = names.task(task)
    before = marks.get(name)
    if before is None or before.batch < mark.batch:
        return None
    if before.batch > mark.batch:
        raise DeliveryError(
            f"'{name}' has written batch {before.batch}, so this attempt for batch {mark.batch} is an older one "
            "that Spark has given up. It wrote nothing"
        )
    if before.generation != mark.generation and task not in written:
        raise DeliveryError(
            f"'{name}' has written its part of batch {mark.batch} in an earlier run, of which other marks have "
            f"expired ('offsets.retention.minutes'), so the parts can't be compared. {_HOW_TO_GO_ON}"
        )
    return WrittenTask(task, before.rows, before.digest, before=True)


def finish(brokers: Brokers[Rows], names: QueryNames, mark: Mark) -> None:
    """Commit the mark of a whole batch. Raises `DeliveryError` if another driver has taken over the query."""
    with _begun(brokers, names.driver) as transaction:
        state = brokers.marks([names.driver]).get(names.driver)
        _check_generation(names, state, mark.generation)
        transaction.commit(mark)


def _check_generation(names: QueryNames, state: Mark | None, generation: str) -> None:
    if state is None:
        raise DeliveryError(
            f"the mark of the query '{names.driver}' is gone: brokers delete it when the query has had no batch for "
            "'offsets.retention.minutes', or with its topic. Nothing was written. Start the query again"
        )
    if state.generation != generation:
        raise DeliveryError(
            f"another driver has taken over the query '{names.driver}': a query on the same checkpoint, or a job of "
            "the same job_id, was started later. This one wrote nothing after that. Run only one of them"
        )


@contextlib.contextmanager
def _begun(brokers: Brokers[Rows], name: str) -> Iterator[Transaction[Rows]]:
    transaction = brokers.begin(name)
    try:
        yield transaction
    finally:
        transaction.close()


def whole(tasks: Sequence[WrittenTask], mark: Mark) -> Mark:
    """Return the mark of a whole batch, from all its tasks."""
    digest = sum(task.digest for task in tasks) % _WORD
    return replace(mark, rows=sum(task.rows for task in tasks), digest=digest)


def check_repeated(names: QueryNames, batch: int, taken: TakenOver, tasks: Sequence[WrittenTask]) -> None:
    """Check that a repeated batch has the rows of its first attempt, before anything more is written.

    `tasks` are the rows of the batch by task, as they are now. Raises `DeliveryError`.
    """
    now = {task.task: task for task in tasks}
    if taken.done is not None:
        total = whole(tasks, taken.done)
        differ = [taken.done] if (total.rows, total.digest) != (taken.done.rows, taken.done.digest) else []
    else:
        none = WrittenTask(-1, 0, 0)
        differ = [
            mark
            for task, mark in taken.written.items()
            if (now.get(task, none).rows, now.get(task, none).digest) != (mark.rows, mark.digest)
        ]
    if not differ:
        return
    part = f"{len(taken.written)} of its {taken.tasks} tasks were" if taken.done is None else "it was"
    raise DeliveryError(
        f"batch {batch} of the query '{names.driver}' can't be repeated: {part} written before, and its rows are not "
        f"the same now ({sum(task.rows for task in tasks)} rows, those that differ had "
        f"{sum(mark.rows for mark in differ)}). Nothing more was written. The rows must not depend on rand(), uuid(), "
        "the time, or on the order in which rows arrive; files and tables must not change while a batch is repeated. "
        f"{_HOW_TO_GO_ON}"
    )
