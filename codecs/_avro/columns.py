"""Parts: the values of a field that the fast reader has read, before they become an Arrow array.

In a part, strings are offsets into the messages, and lists are flat. So the reader can merge parts by moving numbers,
for example the branches of a union, or first items and second items. `finish` then copies the bytes once.
`valid` is false for null values and for values of refused messages. It is None if all values are valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Ints, Mask, MessageBytes, Positions, WordArray, fixed_width, ranges, validity
from kvformat.codecs._java.charsets import java_text


@dataclass(frozen=True, slots=True)
class Nulls:
    """Only nulls, of any type."""

    count: int


@dataclass(frozen=True, slots=True)
class Numbers:
    """Fixed-width values as Arrow stores them. A decimal128 is a row of two 64-bit words."""

    values: Any
    valid: Mask | None = None

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class TextSpans:
    """Strings or bytes, as start and end offsets in the messages."""

    start: Positions
    end: Positions
    valid: Mask | None = None

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Codes:
    """Strings as indices into an array of strings."""

    values: Any
    texts: pa.Array
    valid: Mask | None = None

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Structs:
    """One part per field of the Arrow type, in its order."""

    parts: tuple[Part, ...]
    count: int
    valid: Mask | None = None


@dataclass(frozen=True, slots=True)
class ItemLists:
    """The lengths of lists or maps, and all their items in order. Items of maps are structs of key and value."""

    lengths: Ints
    items: Part
    valid: Mask | None = None

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self.lengths)


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """An Arrow array. With `single`, the array's only value is repeated this many times."""

    array: pa.Array
    single: int | None = None

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self.array) if self.single is None else self.single


Part = Nulls | Numbers | TextSpans | Codes | Structs | ItemLists | ArrayPart
IndexedPart = tuple[Ints, Part]
"""The target indices of a part's values, and the part."""


def scatter(parts: Sequence[IndexedPart], count: int, kind: pa.DataType, batch: MessageBytes) -> Part:
    """Merge parts of one type into `count` values. Indices that no part fills are null."""
    parts = [(where, part) for where, part in parts if not isinstance(part, Nulls) and len(where)]
    if not parts:
        return Nulls(count)
    first = parts[0][1]
    if len(parts) == 1 and len(parts[0][0]) == count:
        return first  # the only part, in order
    if any(type(part) is not type(first) for _, part in parts) or isinstance(first, ArrayPart):
        return _scatter_arrays(parts, count, kind, batch)
    if isinstance(first, Codes):
        if any(part.texts is not first.texts for _, part in parts):  # type: ignore[union-attr]  # all are Codes
            return _scatter_arrays(parts, count, kind, batch)
        return Codes(_scatter_values(parts, "values", count), first.texts, _valid(parts, count))
    if isinstance(first, Numbers):
        return Numbers(_scatter_values(parts, "values", count), _valid(parts, count))
    if isinstance(first, TextSpans):
        return TextSpans(
            _scatter_values(parts, "start", count), _scatter_values(parts, "end", count), _valid(parts, count)
        )
    if isinstance(first, ItemLists):
        return _scatter_lists(parts, count, kind, batch)
    return _scatter_structs(parts, count, kind, batch)


def _scatter_values(parts: Sequence[IndexedPart], name: str, count: int) -> Any:
    """Merge an attribute of all parts into one array. Indices that no part fills are zero."""
    first = getattr(parts[0][1], name)
    values = np.zeros((count, *first.shape[1:]), first.dtype)
    for where, part in parts:
        values[where] = getattr(part, name)
    return values


def _valid(parts: Sequence[IndexedPart], count: int) -> Mask | None:
    valid = np.zeros(count, bool)
    for where, part in parts:
        mask = part.valid  # type: ignore[union-attr]  # not called for the kinds without it
        valid[where] = True if mask is None else mask
    return None if valid.all() else valid


