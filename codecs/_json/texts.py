"""JSON strings at many cursors: their ends, their escapes, and columns of STRING and BYTES."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Bytes, Column, Ints, Mask, Window, spread
from kvformat.codecs._json import bits
from kvformat.codecs._json.node import JsonBytes, Node, Payload, Scanned, is_null
from kvformat.codecs._json.numbers import read_number

_REST_OF_TEXT = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_MOST_HOPS = 24
_PLAIN_ESCAPES = np.zeros(256, np.uint8)
_PLAIN_ESCAPES[list(b'"\\/bfnrt')] = list(b'"\\/\b\f\n\r\t')
_HEX = np.full(256, 16)
_HEX[list(b"0123456789abcdefABCDEF")] = [*range(16), *range(10, 16)]
_UTF8_LIMITS = np.array([0, 0x80, 0x800, 0x10000])
_UTF8_HEADS = (0, 0, 0xC0, 0xE0, 0xF0)

_TRUE = np.uint64(int.from_bytes(b"true", "little"))
_FALSE = np.uint64(int.from_bytes(b"false", "little"))
_FIVE_BYTES = np.uint64(0xFFFFFFFFFF)


def read_text(batch: JsonBytes, window: Window) -> tuple[Ints, Ints, Mask, Mask | None]:
    """Find the strings at the cursors.

    Returns the positions of their first character and of the closing quote, where there is a string at all, and
    where it has escapes (None: nowhere). The escapes are not checked yet.
    """
    ok: Mask = window.first() == bits.QUOTE
    word = window.word(1)
    marks = bits.quotes(word)
    if batch.escapes:
        marks |= bits.backslashes(word)
    length = bits.first_mark(marks)
    unfinished = marks == 0
    for distance in (9, 17, 25):
        if 3 * np.count_nonzero(unfinished) < len(window):
            break
        word = window.word(distance)
        marks = bits.quotes(word)
        if batch.escapes:
            marks |= bits.backslashes(word)
        length += bits.first_mark(marks) * unfinished
        unfinished &= marks == 0
    start = window.position + 1
    quote = start + length
    if batch.escapes:
        unfinished |= batch.byte(quote) == bits.BACKSLASH
    unfinished &= ok
    escaped = None
    rows = np.flatnonzero(unfinished)
    if len(rows):
        quote[rows], ok[rows], has_escapes = _finish(batch, quote[rows])
        has_escapes &= ok[rows]
        if has_escapes.any():
            escaped = np.zeros(len(window), bool)
            escaped[rows] = has_escapes
    if not ok.all():
        np.copyto(quote, start, where=~ok)
    return start, quote, ok, escaped


def _finish(batch: JsonBytes, position: Ints) -> tuple[Ints, Mask, Mask]:
    """Go on to the closing quotes; returns their positions, where there is one, where escapes stood before it."""
    position = position.copy()
    ok, escaped = np.zeros(len(position), bool), np.zeros(len(position), bool)
    rows = np.arange(len(position))
    for _ in range(_MOST_HOPS):
        word = batch.word(position[rows])
        marks = bits.quotes(word) | bits.backslashes(word) if batch.escapes else bits.quotes(word)
        at = position[rows] + bits.first_mark(marks)
        found = batch.byte(at)
        closed = found == bits.QUOTE
        ok[rows[closed]] = True
        escape = found == bits.BACKSLASH
        if escape.any():
            escaped[rows[escape]] = True
            at += 2 * escape
        position[rows] = at
        rows = rows[~closed]
        if not len(rows):
            return position, ok, escaped
    raw = batch.raw
    for row in rows.tolist():
        match = _REST_OF_TEXT.match(raw, int(position[row]))
        if match:
            escaped[row] |= b"\\" in match[0]
            position[row], ok[row] = match.end() - 1, True
    return position, ok, escaped


def unescape(batch: JsonBytes, start: Ints, quote: Ints) -> tuple[Ints, Ints, Mask]:
    """The texts without their escapes, kept apart; returns where they are, and which escapes are well-formed.

    Lone surrogates count as malformed: UTF-8 has no room for them.
    """
    texts = batch.texts(start, quote)
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[: len(texts) + 1].astype(np.int64)
    data = np.frombuffer(texts.buffers()[2], np.uint8)[: offsets[-1]].copy()
    place = _escape_places(data)
    counts = np.diff(np.searchsorted(place, offsets))
    escapes = _Escapes(place, np.repeat(np.arange(len(texts)), counts), data)
    ok = np.ones(len(texts), bool)
    ok[escapes.owner[~escapes.check(offsets)]] = False
    kept = data[escapes.write(data)]
    dropped = np.bincount(escapes.owner, escapes.dropped, len(texts)).astype(np.int64)
    offsets[1:] -= np.cumsum(dropped)
    offsets += batch.append(kept)
    return offsets[:-1], offsets[1:], ok


def _escape_places(data: Bytes) -> Ints:
    """Where escapes begin, in texts that don't end inside of one."""
    place = np.flatnonzero(data == bits.BACKSLASH)
    follows = np.zeros(len(place), bool)
    np.equal(place[1:], place[:-1] + 1, out=follows[1:])
    if not follows.any():
        return place
    index = np.arange(len(place))
    first = np.maximum.accumulate(np.where(follows, 0, index))
    begins: Mask = (index - first) & 1 == 0
    return place[begins]


