"""Looks at change data in JSON: Debezium, Canal, Maxwell and GoldenGate.

The members of the envelope name the table. The rows before and after a change contribute columns, by their values or by
types that the message declares. Messages that do not change a row are skipped, whatever `other-messages` says;
those that empty their table are reported as changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa

from kvformat.codecs._json_documents import JsonDocuments, without_array
from kvformat.codecs._kernel import COMPILED, count_messages
from kvformat.codecs._kernel.look_changes import EnvelopeLookBatch
from kvformat.codecs._kernel.tree import Node
from kvformat.codecs.changes.envelope import Envelope
from kvformat.codecs.changes.metadata import TEXTS
from kvformat.codecs.changes.other_messages import OtherMessage, find_by_members
from kvformat.codecs.discovery.column_types import is_name, is_text_name
from kvformat.codecs.discovery.deletions import MARK, DeletionTables
from kvformat.codecs.discovery.findings import Contribution, Findings, TableFindings
from kvformat.codecs.json.discover import AS_STRINGS
from kvformat.codecs.json.discover_row import Row, RowRules
from kvformat.codecs.json.known_tables import prepared_table
from kvformat.codecs.json.settings import ReadSettings
from kvformat.codecs.json.value_types import ValueRules
from kvformat.registry.contract.error_codes import Reason
from kvformat.registry.contract.look import Looked, LookRequest, TableName
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.java.regex import SlowMatchError

if TYPE_CHECKING:
    from kvformat.codecs.changes.format import JsonChangeFormat

Object = dict[str, Node]
Declared = Mapping[str, FlinkType]
_LONGEST_OPERATION = 8  # bytes that the kernel compares
_MOST_PARTS = 3  # of a name of a table


class NotLookedAtError(ValueError):
    """A message lacks what its columns need."""

    def __init__(self, error: Reason) -> None:
        super().__init__(error.text)
        self.error = error


DeclaredBy = Callable[[Object, Object], Declared | None]


def no_declared(message: Object, envelope: Object) -> Declared | None:
    """Return no declared types: the values say them."""
    return None


@dataclass(frozen=True)
class KernelShape:
    """How the kernel finds the table of a message. Its parts are members of `source`, or of the envelope.

    A part that is missing or null is left out if `optional`. `declared` is the member with the types of the columns.
    `others` are other usual members of the envelope: they are skipped faster if their names are known.
    """

    parts: tuple[str, ...]
    source: str = ""
    optional: bool = False
    declared: str = ""
    others: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ChangeLayout:
    """How a format's messages name their table and declare types.

    `table` returns the name of the table of an envelope and the topic of its record, None if it can't be told.
    `declared` returns the types that a message declares for its columns, or None. It raises `NotLookedAtError`.
    `drops` are the operations after which a table is gone; others that empty a table truncate it. `wrapped` says
    whether messages have a schema and a payload; None if each message tells. `hidden` are members that are not columns.
    `trusted` is that of `RowRules`. `ddl` is the member that is true for statements. `placeholder` is a text in place
    of a value that did not change. `shape` is None if the kernel can't look at such messages.
    `deletions` finds the tables of records without a value, if they delete the rows of their keys.
    `other_members` are those of messages that do not change a row: a row without an envelope has another one.
    `no_table_advice` is the end of the error of a message that does not name its table.
    """

    table: Callable[[Object, str], TableName | None]
    values: ValueRules
    declared: DeclaredBy = no_declared
    drops: frozenset[str] = frozenset()
    wrapped: bool | None = False
    hidden: frozenset[str] = frozenset()
    ddl: str = ""
    placeholder: str | None = None
    trusted: bool = False
    shape: KernelShape | None = None
    deletions: DeletionTables | None = None
    other_members: frozenset[str] = frozenset()
    no_table_advice: str = ""


def value_rules(
    format: JsonChangeFormat, request: LookRequest, *, texts: bool = False, latin: bool | None = None
) -> ValueRules:
    """Return the rules for the values of a format's messages."""
    return ValueRules(
        iso=ReadSettings.of(format.options).iso,
        as_strings=bool(request.options.get(AS_STRINGS)) and request.part == "value",
        texts=texts,
        flexible_booleans=format.options.get("types") == "mysql",
        latin=latin,
    )


