r"""Search texts with Java's regular expressions: `Matcher.find`, `Matcher.replaceAll` and `Pattern.split`.

Java's texts are UTF-16. After an empty match before a character of two units (an emoji), Java goes on between them:
`x*` has three matches in "😀". A half of a character becomes `?` when the text is encoded.
"""

from __future__ import annotations

import functools
import itertools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kvformat.registry.java.parse import is_java_text, replace_lone_surrogates
from kvformat.registry.java.regex import JavaPattern, SlowMatchError, UnsupportedRegexError, compile_java

_BETWEEN = "Java would look behind from the middle of a character, which is not supported"
_PAIRED = re.compile("[\U00010000-\U0010ffff]")


class UnsupportedMatchError(Exception):
    """A match that is not supported, with the reason."""


class _EmptyMatchError(Exception):
    """A match is empty. After it, Python goes on with a longer match at the same offset, and Java does not."""


class JavaMatch(NamedTuple):
    """A match: its offsets in units of UTF-16, and its groups, of which the first is the whole match."""

    start: int
    end: int
    groups: Sequence[str | None]


def compile_search(text: str) -> JavaPattern:
    r"""Compile a pattern for the functions of this module.

    Raises `RegexError` if it is not a pattern, and `UnsupportedRegexError` also for `\G`.
    """
    pattern = compile_java(text)
    if "CONTINUES" in pattern.traits:
        raise UnsupportedRegexError(r"\G in a search is not supported")
    return pattern


def finds(pattern: JavaPattern, text: str) -> bool:
    """Return whether a part of the text matches. Raises like `find_all`."""
    if "LOOKS_BEHIND" in pattern.traits:
        return find_first(pattern, text) is not None
    _check_words(pattern, text)
    return _search(pattern, text) is not None


def find_first(pattern: JavaPattern, text: str) -> JavaMatch | None:
    """Return the first match, or None. Raises like `find_all`."""
    _check_words(pattern, text)
    if _has_pairs(text):
        return next(_find_units(pattern, text), None)
    match = _search(pattern, text)
    return None if match is None else _of_units(match)


def find_all(pattern: JavaPattern, text: str) -> list[JavaMatch]:
    r"""Return all matches.

    Raises `SlowMatchError`, and `UnsupportedMatchError` for a lookbehind from the middle of a character, and for `\b`
    in a text with marks or signs that belong to words in Python only.
    """
    _check_words(pattern, text)
    if _has_pairs(text):
        return list(_find_units(pattern, text))
    up_to_empty = _find_up_to_an_empty_match(pattern, text)
    matches = [_of_units(match) for match in up_to_empty]
    if up_to_empty and (start := up_to_empty[-1].end()) == up_to_empty[-1].start() < len(text):
        matches += _find_from(pattern, text, start + 1)
    return matches


def replace_all(pattern: JavaPattern, text: str, replacement: str) -> str:
    """Replace all matches by a text. Raises like `find_all`."""
    _check_words(pattern, text)
    if not _has_pairs(text):
        try:
            return _replace_up_to_an_empty_match(pattern, text, replacement)
        except _EmptyMatchError:
            pass
    units = as_units(text)
    pieces: list[str] = []
    at = 0
    for match in find_all(pattern, text):
        pieces += units[at : match.start], replacement
        at = match.end
    return replace_lone_surrogates("".join((*pieces, units[at:])))


def split(pattern: JavaPattern, text: str, limit: int = 0) -> list[str]:
    """Split a text as `String.split` does, into at most `limit` pieces; without a limit, the last are not empty.

    Raises like `find_all`.
    """
    units = as_units(text)
    pieces: list[str] = []
    at = 0
    for match in find_all(pattern, text):
        if at == 0 and match.end == 0:
            continue  # an empty match at the begin makes no piece
        if limit and len(pieces) == limit - 1:
            break
        pieces.append(units[at : match.start])
        at = match.end
    if not at:
        return [text]
    pieces.append(units[at:])
    while not limit and pieces and not pieces[-1]:
        pieces.pop()
    return pieces if units is text else [replace_lone_surrogates(piece) for piece in pieces]


# --- UTF-16 --------------------------------------------------------------------------------------------


def unit_count(text: str) -> int:
    """Return the number of units of UTF-16."""
    return len(text) + (0 if text.isascii() else len(_PAIRED.findall(text)))


def as_units(text: str) -> str:
    """Return a text whose characters are units of UTF-16. `replace_lone_surrogates` is the way back."""
    return text if text.isascii() else _PAIRED.sub(_two_units, text)


def _two_units(match: re.Match[str]) -> str:
    code = ord(match[0]) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def _has_pairs(text: str) -> bool:
    """Return whether a text has characters of two units."""
    return bool(text) and not is_java_text(text)


