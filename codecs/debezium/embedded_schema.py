"""Reads JSON messages that carry their schema by Debezium's types: each message by its own schema.

    {"schema": {...}, "payload": {"before": ..., "after": ..., "op": "u"}}

    message -> its schema -> a plan: a wire type and a conversion for each column (value_readings.py)
    messages with equal wire types -> one kernel reader -> the conversions of their plans, column by column -> rows

The rows and the error of a message depend only on its bytes. A batch is read speculatively with the wire types that
most messages of the previous batch had. Messages whose schema needs other wire types are then read again.

The work is bounded for any number of schemas. Schemas with equal wire types share a reader, so that a thousand scales
of a DECIMAL need one. A column is converted once for each of its readings, not for each schema. At most `_READERS`
readers exist at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints, Mask
from kvformat.codecs._conversions import RefusedValues, RowErrors
from kvformat.codecs._kernel.messages import JsonBatch
from kvformat.codecs._rows import join_parts, replace_columns, take_messages
from kvformat.codecs.changes.envelope import BatchReader, ChangeSettings, Envelope
from kvformat.codecs.changes.metadata import SchemaNumber
from kvformat.codecs.changes.read import ChangeReader
from kvformat.codecs.changes.row_plan import convert_columns
from kvformat.codecs.debezium.connect_schema import ConnectSchema, image_schema_from_json, parse_json
from kvformat.codecs.debezium.value_readings import ConnectorModes, ValueReading, absent_reading, value_reading
from kvformat.codecs.json.errors import JsonErrorMessages
from kvformat.codecs.json.types import JsonSchema, row_of
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.contract.join_batches import join_decoded
from kvformat.registry.contract.types import STRING, FlinkField, FlinkType

_SCHEMAS = 64
"""The number of schemas whose plans are kept between batches. A topic has a few."""
_READERS = 16
"""The number of kernel readers that are kept, also within a batch: one for each combination of wire types."""
_PARTS = 64
"""The number of groups of a batch after which their rows are joined, which frees the memory of many small arrays."""
_NUMBER = "kvformat.schema-number"


NO_SCHEMA = 0
"""The number of the plan for messages without a schema."""


class _Plan(NamedTuple):
    """How the rows of a schema are read: the number of a reading for each column.

    If there is a `refusal`, messages with rows have this error.
    """

    readings: Ints
    refusal: str = ""


class _Found(NamedTuple):
    """Rows of wire values. `numbers` has for each message with rows its schema's index in `schemas`, -1 for none."""

    batch: DecodedBatch
    has_rows: Mask
    numbers: Ints
    schemas: list[bytes]


class GuardedReader:
    """Lets one thread at a time use a reader that keeps state between batches."""

    def __init__(self, make: Callable[[], BatchReader]) -> None:
        self._reader = Guarded(make)

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """One list of rows per message, as the reader gives it."""
        with self._reader.use() as reader:
            return reader.read(messages)


