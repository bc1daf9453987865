"""Columns from Avro schemas: of a registry's subject, of messages with a schema id, or of a container file.

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

import contextlib
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._apicurio.client import USE_ID
from kvformat.codecs._apicurio.frames import GLOBAL_ID, HEADERS
from kvformat.codecs._avro import Field, Schema, parse_schema
from kvformat.codecs._avro.types import row_of_schema, schema_text
from kvformat.codecs._confluent import AVRO, RegistrySchema, schemas_by_id
from kvformat.codecs._confluent.avro_references import parse_complete
from kvformat.codecs._debezium.connect_schema import image_schema_from_avro
from kvformat.codecs._debezium.options import FLATTENED
from kvformat.codecs._glue.client import REGION
from kvformat.codecs._glue.frames import version_of
from kvformat.codecs._infer.change_data import MARKED_DESCRIPTION, NAMED_DESCRIPTION
from kvformat.codecs._infer.column_types import Notes, shown
from kvformat.codecs._infer.confluent_frames import (
    CHANGES,
    MARKED_ROWS,
    MAX_IDS,
    NAMED_ROWS,
    NOT_ASKED,
    confluent_frames,
    options_with_url,
)
from kvformat.codecs._infer.debezium_columns import MARKS, TYPES, DebeziumColumns
from kvformat.codecs._infer.message_kinds import (
    APICURIO,
    APICURIO_LONG_ID,
    AVRO_FILE_MAGIC,
    GLUE,
    indices_of,
    schema_id_of,
)
from kvformat.codecs._infer.primary_key import KeyNames, names_of_json, primary_key
from kvformat.codecs._infer.record_samples import split_by_type
from kvformat.codecs._infer.registry_schemas import read_schemas
from kvformat.codecs._infer.value_summary import MOST_DIGITS
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schema_registries import RegistrySettings

if TYPE_CHECKING:
    from kvformat.codecs._confluent.avro_format import ConfluentAvroFormat

_FLATTENED_KINDS = {MARKED_ROWS: MARKED_DESCRIPTION, NAMED_ROWS: NAMED_DESCRIPTION}
_MOST_VERSIONS = 3  # of schemas, in a description
_OF_LOGICAL = ("logicalType", "precision", "scale")
_LONGEST_HEADER = 1 << 20  # bytes of an Avro file that are searched for its schema


def recognize_confluent(sample: MessageSample) -> list[Recognition]:
    """Recognize records in Confluent's frame: all of them, or only Avro if a registry was asked for their schemas."""
    frames = sample.computed(confluent_frames)
    found = []
    for kind, indices in frames.indices.items():
        if kind == NOT_ASKED:
            found.append(Recognition(indices, 0.9, frames.description, options_with_url(sample), notes=frames.notes))
        elif kind == AVRO:
            avro = Recognition(indices, 1.0, f"{frames.description}; they are Avro", sample.registry)
            found += split_by_type(sample, avro, "avro-confluent")
        elif kind in _FLATTENED_KINDS and sample.part == "key":
            found.append(_flattened_rows(sample, kind))
    return found


def recognize_debezium_avro(sample: MessageSample) -> list[Recognition]:
    """Recognize records in Confluent's frame with a schema of Debezium: change events, or flattened rows in values."""
    frames = sample.computed(confluent_frames)
    found = []
    for kind, indices in frames.indices.items():
        if kind == CHANGES:
            are = f"{frames.description}; they are Debezium's changes in Avro"
            found.append(Recognition(indices, 1.0, are, sample.registry))
        elif kind in _FLATTENED_KINDS and sample.part == "value":
            rows = _flattened_rows(sample, kind)
            options = {**sample.registry, FLATTENED.name: "true"}
            found.append(replace(rows, options=options, format="", without_key=rows))
    return found


def _flattened_rows(sample: MessageSample, kind: str) -> Recognition:
    frames = sample.computed(confluent_frames)
    are = f"{frames.description}; they are Avro {_FLATTENED_KINDS[kind]}"
    marked = kind == MARKED_ROWS
    return Recognition(frames.indices[kind], 1.0, are, sample.registry, format="avro-confluent", marks_deletes=marked)


