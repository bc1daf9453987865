"""Reads Debezium's changes in Avro, as envelopes or as rows without one, by the tables of `envelopes`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kvformat.codecs._arrays import Mask, validity
from kvformat.codecs._kernel import count_messages
from kvformat.codecs._kernel.avro_changes import ChangeArrays, Envelopes, FlatChanges, Image
from kvformat.codecs._kernel.codes import AFTER, BEFORE
from kvformat.codecs._kernel.memory import Bytes
from kvformat.codecs.avro.read import BatchColumns, ColumnNode, Decoded, make_columns
from kvformat.codecs.avro.resolve import Action
from kvformat.codecs.avro.schema import Schema
from kvformat.codecs.avro.table import read_rows, with_reasons
from kvformat.codecs.changes.envelope import Envelope
from kvformat.codecs.changes.operations import kind_texts, operation_rows
from kvformat.codecs.changes.other_messages import ERROR
from kvformat.codecs.changes.upsert import without_before_rows
from kvformat.codecs.debezium.envelopes import NEEDED_BY
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.java.charsets import java_text


class ChangeColumns(BatchColumns):
    """The columns of changes. The values of a batch are the image, the changes, and what `explain` returns."""

    def read(
        self, messages: pa.BinaryArray, plans: Sequence[Action], which: Any, start: int, *, with_nulls: bool
    ) -> Decoded:
        read = super().read(messages, plans, which, start, with_nulls=with_nulls)
        changes: Any = self.root
        return Decoded((read.values, changes.arrays(), changes.explain()), read.errors, read.codes)


class AvroChangeSettings(NamedTuple):
    """How changes are read. The fields are those of `ChangeSettings`."""

    other_messages: str
    upsert: bool
    bare_deletes: bool


class AvroChangeReader:
    """Reads changes to rows of a table.

    row: the type of a row in the messages. It has fields after the table's `columns` without an envelope.
    schema: the reader's schema, of the envelope or of the row. refusal: the error of all messages, or "".
    """

    def __init__(
        self,
        row: FlinkType,
        columns: int,
        schema: Schema,
        envelope: Envelope,
        settings: AvroChangeSettings,
        refusal: str,
    ) -> None:
        self.schema = schema
        self._row, self._columns, self._settings, self._refusal = row, columns, settings, refusal
        self._envelope = without_before_rows(envelope) if settings.upsert else envelope
        self._operations = operation_rows(self._envelope, settings.other_messages, upsert=settings.upsert)
        self._batch = Guarded(lambda: ChangeColumns(self._root))

    def _root(self) -> ColumnNode:
        kind, changes = self.schema.arrow_type, self._operations
        root: Any
        if self._envelope.flattened:
            image: Any = make_columns(kind)
            op, deleted = (image.field(name).column for name in (self._envelope.operation, self._envelope.before))
            root = FlatChanges(image.column, op, deleted, changes, upsert="u", delete="d")
            return ColumnNode(kind, root, image.children)
        image = make_columns(kind.field(0).type)
        text: Any = make_columns(pa.string())
        members = Bytes(64)
        columns = [child.column for child in image.children]
        before, after = (Image(image.column, columns, member, members) for member in (BEFORE, AFTER))
        root = Envelopes(before, after, text.column, changes, bare_deletes=self._settings.bare_deletes)
        images = (ColumnNode(image.kind, column, image.children) for column in (before, after))
        return ColumnNode(kind, root, (*images, text))

    def read(
        self, messages: pa.BinaryArray, plans: Sequence[Action], reader: Schema, which: Any, start: int
    ) -> Decoded:
        """Read the datum of each message. Arguments are those of `read_batch`, the result is for `rows_of`."""
        count_messages(len(messages))
        with self._batch.use() as columns:  # the columns grow in place
            return columns.read(messages, plans, which, start, with_nulls=True)

    def rows_of(
        self, read: Decoded, present: Mask, filled: Mask, *, has_hint: Callable[[int], bool] = lambda message: False
    ) -> DecodedBatch:
        """Return one list of rows per message: null for a null message or an error, empty for a skipped message.

        `present` is a mask of the messages that are not null, `filled` of those that are read. `has_hint` tells whether
        the errors of a message get another hint than that about a missing row.
        """
        image, changes, faults = read.values
        count = len(present)
        rows, wrong = read_rows(image, self._row, micros_as_millis=False)
        reasons = self._value_errors(changes, wrong)
        if self._refusal:
            refused = Reason(ErrorCode.MISSING_FIELD, self._refusal)
            reasons = dict.fromkeys(np.flatnonzero(filled).tolist(), refused) | reasons
        failed = np.array(list(reasons), np.int64)  # these messages may have rows
        known = filled if read.errors is None else filled & np.asarray(read.errors.is_null())
        what = "a row" if self._envelope.flattened else "a record of before, after and op"
        for message in changes.nulls[known[changes.nulls]].tolist():
            reasons.setdefault(message, Reason(ErrorCode.MISSING_FIELD, f"the message is null in place of {what}"))
        for message, (op, *has) in zip(changes.faults, faults, strict=True):
            hint = "" if has_hint(message) else self._envelope.no_before_hint
            reasons.setdefault(message, self._fault(op, dict(zip(("before", "after"), has, strict=True)), hint))
        errors, codes = with_reasons(read, count, reasons) if reasons else (read.errors, read.codes)
        good = present if errors is None else present & np.asarray(errors.is_null())
        columns, kinds, offsets = rows.flatten()[: self._columns], changes.kinds, changes.offsets
        kind = pa.struct(list(rows.type)[: self._columns])
        rows = pa.Array.from_buffers(kind, len(rows), [None], children=columns)
        if changes.places is not None:
            rows = rows.take(pa.Array.from_buffers(pa.int64(), len(kinds), [None, changes.places]))
        if len(failed):
            counts: Any = np.diff(np.frombuffer(offsets, np.int32))
            fine = np.ones(count, np.bool_)
            fine[failed] = False
            kept = np.repeat(fine, counts)
            rows, kinds = rows.filter(pa.array(kept)), kinds[kept]
            offsets = pa.py_buffer(np.concatenate(([0], np.cumsum(counts * fine))).astype(np.int32))
        lists = pa.list_(pa.field("item", kind))
        list_array = pa.Array.from_buffers(lists, count, [validity(good), offsets], children=[rows])
        return DecodedBatch(list_array, kind_texts(kinds), errors, codes)

    def _value_errors(self, changes: ChangeArrays, wrong: dict[int, Reason]) -> dict[int, Reason]:
        """Return the errors of rows in the image by their message. That of the row before the change comes first."""
        if self._envelope.flattened or not wrong:
            return {int(np.searchsorted(changes.ends, row, "right")) - 1: reason for row, reason in wrong.items()}
        reasons: dict[int, Reason] = {}
        for row in sorted(wrong, key=lambda row: changes.members[row]):
            message = int(np.searchsorted(changes.ends, row, "right")) - 1
            name = self._envelope.before if changes.members[row] == BEFORE else self._envelope.after
            reason = wrong[row]
            inner = reason.text.replace("field '", f"field '{name}.", 1)
            reasons.setdefault(message, replace(reason, text=inner))
        return reasons

    def _fault(self, op: Any, has: dict[str, bool], no_before_hint: str) -> Reason:
        """Return the error of a message that is Avro, but not a change. `has` says which rows it has."""
        name, rows = self._envelope.operation, self._envelope.rows
        known = ", ".join(f'"{known}"' for known in rows)
        if op is None:
            skip = ". Heartbeats and transactions do not have it: set 'other-messages' to 'skip' to skip them"
            hint = skip if self._settings.other_messages == ERROR else ""
            return Reason(
                ErrorCode.MISSING_FIELD,
                f"'{name}': is missing or null; it must be one of {known}{hint}. "
                "If the messages are rows without an envelope (the transform ExtractNewRecordState), set 'flattened' "
                "to true, or read them as plain rows by format avro-confluent",
            )
        op = java_text(op) if isinstance(op, bytes) else op
        if op not in rows:
            other = self._envelope.other_by_operation.get(op)
            return Reason(
                ErrorCode.UNKNOWN_OPERATION,
                f"'{name}': unknown value {op!r:.40}; it must be one of {known}, in this spelling"
                f"{'' if other is None else other.hint()}",
            )
        member = next(row.member for row in rows[op] if not has[row.member])
        hint = no_before_hint if member == self._envelope.before else ""
        return Reason(ErrorCode.MISSING_FIELD, f"'{member}': is missing or null, but {NEEDED_BY[op]} needs it{hint}")
