"""Reads batches of change messages. The kernel reads them by a plan of the envelope; the plan also makes the errors."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import stored_type
from kvformat.codecs._kernel import count_messages
from kvformat.codecs._kernel.changes import ChangeBatch
from kvformat.codecs._kernel.codes import AFTER, BEFORE
from kvformat.codecs._kernel.flattened import FlatBatch
from kvformat.codecs._kernel.message_metadata import MemberColumn
from kvformat.codecs._kernel.operation_rows import OperationRows
from kvformat.codecs.changes.envelope import DELETE, KINDS, ChangeSettings, Envelope, RowImage
from kvformat.codecs.changes.metadata import TEXTS, ColumnPresence, Metadata
from kvformat.codecs.changes.operations import NO_ROWS, kind_texts, operation_rows, read_rows
from kvformat.codecs.changes.other_messages import find_by_members
from kvformat.codecs.changes.upsert import KEYED_DELETION_HINT, without_before_rows
from kvformat.codecs.json.errors import JsonErrorMessages
from kvformat.codecs.json.scalars import BadValue, preview, scalar_converter
from kvformat.codecs.json.types import JsonSchema, row_of
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.contract.types import STRING, FlinkField, FlinkType, arrow_type
from kvformat.registry.java.parse import replace_lone_surrogates
from kvformat.registry.java.regex import SlowMatchError

_NEEDED_BY = {"+I": "an insert", "-U": "an update", "+U": "an update", "-D": "a deletion"}
_AFTER_ALONE = OperationRows([(KINDS.index("+U"), AFTER, False)], [])
_PAYLOAD = "payload"
"""The member of a wrapped message that has the envelope."""


class ChangeReader:
    """Reads change messages as rows of type `row` with their kinds. Metadata columns with the given keys follow.

    Raises `SchemaError` for a type that JSON can't hold.
    """

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: tuple[str, ...]) -> None:
        columns: list[tuple[str, Metadata]] = [(key, envelope.metadata[key]) for key in metadata]
        if settings.reads_presence:
            columns.insert(0, ("presence", ColumnPresence(envelope.after, row=row)))
        plan_class = FlattenedPlan if envelope.flattened else EnvelopePlan
        fields = tuple(FlinkField(key, column.type) for key, column in columns)
        self._stored = stored_type(FlinkType("ROW", fields=(*row.fields, *fields)))

        def plan_and_batch() -> tuple[EnvelopePlan, ChangeBatch]:
            plan = plan_class(row, envelope, settings, [column for _, column in columns])
            batch = plan.batch()
            batch.skip = settings.skip
            return plan, batch

        self._batch = Guarded(plan_and_batch)

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """Return one list of rows per message: null for a null message or an error, empty for a skipped message."""
        count_messages(len(messages))
        with self._batch.use() as (plan, batch):  # the columns grow in place
            image, metadata, kinds = batch.read_batch(messages)
            columns = [image.field(place) for place in range(image.type.num_fields)]
            columns += plan.metadata_columns(metadata)
            rows = pa.Array.from_buffers(self._stored, len(image), [None], children=columns)
            return DecodedBatch(batch.lists(rows), kind_texts(kinds), *batch.errors())


class PresenceReader:
    """Finds the columns that the rows after updates have, for formats with several rows in a message.

    It ignores messages of other operations, and errors: `ChangeReader` reports them.
    """

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings) -> None:
        updates = {
            operation: tuple(RowImage(image.kind, image.member) for image in rows if image.kind == "+U")
            for operation, rows in envelope.rows.items()
        }
        updated, upserting = replace(envelope, rows=updates), replace(settings, upsert=True)
        self._stored = arrow_type(ColumnPresence(envelope.after, row=row).type)
        self._batch = Guarded(lambda: PresencePlan(row, updated, upserting, []).batch())

    def read(self, messages: pa.BinaryArray) -> pa.ListArray:
        """Return a list per message, with an item for each row after an update.

        The item has a number for each column that the row has, and null for each column that it does not have.
        """
        with self._batch.use() as batch:  # the columns grow in place
            image, _, _ = batch.read_batch(messages)
            columns = [image.field(place) for place in range(image.type.num_fields)]
            return batch.lists(pa.Array.from_buffers(self._stored, len(image), [None], children=columns))


class EnvelopePlan:
    """An envelope as the kernel reads it: numbered members, and the rows that each operation gives.

    `members` begins with the members of the row before the change, the row after it, and the operation. `outer_members`
    are those of a wrapped message, and begin with the payload. The kernel calls the methods for rare messages and for
    errors. It raises the errors that methods return.
    """

    error = BadValue
    reads_ahead = True
    """Whether the kernel reads rows before it knows the operation. This is only faster; the answers are the same."""
    batch_class: type[ChangeBatch] = ChangeBatch

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: list[Metadata]) -> None:
        envelope = without_before_rows(envelope) if settings.upsert else envelope
        self._numbers = [len(column.others) + 1 for column in metadata]
        metadata = [part for column in metadata for part in (column.of_each_member() if column.others else [column])]
        self._envelope, self._metadata = envelope, metadata
        self._settings = settings
        self.array_of_one, self.rows_in_arrays = envelope.array_of_one, envelope.rows_in_arrays
        self.wrapped, self.bare_deletes = settings.wrapped, settings.upsert and settings.bare_deletes
        inside = [column.member for column in metadata if not column.beside_payload]
        filtered = [member for member, _ in settings.filters]
        first = [envelope.before, envelope.after, envelope.operation]
        self.members = list(dict.fromkeys([*first, *inside, *filtered]))
        self.outer_members = list(dict.fromkeys([_PAYLOAD, *(c.member for c in metadata if c.beside_payload)]))
        self._patterns = {self.members.index(member): pattern for member, pattern in settings.filters}
        self.filters = list(self._patterns)
        self._rows = read_rows(envelope, settings.other_messages)
        self.operations = operation_rows(envelope, settings.other_messages, upsert=settings.upsert)
        # without `over` and `upsert`, the rows before updates are read as often as the rows after them
        self.keeps_open = settings.upsert or any(row.over for rows in self._rows.values() for row in rows)
        whole = row_of({"row": row, **{f"metadata {i}": column.type for i, column in enumerate(metadata)}})
        # rows and metadata share a schema: a DECIMAL in the row changes how numbers of the metadata are read
        self._schema = JsonSchema(whole, settings.values)
        self._text = scalar_converter(STRING, self._schema.rules)
        self.row = self._schema.row(FlinkType("ROW", fields=row.fields))
        self.rows = self._schema.column(TEXTS)  # the type is used only in errors, which say ARRAY
        self.payload = self._schema.row(row_of({}))

    def batch(self) -> ChangeBatch:
        """Return a new reader of the kernel with this plan."""
        self._places: list[tuple[int, int | None]] = []
        return self.batch_class(self, self.row, self._metadata_readers(), self._schema.reader(), JsonErrorMessages())

    # --- metadata --------------------------------------------------------------------------------------

    def _metadata_readers(self) -> list[MemberColumn]:
        """The kernel's columns of metadata. The entries of one member are columns of one row."""
        readers: list[MemberColumn] = []
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
            is_outer, path = column.beside_payload, [column.member]
            if self.wrapped and not is_outer:
                path.append(_PAYLOAD)
            if is_outer:
                number = self.outer_members.index(column.member) if self.wrapped else -1
            else:
                number = self.members.index(column.member)
            is_map = column.key is not None or column.type.root == "MAP"
            readers.append(MemberColumn(reader, number, path, is_outer=is_outer, is_map=is_map))
        return readers

    def metadata_columns(self, columns: list[pa.Array]) -> list[pa.Array]:
        """Return the metadata columns in the order of the requested keys."""
        arrays = [columns[reader] if entry is None else columns[reader].field(entry) for reader, entry in self._places]
        ends = [*itertools.accumulate(self._numbers)]
        return [_first_text(arrays[end - number : end]) for end, number in zip(ends, self._numbers, strict=True)]

    # --- rare messages, and errors ---------------------------------------------------------------------

    def without_before(self, operation: OperationRows) -> OperationRows:
        """The rows of an update that lacks the old row: without rows before updates, only the row after it."""
        return _AFTER_ALONE if self._settings.upsert else operation

    def matches(self, member: int, node: Any) -> bool:
        """Whether the whole text of a filtered member matches its pattern. Raises `BadValue` if this takes too long."""
        name = self.members[member]
        text = "null" if node is None else "" if isinstance(node, dict | list) else self._text(node)
        try:
            return self._patterns[member].matches(text)
        except SlowMatchError as slow:
            reason = (
                f"matching '{name}.include' with {preview(text)} ({len(text)} characters) took longer than "
                f"{slow.seconds:g} s; write the pattern without nested repeats such as (a+)+, or with possessive "
                "ones such as (a+)++"
            )
            raise _at(BadValue(reason, ErrorCode.TOO_LARGE), name) from None

    def find_operation(self, node: Any, message: Any) -> OperationRows:
        """The rows of an operation that the kernel's lookup missed, or of a message without an operation.

        `node` is the operation as a JSON node. It is None if there is no operation; only then `message` is the message.
        Raises `BadValue` for an unknown operation.
        """
        known = ", ".join(f'"{known}"' for known in self._envelope.rows)
        if node is not None:
            text = self._text(node)
            if text in self.operations:
                return self.operations[text]
            self._fail(
                f"unknown value {preview(text)}; it must be one of {known}, in this spelling{self._hint(text)}",
                self._envelope.operation,
                ErrorCode.UNKNOWN_OPERATION,
            )
        members = message[_PAYLOAD] if self.wrapped else message
        other = find_by_members(self._envelope.other_by_members, members)
        if other is not None and other.is_skipped(self._settings.other_messages):
            return NO_ROWS
        hint = "" if other is None else other.hint()
        if not self.wrapped and self._envelope.wrappable and _PAYLOAD in message:
            hint = ". The message has a payload: if its connector adds schemas, set 'schema-include' to true"
        elif other is None and members and not {self._envelope.before, self._envelope.after} & members.keys():
            hint = self._envelope.no_operation_hint
        self._fail(f"is missing or null; it must be one of {known}{hint}", self._envelope.operation)

    def _hint(self, operation: str) -> str:
        """The end of an error: what to do about a message without rows. Empty if the operation is not known."""
        if operation in self._envelope.extra_rows:
            return ". The message has a row that Flink does not read: set 'other-messages' to 'skip' to read it"
        other = self._envelope.other_by_operation.get(operation)
        return "" if other is None else other.hint()

    def no_rows(self, member: int, index: int, operation: Any) -> BadValue:
        """The error of a member without the row that an operation needs. `index` is -1 if there is no array of rows."""
        name = self.members[member]
        rows = self._rows[self._text(operation)]
        is_deletion = rows[0].kind == KINDS[DELETE]
        hint = self._envelope.no_before_hint if member == BEFORE else KEYED_DELETION_HINT if is_deletion else ""
        path = name if index < 0 else f"{name}[{index}]"
        return self._bad(f"is missing or null, but {_NEEDED_BY[rows[0].kind]} needs it{hint}", path)

    def fewer_rows(self, before: int, after: int) -> BadValue:
        """The error of an update that has fewer rows before than after the change."""
        old, new = self._envelope.before, self._envelope.after
        return self._bad(f"has {before} rows, but '{new}' has {after}: an UPDATE needs an old row for each", old)

    def is_wanted_without(self, member: int) -> bool:
        """Return True if a message without a filtered member is read. Otherwise raise its error."""
        if self._envelope.filters_pass_missing:
            return True
        name = self.members[member]
        raise _at(BadValue(f"is missing, but '{name}.include' needs it", ErrorCode.MISSING_FIELD), name)

    @staticmethod
    def no_payload() -> BadValue:
        """The error of a wrapped message without a payload."""
        reason = (
            'is missing or null; with \'schema-include\' a message is {"schema": ..., "payload": {...}}. '
            "For messages without schema and payload set 'schema-include' to false"
        )
        return _at(BadValue(reason, ErrorCode.MISSING_FIELD), _PAYLOAD)

    @staticmethod
    def not_an_object(node: Any) -> BadValue:
        """The error of a message that is not a JSON object."""
        return BadValue(f"expected a JSON object, found {'nothing or null' if node is None else preview(node)}")

    @staticmethod
    def not_one_object(count: int) -> BadValue:
        """The error of a message that is an array of `count` messages, if `count` is not 1."""
        return BadValue(f"expected one JSON object, found an array of {count}: send one per message")

    def _fail(self, reason: str, member: str, code: ErrorCode = ErrorCode.MISSING_FIELD) -> NoReturn:
        raise self._bad(reason, member, code)

    def _bad(self, reason: str, member: str, code: ErrorCode = ErrorCode.MISSING_FIELD) -> BadValue:
        return _at(BadValue(reason, code), f"{_PAYLOAD}.{member}" if self.wrapped else member)


