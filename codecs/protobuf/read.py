"""Reads messages as rows: makes the kernel's columns and field readers for a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvformat.codecs._arrays import stored_type
from kvformat.codecs._kernel import protobuf as wire
from kvformat.codecs._kernel import protobuf_codes as codes
from kvformat.codecs._kernel.columns import Booleans, Int64Column
from kvformat.codecs._kernel.containers import Lists, Rows
from kvformat.codecs._kernel.protobuf_columns import EnumNames, Pairs
from kvformat.codecs._kernel.text_columns import Binaries, Texts
from kvformat.codecs._rows import RowReader
from kvformat.codecs.protobuf.binding import TEXTS
from kvformat.codecs.protobuf.errors import said
from kvformat.codecs.protobuf.required import Required
from kvformat.codecs.protobuf.types import ENUM, GROUP, MESSAGE, EnumType, FieldType, MessageType, MessageTypes
from kvformat.registry.contract.types import FlinkField, FlinkType
from kvformat.registry.java.charsets import java_text

UNRECOGNIZED = "UNRECOGNIZED"
"""Java's name for a number that an open enum does not have."""
_MOST_REQUIRED = 63
"""Up to this number, each required field has a bit. With more, `required.py` checks every message."""
_ENCODINGS = {
    "bool": codes.BOOL,
    "int32": codes.SIGNED32,
    "uint32": codes.SIGNED32,
    "sint32": codes.ZIGZAG32,
    "int64": codes.SIGNED64,
    "uint64": codes.SIGNED64,
    "sint64": codes.ZIGZAG64,
    "fixed32": codes.BITS32_SIGNED,
    "sfixed32": codes.BITS32_SIGNED,
    "fixed64": codes.BITS64,
    "sfixed64": codes.BITS64,
    "float": codes.BITS32,
    "double": codes.BITS64,
    ENUM: codes.SIGNED32,
}
_STORED = {"INT": "i4", "BIGINT": "i8", "FLOAT": "u4", "DOUBLE": "i8"}
"""numpy types of the columns of numbers. FLOAT and DOUBLE are stored as their bits."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options `ignore-parse-errors` and `read-default-values`.

    `empty_lists`: whether lists and maps without elements are empty, otherwise NULL.
    """

    lenient: bool = False
    defaults: bool = False
    empty_lists: bool = False


class ProtobufReader(RowReader):
    """Reads batches of messages as rows. `check_table` must have accepted the type `row`."""

    def __init__(self, row: FlinkType, types: MessageTypes, settings: Settings) -> None:
        def batch() -> wire.ProtobufBatch:
            message, root = _Schema(types, settings).rows(row, types.message)
            return wire.ProtobufBatch(root, message, said, Required(types).lacking, lenient=settings.lenient)

        super().__init__(batch)


