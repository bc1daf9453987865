"""The base class of formats with a schema registry: the registry's settings, and the schema to write.

avro-confluent, avro-registry       an Avro datum after the id of its schema
json-registry, proto-registry       a text of JSON, a Protobuf message
their Debezium forms                the row before and after a change, in the same three encodings
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from kvformat.codecs.registries.cache import id_of_schema, latest_schema
from kvformat.codecs.registries.confluent_client import context_of
from kvformat.codecs.registries.confluent_frames import ConfluentFraming
from kvformat.codecs.registries.framing import Framing
from kvformat.codecs.registries.schema_ids import SCHEMA_ID, SCHEMA_ID_TYPES, add_to_rows, ids_of_frames
from kvformat.codecs.registry_formats.new_schemas import NewSchemas
from kvformat.codecs.registry_formats.options import (
    HEADER,
    ID_ENCODING,
    IGNORE,
    ON_NEW_SCHEMA,
    PROPERTIES,
    SCHEMA_CONTEXT,
    SUBJECT_NAMES,
)
from kvformat.codecs.registry_formats.record_options import RECORD_NAME
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.error_codes import ErrorCode, Reason, reason_arrays
from kvformat.registry.contract.errors import OptionError, SchemaError, SchemaRegistryError
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.format_hooks import HeaderNames, Part
from kvformat.registry.contract.options import Direction
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.format import Format


class RegistryFormat(Format):
    """A format whose messages start with the id of a schema in a registry, or whose records have it in a header."""

    encode_needs_schema: ClassVar[bool] = True
    kind: ClassVar[str]
    """The kind of the schemas."""
    metadata_types: Mapping[str, str] = SCHEMA_ID_TYPES
    record_headers: ClassVar[Mapping[Part, HeaderNames]] = ConfluentFraming.headers
    reads_only: ClassVar[bool] = False
    """Whether the format can't write."""
    client: ClassVar[str] = ""
    client_options: ClassVar[tuple[str, ...]] = ()
    """The entry point of the client of `http` and `https`, empty for Confluent's; options that the client gets."""
    subject_option: ClassVar[str] = "subject"
    register_option: ClassVar[str] = "auto-register-schemas"
    latest_option: ClassVar[str] = "use-latest-version"
    """The options for the subject of the written schema, to register it, and to use the latest one instead."""
    reads_without_schemas: ClassVar[bool] = False
    """Whether reading needs no schemas, and so no registry."""

    @classmethod
    def complete_options(cls, options: Mapping[str, Any], *, topic: str, part: Part) -> Mapping[str, Any]:
        given = {"subject", "schema-registry.subject", SUBJECT_NAMES} & set(options)
        return options if given else {**options, "subject": f"{topic}-{part}"}

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        if direction == "encode" and self.reads_only:
            raise self.unsupported("encode")
        names = self.options.get(SUBJECT_NAMES) or ()
        needs_url = self.reads_schemas if direction == "decode" else self.options["schema-id"] is None
        if needs_url and self.options["url"] is None:
            raise OptionError(
                f"option 'url' of format '{self.identifier}' is missing: set it to the URL of the schema registry",
                format=self.identifier,
                option="url",
            )
        if direction == "encode" and self.options.get(ID_ENCODING) == HEADER:
            raise OptionError(
                f"option '{ID_ENCODING}' = '{HEADER}' of format '{self.identifier}' is not supported for writing: ids "
                f"are written before the value. Leave '{ID_ENCODING}' out. Reading finds ids in both places",
                format=self.identifier,
                option=ID_ENCODING,
            )
        if len(names) > 1:
            raise OptionError(
                f"option '{SUBJECT_NAMES}' of format '{self.identifier}' has {len(names)} subjects: a table reads and "
                "writes records of one type. Give one subject",
                format=self.identifier,
                option=SUBJECT_NAMES,
            )
        if direction == "decode":
            self.settings.check_authentication()
        elif self.names_subject and self.subject is None:
            raise OptionError(
                f"Option {self.identifier}.subject is required for serialization",
                format=self.identifier,
                option="subject",
            )

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
            found = self.schema_to_write(schema)
        except SchemaRegistryError as error:
            error.add_note(
                "encode requests the schema's id in the process that plans the job. If only the executors can reach "
                "the registry, set the option 'register-in-executors' = 'true'"
            )
            raise
        if isinstance(found, Refused):
            raise SchemaError(f"format '{self.identifier}': {found.reason}", format=self.identifier)
        schema_id, written = found
        if written.references:  # which an option has no place for
            return type(self)({**self._given, "register-in-executors": "true"})
        latest = {"schema": written.text} if self.options[self.latest_option] else {}
        return type(self)({**self._given, "schema-id": str(schema_id), **latest})

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
        return self.subject

    @property
    def subject(self) -> str | None:
        """The subject that an option names."""
        names = self.options.get(SUBJECT_NAMES)
        subject: str | None = names[0] if names else self.options["subject"]
        return subject

    @cached_property
    def framing(self) -> Framing:
        """How messages say which schema they have."""
        return ConfluentFraming()

    @cached_property
    def settings(self) -> RegistrySettings:
        """The settings of the registry."""
        options, url = self.options, self.options["url"] or ""
        named = {name: options[option] for option, name in PROPERTIES.items() if options[option] is not None}
        named |= {name: options[name] for name in self.client_options}
        context = (options.get(SCHEMA_CONTEXT) or "").strip(":")
        if context:
            url = ",".join(f"{one.strip().rstrip('/')}/contexts/{context}" for one in url.split(","))
        return RegistrySettings(
            url=url,
            properties=tuple(sorted(({**(options.get("properties") or {}), **named}).items())),
            timeout=options["registry-timeout"].total_seconds(),
            retries=max(options["registry-retries"], 0),
            backoff=options["registry-backoff"].total_seconds(),
            format=self.identifier.replace("debezium-", ""),
            client=self.client if url.lstrip().lower().startswith("http") else "",
            subject=self.subject if self.subject and context_of(self.subject) else "",
        )

    def schema_to_write(self, schema: pa.Schema) -> tuple[int | str, RegistrySchema] | Refused:
        """Return the id to write and its schema, or the registry's refusal."""
        options = self.options
        if options["schema-id"] is not None:
            return options["schema-id"], self.own_schema(schema)
        subject = self.subject_for(schema)
        if not subject:
            return Refused("the option 'subject' is empty")
        if options[self.latest_option]:
            return self._latest(subject, schema)
        own, register = self.own_schema(schema), options[self.register_option]
        found = id_of_schema(self.settings, subject, own, register=register)
        if isinstance(found, Refused):
            refused = "the schema registry refuses the schema" if register else "the schema is not registered"
            how = self._how_to_write(registers=register)
            return Refused(f"{refused} for subject {subject!r}: {found.reason}. {how}. The schema: {own.text}")
        return found, own

    def _how_to_write(self, *, registers: bool) -> str:
        """Return what to do if the registry refuses the schema of a table, or does not have it."""
        by_latest = f"set '{self.latest_option}' = 'true' to write by the latest registered schema"
        if registers:
            name = self.subject_option
            return f"Change the columns of the table, {by_latest}, or choose another subject with the option '{name}'"
        return f"Register it, set '{self.register_option}' = 'true', or {by_latest}"

    def _latest(self, subject: str, schema: pa.Schema) -> tuple[int | str, RegistrySchema] | Refused:
        latest = latest_schema(self.settings, subject)
        what = f"the schema of subject {subject!r}"
        found = latest if isinstance(latest, Refused) else latest[1].of_kind(self.kind, what)
        if isinstance(latest, Refused) or isinstance(found, Refused):
            assert isinstance(found, Refused)
            return Refused(f"subject {subject!r} has no latest schema: {found.reason}")
        try:
            return latest[0], self.accepted(found, schema)
        except SchemaError as bad:  # the message quotes the registry's answer
            reason = f"the table can't be written by the latest schema of subject {subject!r}, id {latest[0]}: {bad}"
            raise SchemaError(self.settings.scrubbed(reason), format=self.identifier, field=bad.field) from None

    def encode_with(
        self, rows: pa.StructArray, schema: pa.Schema, write: Callable[[Any, RegistrySchema], EncodedBatch]
    ) -> EncodedBatch:
        """Encode rows after the id to write; `write` gets the id and its schema. A null row is a null message.

        Without an id, all rows fail.
        """
        if rows.null_count == len(rows):
            return EncodedBatch(pa.nulls(len(rows), pa.binary()))
        found = self.schema_to_write(schema)
        if isinstance(found, Refused):
            error = Reason(ErrorCode.UNKNOWN_SCHEMA, found.reason)
            reasons = [error if is_row else None for is_row in rows.is_valid().to_pylist()]
            return EncodedBatch(pa.nulls(len(rows), pa.binary()), *reason_arrays(reasons))
        batch = write(*found)
        return replace(batch, messages=self.framing.finished(batch.messages))
