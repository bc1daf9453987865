"""Records of a partition as Arrow batches: the columns of Spark's Kafka source, and the leader epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from kvformat.registry.contract.errors import ConfigurationError, listed
from kvformat.registry.java.charsets import find_charset
from kvformat.registry.table.record_headers import HEADERS_TYPE

KAFKA_FIELDS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("leaderEpoch", pa.int32()),
    ]
)
"""The columns of records. `headers` is null for a record without headers, `leaderEpoch` if the broker does not tell it.

`timestampType` is 0 for the time of creation, 1 for that of the broker, -1 without a timestamp, which is then -1 ms.
"""


def checked_fields(fields: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns. Raises `ConfigurationError` for an unknown one."""
    unknown = [name for name in fields if name not in KAFKA_FIELDS.names]
    if unknown:
        raise ConfigurationError(f"a Kafka record has no column '{unknown[0]}', only {listed(KAFKA_FIELDS.names)}")
    return tuple(fields)


def with_header_names(headers: pa.ListArray) -> pa.ListArray:
    """Return headers whose keys are bytes as those of `KAFKA_FIELDS`; malformed UTF-8 is replaced, as in Java."""
    entries = headers.values
    names = find_charset("UTF-8").decode(entries.field("key"))
    kind = KAFKA_FIELDS.field("headers").type
    structs = pa.StructArray.from_arrays([names, entries.field("value")], fields=list(kind.value_type))
    return pa.Array.from_buffers(kind, len(headers), headers.buffers()[:2], headers.null_count, children=[structs])


def record_batch(
    arrays: Mapping[str, pa.Array], fields: Sequence[str], topic: str, partition: int, count: int
) -> pa.RecordBatch:
    """Return a batch of `count` records of a partition with these columns; `arrays` has those that differ by record."""
    same = {"topic": topic, "partition": partition}
    columns = [
        arrays[name] if name in arrays else pa.repeat(pa.scalar(same[name], KAFKA_FIELDS.field(name).type), count)
        for name in fields
    ]
    schema = pa.schema([KAFKA_FIELDS.field(name) for name in fields])
    if not fields:  # Arrow counts the rows of a batch by its columns
        return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
