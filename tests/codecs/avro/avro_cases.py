"""Helpers of Avro's tests: schemas from short notes, and messages read by both readers."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from kvformat.codecs._avro import Schema, decode, parse_schema
from tests.codecs.avro.avro_mutation import shown

MANY = 40
"""Enough messages for the fast reader."""


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
    """Return the value of a message. It must be the same from both readers: alone and in a batch."""
    w, r = schema_of(writer), None if reader is None else schema_of(reader)
    alone = decode(array(message), w, r, **options)
    many = decode(array(*[message] * MANY), w, r, **options)
    assert alone.errors is None
    assert many.errors is None
    assert shown(many.values, r or w) == shown(alone.values, r or w) * MANY
    return alone.values[0].as_py()


def error(message: bytes | str, writer: Any, reader: Any = None, **options: Any) -> str:
    """Return the error of a message. It must be the same alone and in a batch."""
    w, r = schema_of(writer), None if reader is None else schema_of(reader)
    alone = decode(array(message), w, r, **options)
    many = decode(array(*[message] * MANY), w, r, **options)
    assert alone.values.null_count == 1
    assert alone.errors is not None
    assert many.errors is not None
    assert set(many.errors.to_pylist()) == set(alone.errors.to_pylist())
    text: str = alone.errors[0].as_py()
    return text
