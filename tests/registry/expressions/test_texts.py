"""Functions of texts: limits, halves of characters, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.expressions.rows import MOST_CHARACTERS, PER_CHARACTER
from kvformat.registry.sql.expressions import read_expression
from tests.registry.expressions.text_rows import TYPES, evaluated, failure, value


def _refused(expression: str) -> str:
    with pytest.raises(SchemaError) as found:
        read_expression(expression, TYPES)
    return str(found.value)


_LONG = "a" * 3000


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("REPEAT(s, i)", {"s": "ab", "i": 2**31 - 1}),
        ("LPAD(s, i, 'x')", {"s": "ab", "i": 2**31 - 1}),
        ("RPAD(s, i, 'x')", {"s": "ab", "i": 2**31 - 1}),
        ("REPLACE(s, 'a', s)", {"s": _LONG}),
        ("REPLACE(s, '', s)", {"s": _LONG}),
        ("REGEXP_REPLACE(s, 'a', s)", {"s": _LONG}),
        ("ARRAY_JOIN(SPLIT(s, ''), s)", {"s": _LONG}),
        ("PRINTF(s, 1.5e0)", {"s": "%.99999f"}),
        ("PRINTF(s, 'ab')", {"s": "%1$9999s" * 200}),
        ("CAST(s AS CHAR(99999999))", {"s": "ab"}),
        ("CAST(s AS BINARY(99999999))", {"s": "ab"}),
    ],
)
def test_a_text_that_is_much_longer_than_its_arguments_fails_the_row(expression: str, values: dict[str, Any]) -> None:
    assert "are computed" in failure(expression, **values)


def test_a_constant_format_with_a_width_that_is_too_large_is_refused() -> None:
    assert "are computed" in _refused("PRINTF('%99999s', s)")


def test_the_longest_text_that_a_function_makes() -> None:
    most = MOST_CHARACTERS + PER_CHARACTER
    assert len(value("REPEAT(s, i)", s="a", i=most)) == most
    assert failure("REPEAT(s, i)", s="a", i=most + 1)
    assert len(value("REPLACE(s, 'a', 'bbbbb')", s="a" * 200_000)) == 1_000_000


def test_halves_of_characters_become_question_marks() -> None:
    assert value("LPAD(s, 3, '😀')", s="ab") == "?ab"
    assert value("OVERLAY(s PLACING 'x' FROM 1 FOR 1)", s="😀") == "x?"
    assert value("REPLACE(s, '', '-')", s="😀") == "-?-?-"
    assert value("SPLIT(s, '')", s="a😀") == ["a", "?", "?"]


def test_a_cast_of_bytes_to_a_text_counts_units() -> None:
    for type_, text in {"VARCHAR(1)": "?", "VARCHAR(2)": "😀", "CHAR(3)": "😀 ", "CHAR(1)": "?"}.items():
        assert value(f"CAST(x AS {type_})", x="😀".encode()) == text


def test_a_negative_result_of_javas_int_is_no_position() -> None:
    assert value("LOCATE('a', s, i)", s="aa", i=-(2**31)) == 0
    assert "int" in failure("OVERLAY(s PLACING 'x' FROM 2 FOR 2147483647)", s="abc")
    assert "INSTR" in failure("INSTR(s, 'a', i)", s="abc", i=-(2**31))
    assert "INSTR" in failure("INSTR(s, 'a', 1, i)", s="abc", i=0)


@pytest.mark.parametrize("expression", ["LPAD(s, n, 'x')", "SUBSTRING(s, n)", "REPEAT(s, n)", "LOCATE('a', s, n)"])
def test_a_bigint_does_not_compile_in_flink(expression: str) -> None:
    assert "must be an INT" in _refused(expression)


@pytest.mark.parametrize(
    "expression", ["UPPER(NULL)", "LPAD(s, 5, NULL)", "CONCAT(s, NULL)", "TRANSLATE(s, NULL, 'a')"]
)
def test_a_null_without_a_type_is_refused(expression: str) -> None:
    assert "CAST(NULL AS STRING)" in _refused(expression)


@pytest.mark.parametrize(
    "expression",
    [
        *("UNHEX(NULL)", "PRINTF(NULL, s)", "SPLIT(s, NULL)", "BTRIM(s, NULL)", "URL_ENCODE(NULL)", "URL_DECODE(NULL)"),
        *("REGEXP_COUNT(s, NULL)", "REGEXP_INSTR(s, NULL)", "REGEXP_SUBSTR(s, NULL)", "REGEXP_EXTRACT_ALL(s, NULL)"),
        *("INET_ATON(NULL)", "INET_NTOA(NULL)", "STARTSWITH(s, NULL)", "ENDSWITH(s, NULL)"),
    ],
)
def test_other_functions_take_a_null_without_a_type(expression: str) -> None:
    assert value(expression, s="a") is None


def test_null_of_literals_fails_because_its_type_is_not_null() -> None:
    for function in ("LPAD", "RPAD"):
        assert "NOT NULL" in failure(f"{function}('a', 3, '')")
        assert evaluated(f"{function}(s, 3, '')", s=["a"]) == ([None], {})


def test_characters_to_trim_that_are_computed() -> None:
    assert value("BTRIM(s, p)", s=" ab ", p=" b") == "a"
    assert value("BTRIM(s, CONCAT(' ', 'b'))", s=" ab ") == "a"
    for characters in ("", " b"):
        assert "TRIM" in failure("BTRIM(s, CONCAT(p, ''))", s=" ab ", p=characters)
    assert value("BTRIM(s, CONCAT(p, ''))", s=" ab ", p="b ") == "a"


def test_the_upper_case_of_a_constant_that_becomes_longer_is_refused() -> None:
    assert "longer" in _refused("UPPER('ßa')")
    assert "longer" in _refused("UPPER('ß' || 'a')")
    assert value("UPPER('😀a')") == "😀A"
    assert value("UPPER(s)", s="ßa") == "SSA"


def test_a_sigma_beside_a_digit_fails_the_row() -> None:
    assert "LOWER" in failure("LOWER(s)", s="Α1Σ")


def test_a_delimiter_that_is_not_a_pattern_fails_only_rows_with_text() -> None:
    values, failures = evaluated("STR_TO_MAP(s, '[', '=')", s=["", None, "a"])
    assert values == [[], None, None]
    assert list(failures) == [2]


def test_a_delimiter_that_only_java_supports_is_refused() -> None:
    assert "not supported" in _refused(r"STR_TO_MAP(s, '\X', '=')")
    assert "not supported" in failure("STR_TO_MAP(s, p, '=')", s="a", p=r"\X")


def test_a_map_has_the_order_of_javas_hash_map() -> None:
    keys = ["a", "b", "c", "zz", "aaa", "BB", "Aa", "hello", "world", "foo", "bar", "baz", "q"]
    found = [key for key, _ in value("STR_TO_MAP(s)", s=",".join(keys))]
    assert found == ["zz", "aaa", "BB", "Aa", "a", "b", "c", "foo", "q", "bar", "world", "baz", "hello"]


@pytest.mark.parametrize("delimiter", ["','", "'[,]'", "p"])
def test_only_empty_pieces_at_the_end_of_a_text_make_no_keys(delimiter: str) -> None:
    for text, pairs in {
        "a=1,,,": {"a": "1"}, ",,": {}, ",a=1,,b": {"": None, "a": "1", "b": None}, "=1,b=": {"": "1", "b": ""},
    }.items():  # fmt: skip
        assert dict(value(f"STR_TO_MAP(s, {delimiter}, '=')", s=text, p=",")) == pairs


def test_too_many_keys_in_a_bucket_fail_the_row() -> None:
    keys = [a + b + c + d for a in ("Aa", "BB") for b in ("Aa", "BB") for c in ("Aa", "BB") for d in ("Aa", "BB")]
    assert "bucket" in failure("STR_TO_MAP(s)", s=",".join(keys))


def test_a_separator_may_be_the_number_of_a_character_from_1_to_255() -> None:
    for code, piece in {0: None, 1: "b", 44: "b", 255: "b", 256: None}.items():
        assert value(f"SPLIT_INDEX(s, {code}, 1)", s=f"a{chr(code)}b") == piece
        assert value("SPLIT_INDEX(s, i, 1)", s=f"a{chr(code)}b", i=code) == piece


def test_an_index_of_elt_that_is_not_an_int_fails_in_its_range() -> None:
    assert evaluated("ELT(n, s)", n=[1, 2], s=["a", "b"])[1].keys() == {0}
    assert "negative" in _refused("ELT(-1, s)")


def test_concat_keeps_rows_without_texts() -> None:
    assert evaluated("CONCAT_WS(',', s, p)", s=[None, "a"], p=[None, None]) == (["", "a"], {})
    assert evaluated("CONCAT(s, p)", s=[None, "a"], p=["b", "b"]) == ([None, "ab"], {})


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("PRINTF('%s', x)", "CAST it to STRING"),
        ("PRINTF('%h', s)", "not supported"),
        ("PRINTF('%tY', n)", "not supported"),
        ("STARTSWITH(s, x)", "both"),
        ("ELT(1, s, x)", "either"),
        ("ENCODE(s, 'nope')", "charset"),
        ("SHA2(s, 1)", "224"),
        ("SHA2(x, i)", "literal"),
    ],
)
def test_what_flink_or_this_library_cannot_compute_is_refused(expression: str, why: str) -> None:
    assert why in _refused(expression)


def test_formats_in_columns_fail_the_row() -> None:
    assert "not supported" in failure("PRINTF(p, s)", p="%h", s="a")
    assert value("PRINTF(p, s)", p="%d", s="a") is None


def test_a_charset_in_a_column() -> None:
    values, failures = evaluated("ENCODE(s, p)", s=["é", "é", None], p=["latin1", "nope", "nope"])
    assert values == [b"\xe9", None, None]
    assert list(failures) == [1]


@pytest.mark.parametrize("number", ["CAST(NULL AS INT)", "i"])
def test_a_digest_of_no_number_of_bits_is_null(number: str) -> None:
    assert value(f"SHA2(s, {number})", s="a") is None
    assert value("SHA2(x, CAST(NULL AS INT))", x=b"a") is None


def test_of_two_failures_of_a_row_the_first_is_the_reason() -> None:
    assert "'x'" in failure("CAST(s AS INT) + CAST(p AS INT)", s="x", p="y")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("TRIM(LEADING 'a' FROM s)", "TRIM(TRAILING 'a' FROM s)"),
        ("CAST(s AS CHAR(1))", "CAST(s AS CHAR(2))"),
        ("SUBSTRING(s, 1)", "SUBSTRING(s, 1, 1)"),
        ("s || 'a'", "s || 'b'"),
        ("i + 1", "i + 2"),
        ("UUID()", "UUID()"),
    ],
)
def test_calls_are_the_same_only_if_all_their_parts_are(left: str, right: str) -> None:
    for sign, same in {"=": False, "<>": True, "IS NOT DISTINCT FROM": False, "IS DISTINCT FROM": True}.items():
        assert value(f"{left} {sign} {right}", s="ab", i=1) is same


def test_uuids_differ() -> None:
    values, _ = evaluated("UUID()", s=["a", "b"])
    assert len(set(values)) == 2
    assert {len(one) for one in values} == {36}


_KINDS = {
    "IS_ALPHA": {"ab", "é", "NaN", "x"},
    "IS_DIGIT": {"1", "１", "9" * 40},
    "IS_DECIMAL": {"1", "１", "9" * 40, "1.5", "-1", "+1", "1e3", "1d", "NaN", " 1 ", "0x1p3", "1e999"},
}


@pytest.mark.parametrize("function", _KINDS)
def test_kinds_of_texts(function: str) -> None:
    """A decimal is what Java's `Double.parseDouble` reads; a letter or digit is one unit of UTF-16."""
    texts = [None, "", "a1", "😀", "𝟏", "²", "1_0", "１.5", "-", ".", "1e", "0x1", *set().union(*_KINDS.values())]
    values, failures = evaluated(f"{function}(s)", s=texts)
    assert ({text for text, found in zip(texts, values, strict=True) if found}, failures) == (_KINDS[function], {})
    assert None not in values


@pytest.mark.parametrize(
    ("function", "types"),
    [
        ("IS_ALPHA", []),
        ("IS_DIGIT", ["TINYINT", "INT", "BIGINT"]),
        ("IS_DECIMAL", ["TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE"]),
    ],
)
def test_the_kind_of_a_number_is_that_of_its_type_also_for_null(function: str, types: list[str]) -> None:
    for type_ in ("TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(3, 0)"):
        assert evaluated(f"{function}(CAST(n AS {type_}))", n=[1, None]) == ([type_ in types] * 2, {}), type_
