"""Plan a batch: what its messages contribute, as changes of source tables and of target tables. No Spark.

    columns of all tasks -> merged columns per table -> after the transform -> difference to the known schema -> events
                                                                                                  -> targets' changes

The plan is a function of the state before the batch and of what the messages contribute, in any order. So a batch that
is planned again gives the same plan.

Keys, the first that is there: `primary-keys` of the transform; the key of a first schema (`scan.value.initial-schemas`)
or of the messages, which must agree; for a format of changes, the columns of the record's key. A key does not change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kvformat.codecs.discovery.column_types import folded_name
from kvformat.codecs.discovery.text_forms import INFERRED, WHOLE_NUMBERS, merged_forms, writes_all
from kvformat.ingestion.behaviors import SchemaEvolution
from kvformat.ingestion.errors import SchemaChangeError, table_error
from kvformat.ingestion.pipeline.declared_columns import DeclaredColumns
from kvformat.ingestion.pipeline.transform import TransformRule
from kvformat.ingestion.schemas.events import (
    AddColumns,
    AddedColumn,
    AlterColumnTypes,
    CreateTable,
    DropTable,
    SchemaEvent,
    TruncateTable,
)
from kvformat.ingestion.schemas.known import BatchPlan, IngestState, PlannedChange, SourceTable
from kvformat.ingestion.schemas.state import Cause, CausedEvent, SchemaState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema, merge_schemas
from kvformat.ingestion.schemas.types import (
    INTEGER_DIGITS,
    STRING,
    TEXT_ROOTS,
    merge_types,
    note_on_merge,
    parse_column_type,
)
from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.look import KnownTable
from kvformat.registry.contract.types import FlinkType, nullable

_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
_RESERVED, _OWN_PREFIX = ("row_kind", "row_index", UNCHANGED), "_kvformat_"
_LOG = logging.getLogger("kvformat.ingest")

Analyze = Callable[[TransformRule, TableId, TableSchema, frozenset[str]], TableSchema]
"""Returns the columns of a table after a transform, from its columns before, and those that had no value yet.

Raises `SchemaChangeError`.
"""


# --- what messages contribute --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column that messages contribute: `SeenColumn` with the record of its first value."""

    table: TableId
    part: Part
    name: str
    types: tuple[FlinkType, ...]
    cause: Cause
    place: int = 0
    as_text: bool = False
    forms: int | None = None

    def order(self) -> tuple[str, int, int, int, str]:
        """Return what orders the new columns of a table."""
        return self.cause.topic, self.cause.partition, self.cause.offset, self.place, self.name


@dataclass(frozen=True, slots=True)
class NewKey:
    """A primary key that a message declares."""

    table: TableId
    names: tuple[str, ...]
    cause: Cause


@dataclass(frozen=True, slots=True)
class WholeTableChange:
    """A message that truncates or drops its table. `timestamp` is that of its record, in milliseconds."""

    table: TableId
    kind: str
    cause: Cause
    timestamp: int


@dataclass(frozen=True, slots=True)
class BatchNews:
    """What the messages of a batch contribute.

    tables: the tables that have rows in the batch, each with its first record. records: how many records each has.
    errors: how many records have no table because they can't be read. decoded: how many records of a table were decoded
    by the look. bad: how many of them are bad. kept: the decoded tables of which a task has not returned all rows.
    sizes: the bytes of the rows of decoded tables. tasks: how many tasks have had records.
    """

    tables: Mapping[TableId, Cause] = field(default_factory=dict)
    columns: tuple[NewColumn, ...] = ()
    keys: tuple[NewKey, ...] = ()
    changes: tuple[WholeTableChange, ...] = ()
    records: Mapping[TableId, int] = field(default_factory=dict)
    errors: int = 0
    decoded: Mapping[TableId, int] = field(default_factory=dict)
    bad: Mapping[TableId, int] = field(default_factory=dict)
    kept: frozenset[TableId] = frozenset()
    sizes: Mapping[TableId, int] = field(default_factory=dict)
    tasks: int = 1

    def changed_tables(self) -> set[TableId]:
        """Return the tables with news about their columns or keys."""
        return {column.table for column in self.columns} | {key.table for key in self.keys}


