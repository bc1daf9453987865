"""Arrays, maps and values that nobody asked for, at many cursors: in rounds over the messages that have one more."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Column, Ints, Mask, Window, spread, validity
from kvformat.codecs._json import bits
from kvformat.codecs._json.node import JsonBytes, Node, Payload, Scanned, is_null, put
from kvformat.codecs._json.numbers import read_number
from kvformat.codecs._json.texts import TextNode, read_text, unescape

MOST_ROUNDS = 256
_FREE_ROUNDS = 4
_DEEPEST = 8
_ONE = np.uint64(1)


class _Rounds:
    """The walk over the members of many containers, one member of each per round, the `number`-th.

    `rows` are the containers that have a next member and `at` where it begins.
    """

    def __init__(self, batch: JsonBytes, window: Window, opening: int, closing: int) -> None:
        self._batch, self._closing = batch, closing
        self.end = window.position.copy()
        self.ok: Mask = window.first() == opening
        self.count = np.zeros(len(window), np.int64)
        self.number = 0
        self.rows = np.flatnonzero(self.ok)
        self.at, found = bits.skip_blanks(batch, window.position[self.rows] + 1)
        empty = found == closing
        if empty.any():
            self.end[self.rows] = self.at + 1
            going = np.flatnonzero(~empty)
            self.rows, self.at = self.rows.take(going), self.at.take(going)

    def go_on(self) -> bool:
        """Whether there is a round to go; what would take too many is refused."""
        few = self._batch.few if self.number < _FREE_ROUNDS else 4 * self._batch.few
        if not len(self.rows) or (len(self.rows) >= few and self.number < MOST_ROUNDS):
            return len(self.rows) > 0
        self.ok[self.rows] = False
        self.rows = self.rows[:0]
        return False

    def advance(self, end: Ints, ok: Mask) -> None:
        """Go on to the next members, given where these end and which of them were good."""
        rows = self.rows
        if not ok.all():
            self.ok[rows[~ok]] = False
            good = np.flatnonzero(ok)
            end, rows = end.take(good), rows.take(good)
        self.number += 1
        self.count[rows] = self.number
        end, found = bits.skip_blanks(self._batch, end)
        # where another member follows this is overwritten by a later round
        self.end[rows] = end + 1
        comma = found == bits.COMMA
        more = np.flatnonzero(comma)
        if not (comma | (found == self._closing)).all():
            self.ok[rows[~comma & (found != self._closing)]] = False
        self.rows = rows.take(more)
        self.at, _ = bits.skip_blanks(self._batch, end.take(more) + 1)

    def take(self, rows: Ints, count: Ints, end: Ints) -> None:
        """Note containers that were read in another way, before the first round."""
        self.count[rows], self.end[rows] = count, end
        left = np.flatnonzero(self.count[self.rows] == 0)
        self.rows, self.at = self.rows.take(left), self.at.take(left)

    def finish(self, window: Window) -> None:
        """Put the cursors of what is refused back."""
        bad = np.flatnonzero(~self.ok)
        if len(bad):
            self.end[bad] = window.position[bad]
            self.count[bad] = 0


class _Parts:
    """The members found, round by round, to be put in the order of their containers."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Ints, Payload]] = []

    def add(self, number: int, rows: Ints, payload: Payload) -> None:
        """Keep the members with this number of the containers `rows`."""
        self._parts.append((number, rows, payload))

    def ordered(self, nodes: list[Node], count: Ints, first: Ints) -> Payload:
        total = int(count.sum())
        dtypes = [dtype for node in nodes for dtype in node.dtypes]
        members: Payload = [np.zeros(total, dtype) for dtype in dtypes]
        for number, rows, payload in self._parts:
            kept = count[rows] > number
            if kept.all():
                put(members, first[rows] + number, payload)
            else:
                put(members, first[rows[kept]] + number, [column[kept] for column in payload])
        return members


