"""Replay recordings of real connectors through ingestion, and compare its tables with the databases' (no declarations).

A recording's options are those that its messages need: whether they have a schema, and where the schemas are. The keys
are those of the records, or of the messages.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs import KeyValueFormat
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
from tests.ingestion.history import SOURCE, BatchQuery
from tests.support import recordings
from tests.support.recordings import Record, Row, Table

_OPTION = re.compile(r"'([^']+)' = '([^']*)'")
_OF_MESSAGES = ("bytes.encoding", "changelog.mode", "flattened", "schema-include", "unchanged.columns", "url")
"""Options of formats that say what the messages look like. Others say how declared columns are read."""
_OF_TYPES = ("binary.handling.mode",)
"""Options that are also needed where the messages have schemas."""
_NUMBERS = ("int", "bool", "boolint", "float4", "float8", "bigtime")
_TEXTS = ("json", "text")
_KINDS = (pa.binary(), pa.binary(), pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", "UTC"))
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def source_options(recording: str, folder: Path) -> dict[str, str]:
    """Return the options of a source that reads a recording."""
    found: dict[str, str] = {}
    for table in recordings.tables(recording):
        found |= _OPTION.findall(table.statement(folder).partition(") WITH (")[2])
    name = found.get("value.format") or found["format"]
    short = {key.removeprefix("value.").removeprefix(f"{name}."): text for key, text in found.items()}
    typed = "url" in short or short.get("schema-include") == "true"
    kept = (*_OF_MESSAGES, *(_OF_TYPES if typed else ()))
    options = {"value.format": name, **{f"{name}.{key}": short[key] for key in kept if key in short}}
    if name.startswith("debezium"):
        options["key.format"] = "avro-confluent" if "url" in short else "json"
        if "url" in short:
            options = {key.replace(f"{name}.url", f"value.{name}.url"): text for key, text in options.items()}
            options["key.avro-confluent.url"] = short["url"]
    return options


def batches(records: list[Record], size: int) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the records of all topics and partitions in batches, in the order of their timestamps."""
    ordered = sorted(records, key=lambda record: record.timestamp)  # stable: offsets of a partition stay in order
    places: dict[tuple[str, int], int] = {}
    for record in ordered:
        assert record.offset > places.get((record.topic, record.partition), -1), "the timestamps are out of order"
        places[record.topic, record.partition] = record.offset
    for start in range(0, len(ordered), size):
        yield [_row(record) for record in ordered[start : start + size]]


def _row(record: Record) -> tuple[Any, ...]:
    time = dt.datetime.fromtimestamp(record.timestamp / 1000, dt.UTC)
    return record.key, record.value, record.topic, record.partition, record.offset, time, 0, None


def final_rows(table: Table, found: pa.Table, folder: Path) -> list[Row]:
    """Return the rows of an ingested table as `recordings.differences` compares them.

    Debezium's messages without a schema do not say what their values mean: `18266` may be a day. There, the values are
    read as those of a message by the declaration of the table, so they must be those of the messages.
    """
    if "debezium-json" in table.ddl and "'debezium-json.schema-include'" not in table.ddl.replace("value.", ""):
        return _read_by_declaration(table, found.to_pylist(), folder)
    columns = {name: recordings.plain(found.column(name).combine_chunks()) for name in found.column_names}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    binary = _binary_reader(table)
    return [{name: _as_kind(row.get(name), kind, binary) for name, kind in table.columns.items()} for row in rows]


def _as_kind(value: Any, kind: str, binary: Callable[[str], bytes]) -> Any:
    """Return a value of a STRING column as one of the database's kind."""
    if isinstance(value, list) and kind.startswith("list:"):
        return [_as_kind(item, kind.removeprefix("list:"), binary) for item in value]
    if not isinstance(value, str):
        return value
    if kind == "bytes":
        return binary(value)
    if kind in ("ts", "tstz"):
        return (dt.datetime.fromisoformat(value).replace(tzinfo=dt.UTC) - _EPOCH) // dt.timedelta(microseconds=1)
    return _number(value) if kind in _NUMBERS or kind == "set" else value


