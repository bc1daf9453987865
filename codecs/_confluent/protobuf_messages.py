"""Reads and writes messages of Protobuf schemas in a registry, as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._changes.conversions import RowErrors
from kvformat.codecs._changes.row_plan import join_parts
from kvformat.codecs._confluent.cache import schemas_by_id
from kvformat.codecs._confluent.frames import (
    GUID_PREFIX,
    Frames,
    frame_size,
    read_frames,
    schema_of,
    with_frame_errors,
)
from kvformat.codecs._confluent.new_schemas import NewSchemas
from kvformat.codecs._confluent.protobuf_columns import bind_row, check_writable
from kvformat.codecs._confluent.protobuf_schema import FIRST, IndexPath, message_types, read_path
from kvformat.codecs._confluent.protobuf_text import proto_text
from kvformat.codecs._confluent.registry import PROTOBUF
from kvformat.codecs._protobuf.binding import check_table
from kvformat.codecs._protobuf.read import ProtobufReader, Settings
from kvformat.codecs._protobuf.write import ProtobufWriter
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.join_batches import fail_rows
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings
from kvformat.registry.contract.types import FlinkField, FlinkType, arrow_type, nullable

_Ints = npt.NDArray[np.int64]
_READING = Settings(empty_lists=True)
_MOST_PATHS = 1000
"""Index paths of a batch that are told apart; messages with others are errors. Real topics have a few."""


def decode_messages(
    messages: pa.BinaryArray, row: FlinkType, settings: RegistrySettings, format: str, new: NewSchemas | None
) -> DecodedBatch:
    """Decode messages of any schemas as rows of a type. A null message has no rows.

    `new` refuses schemas with fields that the table does not show.
    Raises `SchemaError` for a type that no Protobuf schema has.
    """
    text_of(row, format)
    only = only_group(messages)
    reader = None if only is None else only.reader(row, settings, format, new)
    if only is not None and isinstance(reader, SchemaReader):
        return reader.read(messages, only.size)
    frames = read_frames(messages, np.asarray(messages.is_valid()))
    reasons = frames.errors()
    groups, which = message_groups(frames)
    reasons[which == SameType.WITHOUT_PATH] = SameType.NO_PATH
    parts, found = [], []
    for number, group in enumerate(groups):
        reader = group.reader(row, settings, format, new)
        at = np.flatnonzero(which == number)
        if isinstance(reader, SchemaReader):
            found.append(number)
            parts.append((at, reader.read(frames.messages.take(pa.array(at)), group.size)))
        else:
            reasons[at] = reader
    others = np.flatnonzero(~np.isin(which, found))
    if len(others) or not parts:
        parts.append((others, SchemaReader.nothing(row, len(others))))
    return with_frame_errors(join_parts(parts), pa.array(reasons, pa.string()) if any(reasons) else None)


@cached_by_identity
def text_of(row: FlinkType, format: str) -> str:
    """Return the text of the schema that writing registers. Raises `SchemaError` for a type that it can't have."""
    return proto_text(row, format)


@dataclass(frozen=True, slots=True)
class SameType:
    """Messages of a batch with the same schema and type. `size` is the number of bytes before each message."""

    WITHOUT_PATH: ClassVar[int] = -2
    NO_PATH: ClassVar[str] = ErrorCode.MALFORMED.marked(
        "after the schema's id, the message has no path of a type in its schema (00 for the first one)"
    )

    schema_id: int | str
    path: IndexPath
    size: int

    def reader(
        self, row: FlinkType, settings: RegistrySettings, format: str, new: NewSchemas | None
    ) -> SchemaReader | str:
        """Return the reader of the messages as rows, or the error of all of them."""
        (answer,) = schemas_by_id(settings, [self.schema_id]).values()
        found = answer if isinstance(answer, Refused) else answer.of_kind(PROTOBUF, f"schema {self.schema_id}")
        registry = f"the schema registry at {settings.shown_url}"
        if isinstance(found, Refused):
            return ErrorCode.UNKNOWN_SCHEMA.marked(
                f"Could not find schema with id {self.schema_id} in {registry}: {found.reason}"
            )
        error = None if new is None else new.error(self.schema_id, lambda: _columns(found, self.path))
        if error is not None:
            return error
        reader = _reader(row, found, self.path, format)
        if isinstance(reader, SchemaReader):
            return reader
        return ErrorCode.UNKNOWN_SCHEMA.marked(
            f"the schema with id {self.schema_id} in {registry} can't be read: {settings.scrubbed(reader)}"
        )


def _columns(schema: RegistrySchema, path: IndexPath) -> tuple[FlinkField, ...]:
    from kvformat.codecs._infer.column_types import Notes
    from kvformat.codecs._infer.protobuf_schemas import columns_of_proto_schema

    return columns_of_proto_schema(schema, Notes(), path)


