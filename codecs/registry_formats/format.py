"""The base class of formats with a schema registry: the registry's settings, and the schema to write.

avro-confluent, avro-registry       an Avro datum after the id of its schema
json-registry, proto-registry       a text of JSON, a Protobuf message
their Debezium forms                the row before and after a change, in the same three encodings
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from kvformat.codecs.avro.types import VARIANT_COLUMNS, check_variants
from kvformat.codecs.registries.format_registry import Registry
from kvformat.codecs.registries.framing import Framing
from kvformat.codecs.registries.options import IGNORE, ON_NEW_SCHEMA
from kvformat.codecs.registries.schema_ids import SCHEMA_ID, SCHEMA_ID_TYPES, add_to_rows, ids_of_frames
from kvformat.codecs.registry_formats.new_schemas import NewSchemas
from kvformat.codecs.registry_formats.record_options import RECORD_NAME
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.error_codes import ErrorCode, Reason, reason_arrays
from kvformat.registry.contract.errors import SchemaError, SchemaRegistryError
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.options import Direction
from kvformat.registry.contract.samples import MessageSample, Recognition
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.format import Format

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class RegistryFormat(Format):
    """A format whose messages start with the id of a schema in a registry, or whose records have it in a header."""

    encode_needs_schema: ClassVar[bool] = True
    kind: ClassVar[str]
    """The kind of the schemas."""
    metadata_types: Mapping[str, str] = SCHEMA_ID_TYPES
    registry_type: ClassVar[type[Registry]] = Registry
    reads_only: ClassVar[bool] = False
    """Whether the format can't write."""
    reads_without_schemas: ClassVar[bool] = False
    """Whether reading needs no schemas, and so no registry."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.record_headers = cls.registry_type.headers

    @classmethod
    def complete_options(cls, options: Mapping[str, Any], *, topic: str, part: Part) -> Mapping[str, Any]:
        return cls.registry_type.complete_options(options, topic=topic, part=part)

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        """Recognize messages in Confluent's frame. Formats with the same messages as another one recognize none."""
        from kvformat.codecs.registry_formats.recognize import IN_CONFLUENTS_FRAME

        recognize = IN_CONFLUENTS_FRAME.get(cls.identifier)
        return () if recognize is None else recognize(sample)

    @cached_property
    def registry(self) -> Registry:
        """The registry of the options."""
        return self.registry_type(self.options, self.identifier)

    @property
    def settings(self) -> RegistrySettings:
        """The settings of the registry's client."""
        return self.registry.settings

    @property
    def framing(self) -> Framing:
        """How messages say which schema they have."""
        return self.registry.framing

    def prepare(
        self, direction: Direction, schema: StructType | pa.Schema | str, metadata: Sequence[str] = ()
    ) -> pa.Schema:
        resolved = super().prepare(direction, schema, metadata)
        if VARIANT_COLUMNS.name in self.options:
            check_variants(row_type(resolved), self.options[VARIANT_COLUMNS.name] or (), self.identifier)
        return resolved

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        if direction == "encode" and self.reads_only:
            raise self.unsupported("encode")
        self.registry.check(direction, reads_schemas=self.reads_schemas, names_subject=self.names_subject)

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        others = tuple(key for key in metadata if key != SCHEMA_ID)
        batch = self.decode_framed(messages, schema, metadata=others)
        if len(others) == len(metadata):
            return batch
        return add_to_rows(batch, self.schema_ids(messages), len(schema) + metadata.index(SCHEMA_ID))

    @abstractmethod
    def decode_framed(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        """Decode a batch of messages, as `decode_arrow` does. `metadata` does not have the schema's id."""

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        raise self.unsupported("encode")

    def schema_ids(self, messages: pa.BinaryArray) -> pa.StringArray:
        """Return the id or the GUID of each message's schema as text, null for a message without a frame."""
        return ids_of_frames(self.framing.read(messages, np.asarray(messages.is_valid()), only_ids=True))

    def add_header(self, messages: pa.BinaryArray, headers: pa.BinaryArray | pa.StructArray) -> pa.BinaryArray:
        return self.framing.add_header(messages, headers)

    def for_encoding(self, schema: pa.Schema) -> Format:
        """Return the format with the id to write. Requests the id here, once for all executors.

        With the option `register-in-executors`, each executor requests it.
        """
        if self.options["register-in-executors"] or self.options["schema-id"] is not None:
            return self
        try:
            to_write = self.schema_to_write(schema)
        except SchemaRegistryError as error:
            error.add_note(
                "encode requests the schema's id in the process that plans the job. If only the executors can reach "
                "the registry, set the option 'register-in-executors' = 'true'"
            )
            raise
        if isinstance(to_write, Refused):
            raise SchemaError(f"format '{self.identifier}': {to_write.reason}", format=self.identifier)
        schema_id, written = to_write
        if written.references:  # which an option has no place for
            return type(self)({**self._raw_options, "register-in-executors": "true"})
        latest = {"schema": written.text} if self.registry.writes_latest else {}
        return type(self)({**self._raw_options, "schema-id": str(schema_id), **latest})

    def own_schema(self, schema: pa.Schema) -> RegistrySchema:
        """Return the schema that writing registers: the option `schema`, or the one derived from the table."""
        raise self.unsupported("encode")

    def accepted(self, latest: RegistrySchema, schema: pa.Schema) -> RegistrySchema:
        """Return the schema by which rows are written, given the latest one of the subject.

        Raises `SchemaError` if the rows of the table can't be written by the latest one.
        """
        raise self.unsupported("encode")

    def new_schemas(self, row: FlinkType, *, widths: bool = True, of_changes: bool = False) -> NewSchemas | None:
        """Return what the option `on-new-schema` says about the schemas of messages, None for nothing."""
        policy = self.options[ON_NEW_SCHEMA]
        if policy == IGNORE:
            return None
        record = self.options.get(RECORD_NAME)
        return NewSchemas(policy, self.settings, self.identifier, row, widths, of_changes, record)

    @property
    def reads_schemas(self) -> bool:
        """Whether reading asks for schemas."""
        return not self.reads_without_schemas or self.options[ON_NEW_SCHEMA] != IGNORE

    @property
    def names_subject(self) -> bool:
        """Whether an option names the subject that the schema is registered under."""
        return True

    def subject_for(self, schema: pa.Schema) -> str | None:
        """Return the subject that the schema of a table is registered under."""
        return self.registry.subject

    def schema_to_write(self, schema: pa.Schema) -> tuple[int | str, RegistrySchema] | Refused:
        """Return the id to write and its schema, or the registry's refusal."""
        return self.registry.schema_to_write(
            self.subject_for(schema),
            self.kind,
            lambda: self.own_schema(schema),
            lambda latest: self.accepted(latest, schema),
        )

    def encode_with(
        self, rows: pa.StructArray, schema: pa.Schema, write: Callable[[Any, RegistrySchema], EncodedBatch]
    ) -> EncodedBatch:
        """Encode rows after the id to write; `write` gets the id and its schema. A null row is a null message.

        Without an id, all rows fail.
        """
        if rows.null_count == len(rows):
            return EncodedBatch(pa.nulls(len(rows), pa.binary()))
        to_write = self.schema_to_write(schema)
        if isinstance(to_write, Refused):
            error = Reason(ErrorCode.UNKNOWN_SCHEMA, to_write.reason)
            reasons = [error if is_row else None for is_row in rows.is_valid().to_pylist()]
            return EncodedBatch(pa.nulls(len(rows), pa.binary()), *reason_arrays(reasons))
        batch = write(*to_write)
        return replace(batch, messages=self.framing.finished(batch.messages))
