"""Propose a CREATE TABLE for the records of a topic. Each candidate is tried on the sample first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from kvformat.codecs.changes.other_messages import OTHER_MESSAGES
from kvformat.codecs.debezium.columns import is_flattened
from kvformat.codecs.discovery.column_types import Notes
from kvformat.connectors.infer.inferred import InferredSchema, table_text
from kvformat.connectors.infer.subject import BOOTSTRAP
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.discovery import format_class, get_format
from kvformat.registry.contract.errors import ConfigurationError, SchemaRegistryError
from kvformat.registry.contract.samples import MessageSample
from kvformat.registry.contract.types import FlinkField
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.sql.connector_options import KAFKA, UPSERT_KAFKA

_LONGEST_ERROR = 200  # characters


@dataclass(frozen=True, slots=True)
class Deletes:
    """How the sample contains deletes: as null messages (`tombstones`), or with a field that marks them (`marked`)."""

    tombstones: bool
    marked: bool = False


def start_options(name: str, topic: str | None, bootstrap: str | None) -> dict[str, str]:
    """Return the options for topic and brokers. Defaults are the table's name and a broker of this machine."""
    return {
        "topic": name if topic is None else topic,
        "properties.bootstrap.servers": BOOTSTRAP if bootstrap is None else bootstrap,
    }


def propose(
    sample: MessageSample,
    value: InferredSchema,
    key: InferredSchema | None,
    deletes: Deletes,
    notes: Notes,
    *,
    name: str,
    start: Mapping[str, str],
) -> str | None:
    """Return the statement of the candidate with the fewest errors in the sample, or None if every table is refused.

    The first of equal candidates wins. An insert-only format gives these candidates, in this order:

    1. `upsert-kafka` with the key, if the sample has tombstones and every record has a key
    2. `kafka` with the key
    3. `kafka` without the key

    Debezium's flattened rows give `upsert-kafka` if every record has a key, and then `kafka` without the key. All other
    changes, and rows with a field that marks deletes, only give `kafka` without the key. If messages that are not
    changes cause errors, 'other-messages' = 'skip' skips them. Notes count the records that the table does not read,
    and those that a candidate with more of the records' information would not read.
    """
    best: _Trial | None = None
    first: _Trial | None = None
    refused = []
    for candidate in _candidates(sample, value, key, deletes):
        trial = _try_candidate(candidate, sample, name, start, notes)
        if isinstance(trial, str):
            refused.append(f"a table of {candidate.connector} can't be made: {trial}")
        elif best is None or trial.bad < best.bad:
            best, first = trial, first or trial
    if best is None or first is None:
        notes.add(refused[0])
        return None
    if best is not first:
        notes.add(
            f"a table of {first.candidate.connector} with the key is not proposed: {first.bad} of {len(sample.values)} "
            f"records are errors to it, the first: {first.first}",
            name,
        )
    names = {option.name for option in format_class(value.format).option_specs}
    if best.bad and OTHER_MESSAGES.name in names - value.options.keys():
        trial = _try_candidate(best.candidate.with_option(OTHER_MESSAGES.name, "skip"), sample, name, start, notes)
        if not isinstance(trial, str) and trial.bad < best.bad:
            notes.add(
                f"{best.bad - trial.bad} messages are not changes of rows (heartbeats, statements, marks of "
                f"transactions): '{OTHER_MESSAGES.name}' = 'skip' skips them"
            )
            best = trial
    if best.bad:
        notes.add(
            f"{best.bad} of {len(sample.values)} records are errors to the proposed table, the first: {best.first}"
        )
    return best.text


