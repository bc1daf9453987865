"""Searches with Java's regular expressions. The expected values are those of Java 17."""

from __future__ import annotations

import functools
import re

import pytest

from kvformat.registry.java import regex as java_regex
from kvformat.registry.java.regex import RegexError, SlowMatchError, UnsupportedRegexError, compile_java
from kvformat.registry.java.regex_search import (
    UnsupportedMatchError,
    as_units,
    compile_search,
    find_all,
    find_first,
    finds,
    replace_all,
    split,
    unit_count,
)


def _spans(pattern: str, text: str) -> list[tuple[int, int]]:
    return [(match.start, match.end) for match in find_all(compile_search(pattern), text)]


@pytest.mark.parametrize(
    ("pattern", "text", "spans"),
    [
        ("a*", "baac", [(0, 0), (1, 3), (3, 3), (4, 4)]),
        ("|a", "ba", [(0, 0), (1, 1), (2, 2)]),
        ("a??", "aa", [(0, 0), (1, 1), (2, 2)]),
        (r"\b", "ab c", [(0, 0), (2, 2), (3, 3), (4, 4)]),
        ("^", "a\nb", [(0, 0)]),
        ("(?m)^", "a\nb", [(0, 0), (2, 2)]),
        ("(?<=a)b", "abb", [(1, 2)]),
        ("x", "", []),
        ("", "", [(0, 0)]),
    ],
)
def test_after_an_empty_match_the_search_goes_on_one_unit_later(
    pattern: str, text: str, spans: list[tuple[int, int]]
) -> None:
    assert _spans(pattern, text) == spans


@pytest.mark.parametrize(
    ("pattern", "text", "spans"),
    [
        ("", "😀", [(0, 0), (1, 1), (2, 2)]),
        ("x*|b", "a😀b", [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]),
        (".", "😀b", [(0, 2), (2, 3)]),
        ("(?=😀)|b", "😀b", [(0, 0), (2, 3)]),
        ("(?=😀)|.", "😀b", [(0, 0), (1, 2), (2, 3)]),
    ],
)
def test_an_empty_match_may_be_within_a_character_of_two_units(
    pattern: str, text: str, spans: list[tuple[int, int]]
) -> None:
    assert _spans(pattern, text) == spans


def test_half_a_character_becomes_a_question_mark() -> None:
    empty = compile_search("")
    assert replace_all(empty, "😀", "-") == "-?-?-"
    assert replace_all(empty, "😀", "") == "😀"
    assert split(empty, "a😀") == ["a", "?", "?"]


def test_a_lookbehind_within_a_character_is_not_supported() -> None:
    for pattern in ("(?<!a)", r"\B"):
        with pytest.raises(UnsupportedMatchError):
            find_all(compile_search(pattern), "a😀")
    assert _spans("(?<=a)b", "ab😀") == [(1, 2)]


def test_a_word_boundary_beside_signs_that_java_does_not_count_is_not_supported() -> None:
    boundary = compile_search(r"\b")
    assert len(find_all(boundary, "é ß😀")) == 4
    for text in ("e\u0301", "a‿b", "Ⅷ", "ⓐ"):
        for search in (find_all, find_first, finds, split, functools.partial(replace_all, replacement="-")):
            for pattern in (boundary, compile_search(r"\b.")):
                with pytest.raises(UnsupportedMatchError):
                    search(pattern, text)


def test_the_end_of_the_previous_match_is_not_supported() -> None:
    with pytest.raises(UnsupportedRegexError):
        compile_search(r"\Ga")
    assert compile_java(r"\Ga").matches("a")


@pytest.mark.parametrize("pattern", ["[", "(", "a{2", "*"])
def test_a_text_that_java_refuses_is_no_unsupported_pattern(pattern: str) -> None:
    with pytest.raises(RegexError) as found:
        compile_search(pattern)
    assert not isinstance(found.value, UnsupportedRegexError)


@pytest.mark.parametrize(
    "pattern", [r"\X", "(?<=a+)b", r"\p{IsGreek}", r"(?U)\p{Alpha}", "[a&&&b]", "(?x)(*)", "(" * 6 + "a+" + ")+" * 6]
)
def test_a_pattern_that_only_java_supports_is_unsupported(pattern: str) -> None:
    with pytest.raises(UnsupportedRegexError):
        compile_search(pattern)


@pytest.mark.parametrize("pattern", ["(a)++", "(?=(a))", "(?>(a)|b)", "()*", "(?!(a))", "(a*)+", r"(a|\b)*"])
def test_groups_that_java_keeps_after_a_failure_are_marked(pattern: str) -> None:
    assert "KEEPS_GROUPS" in compile_search(pattern).traits


@pytest.mark.parametrize("pattern", ["(a)+", "(?:a)++", "(?=a)", "a++(b)", "(a)|(b)"])
def test_other_groups_are_not_marked(pattern: str) -> None:
    assert "KEEPS_GROUPS" not in compile_search(pattern).traits


def test_a_replacement_is_taken_as_it_is() -> None:
    assert replace_all(compile_search("a(b)"), "ab", r"\1$1\\") == r"\1$1\\"


@pytest.mark.parametrize(
    ("text", "pattern", "limit", "pieces"),
    [
        ("a,b,,", ",", 0, ["a", "b"]),
        (",a", ",", 0, ["", "a"]),
        (",,", ",", 0, []),
        ("", ",", 0, [""]),
        ("abc", "", 0, ["a", "b", "c"]),
        ("a=b=c", "=", 2, ["a", "b=c"]),
        ("abc", "", 2, ["a", "bc"]),
        ("abc", "x", 2, ["abc"]),
    ],
)
def test_split_as_java(text: str, pattern: str, limit: int, pieces: list[str]) -> None:
    assert split(compile_search(pattern), text, limit) == pieces


def test_the_groups_of_the_first_match() -> None:
    match = find_first(compile_search("(a)|(b)"), "xb")
    assert match is not None
    assert match.groups == ("b", None, "b")
    assert find_first(compile_search("b"), "😀b") == type(match)(2, 3, ("b",))
    assert finds(compile_search("b"), "ab")
    assert not finds(compile_search("^b"), "ab")


@pytest.mark.parametrize("text", ["a" * 5_000 + "c", "😀" + "a" * 5_000 + "c"])
def test_all_searches_in_a_text_together_have_the_time_of_one(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_regex, "_LONGEST_MATCH", 0.05)
    compile_java.cache_clear()
    pattern = compile_search("(a|aa)+b|(?=a)")
    with pytest.raises(SlowMatchError):
        find_all(pattern, text)
    assert pattern.seconds < 0.05
    compile_java.cache_clear()


def test_units_of_utf16() -> None:
    assert unit_count("aß😀") == 4
    assert as_units("a😀") == "a\ud83d\ude00"
    assert re.fullmatch("a..", as_units("a😀"))