def recognize_glue(sample: MessageSample) -> list[Recognition]:
    """Recognize messages in AWS Glue's frame. They are not asked for: nothing says which account has their schemas."""
    found = indices_of(sample, GLUE)
    versions = Counter(version_of(sample.values[index] or b"") for index in found)
    shown = ", ".join(str(version) for version, _ in versions.most_common(_MOST_VERSIONS))
    more = ", ..." if len(versions) > _MOST_VERSIONS else ""
    description = f"begin with 03 and the UUID of a schema's version, AWS Glue's frame ({shown}{more})"
    url = str(sample.registry.get("url", ""))
    options = sample.registry if REGION in sample.registry else {"url": url} if url.startswith("file:") else {}
    return [*split_by_type(sample, Recognition(found, 0.9, description, options), "avro-glue")] if found else []


def recognize_apicurio(sample: MessageSample) -> list[Recognition]:
    """Recognize messages whose records have the id of a schema in one of Apicurio's headers, or with a long id."""
    options = options_with_url(sample)
    in_header = f"have the id of a schema in the header {' or '.join(HEADERS[sample.part][:2])}"
    long_id = "begin with 00 and the id of a schema in eight bytes, the frame of Apicurio 2"
    of_version_2 = {USE_ID: GLOBAL_ID, **options} if options else {}
    return [
        one
        for known in (
            Recognition(indices_of(sample, APICURIO), 1.0, in_header, options),
            Recognition(indices_of(sample, APICURIO_LONG_ID), 0.9, long_id, of_version_2),
        )
        if known.messages
        for one in split_by_type(sample, known, "avro-apicurio")
    ]


def propose_registry(
    sample: MessageSample, options: Mapping[str, Any], fmt: ConfluentAvroFormat, name: str | None = None
) -> SchemaProposal:
    """Propose the columns of the newest schema in the messages, and the fields that only older schemas have.

    `name` is the full name of the messages' type, if their schemas may be unions with other types.
    """
    notes = Notes()
    schemas = [branch_of(schema, name) for schema in _schemas(sample, fmt, notes)]
    if not schemas:
        return SchemaProposal((), options, (), notes.texts())
    return columns_of_schema(_merge_records(schemas, notes), options, notes)


def branch_of(schema: Schema, name: str | None) -> Schema:
    """Return the branch of a union that has a full name, or the schema itself if there is none."""
    return next((branch for branch in schema.branches if branch.full_name == name), schema)


def propose_debezium_avro(
    sample: MessageSample, options: Mapping[str, Any], fmt: ConfluentAvroFormat
) -> SchemaProposal:
    """Propose the columns of the rows before and after a change, from the schemas in the messages.

    If the schemas have Debezium's own types and `types` is not given, the proposal sets 'types' = 'debezium'.
    """
    notes = Notes()
    flat: bool = fmt.options[FLATTENED.name]
    schemas = _schemas(sample, fmt, notes)
    if options.get("types") == "flink":
        images = [image for schema in schemas if (image := row_of(schema) if flat else image_of(schema)) is not None]
        if not images:
            return SchemaProposal((), options, (), notes.texts())
        found = columns_of_schema(_merge_records(images, notes), {**options, "schema": ""}, notes)
        found = replace(found, options=options)
    else:
        typed = DebeziumColumns(fmt.identifier, options, sample.array())
        for schema in schemas:
            typed.declare(image_schema_from_avro(schema, flat=flat), without=MARKS if flat else ())
        more = TYPES if typed.have_own_types or typed.have_moments else {}
        found = SchemaProposal(typed.columns(notes), {**options, **more})
    if flat and any(field.name in MARKS for schema in schemas for field in schema.fields):
        notes.add(f"{' and '.join(MARKS)} say what was done to a row: they are its kind, and not columns")
    key = primary_key(_key_names(sample, fmt.settings), [field.name for field in found.fields], notes)
    return replace(found, primary_key=key, notes=notes.texts())


def _key_names(sample: MessageSample, settings: RegistrySettings) -> Counter[KeyNames]:
    """Count the field names of the keys, which are Avro records of the same registry or JSON objects."""
    keys = sample.keys or ()
    ids = Counter[int | str](schema_id for key in keys if key and (schema_id := schema_id_of(key)) is not None)
    if not ids:
        return names_of_json(keys)
    found = Counter[KeyNames]()
    for schema_id, answer in schemas_by_id(settings, [schema_id for schema_id, _ in ids.most_common(MAX_IDS)]).items():
        names: KeyNames = ()
        if isinstance(answer, RegistrySchema) and answer.kind == AVRO:
            with contextlib.suppress(SchemaError):
                names = tuple(field.name for field in parse_complete(answer).fields)
        if names:
            found[names] += ids[schema_id]
    return found


