"""Looks at messages and keeps what was found, as ingestion does: types are merged, columns and texts stay known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kvformat.codecs.discovery.findings import needs_text
from kvformat.codecs.discovery.text_forms import INFERRED, merged_forms, writes_all
from kvformat.ingestion.schemas.types import merge_types
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.look import KnownTable, Looked, LookRequest, TableName
from kvformat.registry.contract.types import STRING, FlinkType

Known = dict[TableName, KnownTable]


def as_bytes(message: Any) -> bytes | None:
    """Return a message: bytes and None as they are, other objects as JSON."""
    return message if message is None or isinstance(message, bytes) else json.dumps(message).encode()


def look(
    format: str,
    messages: Iterable[Any],
    *,
    given: Mapping[str, Any] | None = None,
    known: Known | None = None,
    topic: str | Sequence[str] = "topic",
    fixed: Mapping[str, FlinkType] | None = None,
    part: Any = "value",
    nulls: Iterable[str] = (),
    **options: Any,
) -> Looked:
    """Look at messages of one topic, or of one for each message.

    `options` are ingestion's, with `_` for `-` and `__` for a dot.
    `nulls` are names of which it is wanted whether they come with null.
    """
    array = pa.array([as_bytes(message) for message in messages], pa.binary())
    names = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    wanted = frozenset(nulls)
    request = LookRequest(known or {}, fixed or {}, names, part, nulls=lambda table: wanted)
    topics = pa.array([topic] * len(array) if isinstance(topic, str) else topic, pa.string())
    return get_format(format, given or {}).looker(request).look(array, topics)


def table(columns: str, *, as_text: Iterable[str] = (), key: tuple[str, ...] | None = None) -> KnownTable:
    """Return a known table of columns such as `a BIGINT, b STRING`."""
    row = parse_type(f"ROW<{columns}>") if columns else None
    return KnownTable({f.name: f.type for f in row.fields} if row else {}, frozenset(as_text), key)


def columns(looked: Looked) -> dict[str, str]:
    """Return the new columns of the only table: their types, and `as text`."""
    return {
        c.name: " ".join([" + ".join(map(str, c.types)), *(["as text"] if c.as_text else [])]).strip()
        for c in looked.columns
        if c.types or c.as_text
    }


def merged(known: Known, looked: Looked) -> Known:
    """Return the known tables with what a look found."""
    found = dict(known)
    for name in looked.tables:
        found.setdefault(name, KnownTable({}))
    for column in looked.columns:
        before = found[column.table]
        types = [before.columns[column.name]] if column.name in before.columns else []
        types += column.types
        if not types:
            found[column.table] = replace(before, nulls=before.nulls | {column.name})
            continue
        t = types[0]
        for other in types[1:]:
            t = merge_types(t, other)
        as_text = before.as_text | ({column.name} if column.as_text or needs_text(types) else set())
        forms, own = dict(before.forms), column.forms
        if own is not None and column.name not in forms and column.name in before.columns:
            own &= ~INFERRED
        all_forms = merged_forms(forms.get(column.name), own)
        if all_forms is not None and all_forms & INFERRED and not writes_all(all_forms):
            t = STRING
        if all_forms is not None and t != STRING:
            forms[column.name] = all_forms if writes_all(all_forms) else 0
        columns = {**before.columns, column.name: t}
        found[column.table] = KnownTable(columns, as_text, before.key, forms, before.nulls)
    for key in looked.keys:
        before = found[key.table]
        found[key.table] = replace(before, key=key.names)
    return found


def types_of(known: Known) -> dict[TableName, dict[str, tuple[str, bool]]]:
    """Return the type of each column, and whether it is read as text. A STRING needs no text."""
    return {
        name: {column: (str(t), column in found.as_text and str(t) != "STRING") for column, t in found.columns.items()}
        for name, found in known.items()
    }
