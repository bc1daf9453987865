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

import abc
import contextlib
import json
import math
import os
import queue
import random
import re
import threading
import time
import urllib.parse
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kvformat.registry.error_codes import ErrorCode
from kvformat.registry.errors import MissingExtraError, OptionError, SchemaRegistryError
from kvformat.registry.options import without_userinfo

FORMAT = "avro-confluent"
PREFIX = 5
"""Bytes before the datum."""

_T = TypeVar("_T")
_CLIENTS, _ANSWERS = 64, 10_000  # bounds of the caches
_UNKNOWN_FOR = 2.0  # seconds; a schema registered meanwhile, or one that a replica does not have yet, is seen soon
_NOT_FOUND = range(40400, 40500)  # the codes of a registry; a web server that knows no such page says 404
_RETRIED = (408, 429, 500, 502, 503, 504)
_LONGEST_WAIT = 20.0
_REFUSALS = (409, 422)
_SECRET_WORDS = ("password", "secret", "token", "user.info", "jaas")
_SHORTEST_SECRET = 4  # shorter ones would blank out parts of words


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Where a registry is and how to talk to it. `properties` are those of Confluent's Java client."""

    url: str = field(repr=False)
    properties: tuple[tuple[str, str], ...] = field(repr=False, default=())
    timeout: float = 30.0
    retries: int = 3
    backoff: float = 0.5

    @property
    def shown_url(self) -> str:
        """The url without user and password."""
        return without_userinfo(self.url)

    def check_authentication(self) -> None:
        """Raise `OptionError` for two ways of authentication at once."""
        properties = dict(self.properties)
        if properties.get("basic.auth.credentials.source") and properties.get("bearer.auth.credentials.source"):
            raise OptionError(
                "Only one of 'basic-auth.credentials-source' and 'bearer-auth.credentials-source' may be specified",
                format=FORMAT,
                option="bearer-auth.credentials-source",
            )

    def scrubbed(self, text: str) -> str:
        """A text of a library or a server without the secrets of these settings."""
        for secret in self._secrets():
            text = text.replace(secret, "******")
        return without_userinfo(text)

    def _secrets(self) -> Iterator[str]:
        values = [value for key, value in self.properties if any(word in key.lower() for word in _SECRET_WORDS)]
        values += [_userinfo(url) for url in self.url.split(",")]
        for value in values:
            for part in (value, value.partition(":")[2]):
                if len(part) >= _SHORTEST_SECRET:
                    yield part


@dataclass(frozen=True, slots=True)
class Refused:
    """A registry's answer that is no schema or id: why not."""

    reason: str


class SchemaRegistry(abc.ABC):
    """What is asked of a registry. Every method raises `SchemaRegistryError` when there is no answer."""

    @abc.abstractmethod
    def schema(self, schema_id: int) -> str | Refused:
        """The text of a schema, with the schemas it refers to written into it."""

    @abc.abstractmethod
    def register(self, subject: str, text: str) -> int | Refused:
        """The id of a schema, which is registered under the subject if it was not."""

    @abc.abstractmethod
    def lookup(self, subject: str, text: str) -> int | Refused:
        """The id of a schema that is registered under the subject."""

    @abc.abstractmethod
    def latest(self, subject: str) -> tuple[int, str] | Refused:
        """Id and text of the subject's latest schema."""


# --- framing -------------------------------------------------------------------------------------------

_GUID_MAGIC = 1
_ELSEWHERE = (
    ". Confluent's serializers can also put the id or a GUID of the schema into the record's headers, which is not "
    "read here: set the producer's 'value.schema.id.serializer' (or 'key....') to "
    "io.confluent.kafka.serializers.schema.id.PrefixSchemaIdSerializer"
)


def prefix(schema_id: int) -> bytes:
    """What stands before the datum."""
    return b"\0" + schema_id.to_bytes(4, "big", signed=True)


