"""Where the keys of objects stand in messages, whatever their order and the blanks between them.

Found by looking for a quote and a colon behind it, without reading what lies between. A place says what to try,
never what a message means: it may lie inside of a text, or in another object than the one that is read.
"""

from __future__ import annotations

import functools

import numpy as np

from kvformat.codecs._columnar import Bytes, Ints, MessageBytes, Words
from kvformat.codecs._json import bits

_MOST_KEYS = 1 << 22
_MOST_TIMES = 32
_TAIL = 7
_LAST_TWO = np.uint64(40)
_ONE, _SEVEN = np.uint64(1), np.uint64(7)


class Named:
    """The keys that are columns of one ROW.

    For each column, `places` has the indices of its keys, in ascending order. For each key, `begin` is the position of
    its opening quote, 0 where it is no column.
    """

    def __init__(self, places: list[Ints], begin: Ints) -> None:
        self.places, self.begin = places, begin

    @functools.cached_property
    def field(self) -> Ints:
        """For each key its column, -1 for none."""
        field = np.full(len(self.begin), -1)
        for number, found in enumerate(self.places):
            field[found] = number
        return field


class Keys:
    """All keys of some messages, given as ascending rows of the batch; none where there are millions.

    For each key, `quote` is the position of its closing quote, `value` that of the value behind the colon, and
    `message` the index of its message among those given, whose keys are those from one of `bounds` to the next.
    """

    def __init__(self, batch: MessageBytes, rows: Ints) -> None:
        self._start, self._end = batch.start[rows], batch.end[rows]
        quote, value, counts = _find(batch, self._start, self._end)
        self.quote: Ints = quote
        self.value: Ints = value
        self.message: Ints = np.repeat(np.arange(len(rows)), counts)
        self.bounds: Ints = np.append(0, np.cumsum(counts))
        tails = batch.word(quote - _TAIL)
        groups = (tails >> _LAST_TWO).astype(np.uint16)
        # sorted by their last two characters, so that looking for a key need not look at all of them
        self._order: Ints = np.argsort(groups, kind="stable")
        self._groups = groups[self._order]
        self._tails: Words = tails[self._order]
        self._named: dict[int, Named] = {}
        self._times = 0

    def __len__(self) -> int:
        return len(self.quote)

    def messages(self, position: Ints) -> tuple[Ints, Ints | None]:
        """In which messages these ascending positions are, and which of them is in each message (-1: none).

        The latter is None where each message has its own, in front of all keys.
        """
        if len(position) == len(self._start) and len(self):
            begin, end = self._start, np.minimum(self._end, self.quote.take(self.bounds[:-1], mode="clip"))
            if ((position >= begin) & (position < end)).all():
                return np.arange(len(position)), None
        message = np.searchsorted(self._start, position, "right") - 1
        row = np.full(len(self._start), -1)
        row[message] = np.arange(len(position))
        return message, row

    def worth_it(self) -> bool:
        """Count how often all keys are gone through; after many times the exact reader is as fast."""
        self._times += 1
        return self._times <= _MOST_TIMES

    def named(self, batch: MessageBytes, owner: object, names: list[bytes | None]) -> Named:
        """The keys with these names, of which None is never found.

        `batch` is that of the keys, `owner` is what the answer is kept for.
        """
        named = self._named.get(id(owner))
        if named is None:
            named = self._named[id(owner)] = self._name(batch, names)
        return named

    def _name(self, batch: MessageBytes, names: list[bytes | None]) -> Named:
        places = [self._places(batch, name) if name else np.zeros(0, np.int64) for name in names]
        begin = np.zeros(len(self), np.int64)
        for name, found in zip(names, places, strict=True):
            begin[found] = self.quote[found] - (len(name or b"") + 1)
        return Named(places, begin)

    def _places(self, batch: MessageBytes, name: bytes) -> Ints:
        text = b'"' + name + b'"'
        group = np.uint16(int.from_bytes(text[-3:-1], "little"))
        chosen = slice(*(int(np.searchsorted(self._groups, group, side)) for side in ("left", "right")))
        found, words = self._order[chosen], self._tails[chosen]
        for stop in range(len(text), 0, -8):
            if stop < len(text):
                words = batch.word(self.quote[found] - (_TAIL + len(text) - stop))
            part = text[max(stop - 8, 0) : stop]
            unused = np.uint64(8 * (8 - len(part)))
            wanted = np.uint64(int.from_bytes(part, "little"))
            same = words >> unused == wanted
            found = found if same.all() else found[same]
        return found


def _find(batch: MessageBytes, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """The positions of the quotes behind keys, those of the values, and how many each message has."""
    if not len(start):
        return start, start, start
    if (start[1:] == end[:-1]).all():
        bounds = np.append(start, end[-1:])
        quote = _quotes(batch.bytes[bounds[0] : bounds[-1]]) + bounds[0]
        counts = np.diff(np.searchsorted(quote, bounds))
    else:
        texts = batch.texts(start, end)
        offsets = np.frombuffer(texts.buffers()[1], np.int32)[: len(start) + 1].astype(np.int64)
        found = _quotes(np.frombuffer(texts.buffers()[2], np.uint8)[: offsets[-1]])
        counts = np.diff(np.searchsorted(found, offsets))
        quote = found + np.repeat(start - offsets[:-1], counts)
    colon, character = bits.skip_blanks(batch, quote + 1)
    fits = character == bits.COLON
    if not fits.all():
        counts = np.diff(np.append(0, np.cumsum(fits))[np.append(0, np.cumsum(counts))])
        quote, colon = quote[fits], colon[fits]
    value, _ = bits.skip_blanks(batch, colon + 1)
    return quote, value, counts


def _quotes(data: Bytes) -> Ints:
    """The positions of the quotes with a colon or a blank behind them."""
    marks = np.zeros(-len(data) % 8 + len(data), bool)
    here, following = marks[: len(data) - 1], data[1:]
    np.equal(following, np.uint8(bits.COLON), out=here)
    here |= following <= ord(" ")
    here &= data[:-1] == bits.QUOTE
    # eight at a time: few words have a mark, and hardly any has two
    words = marks.view(np.uint64)
    places = np.flatnonzero(words != 0)
    words = words[places]
    found: list[Ints] = []
    places *= 8
    while len(places):
        found.append(places + bits.first_mark(words << _SEVEN))
        words &= words - _ONE
        more = np.flatnonzero(words != 0)
        places, words = places[more], words[more]
    if not found or sum(map(len, found)) > _MOST_KEYS:
        return np.zeros(0, np.int64)
    first, *others = found
    for other in others:
        first = np.insert(first, np.searchsorted(first, other), other)
    return first
