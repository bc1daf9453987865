"""Columns of rows, arrays and maps, and the lookup of member names.

A container reads its members into its inner columns. If a member can't be read, the message is BAD. A lenient reader
makes the member null instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import BAD, EXPECTED_COMMA, EXPECTED_NAME, MAX_DEPTH, TOO_DEEP
from kvformat.codecs._kernel.columns import Column, Slices
from kvformat.codecs._kernel.memory import filled, grown
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.text_columns import Texts
from kvformat.registry.contract.cells import CELLS_PER_BYTE
from kvformat.registry.java.parse import replace_lone_surrogates

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
"""From this count of wrong guesses on, the lookup by the previous order of names is skipped."""


class Names:
    """Lookup table from member names to their numbers.

    It first tries the name that followed the previous name last time, then a hash table. It compares `"name":`, eight
    bytes at a time. Names with a quote or backslash are escaped in a message; only `search_escaped` finds them.
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
        # the number of the name that last followed each name; the last entry is for the start of an object
        followers = [*range(1, len(names)), -1, 0 if names else -1][: len(names) + 1]
        self.followers = _view(np.array(followers, np.int32), "i")
        self.value = self.doubt = 0

    def find(self, r: Reader, at: int, width: int) -> int:
        """Return the number of the name at an offset, -1 if unknown. `width` is its size with quotes and colon."""
        hash = width * 5 + byte(r.data, at + 1, r.end) * 3 + byte(r.data, at + width - 3, r.end)
        number = self.buckets[hash & (len(self.buckets) - 1)]
        while number >= 0:
            start = self.starts[number]
            if self.starts[number + 1] - start == width and matches(r.data, at, r.end, self.texts, start, width):
                break
            number = self.chains[number]
        return number

    def read_name(self, r: Reader, at: int, before: int) -> int:
        """Read the name at an offset. Return its number, or -1 if it is unknown.

        `before` is the number of the previous known name, `count` if there is none. The method sets `value` to the
        offset of the member's value, or to a code. After a code the number has no meaning.
        """
        number = self.followers[before]
        if number >= 0 and self.doubt < DOUBTFUL:
            start = self.starts[number]
            width = self.starts[number + 1] - start  # 0 for a name with a quote or backslash
            if matches(r.data, at, r.end, self.texts, start, width):
                self.value = token(r.data, at + width, r.end)
                if self.doubt:
                    self.doubt -= 1
                return number
        return self.search(r, at, before)

    def search(self, r: Reader, at: int, before: int) -> int:
        """Find the name at an offset by its hash. Arguments and results are those of `read_name`."""
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
        """Find a name that has escapes, or blanks before the colon. Return its number; set `value`."""
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
        # an element has at least two bytes, so a few cells per element never exceed the limit
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
        """Append an element to `column`. `first` is the column's length at the container's start."""
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
        """Return whether the array that has not ended has elements."""
        return self.element.length > self.offsets[self.length]

    def end(self) -> int:
        """End an array after its elements."""
        self.end_value(True)
        self.offsets[self.length] = self.element.length
        return 0

    def put(self, value: Any) -> int:
        for item in value:
            self.element.put_or_null(item)
        return self.end()

    def null(self) -> int:
        self.end_value(False)
        self.offsets[self.length] = self.offsets[self.length - 1]
        return 0

    def truncate(self, length: int) -> int:
        self.length = length
        return self.element.truncate(self.offsets[length])

    def weight(self) -> int:
        return self.element.weight() + 8 * self.element.length

    def finish(self) -> pa.Array:
        buffers = [self.validity(), filled(self.offsets, self.length + 1)]
        return pa.Array.from_buffers(self.kind, self.length, buffers, children=[self.element.finish()])


