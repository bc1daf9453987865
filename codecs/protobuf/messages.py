"""Reads and writes messages of Protobuf schemas in a registry, as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from kvformat.codecs._arrays import stored_type
from kvformat.codecs._conversions import RowErrors
from kvformat.codecs._rows import join_parts
from kvformat.codecs.protobuf.binding import check_table
from kvformat.codecs.protobuf.evolve import evolved_types
from kvformat.codecs.protobuf.field_columns import bind_row, check_writable
from kvformat.codecs.protobuf.frames import SameType, group_of, likely_head, message_groups
from kvformat.codecs.protobuf.read import ProtobufReader, Settings
from kvformat.codecs.protobuf.registry_schema import message_types
from kvformat.codecs.protobuf.schema_text import ROOT, proto_text
from kvformat.codecs.protobuf.write import ProtobufWriter
from kvformat.codecs.registries.cache import schemas_of_kind
from kvformat.codecs.registries.confluent_frames import FIRST, IndexPath, read_frames
from kvformat.codecs.registries.framing import with_errors
from kvformat.codecs.registries.registry import PROTOBUF, unknown_schema, unreadable_schema
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.error_codes import Reason
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.join_batches import fail_rows
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings
from kvformat.registry.contract.types import FlinkField, FlinkType

Check = Callable[[int | str, Callable[[], Iterable[FlinkField]]], Reason | None]
"""Returns the error of the messages of a schema, given its id and its columns."""
_READING = Settings(empty_lists=True)
_WORD = 8  # bytes that the kernel compares


def decode_messages(
    messages: pa.BinaryArray, row: FlinkType, settings: RegistrySettings, format: str, check: Check | None
) -> DecodedBatch:
    """Decode messages of any schemas as rows of a type. A null message has no rows.

    `check` refuses schemas with fields that the table does not show.
    Raises `SchemaError` for a type that no Protobuf schema has.
    """
    text_of(row, format)
    head = likely_head(messages)
    reader = _reader_of(group_of(head), row, settings, format, check) if head else None
    alike = reader.read_alike(messages, head) if isinstance(reader, SchemaReader) else None
    if alike is not None:
        return alike
    frames = read_frames(messages, np.asarray(messages.is_valid()))
    reasons = frames.errors()
    groups, which = message_groups(frames)
    reasons[which == SameType.WITHOUT_PATH] = SameType.NO_PATH
    parts, readable = [], []
    for number, group in enumerate(groups):
        reader = _reader_of(group, row, settings, format, check)
        at = np.flatnonzero(which == number)
        if isinstance(reader, SchemaReader):
            readable.append(number)
            parts.append((at, reader.read(frames.messages.take(pa.array(at)), group.size)))
        else:
            reasons[at] = reader
    others = np.flatnonzero(~np.isin(which, readable))
    if len(others) or not parts:
        kind = pa.list_(pa.field("element", stored_type(row)))
        parts.append((others, DecodedBatch(pa.nulls(len(others), kind))))
    return with_errors(join_parts(parts), reasons)


@cached_by_identity
def text_of(row: FlinkType, format: str, name: str = ROOT) -> str:
    """Return the text of the schema that writing registers. Raises `SchemaError` for a type that it can't have."""
    return proto_text(row, format, name)


def _reader_of(
    group: SameType, row: FlinkType, settings: RegistrySettings, format: str, check: Check | None
) -> SchemaReader | Reason:
    """Return the reader of a group of messages as rows, or the error of all of them."""
    (registered,) = schemas_of_kind(settings, [group.schema_id], PROTOBUF).values()
    if isinstance(registered, Refused):
        return unknown_schema(settings, group.schema_id, registered.reason)
    error = None if check is None else check(group.schema_id, lambda: _columns(registered, group.path))
    if error is not None:
        return error
    reader = _reader(row, registered, group.path, format)
    return reader if isinstance(reader, SchemaReader) else unreadable_schema(settings, group.schema_id, reader)


def _columns(schema: RegistrySchema, path: IndexPath) -> tuple[FlinkField, ...]:
    from kvformat.codecs.discovery.column_types import Notes
    from kvformat.codecs.protobuf.schema_columns import columns_of_proto_schema

    return columns_of_proto_schema(schema, Notes(), path)


class SchemaReader:
    """Reads messages of one type as rows. Raises `SchemaError` if a column does not fit its field."""

    def __init__(self, row: FlinkType, schema: RegistrySchema, path: IndexPath, format: str) -> None:
        types = evolved_types(row, message_types(schema, path, format))
        self._binding = bind_row(row, types.message, types)
        check_table(self._binding.wire, types, format)
        self._reader = ProtobufReader(self._binding.wire, types, _READING)

    def read(self, messages: pa.BinaryArray, skip: int) -> DecodedBatch:
        """Decode messages after `skip` bytes. A null message has no rows."""
        return self._converted(self._reader.read(messages, skip=skip))

    def read_alike(self, messages: pa.BinaryArray, head: bytes) -> DecodedBatch | None:
        """Decode messages after these bytes. Return None if some begin with others (of which eight are compared)."""
        batch, are_alike = self._reader.read_framed(messages, len(head), head[:_WORD])
        return self._converted(batch) if are_alike else None

    def _converted(self, batch: DecodedBatch) -> DecodedBatch:
        if self._binding.conversion is None:
            return batch
        errors = RowErrors()
        values = self._binding.read(batch.rows.values, "", lambda rows: rows, errors)
        kind = pa.list_(pa.field("element", values.type))
        rows = pa.Array.from_buffers(kind, len(batch.rows), batch.rows.buffers()[:2], children=[values])
        changed = DecodedBatch(rows, None, batch.errors, batch.codes)
        return fail_rows(changed, dict(sorted(errors.reasons.items()))) if errors.reasons else changed


@cached_by_identity
def _reader(row: FlinkType, schema: RegistrySchema, path: IndexPath, format: str) -> SchemaReader | str:
    try:
        return SchemaReader(row, schema, path, format)
    except SchemaError as bad:
        return str(bad)


class SchemaWriter:
    """Writes rows as the first message of a schema. Raises `SchemaError` if a column does not fit its field."""

    def __init__(self, row: FlinkType, schema: RegistrySchema, format: str) -> None:
        types = message_types(schema, FIRST, format)
        self._binding = bind_row(row, types.message, types)
        check_writable(row, self._binding, format)
        check_table(self._binding.wire, types, format)
        self._writer = ProtobufWriter(self._binding.wire, types, "")

    def write(self, rows: pa.StructArray) -> EncodedBatch:
        """Return one message per row, null for a null row."""
        return self._writer.write(self._binding.write(rows))
