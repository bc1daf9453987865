"""Cached lookups in schema registries. All formats with the same settings share the bounded caches."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from kvformat.codecs.registries.confluent_client import IN_MEMORY
from kvformat.codecs.registries.registries import open_registry
from kvformat.codecs.registries.registry import registry_error
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings, SchemaRegistry

_T = TypeVar("_T")
_CLIENTS, _ANSWERS = 64, 10_000  # bounds of the caches
_UNKNOWN_FOR = 2.0  # seconds; after this time, a new schema is found, also one that a replica did not have yet
_LONGEST_UNKNOWN = 600.0  # seconds; the time doubles with each lookup of an id that is still unknown
_AT_ONCE = 8  # parallel lookups of one batch
_MOST_UNKNOWN = 100  # unknown ids of one batch


@dataclass(frozen=True, slots=True)
class _UnknownId:
    """An id that a registry does not know, cached for `seconds` until the time `until` (`time.monotonic()`)."""

    refused: Refused
    until: float
    seconds: float


class _Cache(Generic[_T]):
    """A bounded cache that drops the least recently used entry.

    After a fork, the child's cache is empty, so that it shares no connection with its parent.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._entries: Guarded[OrderedDict[Hashable, _T]] = Guarded(OrderedDict)

    def get(self, key: Hashable) -> _T | None:
        with self._entries.use() as known:
            entry = known.get(key)
            if entry is not None:
                known.move_to_end(key)
            return entry

    def put(self, key: Hashable, value: _T, *, replace: bool = False) -> _T:
        """Store a value unless the key exists or `replace` is set. Returns the stored value."""
        with self._entries.use() as known:
            if replace:
                known.pop(key, None)
            kept = known.setdefault(key, value)
            known.move_to_end(key)
            if len(known) > self._bound:
                known.popitem(last=False)
            return kept

    def drop(self, key: Hashable) -> None:
        with self._entries.use() as known:
            known.pop(key, None)


_registries: _Cache[SchemaRegistry] = _Cache(_CLIENTS)
_schemas: _Cache[RegistrySchema] = _Cache(_ANSWERS)
_ids: _Cache[int | str] = _Cache(_ANSWERS)
_unknown: _Cache[_UnknownId] = _Cache(_ANSWERS)
_compared: _Cache[str] = _Cache(_ANSWERS)


def schemas_by_id(settings: RegistrySettings, ids: Sequence[int | str]) -> dict[int | str, RegistrySchema | Refused]:
    """Look up schemas by their ids, numbers or GUIDs. Requests ids that are not cached in this order, some in parallel.

    Unknown ids are cached for a while; otherwise each batch would request them. There is no limit on known ids. After
    `_MOST_UNKNOWN` unknown ids, the other ids are refused without a request, and are not cached: many messages with
    foreign ids must not stop the stream or its registry.
    Raises `SchemaRegistryError` if a request fails or if the ids take longer than the timeout of one request.
    """
    cached = {schema_id: _cached_schema(settings, schema_id) for schema_id in ids}
    answers = {schema_id: answer for schema_id, answer in cached.items() if answer is not None}
    waiting = [schema_id for schema_id in cached if schema_id not in answers]
    if len(waiting) < 2:
        return answers | {schema_id: _request_schema(settings, schema_id) for schema_id in waiting}
    deadline, unknown = time.monotonic() + settings.timeout, 0
    _registry(settings)  # create the client once for all threads: this takes longer than a request
    with ThreadPoolExecutor(min(_AT_ONCE, len(waiting)), "kvformat-schema-ids") as threads:
        for at in range(0, len(waiting), _AT_ONCE):
            if unknown >= _MOST_UNKNOWN:
                refused = Refused(
                    f"it was not requested, because the registry does not know {unknown} other ids of the same batch; "
                    f"the limit is {_MOST_UNKNOWN}. The message may be valid: read it again"
                )
                return answers | dict.fromkeys(waiting[at:], refused)
            if time.monotonic() > deadline:
                why = (
                    f"{len(waiting) - at} of {len(waiting)} schema ids of a batch: the time for all of them is over "
                    "(option 'registry-timeout')"
                )
                raise registry_error(settings, why, schema_id=waiting[at])
            together = waiting[at : at + _AT_ONCE]
            answers |= zip(together, threads.map(_request_schema, [settings] * len(together), together), strict=True)
            unknown += sum(isinstance(answers[schema_id], Refused) for schema_id in together)
    return answers


