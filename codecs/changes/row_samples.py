"""The rows of a sample of change data, and the columns that they have: by declared types, or else by their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvformat.codecs._json_documents import JsonDocuments, JsonSyntaxError, is_tombstone, is_wrapped, without_array
from kvformat.codecs._kernel.tree import Node, Repeated
from kvformat.codecs.changes.primary_key import KeyNames, primary_key
from kvformat.codecs.discovery.column_types import Notes, Types, is_name, shown
from kvformat.codecs.discovery.declared_types import wider
from kvformat.codecs.discovery.value_summary import ISO_ZONED, ValueSummary
from kvformat.codecs.json.columns import with_standard
from kvformat.codecs.json.value_types import Fit, ValueRules, fit
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.types import FlinkField, FlinkType

JsonObject = dict[str, Node]
_MOST_DECLARED = 5  # different declarations of a column that are stored
_MOST_TABLES = 10  # tables of a topic that a note names


@dataclass(slots=True)
class RowSamples:
    """The rows of a sample: a summary, the values of each column, and the types and keys that messages declare."""

    seen: ValueSummary = field(default_factory=ValueSummary)
    values: dict[str, list[Node]] = field(default_factory=dict)
    declared: dict[str, list[FlinkType]] = field(default_factory=dict)
    keys: Counter[KeyNames] = field(default_factory=Counter)
    tables: set[str] = field(default_factory=set)
    notes: Notes = field(default_factory=Notes)

    def add(self, row: Node) -> None:
        """Add a row; skip a value that is not an object."""
        if isinstance(row, dict):
            self.seen.add(row)
            for name, value in row.members if isinstance(row, Repeated) else row.items():
                self.values.setdefault(name, []).append(value)

    def add_table(self, *names: Node) -> None:
        """Store the table of a message. `names` are its database or schema, if known, and its name."""
        if isinstance(names[-1], str) and len(self.tables) <= _MOST_TABLES:
            self.tables.add(".".join(shown(name) for name in names if isinstance(name, str)))

    def note_tables(self, remedy: str) -> None:
        """Add a note if the messages belong to several tables."""
        if len(self.tables) > 1:
            names = ", ".join(sorted(self.tables)[:_MOST_TABLES])
            more = ", ..." if len(self.tables) > _MOST_TABLES else ""
            self.notes.add(
                f"the messages are of several tables ({names}{more}), and the columns those of all: {remedy}"
            )

    def declare(self, name: str, t: FlinkType) -> None:
        """Store the type that a message declares for a column."""
        known = self.declared.setdefault(name, [])
        if t not in known and len(known) < _MOST_DECLARED:
            known.append(t)

    def remove(self, name: str) -> bool:
        """Remove a column; returns whether it existed."""
        self.seen.counts.pop(name, None)
        self.values.pop(name, None)
        return self.seen.members.pop(name, None) is not None

    def add_key(self, names: Node) -> None:
        """Store the names of the key columns, if a message contains them."""
        if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
            self.keys[tuple(map(str, names))] += 1

    def schema(self, options: Mapping[str, Any]) -> SchemaProposal:
        """Propose columns. A column has its declared type if that reads all values, or else a type by its values."""
        proposed_options, iso = self._standard(options)
        declared = {name: self._declared(name, iso) for name in self.declared if is_name(name)}
        for name in declared:
            self.seen.member(name)
        members = {name: seen for name, seen in self.seen.members.items() if declared.get(name) is None}
        undeclared = ValueSummary(members=members, others=self.seen.others, repeated=self.seen.repeated)
        types = declared | {column.name: column.type for column in Types(self.notes, iso=iso).columns(undeclared)}
        typed = ((name, types.get(name)) for name in self.seen.members)
        columns = tuple(FlinkField(name, t) for name, t in typed if t is not None)
        return SchemaProposal(columns, proposed_options, self.primary_key(columns), self.notes.texts())

    def _standard(self, options: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return the options with the timestamp standard, and whether it is ISO-8601.

        A declared TIMESTAMP_LTZ counts like a text with Z, because the column may have no values.
        """
        zoned = any(t.root == "TIMESTAMP_LTZ" for known in self.declared.values() for t in known)
        declared = ValueSummary(texts=1, forms={ISO_ZONED: 1}) if zoned else ValueSummary()
        return with_standard(options, self.seen, declared)

    def _declared(self, name: str, iso: bool) -> FlinkType | None:
        """Return the declared type of a column, or a larger integer type; None if it does not read all values."""
        known = self.declared[name]
        if len(known) > 1:
            self.notes.add(f"declared as {' and '.join(map(str, known))}: the values decide", shown(name))
            return None
        t: FlinkType | None = known[0]
        while t is not None:
            values = (value for value in self.values.get(name, []) if value is not None)
            if all(fit(t, value, ValueRules(iso=iso), declared=True) is Fit.READS for value in values):
                return t
            t = wider(t)
        self.notes.add(f"declared as {known[0]}, which does not take all values: they decide", shown(name))
        return None

    def primary_key(self, columns: Iterable[FlinkField]) -> KeyNames:
        """Return the columns that the keys of all messages name."""
        return primary_key(self.keys, [column.name for column in columns], self.notes)


def envelopes(sample: MessageSample, notes: Notes, operation: str, format: str) -> Iterator[JsonObject]:
    """Yield the objects of a sample that contain the operation member, or a payload."""
    return objects(sample, notes, format, lambda tree: operation in tree or isinstance(tree.get("payload"), dict))


def objects(
    sample: MessageSample, notes: Notes, format: str, wanted: Callable[[JsonObject], bool] = lambda _: True
) -> Iterator[JsonObject]:
    """Yield the objects of a sample, also from arrays of one. A note counts other messages, except tombstones."""
    documents, other = JsonDocuments(), 0
    for message in sample.present():
        try:
            tree = documents.parse(message)
        except JsonSyntaxError:
            other += 1
            continue
        tree = without_array(tree)
        if isinstance(tree, dict) and wanted(tree) and not (is_wrapped(tree) and tree["payload"] is None):
            yield tree
        elif not is_tombstone(tree):
            other += 1
    if other:
        notes.add(f"{other} messages are not {format} and are skipped")
