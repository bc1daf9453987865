"""Java's regular expressions (`java.util.regex.Pattern`, Java 17), matched by Python in limited time.

`regex_translation.py` translates a pattern. Python's `re` checks the translated pattern. The package `regex`, which
reads it in the same way, matches texts, because its matches have a timeout. Both backtrack as Java does, and `(a+)+b`
has 2^n ways to match n letters.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from kvformat.registry.contract.errors import needs_extra
from kvformat.registry.java.regex_translation import RegexError, Translator, UnsupportedRegexError, without_quotes

__all__ = ["JavaPattern", "RegexError", "SlowMatchError", "UnsupportedRegexError", "compile_java", "found_as_whole"]
_LONGEST_MATCH = 1.0
"""The most seconds of processor time for a text. A usual pattern needs a millionth of it; a hostile one never ends."""
_SHORTEST_MATCH = 0.001
"""The least timeout in seconds, after many texts that took too long: 10,000 such texts take 10 s, not hours."""
_MOST_REMEMBERED = 10_000
"""The size of a pattern's cache, because names of tables repeat. A match with a timeout takes 3 microseconds."""
_LONGEST_REMEMBERED = 250
"""The most characters of a cached text: with 4 bytes each, the cache has 10 MB. Longer names are rare."""
# An escape: a quotation to its end, or to the end of the pattern (only then the group is not empty), or one character.
_QUOTES = re.compile(r"\\Q(?:.*?\\E|(.*)\Z)|\\.", re.DOTALL)


class SlowMatchError(Exception):
    """A match took too long. `seconds` is its timeout."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class JavaPattern:
    """A Java regular expression. Threads may share it.

    The timeout for a text is `_LONGEST_MATCH` seconds at first. Each text that exceeds it halves the timeout. So all
    slow texts together take about twice that time.
    """

    def __init__(
        self, pattern: Any, traits: frozenset[str] = frozenset(), quick: re.Pattern[str] | None = None
    ) -> None:
        """Take a pattern of the package `regex` and its `TRAITS`; `quick` is the same pattern if it needs no timeout.

        Python's `re` is faster, and equal for ASCII texts. Short ones need no timeout if the pattern cannot be slow.
        """
        self._pattern, self._quick = pattern, quick
        self.traits = traits
        self._seconds = _LONGEST_MATCH
        self._remembered = functools.lru_cache(_MOST_REMEMBERED)(self._answer)

    def matches(self, text: str) -> bool:
        """Java's `matches()`: whether the pattern matches the whole text.

        Raises `SlowMatchError` if the match takes too long.
        """
        answer = self._remembered(text) if len(text) <= _LONGEST_REMEMBERED else self._answer(text)
        if isinstance(answer, float):
            raise SlowMatchError(answer)
        return answer

    @property
    def group_count(self) -> int:
        """The number of groups, without the whole match."""
        count: int = self._pattern.groups
        return count

    def groups(self, text: str) -> tuple[str | None, ...] | None:
        """Return the groups of a match of the whole text, None for a group without a match; None if nothing matches.

        Raises `SlowMatchError` if the match takes too long.
        """
        match = self.limited(text, lambda pattern, limit: pattern.fullmatch(text, **limit))
        return None if match is None else match.groups()

    @property
    def seconds(self) -> float:
        """The current timeout for a text."""
        return self._seconds

    def limited(self, text: str, use: Callable[[Any, Mapping[str, float]], Any]) -> Any:
        """Call a function with the pattern, and the timeout as a keyword argument of its methods.

        Raises `SlowMatchError` for a TimeoutError, and halves the timeout.
        """
        if self._quick is not None and len(text) <= _LONGEST_REMEMBERED and text.isascii():
            return use(self._quick, {})
        seconds = self._seconds
        try:
            return use(self._pattern, {"timeout": seconds})
        except TimeoutError:
            self._seconds = max(seconds / 2, _SHORTEST_MATCH)
            raise SlowMatchError(seconds) from None

    def _answer(self, text: str) -> bool | float:
        """Return whether the text matches, or the timeout in seconds if it took too long."""
        try:
            return self.limited(text, lambda pattern, limit: pattern.fullmatch(text, **limit)) is not None
        except SlowMatchError as error:
            return error.seconds


@functools.lru_cache(maxsize=64)
def compile_java(text: str) -> JavaPattern:
    """Compile a Java regular expression.

    Raises `RegexError` for a text that is not a supported pattern, and `MissingExtraError` if the package `regex` is
    not installed.
    """
    with needs_extra(
        "Java's regular expressions need the Python package regex, here and on the workers: pip install regex"
    ):
        import regex
    try:
        translator = Translator(without_quotes(text))
        translated = translator.whole()
        checked = re.compile(translated)
        # an alternative that never matches disables a wrong check of the first character: `(?i:é)?[^s]` misses "ſ"
        compiled = regex.compile(f"(?:{translated}|(?!))", regex.VERSION0, cache_pattern=False)
        return JavaPattern(compiled, frozenset(translator.traits), checked if translator.is_quick() else None)
    except (re.error, regex.error, OverflowError, RecursionError) as cause:
        raise UnsupportedRegexError(f"Python does not support this pattern ({cause})") from None


def found_as_whole(pattern: str) -> str:
    r"""Return the pattern that finds the texts that a Java pattern matches as a whole, where Java searches in a text.

    An open `\Q` is closed. After `(?x)` a comment may be open: the line break ends it, and `]{0}` then matches nothing;
    without a comment `[.\n]{0}` matches nothing.
    """
    close = r"\E" if any(open_end for open_end in _QUOTES.findall(pattern)) else ""
    return rf"\A(?:{pattern}{close}[." + "\n" + r"]{0})\z"
