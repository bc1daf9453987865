"""Random schemas, random changes of messages, and what comes of them.

python -m tests.support.avro_mutation COUNT    writes the kernel, then the answers for each batch
"""

from __future__ import annotations

import json
import pickle
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kvformat.codecs import KERNEL
from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.read import Decoded
from kvformat.registry.contract.errors import SchemaError
from tests.support.avro_cases import decode, decode_mixed, shown, texts
from tests.support.avro_random import Maker, written

_PROMOTED = {
    "int": ["int", "long", "float", "double"],
    "long": ["long", "float", "double"],
    "float": ["float", "double"],
    "string": ["string", "bytes"],
    "bytes": ["bytes", "string"],
}
_ODD = (
    b"\x00",
    b"\x01",
    b"\x80\x00",
    b"\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xc3\x28",
)


def mutated(rng: random.Random, message: bytes) -> bytes:
    """Change, cut off, insert or remove bytes of a message."""
    data = bytearray(message)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data[at : at + 1] = rng.randbytes(1)
            case 1:
                del data[at:]
            case 2:
                data[at:at] = rng.choice([*_ODD, b"\xff" * rng.randint(1, 11), rng.randbytes(3)])
            case 3:
                data[at : at + 1] = bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + 1])
            case _:
                del data[at : at + rng.randint(1, 4)]
    return bytes(data)


def evolved(rng: random.Random, schema: Any) -> Any:
    """Return a reader's schema for data of `schema`, with other order and types, and fewer or more fields.

    A union gets null and one of its other types, in any order.
    """
    if isinstance(schema, list):
        inner = evolved(rng, rng.choice([branch for branch in schema if branch != "null"] or ["int"]))
        if isinstance(inner, list):
            return inner
        return rng.choice([["null", inner], [inner, "null"], [inner]])
    if isinstance(schema, str):
        return _evolved_primitive(rng, schema)
    changed = dict(schema)
    for key in ("items", "values"):
        if key in changed:
            changed[key] = evolved(rng, changed[key])
    if "fields" in changed:
        changed["fields"] = _evolved_fields(rng, changed["fields"])
    return changed


def _evolved_primitive(rng: random.Random, kind: str) -> Any:
    if kind == "null":
        return ["null", "int"]
    chosen = rng.choice(_PROMOTED.get(kind, [kind])) if rng.random() < 0.5 else kind
    return ["null", chosen] if rng.random() < 0.1 else chosen


def _evolved_fields(rng: random.Random, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = [{**f, "type": evolved(rng, f["type"])} for f in fields if rng.random() < 0.7]
    if rng.random() < 0.4:
        rng.shuffle(kept)
    if rng.random() < 0.4:
        kept.insert(0, {"name": "more", "type": ["null", "string"], "default": None})
    if rng.random() < 0.2:
        kept.append({"name": "numbers", "type": {"type": "array", "items": "int"}, "default": [1, 2]})
    return kept


class Case:
    """Random schemas, values and messages. Every third message is not changed."""

    def __init__(self, seed: int, count: int = 60) -> None:
        maker = Maker(seed)
        rng = maker.rng
        maker.readable = seed % 2 == 0
        schema = maker.record() if seed % 3 else maker.schema()
        self.writer = parse_schema(json.dumps(schema))
        try:
            self.reader = self.writer if maker.readable else parse_schema(json.dumps(evolved(rng, schema)))
        except SchemaError:  # a removed field defined a name
            self.reader = parse_schema('{"type": "record", "name": "Nothing", "fields": []}')
        self.whole = written(schema, [maker.value(schema) for _ in range(count)])
        self.messages = [mutated(rng, m) if i % 3 else m for i, m in enumerate(self.whole)]

    def decoded(self, messages: list[bytes] | None = None) -> Decoded:
        """Decode the messages as a batch."""
        return decode(pa.array(messages or self.messages, pa.binary()), self.writer, self.reader)


def batches(count: int) -> Iterator[tuple[list[bytes], list[str], list[str | None]]]:
    """Yield at least so many messages: those of a batch, their values and their errors.

    Half of the batches have the messages of two writers, one after the other.
    """
    seed = 0
    while count > 0:
        case = Case(seed)
        decoded = case.decoded()
        if seed % 4 > 1:
            which = np.arange(len(case.messages)) % 2
            messages = pa.array(case.messages, pa.binary())
            decoded = decode_mixed(messages, [case.writer, case.reader], which, case.reader)
        decoded.values.validate()  # a time may be outside of its day: only a format makes it an error
        yield case.messages, shown(decoded.values, case.reader), texts(decoded)
        count -= len(case.messages)
        seed += 1


if __name__ == "__main__":
    pickle.dump(KERNEL, sys.stdout.buffer)
    for batch in batches(int(sys.argv[1])):
        pickle.dump(batch, sys.stdout.buffer)
