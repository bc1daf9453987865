"""Messages of the vectors, changed at random, and what comes of them.

python -m tests.support.protobuf_mutation COUNT    writes the kernel, then the answers for each batch
"""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterator

import pyarrow as pa

from kvformat.codecs import KERNEL
from tests.support import vectors
from tests.support.decoding import Answer, answers

BATCH = 40
_PARTS = (  # tags and sizes that hurt: zero, too long, negative, huge, groups, unknown wire types
    *(b"\x00", b"\xff" * 10, b"\xff" * 11, b"\x80" * 9 + b"\x01", b"\x80\x80\x80\x80\x08", b"\xff\xff\xff\xff\x07"),
    *(b"\x0b", b"\x0c", b"\x13", b"\x14", b"\x0b\x0c", b"\x06", b"\x07", b"\x08\x01", b"\x0a\x00", b"\x12\x02\xc3\x28"),
    *(b"\x0b" * 101, b"\x0a\x02\x0a\x00", b"\x1a\x05hello", b"\x7f", b"\x80", b"\xed\xa0\x80"),
)


def cases() -> list[vectors.Case]:
    """The cases of the vectors that decode, several of each section."""
    found: dict[str, list[vectors.Case]] = {}
    for case in vectors.cases("protobuf"):
        if case["direction"] == "decode" and "factory_error" not in case and case["messages"]:
            found.setdefault(case["id"].split("/")[1], []).append(case)
    return [
        case for section in found.values() for case in random.Random(len(section)).sample(section, min(6, len(section)))
    ]


def changed(rng: random.Random, message: bytes, others: list[bytes]) -> bytes:
    """A message as it should not be, or as nobody would write it."""
    at = rng.randint(0, len(message))
    ways = (
        lambda: message[:at],
        lambda: message[:at] + rng.choice(_PARTS) + message[at:],
        lambda: message[:at] + rng.choice(_PARTS) + message[at + 1 :],
        lambda: message[:at] + bytes([rng.randrange(256)]) + message[at + 1 :],
        lambda: message + rng.choice(others),  # what makes two messages one
        lambda: rng.choice(others)[:at] + message[at:],
        lambda: message[:at] + message[at + rng.randint(1, 3) :],
        lambda: rng.choice(_PARTS) + message,
    )
    return rng.choice(ways)()


def batches(count: int) -> Iterator[tuple[str, list[bytes | None], list[Answer]]]:
    """At least so many messages: the case, its messages and what comes of them."""
    rng, read = random.Random(20_240_229), 0
    chosen = [(case, vectors.format_of(case)) for case in cases()]
    while read < count:
        for case, format in chosen:
            known = [vectors.message_bytes(message["in"]) or b"" for message in case["messages"]]
            messages: list[bytes | None] = [changed(rng, rng.choice(known), known) for _ in range(BATCH)]
            messages[rng.randrange(BATCH)] = None
            batch = format.decode_batch(pa.array(messages, pa.binary()), vectors.columns(case))
            batch.rows.validate(full=True)
            yield case["id"], messages, answers(batch)
            read += len(messages)
            if read >= count:
                return


if __name__ == "__main__":
    pickle.dump(KERNEL, sys.stdout.buffer)
    for batch in batches(int(sys.argv[1])):
        pickle.dump(batch, sys.stdout.buffer)
