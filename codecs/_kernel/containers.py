"""Columns of rows, arrays and maps, and the names of members.

A container reads its members into the columns inside of it. Where a member can't be read, the message is BAD; or the
member is null, if the reader is lenient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._java.parse import replace_lone_surrogates
from kvformat.codecs._kernel.codes import BAD, EXPECTED_COMMA, EXPECTED_NAME, MAX_DEPTH, TOO_DEEP
from kvformat.codecs._kernel.columns import Column, Slices, Texts
from kvformat.codecs._kernel.memory import filled, grown
from kvformat.codecs._kernel.reader import Reader
from kvformat.registry.contract.cells import CELLS_PER_BYTE

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import (
        COLON,
        COMMA,
        LEFT_BRACE,
        LEFT_BRACKET,
        QUOTE,
        RIGHT_BRACE,
        RIGHT_BRACKET,
        byte,
        matches,
        part,
        special,
        token,
    )

DOUBTFUL = 32
"""From here on it is no use to look for a name where it came last time: too often it was not there."""


class Names:
    """Known names of members, by number. A name is looked for where it came last time, then by a hash.

    Compared is `"name":`, eight bytes at a time. A name with a quote or backslash can't stand in a message as it is: it
    is only found by `unusual`.
    """

    def __init__(self, names: list[str]) -> None:
        self.count = len(names)
        self.numbers = {name: number for number, name in enumerate(names)}
        keys = [b'"%s":' % name.encode() if not {'"', "\\"} & set(name) else b"" for name in names]
        self.texts = memoryview(b"".join(keys) + bytes(8))
        self.starts = _view(np.cumsum([0, *map(len, keys)]).astype(np.int32), "i")
        buckets, chains = [-1] * (16 << len(names).bit_length()), [-1] * (len(names) + 1)
        for number, key in enumerate(keys):
            if key:
                place = (len(key) * 5 + key[1] * 3 + key[len(key) - 3]) & (len(buckets) - 1)
                chains[number], buckets[place] = buckets[place], number
        self.buckets = _view(np.array(buckets, np.int32), "i")
        self.chains = _view(np.array(chains, np.int32), "i")
        # the name that came last time behind each one; behind none, at the end
        followers = [*range(1, len(names)), -1, 0 if names else -1][: len(names) + 1]
        self.followers = _view(np.array(followers, np.int32), "i")
        self.value = self.doubt = 0

    def find(self, r: Reader, at: int, width: int) -> int:
        """The number of the name that is at a place, with its colon so many bytes wide; -1 if it is not known."""
        hash = width * 5 + byte(r.data, at + 1, r.end) * 3 + byte(r.data, at + width - 3, r.end)
        number = self.buckets[hash & (len(self.buckets) - 1)]
        while number >= 0:
            start = self.starts[number]
            if self.starts[number + 1] - start == width and matches(r.data, at, r.end, self.texts, start, width):
                break
            number = self.chains[number]
        return number

    def read_name(self, r: Reader, at: int, before: int) -> int:
        """The number of the name at a place, -1 if it is not known, given the one before it (`count` if none).

        `value` is then the place of the member's value, or a code: without one the number says nothing.
        """
        number = self.followers[before]
        if number >= 0 and self.doubt < DOUBTFUL:
            start = self.starts[number]
            width = self.starts[number + 1] - start  # 0 for a name that can't stand as it is
            if matches(r.data, at, r.end, self.texts, start, width):
                self.value = token(r.data, at + width, r.end)
                if self.doubt:
                    self.doubt -= 1
                return number
        return self.search(r, at, before)

    def search(self, r: Reader, at: int, before: int) -> int:
        """The same for a name that is not where it came last time."""
        if byte(r.data, at, r.end) != QUOTE:
            self.value = r.fail(at, EXPECTED_NAME)
            return -1
        stop = special(r.data, at + 1, r.end)
        if byte(r.data, stop, r.end) == QUOTE and byte(r.data, stop + 1, r.end) == COLON:
            self.value = token(r.data, stop + 2, r.end)
            number = self.find(r, at, stop + 2 - at)
        else:
            number = self.search_escaped(r, at)
        if number >= 0:
            if self.followers[before] != number:
                self.followers[before] = number
                if self.doubt < DOUBTFUL + 8:
                    self.doubt += 2
            elif self.doubt:
                self.doubt -= 1
        return number

    def search_escaped(self, r: Reader, at: int) -> int:
        """The same for a name with escapes, or with blanks before the colon."""
        end = r.string(at)
        if end < 0:
            self.value = end
            return -1
        self.value = r.colon(end)
        if self.value < 0:
            return -1
        number: int = self.numbers.get(r.string_text(at + 1, end), -1)
        return number


def _view(array: Any, form: Any) -> memoryview[int]:
    view: memoryview[int] = memoryview(bytearray(array.tobytes())).cast(form)
    return view


class Lists(Slices):
    """ARRAY. With `other_forms`, `convert` returns the elements of a value that is not an array."""

    def __init__(
        self, type: Any, kind: pa.DataType, element: Column, convert: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(type, kind, convert)
        self.element = element
        # an element has two bytes at least, so few cells are never too many
        self.counted = element.cells if element.cells > CELLS_PER_BYTE else 0

    def start(self, capacity: int) -> int:
        self.element.start(capacity)
        return Slices.start(self, capacity)

    def read_value(self, r: Reader, at: int) -> int:
        if byte(r.data, at, r.end) != LEFT_BRACKET:
            return self.read_uncommon(r, at)
        if r.depth >= MAX_DEPTH:
            return r.fail(at, TOO_DEEP)
        r.depth += 1
        element = self.element
        first = element.length
        at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) != RIGHT_BRACKET:
            while True:
                at = self.read_element(r, element, at, first)
                if at < 0:
                    return at
                at = token(r.data, at, r.end)
                if byte(r.data, at, r.end) != COMMA:
                    break
                at = token(r.data, at + 1, r.end)
            if byte(r.data, at, r.end) != RIGHT_BRACKET:
                return r.fail(at, EXPECTED_COMMA)
        r.depth -= 1
        self.end()
        return at + 1

    def read_element(self, r: Reader, column: Column, at: int, first: int) -> int:
        """Read a member's value, given the place of the container's first one."""
        start = at
        depth = r.depth
        length = column.length
        if self.counted:
            at = r.count_cells(at, self.counted)
            if at < 0:
                return at
        at = column.read_value(r, at)
        if at == BAD:
            if r.lenient:
                r.depth = depth
                column.truncate(length)
                at = r.skip(start)
                if at > 0:
                    column.null()
            else:
                r.steps.append(length - first)
        return at

    def has_open(self) -> bool:
        """Whether there are elements of an array that is to end."""
        return self.element.length > self.offsets[self.length]

    def end(self) -> int:
        """End an array whose elements were read."""
        if self.length == self.capacity:
            self.grow(self.capacity * 2)
        self.offsets[self.length + 1] = self.element.length
        return self.add_validity(True)

    def put(self, value: Any) -> int:
        for item in value:
            self.element.put(item)
        return self.end()

    def null(self) -> int:
        if self.length == self.capacity:
            self.grow(self.capacity * 2)
        self.offsets[self.length + 1] = self.offsets[self.length]
        return self.add_validity(False)

    def truncate(self, length: int) -> int:
        self.length = length
        return self.element.truncate(self.offsets[length])

    def weight(self) -> int:
        return self.element.weight() + 8 * self.element.length

    def finish(self) -> pa.Array:
        buffers = [self.validity(), filled(self.offsets, self.length + 1)]
        return pa.Array.from_buffers(self.kind, self.length, buffers, children=[self.element.finish()])


class Maps(Lists):
    """MAP and MULTISET with texts as keys. Of a name that comes twice, the first place and the last value count."""

    def __init__(self, type: Any, kind: pa.DataType, keys: Texts, items: Column) -> None:
        super().__init__(type, kind, items)
        self.keys, self.items = keys, items

    def start(self, capacity: int) -> int:
        self.keys.start(capacity)
        return Lists.start(self, capacity)

    def read_value(self, r: Reader, at: int) -> int:
        if byte(r.data, at, r.end) != LEFT_BRACE:
            return self.read_uncommon(r, at)
        if r.depth >= MAX_DEPTH:
            return r.fail(at, TOO_DEEP)
        first = self.items.length
        opening = at
        if r.rereads or (r.careful and not r.streaming):
            return self.read_by_name(r, opening, first)
        outer = r.in_map
        length = self.length
        r.in_map = True
        if not outer:
            r.repeats = False
        at = self.read_entries(r, at, first)
        r.in_map = outer
        if at >= 0 and r.repeats and not outer:
            self.length = length
            return self.read_by_name(r, opening, first)
        return at

    def read_entries(self, r: Reader, at: int, first: int) -> int:
        """Take the entries of an object; `Reader.repeats` then says whether a name may be there twice.

        Then the outermost map is read again, only once: each that does so for itself would read those within it.
        """
        hashes = r.hashes.size
        r.depth += 1
        at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) != RIGHT_BRACE:
            while True:
                if byte(r.data, at, r.end) != QUOTE:
                    return r.fail(at, EXPECTED_NAME)
                text = self.keys.text.size
                at = r.string_into(at, self.keys.text)
                if at < 0:
                    return at
                r.hashes.push(self.keys.text.view, text, self.keys.text.size)
                at = self.keys.done(r, at)
                if at >= 0:
                    at = r.colon(at)
                if at < 0:
                    return at
                at = self.read_element(r, self.items, at, first)
                if at == BAD:
                    self.name_step(r, part(self.keys.text.view, text, self.keys.text.size).decode())
                if at < 0:
                    return at
                at = token(r.data, at, r.end)
                if byte(r.data, at, r.end) != COMMA:
                    break
                at = token(r.data, at + 1, r.end)
            if byte(r.data, at, r.end) != RIGHT_BRACE:
                return r.fail(at, EXPECTED_COMMA)
        r.depth -= 1
        if not r.repeats and self.items.length - first > 1 and r.hashes.repeated(hashes):
            r.repeats = True
        r.hashes.size = hashes
        self.end()
        return at + 1

    def name_step(self, r: Reader, name: str) -> None:
        """Put the key instead of a number into the way to a value."""
        r.steps[len(r.steps) - 1] = name

    def read_by_name(self, r: Reader, at: int, first: int) -> int:
        """Read an object by the last place of each name."""
        self.keys.truncate(first)
        self.items.truncate(first)
        places: dict[str, int] = {}
        at = token(r.data, at + 1, r.end)
        r.depth += 1
        while byte(r.data, at, r.end) != RIGHT_BRACE:
            if byte(r.data, at, r.end) != QUOTE:
                return r.fail(at, EXPECTED_NAME)
            end = r.string(at)
            value = end if end < 0 else r.colon(end)
            if value < 0:
                return value
            name = r.string_text(at + 1, end)
            places[replace_lone_surrogates(name) if r.streaming else name] = value
            at = r.skip(value)
            if at < 0:
                return at
            at = token(r.data, at, r.end)
            if byte(r.data, at, r.end) == COMMA:
                at = token(r.data, at + 1, r.end)
                if byte(r.data, at, r.end) == RIGHT_BRACE:
                    return r.fail(at, EXPECTED_NAME)
            elif byte(r.data, at, r.end) != RIGHT_BRACE:
                return r.fail(at, EXPECTED_COMMA)
        r.rereads += 1  # maps inside need not find out again that a name is there twice
        kept = self.read_last_values(r, places, first)
        r.rereads -= 1
        if kept < 0:
            return kept
        r.depth -= 1
        self.end()
        return at + 1

    def read_last_values(self, r: Reader, places: dict[str, int], first: int) -> int:
        """Read the values at these places; names that are equal once they are cleaned are one."""
        last: dict[str, int] = {}
        for name in places:
            last[replace_lone_surrogates(name)] = places[name]
        for name in places:
            if last[replace_lone_surrogates(name)] != places[name]:  # no value of the map, but it must be good
                start = self.read_named_value(r, places[name], name)
                if start < 0:
                    return start
                self.items.truncate(first)
        for key in last:
            self.keys.put(key)
            start = self.read_named_value(r, last[key], key)
            if start < 0:
                return start
        return 0

    def read_named_value(self, r: Reader, at: int, name: str) -> int:
        """Read the value of a name."""
        at = self.read_element(r, self.items, at, 0)
        if at == BAD:
            self.name_step(r, name)
        return at

    def truncate(self, length: int) -> int:
        self.keys.truncate(self.offsets[length])
        return Lists.truncate(self, length)

    def weight(self) -> int:
        return self.keys.weight() + self.items.weight() + 16 * self.items.length

    def finish(self) -> pa.Array:
        entries = pa.StructArray.from_arrays(
            [self.keys.finish(), self.items.finish()], fields=[self.kind.key_field, self.kind.item_field]
        )
        buffers = [self.validity(), filled(self.offsets, self.length + 1)]
        return pa.Array.from_buffers(self.kind, self.length, buffers, children=[entries])


class Rows(Column):
    """ROW: its members go into `columns`, one value each. Of a name that comes twice the last value counts."""

    def __init__(self, type: Any, kind: pa.DataType, field_names: list[str], columns: list[Column]) -> None:
        super().__init__(type, kind)
        self.field_names, self.columns = field_names, columns
        self.names = Names(field_names)
        self.cells = 1 + sum(column.cells for column in columns)
        self.last: Members | None = None
        self.noted: Members | None = None
        self.looked_at = 0

    def start(self, capacity: int) -> int:
        for column in self.columns:
            column.start(capacity)
        return Column.start(self, capacity)

    def read_value(self, r: Reader, at: int) -> int:
        if byte(r.data, at, r.end) != LEFT_BRACE:
            return self.read_uncommon(r, at)
        if r.depth >= MAX_DEPTH:
            return r.fail(at, TOO_DEEP)
        r.depth += 1
        end = self.read_members_carefully(r, at) if r.careful else self.read_members(r, at)
        r.depth -= 1
        return end if end < 0 else self.close(r, end)

    def read_members(self, r: Reader, at: int) -> int:
        """Take the members of an object; a column that has one already takes the new one instead.

        If they are to be `noted`, their places are.
        """
        noted = self.noted
        names = self.names
        columns = self.columns
        before = names.count
        at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) == RIGHT_BRACE:
            return at + 1
        while True:
            number = names.read_name(r, at, before)
            at = names.value
            if at < 0:
                return at
            if number < 0:
                at = r.skip(at)
            else:
                column = cython.cast(Column, columns[number])
                if noted is not None:
                    noted.places[number] = at
                if column.length > self.length:
                    column.truncate(self.length)
                    if r.final_of is column:
                        r.final = r.final_of = None
                    if column.cells > CELLS_PER_BYTE:
                        at = r.count_cells(at, column.cells)
                        if at < 0:
                            return at
                start = at
                depth = r.depth
                at = column.read_value(r, at)
                if at == BAD:
                    if r.lenient:
                        r.depth = depth
                        column.truncate(self.length)
                        at = r.skip(start)
                        column.null()
                    else:
                        r.steps.append(self.field_names[number])
                before = number
            if at < 0:
                return at
            at = token(r.data, at, r.end)
            c = byte(r.data, at, r.end)
            if c == RIGHT_BRACE:
                return at + 1
            if c != COMMA:
                return r.fail(at, EXPECTED_COMMA)
            at = token(r.data, at + 1, r.end)

    def read_members_carefully(self, r: Reader, at: int) -> int:
        """Take the members by their last places, in the order of the columns."""
        if self.last is None:
            self.last = Members(self.names)
        end = self.last.find_members(r, at)
        self.looked_at = end
        if end < 0:
            return end
        for number in range(self.names.count):
            column = self.columns[number]
            place = self.last.places[number]
            if column.length > self.length:
                if place < 0:
                    continue
                column.truncate(self.length)
            if place < 0:
                continue
            place = column.read_value(r, place)
            if place == BAD:
                r.steps.append(self.field_names[number])
            if place < 0:
                return place
        return end

    def repeat_row(self, r: Reader, own: Members, laid: Members) -> int:
        """Take the last row once more as it was by its own members, without those that were laid over it."""
        for number in range(self.names.count):
            column = cython.cast(Column, self.columns[number])
            if laid.places[number] >= 0 or not column.repeat():
                place = own.places[number]
                if place >= 0 and column.read_value(r, place) < 0:
                    return BAD
        return self.close(r, r.end)

    def close(self, r: Reader, end: int) -> int:
        """End a row whose members were read, all columns equally long; returns `end`, or BAD where one is missing."""
        for number in range(self.names.count):
            column = cython.cast(Column, self.columns[number])
            if column.length == self.length:
                if r.fail_on_missing:
                    r.reject(end, self)
                    r.reason = MISSING
                    r.steps.append(self.field_names[number])
                    return BAD
                column.null()
            if column.length != self.length + 1:
                raise AssertionError(f"a column of {column.length} values in row {self.length}")
        if self.length == self.capacity:
            self.grow(self.capacity * 2)
        self.add_validity(True)
        return end

    def end_row(self) -> int:
        """End a row whose columns all have a value."""
        for number in range(self.names.count):
            column = cython.cast(Column, self.columns[number])
            if column.length != self.length + 1:
                raise AssertionError(f"a column of {column.length} values in row {self.length}")
        if self.length == self.capacity:
            self.grow(self.capacity * 2)
        return self.add_validity(True)

    def null(self) -> int:
        for number in range(self.names.count):
            cython.cast(Column, self.columns[number]).null()
        return Column.null(self)

    def truncate(self, length: int) -> int:
        for number in range(self.names.count):
            cython.cast(Column, self.columns[number]).truncate(length)
        self.length = length
        return 0

    def weight(self) -> int:
        all = 0
        for column in self.columns:
            all += column.weight()
        return all

    def finish(self) -> pa.Array:
        children = [column.finish() for column in self.columns]
        return pa.Array.from_buffers(self.kind, self.length, [self.validity()], children=children)


MISSING = "is missing"
"""The reason of an object without a member that must be there."""


class Members:
    """Where the values of some members of an object are: `places`, by the number of the name, -1 without one.

    A subclass may do more with a value than go past it (`value`).
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.places: memoryview[int] = grown(None, 0, names.count, "q")

    def forget(self) -> int:
        """Begin with another object."""
        for number in range(self.names.count):
            self.places[number] = -1
        return 0

    def find_members(self, r: Reader, at: int) -> int:
        """Find the members of the object at a place; returns its end."""
        self.forget()
        before = self.names.count
        at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) == RIGHT_BRACE:
            return at + 1
        while True:
            number = self.names.read_name(r, at, before)
            at = self.names.value
            if at < 0:
                return at
            if number >= 0:
                self.places[number] = at
                before = number
            at = self.skip_value(r, number, at)
            if at < 0:
                return at
            at = token(r.data, at, r.end)
            c = byte(r.data, at, r.end)
            if c == RIGHT_BRACE:
                return at + 1
            if c != COMMA:
                return r.fail(at, EXPECTED_COMMA)
            at = token(r.data, at + 1, r.end)

    def skip_value(self, r: Reader, number: int, at: int) -> int:
        """Go past the value of a member, by the number of its name; returns its end."""
        return r.skip(at)
