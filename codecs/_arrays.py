"""Parts of Arrow arrays as numpy arrays, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kvformat.registry.contract.types import FlinkType, arrow_type, nullable

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
RowsOf = Callable[[Ints], Ints]
"""Maps indices in a nested array to the indices of their top-level rows; -1 for a value inside a null, and for -1."""
_COUNT = FlinkType("INT")
_WITH_OFFSETS = (pa.lib.Type_STRING, pa.lib.Type_BINARY, pa.lib.Type_LIST, pa.lib.Type_MAP)


def stored_type(t: FlinkType) -> pa.DataType:
    """Return the Arrow type of decoded values of a type, which may be null at every level."""
    return arrow_type(nullable(t))


def validity(valid: Mask) -> pa.Buffer | None:
    """Return Arrow's validity bitmap of a mask; None if all values are valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def valid_mask(values: pa.Array) -> Mask | None:
    """Return a mask of the values that are not null; None if no value is null."""
    if not values.null_count:
        return None
    bitmap, count, before = values.buffers()[0], len(values), values.offset & 7
    if bitmap is None:
        return np.zeros(count, np.bool_)  # the type null
    bits = np.frombuffer(bitmap, np.uint8, before + count + 7 >> 3, values.offset >> 3)
    return np.unpackbits(bits, count=before + count, bitorder="little")[before:].view(np.bool_)


def as_integers(values: pa.Array) -> Ints:
    """Return the values of an array of fixed width as integers; the integers of nulls are undefined."""
    if not len(values):
        return np.zeros(0, np.int64)  # an empty array may have a buffer of any length
    width = values.type.bit_width // 8
    return np.frombuffer(values.buffers()[1], f"<i{width}", len(values), values.offset * width).astype(np.int64)


def as_type(numbers: npt.NDArray[np.integer], target: pa.DataType, like: pa.Array) -> pa.Array:
    """Return integers as an array of a type of fixed width, null where `like` is null."""
    data = np.ascontiguousarray(numbers.astype(f"<i{target.bit_width // 8}", copy=False))
    valid = valid_mask(like)
    bitmap = None if valid is None else validity(valid)
    return pa.Array.from_buffers(target, len(like), [bitmap, pa.py_buffer(data)])


def row_lookup(values: pa.Array, rows_of: RowsOf) -> RowsOf:
    """Return a function that maps indices of elements of lists or maps to top-level rows.

    `rows_of` maps indices of the lists. Elements of null lists have the row -1.
    """

    def rows_of_elements(indices: Ints) -> Ints:
        lists = np.searchsorted(values.offsets.to_numpy(), indices, side="right") - 1
        inside = (indices >= 0) & (lists >= 0) & (lists < len(values))
        valid = np.append(values.is_valid().to_numpy(zero_copy_only=False), False)
        return rows_of(np.where(inside & valid[np.where(inside, lists, -1)], lists, -1))

    return rows_of_elements


def field_lookup(values: pa.StructArray, rows_of: RowsOf) -> RowsOf:
    """Return a function that maps indices of fields of structs to top-level rows, -1 for those of null structs."""
    valid = valid_mask(values)
    if valid is None:
        return rows_of
    return lambda indices: rows_of(np.where((indices >= 0) & valid[indices], indices, -1))


def with_fields(values: pa.StructArray, target: pa.DataType, fields: list[pa.Array]) -> pa.StructArray:
    """Return the structs with other fields, null where they are null."""
    valid = valid_mask(values)
    return pa.Array.from_buffers(target, len(values), [None if valid is None else validity(valid)], children=fields)


def with_elements(values: pa.Array, target: pa.DataType, elements: pa.Array) -> pa.Array:
    """Return the lists or maps with other elements; the number of elements must be the same."""
    return pa.Array.from_buffers(target, len(values), values.buffers()[:2], offset=values.offset, children=[elements])


def with_entries(values: pa.Array, target: pa.DataType, keys: pa.Array, items: pa.Array) -> pa.Array:
    """Return the lists or maps as maps with these keys and items; their number must be the same."""
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return with_elements(values, target, entries)


def map_value_type(t: FlinkType) -> FlinkType:
    """Return the type of a MAP's values, or of a MULTISET's counts."""
    return t.fields[1].type if t.root == "MAP" else _COUNT


def text_bytes(values: pa.LargeStringArray) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """Return the offsets, which begin at 0, and the bytes of an array. The array may be a slice."""
    _, offsets_buffer, data_buffer = values.buffers()
    if not len(values) or data_buffer is None:
        return np.zeros(len(values) + 1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(offsets_buffer, np.int64, len(values) + 1, values.offset * 8)
    return offsets - offsets[0], np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]


def replace_malformed(values: pa.LargeStringArray) -> pa.LargeStringArray:
    """Replace malformed UTF-8 with U+FFFD, as Java does. Returns `values` itself if all texts are well-formed."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raw = values.cast(pa.large_binary()).to_pylist()
        return pa.array(
            [None if value is None else value.decode("utf-8", "replace") for value in raw], pa.large_string()
        )
    return values


def spread(values: pa.Array, at: Mask) -> pa.Array:
    """Return an array with the values at the places of a mask, in order, and null elsewhere.

    It is faster than `take`, because texts, bytes, lists and maps keep their elements.
    """
    if not len(values):
        return pa.nulls(len(at), values.type)
    before = np.zeros(len(at) + 1, np.int64)
    np.cumsum(at, out=before[1:])
    return _spread(values, before, np.flatnonzero(at), at)


def _spread(values: pa.Array, before: Ints, places: Ints, at: Mask | None) -> pa.Array:
    """Return an array with the values at these places. The others are null; inside a null struct, `at` is None.

    `before` has the number of values before each place of the result, and their number at its end.
    """

    def scattered(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        at_places = np.zeros(len(before) - 1, numbers.dtype)
        at_places[places] = numbers
        return at_places

    t, buffers, valid = values.type, values.buffers(), valid_mask(values)
    mask = at if valid is None else scattered(valid)
    spread_buffers: list[pa.Buffer | None] = [None if mask is None else validity(mask)]
    children = None
    if t.id in _WITH_OFFSETS:
        offsets = np.frombuffer(buffers[1], np.int32, len(values) + 1, values.offset * 4)
        spread_buffers.append(pa.py_buffer(offsets.take(before)))
        if t.id == pa.lib.Type_LIST:
            children = [values.values]
        elif t.id == pa.lib.Type_MAP:
            children = [pa.StructArray.from_arrays([values.keys, values.items], fields=[t.key_field, t.item_field])]
        else:
            spread_buffers.append(buffers[2])
    elif t.id == pa.lib.Type_STRUCT:
        children = [_spread(values.field(place), before, places, None) for place in range(t.num_fields)]
    elif t.id == pa.lib.Type_BOOL:
        bits = np.unpackbits(np.frombuffer(buffers[1], np.uint8), bitorder="little")[values.offset :][: len(values)]
        spread_buffers.append(pa.py_buffer(np.packbits(scattered(bits), bitorder="little")))
    else:
        width = t.bit_width // 8
        kind = f"V{width}" if width > 8 else f"i{width}"
        words = np.frombuffer(buffers[1], kind, len(values), values.offset * width)
        spread_buffers.append(pa.py_buffer(scattered(words)))
    return pa.Array.from_buffers(t, len(before) - 1, spread_buffers, children=children)
