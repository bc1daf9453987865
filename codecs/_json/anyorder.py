"""Objects at many cursors, their members wherever their keys are found.

Every column's value is read at the first place of its key. A member then leads from its opening quote to that of
the next member, or to the closing brace; where the members lead from one end of the object to the other, without a gap
and without one that is left over, they are the object. The other objects have members of no column, or a column whose
first key stands inside of another member: these are read, and the object tried again.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(slots=True)
class _Column:
    """What is read of one column, by row: the index of the key (-1 for none), the values, which of them are good."""

    key: Ints
    values: Payload
    seen: Mask


class KeyedMembers:
    """The members of the objects at some cursors, no two of them in the same message, in the order of the messages.

    For each row `message` is the message, `first` where the first key should stand, and `limit` what the object can't
    reach beyond. For each key `leads` is where its member leads to, 0 where it was not read or is not fine.
    """

    def __init__(self, node: RowNode, batch: JsonBytes, keys: Keys, position: Ints) -> None:
        self.batch, self.keys = batch, keys
        self.named = keys.named(batch, node, node.keys)
        self.message, self._row = keys.messages(position)
        self.first, found = bits.skip_blanks(batch, position + 1)
        self.limit = np.append(position[1:], _FAR)
        self.leads = np.zeros(len(keys), np.int64)
        self.columns: list[_Column | None] = [None] * len(node.nodes)
        self._node = node
        self._start = position
        self._ok: Mask = batch.byte(position) == bits.OPEN_OBJECT
        self._end = np.where(found == bits.CLOSE_OBJECT, self.first, 0)

    def read(self) -> Scanned:
        for field, places in enumerate(self.named.places):
            rows, places = self._first_of_rows(places)
            if len(rows) and len(rows) >= self.batch.few:
                self.read_column(field, rows, places)
        self._close()
        rows = np.flatnonzero(self._ok & (self._end == 0))
        if len(rows) >= max(_SMALLEST * self.batch.few, 1):
            self._end[rows] = _Chains(self, rows).read()
        return self._result()

    def _close(self) -> None:
        """Find the ends of the objects whose members, as far as they are read, lead from one to the next."""
        places = np.flatnonzero(self.leads)
        if not len(places):
            return
        leads, begin = self.leads[places], self.named.begin[places]
        rows = self.keys.message[places]
        if self._row is not None:
            rows = self._row[rows]
        first = np.append(0, np.flatnonzero(rows[1:] != rows[:-1]) + 1)
        last = np.append(first[1:], len(rows)) - 1
        reached = np.empty(len(rows), np.int64)
        reached[1:] = leads[:-1]
        reached[first] = self.first[rows[first]]
        end = leads[last]
        self._end[rows[first]] = end * (self.batch.byte(end) == bits.CLOSE_OBJECT)
        self._end[rows[np.flatnonzero(begin != reached)]] = 0

    def _first_of_rows(self, places: Ints) -> tuple[Ints, Ints]:
        """The first of these keys in each row that has one."""
        rows = self.keys.message[places]
        if self._row is not None:
            rows = self._row[rows]
            own = np.flatnonzero((rows >= 0) & (self.keys.quote[places] > self._start[rows]))
            rows, places = rows[own], places[own]
        first = np.ones(len(rows), bool)
        np.not_equal(rows[1:], rows[:-1], out=first[1:])
        return (rows, places) if first.all() else (rows[first], places[first])

    def read_column(self, field: int, rows: Ints, places: Ints) -> None:
        """Read a column at some keys, one each of some rows."""
        count, node, column = len(self._start), self._node.nodes[field], self.columns[field]
        pad = -node.margin % 8  # then the window has the value's words as they are
        end, ok, payload = node.scan(self.batch, self.batch.window(self.keys.value[places] - pad).after(pad))
        if len(rows) == count:
            leads = _lead(self.batch, end, ok, self.limit)
            self.columns[field] = _Column(places.copy(), payload, leads > 0)
        else:
            leads = _lead(self.batch, end, ok, self.limit[rows])
            if column is None:
                column = _Column(np.full(count, -1), node.empty(count), np.zeros(count, bool))
                self.columns[field] = column
            column.key[rows], column.seen[rows] = places, leads > 0
            put(column.values, rows, payload)
        self.leads[places] = leads

    def _result(self) -> Scanned:
        ok = self._ok & (self._end > 0)
        valid = ok.copy()
        payload: Payload = [valid]
        for node, column in zip(self._node.nodes, self.columns, strict=True):
            if column is None:
                payload += node.empty(len(ok))
                seen = np.zeros(len(ok), bool)
            else:
                seen = column.seen & valid
                clear(column.values, np.flatnonzero(~seen))
                payload += column.values
            if self._node.fail_on_missing:
                ok &= seen
        valid &= ok
        end = np.where(ok, self._end + 1, self._start)
        rows = np.flatnonzero(~valid)
        if len(rows):
            null = rows[is_null(self.batch.window(self._start[rows]))]
            ok[null] = True
            end[null] += 4
        return Scanned(end, ok, payload)


class _Chains:
    """The way through some objects from member to member, those of no column among them.

    For each of the rows `_position` is how far it is read. For each key behind their beginnings `_owner` is the row,
    `_leads` where its member leads to (0 where it was not read or is not fine), `_reached` how far the members before
    it lead, and `_member` whether it is one of the object's.
    """

    def __init__(self, members: KeyedMembers, rows: Ints) -> None:
        self._members, self._rows = members, rows
        self._batch, self._keys = members.batch, members.keys
        low = np.searchsorted(self._keys.quote, members.first[rows])
        self._count = np.maximum(self._keys.bounds[members.message[rows] + 1] - low, 0)
        self._low = np.cumsum(self._count) - self._count
        self._to_local = self._low - low
        self._places = spread(low, self._count)
        self._owner = np.repeat(np.arange(len(rows)), self._count)
        self._quote = self._keys.quote[self._places]
        self._field = members.named.field[self._places]
        self._begin = members.named.begin[self._places]
        self._first = members.first[rows]
        self._limit = members.limit[rows]
        self._ok = np.ones(len(rows), bool)
        self._position = self._first.copy()
        self._leads = members.leads[self._places]
        self._member = np.zeros(len(self._places), bool)
        self._reached = self._reach(slice(None), self._count)

    def read(self) -> Ints:
        """Go through the objects; returns where they close, 0 for what is refused."""
        if not len(self._places):
            return np.zeros(len(self._rows), np.int64)
        self._skip_others(slice(None))
        self._follow(slice(None), self._count)
        for _ in range(_MOST_PASSES):
            rows = np.flatnonzero(self._ok & (self._batch.byte(self._position) == bits.QUOTE))
            if len(rows) < max(_SMALLEST * self._batch.few, 1):
                break
            places = spread(self._low[rows], self._count[rows])
            self._skip_others(places)
            self._read_on(rows)
            self._follow(places, self._count[rows])
        self._check_others()
        for column in self._members.columns:
            if column is not None:
                key = column.key[self._rows]
                there = np.flatnonzero(key >= 0)
                column.seen[self._rows[there]] = self._member[key[there] + self._to_local[there]]
        self._ok &= self._batch.byte(self._position) == bits.CLOSE_OBJECT
        return self._position * self._ok

    def _reach(self, places: Ints | slice, count: Ints) -> Ints:
        """How far the members before each key lead, for all keys of some rows, given how many each row has."""
        reached = np.maximum.accumulate(self._leads[places])
        reached[1:] = reached[:-1]
        first = (np.cumsum(count) - count)[count > 0]
        reached[first] = self._first[self._owner[places][first]]
        return reached

    def _follow(self, places: Ints | slice, count: Ints) -> None:
        """Find out which keys are members, and how far they lead, in some rows; `places` are all of their keys."""
        owner, leads = self._owner[places], self._leads[places]
        begin = self._begin[places]
        reached = self._reached[places] = self._reach(places, count)
        ahead = self._quote[places] > reached  # else it stands inside of a member
        member: Mask = begin == reached
        member |= (begin == 0) & (self._batch.byte(reached) == bits.QUOTE)
        member &= ahead
        member &= leads > 0
        ahead &= ~member
        gaps = np.cumsum(ahead)
        first = (np.cumsum(count) - count)[count > 0]
        before = gaps == np.repeat(gaps[first] - ahead[first], count[count > 0])
        member &= before
        self._member[places] = member
        # what was read inside of a member, or of what looked like one, must not lead out of it
        stray = before & (leads > np.maximum.accumulate(leads * member))
        self._ok[owner[stray]] = False
        owner, leads = owner[member], leads[member]
        last = np.ones(len(owner), bool)
        np.not_equal(owner[1:], owner[:-1], out=last[:-1])
        self._position[owner[last]] = leads[last]

    def _skip_others(self, places: Ints | slice) -> None:
        """Read the members of no column among these keys."""
        unread = (self._field[places] < 0) & (self._leads[places] == 0)
        unread &= self._quote[places] > self._reached[places]
        unread_places = np.flatnonzero(unread) if isinstance(places, slice) else places[unread]
        if len(unread_places):
            values = self._keys.value[self._places[unread_places]]
            end, ok, _ = _SKIP.scan(self._batch, self._batch.window(values))
            self._leads[unread_places] = _lead(self._batch, end, ok, self._limit[self._owner[unread_places]])

    def _check_others(self) -> None:
        """Refuse rows with a key that is no plain text: with escapes it could be that of a column."""
        places = np.flatnonzero(self._member & (self._field < 0))
        if not len(places):
            return
        at = self._reached[places]
        _, quote, ok, escaped = read_text(self._batch, self._batch.window(at))
        ok &= (quote == self._quote[places]) & (quote - at <= _LONGEST_KEY)
        if escaped is not None:
            ok &= ~escaped
        self._ok[self._owner[places[~ok]]] = False

    def _read_on(self, rows: Ints) -> None:
        """Read the columns at which some rows came to a stop."""
        at = self._position[rows]
        places = np.searchsorted(self._quote, at, "right")
        there = places < self._low[rows] + self._count[rows]
        field = np.where(there, self._field.take(places, mode="clip"), -1)
        read = there & (field < 0) & (self._leads.take(places, mode="clip") > 0)
        self._ok[rows[(field < 0) & ~read]] = False
        for number in np.unique(field[field >= 0]).tolist():
            mine = field == number
            self._read_again(number, rows[mine], places[mine])

    def _read_again(self, field: int, rows: Ints, places: Ints) -> None:
        """Read a column at another place than before; refuse rows where it was a member there, or not fine."""
        column = self._members.columns[field]
        if column is not None:
            before = column.key[self._rows[rows]]
            local = before + self._to_local[rows]
            again = (before >= 0) & ((local == places) | self._member[np.maximum(local, 0)])
            if again.any():
                self._ok[rows[again]] = False
                rows, places = rows[~again], places[~again]
        if len(rows):
            self._members.read_column(field, self._rows[rows], self._places[places])
            self._leads[places] = self._members.leads[self._places[places]]


def _lead(batch: JsonBytes, end: Ints, ok: Mask, limit: Ints) -> Ints:
    """Where members lead to, given where their values end and which of these are good; 0 for the others.

    What runs into the next row is broken, and must not be in the way there: there is a limit.
    """
    behind, found = bits.skip_blanks(batch, end)
    comma = found == bits.COMMA
    behind, following = bits.skip_blanks(batch, behind + comma)
    ok = ok & (following == np.where(comma, np.uint8(bits.QUOTE), np.uint8(bits.CLOSE_OBJECT)))
    ok &= behind <= limit
    leads: Ints = behind * ok
    return leads
