"""Values of csv: the fast paths of the kernel against the complete rules in `_csv.scalars`."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from kvformat.codecs.csv.scalars import scalar_converter
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_schema, parse_type
from kvformat.registry.contract.types import FlinkField, FlinkType, arrow_type, nullable
from tests.support import vectors
from tests.support.decoding import answers, decoded
from tests.support.extent import case_count

_TIMES = [f"23:59:59.{digits[:count]}" for digits in ("9876543219", "9999999999", "0000000001") for count in range(11)]
_VALUES = {
    "TINYINT": ["0", "-128", "127", "128", "007"],
    "INT": ["0", "-7", "2147483647", "2147483648", "1x2"],
    "BIGINT": [
        "0",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "0x1F",
        "00000000000000000001",
    ],
    "FLOAT": ["0.1", "1e5", "3.4e38", "3.5e38", "1e-46", "nan", "inf", "-Infinity", "16777217"],
    "DOUBLE": ["0.1", "-1.5E-7", "1e400", "1e-400", "NaN", "Infinity", "nan(1)", "0x1p3", "1f", "5e-324", "1e"],
    "DECIMAL(10, 2)": ["1.50", "-0.01", "1.005", "99999999.99", "99999999.994", "99999999.995", "5.", ".5", ".", "1e2"],
    "DECIMAL(20, 5)": ["1.50", "123456789012345.12345", "0.000005", "0.0000049", "9999999999999999", "-", "+5"],
    "DECIMAL(15, 0)": ["999999999999999", "999999999999999.5", "0.5", "-0.5", "1.49999999999999999999", "2.5"],
    "DATE": ["2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "2024-1-1", "20240101", "-2024-01-01"],
    **{
        name: ["10:11", "10:11:12", "10:11:12.5", "24:00:00", "1011", *_TIMES]
        for name in ("TIME", "TIME(1)", "TIME(2)")
    },
    "TIME(3)": ["10:11", "10:11:12", "10:11:12.5", "24:00:00", "10:11:60", "1011", "10:11:12.123456789", *_TIMES],
    "TIMESTAMP(3)": ["2024-02-29 23:59:59", "2024-02-29 23:59:59.123", "2024-02-29T23:59:59", "2024-02-29 23:59"]
    + [f"{day} {time}" for day in ("2024-02-29", "1969-12-31") for time in _TIMES],
    "TIMESTAMP_LTZ(3)": ["2024-02-29 23:59:59Z", "2024-02-29 23:59:59.5Z", "2024-02-29 23:59:59+01:00", "2024-02-29Z"]
    + [f"{day} {time}Z" for day in ("2024-02-29", "1969-12-31") for time in _TIMES],
    "BYTES": ["YWJj", "YWJjYQ==", "YWJjYQ=", "YWJjYQ", "YWJjYWI=", "YWJjYWI", "YWJjY", "YWJjYWJjYWJj", "+/+/", "-_-_"],
    "BOOLEAN": ["true", "false", "TRUE", "True", "0", "1", "yes", "true "],
}


def _odd(rng: random.Random, text: str) -> str:
    """A text with some characters changed, inserted or removed."""
    characters = list(text)
    for _ in range(rng.randrange(1, 3)):
        place = rng.randrange(len(characters) + 1)
        new = rng.choice("0019-+.:eExXTZz ,/\t'_&é" + chr(rng.randrange(1, 0x3B)))
        characters[place : place + rng.choice([0, 0, 1, 2])] = rng.choice([[], [new], [new]])
    return "".join(characters)


@pytest.mark.parametrize("name", _VALUES)
def test_values_are_those_of_the_rule(name: str) -> None:
    """A text that the kernel reads quickly has the value that the type's converter gives, or its error."""
    t: FlinkType = parse_type(name)
    row = FlinkType("ROW", fields=(FlinkField("v", t),))
    convert, rng = scalar_converter(t), random.Random(5)
    odd = [_odd(rng, rng.choice(_VALUES[name])) for _ in range(case_count(quick=2_000, night=8_000))]
    texts = [text for text in (*_VALUES[name], *odd) if not {*text} & {*"\0\1\n\r"}]
    format = get_format("csv", {"disable-quote-character": "true", "field-delimiter": "\\u0001"})
    batch = decoded(format, [text.encode() for text in texts], f"v {name}")
    errors = [None] * len(texts) if batch.errors is None else batch.errors.to_pylist()
    good = bad = 0
    for text, rows, error in zip(texts, batch.rows, errors, strict=True):
        if not text:
            continue
        try:
            wanted = convert(text)
        except ValueError:
            assert error is not None, (text, rows)
            assert f" as {t.summary()}" in error
            bad += 1
            continue
        assert error is None, (text, wanted)
        good += 1
        expected = vectors.from_arrow(pa.array([(wanted,)], arrow_type(nullable(row)))[0], row)
        assert vectors.same(vectors.from_arrow(rows.values[0], row), expected, row), (text, rows)
    assert good > 100
    assert bad > 300 or name == "BOOLEAN"


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        ("INT", ["+5", " -5", "\t+5 "]),
        ("DOUBLE", ["+.5", ".5", " .5", ".5e1", "-.5", "NaN", " Infinity", "-Infinity", "+Infinity", "\t-0x1p3"]),
        ("FLOAT", [".5", "NaN", "Infinity"]),
        ("DECIMAL(5, 2)", ["+1.5", ".5", ".5e1", "-.5"]),
        ("DATE", ["+024-01-01"]),
        ("TIMESTAMP(3)", ["+12024-01-01 00:00:00", "-2024-01-01 00:00:00"]),
    ],
)
def test_a_value_that_does_not_begin_with_a_digit_is_read_also_with_ignore_parse_errors(
    schema: str, texts: list[str]
) -> None:
    messages = [text.encode() for text in texts]
    strict, lenient = (
        answers(decoded(get_format("csv", {"ignore-parse-errors": value}), messages, f"v {schema}"))
        for value in ("false", "true")
    )
    assert lenient == strict
    assert all(answer.error is None and "None" not in str(answer.rows) for answer in strict)