@dataclass(frozen=True, slots=True)
class Frames:
    """The schema ids of messages. good: which messages have one. magic, lengths: first byte and size of each."""

    ids: npt.NDArray[np.int32]
    good: npt.NDArray[np.bool_]
    present: npt.NDArray[np.bool_]
    magic: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.int64]

    def errors(self) -> npt.NDArray[np.object_]:
        """Why messages that are there have no id; None for all others."""
        errors = np.full(len(self.ids), None, dtype=object)
        for row in np.flatnonzero(self.present & ~self.good).tolist():
            magic, length = int(self.magic[row]), int(self.lengths[row])
            if length and magic == _GUID_MAGIC:
                reason = (
                    "the message begins with 01, before the GUID of a schema; only 00 and an id is read" + _ELSEWHERE
                )
            elif length and magic:
                reason = f"Unknown data format. Magic number does not match: {magic:02x}, not 00" + _ELSEWHERE
            else:
                reason = f"the message has {length} bytes, fewer than the {PREFIX} of 00 and a schema id"
            errors[row] = ErrorCode.MALFORMED.marked(reason)
        return errors


def read_frames(messages: pa.BinaryArray, present: npt.NDArray[np.bool_]) -> Frames:
    """The first five bytes of every message of a binary array; `present` are those that are not null."""
    _, offsets_buffer, data_buffer = messages.buffers()
    count = len(messages)
    if not count:
        return Frames(np.zeros(0, np.int32), present, present, np.zeros(0, np.uint8), np.zeros(0, np.int64))
    offsets = np.frombuffer(offsets_buffer, np.int32)[messages.offset : messages.offset + count + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    if len(data) < PREFIX:
        data = np.zeros(PREFIX, np.uint8)  # nothing is long enough, but the gathers below want bytes
    starts, lengths, long = offsets[:-1], np.diff(offsets), present
    if not present.all() or lengths.min() < PREFIX:
        lengths = np.where(present, lengths, 0)
        long = lengths >= PREFIX
        starts = np.minimum(starts, len(data) - PREFIX)  # only those that are too short are moved
    ids = np.ndarray((len(data) - 3,), ">i4", data, strides=(1,))[starts + 1].astype(np.int32)
    magic = data[np.minimum(offsets[:-1], len(data) - 1)] if long is not present else data[starts]
    return Frames(ids, long & (magic == 0), present, magic, lengths)


# --- caches --------------------------------------------------------------------------------------------


class _Cache(Generic[_T]):
    """A bounded cache with a lock; the entry used longest ago goes first."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self.reset()

    def reset(self) -> None:
        """Empty, with a new lock: after a fork the old one may be held by a thread that is no more."""
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, _T] = OrderedDict()

    def get(self, key: Hashable) -> _T | None:
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def put(self, key: Hashable, value: _T, *, instead: bool = False) -> _T:
        """Keep a value unless there is one already, or in its stead; returns what is kept."""
        with self._lock:
            if instead:
                self._known.pop(key, None)
            kept = self._known.setdefault(key, value)
            self._known.move_to_end(key)
            if len(self._known) > self._bound:
                self._known.popitem(last=False)
            return kept


_registries: _Cache[SchemaRegistry] = _Cache(_CLIENTS)
_texts: _Cache[str] = _Cache(_ANSWERS)
_ids: _Cache[int] = _Cache(_ANSWERS)
_unknown: _Cache[tuple[float, Refused]] = _Cache(_ANSWERS)


def _after_fork() -> None:
    """A child shares no connection with its parent; what the parent has learned it learns anew."""
    for cache in (_registries, _texts, _ids, _unknown):
        cache.reset()


os.register_at_fork(after_in_child=_after_fork)


def schema_by_id(settings: RegistrySettings, schema_id: int) -> str | Refused:
    """The text of a schema; that it is unknown is believed for a moment, so that not every batch asks again."""
    key = (settings, schema_id)
    known = _texts.get(key)
    if known is not None:
        return known
    when, refused = _unknown.get(key) or (-math.inf, None)
    if refused is not None and time.monotonic() - when < _UNKNOWN_FOR:
        return refused
    answer = _registry(settings).schema(schema_id)
    if isinstance(answer, Refused):
        return _unknown.put(key, (time.monotonic(), answer), instead=True)[1]
    return _texts.put(key, answer)


def id_of_schema(settings: RegistrySettings, subject: str, text: str, *, register: bool) -> int | Refused:
    """The id of a schema under a subject, registered if need be or only looked up."""
    key = (settings, subject, text)
    known = _ids.get(key)
    if known is not None:
        return known
    registry = _registry(settings)
    answer = registry.register(subject, text) if register else registry.lookup(subject, text)
    return _ids.put(key, answer) if isinstance(answer, int) else answer


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


def _registry(settings: RegistrySettings) -> SchemaRegistry:
    known = _registries.get(settings)
    if known is not None:
        return known
    if not settings.url.strip():
        raise SchemaRegistryError(
            "the option 'url' is empty: there is no schema registry to ask", format=FORMAT, url=""
        )
    if settings.url.startswith("file:"):
        return _registries.put(settings, _Folder(settings))
    return _registries.put(settings, _Confluent(settings))


# --- a folder ------------------------------------------------------------------------------------------


class _Folder(SchemaRegistry):
    """`<id>.avsc` files; it knows no subjects."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        path = settings.url.removeprefix("file:")
        self._folder = Path(urllib.parse.unquote(path.removeprefix("//")))

    def schema(self, schema_id: int) -> str | Refused:
        file = self._folder / f"{schema_id}.avsc"
        with self._asked(schema_id=schema_id):
            if not self._folder.is_dir():
                raise FileNotFoundError(f"no folder {self._folder}")
            return file.read_text("utf-8") if file.is_file() else Refused(f"there is no file {file.name}")

    def register(self, subject: str, text: str) -> int | Refused:
        with self._asked(subject=subject):
            while True:
                known = self.lookup(subject, text)
                if isinstance(known, int):
                    return known
                schema_id = max(self._all(), default=0) + 1
                with contextlib.suppress(FileExistsError), open(self._folder / f"{schema_id}.avsc", "x") as file:
                    file.write(text)

    def lookup(self, subject: str, text: str) -> int | Refused:
        wanted = json.loads(text)
        with self._asked(subject=subject):
            for schema_id, file in sorted(self._all().items()):
                with contextlib.suppress(ValueError):  # a file that is being written
                    if json.loads(file.read_text("utf-8")) == wanted:
                        return schema_id
        return Refused(f"no file in {self._folder} holds the schema {text}")

    def latest(self, subject: str) -> tuple[int, str] | Refused:
        return Refused("a folder knows no subjects, and so no latest version of one")

    def _all(self) -> dict[int, Path]:
        if not self._folder.is_dir():
            raise FileNotFoundError(f"no folder {self._folder}")
        return {int(f.stem): f for f in self._folder.glob("*.avsc") if f.stem.isascii() and f.stem.isdigit()}

    @contextlib.contextmanager
    def _asked(self, *, schema_id: int | None = None, subject: str | None = None) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            raise _unanswered(self._settings, str(cause), cause, schema_id=schema_id, subject=subject) from cause


# --- Confluent's interface -----------------------------------------------------------------------------


class _Confluent(SchemaRegistry):
    """The client of confluent-kafka, with deadlines and retries of our own."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._client, self._schema_class, self._error_class = _client(settings)

    def schema(self, schema_id: int) -> str | Refused:
        def call() -> str | Refused:
            found = self._client.get_schema(schema_id)
            if (found.schema_type or "AVRO") != "AVRO":
                return Refused(f"schema {schema_id} is no Avro schema but {found.schema_type}")
            return self._complete(found)

        return self._ask(call, f"schema id {schema_id}", schema_id=schema_id)

    def register(self, subject: str, text: str) -> int | Refused:
        if not subject:
            return Refused("the option 'subject' is empty")

        def call() -> int:
            return _id(self._client.register_schema(subject, self._schema_class(text, "AVRO")))

        return self._ask(call, f"registering a schema under subject {subject!r}", subject=subject)

    def lookup(self, subject: str, text: str) -> int | Refused:
        if not subject:
            return Refused("the option 'subject' is empty")

        def call() -> int:
            return _id(self._client.lookup_schema(subject, self._schema_class(text, "AVRO")).schema_id)

        return self._ask(call, f"the schema's id under subject {subject!r}", subject=subject)

    def latest(self, subject: str) -> tuple[int, str] | Refused:
        if not subject:
            return Refused("the option 'subject' is empty")

        def call() -> tuple[int, str]:
            found = self._client.get_latest_version(subject)
            return _id(found.schema_id), self._complete(found.schema)

        return self._ask(call, f"the latest schema of subject {subject!r}", subject=subject)

    def _complete(self, schema: Any) -> str:
        """The text of a schema, with those it refers to in it; raises ValueError where there is no text."""
        if not isinstance(schema.schema_str, str):
            raise ValueError("the answer has no schema")
        if not schema.references:
            return schema.schema_str
        definitions: dict[str, Any] = {}
        self._collect(schema, definitions)
        return json.dumps(_written_out(json.loads(schema.schema_str), "", definitions, set()))

    def _collect(self, schema: Any, definitions: dict[str, Any]) -> None:
        for reference in schema.references or ():
            if reference.name not in definitions:
                found = self._client.get_version(reference.subject, reference.version).schema
                definitions[reference.name] = json.loads(found.schema_str)
                self._collect(found, definitions)

    def _ask(
        self, call: Callable[[], _T | Refused], what: str, *, schema_id: int | None = None, subject: str | None = None
    ) -> _T | Refused:
        """The answer, within the time there is; failures that may pass are tried again, ever less often."""
        settings, deadline = self._settings, time.monotonic() + self._settings.timeout
        for attempt in range(settings.retries + 1):
            try:
                return _within(deadline - time.monotonic(), call)
            except Exception as caught:
                if isinstance(caught, self._error_class):
                    refusal = self._refusal(caught)
                    if refusal is not None:
                        return refusal
                cause = caught
            wait = random.uniform(0.5, 1) * min(settings.backoff * 2**attempt, _LONGEST_WAIT)
            last = attempt == settings.retries or time.monotonic() + wait >= deadline
            if last or not self._may_pass(cause):
                raise _unanswered(
                    settings, f"{what}: {_text(cause)}", cause, schema_id=schema_id, subject=subject
                ) from _shown_cause(settings, cause)
            time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _refusal(self, error: Any) -> Refused | None:
        """What the registry says about the schema itself; None for errors of its own or of the way to it."""
        status, code = error.http_status_code, error.error_code
        if status in _REFUSALS or (status == 404 and code in _NOT_FOUND):
            return Refused(self._settings.scrubbed(str(error)))
        return None

    def _may_pass(self, cause: Exception) -> bool:
        if isinstance(cause, self._error_class):
            return getattr(cause, "http_status_code", None) in _RETRIED
        return not isinstance(cause, ValueError | TypeError | KeyError | AttributeError)  # an answer, but nonsense


def _id(found: Any) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError("the answer has no schema id")
    return found


def _within(seconds: float, call: Callable[[], _T]) -> _T:
    """The result of a call, or TimeoutError: a client's own timeouts count for each byte that comes."""
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
        raise TimeoutError("no answer in time (option 'registry-timeout')") from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # None only if the call gives None


def _written_out(node: Any, space: str, definitions: dict[str, Any], known: set[str]) -> Any:
    """A schema in which the first use of a name from another schema is that schema itself."""
    if isinstance(node, list):
        return [_written_out(branch, space, definitions, known) for branch in node]
    if isinstance(node, str):
        full = node if "." in node or not space else f"{space}.{node}"
        name = full if full in definitions else node
        if name not in definitions or name in known:
            return node
        known.add(name)
        return _written_out(definitions[name], "", definitions, known)
    if not isinstance(node, dict):
        return node
    if "name" in node:
        name = str(node["name"])
        space = name.rpartition(".")[0] if "." in name else str(node.get("namespace", space))
    inner = {
        key: _written_out(node[key], space, definitions, known) for key in ("type", "items", "values") if key in node
    }
    if isinstance(node.get("fields"), list):
        inner["fields"] = [{**f, "type": _written_out(f["type"], space, definitions, known)} for f in node["fields"]]
    return {**node, **inner}


def _text(cause: Exception) -> str:
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__


def _shown_cause(settings: RegistrySettings, cause: Exception) -> Exception | None:
    """The exception to chain, unless its own text holds a secret."""
    return cause if settings.scrubbed(str(cause)) == str(cause) else None


def _unanswered(
    settings: RegistrySettings, why: str, cause: Exception, *, schema_id: int | None, subject: str | None
) -> SchemaRegistryError:
    reason = settings.scrubbed(why)
    return SchemaRegistryError(
        f"format '{FORMAT}': the schema registry at {settings.shown_url} gave no usable answer about {reason}. "
        "No message is at fault and none was read or written; try again when the registry is back",
        format=FORMAT,
        reason=reason,
        url=settings.shown_url,
        schema_id=schema_id,
        subject=subject,
    )


# --- the client ----------------------------------------------------------------------------------------

_PEM = b"-----BEGIN"
_FLINK_SSL = "schema.registry.ssl."
_PASSED_ON = re.compile(r"bearer\.auth\..*|ssl\.(ca|certificate|key)\.location|ssl\.key\.password|proxy")


def _client(settings: RegistrySettings) -> tuple[Any, type[Any], type[Exception]]:
    """The client for some settings, and its classes of schemas and of errors."""
    try:
        from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
        from confluent_kafka.schema_registry.error import SchemaRegistryError as ClientError
    except ImportError as cause:
        raise MissingExtraError(
            f"format '{FORMAT}' needs the client of confluent-kafka: pip install 'kvformat[confluent]'", format=FORMAT
        ) from cause
    settings.check_authentication()
    try:
        client = SchemaRegistryClient.new_client(client_configuration(settings))
    except OptionError:
        raise
    except Exception as cause:
        reason = settings.scrubbed(str(cause))
        raise OptionError(
            f"format '{FORMAT}': no client can be made for the schema registry at {settings.shown_url}: {reason}",
            format=FORMAT,
            reason=reason,
        ) from _shown_cause(settings, cause)
    return client, Schema, ClientError


def client_configuration(settings: RegistrySettings) -> dict[str, Any]:
    """The configuration of Python's client from the properties of Java's.

    What neither knows is left out, as Java's client does.
    """
    properties = dict(settings.properties)
    urls = [url.strip() for url in settings.url.split(",")]
    conf: dict[str, Any] = {"url": ",".join(_without_user(url) for url in urls)}
    conf |= {key: value for key, value in properties.items() if _PASSED_ON.fullmatch(key)}
    # `_ask` has its own retries; the timeout of each step only ends what `_within` has given up on
    conf |= {"max.retries": 0, "timeout": settings.timeout + 1}
    conf |= _basic_authentication(properties, _userinfo(urls[0]))
    conf |= _bearer_authentication(properties)
    conf |= _tls(properties)
    return conf


def _basic_authentication(properties: dict[str, str], from_url: str) -> dict[str, str]:
    source = properties.get("basic.auth.credentials.source", "")
    given = properties.get("basic.auth.user.info", "")
    if source == "SASL_INHERIT":
        raise OptionError(
            "SASL_INHERIT is not supported; use 'basic-auth.credentials-source' = 'USER_INFO' and "
            "'basic-auth.user-info' = '<user>:<password>'",
            format=FORMAT,
            option="basic-auth.credentials-source",
        )
    chosen = {"USER_INFO": given, "URL": from_url, "": from_url or given}.get(source, "")
    return {"basic.auth.user.info": chosen} if chosen else {}


def _bearer_authentication(properties: dict[str, str]) -> dict[str, str]:
    source = properties.get("bearer.auth.credentials.source", "")
    if not source and not properties.get("bearer.auth.token"):
        return {}
    # Java's client sends these two if they are there, Python's wants the first
    return {
        "bearer.auth.credentials.source": source or "STATIC_TOKEN",
        "bearer.auth.logical.cluster": properties.get("bearer.auth.logical.cluster", ""),
    }


def _tls(properties: dict[str, str]) -> dict[str, str]:
    """Java's key stores as Python's client takes them: as files of PEM texts."""
    conf = {}
    trusted = properties.get(f"{_FLINK_SSL}truststore.location")
    if trusted:
        conf["ssl.ca.location"] = _pem(trusted, "ssl.truststore.location")
    own = properties.get(f"{_FLINK_SSL}keystore.location")
    if own:
        conf["ssl.certificate.location"] = _pem(own, "ssl.keystore.location")
        password = properties.get(f"{_FLINK_SSL}keystore.password")
        if password:
            conf["ssl.key.password"] = password
    return conf


def _pem(path: str, option: str) -> str:
    try:
        head = Path(path).read_bytes()
    except OSError as cause:
        raise OptionError(f"option '{option}': {cause}", format=FORMAT, option=option) from cause
    if _PEM not in head:
        raise OptionError(
            f"option '{option}': {path} is no PEM file, which Python's TLS needs. A Java key store becomes one with "
            "`keytool -importkeystore -srckeystore <it> -destkeystore store.p12 -deststoretype PKCS12` and "
            "`openssl pkcs12 -in store.p12 -out store.pem`",
            format=FORMAT,
            option=option,
        )
    return path


def _userinfo(url: str) -> str:
    """`user:password` of an url, empty without one."""
    authority = urllib.parse.urlsplit(url).netloc
    return urllib.parse.unquote(authority.rpartition("@")[0])


def _without_user(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
