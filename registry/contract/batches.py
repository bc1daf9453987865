"""The results of kernels: rows decoded from a batch of messages, and messages encoded from a batch of rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class DecodedBatch:
    """The rows of a batch of messages.

    rows: `ListArray` of structs (the schema's columns, then the requested metadata), one list per message. A list is
        null for a null message and for a message with an error, and empty for a message that the format skips.
    row_kinds: string array aligned with `rows.values` ('+I', '-U', '+U', '-D'), or None if all are '+I'.
    errors: string array with one element per message, null if the message has no error; or None if no message has.
    codes: string array with the `ErrorCode` of each error, or None if there are no errors. A kernel may leave it None
        and begin the text of each error with its code (`ErrorCode.marked`); `decode_batch` then separates the two.
    """

    rows: pa.ListArray
    row_kinds: pa.StringArray | None = None
    errors: pa.StringArray | None = None
    codes: pa.StringArray | None = None


@dataclass(frozen=True)
class EncodedBatch:
    """The messages of a batch of rows.

    messages: binary array, one element per row. A null is a null message (a tombstone, or a null key), or belongs to a
        row with an error.
    errors: string array with one element per row, null if the row has no error; or None if no row has.
    codes: string array with the `ErrorCode` of each error, or None if there are no errors; see `DecodedBatch`.
    """

    messages: pa.BinaryArray
    errors: pa.StringArray | None = None
    codes: pa.StringArray | None = None
