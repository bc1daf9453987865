"""How the producers of a batch lay out an object: which keys in which order, with which blanks.

Learned from a few messages by plain Python. What is learned only says what to try first; it never decides what a
message means.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import dataclass, replace

_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_PLAIN = re.compile(rb"[-+.0-9A-Za-z]+")
_KEY = re.compile(rb'"([^"\\]*)"([ \t\r\n]*:[ \t\r\n]*)')
_OPEN = re.compile(rb"\{[ \t\r\n]*")
_COMMA = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")
_CLOSE = re.compile(rb"[ \t\r\n]*\}")
_BRACKETS = re.compile(rb'["\[\]{}]')
_MOST_MEMBERS = 512
_MOST_BYTES = 65536
_LONGEST_GAP = 32
_LONGEST_KEY = 200
_FEW = 3
_DEEPEST = 4
_MOST_MATCHED = 16384


@dataclass(frozen=True, slots=True)
class Layout:
    """The keys of an object and the texts around them: `open` + key + `colon` + value + `comma` + key + ...

    `mixed`: no two of several objects are laid out alike.
    """

    keys: tuple[bytes, ...]
    open: bytes = b"{"
    comma: bytes = b","
    colon: bytes = b":"
    mixed: bool = False

    @property
    def gaps(self) -> tuple[bytes, bytes, bytes]:
        """The texts around the keys."""
        return self.open, self.comma, self.colon


def learn(raw: bytes | bytearray, starts: list[int], likely: Layout | None = None) -> Layout | None:
    """The layout of most of the objects at these positions; None where none can be read.

    One that is `likely` is found faster; the answer does not depend on it.
    """
    layouts: list[Layout] = []
    for start in starts:
        if not likely or likely.mixed or not _pattern(likely).match(raw, start, start + _MOST_MATCHED):
            likely = _layout(raw, start)
        if likely:
            layouts.append(likely)
    if len(set(layouts)) == 1:
        return layouts[0]
    found, most = None, 0
    for first, _ in Counter(layouts).most_common(_FEW):
        keys, alike = list(first.keys), 0
        for other in layouts:
            merged = _merge(keys, other.keys) if other.gaps == first.gaps else None
            if merged is not None:
                keys, alike = merged, alike + 1
        if alike > most:
            most, found = alike, replace(first, keys=tuple(keys), mixed=alike == 1 and len(layouts) > _FEW)
        if 2 * most > len(layouts):
            break
    return found


def members(raw: bytes | bytearray, start: int) -> list[tuple[bytes, int, int]] | None:
    """The members of an object of JSON: each with its key, as it is written, and where its value begins and ends.

    None where a key has escapes, or the object is too large.
    """
    found: list[tuple[bytes, int, int]] = []
    gap = _OPEN.match(raw, start)
    while gap and len(found) < _MOST_MEMBERS:
        key = _KEY.match(raw, gap.end())
        end = _value_end(raw, key.end()) if key else None
        if not key or end is None:
            return None
        found.append((key[1], key.end(), end))
        gap = _COMMA.match(raw, end)
        if not gap:
            return found if _CLOSE.match(raw, end) else None
    return None


def with_keys(layout: Layout, wanted: list[bytes]) -> Layout:
    """The layout with further keys, each behind the one that precedes it in `wanted`."""
    keys, at = list(layout.keys), 0
    for key in wanted:
        if key not in keys:
            keys.insert(at, key)
        at = keys.index(key) + 1
    return replace(layout, keys=tuple(keys))


def _merge(keys: list[bytes], order: tuple[bytes, ...]) -> list[bytes] | None:
    """The keys with those that another object has besides; None where it has them in another order."""
    merged, at = list(keys), 0
    for key in order:
        place = merged.index(key) if key in merged else -1
        if 0 <= place < at:
            return None
        if place < 0:
            merged.insert(at, key)
            place = at
        at = place + 1
    return merged


def _layout(raw: bytes | bytearray, start: int) -> Layout | None:
    """The layout of one object, as far as it can be read."""
    opened = _OPEN.match(raw, start)
    if not opened or len(opened[0]) > _LONGEST_GAP:
        return None
    keys: dict[bytes, None] = {}
    comma = colon = None
    at = opened.end()
    while len(keys) < _MOST_MEMBERS and at - start < _MOST_BYTES:
        key = _KEY.match(raw, at)
        end = _value_end(raw, key.end()) if key else None
        if not key or end is None:
            break
        if len(key[1]) <= _LONGEST_KEY:
            keys[key[1]] = None
        colon = colon or key[2]
        gap = _COMMA.match(raw, end)
        if not gap:
            break
        comma = comma or gap[0]
        at = gap.end()
    if not keys:
        return None
    comma, colon = (gap if gap and len(gap) <= _LONGEST_GAP else b"" for gap in (comma, colon))
    return Layout(tuple(keys), opened[0], comma or b",", colon or b":")


@functools.lru_cache(maxsize=64)
def _pattern(layout: Layout) -> re.Pattern[bytes]:
    """What objects of this layout with all of its keys match: that is faster than to go through them."""
    text, between = _TEXT.pattern, rb'[^"\[\]{}]*'
    inner = text
    for _ in range(_DEEPEST):
        container = rb"[\[{]%b(?:(?:%b)%b)*[\]}]" % (between, inner, between)
        inner = rb"%b|%b" % (text, container)
    value = rb"(?:%b|%b)" % (inner, _PLAIN.pattern)
    members = (b'"' + re.escape(key) + b'"' + re.escape(layout.colon) + value for key in layout.keys)
    return re.compile(
        re.escape(layout.open) + re.escape(layout.comma).join(members) + rb"(?!%b)" % _COMMA.pattern, re.DOTALL
    )


def _value_end(raw: bytes | bytearray, at: int) -> int | None:
    if raw[at : at + 1] not in (b"{", b"["):
        value = _TEXT.match(raw, at) or _PLAIN.match(raw, at)
        return value.end() if value else None
    depth, end = 0, at + _MOST_BYTES
    while at < end:
        mark = _BRACKETS.search(raw, at, end)
        if not mark:
            return None
        at = mark.end()
        if mark[0] == b'"':
            text = _TEXT.match(raw, mark.start(), end)
            if not text:
                return None
            at = text.end()
            continue
        depth += 1 if mark[0] in b"{[" else -1
        if depth == 0:
            return at
    return None
