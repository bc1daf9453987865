"""Frames: what stands around a payload. Each is a function that writes one and a function that reads one.

gzip, zstd       compressed; several frames in a row are one payload, as the tools of both have it
length-prefix    00 00 00 05 'hello'                  four bytes of length, big-endian
apicurio         00 <id> payload                      Apicurio Registry: a zero, eight bytes of id, big-endian
glue             03 <00 | 05> <uuid> payload          AWS Glue: version, compression (none, zlib), 16 bytes that
                                                      name the version of a schema

Readers raise `ValueError` for a frame that is none, and `OverflowError` for more than the `most` bytes that a payload
may have: they stop there, so that a small message can't fill the memory.
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
"""Bytes that are unpacked at once; the room for them is taken for every message."""
_GLUE_VERSION, _GLUE_PLAIN, _GLUE_ZLIB = 3, 0, 5


class Frame(NamedTuple):
    """A way to frame payloads."""

    write: Callable[[bytes], bytes]
    read: Callable[[bytes, int], bytes]


def compressed(codec: str) -> Frame:
    """Frames of a codec of Arrow, 'gzip' or 'zstd'; what comes out is the same on every run."""

    def read(message: bytes, most: int) -> bytes:
        if not message:
            raise ValueError(f"no {codec}: the message is empty")
        try:
            with pa.CompressedInputStream(pa.BufferReader(message), codec) as stream:
                payload = bytearray()
                while len(payload) <= most and (piece := stream.read(_PIECE)):
                    payload += piece
                return within(bytes(payload), most)
        except OSError as cause:
            raise ValueError(f"no {codec}: {cause}") from None

    return Frame(lambda payload: pa.Codec(codec).compress(payload, asbytes=True), read)


def length_prefix() -> Frame:
    """Frames of a length and as many bytes."""

    def read(message: bytes, most: int) -> bytes:
        (length,) = _LENGTH.unpack(_head(message, _LENGTH.size))
        payload = message[_LENGTH.size :]
        if length != len(payload):
            raise ValueError(f"the length is {length}, but {len(payload)} bytes follow")
        return within(payload, most)

    return Frame(lambda payload: _LENGTH.pack(len(payload)) + payload, read)


def apicurio(schema_id: int) -> Frame:
    """Frames of Apicurio Registry, written with this id; all ids are read."""

    def read(message: bytes, most: int) -> bytes:
        magic, _ = _APICURIO.unpack(_head(message, _APICURIO.size))
        if magic:
            raise ValueError(f"the first byte is {magic:02x}, not 00")
        return within(message[_APICURIO.size :], most)

    return Frame(lambda payload: _APICURIO.pack(0, schema_id) + payload, read)


def glue(version_id: uuid.UUID, *, compress: bool) -> Frame:
    """Frames of AWS Glue, written with this version of a schema; all versions are read, compressed or not."""
    head = _GLUE.pack(_GLUE_VERSION, _GLUE_ZLIB if compress else _GLUE_PLAIN, version_id.bytes)

    def read(message: bytes, most: int) -> bytes:
        version, compression, _ = _GLUE.unpack(_head(message, _GLUE.size))
        if version != _GLUE_VERSION:
            raise ValueError(f"the first byte, the version, is {version:02x}, not 03")
        body = message[_GLUE.size :]
        if compression == _GLUE_PLAIN:
            return within(body, most)
        if compression != _GLUE_ZLIB:
            raise ValueError(f"the second byte, the compression, is {compression:02x}, neither 00 nor 05")
        return _inflated(body, most)

    return Frame(lambda payload: head + (zlib.compress(payload) if compress else payload), read)


def within(payload: bytes, most: int) -> bytes:
    """The payload; raises `OverflowError` if it is longer than it may be."""
    if len(payload) > most:
        raise OverflowError(f"the payload has more than 'max-size' = {most} bytes")
    return payload


def _inflated(body: bytes, most: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        payload = within(stream.decompress(body, most + 1), most)
    except zlib.error as cause:
        raise ValueError(f"no zlib: {cause}") from None
    if not stream.eof or stream.unused_data:
        raise ValueError(f"no zlib: {'bytes follow it' if stream.eof else 'it is cut off'}")
    return payload


def _head(message: bytes, size: int) -> bytes:
    if len(message) < size:
        raise ValueError(f"the message has {len(message)} bytes, its head alone has {size}")
    return message[:size]
