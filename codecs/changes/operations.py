"""The rows of an envelope's operations, as the kernel reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import AFTER, BEFORE
from kvformat.codecs._kernel.operation_rows import OperationRows
from kvformat.codecs.changes.envelope import DELETE, KINDS, Envelope, RowImage
from kvformat.codecs.changes.other_messages import ERROR

_KINDS = np.frombuffer("".join(KINDS).encode(), "<u2")
NO_ROWS = OperationRows([], [])
"""The rows of an operation whose messages are skipped."""


def read_rows(envelope: Envelope, other_messages: str) -> dict[str, tuple[RowImage, ...]]:
    """Return the rows of each operation that is read, given the option `other-messages`."""
    return {**envelope.rows, **({} if other_messages == ERROR else envelope.extra_rows)}


def operation_rows(envelope: Envelope, other_messages: str, *, upsert: bool) -> dict[str, OperationRows]:
    """Return the rows of each operation that is read or skipped, given the option `other-messages`."""
    numbers = {envelope.before: BEFORE, envelope.after: AFTER}
    looked_at = () if envelope.flattened else (AFTER,) if upsert else (BEFORE, AFTER)

    def of(rows: tuple[RowImage, ...]) -> OperationRows:
        images = [(KINDS.index(row.kind), numbers[row.member], row.over is not None) for row in rows]
        used = {numbers[name] for row in rows for name in (row.member, row.over) if name is not None}
        is_deletion = [(row.kind, row.member) for row in rows] == [(KINDS[DELETE], envelope.after)]
        unused = [number for number in looked_at if number not in used]
        return OperationRows(images, unused, or_before=is_deletion and not envelope.flattened)

    skipped = {text: NO_ROWS for text, other in envelope.other_by_operation.items() if other.is_skipped(other_messages)}
    return {text: of(rows) for text, rows in read_rows(envelope, other_messages).items()} | skipped


def kind_texts(kinds: Any) -> pa.StringArray:
    """Return the texts of kinds, given as indices into `KINDS`. Each text has two characters."""
    offsets = np.arange(0, 2 * len(kinds) + 1, 2, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(kinds), [None, pa.py_buffer(offsets), pa.py_buffer(_KINDS.take(kinds))]
    )