class EmbeddedSchemaReader:
    """Reads JSON change messages that carry their schema, by Debezium's types. Serves one thread at a time."""

    def __init__(
        self,
        row: FlinkType,
        envelope: Envelope,
        settings: ChangeSettings,
        metadata: tuple[str, ...],
        modes: ConnectorModes,
    ) -> None:
        self._row, self._modes, self._reading = row, modes, (envelope, settings, metadata)
        self._flat, self._lenient = envelope.flattened, settings.values.lenient
        self._places = {field.name: place for place, field in enumerate(row.fields)}
        self._finder = _SchemaFinder(settings)
        self._readers: OrderedDict[FlinkType, _WireReader] = OrderedDict()
        self._usual_wire: FlinkType | None = None
        self._reset_plans()

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """One list of rows per message: null for a null message or an error, empty for a skipped one."""
        try:
            return self._read(messages)
        finally:
            if len(self._numbers) > _SCHEMAS:
                self._reset_plans()

    def _read(self, messages: pa.BinaryArray) -> DecodedBatch:
        if not len(messages):
            return self._converted(self._reader(self._wire_row(NO_SCHEMA)).read(messages).batch, np.zeros(0, np.int64))
        filled = np.asarray(pc.greater(pc.binary_length(messages), 0).fill_null(False))
        if self._usual_wire is None:
            first = self._plans_by_own_schema(messages, np.flatnonzero(filled)[:1])
            self._usual_wire = self._wire_row(int(first[0]) if len(first) else NO_SCHEMA)
        first_read = self._reader(self._usual_wire).read(messages)
        plans = np.full(len(messages), NO_SCHEMA)
        of_schemas = np.array([NO_SCHEMA, *map(self._plan_number, first_read.schemas)])
        plans[first_read.has_rows] = of_schemas[first_read.numbers[first_read.has_rows] + 1]
        others = np.flatnonzero(filled & ~first_read.has_rows)
        plans[others] = self._plans_by_own_schema(messages, others)
        plans[~filled] = plans[filled][0] if filled.any() else NO_SCHEMA  # null and empty messages fit any plan
        return self._read_by_wire_types(messages, first_read.batch, plans)

    def _plans_by_own_schema(self, messages: pa.BinaryArray, places: Ints) -> Ints:
        """The number of the plan of each message with these numbers, found by the schema in it."""
        if not len(places):
            return np.zeros(0, np.int64)
        numbers, schemas = self._finder.find(messages.take(pa.array(places)))
        return np.array([NO_SCHEMA, *map(self._plan_number, schemas)])[numbers + 1]

    def _read_by_wire_types(self, messages: pa.BinaryArray, speculative: DecodedBatch, plans: Ints) -> DecodedBatch:
        """The table's rows: keep messages that were read with the right wire types, and read the others again."""
        used, of_used = _distinct(plans)
        rows = [self._wire_row(plan) for plan in used.tolist()]
        if all(row == self._usual_wire for row in rows):
            return self._converted(speculative, plans)
        numbers = {row: number for number, row in enumerate(dict.fromkeys(rows))}
        groups = np.array([numbers[row] for row in rows], np.int64)[of_used]
        counts = np.bincount(groups, minlength=len(numbers))
        order, ends = np.argsort(groups, kind="stable"), np.cumsum(counts)
        places: list[Ints] = []
        parts: list[DecodedBatch] = []
        for row, number in numbers.items():
            at = order[ends[number] - counts[number] : ends[number]]
            if row != self._usual_wire:
                some = self._reader(row).read(messages.take(pa.array(at))).batch
            else:
                some = speculative if len(at) == len(messages) else take_messages(speculative, at)
            places.append(at)
            parts.append(self._converted(some, plans[at]))
            if len(parts) == _PARTS:
                parts = [join_decoded(parts)]
        self._usual_wire = list(numbers)[int(np.argmax(counts))]
        return parts[0] if len(numbers) == 1 else join_parts([(np.concatenate(places), join_decoded(parts))])

    def _converted(self, batch: DecodedBatch, plans: Ints) -> DecodedBatch:
        """Convert wire rows to table rows. `plans` has the number of each message's plan."""
        lengths = np.asarray(batch.rows.value_lengths().fill_null(0))
        used, of_used = _distinct(plans)
        errors, firsts = RowErrors(), np.asarray(batch.rows.offsets)[:-1]
        for number, plan in enumerate(used.tolist()):
            refusal = self._plans[plan].refusal
            if refusal:
                refused = firsts[(of_used == number) & (lengths > 0)]
                errors.add(refused, lambda _: Reason(ErrorCode.MISSING_FIELD, refusal))  # noqa: B023
        readings = np.stack([self._plans[plan].readings for plan in used.tolist() or [NO_SCHEMA]])
        of_rows = np.repeat(of_used, lengths)

        def column(place: int, wire: pa.Array) -> pa.Array:
            return self._columns[place].convert(wire, readings[:, place], of_rows, errors)

        return convert_columns(batch, len(self._row.fields), column, errors, lenient=self._lenient)

    # --- plans -------------------------------------------------------------------------------------------

    def _reset_plans(self) -> None:
        """Forget all plans except that of messages without a schema."""
        self._columns = [_ColumnReadings(field, self._modes) for field in self._row.fields]
        self._plans: list[_Plan] = []
        self._wire_rows: list[FlinkType | None] = []
        self._numbers: dict[bytes, int] = {}
        self._plan_numbers: dict[tuple[bytes, str], int] = {}
        self._absent = np.array([column.absent() for column in self._columns], np.int64)
        assert self._keep(self._make_plan(None)) == NO_SCHEMA

    def _plan_number(self, schema: bytes) -> int:
        """The number of the plan for a schema's text. Schemas with the same meaning for the table share a plan."""
        number = self._numbers.get(schema)
        if number is None:
            number = self._numbers[schema] = self._keep(
                self._make_plan(image_schema_from_json(parse_json(schema), flat=self._flat))
            )
        return number

    def _keep(self, plan: _Plan) -> int:
        key = plan.readings.tobytes(), plan.refusal
        number = self._plan_numbers.setdefault(key, len(self._plans))
        if number == len(self._plans):
            self._plans.append(plan)
            self._wire_rows.append(None)
        return number

    def _make_plan(self, image: ConnectSchema | None) -> _Plan:
        """A plan for the images of a schema, None if it has none. The cost depends on the schema's columns."""
        try:
            if image is None:
                return _Plan(np.array([column.number(None) for column in self._columns], np.int64))
            readings = self._absent.copy()
            for name in image.fields.keys() & self._places.keys():
                place = self._places[name]
                readings[place] = self._columns[place].number(image.fields[name])
            return _Plan(readings)
        except SchemaError as unset:
            refusal = f"'schema': is missing, or does not describe the rows before and after a change; {unset}"
            return _Plan(np.array([column.refusing() for column in self._columns], np.int64), refusal)

    def _wire_row(self, number: int) -> FlinkType:
        """The wire type of the rows of a plan."""
        row = self._wire_rows[number]
        if row is None:
            wires = zip(self._row.fields, self._columns, self._plans[number].readings.tolist(), strict=True)
            fields = tuple(FlinkField(field.name, column.readings[reading].wire) for field, column, reading in wires)
            row = self._wire_rows[number] = replace(self._row, fields=fields)
        return row

    def _reader(self, row: FlinkType) -> _WireReader:
        """A reader of this wire type. The least recently used reader is dropped if there are too many."""
        reader = self._readers.pop(row, None)
        if reader is None:
            while len(self._readers) >= _READERS:
                self._readers.popitem(last=False)
            reader = _WireReader(row, *self._reading)
        self._readers[row] = reader
        return reader


