"""Avro's binary encoding for batches: parse schemas, decode messages, encode values.

    from kvformat.codecs._avro import decode, encode, parse_schema, plan

    writer = parse_schema('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}')
    reader = parse_schema('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}')
    decode(messages, writer, reader).values  # a struct array of `reader.arrow_type`
    encode(values, writer).messages          # a binary array
    print(plan(writer, reader))              # what happens to each field

A message is one datum. With framing, `start` skips the bytes before the datum, and `prefix` writes them.
"""

from __future__ import annotations

from kvformat.codecs._avro.batches import Decoded, Encoded, decode, decode_mixed, encode, plan
from kvformat.codecs._avro.parse import check_name, parse_schema
from kvformat.codecs._avro.resolve import Plan, ResolutionRules
from kvformat.codecs._avro.schema import MISSING, Field, LogicalType, Schema

__all__ = [
    "MISSING",
    "Decoded",
    "Encoded",
    "Field",
    "LogicalType",
    "Plan",
    "ResolutionRules",
    "Schema",
    "check_name",
    "decode",
    "decode_mixed",
    "encode",
    "parse_schema",
    "plan",
]
