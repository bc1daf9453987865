"""The fast writer: encodes a batch of values as Avro, column by column.

A store writes one or eight bytes of all rows at once. Stores go through a row from left to right. A store of eight
bytes may write too much: the next store overwrites the excess, and a gap after each row takes the rest. At the end,
the gaps are removed. Items, branches of unions and nullable records do not have one value per row. They are written
to a buffer in the same way and copied into the rows.
The writer refuses rows with a value that the schema does not allow. The exact writer then reports the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints, Mask
from kvformat.codecs.avro.schema import CONSTANT, Schema
from kvformat.registry.java.charsets import java_text

_GAP: Final = 32
_LONG_TEXT: Final = 256
"""Longer strings, in bytes, are copied one by one."""
_U = np.uint64
_ALL_CONTINUED: Final = 0x8080808080808080
_CONTINUED: Final = np.array([_ALL_CONTINUED & (256 ** max(n - 1, 0) - 1) for n in range(11)], _U)
"""For each length in bytes, the top bits of the first eight bytes of a varint."""

ByteArray: TypeAlias = npt.NDArray[np.uint8]
WordArray: TypeAlias = npt.NDArray[np.uint64]
Size: TypeAlias = int | Ints


@dataclass(frozen=True, slots=True)
class _Byte:
    """Stores one byte in every row."""

    values: Any


@dataclass(frozen=True, slots=True)
class _Word:
    """Stores eight bytes in every row."""

    values: Any


@dataclass(frozen=True, slots=True)
class _Copy:
    """Copies bytes of a source into every row."""

    source: Source
    start: Ints
    length: Ints


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of every row.

    size: bytes in each row. stores: offsets within the part, and what to store there. bad: rows to refuse.
    """

    size: Size
    stores: tuple[tuple[Size, _Byte | _Word | _Copy], ...]
    bad: Mask | None = None


class Source:
    """Bytes that can also be read eight at a time, at any offset."""

    __slots__ = ("bytes", "words")

    def __init__(self, data: Any, first: int, last: int) -> None:
        self.bytes: ByteArray = np.zeros(last - first + 8, np.uint8)
        if last > first:
            self.bytes[: last - first] = np.frombuffer(data, np.uint8)[first:last]
        self.words: WordArray = np.ndarray((last - first + 1,), "<u8", self.bytes.data, strides=(1,))


def write_batch(values: pa.Array, schema: Schema, prefix: bytes) -> tuple[pa.BinaryArray, Mask | None]:
    """Encode a non-empty array of `schema.arrow_type`. Returns the messages, and which rows are refused."""
    part = _concat_parts([_constant_part(prefix), _make_part(values, schema)])
    return _write_rows(part, len(values)), part.bad


def _write_rows(part: _Part, count: int) -> pa.BinaryArray:
    """Run the stores of a part. Returns one message per row."""
    sizes = np.broadcast_to(np.asarray(part.size, np.int64), count)
    ends = np.cumsum(sizes + _GAP) - _GAP
    begin = ends - sizes
    out = np.zeros(int(ends[-1]) + _GAP, np.uint8)
    words: WordArray = np.ndarray((len(out) - 7,), "<u8", out.data, strides=(1,))
    for distance, store in part.stores:
        at = begin + distance
        if isinstance(store, _Byte):
            out[at] = store.values
        elif isinstance(store, _Word):
            words[at] = store.values
        else:
            _copy(out, words, at, store)
    # one `take` copies all rows: with the offsets [begin0, end0, begin1, end1, ...] they have the even indices
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2], offsets[1::2], offsets[-1] = begin, ends, len(out)
    rows = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(out)])
    return rows.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def _copy(out: ByteArray, words: WordArray, at: Ints, store: _Copy) -> None:
    """Copy byte strings eight bytes at a time: the first eight of all rows, then the next eight, and so on."""
    start, length, source = store.start, store.length, store.source
    longest = int(length.max())
    if longest > _LONG_TEXT:
        for row in np.flatnonzero(length > _LONG_TEXT).tolist():
            text = source.bytes[start[row] : start[row] + length[row]]
            out[at[row] : at[row] + length[row]] = text
        length = np.where(length > _LONG_TEXT, 0, length)
        longest = int(length.max())
    for done in range(0, longest, 8):
        some = np.flatnonzero(length > done)
        if len(some) < len(length):
            at, start, length = at[some], start[some], length[some]
        words[at + done if done else at] = source.words[start + done if done else start]


