"""Ingests messages without Spark: look, plan, decode, last row of each key. For tests that compare batchings."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.ingestion import Pipeline
from kvformat.ingestion.decode import TableDecoder, layout_of
from kvformat.ingestion.decoded_rows import POSITION, ROW_ERROR, TIMESTAMP
from kvformat.ingestion.looking import ERROR, NEWS, RECORD_COLUMNS, TABLE, merged_news, table_name
from kvformat.ingestion.packing import PACKED, unpack
from kvformat.ingestion.planning import Planner
from kvformat.ingestion.rules import look_stage, plan_rules
from kvformat.ingestion.schemas.coerce import fit_rows
from kvformat.ingestion.schemas.known import IngestState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND

SOURCE = {
    "type": "kafka",
    "topic": "t",
    "properties.bootstrap.servers": "127.0.0.1:9",
    "scan.startup.mode": "earliest-offset",
}
_TYPES = (pa.binary(), pa.binary(), pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", "UTC"))
_START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)

Message = Any
"""A value as text or as an object for JSON; or a tuple of key, value and, if wanted, topic."""


def change(op: str, before: Any = None, after: Any = None, **source: Any) -> dict[str, Any]:
    """Return a message of Debezium."""
    return {"before": before, "after": after, "op": op, "source": {"db": "shop", "table": "o", **source}}


class Folded:
    """Tables that grow with each batch."""

    def __init__(
        self, value_format: str, options: Mapping[str, str] | None = None, key: str = "", time_zone: str = "UTC"
    ) -> None:
        """Ingest messages of a format, with options of the source. `key` are the `primary-keys` of all tables."""
        names = ("\\.*.\\.*.\\.*", "\\.*.\\.*", "\\.*") if key else ()
        self.pipeline = Pipeline(
            {**SOURCE, "value.format": value_format, **(options or {})},
            {"type": "delta", "path": "x"},
            transform=[{"source-table": name, "primary-keys": key} for name in names],
        )
        self._rules, self._time_zone = plan_rules(self.pipeline, quarantine=False), time_zone
        self._planner = Planner(self._rules, lambda *_: TableSchema(()))
        self.state, self.errors = IngestState(), list[str]()
        self._rows: dict[TableId, list[tuple[TableSchema, pa.RecordBatch]]] = {}
        self._offset = 0

    def add(self, messages: Iterable[Message]) -> Folded:
        """Ingest a batch."""
        records = self._records(messages)
        stage = look_stage(self.pipeline).knowing(self._planner.known(self.state))
        lines = pa.Table.from_batches(stage.mapped()(iter([records])))
        news = merged_news(lines[NEWS].drop_null().to_pylist())
        for batch in _unpacked(lines.filter(pc.and_(lines[TABLE].is_null(), lines[NEWS].is_null()))):
            self.errors += batch[ERROR].to_pylist()
        self.state = self._planner.plan(self.state, news).state
        for table in sorted(news.tables):
            if table not in self.state.schemas.targets:
                self.errors.append(f"not decoded: {self._planner.why_not(self.state, table)}")
                continue
            for batch in _unpacked(lines.filter(pc.equal(lines[TABLE], table_name(table)))):
                self._decode(table, batch)
        return self

    def types(self, table: str) -> dict[str, str]:
        """Return the types of a table's columns."""
        return {c.name: str(c.type) for c in self.state.schemas.targets[TableId.parse(table)].columns}

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of all tables, sorted: the last of each key, or all of them."""
        return {str(table): sorted(self._latest(table), key=str) for table in sorted(self._rows)}

    def _records(self, messages: Iterable[Message]) -> pa.RecordBatch:
        rows = []
        for message in messages:
            key, value, *topic = message if isinstance(message, tuple) else (None, message)
            self._offset += 1
            time = _START + dt.timedelta(seconds=self._offset)
            rows.append((_bytes(key), _bytes(value), *(topic or ["t"]), 0, self._offset, time))
        columns = [pa.array(column, t) for column, t in zip(zip(*rows, strict=True), _TYPES, strict=True)]
        return pa.RecordBatch.from_arrays(columns, list(RECORD_COLUMNS[: len(columns)]))

    def _decode(self, table: TableId, records: pa.RecordBatch) -> None:
        source, after = self.pipeline.source, self.state.schemas.targets[table]
        schema = replace(self._planner.message_schema(self.state, table), primary_key=after.primary_key)
        formats = source.value_format, source.key_format
        layout, flat = layout_of(self.state.sources[table], schema, self._rules, *formats)
        decoder = TableDecoder(table, layout, schema, (), after, not after.primary_key, self._time_zone, flat)
        rows = decoder.decoded(records.append_column(TIMESTAMP, records["timestamp"].cast(pa.int64())))
        self.errors += [error["reason"] for error in rows[ROW_ERROR].drop_null().to_pylist()]
        self._rows.setdefault(table, []).append((after, rows.filter(pc.invert(rows[ROW_ERROR].is_valid()))))

    def _latest(self, table: TableId) -> list[dict[str, Any]]:
        """Return the rows with the types of now, as the targets convert them."""
        final, now, before = self.state.schemas.targets[table], dict[Any, Any](), dict[Any, Any]()
        for number, (schema, batch) in enumerate(self._rows[table]):
            rows = batch.sort_by([(name, "ascending") for name in (*POSITION, ROW_INDEX)])
            size = len(schema.columns)
            found = pa.StructArray.from_arrays(rows.columns[:size], names=[f"c{n}" for n in range(size)])
            values = fit_rows(found, schema, final, self._time_zone).rows.to_pylist()
            unchanged = rows[f"c{size}"].to_pylist() if f"c{size}" in rows.schema.names else [None] * len(rows)
            kinds = rows[ROW_KIND].to_pylist()
            for place, (row, kind, left_out) in enumerate(zip(values, kinds, unchanged, strict=True)):
                key: Sequence[Any] = [row[name] for name in final.primary_key] or [number, place]
                if kind in ("-U", "-D"):
                    before[str(key)] = now.pop(str(key), {})
                    continue
                old = now.get(str(key)) or (before.get(str(key), {}) if kind == "+U" else {})
                now[str(key)] = row | {name: old[name] for name in left_out or () if name in old}
        return list(now.values())


def batchings(messages: Sequence[Message]) -> list[list[Sequence[Message]]]:
    """Return the messages as one batch, as batches of one, and split at every place."""
    splits = [[messages[:place], messages[place:]] for place in range(1, len(messages))]
    return [[messages], [[message] for message in messages], *splits]


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()


def _unpacked(lines: pa.Table) -> list[pa.RecordBatch]:
    return list(unpack(iter(lines.select([PACKED]).to_batches())))
