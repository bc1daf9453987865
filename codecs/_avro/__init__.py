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

from kvformat.codecs._avro.batches import Encoded, encode, plan
from kvformat.codecs._avro.parse import check_name, parse_schema
from kvformat.codecs._avro.read import Decoded
from kvformat.codecs._avro.resolve import Action
from kvformat.codecs._avro.schema import MISSING, Field, LogicalType, Schema

__all__ = [
    "MISSING",
    "Action",
    "Decoded",
    "Encoded",
    "Field",
    "LogicalType",
    "Schema",
    "check_name",
    "encode",
    "parse_schema",
    "plan",
]
