"""Batches of change messages to rows with kinds: the envelope of a format as the plan of the kernel, and its errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from kvformat.codecs._changes.envelope import KINDS, ChangeSettings, Envelope, RowImage
from kvformat.codecs._changes.metadata import TEXT, TEXTS, ColumnPresence, Metadata
from kvformat.codecs._changes.other_messages import ERROR, find_by_members
from kvformat.codecs._changes.upsert import without_before_rows
from kvformat.codecs._java.parse import clean
from kvformat.codecs._java.regex import JavaPattern, SlowMatchError
from kvformat.codecs._json.scalars import BadValue, scalar_converter, shown
from kvformat.codecs._json.schema import JsonSchema, row_of
from kvformat.codecs._json.words import JsonWords
from kvformat.codecs._kernel import note
from kvformat.codecs._kernel.changes import ChangeBatch, Program
from kvformat.codecs._kernel.codes import AFTER, BEFORE
from kvformat.codecs._kernel.columns import Column
from kvformat.codecs._kernel.flattened import FlatBatch
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.contract.format import DecodedBatch
from kvformat.registry.contract.types import FlinkField, FlinkType, arrow_type, nullable

_NEEDED_BY = {"+I": "an insert", "-U": "an update", "+U": "an update", "-D": "a deletion"}
_KINDS = np.frombuffer("".join(KINDS).encode(), "<u2")
_NOTHING = Program([], [])
"""Gives no rows, whatever else is in the message."""


class ChangeReader:
    """Reads change messages as rows of one type with their kinds, and the metadata asked for.

    Raises `SchemaError` for types that JSON has no place for.
    """

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: tuple[str, ...]) -> None:
        described: list[tuple[str, Metadata]] = [(key, envelope.metadata[key]) for key in metadata]
        if settings.reads_presence:
            described.insert(0, ("presence", ColumnPresence(envelope.after, row=row)))
        plan_class = FlattenedPlan if envelope.flattened else EnvelopePlan
        columns = tuple(FlinkField(key, column.type) for key, column in described)
        self._stored = arrow_type(nullable(FlinkType("ROW", fields=(*row.fields, *columns))))

        def made() -> tuple[EnvelopePlan, ChangeBatch]:
            plan = plan_class(row, envelope, settings, [column for _, column in described])
            return plan, plan.batch()

        self._batch = Guarded(made)

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """One list of rows per message: null for a null message or an error, empty for a skipped one."""
        note(len(messages))
        with self._batch.use() as (plan, batch):  # the columns grow in place
            image, described, kinds = batch.read(messages)
            columns = [image.field(place) for place in range(image.type.num_fields)]
            columns += plan.metadata_columns(described)
            rows = pa.Array.from_buffers(self._stored, len(image), [None], children=columns)
            return DecodedBatch(batch.lists(rows), _texts_of(kinds), *batch.errors())


class PresenceReader:
    """Reads which columns the rows after updates have, where messages have several rows: numbers, null for the others.

    Messages of other kinds give nothing, and errors are those of who reads the rows.
    """

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings) -> None:
        updates = {
            operation: tuple(RowImage(found.kind, found.member) for found in rows if found.kind == "+U")
            for operation, rows in envelope.rows.items()
        }
        updated, upserting = replace(envelope, rows=updates), replace(settings, upsert=True)
        self._stored = arrow_type(ColumnPresence(envelope.after, row=row).type)
        self._batch = Guarded(lambda: PresencePlan(row, updated, upserting, []).batch())

    def read(self, messages: pa.BinaryArray) -> pa.ListArray:
        """A list of such rows per message."""
        with self._batch.use() as batch:  # the columns grow in place
            image, _, _ = batch.read(messages)
            columns = [image.field(place) for place in range(image.type.num_fields)]
            return batch.lists(pa.Array.from_buffers(self._stored, len(image), [None], children=columns))


def _texts_of(kinds: Any) -> pa.StringArray:
    """The texts of kinds; all have two characters."""
    offsets = np.arange(0, 2 * len(kinds) + 1, 2, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(kinds), [None, pa.py_buffer(offsets), pa.py_buffer(_KINDS.take(kinds))]
    )


class EnvelopePlan:
    """An envelope as the kernel reads it: names of members by number, and what each operation gives.

    `members` begins with those before and after the change and the operation, `outer_members` (of a wrapped message)
    with the payload. Its methods make the errors.
    """

    error = BadValue
    batch_class: type[ChangeBatch] = ChangeBatch

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: list[Metadata]) -> None:
        envelope = without_before_rows(envelope) if settings.upsert else envelope
        self._envelope, self._metadata = envelope, metadata
        self._settings = settings
        self.array, self.many, self.wrapped = envelope.array_of_one, envelope.rows_in_arrays, settings.wrapped
        inside = [column.member for column in metadata if not column.beside_payload]
        filtered = [member for member, _ in settings.filters]
        first = [envelope.before, envelope.after, envelope.operation]
        self.members = list(dict.fromkeys([*first, *inside, *filtered]))
        self.outer_members = list(dict.fromkeys(["payload", *(c.member for c in metadata if c.beside_payload)]))
        self.upsert, self.bare_deletes = settings.upsert, settings.upsert and settings.bare_deletes
        self.filters = [(self.members.index(member), pattern, member) for member, pattern in settings.filters]
        self._rows = {**envelope.rows, **({} if settings.other_messages == ERROR else envelope.extra_rows)}
        self.programs = {text: self._program(rows) for text, rows in self._rows.items()}
        self.programs |= {
            text: _NOTHING
            for text, other in envelope.other_by_operation.items()
            if other.is_skipped(settings.other_messages)
        }
        everything = row_of({"row": row, **{f"metadata {i}": column.type for i, column in enumerate(metadata)}})
        # a DECIMAL anywhere in the row counts for the metadata, too
        self._schema = JsonSchema(everything, settings.values)
        self._text = scalar_converter(TEXT, self._schema.rules)
        self.row = self._schema.row(FlinkType("ROW", fields=row.fields))
        self.rows = self._schema.column(TEXTS)  # an error says only that it is an ARRAY
        self.payload = self._schema.row(row_of({}))

    def batch(self) -> ChangeBatch:
        """The kernel's reader of this plan."""
        self._places: list[tuple[int, int | None]] = []
        return self.batch_class(self, self.row, self._metadata_readers(), self._schema.reader(), JsonWords())

    def _program(self, rows: tuple[RowImage, ...]) -> Program:
        numbers = {self._envelope.before: BEFORE, self._envelope.after: AFTER}
        found = [
            (KINDS.index(row.kind), numbers[row.member], -1 if row.over is None else numbers[row.over]) for row in rows
        ]
        used = {number for _, *members in found for number in members}
        looked_at = (AFTER,) if self._settings.upsert else (BEFORE, AFTER)
        return Program(found, [number for number in looked_at if number not in used])

    # --- metadata --------------------------------------------------------------------------------------

    def _metadata_readers(self) -> list[tuple[Column, int, bool, bool]]:
        """Columns with the number of their member, whether it is outside, whether it is read as a map.

        All entries of a member are columns of one row.
        """
        readers: list[tuple[Column, int, bool, bool]] = []
        entries: dict[str, list[Metadata]] = {}
        for column in self._metadata:
            if column.key is not None:
                entries.setdefault(column.member, []).append(column)
        rows: dict[str, int] = {}
        for column in self._metadata:
            if column.key is None:
                self._places.append((len(readers), None))
                reader = column.column(self._schema)
            else:
                of_member = entries[column.member]
                self._places.append((rows.setdefault(column.member, len(readers)), of_member.index(column)))
                if rows[column.member] < len(readers):
                    continue
                types = {str(entry.key): entry.type for entry in of_member}
                reader = self._schema.row_of_columns(row_of(types), [entry.column(self._schema) for entry in of_member])
            readers.append((reader, *self._member(column), column.key is not None or column.type.root == "MAP"))
        return readers

    def _member(self, column: Metadata) -> tuple[int, bool]:
        if not column.beside_payload:
            return self.members.index(column.member), False
        return (self.outer_members.index(column.member) if self.wrapped else -1), True

    def metadata_columns(self, described: list[pa.Array]) -> list[pa.Array]:
        """The columns in the order in which they were asked for."""
        return [
            described[reader] if entry is None else described[reader].field(entry) for reader, entry in self._places
        ]

    # --- errors, and what is rare ----------------------------------------------------------------------

    def matches(self, pattern: JavaPattern, member: str, node: Any) -> bool:
        """Whether the text of a member matches a filter as a whole."""
        text = "null" if node is None else "" if isinstance(node, dict | list) else self._text(node)
        try:
            return pattern.matches(text)
        except SlowMatchError as slow:
            reason = (
                f"whether '{member}.include' matches {shown(text)} ({len(text)} characters) was not known after "
                f"{slow.seconds:g} s; write the pattern without repeats in repeats, such as (a+)+, or with possessive "
                "ones, such as (a+)++"
            )
            raise _at(BadValue(reason, ErrorCode.TOO_LARGE), member) from None

    def program(self, node: Any, message: Any) -> Program:
        """What an operation gives that is not written as usual, or a message without one, which is then given."""
        known = ", ".join(f'"{known}"' for known in self._envelope.rows)
        if node is not None:
            text = self._text(node)
            if text in self.programs:
                return self.programs[text]
            self._fail(
                f"unknown value {shown(text)}; known are {known}, in this spelling{self._remedy(text)}",
                self._envelope.operation,
                ErrorCode.UNKNOWN_OPERATION,
            )
        members = message["payload"] if self.wrapped else message
        other = find_by_members(self._envelope.other_by_members, members)
        if other is not None and other.is_skipped(self._settings.other_messages):
            return _NOTHING
        hint = "" if other is None else other.hint()
        if not self.wrapped and self._envelope.wrappable and "payload" in message:
            hint = ". The message has a payload: if its connector adds schemas, set 'schema-include' to true"
        elif other is None and members and not {self._envelope.before, self._envelope.after} & members.keys():
            hint = self._envelope.no_operation_hint
        self._fail(f"is missing or null; it must be one of {known}{hint}", self._envelope.operation)

    def _remedy(self, operation: str) -> str:
        """What to do about a message of another operation than those of rows."""
        if operation in self._envelope.extra_rows:
            return ". The message has a row all the same: set 'other-messages' to 'skip' to read it"
        other = self._envelope.other_by_operation.get(operation)
        return "" if other is None else other.hint()

    def no_rows(self, member: int, index: int, operation: Any) -> BadValue:
        """The error of a member without rows, or without one at an index, that an operation needs."""
        name = self.members[member]
        rows = self._rows[self._text(operation)]
        remedy = self._envelope.no_before_hint if member == BEFORE else ""
        path = name if index < 0 else f"{name}[{index}]"
        return self._bad(f"is missing or null, but {_NEEDED_BY[rows[0].kind]} needs it{remedy}", path)

    def fewer_rows(self, before: int, after: int) -> BadValue:
        """The error of an update with too few old rows."""
        old, new = self._envelope.before, self._envelope.after
        return self._bad(f"has {before} rows, but '{new}' has {after}: an UPDATE needs an old row for each", old)

    def is_wanted_without(self, member: str) -> bool:
        """Whether a message without a member that a filter asks for is read; raises its error where it is not."""
        if self._envelope.filters_pass_missing:
            return True
        raise _at(BadValue(f"is missing, but '{member}.include' asks for it", ErrorCode.MISSING_FIELD), member)

    @staticmethod
    def no_payload() -> BadValue:
        """The error of a message without a payload."""
        reason = (
            'is missing or null; with \'schema-include\' a message is {"schema": ..., "payload": {...}}. '
            "For messages without this wrapping set 'schema-include' to false"
        )
        return _at(BadValue(reason, ErrorCode.MISSING_FIELD), "payload")

    @staticmethod
    def not_an_object(node: Any) -> BadValue:
        """The error of a message that is another value."""
        return BadValue(f"expected a JSON object, found {'nothing or null' if node is None else shown(node)}")

    @staticmethod
    def not_one_object(count: int) -> BadValue:
        """The error of a message that is an array of several."""
        return BadValue(f"expected one JSON object, found an array of {count}: send one per message")

    def _fail(self, reason: str, member: str, code: ErrorCode = ErrorCode.MISSING_FIELD) -> NoReturn:
        raise self._bad(reason, member, code)

    def _bad(self, reason: str, member: str, code: ErrorCode = ErrorCode.MISSING_FIELD) -> BadValue:
        return _at(BadValue(reason, code), f"payload.{member}" if self.wrapped else member)


