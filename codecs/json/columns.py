"""`json` and the rows within change data: from trees, or JSON Schemas of a registry, to columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvformat.codecs._json_documents import JsonDocuments, JsonSyntaxError, is_wrapped, without_array
from kvformat.codecs._timestamps.options import PATTERNS
from kvformat.codecs.discovery.column_types import STANDARD, Notes, Types, standard_of
from kvformat.codecs.discovery.message_kinds import json_messages, schema_id_of
from kvformat.codecs.discovery.registered_schemas import columns_of_all, read_schemas
from kvformat.codecs.discovery.value_summary import ValueSummary
from kvformat.codecs.json.schema_columns import columns_of_json_schema
from kvformat.codecs.registries.confluent_frames import body
from kvformat.codecs.registries.registry import JSON
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schema_registries import RegistrySettings

_OBJECT, _ARRAY = "are JSON objects", "are JSON arrays of objects, a row each"
_WRAPPED = "are JSON objects of schema and payload, as Kafka Connect writes rows with schemas.enable"


def propose_rows(sample: MessageSample, options: Mapping[str, Any]) -> SchemaProposal:
    """The columns of JSON objects, one a message or several in an array."""
    seen, documents, notes = ValueSummary(), JsonDocuments(), Notes()
    broken = other = arrays = 0
    for message in sample.present():
        try:
            tree = documents.parse(message)
        except JsonSyntaxError:
            broken += 1
            continue
        arrays += isinstance(tree, list)
        for row in tree if isinstance(tree, list) else [tree]:
            if isinstance(row, dict):
                seen.add(row)
            else:
                other += row is not None
    if broken:
        notes.add(f"{broken} messages are not valid JSON and are skipped")
    if other:
        notes.add(f"{other} values are not JSON objects and are skipped")
    if arrays:
        notes.add(f"{arrays} messages are arrays, of a row for each element: read them with decode_rows")
    proposed_options, iso = (dict(options), None) if PATTERNS in options else with_standard(options, seen)
    return SchemaProposal(Types(notes, iso=iso).columns(seen), proposed_options, (), notes.texts())


def propose_json_registry(
    sample: MessageSample, options: Mapping[str, Any], settings: RegistrySettings, name: str | None = None
) -> SchemaProposal:
    """Propose the columns of the newest schema in the messages, and the members that only older schemas have.

    Without a schema, the columns are those of the values in the messages. `name` is the name of the messages' type, if
    their schemas may be unions with other types.
    """
    notes = Notes()
    ids = Counter((schema_id_of(message),) for message in sample.present())
    other = ids.pop((None,), 0)
    if other:
        notes.add(f"{other} messages do not begin with 00 and the id of a schema, and are skipped")
    rows = []
    if settings.url:
        rows = read_schemas(ids, JSON, settings, notes, lambda schema: columns_of_json_schema(schema, notes, name))
    if not rows:
        proposal = propose_rows(without_frames(sample), options)
        return replace(proposal, notes=(*notes.texts(), *proposal.notes))
    return SchemaProposal(columns_of_all(rows, notes), options, (), notes.texts())


def without_frames(sample: MessageSample) -> MessageSample:
    """Return the sample without Confluent's frames; messages without a frame are null."""
    values = tuple(body(m) if m is not None and schema_id_of(m) is not None else None for m in sample.values)
    return replace(sample, values=values)


def recognize_rows(sample: MessageSample) -> tuple[Recognition, ...]:
    """Recognize any JSON object, array of objects, and Kafka Connect's wrapper of schema and payload."""
    kinds: dict[str, list[int]] = {}
    for index, tree in json_messages(sample):
        row = without_array(tree)
        kind = _WRAPPED if is_wrapped(row) else _OBJECT if isinstance(row, dict) else _ARRAY
        kinds.setdefault(kind, []).append(index)
    recognitions = [Recognition(tuple(indices), 1.0, kind, specificity=0) for kind, indices in kinds.items()]
    return tuple(
        replace(known, adapt=without_connect_schema) if known.description == _WRAPPED else known
        for known in recognitions
    )


def without_connect_schema(proposal: SchemaProposal) -> SchemaProposal:
    """Leave out the column of the schema that Kafka Connect repeats in each message."""
    rows = tuple(column for column in proposal.fields if column.name != "schema")
    return replace(proposal, fields=rows, notes=(*proposal.notes, "Connect's schema in each message is left out"))


def with_standard(options: Mapping[str, Any], *places: ValueSummary) -> tuple[dict[str, Any], bool]:
    """The options with the standard of timestamps that reads most of the columns, and whether that is ISO-8601."""
    completed = dict(options)
    if STANDARD not in completed:
        whole = ValueSummary(members={str(at): place for at, place in enumerate(places)})
        standard = standard_of(whole)
        completed |= {} if standard == "SQL" else {STANDARD: standard}
    return completed, completed.get(STANDARD) == "ISO-8601"
