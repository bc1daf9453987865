"""A batch of JSON messages: the fast reader over all of them, the exact one over those it refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kvformat.codecs._json.exact import ExactReader, to_arrow
from kvformat.codecs._json.fast import FastReader
from kvformat.codecs._json.settings import ReadSettings
from kvformat.registry.format import DecodedBatch
from kvformat.registry.types import FlinkType


class JsonReader:
    """Reads messages that are an object, or an array of objects, as rows of one type.

    Raises `SchemaError` for types that JSON has no place for.
    """

    def __init__(self, row: FlinkType, settings: ReadSettings) -> None:
        self._row = row
        self._exact, self._fast = ExactReader(row, settings), FastReader(row, settings)

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """One list of rows per message; null messages give null lists."""
        rows, refused = self._fast.read(messages)
        count = len(messages)
        if not refused.any():
            return DecodedBatch(pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), rows))
        indices = np.flatnonzero(refused)
        answers = [self._exact.read(message) for message in messages.take(pa.array(indices)).to_pylist()]
        exact = to_arrow([row for found, _ in answers for row in found or ()], self._row)

        counts = np.ones(count, np.int64)
        counts[indices] = [len(found or ()) for found, _ in answers]
        ends = np.cumsum(counts)
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        source = np.empty(int(ends[-1]), np.int64)
        source[(ends - counts)[~refused]] = np.flatnonzero(~refused)
        from_exact = np.ones(len(source), bool)
        from_exact[(ends - counts)[~refused]] = False
        source[from_exact] = count + np.arange(len(exact))
        merged = pa.concat_arrays([rows, exact]).take(pa.array(source))

        missing = np.zeros(count, bool)
        missing[indices] = [found is None for found, _ in answers]
        lists = pa.ListArray.from_arrays(
            pa.array(offsets.astype(np.int32)), merged, mask=pa.array(missing) if missing.any() else None
        )
        reasons = np.full(count, None, object)
        reasons[indices] = [error for _, error in answers]
        errors = pa.array(reasons, pa.string()) if any(error is not None for _, error in answers) else None
        return DecodedBatch(lists, errors=errors)
