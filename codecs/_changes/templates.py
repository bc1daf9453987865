"""Objects that nobody asked for, and that are nearly the same text in each message, such as Debezium's `source`.

A template is the text of such an object, of which the usual reader found that it is JSON, with gaps for the
numbers in which several of them differ. A text that is the same around other numbers is JSON as well: it need only
be compared, not read. All others are left to the usual reader, so a template decides about speed alone.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Ints, Literal, Mask, Window
from kvformat.codecs._json import bits
from kvformat.codecs._json.node import JsonBytes, Node, Payload, Scanned, put
from kvformat.codecs._json.objects import RowNode

_TOKEN = re.compile(rb'(?P<text>"(?:[^"\\]|\\.)*")(?P<colon>[ \t\r\n]*:)?|(?P<number>-?[0-9][-+.0-9eE]*)', re.DOTALL)
_WHOLE = re.compile(rb"-?[0-9]+")
_DIGITS = re.compile(rb"([0-9]+)")
_WIDTH = 64  # of a window
_MOST_DIGITS = 24
_MOST_GAPS = 12
_LONGEST = 4096
_SAMPLES = 16
_FEWEST = 3


class UnaskedNode(Node):
    """An object or null that nobody asked for, compared with a template that earlier batches gave, else read.

    The payload says whether it is an object. Immutable but for the template.
    """

    dtypes = (bool,)

    def __init__(self) -> None:
        # passing over the members of an object in their usual order is faster than one by one
        self._usual = RowNode([], [], pa.struct([]), fail_on_missing=False)
        self._template: Template | None = None

    def scan(self, batch: JsonBytes, window: Window) -> Scanned:
        template = self._template
        if template is not None:
            end, ok = template.read(batch, window.position)
            others = np.flatnonzero(~ok)
            if 2 * len(others) <= len(window):
                found = Scanned(end, ok, [ok.copy()])
                if len(others):
                    end[others], ok[others], payload = self._usual.scan(batch, window.select(others))
                    put(found.payload, others, payload)
                return found
        found = self._usual.scan(batch, window)
        self._template = _learn(batch, window.position, found)
        return found

    def build(self, batch: JsonBytes, payload: Payload) -> pa.Array:
        raise NotImplementedError("an object that nobody asked for is no column")


class Template:
    """Texts with a number of at most `_MOST_DIGITS` digits, and no zero before others, between each two of them."""

    def __init__(self, texts: list[bytes]) -> None:
        self._texts = [[Literal(text[at : at + _WIDTH]) for at in range(0, len(text), _WIDTH)] for text in texts]

    def read(self, batch: JsonBytes, position: Ints) -> tuple[Ints, Mask]:
        """The ends of the texts that are as the template says; the others end where they begin."""
        end, ok = position, np.ones(len(position), bool)
        for number, text in enumerate(self._texts):
            if number:
                count, fine = _number(batch, end)
                end = end + count
                ok &= fine
            for literal in text:
                ok &= batch.window(end).has(literal)
                end = end + literal.length
            if 2 * np.count_nonzero(ok) < len(ok):
                return position.copy(), np.zeros(len(ok), bool)
        return np.where(ok, end, position), ok


def _number(batch: JsonBytes, position: Ints) -> tuple[Ints, Mask]:
    """How many digits there are, and where they are a whole number of JSON."""
    word = batch.word(position)
    count = bits.digits(word).astype(np.int64)
    ok: Mask = (count > 0) & ((word.astype(np.uint8) != bits.ZERO) | (count == 1))
    rows = np.flatnonzero(count == 8)
    for at in range(8, _MOST_DIGITS + 8, 8):
        if not len(rows):
            return count, ok
        more = bits.digits(batch.word(position[rows] + at))
        count[rows] += more
        rows = rows[more == 8]
    ok[count > _MOST_DIGITS] = False
    return count, ok


def _learn(batch: JsonBytes, position: Ints, found: Scanned) -> Template | None:
    """The template of most of the objects that were found; None where they differ in more than numbers."""
    good = np.flatnonzero(found.ok & found.payload[0])
    sample = good[np.linspace(0, len(good) - 1, min(_SAMPLES, len(good))).astype(np.int64)]
    texts = [bytes(batch.raw[position[row] : found.end[row]]) for row in sample.tolist()]
    parts = [_parts(text) for text in texts if len(text) <= _LONGEST]
    if not parts:
        return None
    (common, count), *_ = Counter(tuple(part[::2]) for part in parts).most_common(1)
    if count < _FEWEST or 2 * count <= len(texts):
        return None
    alike = [part for part in parts if tuple(part[::2]) == common]
    template = [common[0]]
    for number, text in enumerate(common[1:]):
        values = {part[2 * number + 1] for part in alike}
        if len(values) == 1:
            template[-1] += values.pop() + text
        else:
            template.append(text)
    return Template(template) if len(template) <= _MOST_GAPS + 1 else None


def _parts(text: bytes) -> list[bytes]:
    """A text of JSON in parts: every other one is digits for which any whole number may stand.

    That are whole numbers, and digits in strings that are no keys and have no digits in their escapes.
    """
    parts, at = [b""], 0
    for token in _TOKEN.finditer(text):
        parts[-1] += text[at : token.start()]
        at = token.end()
        fixed = token["colon"] or b"\\u" in token[0] or (token["number"] and not _WHOLE.fullmatch(token[0]))
        first, *others = [token[0]] if fixed else _DIGITS.split(token[0])
        parts[-1] += first
        parts += others
    parts[-1] += text[at:]
    return parts
