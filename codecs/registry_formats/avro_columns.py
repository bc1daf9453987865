"""Columns of Avro messages whose schemas are in a registry: what the messages are, and the columns of their schemas."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs.avro.columns import columns_of_schema
from kvformat.codecs.avro.merge import merge_records, unread_fields
from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.references import parse_complete
from kvformat.codecs.avro.schema import Schema
from kvformat.codecs.avro.types import schema_text
from kvformat.codecs.changes.primary_key import KeyNames, names_of_json, primary_key
from kvformat.codecs.debezium.columns import MARKED_DESCRIPTION, NAMED_DESCRIPTION
from kvformat.codecs.debezium.connect_schema import image_schema_from_avro
from kvformat.codecs.debezium.options import FLATTENED
from kvformat.codecs.debezium.own_types import MARKS, TYPES, DebeziumColumns
from kvformat.codecs.discovery.column_types import Notes, shown
from kvformat.codecs.discovery.message_kinds import schema_id_of
from kvformat.codecs.registries.cache import schemas_by_id
from kvformat.codecs.registries.registry import AVRO
from kvformat.codecs.registry_formats.options import READ_ENUM_AND_FIXED
from kvformat.codecs.registry_formats.recognize import (
    CHANGES,
    MARKED_ROWS,
    MAX_IDS,
    NAMED_ROWS,
    NOT_ASKED,
    confluent_frames,
    options_with_url,
)
from kvformat.codecs.registry_formats.record_samples import split_by_type
from kvformat.codecs.registry_formats.registry_schemas import read_schemas
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schema_registries import RegistrySchema, RegistrySettings
from kvformat.registry.contract.types import FlinkType

if TYPE_CHECKING:
    from kvformat.codecs.registry_formats.format import RegistryFormat

_FLATTENED_KINDS = {MARKED_ROWS: MARKED_DESCRIPTION, NAMED_ROWS: NAMED_DESCRIPTION}


def recognize_confluent(sample: MessageSample) -> list[Recognition]:
    """Recognize records in Confluent's frame: all of them, or only Avro if a registry was asked for their schemas."""
    frames = sample.computed(confluent_frames)
    recognized = []
    for kind, indices in frames.indices.items():
        if kind == NOT_ASKED:
            recognized.append(
                Recognition(indices, 0.9, frames.description, options_with_url(sample), notes=frames.notes)
            )
        elif kind == AVRO:
            avro = Recognition(indices, 1.0, f"{frames.description}; they are Avro", sample.registry)
            recognized += split_by_type(sample, avro, "avro-confluent")
        elif kind in _FLATTENED_KINDS and sample.part == "key":
            recognized.append(_flattened_rows(sample, kind))
    return recognized


def recognize_debezium_avro(sample: MessageSample) -> list[Recognition]:
    """Recognize records in Confluent's frame with a schema of Debezium: change events, or flattened rows in values."""
    frames = sample.computed(confluent_frames)
    recognized = []
    for kind, indices in frames.indices.items():
        if kind == CHANGES:
            are = f"{frames.description}; they are Debezium's changes in Avro"
            recognized.append(Recognition(indices, 1.0, are, sample.registry))
        elif kind in _FLATTENED_KINDS and sample.part == "value":
            rows = _flattened_rows(sample, kind)
            options = {**sample.registry, FLATTENED.name: "true"}
            recognized.append(replace(rows, options=options, format="", without_key=rows))
    return recognized


def _flattened_rows(sample: MessageSample, kind: str) -> Recognition:
    frames = sample.computed(confluent_frames)
    are = f"{frames.description}; they are Avro {_FLATTENED_KINDS[kind]}"
    marked = kind == MARKED_ROWS
    return Recognition(frames.indices[kind], 1.0, are, sample.registry, format="avro-confluent", marks_deletes=marked)


def propose_registry(
    sample: MessageSample, options: Mapping[str, Any], fmt: RegistryFormat, name: str | None = None
) -> SchemaProposal:
    """Propose columns that read all schemas in the messages. A part that they do not read becomes a note.

    `name` is the full name of the messages' type, if their schemas may be unions with other types.
    """
    notes = Notes()
    schemas = [branch_of(schema, name) for schema in _schemas(sample, fmt, notes)]
    if not schemas:
        return SchemaProposal((), options, (), notes.texts())
    proposal = columns_of_schema(merge_records(schemas, notes), options, notes)
    return _checked(proposal, schemas, fmt, notes)


