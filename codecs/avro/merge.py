"""One schema for the columns of messages with several schemas, and what it does not read of them.

long, int                     long
int, string                   the newest of both, with a note: no column reads both
enum E of P, Q and of Z, P    enum E of P, Q, Z
a field that one lacks        nullable
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kvformat.codecs.avro.logical import OF_COLUMNS
from kvformat.codecs.avro.resolve import Number, Record, plan, reads_all
from kvformat.codecs.avro.schema import Field, LogicalType, Schema
from kvformat.codecs.discovery.column_types import Notes, shown
from kvformat.codecs.discovery.value_summary import MOST_DIGITS
from kvformat.registry.contract.errors import SchemaError

_COUNTS = ("int", "long")
"""Logical types of counts that columns have; others are plain numbers."""


def merge_records(schemas: list[Schema], notes: Notes) -> Schema:
    """Merge record schemas, the newest first. Fields that some schema lacks become nullable."""
    first, *others = [schema if schema.optional is None else schema.optional for schema in schemas]
    records = [schema for schema in others if schema.type == "record"]
    if first.type != "record" or not records:
        return first
    names = dict.fromkeys(field.name for record in (first, *records) for field in record.fields)
    missing = {name for name in names for record in (first, *records) if name not in {f.name for f in record.fields}}
    if missing:
        notes.add("not in all of the schemas that the messages have: nullable", ", ".join(sorted(map(shown, missing))))
    return _merged_record([first, *records])


def unread_fields(writer: Schema, reader: Schema, named_as_plain: bool) -> list[str] | None:
    """Return the fields of a writer's record with values that a reader's schema does not read; None for all of it."""
    writer = writer if writer.optional is None else writer.optional
    action = plan(writer, reader, named_as_plain)
    if not isinstance(action, Record):
        return None
    return [step.name for step in action.steps if not reads_all(step.action)]


def _merged_record(records: Sequence[Schema]) -> Schema:
    parts: dict[str, list[Field]] = {}
    for record in records:
        for field in record.fields:
            parts.setdefault(field.name, []).append(field)
    fields = []
    for same_name in parts.values():
        merged = _merged([field.schema for field in same_name])
        field = replace(same_name[0], schema=merged)
        fields.append(field if len(same_name) == len(records) else _optional(field))
    return replace(records[0], fields=tuple(fields))


def _merged(parts: Sequence[Schema]) -> Schema:
    first, *others = parts
    if all(other == first for other in others):
        return first
    inner = [part if part.optional is None else part.optional for part in parts]
    t = _merged_not_null(inner)
    if t.type in ("union", "null") or not any(part.is_nullable for part in parts):
        return t
    return Schema("union", branches=(Schema("null"), t))


def _merged_not_null(parts: Sequence[Schema]) -> Schema:
    types = {part.type for part in parts}
    if types == {"record"} and not any(part.is_recursive for part in parts):
        return _merged_record(parts)
    if types == {"array"}:
        return replace(parts[0], items=_merged([part.items for part in parts if part.items is not None]))
    if types == {"map"}:
        return replace(parts[0], values=_merged([part.values for part in parts if part.values is not None]))
    exact: list[Schema] = []
    rounding: list[Schema] = []
    for candidate in _candidates(parts):
        if _is_readable(candidate, parts):
            (exact if _is_exact(candidate, parts) else rounding).append(candidate)
    return next(iter([*exact, *rounding]), parts[0])


def _candidates(parts: Sequence[Schema]) -> Iterator[Schema]:
    """Yield schemas that may read all parts, the best first."""
    yield from parts
    decimals = [part.logical for part in parts if part.logical is not None and part.logical.name == "decimal"]
    if len(decimals) == len(parts):
        scale = max(logical.scale for logical in decimals)
        precision = scale + max(logical.precision - logical.scale for logical in decimals)
        if precision <= MOST_DIGITS:
            named = {"logicalType": "decimal", "precision": precision, "scale": scale}
            yield Schema("bytes", logical=LogicalType("decimal", precision, scale), properties=named)
    if all(part.type == "enum" for part in parts):
        symbols = dict.fromkeys(symbol for part in parts for symbol in part.symbols)
        yield replace(parts[0], symbols=tuple(symbols))
    yield Schema("string")
    if not decimals:
        yield Schema("bytes")


def _is_readable(candidate: Schema, parts: Sequence[Schema]) -> bool:
    """Return whether a column of a schema reads all parts, and not as counts of different units."""
    logicals = {part.logical for part in parts if part.type in _COUNTS}
    known = candidate.logical is not None and candidate.logical.name in OF_COLUMNS
    if candidate.type in _COUNTS and len(logicals) > 1 and not known:
        return False
    if candidate.logical is not None and candidate.logical.name == "decimal":
        logical = candidate.logical
        of_parts = [part.logical for part in parts if part.logical is not None]
        if any(
            logical.scale < of_part.scale or logical.precision - logical.scale < of_part.precision - of_part.scale
            for of_part in of_parts
        ):
            return False
    try:
        return all(reads_all(plan(part, candidate, True)) for part in parts)
    except SchemaError:
        return False


def _is_exact(candidate: Schema, parts: Sequence[Schema]) -> bool:
    if candidate.type == "string" and any(part.type == "bytes" for part in parts):
        return False  # bytes that are not UTF-8 would change
    actions = [plan(part, candidate, True) for part in parts]
    return not any(isinstance(action, Number) and action.divisor > 1 for action in actions)


def _optional(field: Field) -> Field:
    """Return the field as a nullable field with the default null."""
    branches = (branch for branch in field.schema.branches or (field.schema,) if branch.type != "null")
    return replace(field, schema=Schema("union", branches=(Schema("null"), *branches)), default=None)
