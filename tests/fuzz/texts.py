"""Random changes of statements, schemas and options. Each is parsed or refused with a `KvFormatError`."""

from __future__ import annotations

import functools
import json
import lzma
import pickle
import random
import re
from typing import Any

import pyarrow as pa

from kvformat.registry import KeyValueFormat, KvFormatError, get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.discovery import format_class
from tests.fuzz.cases import FORMATS
from tests.support import cost, vectors

SECONDS = 5.0
"""Maximum CPU time of one text in seconds. The slowest takes a hundredth of it."""

_TOKEN = re.compile(r"\w+|'[^']*'|`[^`]*`|\s+|.", re.DOTALL)
_PIECES = (
    *(
        "'",
        "''",
        '"',
        "`",
        "``",
        "(",
        ")",
        "<",
        ">",
        ",",
        ";",
        ".",
        "=",
        "-",
        "--",
        "/*",
        "*/",
        "//",
        "\n",
        "\x00",
        "[",
        "]",
    ),
    *("NOT NULL", "NULL", "PRIMARY KEY", "METADATA FROM", "VIRTUAL", "AS", "WATERMARK FOR", "COMMENT", "CONSTRAINT"),
    *("ROW<", "ARRAY<", "MAP<STRING, ", "MULTISET<", "DECIMAL(38, 39)", "TIMESTAMP(10)", "TIME WITHOUT TIME ZONE"),
    *(
        "INTERVAL '1' SECOND",
        "INTERVAL -5 SECOND",
        "CAST(",
        "U&'\\0041'",
        "E'\\x41\\''",
        "N'",
        "_UTF8'",
        "UESCAPE '!'",
        'U&"',
        "SET a = s3://b/x;",
        "INTERVAL YEAR(9) TO MONTH",
        "ENFORCED",
        "PARTITIONED BY (",
        "DISTRIBUTED BY HASH (",
        "LIKE x",
        "WITH ()",
        "RAW",
    ),
    *(
        "é",
        "世",
        "😀",
        "\ud800",
        "\u2028",
        "²",
        "٣",
        "1e9",
        "-1",
        "0",
        "99999999999999999999",
        "9" * 4400,
        "0x1F",
        "1.5",
    ),
)
_VALUES = (
    *("", " ", "true", "TRUE", "false", "yes", "0", "-1", "1", "99999999999999999999", "9" * 5000, "1e400", "NaN"),
    *(
        "10 s",
        "PT10S",
        "PT99999999999999999999S",
        "-5 min",
        "1 fortnight",
        "64 mb",
        "a;b",
        "'a;b';c",
        "a:b,c:d",
        "a",
        ",",
    ),
    *(
        "\\t",
        "\\u0001",
        "\\u12",
        "\\",
        "\\777",
        '"',
        "'",
        "\n",
        "\x00",
        "é",
        "😀",
        "\ud800",
        "(",
        "(a+)+b",
        "[",
        "*",
        "a{99999}",
    ),
    *(
        "(?<=a*)b",
        "\\p{IsGreek}",
        "UTF-16",
        "utf8",
        "no-such-charset",
        "SQL",
        "iso-8601",
        "LITERAL",
        "{}",
        "[]",
        "null",
    ),
    *(
        '{"type":"record","name":"r","fields":[]}',
        '"string"',
        '{"type":"array","items":"int"}',
        "file:/no/such",
        "mock://x",
    ),
    *(
        "http://",
        "http://user:pw@127.0.0.1:1",
        "ftp://x",
        "file:",
        "[[[[",
        '{"type":' * 3000,
        1,
        1.5,
        True,
        None,
        b"x",
        (),
    ),
)


_OF_CONFLUENT_CLOUD = """CREATE TABLE `env`.`cluster`.`orders` (
  `id` BIGINT NOT NULL, `n` VARCHAR(2147483647), `part` BIGINT METADATA FROM 'partition' VIRTUAL,
  WATERMARK FOR `$rowtime` AS `$rowtime` - INTERVAL '5' SECOND, CONSTRAINT `PRIMARY` PRIMARY KEY (`id`) NOT ENFORCED
) DISTRIBUTED BY HASH(`id`) INTO 6 BUCKETS WITH (
  'changelog.mode' = 'upsert', 'connector' = 'confluent', 'kafka.cleanup-policy' = 'compact',
  'key.format' = 'avro-registry', 'value.format' = 'avro-registry', 'value.fields-include' = 'all',
  'properties.bootstrap.servers' = 'b', 'avro-registry.url' = 'mock://x')"""


