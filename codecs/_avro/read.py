"""Reading a batch: the fast path over all messages, the exact one for what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kvformat.codecs._avro.bounds import Room
from kvformat.codecs._avro.columns import Part, Placed, finish, place
from kvformat.codecs._avro.cursors import AvroBatch, Lanes
from kvformat.codecs._avro.exact import BadDatum, read_datum
from kvformat.codecs._avro.fast import fast_reader
from kvformat.codecs._avro.merging import PIECE, all_errors, errors_of, replaced
from kvformat.codecs._avro.resolve import Plan
from kvformat.codecs._columnar import Ints, MessageNumbers, Positions

_MOST_BYTES: Final = 2**30  # of messages read at once: half of what the offsets of an Arrow array reach


@dataclass(frozen=True)
class Decoded:
    """What a batch of messages decoded to.

    values: array of the reader's Arrow type, one value per message; null for a null message or one with an error
        (and for the datum null).
    errors: string array, one per message, null where all is well, or None when there are none at all.
    end: how many bytes of each message were read, `start` included; what follows was not looked at. 0 for null
        messages and those with an error.
    """

    values: pa.Array
    errors: pa.StringArray | None
    end: Ints


def read_batch(
    messages: pa.BinaryArray,
    plans: Sequence[Plan],
    kind: pa.DataType,
    which: Ints | None,
    start: int,
    room: Room | None = None,
) -> Decoded:
    """The messages by the plans, all of which give values of one type; `which` says by which one, -1 by none.

    Without `which` there is one plan, and no message is null.
    """
    count = len(messages)
    room = room or Room()
    if not count:
        return Decoded(pa.array([], kind), None, np.zeros(0, np.int64))
    too_large = _size(messages) > _MOST_BYTES
    if count > PIECE or (too_large and count > 1):
        size = (count + 1) // 2 if too_large else PIECE
        return _by_pieces(messages, plans, kind, which, start, size, room)
    if too_large:
        refused = MessageNumbers(np.zeros(1 if which is None or which[0] >= 0 else 0, np.int64))
        return _merged(messages, plans, which, start, pa.nulls(1, kind), refused, np.zeros(1, np.int64), room)
    batch = AvroBatch(messages, room)
    end = np.zeros(count, np.int64)
    part = _read_together(batch, plans, kind, which, start, end)
    batch.settle()
    refused = MessageNumbers(np.flatnonzero(batch.refused))
    return _merged(messages, plans, which, start, finish(part, kind, batch), refused, end, room)


def _by_pieces(
    messages: pa.BinaryArray,
    plans: Sequence[Plan],
    kind: pa.DataType,
    which: Ints | None,
    start: int,
    size: int,
    room: Room,
) -> Decoded:
    parts = []
    for at in range(0, len(messages), size):
        some = None if which is None else which[at : at + size]
        parts.append(read_batch(messages.slice(at, size), plans, kind, some, start, room))
    values = pa.concat_arrays([part.values for part in parts])
    return Decoded(values, all_errors(parts, size, len(messages)), np.concatenate([part.end for part in parts]))


def _read_together(
    batch: AvroBatch, plans: Sequence[Plan], kind: pa.DataType, which: Ints | None, start: int, end: Ints
) -> Part:
    """What the fast readers read; `end` gets the bytes that they went over in each message."""
    if which is None:
        messages = MessageNumbers(np.arange(len(end)))
        return _read_messages(batch, plans[0], messages, start, end)
    parts: list[Placed] = []
    for number, compiled in enumerate(plans):
        messages = MessageNumbers(np.flatnonzero(which == number))
        if len(messages):
            parts.append((messages, _read_messages(batch, compiled, messages, start, end)))
    return place(parts, len(end), kind, batch)


def _read_messages(batch: AvroBatch, compiled: Plan, messages: MessageNumbers, start: int, end: Ints) -> Part:
    lanes = Lanes(batch, messages, Positions(batch.start[messages] + start), Positions(batch.end[messages]))
    lanes.check()
    part = fast_reader(compiled).read(lanes)
    lanes.check()
    end[messages] = lanes.pos - batch.start[messages]
    return part


def _merged(
    messages: pa.BinaryArray,
    plans: Sequence[Plan],
    which: Ints | None,
    start: int,
    values: pa.Array,
    refused: MessageNumbers,
    end: Ints,
    room: Room,
) -> Decoded:
    """The values of the fast readers, and in the place of those that they refused what the exact one says."""
    if not len(refused):
        return Decoded(values, None, end)
    found, errors = [], []
    numbers = [0] * len(refused) if which is None else which[refused].tolist()
    alone = messages.take(pa.array(refused)).to_pylist()
    for row, number, message in zip(refused.tolist(), numbers, alone, strict=True):
        value, end[row], error = _exactly(plans[number], message, start, room)
        found.append(value)
        errors.append(error)
    merged = replaced(values, refused, pa.array(found, values.type))
    return Decoded(merged, errors_of(refused, errors, len(values)), end)


def _exactly(compiled: Plan, message: bytes, start: int, room: Room) -> tuple[Any, int, str | None]:
    try:
        value, end = read_datum(compiled.action, message, start, room)
    except BadDatum as bad:
        return None, 0, str(bad)
    return value, end, None


def _size(messages: pa.BinaryArray) -> int:
    """The bytes of all messages."""
    offsets = np.frombuffer(messages.buffers()[1], np.int32)
    return int(offsets[messages.offset + len(messages)] - offsets[messages.offset])
