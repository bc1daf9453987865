"""Change data: the columns of the rows in the envelopes, by the types the messages name, else by their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kvformat.codecs._debezium.connect_schema import image_schema_from_json
from kvformat.codecs._debezium.options import FLATTENED
from kvformat.codecs._json.document_reader import JsonSyntaxError
from kvformat.codecs._kernel.tree import Node, Repeated
from kvformat.codecs.canal_json import BYTES_ENCODING, LATIN
from kvformat.connectors.infer.debezium import MARKS, MOMENT, TYPES, DebeziumColumns, is_instant
from kvformat.connectors.infer.declared import connect_fields, fits, is_binary, jdbc_type, mysql_type, wider
from kvformat.connectors.infer.inferred import InferredSchema
from kvformat.connectors.infer.keys import KeyNames, names_of_json, primary_key
from kvformat.connectors.infer.rows import with_standard
from kvformat.connectors.infer.sample import Documents, MessageSample, is_tombstone, is_wrapped
from kvformat.connectors.infer.seen import ISO_ZONED, Seen, form_of
from kvformat.connectors.infer.types import BYTES, Notes, Types, is_name, shown
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.types import FlinkField, FlinkType

_Object = dict[str, Node]
_MOST_DECLARED = 5  # different declarations of a column that are kept
_MOST_TABLES = 10  # of one topic that are named
_CHOOSE = "'table.include', and 'database.include', choose one"
_BY_SOURCE = "the metadata source.schema and source.table say which"


@dataclass(slots=True)
class _Rows:
    """The rows of a sample: what was seen of them, and the values of each column."""

    seen: Seen = field(default_factory=Seen)
    values: dict[str, list[Node]] = field(default_factory=dict)
    declared: dict[str, list[FlinkType]] = field(default_factory=dict)
    keys: Counter[KeyNames] = field(default_factory=Counter)
    tables: set[str] = field(default_factory=set)
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

    def of_table(self, *names: Node) -> None:
        """Note the table that a message is of, by what is known of database, schema and name."""
        if isinstance(names[-1], str) and len(self.tables) <= _MOST_TABLES:
            self.tables.add(".".join(shown(name) for name in names if isinstance(name, str)))

    def note_tables(self, remedy: str) -> None:
        """Say so where messages are of several tables."""
        if len(self.tables) > 1:
            names = ", ".join(sorted(self.tables)[:_MOST_TABLES])
            more = ", ..." if len(self.tables) > _MOST_TABLES else ""
            self.notes.add(
                f"the messages are of several tables ({names}{more}), and the columns those of all: {remedy}"
            )

    def declare(self, name: str, t: FlinkType) -> None:
        """Note what a message says of a column."""
        known = self.declared.setdefault(name, [])
        if t not in known and len(known) < _MOST_DECLARED:
            known.append(t)

    def forget(self, name: str) -> bool:
        """Leave a column out; returns whether it was there."""
        self.seen.counts.pop(name, None)
        self.values.pop(name, None)
        return self.seen.members.pop(name, None) is not None

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

    def _primary_key(self, columns: Iterable[FlinkField]) -> KeyNames:
        return primary_key(self.keys, [column.name for column in columns], self.notes)


def _envelopes(sample: MessageSample, notes: Notes, operation: str, format: str) -> Iterator[_Object]:
    """The objects of a sample that have the member that says what was done, or a payload."""
    return _objects(sample, notes, format, lambda tree: operation in tree or isinstance(tree.get("payload"), dict))


def _objects(
    sample: MessageSample, notes: Notes, format: str, wanted: Callable[[_Object], bool] = lambda _: True
) -> Iterator[_Object]:
    """The objects of a sample, those in an array of one too; what is none is counted in a note, tombstones apart."""
    documents, other = Documents(), 0
    for message in sample.present():
        try:
            tree = documents.read(message)
        except JsonSyntaxError:
            other += 1
            continue
        if isinstance(tree, list) and len(tree) == 1:
            tree = tree[0]
        if isinstance(tree, dict) and wanted(tree) and not (is_wrapped(tree) and tree["payload"] is None):
            yield tree
        elif not is_tombstone(tree):
            other += 1
    if other:
        notes.add(f"{other} messages are no {format} and were passed over")


# --- Debezium --------------------------------------------------------------------------------------------


def debezium_schema(sample: MessageSample, options: Mapping[str, Any]) -> InferredSchema:
    """By the schema in the messages (`schema-include`), else by the rows; with `flattened` messages are rows alone.

    Where the schema has Debezium's own types, and `types` is not given otherwise, they are read by these.
    """
    rows, flat = _Rows(), is_flattened(options)
    schemas, plain = (_look_at_rows_alone if flat else _look_at_images)(sample, rows)
    rows.keys = names_of_json(sample.keys or ())
    given = dict(options)
    if "schema-include" not in given and len(schemas) > plain:
        given["schema-include"] = "true"
    if schemas and plain:
        rows.notes.add(
            f"{len(schemas)} messages have a schema and a payload, {plain} have not: a table reads one kind only"
        )
    typed = DebeziumColumns("debezium-json", given, sample.array())
    for schema in schemas:
        typed.declare(image_schema_from_json(schema, flat=flat), without=MARKS if flat else ())
    own = given.get("types", "debezium") == "debezium" and typed.said.keys() >= rows.seen.members.keys()
    if own and not plain and typed.have_own_types:
        return rows.typed(typed)
    for schema in schemas:
        _declare_connect(rows, schema, flat=flat)
    return _with_infinity(rows.schema("debezium-json", given), rows, sample)


def is_flattened(options: Mapping[str, Any]) -> bool:
    """Whether options of a format of Debezium's say that messages are rows alone."""
    return str(options.get(FLATTENED.name, "false")).lower() == "true"