class _Escapes:
    """The escapes at some places, each with the text that owns it; `dropped` is how many bytes each one loses."""

    def __init__(self, place: Ints, owner: Ints, data: Bytes) -> None:
        self.place, self.owner = place, owner
        self._kind = data.take(place + 1, mode="clip")
        self.dropped = np.ones(len(place), np.int64)
        rows = np.flatnonzero(self._kind == ord("u"))
        self._rows = rows
        digits = [_HEX[data.take(place[rows] + at, mode="clip")] for at in range(2, 6)]
        self._hex = np.maximum.reduce(digits) < 16
        self._code = (digits[0] << 12) | (digits[1] << 8) | (digits[2] << 4) | digits[3]
        half = (self._code & 0xF800) == 0xD800
        low = half & (self._code & 0x400 != 0)
        at = place[rows]
        pair = np.zeros(len(rows), bool)
        pair[:-1] = low[1:] & (half & ~low)[:-1] & (at[1:] == at[:-1] + 6) & (owner[rows[1:]] == owner[rows[:-1]])
        self._second = np.zeros(len(rows), bool)
        self._second[1:] = pair[:-1]
        self._lone = half & ~pair & ~self._second
        self._code[pair] = 0x10000 + ((self._code[pair] & 0x3FF) << 10) + (self._code[1:][pair[:-1]] & 0x3FF)

    def check(self, end: Ints) -> Mask:
        """Which escapes are well-formed, given the offsets of the texts. Only these are written."""
        ok: Mask = _PLAIN_ESCAPES[self._kind] > 0
        rows = self._rows
        ok[rows] = self._hex & ~self._lone & (self.place[rows] + 6 <= end[self.owner[rows] + 1])
        # the first half of a pair is as good as the second
        fine = ok[rows]
        fine[:-1] &= ~self._second[1:] | fine[1:]
        fine[1:] &= ~self._second[1:] | fine[:-1]
        ok[rows] = fine
        self._ok = ok
        return ok

    def write(self, data: Bytes) -> Mask:
        """Write what the escapes stand for over them; returns which bytes of the data stay."""
        kept = np.ones(len(data), bool)
        self.dropped *= self._ok
        plain = self.place[self._ok & (self._kind != ord("u"))]
        data[plain] = _PLAIN_ESCAPES[data[plain + 1]]
        kept[plain + 1] = False
        fine = self._ok[self._rows]
        rows, code = self._rows[fine], self._code[fine]
        if len(rows):
            self.dropped[rows] = _write_codes(data, kept, self.place[rows], np.where(self._second[fine], -1, code))
        return kept


def _write_codes(data: Bytes, kept: Mask, place: Ints, code: Ints) -> Ints:
    """Write characters in UTF-8 over escapes of six bytes, nothing for -1; returns how many bytes each one drops."""
    length = np.searchsorted(_UTF8_LIMITS, code, "right")
    for size in np.unique(length).tolist():
        mine = length == size
        at, bits_ = place[mine], code[mine]
        for index in range(6):
            kept[at + index] = index < size
        for index in range(size - 1, 0, -1):
            data[at + index] = 0x80 | (bits_ & 0x3F)
            bits_ = bits_ >> 6
        if size:
            data[at] = bits_ | _UTF8_HEADS[size]
    return 6 - length