@pytest.mark.parametrize("size", [8, 9, 10, 15, 16, 17, 18])
def test_a_number_with_another_character_at_any_place_is_no_number(size: int) -> None:
    digits = "1234567890123456789"[:size]
    for mark in ("", '"'):
        for sign in ("", "-"):
            number = sign + digits
            texts = [number, *(number[:at] + "x" + number[at + 1 :] for at in range(len(sign), len(number)))]
            messages = [f"{mark}{text}{mark}".encode() for text in texts]
            found = answers(decoded(get_format("csv"), messages, "v BIGINT"))
            assert [answer.error is None for answer in found] == [True] + [False] * size
            assert found[0].rows == f"[{{'v': {number}}}]"


def test_decimals_are_rounded_as_java_does() -> None:
    """Half up, also if the nearest doubles are on the other side of the half."""
    rng = random.Random(9)
    texts = [f"{rng.randrange(10 ** rng.randrange(1, 9))}.{rng.randrange(10**6):06d}" for _ in range(3000)]
    texts += [f"{rng.randrange(10**6)}.{rng.randrange(100):02d}{tail}" for tail in ("5", "4999999", "50") * 100]
    step = Decimal("0.01")
    for batch in (texts, [text[:-4] for text in texts]):
        rows = get_format("csv").decode_batch(pa.array([text.encode() for text in batch]), "v DECIMAL(11, 2)").rows
        wanted = [Decimal(text).quantize(step, "ROUND_HALF_UP") for text in batch]
        assert rows.values.field(0).to_pylist() == wanted


def test_decimals_that_arrow_divides_wrongly() -> None:
    near = [power + step for power in (2**62, 2**63, 2**64) for step in range(-3, 4)]
    digits = [str(number * 10**zeros) for number in near for zeros in range(19)]
    texts = [f"{text[: len(text) - places]}.{text[len(text) - places :]}" for text in digits for places in range(19)]
    texts = [text for text in texts if len(text.partition(".")[0]) <= 20]
    for scale in (0, 1, 3, 17, 18):
        t = f"DECIMAL(38, {scale})"
        read = scalar_converter(parse_type(t))
        batch = pa.array([text.encode() for text in ["1e0", *texts]])  # the first text prevents one cast for all
        found = get_format("csv").decode_batch(batch, f"v {t}").rows.values.field(0).to_pylist()
        assert found == [read(text) for text in ["1e0", *texts]]


@pytest.mark.parametrize(
    "schema", ["DECIMAL(38, 0)", "DECIMAL(38, 9)", "DECIMAL(10, 2)", "DECIMAL(38, 38)", "ARRAY<DECIMAL(38, 18)>"]
)
def test_decimals_of_more_digits_than_arrow_casts(schema: str) -> None:
    """Alone and in a batch: a number that does not fit is NULL, never another number."""
    texts = ["9" * count for count in range(1, 140)] + ["-" + "1" * count for count in range(1, 140)]
    texts += ["0" * count + "1" for count in (30, 36, 37, 38, 39, 90, 300)]
    texts += ["1." + "3" * count for count in range(1, 60)]
    texts += ["12345678." + "3" * count for count in range(1, 60)]
    format, (field,) = get_format("csv"), parse_schema(f"a {schema}").fields
    t = field.type.fields[0].type if field.type.root == "ARRAY" else field.type
    wanted = [scalar_converter(t)(text) for text in texts]
    together = format.decode_batch(pa.array([text.encode() for text in texts]), f"a {schema}")
    for text, value, row in zip(texts, wanted, together.rows.to_pylist(), strict=True):
        (alone,) = format.decode_batch(pa.array([text.encode()]), f"a {schema}").rows.to_pylist()
        found = alone[0]["a"]
        assert (found[0] if field.type.root == "ARRAY" else found) == value, text
        assert row == alone, text


