"""Columns and tables from a subject of a schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from kvformat.codecs._confluent import AVRO, Refused, subject_schema
from kvformat.codecs._confluent.avro_references import parse_complete
from kvformat.codecs._infer.avro_schemas import columns_of_schema
from kvformat.codecs._infer.column_types import Notes
from kvformat.codecs.avro_confluent import AvroConfluentFormat
from kvformat.connectors.infer.inferred import InferredSchema
from kvformat.registry.contract.errors import OptionError, SchemaError

BOOTSTRAP = "localhost:9092"
"""The broker in a CREATE TABLE, unless another one is given."""
_FORMAT = "avro-confluent"


def schema_from_subject(
    url: str, subject: str, *, version: int | Literal["latest"] = "latest", options: Mapping[str, Any] | None = None
) -> InferredSchema:
    """Return the columns for a subject's schema, and the options of `avro-confluent` that read them.

    `options` are options of the format `avro-confluent` (`basic-auth.user-info`, ...), without a prefix.
    Raises `SchemaError` if the registry does not know the subject or the version, or if a table can't have the schema;
    `SchemaRegistryError` if the registry does not answer; `OptionError` for bad options.
    """
    if version != "latest" and (isinstance(version, bool) or not isinstance(version, int) or version < 1):
        raise OptionError(f"version must be 'latest' or a number, at least 1, not {version!r}", option="version")
    given = {"url": url, **(options or {})}
    settings = AvroConfluentFormat(given).settings
    found = subject_schema(settings, subject, None if version == "latest" else version)
    schema = found if isinstance(found, Refused) else found[1].of_kind(AVRO, f"the schema of subject {subject!r}")
    if isinstance(found, Refused) or isinstance(schema, Refused):
        assert isinstance(schema, Refused)
        raise SchemaError(f"subject {subject!r} has no readable version {version!r}: {schema.reason}", format=_FORMAT)
    try:
        return InferredSchema.of(_FORMAT, given, columns_of_schema(parse_complete(schema), given, Notes()))
    except SchemaError as bad:
        reason = settings.scrubbed(str(bad))
        raise SchemaError(
            f"subject {subject!r}, schema {found[0]}: {reason}", format=_FORMAT, field=bad.field
        ) from None


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
    found = schema_from_subject(url, subject, version=version, options=options)
    notes = "".join(f"-- {note}\n" for note in found.notes)
    if name is None:
        return notes + found.ddl
    topic = subject.removesuffix("-value") if topic is None else topic
    return notes + found.create_table(name, topic=topic, bootstrap=bootstrap)