def row_of(schema: Schema) -> Schema | None:
    """Return the record schema of a flattened row without the fields in `MARKS`; None if it is not a record."""
    row = schema if schema.optional is None else schema.optional
    return replace(row, fields=tuple(f for f in row.fields if f.name not in MARKS)) if row.type == "record" else None


def image_of(schema: Schema) -> Schema | None:
    """Return the record schema of `after`, or else of `before`; None if the envelope has neither."""
    envelope = schema if schema.optional is None else schema.optional
    images = [field.schema for field in envelope.fields if field.name in ("after", "before")]
    return next((image.optional or image for image in images if (image.optional or image).type == "record"), None)


def _schemas(sample: MessageSample, fmt: ConfluentAvroFormat, notes: Notes) -> list[Schema]:
    """Return the schemas of the ids in the messages, the newest first. Ids that cannot be resolved become notes."""
    messages = pa.array(sample.present(), pa.binary())
    frames = fmt.read_frames(messages, np.asarray(messages.is_valid()), only_ids=True)
    ids = Counter((schema_id,) for schema_id in frames.schemas(frames.ids[frames.good].tolist()))
    other = len(messages) - ids.total()
    if other:
        notes.add(f"{other} messages do not begin with {fmt.frame_text}, and are skipped")
    return read_schemas(ids, AVRO, fmt.settings, notes, parse_complete)


def propose_avro_files(sample: MessageSample) -> SchemaProposal:
    """Propose the columns of a message that is an Avro container file. No format reads container files."""
    for message in sample.present():
        text = _header_schema(message)
        if text is not None:
            why = "each message is an Avro container file of its own; Flink's formats read single datums only"
            found = columns_of_schema(parse_schema(text, check_defaults=False), {}, Notes())
            return replace(found, options={}, notes=(*found.notes, why), unreadable=why)
    raise SchemaError(
        "format 'avro': a message is the datum alone and says nothing of its schema. Give the schema that the producer "
        "wrote with; ddl_from_subject reads it from a registry",
        format="avro",
    )


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
    given = dict(options)
    schema_text(row, legacy=True)  # raises an error for names that would occur twice in the schema of the table
    if "schema" not in given and any(part.type in ("enum", "fixed") for part in _parts(read)):
        given["schema"] = read.text
    return SchemaProposal(row.fields, given, (), notes.texts())


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
    logical = schema.logical
    if logical is None or logical.name in ("date", "time-millis", "timestamp-millis"):
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


def _merge_records(schemas: list[Schema], notes: Notes) -> Schema:
    """Merge record schemas, the newest first. Fields that some schema lacks become nullable."""
    first, *others = [schema if schema.optional is None else schema.optional for schema in schemas]
    records = [schema for schema in others if schema.type == "record"]
    if first.type != "record" or not records:
        return first
    fields = {field.name: field for field in first.fields}
    for record in records:
        for field in record.fields:
            fields.setdefault(field.name, field)
    missing = {name for name in fields for record in (first, *records) if name not in {f.name for f in record.fields}}
    if missing:
        notes.add("not in all of the schemas that the messages have: nullable", ", ".join(sorted(map(shown, missing))))
    return replace(first, fields=tuple(_optional(f) if f.name in missing else f for f in fields.values()))


def _optional(field: Field) -> Field:
    """Return the field as a nullable field with the default null."""
    branches = (branch for branch in field.schema.branches or (field.schema,) if branch.type != "null")
    return replace(field, schema=Schema("union", branches=(Schema("null"), *branches)), default=None)


# --- container files -------------------------------------------------------------------------------------


def _header_schema(message: bytes) -> str | None:
    """Return the text of `avro.schema` in the header of a container file, which is a map of bytes; None if missing."""
    if not message.startswith(AVRO_FILE_MAGIC):
        return None
    header = io.BytesIO(message[len(AVRO_FILE_MAGIC) : _LONGEST_HEADER])
    while count := _read_long(header):
        if count < 0:
            _read_long(header)
        for _ in range(min(abs(count), MAX_IDS)):
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