def test_a_batch_of_nulls_and_texts() -> None:
    batch = [b"NULL,NULL", b"null,NUL", b",", b'"NULL",x', b"NULLE,1"]
    for literal, rows in (
        ("NULL", [(None, None), ("null", "NUL"), ("", ""), (None, "x"), ("NULLE", "1")]),
        ("", [("NULL", "NULL"), ("null", "NUL"), (None, None), ("NULL", "x"), ("NULLE", "1")]),
    ):
        format = get_format("csv", {"null-literal": literal})
        found = format.decode_batch(pa.array(batch), "x STRING, y STRING").rows.values.to_pylist()
        assert [tuple(row.values()) for row in found] == rows
    numbers = get_format("csv", {"null-literal": "NULL"}).decode_batch(pa.array([b"NULL", b"7", b"NULL"]), "x INT")
    assert numbers.errors is None
    assert np.array_equal(numbers.rows.values.field(0).is_null(), [True, False, True])


_LITERALS = {
    "INT": ("17", 18, "18"),
    "BIGINT": ("1234567890", 1234567891, "1234567891"),
    "FLOAT": ("1.5", 2.5, "2.5"),
    "DOUBLE": ("1.5", 2.5, "2.5"),
    "DECIMAL(5, 2)": ("1.50", Decimal("2.50"), "2.50"),
    "BOOLEAN": ("true", False, "none"),
    "DATE": ("2024-02-29", datetime.date(2024, 2, 28), "2024-02-28"),
    "TIME(3)": ("12:00:00", datetime.time(12, 0, 1), "12:00:01"),
    "TIMESTAMP(3)": ("2024-02-29 23:59:58", datetime.datetime(2024, 2, 29, 23, 59, 59), "2024-02-29 23:59:59"),
    "STRING": ("abc", "abd", "abd"),
    "BYTES": ("YWJj", b"abd", "YWJk"),
}
"""A null literal that could be a value, another value, and its text, which has the same size."""


@pytest.mark.parametrize("schema", _LITERALS)
def test_the_null_literal_is_null_even_where_it_could_be_a_value(schema: str) -> None:
    literal, value, text = _LITERALS[schema]
    quoted = [f"{mark}{one}{mark}" for one in (literal, text) for mark in ("", '"')]
    escaped = ["\\" + literal, "\\" + text] if literal[0] not in "0nrt" and text[0] not in "0nrt" else []
    format = get_format("csv", {"null-literal": literal, "escape-character": "\\"})
    batch = format.decode_batch(pa.array([one.encode() for one in (*quoted, *escaped)]), f"a {schema}")
    assert batch.errors is None
    found = [row[0]["a"] for row in batch.rows.to_pylist()]
    assert found == [None, None, value, value, *([None, value] if escaped else [])]


@pytest.mark.parametrize(
    ("form", "option", "null", "other"),
    [
        ("epoch-seconds", "null-literal", "0", "9"),
        ("epoch-seconds", "null-literal", "", "0"),
        ("ISO-8601", "null-literal", "1970-01-01T00:00:00", "1970-01-01T00:00:09"),
        ("SQL", "empty-string-as-null", "", "1970-01-01 00:00:00"),
    ],
)
def test_null_is_null_also_where_a_form_of_timestamps_reads_it(form: str, option: str, null: str, other: str) -> None:
    forms = {"timestamp-format.patterns": form, "timestamp-format.zone": "UTC"}
    format = get_format("csv", {**forms, option: null if option == "null-literal" else "true"})
    texts = [f"{mark}{text}{mark}" for text in (null, other) for mark in ("", '"')]
    batch = format.decode_batch(
        pa.array([f"{text},{text},1".encode() for text in texts]), "a TIMESTAMP(3), z TIMESTAMP_LTZ(3), i INT"
    )
    assert batch.errors is None
    found = [(row["a"] is None, row["z"] is None) for row in batch.rows.flatten().to_pylist()]
    assert found == [(True, True)] * 2 + [(False, False)] * 2
