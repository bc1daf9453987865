"""Reads messages as rows with a batch of the kernel; joins batches of rows, and takes parts of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from kvformat.codecs._arrays import Ints
from kvformat.codecs._kernel import count_messages
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.contract.join_batches import join_decoded


class RowBatch(Protocol):
    """A batch of the kernel that reads messages after their first `skip` bytes; see `Messages` for the others."""

    skip: int
    head: int
    mask: int

    @property
    def unframed(self) -> int:
        """The number of messages that were not read."""

    def read_batch(self, messages: pa.BinaryArray) -> pa.ListArray:
        """Return the rows of each message."""

    def errors(self) -> tuple[pa.StringArray | None, pa.StringArray | None]:
        """Return the error texts and codes, with one entry per message, or None if there are no errors."""


class RowReader:
    """Reads messages, or what follows their first bytes, with the batch that a function makes."""

    def __init__(self, make_batch: Callable[[], RowBatch]) -> None:
        self._batch = Guarded(make_batch)

    def read(self, messages: pa.BinaryArray, *, skip: int = 0) -> DecodedBatch:
        """Return a list of rows per message: null for a null message or an error, empty if it is skipped.

        `skip` is the number of bytes before the text or datum of each message.
        """
        with self._batch.use() as batch:  # the columns grow in place
            batch.skip, batch.mask = skip, 0
            return _decoded(batch, messages)

    def read_framed(self, messages: pa.BinaryArray, size: int, head: bytes) -> tuple[DecodedBatch, bool]:
        """Read messages after a frame of `size` bytes that begins with `head`, of at most eight bytes.

        Also returns whether all messages have such a frame; others are null. It is faster than to check them before.
        """
        with self._batch.use() as batch:
            batch.skip, batch.head, batch.mask = size, int.from_bytes(head, "little"), (1 << 8 * len(head)) - 1
            return _decoded(batch, messages), not batch.unframed


def _decoded(batch: RowBatch, messages: pa.BinaryArray) -> DecodedBatch:
    count_messages(len(messages))
    rows = batch.read_batch(messages)
    return DecodedBatch(rows, None, *batch.errors())


def replace_columns(batch: DecodedBatch, columns: list[pa.Array], names: Sequence[str] = ()) -> DecodedBatch:
    """Return the batch with these columns in its rows. Without `names`, they take those of its columns, in order."""
    rows = batch.rows.values
    fields = [pa.field(name, column.type) for name, column in zip(names or rows.type.names, columns, strict=False)]
    values = pa.Array.from_buffers(pa.struct(fields), len(rows), [None], children=columns)
    items = pa.list_(pa.field("item", values.type))
    lists = pa.Array.from_buffers(items, len(batch.rows), batch.rows.buffers()[:2], children=[values])
    return replace(batch, rows=lists)


def error_count(batch: DecodedBatch) -> int:
    """Return the number of messages with an error."""
    return 0 if batch.errors is None else len(batch.errors) - int(batch.errors.null_count)


def join_parts(parts: list[tuple[Ints, DecodedBatch]]) -> DecodedBatch:
    """Join batches into one. Each part is the numbers of its messages in the joined batch, and the batch."""
    places = np.concatenate([at for at, _ in parts])
    order = np.empty(len(places), np.int64)
    order[places] = np.arange(len(places))
    return take_messages(join_decoded([part for _, part in parts]), order)


def take_messages(batch: DecodedBatch, places: Ints) -> DecodedBatch:
    """Return the messages with these numbers, in their order."""
    chosen, buffers = pa.array(places), batch.rows.buffers()[:2]
    kinds_taken = None
    if batch.row_kinds is not None:
        kinds = pa.Array.from_buffers(pa.list_(pa.string()), len(batch.rows), buffers, children=[batch.row_kinds])
        kinds_taken = kinds.take(chosen).flatten()
    errors = None if batch.errors is None else batch.errors.take(chosen)
    codes = None if batch.codes is None else batch.codes.take(chosen)
    return replace(batch, rows=batch.rows.take(chosen), row_kinds=kinds_taken, errors=errors, codes=codes)
