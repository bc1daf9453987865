"""Join the results of parts of a batch, and replace results of single messages or rows by errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.changelog import RowKind
from kvformat.registry.contract.error_codes import Reason, escape_surrogates, reason_arrays, reasons_of, split_codes
from kvformat.registry.contract.errors import BatchSizeError

_Batch = TypeVar("_Batch", DecodedBatch, EncodedBatch)


def join_decoded(batches: Sequence[DecodedBatch]) -> DecodedBatch:
    """Join the results of consecutive parts of a batch of messages. Raises `BatchSizeError`."""
    first = batches[0]
    if len(batches) == 1:
        return first
    rows = _concatenate([batch.rows for batch in batches])
    kinds = None
    if any(batch.row_kinds is not None for batch in batches):
        kinds = _concatenate([_kinds_in_lists(batch) for batch in batches])
    errors, codes = _join_errors([(batch, len(batch.rows)) for batch in batches])
    return replace(first, rows=rows, row_kinds=kinds, errors=errors, codes=codes)


def _kinds_in_lists(batch: DecodedBatch) -> pa.StringArray:
    """Return the row kinds of the rows that belong to a list; `pa.concat_arrays` drops other rows."""
    first, last = batch.rows.offsets[0].as_py(), batch.rows.offsets[-1].as_py()
    if batch.row_kinds is None:
        return pa.repeat(pa.scalar(str(RowKind.INSERT)), last - first)
    return batch.row_kinds.slice(first, last - first)


def join_encoded(batches: Sequence[EncodedBatch]) -> EncodedBatch:
    """Join the results of consecutive parts of a batch of rows. Raises `BatchSizeError`."""
    if len(batches) == 1:
        return batches[0]
    messages = _concatenate([batch.messages for batch in batches])
    errors, codes = _join_errors([(batch, len(batch.messages)) for batch in batches])
    return replace(batches[0], messages=messages, errors=errors, codes=codes)


def with_codes(batch: _Batch) -> _Batch:
    """Return a batch with separate error texts and codes, both None if there are no errors."""
    if batch.errors is None or (batch.codes is not None and batch.errors.null_count < len(batch.errors)):
        return batch
    errors, codes = split_codes(batch.errors)
    return replace(batch, errors=errors, codes=codes)


def _join_errors(parts: Sequence[tuple[_Batch, int]]) -> tuple[pa.StringArray | None, pa.StringArray | None]:
    """Join the errors and codes of parts; each part is a batch and its number of messages or rows."""
    split = [(with_codes(batch), count) for batch, count in parts]
    if all(batch.errors is None for batch, _ in split):
        return None, None
    none = [pa.nulls(count if batch.errors is None else 0, pa.string()) for batch, count in split]
    errors = [nulls if batch.errors is None else batch.errors for (batch, _), nulls in zip(split, none, strict=True)]
    codes = [nulls if batch.codes is None else batch.codes for (batch, _), nulls in zip(split, none, strict=True)]
    return _concatenate(errors), _concatenate(codes)


def _concatenate(arrays: Sequence[pa.Array]) -> pa.Array:
    """Concatenate arrays. Raises `BatchSizeError` if the result does not fit one Arrow array."""
    if len(arrays) == 1:
        return arrays[0]
    try:
        return pa.concat_arrays(list(arrays))
    except pa.ArrowException as cause:
        raise BatchSizeError(
            f"the results of one batch do not fit one Arrow array ({cause}). Use smaller "
            "batches: in Spark, lower 'spark.sql.execution.arrow.maxBytesPerBatch' or '...maxRecordsPerBatch'"
        ) from cause


def failed_rows(count: int, reason: Reason, stored: pa.DataType) -> DecodedBatch:
    """Return the result of `count` messages with the same error; `stored` is the type of a row."""
    return DecodedBatch(pa.nulls(count, pa.list_(stored)), None, *_repeated(reason, count))


def failed_messages(count: int, reason: Reason) -> EncodedBatch:
    """Return the result of `count` rows with the same error."""
    return EncodedBatch(pa.nulls(count, pa.binary()), *_repeated(reason, count))


def _repeated(reason: Reason, count: int) -> tuple[pa.StringArray, pa.StringArray]:
    return pa.repeat(pa.scalar(escape_surrogates(reason.text)), count), pa.repeat(pa.scalar(reason.code.value), count)


def fail_rows(batch: DecodedBatch, reasons: Mapping[int, Reason]) -> DecodedBatch:
    """Replace the rows of some messages by an error.

    `reasons` maps the index of a row in `batch.rows.values` to the error of the message that contains the row.
    """
    rows = batch.rows
    offsets = rows.offsets.to_numpy()
    owners = np.searchsorted(offsets, np.array(list(reasons)), side="right") - 1
    all_reasons = reasons_of(batch.errors, batch.codes, len(rows))
    for owner, reason in zip(owners.tolist(), reasons.values(), strict=True):
        if 0 <= owner < len(rows) and rows[owner].is_valid:
            all_reasons[owner] = all_reasons[owner] or reason
    good = np.array([reason_or_none is None for reason_or_none in all_reasons], np.bool_) & np.asarray(rows.is_valid())
    kinds = batch.row_kinds
    if kinds is not None:
        kept = np.repeat(good, np.diff(offsets))
        kinds = _kinds_in_lists(batch).filter(pa.array(kept))
    rows = rows.take(pa.array(np.arange(len(rows)), mask=~good))
    errors, codes = reason_arrays(all_reasons)
    return replace(batch, rows=rows, row_kinds=kinds, errors=errors, codes=codes)


def insert_failed_rows(batch: EncodedBatch, good: pa.BooleanArray, reasons: Mapping[int, Reason]) -> EncodedBatch:
    """Insert rows that were not encoded, with their errors.

    `batch` has the results of the rows that are true in `good`. `reasons` maps the index of each other row to its
    error.
    """
    is_good = good.to_numpy(zero_copy_only=False)
    places = pa.array(np.cumsum(is_good) - 1, mask=~is_good)
    encoded = iter(reasons_of(batch.errors, batch.codes, len(batch.messages)))
    all_reasons = [next(encoded) if is_one else reasons.get(row) for row, is_one in enumerate(is_good.tolist())]
    errors, codes = reason_arrays(all_reasons)
    return replace(batch, messages=batch.messages.take(places), errors=errors, codes=codes)
