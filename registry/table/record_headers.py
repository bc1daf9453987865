"""Headers of Kafka records that belong to the key or the value, such as the id of its schema."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.format_hooks import HeaderNames, Part
from kvformat.registry.contract.normalize_input import binary_messages
from kvformat.registry.format import Format

Headers: TypeAlias = pa.BinaryArray | pa.StructArray
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""The type of the column `headers` of Spark's Kafka source, in Arrow."""


def checked_headers(headers: pa.Array | pa.ChunkedArray, count: int) -> pa.ListArray:
    """Return the headers of records with their usual type. Raises `SchemaError` for another type or length."""
    if len(headers) != count:
        raise SchemaError(f"there are headers of {len(headers)} records, but {count} values", field="headers")
    try:
        cast = headers.cast(HEADERS_TYPE)
        return cast.combine_chunks() if isinstance(cast, pa.ChunkedArray) else cast
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as cause:
        raise SchemaError(f"headers must be {HEADERS_TYPE}, not {headers.type}", field="headers") from cause


def last_header(headers: pa.ListArray, name: str) -> pa.BinaryArray:
    """Return the bytes of each record's last header with a name, null if the record does not have it."""
    entries = headers.flatten()
    values = pc.struct_field(entries, "value")
    is_named = pc.fill_null(pc.and_(pc.equal(pc.struct_field(entries, "key"), name), values.is_valid()), False)
    counts = np.asarray(pc.list_value_length(headers).fill_null(0))  # a null list may hide entries
    places = np.repeat(np.arange(len(headers)), counts)[np.asarray(is_named)]
    numbers = np.full(len(headers), -1)
    numbers[places] = np.arange(len(places))  # of equal places the last one counts
    return values.filter(is_named).take(pa.array(numbers, mask=numbers < 0))


def part_headers(headers: pa.ListArray, names: HeaderNames) -> Headers:
    """Return the last header of each record with a name, or a struct of the last ones with each of several names.

    It is null if a record has none.
    """
    if isinstance(names, str):
        return last_header(headers, names)
    return _struct([last_header(headers, name) for name in names], names)


def plain_headers(column: pa.Array, names: HeaderNames) -> Headers:
    """Return headers that come from Spark as those of `part_headers`."""
    if isinstance(names, str):
        return binary_messages(column)
    return _struct([binary_messages(field) for field in column.flatten()], names)


def _struct(values: list[pa.BinaryArray], names: tuple[str, ...]) -> pa.StructArray:
    missing = functools.reduce(pc.and_, (value.is_null() for value in values))
    return pa.StructArray.from_arrays(values, names, mask=missing)


def headers_of(records: pa.RecordBatch, names: Mapping[Part, HeaderNames]) -> dict[Part, Headers]:
    """Return the last headers with the names of each part, for records as Spark's Kafka source gives them.

    Records without the column `headers` have none.
    """
    if not names or "headers" not in records.schema.names:
        return {}
    headers = checked_headers(records.column("headers"), len(records))
    return {part: part_headers(headers, name) for part, name in names.items()}


def with_header(format: Format, messages: pa.BinaryArray, header: Headers | None) -> pa.BinaryArray:
    """Return the messages that the format decodes, for the headers that belong to them."""
    return messages if header is None or header.null_count == len(header) else format.add_header(messages, header)