def _scatter_structs(parts: Sequence[IndexedPart], count: int, kind: pa.DataType, batch: MessageBytes) -> Part:
    inner = tuple(
        scatter([(where, part.parts[index]) for where, part in parts], count, field.type, batch)  # type: ignore[union-attr]
        for index, field in enumerate(kind)
    )
    return Structs(inner, count, _valid(parts, count))


def _scatter_lists(parts: Sequence[IndexedPart], count: int, kind: pa.DataType, batch: MessageBytes) -> Part:
    lengths = _scatter_values(parts, "lengths", count)
    first = np.cumsum(lengths) - lengths
    items = [(ranges(first[where], part.lengths), part.items) for where, part in parts]  # type: ignore[union-attr]
    return ItemLists(lengths, scatter(items, int(lengths.sum()), item_type(kind), batch), _valid(parts, count))


def _scatter_arrays(parts: Sequence[IndexedPart], count: int, kind: pa.DataType, batch: MessageBytes) -> Part:
    """Merge parts of different classes, for example a default and values that were read, as Arrow arrays."""
    arrays = [finish(part, kind, batch) for _, part in parts]
    source = np.zeros(count, np.int64)
    absent = np.ones(count, bool)
    begin = 0
    for (where, _), array in zip(parts, arrays, strict=True):
        source[where] = np.arange(begin, begin + len(array))
        absent[where] = False
        begin += len(array)
    return ArrayPart(pa.concat_arrays(arrays).take(pa.array(source, mask=absent)))


def item_type(kind: pa.DataType) -> pa.DataType:
    """Return the item type of a list or a map. For a map it is a struct of key and value."""
    if pa.types.is_map(kind):
        return pa.struct([pa.field("key", kind.key_type, False), kind.item_field])
    return kind.value_type


def finish(part: Part, kind: pa.DataType, batch: MessageBytes) -> pa.Array:
    """Convert a part to an Arrow array. Invalid UTF-8 becomes U+FFFD. The last value of a repeated map key counts."""
    match part:
        case Nulls():
            return pa.nulls(part.count, kind)
        case ArrayPart():
            return part.array if part.single is None else part.array.take(pa.array(np.zeros(part.single, np.int64)))
        case Numbers():
            return _numbers(kind, part.values) if part.valid is None else fixed_width(kind, part.values, part.valid)
        case Codes():
            return part.texts.take(pa.array(part.values, mask=None if part.valid is None else ~part.valid))
        case TextSpans():
            return (
                _fixed_bytes(part, kind, batch) if pa.types.is_fixed_size_binary(kind) else _texts(part, kind, batch)[0]
            )
        case Structs():
            arrays = [finish(inner, field.type, batch) for inner, field in zip(part.parts, kind, strict=True)]
            return pa.Array.from_buffers(kind, part.count, [_bitmap(part.valid)], children=arrays)
        case ItemLists():
            return _map(part, kind, batch) if pa.types.is_map(kind) else _list(part, kind, batch)


def _numbers(kind: pa.DataType, values: Any) -> pa.Array:
    data = np.packbits(values, bitorder="little") if kind == pa.bool_() else np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(data)])


def _bitmap(valid: Mask | None) -> pa.Buffer | None:
    return None if valid is None else validity(valid)


def _texts(part: TextSpans, kind: pa.DataType, batch: MessageBytes) -> tuple[pa.Array, bool]:
    """Return the strings or bytes, and whether all strings were valid UTF-8."""
    array = batch.pieces(part.start, part.end, kind, part.valid)
    if kind != pa.string() or _is_utf8(array):
        return array, True
    raw = array.view(pa.binary()).to_pylist()
    return pa.array([None if data is None else java_text(data) for data in raw], kind), False


def _is_utf8(array: pa.StringArray) -> bool:
    if np.frombuffer(array.buffers()[2] or b"", np.uint8).max(initial=0) < 0x80:
        return True
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _fixed_bytes(part: TextSpans, kind: pa.DataType, batch: MessageBytes) -> pa.Array:
    size, count = kind.byte_width, part.count
    data = np.zeros((count, size), np.uint8)
    rows = np.arange(count) if part.valid is None else np.flatnonzero(part.valid)
    data[rows] = batch.bytes[part.start[rows, None] + np.arange(size)]
    return pa.Array.from_buffers(kind, count, [_bitmap(part.valid), pa.py_buffer(data)])


