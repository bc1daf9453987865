"""Messages for google's Python package, rewritten so that it reads what Java reads.

Its C code differs from Java in three ways:

- It refuses tags and sizes of more than 32 bits. Java uses their low 32 bits.
- It leaves out a map entry that has an unknown field. Java leaves out only the unknown field.
- In proto2 it accepts text in a map that is not UTF-8. Java refuses the message.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

_VARINT, _FIXED64, _SIZED, _GROUP_START, _GROUP_END, _FIXED32 = range(6)
_WIRE_TYPES = {
    **dict.fromkeys(
        (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64), _FIXED64
    ),
    **dict.fromkeys(
        (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32), _FIXED32
    ),
    **dict.fromkeys((FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE), _SIZED),
    FieldDescriptor.TYPE_GROUP: _GROUP_START,
}


class _Malformed(Exception):
    """The bytes are not a message."""


def as_java(message: bytes, descriptor: Any) -> bytes:
    """Return the message that google reads as Java reads this one. A malformed message is returned as it is.

    Raises `DecodeError` if only Java refuses the message.
    """
    try:
        return _Rewriter(message).fields(0, len(message), descriptor, 0)[0]
    except _Malformed:
        return message


class _Rewriter:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def fields(self, at: int, end: int, message: Any, group: int) -> tuple[bytes, int]:
        """Rewrite the fields up to `end`, or up to the end of a group. `message` is None in an unknown group."""
        out = b""
        is_entry = message is not None and message.GetOptions().map_entry
        while at < end:
            tag, at = self.varint(at, end)
            tag &= 2**32 - 1
            number, wire = tag >> 3, tag & 7
            if not number:
                raise _Malformed
            if wire == _GROUP_END:
                if number != group:
                    raise _Malformed
                return out + _varint(tag), at
            field = None if message is None else message.fields_by_number.get(number)
            known = field if field is not None and _WIRE_TYPES.get(field.type, _VARINT) == wire else None
            value, at = self.value(at, end, wire, number, known)
            if is_entry and known is None:
                continue
            out += _varint(tag) + value
        if group:
            raise _Malformed
        return out, at

    def value(self, at: int, end: int, wire: int, number: int, field: Any) -> tuple[bytes, int]:
        """Rewrite a value. `field` is None if it is unknown, or known with another wire type."""
        if wire == _VARINT:
            _, stop = self.varint(at, end)
            return self.data[at:stop], stop
        if wire in (_FIXED64, _FIXED32):
            stop = at + (8 if wire == _FIXED64 else 4)
            if stop > end:
                raise _Malformed
            return self.data[at:stop], stop
        message = None if field is None else field.message_type
        if wire == _GROUP_START:
            return self.fields(at, end, message, number)
        if wire != _SIZED:
            raise _Malformed
        size, at = self.varint(at, end)
        stop = at + (size & 2**32 - 1)
        if stop > end:
            raise _Malformed
        if (
            field is not None
            and field.type == FieldDescriptor.TYPE_STRING
            and field.containing_type.GetOptions().map_entry
        ):
            _check_text(self.data[at:stop])
        body = self.data[at:stop] if message is None else self.fields(at, stop, message, 0)[0]
        return _varint(len(body)) + body, stop

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """Read a number. Return it and the offset after it."""
        found = 0
        for shift in range(0, 70, 7):
            if at >= end:
                raise _Malformed
            found |= (self.data[at] & 127) << shift
            at += 1
            if self.data[at - 1] < 128:
                return found, at
        raise _Malformed


def _check_text(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as bad:
        raise DecodeError(str(bad)) from None


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])
