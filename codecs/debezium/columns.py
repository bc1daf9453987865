"""Recognize Debezium's changes, and propose their columns: by the schemas in messages, or else by their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvformat.codecs._json_documents import is_wrapped, without_array
from kvformat.codecs._kernel.tree import Node
from kvformat.codecs._rows import error_count
from kvformat.codecs.changes.primary_key import names_of_json
from kvformat.codecs.changes.row_samples import JsonObject, RowSamples, envelopes, objects
from kvformat.codecs.debezium.connect_schema import ConnectSchema, image_schema_from_json
from kvformat.codecs.debezium.connect_types import MOMENT, flink_types
from kvformat.codecs.debezium.options import FLATTENED
from kvformat.codecs.debezium.own_types import MARKS, TYPES, DebeziumColumns, is_instant
from kvformat.codecs.discovery.column_types import shown
from kvformat.codecs.discovery.message_kinds import TOMBSTONE, indices_of, json_messages
from kvformat.codecs.discovery.value_summary import ISO_ZONED, form_of
from kvformat.codecs.json.columns import without_connect_schema
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal

_BY_SOURCE = "the metadata source.schema and source.table say which"


def propose_debezium(sample: MessageSample, options: Mapping[str, Any]) -> SchemaProposal:
    """Propose columns by the schemas in the messages (`schema-include`), or else by the values of the rows.

    With `flattened`, a message is a row without an envelope. If the schemas have Debezium's own types and `types` does
    not exclude them, the proposal sets 'types' = 'debezium'.
    """
    rows, flat = RowSamples(), is_flattened(options)
    schemas, plain = (_add_flattened_rows if flat else _add_images)(sample, rows)
    rows.keys = names_of_json(sample.keys or ())
    read_options = dict(options)
    if "schema-include" not in read_options and len(schemas) > plain:
        read_options["schema-include"] = "true"
    if schemas and plain:
        rows.notes.add(
            f"{len(schemas)} messages have a schema and a payload, {plain} have not: a table reads one kind only"
        )
    typed = DebeziumColumns("debezium-json", read_options, sample.array())
    for schema in schemas:
        typed.declare(image_schema_from_json(schema, flat=flat), without=MARKS if flat else ())
    may_be_typed = read_options.get("types", "debezium") == "debezium"
    if may_be_typed and typed.declared.keys() >= rows.seen.members.keys() and not plain and typed.have_own_types:
        columns = typed.columns(rows.notes)
        options = {**typed.options, **TYPES}
        return SchemaProposal(columns, options, rows.primary_key(columns), rows.notes.texts())
    for schema in schemas:
        for name, t in flink_types(image_schema_from_json(schema, flat=flat), rows.notes).items():
            if not (flat and name in MARKS):
                rows.declare(name, t)
    return _with_far_timestamps(rows.schema(read_options), rows, sample)


def is_flattened(options: Mapping[str, Any]) -> bool:
    """Return whether the options of a Debezium format state that messages are rows without an envelope."""
    return str(options.get(FLATTENED.name, "false")).lower() == "true"


def _add_images(sample: MessageSample, rows: RowSamples) -> tuple[list[Node], int]:
    """Add the rows before and after changes; returns the schemas, and the number of messages without a schema."""
    plain = 0
    schemas: list[Node] = []
    for message in envelopes(sample, rows.notes, "op", "debezium-json"):
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


def _add_flattened_rows(sample: MessageSample, rows: RowSamples) -> tuple[list[Node], int]:
    """Add rows without an envelope; returns the schemas, and the number of messages without a schema."""
    plain = 0
    schemas: list[Node] = []
    for message in objects(sample, rows.notes, "debezium-json"):
        if is_wrapped(message):
            schemas.append(message["schema"])
            rows.add(message["payload"])
        else:
            plain += 1
            rows.add(message)
    if sum(rows.remove(mark) for mark in MARKS):
        rows.notes.add(f"{' and '.join(MARKS)} say what was done to a row: they are its kind, and not columns")
    return schemas, plain


def _with_far_timestamps(proposal: SchemaProposal, rows: RowSamples, sample: MessageSample) -> SchemaProposal:
    """Use TIMESTAMP_LTZ with `types` = `debezium` for timestamps that include infinity or years beyond 9999.

    The other columns keep their types. If this is not allowed or gives more errors, the proposal is unchanged.
    """
    names = {name for name, values in rows.values.items() if _are_moments(values)}
    if not names or "types" in proposal.options:
        return proposal
    fields = tuple(replace(field, type=MOMENT) if field.name in names else field for field in proposal.fields)
    typed = replace(proposal, fields=fields, options={**proposal.options, **TYPES})
    try:
        usual_errors, typed_errors = (
            error_count(get_format("debezium-json", candidate.options).decode_batch(sample.array(), candidate.ddl))
            for candidate in (proposal, typed)
        )
    except ConfigurationError:
        return proposal
    if typed_errors > usual_errors:
        return proposal
    return replace(typed, notes=rows.notes.without({*map(shown, names)}).texts())


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
        recognition
        for (description, marked), indices in kinds.items()
        if (recognition := _debezium_recognition(sample, tuple(indices), description, marked)) is not None
    ]


def _debezium_kind(tree: JsonObject) -> tuple[str, bool] | None:
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


def _is_debezium_change(tree: JsonObject) -> bool:
    return tree.get("op") in _OPERATIONS and ("before" in tree or "after" in tree or "source" in tree)


def is_named_by_debezium(schema: ConnectSchema | None) -> bool:
    """Return whether a row schema is Debezium's: it is named NAME.Value or has Debezium's types.

    Schemas of Debezium's other messages, which are named `io.debezium.*`, do not count.
    """
    if schema is None or schema.name.startswith(_OWN_MESSAGES):
        return False
    return schema.name.endswith(".Value") or any(part.name.startswith(_OWN_TYPES) for part in schema.fields.values())
