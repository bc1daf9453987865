"""The fast JSON reader: a whole batch of messages, decoded field by field with a cursor per message.

It takes a message only when its answer is certain to be that of the exact reader and refuses all others: a
message is one object whose values are plainly what the columns want. Refused are, among others, messages that
are broken anywhere, not UTF-8, or arrays; repeated keys; exponents for integers; numbers for BOOLEAN; objects with
fractions for STRING; lone surrogates; dates that do not exist.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Ints, Mask
from kvformat.codecs._json import bits
from kvformat.codecs._json.containers import ArrayNode, MapNode
from kvformat.codecs._json.keys import Keys
from kvformat.codecs._json.node import JsonBytes, Node, Payload, put
from kvformat.codecs._json.numbers import BooleanNode, DecimalNode, FloatNode, IntegerNode
from kvformat.codecs._json.objects import RowNode
from kvformat.codecs._json.settings import ReadSettings
from kvformat.codecs._json.texts import BytesNode, TextNode
from kvformat.codecs._json.times import DateNode, TimeNode, TimestampNode
from kvformat.registry.types import FlinkType, arrow_type, nullable

FEW = 16
"""A vectorised step for fewer messages than this costs more than the exact reader."""
_SMALLEST = 6
_CHUNK = 16384
_CHUNK_BYTES = 16 << 20
_LONGEST = 1 << 20
_MOST_PASSES = 5
_WORTH_A_LAYOUT = 40
_WORTH_ANOTHER = 6
_NO_BEGINNING, _CONTINUED = np.uint8(0xC0), np.uint8(0x80)


class FastReader:
    """Reads batches of JSON messages into rows of one type, as far as they are ordinary.

    `few` is how many messages are worth a vectorised step of their own. Immutable but for caches.
    """

    def __init__(self, row: FlinkType, settings: ReadSettings, *, few: int = FEW) -> None:
        self._kind = arrow_type(nullable(row))
        self._few = few
        self._node: Node | None = _NodeMaker(settings).row(nullable(row))

    def read(self, messages: pa.BinaryArray) -> tuple[pa.StructArray, Mask]:
        """Decode what is certain.

        Returns an array of structs, one per message, and which messages are refused: their rows mean nothing.
        Null and empty messages are refused.
        """
        if not len(messages) or len(messages) < _SMALLEST * self._few or self._node is None:
            return pa.nulls(len(messages), self._kind), np.ones(len(messages), bool)
        parts = [self._read_chunk(messages[start:stop]) for start, stop in _chunks(messages)]
        if len(parts) == 1:
            return parts[0]
        return pa.concat_arrays([rows for rows, _ in parts]), np.concatenate([refused for _, refused in parts])

    def _read_chunk(self, messages: pa.BinaryArray) -> tuple[pa.StructArray, Mask]:
        assert self._node is not None
        sizes = np.diff(np.frombuffer(messages.buffers()[1], np.int32)[messages.offset :][: len(messages) + 1])
        wanted = (sizes > 1) & (sizes <= _LONGEST)
        if messages.null_count:
            wanted &= np.asarray(messages.is_valid())
        if wanted.all():
            return self._read_rows(messages)
        rows = np.flatnonzero(wanted)
        if not len(rows) or len(rows) < _SMALLEST * self._few:
            return pa.nulls(len(messages), self._kind), np.ones(len(messages), bool)
        taken, refused = self._read_rows(messages.take(pa.array(rows)))
        places = np.zeros(len(messages), np.int64)
        places[rows] = np.arange(len(rows))
        every = np.ones(len(messages), bool)
        every[rows] = refused
        return taken.take(pa.array(places)), every

    def _read_rows(self, messages: pa.BinaryArray) -> tuple[pa.StructArray, Mask]:
        assert self._node is not None
        batch = JsonBytes(messages, self._few)
        _blank_malformed(batch)
        start, found = bits.skip_blanks(batch, batch.start)
        left = np.flatnonzero(found == bits.OPEN_OBJECT)
        refused, payload = np.ones(len(start), bool), None
        worth = True
        for number in range(_MOST_PASSES):
            if len(left) < _SMALLEST * self._few:
                break
            rows = self._next_rows(batch, start, left, number) if worth else left[:0]
            if not len(rows):
                batch.keys, rows = Keys(batch, left), left
            ok, values = self._read_objects(batch, start[rows], batch.end[rows])
            if len(rows) == len(start):
                payload = values
            else:
                payload = payload or self._node.empty(len(start))
                put(payload, rows, values)
            refused[rows[ok]] = False
            left = left[refused[left]]
            if batch.keys is not None:
                break
            worth = _WORTH_ANOTHER * int(np.count_nonzero(ok)) >= len(rows)
        if payload is None:
            return pa.nulls(len(messages), self._kind), refused
        payload[0][:] = True
        return self._node.build(batch, payload), refused

    def _next_rows(self, batch: JsonBytes, start: Ints, left: Ints, number: int) -> Ints:
        """Which of the rows that are left begin as most of them do; none where no way to begin is worth a pass."""
        assert self._node is not None
        if number == _MOST_PASSES - 1 or (number and len(left) < _WORTH_A_LAYOUT * self._few):
            return left[:0]
        fits = self._node.fits_layout(batch, start[left])
        return left[fits] if _WORTH_ANOTHER * np.count_nonzero(fits) >= len(left) else left[:0]

    def _read_objects(self, batch: JsonBytes, start: Ints, end: Ints) -> tuple[Mask, Payload]:
        """Read objects that end with their messages."""
        assert self._node is not None
        reached, ok, payload = self._node.scan(batch, batch.window(start))
        ok &= payload[0]
        # what is behind blanks may be in a later message, but nothing that was read
        ok &= (reached <= end) & (bits.skip_blanks(batch, reached)[0] >= end)
        return ok, payload


def value_node(t: FlinkType, settings: ReadSettings) -> Node | None:
    """The node of a type, for readers that put nodes together in their own way; None where there is none."""
    return _NodeMaker(settings).node(nullable(t))


def _chunks(messages: pa.BinaryArray) -> list[tuple[int, int]]:
    """Slices of the batch that are bounded in messages and bytes."""
    offsets = np.frombuffer(messages.buffers()[1], np.int32)[messages.offset :][: len(messages) + 1]
    chunks, start = [], 0
    while start < len(messages):
        stop = int(np.searchsorted(offsets, int(offsets[start]) + _CHUNK_BYTES, "right")) - 1
        stop = min(max(stop, start + 1), start + _CHUNK, len(messages))
        chunks.append((start, stop))
        start = stop
    return chunks


def _blank_malformed(batch: JsonBytes) -> None:
    """Overwrite messages that are not UTF-8, so that no reader takes them."""
    data = batch.bytes[batch.start[0] : batch.end[-1]]
    offsets = pa.py_buffer(np.array([0, len(data)], np.int32))
    together = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(data)])
    try:
        together.validate(full=True)
        if not ((batch.bytes[batch.start] & _NO_BEGINNING) == _CONTINUED).any():
            return
    except pa.ArrowInvalid:
        pass
    bad = [row for row in range(len(batch.start)) if not _is_utf8(batch.raw[batch.start[row] : batch.end[row]])]
    batch.blank(np.array(bad, np.int64))


def _is_utf8(message: bytearray) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True


class _NodeMaker:
    """Makes the nodes of types; None stands for a type that is left to the exact reader."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        streaming, iso = settings.streaming, settings.iso
        text = functools.partial(TextNode, streaming=streaming)
        self._scalars: dict[str, Callable[[], Node]] = {
            "BOOLEAN": BooleanNode,
            "TINYINT": lambda: IntegerNode(pa.int8(), bits_=8),
            "SMALLINT": lambda: IntegerNode(pa.int16(), bits_=16),
            "INT": lambda: IntegerNode(pa.int32(), bits_=32),
            "BIGINT": lambda: IntegerNode(pa.int64(), bits_=64),
            "FLOAT": lambda: FloatNode(single=True, streaming=streaming),
            "DOUBLE": lambda: FloatNode(single=False, streaming=streaming),
            "CHAR": text,
            "VARCHAR": text,
            "BINARY": BytesNode,
            "VARBINARY": BytesNode,
            "DATE": DateNode,
            "TIME": TimeNode,
            "TIMESTAMP": lambda: TimestampNode(iso=iso, local=False),
            "TIMESTAMP_LTZ": lambda: TimestampNode(iso=iso, local=True),
            "INTERVAL YEAR TO MONTH": lambda: IntegerNode(pa.int32(), bits_=32, quoted=False),
            "INTERVAL DAY TO SECOND": lambda: IntegerNode(pa.duration("us"), bits_=64, factor=1000, quoted=False),
        }

    def row(self, t: FlinkType) -> RowNode | None:
        """The node of a ROW."""
        nodes = [self.node(field.type) for field in t.fields]
        names = [field.name for field in t.fields]
        present = [node for node in nodes if node is not None]
        if len(present) < len(nodes) or len(set(names)) < len(names):
            return None
        return RowNode(names, present, arrow_type(t), fail_on_missing=self._settings.fail_on_missing)

    def node(self, t: FlinkType) -> Node | None:
        """The node of any type."""
        if t.root == "ROW":
            return self.row(t)
        if t.root == "ARRAY":
            element = self.node(t.fields[0].type)
            return ArrayNode(arrow_type(t), element) if element else None
        if t.root in ("MAP", "MULTISET"):
            return self._map(t)
        if t.root == "DECIMAL":
            assert t.precision is not None
            assert t.scale is not None
            return DecimalNode(t.precision, t.scale)
        make = self._scalars.get(t.root)
        return make() if make else None

    def _map(self, t: FlinkType) -> Node | None:
        if t.fields[0].type.root not in ("CHAR", "VARCHAR"):
            return None
        counts = t.root == "MULTISET"
        value = IntegerNode(pa.int32(), bits_=32) if counts else self.node(t.fields[1].type)
        return MapNode(arrow_type(t), value, counts=counts) if value else None
