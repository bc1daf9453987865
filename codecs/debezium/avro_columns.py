"""Columns of Debezium's changes in Avro, by the schemas of their ids in a registry."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvformat.codecs.avro.columns import columns_of_schema, schemas_of_messages
from kvformat.codecs.avro.merge import merge_records
from kvformat.codecs.avro.references import parse_complete
from kvformat.codecs.avro.schema import Schema
from kvformat.codecs.changes.primary_key import KeyNames, names_of_json, primary_key
from kvformat.codecs.debezium.connect_schema import image_schema_from_avro
from kvformat.codecs.debezium.own_types import MARKS, TYPES, DebeziumColumns
from kvformat.codecs.discovery.column_types import Notes
from kvformat.codecs.discovery.message_kinds import schema_id_of
from kvformat.codecs.discovery.registered_schemas import MAX_IDS
from kvformat.codecs.registries.cache import schemas_of_kind
from kvformat.codecs.registries.format_registry import Registry
from kvformat.codecs.registries.registry import AVRO
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.schema_registries import RegistrySchema, RegistrySettings


def propose_debezium_avro(
    sample: MessageSample, options: Mapping[str, Any], registry: Registry, format: str, *, flat: bool
) -> SchemaProposal:
    """Propose the columns of the rows before and after a change, from the schemas in the messages.

    If the schemas have Debezium's own types and `types` is not given, the proposal sets 'types' = 'debezium'.
    """
    notes = Notes()
    schemas = schemas_of_messages(sample, registry, notes)
    if options.get("types") == "flink":
        images = [image for schema in schemas if (image := row_of(schema) if flat else image_of(schema)) is not None]
        if not images:
            return SchemaProposal((), options, (), notes.texts())
        proposal = columns_of_schema(merge_records(images, notes), {**options, "schema": ""}, notes)
        proposal = replace(proposal, options=options)
    else:
        typed = DebeziumColumns(format, options, sample.array())
        for schema in schemas:
            typed.declare(image_schema_from_avro(schema, flat=flat), without=MARKS if flat else ())
        more = TYPES if typed.have_own_types or typed.have_moments else {}
        proposal = SchemaProposal(typed.columns(notes), {**options, **more})
    if flat and any(field.name in MARKS for schema in schemas for field in schema.fields):
        notes.add(f"{' and '.join(MARKS)} say what was done to a row: they are its kind, and not columns")
    key = primary_key(_key_names(sample, registry.settings), [field.name for field in proposal.fields], notes)
    return replace(proposal, primary_key=key, notes=notes.texts())


def _key_names(sample: MessageSample, settings: RegistrySettings) -> Counter[KeyNames]:
    """Count the field names of the keys, which are Avro records of the same registry or JSON objects."""
    keys = sample.keys or ()
    ids = Counter[int | str](schema_id for key in keys if key and (schema_id := schema_id_of(key)) is not None)
    if not ids:
        return names_of_json(keys)
    counts = Counter[KeyNames]()
    usual = [schema_id for schema_id, _ in ids.most_common(MAX_IDS)]
    for schema_id, schema in schemas_of_kind(settings, usual, AVRO).items():
        names: KeyNames = ()
        if isinstance(schema, RegistrySchema):
            with contextlib.suppress(SchemaError):
                names = tuple(field.name for field in parse_complete(schema).fields)
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
