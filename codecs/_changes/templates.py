"""Texts that are the same in each message but for digits, compared as they are instead of being read.

A template is made of texts of which the usual reader found that they are JSON, with gaps for the numbers in which
they differ. A text that is the same around other numbers is JSON as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from kvformat.codecs._columnar import Ints, Literal, Mask, MessageBytes, Window
from kvformat.codecs._json import bits

_TOKEN = re.compile(rb'(?P<text>"(?:[^"\\]|\\.)*")(?P<colon>[ \t\r\n]*:)?|(?P<number>-?[0-9][-+.0-9eE]*)', re.DOTALL)
_WHOLE = re.compile(rb"-?[0-9]+")
_DIGITS = re.compile(rb"([0-9]+)")
_U = np.uint64
_LOW, _HIGH = _U(0x7F7F7F7F7F7F7F7F), _U(0x8080808080808080)
_BYTE = _U(0xFF)
_ABOVE_NINE, _ABOVE_NOTHING = 0x76, 0x7F  # what makes the highest bit say that a difference is too large
_BLOCK = 64
_WORDS_AT_ONCE = 32
_MOST_DIGITS = 24
_MOST_GAPS = 12
_LONGEST_TAIL = 24


def parts_of(text: bytes) -> list[bytes]:
    """A text of JSON, cut anywhere between its tokens, in parts: every other one is digits of a number in it.

    Any other whole number may stand there. That are whole numbers, and digits in strings that are no keys and have no
    digits in their escapes.
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


class Template:
    """What texts have in common, given the parts of each. All of them have the same texts between their numbers.

    A number that has as many digits in each of the texts must have so many; any other has at most `_MOST_DIGITS`, and
    no zero before them.
    """

    def __init__(self, alike: Sequence[list[bytes]]) -> None:
        text, digits = bytearray(alike[0][0]), list[tuple[int, int, bool]]()
        texts = [(text, digits)]
        for place in range(1, len(alike[0]), 2):
            values = {part[place] for part in alike}
            if len(values) == 1:
                text += values.pop()
            elif len({len(value) for value in values}) == 1:
                count = len(alike[0][place])
                # a number has no zero before its digits: where there is one, it is within a string
                zeros = count == 1 or any(value.startswith(b"0") for value in values)
                digits.append((len(text), count, zeros))
                text += b"0" * count
            else:
                text, digits = bytearray(), []
                texts.append((text, digits))
            text += alike[0][place + 1]
        self.gaps = len(texts) - 1
        begin = max([len(text) - _LONGEST_TAIL, 0, *(at + count for at, count, _ in digits)])
        self._tail = Literal(bytes(text[begin:]))
        del text[begin:]
        self._texts = [_Text(bytes(text), digits) for text, digits in texts]

    @property
    def is_simple(self) -> bool:
        """Whether there are so few gaps that comparing is worth it."""
        return self.gaps <= _MOST_GAPS

    def read(self, batch: MessageBytes, position: Ints) -> tuple[Window, Mask]:
        """Cursors behind the texts that begin at a position, and where the texts are as the template says.

        Other cursors stand anywhere in the batch.
        """
        ok = np.ones(len(position), bool)
        for number, text in enumerate(self._texts):
            if number:
                count, fine = _number(batch, position)
                position = position + count
                ok &= fine
            if text.length:
                ok &= text.read(batch, position)
                position = position + text.length
        pad = -self._tail.length % 8
        window = batch.window(position - pad).after(pad)
        ok &= window.has(self._tail)
        return window.after(self._tail.length), ok


class _Text:
    """A text with digits at some places, given as where they begin, how many, and whether the first may be zero."""

    def __init__(self, text: bytes, digits: list[tuple[int, int, bool]]) -> None:
        self.length = len(text)
        width = self.length + -self.length % _BLOCK
        limits = bytearray([_ABOVE_NOTHING] * width)
        for at, count, _ in digits:
            limits[at : at + count] = bytes([_ABOVE_NINE] * count)
        masks = bytes([0x80] * self.length).ljust(width, b"\0")
        self._text, self._limits, self._masks = (np.frombuffer(b, "<u8") for b in (text.ljust(width), limits, masks))
        exact = (self._limits == _LOW) & (self._masks == _HIGH)
        self._exact = np.packbits(exact, bitorder="little")
        self._others = np.flatnonzero(~exact & (self._masks > 0)).tolist()
        self._first = [divmod(at, 8) for at, _, zeros in digits if not zeros]

    def read(self, batch: MessageBytes, position: Ints) -> Mask:
        """Where the text stands at the position."""
        ok: Mask = position + self.length <= batch.size
        for first in range(0, len(self._text), _WORDS_AT_ONCE):
            wanted = self._text[first : first + _WORDS_AT_ONCE]
            block = batch.block(position + 8 * first, len(wanted))
            differs = np.packbits((block != wanted).reshape(-1), bitorder="little").reshape(len(position), -1)
            for place, exact in enumerate(self._exact[first // 8 :][: differs.shape[1]]):
                if exact:
                    ok &= (differs[:, place] & exact) == 0
            for word in self._others:
                if 0 <= word - first < len(wanted):
                    difference = np.ascontiguousarray(block[:, word - first]) ^ self._text[word]
                    too_large = ((difference & _LOW) + self._limits[word]) | difference
                    ok &= (too_large & self._masks[word]) == 0
                    for _, byte in (place for place in self._first if place[0] == word):
                        ok &= (difference >> _U(8 * byte)) & _BYTE != 0
        return ok


def _number(batch: MessageBytes, position: Ints) -> tuple[Ints, Mask]:
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
