"""`proto-registry`: Protobuf messages with schemas in a schema registry, as Flink on Confluent Cloud has them.

    00  00 00 00 01  00  08 07  12 02 61 62      `00`, the schema's id, the path of the message in its file, the message

The path is `00` for the first message of the file. The types come from the schema of each message's id, with the files
that it imports. Columns are fields of the same names; a column without a field is NULL. Writing registers the option
`schema`, or a schema of the table's columns, under the subject, and writes its first message.
Rules: "Data Type Mappings" and "CREATE TABLE" in the documentation of Confluent Cloud for Apache Flink, Confluent's
wire format, and protobuf's encoding guide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._changes.row_plan import join_parts
from kvformat.codecs._confluent import PROTOBUF, RegistrySchema, prefix, read_frames, with_frame_errors
from kvformat.codecs._confluent.format import RegistryFormat
from kvformat.codecs._confluent.options import cloud_options
from kvformat.codecs._confluent.protobuf_messages import (
    MessageReader,
    Messages,
    MessageWriter,
    message_groups,
    only_group,
)
from kvformat.codecs._confluent.protobuf_text import proto_text
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType


class ProtoRegistryFormat(RegistryFormat):
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
    )

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        from kvformat.codecs._infer.protobuf_schemas import recognize_proto_registry

        return recognize_proto_registry(sample)

    def propose_schema(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs._infer.protobuf_schemas import propose_proto_registry

        return propose_proto_registry(sample, self._given, self.settings)

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        row = row_type(schema)
        _text(row, self.identifier)  # raises `SchemaError` for types that no Protobuf schema has
        only = only_group(messages)
        reader = None if only is None else self._reader(row, only)
        if only is not None and isinstance(reader, MessageReader):
            return reader.read(messages, only.size)
        present = np.asarray(messages.is_valid())
        frames = read_frames(messages, present)
        reasons = frames.errors()
        groups, which = message_groups(messages, frames.ids, frames.good)
        reasons[which == Messages.WITHOUT_PATH] = Messages.NO_PATH
        readers = [self._reader(row, group) for group in groups]
        for number, reader in enumerate(readers):
            if isinstance(reader, str):
                reasons[which == number] = reader
        parts, found = [], []
        for number, (group, reader) in enumerate(zip(groups, readers, strict=True)):
            if isinstance(reader, MessageReader):
                at = np.flatnonzero(which == number)
                found.append(number)
                parts.append((at, reader.read(messages.take(pa.array(at)), group.size)))
        others = np.flatnonzero(~np.isin(which, found))
        if len(others) or not parts:
            parts.append((others, MessageReader.nothing(row, len(others))))
        batch = join_parts(parts)
        return with_frame_errors(batch, pa.array(reasons, pa.string()) if any(reasons) else None)

    def _reader(self, row: FlinkType, group: Messages) -> MessageReader | str:
        return group.reader(row, self.settings, self.identifier)

    def own_schema(self, schema: pa.Schema) -> RegistrySchema:
        return RegistrySchema(PROTOBUF, self.options["schema"] or _text(row_type(schema), self.identifier))

    def accepted(self, latest: RegistrySchema, schema: pa.Schema) -> RegistrySchema:
        MessageWriter(row_type(schema), latest, self.identifier)
        return latest

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        row = row_type(schema)
        _text(row, self.identifier)  # raises `SchemaError` for types that no Protobuf schema has

        def write(schema_id: int, written: RegistrySchema) -> EncodedBatch:
            batch = _writer(row, written, self.identifier).write(rows)
            head = prefix(schema_id) + b"\0"
            framed = pc.binary_join_element_wise(pa.scalar(head), batch.messages, pa.scalar(b""))
            return EncodedBatch(framed, batch.errors, batch.codes)

        return self.encode_with(rows, schema, write)


@cached_by_identity
def _writer(row: FlinkType, schema: RegistrySchema, format: str) -> MessageWriter:
    return MessageWriter(row, schema, format)


@cached_by_identity
def _text(row: FlinkType, format: str) -> str:
    return proto_text(row, format)
