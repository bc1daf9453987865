"""Functions of JSON: limits of documents, what is refused, and texts that are not valid."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import MAX_LENGTH, FlinkType
from kvformat.registry.expressions.functions import json_documents
from kvformat.registry.expressions.functions.json_documents import JsonError, read_json, write_json
from kvformat.registry.expressions.functions.json_paths import Failed, Unsupported, compile_path, find
from kvformat.registry.expressions.rows import Rows, Session
from kvformat.registry.sql.expressions import read_expression
from tests.support import cost

_TEXT = FlinkType("VARCHAR", length=MAX_LENGTH)
_TYPES = {"j": _TEXT, "p": _TEXT, "dt": FlinkType("DATE"), "i": FlinkType("INT")}
_ARROW = {"j": pa.string(), "p": pa.string(), "dt": pa.date32(), "i": pa.int32()}


def _evaluated(expression: str, **columns: list[Any]) -> tuple[list[Any], dict[int, str]]:
    length = max(map(len, columns.values()), default=1)
    arrays = {name: pa.array(columns.get(name, [None] * length), type_) for name, type_ in _ARROW.items()}
    rows = Rows(arrays, _TYPES, length, Session())
    return read_expression(expression, _TYPES).evaluate(rows).array().to_pylist(), rows.failures


def _value(expression: str, text: str | None) -> Any:
    values, failures = _evaluated(expression, j=[text])
    assert failures == {}
    return values[0]


def _refused(expression: str) -> str:
    with pytest.raises(SchemaError) as found:
        read_expression(expression, _TYPES)
    return str(found.value)


def _nested(levels: int, opening: str = "[", closing: str = "]", inner: str = "") -> str:
    return opening * levels + inner + closing * levels


# --- limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [_nested(100_000), "[" * 100_000, _nested(100_000, '{"a":', "}", "1"), '{"a":' * 100_000]
)
def test_a_document_of_100000_levels_is_an_error_of_the_row(text: str) -> None:
    assert _value("JSON_VALUE(j, '$.a')", text) is None
    assert _value("JSON_VALUE(j, '$.a' DEFAULT 'e' ON ERROR)", text) == "e"
    assert _value("JSON_VALUE(j, 'lax $.a' DEFAULT 'd' ON EMPTY)", text) == "d"
    assert _value("JSON_QUERY(j, '$[0]')", text) is None
    assert _value("j IS JSON", text) is False
    assert list(_evaluated("JSON_VALUE(j, '$.a' ERROR ON ERROR)", j=['{"a": 1}', text])[1]) == [1]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_document_has_at_most_1000_levels(opening: str, closing: str) -> None:
    assert _value("j IS JSON", _nested(1000, opening, closing, "1")) is True
    assert _value("j IS JSON", _nested(1001, opening, closing, "1")) is False
    assert _value("j IS JSON", f"[{','.join(['[]'] * 5000)}]") is True
    assert _value("j IS JSON", f'["{"[" * 5000}"]') is True
    assert _value("j IS JSON", "[1] " + "[" * 5000) is True  # nothing after the value counts
    assert _value("JSON_STRING(j)", "[" * 5000) == f'"{"[" * 5000}"'


def test_a_wrapper_may_have_one_level_too_many_around_objects_only() -> None:
    arrays, objects = _nested(1000), _nested(1000, '{"a":', "}", "1")
    assert _value("JSON_QUERY(j, '$')", arrays) == arrays
    assert _value("JSON_QUERY(j, '$' WITH WRAPPER EMPTY OBJECT ON ERROR)", arrays) == "{}"
    assert _value("JSON_QUERY(j, '$' WITH WRAPPER)", objects) == f"[{objects}]"


@pytest.mark.parametrize(
    ("digits", "valid"),
    [("1" * 1000, True), ("1" * 1001, False), ("-" + "1" * 1000, True), ("1" * 500 + "." + "1" * 500 + "e1", False)],
)
def test_a_number_has_at_most_1000_digits(digits: str, valid: bool) -> None:
    for text in (digits, f"[{digits}]", f'{{"a": "x", "b": {digits} }}', f"[{'1,' * 3000}{digits}]"):
        assert _value("j IS JSON", text) is valid


def test_a_name_has_at_most_50000_units_of_utf16() -> None:
    for unit, size in (("n", 1), ("é", 1), ("😀", 2), ('\\"', 1), ("\\u0041", 1)):
        for count, valid in ((50_000, True), (50_001, False)):
            name = unit * (count // size) + "x" * (count % size)
            assert _value("j IS JSON", f'{{"{name}": 1, "a": 2}}') is valid, (unit, count)
    assert _value("JSON_VALUE(j, '$.a')", f'{{"b": "{"v" * 100_000}", "a": 2}}') == "2"


def test_a_string_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_documents, "_MOST_STRING", 60_000)
    assert _value("j IS JSON", f'["{"x" * 60_000}"]') is True
    assert _value("j IS JSON", f'["{"x" * 60_001}"]') is False


@pytest.mark.parametrize("end", ["", "x" * 2000])
def test_after_a_word_or_number_alone_there_is_a_sign_that_ends_it(end: str) -> None:
    """Also in a long text, which is read in another way."""
    for text in ("true", "null ", "false,", "true-", "1 ", "-1.5\n", '"a"x', "{}x", "[1]x"):
        assert _value("j IS JSON", f"{text} {end}" if end else text) is True, text
    for text in ("truex", "null1", "false_", "true\u00e9", "nul", "1x", "1,", "-1.5}"):
        assert _value("j IS JSON", text + end) is False, text


@pytest.mark.parametrize("number", ["1e2147483648", "1e-2147483648", "0e99999999999", "0.1e-2147483647"])
def test_an_exponent_that_does_not_fit_32_bits_spoils_the_document(number: str) -> None:
    assert _value("JSON_VALUE(j, '$.a')", f'{{"a": 1, "b": {number}}}') is None


@pytest.mark.parametrize(
    "text",
    ["[" * 2_000_000, '"' * 2_000_000, '["' + "\\" * 2_000_000, "1" * 2_000_000, "[" + "1," * 700_000, " " * 2_000_000,
     '{"a":' * 400_000, '["' + '\\"' * 1_000_000, "[" + "{}," * 500_000 + "1]", '{"' + "n" * 2_000_000],
)  # fmt: skip
def test_reading_takes_linear_time(text: str) -> None:
    with cost.at_most(10):
        _value("JSON_QUERY(j, '$')", text)


# --- texts that are not valid --------------------------------------------------------------------------------

_PIECES = '{}[]",:\\0123456789.eE+-truefalsn \t\n\x00\x01é😀ud8'


def _random_value(random_: random.Random, depth: int = 0) -> Any:
    kind = random_.random()
    if depth > 4 or kind < 0.4:
        return random_.choice([1, 0, -5, 2.5, 1e20, True, None, "x", "é", "😀", "a\nb", "\\", '"', 10**25])
    if kind < 0.7:
        return [_random_value(random_, depth + 1) for _ in range(random_.randrange(4))]
    return {random_.choice("abé"): _random_value(random_, depth + 1) for _ in range(random_.randrange(4))}


def _mutated(random_: random.Random, text: str) -> str:
    for _ in range(random_.randrange(4)):
        at, piece = random_.randrange(len(text) + 1), random_.choice(_PIECES)
        text = text[:at] + random_.choice([piece + text[at:], text[at + 1 :], piece + text[at + 1 :]])
    return text


def _random_texts(seed: int, count: int) -> list[str]:
    random_ = random.Random(seed)
    texts = [json.dumps(_random_value(random_), ensure_ascii=random_.random() < 0.5) for _ in range(count)]
    return [_mutated(random_, text) for text in texts]


def _outcome(read: Any, *arguments: Any) -> str:
    try:
        return repr(read(*arguments))
    except JsonError:
        return "not valid"


def test_both_readers_agree_on_random_texts() -> None:
    for text in _random_texts(1, 4000):
        start = len(text) - len(text.lstrip(" \t\n\r"))
        assert _outcome(read_json, text) == _outcome(json_documents._read_step_by_step, text, start), text


def test_both_writers_agree_on_random_values() -> None:
    random_ = random.Random(2)
    for _ in range(2000):
        value = _random_value(random_)
        value = read_json(json.dumps(value))
        assert write_json(value) == json_documents._write_step_by_step(value)


@pytest.mark.parametrize(
    "expression",
    ["JSON_VALUE(j, '$.a[0]')", "JSON_VALUE(j, 'lax $.a')", "JSON_QUERY(j, '$..a' WITH WRAPPER)",
     "JSON_QUERY(j, '$[*]' RETURNING ARRAY<STRING>)", "JSON_EXISTS(j, '$.a.b')", "j IS JSON OBJECT", "JSON_UNQUOTE(j)",
     "JSON_QUOTE(j)", "JSON_STRING(j)", "JSON_VALUE(j, p)", "JSON_QUERY(j, p)", "JSON_VALUE(j, '$' RETURNING DOUBLE)"],
)  # fmt: skip
def test_random_texts_and_paths_never_crash_a_function(expression: str) -> None:
    texts = _random_texts(3, 1500)
    random_ = random.Random(4)
    paths = ["$.a", "$[0]['b']", "lax $..a", "$.*", "$[1:]", "$.a.length()", "strict $[?(@.a)]", "$['a','b']", "$["]
    values, _ = _evaluated(expression, j=texts, p=[_mutated(random_, random_.choice(paths)) for _ in texts])
    assert len(values) == len(texts)


def test_random_paths_compile_or_are_refused() -> None:
    random_ = random.Random(5)
    pieces = [
        "$",
        "@",
        ".",
        "..",
        "[",
        "]",
        "*",
        "a",
        "'a'",
        '"b"',
        "0",
        "-1",
        ":",
        ",",
        "?",
        "(",
        ")",
        " ",
        "\\",
        "\\u",
        "é",
    ]
    for _ in range(5000):
        path = "".join(random_.choices(pieces, k=random_.randrange(1, 9)))
        try:
            found = find(compile_path(path))('{"a": [1, {"b": 2}]}')
        except Unsupported:
            continue
        assert isinstance(found, Failed | int | str | list | dict | None)


# --- values and paths ----------------------------------------------------------------------------------------


def test_a_name_that_the_text_does_not_have_is_missing_without_reading_it() -> None:
    strict, lax = "JSON_VALUE(j, '$.name' DEFAULT 'e' ON ERROR)", "JSON_VALUE(j, 'lax $.name' DEFAULT 'd' ON EMPTY)"
    for text in ('{"a": 1}', "{", "", "null", '{"a": "name"}'):
        assert _value(strict, text) == "e"
    assert [_value(lax, text) for text in ('{"a": 1}', "{", "", " null", "nul")] == ["d", "d", "d", None, "d"]
    assert _value(strict, '{"\\u006eame": 1}') == "1"


def test_the_first_wrong_character_of_a_text_is_counted_from_1() -> None:
    _, failures = _evaluated("JSON_VALUE(j, '$.a' ERROR ON ERROR)", j=['{"a" 1}'])
    assert failures[0].endswith("at character 6")


@pytest.mark.parametrize(
    "behaviors", ["DEFAULT 'm' ON EMPTY DEFAULT 'e' ON ERROR", "DEFAULT 'e' ON ERROR DEFAULT 'm' ON EMPTY"]
)
def test_the_defaults_of_a_missing_value_and_of_an_error_are_in_any_order(behaviors: str) -> None:
    for path, text, found in (
        ("lax $.a", '{"a": 1}', "1"), ("lax $.a", "{}", "m"), ("lax $.a", '{"a": []}', "m"), ("strict $.a", "{}", "e"),
        ("strict $.a", '{"a": []}', "e"),
    ):  # fmt: skip
        assert _value(f"JSON_VALUE(j, '{path}' {behaviors})", text) == found


def test_a_default_is_written_as_a_text_and_null_of_a_type_is_every_result() -> None:
    assert _value("JSON_VALUE(j, '$.a' DEFAULT 1.50 ON ERROR)", "{}") == "1.50"
    assert _value("JSON_VALUE(j, '$.a' DEFAULT CAST(NULL AS STRING) ON ERROR)", '{"a": 1}') is None


def test_a_single_value_of_json_query_is_empty_or_an_error_by_the_mode() -> None:
    for mode, found in (("lax", "[]"), ("strict", "{}")):
        query = f"JSON_QUERY(j, '{mode} $.a' EMPTY ARRAY ON EMPTY EMPTY OBJECT ON ERROR)"
        assert _value(query, '{"a": 1}') == found


def test_only_the_result_of_a_literal_is_cut_to_the_returned_type() -> None:
    assert _value("JSON_VALUE('{\"a\": \"xyz\"}', '$.a' RETURNING VARCHAR(2))", None) == "xy"
    assert _value("JSON_VALUE(j, '$.a' RETURNING VARCHAR(2))", '{"a": "xyz"}') == "xyz"


def test_a_path_that_is_null_gives_null() -> None:
    for path in ("CAST(NULL AS STRING)", "p"):
        assert _value(f"JSON_VALUE(j, {path})", '{"a": 1}') is None


def test_a_returned_double_has_no_negative_zero() -> None:
    assert str(_value("JSON_VALUE(j, '$.a' RETURNING DOUBLE)", '{"a": -0.0}')) == "0.0"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('"a\\n"', "a\n"), ('"a" b', '"a" b'), ('[1] "x"', '[1] "x"'), ('"a" \\"', 'a" \\'), ('"a" \\q"', '"a" \\q"'),
    ],
)  # fmt: skip
def test_a_text_after_the_json_is_unquoted_too_if_quotes_are_at_both_ends(text: str, plain: str) -> None:
    assert _value("JSON_UNQUOTE(j)", text) == plain


def test_an_escape_to_unquote_needs_four_digits() -> None:
    assert "four digits" in _evaluated("JSON_UNQUOTE(j)", j=['"a" \\u12"'])[1][0]


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("lax$.a", '{"lax$": {"a": 1}}', 1),  # a mode has a blank after it
        ('$["a","b"]', '{"a": {"c": 1}, "b": {"c": 2}}', {"a": {"c": 1}, "b": {"c": 2}}),
        ('$["a","b"].c', '{"a": {"c": 1}, "b": {"c": 2}}', [1, 2]),
        ("$..a", '{"x": {"a": 1}, "a": 2, "y": [{"a": 3}]}', [2, 1, 3]),
        ('$..["a","b"]', '{"a": 1, "c": {"a": 2, "b": 3}}', [{"a": 2, "b": 3}]),
        # Java's Double.MAX_VALUE and MIN_VALUE, with which the functions begin
        ("$.min()", "[1e400]", 1.7976931348623157e308),
        ("$.max()", "[-1, -2]", 5e-324),
        ("$.stddev()", "[0.1, 0.1, 0.1]", "NaN"),
        ("$.sum()", f"[-1{'0' * 400}]", "-Infinity"),
        ("$.sum()", '[true, 1, "1"]', 1.0),
    ],
)
def test_a_path_leads_to_members_and_results_of_functions(path: str, text: str, found: Any) -> None:
    assert json.loads(_value(f"JSON_QUERY(j, '{path}' WITH WRAPPER)", text)) == [found]


def test_half_a_character_becomes_a_question_mark() -> None:
    assert _value("JSON_VALUE(j, '$.a')", '{"a": "x\\ud83dy"}') == "x?y"
    assert _value("JSON_QUERY(j, '$')", '["\\ude00"]') == '["?"]'
    assert _value("JSON_VALUE(j, '$[\"\\ud83d\"]')", '{"\\ud83d": 1}') == "1"


def test_objects_are_written_in_the_order_of_utf16() -> None:
    text = '{"\\uffff": 1, "😀": 2, "b": "\\u001f\\u007f/", "a": 1.50E2}'
    assert _value("JSON_QUERY(j, '$')", text) == '{"a":150,"b":"\\u001F\x7f/","😀":2,"\uffff":1}'.replace("150", "150")


def test_a_path_of_a_column_that_is_not_supported_fails_only_its_row() -> None:
    values, failures = _evaluated("JSON_VALUE(j, p)", j=['{"a": 1}'] * 3, p=["$.a", "$[?(@.a)]", "$["])
    assert values == ["1", None, None]
    assert list(failures) == [1]


def test_a_step_that_leads_to_nothing_ends_its_path() -> None:
    """Also a strict path, whose next step then has no value that it must fit."""
    assert _value("JSON_QUERY(j, 'strict $[5][*][0,1]' WITH WRAPPER)", "[]") == "[[]]"
    assert _value("JSON_QUERY(j, 'strict $[0][*][0,1]' WITH WRAPPER)", "[[[7, 8]]]") == "[[7,8]]"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$[-3]", "[7]"), ("$[-4]", None), ("$[2]", "[9]"), ("$[3]", None), ("$[-3, -4]", "[7]"), ("$[2, 3]", "[9]"),
        ("$[-3:]", "[7,8,9]"), ("$[-4:]", "[7,8,9]"), ("$[2:]", "[9]"), ("$[3:]", "[]"), ("$[:-2]", "[7]"),
        ("$[:-3]", "[]"), ("$[:3]", "[7,8,9]"), ("$[:4]", "[7,8,9]"), ("$[-4:1]", "[7,8,9,7]"),
    ],
)  # fmt: skip
def test_an_index_counts_from_the_first_or_the_last_element_of_an_array(path: str, found: str | None) -> None:
    assert _value(f"JSON_QUERY(j, '{path}' WITH CONDITIONAL WRAPPER)", "[7, 8, 9]") == found


def test_a_path_has_a_limit() -> None:
    assert "10,000 characters" in _refused(f"JSON_VALUE(j, '$.{'a' * 10_001}')")
    assert _value(f"JSON_VALUE(j, '$.{'a.' * 4000}b')", "{}") is None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_double_that_is_no_number_is_a_text(number: str) -> None:
    assert _value("JSON_ARRAY(CAST(j AS DOUBLE), 1)", number) == f'["{number}",1]'
    assert _value("JSON_STRING(CAST(j AS DOUBLE))", number) == f'"{number}"'


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_sum_that_is_infinite_is_a_text(sign: str) -> None:
    query = "JSON_QUERY(j, '$.sum()' WITH WRAPPER)"
    assert _value(query, f"[{sign}1e308, {sign}1e308]") == f'["{sign}Infinity"]'


def test_a_timestamp_after_the_year_9999_fails_its_row() -> None:
    values, failures = _evaluated("JSON_STRING(TO_TIMESTAMP(j, 'u'))", j=["9999", "10000"])
    assert values == ['"9999-01-01T00:00:00"', None]
    assert "the years 1 to 9999" in failures[1]


def test_members_that_are_json_are_not_quoted_again() -> None:
    assert _value("JSON_ARRAY(JSON_ARRAY(j), j)", "x") == '[["x"],"x"]'
    assert _value("JSON_ARRAY(JSON_STRING(j))", "x") == '["\\"x\\""]'


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("JSON_QUERY(j, '$.a[?(@.b == 1)]')", "filter"),
        ("JSON_VALUE(j, '$.a.keys()')", "function keys()"),
        ("JSON_VALUE(j, '$.a.sum($.b)')", "function sum()"),
        ("JSON_VALUE(j, '$.a.length().b')", "not its end"),
        ("JSON_QUERY(j, '$..a..b')", "two deep scans"),
        ("JSON_QUERY(j, '$..[0].a')", "deep scan"),
        ("JSON_QUERY(j, '$[\u0661]')", "ASCII"),
        ("JSON_VALUE(j, '$.a' RETURNING BIGINT)", "RETURNING BIGINT"),
        ("JSON_VALUE(j, '$.a' DEFAULT p ON EMPTY)", "literal"),
        ("JSON_VALUE(j, '$.a' DEFAULT DATE '2024-01-02' ON ERROR)", "DEFAULT of DATE"),
        ("JSON_QUERY(j, '$.a' RETURNING ARRAY<INT>)", "ARRAY<STRING>"),
        ("JSON_QUERY(j, '$.a' RETURNING ARRAY<STRING> EMPTY OBJECT ON ERROR)", "EMPTY OBJECT"),
        ("JSON_EXISTS(j, p)", "literal"),
        ("JSON_VALUE(i, '$.a')", "must be a text"),
        ("JSON_VALUE(NULL, '$.a')", "must be a text"),
        ("i IS JSON", "only a text"),
        ("JSON_STRING(dt)", "cast it"),
        ("JSON_STRING(MAP[1, 'a'])", "must be texts"),
        ("JSON_ARRAY(NULL)", "NULL"),
        ("JSON_OBJECT(j VALUE 1)", "a text in quotes"),
    ],
)
def test_what_can_not_be_computed_is_refused(expression: str, reason: str) -> None:
    assert reason in _refused(expression)
