"""Frames around payloads. Each frame is a function that writes it and a function that reads it.

gzip, zstd       compressed; several frames in a row are one payload, as in the command line tools
length-prefix    00 00 00 05 'hello'                  four bytes of length, big-endian
apicurio         00 <id> payload                      Apicurio Registry: a zero, eight bytes of id, big-endian
glue             03 <00 | 05> <uuid> payload          AWS Glue: version, compression (none, zlib), 16 bytes that
                                                      name the version of a schema

Readers raise `ValueError` for a malformed frame, and `OverflowError` for a payload of more than `max_size` bytes. They
stop at this size, so that a small message cannot fill the memory.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

_LENGTH = struct.Struct(">I")
_APICURIO = struct.Struct(">Bq")
_GLUE = struct.Struct(">BB16s")
_PIECE = 65_536
"""Number of bytes to decompress at a time. This much memory is allocated for every message."""
_GLUE_VERSION, _GLUE_PLAIN, _GLUE_ZLIB = 3, 0, 5


class Frame(NamedTuple):
    """A function that adds a frame to a payload, and a function that removes it."""

    write: Callable[[bytes], bytes]
    read: Callable[[bytes, int], bytes]


def compressed(codec: str) -> Frame:
    """Return frames of an Arrow codec, 'gzip' or 'zstd'. The same payload always gives the same bytes."""

    def read(message: bytes, max_size: int) -> bytes:
        if not message:
            raise ValueError(f"not {codec}: the message is empty")
        try:
            with pa.CompressedInputStream(pa.BufferReader(message), codec) as stream:
                payload = bytearray()
                while len(payload) <= max_size and (piece := stream.read(_PIECE)):
                    payload += piece
                return check_size(bytes(payload), max_size)
        except OSError as cause:
            raise ValueError(f"not {codec}: {cause}") from None

    return Frame(lambda payload: pa.Codec(codec).compress(payload, asbytes=True), read)


def length_prefix() -> Frame:
    """Return frames with the payload's length before it."""

    def read(message: bytes, max_size: int) -> bytes:
        (length,) = _LENGTH.unpack(_header(message, _LENGTH.size))
        payload = message[_LENGTH.size :]
        if length != len(payload):
            raise ValueError(f"the length is {length}, but {len(payload)} bytes follow")
        return check_size(payload, max_size)

    return Frame(lambda payload: _LENGTH.pack(len(payload)) + payload, read)


def apicurio(schema_id: int) -> Frame:
    """Return frames of Apicurio Registry. The writer uses this id, the reader accepts all ids."""

    def read(message: bytes, max_size: int) -> bytes:
        magic, _ = _APICURIO.unpack(_header(message, _APICURIO.size))
        if magic:
            raise ValueError(f"expected 00 as the first byte, got {magic:02x}")
        return check_size(message[_APICURIO.size :], max_size)

    return Frame(lambda payload: _APICURIO.pack(0, schema_id) + payload, read)


def glue(version_id: uuid.UUID, *, compress: bool) -> Frame:
    """Return frames of AWS Glue. The writer uses this schema version; the reader accepts all, compressed or not."""
    header = _GLUE.pack(_GLUE_VERSION, _GLUE_ZLIB if compress else _GLUE_PLAIN, version_id.bytes)

    def read(message: bytes, max_size: int) -> bytes:
        version, compression, _ = _GLUE.unpack(_header(message, _GLUE.size))
        if version != _GLUE_VERSION:
            raise ValueError(f"expected 03 as the first byte (version), got {version:02x}")
        body = message[_GLUE.size :]
        if compression == _GLUE_PLAIN:
            return check_size(body, max_size)
        if compression != _GLUE_ZLIB:
            raise ValueError(f"expected 00 or 05 as the second byte (compression), got {compression:02x}")
        return _inflated(body, max_size)

    return Frame(lambda payload: header + (zlib.compress(payload) if compress else payload), read)


def check_size(payload: bytes, max_size: int) -> bytes:
    """Return the payload. Raises `OverflowError` if it has more than `max_size` bytes."""
    if len(payload) > max_size:
        raise OverflowError(f"the payload has more than 'max-size' = {max_size} bytes")
    return payload


def _inflated(body: bytes, max_size: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        payload = check_size(stream.decompress(body, max_size + 1), max_size)
    except zlib.error as cause:
        raise ValueError(f"not zlib: {cause}") from None
    if not stream.eof or stream.unused_data:
        raise ValueError(f"not zlib: {'bytes follow the compressed data' if stream.eof else 'the data is truncated'}")
    return payload


def _header(message: bytes, size: int) -> bytes:
    if len(message) < size:
        raise ValueError(f"the message has {len(message)} bytes, its header alone has {size}")
    return message[:size]
