"""Parse URLs as `java.net.URL` does, and encode and decode texts as `URLEncoder` and `URLDecoder` do.

Rules: `java.net.URL`, `java.net.URLStreamHandler.parseURL`, `java.net.URLDecoder`, `sun.net.util.IPAddressUtil`.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import quote_plus

from kvformat.registry.java.charsets import java_text
from kvformat.registry.java.parse import BLANKS

_PROTOCOLS = ("http", "https", "ftp", "file", "mailto")
_UNSUPPORTED = ("jar", "jrt", "jmod")
_PROTOCOL = re.compile(r"([^/:#][^/:]*):")
# control characters, and those that Unicode's compatibility forms replace by one of `#/:?@`
_NOT_IN_HOSTS = re.compile(
    "[\x00-\x1f\x7f\u2047-\u2049\u2100\u2101\u2105\u2106\u2a74\ufe55\ufe56\ufe5f\ufe6b\uff03\uff0f\uff1a\uff1f\uff20]"
)
_MOST_INT = 2**31 - 1
"""Java's Integer.MAX_VALUE."""


class UrlError(ValueError):
    """Java's `MalformedURLException`, or a text that `URLDecoder` does not accept."""


class UnsupportedUrlError(Exception):
    """Java knows the protocol of the URL, but it is not supported here."""


@dataclass(frozen=True, slots=True)
class JavaUrl:
    """The parts of a URL. None for a part that the URL does not have."""

    protocol: str
    host: str
    authority: str | None
    user_info: str | None
    path: str
    query: str | None
    ref: str | None

    @property
    def file(self) -> str:
        """Path and query."""
        return self.path if self.query is None else f"{self.path}?{self.query}"


def parse_url(text: str) -> JavaUrl:
    """Parse a URL. Raises `UrlError` and `UnsupportedUrlError`."""
    spec = text.strip(BLANKS)
    if spec[:4].lower() == "url:":
        spec = spec[4:]
    scheme = _PROTOCOL.match(spec)
    protocol = scheme[1].lower() if scheme else ""
    if protocol in _UNSUPPORTED:
        raise UnsupportedUrlError(f"a URL of the protocol '{protocol}' is not supported")
    if scheme is None or protocol not in _PROTOCOLS:
        raise UrlError("no known protocol")
    rest, sharp, ref = spec[scheme.end() :].partition("#")
    if protocol == "mailto":
        return _mail(rest, ref if sharp else None)
    return _hierarchical(protocol, rest, ref if sharp else None)


def _mail(rest: str, ref: str | None) -> JavaUrl:
    if not rest or all(_is_blank(character) for character in rest):
        raise UrlError("no email address")
    path, question, query = rest.rpartition("?")
    return JavaUrl("mailto", "", None, None, path if question else rest, query if question else None, None)


def _hierarchical(protocol: str, rest: str, ref: str | None) -> JavaUrl:
    rest, question, query = rest.partition("?")
    host, authority, user_info = "", None, None
    path: str | None = None
    if rest.startswith("//") and not rest.startswith("////"):
        authority, slash, after = rest[2:].partition("/")
        rest = slash + after
        if authority.count("@") > 1:
            pass  # not based on a server
        elif "@" in authority:
            user_info, host = authority.split("@")
        else:
            host = authority
        host = _without_port(host)
        path = "" if authority else None
    if rest.startswith("/"):
        path = rest
    elif rest:
        path = rest if authority is None else f"/{rest}"
    return JavaUrl(protocol, host, authority, user_info, path or "", query if question else None, ref)


def _without_port(host: str) -> str:
    """Return the host without its port. Raises `UrlError` for a wrong port or a wrong address in brackets."""
    if host.startswith("["):
        end = host.find("]")
        if end <= 2 or not _is_ipv6(host[1:end]):
            raise UrlError("invalid host")
        after = host[end + 1 :]
        if after and after[0] != ":":
            raise UrlError("invalid authority")
        port, host = after[1:], host[: end + 1]
    else:
        host, _, port = host.partition(":")
    if port and _java_int(port, 10) < -1:
        raise UrlError("invalid port")
    if _NOT_IN_HOSTS.search(host):
        raise UrlError("illegal character in the host")
    return host


def _is_ipv6(text: str) -> bool:
    """Return whether `IPAddressUtil.isIPv6LiteralAddress` accepts a text."""
    address, percent, scope = text.partition("%")
    if percent and not scope:
        return False
    head, double, tail = address.partition("::")
    if double and ("::" in tail or tail.startswith(":")):
        return False
    count = 0
    for side, last in ((head, not double), (tail, True)) if double else ((head, True),):
        groups = side.split(":") if side else []
        for i, group in enumerate(groups):
            if last and i == len(groups) - 1 and "." in group:
                if not _is_ipv4(group):
                    return False
                count += 2
                continue
            digits = [_digit(character) for character in group]
            if not group or -1 in digits or int("".join(f"{digit:x}" for digit in digits), 16) > 0xFFFF:
                return False
            count += 1
    return count < 8 if double else count == 8


def _is_ipv4(text: str) -> bool:
    parts = text.split(".")
    return len(text) <= 15 and len(parts) == 4 and all(part.isdecimal() and int(part) < 256 for part in parts)


# --- encoding ------------------------------------------------------------------------------------------


def encode_url(text: str) -> str:
    """Return `URLEncoder.encode` with UTF-8."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def decode_url(text: str) -> str:
    """Return `URLDecoder.decode` with UTF-8. Raises `UrlError`."""
    if "%" not in text:
        return text.replace("+", " ")
    pieces, at = [], 0
    while (escape := text.find("%", at)) >= 0:
        pieces.append(text[at:escape].replace("+", " "))
        data = bytearray()
        while text[escape : escape + 1] == "%":
            digits = text[escape + 1 : escape + 3]
            if len(digits) < 2:
                raise UrlError("an escape is incomplete")
            byte = _java_int(digits, 16)
            if byte < 0:
                raise UrlError("an escape is negative")
            data.append(byte)
            escape += 3
        pieces.append(java_text(bytes(data)))
        at = escape
    return "".join((*pieces, text[at:].replace("+", " ")))


def _java_int(digits: str, base: int) -> int:
    """Return `Integer.parseInt`. Raises `UrlError`."""
    sign = -1 if digits[:1] == "-" else 1
    figures = digits[1:] if digits[:1] in ("+", "-") else digits
    number = 0
    for character in figures:
        digit = _digit(character)
        if not 0 <= digit < base:
            raise UrlError("not a number")
        number = number * base + digit
        if number > _MOST_INT + 1:
            raise UrlError("a number is too large")
    if not figures or number * sign > _MOST_INT:
        raise UrlError("not a number")
    return number * sign


def _digit(character: str) -> int:
    """Return `Character.digit(character, 16)` of a unit of UTF-16."""
    if character in "0123456789abcdefABCDEF":
        return int(character, 16)
    if character > "\uffff" or character.isascii():
        return -1
    for first in "\uff21\uff41":
        if ord(first) <= ord(character) < ord(first) + 6:
            return ord(character) - ord(first) + 10
    return unicodedata.decimal(character, -1)


def _is_blank(character: str) -> bool:
    """Return `Character.isWhitespace`."""
    if character in "\t\n\x0b\f\r\x1c\x1d\x1e\x1f":
        return True
    return unicodedata.category(character) in ("Zs", "Zl", "Zp") and character not in "\xa0\u2007\u202f"
