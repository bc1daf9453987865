"""The buffer of an upsert table's sink: it writes only the last of several records with the same key.

    k1=1 k2=1 k1=2 | k2=2 ...      with 3 rows:  k2=1 k1=2 | k2=2 ...

Rule: `ReducingUpsertWriter`, one for each task. It flushes records in any order; here they keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def last_of_buffers(records: DataFrame, most: int) -> DataFrame:
    """Keep the last record of each key among `most` consecutive records of a task.

    `records` has `key`, which is never NULL. If it has `topic`, equal keys of different topics are different keys.
    """
    names = [name for name in ("topic", "key") if name in records.columns]
    return records.mapInArrow(buffered(most, [records.columns.index(name) for name in names]), records.schema)


def buffered(most: int, keys: list[int]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow`; `keys` are the indices of the columns that make a key."""

    def upsert_buffer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        count = 0  # records that were added to the buffer, including those replaced by a later one
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
                held = [_last(held, keys)]  # so that the buffer has at most one record of each key
        if held:
            yield _last(held, keys)

    return upsert_buffer


def _last(batches: list[pa.RecordBatch], keys: list[int]) -> pa.RecordBatch:
    """Return the last record of each key, in order."""
    records = pa.concat_batches(batches)
    codes = np.zeros(len(records), np.int64)
    for place in keys:
        encoded = records.column(place).dictionary_encode()
        nulls = len(encoded.dictionary)
        codes = codes * (nulls + 1) + np.asarray(encoded.indices.fill_null(nulls))
    _, last = np.unique(codes[::-1], return_index=True)  # the first of equal codes in reverse order
    return records.take(pa.array(np.sort(len(records) - 1 - last)))
