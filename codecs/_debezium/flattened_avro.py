"""Debezium's Avro messages that are rows alone. Fields beside the columns say what was done to the row.

    {"id": 1, "name": "pen", "__op": "u", "__deleted": "false"}

`__deleted` is a text, or a boolean from MongoDB. The writer's schema alone tells messages that are not rows.
Sources: Debezium's page on the transform ExtractNewRecordState, its `AbstractExtractRecordStrategy` (`__deleted`), and
`ExtractNewDocumentState` of MongoDB.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._avro import Schema
from kvformat.codecs._changes.envelope import DELETE, INSERT, KINDS, UPDATE_AFTER
from kvformat.codecs._changes.other_messages import OtherMessage, find_by_members
from kvformat.codecs._columnar import Mask, validity
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.types import MAX_LENGTH, FlinkField, FlinkType

_OP, _DELETED = "__op", "__deleted"
_KIND_OF = {"c": INSERT, "r": INSERT, "u": UPDATE_AFTER, "d": DELETE}
_TEXT, _FLAG = FlinkType("VARCHAR", length=MAX_LENGTH), FlinkType("BOOLEAN")


def add_marks(row: FlinkType, writer: Schema | None) -> FlinkType:
    """The row type with the fields `__op` and `__deleted`, unless they are columns of the table already."""
    flag = writer is not None and any(
        f.name == _DELETED and (f.schema.optional or f.schema).type == "boolean" for f in writer.fields
    )
    known = {field.name for field in row.fields}
    marks = (FlinkField(_OP, _TEXT), FlinkField(_DELETED, _FLAG if flag else _TEXT))
    return FlinkType("ROW", fields=(*row.fields, *(mark for mark in marks if mark.name not in known)))


def other_message_of(writer: Schema, row: FlinkType, others: tuple[OtherMessage, ...]) -> OtherMessage | None:
    """The kind of the messages of a writer's schema, if they are not rows of the table; None if they are rows."""
    fields = {field.name: field for field in writer.fields}
    other = None if {_OP, _DELETED} & fields.keys() else find_by_members(others, fields)
    if other is None or {field.name for field in row.fields} & fields.keys() - set(other.required):
        return None
    return other


def refusal_of(writer: Schema, row: FlinkType, others: tuple[OtherMessage, ...]) -> str:
    """The error of messages of a writer's schema that are not rows alone; "" if they are."""
    names = {field.name for field in writer.fields}
    beside = names - {field.name for field in row.fields}
    if "op" in beside and {"before", "after"} & beside and not {_OP, _DELETED} & names:
        hint = "for messages with 'before' and 'after' set 'flattened' to false"
        return f"'{_OP}': is missing, but there is 'op': {hint}"
    other = other_message_of(writer, row, others)
    return "" if other is None else f"'{_OP}': is missing{other.hint()}"


def decode_flattened(
    values: pa.StructArray,
    errors: pa.Array | None,
    columns: int,
    present: Mask,
    filled: Mask,
    others: Mapping[str, OtherMessage],
    setting: str,
) -> DecodedBatch:
    """Decode rows with marks to changes of an upsert table.

    `values` has the rows; their first `columns` fields are those of the table. `errors` has the errors so far.
    `present` is a mask of the messages that are not null, `filled` of those that are not empty either. `others` are
    messages that are not rows, by operation. `setting` is the value of `other-messages`.
    """
    read = filled if errors is None else filled & np.asarray(errors.is_null())
    op = pc.struct_field(values, _OP).cast(pa.string())
    deleted = np.asarray(pc.fill_null(pc.equal(pc.struct_field(values, _DELETED).cast(pa.string()), "true"), False))
    which = np.asarray(pc.fill_null(pc.index_in(op, pa.array(list(_KIND_OF))), -1))
    kinds = np.where(which < 0, UPDATE_AFTER, np.array(list(_KIND_OF.values()))[which])
    kinds[deleted] = DELETE
    known = np.asarray(op.is_null()) | (which >= 0) | deleted
    skippable = [text for text, other in others.items() if other.is_skipped(setting)]
    skipped = ~known & np.asarray(pc.is_in(op, pa.array(skippable, pa.string())))
    has_row = np.asarray(values.is_valid())
    bad = np.flatnonzero(read & ~(has_row & (known | skipped)))
    if len(bad):
        texts = [None] * len(read) if errors is None else errors.to_pylist()
        for place in bad.tolist():
            texts[place] = _fault(op[place].as_py() if has_row[place] else None, others)
        errors = pa.array(texts, pa.string())
    good = read & has_row & known
    offsets = np.zeros(len(good) + 1, np.int32)
    np.cumsum(good, out=offsets[1:])
    chosen = values.filter(pa.array(good))
    fields = list(values.type)[:columns]
    rows = pa.Array.from_buffers(pa.struct(fields), len(chosen), [None], children=chosen.flatten()[:columns])
    valid = validity(present if errors is None else present & np.asarray(errors.is_null()))
    lists = pa.Array.from_buffers(
        pa.list_(pa.field("item", rows.type)), len(good), [valid, pa.py_buffer(offsets)], children=[rows]
    )
    return DecodedBatch(lists, pa.array(KINDS).take(pa.array(kinds[good])), errors)


def _fault(op: str | None, others: Mapping[str, OtherMessage]) -> str:
    if op is None:
        return ErrorCode.MISSING_FIELD.marked("the message is null in place of a row")
    known = ", ".join(f'"{known}"' for known in _KIND_OF)
    hint = others[op].hint() if op in others else ""
    return ErrorCode.UNKNOWN_OPERATION.marked(
        f"'{_OP}': unknown value {op!r:.40}; it must be one of {known}, in this spelling{hint}"
    )
