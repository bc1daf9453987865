"""Encode batches of values.

The fast writer encodes all values at once; values that it refuses go to the exact writer.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.avro.schema import Schema
from kvformat.codecs.avro.write import write_batch
from kvformat.codecs.avro.write_datum import BadDatum, write_datum
from kvformat.registry.contract.batches import EncodedBatch
from kvformat.registry.contract.error_codes import reason_arrays
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.join_batches import join_encoded

_CHUNK_ROWS: Final = 32_768
"""Rows that are written at once. Chunks of this size fit the processor's caches."""


def encode(values: pa.Array, schema: Schema, *, prefix: bytes = b"") -> EncodedBatch:
    """Write each value of an array of `schema.arrow_type` as a message that starts with `prefix`.

    A value that the schema does not allow is an error, and its message is null. So is the message of a null value,
    unless the schema is a union with null. Raises `SchemaError` if the array has another type and can't be cast.
    """
    fitting = _cast(values, schema)
    if fitting.null_count and not schema.is_nullable:
        valid = np.asarray(fitting.is_valid())
        place = pa.array(np.cumsum(valid) - 1, mask=~valid)
        written = _encode_values(fitting.drop_null(), schema, prefix)
        parts = (written.messages, written.errors, written.codes)
        return EncodedBatch(*(None if part is None else part.take(place) for part in parts))
    return _encode_values(fitting, schema, prefix)


def _encode_values(values: pa.Array, schema: Schema, prefix: bytes) -> EncodedBatch:
    """Encode values in chunks that fit the processor's caches."""
    if len(values) > _CHUNK_ROWS:
        starts = range(0, len(values), _CHUNK_ROWS)
        parts = [_encode_values(values.slice(at, _CHUNK_ROWS), schema, prefix) for at in starts]
        return join_encoded(parts)
    if not len(values):
        return EncodedBatch(pa.array([], pa.binary()))
    messages, bad = write_batch(values, schema, prefix)
    if bad is None or not bad.any():
        return EncodedBatch(messages)
    mask, exact = pa.array(bad), []
    reasons = np.full(len(values), None, object)
    rows = zip(np.flatnonzero(bad).tolist(), values.filter(mask).view(schema.storage_type).to_pylist(), strict=True)
    for row, value in rows:
        message = None
        try:
            message = prefix + write_datum(schema, value)
        except BadDatum as fault:
            reasons[row] = fault.error
        exact.append(message)
    messages = pc.replace_with_mask(messages, mask, pa.array(exact, pa.binary()))
    return EncodedBatch(messages, *reason_arrays(reasons))


def _cast(values: pa.Array, schema: Schema) -> pa.Array:
    """Cast the values to the schema's Arrow type. The nullability of fields may differ."""
    if values.type == schema.arrow_type:
        return values
    try:
        return values.cast(schema.arrow_type)
    except pa.ArrowException as cause:
        raise SchemaError(f"values of type {values.type} can't be written as {schema}: {cause}") from cause
