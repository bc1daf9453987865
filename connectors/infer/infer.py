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
    """Columns that read a sample of messages of a format without an error, and without losing a member.

    `source` is a batch DataFrame of Kafka's records (its columns `value` and `key`), of which a job collects `sample`
    messages; or an Arrow array or an iterable of messages (bytes, None for a null one), of which no more are taken,
    with `keys` beside. At most 64 MiB are looked at. Which messages are the first ones of a DataFrame is up to Spark.

    `options` are those of the format, without a prefix; what the messages need and is not given is proposed in
    `InferredSchema.options`. Types are nullable: a sample can't tell what is never missing.

    Raises `SchemaError` where no message says anything about columns, `OptionError` for options that the format
    doesn't have, `ConfigurationError` for a stream and for what is no source. Never raises for bad messages.
    """
    given = dict(options or {})
    get_format(format, given).validate("decode")
    return schema_of(sample_of(source, keys, sample), format, given)


def schema_of(sample: MessageSample, format: str, options: Mapping[str, Any]) -> InferredSchema:
    """The schema that a format proposes for a sample; raises as `infer_schema` does."""
    return InferredSchema.of(format, options, proposal_of(sample, format, options))


def proposal_of(sample: MessageSample, format: str, options: Mapping[str, Any]) -> SchemaProposal:
    """What a format proposes for a sample; raises `SchemaError` if there are no columns."""
    found = get_format(format, options).propose_schema(sample)
    notes = (*found.notes, sample.cut) if sample.cut else found.notes
    if not found.fields:
        why = "; ".join(notes) or f"there are {len(sample.values)} messages"
        raise SchemaError(f"format '{format}': no columns can be inferred: {why}", format=format, reason=why)
    return replace(found, notes=notes)
