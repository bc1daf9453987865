"""What comes of messages and rows, as values and texts that can be compared; and arrays of other layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kvformat.registry.contract.format import DecodedBatch, EncodedBatch


class Answer(NamedTuple):
    """What comes of one message: its rows as text, None for a null message or an error; their kinds; the error."""

    rows: str | None
    kinds: tuple[str, ...]
    error: str | None

    def __str__(self) -> str:
        if self.error is not None:
            return f"the error {self.error!r}" + (f" and the rows {self.rows}" if self.rows is not None else "")
        if self.rows is None:
            return "a null list"
        return f"{self.rows}{f' of the kinds {list(self.kinds)}' if set(self.kinds) - {'+I'} else ''}"


class Written(NamedTuple):
    """What comes of one row: its message and its error."""

    message: bytes | None
    error: str | None

    def __str__(self) -> str:
        if self.error is not None:
            return f"the error {self.error!r}" + (f" and the message {shown(self.message)}" if self.message else "")
        return shown(self.message)


def answers(batch: DecodedBatch) -> list[Answer]:
    """What comes of each message. NaN equals NaN, -0.0 is not 0.0, dates and times are numbers, texts are bytes."""
    texts = row_texts(batch.rows.values)
    kinds = ["+I"] * len(texts) if batch.row_kinds is None else batch.row_kinds.to_pylist()
    errors = [None] * len(batch.rows) if batch.errors is None else batch.errors.to_pylist()
    offsets, valid = batch.rows.offsets.to_pylist(), batch.rows.is_valid().to_pylist()
    return [
        Answer(f"[{', '.join(texts[start:stop])}]", tuple(kinds[start:stop]), error)
        if there
        else Answer(None, (), error)
        for start, stop, there, error in zip(offsets[:-1], offsets[1:], valid, errors, strict=True)
    ]


def written(batch: EncodedBatch) -> list[Written]:
    """What comes of each row."""
    errors = [None] * len(batch.messages) if batch.errors is None else batch.errors.to_pylist()
    return [Written(*pair) for pair in zip(batch.messages.to_pylist(), errors, strict=True)]


def row_texts(rows: pa.Array) -> list[str]:
    """Each row as a text."""
    return list(map(repr, rows.cast(storage(rows.type)).to_pylist()))


def storage(t: pa.DataType) -> pa.DataType:
    """The type with numbers for dates and times, and bytes for texts, which some formats read from any bytes."""
    if pa.types.is_struct(t):
        return pa.struct([field.with_type(storage(field.type)) for field in t])
    if pa.types.is_map(t):
        return pa.map_(t.key_field.with_type(storage(t.key_type)), t.item_field.with_type(storage(t.item_type)))
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(storage(t.value_type)))
    if pa.types.is_string(t):
        return pa.binary()
    return {32: pa.int32(), 64: pa.int64()}[t.bit_width] if pa.types.is_temporal(t) else t


def with_columns(rows: pa.ListArray, places: Sequence[int]) -> pa.ListArray:
    """Lists of rows with some of their columns."""
    fields = [rows.type.value_type.field(at) for at in places]
    plain = pa.StructArray.from_arrays([rows.values.field(at) for at in places], fields=fields)
    return pa.ListArray.from_arrays(rows.offsets, plain, mask=rows.is_null() if rows.null_count else None)


def shown(message: bytes | None, most: int = 80) -> str:
    """The bytes of a message in hex, or `null`."""
    if message is None:
        return "null"
    more = f" and {len(message) - most} more bytes" if len(message) > most else ""
    return f"0x{message[:most].hex()}{more}"


# --- the same messages in other arrays ----------------------------------------------------------------------


def _within(messages: pa.Array) -> pa.Array:
    ends = pa.array([b"before", None], messages.type)
    return pa.concat_arrays([ends, messages, ends]).slice(2, len(messages))


def _in_chunks(messages: pa.Array) -> pa.ChunkedArray:
    cut = len(messages) // 3
    return pa.chunked_array([messages[:cut], messages[cut:cut], messages[cut:]], messages.type)


def with_garbage_under_nulls(messages: pa.Array) -> pa.Array:
    """The messages in an array that has the bytes of other messages where they are null."""
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
    """Rows of Python values as an Arrow array; raises `TypeError` that names the row for what does not fit."""
    for place, row in enumerate(rows):
        try:
            pa.array([row], of)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"row {place} of the sample, {row!r}, does not fit {of}: {error}") from error
    return pa.array(rows, of)
