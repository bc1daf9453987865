"""Values as the schema of Kafka Connect describes them, for `debezium-json.payload` = `connect`.

| type | in the payload |
| --- | --- |
| DATE | days since 1970-01-01 |
| TIME | microseconds |
| TIMESTAMP(p) | milliseconds since 1970-01-01 for p up to 3, else microseconds |
| TIMESTAMP_LTZ | ISO text in UTC, `2024-02-29T12:00:00Z` |
| DECIMAL | base64 of the unscaled number, a two's complement of as few bytes as possible |
| all others | as in JSON |

Flink CDC writes all values as in JSON, whatever its schema says. Rules: Debezium's "Temporal types" and Kafka Connect's
`JsonConverter`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.json.write import list_counts, list_offsets, map_entries
from kvformat.ingestion.schemas.coerce import texts_of
from kvformat.ingestion.schemas.types import STRING
from kvformat.registry.contract.types import BYTES, FlinkField, FlinkType

_WRITTEN = {
    "DATE": FlinkType("INT"),
    "TIME": FlinkType("BIGINT"),
    "TIMESTAMP": FlinkType("BIGINT"),
    "TIMESTAMP_LTZ": STRING,
    "DECIMAL": BYTES,
}
_MILLISECONDS = 3  # digits of a second that a Timestamp holds
_DECIMAL_BYTES = 16


def connect_type(t: FlinkType) -> FlinkType:
    """Return the type that the JSON writer gets, at every level."""
    if t.root in _WRITTEN:
        return replace(_WRITTEN[t.root], nullable=t.nullable)
    return replace(t, fields=tuple(FlinkField(field.name, connect_type(field.type)) for field in t.fields))


def connect_values(values: pa.Array, t: FlinkType) -> pa.Array:
    """Convert values of a type to values of `connect_type`."""
    if t == connect_type(t):
        return values
    if t.root == "DATE":
        return values.cast(pa.date32()).cast(pa.int32())
    if t.root == "TIME":
        return values.cast(pa.time64("us"), safe=False).cast(pa.int64())
    if t.root == "TIMESTAMP":
        unit = "ms" if (t.precision or 0) <= _MILLISECONDS else "us"
        return values.cast(pa.timestamp(unit), safe=False).cast(pa.int64())
    if t.root == "TIMESTAMP_LTZ":
        return texts_of(values, t)
    if t.root == "DECIMAL":
        return _unscaled(values.cast(pa.decimal128(t.precision, t.scale)))
    mask = values.is_null()
    if t.root == "ROW":
        children = zip(t.fields, values.flatten(), strict=True)
        arrays = [connect_values(child, field.type) for field, child in children]
        return pa.StructArray.from_arrays(arrays, [field.name for field in t.fields], mask=mask)
    if t.root == "MAP":
        counts, keys, items = map_entries(values)
        pairs = pa.StructArray.from_arrays([keys, connect_values(items, t.fields[1].type)], ["key", "value"])
        return pa.ListArray.from_arrays(_offsets(counts), pairs, mask=mask)  # the JSON writer takes pairs as a map
    counts = list_counts(pc.list_value_length(values))
    return pa.ListArray.from_arrays(_offsets(counts), connect_values(values.flatten(), t.fields[0].type), mask=mask)


def _offsets(counts: npt.NDArray[np.int64]) -> pa.Int32Array:
    return pa.array(list_offsets(counts), pa.int32())


def _unscaled(values: pa.Decimal128Array) -> pa.LargeBinaryArray:
    """Return the unscaled numbers as two's complements, most significant byte first."""
    data = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    start = values.offset * _DECIMAL_BYTES
    numbers = data[start : start + len(values) * _DECIMAL_BYTES].reshape(len(values), _DECIMAL_BYTES)[:, ::-1]
    sign = (numbers[:, :1] >> 7) * np.uint8(0xFF)
    # a byte is needed unless it and the next bit only repeat the sign
    needed = (numbers[:, :-1] != sign) | ((numbers[:, 1:] ^ sign) >> 7 == 1)
    kept = np.concatenate([np.maximum.accumulate(needed, axis=1), np.ones((len(values), 1), np.bool_)], axis=1)
    offsets = list_offsets(kept.sum(axis=1))
    unscaled = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(numbers[kept].tobytes())]
    )
    return pc.if_else(values.is_valid(), unscaled, pa.scalar(None, pa.large_binary()))
