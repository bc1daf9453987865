"""Keys and values of the records that the Kafka sink writes for one table.

    key    {"TableId":"db.t","id":1}                      db.t,1
    value  {"before":null,"after":{"id":1,"v":"a"},"op":"c","source":{"db":"db","table":"t"}}
           {"old":null,"data":[{"id":1,"v":"a"}],"type":"INSERT","database":"db","table":"t","pkNames":["id"]}

An update is one message with both rows. Flink's own formats write two. The envelope is a row as well, so the writers of
the formats json and csv write everything, column by column.
Rules: Flink CDC's `DebeziumJsonSerializationSchema`, `CanalJsonSerializationSchema`, `JsonSerializationSchema` and
`CsvSerializationSchema`. An update of an unknown row has `before` or `old` null; Flink CDC fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._timestamps.texts import TEXT
from kvformat.codecs.csv.settings import WriteSettings as CsvSettings
from kvformat.codecs.csv.write import CsvWriter
from kvformat.codecs.json.settings import WriteSettings
from kvformat.codecs.json.write import JsonWriter
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.schemas.types import STRING
from kvformat.ingestion.sink.changes import CREATE, DELETE, UPDATE, TableChanges
from kvformat.ingestion.sink.connect_payload import connect_type, connect_values
from kvformat.ingestion.sink.connect_schema import connect_schema
from kvformat.ingestion.sink.settings import SinkSettings
from kvformat.registry.contract.batches import EncodedBatch
from kvformat.registry.contract.error_codes import Reason, reason_arrays, reasons_of
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkField, FlinkType
from kvformat.registry.java.numbers import plain_decimal_texts

_CANAL_TYPES = {CREATE: "INSERT", UPDATE: "UPDATE", DELETE: "DELETE"}
_TABLE_ID = "TableId"


@dataclass(frozen=True, slots=True)
class SinkRecords:
    """A record per change. A tombstone has a null value.

    A change that can't be written has a reason, and neither key nor value. `reasons` is empty if all can be written.
    """

    keys: pa.BinaryArray
    values: pa.BinaryArray
    reasons: list[Reason | None]


class TableRecords:
    """Writes the records of one table with one schema.

    topic, headers, partition: those of all records. same: columns that must be equal for a `-U` and the `+U` after it
    to be one update. Raises `SchemaError` for a type that the key's or the value's format can't write, and for a key
    that is not among the columns.
    """

    def __init__(self, table: TableId, schema: TableSchema, settings: SinkSettings) -> None:
        self._table, self._schema, self._settings = table, schema, settings
        self._key = _KeyWriter(schema, settings, str(table))
        row = _row_type(schema)
        self._row = row if settings.connect_payload else None
        stored = connect_type(row) if self._row else row
        is_debezium = settings.value_format == "debezium-json"
        envelope = _debezium_type(stored, table, settings) if is_debezium else _canal_type(stored)
        self._value = JsonWriter(envelope, settings.value)
        self._opening, self._closing = "", ""
        if settings.include_schema:
            self._opening, self._closing = f'{{"schema":{connect_schema(schema)},"payload":', "}"
        self.topic, self.headers = settings.topic_of(table), settings.headers_of(table)
        self.partition = settings.partition
        # The producer sends a record by its key. So a changed key needs two records, as Debezium writes it.
        self.same = schema.primary_key if self.partition is None else ()

    def write(self, changes: TableChanges) -> SinkRecords:
        """Write changes. Their rows have the columns of the schema, by name."""
        keys = self._key.write(changes.key_rows())
        before, after = (
            _whole_seconds(rows) if self._row is None else connect_values(rows, self._row)
            for rows in (changes.before, changes.after)
        )
        changes = TableChanges(changes.operations, before, after)
        envelope = self._debezium if self._settings.value_format == "debezium-json" else self._canal
        texts, reasons = self._value.texts(envelope(changes))
        if self._opening:
            parts = (pa.scalar(self._opening, TEXT), texts, pa.scalar(self._closing, TEXT), pa.scalar("", TEXT))
            texts = pc.binary_join_element_wise(*parts)
        return _joined(keys, EncodedBatch(_binary(texts), *reason_arrays(reasons)))

    def _debezium(self, changes: TableChanges) -> pa.StructArray:
        table, count = self._table, len(changes)
        parts = _source_of(table, self._settings)
        source = pa.StructArray.from_arrays([_repeated(part, count) for part in parts.values()], [*parts])
        columns = [changes.before, changes.after, changes.operations, source]
        return pa.StructArray.from_arrays(columns, ["before", "after", "op", "source"])

    def _canal(self, changes: TableChanges) -> pa.StructArray:
        count = len(changes)
        updates = pc.equal(changes.operations, UPDATE)
        types = pa.array([_CANAL_TYPES[operation] for operation in changes.operations.to_pylist()], pa.string())
        keys = pa.array([[*self._schema.primary_key]] * count, pa.list_(pa.string()))
        columns = {
            "old": _single(changes.before, pc.and_(updates, changes.before.is_valid())),
            "data": _single(changes.key_rows(), None),
            "type": types,
            "database": _repeated(self._table.schema, count),
            "table": _repeated(self._table.table, count),
            "pkNames": keys,
        }
        return pa.StructArray.from_arrays([*columns.values()], [*columns])


class UpsertTableRecords:
    """Writes the records of one table for the sink `upsert-kafka`: the key's JSON, and all columns or a tombstone.

    topic, headers, partition, same: as of `TableRecords`. Raises `SchemaError` for a table without a key.
    Rules: Ververica's "Upsert Kafka connector" page.
    """

    def __init__(self, table: TableId, schema: TableSchema, headers: tuple[tuple[str, bytes], ...] = ()) -> None:
        if not schema.primary_key:
            raise SchemaError(
                f"table {table}: the sink 'upsert-kafka' needs a primary key; set 'primary-keys' of a transform"
            )
        settings = WriteSettings()
        self._key = JsonWriter(_key_type(schema, ()), settings)
        self._value = JsonWriter(_row_type(schema), settings)
        self.topic, self.headers, self.partition = str(table), headers, None
        self.same = schema.primary_key  # the old row of a changed key needs a tombstone

    def write(self, changes: TableChanges) -> SinkRecords:
        """Write changes. Their rows have the columns of the schema, by name."""
        keys = self._key.write(_whole_seconds(changes.key_rows()))
        return _joined(keys, self._value.write(_whole_seconds(changes.after)))


class _KeyWriter:
    """Writes the name of the table and the columns of its key, in the order of the key."""

    def __init__(self, schema: TableSchema, settings: SinkSettings, table: str) -> None:
        self._table, self._names = table, schema.primary_key
        row = _key_type(schema, (FlinkField(_TABLE_ID, STRING),))
        self._decimals = [field.type.root == "DECIMAL" for field in row.fields]
        self._json = JsonWriter(row, settings.key) if settings.key_format == "json" else None
        texts = (replace(f, type=STRING) if d else f for f, d in zip(row.fields, self._decimals, strict=True))
        as_texts = replace(row, fields=tuple(texts))
        self._csv = CsvWriter(as_texts, CsvSettings()) if settings.key_format == "csv" else None

    def write(self, rows: pa.StructArray) -> EncodedBatch:
        by_name = {field.name: values for field, values in zip(rows.type, rows.flatten(), strict=True)}
        columns = [_repeated(self._table, len(rows)), *(by_name[name] for name in self._names)]
        if self._csv is not None:
            # texts, because Flink 1.20 quotes a DECIMAL of more than 24 characters
            columns = [_short_decimals(c) if d else c for c, d in zip(columns, self._decimals, strict=True)]
            return EncodedBatch(self._csv.write(pa.StructArray.from_arrays(columns, [_TABLE_ID, *self._names])))
        assert self._json is not None
        return self._json.write(_whole_seconds(pa.StructArray.from_arrays(columns, [_TABLE_ID, *self._names])))


def _short_decimals(values: pa.Array) -> pa.Array:
    """Return decimals as text, without an exponent and without zeros at the end of their fraction."""
    texts = plain_decimal_texts(values)
    return pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".") if values.type.scale else texts


def _row_type(schema: TableSchema) -> FlinkType:
    return FlinkType("ROW", fields=schema.row_type().fields)


def _key_type(schema: TableSchema, before: Sequence[FlinkField]) -> FlinkType:
    types = {column.name: column.type for column in schema.columns}
    for name in schema.primary_key:
        if name not in types:
            raise SchemaError(f"the primary key has {name!r}, and the columns are {', '.join(types)}", field=name)
    fields = (*before, *(FlinkField(name, types[name]) for name in schema.primary_key))
    return FlinkType("ROW", nullable=False, fields=fields)


def _source_of(table: TableId, settings: SinkSettings) -> dict[str, str | None]:
    """Return the members of `source`. A name of two parts has no schema, but a database."""
    if settings.full_table_id and table.schema is not None and table.namespace is None:
        return {"db": table.schema, "table": table.table}
    if settings.full_table_id:
        return {"db": table.namespace, "schema": table.schema, "table": table.table}
    return {"db": table.schema, "table": table.table}


def _debezium_type(row: FlinkType, table: TableId, settings: SinkSettings) -> FlinkType:
    source = FlinkType("ROW", fields=tuple(FlinkField(part, STRING) for part in _source_of(table, settings)))
    return _row(before=row, after=row, op=STRING, source=source)


def _canal_type(row: FlinkType) -> FlinkType:
    rows, texts = (FlinkType("ARRAY", fields=(FlinkField("element", t),)) for t in (row, STRING))
    return _row(old=rows, data=rows, type=STRING, database=STRING, table=STRING, pkNames=texts)


def _row(**fields: FlinkType) -> FlinkType:
    return FlinkType("ROW", nullable=False, fields=tuple(FlinkField(name, t) for name, t in fields.items()))


def _repeated(text: str | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _single(rows: pa.StructArray, valid: pa.BooleanArray | None) -> pa.ListArray:
    """Return lists of one row each, null where `valid` is false."""
    mask = None if valid is None else pc.invert(valid)
    return pa.ListArray.from_arrays(pa.array(np.arange(len(rows) + 1, dtype=np.int32)), rows, mask=mask)


def _whole_seconds(rows: pa.StructArray) -> pa.StructArray:
    """Cut times of day to whole seconds at every level, as Flink's JSON has them."""
    wanted = _with_whole_seconds(rows.type)
    return rows if wanted == rows.type else rows.cast(wanted, safe=False)


def _with_whole_seconds(t: pa.DataType) -> pa.DataType:
    if pa.types.is_time(t):
        return pa.time32("s")
    if pa.types.is_struct(t):
        return pa.struct([field.with_type(_with_whole_seconds(field.type)) for field in t])
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(_with_whole_seconds(t.value_type)))
    if pa.types.is_map(t):
        return pa.map_(t.key_field, t.item_field.with_type(_with_whole_seconds(t.item_type)))
    return t


def _binary(texts: pa.LargeStringArray) -> pa.BinaryArray:
    return texts.cast(pa.large_binary()).cast(pa.binary())


def _joined(keys: EncodedBatch, values: EncodedBatch) -> SinkRecords:
    """Return the records, without those that have an error."""
    if keys.errors is None and values.errors is None:
        return SinkRecords(keys.messages, values.messages, [])
    both = (reasons_of(part.errors, part.codes, len(part.messages)) for part in (keys, values))
    reasons = [of_key or of_value for of_key, of_value in zip(*both, strict=True)]
    good, nothing = pa.array([reason is None for reason in reasons]), pa.scalar(None, pa.binary())
    written = [pc.if_else(good, part.messages, nothing) for part in (keys, values)]
    return SinkRecords(written[0], written[1], reasons)
