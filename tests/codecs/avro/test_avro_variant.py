"""VARIANT in Avro: a string with JSON text."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from kvformat.registry import SchemaError, get_format
from tests.support.decoding import answers, decoded
from tests.support.extent import case_count
from tests.support.registry_server import Registry
from tests.support.variants import random_document

_AVRO = get_format("avro", {"variant-columns": "v;l;m;r"})


def test_a_column_is_a_string_with_json_text() -> None:
    schema = "v VARIANT, l ARRAY<VARIANT>, m MAP<STRING, VARIANT>, r ROW<x VARIANT NOT NULL>"
    documents = [
        b'{"v":{"a":1,"b":[1.50]},"l":[1,null,"x"],"r":{"x":[]}}',
        b'{"v":null,"m":{"q":{"x":null}}}',
    ]
    rows = decoded(get_format("json"), documents, schema).rows.flatten()
    encoded = _AVRO.encode_batch(rows, schema)
    assert encoded.errors is None
    again = decoded(_AVRO, encoded.messages, schema)
    assert again.errors is None
    texts = decoded(_AVRO, encoded.messages, schema.replace("VARIANT", "STRING")).rows.flatten()
    assert texts.to_pylist() == [
        {"v": '{"a":1,"b":[1.5]}', "l": ["1", None, '"x"'], "m": None, "r": {"x": "[]"}},
        {"v": None, "l": None, "m": [("q", '{"x":null}')], "r": None},
    ]
    assert answers(again)[1] == answers(decoded(get_format("json"), documents, schema))[1]
    assert (
        decoded(get_format("json"), [b'{"v":{"a":1,"b":[1.5]}}'], "v VARIANT").rows[0][0]["v"] == again.rows[0][0]["v"]
    )


def test_a_text_that_is_not_a_variant_is_an_error_of_its_message() -> None:
    texts = ['{"a":1}', '{"a":1,"a":2}', "{", "", " null ", "1 2", "[1]", None, "\ufffd"]
    values = pa.array([{"v": text, "l": ["1", text]} for text in texts])
    messages = _AVRO.encode_batch(values, "v STRING, l ARRAY<STRING>").messages
    for schema, path in (("v VARIANT, l ARRAY<STRING>", "v"), ("v STRING, l ARRAY<VARIANT>", "l.element")):
        got = answers(decoded(_AVRO, messages, schema))
        assert [answer.error for answer in got] == [
            None,
            f"field '{path}': an object has the key \"a\" twice, which VARIANT does not allow",
            f"field '{path}': not JSON: expecting property name enclosed in double quotes at character 2",
            f"field '{path}': not JSON: expecting value at character 1",
            None,
            f"field '{path}': not JSON: extra data after the document at character 3",
            None,
            None,
            f"field '{path}': not JSON: expecting value at character 1",
        ]


def test_values_are_those_of_json() -> None:
    rng, compared = random.Random(4), 0
    documents = [random_document(rng) for _ in range(case_count(quick=1000, night=4000))]
    by_json = answers(decoded(get_format("json"), [f'{{"v":{text}}}'.encode() for text in documents], "v VARIANT"))
    texts = pa.array([{"v": text} for text in documents])
    by_avro = answers(decoded(_AVRO, _AVRO.encode_batch(texts, "v STRING").messages, "v VARIANT"))
    for document, one, other in zip(documents, by_json, by_avro, strict=True):
        # an error names the field in Avro, and the place within the message in JSON
        assert one == other or (one.error and other.error), document
        compared += one.error is None
    assert compared > 0.9 * len(documents)


def test_a_bad_variant_is_an_error_of_its_row() -> None:
    good = decoded(get_format("json"), [b'{"v":[1]}'], "v VARIANT").rows.flatten()
    bad = pa.StructArray.from_arrays(
        [pa.array([{"value": b"\x0d", "metadata": b"\x01\0\0"}], good.field(0).type)], fields=list(good.type)
    )
    encoded = _AVRO.encode_batch(pa.concat_arrays([good, bad, good]), "v VARIANT")
    assert encoded.errors is not None
    assert encoded.errors.to_pylist() == [
        None, "field 'v': the bytes of the value or of its metadata are not a VARIANT", None
    ]  # fmt: skip
    assert encoded.messages.is_valid().to_pylist() == [True, False, True]


@pytest.mark.parametrize("name", ["avro", "avro-confluent", "debezium-avro-confluent"])
def test_other_columns_are_refused_as_in_flink(name: str) -> None:
    more = {} if name == "avro" else {"url": "mock://variants", "subject": "s"}
    format = get_format(name, {**more, "variant-columns": "v"})
    for use in (format.decode_batch, format.encode_batch):
        with pytest.raises(SchemaError, match=r"type: VARIANT\. If column 'x' is a string .* 'variant-columns'"):
            use(pa.array([], pa.binary()), "v VARIANT, x ARRAY<VARIANT>")  # type: ignore[operator]


@pytest.mark.parametrize("name", ["avro-confluent", "debezium-avro-confluent"])
def test_formats_with_a_registry_have_it_too(name: str, registry: Registry) -> None:
    format = get_format(name, {"url": registry.url, "subject": "s", "variant-columns": "v"})
    rows = decoded(get_format("json"), [b'{"v":{"a":[null]}}'], "v VARIANT").rows.flatten()
    encoded = format.encode_batch(rows, "v VARIANT", row_kinds=pa.array(["+I"]))
    assert b'{"a":[null]}' in encoded.messages[0].as_py()
    assert decoded(format, encoded.messages, "v VARIANT").rows.flatten() == rows
