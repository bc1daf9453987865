"""Finds missing required fields of a message.

Two parts of a submessage are merged, so fields that one part lacks may be in the other. This module merges all parts by
the names of their fields, and then looks for missing ones. The kernel calls it only for messages with a part that lacks
a required field. It has already parsed these messages without errors.

The cost of each field of a message does not depend on the size of its type. So a stream of bad messages does not stall.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from kvformat.codecs._kernel import protobuf_codes as codes
from kvformat.codecs._kernel.messages import Said
from kvformat.codecs.protobuf.types import ENUM, GROUP, MESSAGE, FieldType, MessageType, MessageTypes
from kvformat.registry.contract.error_codes import ErrorCode

MOST_NAMED = 20
"""The number of missing fields that an error names."""


@dataclass(slots=True)
class _Seen:
    """The fields that are present in a message and its submessages, with all parts merged.

    `lacking` has the paths of fields that elements of lists lack, up to the number that an error names. `entries` has
    the map entries that lack fields, by map and key: a later entry replaces an earlier entry with the same key. Only
    the first entries are kept, the others are None. `key` is the key of an entry, None for zero.
    """

    names: set[str] = field(default_factory=set)
    chosen: dict[int, str] = field(default_factory=dict)
    single: dict[str, _Seen] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)
    entries: dict[str, dict[int | bytes | None, _Seen | None]] = field(default_factory=dict)
    key: int | bytes | None = None


class _Shape:
    """The relevant parts of a message type: fields by number, their types by name, and required fields."""

    def __init__(self, message: MessageType, types: MessageTypes) -> None:
        self.fields = {known.number: _Known(known, types) for known in message.fields}
        self.messages = {known.name: known.type_name for known in message.fields}
        self.required = [known.name for known in message.fields if known.required]
        value = message.field("value")
        # an entry without a value has an empty message as its value
        self.is_entry = message.is_entry
        self.implied = value.type_name if message.is_entry and value is not None and value.kind == MESSAGE else ""


class _Known:
    """A field: its wire type, its message type, and the numbers of its enum if that is closed."""

    def __init__(self, known: FieldType, types: MessageTypes) -> None:
        self.name, self.repeated, self.oneof = known.name, known.repeated, known.oneof
        self.wire = known.wire_type
        self.is_group = known.kind == GROUP
        self.is_map = types.entry(known) is not None
        self.is_bool = known.kind == "bool"
        self.mask = 2**32 - 1 if known.kind in ("int32", "uint32", "sint32") else 2**64 - 1
        self.message = known.type_name if known.kind in (MESSAGE, GROUP) else ""
        enum = types.enums[known.type_name] if known.kind == ENUM else None
        self.numbers = frozenset(number for _, number in enum.values) if enum is not None and enum.closed else None


class Required:
    """Finds the required fields that messages of a type lack."""

    def __init__(self, types: MessageTypes) -> None:
        self._types = types
        self._shapes: dict[str, _Shape] = {}

    def lacking(self, data: bytes) -> Said | None:
        """Return the error of a message that lacks required fields, None if it has all."""
        seen, shape = _Seen(), self._shape(self._types.root)
        self._read(data, seen, shape, 0, len(data))
        missing = self._missing(seen, shape)
        return lacks(missing) if missing else None

    def _shape(self, name: str) -> _Shape:
        shape = self._shapes.get(name)
        if shape is None:
            shape = self._shapes[name] = _Shape(self._types.messages[name], self._types)
        return shape

    def _missing(self, seen: _Seen, shape: _Shape, most: int = MOST_NAMED) -> list[str]:
        """Return the paths of the missing fields of a message that was read to its end, at most `most`."""
        missing = list(islice((name for name in shape.required if name not in seen.names), most))
        if shape.implied:
            seen.single.setdefault("value", _Seen())
        for name, inner in seen.single.items():
            if len(missing) < most:
                missing += [f"{name}.{path}" for path in self._missing(inner, self._shape(shape.messages[name]), most)]
        missing += seen.lacking
        for name, entries in seen.entries.items():
            for entry in entries.values():
                if len(missing) >= most:
                    break
                paths = [] if entry is None else self._missing(entry, self._shape(shape.messages[name]), most)
                missing += [f"{name}.{path}" for path in paths] or [name]
        return missing[:most]

    def _read(self, data: bytes, seen: _Seen, shape: _Shape, at: int, end: int) -> int:
        """Record the fields up to `end` or the end of a group. Return the offset after them."""
        while at < end:
            tag, at = _varint(data, at)
            tag &= codes.LOW_32_BITS
            kind, known = tag & 7, shape.fields.get(tag >> 3)
            if kind == codes.GROUP_END:
                return at
            if known is None or kind != known.wire:
                at = self._skip(data, kind, at, end)
            elif known.message:
                at = self._message(data, seen, known, at, end)
            elif known.numbers is not None:
                value, at = _varint(data, at)
                if (value & codes.LOW_32_BITS ^ 1 << 31) - (1 << 31) in known.numbers:
                    _note(seen, known)
            else:
                start, at = at, self._skip(data, kind, at, end)
                _note(seen, known)
                if shape.is_entry and known.name == "key":
                    seen.key = _key(data, known, start, at)
        return at

    def _message(self, data: bytes, seen: _Seen, known: _Known, at: int, end: int) -> int:
        _note(seen, known)
        if not known.is_group:
            size, at = _varint(data, at)
            end = at + (size & codes.LOW_32_BITS)
        shape = self._shape(known.message)
        if not known.repeated:
            inner = seen.single.get(known.name)
            if inner is None:
                inner = seen.single[known.name] = _Seen()
            return self._read(data, inner, shape, at, end)
        if len(seen.lacking) >= MOST_NAMED:  # an error does not name more fields
            return self._skip(data, codes.GROUP_START, at, end) if known.is_group else end
        inner = _Seen()
        at = self._read(data, inner, shape, at, end)
        if known.is_map:
            entries = seen.entries.setdefault(known.name, {})
            entries.pop(inner.key, None)
            if self._missing(inner, shape, 1):  # a message may have more entries than an error names
                entries[inner.key] = inner if len(entries) < MOST_NAMED else None
        else:
            seen.lacking += [f"{known.name}.{path}" for path in self._missing(inner, shape)]
        return at

    def _skip(self, data: bytes, kind: int, at: int, end: int) -> int:
        if kind == codes.VARINT:
            while data[at] >= 128:
                at += 1
            return at + 1
        if kind == codes.SIZED:
            size, at = _varint(data, at)
            return at + (size & codes.LOW_32_BITS)
        if kind == codes.GROUP_START:
            return self._read(data, _Seen(), _NOTHING, at, end)
        return at + (8 if kind == codes.FIXED64 else 4)


def _note(seen: _Seen, known: _Known) -> None:
    """Record that a field is present. This removes the other fields of its oneof."""
    seen.names.add(known.name)
    if known.oneof >= 0:
        rival = seen.chosen.get(known.oneof, known.name)
        if rival != known.name:
            seen.names.discard(rival)
            seen.single.pop(rival, None)
        seen.chosen[known.oneof] = known.name


def _key(data: bytes, known: _Known, at: int, end: int) -> int | bytes | None:
    """Return the key of an entry in one form for all its encodings. None stands for zero and the empty text."""
    if known.wire == codes.VARINT:
        value = _varint(data, at)[0] & known.mask
        return (int(value != 0) if known.is_bool else value) or None
    if known.wire == codes.SIZED:
        return data[_varint(data, at)[1] : end] or None
    return int.from_bytes(data[at:end], "little") or None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    if value < 128:
        return value, at
    value, shift = value & 127, 7
    while True:
        c = data[at]
        value |= (c & 127) << shift
        at, shift = at + 1, shift + 7
        if c < 128:
            return value, at


def lacks(paths: list[str]) -> Said:
    """Return the error of a message that lacks required fields. It names the first ones."""
    return ErrorCode.MISSING_FIELD, f"Message missing required fields: {', '.join(paths[:MOST_NAMED])}"


_NOTHING = _Shape(MessageType("", ()), MessageTypes("", "", False, {}, {}))
