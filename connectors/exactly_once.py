"""Exactly-once delivery into Kafka as a Spark job: the protocol of `transactions.py` on a driver and its tasks.

    records -> a task for each record, by its contents -> mapInArrow: write_task in each task -> one row per task
    before: take_over                                                                            after: finish

A shuffle by the hash of the key (without a key, of the whole record) decides the task of a record. So the task depends
on nothing else: not on the plan, its partitions, adaptive execution or the source. The records of a key that come from
one task stay in order. Changes without a key all go to one task, because their order matters. `xxhash64`
of each record is added up to the digest of a task.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import pickle
import re
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from kvformat.connectors.transaction_client import KafkaBrokers, TransactionSettings, broker_settings
from kvformat.connectors.transactions import (
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
from kvformat.registry.contract.errors import (
    ConfigurationError,
    KafkaSinkWarning,
    KvFormatError,
    MissingExtraError,
    listed,
)
from kvformat.registry.spark.sessions import is_connect
from kvformat.registry.streams.small_files import note_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Answer = TypeVar("_Answer")
_Task: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_HASH: Final = "__kvformat_hash"
_CONTENTS: Final = ("topic", "key", "value", "headers", "timestamp")
"""Columns that the hash of a record covers. A partition is not among them: the partitioner 'fixed' may change it."""
_RESULT: Final = "task INT, rows BIGINT, digest BINARY, before BOOLEAN"
_ONCE: Final = "once-"  # begins the id of a job without `job_id`
_JOB_ID: Final = re.compile(r"[A-Za-z0-9._:+-]{1,200}")
_JOB_ID_WORDS: Final = "letters, digits and ._:+-, at most 200"
# Spark's functions that give other values when a batch is repeated, in the text of a plan.
_VARYING: Final = (
    "rand",
    "randn",
    "randstr",
    "uniform",
    "uuid",
    "shuffle",
    "monotonically_increasing_id",
    "spark_partition_id",
)
_CLOCKS: Final = (
    "current_timestamp",
    "current_date",
    "current_time",
    "localtimestamp",
    "now",
    "unix_timestamp",
    "curdate",
)


@dataclass
class DriverState:
    """The driver's knowledge from one batch to the next.

    query: the id of the query. last: the last batch, if it was written. taken: what was known when the query was taken
    over.
    """

    query: str | None = None
    last: int | None = None
    taken: TakenOver | None = None


@dataclass(frozen=True, repr=False)
class ExactlyOnce:
    """Writes batches of records exactly once; pickled for `foreachBatch`.

    tasks: the number of tasks that write, None for that of a small job.
    query: the id of a job or of a query; None for a stream whose checkpoint has the id.
    checkpoint_location: the checkpoint of a stream, which knows when a batch was planned.
    in_order: whether also records without a key stay in order.
    """

    settings: TransactionSettings
    tasks: int | None = None
    query: str | None = None
    checkpoint_location: str | None = None
    in_order: bool = False
    state: DriverState = field(default_factory=DriverState, compare=False)

    def checked(self, df: DataFrame) -> ExactlyOnce:
        """Check executors and brokers with a small job, and return the writer with the number of its tasks.

        Raises `MissingExtraError` if executors lack confluent-kafka, `OptionError` for a timeout that brokers refuse,
        `BrokerError` if executors do not reach them.
        """
        self._warn_about_plan(df)
        rows = df.sparkSession.range(1000).mapInArrow(_probing(self.settings), "missing STRING").collect()
        missing = [row.missing for row in rows]
        if any(missing):
            raise MissingExtraError(
                "'sink.delivery-guarantee' = 'exactly-once' needs confluent-kafka on Spark's executors "
                f"({next(filter(None, missing))})",
                extra="kafka",
            )
        limited = _on_driver(df.sparkSession, self.settings.limited)
        tasks = self.tasks or len(missing)  # a range has the default number of tasks
        return replace(self, settings=limited, tasks=tasks, state=DriverState())

    def write(self, records: DataFrame, batch: int, placed: Callable[[DataFrame], DataFrame]) -> None:
        """Write a batch, or what an earlier attempt has not written of it.

        `placed` adds columns that depend on a record's task. Raises `BrokerError`, `DeliveryError`.
        """
        spark = records.sparkSession
        names = self.settings.names(self._query(spark))
        taken = self._taken(spark, names, batch)
        parted = placed(_parted(records, taken.tasks, in_order=self.in_order))
        mark = Mark(batch, taken.tasks, generation=taken.generation)
        repeated = taken.done is not None or bool(taken.written)
        if repeated:
            parted = parted.persist()  # it is read twice, and must be the same both times
        try:
            if repeated:
                check_repeated(names, batch, taken, _collected(parted, _digests))
            if taken.done is None:
                speculative = str(spark.conf.get("spark.speculation", "false")).lower() == "true"
                writing = _writing(self.settings, names, mark, frozenset(taken.written), speculative)
                total = whole(_collected(parted, writing), mark)
                _on_driver(spark, functools.partial(_finish, self.settings, names, total))
        finally:
            if repeated:
                parted.unpersist()
        self.state.last, self.state.taken = batch, TakenOver(taken.generation, taken.tasks)

    def _query(self, spark: SparkSession) -> str:
        if self.state.query is None:
            self.state.query = self.query or _checkpoint_id(spark, str(self.checkpoint_location))
        return self.state.query

    def _taken(self, spark: SparkSession, names: QueryNames, batch: int) -> TakenOver:
        """Return what is known about a batch; takes over the query before its first batch, and after a failure."""
        assert self.tasks is not None
        last, self.state.last = self.state.last, None
        if last is not None and last < batch and self.state.taken is not None:
            return self.state.taken
        planned = None if self.checkpoint_location is None else _planned(spark, self.checkpoint_location, batch)
        taken = _on_driver(spark, functools.partial(_take_over, self.settings, names, batch, self.tasks, planned))
        if taken.unmarked:
            warnings.warn(
                f"the query '{names.driver}' has no mark of an earlier batch: it was not 'exactly-once' before, or it "
                f"rested for longer than brokers keep marks. It goes on with batch {batch}. If an earlier run began "
                "to write this batch without 'exactly-once', its records may be there twice",
                KafkaSinkWarning,
                stacklevel=3,
            )
        return taken

    def _warn_about_plan(self, df: DataFrame) -> None:
        """Warn of functions whose values differ when a batch is repeated: then the batch is refused, not repeated."""
        if self.query is not None and self.query.startswith(_ONCE):
            return  # a job without job_id is not repeated
        with contextlib.redirect_stdout(io.StringIO()) as text:
            df.explain(extended=True)
        plan = text.getvalue()
        varying = _VARYING if self.checkpoint_location else (*_VARYING, *_CLOCKS)  # a stream keeps a batch's time
        functions = [name for name in varying if re.search(rf"(?<![\w.]){name}\(", plan, re.IGNORECASE)]
        if functions:
            warnings.warn(
                f"the rows depend on {listed(f'{name}()' for name in functions)}, whose value differs when a batch is "
                "repeated. If a failure leaves a batch written in part, the query stops with a DeliveryError instead "
                "of going on. Compute such values from the rows, or write them to a table first",
                KafkaSinkWarning,
                stacklevel=5,
            )


def job_query(job_id: str | None) -> str:
    """Return the id of a job; without a `job_id` it is new. Raises `ConfigurationError` for an invalid `job_id`."""
    if job_id is None:
        return f"{_ONCE}{uuid.uuid4().hex}"
    if not isinstance(job_id, str) or not _JOB_ID.fullmatch(job_id):
        raise ConfigurationError(f"job_id must be a text of {_JOB_ID_WORDS}, not {job_id!r}")
    return f"job-{job_id}"


# --- the driver ------------------------------------------------------------------------------------------------


def _on_driver(spark: SparkSession, function: Callable[[], _Answer]) -> _Answer:
    """Call a function that asks brokers: here, or with Spark Connect in a task, because a client may not reach them."""
    if not is_connect(spark):
        return function()

    def on_driver(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        try:
            answer: object = function()
        except KvFormatError as error:
            error.__cause__ = None  # a client's exception can't be pickled
            answer = error
        yield pa.RecordBatch.from_pydict({"answer": [pickle.dumps(answer)]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(on_driver, "answer BINARY").collect()
    answer: Any = pickle.loads(row.answer)
    if isinstance(answer, KvFormatError):
        raise answer
    return answer  # type: ignore[no-any-return]


def _take_over(
    settings: TransactionSettings, names: QueryNames, batch: int, tasks: int, planned: float | None
) -> TakenOver:
    return take_over(KafkaBrokers(settings), names, batch, tasks, planned=planned)


def _finish(settings: TransactionSettings, names: QueryNames, mark: Mark) -> None:
    finish(KafkaBrokers(settings), names, mark)


def _checkpoint_id(spark: SparkSession, checkpoint_location: str) -> str:
    """Return the id of a query, which Spark writes to a new checkpoint before the first batch."""
    lines = _lines(spark, checkpoint_location, "metadata")
    if not lines:
        raise ConfigurationError(f"the checkpoint '{checkpoint_location}' has lost the id of its query: 'metadata'")
    return str(json.loads("".join(lines))["id"])


def _planned(spark: SparkSession, checkpoint_location: str, batch: int) -> float:
    """Return the time in seconds since 1970 at which Spark planned a batch for the first time."""
    for line in _lines(spark, checkpoint_location, f"offsets/{batch}"):
        if "batchTimestampMs" in line:
            return float(json.loads(line)["batchTimestampMs"]) / 1000
    raise ConfigurationError(f"the checkpoint '{checkpoint_location}' has no time of batch {batch}")


def _lines(spark: SparkSession, checkpoint_location: str, name: str) -> list[str]:
    path = f"{checkpoint_location.rstrip('/')}/{name}"
    return [row["value"] for row in note_rows(spark, path, "text", "value STRING")]


# --- the tasks -------------------------------------------------------------------------------------------------


def _parted(records: DataFrame, tasks: int, *, in_order: bool = False) -> DataFrame:
    """Return the records with their hash, each in the task that its contents decide."""
    from pyspark.sql import functions as F

    contents = [name for name in _CONTENTS if name in records.columns]
    if "timestamp" in contents:
        records = records.withColumn("timestamp", F.unix_millis("timestamp"))
    without_key = F.lit(0) if in_order else F.col(_HASH)
    by = [F.col("key"), F.when(F.col("key").isNull(), without_key)] if "key" in contents else [without_key]
    return records.withColumn(_HASH, F.xxhash64(*contents)).repartition(tasks, *by)


def _collected(parted: DataFrame, task: _Task) -> list[WrittenTask]:
    rows = parted.mapInArrow(task, _RESULT).collect()
    return [WrittenTask(row.task, row.rows, int.from_bytes(row.digest, "big"), row.before) for row in rows]


def _hashed(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """Yield records without their hashes, their number, and their digest."""
    for batch in batches:
        place = batch.schema.get_field_index(_HASH)
        hashes = batch.column(place).to_numpy(zero_copy_only=False).view(np.uint64)
        yield batch.remove_column(place), len(batch), int(hashes.sum(dtype=np.uint64))


def _row(written: WrittenTask) -> pa.RecordBatch:
    values = {"rows": [written.rows], "digest": [written.digest.to_bytes(8, "big")], "before": [written.before]}
    return pa.RecordBatch.from_pydict({"task": pa.array([written.task], pa.int32()), **values})


def _task() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def _writing(
    settings: TransactionSettings, names: QueryNames, mark: Mark, written: frozenset[int], speculative: bool
) -> _Task:
    """Return the function for `mapInArrow` that writes the records of a task."""

    def write_exactly_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        brokers, hashed = KafkaBrokers(settings), _hashed(batches)
        yield _row(write_task(brokers, names, mark, _task(), hashed, written=written, speculative=speculative))

    return write_exactly_once


def _digests(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the number of records of a task and their digest, for `mapInArrow`."""
    count = digest = 0
    for _, number, part in _hashed(batches):
        count, digest = count + number, digest + part
    yield _row(WrittenTask(_task(), count, digest % (1 << 64)))


def _probing(settings: TransactionSettings) -> _Task:
    """Return the function for `mapInArrow` that tells why an executor can't write; the first task asks the brokers."""

    def check_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        missing = None
        try:
            import confluent_kafka  # noqa: F401 - only checked
        except ImportError as cause:
            missing = str(cause)
        if missing is None and _task() == 0:
            broker_settings(settings.options)
        yield pa.RecordBatch.from_pydict({"missing": pa.array([missing], pa.string())})

    return check_executor
