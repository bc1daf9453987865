"""Confluent's framing: the id or the GUID of a schema before the datum, or in a header of the record.

    00  00 00 00 01        the id as four bytes, big-endian                            before the datum, or in a header
    01  16 bytes           the GUID, which is the same in all registries               in a header, or before the datum
    ...  02 00             Protobuf: and the path of the message in its file           directly after the id or GUID

A record with the header `__key_schema_id` or `__value_schema_id` has nothing before the datum. `add_headers` puts the
bytes of the header there, so that the readers find all frames in one place.
Rules: Confluent's `HeaderSchemaIdSerializer` and `DualSchemaIdDeserializer`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import validity
from kvformat.codecs._rows import BodyReader
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.error_codes import ErrorCode, split_codes
from kvformat.registry.contract.format_hooks import Part

PREFIX = 5
"""Bytes before the datum, with an id."""
GUID_PREFIX = 17
"""Bytes before the datum, with a GUID."""
HEADERS: Mapping[Part, str] = {"key": "__key_schema_id", "value": "__value_schema_id"}
"""The headers of a record that hold the bytes before the key's or the value's datum."""

_MAGIC = b"\0"
_GUID_MAGIC = 1
_GUIDS = 2**32  # numbers from here on are GUIDs, not ids
_SHOWN = 32  # bytes of a wrong header
_BAD_HEADER = b"\xff\xffbad header "
_SIZES = f"{PREFIX} of 00 and a schema id, or the {GUID_PREFIX} of 01 and a schema's GUID"
_NEAR = 2**16
"""Ids in a range of this size are counted in an array, which is much faster than sorting them."""
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


def add_headers(messages: pa.BinaryArray, headers: pa.BinaryArray, is_frame: Callable[[bytes], bool]) -> pa.BinaryArray:
    """Put the headers of records before their messages. A message or header that is null stays as it is.

    `is_frame` checks the bytes of a header. A message with a wrong one becomes its own error.
    """
    distinct = headers.dictionary_encode()
    frames = [frame if is_frame(frame) else None for frame in distinct.dictionary.to_pylist()]
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


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a batch of messages.

    messages: the messages with `size` bytes before each datum, which may be the last ones of a GUID.
    ids: schema ids, or numbers that stand for a GUID in this batch; see `schemas`.
    good: which messages have one. present: which messages are not null.
    given: the messages as they came. guids: the GUIDs, as 16 bytes.
    reason: returns what is wrong with the frame of a message. failures: errors that are found otherwise, by message.
    keys: what the numbers in `ids` stand for, if they are neither ids nor numbers of GUIDs.
    """

    messages: pa.BinaryArray
    ids: npt.NDArray[np.int64]
    good: npt.NDArray[np.bool_]
    present: npt.NDArray[np.bool_]
    given: pa.BinaryArray
    guids: tuple[bytes, ...] = ()
    size: int = PREFIX
    reason: Callable[[pa.Buffer], str] = _reason
    failures: Mapping[int, str] = field(default_factory=dict)
    keys: tuple[int | str, ...] | None = None

    def schemas(self, ids: list[int]) -> list[int | str]:
        """Return the schema id or the text of the GUID of each number."""
        if self.keys is not None:
            return [self.keys[number] for number in ids]
        if not self.guids:
            return [*ids]
        return [number if number < _GUIDS else str(uuid.UUID(bytes=self.guids[number - _GUIDS])) for number in ids]

    def errors(self) -> npt.NDArray[np.object_]:
        """Return an error for each message that is not null and has no id, None for all others."""
        errors = np.full(len(self.ids), None, dtype=object)
        for row in np.flatnonzero(self.present & ~self.good).tolist():
            known = self.failures.get(row)
            errors[row] = known or ErrorCode.MALFORMED.marked(self.reason(self.given[row].as_buffer()))
        return errors


