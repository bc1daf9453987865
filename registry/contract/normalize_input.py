"""Convert the arrays of a caller for kernels: plain binary arrays, columns in order, canonical types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.common_types import INTEGER_DIGITS
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import EncodeError, SchemaError
from kvformat.registry.contract.schemas import result_arrow_type, row_type
from kvformat.registry.contract.types import INTEGER_BITS, FlinkType, arrow_type, nullable

_TEXTS = (pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_SAME_KIND = {
    "CHAR": _TEXTS,
    "VARCHAR": _TEXTS,
    "BINARY": _BYTES,
    "VARBINARY": _BYTES,
    "TIME": (pa.types.is_time,),
    "DATE": (pa.types.is_date,),
    "INTERVAL DAY TO SECOND": (pa.types.is_duration,),
}
_MILLIS_OF_A_DAY = 86_400_000
_DIGITS_OF_BITS = {bits: INTEGER_DIGITS[root] for root, bits in INTEGER_BITS.items()}


def binary_messages(messages: pa.Array | pa.ChunkedArray) -> pa.BinaryArray:
    """Convert messages to one binary array. Raises `SchemaError` for a type that is neither binary nor string."""
    _check_array(messages)
    if isinstance(messages, pa.ChunkedArray):
        messages = messages.combine_chunks()
    if isinstance(messages, pa.DictionaryArray):
        messages = messages.dictionary_decode()
    t = messages.type
    if pa.types.is_binary(t):
        return messages
    is_text = pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)
    is_bytes = pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t) or pa.types.is_binary_view(t)
    if is_text or is_bytes or pa.types.is_null(t):
        return messages.cast(pa.binary())
    raise SchemaError(f"messages must be a binary or string column, not {t}: pass the column with the messages")


def _check_array(messages: object) -> None:
    if not isinstance(messages, pa.Array | pa.ChunkedArray):
        raise SchemaError(
            f"messages must be a pyarrow Array or ChunkedArray of binary, not {type(messages).__name__}: "
            "pyarrow.array([...], pyarrow.binary())"
        )


def binary_arrays(messages: pa.Array | pa.ChunkedArray) -> list[pa.BinaryArray | pa.LargeBinaryArray]:
    """Convert messages to consecutive binary arrays, or large_binary arrays if they may exceed 2 GB."""
    _check_array(messages)
    if isinstance(messages, pa.ChunkedArray):
        return [array for chunk in messages.chunks for array in binary_arrays(chunk)] or [pa.array([], pa.binary())]
    if isinstance(messages, pa.DictionaryArray):
        (values,) = binary_arrays(messages.dictionary)
        return binary_arrays(pa.DictionaryArray.from_arrays(messages.indices, values).dictionary_decode())
    t = messages.type
    is_view = pa.types.is_string_view(t) or pa.types.is_binary_view(t)
    if pa.types.is_large_string(t) or is_view or pa.types.is_fixed_size_binary(t):
        return [messages.cast(pa.large_binary())]
    return [messages if pa.types.is_large_binary(t) else binary_messages(messages)]


def normalize_kinds(row_kinds: pa.Array | pa.ChunkedArray) -> pa.StringArray:
    """Convert row kinds to one string array. Raises `SchemaError` for what is no Arrow array."""
    if not isinstance(row_kinds, pa.Array | pa.ChunkedArray):
        raise SchemaError(
            f"row_kinds must be a pyarrow Array of strings, not {type(row_kinds).__name__}: pyarrow.array(['+I', ...])",
            field="row_kind",
        )
    return (row_kinds.combine_chunks() if isinstance(row_kinds, pa.ChunkedArray) else row_kinds).cast(pa.string())


def normalize_rows(rows: pa.StructArray, schema: pa.Schema) -> pa.StructArray:
    """Return the columns of the schema, in its order, with the types `arrow_type(nullable(...))`.

    Columns, also nested ones, are found by name. A type is cast if the cast is lossless for all values of the type.
    Raises `SchemaError` naming the column and both types if it is not, and `EncodeError` if a value is out of range of
    the schema's type.
    """
    if not isinstance(rows, pa.Array | pa.ChunkedArray):
        raise SchemaError(
            f"rows must be a pyarrow StructArray with the columns {', '.join(schema.names)}, not "
            f"{type(rows).__name__}: "
            "pyarrow.array([{...}, ...], pyarrow.struct(list(schema)))"
        )
    if isinstance(rows, pa.ChunkedArray):
        rows = rows.combine_chunks()
    if not pa.types.is_struct(rows.type):
        raise SchemaError(f"rows must be a struct column with the columns {', '.join(schema.names)}, not {rows.type}")
    row = row_type(schema)
    return rows if rows.type == result_arrow_type(row) else _convert(rows, nullable(row), "")


def _convert(array: pa.Array, t: FlinkType, path: str) -> pa.Array:
    want = arrow_type(t)
    if array.type == want:
        return array
    if isinstance(array, pa.DictionaryArray):
        return _convert(array.dictionary_decode(), t, path)
    if isinstance(array, pa.ExtensionArray):
        return _convert(array.storage, t, path)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), want)
    if t.root == "ROW" and pa.types.is_struct(array.type):
        return _convert_row(array, t, path)
    if t.root == "ARRAY" and pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    if t.root == "ARRAY" and (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        array = _without_offset(array)
        values = _convert(array.values, t.fields[0].type, f"{path}.element")
        return pa.ListArray.from_arrays(array.offsets.cast(pa.int32()), values, type=want, mask=_mask(array))
    if t.root in ("MAP", "MULTISET") and pa.types.is_map(array.type):
        array = _without_offset(array)
        value_type = t.fields[1].type if t.root == "MAP" else FlinkType("INT")
        keys, items = (
            _convert(array.keys, t.fields[0].type, f"{path}.key"),
            _convert(array.items, value_type, f"{path}.value"),
        )
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=want, mask=_mask(array))
    if not _is_lossless(array.type, want, t):
        raise SchemaError(f"column '{path}' is {array.type}, which does not fit {t} ({want})", field=path)
    return _cast(array, want, path)


def _cast(array: pa.Array, want: pa.DataType, path: str) -> pa.Array:
    """Cast to a type that keeps all digits except those below a microsecond. Raises `EncodeError`."""
    t = array.type
    if pa.types.is_timestamp(t) and t.unit == "ns":  # a cast would make times before 1970 later
        micros = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) // 1000
        return pa.array(micros, mask=np.asarray(array.is_null())).view(want)
    is_finer = pa.types.is_date64(t) or (pa.types.is_temporal(t) and getattr(t, "unit", None) == "ns")
    try:
        if pa.types.is_date64(t):
            pc.divide(array.view(pa.int64()), _MILLIS_OF_A_DAY).cast(pa.int32())
        return array.cast(want, safe=not is_finer)
    except pa.ArrowInvalid:
        if array.offset and (pa.types.is_large_string(t) or pa.types.is_large_binary(t)):
            return _cast(array.take(pa.array(np.arange(len(array)))), want, path)  # its offsets may exceed 32 bits
        text = f"column '{path}': a value of {t} is out of range of {want}"
        raise EncodeError(text, code=ErrorCode.OUT_OF_RANGE) from None


def _convert_row(array: pa.StructArray, t: FlinkType, path: str) -> pa.StructArray:
    children = []
    for field in t.fields:
        inner = f"{path}.{field.name}" if path else field.name
        indices = [i for i in range(array.type.num_fields) if array.type.field(i).name == field.name]
        if len(indices) != 1:
            there = ", ".join(f.name for f in array.type) or "(none)"
            what = "is missing" if not indices else "exists more than once"
            raise SchemaError(f"column '{inner}' {what}; the rows have the columns {there}", field=inner)
        children.append(_convert(array.field(indices[0]), field.type, inner))
    want = arrow_type(t)
    if not children:
        return pa.array([None if not valid else {} for valid in array.is_valid().to_pylist()], want)
    return pa.StructArray.from_arrays(children, fields=list(want), mask=_mask(array))


def _mask(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None


def _without_offset(array: pa.Array) -> pa.Array:
    """Copy a slice of lists, so that `offsets` and `values` start at its first list."""
    return array.take(pa.array(range(len(array)), pa.int32())) if array.offset else array


def _is_lossless(source: pa.DataType, want: pa.DataType, t: FlinkType) -> bool:
    """Return whether a cast to the wanted type keeps every value of the given type, down to microseconds."""
    integer: int | None = source.bit_width if pa.types.is_signed_integer(source) else None
    fits: bool = False
    if t.root in INTEGER_BITS:
        fits = integer is not None and integer <= INTEGER_BITS[t.root]
    elif t.root == "DECIMAL":
        whole, scale = want.precision - want.scale, want.scale
        if integer is not None:
            fits = whole >= _DIGITS_OF_BITS[integer]
        else:
            fits = pa.types.is_decimal(source) and source.scale <= scale and source.precision - source.scale <= whole
    elif t.root == "VARIANT":
        fits = pa.types.is_struct(source) and [field.name for field in source] == [field.name for field in want]
        fits = fits and all(any(test(field.type) for test in (pa.types.is_binary, *_BYTES)) for field in source)
    elif t.root in ("FLOAT", "DOUBLE"):
        fits = pa.types.is_floating(source) and source.bit_width <= want.bit_width
    elif t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        fits = pa.types.is_timestamp(source) and (source.tz is not None) == (want.tz is not None)
    else:
        fits = any(test(source) for test in _SAME_KIND.get(t.root, ()))
    return fits
