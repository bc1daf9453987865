"""The words for types that do not match: what a field has, what its column expects, and which column reads it.

Found string, expecting decimal(10, 2): the column is DECIMAL(10, 2). Declare it as STRING
Found enum E, expecting string: the column is STRING. Set 'read-enum-and-fixed' = 'true'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.schema import Schema
from kvformat.codecs.avro.types import row_of_schema, schema_text
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkField, FlinkType, nullable

Reads = Callable[[Schema, Schema, bool], bool]
"""Whether a reader's schema reads all of a writer's schema; the last argument is `read-enum-and-fixed`."""

_LONGEST = 200  # characters of a type in a text
_SET = "et 'read-enum-and-fixed' = 'true'"
_INTEGERS = "INT, SMALLINT or TINYINT"


def mismatch_text(w: Schema, r: Schema, *, legacy: bool) -> str:
    """Return what a writer's field has and what the reader's column expects."""
    wanted = r if r.optional is None else r.optional
    expected = str(wanted.logical) if wanted.logical is not None else wanted.full_name
    return f"Found {w}, expecting {expected}{_column(r, legacy)}"


def way_out(w: Schema, r: Schema, reads: Reads, *, named_as_plain: bool, legacy: bool) -> str:
    """Return the sentence that says which column or option reads all values of the writer's schema."""
    if not named_as_plain and reads(w, r, True):
        return f". S{_SET}"
    if r.type in ("enum", "fixed") and r.type == w.type:
        return f". In the option 'schema', give the {r.type} this name and size, or leave the option out and s{_SET}"
    for t in _readable_types(w, legacy):
        reader = _reader_of(t, legacy)
        if reader is None or len(t.summary()) > _LONGEST:
            continue
        if reads(w, reader, named_as_plain):
            known = row_of_schema(r, legacy=legacy)
            is_known = not known.nullable and known.summary() == t.summary()
            return f". Declare it as {t.summary()}{' without NOT NULL' if is_known else ''}"
        if reads(w, reader, True):
            return f". Declare it as {t.summary()}, and s{_SET}"
    return f". No column reads all values of {w}: leave it out"


def _column(r: Schema, legacy: bool) -> str:
    try:
        t = row_of_schema(r, legacy=legacy)
    except SchemaError:
        return ""
    if any(part.root in ("RAW", "NULL") for _, part in t.walk()):
        return ""
    text = _INTEGERS if t.root == "INT" else t.summary()
    shown = text if len(text) <= _LONGEST else t.root
    return f": the column is {shown}{'' if t.nullable else ' NOT NULL'}"


def _readable_types(w: Schema, legacy: bool) -> Iterator[FlinkType]:
    """Yield column types that may read a schema, the best first: of its logical type, and without it."""
    if w.is_recursive:
        return
    for branch in w.branches or (w,):
        for schema in (branch, replace(branch, logical=None)):
            t = nullable(row_of_schema(schema, legacy=legacy))
            if all(part.root not in ("RAW", "NULL") for _, part in t.walk()):
                yield t


def _reader_of(t: FlinkType, legacy: bool) -> Schema | None:
    """Return the schema that reads a column of a type, None if no column can have it."""
    try:
        row = parse_schema(schema_text(FlinkType("ROW", fields=(FlinkField("it", t),)), legacy=legacy))
        reader = row.fields[0].schema
        return reader if reader.arrow_type is not None else None
    except SchemaError:
        return None
