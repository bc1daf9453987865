"""Columns for Avro only: bytes of a fixed size, texts that may not be UTF-8, and values of one of several columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.columns import Column
from kvformat.codecs._kernel.memory import filled, grown
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.text_columns import Binaries, Texts
from kvformat.registry.java.charsets import java_text

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import ascii_end, byte


class RepairedTexts(Texts):
    """STRING. `finish` replaces malformed UTF-8 by U+FFFD, as Java does, and then sets `is_repaired`."""

    def __init__(self, type: Any, kind: pa.DataType) -> None:
        super().__init__(type, kind)
        self.is_repaired = False

    def finish(self) -> pa.Array:
        texts = Texts.finish(self)
        self.is_repaired = False
        if ascii_end(self.text.view, 0, self.text.size) < self.text.size and not self.is_utf8():
            self.is_repaired = True
            raw = texts.view(pa.binary()).to_pylist()
            texts = pa.array([None if data is None else java_text(data) for data in raw], self.kind)
        return texts

    def is_utf8(self) -> bool:
        """Return whether each value is valid UTF-8: all of them together are, and each begins at a character."""
        size = self.text.size
        for i in range(self.length):
            if byte(self.text.view, self.offsets[i], size) & 0xC0 == 0x80:
                return False
        reader = Reader()
        reader.open(memoryview(self.text.view))
        return reader.utf8_end(0, size) == size


class FixedBytes(Binaries):
    """BINARY(n). Only values take bytes while the column grows. `finish` adds those of the nulls."""

    def buffers(self) -> list[pa.Buffer]:
        size = self.kind.bit_width // 8
        offsets = np.frombuffer(memoryview(self.offsets), np.int32, self.length + 1)
        data = np.frombuffer(memoryview(self.text.view), np.uint8, self.text.size)
        if self.text.size < self.length * size:
            spread = np.zeros((self.length, size), np.uint8)
            spread[np.diff(offsets) > 0] = data.reshape(-1, size)
            data = spread.reshape(-1)
        return [pa.py_buffer(data)]


class Choices(Column):
    """Values that are each the next one of one of `columns`. `finish` returns the number of each value's column."""

    numbers: memoryview[int]

    def __init__(self, type: Any, kind: pa.DataType, columns: list[Column]) -> None:
        super().__init__(type, kind)
        self.columns = list(columns)

    def start(self, capacity: int) -> int:
        for column in self.columns:
            column.start(capacity // len(self.columns))
        return Column.start(self, capacity)

    def grow(self, capacity: int) -> int:
        self.numbers = grown(self.numbers if self.length else None, self.length, capacity, "i")
        return Column.grow(self, capacity)

    def choose(self, number: int) -> int:
        """Append the last value of the column with a number."""
        if self.length == self.capacity:
            self.grow(self.capacity * 2)
        self.numbers[self.length] = number
        column = cython.cast(Column, self.columns[number])
        return self.add_validity(column.valid[column.length - 1])

    def truncate(self, length: int) -> int:
        while self.length > length:
            self.length -= 1
            column = cython.cast(Column, self.columns[self.numbers[self.length]])
            column.truncate(column.length - 1)
        for i in range(len(self.columns)):
            column = cython.cast(Column, self.columns[i])
            column.truncate(column.length)  # a part of a value
        return 0

    def finish(self) -> pa.Array:
        return pa.Array.from_buffers(self.kind, self.length, [None, filled(self.numbers, self.length)])
