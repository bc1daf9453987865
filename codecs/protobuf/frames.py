"""Groups of Protobuf messages with the same schema and type, by the id and the index path before each message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints
from kvformat.codecs.registries.confluent_frames import (
    FIRST,
    GUID_PREFIX,
    PREFIX,
    IndexPath,
    frame_size,
    read_path,
    schema_of,
)
from kvformat.codecs.registries.framing import Frames
from kvformat.registry.contract.error_codes import ErrorCode, Reason

_MOST_PATHS = 1000
"""Index paths of a batch that are told apart; messages with others are errors. Real topics have a few."""


@dataclass(frozen=True, slots=True)
class SameType:
    """Messages of a batch with the same schema and type. `size` is the number of bytes before each message."""

    WITHOUT_PATH: ClassVar[int] = -2
    NO_PATH: ClassVar[Reason] = Reason(
        ErrorCode.MALFORMED,
        "after the schema's id, the message has no path of a type in its schema (00 for the first one)",
    )

    schema_id: int | str
    path: IndexPath
    size: int


def likely_head(messages: pa.BinaryArray) -> bytes:
    """Return the bytes before the datum that all messages seem to have: an id or GUID, and the path of the first type.

    This is the usual case. Returns b"" if some messages have others, are null or have a bad frame. Only a few messages
    with ids are compared, because the reader compares all of them, but all with GUIDs.
    """
    count = len(messages)
    if messages.null_count or not count:
        return b""
    first, *others = (messages[at].as_buffer()[: GUID_PREFIX + 1].to_pybytes() for at in (0, count // 2, count - 1))
    size = frame_size(first)
    head = first[: size + 1]
    if not size or len(head) <= size or head[size] or not all(other.startswith(head) for other in others):
        return b""
    return head if size == PREFIX or _all_begin(messages, head) else b""


def group_of(head: bytes) -> SameType:
    """Return the group of messages with these bytes before their datum, which end with the path of the first type."""
    return SameType(schema_of(head[:-1]), FIRST, len(head))


def only_group(messages: pa.BinaryArray) -> SameType | None:
    """Return the group of all messages, if they are of the first type of the same schema. Do so without reading ids."""
    head = likely_head(messages)
    return group_of(head) if head and _all_begin(messages, head) else None


def _all_begin(messages: pa.BinaryArray, head: bytes) -> bool:
    return bool(pc.starts_with(messages, head).true_count == len(messages))


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
            path_and_size = read_path(data[starts[place] : min(starts[place] + 512, ends[place])].tobytes(), 0)
            if path_and_size is None or (path_and_size not in paths and len(paths) >= _MOST_PATHS):
                continue
            codes[place] = paths.setdefault(path_and_size, len(paths))
            known[head] = codes[place] if path_and_size[1] == 2 else -1
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
