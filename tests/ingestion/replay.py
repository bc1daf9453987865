"""Replay recordings of real connectors through ingestion, and compare its tables with the databases' (no declarations).

A recording's options are those that its messages need: whether they have a schema, and where the schemas are. The keys
are those of the records, or of the messages.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
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
from tests.ingestion.history import SOURCE
from tests.support import recordings
from tests.support.recordings import Record, Row, Table

_OPTION = re.compile(r"'([^']+)' = '([^']*)'")
_OF_MESSAGES = ("bytes.encoding", "changelog.mode", "flattened", "schema-include", "unchanged.columns", "url")
"""Options of formats that say what the messages look like. Others say how declared columns are read."""
_OF_TYPES = ("binary.handling.mode",)
"""Options that are also needed where the messages have schemas."""
_NUMBERS = ("int", "bool", "boolint", "float4", "float8", "bigtime")
_TEXTS = ("json", "text")
_OF_FORM = ("flattened", "schema-include")
"""Options of messages that can't be read by one query. With the others, the messages of all recordings are read."""
_DATABASE = re.compile(rb'("source":\{[^{}]*?"db":")[^"]*')
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
    if kind == "interval" and value[:1] != "P":
        return int(Decimal(value) * 1000)
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


@dataclass
class Together:
    """Recordings that one query reads: they have the same format, and messages of the same form.

    options: of the source. records: of all topics, by offset. tables: those that have a key.
    """

    options: dict[str, str] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def together(folder: Path) -> dict[str, Together]:
    """Return all recordings in as few groups as their formats allow, by the form of their messages.

    Schemas of registries are written to a folder.

    Tables of one name would become one table. So the name of the database in a message is replaced by the recording's.
    Schemas of one number would be mixed up. So each recording has numbers of its own. A table without a key has
    updates, which are an error, so its topic is left out.
    """
    found: dict[str, Together] = {}
    for number, recording in enumerate(recordings.names()):
        options = {k: v for k, v in source_options(recording, folder).items() if not k.endswith(_OF_TYPES)}
        name = options["value.format"]
        form = " ".join([name, *(of for of in _OF_FORM if f"{name}.{of}" in options)])
        group = found.setdefault(form, Together())
        for url in [key for key in options if key.endswith(".url")]:
            numbered = folder / "numbered"
            numbered.mkdir(exist_ok=True)
            for path in (folder / recording).glob("*.avsc"):
                shutil.copy(path, numbered / f"{_numbered(int(path.stem), number)}.avsc")
            options[url] = f"file:{numbered}"
        group.options |= options
        tables = recordings.tables(recording)
        left_out = {table.topic for table in tables if not table.key}
        group.tables += [table for table in tables if table.topic not in left_out]
        group.records += [
            replace(record, key=_apart(record.key, recording, number), value=_apart(record.value, recording, number))
            for record in recordings.records(recording)
            if record.topic not in left_out
        ]
    return found


def _numbered(schema: int, recording: int) -> int:
    return 1000 * recording + schema


def _apart(message: bytes | None, recording: str, number: int) -> bytes | None:
    """Return a message with the recording's name as its database, and with its own numbers of schemas."""
    if message is None:
        return None
    if message[:1] == b"\0":
        return b"\0" + _numbered(int.from_bytes(message[1:5], "big"), number).to_bytes(4, "big") + message[5:]
    return _DATABASE.sub(rb"\g<1>" + recording.encode(), message, count=1)


class FoldedReplay:
    """Ingests the records of a recording without Spark: looks, plans and decodes, and folds the rows by key."""

    def __init__(self, recording: str, folder: Path) -> None:
        self.recorded = recordings.tables(recording)
        self.pipeline = Pipeline({**SOURCE, **source_options(recording, folder)}, {"type": "delta", "path": "x"})
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
    apart = [(table.recording, *parts), (table.recording, *parts[1:])]
    hits = [name for name in found if name.parts in apart]
    hits = hits or [name for name in found if name.parts[-len(parts) :] == parts or name.parts == (table.topic,)]
    assert len(hits) == 1, (table.name, list(found))
    return hits[0]
