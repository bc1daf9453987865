"""Change data: the columns of the rows in the envelopes, by the types the messages name, else by their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvformat.codecs._debezium.connect import image_of_json
from kvformat.codecs._json.document import JsonFault
from kvformat.codecs._kernel.tree import Node, Repeated
from kvformat.connectors.infer.debezium import TYPES, DebeziumColumns
from kvformat.connectors.infer.declared import connect_fields, fits, jdbc_type, mysql_type, wider
from kvformat.connectors.infer.inferred import InferredSchema
from kvformat.connectors.infer.rows import with_standard
from kvformat.connectors.infer.sample import Documents, MessageSample
from kvformat.connectors.infer.seen import ISO_ZONED, Seen
from kvformat.connectors.infer.types import Notes, Types, is_name, shown
from kvformat.registry.types import FlinkField, FlinkType

_Object = dict[str, Node]
_MOST_DECLARED = 5  # different declarations of a column that are kept


@dataclass(slots=True)
class _Rows:
    """The rows of a sample: what was seen of them, and the values of each column."""

    seen: Seen = field(default_factory=Seen)
    values: dict[str, list[Node]] = field(default_factory=dict)
    declared: dict[str, list[FlinkType]] = field(default_factory=dict)
    keys: Counter[tuple[str, ...]] = field(default_factory=Counter)
    notes: Notes = field(default_factory=Notes)

    def look(self, row: Node) -> None:
        """Take a row into account; what is none is passed over."""
        if isinstance(row, dict):
            self.seen.look(row)
            for name, value in row.members if isinstance(row, Repeated) else row.items():
                self.values.setdefault(name, []).append(value)

    def look_at_all(self, rows: Node) -> None:
        """Take all rows of an array into account."""
        for row in rows if isinstance(rows, list) else [rows]:
            self.look(row)

    def declare(self, name: str, t: FlinkType) -> None:
        """Note what a message says of a column."""
        known = self.declared.setdefault(name, [])
        if t not in known and len(known) < _MOST_DECLARED:
            known.append(t)

    def key(self, names: Node) -> None:
        """Note what a message says of the key."""
        if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
            self.keys[tuple(map(str, names))] += 1

    def schema(self, format: str, options: Mapping[str, Any]) -> InferredSchema:
        """Columns of the types that are declared where those take all values, else of what the values are."""
        given, iso = self._standard(options)
        declared = {name: self._declared(name, iso) for name in self.declared if is_name(name)}
        for name in declared:
            self.seen.member(name)
        members = {name: seen for name, seen in self.seen.members.items() if declared.get(name) is None}
        undeclared = Seen(members=members, others=self.seen.others, repeated=self.seen.repeated)
        types = declared | {column.name: column.type for column in Types(self.notes, iso=iso).columns(undeclared)}
        found = ((name, types.get(name)) for name in self.seen.members)
        columns = tuple(FlinkField(name, t) for name, t in found if t is not None)
        return InferredSchema(format, columns, given, self._primary_key(columns), self.notes.texts())

    def typed(self, typed: DebeziumColumns) -> InferredSchema:
        """Columns of Debezium's own types, and the option that reads them."""
        columns = typed.columns(self.notes)
        return InferredSchema(
            typed.format, columns, {**typed.options, **TYPES}, self._primary_key(columns), self.notes.texts()
        )

    def _standard(self, options: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """As for json; a declared timestamp with a zone, of which there may be no value, counts too."""
        zoned = any(t.root == "TIMESTAMP_LTZ" for known in self.declared.values() for t in known)
        declared = Seen(texts=1, forms={ISO_ZONED: 1}) if zoned else Seen()
        return with_standard(options, self.seen, declared)

    def _declared(self, name: str, iso: bool) -> FlinkType | None:
        """The declared type of a column, or the next larger one; None where it does not take all values."""
        known = self.declared[name]
        if len(known) > 1:
            self.notes.add(f"declared as {' and '.join(map(str, known))}: the values decide", shown(name))
            return None
        t: FlinkType | None = known[0]
        while t is not None:
            if all(fits(t, value, iso=iso) for value in self.values.get(name, [])):
                return t
            t = wider(t)
        self.notes.add(f"declared as {known[0]}, which does not take all values: they decide", shown(name))
        return None

    def _primary_key(self, columns: Iterable[FlinkField]) -> tuple[str, ...]:
        names = {column.name for column in columns}
        if len(self.keys) > 1:
            several = " and ".join(f"({', '.join(map(shown, key))})" for key, _ in self.keys.most_common(3))
            self.notes.add(f"the keys of messages differ: {several}; no PRIMARY KEY is proposed")
            return ()
        key = next(iter(self.keys), ())
        return key if names.issuperset(key) and len(set(key)) == len(key) else ()


def _envelopes(sample: MessageSample, notes: Notes, operation: str, format: str) -> Iterator[_Object]:
    """The objects of a sample, those in an array of one too; what is none is counted in a note."""
    documents, other = Documents(), 0
    for message in sample.present():
        try:
            tree = documents.read(message)
        except JsonFault:
            tree = None
        if isinstance(tree, list) and len(tree) == 1:
            tree = tree[0]
        if isinstance(tree, dict) and (operation in tree or isinstance(tree.get("payload"), dict)):
            yield tree
        else:
            other += 1
    if other:
        notes.add(f"{other} messages are no {format} and were passed over")


# --- Debezium --------------------------------------------------------------------------------------------


def debezium_schema(sample: MessageSample, options: Mapping[str, Any]) -> InferredSchema:
    """By the schema in the messages (`schema-include`), else by the rows.

    Where the schema has Debezium's own types, and `types` is not given otherwise, they are read by these.
    """
    rows, plain = _Rows(), 0
    schemas: list[Node] = []
    for message in _envelopes(sample, rows.notes, "op", "debezium-json"):
        payload = message.get("payload")
        envelope = payload if isinstance(payload, dict) and "op" not in message else message
        plain += envelope is message
        for name in ("before", "after"):
            rows.look(envelope.get(name))
            if isinstance(envelope.get(name), str):
                rows.notes.add(
                    f"'{name}' is a text, as MongoDB's connector writes documents: debezium-json reads objects only. "
                    "Read the envelope as json"
                )
        if envelope is payload:
            schemas.append(message.get("schema"))
    for key in sample.keys or ():
        _debezium_key(rows, key)
    given = dict(options)
    if "schema-include" not in given and len(schemas) > plain:
        given["schema-include"] = "true"
    if schemas and plain:
        rows.notes.add(
            f"{len(schemas)} messages have a schema and a payload, {plain} have not: a table reads one kind only"
        )
    typed = DebeziumColumns("debezium-json", given, sample.array())
    for schema in schemas:
        typed.declare(image_of_json(schema))
    if (
        given.get("types", "debezium") == "debezium"
        and not plain
        and typed.have_own_types
        and typed.said.keys() >= rows.seen.members.keys()
    ):
        return rows.typed(typed)
    for schema in schemas:
        _declare_connect(rows, schema)
    return rows.schema("debezium-json", given)


def _declare_connect(rows: _Rows, schema: Any) -> None:
    """The columns of `after`, else of `before`, which are the same."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    structs = {str(f.get("field")): f for f in fields if isinstance(f, dict)} if isinstance(fields, list) else {}
    struct = structs.get("after") or structs.get("before") or {}
    for name, t in connect_fields(struct.get("fields"), "", rows.notes).items():
        rows.declare(name, t)


def _debezium_key(rows: _Rows, key: bytes | None) -> None:
    """The names in a key, which are those of the PRIMARY KEY."""
    try:
        tree = Documents().read(key) if key else None
    except JsonFault:
        return
    if isinstance(tree, dict) and isinstance(tree.get("payload"), dict) and "schema" in tree:
        tree = tree["payload"]
    if isinstance(tree, dict):
        rows.key(list(tree))


# --- Canal, Maxwell, OGG ---------------------------------------------------------------------------------


def canal_schema(sample: MessageSample, options: Mapping[str, Any]) -> InferredSchema:
    """By `mysqlType`, else `sqlType`, else by the values, which are all texts."""
    rows = _Rows()
    for message in _envelopes(sample, rows.notes, "type", "canal-json"):
        rows.look_at_all(message.get("data"))
        rows.look_at_all(message.get("old"))
        rows.key(message.get("pkNames"))
        declared, by_jdbc = message.get("mysqlType"), message.get("sqlType")
        if isinstance(declared, dict) and declared:
            for name, text in declared.items():
                rows.declare(name, mysql_type(text))
        elif isinstance(by_jdbc, dict):
            for name, number in by_jdbc.items():
                rows.declare(name, jdbc_type(number))
    return rows.schema("canal-json", options)


def maxwell_schema(sample: MessageSample, options: Mapping[str, Any]) -> InferredSchema:
    """By the values of `data` and `old`."""
    rows = _Rows()
    for message in _envelopes(sample, rows.notes, "type", "maxwell-json"):
        rows.look(message.get("data"))
        rows.look(message.get("old"))
        rows.key(message.get("primary_key_columns"))
    return rows.schema("maxwell-json", options)


def ogg_schema(sample: MessageSample, options: Mapping[str, Any]) -> InferredSchema:
    """By the values of `before` and `after`."""
    rows = _Rows()
    for message in _envelopes(sample, rows.notes, "op_type", "ogg-json"):
        rows.look(message.get("before"))
        rows.look(message.get("after"))
        rows.key(message.get("primary_keys"))
    return rows.schema("ogg-json", options)
