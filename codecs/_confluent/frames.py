"""Confluent's framing: `00` and a schema id of four bytes before the datum."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.error_codes import ErrorCode, split_codes

PREFIX = 5
"""Bytes before the datum."""

_GUID_MAGIC = 1
_NEAR = 2**16
"""Ids in a range of this size are counted in an array, which is much faster than sorting them."""
_ELSEWHERE = (
    ". Confluent's serializers can also put the id or a GUID of the schema into the record's headers, which is not "
    "supported: set the producer's 'value.schema.id.serializer' (or 'key....') to "
    "io.confluent.kafka.serializers.schema.id.PrefixSchemaIdSerializer"
)


def prefix(schema_id: int) -> bytes:
    """Return the bytes before the datum."""
    return b"\0" + schema_id.to_bytes(4, "big", signed=True)


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a batch of messages.

    ids: schema ids. good: which messages have one. present: which messages are not null.
    magic: first bytes. lengths: sizes in bytes.
    """

    ids: npt.NDArray[np.int32]
    good: npt.NDArray[np.bool_]
    present: npt.NDArray[np.bool_]
    magic: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.int64]

    def errors(self) -> npt.NDArray[np.object_]:
        """Return an error for each message that is not null and has no id, None for all others."""
        errors = np.full(len(self.ids), None, dtype=object)
        for row in np.flatnonzero(self.present & ~self.good).tolist():
            magic, length = int(self.magic[row]), int(self.lengths[row])
            if length and magic == _GUID_MAGIC:
                reason = (
                    "the message starts with 01 and the GUID of a schema; only 00 and a schema id is supported"
                    + _ELSEWHERE
                )
            elif length and magic:
                reason = f"Unknown data format. Magic number does not match: {magic:02x}, not 00" + _ELSEWHERE
            else:
                reason = f"the message has {length} bytes, fewer than the {PREFIX} of 00 and a schema id"
            errors[row] = ErrorCode.MALFORMED.marked(reason)
        return errors


def read_frames(messages: pa.BinaryArray, present: npt.NDArray[np.bool_]) -> Frames:
    """Read the first five bytes of each message of a binary array. `present`: which messages are not null."""
    _, offsets_buffer, data_buffer = messages.buffers()
    count = len(messages)
    if not count:
        return Frames(np.zeros(0, np.int32), present, present, np.zeros(0, np.uint8), np.zeros(0, np.int64))
    offsets = np.frombuffer(offsets_buffer, np.int32)[messages.offset : messages.offset + count + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    if len(data) < PREFIX:
        data = np.pad(data, (0, PREFIX - len(data)))  # all messages are too short, but the gathers below need bytes
    starts, lengths, long = offsets[:-1], np.diff(offsets), present
    if not present.all() or lengths.min() < PREFIX:
        lengths = np.where(present, lengths, 0)
        long = lengths >= PREFIX
        starts = np.minimum(starts, len(data) - PREFIX)  # this only changes the starts of messages that are too short
    ids = np.ndarray((len(data) - 3,), ">i4", data, strides=(1,))[starts + 1].astype(np.int32)
    magic = data[np.minimum(offsets[:-1], len(data) - 1)] if long is not present else data[starts]
    return Frames(ids, long & (magic == 0), present, magic, lengths)


def bodies(messages: pa.BinaryArray) -> tuple[pa.BinaryArray, pa.StringArray | None]:
    """Return the messages, null where the frame is bad, and the errors of bad frames; None if all frames are good."""
    _, places, data = messages.buffers()
    if not messages.null_count and data is not None and len(messages):  # without reading the ids, which takes longer
        offsets = np.frombuffer(places, np.int32, len(messages) + 1, messages.offset * 4)
        starts, ends = offsets[:-1], offsets[1:]
        if (ends - starts).min() >= PREFIX and not np.frombuffer(data, np.uint8)[starts].any():
            return messages, None
    frames = read_frames(messages, np.asarray(messages.is_valid()))
    usable = frames.good | ~frames.present
    if usable.all():
        return messages, None
    errors = pa.array(frames.errors(), pa.string())
    return pc.if_else(pa.array(usable), messages, pa.scalar(None, pa.binary())), errors


def with_frame_errors(batch: DecodedBatch, frame_errors: pa.StringArray | None) -> DecodedBatch:
    """Return a batch whose messages with a bad frame have the frame's error."""
    if frame_errors is None:
        return batch
    errors, codes = split_codes(frame_errors)
    if batch.errors is not None:
        own, own_codes = (batch.errors, batch.codes) if batch.codes is not None else split_codes(batch.errors)
        errors, codes = pc.coalesce(errors, own), pc.coalesce(codes, own_codes)
    return replace(batch, errors=errors, codes=codes)


def distinct_ids(ids: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]]:
    """Return the distinct ids, the most frequent first, and for each id in `ids` its index among them."""
    if not len(ids):
        return ids, np.zeros(0, np.int64)
    low, high = int(ids.min()), int(ids.max())
    if low == high:
        return ids[:1], np.zeros(len(ids), np.int64)
    found: npt.NDArray[np.integer]
    if high - low < _NEAR:
        all_counts = np.bincount(ids - low)
        places = np.flatnonzero(all_counts)
        found, counts = places + low, all_counts[places]
        numbers = np.zeros(len(all_counts), np.int64)
        numbers[places] = np.arange(len(places))
        which = numbers[ids - low]
    else:
        found, which, counts = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return found[order], np.argsort(order)[which]