class _Schema:
    """Makes the columns of one table, and the field readers that fill them.

    An absent field becomes its default with `read-default-values`, else null. Scalars and enums also become their
    default if the file is proto3, or if the wire format does not distinguish an absent field from zero.
    """

    def __init__(self, types: MessageTypes, settings: Settings) -> None:
        self._types, self._settings = types, settings
        self._unread: dict[str, wire.MessageReader] = {}

    def rows(self, t: FlinkType, message: MessageType) -> tuple[wire.MessageReader, Rows]:
        """Make the column of a ROW and the reader of the message that fills it."""
        by_name = {field.name: field for field in message.fields}
        field_readers = {column.name: self._column_field(column, by_name[column.name]) for column in t.fields}
        columns = [field.column for field in field_readers.values()]
        rows = Rows(t, stored_type(t), [column.name for column in t.fields], columns)
        return self._filled(wire.MessageReader(), message, field_readers), rows

    def _filled(
        self, into: wire.MessageReader, message: MessageType, field_readers: dict[str, wire.FieldReader]
    ) -> wire.MessageReader:
        """Fill a message reader with a reader for each field: those of `field_readers` for columns, others to check."""
        oneofs = {f.oneof: wire.Oneof() for f in message.fields if f.oneof >= 0 and f.name in field_readers}
        fields, required = [], [field for field in message.fields if self._types.is_needed(message, field)]
        for field in message.fields:
            target = field_readers.get(field.name) or self._checked(field)
            if field in required:
                target.bit = 1 << min(required.index(field), _MOST_REQUIRED)
            target.oneof = oneofs.get(field.oneof)
            fields.append(target)
        # with too many required fields, a bit that no field has: then every message is checked
        bits = (1 << len(required)) - 1 if len(required) <= _MOST_REQUIRED else 1 << _MOST_REQUIRED
        if len(required) > _MOST_REQUIRED:
            for target in fields:
                target.bit = 0
        into.fill([field.number for field in message.fields], fields, list(field_readers.values()), bits)
        return into

    def _unread_message(self, name: str) -> wire.MessageReader:
        """Return the reader of a message type without columns. The type may contain itself."""
        reader = self._unread.get(name)
        if reader is None:
            reader = self._unread[name] = wire.MessageReader()
            self._filled(reader, self._types.messages[name], {})
        return reader

    def _checked(self, field: FieldType) -> wire.FieldReader:
        """Return a reader that only checks a field, without a column."""
        entry = self._types.entry(field)
        if entry is not None:
            return wire.EntriesReader(field.name, None, self._unread_message(entry.name), None, has_default=False)
        value = self._value(field)
        return wire.RepeatedReader(None, value, has_default=False) if field.repeated else value

    def _column_field(self, column: FlinkField, field: FieldType) -> wire.FieldReader:
        t, entry, defaults = column.type, self._types.entry(field), self._settings.defaults
        lists = defaults or self._settings.empty_lists
        if entry is not None:
            parts = {part.name: part for part in t.fields}
            field_readers = {
                member.name: self._value(member, parts[member.name].type, has_default=True) for member in entry.fields
            }
            pairs = Pairs(t, stored_type(t), field_readers["key"].column, field_readers["value"].column)
            value = field_readers["value"]
            number = value if isinstance(value, wire.NumberReader) and value.is_closed else None
            message = self._filled(wire.MessageReader(), entry, field_readers)
            return wire.EntriesReader(field.name, pairs, message, number, has_default=lists)
        if field.repeated:
            element = self._value(field, t.fields[0].type)
            return wire.RepeatedReader(Lists(t, stored_type(t), element.column), element, has_default=lists)
        simple = field.kind not in (MESSAGE, GROUP)
        has_default = defaults or (simple and (self._types.proto3 or not field.presence))
        return self._value(field, t, has_default=has_default)

    def _value(self, field: FieldType, t: FlinkType | None = None, *, has_default: bool = False) -> wire.FieldReader:
        """Return a reader of single values of a field, with a column of the type `t` if that is given."""
        if field.kind in (MESSAGE, GROUP):
            group = field.number if field.kind == GROUP else 0
            if t is None:
                message = self._unread_message(field.type_name)
                return wire.SubmessageReader(field.name, None, message, group, has_default=False)
            message, rows = self.rows(t, self._types.messages[field.type_name])
            return wire.SubmessageReader(field.name, rows, message, group, has_default=has_default)
        default = field.default if has_default else None
        if field.kind in ("string", "bytes"):
            texts = None if t is None else (Texts if t.root in TEXTS else Binaries)(t, stored_type(t))
            is_text = field.kind == "string"
            repair: Callable[[bytes], bytes] | None = None if field.checked else _repaired
            return wire.TextReader(
                field.name, texts, default, checked=is_text and (field.checked or texts is not None), repair=repair
            )
        enum = self._types.enums[field.type_name] if field.kind == ENUM else None
        words = None if t is None else _words(t, enum)
        known = [number for _, number in enum.values] if enum is not None and enum.closed else None
        return wire.NumberReader(field.name, words, _ENCODINGS[field.kind], _bits(field.kind, default), known)


def _words(t: FlinkType, enum: EnumType | None) -> Int64Column:
    if t.root in TEXTS:
        assert enum is not None
        names: dict[int, str] = {}
        for name, number in enum.values:
            names.setdefault(number, name)
        return EnumNames(t, stored_type(t), names, UNRECOGNIZED)
    if t.root == "BOOLEAN":
        return Booleans(t, stored_type(t), bool)
    return Int64Column(t, stored_type(t), None, _STORED[t.root])


def _bits(kind: str, default: Any) -> int | None:
    """Return a default as the kernel stores it: numbers as signed integers, FLOAT and DOUBLE as their bits."""
    if default is None:
        return None
    if kind in ("float", "double"):
        short = kind == "float"
        with np.errstate(over="ignore"):
            return int(np.array([default], "f4" if short else "f8").view("u4" if short else "i8")[0])
    number = int(default)
    if kind in ("uint32", "fixed32"):
        return (number ^ 1 << 31) - (1 << 31)
    return (number ^ 1 << 63) - (1 << 63) if kind in ("uint64", "fixed64") else number


def _repaired(data: bytes) -> bytes:
    return java_text(data).encode()
