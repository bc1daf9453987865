"""Plans to read batches of messages, and encoded batches.

The kernel reads messages: see `read_batch`. The fast writer encodes all values at once; values that it refuses go to
the exact writer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from kvformat.codecs._arrays import Ints
from kvformat.codecs._avro.resolve import Action, compile_plan
from kvformat.codecs._avro.schema import Schema
from kvformat.codecs._avro.write import write_batch
from kvformat.codecs._avro.write_datum import BadDatum, write_datum
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.errors import SchemaError

__all__ = ["Encoded", "encode", "plan"]

_CHUNK_ROWS: Final = 32_768
"""Rows that are written at once. Chunks of this size fit the processor's caches."""


@dataclass(frozen=True)
class Encoded:
    """The result of `encode`.

    messages: binary array with one message per value. Null for a value with an error. Null also for a null value,
        unless the schema is a union with null.
    errors: string array with one error per value, null for a value without an error. None if there are no errors.
    """

    messages: pa.BinaryArray
    errors: pa.StringArray | None


@cached_by_identity
def plan(writer: Schema, reader: Schema, named_as_plain: bool = False) -> Action:
    """Return the plan to read data of the writer's schema with the reader's schema. Plans are cached.

    named_as_plain: whether an enum is also read as a string, and a fixed as bytes. Java's library refuses both.
    Raises `SchemaError` if a table's column can't have the type of a part of the reader's schema.
    """
    return compile_plan(writer, reader, named_as_plain=named_as_plain)


def encode(values: pa.Array, schema: Schema, *, prefix: bytes = b"") -> Encoded:
    """Write each value of an array of `schema.arrow_type` as a message that starts with `prefix`.

    A value that the schema does not allow never raises: see `Encoded.errors`. Raises `SchemaError` if the array has
    another type and can't be cast.
    """
    fitting = _cast(values, schema)
    if fitting.null_count and not schema.is_nullable:
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
    rows = np.flatnonzero(bad)
    exact, errors = [], []
    for value in values.take(pa.array(rows)).view(schema.storage_type).to_pylist():
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


def _replace_rows(values: pa.Array, rows: Ints, others: pa.Array) -> pa.Array:
    """Return the values with those of `rows` replaced by `others`."""
    source = np.arange(len(values))
    source[rows] = len(values) + np.arange(len(rows))
    return pa.concat_arrays([values, others]).take(pa.array(source))


def _cast(values: pa.Array, schema: Schema) -> pa.Array:
    """Cast the values to the schema's Arrow type. The nullability of fields may differ."""
    if values.type == schema.arrow_type:
        return values
    try:
        return values.cast(schema.arrow_type)
    except pa.ArrowException as cause:
        raise SchemaError(f"values of type {values.type} can't be written as {schema}: {cause}") from cause
