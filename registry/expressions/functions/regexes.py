r"""Functions of Java's regular expressions, LIKE and SIMILAR TO.

    REGEXP_EXTRACT('a-12', '(\w)-(\d+)', 2)   12
    name LIKE '50!%%' ESCAPE '!'              texts that begin with `50%`

A text that is not a pattern in Java gives NULL, and FALSE in REGEXP. A pattern that only Java supports is refused.
Rules: `SqlFunctionUtils`, `SqlLikeUtils`, `LikeCallGen`, and the classes `Regexp*Function`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from kvformat.registry.contract.types import STRING, FlinkField, FlinkType
from kvformat.registry.expressions.bound import BOOLEAN, INT, BindError, Bound, constant
from kvformat.registry.expressions.functions.signatures import Function
from kvformat.registry.expressions.functions.text_signatures import accepted, fixed, prepared
from kvformat.registry.expressions.rows import MOST_CHARACTERS, RowError, check_length
from kvformat.registry.expressions.tree import Call
from kvformat.registry.java import regex_search
from kvformat.registry.java.regex import JavaPattern, RegexError, SlowMatchError, UnsupportedRegexError, compile_java

OfText = Callable[[str], Any]
_STRINGS = FlinkType("ARRAY", fields=(FlinkField("element", STRING),))


# --- regular expressions -------------------------------------------------------------------------------------


def _compiled(pattern: str) -> JavaPattern | None:
    """Return the compiled pattern, or None if it is not a pattern in Java. Raises `RowError`."""
    try:
        return regex_search.compile_search(pattern)
    except UnsupportedRegexError as error:
        raise RowError(f"the pattern '{pattern:.60}': {error}") from None
    except RegexError:
        return None


def _within_time(function: OfText) -> OfText:
    """Return the function of a text that raises `RowError` for a slow or an unsupported match."""

    def limited(text: str) -> Any:
        try:
            return function(text)
        except SlowMatchError as error:
            raise RowError(f"the match of a pattern takes more than {error.seconds} seconds") from None
        except regex_search.UnsupportedMatchError as error:
            raise RowError(str(error)) from None

    return limited


def _of_pattern(use: Callable[..., OfText], default: Any = None) -> Callable[..., OfText]:
    """Return a function for `prepared`: `use` gets the pattern and the further arguments.

    The result for all texts is `default` if Java does not accept the pattern.
    """

    def prepare(pattern: str, *rest: Any) -> OfText:
        compiled = _compiled(pattern)
        return _within_time(use(compiled, *rest)) if compiled is not None else lambda _: default

    return prepare


def _finds(compiled: JavaPattern) -> OfText:
    return lambda text: regex_search.finds(compiled, text)


def _regexp(pattern: str) -> OfText:
    """Return whether a part of the text matches. No text matches the empty pattern."""
    return _of_pattern(_finds, False)(pattern) if pattern else lambda _: False


def _count(compiled: JavaPattern) -> OfText:
    return lambda text: len(regex_search.find_all(compiled, text))


def _instr(compiled: JavaPattern) -> OfText:
    def position(text: str) -> int:
        match = regex_search.find_first(compiled, text)
        return match.start + 1 if match else 0

    return position


def _group(compiled: JavaPattern, index: int = 0) -> OfText:
    """Return the group of the first match; NULL for an index that the pattern does not have."""
    index = (index + 2**31) % 2**32 - 2**31
    if not _has_group(compiled, index):
        return lambda _: None

    def group(text: str) -> str | None:
        match = regex_search.find_first(compiled, text)
        return match.groups[index] if match else None

    return group


def _groups(compiled: JavaPattern, index: int = 1) -> OfText:
    """Return the group of all matches."""
    if not _has_group(compiled, index):
        return lambda _: None
    return lambda text: [match.groups[index] for match in regex_search.find_all(compiled, text)]


def _has_group(compiled: JavaPattern, index: int) -> bool:
    if not 0 <= index <= compiled.group_count:
        return False
    if index and "KEEPS_GROUPS" in compiled.traits:
        raise RowError("groups in a lookaround or before a possessive quantifier are not supported")
    return True


def _replace(compiled: JavaPattern, replacement: str) -> OfText:
    """Replace all matches. `$1` in the replacement has no meaning."""

    def replaced(text: str) -> str:
        if len(text) * len(replacement) > MOST_CHARACTERS:
            check_length(len(regex_search.find_all(compiled, text)) * len(replacement), text, replacement)
        return regex_search.replace_all(compiled, text, replacement)

    return replaced


# --- LIKE ----------------------------------------------------------------------------------------------------

_ONE = re.compile("[^\n\r\x85\u2028\u2029]")
_Part = list["str | re.Pattern[str]"]
"""A part of a LIKE pattern between two `%`: characters, and `_ONE` for each `_`."""


def _bind_like(call: Call, arguments: Sequence[Bound]) -> Bound:
    value, *rest = accepted(call, arguments, "TEXT TEXT TEXT?")
    if not all(argument.is_literal for argument in rest):
        remembered = functools.lru_cache(256)(_like)
        return fixed(BOOLEAN, lambda text, *others: remembered(*others)(text), [value, *rest])
    pattern, escape = rest[0].literal, rest[1].literal if len(rest) > 1 else None
    if pattern is None or (escape is None and len(rest) > 1):
        return constant(BOOLEAN, None)
    if escape == "" and "_" not in pattern:
        escape = None  # `LikeCallGen` ignores it
    try:
        return fixed(BOOLEAN, _like(pattern, escape), [value])
    except RowError as error:
        raise BindError(str(error), call.offset) from None


def _like(pattern: str, escape: str | None = None) -> OfText:
    """Return the function that matches texts with a pattern. Raises `RowError` for a wrong escape."""
    first, *others = _parts(pattern, escape)
    if not others:
        return _matcher_of_all(first)
    *middle, last = others
    if _is_plain(first) and _is_plain(last) and all(map(_is_plain, middle)):
        return _chain(_text(first), [_text(part) for part in middle if part], _text(last))
    return _general(first, [part for part in middle if part], last)


def _parts(pattern: str, escape: str | None) -> list[_Part]:
    """Split a pattern at each `%`. A backslash has no meaning unless it is the escape character."""
    if escape is not None and (len(escape) != 1 or escape == "\0" or escape > "\uffff"):
        raise RowError(f"LIKE: invalid escape character '{escape}'")
    parts: list[_Part] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("_", "%", escape) or not escaped:
                raise RowError(f"LIKE: invalid escape sequence in '{pattern:.60}': {escape}{escaped}")
            parts[-1].append(escaped)
        elif character == "%":
            parts.append([])
        else:
            parts[-1].append(_ONE if character == "_" else character)
    return parts


def _is_plain(part: _Part) -> bool:
    return _ONE not in part


def _text(part: _Part) -> str:
    return "".join(map(str, part))


def _compiled_part(part: _Part) -> re.Pattern[str]:
    return re.compile("".join(_ONE.pattern if piece is _ONE else re.escape(str(piece)) for piece in part))


def _matcher_of_all(part: _Part) -> OfText:
    """Match the whole text with a pattern that has no `%`."""
    if _is_plain(part):
        return _text(part).__eq__
    matches = _compiled_part(part).fullmatch
    return lambda text: matches(text) is not None


def _chain(first: str, middle: list[str], last: str) -> OfText:
    """Match a text with a pattern that has no `_`: all its parts in their order."""
    if not middle:
        if not first:
            return lambda text: text.endswith(last)
        if not last:
            return lambda text: text.startswith(first)
    elif len(middle) == 1 and not first and not last:
        return lambda text: middle[0] in text
    least = len(first) + len(last)

    def matches(text: str) -> bool:
        if len(text) < least or not text.startswith(first) or not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

    return matches


def _general(first: _Part, middle: list[_Part], last: _Part) -> OfText:
    """Match a text with any pattern. Each part between two `%` has its first place, as its length is fixed."""
    begin, finish = _compiled_part(first), _compiled_part(last)
    searches = [(_compiled_part(part).search, len(part)) for part in middle]
    first_length, last_length = len(first), len(last)

    def matches(text: str) -> bool:
        at, end = first_length, len(text) - last_length
        if at > end or begin.match(text) is None or finish.fullmatch(text, end) is None:
            return False
        for search, length in searches:
            match = search(text, at, end)
            if match is None:
                return False
            at = match.start() + length
        return True

    return matches


# --- SIMILAR TO ----------------------------------------------------------------------------------------------

_JAVA_SPECIALS = "[]()|^-+*?{}$\\."
_SIMILAR_SPECIALS = "[]()|^-+*_%?{}"
_CLASSES = {
    "ALPHA": r"\p{Alpha}",
    "UPPER": r"\p{Upper}",
    "LOWER": r"\p{Lower}",
    "DIGIT": r"\d",
    "SPACE": " ",
    "WHITESPACE": r"\s",
    "ALNUM": r"\p{Alnum}",
}
_CLASS = re.compile(r"\[:(" + "|".join((*_CLASSES, *map(str.lower, _CLASSES))) + r"):\]")


def _similar(pattern: str, escape: str | None = None) -> OfText:
    """Return the function that matches texts with a pattern of SIMILAR TO. Raises `RowError` for a wrong pattern."""
    translated = _Similar(pattern, escape).translated()
    try:
        compiled = compile_java(translated)
    except RegexError as error:
        raise RowError(f"the pattern '{pattern:.60}': {error}") from None
    return _within_time(compiled.matches)


class _Similar:
    """Translates a pattern of SIMILAR TO to Java's. Rules: `SqlLikeUtils.sqlToRegexSimilar`."""

    def __init__(self, pattern: str, escape: str | None) -> None:
        self._pattern, self._escape, self._at = pattern, escape, 0
        if escape is not None:
            self._check_escape(escape)

    def _wrong(self) -> RowError:
        return RowError(f"the pattern '{self._pattern:.60}' is wrong at character {self._at + 1}")

    def _check_escape(self, escape: str) -> None:
        if len(escape) != 1 or escape == "\0" or escape > "\uffff":
            raise RowError(f"invalid escape character '{escape}'")
        if escape in _SIMILAR_SPECIALS:
            for at, character in enumerate(self._pattern):
                after = self._pattern[at + 1 : at + 2]
                if character == escape and (not after or after not in _SIMILAR_SPECIALS + escape):
                    raise self._wrong()
        if escape == ":" and ("[:" not in self._pattern or ":]" not in self._pattern):
            raise self._wrong()

    def translated(self) -> str:
        regex = ""
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            if character == self._escape:
                regex += self._escaped()
            elif character == "[":
                regex += f"[{self._members()}]"
            elif character == "]":
                raise self._wrong()
            else:
                regex += {"_": ".", "%": "(?s:.*)", "\\": r"\\", "$": r"\$"}.get(character, character)
            self._at += 1
        return regex

    def _escaped(self) -> str:
        """Return the character after the escape character, at the end of which the offset stays."""
        self._at += 1
        character = self._pattern[self._at : self._at + 1]
        if not character or (character not in _SIMILAR_SPECIALS and character != self._escape):
            raise self._wrong()
        return f"\\{character}" if character in _SIMILAR_SPECIALS and character in _JAVA_SPECIALS else character

    def _members(self) -> str:
        """Return the members of a class; the offset stays at its closing bracket."""
        members = ""
        self._at += 1
        while self._pattern[self._at : self._at + 1] not in ("]", ""):
            character = self._pattern[self._at]
            class_ = _CLASS.match(self._pattern, self._at)
            if character == self._escape:
                members += self._escaped()
            elif character in "-^":
                members += character
            elif class_:
                members += _CLASSES[class_[1].upper()]
                self._at = class_.end() - 1
            elif character in _SIMILAR_SPECIALS:
                raise self._wrong()
            else:
                members += character
            self._at += 1
        if self._at >= len(self._pattern):
            raise self._wrong()
        return members


FUNCTIONS: dict[str, Function] = {
    "LIKE": Function(_bind_like, 2, 3),
    "SIMILAR": prepared(_similar, "TEXT TEXT TEXT?", BOOLEAN),
    "REGEXP": prepared(_regexp, "TEXT TEXT", BOOLEAN),
    "REGEXP_COUNT": prepared(_of_pattern(_count), "TEXT TEXT", INT, null_literals=True),
    "REGEXP_INSTR": prepared(_of_pattern(_instr), "TEXT TEXT", INT, null_literals=True),
    "REGEXP_SUBSTR": prepared(_of_pattern(_group), "TEXT TEXT", STRING, null_literals=True),
    "REGEXP_EXTRACT": prepared(_of_pattern(_group), "TEXT TEXT INTEGER?", STRING),
    "REGEXP_EXTRACT_ALL": prepared(_of_pattern(_groups), "TEXT TEXT INTEGER?", _STRINGS, null_literals=True),
    "REGEXP_REPLACE": prepared(_of_pattern(_replace), "TEXT TEXT TEXT", STRING, may_be_null=True),
}
