"""Tasks on one thread without Spark: `decode_batch`, and `orjson.loads` + `pa.array` to compare with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson
import pyarrow as pa
from _measure import Task

from kvformat.registry import get_format

BATCH = 5_000  # messages; with 200 bytes each, this is the recommended 1 MB for a batch of Spark


def batches(messages: pa.BinaryArray | Iterable[bytes]) -> list[pa.BinaryArray]:
    """Split messages into arrays of `BATCH` messages. Each array has its own memory."""
    if not isinstance(messages, pa.BinaryArray):
        messages = list(messages)
        return [pa.array(messages[i : i + BATCH], pa.binary()) for i in range(0, len(messages), BATCH)]
    return [pa.concat_arrays([messages[i : i + BATCH]]) for i in range(0, len(messages), BATCH)]


def decoding(
    format: str,
    inputs: list[pa.BinaryArray],
    schema: pa.Schema,
    *,
    options: Mapping[str, str] | None = None,
    metadata: tuple[str, ...] = (),
    with_errors: bool = False,
) -> Task:
    """Return a task that decodes all batches. It fails if a message is bad, unless `with_errors` is true."""
    fmt = get_format(format, dict(options or {}))

    def decode() -> None:
        for batch in inputs:
            errors = fmt.decode_batch(batch, schema, metadata=metadata).errors
            if errors is not None and not with_errors:
                raise AssertionError(f"a message has an unexpected error: {errors.drop_null()[0]}")

    return decode


class ByOrjson:
    """Converts messages to dicts with orjson, and the dicts to an array of the type `exact`."""

    def __init__(self, exact: pa.DataType) -> None:
        self.exact, self.loose = exact, _loose(exact)

    def untyped(self, messages: list[bytes]) -> pa.Array:
        """Convert messages without a cast: decimals become floats, and times become strings."""
        return pa.array(list(map(orjson.loads, messages)), self.loose)

    def typed(self, messages: list[bytes]) -> pa.Array:
        """Convert messages and cast to `exact`. Long decimals are not exact, because orjson reads them as floats."""
        return _cast(self.untyped(messages), self.exact)


def _cast(values: pa.Array, exact: pa.DataType) -> pa.Array:
    """Cast column by column. A cast of a struct would also cast the values under its nulls, and fail."""
    if values.type == exact:
        return values
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(exact):
        columns = [_cast(column, field.type) for column, field in zip(values.flatten(), exact, strict=True)]
        return pa.StructArray.from_arrays(columns, fields=list(exact), mask=mask)
    if pa.types.is_list(exact):
        return pa.ListArray.from_arrays(values.offsets, _cast(values.values, exact.value_type), type=exact, mask=mask)
    return values.cast(exact)


def _loose(t: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(t):
        return pa.float64()
    if pa.types.is_timestamp(t):
        return pa.string()
    if pa.types.is_struct(t):
        return pa.struct([field.with_type(_loose(field.type)) for field in t])
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(_loose(t.value_type)))
    return t
