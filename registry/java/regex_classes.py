"""Classes of characters in Java's regular expressions, written for Python's."""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Iterable

LINE_ENDS = r"[\n\r\u0085\u2028\u2029]"
ASCII = {"d": "[0-9]", "w": "[A-Za-z0-9_]", "s": r"[ \t\n\x0b\f\r]"}
HORIZONTAL = r"[ \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000]"
VERTICAL = r"[\n\x0b\f\r\x85\u2028\u2029]"
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
POSIX = {
    "Lower": "[a-z]",
    "Upper": "[A-Z]",
    "ASCII": r"[\x00-\x7f]",
    "Alpha": "[A-Za-z]",
    "Digit": "[0-9]",
    "Alnum": "[A-Za-z0-9]",
    "Punct": r"[!-/:-@\[-`{-~]",
    "Graph": "[!-~]",
    "Print": "[ -~]",
    "Blank": r"[ \t]",
    "Cntrl": r"[\x00-\x1f\x7f]",
    "XDigit": "[0-9A-Fa-f]",
    "Space": r"[ \t\n\x0b\f\r]",
}
CATEGORIES = {
    *("Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Me", "Mc", "Nd", "Nl", "No", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs"),
    *("Pd", "Ps", "Pe", "Pc", "Po", "Sm", "Sc", "Sk", "So", "Pi", "Pf"),
}
CASED = ("Lu", "Ll", "Lt")
BINARY = {
    "LETTER": ("L",),
    "TITLECASE": ("Lt",),
    "DIGIT": ("Nd",),
    "PUNCTUATION": ("P",),
    "CONTROL": ("Cc",),
    "ASSIGNED": ("L", "M", "N", "Z", "P", "S", "Cc", "Cf", "Co", "Cs"),
}


DERIVED = {"ALPHABETIC": "Alphabetic", "LOWERCASE": "Lowercase", "UPPERCASE": "Uppercase"}
"""Properties that are not general categories."""


@functools.cache
def category(*names: str) -> str:
    """Return the class of all characters with a general category that begins with one of the names."""
    return _class(code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith(names))


@functools.cache
def derived(name: str) -> str:
    """Return the class of all characters with a property of the package `regex`."""
    import regex

    matches = regex.compile(rf"\p{{{name}}}").match
    return _class(code for code in range(sys.maxunicode + 1) if matches(chr(code)))


def _class(codes: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "[" + "".join(f"{escaped(a)}-{escaped(b)}" for a, b in ranges) + "]"


def escaped(code: int) -> str:
    """Return an escape sequence for a character."""
    return f"\\U{code:08x}"
