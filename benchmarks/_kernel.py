"""One thread without Spark: batches, our kernels, and what one does in Python today, `orjson.loads` + `pa.array`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson
import pyarrow as pa
from _measure import Task

from kvformat.registry import get_format

BATCH = 5_000  # messages; of 200 bytes these are the 1 MB that a batch of Spark should have


def batches(messages: pa.BinaryArray | Iterable[bytes]) -> list[pa.BinaryArray]:
    """Arrays of `BATCH` messages, each with memory of its own."""
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
    """A task that decodes all batches; unless it says so, no message may be bad."""
    fmt = get_format(format, dict(options or {}))

    def decode() -> None:
        for batch in inputs:
            errors = fmt.decode_batch(batch, schema, metadata=metadata).errors
            if errors is not None and not with_errors:
                raise AssertionError(f"a message that should be good has an error: {errors.drop_null()[0]}")

    return decode


class ByOrjson:
    """Messages to a column of this type by dicts."""

    def __init__(self, exact: pa.DataType) -> None:
        self.exact, self.loose = exact, _loose(exact)

    def untyped(self, messages: list[bytes]) -> pa.Array:
        """Decimals as floats, times as text: what JSON's own types become without more work."""
        return pa.array(list(map(orjson.loads, messages)), self.loose)

    def typed(self, messages: list[bytes]) -> pa.Array:
        """Cast to the types. Decimals come by way of the floats that orjson gives, so long ones are not exact."""
        return _cast(self.untyped(messages), self.exact)


def _cast(values: pa.Array, exact: pa.DataType) -> pa.Array:
    """Column by column: a cast of a struct would also read what stands under its nulls, and fail."""
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
