"""Merge results: rows of the exact reader or writer into those of the fast one, and chunks into a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import MessageNumbers

CHUNK_ROWS: Final = 32_768
"""Rows that are read or written at once. Chunks of this size fit the processor's caches."""


class _HasErrors(Protocol):
    @property
    def errors(self) -> pa.StringArray | None:
        """The errors of a chunk, None if there are none."""


def replace_rows(values: pa.Array, messages: MessageNumbers, others: pa.Array) -> pa.Array:
    """Return the values with those of `messages` replaced by `others`."""
    source = np.arange(len(values))
    source[messages] = len(values) + np.arange(len(messages))
    return pa.concat_arrays([values, others]).take(pa.array(source))


def spread_errors(messages: MessageNumbers, errors: list[str | None], count: int) -> pa.StringArray | None:
    """Return an array of `count` errors with those of `messages` filled in. None if there are no errors."""
    if all(error is None for error in errors):
        return None
    return replace_rows(pa.nulls(count, pa.string()), messages, pa.array(errors, pa.string()))


def concat_errors(parts: Sequence[_HasErrors], size: int, count: int) -> pa.StringArray | None:
    """Concatenate the errors of chunks of `size` rows each, `count` rows in all. None if there are no errors."""
    if all(part.errors is None for part in parts):
        return None
    lengths = [min(size, count - at) for at in range(0, count, size)]
    return pa.concat_arrays(
        [
            pa.nulls(n, pa.string()) if part.errors is None else part.errors
            for part, n in zip(parts, lengths, strict=True)
        ]
    )
