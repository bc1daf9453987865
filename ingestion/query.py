"""One micro-batch: look at the records, plan, store the plan, decode, write bad records, change and write the targets.

    records -> look -> news -> plan -> store -> decode -> errors -> changes of targets -> rows -> dead letters

Spark repeats a failed batch with the same records. The plan of a batch is stored before a target is touched, and a
repeated batch takes the stored plan. So each step gives the same result again. Bad records are written last: a table
that fails before that adds its records to them.

The records stay in memory or on disk until their rows do, packed by table. There is no shuffle: each table reads its
cells by a filter on `_kvformat_table`. With several known tables, the cells of a partition are sorted by their table,
so the filter skips whole blocks by their smallest and largest value. One task decodes a table that has few records in
the batch, so its rows are grouped by their key without a shuffle. A table with many records is decoded by the look.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from kvformat.ingestion import bad_records, looking, transforming
from kvformat.ingestion.apply import TargetTables
from kvformat.ingestion.blocks.transform import TransformRule
from kvformat.ingestion.decode import FitStage, TableDecoder, decodable_records, layout_of
from kvformat.ingestion.decoded_rows import POSITION, ROW_ERROR, TIMESTAMP, DecodedRows, with_bad_records
from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.planning import BatchNews, Planner, PlanRules
from kvformat.ingestion.schemas.events import DropTable, TruncateTable
from kvformat.ingestion.schemas.known import BatchPlan, IngestState, PlannedChange
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.store import SchemaStore
from kvformat.ingestion.targets.target import BatchWrite, TableOptions, Target
from kvformat.registry.contract.errors import ConfigurationError, DecodeError
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND, exact_column
from kvformat.registry.spark.settings import allows_time
from kvformat.registry.streams.changes import latest_by_key
from kvformat.registry.table.metadata import readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kvformat.ingestion.looking import Looking, LookStage
    from kvformat.ingestion.pipeline import Pipeline
    from kvformat.registry.streams.dead_letters import DeadLetters

_LOG = logging.getLogger("kvformat.ingest")
_POOL = 4  # tables that are written at the same time
_FEW = 10_000  # records of a table in a batch that one task decodes: as many as Spark gives to Python at once


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
        self,
        pipeline: Pipeline,
        target: Target,
        settings: QuerySettings,
        step: Callable[[str], None] | None = None,
    ) -> None:
        self.pipeline, self.target, self.settings, self.step = pipeline, target, settings, step
        self._memory: _Memory | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_memory": None}

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Ingest the records of a batch. After an error Spark repeats the batch, with a new object or this one."""
        memory, self._memory = self._memory, None
        if memory is None or memory.last != batch_id - 1:
            memory = _Memory.of(self, batch.sparkSession)
            memory.state, memory.stored = memory.store.load(batch_id)
        memory.begin(batch.sparkSession)
        _BatchRun(self, memory, batch, batch_id).run()
        memory.last, memory.stored = batch_id, None
        self._memory = memory


@dataclass
class _Memory:
    """What a query remembers between two batches."""

    store: SchemaStore
    planner: Planner
    rules: PlanRules
    look: LookStage
    tables: TargetTables
    query: str
    state: IngestState = field(default_factory=IngestState)
    stored: BatchPlan | None = None
    last: int | None = None
    session: SparkSession | None = None
    analyzed: dict[tuple[TableId, TableSchema, frozenset[str]], TableSchema] = field(default_factory=dict)
    decoders: Mapping[TableId, TableDecoder] = field(default_factory=dict)  # that the next look may use

    @classmethod
    def of(cls, batch: IngestBatch, spark: SparkSession) -> _Memory:
        from kvformat.ingestion.rules import look_stage, plan_rules

        store = SchemaStore(spark, batch.settings.checkpoint)
        store.begin_driver()
        quarantine = batch.settings.on_table_error == "quarantine"
        rules = plan_rules(batch.pipeline, quarantine=quarantine, has_time=allows_time(spark))
        query = store.make_query_id()
        tables = TargetTables(batch.target, batch.pipeline.behavior, query, take_over=batch.settings.take_over)
        planner = Planner(rules, lambda *_: TableSchema(()))
        memory = cls(store, planner, rules, look_stage(batch.pipeline), tables, query)
        memory.planner = Planner(rules, memory.analyze)
        for name, path in batch.pipeline.settings.functions.items():
            module, _, function = path.partition(":")
            spark.udf.register(name, getattr(importlib.import_module(module), function))
        return memory

    def begin(self, spark: SparkSession) -> None:
        """Use the session of the next batch."""
        self.session = spark
        self.tables.use(spark)
        self.store.use(spark)

    def analyze(self, rule: TransformRule, table: TableId, schema: TableSchema, nulls: frozenset[str]) -> TableSchema:
        """Return the schema after a transform, which Spark is asked for once."""
        key = table, schema, nulls
        if key not in self.analyzed:
            assert self.session is not None
            self.analyzed[key] = transforming.analyzed(self.session, rule, table, schema, nulls)
        return self.analyzed[key]


