"""Avro schemas as an immutable model, with the Arrow type of each schema.

| Avro | Arrow |
| --- | --- |
| boolean, int, long, float, double | bool, int32, int64, float32, float64 |
| bytes, string | binary, string |
| fixed(n) | fixed_size_binary(n); binary from 1025 bytes on, because a null in Arrow takes n bytes too |
| enum | string |
| array | list, the item named `element` |
| map | map of string, the value named `value` |
| record | struct |
| `["null", T]`, `[T, "null"]` | T, nullable |
| `[T]` | T |
| decimal(p, s) up to 38 digits | decimal128(p, s) |
| date | date32 |
| time-millis, time-micros | time32[ms], time64[us] |
| timestamp-millis, -micros, -nanos | timestamp of that unit, UTC |
| local-timestamp-millis, -micros, -nanos | timestamp of that unit, without a zone |
| uuid, duration, big-decimal | the underlying type: string or 16 bytes; 12 bytes; bytes |
| null, other unions, decimals of more digits, recursive records | none: a table's column can't have this type |

Rules: the Avro specification 1.12 and `org.apache.avro.Schema`. A logical type that does not fit its type is ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from kvformat.codecs.avro.logical import TIMES
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.fork_safe import cached_property

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED: Final = ("record", "enum", "fixed")
CONSTANT: Final = "constant"
BIG_DECIMAL: Final = "big-decimal"
_TYPES: Final = (*PRIMITIVES, *NAMED, "array", "map", "union")
_MOST_DIGITS = 38  # of a DECIMAL
MAX_FIXED = 1024  # bytes; a null in Arrow takes as many, so a longer fixed is binary

_LEAST: Final = {"null": 0, "float": 4, "double": 8}
_ARROW: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}


class Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()
"""The default of a field without a default. None is the default null."""


@dataclass(frozen=True, slots=True)
class LogicalType:
    """The logical type of a schema. Only decimals have a precision and a scale."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})" if self.name == "decimal" else self.name


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of a record. `default` is a JSON value or `MISSING`. `properties` are all other attributes."""

    name: str
    schema: Schema
    aliases: tuple[str, ...] = ()
    default: Any = MISSING
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Schema:
    """A schema with all names resolved. Schemas with the same text are equal.

    type: one of Avro's types, 'union', or 'constant'.
    name, namespace, aliases: of a record, an enum or a fixed. Aliases are full names.
    fields: of a record. items: of an array. values: of a map. branches: of a union. symbols, default: of an enum.
    size: of a fixed, in bytes. is_error: whether a record is declared as an error.
    logical: the logical type if it is valid.
    properties: all other attributes.
    constant: of the type 'constant', which only schemas for writing have (`fit.py`): the bytes of each value. It stands
    for a field that no column fills, and without bytes for a branch of a union that no value has.
    A recursive schema contains itself. Its data can be skipped, but it has no Arrow type.
    """

    type: str
    name: str = ""
    namespace: str = ""
    aliases: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    items: Schema | None = None
    values: Schema | None = None
    branches: tuple[Schema, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    is_error: bool = False
    logical: LogicalType | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    constant: bytes = b""

    @cached_property
    def full_name(self) -> str:
        """The namespace and name of a named type, or the name of any other type."""
        if self.type not in NAMED:
            return self.name or self.type
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @cached_property
    def text(self) -> str:
        """The schema as JSON. Also a part of a larger schema is complete."""
        return json.dumps(_as_json(self, "", set()), ensure_ascii=False, separators=(",", ":"))

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the schema's values. Raises `SchemaError` if a table's column can't have the type."""
        if self.is_recursive:
            raise SchemaError(
                f"Avro schema {self.full_name} is recursive, and Arrow's types can't be; only fields that are not "
                "read may be recursive",
                field=self.full_name,
            )
        return _arrow_type(self)

    @cached_property
    def storage_type(self) -> pa.DataType:
        """The Arrow type with the same buffers, but with numbers for dates and times, and binary for strings."""
        return _storage_type(self.arrow_type)

    @cached_property
    def is_recursive(self) -> bool:
        """Whether the schema contains itself, at any level."""
        return _holds_itself(self, (), set())

    @cached_property
    def is_nullable(self) -> bool:
        """Whether the schema is a union with null."""
        return self.null_index is not None

    @cached_property
    def optional(self) -> Schema | None:
        """The schema T of a union of null and T in any order, else None."""
        if len(self.branches) != 2 or not self.is_nullable:
            return None
        return self.branches[1 if self.branches[0].type == "null" else 0]

    @cached_property
    def null_index(self) -> int | None:
        """The index of null in a union."""
        return next((index for index, branch in enumerate(self.branches) if branch.type == "null"), None)

    @cached_property
    def value_index(self) -> int | None:
        """The index of the branch of a union that all values have, None if it is not known."""
        indices = [index for index, branch in enumerate(self.branches) if branch.type not in ("null", CONSTANT)]
        return indices[0] if len(indices) == 1 else None

    @cached_property
    def least_size(self) -> int:
        """A lower bound of the size of a value in bytes. 0 only if all values have no bytes."""
        if self.is_recursive:
            return 1  # a union, an array or a map ends the recursion, and has at least one byte
        if self.type == "fixed":
            return self.size
        if self.type == "record":
            return sum(f.schema.least_size for f in self.fields)
        if self.type == "union":
            return 1 + min((branch.least_size for branch in self.branches), default=0)
        return _LEAST.get(self.type, 1)

    @cached_property
    def cells(self) -> int:
        """The number of columns that a value or a null fills in Arrow. Not for recursive schemas."""
        if self.type == "record":
            return 1 + sum(f.schema.cells for f in self.fields)
        return max((branch.cells for branch in self.branches), default=1)

    @property
    def children(self) -> Iterator[Schema]:
        """The schemas of fields, branches, items or values."""
        yield from (f.schema for f in self.fields)
        yield from self.branches
        if self.items is not None:
            yield self.items
        if self.values is not None:
            yield self.values

    def __str__(self) -> str:
        named = f"{self.type} {self.full_name}" if self.type in NAMED else self.type
        if self.type == "union":
            return f"[{', '.join(branch.full_name for branch in self.branches)}]"
        return f"{named} ({self.logical})" if self.logical else named

    def __repr__(self) -> str:
        return f"parse_schema({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Schema) and self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)


