"""The message types that a table needs, as plain data: they travel to workers, which need no `protobuf` package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GROUP, MESSAGE, ENUM = "group", "message", "enum"
"""Kinds of a field that are not a scalar's; the others are named as in a `.proto` file: `int32`, `string`, ..."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field of a message.

    `kind` is the scalar's name, or `enum`, `message` or `group`, of which `type_name` is the full name. `presence` says
    whether an absent field and a zero are two things on the wire. `default` is what an absent field reads as: bytes for
    text, a number for an enum, None for a message. `oneof` is the number of its oneof, -1 without one. Text that is
    not UTF-8 is an error where it is `checked`.
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


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message type: its fields in the order of their declaration."""

    name: str
    fields: tuple[FieldType, ...]
    is_entry: bool = False

    def field(self, name: str) -> FieldType | None:
        """The field of that very name."""
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enum: its values in the order of their declaration. Of a closed one other numbers are unknown fields."""

    values: tuple[tuple[str, int], ...]
    closed: bool


@dataclass(frozen=True)
class MessageTypes:
    """A message type and all that it is made of, by full names. Equal ones have the same `digest`."""

    root: str
    digest: str
    proto3: bool = field(compare=False)
    messages: Mapping[str, MessageType] = field(compare=False, repr=False)
    enums: Mapping[str, EnumType] = field(compare=False, repr=False)

    @property
    def message(self) -> MessageType:
        """The type of the messages of the topic."""
        return self.messages[self.root]

    def entry(self, field: FieldType) -> MessageType | None:
        """The type of the entries of a map, None for a field that is none."""
        message = self.messages.get(field.type_name) if field.kind == MESSAGE and field.repeated else None
        return message if message is not None and message.is_entry else None

    def is_needed(self, message: MessageType, field: FieldType) -> bool:
        """Whether a message without the field may lack something: an entry without value has an empty message."""
        if message.is_entry and field.kind == MESSAGE:
            return any(inner.required for inner in self.messages[field.type_name].fields)
        return field.required
