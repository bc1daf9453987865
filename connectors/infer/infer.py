"""`infer_schema`: a schema for messages of any format that proposes one, or the schema that ingestion makes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa

from kvformat.connectors.infer.inferred import InferredSchema
from kvformat.connectors.infer.sample import SAMPLE, sample_of
from kvformat.registry.contract.common_types import merge_types
from kvformat.registry.contract.discovery import format_class, get_format
from kvformat.registry.contract.error_codes import split_codes
from kvformat.registry.contract.errors import ConfigurationError, SchemaError, listed
from kvformat.registry.contract.look import LookRequest
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.types import STRING, FlinkField, nullable

Style = Literal["table", "ingestion"]


def infer_schema(
    source: Any,
    *,
    format: str,
    keys: Any = None,
    options: Mapping[str, Any] | None = None,
    sample: int = SAMPLE,
    style: Style = "table",
    headers: Any = None,
) -> InferredSchema:
    """Infer columns that read a sample of messages without an error and without losing a member.

    `source` is a batch DataFrame of Kafka's records (columns `value`, `key` and `headers`), an Arrow array, or an
    iterable of messages (bytes, None for a null one) with their `keys`. At most `sample` messages and 64 MiB are read.
    A job collects them from a DataFrame; Spark decides which messages come first. `headers`, a list of
    `{"key": ..., "value": ...}` for each record, may have the ids of schemas.

    `options` are options of the format, without a prefix. Options that the messages need are added in
    `InferredSchema.options`. All types are nullable, because a sample does not show which values are never missing.
    With `style="ingestion"` the columns are those that a query of `kvformat.ingestion` makes of the messages: whole
    numbers are BIGINT, objects and arrays STRING, and a column without a value is left out.

    Raises `SchemaError` if the messages do not describe columns, or in the style of ingestion belong to several tables;
    `OptionError` for unknown options, `ConfigurationError` for a stream, an unsupported source or style. Bad messages
    raise no error.
    """
    if style not in ("table", "ingestion"):
        raise ConfigurationError(f"style must be 'table' or 'ingestion', not {style!r}")
    format_options: Mapping[str, Any] = dict(options or {})
    if style == "ingestion":
        format_options = format_class(format).look_options(format_options)
    get_format(format, format_options).validate("decode")
    records = sample_of(source, keys, sample, headers=headers)
    messages = records.with_header_ids() if format_class(format).record_headers else records.messages
    if style == "ingestion":
        return InferredSchema.of(
            format, format_options, _complete(_looked(messages, format, format_options), messages, format)
        )
    return schema_of(messages, format, format_options)


def schema_of(sample: MessageSample, format: str, options: Mapping[str, Any]) -> InferredSchema:
    """The schema that a format proposes for a sample; raises as `infer_schema` does."""
    return InferredSchema.of(format, options, proposal_of(sample, format, options))


def proposal_of(sample: MessageSample, format: str, options: Mapping[str, Any]) -> SchemaProposal:
    """Return the schema that a format proposes for a sample. Raises `SchemaError` if there are no columns."""
    return _complete(get_format(format, options).propose_schema(sample), sample, format)


def _complete(proposal: SchemaProposal, sample: MessageSample, format: str) -> SchemaProposal:
    """Return a proposal with the note on what the sample omits. Raises `SchemaError` if there are no columns."""
    notes = (*proposal.notes, sample.cut) if sample.cut else proposal.notes
    if not proposal.fields:
        why = "; ".join(notes) or f"there are {len(sample.values)} messages"
        raise SchemaError(f"format '{format}': no columns can be inferred: {why}", format=format, reason=why)
    return replace(proposal, notes=notes)


def _looked(sample: MessageSample, format: str, options: Mapping[str, Any]) -> SchemaProposal:
    """Return the columns that ingestion finds in the messages of one table."""
    look = get_format(format, options).looker(LookRequest()).look(sample.array(), pa.array([""] * len(sample.values)))
    if len(look.tables) > 1:
        names = [".".join(table) for table in look.tables]
        raise SchemaError(
            f"format '{format}': the messages belong to {len(names)} tables, {listed(names)}: give those of one table",
            format=format,
        )
    fields, notes = [], []
    for column in look.columns:
        if column.types:
            t = functools.reduce(merge_types, map(nullable, column.types))
            fields.append(FlinkField(column.name, t))
            if column.as_text and t != STRING:
                notes.append(f"{column.name}: the format does not read all values as {t}; ingestion reads their texts")
    if look.errors:
        texts, _ = split_codes(pa.array(list(look.errors.values())))
        assert texts is not None
        notes.append(f"bad messages, which are left out: {len(texts)}; the first: {texts[0]}")
    keys = list(dict.fromkeys(key.names for key in look.keys))
    if len({frozenset(names) for names in keys}) > 1:
        texts = [f"({', '.join(names)})" for names in keys]
        notes.append(f"the messages declare different keys, {listed(texts)}: a query stops at such messages")
    return SchemaProposal(tuple(fields), primary_key=keys[0] if keys else (), notes=tuple(notes))
