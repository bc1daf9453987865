"""Columns and tables from a subject of a schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from kvformat.codecs._confluent import Refused, subject_schema
from kvformat.codecs._infer.avro_schemas import columns_of_schema, parse_any
from kvformat.codecs._infer.column_types import Notes
from kvformat.codecs.avro_confluent import AvroConfluentFormat
from kvformat.connectors.infer.inferred import InferredSchema
from kvformat.registry.contract.errors import OptionError, SchemaError

BOOTSTRAP = "localhost:9092"
"""The broker in a CREATE TABLE for which nobody has named one."""
_FORMAT = "avro-confluent"


def schema_from_subject(
    url: str, subject: str, *, version: int | Literal["latest"] = "latest", options: Mapping[str, Any] | None = None
) -> InferredSchema:
    """The columns that stand for a subject's schema, and the options of `avro-confluent` to read them with.

    `options` are those of the format `avro-confluent` (`basic-auth.user-info`, ...), without a prefix.
    Raises `SchemaError` where the registry does not know the subject or the version, and for a schema that no table
    stands for; `SchemaRegistryError` where the registry can't be asked; `OptionError` for options.
    """
    if version != "latest" and (isinstance(version, bool) or not isinstance(version, int) or version < 1):
        raise OptionError(f"version is 'latest' or a number from 1 on, not {version!r}", option="version")
    given = {"url": url, **(options or {})}
    settings = AvroConfluentFormat(given).settings
    found = subject_schema(settings, subject, None if version == "latest" else version)
    if isinstance(found, Refused):
        raise SchemaError(
            f"subject {subject!r} has no version {version!r} that can be read: {found.reason}", format=_FORMAT
        )
    try:
        return InferredSchema.of(_FORMAT, given, columns_of_schema(parse_any(found[1]), given, Notes()))
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
    """The columns that stand for a subject's schema as text, with a `name` a whole CREATE TABLE of the topic.

    The topic is the subject without `-value`, unless one is given. What was left out stands in comments before it.
    As `schema_from_subject`, which it raises like.
    """
    found = schema_from_subject(url, subject, version=version, options=options)
    notes = "".join(f"-- {note}\n" for note in found.notes)
    if name is None:
        return notes + found.ddl
    topic = subject.removesuffix("-value") if topic is None else topic
    return notes + found.create_table(name, topic=topic, bootstrap=bootstrap)