def schemas_of_kind(
    settings: RegistrySettings, ids: Sequence[int | str], kind: str
) -> dict[int | str, RegistrySchema | Refused]:
    """Look up schemas as `schemas_by_id`, and return them in this order. A schema of another kind is a refusal."""
    answers = schemas_by_id(settings, ids)
    return {
        schema_id: answer if isinstance(answer, Refused) else answer.of_kind(kind, f"schema {schema_id}")
        for schema_id, answer in ((schema_id, answers[schema_id]) for schema_id in ids)
    }


def _cached_schema(settings: RegistrySettings, schema_id: int | str) -> RegistrySchema | Refused | None:
    """Return the cached answer for an id, None if there is none or it is too old."""
    schema = _schemas.get((settings, schema_id))
    if schema is not None:
        return schema
    unknown = _unknown.get((settings, schema_id))
    return unknown.refused if unknown is not None and time.monotonic() < unknown.until else None


def _request_schema(settings: RegistrySettings, schema_id: int | str) -> RegistrySchema | Refused:
    """Request the schema of an id and cache the answer."""
    key = (settings, schema_id)
    answer = _registry(settings).schema(schema_id)
    if not isinstance(answer, Refused):
        return _schemas.put(key, answer)
    before = _unknown.get(key)
    seconds = _UNKNOWN_FOR if before is None else min(before.seconds * 2, _LONGEST_UNKNOWN)
    _unknown.put(key, _UnknownId(answer, time.monotonic() + seconds, seconds), replace=True)
    return answer


def id_of_schema(
    settings: RegistrySettings, subject: str, schema: RegistrySchema, *, register: bool
) -> int | str | Refused:
    """Return the id of a schema under a subject. With `register`, registers the schema if it is new. Cached."""
    key = (settings, subject, schema)
    known = _ids.get(key)
    if known is not None:
        return known
    registry = _registry(settings)
    answer = registry.register(subject, schema) if register else registry.lookup(subject, schema)
    if isinstance(answer, Refused):
        return answer
    _unknown.drop((settings, answer))  # a message may have had the id before its schema was registered
    return _ids.put(key, answer)


def compared_once(key: Hashable, compare: Callable[[], str]) -> tuple[str, bool]:
    """Return the cached result of comparing a schema with a table, and whether it was computed now."""
    known = _compared.get(key)
    return (_compared.put(key, compare()), True) if known is None else (known, False)


def latest_schema(settings: RegistrySettings, subject: str) -> tuple[int | str, RegistrySchema] | Refused:
    """Return a subject's latest schema after its id. Cached from the first request on."""
    key = (settings, subject, "latest")
    schema_id = _ids.get(key)
    schema = None if schema_id is None else _schemas.get((settings, schema_id))
    if schema_id is not None and schema is not None:
        return schema_id, schema
    answer = _registry(settings).latest(subject)
    if isinstance(answer, Refused):
        return answer
    return _ids.put(key, answer[0], replace=True), _schemas.put((settings, answer[0]), answer[1])


def subject_schema(
    settings: RegistrySettings, subject: str, version: int | None
) -> tuple[int | str, RegistrySchema] | Refused:
    """Return a version of a subject after its id, None for the latest version. Not cached."""
    in_memory = settings.url.startswith(IN_MEMORY)
    registry = _registry(settings) if in_memory else open_registry(settings)  # clients have caches too
    return registry.latest(subject) if version is None else registry.version(subject, version)


def _registry(settings: RegistrySettings) -> SchemaRegistry:
    known = _registries.get(settings)
    return _registries.put(settings, open_registry(settings)) if known is None else known
