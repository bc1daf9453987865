"""Columns of maps with keys of any type, also for Avro, and of enums of Protocol Buffers as their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.avro_columns import RepairedTexts
from kvformat.codecs._kernel.codes import BYTES_OF_A_CELL, MOST_BYTES
from kvformat.codecs._kernel.columns import Column, Int64Column
from kvformat.codecs._kernel.containers import Lists
from kvformat.codecs._kernel.memory import filled
from kvformat.codecs._kernel.text_columns import Texts

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import same

FEW = 16
"""Up to this number of entries, all keys are compared with each other. Larger maps are assumed to have equal keys."""


class Pairs(Lists):
    """MAP with keys of any type. `finish` merges equal keys: the first position and the last value count."""

    def __init__(self, type: Any, kind: pa.DataType, keys: Column, items: Column) -> None:
        super().__init__(type, kind, items)
        self.keys, self.items = keys, items
        self.words = keys if isinstance(keys, Int64Column) else None
        self.texts = keys if isinstance(keys, Texts) else None
        self.has_equal = False

    def start(self, capacity: int) -> int:
        self.keys.start(capacity)
        self.has_equal = False
        return Lists.start(self, capacity)

    def compare(self) -> int:
        """Set `has_equal` if the map that has not ended may have equal keys."""
        first = self.offsets[self.length]
        last = self.keys.length
        if last - first > FEW:
            self.has_equal = True
        if self.has_equal:
            return 0
        for i in range(first + 1, last):
            for k in range(first, i):
                if self.equal(i, k):
                    self.has_equal = True
        return 0

    def equal(self, a: int, b: int) -> bool:
        """Return whether the keys at two indexes are equal."""
        if self.words is not None:
            return self.words.values[a] == self.words.values[b]
        texts = self.texts
        assert texts is not None
        start = texts.offsets[a]
        size = texts.offsets[a + 1] - start
        if texts.offsets[b + 1] - texts.offsets[b] != size:
            return False
        return size == 0 or same(texts.text.view, start, texts.offsets[b], size)

    def put(self, value: Any) -> int:
        for key, item in value:
            self.keys.put(key)
            self.items.put_or_null(item)
        return self.end()

    def truncate(self, length: int) -> int:
        self.keys.truncate(self.offsets[length])
        return Lists.truncate(self, length)

    def finish(self) -> pa.Array:
        keys, items, offsets = self.keys.finish(), self.items.finish(), filled(self.offsets, self.length + 1)
        if self.has_equal or (isinstance(self.keys, RepairedTexts) and self.keys.is_repaired):
            bounds = np.frombuffer(offsets, np.int32)
            codes = np.asarray(keys.dictionary_encode().indices, np.int64)
            rows = np.repeat(np.arange(self.length), np.diff(bounds))
            _, first, of = np.unique(rows * (len(codes) + 1) + codes, return_index=True, return_inverse=True)
            last = np.zeros(len(first), np.int64)
            np.maximum.at(last, of, np.arange(len(codes)))
            kept = np.sort(first)
            keys, items = keys.take(pa.array(kept)), items.take(pa.array(last[of[kept]]))
            offsets = pa.py_buffer(np.searchsorted(kept, bounds).astype(np.int32))
        entries = pa.StructArray.from_arrays([keys, items], fields=[self.kind.key_field, self.kind.item_field])
        buffers = [self.validity(), offsets]
        return pa.Array.from_buffers(self.kind, self.length, buffers, children=[entries])


class EnumNames(Int64Column):
    """STRING for an enum. It keeps numbers; `finish` replaces them by names, and unknown numbers by `other`.

    The names of up to `most` values fit into an Arrow array.
    """

    def __init__(self, type: Any, kind: pa.DataType, names: dict[int, str], other: str) -> None:
        super().__init__(type, kind, None, np.int64)
        longest = max(len(name.encode()) for name in [*names.values(), other])
        self.most = MOST_BYTES // longest
        self.cells += longest // BYTES_OF_A_CELL
        self.numbers = np.array(sorted(names), np.int64)
        self.names = pa.array([*(names[number] for number in sorted(names)), other], kind)

    def finish(self) -> pa.Array:
        numbers = np.frombuffer(memoryview(self.values), np.int64, self.length)
        valid = np.frombuffer(memoryview(self.valid), np.uint8, self.length)
        places = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        places[self.numbers[places] != numbers] = len(self.numbers)
        return self.names.take(pa.array(places, mask=valid == 0))