def layout(
    messages: pa.BinaryArray, present: npt.NDArray[np.bool_], size: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the bytes of an array that is not empty, and the start and the length of each message in them.

    Also returns which messages are present and have at least `size` bytes. The starts of others are moved so that
    `size` bytes follow them.
    """
    _, offsets_buffer, data_buffer = messages.buffers()
    count = len(messages)
    offsets = np.frombuffer(offsets_buffer, np.int32)[messages.offset : messages.offset + count + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    if len(data) < size:
        data = np.pad(data, (0, size - len(data)))  # all messages are too short, but the caller needs bytes
    starts, lengths, long = offsets[:-1], np.diff(offsets), present
    if not present.all() or lengths.min() < size:
        lengths = np.where(present, lengths, 0)
        long = lengths >= size
        starts = np.minimum(starts, len(data) - size)
    return data, starts, lengths, long


def numbered(guids: npt.NDArray[np.void]) -> tuple[npt.NDArray[np.int64], tuple[bytes, ...]]:
    """Return a number for each GUID, and the distinct GUIDs, for `Frames`. The array is contiguous."""
    array = pa.Array.from_buffers(pa.binary(16), len(guids), [None, pa.py_buffer(guids)])
    found = array.dictionary_encode()
    return np.asarray(found.indices) + np.int64(_GUIDS), tuple(found.dictionary.to_pylist())


def read_frames(messages: pa.BinaryArray, present: npt.NDArray[np.bool_]) -> Frames:
    """Read the frame of each message of a binary array. `present`: which messages are not null."""
    if not len(messages):
        return Frames(messages, np.zeros(0, np.int64), present, present, messages)
    data, starts, lengths, long = layout(messages, present, PREFIX)
    ids = np.ndarray((len(data) - 3,), ">i4", data, strides=(1,))[starts + 1].astype(np.int64)
    magic = data[starts]
    if not magic.any():
        return Frames(messages, ids, long, present, messages)
    frames = Frames(messages, ids, long & (magic == 0), present, messages)
    has_guid = (magic == _GUID_MAGIC) & (lengths >= GUID_PREFIX) & present
    if not has_guid.any():
        return frames
    at = np.ndarray((len(data) - GUID_PREFIX + 1,), "V16", data, offset=1, strides=(1,))
    ids[has_guid], guids = numbered(at[starts[has_guid]])
    found = replace(frames, good=frames.good | has_guid, guids=guids)
    if not frames.good.any():
        return replace(found, size=GUID_PREFIX)
    return replace(found, messages=cut_guids(messages, has_guid))


def cut_guids(
    messages: pa.BinaryArray, has_guid: npt.NDArray[np.bool_], less: int = GUID_PREFIX - PREFIX
) -> pa.BinaryArray:
    """Return the messages with `PREFIX` bytes before each datum, by cutting `less` bytes of those with a GUID.

    `pyarrow.compute.binary_slice` fails for messages that are shorter than the start of the slice.
    """
    _, places, buffer = messages.buffers()
    count = len(messages)
    offsets = np.frombuffer(places, np.int32, count + 1, messages.offset * 4)
    offsets, data = offsets - offsets[0], np.frombuffer(buffer, np.uint8)[offsets[0] : offsets[-1]]
    kept = np.ones(len(data), np.bool_)
    starts = offsets[:-1][has_guid]
    for at in range(less):
        kept[starts + at] = False
    offsets[1:] -= less * np.cumsum(has_guid, dtype=np.int32)
    valid = None if not messages.null_count else validity(np.asarray(messages.is_valid()))
    return pa.Array.from_buffers(pa.binary(), count, [valid, pa.py_buffer(offsets), pa.py_buffer(data[kept])])


def bodies(messages: pa.BinaryArray) -> tuple[pa.BinaryArray, int, pa.StringArray | None]:
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
    errors = pa.array(frames.errors(), pa.string())
    return pc.if_else(pa.array(usable), frames.messages, pa.scalar(None, pa.binary())), frames.size, errors


def read_after_ids(messages: pa.BinaryArray, reader: BodyReader) -> DecodedBatch | None:
    """Read what follows the id of each message. Return None if some messages have a GUID."""
    batch, has_ids = reader.read_framed(messages, PREFIX, _MAGIC)
    if has_ids:
        return batch
    frames = read_frames(messages, np.asarray(messages.is_valid()))
    if frames.guids:
        return None
    return with_frame_errors(batch, pa.array(frames.errors(), pa.string()))


def with_frame_errors(batch: DecodedBatch, frame_errors: pa.StringArray | None) -> DecodedBatch:
    """Return a batch whose messages with a bad frame have the frame's error."""
    if frame_errors is None:
        return batch
    errors, codes = split_codes(frame_errors)
    if batch.errors is not None:
        own, own_codes = (batch.errors, batch.codes) if batch.codes is not None else split_codes(batch.errors)
        errors, codes = pc.coalesce(errors, own), pc.coalesce(codes, own_codes)
    return replace(batch, errors=errors, codes=codes)


def distinct_ids(ids: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]]:
    """Return the distinct ids, the most frequent first, and for each id in `ids` its index among them."""
    if not len(ids):
        return ids, np.zeros(0, np.int64)
    low, high = int(ids.min()), int(ids.max())
    if low == high:
        return ids[:1], np.zeros(len(ids), np.int64)
    if high - low < _NEAR:
        nearby = ids - low
        counts = np.bincount(nearby)
        places = np.flatnonzero(counts)
        places = places[np.argsort(-counts[places], kind="stable")]
        numbers = np.zeros(len(counts), np.int64)
        numbers[places] = np.arange(len(places))
        return places + low, numbers.take(nearby)
    found, which, counts = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return found[order], np.argsort(order)[which]
