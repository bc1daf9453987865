"""Columns from Protobuf schemas of a registry: of a subject, or of messages with a schema id.

| proto | Flink |
| --- | --- |
| bool, float, double, string, bytes, enum | BOOLEAN, FLOAT, DOUBLE, STRING, BYTES, STRING |
| int32, sint32, sfixed32 | INT; TINYINT, SMALLINT by the parameter `connect.type` |
| int64 and others of 64 bits, uint32, fixed32 | BIGINT |
| google.protobuf.Timestamp | TIMESTAMP_LTZ; TIMESTAMP by the parameter `flink.type` |
| google.type.Date, google.type.TimeOfDay, confluent.type.Decimal | DATE, TIME(3), DECIMAL |
| google.protobuf.Int64Value and the other wrappers | the type of their value |
| a message with the parameter `flink.wrapped` | the type of its value |
| message, map, repeated, repeated messages of key and value with `Entry` in their name | ROW, MAP, ARRAY, MAP |
| a message inside of itself, a message without fields | left out, with a note |

A field that the wire format can't distinguish from its default is NOT NULL, as is a message with `flink.notNull`.
Rules: "Data Type Mappings" in the documentation of Confluent Cloud for Apache Flink.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvformat.codecs.discovery.column_types import Notes, array_of
from kvformat.codecs.discovery.message_kinds import schema_id_of
from kvformat.codecs.discovery.registered_schemas import columns_of_all, common_type, read_schemas
from kvformat.codecs.discovery.value_summary import MOST_DIGITS
from kvformat.codecs.protobuf.field_columns import WRAPPERS
from kvformat.codecs.protobuf.registry_schema import DATE, DECIMAL, TIME_OF_DAY, TIMESTAMP, message_types
from kvformat.codecs.protobuf.schema_text import (
    CONNECT_TYPE,
    FLINK_MAX,
    FLINK_MIN,
    FLINK_PRECISION,
    FLINK_TYPE,
    NOT_NULL,
    PRECISION,
    SCALE,
    VALUE,
    WRAPPED,
)
from kvformat.codecs.protobuf.types import GROUP, MESSAGE, FieldType, MessageType, MessageTypes
from kvformat.codecs.registries.confluent_frames import FIRST, IndexPath, frame_size, read_path
from kvformat.codecs.registries.registry import PROTOBUF
from kvformat.registry.contract.common_types import merge_types
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.schema_registries import RegistrySchema, RegistrySettings
from kvformat.registry.contract.types import BYTES, INTEGER_BITS, MAX_LENGTH, STRING, FlinkField, FlinkType

_SMALL = {"int8": "TINYINT", "int16": "SMALLINT"}
_PLAIN = {
    "bool": "BOOLEAN",
    "float": "FLOAT",
    "double": "DOUBLE",
    **dict.fromkeys(("int32", "sint32", "sfixed32"), "INT"),
}
_ENTRY = "Entry"
_MOST_TYPES = 100_000
"""Types of one schema: a small schema whose messages use others many times could stand for any number."""


def propose_proto_registry(
    sample: MessageSample, options: Mapping[str, Any], settings: RegistrySettings
) -> SchemaProposal:
    """Propose the columns of the newest type in the messages, and the fields that only others have."""
    notes, kinds = Notes(), Counter(map(type_of_message, sample.present()))
    other = kinds.pop(None, 0)
    if other:
        notes.add(f"{other} messages do not begin with 00, the id of a schema and the path of a type, and are skipped")
    counts: Counter[tuple[Any, ...]] = Counter({kind: count for kind, count in kinds.items() if kind is not None})
    rows = read_schemas(
        counts, PROTOBUF, settings, notes, lambda schema, path: columns_of_proto_schema(schema, notes, path)
    )
    if len({path for _, path in counts}) > 1:
        notes.add("the messages have several types; the table has the columns of all of them")
    return SchemaProposal(columns_of_all(rows, notes, _common), options, (), notes.texts())


def _common(left: FlinkType, right: FlinkType) -> FlinkType | None:
    """Return the type of a column that reads fields of two types, as `evolve.py` reads them; None if there is none."""
    roots = {left.root, right.root}
    integers = roots & INTEGER_BITS.keys()
    if roots <= {"BOOLEAN", *integers} and len(integers) == 1:
        return left if left.root in integers else right
    if len(roots) == 1 or roots == integers or roots == {"FLOAT", "DOUBLE"}:
        merged = merge_types(left, right)
        return merged if merged.root in roots else None
    if roots & {"CHAR", "VARCHAR"} and roots & {"BINARY", "VARBINARY"}:
        return BYTES
    if "ARRAY" in roots:
        array, single = (left, right) if left.root == "ARRAY" else (right, left)
        if single.root == "MAP":  # its entries are messages
            single = FlinkType("ROW", nullable=False, fields=single.fields)
        element = common_type(array.fields[0].type, single, _common)
        return None if element is None else array_of(element)
    return None


def type_of_message(message: bytes) -> tuple[int | str, IndexPath] | None:
    """Return the schema's id and the path of a message; None without them."""
    schema_id = schema_id_of(message)
    path = None if schema_id is None else read_path(message, frame_size(message))
    return None if schema_id is None or path is None else (schema_id, path[0])


def columns_of_proto_schema(schema: RegistrySchema, notes: Notes, path: IndexPath = FIRST) -> tuple[FlinkField, ...]:
    """Return the columns for a message of a Protobuf schema. Raises `SchemaError` for a schema that is not valid."""
    types = message_types(schema, path, "proto-registry")
    fields = _Reading(types, notes).fields(types.message, "", (types.root,))
    if not fields:
        raise SchemaError(f"the message {types.root} has no fields that a table can have as columns")
    return fields


