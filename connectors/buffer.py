"""The buffer of an upsert table's sink: of the records of a key that come close together only the last is written.

    k1=1 k2=1 k1=2 | k2=2 ...      with 3 rows:  k2=1 k1=2 | k2=2 ...

Rule: `ReducingUpsertWriter`, one for each task. It flushes in no fixed order; here records keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def last_of_buffers(records: DataFrame, most: int) -> DataFrame:
    """Records without those that a later one of their key follows among `most` in a row of their task.

    `records` has `key`, which is never NULL; where it has `topic`, a key is one of its topic.
    """
    names = [name for name in ("topic", "key") if name in records.columns]
    return records.mapInArrow(buffered(most, [records.columns.index(name) for name in names]), records.schema)


def buffered(most: int, keys: list[int]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`; `keys` are the places of the columns that make a key."""

    def upsert_buffer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        count = 0  # records that came into the buffer, also those that left it for a later one
        for batch in batches:
            start = 0
            while start < len(batch):
                piece = batch.slice(start, most - count)
                start, count = start + len(piece), count + len(piece)
                held.append(piece)
                if count == most:
                    yield _last(held, keys)
                    held, count = [], 0
            if held:
                held = [_last(held, keys)]  # what is held is bounded by its keys
        if held:
            yield _last(held, keys)

    return upsert_buffer


def _last(batches: list[pa.RecordBatch], keys: list[int]) -> pa.RecordBatch:
    """The last record of each key, in order."""
    records = pa.concat_batches(batches)
    codes = np.zeros(len(records), np.int64)
    for place in keys:
        encoded = records.column(place).dictionary_encode()
        nulls = len(encoded.dictionary)
        codes = codes * (nulls + 1) + np.asarray(encoded.indices.fill_null(nulls))
    _, last = np.unique(codes[::-1], return_index=True)  # the first of equal codes in reverse order
    return records.take(pa.array(np.sort(len(records) - 1 - last)))
