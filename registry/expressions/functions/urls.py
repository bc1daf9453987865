"""Functions of URLs and of addresses of IPv4.

Rules: `SqlFunctionUtils.parseUrl`, and the classes `UrlEncodeFunction`, `UrlDecodeFunction`, `InetAtonFunction`,
`InetNtoaFunction`.
"""

from __future__ import annotations

import functools

from kvformat.registry.contract.types import STRING
from kvformat.registry.expressions.bound import BIGINT
from kvformat.registry.expressions.functions.signatures import Function
from kvformat.registry.expressions.functions.text_signatures import text_function
from kvformat.registry.expressions.rows import RowError
from kvformat.registry.java.urls import JavaUrl, UnsupportedUrlError, UrlError, decode_url, encode_url, parse_url

_PARTS = {
    "HOST": "host",
    "PATH": "path",
    "QUERY": "query",
    "REF": "ref",
    "PROTOCOL": "protocol",
    "FILE": "file",
    "AUTHORITY": "authority",
    "USERINFO": "user_info",
}
_MOST_BITS = 32
"""Bits of an IPv4 address."""


@functools.lru_cache(256)
def _parsed(url: str) -> JavaUrl | None:
    try:
        return parse_url(url)
    except UrlError:
        return None
    except UnsupportedUrlError as error:
        raise RowError(f"PARSE_URL: {error}") from None


def _parse_url(url: str, part: str, key: str | None = None) -> str | None:
    """Return a part of a URL, or the value of a key in its query, as it is written there."""
    name = _PARTS.get(part)
    parsed = _parsed(url) if name and (key is None or part == "QUERY") else None
    text: str | None = getattr(parsed, name or "") if parsed else None
    if key is None or text is None:
        return text
    query, start = f"&{text}", f"&{key}="
    at = query.find(start)
    return query[at + len(start) :].partition("&")[0] if at >= 0 else None


def _url_decode(text: str) -> str | None:
    try:
        return decode_url(text)
    except UrlError:
        return None


def _inet_aton(text: str) -> int | None:
    """Return the number of an address; one with fewer than four parts leaves out bytes before the last."""
    parts = text.split(".")
    if len(parts) > 4 or not all(part.isascii() and part.isdigit() and int(part[-4:]) < 256 for part in parts):
        return None
    numbers = [int(part) for part in parts]
    return int(sum(number << shift for number, shift in zip(numbers[:-1], (24, 16, 8), strict=False)) + numbers[-1])


def _inet_ntoa(number: int) -> str | None:
    if number >> _MOST_BITS:
        return None
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


FUNCTIONS: dict[str, Function] = {
    "PARSE_URL": text_function(_parse_url, "TEXT TEXT TEXT?", STRING),
    "URL_ENCODE": text_function(encode_url, "TEXT", STRING, null_literals=True),
    "URL_DECODE": text_function(_url_decode, "TEXT", STRING, null_literals=True),
    "INET_ATON": text_function(_inet_aton, "TEXT", BIGINT, null_literals=True),
    "INET_NTOA": text_function(_inet_ntoa, "LONG", STRING, null_literals=True),
}