class _TableFailed(Exception):
    """A table that fails while its rows are decoded or written."""

    def __init__(self, tables: Iterable[TableId], cause: Exception) -> None:
        super().__init__(str(cause))
        self.tables, self.cause = tuple(tables), cause


@dataclass(frozen=True)
class _TableRows:
    """The rows of a source table for one of its targets, and those that have their errors."""

    source: TableId
    target: TableId
    rows: DataFrame
    errors: tuple[DecodedRows, ...]
    fitted: bool


class _BatchRun:
    """One run of one batch."""

    def __init__(self, batch: IngestBatch, memory: _Memory, records: DataFrame, batch_id: int) -> None:
        self.batch, self.memory, self.records, self.id = batch, memory, records, batch_id
        self.spark = records.sparkSession
        self.changes_target = batch.target.rows == "changes"
        zone = batch.pipeline.settings.values["local-time-zone"]
        self.zone = str(zone or self.spark.conf.get("spark.sql.session.timeZone"))
        source = batch.pipeline.source
        assert source.value_format is not None
        self.metadata = readable("table", [*source.metadata.values()], source.value_format)
        self.cached: list[DataFrame] = []

    def run(self) -> None:
        try:
            self._run()
        finally:
            for frame in self.cached:
                frame.unpersist()

    def _run(self) -> None:
        memory = self.memory
        looked = self._looked(memory.decoders)
        news = looked.news()
        self._done("looked")
        memory.store.check_driver()
        plan = memory.stored if memory.stored is not None else memory.planner.plan(memory.state, news)
        self._done("planned")
        if memory.stored is None:
            self._store(plan)
        self._done("stored")
        while True:
            try:
                self._ingest(plan, news, looked)
                break
            except _TableFailed as failed:
                if self.batch.settings.on_table_error == "stop":
                    raise failed.cause from failed.cause.__cause__
                plan = memory.planner.without(plan, failed.tables, str(failed.cause), memory.state.schemas)
                self._store(plan)
        memory.store.check_driver()  # Spark commits the batch next
        memory.state = plan.state

    def _looked(self, decoders: Mapping[TableId, TableDecoder]) -> Looking:
        memory = self.memory
        names = [name for name in looking.RECORD_COLUMNS if name in self.records.columns]
        records, tasks = self.records.select(*names), self.batch.pipeline.settings.values["parallelism"]
        if tasks is not None:
            records = records.coalesce(tasks)
        look = replace(memory.look.knowing(memory.planner.known(memory.state)), decoders=decoders)
        looked = look.looked(decodable_records(records, self.metadata))
        lines = looked.lines
        if len(memory.state.sources) > 1:
            lines = lines.sortWithinPartitions(looking.TABLE)
        return replace(looked, lines=self._cached(lines))

    def _with_rows(self, looked: Looking, news: BatchNews, decoders: Mapping[TableId, TableDecoder]) -> Looking:
        """Return a look whose rows are those of the plan's decoders: this one, or a new one without rows."""
        if not looked.decoders:
            return looked
        usable = usable_rows(news, looked.decoders, decoders)
        if usable is not None:
            return replace(looked, decoders={table: decoders[table] for table in usable})
        looked.lines.unpersist()
        return self._looked({})

    def _cached(self, frame: DataFrame) -> DataFrame:
        frame = frame.persist()
        self.cached.append(frame)
        return frame

    def _cached_rows(self, rows: DecodedRows) -> DecodedRows:
        return replace(rows, lines=self._cached(rows.lines))

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

    # --- from a plan to the targets ------------------------------------------------------------------------

    def _ingest(self, plan: BatchPlan, news: BatchNews, looked: Looking) -> None:
        state = plan.state
        refused: dict[TableId, str] = {}
        tables = []
        for table in sorted(news.tables):
            why = self.memory.planner.refusal(state, table)
            if why is None:
                tables.append(table)
            else:
                refused[table] = why
        decoders = {table: self._decoder(state, table, few=news.records[table] <= _FEW) for table in tables}
        looked = self._with_rows(looked, news, decoders)
        found = [rows for table in tables for rows in self._decoded(looked, state, table, decoders[table])]
        self._done("decoded")
        bad = with_bad_records([*dict.fromkeys(rows for of in found for rows in of.errors)])
        errors = bad_records.errors_of(looked, bad, refused, has_unread=news.errors > 0)
        write_letters: Callable[[], None] = lambda: None  # noqa: E731
        if errors is not None:
            found, write_letters = self._without_bad(looked, found, self._cached(errors), set(state.quarantined))
        elif not looked.decoders and self.batch.settings.on_table_error == "stop":
            looked.lines.unpersist()  # its records are decoded, and go to no dead letters
        self._done("checked")
        wholes = [c for c in plan.changes if isinstance(c.caused.event, TruncateTable | DropTable)]
        targets = sorted({rows.target for rows in found} | {change.caused.event.table for change in wholes})
        with ThreadPoolExecutor(_POOL, initializer=_thread_start(self.spark)) as pool:
            writes = [pool.submit(self._write, plan, t, [r for r in found if r.target == t], wholes) for t in targets]
        records = [found for write in writes for found in write.result()]
        if records:
            self.memory.tables.target.write_together(records, BatchWrite(self.memory.query, self.id), self.memory.store)
        self._done("written")
        self.memory.store.check_driver()
        write_letters()
        self._done("letters")
        changed = {rows.table for rows in bad} | {c.table for c in news.columns} | {key.table for key in news.keys}
        self.memory.decoders = {
            table: decoder
            for table, decoder in decoders.items()
            if not decoder.in_one_task and table not in changed and self._is_written_as_decoded(state, table)
        }
        _LOG.info("batch %d: wrote %d tables (%d source tables)", self.id, len(targets), len(tables))

    def _decoder(self, state: IngestState, table: TableId, *, few: bool) -> TableDecoder:
        """Return the decoder of a source table; `few` says that one task decodes all records."""
        memory, source = self.memory, self.batch.pipeline.source
        assert source.value_format is not None
        after = state.schemas.sources[table]
        schema = replace(memory.planner.message_schema(state, table), primary_key=after.primary_key)
        in_spark = self._in_spark(state, table)
        fitted = in_spark if in_spark != schema else None
        if self._is_written_as_decoded(state, table):
            fitted = self._columns(state, self.memory.planner.targets(state, table)[0])
        layout, flat = layout_of(
            state.sources[table],
            schema,
            memory.rules,
            source.value_format,
            source.key_format,
            flatten=bool(source.values.get("json.infer-schema.flatten-nested-columns.enable")),
        )
        if layout.value_format.own_columns and not self._is_written_as_decoded(state, table):
            raise ConfigurationError(
                f"table {table}: 'unchanged.columns' = 'keep' needs rows that go to one table as they are. Remove the "
                "projection, the filter, and the routes to several tables, or the option"
            )
        return TableDecoder(
            table,
            layout,
            schema,
            self.metadata,
            fitted,
            not after.primary_key and not self.changes_target,
            self.zone,
            flat,
            few,
            source.declared.not_null,
        )

    def _is_written_as_decoded(self, state: IngestState, table: TableId) -> bool:
        """Whether the rows of a source table go to one target, without a transform."""
        return (
            not transforming.needs_rows(self.memory.rules.rule(table))
            and len(self.memory.planner.targets(state, table)) == 1
        )

    def _in_spark(self, state: IngestState, table: TableId) -> TableSchema:
        """Return the columns of a source table before its transform."""
        return replace(
            self.memory.planner.row_schema(state, table), primary_key=state.schemas.sources[table].primary_key
        )

    def _decoded(self, looked: Looking, state: IngestState, table: TableId, decoder: TableDecoder) -> list[_TableRows]:
        """Return the rows of a source table for each of its targets."""
        targets = self.memory.planner.targets(state, table)
        decoded = decoder.rows(looked)
        if table in looked.decoders:  # no record is bad
            return [_TableRows(table, targets[0], decoded.rows(), (), False)]
        decoded = self._cached_rows(decoded)
        good = decoded.rows().where(exact_column(ROW_ERROR).isNull())
        if self._is_written_as_decoded(state, table):
            return [_TableRows(table, targets[0], good, (decoded,), False)]
        rule, after = self.memory.rules.rule(table), state.schemas.sources[table]
        if rule is not None and transforming.needs_rows(rule):
            in_spark = self._in_spark(state, table)
            good = transforming.transformed(
                good,
                rule,
                table,
                in_spark,
                nulls=self.memory.planner.nulls(state, table),
                changes=self.changes_target,
                upserts=decoder.layout.by_key,
            )
        found = []
        for target in targets:
            fit = FitStage(table, after, self._columns(state, target), self.zone)
            fitted = self._cached_rows(fit.fitted(good))
            rows = fitted.rows().where(exact_column(ROW_ERROR).isNull())
            found.append(_TableRows(table, target, rows, (decoded, fitted), True))
        return found

    def _columns(self, state: IngestState, target: TableId) -> TableSchema:
        """Return the columns that rows of a target are fitted to: the target's, as far as it is known."""
        return self.memory.tables.expected(target, state.schemas.targets[target])

    def _without_bad(
        self, looked: Looking, found: list[_TableRows], errors: DataFrame, quarantined: set[TableId]
    ) -> tuple[list[_TableRows], Callable[[], None]]:
        """Count the bad records, and return the rows of good records and a function that writes the dead letters."""
        summary = bad_records.Summary.of(errors, quarantined)
        if summary.tables_without_key:
            table = min(summary.tables_without_key)
            stops = self.batch.settings.on_table_error == "stop"
            raise _TableFailed(
                summary.tables_without_key,
                SchemaChangeError(
                    f"table {table}: it has no primary key, and its messages update or delete rows. Set 'primary-keys' "
                    "in a transform, or 'key.format' for the keys of the records, and "
                    + ("start with a new checkpoint" if stops else "release the table"),
                    table=str(table),
                ),
            )
        if summary.is_empty:
            return found, lambda: None
        source, settings = self.batch.pipeline.source, self.batch.settings
        if summary.first is not None and not source.values["ingestion.ignore-errors"]:
            raise bad_records.first_error(summary.first)

        def write_letters() -> None:
            letters = bad_records.letters_of(looked, errors)
            if settings.dead_letters is not None:
                settings.dead_letters.write(letters, self.id)
            if settings.logs_bad_records:
                bad_records.log(letters, summary.count)

        try:
            bad_records.check_count(
                self.memory.store, self.id, summary, source.values["ingestion.error-tolerance.max-count"]
            )
        except DecodeError:  # the query ends here, and its last dead letters say why
            write_letters()
            raise
        if summary.of_rows and any(rows.fitted for rows in found):
            places = errors.select(*(exact_column(name) for name in POSITION))
            found = [replace(r, rows=self._without_places(r.rows, places)) if r.fitted else r for r in found]
        return found, write_letters

    def _without_places(self, rows: DataFrame, places: DataFrame) -> DataFrame:
        """Return the rows of other records. A join loses their order, which a target of changes needs."""
        rows = rows.join(places, list(POSITION), "left_anti")
        if not self.changes_target:
            return rows
        topic, partition, offset = map(exact_column, POSITION)
        return rows.repartition(topic, partition).sortWithinPartitions(topic, partition, offset, ROW_INDEX)

    # --- one target table ----------------------------------------------------------------------------------

    def _write(
        self, plan: BatchPlan, target: TableId, found: list[_TableRows], wholes: list[PlannedChange]
    ) -> list[DataFrame]:
        """Bring a target table to its schema, and write its rows; a TRUNCATE is between the rows of two parts.

        Returns the records that are not written yet.
        """
        memory, state = self.memory, plan.state
        wanted = state.schemas.targets[target]
        options = self._options(found)
        memory.store.check_driver()
        change = None
        if memory.tables.target.has_tables:
            change = max((c for c in wholes if c.caused.event.table == target), key=PlannedChange.place, default=None)
        records: list[DataFrame] = []
        try:
            written = memory.tables.ready(target, wanted, options) if found or change is not None else wanted
            self._done(f"changed {target}")
            if change is None:
                records += self._write_part(target, written, found, 0)
            else:
                before = [replace(rows, rows=rows.rows.where(_is_before(change))) for rows in found]
                after = [replace(rows, rows=rows.rows.where(~_is_before(change))) for rows in found]
                records += self._write_part(target, written, before, 0)
                self._done(f"written {target} before")
                memory.tables.change(change.caused.event, wanted, BatchWrite(memory.query, self.id, 1))
                self._done(f"truncated {target}")
                if isinstance(change.caused.event, DropTable):
                    after = [rows for rows in after if not rows.rows.isEmpty()]
                if after:
                    written = memory.tables.ready(target, wanted, options)
                records += self._write_part(target, written, after, 1)
            self._done(f"written {target}")
        except SchemaChangeError as error:
            fed = (table for table in state.sources if target in memory.planner.targets(state, table))
            raise _TableFailed({rows.source for rows in found} or {*fed}, error) from error
        return records

    def _options(self, found: list[_TableRows]) -> TableOptions:
        rules = [self.memory.rules.rule(rows.source) for rows in found]
        rule = next((rule for rule in rules if rule is not None), None)
        return TableOptions() if rule is None else TableOptions(rule.partition_keys, rule.table_options)

    def _write_part(self, target: TableId, schema: TableSchema, found: list[_TableRows], part: int) -> list[DataFrame]:
        if not found:
            return []
        rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), [r.rows for r in found])
        rows = rows.drop(ROW_ERROR, TIMESTAMP)
        missing = [name for name in schema.names if name not in rows.columns]
        if missing:
            raise SchemaChangeError(
                f"table {target}: the rows have no column {missing[0]!r}; run the batch again", table=str(target)
            )
        if not self.changes_target:
            if schema.primary_key:
                keys = [exact_column(name) for name in schema.primary_key]
                order = [exact_column(name) for name in POSITION]
                rows = latest_by_key(rows, keys, order, deletes=True).drop(*POSITION)
            else:
                rows = rows.drop(ROW_KIND, ROW_INDEX, *POSITION)
        records = self.memory.tables.target.write(target, schema, rows, BatchWrite(self.memory.query, self.id, part))
        return [] if records is None else [records]


