"""Decode messages in tests: check the Arrow data, and convert the results to comparable values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from kvformat.registry import DecodedBatch, Format


class Answer(NamedTuple):
    """The result of decoding one message.

    rows: the rows as text; None for a null message or an error.
    kinds: the kind of each row.
    error: the error, or None.
    """

    rows: str | None
    kinds: tuple[str, ...]
    error: str | None


def decoded(
    format: Format, messages: pa.Array | Sequence[bytes | None], schema: Any, *, metadata: Sequence[str] = ()
) -> DecodedBatch:
    """Decode messages and check the result with `checked`."""
    array = messages if isinstance(messages, pa.Array) else pa.array(messages, pa.binary())
    return checked(format.decode_batch(array, schema, metadata=metadata), array)


def checked(batch: DecodedBatch, messages: pa.Array) -> DecodedBatch:
    """Return the batch after checking it.

    The Arrow data must be valid, there must be one list per message, and a list must be null exactly for null messages
    and errors.
    """
    batch.rows.validate(full=True)
    assert len(batch.rows) == len(messages)
    if batch.row_kinds is not None:
        batch.row_kinds.validate(full=True)
        assert len(batch.row_kinds) == len(batch.rows.values)
    errors = batch.errors if batch.errors is not None else pa.nulls(len(messages), pa.string())
    errors.validate(full=True)
    assert batch.rows.is_null().to_pylist() == [
        null or failed
        for null, failed in zip(messages.is_null().to_pylist(), errors.is_valid().to_pylist(), strict=True)
    ]
    return batch


def answers(batch: DecodedBatch) -> list[Answer]:
    """Return the result of each message. NaN equals NaN, -0.0 differs from 0.0, dates and times are numbers."""
    values = batch.rows.flatten()  # without the values that are stored at nulls
    assert len(values) == len(batch.rows.values)
    rows = list(map(repr, batch.rows.values.view(storage(values.type)).to_pylist()))
    kinds = batch.row_kinds.to_pylist() if batch.row_kinds is not None else ["+I"] * len(rows)
    errors = batch.errors.to_pylist() if batch.errors is not None else [None] * len(batch.rows)
    offsets = batch.rows.offsets.to_pylist()
    valid = batch.rows.is_valid().to_pylist()
    return [
        Answer(
            f"[{', '.join(rows[start:stop])}]" if there else None,
            tuple(kinds[start:stop]),
            None if error is None else str(error),
        )
        for start, stop, there, error in zip(offsets[:-1], offsets[1:], valid, errors, strict=True)
    ]


def alone(
    format: Format, messages: Sequence[bytes | None], schema: Any, *, metadata: Sequence[str] = ()
) -> list[Answer]:
    """Decode each message in a batch of its own. Returns the result of each message."""
    return [answers(decoded(format, [message], schema, metadata=metadata))[0] for message in messages]


def storage(kind: pa.DataType) -> pa.DataType:
    """Return the type with dates and times as numbers. Fields may be null: those of a VARIANT are, if it is NULL."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(storage(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(storage(kind.key_type)), kind.item_field.with_type(storage(kind.item_type))
        )
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(storage(kind.value_type)))
    return {32: pa.int32(), 64: pa.int64()}[kind.bit_width] if pa.types.is_temporal(kind) else kind


def is_json(message: bytes) -> bool:
    """Return whether Python's json module can parse the message."""
    try:
        json.loads(message)
    except ValueError:
        return False
    return True


def decoded_rows(fmt: Format, schema: str, *messages: bytes | None) -> list[Any]:
    """Return for each message the rows with their kinds, None, or the error."""
    batch = fmt.decode_batch(pa.array(messages, pa.binary()), schema)
    return readable_rows(batch)


def readable_rows(batch: DecodedBatch) -> list[Any]:
    kinds = ["+I"] * len(batch.rows.values) if batch.row_kinds is None else batch.row_kinds.to_pylist()
    errors = [None] * len(batch.rows) if batch.errors is None else batch.errors.to_pylist()
    found, at = [], 0
    for rows, error in zip(batch.rows.to_pylist(), errors, strict=True):
        count = len(rows or ())
        pairs = [(kind, *row.values()) for kind, row in zip(kinds[at : at + count], rows or (), strict=True)]
        found.append(error or (None if rows is None else pairs))
        at += count
    return found


def first_rows(fmt: Format, schema: str, *messages: bytes | None) -> list[Any]:
    """Return the row of each message, None for a null message, [] for a skipped one, or the error."""
    batch = fmt.decode_batch(pa.array(messages, pa.binary()), schema)
    errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
    return [error or (rows and rows[0]) for rows, error in zip(batch.rows.to_pylist(), errors, strict=True)]
