"""Columns of values that are not read: they are kept as they stand, or noted to be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.columns import Column, Int64Column
from kvformat.codecs._kernel.reader import Reader

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import matches, part


class Repeats(Int64Column):
    """Large values, most of them like the one before: the number of each among those that differ, the `texts`."""

    def __init__(self, type: Any, kind: pa.DataType) -> None:
        super().__init__(type, kind, None, np.int32)
        self.texts: list[bytes] = []
        self.last, self.size = memoryview(bytes(8)), 0

    def start(self, capacity: int) -> int:
        self.texts = []
        self.size = 0
        return Column.start(self, capacity)

    def read_value(self, r: Reader, at: int) -> int:
        end = at + self.size
        if not matches(r.data, at, r.end, self.last, 0, self.size):
            end = r.skip(at)
            if end < 0:
                return end
            text = part(r.data, at, end)
            self.texts.append(text)
            # equal bytes end alike, but a number may go on
            self.last, self.size = memoryview(text + bytes(8)), end - at if text[-1:] in (b"}", b"]") else 0
        return self.add_value(len(self.texts) - 1, end)


class Presence(Int64Column):
    """Whether a member is there, whatever its value: 1, and null where it is not."""

    def read_value(self, r: Reader, at: int) -> int:
        end = r.skip(at)
        return end if end < 0 else self.add_value(1, end)
