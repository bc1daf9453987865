"""Functions of regular expressions and LIKE: limits, timeouts, and what is refused."""

from __future__ import annotations

import pytest

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.java import regex as java_regex
from kvformat.registry.java.regex import compile_java
from kvformat.registry.sql.expressions import read_expression
from tests.registry.expressions.text_rows import TYPES, evaluated, failure, value
from tests.support import cost


def _refused(expression: str) -> str:
    with pytest.raises(SchemaError) as found:
        read_expression(expression, TYPES)
    return str(found.value)


@pytest.mark.parametrize(
    "expression",
    [
        *("REGEXP(s, '{}')", "REGEXP_COUNT(s, '{}')", "REGEXP_INSTR(s, '{}')", "REGEXP_SUBSTR(s, '{}')"),
        *("REGEXP_EXTRACT(s, '{}')", "REGEXP_EXTRACT_ALL(s, '{}', 0)", "REGEXP_REPLACE(s, '{}', '')"),
        *("s SIMILAR TO '{}'", "STR_TO_MAP(s, '{}', '=')", "STR_TO_MAP(s, '=', '{}')"),
    ],
)
def test_a_slow_match_fails_the_row(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_regex, "_LONGEST_MATCH", 0.05)
    compile_java.cache_clear()
    values, failures = evaluated(expression.format("(a|aa)+b"), s=["a" * 5_000, "c"])
    assert "seconds" in failures[0]
    assert list(failures) == [0]
    assert len(values) == 2
    compile_java.cache_clear()


@pytest.mark.parametrize("pattern", [r"\X", "(?<=a+)b", r"\p{IsGreek}", r"\Ga"])
def test_a_pattern_that_only_java_supports_is_refused(pattern: str) -> None:
    assert "support" in _refused(f"REGEXP(s, '{pattern}')")
    assert "support" in failure("REGEXP_EXTRACT(s, p, 0)", s="ab", p=pattern)


def test_a_text_that_is_no_pattern_is_not_refused() -> None:
    assert value("REGEXP(s, '[')", s="a") is False
    assert value("REGEXP_COUNT(s, '[')", s="a") is None
    assert "NOT NULL" in failure("REGEXP_REPLACE('a', '[', '')")


def test_groups_that_java_keeps_after_a_failure_are_refused() -> None:
    assert "groups" in _refused("REGEXP_EXTRACT(s, '(a)++', 1)")
    assert value("REGEXP_EXTRACT(s, '(a)++', 0)", s="aab") == "aa"


def test_an_index_of_a_group_wraps_around_as_javas_int() -> None:
    assert value("REGEXP_EXTRACT(s, '(a)', 4294967297)", s="a") == "a"
    assert value("REGEXP_EXTRACT_ALL(s, '(a)', 4294967297)", s="a") is None


def test_a_lookbehind_within_a_character_fails_the_row() -> None:
    assert "middle of a character" in failure("REGEXP_COUNT(s, '(?<!a)')", s="a😀")


@pytest.mark.parametrize(
    ("text", "pattern", "matches"),
    [
        ("a\nb", "a_b", False),
        ("a\nb", "a%b", True),
        ("a\u2028b", "a_b", False),
        ("a😀b", "a_b", True),
        ("aba", "ab%ba", False),
        ("abba", "ab%ba", True),
        ("", "%", True),
        ("", "", True),
        ("a", "", False),
        ("abcabd", "%a_d", True),
        ("xaybzc", "_a_b%c", True),
        ("aXbXc", "a_b%_c", True),
        ("ab", "_%_%_", False),
        (r"50\%", r"50\%", True),
    ],
)
def test_like(text: str, pattern: str, matches: bool) -> None:
    assert value("s LIKE p", s=text, p=pattern) is matches
    assert value(f"s LIKE '{pattern}'", s=text) is matches


@pytest.mark.parametrize("null", ["CAST(NULL AS STRING)", "p"])
def test_like_of_a_pattern_or_an_escape_that_is_null_is_null(null: str) -> None:
    assert value(f"s LIKE {null}", s="a") is None
    assert value(f"s LIKE 'a' ESCAPE {null}", s="a") is None
    assert value(f"s SIMILAR TO {null}", s="a") is None


