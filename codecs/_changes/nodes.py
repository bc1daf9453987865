"""Parts of a fast reader that only envelopes have: operations, members that may be missing, times in metadata."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from kvformat.codecs._changes.envelope import Operation
from kvformat.codecs._columnar import Column, Ints, Literal, Mask, Window, fixed_width
from kvformat.codecs._json import bits
from kvformat.codecs._json.node import JsonBytes, Node, Payload, Scanned, is_null
from kvformat.codecs._json.numbers import IntegerNode, ScalarNode
from kvformat.codecs._json.objects import RowNode
from kvformat.codecs._json.texts import TextNode
from kvformat.codecs._json.times import TimestampNode

INSTANT = pa.timestamp("us", "UTC")


class OperationNode(Node):
    """The member that says what happened: one of the texts that the format knows; the payload is its number."""

    dtypes = (bool, np.int8)

    def __init__(self, operations: Mapping[str, Operation]) -> None:
        self._known = [(Literal(f'"{text}"'.encode()), int(operation)) for text, operation in operations.items()]

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        end, operation = window.position.copy(), np.zeros(len(window), np.int8)
        for literal, number in self._known:
            here = window.has(literal)
            operation[here] = number
            end += here * literal.length
        ok = operation > 0
        return Scanned(end, ok, [ok.copy(), operation])

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        raise NotImplementedError("an operation is no column")


class ImageNode(Node):
    """A row before or after a change, null in many messages: the payload is its index among all rows of this node.

    Nulls are set aside, so that reading the rows takes whole columns.
    """

    dtypes = (bool, np.int64)

    def __init__(self, row: RowNode) -> None:
        self._row = row

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        position = window.position
        null = is_null(window)
        rows = np.flatnonzero(~null)
        end, ok, index = position + 4, null, np.zeros(len(window), np.int64)
        if len(rows):
            end[rows], ok[rows], payload = self._row.scan(batch, window.select(rows))
            index[rows] = np.arange(len(rows)) + batch.add_elements(self, payload, len(rows))
        valid = np.zeros(len(window), bool)
        valid[rows] = True
        return Scanned(end, ok, [valid, index])

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        raise NotImplementedError("rows are put in order before they are built")


class MemberNode(Node):
    """A member of an old row: the first column of the payload says whether it is there, the others are its value."""

    def __init__(self, value: Node) -> None:
        self._value = value
        self.dtypes = (bool, *value.dtypes)

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        end, ok, payload = self._value.scan(batch, window)
        return Scanned(end, ok, [np.ones(len(window), bool), *payload])

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        raise NotImplementedError("a member of an old row is no column")


class TogetherNode(Node):
    """One value that several nodes read, each in its way; the payload is all of theirs, with one more before them."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.dtypes = (bool, *(dtype for node in nodes for dtype in node.dtypes))

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        end, ok, payload = self.nodes[0].scan(batch, window.after(0))
        for node in self.nodes[1:]:
            other_end, other_ok, more = node.scan(batch, window.after(0))
            ok &= other_ok & (other_end == end)
            payload = [*payload, *more]
        return Scanned(np.where(ok, end, window.position), ok, [np.ones(len(window), bool), *payload])

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        raise NotImplementedError("a value that is read in several ways is no column")


class FilteredNode(TextNode):
    """A text that a filter looks at: that of an object or an array, which is none, is refused."""

    def __init__(self) -> None:
        super().__init__(streaming=False)

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        found = super().scan(batch, window)
        first = window.first()
        rows = np.flatnonzero((first == bits.OPEN_OBJECT) | (first == bits.OPEN_ARRAY))
        found.end[rows], found.ok[rows] = window.position[rows], False
        return found


class MillisNode(IntegerNode):
    """A count of milliseconds as `Long.parseLong` reads it; fractions are refused."""

    def __init__(self) -> None:
        super().__init__(INSTANT, bits_=64, factor=1000, quoted=False)

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        return ScalarNode.scan(self, batch, window)


class OggTimeNode(ScalarNode):
    """A time of Oracle GoldenGate in the form that it writes, cut to milliseconds; everything else is refused."""

    dtypes = (bool, np.int64)

    def __init__(self, *, strict: bool) -> None:
        self._time = TimestampNode(iso=not strict, local=False)
        self._length = None if strict else len('"2020-05-13T15:40:07.327000"')

    def read(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask, Column]:
        end, ok, values = self._time.read(batch, window)
        if self._length is not None:
            ok &= end - window.position == self._length
        return end, ok, values // 1000 * 1000

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        return fixed_width(INSTANT, payload[1], payload[0])
