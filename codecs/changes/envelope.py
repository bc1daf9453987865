"""The envelope of a format, as data: the members of a change message, and the rows that each operation gives.

    "UPDATE": (RowImage("-U", "data", over="old"), RowImage("+U", "data"))

An UPDATE gives two rows. The first has kind -U: it is the row in `data`, with the values in `old` in place of its own.
The second has kind +U: it is the row in `data` as it is.

Debezium and Ogg send the whole row before a change and the whole row after it. Maxwell and Canal send the whole row
after the change. Of the row before it they send only the columns with another value. Canal sends arrays of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from kvformat.codecs.changes.metadata import Metadata
from kvformat.codecs.changes.other_messages import ERROR, OtherMessage
from kvformat.codecs.json.settings import ReadSettings
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.changelog import RowKind
from kvformat.registry.java.regex import JavaPattern

KINDS = tuple(str(kind) for kind in RowKind)
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
"""Row kinds as indices into `KINDS`."""


class RowImage(NamedTuple):
    """A row that an operation gives: its kind, and the member of the message that has the row.

    `over` is the member with the columns that had another value before the change. Its values replace those of the row.
    """

    kind: str
    member: str
    over: str | None = None


class Frame(NamedTuple):
    """The text of a message before and after its row."""

    opening: str
    closing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """How the messages of a format are laid out."""

    operation: str
    """The member with the operation."""
    rows: Mapping[str, tuple[RowImage, ...]]
    """The rows that each operation gives. An operation without rows is skipped. Operations are compared exactly."""
    before: str
    """The member with the row before the change, or with the columns that had another value before it."""
    after: str
    """The member with the row after the change."""
    metadata: Mapping[str, Metadata]
    frames: tuple[Frame, Frame] = (Frame("", ""), Frame("", ""))
    """The texts around an inserted row and around a deleted row."""
    frames_without_nulls: tuple[Frame, Frame] | None = None
    """The frames with `encode.ignore-null-fields`, if they differ."""
    no_before_hint: str = ""
    """The end of an error: what to do if a message lacks the row before the change."""
    rows_in_arrays: bool = False
    """Whether `before` and `after` are arrays of rows."""
    array_of_one: bool = False
    """Whether a top-level array with one message is read as that message."""
    wrappable: bool = False
    """Whether a message may be wrapped: `{"schema": ..., "payload": {...}}`."""
    other_by_operation: Mapping[str, OtherMessage] = field(default_factory=dict)
    """The operations of messages that do not change a row."""
    other_by_members: tuple[OtherMessage, ...] = ()
    """Messages that do not change a row and have no operation."""
    extra_rows: Mapping[str, tuple[RowImage, ...]] = field(default_factory=dict)
    """Operations that Flink does not know, with their rows. They are read unless `other-messages` is `error`."""
    no_operation_hint: str = ""
    """The end of an error: what to do if a message has no operation, no row before and no row after the change."""
    flattened: bool = False
    """Whether the message itself is the row. If so, `before` is the member that says whether the row was deleted, and
    `after` is not a member."""
    filters_pass_missing: bool = False
    """Whether a message without a filtered member is read. Otherwise it is an error."""
    key_metadata: str | None = None
    """The metadata column with the names of the key's columns."""

    @property
    def metadata_types(self) -> dict[str, str]:
        """The Flink types of the metadata columns, by key."""
        return {key: str(column.type) for key, column in self.metadata.items()}


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """How change messages are read."""

    values: ReadSettings
    """How the values in the messages are read."""
    wrapped: bool = False
    """Whether messages are `{"schema": ..., "payload": {...}}`."""
    filters: tuple[tuple[str, JavaPattern], ...] = ()
    """Members, each with the pattern that its whole text must match. Messages that do not match are skipped."""
    other_messages: str = ERROR
    """The value of the option `other-messages`."""
    upsert: bool = False
    """Whether the rows before updates are left out."""
    bare_deletes: bool = False
    """Whether, with `upsert`, a deletion without a row gives a row of nulls; the record's key says which row it is."""
    reads_presence: bool = False
    """Whether a column after those of the table says which columns the row after the change has."""
    skip: int = 0
    """The number of bytes before the text of each message."""


class BatchReader(Protocol):
    """A reader of batches of change messages."""

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """Return one list of rows per message: null for a null message or an error, empty for a skipped message."""