class _Candidate:
    """A table for a value and an optional key. With `shared`, the value contains the key columns, too."""

    def __init__(
        self, connector: str, value: InferredSchema, key: InferredSchema | None, *, shared: bool = False
    ) -> None:
        self.connector, self._value, self._key, self._shared = connector, value, key, shared

    def with_option(self, name: str, text: str) -> _Candidate:
        """Return a copy with one more option of the value's format."""
        value = replace(self._value, options={**self._value.options, name: text})
        return _Candidate(self.connector, value, self._key, shared=self._shared)

    def text(self, name: str, start: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
        """Return the statement with masked secrets, and the real values of the masked options."""
        value, key = self._value, self._key
        upsert = self.connector == UPSERT_KAFKA
        options: dict[str, Any] = {"connector": self.connector, **start}
        if not upsert:
            options["scan.startup.mode"] = "earliest-offset"
        if key is None:
            options |= {"format": value.format, **value.prefixed(f"{value.format}.")}
            return table_text(name, value.fields, value.primary_key, options), _secrets(value, options, "")
        prefix = "" if self._shared else _prefix(value, key)
        keys = tuple(FlinkField(f"{prefix}{column.name}", column.type) for column in key.fields)
        options |= {"key.format": key.format, **key.prefixed(f"key.{key.format}.")}
        if not upsert:
            options["key.fields"] = ";".join(_list_entry(column.name) for column in keys)
        if prefix:
            options["key.fields-prefix"] = prefix
        options |= {"value.format": value.format, **value.prefixed(f"value.{value.format}.")}
        secrets = _secrets(key, options, "key.") | _secrets(value, options, "value.")
        if self._shared:
            return table_text(name, value.fields, value.primary_key, options), secrets
        primary = tuple(column.name for column in keys) if upsert else ()
        options["value.fields-include"] = "EXCEPT_KEY"
        return table_text(name, (*keys, *value.fields), primary, options), secrets


def _candidates(
    sample: MessageSample, value: InferredSchema, key: InferredSchema | None, deletes: Deletes
) -> list[_Candidate]:
    candidates = [_Candidate(KAFKA, value, None)]
    mode = get_format(value.format, value.options).changelog_mode
    is_flat = is_flattened(value.options)
    if key is None or sample.keys is None or (mode is not ChangelogMode.INSERT_ONLY and not is_flat) or deletes.marked:
        return candidates
    upsert = None not in sample.keys
    if is_flat:
        return [*(_upserts(value, key) if upsert else ()), *candidates]
    candidates.insert(0, _Candidate(KAFKA, value, key))
    if upsert and deletes.tombstones:
        candidates = [*_upserts(_with_primary_key(value, key), key), *candidates]
    return candidates


def _with_primary_key(value: InferredSchema, key: InferredSchema) -> InferredSchema:
    """Return the value with the key columns as its primary key, if it contains all of them."""
    names = tuple(column.name for column in key.fields)
    is_inside = {column.name for column in value.fields}.issuperset(names)
    return replace(value, primary_key=names if is_inside else ())


def _upserts(value: InferredSchema, key: InferredSchema) -> list[_Candidate]:
    """Return candidates for `upsert-kafka`: shared key columns with the types of value or key, then separate ones."""
    if not value.primary_key:
        return [_Candidate(UPSERT_KAFKA, value, key)]
    types = {column.name: column.type for column in key.fields}
    of_key = replace(value, fields=tuple(FlinkField(f.name, types.get(f.name, f.type)) for f in value.fields))
    shared = [value, of_key] if types.keys() == set(value.primary_key) else [value]
    return [*(_Candidate(UPSERT_KAFKA, v, key, shared=True) for v in shared), _Candidate(UPSERT_KAFKA, value, key)]


def _prefix(value: InferredSchema, key: InferredSchema) -> str:
    """Return a prefix for the key columns that avoids name clashes with the value's columns."""
    names = {column.name for column in value.fields}
    prefix = ""
    while any(f"{prefix}{column.name}" in names for column in key.fields):
        prefix = f"key_{prefix}"
    return prefix


def _list_entry(name: str) -> str:
    """Return a name as an entry of the option `key.fields`, quoted if needed."""
    return "'" + name.replace("'", "''") + "'" if set(name) & set(";'\"") or name != name.strip() else name


def _secrets(schema: InferredSchema, options: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the real values of the masked options."""
    real = {f"{prefix}{schema.format}.{key}": value for key, value in schema.options.items()}
    return {key: value for key, value in real.items() if options.get(key) != str(value)}


@dataclass(frozen=True, slots=True)
class _Trial:
    """A valid table: its statement, the number of records of the sample that fail, and the first error."""

    candidate: _Candidate
    text: str
    bad: int = 0
    first: str = ""


def _try_candidate(
    candidate: _Candidate, sample: MessageSample, name: str, start: Mapping[str, str], notes: Notes
) -> _Trial | str:
    """Try a table on the sample; returns the reason as text if the table is not valid."""
    text, secrets = candidate.text(name, start)
    keys = None if sample.keys is None else pa.array(sample.keys, pa.binary())
    try:
        errors = KeyValueFormat.from_ddl(text).with_options(secrets).decode_batch(keys, sample.array()).errors
    except ConfigurationError as error:
        return str(error)
    except SchemaRegistryError as error:
        notes.add(str(error))
        return _Trial(candidate, text)
    texts = [] if errors is None else [error for error in errors.to_pylist() if error]
    return _Trial(candidate, text, len(texts), texts[0][:_LONGEST_ERROR] if texts else "")