class _Reading:
    """Reads the types of one schema."""

    def __init__(self, types: MessageTypes, notes: Notes) -> None:
        self._types, self._notes = types, notes
        self._count = 0

    def fields(self, message: MessageType, path: str, around: tuple[str, ...]) -> tuple[FlinkField, ...]:
        columns = []
        for field in message.fields:
            inner = f"{path}.{field.name}" if path else field.name
            t = self._type(field, inner, around)
            if t is not None:
                columns.append(FlinkField(field.name, t))
        return tuple(columns)

    def _type(self, field: FieldType, path: str, around: tuple[str, ...]) -> FlinkType | None:
        """Return the type of a column; None, and a note, if no column can have the field."""
        self._count += 1
        if self._count > _MOST_TYPES:
            raise SchemaError(f"the Protobuf schema stands for more than {_MOST_TYPES} types")
        params = dict(field.params)
        entry = self._types.entry(field)
        if entry is None and field.repeated and field.kind == MESSAGE and WRAPPED not in params:
            message = self._types.messages[field.type_name]
            names = {inner.name for inner in message.fields}
            entry = message if names == {"key", VALUE} and message.name.endswith(_ENTRY) else None
        if entry is not None:
            return self._map(entry, params, path, around)
        value = self._value(field, params, path, around)
        if value is None:
            return None
        if field.repeated:
            return replace(array_of(value), nullable=False)
        return value if field.presence and NOT_NULL not in params else replace(value, nullable=False)

    def _map(
        self, entry: MessageType, params: Mapping[str, str], path: str, around: tuple[str, ...]
    ) -> FlinkType | None:
        parts = {part.name: self._type(part, f"{path}.{part.name}", around) for part in entry.fields}
        key, value = parts["key"], parts[VALUE]
        if key is None or value is None:
            return None
        if params.get(FLINK_TYPE) == "multiset":
            return FlinkType("MULTISET", nullable=False, fields=(FlinkField("element", key),))
        return FlinkType("MAP", nullable=False, fields=(FlinkField("key", key), FlinkField(VALUE, value)))

    def _value(
        self, field: FieldType, params: Mapping[str, str], path: str, around: tuple[str, ...]
    ) -> FlinkType | None:
        """Return the type of a single value, nullable if it is a message."""
        if field.kind not in (MESSAGE, GROUP):
            return self._scalar(field, params)
        name, message = field.type_name, self._types.messages[field.type_name]
        known = _of_message(name, params)
        if known is not None:
            return known
        if name in around:
            self._notes.add(f"the message {name} contains itself, which no table type does: left out", path)
            return None
        inside = (*around, name)
        if len(message.fields) == 1 and (name in WRAPPERS or params.get(WRAPPED) == "true"):
            (only,) = message.fields
            inner = replace(only, params=(*only.params, *((FLINK_TYPE, v) for k, v in field.params if k == FLINK_TYPE)))
            wrapped = self._type(inner, path, inside)
            optional = name in WRAPPERS or only.presence or (only.repeated and not field.repeated)
            return None if wrapped is None else replace(wrapped, nullable=optional)
        columns = self.fields(message, path, inside)
        if not columns:
            self._notes.add("a message without fields: left out", path)
            return None
        return FlinkType("ROW", nullable=NOT_NULL not in params and not field.repeated, fields=columns)

    @staticmethod
    def _scalar(field: FieldType, params: Mapping[str, str]) -> FlinkType:
        optional = field.presence
        if field.kind in ("string", "bytes"):
            return replace(_text(field.kind, params), nullable=optional)
        if field.kind == "enum":
            return replace(STRING, nullable=optional)
        small = _SMALL.get(params.get(CONNECT_TYPE, ""))
        if small is not None and _PLAIN.get(field.kind) == "INT":
            return FlinkType(small, nullable=optional)
        return FlinkType(_PLAIN.get(field.kind, "BIGINT"), nullable=optional)


def _of_message(name: str, params: Mapping[str, str]) -> FlinkType | None:
    """Return the type of a message that stands for a value; None for other messages."""
    nullable = NOT_NULL not in params
    if name == DATE:
        return FlinkType("DATE", nullable=nullable)
    if name == TIME_OF_DAY:
        return FlinkType("TIME", nullable=nullable, precision=min(_number(params, FLINK_PRECISION, 3), 3))
    if name == TIMESTAMP:
        root = "TIMESTAMP" if params.get(FLINK_TYPE) == "timestamp" else "TIMESTAMP_LTZ"
        return FlinkType(root, nullable=nullable, precision=min(_number(params, FLINK_PRECISION, 9), 9))
    if name == DECIMAL:
        precision = min(_number(params, PRECISION, MOST_DIGITS), MOST_DIGITS)
        scale = min(_number(params, SCALE, 18), precision)
        return FlinkType("DECIMAL", nullable=nullable, precision=precision, scale=scale)
    return None


def _number(params: Mapping[str, str], name: str, default: int) -> int:
    text = params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else default


def _text(kind: str, params: Mapping[str, str]) -> FlinkType:
    fixed, varying = ("CHAR", "VARCHAR") if kind == "string" else ("BINARY", "VARBINARY")
    length = _number(params, FLINK_MAX, 0)
    if not length:
        return FlinkType(varying, length=MAX_LENGTH)
    return FlinkType(fixed if _number(params, FLINK_MIN, 0) == length else varying, length=length)
