"""Make what a caller hands over what a kernel expects: plain binary arrays, columns by name, canonical types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import EncodeError, SchemaError
from kvformat.registry.contract.schemas import result_arrow_type, row_type
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable

_WIDER_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
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
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def binary_messages(messages: pa.Array | pa.ChunkedArray) -> pa.BinaryArray:
    """Messages as one plain binary array without an offset into a larger one's values being visible."""
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
    raise SchemaError(f"messages are read from a binary or string column, not from {t}: name the column that has them")


def _check_array(messages: object) -> None:
    if not isinstance(messages, pa.Array | pa.ChunkedArray):
        raise SchemaError(
            f"messages are a pyarrow Array or ChunkedArray of binary, not {type(messages).__name__}: "
            "pyarrow.array([...], pyarrow.binary())"
        )


def wide_messages(messages: pa.Array | pa.ChunkedArray) -> list[pa.BinaryArray | pa.LargeBinaryArray]:
    """Messages of any kind as binary arrays one after another, of large_binary where they may need it."""
    _check_array(messages)
    if isinstance(messages, pa.ChunkedArray):
        return [array for chunk in messages.chunks for array in wide_messages(chunk)] or [pa.array([], pa.binary())]
    if isinstance(messages, pa.DictionaryArray):
        (values,) = wide_messages(messages.dictionary)
        return wide_messages(pa.DictionaryArray.from_arrays(messages.indices, values).dictionary_decode())
    t = messages.type
    is_view = pa.types.is_string_view(t) or pa.types.is_binary_view(t)
    if pa.types.is_large_string(t) or is_view or pa.types.is_fixed_size_binary(t):
        return [messages.cast(pa.large_binary())]
    return [messages if pa.types.is_large_binary(t) else binary_messages(messages)]


def conform(rows: pa.StructArray, schema: pa.Schema) -> pa.StructArray:
    """Rows with just the columns of the schema, in its order, as `arrow_type(nullable(...))` has them.

    Columns, also nested ones, are found by name; types are cast where no value can be lost, whatever the data.
    Raises `SchemaError`, naming the column and both types, for everything else, and `EncodeError` if a value is beyond
    what the wanted type counts up to.
    """
    if not isinstance(rows, pa.Array | pa.ChunkedArray):
        raise SchemaError(
            f"rows are a pyarrow StructArray with the columns {', '.join(schema.names)}, not {type(rows).__name__}: "
            "pyarrow.array([{...}, ...], pyarrow.struct(list(schema)))"
        )
    if isinstance(rows, pa.ChunkedArray):
        rows = rows.combine_chunks()
    if not pa.types.is_struct(rows.type):
        raise SchemaError(f"rows must be a struct column with the columns {', '.join(schema.names)}, not {rows.type}")
    row = row_type(schema)
    return rows if rows.type == result_arrow_type(row) else _fit(rows, nullable(row), "")


def _fit(array: pa.Array, t: FlinkType, path: str) -> pa.Array:
    want = arrow_type(t)
    if array.type == want:
        return array
    if isinstance(array, pa.DictionaryArray):
        return _fit(array.dictionary_decode(), t, path)
    if isinstance(array, pa.ExtensionArray):
        return _fit(array.storage, t, path)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), want)
    if t.root == "ROW" and pa.types.is_struct(array.type):
        return _fit_row(array, t, path)
    if t.root == "ARRAY" and (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        array = _rebased(array)
        values = _fit(array.values, t.fields[0].type, f"{path}.element")
        return pa.ListArray.from_arrays(array.offsets.cast(pa.int32()), values, type=want, mask=_mask(array))
    if t.root in ("MAP", "MULTISET") and pa.types.is_map(array.type):
        array = _rebased(array)
        value_type = t.fields[1].type if t.root == "MAP" else FlinkType("INT")
        keys, items = _fit(array.keys, t.fields[0].type, f"{path}.key"), _fit(array.items, value_type, f"{path}.value")
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=want, mask=_mask(array))
    if not _is_lossless(array.type, want, t):
        raise SchemaError(f"column '{path}' is {array.type}, which does not fit {t} ({want})", field=path)
    return _cast(array, want, path)


def _cast(array: pa.Array, want: pa.DataType, path: str) -> pa.Array:
    """The values in a type that has room for all of their digits, but for those below a microsecond."""
    t = array.type
    is_finer = pa.types.is_date64(t) or (pa.types.is_temporal(t) and getattr(t, "unit", None) == "ns")
    try:
        if pa.types.is_date64(t):
            pc.divide(array.view(pa.int64()), _MILLIS_OF_A_DAY).cast(pa.int32())
        return array.cast(want, safe=not is_finer)
    except pa.ArrowInvalid:
        if array.offset and (pa.types.is_large_string(t) or pa.types.is_large_binary(t)):
            return _cast(array.take(pa.array(np.arange(len(array)))), want, path)  # its offsets may be too large
        text = f"column '{path}': a value of {t} is beyond the range of {want}"
        raise EncodeError(text, code=ErrorCode.OUT_OF_RANGE) from None


def _fit_row(array: pa.StructArray, t: FlinkType, path: str) -> pa.StructArray:
    children = []
    for field in t.fields:
        inner = f"{path}.{field.name}" if path else field.name
        places = [i for i in range(array.type.num_fields) if array.type.field(i).name == field.name]
        if len(places) != 1:
            there = ", ".join(f.name for f in array.type) or "(none)"
            what = "is missing" if not places else "is there more than once"
            raise SchemaError(f"column '{inner}' {what}; the rows have the columns {there}", field=inner)
        children.append(_fit(array.field(places[0]), field.type, inner))
    want = arrow_type(t)
    if not children:
        return pa.array([None if not valid else {} for valid in array.is_valid().to_pylist()], want)
    return pa.StructArray.from_arrays(children, fields=list(want), mask=_mask(array))


def _mask(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None


def _rebased(array: pa.Array) -> pa.Array:
    """The same lists with offsets that begin at the array's own first element."""
    return array.take(pa.array(range(len(array)), pa.int32())) if array.offset else array


def _is_lossless(given: pa.DataType, want: pa.DataType, t: FlinkType) -> bool:
    """Whether every value of the given Arrow type has its equal in the wanted one, down to a microsecond."""
    integer: int | None = given.bit_width if pa.types.is_signed_integer(given) else None
    fits: bool = False
    if t.root in _WIDER_INTEGERS:
        fits = integer is not None and integer <= _WIDER_INTEGERS[t.root]
    elif t.root == "DECIMAL":
        whole, scale = want.precision - want.scale, want.scale
        if integer is not None:
            fits = whole >= _INTEGER_DIGITS[integer]
        else:
            fits = pa.types.is_decimal(given) and given.scale <= scale and given.precision - given.scale <= whole
    elif t.root in ("FLOAT", "DOUBLE"):
        fits = pa.types.is_floating(given) and given.bit_width <= want.bit_width
    elif t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        fits = pa.types.is_timestamp(given) and (given.tz is not None) == (want.tz is not None)
    else:
        fits = any(test(given) for test in _SAME_KIND.get(t.root, ()))
    return fits
