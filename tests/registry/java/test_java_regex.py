"""Java's regular expressions, translated to Python's."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import Any

import pytest

from kvformat.registry.contract.errors import MissingExtraError
from kvformat.registry.java import regex as java_regex
from kvformat.registry.java.regex import JavaPattern, RegexError, SlowMatchError, compile_java

_MATCHES: list[tuple[str, list[str], list[str]]] = [
    ("", [""], ["a"]),
    ("inv.*", ["inv", "inventory"], ["xinv", "inv\n"]),
    ("a|b(?i)c|d", ["a", "bc", "bC", "D"], ["A", "BC"]),
    ("(?i)ß|é", ["é"], ["É", "SS"]),
    ("(?iu)é", ["É", "é"], ["e"]),
    ("x(?i:y)z", ["xYz"], ["XYz"]),
    # flags end with the group in which they are set
    ("(a(?i)b)c", ["aBc"], ["aBC"]),
    ("(?:a(?i)b|c)d", ["aBd", "Cd"], ["CD"]),
    ("(?<n>(?i)a)b", ["Ab"], ["AB"]),
    ("(?=(?i)a)[aA]b", ["Ab"], ["AB"]),
    ("(?i)a(?-i)b", ["Ab"], ["AB"]),
    ("(?i-s:a)b", ["Ab"], ["AB"]),
    ("(?i)[X-b]", ["x", "B", "a"], ["c"]),
    ("(?i)k[Z-a]", ["KA", "kz", "K_"], ["\u212aa", "kb"]),
    ("(?iu)k[a-k]", ["\u212aK"], ["kl"]),
    ("(?i)é(?u)é(?-u)é", ["éÉé"], ["Ééé", "ééÉ"]),
    (r"(?i)\p{Lower}[^b]", ["AC", "aé"], ["éa", "AB"]),
    (r"(?iu)(é)\1", ["éÉ"], ["ée"]),
    (r"(?iu)é?(?-i)\W+", ["ſ.", "\u212a"], ["s."]),
    (r"\B", [""], ["a"]),
    ("(?s).", ["\n"], []),
    (".", ["a", "😀"], ["\n", "\r", "\u0085", "\u2028"]),
    ("(?d).", ["\r", "\u2028"], ["\n"]),
    (r"\d+", ["12"], ["١"]),
    (r"(?U)\d+", ["12", "١"], []),
    (r"(?U)\w+", ["e\u0301", "a‿b"], ["a b"]),
    (r"\w\s", ["a ", "_\x0b"], ["é ", "a\xa0"]),
    (r"\h\v", ["\xa0\x0b"], ["ab"]),
    (r"\R", ["\r\n", "\u2029"], ["a"]),
    ("[a-z&&[^aeiou]]+", ["xyz"], ["xa", "X"]),
    ("[^a-z&&[^b]]+", ["b", "B"], ["a"]),
    ("[a-c[x-z]]+", ["ax"], ["d"]),
    ("[]a]+", ["]a"], ["b"]),
    ("[a-]+", ["a-"], ["b"]),
    (r"[\d\-_]+", ["1-_"], ["a"]),
    ("(?i)[a-c]", ["A", "b"], ["d"]),
    (r"[\p{Lu}\p{Nd}]+", ["É5"], ["é"]),
    (r"\p{Alpha}\P{Alpha}\p{L}", ["a1é"], ["é1a"]),
    (r"\p{IsAlphabetic}\pL", ["éé"], ["1a"]),
    (r"\Qa.b\E.", ["a.bc"], ["axbc"]),
    (r"\Q[\E", ["["], []),
    (r"a\.b\$", ["a.b$"], ["axb$"]),
    (r"\x41\u0042\x{43}\0104\cA", ["ABCD\x01"], []),
    (r"\0377\0400\07", ["\xff 0\x07"], []),
    (r"\ud83d\ude00", ["😀"], []),
    (r"\N{LATIN SMALL LETTER A}", ["a"], ["b"]),
    ("a{2}{3}", ["aa"], ["aaa", "aaaaaa"]),
    ("a{2,3}?b{1,}", ["aab", "aaabb"], ["ab", "aaaab"]),
    ("a*+a", [], ["aa"]),
    ("(?>a|ab)c", ["ac"], ["abc"]),
    (r"(a|b)\1", ["aa", "bb"], ["ab"]),
    (r"(a)\11", ["aa1"], ["aa"]),
    (r"\2(a)|x", ["x"], ["a"]),
    (r"(?<q>['\"])a\k<q>", ["'a'"], ["'a\""]),
    ("(?=a)[ab]|(?<!x)c", ["a", "c"], ["b"]),
    ("^a$", ["a"], ["b"]),
    (r"a$\n?", ["a", "a\n"], ["a\n\n"]),
    (r"a\Z\n|b\z", ["a\n", "b"], ["b\n"]),
    ("(?m)a$\n^b", ["a\nb"], ["ab"]),
    ("(?x) a b # c\n c", ["abc"], ["a b"]),
    (r"\bé\b", ["é"], []),
    ("}]", ["}]"], []),
    ("-&&-", ["-&&-"], []),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), _MATCHES, ids=[pattern for pattern, _, _ in _MATCHES])
def test_a_pattern_matches_as_in_java(pattern: str, yes: list[str], no: list[str]) -> None:
    compiled = compile_java(pattern)
    assert [text for text in yes if not compiled.matches(text)] == []
    assert [text for text in no if compiled.matches(text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        *("*", "+a", "a**", "a{", "a{x}", "a{2,1}", "(", ")", "a)", "(?<n>a)(?<n>b)", "(?<1>a)", "(?z)", "(?P<n>a)"),
        *(
            "[",
            "[a",
            "[z-a]",
            "[a-z&&]x[",
            "\\",
            "\\y",
            "\\x4",
            "\\u12",
            "\\08",
            "\\k<n>",
            "\\p{Nope}",
            "\\p{",
            "\\N{x}",
        ),
        *("{,2}", "a{99999999999}", "(?i", "\\c"),
    ],
)
def test_invalid_java_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(RegexError):
        compile_java(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"\X", r"\b{g}", "(?<=a+)b", r"\p{IsGreek}", r"\p{InGreek}", r"(?i)(a)\1", r"(?i)(?<n>a)\k<n>"),
        *("(" * 5 + "a+" + ")+" * 5, "(" * 10_000 + ")" * 10_000),
    ],
    ids=lambda pattern: pattern[:20],
)
def test_patterns_that_python_does_not_support_are_refused(pattern: str) -> None:
    with pytest.raises(RegexError, match=r"not supported|unsupported|does not support"):
        compile_java(pattern)


def test_ascii_names_match_themselves() -> None:
    for text in ("orders_1", "shop-a", "a b", "x/y", "tmp#1", "~"):
        assert compile_java(text).matches(text), text
        assert compile_java(re.escape(text)).matches(text), text


# --- the time of a match ----------------------------------------------------------------------------------


def test_adjacent_repeats_are_not_nested() -> None:
    assert compile_java("(?:a+b*(?:c?d{2})+)*" + "e+" * 50).matches("add" + "e" * 50)


_BOMBS = [
    *("(a+)+b", "(a|aa)+b", "(.*)*x", "((a*)*)*b", "(?:(?:a+)+)+(?<!a)", r"(a+)(a+)(a+)\1\2\3b", "(.*a){20}b"),
    *(
        "(a+a+)+b",
        "(a?){5000}a{5000}b",
        "(?=(a+)+b).*",
        "(?>(a|aa)+b)",
        "(?i)(a|A|aa)*b",
        "((a{1,300}){1,300}){1,300}b",
    ),
]


@pytest.mark.parametrize("pattern", _BOMBS)
def test_a_match_ends_within_its_time(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_regex, "_LONGEST_MATCH", 0.05)
    compile_java.cache_clear()
    compiled = compile_java(pattern)
    for text in ("a" * 10_000, "a" * 9_999, "a" * 200):
        with contextlib.suppress(SlowMatchError):
            assert not compiled.matches(text)
    compile_java.cache_clear()


def test_other_texts_match_after_a_slow_text() -> None:
    compiled = compile_java("(a|aa)+b")
    with pytest.raises(SlowMatchError):
        compiled.matches("a" * 10_000)
    assert compiled.matches("aaab")
    assert not compiled.matches("c")


class _Counted:
    """A pattern that counts its calls."""

    def __init__(self, slow: bool) -> None:
        self.slow, self.asked = slow, list[float]()

    def fullmatch(self, text: str, timeout: float) -> Any:
        self.asked.append(timeout)
        if self.slow:
            raise TimeoutError
        return text


def test_slow_texts_shorten_the_timeout() -> None:
    counted = _Counted(slow=True)
    compiled = JavaPattern(counted)
    for i in range(1_000):
        with pytest.raises(SlowMatchError):
            compiled.matches(f"text {i}")
    assert counted.asked[:3] == [1, 0.5, 0.25]
    assert sum(counted.asked) < 3.1


@pytest.mark.parametrize(("text", "asked"), [("a" * 250, []), ("a" * 251, [1.0]), ("é", [1.0])])
def test_only_a_short_text_of_ascii_is_matched_without_a_timeout(text: str, asked: list[float]) -> None:
    counted = _Counted(slow=False)
    assert JavaPattern(counted, quick=re.compile(".*")).matches(text)
    assert counted.asked == asked


@pytest.mark.parametrize("slow", [False, True])
def test_answers_are_cached_except_for_long_texts(slow: bool) -> None:
    counted = _Counted(slow)
    compiled = JavaPattern(counted)
    for text, questions in (("short", 1), ("short", 1), ("long" * 100, 2), ("long" * 100, 3)):
        try:
            assert compiled.matches(text)
        except SlowMatchError:
            assert slow
        assert len(counted.asked) == questions


def test_a_missing_package_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "regex", None)
    compile_java.cache_clear()
    with pytest.raises(MissingExtraError, match="pip install regex"):
        compile_java("a")


def test_groups_of_a_match() -> None:
    pattern = compile_java(r"db_(.*)\.(.*)_tbl(x)?")
    assert pattern.group_count == 3
    assert pattern.groups("db_foo.bar_tbl") == ("foo", "bar", None)
    assert pattern.groups("db_foo.bar") is None
    with pytest.raises(SlowMatchError):
        compile_java("(a|aa)+b").groups("a" * 10_000)
