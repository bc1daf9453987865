"""`json-registry`: JSON texts with a JSON Schema in a schema registry, as Flink on Confluent Cloud has them.

    00  00 00 00 01  {"id": 7, "at": 1709251199123}      `00`, the schema's id as four bytes, big-endian, and the text

The table's columns are found by name, as by `json`. The schema is not needed for reading, so the registry is not asked.
Dates and times are numbers: days, milliseconds of a day, milliseconds since 1970. Texts are read as by `json`. Writing
registers the option `schema`, or a JSON Schema of the table's columns, under the subject and writes its id. Columns
that are NULL are omitted.
Rules: "Data Type Mappings" and "CREATE TABLE" in the documentation of Confluent Cloud for Apache Flink, and Confluent's
wire format.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from kvformat.codecs._timestamps.options import FORM_OPTIONS, TimestampForms
from kvformat.codecs.json.json_schema import ROOT, check_columns, json_schema
from kvformat.codecs.json.nulls import is_null
from kvformat.codecs.json.read import JsonReader
from kvformat.codecs.json.settings import TIMESTAMP_OPTION, ReadSettings, WriteSettings
from kvformat.codecs.json.types import EPOCHS
from kvformat.codecs.json.write import JsonWriter
from kvformat.codecs.registries.confluent_frames import bodies, body, prefix, read_after_ids
from kvformat.codecs.registries.framing import with_errors, with_prefix
from kvformat.codecs.registries.options import cloud_options
from kvformat.codecs.registries.registry import JSON
from kvformat.codecs.registry_formats.record_format import RecordFormat
from kvformat.codecs.registry_formats.record_options import RECORD_NAME, RECORD_OPTIONS
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.schema_registries import RegistrySchema
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType

if TYPE_CHECKING:
    from pyspark.sql import Column

_TIMES = "timestamp-format.standard"
WRITING = WriteSettings(plain_decimals=True, ignore_null_fields=True, epochs=True)


class JsonRegistryFormat(RecordFormat):
    """The `json-registry` format."""

    identifier: ClassVar[str] = "json-registry"
    kind: ClassVar[str] = JSON
    reads_without_schemas: ClassVar[bool] = True
    option_specs: ClassVar[tuple[Option, ...]] = cloud_options(
        "<id>.json",
        Option(
            name="schema",
            doc="Ours. The JSON Schema that writing registers, instead of the one derived from the table.",
        ),
        Option(
            name=_TIMES,
            default=TIMESTAMP_OPTION.default,
            allowed=TIMESTAMP_OPTION.allowed,
            doc="Ours. Reading: timestamps that are texts are `2024-02-29 23:59:59.123` or `2024-02-29T23:59:59.123`.",
        ),
        *(replace(option, doc=option.doc.replace("Ours. The", "Ours. Reading: the")) for option in FORM_OPTIONS),
        *RECORD_OPTIONS,
    )

    def propose_records(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.json.columns import propose_json_registry

        return propose_json_registry(sample, self._raw_options, self.settings, self.options[RECORD_NAME])

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        TimestampForms.of(self.options, self.identifier)

    def decode_records(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        row = row_type(schema)
        self._schema_text(row)  # raises `SchemaError` for types that no JSON Schema has
        forms = TimestampForms.of(self.options, self.identifier)
        reader = _reader(row, ReadSettings(iso=self.options[_TIMES] == "ISO-8601", epochs=True, forms=forms))
        new = self.new_schemas(row, widths=False)
        if new is None:
            batch = read_after_ids(messages, reader)
            if batch is not None:
                return batch
        framed, size, errors = bodies(messages)
        if new is not None:
            framed, errors = new.refused_json(messages, framed, errors)
        batch = reader.read(framed, skip=size)
        return batch if errors is None else with_errors(batch, errors)

    def own_schema(self, schema: pa.Schema) -> RegistrySchema:
        return RegistrySchema(JSON, self.options["schema"] or self._schema_text(row_type(schema)))

    def _schema_text(self, row: FlinkType) -> str:
        return _schema_text(row, self.identifier, self.options[RECORD_NAME] or ROOT)

    def accepted(self, latest: RegistrySchema, schema: pa.Schema) -> RegistrySchema:
        check_columns(latest.text, row_type(schema), self.identifier)
        return latest

    def encode_records(self, rows: pa.StructArray, schema: pa.Schema) -> EncodedBatch:
        row = row_type(schema)
        self._schema_text(row)  # raises `SchemaError` for types that no JSON Schema has

        def write(schema_id: int, written: RegistrySchema) -> EncodedBatch:
            return with_prefix(_writer(row, WRITING).write(rows), prefix(schema_id))

        return self.encode_with(rows, schema, write)

    def is_tombstone(self, message: bytes) -> bool:
        return is_null(body(message))

    def native_encode(self, row: Column, schema: FlinkType, row_kind: Column | None) -> Column | None:
        schema_id = self.options["schema-id"]
        if schema_id is None or any(t.root in EPOCHS for _, t in schema.walk()):
            return None  # the id is unknown here, or Spark's own functions write times as texts
        from pyspark.sql import functions as F

        from kvformat.codecs.json.native import encode_native

        text = encode_native(row, schema, WRITING)
        return None if text is None else F.concat(F.lit(prefix(schema_id)), text)


_reader = cached_by_identity(JsonReader)
_writer = cached_by_identity(JsonWriter)
_schema_text = cached_by_identity(json_schema)