class Maps(Lists):
    """MAP and MULTISET with texts as keys. A repeated name keeps its first position and its last value."""

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
        """Append the entries of an object. Set `Reader.repeats` if a name may be there twice.

        In that case only the outermost map is read again. If each map did so, inner maps would be read many times.
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
        """Replace the last step of the error path, a number, by the key."""
        r.steps[len(r.steps) - 1] = name

    def read_by_name(self, r: Reader, at: int, first: int) -> int:
        """Read an object with the last value of each name."""
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
        r.rereads += 1  # inner maps need not look for repeated names first
        kept = self.read_last_values(r, places, first)
        r.rereads -= 1
        if kept < 0:
            return kept
        r.depth -= 1
        self.end()
        return at + 1

    def read_last_values(self, r: Reader, places: dict[str, int], first: int) -> int:
        """Read the values at the offsets `places`. Names are the same key if only lone surrogates differ."""
        last: dict[str, int] = {}
        for name in places:
            last[replace_lone_surrogates(name)] = places[name]
        for name in places:
            if last[replace_lone_surrogates(name)] != places[name]:  # not in the map, but it must be valid
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
        """Append the value of a name."""
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
    """ROW. Each member goes into one of `columns`. The last value of a repeated name counts."""

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
        """Append the members of an object to the columns. Return the object's end, or a code.

        A later value of a name replaces the earlier one. If `noted` is set, it gets the offsets of the values.
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
        """Append the last value of each name, in the order of the columns."""
        if self.last is None:
            self.last = Members(self.names)
        end = self.last.find_members(r, at)
        self.looked_at = end
        if end < 0:
            return end
        for number in range(self.names.count):
            column = self.columns[number]
            place = self.last.places[number]
            if place < 0:
                continue
            if column.length > self.length:
                column.truncate(self.length)
            place = column.read_value(r, place)
            if place == BAD:
                r.steps.append(self.field_names[number])
            if place < 0:
                return place
        return end

    def repeat_row(self, r: Reader, members: Members, laid: Members) -> int:
        """Append the last row again with its `members`, without those of `laid`.

        Columns that `laid` did not change repeat their value; the others read it again from the offsets in `members`.
        """
        for number in range(self.names.count):
            column = cython.cast(Column, self.columns[number])
            if laid.places[number] >= 0 or not column.repeat():
                place = members.places[number]
                if place >= 0 and column.read_value(r, place) < 0:
                    return BAD
        return self.close(r, r.end)

    def close(self, r: Reader, end: int) -> int:
        """End a row: append nulls for missing members, or return BAD with `fail_on_missing`. Otherwise return `end`."""
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
        self.end_value(True)
        return end

    def end_row(self) -> int:
        """End a row. Each column must already have its value."""
        for number in range(self.names.count):
            column = cython.cast(Column, self.columns[number])
            if column.length != self.length + 1:
                raise AssertionError(f"a column of {column.length} values in row {self.length}")
        return self.end_value(True)

    def put(self, value: Any) -> int:
        for number in range(self.names.count):
            cython.cast(Column, self.columns[number]).put_or_null(value[self.field_names[number]])
        return self.end_row()

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
        lengths = [column.length for column in self.columns]
        if lengths != [self.length] * len(lengths):
            raise AssertionError(f"columns of {lengths} values in {self.length} rows")
        children = [column.finish() for column in self.columns]
        return pa.Array.from_buffers(self.kind, self.length, [self.validity()], children=children)


MISSING = "is missing"
"""The reason if an object lacks a required member."""


class Members:
    """Offsets of the values of an object's members: `places`, by the number of the name, -1 for a missing member.

    A subclass may do more with a value than skip it (`skip_value`).
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.places: memoryview[int] = grown(None, 0, names.count, "q")

    def forget(self) -> int:
        """Reset all offsets to -1."""
        for number in range(self.names.count):
            self.places[number] = -1
        return 0

    def find_members(self, r: Reader, at: int) -> int:
        """Find the members of the object at an offset. Return its end, or a code."""
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
        """Skip the value of a member, given the number of its name. Return its end, or a code."""
        return r.skip(at)