class TextNode(Node):
    """CHAR, VARCHAR, STRING: strings as they are, numbers and booleans as their text, objects and arrays refused.

    The tree reader writes numbers anew, so there only integers keep their text.
    """

    dtypes = (bool, np.int64, np.int64)

    def __init__(self, *, streaming: bool) -> None:
        self._streaming = streaming

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        start, quote, ok, escaped = read_text(batch, window)
        end = quote + 1
        if escaped is not None:
            rows = np.flatnonzero(escaped)
            start[rows], quote[rows], fine = unescape(batch, start[rows], quote[rows])
            ok[rows[~fine]] = False
        valid = np.ones(len(window), bool)
        if not ok.all():
            self._others(batch, window, Scanned(end, ok, [valid, start, quote]))
        return Scanned(end, ok, [valid, start, quote])

    def _others(self, batch: JsonBytes, window: Window, found: Scanned) -> None:
        """Read what is no string: null, true, false, numbers."""
        end, ok, (valid, start, quote) = found
        rows = np.flatnonzero(~ok)
        part = window.select(rows)
        position, word = part.position, part.word(0)
        length = np.zeros(len(rows), np.int64)
        null = is_null(part)
        length[null] = 4
        length[((word & np.uint64(0xFFFFFFFF)) == _TRUE)] = 4
        length[((word & _FIVE_BYTES) == _FALSE)] = 5
        odd = np.flatnonzero(length == 0)
        if len(odd):
            number = read_number(batch, part.select(odd))
            fine = number.ok
            if not self._streaming:
                zero = number.negative & (number.mantissa == 0)
                fine &= number.exact & ~number.dotted & ~zero
            length[odd] = np.where(fine, number.end - position[odd], 0)
        valid[rows[null]] = False
        ok[rows] = length > 0
        start[rows] = position
        end[rows] = position + length
        quote[rows] = np.where(null, position, end[rows])

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        valid, start, end = payload
        return batch.pieces(start, end, pa.string(), None if valid.all() else valid)


_PAD = 64
_CODES = np.full(256, 255, np.uint8)
_CODES[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")] = np.arange(65)


class BytesNode(Node):
    """BINARY, VARBINARY, BYTES: strings of base64 in its one canonical spelling; everything else is refused."""

    dtypes = (bool, np.int64, np.int64)

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        start, quote, ok, escaped = read_text(batch, window)
        end = quote + 1
        ok &= (quote - start) & 3 == 0
        if escaped is not None:
            ok &= ~escaped
        valid = np.ones(len(window), bool)
        rows = np.flatnonzero(ok)
        start[rows], quote[rows], fine = _decode_base64(batch, start[rows], quote[rows])
        ok[rows[~fine]] = False
        rows = np.flatnonzero(~ok)
        if len(rows):
            null = is_null(window)[rows]
            valid[rows] = False
            ok[rows] = null
            end[rows] = window.position[rows] + 4 * null
            start[rows] = quote[rows] = 0
        return Scanned(end, ok, [valid, start, quote])

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        valid, start, end = payload
        return batch.pieces(start, end, pa.binary(), None if valid.all() else valid)


def _decode_base64(batch: JsonBytes, start: Ints, quote: Ints) -> tuple[Ints, Ints, Mask]:
    """Decode texts whose lengths are multiples of four; returns where the bytes are, and which texts are canonical."""
    groups = (quote - start) >> 2
    last = np.cumsum(groups)
    ok = np.ones(len(groups), bool)
    codes = _CODES[batch.bytes[spread(start, 4 * groups)]].reshape(-1, 4)
    padded, bad = _check_base64(codes)
    ends_text = np.zeros(len(codes), bool)
    ends_text[last[groups > 0] - 1] = True
    bad |= (padded > 0) & ~ends_text
    owner = np.repeat(np.arange(len(groups)), groups)
    ok[owner[bad]] = False
    a, b, c, d = ((codes & 63)[:, i] for i in range(4))
    decoded: Column = np.stack([(a << 2) | (b >> 4), (b << 4) | (c >> 2), (c << 6) | d], axis=1)
    base = batch.append(decoded.astype(np.uint8).reshape(-1))
    first = base + 3 * (last - groups)
    cut = np.zeros(len(groups), np.int64)
    cut[groups > 0] = padded[last[groups > 0] - 1]
    end = first + 3 * groups - cut
    return first, end, ok


def _check_base64(codes: Bytes) -> tuple[Bytes, Mask]:
    """How many characters of each group are padding, and which groups are not canonical."""
    pad = codes == _PAD
    padded = pad.sum(axis=1).astype(np.uint8)
    bad = (codes == 255).any(axis=1) | pad[:, 0] | pad[:, 1] | (pad[:, 2] & ~pad[:, 3])
    bad |= (padded == 1) & (codes[:, 2] & 3 != 0)
    bad |= (padded == 2) & (codes[:, 1] & 15 != 0)
    return padded, bad
