"""What every part of a fast reader is: a node that scans values at many cursors and builds their column."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Column, Ints, Mask, MessageBytes, Window
from kvformat.codecs._json.keys import Keys

Payload = list[Column]

NULL = np.uint64(int.from_bytes(b"null", "little"))
FOUR_BYTES = np.uint64(0xFFFFFFFF)


class JsonBytes(MessageBytes):
    """A batch of JSON messages, and the elements of its arrays and maps as they are found.

    `few` is how many messages are worth a vectorised step of their own; fewer are refused instead. `keys`, where it
    is set, has the places of all keys of the messages that are read: objects may then have any order. `marks` keeps
    the places of quotes and escapes, once long texts asked for them.
    """

    def __init__(self, messages: pa.Array, few: int) -> None:
        super().__init__(messages)
        self.few = few
        self.escapes = b"\\" in self.raw
        self.keys: Keys | None = None
        self.marks: tuple[Ints, Ints] | None = None
        self._elements: dict[int, list[Payload]] = {}
        self._counts: dict[int, int] = {}

    def add_elements(self, node: Node, elements: Payload, count: int) -> int:
        """Keep elements of an array or map; returns the index of the first."""
        first = self._counts.get(id(node), 0)
        self._elements.setdefault(id(node), []).append(elements)
        self._counts[id(node)] = first + count
        return first

    def elements(self, node: Node) -> Payload | None:
        """All elements that were kept for a node, in the order of their indices; None without any."""
        parts = self._elements.get(id(node))
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else [np.concatenate(columns) for columns in zip(*parts, strict=True)]


class Scanned(NamedTuple):
    """What a node found at each cursor.

    `end` is the position behind the value, `ok` is false where the value is refused (there `end` is the
    cursor and the payload is harmless), `payload` has the columns of `Node.dtypes`: first, whether the value is
    not null. The arrays belong to the caller.
    """

    end: Ints
    ok: Mask
    payload: Payload


class Node(abc.ABC):
    """A value of one type: where it ends, what it is, whether it is exactly what the rules allow."""

    dtypes: tuple[Any, ...]
    margin = 0
    """How far behind the cursor the first word is that all of this value's reading is about: behind a quote, say."""

    @abc.abstractmethod
    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        """Read one value at every cursor."""

    @abc.abstractmethod
    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        """The column of the values scanned."""

    def fits_layout(self, batch: JsonBytes, position: Ints) -> Mask:
        """Which values begin as most of them do, so that they are worth a pass of their own."""
        return np.ones(len(position), bool)

    def empty(self, count: int) -> Payload:
        """The payload of nulls."""
        return [np.zeros(count, dtype) for dtype in self.dtypes]


def is_null(window: Window) -> Mask:
    """Where the cursor stands at the literal `null`."""
    result: Mask = (window.word(0) & FOUR_BYTES) == NULL
    return result


def put(into: Payload, rows: Ints, values: Payload) -> None:
    """Write the columns of a payload to some rows of another."""
    for column, part in zip(into, values, strict=True):
        column[rows] = part


def clear(payload: Payload, rows: Ints) -> None:
    """Make some rows of a payload null, with all that is inside of them."""
    for column in payload:
        column[rows] = 0
