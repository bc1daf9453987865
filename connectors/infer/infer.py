"""`infer_schema`: a schema for messages of any format that proposes one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvformat.connectors.infer.inferred import InferredSchema
from kvformat.connectors.infer.sample import SAMPLE, sample_of
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.samples import MessageSample, SchemaProposal


def infer_schema(
    source: Any, *, format: str, keys: Any = None, options: Mapping[str, Any] | None = None, sample: int = SAMPLE
) -> InferredSchema:
    """Infer columns that read a sample of messages without an error and without losing a member.

    `source` is a batch DataFrame of Kafka's records (columns `value` and `key`), an Arrow array, or an iterable of
    messages (bytes, None for a null one) with their `keys`. At most `sample` messages and 64 MiB are read. A job
    collects them from a DataFrame; Spark decides which messages come first.

    `options` are options of the format, without a prefix. Options that the messages need are added in
    `InferredSchema.options`. All types are nullable, because a sample does not show which values are never missing.

    Raises `SchemaError` if the messages do not describe columns, `OptionError` for unknown options,
    `ConfigurationError` for a stream or an unsupported source. Bad messages raise no error.
    """
    given = dict(options or {})
    get_format(format, given).validate("decode")
    return schema_of(sample_of(source, keys, sample), format, given)


def schema_of(sample: MessageSample, format: str, options: Mapping[str, Any]) -> InferredSchema:
    """The schema that a format proposes for a sample; raises as `infer_schema` does."""
    return InferredSchema.of(format, options, proposal_of(sample, format, options))


def proposal_of(sample: MessageSample, format: str, options: Mapping[str, Any]) -> SchemaProposal:
    """Return the schema that a format proposes for a sample. Raises `SchemaError` if there are no columns."""
    found = get_format(format, options).propose_schema(sample)
    notes = (*found.notes, sample.cut) if sample.cut else found.notes
    if not found.fields:
        why = "; ".join(notes) or f"there are {len(sample.values)} messages"
        raise SchemaError(f"format '{format}': no columns can be inferred: {why}", format=format, reason=why)
    return replace(found, notes=notes)
