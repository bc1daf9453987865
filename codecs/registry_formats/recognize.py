"""Recognize messages in Confluent's frame, by the ids that a schema registry knows, or by the JSON after it."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from kvformat.codecs.avro.references import parse_complete
from kvformat.codecs.debezium.columns import (
    DEBEZIUM_MEMBERS,
    MARKED_DESCRIPTION,
    NAMED_DESCRIPTION,
    is_named_by_debezium,
)
from kvformat.codecs.debezium.connect_schema import image_schema_from_avro
from kvformat.codecs.debezium.options import FLATTENED
from kvformat.codecs.discovery.message_kinds import CONFLUENT_JSON, indices_of, schema_id_of
from kvformat.codecs.discovery.numbers import number_type
from kvformat.codecs.discovery.registered_schemas import MAX_IDS
from kvformat.codecs.protobuf.registry_schema import message_types
from kvformat.codecs.protobuf.schema_columns import type_of_message
from kvformat.codecs.registries.cache import schemas_by_id, schemas_of_kind
from kvformat.codecs.registries.confluent_frames import CONFLUENT, IndexPath, body
from kvformat.codecs.registries.registry import AVRO, PROTOBUF
from kvformat.codecs.registry_formats.record_samples import split_by_type
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.errors import SchemaError, SchemaRegistryError
from kvformat.registry.contract.samples import MessageSample, Recognition
from kvformat.registry.contract.schema_registries import RegistrySchema

if TYPE_CHECKING:
    from kvformat.codecs.registry_formats.format import RegistryFormat

NOT_ASKED, UNKNOWN, CHANGES = "not asked", "unknown", "changes"
MARKED_ROWS, NAMED_ROWS = "marked rows", "named rows"
"""Debezium's rows without an envelope: with a member that marks deleted rows; with its members, or its names."""
_FLATTENED_KINDS = {MARKED_ROWS: MARKED_DESCRIPTION, NAMED_ROWS: NAMED_DESCRIPTION}
_CHANGE = {"before", "after", "op"}
_MAX_SHOWN_IDS = 5  # in a description


@dataclass(frozen=True)
class ConfluentFrames:
    """Messages in Confluent's frame by the kind of their schema.

    indices: kind -> indices of messages. The kind is a constant of this module, or the registry's own word for a
        schema that is not Avro, such as PROTOBUF.
    description: what all these messages are, with some ids; it continues the text "3 of 5 messages".
    """

    indices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    description: str = ""
    notes: tuple[str, ...] = ()


def options_with_url(sample: MessageSample) -> Mapping[str, Any]:
    """Return the options of the sample's registry; none if it has no URL, because it is that of AWS Glue."""
    return sample.registry if sample.registry.get("url") else {}


def confluent_frames(sample: MessageSample) -> ConfluentFrames:
    """Sort the messages in Confluent's frame; asks the registry of the sample, if there is one."""
    indices_of_frames = indices_of(sample, CONFLUENT)
    ids = {index: schema_id_of(sample.values[index] or b"") or 0 for index in indices_of_frames}
    if not ids:
        return ConfluentFrames()
    may_be_numbers = sample.computed(number_type) is not None
    usual = [schema_id for schema_id, _ in Counter(ids.values()).most_common(MAX_IDS)]
    shown = ", ".join(map(str, usual[:_MAX_SHOWN_IDS])) + (", ..." if len(usual) > _MAX_SHOWN_IDS else "")
    description = f"begin with 00 and a schema id, Confluent's frame ({shown})"
    not_asked = ConfluentFrames({NOT_ASKED: tuple(ids)}, description)
    if not sample.registry.get("url"):
        note = "give a schema registry, and it is asked what the ids stand for: Avro, JSON Schema, Protobuf"
        not_asked = replace(
            not_asked, description=f"{description}; no registry was asked what they stand for", notes=(note,)
        )
        return ConfluentFrames() if may_be_numbers else not_asked
    registry = cast("RegistryFormat", get_format("avro-confluent", sample.registry))
    try:
        answers = schemas_by_id(registry.settings, usual)
    except SchemaRegistryError as error:
        return ConfluentFrames() if may_be_numbers else replace(not_asked, notes=(str(error),))
    kinds: dict[str, list[int]] = {}
    for index, schema_id in ids.items():
        schema = answers.get(schema_id)
        kind = _kind(schema) if isinstance(schema, RegistrySchema) else UNKNOWN
        kinds.setdefault(kind, []).append(index)
    if may_be_numbers and kinds.keys() == {UNKNOWN}:
        return ConfluentFrames()
    return ConfluentFrames({kind: tuple(indices) for kind, indices in kinds.items()}, description)


