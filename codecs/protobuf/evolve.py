"""Types of fields that have changed, as Protobuf's guide allows it: the messages of each schema for the same columns.

| field | column |
| --- | --- |
| int32, uint32, int64, uint64, bool; sint32, sint64 | the column of another; a number that does not fit is an error |
| bool / any of these numbers | a number 0 or 1 / BOOLEAN, true except for 0 |
| string, a message / bytes | BYTES / STRING, if it is UTF-8 |
| not repeated | ARRAY, with one element or empty |
| repeated | the column of its element; more than one is an error |
| map | ARRAY of ROW<key, value> |

Every message is read by the types of its own schema. Here, fields get the kind of their column where both have the same
bytes. The other pairs are conversions (`field_columns.py`). Writing needs the exact types.
Rules: "Updating A Message Type" in Protobuf's guide.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Final

from kvformat.codecs.protobuf.binding import TEXTS
from kvformat.codecs.protobuf.field_columns import is_of_message, only_value
from kvformat.codecs.protobuf.schema_text import WRAPPED
from kvformat.codecs.protobuf.types import MESSAGE, FieldType, MessageType, MessageTypes
from kvformat.registry.contract.types import FlinkType

_BINARIES: Final = ("BINARY", "VARBINARY")
_NUMBERS: Final = ("int32", "uint32", "int64", "uint64", "sint32", "sint64")
_WIDER: Final = {"int32": "int64", "sint32": "sint64"}
_OF_BOOLEANS: Final = {"TINYINT": "int32", "SMALLINT": "int32", "INT": "int32", "BIGINT": "int64"}


def evolved_types(row: FlinkType, types: MessageTypes) -> MessageTypes:
    """Return the types for reading messages as rows of a type."""
    messages = dict(types.messages)
    messages[types.root] = _message(row, types.message, types, messages, f"{types.root}:")  # not a type's name
    if messages == types.messages:
        return types
    digest = hashlib.sha256(f"{types.digest} {row}".encode()).hexdigest()
    return replace(types, digest=digest, messages=messages)


def _message(
    row: FlinkType, message: MessageType, types: MessageTypes, messages: dict[str, MessageType], name: str
) -> MessageType:
    """Return a message for a ROW. Changed messages inside of it are added to `messages` by names of their own."""
    columns = {column.name: column.type for column in row.fields}
    fields = (
        _field(columns[field.name], field, types, messages, name) if field.name in columns else field
        for field in message.fields
    )
    return replace(message, fields=tuple(fields))


def _field(
    t: FlinkType, field: FieldType, types: MessageTypes, messages: dict[str, MessageType], path: str
) -> FieldType:
    path = f"{path}.{field.name}"
    entry = types.entry(field)
    if entry is not None:
        row = t.fields[0].type if t.root == "ARRAY" else t
        if row.root not in ("MAP", "ROW"):
            return field
        return _with_message(field, _message(row, entry, types, messages, path), messages, path)
    if t.root == "ARRAY" and not field.repeated and only_value(t, field, types) is None:
        field = replace(field, repeated=True, default=None)
    inner = t.fields[0].type if t.root == "ARRAY" and field.repeated else t
    return _value(inner, field, types, messages, path)


def _value(
    t: FlinkType, field: FieldType, types: MessageTypes, messages: dict[str, MessageType], path: str
) -> FieldType:
    if field.kind != MESSAGE:
        return _scalar(t, field)
    if t.root in _BINARIES and only_value(t, field, types) is None:
        return replace(field, kind="bytes", type_name="")
    if is_of_message(t, field):
        return field
    message = types.messages[field.type_name]
    only = only_value(t, field, types)
    if only is not None:
        inner = replace(message, fields=(_field(t, only, types, messages, path),))
        if inner != message:  # it lost the name that says what it stands for
            field = replace(field, params=(*field.params, (WRAPPED, "true")))
    elif t.root == "ROW":
        inner = _message(t, message, types, messages, path)
    else:
        return field
    return _with_message(field, inner, messages, path)


def _with_message(field: FieldType, message: MessageType, messages: dict[str, MessageType], path: str) -> FieldType:
    """Return the field with a message of its own, if that has changed: other fields may have the original."""
    if message == messages.get(field.type_name):
        return field
    messages[path] = message
    return replace(field, type_name=path)


def _scalar(t: FlinkType, field: FieldType) -> FieldType:
    kind = _kind(t, field.kind)
    if kind == field.kind:
        return field
    default = bool(field.default) if kind == "bool" and field.default is not None else field.default
    return replace(field, kind=kind, default=default, checked=field.checked or kind == "string")


def _kind(t: FlinkType, kind: str) -> str:
    """Return the kind whose bytes are those of `kind`, and which the column has."""
    if t.root == "BIGINT":
        return _WIDER.get(kind, "int64" if kind == "bool" else kind)
    if kind == "bool":
        return _OF_BOOLEANS.get(t.root, kind)
    if t.root == "BOOLEAN" and kind in _NUMBERS:
        return "bool"
    if t.root in TEXTS and kind == "bytes":
        return "string"
    return "bytes" if t.root in _BINARIES and kind == "string" else kind
