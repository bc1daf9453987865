"""Decode the records of a batch: the rows of small tables in the driver, the others with Spark.

A target that takes Arrow rows gets those of small tables from the driver. The job of the look decodes the tables that
earlier batches have decoded, and returns the rows together with the news. Rows that a task may not return, but that fit
the driver, are fetched by a second job. A third one decodes the other small tables. So the number of jobs does not grow
with the number of tables.

Other rows stay with Spark. The records stay in memory or on disk until their rows do, packed by table. There is no
shuffle: each table reads its cells by a filter on `_kvformat_table`. With several known tables, the cells of a
partition are sorted by their table, so the filter skips whole blocks by their smallest and largest value. One task
decodes a table that has few records in the batch, so its rows are grouped by their key without a shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kvformat.ingestion import transforming
from kvformat.ingestion.decode import FitStage, TableDecoder, layout_of
from kvformat.ingestion.decoded_rows import ROW_ERROR, DecodedRows, with_bad_records
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.spark.decoded_columns import exact_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kvformat.ingestion.looking import Looking
    from kvformat.ingestion.pipeline.pipeline import Pipeline
    from kvformat.ingestion.planning import BatchNews
    from kvformat.ingestion.query_memory import QueryMemory
    from kvformat.ingestion.schemas.known import IngestState
    from kvformat.ingestion.schemas.table_id import TableId
    from kvformat.ingestion.schemas.table_schema import TableSchema
    from kvformat.registry.table.metadata import MetadataColumn

_ROW_BYTES = 100  # of a row, about; a job whose rows are too many for the driver decodes them for nothing
_FEW = 10_000  # records of a table in a batch that one task decodes: as many as Spark gives to Python at once


@dataclass(frozen=True)
class SourceRows:
    """The rows of a source table for one of its targets. is_fitted: whether a transform has made them."""

    source: TableId
    target: TableId
    rows: DataFrame
    is_fitted: bool


@dataclass(frozen=True)
class BatchRows:
    """The rows of a batch.

    looked: the look that they are from. refused: source tables whose records are bad, and why. frames: rows that are
    with Spark. returned: those in the driver by source table, with lines for bad records. bad: decoded rows among which
    are bad ones.
    """

    looked: Looking
    refused: Mapping[TableId, str]
    decoders: Mapping[TableId, TableDecoder]
    frames: list[SourceRows]
    returned: Mapping[TableId, pa.Table]
    bad: list[DecodedRows]


@dataclass(frozen=True)
class BatchDecoder:
    """Decodes a batch for its plan. state: the tables after the batch. cached: keeps a DataFrame until its end."""

    pipeline: Pipeline
    memory: QueryMemory
    state: IngestState
    time_zone: str
    metadata: tuple[MetadataColumn, ...]
    cached: Callable[[DataFrame], DataFrame]

    def rows(self, looked: Looking, look_again: Callable[[], Looking], truncated: Iterable[TableId]) -> BatchRows:
        """Return the rows. Those of the look are used if its decoders are those of the plan.

        `truncated` are targets whose rows are divided by a TRUNCATE, so they stay with Spark.
        """
        news, planner = looked.news, self.memory.planner
        refusals = {table: planner.refusal(self.state, table) for table in news.tables}
        refused = {table: why for table, why in refusals.items() if why is not None}
        decoders = {
            table: self._decoder(table, few=news.records[table] <= _FEW)
            for table in sorted(news.tables.keys() - refused.keys())
        }
        if looked.decoders:
            usable = usable_rows(news, {t: kept.decoder for t, kept in self.memory.decoders.items()}, decoders)
            if usable is None:
                looked.lines.unpersist()
                looked = look_again()
            else:
                looked = replace(looked, decoders={table: decoders[table] for table in usable})
        looked = self._with_returned(looked, decoders, {*truncated})
        frames: list[SourceRows] = []
        decoded: list[DecodedRows] = []
        for table, decoder in decoders.items():
            if table not in looked.rows:
                self._add_frames(looked, table, decoder, frames, decoded)
        by_look = [rows for rows in decoded if rows.table in looked.decoders and news.bad.get(rows.table)]
        bad = [*by_look, *with_bad_records([rows for rows in decoded if rows.table not in looked.decoders])]
        returned = {table: _named(rows, decoders[table]) for table, rows in looked.rows.items()}
        return BatchRows(looked, refused, decoders, frames, returned, bad)

    def reusable(self, rows: BatchRows) -> list[TableDecoder]:
        """Return the decoders that the next look may use: those whose rows go to one table as they are."""
        in_driver = self.memory.target.driver_max_bytes > 0
        return [d for t, d in rows.decoders.items() if self._is_plain(t) and (in_driver or not d.in_one_task)]

    # --- rows in the driver --------------------------------------------------------------------------------

    def _with_returned(
        self, looked: Looking, decoders: Mapping[TableId, TableDecoder], truncated: set[TableId]
    ) -> Looking:
        """Return the look with the rows of small tables, for a target that takes them from the driver.

        Rows of a target stay with Spark if those of one of its sources do.
        """
        most, news = self.memory.target.driver_max_bytes, looked.news
        if not most:
            return replace(looked, rows={})
        sources: dict[TableId, list[TableId]] = {}
        for table in decoders:
            for target in self.memory.planner.targets(self.state, table):
                sources.setdefault(target, []).append(table)
        groups = [
            tables
            for target, tables in sources.items()
            if target not in truncated and all(self._can_return(decoders[table]) for table in tables)
        ]
        small = {
            table: decoders[table]
            for tables in groups
            for table in tables
            if table not in looked.decoders and news.records[table] <= most // _ROW_BYTES
        }
        rows = dict(looked.rows)
        left = most - sum(of_table.nbytes for of_table in rows.values())
        known = [t for tables in groups for t in tables if t in looked.decoders and t not in rows]
        fetched = []
        for table in sorted(known, key=lambda table: news.sizes[table]):
            if news.sizes[table] <= left:
                left -= news.sizes[table]
                fetched.append(table)
        if fetched:
            rows |= looked.fetched(fetched)
        if small and left > 0:
            rows |= looked.decoded_together(small, left // news.tasks)
        return replace(
            looked, rows={table: rows[table] for tables in groups if rows.keys() >= {*tables} for table in tables}
        )

    def _can_return(self, decoder: TableDecoder) -> bool:
        """Whether the rows of a table can be written from the driver, if they are few."""
        return self._is_plain(decoder.table) and decoder.in_arrow

    # --- rows with Spark -----------------------------------------------------------------------------------

    def _add_frames(
        self,
        looked: Looking,
        table: TableId,
        decoder: TableDecoder,
        frames: list[SourceRows],
        decoded: list[DecodedRows],
    ) -> None:
        """Add the rows of a source table for each of its targets to `frames`, and those with errors to `decoded`."""
        targets = self.memory.planner.targets(self.state, table)
        rows = decoder.rows(looked)
        if table not in looked.decoders:
            rows = self._cached(rows)
        decoded.append(rows)
        good = rows.rows().where(exact_column(ROW_ERROR).isNull())
        if self._is_plain(table):
            frames.append(SourceRows(table, targets[0], good, is_fitted=False))
            return
        rule, after = self.memory.rules.rule(table), self.state.schemas.sources[table]
        if rule is not None and transforming.needs_rows(rule):
            good = transforming.transformed(
                good,
                rule,
                table,
                self._in_spark(table),
                nulls=self.memory.planner.nulls(self.state, table),
                changes=self.memory.target.rows == "changes",
                upserts=decoder.layout.by_key,
            )
        for target in targets:
            fitted = self._cached(FitStage(table, after, self._expected(target), self.time_zone).fitted(good))
            decoded.append(fitted)
            good_rows = fitted.rows().where(exact_column(ROW_ERROR).isNull())
            frames.append(SourceRows(table, target, good_rows, is_fitted=True))

    def _cached(self, rows: DecodedRows) -> DecodedRows:
        return replace(rows, lines=self.cached(rows.lines))

    # --- decoders ------------------------------------------------------------------------------------------

    def _decoder(self, table: TableId, *, few: bool) -> TableDecoder:
        """Return the decoder of a source table; `few` says that one task decodes all records."""
        state, is_plain = self.state, self._is_plain(table)
        columns = self._expected(self.memory.planner.targets(state, table)[0]) if is_plain else None
        inputs = few, self.time_zone, state.sources[table], state.schemas.sources[table], columns
        return self.memory.decoder(table, inputs, lambda: self._create_decoder(table, columns, few=few))

    def _create_decoder(self, table: TableId, columns: TableSchema | None, *, few: bool) -> TableDecoder:
        memory, source = self.memory, self.pipeline.source
        assert source.value_format is not None
        after = self.state.schemas.sources[table]
        schema = replace(memory.planner.message_schema(self.state, table), primary_key=after.primary_key)
        if columns is not None:
            fitted: TableSchema | None = memory.target.stored(columns)
        else:
            in_spark = self._in_spark(table)
            fitted = in_spark if in_spark != schema else None
        layout, flat = layout_of(
            self.state.sources[table],
            schema,
            memory.rules,
            source.value_format,
            source.key_format,
            flatten=bool(source.values.get("json.infer-schema.flatten-nested-columns.enable")),
        )
        if layout.value_format.own_columns and columns is None:
            raise ConfigurationError(
                f"table {table}: 'unchanged.columns' = 'keep' needs rows that go to one table as they are. Remove the "
                "projection, the filter, and the routes to several tables, or the option"
            )
        decoder = TableDecoder(
            table,
            layout,
            schema,
            self.metadata,
            fitted,
            not after.primary_key and memory.target.rows != "changes",
            self.time_zone,
            flat,
            few,
            source.declared.not_null,
        )
        return replace(decoder, last_only=columns is not None and decoder.in_arrow and memory.target.rows == "latest")

    def _is_plain(self, table: TableId) -> bool:
        """Whether the rows of a source table go to one target as they are decoded, without a transform."""
        rule, targets = self.memory.rules.rule(table), self.memory.planner.targets(self.state, table)
        return not transforming.needs_rows(rule) and len(targets) == 1

    def _in_spark(self, table: TableId) -> TableSchema:
        """Return the columns of a source table before its transform."""
        key = self.state.schemas.sources[table].primary_key
        return replace(self.memory.planner.row_schema(self.state, table), primary_key=key)

    def _expected(self, target: TableId) -> TableSchema:
        """Return the columns that rows of a target are fitted to: the target's, as far as it is known."""
        return self.memory.tables.expected(target, self.state.schemas.targets[target])


def usable_rows(
    news: BatchNews, used: Mapping[TableId, object], planned: Mapping[TableId, object]
) -> list[TableId] | None:
    """Return the tables whose rows the look has, None if the plan needs the rows of other decoders.

    `used` and `planned` are the decoders by table: those of the look, and those of the plan.
    """
    good = all(count == news.records[t] and planned.get(t) == used[t] for t, count in news.decoded.items())
    return [*news.decoded] if good else None


def _named(rows: pa.Table, decoder: TableDecoder) -> pa.Table:
    """Return rows with the names of a table's columns."""
    names = decoder.result.names
    return rows.rename_columns([*names, *rows.column_names[len(names) :]])