def _shift_stores(stores: tuple[tuple[Size, Any], ...], by: Size) -> list[tuple[Size, Any]]:
    return [(distance + by, store) for distance, store in stores]


def _concat_parts(parts: list[_Part]) -> _Part:
    """Concatenate parts."""
    size: Size = 0
    stores: list[tuple[Size, Any]] = []
    bad = None
    for part in parts:
        stores += _shift_stores(part.stores, size) if not isinstance(size, int) or size else part.stores
        size = size + part.size
        bad = _or_masks(bad, part.bad)
    return _Part(size, tuple(stores), bad)


def _or_masks(a: Mask | None, b: Mask | None) -> Mask | None:
    return b if a is None else a if b is None else a | b


# --- types -----------------------------------------------------------------------------------------------------


def _make_part(array: pa.Array, schema: Schema) -> _Part:
    """Return the part of an array of the schema's Arrow type. Refuses nulls unless the schema allows them."""
    if schema.type == CONSTANT:
        return _constant_part(schema.constant)
    if schema.type == "union":
        return _union_part(array, schema)
    part = _present_part(array, schema)
    if not array.null_count:
        return part
    return _Part(part.size, part.stores, _or_masks(part.bad, ~_valid(array)))


def _present_part(array: pa.Array, schema: Schema) -> _Part:
    """Return the part of values that are not null. Null values get any bytes."""
    kind = schema.type
    if pa.types.is_decimal(array.type):
        return _decimal_part(array, schema)
    if kind in ("int", "long"):
        return _varint_part(_zigzag(_numbers(array, "i4" if kind == "int" else "i8")))
    if kind == "double":
        return _Part(8, ((0, _Word(_numbers(array, "u8"))),))
    if kind == "float":
        return _Part(4, ((0, _Word(_numbers(array, "u4"))),))
    if kind == "boolean":
        return _Part(1, ((0, _Byte(_bits(array))),))
    if kind in ("string", "bytes"):
        return _text_part(array)
    if kind == "fixed" and array.type == pa.binary():
        return _large_fixed_part(array, schema.size)
    if kind == "fixed":
        return _fixed_part(_numbers(array, f"V{schema.size}").tobytes(), schema.size, _valid(array))
    if kind == "enum":
        return _enum_part(array, schema)
    if kind == "record":
        return _concat_parts([_make_part(array.field(i), f.schema) for i, f in enumerate(schema.fields)])
    return _block_part(array, schema)


