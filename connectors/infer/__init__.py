"""Schema inference: columns and tables from messages, or from a schema registry."""

from __future__ import annotations

from kvformat.connectors.infer.infer import infer_schema
from kvformat.connectors.infer.inferred import InferredSchema
from kvformat.connectors.infer.inspection import FormatGuess, Inspection, inspect_topic
from kvformat.connectors.infer.schema_uses import SchemaUse
from kvformat.connectors.infer.subject import ddl_from_subject, schema_from_subject

__all__ = [
    "FormatGuess",
    "InferredSchema",
    "Inspection",
    "SchemaUse",
    "ddl_from_subject",
    "infer_schema",
    "inspect_topic",
    "schema_from_subject",
]