def _read_short_texts(batch: JsonBytes, window: Window, rounds: _Rounds, parts: _Parts) -> None:
    """Read the arrays of plain strings without blanks that the window has from end to end."""
    marks = [window.marks(character, 1) for character in (bits.QUOTE, bits.COMMA, bits.CLOSE_ARRAY)]
    rows = rounds.rows
    if batch.escapes:
        rows = rows[window.marks(bits.BACKSLASH, 1)[rows] == 0]
    if len(rows) < len(window):
        marks = [mark[rows] for mark in marks]
    quotes, commas, closing = marks
    position = window.position[rows] + 1
    wanted = np.ones(len(rows), np.uint64)
    found: list[tuple[Ints, Ints, Ints]] = []
    taken, count = np.zeros(len(window), bool), np.zeros(len(window), np.int64)
    while len(rows):
        before, opening = bits.first_bit(quotes)
        quotes ^= opening
        length, closed = bits.first_bit(quotes)
        quotes ^= closed
        end = position + length
        found.append((rows, position + before + 1, end))
        behind = closed << _ONE
        fine = opening == wanted
        done = rows[fine & (closing & behind != 0)]
        taken[done] = True
        count[done] = len(found)
        more = np.flatnonzero(fine & (commas & behind != 0))
        rows, position, wanted = rows.take(more), position.take(more), behind.take(more) << _ONE
        quotes, commas, closing = quotes.take(more), commas.take(more), closing.take(more)
    end = np.zeros(len(window), np.int64)
    for number, (rows, start, quote) in enumerate(found):
        fine = taken[rows]
        if not fine.all():
            rows, start, quote = rows[fine], start[fine], quote[fine]
        end[rows] = quote + 2
        parts.add(number, rows, [np.ones(len(rows), bool), start, quote])
    rows = np.flatnonzero(taken)
    rounds.take(rows, count[rows], end[rows])


