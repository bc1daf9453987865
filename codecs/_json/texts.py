"""JSON strings at many cursors: their ends, their escapes, and columns of STRING and BYTES."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Bytes, Column, Ints, Mask, Window, spread
from kvformat.codecs._json import bits
from kvformat.codecs._json.node import JsonBytes, Node, Payload, Scanned, is_null
from kvformat.codecs._json.numbers import read_number

_REST_OF_TEXT = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_MOST_HOPS = 24
_UNESCAPE = json.JSONDecoder(strict=False).decode

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
        if has_escapes.any():
            escaped = np.zeros(len(window), bool)
            escaped[rows] = has_escapes & ok[rows]
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
    raw = batch.raw
    texts = [raw[a:b] for a, b in zip(start.tolist(), quote.tolist(), strict=True)]
    ok = np.ones(len(texts), bool)
    try:
        plain = pa.array(_UNESCAPE((b'["' + b'","'.join(texts) + b'"]').decode()), pa.string())
    except ValueError:
        values = [_unescape_one(text) for text in texts]
        ok[:] = [value is not None for value in values]
        plain = pa.array([value or "" for value in values], pa.string())
    offsets = np.frombuffer(plain.buffers()[1], np.int32)[: len(plain) + 1].astype(np.int64)
    data = plain.buffers()[2]
    offsets += batch.append(np.frombuffer(data, np.uint8)[: offsets[-1]] if data else np.zeros(0, np.uint8))
    return offsets[:-1], offsets[1:], ok


def _unescape_one(text: bytearray) -> str | None:
    try:
        value: str = _UNESCAPE((b'"' + text + b'"').decode())
        value.encode()
    except ValueError:
        return None
    return value


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
