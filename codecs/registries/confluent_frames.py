"""Confluent's framing: the id or the GUID of a schema before the datum, or in a header of the record.

    00  00 00 00 01        the id as four bytes, big-endian                            before the datum, or in a header
    01  16 bytes           the GUID, which is the same in all registries               in a header, or before the datum
    ...  02 00             Protobuf: and the path of the message in its file           directly after the id or GUID

A record with the header `__key_schema_id` or `__value_schema_id` has nothing before the datum. `add_header` puts the
bytes of the header there, so that the readers find all frames in one place.
Rules: Confluent's `HeaderSchemaIdSerializer` and `DualSchemaIdDeserializer`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Mask
from kvformat.codecs._rows import RowReader
from kvformat.codecs.registries.framing import Frames, Framing, Reasons, cut, layout, numbered, with_errors
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.format_hooks import HeaderNames, Part

PREFIX = 5
"""Bytes before the datum, with an id."""
GUID_PREFIX = 17
"""Bytes before the datum, with a GUID."""
CONFLUENT = "confluent"
"""The kind of messages with an id or a GUID."""
IndexPath = tuple[int, ...]
"""Where a message of Protobuf is in its file: the number of a message, then of one nested in it, and so on."""
FIRST: IndexPath = (0,)
HEADERS: Mapping[Part, str] = {"key": "__key_schema_id", "value": "__value_schema_id"}
"""The headers of a record that hold the bytes before the key's or the value's datum."""

_MAGIC = b"\0"
_GUID_MAGIC = 1
_SHOWN = 32  # bytes of a wrong header
_MOST_ITEMS = 100
"""Items of an index path; messages are not nested more deeply."""
_BAD_HEADER = b"\xff\xffbad header "
_SIZES = f"{PREFIX} of 00 and a schema id, or the {GUID_PREFIX} of 01 and a schema's GUID"
_ELSEWHERE = (
    f". If the schema's id is in the record's header '{HEADERS['value']}' or '{HEADERS['key']}', decode records with "
    "their column 'headers', or put the bytes of the header before the message"
)


def prefix(schema_id: int) -> bytes:
    """Return the bytes before the datum."""
    return b"\0" + schema_id.to_bytes(4, "big", signed=True)


def body(message: bytes) -> bytes:
    """Return a message without the id or GUID before it."""
    return message[GUID_PREFIX if message[:1] == b"\1" else PREFIX :]


def frame_size(message: bytes) -> int:
    """Return the number of bytes of the id or GUID at the beginning of a message, 0 if it has none."""
    size = {b"\0": PREFIX, b"\1": GUID_PREFIX}.get(message[:1], 0)
    return size if len(message) >= size else 0


def schema_of(frame: bytes) -> int | str:
    """Return the schema id or the text of the GUID in a frame, which has the right size."""
    if frame[0] == _GUID_MAGIC:
        return str(uuid.UUID(bytes=frame[1:]))
    return int.from_bytes(frame[1:], "big", signed=True)


def is_frame(header: bytes) -> bool:
    """Return whether the bytes of a header are the id or the GUID of a schema."""
    return 0 < frame_size(header) == len(header)


def is_protobuf_frame(header: bytes) -> bool:
    """Return whether the bytes of a header are the id or GUID of a schema, and the path of a message."""
    size = frame_size(header)
    path_and_size = read_path(header, size) if size else None
    return path_and_size is not None and path_and_size[1] == len(header)


def read_path(message: bytes, at: int) -> tuple[IndexPath, int] | None:
    """Read the index path at an offset. Returns it and the offset after it, or None if it is not complete or valid.

    It is the number of items and then each item, as zigzag numbers; the number 0 stands for the first message.
    """
    count, at = _zigzag(message, at)
    if count == 0:
        return FIRST, at
    if at < 0 or not 0 < count <= _MOST_ITEMS:
        return None
    items = []
    for _ in range(count):
        item, at = _zigzag(message, at)
        if at < 0 or item < 0:
            return None
        items.append(item)
    return tuple(items), at


def _zigzag(message: bytes, at: int) -> tuple[int, int]:
    """Return a number and the offset after it; the offset is -1 if the number is not complete."""
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(message):
            return -1, -1
        byte = message[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number >> 1 ^ -(number & 1), at
    return -1, -1


class ConfluentFraming(Framing):
    """Confluent's frames. `is_frame` says whether the bytes of a header are one."""

    text: ClassVar[str] = "00 and the id of a schema"
    headers: ClassVar[Mapping[Part, HeaderNames]] = HEADERS
    kinds: ClassVar[tuple[str, ...]] = (CONFLUENT,)

    def __init__(self, is_frame: Callable[[bytes], bool] = is_frame) -> None:
        self._is_frame = is_frame

    def prefix(self, schema_id: Any) -> bytes:
        return prefix(schema_id)

    def read(self, messages: pa.BinaryArray, present: Mask, *, only_ids: bool = False) -> Frames:
        return read_frames(messages, present)

    @classmethod
    def kind_of(cls, message: bytes, *, in_header: bool) -> str:
        size = frame_size(message)
        if size and not in_header:  # other bytes may begin with 01, too, and no registry has the id 0
            size = size if len(message) > size == PREFIX and cast("int", schema_of(message[:size])) > 0 else 0
        return CONFLUENT if size else ""

    def add_header(self, messages: pa.BinaryArray, headers: pa.BinaryArray | pa.StructArray) -> pa.BinaryArray:
        """Put the headers of records before their messages. A message or header that is null stays as it is.

        A message with a wrong header becomes its own error.
        """
        distinct = headers.dictionary_encode()
        frames = [frame if self._is_frame(frame) else None for frame in distinct.dictionary.to_pylist()]
        known = pa.array(frames, pa.binary()).take(distinct.indices)
        framed = pc.coalesce(pc.binary_join_element_wise(known, messages, b""), messages)
        if None not in frames:
            return framed
        bad = pc.and_(pc.and_(headers.is_valid(), known.is_null()), messages.is_valid())
        shown = pc.binary_join_element_wise(_BAD_HEADER, pc.binary_slice(headers, 0, _SHOWN + 1), b"")
        return pc.if_else(bad, shown, framed)


