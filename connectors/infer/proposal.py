"""A CREATE TABLE for the records of a topic, tried on the sample before it is proposed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from kvformat.connectors.infer.avro import BOOTSTRAP
from kvformat.connectors.infer.inferred import InferredSchema, table_text
from kvformat.connectors.infer.sample import MessageSample
from kvformat.connectors.infer.types import Notes
from kvformat.registry.changelog import ChangelogMode
from kvformat.registry.discovery import format_class
from kvformat.registry.errors import ConfigurationError, SchemaRegistryError
from kvformat.registry.key_value import KeyValueFormat
from kvformat.registry.types import FlinkField

_LONGEST_ERROR = 200  # characters


def propose(
    sample: MessageSample,
    value: InferredSchema,
    key: InferredSchema | None,
    notes: Notes,
    *,
    name: str,
    topic: str | None,
    bootstrap: str | None,
) -> str | None:
    """The first of these tables that can be made, and that reads as many records as the others.

    With the key where rows are inserts: as `upsert-kafka` where there are tombstones and every record has a key, else
    as `kafka`; and without the key. Notes say how many records it does not read.
    """
    start = {
        "topic": name if topic is None else topic,
        "properties.bootstrap.servers": BOOTSTRAP if bootstrap is None else bootstrap,
    }
    best: tuple[int, str, str] | None = None
    refused = []
    for candidate in _candidates(sample, value, key):
        text, secrets = candidate.text(name, start)
        try:
            bad, first = _tried(KeyValueFormat.from_ddl(text).with_options(secrets), sample)
        except ConfigurationError as error:
            refused.append(f"a table of {candidate.connector} can't be made: {error}")
            continue
        except SchemaRegistryError as error:
            notes.add(str(error))
            bad, first = 0, ""
        if best is None or bad < best[0]:
            best = bad, first, text
    if best is None:
        notes.add(refused[0])
        return None
    bad, first, text = best
    if bad:
        notes.add(f"{bad} of {len(sample.values)} records are errors to the proposed table, the first: {first}")
    if topic is None or bootstrap is None:
        notes.add("say in the table where the topic is: topic and properties.bootstrap.servers")
    return text


class _Candidate:
    """A table of a value and perhaps a key."""

    def __init__(self, connector: str, value: InferredSchema, key: InferredSchema | None) -> None:
        self.connector, self._value, self._key = connector, value, key

    def text(self, name: str, start: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
        """The statement, in which secrets are masked, and the options that are."""
        value, key = self._value, self._key
        upsert = self.connector == "upsert-kafka"
        given: dict[str, Any] = {"connector": self.connector, **start}
        if not upsert:
            given["scan.startup.mode"] = "earliest-offset"
        if key is None:
            given |= {"format": value.format, **value.prefixed(f"{value.format}.")}
            return table_text(name, value.fields, value.primary_key, given), _secrets(value, given, "")
        prefix = _prefix(value, key)
        keys = tuple(FlinkField(f"{prefix}{column.name}", column.type) for column in key.fields)
        given |= {"key.format": key.format, **key.prefixed(f"key.{key.format}.")}
        if not upsert:
            given["key.fields"] = ";".join(_entry(column.name) for column in keys)
        if prefix:
            given["key.fields-prefix"] = prefix
        given |= {"value.format": value.format, **value.prefixed(f"value.{value.format}.")}
        given["value.fields-include"] = "EXCEPT_KEY"
        primary = tuple(column.name for column in keys) if upsert else ()
        secrets = _secrets(key, given, "key.") | _secrets(value, given, "value.")
        return table_text(name, (*keys, *value.fields), primary, given), secrets


def _candidates(sample: MessageSample, value: InferredSchema, key: InferredSchema | None) -> list[_Candidate]:
    found = [_Candidate("kafka", value, None)]
    inserts = format_class(value.format).changelog_mode is ChangelogMode.INSERT_ONLY
    if key is None or not inserts or sample.keys is None:
        return found
    found.insert(0, _Candidate("kafka", value, key))
    if None in sample.values and None not in sample.keys:
        found.insert(0, _Candidate("upsert-kafka", value, key))
    return found


def _prefix(value: InferredSchema, key: InferredSchema) -> str:
    """What is put before the names of the key, so that they are none of the value's."""
    names = {column.name for column in value.fields}
    prefix = ""
    while any(f"{prefix}{column.name}" in names for column in key.fields):
        prefix = f"key_{prefix}"
    return prefix


def _entry(name: str) -> str:
    """A name in a list of names."""
    return "'" + name.replace("'", "''") + "'" if set(name) & set(";'\"") or name != name.strip() else name


def _secrets(schema: InferredSchema, given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The real values of what is masked."""
    real = {f"{prefix}{schema.format}.{key}": value for key, value in schema.options.items()}
    return {key: value for key, value in real.items() if given.get(key) != str(value)}


def _tried(kv: KeyValueFormat, sample: MessageSample) -> tuple[int, str]:
    """How many records of the sample are errors, and the first error."""
    keys = None if sample.keys is None else pa.array(sample.keys, pa.binary())
    errors = kv.decode_batch(keys, sample.array()).errors
    texts = [] if errors is None else [text for text in errors.to_pylist() if text]
    return len(texts), texts[0][:_LONGEST_ERROR] if texts else ""