@functools.cache
def _statements() -> list[str]:
    """Return CREATE TABLE statements that Flink planned or refused, and one of Confluent Cloud several times."""
    found = [_OF_CONFLUENT_CLOUD] * 50
    for name in ("cases", "errors", "plans"):
        with lzma.open(vectors.FIXTURES / "interop" / f"{name}.jsonl.xz", "rt", encoding="ascii") as lines:
            found += [json.loads(line)["ddl"] for line in lines]
    return found


@functools.cache
def _types() -> list[str]:
    return sorted({case["schema"] for format in vectors.formats() for case in vectors.cases(format)})


def changed(rng: random.Random, text: str, others: list[str]) -> str:
    """Return a text with removed, duplicated, swapped or inserted tokens."""
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        at = rng.randrange(len(tokens) + 1)
        match rng.randrange(8):
            case 0:
                del tokens[at : at + rng.choice([1, 1, 3, 20])]
            case 1:
                tokens[at:at] = [rng.choice(_PIECES)] * rng.choice([1, 1, 1, 2, 300])
            case 2:
                tokens[at : at + 1] = [rng.choice(_PIECES)]
            case 3:
                tokens[at:at] = tokens[at : at + rng.choice([1, 5, 30])]
            case 4:
                other = _TOKEN.findall(rng.choice(others))
                start = rng.randrange(len(other) + 1)
                tokens[at : at + rng.choice([0, 1, 5])] = other[start : start + rng.choice([1, 5, 30])]
            case 5:
                tokens = tokens[:at]
            case 6:
                rng.shuffle(tokens[at : at + 6])
            case _:
                tokens[at : at + 1] = [
                    rng.choice([token.upper(), token.lower(), token[::-1], token[:1]]) for token in tokens[at : at + 1]
                ]
    return "".join(tokens)


def statement(rng: random.Random) -> str:
    """Return a changed CREATE TABLE statement."""
    return changed(rng, rng.choice(_statements()), _statements()[:200])


def type_text(rng: random.Random) -> str:
    """Return a changed type."""
    return changed(rng, rng.choice(_types()), _types())


@cost.at_most(SECONDS)
def parse_statement(text: str) -> None:
    """A statement is parsed or refused with a `KvFormatError`, within the time limit."""
    try:
        table = KeyValueFormat.from_ddl(text)
    except KvFormatError as error:
        _check(error)
    else:
        assert repr(table).startswith("KeyValueFormat")
        assert pickle.loads(pickle.dumps(table)) == table


@cost.at_most(SECONDS)
def parse_type_text(text: str) -> None:
    """A type is refused with a `KvFormatError`, or its text can be parsed again to an equal type."""
    try:
        found = parse_type(text)
    except KvFormatError as error:
        _check(error)
    else:
        assert parse_type(str(found)) == found


def _check(error: KvFormatError) -> None:
    assert str(error).strip(), repr(error)


Given = tuple[str, dict[str, Any]]


def options(rng: random.Random) -> Given:
    """Return a format and changed options."""
    format = rng.choice(FORMATS)
    base = {"message-class-name": "M"} if format == "protobuf" else {}
    base |= {"url": "mock://fuzz", "subject": "s"} if format.endswith("avro-confluent") else {}
    specs = format_class(format).option_specs
    found: dict[str, Any] = {key: value for key, value in base.items() if rng.random() < 0.9}
    for spec in rng.sample(specs, min(len(specs), rng.choice([1, 1, 2, 4]))):
        value = rng.choice([*_VALUES, *(spec.allowed or ())])
        name = (
            spec.name if rng.random() < 0.9 else rng.choice([spec.name.upper(), f"{spec.name}.x", f" {spec.name}", ""])
        )
        found[name] = changed(rng, value, ["true", "a;b"]) if isinstance(value, str) and rng.random() < 0.2 else value
    return format, found


@cost.at_most(SECONDS)
def use_options(given: Given) -> None:
    """Options are refused with a `KvFormatError`, or the format can decode a message and encode a row."""
    name, options = given
    schema = "a STRING" if name == "raw" else "a STRING, b INT, c ARRAY<STRING>"
    try:
        format = get_format(name, options)
        assert pickle.loads(pickle.dumps(format)) == format
        assert repr(format)
        for read in (True, False):
            try:
                if read:
                    format.decode_batch(pa.array([b"", b"a,1,b", b'{"a":"x"}', b"\0\0\0\0\1x"], pa.binary()), schema)
                else:
                    row = {"a": "x"} if name == "raw" else {"a": "x", "b": 1, "c": ["y"]}
                    format.encode_batch(pa.array([row]), schema)
            except KvFormatError as error:
                _check(error)
    except KvFormatError as error:
        _check(error)
