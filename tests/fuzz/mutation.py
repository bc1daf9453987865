"""Random changes of messages: the test kit's changes of bytes, and changes that are hard for one format."""

from __future__ import annotations

import contextlib
import random
import uuid
import zlib
from collections.abc import Callable

from kvformat.registry.testing.mutation import change
from tests.support import avro_mutation, json_mutation, protobuf_mutation

Mutation = Callable[[random.Random, bytes], bytes]

_CSV_PARTS = (
    *(b",", b";", b"|", b"\t", b'"', b'""', b"'", b"\\", b"\n", b"\r\n", b"#", b"\n#", b" ", b",,", b'",', b',"'),
    *(b'"\n"', b"\\\\", b'\\"', b"null", b"\x01", b"\xe4\xb8", b"\xff", b"\x00", b",\xef\xbb\xbf", b"n/a", b"1e400"),
)
_NUMBERS = (b"", b"-", b"+", b"0x1", b"1" * 40, b"9" * 1001, b"1e999999999", b"-0", b" 1 ", b"NaN", b"1.", b".5")
_LONGS = (  # Avro's zigzag numbers: -1, minimum, maximum, a number with too many bytes, 2^31, 2^40
    *(b"\x01", b"\xff" * 9 + b"\x01", b"\xfe" + b"\xff" * 8 + b"\x01", b"\xff" * 11, b"\x80\x80\x80\x80\x10"),
    *(b"\x80\x80\x80\x80\x80\x80\x01", b"\x00", b"\x02", b"\x03\x10", b"\x03\xff\xff\xff\xff\x0f"),
)
_ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "latin-1", "gb18030", "utf-7")


def changed(rng: random.Random, format: str, message: bytes, others: list[bytes]) -> bytes:
    """Return a changed message of a format. `others` are messages to copy parts from."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if rng.random() < 0.2:
            message = change(rng, message, others)
        elif rng.random() < 0.1:
            message = rng.choice(_ANY)(rng, message)
        else:
            message = _OF_FORMAT.get(format, json_mutation.mutated)(rng, message)
    return message


def _place(rng: random.Random, message: bytes) -> int:
    return rng.randrange(len(message) + 1)


def _run(rng: random.Random, message: bytes) -> bytes:
    """Repeat one byte many times."""
    at = _place(rng, message)
    return message[:at] + bytes([rng.randrange(256)]) * rng.choice([2, 9, 64, 2000]) + message[at:]


def _encoded(rng: random.Random, message: bytes) -> bytes:
    return message.decode(errors="replace").encode(rng.choice(_ENCODINGS), errors="replace")


_ANY: tuple[Mutation, ...] = (
    *(_run, _encoded),
    lambda rng, message: message[::-1],
    lambda rng, message: rng.choice([b"", b"\x00", b" ", b"\n", b"\xff\xfe", b"\xef\xbb\xbf", b"null", b"{}", b"[]"]),
)


def _csv(rng: random.Random, message: bytes) -> bytes:
    if rng.random() < 0.3:
        fields = message.split(b",")
        fields[rng.randrange(len(fields))] = rng.choice([*_NUMBERS, *fields, b",".join(fields)])
        return b",".join(fields)
    at = _place(rng, message)
    return message[:at] + rng.choice(_CSV_PARTS) * rng.choice([1, 1, 1, 3]) + message[at + rng.choice([0, 0, 1]) :]


def _avro(rng: random.Random, message: bytes) -> bytes:
    """Return the message with any change, or with another number at the offset of a length, count or branch."""
    if rng.random() < 0.5:
        return avro_mutation.mutated(rng, message)
    at = _place(rng, message)
    return message[:at] + rng.choice(_LONGS) + message[at + rng.choice([0, 1, 1, 2]) :]


def _framed(mutate: Mutation) -> Mutation:
    """Change the message after Confluent's frame, or the frame: another id, or the GUID of the id."""

    def changed_message(rng: random.Random, message: bytes) -> bytes:
        drawn = rng.random()
        if drawn < 0.1:
            return rng.choice([b"\x00", b"\x01", b""]) + rng.choice([b"\0\0\0\x02", rng.randbytes(4)]) + message[5:]
        if drawn < 0.2:
            guid = guid_of(int.from_bytes(message[1:5], "big", signed=True)).bytes
            guid = rng.choice([guid, guid, guid, guid[:-1], rng.randbytes(16)])
            return b"\x01" + guid + rng.choice([message[5:], mutate(rng, message[5:])])
        return message[:5] + mutate(rng, message[5:])

    return changed_message


def _glue(rng: random.Random, message: bytes) -> bytes:
    """Change the datum of a message in AWS Glue's frame, compressed or not, or the frame."""
    head, datum = message[:18], message[18:]
    drawn = rng.random()
    if drawn < 0.2:
        head = rng.choice([b"\3\0", b"\3\5", b"\3\1", b"\0\0", rng.randbytes(2)]) + head[2:]
    elif drawn < 0.3:
        head = head[:2] + rng.choice([guid_of(rng.randrange(4)).bytes, rng.randbytes(16)])
    elif drawn < 0.6:
        with contextlib.suppress(zlib.error):
            datum = zlib.decompress(datum)
        datum = zlib.compress(rng.choice([datum, _avro(rng, datum)]))
        return b"\3\5" + head[2:] + rng.choice([datum, datum, datum[: rng.randrange(len(datum))], datum + b"x"])
    else:
        datum = _avro(rng, datum)
    return head + datum


def _apicurio(rng: random.Random, message: bytes) -> bytes:
    """Change the datum of a message in one of Apicurio's frames, or the frame: another width, or an id of a header."""
    drawn = rng.random()
    if drawn < 0.2:
        return rng.choice([b"\0", b"\xfd", b"\xfe"]) + rng.choice([bytes(4), b"\xff" * 4]) + message[1:]
    return _framed(_avro)(rng, message)


def reframed(rng: random.Random, format: str, message: bytes) -> bytes:
    """Return a message in Confluent's frame in one of the frames of a format of another registry."""
    if format == "avro-glue":
        guid, datum = guid_of(int.from_bytes(message[1:5], "big", signed=True)).bytes, message[5:]
        return b"\3\0" + guid + datum if rng.random() < 0.6 else b"\3\5" + guid + zlib.compress(datum)
    return b"\0" + bytes(4) + message[1:] if rng.random() < 0.5 else message


def guid_of(schema_id: int) -> uuid.UUID:
    """Return the GUID that the fuzzer's registries give to the schema with an id."""
    return uuid.UUID(int=schema_id % 2**32)


def _raw(rng: random.Random, message: bytes) -> bytes:
    return rng.choice([message + b"\0", message[1:], rng.randbytes(rng.choice([0, 1, 2, 4, 8])), message + message])


_OF_FORMAT: dict[str, Mutation] = {
    "protobuf": lambda rng, message: protobuf_mutation.changed(rng, message, [message, b"\x08\x01", b""]),
    "csv": _csv,
    "avro": _avro,
    "avro-confluent": _framed(_avro),
    "debezium-avro-confluent": _framed(_avro),
    "avro-glue": _glue,
    "avro-apicurio": _apicurio,
    "raw": _raw,
    "json-registry": _framed(lambda rng, message: changed(rng, "json", message, [message, b"{}"])),
    "proto-registry": _framed(lambda rng, message: changed(rng, "protobuf", message, [message, b"\x00"])),
}
