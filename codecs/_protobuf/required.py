"""Required fields of a message that may lack some: what two submessages lack, both together may have.

So all that is there is merged, by the names alone, before it is asked what is missing. The kernel has read the message
and found nothing wrong with it. It asks for few messages: those in which some part lacks a required field.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from kvformat.codecs._kernel import protobuf_codes as codes
from kvformat.codecs._kernel.messages import Said
from kvformat.codecs._protobuf.types import ENUM, GROUP, MESSAGE, FieldType, MessageType, MessageTypes
from kvformat.registry.error_codes import ErrorCode

MOST_NAMED = 20
"""So many missing fields an error names."""
_WIRE_TYPES = {
    **dict.fromkeys(("fixed64", "sfixed64", "double"), codes.FIXED64),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), codes.FIXED32),
    **dict.fromkeys(("string", "bytes", MESSAGE), codes.SIZED),
    GROUP: codes.GROUP_START,
}


@dataclass(slots=True)
class _Seen:
    """The fields of a message that are there, and what is in them, all parts merged."""

    names: set[str] = field(default_factory=set)
    single: dict[str, _Seen] = field(default_factory=dict)
    several: list[tuple[str, _Seen]] = field(default_factory=list)


def lacking(data: bytes, types: MessageTypes) -> Said | None:
    """The error of a message without its required fields, None where it has all."""
    seen = _Seen()
    _Look(data, types).read(seen, types.message, 0, len(data))
    missing = list(islice(_missing(seen, types.message, types, ""), MOST_NAMED))
    return lacks(missing) if missing else None


def lacks(paths: list[str]) -> Said:
    """The error of a message without these required fields, of which it names the first ones."""
    return ErrorCode.MISSING_FIELD, f"Message missing required fields: {', '.join(paths[:MOST_NAMED])}"


def _missing(seen: _Seen, message: MessageType, types: MessageTypes, path: str) -> Iterator[str]:
    by_name = {field.name: field for field in message.fields}
    yield from (path + field.name for field in message.fields if field.required and field.name not in seen.names)
    if message.is_entry and by_name["value"].kind == MESSAGE:
        seen.single.setdefault("value", _Seen())
    for name, inner in [*seen.single.items(), *seen.several]:
        yield from _missing(inner, types.messages[by_name[name].type_name], types, f"{path}{name}.")


class _Look:
    """Goes over a message that is known to be good."""

    def __init__(self, data: bytes, types: MessageTypes) -> None:
        self._data, self._types = data, types

    def read(self, seen: _Seen, message: MessageType, at: int, end: int) -> int:
        """Note what is there up to the end, or to the end of a group."""
        by_number = {field.number: field for field in message.fields}
        while at < end:
            tag, at = self._varint(at)
            tag &= codes.LOW
            kind, known = tag & 7, by_number.get(tag >> 3)
            if kind == codes.GROUP_END:
                return at
            if known is None or kind != _WIRE_TYPES.get(known.kind, codes.VARINT):
                at = self._skip(kind, at, end)
            elif known.type_name and known.kind != ENUM:
                at = self._message(seen, message, known, at, end)
            elif known.kind == ENUM:
                value, at = self._varint(at)
                enum = self._types.enums[known.type_name]
                number = (value & codes.LOW ^ 1 << 31) - (1 << 31)
                if not enum.closed or any(number == other for _, other in enum.values):
                    self._note(seen, message, known)
            else:
                at = self._skip(kind, at, end)
                self._note(seen, message, known)
        return at

    def _note(self, seen: _Seen, message: MessageType, known: FieldType) -> None:
        """A field is there, and so no other one of its oneof."""
        seen.names.add(known.name)
        for rival in message.fields if known.oneof >= 0 else ():
            if rival.oneof == known.oneof and rival is not known:
                seen.names.discard(rival.name)
                seen.single.pop(rival.name, None)

    def _message(self, seen: _Seen, message: MessageType, known: FieldType, at: int, end: int) -> int:
        inner = _Seen()
        if known.repeated:
            seen.several.append((known.name, inner))
        else:
            inner = seen.single.setdefault(known.name, inner)
        self._note(seen, message, known)
        of = self._types.messages[known.type_name]
        if known.kind == GROUP:
            return self.read(inner, of, at, end)
        size, at = self._varint(at)
        return self.read(inner, of, at, at + (size & codes.LOW))

    def _varint(self, at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            c = self._data[at]
            value |= (c & 127) << shift
            at, shift = at + 1, shift + 7
            if c < 128:
                return value, at

    def _skip(self, kind: int, at: int, end: int) -> int:
        if kind == codes.VARINT:
            return self._varint(at)[1]
        if kind == codes.SIZED:
            size, at = self._varint(at)
            return at + (size & codes.LOW)
        if kind == codes.GROUP_START:
            return self.read(_Seen(), _NOTHING, at, end)
        return at + (8 if kind == codes.FIXED64 else 4)


_NOTHING = MessageType("", ())
