"""Results of a consumer for a range: records, the position in the partition, or an error."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Fetched:
    """A batch of records, an error, or neither if nothing has arrived.

    `position` is the offset after the last record, or the end of the partition, that was seen; -1 if none was.
    `error` is the name of an error of librdkafka, such as `_TRANSPORT`, empty without one, and `reason` its text.
    """

    batch: pa.RecordBatch | None = None
    position: int = -1
    error: str = ""
    reason: str = ""


class LayoutError(RuntimeError):
    """The structure of librdkafka's messages is not the one that the compiled loop knows."""