# --- the rules -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanRules:
    """The options of a pipeline that a plan depends on.

    first: tables that the user declares. fixed: the types of columns in all tables. static: whether the schema of a
    known table never changes. metadata: types of the columns from the record. has_changes: whether the format of the
    values has updates and deletes. quarantine: whether a table that can't be planned is left out, not an error.
    has_time: whether Spark has the type TIME; otherwise such columns are STRING. declared: the columns that each table
    has from its beginning. advice: how a user sets the type of a column.
    """

    evolution: SchemaEvolution
    transforms: tuple[TransformRule, ...] = ()
    first: Mapping[TableId, KnownTable] = field(default_factory=dict)
    fixed: Mapping[str, FlinkType] = field(default_factory=dict)
    static: bool = False
    key_prefix: str = ""
    value_prefix: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    has_changes: bool = True
    quarantine: bool = False
    has_time: bool = True
    declared: DeclaredColumns = field(default_factory=DeclaredColumns)
    advice: str = "'scan.value.initial-schemas.ddls' of a new query sets another type"

    def rule(self, table: TableId) -> TransformRule | None:
        """Return the transform of a table: the first that matches."""
        return next((rule for rule in self.transforms if rule.selector.matches(table)), None)


class Planner:
    """Plans batches. It remembers only which warnings were logged."""

    def __init__(self, rules: PlanRules, analyze: Analyze) -> None:
        self._rules, self._analyze = rules, analyze
        self._told: set[str] = set()
        self._settled: dict[TableId, tuple[object, ...]] = {}
        self._new = self._with_declared(SourceTable())

    def known(self, state: IngestState) -> IngestState:
        """Return the state with the tables that the user declares, unless they are known, and the declared columns."""
        first = {table: SourceTable(known) for table, known in self._rules.first.items()}
        sources = {**first, **state.sources}
        if self._rules.declared.names:
            sources = {table: self._with_declared(source) for table, source in sources.items()}
        return replace(state, sources=sources)

    def _with_declared(self, source: SourceTable) -> SourceTable:
        """Return a table with the declared columns. A column that is known keeps a wider type."""
        declared = self._rules.declared
        return replace(
            source, value=_with_types(source.value, declared.value), key=_with_types(source.key, declared.key)
        )

    def plan(self, state: IngestState, news: BatchNews) -> BatchPlan:
        """Return the plan of a batch with these news.

        Raises `SchemaChangeError` for a changed key, for sources of one target with different keys, and for a change
        that `schema.change.behavior` = `exception` forbids. With `quarantine`, such a table is in `failed` instead.
        """
        state = self.known(state)
        state = replace(state, sources=self.merged(state, news))
        plan = BatchPlan(state)
        causes = {column.table: column.cause for column in sorted(news.columns, key=NewColumn.order, reverse=True)}
        told = news.changed_tables() | {change.table for change in news.changes}
        for table in sorted(news.tables.keys() | {change.table for change in news.changes}):
            if table in state.quarantined or (table not in told and self._is_settled(plan.state, table)):
                continue
            try:
                plan = self._with_table(plan, table, news, causes)
                self._settled[table] = self._planned(plan.state, table)
            except SchemaChangeError as error:
                if not self._rules.quarantine:
                    raise
                quarantined = {**plan.state.quarantined, table: str(error)}
                plan = replace(
                    plan, state=replace(plan.state, quarantined=quarantined), failed={**plan.failed, table: str(error)}
                )
        self._tell_of_equal_keys(plan)
        return plan

    def targets(self, state: IngestState, table: TableId) -> list[TableId]:
        """Return the target tables of a source table that are known."""
        return [t for t in self._rules.evolution.router.targets(table) if t in state.schemas.targets]

    def refusal(self, state: IngestState, table: TableId) -> str | None:
        """Return why the records of a table are bad with the state of a plan, None if they can be written."""
        if table in state.quarantined:
            return f"the table is quarantined: {state.quarantined[table]}"
        if table not in state.schemas.sources:
            return self.why_not(state, table) or "the table has no schema"
        if not self.targets(state, table):
            return "the table is not created, because 'exclude.schema.changes' has 'create.table'"
        return None

    def without(self, plan: BatchPlan, failed: Collection[TableId], why: str, before: SchemaState) -> BatchPlan:
        """Return the plan without the changes of the failed tables; a released table begins before the batch.

        `before` has the schemas before the batch. A target that other tables feed keeps its changes.
        """
        planned = plan.state.schemas
        others = {table: schema for table, schema in planned.sources.items() if table not in failed}
        fed = {target for table in others for target in self.targets(plan.state, table)}
        left = {target for table in failed for target in self.targets(plan.state, table)} - fed
        state = replace(
            plan.state,
            schemas=SchemaState(
                {**others, **{table: before.sources[table] for table in failed if table in before.sources}},
                {target: s for target, s in planned.targets.items() if target in fed or target in before.targets},
            ),
            quarantined={**plan.state.quarantined, **dict.fromkeys(failed, why)},
        )
        events = tuple(caused for caused in plan.events if caused.event.table not in failed)
        changes = tuple(change for change in plan.changes if change.caused.event.table not in left)
        failures = {**plan.failed, **dict.fromkeys(failed, why)}
        return replace(plan, state=state, events=events, changes=changes, failed=failures)

    # --- columns of the messages ---------------------------------------------------------------------------

    def merged(self, state: IngestState, news: BatchNews) -> dict[TableId, SourceTable]:
        """Return the source tables with the contributed columns and keys."""
        sources = dict(state.sources)
        for column in sorted(news.columns, key=NewColumn.order):
            if column.table in state.quarantined:
                continue
            known = sources.get(column.table, self._new)
            part = known.key if column.part == "key" else known.value
            part = self._with_column(part, column, frozen=self._rules.static and column.table in state.sources)
            sources[column.table] = replace(known, **{column.part: part})
        for key in sorted(news.keys, key=lambda key: (key.cause.topic, key.cause.partition, key.cause.offset)):
            known = sources.get(key.table, self._new)
            if known.value.key is None and key.table not in state.quarantined:
                sources[key.table] = replace(known, value=replace(known.value, key=key.names))
        for table in news.tables:
            sources.setdefault(table, self._new)
        return sources

    def _with_column(self, known: KnownTable, new: NewColumn, *, frozen: bool) -> KnownTable:
        """Return the columns with a new one, or with a wider type of a known one."""
        current = known.columns.get(new.name)
        as_text = known.as_text | {new.name} if new.as_text else known.as_text
        forms = _forms(known, new)
        if new.part == "key" and new.name in self._rules.declared.key:
            return replace(known, as_text=as_text)
        if current is None and not new.types:
            return replace(known, nulls=known.nulls | {new.name})
        is_fixed = new.part == "value" and new.name in self._rules.fixed
        if frozen or (current is not None and is_fixed):
            if new.types and current is None:
                self._tell(
                    f"table {new.table}: the new column {new.name!r} is left out, because 'schema.inference.strategy' "
                    "is static"
                )
            return replace(known, as_text=as_text if current is not None else known.as_text)
        types = [nullable(t) for t in new.types]
        if is_fixed:
            types = [nullable(self._rules.fixed[new.name])]
        types = [*types] if current is None else [current, *types]
        if not types:
            return known
        merged, *others = types
        for other in others:
            note = note_on_merge(merged, other)
            if note:
                self._tell(f"table {new.table}, column {new.name!r}: {note}. {self._rules.advice}")
            merged = merge_types(merged, other)
        if forms is not None and forms & INFERRED and not writes_all(forms) and merged.root not in TEXT_ROOTS:
            self._tell(
                f"table {new.table}, column {new.name!r}: {merged} can't give back its texts, which are written in "
                f"several ways: the column becomes STRING. {self._rules.advice}"
            )
            merged = STRING
        if merged.root in _TIMES and any(t.root != merged.root for t in types):
            as_text = as_text | {new.name}  # a date is not a text that the formats read as a timestamp
        all_forms = dict(known.forms)
        if forms is not None and merged.root not in TEXT_ROOTS:  # those of a former type stay
            all_forms[new.name] = forms if writes_all(forms) else 0
        return replace(known, columns={**known.columns, new.name: merged}, as_text=as_text, forms=all_forms)

    def _is_settled(self, state: IngestState, table: TableId) -> bool:
        """Whether a plan of this planner has made these schemas of a table. Without news it makes them again."""
        planned = self._planned(state, table)
        return None not in planned and self._settled.get(table) == planned

    def _planned(self, state: IngestState, table: TableId) -> tuple[object, ...]:
        """Return what a plan says about a table; None for what it does not have."""
        targets = (state.schemas.targets.get(t) for t in self._rules.evolution.router.targets(table))
        return (state.sources.get(table), state.schemas.sources.get(table), *targets)

    # --- events of one table -------------------------------------------------------------------------------

    def _with_table(
        self, plan: BatchPlan, table: TableId, news: BatchNews, causes: Mapping[TableId, Cause]
    ) -> BatchPlan:
        """Return the plan with the events of a table; `causes` has the first record with a new column of each."""
        self._check_declared_key(plan.state, table, news)
        before = plan.state.schemas.sources.get(table)
        events: list[CausedEvent] = []
        if table in news.tables:
            after = self.schema(plan.state, table)
            if self.why_not(plan.state, table) is None:
                cause = causes.get(table, news.tables[table])
                events += (CausedEvent(event, cause) for event in _difference(table, before, after))
                before = after
        times: dict[int, int] = {}
        for change in sorted(
            news.changes, key=lambda c: (c.timestamp, c.cause.topic, c.cause.partition, c.cause.offset)
        ):
            if change.table == table and before is not None:
                event = TruncateTable(table) if change.kind == "truncate" else DropTable(table)
                times[len(events)] = change.timestamp
                events.append(CausedEvent(event, change.cause))
        schemas, changes = plan.state.schemas, list(plan.changes)
        for number, caused in enumerate(events):
            schemas, planned = self._rules.evolution.plan(schemas, caused.event)
            for target_change in planned:
                schemas = schemas.change_target(target_change)
                changes.append(PlannedChange(CausedEvent(target_change, caused.cause), times.get(number, 0)))
        if table in news.tables and before is not None:
            schemas = self._with_forms(schemas, table, before.forms())
        state = replace(plan.state, schemas=schemas)
        return replace(plan, state=state, events=(*plan.events, *events), changes=tuple(changes))

    def _with_forms(self, schemas: SchemaState, table: TableId, forms: Mapping[str, int]) -> SchemaState:
        """Return the schemas with the forms of a source table's texts, also in its targets."""
        sources = (
            {**schemas.sources, table: schemas.sources[table].with_forms(forms)} if table in schemas.sources else {}
        )
        targets = dict(schemas.targets)
        for target in self._rules.evolution.router.targets(table):
            if target not in targets:
                continue
            common: dict[str, int] = {}
            for other, schema in sources.items():
                if target in self._rules.evolution.router.targets(other):
                    common.update({name: common.get(name, form) & form for name, form in schema.forms().items()})
            targets[target] = targets[target].with_forms(common)
        return SchemaState(sources, targets)

    def _tell_of_equal_keys(self, plan: BatchPlan) -> None:
        """Log that rows of several tables with equal keys overwrite each other, unless the key has the table."""
        created = {caused.event.table for caused in plan.events if isinstance(caused.event, CreateTable)}
        if not created:
            return
        sources, targets = plan.state.schemas.sources, self._rules.evolution.router.targets
        merged: dict[TableId, list[TableId]] = {}
        for table in sorted(sources):
            for target in targets(table):
                merged.setdefault(target, []).append(table)
        for target, tables in merged.items():
            if len(tables) == 1 or created.isdisjoint(tables):
                continue
            if any(sources[table].primary_key and not self._has_table_in_key(table) for table in tables):
                self._tell(
                    f"target {target}: rows of the tables {', '.join(map(str, tables))} with equal keys overwrite each "
                    "other. To keep all of them, use a transform with '\\*, __table_name__ AS source', and "
                    "'source' in its 'primary-keys'"
                )

    def _has_table_in_key(self, table: TableId) -> bool:
        rule = self._rules.rule(table)
        columns = () if rule is None or rule.columns is None else rule.columns
        keys = () if rule is None else rule.primary_keys
        return any(c.name in keys and "__table_name__" in (c.flink or c.spark) for c in columns)

    def _check_declared_key(self, state: IngestState, table: TableId, news: BatchNews) -> None:
        """Raise `SchemaChangeError` if messages declare different keys, unless a transform sets the key."""
        rule = self._rules.rule(table)
        known = state.sources.get(table, SourceTable()).value.key
        if known is None or (rule is not None and rule.primary_keys):
            return
        for key in news.keys:
            if key.table == table and {*key.names} != {*known}:
                raise _changed_key(table, known, key.names, key.cause)

    def schema(self, state: IngestState, table: TableId) -> TableSchema:
        """Return the schema of a table after its transform: merged with the known one, and with its key.

        Raises `SchemaChangeError` if the key is another than the known one.
        """
        rule = self._rules.rule(table)
        schema = self._in_order(self.row_schema(state, table))
        if rule is not None and rule.columns is not None and schema.columns:
            analyzed = self._analyze(rule, table, schema, self.nulls(state, table))
            schema = replace(analyzed, primary_key=schema.primary_key)
        elif rule is not None and rule.filter and schema.columns:
            self._analyze(rule, table, schema, self.nulls(state, table))
        if rule is not None and rule.primary_keys:
            schema = replace(schema, primary_key=rule.primary_keys)
        before = state.schemas.sources.get(table)
        if before is not None:
            if {*before.primary_key} != {*schema.primary_key}:
                raise _changed_key(table, before.primary_key, schema.primary_key, None)
            schema = merge_schemas(before, _with_key(schema)).with_forms(schema.forms())
        return _with_key(schema)

    def nulls(self, state: IngestState, table: TableId) -> frozenset[str]:
        """Return the columns that a transform uses and that came with NULL only."""
        known = state.sources.get(table, SourceTable()).value
        return frozenset(self._rules.value_prefix + name for name in known.nulls - known.columns.keys())

    def _in_order(self, schema: TableSchema) -> TableSchema:
        """Return the schema with the declared columns first, in their order."""
        places = {name: place for place, name in enumerate(self._rules.declared.names)}
        columns = sorted(schema.columns, key=lambda column: places.get(column.name, len(places)))
        return replace(schema, columns=tuple(columns))

    def row_schema(self, state: IngestState, table: TableId) -> TableSchema:
        """Return the columns of a table's rows in Spark, before a transform."""
        schema = self.message_schema(state, table)
        if self._rules.has_time:
            return schema
        texts = [(c.name, replace(STRING, nullable=c.type.nullable)) for c in schema.columns if c.type.root == "TIME"]
        return schema.with_types(texts)

    def message_schema(self, state: IngestState, table: TableId) -> TableSchema:
        """Return the columns as the messages have them: those of the keys, of the values, and of the records.

        Raises `SchemaChangeError` if two columns have the same name but for upper and lower case.
        """
        rules, known = self._rules, state.sources.get(table, SourceTable())
        values = {rules.value_prefix + name: t for name, t in known.value.columns.items()}
        keys = {rules.key_prefix + name: t for name, t in known.key.columns.items()}
        twice = sorted(keys.keys() & values.keys())
        if twice:
            self._tell(
                f"table {table}: the columns {', '.join(twice)} of the key are left out, because the value has them; "
                "'key.fields-prefix' keeps both"
            )
        columns = {name: t for name, t in keys.items() if name not in values} | values
        clash = columns.keys() & rules.metadata.keys()
        if clash:
            raise table_error(
                table,
                f"the messages have a column {min(clash)!r}, and so has the metadata of the record "
                "('metadata.list', or METADATA in the declared columns). Set 'value.fields-prefix', or declare the "
                "metadata with another name",
            )
        columns |= {name: parse_column_type(text) for name, text in rules.metadata.items()}
        _check_case(table, columns)
        if known.value.key is not None:
            key = tuple(rules.value_prefix + name for name in known.value.key)
        else:
            key = tuple(keys) if rules.has_changes else ()
        forms = {rules.key_prefix + name: f for name, f in known.key.forms.items()}
        forms = {name: f for name, f in forms.items() if name not in values}
        forms |= {rules.value_prefix + name: f for name, f in known.value.forms.items()}
        schema = TableSchema(tuple(SchemaColumn(name, nullable(t)) for name, t in columns.items()), key)
        return schema.with_forms(forms)

    def why_not(self, state: IngestState, table: TableId) -> str | None:
        """Return why the rows of a table can't be written yet, None if they can."""
        schema = self.schema(state, table)
        if not schema.columns:
            return "the messages have no column with a value yet"
        missing = [name for name in schema.primary_key if name not in schema.names]
        if missing:
            return (
                f"the key column {missing[0]!r} is not a column of the table, or had no value yet; its columns are "
                f"{', '.join(schema.names)}"
            )
        return None

    def _tell(self, text: str) -> None:
        """Log a warning once."""
        if text not in self._told:
            self._told.add(text)
            _LOG.warning("%s", text)


