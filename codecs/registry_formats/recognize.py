"""Recognize messages in Confluent's frame by the ids that a schema registry knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from kvformat.codecs.avro.references import parse_complete
from kvformat.codecs.debezium.columns import DEBEZIUM_MEMBERS, is_named_by_debezium
from kvformat.codecs.debezium.connect_schema import image_schema_from_avro
from kvformat.codecs.discovery.message_kinds import indices_of, schema_id_of
from kvformat.codecs.discovery.numbers import number_type
from kvformat.codecs.registries.cache import schemas_by_id
from kvformat.codecs.registries.confluent_frames import CONFLUENT
from kvformat.codecs.registries.registry import AVRO
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.errors import SchemaError, SchemaRegistryError
from kvformat.registry.contract.samples import MessageSample
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema

if TYPE_CHECKING:
    from kvformat.codecs.registry_formats.format import RegistryFormat

NOT_ASKED, UNKNOWN, CHANGES = "not asked", "unknown", "changes"
MARKED_ROWS, NAMED_ROWS = "marked rows", "named rows"
"""Debezium's rows without an envelope: with a member that marks deleted rows; with its members, or its names."""
MAX_IDS = 100  # of schemas, the most frequent ones: each is a question to the registry
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
        kinds.setdefault(_kind(answers.get(schema_id)), []).append(index)
    if may_be_numbers and kinds.keys() == {UNKNOWN}:
        return ConfluentFrames()
    return ConfluentFrames({kind: tuple(indices) for kind, indices in kinds.items()}, description)


def _kind(answer: RegistrySchema | Refused | None) -> str:
    """The kind of schema that a registry has for an id."""
    if isinstance(answer, RegistrySchema):
        return _kind_of_avro(answer) if answer.kind == AVRO else answer.kind
    return UNKNOWN


def _kind_of_avro(registered: RegistrySchema) -> str:
    """Whether an Avro schema is Debezium's of changes, or of rows without an envelope."""
    try:
        schema = parse_complete(registered)
    except SchemaError:
        return AVRO
    names = {field.name for field in schema.fields}
    if names >= {"before", "after", "op"}:
        return CHANGES
    if "__deleted" in names:
        return MARKED_ROWS
    image = image_schema_from_avro(schema, flat=True)
    named = image is not None and is_named_by_debezium(replace(image, name=schema.full_name))
    return NAMED_ROWS if named or DEBEZIUM_MEMBERS & names else AVRO
