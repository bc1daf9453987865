"""The computed columns of a table, evaluated for the rows of decoded records, in Arrow and without Spark.

A record whose row Flink could not compute is a bad record, with the column and the reason. This is possible here,
where the bytes of the record are still known. A query on decoded rows could only fail.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import pyarrow as pa

from kvformat.registry.contract.error_codes import Reason
from kvformat.registry.contract.errors import ConfigurationError, did_you_mean
from kvformat.registry.contract.isolate_errors import isolate_errors
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable
from kvformat.registry.expressions.bound import Bound
from kvformat.registry.expressions.casts import bind_cast
from kvformat.registry.expressions.local_times import session_zone
from kvformat.registry.expressions.rows import Rows, Session
from kvformat.registry.sql.expressions import read_expression, uses_current_time
from kvformat.registry.sql.table_definition import TableDefinition
from kvformat.registry.table.metadata import MetadataColumn


@dataclass(frozen=True)
class ComputedColumns:
    """Computed columns as plain data, which can be pickled.

    columns: names with expressions in Flink SQL. `decoded` and `declared` are the types of the columns that the
    expressions may use, as decoded and as the table declares them; they differ for metadata. `zone` is the session's
    time zone.
    """

    table: str
    columns: tuple[tuple[str, str], ...]
    decoded: tuple[tuple[str, FlinkType], ...]
    declared: tuple[tuple[str, FlinkType], ...]
    zone: str

    @property
    def uses_now(self) -> bool:
        """Whether a value depends on the current time."""
        return any(uses_current_time(source) for _, source in self.columns)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the columns that the expressions may use, in the order that `evaluate` takes them."""
        return tuple(name for name, _ in self.decoded)

    @property
    def types(self) -> tuple[FlinkType, ...]:
        """The types of the columns. Raises `SchemaError` for an expression that can't be evaluated."""
        return tuple(nullable(bound.type) for bound in self._bound())

    def evaluate(self, inputs: Sequence[pa.Array], length: int, now: int) -> tuple[list[pa.Array], dict[int, str]]:
        """Return the columns for some rows, and the reason for each row that failed; its values are NULL.

        `now` is the current time in microseconds since 1970.
        """
        arrays = dict(zip(self.inputs, inputs, strict=True))
        rows = Rows(arrays, dict(self.decoded), length, Session(self.zone, now))
        columns: list[pa.Array] = []
        reasons: dict[int, str] = {}
        for (name, _), bound in zip(self.columns, self._bound(), strict=True):
            where = f"computed column '{name}' of table '{self.table}'"
            column, failures = _evaluated(bound, rows, where)
            columns.append(column)
            for index, reason in failures.items():
                reasons.setdefault(index, reason)
        return columns, reasons

    def _bound(self) -> tuple[Bound, ...]:
        return _bind_all(self.columns, self.decoded, self.declared)


def _evaluated(bound: Bound, rows: Rows, where: str) -> tuple[pa.Array, dict[int, str]]:
    """Return the values of an expression and the reasons of failed rows; an exception only fails the rows it is for."""

    def run(start: int, count: int) -> tuple[pa.Array, dict[int, str]]:
        part = rows.part(start, count)
        return bound.evaluate(part).array(), {index: f"{where}: {reason}" for index, reason in part.failures.items()}

    def failed(count: int, reason: Reason) -> tuple[pa.Array, dict[int, str]]:
        return pa.nulls(count, arrow_type(nullable(bound.type))), dict.fromkeys(range(count), reason.text)

    def join(parts: list[tuple[pa.Array, dict[int, str]]]) -> tuple[pa.Array, dict[int, str]]:
        starts = accumulate((len(array) for array, _ in parts), initial=0)
        failures = {
            start + index: reason
            for start, (_, part_failures) in zip(starts, parts, strict=False)
            for index, reason in part_failures.items()
        }
        return pa.concat_arrays([array for array, _ in parts]), failures

    return isolate_errors(run, rows.length, failed=failed, join=join, what=where)


@functools.lru_cache(maxsize=64)
def _bind_all(
    columns: tuple[tuple[str, str], ...],
    input_types: tuple[tuple[str, FlinkType], ...],
    declared: tuple[tuple[str, FlinkType], ...],
) -> tuple[Bound, ...]:
    """Return the typed expressions. A worker binds them once, not for each batch."""
    types, row = dict(input_types), dict(declared)
    casts = {name: bind_cast(_column(name, types[name]), type_) for name, type_ in row.items() if types[name] != type_}
    return tuple(read_expression(source, row, casts) for _, source in columns)


def _column(name: str, type_: FlinkType) -> Bound:
    return Bound(type_, lambda rows: rows.column(name))


def computed_columns(table: TableDefinition, metadata: Sequence[MetadataColumn], zone: str) -> ComputedColumns | None:
    """Return the computed columns of a table whose metadata columns are `metadata`; None if it has none.

    `zone` is the session's time zone. Raises `ConfigurationError` for a column that can't be evaluated.
    """
    columns = [column for column in table.columns if column.kind == "computed"]
    if not columns:
        return None
    for column in columns:
        if column.refused:
            raise ConfigurationError(
                f"computed column '{column.name}' of table '{table.name}' can't be evaluated. {column.refused}",
                field=column.name,
            )
    try:
        session_zone(zone)
    except ValueError as error:
        raise ConfigurationError(
            f"the session's time zone {zone!r} is not known, and computed columns need it: {error}",
            option="spark.sql.session.timeZone",
        ) from None
    declared = {c.name: nullable(c.type) for c in table.columns if c.kind == "physical" and c.type is not None}
    input_types = dict(declared)
    declared |= {column.name: nullable(column.declared) for column in metadata}
    input_types |= {column.name: nullable(column.key_type) for column in metadata}
    return ComputedColumns(
        table.name,
        tuple((column.name, column.source) for column in columns),
        tuple(input_types.items()),
        tuple(declared.items()),
        zone,
    )


def without_computed(table: TableDefinition, names: Sequence[str]) -> TableDefinition:
    """Return the table without some computed columns. Raises `ConfigurationError` for a name that is not one."""
    computed = [column.name for column in table.columns if column.kind == "computed"]
    for name in names:
        if name not in computed:
            raise ConfigurationError(
                f"skip_computed: table '{table.name}' has no computed column '{name}'."
                f"{did_you_mean(name, computed)} Its computed columns: {', '.join(computed) or 'none'}",
                field=name,
            )
        if table.watermark is not None and table.watermark.column == name:
            raise ConfigurationError(
                f"skip_computed: the WATERMARK of table '{table.name}' needs column '{name}'; remove the WATERMARK of "
                "the DDL too",
                field=name,
            )
    return replace(table, columns=tuple(column for column in table.columns if column.name not in names))
