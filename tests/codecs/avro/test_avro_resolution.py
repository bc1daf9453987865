"""Avro's schema resolution: a table of cases, compared with fastavro, units and scales, several writers."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from kvformat.codecs.avro.batches import encode
from kvformat.codecs.avro.read import Decoded
from kvformat.codecs.avro.resolve import _Resolver, plan
from kvformat.registry.contract.errors import SchemaError
from tests.support.avro_cases import (
    MANY,
    array,
    decode,
    decode_mixed,
    error,
    read,
    record,
    schema_of,
    shown,
    texts,
)
from tests.support.avro_random import Maker, written

_PAIRS = [
    ("int", "long"),
    ("int", "double"),
    ("long", "float"),
    ("float", "double"),
    ("string", "bytes"),
    (["null", "int"], ["long", "null"]),
    ({"type": "array", "items": "int"}, {"type": "array", "items": ["null", "double"]}),
    ({"type": "map", "values": ["null", "float"]}, {"type": "map", "values": ["null", "double"]}),
]


_NEW = {"name": "new", "type": "long", "default": 7}


@pytest.mark.parametrize(("writer", "reader"), _PAIRS)
@pytest.mark.parametrize("seed", range(3))
def test_resolves_as_fastavro(writer: Any, reader: Any, seed: int) -> None:
    w = record(writer, "string", {"type": "array", "items": ["null", "long"]}, "boolean", writer)
    r = record({"name": "f3", "type": "boolean"}, {"name": "f0", "type": reader}, _NEW)
    maker = Maker(seed)
    messages = written(w, [maker.value(w) for _ in range(MANY)])
    decoded = decode(pa.array(messages, pa.binary()), schema_of(w), schema_of(r))
    assert decoded.errors is None
    theirs = [_by_fastavro(message, w, r) for message in messages]
    schema = schema_of(r)
    for value in theirs:
        if isinstance(value["f0"], dict):
            value["f0"] = list(value["f0"].items())
    assert shown(decoded.values, schema) == shown(pa.array(theirs, schema.arrow_type), schema)


def _by_fastavro(message: bytes, writer: Any, reader: Any) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(message), fastavro.parse_schema(writer), fastavro.parse_schema(reader))


_INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}


@pytest.mark.parametrize(
    ("writer", "reader", "message", "value"),
    [
        (record("int", name="A"), record("long", name="B"), "04", {"f0": 2}),
        (_INNER, ["null", {**_INNER, "name": "Other"}], "04", {"x": 2}),
        (["null", "int"], "int", "0204", 2),
        (["null", "int"], ["int", "null"], "00", None),
        (["int", "string"], ["null", "double"], "0004", 2.0),
        ("int", ["long"], "04", 2),
        (["null", "int", "string"], ["string", "null"], "040261", "a"),
        ("bytes", ["null", "string"], "0261", "a"),
        ("bytes", {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, "0205", Decimal("0.5")),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
            "02",
            "A",
        ),
        (
            record({"name": "old", "type": "int"}),
            {"type": "record", "name": "R", "fields": [{"name": "new", "type": "int", "aliases": ["old"]}]},
            "04",
            {"new": 2},
        ),
        (
            record({"name": "old", "type": "int"}, name="S"),
            {
                "type": "record",
                "name": "R",
                "aliases": ["S"],
                "fields": [{"name": "n", "type": "int", "aliases": ["old"]}],
            },
            "04",
            {"n": 2},
        ),
        (
            {"type": "fixed", "name": "F", "size": 1},
            {"type": "fixed", "name": "G", "size": 1, "aliases": ["F"]},
            "61",
            b"a",
        ),
        (record(), record({"name": "d", "type": "bytes", "default": "\u00ff"}), "", {"d": b"\xff"}),
        (record(), record({"name": "d", "type": ["int", "null"], "default": 5}), "", {"d": 5}),
        (record(), record({"name": "d", "type": _INNER, "default": {"x": 3}}), "", {"d": {"x": 3}}),
        (
            record(),
            record({"name": "d", "type": record(_NEW, "int", name="Inner"), "default": {"f1": 3}}),
            "",
            {"d": {"new": 7, "f1": 3}},
        ),
        *(
            (
                record(),
                record({"name": "d", "type": {"type": "fixed", "name": "F", "size": 2}, "default": default}),
                "",
                {"d": value},
            )
            for default, value in (("ab", b"ab"), ("a", b"a\0"), ("abc", b"ab"), ("", b"\0\0"))
        ),
        (
            record(),
            record({"name": "d", "type": {"type": "map", "values": "int"}, "default": {"k": 1}}),
            "",
            {"d": [("k", 1)]},
        ),
        (
            record({"type": "array", "items": "string"}, "int"),
            record({"name": "f1", "type": "int"}),
            "030402610004",
            {"f1": 2},
        ),
        (
            record({"type": "enum", "name": "E", "symbols": []}, "int"),
            record({"name": "f1", "type": "int"}),
            "7e04",
            {"f1": 2},
        ),
        *(
            (record(skipped, "int"), record({"name": "f1", "type": "int"}), f"{data}04", {"f1": 2})
            for skipped, data in (
                (record(["string", "null"], name="I"), "8200"),
                (["string", "null"], "02"),
                ({"type": "map", "values": "null"}, "02026b00"),
            )
        ),
        (["null", "boolean", "int"], ["null", "boolean"], "0202", False),
        (["null", "int"], ["null", "string"], "00", None),
        (
            record(record({"name": "old", "type": "int"}, name="I")),
            record(record({"name": "new", "type": "int", "aliases": ["old"]}, name="I")),
            "04",
            {"f0": {"new": 2}},
        ),
        (record(), record({"name": "d", "type": "string", "default": "\ud800"}), "", {"d": "?"}),
    ],
)
def test_resolution(writer: Any, reader: Any, message: str, value: Any) -> None:
    assert read(message, writer, reader) == value


@pytest.mark.parametrize(
    ("writer", "reader", "message", "reason"),
    [
        ("long", "int", "04", "Found long, expecting int"),
        ("int", "string", "04", "Found int, expecting string"),
        ("int", ["null", "string"], "04", "Found int, expecting string: the column is STRING"),
        (["null", "int"], "int", "00", "Found null, expecting int"),
        (record("int"), record("int", "int"), "04", "missing required field f1"),
        (record("int"), record({"name": "F0", "type": "int"}), "04", "missing required field F0"),
        (
            record({"name": "old", "type": "int", "aliases": ["new"]}),
            record({"name": "new", "type": "int"}),
            "04",
            "missing",
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            "string",
            "00",
            "Found enum E, expecting string: the column is STRING",
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            {"type": "enum", "name": "E", "symbols": ["B"]},
            "00",
            "No match for A",
        ),
        ({"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}, "0000", "Found fixed F"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]},
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "aliases": ["b"]}]},
            "0202",
            "two fields the same name",
        ),
        (
            record(),
            record({"name": "d", "type": {"type": "enum", "name": "E", "symbols": ["A"]}, "default": "B"}),
            "",
            "the default of field d can't be used: B is not in the enum symbol set",
        ),
    ],
)
def test_a_mismatch_is_an_error_of_its_messages(writer: Any, reader: Any, message: str, reason: str) -> None:
    assert reason in error(message, writer, reader)


@pytest.mark.parametrize(
    ("kind", "message", "reason"),
    [
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "01", "there is no enum symbol -1"),
        (
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 5},
            "0000",
            "a value has 4 bytes, but the message has only 2 left",
        ),
    ],
)
def test_a_value_that_is_not_there_is_an_error_of_its_message(kind: Any, message: str, reason: str) -> None:
    assert reason in error(message, kind)


# --- names -----------------------------------------------------------------------------------------------


def _named(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": ["A", "B"], **more}


def _fixed(name: str, size: int = 1) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


def _rec(name: str, *types: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{i}", "type": t} for i, t in enumerate(types)]}


@pytest.mark.parametrize(
    ("writer", "reader", "message", "value"),
    [  # without a union of the reader: without the namespace
        (_named("a.E"), _named("b.E"), "02", "B"),
        (_fixed("a.F"), _fixed("F"), "61", b"a"),
        (["null", _named("a.E")], _named("b.E"), "0202", "B"),
        (_rec("R", _fixed("a.F")), _rec("S", _fixed("b.F")), "61", {"f0": b"a"}),
        # two unions that only differ in namespaces: branch by branch
        (["null", _named("a.E")], ["null", _named("b.E")], "0202", "B"),
        ([_named("a.E"), "null"], [_named("b.E", default="A"), "null"], "0002", "B"),
        (["null", _fixed("a.F")], ["null", _fixed("b.F")], "0261", b"a"),
        ([_fixed("a.F")], [_fixed("c.F")], "0061", b"a"),
        (
            _rec("a.R", ["null", {"type": "map", "values": ["null", _fixed("a.F")]}]),
            _rec("b.R", ["null", {"type": "map", "values": ["null", _fixed("b.F")]}]),
            "0202026b026100",
            {"f0": [("k", b"a")]},
        ),
        (
            ["null", _rec("a.R", "int", _named("a.E"))],
            ["null", _rec("b.R", "int", _named("b.E"))],
            "020602",
            {"f0": 3, "f1": "B"},
        ),
        # any other union: by the full name or an alias of the reader
        (_named("a.E"), ["null", _named("a.E")], "02", "B"),
        (_named("a.E"), ["null", _named("b.F", aliases=["a.E"])], "02", "B"),
        (["null", _named("a.E"), "int"], ["null", _named("a.E")], "0202", "B"),
    ],
)
def test_names_of_enums_and_fixed(writer: Any, reader: Any, message: str, value: Any) -> None:
    assert read(message, writer, reader) == value


@pytest.mark.parametrize(
    ("writer", "reader", "message"),
    [
        (_named("a.E"), _named("a.F"), "02"),
        (_named("a.E"), ["null", _named("b.E")], "02"),
        (_fixed("a.F"), ["null", _fixed("b.F")], "61"),
        (["null", _named("a.E")], [_named("b.E"), "null"], "0202"),
        (["null", _named("a.E"), "int"], ["null", _named("b.E")], "0202"),
        (["null", _named("a.E")], ["null", _named("b.E", symbols=["A", "B", "C"])], "0202"),
        (["null", _fixed("a.F", 1)], ["null", _fixed("b.F", 2)], "0261"),
        (["null", _rec("R", "int"), _fixed("a.F")], ["null", _fixed("b.F")], "0461"),
    ],
)
def test_different_names_of_enums_and_fixed(writer: Any, reader: Any, message: str) -> None:
    assert "Found" in error(message, writer, reader)


def test_unions_in_recursive_records_match_branch_by_branch() -> None:
    def tree(space: str) -> Any:
        leaf = {"type": "enum", "name": f"{space}.E", "symbols": ["A", "B"]}
        own = {"type": "array", "items": ["null", f"{space}.R"]}
        return _rec(f"{space}.R", ["null", leaf], own)

    w, r = schema_of(tree("a")), schema_of(tree("b"))
    assert _Resolver(w, r, False)._equivalent(w, r, {})
    assert not _Resolver(w, r, False)._equivalent(w, schema_of(_rec("b.R", ["null", "int"])), {})


def test_a_mismatch_only_affects_messages_that_have_it() -> None:
    writer, reader = schema_of(["null", "int", "string"]), schema_of(["null", "int"])
    decoded = decode(array("00", "0204", "040261"), writer, reader)
    assert decoded.values.to_pylist() == [None, 2, None]
    expected = "[INCOMPATIBLE_SCHEMA] Found string, expecting int: the column is INT, SMALLINT or TINYINT"
    assert texts(decoded) == [
        None,
        None,
        f"{expected}. No column reads all values of [null, int, string]: leave it out",
    ]


_MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
_MICROS = {"type": "long", "logicalType": "timestamp-micros"}
_NANOS = {"type": "long", "logicalType": "local-timestamp-nanos"}
_TIME = {"type": "int", "logicalType": "time-millis"}
_TIME_MICROS = {"type": "long", "logicalType": "time-micros"}


def _long_of(decoded: Decoded) -> list[int | None]:
    numbers: list[int | None] = decoded.values.view(pa.int64()).to_pylist()
    return numbers


@pytest.mark.parametrize(
    ("writer", "reader", "number", "converted"),
    [
        (_MICROS, _MILLIS, -1, -1),
        (_MICROS, _MILLIS, 1999, 1),
        (_MILLIS, _NANOS, -2, -2_000_000),
        (_NANOS, _MICROS, 1500, 1),
        (_TIME, _TIME_MICROS, 7, 7000),
        ("long", _MILLIS, 7, 7),
    ],
)
def test_units(writer: Any, reader: Any, number: int, converted: int) -> None:
    kind = pa.int32() if writer == _TIME else pa.int64()
    w, r = schema_of(writer), schema_of(reader)
    messages = encode(pa.array([number] * 3, kind).cast(w.arrow_type), w).messages
    assert _long_of(decode(messages, w, r)) == [converted] * 3


def test_numbers_out_of_range_after_unit_conversion() -> None:
    assert "out of range" in error("feffffffffffffffff01", _MILLIS, _NANOS)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_number_that_fits_after_unit_conversion_is_read_and_one_more_is_an_error(sign: int) -> None:
    most = (2**63 - 1) // 10**6
    writer, reader = schema_of(_MILLIS), schema_of(_NANOS)
    values = pa.array([sign * most, sign * (most + 1), sign * most], pa.int64())
    messages = encode(values, schema_of("long")).messages
    found = decode(messages, writer, reader)
    assert [text is None for text in texts(found)] == [True, False, True]
    assert f"{sign * (most + 1) * 10**6} is out of range" in str(texts(found)[1])
    assert found.values.view(pa.int64()).to_pylist() == [sign * most * 10**6, None, sign * most * 10**6]


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


@pytest.mark.parametrize(("precision", "scale"), [(10, 2), (25, 3), (38, 10)])
def test_decimals_with_different_scales(precision: int, scale: int) -> None:
    reader = _decimal(precision, scale)
    assert read("06013880", _decimal(9, 4), reader) == Decimal("8.00")
    assert read("06013880", _decimal(9, 0), reader) == Decimal(80000)


def test_decimals_that_would_lose_digits() -> None:
    lost = error("06013881", _decimal(9, 4), _decimal(10, 2))
    assert "digits after the decimal point" in lost
    assert "OUT_OF_RANGE" in lost


def test_a_decimal_without_bytes_is_malformed() -> None:
    assert "MALFORMED" in error("00", _decimal(9, 4), _decimal(10, 2))


def test_decimals_with_too_many_digits_are_null() -> None:
    assert read("0403e804", record(_decimal(3, 0), "int")) == {"f0": None, "f1": 2}


def test_a_default_with_too_many_digits_is_an_error() -> None:
    reader = record({"name": "d", "type": _decimal(3, 0), "default": "\u0003\u00e8"})
    assert "the default of field d can't be used: a decimal has more digits than decimal(3, 0)" in error(
        "", record(), reader
    )


@pytest.mark.parametrize("node", ["null", ["null"], ["null", "int", "string"], ["int", "string"], _decimal(39, 2)])
def test_types_that_no_column_has(node: Any) -> None:
    for reader in (node, record(node), {"type": "array", "items": node}):
        with pytest.raises(SchemaError, match="no column of a table has the Avro type"):
            plan(schema_of(node), schema_of(reader))


_ENUM = {"type": "enum", "name": "E", "symbols": ["A", "BC"]}
_FIXED = {"type": "fixed", "name": "F", "size": 2}


@pytest.mark.parametrize(
    ("writer", "reader", "message", "value"),
    [
        (_ENUM, "string", "02", "BC"),
        (_ENUM, ["null", "string"], "00", "A"),
        (["null", _ENUM], ["null", "string"], "0202", "BC"),
        (["null", _ENUM], ["null", "string"], "00", None),
        (_FIXED, "bytes", "0aff", b"\x0a\xff"),
        (["null", _FIXED], ["null", "bytes"], "020aff", b"\x0a\xff"),
        (
            _FIXED | {"logicalType": "decimal", "precision": 4, "scale": 2},
            ["null", _decimal(4, 2)],
            "0101",
            Decimal("2.57"),
        ),
        ({"type": "array", "items": _ENUM}, {"type": "array", "items": "string"}, "0400 0200", ["A", "BC"]),
    ],
)
def test_enums_and_fixed_as_plain_types(writer: Any, reader: Any, message: str, value: Any) -> None:
    assert read(message, writer, reader, plain=True) == value
    if message != "00":
        assert "Found" in error(message, writer, reader)


@pytest.mark.parametrize("precision", [5, 18, 19, 38])
@pytest.mark.parametrize("fixed", [False, True])
def test_decimals_at_their_bounds(precision: int, fixed: bool) -> None:
    node = _decimal(precision, 2)
    if fixed:
        node |= {"type": "fixed", "name": "D", "size": 32}
    schema = schema_of(node)
    most = Decimal((0, (9,) * precision, -2))
    values = pa.array(
        [most, most.copy_negate(), Decimal("0.00"), Decimal("-1.28"), Decimal("1.28")] * 10, schema.arrow_type
    )
    encoded = encode(values, schema)
    assert encoded.errors is None
    assert decode(encoded.messages, schema).values.equals(values)
    number = 10**precision
    data = number.to_bytes(32, "big", signed=True)
    assert read(data if fixed else b"\x40" + data, node) is None


def test_messages_with_several_writer_schemas() -> None:
    writers = [record("int"), record("string", {"name": "f0", "type": "long"}), record({"name": "x", "type": "int"})]
    writers[1]["fields"][0]["name"] = "text"
    reader = schema_of(record(["null", "double"]))
    one, two, three = bytes.fromhex("04"), bytes.fromhex("026106"), bytes.fromhex("08")
    messages = array(*[one, two, None, three, b"", two] * MANY)
    which = np.array([0, 1, 1, -1, 1, 2] * MANY)
    schemas = [schema_of(writer) for writer in writers]
    decoded = decode_mixed(messages, schemas, which, reader)
    errors = ["missing required field f0" in error if error else None for error in texts(decoded)]
    assert errors == [None, None, None, None, False, True] * MANY
    assert decoded.values.to_pylist() == [{"f0": 2.0}, {"f0": 3.0}, None, None, None, None] * MANY