def _checked(proposal: SchemaProposal, schemas: list[Schema], fmt: RegistryFormat, notes: Notes) -> SchemaProposal:
    """Return a proposal with the option that reads its sample, and with notes for what it does not read.

    Fields without a column were notes before.
    """
    row = FlinkType("ROW", nullable=False, fields=proposal.fields)
    try:
        reader = parse_schema(str(proposal.options.get("schema") or schema_text(row, legacy=True)))
        plain = bool(fmt.options[READ_ENUM_AND_FIXED])
        if not plain and any(unread_fields(schema, reader, False) for schema in schemas):
            as_plain = [unread_fields(schema, reader, True) for schema in schemas]
            if as_plain != [unread_fields(schema, reader, False) for schema in schemas]:
                plain, proposal = True, replace(proposal, options={**proposal.options, READ_ENUM_AND_FIXED: "true"})
        for schema in schemas:
            types = {field.name: field.schema for field in (schema.optional or schema).fields}
            for name in unread_fields(schema, reader, plain) or ():
                notes.add(f"{types[name]} in some schemas, which no column reads with the others: errors", shown(name))
    except SchemaError:
        return proposal
    return replace(proposal, notes=notes.texts())


def branch_of(schema: Schema, name: str | None) -> Schema:
    """Return the branch of a union that has a full name, or the schema itself if there is none."""
    return next((branch for branch in schema.branches if branch.full_name == name), schema)


def propose_debezium_avro(sample: MessageSample, options: Mapping[str, Any], fmt: RegistryFormat) -> SchemaProposal:
    """Propose the columns of the rows before and after a change, from the schemas in the messages.

    If the schemas have Debezium's own types and `types` is not given, the proposal sets 'types' = 'debezium'.
    """
    notes = Notes()
    flat: bool = fmt.options[FLATTENED.name]
    schemas = _schemas(sample, fmt, notes)
    if options.get("types") == "flink":
        images = [image for schema in schemas if (image := row_of(schema) if flat else image_of(schema)) is not None]
        if not images:
            return SchemaProposal((), options, (), notes.texts())
        proposal = columns_of_schema(merge_records(images, notes), {**options, "schema": ""}, notes)
        proposal = replace(proposal, options=options)
    else:
        typed = DebeziumColumns(fmt.identifier, options, sample.array())
        for schema in schemas:
            typed.declare(image_schema_from_avro(schema, flat=flat), without=MARKS if flat else ())
        more = TYPES if typed.have_own_types or typed.have_moments else {}
        proposal = SchemaProposal(typed.columns(notes), {**options, **more})
    if flat and any(field.name in MARKS for schema in schemas for field in schema.fields):
        notes.add(f"{' and '.join(MARKS)} say what was done to a row: they are its kind, and not columns")
    key = primary_key(_key_names(sample, fmt.settings), [field.name for field in proposal.fields], notes)
    return replace(proposal, primary_key=key, notes=notes.texts())


def _key_names(sample: MessageSample, settings: RegistrySettings) -> Counter[KeyNames]:
    """Count the field names of the keys, which are Avro records of the same registry or JSON objects."""
    keys = sample.keys or ()
    ids = Counter[int | str](schema_id for key in keys if key and (schema_id := schema_id_of(key)) is not None)
    if not ids:
        return names_of_json(keys)
    counts = Counter[KeyNames]()
    for schema_id, answer in schemas_by_id(settings, [schema_id for schema_id, _ in ids.most_common(MAX_IDS)]).items():
        names: KeyNames = ()
        if isinstance(answer, RegistrySchema) and answer.kind == AVRO:
            with contextlib.suppress(SchemaError):
                names = tuple(field.name for field in parse_complete(answer).fields)
        if names:
            counts[names] += ids[schema_id]
    return counts


def row_of(schema: Schema) -> Schema | None:
    """Return the record schema of a flattened row without the fields in `MARKS`; None if it is not a record."""
    row = schema if schema.optional is None else schema.optional
    return replace(row, fields=tuple(f for f in row.fields if f.name not in MARKS)) if row.type == "record" else None


def image_of(schema: Schema) -> Schema | None:
    """Return the record schema of `after`, or else of `before`; None if the envelope has neither."""
    envelope = schema if schema.optional is None else schema.optional
    images = [field.schema for field in envelope.fields if field.name in ("after", "before")]
    return next((image.optional or image for image in images if (image.optional or image).type == "record"), None)


def _schemas(sample: MessageSample, fmt: RegistryFormat, notes: Notes) -> list[Schema]:
    """Return the schemas of the ids in the messages, the newest first. Ids that cannot be resolved become notes."""
    messages = pa.array(sample.present(), pa.binary())
    frames = fmt.framing.read(messages, np.asarray(messages.is_valid()), only_ids=True)
    ids = Counter((schema_id,) for schema_id in frames.schemas(frames.ids[frames.good].tolist()))
    other = len(messages) - ids.total()
    if other:
        notes.add(f"{other} messages do not begin with {fmt.framing.text}, and are skipped")
    return read_schemas(ids, AVRO, fmt.settings, notes, parse_complete)
