r"""The columns of a whole batch of messages: where they begin and end, found by numpy in the bytes.

All delimiters, quotes and line breaks of the batch are listed once. A delimiter counts where an even number of quotes
stands before it in its message. That finds the columns of every message in which

- a quote is the first character of a column, the last one, or one of a pair inside of a quoted column, and
- outside of quotes no line break stands, except at the end;

the others are refused. An escape character and the one behind it count as text. Pairs of quotes, and escapes, are
taken out of the texts of a column afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._columnar import Bytes, Ints, Mask, MessageBytes, pieces_of
from kvformat.codecs._csv.settings import ReadSettings

_MOST_BLANKS = 64
_BLANK = 0x20
_LF, _CR = 10, 13
_MARKS = 0xEF  # from here on bytes may begin a byte order mark
_UNESCAPED = np.arange(256, dtype=np.uint8)
_UNESCAPED[list(b"nrt0")] = list(b"\n\r\t\0")


def text_bytes(texts: pa.StringArray) -> Bytes:
    """The bytes of all texts of an array that begins at the front of its buffers."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return np.zeros(0, np.uint8)
    return np.frombuffer(data, np.uint8)[: np.frombuffer(offsets, np.int32)[len(texts)]]


class Columns:
    """The columns of a batch, and which messages are refused.

    `runs` gives the columns as runs of bytes, one per message; those of refused messages are any runs.
    """

    def __init__(self, data: Bytes, start: Ints, end: Ints, refused: Mask) -> None:
        self._data, self._start, self._end, self.refused = data, start, end, refused
        self.pairs: int | None = None
        """The character that stands twice in the texts where it is meant once."""
        self.escape: int | None = None
        """The character that is to be taken out of the texts, but for the one behind it."""

    def runs(self, column: int) -> tuple[Bytes, Ints, Ints]:
        """The bytes, and where in them the texts of a column begin and end."""
        start, end = self._start[column], self._end[column]
        if self.pairs is None and self.escape is None:
            return self._data, start, end
        texts = pieces_of(self._data, start, end, pa.string(), ~self.refused)
        data, changed = text_bytes(texts), texts
        if self.pairs is not None and (data == self.pairs).any():
            changed = pc.replace_substring(changed, chr(self.pairs) * 2, chr(self.pairs))
        if self.escape is not None and (data == self.escape).any():
            changed = pc.replace_substring_regex(changed, f"(?s)\\x{self.escape:02x}(.)", r"\1")
        if changed is texts:
            return self._data, start, end
        bounds = np.frombuffer(changed.buffers()[1], np.int32)[: len(changed) + 1].astype(np.int64)
        return text_bytes(changed), bounds[:-1], bounds[1:]


def can_split(settings: ReadSettings) -> bool:
    """Whether the special characters are ASCII, different from each other, and no line breaks."""
    special = [c for c in (settings.delimiter, settings.quote, settings.escape) if c]
    return len(set(special)) == len(special) and all("\0" < c < "\x80" and c not in "\r\n" for c in special)


class Splitter:
    """Splits messages into `count` columns. Needs settings of which `can_split` is true."""

    def __init__(self, settings: ReadSettings, count: int) -> None:
        self.count, self.trim, self.comments = count, settings.trim, settings.comments
        self.delimiter = ord(settings.delimiter)
        self.quote = ord(settings.quote) if settings.quote else None
        self.escape = ord(settings.escape) if settings.escape else None

    def split(self, batch: MessageBytes, malformed: Mask) -> Columns:
        """The columns of messages of which none is empty; those that are not UTF-8 are marked, and refused."""
        return _Scan(self, batch, malformed).columns()


