"""Looks at Avro messages of a schema registry, by the schemas of their ids.

Messages of `avro-confluent` belong to the table of their topic. Those of `debezium-avro-confluent` name it in `source`.
A message whose schema is not known or not supported contributes nothing: decoding reports its error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.avro.columns import columns_of_schema
from kvformat.codecs.changes.other_messages import find_by_members
from kvformat.codecs.debezium.connect_schema import image_schema_from_avro
from kvformat.codecs.debezium.connect_types import own_types
from kvformat.codecs.debezium.options import DEBEZIUM, FLATTENED
from kvformat.codecs.debezium.other_messages import OTHER_BY_MEMBERS, OTHER_BY_OPERATION
from kvformat.codecs.debezium.own_types import MARKS
from kvformat.codecs.debezium.table_names import ADDED, NAMES, row_table, source_table
from kvformat.codecs.discovery.column_types import Notes, is_name
from kvformat.codecs.discovery.deletions import MARK, DeletionTables
from kvformat.codecs.discovery.findings import Contribution, Findings, TableFindings
from kvformat.codecs.json.value_types import units_of_a_day
from kvformat.codecs.registry_formats.avro_columns import branch_of, image_of, row_of
from kvformat.codecs.registry_formats.avro_datums import AvroDatums
from kvformat.codecs.registry_formats.format import RegistryFormat
from kvformat.codecs.registry_formats.options import AVRO_OPTIONS
from kvformat.codecs.registry_formats.record_options import TABLES_OF_TYPES
from kvformat.registry.contract.common_types import holds
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.error_codes import Reason
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.look import Looked, LookRequest, TableName, WrittenColumns
from kvformat.registry.contract.types import STRING, FlinkField, FlinkType, nullable

if TYPE_CHECKING:
    from kvformat.codecs.avro.schema import Schema

_SOURCE = f"op STRING, source ROW<{', '.join(f'`{name}` STRING' for name in NAMES)}>"
"""The members that name the table of a Debezium message, and its operation."""
_FLAT_SOURCE = ", ".join(f"{name} STRING" for name in ADDED)
_PROVIDED = ("schema", "schema-registry.schema")  # one schema is not that of many tables
_Types = Mapping[str, FlinkType]


class AvroLooker:
    """Looks at messages of format avro-confluent; see `Looker`."""

    def __init__(self, format: RegistryFormat, datums: AvroDatums, request: LookRequest) -> None:
        self._format, self._datums, self._request = format, datums, request
        self._types: dict[str, _Types] = {}  # by the text of the schema
        self._by_record = bool(request.options.get(TABLES_OF_TYPES))

    def look(self, messages: pa.BinaryArray, topics: pa.StringArray) -> Looked:
        """Return what the messages contribute."""
        findings = Findings(len(messages), self._request)
        filled = np.asarray(pc.fill_null(pc.greater(pc.binary_length(messages), 0), False))
        ids, writers = self._datums.writers(messages, filled)
        self._place(messages, topics, ids, writers, findings)
        findings.decide(self._format, messages)
        return findings.looked()

    def _place(
        self,
        messages: pa.BinaryArray,
        topics: pa.StringArray,
        ids: Any,
        writers: Mapping[int, Schema],
        findings: Findings,
    ) -> None:
        add = self._adder(findings, writers)
        present = np.asarray(messages.is_valid())
        for index, (topic, schema_id) in enumerate(zip(topics.to_pylist(), ids.tolist(), strict=True)):
            if present[index] and topic is not None:
                add(index, findings.table((topic,)), schema_id)

    def _adder(self, findings: Findings, writers: Mapping[int, Schema]) -> Callable[[int, TableFindings, int], None]:
        """Return a function that gives a message its table, and the table the columns of the message's schema."""
        done: dict[tuple[int, int], Reason | None] = {}

        def add(index: int, table: TableFindings, schema_id: int) -> None:
            key = table.number, schema_id
            if key not in done:
                records = self._records(writers[schema_id], table) if schema_id in writers else ()
                types = [self._types_of(record) for record in records]
                done[key] = table.add(index, list(self._contributions(types, table)))
            error = done[key]
            if error is None:
                findings.set_table(index, table)
            else:
                findings.fail(index, error)

        return add

    def _records(self, writer: Schema, table: TableFindings) -> Sequence[Schema]:
        """Return the schemas of a table's rows. Without tables by types, a union has the columns of all its records."""
        if self._by_record:
            return [branch_of(writer, table.name[0])]
        return [branch for branch in writer.branches if branch.type == "record"] or [writer]

    def _contributions(self, types: Sequence[_Types], table: TableFindings) -> Iterator[Contribution]:
        return schema_contributions(chain.from_iterable(of_record.items() for of_record in types), table, self._request)

    def _types_of(self, writer: Schema) -> _Types:
        """Return the types of the columns of a schema; none if no table can have them."""
        if writer.text not in self._types:
            try:
                self._types[writer.text] = self._columns(writer)
            except SchemaError:
                self._types[writer.text] = {}
        return self._types[writer.text]

    def _columns(self, writer: Schema) -> _Types:
        return _types(avro_columns(writer))


