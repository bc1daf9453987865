"""`proto-debezium-registry`: Debezium's changes in Protobuf with a schema registry, as on Confluent Cloud.

    00  00 00 00 01  00  12 02 08 07  22 01 63      `00`, the schema's id, the path of the message, and the message:
                                                    before (absent), after ({"id": 7}), op ("c")

    c, r  +I(after)     u  -U(before), +U(after)     d  -D(before)     a null or empty message  no rows

The message is read as `proto-registry` reads a row of `before`, `after` and `op`; other fields are skipped. The format
does not write.
Rules: "Debezium" in the documentation of Confluent Cloud for Apache Flink.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.changes.other_messages import OTHER_MESSAGES
from kvformat.codecs.changes.unchanged import UNCHANGED_OPTIONS
from kvformat.codecs.changes.upsert import MODE_OPTION, ChangeDataFormat
from kvformat.codecs.debezium.change_rows import envelope_of, rows_of_envelopes
from kvformat.codecs.protobuf.messages import decode_messages
from kvformat.codecs.registries.confluent_frames import ConfluentFraming, is_protobuf_frame
from kvformat.codecs.registries.framing import Framing
from kvformat.codecs.registries.options import cloud_options
from kvformat.codecs.registries.registry import PROTOBUF
from kvformat.codecs.registry_formats.format import RegistryFormat
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.schemas import row_type


class ProtoDebeziumRegistryFormat(ChangeDataFormat, RegistryFormat):
    """The `proto-debezium-registry` format."""

    identifier: ClassVar[str] = "proto-debezium-registry"
    kind: ClassVar[str] = PROTOBUF
    option_specs: ClassVar[tuple[Option, ...]] = (
        *cloud_options("<id>.proto"),
        OTHER_MESSAGES,
        MODE_OPTION,
        *UNCHANGED_OPTIONS,
    )
    reads_only: ClassVar[bool] = True

    @cached_property
    def framing(self) -> Framing:
        return ConfluentFraming(is_protobuf_frame)

    def propose_columns(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.protobuf.schema_columns import propose_proto_registry

        proposal = propose_proto_registry(sample, self._raw_options, self.settings)
        columns = {column.name: column.type for column in proposal.fields if column.type.root == "ROW"}
        images = [t for name, t in columns.items() if name in ("after", "before")]
        return replace(proposal, fields=images[0].fields if images else ())

    def decode_framed(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        row = row_type(schema)
        present = np.asarray(messages.is_valid())
        filled = pc.fill_null(pc.greater(pc.binary_length(messages), 0), False)
        if pc.any(pc.invert(filled), min_count=0).as_py():
            messages = pc.if_else(filled, messages, pa.scalar(None, pa.binary()))
        new = self.new_schemas(row, of_changes=True)
        check = None if new is None else new.error
        envelopes = decode_messages(messages, envelope_of(row), self.settings, self.identifier, check)
        batch = rows_of_envelopes(
            envelopes,
            present,
            np.asarray(filled),
            upsert=self.upsert,
            bare_deletes=self.row_key is not None and self.row_key.in_record,
            other_messages=self.options[OTHER_MESSAGES.name],
        )
        return batch if self.unchanged is None else self.unchanged.apply(batch, [field.name for field in row.fields])
