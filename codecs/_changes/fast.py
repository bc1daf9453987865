"""The fast reader of change messages: a whole batch at once, both rows of an envelope by the nodes of json.

What a message has is found in one pass, as positions and numbers (the payloads of nodes). Which rows come out of it,
and in which order, is decided there too, by indices into the payloads; only then are columns built, once. A message
is taken only when the answer is certain to be that of the exact reader.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kvformat.codecs._changes.envelope import (
    DELETE,
    INSERT,
    TEXT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangeSettings,
    Entry,
    Envelope,
    Epoch,
    EpochEntry,
    Metadata,
    OggTime,
    Operation,
)
from kvformat.codecs._changes.nodes import (
    INSTANT,
    FilteredNode,
    ImageNode,
    MemberNode,
    MillisNode,
    OggTimeNode,
    OperationNode,
    TogetherNode,
)
from kvformat.codecs._changes.outline import Hole, Name, OutlineNode
from kvformat.codecs._columnar import Ints, Mask, Window
from kvformat.codecs._json.containers import ArrayNode
from kvformat.codecs._json.fast import FEW, FastReader, value_node
from kvformat.codecs._json.node import JsonBytes, Node, Payload, Scanned
from kvformat.codecs._json.numbers import IntegerNode
from kvformat.codecs._json.objects import RowNode
from kvformat.codecs._json.settings import ReadSettings
from kvformat.registry.types import FlinkType, arrow_type, nullable

_INSERT, _UPDATE, _DELETE, _SKIP = (int(operation) for operation in Operation)
_ROWS = np.array([0, 1, 2, 1, 0])  # how many rows an operation gives, per row in the message
_FIRST_KIND = np.array([INSERT, INSERT, UPDATE_BEFORE, DELETE, INSERT], np.int8)


class FastChanges(FastReader):
    """Reads batches of change messages, as far as they are ordinary: one list of changes per message.

    A change is a struct of its kind (an index into `KINDS`), the columns and the metadata, as `changes` says.
    """

    def __init__(
        self,
        row: FlinkType,
        changes: FlinkType,
        envelope: Envelope,
        settings: ChangeSettings,
        metadata: tuple[str, ...],
        *,
        few: int = FEW,
    ) -> None:
        reading = ReadSettings(streaming=False, lenient=settings.lenient, iso=settings.iso)
        super().__init__(row, reading, few=few)
        change = arrow_type(nullable(changes))
        self._kind = pa.list_(pa.field("element", change))
        if isinstance(self._node, RowNode):
            parts = _Parts(self._node, envelope, settings, [envelope.metadata[key] for key in metadata], reading)
            self._node = ChangesNode(parts, change) if parts.complete else None


class _Parts:
    """The nodes of a message, and where their payloads are in that of the whole message."""

    def __init__(
        self,
        row: RowNode,
        envelope: Envelope,
        settings: ChangeSettings,
        metadata: list[Metadata],
        reading: ReadSettings,
    ) -> None:
        self.row, self.envelope, self.settings, self.metadata = row, envelope, settings, metadata
        self.olds = row
        if envelope.partial:
            members: list[Node] = [MemberNode(node) for node in row.nodes]
            names = [field.name for field in row.kind]
            self.olds = RowNode(names, members, row.kind, fail_on_missing=False)
        self._reading = reading
        after: Node = ArrayNode(row.kind, row) if envelope.many else ImageNode(row)
        before = after
        if envelope.partial:
            before = ArrayNode(row.kind, self.olds) if envelope.many else ImageNode(self.olds)
        nodes: dict[str, Node | None] = {
            envelope.before: before,
            envelope.after: after,
            envelope.operation: OperationNode(envelope.operations),
        }
        inside = [column for column in metadata if not column.outside]
        for member in dict.fromkeys(column.member for column in inside):
            nodes[member] = self._member([column for column in inside if column.member == member])
        for member, _ in settings.filters:
            nodes[member] = FilteredNode()
        asked = list(nodes)
        for member in envelope.objects:
            # passing over the members of an object in their usual order is faster than one by one
            nodes.setdefault(member, _object({}))
        outer: dict[str, Node | None] = {}
        if settings.wrapped:
            outer = {column.member: value_node(column.type, reading) for column in metadata if column.outside}
        self.complete = None not in nodes.values() and None not in outer.values()
        if self.complete:
            self._place({k: v for k, v in nodes.items() if v}, {k: v for k, v in outer.items() if v}, asked)

    def _place(self, nodes: dict[str, Node], outer: dict[str, Node], asked: list[str]) -> None:
        payload, wrapped = _object(nodes), self.settings.wrapped
        root = _object({"payload": payload, **outer}) if wrapped else payload
        self.places = _places(nodes, 2 if wrapped else 1)
        self.outer_places = _places(outer, 1 + len(payload.dtypes))
        self._nodes = nodes | outer
        around: Name = (b"payload",) if wrapped else ()
        holes = {(*around, member.encode()): Hole(nodes[member], self.places[member]) for member in asked}
        holes |= {(member.encode(),): Hole(outer[member], place) for member, place in self.outer_places.items()}
        self.root = OutlineNode(root, holes, {around: 1} if wrapped else {})

    def _member(self, columns: list[Metadata]) -> Node | None:
        """The node of a member that these metadata columns are made of."""
        if isinstance(columns[0], OggTime):
            return OggTimeNode(strict=columns[0].strict)
        if isinstance(columns[0], Epoch):
            return IntegerNode(INSTANT, bits_=64, factor=columns[0].micros)
        entries = [column for column in columns if isinstance(column, Entry)]
        nodes = [value_node(column.type, self._reading) for column in columns if not isinstance(column, Entry)]
        if entries:
            nodes.insert(0, self._entries(entries))
        present = [node for node in nodes if node is not None]
        if len(present) < len(nodes):
            return None
        return present[0] if len(present) == 1 else TogetherNode(present)

    def _entries(self, entries: list[Entry]) -> RowNode:
        """The entries of a map that are asked for, read as members of an object."""
        epoch, text = MillisNode(), value_node(TEXT, self._reading)
        assert text is not None
        return _object({entry.key: epoch if isinstance(entry, EpochEntry) else text for entry in entries})

    def node(self, member: str) -> Node:
        """The node of a member."""
        return self._nodes[member]

    def column(self, column: Metadata) -> tuple[Node, list[slice]] | None:
        """The node of a metadata column, and where its payload is; None for one without a member.

        More than one place: the objects around it, which must not be null either.
        """
        if column.outside:
            place = self.outer_places.get(column.member)
            return None if place is None else (self._nodes[column.member], [place])
        node, place = self._nodes[column.member], self.places[column.member]
        around: list[slice] = []
        if isinstance(node, TogetherNode):
            read = {str(number): part for number, part in enumerate(node.nodes)}
            which = "0" if isinstance(column, Entry) else str(len(read) - 1)
            around.append(slice(place.start, place.start + 1))
            place = _places(read, place.start + 1)[which]
            node = read[which]
        if isinstance(column, Entry):
            assert isinstance(node, RowNode)
            around.append(slice(place.start, place.start + 1))
            names = [field.name for field in node.kind]
            inner_places = _places(dict(zip(names, node.nodes, strict=True)), place.start + 1)
            node, place = node.nodes[names.index(column.key)], inner_places[column.key]
        return node, [place, *around]


def _object(members: dict[str, Node]) -> RowNode:
    kind = pa.struct([pa.field(name, pa.null()) for name in members])
    return RowNode(list(members), list(members.values()), kind, fail_on_missing=False)


def _places(nodes: Mapping[str, Node], first: int) -> dict[str, slice]:
    """Where the payloads of nodes are, one after another."""
    found = {}
    for name, node in nodes.items():
        found[name] = slice(first, first + len(node.dtypes))
        first += len(node.dtypes)
    return found


class ChangesNode(Node):
    """A message, and the changes in it."""

    def __init__(self, parts: _Parts, change: pa.StructType) -> None:
        self._parts, self._change = parts, change
        envelope, places = parts.envelope, parts.places
        self._operation = places[envelope.operation].start
        self._old, self._new = places[envelope.before], places[envelope.after]
        self._deletes_old = envelope.deleted == envelope.before
        self.outline = parts.root
        self.dtypes = parts.root.dtypes

    # --- what is taken ---------------------------------------------------------------------------------

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        end, ok, payload = self.outline.scan(batch, window)
        operation = payload[self._operation + 1] * payload[self._operation]
        for member, pattern in self._parts.settings.filters:
            valid, start, stop = payload[self._parts.places[member]]
            ok &= valid
            texts = batch.pieces(start, stop, pa.string(), valid).dictionary_encode()
            wanted = [text is not None and pattern.fullmatch(text) is not None for text in texts.dictionary.to_pylist()]
            matches = np.append(np.array(wanted, bool), True)[np.asarray(texts.indices.fill_null(-1))]
            operation[~matches & (operation > 0)] = _SKIP
        ok &= operation > 0
        ok &= self._has_rows(batch, payload, operation)
        operation[~ok] = 0
        payload[self._operation + 1] = operation
        return Scanned(end, ok, payload)

    def _has_rows(self, batch: JsonBytes, payload: Payload, operation: Ints) -> Mask:
        """Where there are the rows that the operation needs."""
        new, old = payload[self._new.start], payload[self._old.start]
        if self._parts.envelope.many:
            counts, old_counts = payload[self._new.start + 2], payload[self._old.start + 2]
            new = new & self._no_null_rows(batch, payload, self._parts.envelope.after)
            old = old & self._no_null_rows(batch, payload, self._parts.envelope.before) & (old_counts >= counts)
        deleted = old if self._deletes_old else new
        fine = np.where(operation == _DELETE, deleted, new & (old | (operation != _UPDATE)))
        taken: Mask = fine | (operation == _SKIP)
        return taken

    def _no_null_rows(self, batch: JsonBytes, payload: Payload, member: str) -> Mask:
        """Where the array has no null among its rows."""
        _, first, count = payload[self._parts.places[member]]
        elements = batch.elements(self._parts.node(member))
        nulls = np.zeros(1, np.int64) if elements is None else np.append(0, np.cumsum(~elements[0]))
        fine: Mask = (count == 0) | (nulls.take(first + count, mode="clip") == nulls.take(first, mode="clip"))
        return fine

    # --- what comes out --------------------------------------------------------------------------------

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        operation = payload[self._operation + 1]
        counts = _ROWS[operation]
        if self._parts.envelope.many:
            counts = counts * payload[self._new.start + 2]
        offsets = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        order = _Order(operation, counts, offsets)
        rows = self._parts.row.build(batch, self._row_payload(batch, payload, order))
        columns = [rows.field(place) for place in range(rows.type.num_fields)]
        columns += [self._metadata(batch, payload, number, order) for number in range(len(self._parts.metadata))]
        changes = pa.StructArray.from_arrays([pa.array(order.kind), *columns], fields=list(self._change))
        return pa.ListArray.from_arrays(pa.array(offsets), changes)

    def _row_payload(self, batch: JsonBytes, payload: Payload, order: _Order) -> Payload:
        """The payload of all rows that come out, from the payloads of all rows that were read."""
        envelope = self._parts.envelope
        new, new_at = self._elements(batch, envelope.after), self._at(payload, self._new, order)
        old_at = self._at(payload, self._old, order)
        if envelope.partial:
            return self._filled_up(new, new_at, self._elements(batch, envelope.before), old_at, order)
        from_old = order.kind == UPDATE_BEFORE
        if self._deletes_old:
            from_old |= order.kind == DELETE
        at = np.where(from_old, old_at, new_at)
        if len(at) == len(new[0]) and np.array_equal(at, np.arange(len(at))):
            return new
        return [column.take(at) for column in new]

    def _at(self, payload: Payload, place: slice, order: _Order) -> Ints:
        """Where the row of each change is among those that its node has read."""
        first: Ints = payload[place.start + 1][order.message]
        return first + order.pair if self._parts.envelope.many else first

    def _filled_up(self, new: Payload, new_at: Ints, old: Payload, old_at: Ints, order: _Order) -> Payload:
        """The new rows, and over the copies of them that are old rows what these say themselves."""
        rows = [column.take(new_at) for column in new]
        before = np.flatnonzero(order.kind == UPDATE_BEFORE)
        old_at = old_at[before]
        to, of = 1, 1
        for node in self._parts.row.nodes:
            width = len(node.dtypes)
            said = np.flatnonzero(old[of][old_at])
            for column, values in zip(rows[to : to + width], old[of + 1 : of + 1 + width], strict=True):
                column[before[said]] = values[old_at[said]]
            to, of = to + width, of + 1 + width
        return rows

    def _elements(self, batch: JsonBytes, member: str) -> Payload:
        """The payload of all rows that were read for a member."""
        rows = self._parts.row if member == self._parts.envelope.after else self._parts.olds
        return batch.elements(self._parts.node(member)) or rows.empty(0)

    def _metadata(self, batch: JsonBytes, payload: Payload, number: int, order: _Order) -> pa.Array:
        found = self._parts.column(self._parts.metadata[number])
        if found is None:
            kind = self._change.field(self._change.num_fields - len(self._parts.metadata) + number).type
            return pa.nulls(len(order.message), kind)
        node, (place, *around) = found
        valid, *values = [column[order.message] for column in payload[place]]
        for outer in around:
            valid &= payload[outer.start][order.message]
        return node.build(batch, [valid, *values])


class _Order:
    """The rows that come out of a batch: for each the message, its kind, and the number of its pair in the message."""

    def __init__(self, operation: Ints, counts: Ints, offsets: npt.NDArray[np.int32]) -> None:
        self.message: Ints = np.repeat(np.arange(len(counts)), counts)
        self.kind = _FIRST_KIND[operation][self.message]
        within = np.arange(len(self.message)) - offsets[:-1][self.message]
        update = self.kind == UPDATE_BEFORE
        self.kind[update & (within & 1 == 1)] = UPDATE_AFTER
        self.pair: Ints = within >> update
