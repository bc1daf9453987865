"""Keys and values of records as they are, in Arrow: the columns of `__raw_key__` and `__raw_value__`.

`kafka_columns.py` and `encode_frame.py` do the same with Spark's own functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from kvformat.registry.contract.errors import SchemaError, add_context, listed
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.normalize_input import binary_messages
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.table.decode_records import DecodedRecords
from kvformat.registry.table.metadata import MetadataColumn
from kvformat.registry.table.record_arrays import struct_array

# A surrogate that is encoded as UTF-8, complete or truncated. Java replaces it once, Python each of its bytes.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()


def raw_array(messages: pa.BinaryArray, t: FlinkType) -> pa.Array:
    """Return keys or values as an array of BYTES or STRING; in a text, U+FFFD replaces bytes that are not UTF-8."""
    if t.root != "VARCHAR":
        return messages
    try:
        return messages.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if data is None else _text(data) for data in messages.to_pylist()], pa.string())


def _text(data: bytes) -> str:
    return _SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace")


def with_raw_columns(
    decoded: DecodedRecords, columns: Sequence[MetadataColumn], messages: Mapping[Part, pa.BinaryArray], width: int
) -> DecodedRecords:
    """Return decoded records with the columns of raw keys and values in their places.

    `columns` are all requested metadata columns. They follow the first `width` columns of the rows.
    """
    lists = decoded.rows
    arrays, fields = lists.values.flatten(), list(lists.values.type)
    counts = np.diff(np.asarray(lists.offsets))
    record_of = pa.array(np.repeat(np.arange(len(lists)), counts))
    for place, column in enumerate(columns, start=width):
        if column.raw_part is not None:
            array = raw_array(messages[column.raw_part], column.key_type).take(record_of)
            arrays.insert(place, array)
            fields.insert(place, pa.field(column.name, array.type))
    mask = lists.is_null() if lists.null_count else None
    rows = pa.ListArray.from_arrays(lists.offsets, struct_array(arrays, fields, len(record_of)), mask=mask)
    return replace(decoded, rows=rows)


def raw_messages(rows: pa.StructArray, columns: Sequence[MetadataColumn]) -> dict[Part, pa.BinaryArray]:
    """Return the keys and values that rows contain as they are; other columns and metadata are ignored.

    A column may be text or binary. Raises `SchemaError` for another type and for a missing column.
    """
    names = [field.name for field in rows.type]
    messages: dict[Part, pa.BinaryArray] = {}
    for column in columns:
        if column.raw_part is None:
            continue
        if column.name not in names:
            raise SchemaError(
                f"the rows lack the column '{column.name}', which is written as metadata '{column.key}'; they have "
                f"{listed(names)}",
                field=column.name,
            )
        try:
            messages[column.raw_part] = binary_messages(rows.flatten()[names.index(column.name)])
        except SchemaError as error:
            raise add_context(error, f"column '{column.name}', written as metadata '{column.key}': ") from None
    return messages
