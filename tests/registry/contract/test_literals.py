r"""String literals and names with a prefix: U&'...', E'...', N'...', _UTF8'...', U&"...".

The expected texts and refusals are the answers of Flink 2.3.0 to CREATE TABLE statements with these literals as the
values of options.
"""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest

from kvformat.registry import KeyValueFormat
from kvformat.registry.contract.ddl import DdlReader, literal_text, parse_schema
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.sql.create_table import parse_create_table
from tests.support import cost


def _value(literal: str) -> str:
    return parse_create_table(f"CREATE TABLE t (a INT) WITH ('x' = {literal}, 'y' = 'z')").options["x"]


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (r"U&'\0001'", "\x01"),
        (r"u&'a\0041b\\c\00e9\4E2D'", "aAb\\cé中"),
        (r"U&'it''s'", "it's"),
        (r"U&'\0027'", "'"),
        ("U&''", ""),
        (r"U&'\D83D\DE00'", "\U0001f600"),
        ("U&'!0001!!' UESCAPE '!'", "\x01!"),
        ("U&'!0001'uescape'!'", "\x01"),
        ("U&'\\0001' -- a comment\n /* and */ UESCAPE '\\'", "\x01"),
        (r"U&'\\' UESCAPE '!'", r"\\"),
        ("U&'g0041' UESCAPE 'g'", "A"),
        ("U&'é0041' UESCAPE 'é'", "A"),
        ("U&'''0041' UESCAPE ''''", "A"),
    ],
)
def test_u_and_means_utf_16_by_four_hexadecimal_digits(literal: str, text: str) -> None:
    assert _value(literal) == text


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (r"E'\b\f\n\r\t\\'", "\b\f\n\r\t\\"),
        (r"E'\''", "'"),
        ("E''''", "'"),
        (r"e'\\\'\\\\n'", r"\'\\n"),
        (r"E'\\u0041\\x41\\101\\''x'", r"\u0041\x41\101" "\\'x"),
        (r"E'\0\1\12\123\1234\18\08'", "\0\1\nSS4\0018\0008"),
        (r"E'\377\3777\400\777\4000\8'", "ÿÿ7" r"\400\777\4000\8"),
        (r"E'\x4\x41\x414\x4g\xFF'", "\4AA4\4gÿ"),
        (r"E'\x\xg\x+1'", "xxgx+1"),
        (r"E'\u0041\u00411\u00e9'", "AA1é"),
        (r"E'\U00000041\U0001F600'", "A\U0001f600"),
        (r"E'\uD83D\uDE00'", "\U0001f600"),
        (r"""E'\a\v\N\X\"'""", r"""\a\v\N\X\""""),
        ("E'a\n\\\n\\中'", "a\n\\\n\\中"),
    ],
)
def test_e_has_escapes_as_in_c(literal: str, text: str) -> None:
    assert _value(literal) == text


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ("N'é'", "é"),
        (r"n'a\0041''b'", r"a\0041'b"),
        (r"_UTF8'中\0041'", r"中\0041"),
        ("_utf8'abc'''", "abc'"),
        ("_ISO-8859-1'é'", "é"),
        *((f"_{charset}'中'", "中") for charset in ("UTF-8", "UTF16", "UTF-16", "UTF-16LE", "UTF-16BE", "GBK", "big5")),
        ("_GB2312'é'", "é"),
    ],
)
def test_a_character_set_does_not_change_the_text(literal: str, text: str) -> None:
    assert _value(literal) == text


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ("'a' 'b' 'c'", "abc"),
        ("'a'\n -- a comment\n 'it''s'", "ait's"),
        ("'a'/* c */'b'", "ab"),
        ("N'a' 'b'", "ab"),
        (r"U&'\0041' 'b\0042'", "AbB"),
        ("U&'a' '!0041' UESCAPE '!'", "aA"),
    ],
)
def test_a_string_is_continued_by_plain_strings(literal: str, text: str) -> None:
    assert _value(literal) == text


