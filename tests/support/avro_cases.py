"""Helpers of Avro's tests: schemas from short notes, and messages read alone and in a batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.read import Decoded, read_batch
from kvformat.codecs.avro.resolve import plan
from kvformat.codecs.avro.schema import Schema
from kvformat.registry.contract.error_codes import reasons_of

MANY = 40
"""The messages of a batch."""


def decode(
    messages: pa.BinaryArray, writer: Schema, reader: Schema | None = None, *, start: int = 0, plain: bool = False
) -> Decoded:
    """Read messages of one writer. Without a reader's schema, the writer's is used. `plain`: `named_as_plain`."""
    reader = reader or writer
    return read_batch(messages, [plan(writer, reader, plain)], reader, None, start)


def decode_mixed(messages: pa.BinaryArray, writers: Sequence[Schema], which: Any, reader: Schema) -> Decoded:
    """Read messages of several writers. `which` has the index of each message's schema, -1 to skip the message."""
    return read_batch(messages, [plan(writer, reader) for writer in writers], reader, which)


def schema_of(node: Any) -> Schema:
    return parse_schema(json.dumps(node))


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    """Make a record from fields and schemas. The field of a schema is named f0, f1, ..."""
    made = [f if _is_field(f) else {"name": f"f{i}", "type": f} for i, f in enumerate(fields)]
    return {"type": "record", "name": name, "fields": made}


def _is_field(node: Any) -> bool:
    return isinstance(node, dict) and "name" in node and node["type"] not in ("record", "enum", "fixed")


def array(*messages: bytes | str | None) -> pa.BinaryArray:
    return pa.array([bytes.fromhex(m) if isinstance(m, str) else m for m in messages], pa.binary())


def read(message: bytes | str, writer: Any, reader: Any = None, **options: Any) -> Any:
    """Return the value of a message. It must be the same alone and in a batch."""
    w, r = schema_of(writer), None if reader is None else schema_of(reader)
    alone = decode(array(message), w, r, **options)
    many = decode(array(*[message] * MANY), w, r, **options)
    assert alone.errors is None
    assert many.errors is None
    assert shown(many.values, r or w) == shown(alone.values, r or w) * MANY
    return alone.values[0].as_py()


def texts(decoded: Decoded) -> list[str | None]:
    """Return the error of each message, which begins with its code, or None."""
    reasons = reasons_of(decoded.errors, decoded.codes, len(decoded.values))
    return [None if reason is None else reason.code.marked(reason.text) for reason in reasons]


def error(message: bytes | str, writer: Any, reader: Any = None, **options: Any) -> str:
    """Return the error of a message. It must be the same alone and in a batch."""
    w, r = schema_of(writer), None if reader is None else schema_of(reader)
    alone = decode(array(message), w, r, **options)
    many = decode(array(*[message] * MANY), w, r, **options)
    assert alone.values.null_count == 1
    assert texts(many) == texts(alone) * MANY
    text = texts(alone)[0]
    assert text is not None
    return text


def shown(values: pa.Array, schema: Schema) -> list[str]:
    """Return each value as a string for comparison: NaN equals NaN, -0.0 differs from 0.0, dates are numbers."""
    return [repr(value) for value in values.view(schema.storage_type).to_pylist()]
