"""`infer_schema`: a schema for messages of any format of the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kvformat.connectors.infer import avro, changes, text
from kvformat.connectors.infer.inferred import InferredSchema
from kvformat.connectors.infer.needs import with_what_changes_need
from kvformat.connectors.infer.rows import json_schema
from kvformat.connectors.infer.sample import SAMPLE, MessageSample, sample_of
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.errors import SchemaError, listed

_MAKERS: dict[str, Callable[[MessageSample, Mapping[str, Any]], InferredSchema]] = {
    "json": json_schema,
    "debezium-json": changes.debezium_schema,
    "canal-json": changes.canal_schema,
    "maxwell-json": changes.maxwell_schema,
    "ogg-json": changes.ogg_schema,
    "csv": text.csv_schema,
    "raw": text.raw_schema,
    "avro": avro.container_schema,
    "avro-confluent": avro.confluent_schema,
    "debezium-avro-confluent": avro.debezium_schema,
}


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
    if format not in _MAKERS:
        get_format(format)  # names what there is
        raise SchemaError(f"format '{format}': its messages say nothing about columns; known are {listed(_MAKERS)}")
    get_format(format, given).validate("decode")
    messages = sample_of(source, keys, sample)
    return schema_of(messages, format, given)


def schema_of(sample: MessageSample, format: str, options: Mapping[str, Any]) -> InferredSchema:
    """The schema of a sample; raises as `infer_schema` does."""
    found = _MAKERS[format](sample, options)
    notes = (*found.notes, sample.cut) if sample.cut else found.notes
    if not found.fields:
        why = "; ".join(notes) or f"there are {len(sample.values)} messages"
        raise SchemaError(f"format '{format}': no columns can be inferred: {why}", format=format, reason=why)
    if found.unreadable:
        return replace(found, notes=notes)
    return with_what_changes_need(replace(found, notes=notes), sample)