class PresencePlan(EnvelopePlan):
    """The plan that finds the columns of each row, and does not read their values."""

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: list[Metadata]) -> None:
        super().__init__(row, envelope, settings, metadata)
        self.row = ColumnPresence(envelope.after, row=row).column(self._schema)


_NULL_ROW = (
    ". If it is a deletion, the record's key says which row was deleted: read it by the connector 'upsert-kafka', or "
    "by 'key.format' with the PRIMARY KEY in 'key.fields'"
)
"""The end of an error: what to do if a flattened message is null."""


class FlattenedPlan(EnvelopePlan):
    """The plan for flattened messages: each message is a row.

    A message without an operation is the current row. A message with one of the `watched` members may not be a row. It
    is read as a row only if it has another column of the table. `upserted` gives the row of an insertion or update,
    `deleted` that of a deletion.
    """

    batch_class = FlatBatch
    reads_ahead = False

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: list[Metadata]) -> None:
        super().__init__(row, envelope, settings, metadata)
        names = ["op", _PAYLOAD, *(other.required[0] for other in envelope.other_by_members)]
        self.members = list(dict.fromkeys([*self.members, *names]))
        self.watched = [self.members.index(name) for name in names]
        self._columns = {field.name for field in row.fields}
        kinds = {rows[0].kind: self.operations[text] for text, rows in envelope.rows.items()}
        self.upserted, self.deleted = kinds["+U"], kinds["-D"]

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

    def find_operation(self, node: Any, message: Any) -> OperationRows:
        if node is not None:
            return super().find_operation(node, message)
        members = message[_PAYLOAD] if self.wrapped else message
        others = members.keys() - self._columns
        if "op" in others and {"before", "after"} & others:
            hint = "for messages with 'before' and 'after' set 'flattened' to false"
            self._fail(f"is missing, but there is 'op': {hint}", self.members[2])
        if not self.wrapped and {"schema", _PAYLOAD} <= others:
            self._fail("is missing, but there is a payload: set 'schema-include' to true", self.members[2])
        other = find_by_members(self._envelope.other_by_members, members)
        if other is None or (self._columns & members.keys()).difference(other.required):
            return self.upserted
        return super().find_operation(node, message)


def _first_text(columns: list[pa.Array]) -> pa.Array:
    """Return the first text of each row that is not empty, or else that of the first column."""
    if len(columns) == 1:
        return columns[0]
    texts = [pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column) for column in columns]
    return pc.coalesce(*texts, columns[0])


def _at(error: BadValue, path: str) -> BadValue:
    error.steps.append(replace_lone_surrogates(path))
    return error