def is_frame(header: bytes) -> bool:
    """Return whether the bytes of a header are the id or GUID of a schema, and the path of a message."""
    size = frame_size(header)
    found = read_path(header, size) if size else None
    return found is not None and found[1] == len(header)


def only_group(messages: pa.BinaryArray) -> SameType | None:
    """Return the group of all messages, if they all have the same id and are of the first type of their schema.

    This is the usual case, and found without reading the ids. Null messages and bad frames are left to others.
    """
    if messages.null_count or not len(messages):
        return None
    head = messages[0].as_buffer()[: GUID_PREFIX + 1].to_pybytes()
    size = frame_size(head)
    head = head[: size + 1]
    if not size or len(head) <= size or head[size] or pc.starts_with(messages, head).true_count < len(messages):
        return None
    return SameType(schema_of(head[:size]), FIRST, size + 1)


def message_groups(frames: Frames) -> tuple[list[SameType], _Ints]:
    """Return the groups of messages by schema and type, and the number of each message's group.

    Messages without an id or GUID have the number -1, and those without a valid path `SameType.WITHOUT_PATH`.
    """
    messages, ids, good, size = frames.messages, frames.ids, frames.good, frames.size
    count = len(messages)
    which = np.full(count, -1, np.int64)
    if not good.any():
        return [], which
    offsets = np.frombuffer(messages.buffers()[1], np.int32, count + 1, messages.offset * 4).astype(np.int64)
    data = np.frombuffer(messages.buffers()[2], np.uint8)
    starts, ends = offsets[:-1] + size, offsets[1:]
    complete = good & (starts < ends)
    first = np.where(complete, data[np.minimum(starts, len(data) - 1)], 1)
    is_first = first == 0
    if is_first.all() and (ids == ids[0]).all():
        which[:] = 0
        return [SameType(frames.schemas([int(ids[0])])[0], FIRST, size + 1)], which
    paths: dict[tuple[IndexPath, int], int] = {(FIRST, 1): 0}
    codes = np.where(is_first, 0, -1)
    known: dict[bytes, int] = {}
    for place in np.flatnonzero(complete & ~is_first).tolist():
        head = data[starts[place] : min(starts[place] + 2, ends[place])].tobytes()
        if head not in known or known[head] < 0:  # most paths have one item, and so two bytes
            found = read_path(data[starts[place] : min(starts[place] + 512, ends[place])].tobytes(), 0)
            if found is None or (found not in paths and len(paths) >= _MOST_PATHS):
                continue
            codes[place] = paths.setdefault(found, len(paths))
            known[head] = codes[place] if found[1] == 2 else -1
        else:
            codes[place] = known[head]
    which[good & (codes < 0)] = SameType.WITHOUT_PATH
    usable = good & (codes >= 0)
    marks = ids[usable] * (_MOST_PATHS + 1) + codes[usable]
    distinct, numbers = np.unique(marks, return_inverse=True)
    which[usable] = numbers
    kinds = list(paths)
    schemas = frames.schemas((distinct // (_MOST_PATHS + 1)).tolist())
    paths_of = [kinds[number] for number in (distinct % (_MOST_PATHS + 1)).tolist()]
    return [SameType(key, path, size + more) for key, (path, more) in zip(schemas, paths_of, strict=True)], which


class SchemaReader:
    """Reads messages of one type as rows. Raises `SchemaError` if a column does not fit its field."""

    def __init__(self, row: FlinkType, schema: RegistrySchema, path: IndexPath, format: str) -> None:
        types = message_types(schema, path, format)
        self._binding = bind_row(row, types.message, types)
        check_table(self._binding.wire, types, format)
        self._reader = ProtobufReader(self._binding.wire, types, _READING)

    def read(self, messages: pa.BinaryArray, skip: int) -> DecodedBatch:
        """Decode messages after `skip` bytes. A null message has no rows."""
        batch = self._reader.read(messages, skip=skip)
        if self._binding.conversion is None:
            return batch
        errors = RowErrors()
        values = self._binding.read(batch.rows.values, "", lambda rows: rows, errors)
        kind = pa.list_(pa.field("element", values.type))
        rows = pa.Array.from_buffers(kind, len(batch.rows), batch.rows.buffers()[:2], children=[values])
        changed = DecodedBatch(rows, None, batch.errors, batch.codes)
        return fail_rows(changed, dict(sorted(errors.reasons.items()))) if errors.reasons else changed

    @staticmethod
    def nothing(row: FlinkType, count: int) -> DecodedBatch:
        """Return the batch of messages without rows."""
        return DecodedBatch(pa.nulls(count, pa.list_(pa.field("element", arrow_type(nullable(row))))))


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
