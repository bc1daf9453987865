"""The interface of schema registries, and their settings.

A package adds a registry by an entry point in the group `kvformat.registries`. Its name is the scheme of the URLs that
users write; its object is a subclass of `SchemaRegistry`, which is called with the settings.

A registry answers or raises. Whoever calls it adds the timeout and the further attempts, turns what is raised into a
`SchemaRegistryError` without secrets, and caches the answers.
"""

from __future__ import annotations

import abc
import urllib.parse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kvformat.registry.contract.errors import OptionError
from kvformat.registry.contract.options import mask_userinfo
from kvformat.registry.contract.secrets import scrubbed

_SECRET_WORDS = ("password", "passwd", "secret", "token", "user.info", "jaas")
_KINDS = {"AVRO": "an Avro schema", "JSON": "a JSON Schema", "PROTOBUF": "a Protobuf schema"}


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Settings of a schema registry. `properties` are those of its client; times are in seconds.

    format: the format that errors name.
    client: the entry point of the registry, empty for the one of the URL's scheme.
    guids: whether messages name their schemas by GUIDs, so that a registered schema needs one.
    subject: a subject with a context, such as `:.stg:orders-value`, whose context has the ids. Otherwise empty.
    """

    url: str = field(repr=False)
    properties: tuple[tuple[str, str], ...] = field(repr=False, default=())
    timeout: float = 30.0
    retries: int = 3
    backoff: float = 0.5
    format: str = "avro-confluent"
    client: str = ""
    guids: bool = False
    subject: str = ""

    @property
    def shown_url(self) -> str:
        """The URL without user and password."""
        return mask_userinfo(self.url)

    @property
    def userinfo(self) -> str:
        """User and password of the first URL, `<user>:<password>`; empty if it has none."""
        return _userinfo(self.url.partition(",")[0].strip())

    def check_authentication(self) -> None:
        """Raise `OptionError` if two methods of authentication are set."""
        properties = dict(self.properties)
        if properties.get("basic.auth.credentials.source") and properties.get("bearer.auth.credentials.source"):
            raise OptionError(
                "Only one of 'basic-auth.credentials-source' and 'bearer-auth.credentials-source' may be specified",
                format=self.format,
                option="bearer-auth.credentials-source",
            )

    def scrubbed(self, text: str, more: Iterable[str] = ()) -> str:
        """Mask the secrets of these settings, and more of them, in a text of a library or a server."""
        return scrubbed(text, (*self._secrets(), *more))

    def _secrets(self) -> Iterator[str]:
        values = [value for key, value in self.properties if any(word in key.lower() for word in _SECRET_WORDS)]
        for text in (self.url, *(value for _, value in self.properties)):
            values += [_userinfo(url) for url in text.split(",") if "://" in url]
        for value in values:
            yield from (part for part in (value, value.partition(":")[2]) if part)


def _userinfo(url: str) -> str:
    authority = urllib.parse.urlsplit(url).netloc
    return urllib.parse.unquote(authority.rpartition("@")[0])


@dataclass(frozen=True, slots=True)
class Refused:
    """A registry's refusal: it does not know an id or refuses a schema, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class RegistrySchema:
    """A schema in a registry.

    kind: AVRO, JSON, PROTOBUF, or another word of the registry.
    references: the texts of the schemas that it refers to, directly or through others, each after its name.
    """

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()

    def of_kind(self, kind: str, what: str) -> RegistrySchema | Refused:
        """Return the schema, or a refusal if it is of another kind. `what` names the schema in the refusal."""
        return self if self.kind == kind else Refused(f"{what} is not {_KINDS[kind]} but {self.kind}")


class SchemaRegistry(abc.ABC):
    """A schema registry. It is created with `RegistrySettings`, and any number of threads use it.

    An id is a number or a text such as a GUID, as the messages have it. A method returns `Refused` for an answer about
    this id or schema only. It may raise any exception if there is no usable answer. The caller then tries again, and
    raises `SchemaRegistryError`.
    """

    @abc.abstractmethod
    def schema(self, schema_id: int | str) -> RegistrySchema | Refused:
        """Return the schema with an id."""

    @abc.abstractmethod
    def register(self, subject: str, schema: RegistrySchema) -> int | str | Refused:
        """Return the id of a schema under a subject. Registers the schema if it is new."""

    @abc.abstractmethod
    def lookup(self, subject: str, schema: RegistrySchema) -> int | str | Refused:
        """Return the id of a schema that is registered under the subject."""

    @abc.abstractmethod
    def latest(self, subject: str) -> tuple[int | str, RegistrySchema] | Refused:
        """Return the subject's latest schema after its id."""

    @abc.abstractmethod
    def version(self, subject: str, version: int) -> tuple[int | str, RegistrySchema] | Refused:
        """Return a version of the subject's schema after its id."""

    def is_transient(self, error: Exception) -> bool:
        """Return whether a further attempt may succeed after an error; by default not after an invalid answer."""
        return not isinstance(error, ValueError | TypeError | KeyError | AttributeError | RecursionError)

    def secrets(self) -> Iterable[str]:
        """Return secrets that are not among the settings, such as credentials of the environment, to mask them."""
        return ()
