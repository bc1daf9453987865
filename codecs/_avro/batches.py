"""Decode and encode batches of messages.

The kernel reads messages. The fast writer encodes all values at once; values that it refuses go to the exact writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from kvformat.codecs._avro.read import Decoded, read_batch
from kvformat.codecs._avro.resolve import Plan, ResolutionRules, compile_plan
from kvformat.codecs._avro.schema import Schema
from kvformat.codecs._avro.write import write_batch
from kvformat.codecs._avro.write_datum import BadDatum, write_datum
from kvformat.codecs._columnar import Ints, MessageNumbers
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.errors import SchemaError

__all__ = ["Decoded", "Encoded", "decode", "decode_mixed", "encode", "plan"]

_RULES: Final = ResolutionRules()
_CHUNK_ROWS: Final = 32_768
"""Rows that are written at once. Chunks of this size fit the processor's caches."""


@dataclass(frozen=True)
class Encoded:
    """The result of `encode`.

    messages: binary array with one message per value. Null for a value with an error. Null also for a null value,
        unless the schema is null or a union with null.
    errors: string array with one error per value, null for a value without an error. None if there are no errors.
    """

    messages: pa.BinaryArray
    errors: pa.StringArray | None


def plan(writer_schema: Schema, reader_schema: Schema | None = None, rules: ResolutionRules = _RULES) -> Plan:
    """Return the plan to read data of the writer's schema with the reader's schema. Plans are cached.

    `str(plan)` shows what happens to each part of the data. Without a reader's schema the writer's is used.
    Raises `SchemaError` if the reader's schema is recursive.
    """
    return _plan(writer_schema, reader_schema or writer_schema, rules)


@cached_by_identity
def _plan(writer: Schema, reader: Schema, rules: ResolutionRules) -> Plan:
    return compile_plan(writer, reader, rules)


def decode(
    messages: pa.Array,
    writer_schema: Schema,
    reader_schema: Schema | None = None,
    *,
    start: int = 0,
    rules: ResolutionRules = _RULES,
) -> Decoded:
    """Read the datum of each message of a binary array. The datum starts after `start` bytes.

    Bad data never raises: see `Decoded.errors`. Raises `SchemaError` if the reader's schema is recursive.
    """
    compiled = plan(writer_schema, reader_schema, rules)
    return read_batch(messages, [compiled], compiled.reader, None, start)


def decode_mixed(
    messages: pa.BinaryArray,
    writer_schemas: Sequence[Schema],
    writer_index: Ints,
    reader_schema: Schema,
    *,
    start: int = 0,
    rules: ResolutionRules = _RULES,
) -> Decoded:
    """Read the datum of each message, where messages have different writers' schemas.

    writer_index: for each message, the index of its schema in `writer_schemas`. Messages with a negative index and
        null messages are skipped: their value is null, without an error.
    start: bytes before each datum.
    Bad data never raises: see `Decoded.errors`. Raises `SchemaError` if the reader's schema is recursive.
    """
    plans = [plan(writer, reader_schema, rules) for writer in writer_schemas]
    return read_batch(messages, plans, reader_schema, writer_index, start)


def encode(values: pa.Array, schema: Schema, *, prefix: bytes = b"") -> Encoded:
    """Write each value of an array of `schema.arrow_type` as a message that starts with `prefix`.

    A value that the schema does not allow never raises: see `Encoded.errors`. Raises `SchemaError` if the array has
    another type and can't be cast.
    """
    fitting = _cast(values, schema)
    if fitting.null_count and schema.type != "null" and not schema.is_nullable:
        valid = np.asarray(fitting.is_valid())
        place = pa.array(np.cumsum(valid) - 1, mask=~valid)
        written = _encode_values(fitting.drop_null(), schema, prefix)
        return Encoded(written.messages.take(place), None if written.errors is None else written.errors.take(place))
    return _encode_values(fitting, schema, prefix)


def _encode_values(values: pa.Array, schema: Schema, prefix: bytes) -> Encoded:
    """Encode values in chunks that fit the processor's caches."""
    if len(values) > _CHUNK_ROWS:
        parts = [
            _encode_values(values.slice(at, _CHUNK_ROWS), schema, prefix) for at in range(0, len(values), _CHUNK_ROWS)
        ]
        messages = pa.concat_arrays([part.messages for part in parts])
        if all(part.errors is None for part in parts):
            return Encoded(messages, None)
        errors = [pa.nulls(len(part.messages), pa.string()) if part.errors is None else part.errors for part in parts]
        return Encoded(messages, pa.concat_arrays(errors))
    if not len(values):
        return Encoded(pa.array([], pa.binary()), None)
    messages, bad = write_batch(values, schema, prefix)
    if bad is None or not bad.any():
        return Encoded(messages, None)
    rows = MessageNumbers(np.flatnonzero(bad))
    exact, errors = [], []
    for value in view_as(values.take(pa.array(rows)), schema.storage_type).to_pylist():
        message, error = None, None
        try:
            message = prefix + write_datum(schema, value)
        except BadDatum as fault:
            error = str(fault)
        exact.append(message)
        errors.append(error)
    messages = _replace_rows(messages, rows, pa.array(exact, pa.binary()))
    if all(error is None for error in errors):
        return Encoded(messages, None)
    nothing = pa.nulls(len(values), pa.string())
    return Encoded(messages, _replace_rows(nothing, rows, pa.array(errors, pa.string())))


def _replace_rows(values: pa.Array, rows: MessageNumbers, others: pa.Array) -> pa.Array:
    """Return the values with those of `rows` replaced by `others`."""
    source = np.arange(len(values))
    source[rows] = len(values) + np.arange(len(rows))
    return pa.concat_arrays([values, others]).take(pa.array(source))


def view_as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the array as another type with the same buffers. Neither the array nor its children may be slices.

    `values.view(kind)` does this too, but fails for null types inside other types.
    """
    buffers, count = values.buffers(), len(values)
    if pa.types.is_struct(kind):
        inner = [view_as(values.field(i), field.type) for i, field in enumerate(kind)]
        return pa.Array.from_buffers(kind, count, buffers[:1], children=inner)
    if pa.types.is_map(kind):
        entries = [view_as(values.keys, kind.key_type), view_as(values.items, kind.item_type)]
        pairs = pa.StructArray.from_arrays(entries, fields=[pa.field("key", kind.key_type, False), kind.item_field])
        return pa.Array.from_buffers(kind, count, buffers[:2], children=[pairs])
    if pa.types.is_list(kind):
        return pa.Array.from_buffers(kind, count, buffers[:2], children=[view_as(values.values, kind.value_type)])
    return values if values.type == kind else values.view(kind)


def _cast(values: pa.Array, schema: Schema) -> pa.Array:
    """Cast the values to the schema's Arrow type. The nullability of fields may differ."""
    if values.type == schema.arrow_type:
        return values
    try:
        return values.cast(schema.arrow_type)
    except pa.ArrowException as cause:
        raise SchemaError(f"values of type {values.type} can't be written as {schema}: {cause}") from cause
