"""Confluent's framing and its schema registry: `00`, four bytes of schema id, and who knows what the id stands for.

A registry is asked once for each id and once for each (subject, schema); the answers are kept for the life of the
process, in bounded caches that are shared by all formats with the same settings. A registry that can't be reached,
answers too late or answers nonsense raises `SchemaRegistryError`; that it does not know an id, or refuses a schema, is
an answer.

    http://..., https://...   Confluent's REST interface, by the client in confluent-kafka
    mock://<scope>            confluent-kafka's registry in memory, one per scope and process
    file:<folder>             `<id>.avsc` for each schema; a new one gets the next free id

Rules: Flink's "Confluent Avro Format" page, and the options of Confluent's Java client that Flink hands on.
"""

from __future__ import annotations

from kvformat.codecs._confluent.cache import id_of_schema, latest_schema, schemas_by_id, subject_schema
from kvformat.codecs._confluent.frames import PREFIX, Frames, prefix, read_frames
from kvformat.codecs._confluent.registry import Refused
from kvformat.codecs._confluent.settings import RegistrySettings

__all__ = [
    "PREFIX",
    "Frames",
    "Refused",
    "RegistrySettings",
    "id_of_schema",
    "latest_schema",
    "prefix",
    "read_frames",
    "schemas_by_id",
    "subject_schema",
]