def _number(text: str) -> Any:
    """Return the value of a JSON text; the text itself if it is not JSON."""
    try:
        return json.loads(text, parse_constant=_refused)
    except ValueError:
        return text


def _refused(name: str) -> None:
    raise ValueError(name)  # NaN and infinities are texts in messages


def _binary_reader(table: Table) -> Callable[[str], bytes]:
    """Return how the texts of a connector are read as bytes."""
    if "ISO-8859-1" in table.ddl:
        return lambda text: text.encode("iso-8859-1")
    if "binary.handling.mode' = 'hex" in table.ddl:
        return bytes.fromhex
    url_safe = "binary.handling.mode' = 'base64-url-safe" in table.ddl
    return base64.urlsafe_b64decode if url_safe else base64.b64decode


def _read_by_declaration(table: Table, rows: list[Row], folder: Path) -> list[Row]:
    kv = KeyValueFormat.from_ddl(table.statement(folder))
    texts = {name for name, kind in table.columns.items() if kind in _TEXTS and f"`{name}` STRING" in table.ddl}
    values = [
        {name: _on_the_wire(row.get(name), kind, is_text=name in texts) for name, kind in table.columns.items()}
        for row in rows
    ]
    keys = [json.dumps({name: value[name] for name in table.key}).encode() for value in values]
    flat = "debezium-json.flattened" in table.ddl
    messages = [value if flat else {"before": None, "after": value, "op": "c"} for value in values]
    batch = kv.decode_batch(pa.array(keys), pa.array([json.dumps(message).encode() for message in messages]))
    assert batch.errors is None or batch.errors.null_count == len(batch.errors), batch.errors.drop_null()[0]
    read = batch.rows.flatten() if pa.types.is_list(batch.rows.type) else batch.rows
    columns = {column.name: recordings.plain(read.field(column.name)) for column in read.type}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _on_the_wire(value: Any, kind: str, *, is_text: bool) -> Any:
    """Return a value as the message had it. A STRING column has the JSON of numbers, booleans and objects as text."""
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, str) and (kind in _NUMBERS or (value[:1] in ("{", "[") and not is_text)):
        return _number(value)
    return value


class Replay(BatchQuery):
    """A query that ingests the records of a recording."""

    def __init__(self, spark: Any, folder: Path, recording: str, **more: Any) -> None:
        self.recorded = recordings.tables(recording)
        self.records = list(recordings.records(recording))
        options = source_options(recording, folder)
        more.setdefault("transform", [])
        super().__init__(spark, folder, options, **more)

    def run_all(self, size: int) -> int:
        """Run all records in batches, and return the number of batches."""
        count = 0
        for count, batch in enumerate(batches(self.records, size), 1):  # noqa: B007
            self.run(batch)
        return count

    def found(self, table: Table) -> Any:
        """Return the frame of a table."""
        memory = self._batch._memory
        assert memory is not None
        return self.table(table_of_recording(table, memory.state.schemas.targets).parts)