# --- schemas -------------------------------------------------------------------------------------------------


def _with_types(known: KnownTable, declared: Mapping[str, FlinkType]) -> KnownTable:
    """Return a table with declared columns, with the types that hold the known ones, too."""
    types = {name: merge_types(known.columns.get(name, t), t) for name, t in declared.items()}
    return replace(known, columns={**known.columns, **types})


def _forms(known: KnownTable, new: NewColumn) -> int | None:
    """Return the forms of a column's texts. A column that was there without texts has a declared type."""
    before, forms, current = known.forms.get(new.name), new.forms, known.columns.get(new.name)
    if before is None and current is not None:
        if current.root in INTEGER_DIGITS:
            before = WHOLE_NUMBERS
        elif forms is not None:
            forms &= ~INFERRED
    return merged_forms(before, forms)


def _with_key(schema: TableSchema) -> TableSchema:
    """Return the schema with key columns NOT NULL and all others nullable."""
    columns = (replace(c, type=replace(c.type, nullable=c.name not in schema.primary_key)) for c in schema.columns)
    return replace(schema, columns=tuple(columns))


def _difference(table: TableId, before: TableSchema | None, after: TableSchema) -> Iterable[SchemaEvent]:
    """Yield one event for new columns, which are at the end, and one for other types; or the new table."""
    if before is None:
        yield CreateTable(table, after)
        return
    known = {column.name: column.type for column in before.columns}
    added = [column for column in after.columns if column.name not in known]
    types = [(c.name, c.type) for c in after.columns if c.name in known and known[c.name] != c.type]
    if added:
        yield AddColumns(table, tuple(map(AddedColumn, added)))
    if types:
        yield AlterColumnTypes(table, tuple(types))


def _check_case(table: TableId, names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if folded_name(name) in _RESERVED or folded_name(name).startswith(_OWN_PREFIX):
            raise table_error(
                table,
                f"the messages have a column {name!r}, which is a name of kvformat's own columns; set "
                "'value.fields-prefix'",
            )
        other = seen.setdefault(folded_name(name), name)
        if other != name:
            raise table_error(
                table,
                f"the columns {other!r} and {name!r} differ in upper and lower case only, which Spark "
                "does not tell apart",
            )


def _changed_key(
    table: TableId, known: tuple[str, ...], other: tuple[str, ...], cause: Cause | None
) -> SchemaChangeError:
    where = "" if cause is None else f" (topic {cause.topic}, partition {cause.partition}, offset {cause.offset})"
    old, new = (", ".join(names) or "no key" for names in (known, other))
    return table_error(
        table,
        f"its primary key was ({old}), and is now ({new}){where}. Rows can't be merged by another key: "
        "set the key by 'primary-keys' of a transform, or write to a new target with a new checkpoint",
    )
