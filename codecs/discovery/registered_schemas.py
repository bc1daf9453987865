"""The schemas that messages have in a registry: each of them, and the columns of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kvformat.codecs.discovery.column_types import Notes, shown
from kvformat.codecs.registries.cache import schemas_of_kind
from kvformat.registry.contract.common_types import merge_types
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.schema_registries import Refused, RegistrySettings
from kvformat.registry.contract.types import FlinkField, FlinkType, nullable

Read = TypeVar("Read")
MAX_IDS = 100  # of schemas, the most frequent ones: each is a question to the registry


def read_schemas(
    counts: Counter[tuple[Any, ...]], kind: str, settings: RegistrySettings, notes: Notes, read: Callable[..., Read]
) -> list[Read]:
    """Read the schemas of the most messages, the newest first, then those of GUIDs. Those that can't be read are notes.

    `counts` has the number of messages by schema id, with further arguments of `read`, such as the path of a type.
    """
    usual = [key for key, _ in counts.most_common(MAX_IDS)]
    answers = schemas_of_kind(settings, list(dict.fromkeys(schema_id for schema_id, *_ in usual)), kind)
    result: list[Read] = []
    for schema_id, *more in sorted(usual, key=_age, reverse=True):
        schema = answers[schema_id]
        about = f"schema {schema_id} of {counts[schema_id, *more]} messages"
        try:
            if isinstance(schema, Refused):
                notes.add(f"{about}: {schema.reason}")
            else:
                result.append(read(schema, *more))
        except SchemaError as bad:
            notes.add(f"{about}: {settings.scrubbed(str(bad))}")
    return result


def _age(kind: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sort ids by age; GUIDs, which have none, come after them in their order."""
    schema_id, *more = kind
    return (1, schema_id, *more) if isinstance(schema_id, int) else (0,)


def columns_of_all(
    rows: Sequence[Sequence[FlinkField]],
    notes: Notes,
    common: Callable[[FlinkType, FlinkType], FlinkType | None] = merge_types,
) -> tuple[FlinkField, ...]:
    """Return columns that read all rows; nullable if a row does not have the column.

    `common` returns the type that reads two types, None if there is none. Then it is the first one, with a note.
    """
    fields: dict[str, FlinkField] = {}
    for row in rows:
        for field in row:
            known = fields.setdefault(field.name, field)
            t = common_type(known.type, field.type, common)
            if t is None:
                what = f"{field.type.summary()} in some schemas, which no column reads with the others: errors"
                notes.add(what, shown(field.name))
            else:
                fields[field.name] = replace(known, type=t)
    missing = {name for name in fields for row in rows if name not in {field.name for field in row}}
    if missing:
        notes.add("not in all of the schemas that the messages have: nullable", ", ".join(sorted(map(shown, missing))))
    return tuple(
        replace(field, type=replace(field.type, nullable=True)) if name in missing else field
        for name, field in fields.items()
    )


def common_type(
    left: FlinkType, right: FlinkType, common: Callable[[FlinkType, FlinkType], FlinkType | None]
) -> FlinkType | None:
    """Return the type that reads two types, also inside of nested ones; None if there is none."""
    t: FlinkType | None
    if left.root == right.root == "ROW":
        others = {field.name: field.type for field in right.fields}
        names = [field.name for field in left.fields]
        fields = []
        for field in left.fields:
            only_in_left = nullable(field.type) if field.name not in others else None
            merged = only_in_left or common_type(field.type, others[field.name], common)
            if merged is None:
                return None
            fields.append(FlinkField(field.name, merged))
        fields += [replace(field, type=nullable(field.type)) for field in right.fields if field.name not in names]
        t = replace(left, fields=tuple(fields))
    elif left.fields and left.root == right.root and len(left.fields) == len(right.fields):
        parts = [common_type(a.type, b.type, common) for a, b in zip(left.fields, right.fields, strict=True)]
        if None in parts:
            return None
        t = replace(
            left, fields=tuple(replace(f, type=part or f.type) for f, part in zip(left.fields, parts, strict=True))
        )
    else:
        t = common(left, right)
    return None if t is None else replace(t, nullable=left.nullable or right.nullable)
