r"""Split the messages of a batch into columns, with numpy.

The scan lists all delimiters of the batch, and its quotes and line breaks if it has any. A delimiter ends a column if
the number of quotes before it in its message is even. This is right for every message in which

- each quote is the first or last character of a column, or one of a pair inside of a quoted column, and
- no line break is outside of quotes, except at the end.

Other messages are refused. An escape character and the character after it are text. Escape characters and the second
quote of each pair must be removed: they are overwritten with a byte that UTF-8 never has. That byte is removed when a
column is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kvformat.codecs._columnar import ByteArray, Ints, Mask, MessageBytes, MessageNumbers
from kvformat.codecs._csv.settings import ReadSettings
from kvformat.registry.contract.fork_safe import cached_property

Places = npt.NDArray[np.int32]
"""Offsets in the bytes of a batch: half as wide as `Ints`, and twice as fast."""

_MOST_BLANKS = 64  # around a text; each blank costs a step for the whole batch, so messages with more are refused
_BLANK = 0x20
_LF, _CR = 10, 13
_MARKS = 0xEF  # bytes from this one may begin a byte order mark
_REMOVED = 0xFF  # never occurs in UTF-8
_UNESCAPED = np.arange(256, dtype=np.uint8)
_UNESCAPED[list(b"nrt0")] = list(b"\n\r\t\0")


def text_bytes(texts: pa.StringArray) -> ByteArray:
    """Return the bytes of all texts of an array without offset, one text after another."""
    data = texts.buffers()[2]
    if data is None:
        return np.zeros(0, np.uint8)
    offsets = text_offsets(texts)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]


def text_offsets(texts: pa.StringArray) -> Places:
    """Return the start offset of each text of an array without offset, and the end offset of the last."""
    if not len(texts):
        return np.zeros(1, np.int32)
    return np.frombuffer(texts.buffers()[1], np.int32)[: len(texts) + 1]


class Columns:
    """The columns of a batch, and a mask of the refused messages."""

    def __init__(self, texts: pa.StringArray, refused: Mask, *, with_removed: bool) -> None:
        self._offsets, self._data = texts.buffers()[1:]
        self._with_removed = with_removed
        self.refused = refused

    def texts(self, column: int) -> pa.StringArray:
        """Return the texts of a column, one per message. They are empty for refused messages, and never null."""
        rows = len(self.refused)
        buffers = [None, self._offsets.slice(4 * column * rows), self._data]
        texts = pa.Array.from_buffers(pa.string(), rows, buffers)
        return _without_removed(texts) if self._with_removed else texts


def _texts(data: ByteArray, start: Places, end: Places) -> pa.StringArray:
    """Return the texts between start and end offsets, column by column, with one `take`.

    `start` and `end` have a row per message and a column per column.
    """
    # with the offsets [start0, end0, start1, end1, ...] the texts have even indices
    bounds = np.empty(2 * start.size + 1, np.int32)
    bounds[:-1:2], bounds[1::2] = start.reshape(-1), end.reshape(-1)
    bounds[-1] = len(data)  # Arrow requires that the last offset is not before the first
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    columns = start.shape[1]
    index = np.add.outer(
        np.arange(0, 2 * columns, 2, dtype=np.int32), np.arange(0, 2 * start.size, 2 * columns, dtype=np.int32)
    ).reshape(-1)
    return pa.Array.from_buffers(pa.string(), 2 * start.size, buffers).take(pa.array(index))


def _without_removed(texts: pa.StringArray) -> pa.StringArray:
    """Remove the overwritten bytes from texts."""
    data, offsets = text_bytes(texts), text_offsets(texts)
    kept = data != _REMOVED
    if kept.all():
        return texts
    before = np.zeros(len(data) + 1, np.int32)
    np.cumsum(kept, out=before[1:])
    buffers = [None, pa.py_buffer(before[offsets - offsets[0]]), pa.py_buffer(data[kept])]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def can_split(settings: ReadSettings) -> bool:
    """Whether the special characters are ASCII, different from each other, and not line breaks."""
    special = [c for c in (settings.delimiter, settings.quote, settings.escape) if c]
    return len(set(special)) == len(special) and all("\0" < c < "\x80" and c not in "\r\n" for c in special)


class Splitter:
    """Splits messages into `count` columns. `can_split` must be true for the settings."""

    def __init__(self, settings: ReadSettings, count: int) -> None:
        self.count, self.trim, self.comments = count, settings.trim, settings.comments
        self.delimiter = ord(settings.delimiter)
        self.quote = ord(settings.quote) if settings.quote else None
        self.escape = ord(settings.escape) if settings.escape else None

    def split(self, batch: MessageBytes, malformed: Mask) -> Columns:
        """Split messages into columns. No message may be empty; `malformed` masks messages that are not UTF-8.

        Malformed messages are refused. The bytes of the batch are modified.
        """
        return _Scan(self, batch, malformed).columns()


class _Scan:
    """The scan of one batch."""

    def __init__(self, how: Splitter, batch: MessageBytes, malformed: Mask) -> None:
        self._how, self._batch, self._data = how, batch, batch.bytes
        self._start: Places = batch.start.astype(np.int32)
        self._after: Places = batch.end.astype(np.int32)
        self._end = self._before_line_break()
        self._refused = self._unsplittable() | malformed
        batch.blank(MessageNumbers(np.flatnonzero(self._refused)))
        self._literal = np.zeros(0, np.int64)  # offsets of the bytes after escape characters
        self._meant = np.zeros(0, np.uint8)  # the bytes that replace them
        if how.escape is not None and how.escape in batch.raw:
            self._find_escapes(how.escape)
        self._with_removed = len(self._literal) > 0
        self._is_break = self._inner_breaks()

    def columns(self) -> Columns:
        """Split the whole batch at once if possible. Otherwise split each message, and refuse those that fail."""
        bounds = None if self._refused.any() or self._is_break is not None else self._split_all()
        if bounds is None:
            bounds = self._split_each()
        self._data[self._literal] = self._meant
        texts = _texts(self._data, *bounds.without_quotes())
        return Columns(texts, self._refused, with_removed=self._with_removed)

    # --- what there is -------------------------------------------------------------------------------

    def _before_line_break(self) -> Places:
        """Return the ends of the messages without a final line break."""
        end = self._after
        for character in (_LF, _CR):
            if character in self._batch.raw:
                end = end - ((self._data.take(end - 1) == character) & (end > self._start))
        return end

    def _unsplittable(self) -> Mask:
        """Return a mask of messages that can't be split.

        They have only a line break, end with an escape, may begin with a comment, or may have another encoding than
        UTF-8.
        """
        first = self._data.take(self._start)
        unfit: Mask = (self._end == self._start) | (first >= _MARKS)
        if self._batch.raw.find(0, int(self._start[0]), int(self._after[-1])) >= 0:
            word = self._batch.word(self._batch.start)
            for index in range(4):
                unfit |= ((word >> np.uint64(8 * index)) & np.uint64(0xFF)) == 0
        if self._how.comments:
            unfit |= (first == ord("#")) | (first == _BLANK) | (first == _LF) | (first == _CR)
        if self._how.escape is not None:
            unfit |= self._data.take(self._end - 1) == self._how.escape
        return unfit

    def _find_escapes(self, escape: int) -> None:
        """Remove escape characters. In a run, every second one is escaped. No run reaches the end of a message."""
        places = np.flatnonzero(self._data == escape)
        inner = np.diff(places) == 1
        if inner.any():
            index = np.arange(len(places))
            first = np.append(True, ~inner)
            places = places[(index - np.maximum.accumulate(np.where(first, index, 0))) & 1 == 0]
        if self._how.trim:  # an escaped character may be a blank that would be trimmed
            owner = np.unique(np.searchsorted(self._start, places, side="right") - 1)
            self._refused[owner] = True
            self._batch.blank(MessageNumbers(owner))
            return
        self._literal = places + 1
        self._meant = _UNESCAPED[self._data[self._literal]]
        self._data[places] = self._data[self._literal] = _REMOVED

    def _inner_breaks(self) -> Mask | None:
        """Return a mask of the line breaks that don't end their messages, None if there are none."""
        if _LF not in self._batch.raw and _CR not in self._batch.raw:
            return None
        breaks: Mask = (self._data == _LF) | (self._data == _CR)
        break_lengths = np.where(self._refused, 0, self._after - self._end)
        if np.count_nonzero(breaks) == break_lengths.sum():
            return None
        breaks[self._end[break_lengths > 0]] = False
        breaks[self._end[break_lengths > 1] + 1] = False
        return breaks

    @cached_property
    def _is_delimiter(self) -> Mask:
        return self._data == self._how.delimiter  # type: ignore[no-any-return]  # numpy's comparison of arrays

    @cached_property
    def _is_quote(self) -> Mask | None:
        """The mask of the quotes. None if there are none."""
        if self._how.quote is None or self._how.quote not in self._batch.raw:
            return None
        return self._data == self._how.quote  # type: ignore[no-any-return]

    @cached_property
    def _marks(self) -> tuple[Ints, ByteArray, ByteArray]:
        """The offsets of delimiters, quotes and inner line breaks; 1 for each quote, else 0; the quotes so far.

        The number wraps at 256, which keeps odd numbers odd.
        """
        mask = self._is_delimiter
        for others in (self._is_quote, self._is_break):
            if others is not None:
                mask = mask | others
        places = np.flatnonzero(mask)
        quote = np.zeros(len(places), bool) if self._is_quote is None else self._is_quote[places]
        return places, quote.view(np.uint8), np.add.accumulate(quote, dtype=np.uint8)

    # --- all messages at once ------------------------------------------------------------------------

    def _split_all(self) -> _Bounds | None:
        """Split all messages. Returns None if a message has another number of columns, or misplaced quotes.

        Quotes are counted through the whole batch. This is right if all columns are valid: then every column of every
        message ends after an even number of quotes.
        """
        rows, inner = len(self._start), self._how.count - 1
        is_delimiter, is_quote = self._is_delimiter, self._is_quote
        if is_quote is None or np.count_nonzero(is_delimiter) == rows * inner:
            between = np.flatnonzero(is_delimiter)
        else:
            places, quote, seen = self._marks
            between = places[seen & 1 | quote == 0]
        if len(between) != rows * inner:
            return None
        table = between.reshape(rows, inner)
        if inner and ((table[:, 0] < self._start).any() or (table[:, -1] >= self._end).any()):
            return None
        bounds = self._bounds(table, self._start, self._end)
        if bounds.strange.any():
            return None
        if is_quote is not None and np.count_nonzero(is_quote) != 2 * np.count_nonzero(bounds.quoted):
            second, strays = self._inner_quotes(bounds, np.flatnonzero(is_quote))
            if len(strays):
                return None
            self._take_out(second)
        return bounds

    def _inner_quotes(self, bounds: _Bounds, quotes: Ints) -> tuple[Ints, Ints]:
        """Find the second quote of each pair inside columns, and the stray quotes, which are not in a pair.

        `quotes` are the offsets of all quotes, an even number in each message. A pair is two adjacent quotes after an
        odd number of quotes.
        """
        around = np.zeros(len(self._data), bool)
        around[bounds.start[bounds.quoted]] = True
        around[bounds.end[bounds.quoted] - 1] = True
        spare = np.flatnonzero(~around[quotes])
        if len(spare) & 1:
            return spare[:0], quotes[spare]
        first, second = spare[::2], spare[1::2]
        paired = (first & 1 == 1) & (quotes[second] - quotes[first] == 1)
        return quotes[second], quotes[first[~paired]]

    def _take_out(self, places: Ints) -> None:
        self._data[places] = _REMOVED
        self._with_removed = True

    # --- message by message --------------------------------------------------------------------------

    def _split_each(self) -> _Bounds:
        """Split the messages that have the right number of columns. The other messages are refused."""
        inner = self._how.count - 1
        places, quote, seen = self._marks
        first = np.searchsorted(places, self._start)
        last = np.append(first[1:], len(places))
        marks = last - first
        before = np.append(np.uint8(0), seen)
        inside = (before[:-1] - np.repeat(before[first], marks)) & 1
        between = quote | inside == 0
        if self._is_break is not None:
            between &= ~self._is_break[places]
            breaks = places[self._is_break[places] & (inside == 0)]
            self._refused[np.searchsorted(self._start, breaks, side="right") - 1] = True
        found = np.append(0, np.cumsum(between, dtype=np.int32))
        self._refused |= ((before[last] - before[first]) & 1 == 1) | (found[last] - found[first] != inner)
        good = ~self._refused
        kept = np.flatnonzero(good)
        table = places[between & np.repeat(good, marks)].reshape(len(kept), inner)
        bounds = self._bounds(table, self._start[kept], self._end[kept])
        self._refused[kept[bounds.strange]] = True
        quotes = places[quote.view(bool) & np.repeat(~self._refused, marks)]
        if len(quotes) != 2 * np.count_nonzero(bounds.quoted[~bounds.strange]):
            second, strays = self._inner_quotes(bounds, quotes)
            self._refused[np.searchsorted(self._start, strays, side="right") - 1] = True
            self._take_out(second)
        return bounds.spread(kept, self._refused)

    # --- columns -------------------------------------------------------------------------------------

    def _bounds(self, between: Ints, first: Places, last: Places) -> _Bounds:
        """Return the columns between delimiters. Blanks around columns are removed if they don't count."""
        start, end = np.empty((2, len(first), self._how.count), np.int32)
        start[:, 0], end[:, -1] = first, last
        end[:, :-1] = between
        start[:, 1:] = between + 1
        strange = np.zeros(len(first), bool)
        if self._how.trim:
            self._trim_blanks(start, end, np.flatnonzero(start < end), strange, front=True)
            self._trim_blanks(start, end, np.flatnonzero(start < end), strange, front=False)
        if self._how.quote is None or self._how.quote not in self._batch.raw:
            return _Bounds(start, end, np.zeros(start.shape, bool), strange)
        quoted = (self._data.take(start) == self._how.quote) & (start < end)
        index = self._unclosed(start, end, np.flatnonzero(quoted))
        if len(index):
            self._trim_blanks(start, end, index, strange, front=False)
            strange[self._unclosed(start, end, index) // self._how.count] = True
        return _Bounds(start, end, quoted, strange)

    def _unclosed(self, start: Places, end: Places, index: Ints) -> Ints:
        """Select the columns that do not end with a quote, from columns that begin with one."""
        closing = end.reshape(-1)[index] - 1
        closed = (self._data.take(closing) == self._how.quote) & (closing > start.reshape(-1)[index])
        still_open: Ints = index[~closed]
        return still_open

    def _trim_blanks(self, start: Places, end: Places, index: Ints, strange: Mask, *, front: bool) -> None:
        """Move starts or ends of columns over blanks. Messages with too many blanks are marked as strange."""
        moved, by = (start.reshape(-1), 1) if front else (end.reshape(-1), -1)
        starts, ends = start.reshape(-1), end.reshape(-1)
        for _ in range(_MOST_BLANKS):
            index = index[self._data[starts[index] if front else ends[index] - 1] <= _BLANK]
            index = index[starts[index] < ends[index]]
            if not len(index):
                return
            moved[index] += by
        strange[index // self._how.count] = True


@dataclass(slots=True)
class _Bounds:
    """The columns of each message with their quotes, masks of quoted columns, and of strange (refused) messages."""

    start: Places
    end: Places
    quoted: Mask
    strange: Mask

    def spread(self, rows: Ints, refused: Mask) -> _Bounds:
        """Return the bounds of all messages from the bounds of `rows`. Refused messages are empty."""
        start, end = np.zeros((2, len(refused), self.start.shape[1]), np.int32)
        quoted = np.zeros(start.shape, bool)
        start[rows], end[rows], quoted[rows] = self.start, self.end, self.quoted
        start[refused] = end[refused] = 0
        quoted[refused] = False
        return _Bounds(start, end, quoted, refused)

    def without_quotes(self) -> tuple[Places, Places]:
        """Return the starts and ends without the quotes. The bounds are modified."""
        self.start += self.quoted
        self.end -= self.quoted
        return self.start, self.end
