"""A registry with Confluent's REST interface, accessed with the client of confluent-kafka."""

from __future__ import annotations

import queue
import random
import re
import threading
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from kvformat.codecs._confluent.registry import (
    AVRO,
    Refused,
    RegistrySchema,
    SchemaRegistry,
    cause_without_secrets,
    registry_error,
    shorten,
)
from kvformat.codecs._confluent.settings import RegistrySettings, userinfo
from kvformat.registry.contract.errors import MissingExtraError, OptionError

_T = TypeVar("_T")
_NOT_FOUND = range(40400, 40500)  # error codes of a registry; a web server without this page has the code 404
_RETRIED = (408, 429, 500, 502, 503, 504)
_LONGEST_WAIT = 20.0  # seconds
_REFUSALS = (409, 422)
_MOST_REFERENCES = 1000


class Confluent(SchemaRegistry):
    """A registry accessed with the client of confluent-kafka, with our own timeouts and retries."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._client, self._schema_class, self._error_class = _client(settings)

    def schema(self, schema_id: int | str) -> RegistrySchema | Refused:
        def call() -> RegistrySchema:
            by_guid = isinstance(schema_id, str)
            found = self._client.get_schema_by_guid(schema_id) if by_guid else self._client.get_schema(schema_id)
            return self._complete(found)

        return self._request(call, f"schema id {schema_id}", schema_id=schema_id)

    def register(self, subject: str, schema: RegistrySchema) -> int | Refused:
        def call() -> int:
            return _check_id(self._client.register_schema(subject, self._schema_class(schema.text, schema.kind)))

        answer = self._ask("registering a schema under", subject, call)
        return self._with_reasons(answer, subject, schema) if isinstance(answer, Refused) and subject else answer

    def _with_reasons(self, refused: Refused, subject: str, schema: RegistrySchema) -> Refused:
        """Add the registry's reasons to its refusal of a schema. The refusal is known, so a failure changes nothing."""
        path = f"compatibility/subjects/{urllib.parse.quote(subject, safe='')}/versions?verbose=true"
        body = self._schema_class(schema.text, schema.kind).to_dict()
        try:
            found = _call_with_timeout(
                self._settings.timeout, lambda: self._client._rest_client.post(path, body=body)["messages"]
            )
            reasons = "; ".join(text for text in found if text not in refused.reason)
        except Exception:
            return refused
        return Refused(f"{refused.reason}. Its reasons: {self._refused(reasons).reason}") if reasons else refused

    def lookup(self, subject: str, schema: RegistrySchema) -> int | Refused:
        def call() -> int:
            found = self._client.lookup_schema(subject, self._schema_class(schema.text, schema.kind))
            return _check_id(found.schema_id)

        return self._ask("the schema's id under", subject, call)

    def latest(self, subject: str) -> tuple[int, RegistrySchema] | Refused:
        def call() -> tuple[int, RegistrySchema]:
            return self._id_and_schema(self._client.get_latest_version(subject))

        return self._ask("the latest schema of", subject, call)

    def version(self, subject: str, version: int) -> tuple[int, RegistrySchema] | Refused:
        def call() -> tuple[int, RegistrySchema]:
            return self._id_and_schema(self._client.get_version(subject, version))

        return self._ask(f"version {version} of the schema of", subject, call)

    def _ask(self, what: str, subject: str, call: Callable[[], _T | Refused]) -> _T | Refused:
        """Call the registry for something of a subject."""
        if not subject:
            return Refused("the option 'subject' is empty")
        return self._request(call, f"{what} subject {subject!r}", subject=subject)

    def _id_and_schema(self, found: Any) -> tuple[int, RegistrySchema]:
        return _check_id(found.schema_id), self._complete(found.schema)

    def _complete(self, schema: Any) -> RegistrySchema:
        """Return a schema with those that it refers to. Raises `ValueError` if it has no text."""
        if not isinstance(schema.schema_str, str):
            raise ValueError("the answer has no schema")
        texts: dict[str, str] = {}
        waiting = [schema]
        while waiting:
            for reference in waiting.pop().references or ():
                if reference.name in texts:
                    continue
                if len(texts) >= _MOST_REFERENCES:
                    raise ValueError(f"the schema refers to more than {_MOST_REFERENCES} others")
                waiting.append(self._client.get_version(reference.subject, reference.version).schema)
                texts[reference.name] = waiting[-1].schema_str
        kind = shorten(self._settings.scrubbed(schema.schema_type or AVRO))  # errors name it
        return RegistrySchema(kind, schema.schema_str, tuple(texts.items()))

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
                return _call_with_timeout(deadline - time.monotonic(), call)
            except Exception as caught:
                if isinstance(caught, self._error_class):
                    refusal = self._refusal(caught, by_guid=isinstance(schema_id, str))
                    if refusal is not None:
                        return refusal
                cause = caught
            wait = random.uniform(0.5, 1) * min(settings.backoff * 2**attempt, _LONGEST_WAIT)
            last = attempt == settings.retries or time.monotonic() + wait >= deadline
            if last or not self._is_transient(cause):
                why = f"{what}: {_cause_text(cause)}"
                raise registry_error(settings, why, schema_id=schema_id, subject=subject) from cause_without_secrets(
                    settings, cause
                )
            time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _refusal(self, error: Any, *, by_guid: bool) -> Refused | None:
        """Return the registry's error about the schema, None for an error of the server or the connection.

        A registry that has no page for GUIDs refuses all of them, so that a bad message can't stop its neighbours.
        """
        status, code = error.http_status_code, error.error_code
        if status in _REFUSALS or (status == 404 and code in _NOT_FOUND):
            return self._refused(str(error))
        if status == 404 and by_guid:
            return self._refused(f"{error}. Registries before Confluent Platform 8.0 do not know GUIDs")
        return None

    def _refused(self, reason: str) -> Refused:
        return Refused(shorten(self._settings.scrubbed(reason)))

    def _is_transient(self, cause: Exception) -> bool:
        if isinstance(cause, self._error_class):
            return getattr(cause, "http_status_code", None) in _RETRIED
        return not isinstance(
            cause, ValueError | TypeError | KeyError | AttributeError | RecursionError
        )  # an answer, but an invalid one


