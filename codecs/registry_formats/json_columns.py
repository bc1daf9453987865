"""Recognize messages with JSON Schemas in a registry, and propose the columns of their schemas."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvformat.codecs.discovery.column_types import Notes
from kvformat.codecs.discovery.message_kinds import CONFLUENT_JSON, indices_of, schema_id_of
from kvformat.codecs.json.columns import propose_rows
from kvformat.codecs.json.schema_columns import columns_of_json_schema
from kvformat.codecs.registries.confluent_frames import body
from kvformat.codecs.registries.registry import JSON
from kvformat.codecs.registry_formats.recognize import options_with_url
from kvformat.codecs.registry_formats.record_samples import split_by_type
from kvformat.codecs.registry_formats.registry_schemas import columns_of_all, read_schemas
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schema_registries import RegistrySettings


def without_frames(sample: MessageSample) -> MessageSample:
    """Return the sample without Confluent's frames; messages without a frame are null."""
    values = tuple(body(m) if m is not None and schema_id_of(m) is not None else None for m in sample.values)
    return replace(sample, values=values)


def recognize_json_registry(sample: MessageSample) -> list[Recognition]:
    """Recognize records in Confluent's frame with JSON after it."""
    indices = indices_of(sample, CONFLUENT_JSON)
    if not indices:
        return []
    are = "begin with 00 and a schema id, Confluent's frame, and go on as JSON"
    hint = () if sample.registry.get("url") else ("give a schema registry, and columns come from its JSON Schemas",)
    return list(
        split_by_type(sample, Recognition(indices, 1.0, are, options_with_url(sample), notes=hint), "json-registry")
    )


def recognize_json_debezium(sample: MessageSample) -> list[Recognition]:
    """Recognize Debezium's changes in JSON after Confluent's frame."""
    indices = []
    for index in indices_of(sample, CONFLUENT_JSON):
        tree: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            tree = json.loads(body(sample.values[index] or b""))
        if isinstance(tree, dict) and {"before", "after", "op"} <= tree.keys():
            indices.append(index)
    are = "begin with 00 and a schema id, Confluent's frame, and go on as Debezium's changes in JSON"
    return [Recognition(tuple(indices), 1.0, are, options_with_url(sample), specificity=3)] if indices else []


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
