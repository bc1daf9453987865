"""Writes rows as messages, column by column: each field becomes an array of pieces, one per row, to be joined.

    id INT = 1, name STRING = 2         08 07 | 12 02 61 62          08 07  12 02 61 62
    7    "ab"                     ->                           ->
    NULL ""     (proto3)                ""    | ""                   ""

The piece of a list is the concatenation of its elements' pieces. A value that its enum does not have is an error of the
row; Flink writes the first value of the enum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints, Mask
from kvformat.codecs._kernel import protobuf_codes as codes
from kvformat.codecs.json.scalars import preview
from kvformat.codecs.protobuf.binding import TEXTS
from kvformat.codecs.protobuf.required import MOST_NAMED, lacks
from kvformat.codecs.protobuf.types import ENUM, GROUP, MESSAGE, EnumType, FieldType, MessageType, MessageTypes
from kvformat.registry.contract.batches import EncodedBatch
from kvformat.registry.contract.error_codes import ErrorCode, Reason, reason_arrays
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.java.charsets import java_text

_Words = npt.NDArray[np.uint64]
_SIZES = np.array([2**63 if i == 9 else 2 ** (7 * i) for i in range(1, 10)], np.uint64)
"""The smallest numbers whose varint has 2, 3, ... 10 bytes."""
_FIXED = {"fixed32": "u4", "sfixed32": "u4", "float": "u4", "fixed64": "u8", "sfixed64": "u8", "double": "u8"}
_BITS = {"float": ("f4", "u4"), "double": ("f8", "u8"), "bool": ("u1", "u1")}


@dataclass(frozen=True, slots=True)
class _Unknown:
    """Values that an enum does not have, texts or numbers; the row of each, the field's path, and the enum."""

    rows: Ints
    path: str
    values: pa.Array
    enum: EnumType

    def errors(self) -> Iterator[tuple[int, Reason]]:
        """Yield each row with the error of its first value."""
        texts = pa.types.is_string(self.values.type)
        known = [name if texts else f"{number} ({name})" for name, number in self.enum.values]
        more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
        allowed = f"{', '.join(known[:MOST_NAMED])}{more}"
        code = ErrorCode.WRONG_TYPE if texts else ErrorCode.OUT_OF_RANGE
        rows, first = np.unique(self.rows, return_index=True)
        for row, value in zip(rows.tolist(), self.values.cast(pa.string()).take(pa.array(first)), strict=True):
            text = value.as_buffer().to_pybytes().decode(errors="backslashreplace")
            shown = preview(text) if texts else text
            yield row, Reason(code, f"field '{self.path}': {shown} is not in the enum; it has {allowed}")


class ProtobufWriter:
    """Writes rows as messages. `check_table` must have accepted the type `row`.

    `literal` is written for NULL in lists and maps of strings.
    """

    def __init__(self, row: FlinkType, types: MessageTypes, literal: str) -> None:
        self._row, self._types, self._literal = row, types, literal.encode()

    def write(self, rows: pa.StructArray) -> EncodedBatch:
        """Return one message per row, null for a null row.

        A row that lacks a required field, or has a value that an enum does not have, is null with an error.
        """
        present = np.asarray(rows.is_valid())
        batch = _Batch(self._types, self._literal)
        messages = batch.message(rows, self._row, self._types.message, np.flatnonzero(present), "")
        if rows.null_count:
            places = np.where(present, np.cumsum(present) - 1, 0)
            messages = messages.take(pa.array(places, mask=~present))
        if not batch.lacking and not batch.unknown:
            return EncodedBatch(messages)
        paths: dict[int, list[str]] = {}
        for rows_without, path in batch.lacking:
            for number in np.unique(rows_without).tolist():
                paths.setdefault(number, []).append(path)
        reasons: list[Reason | None] = [None] * len(rows)
        for unknown in batch.unknown:
            for number, error in unknown.errors():
                reasons[number] = reasons[number] or error
        for number, missing in paths.items():
            reasons[number] = Reason(*lacks(missing))
        failed = pa.array([reason is not None for reason in reasons])
        return EncodedBatch(pc.if_else(failed, pa.scalar(None, pa.binary()), messages), *reason_arrays(reasons))


