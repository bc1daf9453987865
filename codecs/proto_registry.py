"""`proto-registry`: Protobuf messages with schemas in a schema registry, as Flink on Confluent Cloud has them.

    00  00 00 00 01  00  08 07  12 02 61 62      `00`, the schema's id, the path of the message in its file, the message

The path is `00` for the first message of the file. The types come from the schema of each message's id, with the files
that it imports. Columns are fields of the same names; a column without a field is NULL. Writing registers the option
`schema`, or a schema of the table's columns, under the subject, and writes its first message.
Rules: "Data Type Mappings" and "CREATE TABLE" in the documentation of Confluent Cloud for Apache Flink, Confluent's
wire format, and protobuf's encoding guide.
"""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from kvformat.codecs.protobuf.messages import SchemaWriter, decode_messages, text_of
from kvformat.codecs.protobuf.schema_text import ROOT
from kvformat.codecs.registries.confluent_frames import ConfluentFraming, is_protobuf_frame
from kvformat.codecs.registries.framing import Framing, with_prefix
from kvformat.codecs.registries.options import cloud_options
from kvformat.codecs.registries.registry import PROTOBUF
from kvformat.codecs.registry_formats.record_format import RecordFormat
from kvformat.codecs.registry_formats.record_options import RECORD_NAME, RECORD_OPTIONS
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.schema_registries import RegistrySchema
from kvformat.registry.contract.schemas import row_type


class ProtoRegistryFormat(RecordFormat):
    """The `proto-registry` format."""

    identifier: ClassVar[str] = "proto-registry"
    kind: ClassVar[str] = PROTOBUF
    option_specs: ClassVar[tuple[Option, ...]] = cloud_options(
        "<id>.proto",
        Option(
            name="schema",
            doc="Ours. The text of the `.proto` file that writing registers, instead of the one derived from the "
            "table. Its first message is written.",
        ),
        *RECORD_OPTIONS,
    )

    @cached_property
    def framing(self) -> Framing:
        return ConfluentFraming(is_protobuf_frame)

    def propose_records(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.protobuf.schema_columns import propose_proto_registry

        return propose_proto_registry(sample, self._raw_options, self.settings)

    def decode_records(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        row = row_type(schema)
        new = self.new_schemas(row)
        return decode_messages(messages, row, self.settings, self.identifier, None if new is None else new.error)

    def own_schema(self, schema: pa.Schema) -> RegistrySchema:
        name = self.options[RECORD_NAME] or ROOT
        return RegistrySchema(PROTOBUF, self.options["schema"] or text_of(row_type(schema), self.identifier, name))

    def accepted(self, latest: RegistrySchema, schema: pa.Schema) -> RegistrySchema:
        SchemaWriter(row_type(schema), latest, self.identifier)
        return latest

    def encode_records(self, rows: pa.StructArray, schema: pa.Schema) -> EncodedBatch:
        row = row_type(schema)
        text_of(row, self.identifier)  # raises `SchemaError` for types that no Protobuf schema has

        def write(schema_id: int, written: RegistrySchema) -> EncodedBatch:
            batch = _writer(row, written, self.identifier).write(rows)
            return with_prefix(batch, self.framing.prefix(schema_id) + b"\0")

        return self.encode_with(rows, schema, write)


_writer = cached_by_identity(SchemaWriter)
