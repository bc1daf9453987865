"""Flink's tables on Kafka, read and written by Spark's own Kafka source and sink; `registry` and `codecs` know none."""

from __future__ import annotations

from kvformat.connectors.infer import (
    Guess,
    InferredSchema,
    Inspection,
    ddl_from_subject,
    infer_schema,
    schema_from_subject,
    sniff,
)
from kvformat.connectors.kafka import KafkaTable

__all__ = [
    "Guess",
    "InferredSchema",
    "Inspection",
    "KafkaTable",
    "ddl_from_subject",
    "infer_schema",
    "schema_from_subject",
    "sniff",
]