def _offsets(lengths: Ints) -> pa.Buffer:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.py_buffer(offsets)


def _list(part: ItemLists, kind: pa.DataType, batch: MessageBytes) -> pa.Array:
    items = finish(part.items, kind.value_type, batch)
    return pa.Array.from_buffers(kind, part.count, [_bitmap(part.valid), _offsets(part.lengths)], children=[items])


def _map(part: ItemLists, kind: pa.DataType, batch: MessageBytes) -> pa.Array:
    lengths, items = part.lengths, part.items
    if isinstance(items, Structs) and isinstance(items.parts[0], TextSpans):
        keys, clean = _texts(items.parts[0], pa.string(), batch)
        values = finish(items.parts[1], kind.item_type, batch)
        doubtful = _maps_with_equal_hashes(items.parts[0], lengths, batch) if clean else np.flatnonzero(lengths > 1)
        entries = pa.StructArray.from_arrays([keys, values], fields=list(item_type(kind)))
    else:
        entries, doubtful = finish(items, item_type(kind), batch), np.flatnonzero(lengths > 1)
    if len(doubtful):
        entries, lengths = _without_repeats(entries, lengths, doubtful)
    return pa.Array.from_buffers(kind, part.count, [_bitmap(part.valid), _offsets(lengths)], children=[entries])


def _maps_with_equal_hashes(keys: TextSpans, lengths: Ints, batch: MessageBytes) -> Ints:
    """Return the indices of maps with two keys of the same hash."""
    if not (lengths > 1).any():
        return np.zeros(0, np.int64)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    hashes = _hashes(keys, batch) ^ (owner.astype(np.uint64) * _MIX[0])
    ordered = np.sort(hashes)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.zeros(0, np.int64)
    order = np.argsort(hashes)
    equal = hashes[order][1:] == hashes[order][:-1]
    return np.unique(owner[order[:-1][equal]])


_MIX: Final = tuple(np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))


def _hashes(keys: TextSpans, batch: MessageBytes) -> WordArray:
    """Hash each key by its length and its first, middle and last eight bytes."""
    length = keys.end - keys.start
    short = np.clip(length, 0, 8).astype(np.uint64) << np.uint64(3)
    mask = np.where(short == 64, ~np.uint64(0), (np.uint64(1) << (short & np.uint64(63))) - np.uint64(1))
    result = (batch.word(keys.start) & mask) * _MIX[1] + length.astype(np.uint64)
    if length.max(initial=0) > 8:
        long = length > 8
        middle = batch.word(Positions(keys.start + (length >> 1) - 4))
        last = batch.word(Positions(keys.end - 8))
        result = np.where(long, ((result ^ (result >> np.uint64(29))) + last) * _MIX[2] + middle, result)
    return (result ^ (result >> np.uint64(32))) * _MIX[2]


def _without_repeats(entries: pa.StructArray, lengths: Ints, doubtful: Ints) -> tuple[pa.StructArray, Ints]:
    """Remove repeated keys from maps. A key keeps its first position and its last value."""
    first, lengths = np.cumsum(lengths) - lengths, lengths.copy()
    keep = np.ones(len(entries), bool)
    source = np.arange(len(entries))
    for owner in doubtful.tolist():
        begin, count = int(first[owner]), int(lengths[owner])
        known: dict[Any, int] = {}
        for index, key in enumerate(entries.field(0).slice(begin, count).to_pylist(), begin):
            source[known.setdefault(key, index)] = index
            keep[index] = known[key] == index
        lengths[owner] = len(known)
    keys = entries.field(0).take(pa.array(np.flatnonzero(keep)))
    values = entries.field(1).take(pa.array(source[keep]))
    return pa.StructArray.from_arrays([keys, values], fields=list(entries.type)), lengths
