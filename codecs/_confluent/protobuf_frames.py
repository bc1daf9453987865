"""Groups of Protobuf messages with the same schema and type, by the id and the index path before each message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints
from kvformat.codecs._confluent.frames import GUID_PREFIX, Frames, frame_size, schema_of
from kvformat.codecs._confluent.protobuf_schema import FIRST, IndexPath, read_path
from kvformat.registry.contract.error_codes import ErrorCode

_MOST_PATHS = 1000
"""Index paths of a batch that are told apart; messages with others are errors. Real topics have a few."""


@dataclass(frozen=True, slots=True)
class SameType:
    """Messages of a batch with the same schema and type. `size` is the number of bytes before each message."""

    WITHOUT_PATH: ClassVar[int] = -2
    NO_PATH: ClassVar[str] = ErrorCode.MALFORMED.marked(
        "after the schema's id, the message has no path of a type in its schema (00 for the first one)"
    )

    schema_id: int | str
    path: IndexPath
    size: int


def only_group(messages: pa.BinaryArray) -> SameType | None:
    """Return the group of all messages, if they all have the same id and are of the first type of their schema.

    This is the usual case, and found without reading the ids. Null messages and bad frames are left to others.
    """
    if messages.null_count or not len(messages):
        return None
    head = messages[0].as_buffer()[: GUID_PREFIX + 1].to_pybytes()
    size = frame_size(head)
    head = head[: size + 1]
    if not size or len(head) <= size or head[size] or pc.starts_with(messages, head).true_count < len(messages):
        return None
    return SameType(schema_of(head[:size]), FIRST, size + 1)


def message_groups(frames: Frames) -> tuple[list[SameType], Ints]:
    """Return the groups of messages by schema and type, and the number of each message's group.

    Messages without an id or GUID have the number -1, and those without a valid path `SameType.WITHOUT_PATH`.
    """
    messages, ids, good, size = frames.messages, frames.ids, frames.good, frames.size
    count = len(messages)
    which = np.full(count, -1, np.int64)
    if not good.any():
        return [], which
    offsets = np.frombuffer(messages.buffers()[1], np.int32, count + 1, messages.offset * 4).astype(np.int64)
    data = np.frombuffer(messages.buffers()[2], np.uint8)
    starts, ends = offsets[:-1] + size, offsets[1:]
    complete = good & (starts < ends)
    first = np.where(complete, data[np.minimum(starts, len(data) - 1)], 1)
    is_first = first == 0
    if is_first.all() and (ids == ids[0]).all():
        which[:] = 0
        return [SameType(frames.schemas([int(ids[0])])[0], FIRST, size + 1)], which
    paths: dict[tuple[IndexPath, int], int] = {(FIRST, 1): 0}
    codes = np.where(is_first, 0, -1)
    known: dict[bytes, int] = {}
    for place in np.flatnonzero(complete & ~is_first).tolist():
        head = data[starts[place] : min(starts[place] + 2, ends[place])].tobytes()
        if head not in known or known[head] < 0:  # most paths have one item, and so two bytes
            found = read_path(data[starts[place] : min(starts[place] + 512, ends[place])].tobytes(), 0)
            if found is None or (found not in paths and len(paths) >= _MOST_PATHS):
                continue
            codes[place] = paths.setdefault(found, len(paths))
            known[head] = codes[place] if found[1] == 2 else -1
        else:
            codes[place] = known[head]
    which[good & (codes < 0)] = SameType.WITHOUT_PATH
    usable = good & (codes >= 0)
    marks = ids[usable] * (_MOST_PATHS + 1) + codes[usable]
    distinct, numbers = np.unique(marks, return_inverse=True)
    which[usable] = numbers
    kinds = list(paths)
    schemas = frames.schemas((distinct // (_MOST_PATHS + 1)).tolist())
    paths_of = [kinds[number] for number in (distinct % (_MOST_PATHS + 1)).tolist()]
    return [SameType(key, path, size + more) for key, (path, more) in zip(schemas, paths_of, strict=True)], which
