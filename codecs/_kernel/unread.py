"""Columns that do not parse their values: they keep the text, or only whether there is a value."""

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
    """Large values that are often the same as the value before. Each row has an index into `texts`."""

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
            # an object or array ends with its bytes, but a number may have more digits
            self.last, self.size = memoryview(text + bytes(8)), end - at if text[-1:] in (b"}", b"]") else 0
        return self.add_value(len(self.texts) - 1, end)


class Presence(Int64Column):
    """Whether an object has a member: 1 for any value, null for a missing member."""

    def read_value(self, r: Reader, at: int) -> int:
        end = r.skip(at)
        return end if end < 0 else self.add_value(1, end)
