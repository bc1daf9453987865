"""One micro-batch: look at the records, plan, store the plan, decode, write bad records, change and write the targets.

    records -> look -> news -> plan -> store -> decode -> errors -> changes of targets -> rows -> dead letters

Spark repeats a failed batch with the same records. The plan of a batch is stored before a target is touched, and a
repeated batch takes the stored plan. So each step gives the same result again. Bad records are written last: a table
that fails before that adds its records to them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from kvformat.connectors.batch_tallies import tell
from kvformat.ingestion import looking
from kvformat.ingestion.bad_records import BadRecords
from kvformat.ingestion.batch_decoder import BatchDecoder
from kvformat.ingestion.batch_report import BatchReport
from kvformat.ingestion.decode import decodable_records
from kvformat.ingestion.query_memory import QueryMemory
from kvformat.ingestion.range_reader import RangeReader
from kvformat.ingestion.target_writer import TableFailedError, TargetWriter
from kvformat.registry.table.metadata import readable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kvformat.ingestion.decode import PickledDecoder
    from kvformat.ingestion.looking import Looking
    from kvformat.ingestion.pipeline.pipeline import Pipeline
    from kvformat.ingestion.schemas.known import BatchPlan
    from kvformat.ingestion.schemas.table_id import TableId
    from kvformat.ingestion.targets.target import Target
    from kvformat.registry.streams.dead_letters import DeadLetters

_LOG = logging.getLogger("kvformat.ingest")


@dataclass(frozen=True)
class QuerySettings:
    """What a query needs beside its pipeline.

    checkpoint: the folder of the store. on_table_error: `stop` the query for a table that fails, or `quarantine` it.
    """

    checkpoint: str
    dead_letters: DeadLetters | None = None
    logs_bad_records: bool = False
    on_table_error: Literal["stop", "quarantine"] = "stop"
    take_over: bool = False


class IngestBatch:
    """The function that `foreachBatch` calls; Spark Connect pickles it to the server.

    It remembers the state after the last batch, and reads it from the store after a failure. `step` is called with the
    name of each step that is done; tests raise there.
    """

    def __init__(
        self, pipeline: Pipeline, target: Target, settings: QuerySettings, step: Callable[[str], None] | None = None
    ) -> None:
        self.pipeline, self.target, self.settings, self.step = pipeline, target, settings, step
        self._memory: QueryMemory | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_memory": None}

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Ingest the records of a batch. After an error Spark repeats the batch, with a new object or this one."""
        memory, self._memory = self._memory, None
        if memory is None or memory.last != batch_id - 1:
            memory = QueryMemory.of(self.pipeline, self.target, self.settings, batch.sparkSession)
            memory.state, memory.stored = memory.store.load(batch_id)
        memory.begin(batch.sparkSession)
        _BatchRun(self, memory, batch, batch_id).run()
        memory.last, memory.stored = batch_id, None
        self._memory = memory


class _BatchRun:
    """One run of one batch."""

    def __init__(self, batch: IngestBatch, memory: QueryMemory, records: DataFrame, batch_id: int) -> None:
        self.batch, self.memory, self.records, self.id = batch, memory, records, batch_id
        self.begun = time.monotonic()
        zone = batch.pipeline.settings.values["local-time-zone"]
        self.zone = str(zone or self.spark.conf.get("spark.sql.session.timeZone"))
        source = batch.pipeline.source
        assert source.value_format is not None
        self.metadata = readable("table", [*source.metadata.values()], source.value_format)
        self.cached: list[DataFrame] = []

    @property
    def spark(self) -> SparkSession:
        return self.records.sparkSession

    def run(self) -> None:
        try:
            self._run()
        finally:
            for frame in self.cached:
                frame.unpersist()

    def _run(self) -> None:
        memory = self.memory
        looked = self._look(memory.decoders).run()
        memory.tasks = looked.news.tasks
        self._done("looked")
        memory.store.check_driver()
        plan = memory.stored if memory.stored is not None else memory.planner.plan(memory.state, looked.news)
        self._done("planned")
        if memory.stored is None:
            self._store(plan)
        self._done("stored")
        while True:
            try:
                self._ingest(plan, looked)
                break
            except TableFailedError as failed:
                if self.batch.settings.on_table_error == "stop":
                    raise failed.cause from failed.cause.__cause__
                plan = memory.planner.without(plan, failed.tables, str(failed.cause), memory.state.schemas)
                self._store(plan)
        memory.store.check_driver()  # Spark commits the batch next
        memory.state = plan.state

    def _ingest(self, plan: BatchPlan, looked: Looking) -> None:
        """Decode the records for a plan, and write the rows and the dead letters."""
        memory, settings = self.memory, self.batch.settings
        decoder = BatchDecoder(self.batch.pipeline, memory, plan.state, self.zone, self.metadata, self._cached)
        report = BatchReport(self.id, looked.news.records, self.begun)
        report.was_read()
        writer = TargetWriter(memory, plan, report, self._done)
        rows = decoder.rows(looked, lambda: replace(self._look({}), news=looked.news), writer.truncations())
        self._done("decoded")
        bad = BadRecords(self.batch.pipeline.source, settings, memory, self.id, self._cached)
        rows, summary, write_letters = bad.checked(rows, plan.state.quarantined)
        self._done("checked")
        writer.write(self.spark, rows)
        self._done("written")
        memory.store.check_driver()
        write_letters()
        self._done("letters")
        memory.keep_decoders(decoder.reusable(rows), without=looked.news.changed_tables())
        tell(self.spark, self.id, report.done(summary.codes, len(rows.decoders)))

    def _look(self, decoders: Mapping[TableId, PickledDecoder]) -> Looking:
        """Return the look at the records, whose lines are kept until the end of the batch."""
        memory = self.memory
        tasks = self.batch.pipeline.settings.values["parallelism"]
        records = self.records if tasks is None else self.records.coalesce(tasks)
        look = replace(
            memory.look.knowing(memory.planner.known(memory.state)),
            decoders=decoders,
            returned_bytes=memory.target.driver_max_bytes,
            tasks=memory.most_tasks,
            reader=self._reader(),
        )
        if look.reader is None:
            names = [name for name in looking.RECORD_COLUMNS if name in records.columns]
            records = decodable_records(records.select(*names), self.metadata)
        looked = look.looked(records)
        lines = looked.lines
        if len(memory.state.sources) > 1:
            lines = lines.sortWithinPartitions(looking.TABLE)
        return replace(looked, lines=self._cached(lines))

    def _reader(self) -> RangeReader | None:
        """Return the reader of the batch, if it has ranges of offsets and not their records."""
        if "value" in self.records.columns:
            return None
        table = self.batch.pipeline.source.records
        assert table is not None
        return RangeReader.of(table.kv, self.metadata, self.zone)

    def _cached(self, frame: DataFrame) -> DataFrame:
        frame = frame.persist()
        self.cached.append(frame)
        return frame

    def _done(self, step: str) -> None:
        if self.batch.step is not None:
            self.batch.step(step)

    def _store(self, plan: BatchPlan) -> None:
        for event in plan.events:
            change = event.event
            _LOG.info("batch %d: %s of table %s, caused by %s", self.id, change.tag, change.table, event.cause)
        for table, why in plan.failed.items():
            _LOG.error("batch %d: table %s is quarantined: %s", self.id, table, why)
        self.memory.store.write(self.id, self.memory.state, plan)
