"""The base class of the formats of change data in JSON: their options, decoding and encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from kvformat.codecs.changes.envelope import BatchReader, ChangeSettings, Envelope, Frame
from kvformat.codecs.changes.other_messages import OTHER_MESSAGES, SKIP_ALL
from kvformat.codecs.changes.read import ChangeReader, PresenceReader
from kvformat.codecs.changes.upsert import MODE_OPTION, ChangeDataFormat, UpsertReader
from kvformat.codecs.changes.write import ChangeWriter, native_frames
from kvformat.codecs.json.settings import TIMESTAMP_OPTION, WRITE_OPTIONS, ReadSettings, WriteSettings
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.java.regex import JavaPattern

if TYPE_CHECKING:
    from pyspark.sql import Column

CHANGE_OPTIONS = (
    Option(
        name="ignore-parse-errors",
        type="boolean",
        default=False,
        doc="Whether a column that can't be read becomes NULL, and a message that can't be read is skipped.",
    ),
    TIMESTAMP_OPTION,
    *WRITE_OPTIONS,
    OTHER_MESSAGES,
    MODE_OPTION,
)


class JsonChangeFormat(ChangeDataFormat):
    """A format of change data in JSON, which its `envelope` describes.

    Values are read by the rules of the tree reader of format json, as in Flink.
    """

    reads_by_name = True
    option_specs: ClassVar[tuple[Option, ...]] = CHANGE_OPTIONS
    envelope: ClassVar[Envelope]
    skip: ClassVar[int] = 0
    """The number of bytes before the text of each message, such as those of a frame."""
    envelope_description: ClassVar[str]
    """A description of messages with this envelope. It continues the text "3 of 5 messages"."""

    @classmethod
    def look_options(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Skip messages that change no row."""
        return {OTHER_MESSAGES.name: SKIP_ALL, **options}

    @staticmethod
    def is_envelope(message: Mapping[str, Any]) -> bool:
        """Return whether a JSON object is an envelope of the format. Envelopes that Flink writes count too."""
        raise NotImplementedError

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        from kvformat.codecs.discovery.message_kinds import recognize_json

        return recognize_json(sample, cls.is_envelope, cls.envelope_description)

    def propose_columns(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.changes.columns import propose_envelopes

        return propose_envelopes(sample, self.identifier, self.envelope, self._raw_options)

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        row = row_type(schema)
        batch = _reader(row, self, metadata).read(messages)
        if self.unchanged is None:
            return batch
        presence = _presence_reader(row, self).read(messages) if self.envelope.rows_in_arrays else None
        return self.unchanged.apply(batch, [field.name for field in row.fields], presence)

    def read_settings(self) -> ReadSettings:
        """Return how values are read."""
        return ReadSettings.of(self.options)

    @property
    def reads_presence(self) -> bool:
        return not self.envelope.rows_in_arrays

    def reader(self, row: FlinkType, settings: ChangeSettings, metadata: tuple[str, ...]) -> BatchReader:
        """Return a new reader. Its rows have the columns of type `row`, followed by the metadata columns."""
        return ChangeReader(row, self.envelope, settings, metadata)

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        return _writer(row_type(schema), self).write(rows, row_kinds)

    def native_encode(self, row: Column, schema: FlinkType, row_kind: Column | None) -> Column | None:
        from kvformat.codecs.json.native import encode_native

        settings = WriteSettings.of(self.options)
        text = encode_native(row, schema, settings)
        return None if text is None else native_frames(text, row_kind, self.frames(settings))

    def filters(self) -> tuple[tuple[str, JavaPattern], ...]:
        """Members, each with its pattern. A message is read only if the whole text of each member matches."""
        return ()

    def frames(self, settings: WriteSettings) -> tuple[Frame, Frame]:
        """The texts around an inserted row and around a deleted row."""
        shorter = self.envelope.frames_without_nulls if settings.ignore_null_fields else None
        return shorter or self.envelope.frames


def _settings(format: JsonChangeFormat) -> ChangeSettings:
    return ChangeSettings(
        values=format.read_settings(),
        wrapped=format.options.get("schema-include", False),
        filters=format.filters(),
        other_messages=format.options[OTHER_MESSAGES.name],
        upsert=format.upsert,
        bare_deletes=format.row_key is not None and format.row_key.in_record,
        reads_presence=format.unchanged is not None and format.unchanged.reads_presence,
        skip=format.skip,
    )


@cached_by_identity
def _presence_reader(row: FlinkType, format: JsonChangeFormat) -> PresenceReader:
    return PresenceReader(row, format.envelope, replace(_settings(format), reads_presence=False))


@cached_by_identity
def _reader(row: FlinkType, format: JsonChangeFormat, metadata: tuple[str, ...]) -> BatchReader:
    settings, names = _settings(format), format.envelope.key_metadata
    if not format.upsert or names is None:
        return format.reader(row, settings, metadata)
    key = format.row_key
    reader = format.reader(row, settings, metadata if key is not None else (*metadata, names))
    return UpsertReader(reader, [field.name for field in row.fields], key)


@cached_by_identity
def _writer(row: FlinkType, format: JsonChangeFormat) -> ChangeWriter:
    settings = WriteSettings.of(format.options)
    return ChangeWriter(row, settings, format.frames(settings))