def _constant_part(data: bytes) -> _Part:
    """Return the part of bytes that are equal in every row."""
    words = np.frombuffer(data.ljust(-(-len(data) // 8) * 8, b"\0"), "<u8")
    return _Part(len(data), tuple((8 * at, _Word(word)) for at, word in enumerate(words)))


def _valid(array: pa.Array) -> Mask:
    mask: Mask = np.asarray(array.is_valid())
    return mask


def _numbers(array: pa.Array, dtype: str) -> Any:
    """Return the stored values. Null values have any number."""
    width = np.dtype(dtype).itemsize
    buffer = array.buffers()[1]
    if buffer is None or not width:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, len(array), array.offset * width)


def _bits(array: pa.Array) -> ByteArray:
    buffer = np.frombuffer(array.buffers()[1], np.uint8)
    first, last = array.offset, array.offset + len(array)
    return np.unpackbits(buffer[first // 8 : last // 8 + 1], bitorder="little")[first % 8 :][: len(array)]


def _zigzag(numbers: Any) -> WordArray:
    wide = numbers.astype(np.int64)
    result: WordArray = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    return result


def _varint_part(number: WordArray) -> _Part:
    """Return the part of varints: groups of seven bits, as few as possible."""
    most = int(number.max())
    if most < 1 << 7:
        return _Part(1, ((0, _Byte(number)),))
    if most < 1 << 14:
        second = number >> _U(7)
        two = second > 0
        return _Part(two.astype(np.int64) + 1, ((0, _Byte(number | (two * _U(0x80)))), (1, _Byte(second))))
    least = int(number.min())
    shortest, longest = _varint_length(least), _varint_length(most)
    length: Size = longest
    if shortest < longest:
        length = np.full(len(number), shortest, np.int64)
        for size in range(shortest, longest):
            length += number >= _U(1 << 7 * size)
    word = _spread_groups(number) | _CONTINUED[length]
    if longest <= 8:
        return _Part(length, ((0, _Word(word)),))
    rest = number >> _U(56)
    rest |= (rest >> _U(7)) << _U(8)  # bit 63 of the number also marks that a tenth byte follows
    return _Part(length, ((0, _Word(word)), (8, _Word(rest))))


def _varint_length(number: int) -> int:
    return max((number.bit_length() + 6) // 7, 1)


def _spread_groups(number: WordArray) -> WordArray:
    """Spread the lowest 56 bits over eight bytes, seven bits each."""
    number = ((number & _U(0x00FFFFFFF0000000)) << _U(4)) | (number & _U(0x000000000FFFFFFF))
    number = ((number & _U(0x0FFFC0000FFFC000)) << _U(2)) | (number & _U(0x00003FFF00003FFF))
    return ((number & _U(0x3F803F803F803F80)) << _U(1)) | (number & _U(0x007F007F007F007F))


def _text_part(array: pa.Array) -> _Part:
    """Return the part of strings or bytes with their lengths. Refuses strings of invalid UTF-8."""
    copy = _contents(array)
    source, length = copy.source, copy.length
    bad = _not_utf8(array) if array.type == pa.string() and source.bytes.max() >= 0x80 else None
    head = _varint_part((length << 1).view(np.uint64))
    return _Part(head.size + length, (*head.stores, (head.size, copy)), bad)


def _contents(array: pa.Array) -> _Copy:
    """Return the bytes of strings, zero bytes for nulls."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    length = np.diff(bounds)
    if array.null_count:
        length *= _valid(array)
    return _Copy(Source(data, int(bounds[0]), int(bounds[-1])), bounds[:-1] - bounds[0], length)


def _large_fixed_part(array: pa.BinaryArray, size: int) -> _Part:
    """Return the part of a fixed that is binary in Arrow."""
    copy = _contents(array)
    return _Part(copy.length, ((0, copy),), copy.length != size)


def _not_utf8(array: pa.StringArray) -> Mask | None:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raw = array.view(pa.binary()).to_pylist()
        return np.array([data is not None and java_text(data).encode() != data for data in raw], bool)
    return None


def _fixed_part(data: bytes, size: int, valid: Mask) -> _Part:
    source = Source(data, 0, len(data))
    return _Part(size, ((0, _Copy(source, np.arange(len(valid)) * size, valid * size)),))


def _enum_part(array: pa.Array, schema: Schema) -> _Part:
    if not schema.symbols:
        return _Part(0, (), np.ones(len(array), bool))
    index = pc.index_in(array, value_set=pa.array(schema.symbols, pa.string()))
    bad = ~_valid(index) if index.null_count else None
    part = _varint_part(_zigzag(np.asarray(index.fill_null(0))))
    return _Part(part.size, part.stores, bad)


# --- decimals --------------------------------------------------------------------------------------------------


def _decimal_part(array: pa.Array, schema: Schema) -> _Part:
    count = len(array)
    words = _numbers(array, "V16").view("<i8").reshape(count, 2)
    low, high = words[:, 0], words[:, 1]
    if array.null_count:
        valid = _valid(array)
        low, high = low * valid, high * valid
    else:
        valid = np.ones(count, bool)
    small = high == low >> 63
    length = np.where(small, _byte_length(low), 8 + _byte_length(high))
    if schema.type == "fixed":
        return _fixed_decimal_part(low, high, length > schema.size, schema.size, valid)
    head = (length << 1).astype(np.uint8)
    if small.all():
        number = (low << ((8 - length) << 3)).byteswap().view(np.uint64)
        return _Part(1 + length, ((0, _Byte(head)), (1, _Word(number))))
    data = np.stack([high.byteswap(), low.byteswap()], axis=1).tobytes()
    copy = _Copy(Source(data, 0, len(data)), np.arange(count) * 16 + 16 - length, length)
    return _Part(1 + length, ((0, _Byte(head)), (1, copy)))


def _byte_length(number: Ints) -> Ints:
    """Return the fewest bytes that hold each number with its sign."""
    magnitude = number ^ (number >> 63)
    length = np.ones(len(number), np.int64)
    for size in range(1, 8):
        more = magnitude >= 1 << (8 * size - 1)
        if not more.any():
            break
        length += more
    return length


def _fixed_decimal_part(low: Ints, high: Ints, bad: Mask, size: int, valid: Mask) -> _Part:
    width = max(size, 16)
    data = np.zeros((len(low), width), np.uint8)
    data[high < 0] = 0xFF
    data[:, width - 16 :] = np.stack([high.byteswap(), low.byteswap()], axis=1).view(np.uint8)
    part = _fixed_part(np.ascontiguousarray(data[:, width - size :]).tobytes(), size, valid)
    return _Part(part.size, part.stores, bad if bad.any() else None)


# --- arrays, maps and unions -----------------------------------------------------------------------------------


def _block_part(array: pa.Array, schema: Schema) -> _Part:
    """Return the part of arrays or maps: one block with all items, if there are any, and a zero."""
    bounds = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    if first == last:
        return _Part(1, ((0, _Byte(0)),))
    lengths = np.diff(bounds)
    if array.null_count:
        lengths *= _valid(array)
    if schema.values is not None:
        entries = [_make_part(array.keys[first:last], _KEY), _make_part(array.items[first:last], schema.values)]
        items = _concat_parts(entries)
    else:
        assert schema.items is not None
        items = _make_part(array.values[first:last], schema.items)
    begin, end = bounds[:-1] - first, bounds[1:] - first
    copy = _copy_ranges(items, last - first, begin, np.where(lengths > 0, end, begin))
    head = _varint_part((lengths << 1).view(np.uint64))
    some = lengths > 0
    body = head.size * some + copy.length
    bad = None
    if items.bad is not None:
        before = np.concatenate([[0], np.cumsum(items.bad)])
        bad = before[end] > before[begin]
    return _Part(body + 1, (*head.stores, (head.size * some, copy), (body, _Byte(0))), bad)


_KEY: Final = Schema("string")


def _copy_ranges(part: _Part, count: int, begin: Ints, end: Ints) -> _Copy:
    """Write a part to a buffer. Returns the copy of its rows from `begin` to `end`."""
    written = _write_rows(part, count)
    _, offsets, data = written.buffers()
    bounds = np.frombuffer(offsets, np.int32, count + 1, written.offset * 4).astype(np.int64)
    source = Source(data, int(bounds[0]), int(bounds[-1]))
    start = bounds[begin] - bounds[0]
    return _Copy(source, start, bounds[end] - bounds[0] - start)


def _union_part(array: pa.Array, schema: Schema) -> _Part:
    assert schema.value_index is not None
    some, null_index = schema.branches[schema.value_index], schema.null_index
    if not array.null_count or null_index is None:
        return _concat_parts([_branch_part(np.True_, schema.value_index, 0), _make_part(array, some)])
    valid = _valid(array)
    branch = _branch_part(valid, schema.value_index, null_index)
    if not valid.any():
        return branch
    if some.type == "record":
        copy, bad = _copy_valid(array, some, valid)
        return _Part(branch.size + copy.length, (*branch.stores, (branch.size, copy)), bad)
    part = _present_part(array, some)
    bad = None if part.bad is None else part.bad & valid
    return _Part(branch.size + part.size * valid, (*branch.stores, *_shift_stores(part.stores, branch.size)), bad)


def _branch_part(valid: Mask | np.bool_, index: int, null_index: int) -> _Part:
    """Return the part of the indices of branches: `index` for valid values."""
    if max(index, null_index) < 1 << 6:
        return _Part(1, ((0, _Byte(np.where(valid, np.uint8(2 * index), np.uint8(2 * null_index)))),))
    return _varint_part(np.atleast_1d(np.where(valid, _U(2 * index), _U(2 * null_index))))


def _copy_valid(array: pa.Array, schema: Schema, valid: Mask) -> tuple[_Copy, Mask | None]:
    """Write the `valid` values to a buffer. Returns their copy, and which rows are refused."""
    part = _make_part(array.filter(pa.array(valid)), schema)
    end: Ints = np.cumsum(valid, dtype=np.int64)
    copy = _copy_ranges(part, int(end[-1]), end - valid.astype(np.int64), end)
    if part.bad is None:
        return copy, None
    bad = np.zeros(len(valid), bool)
    bad[valid] = part.bad
    return copy, bad
