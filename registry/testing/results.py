"""Results of decoding and encoding as comparable values, and the same messages in other Arrow layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch


class DecodeResult(NamedTuple):
    """The result of decoding one message.

    rows: the rows as text; None if the list of rows is null.
    kinds: the kind of each row, such as '+I'.
    error: the error of the message, or None.
    """

    rows: str | None
    kinds: tuple[str, ...]
    error: str | None

    def __str__(self) -> str:
        if self.error is not None:
            return f"the error {self.error!r}" + (f" and the rows {self.rows}" if self.rows is not None else "")
        if self.rows is None:
            return "a null list"
        return f"{self.rows}{f' of the kinds {list(self.kinds)}' if set(self.kinds) - {'+I'} else ''}"


class EncodeResult(NamedTuple):
    """The result of encoding one row: its message and its error."""

    message: bytes | None
    error: str | None

    def __str__(self) -> str:
        if self.error is not None:
            return f"the error {self.error!r}" + (f" and the message {hex_text(self.message)}" if self.message else "")
        return hex_text(self.message)


def decode_results(batch: DecodedBatch) -> list[DecodeResult]:
    """Return the result of each message.

    In the results NaN equals NaN and -0.0 differs from 0.0. Dates and times are numbers, texts are bytes.
    """
    texts = row_texts(batch.rows.values)
    kinds = ["+I"] * len(texts) if batch.row_kinds is None else batch.row_kinds.to_pylist()
    errors = [None] * len(batch.rows) if batch.errors is None else batch.errors.to_pylist()
    offsets, valid = batch.rows.offsets.to_pylist(), batch.rows.is_valid().to_pylist()
    return [
        DecodeResult(f"[{', '.join(texts[start:stop])}]", tuple(kinds[start:stop]), error)
        if is_valid
        else DecodeResult(None, (), error)
        for start, stop, is_valid, error in zip(offsets[:-1], offsets[1:], valid, errors, strict=True)
    ]


def encode_results(batch: EncodedBatch) -> list[EncodeResult]:
    """Return the result of each row."""
    errors = [None] * len(batch.messages) if batch.errors is None else batch.errors.to_pylist()
    return [EncodeResult(*pair) for pair in zip(batch.messages.to_pylist(), errors, strict=True)]


def row_texts(rows: pa.Array) -> list[str]:
    """Return each row as text."""
    return list(map(repr, rows.cast(storage(rows.type)).to_pylist()))


def storage(t: pa.DataType) -> pa.DataType:
    """Return the type with dates and times as numbers and texts as bytes.

    Some formats read text from any bytes, so a text may not be valid UTF-8.
    """
    if pa.types.is_struct(t):
        # a NULL of VARIANT may have nulls in its fields, which are not nullable
        return pa.struct([field.with_type(storage(field.type)).with_nullable(True) for field in t])
    if pa.types.is_map(t):
        return pa.map_(t.key_field.with_type(storage(t.key_type)), t.item_field.with_type(storage(t.item_type)))
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(storage(t.value_type)))
    if pa.types.is_string(t):
        return pa.binary()
    return {32: pa.int32(), 64: pa.int64()}[t.bit_width] if pa.types.is_temporal(t) else t


def select_columns(rows: pa.ListArray, indices: Sequence[int]) -> pa.ListArray:
    """Return the lists of rows with only the columns at these indices."""
    fields = [rows.type.value_type.field(at) for at in indices]
    plain = pa.StructArray.from_arrays([rows.values.field(at) for at in indices], fields=fields)
    return pa.ListArray.from_arrays(rows.offsets, plain, mask=rows.is_null() if rows.null_count else None)


def hex_text(message: bytes | None, most: int = 80) -> str:
    """Return the bytes of a message in hex, at most `most` of them, or `null`."""
    if message is None:
        return "null"
    more = f" and {len(message) - most} more bytes" if len(message) > most else ""
    return f"0x{message[:most].hex()}{more}"


# --- other Arrow layouts ------------------------------------------------------------------------------------


def _within(messages: pa.Array) -> pa.Array:
    ends = pa.array([b"before", None], messages.type)
    return pa.concat_arrays([ends, messages, ends]).slice(2, len(messages))


def _in_chunks(messages: pa.Array) -> pa.ChunkedArray:
    cut = len(messages) // 3
    return pa.chunked_array([messages[:cut], messages[cut:cut], messages[cut:]], messages.type)


def with_garbage_under_nulls(messages: pa.Array) -> pa.Array:
    """Return the messages in an array that stores the bytes of another message at each null."""
    values = messages.to_pylist()
    some = next((value for value in values if value), b"under a null")
    plain = pa.array([some if value is None else value for value in values], pa.binary())
    valid = pa.py_buffer(np.packbits(np.asarray(messages.is_valid()), bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(messages), [valid, *plain.buffers()[1:]])


LAYOUTS: Final[dict[str, Callable[[pa.Array], pa.Array | pa.ChunkedArray]]] = {
    "a slice of a larger array": _within,
    "chunks": _in_chunks,
    "large_binary": lambda messages: messages.cast(pa.large_binary()),
    "binary_view": lambda messages: pa.array(messages.to_pylist(), pa.binary_view()),
    "a dictionary": lambda messages: messages.dictionary_encode(),
}


def arrow_rows(rows: Sequence[Any], of: pa.DataType) -> pa.StructArray:
    """Convert rows of Python values to an Arrow array of the type `of`.

    Raises `TypeError`, which names the row, if a row does not fit the type.
    """
    for index, row in enumerate(rows):
        try:
            pa.array([row], of)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"row {index} of the sample, {row!r}, does not fit {of}: {error}") from error
    return pa.array(rows, of)
