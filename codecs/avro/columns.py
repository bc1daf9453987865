"""Columns from Avro schemas: of a registry, or of a container file.

The inverse of Flink's `AvroSchemaConverter` as `avro-confluent` implements it (timestamps of the legacy mapping):

| Avro | Flink |
| --- | --- |
| a union with null, any other type | nullable, NOT NULL |
| boolean, int, long, float, double, string, bytes | BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, STRING, BYTES |
| enum, fixed(n) | STRING, VARBINARY(n) |
| decimal(p, s) up to 38 digits, date, time-millis | DECIMAL(p, s), DATE, TIME(3) |
| timestamp-millis | TIMESTAMP(3) |
| timestamp-micros, time-micros, local-timestamp-*, *-nanos | BIGINT, with a note |
| array, map, record | ARRAY, MAP<STRING, t>, ROW |
| other unions, null, a type inside of itself | left out, with a note |

Flink derives a reader schema from the columns, and this schema cannot read enum and fixed. For them, the option
`schema` contains the Avro schema without the fields that were left out. `avro-confluent` does not support TIMESTAMP(6).
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from kvformat.codecs.avro.logical import OF_COLUMNS
from kvformat.codecs.avro.merge import merge_records, unread_fields
from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.reading import READ_ENUM_AND_FIXED
from kvformat.codecs.avro.references import parse_complete
from kvformat.codecs.avro.schema import Field, Schema, branch_of
from kvformat.codecs.avro.types import row_of_schema, schema_text
from kvformat.codecs.discovery.column_types import Notes, shown
from kvformat.codecs.discovery.message_kinds import AVRO_FILE_MAGIC
from kvformat.codecs.discovery.registered_schemas import read_schemas
from kvformat.codecs.discovery.value_summary import MOST_DIGITS
from kvformat.codecs.registries.format_registry import Registry
from kvformat.codecs.registries.registry import AVRO
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.types import FlinkType

_OF_LOGICAL = ("logicalType", "precision", "scale")
_LONGEST_HEADER = 1 << 20  # bytes of a container file that are searched for its schema
_MOST_MEMBERS = 100  # of the header


# --- schemas to columns ----------------------------------------------------------------------------------


def columns_of_schema(schema: Schema, options: Mapping[str, Any], notes: Notes) -> SchemaProposal:
    """Propose the columns of a record schema; raises `SchemaError` for any other schema."""
    schema = schema if schema.optional is None else schema.optional
    if schema.type != "record":
        raise SchemaError(f"the Avro schema is {schema}, but only a record stands for the columns of a table")
    read = _readable(schema, "", notes)
    if read is None:
        return SchemaProposal((), options, (), notes.texts())
    row = row_of_schema(read)
    proposed_options = dict(options)
    schema_text(row, legacy=True)  # raises an error for names that would occur twice in the schema of the table
    if "schema" not in proposed_options and any(part.type in ("enum", "fixed") for part in _parts(read)):
        proposed_options["schema"] = read.text
    return SchemaProposal(row.fields, proposed_options, (), notes.texts())


def _parts(schema: Schema) -> Iterator[Schema]:
    yield schema
    for child in schema.children:
        yield from _parts(child)


def _readable(schema: Schema, path: str, notes: Notes, around: tuple[str, ...] = ()) -> Schema | None:
    """Return the schema without the parts that a column cannot represent; None if nothing is left."""
    if schema.type == "union":
        return _readable_union(schema, path, notes, around)
    if schema.type == "null":
        notes.add("of type null, which no column has: left out", path)
        return None
    if schema.type == "record":
        if schema.full_name in around:
            notes.add(f"the Avro type {schema.full_name} contains itself, which no table type does: left out", path)
            return None
        inside = (*around, schema.full_name)
        fields = [_readable_field(field, path, notes, inside) for field in schema.fields]
        kept = tuple(field for field in fields if field is not None)
        if not kept:
            notes.add("a record without fields: left out", path)
        return replace(schema, fields=kept) if kept else None
    if schema.items is not None:
        items = _readable(schema.items, f"{path}[]", notes, around)
        return None if items is None else replace(schema, items=items)
    if schema.values is not None:
        values = _readable(schema.values, f"{path}{{}}", notes, around)
        return None if values is None else replace(schema, values=values)
    if schema.type == "fixed" and schema.size == 0:
        notes.add("a fixed without bytes, which no column has: left out", path)
        return None
    logical = schema.logical
    if logical is None or logical.name in OF_COLUMNS:
        return schema
    if logical.name == "decimal" and logical.precision <= MOST_DIGITS:
        return schema
    if logical.name not in ("uuid", "duration"):
        notes.add(f"{logical} has no type of its own here: the plain {schema.type}", path)
    properties = {key: value for key, value in schema.properties.items() if key not in _OF_LOGICAL}
    return replace(schema, logical=None, properties=properties)


def _readable_union(schema: Schema, path: str, notes: Notes, around: tuple[str, ...]) -> Schema | None:
    if len(schema.branches) == 1:
        return _readable(schema.branches[0], path, notes, around)
    if schema.optional is None:
        notes.add(f"a union of {', '.join(branch.full_name for branch in schema.branches)}: left out", path)
        return None
    inner = _readable(schema.optional, path, notes, around)
    if inner is None:
        return None
    return replace(schema, branches=tuple(inner if b is schema.optional else b for b in schema.branches))


def _readable_field(field: Field, path: str, notes: Notes, around: tuple[str, ...]) -> Field | None:
    schema = _readable(field.schema, f"{path}.{shown(field.name)}" if path else shown(field.name), notes, around)
    return None if schema is None else replace(field, schema=schema)


# --- schemas in a registry -------------------------------------------------------------------------------


def propose_registry(
    sample: MessageSample, options: Mapping[str, Any], registry: Registry, *, plain: bool, name: str | None = None
) -> SchemaProposal:
    """Propose columns that read all schemas in the messages. A part that they do not read becomes a note.

    plain: the option `read-enum-and-fixed`. name: the full name of the messages' type, if their schemas may be unions
    with other types.
    """
    notes = Notes()
    schemas = [branch_of(schema, name) for schema in schemas_of_messages(sample, registry, notes)]
    if not schemas:
        return SchemaProposal((), options, (), notes.texts())
    proposal = columns_of_schema(merge_records(schemas, notes), options, notes)
    return _checked(proposal, schemas, plain, notes)


def _checked(proposal: SchemaProposal, schemas: list[Schema], plain: bool, notes: Notes) -> SchemaProposal:
    """Return a proposal with the option that reads its sample, and with notes for what it does not read.

    Fields without a column were notes before.
    """
    row = FlinkType("ROW", nullable=False, fields=proposal.fields)
    try:
        reader = parse_schema(str(proposal.options.get("schema") or schema_text(row, legacy=True)))
        if not plain and any(unread_fields(schema, reader, False) for schema in schemas):
            as_plain = [unread_fields(schema, reader, True) for schema in schemas]
            if as_plain != [unread_fields(schema, reader, False) for schema in schemas]:
                plain, proposal = True, replace(proposal, options={**proposal.options, READ_ENUM_AND_FIXED: "true"})
        for schema in schemas:
            types = {field.name: field.schema for field in (schema.optional or schema).fields}
            for name in unread_fields(schema, reader, plain) or ():
                notes.add(f"{types[name]} in some schemas, which no column reads with the others: errors", shown(name))
    except SchemaError:
        return proposal
    return replace(proposal, notes=notes.texts())


def schemas_of_messages(sample: MessageSample, registry: Registry, notes: Notes) -> list[Schema]:
    """Return the schemas of the ids in the messages, the newest first. Ids that cannot be resolved become notes."""
    messages = pa.array(sample.present(), pa.binary())
    frames = registry.framing.read(messages, np.asarray(messages.is_valid()), only_ids=True)
    ids = Counter((schema_id,) for schema_id in frames.schemas(frames.ids[frames.good].tolist()))
    other = len(messages) - ids.total()
    if other:
        notes.add(f"{other} messages do not begin with {registry.framing.text}, and are skipped")
    return read_schemas(ids, AVRO, registry.settings, notes, parse_complete)


# --- container files -------------------------------------------------------------------------------------


def propose_avro_files(sample: MessageSample) -> SchemaProposal:
    """Propose the columns of a message that is an Avro container file. No format reads container files."""
    for message in sample.present():
        text = _header_schema(message)
        if text is not None:
            why = "each message is an Avro container file of its own; Flink's formats read single datums only"
            proposal = columns_of_schema(parse_schema(text, check_defaults=False), {}, Notes())
            return replace(proposal, options={}, notes=(*proposal.notes, why), unreadable=why)
    raise SchemaError(
        "format 'avro': a message is the datum alone and says nothing of its schema. Give the schema that the producer "
        "wrote with; ddl_from_subject reads it from a registry",
        format="avro",
    )


def _header_schema(message: bytes) -> str | None:
    """Return the text of `avro.schema` in the header of a container file, which is a map of bytes; None if missing."""
    if not message.startswith(AVRO_FILE_MAGIC):
        return None
    header = io.BytesIO(message[len(AVRO_FILE_MAGIC) : _LONGEST_HEADER])
    while count := _read_long(header):
        if count < 0:
            _read_long(header)
        for _ in range(min(abs(count), _MOST_MEMBERS)):
            name, value = header.read(max(_read_long(header), 0)), header.read(max(_read_long(header), 0))
            if name == b"avro.schema":
                return value.decode("utf-8", "replace")
    return None


def _read_long(source: io.BytesIO) -> int:
    """Read a variable-length Avro long; returns 0 at the end of the input."""
    number = shift = 0
    while byte := source.read(1):
        number |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80 or shift > 63:
            break
    return (number >> 1) ^ -(number & 1)
