"""Random changes of messages, and checks that hold for any message."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._avro import Decoded, Plan, Schema, decode, parse_schema, plan
from kvformat.codecs._avro.batches import view_as
from kvformat.codecs._avro.exact import BadDatum, read_datum
from kvformat.registry.contract.errors import SchemaError
from tests.codecs.avro.avro_random import Maker, branch_name, written

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
    """Return a reader's schema for data of `schema`, with other order and types, and fewer or more fields."""
    if isinstance(schema, list):
        branches = [evolved(rng, branch) for branch in schema]
        if rng.random() < 0.3:
            rng.shuffle(branches)
        names = [None if isinstance(branch, list) else branch_name(branch) for branch in branches]
        return branches if None not in names and len(set(names)) == len(names) else schema
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
    chosen = rng.choice(_PROMOTED.get(kind, [kind])) if rng.random() < 0.5 else kind
    return ["null", chosen] if chosen != "null" and rng.random() < 0.1 else chosen


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
        schema = maker.record() if seed % 3 else maker.schema()
        self.writer = parse_schema(json.dumps(schema))
        try:
            self.reader = parse_schema(json.dumps(evolved(rng, schema) if seed % 2 else schema))
        except SchemaError:  # a removed field defined a name
            self.reader = self.writer
        self.whole = written(schema, [maker.value(schema) for _ in range(count)])
        self.messages = [mutated(rng, m) if i % 3 else m for i, m in enumerate(self.whole)]

    @property
    def plan(self) -> Plan:
        """The plan for both schemas."""
        return plan(self.writer, self.reader)

    def decoded(self, messages: list[bytes] | None = None) -> Decoded:
        """Decode the messages as a batch."""
        return decode(pa.array(messages or self.messages, pa.binary()), self.writer, self.reader)


def exactly(plan: Plan, messages: list[bytes]) -> tuple[pa.Array, list[str | None], list[int]]:
    """Return values, errors and ends of messages from the exact reader."""
    values, errors, ends = [], [], []
    for message in messages:
        value, end, error = None, 0, None
        try:
            value, end = read_datum(plan.action, message, 0)
        except BadDatum as bad:
            error = str(bad)
        values.append(value)
        errors.append(error)
        ends.append(end)
    return pa.array(values, plan.reader.arrow_type), errors, ends


def shown(values: pa.Array, schema: Schema) -> list[str]:
    """Return each value as a string for comparison: NaN equals NaN, -0.0 differs from 0.0, dates are numbers."""
    fresh = values.take(pa.array(np.arange(len(values))))
    return [repr(value) for value in view_as(fresh, schema.storage_type).to_pylist()]
