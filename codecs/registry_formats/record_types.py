"""The types of the messages of a topic with records of several types, by their schemas in a registry.

    00  00 00 00 01  ...       schema 1 is a record com.shop.Order        com.shop.Order
    00  00 00 00 02  02  ...   schema 2 is a union, the datum of branch 1  com.shop.Refund
    00  00 00 00 03  02 04     schema 3 is a Protobuf file                 the message at the index path 2

A type has the name of Confluent's `RecordNameStrategy`: the full name of an Avro record or of a Protobuf message, and
the `title` of a JSON Schema. Names are cached by schema, and no datum is decoded for them, with one exception: a
message of a JSON Schema with `oneOf` does not name its branch. If each branch requires the same member and gives it
other constants, the value of that member tells the branch.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints
from kvformat.codecs.avro.references import parse_complete
from kvformat.codecs.json.read import JsonReader
from kvformat.codecs.json.references import SchemaDocuments, required_members
from kvformat.codecs.json.settings import ReadSettings
from kvformat.codecs.protobuf.frames import message_groups, only_group
from kvformat.codecs.protobuf.registry_schema import message_types
from kvformat.codecs.registries.cache import schemas_of_kind
from kvformat.codecs.registries.confluent_frames import FIRST, IndexPath
from kvformat.codecs.registries.framing import Frames, Framing, distinct_ids
from kvformat.codecs.registries.registry import AVRO, JSON, PROTOBUF, unknown_schema
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings
from kvformat.registry.contract.types import STRING, FlinkField, FlinkType

NAMELESS = "(without a name)"
"""The name of types whose schema has none, such as a JSON Schema without a title."""


@dataclass
class RecordTypes:
    """The types of a batch of messages.

    which: for each message the number of its type in `names`. It is -1 for a null message, and for a message that has
        no schema or a schema that can't be read: decoding reports its error.
    names, schemas: for each type its name, and the id or GUID of its schema. Several types may have the same name.
    errors: messages whose type can't be told, by index, with the names that are possible and the reason.
    """

    which: Ints
    names: list[str] = field(default_factory=list)
    schemas: list[int | str] = field(default_factory=list)
    errors: dict[int, tuple[frozenset[str], Reason]] = field(default_factory=dict)

    def add(self, name: str, schema: int | str) -> int:
        """Add a type and return its number."""
        self.names.append(name)
        self.schemas.append(schema)
        return len(self.names) - 1

    def by_name(self) -> dict[str, Ints]:
        """Return the indices of the messages of each name."""
        numbers: dict[str, list[int]] = {}
        for number, name in enumerate(self.names):
            numbers.setdefault(name, []).append(number)
        by_name = {name: np.flatnonzero(np.isin(self.which, of_name)) for name, of_name in numbers.items()}
        return {name: indices for name, indices in by_name.items() if len(indices)}


def record_types(
    messages: pa.BinaryArray, framing: Framing, kind: str, settings: RegistrySettings, format: str
) -> RecordTypes:
    """Return the types of messages whose schemas are of a kind. Raises `SchemaRegistryError`."""
    groups, which, frames = schema_groups(messages, framing, kind)
    types, numbers = RecordTypes(which), np.full(len(groups) + 1, -1, np.int64)
    unions: list[tuple[int, RegistrySchema, int | str, Ints]] = []
    answers = schemas_of_kind(settings, list(dict.fromkeys(schema_id for schema_id, _ in groups)), kind)
    for group, (schema_id, path) in enumerate(groups):
        schema = answers[schema_id]
        names = () if isinstance(schema, Refused) else names_of_schema(schema, path, format)
        if isinstance(schema, Refused) or not names:
            if kind == JSON:  # whose reader does not ask for schemas
                why = schema.reason if isinstance(schema, Refused) else "it is not valid JSON"
                why += ". Its type is needed for the options about records"
                reason = unknown_schema(settings, schema_id, why)
                types.errors |= dict.fromkeys(np.flatnonzero(which == group).tolist(), (frozenset(), reason))
            continue
        added = [types.add(name, schema_id) for name in names]
        if len(added) == 1:
            numbers[group] = added[0]
        elif added:
            unions.append((group, schema, schema_id, np.array([*added, -1])))
    if len(groups) > 1 or numbers[0] != 0 or which.min(initial=0) < 0:
        types.which = numbers[np.maximum(which, -1)]
    for group, schema, schema_id, branches in unions:
        assert frames is not None  # a Protobuf schema has no unions
        places = np.flatnonzero(which == group)
        if kind == AVRO:
            types.which[places] = branches[_branches(frames, places, len(branches) - 1)]
        else:
            _place_json(types, frames, places, branches, schema, schema_id)
    return types


def schema_groups(
    messages: pa.BinaryArray, framing: Framing, kind: str
) -> tuple[list[tuple[int | str, IndexPath]], Ints, Frames | None]:
    """Return the schemas of messages with the path of a Protobuf message, and the number of each message's schema.

    The number is -1 for a message without a schema. The frames are None if they did not have to be read.
    """
    only = only_group(messages) if kind == PROTOBUF else None
    if only is not None:
        return [(only.schema_id, only.path)], np.zeros(len(messages), np.int64), None
    present = np.asarray(messages.is_valid()) if messages.null_count else np.ones(len(messages), np.bool_)
    frames = framing.read(messages, present)
    if kind == PROTOBUF:
        groups, which = message_groups(frames)
        return [(group.schema_id, group.path) for group in groups], which, frames
    if frames.good.all():
        distinct, which = distinct_ids(frames.ids)
    else:
        which = np.full(len(frames.ids), -1, np.int64)
        distinct, which[frames.good] = distinct_ids(frames.ids[frames.good])
    return [(key, FIRST) for key in frames.schemas(distinct.tolist())], which, frames


@functools.lru_cache(maxsize=1024)
def names_of_schema(schema: RegistrySchema, path: IndexPath = FIRST, format: str = "") -> tuple[str, ...]:
    """Return the full name of the type of a schema, or those of the branches if it is a union of several.

    `path` is that of a Protobuf message in its file. Empty for a schema that is not valid.
    """
    try:
        if schema.kind == AVRO:
            avro = parse_complete(schema)
            if avro.type == "union" and avro.optional is None:
                return tuple(branch.full_name for branch in avro.branches)
            return (avro.full_name if avro.optional is None else avro.optional.full_name,)
        if schema.kind == PROTOBUF:
            return (message_types(schema, path, format).root,)
        documents = SchemaDocuments.of(schema)
    except SchemaError:
        return ()
    branches = documents.branches()
    if len(branches) > 1:
        return tuple(documents.title(branch) or NAMELESS for branch in branches)
    return (next(filter(None, map(documents.title, [*branches, documents.root])), NAMELESS),)


# --- unions ------------------------------------------------------------------------------------------------


def _branches(frames: Frames, places: Ints, count: int) -> Ints:
    """Return the number of the branch of each datum of a union, -1 if it is not one of the `count` branches."""
    messages, size = frames.messages, frames.size
    offsets = np.frombuffer(messages.buffers()[1], np.int32, len(messages) + 1, messages.offset * 4).astype(np.int64)
    data = np.frombuffer(messages.buffers()[2] or b"\0", np.uint8)
    starts, ends = offsets[:-1][places] + size, offsets[1:][places]
    first = np.where(starts < ends, data[np.minimum(starts, len(data) - 1)], 1).astype(np.int64)
    numbers = np.where(first & 1, -1, first >> 1)
    for place in np.flatnonzero((first > 127) & (starts + 1 < ends)).tolist():  # branches from number 64 on
        second = int(data[starts[place] + 1])
        numbers[place] = (int(first[place]) & 127 | second << 7) >> 1 if second < 128 and not first[place] & 1 else -1
    branches: Ints = np.where(numbers < count, numbers, -1)
    return branches


@functools.lru_cache(maxsize=256)
def _constants(schema: RegistrySchema) -> tuple[str, dict[str, int]] | None:
    """Return the member that tells the branch of a JSON Schema, and the number of the branch by its value."""
    documents = SchemaDocuments.of(schema)
    branches = [documents.target(branch) for branch in documents.branches()]
    members = branches[0].get("properties")
    for name in members if isinstance(members, dict) else ():
        texts = [_required_texts(branch, name, documents) for branch in branches]
        values = {text: number for number, of_branch in enumerate(texts) for text in of_branch}
        if all(texts) and len(values) == sum(map(len, texts)):
            return name, values
    return None


def _required_texts(branch: Mapping[str, Any], name: str, documents: SchemaDocuments) -> list[str]:
    """Return the texts that a schema allows for a member; none if others are allowed, or no such member."""
    properties = branch.get("properties")
    member = documents.target(properties.get(name)) if isinstance(properties, dict) else {}
    texts = [member["const"]] if "const" in member else member.get("enum")
    if name not in required_members(branch) or not isinstance(texts, list):
        return []
    return list(dict.fromkeys(texts)) if all(isinstance(text, str) for text in texts) else []


def _place_json(
    types: RecordTypes, frames: Frames, places: Ints, numbers: Ints, schema: RegistrySchema, schema_id: int | str
) -> None:
    """Place messages of a JSON Schema with several branches, which have these numbers."""
    possible = frozenset(types.names[number] for number in numbers[:-1].tolist())
    shown, known = ", ".join(sorted(possible)), _constants(schema)
    if known is None:
        reason = Reason(
            ErrorCode.INCOMPATIBLE_SCHEMA,
            f"the JSON Schema {schema_id} is one of {shown}, and nothing in a message tells which: no member is "
            "required by all of them with constants (const, enum) that differ. Register a schema for each of them, or "
            "read the messages without the options about records",
        )
        types.errors |= dict.fromkeys(places.tolist(), (possible, reason))
        return
    name, branches = known
    rows = _reader(name).read(frames.messages.take(pa.array(places)), skip=frames.size).rows
    has_rows = np.asarray(rows.value_lengths().fill_null(0)) > 0  # decoding says why others have none
    firsts = pa.array(rows.offsets.to_numpy()[:-1][has_rows])
    indices = pc.index_in(rows.values.field(0).take(firsts), pa.array(list(branches)))
    which = np.array([*branches.values(), -1])[np.asarray(indices.fill_null(-1))]
    types.which[places[has_rows]] = numbers[which]
    for place in places[has_rows][which < 0].tolist():
        reason = Reason(
            ErrorCode.INCOMPATIBLE_SCHEMA,
            f"the message does not have the member {name!r} with one of the values {', '.join(branches)}, which tells "
            f"its type. The JSON Schema {schema_id} has {shown}",
        )
        types.errors[place] = (possible, reason)


@functools.lru_cache(maxsize=256)
def _reader(name: str) -> JsonReader:
    return JsonReader(FlinkType("ROW", nullable=False, fields=(FlinkField(name, STRING),)), ReadSettings())