class _CollectionNode(Node):
    """What ARRAY, MAP and MULTISET have in common: the payload is the index of the first member and their number."""

    dtypes = (bool, np.int64, np.int64)
    _kind: pa.DataType

    def _scanned(self, batch: JsonBytes, window: Window, rounds: _Rounds, parts: _Parts, nodes: list[Node]) -> Scanned:
        first = np.cumsum(rounds.count) - rounds.count
        members = parts.ordered(nodes, rounds.count, first)
        first += batch.add_elements(self, members, int(rounds.count.sum()))
        valid = np.ones(len(window), bool)
        rows = np.flatnonzero(~rounds.ok)
        if len(rows):
            part = window.select(rows)
            null = is_null(part)
            valid[rows] = False
            rounds.ok[rows] = null
            rounds.end[rows] = part.position + 4 * null
        return Scanned(rounds.end, rounds.ok, [valid, first, rounds.count])

    def _members(self, batch: JsonBytes, payload: Payload, nodes: list[Node]) -> tuple[Payload, Column]:
        """The payload of all members in order, and Arrow's offsets of the collections."""
        valid, first, count = payload
        count = np.where(valid, count, 0)
        offsets = np.zeros(len(count) + 1, np.int32)
        np.cumsum(count, out=offsets[1:])
        total = int(offsets[-1])
        members = batch.elements(self)
        if members is None:
            return [column for node in nodes for column in node.empty(0)], offsets
        if len(members[0]) != total or not np.array_equal(first[count > 0], offsets[:-1][count > 0]):
            order = spread(first, count)
            members = [column[order] for column in members]
        return members, offsets

    def _collected(self, valid: Mask, offsets: Column, members: pa.Array) -> pa.Array:
        buffers = [validity(valid), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(self._kind, len(valid), buffers, children=[members])


class ArrayNode(_CollectionNode):
    """ARRAY: a JSON array of what the element's node takes."""

    def __init__(self, kind: pa.DataType, element: Node) -> None:
        self._kind, self._element = kind, element

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        rounds, parts = _Rounds(batch, window, bits.OPEN_ARRAY, bits.CLOSE_ARRAY), _Parts()
        if isinstance(self._element, TextNode):
            _read_short_texts(batch, window, rounds, parts)
        while rounds.go_on():
            number, rows = rounds.number, rounds.rows
            end, ok, payload = self._element.scan(batch, batch.window(rounds.at))
            rounds.advance(end, ok)
            parts.add(number, rows, payload)
        rounds.finish(window)
        return self._scanned(batch, window, rounds, parts, [self._element])

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        members, offsets = self._members(batch, payload, [self._element])
        return self._collected(payload[0], offsets, self._element.build(batch, members))


class MapNode(_CollectionNode):
    """MAP and MULTISET with keys of text: a JSON object; repeated keys are refused, and null counts."""

    def __init__(self, kind: pa.DataType, value: Node, *, counts: bool) -> None:
        self._kind, self._value, self._counts = kind, value, counts
        self._key = _KeyNode()

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        rounds, parts = _Rounds(batch, window, bits.OPEN_OBJECT, bits.CLOSE_OBJECT), _Parts()
        while rounds.go_on():
            number, rows = rounds.number, rounds.rows
            key_end, ok, key = self._key.scan(batch, batch.window(rounds.at))
            at, found = after_colon(batch, key_end)
            ok &= found
            end, fine, value = self._value.scan(batch, batch.window(at))
            ok &= fine
            if self._counts:
                ok &= value[0]
            rounds.advance(end, ok)
            parts.add(number, rows, [*key, *value])
        self._refuse_repeated(batch, rounds, parts)
        rounds.finish(window)
        return self._scanned(batch, window, rounds, parts, [self._key, self._value])

    def _refuse_repeated(self, batch: JsonBytes, rounds: _Rounds, parts: _Parts) -> None:
        count = np.where(rounds.ok, rounds.count, 0)
        if not len(count) or count.max() < 2:
            return
        first = np.cumsum(count) - count
        members = parts.ordered([self._key, self._value], count, first)
        keys = batch.pieces(members[1], members[2], pa.string())
        codes = np.asarray(keys.dictionary_encode().indices).astype(np.int64)
        owner = np.repeat(np.arange(len(count)), count)
        both = owner * (len(codes) + 1) + codes
        both.sort()
        rounds.ok[both[1:][both[1:] == both[:-1]] // (len(codes) + 1)] = False

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        members, offsets = self._members(batch, payload, [self._key, self._value])
        width = len(self._key.dtypes)
        columns = [self._key.build(batch, members[:width]), self._value.build(batch, members[width:])]
        fields = [self._kind.key_field, self._kind.item_field]
        return self._collected(payload[0], offsets, pa.StructArray.from_arrays(columns, fields=fields))


class _KeyNode(TextNode):
    """A key of a map: a string and nothing else."""

    def __init__(self) -> None:
        super().__init__(streaming=True)

    def _others(self, batch: JsonBytes, window: Window, found: Scanned) -> None:
        bad = np.flatnonzero(~found.ok)
        found.end[bad] = window.position[bad]


def after_colon(batch: JsonBytes, position: Ints) -> tuple[Ints, Mask]:
    """Go over the colon behind a key, with blanks around it, to the value."""
    position, found = bits.skip_blanks(batch, position)
    position, _ = bits.skip_blanks(batch, position + 1)
    return position, found == bits.COLON


class SkipNode(Node):
    """A value that belongs to no column: anything well-formed, a few levels deep at most."""

    dtypes = ()

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        first = window.first()
        readers = (
            (first == bits.QUOTE, self._text),
            (bits.is_digit(first) | (first == bits.MINUS), self._number),
            ((first >= ord("a")) & (first <= ord("z")), self._literal),
            (first == bits.OPEN_OBJECT, self._object),
            (first == bits.OPEN_ARRAY, self._array),
        )
        end, ok = window.position.copy(), np.zeros(len(window), bool)
        for chosen, reader in readers:
            count = np.count_nonzero(chosen)
            if count == len(window):
                return Scanned(*reader(batch, window), [])
            if count:
                rows = np.flatnonzero(chosen)
                found, fine = reader(batch, window.select(rows))
                end[rows] = np.where(fine, found, end[rows])
                ok[rows] |= fine
        return Scanned(end, ok, [])

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        raise NotImplementedError("a skipped value has no column")

    def _text(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask]:
        start, quote, ok, escaped = read_text(batch, window)
        if escaped is not None:
            rows = np.flatnonzero(escaped)
            ok[rows] = unescape(batch, start[rows], quote[rows])[2]
        return quote + 1, ok

    def _number(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask]:
        number = read_number(batch, window)
        return number.end, number.ok

    def _literal(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask]:
        word = window.word(0)
        length = np.zeros(len(window), np.int64)
        for text in (b"null", b"true", b"false"):
            mask = np.uint64(256 ** len(text) - 1)
            length[(word & mask) == np.uint64(int.from_bytes(text, "little"))] = len(text)
        return window.position + length, length > 0

    def _object(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask]:
        return self._container(batch, window, bits.OPEN_OBJECT, bits.CLOSE_OBJECT)

    def _array(self, batch: JsonBytes, window: Window) -> tuple[Ints, Mask]:
        return self._container(batch, window, bits.OPEN_ARRAY, bits.CLOSE_ARRAY)

    def _container(self, batch: JsonBytes, window: Window, opening: int, closing: int) -> tuple[Ints, Mask]:
        if self._depth >= _DEEPEST:
            return window.position.copy(), np.zeros(len(window), bool)
        rounds = _Rounds(batch, window, opening, closing)
        inner = SkipNode(self._depth + 1)
        while rounds.go_on():
            at, ok = rounds.at, np.ones(len(rounds.rows), bool)
            if opening == bits.OPEN_OBJECT:
                key_end, ok = self._text(batch, batch.window(at))
                at, found = after_colon(batch, key_end)
                ok &= found
            end, fine, _ = inner.scan(batch, batch.window(at))
            rounds.advance(end, ok & fine)
        rounds.finish(window)
        return rounds.end, rounds.ok