class _Batch:
    """Writes the rows of a batch. The argument `of` is always the batch's row number of each value.

    `lacking` has rows without a required field, and the field's path.
    """

    def __init__(self, types: MessageTypes, literal: bytes) -> None:
        self._types, self._literal = types, literal
        self.lacking: list[tuple[Ints, str]] = []
        self.unknown: list[_Unknown] = []

    def message(self, rows: pa.StructArray, t: FlinkType, message: MessageType, of: Ints, path: str) -> pa.Array:
        """Return the bytes of the rows that are not null. Their number is the length of `of`."""
        kept = rows.drop_null() if rows.null_count else rows
        columns = dict(zip((column.name for column in t.fields), kept.flatten(), strict=True))
        kinds = {column.name: column.type for column in t.fields}
        masks = {name: np.asarray(values.is_valid()) for name, values in columns.items()}
        fields = {field.name: field for field in message.fields}
        self._keep_last_of_oneofs([fields[name] for name in columns], masks)
        pieces = []
        for field in sorted(message.fields, key=lambda field: field.number):
            there = masks.get(field.name)
            if field.required and (there is None or not there.all()):
                rows_without = of if there is None else of[~there]
                if len(rows_without):
                    self.lacking.append((rows_without, path + field.name))
            if there is not None and there.any():
                where = np.flatnonzero(there)
                values = columns[field.name] if len(where) == len(there) else columns[field.name].take(pa.array(where))
                piece = self._field(values, kinds[field.name], field, of[where], path)
                pieces.append(_spread(piece, there))
        return _joined(pieces, len(of))

    @staticmethod
    def _keep_last_of_oneofs(fields: Sequence[FieldType], masks: dict[str, Mask]) -> None:
        """Change the masks so that only the last column of each oneof is written."""
        taken: dict[int, Mask] = {}
        for field in reversed(fields):
            if field.oneof >= 0:
                before = taken.get(field.oneof)
                there = masks[field.name]
                masks[field.name] = there if before is None else there & ~before
                taken[field.oneof] = there if before is None else there | before

    def _field(self, values: pa.Array, t: FlinkType, field: FieldType, of: Ints, path: str) -> pa.Array:
        """Return the field of each value with its tag. No value is null."""
        entry = self._types.entry(field)
        if entry is None and not field.repeated:
            piece = self._values(values, t, field, of, path)
            if field.presence or field.kind in (MESSAGE, GROUP):
                return self._tagged(piece, field)
            written = np.asarray(pc.not_equal(piece, _zero(field)))  # -0.0 has other bytes
            kept = piece if written.all() else piece.filter(pa.array(written))
            return _spread(self._tagged(kept, field), written)
        bounds = np.asarray(values.offsets).astype(np.int64)
        first, last = bounds[0], bounds[-1]
        inner = np.repeat(of, np.diff(bounds))
        if entry is not None:
            pieces = []
            for part, member, some in zip(t.fields, entry.fields, (values.keys, values.items), strict=True):
                some = some.slice(first, last - first)
                place = f"{path}{field.name}."
                pieces.append(self._tagged(self._elements(some, part.type, member, inner, place), member))
            return _regrouped(self._tagged(_sized(_joined(pieces, len(inner))), field), bounds - first)
        elements = values.values.slice(first, last - first)
        piece = self._elements(elements, t.fields[0].type, field, inner, path)
        if not field.packed:
            return _regrouped(self._tagged(piece, field), bounds - first)
        blocks = _regrouped(piece, bounds - first)
        tagged = _joined([_varint_array([field.number << 3 | codes.SIZED], len(blocks)), _sized(blocks)], len(blocks))
        full = np.diff(bounds) > 0
        return tagged if full.all() else _spread(tagged.filter(pa.array(full)), full)

    def _elements(self, values: pa.Array, t: FlinkType, field: FieldType, of: Ints, path: str) -> pa.Array:
        """Return the bytes of a list's elements without tags. Nulls become a default."""
        if not values.null_count:
            return self._values(values, t, field, of, path)
        there = np.asarray(values.is_valid())
        piece = self._values(values.drop_null(), t, field, of[there], path)
        if field.kind in (MESSAGE, GROUP):
            of_type = self._types.messages[field.type_name]
            for inner in of_type.fields:
                if inner.required:
                    self.lacking.append((of[~there], f"{path}{field.name}.{inner.name}"))
            default = b"" if field.kind == GROUP else b"\0"
        elif field.kind == "string":
            default = _sized(pa.array([self._literal], pa.binary()))[0].as_py()
        elif field.kind == ENUM:
            default = _varints(np.array([self._types.enums[field.type_name].values[0][1]]).astype(np.uint64))[0].as_py()
        else:
            default = _zero(field)
        return _spread(piece, there, default)

    def _values(self, values: pa.Array, t: FlinkType, field: FieldType, of: Ints, path: str) -> pa.Array:
        """Return the bytes of values without tags. No value is null."""
        if field.kind in (MESSAGE, GROUP):
            inner = self.message(values, t, self._types.messages[field.type_name], of, f"{path}{field.name}.")
            return inner if field.kind == GROUP else _sized(inner)
        if field.kind in ("string", "bytes"):
            return _sized(_repaired(values) if field.kind == "string" else values.cast(pa.binary()))
        numbers = self._enum_numbers(values, t, field, of, path) if field.kind == ENUM else _numbers(values, field)
        if field.kind not in _FIXED:
            return _varints(numbers)
        width = np.dtype(_FIXED[field.kind])
        data = pa.py_buffer(np.ascontiguousarray(numbers.astype(width.newbyteorder("<"))))
        return pa.Array.from_buffers(pa.binary(width.itemsize), len(numbers), [None, data]).cast(pa.binary())

    def _enum_numbers(self, values: pa.Array, t: FlinkType, field: FieldType, of: Ints, path: str) -> _Words:
        """Return the numbers of an enum's names or numbers. Notes values that the enum does not have."""
        enum = self._types.enums[field.type_name]
        numbers = np.array([number for _, number in enum.values], np.int64)
        if t.root in TEXTS:
            places = pc.index_in(values, pa.array([name for name, _ in enum.values]))
            known = np.asarray(places.is_valid())
            enum_numbers: Ints = numbers[np.asarray(places.fill_null(0))]
        else:
            enum_numbers = np.asarray(values).astype(np.int64)
            known = np.isin(enum_numbers, numbers)
        if not known.all():
            self.unknown.append(_Unknown(of[~known], path + field.name, values.filter(pa.array(~known)), enum))
        codes_of: _Words = enum_numbers.astype(np.uint64)
        return codes_of

    @staticmethod
    def _tagged(piece: pa.Array, field: FieldType) -> pa.Array:
        """Put the tag before each piece, and the end tag after each piece of a group."""
        parts = [_varint_array([field.number << 3 | field.wire_type], len(piece)), piece]
        if field.kind == GROUP:
            parts.append(_varint_array([field.number << 3 | codes.GROUP_END], len(piece)))
        return _joined(parts, len(piece))


