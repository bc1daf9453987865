"""Flink's tables on Kafka, read and written by Spark's own Kafka source and sink; `registry` and `codecs` know none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvformat.connectors.kafka import KafkaTable

if TYPE_CHECKING:
    from kvformat.connectors.infer import (
        Guess,
        InferredSchema,
        Inspection,
        ddl_from_subject,
        infer_schema,
        schema_from_subject,
        sniff,
    )

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


def __getattr__(name: str) -> object:
    # Who reads a table needs none of these, and they load the kernel and Avro.
    if name in __all__:
        from kvformat.connectors import infer

        return getattr(infer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
