"""What a change of a source table's schema does to its target tables.

| behavior | changes of the target |
| --- | --- |
| `lenient` | columns are added, nullable and at the end, and change their types; none is dropped or renamed |
| `evolve` | the same as at the source, as far as messages tell it |
| `try_evolve` | as `evolve`, but a change that the target does not support is left out |
| `ignore` | tables are created, and nothing else |
| `exception` | tables are created; any other change stops the query |

A target with one source gets its changes. A target with several sources gets the difference to the merged schema. A
change that was made before is left out.

No format reports that a column was dropped or renamed: the statements of a source have no place among the rows of
other partitions, so rows with the old name may come after them. These two changes come from merged schemas, and from
callers that know them.

A name that is dropped or renamed in `lenient` may come back. The kept column is used again then, and its type is
merged; Flink CDC adds a second column of that name.
Rules: Flink CDC's `SchemaDerivator` and `SchemaCoordinator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from typing import get_args

from kvformat.ingestion.errors import table_error
from kvformat.ingestion.pipeline.routes import Router
from kvformat.ingestion.schemas import events
from kvformat.ingestion.schemas.state import SchemaState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema, check_same_key, merge_schemas
from kvformat.ingestion.schemas.types import merge_types
from kvformat.registry.contract.errors import OptionError, did_you_mean, listed
from kvformat.registry.contract.types import FlinkType

TAGS = (*(event.tag for event in get_args(events.SchemaEvent)), "alter.table.comment")
"""The kinds of changes. No source reports a changed comment, but Flink CDC has a tag for it."""
_FAMILIES = ("add", "alter", "create", "drop", "rename", "table", "column", "all")
_ALWAYS_TRIED = "create.table"
_NOT_LENIENT = ("drop.table", "truncate.table")


class SchemaChangeBehavior(StrEnum):
    """The option `schema.change.behavior`."""

    LENIENT = "lenient"
    EVOLVE = "evolve"
    TRY_EVOLVE = "try_evolve"
    IGNORE = "ignore"
    EXCEPTION = "exception"


def accepted_tags(
    include: Iterable[str], exclude: Iterable[str] | None, behavior: SchemaChangeBehavior
) -> frozenset[str]:
    """Return the kinds of changes that a sink takes, from `include.schema.changes` and `exclude.schema.changes`.

    Nothing included means all. A table is always created, unless `create.table` is excluded. `exclude` is None if the
    option is not set. Then `lenient` excludes dropped and truncated tables.
    """
    included = _tags(include, "include.schema.changes") or {*TAGS}
    if exclude is not None:
        excluded = _tags(exclude, "exclude.schema.changes")
    else:
        excluded = {*_NOT_LENIENT} if behavior is SchemaChangeBehavior.LENIENT else set()
    return frozenset((included | {_ALWAYS_TRIED}) - excluded)


def _tags(names: Iterable[str], option: str) -> set[str]:
    tags: set[str] = set()
    for name in names:
        named = {tag for tag in TAGS if name == tag or _is_of_family(tag, name)}
        if not named:
            known = (*TAGS, *_FAMILIES)
            raise OptionError(
                f"'{option}' has {name!r}, which is not a kind of schema change.{did_you_mean(name, known)} Kinds: "
                f"{listed(known)}",
                option=option,
            )
        tags |= named
    return tags


def _is_of_family(tag: str, family: str) -> bool:
    """Whether a tag is of a family. `alter` has only types of columns, as in Flink CDC."""
    if family not in _FAMILIES:
        return False
    first, *rest = tag.split(".")
    if family == "alter":
        return tag == events.AlterColumnTypes.tag
    if tag == "alter.table.comment":
        return family in ("table", "all")
    return family in (first, rest[0], "all")


class SchemaEvolution:
    """Plans the changes of target tables. It keeps no state; `SchemaState` has the known schemas."""

    def __init__(self, router: Router, behavior: SchemaChangeBehavior, accepted: frozenset[str]) -> None:
        self.router, self._behavior, self._accepted = router, behavior, accepted

    def plan(self, state: SchemaState, event: events.SchemaEvent) -> tuple[SchemaState, tuple[events.SchemaEvent, ...]]:
        """Return the state with the changed source table, and the changes of its target tables.

        `SchemaState.change_target` applies a change of a target to the state, after the target took it. Raises
        `SchemaChangeError` for a change of an unknown table, for sources of one target with different keys, and in
        `exception` for any change but a new table.
        """
        known = state.sources.get(event.table)
        if known is None and not isinstance(event, events.CreateTable):
            raise table_error(event.table, f"{event.tag} comes before the table is created")
        if known is not None and event.is_done(known):
            return state, ()
        state = state.change_source(event)
        planned: list[events.SchemaEvent] = []
        for target in self.router.targets(event.table):
            planned += self._changes_of(state, target, event)
        if self._behavior is SchemaChangeBehavior.EXCEPTION:
            for change in planned:
                if not isinstance(change, events.CreateTable):
                    raise table_error(
                        change.table,
                        f"its schema changes ({change.tag}, caused by the table {event.table}), "
                        "and 'schema.change.behavior' is exception",
                    )
        return state, tuple(planned)

    def _changes_of(self, state: SchemaState, target: TableId, event: events.SchemaEvent) -> list[events.SchemaEvent]:
        """Return the accepted changes of one target."""
        known = state.targets.get(target)
        feeding = sorted(table for table in state.sources if target in self.router.targets(table))
        sources = [(str(table), state.sources[table]) for table in feeding]
        changes: Iterable[events.SchemaEvent] = (replace(event, table=target),)
        if len(sources) > 1:
            check_same_key(sources, str(target))
            merged = known
            for _, schema in sources:
                merged = merge_schemas(merged, schema)
            assert merged is not None
            changes = events.schema_difference(target, known, merged)
        if self._behavior is SchemaChangeBehavior.IGNORE:
            changes = (change for change in changes if isinstance(change, events.CreateTable))
        elif known is not None:
            changes = (each for change in changes for each in self._fitting(known, change))
        return [change for change in changes if change.tag in self._accepted]

    def _fitting(self, known: TableSchema, change: events.SchemaEvent) -> Iterator[events.SchemaEvent]:
        """Yield the changes of a target instead of one that its sources ask for."""
        if self._behavior is SchemaChangeBehavior.LENIENT:
            if isinstance(change, events.RenameColumns):
                yield from _keep_renamed(known, change)
                return
            if isinstance(change, events.DropColumns):
                yield from _make_nullable(known, change.table, change.columns)
                return
            if isinstance(change, events.AddColumns):
                added = (events.AddedColumn(a.column.as_nullable()) for a in change.columns)
                change = replace(change, columns=tuple(added))
        if isinstance(change, events.AddColumns):
            yield from _add_missing(known, change)
        else:
            yield change


def _keep_renamed(known: TableSchema, change: events.RenameColumns) -> Iterator[events.SchemaEvent]:
    """Add the new names, and make the old columns nullable."""
    added = []
    for old, new in change.names:
        column = known.column(old)
        if column is None:
            raise table_error(
                change.table,
                f"column {old!r} is renamed to {new!r}, and the target does not have it; its "
                f"columns are {', '.join(known.names)}",
            )
        added.append(events.AddedColumn(replace(column, name=new).as_nullable()))
    yield from _add_missing(known, events.AddColumns(change.table, tuple(added)))
    yield from _make_nullable(known, change.table, [old for old, _ in change.names])


def _make_nullable(known: TableSchema, table: TableId, names: Iterable[str]) -> Iterator[events.SchemaEvent]:
    kept = {*names}
    types = [(c.name, replace(c.type, nullable=True)) for c in known.columns if c.name in kept and not c.type.nullable]
    if types:
        yield events.AlterColumnTypes(table, tuple(types))


def _add_missing(known: TableSchema, change: events.AddColumns) -> Iterator[events.SchemaEvent]:
    """Add the columns that the target lacks, and merge the types of those that it kept."""
    missing, types = [], list[tuple[str, FlinkType]]()
    for added in change.columns:
        kept = known.column(added.column.name)
        if kept is None:
            missing.append(added)
        elif (merged := merge_types(kept.type, replace(added.column.type, nullable=True))) != kept.type:
            types.append((kept.name, merged))
    if missing:
        yield replace(change, columns=tuple(missing))
    if types:
        yield events.AlterColumnTypes(change.table, tuple(types))
