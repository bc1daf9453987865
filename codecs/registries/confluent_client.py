"""A registry with Confluent's REST interface, accessed with the client of confluent-kafka."""

from __future__ import annotations

import re
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from kvformat.codecs.registries.registry import AVRO, cause_without_secrets, shorten
from kvformat.codecs.registries.requests import LARGEST_ANSWER, MOST_REFERENCES, call_with_timeout
from kvformat.registry.contract.errors import MissingExtraError, OptionError
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings, SchemaRegistry

_T = TypeVar("_T")
_NOT_FOUND = range(40400, 40500)  # error codes of a registry; a web server without this page has the code 404
_RETRIED = (408, 429, 500, 502, 503, 504)
_REFUSALS = (409, 422)
_MOVED = (301, 302, 303)
"""Redirects that turn a request that changes something into one that reads."""
_CONTEXT = re.compile(r":\.[^:]*:")


class Confluent(SchemaRegistry):
    """A registry accessed with the client of confluent-kafka, without its retries."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._client, self._schema_class, self._error_class = _client(settings)

    def schema(self, schema_id: int | str) -> RegistrySchema | Refused:
        subject = self._settings.subject  # an id is another schema in another context; a GUID is not
        if isinstance(schema_id, str):
            return self._answer(
                lambda: self._complete(self._client.get_schema_by_guid(schema_id), subject), by_guid=True
            )
        return self._answer(lambda: self._complete(self._client.get_schema(schema_id, subject or None), subject))

    def register(self, subject: str, schema: RegistrySchema) -> int | Refused:
        client_schema = self._schema_class(schema.text, schema.kind)
        answer = self._answer(lambda: _check_id(self._client.register_schema(subject, client_schema)))
        return self._with_reasons(answer, subject, client_schema) if isinstance(answer, Refused) else answer

    def _with_reasons(self, refused: Refused, subject: str, schema: Any) -> Refused:
        """Add the registry's reasons to its refusal of a schema. The refusal is known, so a failure changes nothing."""
        path = f"compatibility/subjects/{urllib.parse.quote(subject, safe='')}/versions?verbose=true"
        try:
            messages = call_with_timeout(  # a part of the time of the whole request
                self._settings.timeout / 4,
                lambda: self._client._rest_client.post(path, body=schema.to_dict())["messages"],
            )
            reasons = shorten("; ".join(text for text in messages if text not in refused.reason))
        except Exception:
            return refused
        return Refused(f"{refused.reason}. Its reasons: {reasons}") if reasons else refused

    def lookup(self, subject: str, schema: RegistrySchema) -> int | Refused:
        client_schema = self._schema_class(schema.text, schema.kind)
        return self._answer(lambda: _check_id(self._client.lookup_schema(subject, client_schema).schema_id))

    def latest(self, subject: str) -> tuple[int, RegistrySchema] | Refused:
        return self._answer(lambda: self._id_and_schema(self._client.get_latest_version(subject), subject))

    def version(self, subject: str, version: int) -> tuple[int, RegistrySchema] | Refused:
        return self._answer(lambda: self._id_and_schema(self._client.get_version(subject, version), subject))

    def is_transient(self, error: Exception) -> bool:
        if isinstance(error, self._error_class):
            return getattr(error, "http_status_code", None) in _RETRIED
        return super().is_transient(error)

    def _id_and_schema(self, registered: Any, subject: str) -> tuple[int, RegistrySchema]:
        return _check_id(registered.schema_id), self._complete(registered.schema, subject)

    def _complete(self, schema: Any, subject: str) -> RegistrySchema:
        """Return a schema with those that it refers to, which are in the context of its subject.

        Raises `ValueError` if it has no text.
        """
        context = context_of(subject)
        if not isinstance(schema.schema_str, str):
            raise ValueError("the answer has no schema")
        texts: dict[str, str] = {}
        waiting = [schema]
        while waiting:
            for reference in waiting.pop().references or ():
                if reference.name in texts:
                    continue
                if len(texts) >= MOST_REFERENCES:
                    raise ValueError(f"the schema refers to more than {MOST_REFERENCES} others")
                of = reference.subject if context_of(reference.subject) else context + reference.subject
                waiting.append(self._client.get_version(of, reference.version).schema)
                texts[reference.name] = waiting[-1].schema_str
        kind = shorten(self._settings.scrubbed(schema.schema_type or AVRO))  # errors name it
        return RegistrySchema(kind, schema.schema_str, tuple(texts.items()))

    def _answer(self, call: Callable[[], _T], *, by_guid: bool = False) -> _T | Refused:
        """Return the result of a call, or the registry's refusal. Raises errors of the server or the connection.

        A registry that has no page for GUIDs refuses all of them, so that a bad message can't stop its neighbours.
        """
        try:
            return call()
        except self._error_class as caught:
            error: Any = caught
            if error.http_status_code in _REFUSALS:
                return Refused(str(error))
            if error.http_status_code == 404 and error.error_code in _NOT_FOUND:
                return Refused(str(error))
            if error.http_status_code == 404 and by_guid:
                return Refused(f"{error}. Registries before Confluent Platform 8.0 do not know GUIDs")
            raise