class FoldedReplay:
    """Ingests the records of a recording without Spark: looks, plans and decodes, and folds the rows by key."""

    def __init__(self, recording: str, folder: Path) -> None:
        self.recorded = recordings.tables(recording)
        self.pipeline = Pipeline({**SOURCE, **source_options(recording, folder)}, {"type": "parquet", "path": "x"})
        self._records = list(recordings.records(recording))
        self._rules = plan_rules(self.pipeline, quarantine=True)
        self._planner = Planner(self._rules, lambda *_: TableSchema(()))
        self.state = IngestState()
        self.errors: list[str] = []
        self._decoded: dict[TableId, list[tuple[TableSchema, pa.RecordBatch]]] = {}

    def run_all(self, size: int) -> int:
        """Run all records in batches, and return the number of batches."""
        count = 0
        for count, rows in enumerate(batches(self._records, size), 1):  # noqa: B007
            self._run(rows)
        return count

    def _run(self, rows: list[tuple[Any, ...]]) -> None:
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), _KINDS, strict=False)]
        records = pa.RecordBatch.from_arrays(columns, list(RECORD_COLUMNS[: len(columns)]))
        stage = look_stage(self.pipeline).knowing(self._planner.known(self.state))
        lines = pa.Table.from_batches(stage.mapped()(iter([records])))
        news = merged_news(lines[NEWS].drop_null().to_pylist())
        unread = unpacked(lines.filter(pc.and_(lines[TABLE].is_null(), lines[NEWS].is_null())))
        self.errors += [error for batch in unread for error in batch[ERROR].to_pylist()]
        self.state = self._planner.plan(self.state, news).state
        for table in sorted(news.tables):
            if table in self.state.schemas.targets and table not in self.state.quarantined:
                for own in unpacked(lines.filter(pc.equal(lines[TABLE], table_name(table)))):
                    self._decode(table, own)

    def _decode(self, table: TableId, records: pa.RecordBatch) -> None:
        source, after = self.pipeline.source, self.state.schemas.targets[table]
        assert source.value_format is not None
        schema = replace(self._planner.message_schema(self.state, table), primary_key=after.primary_key)
        layout, flat = layout_of(self.state.sources[table], schema, self._rules, source.value_format, source.key_format)
        decoder = TableDecoder(table, layout, schema, (), after, not after.primary_key, "UTC", flat)
        rows = decoder.decoded(records.append_column(TIMESTAMP, records["timestamp"].cast(pa.int64())))
        self._decoded.setdefault(table, []).append((after, rows))

    def types(self, table: Table) -> dict[str, str]:
        """Return the types of a table's columns."""
        schema = self.state.schemas.targets[table_of_recording(table, self._decoded)]
        return {column.name: str(column.type) for column in schema.columns}

    def found(self, table: Table) -> pa.Table:
        """Return the last row of each key of a table. Add the errors of its records to `errors`."""
        name = table_of_recording(table, self._decoded)
        final = self.state.schemas.targets[name]
        parts, kinds, unchanged = [], list[str](), list[Any]()
        for schema, rows in self._decoded[name]:
            self.errors += [error["reason"] for error in rows[ROW_ERROR].drop_null().to_pylist()]
            good = rows.filter(pc.invert(rows[ROW_ERROR].is_valid()))
            rows = good.sort_by([(place, "ascending") for place in (*POSITION, ROW_INDEX)])
            count = len(schema.columns)
            struct = pa.StructArray.from_arrays(rows.columns[:count], names=[f"c{n}" for n in range(count)])
            parts.append(pa.Table.from_arrays(fit_rows(struct, schema, final, "UTC").rows.flatten(), final.names))
            kinds += rows[ROW_KIND].to_pylist()
            unchanged += rows[f"c{count}"].to_pylist() if f"c{count}" in rows.schema.names else [None] * len(rows)
        made = pa.concat_tables(parts).combine_chunks()
        keys = zip(*(map(str, recordings.plain(made[key].combine_chunks())) for key in final.primary_key), strict=True)
        now: dict[Any, dict[str, int]] = {}
        before: dict[Any, dict[str, int]] = {}
        for at, (kind, key, missing) in enumerate(zip(kinds, keys, unchanged, strict=True)):
            if kind in ("-U", "-D"):
                before[key] = now.pop(key, {})
                continue
            old = now.get(key) or (before.get(key, {}) if kind == "+U" else {})
            now[key] = dict.fromkeys(final.names, at) | {c: old[c] for c in missing or () if c in old}
        taken = {c: made[c].take(pa.array([row[c] for row in now.values()], pa.int64())) for c in final.names}
        return pa.table(taken)


def unpacked(lines: pa.Table) -> list[pa.RecordBatch]:
    """Return the records of some lines of a look."""
    return list(unpack(iter(lines.select([PACKED]).to_batches())))


def table_of_recording(table: Table, found: Iterable[TableId]) -> TableId:
    """Return the name that ingestion gives to a table."""
    parts = tuple(table.name.split("."))
    hits = [name for name in found if name.parts[-len(parts) :] == parts or name.parts == (table.topic,)]
    assert len(hits) == 1, (table.name, list(found))
    return hits[0]
