"""What Debezium's changes in Avro contribute to their tables, which they name in `source`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.avro.datums import AvroDatums
from kvformat.codecs.avro.discover import SchemaColumns, SchemaContributions, Types, avro_columns
from kvformat.codecs.avro.schema import Schema, records_of
from kvformat.codecs.changes.other_messages import find_by_members
from kvformat.codecs.debezium.avro_columns import image_of, row_of
from kvformat.codecs.debezium.connect_schema import image_schema_from_avro
from kvformat.codecs.debezium.connect_types import own_types
from kvformat.codecs.debezium.other_messages import OTHER_BY_MEMBERS, OTHER_BY_OPERATION, OTHER_MEMBERS
from kvformat.codecs.debezium.own_types import MARKS
from kvformat.codecs.debezium.table_names import ADDED, NAMES, row_table, source_table
from kvformat.codecs.discovery.deletions import MARK, DeletionTables
from kvformat.codecs.discovery.findings import Contribution, TableFindings
from kvformat.codecs.json.value_types import units_of_a_day
from kvformat.registry.contract.look import Looked, LookRequest, TableName, WrittenColumns
from kvformat.registry.contract.types import STRING, nullable
from kvformat.registry.format import Format

_SOURCE = f"op STRING, source ROW<{', '.join(f'`{name}` STRING' for name in NAMES)}>"
"""The members that name the table of a Debezium message, and its operation."""
_FLAT_SOURCE = ", ".join(f"{name} STRING" for name in ADDED)


class DebeziumAvroLooker:
    """Looks at messages of format debezium-avro-confluent; see `Looker`.

    format: without one schema, which is not that of many tables. envelopes: reads their envelopes as rows.
    """

    def __init__(
        self, format: Format, envelopes: Format, datums: AvroDatums, request: LookRequest, *, typed: bool, flat: bool
    ) -> None:
        self._format, self._envelopes, self._datums, self._request = format, envelopes, datums, request
        self._typed, self._flat = typed, flat
        self._known = SchemaColumns(partial(change_columns, typed=typed, flat=flat))
        self._deletions = DeletionTables(request.known) if flat else None

    def look(self, messages: pa.BinaryArray, topics: pa.StringArray) -> Looked:
        """Return what the messages contribute."""
        batch = SchemaContributions(messages, self._datums, self._request, self._columns)
        findings = batch.findings
        skipped = {schema_id for schema_id, writer in batch.writers.items() if _is_skipped(writer, flat=self._flat)}
        marked = {
            schema_id for schema_id, writer in batch.writers.items() if MARK in {field.name for field in writer.fields}
        }
        rows = self._envelopes.decode_batch(messages, _FLAT_SOURCE if self._flat else _SOURCE).rows
        placed: dict[tuple[TableName, int], list[int]] = {}
        for index, (row, topic, schema_id) in enumerate(
            zip(rows.to_pylist(), topics.to_pylist(), batch.ids, strict=True)
        ):
            filled = batch.filled[index]
            if not filled and self._deletions is not None:
                self._deletions.add(index, topic)
            if not filled or schema_id in skipped:
                continue
            envelope = row[0] if row else None
            name = None if envelope is None else self._table_name(envelope, topic)
            operation = None if envelope is None else envelope.get("op")
            other = OTHER_BY_OPERATION.get(operation or "")
            if other is not None and (name is None or not other.empties_table):
                continue
            if name is None:
                findings.leave_to_decoding(index)
            elif other is not None:
                findings.set_change(index, findings.table(name), "truncate")
            else:
                if self._deletions is not None:
                    self._deletions.note(topic, name, marked=schema_id in marked)
                batch.add(index, name)
                placed.setdefault((name, schema_id), []).append(index)
        if self._deletions is not None:
            self._deletions.place(findings)
        if self._typed:
            for (name, schema_id), indexes in placed.items():
                types = self._known.of(batch.writers[schema_id]) if schema_id in batch.writers else {}
                self._look_at_times(messages, indexes, findings.table(name), types)
        findings.decide(self._format, messages)
        return findings.looked()

    def _columns(self, writer: Schema, name: TableName) -> list[Types]:
        return [self._known.of(record) for record in records_of(writer)]

    def _look_at_times(self, messages: pa.BinaryArray, indexes: list[int], table: TableFindings, types: Types) -> None:
        """Make columns STRING whose counts are not all times of a day, as MySQL's TIME may be."""
        times = {
            name: t
            for name, t in types.items()
            if t.root == "TIME" and table.types.get(name, t).root == "TIME" and name not in self._request.fixed
        }
        if not times:
            return
        counts_of = pa.schema([(name, pa.int64()) for name in times])
        rows = self._format.decode_batch(messages.take(pa.array(indexes)), counts_of).rows
        parents = np.repeat(np.asarray(indexes), np.asarray(rows.value_lengths().fill_null(0)))
        for place, (name, column) in enumerate(zip(times, rows.flatten().flatten(), strict=False)):  # and own columns
            counts = column.fill_null(0)
            outside = pc.or_(pc.less(counts, 0), pc.greater_equal(counts, units_of_a_day(times[name])))
            first = pc.index(outside, True).as_py()
            if first >= 0:
                table.add(int(parents[first]), [Contribution(name, place, STRING)])

    def _table_name(self, envelope: Mapping[str, Any], topic: str) -> TableName | None:
        if self._flat:
            return row_table(envelope, topic)
        source = envelope["source"]
        return source_table(source, topic) if source is not None or envelope["op"] is not None else None


def _is_skipped(writer: Schema, *, flat: bool) -> bool:
    """Whether a schema is that of heartbeats, transactions or schema changes, and not of a row without an envelope."""
    fields = {field.name: field for field in writer.fields}
    return (not flat or fields.keys() <= OTHER_MEMBERS) and find_by_members(OTHER_BY_MEMBERS, fields) is not None


def change_columns(writer: Schema, *, typed: bool, flat: bool) -> Types:
    """Return the columns of the rows in a schema of Debezium's changes; none for a schema of other messages."""
    if typed:
        image = image_schema_from_avro(writer, flat=flat)
        types = {} if image is None else own_types(image)
    else:
        row = row_of(writer) if flat else image_of(writer)
        types = {} if row is None else {column.name: column.type for column in avro_columns(row)}
    return {name: t for name, t in types.items() if not (flat and name in MARKS)}


def written_change_columns(messages: pa.BinaryArray, datums: AvroDatums, *, flat: bool) -> WrittenColumns:
    """Return the columns of the rows in Debezium's changes, by the schemas of the messages."""
    ids, writers = datums.writers(messages, np.asarray(messages.is_valid()))
    known = SchemaColumns(partial(change_columns, typed=False, flat=flat))
    types = [known.of(writer) for writer in writers.values()]
    number_of = {schema_id: number for number, schema_id in enumerate(writers)}
    numbers = pa.array([number_of.get(schema_id) for schema_id in ids.tolist()], pa.int32())
    return WrittenColumns(numbers, tuple({name: nullable(t) for name, t in columns.items()} for columns in types))
