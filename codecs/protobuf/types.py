"""The message types that a table needs, as plain data. Spark sends them to workers without the package `protobuf`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvformat.codecs._kernel import protobuf_codes as codes

GROUP, MESSAGE, ENUM = "group", "message", "enum"
"""Kinds of fields that are not scalars. The kinds of scalars have their names in `.proto` files: `int32`, ..."""
OF_32_BITS = ("int32", "sint32", "sfixed32", "uint32", "fixed32")
OF_64_BITS = ("int64", "sint64", "sfixed64", "uint64", "fixed64")
_WIRE_TYPES = {
    **dict.fromkeys(("fixed64", "sfixed64", "double"), codes.FIXED64),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), codes.FIXED32),
    **dict.fromkeys(("string", "bytes", MESSAGE), codes.SIZED),
    GROUP: codes.GROUP_START,
}


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field of a message.

    `kind` is the name of a scalar type, or `enum`, `message` or `group`. For these `type_name` is the type's full name.
    `presence` is true if the wire format distinguishes an absent field from zero. `default` is the value of an absent
    field: bytes for text, a number for an enum, None for a message. `oneof` is the number of the field's oneof, or -1.
    If `checked`, text that is not UTF-8 is an error. `params` are the parameters of Confluent's option `field_meta`.
    """

    name: str
    number: int
    kind: str
    type_name: str = ""
    repeated: bool = False
    required: bool = False
    packed: bool = False
    presence: bool = False
    checked: bool = False
    oneof: int = -1
    default: Any = None
    params: tuple[tuple[str, str], ...] = ()

    @property
    def wire_type(self) -> int:
        """The wire type of one value."""
        return _WIRE_TYPES.get(self.kind, codes.VARINT)


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message type with its fields in the order of their declaration."""

    name: str
    fields: tuple[FieldType, ...]
    is_entry: bool = False

    def field(self, name: str) -> FieldType | None:
        """Return the field with exactly this name, or None."""
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enum with its values in the order of their declaration. A closed enum ignores other numbers."""

    values: tuple[tuple[str, int], ...]
    closed: bool


@dataclass(frozen=True)
class MessageTypes:
    """A message type and all types that it uses, by full names. Equal objects have the same `digest`."""

    root: str
    digest: str
    proto3: bool = field(compare=False)
    messages: Mapping[str, MessageType] = field(compare=False, repr=False)
    enums: Mapping[str, EnumType] = field(compare=False, repr=False)

    @property
    def message(self) -> MessageType:
        """The type of the topic's messages."""
        return self.messages[self.root]

    def entry(self, field: FieldType) -> MessageType | None:
        """Return the type of a map's entries, None for a field that is not a map."""
        message = self.messages.get(field.type_name) if field.kind == MESSAGE and field.repeated else None
        return message if message is not None and message.is_entry else None

    def is_needed(self, message: MessageType, field: FieldType) -> bool:
        """Return whether a message without the field may lack a required field.

        A map entry without a value has an empty message as its value, which may lack required fields.
        """
        if message.is_entry and field.kind == MESSAGE:
            return any(inner.required for inner in self.messages[field.type_name].fields)
        return field.required