def arrow_field(name: str, schema: Schema) -> pa.Field:
    """Return the Arrow field for a part of a schema."""
    return pa.field(name, schema.arrow_type, schema.is_nullable)


def _arrow_type(schema: Schema) -> pa.DataType:
    logical = schema.logical
    if logical is not None and logical.name in TIMES:
        return TIMES[logical.name].arrow
    if logical is not None and logical.name == "decimal" and logical.precision <= _MOST_DIGITS:
        return pa.decimal128(logical.precision, logical.scale)
    if schema.type == "record":
        return pa.struct([arrow_field(f.name, f.schema) for f in schema.fields])
    if schema.items is not None:
        return pa.list_(arrow_field("element", schema.items))
    if schema.values is not None:
        return pa.map_(pa.string(), arrow_field("value", schema.values))
    if schema.value_index is not None:
        return schema.branches[schema.value_index].arrow_type
    if schema.type == CONSTANT:
        return pa.struct([])  # pyarrow can't view a null type inside a map
    if (logical is not None and logical.name == "decimal") or schema.type not in (*_ARROW, "fixed"):
        raise SchemaError(f"no column of a table has the Avro type {schema}", field=schema.full_name)
    if schema.type == "fixed":
        return pa.binary(schema.size) if schema.size <= MAX_FIXED else pa.binary()
    return _ARROW[schema.type]


def _storage_type(t: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(t):
        return pa.int32() if t.bit_width == 32 else pa.int64()
    if pa.types.is_struct(t):
        return pa.struct([_storage_field(f) for f in t])
    if pa.types.is_map(t):
        return pa.map_(pa.binary(), _storage_field(t.item_field))
    if pa.types.is_list(t):
        return pa.list_(_storage_field(t.value_field))
    return pa.binary() if t == pa.string() else t


def _storage_field(field: pa.Field) -> pa.Field:
    """Return a nullable field: children of a null are null, and a view can't have nulls in other fields."""
    return pa.field(field.name, _storage_type(field.type))


def _holds_itself(schema: Schema, above: tuple[int, ...], clear: set[int]) -> bool:
    if id(schema) in above:
        return True
    if id(schema) in clear:
        return False
    is_recursive = any(_holds_itself(child, (*above, id(schema)), clear) for child in schema.children)
    if not is_recursive:
        clear.add(id(schema))
    return is_recursive


def _as_json(schema: Schema, space: str, known: set[str]) -> Any:
    """Return the schema as JSON values, inside the namespace `space`. A name in `known` replaces its type."""
    if schema.type == "union":
        return [_as_json(branch, space, known) for branch in schema.branches]
    if schema.type in PRIMITIVES:
        return {"type": schema.type, **schema.properties} if schema.properties else schema.type
    if schema.items is not None:
        return {"type": "array", "items": _as_json(schema.items, space, known), **schema.properties}
    if schema.values is not None:
        return {"type": "map", "values": _as_json(schema.values, space, known), **schema.properties}
    if schema.full_name in known:
        return _qualified(schema.full_name, space)
    known.add(schema.full_name)
    return _named_as_json(schema, space, known)


def _named_as_json(schema: Schema, space: str, known: set[str]) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": "error" if schema.is_error else schema.type, "name": schema.name}
    if schema.namespace != space:
        shown["namespace"] = schema.namespace
    if schema.type == "record":
        shown["fields"] = [_field_as_json(f, schema.namespace, known) for f in schema.fields]
    elif schema.type == "enum":
        shown["symbols"] = list(schema.symbols)
        if schema.default is not None:
            shown["default"] = schema.default
    else:
        shown["size"] = schema.size
    if schema.aliases:
        shown["aliases"] = [_qualified(alias, schema.namespace) for alias in schema.aliases]
    return {**shown, **schema.properties}


def _qualified(full_name: str, space: str) -> str:
    """Shorten a full name inside its namespace, unless the short name is a type of Avro."""
    namespace, _, name = full_name.rpartition(".")
    return name if namespace == space and name not in _TYPES else full_name


def _field_as_json(f: Field, space: str, known: set[str]) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": f.name, "type": _as_json(f.schema, space, known)}
    if f.default is not MISSING:
        shown["default"] = _finite(f.default)
    if f.aliases:
        shown["aliases"] = list(f.aliases)
    return {**shown, **f.properties}


def _finite(default: Any) -> Any:
    """Return a default as a JSON value: NaN and infinities as strings."""
    if not isinstance(default, float) or math.isfinite(default):
        return default
    return "NaN" if math.isnan(default) else "Infinity" if default > 0 else "-Infinity"


def branch_of(schema: Schema, name: str | None) -> Schema:
    """Return the branch of a union that has a full name, or the schema itself if there is none."""
    return next((branch for branch in schema.branches if branch.full_name == name), schema)


def records_of(schema: Schema) -> list[Schema]:
    """Return the records of a union, or the schema itself if it has none."""
    return [branch for branch in schema.branches if branch.type == "record"] or [schema]
