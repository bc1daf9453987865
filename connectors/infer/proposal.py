"""A CREATE TABLE for the records of a topic, tried on the sample before it is proposed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from kvformat.codecs._changes.other_messages import OTHER_MESSAGES
from kvformat.codecs._infer.change_data import is_flattened
from kvformat.codecs._infer.column_types import Notes
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
    """How the sample says that a row is gone: by null messages, or by a member that marks it."""

    tombstones: bool
    marked: bool = False


def start_options(name: str, topic: str | None, bootstrap: str | None) -> dict[str, str]:
    """Where the topic is; the table's name and a broker of this machine in place of what is not known."""
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
    """The first of these tables that can be made, and that reads as many records as the others.

    With the key where rows are inserts: as `upsert-kafka` where there are tombstones and every record has a key, else
    as `kafka`; and without the key. Rows alone of Debezium are an upsert table: as `upsert-kafka`, unless they are
    marked where they are deleted. Where messages that are no changes are in the way, 'other-messages' = 'skip' passes
    over them. Notes say how many records the table does not read.
    """
    best: _Trial | None = None
    refused = []
    for candidate in _candidates(sample, value, key, deletes):
        trial = _tried(candidate, sample, name, start, notes)
        if isinstance(trial, str):
            refused.append(f"a table of {candidate.connector} can't be made: {trial}")
        elif best is None or trial.bad < best.bad:
            best = trial
    if best is None:
        notes.add(refused[0])
        return None
    if best.bad and OTHER_MESSAGES.name in _option_names(value.format) - value.options.keys():
        trial = _tried(best.candidate.with_option(OTHER_MESSAGES.name, "skip"), sample, name, start, notes)
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
    """A table of a value and perhaps a key. `shared`: the columns of the key are the value's, too."""

    def __init__(
        self, connector: str, value: InferredSchema, key: InferredSchema | None, *, shared: bool = False
    ) -> None:
        self.connector, self._value, self._key, self._shared = connector, value, key, shared

    def with_option(self, name: str, text: str) -> _Candidate:
        """The same table with an option of the value's format."""
        value = replace(self._value, options={**self._value.options, name: text})
        return _Candidate(self.connector, value, self._key, shared=self._shared)

    def text(self, name: str, start: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
        """The statement, in which secrets are masked, and the options that are."""
        value, key = self._value, self._key
        upsert = self.connector == UPSERT_KAFKA
        given: dict[str, Any] = {"connector": self.connector, **start}
        if not upsert:
            given["scan.startup.mode"] = "earliest-offset"
        if key is None:
            given |= {"format": value.format, **value.prefixed(f"{value.format}.")}
            return table_text(name, value.fields, value.primary_key, given), _secrets(value, given, "")
        prefix = "" if self._shared else _prefix(value, key)
        keys = tuple(FlinkField(f"{prefix}{column.name}", column.type) for column in key.fields)
        given |= {"key.format": key.format, **key.prefixed(f"key.{key.format}.")}
        if not upsert:
            given["key.fields"] = ";".join(_entry(column.name) for column in keys)
        if prefix:
            given["key.fields-prefix"] = prefix
        given |= {"value.format": value.format, **value.prefixed(f"value.{value.format}.")}
        secrets = _secrets(key, given, "key.") | _secrets(value, given, "value.")
        if self._shared:
            return table_text(name, value.fields, value.primary_key, given), secrets
        primary = tuple(column.name for column in keys) if upsert else ()
        given["value.fields-include"] = "EXCEPT_KEY"
        return table_text(name, (*keys, *value.fields), primary, given), secrets


def _candidates(
    sample: MessageSample, value: InferredSchema, key: InferredSchema | None, deletes: Deletes
) -> list[_Candidate]:
    found = [_Candidate(KAFKA, value, None)]
    mode = get_format(value.format, value.options).changelog_mode
    alone = is_flattened(value.options)
    if key is None or sample.keys is None or (mode is not ChangelogMode.INSERT_ONLY and not alone) or deletes.marked:
        return found
    upsert = None not in sample.keys
    if alone:
        return [*(_upserts(value, key) if upsert else ()), *found]
    found.insert(0, _Candidate(KAFKA, value, key))
    if upsert and deletes.tombstones:
        found = [*_upserts(_keyed(value, key), key), *found]
    return found


def _keyed(value: InferredSchema, key: InferredSchema) -> InferredSchema:
    """The value with the columns of the key as its own, where it has all of them."""
    names = tuple(column.name for column in key.fields)
    is_inside = {column.name for column in value.fields}.issuperset(names)
    return replace(value, primary_key=names if is_inside else ())


def _upserts(value: InferredSchema, key: InferredSchema) -> list[_Candidate]:
    """Tables of `upsert-kafka`: columns of the key are the value's, by its types or those of the key; or its own."""
    if not value.primary_key:
        return [_Candidate(UPSERT_KAFKA, value, key)]
    types = {column.name: column.type for column in key.fields}
    of_key = replace(value, fields=tuple(FlinkField(f.name, types.get(f.name, f.type)) for f in value.fields))
    shared = [value, of_key] if types.keys() == set(value.primary_key) else [value]
    return [*(_Candidate(UPSERT_KAFKA, one, key, shared=True) for one in shared), _Candidate(UPSERT_KAFKA, value, key)]


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


@dataclass(frozen=True, slots=True)
class _Trial:
    """A table that can be made: its statement, how many records of the sample are errors, and the first error."""

    candidate: _Candidate
    text: str
    bad: int = 0
    first: str = ""


def _tried(
    candidate: _Candidate, sample: MessageSample, name: str, start: Mapping[str, str], notes: Notes
) -> _Trial | str:
    """Try a table on the sample; why it can't be made, where that is so."""
    text, secrets = candidate.text(name, start)
    keys = None if sample.keys is None else pa.array(sample.keys, pa.binary())
    try:
        errors = KeyValueFormat.from_ddl(text).with_options(secrets).decode_batch(keys, sample.array()).errors
    except ConfigurationError as error:
        return str(error)
    except SchemaRegistryError as error:
        notes.add(str(error))
        return _Trial(candidate, text)
    found = [] if errors is None else [error for error in errors.to_pylist() if error]
    return _Trial(candidate, text, len(found), found[0][:_LONGEST_ERROR] if found else "")


def _option_names(format: str) -> set[str]:
    return {option.name for option in format_class(format).option_specs}
