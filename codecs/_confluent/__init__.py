"""Confluent's framing (the id or the GUID of a schema) and clients of schema registries.

Each id and each pair of subject and schema is looked up once in a process. Bounded caches keep the answers; all formats
with the same settings share them. A registry that can't be reached, is too slow or gives an invalid answer raises
`SchemaRegistryError`. An unknown id or a refused schema is a valid answer: `Refused`.

    http://..., https://...   Confluent's REST interface, with the client of confluent-kafka
    mock://<scope>            confluent-kafka's registry in memory, one per scope and process
    file:<folder>             a folder with a file per schema, `<id>.avsc`, `<id>.json` or `<id>.proto`, or with a GUID
                              in place of the id; a new schema gets the next free id
    <scheme>://...            a registry of another package, by its entry point in `kvformat.registries`

Rules: Flink's "Confluent Avro Format" page, and the options that Flink passes to Confluent's Java client.
"""

from __future__ import annotations

from kvformat.codecs._confluent.cache import id_of_schema, latest_schema, schemas_by_id, subject_schema
from kvformat.codecs._confluent.frames import (
    HEADERS,
    PREFIX,
    Frames,
    add_headers,
    bodies,
    body,
    cut_guids,
    distinct_ids,
    frame_size,
    layout,
    numbered,
    prefix,
    read_frames,
    schema_of,
    with_frame_errors,
)
from kvformat.codecs._confluent.registry import AVRO, JSON, PROTOBUF
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings

__all__ = [
    "AVRO",
    "HEADERS",
    "JSON",
    "PREFIX",
    "PROTOBUF",
    "Frames",
    "Refused",
    "RegistrySchema",
    "RegistrySettings",
    "add_headers",
    "bodies",
    "body",
    "cut_guids",
    "distinct_ids",
    "frame_size",
    "id_of_schema",
    "latest_schema",
    "layout",
    "numbered",
    "prefix",
    "read_frames",
    "schema_of",
    "schemas_by_id",
    "subject_schema",
    "with_frame_errors",
]
