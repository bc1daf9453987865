"""Apicurio Registry with its own REST interface, version 2 or 3, accessed with Python's HTTP client."""

from __future__ import annotations

import base64
import json
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

from kvformat.codecs.registries.apicurio_frames import CONTENT_ID
from kvformat.codecs.registries.registry import AVRO
from kvformat.codecs.registries.requests import LARGEST_ANSWER, MOST_REFERENCES
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings, SchemaRegistry

_T = TypeVar("_T")
GROUP, USE_ID = "group-id", "use-id"
"""Names of the settings' properties."""
_RETRIED = (408, 429, 500, 502, 503, 504)
_REFUSALS = (400, 404, 409, 422)
_VERSION = re.compile(r"/apis/registry/v([23])$")


class _Answer(Exception):
    """An answer with an error: its status, and what the registry says about it."""

    def __init__(self, status: int, text: str, name: str) -> None:
        super().__init__(f"HTTP {status}: {text}" if text else f"HTTP {status}")
        self.status, self.name = status, name


class Apicurio(SchemaRegistry):
    """A registry with Apicurio's REST interface. A subject is the id of an artifact in the group of the settings.

    An id is a number of the kind of the settings (`use-id`), or a text with its kind, such as `globalId 7`.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings, properties = settings, dict(settings.properties)
        settings.check_authentication()
        parts = urllib.parse.urlsplit(settings.url.strip().rstrip("/"))
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        why = ""
        if "," in url:
            why = "give one URL, not several with commas"
        elif "/apis/ccompat" in parts.path:
            why = "this is Confluent's interface: give `.../apis/registry/v3`, or use the format 'avro-confluent'"
        if why:
            raise OptionError(f"format '{settings.format}', option 'url': {why}", format=settings.format, option="url")
        if not _VERSION.search(parts.path):
            url += "/apis/registry/v3"
        self._url, self._is_v2 = url, url.endswith("v2")
        self._kind, group = properties[USE_ID], urllib.parse.quote(properties[GROUP], safe="")
        self._artifacts, self._group = f"/groups/{group}/artifacts", properties[GROUP]
        self._authorization = _authorization(settings, properties)
        opener = urllib.request.OpenerDirector()  # without the handlers of files and FTP
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(context=_tls(properties)),
            urllib.request.HTTPRedirectHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
        ):
            opener.add_handler(handler)
        self._opener = opener

    def schema(self, schema_id: int | str) -> RegistrySchema | Refused:
        kind, number = (self._kind, schema_id) if isinstance(schema_id, int) else schema_id.split(" ")
        return self._answer(lambda: self._complete(f"/ids/{kind}s/{number}", f"/ids/{kind}s/{number}/references"))

    def register(self, subject: str, schema: RegistrySchema) -> int | Refused:
        def call() -> int:
            known = self._find(subject, schema)
            return self._id(self._register(subject, schema) if known is None else known)

        return self._answer(call)

    def lookup(self, subject: str, schema: RegistrySchema) -> int | Refused:
        def call() -> int | Refused:
            version = self._find(subject, schema)
            if version is None:
                return Refused(f"artifact {subject!r} has no version with this content")
            return self._id(version)

        return self._answer(call)

    def latest(self, subject: str) -> tuple[int, RegistrySchema] | Refused:
        return self._version(subject, "/meta" if self._is_v2 else "/versions/branch=latest")

    def version(self, subject: str, version: int) -> tuple[int, RegistrySchema] | Refused:
        return self._version(subject, f"/versions/{version}" + ("/meta" if self._is_v2 else ""))

    def is_transient(self, error: Exception) -> bool:
        return error.status in _RETRIED if isinstance(error, _Answer) else super().is_transient(error)

    def _version(self, subject: str, path: str) -> tuple[int, RegistrySchema] | Refused:
        def call() -> tuple[int, RegistrySchema] | Refused:
            schema_id = self._id(self._json(f"{self._artifact(subject)}{path}"))
            schema = self.schema(schema_id)
            return schema if isinstance(schema, Refused) else (schema_id, schema)

        return self._answer(call)

    def _register(self, subject: str, schema: RegistrySchema) -> Any:
        """Create a version of an artifact, which is created if it is new."""
        if self._is_v2:
            about = {"X-Registry-ArtifactId": subject, "X-Registry-ArtifactType": schema.kind}
            return self._json(f"{self._artifacts}?ifExists=RETURN_OR_UPDATE", schema.text, about)
        content = {"content": schema.text, "contentType": "application/json"}
        body = {"artifactId": subject, "artifactType": schema.kind, "firstVersion": {"content": content}}
        path = f"{self._artifacts}?ifExists=FIND_OR_CREATE_VERSION"
        return self._json(path, json.dumps(body))["version"]

    def _find(self, subject: str, schema: RegistrySchema) -> Any:
        """Return a version of an artifact with this schema, None if there is none.

        The registry finds those with the same canonical form. Their fields may have another order, and so other bytes.
        """
        if self._is_v2:
            try:
                versions = [self._json(f"{self._artifact(subject)}/meta?canonical=true", schema.text)]
            except _Answer as answer:
                if answer.status != 404 or not answer.name:
                    raise
                return None
        else:
            about = {"groupId": self._group, "artifactId": subject, "artifactType": schema.kind, "canonical": "true"}
            versions = self._json(f"/search/versions?{urllib.parse.urlencode(about)}", schema.text)["versions"]
        wanted = json.loads(schema.text)
        for version in versions:
            if json.loads(self._text(f"/ids/{CONTENT_ID}s/{_number(version, CONTENT_ID)}")) == wanted:
                return version
        return None

    def _complete(self, path: str, references: str) -> RegistrySchema:
        """Return a schema with those that it refers to."""
        text, texts = self._text(path), dict[str, str]()
        waiting = [references]
        while waiting:
            for reference in self._json(waiting.pop()):
                name = reference["name"]
                if name in texts:
                    continue
                if len(texts) >= MOST_REFERENCES:
                    raise ValueError(f"the schema refers to more than {MOST_REFERENCES} others")
                group, artifact, version = (
                    urllib.parse.quote(reference.get(part) or "default", safe="")
                    for part in ("groupId", "artifactId", "version")
                )
                place = f"/groups/{group}/artifacts/{artifact}/versions/{version}"
                texts[name] = self._text(place if self._is_v2 else f"{place}/content")
                waiting.append(f"{place}/references")
        return RegistrySchema(AVRO, text, tuple(texts.items()))

    def _artifact(self, subject: str) -> str:
        return f"{self._artifacts}/{urllib.parse.quote(subject, safe='')}"

    def _id(self, version: Any) -> int:
        return _number(version, self._kind)

    def _json(self, path: str, body: str | None = None, headers: dict[str, str] | None = None) -> Any:
        return json.loads(self._text(path, body, headers))

    def _text(self, path: str, body: str | None = None, headers: dict[str, str] | None = None) -> str:
        """Send a request and return the answer's text."""
        request = urllib.request.Request(
            self._url + path,
            None if body is None else body.encode(),
            {"Content-Type": "application/json", "Accept-Encoding": "identity", **(headers or {})},
        )
        if self._authorization:
            request.add_unredirected_header("Authorization", self._authorization)  # not for another server
        try:
            with self._opener.open(request, timeout=self._settings.timeout + 1) as answer:
                data = answer.read(LARGEST_ANSWER + 1)
        except urllib.error.HTTPError as error:
            with error:
                text, name = _about(error.read(LARGEST_ANSWER))
            raise _Answer(error.code, text, name) from None
        if len(data) > LARGEST_ANSWER:
            raise ValueError(f"the answer has more than {LARGEST_ANSWER} bytes")
        decoded: str = data.decode()
        return decoded

    def _answer(self, call: Callable[[], _T | Refused]) -> _T | Refused:
        """Return the result of a call, or the registry's refusal. Other servers' answers have no name of an error."""
        try:
            return call()
        except _Answer as answer:
            if answer.status in _REFUSALS and answer.name:
                return Refused(str(answer))
            raise


