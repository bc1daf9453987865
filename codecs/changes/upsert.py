"""The changelog mode of change data: 'changelog.mode' = 'upsert' leaves out the rows before updates.

    all       u  -U(before), +U(after)     d  -D(before)
    upsert    u  +U(after)                 d  -D(before, only its key is needed)

Upsert changes keep a table current by its key, as Flink does with a source in upsert mode.

An update that changes the key must delete the row with the old key. Debezium writes this update as a deletion and a
creation. Canal and Maxwell write one message, which has the row before the update. If the key of that row differs, it
becomes -D. The key is that of the table (`Format.for_rows`). If the table's key is not known, the message names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints, Mask
from kvformat.codecs.changes.envelope import DELETE, KINDS, UPDATE_BEFORE, BatchReader, Envelope
from kvformat.codecs.changes.reading_only import check_reading_only
from kvformat.codecs.changes.unchanged import KEEP, OWN_COLUMNS, UNCHANGED_OPTION, UnchangedColumns
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.format import Format

UPSERT = "upsert"
MODE_OPTION = Option(
    name="changelog.mode",
    type="enum",
    default="all",
    allowed=("all", UPSERT),
    doc="Ours. With `all`, an update gives the row before it and the row after it. With `upsert`, it gives only the "
    "row after it, and of the row before a change a message needs only the primary key. For reading only.",
)
OR_UPSERT_HINT = ". Or set 'changelog.mode' to 'upsert', which needs only the primary key of the row before the change"
"""The end of an error: the other remedy if a message lacks the row before a change."""
NO_KEY_HINT = (
    ". With 'changelog.mode' = 'upsert' a deletion needs only the primary key: in 'before', or in the key of the "
    "record, which a table with 'key.format' reads (KeyValueFormat)"
)
"""The end of an error: the remedy if a deletion does not say which row it deletes."""


KEYED_DELETION_HINT = (
    ". With 'changelog.mode' = 'upsert', a table with 'key.format' takes the row to delete from the key of the record "
    "(KeyValueFormat)"
)
"""The end of an error: the remedy for a message of a deletion that has no row at all."""


class RowKey(NamedTuple):
    """The key of a table's rows: the names of its columns, and whether the record's key has all of them."""

    columns: tuple[str, ...]
    in_record: bool


class ChangeDataFormat(Format):
    """The base class of the formats of change data in JSON and Avro: changelog mode and unchanged columns."""

    changelog_mode = ChangelogMode.ALL
    row_key: RowKey | None = None
    """The key of the table's rows; None if it is not known."""

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        if self.options["changelog.mode"] == UPSERT:
            self.changelog_mode = ChangelogMode.UPSERT
        self.unchanged = UnchangedColumns.of(self.options, reads_presence=self.reads_presence)
        if self.unchanged is not None and self.unchanged.policy == KEEP:
            self.own_columns = OWN_COLUMNS

    @property
    def reads_presence(self) -> bool:
        """Whether the reader adds a column that says which columns the row after an update has."""
        return False

    @property
    def upsert(self) -> bool:
        """Whether rows before updates are left out."""
        return self.changelog_mode is ChangelogMode.UPSERT

    def propose_columns(self, sample: MessageSample) -> SchemaProposal:
        """Propose columns for the rows in the envelopes of a sample."""
        raise NotImplementedError

    def propose_schema(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.changes.needed_options import add_needed_options

        return add_needed_options(self.propose_columns(sample), sample, self.identifier, (MODE_OPTION.name, UPSERT))

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        for option in (MODE_OPTION, UNCHANGED_OPTION):
            check_reading_only(self, direction, option, "whole rows of all kinds")

    def for_rows(self, key: Sequence[str], *, in_record: bool) -> Format:
        if not self.upsert:
            return self
        instance = type(self)(self._raw_options)
        instance.row_key = RowKey(tuple(key), in_record)
        return instance

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and isinstance(other, ChangeDataFormat) and other.row_key == self.row_key

    def __hash__(self) -> int:
        return hash((super().__hash__(), self.row_key))

    def __reduce__(self) -> tuple[Any, ...]:
        return (*super().__reduce__(), {"row_key": self.row_key})


def without_before_rows(envelope: Envelope) -> Envelope:
    """Return the envelope without the whole rows before updates.

    Rows with `over` stay, because `UpsertReader` compares their key with that of the row after the update.
    """
    rows = {
        operation: tuple(row for row in rows if row.kind != KINDS[UPDATE_BEFORE] or row.over is not None)
        for operation, rows in envelope.rows.items()
    }
    return replace(envelope, rows=rows, no_before_hint=NO_KEY_HINT)


class UpsertReader:
    """Removes the rows before updates from the rows of a reader. If an update changes the key, the row becomes -D.

    Without a `key`, the last column of the reader has the names of the key's columns. That column is removed.
    """

    def __init__(self, reader: BatchReader, columns: Sequence[str], key: RowKey | None) -> None:
        self._reader, self._key = reader, key
        self._places = {name: place for place, name in enumerate(columns)}

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """Return one list of rows per message, without rows before updates."""
        batch = self._reader.read(messages)
        rows = batch.rows.values
        columns = [rows.field(place) for place in range(rows.type.num_fields)]
        kinds = np.asarray(pc.index_in(batch.row_kinds, pa.array(KINDS)))
        before = np.flatnonzero(kinds == UPDATE_BEFORE)
        if self._key is None:
            names = columns.pop()
            changed = self._changed_named_key(columns, names, before)
        else:
            changed = self._changed_key(columns, before, self._key.columns)
        kept = np.ones(len(kinds), np.bool_)
        kept[before[~changed]] = False
        kinds = kinds.copy()
        kinds[before[changed]] = DELETE
        kind = pa.struct(list(rows.type)[: len(columns)])
        values = pa.Array.from_buffers(kind, len(rows), [None], children=columns).filter(pa.array(kept))
        offsets = np.concatenate(([0], np.cumsum(kept)))[np.asarray(batch.rows.offsets)].astype(np.int32)
        buffers = [batch.rows.buffers()[0], pa.py_buffer(offsets)]
        items = pa.list_(pa.field("item", kind))
        lists = pa.Array.from_buffers(items, len(batch.rows), buffers, children=[values])
        return replace(batch, rows=lists, row_kinds=pa.array(KINDS).take(pa.array(kinds[kept])))

    def _changed_named_key(self, columns: list[pa.Array], names: pa.ListArray, before: Ints) -> Mask:
        """Whether each update changes the key that its message names."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for place, key in enumerate(names.take(pa.array(before)).to_pylist()):
            groups.setdefault(tuple(name for name in key or () if name), []).append(place)
        changed = np.zeros(len(before), np.bool_)
        for key, places in groups.items():
            changed[places] = self._changed_key(columns, before[places], key)
        return changed

    def _changed_key(self, columns: list[pa.Array], before: Ints, key: Sequence[str]) -> Mask:
        """Whether the row after each of these rows has another key."""
        changed = np.zeros(len(before), np.bool_)
        for name in key:
            if name in self._places:
                column = columns[self._places[name]]
                old, new = column.take(pa.array(before)), column.take(pa.array(before + 1))
                changed |= ~_same(old, new)
        return changed


def _same(old: pa.Array, new: pa.Array) -> Mask:
    """Whether values are equal, or both null, pair by pair."""
    if pa.types.is_nested(old.type):  # Arrow compares nested values only one by one
        return np.array([a.equals(b) for a, b in zip(old, new, strict=True)], np.bool_)
    return np.asarray(pc.or_(pc.fill_null(pc.equal(old, new), False), pc.and_(old.is_null(), new.is_null())))
