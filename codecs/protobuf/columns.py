"""Columns of a protobuf message type; the inverse of `codecs/protobuf/binding.py`.

| proto | column |
| --- | --- |
| bool, float, double | BOOLEAN, FLOAT, DOUBLE |
| int32, sint32, sfixed32, uint32, fixed32 | INT |
| int64, sint64, sfixed64, uint64, fixed64 | BIGINT |
| string, enum | STRING |
| bytes | BYTES |
| message, group; map; repeated | ROW; MAP; ARRAY |
| a message inside of itself, a message without fields | left out, with a note |
"""

from __future__ import annotations

from kvformat.codecs.discovery.column_types import Notes, array_of
from kvformat.codecs.discovery.message_kinds import BINARY, indices_of
from kvformat.codecs.protobuf.types import GROUP, MESSAGE, OF_32_BITS, OF_64_BITS, FieldType, MessageType, MessageTypes
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.types import BYTES, STRING, FlinkField, FlinkType

_SCALARS = {
    "bool": FlinkType("BOOLEAN"),
    "float": FlinkType("FLOAT"),
    "double": FlinkType("DOUBLE"),
    "string": STRING,
    "enum": STRING,
    "bytes": BYTES,
    **dict.fromkeys(OF_32_BITS, FlinkType("INT")),
    **dict.fromkeys(OF_64_BITS, FlinkType("BIGINT")),
}
_MAX_NUMBER = 1000  # of a field, by which bytes are recognized; real messages seldom have larger ones
_MIN_TEXT = 3  # characters; fewer may be text by accident


def propose_fields(types: MessageTypes) -> SchemaProposal:
    """Propose a column for each field of the message type."""
    notes = Notes()
    return SchemaProposal(_columns(types.message, types, "", notes, (types.root,)), notes=notes.texts())


def _columns(
    message: MessageType, types: MessageTypes, path: str, notes: Notes, around: tuple[str, ...]
) -> tuple[FlinkField, ...]:
    columns = []
    for field in message.fields:
        inner = f"{path}.{field.name}" if path else field.name
        t = _column_type(field, types, inner, notes, around)
        if t is not None:
            columns.append(FlinkField(field.name, t))
    return tuple(columns)


def _column_type(
    field: FieldType, types: MessageTypes, path: str, notes: Notes, around: tuple[str, ...]
) -> FlinkType | None:
    """The type of a column; None, and a note, if no type of Flink's reads the field."""
    entry = types.entry(field)
    if entry is not None:
        parts = [_column_type(part, types, f"{path}.{part.name}", notes, around) for part in entry.fields]
        names = ("key", "value")
        fields = tuple(FlinkField(name, t) for name, t in zip(names, parts, strict=True) if t is not None)
        return FlinkType("MAP", fields=fields) if len(fields) == len(names) else None
    t = _SCALARS.get(field.kind)
    if field.kind in (MESSAGE, GROUP):
        if field.type_name in around:
            notes.add(f"the message {field.type_name} contains itself, which no table type does: left out", path)
            return None
        inside = (*around, field.type_name)
        columns = _columns(types.messages[field.type_name], types, path, notes, inside)
        if not columns:
            notes.add("a message without fields: left out", path)
        t = FlinkType("ROW", fields=columns) if columns else None
    return array_of(t) if field.repeated and t is not None else t


def recognize_protobuf(sample: MessageSample) -> tuple[Recognition, ...]:
    """Recognize binary messages that are whole protobuf messages, if one of them has a field that is text."""
    indices = indices_of(sample, BINARY)
    texts = [_has_text(sample.values[index] or b"") for index in indices]
    if None in texts or not any(texts):
        return ()
    are = "are bytes that parse as protobuf messages; the format needs their descriptor, by its options"
    return (Recognition(indices, 0.5, are),)


def _has_text(message: bytes) -> bool | None:
    """Whether a field of a protobuf message is printable text; None if the bytes are not such a message.

    Source: protobuf's encoding guide. Groups, which are deprecated, are not recognized.
    """
    at, has_text = 0, False
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number <= _MAX_NUMBER:
            return None
        if wire == 0:
            _, at = _varint(message, at)
        elif wire == 2:
            size, at = _varint(message, at)
            content, at = message[at : at + size], at + size
            has_text |= _is_text(content)
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            return None
    return has_text if at == len(message) else None


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A varint and the offset after it; the offset is beyond the message if the varint is not complete."""
    for size in range(1, 11):
        if at + size > len(message):
            break
        if message[at + size - 1] < 0x80:
            return sum((byte & 0x7F) << 7 * i for i, byte in enumerate(message[at : at + size])), at + size
    return 0, len(message) + 1


def _is_text(content: bytes) -> bool:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return len(text) >= _MIN_TEXT and text.isprintable()