# --- matches of Python ---------------------------------------------------------------------------------


def _search(pattern: JavaPattern, text: str, start: int = 0) -> Any:
    return pattern.limited(text, lambda compiled, limit: compiled.search(text, start, **limit))


def _match(pattern: JavaPattern, text: str, start: int) -> Any:
    return pattern.limited(text, lambda compiled, limit: compiled.match(text, start, **limit))


def _find_up_to_an_empty_match(pattern: JavaPattern, text: str) -> list[Any]:
    def find(compiled: Any, limit: Mapping[str, float]) -> list[Any]:
        up_to_empty = []
        for match in compiled.finditer(text, **limit):
            up_to_empty.append(match)
            if match.start() == match.end():
                break
        return up_to_empty

    matches: list[Any] = pattern.limited(text, find)
    return matches


def _replace_up_to_an_empty_match(pattern: JavaPattern, text: str, replacement: str) -> str:
    """Replace all matches by a text. Raises `_EmptyMatchError`."""

    def replace(match: Any) -> str:
        if match.start() == match.end():
            raise _EmptyMatchError
        return replacement

    replaced: str = pattern.limited(text, lambda compiled, limit: compiled.sub(replace, text, **limit))
    return replaced


def _of_units(match: Any) -> JavaMatch:
    """Convert a match of a text without characters of two units."""
    start, end = match.span()
    return JavaMatch(start, end, (match[0], *match.groups()))


# --- matches of Java -----------------------------------------------------------------------------------


def _find_from(pattern: JavaPattern, text: str, at: int) -> Iterator[JavaMatch]:
    """Yield the matches from an offset on, in a text without characters of two units."""
    deadline = time.monotonic() + pattern.seconds
    while at <= len(text) and (match := _search(pattern, text, at)) is not None:
        yield _of_units(match)
        at = match.end() + (match.start() == match.end())
        _check(deadline, pattern)


def _find_units(pattern: JavaPattern, text: str) -> Iterator[JavaMatch]:
    """Yield the matches of a text that has characters of two units."""
    deadline = time.monotonic() + pattern.seconds
    offsets = [0, *itertools.accumulate(1 + (character > "\uffff") for character in text)]
    at = 0
    while at <= len(text):
        match = _search(pattern, text, at)
        if "LOOKS_BEHIND" in pattern.traits:
            _check_between(pattern, text, at, len(text) if match is None else match.start())
        if match is None:
            break
        start, end = match.span()
        yield JavaMatch(offsets[start], offsets[end], (match[0], *match.groups()))
        at = end
        if start == end:
            at = end + 1
            if text[end:at] > "\uffff":
                if "LOOKS_BEHIND" in pattern.traits:
                    raise UnsupportedMatchError(_BETWEEN)
                between = _match_between(pattern, text, end)
                if between is not None:
                    at = max(between.end() - 1, at)
                    first = offsets[end] + 1
                    last = first if between.end() == end + 1 else offsets[at]
                    groups = [group and replace_lone_surrogates(group) for group in (between[0], *between.groups())]
                    yield JavaMatch(first, last, groups)
        _check(deadline, pattern)


def _match_between(pattern: JavaPattern, text: str, at: int) -> Any:
    """Return the match that begins in the middle of the character at an offset. It makes the text longer by one."""
    return _match(pattern, text[:at] + as_units(text[at]) + text[at + 1 :], at + 1)


def _check_between(pattern: JavaPattern, text: str, start: int, end: int) -> None:
    """Raise `UnsupportedMatchError` if a match could begin in the middle of a character before the next match."""
    for pair in _PAIRED.finditer(text, start, end + 1):
        rest = as_units(pair[0])[1] + text[pair.end() :]
        if _match_between(pattern, text, pair.start()) is not None or _match(pattern, rest, 0) is not None:
            raise UnsupportedMatchError(_BETWEEN)


def _check_words(pattern: JavaPattern, text: str) -> None:
    """Raise `UnsupportedMatchError` for a word boundary in a text with signs that belong to words in Python only."""
    if "WORD_EDGES" in pattern.traits and not text.isascii() and _word_signs().search(text):
        raise UnsupportedMatchError(r"\b in a text with marks or signs is not supported")


@functools.cache
def _word_signs() -> Any:
    r"""Return a pattern of the characters that are in `\w` of `regex`, and not letters, digits or `_`."""
    import regex

    return regex.compile(r"[\w--[\p{L}\p{Nd}_]]", regex.VERSION1)


def _check(deadline: float, pattern: JavaPattern) -> None:
    """Raise `SlowMatchError` after the deadline: the searches in a text together have the time of one."""
    if time.monotonic() > deadline:
        raise SlowMatchError(pattern.seconds)
