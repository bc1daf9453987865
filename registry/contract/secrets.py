"""Mask credentials in texts of servers, proxies and libraries, in all encodings that these may use."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator

from kvformat.registry.contract.options import mask_userinfo_in_text

_MASK = "******"
_SHORT = 4  # characters; a shorter secret is only masked as a whole word, not inside other words
_NESTING = 2  # levels of quoting in an answer, for example a header in JSON in the repr of bytes
_AUTHORIZATION = re.compile(r"\b(Basic|Bearer)(\s+|%20|\+)(?=\S{0,99}[\d=._-])[\w.~+/=%-]{8,}", re.IGNORECASE)


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Mask these secrets, credentials of an Authorization header, and credentials in URLs."""
    folded = text.casefold()
    forms = {
        form
        for secret in secrets
        if len(secret) <= len(text)  # no form is shorter than its secret
        for form in _forms(secret)
        if form.casefold() in folded  # a pattern of all forms of a long secret takes seconds to compile
    }
    if forms:
        longest_first = sorted(forms, key=len, reverse=True)
        text = re.sub("|".join(map(_pattern, longest_first)), _MASK, text, flags=re.IGNORECASE)
    text = _AUTHORIZATION.sub(rf"\1\2{_MASK}", text)
    return mask_userinfo_in_text(text)


def _forms(secret: str) -> set[str]:
    """Return the forms of a secret: plain, hex, base64, and these quoted as in JSON, Python, URLs and HTML."""
    forms = {secret}
    for _ in range(_NESTING):
        forms |= {encoded for form in forms for encoded in _encoded(form)}
    for _ in range(_NESTING):
        forms |= {quoted for form in forms for quoted in _quoted(form)}
    return forms - {""}


def _encoded(text: str) -> Iterator[str]:
    """Yield a text in hex and base64. The search ignores case."""
    data = text.encode()
    for digits in (data.hex(), data.hex(" "), data.hex(":")):
        yield digits
        yield digits.upper()
    for encoded in (base64.b64encode(data), base64.urlsafe_b64encode(data)):
        yield encoded.decode()
        yield encoded.decode().rstrip("=")


def _quoted(text: str) -> Iterator[str]:
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield text.replace("/", r"\/")
    yield repr(text)[1:-1]
    yield repr(text.encode())[2:-1]
    yield urllib.parse.quote(text)
    yield urllib.parse.quote(text, safe="")
    yield urllib.parse.quote_plus(text)
    yield html.escape(text)


def _pattern(form: str) -> str:
    return re.escape(form) if len(form) >= _SHORT else rf"(?<!\w){re.escape(form)}(?!\w)"
