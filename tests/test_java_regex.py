"""Java's regular expressions as Python's."""

from __future__ import annotations

import re

import pytest

from kvformat.codecs._changes.java_regex import RegexError, compile_java

_MATCHES: list[tuple[str, list[str], list[str]]] = [
    ("", [""], ["a"]),
    ("inv.*", ["inv", "inventory"], ["xinv", "inv\n"]),
    ("a|b(?i)c|d", ["a", "bc", "bC", "D"], ["A", "BC"]),
    ("(?i)ß|é", ["é"], ["É", "SS"]),
    ("(?iu)é", ["É", "é"], ["e"]),
    ("x(?i:y)z", ["xYz"], ["XYz"]),
    ("(?s).", ["\n"], []),
    (".", ["a", "😀"], ["\n", "\r", "\u0085", "\u2028"]),
    ("(?d).", ["\r", "\u2028"], ["\n"]),
    (r"\d+", ["12"], ["١"]),
    (r"(?U)\d+", ["12", "١"], []),
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
    assert [text for text in yes if not compiled.fullmatch(text)] == []
    assert [text for text in no if compiled.fullmatch(text)] == []


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
def test_what_is_no_pattern_in_java_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError):
        compile_java(pattern)


@pytest.mark.parametrize("pattern", [r"\X", r"\b{g}", "(?<=a+)b", r"\p{IsGreek}", r"\p{InGreek}"])
def test_what_python_cannot_do_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError, match=r"not supported|unsupported|can't do"):
        compile_java(pattern)


def test_ascii_names_mean_themselves() -> None:
    for text in ("orders_1", "shop-a", "a b", "x/y", "tmp#1", "~"):
        assert compile_java(text).fullmatch(text), text
        assert compile_java(re.escape(text)).fullmatch(text), text