@pytest.mark.parametrize(
    ("literal", "why"),
    [
        (r"U&'\00'", "exactly four hexadecimal digits"),
        (r"U&'hunter2\'", "exactly four hexadecimal digits"),
        (r"U&'\004g'", "exactly four hexadecimal digits"),
        (r"U&'\''41'", "exactly four hexadecimal digits"),
        (r"U&'\+01F600'", "exactly four hexadecimal digits"),  # in Flink U+001F and 600
        (r"U&'\D83D'", "half of a character"),  # Flink makes a text that is not valid
        (r"E'\DE00\uD83D'", "half of a character"),
        (r"E'\u41'", "four hexadecimal digits"),
        (r"E'\U0001F60'", "and .U eight"),
        (r"E'\U00110000'", "larger than 0010FFFF"),
        *(
            (f"U&'hunter2' UESCAPE '{escape}'", "UESCAPE needs one character")
            for escape in ("0", "a", "F", "+", '"', " ", "\t", "", "ab", "\U0001f600")
        ),
        ("U&'hunter2' UESCAPE x", "UESCAPE needs one character"),
        ("_NOPE'hunter2'", "unknown character set before the quote; known are _BIG5"),
        ("_UTF-32'hunter2'", "unknown character set"),
        ("N'hunter2中'", "only characters of ISO-8859-1"),
        ("_LATIN1'hunter2€'", "only characters of ISO-8859-1"),
        ("_ISO-8859-1'a' 'hunter2中'", "only characters of ISO-8859-1"),
        ("'hunter2' UESCAPE '!'", "expected ',' or '\\)' after"),
        ("N'hunter2' UESCAPE '!'", "expected ',' or '\\)' after"),
        ("E'hunter2' 'b'", "expected ',' or '\\)' after"),
        ("e'hunter2' 'b'", "expected ',' or '\\)' after"),
        ("'hunter2' E'b'", "expected ',' or '\\)' after"),
        ("'hunter2' U&'b'", "expected ',' or '\\)' after"),
        ("N'a' N'hunter2'", "expected ',' or '\\)' after"),
        ("U &'hunter2'", "unexpected character"),
        ("U& 'hunter2'", "unexpected character"),
        ("_UTF8 'hunter2'", "expected the value of an option"),
        ("E 'hunter2'", "expected the value of an option"),
        ('"hunter2"', "a double quote begins no string and no name"),
        ('U&"hunter2"', "expected the value of an option"),
    ],
)
def test_what_flink_refuses_is_an_error_without_the_value(literal: str, why: str) -> None:
    with pytest.raises(SchemaError, match=f"{why}.* at line 1, column ") as raised:
        _value(literal)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (r'U&"d\0061t"', "dat"),
        ('u&"a""b"', 'a"b'),
        ('U&"a`b"', "a`b"),
        ("U&\"q!0041\" UESCAPE '!'", "qA"),
        (r'U&"\D83D\DE00"', "\U0001f600"),
        ('U&"value"', "value"),  # no reserved word
        ("$a", "$a"),
        ("a$b", "a$b"),
        ("$1", "$1"),
    ],
)
def test_a_name_may_have_escapes_and_dollars(written: str, name: str) -> None:
    table = parse_create_table(
        f"CREATE TABLE db.{written} ({written} INT, r ROW<{written} INT>, x AS {written}, "
        f"PRIMARY KEY ({written}) NOT ENFORCED) PARTITIONED BY ({written})"
    )
    assert (table.short_name, table.primary_key, table.partition_keys) == (name, (name,), (name,))
    assert [column.name for column in table.columns] == [name, "r", "x"]
    assert table.columns[1].type is not None
    assert table.columns[1].type.fields[0].name == name
    assert table.columns[2].refused == ""


@pytest.mark.parametrize("written", ['U&""', 'U&"a\nb"', r'U&"\D83D"', "$", r'U&"\00"', 'U&"a" UESCAPE'])
def test_names_that_flink_refuses_are_errors(written: str) -> None:
    with pytest.raises(SchemaError, match="at line 1, column "):
        parse_create_table(f"CREATE TABLE t ({written} INT)")


def test_tokens_of_literals_are_plain() -> None:
    reader = DdlReader("a N'it''s' U&'!0041' -- c\n '!0027' UESCAPE '!' b U&\"`\" E'\\''")
    assert reader.tokens == ["a", "'it''s'", "'A'", "''''", "b", "````", "''''"]
    assert [literal_text(token) for token in reader.tokens if token[0] == "'"] == ["it's", "A", "'", "'"]
    assert [reader.text[offset] for offset in reader.offsets] == ["a", "N", "U", "'", "b", "U", "E"]