def _look_at_images(sample: MessageSample, rows: _Rows) -> tuple[list[Node], int]:
    """Look at the rows before and after changes; returns the schemas, and how many messages have none."""
    plain = 0
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
        source = envelope.get("source")
        if isinstance(source, dict):
            rows.of_table(source.get("schema"), source.get("table"))
    rows.note_tables(_BY_SOURCE)
    return schemas, plain


def _look_at_rows_alone(sample: MessageSample, rows: _Rows) -> tuple[list[Node], int]:
    """Look at messages that are the row after a change; returns the schemas, and how many messages have none."""
    plain = 0
    schemas: list[Node] = []
    for message in _objects(sample, rows.notes, "debezium-json"):
        if is_wrapped(message):
            schemas.append(message["schema"])
            rows.look(message["payload"])
        else:
            plain += 1
            rows.look(message)
    if sum(rows.forget(mark) for mark in MARKS):
        rows.notes.add(f"{' and '.join(MARKS)} say what was done to a row: they are its kind, and not columns")
    return schemas, plain


def _declare_connect(rows: _Rows, schema: Any, *, flat: bool) -> None:
    """The columns of the row alone, or of `after`, else of `before`, which are the same."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not flat:
        structs = {str(f.get("field")): f for f in fields if isinstance(f, dict)} if isinstance(fields, list) else {}
        fields = (structs.get("after") or structs.get("before") or {}).get("fields")
    for name, t in connect_fields(fields, "", rows.notes).items():
        if not (flat and name in MARKS):
            rows.declare(name, t)


def _with_infinity(found: InferredSchema, rows: _Rows, sample: MessageSample) -> InferredSchema:
    """TIMESTAMP_LTZ for moments some of which are infinite or in far years, which `types` = `debezium` reads.

    Columns without a type of Debezium's stay what is on the wire: where that is impossible, nothing changes.
    """
    names = {name for name, values in rows.values.items() if _are_moments(values)}
    if not names or "types" in found.options:
        return found
    fields = tuple(replace(field, type=MOMENT) if field.name in names else field for field in found.fields)
    typed = replace(found, fields=fields, options={**found.options, **TYPES})
    try:
        errors = [
            get_format(one.format, one.options).decode_batch(sample.array(), one.ddl).errors for one in (found, typed)
        ]
    except ConfigurationError:
        return found
    usual, own = (0 if some is None else len(some) - some.null_count for some in errors)
    if own > usual:
        return found
    dropped = tuple(note for note in found.notes if not note.startswith(tuple(f"{shown(name)}:" for name in names)))
    return replace(typed, notes=dropped)


def _are_moments(values: list[Node]) -> bool:
    """Whether values are moments, some of which are read by Debezium's types alone: infinite, in far years."""
    there = [value for value in values if value is not None]
    usual = sum(isinstance(value, str) and form_of(value)[0] == ISO_ZONED for value in there)
    return 0 < usual < len(there) and all(isinstance(value, str) and is_instant(value) for value in there)


# --- Canal, Maxwell, OGG ---------------------------------------------------------------------------------


def canal_schema(sample: MessageSample, options: Mapping[str, Any]) -> InferredSchema:
    """By `mysqlType`, else `sqlType`, else by the values, which are all texts."""
    rows, binary = _Rows(), set[str]()
    for message in _envelopes(sample, rows.notes, "type", "canal-json"):
        rows.look_at_all(message.get("data"))
        rows.look_at_all(message.get("old"))
        rows.key(message.get("pkNames"))
        rows.of_table(message.get("database"), message.get("table"))
        declared, by_jdbc = message.get("mysqlType"), message.get("sqlType")
        if isinstance(declared, dict) and declared:
            for name, text in declared.items():
                rows.declare(name, mysql_type(text))
                binary |= {name} if is_binary(text) else set()
        elif isinstance(by_jdbc, dict):
            for name, number in by_jdbc.items():
                rows.declare(name, jdbc_type(number))
                binary |= {name} if is_binary(number) else set()
    rows.note_tables(_CHOOSE)
    found = rows.schema("canal-json", options)
    names = {name for name in binary if all(map(_is_latin, rows.values.get(name, ())))}
    if not names or found.options.get(BYTES_ENCODING.name, LATIN) != LATIN:
        return found
    fields = tuple(replace(field, type=BYTES) if field.name in names else field for field in found.fields)
    return replace(found, fields=fields, options={**found.options, BYTES_ENCODING.name: LATIN})


def _is_latin(value: Node) -> bool:
    """Whether a value is a text with a character for each byte, as Canal writes bytes."""
    return value is None or (isinstance(value, str) and max(value, default="") <= "\xff")


def maxwell_schema(sample: MessageSample, options: Mapping[str, Any]) -> InferredSchema:
    """By the values of `data` and `old`."""
    rows = _Rows()
    for message in _envelopes(sample, rows.notes, "type", "maxwell-json"):
        rows.look(message.get("data"))
        rows.look(message.get("old"))
        rows.key(message.get("primary_key_columns"))
        rows.of_table(message.get("database"), message.get("table"))
    rows.note_tables(_CHOOSE)
    return rows.schema("maxwell-json", options)


def ogg_schema(sample: MessageSample, options: Mapping[str, Any]) -> InferredSchema:
    """By the values of `before` and `after`."""
    rows = _Rows()
    for message in _envelopes(sample, rows.notes, "op_type", "ogg-json"):
        rows.look(message.get("before"))
        rows.look(message.get("after"))
        rows.key(message.get("primary_keys"))
    return rows.schema("ogg-json", options)
