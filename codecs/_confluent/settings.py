"""Settings of a schema registry, and the secrets in them."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field

from kvformat.codecs._confluent.secrets import scrubbed
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.contract.options import mask_userinfo

_SECRET_WORDS = ("password", "passwd", "secret", "token", "user.info", "jaas")


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Settings of a schema registry. `properties` are those of Confluent's Java client; times are in seconds.

    `format` is the format that errors name.
    """

    url: str = field(repr=False)
    properties: tuple[tuple[str, str], ...] = field(repr=False, default=())
    timeout: float = 30.0
    retries: int = 3
    backoff: float = 0.5
    format: str = "avro-confluent"

    @property
    def shown_url(self) -> str:
        """The URL without user and password."""
        return mask_userinfo(self.url)

    def check_authentication(self) -> None:
        """Raise `OptionError` if two methods of authentication are set."""
        properties = dict(self.properties)
        if properties.get("basic.auth.credentials.source") and properties.get("bearer.auth.credentials.source"):
            raise OptionError(
                "Only one of 'basic-auth.credentials-source' and 'bearer-auth.credentials-source' may be specified",
                format=self.format,
                option="bearer-auth.credentials-source",
            )

    def scrubbed(self, text: str) -> str:
        """Mask the secrets of these settings in a text of a library or a server."""
        return scrubbed(text, self._secrets())

    def _secrets(self) -> Iterator[str]:
        values = [value for key, value in self.properties if any(word in key.lower() for word in _SECRET_WORDS)]
        for text in (self.url, *(value for _, value in self.properties)):
            values += [userinfo(url) for url in text.split(",") if "://" in url]
        for value in values:
            yield from (part for part in (value, value.partition(":")[2]) if part)


def userinfo(url: str) -> str:
    """Return `user:password` of a URL, empty if it has none."""
    authority = urllib.parse.urlsplit(url).netloc
    return urllib.parse.unquote(authority.rpartition("@")[0])
