"""Debezium's rows in Avro without an envelope. Fields beside the columns say what was done to the row.

    {"id": 1, "name": "pen", "__op": "u", "__deleted": "false"}

`__deleted` is a text, or a boolean from MongoDB. The writer's schema alone tells messages that are not rows.
Sources: Debezium's page on the transform ExtractNewRecordState, its `AbstractExtractRecordStrategy` (`__deleted`), and
`ExtractNewDocumentState` of MongoDB.
"""

from __future__ import annotations

from kvformat.codecs.avro.schema import Schema
from kvformat.codecs.changes.other_messages import OtherMessage, find_by_members
from kvformat.codecs.debezium.envelopes import ROW_ALONE
from kvformat.registry.contract.types import STRING, FlinkField, FlinkType

_OP, _DELETED = ROW_ALONE.operation, ROW_ALONE.before
_TEXT, _FLAG = STRING, FlinkType("BOOLEAN")


def add_marks(row: FlinkType, writer: Schema | None) -> FlinkType:
    """The row type with the fields `__op` and `__deleted`, unless they are columns of the table already."""
    flag = writer is not None and any(
        f.name == _DELETED and (f.schema.optional or f.schema).type == "boolean" for f in writer.fields
    )
    known = {field.name for field in row.fields}
    marks = (FlinkField(_OP, _TEXT), FlinkField(_DELETED, _FLAG if flag else _TEXT))
    return FlinkType("ROW", fields=(*row.fields, *(mark for mark in marks if mark.name not in known)))


def other_message_of(writer: Schema, row: FlinkType) -> OtherMessage | None:
    """The kind of the messages of a writer's schema, if they are not rows of the table; None if they are rows."""
    fields = {field.name: field for field in writer.fields}
    other = None if {_OP, _DELETED} & fields.keys() else find_by_members(ROW_ALONE.other_by_members, fields)
    if other is None or {field.name for field in row.fields} & fields.keys() - set(other.required):
        return None
    return other


def refusal_of(writer: Schema, row: FlinkType) -> str:
    """The error of messages of a writer's schema that are not such rows; "" if they are."""
    names = {field.name for field in writer.fields}
    beside = names - {field.name for field in row.fields}
    if "op" in beside and {"before", "after"} & beside and not {_OP, _DELETED} & names:
        hint = "for messages with 'before' and 'after' set 'flattened' to false"
        return f"'{_OP}': is missing, but there is 'op': {hint}"
    other = other_message_of(writer, row)
    return "" if other is None else f"'{_OP}': is missing{other.hint()}"