def _kind(registered: RegistrySchema) -> str:
    """The kind of a schema, and whether an Avro schema is Debezium's of changes, or of rows without an envelope."""
    if registered.kind != AVRO:
        return registered.kind
    try:
        schema = parse_complete(registered)
    except SchemaError:
        return AVRO
    names = {field.name for field in schema.fields}
    if names >= _CHANGE:
        return CHANGES
    if "__deleted" in names:
        return MARKED_ROWS
    image = image_schema_from_avro(schema, flat=True)
    named = image is not None and is_named_by_debezium(replace(image, name=schema.full_name))
    return NAMED_ROWS if named or DEBEZIUM_MEMBERS & names else AVRO


# --- Avro ------------------------------------------------------------------------------------------------


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


# --- Protobuf --------------------------------------------------------------------------------------------


def recognize_proto_registry(sample: MessageSample) -> list[Recognition]:
    """Recognize records in Confluent's frame whose schema is Protobuf, by the registry."""
    frames = sample.computed(confluent_frames)
    indices, are = frames.indices.get(PROTOBUF, ()), f"{frames.description}; they are Protobuf"
    return list(split_by_type(sample, Recognition(indices, 1.0, are, sample.registry), "proto-registry"))


def recognize_proto_debezium(sample: MessageSample) -> list[Recognition]:
    """Recognize Debezium's changes in Protobuf, by the schemas in the registry."""
    frames = sample.computed(confluent_frames)
    indices = frames.indices.get(PROTOBUF, ())
    if not indices:
        return []
    settings = cast("RegistryFormat", get_format("proto-registry", sample.registry)).settings
    kinds = {index: type_of_message(sample.values[index] or b"") for index in indices}
    are_changes: dict[tuple[int | str, IndexPath], bool] = {}
    for schema_id, path in {kind for kind in kinds.values() if kind is not None}:
        (schema,) = schemas_of_kind(settings, [schema_id], PROTOBUF).values()
        with contextlib.suppress(SchemaError):
            if isinstance(schema, RegistrySchema):
                names = {field.name for field in message_types(schema, path, "proto-registry").message.fields}
                are_changes[schema_id, path] = names >= _CHANGE
    changes = tuple(index for index, kind in kinds.items() if kind is not None and are_changes.get(kind))
    are = f"{frames.description}; they are Debezium's changes in Protobuf"
    return [Recognition(changes, 1.0, are, sample.registry, specificity=3)] if changes else []


# --- JSON ------------------------------------------------------------------------------------------------


def recognize_json_registry(sample: MessageSample) -> list[Recognition]:
    """Recognize records in Confluent's frame with JSON after it."""
    indices = indices_of(sample, CONFLUENT_JSON)
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
        if isinstance(tree, dict) and tree.keys() >= _CHANGE:
            indices.append(index)
    are = "begin with 00 and a schema id, Confluent's frame, and go on as Debezium's changes in JSON"
    return [Recognition(tuple(indices), 1.0, are, options_with_url(sample), specificity=3)] if indices else []


IN_CONFLUENTS_FRAME: Mapping[str, Callable[[MessageSample], list[Recognition]]] = {
    "avro-confluent": recognize_confluent,
    "debezium-avro-confluent": recognize_debezium_avro,
    "proto-registry": recognize_proto_registry,
    "proto-debezium-registry": recognize_proto_debezium,
    "json-registry": recognize_json_registry,
}
"""What each format recognizes, by its identifier."""
