"""Collects what the messages of a batch contribute: tables, columns, keys, changes and errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from kvformat.codecs.discovery.column_types import folded_name, is_name
from kvformat.codecs.discovery.text_forms import merged_forms
from kvformat.registry.contract.common_types import holds
from kvformat.registry.contract.error_codes import ErrorCode, Reason, reasons_of
from kvformat.registry.contract.look import KnownTable, Looked, LookRequest, SeenColumn, SeenKey, TableName
from kvformat.registry.contract.types import STRING, FlinkType, nullable
from kvformat.registry.format import Format

MOST_COLUMNS = 5_000
"""The number of columns of a table. A message that would give its table more is a bad record."""
_LONGEST_NAME = 1_024  # characters of a column's name
_MOST_KEYS = 16  # different keys of a table in a batch
_MOST_TYPES = 16  # different types of a column in a batch
_NOTHING = KnownTable({})


class Contribution(NamedTuple):
    """The contribution of a value: its column, its place in the message, a type or None, whether it is read as text.

    `forms` are those of its text, None if they are not new.
    """

    name: str
    place: int
    type: FlinkType | None
    as_text: bool = False
    forms: int | None = None


class _Column:
    """The contribution of a batch to a column so far."""

    __slots__ = ("as_text", "forms", "message", "place", "types")

    def __init__(self, message: int, place: int) -> None:
        self.message, self.place = message, place
        self.types: list[FlinkType] = []
        self.as_text = False
        self.forms: int | None = None

    def add(self, t: FlinkType | None, forms: int | None, *, as_text: bool) -> None:
        self.as_text |= as_text
        self.forms = merged_forms(self.forms, forms)
        if t is None or t in self.types or STRING in self.types:
            return
        self.types = [STRING] if t == STRING else _bounded([*self.types, t])


class TableFindings:
    """The known columns of a table, and what a batch adds to them."""

    def __init__(self, number: int, name: TableName, known: KnownTable, nulls: frozenset[str]) -> None:
        self.number, self.name, self.known = number, name, known
        self.types = known.columns
        self.nulls = nulls - known.nulls - known.columns.keys()  # that are noted when they come
        self.columns: dict[str, _Column] = {}
        self.keys: dict[tuple[str, ...], int] = {}
        self._added = 0
        self._folded: dict[str, str] | None = None  # the known names by what Spark compares, once they are asked for

    def add(self, message: int, contributions: Iterable[Contribution]) -> Reason | None:
        """Take the contributions of a message over: all of them, or none. Return the error of a message of too many."""
        there = list(contributions)
        new = {c.name for c in there if c.name not in self.columns and c.name not in self.types}
        if len(self.types) + self._added + len(new) > MOST_COLUMNS:
            return Reason(
                ErrorCode.TOO_LARGE,
                f"table {'.'.join(self.name)} would have more than {MOST_COLUMNS} columns; names that are data belong "
                "into a value, or into a column with an object",
            )
        for name in new:
            if len(name) > _LONGEST_NAME:
                return Reason(
                    ErrorCode.TOO_LARGE,
                    f"a member's name has {len(name)} characters, and that of a column at most {_LONGEST_NAME}: "
                    f"{name[:40]!a}",
                )
        self._added += len(new)
        for name, place, t, as_text, forms in there:
            column = self.columns.get(name)
            if column is None:
                column = self.columns[name] = _Column(message, place)
            column.add(t, forms, as_text=as_text)
        return None

    def other_case(self, name: str) -> str | None:
        """Return the known column that differs from a new name in upper and lower case only, None if there is none."""
        if name in self.types or name in self.columns:  # those of the batch were compared before
            return None
        if self._folded is None:
            self._folded = {folded_name(known): known for known in self.types}
        return self._folded.get(folded_name(name))

    def effective(self) -> KnownTable:
        """Return the table with what the batch added: values that fit it contribute nothing more.

        A column whose values have several types keeps one of them; the caller merges the others.
        """
        if not self.columns:
            return self.known
        types, as_text, forms = dict(self.types), set(self.known.as_text), dict(self.known.forms)
        for name, column in self.columns.items():
            if column.types and (name not in types or column.types == [STRING]):
                types[name] = column.types[0]
            if column.as_text:
                as_text.add(name)
            if column.forms is not None:
                forms[name] = forms.get(name, column.forms) & column.forms
        nulls = self.known.nulls | (self.columns.keys() - types.keys())
        return KnownTable(types, frozenset(as_text), self.known.key, forms, nulls)

    def forms(self, name: str) -> int | None:
        """Return what the texts of a column have in common so far; None if it has none."""
        column = self.columns.get(name)
        return merged_forms(self.known.forms.get(name), None if column is None else column.forms)

    @property
    def fresh(self) -> frozenset[str]:
        """The names of the columns that only the batch has."""
        return frozenset(self.columns.keys() - self.types.keys())

    @property
    def additions(self) -> int:
        """The number of things that the batch added; it grows with each."""
        return len(self.keys) + sum(
            1 + len(c.types) + c.as_text + 64 - (-1 if c.forms is None else c.forms).bit_count()
            for c in self.columns.values()
        )

    def add_key(self, names: tuple[str, ...], message: int) -> None:
        """Take the key of a message over, if it is not the known one."""
        if names != self.known.key and names not in self.keys and len(self.keys) < _MOST_KEYS:
            self.keys[names] = message

    def seen(self) -> Iterable[SeenColumn]:
        """Return the columns that differ from the known ones."""
        for name, column in self.columns.items():
            known = self.types.get(name)
            all_types = column.types if known is None else [known, *column.types]
            is_text = STRING in all_types
            as_text = (column.as_text or needs_text(all_types)) and name not in self.known.as_text and not is_text
            if column.types or as_text or column.forms is not None or (known is None and name in self.nulls):
                types, forms = tuple(column.types), column.forms
                yield SeenColumn(self.name, name, types, column.message, column.place, as_text, forms)


def _bounded(types: list[FlinkType]) -> list[FlinkType]:
    """Keep few types with the same least common type: only the widest of a kind, STRING for texts and times of day."""
    kinds: dict[str, FlinkType] = {}
    for t in types:
        other = kinds.get(t.root)
        if other is None or other == t:
            kinds[t.root] = t
        elif t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            kinds[t.root] = max(t, other, key=lambda x: x.precision or 0)
        elif t.root == "DECIMAL":
            scale = max(t.scale or 0, other.scale or 0)
            digits = scale + max((x.precision or 0) - (x.scale or 0) for x in (t, other))
            if digits > 38:
                return [STRING]
            kinds[t.root] = FlinkType("DECIMAL", precision=digits, scale=scale)
        elif t.root in ("BINARY", "VARBINARY"):
            return types[-_MOST_TYPES:]
        else:
            return [STRING]
    return list(kinds.values())


class Findings:
    """The contribution of a batch so far. A message gets its table by `set_table`, or stays without one."""

    def __init__(self, count: int, request: LookRequest) -> None:
        self._known, self._nulls = request.known, request.nulls
        self._tables: dict[TableName, TableFindings] = {}
        self._indices = np.full(count, -1, np.int32)
        self._changes: dict[int, Literal["truncate", "drop"]] = {}
        self._errors: dict[int, Reason] = {}
        self._undecided: list[int] = []

    def table(self, name: TableName) -> TableFindings:
        """Return the findings of a table."""
        findings = self._tables.get(name)
        if findings is None:
            known = self._known.get(name, _NOTHING)
            findings = TableFindings(len(self._tables), name, known, self._nulls(name))
            self._tables[name] = findings
        return findings

    def set_table(self, message: int, table: TableFindings) -> None:
        """Say that a message belongs to a table."""
        self._indices[message] = table.number

    def set_tables(self, slots: memoryview[int], names: Sequence[TableName]) -> None:
        """Say to which tables messages belong: by their index in `names`, -1 for messages that are left as they are."""
        slot_numbers = np.asarray(slots)[: len(self._indices)]
        counts = np.bincount(slot_numbers + 1, minlength=len(names) + 1)
        numbers = np.full(len(names) + 1, -1, np.int32)  # the last one is that of messages without a table
        for slot in np.flatnonzero(counts[1:]).tolist():
            numbers[slot] = self.table(names[slot]).number
        indices = numbers[slot_numbers]
        self._indices = np.where(slot_numbers < 0, self._indices, indices) if counts[0] else indices

    def set_change(self, message: int, table: TableFindings, change: Literal["truncate", "drop"]) -> None:
        """Say that a message truncates or drops its table."""
        self.set_table(message, table)
        self._changes[message] = change

    def fail(self, message: int, error: Reason) -> None:
        """Make a message a bad record without a table."""
        self._indices[message] = -1
        self._errors[message] = error

    def leave_to_decoding(self, message: int) -> None:
        """Say that the table of a message can't be told: `decide` asks the format what the message is."""
        self._undecided.append(message)

    def decide(self, format: Format, messages: pa.BinaryArray, advice: str = "") -> None:
        """Decode the messages whose table can't be told. One with rows is an error: its table is missing.

        `advice` is the end of that error.
        """
        if not self._undecided:
            return
        some = messages.take(pa.array(self._undecided, pa.int64()))
        batch = format.decode_batch(some, pa.schema([]))
        lengths = batch.rows.value_lengths().fill_null(0).to_pylist()
        errors = reasons_of(batch.errors, batch.codes, len(some))
        no_table = Reason(
            ErrorCode.TABLE_ID,
            f"format '{format.identifier}': the message does not name its table. Its members for the database and "
            f"the table must be texts{advice}",
        )
        for message, rows, error in zip(self._undecided, lengths, errors, strict=True):
            if error is not None:
                self._errors[message] = error
            elif rows:
                self._errors[message] = no_table

    def looked(self) -> Looked:
        """Return the answer for the batch."""
        columns = [column for table in self._tables.values() for column in table.seen()]
        keys = [
            SeenKey(table.name, names, message)
            for table in self._tables.values()
            for names, message in table.keys.items()
        ]
        indices = pa.array(self._indices, pa.int32(), mask=self._indices < 0)
        return Looked(
            tuple(self._tables),
            indices,
            tuple(sorted(columns, key=lambda column: (column.message, column.place))),
            tuple(sorted(keys, key=lambda key: key.message)),
            self._changes,
            {message: error.code.marked(error.text) for message, error in sorted(self._errors.items())},
        )


def needs_text(types: Iterable[FlinkType]) -> bool:
    """Whether a column with values of these types must be read as text.

    A format reads either dates, or timestamps, or timestamps with Z. The caller of `Format.looker` asks this of all
    types that it merges.
    """
    roots = {t.root for t in types}
    return len(roots) > 1 and roots <= {"DATE", "TIMESTAMP", "TIMESTAMP_LTZ"}


def schema_contributions(
    columns: Iterable[tuple[str, FlinkType]], table: TableFindings, request: LookRequest
) -> Iterator[Contribution]:
    """Yield what the columns of schemas contribute to a table."""
    for place, (name, declared) in enumerate(columns):
        known, fixed = table.types.get(name), request.fixed.get(name)
        t = declared if fixed is None else fixed
        if is_name(name) and (known is None or (fixed is None and not holds(known, t))):
            yield Contribution(name, place, nullable(t))