class _Scan:
    """The scan of one batch."""

    def __init__(self, how: Splitter, batch: MessageBytes, malformed: Mask) -> None:
        self._how, self._batch, self._data = how, batch, batch.bytes
        self._start = batch.start
        self._end = self._before_line_break()
        self._refused = self._unfit() | malformed
        self._literal: Mask | None = None  # the bytes behind escape characters
        self._has_breaks = self._has_pairs = False
        if how.escape is not None and how.escape in batch.raw:
            self._find_escapes(how.escape)
        if self._refused.any():
            batch.blank(np.flatnonzero(self._refused))
        self._places, self._found = self._special()

    def columns(self) -> Columns:
        """The columns, by a short way where all messages are alike."""
        bounds = None if self._refused.any() else self._alike()
        start, end = self._one_by_one() if bounds is None else bounds
        if self._literal is not None:
            self._data[self._literal] = _UNESCAPED[self._data[self._literal]]
        columns = Columns(self._data, start, end, self._refused)
        columns.pairs = self._how.quote if self._has_pairs else None
        columns.escape = self._how.escape if self._literal is not None else None
        return columns

    # --- what there is -------------------------------------------------------------------------------

    def _before_line_break(self) -> Ints:
        """The ends of the messages; a line break may stand behind."""
        end = self._batch.end
        for character in (_LF, _CR):
            if character in self._batch.raw:
                end = end - ((self._batch.byte(end - 1) == character) & (end > self._start))
        return end

    def _unfit(self) -> Mask:
        """Messages of a mere line break, and those that may not be UTF-8 or may begin with a comment."""
        first = self._batch.byte(self._start)
        unfit: Mask = (self._end == self._start) | (first >= _MARKS)
        if self._batch.raw.find(0, int(self._start[0]), int(self._batch.end[-1])) >= 0:
            word = self._batch.word(self._start)
            for index in range(4):
                unfit |= ((word >> np.uint64(8 * index)) & np.uint64(0xFF)) == 0
        if self._how.comments:
            unfit |= (first == ord("#")) | (first == _BLANK) | (first == _LF) | (first == _CR)
        return unfit

    def _find_escapes(self, escape: int) -> None:
        """Of a run of escape characters every other one escapes; what it escapes is text."""
        places = np.flatnonzero(self._data == escape)
        owner = np.searchsorted(self._start, places, side="right") - 1
        index = np.arange(len(places))
        fresh = np.ones(len(places), bool)
        fresh[1:] = (np.diff(places) != 1) | (np.diff(owner) != 0)
        active = (index - np.maximum.accumulate(np.where(fresh, index, 0))) & 1 == 0
        places, owner = places[active], owner[active]
        useless = places + 1 >= self._end[owner]
        self._refused[owner[useless]] = True
        if self._how.trim:
            self._refused[owner] = True  # what an escape makes may be a blank to be trimmed
        places = places[~useless]
        self._literal = np.zeros(len(self._data), bool)
        self._literal[places + 1] = True

    def _special(self) -> tuple[Ints, Bytes]:
        """The places of delimiters, quotes and inner line breaks, and what stands there."""
        data, how = self._data, self._how
        mask = data == how.delimiter
        if how.quote is not None:
            mask |= data == how.quote
        behind = np.where(self._refused, 0, self._batch.end - self._end)
        if self._count(_LF) + self._count(_CR) > behind.sum():
            mask |= (data == _LF) | (data == _CR)
            mask[self._end[behind > 0]] = False
            mask[self._end[behind > 1] + 1] = False
            self._has_breaks = True
        if self._literal is not None:
            mask &= ~self._literal
        places = np.flatnonzero(mask)
        return places, data[places]

    def _count(self, character: int) -> int:
        return int(np.count_nonzero(self._data == character)) if character in self._batch.raw else 0

    # --- all messages alike --------------------------------------------------------------------------

    def _alike(self) -> tuple[Ints, Ints] | None:
        """The columns if every message has the right number, and no quote but around them; else None."""
        if self._has_breaks:
            return None
        rows, inner = len(self._start), self._how.count - 1
        quotes = 0
        if self._how.quote is None:
            between = self._places
        else:
            quote = self._found == self._how.quote
            quotes = int(np.count_nonzero(quote))
            between = self._places
            if quotes:
                between = between[~quote & (np.cumsum(quote, dtype=np.uint8) & 1 == 0)]
        if len(between) != rows * inner:
            return None
        between = between.reshape(rows, inner)
        if inner and ((between[:, 0] < self._start).any() or (between[:, -1] >= self._end).any()):
            return None
        bounds = self._bounds(between, self._start, self._end)
        if bounds.strange.any() or quotes != 2 * np.count_nonzero(bounds.quoted):
            return None
        return bounds.without_quotes()

    # --- message by message --------------------------------------------------------------------------

    def _one_by_one(self) -> tuple[Ints, Ints]:
        """The columns of the messages that have the right number, the others refused."""
        places, found, rows, inner = self._places, self._found, len(self._start), self._how.count - 1
        first = np.searchsorted(places, self._start)
        last = np.append(first[1:], len(places))
        owner = np.repeat(np.arange(rows), last - first)
        quote = found == self._how.quote if self._how.quote is not None else np.zeros(len(found), bool)
        total = np.concatenate([[0], np.cumsum(quote)])
        inside = (total[:-1] - total[first][owner]) & 1 == 1
        quotes = total[last] - total[first]
        between = (found == self._how.delimiter) & ~inside
        self._refused[owner[~(between | quote | inside)]] = True  # line breaks
        self._refused |= (quotes & 1 == 1) | (np.bincount(owner[between], minlength=rows) != inner)
        good = ~self._refused
        kept = np.flatnonzero(good)
        between = places[between & good[owner]].reshape(len(kept), inner)
        bounds = self._bounds(between, self._start[kept], self._end[kept])
        wrong = bounds.strange
        spare = np.zeros(rows, np.int64)
        spare[kept] = quotes[kept] - 2 * np.count_nonzero(bounds.quoted, axis=0)
        spare[kept[wrong]] = 0
        self._refused[kept[wrong]] = True
        if spare.any():
            self._pairs(bounds, np.flatnonzero(quote & (spare > 0)[owner]), owner, inside)
        start, end = np.zeros((2, self._how.count, rows), np.int64)
        start[:, kept], end[:, kept] = bounds.without_quotes()
        return start, end

    def _pairs(self, bounds: _Bounds, quotes: Ints, owner: Ints, inside: Mask) -> None:
        """Of the quotes that are not around a column, those of a pair within one are a quote, others refuse."""
        around = np.zeros(len(self._data), bool)
        around[bounds.start[bounds.quoted]] = True
        around[bounds.end[bounds.quoted] - 1] = True
        spare = quotes[~around[self._places[quotes]]]
        left, right = spare[::2], spare[1::2]
        fine = inside[left] & (self._places[right] - self._places[left] == 1)
        self._refused[owner[left[~fine]]] = True
        self._has_pairs = True

    # --- columns -------------------------------------------------------------------------------------

    def _bounds(self, between: Ints, first: Ints, last: Ints) -> _Bounds:
        """The columns between delimiters, blanks around them cut where they don't count."""
        start, end = np.empty((2, self._how.count, len(first)), np.int64)
        start[0], end[-1] = first, last
        start[1:], end[:-1] = between.T + 1, between.T
        strange = np.zeros(len(first), bool)
        if self._how.trim:
            self._cut(start, end, start < end, strange, front=True)
            self._cut(start, end, start < end, strange, front=False)
        if self._how.quote is None:
            return _Bounds(start, end, np.zeros(start.shape, bool), strange)
        data, quote = self._data, self._how.quote
        quoted = (data[start] == quote) & (start < end)
        if quoted.any():
            self._cut(start, end, quoted, strange, front=False)
            closing = end[quoted] - 1
            closed = (data[closing] == quote) & (closing > start[quoted])
            if self._literal is not None:
                closed &= ~self._literal[closing]
            if not closed.all():
                open_ = np.zeros(start.shape, bool)
                open_[quoted] = ~closed
                strange |= open_.any(axis=0)
        return _Bounds(start, end, quoted, strange)

    def _cut(self, start: Ints, end: Ints, where: Mask, strange: Mask, *, front: bool) -> None:
        """Move starts, or ends, of some columns over blanks; messages with too many of them are strange."""
        index = np.flatnonzero(where)
        moved, by = (start.reshape(-1), 1) if front else (end.reshape(-1), -1)
        starts, ends = start.reshape(-1), end.reshape(-1)
        for _ in range(_MOST_BLANKS):
            index = index[self._data[starts[index] if front else ends[index] - 1] <= _BLANK]
            index = index[starts[index] < ends[index]]
            if not len(index):
                return
            moved[index] += by
        strange[index % len(strange)] = True


@dataclass(slots=True)
class _Bounds:
    """Columns with their quotes, which of them are quoted, and which messages are not as they should be."""

    start: Ints
    end: Ints
    quoted: Mask
    strange: Mask

    def without_quotes(self) -> tuple[Ints, Ints]:
        """The starts and ends of what is between the quotes; these bounds are used up."""
        self.start += self.quoted
        self.end -= self.quoted
        return self.start, self.end
