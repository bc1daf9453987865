"""Values of json: what the kernel reads quickly against the complete rules in `_json.scalars`."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs._kernel.tree import Fraction, Integer
from kvformat.codecs.json.scalars import ScalarRules, scalar_converter
from kvformat.registry import SchemaError, get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.types import FlinkField, FlinkType, arrow_type, nullable
from tests.support import vectors
from tests.support.decoding import answers, decoded
from tests.support.extent import case_count

_NUMBERS = [
    "0",
    "-0",
    "7",
    "-128",
    "127",
    "128",
    "32767",
    "-32769",
    "2147483647",
    "2147483648",
    "1e2",
    "1.0",
    "1.9",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "12345678901234567890",
    "0.1",
    "5E-1",
    "99999999.99",
    "99999999.995",
]
_TEXTS = [
    "",
    *["a", "é", "😀", "true", "TRUE", "1", "-7", " 1", "1 ", "01", "1.5", "NaN", "AQID", "AQI=", "AQI", "null"],
]
_DATES = [
    "2024-02-29",
    "2023-02-29",
    "1900-02-29",
    "2000-02-29",
    "0001-01-01",
    "0000-12-31",
    "9999-12-31",
    "2024-04-31",
    "2024-1-1",
    "20240101",
    "-2024-01-01",
    "+12024-01-01",
    "2024-13-01",
    "2024-00-10",
    "2024-01-00",
    "2024-12-31",
]
_TIMES = [
    "10:11",
    "10:11:12",
    "10:11:12.5",
    "24:00:00",
    "00:00:00",
    "23:59:59.999999999",
    "10:11:60",
    "10:60:00",
    "1011",
    "10:11:12.",
    "10:11:12.1234567891",
    "10:11:12.123456",
    "10:11:12.1234567",
    "10:11:12,5",
    "1:02:03",
    "10:11:12Z",
    *(f"23:59:59.{digits[:count]}" for digits in ("9876543219", "9999999999", "0000000001") for count in range(11)),
]
_MOMENTS = [f"{day}{mark}{time}" for day in _DATES[:8] for mark in " Tt" for time in _TIMES[:9]]
_MOMENTS += [f"{day}{mark}{time}" for day in ("2024-02-29", "1969-12-31") for mark in " T" for time in _TIMES[9:]]
_VALUES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "BOOLEAN"), _TEXTS),
    "DECIMAL(38, 18)": _TEXTS,
    "STRING": _TEXTS,
    "BYTES": _TEXTS,
    "DATE": _DATES,
    "TIME(3)": _TIMES,
    "TIMESTAMP(3)": _MOMENTS,
    "TIMESTAMP(6)": _MOMENTS,
    "TIMESTAMP(9)": _MOMENTS,
    "TIMESTAMP_LTZ(3)": [f"{moment}Z" for moment in _MOMENTS],
}


def _odd(rng: random.Random, text: str) -> str:
    """A text with some characters changed, inserted or removed."""
    characters = list(text)
    for _ in range(rng.randrange(1, 3)):
        place = rng.randrange(len(characters) + 1)
        new = rng.choice("0019-+.:eExXTtZz ,/'_&é")
        characters[place : place + rng.choice([0, 0, 1, 2])] = rng.choice([[], [new], [new]])
    return "".join(characters)


def _node(document: str) -> Any:
    return json.loads(document, parse_int=Integer, parse_float=Fraction, parse_constant=None)


def _is_json(document: str) -> bool:
    try:
        json.loads(document)
    except ValueError:
        return False
    return not document.strip("-").startswith(("NaN", "Infinity"))


_CASES = [(name, "SQL", parser) for name in _VALUES for parser in ("true", "false")]
_CASES += [(name, "ISO-8601", parser) for name in _VALUES if "TIME" in name for parser in ("true", "false")]


@pytest.mark.parametrize(("name", "standard", "parser"), _CASES)
def test_values_are_those_of_the_rule(name: str, standard: str, parser: str) -> None:
    """The kernel's quick forms of numbers, dates and times have the value that the type's converter gives."""
    t: FlinkType = parse_type(name)
    row = FlinkType("ROW", fields=(FlinkField("v", t),))
    rules = ScalarRules(parser == "true", iso=standard == "ISO-8601", decimals=name.startswith("DECIMAL"))
    convert, rng = scalar_converter(t, rules), random.Random(f"{name} {standard}")
    odd = [_odd(rng, rng.choice(_VALUES[name])) for _ in range(case_count(quick=1_500, night=6_000))]
    numbers = [*_NUMBERS, *(_odd(rng, rng.choice(_NUMBERS)) for _ in range(500))]
    documents = [json.dumps(text, ensure_ascii=False) for text in (*_VALUES[name], *odd)]
    documents += [*filter(_is_json, numbers), "true", "false", "{}", "[1]"]
    options = {"timestamp-format.standard": standard, "decode.json-parser.enabled": parser}
    batch = decoded(get_format("json", options), [f'{{"v":{one}}}'.encode() for one in documents], f"v {name}")
    errors = [None] * len(documents) if batch.errors is None else batch.errors.to_pylist()
    good = bad = 0
    for document, rows, error in zip(documents, batch.rows, errors, strict=True):
        try:
            wanted = convert(_node(document))
        except ValueError:
            assert error is not None, (document, rows)
            bad += 1
            continue
        assert error is None, (document, wanted, error)
        good += 1
        expected = vectors.from_arrow(pa.array([(wanted,)], arrow_type(nullable(row)))[0], row)
        assert vectors.same(vectors.from_arrow(rows.values[0], row), expected, row), (document, rows)
    print(f"{name}, {standard}, decode.json-parser.enabled = {parser}: {good} values and {bad} errors compared")
    assert good > 20
    assert bad > 20 or name in ("STRING", "BOOLEAN")


@pytest.mark.parametrize(
    ("kind", "t", "text"),
    [
        *(("json", "DATE", text) for text in ("+5881580-07-12", "-5877641-06-22")),
        *(
            (kind, "TIMESTAMP(3)", text + " 00:00:00")
            for kind in ("json", "csv")
            for text in ("+294248-01-01", "-290309-01-01")
        ),
        *(
            (kind, "TIMESTAMP_LTZ(3)", text + " 00:00:00Z")
            for kind in ("json", "csv")
            for text in ("+294248-01-01", "-290309-01-01")
        ),
    ],
)
def test_a_day_beyond_what_arrow_holds_is_an_error_of_its_message(kind: str, t: str, text: str) -> None:
    texts = [text, text[0] + "1" + text[2:]]  # the same day of a nearer year
    messages = [(f'{{"a":"{one}"}}' if kind == "json" else one).encode() for one in (texts[1], text, texts[1])]
    found = answers(decoded(get_format(kind), messages, f"a {t}"))
    assert [answer.error is None for answer in found] == [True, False, True]
    assert f'cannot read "{text}" as {t}' in str(found[1].error)


@pytest.mark.parametrize("t", ["MAP<INT, STRING>", "ARRAY<MAP<INT, STRING>>", "ROW<m MULTISET<INT>>"])
def test_the_keys_of_a_map_at_any_level_must_be_texts(t: str) -> None:
    kind = arrow_type(nullable(FlinkType("ROW", fields=(FlinkField("a", parse_type(t)),))))
    format = get_format("json")
    for use in (
        lambda: format.decode_batch(pa.array([b"{}"]), f"a {t}"),
        lambda: format.encode_batch(pa.array([], kind), f"a {t}"),
    ):
        with pytest.raises(SchemaError, match="doesn't support non-string as key type of map"):
            use()
