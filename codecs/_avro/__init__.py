"""Avro's binary encoding for batches: parse schemas, decode messages, encode values.

    from kvformat.codecs._avro import encode, parse_schema, plan
    from kvformat.codecs._avro.read import read_batch

    writer = parse_schema('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}')
    reader = parse_schema('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}')
    read_batch(messages, [plan(writer, reader)], reader).values  # a struct array of `reader.arrow_type`
    encode(values, writer).messages                              # a binary array

A message is one datum. With framing, `start` skips the bytes before the datum, and `prefix` writes them.
"""

from __future__ import annotations

from kvformat.codecs._avro.batches import encode
from kvformat.codecs._avro.parse import parse_schema
from kvformat.codecs._avro.read import Decoded
from kvformat.codecs._avro.resolve import Action, plan
from kvformat.codecs._avro.schema import Field, Schema

__all__ = [
    "Action",
    "Decoded",
    "Field",
    "Schema",
    "encode",
    "parse_schema",
    "plan",
]
