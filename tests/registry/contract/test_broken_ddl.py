"""Broken, hostile and huge CREATE TABLE statements: errors show no secrets, and parsing takes linear time."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from kvformat.registry import KeyValueFormat, get_format
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.errors import ConfigurationError, OptionError, SchemaError
from kvformat.registry.contract.types import FlinkField, FlinkType
from kvformat.registry.sql.create_table import parse_create_table
from tests.support import cost

_SECRETS = ("hunter2", "Tr0ub4dor", "c0rrecthorse")
_TABLE = """
CREATE TABLE orders (
  id BIGINT NOT NULL COMMENT 'it''s the key', -- the order's number
  `price` DECIMAL(10, 2), r ROW<a INT, `at` TIMESTAMP(3) WITH LOCAL TIME ZONE>,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  total AS price * 2 + r.a, label AS UPPER('x''y') || CAST(id AS STRING),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) COMMENT 'orders' WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'broker:9092',
  'properties.sasl.jaas.config' = 'org.apache.kafka.PlainLoginModule required username="u" password="hunter2";',
  'properties.ssl.key.password' = 'Tr0ub4dor', 'scan.startup.mode' = 'earliest-offset',
  'format' = 'avro-confluent', 'avro-confluent.url' = 'http://me:c0rrecthorse@registry:8081'
)"""
_PIECES = [
    "'",
    "'",
    "''",
    "`",
    '"',
    ",",
    "(",
    ")",
    "=",
    ";",
    "--",
    "/*",
    "*/",
    "\n",
    "\\",
    " ",
    "1",
    "x",
    "WITH",
    "AS",
    "LIKE",
    "U&",
    "E",
    "_UTF8",
    "\\0041",
    " UESCAPE '!'",
    "SET ",
    "INTERVAL ",
]


def _mutated(random: random.Random) -> str:
    """Return the statement with a few random changes: inserted, removed or swapped words, or a truncated end."""
    text = _TABLE
    for _ in range(random.choice((1, 1, 1, 2, 3, 5))):
        place, length = random.randrange(len(text)), random.choice((1, 1, 1, 2, 5, 20))
        kind = random.randrange(4)
        if kind == 0:
            text = text[:place] + random.choice(_PIECES) + text[place:]
        elif kind == 1:
            text = text[:place] + text[place + length :]
        elif kind == 2:
            text = text[:place] + random.choice(_PIECES) + text[place + length :]
        else:
            words = text.split(" ")
            del words[random.randrange(len(words))]
            text = " ".join(words)
    return text[: random.randrange(len(text))] if random.random() < 0.1 else text


def test_errors_of_broken_tables_show_no_secrets() -> None:
    dice = random.Random(20)
    refused = 0
    for _ in range(5000):
        text = dice.choice(["", "", "SET a = s3://b/x;", "ADD JAR x"]) + _mutated(dice)
        try:
            KeyValueFormat.from_ddl(text)
        except ConfigurationError as error:
            refused += 1
            shown = f"{error} {error.reason} {error.option} {error.__cause__} {error.__context__}"
            assert not [secret for secret in _SECRETS if secret in shown], (text, shown)
    assert refused > 3000


_OPTIONS = (
    "WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b', 'format' = 'json', "
    "'scan.startup.mode' = 'earliest-offset'{})"
)


def _many(text: str, count: int, between: str = ", ") -> str:
    return between.join(text.format(i) for i in range(count))


# Texts of 100 KB to 1 MB. A parser with quadratic time would need minutes for them.
_HUGE = {
    "comments that are not closed": "CREATE TABLE t (a INT " + "/*" * 100_000,
    "comments": "CREATE TABLE t (a INT " + "/**/" * 100_000 + ")",
    "quotes": "CREATE TABLE t (a INT COMMENT '" + "''" * 100_000,
    "calls": "CREATE TABLE t (n INT, x AS " + "TO_TIMESTAMP_LTZ(" * 50_000 + "n" + ", 3)" * 50_000 + ")",
    "calls that are not closed": "CREATE TABLE t (n INT, x AS " + "TO_TIMESTAMP_LTZ(" * 50_000,
    "brackets": "CREATE TABLE t (n INT, x AS " + "(" * 100_000 + "n" + ")" * 100_000 + ")",
    "operators": "CREATE TABLE t (n INT, x AS n" + " + n" * 50_000 + ")",
    "equals signs": "CREATE TABLE t (n INT, x AS n" + " =\n\n" * 50_000 + ")",
    "refused columns": f"CREATE TABLE t (n INT, {_many('c{} AS nope(n)', 5_000)})",
    "computed columns": f"CREATE TABLE t (n DECIMAL(4, 2), {_many('c{} AS n / 2', 20_000)})",
    "columns": f"CREATE TABLE t ({_many('c{} INT', 30_000)})",
    "metadata": f"CREATE TABLE t ({_many('c{0} INT METADATA FROM {1}k{0}{1}'.replace('{1}', chr(39)), 30_000)})",
    "a key": f"CREATE TABLE t ({_many('c{} INT', 20_000)}, PRIMARY KEY ({_many('c{}', 20_000)}) NOT ENFORCED)",
    "fields": f"CREATE TABLE t (r ROW<{_many('c{} INT', 30_000)}>)",
    "types": "CREATE TABLE t (a " + "ARRAY<" * 100_000 + "INT" + ">" * 100_000 + ")",
    "postfix types": "CREATE TABLE t (a INT" + " ARRAY" * 100_000 + ")",
    "a long name": "CREATE TABLE t (" + "a-b." * 100_000 + " INT)",
    "a long type": "CREATE TABLE t (a " + "x" * 500_000 + ")",
    "a value with signs": "CREATE TABLE t (a INT) "
    + _OPTIONS.format(", 'properties.x' = '" + "password" * 50_000 + "'"),
    "unknown options": "CREATE TABLE t (a INT) " + _OPTIONS.format("".join(f", 'x{i}' = 'v'" for i in range(10_000))),
}


@pytest.mark.parametrize("name", _HUGE)
def test_a_huge_table_is_parsed_in_linear_time(name: str) -> None:
    shown = ""
    with cost.at_most(20):
        try:
            repr(KeyValueFormat._of(parse_create_table(_HUGE[name]), False))
        except ConfigurationError as error:
            shown = str(error)
    assert len(shown) < 5_000


@pytest.mark.parametrize("opened", ["ROW<a ", "ARRAY<", "MAP<STRING, ", "ROW("])
def test_types_at_the_maximum_depth_are_parsed(opened: str) -> None:
    opened = opened.replace("(", "(a ")
    closed = {"<": ">", "(": ")"}["(" if "(" in opened else "<"]
    for depth in (50, 99):
        ddl = f"CREATE TABLE t (a {opened * depth}INT{closed * depth}) {_OPTIONS.format('')}"
        assert KeyValueFormat.from_ddl(ddl).value_schema.names == ["a"]
    with pytest.raises(SchemaError, match="nested more than 100 levels deep, at line 1, column"):
        parse_create_table(f"CREATE TABLE t (a {opened * 101}INT{closed * 101})")


_DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "column",
    [f"a DECIMAL({_DIGITS}, 2)", f"a DECIMAL(4, {_DIGITS})", f"a VARCHAR({_DIGITS})", f"a TIMESTAMP({_DIGITS})",
     f"a ROW<b CHAR({_DIGITS})>", f"a INTERVAL DAY({_DIGITS})"],
)  # fmt: skip
def test_a_number_with_too_many_digits_is_an_error_with_a_position(column: str) -> None:
    with pytest.raises(SchemaError, match=r"a number of 5000 digits is too large.*at line 1, column ") as caught:
        parse_create_table(f"CREATE TABLE t ({column})")
    assert len(str(caught.value)) < 500
    with pytest.raises(SchemaError, match=r"a number of 5000 digits is too large.*at character "):
        parse_schema(column)
    assert str(parse_schema(f"a DECIMAL({'0' * 5000}4, 2)").fields[0].type) == "DECIMAL(4, 2)"


@pytest.mark.parametrize(
    "option",
    ["'scan.startup.timestamp-millis' = '{}', 'scan.startup.mode' = 'timestamp'",
     "'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:{},offset:1'",
     "'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:1,offset:{}'",
     "'scan.topic-partition-discovery.interval' = '{} s'", "'scan.topic-partition-discovery.interval' = 'PT{}S'",
     "'scan.parallelism' = '{}'"],
)  # fmt: skip
def test_an_option_with_too_many_digits_is_an_error_of_the_option(option: str) -> None:
    ddl = f"CREATE TABLE t (a INT) {_OPTIONS.format(', ' + option.format(_DIGITS))}"
    with pytest.raises(OptionError, match=f"'{option.split(chr(39))[1]}|specific-offsets'"):
        KeyValueFormat.from_ddl(ddl).decode_batch(None, pa.array([], pa.binary()))


def test_a_delay_with_too_many_digits_is_an_error_with_a_position() -> None:
    for digits, unit in ((_DIGITS, "SECOND"), ("9" * 16, "DAY")):
        with pytest.raises(SchemaError, match=r"is longer than the longest interval.*at line 1, column"):
            parse_create_table(f"CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '{digits}' {unit})")


@pytest.mark.parametrize(
    ("character", "told"),
    [
        ("\u2018", "‘ (U+2018 LEFT SINGLE QUOTATION MARK) instead of '"),
        ("\u2019", "’ (U+2019 RIGHT SINGLE QUOTATION MARK) instead of '"),
        ("\u201c", "“ (U+201C LEFT DOUBLE QUOTATION MARK) instead of '"),
        ("\u200b", "U+200B ZERO WIDTH SPACE, which is invisible"),
        ("\ufeff", "U+FEFF ZERO WIDTH NO-BREAK SPACE, which is invisible"),
        ("\uff08", "（ (U+FF08 FULLWIDTH LEFT PARENTHESIS) instead of ("),
    ],
)
def test_a_typographic_character_in_options_is_named(character: str, told: str) -> None:
    for place in ("(id INT)", "'connector'"):
        text = "CREATE TABLE t (id INT) WITH ('connector' = 'kafka')".replace(place, character + place)
        with pytest.raises(SchemaError, match="line 1, column") as raised:
            KeyValueFormat.from_ddl(text)
        assert f"unexpected character {told}" in str(raised.value)


def test_other_characters_in_options_are_not_shown() -> None:
    with pytest.raises(SchemaError, match="hidden, it may be part of a secret") as raised:
        KeyValueFormat.from_ddl("CREATE TABLE t (id INT) WITH ('connector' = €ecret)")
    assert "€" not in str(raised.value)


@pytest.mark.parametrize("half", ["\ud800", "a\udfff", "\udc80b"])
def test_a_lone_surrogate_in_a_name_is_a_kvformat_error(half: str) -> None:
    options = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:1', 'format' = 'json'"
    for columns in (f"`{half}` INT", f"a ROW<`{half}` INT>", f"a INT, `{half}` BIGINT METADATA FROM 'offset' VIRTUAL"):
        with pytest.raises(SchemaError, match=r"half of a character.*line 1, column \d+") as raised:
            KeyValueFormat.from_ddl(f"CREATE TABLE t ({columns}) WITH ({options})")
        assert str(raised.value).isascii()
    for schema in (f"`{half}` INT", f"a MAP<STRING, ROW<`{half}` INT>>"):
        with pytest.raises(SchemaError, match="half of a character"):
            get_format("json").decode_batch(pa.array([b"{}"]), schema)
    with pytest.raises(SchemaError, match="half of a character"):
        FlinkField(half, FlinkType("INT"))
    assert parse_schema("`\U0001f600` INT").fields[0].name == "\U0001f600"