@cost.at_most(2)
def test_like_with_many_percent_signs_is_fast() -> None:
    for pattern in ("%a" * 50 + "%b", "%a_" * 50 + "%b"):
        assert value("s LIKE p", s="a" * 100_000, p=pattern) is False


@pytest.mark.parametrize(
    ("pattern", "escape"), [("a!", "!"), ("!a", "!"), ("a_", ""), ("a", "ab"), ("a", "😀"), ("%%%", "%")]
)
def test_a_wrong_escape(pattern: str, escape: str) -> None:
    assert "escape" in _refused(f"s LIKE '{pattern}' ESCAPE '{escape}'")
    assert "escape" in failure(f"s LIKE p ESCAPE '{escape}'", s="a", p=pattern)


def test_an_empty_escape_is_ignored_for_a_literal_without_underscores() -> None:
    assert value("s LIKE 'a%' ESCAPE ''", s="ab") is True
    assert "escape" in failure("s LIKE p ESCAPE ''", s="ab", p="a%")


def test_escaped_signs_are_characters() -> None:
    assert value("s LIKE '!_!%!!' ESCAPE '!'", s="_%!") is True
    assert value("s LIKE 'a%%' ESCAPE '%'", s="a%") is True


@pytest.mark.parametrize(
    ("text", "pattern", "matches"),
    [
        ("abc", "a%", True),
        ("a\nb", "a%", True),
        ("", "%", True),
        ("abc", "a_c", True),
        ("a\nb", "a_b", False),
        ("xabc", "abc", False),
        ("abc", "(a|b)bc", True),
        ("aab", "a{2}b", True),
        ("aab", "a{1}b", False),
        ("$a", "$a", True),
        (r"a\b", r"a\b", True),
        ("d", "[^a-c]", True),
        ("b", "[^a-c]", False),
        ("aB1", "[[:ALPHA:]]+[[:DIGIT:]]", True),
        ("é", "[[:alpha:]]", False),
        ("Z", "[[:UPPER:]]", True),
        ("Z", "[[:lower:]]", False),
        ("z9", "[[:ALNUM:]]{2}", True),
        ("a c", "a[[:SPACE:]]c", True),
        ("a\tc", "a[[:SPACE:]]c", False),
        ("a\tc", "a[[:WHITESPACE:]]c", True),
    ],
)
def test_similar_to(text: str, pattern: str, matches: bool) -> None:
    assert value("s SIMILAR TO p", s=text, p=pattern) is matches
    assert value(f"s SIMILAR TO '{pattern}'", s=text) is matches


@pytest.mark.parametrize(("pattern", "text"), [("a!%", "a%"), ("!_!!", "_!"), ("[!-]", "-"), ("a![!]", "a[]")])
def test_escaped_signs_of_similar_to_are_characters(pattern: str, text: str) -> None:
    for given in (f"'{pattern}'", "p"):
        expression = f"s SIMILAR TO {given} ESCAPE '!'"
        assert evaluated(expression, s=[text, "ab", pattern], p=[pattern] * 3) == ([True, False, False], {})


@pytest.mark.parametrize(
    ("pattern", "escape", "why"),
    [
        *(("a]", "", "at character 2"), ("[a", "", "at character 3"), ("[(]", "", "at character 2")),
        *(("a!", "!", "at character 3"), ("a!b", "!", "at character 3"), ("(", "", "unclosed group")),
        *(("a", "ab", "escape"), ("a", "😀", "escape"), ("a%b", "%", "wrong"), ("a", ":", "wrong")),
    ],
)
def test_a_wrong_pattern_of_similar_to(pattern: str, escape: str, why: str) -> None:
    end = escape and f" ESCAPE '{escape}'"
    assert why in _refused(f"s SIMILAR TO '{pattern}'{end}")
    assert why in failure(f"s SIMILAR TO p{end}", s="a", p=pattern)
