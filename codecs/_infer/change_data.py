"""Change data: the columns of the rows in the envelopes, by the types the messages name, else by their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kvformat.codecs._changes.metadata import TEXTS
from kvformat.codecs._debezium.connect_schema import ConnectSchema, image_schema_from_json
from kvformat.codecs._debezium.options import FLATTENED
from kvformat.codecs._infer.column_types import BYTES, Notes, Types, is_name, shown
from kvformat.codecs._infer.debezium_columns import MARKS, MOMENT, TYPES, DebeziumColumns, is_instant
from kvformat.codecs._infer.declared_types import connect_fields, fits, is_binary, jdbc_type, mysql_type, wider
from kvformat.codecs._infer.documents import JsonDocuments, is_tombstone, is_wrapped, without_array
from kvformat.codecs._infer.json_rows import with_standard, without_connect_schema
from kvformat.codecs._infer.message_kinds import TOMBSTONE, indices_of, json_messages
from kvformat.codecs._infer.primary_key import KeyNames, names_of_json, primary_key
from kvformat.codecs._infer.value_summary import ISO_ZONED, ValueSummary, form_of
from kvformat.codecs._json.document_reader import JsonSyntaxError
from kvformat.codecs._kernel.tree import Node, Repeated
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.types import FlinkField, FlinkType

if TYPE_CHECKING:
    from kvformat.codecs._changes.format import JsonChangeFormat

_Object = dict[str, Node]
_MOST_DECLARED = 5  # different declarations of a column that are kept
_MOST_TABLES = 10  # of one topic that are named
_CHOOSE = "'table.include', and 'database.include', choose one"
_BY_SOURCE = "the metadata source.schema and source.table say which"


@dataclass(slots=True)
class _Rows:
    """The rows of a sample: what was seen of them, and the values of each column."""

    seen: ValueSummary = field(default_factory=ValueSummary)
    values: dict[str, list[Node]] = field(default_factory=dict)
    declared: dict[str, list[FlinkType]] = field(default_factory=dict)
    keys: Counter[KeyNames] = field(default_factory=Counter)
    tables: set[str] = field(default_factory=set)
    notes: Notes = field(default_factory=Notes)

    def look(self, row: Node) -> None:
        """Take a row into account; what is none is passed over."""
        if isinstance(row, dict):
            self.seen.add(row)
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

    def schema(self, options: Mapping[str, Any]) -> SchemaProposal:
        """Columns of the types that are declared where those take all values, else of what the values are."""
        given, iso = self._standard(options)
        declared = {name: self._declared(name, iso) for name in self.declared if is_name(name)}
        for name in declared:
            self.seen.member(name)
        members = {name: seen for name, seen in self.seen.members.items() if declared.get(name) is None}
        undeclared = ValueSummary(members=members, others=self.seen.others, repeated=self.seen.repeated)
        types = declared | {column.name: column.type for column in Types(self.notes, iso=iso).columns(undeclared)}
        found = ((name, types.get(name)) for name in self.seen.members)
        columns = tuple(FlinkField(name, t) for name, t in found if t is not None)
        return SchemaProposal(columns, given, self._primary_key(columns), self.notes.texts())

    def typed(self, typed: DebeziumColumns) -> SchemaProposal:
        """Columns of Debezium's own types, and the option that reads them."""
        columns = typed.columns(self.notes)
        return SchemaProposal(columns, {**typed.options, **TYPES}, self._primary_key(columns), self.notes.texts())

    def _standard(self, options: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """As for json; a declared timestamp with a zone, of which there may be no value, counts too."""
        zoned = any(t.root == "TIMESTAMP_LTZ" for known in self.declared.values() for t in known)
        declared = ValueSummary(texts=1, forms={ISO_ZONED: 1}) if zoned else ValueSummary()
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


# --- Debezium --------------------------------------------------------------------------------------------


def propose_debezium(sample: MessageSample, options: Mapping[str, Any]) -> SchemaProposal:
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
    return _with_infinity(rows.schema(given), rows, sample)


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


def _with_infinity(found: SchemaProposal, rows: _Rows, sample: MessageSample) -> SchemaProposal:
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
            get_format("debezium-json", proposal.options).decode_batch(sample.array(), proposal.ddl).errors
            for proposal in (found, typed)
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


_TRANSFORM = "Debezium's transformation ExtractNewRecordState"
MARKED_DESCRIPTION = f"with members such as __op or __deleted, which {_TRANSFORM} adds to rows"
NAMED_DESCRIPTION = f"named NAME.Value or with types io.debezium.*, as {_TRANSFORM} leaves the schemas of its rows"
_NULLS_OF_CONNECT = (
    "; other messages are the text null, as Kafka Connect's JsonConverter without schemas writes the deletes of "
    f"{_TRANSFORM}"
)
_MONGODB = (
    "have op, and before or after as a text: Debezium's MongoDB connector. debezium-json reads objects only; "
    "json reads the envelope, with the document as text"
)
_CHANGES = "are JSON objects with op, and before or after: Debezium without schemas"
_WRAPPED_CHANGES = "are JSON objects of schema and payload, the latter with op: Debezium with schemas"
_ROWS = f"are JSON objects {MARKED_DESCRIPTION}"
_WRAPPED_ROWS = f"are JSON objects of schema and payload, {NAMED_DESCRIPTION}"
_WRAPPED_MARKED_ROWS = f"are JSON objects of schema and payload {MARKED_DESCRIPTION}"
DEBEZIUM_MEMBERS = frozenset(("__op", "__deleted", "__table", "__source_ts_ms", "__ts_ms", "__lsn"))
_OPERATIONS = ("c", "r", "u", "d", "t", "m")
_OWN_MESSAGES, _OWN_TYPES = "io.debezium.", ("io.debezium.data.", "io.debezium.time.")


def recognize_debezium(sample: MessageSample) -> list[Recognition]:
    """Recognize Debezium's changes, and values that are rows alone; rows in keys are plain JSON.

    Objects without a trace of Debezium are rows alone, too, where other values are null as JSON.
    """
    kinds: dict[tuple[str, bool], list[int]] = {}
    for index, tree in json_messages(sample):
        row = without_array(tree)
        kind = _debezium_kind(row) if isinstance(row, dict) else None
        if kind is not None:
            kinds.setdefault(kind, []).append(index)
    return [
        found
        for (description, marked), indices in kinds.items()
        if (found := _debezium_recognition(sample, tuple(indices), description, marked)) is not None
    ]


def _debezium_kind(tree: _Object) -> tuple[str, bool] | None:
    """What an object is, and whether a member marks deleted rows; None for Kafka Connect's rows."""
    if is_wrapped(tree):
        schema, payload = tree["schema"], tree["payload"]
        assert isinstance(payload, dict)
        if _is_debezium_change(payload):
            return _WRAPPED_CHANGES, False
        if DEBEZIUM_MEMBERS & payload.keys() or is_named_by_debezium(image_schema_from_json(schema, flat=True)):
            marked = "__deleted" in payload
            return _WRAPPED_MARKED_ROWS if marked else _WRAPPED_ROWS, marked
        return None
    if _is_debezium_change(tree):
        is_mongodb = any(isinstance(tree.get(name), str) for name in ("before", "after"))
        return _MONGODB if is_mongodb else _CHANGES, False
    return (_ROWS, "__deleted" in tree) if DEBEZIUM_MEMBERS & tree.keys() else ("", False)


def _debezium_recognition(
    sample: MessageSample, indices: tuple[int, ...], description: str, marked: bool
) -> Recognition | None:
    if description in (_CHANGES, _WRAPPED_CHANGES):
        return Recognition(indices, 1.0, description)
    if description == _MONGODB:
        return Recognition(indices, 1.0, description, format="json")
    rows = Recognition(indices, 1.0, description, format="json", marks_deletes=marked)
    if description in (_WRAPPED_ROWS, _WRAPPED_MARKED_ROWS):
        rows = replace(rows, adapt=without_connect_schema)
    if not description:
        if sample.part == "key" or not indices_of(sample, TOMBSTONE):
            return None
        rows = replace(rows, description="are JSON objects", specificity=1)
        description = rows.description + _NULLS_OF_CONNECT
    if sample.part == "key":
        return rows
    return Recognition(
        indices,
        1.0,
        description,
        {FLATTENED.name: "true"},
        specificity=rows.specificity,
        marks_deletes=marked,
        without_key=rows,
    )


def _is_debezium_change(tree: _Object) -> bool:
    return tree.get("op") in _OPERATIONS and ("before" in tree or "after" in tree or "source" in tree)


def is_named_by_debezium(schema: ConnectSchema | None) -> bool:
    """Return whether a schema of rows is Debezium's: named NAME.Value, or with its types; not its other messages."""
    if schema is None or schema.name.startswith(_OWN_MESSAGES):
        return False
    return schema.name.endswith(".Value") or any(part.name.startswith(_OWN_TYPES) for part in schema.fields.values())


# --- Canal, Maxwell, OGG ---------------------------------------------------------------------------------


def propose_envelopes(sample: MessageSample, format: JsonChangeFormat, given: Mapping[str, Any]) -> SchemaProposal:
    """Propose columns by the values of the rows after and before changes."""
    return _look_at_envelopes(sample, format).schema(given)


def propose_canal(
    sample: MessageSample, format: JsonChangeFormat, given: Mapping[str, Any], bytes_option: tuple[str, str]
) -> SchemaProposal:
    """Propose columns by `mysqlType`, else `sqlType`, else by the values, which are all texts.

    `bytes_option` is the option, and its value, with which BYTES are read as Canal writes them.
    """
    binary = set[str]()

    def declare(rows: _Rows, message: _Object) -> None:
        by_mysql, by_jdbc = message.get("mysqlType"), message.get("sqlType")
        declared, to_type = (by_mysql, mysql_type) if by_mysql and isinstance(by_mysql, dict) else (by_jdbc, jdbc_type)
        for name, text in declared.items() if isinstance(declared, dict) else ():
            rows.declare(name, to_type(text))
            binary.update({name} if is_binary(text) else ())

    rows = _look_at_envelopes(sample, format, declare)
    found = rows.schema(given)
    names = {name for name in binary if all(map(_is_latin, rows.values.get(name, ())))}
    option, latin = bytes_option
    if not names or found.options.get(option, latin) != latin:
        return found
    fields = tuple(replace(field, type=BYTES) if field.name in names else field for field in found.fields)
    return replace(found, fields=fields, options={**found.options, option: latin})


def _look_at_envelopes(
    sample: MessageSample, format: JsonChangeFormat, declare: Callable[[_Rows, _Object], None] = lambda *_: None
) -> _Rows:
    """Look at the rows after and before changes, and at what else the envelopes tell of the columns."""
    rows, envelope = _Rows(), format.envelope
    key = next(known.member for known in envelope.metadata.values() if known.type == TEXTS)
    for message in _envelopes(sample, rows.notes, envelope.operation, format.identifier):
        for image in (envelope.after, envelope.before):
            (rows.look_at_all if envelope.rows_in_arrays else rows.look)(message.get(image))
        rows.key(message.get(key))
        if "database" in envelope.metadata:
            rows.of_table(message.get("database"), message.get("table"))
        declare(rows, message)
    rows.note_tables(_CHOOSE)
    return rows


def _is_latin(value: Node) -> bool:
    """Return whether a value is a text with a character for each byte, as Canal writes bytes."""
    return value is None or (isinstance(value, str) and max(value, default="") <= "\xff")