def schema_contributions(
    columns: Iterable[tuple[str, FlinkType]], table: TableFindings, request: LookRequest
) -> Iterator[Contribution]:
    """Yield what the columns of schemas contribute to a table."""
    for place, (name, declared) in enumerate(columns):
        known, fixed = table.types.get(name), request.fixed.get(name)
        t = declared if fixed is None else fixed
        if is_name(name) and (known is None or (fixed is None and not holds(known, t))):
            yield Contribution(name, place, nullable(t))


class DebeziumAvroLooker(AvroLooker):
    """Looks at messages of format debezium-avro-confluent; see `Looker`."""

    def __init__(
        self, format: RegistryFormat, datums: AvroDatums, request: LookRequest, options: Mapping[str, Any]
    ) -> None:
        options = {name: value for name, value in options.items() if name not in _PROVIDED}
        super().__init__(type(format)(options), datums, request)
        self._flat, self._typed = bool(format.options[FLATTENED.name]), format.options["types"] == DEBEZIUM
        self._deletions = DeletionTables(request.known) if self._flat else None
        names = {name for spec in AVRO_OPTIONS for name in spec.keys(options)}
        self._envelopes = get_format("avro-confluent", {name: options[name] for name in names})

    def _place(
        self,
        messages: pa.BinaryArray,
        topics: pa.StringArray,
        ids: Any,
        writers: Mapping[int, Schema],
        findings: Findings,
    ) -> None:
        add = self._adder(findings, writers)
        skipped = {schema_id for schema_id, writer in writers.items() if self._is_skipped(writer)}
        filled = np.asarray(pc.fill_null(pc.greater(pc.binary_length(messages), 0), False))
        rows = self._envelopes.decode_batch(messages, _FLAT_SOURCE if self._flat else _SOURCE).rows
        marked = {schema_id for schema_id, writer in writers.items() if MARK in {field.name for field in writer.fields}}
        placed: dict[tuple[TableName, int], list[int]] = {}
        for index, (row, topic, schema_id) in enumerate(
            zip(rows.to_pylist(), topics.to_pylist(), ids.tolist(), strict=True)
        ):
            if not filled[index] and self._deletions is not None:
                self._deletions.add(index, topic)
            if not filled[index] or schema_id in skipped:
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
                add(index, findings.table(name), schema_id)
                placed.setdefault((name, schema_id), []).append(index)
        if self._deletions is not None:
            self._deletions.place(findings)
        if self._typed:
            for (name, schema_id), indexes in placed.items():
                types = self._types_of(writers[schema_id]) if schema_id in writers else {}
                self._look_at_times(messages, indexes, findings.table(name), types)

    def _look_at_times(self, messages: pa.BinaryArray, indexes: list[int], table: TableFindings, types: _Types) -> None:
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

    def _table_name(self, envelope: dict[str, Any], topic: str) -> TableName | None:
        if self._flat:
            return row_table(envelope, topic)
        source = envelope["source"]
        return source_table(source, topic) if source else None

    def _is_skipped(self, writer: Schema) -> bool:
        """Whether a schema is that of heartbeats, transactions or schema changes."""
        return find_by_members(OTHER_BY_MEMBERS, {field.name: field for field in writer.fields}) is not None

    def _columns(self, writer: Schema) -> _Types:
        return change_columns(writer, typed=self._typed, flat=self._flat)


def change_columns(writer: Schema, *, typed: bool, flat: bool) -> _Types:
    """Return the columns of the rows in a schema of Debezium's changes; none for a schema of other messages."""
    if typed:
        image = image_schema_from_avro(writer, flat=flat)
        types = {} if image is None else own_types(image)
    else:
        row = row_of(writer) if flat else image_of(writer)
        types = {} if row is None else _types(avro_columns(row))
    return {name: t for name, t in types.items() if not (flat and name in MARKS)}


def written_change_columns(messages: pa.BinaryArray, datums: AvroDatums, *, flat: bool) -> WrittenColumns:
    """Return the columns of the rows in Debezium's changes, by the schemas of the messages."""
    ids, writers = datums.writers(messages, np.asarray(messages.is_valid()))
    types = []
    for writer in writers.values():
        try:
            types.append(change_columns(writer, typed=False, flat=flat))
        except SchemaError:
            types.append({})
    number_of = {schema_id: number for number, schema_id in enumerate(writers)}
    numbers = pa.array([number_of.get(schema_id) for schema_id in ids.tolist()], pa.int32())
    return WrittenColumns(numbers, tuple({name: nullable(t) for name, t in columns.items()} for columns in types))


def avro_columns(schema: Schema) -> tuple[FlinkField, ...]:
    """Return the columns of a record schema. Raises `SchemaError` for any other schema."""
    return columns_of_schema(schema, {"schema": ""}, Notes()).fields


def _types(columns: Sequence[FlinkField]) -> dict[str, FlinkType]:
    return {column.name: column.type for column in columns}
