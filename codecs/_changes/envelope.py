"""Envelopes as data: which members a change message has, and which rows its operations give.

    "UPDATE": (RowImage("-U", "data", over="old"), RowImage("+U", "data"))

says: an UPDATE gives the row in `data`, with what `old` has over it, as -U, and then the row in `data` as +U. Debezium
and Ogg send whole rows before and after a change; Maxwell and Canal the row after it and, of the row before, only the
columns that were another value. Canal sends several rows at once, in arrays (`many`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from kvformat.codecs._changes.metadata import Metadata
from kvformat.codecs._changes.other_messages import ERROR, OtherMessage
from kvformat.codecs._java.regex import JavaPattern
from kvformat.codecs._json.settings import ReadSettings
from kvformat.registry.contract.changelog import RowKind
from kvformat.registry.contract.format import DecodedBatch

KINDS = tuple(str(kind) for kind in RowKind)
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
"""Row kinds as indices into `KINDS`."""


class RowImage(NamedTuple):
    """A row that an operation gives: its kind, the member it is in, and the member with the columns that differ."""

    kind: str
    member: str
    over: str | None = None


class Frame(NamedTuple):
    """The text before and after a row in a message."""

    opening: str
    closing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """How the messages of a format are laid out.

    `operation` is the member that tells what happened; `rows` has for each of its values, compared exactly, the rows
    that come of it, none for a message to pass over. `before` and `after` are the members with rows. `array` says
    whether a top-level array of one message counts as that message. `writes` are the frames of inserts and deletes,
    `frames_without_nulls` those with `encode.ignore-null-fields`. `remedy` is what to do about a missing `before`.
    `wrappable` messages may also come in `schema` and `payload`. `key_metadata` is the metadata that names the key.
    `others` are the operations of messages that are no change of a row, `unmarked` such messages without an operation,
    and `extra_rows` operations with rows that Flink does not know: they count with the option `other-messages`. `alone`
    is what to do about messages that have neither an operation nor a row before or after. In `flat` messages the row is
    the message itself: `before` is then the member that says if it was deleted, and `after` stands for no member.
    `unnamed` says whether a message without a member that a filter asks for is read, and otherwise it is an error.
    """

    operation: str
    rows: Mapping[str, tuple[RowImage, ...]]
    before: str
    after: str
    metadata: Mapping[str, Metadata]
    frames: tuple[Frame, Frame] = (Frame("", ""), Frame("", ""))
    frames_without_nulls: tuple[Frame, Frame] | None = None
    no_before_hint: str = ""
    rows_in_arrays: bool = False
    array_of_one: bool = False
    wrappable: bool = False
    other_by_operation: Mapping[str, OtherMessage] = field(default_factory=dict)
    other_by_members: tuple[OtherMessage, ...] = ()
    extra_rows: Mapping[str, tuple[RowImage, ...]] = field(default_factory=dict)
    no_operation_hint: str = ""
    flattened: bool = False
    filters_pass_missing: bool = False
    key_metadata: str | None = None

    @property
    def metadata_types(self) -> dict[str, str]:
        """The Flink types of the metadata columns, by key."""
        return {key: str(column.type) for key, column in self.metadata.items()}


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """How change messages are read, and the values in them.

    `wrapped` messages are `{"schema": ..., "payload": {...}}`. `filters` are pairs of a member and the pattern that its
    text must match from end to end; other messages are skipped. `others` is `other-messages`. `upsert` leaves the rows
    before updates out; then with `bare_deletes` a deletion without any row gives one of nulls. With `reads_presence` a
    column behind those of the row says which of them the row after the change has.
    """

    values: ReadSettings
    wrapped: bool = False
    filters: tuple[tuple[str, JavaPattern], ...] = ()
    other_messages: str = ERROR
    upsert: bool = False
    bare_deletes: bool = False
    reads_presence: bool = False


class BatchReader(Protocol):
    """Reads batches of change messages."""

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """One list of rows per message."""