class PresencePlan(EnvelopePlan):
    """An envelope of whose rows nothing is read but which columns they have."""

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: list[Metadata]) -> None:
        super().__init__(row, envelope, settings, metadata)
        self.row = ColumnPresence(envelope.after, row=row).column(self._schema)


_NULL_ROW = (
    ". If it is a deletion, the record's key says of which row: read it by the connector 'upsert-kafka', or by "
    "'key.format' with the PRIMARY KEY in 'key.fields'"
)
"""What to do about a null in place of a row alone."""


class FlattenedPlan(EnvelopePlan):
    """An envelope without rows before and after the change, for the row is the message.

    A message without an operation is a row as it is now. `watched` are the members of what may be none: it is a row
    all the same if it has another column of the table.
    """

    batch_class = FlatBatch

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: list[Metadata]) -> None:
        super().__init__(row, envelope, settings, metadata)
        names = ["op", "payload", *(other.required[0] for other in envelope.other_by_members)]
        self.members = list(dict.fromkeys([*self.members, *names]))
        self.watched = [self.members.index(name) for name in names]
        self._columns = {field.name for field in row.fields}
        kinds = {rows[0].kind: self.programs[text] for text, rows in envelope.rows.items()}
        self.upserted, self.deleted = kinds["+U"], kinds["-D"]

    def _program(self, rows: tuple[RowImage, ...]) -> Program:
        return Program([(KINDS.index(row.kind), AFTER, -1) for row in rows], [])

    @staticmethod
    def not_an_object(node: Any) -> BadValue:
        error = EnvelopePlan.not_an_object(node)
        if node is None:
            error.reason += _NULL_ROW
        return error

    @staticmethod
    def no_payload() -> BadValue:
        error = EnvelopePlan.no_payload()
        error.reason += _NULL_ROW
        return error

    def program(self, node: Any, message: Any) -> Program:
        if node is not None:
            return super().program(node, message)
        members = message["payload"] if self.wrapped else message
        others = members.keys() - self._columns
        if "op" in others and {"before", "after"} & others:
            self._fail("is missing, but there is 'op': for whole changes set 'flattened' to false", self.members[2])
        if not self.wrapped and {"schema", "payload"} <= others:
            self._fail("is missing, but there is a payload: set 'schema-include' to true", self.members[2])
        other = find_by_members(self._envelope.other_by_members, members)
        if other is None or (self._columns & members.keys()).difference(other.required):
            return self.upserted
        return super().program(node, message)


def _at(error: BadValue, path: str) -> BadValue:
    error.steps.append(clean(path))
    return error
