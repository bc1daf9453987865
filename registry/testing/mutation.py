"""Random changes of messages: cut off, duplicate, replace or mix their bytes. The random generator is seeded."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_PIECES = (
    *(b"", b"\0", b" ", b"\n", b"\xff", b"\x80", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b"'", b"\\", b",", b":", b";"),
    *(b"{", b"}", b"[", b"]", b"(", b"null", b"{}", b"[]", b"-", b"9" * 40, b"1e999999999", b"NaN", b"-0", b"\xf0\x9f"),
    *(b"\xff" * 11, b"\x7f" * 4, b"\xff\xff\xff\x7f", b"[" * 1200, b"a" * 3000),
)


def changed(rng: random.Random, messages: Sequence[bytes], count: int) -> list[bytes]:
    """Return `count` messages. Each is one of `messages` with one to four changes."""
    copies = []
    for _ in range(count):
        message = rng.choice(messages)
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            message = change(rng, message, messages)
        copies.append(message)
    return copies


def change(rng: random.Random, message: bytes, others: Sequence[bytes]) -> bytes:
    """Return the message with one change. A change may copy a part of one of `others`."""
    return rng.choice(_CHANGES)(rng, message, rng.choice(others))


def _place(rng: random.Random, message: bytes) -> int:
    return rng.randrange(len(message) + 1)


def _part(rng: random.Random, message: bytes) -> tuple[int, int]:
    start, stop = sorted((_place(rng, message), _place(rng, message)))
    return start, stop


def _bit(rng: random.Random, message: bytes, _: bytes) -> bytes:
    if not message:
        return message
    at = rng.randrange(len(message))
    return message[:at] + bytes([message[at] ^ 1 << rng.randrange(8)]) + message[at + 1 :]


def _byte(rng: random.Random, message: bytes, _: bytes) -> bytes:
    at = _place(rng, message)
    return message[:at] + rng.randbytes(1) + message[at + rng.choice([0, 1, 2]) :]


def _piece(rng: random.Random, message: bytes, _: bytes) -> bytes:
    at = _place(rng, message)
    return message[:at] + rng.choice(_PIECES) + message[at + rng.choice([0, 0, 1]) :]


def _torn(rng: random.Random, message: bytes, _: bytes) -> bytes:
    at = _place(rng, message)
    return rng.choice([message[:at], message[at:]])


def _without(rng: random.Random, message: bytes, _: bytes) -> bytes:
    start, stop = _part(rng, message)
    return message[:start] + message[stop:]


def _doubled(rng: random.Random, message: bytes, _: bytes) -> bytes:
    start, stop = _part(rng, message)
    return message[:stop] + message[start:stop] * rng.choice([1, 1, 2, 30]) + message[stop:]


def _noise(rng: random.Random, message: bytes, _: bytes) -> bytes:
    start, stop = _part(rng, message)
    return message[:start] + rng.randbytes(stop - start) + message[stop:]


def _spliced(rng: random.Random, message: bytes, other: bytes) -> bytes:
    return message[: _place(rng, message)] + other[_place(rng, other) :]


_CHANGES: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    *(_bit, _byte, _piece, _torn, _without, _doubled, _noise, _spliced),
)
