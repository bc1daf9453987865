"""Propose the columns of change data: by the types that messages declare, or else by the values of the rows."""

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
from kvformat.codecs._infer.json_rows import with_standard, without_connect_schema
from kvformat.codecs._infer.message_kinds import TOMBSTONE, indices_of, json_messages
from kvformat.codecs._infer.primary_key import KeyNames, names_of_json, primary_key
from kvformat.codecs._infer.value_summary import ISO_ZONED, ValueSummary, form_of
from kvformat.codecs._json_documents import JsonDocuments, JsonSyntaxError, is_tombstone, is_wrapped, without_array
from kvformat.codecs._kernel.tree import Node, Repeated
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.types import FlinkField, FlinkType

if TYPE_CHECKING:
    from kvformat.codecs._changes.format import JsonChangeFormat

_Object = dict[str, Node]
_MOST_DECLARED = 5  # different declarations of a column that are stored
_MOST_TABLES = 10  # tables of a topic that a note names
_CHOOSE = "'table.include', and 'database.include', choose one"
_BY_SOURCE = "the metadata source.schema and source.table say which"


@dataclass(slots=True)
class _Rows:
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

    def add_all(self, rows: Node) -> None:
        """Add all rows of an array, or a single row."""
        for row in rows if isinstance(rows, list) else [rows]:
            self.add(row)

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
        """Propose columns of Debezium's own types, with the option that reads them."""
        columns = typed.columns(self.notes)
        return SchemaProposal(columns, {**typed.options, **TYPES}, self._primary_key(columns), self.notes.texts())

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
            if all(fits(t, value, iso=iso) for value in self.values.get(name, [])):
                return t
            t = wider(t)
        self.notes.add(f"declared as {known[0]}, which does not take all values: they decide", shown(name))
        return None

    def _primary_key(self, columns: Iterable[FlinkField]) -> KeyNames:
        return primary_key(self.keys, [column.name for column in columns], self.notes)


def _envelopes(sample: MessageSample, notes: Notes, operation: str, format: str) -> Iterator[_Object]:
    """Yield the objects of a sample that contain the operation member, or a payload."""
    return _objects(sample, notes, format, lambda tree: operation in tree or isinstance(tree.get("payload"), dict))


def _objects(
    sample: MessageSample, notes: Notes, format: str, wanted: Callable[[_Object], bool] = lambda _: True
) -> Iterator[_Object]:
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


# --- Debezium --------------------------------------------------------------------------------------------


def propose_debezium(sample: MessageSample, options: Mapping[str, Any]) -> SchemaProposal:
    """Propose columns by the schemas in the messages (`schema-include`), or else by the values of the rows.

    With `flattened`, a message is a row without an envelope. If the schemas have Debezium's own types and `types` does
    not exclude them, the proposal sets 'types' = 'debezium'.
    """
    rows, flat = _Rows(), is_flattened(options)
    schemas, plain = (_add_flattened_rows if flat else _add_images)(sample, rows)
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
    own = given.get("types", "debezium") == "debezium" and typed.declared.keys() >= rows.seen.members.keys()
    if own and not plain and typed.have_own_types:
        return rows.typed(typed)
    for schema in schemas:
        _declare_connect(rows, schema, flat=flat)
    return _with_far_timestamps(rows.schema(given), rows, sample)


def is_flattened(options: Mapping[str, Any]) -> bool:
    """Return whether the options of a Debezium format state that messages are rows without an envelope."""
    return str(options.get(FLATTENED.name, "false")).lower() == "true"


def _add_images(sample: MessageSample, rows: _Rows) -> tuple[list[Node], int]:
    """Add the rows before and after changes; returns the schemas, and the number of messages without a schema."""
    plain = 0
    schemas: list[Node] = []
    for message in _envelopes(sample, rows.notes, "op", "debezium-json"):
        payload = message.get("payload")
        envelope = payload if isinstance(payload, dict) and "op" not in message else message
        plain += envelope is message
        for name in ("before", "after"):
            rows.add(envelope.get(name))
            if isinstance(envelope.get(name), str):
                rows.notes.add(
                    f"'{name}' is a text, as MongoDB's connector writes documents: debezium-json reads objects only. "
                    "Read the envelope as json"
                )
        if envelope is payload:
            schemas.append(message.get("schema"))
        source = envelope.get("source")
        if isinstance(source, dict):
            rows.add_table(source.get("schema"), source.get("table"))
    rows.note_tables(_BY_SOURCE)
    return schemas, plain