def _about(data: bytes) -> tuple[str, str]:
    """Return the text and the name of an error in an answer; the name is empty if another server has written it."""
    try:
        problem = json.loads(data)
        return str(problem.get("title") or problem.get("message") or ""), str(problem.get("name") or "")
    except (ValueError, AttributeError, RecursionError):
        return data.decode(errors="replace"), ""


def _number(version: Any, kind: str) -> int:
    number = version[kind]
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(f"the answer has no {kind}")
    return number


def _authorization(settings: RegistrySettings, properties: dict[str, str]) -> str:
    """Return the value of the header `Authorization`, empty if there are no credentials."""
    source = properties.get("bearer.auth.credentials.source", "")
    if source not in ("", "STATIC_TOKEN"):
        raise OptionError(
            f"format '{settings.format}', option 'bearer-auth.credentials-source': {source!r} is not supported; use "
            "'STATIC_TOKEN'",
            format=settings.format,
            option="bearer-auth.credentials-source",
        )
    token = properties.get("bearer.auth.token")
    if token:
        return f"Bearer {token}"
    user = settings.userinfo or properties.get("basic.auth.user.info", "")
    return f"Basic {base64.b64encode(user.encode()).decode()}" if user else ""


def _tls(properties: dict[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=properties.get("schema.registry.ssl.truststore.location"))
    certificate = properties.get("schema.registry.ssl.keystore.location")
    if certificate:
        context.load_cert_chain(certificate, password=properties.get("schema.registry.ssl.keystore.password"))
    return context