def _distinct(numbers: Ints) -> tuple[Ints, Ints]:
    """The distinct numbers, and for each number its index among them. Fast if all are equal, which is common."""
    if len(numbers) and (numbers == numbers[0]).all():
        return numbers[:1], np.zeros(len(numbers), np.int64)
    return np.unique(numbers, return_inverse=True)


class _ColumnReadings:
    """The different readings that schemas have given to a column so far, by number."""

    def __init__(self, field: FlinkField, modes: ConnectorModes) -> None:
        self._field, self._modes = field, modes
        self.readings: list[ValueReading] = []
        self._numbers: dict[str, int] = {}
        self._schemas: dict[str, int] = {}

    def number(self, schema: ConnectSchema | None) -> int:
        """The number of the reading for a Connect schema. Raises `SchemaError` as `value_reading` does."""
        key = repr(schema)
        if key not in self._schemas:
            self._schemas[key] = self._keep(
                value_reading(self._field.type, schema, self._modes, "json", self._field.name)
            )
        return self._schemas[key]

    def absent(self) -> int:
        """The number of the reading for a schema without the column."""
        return self._keep(absent_reading(self._field.type, "json"))

    def refusing(self) -> int:
        """The number of the reading that refuses every value."""
        return self._keep(ValueReading(STRING, RefusedValues(self._field.type, "")))

    def _keep(self, reading: ValueReading) -> int:
        number = self._numbers.setdefault(repr(reading), len(self.readings))
        if number == len(self.readings):
            self.readings.append(reading)
        return number

    def convert(self, wire: pa.Array, readings: Ints, of_rows: Ints, errors: RowErrors) -> pa.Array:
        """Convert the wire values of the column. Row i was read by the reading with number `readings[of_rows[i]]`."""
        if not len(of_rows) or (readings == readings[0]).all():
            conversion = self.readings[readings[0]].conversion
            if conversion is None:
                return wire
            return conversion.convert(wire, self._field.name, lambda rows: rows, errors)
        of_values = readings[of_rows]
        order = np.argsort(of_values, kind="stable")
        used, starts = np.unique(of_values[order], return_index=True)
        parts = []
        for number, places in zip(used.tolist(), np.split(order, starts[1:]), strict=True):
            conversion, some = self.readings[number].conversion, wire.take(pa.array(places))
            if conversion is not None:
                some = conversion.convert(some, self._field.name, _rows_at(places), errors)
            parts.append(some)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(pa.array(back))


def _rows_at(rows: Ints) -> Callable[[Ints], Ints]:
    """A function from indices into `rows` to these row numbers. -1 stays -1."""
    return lambda places: np.where(places >= 0, rows[places], -1)


class _WireReader:
    """Reads messages as rows of wire values, and finds the schema of each message that has rows."""

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: tuple[str, ...]) -> None:
        self._number = SchemaNumber("schema", beside_payload=True)
        envelope = replace(envelope, metadata={**envelope.metadata, _NUMBER: self._number})
        self._reader = ChangeReader(row, envelope, settings, (*metadata, _NUMBER))

    def read(self, messages: pa.BinaryArray) -> _Found:
        """The wire rows of a batch, and its schemas."""
        batch = self._reader.read(messages)
        rows, firsts = batch.rows.values, np.asarray(batch.rows.offsets)[:-1]
        count = rows.type.num_fields - 1
        has_rows = np.asarray(batch.rows.value_lengths().fill_null(0)) > 0
        numbers = np.full(len(messages), -1)
        numbers[has_rows] = np.asarray(rows.field(count).fill_null(-1))[firsts[has_rows]]
        columns = [rows.field(place) for place in range(count)]
        return _Found(replace_columns(batch, columns), has_rows, numbers, self._number.texts)


class _SchemaFinder:
    """Finds the schemas in messages, whatever else they contain."""

    def __init__(self, settings: ChangeSettings) -> None:
        self._number = SchemaNumber("schema")
        t = row_of({"schema": self._number.type})
        schema = JsonSchema(t, settings.values)
        row = schema.row_of_columns(t, [self._number.column(schema)])
        self._batch = JsonBatch(row, schema.reader(), JsonErrorMessages())

    def find(self, messages: pa.BinaryArray) -> tuple[Ints, list[bytes]]:
        """The index of each message's schema in a list of texts, -1 for none, and this list.

        A message that is not valid JSON, or not one object, has no schema.
        """
        lists = self._batch.read_batch(messages)
        is_single = np.asarray(lists.value_lengths().fill_null(0)) == 1
        numbers = np.full(len(messages), -1)
        numbers[is_single] = np.asarray(lists.values.field(0).fill_null(-1))[np.asarray(lists.offsets)[:-1][is_single]]
        return numbers, self._number.texts
