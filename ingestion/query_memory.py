"""What a query remembers between two micro-batches."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvformat.ingestion import transforming
from kvformat.ingestion.apply import TargetTables
from kvformat.ingestion.decode import PickledDecoder, TableDecoder
from kvformat.ingestion.planning import Planner, PlanRules
from kvformat.ingestion.rules import look_stage, plan_rules
from kvformat.ingestion.schemas.known import BatchPlan, IngestState
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.store import SchemaStore
from kvformat.registry.spark.settings import allows_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kvformat.ingestion.looking import LookStage
    from kvformat.ingestion.pipeline.pipeline import Pipeline
    from kvformat.ingestion.pipeline.transform import TransformRule
    from kvformat.ingestion.query import QuerySettings
    from kvformat.ingestion.schemas.table_id import TableId
    from kvformat.ingestion.targets.target import Target

_LEAST_TASKS = 16  # of a look, as far as its bound is concerned: a batch after a pause has more than the last one
_MOST_DECODERS = 1000  # of tables of earlier batches that the next look may use


@dataclass
class QueryMemory:
    """What a query remembers.

    query: its id. state: the tables after the last batch. stored: the plan that an earlier attempt has stored. last:
    the last batch. tasks: those of the last look. decoders: those that the next look may use.
    """

    store: SchemaStore
    planner: Planner
    rules: PlanRules
    look: LookStage
    tables: TargetTables
    query: str
    state: IngestState = field(default_factory=IngestState)
    stored: BatchPlan | None = None
    last: int | None = None
    tasks: int = 1
    decoders: dict[TableId, PickledDecoder] = field(default_factory=dict)
    _session: SparkSession | None = None
    _analyzed: dict[tuple[TableId, TableSchema, frozenset[str]], TableSchema] = field(default_factory=dict)
    _cached: dict[TableId, tuple[tuple[object, ...], TableDecoder]] = field(default_factory=dict)  # with its inputs

    @classmethod
    def of(cls, pipeline: Pipeline, target: Target, settings: QuerySettings, spark: SparkSession) -> QueryMemory:
        """Return the memory of a query that starts, or starts again."""
        store = SchemaStore(spark, settings.checkpoint)
        store.begin_driver()
        quarantine = settings.on_table_error == "quarantine"
        rules = plan_rules(pipeline, quarantine=quarantine, has_time=allows_time(spark))
        query = store.make_query_id()
        tables = TargetTables(target, pipeline.behavior, query, take_over=settings.take_over)
        planner = Planner(rules, lambda *_: TableSchema(()))
        memory = cls(store, planner, rules, look_stage(pipeline), tables, query)
        memory.planner = Planner(rules, memory._analyze)
        for name, path in pipeline.settings.functions.items():
            module, _, function = path.partition(":")
            spark.udf.register(name, getattr(importlib.import_module(module), function))
        return memory

    def begin(self, spark: SparkSession) -> None:
        """Use the session of the next batch."""
        self._session = spark
        self.tables.use(spark)
        self.store.use(spark)

    @property
    def target(self) -> Target:
        """The target, with the session of the batch."""
        return self.tables.target

    def _analyze(self, rule: TransformRule, table: TableId, schema: TableSchema, nulls: frozenset[str]) -> TableSchema:
        """Return the schema after a transform, which Spark is asked for once."""
        key = table, schema, nulls
        if key not in self._analyzed:
            assert self._session is not None
            self._analyzed[key] = transforming.analyzed(self._session, rule, table, schema, nulls)
        return self._analyzed[key]

    @property
    def most_tasks(self) -> int:
        """How many tasks the next look may have, if it does not read ranges."""
        return max(_LEAST_TASKS, self.tasks)

    def decoder(self, table: TableId, inputs: tuple[object, ...], make: Callable[[], TableDecoder]) -> TableDecoder:
        """Return the decoder of a table, which is made again if what it is made from has changed."""
        last = self._cached.get(table)
        if last is None or last[0] != inputs:
            last = self._cached[table] = inputs, make()
        return last[1]

    def keep_decoders(self, used: Iterable[TableDecoder], *, without: Set[TableId]) -> None:
        """Keep the decoders of a batch for the next one, and those of earlier batches, without some tables."""
        kept = dict(self.decoders)
        for decoder in used:
            before = kept.pop(decoder.table, None)
            is_same = before is not None and before.decoder is decoder
            kept[decoder.table] = before if before is not None and is_same else PickledDecoder(decoder)
        self.decoders = {t: d for t, d in [*kept.items()][-_MOST_DECODERS:] if t not in without}
