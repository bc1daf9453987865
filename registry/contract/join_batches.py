"""Results of parts of a batch as one, and results in which some messages or rows have an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.changelog import RowKind
from kvformat.registry.contract.error_codes import rejoined
from kvformat.registry.contract.errors import BatchSizeError

if TYPE_CHECKING:
    from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch


def joined_rows(batches: Sequence[DecodedBatch]) -> DecodedBatch:
    """The results of one or more runs of messages, in their order, as one."""
    first = batches[0]
    if len(batches) == 1:
        return first
    rows = _concatenated([batch.rows for batch in batches])
    kinds = None
    if any(batch.row_kinds is not None for batch in batches):
        kinds = _concatenated([_kinds_in_lists(batch) for batch in batches])
    errors = _errors([(_marked(batch), len(batch.rows)) for batch in batches])
    return replace(first, rows=rows, row_kinds=kinds, errors=errors, codes=None)


def _kinds_in_lists(batch: DecodedBatch) -> pa.StringArray:
    """The kinds of the rows from the first list to the last one, which are those that joining keeps."""
    first, last = batch.rows.offsets[0].as_py(), batch.rows.offsets[-1].as_py()
    if batch.row_kinds is None:
        return pa.repeat(pa.scalar(str(RowKind.INSERT)), last - first)
    return batch.row_kinds.slice(first, last - first)


def joined_messages(batches: Sequence[EncodedBatch]) -> EncodedBatch:
    """The results of one or more runs of rows, in their order, as one."""
    if len(batches) == 1:
        return batches[0]
    messages = _concatenated([batch.messages for batch in batches])
    errors = _errors([(_marked(batch), len(batch.messages)) for batch in batches])
    return replace(batches[0], messages=messages, errors=errors, codes=None)


def _marked(batch: DecodedBatch | EncodedBatch) -> pa.StringArray | None:
    """The texts of a kernel's errors, which begin with their codes, also where it gave them apart."""
    codes = getattr(batch, "codes", None)
    return batch.errors if codes is None else rejoined(batch.errors, codes)


def _errors(parts: Sequence[tuple[pa.StringArray | None, int]]) -> pa.StringArray | None:
    """The errors of parts of so many places."""
    if all(errors is None for errors, _ in parts):
        return None
    return _concatenated([pa.nulls(count, pa.string()) if errors is None else errors for errors, count in parts])


def _concatenated(arrays: Sequence[pa.Array]) -> pa.Array:
    """The arrays as one. Raises `BatchSizeError` if Arrow has no room for that."""
    if len(arrays) == 1:
        return arrays[0]
    try:
        return pa.concat_arrays(list(arrays))
    except pa.ArrowException as cause:
        raise BatchSizeError(
            f"what the messages or rows of one batch become does not fit one Arrow array ({cause}). Use smaller "
            "batches: in Spark, lower 'spark.sql.execution.arrow.maxBytesPerBatch' or '...maxRecordsPerBatch'"
        ) from cause


def failed_rows(count: int, reason: str, stored: pa.DataType) -> tuple[pa.ListArray, None, pa.StringArray]:
    """Rows, kinds and errors of messages all of which have this error; the rows would be of the type `stored`."""
    return pa.nulls(count, pa.list_(stored)), None, pa.repeat(pa.scalar(reason), count)


def failed_messages(count: int, reason: str) -> tuple[pa.BinaryArray, pa.StringArray]:
    """Messages and errors of rows all of which have this error."""
    return pa.nulls(count, pa.binary()), pa.repeat(pa.scalar(reason), count)


def with_reasons(batch: DecodedBatch, reasons: Mapping[int, str]) -> DecodedBatch:
    """The result without the rows of messages that hold one of these rows, by its index, which is their error."""
    rows = batch.rows
    offsets = rows.offsets.to_numpy()
    owners = np.searchsorted(offsets, np.array(list(reasons)), side="right") - 1
    marked = _marked(batch)
    texts: list[str | None] = [None] * len(rows) if marked is None else marked.to_pylist()
    for owner, reason in zip(owners.tolist(), reasons.values(), strict=True):
        if 0 <= owner < len(rows) and rows[owner].is_valid:
            texts[owner] = texts[owner] or reason
    errors = pa.array(texts, pa.string())
    good = pc.and_(errors.is_null(), rows.is_valid()).to_numpy(zero_copy_only=False)
    kinds = batch.row_kinds
    if kinds is not None:
        kept = np.repeat(good, np.diff(offsets))
        kinds = _kinds_in_lists(batch).filter(pa.array(kept))
    rows = rows.take(pa.array(np.arange(len(rows)), mask=~good))
    return replace(batch, rows=rows, row_kinds=kinds, errors=errors, codes=None)


def scattered(batch: EncodedBatch, good: pa.BooleanArray, reasons: Mapping[int, str]) -> EncodedBatch:
    """The result of the good rows among all, of which the others, by index, have these errors."""
    is_good = good.to_numpy(zero_copy_only=False)
    places = pa.array(np.cumsum(is_good) - 1, mask=~is_good)
    marked = _marked(batch)
    found = pa.nulls(len(good), pa.string()) if marked is None else marked.take(places)
    why = pa.array([reasons.get(row) for row in range(len(good))], pa.string())
    return replace(batch, messages=batch.messages.take(places), errors=pc.coalesce(why, found), codes=None)
