"""Rows of a table to Kafka records, batch by batch, in Arrow.

    columns of the table -> key struct, value struct -> encode_batch of each format -> keys, values

Rules: Flink's `DynamicKafkaRecordSerializationSchema`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.batches import EncodedBatch
from kvformat.registry.contract.changelog import RowKind
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import EncodeError
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.schemas import result_arrow_type, row_type
from kvformat.registry.spark.decoded_columns import ROW_KIND
from kvformat.registry.table.record_arrays import any_valid, struct_array, with_prefix
from kvformat.registry.table.record_layout import RecordLayout

_NO_MESSAGES: Mapping[Part, pa.BinaryArray] = {}


@dataclass(frozen=True)
class EncodedRecords:
    """Encoded rows: `keys` (None without a key format) and `values`, one per row.

    A null value is a tombstone. `kept` is False for the `-U` of an update that writes no record; None keeps all rows.
    `errors` and `codes` are null for good rows, and None if there are no errors.
    """

    keys: pa.BinaryArray | None
    values: pa.BinaryArray
    kept: pa.BooleanArray | None = None
    errors: pa.StringArray | None = None
    codes: pa.StringArray | None = None


def encode_records(
    layout: RecordLayout,
    rows: pa.StructArray,
    kinds: pa.StringArray | None,
    *,
    raw: Mapping[Part, pa.BinaryArray] = _NO_MESSAGES,
) -> EncodedRecords:
    """Encode rows that have exactly the physical columns; never raises for bad data.

    `kinds` are the row kinds ('+I', '-U', '+U', '-D'), None if all rows are inserts. `raw` has keys or values that are
    written as they are.
    """
    columns = rows.flatten()
    keys = raw.get("key")
    faults: list[tuple[pa.StringArray | None, pa.StringArray | None]] = []
    if layout.key_format is not None:
        assert layout.key_schema is not None
        struct = _part_struct(columns, layout.key_schema, layout.key_indexes, len(rows))
        batch = layout.key_format.encode_batch(struct, layout.key_schema)
        keys = batch.messages
        faults.append((with_prefix("key: ", batch.errors), batch.codes))
    if "value" in raw:
        batch = EncodedBatch(raw["value"])
    elif layout.upsert:
        faults.append(_null_key_errors(layout, columns))
        batch = _encode_upsert_values(layout, columns, len(rows), kinds)
    else:
        batch = _encode_values(layout, columns, len(rows), kinds if layout.has_kinds else None)
    faults.append((with_prefix("value: ", batch.errors), batch.codes))
    kept = _without_update_before(keys, kinds) if layout.upsert and kinds is not None else None
    return EncodedRecords(keys, batch.messages, kept, *(_first_errors(texts) for texts in zip(*faults, strict=True)))


def _part_struct(columns: Sequence[pa.Array], schema: pa.Schema, indexes: Sequence[int], length: int) -> pa.StructArray:
    """Return the columns of the key or the value as a struct array."""
    return struct_array([columns[i] for i in indexes], list(result_arrow_type(row_type(schema))), length)


def _encode_values(
    layout: RecordLayout, columns: Sequence[pa.Array], length: int, kinds: pa.StringArray | None
) -> EncodedBatch:
    struct = _part_struct(columns, layout.value_schema, layout.value_indexes, length)
    return layout.value_format.encode_batch(struct, layout.value_schema, row_kinds=kinds)


def _encode_upsert_values(
    layout: RecordLayout, columns: Sequence[pa.Array], length: int, kinds: pa.StringArray | None
) -> EncodedBatch:
    """Encode the values of an upsert table. Those of deleted rows are null, and their columns are not read."""
    deleted = None if kinds is None else pc.is_in(kinds, pa.array(["-D", "-U"]))
    if deleted is None or not pc.any(deleted, min_count=0).as_py():
        return _encode_values(layout, columns, length, None)
    live = pc.invert(deleted)
    batch = _encode_values(layout, [column.filter(live) for column in columns], pc.sum(live, min_count=0).as_py(), None)
    indexes = pa.array(np.cumsum(np.asarray(live)) - 1, pa.int64(), mask=np.asarray(deleted))
    errors = (None if texts is None else texts.take(indexes) for texts in (batch.errors, batch.codes))
    return EncodedBatch(batch.messages.take(indexes), *errors)


def _null_key_errors(
    layout: RecordLayout, columns: Sequence[pa.Array]
) -> tuple[pa.StringArray | None, pa.StringArray | None]:
    """Return the errors and codes of rows with a NULL in their PRIMARY KEY; None if there are none."""
    texts = None
    for i in layout.key_indexes:
        if columns[i].null_count:
            text = f"column '{layout.physical.fields[i].name}' of the PRIMARY KEY is NULL"
            reasons = pc.if_else(columns[i].is_null(), text, pa.scalar(None, pa.string()))
            texts = reasons if texts is None else pc.coalesce(texts, reasons)
    if texts is None:
        return None, None
    return texts, pc.if_else(texts.is_valid(), ErrorCode.NULL_KEY.value, pa.scalar(None, pa.string()))


def _without_update_before(keys: pa.BinaryArray | None, kinds: pa.StringArray) -> pa.BooleanArray | None:
    """Return False for each `-U` that a following `+U` of the same key replaces; None if there is none."""
    assert keys is not None  # upsert tables have a key
    if len(kinds) < 2:
        return None
    replaced = pc.and_(pc.equal(kinds[:-1], "-U"), pc.equal(kinds[1:], "+U"))
    replaced = pc.fill_null(pc.and_(replaced, pc.equal(keys[:-1], keys[1:])), False)
    if not pc.any(replaced, min_count=0).as_py():
        return None
    return pa.concat_arrays([pc.invert(replaced), pa.array([True])])


def _first_errors(errors: Sequence[pa.StringArray | None]) -> pa.StringArray | None:
    """Return the first error of each row from several arrays; None if there are no errors."""
    present = [texts for texts in errors if any_valid(texts)]
    return pc.coalesce(*present) if present else None


def checked_kinds(column: pa.Array) -> pa.StringArray:
    """Return the row kinds of a batch as strings. Raises `EncodeError` for a text that is not a kind, and for null."""
    kinds = column.cast(pa.string())
    known = pc.is_in(kinds, pa.array([kind.value for kind in RowKind]))
    if not pc.all(known, min_count=0).as_py():
        wrong = kinds[pc.index(known, False).as_py()].as_py()
        raise EncodeError(
            f"column '{ROW_KIND}' must be '+I', '-U', '+U' or '-D', not {wrong!r}", code=ErrorCode.UNKNOWN_OPERATION
        )
    return kinds


def hold_back(
    batches: Iterator[pa.RecordBatch], last_is_open: Callable[[pa.RecordBatch], bool]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches that never end in an open row: it becomes the first row of the next batch.

    `last_is_open` returns whether the output of a batch's last row depends on the next row.
    """
    held: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        whole = batch if held is None else _concatenated(held, batch)
        held = whole.slice(whole.num_rows - 1) if last_is_open(whole) else None
        whole = whole if held is None else whole.slice(0, whole.num_rows - 1)
        if whole.num_rows:
            yield whole
    if held is not None:
        yield held


def _concatenated(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pa.concat_arrays([a, b]) for a, b in zip(first.columns, second.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=second.schema)
