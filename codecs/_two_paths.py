"""A batch read on two paths, and rows of Python values as Arrow.

The fast path goes over the whole batch and refuses what it is not sure of; the exact one gets those messages, one by
one, and gives rows as tuples of Python values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Mask, merge_rows
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable

Row = tuple[Any, ...]

_COUNT = FlinkType("INT")


class FastPath(Protocol):
    """Reads a batch as far as it is ordinary."""

    def read(self, messages: pa.BinaryArray) -> tuple[pa.StructArray, Mask]:
        """A struct per message, and which messages are refused: their structs mean nothing."""


class ExactPath(Protocol):
    """Reads any message."""

    def read(self, message: bytes | None) -> tuple[Sequence[Row] | None, str | None]:
        """The rows, empty for a skipped message; None for a null message, or with the text of an error."""


class TwoPathReader:
    """Reads messages as rows of one type, on the fast path where that answers."""

    def __init__(self, row: FlinkType, fast: FastPath, exact: ExactPath) -> None:
        self._row, self._fast, self._exact = row, fast, exact

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """One list of rows per message: null for a null message or an error, empty for a skipped one."""
        rows, refused = self._fast.read(messages)
        where = np.flatnonzero(refused)
        if not len(where):
            return DecodedBatch(merge_rows(rows, refused))
        answers = [self._exact.read(message) for message in messages.take(pa.array(where)).to_pylist()]
        found = to_arrow([row for rows_of_one, _ in answers for row in rows_of_one or ()], self._row)
        offsets = np.zeros(len(where) + 1, np.int32)
        np.cumsum([len(rows_of_one or ()) for rows_of_one, _ in answers], out=offsets[1:])
        missing = pa.array([rows_of_one is None for rows_of_one, _ in answers], pa.bool_())
        merged = merge_rows(rows, refused, pa.ListArray.from_arrays(pa.array(offsets), found, mask=missing))
        if all(error is None for _, error in answers):
            return DecodedBatch(merged)
        errors = np.full(len(messages), None, object)
        errors[where] = [error for _, error in answers]
        return DecodedBatch(merged, errors=pa.array(errors, pa.string()))


def map_value_type(t: FlinkType) -> FlinkType:
    """The values of a MAP, the counts of a MULTISET."""
    return t.fields[1].type if t.root == "MAP" else _COUNT


def to_arrow(rows: Sequence[Row | None], row: FlinkType) -> pa.StructArray:
    """Rows as a struct array, nullable at every level, None as a null struct."""
    return _structs(rows, nullable(row))


def _array(values: Sequence[Any], t: FlinkType) -> pa.Array:
    if t.root == "ROW":
        return _structs(values, t)
    if t.root == "ARRAY":
        return _lists(values, t, lambda flat: _array(flat, t.fields[0].type))
    if t.root in ("MAP", "MULTISET"):
        return _lists(values, t, lambda flat: _entries(flat, t))
    return pa.array(values, arrow_type(t))


def _structs(rows: Sequence[Row | None], t: FlinkType) -> pa.StructArray:
    stored = arrow_type(t)
    nulls = [row is None for row in rows]
    if not t.fields:
        return pa.array([None if null else {} for null in nulls], stored)
    empty: Row = (None,) * len(t.fields)
    columns = zip(*(empty if row is None else row for row in rows), strict=True) if rows else [()] * len(t.fields)
    children = [_array(column, field.type) for column, field in zip(columns, t.fields, strict=True)]
    mask = pa.array(nulls, pa.bool_()) if any(nulls) else None
    return pa.StructArray.from_arrays(children, fields=list(stored), mask=mask)


def _entries(entries: Sequence[tuple[Any, Any]], t: FlinkType) -> pa.StructArray:
    stored = arrow_type(t)
    keys = pa.array([key for key, _ in entries], stored.key_type)
    values = _array([value for _, value in entries], map_value_type(t))
    return pa.StructArray.from_arrays([keys, values], fields=[stored.key_field, stored.item_field])


def _lists(values: Sequence[Sequence[Any] | None], t: FlinkType, child: Callable[[list[Any]], pa.Array]) -> pa.Array:
    """Lists of any child: an ARRAY, or a MAP, whose child is its entries."""
    flat = [element for value in values if value is not None for element in value]
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter((len(value or ()) for value in values), np.int64, len(values)), out=offsets[1:])
    if len(flat) > np.iinfo(np.int32).max:
        raise pa.ArrowCapacityError(f"{len(flat)} elements in one column of a batch; use smaller batches")
    nulls = [value is None for value in values]
    valid = pa.array([not null for null in nulls], pa.bool_()).buffers()[1] if any(nulls) else None
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(arrow_type(t), len(values), buffers, children=[child(flat)])