def _add_flattened_rows(sample: MessageSample, rows: _Rows) -> tuple[list[Node], int]:
    """Add rows without an envelope; returns the schemas, and the number of messages without a schema."""
    plain = 0
    schemas: list[Node] = []
    for message in _objects(sample, rows.notes, "debezium-json"):
        if is_wrapped(message):
            schemas.append(message["schema"])
            rows.add(message["payload"])
        else:
            plain += 1
            rows.add(message)
    if sum(rows.remove(mark) for mark in MARKS):
        rows.notes.add(f"{' and '.join(MARKS)} say what was done to a row: they are its kind, and not columns")
    return schemas, plain


def _declare_connect(rows: _Rows, schema: Any, *, flat: bool) -> None:
    """Declare the columns of a flattened row, or of `after`, or else of `before`, which has the same columns."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not flat:
        structs = {str(f.get("field")): f for f in fields if isinstance(f, dict)} if isinstance(fields, list) else {}
        fields = (structs.get("after") or structs.get("before") or {}).get("fields")
    for name, t in connect_fields(fields, "", rows.notes).items():
        if not (flat and name in MARKS):
            rows.declare(name, t)


def _with_far_timestamps(found: SchemaProposal, rows: _Rows, sample: MessageSample) -> SchemaProposal:
    """Use TIMESTAMP_LTZ with `types` = `debezium` for timestamps that include infinity or years beyond 9999.

    The other columns keep their types. If this is not allowed or gives more errors, the proposal is unchanged.
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
    """Return whether all values are timestamps and only Debezium's types read some of them (infinity, far years)."""
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
    """Recognize Debezium's change events, and values that are flattened rows; rows in keys are plain JSON.

    Objects without members or types of Debezium are flattened rows, too, if other values are the JSON text null.
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
    """Return a description of an object, and whether a member marks deleted rows; None for rows of Kafka Connect."""
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
    """Return whether a row schema is Debezium's: it is named NAME.Value or has Debezium's types.

    Schemas of Debezium's other messages, which are named `io.debezium.*`, do not count.
    """
    if schema is None or schema.name.startswith(_OWN_MESSAGES):
        return False
    return schema.name.endswith(".Value") or any(part.name.startswith(_OWN_TYPES) for part in schema.fields.values())


# --- Canal, Maxwell, OGG ---------------------------------------------------------------------------------


def propose_envelopes(sample: MessageSample, format: JsonChangeFormat, given: Mapping[str, Any]) -> SchemaProposal:
    """Propose columns by the values of the rows after and before changes."""
    return _add_envelopes(sample, format).schema(given)


def propose_canal(
    sample: MessageSample, format: JsonChangeFormat, given: Mapping[str, Any], bytes_option: tuple[str, str]
) -> SchemaProposal:
    """Propose columns by `mysqlType`, or else `sqlType`, or else by the values, which are all texts.

    `bytes_option` is the name and value of the option that reads BYTES as Canal writes them.
    """
    binary = set[str]()

    def declare(rows: _Rows, message: _Object) -> None:
        by_mysql, by_jdbc = message.get("mysqlType"), message.get("sqlType")
        declared, to_type = (by_mysql, mysql_type) if by_mysql and isinstance(by_mysql, dict) else (by_jdbc, jdbc_type)
        for name, text in declared.items() if isinstance(declared, dict) else ():
            rows.declare(name, to_type(text))
            binary.update({name} if is_binary(text) else ())

    rows = _add_envelopes(sample, format, declare)
    found = rows.schema(given)
    names = {name for name in binary if all(map(_is_latin, rows.values.get(name, ())))}
    option, latin = bytes_option
    if not names or found.options.get(option, latin) != latin:
        return found
    fields = tuple(replace(field, type=BYTES) if field.name in names else field for field in found.fields)
    return replace(found, fields=fields, options={**found.options, option: latin})


def _add_envelopes(
    sample: MessageSample, format: JsonChangeFormat, declare: Callable[[_Rows, _Object], None] = lambda *_: None
) -> _Rows:
    """Add the rows after and before changes. `declare` adds the types that an envelope contains."""
    rows, envelope = _Rows(), format.envelope
    key = next(known.member for known in envelope.metadata.values() if known.type == TEXTS)
    for message in _envelopes(sample, rows.notes, envelope.operation, format.identifier):
        for image in (envelope.after, envelope.before):
            (rows.add_all if envelope.rows_in_arrays else rows.add)(message.get(image))
        rows.add_key(message.get(key))
        if "database" in envelope.metadata:
            rows.add_table(message.get("database"), message.get("table"))
        declare(rows, message)
    rows.note_tables(_CHOOSE)
    return rows


def _is_latin(value: Node) -> bool:
    """Return whether a value is a text with a character for each byte, as Canal writes bytes."""
    return value is None or (isinstance(value, str) and max(value, default="") <= "\xff")
