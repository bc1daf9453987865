"""`debezium-avro-confluent`: one change of a row per message, in Avro whose schema is in a schema registry.

    00  00 00 00 01  02  00  02 02 0e  02 02 63      `00`, the schema's id, and the datum, a record in a union with
                                                     null: before (null), after ({"id": 7}), op ("c")

    c, r  +I(after)     u  -U(before), +U(after)     d  -D(before)     a null or empty message  no rows

The datum is read and written as format `avro-confluent` reads and writes a row of `before`, `after` and `op`. All three
are read for every operation. Other fields of a connector (`source`, `ts_ms`) are skipped. The format writes only these
three, and an update as a deletion and a creation. With `flattened`, the datum is the row without an envelope, and
fields beside its columns say what was done to it.
Rules: Flink's "Debezium Format" page, its `DebeziumAvroDeserializationSchema` and `DebeziumAvroSerializationSchema`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Mask
from kvformat.codecs._rows import join_parts
from kvformat.codecs.avro.datums import AvroDatums
from kvformat.codecs.avro.format import AvroTable
from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.registry_options import AVRO_OPTIONS, avro_look_options
from kvformat.codecs.avro.schema import Schema
from kvformat.codecs.avro.types import provided_schema, row_of_schema, schema_text
from kvformat.codecs.changes.envelope import DELETE, KINDS, UPDATE_BEFORE
from kvformat.codecs.changes.other_messages import ERROR, OTHER_MESSAGES, SKIP_ALL, find_by_members
from kvformat.codecs.changes.reading_only import check_reading_only
from kvformat.codecs.changes.row_plan import RowPlan
from kvformat.codecs.changes.unchanged import UNCHANGED_OPTIONS
from kvformat.codecs.changes.upsert import MODE_OPTION, ChangeDataFormat
from kvformat.codecs.debezium import flattened_avro
from kvformat.codecs.debezium.avro_changes import AvroChangeReader, AvroChangeSettings
from kvformat.codecs.debezium.change_rows import envelope_of
from kvformat.codecs.debezium.connect_schema import ConnectSchema, image_schema_from_avro, is_mongodb_schema
from kvformat.codecs.debezium.envelopes import CHANGE, ROW_ALONE
from kvformat.codecs.debezium.hints import MONGODB_HINT
from kvformat.codecs.debezium.options import AVRO_TYPE_OPTIONS, DEBEZIUM, FLATTENED, check_types, modes_of
from kvformat.codecs.debezium.other_messages import OTHER_BY_MEMBERS
from kvformat.codecs.debezium.value_readings import ConnectorModes, flink_misreads, plan_row
from kvformat.codecs.registries.registry import AVRO
from kvformat.codecs.registry_formats.format import RegistryFormat
from kvformat.codecs.registry_formats.record_options import SUBJECT_STRATEGY, TOPIC
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.error_codes import Reason
from kvformat.registry.contract.errors import DebeziumTypesWarning, OptionError, SchemaError
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.look import Looker, LookRequest, WrittenColumns
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.schema_registries import RegistrySchema
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkField, FlinkType
from kvformat.registry.format import Format

_KEY_OPTIONS = ("types", "binary.handling.mode")
"""Options of the format of values that hold for keys too."""


class DebeziumAvroConfluentFormat(ChangeDataFormat, RegistryFormat):
    """The `debezium-avro-confluent` format."""

    identifier: ClassVar[str] = "debezium-avro-confluent"
    kind: ClassVar[str] = AVRO
    legacy: ClassVar[bool] = True
    """Whether timestamps are those of Flink's option `timestamp_mapping.legacy`."""
    option_specs: ClassVar[tuple[Option, ...]] = (
        *AVRO_OPTIONS,
        *AVRO_TYPE_OPTIONS,
        OTHER_MESSAGES,
        MODE_OPTION,
        *UNCHANGED_OPTIONS,
        FLATTENED,
    )

    def propose_columns(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.debezium.avro_columns import propose_debezium_avro

        return propose_debezium_avro(sample, self._raw_options, self.registry, self.identifier, flat=self._flat)

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        if self._flat:
            self.changelog_mode = ChangelogMode.UPSERT
            self.nulls_delete = True
        if self._typed:
            self.time_digits = 6  # a CREATE TABLE declares at most three, as in Flink, but databases have six

    @property
    def _typed(self) -> bool:
        """Whether values are read as the types of the database."""
        return bool(self.options["types"] == DEBEZIUM)

    @property
    def _flat(self) -> bool:
        """Whether messages are rows without an envelope."""
        return bool(self.options[FLATTENED.name])

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        check_types(self, direction)
        advice = ". Rows without an envelope are written by format avro-confluent"
        check_reading_only(self, direction, FLATTENED, "whole changes", advice)
        if self.options["schema"] is not None and (self._typed or self._flat):
            option = "types' = 'debezium" if self._typed else "flattened' = 'true"
            raise OptionError(
                f"with '{option}' values are read by their writer's schema: leave the option 'schema' out",
                format=self.identifier,
                option="schema",
            )

    @classmethod
    def look_options(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Read values as the types of the database, and skip messages that change no row."""
        return avro_look_options(
            cls, {"types": DEBEZIUM, OTHER_MESSAGES.name: SKIP_ALL, **super().look_options(options)}
        )

    def looker(self, request: LookRequest) -> Looker:
        from kvformat.codecs.debezium.avro_discover import DebeziumAvroLooker

        schema = next(spec for spec in AVRO_OPTIONS if spec.name == "schema")  # one is not that of many tables
        one_schema = (schema.name, *schema.fallback)
        options = {name: text for name, text in self._raw_options.items() if name not in one_schema}
        of_envelopes = {name: options[name] for spec in AVRO_OPTIONS for name in spec.keys(options)}
        envelopes = get_format("avro-confluent", of_envelopes)
        fmt = type(self)(options)
        return DebeziumAvroLooker(fmt, envelopes, self.datums, request, typed=self._typed, flat=self._flat)

    def written_columns(self, messages: pa.BinaryArray) -> WrittenColumns | None:
        """Return the columns of rows by their schemas; None if the values are read by Debezium's own types anyway."""
        from kvformat.codecs.debezium.avro_discover import written_change_columns

        if self._typed or self.options["schema"] is not None:
            return None
        return written_change_columns(messages, self.datums, flat=self._flat)

    def for_key(self, key: Format) -> Format:
        typed = self._typed and key.identifier == "avro-confluent"
        return ConnectAvroKeyFormat.beside(key, self) if typed else key

    @cached_property
    def datums(self) -> AvroDatums:
        """The datums, which are envelopes."""
        return AvroDatums(self.options, self.registry, self._table, envelope_of, legacy=self.legacy)

    def _table(self, schema: pa.Schema) -> AvroTable:
        return _table(schema, self.options["schema"], self.legacy)

    def own_schema(self, schema: pa.Schema) -> RegistrySchema:
        return self.datums.own_schema(schema)

    def accepted(self, latest: RegistrySchema, schema: pa.Schema) -> RegistrySchema:
        return self.datums.accepted(latest, schema)

    def decode_framed(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        row = row_type(schema)
        present = np.asarray(messages.is_valid())
        filled = present
        if len(messages):
            offsets = np.frombuffer(messages.buffers()[1], np.int32, len(messages) + 1, messages.offset * 4)
            filled = present & (np.diff(offsets) > 0)
        if self.options[OTHER_MESSAGES.name] != ERROR:
            filled = filled & ~self._skipped(messages, row, filled)
        if not filled.all():
            messages = pc.if_else(pa.array(filled), messages, pa.scalar(None, pa.binary()))
        from kvformat.codecs.debezium.avro_columns import image_of, row_of

        flat, seen, new = self._flat, list[Schema](), self.new_schemas(row)

        def on_writer(schema: int | str, writer: Schema) -> Reason | None:
            seen.append(writer)
            if not self._typed:
                _warn_of_types(row, writer, flat)
            if new is None:
                return None
            reads_row = not self._typed and self.options["schema"] is None
            image = None if not reads_row else row_of(writer) if flat else image_of(writer)
            reading = None if image is None else self.datums.reading(image)
            return new.error(schema, lambda: self._columns_of(writer), reading)

        if flat or self._typed:
            batch = self._decode_by_schemas(messages, row, present, filled, on_writer)
        else:
            batch = self._decode(messages, self._reading(row, None), present, filled, on_writer)
        if batch.errors is not None and not flat and any(map(is_mongodb_schema, seen)):
            batch = self._with_mongodb_hints(batch, messages, filled)
        return batch if self.unchanged is None else self.unchanged.apply(batch, [field.name for field in row.fields])

    def _columns_of(self, writer: Schema) -> list[FlinkField]:
        from kvformat.codecs.debezium.avro_discover import change_columns

        types = change_columns(writer, typed=self._typed, flat=self._flat)
        return [FlinkField(name, t) for name, t in types.items()]

    def _skipped(self, messages: pa.BinaryArray, row: FlinkType, filled: Mask) -> Mask:
        """The messages that are skipped because of their schema, which does not have an operation."""
        ids, writers = self.datums.writers(messages, filled)
        setting, skipped = self.options[OTHER_MESSAGES.name], []
        for schema_id, writer in writers.items():
            if self._flat:
                other = flattened_avro.other_message_of(writer, row)
            else:
                other = find_by_members(OTHER_BY_MEMBERS, {field.name: field for field in writer.fields})
            if other is not None and other.is_skipped(setting):
                skipped.append(schema_id)
        return np.isin(ids, skipped)

    def _decode_by_schemas(
        self,
        messages: pa.BinaryArray,
        row: FlinkType,
        present: Mask,
        filled: Mask,
        on_writer: Callable[[int | str, Schema], Reason | None],
    ) -> DecodedBatch:
        """Decode messages by their writers' schemas; messages whose columns are read alike are decoded together."""
        ids, writers = self.datums.writers(messages, filled)
        readings: dict[str, _Reading] = {}
        which = np.zeros(len(ids), np.int64)  # messages without a schema go with any reading
        for schema_id, writer in writers.items():
            reading = self._reading(row, writer)
            readings.setdefault(reading.name, reading)
            which[ids == schema_id] = list(readings).index(reading.name)
        parts = []
        for number, reading in enumerate(readings.values() or [self._reading(row, None)]):
            at = np.flatnonzero(which == number)
            some = messages if len(at) == len(ids) else messages.take(pa.array(at))
            parts.append((at, self._decode(some, reading, present[at], filled[at], on_writer)))
        return parts[0][1] if len(parts) == 1 else join_parts(parts)

    def _decode(
        self,
        messages: pa.BinaryArray,
        reading: _Reading,
        present: Mask,
        filled: Mask,
        on_writer: Callable[[int | str, Schema], Reason | None],
    ) -> DecodedBatch:
        """Decode messages whose columns are read alike."""
        reader = reading.reader
        read = self.datums.decode(messages, reader.schema, filled, on_writer, read=reader.read)
        mongodb = cache(lambda: self._from_mongodb(messages, filled))
        batch = reader.rows_of(read, present, filled, has_hint=lambda message: bool(mongodb()[message]))
        return batch if reading.plan is None else reading.plan.apply(batch)

    def _reading(self, row: FlinkType, writer: Schema | None) -> _Reading:
        """Return how the messages of a writer's schema are read; None stands for any writer's."""
        options, flat = self.options, self._flat
        modes = modes_of(options) if options["types"] == DEBEZIUM else None
        bare = self.upsert and self.row_key is not None and self.row_key.in_record
        settings = AvroChangeSettings(options[OTHER_MESSAGES.name], self.upsert and not flat, bare)
        return _reading(row, writer, options["schema"], modes, flat, settings, self.legacy)

    def _with_mongodb_hints(self, batch: DecodedBatch, messages: pa.BinaryArray, filled: Mask) -> DecodedBatch:
        """Return the batch with hints at the errors of MongoDB's messages."""
        assert batch.errors is not None
        hints = pa.array(np.where(self._from_mongodb(messages, filled), MONGODB_HINT, ""), pa.string())
        return replace(batch, errors=pc.binary_join_element_wise(batch.errors, hints, ""))

    def _from_mongodb(self, messages: pa.BinaryArray, filled: Mask) -> Mask:
        """Return a mask of the messages whose writer's schema is that of MongoDB's changes."""
        ids, writers = self.datums.writers(messages, filled)
        return np.isin(ids, [schema_id for schema_id, writer in writers.items() if is_mongodb_schema(writer)])

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        envelope = envelope_of(row_type(schema))
        deleted = pa.repeat(pa.scalar(False), len(rows))
        if row_kinds is not None:
            deleted = pc.is_in(row_kinds, pa.array([KINDS[UPDATE_BEFORE], KINDS[DELETE]]))
        nothing = pa.scalar(None, rows.type)
        before, after = pc.if_else(deleted, rows, nothing), pc.if_else(deleted, nothing, rows)
        op = pc.if_else(deleted, pa.scalar("d"), pa.scalar("c"))
        envelopes = pa.StructArray.from_arrays(
            [before, after, op], names=[field.name for field in envelope.fields], mask=rows.is_null()
        )
        return self.encode_with(envelopes, schema, self.datums.writer(envelopes, schema))


@cached_by_identity
def _table(schema: pa.Schema, provided: str | None, legacy: bool) -> AvroTable:
    row = row_type(schema)
    return AvroTable(envelope_of(row), _schema(row, provided, legacy))


@cached_by_identity
def _schema(row: FlinkType, provided: str | None, legacy: bool) -> Schema:
    """Return the schema of envelopes: the given one, or the one for rows of this type."""
    envelope = envelope_of(row)
    if provided is None:
        return parse_schema(schema_text(envelope, legacy=legacy, optional=True))
    written = provided_schema(provided)
    _check(written, envelope, legacy=legacy)
    return written


class _Reading(NamedTuple):
    """How the messages of a writer's schema are read: as rows of wire values, which the `plan`, if any, converts.

    `name` is equal for writers whose columns are read alike.
    """

    plan: RowPlan | None
    reader: AvroChangeReader
    name: str


@cached_by_identity
def _reading(
    row: FlinkType,
    writer: Schema | None,
    provided: str | None,
    modes: ConnectorModes | None,
    flat: bool,
    settings: AvroChangeSettings,
    legacy: bool,
) -> _Reading:
    plan, wire, refusal = None, row, ""
    if modes is not None:
        image = None if writer is None else image_schema_from_avro(writer, flat=flat)
        plan = plan_row(row, image or ConnectSchema("struct"), modes, "avro")
        wire = plan.wire
    if flat:
        wire = flattened_avro.add_marks(wire, writer)
        refusal = "" if writer is None else flattened_avro.refusal_of(writer, row)
    reader = _reader(wire, len(row.fields), provided, flat, refusal, settings, legacy)
    return _Reading(plan, reader, f"{plan} {wire.summary()} {refusal}")


@cached_by_identity
def _reader(
    wire: FlinkType,
    columns: int,
    provided: str | None,
    flat: bool,
    refusal: str,
    settings: AvroChangeSettings,
    legacy: bool,
) -> AvroChangeReader:
    """Return the reader of rows of a type. Writers whose columns are read alike share it."""
    if flat:
        schema = parse_schema(schema_text(wire, legacy=legacy, optional=True))
        return AvroChangeReader(wire, columns, schema, ROW_ALONE, settings, refusal)
    return AvroChangeReader(wire, columns, _schema(wire, provided, legacy), CHANGE, settings, refusal)


@cached_by_identity
def _warn_of_types(row: FlinkType, writer: Schema, flat: bool) -> None:
    """Warn once for each schema about columns for which Flink takes the values for other values."""
    image = image_schema_from_avro(writer, flat=flat)
    for column in row.fields:
        written = None if image is None else image.fields.get(column.name)
        if written is not None and flink_misreads(column.type, written):
            warnings.warn(
                f"format '{DebeziumAvroConfluentFormat.identifier}': column '{column.name}' is "
                f"{column.type.summary()}, but {written} in the schema of its messages. As in Flink, its values are "
                "read as other values. Set 'types' = 'debezium', or declare the column as the number, text or bytes "
                "that the messages have",
                DebeziumTypesWarning,
                stacklevel=3,  # beyond the cache
            )


def _check(provided: Schema, row: FlinkType, *, legacy: bool) -> None:
    """Raise `SchemaError` if the given schema is not exactly that of the envelope."""
    provided_row = row_of_schema(provided, legacy=legacy)
    if provided_row != row:
        raise SchemaError(
            "Schema provided for 'debezium-avro-confluent' format must be a nullable record type with fields 'before', "
            f"'after', 'op' and schema of fields 'before' and 'after' must match the table schema: {provided.text}. It "
            f"stands for {provided_row.summary()}, the table has {row.summary()}",
            format=DebeziumAvroConfluentFormat.identifier,
        )


class ConnectAvroKeyFormat(DebeziumAvroConfluentFormat):
    """Format `avro-confluent` for the keys of Debezium's records, which the connector writes with its types.

    It reads keys of format avro-confluent beside values of `debezium-avro-confluent` with `types` = `debezium`. The
    format does not write.
    """

    identifier: ClassVar[str] = "avro-confluent"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self.changelog_mode = ChangelogMode.INSERT_ONLY

    @classmethod
    def beside(cls, key: Format, value: DebeziumAvroConfluentFormat) -> ConnectAvroKeyFormat:
        """Return the format that reads keys declared as avro-confluent, for records with values of format `value`."""
        schema = next(spec for spec in AVRO_OPTIONS if spec.name == "schema")
        dropped = {*schema.keys(key._raw_options), SUBJECT_STRATEGY, TOPIC}  # the last two are for writing
        key_options = {name: text for name, text in key._raw_options.items() if name not in dropped}
        modes = {name: value.options[name] for name in _KEY_OPTIONS if value.options[name] is not None}
        return cls({**key_options, **modes, "flattened": True})

    def decode_framed(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        return replace(super().decode_framed(messages, schema, metadata=metadata), row_kinds=None)