@pytest.mark.parametrize("prefix", ["N", "E", "U&", "_UTF8", "'a' "])
@pytest.mark.parametrize(
    "place",
    [
        "CREATE TABLE t (a INT COMMENT {}'c')",
        "CREATE TABLE t (a INT, b AS a COMMENT {}'c')",
        "CREATE TABLE t (a INT) COMMENT {}'c' WITH ('k' = 'v')",
        "CREATE TABLE t (a ROW<b INT {}'c'>)",
        "CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL {}'5' SECOND)",
    ],
)
def test_comments_and_intervals_are_plain_strings_as_in_flink(place: str, prefix: str) -> None:
    assert parse_create_table(place.format("")).columns
    with pytest.raises(SchemaError, match="at line 1, column "):
        parse_create_table(place.format(prefix))


def test_literals_with_a_prefix_in_keys_metadata_and_expressions() -> None:
    table = parse_create_table(
        r"CREATE TABLE t (ts TIMESTAMP(3) METADATA FROM U&'time\0073tamp' VIRTUAL, o BIGINT METADATA FROM 'off' 'set', "
        r"s STRING, x AS s || U&'\0041' || E'\'\t', y AS s LIKE U&'a!0025' UESCAPE '!') "
        r"WITH (U&'k\0041' = 'v', 'r' 's' = E'\x01', N'n' = _UTF8'中')"
    )
    assert [column.key for column in table.columns[:2]] == ["timestamp", "offset"]
    assert [column.source for column in table.columns[3:]] == ["s || 'A' || '''\t'", "s LIKE 'a%'"]
    assert table.options == {"kA": "v", "rs": "\x01", "n": "中"}


def test_a_missing_equals_sign_is_reported_after_the_name() -> None:
    with pytest.raises(SchemaError, match="expected '=' after option 'format', at line 1, column 39") as raised:
        parse_create_table("CREATE TABLE t (a INT) WITH ('format' 'hunter2')")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ("a INT /***/, b INT /* x */, c INT", ["a", "c"]),  # Calcite skips the character after /**
        ("a INT /****/, b INT /* x */, c INT", ["a", "b", "c"]),
        ("a INT /**/, b INT /* x */, c INT", ["a", "b", "c"]),
        ("a INT, b INT /*/ x */, c INT", ["a", "b", "c"]),
        ("a INT, -- x\r b INT // y\r, c INT", ["a", "b", "c"]),
    ],
)
def test_comments_end_where_flink_ends_them(columns: str, names: list[str]) -> None:
    assert parse_schema(columns).fields[-1].name == names[-1]
    assert [field.name for field in parse_schema(columns).fields] == names


@pytest.mark.parametrize(
    "literal",
    [
        "U&'" + r"\0041" * 100_000 + "'",
        "U&'" + r"\004" * 100_000 + "'",
        "E'" + r"\x41" * 100_000 + "'",
        "E'" + "\\'" * 100_001,
        "'a' " * 100_000,
        "U&'a' " + "'a' " * 100_000 + "UESCAPE '!'",
        'U&"' + '""' * 100_000,
        "_" + "a" * 100_000,
        "U&" * 100_000,
    ],
    ids=lambda literal: literal[:8],
)
def test_long_literals_are_parsed_in_linear_time(literal: str) -> None:
    with cost.at_most(5), contextlib.suppress(SchemaError):
        assert _value(literal)


def test_a_control_character_separates_the_columns_of_csv() -> None:
    """The delimiter of Flink's page "CSV Format"."""
    table = KeyValueFormat.from_ddl(
        "CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'kafka', 'topic' = 't', "
        "'properties.bootstrap.servers' = 'b:9092', 'scan.startup.mode' = 'earliest-offset', 'format' = 'csv', "
        r"'csv.field-delimiter' = U&'\0001')"
    )
    decoded = table.decode_batch(None, pa.array([b"1\x01x,y"]))
    assert decoded.rows.to_pylist() == [[{"a": 1, "b": "x,y"}]]
    assert r"U&'\\0001'" in repr(table)
    assert eval(repr(table), {"KeyValueFormat": KeyValueFormat}) == table