def _repaired(texts: pa.StringArray) -> pa.BinaryArray:
    """Return the bytes of texts, with U+FFFD for what is not UTF-8, as Java does. Readers refuse other bytes."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([java_text(data).encode() for data in texts.view(pa.binary()).to_pylist()], pa.binary())
    return texts.cast(pa.binary())


def _zero(field: FieldType) -> bytes:
    """Return the bytes of a scalar's zero or empty value: a field without presence does not write it."""
    return bytes(np.dtype(_FIXED[field.kind]).itemsize) if field.kind in _FIXED else b"\0"


def _numbers(values: pa.Array, field: FieldType) -> _Words:
    """Return numbers as they are written: sign-extended to 64 bits or zigzag, FLOAT and DOUBLE as their bits."""
    if field.kind == "bool":
        return np.asarray(values.cast(pa.uint8())).astype(np.uint64)
    if field.kind in _BITS:
        stored, bits = _BITS[field.kind]
        return np.ascontiguousarray(np.asarray(values), stored).view(bits).astype(np.uint64)
    signed = np.asarray(values).astype(np.int64)
    if field.kind.startswith("sint"):
        return ((signed << 1) ^ (signed >> 63)).astype(np.uint64)
    if field.kind in ("uint32", "fixed32", "sfixed32"):
        return signed.astype(np.uint64) & np.uint64(codes.LOW_32_BITS)
    return signed.astype(np.uint64)


def _varints(numbers: _Words) -> pa.Array:
    """Encode each number as a varint."""
    if not len(numbers) or numbers.max() < 128:
        data, sizes = numbers.astype(np.uint8), np.ones(len(numbers), np.int64)
    else:
        sizes = np.searchsorted(_SIZES, numbers, side="right") + 1
        most = int(sizes.max())
        places = np.arange(most)
        groups = numbers[:, None] >> (7 * places).astype(np.uint64) & np.uint64(127)
        groups[places < sizes[:, None] - 1] |= np.uint64(128)
        data = groups.astype(np.uint8)[places < sizes[:, None]]
    return _array(np.cumsum(sizes), data)


def _varint_array(numbers: list[int], count: int) -> pa.Scalar:
    """Encode one number as a varint for all rows."""
    return _varints(np.array(numbers, np.uint64))[0]


def _array(ends: Ints, data: npt.NDArray[np.uint8]) -> pa.Array:
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _sized(pieces: pa.Array) -> pa.Array:
    """Put the size before each piece."""
    sizes = np.asarray(pc.binary_length(pieces)).astype(np.uint64)
    return _joined([_varints(sizes), pieces], len(pieces))


def _joined(pieces: Sequence[Any], count: int) -> pa.Array:
    """Concatenate the pieces of each row."""
    if not any(isinstance(piece, pa.Array) for piece in pieces):
        return pa.repeat(pa.scalar(b""), count)
    if len(pieces) == 1:
        return pieces[0]
    return pc.binary_join_element_wise(*pieces, pa.scalar(b""))


def _spread(pieces: pa.Array, there: Mask, default: bytes = b"") -> pa.Array:
    """Place the pieces at the rows where `there` is true, and a default at the others."""
    if there.all():
        return pieces
    places = np.where(there, np.cumsum(there) - 1, len(pieces))
    return pa.concat_arrays([pieces, pa.array([default], pa.binary())]).take(pa.array(places))


def _regrouped(pieces: pa.Array, bounds: Ints) -> pa.Array:
    """Join the pieces of each list's elements into one piece, without copying bytes."""
    offsets = np.frombuffer(pieces.buffers()[1], np.int32)[pieces.offset : pieces.offset + len(pieces) + 1]
    joined = pa.py_buffer(np.ascontiguousarray(offsets[bounds]))
    return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, joined, pieces.buffers()[2]])
