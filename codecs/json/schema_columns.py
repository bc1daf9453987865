"""Columns from JSON Schemas of a registry: of a subject, or of messages with a schema id.

| JSON Schema | Flink |
| --- | --- |
| boolean, string, enum | BOOLEAN, STRING; CHAR(n) and VARCHAR(n) by `minLength` and `maxLength` |
| integer, number | BIGINT, DOUBLE |
| the `connect.type` int8, ..., int64, float32, float64, bytes | TINYINT, ..., BIGINT, FLOAT, DOUBLE, BYTES |
| a title of Kafka Connect's: Date, Time, Timestamp, Decimal | DATE, TIME, TIMESTAMP_LTZ, DECIMAL |
| the same with the `flink.type` timestamp | TIMESTAMP |
| array, object with properties | ARRAY, ROW |
| object without properties, whose other members have a schema | MAP<STRING, t>, or MULTISET by the `flink.type` |
| array with the `connect.type` map | ARRAY<ROW<`key` k, `value` v>>, with a note |
| oneOf, anyOf or a list of types with null and one other | the other, nullable |
| allOf of objects | ROW with the members of all |
| members of some objects: of if, then, else, dependencies, and of oneOf and anyOf beside properties | nullable fields |
| anything else: other unions, what contains itself, true | STRING, which holds any JSON, with a note |

A member that is not `required` is nullable. Members are in the order of `connect.index`, if they have one.
Rules: "Data Type Mappings" in the documentation of Confluent Cloud for Apache Flink.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kvformat.codecs.discovery.column_types import Notes, array_of, is_name, map_of, shown
from kvformat.codecs.discovery.value_summary import MOST_DIGITS
from kvformat.codecs.json.json_schema import (
    CONNECT,
    CONNECT_INDEX,
    CONNECT_PARAMETERS,
    CONNECT_TYPE,
    DECIMAL_PRECISION,
    FLINK_MAX,
    FLINK_MIN,
    FLINK_PRECISION,
    FLINK_TYPE,
    NUMBERS,
)
from kvformat.codecs.json.references import (
    SchemaDocuments,
    alternatives,
    is_reference,
    required_members,
    schemas_of_some,
)
from kvformat.registry.contract.common_types import merge_types
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.schema_registries import RegistrySchema
from kvformat.registry.contract.types import MAX_LENGTH, STRING, FlinkField, FlinkType

_TYPES = {connect: root for root, connect in NUMBERS.items()}
_PLAIN = {"boolean": FlinkType("BOOLEAN"), "integer": FlinkType("BIGINT"), "number": FlinkType("DOUBLE")}
_DEFAULT_DECIMAL = ("38", "18")
"""Precision and scale of a decimal whose schema does not tell them, as in Flink on Confluent Cloud."""
_MOST_LEVELS = 64
"""Levels of a schema; what is deeper is kept as text."""
_MOST_TYPES = 100_000
"""Types of one schema: a small schema whose parts refer to others many times could stand for any number."""
_NULL = {"type": "null"}
_NOT_BESIDE_REFERENCES = {"properties", "additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "items"}
"""Words that say more of a value than the reference beside them. Versions before 2019-09 ignore them."""
_Node = Mapping[str, Any]


def columns_of_json_schema(schema: RegistrySchema, notes: Notes, name: str | None = None) -> tuple[FlinkField, ...]:
    """Return the columns for a JSON Schema, or for the branch of a union that has a name.

    Raises `SchemaError` if it does not describe an object.
    """
    documents = SchemaDocuments.of(schema)
    named = [branch for branch in documents.branches() if documents.title(branch) == name]
    row = _Reading(documents, notes).type(named[0] if named else documents.root, "", ())
    if row is None or row.root != "ROW":
        raise SchemaError(
            f"the JSON Schema is one of {STRING if row is None else row}, but only an object with properties "
            "stands for the columns of a table"
        )
    return row.fields


@dataclass
class _Members:
    """The members of an object: those of all objects, those that are needed, and those of some objects.

    differ: other schemas of members that some objects have.
    """

    all: dict[str, Any] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)
    some: dict[str, Any] = field(default_factory=dict)
    differ: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, other: _Members) -> None:
        """Add the members by a schema for the same objects."""
        self.all.update(other.all)
        self.needed |= other.needed
        self._add_some(other.some, other.differ)

    def add_of_some(self, other: _Members) -> None:
        """Add the members by a schema for some of the objects."""
        self._add_some({**other.all, **other.some}, other.differ)

    def _add_some(self, members: _Node, differ: Mapping[str, list[Any]]) -> None:
        for name, member in members.items():
            for schema in (member, *differ.get(name, ())):
                if name not in self.all and self.some.setdefault(name, schema) != schema:
                    self.differ.setdefault(name, []).append(schema)


class _Reading:
    """Reads one schema, with those that it refers to."""

    def __init__(self, documents: SchemaDocuments, notes: Notes) -> None:
        self._documents, self._notes = documents, notes
        self._types = 0

    def type(self, node: Any, path: str, around: Sequence[int]) -> FlinkType | None:
        """Return the type of a value, nullable if the schema allows null; None for a value that is always null.

        `around` has the identities of the schemas around this one.
        """
        node = self._target(node, path)
        if not isinstance(node, dict):
            return self._text("any value: kept as text", path)
        if id(node) in around or len(around) > _MOST_LEVELS:
            return self._text("contains itself: kept as text", path)
        self._types += 1
        if self._types > _MOST_TYPES:
            raise SchemaError(f"the JSON Schema stands for more than {_MOST_TYPES} types")
        inside = (*around, id(node))
        branches = list(self._branches(node))
        if branches:
            others = [branch for branch in branches if self._target(branch, path) != _NULL]
            if not others:
                return None
            t = self._union(node, others, path, inside)
            return t if t is None or len(others) == len(branches) else _optional(t)
        return self._plain(node, path, inside)

    def _target(self, node: Any, path: str) -> Any:
        """Follow references, in this schema (`#/$defs/Item`) and to others (`item.json`)."""
        for _ in range(_MOST_LEVELS):
            if not is_reference(node):
                return node
            beside = sorted(node.keys() & _NOT_BESIDE_REFERENCES)
            if beside:
                self._notes.add(f"{', '.join(beside)} beside a reference: left out", path)
            target = self._documents.followed(node)
            if target is None:
                self._notes.add(f"the reference {node['$ref'][:100]!a} leads nowhere: kept as text", path)
            node = target
        return None

    @staticmethod
    def _branches(node: _Node) -> Iterator[Any]:
        """Yield the schemas of a union: of oneOf, anyOf, or a list of types."""
        branches = alternatives(node)
        yield from branches
        if not branches and isinstance(node.get("type"), list):
            yield from (_NULL if kind == "null" else {**node, "type": kind} for kind in node["type"])

    def _union(self, node: _Node, others: list[Any], path: str, inside: Sequence[int]) -> FlinkType | None:
        if len(others) == 1:
            return self.type(others[0], path, inside)
        return self._text(f"one of {len(others)} types: kept as text", path)

    def _plain(self, node: _Node, path: str, inside: Sequence[int]) -> FlinkType | None:
        kind, title = node.get("type"), str(node.get("title", ""))
        if isinstance(node.get("allOf"), list):
            return self._all_of(node, path, inside)
        if "enum" in node or "const" in node:
            values = node["enum"] if isinstance(node.get("enum"), list) else [node.get("const")]
            texts = all(isinstance(value, str) or value is None for value in values)
            t = _not_null(STRING) if texts else self._text("a value of several types: kept as text", path)
            return _optional(t) if None in values else t
        if kind == "null":
            return None
        if kind in ("number", "integer"):
            return self._number(node, kind, title.removeprefix(CONNECT))
        if kind == "string":
            return self._string(node)
        if kind == "boolean":
            return _not_null(_PLAIN[kind])
        if kind == "array":
            return self._array(node, path, inside)
        if kind == "object" or "properties" in node:
            return self._object(node, path, inside)
        return self._text("any value: kept as text", path)

    @staticmethod
    def _number(node: _Node, kind: str, title: str) -> FlinkType:
        connect, precision = node.get(CONNECT_TYPE), node.get(FLINK_PRECISION, 3)
        if title == "Decimal":
            parameters = node.get(CONNECT_PARAMETERS)
            known = parameters if isinstance(parameters, dict) else {}
            digits = (known.get(DECIMAL_PRECISION, _DEFAULT_DECIMAL[0]), known.get("scale", _DEFAULT_DECIMAL[1]))
            p, s = (int(text) if str(text).isdigit() else MOST_DIGITS for text in digits)
            return FlinkType("DECIMAL", nullable=False, precision=min(p, MOST_DIGITS), scale=min(s, p, MOST_DIGITS))
        if title == "Date":
            return FlinkType("DATE", nullable=False)
        if title in ("Time", "Timestamp") or node.get(FLINK_TYPE) == "timestamp":
            local = node.get(FLINK_TYPE) == "timestamp"
            root = "TIME" if title == "Time" else "TIMESTAMP" if local else "TIMESTAMP_LTZ"
            most = 3 if root == "TIME" else 6
            digits_of_second = precision if isinstance(precision, int) and 0 <= precision <= most else most
            return FlinkType(root, nullable=False, precision=digits_of_second)
        of_connect = _TYPES.get(connect) if isinstance(connect, str) else None
        return _not_null(_PLAIN[kind]) if of_connect is None else FlinkType(of_connect, nullable=False)

    @staticmethod
    def _string(node: _Node) -> FlinkType:
        is_bytes = node.get(CONNECT_TYPE) == "bytes"
        fixed, varying = ("BINARY", "VARBINARY") if is_bytes else ("CHAR", "VARCHAR")
        least, most = (node.get(word) for word in ((FLINK_MIN, FLINK_MAX) if is_bytes else ("minLength", "maxLength")))
        if not isinstance(most, int) or isinstance(most, bool) or not 0 < most < MAX_LENGTH:
            return FlinkType(varying, nullable=False, length=MAX_LENGTH)
        return FlinkType(fixed if least == most else varying, nullable=False, length=most)

    def _array(self, node: _Node, path: str, inside: Sequence[int]) -> FlinkType | None:
        items = node.get("items")
        if not isinstance(items, dict):
            self._notes.add("the type of elements is not known: ARRAY<STRING> reads any", path)
            return _not_null(array_of(STRING))
        if node.get(CONNECT_TYPE) == "map":
            self._notes.add("a map whose keys are not texts: an ARRAY of its keys and values", path)
        element = self.type(items, f"{path}[]", inside)
        return _not_null(array_of(STRING if element is None else element))

    def _object(self, node: _Node, path: str, inside: Sequence[int]) -> FlinkType | None:
        members, more = self._members(node, path), node.get("additionalProperties")
        if members.all or (isinstance(node.get("properties"), dict) and members.some):
            return self._row(members, path, inside)
        if isinstance(more, dict):
            value = self.type(more, f"{path}{{}}", inside)
            key = _not_null(STRING)
            if node.get(FLINK_TYPE) == "multiset":
                return FlinkType("MULTISET", nullable=False, fields=(FlinkField("element", key),))
            whole = map_of(STRING if value is None else value)
            return _not_null(replace(whole, fields=(FlinkField("key", key), whole.fields[1])))
        return self._text("an object whose members are not known: kept as text", path)

    def _members(self, node: Any, path: str, around: Sequence[int] = ()) -> _Members:
        """Return the members of an object by a schema and by those that it applies to all or to some objects.

        `around` has the identities of the schemas that apply this one.
        """
        members = _Members()
        if not isinstance(node, dict) or id(node) in around or len(around) > _MOST_LEVELS:
            return members
        inside = (*around, id(node))
        parts = node["allOf"] if isinstance(node.get("allOf"), list) else []
        for part in parts:
            members.add(self._members(self._target(part, path), path, inside))
        properties = node.get("properties")
        members.all.update(properties if isinstance(properties, dict) else {})
        members.needed |= required_members(node)
        of_some = schemas_of_some(node) if around or parts or isinstance(properties, dict) else []
        for part in of_some:
            members.add_of_some(self._members(self._target(part, path), path, inside))
        if members.all:
            for word in ("additionalProperties", "patternProperties", "unevaluatedProperties"):
                if isinstance(node.get(word), dict):
                    self._notes.add(f"members by {word!a} beside the named ones have no column: left out", path)
        return members

    def _row(self, members: _Members, path: str, inside: Sequence[int]) -> FlinkType | None:
        properties = {**members.all, **{n: m for n, m in members.some.items() if n not in members.all}}
        fields = []
        for name, node in sorted(properties.items(), key=_index):
            place = f"{path}.{shown(name)}" if path else shown(name)
            if not is_name(name):
                self._notes.add(f"the member {name[:100]!a} can't be a column name and is left out")
                continue
            t = self._common_type(
                [node, *(members.differ.get(name, ()) if name in members.some else ())], place, inside
            )
            if t is None:
                self._notes.add("always null: left out", place)
            else:
                fields.append(FlinkField(name, t if name in members.needed else _optional(t)))
        if not fields:
            return self._text("an object without members: kept as text", path)
        return FlinkType("ROW", nullable=False, fields=tuple(fields))

    def _common_type(self, nodes: list[Any], path: str, inside: Sequence[int]) -> FlinkType | None:
        """Return the type of a member that has several schemas: the least one that holds the values of all."""
        types = [t for node in nodes if (t := self.type(node, path, inside)) is not None]
        if not types:
            return None
        merged = functools.reduce(merge_types, types)
        if merged.root != types[0].root:
            self._notes.add(
                f"one of {len(nodes)} types: {'kept as text' if merged.root == STRING.root else merged.summary()}", path
            )
        return merged

    def _all_of(self, node: _Node, path: str, inside: Sequence[int]) -> FlinkType | None:
        """Return the type of a value that fulfils several schemas: of all objects together."""
        members = self._members(node, path)
        if members.all or members.some:
            return self._row(members, path, inside)
        parts = [self._target(part, path) for part in (*node["allOf"], {k: v for k, v in node.items() if k != "allOf"})]
        typed = [part for part in parts if isinstance(part, dict) and ("type" in part or "enum" in part)]
        return self.type(typed[0], path, inside) if typed else self._text("any value: kept as text", path)

    def _text(self, why: str, path: str) -> FlinkType:
        self._notes.add(why, path)
        return STRING


def _index(member: tuple[str, Any]) -> int:
    """Return the place of a member among the others, which stay in their order without one."""
    place = member[1].get(CONNECT_INDEX) if isinstance(member[1], dict) else None
    return place if isinstance(place, int) else 0


def _optional(t: FlinkType) -> FlinkType:
    return replace(t, nullable=True)


def _not_null(t: FlinkType) -> FlinkType:
    return replace(t, nullable=False)
