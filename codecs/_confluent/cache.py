"""What registries have answered: bounded caches, shared by all formats with the same settings."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from kvformat.codecs._confluent.client import IN_MEMORY, Confluent
from kvformat.codecs._confluent.registry import Folder, Refused, SchemaRegistry, registry_error
from kvformat.codecs._confluent.settings import FORMAT, RegistrySettings
from kvformat.registry.contract.errors import SchemaRegistryError
from kvformat.registry.contract.fork_safe import Guarded

_T = TypeVar("_T")
_CLIENTS, _ANSWERS = 64, 10_000  # bounds of the caches
_UNKNOWN_FOR = 2.0  # seconds; a schema registered meanwhile, or one that a replica does not have yet, is seen soon
_LONGEST_UNKNOWN = 600.0  # seconds; each time that an id is still unknown it is believed twice as long, up to this
_AT_ONCE = 8  # questions, of one batch
_MOST_UNKNOWN = 100  # ids that a registry does not know, of one batch


@dataclass(frozen=True, slots=True)
class _UnknownId:
    """An id that a registry does not know: why, until when (`time.monotonic()`) and for how long that is believed."""

    refused: Refused
    until: float
    seconds: float


class _Cache(Generic[_T]):
    """A bounded cache; the entry used longest ago goes first.

    The child of a fork begins with an empty one: it shares no connection with its parent.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._entries: Guarded[OrderedDict[Hashable, _T]] = Guarded(OrderedDict)

    def get(self, key: Hashable) -> _T | None:
        with self._entries.use() as known:
            found = known.get(key)
            if found is not None:
                known.move_to_end(key)
            return found

    def put(self, key: Hashable, value: _T, *, replace: bool = False) -> _T:
        """Keep a value unless there is one already, or in its stead; returns what is kept."""
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
_texts: _Cache[str] = _Cache(_ANSWERS)
_ids: _Cache[int] = _Cache(_ANSWERS)
_unknown: _Cache[_UnknownId] = _Cache(_ANSWERS)


def schemas_by_id(settings: RegistrySettings, ids: Sequence[int]) -> dict[int, str | Refused]:
    """The texts of schemas by their ids; those not known yet are asked for in this order, some at a time.

    That an id is unknown is believed for a while, so that not every batch asks again. Ids that a registry knows are
    asked for however many they are. Where it does not know `_MOST_UNKNOWN` of them, the others are not asked for and
    are refused for this once: what floods a topic with foreign messages must neither stop it nor its registry.
    Raises `SchemaRegistryError` when a registry can't be asked, or not about all of them in the time for one question.
    """
    found = {schema_id: _cached_schema(settings, schema_id) for schema_id in ids}
    answers = {schema_id: answer for schema_id, answer in found.items() if answer is not None}
    waiting = [schema_id for schema_id in found if schema_id not in answers]
    if len(waiting) < 2:
        return answers | {schema_id: _request_schema(settings, schema_id) for schema_id in waiting}
    deadline, unknown = time.monotonic() + settings.timeout, 0
    _registry(settings)  # one client for all threads: creating one takes longer than a question
    with ThreadPoolExecutor(min(_AT_ONCE, len(waiting)), "kvformat-schema-ids") as threads:
        for at in range(0, len(waiting), _AT_ONCE):
            if unknown >= _MOST_UNKNOWN:
                refused = Refused(
                    f"it was not asked for, because the registry does not know {unknown} other ids of the same batch, "
                    f"and after {_MOST_UNKNOWN} no further one is asked for. The message may be good: read it again"
                )
                return answers | dict.fromkeys(waiting[at:], refused)
            if time.monotonic() > deadline:
                why = (
                    f"{len(waiting) - at} of {len(waiting)} schema ids of a batch: there is no time left to ask for "
                    "them (option 'registry-timeout')"
                )
                raise registry_error(settings, why, schema_id=waiting[at])
            asked = waiting[at : at + _AT_ONCE]
            answers |= zip(asked, threads.map(_request_schema, [settings] * len(asked), asked), strict=True)
            unknown += sum(isinstance(answers[schema_id], Refused) for schema_id in asked)
    return answers


def _cached_schema(settings: RegistrySettings, schema_id: int) -> str | Refused | None:
    """What the registry has answered about an id, if that still counts."""
    text = _texts.get((settings, schema_id))
    if text is not None:
        return text
    unknown = _unknown.get((settings, schema_id))
    return unknown.refused if unknown is not None and time.monotonic() < unknown.until else None


def _request_schema(settings: RegistrySettings, schema_id: int) -> str | Refused:
    """What the registry answers about an id."""
    key = (settings, schema_id)
    answer = _registry(settings).schema(schema_id)
    if not isinstance(answer, Refused):
        return _texts.put(key, answer)
    before = _unknown.get(key)
    seconds = _UNKNOWN_FOR if before is None else min(before.seconds * 2, _LONGEST_UNKNOWN)
    _unknown.put(key, _UnknownId(answer, time.monotonic() + seconds, seconds), replace=True)
    return answer


def id_of_schema(settings: RegistrySettings, subject: str, text: str, *, register: bool) -> int | Refused:
    """The id of a schema under a subject, registered if need be or only looked up."""
    key = (settings, subject, text)
    known = _ids.get(key)
    if known is not None:
        return known
    registry = _registry(settings)
    answer = registry.register(subject, text) if register else registry.lookup(subject, text)
    if not isinstance(answer, int):
        return answer
    _unknown.drop((settings, answer))  # a message may have had the id before there was a schema of it
    return _ids.put(key, answer)


def latest_schema(settings: RegistrySettings, subject: str) -> tuple[int, str] | Refused:
    """Id and text of a subject's latest schema, as it was when first asked for."""
    key = (settings, subject, "latest")
    schema_id = _ids.get(key)
    text = None if schema_id is None else _texts.get((settings, schema_id))
    if schema_id is not None and text is not None:
        return schema_id, text
    answer = _registry(settings).latest(subject)
    if isinstance(answer, Refused):
        return answer
    return _ids.put(key, answer[0]), _texts.put((settings, answer[0]), answer[1])


def subject_schema(settings: RegistrySettings, subject: str, version: int | None) -> tuple[int, str] | Refused:
    """Id and text of a version of a subject, the latest one for None: as it is now, whatever was answered before."""
    in_memory = settings.url.startswith(IN_MEMORY)
    registry = _registry(settings) if in_memory else _new_registry(settings)  # a client keeps what it has been told
    return registry.latest(subject) if version is None else registry.version(subject, version)


def _registry(settings: RegistrySettings) -> SchemaRegistry:
    known = _registries.get(settings)
    return _registries.put(settings, _new_registry(settings)) if known is None else known


def _new_registry(settings: RegistrySettings) -> SchemaRegistry:
    if not settings.url.strip():
        raise SchemaRegistryError(
            "the option 'url' is empty: there is no schema registry to ask", format=FORMAT, url=""
        )
    return Folder(settings) if settings.url.startswith("file:") else Confluent(settings)