def _check_id(found: Any) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError("the answer has no schema id")
    return found


def _call_with_timeout(seconds: float, call: Callable[[], _T]) -> _T:
    """Return the result of a call or raise `TimeoutError`. The client's own timeouts restart with each byte."""
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


def _cause_text(cause: Exception) -> str:
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__


# --- the client ----------------------------------------------------------------------------------------

IN_MEMORY = "mock://"
_LARGEST_ANSWER = 8 << 20  # bytes; a registry on Kafka stores each schema in one message, by default of up to 1 MB
_SHORT_TOKEN = 60  # seconds
_PEM = b"-----BEGIN"
_FLINK_SSL = "schema.registry.ssl."
_PASSED_ON = re.compile(r"bearer\.auth\..*|ssl\.(ca|certificate|key)\.location|ssl\.key\.password|proxy")


def _client(settings: RegistrySettings) -> tuple[Any, type[Any], type[Exception]]:
    """Return a client, and confluent-kafka's classes of schemas and errors."""
    try:
        from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
        from confluent_kafka.schema_registry.error import SchemaRegistryError as ClientError
    except ImportError as cause:
        raise MissingExtraError(
            f"format '{settings.format}' needs the client of confluent-kafka: pip install 'kvformat[confluent]'",
            format=settings.format,
        ) from cause
    settings.check_authentication()
    try:
        client = SchemaRegistryClient.new_client(client_configuration(settings))
        if not settings.url.startswith(IN_MEMORY):
            _limit_responses(client._rest_client.session, settings.timeout)
            _add_token_expiry(client._rest_client.bearer_field_provider)
    except OptionError:
        raise
    except Exception as caught:
        failure = caught
    else:
        return client, Schema, ClientError
    reason = shorten(settings.scrubbed(str(failure)))
    raise OptionError(
        f"format '{settings.format}': the client for the schema registry at {settings.shown_url} can't be created: "
        f"{reason}",
        format=settings.format,
        reason=reason,
    ) from cause_without_secrets(settings, failure)