def context_of(subject: str) -> str:
    """Return the context that a subject begins with, such as `:.stg:`; empty if it begins with none."""
    match = _CONTEXT.match(subject)
    return match[0] if match else ""


def _check_id(schema_id: Any) -> int:
    if not isinstance(schema_id, int) or isinstance(schema_id, bool):
        raise ValueError("the answer has no schema id")
    return schema_id


# --- the client ----------------------------------------------------------------------------------------

IN_MEMORY = "mock://"
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
            f"format '{settings.format}' needs the client of confluent-kafka", extra="confluent", format=settings.format
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
    allowed = "" if "://" in settings.url else ". A URL begins with http:// or https://"
    raise OptionError(
        f"format '{settings.format}': the client for the schema registry at {settings.shown_url} can't be created: "
        f"{reason}{allowed}",
        format=settings.format,
        reason=reason,
    ) from cause_without_secrets(settings, failure)


def _limit_responses(session: Any, seconds: float) -> None:
    """Make a session of httpx fail for answers that are too large or too slow.

    The timeouts of httpx restart with each chunk of an answer, and it does not limit the size.
    """
    session.headers["Accept-Encoding"] = "identity"  # a small compressed answer can be huge
    session.follow_redirects = True  # which `_check_redirect` allows

    def read(response: Any) -> None:
        _check_redirect(response)
        deadline, pieces, size = time.monotonic() + seconds, [], 0
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ValueError("the answer is compressed, although the request did not allow it")
        for piece in response.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST_ANSWER:
                raise ValueError(f"the answer has more than {LARGEST_ANSWER} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError("the answer did not end within the timeout (option 'registry-timeout')")
        response._content = b"".join(pieces)  # as `response.read()` does, which has no limits

    session.event_hooks = {**session.event_hooks, "response": [read]}


def _check_redirect(response: Any) -> None:
    """Raise `ValueError` for a redirect to another server, or one that would not repeat a request that registers."""
    if not response.has_redirect_location:
        return
    request = response.request
    target = request.url.join(response.headers["Location"])
    shown = f"{target.scheme}://{target.netloc.decode('ascii')}{target.path}"  # without user, password and query
    why = ""
    if (target.scheme, target.host, target.port) != (request.url.scheme, request.url.host, request.url.port):
        why = "another server, to which no credentials are sent. If that is the registry, set the option 'url' to it"
    elif request.method != "GET" and response.status_code in _MOVED:
        why = f"which would not repeat the {request.method} request. Set the option 'url' to it"
    if why:
        raise ValueError(f"the registry redirects (HTTP {response.status_code}) to {shown}, {why}")


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
    # `Requests` retries itself. The client's timeout only ends calls that it has given up.
    conf |= {"max.retries": 0, "timeout": settings.timeout + 1}
    conf |= _basic_authentication(properties, settings.userinfo, settings.format)
    conf |= _bearer_authentication(properties)
    conf |= _tls(properties, settings.format)
    return conf


def _basic_authentication(properties: dict[str, str], from_url: str, format: str) -> dict[str, str]:
    source = properties.get("basic.auth.credentials.source", "")
    user_info = properties.get("basic.auth.user.info", "")
    if source == "SASL_INHERIT":
        raise OptionError(
            "SASL_INHERIT is not supported; use 'basic-auth.credentials-source' = 'USER_INFO' and "
            "'basic-auth.user-info' = '<user>:<password>'",
            format=format,
            option="basic-auth.credentials-source",
        )
    chosen = {"USER_INFO": user_info, "URL": from_url, "": from_url or user_info}.get(source, "")
    return {"basic.auth.user.info": chosen} if chosen else {}


def _bearer_authentication(properties: dict[str, str]) -> dict[str, str]:
    source = properties.get("bearer.auth.credentials.source", "")
    if not source and not properties.get("bearer.auth.token"):
        return {}
    # the Java client sends these two if they are set; the Python client requires the first one
    conf = {
        "bearer.auth.credentials.source": source or "STATIC_TOKEN",
        "bearer.auth.logical.cluster": properties.get("bearer.auth.logical.cluster", ""),
    }
    if source == "OAUTHBEARER":  # the Python client requires a scope too
        conf["bearer.auth.scope"] = properties.get("bearer.auth.scope", "")
    return conf


def _tls(properties: dict[str, str], format: str) -> dict[str, str]:
    """Return the configuration of TLS: paths of PEM files instead of Java key stores."""
    conf = {}
    trusted = properties.get(f"{_FLINK_SSL}truststore.location")
    if trusted:
        conf["ssl.ca.location"] = _pem(trusted, "ssl.truststore.location", format)
    certificate = properties.get(f"{_FLINK_SSL}keystore.location")
    if certificate:
        conf["ssl.certificate.location"] = _pem(certificate, "ssl.keystore.location", format)
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
