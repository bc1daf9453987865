"""A batch of csv messages: the fast reader over all of them, the exact one over those it refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import merge_rows
from kvformat.codecs._csv.exact import ExactReader
from kvformat.codecs._csv.fast import FastReader
from kvformat.codecs._csv.settings import ReadSettings
from kvformat.codecs._csv.types import check_types
from kvformat.codecs._json.exact import to_arrow
from kvformat.registry.format import DecodedBatch
from kvformat.registry.types import FlinkType


class CsvReader:
    """Reads messages of one record as rows of one type. Raises `SchemaError` for types that csv has no place for."""

    def __init__(self, row: FlinkType, settings: ReadSettings) -> None:
        check_types(row, "decode")
        self._row = row
        self._exact, self._fast = ExactReader(row, settings), FastReader(row, settings)

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """One list of rows per message: null for a null message or an error, empty for a skipped one."""
        rows, refused = self._fast.read(messages)
        where = np.flatnonzero(refused)
        if not len(where):
            return DecodedBatch(merge_rows(rows, refused))
        answers = [self._exact.read(message) for message in messages.take(pa.array(where)).to_pylist()]
        found = to_arrow([row for rows_of_one, _ in answers for row in rows_of_one or ()], self._row)
        offsets = np.zeros(len(where) + 1, np.int32)
        np.cumsum([len(rows_of_one or ()) for rows_of_one, _ in answers], out=offsets[1:])
        missing = pa.array([rows_of_one is None for rows_of_one, _ in answers], pa.bool_())
        merged = merge_rows(rows, refused, pa.ListArray.from_arrays(pa.array(offsets), found, mask=missing))
        if all(error is None for _, error in answers):
            return DecodedBatch(merged)
        errors = np.full(len(messages), None, object)
        errors[where] = [error for _, error in answers]
        return DecodedBatch(merged, errors=pa.array(errors, pa.string()))
