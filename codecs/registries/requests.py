"""Requests to a schema registry: each has a timeout, failures are tried again, and errors show no secrets."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kvformat.codecs.registries.registry import cause_without_secrets, registry_error, shorten
from kvformat.registry.contract.errors import KvFormatError
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings, SchemaRegistry

_T = TypeVar("_T")
LARGEST_ANSWER = 8 << 20  # bytes; a registry on Kafka stores each schema in one message, by default of up to 1 MB
MOST_REFERENCES = 1000  # schemas that one schema refers to; each is a request
_LONGEST_WAIT = 20.0  # seconds


class Requests(SchemaRegistry):
    """A registry that is asked with a timeout and tried again; what it raises becomes a `SchemaRegistryError`."""

    def __init__(self, registry: SchemaRegistry, settings: RegistrySettings) -> None:
        self.registry, self._settings = registry, settings

    def schema(self, schema_id: int | str) -> RegistrySchema | Refused:
        return self._request(partial(self.registry.schema, schema_id), f"schema id {schema_id}", schema_id=schema_id)

    def register(self, subject: str, schema: RegistrySchema) -> int | str | Refused:
        call = partial(self.registry.register, subject, schema)
        return self._ask("registering a schema under", subject, call)

    def lookup(self, subject: str, schema: RegistrySchema) -> int | str | Refused:
        return self._ask("the schema's id under", subject, partial(self.registry.lookup, subject, schema))

    def latest(self, subject: str) -> tuple[int | str, RegistrySchema] | Refused:
        return self._ask("the latest schema of", subject, partial(self.registry.latest, subject))

    def version(self, subject: str, version: int) -> tuple[int | str, RegistrySchema] | Refused:
        call = partial(self.registry.version, subject, version)
        return self._ask(f"version {version} of the schema of", subject, call)

    def _ask(self, what: str, subject: str, call: Callable[[], _T | Refused]) -> _T | Refused:
        """Call the registry for something of a subject."""
        if not subject:
            return Refused("the option 'subject' is empty")
        return self._request(call, f"{what} subject {subject!r}", subject=subject)

    def _request(
        self,
        call: Callable[[], _T | Refused],
        what: str,
        *,
        schema_id: int | str | None = None,
        subject: str | None = None,
    ) -> _T | Refused:
        """Call the registry within the timeout. Retries temporary failures with increasing waits."""
        settings, deadline = self._settings, time.monotonic() + self._settings.timeout
        for attempt in range(settings.retries + 1):
            try:
                answer = call_with_timeout(deadline - time.monotonic(), call)
            except KvFormatError:
                raise
            except Exception as caught:
                cause = caught
            else:
                if isinstance(answer, Refused):
                    return Refused(shorten(settings.scrubbed(answer.reason, self.registry.secrets())))
                return answer
            wait = random.uniform(0.5, 1) * min(settings.backoff * 2**attempt, _LONGEST_WAIT)
            last = attempt == settings.retries or time.monotonic() + wait >= deadline
            if last or not self.registry.is_transient(cause):
                secrets = tuple(self.registry.secrets())
                named = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
                why = settings.scrubbed(f"{what}: {named}", secrets)
                shown = cause_without_secrets(settings, cause, secrets)
                raise registry_error(settings, why, schema_id=schema_id, subject=subject) from shown
            time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")


def call_with_timeout(seconds: float, call: Callable[[], _T]) -> _T:
    """Return the result of a call or raise `TimeoutError`. A client's own timeouts may restart with each byte."""
    results: queue.SimpleQueue[tuple[_T | None, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put((call(), None))
        except Exception as caught:
            results.put((None, caught))

    threading.Thread(target=run, daemon=True, name="kvformat-schema-registry").start()
    try:
        value, error = results.get(timeout=max(seconds, 0))
    except queue.Empty:
        raise TimeoutError("no answer within the timeout (option 'registry-timeout')") from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # None only if the call returns None