def _reason(message: pa.Buffer) -> str:
    """Return what is wrong with the frame of a message."""
    length, head = message.size, message[: len(_BAD_HEADER) + _SHOWN + 1].to_pybytes()
    if head.startswith(_BAD_HEADER):
        header = head[len(_BAD_HEADER) :]
        shown = header[:_SHOWN].hex(" ") + (" ..." if len(header) > _SHOWN else "")
        return (
            f"the record's header with the schema's id has the bytes '{shown}': not 00 and four bytes of an id, or 01 "
            "and 16 bytes of a GUID, and for Protobuf then the path of the message in its file"
        )
    if length and head[0] > _GUID_MAGIC:
        return f"Unknown data format. Magic number does not match: {head[0]:02x}, not 00" + _ELSEWHERE
    return f"the message has {length} bytes, fewer than the {_SIZES}"


def read_frames(messages: pa.BinaryArray, present: Mask) -> Frames:
    """Read the frame of each message of a binary array. `present`: which messages are not null."""
    if not len(messages):
        return Frames(messages, np.zeros(0, np.int64), present, present, messages, _reason, size=PREFIX)
    data, starts, lengths, long = layout(messages, present, PREFIX)
    ids = np.ndarray((len(data) - 3,), ">i4", data, strides=(1,))[starts + 1].astype(np.int64)
    magic = data[starts]
    if not magic.any():
        return Frames(messages, ids, long, present, messages, _reason, size=PREFIX)
    frames = Frames(messages, ids, long & (magic == 0), present, messages, _reason, size=PREFIX)
    has_guid = (magic == _GUID_MAGIC) & (lengths >= GUID_PREFIX) & present
    if not has_guid.any():
        return frames
    at = np.ndarray((len(data) - GUID_PREFIX + 1,), "V16", data, offset=1, strides=(1,))
    ids[has_guid], guids = numbered(at[starts[has_guid]])
    with_guids = replace(frames, good=frames.good | has_guid, guids=guids)
    if not frames.good.any():
        return replace(with_guids, size=GUID_PREFIX)
    return replace(with_guids, messages=cut(messages, has_guid, GUID_PREFIX - PREFIX))


def bodies(messages: pa.BinaryArray) -> tuple[pa.BinaryArray, int, Reasons | None]:
    """Return the messages, null where the frame is bad, and the number of bytes before each datum.

    Also returns the errors of bad frames; None if all frames are good.
    """
    _, places, data = messages.buffers()
    if not messages.null_count and data is not None and len(messages):  # without reading the ids, which takes longer
        offsets = np.frombuffer(places, np.int32, len(messages) + 1, messages.offset * 4)
        starts, ends = offsets[:-1], offsets[1:]
        if (ends - starts).min() >= PREFIX and not np.frombuffer(data, np.uint8)[starts].any():
            return messages, PREFIX, None
    frames = read_frames(messages, np.asarray(messages.is_valid()))
    usable = frames.good | ~frames.present
    if usable.all():
        return frames.messages, frames.size, None
    return pc.if_else(pa.array(usable), frames.messages, pa.scalar(None, pa.binary())), frames.size, frames.errors()


def read_after_ids(messages: pa.BinaryArray, reader: RowReader) -> DecodedBatch | None:
    """Read what follows the id of each message. Return None if some messages have a GUID."""
    batch, has_ids = reader.read_framed(messages, PREFIX, _MAGIC)
    if has_ids:
        return batch
    frames = read_frames(messages, np.asarray(messages.is_valid()))
    if frames.guids:
        return None
    return with_errors(batch, frames.errors())