def _limit_responses(session: Any, seconds: float) -> None:
    """Make a session of httpx fail for answers that are too large or too slow.

    The timeouts of httpx restart with each chunk of an answer, and it does not limit the size.
    """
    session.headers["Accept-Encoding"] = "identity"  # a small compressed answer can be huge

    def read(response: Any) -> None:
        deadline, pieces, size = time.monotonic() + seconds, [], 0
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ValueError("the answer is compressed, although the request did not allow it")
        for piece in response.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > _LARGEST_ANSWER:
                raise ValueError(f"the answer has more than {_LARGEST_ANSWER} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError("the answer did not end within the timeout (option 'registry-timeout')")
        response._content = b"".join(pieces)  # as `response.read()` does, which has no limits

    session.event_hooks = {**session.event_hooks, "response": [read]}


def _add_token_expiry(provider: Any) -> None:
    """Use an OAuth token without an expiry time for `_SHORT_TOKEN` seconds.

    The expiry time is optional (RFC 6749, 5.1), but the client raises `KeyError` at the second request without it.
    """
    fetch = getattr(provider, "fetch_token", None)
    if fetch is None:
        return

    def dated() -> str:
        token: str = fetch()
        if "expires_in" not in provider.token_object:
            times = {"expires_in": _SHORT_TOKEN, "expires_at": time.time() + _SHORT_TOKEN}
            provider.token_object = {**provider.token_object, **times}
        return token

    provider.fetch_token = dated


def client_configuration(settings: RegistrySettings) -> dict[str, Any]:
    """Convert the properties of Confluent's Java client to the configuration of the Python client.

    Unknown properties are ignored, as in the Java client.
    """
    properties = dict(settings.properties)
    urls = [url.strip() for url in settings.url.split(",")]
    conf: dict[str, Any] = {"url": ",".join(_without_user(url) for url in urls)}
    conf |= {key: value for key, value in properties.items() if _PASSED_ON.fullmatch(key)}
    # `_request` retries itself. The client's timeout only ends calls that `_call_with_timeout` has given up.
    conf |= {"max.retries": 0, "timeout": settings.timeout + 1}
    conf |= _basic_authentication(properties, userinfo(urls[0]), settings.format)
    conf |= _bearer_authentication(properties)
    conf |= _tls(properties, settings.format)
    return conf


def _basic_authentication(properties: dict[str, str], from_url: str, format: str) -> dict[str, str]:
    source = properties.get("basic.auth.credentials.source", "")
    given = properties.get("basic.auth.user.info", "")
    if source == "SASL_INHERIT":
        raise OptionError(
            "SASL_INHERIT is not supported; use 'basic-auth.credentials-source' = 'USER_INFO' and "
            "'basic-auth.user-info' = '<user>:<password>'",
            format=format,
            option="basic-auth.credentials-source",
        )
    chosen = {"USER_INFO": given, "URL": from_url, "": from_url or given}.get(source, "")
    return {"basic.auth.user.info": chosen} if chosen else {}


def _bearer_authentication(properties: dict[str, str]) -> dict[str, str]:
    source = properties.get("bearer.auth.credentials.source", "")
    if not source and not properties.get("bearer.auth.token"):
        return {}
    # the Java client sends these two if they are set; the Python client requires the first one
    found = {
        "bearer.auth.credentials.source": source or "STATIC_TOKEN",
        "bearer.auth.logical.cluster": properties.get("bearer.auth.logical.cluster", ""),
    }
    if source == "OAUTHBEARER":  # the Python client requires a scope too
        found["bearer.auth.scope"] = properties.get("bearer.auth.scope", "")
    return found


def _tls(properties: dict[str, str], format: str) -> dict[str, str]:
    """Return the configuration of TLS: paths of PEM files instead of Java key stores."""
    conf = {}
    trusted = properties.get(f"{_FLINK_SSL}truststore.location")
    if trusted:
        conf["ssl.ca.location"] = _pem(trusted, "ssl.truststore.location", format)
    own = properties.get(f"{_FLINK_SSL}keystore.location")
    if own:
        conf["ssl.certificate.location"] = _pem(own, "ssl.keystore.location", format)
        password = properties.get(f"{_FLINK_SSL}keystore.password")
        if password:
            conf["ssl.key.password"] = password
    return conf


def _pem(path: str, option: str, format: str) -> str:
    try:
        head = Path(path).read_bytes()
    except OSError as cause:
        raise OptionError(f"option '{option}': {cause}", format=format, option=option) from cause
    if _PEM not in head:
        raise OptionError(
            f"option '{option}': {path} is not a PEM file, which Python's TLS needs. Convert a Java key store with "
            "`keytool -importkeystore -srckeystore <it> -destkeystore store.p12 -deststoretype PKCS12` and "
            "`openssl pkcs12 -in store.p12 -out store.pem`",
            format=format,
            option=option,
        )
    return path


def _without_user(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
