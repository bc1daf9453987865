"""The keys of VARIANT values: one number for each key, in a table that the values of a batch share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kvformat.codecs._kernel.memory import Bytes, grown

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import BACKSLASH, QUOTE, SPACE, append, byte, equal, matches, word

ALL, LOW_HALF = 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF
FACTOR = int.from_bytes(os.urandom(8), "little") | 1
"""A secret factor of each hash, so that nobody can choose keys with equal hashes. No result depends on it."""
MOST_KEPT, MOST_BYTES_KEPT = 1 << 14, 1 << 20
"""Keys of the table, and their bytes, above which it is emptied before the next value."""
RANKS: memoryview[int] = memoryview(
    bytes({0xEE: 0xF3, 0xEF: 0xF4}.get(c, c - 2 if 0xF0 <= c <= 0xF4 else c) for c in range(256))
)
"""Bytes of UTF-8 in the order of UTF-16: Java compares texts by UTF-16 units, and surrogates come before U+E000."""


class Keys:
    """A hash table of keys.

    A key has a number in the table. In the value that is read, it also has a position in the value's dictionary, its
    id. `used` has the numbers of the keys in the order of their ids.
    """

    def __init__(self) -> None:
        self.empty()

    def empty(self) -> int:
        """Remove all keys."""
        self.count = self.used_count = 0
        self.capacity = 64
        self.text = Bytes(1024)
        self.ends: memoryview[int] = grown(None, 0, 65, "q")  # a key is text[ends[number]:ends[number + 1]]
        self.ends[0] = 0
        self.hashes: memoryview[int] = grown(None, 0, 64, "Q")
        self.heads: memoryview[int] = grown(None, 0, 64, "Q")  # the first eight bytes, to compare keys quickly
        self.ids: memoryview[int] = grown(None, 0, 64, "i")
        self.values: memoryview[int] = grown(None, 0, 64, "q")  # the value that `ids` belongs to
        self.plain: memoryview[int] = grown(None, 0, 64, "B")  # whether JSON needs no escape in the key
        self.after: memoryview[int] = grown(None, 0, 65, "i")  # the key that came after this one; first: at the start
        self.after[0] = -1
        self.used: memoryview[int] = grown(None, 0, 64, "i")
        self.slots: memoryview[int] = grown(None, 0, 256, "i")
        self.clear_slots(256)
        self.value = 0
        self.last = -1
        self.changed = True
        return 0

    def clear_slots(self, size: int) -> int:
        """Make all slots of the hash table free."""
        self.mask = size - 1
        for i in range(size):
            self.slots[i] = -1
        return 0

    def start(self) -> int:
        """Start a value: its dictionary is empty."""
        if self.count > MOST_KEPT or self.text.size > MOST_BYTES_KEPT:
            self.empty()
        self.value += 1
        self.used_count = 0
        self.last = -1
        return 0

    def expected(self, data: memoryview[int], at: int, end: int) -> int:
        """Return the key that is expected next if the string at an offset, after its quote, is this key; else -1."""
        number = self.after[self.last + 1]
        if number < 0 or not self.plain[number]:
            return -1
        start = self.ends[number]
        size = self.ends[number + 1] - start
        if size == 0 or byte(data, at + size, end) != QUOTE or not matches(data, at, end, self.text.view, start, size):
            return -1
        self.last = number
        return number

    def find(self, data: memoryview[int], start: int, stop: int) -> int:
        """Return the number of the key `data[start:stop]`. Add it to the table if it is new."""
        mixed = FACTOR ^ (stop - start)
        at = start
        while at < stop:  # four bytes at a time: the highest bit of a whole word would not meet the factor
            chunk = word(data, at) & LOW_HALF
            if stop - at < 4:
                chunk &= 0xFFFFFF >> 8 * (3 - (stop - at))
            mixed = (mixed ^ chunk) * FACTOR & ALL
            mixed ^= mixed >> 32
            at += 4
        slot = mixed & self.mask
        number = self.slots[slot]
        while number >= 0:
            first = self.ends[number]
            fits = self.hashes[number] == mixed and self.ends[number + 1] - first == stop - start
            if fits and (start == stop or matches(data, start, stop, self.text.view, first, stop - start)):
                break
            slot = slot + 1 & self.mask
            number = self.slots[slot]
        if number < 0:
            number = self.add(data, start, stop, mixed)
            self.slots[slot] = number
            if self.count * 2 > self.mask:
                self.rehash()
        self.after[self.last + 1] = number
        self.last = number
        return number

    def add(self, data: memoryview[int], start: int, stop: int, mixed: int) -> int:
        """Add a key. Return its number."""
        if self.count == self.capacity:
            self.grow()
        number = self.count
        begin = self.text.size
        append(self.text, data, start, stop)
        head = 0
        plain = True
        for i in range(stop - start):
            c = byte(self.text.view, begin + i, self.text.size)
            if c < SPACE or c in (QUOTE, BACKSLASH):
                plain = False
            if i < 8:
                rank = RANKS[c]
                head |= rank << 8 * (7 - i)
        self.ends[number + 1] = self.text.size
        self.hashes[number] = mixed
        self.heads[number] = head
        self.plain[number] = plain
        self.values[number] = 0
        self.after[number + 1] = -1
        self.count += 1
        return number

    def grow(self) -> int:
        """Double the capacity for keys."""
        count = self.count
        self.capacity = count * 2
        with cython.gil:
            self.ends = grown(self.ends, count + 1, count * 2 + 1, "q")
            self.hashes = grown(self.hashes, count, count * 2, "Q")
            self.heads = grown(self.heads, count, count * 2, "Q")
            self.ids = grown(self.ids, count, count * 2, "i")
            self.values = grown(self.values, count, count * 2, "q")
            self.plain = grown(self.plain, count, count * 2, "B")
            self.after = grown(self.after, count + 1, count * 2 + 1, "i")
            self.used = grown(self.used, count, count * 2, "i")
        return 0

    def rehash(self) -> int:
        """Use four times as many slots."""
        size = (self.mask + 1) * 4
        with cython.gil:
            self.slots = grown(None, 0, size, "i")
        self.clear_slots(size)
        for number in range(self.count):
            slot = self.hashes[number] & self.mask
            while self.slots[slot] >= 0:
                slot = slot + 1 & self.mask
            self.slots[slot] = number
        return 0

    def id_of(self, number: int) -> int:
        """Return the position of a key in the dictionary of the value. Append the key if it is not there."""
        if self.values[number] == self.value:
            return self.ids[number]
        position = self.used_count
        self.values[number] = self.value
        self.ids[number] = position
        if self.used[position] != number:
            self.used[position] = number
            self.changed = True
        self.used_count = position + 1
        return position

    def less(self, a: int, b: int) -> bool:
        """Return whether the key with the id `a` comes before the one with the id `b`, by UTF-16 units."""
        left, right = self.used[a], self.used[b]
        if self.heads[left] != self.heads[right]:
            return self.heads[left] < self.heads[right]
        first, second = self.ends[left], self.ends[right]
        left_size, right_size = self.ends[left + 1] - first, self.ends[right + 1] - second
        same = equal(self.text.view, first, second, min(left_size, right_size))
        if same == min(left_size, right_size):
            return left_size < right_size
        return RANKS[self.text.view[first + same]] < RANKS[self.text.view[second + same]]
