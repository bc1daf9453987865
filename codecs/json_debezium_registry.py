"""`json-debezium-registry`: Debezium's changes in JSON with a schema registry, as Flink on Confluent Cloud reads them.

    00  00 00 00 01  {"before": null, "after": {"id": 1}, "op": "c"}      `00`, the schema's id, and the text

It is `debezium-json` after the frame of `json-registry`, with numbers for dates and times as there. The registry is
not asked. It does not write.
Rules: "Debezium" in the documentation of Confluent Cloud for Apache Flink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from kvformat.codecs.changes.format import CHANGE_OPTIONS
from kvformat.codecs.changes.unchanged import UNCHANGED_OPTIONS
from kvformat.codecs.debezium.options import FLATTENED, TYPE_OPTIONS
from kvformat.codecs.debezium_json import DebeziumJsonFormat
from kvformat.codecs.json.nulls import is_null
from kvformat.codecs.json.settings import WRITE_OPTIONS, ReadSettings
from kvformat.codecs.registries.confluent_frames import GUID_PREFIX, PREFIX, bodies, body
from kvformat.codecs.registries.framing import cut, with_errors
from kvformat.codecs.registries.options import cloud_options
from kvformat.codecs.registries.registry import JSON
from kvformat.codecs.registries.schema_ids import SCHEMA_ID_TYPES
from kvformat.codecs.registry_formats.format import RegistryFormat
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schemas import row_type


class JsonDebeziumRegistryFormat(DebeziumJsonFormat, RegistryFormat):
    """The `json-debezium-registry` format."""

    identifier: ClassVar[str] = "json-debezium-registry"
    kind: ClassVar[str] = JSON
    option_specs: ClassVar[tuple[Option, ...]] = (
        *cloud_options("<id>.json"),
        *(option for option in CHANGE_OPTIONS if option not in WRITE_OPTIONS),
        *UNCHANGED_OPTIONS,
        *TYPE_OPTIONS,
        FLATTENED,
    )
    reads_only: ClassVar[bool] = True
    reads_without_schemas: ClassVar[bool] = True
    skip: ClassVar[int] = PREFIX
    metadata_types = DebeziumJsonFormat.metadata_types | SCHEMA_ID_TYPES

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        from kvformat.codecs.registry_formats.recognize import recognize_json_debezium

        return recognize_json_debezium(sample)

    def propose_columns(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.json.columns import without_frames

        return super().propose_columns(without_frames(sample))

    def read_settings(self) -> ReadSettings:
        return replace(super().read_settings(), epochs=True)

    def is_tombstone(self, message: bytes) -> bool:
        return self.nulls_delete and is_null(body(message))

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        return RegistryFormat.decode_arrow(self, messages, schema, metadata=metadata)

    def decode_framed(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        framed, size, errors = bodies(messages)
        new = self.new_schemas(row_type(schema), widths=False, of_changes=True)
        if new is not None:
            framed, errors = new.refused_json(messages, framed, errors)
        if size > PREFIX:  # GUIDs; the reader skips as many bytes as an id has
            framed = cut(framed, np.asarray(framed.is_valid()), GUID_PREFIX - PREFIX)
        batch = DebeziumJsonFormat.decode_arrow(self, framed, schema, metadata=metadata)
        return batch if errors is None else with_errors(batch, errors)
