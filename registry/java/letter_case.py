"""Convert letters to upper and lower case as `String.toUpperCase` and `String.toLowerCase` of Java 17 do.

Java and Python use Unicode's full mappings (`ß` becomes `SS`). They differ in letters that are newer than Java's
Unicode 13, and in a sigma at the end of a word (`ΣΑΣ` becomes `σας`), because they find the end of a word differently.
Rules: `ConditionalSpecialCasing`, `java.text.BreakIterator`.
"""

from __future__ import annotations

import re
import unicodedata

# letters with a case that Unicode 14 to 17 added
_NEW = re.compile(
    "[\u1c89\u1c8a\u2c2f\u2c5f\ua7c0\ua7c1\ua7cb-\ua7dc\U00010570-\U000105bf\U00010d50-\U00010d8f\U00016ea0-\U00016edf]"
)
_SIGMA, _FINAL_SIGMA = "\u03c3", "\u03c2"
_LAST_PLAIN = "\u058f"  # of Latin, Greek, Cyrillic and Armenian
_JOINING = frozenset("_-'.\"\u00ad\u02bc")  # they join words, or Java's rule for them has conditions


class UnknownWordEndError(ValueError):
    """Java's word boundary beside a capital sigma depends on characters that are not supported."""


def upper(text: str) -> str:
    """Return `text.toUpperCase()`."""
    if text.isascii():
        return text.upper()
    uppercase = text.upper()
    if _NEW.search(uppercase):
        return "".join([old if _NEW.search(old + old.upper()) else old.upper() for old in text])
    return uppercase


def lower(text: str) -> str:
    """Return `text.toLowerCase()`. Raises `UnknownWordEndError`."""
    if text.isascii():
        return text.lower()
    if "\u03a3" in text:
        text = "".join([_lower_sigma(text, i) if old == "\u03a3" else old for i, old in enumerate(text)])
    if _NEW.search(text):
        return "".join([old if _NEW.search(old) else old.lower() for old in text])
    return text.lower()


def _lower_sigma(text: str, at: int) -> str:
    """Return the small letter of a capital sigma: the final one if a letter is before it and none after it."""
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    return _FINAL_SIGMA if _is_letter(before) and not _is_letter(after) else _SIGMA


def _is_letter(neighbor: str) -> bool:
    """Return whether a neighbor belongs to the word as a letter that has a case."""
    if not neighbor or neighbor in " \t\r\n":
        return False
    category = unicodedata.category(neighbor)
    if neighbor <= _LAST_PLAIN and category in ("Lu", "Ll", "Lt"):
        return True
    if neighbor.isascii() and neighbor not in _JOINING and not neighbor.isdigit():
        return False
    raise UnknownWordEndError(f"whether the word of a capital sigma ends before or after {neighbor!r}")