def usable_rows(
    news: BatchNews, used: Mapping[TableId, object], planned: Mapping[TableId, object]
) -> list[TableId] | None:
    """Return the tables whose rows the look has, None if the plan needs others, or if a record is bad.

    `used` and `planned` are the decoders by table: those of the look, and those of the plan.
    """
    good = all(count == news.records[t] and planned.get(t) == used[t] for t, count in news.decoded.items())
    return [*news.decoded] if good else None


def _thread_start(spark: SparkSession) -> Callable[[], Any] | None:
    """Return what a thread must do before it uses a session.

    A thread without an active session analyzes with Spark's default settings, and not with those of the session.
    Without the properties of this thread, Spark would not stop its jobs with the query.
    """
    from pyspark.sql import SparkSession as ClassicSession
    from pyspark.util import inheritable_thread_target

    if not isinstance(spark, ClassicSession):  # a client of Spark Connect names its session in each request
        return None

    def start() -> None:
        spark.createDataFrame([], "id INT")  # makes the session the active one of the thread

    started: Callable[[], Any] = inheritable_thread_target(spark)(start)
    return started


def _is_before(change: PlannedChange) -> Any:
    """Return whether a row comes before a change: in its partition by offset, in others by the time of the record."""
    from pyspark.sql import functions as F

    topic, partition, offset = (exact_column(name) for name in POSITION)
    cause = change.caused.cause
    assert cause is not None
    same = (topic == cause.topic) & (partition == cause.partition)
    earlier = F.coalesce(exact_column(TIMESTAMP), F.lit(0)) <= change.timestamp
    return F.when(same, offset < cause.offset).otherwise(earlier)
