"""Join the results of parts of a batch, and replace results of single messages or rows by errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.changelog import RowKind
from kvformat.registry.contract.error_codes import escape_surrogates, prefix_codes
from kvformat.registry.contract.errors import BatchSizeError

if TYPE_CHECKING:
    from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch


def join_decoded(batches: Sequence[DecodedBatch]) -> DecodedBatch:
    """Join the results of consecutive parts of a batch of messages. Raises `BatchSizeError`."""
    first = batches[0]
    if len(batches) == 1:
        return first
    rows = _concatenate([batch.rows for batch in batches])
    kinds = None
    if any(batch.row_kinds is not None for batch in batches):
        kinds = _concatenate([_kinds_in_lists(batch) for batch in batches])
    errors = _join_errors([(_errors_with_codes(batch), len(batch.rows)) for batch in batches])
    return replace(first, rows=rows, row_kinds=kinds, errors=errors, codes=None)


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
    errors = _join_errors([(_errors_with_codes(batch), len(batch.messages)) for batch in batches])
    return replace(batches[0], messages=messages, errors=errors, codes=None)


def _errors_with_codes(batch: DecodedBatch | EncodedBatch) -> pa.StringArray | None:
    """Return the texts of the errors, each with its code at the beginning."""
    codes = getattr(batch, "codes", None)
    return batch.errors if codes is None else prefix_codes(batch.errors, codes)


def _join_errors(parts: Sequence[tuple[pa.StringArray | None, int]]) -> pa.StringArray | None:
    """Join the errors of parts; each part is its errors, or None, and its number of messages or rows."""
    if all(errors is None for errors, _ in parts):
        return None
    return _concatenate([pa.nulls(count, pa.string()) if errors is None else errors for errors, count in parts])


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


def failed_rows(count: int, reason: str, stored: pa.DataType) -> tuple[pa.ListArray, None, pa.StringArray]:
    """Return rows, row kinds and errors of `count` messages with the same error; `stored` is the type of a row."""
    return pa.nulls(count, pa.list_(stored)), None, pa.repeat(pa.scalar(reason), count)


def failed_messages(count: int, reason: str) -> tuple[pa.BinaryArray, pa.StringArray]:
    """Return messages and errors of `count` rows with the same error."""
    return pa.nulls(count, pa.binary()), pa.repeat(pa.scalar(reason), count)


def fail_rows(batch: DecodedBatch, reasons: Mapping[int, str]) -> DecodedBatch:
    """Replace the rows of some messages by an error.

    `reasons` maps the index of a row in `batch.rows.values` to the error of the message that contains the row.
    """
    rows = batch.rows
    offsets = rows.offsets.to_numpy()
    owners = np.searchsorted(offsets, np.array(list(reasons)), side="right") - 1
    marked = _errors_with_codes(batch)
    texts: list[str | None] = [None] * len(rows) if marked is None else marked.to_pylist()
    for owner, reason in zip(owners.tolist(), reasons.values(), strict=True):
        if 0 <= owner < len(rows) and rows[owner].is_valid:
            texts[owner] = texts[owner] or escape_surrogates(reason)
    errors = pa.array(texts, pa.string())
    good = pc.and_(errors.is_null(), rows.is_valid()).to_numpy(zero_copy_only=False)
    kinds = batch.row_kinds
    if kinds is not None:
        kept = np.repeat(good, np.diff(offsets))
        kinds = _kinds_in_lists(batch).filter(pa.array(kept))
    rows = rows.take(pa.array(np.arange(len(rows)), mask=~good))
    return replace(batch, rows=rows, row_kinds=kinds, errors=errors, codes=None)


def insert_failed_rows(batch: EncodedBatch, good: pa.BooleanArray, reasons: Mapping[int, str]) -> EncodedBatch:
    """Insert rows that were not encoded, with their errors.

    `batch` has the results of the rows that are true in `good`. `reasons` maps the index of each other row to its
    error.
    """
    is_good = good.to_numpy(zero_copy_only=False)
    places = pa.array(np.cumsum(is_good) - 1, mask=~is_good)
    marked = _errors_with_codes(batch)
    found = pa.nulls(len(good), pa.string()) if marked is None else marked.take(places)
    why = pa.array([reasons.get(row) for row in range(len(good))], pa.string())
    return replace(batch, messages=batch.messages.take(places), errors=pc.coalesce(why, found), codes=None)