def named_members(*names: str) -> Callable[[Object, str], TableName | None]:
    """Return a function that takes a table's name from members, which must be texts."""

    def table(message: Object, topic: str) -> TableName | None:
        texts = [message.get(name) for name in names]
        return tuple(map(str, texts)) if all(map(is_text_name, texts)) else None

    return table


def dotted_member(name: str) -> Callable[[Object, str], TableName | None]:
    """Return a function that takes a table's name, of at most three parts, from a member with dots between them."""

    def table(message: Object, topic: str) -> TableName | None:
        text = message.get(name)
        parts = tuple(text.split(".")) if type(text) is str else ()
        return parts if 0 < len(parts) <= _MOST_PARTS and all(map(is_name, parts)) else None

    return table


class _Kind(Enum):
    """What a look does with a message."""

    SKIPPED = "skipped"  # it does not change rows, or a filter excludes it
    TO_DECODE = "to decode"  # decoding finds out what is wrong with it
    DELETION = "deletion"  # its key deletes a row
    DROP = "drop"  # its table is gone
    TRUNCATE = "truncate"  # its table has no rows any more
    UNKNOWN_OPERATION = "unknown operation"  # it names its table, and decoding reports the operation
    ROWS = "rows"  # its rows contribute to its table


class ChangeLooker:
    """Looks at messages of a format of change data in JSON; see `Looker`."""

    def __init__(
        self, format: JsonChangeFormat, envelope: Envelope, request: LookRequest, layout: ChangeLayout
    ) -> None:
        self._format, self._envelope, self._request, self._layout = format, envelope, request, layout
        self._rows = RowRules(layout.values, request.fixed, trusted=layout.trusted, static=request.static)
        self._documents = JsonDocuments()
        self._filters = format.filters()
        keys = (column.member for column in envelope.metadata.values() if column.type == TEXTS)
        self._key = next(keys, None)
        self._operations = {**envelope.rows, **envelope.extra_rows}
        whole_after = any(row.over for rows in envelope.rows.values() for row in rows)
        self._kernel = self._made_kernel(layout)
        self._slots: list[TableName] = []
        self._declared: Declared | None = None
        self._changed: set[bytes] = set()
        self._images = (envelope.after, envelope.before) if whole_after else (envelope.before, envelope.after)

    def look(self, messages: pa.BinaryArray, topics: pa.StringArray) -> Looked:
        """Return what the messages contribute."""
        count_messages(len(messages))
        findings = Findings(len(messages), self._request)
        if self._kernel is None:
            for index, (message, topic) in enumerate(zip(messages.to_pylist(), topics.to_pylist(), strict=True)):
                self._look_at(index, message, topic, findings)
        else:
            self._look_by_kernel(*self._kernel, messages, topics, findings)
        if self._layout.deletions is not None:
            self._layout.deletions.place(findings)
        findings.decide(self._format, messages, self._layout.no_table_advice)
        return findings.looked()

    def _made_kernel(self, layout: ChangeLayout) -> tuple[EnvelopeLookBatch, EnvelopeLookBatch] | None:
        """Return the kernel's check of messages, and one that finds the members of a message; None without a kernel."""
        shape, envelope = layout.shape, self._envelope
        if shape is None or not COMPILED or layout.wrapped is None:
            return None
        first, second = envelope.before, envelope.after
        members = [first, second, envelope.operation, self._key or "", shape.declared, layout.ddl]
        operations = [op.encode() for op, rows in self._operations.items() if rows and len(op) <= _LONGEST_OPERATION]

        def new_batch() -> EnvelopeLookBatch:
            return EnvelopeLookBatch(
                members,
                list(shape.parts),
                list(shape.others),
                operations,
                source=shape.source,
                optional=shape.optional,
                in_arrays=envelope.rows_in_arrays,
                wrapped=bool(layout.wrapped),
            )

        return new_batch(), new_batch()

    def _look_by_kernel(
        self,
        batch: EnvelopeLookBatch,
        finder: EnvelopeLookBatch,
        messages: pa.BinaryArray,
        topics: pa.StringArray,
        findings: Findings,
    ) -> None:
        """Look at messages that the kernel can't tell to fit, and tell it what their tables look like."""
        batch.forget(*(name for name in self._changed))
        self._changed.clear()
        numbers = {name: number for number, name in enumerate(self._slots)}
        additions: dict[TableName, int] = {}

        def closer(index: int) -> None:
            message = messages[index].as_py()
            self._declared = None
            name = self._look_at(index, message, topics[index].as_py(), findings)
            if name is None:
                return
            text, key, declaration = finder.spans(message)
            table = findings.table(name)
            if not text or (additions.get(name) == table.additions and batch.knows(text, key, declaration)):
                return
            additions[name] = table.additions
            prepared = prepared_table(
                table.effective(),
                self._layout.values,
                self._request.fixed,
                self._declared,
                trusted=self._layout.trusted,
                static=self._request.static,
                fresh=table.fresh,
                nulls=table.nulls,
                key=key,
                declaration=declaration,
            )
            if prepared is None:
                return
            if name not in numbers:
                numbers[name] = len(self._slots)
                self._slots.append(name)
            prepared.set_name(text)
            prepared.number = numbers[name]
            batch.set_table(prepared)
            if table.columns or table.keys:  # the batch added something
                self._changed.add(text)

        findings.set_tables(batch.look(messages, closer), self._slots)

    def _look_at(self, index: int, message: bytes | None, topic: str, findings: Findings) -> TableName | None:
        """Look at a message. Return its table if it has rows that can be looked at."""
        tree = self._parsed(message)
        change = self._unwrapped(tree)
        kind, name = self._classify(message, tree, change, topic, findings)
        match kind:
            case _Kind.TO_DECODE:
                findings.leave_to_decoding(index)
            case _Kind.DELETION if self._layout.deletions is not None:
                self._layout.deletions.add(index, topic)
            case _Kind.DROP | _Kind.TRUNCATE if name is not None:
                findings.set_change(index, findings.table(name), "drop" if kind is _Kind.DROP else "truncate")
            case _Kind.ROWS | _Kind.UNKNOWN_OPERATION if name and change is not None and isinstance(tree, dict):
                table = findings.table(name)
                findings.set_table(index, table)
                if self._layout.deletions is not None:
                    self._layout.deletions.note(topic, name, marked=MARK in change)
                if kind is _Kind.ROWS and self._contribute(index, tree, change, table, findings):
                    return name
        return None

    def _parsed(self, message: bytes | None) -> Node:
        """Return the document of a message, None without a valid one; of an array of one message, its element."""
        tree = self._documents.parse_valid(message)
        return without_array(tree) if self._envelope.array_of_one else tree

    def _classify(
        self, message: bytes | None, tree: Node, change: Object | None, topic: str, findings: Findings
    ) -> tuple[_Kind, TableName | None]:
        """Return the kind of a message, and its table if the kind has one. `change` is its change, if it has one."""
        if not message:
            return _Kind.DELETION, None
        if change is None or not isinstance(tree, dict):
            deletes = self._layout.deletions is not None
            deletes = deletes and (self._is_deletion(tree) or self._format.is_tombstone(message))
            return (_Kind.DELETION if deletes else _Kind.TO_DECODE), None
        return self._classify_change(change, topic, findings)

    def _classify_change(self, change: Object, topic: str, findings: Findings) -> tuple[_Kind, TableName | None]:
        """Return the kind of a message with a change or a statement, and its table if the kind has one."""
        included = self._is_included(change) if self._filters else True
        if not included:
            return (_Kind.TO_DECODE if included is None else _Kind.SKIPPED), None
        operation = change.get(self._envelope.operation)
        other = self._other_message(change, operation)
        if other is None:
            skipped = bool(self._layout.ddl) and change.get(self._layout.ddl) is True
        else:
            skipped = not other.empties_table or (operation is None and self._envelope.flattened)
        name = None if skipped else self._layout.table(change, topic)
        if name is None:
            return (_Kind.SKIPPED if skipped or other is not None else _Kind.TO_DECODE), None
        table = findings.table(name)
        if other is not None:
            drops = other.drops(change) if operation is None else operation in self._layout.drops
            return (_Kind.DROP if drops else _Kind.TRUNCATE), name
        rows = self._operations.get(operation) if isinstance(operation, str) else None
        if rows is not None and not rows:
            return _Kind.SKIPPED, None
        if self._is_no_change(change, table, known=rows is not None):
            return _Kind.TO_DECODE, None
        return (_Kind.UNKNOWN_OPERATION if rows is None and not self._envelope.flattened else _Kind.ROWS), name

    def _other_message(self, change: Object, operation: Node) -> OtherMessage | None:
        """Return what the format declares about a message that does not change a row; None for others."""
        if operation is None:
            if self._envelope.flattened and not change.keys() <= self._layout.other_members:
                return None
            return find_by_members(self._envelope.other_by_members, change)
        return self._envelope.other_by_operation.get(operation) if isinstance(operation, str) else None

    def _contribute(self, index: int, tree: Object, change: Object, table: TableFindings, findings: Findings) -> bool:
        """Add what the rows of a change contribute to their table. Return whether that had no error."""
        try:
            self._declared = declared = self._layout.declared(tree, change)
        except NotLookedAtError as error:
            findings.fail(index, error.error)
            return False
        refusal = table.add(index, self._contributions(change, table, declared))
        if refusal is not None:
            findings.fail(index, refusal)
            return False
        names = change.get(self._key) if self._key is not None else None
        if isinstance(names, list) and names and all(map(is_text_name, names)):
            table.add_key(tuple(map(str, names)), index)
        return True

    def _is_no_change(self, change: Object, table: TableFindings, *, known: bool) -> bool:
        """Whether a message names its table but is not a change that the format reads; decoding says why.

        A table that had columns before reports it by its own decoding. `known` says whether the operation is known.
        """
        if self._envelope.flattened:
            is_envelope = "op" in change and any(isinstance(change.get(name), dict) for name in ("before", "after"))
            return is_envelope and "op" not in table.types
        if table.types:
            return False
        kind = list if self._envelope.rows_in_arrays else dict
        images = (change.get(member) for member in self._images)
        return not known or not all(image is None or isinstance(image, kind) for image in images)

    def _unwrapped(self, tree: Node) -> Object | None:
        """Return the object with the change, None if the message has none."""
        if not isinstance(tree, dict):
            return None
        wrapped = self._layout.wrapped
        if wrapped is None:
            wrapped = tree.keys() == {"schema", "payload"}
        if not wrapped:
            return tree
        payload = tree.get("payload")
        return payload if isinstance(payload, dict) else None

    def _is_deletion(self, tree: Node) -> bool:
        """Whether a message is null, or wraps null, as Connect's `JsonConverter` writes a null value."""
        wrapped = isinstance(tree, dict) and "schema" in tree and "payload" in tree and tree["payload"] is None
        return wrapped and self._layout.wrapped is not False

    def _is_included(self, change: Object) -> bool | None:
        """Whether the filters include a message; None if they can't tell."""
        for member, pattern in self._filters:
            value = change.get(member)
            if type(value) is not str:
                return None if not self._envelope.filters_pass_missing or member in change else True
            try:
                if not pattern.matches(value):
                    return False
            except SlowMatchError:
                return None
        return True

    def _contributions(self, change: Object, table: TableFindings, declared: Declared | None) -> list[Contribution]:
        contributions: list[Contribution] = []
        place = 0
        for row in self._images_of(change):
            contributions.extend(self._rows.contributions(row, table, place, declared))
            place += len(row)
        return contributions

    def _images_of(self, change: Object) -> list[Row]:
        """Return the rows before and after a change, without members that are not columns or not data."""
        if self._envelope.flattened:
            return [{name: value for name, value in change.items() if name not in self._layout.hidden}]
        rows: list[Row] = []
        for member in self._images:
            image = change.get(member)
            for row in image if isinstance(image, list) and self._envelope.rows_in_arrays else [image]:
                if isinstance(row, dict):
                    rows.append(row if self._layout.placeholder is None else self._without_placeholders(row))
        return rows

    def _without_placeholders(self, row: Object) -> Row:
        return {name: None if value == self._layout.placeholder else value for name, value in row.items()}
