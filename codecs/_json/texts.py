"""JSON strings at many cursors: their ends, their escapes, and columns of STRING and BYTES."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Bytes, Column, Ints, Mask, Window, spread
from kvformat.codecs._json import bits
from kvformat.codecs._json.node import JsonBytes, Node, Payload, Scanned, is_null
from kvformat.codecs._json.numbers import read_number

_FIRST_HOPS = 8
_MOST_HOPS = 48
_MANY = 512
_MOST_MARKS = 1 << 22
_DECODER = json.JSONDecoder(strict=False)
_MALFORMED = pa.nulls(1, pa.string())
_LONGEST_TREE = 1 << 16
_LONGEST_INTEGER = 100
_MOST_LEVELS = 500

_TRUE = np.uint64(int.from_bytes(b"true", "little"))
_FALSE = np.uint64(int.from_bytes(b"false", "little"))
_FIVE_BYTES = np.uint64(0xFFFFFFFFFF)


def read_text(batch: JsonBytes, window: Window) -> tuple[Ints, Ints, Mask, Mask | None]:
    """Find the strings at the cursors.

    Returns the positions of their first character and of the closing quote, where there is a string at all, and
    where it has escapes (None: nowhere). The escapes are not checked yet.
    """
    ok: Mask = window.first() == bits.QUOTE
    quotes = window.marks(bits.QUOTE, 1)
    marks = quotes | window.marks(bits.BACKSLASH, 1) if batch.escapes else quotes
    start = window.position + 1
    length, nearest = bits.first_bit(marks)
    quote = start + length
    unfinished = (quotes & nearest) == 0
    unfinished &= ok
    escaped = None
    rows = np.flatnonzero(unfinished)
    if len(rows):
        begin = start[rows] + np.minimum(length[rows], window.reach(1))
        quote[rows], ok[rows], has_escapes = _finish(batch, begin)
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
    for hop in range(_MOST_HOPS):
        if hop >= _FIRST_HOPS and len(rows) > _MANY:
            break
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
    position[rows], ok[rows], found_escapes = _look_up(batch, position[rows])
    escaped[rows] |= found_escapes
    return position, ok, escaped


def _look_up(batch: JsonBytes, position: Ints) -> tuple[Ints, Mask, Mask]:
    """As `_finish` for texts that go on for long: by the places of all quotes and all escapes of the batch."""
    if batch.marks is None:
        batch.marks = _marks(batch)
    quotes, escapes = batch.marks
    index = np.searchsorted(quotes, position)
    ok: Mask = index < len(quotes)
    quote = quotes.take(index, mode="clip") if len(quotes) else position.copy()
    index = np.searchsorted(escapes, position)
    escaped: Mask = index < np.searchsorted(escapes, quote)
    return quote, ok, escaped


def _marks(batch: JsonBytes) -> tuple[Ints, Ints]:
    """The positions of all quotes that can end a text, and of all escapes; of millions of either, none."""
    none = np.zeros(0, np.int64)
    escapes = none
    data = batch.bytes[: batch.size + 1]
    found = data == bits.QUOTE
    if batch.escapes:
        slashes = data == bits.BACKSLASH
        if np.count_nonzero(slashes) > _MOST_MARKS:
            return none, none
        escapes = _escape_places(np.flatnonzero(slashes))
        found[escapes + 1] = False
    return (np.flatnonzero(found) if np.count_nonzero(found) <= _MOST_MARKS else none), escapes


def _escape_places(slashes: Ints) -> Ints:
    """Which backslashes begin an escape, given all of them."""
    follows = np.zeros(len(slashes), bool)
    np.equal(slashes[1:], slashes[:-1] + 1, out=follows[1:])
    if not follows.any():
        return slashes
    index = np.arange(len(slashes))
    first = np.maximum.accumulate(np.where(follows, 0, index))
    begins: Mask = (index - first) & 1 == 0
    return slashes[begins]


def unescape(batch: JsonBytes, start: Ints, quote: Ints) -> tuple[Ints, Ints, Mask]:
    """The texts without their escapes, kept apart; returns where they are, and whose escapes are well-formed.

    Lone surrogates count as malformed: UTF-8 has no room for them.
    """
    if int((quote - start).sum()) > batch.size:
        # rows that read along with another one have its text, which may be long
        _, first, places = np.unique(start, return_index=True, return_inverse=True)
        if len(first) < len(start):
            begin, end, ok = unescape(batch, start[first], quote[first])
            return begin[places], end[places], ok[places]
    quoted = batch.texts(start - 2, quote + 1)
    offsets = np.frombuffer(quoted.buffers()[1], np.int32)[: len(quoted) + 1]
    data = bytearray(memoryview(quoted.buffers()[2])[: offsets[-1]])
    # each text has its quotes and one character before them: together they are nearly a JSON array
    np.frombuffer(data, np.uint8)[offsets[:-1]] = bits.COMMA
    found = _decoded(data)
    if found is None:
        found = pa.concat_arrays(
            [_decoded(data[first:end]) or _MALFORMED for first, end in itertools.pairwise(offsets.tolist())]
        )
    ends = np.frombuffer(found.buffers()[1], np.int32)[: len(found) + 1].astype(np.int64)
    ends += batch.append(np.frombuffer(found.buffers()[2] or b"", np.uint8)[: ends[-1]])
    return ends[:-1], ends[1:], np.asarray(found.is_valid())


def _decoded(data: bytearray) -> pa.StringArray | None:
    """The texts of strings with a comma before each one; None if one of them is malformed."""
    data[:1] = b"["
    try:
        return pa.array(_DECODER.decode(f"{data.decode()}]"), pa.string())
    except (json.JSONDecodeError, UnicodeEncodeError):
        return None


def _write_trees(batch: JsonBytes, position: Ints) -> tuple[Ints, Ints, Ints, Mask]:
    """Write the objects and arrays at some positions as texts; returns where these are, the ends, and what is fine."""
    # some rows only read along with another one, at the same place
    position, places = np.unique(position, return_inverse=True)
    stop = batch.end.take(np.searchsorted(batch.end, position, "right"), mode="clip")
    stop = np.minimum(stop, position + _LONGEST_TREE)
    found = [_tree_text(batch.raw[at:end]) for at, end in zip(position.tolist(), stop.tolist(), strict=True)]
    texts = [text for text, _ in found]
    size, read = np.array([len(text) for text in texts]), np.array([length for _, length in found])
    end = np.cumsum(size) + batch.append(np.frombuffer(b"".join(texts), np.uint8))
    return (end - size)[places], end[places], (position + read)[places], (read > 0)[places]


def _tree_text(data: bytearray) -> tuple[bytes, int]:
    """The value that the data begin with, written without blanks, and how long it was; 0 if it is refused."""
    try:
        text = data.decode()
        tree, end = _TREES.raw_decode(text)
    except (ValueError, RecursionError):
        return b"", 0
    if text.find("\\u", 0, end) >= 0 or text.count("{", 0, end) + text.count("[", 0, end) > _MOST_LEVELS:
        return b"", 0
    return _COMPACT.encode(tree).encode(), end if text.isascii() else len(text[:end].encode())


def _refuse(token: str) -> None:
    raise ValueError


def _short_integer(token: str) -> int:
    if len(token) > _LONGEST_INTEGER:
        raise ValueError
    return int(token)


_TREES = json.JSONDecoder(parse_int=_short_integer, parse_float=_refuse, parse_constant=_refuse)
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class TextNode(Node):
    """CHAR, VARCHAR, STRING: strings as they are, numbers and booleans as their text, objects and arrays as theirs.

    The tree reader writes numbers anew, so there only integers keep their text. Objects and arrays are written anew by
    both: those with fractions or hexadecimal escapes, whose spelling is Java's, are refused.
    """

    dtypes = (bool, np.int64, np.int64)
    margin = 1

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
        """Read what is no string: null, true, false, numbers, objects and arrays."""
        end, ok, (valid, start, quote) = found
        rows = np.flatnonzero(~ok)
        part = window.select(rows)
        position, null = part.position, is_null(part)
        length = null * np.int64(4)
        if not null.all():
            self._read_others(batch, part, length)
        valid[rows[null]] = False
        ok[rows] = length > 0
        start[rows] = position
        end[rows] = position + length
        quote[rows] = np.where(null, position, end[rows])
        first = part.first()
        rows = rows[(length == 0) & ((first == bits.OPEN_OBJECT) | (first == bits.OPEN_ARRAY))]
        if len(rows):
            start[rows], quote[rows], end[rows], ok[rows] = _write_trees(batch, start[rows])

    def _read_others(self, batch: JsonBytes, window: Window, length: Ints) -> None:
        """Find out how long what is no null is."""
        word = window.word(0)
        length[((word & np.uint64(0xFFFFFFFF)) == _TRUE)] = 4
        length[((word & _FIVE_BYTES) == _FALSE)] = 5
        odd = np.flatnonzero(length == 0)
        if len(odd):
            number = read_number(batch, window.select(odd))
            fine = number.ok
            if not self._streaming:
                zero = number.negative & (number.mantissa == 0)
                fine &= number.exact & ~number.dotted & ~zero
            length[odd] = np.where(fine, number.end - window.position[odd], 0)

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        valid, start, end = payload
        return batch.pieces(start, end, pa.string(), None if valid.all() else valid)


_PAD = 64
_CODES = np.full(256, 255, np.uint8)
_CODES[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")] = np.arange(65)


class BytesNode(Node):
    """BINARY, VARBINARY, BYTES: strings of base64 in its one canonical spelling; everything else is refused."""

    dtypes = (bool, np.int64, np.int64)
    margin = 1

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
