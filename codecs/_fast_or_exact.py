"""Decode a batch with a fast reader, and single messages with an exact reader.

The fast reader decodes the whole batch and refuses messages that it is not sure about. The exact reader decodes each
refused message to rows of Python values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from kvformat.codecs._arrays import Row, to_arrow
from kvformat.codecs._columnar import Mask, merge_rows
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.types import FlinkType


class FastReader(Protocol):
    """Decodes a batch, except for messages that it refuses."""

    def read(self, messages: pa.BinaryArray) -> tuple[pa.StructArray, Mask]:
        """Return one struct per message, and a mask of the refused messages; their structs are undefined."""


class ExactReader(Protocol):
    """Decodes any message."""

    def read(self, message: bytes | None) -> tuple[Sequence[Row] | None, str | None]:
        """Return the rows of a message and None, or None and an error.

        The rows are empty for a skipped message, and None for a null message.
        """


class FastOrExactReader:
    """Decodes messages to rows of one type, with the exact reader where the fast reader refuses."""

    def __init__(self, row: FlinkType, fast: FastReader, exact: ExactReader) -> None:
        self._row, self._fast, self._exact = row, fast, exact

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """Return one list of rows per message: null for a null message or an error, empty for a skipped message."""
        rows, refused = self._fast.read(messages)
        indices = np.flatnonzero(refused)
        if not len(indices):
            return DecodedBatch(merge_rows(rows, refused))
        results = [self._exact.read(message) for message in messages.take(pa.array(indices)).to_pylist()]
        exact_rows = to_arrow([row for message_rows, _ in results for row in message_rows or ()], self._row)
        offsets = np.zeros(len(indices) + 1, np.int32)
        np.cumsum([len(message_rows or ()) for message_rows, _ in results], out=offsets[1:])
        is_null = pa.array([message_rows is None for message_rows, _ in results], pa.bool_())
        merged = merge_rows(rows, refused, pa.ListArray.from_arrays(pa.array(offsets), exact_rows, mask=is_null))
        if all(error is None for _, error in results):
            return DecodedBatch(merged)
        errors = np.full(len(messages), None, object)
        errors[indices] = [error for _, error in results]
        return DecodedBatch(merged, errors=pa.array(errors, pa.string()))
