"""Columns and tables from a subject of a schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from kvformat.codecs.avro.columns import columns_of_schema
from kvformat.codecs.avro.references import parse_complete
from kvformat.codecs.avro.schema import branch_of
from kvformat.codecs.avro_confluent import AvroConfluentFormat
from kvformat.codecs.discovery.column_types import Notes
from kvformat.codecs.json.schema_columns import columns_of_json_schema
from kvformat.codecs.protobuf.registry_schema import path_of
from kvformat.codecs.protobuf.schema_columns import columns_of_proto_schema
from kvformat.codecs.registries.cache import subject_schema
from kvformat.codecs.registries.confluent_frames import FIRST
from kvformat.codecs.registries.registry import AVRO, JSON, PROTOBUF
from kvformat.codecs.registry_formats.record_options import RECORD_NAME
from kvformat.codecs.registry_formats.record_types import names_of_schema
from kvformat.connectors.infer.inferred import InferredSchema
from kvformat.registry.contract.errors import OptionError, SchemaError, listed
from kvformat.registry.contract.samples import SchemaProposal
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema

BOOTSTRAP = "localhost:9092"
"""The broker in a CREATE TABLE, unless another one is given."""
_FORMATS = {AVRO: "avro-confluent", JSON: "json-registry", PROTOBUF: "proto-registry"}
"""The format that reads the messages of each kind of schema."""


def schema_from_subject(
    url: str, subject: str, *, version: int | Literal["latest"] = "latest", options: Mapping[str, Any] | None = None
) -> InferredSchema:
    """Return the columns for a subject's schema, and the options of the format that reads its messages.

    The format is `avro-confluent`, `json-registry` or `proto-registry`. `options` are options of the format about the
    registry (`basic-auth.user-info`, ...), without a prefix, or its `record-name` for one of several types in a schema.
    Raises `SchemaError` if the registry does not know the subject or the version, or if a table can't have the schema;
    `SchemaRegistryError` if the registry does not answer; `OptionError` for bad options.
    """
    if version != "latest" and (isinstance(version, bool) or not isinstance(version, int) or version < 1):
        raise OptionError(f"version must be 'latest' or a number, at least 1, not {version!r}", option="version")
    format_options = {"url": url, **(options or {})}
    settings = AvroConfluentFormat(format_options).settings
    registered = subject_schema(settings, subject, None if version == "latest" else version)
    what = f"subject {subject!r} has no readable version {version!r}"
    if isinstance(registered, Refused):
        raise SchemaError(f"{what}: {registered.reason}", format=_FORMATS[AVRO])
    schema_id, schema = registered
    if schema.kind not in _FORMATS:
        kinds = " or ".join(_FORMATS)
        raise SchemaError(f"{what}: the schema of subject {subject!r} is not {kinds} but {schema.kind}")
    format = _FORMATS[schema.kind]
    try:
        return InferredSchema.of(format, format_options, _proposal(schema, format_options))
    except SchemaError as bad:
        reason = settings.scrubbed(str(bad))
        raise SchemaError(
            f"subject {subject!r}, schema {schema_id}: {reason}", format=format, field=bad.field
        ) from None


def _proposal(schema: RegistrySchema, options: Mapping[str, Any]) -> SchemaProposal:
    """Return the columns for a schema, or for its type that the option `record-name` names."""
    notes, name, path = Notes(), options.get(RECORD_NAME), FIRST
    names = names_of_schema(schema)  # empty for a schema that is not valid
    if name is not None and schema.kind == PROTOBUF and names:
        path = path_of(schema, name) or FIRST
        names = names_of_schema(schema, path)
    if names and (len(names) > 1 if name is None else name not in names):
        set_to = "it is not set" if name is None else f"it is {name!r}"
        raise SchemaError(f"it has the types {listed(names)}: set the option '{RECORD_NAME}' to one of them; {set_to}")
    if schema.kind == AVRO:
        return columns_of_schema(branch_of(parse_complete(schema), name), options, notes)
    columns = (
        columns_of_json_schema(schema, notes, name)
        if schema.kind == JSON
        else columns_of_proto_schema(schema, notes, path)
    )
    return SchemaProposal(columns, options, (), notes.texts())


def ddl_from_subject(
    url: str,
    subject: str,
    *,
    version: int | Literal["latest"] = "latest",
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    topic: str | None = None,
    bootstrap: str = BOOTSTRAP,
) -> str:
    """Return the columns for a subject's schema as text; with a `name`, a whole CREATE TABLE.

    The default for `topic` is the subject without `-value`. Comments before the text name fields that are left out.
    `version`, `options` and the exceptions are those of `schema_from_subject`.
    """
    schema = schema_from_subject(url, subject, version=version, options=options)
    notes = "".join(f"-- {note}\n" for note in schema.notes)
    if name is None:
        return notes + schema.ddl
    topic = subject.removesuffix("-value") if topic is None else topic
    return notes + schema.create_table(name, topic=topic, bootstrap=bootstrap)
