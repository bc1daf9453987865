"""AWS Glue's frame: the version of a schema by its UUID before the datum, which may be compressed.

    03  00  16 bytes   ...        version of the frame, no compression, the UUID, the datum
    03  05  16 bytes   78 9c ...  and the datum compressed by zlib

As in AWS's libraries, bytes after the end of the compressed data do not count.
Rules: `GlueSchemaRegistryDeserializerDataParser` and `AWSSchemaRegistryConstants`.
"""

from __future__ import annotations

import uuid
import zlib
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from kvformat.codecs._arrays import Mask
from kvformat.codecs.registries.framing import Frames, Framing, layout, numbered
from kvformat.registry.contract.error_codes import ErrorCode, Reason

PREFIX = 18
"""Bytes before the datum."""
MAX_SIZE = "max-size"
GLUE = "glue"
"""The kind of messages with this frame."""
_PLAIN, _ZLIB = b"\3\0", b"\3\5"
_MOST_OF_A_BATCH = 256 << 20  # bytes of a batch after decompression; a larger one is read in parts


class GlueFraming(Framing):
    """Glue's frames.

    most: bytes of a datum after decompression. compresses: whether datums are compressed when writing.
    """

    text: ClassVar[str] = "03 and the UUID of a schema's version"
    kinds: ClassVar[tuple[str, ...]] = (GLUE,)

    def __init__(self, most: int, *, compresses: bool) -> None:
        self._most, self._compresses = most, compresses

    @property
    def keeps_datums(self) -> bool:
        return not self._compresses

    def prefix(self, schema_id: Any) -> bytes:
        return _PLAIN + uuid.UUID(schema_id).bytes

    def read(self, messages: pa.BinaryArray, present: Mask, *, only_ids: bool = False) -> Frames:
        frames, is_zlib = read_frames(messages, present)
        return frames if only_ids or not is_zlib.any() else decompressed(frames, is_zlib, self._most)

    @classmethod
    def kind_of(cls, message: bytes, *, in_header: bool) -> str:
        version = version_of(message)
        return GLUE if version is not None and uuid.UUID(version).version == 4 else ""  # the only ones that AWS makes

    def finished(self, messages: pa.BinaryArray) -> pa.BinaryArray:
        return compressed(messages) if self._compresses else messages


def version_of(message: bytes) -> str | None:
    """Return the UUID of the schema's version, None for a message without the frame."""
    if len(message) < PREFIX or message[:2] not in (_PLAIN, _ZLIB):
        return None
    return str(uuid.UUID(bytes=message[2:PREFIX]))


def compressed(messages: pa.BinaryArray) -> pa.BinaryArray:
    """Return framed messages with their datums compressed."""
    framed = [
        None if message is None else _ZLIB + message[2:PREFIX] + zlib.compress(message[PREFIX:])
        for message in messages.to_pylist()
    ]
    return pa.array(framed, pa.binary())


def read_frames(messages: pa.BinaryArray, present: Mask) -> tuple[Frames, Mask]:
    """Read the frame of each message of a binary array, and return which datums are compressed."""
    if not len(messages):
        return Frames(messages, np.zeros(0, np.int64), present, present, messages, _reason), present
    data, starts, _, long = layout(messages, present, PREFIX)
    headers = np.ndarray((len(data) - PREFIX + 1,), f"V{PREFIX}", data, strides=(1,))[starts]
    count, first, all_long = len(headers), headers[0].tobytes(), bool(long.all())
    versions = np.ndarray((count,), "V16", headers, offset=2, strides=(PREFIX,))
    if all_long and first[:2] == _PLAIN and headers.tobytes() == first * count:  # as in most batches
        numbers, guids = numbered(versions[:1].copy())
        ids = np.broadcast_to(numbers, count)
        return Frames(messages, ids, long, present, messages, _reason, guids, PREFIX), np.zeros(count, np.bool_)
    heads = np.ndarray((count,), ">u2", headers, strides=(PREFIX,))
    is_zlib = heads == int.from_bytes(_ZLIB, "big")
    good = is_zlib | (heads == int.from_bytes(_PLAIN, "big"))
    if all_long and good.all():
        ids, guids = numbered(versions.copy())
    else:
        is_zlib, good = is_zlib & long, good & long
        ids = np.zeros(count, np.int64)
        ids[good], guids = numbered(versions[good])
    return Frames(messages, ids, good, present, messages, _reason, guids, PREFIX), is_zlib


def decompressed(frames: Frames, is_zlib: Mask, most: int) -> Frames:
    """Return the frames with their datums decompressed, `most` bytes of each. Data that is not valid is a failure.

    Raises `OverflowError` if the datums of several messages are too large together; then fewer of them must be read.
    """
    datums: list[bytes | None] = frames.messages.to_pylist()
    good, failures, total = frames.good.copy(), {}, 0
    for row in np.flatnonzero(is_zlib).tolist():
        message = datums[row]
        assert message is not None
        try:
            datum = _decompressed(message[PREFIX:], most)
        except ValueError as bad:
            good[row], failures[row] = False, Reason(ErrorCode.MALFORMED, str(bad))
        except OverflowError as bad:
            good[row], failures[row] = False, Reason(ErrorCode.TOO_LARGE, str(bad))
        else:
            datums[row] = message[:PREFIX] + datum
            total += len(datum)
            if total > _MOST_OF_A_BATCH and len(datums) > 1:
                raise OverflowError(f"the datums of the batch have more than {_MOST_OF_A_BATCH} bytes")
    return replace(frames, messages=pa.array(datums, pa.binary()), good=good, failures=failures)


def _decompressed(data: bytes, most: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        datum = stream.decompress(data, most + 1)
    except zlib.error as bad:
        raise ValueError(f"the second byte is 05, but the datum is not compressed by zlib: {bad}") from None
    if len(datum) > most:
        raise OverflowError(f"the decompressed datum has more than '{MAX_SIZE}' = {most} bytes")
    if not stream.eof:
        raise ValueError(f"the compressed datum is truncated: it ends after {len(data)} bytes")
    return datum


def _reason(message: pa.Buffer) -> str:
    """Return what is wrong with the frame of a message."""
    length, head = message.size, message[:2].to_pybytes()
    if head[:1] == b"\0":
        return (
            "the message begins with 00, not with 03, the version of AWS Glue's frame. Confluent's frame begins with "
            "00: format 'avro-confluent' reads it"
        )
    if length and head[0] != 3:
        return f"the message begins with {head[0]:02x}, not with 03, the version of AWS Glue's frame"
    if length > 1 and head[1] not in (0, 5):
        return f"the second byte, the compression, is {head[1]:02x}: it must be 00 (none) or 05 (zlib)"
    return (
        f"the message has {length} bytes, fewer than the {PREFIX} of AWS Glue's frame: 03, 00 or 05, and the UUID of "
        "the schema's version"
    )
