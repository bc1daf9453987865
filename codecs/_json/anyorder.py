"""Objects at many cursors, their members wherever their keys are found.

Every column's value is read at the first place of its key. A member then leads from its opening quote to that of
the next member, or to the closing brace; what leads from one end of the object to the other without a gap is the
object. Where there is a gap, stands a key that was not read yet: one of no column, or one whose first place was
inside of another member. It is read, and the object tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvformat.codecs._columnar import Ints, Mask, spread
from kvformat.codecs._json import bits
from kvformat.codecs._json.containers import SkipNode
from kvformat.codecs._json.keys import Keys
from kvformat.codecs._json.node import JsonBytes, Payload, Scanned, clear, is_null, put
from kvformat.codecs._json.texts import read_text

if TYPE_CHECKING:
    from kvformat.codecs._json.objects import RowNode

_MOST_PASSES = 64
_SMALLEST = 3
_LONGEST_KEY = 50_000
_FAR = np.iinfo(np.int64).max
_SKIP = SkipNode()


class KeyedMembers:
    """The members of the objects at some cursors, no two of them in the same message, in the order of the messages.

    For each row `_first` is where its first key should stand, `_position` how far it is read, and `_low` to `_stop` are
    the keys that it can have. For each column `_read` has the key read in each row, -1 for none. For each key `_owner`
    is its row (-1 for none), `_next` where its member leads to (0 where it was not read or is not fine), `_reached` how
    far the members before it lead, and `_member` whether it is one of its row's.
    """

    def __init__(self, node: RowNode, batch: JsonBytes, keys: Keys, position: Ints) -> None:
        self._node, self._batch, self._keys = node, batch, keys
        self._named = keys.named(batch, node, node.keys)
        self._start = position
        self._ok: Mask = batch.byte(position) == bits.OPEN_OBJECT
        self._first, _ = bits.skip_blanks(batch, position + 1)
        self._position = self._first.copy()
        self._limit = np.append(position[1:], _FAR)
        self._low = np.searchsorted(keys.quote, position)
        self._stop = np.minimum(np.append(self._low[1:], len(keys)), keys.stop_behind(self._low))
        np.maximum(self._stop, self._low, out=self._stop)
        self._next = np.zeros(len(keys), np.int64)
        self._together = len(position) > 0 and bool((self._low[1:] == self._stop[:-1]).all())
        self._owner = self._owners()
        self._reached = np.zeros(len(keys), np.int64)
        self._member = np.zeros(len(keys), bool)
        self._read: list[Ints | None] = [None] * len(node.nodes)
        self._values: list[Payload | None] = [None] * len(node.nodes)

    def _owners(self) -> Ints:
        bounds = np.zeros(2 * len(self._low) + 2, np.int64)
        bounds[1:-1:2] = self._low
        bounds[2:-1:2] = self._stop
        bounds[-1] = len(self._next)
        rows = np.full(2 * len(self._low) + 1, -1)
        rows[1::2] = np.arange(len(self._low))
        return np.repeat(rows, np.diff(bounds))

    def read(self) -> Scanned:
        for field, places in enumerate(self._named.places):
            self._first_places(field, places)
        self._follow(None)
        for _ in range(_MOST_PASSES):
            rows = np.flatnonzero(self._ok & (self._batch.byte(self._position) == bits.QUOTE))
            if len(rows) < max(_SMALLEST * self._batch.few, 1):
                break
            self._skip_others(rows)
            self._read_on(rows)
            self._follow(rows)
        self._check_others()
        return self._result()

    def _first_places(self, field: int, places: Ints) -> None:
        """Read a column at the first place of its key in each row."""
        rows = self._owner[places]
        first = rows >= 0
        first[1:] &= rows[1:] != rows[:-1]
        if not first.all():
            places, rows = places[first], rows[first]
        if len(rows) >= self._batch.few:
            self._column(field, rows, places)

    def _column(self, field: int, rows: Ints, places: Ints) -> None:
        """Read a column in some rows."""
        count, node = len(self._start), self._node.nodes[field]
        end, ok, payload = node.scan(self._batch, self._batch.window(self._keys.value[places]))
        read, values = self._read[field], self._values[field]
        if read is None or values is None:
            if len(rows) == count:
                self._read[field], self._values[field] = places.copy(), payload
                self._lead(rows, places, end, ok)
                return
            read = self._read[field] = np.full(count, -1)
            values = self._values[field] = node.empty(count)
        read[rows] = places
        put(values, rows, payload)
        self._lead(rows, places, end, ok)

    def _lead(self, rows: Ints, places: Ints, end: Ints, ok: Mask) -> None:
        """Note where members lead to, given where their values end and which of these are good."""
        behind, found = bits.skip_blanks(self._batch, end)
        comma = found == bits.COMMA
        behind, following = bits.skip_blanks(self._batch, behind + comma)
        ok = ok & (following == np.where(comma, np.uint8(bits.QUOTE), np.uint8(bits.CLOSE_OBJECT)))
        # what runs into the next row is broken, and must not be in the way there
        ok &= behind <= self._limit[rows]
        self._next[places] = behind * ok

    def _follow(self, rows: Ints | None) -> None:
        """Find out which keys are members, and how far they lead, in all rows or some."""
        low, stop = (self._low, self._stop) if rows is None else (self._low[rows], self._stop[rows])
        count = stop - low
        places = slice(low[0], stop[-1]) if rows is None and self._together else spread(low, count)
        owner, leads = self._owner[places], self._next[places]
        quote, begin = self._keys.quote[places], self._named.begin[places]
        reached = np.maximum.accumulate(leads)
        reached[1:] = reached[:-1]
        some = np.flatnonzero(count)
        first = (np.cumsum(count) - count)[some]
        reached[first] = self._first[owner[first]]
        ahead = quote > reached  # else it stands inside of a member
        member: Mask = begin == reached
        if rows is not None:  # then members of no column were read, too
            member |= (begin == 0) & (self._batch.byte(reached) == bits.QUOTE)
        member &= ahead
        member &= leads > 0
        ahead &= ~member
        if ahead.any():
            gaps = np.cumsum(ahead)
            member &= gaps == np.repeat(gaps[first] - ahead[first], count[some])
        self._member[places], self._reached[places] = member, reached
        owner, leads = owner[member], leads[member]
        last = np.ones(len(owner), bool)
        np.not_equal(owner[1:], owner[:-1], out=last[:-1])
        self._position[owner[last]] = leads[last]

    def _skip_others(self, rows: Ints) -> None:
        """Read the members of no column in some rows."""
        places = spread(self._low[rows], self._stop[rows] - self._low[rows])
        unread = (self._named.field[places] < 0) & (self._next[places] == 0)
        unread &= self._keys.quote[places] > self._reached[places]
        places = places[unread]
        if len(places):
            end, ok, _ = _SKIP.scan(self._batch, self._batch.window(self._keys.value[places]))
            self._lead(self._owner[places], places, end, ok)

    def _check_others(self) -> None:
        """Refuse rows with a key that is no plain text: with escapes it could be that of a column."""
        places = np.flatnonzero(self._member & (self._named.field < 0))
        if not len(places):
            return
        at = self._reached[places]
        _, quote, ok, escaped = read_text(self._batch, self._batch.window(at))
        ok &= (quote == self._keys.quote[places]) & (quote - at <= _LONGEST_KEY)
        if escaped is not None:
            ok &= ~escaped
        self._ok[self._owner[places[~ok]]] = False

    def _read_on(self, rows: Ints) -> None:
        """Read the columns at which some rows came to a stop."""
        at = self._position[rows]
        places = np.searchsorted(self._keys.quote, at, "right")
        there = places < self._stop[rows]
        field = np.where(there, self._named.field.take(places, mode="clip"), -1)
        read = there & (field < 0) & (self._next.take(places, mode="clip") > 0)
        self._ok[rows[(field < 0) & ~read]] = False
        for number in np.unique(field[field >= 0]).tolist():
            mine = field == number
            self._read_again(number, rows[mine], places[mine])

    def _read_again(self, field: int, rows: Ints, places: Ints) -> None:
        """Read a column at another place than before; refuse rows where it was a member there, or not fine."""
        read = self._read[field]
        if read is not None:
            before = read[rows]
            again = (before >= 0) & ((before == places) | self._member[before])
            if again.any():
                self._ok[rows[again]] = False
                rows, places = rows[~again], places[~again]
        if len(rows):
            self._column(field, rows, places)

    def _result(self) -> Scanned:
        ok = self._ok & (self._batch.byte(self._position) == bits.CLOSE_OBJECT)
        valid = ok.copy()
        payload: Payload = [valid]
        for node, read, values in zip(self._node.nodes, self._read, self._values, strict=True):
            if read is None or values is None:
                payload += node.empty(len(ok))
                seen = np.zeros(len(ok), bool)
            else:
                seen = self._member[read] & (read >= 0) & valid
                clear(values, np.flatnonzero(~seen))
                payload += values
            if self._node.fail_on_missing:
                ok &= seen
        valid &= ok
        end = np.where(ok, self._position + 1, self._start)
        rows = np.flatnonzero(~valid)
        if len(rows):
            null = rows[is_null(self._batch.window(self._start[rows]))]
            ok[null] = True
            end[null] += 4
        return Scanned(end, ok, payload)
