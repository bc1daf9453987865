"""`avro-confluent`: Avro messages with schemas in a schema registry.

    00  00 00 00 01  0e 02 04 61 62      `00`, the schema's id as four bytes, big-endian, and the datum

When reading, the writer's schema is the schema of each message's id. The reader's schema is the option `schema`, or the
table's schema. Writing registers the option `schema`, or the table's schema, under `subject` and writes its id.
Timestamps are read and written as by `avro` with `timestamp_mapping.legacy`.
Rules: Flink's "Confluent Avro Format" page, its `RegistryAvroFormatFactory`, and Confluent's wire format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from kvformat.codecs.avro.datums import AvroDatums
from kvformat.codecs.avro.format import AvroTable
from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.read import ChoiceBatch
from kvformat.codecs.avro.reading import READ_ENUM_AND_FIXED
from kvformat.codecs.avro.registry_options import AVRO_OPTIONS, avro_look_options
from kvformat.codecs.avro.resolve import choice, plan
from kvformat.codecs.avro.schema import Schema, records_of
from kvformat.codecs.avro.table import read_rows, read_table
from kvformat.codecs.avro.types import ROOT, check_provided, provided_schema, schema_text
from kvformat.codecs.registries.framing import distinct_ids
from kvformat.codecs.registries.options import IGNORE, ON_NEW_SCHEMA
from kvformat.codecs.registries.registry import AVRO
from kvformat.codecs.registry_formats.record_format import RecordFormat, beside, schema_of_column
from kvformat.codecs.registry_formats.record_options import RECORD_NAME, RECORD_OPTIONS, TABLES_OF_TYPES
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.error_codes import Reason
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.look import Looker, LookRequest
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.schema_registries import RegistrySchema
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType

if TYPE_CHECKING:
    from pyspark.sql import Column


class AvroConfluentFormat(RecordFormat):
    """The `avro-confluent` format."""

    identifier: ClassVar[str] = "avro-confluent"
    kind: ClassVar[str] = AVRO
    writes_unions: ClassVar[bool] = True
    option_specs: ClassVar[tuple[Option, ...]] = (*AVRO_OPTIONS, *RECORD_OPTIONS)
    legacy: ClassVar[bool] = True
    """Whether timestamps are those of Flink's option `timestamp_mapping.legacy`."""

    @classmethod
    def look_options(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        return avro_look_options(cls, super().look_options(options))

    def propose_records(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.avro.columns import propose_registry

        plain, name = bool(self.options[READ_ENUM_AND_FIXED]), self.options[RECORD_NAME]
        return propose_registry(sample, self._raw_options, self.registry, plain=plain, name=name)

    def looker_of_records(self, request: LookRequest) -> Looker:
        from kvformat.codecs.avro.discover import AvroLooker

        return AvroLooker(self.datums, request, by_record=bool(request.options.get(TABLES_OF_TYPES)))

    @cached_property
    def datums(self) -> AvroDatums:
        """The datums, which are rows."""
        return AvroDatums(
            self.options,
            self.registry,
            self._table,
            lambda row: row,
            legacy=self.legacy,
            record=self.options[RECORD_NAME],
        )

    def _table(self, schema: pa.Schema) -> AvroTable:
        return _table(schema, self.options["schema"], self.identifier, self.legacy, self.options[RECORD_NAME])

    def own_schema(self, schema: pa.Schema) -> RegistrySchema:
        return self.datums.own_schema(schema)

    def accepted(self, latest: RegistrySchema, schema: pa.Schema) -> RegistrySchema:
        return self.datums.accepted(latest, schema)

    def decode_records(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        table = self._table(schema)
        present = messages.is_valid().to_numpy(zero_copy_only=False)
        decoded = self.datums.decode(messages, table.schema, present, self._on_writer(row_type(schema)))
        return read_table(decoded, table.row, micros_as_millis=False)

    def decode_at_once(self, messages: pa.BinaryArray, row: FlinkType) -> DecodedBatch | None:
        if self.options[ON_NEW_SCHEMA] != IGNORE or messages.null_count or not len(messages) * len(row.fields):
            return None
        frames = self.framing.read(messages, np.ones(len(messages), np.bool_))
        names = [self.record_columns[column.name] for column in row.fields]
        tables = [self._table(schema_of_column(column.type)) for column in row.fields]
        distinct, which = distinct_ids(frames.ids)
        plans = []
        for writer in self.datums.schemas_of(distinct.tolist(), frames).values() if frames.good.all() else ():
            if isinstance(writer, Reason) or (writer.optional or writer).full_name not in names:
                return None
            name = (writer.optional or writer).full_name
            number = names.index(name)
            plain = self.options[READ_ENUM_AND_FIXED]
            plans.append(choice(plan(writer, tables[number].schema, plain, self.legacy), number))
        if not plans:
            return None
        readers = _choices(row, *(table.schema for table in tables))
        decoded, values = readers.read(frames.messages, plans, which, frames.size)
        parts = [read_rows(rows, table.row, micros_as_millis=False) for rows, table in zip(values, tables, strict=True)]
        if any(reasons for _, reasons in parts):
            return None
        counts = np.asarray(decoded.values.value_lengths().fill_null(-1))
        of_messages = of_rows = np.asarray(decoded.values.values)
        if len(of_rows) < len(messages):  # a message without a row has an error
            of_messages = np.zeros(len(messages), np.int32)
            of_messages[counts > 0] = of_rows
        rows = beside([*enumerate(part for part, _ in parts)], of_messages, counts, row)
        return DecodedBatch(rows, None, decoded.errors, decoded.codes)

    def _on_writer(self, row: FlinkType) -> Callable[[int | str, Schema], Reason | None] | None:
        new = self.new_schemas(row)
        if new is None:
            return None
        from kvformat.codecs.avro.discover import avro_columns

        def error(schema: int | str, writer: Schema) -> Reason | None:
            branches = records_of(writer)
            records = [branch for branch in branches if branch.full_name == new.record] or branches
            reads_one = len(records) == 1 and self.options["schema"] is None
            reading = self.datums.reading(records[0]) if reads_one else None
            return new.error(schema, lambda: chain.from_iterable(map(avro_columns, records)), reading)

        return error

    def encode_records(self, rows: pa.StructArray, schema: pa.Schema) -> EncodedBatch:
        return self.encode_with(rows, schema, self.datums.writer(rows, schema))

    def native_encode(self, row: Column, schema: FlinkType, row_kind: Column | None) -> Column | None:
        options = self.options
        schema_id, provided, name = (options[option] for option in ("schema-id", "schema", RECORD_NAME))
        if schema_id is None or not self.framing.keeps_datums:
            return None  # the id is unknown here, or the datum is compressed
        try:
            derived = parse_schema(schema_text(schema, legacy=self.legacy, name=name or ROOT))
        except SchemaError:
            return None  # these columns need the provided schema
        if provided not in (None, derived.text):
            return None  # Spark's function matches other fields, and has other types for these columns
        from kvformat.codecs.avro.native import encode_native

        return encode_native(row, derived, schema, self.framing.prefix(schema_id))


@cached_by_identity
def _table(schema: pa.Schema, provided: str | None, format: str, legacy: bool, name: str | None) -> AvroTable:
    row = row_type(schema)
    derived = parse_schema(schema_text(row, legacy=legacy, name=name or ROOT))
    if provided is None:
        return AvroTable(row, derived)
    written = provided_schema(provided)
    check_provided(written, row, format, legacy=legacy)
    return AvroTable(row, written)


@cached_by_identity
def _choices(row: FlinkType, *readers: Schema) -> ChoiceBatch:
    """Return the reader of datums that each fill one column of a row. Each has a schema in `readers`."""
    return ChoiceBatch([reader.arrow_type for reader in readers])
