"""Read a batch of messages: first with the fast reader, then refused messages with the exact reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kvformat.codecs._avro.bounds import AddedBytesBudget
from kvformat.codecs._avro.columns import IndexedPart, Part, finish, scatter
from kvformat.codecs._avro.cursors import AvroBatch, Cursors
from kvformat.codecs._avro.exact import BadDatum, read_datum
from kvformat.codecs._avro.fast import fast_reader
from kvformat.codecs._avro.merging import CHUNK_ROWS, concat_errors, replace_rows, spread_errors
from kvformat.codecs._avro.resolve import Plan
from kvformat.codecs._columnar import Ints, MessageNumbers, Positions

_MOST_BYTES: Final = 2**30  # of messages read at once: half of the range of an Arrow array's offsets


@dataclass(frozen=True)
class Decoded:
    """The result of `decode` and `decode_mixed`.

    values: array of the reader's Arrow type with one value per message. Null for a null message, a message with an
        error, and the datum null.
    errors: string array with one error per message, null for a message without an error. None if there are no errors.
    end: the offset in each message after the datum, in bytes. The reader ignores bytes after the datum. 0 for null
        messages and messages with an error.
    """

    values: pa.Array
    errors: pa.StringArray | None
    end: Ints


def read_batch(
    messages: pa.BinaryArray,
    plans: Sequence[Plan],
    kind: pa.DataType,
    writer_index: Ints | None,
    start: int,
    budget: AddedBytesBudget | None = None,
) -> Decoded:
    """Read messages with several plans, which all give values of the Arrow type `kind`.

    writer_index: for each message, the index of its plan, or -1 to skip the message. None if there is one plan and no
        message is null.
    start: bytes before each datum.
    budget: the bytes that the whole batch may add; its chunks share it.
    """
    count = len(messages)
    budget = budget or AddedBytesBudget()
    if not count:
        return Decoded(pa.array([], kind), None, np.zeros(0, np.int64))
    too_large = _total_bytes(messages) > _MOST_BYTES
    if count > CHUNK_ROWS or (too_large and count > 1):
        size = (count + 1) // 2 if too_large else CHUNK_ROWS
        return _read_chunks(messages, plans, kind, writer_index, start, size, budget)
    if too_large:
        refused = MessageNumbers(np.zeros(1 if writer_index is None or writer_index[0] >= 0 else 0, np.int64))
        return _reread_refused(
            messages, plans, writer_index, start, pa.nulls(1, kind), refused, np.zeros(1, np.int64), budget
        )
    batch = AvroBatch(messages, budget)
    end = np.zeros(count, np.int64)
    part = _read_fast(batch, plans, kind, writer_index, start, end)
    batch.charge_budget()
    refused = MessageNumbers(np.flatnonzero(batch.refused))
    return _reread_refused(messages, plans, writer_index, start, finish(part, kind, batch), refused, end, budget)


def _read_chunks(
    messages: pa.BinaryArray,
    plans: Sequence[Plan],
    kind: pa.DataType,
    writer_index: Ints | None,
    start: int,
    size: int,
    budget: AddedBytesBudget,
) -> Decoded:
    parts = []
    for at in range(0, len(messages), size):
        some = None if writer_index is None else writer_index[at : at + size]
        parts.append(read_batch(messages.slice(at, size), plans, kind, some, start, budget))
    values = pa.concat_arrays([part.values for part in parts])
    return Decoded(values, concat_errors(parts, size, len(messages)), np.concatenate([part.end for part in parts]))


def _read_fast(
    batch: AvroBatch, plans: Sequence[Plan], kind: pa.DataType, writer_index: Ints | None, start: int, end: Ints
) -> Part:
    """Read with the fast readers. Writes the offset after the datum of each message to `end`."""
    if writer_index is None:
        messages = MessageNumbers(np.arange(len(end)))
        return _read_messages(batch, plans[0], messages, start, end)
    parts: list[IndexedPart] = []
    for number, compiled in enumerate(plans):
        messages = MessageNumbers(np.flatnonzero(writer_index == number))
        if len(messages):
            parts.append((messages, _read_messages(batch, compiled, messages, start, end)))
    return scatter(parts, len(end), kind, batch)


def _read_messages(batch: AvroBatch, compiled: Plan, messages: MessageNumbers, start: int, end: Ints) -> Part:
    cursors = Cursors(batch, messages, Positions(batch.start[messages] + start), Positions(batch.end[messages]))
    cursors.check()
    part = fast_reader(compiled).read_part(cursors)
    cursors.check()
    end[messages] = cursors.pos - batch.start[messages]
    return part


def _reread_refused(
    messages: pa.BinaryArray,
    plans: Sequence[Plan],
    writer_index: Ints | None,
    start: int,
    values: pa.Array,
    refused: MessageNumbers,
    end: Ints,
    budget: AddedBytesBudget,
) -> Decoded:
    """Read the refused messages with the exact reader and put their values and errors into the batch."""
    if not len(refused):
        return Decoded(values, None, end)
    found, errors = [], []
    numbers = [0] * len(refused) if writer_index is None else writer_index[refused].tolist()
    alone = messages.take(pa.array(refused)).to_pylist()
    for row, number, message in zip(refused.tolist(), numbers, alone, strict=True):
        value, end[row], error = _read_exactly(plans[number], message, start, budget)
        found.append(value)
        errors.append(error)
    merged = replace_rows(values, refused, pa.array(found, values.type))
    return Decoded(merged, spread_errors(refused, errors, len(values)), end)


def _read_exactly(compiled: Plan, message: bytes, start: int, budget: AddedBytesBudget) -> tuple[Any, int, str | None]:
    try:
        value, end = read_datum(compiled.action, message, start, budget)
    except BadDatum as bad:
        return None, 0, str(bad)
    return value, end, None


def _total_bytes(messages: pa.BinaryArray) -> int:
    """Return the size of all messages in bytes."""
    offsets = np.frombuffer(messages.buffers()[1], np.int32)
    return int(offsets[messages.offset + len(messages)] - offsets[messages.offset])
